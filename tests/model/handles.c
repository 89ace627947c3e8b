// SPDX-License-Identifier: BSD-2-Clause
/*
 * handles.c - see handles.h. Every rank knows every handle ever given out, and may use or destroy
 * it at any time. Checked: a name is given out once; an operation on a handle applies to the object
 * that was made with it, if that object still exists, and is refused once its destruction has been
 * granted; an index whose names are used up is not used again.
 */
#include "worlds.h"

#include "channel.h"
#include "core/dispatch.h"

#define RANKS 3
#define PLACES 3 /* index 0 is none */
#define MADE 4   /* number of objects ever made */

enum pc { PC_READY = 0, PC_CREATE, PC_ADD, PC_DESTROY, PC_LOCK, PC_INSIDE };

struct thread {
	uint8_t pc, left, which;
};

struct made {
	uint64_t name;
	uint8_t alive, added, holder; /* the specification */
};

struct world {
	struct object_list list;
	struct sync table[PLACES + 1];
	struct hold holds[RANKS];
	uint64_t asks[RANKS];
	struct thread threads[RANKS];
	uint8_t nmade;
	struct made made[MADE];
	struct chan chan; /* .object: handle + 1 */
};

enum event { EV_CREATE = 1, EV_USE, EV_DESTROY, EV_UNLOCK, EV_GIVE, EV_MSG };

static uint32_t event(enum event e, unsigned int a, unsigned int b)
{
	return (uint32_t)e << 16 | a << 8 | b;
}

static void start(const void *c, void *world)
{
	const struct handle_cfg *cfg = c;
	struct world *w = world;
	unsigned int i;

	for (i = 0; i < cfg->nnodes; i++)
		w->threads[i].left = cfg->ops[i];
	for (i = 1; i <= cfg->places; i++)
		w->table[i].gen = cfg->gen & OBJECT_GEN_MAX;
}

static bool keeps(const struct world *w, unsigned int r, unsigned int made)
{
	const struct hold *h = &w->holds[r];

	return h->state == HOLD_CACHED && h->object == (uint32_t)w->made[made].name &&
		h->gen == (uint16_t)(w->made[made].name >> 32);
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct handle_cfg *cfg = c;
	const struct world *w = world;
	unsigned int n = 0, r, i;

	for (r = 0; r < cfg->nnodes; r++) {
		const struct thread *t = &w->threads[r];

		if (t->pc == PC_INSIDE)
			events[n++] = event(EV_UNLOCK, r, 0);
		if (w->holds[r].state == HOLD_CACHED && cfg->give)
			events[n++] = event(EV_GIVE, r, 0);
		if (t->pc != PC_READY || !t->left ||
		    (w->holds[r].state != HOLD_FREE && w->holds[r].state != HOLD_CACHED))
			continue;
		if (w->nmade < MADE)
			events[n++] = event(EV_CREATE, r, 0);
		for (i = 0; i < w->nmade; i++) {
			/*
			 * There is one record: it must give back its lock before it is used for
			 * another.
			 */
			if (w->holds[r].state == HOLD_FREE || keeps(w, r, i))
				events[n++] = event(EV_USE, r, i);
			events[n++] = event(EV_DESTROY, r, i);
		}
	}
	for (i = 0; i < w->chan.n; i++)
		if (chan_next(&w->chan, i, cfg->fifo))
			events[n++] = event(EV_MSG, i, 0);
	return n;
}

/* Does the message carry the whole name of the object? */
static bool named(uint8_t type)
{
	return type == MSG_UNLOCK || type == MSG_RECALL || type == MSG_RECALLED;
}

/* Replace the full name by the handle's number; every part of the name must have arrived. */
static void post(struct world *w, const struct msg *m, unsigned int handle)
{
	struct wmsg s = { .type = m->type,
			  .op = m->op,
			  .src = (uint8_t)m->src,
			  .dst = (uint8_t)m->dst,
			  .object = (uint8_t)handle,
			  .req_node = (uint8_t)m->dst,
			  .home = 1,
			  .count = (int8_t)m->count,
			  .value = (uint8_t)m->value };
	uint64_t name = handle ? w->made[handle - 1].name : 0;

	if (m->object != (uint32_t)name ||
	    (named(m->type) && m->req_node != (uint16_t)(name >> 32)))
		model_fail("%s names %#x.%#x", wire_name(m->type), m->req_node, m->object);
	if (m->aux > (m->type == MSG_SYNC ? SYNC_ATOMIC : 0))
		model_fail("%s has record %u", wire_name(m->type), m->aux);
	if (m->type == MSG_NEXT)
		s.req_node = (uint8_t)m->req_node;
	chan_post(&w->chan, &s);
}

static void ask(struct world *w, unsigned int r, uint8_t type, uint8_t op, unsigned int handle)
{
	struct msg m = { .version = WIRE_VERSION, .type = type, .op = op, .src = (uint16_t)r };

	if (handle)
		object_address(&m, w->made[handle - 1].name);
	if (type == MSG_LOCK)
		hold_begin(&w->holds[r], &m);
	else
		ask_note(&w->asks[r], &m);
	w->threads[r].which = (uint8_t)handle;
	post(w, &m, handle);
}

/* ---- the specification ----------------------------------------------------------------------- */

static void made(struct world *w, const struct msg *reply)
{
	unsigned int i;

	if (reply->count) {
		if (reply->count != -ENOSPC)
			model_fail("creation is answered %d", reply->count);
		return;
	}
	for (i = 0; i < w->nmade; i++)
		if ((w->made[i].name & SYNC_INDEX_MAX) == (reply->value & SYNC_INDEX_MAX) &&
		    w->made[i].name >= reply->value)
			model_fail("name %#llx is given out after %#llx",
				   (unsigned long long)reply->value,
				   (unsigned long long)w->made[i].name);
	if (w->nmade == MADE) {
		model_fail("more objects than were asked for");
		return;
	}
	w->made[w->nmade++] = (struct made){ .name = reply->value, .alive = 1 };
}

/* The home sends one answer. */
static void judge(struct world *w, const struct wmsg *m, const struct msg *a)
{
	struct made *o = m->object ? &w->made[m->object - 1] : NULL;
	bool gone = a->count == -EINVAL;

	if (m->type == MSG_UNLOCK || !o || a->type == MSG_RECALL)
		return;
	if (gone == o->alive)
		model_fail("%s of %s object is answered %d",
			   m->type == MSG_SYNC ? sync_op_name(m->op) : wire_name(m->type),
			   o->alive ? "a living" : "a gone", a->count);
	if (m->type == MSG_SYNC && m->op == SOP_DESTROY && !a->count)
		o->alive = 0;
	if (m->type == MSG_SYNC && m->op == SOP_ADD && !a->count && a->value != o->added++)
		model_fail("an addition found %llu instead of %u", (unsigned long long)a->value,
			   o->added - 1u);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void answered(struct world *w, unsigned int r, const struct wmsg *m)
{
	struct thread *t = &w->threads[r];

	if (m->count == -EINPROGRESS) {
		*t = (struct thread){ .left = t->left }; /* it repeats its request */
		return;
	}
	if (t->pc == PC_LOCK && !m->count) {
		t->pc = PC_INSIDE;
		w->made[t->which - 1].holder++;
		if (w->made[t->which - 1].holder > 1 || !w->made[t->which - 1].alive)
			model_fail("rank %u has the lock, which %u have, and which is %s", r,
				   w->made[t->which - 1].holder,
				   w->made[t->which - 1].alive ? "alive" : "gone");
		return;
	}
	*t = (struct thread){ .left = (uint8_t)(t->left - 1) };
}

static void carry_out(struct world *w, const struct wmsg *m, const struct actions *out)
{
	const struct wmsg destroy = { .type = MSG_SYNC, .op = SOP_DESTROY, .object = m->object };
	unsigned int i;

	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];

		if (a->type == ACT_SEND) {
			if (m->dst == 0 &&
			    (m->type == MSG_SYNC || m->type == MSG_LOCK || m->type == MSG_UNLOCK) &&
			    a->msg.type != MSG_NEXT)
				judge(w, m, &a->msg);
			if (m->type == MSG_RECALLED && a->msg.type == MSG_REPLY)
				judge(w, &destroy, &a->msg);
			if (m->type == MSG_SYNC && m->op == SOP_CREATE)
				made(w, &a->msg);
			post(w, &a->msg, m->object);
		} else if (a->type == ACT_REPLY) {
			answered(w, m->dst, m);
		} else if (a->type == ACT_WAKE) {
			struct wmsg status = { .count = (int8_t)a->status };

			answered(w, m->dst, &status);
		} else {
			model_fail("action %u", a->type);
		}
	}
}

static void deliver(const struct handle_cfg *cfg, struct world *w, unsigned int index)
{
	struct wmsg m = chan_take(&w->chan, index);
	uint64_t name = m.object ? w->made[m.object - 1].name : 0;
	struct msg wide = { .version = WIRE_VERSION,
			    .type = m.type,
			    .op = m.op,
			    .src = m.src,
			    .dst = m.dst,
			    .count = m.count,
			    .value = m.value,
			    .object = (uint32_t)name,
			    .req_node = m.req_node };
	const struct objects all = { .list = &w->list,
				     .flat = w->table,
				     .limit = cfg->places + 1u };
	struct queue_entry nodes[RANKS] = { 0 };
	struct dispatch at = { .me = m.dst,
			       .nnodes = RANKS,
			       .queue = { nodes, 1, NULL },
			       .objects = &all,
			       .ask = &w->asks[m.dst],
			       .hold = &w->holds[m.dst] };
	struct actions out;
	uint32_t number, missing;
	enum target t;
	int err;

	if (m.type == MSG_SYNC || m.type == MSG_LOCK || named(m.type))
		wide.req_node = (uint16_t)(name >> 32);
	if (m.type == MSG_SYNC)
		wide.aux = m.op == SOP_CREATE ? cfg->lock ? SYNC_MUTEX : SYNC_ATOMIC : 0,
		wide.value = m.op == SOP_ADD;
	t = dispatch_target(&wide, &number);
	if (t == TARGET_CREATE) {
		number = at.index = objects_take(&all, &missing);
		if (number)
			w->table[number].gen = (w->table[number].gen + cfg->skip) & OBJECT_GEN_MAX;
	}
	if (t == TARGET_CREATE || t == TARGET_OBJECT)
		at.object = objects_at(&all, number);
	err = dispatch_step(&at, &wide, &out);
	if (err)
		model_fail("rank %u does not expect %s of %u (%d)", m.dst, wire_name(m.type), m.src,
			   err);
	else
		carry_out(w, &m, &out);
}

static void local(struct world *w, unsigned int r, enum hold_event ev)
{
	const struct hold *h = &w->holds[r];
	struct wmsg m = { .type = MSG_NONE };
	struct actions out;

	for (m.object = 1; m.object < w->nmade; m.object++)
		if (h->object == (uint32_t)w->made[m.object - 1].name &&
		    h->gen == (uint16_t)(w->made[m.object - 1].name >> 32))
			break;
	if (hold_thread(&(struct hold_ctx){ .me = (uint16_t)r }, 0, &w->holds[r], ev, NULL, &out))
		model_fail("rank %u cannot %s", r, hold_event_name(ev));
	else
		carry_out(w, &m, &out);
}

static void unlock(struct world *w, unsigned int r)
{
	struct thread *t = &w->threads[r];

	w->made[t->which - 1].holder--;
	*t = (struct thread){ .left = (uint8_t)(t->left - 1) };
	local(w, r, HE_UNLOCK);
}

static void fire(const void *c, void *world, uint32_t ev)
{
	static const char *const names[] = { "",         "creates", "uses",
					     "destroys", "unlocks", "gives back" };
	unsigned int a = ev >> 8 & 0xff, b = ev & 0xff;
	const struct handle_cfg *cfg = c;
	struct world *w = world;

	if (ev >> 16 == EV_MSG) {
		deliver(cfg, w, a);
		return;
	}
	model_say("rank %u %s handle %u\n", a, names[ev >> 16], b);
	switch ((enum event)(ev >> 16)) {
	case EV_CREATE:
		w->threads[a].pc = PC_CREATE;
		ask(w, a, MSG_SYNC, SOP_CREATE, 0);
		break;
	case EV_USE:
		w->threads[a].pc = cfg->lock ? PC_LOCK : PC_ADD;
		if (keeps(w, a, b)) {
			const struct wmsg ok = { 0 };

			w->threads[a].which = (uint8_t)(b + 1);
			local(w, a, HE_TAKE);
			answered(w, a, &ok);
			break;
		}
		ask(w, a, cfg->lock ? MSG_LOCK : MSG_SYNC, cfg->lock ? 0 : SOP_ADD, b + 1);
		break;
	case EV_DESTROY:
		w->threads[a].pc = PC_DESTROY;
		ask(w, a, MSG_SYNC, SOP_DESTROY, b + 1);
		break;
	case EV_GIVE: local(w, a, HE_GIVE); break;
	default: unlock(w, a); break;
	}
}

static void canon(const void *c, void *world)
{
	const struct handle_cfg *cfg = c;
	struct world *w = world;
	unsigned int r;

	chan_canon(&w->chan, cfg->fifo);
	w->list.free &= UINT32_MAX; /* the counter of changes only matters for concurrent changes */
	for (r = 0; r < cfg->nnodes; r++)
		if (w->holds[r].state == HOLD_FREE)
			w->holds[r] = (struct hold){ 0 };
}

static void check(const void *c, const void *world)
{
	const struct handle_cfg *cfg = c;
	const struct world *w = world;
	unsigned int i, living = 0, kinds = 0;

	for (i = 0; i < w->nmade; i++)
		living += w->made[i].alive;
	for (i = 1; i <= cfg->places; i++)
		kinds += w->table[i].kind != SYNC_NONE;
	if (living != kinds)
		model_fail("%u objects live, and the table has %u", living, kinds);
}

static bool final(const void *c, const void *world)
{
	const struct handle_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r;

	for (r = 0; r < cfg->nnodes; r++)
		if (w->threads[r].pc != PC_READY || w->threads[r].left)
			return false;
	return !w->chan.n;
}

static void show(const void *c, const void *world)
{
	const struct handle_cfg *cfg = c;
	const struct world *w = world;
	unsigned int i;

	for (i = 1; i <= cfg->places; i++)
		model_say("    place %u: %s, generation %#x\n", i, sync_kind_name(w->table[i].kind),
			  w->table[i].gen);
	for (i = 0; i < w->nmade; i++)
		model_say("    handle %u: %#llx, %s, added %u\n", i,
			  (unsigned long long)w->made[i].name, w->made[i].alive ? "alive" : "gone",
			  w->made[i].added);
	for (i = 0; i < cfg->nnodes; i++)
		model_say("    rank %u: pc %u, %u to do, record %s\n", i, w->threads[i].pc,
			  w->threads[i].left, hold_state_name(w->holds[i].state));
}

const struct model handle_model = MODEL(struct world);

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* host.c - see host.h. The comments of action.h say what each action means. */
#include "core/host_release.h"

/* ---- steps of messages ---------------------------------------------------------------------- */

/*
 * Does this node still wait for contents of that request? Read without the lock: a false yes costs
 * a copy.
 */
static bool may_land(const struct core_host *h, const struct copy *p, const struct msg *m)
{
	struct copy seen = { .state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE),
			     .slot = __atomic_load_n(&p->slot, __ATOMIC_RELAXED) };

	return page_asks(&seen) && seen.slot == m->req_slot && m->req_node == h->me;
}

/* From now on the contents must not be dropped until they are sent. */
static void note_leaves(struct core_host *h, uint32_t object, const struct actions *acts)
{
	unsigned int i;

	for (i = 0; h->ops->leaves && i < acts->n; i++)
		if (acts->v[i].type == ACT_DATA)
			h->ops->leaves(h, object);
}

static bool has_moved(const struct dir *d, uint16_t owner, uint8_t state)
{
	return d->owner != owner && d->state == DIR_EXCLUSIVE &&
		(state == DIR_SHARED || state == DIR_EXCLUSIVE);
}

static int step_locked(struct core_host *h, struct core_place *p, const struct msg *m,
		       struct actions *out)
{
	const uint16_t owner = p->d.dir->owner;
	const uint8_t state = p->d.dir->state;
	int err = dispatch_step(&p->d, m, out);

	if (err)
		return err;
	/* Before the grant is sent: its receiver must find it counted. */
	if (p->transfers && has_moved(p->d.dir, owner, state))
		__atomic_store_n(p->transfers, *p->transfers + 1, __ATOMIC_RELAXED);
	note_leaves(h, m->object, out);
	return 0;
}

/* A block without state here: whatever the step makes of a zeroed one is forgotten. */
static int step_nothing(struct core_host *h, struct core_place *p, const struct msg *m,
			struct actions *out)
{
	struct copy page = { 0 };
	struct dir dir = { 0 };
	int err;

	p->d.page = &page;
	p->d.dir = &dir;
	p->transfers = NULL;
	h->ops->lock(h, p->key);
	err = step_locked(h, p, m, out);
	h->ops->unlock(h, p->key);
	return err;
}

static int step_block(struct core_host *h, uint32_t number, const struct msg *m, const void *data,
		      struct actions *out)
{
	/* clearing it takes as long as a step: only what blocks need is set */
	struct core_place p CORE_UNINITIALIZED;
	int err;

	p.d.me = h->me;
	p.d.nnodes = h->nnodes;
	p.d.follow = h->follow;
	p.d.pushes = h->pushes;
	p.d.brief = h->brief;
	p.d.hold_us = h->hold_us;
	p.d.now = h->ops->now(h);
	p.d.rel = NULL;
	err = h->ops->find(h, TARGET_BLOCK, number, m, &p);
	if (err)
		return err;
	if (p.d.rel)
		return core_rel_message(h, &p, m, out);
	if (!p.d.page)
		return step_nothing(h, &p, m, out);
	/*
	 * Before the step: after it, another thread may handle the last acknowledgement and open
	 * the block.
	 */
	if (h->ops->land && m->type == MSG_DATA && m->count > 0 && m->op == GRANT_WRITE &&
	    may_land(h, p.d.page, m))
		h->ops->land(h, m, data);
	h->ops->lock(h, p.key);
	err = step_locked(h, &p, m, out);
	h->ops->unlock(h, p.key);
	return err;
}

static int find_other(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		      struct core_place *p)
{
	memset(p, 0, sizeof(*p));
	p->d.me = h->me;
	p->d.nnodes = h->nnodes;
	p->d.fast = h->fast;
	p->d.leases = h->leases;
	p->d.objects = &p->objects;
	return h->ops->find(h, target, number, m, p);
}

static int step_hold(struct core_host *h, struct core_place *p, uint32_t index, const struct msg *m,
		     struct actions *out)
{
	const uint32_t key = core_key_hold(index);
	uint8_t before;
	int err;

	h->ops->lock(h, key);
	before = p->d.hold->state;
	err = dispatch_step(&p->d, m, out);
	if (!err && hold_freed(before, p->d.hold))
		h->ops->freed(h, index, p->d.hold);
	h->ops->unlock(h, key);
	return err;
}

static int step_under(struct core_host *h, struct core_place *p, uint32_t key, const struct msg *m,
		      struct actions *out)
{
	int err;

	h->ops->lock(h, key);
	err = dispatch_step(&p->d, m, out);
	h->ops->unlock(h, key);
	return err;
}

static int step_other(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		      struct actions *out)
{
	struct core_place p CORE_UNINITIALIZED;
	int err = find_other(h, target, number, m, &p);

	if (err)
		return err;
	switch (target) {
	case TARGET_CREATE: return step_under(h, &p, p.d.index, m, out);
	case TARGET_OBJECT: return step_under(h, &p, number, m, out);
	case TARGET_BARRIER: return step_under(h, &p, core_key_barrier(number), m, out);
	case TARGET_HOLD: return step_hold(h, &p, number, m, out);
	case TARGET_CLOSING: return step_under(h, &p, core_key_closing(), m, out);
	default: return dispatch_step(&p.d, m, out);
	}
}

int core_step(struct core_host *h, const struct msg *m, const void *data, struct actions *out)
{
	uint32_t number;
	const enum target target = dispatch_target(m, &number);

	out->n = 0;
	switch (target) {
	case TARGET_BLOCK: return step_block(h, number, m, data, out);
	case TARGET_HOST:
	case TARGET_NONE: return -EBADMSG;
	default: return step_other(h, target, number, m, out);
	}
}

void core_deliver(struct core_host *h, const struct msg *m, const void *data)
{
	struct actions acts CORE_UNINITIALIZED;
	const int err = core_step(h, m, data, &acts);

	h->ops->stepped(h, m, err, &acts);
	if (!err && (m->type == MSG_FLUSHED || m->type == MSG_NOTED))
		core_carry_closing(h, &acts);
	else if (!err)
		core_carry_out(h, &acts, 0, m, data);
}

/* ---- actions -------------------------------------------------------------------------------- */

void core_block_sent(struct core_host *h, const struct msg *m)
{
	const struct msg done = data_done(m);

	if (data_is_brief(m))
		h->ops->send(h, &done);
}

void core_lowered(struct core_host *h, const struct msg *m, const void *contents)
{
	if (m->type == MSG_DATA) {
		h->ops->send_block(h, m, contents);
		core_block_sent(h, m);
	} else {
		h->ops->send(h, m);
	}
}

static void leave(struct core_host *h, uint8_t from, uint8_t to, const struct msg *m)
{
	const struct core_leave l = { .from = from, .to = to, .m = m };

	if (h->ops->lower(h, &l))
		core_lowered(h, m, NULL);
}

static void multicast(struct core_host *h, const struct action *a)
{
	const uint16_t n = h->nnodes, g = set_granule(n), not = a->msg.req_node;
	struct msg m = a->msg;
	uint16_t to;

	for (to = set_next(a->mask, 0, n, g, not, a->except); to < n;
	     to = set_next(a->mask, (uint16_t)(to + 1), n, g, not, a->except)) {
		m.dst = to;
		h->ops->send(h, &m);
	}
}

/* An event of the page that no thread causes. */
static void hand_back(struct core_host *h, enum page_event ev, uint32_t object, uint16_t slot)
{
	const struct msg about = { .object = object, .src = h->me, .dst = h->me, .req_slot = slot };

	core_page_event(h, ev, &about, NULL);
}

static void wake(struct core_host *h, const struct action *a, const struct msg *m)
{
	if (h->ops->wake(h, a, m))
		return;
	/* No thread waits: the grant counts as used, and the block may be taken away at once. */
	hand_back(h, PE_USED, m->object, a->slot);
	h->ops->unclaimed(h, a);
}

void core_carry_out(struct core_host *h, const struct actions *acts, unsigned int at,
		    const struct msg *m, const void *data)
{
	const struct core_ops *ops = h->ops;

	for (; at < acts->n; at++) {
		const struct action *a = &acts->v[at];

		switch ((enum act)a->type) {
		case ACT_SEND:
			if (core_releases(h, &a->msg))
				core_release(h, &a->msg);
			else
				ops->send(h, &a->msg);
			break;
		case ACT_RESUME: ops->send(h, &a->msg); break;
		case ACT_MCAST: multicast(h, a); break;
		case ACT_DATA: leave(h, a->from, a->prot, &a->msg); break;
		case ACT_CLOSE:
			if (++at < acts->n) /* not after PE_DROP, which has closed under the lock */
				leave(h, PROT_RO, PROT_CLOSED, &acts->v[at].msg);
			break;
		case ACT_OPEN:
			if (a->from != OPEN_AGAIN && !ops->open(h, acts, at, m, data))
				return;
			break;
		case ACT_WAKE: wake(h, a, m); break;
		case ACT_TIMER:
			/*
			 * Without memory, at once: a block that is lost too early is requested
			 * again.
			 */
			if (!ops->timer(h, m->object, a->at))
				hand_back(h, PE_REPLAY, m->object, 0);
			break;
		case ACT_WAKE_ALL: ops->wake_all(h, m->object); break;
		case ACT_REPLY: ops->answer(h, a); break;
		case ACT_FETCH: ops->fetch(h, a); break;
		case ACT_BLAME: ops->blame(h, a->node); break;
		case ACT_LAND: /* before the step */
		case ACT_WAIT: /* under the lock */
		case ACT_TWIN:
		case ACT_UNTWIN:
		case ACT_MERGE: break;
		case ACT_NOTICE: /* core/host_release.c */
		case ACT_TELL:
		case ACT_GATHER:
		case ACT_AFTER:
		case ACT_DELIVER:
		case ACT_DRAIN: break;
		}
	}
}

/* ---- events of this node -------------------------------------------------------------------- */

/* What must happen before the lock is dropped. */
static int act_locked(struct core_host *h, enum page_event ev, const struct msg *about,
		      const struct actions *acts, struct core_waiter *t)
{
	int result = CORE_ASKED;
	unsigned int i;

	for (i = 0; i < acts->n; i++) {
		const struct action *a = &acts->v[i];

		if (a->type == ACT_OPEN && a->from == OPEN_AGAIN) {
			result = h->ops->again(h, about->object, a->prot) ? CORE_FOLLOWED
									  : CORE_OPEN;
		} else if (a->type == ACT_WAIT && t) {
			t->wait = a->slot;
			t->seq = h->ops->answers(h, a->slot);
		} else if (a->type == ACT_CLOSE && ev == PE_DROP) {
			h->ops->drop(h, about->object);
			result = CORE_DROPPED;
		}
	}
	note_leaves(h, about->object, acts);
	return result;
}

int core_page_event(struct core_host *h, enum page_event ev, const struct msg *about,
		    struct core_waiter *t)
{
	struct page_ctx ctx = {
		.me = h->me, .nnodes = h->nnodes, .now = h->ops->now(h), .hold_us = h->hold_us
	};
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	int result, err;

	p.d.rel = NULL;
	result = h->ops->find(h, TARGET_BLOCK, about->object, about, &p);
	if (result)
		return result;
	if (p.d.rel)
		return core_rel_event(h, &p, ev, about, t);
	if (!p.d.page)
		return 0;
	if (ev == PE_USED && !t)
		ctx.hold_us = 0;
	h->ops->lock(h, p.key);
	err = page_step(&ctx, p.d.page, ev, about, &acts);
	if (!err)
		result = act_locked(h, ev, about, &acts, t);
	if (t && t->also)
		t->also(t->arg);
	h->ops->unlock(h, p.key);
	if (err)
		h->ops->damaged(h, about, ev, p.d.page->state);
	else
		core_carry_out(h, &acts, 0, about, NULL);
	return err ? err : result;
}

static struct hold_ctx hold_context(const struct core_host *h, const struct core_place *p)
{
	return (struct hold_ctx){ .me = h->me,
				  .passes = h->passes,
				  .claim = h->claim,
				  .fast = h->fast,
				  .queue = p->d.queue };
}

int core_hold_event(struct core_host *h, uint32_t index, enum hold_event ev,
		    const struct msg *about)
{
	const struct msg none = { .dst = h->me };
	const uint32_t key = core_key_hold(index);
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	struct hold_ctx ctx;
	uint8_t before;
	int err = find_other(h, TARGET_HOLD, index, &none, &p);

	if (err)
		return err;
	ctx = hold_context(h, &p);
	h->ops->lock(h, key);
	before = p.d.hold->state;
	err = hold_thread(&ctx, index, p.d.hold, ev, about, &acts);
	if (!err && hold_freed(before, p.d.hold))
		h->ops->freed(h, index, p.d.hold);
	h->ops->unlock(h, key);
	if (err)
		return err;
	core_carry_out(h, &acts, 0, &none, NULL);
	return (int)acts.n;
}

void core_hold_begin(struct core_host *h, uint32_t index, const struct msg *ask)
{
	const struct msg none = { .dst = h->me };
	const uint32_t key = core_key_hold(index);
	struct core_place p CORE_UNINITIALIZED;

	if (find_other(h, TARGET_HOLD, index, &none, &p))
		return;
	h->ops->lock(h, key);
	hold_begin(p.d.hold, ask);
	h->ops->unlock(h, key);
}

bool core_hold_want(struct core_host *h, const struct msg *next)
{
	const struct msg none = { .dst = h->me };
	const uint32_t key = core_key_hold(next->aux);
	struct core_place p CORE_UNINITIALIZED;
	bool wanted;

	if (find_other(h, TARGET_HOLD, next->aux, &none, &p))
		return false;
	h->ops->lock(h, key);
	wanted = hold_want(p.d.hold, next);
	h->ops->unlock(h, key);
	return wanted;
}

bool core_hold_leave(struct core_host *h, uint32_t index, uint16_t slot)
{
	const struct msg none = { .dst = h->me };
	const uint32_t key = core_key_hold(index);
	struct core_place p CORE_UNINITIALIZED;
	struct hold_ctx ctx;
	bool found;

	if (find_other(h, TARGET_HOLD, index, &none, &p))
		return false;
	ctx = hold_context(h, &p);
	h->ops->lock(h, key);
	found = hold_leave(&ctx, p.d.hold, slot);
	h->ops->unlock(h, key);
	return found;
}

int core_arrive(struct core_host *h, const struct msg *m, const struct bar_group *group,
		struct bar_part *part, uint32_t *gen)
{
	const uint32_t key = core_key_barrier(m->object);
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	int err = find_other(h, TARGET_BARRIER, m->object, m, &p);

	if (err)
		return err;
	p.d.group = group;
	if (part)
		p.d.part = part;
	h->ops->lock(h, key);
	err = dispatch_step(&p.d, m, &acts);
	*gen = (p.d.part ? p.d.part : &p.d.bar->part)->gen;
	h->ops->unlock(h, key);
	if (!err)
		core_carry_out(h, &acts, 0, m, NULL);
	return err;
}

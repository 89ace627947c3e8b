// SPDX-License-Identifier: BSD-2-Clause
/*
 * objects.c - see objects.h.
 *
 * A specification runs beside the state machine: which threads are in line, in which order, and
 * which were released by what. It must allow every answer. When nothing is in progress, every
 * thread that it allows to proceed must have proceeded. Threads act as hosts must by
 * docs/protocol.md: a wait that may be cancelled has two answers, "in line" and the final one.
 * SOP_CANCEL is sent after the first one, and always has its own answer. A cancelled thread sends
 * SOP_CANCEL without waiting for "in line", and repeats it as necessary.
 *
 * The object may be destroyed, which refuses all later requests. Earlier answers may still be in
 * flight then.
 *
 * With leases (core/lease.h), each node has a place for one, and a thread that reads uses it if it
 * can. The specification then lets a reader pass writers in line, but not one that has the lock.
 */
#include "worlds.h"

#include "channel.h"
#include "core/dispatch.h"
#include "core/lease.h"

#define RANKS 3
#define THREADS 2

enum pc {
	PC_READY = 0,
	PC_CALL,   /* waits for its only answer */
	PC_INSIDE, /* holds the reader-writer lock */
	PC_LINE,   /* waits for the first of two answers */
	PC_ANSWER, /* has one of them */
	PC_CANCEL, /* has sent SOP_CANCEL */
	PC_DROP,   /* the same, early: it is repeated until one of the two answers comes */
};

struct thread {
	uint8_t pc, use, left, answers;
	uint8_t meets; /* begun */
	uint8_t asks;  /* for a lease */
	int8_t status; /* status of the last answer */
};

struct waiter {
	uint8_t who; /* rank * THREADS + thread, + 1 */
	uint8_t op, free;
	uint8_t cancelled; /* SOP_CANCEL is answered when the leases are returned */
};

struct world {
	struct sync sync;
	struct queue_entry nodes[RANKS * THREADS];
	struct thread threads[RANKS][THREADS];
	struct waiter line[RANKS * THREADS]; /* the specification */
	uint8_t tokens, readers, writer, gone;
	uint64_t asks[RANKS][THREADS]; /* core/ask.h */
	struct lease leases[RANKS];
	struct chan chan;
};

#define OBJECT 0x23456789u
#define GEN (0x1234u << 8 | OBJECT >> 24)
#define INDEX (OBJECT & SYNC_INDEX_MAX)
#define LEASED_RANK 61u /* the last ranks that may have leases begin here */
#define LOCK 0x1234567800000001u

/* The home's table: the object is in it only during a step. */
static struct sync chunk[OBJECT_CHUNK],
	*chunks[SYNC_INDEX_MAX / OBJECT_CHUNK + 1] = { [INDEX / OBJECT_CHUNK] = chunk };

enum event { EV_USE = 1, EV_UNLOCK, EV_TIMEOUT, EV_MSG };

/* Ranks and objects as they are numbered in the job. */
static struct chan_names names(const struct obj_cfg *cfg)
{
	return (struct chan_names){ .rank = cfg->leases ? LEASED_RANK : WIRE_MAX_NODES - 3,
				    .ranks = cfg->nnodes,
				    .slot = CHAN_SLOT,
				    .slots = THREADS,
				    .object = OBJECT,
				    .objects = 1,
				    .value = 1 };
}

/* clang-format off */
static const uint8_t use_op[USES] = {
	[USE_READ] = SOP_RDLOCK, [USE_TRY_READ] = SOP_TRYRDLOCK,  [USE_TIMED_READ] = SOP_RDLOCK,
	[USE_WRITE] = SOP_WRLOCK, [USE_TRY_WRITE] = SOP_TRYWRLOCK, [USE_TIMED_WRITE] = SOP_WRLOCK, [USE_WAIT] = SOP_WAIT,
	[USE_TIMED] = SOP_WAIT,  [USE_TRY] = SOP_TRYWAIT,   [USE_POST] = SOP_POST,
	[USE_DROP] = SOP_WAIT,   [USE_POST2] = SOP_POST,  [USE_SIGNAL] = SOP_SIGNAL, [USE_BROADCAST] = SOP_BROADCAST,
	[USE_DESTROY] = SOP_DESTROY, [USE_MEET] = SOP_MEET,
};
/* clang-format on */

static bool reads(unsigned int use)
{
	return use == USE_READ || use == USE_TRY_READ || use == USE_TIMED_READ;
}

static bool writes(unsigned int use)
{
	return use == USE_WRITE || use == USE_TRY_WRITE || use == USE_TIMED_WRITE;
}

static bool timed(unsigned int use)
{
	return use == USE_TIMED || use == USE_TIMED_READ || use == USE_TIMED_WRITE;
}

static uint32_t event(enum event e, unsigned int a, unsigned int b, unsigned int c)
{
	return (uint32_t)e << 24 | a << 16 | b << 8 | c;
}

static void start(const void *c, void *world)
{
	const struct obj_cfg *cfg = c;
	struct world *w = world;
	unsigned int r, t;

	w->sync.kind = cfg->kind & 7;
	w->sync.gen = GEN;
	w->sync.value = w->tokens = cfg->initial;
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			w->threads[r][t].left = cfg->ops[r];
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct obj_cfg *cfg = c;
	const struct world *w = world;
	unsigned int n = 0, r, t, u;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++) {
			const struct thread *th = &w->threads[r][t];

			for (u = 0; u < USES && th->pc == PC_READY && th->left; u++)
				if (cfg->uses[r] >> u & 1)
					events[n++] = event(EV_USE, r, t, u);
			if (th->pc == PC_INSIDE)
				events[n++] = event(EV_UNLOCK, r, t, 0);
			if ((th->pc == PC_ANSWER && timed(th->use) && th->answers == 1) ||
			    (th->pc == PC_CALL && th->use == USE_DROP) ||
			    (th->pc == PC_DROP && th->answers == 1 && th->status == -EALREADY))
				events[n++] = event(EV_TIMEOUT, r, t, 0);
		}
	for (r = 0; r < w->chan.n; r++)
		if (chan_next(&w->chan, r, cfg->fifo))
			events[n++] = event(EV_MSG, r, 0, 0);
	return n;
}

static void request(const struct obj_cfg *cfg, struct world *w, unsigned int r, unsigned int t,
		    uint8_t op, uint8_t flags, uint8_t value)
{
	struct wmsg m = { .type = MSG_SYNC,
			  .op = op,
			  .flags = flags,
			  .src = (uint8_t)r,
			  .req_node = (uint8_t)r,
			  .req_slot = (uint8_t)t,
			  .value = value };
	struct chan_names n = names(cfg);
	struct msg wide = chan_widen(&n, &m);

	ask_note(&w->asks[r][t], &wide);
	chan_post(&w->chan, &m);
}

/* Lock for reading by a lease. */
static bool enter(const struct obj_cfg *cfg, struct world *w, unsigned int r, unsigned int t,
		  unsigned int u)
{
	struct thread *th = &w->threads[r][t];

	if (!cfg->leases || !reads(u) || !lease_enter(&w->leases[r], LOCK))
		return false;
	if (w->writer)
		model_fail("thread %u.%u enters by a lease beside a writer", r, t);
	w->readers++;
	th->use = (uint8_t)u;
	th->pc = PC_INSIDE;
	return true;
}

static void use(const struct obj_cfg *cfg, struct world *w, unsigned int r, unsigned int t,
		unsigned int u)
{
	struct thread *th = &w->threads[r][t];
	bool in_line = timed(u) || (cfg->kind == SYNC_COND && u == USE_WAIT);
	uint8_t op = cfg->kind == SYNC_COND && in_line ? SOP_ENQUEUE : use_op[u];
	uint8_t all = (uint8_t)(cfg->nnodes * cfg->nthreads);

	th->use = (uint8_t)u;
	th->meets = (uint8_t)(th->meets + (u == USE_MEET));
	th->pc = in_line ? PC_LINE : PC_CALL;
	th->answers = 0;
	th->asks = cfg->leases && u == USE_READ && lease_ask(&w->leases[r], LOCK, (uint16_t)t);
	request(cfg, w, r, t, op,
		th->asks           ? MSGF_LEASE
			: timed(u) ? MSGF_TIMED
				   : 0,
		u == USE_MEET            ? all
			: u == USE_POST2 ? 2
					 : u == USE_POST);
}

/* A thread has met the others: they have all come this time, too. */
static void has_met(const struct obj_cfg *cfg, const struct world *w, const struct thread *met)
{
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].meets < met->meets)
				model_fail("thread %u.%u has not come yet, and another goes on", r,
					   t);
}

/* A thread gets another answer. */
static void answered(const struct obj_cfg *cfg, struct world *w, const struct wmsg *m)
{
	struct thread *th = &w->threads[m->dst][m->req_slot];
	bool done = false, has = true;

	th->answers++;
	th->status = m->count;
	switch ((enum pc)th->pc) {
	case PC_CALL:
		done = true;
		has = !th->status;
		break;
	case PC_LINE:
		has = !th->status;
		done = !has;
		th->pc = PC_ANSWER;
		break;
	case PC_ANSWER: done = th->answers == 2; break;
	case PC_DROP: done = th->status == -ETIMEDOUT || th->answers == 2; break;
	case PC_CANCEL:
		has = th->answers == 3;
		done = has || (th->answers == 2 && th->status == -ETIMEDOUT);
		break;
	default:
		model_fail("thread %u.%u has an answer, but asked for nothing", m->dst,
			   m->req_slot);
		return;
	}
	if (!done)
		return;
	if (th->asks)
		lease_answered(&w->leases[m->dst], LOCK, m->req_slot,
			       has && m->value == SYNC_LEASED);
	if (th->use == USE_MEET && has)
		has_met(cfg, w, th);
	if (has && (reads(th->use) || writes(th->use)))
		th->pc = PC_INSIDE;
	else
		*th = (struct thread){ .left = (uint8_t)(th->left - 1), .meets = th->meets };
}

/* ---- the specification ----------------------------------------------------------------------- */

static unsigned int length(const struct world *w)
{
	unsigned int n = 0;

	while (n < RANKS * THREADS && w->line[n].who)
		n++;
	return n;
}

static void leave(struct world *w, unsigned int at)
{
	memmove(&w->line[at], &w->line[at + 1], (RANKS * THREADS - at - 1) * sizeof(w->line[0]));
	w->line[RANKS * THREADS - 1] = (struct waiter){ 0 };
}

static uint8_t who(const struct wmsg *m)
{
	return (uint8_t)(m->req_node * THREADS + m->req_slot + 1);
}

static bool may_go(const struct world *w, const struct waiter *l)
{
	switch (l->op) {
	case SOP_RDLOCK: return !w->writer;
	case SOP_TRYWRLOCK:
	case SOP_WRLOCK: return !w->writer && !w->readers;
	case SOP_WAIT: return w->tokens;
	default: return l->free;
	}
}

static void goes(struct world *w, const struct waiter *l)
{
	w->readers += l->op == SOP_RDLOCK;
	w->writer += l->op == SOP_WRLOCK || l->op == SOP_TRYWRLOCK;
	w->tokens -= l->op == SOP_WAIT;
}

static bool leased(const struct world *w)
{
	return w->sync.kind == SYNC_RWLOCK && w->sync.value;
}

/*
 * False if a node has a lease, a thread holds the object, is in line, or may be released by a
 * RESUME in flight.
 */
static bool destroyed(struct world *w)
{
	w->gone = !length(w) && !w->readers && !w->writer && !w->sync.pumping && !leased(w);
	return w->gone;
}

/* Does the lock wait for leases to be returned, as far as the home knows? */
static bool returns(const struct world *w)
{
	return leased(w) && !length(w) && !w->writer && (int32_t)w->sync.readers <= 0;
}

/* Has each waiter of a condition been woken? */
static bool ends(const struct world *w, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n && w->line[i].free; i++)
		;
	return w->sync.kind == SYNC_COND && w->sync.pumping && i == n;
}

/*
 * Apply a request to the specification. Returns the status of its own answer, or 1: it has only
 * queued.
 */
static int specify(struct world *w, const struct wmsg *m)
{
	unsigned int n = length(w), came = 1, i;
	struct waiter own;

	if (w->gone)
		return -EINVAL;
	switch (m->op) {
	case SOP_DESTROY:
		return destroyed(w) ? 0 : ends(w, n) || returns(w) ? -EINPROGRESS : -EBUSY;
	case SOP_RDLOCK:
	case SOP_WRLOCK:
	case SOP_WAIT:
	case SOP_ENQUEUE: w->line[n] = (struct waiter){ .who = who(m), .op = m->op }; return 1;
	case SOP_TRYWAIT:
		if (n || !w->tokens)
			return -EAGAIN;
		w->tokens--;
		return 0;
	case SOP_TRYRDLOCK:
	case SOP_TRYWRLOCK:
		own = (struct waiter){ .op = m->op == SOP_TRYRDLOCK ? SOP_RDLOCK : SOP_WRLOCK };
		if (m->op == SOP_TRYWRLOCK && returns(w)) {
			w->line[0] = (struct waiter){ .who = who(m), .op = m->op };
			return 1;
		}
		if (n || !may_go(w, &own))
			return -EBUSY;
		goes(w, &own);
		return 0;
	case SOP_POST: w->tokens += m->value; return 0;
	case SOP_SIGNAL:
	case SOP_BROADCAST:
		for (i = 0; i < n; i++)
			if (!w->line[i].free) {
				w->line[i].free = 1;
				if (m->op == SOP_SIGNAL)
					break;
			}
		return 0;
	case SOP_MEET:
		for (i = 0; i < n; i++)
			came += !w->line[i].free;
		if (came < m->value) {
			w->line[n] = (struct waiter){ .who = who(m), .op = m->op };
			return 1;
		}
		for (i = 0; i < n; i++)
			w->line[i].free = 1;
		return 0;
	case SOP_CANCEL:
		for (i = 0; i < n; i++)
			if (w->line[i].who == who(m) && !w->line[i].free) {
				if (!i && w->line[0].op == SOP_WRLOCK && leased(w) &&
				    (int32_t)w->sync.readers <= 0) {
					w->line[0].cancelled = 1;
					return 1;
				}
				leave(w, i);
				return -ETIMEDOUT;
			}
		return -EALREADY;
	default: /* unlock */
		w->readers -= m->op == SOP_RDUNLOCK;
		w->writer -= m->op == SOP_WRUNLOCK;
		return 0;
	}
}

/* The value in the answer to a signal. Called after specify(). */
static unsigned int found(const struct world *w)
{
	unsigned int n = length(w), i;

	for (i = 0; i < n && !w->line[i].free; i++)
		;
	return i < n ? SYNC_FOUND : 0;
}

/* The answer to one that has waited for leases to be returned, and cannot have the lock. */
static int in_vain(const struct waiter *l)
{
	return l->op == SOP_TRYWRLOCK ? -EBUSY : l->cancelled ? -ETIMEDOUT : 0;
}

/* Check the answers of one step. own: the result of specify(), or 1 if the step was a RESUME. */
static void judge(const struct chan_names *n, struct world *w, const struct wmsg *m,
		  const struct actions *out, int own)
{
	unsigned int i;
	uint8_t late = 0; /* has its turn, and the answer to SOP_CANCEL is to follow */

	for (i = 0; i < out->n; i++) {
		struct msg wide = out->v[i].msg;
		struct wmsg a;

		if (wide.type == MSG_RESUME || wide.type == MSG_REVOKE) {
			/* of no request; req_node is part of the object's name */
			if (wide.req_node != GEN >> 8)
				model_fail("%s of generation %#x",
					   wide.type == MSG_RESUME ? "a turn" : "a recall",
					   wide.req_node);
			wide.req_node = (uint16_t)n->rank;
			wide.req_slot = (uint16_t)n->slot;
		}
		a = chan_narrow(n, &wide);

		chan_post(&w->chan, &a);
		if (a.type != MSG_REPLY || (a.value == 1 && !a.count))
			continue;
		if (own <= 0 && who(&a) == who(m)) {
			if (a.count != own)
				model_fail("%s is answered %d instead of %d", sync_op_name(m->op),
					   a.count, own);
			if (returns(w) && own == -EINPROGRESS && !(w->sync.writer & RW_RECALLS))
				model_fail("%s is to come again, but no lease is revoked",
					   sync_op_name(m->op));
			if ((m->op == SOP_SIGNAL || m->op == SOP_BROADCAST) && !own &&
			    a.value != found(w))
				model_fail("%s is answered with value %u", sync_op_name(m->op),
					   (unsigned int)a.value);
			own = 2;
			continue;
		}
		if (late && late == who(&a) && a.count == -EALREADY) {
			late = 0;
			continue;
		}
		if (w->line[0].who != who(&a) || (!a.count) != may_go(w, &w->line[0]) ||
		    (a.count && a.count != in_vain(&w->line[0]))) {
			model_fail("%u.%u is let go, but it is not its turn", a.req_node,
				   a.req_slot);
			continue;
		}
		if (!a.count)
			goes(w, &w->line[0]);
		late = !a.count && w->line[0].cancelled ? who(&a) : late;
		leave(w, 0);
	}
	if (late)
		model_fail("SOP_CANCEL is not answered");
	if (own <= 0)
		model_fail("%s is not answered", sync_op_name(m->op));
}

/* A node returns its lease. */
static void give_back(struct world *w, const struct wmsg *m)
{
	const int readers = lease_revoke(&w->leases[m->dst], LOCK);

	if (readers < 0)
		model_fail("node %u has no lease to return", m->dst);
	else
		chan_post(&w->chan,
			  &(struct wmsg){
				  .type = MSG_REVOKED, .src = m->dst, .value = (uint8_t)readers });
}

static void deliver(const struct obj_cfg *cfg, struct world *w, struct wmsg m)
{
	struct chan_names n = names(cfg);
	struct msg wide = chan_widen(&n, &m);
	struct object_list list = { 0 };
	const struct objects all = { .list = &list, .chunks = chunks, .limit = SYNC_INDEX_MAX + 1 };
	struct dispatch at = {
		.me = wide.dst,
		.nnodes = WIRE_MAX_NODES,
		.objects = &all,
		.object = objects_at(&all, INDEX),
		.leases = cfg->leases,
		.ask = &w->asks[m.dst][m.req_slot],
	};
	struct actions out;
	int own = 1, err;

	if (m.type == MSG_SYNC)
		own = specify(w, &m);
	if (m.type != MSG_REPLY)
		wide.req_node = GEN >> 8;
	at.queue = chan_load(&n, w->nodes);
	*at.object = w->sync;
	err = dispatch_step(&at, &wide, &out);
	w->sync = *at.object;
	chan_store(&n, w->nodes);
	if (!err && m.type == MSG_REPLY) {
		answered(cfg, w, &m);
		return;
	}
	if (err)
		model_fail("the home does not expect %s",
			   m.type == MSG_SYNC ? sync_op_name(m.op) : wire_name(m.type));
	else
		judge(&n, w, &m, &out, own);
	if (cfg->kind == SYNC_SEM && w->sync.value != w->tokens)
		model_fail("the semaphore's value is %llu instead of %u",
			   (unsigned long long)w->sync.value, w->tokens);
}

static void fire(const void *c, void *world, uint32_t ev)
{
	static const char *const names[] = { "", "starts use", "unlocks",
					     "has waited long enough" };
	unsigned int r = ev >> 16 & 0xff, t = ev >> 8 & 0xff;
	const struct obj_cfg *cfg = c;
	struct world *w = world;
	struct thread *th;

	if (ev >> 24 == EV_MSG) {
		struct wmsg m = chan_take(&w->chan, r);

		if (m.type == MSG_REVOKE)
			give_back(w, &m);
		else
			deliver(cfg, w, m);
		return;
	}
	th = &w->threads[r][t];
	model_say("thread %u.%u %s\n", r, t, names[ev >> 24]);
	if (ev >> 24 == EV_USE) {
		if (!enter(cfg, w, r, t, ev & 0xff))
			use(cfg, w, r, t, ev & 0xff);
	} else if (ev >> 24 == EV_UNLOCK && reads(th->use) && lease_leave(&w->leases[r], LOCK)) {
		w->readers--;
		*th = (struct thread){ .left = (uint8_t)(th->left - 1), .meets = th->meets };
	} else if (ev >> 24 == EV_UNLOCK) {
		request(cfg, w, r, t, reads(th->use) ? SOP_RDUNLOCK : SOP_WRUNLOCK, 0, 0);
		th->use = USE_POST; /* one answer, like other calls */
		th->pc = PC_CALL;
	} else {
		th->pc = th->use == USE_DROP ? PC_DROP : PC_CANCEL;
		if (th->pc == PC_DROP)
			th->answers = 0; /* all earlier answers have come */
		request(cfg, w, r, t, SOP_CANCEL, 0, 0);
	}
}

static void canon(const void *c, void *world)
{
	const struct obj_cfg *cfg = c;
	struct world *w = world;
	struct chan_names n = names(cfg);
	struct queue_entry clean[RANKS * THREADS] = { 0 };
	uint32_t tail = w->sync.tail, node = tail;
	unsigned int i, at;

	chan_canon(&w->chan, cfg->fifo);
	for (i = 0; node && i < RANKS * THREADS; i++) {
		node = chan_after(&n, w->nodes, node, &at);
		if (node)
			clean[at] = w->nodes[at];
		if (node == tail)
			break;
	}
	memcpy(w->nodes, clean, sizeof(clean));
}

/* Nothing is under way: the home and the nodes agree. */
static void check_leases(const struct obj_cfg *cfg, const struct world *w)
{
	uint32_t readers = w->sync.readers;
	unsigned int r;

	for (r = 0; r < cfg->nnodes; r++) {
		const bool held = w->leases[r].state == LEASE_HELD;

		if (held != (w->sync.value >> (LEASED_RANK + r) & 1) && !w->gone)
			model_fail("node %u and the home do not agree on its lease", r);
		readers += held ? w->leases[r].readers : 0;
	}
	if (readers != w->readers)
		model_fail("home and nodes count %u readers instead of %u", readers, w->readers);
}

static void check(const void *c, const void *world)
{
	const struct obj_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t, readers = 0, writers = 0, resumes = 0;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++) {
			readers += w->threads[r][t].pc == PC_INSIDE && reads(w->threads[r][t].use);
			writers += w->threads[r][t].pc == PC_INSIDE && writes(w->threads[r][t].use);
		}
	if (writers > 1 || (writers && readers))
		model_fail("%u writers and %u readers hold the lock", writers, readers);
	for (t = 0; t < w->chan.n; t++)
		resumes += w->chan.v[t].type == MSG_RESUME;
	if (sync_idle(&w->sync) && (resumes || w->line[0].who))
		model_fail("the object counts as idle, but %u turns are out and %u wait", resumes,
			   length(w));
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].pc == PC_READY && w->asks[r][t])
				model_fail(
					"thread %u.%u is done, but an answer to it is still expected",
					r, t);
	if (!w->chan.n && w->line[0].who && may_go(w, &w->line[0]))
		model_fail("nothing is under way, but the first in line could go");
	if (!w->chan.n && in_vain(&w->line[0]))
		model_fail("nothing is under way, but the first in line only tries");
	if (cfg->leases && !w->chan.n)
		check_leases(cfg, w);
}

/* All threads are done, or wait for something that no thread will give. */
static bool final(const void *c, const void *world)
{
	const struct obj_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++) {
			const struct thread *th = &w->threads[r][t];
			/* where an object is destroyed, some have less rounds to meet */
			bool may_wait = th->use == USE_WAIT ||
				(th->use == USE_MEET &&
				 cfg->uses[cfg->nnodes - 1] >> USE_DESTROY & 1);
			bool waits = may_wait && (th->pc == PC_CALL || th->pc == PC_ANSWER);

			if ((th->pc != PC_READY && !waits) || (th->pc == PC_READY && th->left))
				return false;
		}
	return !w->chan.n;
}

static void show(const void *c, const void *world)
{
	const struct obj_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t;

	model_say("    home: pumping %u readers %u writer %u value %llu, %u in line\n",
		  w->sync.pumping, w->sync.readers, w->sync.writer,
		  (unsigned long long)w->sync.value, length(w));
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			model_say("    thread %u.%u: pc %u use %u, %u to do\n", r, t,
				  w->threads[r][t].pc, w->threads[r][t].use, w->threads[r][t].left);
}

const struct model obj_model = MODEL(struct world);

// SPDX-License-Identifier: BSD-2-Clause
/*
 * sync.c - locks, reader-writer locks, conditions, semaphores, atomics and the barrier, as the
 * simulated programs use them.
 */
#include "sim.h"

#define ADDED 5 /* value added to an atomic at a time */

/*
 * The operation changes with each episode: values of an episode must be combined by its operation
 * only.
 */
enum { SUM = 1, MAX, MIN, OPERATIONS_END };

static uint8_t operation_of(uint32_t episode)
{
	return (uint8_t)(SUM + episode % (OPERATIONS_END - SUM));
}

/* The result for values 1 to n of n nodes, from `threads` threads of each. */
static uint64_t expected(uint32_t episode, uint64_t n, uint64_t threads)
{
	uint8_t op = operation_of(episode);

	return op == SUM ? n * (n + 1) / 2 * threads : op == MAX ? n : 1;
}

uint64_t sync_combine(uint8_t op, uint64_t a, uint64_t b)
{
	switch (op) {
	case SUM: return a + b;
	case MAX: return a > b ? a : b;
	case MIN: return a < b ? a : b;
	default: return 0; /* which no operation makes of these values */
	}
}

/*
 * A handle of an object of that kind. The object may be one that stays, or one that programs create
 * and destroy, which may be gone.
 */
static uint32_t pick(struct sim *s, enum sync_kind kind)
{
	unsigned int i;

	for (i = 0; i < 4 && sim_random(s, 4); i++) {
		uint32_t handle = objects_handle(s, false);

		if (handle != NO_HANDLE && s->made[handle].kind == kind)
			return handle;
	}
	return (uint32_t)(sim_random(s, OBJECTS / KINDS) * KINDS + kind - SYNC_MUTEX);
}

static struct msg message(struct sim *s, uint16_t node, unsigned int thread, uint8_t type,
			  uint8_t op, uint8_t flags, uint64_t value)
{
	struct thread *t = sim_thread(s, node, thread);
	struct msg m = { .version = WIRE_VERSION,
			 .type = type,
			 .op = op,
			 .flags = flags,
			 .src = node,
			 .dst = sim_made(s, t)->home,
			 .req_slot = (uint16_t)thread,
			 .aux = type == MSG_SYNC ? 0 : sim_record(s, thread, t->handle),
			 .value = value };

	object_address(&m, sim_made(s, t)->name);
	return m;
}

static void request(struct sim *s, uint16_t node, unsigned int thread, uint8_t type, uint8_t op,
		    uint8_t flags, uint64_t value)
{
	struct msg m = message(s, node, thread, type, op, flags, value);

	sim_request(s, &m);
}

static void expect(struct thread *t, unsigned int need)
{
	t->pc = PC_REPLY;
	t->answers = 0;
	t->need = (uint8_t)need;
	t->canceling = 0;
	t->serial++;
}

static void ask(struct sim *s, uint16_t node, unsigned int thread, uint8_t op, uint8_t flags,
		uint64_t value, unsigned int need)
{
	expect(sim_thread(s, node, thread), need);
	request(s, node, thread, MSG_SYNC, op, flags, value);
}

static void entered(struct sim *s, uint16_t node, unsigned int thread, bool got);

static void hold_event(struct sim *s, uint16_t node, unsigned int thread, enum hold_event ev,
		       const struct msg *about)
{
	sim_hold_event(s, node, sim_record(s, thread, sim_thread(s, node, thread)->handle), ev,
		       about);
}

static void lock(struct sim *s, uint16_t node, unsigned int thread, bool try)
{
	struct thread *t = sim_thread(s, node, thread);
	struct hold *h = sim_hold(s, node, sim_record(s, thread, t->handle));
	const struct made *o = sim_made(s, t);
	struct msg m = message(s, node, thread, try ? MSG_TRYLOCK : MSG_LOCK, 0, 0, 0);

	if (h->state == HOLD_CACHED && hold_is(h, o) && (s->o.replay || sim_random(s, 4))) {
		hold_event(s, node, thread, HE_TAKE, &m);
		entered(s, node, thread, true);
		return;
	}
	if (h->state == HOLD_CACHED)
		hold_event(s, node, thread, HE_GIVE, NULL);
	if (h->state != HOLD_FREE) {
		/* the record still gives its last lock back: try again later */
		t->pc = PC_READY;
		thread_wake(s, node, thread);
		return;
	}
	hold_begin(h, &m);
	s->slots[(size_t)node * s->nslots + thread] = 1;
	expect(t, 1);
	sim_send(s, &m, 0);
}

void sync_lock(struct sim *s, uint16_t node, unsigned int thread)
{
	sim_thread(s, node, thread)->leaving = 0;
	lock(s, node, thread, false);
}

/* ---- the barrier ----------------------------------------------------------------------------- */

static void barrier(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_ARRIVE,
			 .op = operation_of(t->episode),
			 .src = node,
			 .dst = node,
			 .object = OBJECT,
			 .req_node = node,
			 .aux = s->o.threads,
			 .value = 1 + node };

	t->gen = s->bars[node].gen;
	t->pc = PC_BARRIER;
	release_meets(s, node, thread, t->episode, false);
	s->arrived[t->episode]++;
	sim_deliver(s, &m, 0, NULL);
}

bool sync_barrier_ended(const struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	uint64_t n = s->o.nodes, all = expected(t->episode, n, s->o.threads);

	if (s->bars[node].gen == t->gen)
		return false;
	if (s->arrived[t->episode] != n * s->o.threads || s->bars[node].ended ||
	    s->bars[node].result != all)
		sim_fail((struct sim *)s, OBJECT,
			 "thread %u.%u leaves the barrier with %llu of %llu, %u arrived", node,
			 thread, (unsigned long long)s->bars[node].result, (unsigned long long)all,
			 s->arrived[t->episode]);
	release_meets((struct sim *)s, node, thread, t->episode, true);
	t->episode++;
	((struct sim *)s)->st.episodes++;
	return true;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* clang-format off */
static const struct {
	uint8_t op, kind;
} sync_ops[OPS] = {
	[OP_LOCK] = { 0, SYNC_MUTEX },                      [OP_TRYLOCK] = { 0, SYNC_MUTEX },
	[OP_RDLOCK] = { SOP_RDLOCK, SYNC_RWLOCK },          [OP_WRLOCK] = { SOP_WRLOCK, SYNC_RWLOCK },
	[OP_TRYRDLOCK] = { SOP_TRYRDLOCK, SYNC_RWLOCK },    [OP_TRYWRLOCK] = { SOP_TRYWRLOCK, SYNC_RWLOCK },
	[OP_RDLOCK_TIMED] = { SOP_RDLOCK, SYNC_RWLOCK },    [OP_WRLOCK_TIMED] = { SOP_WRLOCK, SYNC_RWLOCK },
	[OP_SEM] = { SOP_WAIT, SYNC_SEM },                  [OP_SEM_TIMED] = { SOP_WAIT, SYNC_SEM },
	[OP_COND_TIMED] = { SOP_ENQUEUE, SYNC_COND },       [OP_SIGNAL] = { SOP_SIGNAL, SYNC_COND },
	[OP_BROADCAST] = { SOP_BROADCAST, SYNC_COND },      [OP_ADD] = { SOP_ADD, SYNC_ATOMIC },
};

/*
 * Operations tried on a handle of a destroyed object, whatever its kind was, and whatever kind has
 * its index now.
 */
static const uint8_t stale_ops[] = {
	SOP_DESTROY, SOP_RDLOCK, SOP_WRLOCK, SOP_TRYRDLOCK, SOP_TRYWRLOCK, SOP_RDUNLOCK, SOP_WRUNLOCK, SOP_WAIT, SOP_TRYWAIT,
	SOP_POST, SOP_ENQUEUE, SOP_SIGNAL, SOP_BROADCAST, SOP_LOAD, SOP_STORE, SOP_ADD, SOP_EXCHANGE, SOP_CAS,
	SOP_MEET,
};
/* clang-format on */

static bool is_sem(uint8_t op)
{
	return op == OP_SEM || op == OP_SEM_TIMED;
}

static bool is_timed(uint8_t op)
{
	return op == OP_RDLOCK_TIMED || op == OP_WRLOCK_TIMED || op == OP_SEM_TIMED ||
		op == OP_COND_TIMED;
}

static bool reads(uint8_t op)
{
	return op == OP_RDLOCK || op == OP_TRYRDLOCK || op == OP_RDLOCK_TIMED;
}

static bool holds(uint8_t op)
{
	return op >= OP_LOCK && op <= OP_SEM_TIMED;
}

/* ---- objects that come and go ---------------------------------------------------------------- */

static void create(struct sim *s, uint16_t node, unsigned int thread)
{
	uint8_t kind = (uint8_t)(SYNC_MUTEX + sim_random(s, KINDS));
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_SYNC,
			 .op = SOP_CREATE,
			 .src = node,
			 .dst = objects_hub(s),
			 .req_slot = (uint16_t)thread,
			 .aux = kind };

	if (kind == SYNC_SEM)
		m.value = 1 + sim_random(s, 3);
	if (kind == SYNC_ATOMIC)
		m.value = sim_random(s, 1000);
	expect(sim_thread(s, node, thread), 1);
	sim_send(s, &m, 0);
}

static void destroy(struct sim *s, uint16_t node, unsigned int thread)
{
	sim_thread(s, node, thread)->since = s->now;
	ask(s, node, thread, SOP_DESTROY, 0, 0, 1);
}

/* As the library does: repeat if other threads try to lock or destroy the mutex just then. */
void sync_again(struct sim *s, uint16_t node, unsigned int thread)
{
	destroy(s, node, thread);
}

static void destroyed(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);

	if (t->status != -EINPROGRESS) {
		thread_next(s, node, thread);
		return;
	}
	t->pc = PC_AGAIN;
	thread_wake(s, node, thread);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Use a handle that a program has made; false: there is none. */
static bool use_made(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	uint32_t handle = objects_handle(s, t->op == OP_STALE), i;

	if (handle == NO_HANDLE)
		return false;
	/* few handles are in use at a time: search */
	for (i = 0; t->op == OP_DESTROY && i < 3 && !objects_used(&s->made[handle]); i++) {
		uint32_t other = objects_handle(s, false);

		if (other != NO_HANDLE)
			handle = other;
	}
	t->handle = handle;
	if (t->op == OP_STALE)
		ask(s, node, thread, stale_ops[sim_random(s, sizeof(stale_ops))], 0, 1, 1);
	else
		destroy(s, node, thread);
	return true;
}

void sync_call(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	bool timed = is_timed(t->op);

	t->leaving = 0;
	switch ((enum op)t->op) {
	case OP_LOCK:
	case OP_TRYLOCK:
		t->handle = pick(s, SYNC_MUTEX);
		lock(s, node, thread, t->op == OP_TRYLOCK);
		break;
	case OP_CREATE: create(s, node, thread); break;
	case OP_DESTROY:
	case OP_STALE:
		if (!use_made(s, node, thread))
			thread_next(s, node, thread);
		break;
	case OP_BARRIER: barrier(s, node, thread); break;
	default:
		t->handle = pick(s, (enum sync_kind)sync_ops[t->op].kind);
		ask(s, node, thread, sync_ops[t->op].op, timed ? MSGF_TIMED : 0,
		    t->op == OP_ADD ? ADDED : 0, timed ? 2 : 1);
		break;
	}
}

/* The thread holds the object, has failed to get it, or there is nothing to hold. */
static void entered(struct sim *s, uint16_t node, unsigned int thread, bool got)
{
	struct thread *t = sim_thread(s, node, thread);
	struct made *o = sim_made(s, t);
	uint64_t limit = is_sem(t->op) ? o->value : 1;

	if (got && t->op == OP_ADD)
		o->added += ADDED;
	if (got && (t->op == OP_LOCK || t->op == OP_TRYLOCK))
		release_locked(s, node, thread, o);
	if (!got || !holds(t->op)) {
		thread_next(s, node, thread);
		return;
	}
	o->inside++;
	o->inside_writers += !reads(t->op);
	sim_note(s, node, (uint32_t)o->name, "thread %u is inside, with %u", thread, o->inside);
	if (o->inside_writers > limit || (!is_sem(t->op) && o->inside_writers && o->inside > 1))
		sim_fail(s, (uint32_t)o->name, "%u hold object %#llx, %u of them alone", o->inside,
			 (unsigned long long)o->name, o->inside_writers);
	if (!o->alive && !is_sem(t->op))
		sim_fail(s, (uint32_t)o->name, "thread %u.%u has %#llx, which is gone", node,
			 thread, (unsigned long long)o->name);
	s->st.locks++;
	if (s->o.replay) { /* the recording says when it leaves */
		thread_next(s, node, thread);
		return;
	}
	t->inside = s->rel ? (uint8_t)sim_random(s, 5) : 0;
	t->pc = PC_INSIDE;
	thread_wake(s, node, thread);
}

void sync_settled(struct sim *s, uint16_t node, unsigned int thread, enum settle then)
{
	struct thread *t = sim_thread(s, node, thread);

	/* the request was in line until now */
	if (then == SETTLE_GOT && (t->op == OP_LOCK || t->op == OP_TRYLOCK))
		objects_left(s, sim_made(s, t), &sim_made(s, t)->line);
	if (then == SETTLE_NEXT)
		thread_next(s, node, thread);
	else
		entered(s, node, thread, then == SETTLE_GOT);
}

void sync_inside(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	struct made *o = sim_made(s, t);

	if (t->inside) {
		t->inside--;
		release_access(s, node, thread, sim_random(s, 2));
		return;
	}
	objects_left(s, o, &o->inside);
	o->inside_writers -= !reads(t->op);
	t->leaving = 1;
	if (t->op == OP_LOCK || t->op == OP_TRYLOCK) {
		release_unlocks(s, node, thread, o);
		hold_event(s, node, thread, HE_UNLOCK, NULL);
		thread_next(s, node, thread);
		return;
	}
	ask(s, node, thread,
	    is_sem(t->op)          ? SOP_POST
		    : reads(t->op) ? SOP_RDUNLOCK
				   : SOP_WRUNLOCK,
	    0, 1, 1);
}

/* Another answer has come: does the thread need more? */
void sync_answered(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	struct event e = {
		.kind = EV_TIMEOUT, .node = node, .thread = (uint8_t)thread, .data = t->serial
	};

	if (t->pc != PC_REPLY)
		sim_fail(s, (uint32_t)sim_made(s, t)->name,
			 "thread %u.%u has an answer, but waits for none", node, thread);
	t->answers++;
	if (t->leaving || t->op == OP_CREATE || t->op == OP_STALE) {
		release_settle(s, node, thread, SETTLE_NEXT);
	} else if (t->op == OP_DESTROY) {
		destroyed(s, node, thread);
	} else if (t->status == -EINVAL && !t->canceling) {
		/* a destroyed object: no second answer follows */
		release_settle(s, node, thread, SETTLE_NOT);
	} else if (t->canceling && t->answers == 2 && t->status == -ETIMEDOUT) {
		release_settle(s, node, thread, SETTLE_NOT);
	} else if (t->answers == t->need) {
		release_settle(s, node, thread,
			       is_timed(t->op) || !t->status ? SETTLE_GOT : SETTLE_NOT);
	} else if (is_timed(t->op) && t->answers == 1) {
		sim_schedule(s, &e, sim_random(s, 200));
	}
}

/* The time limit of a wait has passed. */
void sync_timeout(struct sim *s, uint16_t node, unsigned int thread, uint32_t serial)
{
	struct thread *t = sim_thread(s, node, thread);

	if (t->serial != serial || t->pc != PC_REPLY || t->answers != 1)
		return;
	t->canceling = 1;
	t->need = 3;
	request(s, node, thread, MSG_SYNC, SOP_CANCEL, 0, 0);
}

/* ---- answers --------------------------------------------------------------------------------- */

void sync_reply(struct sim *s, uint16_t node, const struct action *a)
{
	struct thread *t = sim_thread(s, node, a->slot);

	t->status = a->status;
	if (t->op == OP_CREATE && !a->status)
		objects_publish(s, node, a->mask);
	if (t->op == OP_PLACE)
		thread_placed(s, node, a->slot, (uint16_t)a->mask);
	else
		sync_answered(s, node, a->slot);
}

void sync_check_rest(struct sim *s)
{
	unsigned int i;

	objects_check_rest(s);
	for (i = 0; i < s->o.nodes * s->nholds; i++)
		if (s->holds[i].state != HOLD_FREE && s->holds[i].state != HOLD_CACHED)
			sim_fail(s, s->holds[i].object, "in the end hold record %u is %s", i,
				 hold_state_name(s->holds[i].state));
}

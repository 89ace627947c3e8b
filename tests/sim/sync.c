// SPDX-License-Identifier: BSD-2-Clause
/* sync.c - locks, reader-writer locks, semaphores, atomics and the barrier, as the simulated programs use them. */
#include "sim.h"

/* Episodes take turns at these: values of one must not meet by the operation of another, or by none. */
enum { SUM = 1, MAX, MIN, OPERATIONS_END };

static uint8_t operation_of(uint32_t episode)
{
	return (uint8_t)(SUM + episode % (OPERATIONS_END - SUM));
}

/* Of values 1 .. n of n ranks, from each of that many threads. */
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

/* One of the objects of that kind: 0 mutex, 1 rwlock, 2 semaphore, 3 atomic (see sim_create()). */
static uint32_t pick(struct sim *s, unsigned int kind)
{
	return OBJECT | (uint32_t)(sim_random(s, OBJECTS / 4) * 4 + kind);
}

static void request(struct sim *s, uint16_t rank, unsigned int thread, uint8_t type, uint8_t op, uint8_t flags,
		    uint64_t value)
{
	struct thread *t = sim_thread(s, rank, thread);
	struct msg m = { .version = WIRE_VERSION,
			 .type = type,
			 .op = op,
			 .flags = flags,
			 .src = rank,
			 .dst = sim_home(s, t->object),
			 .object = t->object,
			 .req_rank = OBJECT_GEN >> 8,
			 .req_slot = (uint16_t)thread,
			 .aux = type == MSG_SYNC ? 0 : sim_record(s, thread, t->object),
			 .value = value };

	sim_send(s, &m, 0);
}

static void ask(struct sim *s, uint16_t rank, unsigned int thread, uint8_t op, uint8_t flags, uint64_t value,
		unsigned int need)
{
	struct thread *t = sim_thread(s, rank, thread);

	t->pc = PC_REPLY;
	t->answers = 0;
	t->need = (uint8_t)need;
	t->canceling = 0;
	t->serial++;
	request(s, rank, thread, MSG_SYNC, op, flags, value);
}

static void entered(struct sim *s, uint16_t rank, unsigned int thread, bool got);

static void hold_event(struct sim *s, uint16_t rank, unsigned int thread, enum hold_event ev)
{
	uint16_t record = sim_record(s, thread, sim_thread(s, rank, thread)->object);
	struct hold *h = sim_hold(s, rank, record);
	struct actions out;

	if (hold_step(&(struct hold_ctx){ .me = rank }, record, h, ev, NULL, &out))
		sim_fail(s, h->object, "rank %u: record %s does not expect %s", rank, hold_state_name(h->state),
			 hold_event_name(ev));
	sim_carry_out(s, rank, h->object, &out, 0);
}

static void lock(struct sim *s, uint16_t rank, unsigned int thread, bool try)
{
	struct thread *t = sim_thread(s, rank, thread);
	struct hold *h = sim_hold(s, rank, sim_record(s, thread, t->object));

	if (h->state == HOLD_KEPT && h->object == t->object && (s->o.replay || sim_random(s, 4))) {
		hold_event(s, rank, thread, HE_TAKE);
		entered(s, rank, thread, true);
		return;
	}
	if (h->state == HOLD_KEPT)
		hold_event(s, rank, thread, HE_GIVE);
	if (h->state != HOLD_FREE) { /* what it had is still being given back: look again later */
		t->pc = PC_READY;
		thread_wake(s, rank, thread);
		return;
	}
	*h = (struct hold){ .state = HOLD_WAITING,
			    .home = sim_home(s, t->object),
			    .object = t->object,
			    .gen = OBJECT_GEN >> 8,
			    .slot = (uint16_t)thread };
	s->slots[(size_t)rank * s->nslots + thread] = 1;
	t->pc = PC_REPLY;
	t->answers = 0;
	t->need = 1;
	request(s, rank, thread, try ? MSG_TRYLOCK : MSG_LOCK, 0, 0, 0);
}

void sync_lock(struct sim *s, uint16_t rank, unsigned int thread)
{
	sim_thread(s, rank, thread)->leaving = 0;
	lock(s, rank, thread, false);
}

/* ---- the barrier ------------------------------------------------------------------------------ */

static void step_bar(struct sim *s, const struct msg *m)
{
	struct actions out;
	unsigned int i;

	sim_step(s, m, &out);
	for (i = 0; i < out.n; i++)
		if (out.v[i].type == ACT_WAKE_ALL) {
			unsigned int t;

			for (t = 0; t < s->o.threads; t++)
				if (sim_thread(s, m->dst, t)->pc == PC_BARRIER)
					thread_wake(s, m->dst, t);
		}
	sim_carry_out(s, m->dst, m->object, &out, 0);
}

static void barrier(struct sim *s, uint16_t rank, unsigned int thread)
{
	struct thread *t = sim_thread(s, rank, thread);
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_ARRIVE,
			 .op = operation_of(t->episode),
			 .src = rank,
			 .dst = rank,
			 .object = t->object,
			 .req_rank = rank,
			 .aux = s->o.threads,
			 .value = 1 + rank };

	t->gen = s->bars[rank].gen;
	t->pc = PC_BARRIER;
	s->arrived[t->episode]++;
	step_bar(s, &m);
}

bool sync_barrier_ended(const struct sim *s, uint16_t rank, unsigned int thread)
{
	struct thread *t = sim_thread(s, rank, thread);
	uint64_t n = s->o.ranks, all = expected(t->episode, n, s->o.threads);

	if (s->bars[rank].gen == t->gen)
		return false;
	if (s->arrived[t->episode] != n * s->o.threads || s->bars[rank].ended || s->bars[rank].result != all)
		sim_fail((struct sim *)s, t->object, "thread %u.%u leaves the barrier with %llu of %llu, %u arrived",
			 rank, thread, (unsigned long long)s->bars[rank].result, (unsigned long long)all,
			 s->arrived[t->episode]);
	t->episode++;
	((struct sim *)s)->st.episodes++;
	return true;
}

/* ---- operations ------------------------------------------------------------------------------- */

/* clang-format off */
static const uint8_t sync_ops[OPS] = {
	[OP_RDLOCK] = SOP_RDLOCK, [OP_TRYRDLOCK] = SOP_TRYRDLOCK, [OP_RDLOCK_TIMED] = SOP_RDLOCK,
	[OP_WRLOCK] = SOP_WRLOCK, [OP_TRYWRLOCK] = SOP_TRYWRLOCK, [OP_WRLOCK_TIMED] = SOP_WRLOCK,
	[OP_SEM] = SOP_WAIT,      [OP_SEM_TIMED] = SOP_WAIT,
};
/* clang-format on */

static bool is_sem(uint8_t op)
{
	return op == OP_SEM || op == OP_SEM_TIMED;
}

static bool is_timed(uint8_t op)
{
	return op == OP_RDLOCK_TIMED || op == OP_WRLOCK_TIMED || op == OP_SEM_TIMED;
}

static bool reads(uint8_t op)
{
	return op == OP_RDLOCK || op == OP_TRYRDLOCK || op == OP_RDLOCK_TIMED;
}

/* ---- calls ------------------------------------------------------------------------------------ */

void sync_call(struct sim *s, uint16_t rank, unsigned int thread)
{
	struct thread *t = sim_thread(s, rank, thread);

	t->leaving = 0;
	switch ((enum op)t->op) {
	case OP_LOCK:
	case OP_TRYLOCK:
		t->object = pick(s, 0);
		lock(s, rank, thread, t->op == OP_TRYLOCK);
		break;
	case OP_RDLOCK:
	case OP_WRLOCK:
	case OP_TRYRDLOCK:
	case OP_TRYWRLOCK:
	case OP_RDLOCK_TIMED:
	case OP_WRLOCK_TIMED:
	case OP_SEM:
	case OP_SEM_TIMED:
		t->object = pick(s, is_sem(t->op) ? 2 : 1);
		ask(s, rank, thread, sync_ops[t->op], is_timed(t->op) ? MSGF_TIMED : 0, 0, is_timed(t->op) ? 2 : 1);
		break;
	case OP_ADD:
		t->object = pick(s, 3);
		s->added[t->object & ~OBJECT] += 5;
		ask(s, rank, thread, SOP_ADD, 0, 5, 1);
		break;
	default:
		t->object = OBJECT | OBJECTS;
		barrier(s, rank, thread);
		break;
	}
}

/* It holds something, or failed to get it. */
static void entered(struct sim *s, uint16_t rank, unsigned int thread, bool got)
{
	struct thread *t = sim_thread(s, rank, thread);
	uint32_t i = t->object & ~OBJECT, limit = is_sem(t->op) ? SEM_TOKENS : 1;
	bool shared = reads(t->op);

	if (!got || t->op == OP_ADD || t->op < OP_LOCK) {
		thread_next(s, rank, thread);
		return;
	}
	s->inside[i]++;
	s->inside_writers[i] += !shared;
	sim_note(s, rank, t->object, "thread %u is inside, with %u", thread, s->inside[i]);
	if (s->inside_writers[i] > limit || (limit == 1 && s->inside_writers[i] && s->inside[i] > 1))
		sim_fail(s, t->object, "%u hold object %u, %u of them alone", s->inside[i], i, s->inside_writers[i]);
	s->st.locks++;
	if (s->o.replay) { /* it leaves when it did */
		thread_next(s, rank, thread);
		return;
	}
	t->pc = PC_INSIDE;
	thread_wake(s, rank, thread);
}

void sync_inside(struct sim *s, uint16_t rank, unsigned int thread)
{
	struct thread *t = sim_thread(s, rank, thread);
	uint32_t i = t->object & ~OBJECT;

	s->inside[i]--;
	s->inside_writers[i] -= !reads(t->op);
	t->leaving = 1;
	if (t->op == OP_LOCK || t->op == OP_TRYLOCK) {
		hold_event(s, rank, thread, HE_UNLOCK);
		thread_next(s, rank, thread);
		return;
	}
	ask(s, rank, thread, is_sem(t->op) ? SOP_POST : reads(t->op) ? SOP_RDUNLOCK : SOP_WRUNLOCK, 0, 1, 1);
}

/* Another answer has come: enough? */
void sync_answered(struct sim *s, uint16_t rank, unsigned int thread)
{
	struct thread *t = sim_thread(s, rank, thread);
	struct event e = { .kind = EV_TIMEOUT, .rank = rank, .thread = (uint8_t)thread, .data = t->serial };

	if (t->pc != PC_REPLY)
		sim_fail(s, t->object, "thread %u.%u has an answer, but waits for none", rank, thread);
	t->answers++;
	if (t->leaving) {
		thread_next(s, rank, thread);
	} else if (t->canceling && t->answers == 2 && t->status == -ETIMEDOUT) {
		entered(s, rank, thread, false);
	} else if (t->answers == t->need) {
		entered(s, rank, thread, is_timed(t->op) || !t->status);
	} else if (is_timed(t->op) && t->answers == 1) {
		sim_schedule(s, &e, sim_random(s, 200));
	}
}

/* It has waited long enough. */
void sync_timeout(struct sim *s, uint16_t rank, unsigned int thread, uint32_t serial)
{
	struct thread *t = sim_thread(s, rank, thread);

	if (t->serial != serial || t->pc != PC_REPLY || t->answers != 1)
		return;
	t->canceling = 1;
	t->need = 3;
	request(s, rank, thread, MSG_SYNC, SOP_CANCEL, 0, 0);
}

/* ---- messages --------------------------------------------------------------------------------- */

void sync_message(struct sim *s, const struct msg *m)
{
	struct actions out;

	if (m->type == MSG_ARRIVE || m->type == MSG_DEPART) {
		step_bar(s, m);
		return;
	}
	sim_step(s, m, &out);
	if (m->type == MSG_REPLY) {
		sim_thread(s, m->dst, out.v[0].slot)->status = out.v[0].status;
		if (sim_thread(s, m->dst, out.v[0].slot)->op == OP_PLACE)
			thread_placed(s, m->dst, out.v[0].slot, (uint16_t)out.v[0].mask);
		else
			sync_answered(s, m->dst, out.v[0].slot);
		return;
	}
	if (m->type == MSG_LOCKED || m->type == MSG_FREED)
		sim_thread(s, m->dst, s->o.replay ? 0 : m->aux)->status = m->count;
	sim_carry_out(s, m->dst, m->object, &out, 0);
}

/* By one record, that the home takes for the last in line. */
static bool kept(const struct sim *s, unsigned int object)
{
	const struct sync *o = &s->objects[object];
	unsigned int i, n = 0;
	uint64_t by = 0;

	for (i = 0; i < s->o.ranks * s->nholds; i++)
		if (s->holds[i].state == HOLD_KEPT && s->holds[i].object == (OBJECT | object)) {
			by = ((uint64_t)(i / s->nholds) << 32 | i % s->nholds) + 1;
			n++;
		}
	return o->kind == SYNC_MUTEX && !o->pumping && n == 1 && o->value == by;
}

void sync_check_rest(struct sim *s)
{
	unsigned int i;

	for (i = 0; i < s->nobjects; i++) {
		const struct sync *o = &s->objects[i];

		if ((!sync_idle(o) && !kept(s, i)) || s->inside[i])
			sim_fail(s, OBJECT | i, "in the end object %u is not idle", i);
		if (o->kind == SYNC_SEM && o->value != SEM_TOKENS)
			sim_fail(s, OBJECT | i, "in the end semaphore %u is %llu", i, (unsigned long long)o->value);
		if (o->kind == SYNC_ATOMIC && o->value != s->added[i])
			sim_fail(s, OBJECT | i, "in the end atomic %u is %llu instead of %llu", i,
				 (unsigned long long)o->value, (unsigned long long)s->added[i]);
	}
	for (i = 0; i < s->o.ranks * s->nholds; i++)
		if (s->holds[i].state != HOLD_FREE && s->holds[i].state != HOLD_KEPT)
			sim_fail(s, s->holds[i].object, "in the end hold record %u is %s", i,
				 hold_state_name(s->holds[i].state));
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * threads.c - the simulated programs: random operations, and from time to time an episode of the
 * barrier.
 */
#include "sim.h"

#define BARRIER_EVERY 16

/* Relative frequencies of the operations. */
/* clang-format off */
static const uint8_t weights[OPS] = {
	[OP_READ] = 40,   [OP_WRITE] = 24, [OP_PREFETCH_R] = 4, [OP_PREFETCH_W] = 3, [OP_PIN_R] = 3,   [OP_PIN_W] = 3,
	[OP_RELEASE] = 4, [OP_DROP] = 3,   [OP_PLACE] = 2,      [OP_LOAD] = 30,     [OP_STORE] = 20,    [OP_LOCK] = 6,       [OP_TRYLOCK] = 3, [OP_RDLOCK] = 4,
	[OP_WRLOCK] = 2,  [OP_SEM] = 3,    [OP_SEM_TIMED] = 3,  [OP_ADD] = 4,        [OP_TRYRDLOCK] = 1, [OP_TRYWRLOCK] = 1,
	[OP_RDLOCK_TIMED] = 2, [OP_WRLOCK_TIMED] = 2, [OP_COND_TIMED] = 2, [OP_SIGNAL] = 1, [OP_BROADCAST] = 1,
	[OP_CREATE] = 5,  [OP_DESTROY] = 4, [OP_STALE] = 2,
};
/* clang-format on */

void thread_wake_after(struct sim *s, uint16_t node, unsigned int thread, uint64_t delay)
{
	struct event e = { .kind = EV_THREAD, .node = node, .thread = (uint8_t)thread };
	struct thread *t = sim_thread(s, node, thread);

	if (t->pc == PC_JOIN)
		t->pc = PC_TRY;
	if (t->scheduled)
		return;
	t->scheduled = 1;
	sim_schedule(s, &e, delay);
}

void thread_wake(struct sim *s, uint16_t node, unsigned int thread)
{
	uint64_t delay;

	if (s->o.unit_delay)
		delay = 0;
	else if (s->o.net)
		/*
		 * a wait for contents ends when they are mapped; other waits end at once, to retry
		 */
		delay = sim_thread(s, node, thread)->pc == PC_WAIT ? loggp_ticks(s->o.net->open)
								   : 1;
	else
		delay = 1 + sim_random(s, sim_random(s, 32) ? 8 : 300);
	thread_wake_after(s, node, thread, delay);
}

void thread_next(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);

	if (t->miss) {
		s->st.misses[t->miss]++;
		s->st.time[t->miss] += s->now - t->asked;
		s->st.latest = s->now;
	}
	t->miss = MISS_NONE;
	t->pc = PC_READY;
	t->done = 1;
	t->left--;
	s->st.ops++;
	thread_wake(s, node, thread);
}

static bool for_writing(uint8_t op)
{
	return op == OP_WRITE || op == OP_PREFETCH_W || op == OP_PIN_W;
}

static void use_block(struct sim *s, uint16_t node, const struct thread *t)
{
	uint32_t *v = &s->version[sim_at(s, node, t->block)];

	if (*v != s->newest[t->block])
		sim_fail(s, t->block, "node %u sees version %u of block %u, but the newest is %u",
			 node, *v, t->block, s->newest[t->block]);
	if (for_writing(t->op))
		*v = ++s->newest[t->block];
	sim_note(s, node, t->block, "%s version %u", for_writing(t->op) ? "writes" : "reads", *v);
}

void thread_access(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	struct copy *p = &s->pages[sim_at(s, node, t->block)];
	bool write = for_writing(t->op), ahead;

	if (t->op == OP_PIN_R || t->op == OP_PIN_W) {
		if (!page_pin(p, write ? 2 : 1)) {
			t->pc = PC_PINNED;
			thread_wake(s, node, thread);
			return;
		}
	} else if (s->hw[sim_at(s, node, t->block)] >= (write ? PROT_RW : PROT_RO)) {
		use_block(s, node, t);
		thread_next(s, node, thread);
		return;
	}
	if (!t->miss) {
		t->miss = !write ? MISS_READ : p->state == PG_READ ? MISS_UPGRADE : MISS_WRITE;
		t->asked = s->now;
		if (s->o.net) {
			t->pc = PC_TRY;
			thread_wake_after(s, node, thread, loggp_ticks(s->o.net->fault));
			return;
		}
	}
	t->pc = PC_TRY;
	ahead = s->o.replay && p->state != PG_WRITE && (write || p->state == PG_INVALID);
	sim_local(s, node, t->block, write ? PE_WRITE : PE_READ, (uint16_t)thread);
	if (ahead)
		replay_ahead(s, node, write);
}

void thread_prefetch(struct sim *s, uint16_t node, const struct thread *t)
{
	unsigned int i;

	for (i = 0; i < s->async; i++)
		if (!s->async_block[(size_t)node * s->async + i]) {
			sim_local(s, node, t->block, for_writing(t->op) ? PE_WRITE : PE_READ,
				  (uint16_t)(s->o.threads + i));
			return;
		}
}

static void release(struct sim *s, uint16_t node, const struct thread *t)
{
	const struct copy *p = &s->pages[sim_at(s, node, t->block)];
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_RELEASE,
			 .op = sim_random(s, 2) ? RELEASE_EVICT : RELEASE_KEEP,
			 .src = node,
			 .object = t->block,
			 .req_node = node,
			 .req_slot = sim_release_slot(s) };

	if (!p->home || !page_readable(p))
		return;
	m.dst = (uint16_t)(p->home - 1);
	sim_send(s, &m, 0);
}

/*
 * Place as the library does: ask the manager, then the chosen node until it is the home. If a rank
 * has its only copy, ask the home of that.
 */
static void place(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	bool again = t->pc == PC_PLACE;
	struct msg m = { .version = WIRE_VERSION,
			 .type = !again    ? MSG_PLACE
				 : t->owns ? MSG_CLAIM
					   : MSG_SETTLE,
			 .src = node,
			 .object = t->block,
			 .req_node = node,
			 .req_slot = (uint16_t)thread };

	if (!again)
		t->where = (uint16_t)sim_random(s, s->o.nodes);
	m.dst = !again ? sim_manager(s, t->block) : t->owns ? (uint16_t)(t->owns - 1) : t->where;
	m.value = m.type == MSG_SETTLE ? 0 : t->where;
	t->pc = PC_REPLY;
	t->owns = 0;
	sim_send(s, &m, 0);
}

void thread_placed(struct sim *s, uint16_t node, unsigned int thread, uint16_t owns)
{
	struct thread *t = sim_thread(s, node, thread);

	if (t->status != -EBUSY) {
		thread_next(s, node, thread);
		return;
	}
	t->pc = PC_PLACE;
	t->owns = owns;
	thread_wake_after(s, node, thread, 1 + sim_random(s, 40));
}

static unsigned int weight_of(const struct sim *s, unsigned int op)
{
	return (op == OP_LOAD || op == OP_STORE) && !s->rel ? 0 : weights[op];
}

static uint8_t choose(struct sim *s)
{
	unsigned int i, n = s->o.mixed ? OPS : OP_LOCK, sum = 0, pick;

	for (i = 0; i < n; i++)
		sum += weight_of(s, i);
	pick = (unsigned int)sim_random(s, sum);
	for (i = 0; pick >= weight_of(s, i); i++)
		pick -= weight_of(s, i);
	return (uint8_t)i;
}

static void start(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);

	if (s->o.replay) {
		replay_run(s, node);
		return;
	}
	if (!t->left) {
		t->pc = PC_DONE;
		return;
	}
	/* Few blocks are used often. */
	t->block = (uint32_t)sim_random(s, sim_random(s, 2) ? s->o.blocks : 1 + s->o.blocks / 8);
	t->op = s->o.mixed && t->left % BARRIER_EVERY == 0 ? OP_BARRIER : choose(s);
	if (s->rel && (t->op == OP_PREFETCH_R || t->op == OP_PREFETCH_W || t->op == OP_DROP) &&
	    sim_random(s, 2))
		t->block = s->o.blocks + (uint32_t)sim_random(s, s->o.release);
	switch ((enum op)t->op) {
	case OP_READ:
	case OP_WRITE:
	case OP_PIN_R:
	case OP_PIN_W: thread_access(s, node, thread); break;
	case OP_LOAD:
	case OP_STORE: release_access(s, node, thread, t->op == OP_STORE); break;
	case OP_PREFETCH_R:
	case OP_PREFETCH_W:
		thread_prefetch(s, node, t);
		thread_next(s, node, thread);
		break;
	case OP_RELEASE:
		release(s, node, t);
		thread_next(s, node, thread);
		break;
	case OP_DROP:
		if (release_block(s, t->block) || !s->leaves[sim_at(s, node, t->block)])
			sim_local(s, node, t->block, PE_DROP, s->nslots);
		thread_next(s, node, thread);
		break;
	case OP_PLACE: place(s, node, thread); break;
	default: sync_call(s, node, thread); break;
	}
}

static void unpin(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	bool write = for_writing(t->op);

	use_block(s, node, t);
	if (page_unpin(&s->pages[sim_at(s, node, t->block)], write ? 2 : 1) == 1)
		sim_local(s, node, t->block, PE_REPLAY, s->nslots);
	thread_next(s, node, thread);
}

void thread_run(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);

	switch ((enum pc)t->pc) {
	case PC_READY: start(s, node, thread); break;
	case PC_TRY:
		if (t->touches)
			release_touch(s, node, thread);
		else
			thread_access(s, node, thread);
		break;
	case PC_PLACE: place(s, node, thread); break;
	case PC_WAIT:
		if (t->touches) {
			release_touch(s, node, thread);
			break;
		}
		sim_local(s, node, t->block, PE_USED, (uint16_t)thread);
		thread_access(s, node, thread);
		break;
	case PC_PINNED: unpin(s, node, thread); break;
	case PC_AGAIN: sync_again(s, node, thread); break;
	case PC_INSIDE: sync_inside(s, node, thread); break;
	case PC_BARRIER:
		if (sync_barrier_ended(s, node, thread))
			release_settle(s, node, thread, SETTLE_NEXT);
		break;
	case PC_ACQUIRE: release_acquire(s, node, thread); break;
	case PC_JOIN:
	case PC_REPLY:
	case PC_DONE: break;
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* object.c - requests to the homes of synchronisation objects, and the list of what a thread holds. */
#include "sync/sync.h"

#include <errno.h>

#include "util/futex.h"

#define HELD_MAX 64

static __thread struct {
	uint32_t n;
	struct {
		uint64_t id;
		uint32_t info;
	} v[HELD_MAX];
} held __attribute__((tls_model("initial-exec")));

int held_find(uint64_t id)
{
	int i;

	for (i = (int)held.n - 1; i >= 0; i--)
		if (held.v[i].id == id)
			return i;
	return -1;
}

int held_add(uint64_t id, uint32_t info)
{
	if (held.n == HELD_MAX)
		return -EAGAIN;
	held.v[held.n].id = id;
	held.v[held.n++].info = info;
	return 0;
}

uint32_t held_info(int index)
{
	return held.v[index].info;
}

void held_remove(int index)
{
	held.v[index] = held.v[--held.n];
}

int handle_check(uint64_t id, enum sync_kind kind)
{
	int err = api_ready();

	if (err)
		return err;
	return (id >> 40 & 0xff) == kind && handle_home(id) < job.size && (id & 0xffff) < CTL_OBJECTS ? 0 : -EINVAL;
}

void sync_count_wait(enum dsm_latency what, uint64_t ns)
{
	struct rank_stats *s = &job.me->stats;
	unsigned int i = what - DSM_LAT_LOCK;

	stats_latency(&s->latency_count[i], &s->latency_sum[i], &s->latency_max[i], s->latency[i], ns);
}

/*
 * "In line" has come, or will: wait for the turn, or give up. The home answers SOP_CANCEL in any case; unless it says
 * -ETIMEDOUT, the turn's own answer crossed it and is the third, and the slot is not free before all are here.
 */
int sync_turn(struct msg *m, uint32_t seq, uint64_t ns)
{
	if (slot_wait(m->req_slot, seq, 2, ns) != -ETIMEDOUT)
		return 0;
	m->op = SOP_CANCEL;
	run_send(m);
	slot_wait(m->req_slot, seq, 2, 0);
	if (job.me->slots[m->req_slot].status == -ETIMEDOUT)
		return -ETIMEDOUT;
	slot_wait(m->req_slot, seq, 3, 0);
	return 0;
}

static void count_ask(enum sync_op op, uint64_t ns)
{
	if (op >= SOP_LOAD)
		sync_count_wait(DSM_LAT_ATOMIC, ns);
	else if (op == SOP_RDLOCK || op == SOP_WRLOCK)
		sync_count_wait(DSM_LAT_LOCK, ns);
}

static int ask_kernel(uint64_t id, enum sync_op op, struct sync_request *q)
{
	struct dsm_ioc_call k = { .call = DSM_CALL_SYNC, .op = (uint8_t)op, .home = handle_home(id), .object = handle_object(id),
				  .value = q->value, .value2 = q->value2, .ns = q->ns };
	uint64_t start = clock_ns();
	int status = kernel_call(&k);

	q->old = k.result;
	q->waited = k.waited;
	if (q->waited)
		count_ask(op, clock_ns() - start);
	return status;
}

int sync_ask(uint64_t id, enum sync_op op, struct sync_request *q)
{
	struct msg m = { .type = MSG_SYNC, .op = (uint8_t)op, .src = job.rank, .dst = handle_home(id), .object = handle_object(id),
			 .req_rank = job.rank, .value2 = q->value2, .value = q->value };
	uint64_t start = 0;
	uint32_t seq;
	int status;

	if (job.kernel >= 0)
		return ask_kernel(id, op, q);
	engine_depth++;
	m.req_slot = slot_get();
	seq = slot_seq(m.req_slot);
	m.flags = q->ns ? MSGF_TIMED : 0;
	run_send(&m);
	q->waited = slot_seq(m.req_slot) == seq;
	if (q->waited)
		start = clock_ns();
	slot_wait(m.req_slot, seq, 1, 0);
	status = job.me->slots[m.req_slot].status;
	if (q->ns && !status)
		status = sync_turn(&m, seq, q->ns);
	q->old = job.me->slots[m.req_slot].value;
	slot_put(job.rank, m.req_slot);
	run_timers(true);
	if (q->waited)
		count_ask(op, clock_ns() - start);
	engine_depth--;
	return status;
}

static int create(enum sync_kind kind, uint64_t value, uint16_t home, uint64_t *id)
{
	struct sync_request q = { .value = value, .value2 = (uint64_t)kind << 32 };
	int err = sync_ask(handle_make(kind, home, 0), SOP_CREATE, &q);

	if (!err)
		*id = handle_make(kind, home, (uint32_t)q.old);
	return err;
}

/* id may lie in shared memory: it is touched outside the runtime only. */
int sync_make(enum sync_kind kind, uint64_t value, int home, uint64_t *id)
{
	uint64_t made;
	int err = api_ready();

	if (err)
		return err;
	if (home < -1 || home >= job.size)
		return -EINVAL;
	err = create(kind, value, home < 0 ? job.rank : (uint16_t)home, &made);
	if (!err)
		*id = made;
	return err;
}

int sync_unmake(uint64_t *id, enum sync_kind kind)
{
	struct sync_request q = { 0 };
	uint64_t was = *id;
	int err = handle_check(was, kind);

	if (!err)
		err = sync_ask(was, SOP_DESTROY, &q);
	if (!err)
		*id = 0;
	return err;
}

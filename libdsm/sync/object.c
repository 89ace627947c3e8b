// SPDX-License-Identifier: BSD-2-Clause
/* object.c - requests to the homes of synchronisation objects. */
#include "sync/object.h"

#include <errno.h>
#include <pthread.h>

#include "fault/range.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/stats.h"
#include "miss/keep.h"
#include "miss/lease.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/sharing.h"
#include "miss/slot.h"
#include "miss/wait.h"
#include "miss/work.h"
#include "sync/cancel.h"
#include "sync/handle.h"
#include "sync/host.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"
#include "util/sys.h"

void sync_count_wait(enum dsm_latency what, uint64_t ns)
{
	struct rank_stats *s = &job.mine->stats;
	unsigned int i = what - DSM_LAT_LOCK;

	stats_latency(&s->latency_count[i], &s->latency_sum[i], &s->latency_max[i], s->latency[i],
		      ns);
}

void sync_count_ask(enum sync_op op, uint64_t ns)
{
	if (op >= SOP_LOAD && op <= SOP_CAS)
		sync_count_wait(DSM_LAT_ATOMIC, ns);
	else if (op >= SOP_RDLOCK && op <= SOP_WRUNLOCK)
		sync_count_wait(DSM_LAT_LOCK, ns);
}

/* Does the operation acquire, that is, see other nodes' writes? */
static bool acquires(enum sync_op op)
{
	return sync_waits(op) || op == SOP_TRYRDLOCK || op == SOP_TRYWRLOCK || op == SOP_TRYWAIT ||
		(op >= SOP_LOAD && op != SOP_STORE);
}

struct pending {
	struct msg m;
	uint32_t seq; /* the slot's count before the request was sent */
};

/*
 * A thread is cancelled in dsm_sem_wait(). If it has got the semaphore, it posts it for another
 * one.
 */
static void object_give_up(void *arg)
{
	struct pending *p = arg;
	struct msg post = p->m;

	if (cancel_take_back(&p->m, p->seq, p->m.flags & MSGF_TIMED) > 0) {
		uint32_t seq = slot_seq(p->m.req_slot);

		post.op = SOP_POST;
		post.flags = 0;
		post.value = 1;
		run_send(&post);
		wait_slot(p->m.req_slot, seq, 1, 0);
	}
	slot_put(p->m.req_slot);
	work_timers(true);
	engine_leave();
}

/* Wait for the first answer, and for the second if there are two. */
static int answers(struct pending *p, uint64_t ns, const uint32_t *stop)
{
	const uint16_t slot = p->m.req_slot;
	int status;

	if (p->m.op != SOP_WAIT || ns) {
		wait_slot(slot, p->seq, 1, 0);
		status = __atomic_load_n(&job.me->slots[slot].status, __ATOMIC_RELAXED);
		if (!ns || status)
			return status;
	}
	pthread_cleanup_push(object_give_up, p);
	if (ns) {
		status = sync_turn(&p->m, p->seq, ns, p->m.op == SOP_WAIT, stop);
	} else {
		status = wait_slot_point(slot, p->seq, 1, 0, stop);
		if (!status || cancel_take_back(&p->m, p->seq, false))
			status = job.me->slots[slot].status;
		if (status == -EALREADY) /* it was granted, and SOP_CANCEL came later */
			status = 0;
	}
	pthread_cleanup_pop(0);
	return status;
}

int object_ask(uint64_t id, enum sync_op op, struct sync_request *q)
{
	struct pending p = { .m = handle_ask(id, MSG_SYNC, (uint8_t)op) };
	const bool away = p.m.dst != job.node;
	uint64_t start = 0;
	int status, slot;
	bool leases;

	engine_enter();
	slot = slot_get(sync_waits(op) ? SLOT_LASTING : SLOT_BRIEF);
	if (slot < 0) {
		engine_leave();
		return slot;
	}
	p.m.req_slot = (uint16_t)slot;
	p.m.value2 = q->value2;
	p.m.value = q->value;
	p.seq = slot_seq(p.m.req_slot);
	leases = op == SOP_RDLOCK && !q->ns && lease_wanted(id & ~HANDLE_KIND, p.m.req_slot);
	p.m.flags = leases ? MSGF_LEASE : q->ns ? MSGF_TIMED : 0;
	HOOK(ask_slot);
	if (away)
		start = clock_ns();
	if (away)
		wait_begin();
	run_send(&p.m);
	HOOK(ask_sent);
	/* Another node's answer may be here by now: another thread has taken it. */
	q->waited = away || slot_seq(p.m.req_slot) == p.seq;
	if (q->waited && !away)
		start = clock_ns();
	about_object(id);
	if (op == SOP_MEET)
		keep_pause();
	status = answers(&p, q->ns, q->stop);
	if (op == SOP_MEET)
		keep_resume();
	wait_end();
	about_none();
	HOOK(ask_came);
	if (acquires(op)) {
		sharing_acquired();
		release_acquire();
	}
	q->old = job.me->slots[p.m.req_slot].value;
	if (leases) /* whoever enters by it need not apply notices: they are applied */
		lease_came(id & ~HANDLE_KIND, p.m.req_slot, !status && q->old == SYNC_LEASED);
	slot_put(p.m.req_slot);
	work_timers(true);
	if (q->waited)
		sync_count_ask(op, clock_ns() - start);
	engine_leave();
	return status;
}

int sync_ask(uint64_t id, enum sync_op op, struct sync_request *q)
{
	q->waited = false;
	return sync_host()->ask(id, op, q);
}

static int object_create(enum sync_kind kind, uint64_t value, uint16_t home, uint64_t *id)
{
	struct sync_request q = { .value = value, .value2 = (uint64_t)kind << 32 };
	int err = sync_ask(handle_make(kind, home, 0), SOP_CREATE, &q);

	if (!err)
		*id = handle_make(kind, home, q.old);
	return err;
}

/* id may be in shared memory: touch it only outside the runtime. */
int sync_make(enum sync_kind kind, uint64_t value, int rank, uint64_t *id)
{
	uint64_t made;
	int err = job_ready();

	if (err)
		return err;
	if (rank < -1 || rank >= job.size)
		return -EINVAL;
	err = object_create(kind, value, rank < 0 ? job.node : node_of((uint16_t)rank), &made);
	if (!err)
		*id = made;
	return err;
}

#define AGAIN_US 4 /* about the time of one request */
#define AGAIN_MOST_US 10000

void sync_again(unsigned int *us)
{
	if (*us)
		sys_sleep_us(*us);
	*us = *us ? 2 * *us : AGAIN_US;
	if (*us > AGAIN_MOST_US)
		*us = AGAIN_MOST_US;
}

int sync_unmake(uint64_t *id, enum sync_kind kind)
{
	struct sync_request q = { 0 };
	uint64_t was = *id;
	unsigned int us = 0;
	int err = handle_check(was, kind);

	if (err)
		return err;
	/* In progress: other threads are trying to lock or destroy the mutex. */
	while ((err = sync_ask(was, SOP_DESTROY, &q)) == -EINPROGRESS)
		sync_again(&us);
	if (!err)
		*id = HANDLE_GONE;
	return err;
}

/* Each first user makes an object; the one whose handle is stored first is used. */
static int make_first(uint64_t *at, enum sync_kind kind)
{
	uint64_t made, none = 0;
	int err = sync_make(kind, 0, -1, &made);

	if (!err &&
	    !__atomic_compare_exchange_n(at, &none, made, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		sync_unmake(&made, kind);
	return err;
}

int sync_handle(uint64_t *at, enum sync_kind kind, uint64_t *id)
{
	size_t off;
	int err;

	*id = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	if (!*id && range_off(at, &off)) {
		if (releases_used() && release_is(off)) {
			log_line(
				"%p: only the init function can make an object in a region with release consistency",
				(void *)at);
			return -ENOTSUP;
		}
		err = make_first(at, kind);
		if (err)
			return err;
		*id = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	}
	return handle_check(*id, kind);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * kernel.c - synchronisation through the kernel helper: each request is one call of /dev/dsm, and
 * waits there.
 */
#include <dsm_uapi.h>
#include <errno.h>
#include <unistd.h>

#include "core/barrier.h"
#include "job/inside.h"
#include "job/job.h"
#include "kernel/kernel.h"
#include "miss/run.h"
#include "miss/wait.h"
#include "sync/barrier.h"
#include "sync/handle.h"
#include "sync/held.h"
#include "sync/host.h"
#include "sync/object.h"
#include "util/futex.h"

/* A call for the object of a handle. */
static struct dsm_ioc_call handle_call(uint64_t id, uint16_t call)
{
	const struct msg m = handle_ask(id, 0, 0);

	return (struct dsm_ioc_call){
		.call = call, .home = m.dst, .object = m.object, .gen = m.req_node
	};
}

static bool kernel_has_come(const struct dsm_ioc_call *q)
{
	return q->waited && !q->status;
}

/* Another operation on the object of a call. */
static void on_same(const struct dsm_ioc_call *q, enum sync_op op, uint64_t value)
{
	struct dsm_ioc_call other = { .call = DSM_CALL_SYNC,
				      .op = (uint8_t)op,
				      .home = q->home,
				      .object = q->object,
				      .gen = q->gen,
				      .value = value };

	kernel_call(&other);
}

/*
 * A thread is cancelled in dsm_sem_wait(). If it has got the semaphore, it posts it for another
 * one.
 */
static void kernel_give_back(void *arg)
{
	const struct dsm_ioc_call *q = arg;

	about_none();
	if (kernel_has_come(q))
		on_same(q, SOP_POST, 1);
}

static int kernel_ask(uint64_t id, enum sync_op op, struct sync_request *q)
{
	struct dsm_ioc_call k = handle_call(id, DSM_CALL_SYNC);
	uint64_t start = clock_ns();
	int status;

	k.op = (uint8_t)op;
	k.value = q->value;
	k.value2 = q->value2;
	k.ns = q->ns;
	about_object(id);
	status = op == SOP_WAIT ? kernel_wait_point(&k, start, kernel_give_back, &k)
				: kernel_wait(&k, start);
	about_none();
	q->old = k.result;
	/* Another node's answer may have come before the module looked for it. */
	q->waited = k.waited || k.home != job.node;
	if (q->waited)
		sync_count_ask(op, clock_ns() - start);
	return status;
}

static int kernel_lock(uint64_t id, uint8_t type, uint64_t ns)
{
	struct dsm_ioc_call q =
		handle_call(id, type == MSG_LOCK ? DSM_CALL_LOCK : DSM_CALL_TRYLOCK);
	uint64_t start = clock_ns();
	int status;

	q.ns = ns;
	about_object(id);
	status = kernel_wait(&q, start);
	about_none();
	count(&job.mine->stats.locks, 1);
	if (q.waited) {
		count(&job.mine->stats.lock_waits, 1);
		sync_count_wait(DSM_LAT_LOCK, clock_ns() - start);
	}
	if (!status)
		held_add(id, q.hold);
	return status;
}

static int kernel_unlock(uint32_t hold)
{
	return kernel_call(
		&(struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = (uint16_t)hold });
}

/*
 * The call has released the mutex. The caller believes that it holds it, whatever the kernel lacks.
 */
static int kernel_acquire_again(uint64_t mutex)
{
	const int before = engine_keep();
	int err;

	held_remove(held_find(mutex));
	while ((err = dsm_mutex_lock(&(dsm_mutex_t){ .id = mutex })) == -EAGAIN || err == -ENOMEM)
		usleep(1000);
	engine_let(before);
	return err;
}

struct waiter {
	struct dsm_ioc_call q;
	uint64_t mutex;
};

/*
 * A thread is cancelled in dsm_cond_wait(). If it has got a signal, that is for the next in line.
 */
static void kernel_give_up(void *arg)
{
	const struct waiter *w = arg;

	about_none();
	if (kernel_has_come(&w->q))
		on_same(&w->q, SOP_SIGNAL, 0);
	kernel_acquire_again(w->mutex);
}

static int kernel_cond_wait(uint64_t cond, uint64_t mutex, uint64_t ns)
{
	struct waiter w = { .q = handle_call(cond, DSM_CALL_SYNC), .mutex = mutex };
	int status, err;

	w.q.op = SOP_ENQUEUE;
	w.q.ns = ns;
	w.q.mutex = (uint64_t)held_info(held_find(mutex)) + 1;
	about_object(cond);
	status = kernel_wait_point(&w.q, clock_ns(), kernel_give_up, &w);
	about_none();
	if (status && status != -ETIMEDOUT)
		return status; /* no such condition: this thread still holds the mutex */
	err = kernel_acquire_again(mutex);
	return err ? err : status;
}

/* Arrive, for one thread or for the whole node, and wait for the other nodes. */
static int kernel_meet(const struct msg *m, uint64_t nodes, uint16_t flags, uint64_t *result)
{
	_Static_assert(DSM_BARRIER_GEN_MAX == BAR_LIFE_MAX, "it takes all generations");
	struct dsm_ioc_call q = { .call = DSM_CALL_BARRIER,
				  .object = m->object,
				  .value = m->value,
				  .value2 = nodes,
				  .threads = m->aux,
				  .hold = flags,
				  .op = m->op,
				  .gen = bar_life(m) };
	int err = kernel_wait(&q, clock_ns());

	*result = q.result;
	return err;
}

/* All threads of this node's ranks have come: the last one arrives at the other nodes for them. */
static void meet_for_all(const struct msg *up, uint64_t nodes)
{
	struct msg down = { .version = WIRE_VERSION,
			    .type = MSG_DEPART,
			    .src = job.nodes,
			    .dst = job.node,
			    .object = up->object };

	bar_set_life(&down, bar_life(up));
	engine_leave();
	down.count = (int16_t)kernel_meet(
		up, nodes, DSM_BARRIER_ALL | (up->count ? DSM_BARRIER_DIFFER : 0), &down.value);
	engine_enter();
	run_gather(&down, false, NULL, NULL, NULL);
}

/* The ranks of this node gather in its memory. */
static int kernel_gather(const struct msg *m, const struct bar_group *group, uint64_t *result)
{
	struct bar *b = &job.mem.bars[m->object];
	struct msg up;
	uint32_t gen;
	int err;

	engine_enter();
	err = run_gather(m, job.nodes == 1 || group->mask == 1ull << job.node, group, &gen, &up);
	if (err > 0)
		meet_for_all(&up, group->mask);
	if (err >= 0) {
		wait_word(&b->gen, gen, &b->sleepers);
		err = bar_ended(b, bar_life(m), result);
	} else {
		err = -EINVAL;
	}
	engine_leave();
	return err;
}

static int kernel_arrive(const struct barrier_name *b, uint64_t mask, uint32_t threads, uint8_t op,
			 uint64_t *value)
{
	const struct msg m = barrier_arrival(b, threads, op, *value);
	const struct bar_group group = barrier_group(mask);
	uint64_t start = clock_ns();
	int err;

	about_barrier(b->object, mask, threads);
	err = job.locals == 1 ? kernel_meet(&m, group.mask, 0, value)
			      : kernel_gather(&m, &group, value);
	about_none();
	count(&job.mine->stats.barriers, 1);
	sync_count_wait(DSM_LAT_BARRIER, clock_ns() - start);
	return err;
}

static int kernel_barrier_end(const struct barrier_name *b)
{
	struct dsm_ioc_call q = { .call = DSM_CALL_BARRIER, .object = b->object, .gen = b->life };

	if (job.locals > 1)
		return barrier_end(b);
	return kernel_call(&q) ? -EBUSY : 0;
}

const struct sync_ops sync_kernel = {
	.ask = kernel_ask,
	.acquire = kernel_lock,
	.release = kernel_unlock,
	.wait = kernel_cond_wait,
	.arrive = kernel_arrive,
	.end = kernel_barrier_end,
};

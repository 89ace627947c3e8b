// SPDX-License-Identifier: BSD-2-Clause
/* kernel.c - the kernel helper as the host of synchronisation: each request is one call of /dev/dsm, and waits there. */
#include <dsm_uapi.h>
#include <errno.h>
#include <unistd.h>

#include "engine/job.h"
#include "engine/kernel.h"
#include "engine/stall.h"
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

	return (struct dsm_ioc_call){ .call = call, .home = m.dst, .object = m.object, .gen = m.req_rank };
}

static int ask(uint64_t id, enum sync_op op, struct sync_request *q)
{
	struct dsm_ioc_call k = handle_call(id, DSM_CALL_SYNC);
	uint64_t start = clock_ns();
	int status;

	k.op = (uint8_t)op;
	k.value = q->value;
	k.value2 = q->value2;
	k.ns = q->ns;
	about_object(id);
	status = kernel_wait(&k, start);
	about_none();
	q->old = k.result;
	q->waited = k.waited;
	if (q->waited)
		sync_count_ask(op, clock_ns() - start);
	return status;
}

static int acquire(uint64_t id, uint8_t type)
{
	struct dsm_ioc_call q = handle_call(id, type == MSG_LOCK ? DSM_CALL_LOCK : DSM_CALL_TRYLOCK);
	uint64_t start = clock_ns();
	int status;

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

static int release(uint32_t hold)
{
	return kernel_call(&(struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = (uint16_t)hold });
}

static int wait(uint64_t cond, uint64_t mutex, uint64_t ns)
{
	int at = held_find(mutex), status, err;
	struct dsm_ioc_call q = handle_call(cond, DSM_CALL_SYNC);

	q.op = SOP_ENQUEUE;
	q.ns = ns;
	q.mutex = (uint64_t)held_info(at) + 1;
	about_object(cond);
	status = kernel_wait(&q, clock_ns());
	about_none();
	if (status && status != -ETIMEDOUT)
		return status; /* no such condition: the mutex is still ours */
	held_remove(held_find(mutex));
	/* The caller believes that it holds the mutex, whatever the kernel is short of. */
	while ((err = dsm_mutex_lock(&(dsm_mutex_t){ .id = mutex })) == -EAGAIN || err == -ENOMEM)
		usleep(1000);
	return err ? err : status;
}

static int arrive(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value)
{
	struct dsm_ioc_call q = { .call = DSM_CALL_BARRIER,
				  .object = object,
				  .value = *value,
				  .value2 = mask,
				  .threads = threads,
				  .op = op };
	uint64_t start = clock_ns();
	int err;

	about_barrier(object, mask, threads);
	err = kernel_wait(&q, start);
	about_none();
	*value = q.result;
	count(&job.mine->stats.barriers, 1);
	sync_count_wait(DSM_LAT_BARRIER, clock_ns() - start);
	return err;
}

static int end(uint32_t object)
{
	return kernel_call(&(struct dsm_ioc_call){ .call = DSM_CALL_BARRIER, .object = object }) ? -EBUSY : 0;
}

const struct sync_ops sync_kernel = {
	.ask = ask,
	.acquire = acquire,
	.release = release,
	.wait = wait,
	.arrive = arrive,
	.end = end,
};

// SPDX-License-Identifier: BSD-2-Clause
/*
 * counters.c - conditions (signalling side), semaphores and atomic objects: one request to the
 * home, one answer.
 */
#include <errno.h>

#include "sync/handle.h"
#include "sync/object.h"

static int operate_until(uint64_t *at, enum sync_kind kind, enum sync_op op, struct sync_request q)
{
	uint64_t id;
	int err = sync_handle(at, kind, &id);

	return err ? err : sync_ask(id, op, &q);
}

static int counter_operate(uint64_t *at, enum sync_kind kind, enum sync_op op, uint64_t value,
			   uint64_t ns)
{
	return operate_until(at, kind, op, (struct sync_request){ .value = value, .ns = ns });
}

DSM_API int dsm_cond_init(dsm_cond_t *c)
{
	return sync_make(SYNC_COND, 0, -1, &c->id);
}

DSM_API int dsm_cond_destroy(dsm_cond_t *c)
{
	return sync_unmake(&c->id, SYNC_COND);
}

DSM_API int dsm_cond_signal(dsm_cond_t *c)
{
	int found;

	return dsm_cond_wake(c, 0, &found);
}

DSM_API int dsm_cond_broadcast(dsm_cond_t *c)
{
	int found;

	return dsm_cond_wake(c, 1, &found);
}

DSM_API int dsm_cond_wake(dsm_cond_t *c, int all, int *found)
{
	struct sync_request q = { 0 };
	uint64_t id;
	int err = sync_handle(&c->id, SYNC_COND, &id);

	if (!err)
		err = sync_ask(id, all ? SOP_BROADCAST : SOP_SIGNAL, &q);
	if (!err)
		*found = q.old == SYNC_FOUND;
	return err;
}

DSM_API int dsm_sem_init(dsm_sem_t *s, uint32_t value)
{
	return value > 0x7fffffff ? -EINVAL : sync_make(SYNC_SEM, value, -1, &s->id);
}

DSM_API int dsm_sem_destroy(dsm_sem_t *s)
{
	return sync_unmake(&s->id, SYNC_SEM);
}

DSM_API int dsm_sem_wait(dsm_sem_t *s)
{
	pthread_testcancel();
	return counter_operate(&s->id, SYNC_SEM, SOP_WAIT, 0, 0);
}

DSM_API int dsm_sem_trywait(dsm_sem_t *s)
{
	return counter_operate(&s->id, SYNC_SEM, SOP_TRYWAIT, 0, 0);
}

DSM_API int dsm_sem_timedwait(dsm_sem_t *s, uint64_t ns)
{
	pthread_testcancel();
	return counter_operate(&s->id, SYNC_SEM, SOP_WAIT, 0, ns ? ns : 1);
}

DSM_API int dsm_sem_stopwait(dsm_sem_t *s, uint64_t ns, const uint32_t *stop)
{
	pthread_testcancel();
	return operate_until(&s->id, SYNC_SEM, SOP_WAIT,
			     (struct sync_request){ .ns = ns, .stop = stop });
}

DSM_API int dsm_sem_post(dsm_sem_t *s, uint32_t n)
{
	return counter_operate(&s->id, SYNC_SEM, SOP_POST, n, 0);
}

DSM_API int dsm_sem_getvalue(dsm_sem_t *s, uint32_t *value)
{
	struct sync_request q = { 0 };
	uint64_t id;
	int err = sync_handle(&s->id, SYNC_SEM, &id);

	if (!err)
		err = sync_ask(id, SOP_LOAD, &q);
	if (!err)
		*value = (uint32_t)q.old;
	return err;
}

static int counter_atomic(uint64_t *at, enum sync_op op, uint64_t value, uint64_t value2,
			  uint64_t *old)
{
	struct sync_request q = { .value = value, .value2 = value2 };
	uint64_t id;
	int err = sync_handle(at, SYNC_ATOMIC, &id);

	if (err)
		return err;
	err = sync_ask(id, op, &q);
	count(&job.mine->stats.atomics, 1);
	if (old && (!err || err == -EAGAIN))
		*old = q.old;
	return err;
}

DSM_API int dsm_atomic_init(dsm_atomic_t *a, uint64_t value, int home)
{
	return sync_make(SYNC_ATOMIC, value, home, &a->id);
}

DSM_API int dsm_atomic_destroy(dsm_atomic_t *a)
{
	return sync_unmake(&a->id, SYNC_ATOMIC);
}

DSM_API int dsm_atomic_load(dsm_atomic_t *a, uint64_t *value)
{
	return counter_atomic(&a->id, SOP_LOAD, 0, 0, value);
}

DSM_API int dsm_atomic_store(dsm_atomic_t *a, uint64_t value)
{
	return counter_atomic(&a->id, SOP_STORE, value, 0, NULL);
}

DSM_API int dsm_atomic_fetch_add(dsm_atomic_t *a, uint64_t add, uint64_t *old)
{
	return counter_atomic(&a->id, SOP_ADD, add, 0, old);
}

DSM_API int dsm_atomic_exchange(dsm_atomic_t *a, uint64_t value, uint64_t *old)
{
	return counter_atomic(&a->id, SOP_EXCHANGE, value, 0, old);
}

DSM_API int dsm_atomic_compare_exchange(dsm_atomic_t *a, uint64_t *expected, uint64_t value)
{
	uint64_t seen = 0;
	int err = counter_atomic(&a->id, SOP_CAS, *expected, value, &seen);

	if (err == -EAGAIN)
		*expected = seen;
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/* lock.c - mutexes (core/lock.h: handed from holder to next waiter) and reader-writer locks. */
#include <errno.h>

#include "sync/sync.h"
#include "util/futex.h"

DSM_API int dsm_mutex_init(dsm_mutex_t *m)
{
	return sync_make(SYNC_MUTEX, 0, -1, &m->id);
}

DSM_API int dsm_mutex_destroy(dsm_mutex_t *m)
{
	return sync_unmake(&m->id, SYNC_MUTEX);
}

static int acquire_in_kernel(uint64_t id, uint8_t type)
{
	struct dsm_ioc_call q = { .call = type == MSG_LOCK ? DSM_CALL_LOCK : DSM_CALL_TRYLOCK, .home = handle_home(id),
				  .object = handle_object(id) };
	uint64_t start = clock_ns();
	int status = kernel_call(&q);

	count(&job.me->stats.locks, 1);
	if (q.waited) {
		count(&job.me->stats.lock_waits, 1);
		sync_count_wait(DSM_LAT_LOCK, clock_ns() - start);
	}
	if (!status)
		held_add(id, q.hold);
	return status;
}

static int acquire(uint64_t id, uint8_t type)
{
	struct msg m = { .type = type, .src = job.rank, .dst = handle_home(id), .object = handle_object(id), .req_rank = job.rank };
	struct hold *h;
	uint64_t start = 0;
	uint32_t seq;
	int index, status;

	if (job.kernel >= 0)
		return acquire_in_kernel(id, type);
	index = bits_take(job.me->hold_used, 0, CTL_HOLDS);
	if (index < 0)
		return -EAGAIN;
	m.req_slot = slot_get();
	m.home = (uint16_t)index;
	h = &job.me->holds[index];
	*h = (struct hold){ .state = HOLD_WAITING, .home = m.dst, .object = m.object, .slot = m.req_slot };
	seq = slot_seq(m.req_slot);
	run_send(&m);
	count(&job.me->stats.locks, 1);
	if (slot_seq(m.req_slot) == seq) {
		count(&job.me->stats.lock_waits, 1);
		start = clock_ns();
		slot_wait(m.req_slot, seq, 1, 0);
		sync_count_wait(DSM_LAT_LOCK, clock_ns() - start);
	}
	status = job.me->slots[m.req_slot].status;
	slot_put(job.rank, m.req_slot);
	run_timers(true);
	if (!status)
		held_add(id, (uint32_t)index);
	return status;
}

static int take(uint64_t id, uint8_t type)
{
	int err = handle_check(id, SYNC_MUTEX);

	if (err)
		return err;
	if (held_find(id) >= 0)
		return type == MSG_LOCK ? -EDEADLK : -EBUSY;
	err = held_add(id, 0); /* room for it, before others wait behind us */
	if (err)
		return err;
	held_remove(held_find(id));
	engine_depth++;
	err = acquire(id, type);
	engine_depth--;
	return err;
}

static int leave(uint64_t id)
{
	int at = held_find(id), err;
	uint16_t index;

	if (at < 0)
		return -EPERM;
	index = (uint16_t)held_info(at);
	held_remove(at);
	if (job.kernel >= 0)
		return kernel_call(&(struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = index });
	engine_depth++;
	err = run_unlock(index);
	run_timers(true);
	engine_depth--;
	return err;
}

DSM_API int dsm_mutex_lock(dsm_mutex_t *m)
{
	return take(m->id, MSG_LOCK);
}

DSM_API int dsm_mutex_trylock(dsm_mutex_t *m)
{
	return take(m->id, MSG_TRYLOCK);
}

DSM_API int dsm_mutex_unlock(dsm_mutex_t *m)
{
	uint64_t id = m->id;
	int err = handle_check(id, SYNC_MUTEX);

	return err ? err : leave(id);
}

DSM_API int dsm_rwlock_init(dsm_rwlock_t *l)
{
	return sync_make(SYNC_RWLOCK, 0, -1, &l->id);
}

DSM_API int dsm_rwlock_destroy(dsm_rwlock_t *l)
{
	return sync_unmake(&l->id, SYNC_RWLOCK);
}

static int rwlock(uint64_t id, enum sync_op op)
{
	struct sync_request q = { 0 };
	int err = handle_check(id, SYNC_RWLOCK);

	if (err)
		return err;
	if (held_find(id) >= 0)
		return -EDEADLK;
	err = held_add(id, op);
	if (err)
		return err;
	err = sync_ask(id, op, &q);
	count(&job.me->stats.locks, 1);
	if (q.waited)
		count(&job.me->stats.lock_waits, 1);
	if (err)
		held_remove(held_find(id));
	return err;
}

DSM_API int dsm_rwlock_rdlock(dsm_rwlock_t *l)
{
	return rwlock(l->id, SOP_RDLOCK);
}

DSM_API int dsm_rwlock_wrlock(dsm_rwlock_t *l)
{
	return rwlock(l->id, SOP_WRLOCK);
}

DSM_API int dsm_rwlock_unlock(dsm_rwlock_t *l)
{
	struct sync_request q = { 0 };
	uint64_t id = l->id;
	int err = handle_check(id, SYNC_RWLOCK), at;

	if (err)
		return err;
	at = held_find(id);
	if (at < 0)
		return -EPERM;
	err = sync_ask(id, held_info(at) == SOP_RDLOCK ? SOP_RDUNLOCK : SOP_WRUNLOCK, &q);
	held_remove(at);
	return err;
}

static int wait_in_kernel(uint64_t cond, dsm_mutex_t *m, uint64_t mutex, uint64_t ns)
{
	int at = held_find(mutex), status, err;
	struct dsm_ioc_call q = { .call = DSM_CALL_SYNC, .op = SOP_ENQUEUE, .home = handle_home(cond), .object = handle_object(cond),
				  .ns = ns, .mutex = (uint64_t)held_info(at) + 1 };

	status = kernel_call(&q);
	if (status && status != -ETIMEDOUT)
		return status; /* no such condition: the mutex is still ours */
	held_remove(held_find(mutex));
	err = dsm_mutex_lock(m);
	return err ? err : status;
}

static int wait_on(uint64_t cond, dsm_mutex_t *m, uint64_t mutex, uint64_t ns)
{
	struct msg q = { .type = MSG_SYNC, .op = SOP_ENQUEUE, .src = job.rank, .dst = handle_home(cond),
			 .object = handle_object(cond), .req_rank = job.rank };
	uint32_t seq;
	int status, err;

	if (job.kernel >= 0)
		return wait_in_kernel(cond, m, mutex, ns);
	engine_depth++;
	q.req_slot = slot_get();
	seq = slot_seq(q.req_slot);
	run_send(&q);
	/* In line before the mutex is free: whoever signals with the mutex held finds us there. */
	slot_wait(q.req_slot, seq, 1, 0);
	status = job.me->slots[q.req_slot].status;
	if (status)
		goto out;
	leave(mutex);
	status = sync_turn(&q, seq, ns);
out:
	slot_put(job.rank, q.req_slot);
	run_timers(true);
	engine_depth--;
	if (status && status != -ETIMEDOUT)
		return status;
	err = dsm_mutex_lock(m);
	return err ? err : status;
}

static int cond_wait(dsm_cond_t *c, dsm_mutex_t *m, uint64_t ns)
{
	uint64_t cond = c->id, mutex = m->id;
	int err = handle_check(cond, SYNC_COND);

	if (!err)
		err = handle_check(mutex, SYNC_MUTEX);
	if (err)
		return err;
	return held_find(mutex) < 0 ? -EPERM : wait_on(cond, m, mutex, ns);
}

DSM_API int dsm_cond_wait(dsm_cond_t *c, dsm_mutex_t *m)
{
	return cond_wait(c, m, 0);
}

DSM_API int dsm_cond_timedwait(dsm_cond_t *c, dsm_mutex_t *m, uint64_t ns)
{
	return cond_wait(c, m, ns ? ns : 1);
}

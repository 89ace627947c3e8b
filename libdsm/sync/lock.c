// SPDX-License-Identifier: BSD-2-Clause
/* lock.c - mutexes (core/lock.h: passed from holder to next waiter) and reader-writer locks. */
#include "sync/host.h"

#include <errno.h>
#include <pthread.h>

#include "job/inside.h"
#include "job/job.h"
#include "miss/keep.h"
#include "miss/lease.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/sharing.h"
#include "miss/slot.h"
#include "miss/wait.h"
#include "miss/work.h"
#include "sync/cached_lock.h"
#include "sync/cancel.h"
#include "sync/fast_lock.h"
#include "sync/handle.h"
#include "sync/held.h"
#include "sync/object.h"
#include "util/futex.h"
#include "util/hook.h"

DSM_API int dsm_mutex_init(dsm_mutex_t *m)
{
	return sync_make(SYNC_MUTEX, 0, -1, &m->id);
}

DSM_API int dsm_mutex_destroy(dsm_mutex_t *m)
{
	return sync_unmake(&m->id, SYNC_MUTEX);
}

/* State of a request for a mutex. */
struct ticket {
	uint16_t slot;
	uint32_t hold;
};

static int ticket_take(struct ticket *t, enum slot_kind kind)
{
	int64_t hold = hold_take();
	int slot;

	if (hold < 0 || hold >= CTL_CACHED_LOCKS)
		cached_lock_give_some();
	if (hold < 0)
		return -EAGAIN;
	slot = slot_get(kind);
	if (slot < 0) {
		hold_give((uint32_t)hold);
		return slot;
	}
	*t = (struct ticket){ .slot = (uint16_t)slot, .hold = (uint32_t)hold };
	return 0;
}

/*
 * Queue without a message if this node has the lock or waits for it: behind the thread that does,
 * or take it at once if it is cached by now. Both are checked twice: between the two checks the
 * lock may move from one place to the other. Returns the hold record, or -1.
 */
static int64_t get_here(const struct ticket *t, const struct msg *m)
{
	int64_t hold;
	int i;

	for (i = 0; i < 2; i++) {
		hold = cached_lock_join(m);
		if (hold >= 0)
			return hold;
		hold = cached_lock_take(m);
		if (hold >= 0) {
			slot_complete(t->slot, 0, 0);
			return hold;
		}
	}
	return -1;
}

/*
 * Queue for the lock, behind a thread of this node or at its home. Returns the hold record that
 * will have it.
 */
static uint32_t lock_get_in_line(const struct ticket *t, struct msg *m)
{
	struct core_host h = run_host();
	int64_t here;

	m->req_slot = t->slot;
	HOOK(lock_begin);
	here = m->type == MSG_LOCK ? get_here(t, m) : -1;
	if (here >= 0) {
		hold_give(t->hold);
		return (uint32_t)here;
	}
	m->aux = t->hold;
	if (m->type == MSG_LOCK)
		m->op = keep_claim();
	core_hold_begin(&h, t->hold, m);
	if (m->type == MSG_LOCK)
		cached_lock_note(m, t->hold);
	run_send(m);
	HOOK(lock_sent);
	return t->hold;
}

/*
 * The limit has passed. A thread behind another of its node leaves the line. One that is in the
 * line of nodes, or was woken, cannot leave: its slot stays there, and the thread that receives the
 * lock releases it (run.c, pass_on()). Until then, other threads of the node queue behind that
 * slot, so a node has at most one such slot per record. False: an answer has come.
 */
static bool quit(const struct msg *m, uint32_t hold)
{
	struct core_host h = run_host();

	if (!core_hold_leave(&h, hold, m->req_slot))
		return slot_quit(m->req_slot, hold);
	slot_put(m->req_slot);
	return true;
}

/*
 * In line: wait until this thread has the lock, or is refused. A woken thread (core/lock.h) says
 * that it has come; it is told more only after that, so nothing is missed between the two waits.
 * until: clock_ns(), or 0. -ETIMEDOUT: the caller no longer owns the slot.
 */
static int wait_turn(const struct msg *m, uint32_t seq, uint32_t hold, uint64_t until)
{
	int status;

	do {
		const uint64_t now = until ? clock_ns() : 0,
			       ns = !until ? 0
			: until > now      ? until - now
					   : 1;

		if (wait_slot(m->req_slot, seq, 1, ns) == -ETIMEDOUT) {
			if (quit(m, hold))
				return -ETIMEDOUT;
			wait_slot(m->req_slot, seq, 1, 0); /* it is being written */
		}
		seq = slot_seq(m->req_slot);
		status = job.me->slots[m->req_slot].status;
		if (status == -EAGAIN)
			slot_expect(m->req_slot);
	} while (status == -EAGAIN && !run_held(hold, HE_COME, m));
	return status;
}

/*
 * Has the request left the node? Only for the counters: another thread may take the answer before
 * the asker checks. If the home is here and has the lock, another thread's message may be counted
 * for this one, which is rare, as such a lock is cached.
 */
static uint64_t lock_messages(void)
{
	return __atomic_load_n(&job.mine->stats.messages_out, __ATOMIC_RELAXED);
}

/* A request with a shorter limit of time is not delayed (miss/keep.h). */
#define SOON_NS 50000000u

/* Takes the ticket's hold record; the caller keeps the slot, unless the result is -ETIMEDOUT. */
static int acquire_with(const struct ticket *t, uint64_t id, uint8_t type, uint64_t ns)
{
	struct msg m = handle_ask(id, type, 0);
	const uint64_t start = clock_ns(), until = ns ? start + ns : 0, sent = lock_messages();
	const uint32_t seq = slot_seq(t->slot);
	uint32_t hold;
	bool waits;
	int status;

	if (ns && ns < SOON_NS && type == MSG_LOCK)
		m.flags = MSGF_TIMED;
	wait_begin();
	hold = lock_get_in_line(t, &m);
	waits = slot_seq(t->slot) == seq || (hold == t->hold && lock_messages() != sent);
	held_count();
	if (waits) {
		count(&job.mine->stats.lock_waits, 1);
		if (hold == t->hold && type == MSG_LOCK)
			keep_waited();
		about_object(id);
	}
	status = wait_turn(&m, seq, hold, until);
	wait_end();
	if (waits) {
		about_none();
		sync_count_wait(DSM_LAT_LOCK, clock_ns() - start);
	}
	if (!status) {
		sharing_acquired();
		release_acquire();
		held_add(id, hold);
		/* another rank of the node may have had the record */
		job.me->hold_by[hold] = job.local;
		if (type == MSG_TRYLOCK)
			cached_lock_note(&m, hold);
	}
	return status;
}

/* Lock without a message, if this node caches the lock. */
static bool acquire_cached(uint64_t id)
{
	struct msg ask = handle_ask(id, MSG_LOCK, 0);
	int64_t hold = cached_lock_take(&ask);

	if (hold < 0)
		return false;
	held_add(id, (uint32_t)hold);
	held_count();
	return true;
}

#define SPINS 12  /* polls of a held lock, each after twice as many pauses as the one before, */
#define PAUSES 64 /* at most; some microseconds in all, less than sleeping and waking cost */

/*
 * Spin while another thread of this node holds the lock and nobody waits, for as long as a short
 * section takes.
 */
static bool acquire_soon(uint64_t id)
{
	unsigned int i, n, pauses = 1;

	for (i = 0; i < SPINS && fast_busy(id); i++) {
		for (n = 0; n < pauses; n++)
			cpu_relax();
		if (!fast_busy(id) && fast_lock(id))
			return true;
		pauses = pauses < PAUSES ? 2 * pauses : PAUSES;
	}
	return false;
}

/* After a wait for a condition: the ticket was taken before, since this must not fail. */
static int lock_acquire_again(const struct ticket *t, uint64_t id)
{
	if (!acquire_cached(id))
		return acquire_with(t, id, MSG_LOCK, 0);
	hold_give(t->hold);
	return 0;
}

int lock_acquire(uint64_t id, uint8_t type, uint64_t ns)
{
	struct ticket t;
	int status;

	if (type == MSG_TRYLOCK && fast_busy(id)) {
		held_count();
		return -EBUSY;
	}
	if (acquire_cached(id) || acquire_soon(id))
		return 0;
	status = ticket_take(&t, type == MSG_LOCK ? SLOT_LASTING : SLOT_BRIEF);
	if (status)
		return status;
	status = acquire_with(&t, id, type, ns);
	if (status != -ETIMEDOUT)
		slot_put(t.slot);
	work_timers(true);
	return status;
}

static int mutex_acquire(dsm_mutex_t *m, uint8_t type, uint64_t ns)
{
	unsigned int us = 0;
	uint64_t id;
	int err = sync_handle(&m->id, SYNC_MUTEX, &id);

	if (err)
		return err;
	if (held_find(id) >= 0)
		return type == MSG_LOCK ? -EDEADLK : -EBUSY;
	err = held_add(id, 0); /* make room for it before other threads queue behind this one */
	if (err)
		return err;
	held_remove(held_find(id));
	engine_enter();
	/*
	 * In progress: the answer to another thread's question whether the mutex is idle comes
	 * first.
	 */
	while ((err = sync_host()->acquire(id, type, ns)) == -EINPROGRESS)
		sync_again(&us);
	engine_leave();
	return err;
}

int lock_release(uint32_t hold)
{
	int err;

	engine_enter();
	err = run_held(hold, HE_UNLOCK, NULL);
	work_timers(true);
	engine_leave();
	return err;
}

static int lock_leave(uint64_t id)
{
	int at = held_find(id);
	uint32_t hold;

	if (at < 0)
		return -EPERM;
	if (fast_unlock(id))
		return 0;
	hold = held_info(at);
	held_remove(at);
	return sync_host()->release(hold);
}

/* These two are separate so that the last mutex is locked and unlocked without a call. */
static __attribute__((noinline)) int lock_other(dsm_mutex_t *m)
{
	return fast_lock_other(__atomic_load_n(&m->id, __ATOMIC_RELAXED))
		? 0
		: mutex_acquire(m, MSG_LOCK, 0);
}

static __attribute__((noinline)) int unlock_other(dsm_mutex_t *m)
{
	uint64_t id = m->id;
	int err;

	if (fast_unlock(id))
		return 0;
	err = handle_check(id, SYNC_MUTEX);
	return err ? err : lock_leave(id);
}

DSM_API int dsm_mutex_lock(dsm_mutex_t *m)
{
	return fast_lock_last(__atomic_load_n(&m->id, __ATOMIC_RELAXED)) ? 0 : lock_other(m);
}

DSM_API int dsm_mutex_trylock(dsm_mutex_t *m)
{
	return fast_lock(__atomic_load_n(&m->id, __ATOMIC_RELAXED))
		? 0
		: mutex_acquire(m, MSG_TRYLOCK, 0);
}

DSM_API int dsm_mutex_timedlock(dsm_mutex_t *m, uint64_t ns)
{
	int err;

	if (fast_lock(__atomic_load_n(&m->id, __ATOMIC_RELAXED)))
		return 0;
	err = mutex_acquire(m, ns ? MSG_LOCK : MSG_TRYLOCK, ns);
	if (err != -EBUSY)
		return err;
	return held_find(m->id) < 0 ? -ETIMEDOUT : -EDEADLK;
}

DSM_API int dsm_mutex_unlock(dsm_mutex_t *m)
{
	return fast_unlock_last(m->id) ? 0 : unlock_other(m);
}

DSM_API int dsm_rwlock_init(dsm_rwlock_t *l)
{
	return sync_make(SYNC_RWLOCK, 0, -1, &l->id);
}

DSM_API int dsm_rwlock_destroy(dsm_rwlock_t *l)
{
	return sync_unmake(&l->id, SYNC_RWLOCK);
}

/*
 * Lock or unlock for reading without a message, if this node has a lease. A full fence: the lock of
 * the place is taken and dropped by locked instructions.
 */
static bool leased(uint64_t id, bool (*how)(uint64_t lock))
{
	bool done;

	if (sync_host() != &sync_process)
		return false;
	engine_enter();
	done = how(id & ~HANDLE_KIND);
	engine_leave();
	return done;
}

DSM_API int dsm_rwlock_leased(const dsm_rwlock_t *l)
{
	const uint64_t id = l->id;
	const int err = handle_check(id, SYNC_RWLOCK);

	if (err)
		return err;
	return sync_host() == &sync_process ? lease_number(id & ~HANDLE_KIND) : 0;
}

static int rwlock_acquire(dsm_rwlock_t *l, enum sync_op op, uint64_t ns)
{
	const bool reads = op == SOP_RDLOCK || op == SOP_TRYRDLOCK;
	struct sync_request q = { .ns = ns };
	uint64_t id;
	int err = sync_handle(&l->id, SYNC_RWLOCK, &id);

	if (err)
		return err;
	if (held_find(id) >= 0)
		return sync_waits(op) ? -EDEADLK : -EBUSY;
	err = held_add(id, reads);
	if (err)
		return err;
	if (reads && leased(id, lease_lock)) {
		count(&job.mine->stats.locks, 1);
		return 0;
	}
	err = sync_ask(id, op, &q);
	count(&job.mine->stats.locks, 1);
	if (q.waited)
		count(&job.mine->stats.lock_waits, 1);
	if (err)
		held_remove(held_find(id));
	return err;
}

DSM_API int dsm_rwlock_rdlock(dsm_rwlock_t *l)
{
	return rwlock_acquire(l, SOP_RDLOCK, 0);
}

DSM_API int dsm_rwlock_tryrdlock(dsm_rwlock_t *l)
{
	return rwlock_acquire(l, SOP_TRYRDLOCK, 0);
}

DSM_API int dsm_rwlock_timedrdlock(dsm_rwlock_t *l, uint64_t ns)
{
	return rwlock_acquire(l, SOP_RDLOCK, ns ? ns : 1);
}

DSM_API int dsm_rwlock_wrlock(dsm_rwlock_t *l)
{
	return rwlock_acquire(l, SOP_WRLOCK, 0);
}

DSM_API int dsm_rwlock_trywrlock(dsm_rwlock_t *l)
{
	return rwlock_acquire(l, SOP_TRYWRLOCK, 0);
}

DSM_API int dsm_rwlock_timedwrlock(dsm_rwlock_t *l, uint64_t ns)
{
	return rwlock_acquire(l, SOP_WRLOCK, ns ? ns : 1);
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
	if (!held_info(at) || !leased(id, lease_unlock))
		err = sync_ask(id, held_info(at) ? SOP_RDUNLOCK : SOP_WRUNLOCK, &q);
	held_remove(at);
	return err;
}

struct waiter {
	struct msg m;
	uint32_t seq;
	struct ticket ticket; /* for locking the mutex again, which must not fail for lack of one */
	uint64_t mutex;
};

/*
 * A thread is cancelled in dsm_cond_wait(): it holds the mutex again when the program's cleanup
 * handlers run.
 */
static void lock_give_up(void *arg)
{
	struct waiter *w = arg;

	if (cancel_take_back(&w->m, w->seq, true) > 0) {
		/* If a signal has come, it is for the next in line. */
		uint32_t seq = slot_seq(w->m.req_slot);

		w->m.op = SOP_SIGNAL;
		run_send(&w->m);
		wait_slot(w->m.req_slot, seq, 1, 0);
	}
	lock_acquire_again(&w->ticket, w->mutex);
	slot_put(w->ticket.slot);
	work_timers(true);
	engine_leave();
}

int lock_wait(uint64_t cond, uint64_t mutex, uint64_t ns)
{
	struct waiter w = { .m = handle_ask(cond, MSG_SYNC, SOP_ENQUEUE), .mutex = mutex };
	int status, err;

	engine_enter();
	err = ticket_take(&w.ticket, SLOT_LASTING);
	if (err)
		goto out;
	w.m.req_slot = w.ticket.slot;
	w.seq = slot_seq(w.m.req_slot);
	wait_begin();
	run_send(&w.m);
	/*
	 * Queue before the mutex is free: a thread that signals with the mutex held then finds this
	 * one waiting.
	 */
	wait_slot(w.m.req_slot, w.seq, 1, 0);
	wait_end();
	status = err = __atomic_load_n(&job.me->slots[w.m.req_slot].status, __ATOMIC_RELAXED);
	if (status) {
		hold_give(w.ticket.hold); /* no such condition: this thread still holds the mutex */
	} else {
		HOOK(cond_line);
		lock_leave(mutex);
		HOOK(cond_left);
		pthread_cleanup_push(lock_give_up, &w);
		about_object(cond);
		status = sync_turn(&w.m, w.seq, ns, true, NULL);
		about_none();
		pthread_cleanup_pop(0);
		sharing_acquired();
		release_acquire();
		HOOK(cond_came);
		err = lock_acquire_again(&w.ticket, mutex);
	}
	slot_put(w.ticket.slot);
	work_timers(true);
	if (!err)
		err = status;
out:
	engine_leave();
	return err;
}

static int cond_wait(dsm_cond_t *c, dsm_mutex_t *m, uint64_t ns)
{
	uint64_t cond, mutex = m->id;
	int err = sync_handle(&c->id, SYNC_COND, &cond);

	pthread_testcancel();
	if (!err)
		err = handle_check(mutex, SYNC_MUTEX);
	if (err)
		return err;
	return held_find(mutex) < 0 ? -EPERM : sync_host()->wait(cond, mutex, ns);
}

DSM_API int dsm_cond_wait(dsm_cond_t *c, dsm_mutex_t *m)
{
	return cond_wait(c, m, 0);
}

DSM_API int dsm_cond_timedwait(dsm_cond_t *c, dsm_mutex_t *m, uint64_t ns)
{
	return cond_wait(c, m, ns ? ns : 1);
}

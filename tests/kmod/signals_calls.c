// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals_calls.c - a thread waits in each kind of call that waits, and gets signals: handlers run,
 * and the call ends when the other rank permits it, and has been made once, also if handlers make
 * calls. A handler may also leave by siglongjmp(3), before or after the object of the wait has
 * arrived. Other ranks then get it, whether the thread makes another call or exits.
 */
#include "core/sync.h"
#include "tests/kmod/signals.h"

#include <unistd.h>

#define LIMIT_NS 60000000000ull

struct kind {
	const char *name;
	/* call of the waiting rank, call of the other rank that ends the wait */
	struct dsm_ioc_call wait, let;
	struct dsm_ioc_call hold;  /* by the other rank, before */
	struct dsm_ioc_call undo;  /* by the waiting rank, after */
	struct dsm_ioc_call again; /* by the other rank, at the end: as if nobody had waited */
	int32_t status;            /* expected status of `again` */
	uint8_t object;            /* enum sync_kind */
	bool given_back;           /* what nobody waits for is given back */
	bool mutex;                /* the wait releases a mutex */
};

#define CALL(c, ...)                                \
	{                                           \
		.call = (c), .home = 1, __VA_ARGS__ \
	}
#define ARRIVE                                                                         \
	{                                                                              \
		.call = DSM_CALL_BARRIER, .object = BARRIER, .threads = 1, .value2 = 3 \
	}

static const struct kind kinds[] = {
	{ .name = "a lock",
	  .object = SYNC_MUTEX,
	  .hold = CALL(DSM_CALL_LOCK, ),
	  .wait = CALL(DSM_CALL_LOCK, ),
	  .let = { .call = DSM_CALL_UNLOCK },
	  .undo = { .call = DSM_CALL_UNLOCK },
	  .again = CALL(DSM_CALL_TRYLOCK, ),
	  .given_back = true },
	{ .name = "a lock to write",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_WRLOCK, ),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_WRUNLOCK, ),
	  .again = SYNC(SOP_WRLOCK, ),
	  .given_back = true },
	{ .name = "a lock to read",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_RDLOCK, ),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_RDUNLOCK, ),
	  .again = SYNC(SOP_WRLOCK, ),
	  .given_back = true },
	{ .name = "a lock to write with a limit",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_RDLOCK, ),
	  .wait = SYNC(SOP_WRLOCK, .ns = LIMIT_NS),
	  .let = SYNC(SOP_RDUNLOCK, ),
	  .undo = SYNC(SOP_WRUNLOCK, ),
	  .again = SYNC(SOP_TRYWRLOCK, ),
	  .given_back = true },
	{ .name = "a lock to read with a limit",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_RDLOCK, .ns = LIMIT_NS),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_RDUNLOCK, ),
	  .again = SYNC(SOP_TRYWRLOCK, ),
	  .given_back = true },
	{ .name = "a semaphore",
	  .object = SYNC_SEM,
	  .wait = SYNC(SOP_WAIT, ),
	  .let = SYNC(SOP_POST, .value = 1),
	  .undo = SYNC(SOP_POST, .value = 1),
	  .again = SYNC(SOP_TRYWAIT, ),
	  .given_back = true },
	{ .name = "a semaphore with a limit",
	  .object = SYNC_SEM,
	  .wait = SYNC(SOP_WAIT, .ns = LIMIT_NS),
	  .let = SYNC(SOP_POST, .value = 1),
	  .undo = SYNC(SOP_POST, .value = 1),
	  .again = SYNC(SOP_TRYWAIT, ),
	  .given_back = true },
	{ .name = "a condition",
	  .object = SYNC_COND,
	  .wait = SYNC(SOP_ENQUEUE, ),
	  .let = SYNC(SOP_SIGNAL, ),
	  .again = SYNC(SOP_DESTROY, ), /* no request is in line */
	  .given_back = true },
	{ .name = "a condition with a mutex",
	  .object = SYNC_COND,
	  .mutex = true,
	  .wait = SYNC(SOP_ENQUEUE, ),
	  .let = SYNC(SOP_SIGNAL, ),
	  .again = SYNC(SOP_DESTROY, ), /* no request is in line */
	  .given_back = true },
	{ .name = "a barrier", .wait = ARRIVE, .let = ARRIVE },
};

static const struct kind *what;
static uint32_t mutex_name; /* its home is rank 0 */
static uint16_t mutex_hold; /* record of the waiting thread's hold, before it waits */
static bool mutex_taken;    /* by another thread of the rank */

/* Make a call on the shared object. Empty calls are skipped. */
static int32_t make_call(int fd, const struct dsm_ioc_call *c, uint16_t *hold)
{
	struct dsm_ioc_call named = *c, out;

	if (c->call == DSM_CALL_SYNC && !c->op)
		return 0;
	if (c->call == DSM_CALL_UNLOCK)
		named.hold = *hold;
	else if (c->call != DSM_CALL_BARRIER)
		named.object = atomic_load(&both->object);
	if (c->op == SOP_ENQUEUE && what->mutex)
		named.mutex = mutex_hold + 1u;
	if (!call(fd, &named, &out))
		return errno == EINTR ? -EINTR : -EIO;
	*hold = out.hold;
	return out.status;
}

static bool lock_mutex(uint16_t *hold)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_LOCK, .object = mutex_name };
	const bool ok = call(waiter_fd, &c, &c) && !c.status;

	*hold = c.hold;
	return ok;
}

static void make_mutex(void)
{
	struct dsm_ioc_call c = { .value2 = (uint64_t)SYNC_MUTEX << 32 };

	expect(call(waiter_fd, &c, &c) && !c.status, "a mutex");
	mutex_name = (uint32_t)c.result;
}

/*
 * Another thread locks the mutex that the waiting thread has released, in the same hold record, and
 * keeps it until it unlocks.
 */
static void take_mutex(void)
{
	uint16_t hold;

	if (mutex_taken)
		return;
	mutex_taken = true;
	expect(lock_mutex(&hold) && hold == mutex_hold, "the mutex that the wait has released");
}

static void release_mutex(void)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_UNLOCK, .hold = mutex_hold };

	expect(call(waiter_fd, &c, &c), "the wait has released its mutex once");
}

/* Make the call in a thread that gets signals, or that leaves the call and makes another one. */
static void *call_it(void *arg)
{
	const bool goes = arg;
	uint16_t hold = 0;

	atomic_store(&both->tid, (unsigned int)gettid());
	if (goes && sigsetjmp(out_of_here, 1)) {
		if (!ends)
			another_call();
		atomic_store(&both->ended, 1);
		return NULL;
	}
	expect(!what->mutex || lock_mutex(&mutex_hold), "the mutex");
	expect(!make_call(waiter_fd, &what->wait, &hold), "the call");
	expect(!goes, "the handler leaves");
	atomic_store(&both->ended, 1);
	expect(!make_call(waiter_fd, &what->undo, &hold), "what it got is given back");
	return NULL;
}

/* Hold the object of the wait until the other rank's thread has received all signals. */
static void lets(bool goes)
{
	struct dsm_ioc_call made = { .home = 1, .value2 = (uint64_t)what->object << 32 };
	double end = now_s() + patience(20);
	int fd = job_join(j, 1);
	uint16_t hold = 0;
	int32_t status;

	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	if (what->object) {
		expect(call(fd, &made, &made) && !made.status, "an object is made");
		atomic_store(&both->object, (unsigned int)made.result);
	}
	expect(!make_call(fd, &what->hold, &hold), "it is held");
	atomic_store(&both->pinned, 1);
	expect(reached(&both->handled, goes ? 1 : SIGNALS),
	       "handlers run while their thread waits");
	if (goes && !late)
		expect(reached(&both->ended, 1), "the thread goes on");
	else
		expect(!atomic_load(&both->ended), "the call waits");
	expect(!make_call(fd, &what->let, &hold), "it is let go");
	atomic_store(&both->let, 1);
	expect(reached(&both->ended, 1), "the call ends");
	expect(reached(&both->pinned, 2), "the other rank");
	do {
		status = make_call(fd, &what->again, &hold);
	} while (status && now_s() < end && !usleep(1000));
	expect(!status, "it has been given back");
	if (what->object == SYNC_SEM)
		expect(make_call(fd, &what->again, &hold), "it was given back once");
	atomic_store(&both->pinned, 3);
	fflush(stdout);
	_exit(0);
}

static void calls(bool goes)
{
	pthread_t thread;

	begins(goes);
	if (what->mutex)
		make_mutex();
	thread = begin_and_signal(call_it, goes, what->mutex ? take_mutex : NULL);
	if (what->mutex)
		release_mutex();
	pthread_join(thread, NULL);
	atomic_store(&both->pinned, 2);
	reached(&both->pinned, 3); /* the object of a call that was left arrives at this rank */
	fflush(stdout);
	_exit(0);
}

static bool waits_for(const struct kind *k)
{
	bool ok;

	what = k;
	ok = run_ranks(calls, lets, false, false);
	printf("%s: %s\n", k->name, ok ? "handlers ran while it was waited for" : "FAILED");
	busy = true;
	ok = ok && run_ranks(calls, lets, false, false);
	busy = false;
	printf("%s, and handlers that make calls: %s\n", k->name, ok ? "made once" : "FAILED");
	if (!ok || !k->given_back)
		return ok;
	ok = run_ranks(calls, lets, true, false);
	late = true;
	ok = ok && run_ranks(calls, lets, true, false);
	late = false;
	ends = true;
	ok = ok && run_ranks(calls, lets, true, false);
	ends = false;
	printf("%s that a handler leaves: %s\n", k->name, ok ? "others get it" : "FAILED");
	return ok;
}

bool test_calls(void)
{
	unsigned int i;
	bool ok = true;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && ok; i++)
		ok = waits_for(&kinds[i]);
	return ok;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * futex_sync.c - the objects of POSIX in one node (pthread/futex_sync.c): what came before is seen,
 * nobody sleeps for ever, and a thread that has been let go, or was the last to use an object, may
 * use its memory for something else while others still leave their calls. A call with a time limit
 * does not sleep: its time is over.
 */
#define SPINS 1
#define INTERPOSE_RAW_SYSCALL_H /* its place is taken here */

#include "../order.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

static long raw_syscall(long n, const long *arg)
{
	if (n == SYS_futex && !arg[3])
		return syscall(n, (uint32_t *)arg[0], (int)arg[1], (uint32_t)arg[2]);
	errno = ETIMEDOUT;
	return -1;
}

static void raw_pause(long ns)
{
	(void)ns;
}

#include "pthread/futex_sync.c"

static struct {
	pthread_mutex_t mutex, lock;
	pthread_rwlock_t rwlock;
	sem_t sem;
	pthread_barrier_t barrier;
	pthread_cond_t cond;
} m;

static uint32_t data; /* plain: written before an object is passed on, read after it */
static uint64_t *reused, *end_of_reused; /* the memory of an object that is gone */

void scene_memory(void)
{
	share(m);
	share(data);
	own(reading);
	own(thread_id);
}

int dsm_wait_begin(enum dsm_wait what, const void *object, int holder)
{
	return (int)what * !object * holder;
}

void dsm_wait_end(int wait)
{
	(void)wait;
}

void dsm_abort(int status, const char *format, ...)
{
	(void)format;
	exit(status);
}

/* The object is gone; its first words are another's. */
#define REUSED 0x5555555555555555u
static void reuse(void *object, unsigned int words)
{
	uint64_t *w = object;

	reused = w;
	end_of_reused = w + words;
	while (w < end_of_reused)
		*w++ = REUSED;
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* they are in memory before others go on */
}

static void nothing_reused(void)
{
	reused = end_of_reused = NULL;
}

static void not_written(void)
{
	const uint64_t *w;

	for (w = reused; w < end_of_reused; w++)
		require(*w == REUSED, "memory of an object that is gone is written");
}

/* ---- mutexes --------------------------------------------------------------------------------- */

static void mutex(unsigned int me)
{
	thread_id = me + 1;
	futex_sync_lock(&m.mutex, CLOCK_REALTIME, NULL);
	data++;
	futex_sync_unlock(&m.mutex);
}

static void mutex_end(void)
{
	require(data == 2, "two threads were inside at once");
}

/* ---- reader-writer locks --------------------------------------------------------------------- */

static void hold(bool write)
{
	require(!futex_sync_rwlock(&m.rwlock, write, true, CLOCK_REALTIME, NULL), "no lock");
}

static void held_to_write(void)
{
	nothing_reused();
	hold(true);
}

static void held_to_read(void)
{
	nothing_reused();
	hold(false);
}

static void held_by_two(void)
{
	nothing_reused();
	hold(false);
	hold(false);
	reading = 0;
}

/* The others have it; the last thread waits for it, and is the last to use it. */
static void last_writes(unsigned int me, unsigned int last)
{
	thread_id = me + 1;
	if (me < last) {
		if (!me)
			data = 1;
		futex_sync_rwunlock(&m.rwlock);
		return;
	}
	hold(true);
	require(data == 1, "what came before the lock is not seen");
	futex_sync_rwunlock(&m.rwlock);
	reuse(&m.rwlock, 2);
}

static void one_before(unsigned int me)
{
	last_writes(me, 1);
}

static void two_before(unsigned int me)
{
	last_writes(me, 2);
}

/*
 * Thread 0 waits for it to write, and has no time; thread 1 waits for it to read. Who has it for
 * reading does not give it back.
 */
static void limited(unsigned int me)
{
	const struct timespec now = { 1, 0 };

	thread_id = me + 1;
	if (me == 1)
		hold(false);
	else
		require(futex_sync_rwlock(&m.rwlock, true, true, CLOCK_REALTIME, &now) == ETIMEDOUT,
			"a lock that another thread has");
}

/* A writer and readers: each gets it. */
static void both(unsigned int me)
{
	thread_id = me + 1;
	hold(!me);
	if (!me)
		data++;
	else
		require(data < 2, "the writer is inside");
	futex_sync_rwunlock(&m.rwlock);
}

/* ---- semaphores ------------------------------------------------------------------------------ */

static uint32_t stop;

static void sem_taken(void)
{
	require(!futex_sync_sem_wait((uint32_t *)&m.sem, true, CLOCK_REALTIME, NULL, &stop),
		"no semaphore");
}

static void sem_gone(unsigned int me)
{
	thread_id = me + 1;
	if (!me) {
		data = 1;
		futex_sync_sem_post((uint32_t *)&m.sem);
		return;
	}
	sem_taken();
	require(data == 1, "what came before the semaphore is not seen");
	reuse(&m.sem, 1);
}

/* Two are posted, two are taken. */
static void sems(unsigned int me)
{
	thread_id = me + 1;
	if (!me) {
		futex_sync_sem_post((uint32_t *)&m.sem);
		futex_sync_sem_post((uint32_t *)&m.sem);
	} else {
		sem_taken();
	}
}

/* ---- barriers, conditions -------------------------------------------------------------------- */

static void two_meet(void)
{
	nothing_reused();
	((struct barrier *)&m.barrier)->n = 2;
}

/* A thread that has met the other destroys the barrier, as soon as that one has left it. */
static void barrier_gone(unsigned int me)
{
	int result;

	thread_id = me + 1;
	if (!me)
		data = 1;
	result = futex_sync_barrier(&m.barrier);
	require(!me || data == 1, "what came before the barrier is not seen");
	if (result == PTHREAD_BARRIER_SERIAL_THREAD && barrier_is_left(&m.barrier))
		reuse(&m.barrier, 2);
}

/* Thread 0 wakes the other, and destroys the condition, as soon as that one has left it. */
static void cond_gone(unsigned int me)
{
	thread_id = me + 1;
	futex_sync_lock(&m.lock, CLOCK_REALTIME, NULL);
	if (!me) {
		data = 1;
		futex_sync_wake(&m.cond, true);
		if (cond_is_left(&m.cond))
			reuse(&m.cond, 1);
	} else {
		while (!data)
			futex_sync_wait(&m.cond, &m.lock, CLOCK_REALTIME, NULL);
	}
	futex_sync_unlock(&m.lock);
}

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "mutex", .what = "two threads lock a mutex", .threads = 2, .thread = mutex, .end = mutex_end },
	{ .name = "rwlock-write", .what = "a writer waits for a writer, and is the last",
	  .threads = 2, .begin = held_to_write, .thread = one_before, .end = not_written },
	{ .name = "rwlock-read", .what = "a writer waits for a reader, and is the last",
	  .threads = 2, .begin = held_to_read, .thread = one_before, .end = not_written },
	{ .name = "rwlock-readers", .what = "a writer waits for two readers, and is the last",
	  .threads = 3, .begin = held_by_two, .thread = two_before, .end = not_written },
	{ .name = "rwlock-limit", .what = "a reader waits for a writer that gives up",
	  .threads = 2, .begin = held_to_read, .thread = limited },
	{ .name = "rwlock-limits", .what = "a reader waits for two writers that give up",
	  .threads = 3, .begin = held_to_read, .thread = limited, .switches = 1 },
	{ .name = "rwlock-both", .what = "a writer and two readers", .threads = 3, .thread = both, .switches = 1 },
	{ .name = "sem-gone", .what = "a semaphore is posted, and who takes it is the last",
	  .threads = 2, .begin = nothing_reused, .thread = sem_gone, .end = not_written },
	{ .name = "sems", .what = "two threads wait for what a third posts", .threads = 3, .thread = sems, .switches = 3 },
	{ .name = "barrier-gone", .what = "two threads meet, and one destroys the barrier",
	  .threads = 2, .begin = two_meet, .thread = barrier_gone, .end = not_written },
	{ .name = "cond-gone", .what = "a thread wakes another, and destroys the condition",
	  .threads = 2, .begin = nothing_reused, .thread = cond_gone, .end = not_written },
	{ .name = NULL },
};
/* clang-format on */

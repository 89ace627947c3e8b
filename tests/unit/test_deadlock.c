// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_deadlock.c - watch/deadlock: which threads of a rank count as waiting for another thread.
 * The program has one thread, the first, which sleeps with a note; a thread of the runtime reads
 * it, and may find it written anew between two loads.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls/payload.h"
#include "job/job.h"
#include "job/threads.h"
#include "util/futex.h"
#include "watch/deadlock.h"
#include "watch/stall.h"

#ifdef __SANITIZE_THREAD__
/* the sanitizer's thread counts as one of the program, so no rank is ever wholly asleep */
#define ALONE false
#else
#define ALONE true
#endif

static struct ctl node;
/* its first field is on one page; the others are on the next, which can be closed */
static struct wait_note *note;
static char *page;
static int sleeper;
static unsigned int faults;
static bool writes; /* an access to the closed page rewrites the note first */

static char *page_of(const void *at)
{
	return (char *)((uintptr_t)at & ~(uintptr_t)(PAGE_BYTES - 1));
}

static bool always(int sig)
{
	return sig;
}

static void set_up(void)
{
	struct rank_ctl *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned int i;

	unit_require(c != MAP_FAILED);
	job.mine = c;
	job.me = &node;
	job.set.stall_ms = 100;
	threads_expect(always); /* handlers of Check */
	for (i = 0; i < CTL_NOTES && page_of(&c->notes[i].since) == page_of(&c->notes[i].lasting);
	     i++)
		;
	unit_require(i < CTL_NOTES);
	note = &c->notes[i];
	page = page_of(&note->lasting);
	sleeper = gettid();
	faults = 0;
}

/* A wait for a semaphore that began so long ago. */
static void wait_for(unsigned int ms)
{
	__atomic_store_n(&note->since, 0, __ATOMIC_RELAXED);
	note->about = (struct wait_about){ .kind = ABOUT_OBJECT };
	note->tid = (uint32_t)sleeper;
	note->lasting = 1;
	__atomic_store_n(&note->since, clock_ns() - ms * 1000000ull, __ATOMIC_RELEASE);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (page_of(info->si_addr) != page || mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE)) {
		signal(sig, SIG_DFL); /* a different fault */
		return;
	}
	faults++;
	if (writes)
		wait_for(0);
}

static void await_sleep(void)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", sleeper);
	while (state != 'S') {
		f = fopen(path, "r");
		unit_require(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
		fclose(f);
	}
}

static struct asleep told;

static void *serve(void *arg)
{
	threads_note(gettid());
	await_sleep();
	*(int *)arg = deadlock_serve(&told);
	return NULL;
}

/* Returns the rank's answer while the program's thread sleeps. */
static int ask(void)
{
	int answer = 1;
	pthread_t t;

	unit_require(!pthread_create(&t, NULL, serve, &answer));
	pthread_join(t, NULL);
	return answer;
}

UNIT_LOOP_TEST(a_thread_that_waits_for_long_is_asleep, 0, ALONE)
{
	wait_for(2000);
	ck_assert_int_eq(ask(), 0);
	ck_assert_uint_eq(told.threads, 1);
	ck_assert_uint_eq(told.since, note->since);
}

/* A message that wakes the thread may be held until the close has ended. */
UNIT_LOOP_TEST(a_node_that_closes_is_not_asleep, 0, ALONE)
{
	wait_for(2000);
	node.releases = 1;
	ck_assert_int_eq(ask(), 0);
	node.closing.phase = CLOSING_GATHER;
	ck_assert_int_eq(ask(), -EBUSY);
	node.closing.phase = CLOSING_IDLE;
	node.closing.held = 1;
	ck_assert_int_eq(ask(), -EBUSY);
	node.releases = 0;
	ck_assert_int_eq(ask(), 0);
}

UNIT_TEST(a_wait_that_is_short_or_ends_by_itself_is_none)
{
	wait_for(20);
	ck_assert_int_eq(ask(), -EBUSY);
	wait_for(2000);
	note->lasting = 0;
	ck_assert_int_eq(ask(), -EBUSY);
	wait_for(2000);
	note->about.kind = ABOUT_BLOCK;
	ck_assert_int_eq(ask(), -EBUSY);
	wait_for(2000);
	note->tid++; /* of another thread */
	ck_assert_int_eq(ask(), -EBUSY);
}

/*
 *   reader: since, 2 s old         the thread: wakes, waits again; since is now
 *   reader: the rest, of the new wait
 * The thread has just run, and may have woken others. The page is also closed when nothing is
 * written: the fault makes no difference.
 */
UNIT_LOOP_TEST(a_note_that_is_written_again_while_it_is_read_is_none, 0, ALONE ? 2 : 0)
{
	const struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	ck_assert_int_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	writes = _i;
	wait_for(2000);
	ck_assert_int_eq(mprotect(page, PAGE_BYTES, PROT_NONE), 0);
	ck_assert_int_eq(ask(), writes ? -EBUSY : 0);
	ck_assert_uint_eq(faults, 1);
}

UNIT_SUITE("deadlock", .setup = set_up)

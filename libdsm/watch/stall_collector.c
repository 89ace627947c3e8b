// SPDX-License-Identifier: BSD-2-Clause
/*
 * stall_collector.c - the thread that asks the other ranks which threads wait for what (stall.c,
 * deadlock.c).
 *
 * The service thread must not wait for other nodes, since it checks whether they are silent. The
 * fault handler must not either, since a signal ends each wait there. There is at most one such
 * thread at a time, and it exists only while it asks.
 */
#include "watch/stall_collector.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "job/inside.h"
#include "job/note.h"
#include "job/threads.h"
#include "util/futex.h"

static uint32_t asking, closed; /* atomic */

static void stall_collector_end(void)
{
	__atomic_store_n(&asking, 0, __ATOMIC_SEQ_CST);
	futex_wake(&asking, 1);
}

static void *run(void *arg)
{
	void (*ask)(void) = *(void (**)(void))arg;

	threads_note(gettid());
	engine_thread(NULL);
	note_quiet = true;
	ask();
	threads_note(0);
	stall_collector_end();
	return NULL;
}

/*
 *   starter:  asking = 1; closed? then not      closer:  closed = 1; asking? then wait
 */
bool stall_collector_start(void (*ask)(void))
{
	static void (*what)(void); /* what the thread runs */
	uint32_t nobody = 0;
	sigset_t all, old;
	pthread_t t;
	bool made = false;

	if (!__atomic_compare_exchange_n(&asking, &nobody, 1, 0, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return false;
	if (!__atomic_load_n(&closed, __ATOMIC_SEQ_CST)) {
		what = ask;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		made = !pthread_create(&t, NULL, run, &what);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (made)
		pthread_detach(t);
	else
		stall_collector_end();
	return made;
}

void stall_collector_wait(void)
{
	while (__atomic_load_n(&asking, __ATOMIC_SEQ_CST))
		futex_wait(&asking, 1, 100000000);
}

void stall_collector_close(void)
{
	__atomic_store_n(&closed, 1, __ATOMIC_SEQ_CST);
	stall_collector_wait();
}

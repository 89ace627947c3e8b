// SPDX-License-Identifier: BSD-2-Clause
/*
 * native.c - the POSIX threads of this process that run threads of the program: who looks for one
 * finds it by its record, whose contents are not looked at.
 *
 * The signal by which the C library interrupts a system call to cancel a thread is handled on the
 * alternate stack, for the kernel cannot wait for a block of a shared one.
 */
#include "api/native.h"

#include <errno.h>
#include <unistd.h>

#include "calls/load.h"
#include "job/inside.h"
#include "job/job.h"
#include "util/cancel_signal.h"

static struct live *lives;
static pthread_mutex_t lives_lock =
	PTHREAD_MUTEX_INITIALIZER; /* a leaf, held with all signals blocked: see native_call() */

static void *decoy(void *arg)
{
	pause();
	return arg;
}

/* The C library installs the handler, and loads what unwinds, when a thread is cancelled first. */
static void prepare_cancel(void)
{
	struct cancel_action a;
	pthread_t t;
	int before;

	if (pthread_create(&t, NULL, decoy, NULL))
		return;
	pthread_cancel(t);
	before = engine_keep(); /* this thread may be one of the program's: dsm_run() */
	pthread_join(t, NULL);
	engine_let(before);
	if (cancel_action_get(&a))
		return;
	if (one_node())
		return; /* every stack is there, and cleanup handlers have all of the thread's */
	a.flags |= SA_ONSTACK;
	cancel_action_set(&a);
}

void native_lock(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
	pthread_mutex_lock(&lives_lock);
}

void native_unlock(const sigset_t *before)
{
	pthread_mutex_unlock(&lives_lock);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

void native_note(struct live *l)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	sigset_t before;

	pthread_once(&once, prepare_cancel);
	native_lock(&before);
	l->next = lives;
	lives = l;
	native_unlock(&before);
	load_add(1);
}

void native_forget(struct live *l)
{
	struct live **at;
	sigset_t before;

	native_lock(&before);
	for (at = &lives; *at != l; at = &(*at)->next)
		;
	*at = l->next;
	native_unlock(&before);
	load_add(-1);
}

/*
 * A handler of the program may send signals to threads, and so come here: it interrupts nobody who
 * holds the lock.
 */
int native_call(uint64_t record, int (*fn)(unsigned long thread, void *arg), void *arg)
{
	int err = -ESRCH;
	struct live *l;
	sigset_t before;

	native_lock(&before);
	for (l = lives; l && (uintptr_t)l->record != record; l = l->next)
		;
	if (l)
		err = fn(l->thread, arg);
	native_unlock(&before);
	return err;
}

static int cancel_it(unsigned long thread, void *arg)
{
	(void)arg;
	pthread_cancel(thread);
	return 0;
}

int native_cancel(uint64_t record)
{
	native_call(record, cancel_it, NULL);
	return 0;
}

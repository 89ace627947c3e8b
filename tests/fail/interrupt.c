// SPDX-License-Identifier: BSD-2-Clause
/*
 * interrupt.c - signals that come while a miss lasts. The last rank keeps a block from the others
 * (it has pinned it), or is stopped. Where nodes have two ranks each, three ranks leave it a node
 * of its own: a rank of its node would have the block.
 *
 *   interrupt handler    handlers run while the miss lasts, touch shared memory themselves, and the
 *                        access succeeds in the end
 *   interrupt jump       a handler leaves the access by siglongjmp(), for good
 *   interrupt directed   the same for signals to single threads, several of which wait for the same
 *                        block
 *   interrupt fatal      SIGALRM without a handler ends the process while its miss lasts
 *   interrupt stopped    the same where the last rank is stopped and cannot answer; rank 1 ends
 *   interrupt asked      the same for rank 0, whose miss has to close a mapping of rank 1, of the
 *                        same node, which is stopped
 *   interrupt call       a handler runs while the program waits in a call of libdsm, which goes on
 *                        waiting
 */
#include <dsm.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define PAGE 512 /* longs */
#define THREADS 4

static volatile long *memory;
static volatile sig_atomic_t came;
static sigjmp_buf out;
static int me, keeper;

static void handler(int sig)
{
	(void)sig;
	came++;
	/* mostly not there: a miss inside the handler, inside a miss */
	memory[(1 + came % 8) * PAGE]++;
}

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void timer(int ms)
{
	struct itimerval t = { { ms / 1000, ms % 1000 * 1000 }, { ms / 1000, ms % 1000 * 1000 } };

	setitimer(ITIMER_REAL, &t, NULL);
}

/* Posted by the others, when they have had their signals, for the rank that lets them go on. */
static dsm_sem_t enough;

static void share_enough(int waits)
{
	if (me == waits)
		MUST(dsm_sem_init(&enough, 0));
	MUST(dsm_broadcast(&enough, sizeof(enough), waits));
}

static void await_enough(void)
{
	int i;

	for (i = 0; i < dsm_size() - 1; i++)
		check(!dsm_sem_timedwait(&enough, 10000000000),
		      "signals to threads that wait did not come");
}

/* The keeper has block 0 until the others have had enough signals, or ten seconds. */
static void keep(void)
{
	MUST(dsm_pin((void *)memory, 4096, DSM_WRITE));
	memory[0] = 1;
	MUST(dsm_barrier());
	await_enough();
	memory[1] = 1;
	MUST(dsm_unpin((void *)memory, 4096));
}

#define LEAST_MS 400

/*
 * For a thread that is in a miss, or in a call: some of its handlers have run, for that time at
 * least.
 */
static void *tell(void *arg)
{
	const long until = now_ms() + LEAST_MS;

	while (now_ms() < until || came < *(int *)arg)
		usleep(1000);
	MUST(dsm_sem_post(&enough, 1));
	return NULL;
}

/* Without the process's signals, which are for the thread that waits. */
static pthread_t start_teller(int *handlers)
{
	sigset_t all, old;
	pthread_t t;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	check(!pthread_create(&t, NULL, tell, handlers), "no thread");
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return t;
}

static void handled(int write)
{
	int three = 3;
	pthread_t t;
	long began;

	share_enough(keeper);
	if (me == keeper) {
		keep();
	} else {
		MUST(dsm_barrier());
		came = 0;
		began = now_ms();
		t = start_teller(&three);
		timer(30);
		if (write)
			__atomic_fetch_add(&memory[2], 1, __ATOMIC_RELAXED);
		else
			check(memory[1] == 1, "a read that was interrupted brought an old value");
		timer(0);
		check(now_ms() - began >= LEAST_MS, "the miss did not last");
		check(came >= three, "no handler ran while the miss lasted");
		check(memory[0] == 1 && memory[1] == 1, "the block has other contents");
		pthread_join(t, NULL);
	}
	MUST(dsm_barrier());
	check(!write || memory[2] == dsm_size() - 1,
	      "a write that was interrupted is lost, or was done twice");
	MUST(dsm_barrier());
}

static void jumped(void)
{
	signal(SIGALRM, jump);
	share_enough(keeper);
	if (me == keeper) {
		keep();
	} else {
		MUST(dsm_barrier());
		if (!sigsetjmp(out, 1)) {
			timer(50);
			memory[2]++;
			check(0, "an access succeeded that was not possible");
		}
		timer(0);
		/* the keeper still has the block: the miss was interrupted */
		MUST(dsm_sem_post(&enough, 1));
		memory[(me + 2) * PAGE] = me;
		check(memory[(me + 2) * PAGE] == me, "a block that is free cannot be had");
	}
	MUST(dsm_barrier());
	__atomic_fetch_add(&memory[2], 1, __ATOMIC_RELAXED);
	MUST(dsm_barrier());
	check(memory[2] == dsm_size(), "an access that was left was done all the same");
	MUST(dsm_barrier());
}

static void *touch(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&memory[2], 1, __ATOMIC_RELAXED);
	return NULL;
}

/* The keeper has the block until all others have had their signals, or ten seconds. */
static void directed(void)
{
	pthread_t t[THREADS];
	int i;

	signal(SIGUSR1, handler);
	share_enough(keeper);
	if (me == keeper) {
		MUST(dsm_pin((void *)memory, 4096, DSM_WRITE));
		MUST(dsm_barrier());
		await_enough();
		MUST(dsm_unpin((void *)memory, 4096));
	} else {
		MUST(dsm_barrier());
		for (i = 0; i < THREADS; i++)
			pthread_create(&t[i], NULL, touch, NULL);
		usleep(100000);
		while (came < THREADS * 3 / 2) {
			for (i = 0; i < THREADS; i++)
				pthread_kill(t[i], SIGUSR1);
			usleep(80000);
		}
		MUST(dsm_sem_post(&enough, 1));
		for (i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
	}
	MUST(dsm_barrier());
	check(memory[2] == THREADS * (dsm_size() - 1), "accesses are lost, or were done twice");
	MUST(dsm_barrier());
}

static void end_in(int ms, bool again)
{
	printf("due %ld\n", now_ms() + ms);
	fflush(stdout);
	timer(ms);
	memory[0]++;
	if (again) {
		usleep(50000);
		memory[0]++;
	}
	check(0, "an access succeeded that was not possible");
}

static void fatal(int stop)
{
	int pid = getpid();

	signal(SIGALRM, SIG_DFL);
	memory[0] = 1;
	MUST(dsm_broadcast(&pid, sizeof(pid), keeper));
	MUST(dsm_barrier());
	if (me == keeper && stop) {
		memory[0] = 2;
		raise(SIGSTOP);
	} else if (me == keeper) {
		MUST(dsm_pin((void *)memory, 4096, DSM_WRITE));
		MUST(dsm_barrier());
		sleep(20);
	} else if (me == 1) {
		if (stop)
			await_state(pid, 'T');
		else
			MUST(dsm_barrier());
		end_in(400, false);
	} else {
		MUST(dsm_barrier());
		MUST(dsm_barrier());
	}
}

/*
 * Without DSM_HOLD_US, the node that has got the block gives it to the next requester in line, as
 * soon as its thread returns to its access. That may succeed, but not the next one:
 *
 *   rank 0 (its node is home)     rank 1             keeper
 *                                 reads, stops       reads, pins
 *   at 300 ms: writes, waits for the pin
 *                                                    at 500 ms: another thread writes, is next in
 *                                                    line at 700 ms: unpins
 *   has the block, is to close both mappings
 *   writes once more, 50 ms later
 */
static void asked(void)
{
	int pid = getpid();
	pthread_t t;

	signal(SIGALRM, SIG_DFL);
	if (me == 0)
		memory[0] = 1;
	MUST(dsm_broadcast(&pid, sizeof(pid), 1));
	MUST(dsm_barrier());
	check(memory[0] == 1, "what rank 0 has written is not there");
	MUST(dsm_barrier());
	if (me == keeper)
		MUST(dsm_pin((void *)memory, 4096, DSM_READ));
	MUST(dsm_barrier());
	if (me == 1) {
		raise(SIGSTOP);
	} else if (me == keeper) {
		usleep(500000);
		pthread_create(&t, NULL, touch, NULL);
		usleep(200000);
		MUST(dsm_unpin((void *)memory, 4096));
		pthread_join(t, NULL);
		check(0, "the block came although a mapping of it could not be closed");
	} else {
		usleep(300000);
		await_state(pid, 'T');
		end_in(1000, true);
	}
}

static void quiet(int sig)
{
	(void)sig;
	came++;
}

static void call(void)
{
	dsm_sem_t *s = (dsm_sem_t *)(memory + PAGE), sem;
	int five = 5;
	pthread_t t;

	signal(SIGALRM, quiet);
	share_enough(0);
	if (me == 0)
		MUST(dsm_sem_init(s, 0));
	MUST(dsm_barrier());
	sem = *s;
	MUST(dsm_barrier());
	if (me == 0) {
		await_enough();
		MUST(dsm_sem_post(&sem, (uint32_t)dsm_size() - 1));
		await_enough();
		MUST(dsm_barrier());
	} else {
		t = start_teller(&five);
		timer(30);
		MUST(dsm_sem_wait(&sem));
		timer(0);
		check(came >= five, "no handler ran while the call waited");
		pthread_join(t, NULL);
		came = 0;
		t = start_teller(&five);
		timer(30);
		MUST(dsm_barrier());
		timer(0);
		check(came >= five, "no handler ran in a barrier");
		pthread_join(t, NULL);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	memory = join("memory", 16 * 4096);
	me = dsm_rank();
	keeper = dsm_size() - 1;
	signal(SIGALRM, handler);
	if (me == 0)
		puts("ready");
	fflush(stdout);
	MUST(dsm_barrier());
	if (!strcmp(argv[1], "handler")) {
		handled(0);
		handled(1);
	} else if (!strcmp(argv[1], "jump")) {
		jumped();
	} else if (!strcmp(argv[1], "directed")) {
		directed();
	} else if (!strcmp(argv[1], "asked")) {
		asked();
	} else if (!strcmp(argv[1], "call")) {
		call();
	} else {
		fatal(!strcmp(argv[1], "stopped"));
	}
	MUST(dsm_finalize());
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * interrupts.c - a plain POSIX threads program whose signal handlers interrupt threads anywhere,
 * and touch the memory of all threads: while they lock and unlock, allocate, touch pages, post
 * semaphores, and use a stack that another thread writes to. No signal is lost, each arrives with
 * its data, and the flags of sigaction() have their effects.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "steps.h"

#define PAGES 48
#define TICKS 150
#define SENT 100
#define ALTERNATE 65536

static struct {
	int ticks, over, sender_over, strange; /* atomic */
	int queued, disordered;                /* main()'s */
	char pad[4096];
} seen __attribute__((aligned(4096)));
static unsigned char pages[PAGES][4096] __attribute__((aligned(4096)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t posts;
static long counted, rounds[2];
static pid_t pid;

static int load(int *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void add_strange(int is)
{
	__atomic_fetch_add(&seen.strange, is, __ATOMIC_SEQ_CST);
}

/*
 * One alarm, or none. Its handler asks for the next: one that takes longer than the time between
 * would leave no time to others.
 */
static void alarm_in(int us)
{
	const struct itimerval t = { .it_value.tv_usec = us };

	setitimer(ITIMER_REAL, &t, NULL);
}

static void on_alarm(int sig, siginfo_t *info, void *context)
{
	const int n = __atomic_add_fetch(&seen.ticks, 1, __ATOMIC_SEQ_CST);
	sigset_t set;

	(void)context;
	pages[n % PAGES][n % 4096]++;
	add_strange(sig != SIGALRM || info->si_signo != SIGALRM || info->si_code != SI_KERNEL);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	add_strange(!sigismember(&set, SIGALRM) || !sigismember(&set, SIGUSR2) ||
		    sigismember(&set, SIGUSR1));
	sigfillset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL); /* until it returns */
	pages[(n + 1) % PAGES][n % 4096]++;
	sem_post(&posts);
	if (!load(&seen.over))
		alarm_in(1000);
}

/*
 * Real-time signals come to a thread in the order in which they were sent. Only main() takes them.
 */
static void on_queued(int sig, siginfo_t *info, void *context)
{
	(void)context;
	add_strange(sig != SIGRTMIN || info->si_code != SI_QUEUE);
	seen.disordered += info->si_value.sival_int != seen.queued;
	seen.queued++;
	pages[seen.queued % PAGES][0]++;
}

static void *send(void *arg)
{
	int i;

	for (i = 0; i < SENT; i++) {
		const union sigval v = { .sival_int = i };

		while (sigqueue(pid, SIGRTMIN, v))
			usleep(1000);
		if (i % 4 == 0)
			usleep(500);
	}
	__atomic_store_n(&seen.sender_over, 1, __ATOMIC_SEQ_CST);
	return arg;
}

/* What a thread does all day. */
static void work(int who)
{
	const long n = ++rounds[who];
	unsigned char *p;

	pthread_mutex_lock(&lock);
	counted++;
	pthread_mutex_unlock(&lock);
	p = malloc((size_t)(100 + n % 9000));
	p[0] = p[99] = (unsigned char)n;
	pthread_rwlock_rdlock(&rwlock);
	pages[n * 7 % PAGES][2048 + who]++;
	pthread_rwlock_unlock(&rwlock);
	if (p[0] != p[99])
		check("memory", 0);
	free(p);
}

static void *worker(void *arg)
{
	int *others = arg; /* on main()'s stack */

	while (!load(&seen.over)) {
		work(1);
		__atomic_fetch_add(others, 1, __ATOMIC_SEQ_CST);
	}
	return arg;
}

static void storm(void)
{
	struct sigaction sa = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART },
			 old;
	struct sigaction sq = { .sa_sigaction = on_queued, .sa_flags = SA_SIGINFO };
	sigset_t queued;
	pthread_t one, two;
	int own = 0, posted = 0;

	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, SIGUSR2);
	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGRTMIN, &sq, NULL);
	sigemptyset(&queued);
	sigaddset(&queued, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &queued, NULL);
	pthread_create(&one, NULL, worker, &own);
	pthread_create(&two, NULL, send, NULL);
	pthread_sigmask(SIG_UNBLOCK, &queued, NULL);
	alarm_in(1000);
	while (load(&seen.ticks) < TICKS || !load(&seen.sender_over) || seen.queued < SENT)
		work(0);
	__atomic_store_n(&seen.over, 1, __ATOMIC_SEQ_CST);
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	alarm_in(0); /* no handler runs on another thread and asks for one */
	while (!sem_trywait(&posts))
		posted++;
	check("posts", posted == seen.ticks);
	check("counts", counted == rounds[0] + rounds[1] && own == rounds[1]);
	check("siginfo", !seen.strange);
	sigaction(SIGALRM, NULL, &old);
	check("the action",
	      old.sa_sigaction == on_alarm &&
		      (old.sa_flags & ~0x04000000) == (SA_SIGINFO | SA_RESTART) &&
		      sigismember(&old.sa_mask, SIGUSR2) && !sigismember(&old.sa_mask, SIGUSR1));
	printf("%d signals, %d out of order\n", seen.queued, seen.disordered);
}

/* ---- flags ----------------------------------------------------------------------------------- */

static volatile int depth, deepest, times; /* raise() is a leaf to the compiler */
static sigjmp_buf away;
static char alternate[ALTERNATE];

static void nest(int sig)
{
	times++;
	if (++depth > deepest)
		deepest = depth;
	if (times < 3)
		raise(sig);
	depth--;
}

static void leave(int sig)
{
	siglongjmp(away, sig);
}

static void nothing(int sig)
{
	times += sig != 0;
}

static int nested(int flags)
{
	struct sigaction sa = { .sa_handler = nest, .sa_flags = flags };

	times = depth = deepest = 0;
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	return deepest;
}

static int is_blocked(int sig)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, sig);
}

static void jump(void)
{
	volatile int came = 0;

	signal(SIGALRM, leave);
	while (came < 20) {
		if (sigsetjmp(away, 1)) {
			came++;
		} else {
			alarm_in(2000);
			for (;;)
				/* not in a call: the jump leaves nothing held */
				pages[came][4000]++;
		}
		alarm_in(0);
		pthread_mutex_lock(&lock);
		counted++;
		pthread_mutex_unlock(&lock);
	}
	check("not blocked after siglongjmp()", !is_blocked(SIGALRM));
	signal(SIGALRM, SIG_IGN);
}

static void flags(void)
{
	struct sigaction sa = { .sa_handler = nothing, .sa_flags = (int)SA_RESETHAND }, old;
	stack_t st = { .ss_sp = alternate, .ss_size = ALTERNATE }, st_old;

	printf("nested %d, with SA_NODEFER %d\n", nested(0), nested(SA_NODEFER));
	sigaction(SIGUSR1, &sa, &old);
	check("the old handler", old.sa_handler == nest);
	times = 0;
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &old);
	printf("SA_RESETHAND: %d, then %s\n", times,
	       old.sa_handler == SIG_DFL ? "the default" : "no default");
	check("signal()",
	      signal(SIGUSR1, nothing) == SIG_DFL && signal(SIGUSR1, SIG_IGN) == nothing);
	raise(SIGUSR1);
	check("SIG_IGN", times == 1 && signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	check("bad signals",
	      signal(SIGKILL, nothing) == SIG_ERR && sigaction(65, &sa, NULL) && errno == EINVAL);
	check("sigaltstack",
	      !sigaltstack(&st, NULL) && !sigaltstack(NULL, &st_old) && st_old.ss_sp == alternate);
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &sa, NULL);
	pages[5][0]++;
	raise(SIGUSR1);
	check("SA_ONSTACK", times == 2);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static void *is_blocked_here(void *arg)
{
	return is_blocked(SIGTERM) && !is_blocked(SIGUSR1) ? arg : NULL;
}

static void *touch(void *arg)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		pages[i][1]++;
	return arg;
}

static void masks(void)
{
	pthread_t t[2];
	sigset_t set, before;
	void *result;
	int i, sig = 0, inherited = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, is_blocked_here, &set);
	for (i = 0; i < 2; i++) {
		pthread_join(t[i], &result);
		inherited += result != NULL;
	}
	kill(pid, SIGTERM); /* no thread takes it before it is asked for */
	sigwait(&set, &sig);
	printf("%d threads inherit the mask, sigwait(): %s\n", inherited,
	       sig == SIGTERM ? "SIGTERM" : "no");
	sigfillset(&set);
	pthread_sigmask(SIG_SETMASK, &set, &before);
	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, touch, NULL);
	touch(NULL);
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	touch(NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	check("the mask before", is_blocked(SIGTERM) && !is_blocked(SIGUSR1));
}

int main(void)
{
	pid = getpid();
	sem_init(&posts, 0, 0);
	storm();
	flags();
	jump();
	masks();
	return conclude();
}

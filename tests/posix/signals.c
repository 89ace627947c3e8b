// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - signals to threads and to the process, their actions, masks and waits; timers;
 * contexts.
 */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* programs still use these */

static volatile int handled, last_signal, last_code, last_value;
static volatile pthread_t handler_thread;

static void on_signal(int sig)
{
	last_signal = sig;
	handler_thread = pthread_self();
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void on_info(int sig, siginfo_t *info, void *context)
{
	(void)context;
	last_code = info->si_code;
	last_value = info->si_value.sival_int;
	on_signal(sig);
}

static void set_action(int sig, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_flags = flags };

	if (flags & SA_SIGINFO)
		action.sa_sigaction = on_info;
	else
		action.sa_handler = handler;
	sigemptyset(&action.sa_mask);
	handled = last_signal = last_code = last_value = 0;
	if (sigaction(sig, &action, NULL))
		say("sigaction %s", error_name(errno));
}

/* Whether n handlers have run, within some seconds. */
static void wait_handled(int n)
{
	int i;

	for (i = 0; handled < n && i < 500; i++)
		wait_ms(10);
	say("%d", handled);
}

static sigset_t set_of(int a, int b)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, a);
	if (b)
		sigaddset(&set, b);
	return set;
}

/* ---- to whom --------------------------------------------------------------------------------- */

CASE(kill_self, EACH)
{
	set_action(SIGUSR1, on_signal, 0);
	say_call(kill(getpid(), SIGUSR1));
	wait_handled(1);
	say_call(kill(0, 0));
	say_call(kill(getpid(), 0));
	say_call(kill(getpid(), 999));
	signal(SIGUSR1, SIG_DFL);
}

CASE(raise, EACH)
{
	set_action(SIGUSR1, on_signal, 0);
	say_call(raise(SIGUSR1));
	say("%d", handled);
	say("%d", handler_thread == pthread_self());
	say_call(raise(-1));
}

static volatile int stop;

static void *wait_stop(void *arg)
{
	while (!stop)
		wait_ms(2);
	return arg;
}

CASE(kill_thread_handler, EACH)
{
	pthread_t thread;

	stop = 0;
	thread = start(wait_stop, NULL);
	set_action(SIGUSR2, on_signal, SA_RESTART);
	say_error(pthread_kill(thread, SIGUSR2));
	wait_handled(1);
	say("%d", handler_thread == thread);
	stop = 1;
	ended(thread);
}

CASE(queue_thread, EACH)
{
	const union sigval value = { .sival_int = 4711 };
	pthread_t thread;

	stop = 0;
	thread = start(wait_stop, NULL);
	set_action(SIGUSR2, NULL, SA_SIGINFO | SA_RESTART);
	say_error(pthread_sigqueue(thread, SIGUSR2, value));
	wait_handled(1);
	say("%d %d %d", handler_thread == thread, last_code == SI_QUEUE, last_value);
	stop = 1;
	ended(thread);
}

CASE(queue_process, EACH)
{
	const union sigval value = { .sival_int = 99 };

	set_action(SIGRTMIN + 2, NULL, SA_SIGINFO | SA_RESTART);
	say_call(sigqueue(getpid(), SIGRTMIN + 2, value));
	wait_handled(1);
	say("%d %d", last_code == SI_QUEUE, last_value);
	say_call(sigqueue(getpid(), 999, value));
}

/* ---- actions --------------------------------------------------------------------------------- */

CASE(actions, EACH)
{
	struct sigaction old;

	set_action(SIGUSR1, on_signal, SA_RESTART | SA_NODEFER);
	say_call(sigaction(SIGUSR1, NULL, &old));
	say("%d %d", old.sa_handler == on_signal,
	    (old.sa_flags & (SA_RESTART | SA_NODEFER)) == (SA_RESTART | SA_NODEFER));
	say_call(sigaction(SIGKILL, &old, NULL));
	say_call(sigaction(999, NULL, &old));
	say("%d", signal(SIGUSR1, SIG_IGN) == on_signal);
	say_call(raise(SIGUSR1));
	say("%d", signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	say("%d", signal(SIGSTOP, SIG_IGN) == SIG_ERR);
	say("%s", error_name(errno));
	say("%s", strsignal(SIGSEGV));
	say_call(siginterrupt(SIGUSR1, 1));
}

/* One for all threads, whoever sets them. */
static void *set_ignored(void *arg)
{
	signal(SIGUSR1, SIG_IGN);
	return arg;
}

CASE(actions_shared, EACH)
{
	set_action(SIGUSR1, on_signal, 0);
	apart(set_ignored, NULL);
	say("%d", signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

CASE(reset_hand, EACH)
{
	struct sigaction old;

	set_action(SIGUSR1, on_signal, SA_RESETHAND);
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &old);
	say("%d %d", handled, old.sa_handler == SIG_DFL);
}

CASE(sysv_actions, EACH)
{
	struct sigaction old;

	say("%d", sysv_signal(SIGUSR1, on_signal) != SIG_ERR);
	handled = 0;
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &old);
	say("%d %d", handled, old.sa_handler == SIG_DFL);
	say("%d", sigset(SIGUSR1, on_signal) == SIG_DFL);
	say_call(sighold(SIGUSR1));
	raise(SIGUSR1);
	say("%d", handled);
	say_call(sigrelse(SIGUSR1));
	say("%d", handled);
	say_call(sigignore(SIGUSR1));
	raise(SIGUSR1);
	say("%d", handled);
	say("%d", signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

static int nested;

static void on_nested(int sig)
{
	(void)sig;
	if (!nested++)
		raise(SIGUSR1);
	say("%d", nested);
}

/* Blocked in its handler; not with SA_NODEFER. */
CASE(nesting, EACH)
{
	nested = 0;
	set_action(SIGUSR1, on_nested, 0);
	raise(SIGUSR1);
	nested = 0;
	set_action(SIGUSR1, on_nested, SA_NODEFER);
	raise(SIGUSR1);
}

static sigjmp_buf back;

static void jump(int sig)
{
	siglongjmp(back, sig);
}

CASE(jump_out, EACH)
{
	sigset_t now;
	int sig = sigsetjmp(back, 1);

	if (!sig) {
		set_action(SIGUSR1, jump, 0);
		raise(SIGUSR1);
	}
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	say("%d %d", sig == SIGUSR1, sigismember(&now, SIGUSR1));
}

static volatile int *volatile low = (int *)8;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	last_value = info->si_addr == low;
	siglongjmp(back, sig);
}

/* A fault of the program itself. */
CASE(fault, EACH)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, old;
	int sig = sigsetjmp(back, 1);

	if (!sig) {
		sigemptyset(&action.sa_mask);
		sigaction(SIGSEGV, &action, &old);
		*low = 1;
	}
	say("%d %d", sig == SIGSEGV, last_value);
	signal(SIGSEGV, SIG_DFL);
}

static char *on_stack_at;

static void on_stack(int sig)
{
	(void)sig;
	on_stack_at = __builtin_frame_address(0);
}

CASE(alternate_stack, EACH)
{
	stack_t own = { .ss_size = 65536 }, old;

	own.ss_sp = malloc(own.ss_size);
	say_call(sigaltstack(&own, NULL));
	say_call(sigaltstack(NULL, &old));
	say("%d %zu", old.ss_sp == own.ss_sp, old.ss_size);
	set_action(SIGUSR1, on_stack, SA_ONSTACK);
	raise(SIGUSR1);
	say("%d",
	    on_stack_at >= (char *)own.ss_sp && on_stack_at < (char *)own.ss_sp + own.ss_size);
	own.ss_flags = SS_DISABLE;
	say_call(sigaltstack(&own, NULL));
	own.ss_flags = 0;
	own.ss_size = 1;
	say_call(sigaltstack(&own, NULL));
	free(own.ss_sp);
	signal(SIGUSR1, SIG_DFL);
}

/* ---- masks, waits ---------------------------------------------------------------------------- */

CASE(masks, EACH)
{
	const sigset_t set = set_of(SIGUSR1, 0);
	sigset_t pending, old;

	set_action(SIGUSR1, on_signal, 0);
	say_error(pthread_sigmask(SIG_BLOCK, &set, NULL));
	raise(SIGUSR1);
	say_call(sigpending(&pending));
	say("%d %d", handled, sigismember(&pending, SIGUSR1));
	say_call(sigprocmask(SIG_UNBLOCK, &set, &old));
	say("%d %d", handled, sigismember(&old, SIGUSR1));
	say_error(pthread_sigmask(99, &set, NULL));
	say_call(sigprocmask(99, &set, NULL));
	say("%d", sigblock((1 << (SIGUSR1 - 1))) & (1 << (SIGUSR1 - 1)) ? 1 : 0);
	raise(SIGUSR1);
	say("%d", handled);
	say("%d", sigsetmask(0) & (1 << (SIGUSR1 - 1)) ? 1 : 0);
	say("%d", handled);
}

static void *say_mask(void *arg)
{
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	say("%d %d", sigismember(&now, SIGUSR1), sigismember(&now, SIGUSR2));
	return arg;
}

CASE(mask_inherited, EACH)
{
	const sigset_t set = set_of(SIGUSR2, 0);

	pthread_sigmask(SIG_BLOCK, &set, NULL);
	apart(say_mask, NULL);
	apart(say_mask, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* All signals are blocked, and memory that another thread has written is read. */
static int pages[4][1024];

static void *write_pages(void *arg)
{
	int i;

	for (i = 0; i < 4; i++)
		pages[i][0]++;
	return arg;
}

CASE(all_blocked, EACH)
{
	sigset_t all, old;

	pages[0][0] = pages[3][0] = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	apart(write_pages, NULL);
	write_pages(NULL);
	say("%d %d", pages[0][0], pages[3][0]);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void *wait_signal(void *arg)
{
	const sigset_t set = set_of(SIGUSR1, 0);
	int sig = 0;

	say_error(sigwait(&set, &sig));
	say("%d", sig == SIGUSR1);
	return arg;
}

CASE(wait_one, EACH)
{
	const sigset_t set = set_of(SIGUSR1, 0);
	pthread_t thread;
	sigset_t old;

	pthread_sigmask(SIG_BLOCK, &set, &old);
	raise(SIGUSR1);
	wait_signal(NULL);
	thread = start(wait_signal, NULL);
	wait_ms(20);
	pthread_kill(thread, SIGUSR1);
	ended(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* To the process: blocked by all threads, the one that waits for it gets it. */
CASE(wait_process, ALONE)
{
	const sigset_t set = set_of(SIGUSR1, 0);
	pthread_t thread;
	int err;

	pthread_sigmask(SIG_BLOCK, &set, NULL);
	thread = start(wait_signal, NULL);
	wait_ms(20);
	err = kill(getpid(), SIGUSR1);
	ended(thread);
	say_call(err);
}

CASE(wait_info, EACH)
{
	const sigset_t set = set_of(SIGRTMIN + 1, SIGUSR2);
	const struct timespec soon = { .tv_nsec = 20000000 }, late = { .tv_sec = 20 };
	union sigval value;
	siginfo_t info;
	sigset_t old;
	int i, sig;

	pthread_sigmask(SIG_BLOCK, &set, &old);
	say_call(sigtimedwait(&set, &info, &soon));
	for (i = 1; i < 4; i++) {
		value.sival_int = i;
		pthread_sigqueue(pthread_self(), SIGRTMIN + 1, value);
	}
	for (i = 1; i < 4; i++) {
		sig = i == 2 ? sigwaitinfo(&set, &info) : sigtimedwait(&set, &info, &late);
		say("%d %d %d", sig == SIGRTMIN + 1, info.si_code == SI_QUEUE,
		    info.si_value.sival_int);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void *kill_later(void *arg)
{
	wait_ms(30);
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

CASE(suspend, EACH)
{
	const sigset_t set = set_of(SIGUSR1, 0);
	pthread_t self = pthread_self(), thread;
	sigset_t old, none;

	set_action(SIGUSR1, on_signal, 0);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	thread = start(kill_later, &self);
	wait_ms(60);
	say("%d", handled);
	sigemptyset(&none);
	say_call(sigsuspend(&none));
	say("%d", handled);
	ended(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	thread = start(kill_later, &self);
	say_call(pause());
	say("%d", handled);
	ended(thread);
}

CASE(interrupted_sleep, EACH)
{
	pthread_t self = pthread_self(), thread = start(kill_later, &self);
	struct timespec t = { .tv_sec = 20 }, left = { 0 };

	set_action(SIGUSR1, on_signal, SA_RESTART);
	say_call(nanosleep(&t, &left));
	say("%d", left.tv_sec >= 15);
	ended(thread);
	thread = start(kill_later, &self);
	say_error(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left));
	ended(thread);
	thread = start(kill_later, &self);
	say("%d", sleep(20) >= 15);
	ended(thread);
}

/* A wait goes on after a handler. */
static void *lock_it(void *arg)
{
	pthread_mutex_lock(arg);
	pthread_mutex_unlock(arg);
	return NULL;
}

CASE(handler_in_wait, EACH)
{
	pthread_mutex_t *m = calloc(1, sizeof(*m));
	pthread_t thread;

	pthread_mutex_lock(m);
	set_action(SIGUSR1, on_signal, 0);
	thread = start(lock_it, m);
	wait_ms(20);
	pthread_kill(thread, SIGUSR1);
	wait_handled(1);
	say("%d", handler_thread == thread);
	pthread_mutex_unlock(m);
	ended(thread);
	free(m);
}

static int sem_returned;

static void *sem_interrupted(void *arg)
{
	const int err = sem_wait(arg) ? errno : 0;

	__atomic_store_n(&sem_returned, 1, __ATOMIC_SEQ_CST);
	return (void *)(intptr_t)err;
}

/* The thread may be late: a handler that runs before the call ends nothing. */
CASE(handler_in_sem_wait, EACH)
{
	sem_t *s = malloc(sizeof(*s));
	pthread_t thread;

	sem_init(s, 0, 0);
	set_action(SIGUSR1, on_signal, 0);
	sem_returned = 0;
	thread = start(sem_interrupted, s);
	while (wait_ms(50), !__atomic_load_n(&sem_returned, __ATOMIC_SEQ_CST))
		pthread_kill(thread, SIGUSR1);
	say_error((int)(intptr_t)ended(thread));
	free(s);
}

static sem_t *posted;

static void post_it(int sig)
{
	(void)sig;
	sem_post(posted);
}

CASE(post_in_handler, EACH)
{
	posted = malloc(sizeof(*posted));
	sem_init(posted, 0, 0);
	set_action(SIGUSR1, post_it, 0);
	raise(SIGUSR1);
	say_call(sem_wait(posted));
	signal(SIGUSR1, SIG_DFL);
	free(posted);
}

CASE(signal_descriptor, EACH)
{
	const sigset_t set = set_of(SIGUSR1, 0);
	struct signalfd_siginfo info;
	sigset_t old;
	int fd;

	pthread_sigmask(SIG_BLOCK, &set, &old);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	if (fd < 0) {
		say_call(fd);
	} else {
		say_call(read(fd, &info, sizeof(info)));
		raise(SIGUSR1);
		say_call(read(fd, &info, sizeof(info)));
		say("%d", info.ssi_signo == SIGUSR1);
		close(fd);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

CASE(broken_pipe, EACH)
{
	int ends[2];

	say_call(pipe(ends));
	close(ends[0]);
	set_action(SIGPIPE, on_signal, 0);
	say_call(write(ends[1], "x", 1));
	say("%d", handled);
	say("%d", handler_thread == pthread_self());
	signal(SIGPIPE, SIG_IGN);
	say_call(write(ends[1], "x", 1));
	signal(SIGPIPE, SIG_DFL);
	close(ends[1]);
}

/* ---- timers ---------------------------------------------------------------------------------- */

CASE(alarms, EACH)
{
	set_action(SIGALRM, on_signal, 0);
	say("%u", alarm(100));
	say("%d", alarm(0) >= 99);
	say("%u", alarm(0));
	say("%u", (unsigned int)ualarm(20000, 0));
	wait_handled(1);
	say("%d", last_signal == SIGALRM);
}

CASE(interval_timer, EACH)
{
	struct itimerval t = { .it_value = { .tv_usec = 10000 },
			       .it_interval = { .tv_usec = 10000 } },
			 now;

	set_action(SIGALRM, on_signal, SA_RESTART);
	say_call(setitimer(ITIMER_REAL, &t, NULL));
	say_call(getitimer(ITIMER_REAL, &now));
	say("%ld %d", (long)now.it_interval.tv_usec, now.it_value.tv_usec <= 10000);
	while (handled < 3)
		wait_ms(5);
	memset(&t, 0, sizeof(t));
	say_call(setitimer(ITIMER_REAL, &t, &now));
	say("%ld", (long)now.it_interval.tv_usec);
	t.it_value.tv_usec = 1000000;
	say_call(setitimer(ITIMER_REAL, &t, NULL));
	say_call(setitimer((__itimer_which_t)99, &t, NULL));
}

CASE(timer_signal, EACH)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3 };
	struct itimerspec t = { .it_value = { .tv_nsec = 10000000 } }, now;
	timer_t timer;

	event.sigev_value.sival_int = 31;
	set_action(SIGRTMIN + 3, NULL, SA_SIGINFO | SA_RESTART);
	say_call(timer_create(CLOCK_MONOTONIC, &event, &timer));
	say_call(timer_settime(timer, 0, &t, NULL));
	wait_handled(1);
	say("%d %d", last_code == SI_TIMER, last_value);
	say_call(timer_getoverrun(timer));
	say_call(timer_gettime(timer, &now));
	say("%ld", (long)now.it_value.tv_sec);
	t.it_value.tv_nsec = -1;
	say_call(timer_settime(timer, 0, &t, NULL));
	say_call(timer_delete(timer));
	say_call(timer_create((clockid_t)77, &event, &timer));
}

static void on_timer(union sigval value)
{
	last_value = value.sival_int;
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

CASE(timer_thread, EACH)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer };
	struct itimerspec t = { .it_value = { .tv_nsec = 10000000 } };
	timer_t timer;

	handled = 0;
	event.sigev_value.sival_int = 17;
	say_call(timer_create(CLOCK_REALTIME, &event, &timer));
	say_call(timer_settime(timer, 0, &t, NULL));
	wait_handled(1);
	say("%d", last_value);
	say_call(timer_delete(timer));
}

CASE(timer_none, EACH)
{
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	struct itimerspec t = { .it_value = { .tv_sec = 100 } }, now = { 0 };
	timer_t timer;

	say_call(timer_create(CLOCK_REALTIME, &event, &timer));
	say_call(timer_settime(timer, 0, &t, NULL));
	say_call(timer_gettime(timer, &now));
	say("%d", now.it_value.tv_sec >= 98);
	say_call(timer_delete(timer));
}

CASE(message_queue, EACH)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 16 };
	char name[32], text[16] = "";
	mqd_t q;

	snprintf(name, sizeof(name), "/dsm-posix-%ld", (long)getpid());
	q = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
	say("%s", q == (mqd_t)-1 ? error_name(errno) : "open");
	if (q == (mqd_t)-1)
		return;
	set_action(SIGUSR2, on_signal, SA_RESTART);
	say_call(mq_notify(q, &event));
	say_call(mq_send(q, "text", 5, 1));
	wait_handled(1);
	say_call(mq_receive(q, text, sizeof(text), NULL));
	say("%s", text);
	say_call(mq_close(q));
	say_call(mq_unlink(name));
}

/* ---- contexts -------------------------------------------------------------------------------- */

static ucontext_t here[4], there[4];

static void in_context(int i)
{
	say("inside %d", i);
	swapcontext(&there[i], &here[i]);
	say("again");
}

CASE(contexts, EACH)
{
	const size_t size = 65536;
	char *stack = malloc(size);

	say_call(getcontext(&there[0]));
	there[0].uc_stack.ss_sp = stack;
	there[0].uc_stack.ss_size = size;
	there[0].uc_link = &here[0];
	makecontext(&there[0], (void (*)(void))in_context, 1, 0);
	say_call(swapcontext(&here[0], &there[0]));
	say_call(swapcontext(&here[0], &there[0]));
	free(stack);
}

CASE(context_set, EACH)
{
	volatile int times = 0;

	say_call(getcontext(&here[1]));
	if (!times++)
		setcontext(&here[1]);
	say("%d", times);
}

/* ---- ends by signals ------------------------------------------------------------------------- */

static void *raise_it(void *arg)
{
	struct rlimit none = { 0 };

	setrlimit(RLIMIT_CORE, &none);
	said();
	raise((int)(intptr_t)arg);
	wait_ms(5000);
	return NULL;
}

CASE(end_by_term, ALONE)
{
	apart(raise_it, (void *)SIGTERM);
}

CASE(end_by_usr1, ALONE)
{
	apart(raise_it, (void *)SIGUSR1);
}

static void *kill_process(void *arg)
{
	said();
	kill(getpid(), (int)(intptr_t)arg);
	wait_ms(5000);
	return NULL;
}

CASE(end_by_kill, ALONE)
{
	apart(kill_process, (void *)SIGTERM);
}

static void *call_abort(void *arg)
{
	struct rlimit none = { 0 };

	setrlimit(RLIMIT_CORE, &none);
	said();
	abort();
	return arg;
}

CASE(end_by_abort, ALONE)
{
	apart(call_abort, NULL);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * interrupts.c - calls that a signal handler ends, and those that go on after it; calls that wait
 * with a signal mask of their own.
 */
#define _GNU_SOURCE
#include "cases.h"

#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern char **environ;

static int pipe_ends[2], pair[2], events, held;
static sem_t *empty;
static volatile int handled;

static void on_signal(int sig)
{
	(void)sig;
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void act_on(int sig, int flags)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(sig, &act, NULL);
}

/* ---- the calls: each returns -1 with errno, or what ended it otherwise ----------------------- */

static long in_sem_wait(void)
{
	return sem_wait(empty);
}

static long in_sem_timedwait(void)
{
	const struct timespec late = after_ms(CLOCK_REALTIME, 5000);

	return sem_timedwait(empty, &late);
}

static long in_sem_clockwait(void)
{
	const struct timespec late = after_ms(CLOCK_MONOTONIC, 5000);

	return sem_clockwait(empty, CLOCK_MONOTONIC, &late);
}

static long in_read(void)
{
	char c;

	return read(pipe_ends[0], &c, 1);
}

static long in_recv(void)
{
	char c;

	return recv(pair[0], &c, 1, 0);
}

static long in_poll(void)
{
	struct pollfd p = { .fd = pipe_ends[0], .events = POLLIN };

	return poll(&p, 1, 5000);
}

static long in_select(void)
{
	struct timeval late = { .tv_sec = 5 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipe_ends[0], &set);
	return select(pipe_ends[0] + 1, &set, NULL, NULL, &late);
}

static long in_epoll(void)
{
	struct epoll_event e;

	return epoll_wait(events, &e, 1, 5000);
}

static long in_nanosleep(void)
{
	const struct timespec late = { .tv_sec = 5 };

	return nanosleep(&late, NULL);
}

static long in_sleep(void)
{
	return sleep(5) > 0 ? -1 : 0;
}

static long in_pause(void)
{
	return pause();
}

static long in_sigtimedwait(void)
{
	const struct timespec late = { .tv_sec = 5 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &late);
}

static pid_t child;

static long in_waitpid(void)
{
	int status = 0;

	return waitpid(child, &status, 0);
}

static long in_flock(void)
{
	const int fd = open("locked", O_RDWR | O_CREAT, 0600);
	const long got = flock(fd, LOCK_EX);

	close(fd);
	return got;
}

static long in_mq_receive(void)
{
	const struct mq_attr one = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	const mqd_t queue = mq_open("/dsm-posix-interrupts", O_RDWR | O_CREAT, 0600, &one);
	char text[8];
	const long got = mq_receive(queue, text, sizeof(text), NULL);

	mq_close(queue);
	mq_unlink("/dsm-posix-interrupts");
	return got;
}

static long in_semop(void)
{
	struct sembuf less = { .sem_op = -1 };
	const int id = semget(IPC_PRIVATE, 1, 0600);
	const long got = semop(id, &less, 1);

	semctl(id, 0, IPC_RMID);
	return got;
}

/* ends: a handler with SA_RESTART ends it as well. */
static const struct {
	const char *name;
	long (*call)(void);
	int ends;
} calls[] = { { "sem_wait", in_sem_wait, 0 },
	      { "sem_timedwait", in_sem_timedwait, 1 },
	      { "sem_clockwait", in_sem_clockwait, 1 },
	      { "read", in_read, 0 },
	      { "recv", in_recv, 0 },
	      { "poll", in_poll, 1 },
	      { "select", in_select, 1 },
	      { "epoll_wait", in_epoll, 1 },
	      { "nanosleep", in_nanosleep, 1 },
	      { "sleep", in_sleep, 1 },
	      { "pause", in_pause, 1 },
	      { "sigtimedwait", in_sigtimedwait, 1 },
	      { "waitpid", in_waitpid, 0 },
	      { "flock", in_flock, 0 },
	      { "mq_receive", in_mq_receive, 0 },
	      { "semop", in_semop, 1 } };
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static int returned;

static void *make_call(void *at)
{
	const size_t i = (size_t)at;
	const long got = calls[i].call();

	say("%s %s", calls[i].name, got == -1 ? error_name(errno) : "ok");
	__atomic_store_n(&returned, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void open_files(void)
{
	char *const argv[] = { "sleep", "60", NULL };
	struct epoll_event e = { .events = EPOLLIN };

	if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		abort();
	events = epoll_create1(0);
	epoll_ctl(events, EPOLL_CTL_ADD, pipe_ends[0], &e);
	held = open("locked", O_RDWR | O_CREAT, 0600);
	flock(held, LOCK_EX);
	empty = calloc(1, sizeof(*empty));
	sem_init(empty, 0, 0);
	posix_spawnp(&child, "sleep", NULL, NULL, argv, environ);
}

static void close_files(void)
{
	int i;

	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (i = 0; i < 2; i++) {
		close(pipe_ends[i]);
		close(pair[i]);
	}
	close(events);
	close(held);
	unlink("locked");
	sem_destroy(empty);
	free(empty);
}

/* The thread may be late: a handler that runs before the call ends nothing. */
static void end_call(size_t i)
{
	pthread_t thread;

	returned = 0;
	thread = start(make_call, (void *)i);
	while (wait_ms(50), !__atomic_load_n(&returned, __ATOMIC_SEQ_CST))
		pthread_kill(thread, SIGUSR1);
	ended(thread);
}

CASE(calls_interrupted, EACH)
{
	size_t i;

	open_files();
	act_on(SIGUSR1, 0);
	for (i = 0; i < CALLS; i++)
		end_call(i);
	close_files();
}

/* What goes on waits until it gets what it waits for. */
CASE(calls_restarted, EACH)
{
	pthread_t thread;
	size_t i;

	open_files();
	act_on(SIGUSR1, SA_RESTART);
	for (i = 0; i < CALLS; i++)
		if (calls[i].ends)
			end_call(i);
	for (i = 0; i < 3; i++) {
		thread = start(make_call, (void *)(i == 0 ? 0 : i + 2));
		wait_ms(50);
		pthread_kill(thread, SIGUSR1);
		wait_ms(50);
		if (i == 0)
			sem_post(empty);
		else if (write(i == 1 ? pipe_ends[1] : pair[1], "x", 1) != 1)
			abort();
		ended(thread);
	}
	close_files();
}

/* A semaphore is posted at the same time: the number is given once. */
static void *wait_often(void *arg)
{
	int i, got = 0;

	(void)arg;
	for (i = 0; i < 100;) {
		if (!sem_wait(empty))
			i++;
		else if (errno != EINTR)
			break;
		else
			got++;
	}
	say("%d %d", i, got >= 0);
	return NULL;
}

CASE(post_and_interrupt, EACH)
{
	pthread_t thread;
	int i, left = -1;

	empty = calloc(1, sizeof(*empty));
	sem_init(empty, 0, 0);
	act_on(SIGUSR1, 0);
	thread = start(wait_often, NULL);
	for (i = 0; i < 100; i++) {
		pthread_kill(thread, SIGUSR1);
		sem_post(empty);
		if (i % 10 == 0)
			wait_ms(2);
	}
	ended(thread);
	say_call(sem_getvalue(empty, &left));
	say("%d", left);
	free(empty);
}

/* ---- calls with a mask of their own ---------------------------------------------------------- */

static long with_ppoll(const sigset_t *mask)
{
	const struct timespec late = { .tv_sec = 5 };
	struct pollfd p = { .fd = pipe_ends[0], .events = POLLIN };

	return ppoll(&p, 1, &late, mask);
}

static long with_pselect(const sigset_t *mask)
{
	const struct timespec late = { .tv_sec = 5 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipe_ends[0], &set);
	return pselect(pipe_ends[0] + 1, &set, NULL, NULL, &late, mask);
}

static long with_epoll(const sigset_t *mask)
{
	struct epoll_event e;

	return epoll_pwait(events, &e, 1, 5000, mask);
}

static long with_epoll2(const sigset_t *mask)
{
	const struct timespec late = { .tv_sec = 5 };
	struct epoll_event e;

	return epoll_pwait2(events, &e, 1, &late, mask);
}

typedef long masked_call(const sigset_t *mask);
static masked_call *const masked[] = { with_ppoll, with_pselect, with_epoll, with_epoll2 };

static void block_one(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int is_blocked(int sig)
{
	sigset_t set;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, sig);
}

static int blocked_in_handler;
static pthread_t handler_thread;

static void look_at_mask(int sig)
{
	on_signal(sig);
	blocked_in_handler = is_blocked(SIGUSR2);
	handler_thread = pthread_self();
}

/* Only the call lets the signal in. */
static void *wait_unblocked(void *at)
{
	sigset_t mask;

	block_one(SIGUSR1);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	sigdelset(&mask, SIGUSR1);
	sigaddset(&mask, SIGUSR2);
	say_call(masked[(size_t)at](&mask));
	say("%d %d %d", blocked_in_handler, is_blocked(SIGUSR1), is_blocked(SIGUSR2));
	say("%d", pthread_equal(handler_thread, pthread_self()) != 0);
	return NULL;
}

static void masked_open(int to_process)
{
	struct sigaction act = { .sa_handler = look_at_mask };
	pthread_t thread;
	size_t i;

	open_files();
	sigaction(SIGUSR1, &act, NULL);
	for (i = 0; i < 4; i++) {
		handled = blocked_in_handler = 0;
		thread = start(wait_unblocked, (void *)i);
		wait_ms(50);
		if (to_process)
			kill(getpid(), SIGUSR1);
		else
			pthread_kill(thread, SIGUSR1);
		ended(thread);
		say("%d", handled);
	}
	close_files();
}

CASE(masks_of_calls, EACH)
{
	masked_open(0);
}

CASE(masks_of_calls_process, ALONE)
{
	sigset_t before;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	block_one(SIGUSR1);
	masked_open(1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* It is pending already. */
static void *wait_pending(void *at)
{
	sigset_t mask;

	sigemptyset(&mask);
	block_one(SIGUSR1);
	pthread_kill(pthread_self(), SIGUSR1);
	say_call(masked[(size_t)at](&mask));
	say("%d", is_blocked(SIGUSR1));
	return NULL;
}

CASE(masks_of_calls_pending, EACH)
{
	size_t i;

	open_files();
	act_on(SIGUSR1, SA_RESTART);
	for (i = 0; i < 4; i++) {
		handled = 0;
		apart(wait_pending, (void *)i);
		say("%d", handled);
	}
	close_files();
}

/*
 * All signals are blocked while the call waits, and the one that comes meanwhile is handled when it
 * has returned.
 */
static int *touched;

static void touch(int sig)
{
	on_signal(sig);
	++*touched;
}

static void *wait_blocked(void *at)
{
	const struct timespec soon = { .tv_nsec = 400000000 };
	struct pollfd p = { .fd = pipe_ends[0], .events = POLLIN };
	sigset_t mask;

	sigfillset(&mask);
	say_call(at ? pselect(0, NULL, NULL, NULL, &soon, &mask) : ppoll(&p, 1, &soon, &mask));
	say("%d", handled);
	return NULL;
}

CASE(masks_of_calls_full, EACH)
{
	struct sigaction act = { .sa_handler = touch };
	pthread_t thread;
	size_t i;

	open_files();
	touched = calloc(1, 8192);
	sigaction(SIGUSR1, &act, NULL);
	for (i = 0; i < 2; i++) {
		handled = 0;
		thread = start(wait_blocked, (void *)i);
		wait_ms(30);
		++*touched; /* the handler misses this block */
		pthread_kill(thread, SIGUSR1);
		ended(thread);
	}
	say("%d", *touched);
	free(touched);
	close_files();
}

/* ---- the end by a signal --------------------------------------------------------------------- */

static void *sleep_here(void *arg)
{
	for (;;)
		sleep(1);
	return arg;
}

CASE(thread_killed_by_term, ALONE)
{
	const pthread_t thread = start(sleep_here, NULL);

	said();
	wait_ms(50);
	pthread_kill(thread, SIGTERM);
	wait_ms(5000);
}

CASE(thread_queued_term, ALONE)
{
	const pthread_t thread = start(sleep_here, NULL);

	said();
	wait_ms(50);
	pthread_sigqueue(thread, SIGTERM, (union sigval){ .sival_int = 1 });
	wait_ms(5000);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * aio.c - as calls.c, with asynchronous I/O: requests, their control blocks and lists of them are
 * in the memory of all threads. Other threads take this memory away while requests wait.
 */
#define _GNU_SOURCE
#include "away.h"

#include <aio.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static struct aiocb request(int fd, void *buf, size_t n, off_t off)
{
	struct aiocb cb;

	memset(&cb, 0, sizeof(cb));
	cb.aio_fildes = fd;
	cb.aio_buf = buf;
	cb.aio_nbytes = n;
	cb.aio_offset = off;
	cb.aio_sigevent.sigev_notify = SIGEV_NONE;
	return cb;
}

/* The result, when there is one. */
static ssize_t wait_for(struct aiocb *cb)
{
	APART const struct aiocb *list[2];

	list[1] = cb;
	AWAY(list);
	away(cb, sizeof(*cb));
	while (aio_suspend(list, 2, NULL))
		if (errno != EINTR)
			return -2;
	away(cb, sizeof(*cb));
	errno = aio_error(cb);
	return errno == EINPROGRESS ? -3 : aio_return(cb);
}

static void files(void)
{
	static const size_t sizes[] = { SMALL, PAGE, 3 * PAGE + 5, LARGE, HUGE };
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	struct aiocb local;
	APART struct aiocb cb;
	size_t i, n;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		n = sizes[i];
		disturb(n == LARGE);
		fill(text, n, (int)i);
		cb = request(fd, text, n, 10);
		away(text, n);
		AWAY(cb);
		check("aio_write", !aio_write(&cb) && wait_for(&cb) == (ssize_t)n);
		check("aio_fsync", !aio_fsync(O_SYNC, &cb) && wait_for(&cb) == 0);
		memset(back, 0, n);
		local = request(fd, back, n, 10);
		away(back, n);
		check("aio_read",
		      !aio_read(&local) && wait_for(&local) == (ssize_t)n &&
			      is_filled(back, n, (int)i));
		check("aio_read at the end",
		      (local.aio_offset = (off_t)n + 10, !aio_read(&local)) &&
			      wait_for(&local) == 0);
		disturb(0);
	}
	close(fd);
}

/* The bytes go through in the order of the requests, many at a time. */
static void many(void)
{
	enum { N = 64, EACH = 1000 };
	APART struct aiocb cb[N], in;
	int fd[2], i, good = 1;

	if (pipe(fd))
		return;
	fill(text, N * EACH, 6);
	memset(back, 0, N * EACH);
	away(text, N * EACH);
	for (i = 0; i < N; i++) {
		cb[i] = request(fd[1], text + i * EACH, EACH, 0);
		good &= !aio_write(&cb[i]);
	}
	for (i = 0; i < N; i++) {
		in = request(fd[0], back + i * EACH, EACH, 0);
		away(back + i * EACH, EACH);
		good &= !aio_read(&in) && wait_for(&in) == EACH;
	}
	for (i = 0; i < N; i++)
		good &= wait_for(&cb[i]) == EACH;
	check("many requests", good);
	check("their order", is_filled(back, N * EACH, 6));
	close(fd[0]);
	close(fd[1]);
}

/* Requests that wait, and keep no block meanwhile. */
static void waiting(void)
{
	APART struct aiocb first, second;
	APART const struct aiocb *list[1];
	APART struct timespec ts;
	int fd[2];

	if (pipe(fd))
		return;
	memset(back, 0, 3 * PAGE);
	first = request(fd[0], back, 2 * PAGE, 0);
	second = request(fd[0], back + 2 * PAGE, 10, 0);
	away(back, 3 * PAGE);
	AWAY(first);
	AWAY(second);
	check("aio_read of a pipe", !aio_read(&first) && !aio_read(&second));
	list[0] = &first;
	ts = (struct timespec){ 0, 20000000 };
	AWAY(list);
	AWAY(ts);
	check("aio_suspend, limited", aio_suspend(list, 1, &ts) == -1 && errno == EAGAIN);
	away(back, 3 * PAGE);
	AWAY(first);
	check("in progress", aio_error(&first) == EINPROGRESS && aio_error(&second) == EINPROGRESS);
	AWAY(second);
	check("aio_cancel", aio_cancel(fd[0], &second) == AIO_CANCELED);
	check("cancelled", aio_error(&second) == ECANCELED && aio_return(&second) == -1);
	check("write", write(fd[1], "later", 5) == 5);
	check("its result", wait_for(&first) == 5 && !memcmp(back, "later", 6) && !back[2 * PAGE]);
	check("aio_cancel, late",
	      aio_cancel(fd[0], &first) == AIO_ALLDONE && aio_cancel(fd[0], NULL) == AIO_ALLDONE);
	check("aio_cancel of another", aio_cancel(fd[1], &first) == -1 && errno == EINVAL);
	close(fd[0]);
	close(fd[1]);
	check("aio_cancel of none", aio_cancel(fd[0], NULL) == -1 && errno == EBADF);
}

/* Once its result is there, a request is done for aio_cancel() too. */
static void done(void)
{
	APART struct aiocb cb;
	int fd = open("/dev/zero", O_RDONLY), i, good = 1;

	for (i = 0; i < 3000; i++) {
		cb = request(fd, back, 10, 0);
		good &= !aio_read(&cb);
		while (aio_error(&cb) == EINPROGRESS)
			;
		good &= aio_cancel(fd, NULL) == AIO_ALLDONE;
	}
	check("aio_cancel of what is done", good);
	close(fd);
}

/* Another thread, perhaps of another rank, waits for the request. */
static void *other(void *arg)
{
	struct aiocb *cb = arg;
	const struct aiocb *list[1] = { cb };
	const struct timespec limit = { 20, 0 };

	if (aio_suspend(list, 1, &limit) || aio_error(cb) || aio_return(cb) != 4)
		return NULL;
	return back;
}

/* A request that waits, and a thread that knows it. */
static int read_pipe(int *fd, struct aiocb *cb, pthread_t *thread, void *(*fn)(void *))
{
	if (pipe(fd))
		return 0;
	*cb = request(fd[0], back, PAGE, 0);
	check("aio_read of a pipe", !aio_read(cb));
	pthread_create(thread, NULL, fn, cb);
	usleep(20000);
	return 1;
}

static void elsewhere(void)
{
	APART struct aiocb cb;
	pthread_t thread;
	void *result;
	int fd[2];

	if (!read_pipe(fd, &cb, &thread, other))
		return;
	check("write", write(fd[1], "word", 4) == 4);
	pthread_join(thread, &result);
	check("another thread", result == back && !memcmp(back, "word", 4));
	close(fd[0]);
	close(fd[1]);
}

/* Of a request that does not end. */
static void *wait_for_nothing(void *arg)
{
	const struct aiocb *list[1] = { arg };

	aio_suspend(list, 1, NULL);
	return back;
}

static void cancellation(void)
{
	APART struct aiocb cb;
	pthread_t thread;
	void *result;
	int fd[2];

	if (!read_pipe(fd, &cb, &thread, wait_for_nothing))
		return;
	pthread_cancel(thread);
	pthread_join(thread, &result);
	check("a cancellation point", result == PTHREAD_CANCELED && aio_error(&cb) == EINPROGRESS);
	close(fd[1]);
	check("the end", wait_for(&cb) == 0);
	close(fd[0]);
}

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static int told, told_right, signals;

static void when_done(union sigval v)
{
	const struct aiocb *cb = v.sival_ptr;

	pthread_mutex_lock(&counting);
	told_right += !aio_error(cb) && is_filled((char *)cb->aio_buf, cb->aio_nbytes, 7);
	__atomic_fetch_add(&told, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&counting);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (info->si_code == SI_ASYNCIO && info->si_value.sival_int == 77)
		__atomic_fetch_add(&signals, 1, __ATOMIC_SEQ_CST);
}

static int reaches(const int *count, int n)
{
	int i;

	for (i = 0; i < 2000 && __atomic_load_n(count, __ATOMIC_SEQ_CST) < n; i++)
		usleep(10000);
	return __atomic_load_n(count, __ATOMIC_SEQ_CST) == n;
}

static void notices(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	APART struct aiocb cb, a, b, none;
	APART struct aiocb *list[4];
	APART struct sigevent event;

	sigaction(SIGUSR1, &sa, NULL);
	fill(text, LARGE, 7);
	check("write", write(fd, text, LARGE) == (ssize_t)LARGE);
	cb = request(fd, back, LARGE, 0);
	cb.aio_sigevent =
		(struct sigevent){ .sigev_notify = SIGEV_THREAD, .sigev_value.sival_ptr = &cb };
	cb.aio_sigevent.sigev_notify_function = when_done;
	away(back, LARGE);
	AWAY(cb);
	check("a thread", !aio_read(&cb) && reaches(&told, 1) && told_right == 1);
	cb = request(fd, back, PAGE, 0);
	cb.aio_sigevent = (struct sigevent){ .sigev_notify = SIGEV_SIGNAL,
					     .sigev_signo = SIGUSR1,
					     .sigev_value.sival_int = 77 };
	check("a signal", !aio_read(&cb) && reaches(&signals, 1) && !aio_error(&cb));

	/* Lists. */
	memset(back, 0, LARGE);
	a = request(fd, back, 2 * PAGE, 0);
	a.aio_lio_opcode = LIO_READ;
	b = request(fd, text, PAGE, LARGE);
	b.aio_lio_opcode = LIO_WRITE;
	none = request(-1, NULL, 0, 0);
	none.aio_lio_opcode = LIO_NOP;
	list[0] = &a;
	list[1] = NULL;
	list[2] = &none;
	list[3] = &b;
	AWAY(list);
	away(back, LARGE);
	check("lio_listio",
	      !lio_listio(LIO_WAIT, list, 4, NULL) && aio_return(&a) == (ssize_t)(2 * PAGE) &&
		      is_filled(back, 2 * PAGE, 7) && aio_return(&b) == (ssize_t)PAGE);
	event = (struct sigevent){ .sigev_notify = SIGEV_THREAD, .sigev_value.sival_ptr = &a };
	event.sigev_notify_function = when_done;
	memset(back, 0, LARGE);
	away(back, LARGE);
	AWAY(event);
	AWAY(list);
	check("lio_listio, a thread",
	      !lio_listio(LIO_NOWAIT, list, 4, &event) && reaches(&told, 2) && told_right == 2);
	check("both", !aio_error(&b) && aio_return(&b) == (ssize_t)PAGE);
	event = (struct sigevent){ .sigev_notify = SIGEV_SIGNAL,
				   .sigev_signo = SIGUSR1,
				   .sigev_value.sival_int = 77 };
	AWAY(event);
	check("lio_listio, a signal",
	      !lio_listio(LIO_NOWAIT, list, 4, &event) && reaches(&signals, 2));
	a.aio_fildes = -1;
	AWAY(a);
	check("lio_listio that fails", lio_listio(LIO_WAIT, list, 4, NULL) == -1 && errno == EIO);
	check("which", aio_error(&a) == EBADF && aio_return(&a) == -1 && !aio_error(&b));
	check("no such mode", lio_listio(7, list, 4, NULL) == -1 && errno == EINVAL);
	close(fd);
}

static void errors(void)
{
	APART struct aiocb cb;

	cb = request(-1, back, 10, 0);
	AWAY(cb);
	check("aio_read of no descriptor",
	      !aio_read(&cb) && wait_for(&cb) == -1 && aio_error(&cb) == EBADF);
	cb = request(0, back, 10, 0);
	cb.aio_reqprio = -1;
	AWAY(cb);
	check("no such priority",
	      aio_read(&cb) == -1 && errno == EINVAL && aio_error(&cb) == EINVAL);
	check("aio_fsync of what", aio_fsync(12345, &cb) == -1 && errno == EINVAL);
	cb = request(-1, NULL, 0, 0);
	check("aio_fsync of no descriptor", aio_fsync(O_SYNC, &cb) == -1 && errno == EBADF);
}

int main(void)
{
	alarm(100);
	begin();
	files();
	many();
	waiting();
	done();
	elsewhere();
	cancellation();
	notices();
	errors();
	return finish();
}

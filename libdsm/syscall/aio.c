// SPDX-License-Identifier: BSD-2-Clause
/*
 * aio.c - asynchronous I/O of POSIX. The threads of the C library block all signals, also those of
 * misses, and make their own system calls, which cannot be wrapped: they can use neither a buffer
 * nor a control block in shared memory. Its aio_suspend(3) does not wait for requests of other
 * ranks. So requests are carried out by threads of this library (request.c), of rank 0 where the
 * program is one process.
 */
#include "request.h"

#include "caller.h"
#include "owner.h"

#include <fcntl.h>
#include <stdlib.h>

/* how often a wait checks for requests of other ranks, which wake nobody here */
#define CHECK_NS 10000000u

/* Is there memory of several ranks? Else the C library does it all. */
static bool aio_is_ours(void)
{
	return dsm_size() > 1;
}

/* Control blocks of libraries are private: rank 0 cannot use them. */
static bool aio_is_private(const void *block)
{
	if (!block || program.is_shared(block))
		return false;
	files_refuse(
		ENOSYS, "aio",
		"asynchronous I/O of a library in a thread of this rank is refused; see dsm-cc(1)");
	return true;
}

#define ABROAD(fn, block, a, b, c, d)                                                          \
	do {                                                                                   \
		if (__builtin_expect(is_abroad(CALLER), 0))                                    \
			return caller_is_child(#fn) || aio_is_private(block)                   \
				? -1                                                           \
				: (int)owner_wait((void *)fn, (long)(a), (long)(b), (long)(c), \
						  (long)(d));                                  \
	} while (0)

EXPORT int aio_read(struct aiocb *cb)
{
	ABROAD(aio_read, cb, cb, 0, 0, 0);
	return aio_is_ours() ? request_submit(cb, READ, NULL) : NEXT(aio_read)(cb);
}

EXPORT int aio_write(struct aiocb *cb)
{
	ABROAD(aio_write, cb, cb, 0, 0, 0);
	return aio_is_ours() ? request_submit(cb, WRITE, NULL) : NEXT(aio_write)(cb);
}

EXPORT int aio_fsync(int op, struct aiocb *cb)
{
	int flags;

	ABROAD(aio_fsync, cb, op, cb, 0, 0);
	if (!aio_is_ours())
		return NEXT(aio_fsync)(op, cb);
	if (op != O_SYNC && op != O_DSYNC) {
		errno = EINVAL;
		return -1;
	}
	flags = fcntl(cb->aio_fildes, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
		errno = EBADF;
		return -1;
	}
	return request_submit(cb, op == O_SYNC ? FSYNC : FDATASYNC, NULL);
}

/* Rank 0 looks: with release consistency, the load of another node would not see its store. */
EXPORT int aio_error(const struct aiocb *cb)
{
	if (files == FILES_ABROAD && program.is_shared(cb))
		ABROAD(aio_error, cb, cb, 0, 0, 0);
	return aio_is_ours() ? request_error(cb) : NEXT(aio_error)(cb);
}

EXPORT ssize_t aio_return(struct aiocb *cb)
{
	return aio_is_ours() ? cb->__return_value : NEXT(aio_return)(cb);
}

/* What a call waits for: for one of the list, or for all others of the group. */
struct wait {
	const struct aiocb *const *list;
	int n;
	const struct group *group;
	const struct timespec *limit;
	int err;
};

static bool aio_is_over(const struct wait *w)
{
	bool any = false;
	int i;

	if (w->group)
		return __atomic_load_n(&w->group->left, __ATOMIC_SEQ_CST) == 1;
	for (i = 0; i < w->n; i++) {
		if (w->list[i] && request_error(w->list[i]) != EINPROGRESS)
			return true;
		any |= w->list[i] != NULL;
	}
	return !any;
}

static int64_t aio_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_run(void *arg)
{
	struct wait *out = arg, w = *out;
	const struct timespec limit = w.limit ? *w.limit : (struct timespec){ 0 };
	const int64_t end = w.limit ? aio_now() + (int64_t)limit.tv_sec * 1000000000 + limit.tv_nsec
				    : INT64_MAX;
	int64_t left;
	uint32_t seen;

	for (;;) {
		seen = request_count();
		if (aio_is_over(&w))
			break;
		left = w.limit ? end - aio_now() : CHECK_NS;
		w.err = left <= 0 ? EAGAIN : request_sleep(seen, left < CHECK_NS ? left : CHECK_NS);
		if (w.err)
			break;
	}
	out->err = w.err;
}

static int aio_wait_until(struct wait w)
{
	const int saved = errno;

	dsm_call(wait_run, &w);
	errno = w.err ? w.err : saved;
	return w.err ? -1 : 0;
}

EXPORT int aio_suspend(const struct aiocb *const list[], int n, const struct timespec *limit)
{
	if (files == FILES_ABROAD && program.is_shared(list) &&
	    (!limit || program.is_shared(limit)))
		ABROAD(aio_suspend, list, list, n, limit, 0);
	if (!aio_is_ours())
		return NEXT(aio_suspend)(list, n, limit);
	if (n < 0) {
		errno = EINVAL;
		return -1;
	}
	return aio_wait_until((struct wait){ .list = list, .n = n, .limit = limit });
}

EXPORT int aio_cancel(int fd, struct aiocb *cb)
{
	ABROAD(aio_cancel, cb, fd, cb, 0, 0);
	if (!aio_is_ours())
		return NEXT(aio_cancel)(fd, cb);
	if (fcntl(fd, F_GETFL) < 0) {
		errno = EBADF;
		return -1;
	}
	if (cb && cb->aio_fildes != fd) {
		errno = EINVAL;
		return -1;
	}
	return request_cancel(fd, cb);
}

static struct group *make_group(const struct sigevent *event)
{
	struct group *g = malloc(sizeof(*g));

	if (!g) {
		errno = EAGAIN;
		return NULL;
	}
	*g = (struct group){ .left = 1, .event.sigev_notify = SIGEV_NONE };
	if (event)
		g->event = *event;
	return g;
}

/* One entry of a list; an errno value. */
static int submit_entry(struct aiocb *cb, struct group *g)
{
	if (!cb || cb->aio_lio_opcode == LIO_NOP)
		return 0;
	__atomic_fetch_add(&g->left, 1, __ATOMIC_SEQ_CST);
	if (cb->aio_lio_opcode == LIO_READ || cb->aio_lio_opcode == LIO_WRITE) {
		if (!request_submit(cb, cb->aio_lio_opcode == LIO_READ ? READ : WRITE, g))
			return 0;
	} else {
		request_set_result(cb, -1, EINVAL);
		errno = EINVAL;
	}
	__atomic_fetch_sub(&g->left, 1, __ATOMIC_SEQ_CST);
	return errno;
}

static void leave_run(void *group)
{
	request_leave(group);
}

/* An errno value. */
static __attribute__((noinline)) int wait_for_group(struct group *g)
{
	int err;

	pthread_cleanup_push(leave_run, g);
	err = aio_wait_until((struct wait){ .group = g }) ? errno : 0;
	pthread_cleanup_pop(0);
	return err ? err : __atomic_load_n(&g->failed, __ATOMIC_RELAXED) ? EIO : 0;
}

EXPORT int lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event)
{
	int i, err = 0, one;
	struct group *g;

	ABROAD(lio_listio, list, mode, list, n, event);
	if (!aio_is_ours())
		return NEXT(lio_listio)(mode, list, n, event);
	if ((mode != LIO_WAIT && mode != LIO_NOWAIT) || n < 0) {
		errno = EINVAL;
		return -1;
	}
	g = make_group(mode == LIO_NOWAIT ? event : NULL);
	if (!g)
		return -1;
	for (i = 0; i < n; i++) {
		one = submit_entry(list[i], g);
		err = err ? err : one;
	}
	if (mode == LIO_WAIT) {
		one = wait_for_group(g);
		err = err && one != EINTR ? err : one;
	}
	dsm_call(leave_run, g);
	errno = err ? err : errno;
	return err ? -1 : 0;
}

#define SAME(name64, result, name, ...) \
	EXPORT result name64(__VA_ARGS__) __attribute__((alias(#name)));
SAME(aio_read64, int, aio_read, struct aiocb64 *)
SAME(aio_write64, int, aio_write, struct aiocb64 *)
SAME(aio_fsync64, int, aio_fsync, int, struct aiocb64 *)
SAME(aio_error64, int, aio_error, const struct aiocb64 *)
SAME(aio_return64, ssize_t, aio_return, struct aiocb64 *)
SAME(aio_suspend64, int, aio_suspend, const struct aiocb64 *const[], int, const struct timespec *)
SAME(aio_cancel64, int, aio_cancel, int, struct aiocb64 *)
SAME(lio_listio64, int, lio_listio, int, struct aiocb64 *const[], int, struct sigevent *)
_Static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64), "one function serves both");

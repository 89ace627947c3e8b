// SPDX-License-Identifier: BSD-2-Clause
/*
 * aio.c - asynchronous I/O of POSIX. The threads of the C library block all signals, also those of misses, and make their own system
 * calls, which cannot be wrapped: they can use neither a buffer nor a control block in shared memory. Its aio_suspend(3) does not
 * wait for requests of other ranks. So requests are carried out here, by threads that call the functions of move.c. What these do with
 * a buffer holds here as well: a request that waits keeps no block.
 *
 * A request is copied when it is made. Its control block, which any rank may look at, is written when it is made and when it
 * is done, and not touched afterwards. Requests for one descriptor are carried out one after the other, in the order of their
 * priorities and of their arrival; there are WORKERS threads at most, which end when they have been idle.
 *
 * `lock` protects all lists and is not held while anything is carried out or shared memory is touched.
 */
#include "wrap.h"

#include <aio.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 20               /* as many as the C library has */
#define IDLE_S 1                 /* a thread ends after so long */
#define CHECK_NS 10000000u       /* how often a wait checks for requests of other ranks, which wake nobody here */
#define PRIO_MAX 20              /* sysconf(_SC_AIO_PRIO_DELTA_MAX) */
#define PRIO_SYNC (PRIO_MAX + 1) /* behind what was there before */

enum operation { READ = LIO_READ, WRITE = LIO_WRITE, FSYNC, FDATASYNC };

/* The requests of one lio_listio(), and its call while that runs. */
struct group {
	uint32_t left;
	uint32_t failed;
	struct sigevent event;
};

struct request {
	struct request *next;
	struct aiocb *cb;
	struct group *group; /* or NULL */
	enum operation what;
	int fd, prio;
	void *buf;
	size_t n;
	off_t off;
	struct sigevent event;
	bool ending; /* its result is being written */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct request *queue, *running;
static unsigned int workers, idle, called; /* called: of the threads that were idle, and have not noticed */
static uint32_t done_count;                /* a futex: requests that are done */

/* Is there memory of several ranks? Else the C library does it all. */
static bool is_ours(void)
{
	return dsm_size() > 1;
}

/* ---- the end of a request ------------------------------------------------------------------------- */

struct notice {
	void (*fn)(union sigval);
	union sigval value;
};

static void *call_notice(void *arg)
{
	const struct notice n = *(struct notice *)arg;
	sigset_t none;

	free(arg);
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	n.fn(n.value);
	return NULL;
}

/* As the C library, it has no way to tell of a notification that fails for lack of memory. */
static void notify_by_thread(const struct sigevent *e)
{
	struct notice *n = malloc(sizeof(*n));
	pthread_attr_t attr;
	pthread_t thread;

	if (!n)
		return;
	*n = (struct notice){ e->sigev_notify_function, e->sigev_value };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (NEXT(pthread_create)(&thread, e->sigev_notify_attributes ? e->sigev_notify_attributes : &attr, call_notice,
				 n))
		free(n);
	pthread_attr_destroy(&attr);
}

static void notify(const struct sigevent *e)
{
	if (e->sigev_notify == SIGEV_SIGNAL) {
		siginfo_t info = { .si_signo = e->sigev_signo, .si_code = SI_ASYNCIO };

		info.si_pid = getpid();
		info.si_uid = getuid();
		info.si_value = e->sigev_value;
		syscall(SYS_rt_sigqueueinfo, getpid(), e->sigev_signo, &info);
	} else if (e->sigev_notify == SIGEV_THREAD) {
		notify_by_thread(e);
	}
}

static void announce(void)
{
	__atomic_fetch_add(&done_count, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &done_count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A request of the group is done, or its call has returned. */
static void leave_group(struct group *g)
{
	if (__atomic_sub_fetch(&g->left, 1, __ATOMIC_SEQ_CST))
		return;
	notify(&g->event);
	free(g);
}

/* The control block may go with the program's next step. */
static void set_result(struct aiocb *cb, ssize_t result, int err)
{
	cb->__return_value = result;
	__atomic_store_n(&cb->__error_code, err, __ATOMIC_RELEASE);
}

/* It is in no list any more. */
static void finish(struct request *r, bool failed)
{
	if (r->group && failed)
		__atomic_store_n(&r->group->failed, 1, __ATOMIC_RELAXED);
	notify(&r->event);
	if (r->group)
		leave_group(r->group);
	announce();
	free(r);
}

/* ---- threads that carry requests out -------------------------------------------------------------- */

static ssize_t carry_out(const struct request *r)
{
	ssize_t got;

	switch (r->what) {
	case READ:
		got = pread(r->fd, r->buf, r->n, r->off);
		return got < 0 && errno == ESPIPE ? read(r->fd, r->buf, r->n) : got;
	case WRITE:
		got = pwrite(r->fd, r->buf, r->n, r->off);
		return got < 0 && errno == ESPIPE ? write(r->fd, r->buf, r->n) : got;
	case FSYNC: return fsync(r->fd);
	case FDATASYNC: break;
	}
	return fdatasync(r->fd);
}

static void unlink_request(struct request **list, const struct request *r)
{
	while (*list != r)
		list = &(*list)->next;
	*list = r->next;
}

static bool is_busy(int fd)
{
	const struct request *r;

	for (r = running; r; r = r->next)
		if (r->fd == fd)
			return true;
	return false;
}

/* The first one whose descriptor no other thread uses, from `queue` to `running`. */
static struct request *take(void)
{
	struct request *r;

	for (r = queue; r && is_busy(r->fd); r = r->next)
		;
	if (r) {
		unlink_request(&queue, r);
		r->next = running;
		running = r;
	}
	return r;
}

/* False: nobody has called for long. */
static bool wait_for_work(void)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_S;
	idle++;
	while (!called && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&work, &lock, &until);
	if (!called) {
		idle--;
		return false;
	}
	called--;
	return true;
}

static void *worker(void *arg)
{
	struct request *r;
	ssize_t got;
	int err;

	pthread_mutex_lock(&lock);
	do {
		while ((r = take())) {
			pthread_mutex_unlock(&lock);
			got = carry_out(r);
			err = got < 0 ? errno : 0;
			pthread_mutex_lock(&lock);
			r->ending = true;
			pthread_mutex_unlock(&lock);
			set_result(r->cb, got, err);
			pthread_mutex_lock(&lock);
			unlink_request(&running, r);
			pthread_mutex_unlock(&lock);
			finish(r, got < 0);
			pthread_mutex_lock(&lock);
		}
	} while (wait_for_work());
	workers--;
	pthread_mutex_unlock(&lock);
	return arg;
}

/* The program's handlers are not for it; the signals of misses are. */
static bool start_worker(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t mask;
	int err;

	sigfillset(&mask);
	sigdelset(&mask, SIGSEGV);
	sigdelset(&mask, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setsigmask_np(&attr, &mask);
	err = NEXT(pthread_create)(&thread, &attr, worker, NULL);
	pthread_attr_destroy(&attr);
	return !err;
}

/* ---- requests ------------------------------------------------------------------------------------- */

struct submission {
	struct request *r;
	bool refused;
};

static void submit_run(void *arg)
{
	struct submission *out = arg;
	struct request *const r = out->r, **at;
	bool refused = false;

	pthread_mutex_lock(&lock);
	for (at = &queue; *at && (*at)->prio <= r->prio; at = &(*at)->next)
		;
	r->next = *at;
	*at = r;
	if (idle) {
		idle--;
		called++;
		pthread_cond_signal(&work);
	} else if (workers < WORKERS && start_worker()) {
		workers++;
	} else if (!workers) {
		unlink_request(&queue, r);
		refused = true;
	}
	pthread_mutex_unlock(&lock);
	out->refused = refused;
}

/* 0, or -1 with errno, which the control block has then, too. */
static int submit(struct aiocb *cb, enum operation what, struct group *g)
{
	const bool sync = what != READ && what != WRITE;
	struct submission s = { 0 };
	int err = EINVAL;

	if (sync || (cb->aio_reqprio >= 0 && cb->aio_reqprio <= PRIO_MAX)) {
		s.r = malloc(sizeof(*s.r));
		err = EAGAIN;
	}
	if (s.r) {
		*s.r = (struct request){ .cb = cb,
					 .group = g,
					 .what = what,
					 .fd = cb->aio_fildes,
					 .prio = sync ? PRIO_SYNC : cb->aio_reqprio,
					 .buf = (void *)(uintptr_t)cb->aio_buf,
					 .n = cb->aio_nbytes,
					 .off = cb->aio_offset,
					 .event = cb->aio_sigevent };
		set_result(cb, 0, EINPROGRESS);
		dsm_call(submit_run, &s);
		if (!s.refused)
			return 0;
		free(s.r);
	}
	set_result(cb, -1, err);
	errno = err;
	return -1;
}

EXPORT int aio_read(struct aiocb *cb)
{
	return is_ours() ? submit(cb, READ, NULL) : NEXT(aio_read)(cb);
}

EXPORT int aio_write(struct aiocb *cb)
{
	return is_ours() ? submit(cb, WRITE, NULL) : NEXT(aio_write)(cb);
}

EXPORT int aio_fsync(int op, struct aiocb *cb)
{
	int flags;

	if (!is_ours())
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
	return submit(cb, op == O_SYNC ? FSYNC : FDATASYNC, NULL);
}

/* ---- results -------------------------------------------------------------------------------------- */

static int error_of(const struct aiocb *cb)
{
	return __atomic_load_n(&cb->__error_code, __ATOMIC_ACQUIRE);
}

EXPORT int aio_error(const struct aiocb *cb)
{
	return is_ours() ? error_of(cb) : NEXT(aio_error)(cb);
}

EXPORT ssize_t aio_return(struct aiocb *cb)
{
	return is_ours() ? cb->__return_value : NEXT(aio_return)(cb);
}

/* What a call waits for: for one of the list, or for all others of the group. */
struct wait {
	const struct aiocb *const *list;
	int n;
	const struct group *group;
	const struct timespec *limit;
	int err;
};

static bool is_over(const struct wait *w)
{
	bool any = false;
	int i;

	if (w->group)
		return __atomic_load_n(&w->group->left, __ATOMIC_SEQ_CST) == 1;
	for (i = 0; i < w->n; i++) {
		if (w->list[i] && error_of(w->list[i]) != EINPROGRESS)
			return true;
		any |= w->list[i] != NULL;
	}
	return !any;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A cancellation point. EINTR, or 0: something may have changed. */
static int sleep_while(uint32_t seen, int64_t ns)
{
	const struct timespec t = { .tv_nsec = ns };
	int (*const choose)(int, int *) = NEXT(pthread_setcanceltype);
	int type;
	long err;

	choose(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	err = syscall(SYS_futex, &done_count, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
	choose(type, &type);
	return err && errno == EINTR ? EINTR : 0;
}

static void wait_run(void *arg)
{
	struct wait *out = arg, w = *out;
	const struct timespec limit = w.limit ? *w.limit : (struct timespec){ 0 };
	const int64_t end = w.limit ? now() + (int64_t)limit.tv_sec * 1000000000 + limit.tv_nsec : INT64_MAX;
	int64_t left;
	uint32_t seen;

	for (;;) {
		seen = __atomic_load_n(&done_count, __ATOMIC_SEQ_CST);
		if (is_over(&w))
			break;
		left = w.limit ? end - now() : CHECK_NS;
		w.err = left <= 0 ? EAGAIN : sleep_while(seen, left < CHECK_NS ? left : CHECK_NS);
		if (w.err)
			break;
	}
	out->err = w.err;
}

static int wait_until(struct wait w)
{
	const int saved = errno;

	dsm_call(wait_run, &w);
	errno = w.err ? w.err : saved;
	return w.err ? -1 : 0;
}

EXPORT int aio_suspend(const struct aiocb *const list[], int n, const struct timespec *limit)
{
	if (!is_ours())
		return NEXT(aio_suspend)(list, n, limit);
	if (n < 0) {
		errno = EINVAL;
		return -1;
	}
	return wait_until((struct wait){ .list = list, .n = n, .limit = limit });
}

/* ---- cancelling ----------------------------------------------------------------------------------- */

struct cancel {
	int fd;
	struct aiocb *cb; /* NULL: all of the descriptor */
	int result;
};

static bool is_meant(const struct cancel *c, const struct request *r)
{
	return c->cb ? r->cb == c->cb : r->fd == c->fd;
}

/* Under `lock`: does a thread carry out what is meant? When its end has begun, its result is waited for. */
static bool is_running(const struct cancel *c)
{
	const struct request *r = running;

	while (r) {
		if (is_meant(c, r) && !r->ending)
			return true;
		if (is_meant(c, r)) {
			pthread_mutex_unlock(&lock);
			sched_yield();
			pthread_mutex_lock(&lock);
			r = running;
		} else {
			r = r->next;
		}
	}
	return false;
}

static void cancel_run(void *arg)
{
	struct cancel *out = arg, c = *out;
	struct request **at, *r, *taken = NULL, **end = &taken;

	pthread_mutex_lock(&lock);
	for (at = &queue; (r = *at);) {
		if (is_meant(&c, r)) {
			*at = r->next;
			r->next = NULL;
			*end = r;
			end = &r->next;
		} else {
			at = &r->next;
		}
	}
	c.result = is_running(&c) ? AIO_NOTCANCELED : taken ? AIO_CANCELED : AIO_ALLDONE;
	pthread_mutex_unlock(&lock);
	while ((r = taken)) {
		taken = r->next;
		set_result(r->cb, -1, ECANCELED);
		finish(r, true);
	}
	/* Of another rank. */
	if (c.result == AIO_ALLDONE && c.cb && error_of(c.cb) == EINPROGRESS)
		c.result = AIO_NOTCANCELED;
	out->result = c.result;
}

EXPORT int aio_cancel(int fd, struct aiocb *cb)
{
	struct cancel c = { .fd = fd, .cb = cb };

	if (!is_ours())
		return NEXT(aio_cancel)(fd, cb);
	if (fcntl(fd, F_GETFL) < 0) {
		errno = EBADF;
		return -1;
	}
	if (cb && cb->aio_fildes != fd) {
		errno = EINVAL;
		return -1;
	}
	dsm_call(cancel_run, &c);
	return c.result;
}

/* ---- lists ---------------------------------------------------------------------------------------- */

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
		if (!submit(cb, cb->aio_lio_opcode == LIO_READ ? READ : WRITE, g))
			return 0;
	} else {
		set_result(cb, -1, EINVAL);
		errno = EINVAL;
	}
	__atomic_fetch_sub(&g->left, 1, __ATOMIC_SEQ_CST);
	return errno;
}

static void leave_run(void *group)
{
	leave_group(group);
}

/* An errno value. */
static __attribute__((noinline)) int wait_for_group(struct group *g)
{
	int err;

	pthread_cleanup_push(leave_run, g);
	err = wait_until((struct wait){ .group = g }) ? errno : 0;
	pthread_cleanup_pop(0);
	return err ? err : __atomic_load_n(&g->failed, __ATOMIC_RELAXED) ? EIO : 0;
}

EXPORT int lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event)
{
	int i, err = 0, one;
	struct group *g;

	if (!is_ours())
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

#define SAME(name64, result, name, ...) EXPORT result name64(__VA_ARGS__) __attribute__((alias(#name)));
SAME(aio_read64, int, aio_read, struct aiocb64 *)
SAME(aio_write64, int, aio_write, struct aiocb64 *)
SAME(aio_fsync64, int, aio_fsync, int, struct aiocb64 *)
SAME(aio_error64, int, aio_error, const struct aiocb64 *)
SAME(aio_return64, ssize_t, aio_return, struct aiocb64 *)
SAME(aio_suspend64, int, aio_suspend, const struct aiocb64 *const[], int, const struct timespec *)
SAME(aio_cancel64, int, aio_cancel, int, struct aiocb64 *)
SAME(lio_listio64, int, lio_listio, int, struct aiocb64 *const[], int, struct sigevent *)
_Static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64), "one function serves both");

// SPDX-License-Identifier: BSD-2-Clause
/*
 * request.c - requests of asynchronous I/O, and the threads that carry them out. They call the
 * functions of move.c. What these do with a buffer holds here as well: a request that waits keeps
 * no block.
 *
 * A request is copied when it is made. Its control block, which any rank may look at, is written
 * when it is made and when it is done, and not touched afterwards. Requests for one descriptor are
 * carried out one after the other, in the order of their priorities and of their arrival; there are
 * WORKERS threads at most, which end when they have been idle.
 *
 * `lock` protects all lists and is not held while anything is carried out or shared memory is
 * touched.
 */
#include "request.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKERS 20               /* as many as the C library has */
#define IDLE_S 1                 /* a thread ends after so long */
#define PRIO_MAX 20              /* sysconf(_SC_AIO_PRIO_DELTA_MAX) */
#define PRIO_SYNC (PRIO_MAX + 1) /* behind what was there before */

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
/* called: of the threads that were idle, and have not noticed */
static unsigned int workers, idle, called;
static uint32_t done_count; /* a futex: requests that are done */

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
	if (NEXT(pthread_create)(&thread,
				 e->sigev_notify_attributes ? e->sigev_notify_attributes : &attr,
				 call_notice, n))
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

static void request_announce(void)
{
	__atomic_fetch_add(&done_count, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &done_count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void request_leave(struct group *g)
{
	if (__atomic_sub_fetch(&g->left, 1, __ATOMIC_SEQ_CST))
		return;
	notify(&g->event);
	free(g);
}

/* It is in no list any more. */
static void finish(struct request *r, bool failed)
{
	if (r->group && failed)
		__atomic_store_n(&r->group->failed, 1, __ATOMIC_RELAXED);
	notify(&r->event);
	if (r->group)
		request_leave(r->group);
	request_announce();
	free(r);
}

static ssize_t request_carry_out(const struct request *r)
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
static struct request *request_take(void)
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
		while ((r = request_take())) {
			pthread_mutex_unlock(&lock);
			got = request_carry_out(r);
			err = got < 0 ? errno : 0;
			pthread_mutex_lock(&lock);
			r->ending = true;
			pthread_mutex_unlock(&lock);
			request_set_result(r->cb, got, err);
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

int request_submit(struct aiocb *cb, enum operation what, struct group *g)
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
		request_set_result(cb, 0, EINPROGRESS);
		dsm_call(submit_run, &s);
		if (!s.refused)
			return 0;
		free(s.r);
	}
	request_set_result(cb, -1, err);
	errno = err;
	return -1;
}

uint32_t request_count(void)
{
	return __atomic_load_n(&done_count, __ATOMIC_SEQ_CST);
}

int request_sleep(uint32_t seen, int64_t ns)
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

struct cancel {
	int fd;
	struct aiocb *cb; /* NULL: all of the descriptor */
	int result;
};

static bool is_meant(const struct cancel *c, const struct request *r)
{
	return c->cb ? r->cb == c->cb : r->fd == c->fd;
}

/*
 * Under `lock`: does a thread carry out what is meant? When its end has begun, its result is waited
 * for.
 */
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
		request_set_result(r->cb, -1, ECANCELED);
		finish(r, true);
	}
	/* Of another rank. */
	if (c.result == AIO_ALLDONE && c.cb && request_error(c.cb) == EINPROGRESS)
		c.result = AIO_NOTCANCELED;
	out->result = c.result;
}

int request_cancel(int fd, struct aiocb *cb)
{
	struct cancel c = { .fd = fd, .cb = cb };

	dsm_call(cancel_run, &c);
	return c.result;
}

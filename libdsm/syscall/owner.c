// SPDX-License-Identifier: BSD-2-Clause
/*
 * owner.c - calls that rank 0 makes for threads of other ranks.
 *
 * A desk in shared memory carries one call at a time: the thread writes function and words, posts
 * `asked`, and waits for `done`. A thread of rank 0 sits at the other side. Its errno is the
 * caller's. A desk that a thread leaves is taken by the next one. A signal handler that makes a
 * call while its thread waits takes a desk of its own.
 *
 * A thread that is cancelled while it waits has its clerk cancelled, and waits for that: until
 * then, the call uses its buffers.
 *
 * A handler that interrupts the waiting thread ends its sleep when it returns, by a post of its own
 * (dsm_files_interrupt()). The thread then has rank 0 send its clerk a signal, which has an empty
 * handler, and again until the call is done: the first may come before the call sleeps. So the
 * kernel decides, as for any interrupted call, whether it returns EINTR or what it has.
 */
#include "owner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/raw_syscall.h"
#include "caller.h"

#define FIRST_NS 1000000u /* until the signal that interrupts a call is sent again */
#define LAST_NS 100000000u
#define IDLE 64u /* desks that a rank keeps */
#define DEEP 4   /* calls of one thread at a time: handlers interrupt each other */

/* Each side writes what the other one reads after the post. */
struct desk {
	dsm_sem_t asked, done;
	dsm_thread_t clerk;
	int tid;      /* the clerk's, at rank 0; 0: it has not begun. Atomic */
	files_fn *fn; /* NULL: the clerk goes */
	long word[OWNER_WORDS];
	long result;
	int err;
	uint32_t finished; /* the result is there, and `done` will be posted. Atomic */
	uint32_t piped;    /* the call raised SIGPIPE */
	FILE *stream;      /* whose flags are wanted; NULL: none */
	int flags;
};

static struct desk *idle[IDLE]; /* each entry is exchanged atomically */

/*
 * A call that waits, for handlers that interrupt it. desk: NULL before and behind the wait. posted:
 * a handler has ended the call.
 */
struct waited {
	struct desk *desk;
	uint32_t posted;
	enum owner_way way;
};

static __thread struct {
	int depth;
	struct desk *desk[DEEP];
	struct waited call[DEEP];
	uint64_t mask; /* of the next call that polls */
	bool masked;
} mine __attribute__((tls_model("initial-exec")));
static int interrupts;       /* the signal that interrupts a clerk; constant */
static pthread_key_t at_end; /* its destructor gives the desks of a thread back */

/* ---- at rank 0 ------------------------------------------------------------------------------- */

static void desk_free(struct desk *d)
{
	dsm_sem_destroy(&d->asked);
	dsm_sem_destroy(&d->done);
	dsm_free(d);
}

/* Only signals of this thread's own faults: others are for threads of the program. */
static void block_all(void)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGFPE);
	sigdelset(&set, SIGILL);
	sigdelset(&set, SIGABRT);
	sigdelset(&set, interrupts);
	NEXT(pthread_sigmask)(SIG_SETMASK, &set, NULL);
}

/* Take back the signal that a write to a closed pipe has raised here. */
static uint32_t take_pipe(void)
{
	const struct timespec now = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	return NEXT(sigtimedwait)(&set, NULL, &now) == SIGPIPE;
}

#define SEEN (_IO_EOF_SEEN | _IO_ERR_SEEN)

static int flags_at_owner(const FILE *f)
{
	const int flags = f->_flags & SEEN;

	if (flags)
		program.stream_note(f);
	return flags;
}

static void serve_one(struct desk *d)
{
	const long *w = d->word;

	errno = d->err;
	d->result = d->fn(w[0], w[1], w[2], w[3], w[4], w[5], w[6]);
	d->err = errno;
	d->piped = d->err == EPIPE && take_pipe();
	d->flags = d->stream ? flags_at_owner(d->stream) : 0;
	__atomic_store_n(&d->finished, 1, __ATOMIC_RELEASE);
	dsm_sem_post(&d->done, 1);
}

static void *clerk(void *arg)
{
	struct desk *d = arg;
	dsm_sem_t asked = d->asked;

	block_all();
	__atomic_store_n(&d->tid, gettid(), __ATOMIC_RELEASE);
	for (;;) {
		dsm_wait_label(DSM_WAIT_IDLE, NULL, 0);
		if (dsm_sem_wait(&asked) || !d->fn)
			break;
		dsm_wait_label(DSM_WAIT_NONE, NULL, 0);
		serve_one(d);
	}
	desk_free(d);
	return NULL;
}

/* A call of its own, for the thread that the clerk of the desk works for. */
static long interrupt_clerk(long desk)
{
	const struct desk *d = (const struct desk *)desk;
	const long arg[6] = { getpid(), __atomic_load_n(&d->tid, __ATOMIC_ACQUIRE), interrupts };

	return arg[1] ? raw_syscall(SYS_tgkill, arg) : 0;
}

static void no_handler(int sig)
{
	(void)sig;
}

int __libc_allocate_rtsig(int high);

/* SIGRTMAX is one less from now on, on all ranks. */
void owner_start(void)
{
	const struct sigaction sa = { .sa_handler = no_handler };

	interrupts = __libc_allocate_rtsig(0);
	if (interrupts < 0 || NEXT(sigaction)(interrupts, &sa, NULL))
		dsm_abort(70, "no signal is left for calls on files");
}

/* ---- at the other ranks ---------------------------------------------------------------------- */

static struct desk *desk_make(void)
{
	/* a signal that all threads of the program block must not find it open */
	const struct dsm_thread_options quiet = { .signals_blocked = 1 };
	struct desk *d = dsm_calloc(1, sizeof(*d));

	if (!d || dsm_sem_init(&d->asked, 0) || dsm_sem_init(&d->done, 0) ||
	    dsm_spawn(&d->clerk, 0, &quiet, clerk, d))
		dsm_abort(70, "no thread of rank 0 for calls on files (DSM_HEAP, ulimit -u)");
	return d;
}

static void desk_leave(struct desk *d)
{
	struct desk *none;
	unsigned int i;

	for (i = 0; i < IDLE; i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&idle[i], &none, d, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return;
	}
	d->fn = NULL;
	dsm_detach(d->clerk);
	dsm_sem_post(&d->asked, 1);
}

static struct desk *desk_take(void)
{
	struct desk *d;
	unsigned int i;

	for (i = 0; i < IDLE; i++) {
		d = __atomic_load_n(&idle[i], __ATOMIC_RELAXED)
			? __atomic_exchange_n(&idle[i], NULL, __ATOMIC_ACQUIRE)
			: NULL;
		if (d)
			return d;
	}
	return desk_make();
}

/* The thread ends. */
static void leave_all(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < DEEP; i++) {
		if (mine.desk[i])
			desk_leave(mine.desk[i]);
		mine.desk[i] = NULL;
	}
}

__attribute__((constructor)) static void owner_make_key(void)
{
	pthread_key_create(&at_end, leave_all);
}

static struct desk *desk_mine(int depth)
{
	if (!mine.desk[depth]) {
		mine.desk[depth] = desk_take();
		pthread_setspecific(at_end, &mine);
	}
	return mine.desk[depth];
}

/* The thread is cancelled while rank 0 works for it. */
static void desk_abandon(void *desk)
{
	struct desk *d = desk;

	mine.desk[--mine.depth] = NULL;
	mine.call[mine.depth].desk = NULL;
	dsm_cancel(d->clerk);
	while (dsm_join(d->clerk, NULL) == -EINTR)
		;
	desk_free(d);
}

/* The post that ends a sleep of this thread. */
static void wake_self(void *call)
{
	struct waited *w = call;

	w->posted = 1;
	dsm_sem_post(&w->desk->done, 1);
}

EXPORT void dsm_files_interrupt(bool restarts)
{
	struct waited *const w = &mine.call[mine.depth ? mine.depth - 1 : 0];
	int state;

	if (!w->desk || w->posted || (restarts && w->way != OWNER_POLLS))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	dsm_call(wake_self, w);
	pthread_setcancelstate(state, &state);
}

EXPORT void dsm_files_mask(const uint64_t *mask)
{
	mine.masked = mask;
	if (mask)
		mine.mask = *mask;
}

/* Exchange the mask of this thread. */
static void swap_mask(uint64_t *mask)
{
	const uint64_t set = *mask;
	const long arg[6] = { SIG_SETMASK, (long)&set, (long)mask, sizeof(set) };

	raw_syscall(SYS_rt_sigprocmask, arg);
}

/*
 * Wait for the clerk's post, and take the other one if a handler has made one: the next call would
 * take it for its own.
 */
static void desk_await(struct desk *d, enum owner_way way)
{
	struct waited *const w = &mine.call[mine.depth - 1];
	const long word[OWNER_WORDS] = { (long)d };
	const bool masked = way == OWNER_POLLS && mine.masked;
	uint64_t ns = FIRST_NS, mask = mine.mask;
	uint32_t taken = 0;

	mine.masked &= !masked; /* a handler may make such a call, too */
	*w = (struct waited){ .way = way };
	__atomic_store_n(&w->desk, d, __ATOMIC_RELAXED);
	if (masked)
		/* a handler of a signal that is pending ends the call, from here on */
		swap_mask(&mask);
	while (!__atomic_load_n(&d->finished, __ATOMIC_ACQUIRE)) {
		if (!__atomic_load_n(&w->posted, __ATOMIC_RELAXED)) {
			taken += !dsm_sem_wait(&d->done);
			continue;
		}
		if (mine.depth < DEEP)
			owner_call((void *)interrupt_clerk, word, OWNER_RUNS);
		taken += !dsm_sem_timedwait(&d->done, ns);
		ns = ns < LAST_NS / 2 ? 2 * ns : LAST_NS;
	}
	if (masked)
		swap_mask(&mask);
	__atomic_store_n(&w->desk, NULL, __ATOMIC_RELAXED);
	while (taken < 1 + __atomic_load_n(&w->posted, __ATOMIC_RELAXED))
		taken += !dsm_sem_wait(&d->done);
}

/* Another thread of this rank may do the same. */
static void keep_flags(FILE *f, int flags)
{
	const int before = __atomic_load_n(&f->_flags, __ATOMIC_RELAXED);

	if ((before & SEEN) != flags)
		__atomic_store_n(&f->_flags, (before & ~SEEN) | flags, __ATOMIC_RELAXED);
}

long owner_call(void *fn, const long word[OWNER_WORDS], enum owner_way way)
{
	return owner_call_on(fn, word, way, NULL);
}

long owner_call_on(void *fn, const long word[OWNER_WORDS], enum owner_way way, FILE *stream)
{
	struct desk *d;
	bool piped;
	long result;
	int state;

	if (mine.depth == DEEP)
		dsm_abort(
			70,
			"signal handlers that interrupt each other make calls on files, more than %d deep",
			DEEP);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	d = desk_mine(mine.depth++);
	d->fn = (files_fn *)fn;
	memcpy(d->word, word, sizeof(d->word));
	d->err = errno;
	d->finished = 0;
	d->stream = stream && program.stream_has(stream) ? stream : NULL;
	dsm_wait_label(DSM_WAIT_IDLE, NULL, 0);
	dsm_sem_post(&d->asked, 1);
	pthread_cleanup_push(desk_abandon, d);
	if (way != OWNER_RUNS)
		pthread_setcancelstate(state, NULL);
	desk_await(d, way);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	dsm_wait_label(DSM_WAIT_NONE, NULL, 0);
	result = d->result;
	piped = d->piped;
	if (d->stream)
		keep_flags(d->stream, d->flags);
	mine.depth--;
	errno = d->err;
	if (piped) {
		const int saved = errno;

		raise(SIGPIPE);
		errno = saved;
	}
	pthread_setcancelstate(state, NULL);
	return result;
}

struct words {
	void *fn;
	enum owner_way way;
	long word[OWNER_WORDS], result;
};

static void words_run(void *arg)
{
	struct words *out = arg, w = *out;

	out->result = owner_call(w.fn, w.word, w.way);
}

long owner_words(void *fn, long a, long b, long c, long d)
{
	struct words w = { fn, OWNER_RUNS, { a, b, c, d }, 0 };

	dsm_call(words_run, &w);
	return w.result;
}

long owner_wait(void *fn, long a, long b, long c, long d)
{
	struct words w = { fn, OWNER_WAITS, { a, b, c, d }, 0 };

	dsm_call(words_run, &w);
	return w.result;
}

EXPORT long dsm_files_call(void *fn, long a, long b, long c, long d)
{
	return is_abroad(NULL) ? owner_words(fn, a, b, c, d)
			       : ((files_fn *)fn)(a, b, c, d, 0, 0, 0);
}

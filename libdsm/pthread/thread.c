// SPDX-License-Identifier: BSD-2-Clause
/*
 * thread.c - threads of the program: on the ranks of the job, by dsm_spawn(). Their pthread_t is
 * the handle of libdsm.
 *
 * Cancellation state, pthread_testcancel() and the cancellation points are the C library's: a
 * thread of the program is a POSIX thread of its rank. Only the asynchronous type is not (async.c).
 * This file is compiled with -fexceptions, so its cleanup handlers are parts of the frames that are
 * unwound, and run on the thread's own stack, whatever stack the unwinding began on.
 */
#include "thread.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "async.h"
#include "callbacks.h"
#include "futex.h"
#include "masks.h"
#include "opened.h"
#include "opened_tls.h"
#include "statics.h"

#define ROUNDS 4 /* PTHREAD_DESTRUCTOR_ITERATIONS */
#define ROW 32u
#define STACK_MIN (64ul << 10) /* as in dsm_spawn() */

extern void *__libc_calloc(size_t n, size_t size);
extern void __libc_free(void *p);

/* ---- thread-specific data: keys are the same on all ranks, values are the thread's ----------- */

/*
 * Libraries have keys of their own, those of the C library; the program's keys have numbers above
 * those.
 */
#define KEY_BASE 0x10000u

/*
 * A value belongs to the key with this sequence number. After the key is deleted, no key finds it.
 */
struct value {
	uint64_t seq;
	void *at;
};

static __thread struct value first_row[ROW];
static __thread struct value *rows[KEYS / ROW]; /* of this thread; the first row is first_row */

static uint64_t seq_of(uint32_t i)
{
	return __atomic_load_n(&shim.keys[i].seq, __ATOMIC_ACQUIRE);
}

/* Odd: the key exists. */
static bool exists(uint64_t seq)
{
	return seq & 1;
}

static bool key_change(uint32_t i, uint64_t seq)
{
	return __atomic_compare_exchange_n(&shim.keys[i].seq, &seq, seq + 1, 0, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/* NULL: this thread has no row for the key, or there is no memory for one. */
static struct value *key_value(uint32_t i, bool make)
{
	struct value **row = &rows[i / ROW];

	if (i < ROW)
		return &first_row[i];
	if (!*row && make)
		*row = __libc_calloc(ROW, sizeof(**row));
	return *row ? *row + i % ROW : NULL;
}

EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	uint32_t i;

	if (!shim.active || !is_program(CALLER))
		return NEXT(pthread_key_create)(key, destructor);
	for (i = 0; i < KEYS; i++) {
		const uint64_t seq = seq_of(i);

		if (exists(seq) || !key_change(i, seq))
			continue;
		shim.keys[i].destructor = destructor;
		*key = KEY_BASE + i;
		return 0;
	}
	return EAGAIN;
}

EXPORT int pthread_key_delete(pthread_key_t key)
{
	const uint32_t i = key - KEY_BASE;
	uint64_t seq;

	if (key < KEY_BASE)
		return NEXT(pthread_key_delete)(key);
	if (i >= KEYS)
		return EINVAL;
	seq = seq_of(i);
	return exists(seq) && key_change(i, seq) ? 0 : EINVAL;
}

EXPORT void *pthread_getspecific(pthread_key_t key)
{
	const uint32_t i = key - KEY_BASE;
	const struct value *v;

	if (key < KEY_BASE)
		return NEXT(pthread_getspecific)(key);
	v = i < KEYS ? key_value(i, false) : NULL;
	return v && v->at && v->seq == seq_of(i) ? v->at : NULL;
}

EXPORT int pthread_setspecific(pthread_key_t key, const void *value)
{
	const uint32_t i = key - KEY_BASE;
	struct value *v;
	uint64_t seq;

	if (key < KEY_BASE)
		return NEXT(pthread_setspecific)(key, value);
	if (i >= KEYS)
		return EINVAL;
	seq = seq_of(i);
	if (!exists(seq))
		return EINVAL;
	v = key_value(i, value);
	if (!v)
		return value ? ENOMEM : 0;
	*v = (struct value){ seq, (void *)(uintptr_t)value };
	return 0;
}

/* Does the thread have a value for a key with a destructor? */
static bool destroy_value(struct value *v, uint32_t i)
{
	void *const at = v->at;
	void (*destructor)(void *);

	v->at = NULL;
	if (!at || v->seq != seq_of(i))
		return false;
	destructor = shim.keys[i].destructor;
	if (destructor)
		call_program((void *)destructor, (long)at, 0, 0);
	return destructor;
}

static void destroy_values(void)
{
	bool more = true;
	uint32_t i;
	int round;

	for (round = 0; round < ROUNDS && more; round++) {
		more = false;
		for (i = 0; i < KEYS; i++) {
			struct value *v = key_value(i, false);

			if (v)
				more |= destroy_value(v, i);
			else
				i |= ROW - 1; /* the next row */
		}
	}
	for (i = 0; i < KEYS / ROW; i++) {
		__libc_free(rows[i]);
		rows[i] = NULL;
	}
}

/* ---- objects of a thread (thread_local in C++) ----------------------------------------------- */

/*
 * The C library destroys them when the function of the thread has returned. That function is
 * libdsm's, and by then the thread counts as ended, and others may have joined it. So those of the
 * program's threads are destroyed here. The C library has them as well: until it is through, it
 * keeps the library in memory whose destructor it is.
 */
struct destruction {
	struct destruction *earlier;
	void (*fn)(void *); /* NULL: done */
	void *arg;
};

static __thread struct destruction *destructions;
static __thread bool destroyed; /* what is made from now on stays, as in the C library */

static void destroy(struct destruction *d)
{
	void (*fn)(void *) = d->fn;

	destructions = d->earlier;
	d->fn = NULL;
	if (fn)
		call_program((void *)fn, (long)d->arg, 0, 0);
}

/* By the C library, latest first. */
static void destroy_late(void *arg)
{
	struct destruction *d = arg;

	destroy(d);
	__libc_free(d);
}

static void destroy_objects(void)
{
	while (destructions)
		destroy(destructions); /* which may make others */
	destroyed = true;
}

int __cxa_thread_atexit_impl(void (*fn)(void *), void *arg, void *library);

EXPORT int __cxa_thread_atexit_impl(void (*fn)(void *), void *arg, void *library)
{
	struct destruction *d;

	if (!shim.active || !dsm_self().id)
		return NEXT(__cxa_thread_atexit_impl)(fn, arg, library);
	if (destroyed)
		return 0;
	d = __libc_calloc(1, sizeof(*d));
	if (!d)
		return -1;
	*d = (struct destruction){ destructions, fn, arg };
	if (NEXT(__cxa_thread_atexit_impl)(destroy_late, d, library)) {
		__libc_free(d);
		return -1;
	}
	destructions = d;
	return 0;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/*
 * Stack size that this rank's C library gives a thread. Attributes without a size return it, too.
 */
static struct {
	size_t stack, guard;
} known;

static void read_defaults(size_t *stack, size_t *guard)
{
	pthread_attr_t attr;

	if (NEXT(pthread_getattr_default_np)(&attr))
		return;
	pthread_attr_getstacksize(&attr, stack);
	pthread_attr_getguardsize(&attr, guard);
	pthread_attr_destroy(&attr);
}

/* Tell this rank's C library a setting made by a thread of any rank. */
static void follow_defaults(void)
{
	const size_t stack = team->stack_size, guard = team->guard_size;
	pthread_attr_t attr;

	if (stack == known.stack && guard == known.guard)
		return;
	if (NEXT(pthread_getattr_default_np)(&attr))
		return;
	pthread_attr_setstacksize(&attr, stack);
	pthread_attr_setguardsize(&attr, guard);
	NEXT(pthread_setattr_default_np)(&attr);
	pthread_attr_destroy(&attr);
	known.stack = stack;
	known.guard = guard;
}

void stacks_start(void)
{
	read_defaults(&known.stack, &known.guard);
	if (shim.rank == 0) {
		team->stack_size = known.stack;
		team->guard_size = known.guard;
	} else {
		follow_defaults();
	}
}

EXPORT int pthread_getattr_default_np(pthread_attr_t *attr)
{
	if (caller_is_ours(CALLER))
		follow_defaults();
	return NEXT(pthread_getattr_default_np)(attr);
}

/* Applies to all ranks; other attributes are not used. */
EXPORT int pthread_setattr_default_np(const pthread_attr_t *attr)
{
	int err;

	if (!caller_is_ours(CALLER))
		return NEXT(pthread_setattr_default_np)(attr);
	follow_defaults();
	err = NEXT(pthread_setattr_default_np)(attr);
	if (err)
		return err;
	read_defaults(&known.stack, &known.guard);
	team->stack_size = known.stack;
	team->guard_size = known.guard;
	return 0;
}

/*
 * It would be in memory of this rank's C library, but threads of all ranks may use the attributes.
 */
EXPORT int pthread_attr_setsigmask_np(pthread_attr_t *attr, const sigset_t *set)
{
	if (!caller_is_ours(CALLER))
		return NEXT(pthread_attr_setsigmask_np)(attr, set);
	return start_cannot("pthread_attr_setsigmask_np()"), ENOTSUP;
}

/*
 * NULL: the program has set none. Then the C library has no address, and a size of 0 or the
 * default.
 */
static void *given_stack(const pthread_attr_t *attr)
{
	size_t size;
	void *low;

	return pthread_attr_getstack(attr, &low, &size) || (uintptr_t)low + size == 0 ? NULL : low;
}

static int choose_stack(const pthread_attr_t *attr, struct dsm_thread_options *opt)
{
	int detached = PTHREAD_CREATE_JOINABLE;

	follow_defaults();
	opt->stack_size = known.stack;
	opt->guard_size = known.guard;
	if (attr) {
		pthread_attr_getdetachstate(attr, &detached);
		pthread_attr_getstacksize(attr, &opt->stack_size);
		pthread_attr_getguardsize(attr, &opt->guard_size);
		opt->stack = given_stack(attr);
	}
	if (!opt->guard_size)
		opt->guard_size = DSM_NO_GUARD;
	opt->detached = detached == PTHREAD_CREATE_DETACHED;
	if (opt->stack && opt->stack_size < STACK_MIN)
		return start_cannot("a stack of less than 64 KiB (pthread_attr_setstack())"),
		       EINVAL;
	if (opt->stack &&
	    !(is_shared(opt->stack) && is_shared((char *)opt->stack + opt->stack_size - 1)))
		return start_cannot(
			       "a thread on a stack of private memory (pthread_attr_setstack())"),
		       EINVAL;
	return 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The new thread's arguments: in shared memory, until the thread has read them. */
struct birth {
	void *(*fn)(void *);
	void *arg;
	uint64_t signals; /* signals to block, as its creator does */
};

static void *live(void *arg)
{
	struct birth b = *(struct birth *)arg;

	free(arg);
	masks_let_signals(b.signals);
	statics_follow();
	return (void *)call_program((void *)b.fn, (long)b.arg, 0, 0);
}

/* A process ends with its last thread. Rank 0 would not, because threads of the runtime remain. */
static void one_less(void)
{
	if (!__atomic_sub_fetch(&team->live, 1, __ATOMIC_SEQ_CST))
		last_ended();
}

/* Also runs in pthread_exit() and on cancellation, after the program's own handlers. */
static void ended(void *arg)
{
	int state;

	(void)arg;
	async_turn(false);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* what follows runs to its end */
	destroy_objects();
	destroy_values();
	block_signals();
	opened_tls_thread_ended();
	futex_thread_ended();
	one_less();
}

/* The function that dsm_spawn() runs. */
static void *thread_first(void *arg)
{
	void *result;

	pthread_cleanup_push(ended, NULL);
	result = live(arg);
	pthread_cleanup_pop(1);
	return result;
}

static bool main_left; /* by pthread_exit(), or was cancelled */

static void main_ended(void *arg)
{
	main_left = true;
	ended(arg);
}

void *run_as_main(void *(*fn)(void *), void *arg)
{
	void *result;

	pthread_cleanup_push(main_ended, NULL);
	result = fn(arg);
	pthread_cleanup_pop(0);
	return result;
}

bool main_has_left(void)
{
	return main_left;
}

struct spawning {
	struct dsm_thread_options opt;
	void *arg;
	dsm_thread_t made;
	int err;
};

static void spawn(void *arg)
{
	struct spawning *out = arg, s = *out;

	s.err = dsm_spawn(&s.made, -1, &s.opt, thread_first, s.arg);
	out->made = s.made;
	out->err = s.err;
}

int make_thread(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	struct spawning s = { .opt = { .shared_stack = 1, .signals_blocked = 1 } };
	int err = choose_stack(attr, &s.opt);
	struct birth *b;

	if (err)
		return err;
	opened_settle();
	b = shared_alloc(sizeof(*b));
	if (!b)
		return EAGAIN;
	*b = (struct birth){ fn, arg, blocked_signals() };
	statics_offer();
	s.arg = b;
	__atomic_fetch_add(&team->live, 1, __ATOMIC_SEQ_CST);
	dsm_call(spawn, &s);
	if (s.err) {
		__atomic_fetch_sub(&team->live, 1, __ATOMIC_SEQ_CST);
		free(b);
		return s.err == -ENOMEM ? EAGAIN : -s.err;
	}
	*t = s.made.id;
	return 0;
}

EXPORT int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	if (!caller_is_ours(CALLER)) {
		if (shim.active)
			thread_log_stays(CALLER);
		else
			libraries_note_thread(CALLER);
		return NEXT(pthread_create)(t, attr, fn, arg);
	}
	return make_thread(t, attr, fn, arg);
}

EXPORT pthread_t pthread_self(void)
{
	const uint64_t id = shim.active && is_program(CALLER) ? dsm_self().id : 0;

	return id ? id : NEXT(pthread_self)();
}

EXPORT void pthread_exit(void *result)
{
	static __thread bool leaves;

	if (shim.active && !leaves && dsm_self().id) {
		leaves = true; /* dsm_thread_exit() runs this function again */
		dsm_thread_exit(result);
	}
	NEXT(pthread_exit)(result);
	__builtin_unreachable();
}

EXPORT int pthread_setcanceltype(int type, int *old)
{
	int before;

	if (!shim.active || !is_program(CALLER))
		return NEXT(pthread_setcanceltype)(type, old);
	if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS)
		return EINVAL;
	before = async_is_on() ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
	if (type != before)
		async_turn(type == PTHREAD_CANCEL_ASYNCHRONOUS);
	if (old)
		*old = before;
	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		pthread_testcancel();
	return 0;
}

/* ---- what cannot be -------------------------------------------------------------------------- */

EXPORT pid_t fork(void)
{
	if (!shim.active || !is_program(CALLER))
		return NEXT(fork)();
	__atomic_store_n(&team->refused, 1, __ATOMIC_RELAXED);
	errno = start_cannot("fork() (posix_spawn(), system() and popen() do)");
	return -1;
}

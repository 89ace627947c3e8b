// SPDX-License-Identifier: BSD-2-Clause
/*
 * futex.c - futexes on words of shared memory. Programs call them by syscall(2). So does the C++
 * library, for promises, local static variables, atomic objects, latches, barriers and semaphores.
 *
 * In one node they are the kernel's, without FUTEX_PRIVATE_FLAG: threads of other ranks sleep on
 * the same word.
 *
 * Between nodes, sleepers are in lists in the shared heap, by a hash of the word's address, each
 * with a semaphore of its own. The word is compared under the lock of the list:
 *
 *   a sleeper                                a waker
 *                                            the word changes
 *   lock; the word is as it was?             lock; take sleepers off the list; unlock
 *   yes: go on the list; unlock; sleep       post their semaphores
 *   no: unlock
 *
 * Whichever has the lock first, the sleeper is on the list when the waker looks, or sees the new
 * value. A sleeper that gives up and is not on the list any more has been woken: it waits for the
 * post, which is in flight.
 *
 * A comparison that fails says that a word has changed. If memory has release consistency, it may
 * say so too early (see_changes()).
 *
 * Nothing in libdsm ends a sleep early. If a handler interrupts one, it ends the sleep as it
 * returns: it takes its own thread off the list, and posts the semaphore.
 *
 * All of it runs by dsm_call(), and with the program's signals blocked while the lock is held: a
 * handler may wake a futex, too.
 */
#include "futex.h"

#include "interpose/files.h"
#include "interpose/raw_syscall.h"
#include "masks.h"
#include "sync.h"
#include "util/sizes.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

extern void *__libc_calloc(size_t n, size_t size);

#define BUCKETS 64u

/*
 * In the shared heap. Owned by its thread, but the lock of the list protects `next`, and whether it
 * is queued. After taking it off the list, the waker owns `next` until it posts.
 */
struct waiter {
	struct waiter *next;
	const uint32_t *word;
	uint32_t bits, queued;
	dsm_sem_t sem;
};

/* Each in a page of its own. */
static struct bucket {
	struct waiter *first;
	char pad[PAGE_BYTES - sizeof(struct waiter *)];
} * buckets;
static dsm_mutex_t locks[BUCKETS]; /* handles, the same on all ranks */

/*
 * If memory has release consistency: one for each node, whose home is there. Same handles on all
 * ranks, in private memory.
 */
static dsm_atomic_t *nodes;

/* The sleeper that this thread uses. If it sleeps already, a signal handler needs another one. */
static __thread struct waiter *own __attribute__((tls_model("initial-exec")));

/* The innermost sleep of this thread: a handler may sleep, too. */
struct sleep {
	struct sleep *outer;
	struct waiter *w;
	const uint32_t *word;
	bool timed, interrupted;
};
static __thread struct sleep *asleep __attribute__((tls_model("initial-exec")));

struct job {
	enum { WAIT, WAKE, INTERRUPT, FORGET } what;
	uint32_t *word;
	uint32_t value; /* WAIT: the expected value; WAKE: the same, if it compares */
	uint32_t bits;
	bool timed, compares;
	uint64_t ns;  /* time limit */
	int64_t most; /* WAKE: number of sleepers to wake, at most */
	long result;
};

static unsigned int bucket_of(const uint32_t *word)
{
	return (unsigned int)(((uintptr_t)word >> 2) * 0x9e3779b97f4a7c15u >> 40) % BUCKETS;
}

/*
 * The handle is valid, and this thread does not have the lock, so the only possible error is that
 * too many threads wait.
 */
static uint64_t futex_enter(const uint32_t *word)
{
	const uint64_t signals = block_signals();

	while (dsm_mutex_lock(&locks[bucket_of(word)]))
		raw_pause(1000000);
	return signals;
}

static void futex_leave(const uint32_t *word, uint64_t signals)
{
	dsm_mutex_unlock(&locks[bucket_of(word)]);
	masks_let_signals(signals);
}

static struct waiter **futex_list(const uint32_t *word)
{
	return &buckets[bucket_of(word)].first;
}

static struct waiter *make_waiter(void)
{
	struct waiter *w = dsm_calloc(1, sizeof(*w));

	if (w && dsm_sem_init(&w->sem, 0)) {
		dsm_free(w);
		w = NULL;
	}
	return w;
}

static void unmake_waiter(struct waiter *w)
{
	dsm_sem_t sem;

	if (!w)
		return;
	sem = w->sem;
	dsm_sem_destroy(&sem);
	dsm_free(w);
}

static struct waiter *take_waiter(void)
{
	struct waiter *w = __atomic_exchange_n(&own, NULL, __ATOMIC_RELAXED);

	return w ? w : make_waiter();
}

static void give_waiter(struct waiter *w)
{
	unmake_waiter(__atomic_exchange_n(&own, w, __ATOMIC_RELAXED));
}

/* Go on the list if the word has the expected value. -EAGAIN: it has not. */
static int futex_queue(struct waiter *w, const struct job *j)
{
	const uint64_t signals = futex_enter(j->word);
	const bool same = __atomic_load_n(j->word, __ATOMIC_SEQ_CST) == j->value;
	struct waiter **at;

	if (same) {
		for (at = futex_list(j->word); *at; at = &(*at)->next)
			;
		*w = (struct waiter){
			.word = j->word, .bits = j->bits, .queued = 1, .sem = w->sem
		};
		*at = w;
	}
	futex_leave(j->word, signals);
	return same ? 0 : -EAGAIN;
}

/* Leave the list. False: it was not on the list; a waker may have taken it off. */
static bool unqueue(struct waiter *w, const uint32_t *word)
{
	const uint64_t signals = futex_enter(word);
	const bool queued = w->queued;
	struct waiter **at;

	if (queued) {
		for (at = futex_list(word); *at != w; at = &(*at)->next)
			;
		*at = w->next;
		w->queued = 0;
	}
	futex_leave(word, signals);
	return queued;
}

static int sleep_queued(struct waiter *w, const struct job *j)
{
	dsm_sem_t sem = w->sem;
	int err;

	dsm_wait_label(DSM_WAIT_FUTEX, j->word, 0);
	err = j->timed ? dsm_sem_timedwait(&sem, j->ns) : dsm_sem_wait(&sem);
	dsm_wait_label(DSM_WAIT_NONE, NULL, 0);
	if (!err || unqueue(w, j->word))
		return err;
	while (dsm_sem_wait(&sem) == -EINTR)
		;
	return 0;
}

/* Without memory for a sleeper, return as if woken: callers check the word again. */
static int futex_wait_sem(const struct job *j)
{
	struct waiter *w = take_waiter();
	struct sleep s = { .outer = asleep, .w = w, .word = j->word, .timed = j->timed };
	int err;

	if (!w) {
		raw_pause(1000000);
		return 0;
	}
	__atomic_store_n(&asleep, &s, __ATOMIC_RELAXED);
	err = futex_queue(w, j);
	if (!err)
		err = sleep_queued(w, j);
	__atomic_store_n(&asleep, s.outer, __ATOMIC_RELAXED);
	give_waiter(w);
	return err || !__atomic_load_n(&s.interrupted, __ATOMIC_RELAXED) ? err : -EINTR;
}

/* Called in a handler: the interrupted sleep ends with the handler. */
static void interrupt(void)
{
	struct sleep *s = asleep;
	dsm_sem_t sem;

	if (!unqueue(s->w, s->word))
		return;
	s->interrupted = true;
	sem = s->w->sem;
	dsm_sem_post(&sem, 1);
}

/* Take the sleepers to wake off the list, and put them on one of the waker's own. */
static long unqueue_some(const struct job *j, struct waiter **out)
{
	struct waiter **at = futex_list(j->word), *w;
	long n = 0;

	*out = NULL;
	while ((w = *at) && n < j->most) {
		if (w->word != j->word || !(w->bits & j->bits)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->queued = 0;
		w->next = NULL;
		*out = w;
		out = &w->next;
		n++;
	}
	return n;
}

static long futex_wake_sem(const struct job *j)
{
	const uint64_t signals = futex_enter(j->word);
	const bool goes_on = !j->compares || __atomic_load_n(j->word, __ATOMIC_SEQ_CST) == j->value;
	struct waiter *w = NULL, *next;
	long n = goes_on ? unqueue_some(j, &w) : -EAGAIN;

	futex_leave(j->word, signals);
	for (; w; w = next) {
		dsm_sem_t sem = w->sem;

		next = w->next;
		dsm_sem_post(&sem, 1);
	}
	return n;
}

/*
 * A comparison has failed. The lock of the list passes on what the waker stored before it had the
 * lock, but the changed word may be here earlier than that:
 *
 *   the waker, on another node               this thread
 *   stores data
 *                                            takes the lock, which that node had kept; its close
 *                                            has compared the block of the data before the store
 *   changes the word, which the same close
 *   compares afterwards
 *                                            the word is not as it was
 *   wakes
 *
 * A fetch of the block of the word from its home has the same effect. So a load of an object at
 * each other node makes that node close again before it answers. The word was there then, and the
 * data too; the answer acquires. Threads of this node need no release. No lock is held.
 */
static void see_changes(void)
{
	const int n = nodes ? dsm_nodes() : 0;
	int i;

	for (i = 0; i < n; i++) {
		dsm_atomic_t node = nodes[i];

		if (i != dsm_node())
			dsm_atomic_load(&node, NULL);
	}
}

static void futex_run(void *arg)
{
	struct job *out = arg, j = *out;

	switch (j.what) {
	case WAIT: j.result = futex_wait_sem(&j); break;
	case WAKE: j.result = futex_wake_sem(&j); break;
	case INTERRUPT: interrupt(); break;
	case FORGET: unmake_waiter(__atomic_exchange_n(&own, NULL, __ATOMIC_RELAXED)); break;
	}
	if (j.result == -EAGAIN)
		see_changes();
	out->result = j.result;
}

/* syscall(2) is no cancellation point. */
static long futex_go(struct job *j)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	dsm_call(futex_run, j);
	pthread_setcancelstate(state, &state);
	return j->result;
}

void futex_thread_ended(void)
{
	struct job j = { .what = FORGET };

	if (own)
		futex_go(&j);
}

void futex_interrupt(bool restarts)
{
	struct job j = { .what = INTERRUPT };
	const int saved = errno;

	if (asleep && (asleep->timed || !restarts))
		futex_go(&j);
	errno = saved;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* The arguments as programs pass them. */
struct request {
	uint32_t *word;
	int op; /* without flags */
	bool real_time;
	uint32_t value, value3;
	long fourth; /* a time, or a number */
};

static long sleep_until(const struct request *r, uint32_t bits)
{
	struct job j = { .what = WAIT, .word = r->word, .value = r->value, .bits = bits };
	const clockid_t clock = r->real_time ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	const struct timespec *limit = (const struct timespec *)r->fourth;

	if (!bits || (limit && (!is_time(limit) || limit->tv_sec < 0)))
		return -EINVAL;
	j.timed = limit;
	if (limit)
		j.ns = r->op == FUTEX_WAIT ? time_of(limit) : time_left(clock, limit);
	return futex_go(&j);
}

static long wake_most(const struct request *r, int64_t most, bool compares, uint32_t bits)
{
	struct job j = { .what = WAKE,
			 .word = r->word,
			 .value = r->value3,
			 .bits = bits,
			 .compares = compares,
			 .most = most };

	return bits ? futex_go(&j) : -EINVAL;
}

/* The kernel also wakes one if fewer are asked for. */
static long wake_some(const struct request *r, uint32_t bits)
{
	return wake_most(r, (int)r->value > 1 ? (int)r->value : 1, false, bits);
}

/* Sleepers that would move to the other word are woken instead, and check this one again. */
static long requeue(const struct request *r, bool compares)
{
	const int wakes = (int)r->value, moves = (int)r->fourth;

	return wakes < 0 || moves < 0 ? -EINVAL
				      : wake_most(r, (int64_t)wakes + moves, compares, UINT32_MAX);
}

static long between_nodes(const struct request *r)
{
	if ((uintptr_t)r->word % sizeof(*r->word))
		return -EINVAL;
	switch (r->op) {
	case FUTEX_WAIT: return sleep_until(r, UINT32_MAX);
	case FUTEX_WAIT_BITSET: return sleep_until(r, r->value3);
	case FUTEX_WAKE: return wake_some(r, UINT32_MAX);
	case FUTEX_WAKE_BITSET: return wake_some(r, r->value3);
	case FUTEX_REQUEUE: return requeue(r, false);
	case FUTEX_CMP_REQUEUE: return requeue(r, true);
	case FUTEX_WAKE_OP: return -start_cannot("FUTEX_WAKE_OP between nodes");
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
	case FUTEX_TRYLOCK_PI:
	case FUTEX_UNLOCK_PI:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_CMP_REQUEUE_PI:
		return -start_cannot("a futex with priority inheritance between nodes");
	default: return -ENOSYS;
	}
}

/* A sleep without a limit may be part of a deadlock. */
static long in_node(const struct request *r, const long *arg)
{
	const bool sleeps = r->op == FUTEX_WAIT || r->op == FUTEX_WAIT_BITSET;
	const int note = sleeps && !r->fourth ? dsm_wait_begin(DSM_WAIT_FUTEX, r->word, 0) : -1;
	const long shared[6] = { arg[0], arg[1] & ~FUTEX_PRIVATE_FLAG, arg[2], arg[3], arg[4],
				 arg[5] };
	const long result = raw_syscall(SYS_futex, shared);

	dsm_wait_end(note);
	return result;
}

static long futex(const long *arg)
{
	const struct request r = { .word = (uint32_t *)arg[0],
				   .op = (int)arg[1] & FUTEX_CMD_MASK,
				   .real_time = arg[1] & FUTEX_CLOCK_REALTIME,
				   .value = (uint32_t)arg[2],
				   .value3 = (uint32_t)arg[5],
				   .fourth = arg[3] };
	const int saved = errno;
	long result;

	if (shim.one_node)
		return in_node(&r, arg);
	result = between_nodes(&r);
	errno = result < 0 ? (int)-result : saved;
	return result < 0 ? -1 : result;
}

static bool has_shared(const struct futex_waitv *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && i < FUTEX_WAITV_MAX; i++)
		if (is_shared((const void *)(uintptr_t)v[i].uaddr))
			return true;
	return false;
}

/*
 * The function of libdsm-syscall.so, or of the C library. Looked up before the process is one of
 * several: libdsm may call where dlsym(3) must not be called.
 */
static long go_on(long n, const long *arg)
{
	return NEXT(syscall)(n, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

EXPORT long wrap_syscall(long n, long a, long b, long c, long d, long e, long f) __asm__("syscall");
EXPORT long wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	const long arg[6] = { a, b, c, d, e, f };

	if (!shim.active || (dsm_files_is_runtime && dsm_files_is_runtime(CALLER)))
		return raw_syscall(n, arg);
	if (n == SYS_getpid && is_program(CALLER))
		return getpid();
	if (n == SYS_rt_sigprocmask && is_program(CALLER))
		return mask_by_number(arg);
	if (n == SYS_chdir && is_program(CALLER))
		return chdir((const char *)a);
	if (n == SYS_fchdir && is_program(CALLER))
		return fchdir((int)a);
	local_note_number(n, arg, CALLER);
	if (n == SYS_futex && is_shared((const void *)a))
		return futex(arg);
	if (n == SYS_futex_waitv && has_shared((const struct futex_waitv *)a, (uint32_t)b)) {
		errno = start_cannot("futex_waitv()");
		return -1;
	}
	return PASS_ON(go_on(n, arg));
}

/* Collective. */
static int make_nodes(void)
{
	const size_t n = (size_t)dsm_nodes();
	int err = 0, r;

	nodes = __libc_calloc(n, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	for (r = 0; r < shim.size && !shim.rank && !err; r++)
		if (!nodes[dsm_node_of(r)].id)
			err = dsm_atomic_init(&nodes[dsm_node_of(r)], 0, r);
	return err ? err : dsm_broadcast(nodes, n * sizeof(*nodes), 0);
}

int futex_start(void)
{
	const long none[6] = { 0 };
	unsigned int i;
	int err = 0;

	go_on(SYS_getpid, none);
	if (shim.one_node)
		return 0;
	if (shim.rank == 0) {
		buckets = dsm_aligned_alloc(sizeof(*buckets), BUCKETS * sizeof(*buckets));
		if (!buckets)
			return -ENOMEM;
		for (i = 0; i < BUCKETS && !err; i++) {
			buckets[i].first = NULL;
			err = dsm_mutex_init(&locks[i]);
		}
		if (err)
			return err;
	}
	err = dsm_broadcast(&buckets, sizeof(buckets), 0);
	if (!err)
		err = dsm_broadcast(locks, sizeof(locks), 0);
	return err || !shim.weak ? err : make_nodes();
}

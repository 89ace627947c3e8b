// SPDX-License-Identifier: BSD-2-Clause
/*
 * atomics.c - the functions that compilers call for atomic operations (libatomic's): dsm-cc has
 * them call for all.
 *
 * In memory that is coherent, an operation on 1, 2, 4, 8 or 16 aligned bytes is one instruction, as
 * in libatomic: it is atomic with instructions of the program's own, and between processes. In
 * memory with release consistency between nodes, it is done under a lock, one of several by the
 * address of the object. So operations on an object are one after another. Each sees what the last
 * one has stored, and all that happened before that. To libdsm, a program whose threads synchronise
 * by them is one whose threads synchronise by mutexes: it sees sequential consistency, whatever
 * order it asks for.
 *
 * Objects that several nodes load again and again would have their lock go to and fro. So a lock
 * is *shared* once a rank had to wait for it for several loads, one after another, between which
 * it stored nothing: all then take a reader-writer lock instead, of which each node gets a lease
 * (core/lease.h): loads send no message, and do not even lock. When a rank has stored several
 * times, one after another, and has loaded little between, the lock is no longer shared. Both
 * changes are made by one who has both locks, so that what was stored under one of them is seen
 * under the other.
 *
 * Operations on other sizes take a lock in every job: that of libatomic would be of one rank. So do
 * those on 16 bytes if the processor has no instruction for them.
 *
 * A handler of a signal may call them. On top of a thread that has the lock, or is next in line for
 * it, it would wait for ever. So handlers of the program wait until the lock has been given back.
 * Blocking all signals would take longer than all the rest.
 */
#include "atomics.h"

#include <fenv.h>
#include <signal.h>
#include <string.h>
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "masks.h"
#include "parts.h"

#define LOCKS 256u
#define GRANULE 16u /* bytes: objects of the processor's sizes do not share more than one */

#define NODES_LEASED 64   /* more nodes get no leases */
#define FEW_LOADS 32u     /* a lock is shared after so many that waited */
#define UNSHARED_AFTER 8u /* stores, each after fewer loads; twice as many after each end */
#define ENDS_COUNTED 6u
#define WAITED 8000u /* cycles: the lock was at another node */

/* The same on all ranks. */
static struct {
	dsm_mutex_t mutex[LOCKS];
	dsm_rwlock_t rwlock[LOCKS];
	uint32_t *turns; /* by lock, in coherent memory; odd while it is shared */
} locks;

/* What this rank has done. Approximate: its threads do not wait for each other here. */
static struct {
	uint8_t waited; /* loads that waited for the mutex, since it has stored */
	uint8_t loads;  /* since it has stored, if the lock is shared */
	uint8_t ends;   /* times that it has ended the sharing */
	uint16_t vain;  /* stores, one after another, with few loads before */
} uses[LOCKS];

static uint32_t own_lock;       /* of memory of this process; its holder has signals blocked */
static bool incoherent, shares; /* constant once the job has started */

/* Of this thread. */
static __thread struct {
	uint32_t depth; /* it takes, or has, a lock */
	uint64_t kept;  /* signals that arrived meanwhile, and are blocked */
} section __attribute__((tls_model("initial-exec")));

static __thread bool forks __attribute__((tls_model("initial-exec"))); /* has own_lock for fork() */

enum op { O_LOAD, O_STORE, O_EXCHANGE, O_COMPARE, O_ADD, O_SUB, O_AND, O_OR, O_XOR, O_NAND };

struct job {
	enum op op;
	void *at;
	size_t size;
	uint64_t value, expected;
	uint64_t before; /* the result: what was there */
	/* of other sizes: where value and expected are, and where the result goes */
	const void *from;
	void *to;
	bool same; /* O_COMPARE of these: it was as expected */
};

static int make_locks(void)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < LOCKS && !err; i++) {
		err = dsm_mutex_init(&locks.mutex[i]);
		if (!err && shares)
			err = dsm_rwlock_init(&locks.rwlock[i]);
	}
	locks.turns = err ? NULL : dsm_malloc(LOCKS * sizeof(locks.turns[0]));
	if (!locks.turns)
		return err ? err : -ENOMEM;
	memset(locks.turns, 0, LOCKS * sizeof(locks.turns[0]));
	return 0;
}

int atomics_start(void)
{
	int err;

	incoherent = shim.weak && !shim.one_node;
	shares = incoherent && dsm_nodes() <= NODES_LEASED;
	err = shim.rank ? 0 : make_locks();
	if (!err)
		err = dsm_broadcast(&locks, sizeof(locks), 0);
	return err;
}

/* Do stores of other nodes come here only by synchronisation? */
static inline bool is_apart(const volatile void *at)
{
	return incoherent && is_shared((const void *)(uintptr_t)at);
}

/* ---- by the processor ------------------------------------------------------------------------ */

/*
 * A comparison that fails writes nothing: it may be of constant memory. It returns what it has
 * loaded. By now, somebody may have stored what was expected, which would pass for success.
 */
#define PERFORM(BITS)                                                                            \
	static uint64_t perform_##BITS(const struct job *j)                                      \
	{                                                                                        \
		uint##BITS##_t *at = j->at, value = (uint##BITS##_t)j->value, before;            \
                                                                                                 \
		switch (j->op) {                                                                 \
		case O_LOAD: break;                                                              \
		case O_STORE: __atomic_store_n(at, value, __ATOMIC_SEQ_CST); return 0;           \
		case O_EXCHANGE: return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);        \
		case O_COMPARE:                                                                  \
			before = __atomic_load_n(at, __ATOMIC_SEQ_CST);                          \
			if (before == (uint##BITS##_t)j->expected)                               \
				__atomic_compare_exchange_n(at, &before, value, false,           \
							    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
			return before;                                                           \
		case O_ADD: return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);              \
		case O_SUB: return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);              \
		case O_AND: return __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST);              \
		case O_OR: return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST);                \
		case O_XOR: return __atomic_fetch_xor(at, value, __ATOMIC_SEQ_CST);              \
		case O_NAND: return __atomic_fetch_nand(at, value, __ATOMIC_SEQ_CST);            \
		}                                                                                \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                    \
	}

PERFORM(8)
PERFORM(16)
PERFORM(32)
PERFORM(64)

/* Of 16 bytes. */
typedef unsigned __int128 wide;

static bool is_wide(size_t size, const void *at)
{
	return size == sizeof(wide) && !((uintptr_t)at % sizeof(wide)) &&
		features_has(x86_cpu_CMPXCHG16B);
}

/* GCC would call libatomic's functions, and so these here. */
static bool wide_compare(wide *at, wide *expected, wide value)
{
	uint64_t low = (uint64_t)*expected, high = (uint64_t)(*expected >> 64);
	bool same;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(same), "+m"(*at), "+a"(low), "+d"(high)
			 : "b"((uint64_t)value), "c"((uint64_t)(value >> 64))
			 : "memory");
	*expected = (wide)high << 64 | low;
	return same;
}

/*
 * Processors with AVX load 16 aligned bytes at once, and without a store, which constant memory
 * would not let be made.
 */
static wide wide_load(wide *at)
{
	typedef uint64_t pair __attribute__((vector_size(16)));
	wide found = 0;
	pair loaded;

	if (!features_has(x86_cpu_AVX)) {
		wide_compare(at, &found, 0);
		return found;
	}
	__asm__ volatile("movdqa %1, %0" : "=x"(loaded) : "m"(*at) : "memory");
	return (wide)loaded[1] << 64 | loaded[0];
}

/* As above. */
static bool wide_compare_loaded(wide *at, wide *expected, wide value)
{
	const wide loaded = wide_load(at);

	if (loaded == *expected)
		return wide_compare(at, expected, value);
	*expected = loaded;
	return false;
}

static void perform_wide(struct job *j)
{
	wide value = 0, before = 0;

	j->same = true;
	if (j->from)
		memcpy(&value, j->from, sizeof(value));
	if (j->op == O_COMPARE) {
		memcpy(&before, j->to, sizeof(before));
		j->same = wide_compare_loaded(j->at, &before, value);
	} else if (j->op == O_LOAD) {
		before = wide_load(j->at);
	} else {
		while (!wide_compare(j->at, &before, value))
			;
	}
	if (j->to && (j->op != O_COMPARE || !j->same))
		memcpy(j->to, &before, sizeof(before));
}

/* Of any other size, by the holder of its lock. */
static void perform_bytes(struct job *j)
{
	char found[64];
	size_t done, n;

	j->same = j->op != O_COMPARE || !memcmp(j->at, j->to, j->size);
	/* in pieces: value and result may be the same memory */
	for (done = 0; done < j->size; done += n) {
		n = j->size - done < sizeof(found) ? j->size - done : sizeof(found);
		memcpy(found, (char *)j->at + done, n);
		if (j->from && j->same)
			memcpy((char *)j->at + done, (const char *)j->from + done, n);
		if (j->to && (j->op != O_COMPARE || !j->same))
			memcpy((char *)j->to + done, found, n);
	}
}

static void perform(struct job *j)
{
	if ((j->from || j->to) && is_wide(j->size, j->at))
		perform_wide(j);
	else if (j->from || j->to)
		perform_bytes(j);
	else
		j->before = j->size == 1 ? perform_8(j)
			: j->size == 2   ? perform_16(j)
			: j->size == 4   ? perform_32(j)
					 : perform_64(j);
}

/* ---- by the holder of a lock ----------------------------------------------------------------- */

static unsigned int lock_of(const void *at)
{
	return ((uintptr_t)at / GRANULE * 0x9e3779b97f4a7c15u >> 40) % LOCKS;
}

bool atomics_keep_signal(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	const int saved = errno;
	bool kept;

	if (!section.depth)
		return false;
	masks_close(signal_bit(sig)); /* SA_NODEFER */
	kept = !syscall(SYS_rt_tgsigqueueinfo, shim.pid, gettid(), sig, info);
	if (kept) {
		sigaddset(&u->uc_sigmask, sig);
		section.kept |= signal_bit(sig);
	}
	errno = saved;
	return kept;
}

static void section_leave(void)
{
	uint64_t kept;

	section.depth--;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(!section.kept || section.depth, 1))
		return;
	kept = section.kept;
	section.kept = 0;
	masks_open(kept);
}

/*
 * The handle is valid. -EAGAIN: too many threads wait. No atomic operation is a cancellation point.
 */
static void wait_for_room(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	usleep(1000);
	pthread_setcancelstate(state, &state);
}

static int rwlock_take(dsm_rwlock_t *l, bool write)
{
	int err;

	while ((err = write ? dsm_rwlock_wrlock(l) : dsm_rwlock_rdlock(l)) == -EAGAIN)
		wait_for_room();
	return err;
}

static int mutex_take(dsm_mutex_t *m)
{
	int err;

	while ((err = dsm_mutex_lock(m)) == -EAGAIN)
		wait_for_room();
	return err;
}

static uint32_t turn_of(unsigned int i)
{
	return __atomic_load_n(&locks.turns[i], __ATOMIC_RELAXED);
}

static bool is_lock_shared(unsigned int i)
{
	return turn_of(i) % 2;
}

/* Both locks are held. */
static void turn(unsigned int i)
{
	uses[i].waited = uses[i].loads = uses[i].vain = 0;
	__atomic_store_n(&locks.turns[i], turn_of(i) + 1, __ATOMIC_RELAXED);
}

/* The mutex is held, so nobody else shares it. */
static void begin_sharing(unsigned int i)
{
	dsm_rwlock_t lock = locks.rwlock[i];

	if (rwlock_take(&lock, true))
		return;
	turn(i);
	dsm_rwlock_unlock(&lock);
}

/* Held for writing, and shared: who has the mutex waits for neither lock. */
static void end_sharing(unsigned int i)
{
	dsm_mutex_t mutex = locks.mutex[i];

	if (mutex_take(&mutex))
		return;
	uses[i].ends += uses[i].ends < ENDS_COUNTED;
	turn(i);
	dsm_mutex_unlock(&mutex);
}

/*
 * False: it is not shared. Errors: this is the handler of a fault, on top of a thread that has the
 * lock, and whose operation is one instruction; or the job ends, and nobody else does anything.
 */
static bool run_shared(struct job *j, unsigned int i)
{
	dsm_rwlock_t lock = locks.rwlock[i];
	const bool load = j->op == O_LOAD;
	const int err = rwlock_take(&lock, !load);
	const bool shared = is_lock_shared(i);

	if (shared)
		perform(j);
	if (shared && !load) {
		uses[i].vain = uses[i].loads < FEW_LOADS ? (uint16_t)(uses[i].vain + 1) : 0;
		uses[i].loads = 0;
		if (!err && uses[i].vain >= UNSHARED_AFTER << uses[i].ends)
			end_sharing(i);
	}
	if (!err)
		dsm_rwlock_unlock(&lock);
	return shared;
}

/* A comparison without a lease is a load first: it may fail. */
static bool compare_shared(struct job *j, unsigned int i)
{
	struct job load = *j;

	load.op = O_LOAD;
	if (j->op != O_COMPARE || j->from || dsm_rwlock_leased(&locks.rwlock[i]) > 0)
		return run_shared(j, i);
	if (!run_shared(&load, i))
		return false;
	j->before = load.before;
	return load.before != j->expected || run_shared(j, i);
}

/* The same for the mutex. False: it is shared. */
static bool run_alone(struct job *j, unsigned int i)
{
	dsm_mutex_t mutex = locks.mutex[i];
	const uint64_t start = __builtin_ia32_rdtsc();
	const int err = mutex_take(&mutex);
	const bool waited = __builtin_ia32_rdtsc() - start > WAITED, load = j->op == O_LOAD;
	const bool alone = !is_lock_shared(i);

	if (alone) {
		perform(j);
		uses[i].waited = load ? (uint8_t)(uses[i].waited + waited) : 0;
		if (shares && !err && uses[i].waited >= FEW_LOADS)
			begin_sharing(i);
	}
	if (!err)
		dsm_mutex_unlock(&mutex);
	return alone;
}

static void atomics_run(void *arg)
{
	struct job *out = arg, j = *out;
	const unsigned int i = lock_of(j.at);

	section.depth++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	while (!(is_lock_shared(i) ? compare_shared(&j, i) : run_alone(&j, i)))
		;
	section_leave();
	out->before = j.before;
	out->same = j.same;
}

/*
 * Load without a lock. The node had the lease from before to after, so nobody has stored. Nor has
 * anybody ended the sharing before: it might have got a lease all the same.
 */
static bool load_leased(struct job *j)
{
	const unsigned int i = lock_of(j->at);
	const uint32_t now = turn_of(i);
	int lease;

	if (now % 2 == 0)
		return false;
	lease = dsm_rwlock_leased(&locks.rwlock[i]);
	if (lease <= 0)
		return false;
	perform(j);
	if (dsm_rwlock_leased(&locks.rwlock[i]) != lease || turn_of(i) != now)
		return false;
	if (uses[i].loads < FEW_LOADS)
		uses[i].loads++;
	return true;
}

static void by_lock(struct job *j)
{
	dsm_call(atomics_run, j);
}

/* Was it done by a load alone? */
static bool is_known(struct job *j)
{
	struct job load = *j;

	load.op = O_LOAD;
	if ((j->op != O_LOAD && j->op != O_COMPARE) || !load_leased(&load) ||
	    (j->op == O_COMPARE && load.before == j->expected))
		return false;
	j->before = load.before;
	return true;
}

static __attribute__((noinline)) uint64_t ask(enum op op, const volatile void *at, size_t size,
					      uint64_t value, uint64_t expected)
{
	struct job j = { .op = op,
			 .at = (void *)(uintptr_t)at,
			 .size = size,
			 .value = value,
			 .expected = expected };

	if (!is_apart(at))
		perform(&j);
	else if (!is_known(&j))
		by_lock(&j);
	return j.before;
}

bool atomics_are_calls(const void *at)
{
	return is_apart(at);
}

/* ---- the functions --------------------------------------------------------------------------- */

#define NAMED(NAME, N) __asm__("__atomic_" #NAME "_" #N)

#define FETCH(NAME, OP, N, T)                                                       \
	EXPORT T atomics_##NAME##_##N(T *at, T value, int order) NAMED(NAME, N);    \
	EXPORT T atomics_##NAME##_##N(T *at, T value, int order)                    \
	{                                                                           \
		(void)order;                                                        \
		return is_apart(at) ? (T)ask(OP, at, N, value, 0)                   \
				    : __atomic_##NAME(at, value, __ATOMIC_SEQ_CST); \
	}

#define SIZED(N, T)                                                                             \
	EXPORT T atomics_load_##N(const T *at, int order) NAMED(load, N);                       \
	EXPORT T atomics_load_##N(const T *at, int order)                                       \
	{                                                                                       \
		(void)order;                                                                    \
		return is_apart(at) ? (T)ask(O_LOAD, at, N, 0, 0)                               \
				    : __atomic_load_n(at, __ATOMIC_SEQ_CST);                    \
	}                                                                                       \
                                                                                                \
	EXPORT void atomics_store_##N(T *at, T value, int order) NAMED(store, N);               \
	EXPORT void atomics_store_##N(T *at, T value, int order)                                \
	{                                                                                       \
		if (is_apart(at))                                                               \
			ask(O_STORE, at, N, value, 0);                                          \
		else if (order == __ATOMIC_SEQ_CST)                                             \
			__atomic_store_n(at, value, __ATOMIC_SEQ_CST);                          \
		else                                                                            \
			__atomic_store_n(at, value, __ATOMIC_RELEASE);                          \
	}                                                                                       \
                                                                                                \
	EXPORT T atomics_exchange_##N(T *at, T value, int order) NAMED(exchange, N);            \
	EXPORT T atomics_exchange_##N(T *at, T value, int order)                                \
	{                                                                                       \
		(void)order;                                                                    \
		return is_apart(at) ? (T)ask(O_EXCHANGE, at, N, value, 0)                       \
				    : __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);         \
	}                                                                                       \
                                                                                                \
	EXPORT bool atomics_compare_##N(T *at, T *expected, T value, int then, int otherwise)   \
		NAMED(compare_exchange, N);                                                     \
	EXPORT bool atomics_compare_##N(T *at, T *expected, T value, int then, int otherwise)   \
	{                                                                                       \
		T before, want;                                                                 \
                                                                                                \
		(void)then;                                                                     \
		(void)otherwise;                                                                \
		if (!is_apart(at))                                                              \
			return __atomic_compare_exchange_n(at, expected, value, false,          \
							   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
		/* once it has succeeded, *expected may be somebody else's */                   \
		want = *expected;                                                               \
		before = (T)ask(O_COMPARE, at, N, value, want);                                 \
		if (before == want)                                                             \
			return true;                                                            \
		*expected = before;                                                             \
		return false;                                                                   \
	}                                                                                       \
                                                                                                \
	FETCH(fetch_add, O_ADD, N, T)                                                           \
	FETCH(fetch_sub, O_SUB, N, T)                                                           \
	FETCH(fetch_and, O_AND, N, T)                                                           \
	FETCH(fetch_or, O_OR, N, T)                                                             \
	FETCH(fetch_xor, O_XOR, N, T)                                                           \
	FETCH(fetch_nand, O_NAND, N, T)

SIZED(1, uint8_t)
SIZED(2, uint16_t)
SIZED(4, uint32_t)
SIZED(8, uint64_t)

/* ---- of other sizes -------------------------------------------------------------------------- */

static bool is_free(size_t size, const void *at)
{
	return (size == 1 || size == 2 || size == 4 || size == 8) && !((uintptr_t)at % size);
}

/* Memory of this rank, or before the job. */
static void by_own_lock(struct job *j)
{
	uint64_t signals;

	if (forks) { /* in another handler of fork(), or in one of a signal */
		perform(j);
		return;
	}
	signals = block_signals();
	brief_lock(&own_lock);
	perform(j);
	brief_unlock(&own_lock);
	masks_let_signals(signals);
}

/*
 * A child has no thread that would give the lock back, and must not find an object that is half
 * written. So the thread that forks has the lock meanwhile.
 */
static void atomics_before_fork(void)
{
	const uint64_t signals = block_signals();

	brief_lock(&own_lock);
	forks = true;
	masks_let_signals(signals);
}

static void atomics_after_fork(void)
{
	const uint64_t signals = block_signals();

	forks = false;
	brief_unlock(&own_lock);
	masks_let_signals(signals);
}

__attribute__((constructor)) static void atomics_watch_forks(void)
{
	pthread_atfork(atomics_before_fork, atomics_after_fork, atomics_after_fork);
}

/*
 * An object of 1, 2, 4 or 8 bytes may be used by the functions above as well, so it is done as they
 * do it. Reads `from`, and writes `to`, once it has been done.
 */
static bool ask_bytes(enum op op, size_t size, void *at, const void *from, void *to)
{
	struct job j = { .op = op, .at = at, .size = size, .from = from, .to = to };
	uint64_t value = 0, expected = 0, before;

	if (!is_free(size, at)) {
		if (is_wide(size, at) && !is_apart(at))
			perform(&j);
		else if (is_shared(at))
			by_lock(&j);
		else
			by_own_lock(&j);
		return j.same;
	}
	if (from)
		memcpy(&value, from, size);
	if (op == O_COMPARE)
		memcpy(&expected, to, size);
	before = ask(op, at, size, value, expected);
	if (op == O_COMPARE && before == expected)
		return true;
	if (to)
		memcpy(to, &before, size);
	return false;
}

EXPORT void atomics_load(size_t size, void *at, void *to, int order) __asm__("__atomic_load");
EXPORT void atomics_load(size_t size, void *at, void *to, int order)
{
	(void)order;
	ask_bytes(O_LOAD, size, at, NULL, to);
}

EXPORT void atomics_store(size_t size, void *at, void *from, int order) __asm__("__atomic_store");
EXPORT void atomics_store(size_t size, void *at, void *from, int order)
{
	(void)order;
	ask_bytes(O_STORE, size, at, from, NULL);
}

EXPORT void atomics_exchange(size_t size, void *at, void *from, void *to,
			     int order) __asm__("__atomic_exchange");
EXPORT void atomics_exchange(size_t size, void *at, void *from, void *to, int order)
{
	(void)order;
	ask_bytes(O_EXCHANGE, size, at, from, to);
}

EXPORT bool atomics_compare(size_t size, void *at, void *expected, void *from, int then,
			    int otherwise) __asm__("__atomic_compare_exchange");
EXPORT bool atomics_compare(size_t size, void *at, void *expected, void *from, int then,
			    int otherwise)
{
	(void)then;
	(void)otherwise;
	return ask_bytes(O_COMPARE, size, at, from, expected);
}

EXPORT wide atomics_load_16(wide *at, int order) NAMED(load, 16);
EXPORT wide atomics_load_16(wide *at, int order)
{
	wide found;

	atomics_load(sizeof(*at), at, &found, order);
	return found;
}

EXPORT void atomics_store_16(wide *at, wide value, int order) NAMED(store, 16);
EXPORT void atomics_store_16(wide *at, wide value, int order)
{
	atomics_store(sizeof(*at), at, &value, order);
}

EXPORT wide atomics_exchange_16(wide *at, wide value, int order) NAMED(exchange, 16);
EXPORT wide atomics_exchange_16(wide *at, wide value, int order)
{
	wide found;

	atomics_exchange(sizeof(*at), at, &value, &found, order);
	return found;
}

EXPORT bool atomics_compare_16(wide *at, wide *expected, wide value, int then, int otherwise)
	NAMED(compare_exchange, 16);
EXPORT bool atomics_compare_16(wide *at, wide *expected, wide value, int then, int otherwise)
{
	return atomics_compare(sizeof(*at), at, expected, &value, then, otherwise);
}

#define FETCH_WIDE(NAME, NEXT_VALUE)                                                      \
	EXPORT wide atomics_##NAME##_16(wide *at, wide value, int order) NAMED(NAME, 16); \
	EXPORT wide atomics_##NAME##_16(wide *at, wide value, int order)                  \
	{                                                                                 \
		wide found = atomics_load_16(at, order), next;                            \
                                                                                          \
		do                                                                        \
			next = NEXT_VALUE;                                                \
		while (!atomics_compare_16(at, &found, next, order, order));              \
		return found;                                                             \
	}

FETCH_WIDE(fetch_add, found + value)
FETCH_WIDE(fetch_sub, found - value)
FETCH_WIDE(fetch_and, found &value)
FETCH_WIDE(fetch_or, found | value)
FETCH_WIDE(fetch_xor, found ^ value)
FETCH_WIDE(fetch_nand, ~(found &value))

EXPORT bool atomics_are_free(size_t size, void *at) __asm__("__atomic_is_lock_free");
EXPORT bool atomics_are_free(size_t size, void *at)
{
	return is_free(size, at);
}

/* For operations of the compiler's on floating-point numbers. */
EXPORT void atomics_raise(int exceptions) __asm__("__atomic_feraiseexcept");
EXPORT void atomics_raise(int exceptions)
{
	feraiseexcept(exceptions);
}

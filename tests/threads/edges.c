// SPDX-License-Identifier: BSD-2-Clause
/*
 * edges.c - each way to synchronise, as the only one between two threads of different ranks. In
 * turns, each thread changes all words of some pages of variables and of the heap, and passes them
 * on; the other one has old copies of them, and must see all new values. Both also count in
 * variables of their own beside each other, which nobody else may undo.
 */
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#define ROUNDS 12
#define FUTEX_RUNS 20  /* the word is rarely there too early */
#define WHILE_US 20000 /* in which the other thread should be done; without an edge */
#define PAGES 3
#define WORDS 1024 /* of a page */

static unsigned int variables[PAGES][WORDS];
static unsigned int (*heap)[WORDS];
static unsigned int counts[64][2]; /* of each thread */
static unsigned int failures;

static sem_t sems[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, error_mutex;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static mtx_t mtx;
static cnd_t cnd;
static int pipes[2][2];
/* the number of turns that thread 0, thread 1 has passed on, by what needs one */
static unsigned int passed[2];

static void store_all(unsigned int value)
{
	int i, k;

	for (i = 0; i < PAGES; i++)
		for (k = 0; k < WORDS; k++)
			variables[i][k] = heap[i][k] = value + (unsigned int)k;
}

static void check_all(unsigned int value)
{
	int i, k;

	for (i = 0; i < PAGES; i++)
		for (k = 0; k < WORDS; k++) {
			failures += variables[i][k] != value + (unsigned int)k;
			failures += heap[i][k] != value + (unsigned int)k;
		}
}

static void pause_briefly(void)
{
	usleep(200);
}

static void sem_pass(int me)
{
	sem_post(&sems[me]);
}

static void sem_take(int other)
{
	while (sem_wait(&sems[other]))
		;
}

static void sem_try(int other)
{
	while (sem_trywait(&sems[other]))
		pause_briefly();
}

#define BY_LOCK(NAME, LOCK, UNLOCK, LOCK_TO_READ)    \
	static void NAME##_pass(int me)              \
	{                                            \
		LOCK;                                \
		passed[me]++;                        \
		UNLOCK;                              \
	}                                            \
                                                     \
	static void NAME##_take(int other)           \
	{                                            \
		static __thread unsigned int seen;   \
		bool done;                           \
                                                     \
		for (;;) {                           \
			LOCK_TO_READ;                \
			done = passed[other] > seen; \
			UNLOCK;                      \
			if (done)                    \
				break;               \
			pause_briefly();             \
		}                                    \
		seen++;                              \
	}

BY_LOCK(mutex, pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex), pthread_mutex_lock(&mutex))
BY_LOCK(try, while (pthread_mutex_trylock(&error_mutex)) pause_briefly(),
	pthread_mutex_unlock(&error_mutex),
	while (pthread_mutex_trylock(&error_mutex)) pause_briefly())
BY_LOCK(rwlock, pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock),
	pthread_rwlock_rdlock(&rwlock))
BY_LOCK(spin, pthread_spin_lock(&spin), pthread_spin_unlock(&spin), pthread_spin_lock(&spin))

static void cond_pass(int me)
{
	pthread_mutex_lock(&mutex);
	passed[me]++;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
}

static void cond_take(int other)
{
	static __thread unsigned int seen;

	pthread_mutex_lock(&mutex);
	while (passed[other] == seen)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	seen++;
}

static void cnd_pass(int me)
{
	mtx_lock(&mtx);
	passed[me]++;
	cnd_broadcast(&cnd);
	mtx_unlock(&mtx);
}

static void cnd_take(int other)
{
	static __thread unsigned int seen;

	mtx_lock(&mtx);
	while (passed[other] == seen)
		cnd_wait(&cnd, &mtx);
	mtx_unlock(&mtx);
	seen++;
}

static void barrier_meet(int thread)
{
	(void)thread;
	pthread_barrier_wait(&barrier);
}

static void pipe_pass(int me)
{
	failures += write(pipes[me][1], "", 1) != 1;
}

static void pipe_take(int other)
{
	char c;

	failures += read(pipes[other][0], &c, 1) != 1;
}

static __thread unsigned int due; /* what the other thread stored before it passed the turn on */

/* The contents arrive by poll() alone: the byte is read after the check. */
static void poll_take(int other)
{
	struct pollfd p = { .fd = pipes[other][0], .events = POLLIN };

	failures += poll(&p, 1, -1) != 1;
	check_all(due);
	pipe_take(other);
}

/* The word says only that there was a turn: what it was for comes with the wake-up. */
static uint32_t words[2];
static __thread uint32_t seen;

static void futex_pass(int me)
{
	*(volatile uint32_t *)&words[me] += 1;
	syscall(SYS_futex, &words[me], FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_take(int other)
{
	/*
	 * A load alone is no edge. The word may be here before the wake-up, and then alone: it says
	 * so without waiting.
	 */
	do
		syscall(SYS_futex, &words[other], FUTEX_WAIT, seen, NULL, NULL, 0);
	while (*(volatile uint32_t *)&words[other] == seen);
	seen++;
}

/* Nothing but the wake-up: the word stays as it is. */
static uint32_t constants[2];

static void wake_pass(int me)
{
	while (!syscall(SYS_futex, &constants[me], FUTEX_WAKE, 1, NULL, NULL, 0))
		pause_briefly();
}

static void wake_take(int other)
{
	failures += syscall(SYS_futex, &constants[other], FUTEX_WAIT, 0, NULL, NULL, 0) != 0;
}

static const struct edge {
	const char *name;
	void (*pass)(int me), (*take)(int other);
} edges[] = {
	{ "semaphore", sem_pass, sem_take },       { "semaphore, tried", sem_pass, sem_try },
	{ "mutex", mutex_pass, mutex_take },       { "mutex, tried", try_pass, try_take },
	{ "rwlock", rwlock_pass, rwlock_take },    { "spinlock", spin_pass, spin_take },
	{ "condition", cond_pass, cond_take },     { "mtx_t, cnd_t", cnd_pass, cnd_take },
	{ "barrier", barrier_meet, barrier_meet }, { "pipe", pipe_pass, pipe_take },
	{ "poll", pipe_pass, poll_take },          { "futex, woken", wake_pass, wake_take },
};

static const struct edge changed = { "futex", futex_pass, futex_take };

static void turns(const struct edge *e, int me)
{
	unsigned int r;

	seen = 0;
	for (r = 1; r <= ROUNDS; r++) {
		counts[r][me]++;
		if (!me) {
			store_all(2000 * r);
			due = 2000 * r + 1000;
			e->pass(0);
			e->take(1);
			check_all(due);
		} else {
			due = 2000 * r;
			e->take(0);
			check_all(due);
			store_all(2000 * r + 1000);
			e->pass(1);
		}
	}
}

static void *second(void *edge)
{
	turns(edge, 1);
	return NULL;
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* Ranks take threads in turn. So the next thread is not beside the first one, either. */
static void join_other(pthread_t t)
{
	pthread_join(t, NULL);
	pthread_create(&t, NULL, do_nothing, NULL);
	pthread_join(t, NULL);
}

static void run_edge(const struct edge *e)
{
	pthread_t t;

	memset(passed, 0, sizeof(passed));
	memset(words, 0, sizeof(words));
	pthread_create(&t, NULL, second, (void *)(uintptr_t)e);
	turns(e, 0);
	join_other(t);
}

static void *one_turn(void *value)
{
	check_all((unsigned int)(uintptr_t)value);
	store_all((unsigned int)(uintptr_t)value + 1000);
	return NULL;
}

static void run_create_join(void)
{
	pthread_t t;
	uintptr_t r;

	for (r = 1; r <= ROUNDS; r++) {
		store_all((unsigned int)(2000 * r));
		pthread_create(&t, NULL, one_turn, (void *)(2000 * r));
		join_other(t);
		check_all((unsigned int)(2000 * r + 1000));
	}
}

static pthread_once_t onces[ROUNDS]; /* PTHREAD_ONCE_INIT is 0 */
static unsigned int once_value;

static void run_once(void)
{
	store_all(once_value);
}

static void *all_onces(void *arg)
{
	unsigned int r;

	for (r = 0; r < ROUNDS; r++) {
		pthread_barrier_wait(&barrier);
		check_all(1000 * r); /* both have copies */
		if (arg)
			once_value = 1000 * (r + 1);
		pthread_barrier_wait(&barrier);
		pthread_once(&onces[r], run_once);
		check_all(1000 * (r + 1));
	}
	return NULL;
}

static void run_onces(void)
{
	pthread_t t;

	store_all(0);
	pthread_create(&t, NULL, all_onces, &barrier);
	all_onces(NULL);
	join_other(t);
}

/*
 * The routine ran a while ago, in the other thread, and nothing was passed on since. This thread
 * has never looked at the control, so it gets a new copy, and has old ones of what the routine
 * changed.
 */
static struct {
	_Alignas(4096) pthread_once_t control;
} lates[ROUNDS];

static void *late_onces(void *arg)
{
	unsigned int r;

	for (r = 0; r < ROUNDS; r++) {
		pthread_barrier_wait(&barrier);
		check_all(1000 * r);
		if (!arg)
			once_value = 1000 * (r + 1);
		pthread_barrier_wait(&barrier);
		if (arg)
			usleep(WHILE_US);
		pthread_once(&lates[r].control, run_once);
		check_all(1000 * (r + 1));
	}
	return NULL;
}

static void run_late_onces(void)
{
	pthread_t t;

	store_all(0);
	pthread_create(&t, NULL, late_onces, &barrier);
	late_onces(NULL);
	join_other(t);
}

/*
 * Of threads that leave a barrier, one destroys it and makes it again, while others are still being
 * woken. They meet at another one before they use it.
 */
enum { LEAVERS = 4, AGAIN = 200 };
static pthread_barrier_t again, between, pairs;
static unsigned int left_by[LEAVERS];

static void *leave(void *arg)
{
	const unsigned int me = (unsigned int)(uintptr_t)arg;
	unsigned int i;

	for (i = 0; i < AGAIN; i++) {
		left_by[me] = i;
		if (pthread_barrier_wait(&again) == PTHREAD_BARRIER_SERIAL_THREAD) {
			pthread_barrier_destroy(&again);
			pthread_barrier_init(&again, NULL, LEAVERS);
		}
		for (unsigned int k = 0; k < LEAVERS; k++)
			__atomic_fetch_add(&failures, left_by[k] != i, __ATOMIC_RELAXED);
		pthread_barrier_wait(&between);
	}
	return NULL;
}

/* More threads use a barrier than it is for: those that are too many wait for the next round. */
enum { TICKETS = 60000 };
static unsigned int tickets, firsts;

static void *pair(void *arg)
{
	while (__atomic_fetch_add(&tickets, 1, __ATOMIC_RELAXED) < TICKETS)
		if (pthread_barrier_wait(&pairs) == PTHREAD_BARRIER_SERIAL_THREAD)
			__atomic_fetch_add(&firsts, 1, __ATOMIC_RELAXED);
	return arg;
}

/* As leave(), with a condition. */
static pthread_mutex_t come_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_came = PTHREAD_COND_INITIALIZER;
static unsigned int come, rounds_done;

static void *come_and_leave(void *arg)
{
	unsigned int i;

	for (i = 0; i < AGAIN; i++) {
		pthread_mutex_lock(&come_lock);
		if (++come == LEAVERS) {
			come = 0;
			rounds_done++;
			pthread_cond_broadcast(&all_came);
			pthread_cond_destroy(&all_came);
			pthread_cond_init(&all_came, NULL);
		} else {
			while (rounds_done == i)
				pthread_cond_wait(&all_came, &come_lock);
		}
		failures += rounds_done != i + 1;
		pthread_mutex_unlock(&come_lock);
		pthread_barrier_wait(&between);
	}
	return arg;
}

static void run_leavers(void *(*each)(void *))
{
	pthread_t t[LEAVERS];
	uintptr_t i;

	pthread_barrier_init(&again, NULL, LEAVERS);
	pthread_barrier_init(&between, NULL, LEAVERS);
	for (i = 1; i < LEAVERS; i++)
		pthread_create(&t[i], NULL, each, (void *)i);
	each(NULL);
	for (i = 1; i < LEAVERS; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&between);
}

/* A thread that is being cancelled destroys a condition, and unlocks its mutex, all the same. */
enum { CANCELS = 20 };
static unsigned int waiting, destroyed;

static void *wait_for_end(void *arg)
{
	const unsigned int before = *(const unsigned int *)arg;

	pthread_mutex_lock(&come_lock);
	waiting++;
	while (destroyed == before)
		pthread_cond_wait(&all_came, &come_lock);
	pthread_mutex_unlock(&come_lock);
	return NULL;
}

static void *destroy(void *arg)
{
	pthread_mutex_lock(&come_lock);
	pthread_cancel(pthread_self());
	destroyed++;
	pthread_cond_broadcast(&all_came);
	pthread_cond_destroy(&all_came);
	pthread_cond_init(&all_came, NULL);
	pthread_mutex_unlock(&come_lock);
	pthread_testcancel();
	return arg;
}

static void run_cancelled(void)
{
	unsigned int i, came;
	pthread_t t[2];
	void *result;

	for (i = 0; i < CANCELS; i++) {
		pthread_create(&t[0], NULL, wait_for_end, &i);
		do {
			pthread_mutex_lock(&come_lock);
			came = waiting;
			pthread_mutex_unlock(&come_lock);
		} while (came == i);
		pthread_create(&t[1], NULL, destroy, NULL);
		pthread_join(t[1], &result);
		failures += result != PTHREAD_CANCELED;
		join_other(t[0]);
	}
	failures += destroyed != CANCELS;
}

#define PIECES 200

/*
 * Memory that a thread has written and freed, and that the other one gets, has only what that one
 * writes.
 */
static void *allocate(void *arg)
{
	const int me = arg != NULL;
	static unsigned char *pieces[PIECES];
	int r, i, k;

	for (r = 0; r < ROUNDS; r++) {
		pthread_barrier_wait(&barrier);
		if (r % 2 == me)
			for (i = 0; i < PIECES; i++) {
				pieces[i] = calloc(1, 2000 + (size_t)i);
				for (k = 0; k < 2000 + i; k++) {
					failures += pieces[i][k] != 0;
					pieces[i][k] = (unsigned char)(r + i);
				}
			}
		pthread_barrier_wait(&barrier);
		if (r % 2 != me)
			for (i = 0; i < PIECES; i++) {
				for (k = 0; k < 2000 + i; k++)
					failures += pieces[i][k] != (unsigned char)(r + i);
				memset(pieces[i], 0xff, 2000 + (size_t)i);
				free(pieces[i]);
			}
	}
	return NULL;
}

static void run_allocations(void)
{
	pthread_t t;

	pthread_create(&t, NULL, allocate, &barrier);
	allocate(NULL);
	join_other(t);
}

#define LARGE (1u << 20)
#define STEP (64u << 10)
#define LARGES 12 /* some have their home at the one rank, some at the other */

static unsigned char *large;

/* Stores before free() are not left out. */
static void fill_large(volatile unsigned char *p, unsigned int value)
{
	size_t i;

	for (i = 0; i < LARGE; i += i % STEP < 63 ? 1 : STEP - 63)
		p[i] = (unsigned char)value;
}

static void check_large(const volatile unsigned char *p, unsigned int value)
{
	size_t i;

	for (i = 0; i < LARGE; i += i % STEP < 63 ? 1 : STEP - 63)
		failures += p[i] != value;
}

#define TRIES 6

/* Get the memory again that the other thread has just freed. False: it does not come in time. */
static bool malloc_large(void)
{
	void *others[TRIES], *p = NULL;
	int n, i;

	for (n = 0; n < TRIES && p != large; n++) {
		usleep(WHILE_US / TRIES);
		others[n] = p = malloc(LARGE);
	}
	for (i = 0; i < n; i++)
		if (others[i] != large)
			free(others[i]);
	return p == large;
}

/*
 * free() and malloc() as the only edge: what one thread has stored before it frees is not stored
 * over what the other does with the memory, nor is it still there where that one stores what it had
 * stored before.
 */
static void *hand_back(void *arg)
{
	unsigned char *freed;
	unsigned int r;

	for (r = 1; r <= ROUNDS / 4; r++) {
		if (!arg)
			fill_large(large, r);
		freed = large; /* of the round before: the other may have more memory soon */
		pthread_barrier_wait(&barrier);
		if (arg) {
			check_large(freed, r);
			fill_large(freed, 0xff);
			free(freed);
			usleep(2 * WHILE_US);
		} else {
			if (!malloc_large())
				large = malloc(LARGE);
			fill_large(large, r);
		}
		pthread_barrier_wait(&barrier);
		check_large(large, r);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void run_hand_backs(void)
{
	unsigned char *all[LARGES];
	pthread_t t;
	int i;

	for (i = 0; i < LARGES; i++)
		all[i] = malloc(LARGE);
	for (i = 0; i < LARGES; i += LARGES / 4) {
		large = all[i];
		pthread_create(&t, NULL, hand_back, &barrier);
		hand_back(NULL);
		join_other(t);
		all[i] = large;
	}
	for (i = 0; i < LARGES; i++)
		free(all[i]);
}

#define MOST 36 /* of them take more than half of the memory that the program has */

/* Memory that one rank had, and others have freed, is for all of them again. */
static void *pass_memory(void *arg)
{
	static unsigned char *all[MOST];
	int i;

	for (i = 0; arg && i < MOST; i++) {
		all[i] = malloc(LARGE);
		fill_large(all[i], 1);
	}
	pthread_barrier_wait(&barrier);
	for (i = 0; !arg && i < MOST; i++)
		free(all[i]);
	for (i = 0; !arg && i < MOST; i++) {
		all[i] = malloc(LARGE);
		fill_large(all[i], 2);
	}
	pthread_barrier_wait(&barrier);
	for (i = 0; i < MOST; i++)
		check_large(all[i], 2);
	pthread_barrier_wait(&barrier);
	for (i = 0; !arg && i < MOST; i++)
		free(all[i]);
	return NULL;
}

static void run_pass_memory(void)
{
	pthread_t t;
	int i;

	/* consecutive threads are at different ranks */
	for (i = 0; i < 2; i++) {
		pthread_create(&t, NULL, pass_memory, &barrier);
		pass_memory(NULL);
		join_other(t);
	}
}

/* A file, written and read in large pieces from and into memory that both threads have used. */
static void *copy_file(void *arg)
{
	const int fd = fileno((FILE *)arg);
	unsigned char *from = malloc(LARGE), *to = malloc(LARGE);

	fill_large(from, 7);
	fill_large(to, 0);
	failures += pwrite(fd, from, LARGE, 0) != LARGE;
	failures += pread(fd, to, LARGE, 0) != LARGE;
	check_large(to, 7);
	free(from);
	free(to);
	return NULL;
}

static void run_file(void)
{
	FILE *f = tmpfile();
	pthread_t t;

	copy_file(f);
	pthread_create(&t, NULL, copy_file, f);
	join_other(t);
	fclose(f);
}

static void report(const char *name)
{
	printf("%s: %s\n", name, failures ? "stale" : "ok");
	failures = 0;
}

int main(void)
{
	size_t i;
	int k;

	heap = malloc(PAGES * sizeof(*heap));
	sem_init(&sems[0], 0, 0);
	sem_init(&sems[1], 0, 0);
	pthread_mutex_init(&error_mutex, NULL);
	pthread_spin_init(&spin, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	mtx_init(&mtx, mtx_plain);
	cnd_init(&cnd);
	if (!heap || pipe(pipes[0]) || pipe(pipes[1]))
		return 1;
	for (i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		run_edge(&edges[i]);
		report(edges[i].name);
	}
	for (k = 0; k < FUTEX_RUNS; k++)
		run_edge(&changed);
	report(changed.name);
	run_create_join();
	report("create and join");
	run_onces();
	report("once");
	run_late_onces();
	report("once, long ago");
	run_leavers(leave);
	report("a barrier made again");
	run_leavers(come_and_leave);
	report("a condition made again");
	run_cancelled();
	report("a condition destroyed by a cancelled thread");
	pthread_barrier_init(&pairs, NULL, 2);
	run_leavers(pair);
	failures += firsts != TICKETS / 2;
	report("a barrier for two of four");
	run_allocations();
	report("free and malloc");
	run_hand_backs();
	report("free and malloc alone");
	run_pass_memory();
	report("memory of the other");
	run_file();
	report("large file");
	for (k = 1; k <= ROUNDS; k++)
		failures += counts[k][0] != i + FUTEX_RUNS || counts[k][1] != i + FUTEX_RUNS;
	report("variables beside each other");
	return 0;
}

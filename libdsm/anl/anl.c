// SPDX-License-Identifier: BSD-2-Clause
/*
 * anl.c - the functions behind the ANL macros of c.m4.dsm, over POSIX threads. In a program that dsm-cc links, libdsm-pthread.so takes the
 * calls and runs the threads on the ranks of a job; linked without libdsm, the program is an ordinary one.
 *
 * It is a static library, because the variables of the executable are shared between the ranks and those of shared libraries are
 * not.
 */
#include <dsm.h>
#include <dsm_anl.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Absent without libdsm. */
#pragma weak dsm_call
#pragma weak dsm_config_init
#pragma weak dsm_place
#pragma weak dsm_size

#define PAGE 4096ul
#define STACK (8ul << 20) /* as the main thread has by default; memory is used when it is touched */

enum wait { W_LOCK, W_BARRIER, W_PAUSE, WAITS };

/* Barriers of POSIX have a fixed number of threads, so a barrier of ANL has one of POSIX for each number that it is used with. */
struct meeting {
	struct meeting *next;
	long n;
	pthread_barrier_t barrier;
};

struct barrier {
	pthread_mutex_t lock;
	struct meeting *first; /* written under the lock, read without it; entries stay */
	long n;                /* of BARINIT; 0: none */
};

struct counter {
	pthread_mutex_t lock;
	pthread_cond_t all;
	long next, out; /* threads that have found nothing left */
	long round;
};

_Static_assert(sizeof(struct dsm_anl_lock) >= sizeof(pthread_mutex_t), "it has room");
_Static_assert(sizeof(struct dsm_anl_cond) >= sizeof(pthread_cond_t), "it has room");
_Static_assert(sizeof(struct dsm_anl_pause) >= sizeof(sem_t), "it has room");
_Static_assert(sizeof(struct dsm_anl_barrier) >= sizeof(struct barrier), "it has room");
_Static_assert(sizeof(struct dsm_anl_counter) >= sizeof(struct counter), "it has room");

/*
 * Statistics of the program. ANL_REPORT names a file for the time of the parallel part; with ANL_WAITS, waits are timed, too. It
 * has a page of its own: all threads read waits_timed, and writes to the program's variables would take a shared page from them.
 */
static struct {
	pthread_mutex_t lock; /* guards all that follows but `waits_timed`, which is constant once threads run */
	pthread_t *threads;   /* not yet joined */
	size_t n, room;
	long created;
	bool waits_timed, roi; /* roi: the program marks the part to be timed */
	uint64_t since, ns;    /* since 0: not in the parallel part */
	uint64_t waits[WAITS], waited_ns[WAITS];
} __attribute__((aligned(PAGE))) anl;

static __thread struct {
	long number;
	uint64_t waits[WAITS], waited_ns[WAITS];
} self;

static void must(const char *what, int err)
{
	if (!err)
		return;
	fprintf(stderr, "libdsm-anl: %s: %s\n", what, strerror(err));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Called before and after a wait, to time it. before() returns 0 if waits are not timed. */
static inline uint64_t before(void)
{
	return __builtin_expect(anl.waits_timed, 0) ? now() : 0;
}

static inline void after(enum wait kind, uint64_t start)
{
	if (__builtin_expect(!start, 1))
		return;
	self.waits[kind]++;
	self.waited_ns[kind] += now() - start;
}

/* ---- the report ------------------------------------------------------------------------------------ */

/* Add the calling thread's counts to the program's. */
static void add_waits(void)
{
	int i;

	pthread_mutex_lock(&anl.lock);
	for (i = 0; i < WAITS; i++) {
		anl.waits[i] += self.waits[i];
		anl.waited_ns[i] += self.waited_ns[i];
	}
	pthread_mutex_unlock(&anl.lock);
	memset(self.waits, 0, sizeof(self.waits));
	memset(self.waited_ns, 0, sizeof(self.waited_ns));
}

/* Print the sums so far, after each parallel part. */
static void report(void)
{
	static const char *const names[WAITS] = { "lock", "barrier", "pause" };
	const char *file = getenv("ANL_REPORT");
	FILE *f = file ? fopen(file, "w") : NULL;
	int i;

	if (!f)
		return;
	fprintf(f, "us %lu\nthreads %ld\n", (unsigned long)(anl.ns / 1000), anl.created + 1);
	for (i = 0; i < WAITS; i++)
		fprintf(f, "%ss %lu\n%s_us %lu\n", names[i], (unsigned long)anl.waits[i], names[i],
			(unsigned long)(anl.waited_ns[i] / 1000));
	fclose(f);
}

static void start_clock(void)
{
	if (!anl.since)
		anl.since = now();
}

static void stop_clock(void)
{
	if (anl.since)
		anl.ns += now() - anl.since;
	anl.since = 0;
}

void dsm_anl_roi(int begin)
{
	if (begin) {
		anl.roi = true;
		anl.since = anl.ns = 0;
		start_clock();
	} else {
		stop_clock();
		add_waits();
		report();
	}
}

unsigned long dsm_anl_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (unsigned long)t.tv_sec * 1000000 + (unsigned long)t.tv_nsec / 1000;
}

/* ---- threads --------------------------------------------------------------------------------------- */

void dsm_anl_start(void)
{
	anl.waits_timed = getenv("ANL_WAITS");
}

void dsm_anl_end(void)
{
	exit(0);
}

/* The new thread's arguments: in shared memory, until the thread has read them. */
struct birth {
	void (*fn)(void);
	long number;
};

/* Programs may pass functions with or without an argument and a result. */
static void run(void (*fn)(void))
{
	((void *(*)(void *))fn)(NULL);
}

static void *thread(void *arg)
{
	struct birth b = *(struct birth *)arg;

	free(arg);
	self.number = b.number;
	run(b.fn);
	if (anl.waits_timed)
		add_waits();
	return NULL;
}

static void create(void (*fn)(void))
{
	struct birth *b = malloc(sizeof(*b));
	pthread_attr_t attr;

	must("CREATE", b ? 0 : ENOMEM);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_mutex_lock(&anl.lock);
	if (anl.n == anl.room) {
		anl.room += anl.room ? anl.room : 64;
		anl.threads = realloc(anl.threads, anl.room * sizeof(anl.threads[0]));
		must("CREATE", anl.threads ? 0 : ENOMEM);
	}
	*b = (struct birth){ fn, ++anl.created };
	must("CREATE", pthread_create(&anl.threads[anl.n], &attr, thread, b));
	anl.n++;
	pthread_mutex_unlock(&anl.lock);
	pthread_attr_destroy(&attr);
}

void dsm_anl_create(void (*fn)(void), long threads)
{
	long i;

	if (!anl.roi)
		start_clock();
	if (!threads)
		create(fn);
	for (i = 1; i < threads; i++)
		create(fn);
	if (threads)
		run(fn);
}

/* Join all threads that were created: some programs count the first thread, and some do not. */
void dsm_anl_wait_for_end(void)
{
	pthread_t t;
	bool more;

	do {
		pthread_mutex_lock(&anl.lock);
		more = anl.n;
		if (more)
			t = anl.threads[--anl.n];
		pthread_mutex_unlock(&anl.lock);
		if (more)
			must("WAIT_FOR_END", pthread_join(t, NULL));
	} while (more);
	if (anl.roi || !anl.since)
		return;
	stop_clock();
	add_waits();
	report();
}

long dsm_anl_self(void)
{
	return self.number;
}

/* ---- locks, conditions, pauses --------------------------------------------------------------------- */

void dsm_anl_lock_init(volatile struct dsm_anl_lock *l, long n)
{
	long i;

	for (i = 0; i < n; i++)
		must("LOCKINIT", pthread_mutex_init((pthread_mutex_t *)&l[i], NULL));
}

void dsm_anl_lock(volatile struct dsm_anl_lock *l)
{
	uint64_t start = before();

	must("LOCK", pthread_mutex_lock((pthread_mutex_t *)l));
	after(W_LOCK, start);
}

void dsm_anl_unlock(volatile struct dsm_anl_lock *l)
{
	must("UNLOCK", pthread_mutex_unlock((pthread_mutex_t *)l));
}

void dsm_anl_cond_init(volatile struct dsm_anl_cond *c)
{
	must("CONDVARINIT", pthread_cond_init((pthread_cond_t *)c, NULL));
}

void dsm_anl_cond_wait(volatile struct dsm_anl_cond *c, volatile struct dsm_anl_lock *l)
{
	uint64_t start = before();

	must("CONDVARWAIT", pthread_cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)l));
	after(W_PAUSE, start);
}

void dsm_anl_cond_wake(volatile struct dsm_anl_cond *c, int all)
{
	pthread_cond_t *cond = (pthread_cond_t *)c;

	must("CONDVARSIGNAL", all ? pthread_cond_broadcast(cond) : pthread_cond_signal(cond));
}

void dsm_anl_pause_init(volatile struct dsm_anl_pause *p, long n)
{
	long i;

	for (i = 0; i < n; i++)
		must("PAUSEINIT", sem_init((sem_t *)&p[i], 0, 0) ? errno : 0);
}

void dsm_anl_pause_set(volatile struct dsm_anl_pause *p)
{
	must("SETPAUSE", sem_post((sem_t *)p) ? errno : 0);
}

void dsm_anl_pause_wait(volatile struct dsm_anl_pause *p)
{
	uint64_t start = before();

	while (sem_wait((sem_t *)p))
		must("WAITPAUSE", errno == EINTR ? 0 : errno);
	after(W_PAUSE, start);
}

/* ---- barriers -------------------------------------------------------------------------------------- */

static struct meeting *find_meeting(const struct barrier *b, long n)
{
	struct meeting *m = __atomic_load_n(&b->first, __ATOMIC_ACQUIRE);

	while (m && m->n != n)
		m = m->next;
	return m;
}

static struct meeting *meeting_of(struct barrier *b, long n)
{
	struct meeting *m = find_meeting(b, n);

	if (__builtin_expect(m != NULL, 1))
		return m;
	must("BARRIER", pthread_mutex_lock(&b->lock));
	m = find_meeting(b, n);
	if (!m) {
		m = calloc(1, sizeof(*m));
		must("BARRIER", m ? pthread_barrier_init(&m->barrier, NULL, (unsigned int)n) : ENOMEM);
		m->n = n;
		m->next = b->first;
		__atomic_store_n(&b->first, m, __ATOMIC_RELEASE);
	}
	must("BARRIER", pthread_mutex_unlock(&b->lock));
	return m;
}

void dsm_anl_barrier_init(volatile struct dsm_anl_barrier *barrier, long n)
{
	struct barrier *b = (struct barrier *)barrier;

	b->first = NULL;
	b->n = n;
	must("BARINIT", pthread_mutex_init(&b->lock, NULL));
}

void dsm_anl_barrier(volatile struct dsm_anl_barrier *barrier, long n)
{
	struct barrier *b = (struct barrier *)barrier;
	uint64_t start = before();
	int err;

	if (!n)
		n = b->n;
	err = pthread_barrier_wait(&meeting_of(b, n)->barrier);
	must("BARRIER", err == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : err);
	after(W_BARRIER, start);
}

/* ---- loops ----------------------------------------------------------------------------------------- */

void dsm_anl_counter_init(volatile struct dsm_anl_counter *counter)
{
	struct counter *c = (struct counter *)counter;

	c->next = c->out = c->round = 0;
	must("GSINIT", pthread_mutex_init(&c->lock, NULL));
	must("GSINIT", pthread_cond_init(&c->all, NULL));
}

/*
 * Returns the next subscript, up to max. Then it returns -1, but only when all threads have got here, so that no thread begins
 * the next loop too early.
 */
long dsm_anl_counter_next(volatile struct dsm_anl_counter *counter, long max, long threads)
{
	struct counter *c = (struct counter *)counter;
	uint64_t start = before();
	long got = -1, round;

	must("GETSUB", pthread_mutex_lock(&c->lock));
	round = c->round;
	if (c->next <= max) {
		got = c->next++;
	} else if (++c->out >= threads) {
		c->next = c->out = 0;
		c->round++;
		pthread_cond_broadcast(&c->all);
	} else {
		while (c->round == round)
			pthread_cond_wait(&c->all, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	after(got < 0 ? W_BARRIER : W_LOCK, start);
	return got;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

struct placing {
	void *at;
	size_t size;
	long home;
};

/*
 * The home is the rank on which the thread of this number is created. This is a hint: what cannot move stays. So it does not use
 * dsm_malloc_on(), which would fail then, and whose memory free() does not accept.
 */
static void place(void *arg)
{
	struct placing p = *(struct placing *)arg;
	struct dsm_config cfg;

	if (dsm_config_init(&cfg))
		return;
	if (!strcmp(cfg.place, "fill"))
		p.home /= cfg.threads ? cfg.threads : 1;
	dsm_place(p.at, p.size, (int)(p.home % dsm_size()));
}

void *dsm_anl_malloc(unsigned long size, long home)
{
	const unsigned long whole = (size + PAGE - 1) & ~(PAGE - 1);
	/* Objects of several threads share no page, unless they are small. */
	void *p = size < PAGE ? malloc(size ? size : 1) : whole < size ? NULL : aligned_alloc(PAGE, whole);

	if (!p) {
		fprintf(stderr, "libdsm-anl: no memory for %lu bytes%s\n", size,
			dsm_size ? " (DSM_HEAP is the limit)" : "");
		exit(1);
	}
	if (home >= 0 && size >= PAGE && dsm_size && dsm_size() > 1) {
		struct placing arg = { p, whole, home };

		dsm_call(place, &arg);
	}
	return p;
}

void dsm_anl_free(volatile void *p)
{
	free((void *)p);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * anl.c - the functions behind the ANL macros of c.m4.dsm, over POSIX threads. In a program that
 * dsm-cc links, libdsm-pthread.so takes the calls and runs the threads on the ranks of a job;
 * linked without libdsm, the program is an ordinary one.
 *
 * It is a static library, because the variables of the executable are shared between the ranks and
 * those of shared libraries are not.
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

#include "times.h"

/* Absent without libdsm. */
#pragma weak dsm_call
#pragma weak dsm_config_init
#pragma weak dsm_place
#pragma weak dsm_size

#define PAGE 4096ul
#define STACK (8ul << 20) /* as the main thread has by default; memory is used when it is touched */

/*
 * Barriers of POSIX have a fixed number of threads, so a barrier of ANL has one of POSIX for each
 * number that it is used with.
 */
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

/* Threads of the program that are not yet joined. */
static struct {
	pthread_mutex_t lock; /* guards all that follows */
	pthread_t *threads;
	size_t n, room;
	long created;
} anl;

static __thread long self; /* the number of the calling thread */

static void anl_must(const char *what, int err)
{
	if (!err)
		return;
	fprintf(stderr, "libdsm-anl: %s: %s\n", what, strerror(err));
	exit(1);
}

unsigned long dsm_anl_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (unsigned long)t.tv_sec * 1000000 + (unsigned long)t.tv_nsec / 1000;
}

/* ---- threads --------------------------------------------------------------------------------- */

void dsm_anl_start(void)
{
	dsm_anl_times_init();
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
static void anl_run(void (*fn)(void))
{
	((void *(*)(void *))fn)(NULL);
}

static void *thread(void *arg)
{
	struct birth b = *(struct birth *)arg;

	free(arg);
	self = b.number;
	dsm_anl_thread_begin();
	anl_run(b.fn);
	dsm_anl_thread_end();
	return NULL;
}

static void anl_create(void (*fn)(void))
{
	struct birth *b = malloc(sizeof(*b));
	pthread_attr_t attr;

	anl_must("CREATE", b ? 0 : ENOMEM);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_mutex_lock(&anl.lock);
	if (anl.n == anl.room) {
		anl.room += anl.room ? anl.room : 64;
		anl.threads = realloc(anl.threads, anl.room * sizeof(anl.threads[0]));
		anl_must("CREATE", anl.threads ? 0 : ENOMEM);
	}
	*b = (struct birth){ fn, ++anl.created };
	anl_must("CREATE", pthread_create(&anl.threads[anl.n], &attr, thread, b));
	anl.n++;
	pthread_mutex_unlock(&anl.lock);
	pthread_attr_destroy(&attr);
}

void dsm_anl_create(void (*fn)(void), long threads)
{
	long i;

	dsm_anl_part_begin();
	if (!threads)
		anl_create(fn);
	for (i = 1; i < threads; i++)
		anl_create(fn);
	if (threads)
		anl_run(fn);
}

/* Join all threads that were created: some programs count the first thread, and some do not. */
void dsm_anl_wait_for_end(void)
{
	struct dsm_anl_times start;
	pthread_t t;
	bool more;

	do {
		pthread_mutex_lock(&anl.lock);
		more = anl.n;
		if (more)
			t = anl.threads[--anl.n];
		pthread_mutex_unlock(&anl.lock);
		if (!more)
			continue;
		dsm_anl_wait_begin(&start);
		anl_must("WAIT_FOR_END", pthread_join(t, NULL));
		dsm_anl_wait_end(W_JOIN, &start);
	} while (more);
	dsm_anl_part_end(anl.created + 1);
}

long dsm_anl_self(void)
{
	return self;
}

/* ---- locks, conditions, pauses --------------------------------------------------------------- */

void dsm_anl_lock_init(volatile struct dsm_anl_lock *l, long n)
{
	long i;

	for (i = 0; i < n; i++)
		anl_must("LOCKINIT", pthread_mutex_init((pthread_mutex_t *)&l[i], NULL));
}

void dsm_anl_lock(volatile struct dsm_anl_lock *l)
{
	struct dsm_anl_times start;

	dsm_anl_wait_begin(&start);
	anl_must("LOCK", pthread_mutex_lock((pthread_mutex_t *)l));
	dsm_anl_wait_end(W_LOCK, &start);
}

void dsm_anl_unlock(volatile struct dsm_anl_lock *l)
{
	anl_must("UNLOCK", pthread_mutex_unlock((pthread_mutex_t *)l));
}

void dsm_anl_cond_init(volatile struct dsm_anl_cond *c)
{
	anl_must("CONDVARINIT", pthread_cond_init((pthread_cond_t *)c, NULL));
}

void dsm_anl_cond_wait(volatile struct dsm_anl_cond *c, volatile struct dsm_anl_lock *l)
{
	struct dsm_anl_times start;

	dsm_anl_wait_begin(&start);
	anl_must("CONDVARWAIT", pthread_cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)l));
	dsm_anl_wait_end(W_PAUSE, &start);
}

void dsm_anl_cond_wake(volatile struct dsm_anl_cond *c, int all)
{
	pthread_cond_t *cond = (pthread_cond_t *)c;

	anl_must("CONDVARSIGNAL", all ? pthread_cond_broadcast(cond) : pthread_cond_signal(cond));
}

void dsm_anl_pause_init(volatile struct dsm_anl_pause *p, long n)
{
	long i;

	for (i = 0; i < n; i++)
		anl_must("PAUSEINIT", sem_init((sem_t *)&p[i], 0, 0) ? errno : 0);
}

void dsm_anl_pause_set(volatile struct dsm_anl_pause *p)
{
	anl_must("SETPAUSE", sem_post((sem_t *)p) ? errno : 0);
}

void dsm_anl_pause_wait(volatile struct dsm_anl_pause *p)
{
	struct dsm_anl_times start;

	dsm_anl_wait_begin(&start);
	while (sem_wait((sem_t *)p))
		anl_must("WAITPAUSE", errno == EINTR ? 0 : errno);
	dsm_anl_wait_end(W_PAUSE, &start);
}

/* ---- barriers -------------------------------------------------------------------------------- */

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
	anl_must("BARRIER", pthread_mutex_lock(&b->lock));
	m = find_meeting(b, n);
	if (!m) {
		m = calloc(1, sizeof(*m));
		anl_must("BARRIER",
			 m ? pthread_barrier_init(&m->barrier, NULL, (unsigned int)n) : ENOMEM);
		m->n = n;
		m->next = b->first;
		__atomic_store_n(&b->first, m, __ATOMIC_RELEASE);
	}
	anl_must("BARRIER", pthread_mutex_unlock(&b->lock));
	return m;
}

void dsm_anl_barrier_init(volatile struct dsm_anl_barrier *barrier, long n)
{
	struct barrier *b = (struct barrier *)barrier;

	b->first = NULL;
	b->n = n;
	anl_must("BARINIT", pthread_mutex_init(&b->lock, NULL));
}

void dsm_anl_barrier(volatile struct dsm_anl_barrier *barrier, long n)
{
	struct barrier *b = (struct barrier *)barrier;
	struct dsm_anl_times start;
	int err;

	dsm_anl_wait_begin(&start);
	if (!n)
		n = b->n;
	err = pthread_barrier_wait(&meeting_of(b, n)->barrier);
	anl_must("BARRIER", err == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : err);
	dsm_anl_wait_end(W_BARRIER, &start);
}

/* ---- loops ----------------------------------------------------------------------------------- */

void dsm_anl_counter_init(volatile struct dsm_anl_counter *counter)
{
	struct counter *c = (struct counter *)counter;

	c->next = c->out = c->round = 0;
	anl_must("GSINIT", pthread_mutex_init(&c->lock, NULL));
	anl_must("GSINIT", pthread_cond_init(&c->all, NULL));
}

/*
 * Returns the next subscript, up to max. Then it returns -1, but only when all threads have got
 * here, so that no thread begins the next loop too early.
 */
long dsm_anl_counter_next(volatile struct dsm_anl_counter *counter, long max, long threads)
{
	struct counter *c = (struct counter *)counter;
	struct dsm_anl_times start;
	long got = -1, round;

	dsm_anl_wait_begin(&start);
	anl_must("GETSUB", pthread_mutex_lock(&c->lock));
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
	dsm_anl_wait_end(got < 0 ? W_BARRIER : W_LOCK, &start);
	return got;
}

/* ---- memory ---------------------------------------------------------------------------------- */

struct placing {
	void *at;
	size_t size;
	long home;
};

/*
 * The home is the rank on which the thread of this number is created. This is a hint: what cannot
 * move stays. So it does not use dsm_malloc_on(), which would fail then, and whose memory free()
 * does not accept.
 */
static void anl_place(void *arg)
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
	void *p = size < PAGE  ? malloc(size ? size : 1)
		: whole < size ? NULL
			       : aligned_alloc(PAGE, whole);

	if (!p) {
		fprintf(stderr, "libdsm-anl: no memory for %lu bytes%s\n", size,
			dsm_size ? " (DSM_HEAP is the limit)" : "");
		exit(1);
	}
	if (home >= 0 && size >= PAGE && dsm_size && dsm_size() > 1) {
		struct placing arg = { p, whole, home };

		dsm_call(anl_place, &arg);
	}
	return p;
}

void dsm_anl_free(volatile void *p)
{
	free((void *)p);
}

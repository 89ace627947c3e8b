// SPDX-License-Identifier: BSD-2-Clause
/*
 * lock.c - critical, atomic without an instruction, and the locks of omp.h.
 *
 * An omp_lock_t has four bytes: the number of a lock, from 1 on. Locks are in pieces that stay
 * where they are.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "entry.h"
#include "team.h"

/* ---- critical, atomic ------------------------------------------------------------------------ */

static pthread_mutex_t unnamed = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t makes = PTHREAD_MUTEX_INITIALIZER; /* to make others */

ENTRY void GOMP_critical_start(void)
{
	pthread_mutex_lock(&unnamed);
}

ENTRY void GOMP_critical_end(void)
{
	pthread_mutex_unlock(&unnamed);
}

ENTRY void GOMP_atomic_start(void)
{
	pthread_mutex_lock(&atomics);
}

ENTRY void GOMP_atomic_end(void)
{
	pthread_mutex_unlock(&atomics);
}

static pthread_mutex_t *mutex_make(void)
{
	pthread_mutex_t *m = openmp_must(malloc(sizeof(*m)), "a lock");

	if (pthread_mutex_init(m, NULL))
		openmp_die("a lock cannot be made");
	return m;
}

/* *name: a variable of the program, NULL at first, and written once. */
ENTRY void GOMP_critical_name_start(void **name)
{
	pthread_mutex_t *m = *(void *volatile *)name;

	if (!m) {
		pthread_mutex_lock(&makes);
		if (!*name)
			*name = mutex_make();
		m = *name;
		pthread_mutex_unlock(&makes);
	}
	pthread_mutex_lock(m);
}

ENTRY void GOMP_critical_name_end(void **name)
{
	pthread_mutex_unlock(*name);
}

/* ---- locks of omp.h -------------------------------------------------------------------------- */

#define PIECE 1024u
#define PIECES 4096u

struct lock {
	pthread_mutex_t mutex;
	uint32_t next; /* free lock, + 1 */
};

struct nest { /* omp_nest_lock_t, of 16 bytes */
	uint32_t lock;
	uint32_t count;
	uint64_t owner; /* under the lock */
};

/* Under `makes`; but a thread that has a lock's number reads its piece without. */
static struct lock *pieces[PIECES];
static uint32_t used, unused; /* unused: the first free one, + 1 */

static struct lock *lock_find(uint32_t lock)
{
	if (!lock)
		openmp_die("a lock is used that was not initialised");
	return &pieces[(lock - 1) / PIECE][(lock - 1) % PIECE];
}

static pthread_mutex_t *mutex_of(uint32_t lock)
{
	return &lock_find(lock)->mutex;
}

static uint32_t lock_new(void)
{
	uint32_t at;

	pthread_mutex_lock(&makes);
	at = unused;
	if (!at) {
		at = ++used;
		if (at > PIECE * PIECES)
			openmp_die("more than %u locks", PIECE * PIECES);
		if (!pieces[(at - 1) / PIECE])
			pieces[(at - 1) / PIECE] = calloc(PIECE, sizeof(struct lock));
		if (!pieces[(at - 1) / PIECE] || pthread_mutex_init(mutex_of(at), NULL))
			openmp_die("no memory for a lock");
	} else {
		unused = lock_find(at)->next;
	}
	pthread_mutex_unlock(&makes);
	return at;
}

static void lock_free(uint32_t lock)
{
	pthread_mutex_lock(&makes);
	lock_find(lock)->next = unused;
	unused = lock;
	pthread_mutex_unlock(&makes);
}

ENTRY void omp_init_lock(uint32_t *lock)
{
	*lock = lock_new();
}

ENTRY void omp_init_lock_with_hint(uint32_t *lock, int hint)
{
	(void)hint;
	*lock = lock_new();
}

ENTRY void omp_destroy_lock(uint32_t *lock)
{
	lock_free(*lock);
	*lock = 0;
}

ENTRY void omp_set_lock(uint32_t *lock)
{
	pthread_mutex_lock(mutex_of(*lock));
}

ENTRY void omp_unset_lock(uint32_t *lock)
{
	pthread_mutex_unlock(mutex_of(*lock));
}

ENTRY int omp_test_lock(uint32_t *lock)
{
	return !pthread_mutex_trylock(mutex_of(*lock));
}

ENTRY void omp_init_nest_lock(struct nest *l)
{
	*l = (struct nest){ .lock = lock_new() };
}

ENTRY void omp_init_nest_lock_with_hint(struct nest *l, int hint)
{
	(void)hint;
	omp_init_nest_lock(l);
}

ENTRY void omp_destroy_nest_lock(struct nest *l)
{
	lock_free(l->lock);
	l->lock = 0;
}

/* A task owns it, or a thread that has none. */
static uint64_t nest_me(void)
{
	return self.task ? (uint64_t)(uintptr_t)self.task : (uint64_t)pthread_self();
}

/* Only the owner finds itself there. */
static bool nest_is_mine(const struct nest *l)
{
	return *(const volatile uint64_t *)&l->owner == nest_me();
}

ENTRY void omp_set_nest_lock(struct nest *l)
{
	if (!nest_is_mine(l)) {
		pthread_mutex_lock(mutex_of(l->lock));
		l->owner = nest_me();
	}
	l->count++;
}

ENTRY void omp_unset_nest_lock(struct nest *l)
{
	if (--l->count)
		return;
	l->owner = 0;
	pthread_mutex_unlock(mutex_of(l->lock));
}

ENTRY int omp_test_nest_lock(struct nest *l)
{
	if (!nest_is_mine(l)) {
		if (pthread_mutex_trylock(mutex_of(l->lock)))
			return 0;
		l->owner = nest_me();
	}
	return (int)++l->count;
}

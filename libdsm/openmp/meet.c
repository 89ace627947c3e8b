// SPDX-License-Identifier: BSD-2-Clause
/* meet.c - see meet.h. */
#include "meet.h"

#include <dsm.h>

#include "icv.h"

/* Absent without libdsm. */
#pragma weak dsm_nodes

#define SPINS 20000u /* of some ns each: about as long as a thread takes to sleep and wake twice */

static bool meet_in_one_node(void)
{
	return !dsm_nodes || dsm_nodes() <= 1;
}

unsigned int meet_spins(unsigned int n)
{
	return meet_in_one_node() && n <= icv_processors() ? SPINS : 0;
}

void meet_init(struct meet *m, unsigned int n)
{
	*m = (struct meet){ .n = n, .near = meet_in_one_node(), .spins = meet_spins(n) };
	pthread_barrier_init(&m->far, NULL, n);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->came, NULL);
}

void meet_destroy(struct meet *m)
{
	pthread_barrier_destroy(&m->far);
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->came);
}

static bool meet_is_in(const struct meet *m, uint32_t round)
{
	return __atomic_load_n(&m->round, __ATOMIC_SEQ_CST) == round;
}

/* The last one. Either it sees who sleeps, or who is about to sleep sees the next round. */
static void meet_end(struct meet *m, uint32_t round)
{
	__atomic_store_n(&m->arrived, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&m->round, round + 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&m->asleep, __ATOMIC_SEQ_CST))
		return;
	pthread_mutex_lock(&m->lock);
	pthread_cond_broadcast(&m->came);
	pthread_mutex_unlock(&m->lock);
}

static void meet_sleep(struct meet *m, uint32_t round)
{
	pthread_mutex_lock(&m->lock);
	__atomic_fetch_add(&m->asleep, 1, __ATOMIC_SEQ_CST);
	while (meet_is_in(m, round))
		pthread_cond_wait(&m->came, &m->lock);
	__atomic_fetch_sub(&m->asleep, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&m->lock);
}

void meet_wait(struct meet *m)
{
	const uint32_t round = __atomic_load_n(&m->round, __ATOMIC_RELAXED);
	unsigned int i;

	if (!m->near) {
		pthread_barrier_wait(&m->far);
		return;
	}
	if (__atomic_add_fetch(&m->arrived, 1, __ATOMIC_ACQ_REL) == m->n) {
		meet_end(m, round);
		return;
	}
	for (i = 0; i < m->spins && meet_is_in(m, round); i++)
		__builtin_ia32_pause();
	if (meet_is_in(m, round))
		meet_sleep(m, round);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * wavefront.c - a plain POSIX threads program: the longest common subsequence of two strings. Each
 * thread has a band of rows and waits by semaphores for the band above, column block by column
 * block; then a few steps of relaxation between barriers.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef THREADS
#define THREADS 4
#endif
#ifndef N
#define N 240 /* a multiple of BLOCK and of THREADS */
#endif
#define BLOCK 40
#ifndef STEPS
#define STEPS 10
#endif

static char a[N], b[N];
static short length[N + 1][N + 1];
static sem_t ready[THREADS + 1];
static pthread_barrier_t barrier;
static double field[2][N];
static int serials;

static void row(int i, int from)
{
	int j;

	for (j = from; j < from + BLOCK; j++)
		if (a[i] == b[j])
			length[i + 1][j + 1] = (short)(length[i][j] + 1);
		else
			length[i + 1][j + 1] = length[i][j + 1] > length[i + 1][j]
				? length[i][j + 1]
				: length[i + 1][j];
}

static void *band(void *arg)
{
	const int me = *(const int *)arg, first = me * (N / THREADS), last = first + N / THREADS;
	int i, from, step;

	for (from = 0; from < N; from += BLOCK) {
		if (me)
			sem_wait(&ready[me]);
		for (i = first; i < last; i++)
			row(i, from);
		sem_post(&ready[me + 1]);
	}
	for (step = 0; step < STEPS; step++) {
		const double *was = field[step % 2];

		for (i = first; i < last; i++)
			field[(step + 1) % 2][i] =
				(was[(i + N - 1) % N] + was[i] + was[(i + 1) % N]) / 3;
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			serials++;
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];
	int me[THREADS], i, left;
	unsigned int seed = 7;
	double sum = 0;

	for (i = 0; i < N; i++) {
		a[i] = (char)('a' + rand_r(&seed) % 4);
		b[i] = (char)('a' + rand_r(&seed) % 4);
		field[0][i] = i % 17;
	}
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (i = 0; i <= THREADS; i++)
		sem_init(&ready[i], 0, 0);
	for (i = 0; i < THREADS; i++) {
		me[i] = i;
		pthread_create(&t[i], NULL, band, &me[i]);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < N; i++)
		sum += field[STEPS % 2][i] * i;
	for (left = 0; !sem_trywait(&ready[THREADS]); left++)
		;
	printf("wavefront: length %d, sum %.9f, %d serial, %d left\n", length[N][N], sum, serials,
	       left);
	return 0;
}

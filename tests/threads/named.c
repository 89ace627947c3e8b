// SPDX-License-Identifier: BSD-2-Clause
/*
 * named.c - a plain program: semaphores by name. Threads open the same name independently, and get
 * the same semaphore; names are taken, free, unlinked while they are in use, and invalid. Also the
 * largest value of a semaphore.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 5, ROUNDS = 50 };

static char ping[64], pong[64];
static long counted;
static sem_t most, *opened[THREADS];
static pthread_barrier_t all;

static const char *error_of(const sem_t *s)
{
	return s == SEM_FAILED ? strerrorname_np(errno) : "0";
}

static const char *error(int result)
{
	return result ? strerrorname_np(errno) : "0";
}

static int value_of(sem_t *s)
{
	int value = -1;

	sem_getvalue(s, &value);
	return value;
}

/* One of them makes it; each uses what another one has opened, as it uses its own. Before, each
 * opens some more than the one before it. */
static void *counter(void *arg)
{
	sem_t **own = arg, *s;
	char name[120];
	int i;

	for (i = 0; i < own - opened; i++) {
		snprintf(name, sizeof(name), "%s-%td-%d", ping, own - opened, i);
		sem_open(name, O_CREAT | O_EXCL, 0600, 0);
		sem_unlink(name);
	}
	*own = s = sem_open(ping, O_CREAT, 0600, 1);
	pthread_barrier_wait(&all);
	for (i = 0; i < ROUNDS && s != SEM_FAILED; i++) {
		while (sem_wait(i % 2 ? s : opened[0]))
			;
		counted++;
		sem_post(i % 2 ? opened[THREADS - 1] : s);
	}
	pthread_barrier_wait(&all);
	sem_close(s);
	return NULL;
}

static void *answers(void *arg)
{
	sem_t *in = sem_open(ping, 0), *out = sem_open(pong, 0);
	struct timespec late;
	int i;

	clock_gettime(CLOCK_REALTIME, &late);
	late.tv_sec += 20;
	for (i = 0; i < ROUNDS && in != SEM_FAILED && out != SEM_FAILED; i++)
		if (!sem_timedwait(in, &late))
			sem_post(out);
	*(int *)arg = sem_close(in) || sem_close(out) ? -1 : i;
	return NULL;
}

static void names(void)
{
	char longest[NAME_MAX + 1];
	sem_t *s, *again, *anew;

	memset(longest, 'x', NAME_MAX);
	longest[NAME_MAX] = 0;
	printf("no such: %s,", error_of(sem_open(ping, 0)));
	printf(" unlink %s\n", error(sem_unlink(ping)));
	printf("bad: %s", error_of(sem_open("", O_CREAT, 0600, 0)));
	printf(" %s", error_of(sem_open("/", O_CREAT, 0600, 0)));
	printf(" %s", error_of(sem_open("/a/b", O_CREAT, 0600, 0)));
	printf(" %s", error_of(sem_open(longest, O_CREAT, 0600, 0)));
	printf(" %s,", error_of(sem_open(ping, O_CREAT, 0600, SEM_VALUE_MAX + 1u)));
	printf(" unlink %s", error(sem_unlink("")));
	printf(" %s", error(sem_unlink("/a/b")));
	printf(" %s\n", error(sem_unlink(longest)));
	s = sem_open(ping, O_CREAT | O_EXCL, 0600, 3);
	printf("made: %s, value %d,", error_of(s), value_of(s));
	printf(" exclusively %s,", error_of(sem_open(ping, O_CREAT | O_EXCL, 0600, 3)));
	again = sem_open(ping, O_CREAT, 0600, 9);
	printf(" again %s, the same %d, value %d\n", error_of(again), again == s, value_of(again));
	printf("unlinked: %s", error(sem_unlink(ping)));
	printf(" %s,", error_of(sem_open(ping, 0)));
	anew = sem_open(ping, O_CREAT, 0600, 1);
	sem_post(again);
	printf(" anew %s, another %d, values %d %d\n", error_of(anew), anew != s, value_of(s),
	       value_of(anew));
	printf("closed: %s", error(sem_close(s)));
	printf(" %s", error(sem_close(again)));
	printf(" %s, opened", error(sem_close(anew)));
	anew = sem_open(ping, 0);
	printf(" %s, value %d,", error_of(anew), value_of(anew));
	printf(" closed %s,", error(sem_close(anew)));
	printf(" unlinked %s", error(sem_unlink(ping)));
	printf(" %s\n", error(sem_unlink(ping)));
	printf("not opened: %s\n", error(sem_close(&most)));
}

int main(void)
{
	pthread_t t[THREADS];
	int answered[2], i;
	sem_t *in, *out;

	snprintf(ping, sizeof(ping), "/dsm-ping-%d", getpid());
	snprintf(pong, sizeof(pong), "/dsm-pong-%d", getpid());
	pthread_barrier_init(&all, NULL, THREADS);
	names();
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, counter, &opened[i]);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < THREADS && opened[i] == opened[0]; i++)
		;
	printf("counted: %ld, one address %d, unlink %s\n", counted, i == THREADS,
	       error(sem_unlink(ping)));

	in = sem_open(ping, O_CREAT | O_EXCL, 0600, 0);
	out = sem_open(pong, O_CREAT | O_EXCL, 0600, 0);
	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, answers, &answered[i]);
	for (i = 0; i < 2 * ROUNDS; i++) {
		sem_post(in);
		while (sem_wait(out))
			;
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	sem_unlink(ping);
	sem_unlink(pong);
	printf("answered: %d %d, at the end %d %d\n", answered[0], answered[1], value_of(in),
	       value_of(out));
	sem_close(in);
	sem_close(out);

	sem_init(&most, 1, SEM_VALUE_MAX - 1);
	printf("most: %s", error(sem_post(&most)));
	printf(" %s", error(sem_post(&most)));
	printf(" %d\n", value_of(&most) == SEM_VALUE_MAX);
	return 0;
}

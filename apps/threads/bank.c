// SPDX-License-Identifier: BSD-2-Clause
/*
 * bank.c - a plain POSIX threads program: transfers between accounts, each with a mutex of its own
 * in a static array. Auditors hold a reader-writer lock for writing while they add all accounts up.
 */
#define _GNU_SOURCE 1 /* the initialiser of a recursive mutex */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ACCOUNTS 64
#ifndef THREADS
#define THREADS 6
#endif
#ifndef TRANSFERS
#define TRANSFERS 300
#endif

struct account {
	pthread_mutex_t lock;
	long balance;
};

static struct account accounts[ACCOUNTS];
static pthread_rwlock_t books = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t journal = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static long entries, audits;

static void note(int depth)
{
	pthread_mutex_lock(&journal);
	if (depth)
		note(depth - 1);
	else
		entries++;
	pthread_mutex_unlock(&journal);
}

static void transfer(int from, int to, long amount)
{
	struct account *a = &accounts[from < to ? from : to], *b = &accounts[from < to ? to : from];

	pthread_rwlock_rdlock(&books);
	pthread_mutex_lock(&a->lock);
	pthread_mutex_lock(&b->lock);
	accounts[from].balance -= amount;
	accounts[to].balance += amount;
	pthread_mutex_unlock(&b->lock);
	pthread_mutex_unlock(&a->lock);
	pthread_rwlock_unlock(&books);
}

static void audit(void)
{
	long sum = 0;
	int i;

	pthread_rwlock_wrlock(&books);
	for (i = 0; i < ACCOUNTS; i++)
		sum += accounts[i].balance;
	audits++;
	pthread_rwlock_unlock(&books);
	if (sum != ACCOUNTS * 1000) {
		printf("bank: an audit finds %ld\n", sum);
		exit(1);
	}
}

static void *clerk(void *arg)
{
	unsigned int seed = (unsigned int)(long)arg;
	int i;

	for (i = 0; i < TRANSFERS; i++) {
		int from = rand_r(&seed) % ACCOUNTS, to = rand_r(&seed) % ACCOUNTS;

		if (from != to)
			transfer(from, to, rand_r(&seed) % 100);
		if (i % 50 == 0)
			audit();
		if (i % 10 == 0)
			note(2);
	}
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];
	long i, sum = 0;

	for (i = 0; i < ACCOUNTS; i++) {
		pthread_mutex_init(&accounts[i].lock, NULL);
		accounts[i].balance = 1000;
	}
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, clerk, (void *)(i + 1)))
			return 2;
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < ACCOUNTS; i++) {
		sum += accounts[i].balance;
		pthread_mutex_destroy(&accounts[i].lock);
	}
	printf("bank: %ld in all, %ld entries, %ld audits\n", sum, entries, audits);
	return 0;
}

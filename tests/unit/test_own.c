// SPDX-License-Identifier: BSD-2-Clause
/* test_own.c - the transports' own heap. */
#include "suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/own.h"

UNIT_TEST(test_blocks_do_not_overlap)
{
	static const size_t sizes[] = { 0, 1, 40, 64, 65, 4096, 100000, 1 << 20, 3 << 20, 9 << 20 };
	enum { N = 10, EACH = 20 };
	unsigned char *p[N][EACH];
	size_t i, k, b;
	int wrong = 0;

	for (i = 0; i < N; i++)
		for (k = 0; k < EACH; k++) {
			p[i][k] = own_alloc(sizes[i], 0);
			ck_assert_ptr_nonnull(p[i][k]);
			ck_assert(own_is(p[i][k]) && own_size(p[i][k]) >= sizes[i]);
			memset(p[i][k], (int)(i * EACH + k), sizes[i]);
		}
	for (i = 0; i < N; i++)
		for (k = 0; k < EACH; k++) {
			for (b = 0; b < sizes[i]; b += 61)
				wrong += p[i][k][b] != (unsigned char)(i * EACH + k);
			own_free(p[i][k]);
		}
	ck_assert_int_eq(wrong, 0);
}

UNIT_TEST(test_alignment_is_kept)
{
	size_t align;

	for (align = 1; align <= 1 << 20; align *= 2) {
		char *p = own_alloc(100, align);

		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % align, 0);
		memset(p, 1, 100);
		own_free(p);
	}
}

UNIT_TEST(test_strangers_are_told_apart)
{
	char on_stack = 0, *heap = malloc(10), *large = own_alloc(9 << 20, 0);

	ck_assert(!own_is(&on_stack) && !own_is(heap) && !own_is(NULL) && own_is(large) &&
		  own_is(large + (8 << 20)));
	own_free(large);
	ck_assert(!own_is(large));
	free(heap);
}

UNIT_TEST(test_memory_is_used_again)
{
	void *first = own_alloc(5000, 0), *p;
	int i, wrong = 0;

	own_free(first);
	for (i = 0; i < 100000; i++) {
		p = own_alloc(5000, 0);
		wrong += p != first;
		own_free(p);
	}
	p = own_zalloc(5000);
	for (i = 0; i < 5000; i++)
		wrong += ((char *)p)[i] != 0;
	memset(p, 7, 5000);
	p = own_realloc(p, 50000);
	for (i = 0; i < 5000; i++)
		wrong += ((char *)p)[i] != 7;
	own_free(p);
	ck_assert_int_eq(wrong, 0);
}

static void *work(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg, i;
	unsigned char *p[64] = { 0 };
	size_t n[64] = { 0 }, b, wrong = 0;

	for (i = 0; i < 20000; i++) {
		unsigned int k = (unsigned int)rand_r(&seed) % 64;

		for (b = 0; p[k] && b < n[k]; b += 97)
			wrong += p[k][b] != (unsigned char)(k + (uintptr_t)arg);
		own_free(p[k]);
		n[k] = (size_t)rand_r(&seed) % 9000;
		p[k] = own_alloc(n[k], 0);
		memset(p[k], (int)(k + (uintptr_t)arg), n[k]);
	}
	for (i = 0; i < 64; i++)
		own_free(p[i]);
	return (void *)wrong;
}

UNIT_TEST(test_threads_and_children)
{
	pthread_t t[4];
	int i, status;
	void *wrong;
	uintptr_t k;

	for (k = 0; k < 4; k++)
		pthread_create(&t[k], NULL, work, (void *)k);
	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) { /* another thread may have held the lock */
			own_free(own_alloc(100, 0));
			/*
			 * at an exit, thread sanitizer would report the parent's threads as leaked
			 */
			raise(SIGKILL);
		}
		waitpid(pid, &status, 0);
		ck_assert_int_eq(status, SIGKILL);
	}
	for (k = 0; k < 4; k++) {
		pthread_join(t[k], &wrong);
		ck_assert_ptr_null(wrong);
	}
}

UNIT_SUITE("own", .seconds = 60)

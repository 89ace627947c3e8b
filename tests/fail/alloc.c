// SPDX-License-Identifier: BSD-2-Clause
/*
 * alloc.c - misses of a thread that was interrupted inside malloc(): nothing on their way
 * allocates.
 *
 * This program's own malloc() takes a lock that a thread holds while it accesses shared memory. If
 * it comes there itself, it says so and aborts; if another thread of the process does, that waits
 * for the lock, so that a miss which needs it hangs.
 *
 *   alloc [ROUNDS]    over all blocks; 40
 */
#include <dsm.h>

#include <errno.h>
#include <execinfo.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define BLOCKS 96
#define BIG (64 << 10)
#define KEYS 40 /* more than those for which pthread_setspecific() never allocates */

static __thread int missing __attribute__((tls_model("initial-exec")));
static int locked; /* by a thread that misses */
static volatile char *memory, *big;
static int me;

static void enter(void)
{
	static const char text[] = "malloc in a miss\n";
	void *at[32];

	if (missing) {
		missing = 0;
		if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
			backtrace_symbols_fd(at, backtrace(at, 32), STDERR_FILENO);
		abort();
	}
	while (__atomic_load_n(&locked, __ATOMIC_ACQUIRE))
		usleep(50);
}

void *malloc(size_t size)
{
	enter();
	return mallocx(size ? size : 1, 0);
}

void free(void *p)
{
	if (!p)
		return;
	enter();
	dallocx(p, 0);
}

void *calloc(size_t n, size_t size)
{
	enter();
	return mallocx(n && size ? n * size : 1, MALLOCX_ZERO);
}

void *realloc(void *p, size_t size)
{
	if (!p)
		return malloc(size);
	enter();
	return rallocx(p, size ? size : 1, 0);
}

void *memalign(size_t align, size_t size);
void *memalign(size_t align, size_t size)
{
	enter();
	return mallocx(size ? size : 1, MALLOCX_ALIGN(align));
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	void *p = memalign(align, size);

	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

static void touch(volatile char *at)
{
	__atomic_store_n(&locked, 1, __ATOMIC_RELEASE);
	missing = 1;
	__atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
	missing = 0;
	__atomic_store_n(&locked, 0, __ATOMIC_RELEASE);
}

/* A thread whose first visit to the runtime is a miss inside malloc(). */
static void *fresh(void *arg)
{
	touch(memory + BLOCKS * 4096);
	return arg;
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 40;
	struct dsm_region_options opt = { .block_size = BIG };
	dsm_region_t *r, *s;
	void *unused[1];
	pthread_key_t key;
	pthread_t t;
	int i, k;

	backtrace(unused, 1); /* loads what it needs */
	for (i = 0; i < KEYS; i++)
		check(!pthread_key_create(&key, NULL), "no key");
	MUST(dsm_init(NULL));
	me = dsm_rank();
	MUST(dsm_region_open("pages", (BLOCKS + 1) * 4096, NULL, &r));
	MUST(dsm_region_open("large", BLOCKS / 8 * BIG, &opt, &s));
	memory = dsm_region_base(r);
	big = dsm_region_base(s);
	MUST(dsm_barrier());
	for (k = 0; k < rounds; k++) {
		for (i = 0; i < BLOCKS; i++)
			touch(memory + (i * 7 + me * 5) % BLOCKS * 4096);
		for (i = 0; i < BLOCKS / 8; i++)
			touch(big + (i + me) % (BLOCKS / 8) * BIG);
		if (k % 8 != 7 && k != rounds - 1)
			continue;
		MUST(dsm_barrier());
		pthread_create(&t, NULL, fresh, NULL);
		pthread_join(t, NULL);
	}
	MUST(dsm_barrier());
	for (i = 0; i < BLOCKS; i++)
		if (memory[i * 4096] != (char)(rounds * dsm_size()) ||
		    big[i / 8 * BIG] != (char)(rounds * dsm_size()))
			must(-EIO, "what was counted");
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return 0;
}

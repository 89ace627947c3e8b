/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * miss.c - one write miss, for tests/trace/run: writes the address of each function of libdsm that
 * is entered meanwhile to FILE.RANK.
 *
 * Two ranks, each a node. The block is at home at rank 0, which has written it. Rank 1 writes it.
 * The threads of the program at rank 0 are outside libdsm, so its service thread serves the
 * request. Lines: service|thread ADDRESS, in the order of the entries.
 */
#define _GNU_SOURCE
#include <dsm.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define MOST 100000

static struct entry {
	void *function;
	pid_t thread;
} entries[MOST];
static unsigned int count;
static bool listens; /* atomic */

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *from)
{
	unsigned int at;

	(void)from;
	if (!__atomic_load_n(&listens, __ATOMIC_RELAXED))
		return;
	at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
	if (at < MOST)
		entries[at] = (struct entry){ function, gettid() };
}

void __cyg_profile_func_exit(void *function, void *from)
{
	(void)function;
	(void)from;
}

int main(int argc, char **argv)
{
	struct dsm_region_options how = { .home = DSM_HOME_FIXED };
	dsm_region_t *region;
	volatile char *byte;
	char name[4096];
	FILE *file;

	if (argc < 2 || dsm_init(NULL) || dsm_region_open("miss", 4096, &how, &region))
		return 1;
	byte = dsm_region_base(region);
	if (dsm_rank() == 0)
		*byte = 1;
	dsm_barrier();
	usleep(300000); /* what the barrier has left to do is done */
	__atomic_store_n(&listens, dsm_rank() == 0, __ATOMIC_SEQ_CST);
	usleep(200000);
	if (dsm_rank() == 1) {
		__atomic_store_n(&listens, true, __ATOMIC_SEQ_CST);
		*byte = 2;
		__atomic_store_n(&listens, false, __ATOMIC_SEQ_CST);
	}
	usleep(500000);
	__atomic_store_n(&listens, false, __ATOMIC_SEQ_CST);
	snprintf(name, sizeof(name), "%s.%d", argv[1], dsm_rank());
	file = fopen(name, "w");
	if (!file)
		return 1;
	for (unsigned int i = 0; i < count && i < MOST; i++)
		fprintf(file, "%s %p\n", entries[i].thread == getpid() ? "thread" : "service",
			entries[i].function);
	if (fclose(file))
		return 1;
	dsm_barrier();
	return dsm_finalize() < 0 || count >= MOST;
}

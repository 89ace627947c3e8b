// SPDX-License-Identifier: BSD-2-Clause
/*
 * window.c - chooses the address of the window. Ranges of its size are reserved until the ranks
 * have agreed on one of them.
 */
#include "start/window.h"

#include <errno.h>
#include <sys/mman.h>

#include "job/job.h"
#include "util/log.h"

/*
 * Candidate addresses: away from loaders, heaps and stacks, and where sanitizers allow programs to
 * map.
 */
/* clang-format off */
static const uint64_t places[] = {
#ifdef __SANITIZE_THREAD__
	0x7e9000000000, 0x7eb000000000, 0x7ed000000000, 0x7ef000000000,
#else
	0x200000000000, 0x280000000000, 0x300000000000, 0x180000000000, 0x400000000000, 0x7d0000000000,
#endif
};
/* clang-format on */
#define PLACES (sizeof(places) / sizeof(places[0]))

static uint32_t reserved, chosen; /* a bit for each place */

uint32_t window_reserve(void)
{
	unsigned int i;

	reserved = 0;
	for (i = 0; i < PLACES; i++) {
		void *want = (void *)(uintptr_t)places[i];
		void *at = mmap(want, job.set.space, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
				-1, 0);

		if (at == want)
			reserved |= 1u << i;
		else if (at != MAP_FAILED)
			munmap(at, job.set.space);
	}
	return reserved;
}

static void window_release_mask(uint32_t mask)
{
	unsigned int i;

	for (i = 0; i < PLACES; i++)
		if (mask >> i & 1)
			munmap((void *)(uintptr_t)places[i], job.set.space);
	reserved &= ~mask;
}

int window_choose(uint32_t common)
{
	if (!common) {
		log_line(
			"no range of %zu GiB of addresses is free%s (smaller: DSM_SPACE; limit: `ulimit -v`)",
			job.set.space >> 30, job.size > 1 ? " in all ranks" : "");
		return -EADDRNOTAVAIL;
	}
	chosen = common & -common;
	window_release_mask(reserved & ~chosen);
	job.base = (char *)(uintptr_t)places[__builtin_ctz(common)];
	return 0;
}

void window_release(bool gone)
{
	if (gone)
		reserved &= ~chosen;
	window_release_mask(reserved);
}

// SPDX-License-Identifier: BSD-2-Clause
/* touched.c - see touched.h. */
#include "fault/touched.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/frames.h"
#include "fault/range.h"

#define PRESENT (1ull << 63) /* in /proc/self/pagemap */

_Static_assert(TOUCHED_PAGES *PAGE_BYTES == FRAMES_CHUNK, "a chunk");

static int pagemap = -1;

void touched_open(void)
{
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

void touched_close(void)
{
	if (pagemap >= 0)
		close(pagemap);
	pagemap = -1;
}

bool touched_known(void)
{
	return pagemap >= 0;
}

uint16_t touched_in(size_t chunk)
{
	uint64_t entries[TOUCHED_PAGES];
	uint16_t mapped = 0;
	off_t at = (off_t)((uintptr_t)range_at(chunk * FRAMES_CHUNK) / PAGE_BYTES *
			   sizeof(entries[0]));
	unsigned int i;

	if (pread(pagemap, entries, sizeof(entries), at) != (ssize_t)sizeof(entries))
		return UINT16_MAX;
	for (i = 0; i < TOUCHED_PAGES; i++)
		mapped |= (uint16_t)(!!(entries[i] & PRESENT) << i);
	return mapped;
}

void touched_hide(size_t off, size_t len)
{
	const size_t end = off + len;
	size_t next;

	for (; off < end; off = next) {
		next = range_run(off, end);
		madvise(range_at(off), next - off,
			MADV_DONTNEED); /* as mapped, they count as used */
	}
}

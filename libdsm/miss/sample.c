// SPDX-License-Identifier: BSD-2-Clause
/* sample.c - see sample.h. */
#include "miss/sample.h"

#include "fault/frames.h"
#include "fault/touched.h"
#include "job/job.h"
#include "job/memory.h"
#include "miss/footprint.h"

#define REGIONS 4u /* a region is not disturbed by another, mostly */

_Static_assert(FOOTPRINT_PAGES == TOUCHED_PAGES, "one chunk");

static __thread int8_t trust[REGIONS] __attribute__((tls_model("initial-exec")));

bool sample_works(void)
{
	return touched_known() && frames_alone();
}

struct footprint *sample_chunk(size_t off, unsigned int *page)
{
	*page = (unsigned int)(off >> PAGE_SHIFT) % FOOTPRINT_PAGES;
	return &job.mem.chunks[(off >> PAGE_SHIFT) / FOOTPRINT_PAGES];
}

int8_t *sample_trust(uint16_t region)
{
	return &trust[region % REGIONS];
}

static bool is_sampled(size_t off)
{
	unsigned int page;

	return sample_works() && footprint_sampled(sample_chunk(off, &page));
}

void sample_opened(size_t off, unsigned int n)
{
	const size_t end = off + n * PAGE_BYTES;
	size_t next;

	for (; off < end; off = next) {
		next = (off / FRAMES_CHUNK + 1) * FRAMES_CHUNK;
		next = next < end ? next : end;
		if (is_sampled(off))
			touched_hide(off, next - off);
	}
}

void sample_drops(size_t off)
{
	struct footprint *chunk;
	unsigned int page;
	bool touched;

	if (!sample_works())
		return;
	chunk = sample_chunk(off, &page);
	touched = footprint_sampled(chunk) && touched_in(off / FRAMES_CHUNK) >> page & 1;
	footprint_dropped(chunk, page, touched);
}

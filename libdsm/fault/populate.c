// SPDX-License-Identifier: BSD-2-Clause
/*
 * populate.c - see populate.h.
 *
 * A read fault on shared memory maps not only its page but all pages around it that are in the object: a chunk of 64 KiB, by
 * default (fault-around). A write fault maps one. So a pass goes over the window and has one page of each chunk mapped for reading,
 * one that lseek(SEEK_DATA) finds in the object. On this path a shared mapping is writable at once.
 *
 * A pass begins when the node has enough frames more than at the last one (GROWTH), so all passes together ask a bounded number
 * of times for each chunk. A rank may never touch what it maps here: a pass ends after PASS_MAX, for which the page tables take
 * 1 MiB.
 *
 * Between the search for a page and the call that maps it, another rank may free the page:
 *
 *   populate_step()                  none_shut() of another rank
 *     lseek(): the page is there
 *                                      takes the page from the object
 *     MADV_POPULATE_READ: a new page,
 *     of zeros
 *
 * What has been given back reads as zeros, so nothing is lost but the page, until its range is given back again.
 */
#include "fault/populate.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault/frames.h"
#include "fault/range.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define GROWTH_MIN (256ul << 10) /* less is not worth a pass */
#define GROWTH_SHIFT 3           /* nor is less than an eighth */
#define PASS_MAX (512ul << 20)
#define STEP_MAX (128ul << 20) /* of a pass, in a call: some milliseconds */
#define LOOK_NS 1000000ull     /* between two looks at how many frames there are */

static struct {
	uint32_t lock;
	bool works;     /* the kernel knows the call */
	bool under_way; /* a pass is, has come to `at`, and has asked for `bytes` */
	size_t at, bytes;
	size_t frames; /* bytes in the object, when the last pass began */
	uint64_t looked;
} pass;

void populate_open(void)
{
	pass.works = frames_node.memfd >= 0 && !frames_alone() && !madvise(frames_node.base, 0, MADV_POPULATE_READ);
	pass.under_way = false;
	pass.frames = 0;
	pass.looked = 0;
}

/* Has the node so many frames more that a pass pays? */
static bool grown(void)
{
	struct stat s;
	size_t bytes;

	if (fstat(frames_node.memfd, &s))
		return false;
	bytes = (size_t)s.st_blocks * 512;
	if (bytes < pass.frames)
		pass.frames = bytes;
	if (bytes - pass.frames < GROWTH_MIN || bytes - pass.frames < pass.frames >> GROWTH_SHIFT)
		return false;
	pass.frames = bytes;
	return true;
}

/* The next chunk of the pass that has a page in the object. False: a region that this rank is not attached to. */
static bool next_chunk(void)
{
	off_t data = lseek(frames_node.memfd, (off_t)pass.at, SEEK_DATA);

	if (data < 0 || pass.bytes >= PASS_MAX) {
		pass.under_way = false;
		return false;
	}
	pass.at = ((size_t)data / FRAMES_CHUNK + 1) * FRAMES_CHUNK;
	return !madvise(range_at((size_t)data), FRAMES_PAGE, MADV_POPULATE_READ);
}

/* Nothing new, in nearly all calls. */
static bool soon(uint64_t now)
{
	return now - __atomic_load_n(&pass.looked, __ATOMIC_RELAXED) < LOOK_NS;
}

size_t populate_step(uint64_t now)
{
	size_t chunks = 0, looks;

	if (!pass.works || soon(now) || __atomic_exchange_n(&pass.lock, 1, __ATOMIC_ACQUIRE))
		return 0;
	__atomic_store_n(&pass.looked, now, __ATOMIC_RELAXED);
	if (!pass.under_way && grown()) {
		pass.under_way = true;
		pass.at = pass.bytes = 0;
	}
	for (looks = 0; looks < STEP_MAX / FRAMES_CHUNK && pass.under_way; looks++)
		if (next_chunk()) {
			pass.bytes += FRAMES_CHUNK;
			chunks++;
		}
	__atomic_store_n(&pass.lock, 0, __ATOMIC_RELEASE);
	return chunks;
}

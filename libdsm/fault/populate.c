// SPDX-License-Identifier: BSD-2-Clause
/*
 * populate.c - see populate.h.
 *
 * A pass covers the chunks of the window that have a page in the memory object, which
 * lseek(SEEK_DATA) finds.
 *
 * A pass begins when the node has enough more frames than at the last one (GROWTH_SHIFT), so each
 * chunk is mapped a bounded number of times. A rank may never touch what it maps here: a pass ends
 * after POPULATE_MAX, for which the page tables take 1 MiB.
 */
#include "fault/populate.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fault/frames.h"

#define GROWTH_SHIFT 3         /* growth of less than 1/8 is not worth a pass */
#define STEP_MAX (128ul << 20) /* of a pass, per call: some milliseconds */
#define CHECK_NS 1000000ull    /* between two checks of the number of frames */

static struct {
	uint32_t lock;
	const struct populate_way *way; /* NULL: there is none */
	/* a pass is in progress, has reached `at`, and has mapped `bytes` */
	bool under_way;
	size_t at, bytes;
	size_t frames; /* bytes in the object, when the last pass began */
	uint64_t checked;
} pass;

void populate_open(const struct populate_way *way)
{
	pass.way = way;
	pass.under_way = false;
	pass.frames = 0;
	pass.checked = 0;
}

/* Have the node's frames grown enough for a pass? */
static bool grown(void)
{
	struct stat s;
	size_t bytes;

	if (fstat(frames_node.memfd, &s))
		return false;
	bytes = (size_t)s.st_blocks * 512;
	if (bytes < pass.frames)
		pass.frames = bytes;
	if (bytes - pass.frames < pass.way->growth ||
	    bytes - pass.frames < pass.frames >> GROWTH_SHIFT)
		return false;
	pass.frames = bytes;
	return true;
}

/* Map the next chunk of the pass that has a page in the object. False: nothing was mapped. */
static bool next_chunk(void)
{
	off_t data = lseek(frames_node.memfd, (off_t)pass.at, SEEK_DATA);

	if (data < 0 || pass.bytes >= POPULATE_MAX) {
		pass.under_way = false;
		return false;
	}
	pass.at = ((size_t)data / FRAMES_CHUNK + 1) * FRAMES_CHUNK;
	return pass.way->map((size_t)data);
}

/* In nearly all calls nothing is new. */
static bool soon(uint64_t now)
{
	return now - __atomic_load_n(&pass.checked, __ATOMIC_RELAXED) < CHECK_NS;
}

size_t populate_step(uint64_t now)
{
	size_t chunks = 0, steps;

	if (!pass.way || soon(now) || __atomic_exchange_n(&pass.lock, 1, __ATOMIC_ACQUIRE))
		return 0;
	__atomic_store_n(&pass.checked, now, __ATOMIC_RELAXED);
	if (!pass.under_way && pass.way->check)
		pass.way->check();
	if (!pass.under_way && grown()) {
		pass.under_way = true;
		pass.at = pass.bytes = 0;
	}
	for (steps = 0; steps < STEP_MAX / FRAMES_CHUNK && pass.under_way; steps++)
		if (next_chunk()) {
			pass.bytes += FRAMES_CHUNK;
			chunks++;
		}
	__atomic_store_n(&pass.lock, 0, __ATOMIC_RELEASE);
	return chunks;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * ahead.c - see ahead.h. A chunk's lock is held while its pages are mapped, so that none is lowered
 * or closed meanwhile. core/map.h, map_shown(), determines the access of a page's mapping. A page
 * that cannot be mapped is left to the kernel, whatever the reason. The samples belong to the
 * thread that does a step (populate.c).
 */
#include "fault/ahead.h"

#include "fault/mapping.h"
#include "fault/touched.h"

#define PAGES (FRAMES_CHUNK / PAGE_BYTES)
#define GROWTH (1ul << 20) /* growth of less than one sample is not worth a pass */
#define EVIDENCE 16u       /* fewer pages prove nothing */

static struct {
	int fd;
	struct ahead ahead;
} own = { .fd = -1 };

/*
 * The position in each group of AHEAD_EVERY differs: memory is often divided among ranks at a
 * stride that is a power of two.
 */
bool ahead_samples(size_t chunk)
{
	return (chunk + chunk / AHEAD_EVERY) % AHEAD_EVERY == AHEAD_EVERY / 2;
}

void ahead_note(struct ahead *a, size_t chunk, uint16_t held, uint16_t mapped)
{
	uint16_t left = (uint16_t)(held & ~mapped);

	if (left && a->samples < AHEAD_SAMPLES)
		a->sample[a->samples++] =
			(struct ahead_sample){ .chunk = (uint32_t)chunk, .left = left };
}

void ahead_judge(struct ahead *a, unsigned int used, unsigned int offered)
{
	if (offered >= EVIDENCE)
		a->idle = used < offered / 2;
	a->samples = 0;
}

static enum prot ahead_shown(size_t off)
{
	return map_shown(frames_map(off), (uint16_t)frames_node.self);
}

/* The caller holds the chunk's lock. */
static uint16_t held_in(size_t chunk)
{
	uint16_t held = 0;
	unsigned int i;

	for (i = 0; i < PAGES; i++)
		held |= (uint16_t)((ahead_shown(chunk * FRAMES_CHUNK + i * PAGE_BYTES) !=
				    PROT_CLOSED)
				   << i);
	return held;
}

/* With the lock held, map the pages that are not in `mapped`, neighbours by one call. */
static bool map_pages(size_t chunk, uint16_t mapped)
{
	size_t off = chunk * FRAMES_CHUNK, at, i, next;
	bool any = false;

	for (i = 0; i < PAGES; i = next) {
		enum prot prot = ahead_shown(off + i * PAGE_BYTES);

		next = i + 1;
		if (prot == PROT_CLOSED || mapped >> i & 1)
			continue;
		while (next < PAGES && !(mapped >> next & 1) &&
		       ahead_shown(off + next * PAGE_BYTES) == prot)
			next++;
		at = off + i * PAGE_BYTES;
		if (mapping_continue(own.fd, at, (next - i) * PAGE_BYTES, prot))
			break;
		any = true;
	}
	return any;
}

static bool map_chunk(size_t off)
{
	size_t chunk = off / FRAMES_CHUNK;
	bool sample = ahead_samples(chunk), any = false;
	uint16_t mapped;

	if (!sample && own.ahead.idle)
		return false;
	mapped = touched_in(chunk);
	if (mapped == UINT16_MAX)
		return false;
	frames_lock(off, off + 1);
	if (sample)
		ahead_note(&own.ahead, chunk, held_in(chunk), mapped);
	else
		any = map_pages(chunk, mapped);
	frames_unlock(off, off + 1);
	return any;
}

/* How many pages of the chunks left alone did this rank touch? */
static void check_samples(void)
{
	unsigned int i, used = 0, offered = 0;

	for (i = 0; i < own.ahead.samples; i++) {
		const struct ahead_sample *s = &own.ahead.sample[i];
		size_t off = s->chunk * FRAMES_CHUNK;
		uint16_t mapped = touched_in(s->chunk), held;

		frames_lock(off, off + 1);
		held = held_in(s->chunk);
		frames_unlock(off, off + 1);
		used += (unsigned int)__builtin_popcount(s->left & held & mapped);
		offered += (unsigned int)__builtin_popcount(s->left & held);
	}
	ahead_judge(&own.ahead, used, offered);
}

static const struct populate_way by_continue = { .growth = GROWTH,
						 .check = check_samples,
						 .map = map_chunk };

void ahead_open(int fd)
{
	const bool works =
		!frames_alone() && touched_known() && mapping_can_continue(fd, frames_node.base);

	own.fd = fd;
	own.ahead = (struct ahead){ 0 };
	populate_open(works ? &by_continue : NULL);
}

void ahead_close(void)
{
	populate_open(NULL);
}

// SPDX-License-Identifier: BSD-2-Clause
/* frames.c - see frames.h. */
#include "fault/frames.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/guard.h"
#include "fault/range.h"
#include "util/futex.h"

struct shared {
	uint32_t locks[FRAMES_LOCKS];
	struct map maps[];
};
CORE_ASSERT_SIZE(struct shared, 4096);

struct fault_node frames_node = { .memfd = -1 };

size_t frames_shared(size_t size)
{
	size_t bytes = sizeof(struct shared) + size / PAGE_BYTES * sizeof(struct map);

	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void frames_open(const struct fault_node *n)
{
	frames_node = *n;
	range_window(n->base, n->size);
}

void frames_close(void)
{
	guard_close();
	frames_node = (struct fault_node){ .memfd = -1 };
	range_window(NULL, 0);
}

int frames_read(size_t off, size_t len, void *to)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = pread(frames_node.memfd, (char *)to + at, len - at, (off_t)(off + at));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO;
		if (n > 0)
			at += (size_t)n;
	}
	return 0;
}

int frames_write(size_t off, size_t len, const void *from)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = pwrite(frames_node.memfd, (const char *)from + at, len - at,
				   (off_t)(off + at));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			at += (size_t)n;
	}
	return 0;
}

int frames_punch(size_t off, size_t len)
{
	while (fallocate(frames_node.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			 (off_t)len))
		if (errno != EINTR)
			return -errno;
	return 0;
}

int frames_adopt(size_t off, size_t len, int prot)
{
	void *at = range_at(off);

	if (mmap(at, len, prot, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, frames_node.memfd,
		 (off_t)off) == MAP_FAILED)
		return -errno;
	madvise(at, len, MADV_DONTFORK);
	return 0;
}

static uint32_t *lock_of(size_t chunk)
{
	struct shared *s = frames_node.shared;

	return &s->locks[chunk % FRAMES_LOCKS];
}

void frames_lock(size_t off, size_t end)
{
	size_t c;

	for (c = off / FRAMES_CHUNK; c <= (end - 1) / FRAMES_CHUNK; c++)
		word_lock(lock_of(c));
}

void frames_unlock(size_t off, size_t end)
{
	size_t c;

	for (c = off / FRAMES_CHUNK; c <= (end - 1) / FRAMES_CHUNK; c++)
		word_unlock(lock_of(c));
}

struct map *frames_map(size_t off)
{
	struct shared *s = frames_node.shared;

	return &s->maps[off / PAGE_BYTES];
}

struct map_todo frames_step(enum map_kind kind, size_t off, size_t end, enum map_event ev,
			    unsigned int who)
{
	struct map_todo all = { .except = MAP_NOBODY }, one;

	for (; off < end; off += PAGE_BYTES) {
		map_step(kind, frames_map(off), ev, (uint16_t)who, &one);
		all.down |= one.down;
		all.except = one.except;
		all.to = one.to;
		if (one.open > all.open)
			all.open = one.open;
	}
	return all;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * heapmap.c - private, writable mappings of the program: what one thread writes there, all threads
 * see, so the memory is of the shared heap. The contents of a file are read when it is mapped.
 *
 * munmap(2) may leave pieces of a mapping. The memory is freed with the last one.
 */
#include "shim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "maps.h"
#include "util/sizes.h"

struct whole {
	void *start;
	uint32_t pieces;
};

/* In the heap, in a list under team->maps_lock. */
struct heapmap {
	struct heapmap *next;
	char *low, *high;
	struct whole *whole;
};

/* Is all of [low, high) in pieces? With the lock. */
static bool covers(const char *low, const char *high)
{
	const struct heapmap *c;

	while (low < high) {
		for (c = team->heapmaps; c && !(c->low <= low && low < c->high); c = c->next)
			;
		if (!c)
			return false;
		low = c->high;
	}
	return true;
}

static struct heapmap *heapmap_add(char *low, char *high, struct whole *w)
{
	struct heapmap *c = shared_alloc(sizeof(*c));

	if (c)
		*c = (struct heapmap){ .low = low, .high = high, .whole = w };
	return c;
}

static void link_heapmap(struct heapmap *c)
{
	pthread_mutex_lock(&team->maps_lock);
	c->next = team->heapmaps;
	team->heapmaps = c;
	pthread_mutex_unlock(&team->maps_lock);
}

static bool heapmap_fill(char *at, size_t length, int fd, off_t off)
{
	ssize_t n;

	while (fd >= 0 && length) {
		n = pread(fd, at, length, off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		at += n;
		off += n;
		length -= (size_t)n;
	}
	return true;
}

void *heapmap_make(size_t length, int fd, off_t off)
{
	const int saved = errno;
	struct whole *w = shared_alloc(sizeof(*w));
	struct heapmap *c = NULL;
	char *low = NULL;

	length = whole_pages(length);
	if (w && length)
		low = shared_zalloc(length); /* which begins with a page */
	if (low)
		c = heapmap_add(low, low + length, w);
	if (!c || !heapmap_fill(low, length, fd, off)) {
		free(c);
		free(low);
		free(w);
		errno = saved;
		return NULL;
	}
	*w = (struct whole){ .start = low, .pieces = 1 };
	link_heapmap(c);
	errno = saved;
	return low;
}

/*
 * Take [low, high) out of a piece that overlaps it. spare: for the end of the piece, if both ends
 * are left. With the lock.
 */
static struct heapmap *heapmap_cut(struct heapmap **at, char *low, char *high,
				   struct heapmap **spare)
{
	struct heapmap *c = *at;

	if (c->low < low && c->high > high) {
		**spare = (struct heapmap){
			.next = c->next, .low = high, .high = c->high, .whole = c->whole
		};
		c->whole->pieces++;
		c->next = *spare;
		*spare = NULL;
		c->high = low;
	} else if (c->low < low) {
		c->high = low;
	} else if (c->high > high) {
		c->low = high;
	} else {
		*at = c->next;
		return c;
	}
	return NULL;
}

/* Returns the pieces that are gone. With the lock. */
static struct heapmap *cut_all(char *low, char *high, struct heapmap **spare)
{
	struct heapmap **at = &team->heapmaps, *gone = NULL, *c;

	while (*at) {
		if ((*at)->high <= low || (*at)->low >= high) {
			at = &(*at)->next;
			continue;
		}
		c = heapmap_cut(at, low, high, spare);
		if (!c) {
			at = &(*at)->next;
			continue;
		}
		if (--c->whole->pieces)
			c->whole = NULL;
		c->next = gone;
		gone = c;
	}
	return gone;
}

int heapmap_unmap(void *addr, size_t length)
{
	char *const low = addr, *const high = low + whole_pages(length);
	struct heapmap *gone = NULL, *spare = heapmap_add(NULL, NULL, NULL), *c;
	bool known;

	if (!spare)
		return -ENOMEM;
	pthread_mutex_lock(&team->maps_lock);
	known = low < high && !((uintptr_t)addr & (PAGE_BYTES - 1)) && covers(low, high);
	if (known)
		gone = cut_all(low, high, &spare);
	pthread_mutex_unlock(&team->maps_lock);
	free(spare);
	while ((c = gone)) {
		gone = c->next;
		if (c->whole) {
			free(c->whole->start);
			free(c->whole);
		}
		free(c);
	}
	return known ? 0 : -EINVAL;
}

static bool is_heapmap(const char *low, const char *high)
{
	bool found;

	pthread_mutex_lock(&team->maps_lock);
	found = low < high && covers(low, high);
	pthread_mutex_unlock(&team->maps_lock);
	return found;
}

int heapmap_move(void *addr, size_t old, size_t length, void **out)
{
	char *const from = addr;
	void *to;

	if (!length || !is_heapmap(from, from + whole_pages(old)))
		return -EINVAL;
	if (whole_pages(length) <= whole_pages(old)) {
		*out = addr;
		return whole_pages(length) < whole_pages(old)
			? heapmap_unmap(from + whole_pages(length),
					whole_pages(old) - whole_pages(length))
			: 0;
	}
	to = heapmap_make(length, -1, 0);
	if (!to)
		return -ENOMEM;
	memcpy(to, addr, whole_pages(old));
	*out = to;
	return heapmap_unmap(addr, old);
}

int heapmap_clear(void *addr, size_t length)
{
	if (!is_heapmap(addr, (char *)addr + whole_pages(length)))
		return -EINVAL;
	memset(addr, 0, whole_pages(length));
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * none.c - a job of one node needs no coherence: memory in bounds is plain memory, and never
 * faults. One rank has private memory, which a child gets a copy of; several ranks map the memory
 * object of the node.
 *
 * Nothing here protects single pages except guards below stacks (guard.h), so the memory may have
 * huge pages (DSM_HUGE). The kernel has one setting for private memory and another for memory
 * objects, and by default refuses the second.
 */
#include "fault/frames.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/guard.h"
#include "fault/populate.h"
#include "fault/range.h"
#include "util/log.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define THP "/sys/kernel/mm/transparent_hugepage/"

static bool private_memory(void)
{
	return frames_node.memfd < 0;
}

/* Has a setting of the kernel, as in "always [madvise] never", one of these values? */
static bool setting_is(const char *file, const char *const *values)
{
	char text[128] = "";
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	for (; n > 0 && *values; values++)
		if (strstr(text, *values))
			return true;
	return false;
}

static void advise(const struct fault_node *n)
{
	static const char *const given[] = { "[always]", "[madvise]", "[within_size]",
					     "[advise]", "[force]",   NULL };
	const char *file = n->memfd < 0 ? THP "enabled" : THP "shmem_enabled";

	if (n->huge == FAULT_HUGE_OFF) {
		madvise(n->base, n->size, MADV_NOHUGEPAGE);
		return;
	}
	if (!madvise(n->base, n->size, MADV_HUGEPAGE) && setting_is(file, given))
		return;
	if (n->huge == FAULT_HUGE_ON && n->self == 0)
		log_line("DSM_HUGE=on: this host gives no huge pages to %s (echo %s >%s)",
			 n->memfd < 0 ? "private memory" : "shared memory",
			 n->memfd < 0 ? "madvise" : "advise", file);
}

/*
 * A read fault on shared memory maps its page and all pages around it that are in the object: by
 * default a chunk of 64 KiB (fault-around). A write fault maps one page. So one page of each chunk
 * is mapped for reading. On this path a shared mapping is writable at once.
 *
 * Between the search for a page and the call that maps it, another rank may free the page:
 *
 *   populate_step()                  none_shut() of another rank
 *     lseek(): the page is there
 *                                      takes the page from the object
 *     MADV_POPULATE_READ: a new page,
 *     of zeros
 *
 * Memory that was given back reads as zeros, so only a page is wasted, until its range is given
 * back again.
 *
 * False: this rank is not attached to the region.
 */
static bool map_by_fault(size_t off)
{
	return !madvise(range_at(off), PAGE_BYTES, MADV_POPULATE_READ);
}

static const struct populate_way by_faults = { .growth = 256ul << 10, .map = map_by_fault };

/* Does the kernel support the call? */
static bool populates(void)
{
	return !private_memory() && !frames_alone() &&
		!madvise(frames_node.base, 0, MADV_POPULATE_READ);
}

static int none_open(const struct fault_node *n, int *fd, const char **why)
{
	int flags = n->memfd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	if (mmap(n->base, n->size, PROT_NONE, flags | MAP_FIXED | MAP_NORESERVE, n->memfd, 0) ==
	    MAP_FAILED) {
		*why = "the shared range cannot be mapped";
		return -ENODEV;
	}
	if (n->memfd >= 0)
		madvise(n->base, n->size, MADV_DONTFORK);
	advise(n);
	frames_open(n);
	populate_open(populates() ? &by_faults : NULL);
	*fd = -1;
	return 0;
}

static void none_close(void)
{
	munmap(frames_node.base, frames_node.size);
	frames_close();
}

static int none_bound(size_t off, size_t len, size_t usable)
{
	int err = usable ? range_protect(off, usable, PROT_READ | PROT_WRITE) : 0;

	return err || usable == len ? err : range_protect(off + usable, len - usable, PROT_NONE);
}

/* With one rank, the memory stays as it is. */
static int none_adopt(size_t off, size_t len)
{
	return private_memory() ? 0 : frames_adopt(off, len, PROT_READ | PROT_WRITE);
}

/* A region was removed: the next one there starts with zeros. */
static int none_shut(size_t off, size_t len)
{
	if (!private_memory())
		return frames_punch(off, len);
	return madvise((char *)frames_node.base + off, len, MADV_DONTNEED) ? -errno : 0;
}

static int none_fill(unsigned int who, size_t off, size_t len, const void *src, enum prot prot)
{
	(void)who, (void)off, (void)len, (void)src, (void)prot;
	return 0;
}

static int none_open_for(unsigned int who, size_t off, size_t len)
{
	(void)who, (void)off, (void)len;
	return 0;
}

static int none_lower(size_t off, size_t len)
{
	(void)off, (void)len;
	return 0;
}

static int none_take(size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	(void)off, (void)len, (void)to, (void)writable, (void)pipe;
	return 0;
}

static int none_again(size_t off, size_t len, enum prot prot)
{
	(void)off, (void)len, (void)prot;
	return 0;
}

const struct fault_ops fault_none = {
	.name = "none",
	.open = none_open,
	.close = none_close,
	.bound = none_bound,
	.guard = guard_by_bounds,
	.adopt = none_adopt,
	.fill = none_fill,
	.zero = none_open_for,
	.raise = none_open_for,
	.lower = none_lower,
	.shut = none_shut,
	.take = none_take,
	.again = none_again,
	.populate = populate_step,
};

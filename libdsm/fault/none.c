// SPDX-License-Identifier: BSD-2-Clause
/* none.c - a job of one rank: nobody to keep coherent with, so the range is plain memory and never faults. */
#include "fault/fault.h"

#include <errno.h>
#include <sys/mman.h>

static char *window;

static int none_open(struct frames *f, void *base, size_t size, const char **why)
{
	if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
		*why = "the shared range cannot be mapped";
		return -ENODEV;
	}
	f->uffd = -1;
	window = base;
	return 0;
}

static void none_close(struct frames *f, void *base, size_t size)
{
	(void)f;
	munmap(base, size);
}

static int range_ok(const struct frames *f, size_t off, size_t len)
{
	(void)f, (void)off, (void)len;
	return 0;
}

/* A region has gone: the next one there starts with zeros. */
static int none_shut(const struct frames *f, size_t off, size_t len)
{
	(void)f;
	return madvise(window + off, len, MADV_DONTNEED) ? -errno : 0;
}

static int none_fill(const struct frames *f, size_t off, size_t len, const void *src, enum prot prot)
{
	(void)src, (void)prot;
	return range_ok(f, off, len);
}

static int none_take(const struct frames *f, size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	(void)to, (void)writable, (void)pipe;
	return range_ok(f, off, len);
}

static int none_again(const struct frames *f, size_t off, size_t len, enum prot prot)
{
	(void)prot;
	return range_ok(f, off, len);
}

const struct fault_ops fault_none = {
	.name = "none",
	.open = none_open,
	.close = none_close,
	.fill = none_fill,
	.zero = range_ok,
	.raise = range_ok,
	.lower = range_ok,
	.shut = none_shut,
	.take = none_take,
	.again = none_again,
};

// SPDX-License-Identifier: BSD-2-Clause
/*
 * mprotect.c - faults by SIGSEGV and protection by mprotect(2), for sandboxes that refuse userfaultfd.
 *
 * Each run of equal protection is a VMA of its own, and a process may have vm.max_map_count of them. When the kernel
 * refuses another split, a piece of the range is closed as a whole, which merges its VMAs: the hardware may always allow
 * less than the protocol does, and the next touch opens the block again (`again`).
 */
#include "fault/fault.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE (8ul << 20)

static char *window;
static size_t window_size;
static size_t high;  /* all that was ever opened lies below; atomic */
static size_t next_piece; /* to be closed when the map count runs out; atomic */

static int set(size_t off, size_t len, int prot)
{
	size_t tried = 0, seen = __atomic_load_n(&high, __ATOMIC_RELAXED);

	while (off + len > seen && !__atomic_compare_exchange_n(&high, &seen, off + len, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	while (mprotect(window + off, len, prot)) {
		size_t limit = __atomic_load_n(&high, __ATOMIC_RELAXED), at;

		if (errno != ENOMEM || tried > limit)
			return -errno;
		at = __atomic_fetch_add(&next_piece, PIECE, __ATOMIC_RELAXED) % (limit + PIECE) / PIECE * PIECE;
		if (at < limit)
			mprotect(window + at, at + PIECE > window_size ? window_size - at : PIECE, PROT_NONE);
		tried += PIECE;
	}
	return 0;
}

static int mp_open(struct frames *f, void *base, size_t size, const char **why)
{
	f->uffd = -1;
	if (mmap(base, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, f->memfd, 0) == MAP_FAILED) {
		*why = "the shared range cannot be mapped";
		return -ENODEV;
	}
	madvise(base, size, MADV_DONTFORK);
	window = base;
	window_size = size;
	high = next_piece = 0;
	return 0;
}

static void mp_close(struct frames *f, void *base, size_t size)
{
	(void)f;
	munmap(base, size);
}

static int mp_fill(const struct frames *f, size_t off, size_t len, const void *src, enum prot prot)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = pwrite(f->memfd, (const char *)src + at, len - at, (off_t)(off + at));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			at += (size_t)n;
	}
	return set(off, len, prot == PROT_RW ? PROT_READ | PROT_WRITE : PROT_READ);
}

static int mp_raise(const struct frames *f, size_t off, size_t len)
{
	(void)f;
	return set(off, len, PROT_READ | PROT_WRITE);
}

static int mp_zero(const struct frames *f, size_t off, size_t len)
{
	return mp_raise(f, off, len); /* a hole reads as zeros */
}

static int mp_lower(const struct frames *f, size_t off, size_t len)
{
	(void)f;
	return set(off, len, PROT_READ);
}

static int mp_shut(const struct frames *f, size_t off, size_t len)
{
	int err = set(off, len, PROT_NONE);

	return err ? err : frames_punch(f, off, len);
}

static int mp_take(const struct frames *f, size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	int err = set(off, len, PROT_NONE);

	(void)writable, (void)pipe;
	if (!err)
		err = frames_read(f, off, len, to);
	return err ? err : frames_punch(f, off, len);
}

static int mp_again(const struct frames *f, size_t off, size_t len, enum prot prot)
{
	(void)f;
	return set(off, len, prot == PROT_RW ? PROT_READ | PROT_WRITE : PROT_READ);
}

const struct fault_ops fault_mprotect = {
	.name = "mprotect",
	.peers = false,
	.open = mp_open,
	.close = mp_close,
	.fill = mp_fill,
	.zero = mp_zero,
	.raise = mp_raise,
	.lower = mp_lower,
	.shut = mp_shut,
	.take = mp_take,
	.again = mp_again,
};

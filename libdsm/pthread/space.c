// SPDX-License-Identifier: BSD-2-Clause
/*
 * space.c - gives each rank its own range of addresses.
 *
 * Libraries map memory without a call that could be interposed: the C library its stacks and
 * arenas, the loader what it loads. So the kernel's choice of addresses is restricted: all gaps
 * between mappings are reserved without access, except the rank's range. That costs address space
 * only. The break is reserved as well, and the C library's malloc() uses mmap(2) in its place. The
 * first stack is grown to its limit before.
 *
 * Memory that was mapped before stays where it is, and so do libraries and the first stack. Where
 * such memory is unmapped later, the kernel may choose its addresses again: space_map() and
 * private_alloc() (alloc.c) do not take these.
 */
#include "shim.h"
#include "util/sizes.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "space.h"
#include "util/valgrind.h"

#define SPACE_LOW 0x580000000000ul  /* above position-independent executables */
#define SPACE_HIGH 0x780000000000ul /* below libraries and stacks, with or without randomisation */
#define USER_LOW 0x10000ul          /* vm.mmap_min_addr */
#define USER_HIGH 0x7ffffffff000ul  /* the last address that mmap(2) chooses without a hint */
#define STACK_MOST (64ul << 20)     /* of the first stack, if its size is unlimited */
#define PASSES 16                   /* another thread may map memory in a gap meanwhile */

static struct {
	char *low, *high; /* of this rank */
	size_t each;
	/* the rest is reserved; until then, and without ranges, all addresses are the rank's */
	bool closed;
} space;

int space_owner(const void *p)
{
	const uintptr_t at = (uintptr_t)p;
	uintptr_t rank;

	if (!space.closed || at < SPACE_LOW || at >= SPACE_HIGH)
		return -1;
	rank = (at - SPACE_LOW) / space.each;
	return rank < (uintptr_t)shim.size ? (int)rank : -1;
}

bool space_has(const void *p)
{
	return !space.closed || ((const char *)p >= space.low && (const char *)p < space.high);
}

static bool space_reserve(uintptr_t at, size_t length)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;

	return syscall(SYS_mmap, at, length, (long)PROT_NONE, (long)flags, -1l, 0l) == (long)at;
}

/* A mapping of this process, and the end of the one before it. */
struct place {
	uintptr_t before, low, high;
};

/*
 * Call fn for each mapping in ascending order, and for the end of all addresses. Returns its first
 * error. fn may map memory in the gap: the kernel goes on where its last answer has ended.
 */
static int each_mapping(int (*fn)(const struct place *p))
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct place p = { USER_LOW, 0, 0 };
	bool starts = true;
	char line[256];
	int err = 0;

	if (!f)
		return -errno;
	while (!err && p.high < USER_HIGH) {
		const bool more = fgets(line, sizeof(line), f);

		if (more && (!starts || sscanf(line, "%lx-%lx", &p.low, &p.high) != 2)) {
			starts = strchr(line, '\n');
			continue;
		}
		starts = strchr(line, '\n');
		if (!more || p.high > USER_HIGH)
			p.low = p.high = USER_HIGH;
		err = fn(&p);
		if (p.high > p.before)
			p.before = p.high;
	}
	fclose(f);
	return err;
}

/*
 * Grow the first stack to its limit: below it, addresses are reserved. Memory is used as its pages
 * are written. */
static int grow_stack(const struct place *p)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	struct rlimit limit;
	volatile char *lowest;
	uintptr_t low;

	if (here < p->low || here >= p->high)
		return 0;
	if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur > STACK_MOST)
		limit.rlim_cur = STACK_MOST;
	low = p->high - (limit.rlim_cur & ~(PAGE_BYTES - 1)) + PAGE_BYTES;
	if (low < p->low && p->low - low > PAGE_BYTES) {
		lowest = __builtin_alloca(here - low);
		*lowest = 0;
	}
	return 0;
}

static bool changed; /* by this pass, or by another thread meanwhile */

static int reserve_gap(uintptr_t low, uintptr_t high)
{
	if (low >= high)
		return 0;
	if (space_reserve(low, high - low) || errno == EEXIST)
		changed = true;
	else if (errno != EPERM && errno != EACCES)
		/* vm.mmap_min_addr: the kernel does not choose these addresses */
		return -errno;
	return 0;
}

static int close_gap(const struct place *p)
{
	const uintptr_t low = (uintptr_t)space.low, high = (uintptr_t)space.high;
	int err = reserve_gap(p->before, p->low < low ? p->low : low);

	return err ? err : reserve_gap(p->before > high ? p->before : high, p->low);
}

static int close_gaps(void)
{
	int i, err = 0;

	changed = true;
	for (i = 0; !err && changed && i < PASSES; i++) {
		changed = false;
		err = each_mapping(close_gap);
	}
	return err;
}

static int space_refuse(const char *what, int err)
{
	fprintf(stderr, "libdsm-pthread: rank %d: no range of addresses of its own: %s\n",
		shim.rank, what);
	return err;
}

int space_close(void *at, size_t length)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	return syscall(SYS_mmap, at, length, (long)PROT_NONE, (long)flags, -1l, 0l) == (long)at
		? 0
		: -errno;
}

int space_unmap(void *at, size_t length)
{
	if (!space.closed || !length || ((uintptr_t)at & (PAGE_BYTES - 1)) || space_has(at))
		return syscall(SYS_munmap, at, length) ? -errno : 0;
	return space_close(at, length);
}

void *space_map(void *addr, size_t length, int prot, int flags, int fd, long off)
{
	void *at;

	for (;;) {
		at = (void *)syscall(SYS_mmap, addr, length, (long)prot, (long)flags, (long)fd,
				     off);
		if (at == MAP_FAILED || (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) ||
		    space_has(at) || space_close(at, length))
			return at;
	}
}

int space_start(void)
{
	size_t ranks = 1;
	struct rlimit limit;
	char *at, *low;
	int err;

	if (under_valgrind())
		return 0;
	if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
		return space_refuse(
			"the address space is limited (`ulimit -v unlimited` before the start)",
			-ENOMEM);
	while (ranks < (size_t)shim.size)
		ranks *= 2;
	space.each = (SPACE_HIGH - SPACE_LOW) / ranks;
	low = (char *)SPACE_LOW + (size_t)shim.rank * space.each;
	if (!space_reserve(SPACE_LOW, SPACE_HIGH - SPACE_LOW))
		return space_refuse(
			"addresses from 0x580000000000 to 0x780000000000 are in use (a sanitizer?)",
			-EADDRNOTAVAIL);
	munmap(low, space.each);
	space.high = low + space.each;
	space.low = low;
	err = each_mapping(grow_stack);
	if (!err)
		err = close_gaps();
	if (err)
		return space_refuse(strerror(-err), err);
	at = (char *)syscall(SYS_mmap, NULL, PAGE_BYTES, (long)PROT_NONE,
			     (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1l, 0l);
	if (at < space.low || at >= space.high)
		return space_refuse("the kernel chooses other addresses", -EADDRNOTAVAIL);
	munmap(at, PAGE_BYTES);
	space.closed = true;
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * map.c - mmap(2), munmap(2), mprotect(2), mremap(2) and madvise(2) of the program. Memory that its
 * threads write belongs to the job:
 *
 *   MAP_SHARED | MAP_ANONYMOUS              a region (anon.c)
 *   private, PROT_READ | PROT_WRITE         memory of the heap, with the contents of the file
 *                                           (heapmap.c); very large: a region
 *   other mappings of files                 a mapping in each rank that accesses it (maps.c)
 *   other anonymous mappings, devices       the rank's own, in its range of addresses (maps.c)
 *
 * Mappings of libraries are private to their rank. space.c chooses their addresses.
 */
#include "shim.h"

#include "interpose/files.h"
#include "interpose/raw_syscall.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "closed.h"
#include "maps.h"
#include "space.h"

#define REGION_FROM (1ul << 30) /* of private memory: the heap is left for malloc() */

/* Describes a request that only private memory supports; NULL: the request is supported. */
static const char *unable(int prot, int flags)
{
	if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
		return "mmap() of shared memory at a fixed address";
	if ((prot & (PROT_READ | PROT_WRITE | PROT_EXEC)) != (PROT_READ | PROT_WRITE))
		return "mmap() of shared memory with a protection other than PROT_READ | PROT_WRITE";
	return NULL;
}

/* Is it private memory that the program writes, and the kernel need not know of? */
static bool is_data(size_t length, int prot, int flags, int fd)
{
	const int plain = MAP_TYPE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE | MAP_STACK |
		MAP_DENYWRITE | MAP_EXECUTABLE;
	struct stat file;

	return length && prot == (PROT_READ | PROT_WRITE) && (flags & MAP_TYPE) == MAP_PRIVATE &&
		!(flags & ~plain) &&
		((flags & MAP_ANONYMOUS) || (!fstat(fd, &file) && S_ISREG(file.st_mode)));
}

/* NULL: the heap has no room. Then it is the rank's own. */
static void *map_data(size_t length, int flags, int fd, off_t off)
{
	const int saved = errno;
	void *at = NULL;

	if (!(flags & MAP_ANONYMOUS))
		return off & 4095 ? NULL : heapmap_make(length, fd, off);
	if (length >= REGION_FROM)
		at = anon_map(length);
	else
		at = heapmap_make(length, -1, 0);
	errno = saved;
	return at == MAP_FAILED ? NULL : at;
}

static void *map_of_program(void *addr, size_t length, int prot, int flags, int fd, off_t off)
{
	const int type = flags & MAP_TYPE;
	const char *what;
	void *at;

	if (shim.shares_maps && is_data(length, prot, flags, fd)) {
		at = map_data(length, flags, fd, off);
		if (at)
			return at;
	}
	if (!shim.shares_maps || !length || !(flags & MAP_ANONYMOUS) ||
	    (type != MAP_SHARED && type != MAP_SHARED_VALIDATE))
		return maps_map(addr, length, prot, flags, fd, off);
	what = unable(prot, flags);
	if (!what)
		return anon_map(length);
	start_cannot(what);
	errno = ENOTSUP;
	return MAP_FAILED;
}

static void *map_for(void *addr, size_t length, int prot, int flags, int fd, off_t off,
		     const void *caller)
{
	return caller_is_ours(caller) ? map_of_program(addr, length, prot, flags, fd, off)
				      : space_map(addr, length, prot, flags, fd, off);
}

EXPORT void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t off)
{
	int here, saved;
	void *at;

	if (!shim.active || (flags & MAP_ANONYMOUS) || !dsm_files_open_here ||
	    dsm_files_is_runtime(CALLER))
		return map_for(addr, length, prot, flags, fd, off, CALLER);
	here = dsm_files_open_here(fd); /* the program's descriptor is rank 0's */
	if (here < 0)
		return MAP_FAILED;
	at = map_for(addr, length, prot, flags, here, off, CALLER);
	saved = errno;
	if (here != fd)
		raw_syscall(SYS_close, (const long[6]){ here });
	errno = saved;
	return at;
}

EXPORT void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t off)
	__attribute__((alias("mmap")));

static int map_failed(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

EXPORT int munmap(void *addr, size_t length)
{
	int err;

	if (!caller_is_ours(CALLER))
		return map_failed(space_unmap(addr, length));
	if (!is_shared(addr))
		return maps_unmap(addr, length);
	if (closed_has(addr, length))
		closed_protect(addr, length, PROT_READ | PROT_WRITE); /* the next owner's */
	err = is_mapped(addr) ? anon_unmap(addr, length) : heapmap_unmap(addr, length);
	if (err == -EINVAL)
		start_cannot(is_mapped(addr) ? "munmap() of a part of shared memory"
					     : "munmap() of memory that mmap() has not made");
	return map_failed(err);
}

EXPORT int mprotect(void *addr, size_t length, int prot)
{
	if (!caller_is_ours(CALLER))
		return (int)syscall(SYS_mprotect, addr, length, (long)prot);
	if (!is_shared(addr))
		return maps_protect(addr, length, prot);
	return map_failed(closed_protect(addr, length, prot));
}

EXPORT void *mremap(void *addr, size_t old, size_t length, int flags, ...)
{
	void *to;
	va_list more;
	int err;

	va_start(more, flags);
	to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	if (!caller_is_ours(CALLER))
		return (void *)syscall(SYS_mremap, addr, old, length, (long)flags, to);
	if (!is_shared(addr))
		return maps_move(addr, old, length, flags, to);
	err = flags == MREMAP_MAYMOVE && !closed_has(addr, old)
		? heapmap_move(addr, old, length, &to)
		: -EINVAL;
	if (!err)
		return to;
	errno = err == -EINVAL ? start_cannot("mremap() of shared memory") : -err;
	return MAP_FAILED;
}

#ifndef MADV_COLLAPSE /* newer than some headers */
#define MADV_COLLAPSE 25
#endif

/* Does it change what is read? */
static bool advice_clears(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_REMOVE;
}

static bool advice_is_known(int advice)
{
	return (advice >= MADV_NORMAL && advice <= MADV_DONTNEED) ||
		(advice >= MADV_FREE && advice <= MADV_COLLAPSE);
}

/* Advice is for the kernel's pages; but some promises zeros. */
EXPORT int madvise(void *addr, size_t length, int advice)
{
	if (!caller_is_ours(CALLER) || !is_shared(addr))
		return (int)syscall(SYS_madvise, addr, length, (long)advice);
	if (advice_is_known(advice) && !advice_clears(advice))
		return 0;
	if (advice == MADV_DONTNEED && !closed_has(addr, length) && !heapmap_clear(addr, length))
		return 0;
	errno = advice_is_known(advice)
		? start_cannot("madvise() of this shared memory, with advice that clears it,")
		: EINVAL;
	return -1;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/kmod/common.h"

char memory_scratch[64 << 10];

uint64_t memory_address(uint64_t *r)
{
	switch (pick(r, 6)) {
	case 0: return 0;
	case 1: return (uintptr_t)JOB_BASE + pick(r, JOB_WINDOW);
	case 2: return 0xffff888000000000ull + pick(r, 1 << 30);
	case 3: return (uintptr_t)memory_scratch + sizeof(memory_scratch) - pick(r, 64);
	case 4: return 0x7ffffffff000ull - pick(r, 64);
	default: return next(r);
	}
}

static void map(uint64_t *r, int fd, size_t size)
{
	const size_t length = pick(r, 2) ? JOB_WINDOW : size;
	void *p = mmap(NULL, length, (int)pick(r, 8), pick(r, 2) ? MAP_SHARED : MAP_PRIVATE, fd,
		       (off_t)(pick(r, 4) ? 0 : pick(r, 8) * PAGE));

	if (p != MAP_FAILED && pick(r, 2))
		munmap(p, length);
}

/* Access the window as a debugger does. */
static bool by_file(uint64_t *r, char *at)
{
	int mem = open("/proc/self/mem", O_RDWR);
	bool ok = mem >= 0;

	if (ok && pick(r, 2))
		ok = pread(mem, memory_scratch, PAGE, (off_t)(uintptr_t)at) > 0;
	else if (ok)
		ok = pwrite(mem, memory_scratch, 64, (off_t)(uintptr_t)at) > 0;
	close(mem);
	return ok;
}

/* A system call that faults on the window. */
static bool by_kernel(uint64_t *r, char *at)
{
	int fd = open(pick(r, 2) ? "/dev/zero" : "/proc/self/maps", O_RDONLY);
	bool ok = fd >= 0 && read(fd, at, PAGE) >= 0;

	close(fd);
	return ok;
}

static void advise(uint64_t *r, char *at, size_t size)
{
	static const int advice[] = { MADV_NORMAL,
				      MADV_RANDOM,
				      MADV_WILLNEED,
				      MADV_DONTNEED,
				      MADV_FREE,
				      MADV_REMOVE,
				      MADV_DONTFORK,
				      MADV_DOFORK,
				      MADV_MERGEABLE,
				      MADV_HUGEPAGE,
				      MADV_COLD,
				      MADV_PAGEOUT,
				      22 /* POPULATE_READ */,
				      23 /* POPULATE_WRITE */,
				      25 /* COLLAPSE */ };

	madvise(at, size, advice[pick(r, sizeof(advice) / sizeof(advice[0]))]);
}

static void move(uint64_t *r, char *at, size_t size)
{
	void *p;

	if (pick(r, 60))
		p = mremap(at, size, size * (1 + pick(r, 3)), (int)pick(r, 4));
	else /* rarely move the mapping that the rank uses */
		p = mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED,
			   JOB_BASE + (1ul << 38));
	(void)p;
}

void memory_call(uint64_t *r, int fd)
{
	char *at = JOB_BASE + pick(r, JOB_PAGES) * PAGE;
	const size_t size = (1 + pick(r, 64)) * PAGE;
	struct iovec mine = { memory_scratch, PAGE }, theirs = { at, PAGE };
	struct pollfd p = { .fd = fd, .events = POLLIN };

	switch (pick(r, 13)) {
	case 0:
		if (pick(r, 60))
			munmap(at, size);
		else
			munmap(JOB_BASE, JOB_WINDOW);
		break;
	case 1: map(r, fd, size); break;
	case 2:
	case 3: move(r, at, size); break;
	case 4: mprotect(at, size, (int)pick(r, 8)); break;
	case 5: advise(r, at, size); break;
	case 6:
		if (pick(r, 2))
			mlock(at, size);
		else
			munlock(at, size);
		break;
	case 7: msync(at, size, MS_SYNC); break;
	case 8:
		if (pick(r, 2))
			process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0);
		else
			process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0);
		break;
	case 9: by_file(r, at); break;
	case 10: by_kernel(r, at); break;
	case 11: poll(&p, 1, (int)pick(r, 2)); break;
	default:
		if (lseek(fd, (off_t)pick(r, 100), SEEK_SET) < 0 ||
		    read(fd, memory_scratch, 8) < 0 || write(fd, memory_scratch, 8) < 0)
			break;
	}
}

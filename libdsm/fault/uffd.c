// SPDX-License-Identifier: BSD-2-Clause
/*
 * uffd.c - faults and protection by userfaultfd: missing and write-protect events on shared memory.
 *
 * With UFFD_FEATURE_SIGBUS the faulting thread itself gets a signal: no handler thread has to be woken (`make bench`, rows "fault
 * delivery": 4.4 against 50 us). No VMA is ever split. A descriptor received from
 * another process acts on that process's memory, which is how one rank serves itself from its neighbours.
 *
 * A block without access is a hole in the memory object: dropping access and contents is one fallocate(PUNCH_HOLE), which
 * any process with the descriptor may do, and filling is one UFFDIO_COPY that allocates, copies and maps at once.
 */
#include "fault/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif

#define PIPE_BYTES (64ul << 10) /* a pipe's default capacity */

static uint64_t window;
static bool by_reference; /* splice(2) from a memory object passes pages, not copies */

static int uffd_create(const char **why)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && errno == EPERM)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0) {
		*why = errno == EMFILE ? "no file descriptor left" : "userfaultfd(2) is refused here";
		return errno == EMFILE ? -EMFILE : -ENODEV;
	}
	api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
		       UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
	if (ioctl(fd, UFFDIO_API, &api)) {
		*why = "the kernel's userfaultfd cannot write-protect shared memory (Linux 5.19 can)";
		close(fd);
		return -ENODEV;
	}
	return fd;
}

/* Does a page in a pipe still follow its mapping, and outlive its place in the object? */
static bool probe_reference(void)
{
	int fd = memfd_create("libdsm-probe", MFD_CLOEXEC), pipe[2] = { -1, -1 };
	struct frames f = { .memfd = fd };
	char got[4096] = "";
	off64_t at = 0;
	bool ok = false;
	char *page;

	if (fd < 0)
		return false;
	if (!ftruncate(fd, sizeof(got)) && !pipe2(pipe, O_CLOEXEC)) {
		page = mmap(NULL, sizeof(got), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (page != MAP_FAILED) {
			page[0] = 'a';
			ok = splice(fd, &at, pipe[1], NULL, sizeof(got), SPLICE_F_NONBLOCK) == sizeof(got);
			page[0] = 'b';
			ok = ok && !frames_punch(&f, 0, sizeof(got)) && read(pipe[0], got, sizeof(got)) == sizeof(got) && got[0] == 'b';
			munmap(page, sizeof(got));
		}
		close(pipe[0]);
		close(pipe[1]);
	}
	close(fd);
	return ok;
}

static int uffd_probe(const char **why)
{
	int fd = uffd_create(why);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int uffd_open(struct frames *f, void *base, size_t size, const char **why)
{
	struct uffdio_register reg = {
		.range = { (uint64_t)(uintptr_t)base, size },
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
	};

	f->uffd = uffd_create(why);
	if (f->uffd < 0)
		return f->uffd;
	if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, f->memfd, 0) == MAP_FAILED) {
		*why = "the shared range cannot be mapped";
		goto close_uffd;
	}
	if (ioctl(f->uffd, UFFDIO_REGISTER, &reg)) {
		*why = "userfaultfd cannot watch the shared range";
		goto close_uffd;
	}
	madvise(base, size, MADV_DONTFORK);
	window = (uint64_t)(uintptr_t)base;
	by_reference = probe_reference();
	return 0;

close_uffd:
	close(f->uffd);
	f->uffd = -1;
	return -ENODEV;
}

static void uffd_close(struct frames *f, void *base, size_t size)
{
	munmap(base, size);
	close(f->uffd);
	f->uffd = -1;
}

/* Run an ioctl that reports its progress in *done (bytes, or -errno) until all of len is done. */
static int finish(const struct frames *f, size_t off, size_t len, int64_t done, size_t *at)
{
	if (done > 0)
		*at += (size_t)done;
	if (*at == len)
		return 0;
	switch (errno) {
	case EAGAIN:
		return 1;
	case EEXIST: /* a page where none should be: drop it, its contents are nobody's */
		return frames_punch(f, off + *at, len - *at) ? -EIO : 1;
	case ENOENT:
	case ESRCH:
		return -ESRCH;
	default:
		return -errno;
	}
}

static int uffd_fill(const struct frames *f, size_t off, size_t len, const void *src, enum prot prot)
{
	size_t at = 0;
	int err;

	do {
		struct uffdio_copy c = {
			.dst = window + off + at,
			.src = (uint64_t)(uintptr_t)src + at,
			.len = len - at,
			.mode = UFFDIO_COPY_MODE_DONTWAKE | (prot == PROT_RO ? UFFDIO_COPY_MODE_WP : 0),
		};

		if (!ioctl(f->uffd, UFFDIO_COPY, &c))
			return 0;
		err = finish(f, off, len, c.copy, &at);
	} while (err > 0);
	return err;
}

static int uffd_zero(const struct frames *f, size_t off, size_t len)
{
	size_t at = 0;
	int err;

	do {
		struct uffdio_zeropage z = {
			.range = { window + off + at, len - at },
			.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE,
		};

		if (!ioctl(f->uffd, UFFDIO_ZEROPAGE, &z))
			return 0;
		err = finish(f, off, len, z.zeropage, &at);
	} while (err > 0);
	return err;
}

static int write_protect(const struct frames *f, size_t off, size_t len, uint64_t mode)
{
	struct uffdio_writeprotect w = { .range = { window + off, len }, .mode = mode };

	while (ioctl(f->uffd, UFFDIO_WRITEPROTECT, &w)) {
		if (errno == EAGAIN)
			continue;
		return errno == ENOENT ? -ESRCH : -errno;
	}
	return 0;
}

static int uffd_raise(const struct frames *f, size_t off, size_t len)
{
	return write_protect(f, off, len, UFFDIO_WRITEPROTECT_MODE_DONTWAKE);
}

static int uffd_lower(const struct frames *f, size_t off, size_t len)
{
	return write_protect(f, off, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

/*
 * Ending access and taking the contents with one flush of the other processors' translations, which is most of the cost
 * when the owner is running: a pipe takes a reference to the page, then the hole is punched, and what the pipe holds is
 * what the page held when the last store to it became impossible.
 */
static int take_by_reference(const struct frames *f, size_t off, size_t len, char *to, const int *pipe)
{
	off64_t at = (off64_t)off;
	size_t in = 0, out = 0;
	int err;

	while (in < len) {
		ssize_t n = splice(f->memfd, &at, pipe[1], NULL, len - in, SPLICE_F_NONBLOCK);

		if (n <= 0)
			break;
		in += (size_t)n;
	}
	err = in == len ? frames_punch(f, off, len) : -EAGAIN;
	while (out < in) {
		ssize_t n = read(pipe[0], to + out, in - out);

		if (n <= 0 && errno != EINTR)
			return -EIO;
		if (n > 0)
			out += (size_t)n;
	}
	return err;
}

static int uffd_take(const struct frames *f, size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	int err = -EAGAIN;

	if (writable && by_reference && len <= PIPE_BYTES && pipe[0] >= 0)
		err = take_by_reference(f, off, len, to, pipe);
	if (err != -EAGAIN)
		return err;
	err = writable ? uffd_lower(f, off, len) : 0;
	if (!err)
		err = frames_read(f, off, len, to);
	return err ? err : frames_punch(f, off, len);
}

static int uffd_again(const struct frames *f, size_t off, size_t len, enum prot prot)
{
	(void)f, (void)off, (void)len, (void)prot;
	return 0; /* the page tables are exact: whoever opens the block is about to do so */
}

const struct fault_ops fault_uffd = {
	.name = "uffd",
	.peers = true,
	.probe = uffd_probe,
	.open = uffd_open,
	.close = uffd_close,
	.fill = uffd_fill,
	.zero = uffd_zero,
	.raise = uffd_raise,
	.lower = uffd_lower,
	.shut = frames_punch,
	.take = uffd_take,
	.again = uffd_again,
};

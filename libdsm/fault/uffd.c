// SPDX-License-Identifier: BSD-2-Clause
/*
 * uffd.c - faults and protection by userfaultfd: missing and write-protect events on shared memory.
 *
 * With UFFD_FEATURE_SIGBUS the faulting thread itself gets a signal: no handler thread has to be
 * woken (`make bench`, rows "fault delivery": 4.4 against 50 us). No VMA is ever split. A
 * descriptor received from another process acts on that process's mapping, so whoever changes a
 * page changes it for all ranks of the node.
 *
 * A block without access is a hole in the memory object: dropping access and contents is one
 * fallocate(PUNCH_HOLE), which closes all mappings, and filling is one UFFDIO_COPY that allocates,
 * copies and maps at once, for the rank that waits. From then on the kernel itself maps the page
 * for the other ranks, when they touch it, and no signal comes. Where the node may only read, their
 * mappings have write-protect markers before the page is there: then the kernel maps it read-only,
 * and a store is a signal (core/map.h, MAP_SHOWN). Pages with many neighbours are mapped before
 * they are touched (ahead.h).
 *
 * Does a marker outlive its page? A hole is punched in two steps, and between them a fault may map
 * the page again:
 *
 *   fallocate(PUNCH_HOLE)             a load by another rank
 *                                       finds the page, which is not going yet
 *     unmaps, leaves the markers
 *                                       maps it read-only, in place of its marker
 *     takes the page from the object,
 *     unmaps what is mapped, and with
 *     it the marker
 *
 * So markers count as lost with every hole. They are laid when a page comes to be read, for the
 * chunk around it that is closed, too: a page that comes to be written and leaves from there needs
 * none.
 *
 * The range outside the bounds of regions is a VMA without access, registered as well, because a
 * rank may hold blocks there for others. A block at the end of a region can lie in two VMAs, and
 * then needs a call for each.
 */
#include "fault/frames.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault/ahead.h"
#include "fault/guard.h"
#include "fault/mapping.h"
#include "fault/populate.h"
#include "fault/range.h"
#include "fault/touched.h"
#include "util/hook.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif

#define PIPE_BYTES (64ul << 10) /* default capacity of a pipe */

static int *uffds;        /* by rank of the node; -1: not joined */
static bool by_reference; /* splice(2) from a memory object passes pages by reference */

static int uffd_create(const char **why)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && errno == EPERM)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0) {
		*why = errno == EMFILE ? "no file descriptor left"
				       : "userfaultfd(2) is refused here";
		return errno == EMFILE ? -EMFILE : -ENODEV;
	}
	api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM |
		UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
	if (ioctl(fd, UFFDIO_API, &api)) {
		*why = "the kernel's userfaultfd cannot write-protect shared memory (Linux 5.19 can)";
		close(fd);
		return -ENODEV;
	}
	return fd;
}

/*
 * Does a page in a pipe still change with its mapping, and does it survive its removal from the
 * object?
 */
static bool probe_reference(void)
{
	int fd = memfd_create("libdsm-probe", MFD_CLOEXEC), pipe[2] = { -1, -1 };
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
			ok = splice(fd, &at, pipe[1], NULL, sizeof(got), SPLICE_F_NONBLOCK) ==
				sizeof(got);
			page[0] = 'b';
			ok = ok &&
				!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
					   sizeof(got)) &&
				read(pipe[0], got, sizeof(got)) == sizeof(got) && got[0] == 'b';
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

static size_t uffd_shared(size_t size, unsigned int ranks)
{
	return ranks > 1 ? frames_shared(size) : 0;
}

static int uffd_watch(int fd, const void *at, size_t size)
{
	struct uffdio_register reg = {
		.range = { (uint64_t)(uintptr_t)at, size },
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
	};

	return ioctl(fd, UFFDIO_REGISTER, &reg) ? -errno : 0;
}

static int uffd_open(const struct fault_node *n, int *fd, const char **why)
{
	unsigned int r;
	int err, own;

	own = uffd_create(why);
	if (own < 0)
		return own;
	err = -ENODEV;
	if (mmap(n->base, n->size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, n->memfd,
		 0) == MAP_FAILED) {
		*why = "the shared range cannot be mapped";
		goto close_uffd;
	}
	if (uffd_watch(own, n->base, n->size)) {
		*why = "userfaultfd cannot watch the shared range";
		goto close_uffd;
	}
	err = -ENOMEM;
	uffds = malloc(n->ranks * sizeof(*uffds));
	if (!uffds) {
		*why = "no memory for the node's descriptors";
		goto close_uffd;
	}
	madvise(n->base, n->size, MADV_DONTFORK);
	for (r = 0; r < n->ranks; r++)
		uffds[r] = r == n->self ? own : -1;
	by_reference = probe_reference();
	frames_open(n);
	touched_open();
	ahead_open(own);
	*fd = own;
	return 0;

close_uffd:
	close(own);
	return err;
}

static void uffd_join(unsigned int rank, int fd)
{
	uffds[rank] = fd;
}

static void uffd_close(void)
{
	unsigned int r;

	ahead_close();
	touched_close();
	munmap(frames_node.base, frames_node.size);
	for (r = 0; r < frames_node.ranks; r++)
		if (uffds[r] >= 0)
			close(uffds[r]);
	free(uffds);
	uffds = NULL;
	frames_close();
}

static int uffd_bound(size_t off, size_t len, size_t usable)
{
	int err = usable ? range_protect(off, usable, PROT_READ | PROT_WRITE) : 0;

	return err || usable == len ? err : range_protect(off + usable, len - usable, PROT_NONE);
}

static int uffd_adopt(size_t off, size_t len)
{
	int err = frames_adopt(off, len, PROT_READ | PROT_WRITE);

	return err ? err : uffd_watch(uffds[frames_node.self], range_at(off), len);
}

static int uffd_own(void)
{
	return uffds[frames_node.self];
}

static int fill_by(int fd, size_t off, size_t len, const char *src, enum prot prot, size_t *done)
{
	return src ? mapping_copy(fd, off, len, src, prot, done) : mapping_zero(fd, off, len, done);
}

/*
 * Fill the object from off + *done on through the mapping of a rank, or of this one if that process
 * has ended. src NULL: zeros.
 */
static int bring(unsigned int who, size_t off, size_t len, const char *src, enum prot prot,
		 size_t *done)
{
	int err = fill_by(uffds[who], off, len, src, prot, done);

	if (err == -ESRCH && who != frames_node.self)
		err = fill_by(uffd_own(), off, len, src, prot, done);
	return err;
}

/* ---- the node's mappings --------------------------------------------------------------------- */

/*
 * Write-protect the mappings that must be lowered, or set markers where nothing is mapped. An ended
 * process has no mapping.
 */
static int protect(const struct map_todo *t, size_t off, size_t end)
{
	unsigned int r;
	int err = 0, one;

	for (r = 0; t->down && r < frames_node.ranks; r++) {
		if (!map_has(t, (uint16_t)r) || uffds[r] < 0)
			continue;
		one = mapping_protect(uffds[r], off, end - off, true);
		if (one && (one != -ESRCH || r == frames_node.self))
			err = one;
	}
	return err;
}

static bool bare(size_t off, unsigned int who)
{
	const struct map *m = frames_map(off);

	return map_state(m) == PROT_CLOSED && (map_loose(MAP_SHOWN, m) & ~map_bit((uint16_t)who));
}

/*
 * Before [off, end) is opened for reading: set markers for it and for the closed pages around it,
 * in the locked chunks.
 */
static int lay_markers(const struct map_todo *t, size_t off, size_t end, unsigned int who)
{
	size_t from = off, to = end, low = off / FRAMES_CHUNK * FRAMES_CHUNK, at;
	size_t high = ((end - 1) / FRAMES_CHUNK + 1) * FRAMES_CHUNK;
	struct map_todo all = *t;
	int err;

	if (!t->down)
		return 0;
	/*
	 * Pages around it that are loose may be so in other mappings than those of [off, end):
	 * those need markers as well.
	 */
	for (; from > low && bare(from - PAGE_BYTES, who); from -= PAGE_BYTES)
		all.down |= map_loose(MAP_SHOWN, frames_map(from - PAGE_BYTES));
	for (; to < high && to < frames_node.size && bare(to, who); to += PAGE_BYTES)
		all.down |= map_loose(MAP_SHOWN, frames_map(to));
	err = protect(&all, from, to);
	for (at = from; at < to && !err; at = at + PAGE_BYTES == off ? end : at + PAGE_BYTES)
		if (at < off || at >= end)
			map_marked(frames_map(at), (uint16_t)who);
	return err;
}

/*
 * With the locks held. A page that should not exist is dropped: its contents belong to nobody.
 * Pages before it are in use already, and stay.
 */
static int uffd_fill_locked(unsigned int who, size_t off, size_t end, const void *src,
			    enum prot prot)
{
	enum map_event ev = prot == PROT_RO ? MAP_FILL_RO : MAP_FILL_RW;
	size_t done = 0, before;
	int err, tries;

	for (tries = 0; tries < 3; tries++) {
		struct map_todo t = frames_step(MAP_SHOWN, off + done, end, ev, who);

		err = lay_markers(&t, off + done, end, who);
		before = done;
		if (!err)
			err = bring(who, off, end - off, src, prot, &done);
		if (err != -EEXIST)
			break;
		if (done > before)
			tries = 0;
		frames_step(MAP_SHOWN, off + done, end, MAP_SHUT, who);
		if (frames_punch(off + done, end - off - done))
			return -EIO;
	}
	return err;
}

static int fill_alone(size_t off, size_t len, const void *src, enum prot prot)
{
	size_t done = 0, before;
	int err, tries;

	for (tries = 0; tries < 3; tries++) {
		before = done;
		err = bring(0, off, len, src, prot, &done);
		if (err != -EEXIST)
			break;
		if (done > before)
			tries = 0;
		if (frames_punch(off + done, len - done))
			return -EIO;
	}
	return err;
}

static int uffd_fill_pages(unsigned int who, size_t off, size_t len, const void *src,
			   enum prot prot)
{
	size_t end = off + len, next, at;
	int err = 0;

	if (frames_alone())
		return fill_alone(off, len, src, prot);
	for (at = off; at < end && !err; at = next) {
		next = frames_piece(at, end);
		frames_lock(at, next);
		err = uffd_fill_locked(who, at, next, src ? (const char *)src + (at - off) : NULL,
				       prot);
		frames_unlock(at, next);
	}
	return err;
}

static int uffd_fill(unsigned int who, size_t off, size_t len, const void *src, enum prot prot)
{
	return uffd_fill_pages(who, off, len, src, prot);
}

static int uffd_zero(unsigned int who, size_t off, size_t len)
{
	return uffd_fill_pages(who, off, len, NULL, PROT_RW);
}

/* Make a rank's mapping writable if the step says so. */
static int open_for(unsigned int who, size_t off, size_t len, enum map_event ev)
{
	size_t end = off + len, next;
	struct map_todo t;
	int err = 0;

	for (; off < end && !err; off = next) {
		next = frames_piece(off, end);
		frames_lock(off, next);
		t = frames_step(MAP_SHOWN, off, next, ev, who);
		if (t.open == PROT_RW)
			err = mapping_protect(uffds[who], off, next - off, false);
		frames_unlock(off, next);
	}
	return err == -ESRCH && who != frames_node.self ? 0 : err;
}

static int uffd_raise(unsigned int who, size_t off, size_t len)
{
	if (frames_alone())
		return mapping_protect(uffd_own(), off, len, false);
	return open_for(who, off, len, MAP_RAISE);
}

static int lower_locked(size_t off, size_t end)
{
	struct map_todo t;

	if (frames_alone())
		return mapping_protect(uffd_own(), off, end - off, true);
	t = frames_step(MAP_SHOWN, off, end, MAP_LOWER, 0);
	return protect(&t, off, end);
}

static int uffd_lower(size_t off, size_t len)
{
	size_t end = off + len, next;
	int err = 0;

	if (frames_alone())
		return lower_locked(off, end);
	for (; off < end && !err; off = next) {
		next = frames_piece(off, end);
		frames_lock(off, next);
		err = lower_locked(off, next);
		frames_unlock(off, next);
	}
	return err;
}

static int uffd_shut_locked(size_t off, size_t end)
{
	if (!frames_alone())
		frames_step(MAP_SHOWN, off, end, MAP_SHUT, 0);
	return frames_punch(off, end - off);
}

static int uffd_shut(size_t off, size_t len)
{
	size_t end = off + len, next;
	int err = 0;

	if (frames_alone())
		return uffd_shut_locked(off, end);
	for (; off < end && !err; off = next) {
		next = frames_piece(off, end);
		frames_lock(off, next);
		err = uffd_shut_locked(off, next);
		frames_unlock(off, next);
	}
	return err;
}

/*
 * End access and take the contents with one flush of the other processors' translations, which is
 * most of the cost if the owner is running. A pipe takes a reference to the page, then the hole is
 * punched. The pipe then has the page as it was when the last store to it became impossible, in any
 * mapping.
 */
static int take_by_reference(size_t off, size_t end, char *to, const int *pipe)
{
	off64_t at = (off64_t)off;
	size_t in = 0, out = 0, len = end - off;
	int err;

	while (in < len) {
		ssize_t n =
			splice(frames_node.memfd, &at, pipe[1], NULL, len - in, SPLICE_F_NONBLOCK);

		if (n <= 0)
			break;
		in += (size_t)n;
	}
	HOOK(take);
	err = in == len ? uffd_shut_locked(off, end) : -EAGAIN;
	while (out < in) {
		ssize_t n = read(pipe[0], to + out, in - out);

		if (n <= 0 && errno != EINTR)
			return -EIO;
		if (n > 0)
			out += (size_t)n;
	}
	return err;
}

static int take_locked(size_t off, size_t end, char *to, bool writable, const int *pipe)
{
	int err = -EAGAIN;

	if (writable && by_reference && end - off <= PIPE_BYTES && pipe[0] >= 0)
		err = take_by_reference(off, end, to, pipe);
	if (err != -EAGAIN)
		return err;
	err = writable ? lower_locked(off, end) : 0;
	if (!err)
		err = frames_read(off, end - off, to);
	return err ? err : uffd_shut_locked(off, end);
}

static int uffd_take(size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	size_t end = off + len, next, at;
	int err = 0;

	if (frames_alone())
		return take_locked(off, end, to, writable, pipe);
	for (at = off; at < end && !err; at = next) {
		next = frames_piece(at, end);
		frames_lock(at, next);
		err = take_locked(at, next, (char *)to + (at - off), writable, pipe);
		frames_unlock(at, next);
	}
	return err;
}

static bool writable(size_t off)
{
	return map_state(frames_map(off)) == PROT_RW;
}

/*
 * With one rank the page table allows all that the node may: the thread that opens the block is
 * about to use it. With several, a signal costs ten times as much as opening and lowering one more
 * page, so the writable pages around it are opened, too. (A page that counts as loose may still
 * have its marker.)
 */
static int uffd_again(size_t off, size_t len, enum prot prot)
{
	size_t low = off / FRAMES_CHUNK * FRAMES_CHUNK, high = low + FRAMES_CHUNK, end = off + len;
	bool followed = false;
	int err = 0;

	if (frames_alone() || prot != PROT_RW)
		return 0;
	if (end > high)
		return open_for(frames_node.self, off, len, MAP_AGAIN_RW);
	frames_lock(off, end);
	if (writable(off)) {
		while (off > low && writable(off - PAGE_BYTES))
			off -= PAGE_BYTES;
		while (end < high && end < frames_node.size && writable(end))
			end += PAGE_BYTES;
		frames_step(MAP_SHOWN, off, end, MAP_AGAIN_RW, frames_node.self);
		err = mapping_protect(uffd_own(), off, end - off, false);
		followed = true;
	}
	frames_unlock(off, end);
	return err ? err : followed;
}

const struct fault_ops fault_uffd = {
	.name = "uffd",
	.probe = uffd_probe,
	.shared = uffd_shared,
	.open = uffd_open,
	.join = uffd_join,
	.close = uffd_close,
	.bound = uffd_bound,
	.guard = guard_by_bounds,
	.adopt = uffd_adopt,
	.fill = uffd_fill,
	.zero = uffd_zero,
	.raise = uffd_raise,
	.lower = uffd_lower,
	.shut = uffd_shut,
	.take = uffd_take,
	.again = uffd_again,
	.populate = populate_step,
};

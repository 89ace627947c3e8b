// SPDX-License-Identifier: BSD-2-Clause
/*
 * mprotect.c - faults by SIGSEGV and protection by mprotect(2), for sandboxes that refuse
 * userfaultfd.
 *
 * Each run of equal protection is a VMA of its own, and a process may have vm.max_map_count of
 * them. If the kernel refuses another split, a piece of the range is closed as a whole, which
 * merges its VMAs: the hardware may always allow less than the protocol does, and the next touch
 * opens the block again (`again`).
 *
 * A system call does not touch again: it fails with EFAULT. So pinned pages stay as they are, and
 * only the pages between them are closed. `relief` is held while a piece is closed, and taken to
 * pin. A page is marked first and opened then, so it stays open: a thread that closes its piece
 * later sees the mark. The lock is a leaf, also below the stripes.
 */
#include "fault/ask.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/guard.h"
#include "fault/range.h"
#include "util/futex.h"

#define PIECE (8ul << 20)

static char *window;
static size_t window_size;
static size_t high;       /* end of everything that was ever opened; atomic */
static size_t next_piece; /* the next piece to close when the map count runs out; atomic */
static uint32_t relief;
/* pins of each page of the window, by this process's threads; under relief */
static uint16_t *pinned;

static bool is_pinned(size_t off)
{
	return pinned[off / PAGE_BYTES];
}

/* Close the unpinned pages of [from, to), so that their mappings merge. */
static void close_piece(size_t from, size_t to)
{
	size_t end;

	word_lock(&relief);
	for (; from < to; from = end) {
		bool keep = is_pinned(from);

		for (end = from + PAGE_BYTES; end < to && is_pinned(end) == keep; end += PAGE_BYTES)
			;
		if (!keep)
			range_protect(from, end - from, PROT_NONE);
	}
	word_unlock(&relief);
}

static uint32_t *bounds; /* by unit: the bytes at its start that are in bounds; atomic */

static int set_all(size_t off, size_t len, int prot)
{
	size_t tried = 0, seen = __atomic_load_n(&high, __ATOMIC_RELAXED);
	int err;

	while (off + len > seen &&
	       !__atomic_compare_exchange_n(&high, &seen, off + len, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
	while ((err = range_protect(off, len, prot))) {
		size_t limit = __atomic_load_n(&high, __ATOMIC_RELAXED), at;

		if (err != -ENOMEM || tried > limit)
			return err;
		at = __atomic_fetch_add(&next_piece, PIECE, __ATOMIC_RELAXED) % (limit + PIECE) /
			PIECE * PIECE;
		if (at < limit)
			close_piece(at, at + PIECE > window_size ? window_size : at + PIECE);
		tried += PIECE;
	}
	return 0;
}

/* Called after opening pages: see mp_guard(). */
static int close_guards(size_t off, size_t end)
{
	int err = 0;

	for (; guard_any() && off < end && !err; off += PAGE_BYTES)
		if (guard_of(off))
			err = set_all(off, PAGE_BYTES,
				      guard_of(off) == GUARD_STORES ? PROT_READ : PROT_NONE);
	return err;
}

static size_t marks(size_t size)
{
	return size / PAGE_BYTES * sizeof(*pinned);
}

static uint32_t bound_of(size_t off)
{
	return __atomic_load_n(&bounds[off / UNIT_BYTES], __ATOMIC_SEQ_CST);
}

static int set_unit(size_t off, size_t len, int prot)
{
	uint32_t bound;
	size_t in;
	int err;

	/*
	 * lower() of another thread bound() at detaching
	 *   reads the old bound
	 *                                   stores 0, closes all
	 *   opens: looks again, closes
	 */
	do {
		bound = bound_of(off);
		in = bound > off % UNIT_BYTES ? bound - off % UNIT_BYTES : 0;
		err = in ? set_all(off, in < len ? in : len, prot) : 0;
		if (!err && in)
			err = close_guards(off, off + (in < len ? in : len));
		if (!err && in < len)
			err = set_all(off + in, len - in, PROT_NONE);
	} while (!err && bound_of(off) != bound);
	return err;
}

/* Protect the part that is in bounds; the rest stays closed. */
static int mprotect_set(size_t off, size_t len, int prot)
{
	size_t n;
	int err = 0;

	if (prot == PROT_NONE)
		return set_all(off, len, prot);
	for (; len && !err; off += n, len -= n) {
		n = UNIT_BYTES - off % UNIT_BYTES < len ? UNIT_BYTES - off % UNIT_BYTES : len;
		err = set_unit(off, n, prot);
	}
	return err;
}

/* A request of this rank or another to change this rank's mapping: an argument of mprotect(2). */
static int mprotect_serve(size_t off, size_t len, int prot)
{
	return mprotect_set(off, len, prot);
}

static size_t mp_shared(size_t size, unsigned int ranks)
{
	return ranks > 1 ? frames_shared(size) + ask_shared(ranks) : 0;
}

static int mp_open(const struct fault_node *n, int *fd, const char **why)
{
	size_t bytes = marks(n->size) + n->size / UNIT_BYTES * sizeof(*bounds);

	*fd = -1;
	pinned = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pinned == MAP_FAILED) {
		*why = "no memory for what is pinned and what is in bounds";
		return -ENOMEM;
	}
	bounds = (uint32_t *)(void *)(pinned + n->size / PAGE_BYTES);
	if (mmap(n->base, n->size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, n->memfd,
		 0) == MAP_FAILED) {
		*why = "the shared range cannot be mapped";
		goto unmap;
	}
	madvise(n->base, n->size, MADV_DONTFORK);
	window = n->base;
	window_size = n->size;
	high = next_piece = 0;
	frames_open(n);
	if (!frames_alone() &&
	    ask_open((char *)n->shared + frames_shared(n->size), mprotect_serve)) {
		*why = "no thread can be made";
		frames_close();
		goto unmap;
	}
	return 0;

unmap:
	munmap(pinned, bytes);
	return -ENODEV;
}

static void mp_close(void)
{
	size_t size = frames_node.size;

	if (!frames_alone())
		ask_close();
	munmap(window, size);
	munmap(pinned, marks(size) + size / UNIT_BYTES * sizeof(*bounds));
	frames_close();
}

static int mp_bound(size_t off, size_t len, size_t usable)
{
	size_t at;

	for (at = 0; at < len; at += UNIT_BYTES) {
		size_t in = usable > at ? usable - at : 0;

		__atomic_store_n(&bounds[(off + at) / UNIT_BYTES],
				 (uint32_t)(in < UNIT_BYTES ? in : UNIT_BYTES), __ATOMIC_SEQ_CST);
	}
	return usable < len ? set_all(off + usable, len - usable, PROT_NONE) : 0;
}

/*
 * fill() of another thread mp_guard()
 *                                    marks
 *   opens
 *                                    closes
 *   sees the mark, closes
 * Pages that may be read, and those whose guard is removed, stay closed until they are used.
 */
static int mp_guard(size_t off, size_t len, enum guard guard)
{
	int err = guard_mark(off, len, guard);

	if (!err && guard) {
		err = set_all(off, len, PROT_NONE);
		if (err)
			guard_mark(off, len, GUARD_NONE);
	}
	return err;
}

static int mp_adopt(size_t off, size_t len)
{
	return frames_adopt(off, len, PROT_NONE);
}

static int protection(enum prot prot)
{
	return prot == PROT_RW ? PROT_READ | PROT_WRITE : prot == PROT_RO ? PROT_READ : PROT_NONE;
}

/* ---- a piece of several ranks, with its locks ------------------------------------------------ */

/* The end of the run of pages from off on that are in the same state. */
static size_t mprotect_alike(size_t off, size_t end)
{
	size_t at = off + PAGE_BYTES;

	while (at < end && frames_map(at)->word == frames_map(off)->word)
		at += PAGE_BYTES;
	return at;
}

/*
 * Step each page of [off, end), and lower the mappings that the steps name, but no others: a
 * mapping that is closed while others are lowered must stay closed, since nobody would know that it
 * was opened.
 */
static int bring_down(size_t off, size_t end, enum map_event ev, unsigned int who)
{
	size_t next;
	int err = 0;

	for (; off < end && !err; off = next) {
		struct map_todo t;

		next = mprotect_alike(off, end);
		t = frames_step(MAP_ASKED, off, next, ev, who);
		if (t.down)
			err = fault_ask_all(&t, off, next - off, protection((enum prot)t.to));
	}
	return err;
}

/*
 * Open this rank's mapping as far as the node's state and the request allow. 1: as far as
 * requested; 0: less; -errno.
 */
static int open_own(size_t off, size_t end, enum prot prot)
{
	enum map_event ev = prot == PROT_RW ? MAP_AGAIN_RW : MAP_AGAIN_RO;
	bool followed = true;
	size_t next;
	int err = 0;

	for (; off < end && !err; off = next) {
		struct map_todo t;

		next = mprotect_alike(off, end);
		t = frames_step(MAP_ASKED, off, next, ev, frames_node.self);
		if (t.open)
			err = mprotect_set(off, next - off, protection((enum prot)t.open));
		followed = followed && t.open == prot;
	}
	return err ? err : followed;
}

static int mprotect_shut_locked(size_t off, size_t end, void *to)
{
	int err = bring_down(off, end, MAP_SHUT, 0);

	if (!err && to)
		err = frames_read(off, end - off, to);
	return err ? err : frames_punch(off, end - off);
}

/* src NULL: zeros, as a hole reads. */
static int mprotect_fill_locked(unsigned int who, size_t off, size_t end, const void *src,
				enum prot prot)
{
	int err = bring_down(off, end, prot == PROT_RO ? MAP_FILL_RO : MAP_FILL_RW, who);

	if (!err && src)
		err = frames_write(off, end - off, src);
	return err || who != frames_node.self ? err
					      : mprotect_set(off, end - off, protection(prot));
}

/* ---- the operations -------------------------------------------------------------------------- */

enum piece_op { P_FILL, P_RAISE, P_LOWER, P_SHUT, P_AGAIN };

struct piece_args {
	enum piece_op op;
	unsigned int who;
	const char *src;
	char *to;
	enum prot prot;
};

static int mprotect_piece(const struct piece_args *a, size_t off, size_t end, size_t done)
{
	switch (a->op) {
	case P_FILL:
		return mprotect_fill_locked(a->who, off, end, a->src ? a->src + done : NULL,
					    a->prot);
	case P_RAISE:
		frames_step(MAP_ASKED, off, end, MAP_RAISE, a->who);
		return a->who == frames_node.self
			? mprotect_set(off, end - off, PROT_READ | PROT_WRITE)
			: 0;
	case P_LOWER: return bring_down(off, end, MAP_LOWER, 0);
	case P_SHUT: return mprotect_shut_locked(off, end, a->to ? a->to + done : NULL);
	case P_AGAIN: return open_own(off, end, a->prot);
	}
	return -EINVAL;
}

/* Returns the least result of all pieces. */
static int pieces(const struct piece_args *a, size_t off, size_t len)
{
	size_t end = off + len, at, next;
	int least = 1, got;

	for (at = off; at < end && least >= 0; at = next) {
		next = frames_piece(at, end);
		frames_lock(at, next);
		got = mprotect_piece(a, at, next, at - off);
		frames_unlock(at, next);
		least = got < least ? got : least;
	}
	return least;
}

static int mp_fill(unsigned int who, size_t off, size_t len, const void *src, enum prot prot)
{
	int err;

	if (!frames_alone())
		return pieces(
			&(struct piece_args){ .op = P_FILL, .who = who, .src = src, .prot = prot },
			off, len);
	err = frames_write(off, len, src);
	return err ? err : mprotect_set(off, len, protection(prot));
}

static int mp_zero(unsigned int who, size_t off, size_t len)
{
	if (!frames_alone())
		return pieces(&(struct piece_args){ .op = P_FILL, .who = who, .prot = PROT_RW },
			      off, len);
	return mprotect_set(off, len, PROT_READ | PROT_WRITE); /* a hole reads as zeros */
}

static int mp_raise(unsigned int who, size_t off, size_t len)
{
	if (!frames_alone())
		return pieces(&(struct piece_args){ .op = P_RAISE, .who = who }, off, len);
	return mprotect_set(off, len, PROT_READ | PROT_WRITE);
}

static int mp_lower(size_t off, size_t len)
{
	if (!frames_alone())
		return pieces(&(struct piece_args){ .op = P_LOWER }, off, len);
	return mprotect_set(off, len, PROT_READ);
}

static int mp_shut(size_t off, size_t len)
{
	int err;

	if (!frames_alone())
		return pieces(&(struct piece_args){ .op = P_SHUT }, off, len);
	err = mprotect_set(off, len, PROT_NONE);
	return err ? err : frames_punch(off, len);
}

static int mp_take(size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	int err;

	(void)writable, (void)pipe;
	if (!frames_alone())
		return pieces(&(struct piece_args){ .op = P_SHUT, .to = to }, off, len);
	err = mprotect_set(off, len, PROT_NONE);
	if (!err)
		err = frames_read(off, len, to);
	return err ? err : frames_punch(off, len);
}

static int mp_again(size_t off, size_t len, enum prot prot)
{
	int err;

	if (!frames_alone())
		return pieces(&(struct piece_args){ .op = P_AGAIN, .prot = prot }, off, len);
	err = mprotect_set(off, len, protection(prot));
	return err ? err : 1;
}

static void mp_pin(size_t off, size_t len, bool on)
{
	size_t at;

	word_lock(&relief);
	for (at = off; at < off + len; at += PAGE_BYTES)
		pinned[at / PAGE_BYTES] =
			(uint16_t)(on ? pinned[at / PAGE_BYTES] + 1 : pinned[at / PAGE_BYTES] - 1);
	word_unlock(&relief);
}

const struct fault_ops fault_mprotect = {
	.name = "mprotect",
	.shared = mp_shared,
	.open = mp_open,
	.close = mp_close,
	.bound = mp_bound,
	.guard = mp_guard,
	.adopt = mp_adopt,
	.fill = mp_fill,
	.zero = mp_zero,
	.raise = mp_raise,
	.lower = mp_lower,
	.shut = mp_shut,
	.take = mp_take,
	.again = mp_again,
	.pin = mp_pin,
};

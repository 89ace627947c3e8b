// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_fault.c - the fault backends in processes of one node, which map the same frames. Every test
 * runs over userfaultfd and over mprotect. The test keeps the state of each page, as the protocol
 * would.
 */
#include "fault/fault.h"

#include <fcntl.h>
#include <sys/utsname.h>

#include "core.h"
#include "fault/ahead.h"
#include "fault/touched.h"
#include "fault/frames.h"
#include "fault/guard.h"
#include "fault_ranks.h"

static const struct fault_ops *const backends[] = { &fault_uffd, &fault_mprotect };

/* Update the node's state as the protocol does, then the mappings by the backend. */
static void fill(unsigned int who, size_t off, size_t len, const void *src, enum prot p)
{
	rank_require(!node.ops->fill(node.index[who], off, len, src, p));
	set_state(off, len, p);
}

static void fill_with(unsigned int who, size_t off, uint64_t value, enum prot p)
{
	static uint64_t page[PG / 8];

	page[0] = value;
	fill(who, off, PG, page, p);
}

static void raise_for(unsigned int who, size_t off, size_t len)
{
	rank_require(!node.ops->raise(node.index[who], off, len));
	set_state(off, len, PROT_RW);
}

static void lower(size_t off, size_t len)
{
	set_state(off, len, PROT_RO);
	rank_require(!node.ops->lower(off, len));
}

static void shut(size_t off, size_t len)
{
	set_state(off, len, PROT_CLOSED);
	rank_require(!node.ops->shut(off, len));
}

static void take(size_t off, size_t len, void *to, bool writable, bool piped)
{
	int ends[2] = { -1, -1 };

	rank_require(!piped || !pipe(ends));
	set_state(off, len, PROT_CLOSED);
	rank_require(!node.ops->take(off, len, to, writable, ends));
	if (piped) {
		close(ends[0]);
		close(ends[1]);
	}
}

/* One rank executes `what`; the others wait for it. */
#define ALONE(rank, what)                \
	do {                             \
		meet();                  \
		if (node.me == (rank)) { \
			what;            \
		}                        \
		meet();                  \
	} while (0)

static bool by_kernel(void)
{
	return node.ops == &fault_uffd;
}

/* ---- each operation -------------------------------------------------------------------------- */

static void each_operation(void)
{
	uint64_t page[PG / 8], value;
	unsigned int r;

	rank_require(!try_read(0, &value) && !try_write(0, 1));
	ALONE(0, fill_with(0, 0, 7, PROT_RO));
	rank_require(reads(0, 7) && !try_write(0, 8) && !try_read(PG, &value));
	ALONE(0, raise_for(node.n - 1, 0, PG));
	for (r = 0; r < node.n; r++) {
		ALONE(r, rank_require(try_write(0, 20 + r)));
		rank_require(reads(0, 20 + r));
	}
	ALONE(node.n - 1, lower(0, PG));
	rank_require(!try_write(0, 9) && reads(0, 20 + node.n - 1));
	rank_require(!frames_read(0, PG, page) && page[0] == 20 + node.n - 1);
	ALONE(0, shut(0, PG));
	rank_require(!try_read(0, &value) && !try_write(0, 9));
	ALONE(node.n - 1, rank_require(!node.ops->zero(node.index[0], 0, PG));
	      set_state(0, PG, PROT_RW));
	rank_require(reads(0, 0) && reads(PG - 8, 0));
	for (r = 0; r < node.n; r++)
		ALONE(r, rank_require(try_write(0, 30 + r)));
	ALONE(0, take(0, PG, page, true, true); rank_require(page[0] == 30 + node.n - 1));
	rank_require(!try_read(0, &value) && !try_write(0, 9));
	ALONE(0, fill_with(node.n - 1, 0, 40, PROT_RW));
	ALONE(node.n - 1, rank_require(try_write(0, 41)));
	ALONE(0, take(0, PG, page, true, false); rank_require(page[0] == 41));
	ALONE(0, fill_with(0, 0, 50, PROT_RO));
	ALONE(node.n - 1, take(0, PG, page, false, true); rank_require(page[0] == 50));
	rank_require(!try_read(0, &value) && !try_write(0, 9));
}

/* The first of the backends that there is. */
static int first_backend(void)
{
	static int first = -1;
	const char *why = "";

	if (first < 0) {
		first = fault_uffd.probe(&why) ? 1 : 0;
		if (first)
			printf("without userfaultfd: %s\n", why);
	}
	return first;
}

UNIT_LOOP_TEST(every_operation_acts_on_all_mappings, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, each_operation);
}

UNIT_LOOP_TEST(one_rank_needs_nothing_shared, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 1, .bound = true }, each_operation);
}

/* Ranks 3 and 65 share a bit of the masks; sixty other ranks do not exist. */
UNIT_LOOP_TEST(ranks_that_share_a_bit_are_both_lowered, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i],
				   .n = 3,
				   .index = { 3, 3 + MAP_BITS, 1 },
				   .called = 80,
				   .bound = true },
		  each_operation);
}

/*
 * again() tells a rank whose mapping lags behind the node's state whether it has followed. Closed
 * pages, and pages that the kernel maps, need not follow.
 */
static void followed(void)
{
	ALONE(0, fill_with(0, 0, 7, PROT_RO); fill_with(0, PG, 8, PROT_RW));
	if (node.me == 1) {
		rank_require(node.ops->again(0, PG, PROT_RO) == !by_kernel());
		rank_require(node.ops->again(0, PG, PROT_RW) == 0);
		rank_require(node.ops->again(PG, PG, PROT_RW) == 1);
		rank_require(node.ops->again(2 * PG, PG, PROT_RW) == 0);
		rank_require(try_write(PG, 9) && signals() == 0 && !try_write(0, 9));
	}
}

UNIT_LOOP_TEST(a_mapping_says_whether_it_has_followed, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 2, .bound = true }, followed);
}

/* ---- readers and writers --------------------------------------------------------------------- */

#define SOME 256u

static void second_reader(void)
{
	unsigned int i, turn;

	for (turn = 0; turn < 2; turn++) { /* the second time, markers went with the pages */
		ALONE(0, for (i = 0; i < SOME; i++) fill_with(0, i * PG, i + 1 + turn, PROT_RO));
		signals();
		for (i = 0; i < SOME; i++)
			rank_require(reads(i * PG, i + 1 + turn));
		rank_require(signals() == (by_kernel() || !node.me ? 0 : SOME));
		for (i = 0; i < SOME; i++)
			rank_require(!try_write(i * PG, 9) && reads(i * PG, i + 1 + turn));
		ALONE(1, raise_for(1, 0, SOME * PG));
		signals();
		for (i = 0; i < SOME; i++)
			if (i % node.n == node.me)
				rank_require(try_write(i * PG + 8, node.me));
		rank_require(signals() <= SOME);
		ALONE(0, shut(0, SOME * PG));
	}
}

UNIT_LOOP_TEST(a_second_reader_gets_what_its_node_has, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, second_reader);
}

/*
 * Pages first mapped for writing need no markers: no other writer is announced. Pages that were
 * read-only do: markers are requested for all writable pages of a chunk, or for one page if each
 * open page costs a later request.
 */
static void second_writer(void)
{
	unsigned int i;

	ALONE(0, for (i = 0; i < SOME; i++) fill_with(0, i * PG, 0, PROT_RW));
	signals();
	for (i = 0; i < SOME; i++)
		rank_require(try_write(i * PG + 8 + 8 * node.me, i));
	rank_require(signals() == (by_kernel() || !node.me ? 0 : SOME));
	ALONE(1, lower(0, SOME * PG));
	ALONE(0, raise_for(0, 0, SOME * PG));
	signals();
	for (i = 0; i < SOME; i++)
		rank_require(try_write(i * PG + 8 + 8 * node.me, i + 1));
	rank_require(signals() == (!node.me ? 0 : by_kernel() ? SOME * PG / FRAMES_CHUNK : SOME));
	ALONE(2, lower(0, SOME * PG));
	for (i = 0; i < SOME; i++)
		rank_require(reads(i * PG + 8, i + 1) && reads(i * PG + 24, i + 1));
}

UNIT_LOOP_TEST(a_second_writer_asks_for_a_chunk, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, second_writer);
}

/*
 * A page next to one that is opened for reading gets its marker early, in each mapping that may
 * lack it. The pages of a chunk differ: page 1 was marked for all but rank 0; page 2 lost all
 * markers when it was closed.
 */
static void marked_early(void)
{
	ALONE(0, fill_with(0, 0, 1, PROT_RO));
	ALONE(0, fill_with(2, 2 * PG, 2, PROT_RW));
	rank_require(try_write(2 * PG + 8 * node.me, 2));
	ALONE(0, shut(2 * PG, PG));
	ALONE(0, fill_with(1, PG, 3, PROT_RO)); /* beside page 2 */
	ALONE(0, fill_with(1, 2 * PG, 4, PROT_RO));
	rank_require(!try_write(2 * PG, 5) && !try_write(PG, 5));
	rank_require(reads(0, 1) && reads(PG, 3) && reads(2 * PG, 4));
	ALONE(0, shut(0, FRAMES_CHUNK));
	ALONE(0, fill_with(2, 3 * PG, 6, PROT_RO));
	ALONE(0, fill_with(0, 4 * PG, 7, PROT_RO));
	ALONE(0, fill_with(1, 2 * PG, 8, PROT_RO));
	rank_require(!try_write(2 * PG, 9) && !try_write(3 * PG, 9) && !try_write(4 * PG, 9));
	rank_require(reads(2 * PG, 8) && reads(3 * PG, 6) && reads(4 * PG, 7));
}

UNIT_LOOP_TEST(markers_laid_early_are_laid_for_all, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, marked_early);
}

#define MANY 1024u

static void all_lowered(void)
{
	unsigned int i, faulted = 0;
	static char kept[MANY * PG];

	ALONE(0, for (i = 0; i < MANY; i++) fill_with(i % node.n, i * PG, 0, PROT_RW));
	for (i = 0; i < MANY; i++)
		rank_require(try_write(i * PG + 8 * node.me, 1));
	ALONE(1, lower(0, MANY * PG));
	for (i = 0; i < MANY; i++)
		faulted += !try_write(i * PG + 8 * node.me, 2);
	rank_require(faulted == MANY);
	ALONE(2, rank_require(!frames_read(0, MANY * PG, kept));
	      for (i = 0; i < MANY; i++) rank_require(kept[i * PG + 8] == 1));
	ALONE(2, raise_for(2, 0, MANY * PG));
	for (i = 0; i < MANY; i++)
		rank_require(try_write(i * PG + 8 * node.me, 3));
	ALONE(0, take(0, MANY * PG, kept, true, true);
	      for (i = 0; i < MANY; i++) rank_require(kept[i * PG + 8] == 3));
	for (i = faulted = 0; i < MANY; i++)
		faulted += !try_write(i * PG + 8 * node.me, 2);
	rank_require(faulted == MANY);
}

UNIT_LOOP_TEST(after_lowering_every_store_of_every_rank_faults, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, all_lowered);
}

/* ---- ahead of touches ------------------------------------------------------------------------ */

#define SECOND 1000000000ull
#define UNIT_CHUNKS (UNIT_BYTES / FRAMES_CHUNK)

static size_t populate(uint64_t seconds)
{
	return node.ops->populate ? node.ops->populate(seconds * SECOND) : 0;
}

/* Userfaultfd can do this since Linux 6.4. */
static bool maps_ahead(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	return node.ops == &fault_uffd && !uname(&name) &&
		sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
		(major > 6 || (major == 6 && minor >= 4)) && !access("/proc/self/pagemap", R_OK);
}

/*
 * The number of pages in [0, 2 units) that this rank has mapped, except in the chunks that are left
 * alone.
 */
static unsigned int mapped_pages(void)
{
	static uint64_t entries[2 * UNIT_BYTES / PG];
	int fd = open("/proc/self/pagemap", O_RDONLY);
	unsigned int i, n = 0;

	rank_require(pread(fd, entries, sizeof(entries), (off_t)((uintptr_t)WINDOW / PG * 8)) ==
		     (ssize_t)sizeof(entries));
	close(fd);
	for (i = 0; i < 2 * UNIT_BYTES / PG; i++)
		n += !ahead_samples(i * PG / FRAMES_CHUNK) && entries[i] >> 63;
	return n;
}

/*
 * One unit is writable, one readable. A rank that touches neither maps both ahead, except for one
 * chunk in 16.
 */
static void mapped_ahead(void)
{
	static char unit[UNIT_BYTES];
	size_t chunks = 0;
	unsigned int i;

	memset(unit, 7, sizeof(unit));
	ALONE(0, fill(0, 0, UNIT_BYTES, unit, PROT_RW);
	      fill(0, UNIT_BYTES, UNIT_BYTES, unit, PROT_RO));
	if (node.me == 1) {
		chunks = populate(1);
		rank_require(chunks ==
			     (maps_ahead() ? 2 * (UNIT_CHUNKS - UNIT_CHUNKS / AHEAD_EVERY) : 0));
		rank_require(!chunks || mapped_pages() == chunks * FRAMES_CHUNK / PG);
		signals();
		for (i = 0; chunks && i < 2 * UNIT_BYTES / PG; i++)
			if (!ahead_samples(i * PG / FRAMES_CHUNK)) {
				rank_require(*(volatile char *)(WINDOW + i * PG) == 7);
				if (i < UNIT_BYTES / PG)
					store((uint64_t *)(WINDOW + i * PG) + 1, i);
			}
		rank_require(signals() == 0);
		rank_require(!try_write(UNIT_BYTES, 9));
	}
	ALONE(2, lower(0, UNIT_BYTES));
	for (i = 0; i < UNIT_BYTES / PG; i += 5)
		rank_require(!try_write(i * PG, 9));
	ALONE(0, shut(0, 2 * UNIT_BYTES); fill(0, 0, UNIT_BYTES, unit, PROT_RO);
	      raise_for(0, 0, UNIT_BYTES));
	if (node.me == 1 && chunks) { /* it has used none of the chunks left alone */
		rank_require(populate(2) == 0 && populate(3) == 0);
	} else if (node.me == 2 && chunks) { /* the node may write, but the mapping has markers */
		rank_require(populate(1) == UNIT_CHUNKS - UNIT_CHUNKS / AHEAD_EVERY);
		signals();
		rank_require(try_write(0, 5) && signals() == 1);
	}
	ALONE(1, lower(0, UNIT_BYTES));
	for (i = 0; i < UNIT_BYTES / PG; i += 5)
		rank_require(!try_write(i * PG, 9));
}

UNIT_LOOP_TEST(what_others_have_brought_is_mapped_ahead, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, mapped_ahead);
}

/* ---- what was touched ------------------------------------------------------------------------ */

/* Pages that are hidden can be read, without a signal, and not written, until they are raised. */
static void hidden(void)
{
	static char chunk[FRAMES_CHUNK];
	const unsigned int first = 3, n = 5;
	unsigned int i;

	memset(chunk, 7, sizeof(chunk));
	fill(0, 0, sizeof(chunk), chunk, PROT_RO);
	rank_require(touched_in(0) == UINT16_MAX);
	if (!touched_known()) /* mprotect */
		return;
	touched_hide(first * PG, n * PG);
	rank_require(touched_in(0) == (UINT16_MAX & ~(((1u << n) - 1) << first)));
	signals();
	rank_require(*(volatile char *)(WINDOW + 4 * PG) == 7 && signals() == 0);
	rank_require(touched_in(0) >> first == 0x1fe2);
	for (i = 0; i < TOUCHED_PAGES; i++)
		rank_require(!try_write(i * PG, 9));
	raise_for(0, 3 * PG, 2 * PG);
	for (i = 3; i < 5; i++)
		rank_require(try_write(i * PG, 9));
	touched_hide(0, sizeof(chunk));
	lower(3 * PG, 2 * PG);
	rank_require(touched_in(0) == 0);
	for (i = 0; i < TOUCHED_PAGES; i++)
		rank_require(!try_write(i * PG, 8));
	rank_require(*(volatile char *)(WINDOW + 3 * PG) == 9);
	shut(0, sizeof(chunk));
	rank_require(touched_in(0) == 0);
}

UNIT_LOOP_TEST(hidden_pages_keep_their_access, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 1, .bound = true }, hidden);
}

/* While one rank changes a page, no other rank maps it. */
static void change_under_way(void)
{
	static char unit[UNIT_BYTES];

	ALONE(0, fill(0, 0, UNIT_BYTES, unit, PROT_RW); frames_lock(0, PG));
	if (node.me == 1) {
		populate(1);
		__atomic_store_n(&node.t->words[0], 1, __ATOMIC_SEQ_CST);
	} else {
		usleep(50000);
		rank_require(!maps_ahead() ||
			     !__atomic_load_n(&node.t->words[0], __ATOMIC_SEQ_CST));
		frames_unlock(0, PG);
	}
	meet();
}

UNIT_LOOP_TEST(mapping_ahead_waits_for_a_change_under_way, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 2, .bound = true }, change_under_way);
}

UNIT_TEST(mapping_ahead_stops_when_it_does_not_pay)
{
	static struct ahead a;
	unsigned int i;

	ahead_note(&a, 8, 0xffff, 0xffff);
	ck_assert_uint_eq(a.samples, 0);
	ahead_note(&a, 8, 0x0fff, 0x0003);
	ck_assert(a.samples == 1 && a.sample[0].chunk == 8 && a.sample[0].left == 0x0ffc);
	ahead_judge(&a, 0, 10); /* too few to decide */
	ck_assert(!a.idle && !a.samples);
	ahead_judge(&a, 32, 64);
	ck_assert(!a.idle);
	ahead_judge(&a, 31, 64);
	ck_assert(a.idle);
	ahead_judge(&a, 0, 0);
	ck_assert(a.idle);
	ahead_judge(&a, 64, 64);
	ck_assert(!a.idle);
	for (i = 0; i < AHEAD_SAMPLES + 3; i++)
		ahead_note(&a, i, 1, 0);
	ck_assert_uint_eq(a.samples, AHEAD_SAMPLES);
}

/* Exactly one chunk of each group is left alone, at every position in the group. */
UNIT_TEST(chunks_that_are_left_alone_are_at_no_stride)
{
	unsigned int i, k, in_group, at_place;

	for (i = 0; i < AHEAD_EVERY; i++) {
		for (k = in_group = at_place = 0; k < AHEAD_EVERY; k++) {
			in_group += ahead_samples(i * AHEAD_EVERY + k);
			at_place += ahead_samples(k * AHEAD_EVERY + i);
		}
		ck_assert(in_group == 1 && at_place == 1);
	}
}

/* ---- bounds and deaths ----------------------------------------------------------------------- */

#define IN_BOUNDS (3 * PG)

static void bounds(void)
{
	static char block[8 * PG];
	uint64_t value;

	memset(block, 5, sizeof(block));
	if (node.me == 0)
		rank_require(!node.ops->bound(0, UNIT_BYTES, IN_BOUNDS));
	/* across rank 0's bound, out of the other ranks' bounds */
	ALONE(0, fill(0, 0, sizeof(block), block, PROT_RO));
	if (node.me == 0)
		rank_require(try_read(2 * PG, &value) && value == 0x0505050505050505u &&
			     !try_read(IN_BOUNDS, &value));
	else
		rank_require(!try_read(0, &value) && !try_read(IN_BOUNDS, &value));
	ALONE(0, raise_for(1, 0, sizeof(block)));
	if (node.me == 1)
		rank_require(!try_write(0, 1));
	meet();
	if (node.me == 1)
		rank_require(!node.ops->bound(0, UNIT_BYTES, UNIT_BYTES) && try_write(0, 1) &&
			     try_write(IN_BOUNDS, 1));
	ALONE(2, lower(0, sizeof(block)));
	if (node.me == 2) /* rank 2 attaches only now */
		rank_require(!node.ops->bound(0, UNIT_BYTES, UNIT_BYTES) && reads(0, 1) &&
			     reads(IN_BOUNDS, 1));
	else if (node.me == 1)
		rank_require(!try_write(0, 2) && !try_write(IN_BOUNDS, 2));
	rank_require(node.me || (!try_write(0, 2) && !try_read(IN_BOUNDS, &value)));
	meet();
	if (node.me == 2)
		rank_require(!try_write(0, 2) && !try_write(IN_BOUNDS, 2));
	ALONE(0, rank_require(!node.ops->bound(0, UNIT_BYTES, 0)));
	rank_require(node.me || !try_read(0, &value));
	ALONE(1, take(0, sizeof(block), block, false, true);
	      rank_require(block[0] == 1 && block[IN_BOUNDS] == 1));
	rank_require(!try_read(0, &value));
}

UNIT_LOOP_TEST(bounds_are_of_each_rank, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3 }, bounds);
}

/*
 * A page that rank 1 may not touch comes and goes in its mapping, as the protocol does it; the
 * other ranks use the page.
 */
static void guarded(void)
{
	static const size_t at = 3 * PG;
	static char block[8 * PG];
	uint64_t value;

	memset(block, 5, sizeof(block));
	ALONE(0, fill(0, 0, sizeof(block), block, PROT_RW));
	/* also in the mapping that is closed next */
	rank_require(try_write(at, 1) && try_write(at + PG, 1));
	ALONE(1, rank_require(!node.ops->guard(at, PG, GUARD_STACK));
	      rank_require(guard_of(at) == GUARD_STACK && !guard_of(at + PG)));
	rank_require(try_write(at, 2) == (node.me != 1) && try_write(at - PG, 2) &&
		     try_write(at + PG, 2));
	ALONE(1, lower(0, sizeof(block)));
	rank_require(try_read(at, &value) == (node.me != 1) && reads(at + PG, 2) &&
		     !try_write(at + PG, 3));
	ALONE(1, raise_for(1, 0, sizeof(block)));
	rank_require(try_write(at, 3) == (node.me != 1) && try_write(at + PG, 3));
	ALONE(0, shut(0, sizeof(block)));
	ALONE(1, fill(1, 0, sizeof(block), block, PROT_RW));
	rank_require(try_write(at, 4) == (node.me != 1) && try_write(at - PG, 4) &&
		     try_write(at + PG, 4));
	ALONE(1, lower(0, sizeof(block)));
	ALONE(1, rank_require(!node.ops->guard(at, PG, GUARD_NONE) && !guard_of(at)));
	rank_require(reads(at, 4) && reads(at + 8, 0x0505050505050505u) && !try_write(at, 5));
	ALONE(1, raise_for(1, 0, sizeof(block)));
	rank_require(try_write(at, 5));
}

UNIT_LOOP_TEST(a_guard_is_closed_whatever_the_protocol_does, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, guarded);
}

/* The same for a page that rank 1 may read. */
static void guarded_stores(void)
{
	static const size_t at = 3 * PG;
	static char block[8 * PG];

	memset(block, 5, sizeof(block));
	ALONE(0, fill(0, 0, sizeof(block), block, PROT_RW));
	rank_require(try_write(at, 1) && try_write(at + PG, 1));
	ALONE(1, rank_require(!node.ops->guard(at, PG, GUARD_STORES));
	      rank_require(guard_of(at) == GUARD_STORES && !guard_of(at - PG)));
	rank_require(reads(at, 1));
	meet();
	rank_require(try_write(at, 2) == (node.me != 1) && try_write(at - PG, 2));
	meet();
	rank_require(reads(at, 2) && try_write(at + PG, 2));
	ALONE(1, lower(0, sizeof(block)));
	ALONE(1, raise_for(1, 0, sizeof(block)));
	rank_require(reads(at, 2) && try_write(at, 2) == (node.me != 1) && try_write(at + PG, 3));
	ALONE(0, shut(0, sizeof(block)));
	ALONE(1, fill(1, 0, sizeof(block), block, PROT_RW));
	rank_require(reads(at + 8, 0x0505050505050505u) && try_write(at, 4) == (node.me != 1));
	meet();
	ALONE(1, rank_require(!node.ops->guard(at, PG, GUARD_PROGRAM)));
	rank_require(reads(at, 4) == (node.me != 1));
	meet();
	ALONE(1, rank_require(!node.ops->guard(at, 2 * PG, GUARD_NONE) && !guard_any()));
	rank_require(reads(at, 4));
	meet();
	rank_require(try_write(at, 5));
}

UNIT_LOOP_TEST(a_page_may_be_closed_to_stores_alone, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, guarded_stores);
}

static void one_dies(void)
{
	uint64_t page[PG / 8];
	unsigned int i;

	ALONE(2, for (i = 0; i < SOME; i++) fill_with(2, i * PG, i, PROT_RW));
	for (i = 0; i < SOME; i++)
		rank_require(try_write(i * PG + 8 * node.me, i));
	meet();
	if (node.me == 2) {
		__atomic_fetch_sub(&node.t->left, 1, __ATOMIC_SEQ_CST);
		kill(getpid(), SIGKILL);
	}
	while (__atomic_load_n(&node.t->pid[2], __ATOMIC_SEQ_CST))
		sched_yield();
	ALONE(0, lower(0, SOME * PG));
	for (i = 0; i < SOME; i++)
		rank_require(!try_write(i * PG, 9));
	ALONE(1, raise_for(2, 0, SOME * PG));
	rank_require(try_write(8 * node.me, 11));
	ALONE(1, take(0, PG, page, true, true); rank_require(page[0] == 11 && page[1] == 11));
	ALONE(0, fill_with(2, 0, 3, PROT_RO)); /* for a thread that no longer waits */
	rank_require(reads(0, 3) && !try_write(0, 9));
	ALONE(0, shut(0, SOME * PG); rank_require(!node.ops->zero(2, 0, PG));
	      set_state(0, PG, PROT_RW));
	rank_require(reads(0, 0) && try_write(8 + 8 * node.me, 1));
}

UNIT_LOOP_TEST(who_has_died_maps_nothing, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, one_dies);
}

/* All ranks at once lower pages that the others have open. */
static void crosswise(void)
{
	size_t mine = node.me * FRAMES_CHUNK, next = (node.me + 1) % node.n * FRAMES_CHUNK;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		fill_with(node.me, mine, i, PROT_RW);
		meet();
		rank_require(reads(next, i) && try_write(next + 8, i));
		meet();
		lower(mine, PG);
		shut(mine, PG);
	}
}

UNIT_LOOP_TEST(ranks_that_ask_each_other_all_get_their_way, first_backend(), 2)
{
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true }, crosswise);
}

/* ---- everything at once ---------------------------------------------------------------------- */

#define STORM 40u /* pages, in three chunks, so that neighbours share locks and markers */

static double storm_seconds;

static double seconds_now(void)
{
	return (double)clock_ns() / 1e9;
}

/*
 * This node asks another one; one request per page at a time. Another thread may have changed the
 * state first.
 */
static void storm_miss(size_t off, bool write)
{
	uint32_t *lock = &node.t->locks[off / PG];
	char *copy = node.t->copy[off / PG];

	word_lock(lock);
	if (state_of(off) == PROT_CLOSED && (write || off / PG % 3))
		fill(node.me, off, PG, copy, write ? PROT_RW : PROT_RO);
	else if (state_of(off) == PROT_CLOSED)
		fill((node.me + 1) % node.n, off, PG, copy, PROT_RO);
	else if (write && state_of(off) == PROT_RO)
		raise_for(node.me, off, PG);
	word_unlock(lock);
}

/* Another node asks. Then this node loses the page, or both may read it. */
static void storm_away(size_t off, unsigned int how, const int *ends)
{
	uint32_t *lock = &node.t->locks[off / PG];
	char *copy = node.t->copy[off / PG];
	enum prot was;

	word_lock(lock);
	was = state_of(off);
	if (was == PROT_RW && how % 3 == 0) {
		lower(off, PG);
		rank_require(!frames_read(off, PG, copy));
	} else if (was == PROT_RO && how % 3 != 0) {
		shut(off, PG);
	} else if (was != PROT_CLOSED) {
		set_state(off, PG, PROT_CLOSED);
		rank_require(!node.ops->take(off, PG, copy, was == PROT_RW, ends));
	}
	word_unlock(lock);
}

/*
 * Grow and shrink the node's memory by enough for a pass, only in chunks that are not left alone.
 */
static void grow_and_shrink(void)
{
	static char contents[15 * FRAMES_CHUNK];
	const size_t off = 4 * UNIT_BYTES + 9 * FRAMES_CHUNK, more = off + 16 * FRAMES_CHUNK;

	if (state_of(off) == PROT_RW) {
		shut(off, sizeof(contents));
		shut(more, 4 * FRAMES_CHUNK);
	} else {
		fill(0, off, sizeof(contents), contents, PROT_RW);
		fill(0, more, 4 * FRAMES_CHUNK, contents, PROT_RW);
	}
}

/*
 * Each rank has a word in each page that only it writes. It must always find its last value,
 * wherever the page has been.
 */
static void storm(void)
{
	uint64_t last[STORM] = { 0 }, seed = 0x9e3779b97f4a7c15u * (node.me + 1);
	double until = seconds_now() + storm_seconds;
	uint64_t turn = 0;
	int ends[2];
	unsigned int i;

	rank_require(!pipe(ends));
	while (seconds_now() < until)
		for (i = 0; i < 100; i++) {
			uint64_t *word;
			unsigned int page;

			if (i == 0 && node.me == 0)
				grow_and_shrink();
			if (i % 10 == 0)
				populate(++turn);
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			page = (unsigned int)(seed >> 33) % STORM;
			word = (uint64_t *)(WINDOW + page * PG) + node.me;
			if (seed >> 60 < 5)
				storm_away(page * PG, (unsigned int)(seed >> 50), ends);
			else if (seed >> 60 < 10)
				rank_require(load(word) == last[page]);
			else
				store(word, ++last[page]);
		}
	meet();
	for (i = 0; i < STORM; i++)
		rank_require(load((uint64_t *)(WINDOW + i * PG) + node.me) == last[i]);
}

UNIT_LOOP_TEST(no_store_is_lost_in_a_storm, first_backend(), 2)
{
	const char *seconds = getenv("FAULT_SECONDS");

	storm_seconds = seconds ? atof(seconds) : 3;
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true, .miss = storm_miss },
		  storm);
}

/* Wait until the node's state allows the access. */
static void wait_miss(size_t off, bool write)
{
	while (state_of(off) < (write ? PROT_RW : PROT_RO) &&
	       !__atomic_load_n(&node.t->words[0], __ATOMIC_SEQ_CST))
		sched_yield();
	if (__atomic_load_n(&node.t->words[0], __ATOMIC_SEQ_CST))
		siglongjmp(bail, 1);
}

/*
 * A page is taken and returned as fast as possible. It must not change while lowered, and must
 * return with its contents.
 */
static void one_page_away(unsigned int turn, const int *ends)
{
	static char copy[PG], later[PG];
	volatile unsigned int i;

	for (i = 0; i < turn % 64 * 1000; i++) /* the ranks use it for a while */
		;
	if (turn % 3 == 0) {
		lower(0, PG);
		rank_require(!frames_read(0, PG, copy));
		for (i = 0; i < 3000; i++)
			;
		rank_require(!frames_read(0, PG, later) && !memcmp(copy, later, PG));
		shut(0, PG);
	} else {
		set_state(0, PG, PROT_CLOSED);
		rank_require(!node.ops->take(0, PG, copy, true,
					     turn % 3 == 1 ? ends : (const int[]){ -1, -1 }));
	}
	fill(turn % node.n, 0, PG, copy, turn % 2 ? PROT_RW : PROT_RO);
	if (state_of(0) == PROT_RO)
		raise_for(turn / 2 % node.n, 0, PG);
}

static void one_page(void)
{
	uint64_t *word = (uint64_t *)WINDOW + node.me;
	double until = seconds_now() + storm_seconds / 2;
	volatile uint64_t last = 0;
	unsigned int turn;
	int ends[2];

	rank_require(!pipe(ends));
	ALONE(0, fill_with(0, 0, 0, PROT_RW));
	if (node.me == 0) {
		for (turn = 0; seconds_now() < until; turn++)
			one_page_away(turn, ends);
		__atomic_store_n(&node.t->words[0], 1, __ATOMIC_SEQ_CST);
	} else if (!sigsetjmp(bail, 1)) {
		while (!__atomic_load_n(&node.t->words[0], __ATOMIC_SEQ_CST)) {
			rank_require(load(word) == last);
			store(word, last + 1);
			last++;
			if (node.me == 1) /* in any state */
				rank_require(node.ops->again(0, PG, PROT_RW) >= 0 &&
					     node.ops->again(0, PG, PROT_RW) >= 0);
		}
	}
}

UNIT_LOOP_TEST(no_store_is_lost_on_one_page, first_backend(), 2)
{
	storm_seconds = 3;
	run_ranks(&(struct ranks){ .ops = backends[_i], .n = 3, .bound = true, .miss = wait_miss },
		  one_page);
}

UNIT_SUITE("fault", .seconds = 120)

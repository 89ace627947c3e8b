// SPDX-License-Identifier: BSD-2-Clause
/* test_diff.c - core/diff: the bytes that changed, and no others. */
#include "core.h"

#include <string.h>
#include <sys/mman.h>

#include "core/diff.h"

static uint8_t page[DIFF_PAGE], twin[DIFF_PAGE], master[DIFF_PAGE], out[DIFF_MAX];

static uint64_t seed = 88172645463325252ULL;

static unsigned int below(unsigned int n)
{
	return (unsigned int)(unit_random(&seed) % n);
}

static uint8_t random_byte(void)
{
	return (uint8_t)below(256);
}

static void fill(uint8_t *p)
{
	unsigned int i;

	for (i = 0; i < DIFF_PAGE; i++)
		p[i] = random_byte();
}

/* Change about one byte in `every`, in runs of up to `run` bytes. */
static void change(uint8_t *p, unsigned int every, unsigned int run)
{
	unsigned int i, n;

	for (i = 0; i < DIFF_PAGE; i++)
		if (below(every) == 0)
			for (n = 1 + below(run); n && i < DIFF_PAGE; n--)
				p[i++] ^= (uint8_t)(1 + below(255));
}

static void check_same(const uint8_t *a, const uint8_t *b)
{
	ck_assert_int_eq(memcmp(a, b, DIFF_PAGE), 0);
}

UNIT_TEST(equal_pages_have_no_diff)
{
	fill(page);
	memcpy(twin, page, DIFF_PAGE);
	ck_assert_uint_eq(diff_make(page, twin, out), 0);
}

UNIT_TEST(each_single_byte_and_bit_is_found)
{
	unsigned int i, bit;

	memset(twin, 0, DIFF_PAGE);
	for (i = 0; i < DIFF_PAGE; i++)
		for (bit = 0; bit < 8; bit++) {
			memset(page, 0, DIFF_PAGE);
			page[i] = (uint8_t)(1U << bit);
			ck_assert_uint_eq(diff_make(page, twin, out), 8 + 8 + 1);
			ck_assert_int_eq(diff_check(out, 17), 0);
			memset(master, 0, DIFF_PAGE);
			diff_apply(master, out);
			check_same(master, page);
		}
}

UNIT_TEST(a_page_of_changes_has_the_largest_diff)
{
	unsigned int i;

	fill(twin);
	for (i = 0; i < DIFF_PAGE; i++)
		page[i] = (uint8_t)~twin[i];
	ck_assert_uint_eq(diff_make(page, twin, out), DIFF_MAX);
	ck_assert_int_eq(diff_check(out, DIFF_MAX), 0);
	diff_apply(twin, out);
	check_same(twin, page);
}

/* The format, byte by byte. */
static void check_format(size_t size)
{
	const uint8_t *at = out + 8;
	unsigned int i;

	for (i = 0; i < DIFF_PAGE; i += DIFF_LINE) {
		const bool has = memcmp(page + i, twin + i, DIFF_LINE);
		const uint8_t *mask = at, *bytes = at + 8;
		unsigned int l = i / DIFF_LINE, b;

		unit_require((out[l / 8] >> l % 8 & 1) == has);
		for (b = 0; has && b < DIFF_LINE; b++) {
			const bool differs = page[i + b] != twin[i + b];

			unit_require((mask[b / 8] >> b % 8 & 1) == differs);
			unit_require(!differs || *bytes == page[i + b]);
			bytes += differs;
		}
		at = has ? bytes : at;
	}
	ck_assert_ptr_eq(at, out + size);
}

UNIT_TEST(a_diff_turns_the_twin_into_the_page)
{
	unsigned int turn;

	for (turn = 0; turn < 500; turn++) {
		size_t size;

		fill(twin);
		memcpy(page, twin, DIFF_PAGE);
		change(page, 1 + below(600), 1 + below(80));
		size = diff_make(page, twin, out);
		if (!size) {
			check_same(twin, page);
			continue;
		}
		check_format(size);
		ck_assert_int_eq(diff_check(out, size), 0);
		diff_apply(twin, out);
		check_same(twin, page);
	}
}

/*
 * Two nodes change different bytes of a page, in every mixture: their diffs do not touch each
 * other's.
 */
UNIT_TEST(a_diff_leaves_all_other_bytes_alone)
{
	static uint8_t before[DIFF_PAGE];
	unsigned int turn, i;

	for (turn = 0; turn < 500; turn++) {
		fill(twin);
		memcpy(page, twin, DIFF_PAGE);
		memcpy(master, twin, DIFF_PAGE);
		for (i = 0; i < DIFF_PAGE; i++)
			*(below(2) ? page + i : master + i) = random_byte();
		memcpy(before, master, DIFF_PAGE);
		if (diff_make(page, twin, out))
			diff_apply(master, out);
		for (i = 0; i < DIFF_PAGE; i++)
			unit_require(master[i] == (page[i] != twin[i] ? page[i] : before[i]));
	}
}

UNIT_TEST(what_is_no_diff_is_refused)
{
	uint64_t none = 0, one = 1, two = 3;

	ck_assert_int_eq(diff_check(out, 0), -EBADMSG);
	ck_assert_int_eq(diff_check(out, 7), -EBADMSG);
	memcpy(out, &none, 8);
	ck_assert_int_eq(diff_check(out, 8), -EBADMSG); /* no line */
	memcpy(out, &one, 8);
	memcpy(out + 8, &none, 8);
	ck_assert_int_eq(diff_check(out, 8), -EBADMSG);  /* no mask */
	ck_assert_int_eq(diff_check(out, 16), -EBADMSG); /* no byte */
	memcpy(out + 8, &two, 8);
	ck_assert_int_eq(diff_check(out, 17), -EBADMSG);
	ck_assert_int_eq(diff_check(out, 18), 0);
	ck_assert_int_eq(diff_check(out, 19), -EBADMSG);
}

/* A page may be the last one of a mapping, and what a peer has sent may be cut off anywhere. */
UNIT_TEST(nothing_behind_a_page_or_a_diff_is_read)
{
	uint8_t *room = mmap(NULL, 3 * DIFF_PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *end = room + 2 * DIFF_PAGE;
	size_t size, cut;

	ck_assert(room != MAP_FAILED);
	ck_assert_int_eq(mprotect(end, DIFF_PAGE, PROT_NONE), 0);
	fill(end - DIFF_PAGE);
	fill(twin);
	size = diff_make(end - DIFF_PAGE, twin, out);
	ck_assert_uint_le(size, 2 * DIFF_PAGE);
	for (cut = 0; cut <= size; cut++) {
		memcpy(end - cut, out, cut);
		ck_assert_int_eq(diff_check(end - cut, cut), cut == size ? 0 : -EBADMSG);
	}
	ck_assert_int_eq(munmap(room, 3 * DIFF_PAGE), 0);
}

UNIT_SUITE("diff")

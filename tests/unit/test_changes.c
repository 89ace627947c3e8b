// SPDX-License-Identifier: BSD-2-Clause
/* test_changes.c - miss/changes.c: payloads of FLUSH and NOTE, built, read, and malformed. */
#include "miss/changes.h"
#include "miss/noting.h"

#include <string.h>

#include "core/diff.h"
#include "core/release.h"
#include "job/job.h"
#include "net/net.h"
#include "net/own.h"
#include "suite.h"

#define PAGES 64u
#define NODES (REL_TOLD + 1u)
#define PIECE (128ul << 10)

static uint8_t page[DIFF_PAGE], twin[DIFF_PAGE], small[DIFF_MAX], large[DIFF_MAX];
static size_t small_size, large_size;

static uint32_t object(uint32_t number)
{
	return block_id((size_t)number << PAGE_SHIFT, PAGE_BYTES);
}

static void set_up(void)
{
	job.limits.pages = PAGES;
	memset(twin, 0, sizeof(twin));
	memset(page, 0, sizeof(page));
	page[77] = 1;
	small_size = diff_make(page, twin, small);
	memset(page, 1, sizeof(page));
	large_size = diff_make(page, twin, large);
	ck_assert_uint_eq(large_size, DIFF_MAX);
}

/* Fill the outbox with a diff. */
static void post(struct outbox *o, uint32_t number, const uint8_t *diff, size_t size)
{
	memcpy(outbox_diff(o), diff, size);
	outbox_add(o, object(number), size, number == 5);
}

UNIT_TEST(a_piece_has_its_diffs_in_order)
{
	struct outbox o = { 0 };
	const uint8_t *at;
	struct piece head;
	struct change c;
	size_t size;

	outbox_diff(&o);
	ck_assert(outbox_is_empty(&o)); /* nothing differed */
	post(&o, 3, small, small_size);
	post(&o, 5, large, large_size);
	ck_assert(!outbox_is_empty(&o));
	outbox_seal(&o, true);
	at = o.at;
	size = o.size;
	ck_assert(piece_take(&at, &size, &head));
	ck_assert_uint_eq(head.all, 1);
	ck_assert(changes_check(at, size, false));
	ck_assert(change_next(&at, &size, &c, false));
	ck_assert_uint_eq(c.object, object(3));
	ck_assert_uint_eq(c.size, small_size);
	ck_assert_uint_eq(c.asks, 0);
	ck_assert(!memcmp(at - c.size, small, small_size));
	ck_assert(change_next(&at, &size, &c, false));
	ck_assert_uint_eq(c.object, object(5));
	ck_assert_uint_eq(c.asks, 1);
	ck_assert(!memcmp(at - c.size, large, large_size));
	ck_assert(!change_next(&at, &size, &c, false));
	ck_assert_uint_eq(size, 0);
	own_free(o.at);
}

UNIT_TEST(the_last_piece_says_how_many_there_are)
{
	struct outbox o = { 0 };
	const uint8_t *at;
	struct piece head;
	size_t size;
	unsigned int n;

	for (n = 0; !outbox_full(&o); n++)
		post(&o, n, large, large_size);
	ck_assert_uint_eq(n, (PIECE - sizeof(head)) / (DIFF_MAX + sizeof(struct change)));
	ck_assert_uint_le(o.size, PIECE);
	outbox_seal(&o, false);
	at = o.at;
	size = o.size;
	ck_assert(piece_take(&at, &size, &head));
	ck_assert_uint_eq(head.all, 0);
	outbox_next(&o);
	ck_assert(!outbox_is_empty(&o)); /* the last piece may have no diff */
	ck_assert(!outbox_full(&o));
	outbox_seal(&o, true);
	at = o.at;
	size = o.size;
	ck_assert(piece_take(&at, &size, &head));
	ck_assert_uint_eq(head.all, 2);
	ck_assert(changes_check(at, size, false));
	own_free(o.at);
}

/* In memory that ends there: the address sanitizer sees what is read behind it. */
static bool check_exactly(const uint8_t *v, size_t size)
{
	uint8_t *exact = malloc(size);
	bool ok;

	ck_assert_ptr_nonnull(exact);
	memcpy(exact, v, size);
	ok = changes_check(exact, size, true);
	free(exact);
	return ok;
}

UNIT_TEST(malformed_changes_are_refused)
{
	struct outbox o = { 0 };
	uint8_t v[sizeof(struct change) + DIFF_MAX + 1] = { 0 };
	struct change c;
	const uint8_t *at;
	struct piece head = { .pad = 1 };
	size_t size = sizeof(struct change) + small_size, n;

	post(&o, 3, small, small_size);
	memcpy(v, o.at + sizeof(struct piece), size);
	own_free(o.at);
	for (n = 1; n <= size + 1; n++)
		unit_require(check_exactly(v, n) == (n == size));
	for (n = 0; n < 5; n++) {
		static const uint32_t objects[] = { 0, 2 * (PAGES - 1) + 1, 2 * PAGES + 1, 2,
						    UINT32_MAX };

		c = (struct change){ .object = objects[n], .size = (uint16_t)small_size };
		memcpy(v, &c, sizeof(c));
		unit_require(changes_check(v, size, true) ==
			     (c.object & 1 && block_page(c.object) < PAGES));
	}
	for (n = 0; n < 3; n++) { /* a diff of a FLUSH may ask */
		c = (struct change){ object(3), (uint16_t)small_size, (uint16_t)n };
		memcpy(v, &c, sizeof(c));
		ck_assert(changes_check(v, size, false) == (n < 2));
		ck_assert(changes_check(v, size, true) == !n);
	}
	c = (struct change){ .object = object(3) };
	memcpy(v, &c, sizeof(c));
	ck_assert(changes_check(v, sizeof(c), true)); /* a notice */
	ck_assert(!changes_check(v, sizeof(c), false));
	c.size = UINT16_MAX;
	memcpy(v, &c, sizeof(c));
	ck_assert(!changes_check(v, size, true));
	memcpy(v, &head, sizeof(head));
	at = v;
	n = sizeof(head);
	ck_assert(!piece_take(&at, &n, &head));
	at = v;
	n = sizeof(head) - 1;
	ck_assert(!piece_take(&at, &n, &head));
}

UNIT_TEST(an_acknowledgement_names_the_blocks_that_it_gives)
{
	struct given g = { 0 };
	const uint8_t *at;
	uint32_t got, n;
	size_t size;

	for (n = 0; n < 100; n++)
		given_add(&g, object(n % PAGES));
	at = (const uint8_t *)g.objects;
	size = g.n * sizeof(got) + 3;
	for (n = 0; given_next(&at, &size, &got); n++)
		ck_assert_uint_eq(got, object(n % PAGES));
	ck_assert_uint_eq(n, 100);
	ck_assert_uint_eq(size, 3); /* malformed */
	g.objects[0] = object(PAGES);
	at = (const uint8_t *)g.objects;
	size = sizeof(got);
	ck_assert(!given_next(&at, &size, &got));
	ck_assert_uint_eq(size, sizeof(got));
	own_free(g.objects);
}

/* Node 1 gets a notice and a diff, node 2 the notice, and node 3 nothing. */
UNIT_TEST(each_node_gets_its_own_notes)
{
	struct notes notes = { 0 };
	struct note notice = { .object = object(7) }, told = { .object = object(9) };
	const uint8_t *at;
	uint8_t *payload;
	struct piece head;
	struct change c;
	size_t size;

	notice.node = 1;
	notes_add(&notes, &notice);
	notice.node = 2;
	notes_add(&notes, &notice);
	notes_add_diff(&notes, &told, small, small_size);
	told.node = 1;
	notes_add(&notes, &told);
	at = payload = notes_payload(&notes, 1, NODES, true, &size);
	ck_assert_uint_eq(size, sizeof(head) + 2 * sizeof(c) + small_size);
	ck_assert(piece_take(&at, &size, &head));
	ck_assert_uint_eq(head.all, 1);
	ck_assert(change_next(&at, &size, &c, true));
	ck_assert_uint_eq(c.object, object(7));
	ck_assert_uint_eq(c.size, 0);
	ck_assert(change_next(&at, &size, &c, true));
	ck_assert_uint_eq(c.object, object(9));
	ck_assert(!memcmp(at - c.size, small, small_size));
	ck_assert_uint_eq(size, 0);
	own_free(payload);
	payload = notes_payload(&notes, 2, NODES, true, &size);
	ck_assert_uint_eq(size, sizeof(head) + sizeof(c));
	own_free(payload);
	ck_assert_ptr_null(notes_payload(&notes, 3, NODES, true, &size));
	notes_free(&notes);
}

/* The diff of an own close is in the notes already. Beyond a limit, nobody is told. */
UNIT_TEST(few_diffs_are_told)
{
	struct notes notes = { 0 };
	struct note one = { .object = object(1), .node = 1 };
	const uint8_t *at;
	uint8_t *payload;
	struct piece head;
	struct change c;
	unsigned int n, i;
	size_t size;

	for (n = 0; notes_tell(&notes, NOTES_SERVICE); n++) {
		memcpy(notes_diff(&notes), large, large_size);
		notes_add_diff(&notes, &one, NULL, large_size);
		notes_add(&notes, &one);
	}
	ck_assert_uint_eq(n, NOTES_SERVICE / large_size + 1);
	ck_assert(notes_tell(&notes, NOTES_CLOSE));
	for (i = 0; i < 200; i++) {
		one = (struct note){ .object = object(i % PAGES), .node = 1 };
		notes_add(&notes, &one);
	}
	at = payload = notes_payload(&notes, 1, NODES, true, &size);
	ck_assert(piece_take(&at, &size, &head));
	for (i = 0; change_next(&at, &size, &c, true); i++)
		unit_require(c.size == (i < n ? large_size : 0) &&
			     (i >= n || !memcmp(at - c.size, large, large_size)));
	ck_assert_uint_eq(i, n + 200);
	ck_assert_uint_eq(size, 0);
	own_free(payload);
	notes_free(&notes);
}

/* Of a piece to a node: contents or notices of the next blocks. Returns how many. */
static unsigned int take_piece(struct notes *notes, uint16_t node, bool last, uint32_t all,
			       unsigned int first, size_t each)
{
	struct piece head = { 0 };
	struct change c;
	const uint8_t *at;
	uint8_t *payload;
	unsigned int n = 0;
	size_t size;

	at = payload = notes_payload(notes, node, NODES, last, &size);
	ck_assert_ptr_nonnull(at);
	ck_assert_uint_le(size, NET_PAYLOAD_MAX);
	ck_assert(piece_take(&at, &size, &head));
	ck_assert_uint_eq(head.all, all);
	for (; change_next(&at, &size, &c, true); n++)
		unit_require(c.object == object((first + n) % PAGES) && c.size == each);
	ck_assert_uint_eq(size, 0);
	own_free(payload);
	return n;
}

/* What has been sent is not sent again. */
UNIT_TEST(a_note_leaves_in_pieces)
{
	struct notes notes = { 0 };
	unsigned int sent = 0, n = 0, got = 0, far = 0;
	size_t size;

	for (; sent < 3; n++) {
		struct note one = { .object = object(n % PAGES), .node = 1 };

		memcpy(notes_diff(&notes), large, large_size);
		notes_add_diff(&notes, &one, NULL, large_size);
		notes_add(&notes, &one);
		one = (struct note){ .object = object(n % PAGES), .node = REL_TOLD };
		notes_add(&notes, &one);
		if (!notes_full(&notes))
			continue;
		sent++;
		got += take_piece(&notes, 1, false, 0, got, large_size);
		ck_assert_ptr_null(notes_payload(&notes, 2, NODES, false, &size));
		far += take_piece(&notes, REL_TOLD, false, 0, far, 0);
		notes_next(&notes);
	}
	ck_assert_uint_eq(got, n);
	ck_assert_uint_eq(far, n);
	ck_assert_uint_eq(notes.n, 0);
	ck_assert_uint_eq(take_piece(&notes, 1, true, 4, 0, 0), 0); /* how many there were */
	ck_assert_uint_eq(take_piece(&notes, REL_TOLD, true, 4, 0, 0), 0);
	ck_assert_ptr_null(notes_payload(&notes, 2, NODES, true, &size));
	notes_free(&notes);
}

/* A node that lends 3 GiB has no twins of them, so nothing else bounds its notices. */
UNIT_TEST(notices_alone_fill_pieces)
{
	enum { BLOCKS = 3 << 18 };
	struct notes notes = { 0 };
	unsigned int sent = 0, n, got[2] = { 0 }, k;

	for (n = 0; n < BLOCKS; n++) {
		struct note one = { .object = object(n % PAGES), .node = 1 };

		notes_add(&notes, &one);
		one.node = 2;
		notes_add(&notes, &one);
		if (!notes_full(&notes))
			continue;
		sent++;
		for (k = 0; k < 2; k++)
			got[k] += take_piece(&notes, (uint16_t)(1 + k), false, 0, got[k], 0);
		notes_next(&notes);
	}
	ck_assert_uint_gt(sent, BLOCKS * sizeof(struct change) / NET_PAYLOAD_MAX);
	ck_assert_uint_lt(sent, 40); /* counted by blocks, however many nodes there are */
	for (k = 0; k < 2; k++)
		got[k] += take_piece(&notes, (uint16_t)(1 + k), true, sent + 1, got[k], 0);
	ck_assert_uint_eq(got[0], BLOCKS);
	ck_assert_uint_eq(got[1], BLOCKS);
	notes_free(&notes);
}

/* ---- pieces of a NOTE that come -------------------------------------------------------------- */

static struct msg note_of(uint16_t src, uint16_t writer, uint64_t close)
{
	return (struct msg){ .type = MSG_NOTE, .src = src, .req_node = writer, .value = close };
}

static bool comes(const struct msg *m, uint32_t all)
{
	ck_assert_int_eq(noting_begin(m, all), 0);
	return noting_end(m, all);
}

/* The last piece comes first, the second, or last, among those of others. */
UNIT_LOOP_TEST(a_note_has_come_when_all_its_pieces_have, 0, 3)
{
	const struct msg m = note_of(1, 2, 7), next = note_of(1, 2, 8), other = note_of(2, 1, 9),
			 own = note_of(1, 1, 7);
	int i;

	ck_assert(comes(&m, 1));
	ck_assert(!comes(&other, 0));
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(comes(&m, i == _i ? 3 : 0), i == 2);
		ck_assert(comes(&own, 1));
		if (i < 2)
			ck_assert_int_eq(noting_begin(&next, 0), -EBADMSG);
	}
	ck_assert(comes(&other, 2));
	ck_assert(!comes(&next, 2));
	ck_assert(comes(&next, 0));
}

UNIT_TEST(few_whole_blocks_are_told)
{
	struct notes notes = { 0 };
	unsigned int n;

	for (n = 0; notes_tell_whole(&notes, large_size); n++)
		;
	ck_assert_uint_eq(n, NOTES_WHOLE / large_size + 1);
	ck_assert(notes_tell(&notes, NOTES_SERVICE)); /* others are */
}

UNIT_TEST(pieces_beyond_their_number_are_refused)
{
	const struct msg m = note_of(3, 4, 7);

	ck_assert(!comes(&m, 2));
	ck_assert_int_eq(noting_begin(&m, 2), -EBADMSG); /* a second last one */
	ck_assert_int_eq(noting_begin(&m, 0), 0);
	ck_assert_int_eq(noting_begin(&m, 0), -EBADMSG);
}

UNIT_SUITE("changes", .setup = set_up)

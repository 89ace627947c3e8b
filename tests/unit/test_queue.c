// SPDX-License-Identifier: BSD-2-Clause
/* test_queue.c - core/queue, compared with a plain array. */
#include "suite.h"

#include "core/queue.h"

#define RANKS 8
#define SLOTS 4
#define NODES (RANKS * SLOTS)

#define CHUNKS (1024 * 0x1003 / QUEUE_CHUNK + 1)

static struct queue_entry nodes[NODES], *chunks[CHUNKS];
static struct qpool pool = { .entries = nodes, .nslots = SLOTS };

/* Queue entries beyond 16 bits: a few at each end of several chunks. */
static uint32_t chunked(unsigned int i)
{
	static const uint32_t at[] = { 1, 200, 16000, 16385 };
	static const uint32_t in[] = { 1, 2, 3, 0x80, 0xfe, 0xff, 0x100, 0x81 };

	return at[i / 8] * QUEUE_CHUNK + in[i % 8];
}

static void setup(void)
{
	pool = (struct qpool){ .entries = nodes, .nslots = SLOTS };
	memset(nodes, 0, sizeof(nodes));
}

static void setup_chunks(void)
{
	unsigned int i;

	pool = (struct qpool){ .chunks = chunks, .nslots = 0x1003 };
	for (i = 0; i < NODES; i++)
		if (!queue_ready(&pool, chunked(i)))
			chunks[(chunked(i) - 1) / QUEUE_CHUNK] =
				calloc(QUEUE_CHUNK, sizeof(**chunks));
}

static void teardown_chunks(void)
{
	unsigned int i;

	for (i = 0; i < CHUNKS; i++) {
		free(chunks[i]);
		chunks[i] = NULL;
	}
}

static uint32_t name(unsigned int i)
{
	return pool.chunks ? chunked(i) : i + 1;
}

static uint32_t push(uint32_t tail, uint32_t node)
{
	queue_at(&pool, node)->type = 1;
	return queue_push(&pool, tail, node);
}

UNIT_TEST(a_node_names_its_rank_and_slot)
{
	uint16_t r, s;

	for (r = 0; r < RANKS; r++)
		for (s = 0; s < SLOTS; s++) {
			uint32_t n = queue_number(&pool, r, s);

			ck_assert_uint_ge(n, 1);
			ck_assert_uint_le(n, NODES);
			ck_assert_uint_eq(queue_requester(&pool, n), r);
			ck_assert_uint_eq(queue_slot(&pool, n), s);
		}
}

/* Ranks and slots at their largest; no entry is stored. */
UNIT_TEST(a_node_of_a_large_job_names_its_rank_and_slot)
{
	uint32_t sizes[] = { 1, 255, 256, 257, 0x1003, 0xffff };
	unsigned int i, r, s;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct qpool large = { .nslots = sizes[i] };
		uint32_t last = 0;

		for (r = 0; r < 1024; r++)
			for (s = 0; s<sizes[i]; s += sizes[i]> 1 ? sizes[i] - 1 : 1) {
				uint32_t n = queue_number(&large, (uint16_t)r, (uint16_t)s);

				unit_require(n > last);
				last = n;
				unit_require(queue_requester(&large, n) == r);
				unit_require(queue_slot(&large, n) == s);
			}
		unit_require(last == 1024 * sizes[i]);
	}
}

UNIT_TEST(a_chunk_that_is_not_there_is_not_ready)
{
	unsigned int i;

	setup_chunks();
	for (i = 0; i < NODES; i++) {
		uint32_t node = chunked(i);

		ck_assert(queue_ready(&pool, node));
		ck_assert_ptr_eq(queue_at(&pool, node), &chunks[(node - 1) >> 8][(node - 1) & 255]);
	}
	ck_assert(!queue_ready(&pool, 1));
	ck_assert(!queue_ready(&pool, QUEUE_CHUNK));
	ck_assert(queue_ready(&pool, QUEUE_CHUNK + 1));
	ck_assert(queue_ready(&pool, 2 * QUEUE_CHUNK));
	ck_assert(!queue_ready(&pool, 2 * QUEUE_CHUNK + 1));
	ck_assert(!queue_unmark(&pool, 1, 0));
	setup();
	ck_assert(queue_ready(&pool, 1));
}

/* A missing entry has the length of the queue as position; no entry precedes another so often. */
UNIT_LOOP_TEST(what_is_not_there_has_the_position_of_the_end, 0, 2)
{
	uint32_t tail = 0;
	unsigned int i;

	if (_i)
		setup_chunks();
	for (i = 0; i + 1 < NODES; i++) {
		tail = push(tail, name(i));
		ck_assert_uint_eq(queue_position(&pool, tail, name(NODES - 1)), i + 1);
	}
}

UNIT_TEST(an_empty_queue_has_nothing)
{
	bool found = true;

	ck_assert_uint_eq(queue_head(&pool, 0), 0);
	ck_assert_uint_eq(queue_pop(&pool, 0), 0);
	ck_assert_uint_eq(queue_length(&pool, 0), 0);
	ck_assert_uint_eq(queue_position(&pool, 0, 1), 0);
	ck_assert_uint_eq(queue_remove(&pool, 0, 1, &found), 0);
	ck_assert(!found);
}

/* The block with the last number has no mark: it would be 0. */
UNIT_LOOP_TEST(a_mark_is_of_one_node_and_one_block, 0, 2)
{
	static const uint32_t blocks[] = { 0, 0xff, 0xffff, UINT32_MAX - 1 };
	unsigned int i;

	if (_i)
		setup_chunks();
	for (i = 0; i < NODES; i++) {
		ck_assert(!queue_unmark(&pool, name(i), blocks[i % 4]));
		ck_assert(!queue_mark(&pool, name(i), UINT32_MAX));
		ck_assert(!queue_unmark(&pool, name(i), UINT32_MAX));
		ck_assert(queue_mark(&pool, name(i), blocks[i % 4]));
		ck_assert(!queue_mark(&pool, name(i), blocks[i % 4]));
		ck_assert(!queue_mark(&pool, name(i), blocks[(i + 1) % 4]));
	}
	for (i = 0; i < NODES; i++) {
		ck_assert(!queue_busy(&pool, name(i)));
		ck_assert(!queue_unmark(&pool, name(i), blocks[(i + 1) % 4]));
		ck_assert(queue_unmark(&pool, name(i), blocks[i % 4]));
		ck_assert(!queue_unmark(&pool, name(i), blocks[i % 4]));
	}
}

static void compare(uint32_t tail, const uint32_t *model, unsigned int n)
{
	unsigned int i;

	unit_require(queue_length(&pool, tail) == n);
	unit_require(queue_head(&pool, tail) == (n ? model[0] : 0));
	unit_require(tail == (n ? model[n - 1] : 0));
	for (i = 0; i < n; i++) {
		unit_require(queue_position(&pool, tail, model[i]) == i);
		unit_require(queue_busy(&pool, model[i]));
	}
}

UNIT_LOOP_TEST(behaves_like_an_array, 0, 2)
{
	uint64_t seed = 88172645463325252ULL;
	uint32_t model[NODES], tail = 0;
	unsigned int n = 0, i, k;

	if (_i)
		setup_chunks();
	for (i = 0; i < 200000; i++) {
		uint32_t node = name(unit_random(&seed) % NODES);
		unsigned int what = (unsigned int)(unit_random(&seed) % 5);
		bool found;

		for (k = 0; k < n && model[k] != node; k++)
			;
		unit_require(queue_busy(&pool, node) == (k < n));
		if (what < 2 && k == n) {
			tail = push(tail, node);
			model[n++] = node;
		} else if (what == 2) {
			tail = queue_pop(&pool, tail);
			if (n)
				memmove(model, model + 1, --n * sizeof(model[0]));
		} else if (what > 2) {
			tail = queue_remove(&pool, tail, node, &found);
			unit_require(found == (k < n));
			if (found)
				memmove(model + k, model + k + 1, (--n - k) * sizeof(model[0]));
		}
		compare(tail, model, n);
	}
}

UNIT_SUITE("queue", .setup = setup, .teardown = teardown_chunks)

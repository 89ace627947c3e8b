// SPDX-License-Identifier: BSD-2-Clause
/* test_queue.c - core/queue against a plain array. */
#include "core.h"

#include "core/queue.h"

#define RANKS 8
#define SLOTS 4
#define NODES (RANKS * SLOTS)

static struct qnode nodes[NODES];
static const struct qpool pool = { .nodes = nodes, .nslots = SLOTS };

static uint32_t push(uint32_t tail, uint32_t node)
{
	queue_at(&pool, node)->type = 1;
	return queue_push(&pool, tail, node);
}

START_TEST(a_node_names_its_rank_and_slot)
{
	uint16_t r, s;

	for (r = 0; r < RANKS; r++)
		for (s = 0; s < SLOTS; s++) {
			uint32_t n = queue_node(&pool, r, s);

			ck_assert_uint_ge(n, 1);
			ck_assert_uint_le(n, NODES);
			ck_assert_uint_eq(queue_rank(&pool, n), r);
			ck_assert_uint_eq(queue_slot(&pool, n), s);
		}
}
END_TEST

START_TEST(an_empty_queue_has_nothing)
{
	bool found = true;

	ck_assert_uint_eq(queue_head(&pool, 0), 0);
	ck_assert_uint_eq(queue_pop(&pool, 0), 0);
	ck_assert_uint_eq(queue_length(&pool, 0), 0);
	ck_assert_uint_eq(queue_position(&pool, 0, 1), 0);
	ck_assert_uint_eq(queue_remove(&pool, 0, 1, &found), 0);
	ck_assert(!found);
}
END_TEST

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

START_TEST(behaves_like_an_array)
{
	uint64_t seed = 88172645463325252ULL;
	uint32_t model[NODES], tail = 0;
	unsigned int n = 0, i, k;

	for (i = 0; i < 200000; i++) {
		uint32_t node = 1 + (uint32_t)(unit_random(&seed) % NODES);
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
END_TEST

int main(void)
{
	Suite *s = suite_create("queue");
	TCase *t = tcase_create("queue");

	tcase_add_test(t, a_node_names_its_rank_and_slot);
	tcase_add_test(t, an_empty_queue_has_nothing);
	tcase_add_test(t, behaves_like_an_array);
	suite_add_tcase(s, t);
	return unit_main(s);
}

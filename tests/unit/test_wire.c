// SPDX-License-Identifier: BSD-2-Clause
/* test_wire.c - core/wire: the layout, what a peer may send, names and classes. */
#include "core.h"

#define ME 3
#define RANKS 8
#define SLOTS 16

START_TEST(the_layout_is_what_the_wire_says)
{
	ck_assert_uint_eq(sizeof(struct msg), 32);
	ck_assert_uint_eq(offsetof(struct msg, src), 4);
	ck_assert_uint_eq(offsetof(struct msg, object), 8);
	ck_assert_uint_eq(offsetof(struct msg, req_rank), 12);
	ck_assert_uint_eq(offsetof(struct msg, home), 16);
	ck_assert_uint_eq(offsetof(struct msg, count), 18);
	ck_assert_uint_eq(offsetof(struct msg, aux), 20);
	ck_assert_uint_eq(offsetof(struct msg, value2), 16);
	ck_assert_uint_eq(offsetof(struct msg, value), 24);
}
END_TEST

START_TEST(every_type_has_a_name_and_a_class)
{
	unsigned int t, u;

	for (t = 0; t < MSG_TYPES; t++) {
		ck_assert_ptr_nonnull(wire_name((uint8_t)t));
		ck_assert_uint_lt(wire_class((uint8_t)t), CLASS_MAX);
		for (u = 0; u < t; u++)
			ck_assert_str_ne(wire_name((uint8_t)t), wire_name((uint8_t)u));
	}
	ck_assert_str_eq(wire_name(MSG_TYPES), "?");
	ck_assert_uint_eq(wire_class(255), CLASS_BULK);
	ck_assert_uint_eq(wire_class(MSG_DATA), CLASS_DATA);
	ck_assert_uint_eq(wire_class(MSG_LOCK), CLASS_SYNC);
}
END_TEST

START_TEST(each_field_out_of_range_is_refused)
{
	struct msg good = unit_msg(MSG_READ_REQ, 1, ME, 1, SLOTS - 1), m;

	ck_assert_int_eq(wire_check(&good, ME, RANKS, SLOTS), 0);
	m = good, m.version++;
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m = good, m.type = MSG_TYPES;
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m = good, m.type = MSG_NONE;
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m = good, m.type = MSG_RESUME; /* a home's word to itself */
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m = good, m.src = RANKS;
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m = good, m.dst = ME + 1;
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m = good, m.req_rank = RANKS;
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m = good, m.req_slot = SLOTS;
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), -EBADMSG);
	m.type = MSG_ARRIVE; /* names no slot */
	ck_assert_int_eq(wire_check(&m, ME, RANKS, SLOTS), 0);
}
END_TEST

START_TEST(garbage_that_passes_is_in_range)
{
	uint64_t seed = 0x243f6a8885a308d3ULL;
	unsigned int i, k, passed = 0;

	for (i = 0; i < 2000000; i++) {
		struct msg m;
		uint64_t w[4];

		for (k = 0; k < 4; k++)
			w[k] = unit_random(&seed);
		memcpy(&m, w, sizeof(m));
		if (i & 1) { /* near misses */
			m.version = WIRE_VERSION;
			m.type %= MSG_TYPES + 2;
			m.src %= RANKS + 1;
			m.dst = ME;
			m.req_rank %= RANKS + 1;
			m.req_slot %= SLOTS + 1;
		}
		if (wire_check(&m, ME, RANKS, SLOTS))
			continue;
		passed++;
		unit_require(m.type < MSG_TYPES);
		unit_require(m.src < RANKS);
		unit_require(m.req_rank < RANKS);
		unit_require(m.dst == ME);
	}
	unit_require(passed > 1000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wire");
	TCase *t = tcase_create("wire");

	tcase_add_test(t, the_layout_is_what_the_wire_says);
	tcase_add_test(t, every_type_has_a_name_and_a_class);
	tcase_add_test(t, each_field_out_of_range_is_refused);
	tcase_add_test(t, garbage_that_passes_is_in_range);
	suite_add_tcase(s, t);
	return unit_main(s);
}

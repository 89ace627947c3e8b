// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_bundle.c - core/bundle: messages that travel together come out as they went in, and nothing
 * else does.
 */
#include "core.h"

#include "../bundle_limits.h"
#include "core/bundle.h"

#define N 3u

static struct msg v[WIRE_BUNDLE_MAX], head;
/* The payload begins at an odd address. */
static uint8_t payload[1 + WIRE_BUNDLE_MAX * sizeof(struct msg) + 8 * WIRE_PAGE];
static size_t size;

/* A bundle of n messages of a type, of blocks of two pages in a row. */
static void bundle_of(uint8_t type, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		v[i] = wire_good(type, OTHER, &lim);
		v[i].object = 4 * (i + 8) + 2;
		if (wire_rule_of(type, WF_req_slot) != RULE_ZERO)
			v[i].req_slot = (uint16_t)(i % 16);
	}
	head = bundle_head(v, n);
	memcpy(payload + 1, v, n * sizeof(v[0]));
	size = n * sizeof(v[0]);
	for (i = 0; type == MSG_DATA && i < n; i++, size += 2ul * WIRE_PAGE)
		memset(payload + 1 + size, (int)i + 1, 2ul * WIRE_PAGE);
}

/* What bundle_next() says after `good` messages, each as it was put in. */
static int bundle_after(unsigned int good)
{
	const uint8_t *data = payload + 1 + (size_t)head.count * sizeof(struct msg);
	struct bundle b;
	const void *contents;
	struct msg m;
	size_t bytes;
	unsigned int i;

	ck_assert_int_eq(wire_check(&head, &lim), 0);
	ck_assert_int_eq(bundle_begin(&b, &head, payload + 1, size, &lim), 0);
	for (i = 0; i < good; i++) {
		ck_assert_int_eq(bundle_next(&b, &m, &contents, &bytes), 1);
		ck_assert_int_eq(memcmp(&m, &v[i], sizeof(m)), 0);
		ck_assert_uint_eq(bytes, head.op == MSG_DATA ? 2 * WIRE_PAGE : 0);
		ck_assert_ptr_eq(contents, head.op == MSG_DATA ? data + i * 2ul * WIRE_PAGE : NULL);
	}
	return bundle_next(&b, &m, &contents, &bytes);
}

UNIT_TEST(requests_answers_and_ends_of_blocks_may_travel_so)
{
	unsigned int type;

	for (type = 0; type < MSG_TYPES; type++)
		ck_assert_int_eq(bundle_takes((uint8_t)type),
				 type >= MSG_READ_REQ && type <= MSG_RELEASE);
	/* Nobody closes for them, and nobody applies notices. */
	for (type = MSG_READ_REQ; type <= MSG_RELEASE; type++)
		ck_assert_int_eq(wire_order((uint8_t)type), ORDER_NEITHER);
}

UNIT_TEST(the_head_says_what_follows)
{
	bundle_of(MSG_WRITE_REQ, N);
	ck_assert_uint_eq(head.version, WIRE_VERSION);
	ck_assert_uint_eq(head.type, MSG_BUNDLE);
	ck_assert_uint_eq(head.op, MSG_WRITE_REQ);
	ck_assert_uint_eq(head.src, OTHER);
	ck_assert_uint_eq(head.dst, ME);
	ck_assert_uint_eq(head.req_node, OTHER);
	ck_assert_int_eq(head.count, N);
	ck_assert_int_eq(wire_check(&head, &lim), 0);
	v[0].src = 0x301;
	v[0].dst = 0x203;
	head = bundle_head(v, 300);
	ck_assert_uint_eq(head.src, 0x301);
	ck_assert_uint_eq(head.dst, 0x203);
	ck_assert_uint_eq(head.req_node, 0x301);
	ck_assert_int_eq(head.count, 300);
}

UNIT_TEST(a_bundle_counts_as_its_messages)
{
	static const int16_t wrong[] = { INT16_MIN, -1, 0, 1, WIRE_BUNDLE_MAX + 1, INT16_MAX };
	unsigned int i;

	bundle_of(MSG_DATA, N);
	ck_assert_uint_eq(bundle_count(&head), N);
	ck_assert_uint_eq(bundle_class(&head), CLASS_DATA);
	ck_assert_uint_eq(bundle_count(&v[0]), 1);
	ck_assert_uint_eq(bundle_class(&v[0]), CLASS_DATA);
	v[0] = wire_good(MSG_GRANT, OTHER, &lim);
	v[0].count = 3; /* acknowledgements */
	ck_assert_uint_eq(bundle_count(&v[0]), 1);
	bundle_of(MSG_DONE, WIRE_BUNDLE_MAX);
	ck_assert_uint_eq(bundle_count(&head), WIRE_BUNDLE_MAX);
	ck_assert_uint_eq(bundle_class(&head), CLASS_COHERENCE);
	bundle_of(MSG_DONE, 2);
	ck_assert_uint_eq(bundle_count(&head), 2);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		head.count = wrong[i];
		ck_assert_uint_eq(bundle_count(&head), 1);
	}
}

UNIT_TEST(each_type_comes_out_as_it_went_in)
{
	unsigned int type;

	for (type = MSG_READ_REQ; type <= MSG_RELEASE; type++) {
		bundle_of((uint8_t)type, N);
		ck_assert_int_eq(bundle_after(N), 0);
	}
	bundle_of(MSG_DONE, WIRE_BUNDLE_MAX);
	ck_assert_int_eq(bundle_after(WIRE_BUNDLE_MAX), 0);
	bundle_of(MSG_DATA, 2);
	ck_assert_int_eq(bundle_after(2), 0);
}

UNIT_TEST(a_payload_of_another_size_is_refused)
{
	struct bundle b;

	bundle_of(MSG_READ_REQ, N);
	ck_assert_int_eq(bundle_begin(&b, &head, payload + 1, size - 1, &lim), -EBADMSG);
	ck_assert_int_eq(bundle_begin(&b, &head, payload + 1, 0, &lim), -EBADMSG);
	size++;
	ck_assert_int_eq(bundle_after(N), -EBADMSG);
	bundle_of(MSG_DATA, N);
	size++;
	ck_assert_int_eq(bundle_after(N), -EBADMSG);
	size -= 2;
	ck_assert_int_eq(bundle_after(N - 1), -EBADMSG);
	size = N * sizeof(struct msg);
	ck_assert_int_eq(bundle_after(0), -EBADMSG);
}

/* Change the message at `at` to one that is good, except for what the caller says. */
static void change(unsigned int at, uint8_t type, uint16_t src, uint32_t object)
{
	v[at].type = type;
	v[at].src = src;
	v[at].object = object;
	memcpy(payload + 1 + at * sizeof(v[0]), &v[at], sizeof(v[0]));
}

UNIT_TEST(a_message_that_does_not_fit_the_head_is_refused)
{
	unsigned int at;

	for (at = 0; at < N; at++) {
		bundle_of(MSG_READ_REQ, N);
		change(at, MSG_WRITE_REQ, OTHER, v[at].object);
		ck_assert_int_eq(bundle_after(at), -EBADMSG);
		change(at, MSG_READ_REQ, OTHER + 2, v[at].object);
		ck_assert_int_eq(bundle_after(at), -EBADMSG);
		change(at, MSG_READ_REQ, OTHER, 0);
		ck_assert_int_eq(bundle_after(at), -EBADMSG);
		v[at].dst = ME + 1;
		change(at, MSG_READ_REQ, OTHER, 4 * (at + 8) + 2);
		ck_assert_int_eq(bundle_after(at), -EBADMSG);
	}
}

UNIT_TEST(a_bundle_in_a_bundle_is_refused)
{
	bundle_of(MSG_READ_REQ, N);
	v[0] = head;
	change(0, MSG_BUNDLE, OTHER, 0);
	ck_assert_int_eq(bundle_after(0), -EBADMSG);
	head.op = MSG_BUNDLE;
	ck_assert_int_eq(wire_check(&head, &lim), -EBADMSG);
}

UNIT_SUITE("bundle")

// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_wire.c - core/wire: the layout, names and classes, and what every field of every message may
 * be.
 */
#include "core.h"

#include "../wire_values.h"

#define ME 3
#define RANKS 8
#define PROCESSES 20 /* ranks of the job, for fields that count ranks, not nodes */
#define BLOCK_SLOTS 16
#define SLOTS 64
#define HOLDS 48
#define CALLS 14
#define BARRIERS 32
#define PAGES 4096

static const struct wire_limits lim = {
	.me = ME,
	.nnodes = RANKS,
	.ranks = PROCESSES,
	.host = HOST_BOTH,
	.calls = CALLS,
	.block_slots = BLOCK_SLOTS,
	.slots = SLOTS,
	.holds = HOLDS,
	.barriers = BARRIERS,
	.pages = PAGES,
	.block_pages = 512,
};

UNIT_TEST(the_layout_is_what_the_wire_says)
{
	ck_assert_uint_eq(sizeof(struct msg), 32);
	ck_assert_uint_eq(offsetof(struct msg, src), 4);
	ck_assert_uint_eq(offsetof(struct msg, object), 8);
	ck_assert_uint_eq(offsetof(struct msg, req_node), 12);
	ck_assert_uint_eq(offsetof(struct msg, home), 16);
	ck_assert_uint_eq(offsetof(struct msg, count), 18);
	ck_assert_uint_eq(offsetof(struct msg, aux), 20);
	ck_assert_uint_eq(offsetof(struct msg, value2), 16);
	ck_assert_uint_eq(offsetof(struct msg, value), 24);
}

/* Numbers on the wire are part of the layout; flags of one message share a byte. */
UNIT_TEST(numbers_that_travel_do_not_change)
{
	ck_assert_uint_eq(WIRE_VERSION, 25);
	ck_assert_uint_eq(MSGF_HAS, 1);
	ck_assert_uint_eq(MSGF_FIRST_TOUCH, 2);
	ck_assert_uint_eq(MSGF_ZERO, 4);
	ck_assert_uint_eq(MSGF_CONFIRM, 4);
	ck_assert_uint_eq(MSGF_TIMED, 8);
	ck_assert_uint_eq(MSGF_LEASE, 16);
	ck_assert_uint_eq(MSGF_RELEASE, 8);
	ck_assert_uint_eq(MSGF_FORWARDED, 16);
	ck_assert_uint_eq(MSGF_KNOWN, 32);
	ck_assert_uint_eq(MSGF_PLACE, 64);
	ck_assert_uint_eq(MSGF_PUSH, 128);
	ck_assert_uint_eq(GRANT_READ, 1);
	ck_assert_uint_eq(GRANT_WRITE, 2);
	ck_assert_uint_eq(RELEASE_KEEP, 0);
	ck_assert_uint_eq(RELEASE_EVICT, 1);
	ck_assert_uint_eq(AFTER_FLUSH, 1);
	ck_assert_uint_eq(AFTER_NOTE, 2);
	ck_assert_uint_eq(MSG_NONE, 0);
	ck_assert_uint_eq(SYNC_NONE, 0);
	ck_assert_uint_eq(SOP_CREATE, 0);
	ck_assert_uint_eq(HOST_NONE, 0);
	ck_assert_uint_eq(HOST_BOTH, HOST_LIBRARY | HOST_KERNEL);
	ck_assert_uint_eq(HOST_LIBRARY & HOST_KERNEL, 0);
}

/*
 * The name of a block is twice its first page, with a bit for its size: of each size the first and
 * the last in the window.
 */
UNIT_TEST(blocks_of_every_size_up_to_the_edges)
{
	uint32_t pages, page;

	for (pages = 1; pages <= PAGES; pages *= 2)
		for (page = 0; page <= PAGES; page += pages) {
			struct msg m = wire_good(MSG_READ_REQ, 1, &lim);
			bool ok = pages <= lim.block_pages && page + pages <= PAGES;

			if (page > 2 * pages && page < PAGES - 2 * pages)
				continue;
			m.object = 2 * page + pages;
			ck_assert_int_eq(wire_check(&m, &lim), ok ? 0 : -EBADMSG);
		}
}

/*
 * The window need not be a multiple of a large block: the last block may begin inside it and end
 * outside.
 */
UNIT_TEST(a_block_that_ends_outside_of_the_window_is_none)
{
	struct wire_limits l = lim;
	struct msg m = wire_good(MSG_READ_REQ, 1, &lim);

	l.pages = PAGES + 4;
	m.object = 2 * PAGES + 4;
	ck_assert_int_eq(wire_check(&m, &l), 0);
	m.object = 2 * PAGES + 8;
	ck_assert_int_eq(wire_check(&m, &l), -EBADMSG);
	m.object = 2 * PAGES + 512;
	ck_assert_int_eq(wire_check(&m, &l), -EBADMSG);
}

/*
 * The range of each rule in figures. Only CAS, KIND, INITIAL and LEAVER depend on the operation of
 * the message.
 */
static const struct wire_span {
	int64_t lo, hi;
} wire_spans[] = {
	[RULE_ZERO] = { 0, 0 },
	[RULE_ANY] = { INT64_MIN, INT64_MAX },
	[RULE_VERSION] = { WIRE_VERSION, WIRE_VERSION },
	[RULE_TYPE] = { MSG_SYNC, MSG_SYNC },
	[RULE_NODE] = { 0, 7 },
	[RULE_SENDER] = { 5, 5 },
	[RULE_RECEIVER] = { ME, ME },
	[RULE_OTHER] = { 0, 7 },
	[RULE_BLOCK] = { 1, 0xffffffff },
	[RULE_INDEX] = { 0, 0xffffffff },
	[RULE_BARRIER] = { 0, 31 },
	[RULE_ADDRESS] = { 0, 0xffffffff },
	[RULE_BLOCK_SLOT] = { 0, 15 },
	[RULE_SLOT] = { 0, 63 },
	[RULE_HOLD] = { 0, 47 },
	[RULE_ACKS] = { 0, 7 },
	[RULE_ERRNO] = { -4095, 0 },
	[RULE_BIT] = { 0, 1 },
	[RULE_GRANT] = { 1, 2 },
	[RULE_GRANT_WRITE] = { 2, 2 },
	[RULE_RELEASE] = { 0, 1 },
	[RULE_REQUEST] = { MSG_READ_REQ, MSG_WRITE_REQ },
	[RULE_SYNC_OP] = { 0, SYNC_OPS - 1 },
	[RULE_REDUCE] = { 0, 2 * 16 + 6 },
	[RULE_COMBINE] = { 0, 11 * 16 + 6 },
	[RULE_CALL_OP] = { 1, 13 },
	[RULE_ROOM] = { 0, 4096 },
	[RULE_FRAMES] = { 0, 512 },
	[RULE_THREADS] = { 1, 0x7fffffff },
	[RULE_GEN] = { 0, 65535 },
	[RULE_LIFE] = { 0, 0 },
	[RULE_LIFE_HIGH] = { 0, 0 },
	[RULE_KEY] = { 1, 0xffffffff },
	[RULE_CLOSE] = { 1, INT64_MAX >> 1 },
	[RULE_BUNDLED] = { MSG_READ_REQ, MSG_RELEASE },
	[RULE_SEVERAL] = { 2, 64 },
	[RULE_TAIL] = { 0, AFTER_FLUSH | AFTER_NOTE },
	[RULE_AFTER] = { AFTER_FLUSH, AFTER_FLUSH | AFTER_NOTE },
	[RULE_COUNT] = { 0, 65535 },
	[RULE_F_READ] = { 0,
			  MSGF_FIRST_TOUCH | MSGF_CONFIRM | MSGF_RELEASE | MSGF_FORWARDED |
				  MSGF_KNOWN | MSGF_PUSH },
	[RULE_F_WRITE] = { 0,
			   MSGF_HAS | MSGF_FIRST_TOUCH | MSGF_RELEASE | MSGF_FORWARDED |
				   MSGF_KNOWN | MSGF_PLACE },
	[RULE_F_GRANT] = { 0, MSGF_ZERO | MSGF_PUSH },
	[RULE_F_SYNC] = { 0, MSGF_TIMED | MSGF_LEASE },
	[RULE_F_LOCK] = { 0, MSGF_TIMED },
};

UNIT_TEST(ranges_are_these)
{
	struct wire_limits plain = lim;
	struct msg m = { .type = MSG_SYNC, .src = 5, .dst = ME };
	int64_t lo, hi;
	unsigned int rule, op, i;

	for (i = 0; i < SYNC_OPS * SYNC_ATOMIC; i++)
		for (rule = 0; rule < WIRE_RULE_COUNT; rule++) {
			int64_t least = 0, most = 0;

			op = i / SYNC_ATOMIC;
			m.op = (uint8_t)op;
			m.aux = 1 + i % SYNC_ATOMIC;
			wire_range((enum wire_rule)rule, &m, &lim, &lo, &hi);
			if ((rule == RULE_CAS || rule == RULE_KIND) && op == SOP_CAS)
				least = INT64_MIN, most = INT64_MAX;
			else if (rule == RULE_KIND && op == SOP_CREATE)
				least = SYNC_MUTEX, most = SYNC_ATOMIC;
			else if (rule == RULE_INITIAL && (op != SOP_CREATE || m.aux > SYNC_COND))
				least = INT64_MIN, most = INT64_MAX;
			else if (rule == RULE_LEAVER)
				least = op > 0, most = 19 * 65536 + (op ? 511 : 0);
			else if (rule != RULE_CAS && rule != RULE_KIND && rule != RULE_INITIAL)
				least = wire_spans[rule].lo, most = wire_spans[rule].hi;
			ck_assert_int_eq(lo, least);
			ck_assert_int_eq(hi, most);
		}
	m.object = 1;
	wire_range(RULE_LIFE, &m, &lim, &lo, &hi);
	ck_assert(lo == 0 && hi == 65535);
	wire_range(RULE_LIFE_HIGH, &m, &lim, &lo, &hi);
	ck_assert(lo == 0 && hi == 255);
	plain.block_pages = 0;
	wire_range(RULE_BLOCK, &m, &plain, &lo, &hi);
	ck_assert_int_eq(lo, 0);
	ck_assert_int_eq(hi, PAGES - 1);
}

UNIT_TEST(everything_has_a_name)
{
	unsigned int t, u;

	for (t = 0; t < MSG_TYPES; t++) {
		ck_assert_ptr_nonnull(wire_name((uint8_t)t));
		ck_assert_uint_lt(wire_class((uint8_t)t), CLASS_MAX);
		for (u = 0; u < t; u++)
			ck_assert_str_ne(wire_name((uint8_t)t), wire_name((uint8_t)u));
	}
	for (t = 0; t < WIRE_RULE_COUNT; t++)
		ck_assert_ptr_nonnull(wire_rule_name(t));
	for (t = 0; t < WIRE_FIELD_COUNT; t++)
		ck_assert_str_ne(wire_field_name(t), "?");
	ck_assert_str_eq(wire_name(MSG_TYPES), "?");
	ck_assert_str_eq(wire_rule_name(WIRE_RULE_COUNT), "?");
	ck_assert_str_eq(wire_field_name(WIRE_FIELD_COUNT), "?");
	ck_assert_uint_eq(wire_class(255), CLASS_BULK);
	ck_assert_uint_eq(wire_class(MSG_DATA), CLASS_DATA);
	ck_assert_uint_eq(wire_class(MSG_LOCK), CLASS_SYNC);
	ck_assert_uint_eq(wire_hosts(MSG_RESUME), HOST_NONE);
	ck_assert_uint_eq(wire_hosts(MSG_TYPES), HOST_NONE);
	ck_assert_uint_eq(wire_hosts(255), HOST_NONE);
	ck_assert_uint_eq(wire_class(MSG_TYPES), CLASS_BULK);
	ck_assert_int_eq(wire_rule_of(MSG_RELEASE, WF_req_slot), RULE_BLOCK_SLOT);
	ck_assert_int_eq(wire_rule_of(MSG_TYPES, WF_req_slot), RULE_ZERO);
	ck_assert_int_eq(wire_rule_of(MSG_RELEASE, WIRE_FIELD_COUNT), RULE_ZERO);
}

static bool block_is_there(uint64_t id)
{
	uint64_t pages = 1, page;

	while (pages <= 512 && !(id & pages))
		pages *= 2;
	page = (id - pages) / 2;
	return id && pages <= 512 && page + pages <= PAGES;
}

/* The rules, expressed in another way. */
static bool means(enum wire_rule rule, int64_t v, const struct msg *m)
{
	switch (rule) {
	case RULE_ZERO: return v == 0;
	case RULE_ANY:
	case RULE_ADDRESS:
	case RULE_GEN:
	case RULE_TYPE: return true;
	case RULE_VERSION: return v == WIRE_VERSION;
	case RULE_NODE: return v >= 0 && v < RANKS;
	case RULE_SENDER: return v == m->src;
	case RULE_RECEIVER: return v == ME;
	case RULE_OTHER: return v >= 0 && v < RANKS && v != ME;
	case RULE_BLOCK: return block_is_there((uint64_t)v);
	case RULE_INDEX: return v % (1 << 24);
	case RULE_BARRIER: return v < BARRIERS;
	case RULE_BLOCK_SLOT: return v < BLOCK_SLOTS;
	case RULE_SLOT: return v < SLOTS;
	case RULE_HOLD: return v >= 0 && v < HOLDS;
	case RULE_ACKS: return v >= 0 && v < RANKS;
	case RULE_ERRNO: return v <= 0 && v >= -4095;
	case RULE_BIT: return v == 0 || v == 1;
	case RULE_GRANT: return v == GRANT_READ || v == GRANT_WRITE;
	case RULE_GRANT_WRITE: return v == GRANT_WRITE;
	case RULE_RELEASE: return v == RELEASE_KEEP || v == RELEASE_EVICT;
	case RULE_REQUEST: return v == MSG_READ_REQ || v == MSG_WRITE_REQ;
	case RULE_SYNC_OP: return v < SYNC_OPS;
	case RULE_REDUCE: return v >= 0 && v / 16 <= 2 && v % 16 <= 6;
	case RULE_COMBINE: return v >= 0 && v / 16 <= 11 && v % 16 <= 6;
	case RULE_CALL_OP: return v >= 1 && v < CALLS;
	case RULE_ROOM: return v <= 4096;
	case RULE_LIFE: return v == 0 || m->object;
	case RULE_LIFE_HIGH: return v == 0 || (m->object && v > 0 && v <= 255);
	case RULE_LEAVER:
		return v / 65536 < PROCESSES &&
			(m->op ? v % 256 && v / 256 % 256 <= 1 : v % 65536 == 0);
	case RULE_COUNT: return v >= 0 && v <= 65535;
	case RULE_FRAMES: return v <= 512;
	case RULE_THREADS: return v >= 1 && v <= INT32_MAX;
	case RULE_KEY: return v != 0;
	case RULE_CLOSE: return v >= 1 && v < 1ll << 62;
	case RULE_BUNDLED: return v >= MSG_READ_REQ && v <= MSG_RELEASE;
	case RULE_SEVERAL: return v >= 2 && v <= WIRE_BUNDLE_MAX;
	case RULE_TAIL: return v >= 0 && v <= 3;
	case RULE_AFTER: return v >= 1 && v <= 3;
	case RULE_CAS: return m->op == SOP_CAS || v == 0;
	case RULE_KIND:
		return m->op == SOP_CAS ||
			(m->op == SOP_CREATE ? v >= SYNC_MUTEX && v <= SYNC_ATOMIC : v == 0);
	case RULE_INITIAL:
		return v == 0 || m->op != SOP_CREATE || m->aux == SYNC_SEM || m->aux == SYNC_ATOMIC;
	case RULE_F_READ:
		return !(v &
			 ~(MSGF_FIRST_TOUCH | MSGF_CONFIRM | MSGF_RELEASE | MSGF_FORWARDED |
			   MSGF_KNOWN | MSGF_PUSH));
	case RULE_F_WRITE:
		return !(v &
			 ~(MSGF_HAS | MSGF_FIRST_TOUCH | MSGF_RELEASE | MSGF_FORWARDED |
			   MSGF_KNOWN | MSGF_PLACE));
	case RULE_F_GRANT: return !(v & ~(MSGF_ZERO | MSGF_PUSH));
	case RULE_F_SYNC: return !(v & ~(MSGF_TIMED | MSGF_LEASE));
	case RULE_F_LOCK: return !(v & ~MSGF_TIMED);
	case WIRE_RULE_COUNT: break;
	}
	return false;
}

static bool all_rules_hold(const struct msg *m)
{
	int f;

	if (m->type >= MSG_TYPES || !wire_hosts(m->type))
		return false;
	for (f = 0; f < WIRE_FIELD_COUNT; f++)
		if (!means(wire_rule_of(m->type, (enum wire_field)f),
			   wire_get(m, (enum wire_field)f), m))
			return false;
	return true;
}

/* The number of variants of this message with different rules: operations; barrier 0 and others. */
static unsigned int variants(unsigned int type)
{
	return type == MSG_SYNC                                               ? SYNC_OPS
		: type == MSG_BYE || type == MSG_ARRIVE || type == MSG_DEPART ? 2
									      : 1;
}

/*
 * All types, all fields, all values at the edges of the allowed ranges: accepted if and only if the
 * rule allows them.
 */
UNIT_TEST(every_field_of_every_message_is_held_to_its_rule)
{
	unsigned int refused[WIRE_FIELD_COUNT] = { 0 }, t, f, i, n, ops;

	for (t = 1; t < MSG_TYPES; t++)
		for (ops = 0; ops < variants(t); ops++) {
			struct msg good = wire_good((uint8_t)t, 1, &lim);

			if (t == MSG_SYNC) {
				good.op = (uint8_t)ops;
				good.aux = ops == SOP_CREATE ? SYNC_SEM : 0;
			} else if (t == MSG_BYE) {
				good.op = (uint8_t)ops;
				good.aux = ops;
			} else if (ops) {
				good.object = BARRIERS - 1;
			}
			ck_assert_int_eq(wire_check(&good, &lim),
					 wire_hosts((uint8_t)t) ? 0 : -EBADMSG);
			for (f = 0; f < WIRE_FIELD_COUNT; f++) {
				int64_t values[WIRE_VALUES_MAX];

				if (f == WF_type)
					continue;
				n = wire_values(&good, (enum wire_field)f, &lim, values);
				ck_assert_uint_le(n, WIRE_VALUES_MAX);
				for (i = 0; i < n; i++) {
					struct msg m = good;

					if (!wire_set(&m, (enum wire_field)f, values[i]))
						continue;
					if (wire_check(&m, &lim) !=
					    (all_rules_hold(&m) ? 0 : -EBADMSG))
						ck_abort_msg("%s: %s %lld", wire_name((uint8_t)t),
							     wire_field_name(f),
							     (long long)values[i]);
					refused[f] += !all_rules_hold(&m);
				}
			}
		}
	for (f = 0; f < WIRE_FIELD_COUNT; f++)
		ck_assert(f == WF_type || refused[f]);
}

UNIT_TEST(what_was_once_believed_is_refused)
{
	struct msg m = wire_good(MSG_RELEASE, 1, &lim);

	m.req_slot = BLOCK_SLOTS; /* the answer would go to a slot that does not exist */
	ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
	m = wire_good(MSG_UNLOCK, 1, &lim);
	m.aux = HOLDS;
	ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
	m = wire_good(MSG_NEXT, 1, &lim);
	m.value = 1ull << 32; /* record 0 if it were truncated */
	ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
	/* req_node is the object's generation; the requester is the sender */
	m = wire_good(MSG_SYNC, 1, &lim);
	m.op = SOP_ADD;
	m.aux = 0;
	m.req_node = 2;
	ck_assert_int_eq(wire_check(&m, &lim), 0);
	m.aux = SYNC_SEM; /* only SOP_CREATE sets the kind */
	ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
	m = wire_good(MSG_DONE, 1, &lim);
	m.req_node = 2; /* in the name of another rank */
	ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
	m = wire_good(MSG_RESUME, 1, &lim); /* a home sends it only to itself */
	ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
}

UNIT_TEST(an_operation_and_its_type_share_a_byte)
{
	struct msg m = wire_good(MSG_ARRIVE, 1, &lim), part = wire_good(MSG_CHUNK, 1, &lim);
	unsigned int op;

	for (op = 0; op < 256; op++) {
		m.op = (uint8_t)op;
		ck_assert_int_eq(wire_check(&m, &lim), op / 16 < 3 && op % 16 < 7 ? 0 : -EBADMSG);
		part.aux = op;
		ck_assert_int_eq(wire_check(&part, &lim),
				 op / 16 < 12 && op % 16 < 7 ? 0 : -EBADMSG);
	}
}

UNIT_TEST(barrier_0_has_one_generation)
{
	unsigned int t;

	for (t = MSG_ARRIVE; t <= MSG_DEPART; t++) {
		struct msg m = wire_good((uint8_t)t, 1, &lim);

		ck_assert_int_eq(wire_check(&m, &lim), 0);
		m.req_slot = 1;
		ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
		m.req_slot = 0;
		m.home = 1;
		ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
		m.object = 1;
		m.req_slot = 0xffff;
		m.home = 0xff;
		ck_assert_int_eq(wire_check(&m, &lim), 0);
	}
}

/* 1 to 255; plus 256 if the rank is about to leave; 0 if it has finalized. */
UNIT_TEST(who_leaves_has_a_status)
{
	struct msg m = wire_good(MSG_BYE, 1, &lim);
	unsigned int status;

	for (status = 0; status < 65536; status++)
		for (m.op = 0; m.op < 2; m.op++) {
			const bool ok = m.op ? status < 512 && status % 256 : !status;

			m.aux = (PROCESSES - 1) << 16 | status;
			unit_require(wire_check(&m, &lim) == (ok ? 0 : -EBADMSG));
			m.aux = PROCESSES << 16 | status;
			unit_require(wire_check(&m, &lim) == -EBADMSG);
		}
}

UNIT_TEST(index_0_is_no_object_in_any_generation)
{
	struct msg m = wire_good(MSG_LOCK, 1, &lim);

	m.object = 0x01000001;
	ck_assert_int_eq(wire_check(&m, &lim), 0);
	m.object = 0x01000000;
	ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
}

UNIT_TEST(a_type_past_the_last_is_refused)
{
	struct msg m = wire_good(MSG_AFTER, 1, &lim);
	unsigned int type;

	for (type = MSG_TYPES; type < 256; type++) {
		m.type = (uint8_t)type;
		ck_assert_int_eq(wire_check(&m, &lim), -EBADMSG);
	}
}

UNIT_TEST(each_host_takes_its_own)
{
	struct wire_limits l = lim;
	unsigned int t, host;

	for (t = 0; t < MSG_TYPES; t++) {
		struct msg good = wire_good((uint8_t)t, 1, &lim);
		bool none = t == MSG_NONE || t == MSG_RESUME;
		bool calls = t == MSG_CALL || t == MSG_RETURN || t == MSG_PING || t == MSG_BYE ||
			t == MSG_CHUNK || t >= MSG_FLUSH || t == MSG_REVOKE || t == MSG_REVOKED;
		bool keys = t == MSG_KEY_WANTED || t == MSG_KEY || t == MSG_ECHO || t == MSG_HELLO;
		unsigned int hosts = none ? HOST_NONE
			: calls           ? HOST_LIBRARY
			: keys            ? HOST_KERNEL
					  : HOST_BOTH;

		ck_assert_uint_eq(wire_hosts((uint8_t)t), hosts);
		ck_assert_int_eq(wire_envelope(&good, ME, RANKS), none ? -EBADMSG : 0);
		for (host = HOST_LIBRARY; host <= HOST_KERNEL; host++) {
			l.host = (uint8_t)host;
			ck_assert_int_eq(wire_check(&good, &l), hosts & host ? 0 : -EBADMSG);
		}
	}
}

UNIT_TEST(an_envelope_says_from_whom_and_to_whom)
{
	struct msg good = unit_msg(MSG_READ_REQ, 1, ME, 1, 0), m;

	ck_assert_int_eq(wire_envelope(&good, ME, RANKS), 0);
	m = good, m.version++;
	ck_assert_int_eq(wire_envelope(&m, ME, RANKS), -EBADMSG);
	m = good, m.type = MSG_TYPES;
	ck_assert_int_eq(wire_envelope(&m, ME, RANKS), -EBADMSG);
	m = good, m.type = MSG_RESUME;
	ck_assert_int_eq(wire_envelope(&m, ME, RANKS), -EBADMSG);
	m = good, m.src = RANKS;
	ck_assert_int_eq(wire_envelope(&m, ME, RANKS), -EBADMSG);
	m = good, m.dst = ME + 1;
	ck_assert_int_eq(wire_envelope(&m, ME, RANKS), -EBADMSG);
}

UNIT_TEST(garbage_that_passes_is_in_range)
{
	uint64_t seed = 0x243f6a8885a308d3ULL;
	unsigned int i, k, passed = 0;

	for (i = 0; i < 2000000; i++) {
		struct msg m;
		uint64_t w[4];

		for (k = 0; k < 4; k++)
			w[k] = unit_random(&seed);
		memcpy(&m, w, sizeof(m));
		if (i & 1) { /* values next to the rule */
			unsigned int changes = w[0] >> 40 & 3;

			m = wire_good((uint8_t)(w[1] % MSG_TYPES), (uint16_t)(w[1] >> 32) % RANKS,
				      &lim);
			while (changes--) {
				int64_t values[WIRE_VALUES_MAX];
				uint64_t r = unit_random(&seed);
				enum wire_field f = (enum wire_field)(r % WIRE_FIELD_COUNT);

				wire_set(&m, f,
					 values[(r >> 32) % wire_values(&m, f, &lim, values)]);
			}
		}
		if (wire_check(&m, &lim))
			continue;
		passed++;
		unit_require(all_rules_hold(&m));
	}
	unit_require(passed > 1000);
}

UNIT_SUITE("wire")

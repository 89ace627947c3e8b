// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_frame.c - net/verbs/frame.c and core/word.h: the rules for everything below the messages
 * that a peer sends.
 */
#include "net/verbs/frame.h"

#include <stdlib.h>
#include <string.h>

#include "../verbs_values.h"
#include "rule_walk.h"

#define SLOTS 4u
#define RANKS 5
#define ME 2
#define PEER 3
#define KEY 0x6b6b6b6b6b6b6b6bull
#define BLOCK 256
#define BEHIND 64
#define SPENT 9
#define STRIDE ((HEAD + BLOCK + 63) & ~(size_t)63)

static const struct verbs_limits lim = { .key = KEY,
					 .behind = BEHIND,
					 .landing = BLOCK,
					 .nslots = SLOTS,
					 .peer = PEER,
					 .rank = ME,
					 .ranks = RANKS,
					 .class = CLASS_DATA };
static const struct word_limits words = { .slots = SLOTS, .spent = SPENT };

static char buf[1024], landing[SLOTS * STRIDE];

static uint32_t object(void *arg, uint16_t slot)
{
	(void)arg;
	return 100u + slot;
}

static const struct net_config cfg = {
	.rank = ME, .size = RANKS, .nslots = SLOTS, .object = object
};

static bool means(unsigned int rule, uint64_t v)
{
	switch ((enum verbs_rule)rule) {
	case VERBS_RULE_ANY:
	case VERBS_RULE_COUNT: break;
	case VERBS_RULE_ZERO: return v == 0;
	case VERBS_RULE_BIT: return v < 2;
	case VERBS_RULE_IS_MSG: return v == 1;
	case VERBS_RULE_IS_LAND: return v == 2;
	case VERBS_RULE_IS_FETCH: return v == 3;
	case VERBS_RULE_IS_FREE: return v == 4;
	case VERBS_RULE_IS_QUIT: return v == 5;
	case VERBS_RULE_LANE: return v == CLASS_DATA;
	case VERBS_RULE_PEER: return v == PEER;
	case VERBS_RULE_BEHIND: return v == BEHIND;
	case VERBS_RULE_BLOCK: return v && v <= BLOCK;
	case VERBS_RULE_SOME: return v && !(v >> 32);
	case VERBS_RULE_SHAKE_MAGIC: return v == 0x73646831;
	case VERBS_RULE_SHAKE_VERSION: return v == 1;
	case VERBS_RULE_ASKS: return v == 1 || v == 2;
	case VERBS_RULE_TELLS: return v == 3 || v == 4;
	case VERBS_RULE_REFUSES: return v == 5;
	case VERBS_RULE_CLASS: return v < 4;
	case VERBS_RULE_RANK: return v < RANKS;
	case VERBS_RULE_ME: return v == ME;
	case VERBS_RULE_KEY: return v == KEY;
	case VERBS_RULE_QPN: return v > 1 && !(v >> 24);
	case VERBS_RULE_QPN_OR_0:
	case VERBS_RULE_PSN: return !(v >> 24);
	case VERBS_RULE_READS: return v <= 16;
	case VERBS_RULE_CLASSES: return v < 16;
	case VERBS_RULE_REASON: return v && v < 4;
	case VERBS_RULE_BLOB_MAGIC: return v == 0x62767531;
	case VERBS_RULE_BLOB_VERSION: return v == 2;
	case VERBS_RULE_SLOTS: return v == SLOTS;
	case VERBS_RULE_LANDING: return v && v <= 0x100000;
	case VERBS_RULE_DEVICES: return v && v <= 8;
	case VERBS_RULE_QKEY: return v < 0x80000000u;
	case VERBS_RULE_LID: return v < 0xc000;
	case VERBS_RULE_MTU: return v && v <= 5;
	case VERBS_RULE_PORT: return v && v < 256;
	}
	return true;
}

/* ---- each field at its edges ----------------------------------------------------------------- */

static struct frame_place place(void)
{
	return (struct frame_place){ .cfg = &cfg,
				     .peer = PEER,
				     .class = CLASS_DATA,
				     .buf = buf,
				     .room = sizeof(buf),
				     .landing = landing,
				     .landing_bytes = BLOCK,
				     .landing_stride = STRIDE };
}

static void put_data(char *at, const void *frame, uint16_t slot)
{
	const struct msg m = {
		.version = WIRE_VERSION, .type = MSG_DATA, .req_node = ME, .req_slot = slot
	};

	memcpy(at, frame, sizeof(struct frame));
	memcpy(at + sizeof(struct frame), &m, sizeof(m));
}

static bool frame_taken(unsigned int shape, const void *at)
{
	struct frame_place p = place();
	const char *payload;
	struct frame f;
	struct msg m;

	memset(buf, 0, sizeof(buf));
	put_data(buf, at, 1);
	put_data(landing + STRIDE, at, 1);
	p.immediate = shape == VERBS_SHAPE_LANDED;
	p.word = 1;
	p.bytes = shape == VERBS_SHAPE_FREE || shape == VERBS_SHAPE_QUIT ? sizeof(struct frame)
		: shape == VERBS_SHAPE_LAND                              ? (uint32_t)HEAD
		: shape == VERBS_SHAPE_FETCH ? (uint32_t)(HEAD + sizeof(struct remote))
					     : (uint32_t)HEAD + BEHIND;
	return frame_read(&p, &f, &m, &payload);
}

static bool other_kind(const struct rule_field *f, uint64_t v)
{
	return !strcmp(f->name, "kind") && (v == FRAME_FREE || v == FRAME_QUIT);
}

static bool remote_taken(unsigned int shape, const void *at)
{
	struct frame_place p = place();
	const char *payload;
	struct frame f;
	struct msg m;

	(void)shape;
	rule_good(&verbs_table, &lim, VERBS_SHAPE_FETCH, &f, false);
	put_data(buf, &f, 1);
	memcpy(buf + HEAD, at, sizeof(struct remote));
	p.bytes = HEAD + sizeof(struct remote);
	return frame_read(&p, &f, &m, &payload);
}

static bool shake_taken(unsigned int shape, const void *at)
{
	(void)shape;
	return shake_judge(at, sizeof(struct shake), ME, RANKS, KEY) == SHAKE_GOOD;
}

static bool other_shake(const struct rule_field *f, uint64_t v)
{
	return (!strcmp(f->name, "type") && v && v <= SHAKE_REFUSE) ||
		(!strcmp(f->name, "from") && v == ME);
}

static bool blob_taken(unsigned int shape, const void *at)
{
	struct blob b, out;
	unsigned int i;

	rule_good(&verbs_table, &lim, VERBS_SHAPE_BLOB, &b, false);
	if (shape == VERBS_SHAPE_BLOB)
		memcpy(&b, at, offsetof(struct blob, devs));
	for (i = 0; i < VERBS_DEVICES; i++)
		rule_good(&verbs_table, &lim, VERBS_SHAPE_BLOB_DEV, &b.devs[i], false);
	if (shape == VERBS_SHAPE_BLOB_DEV) {
		b.ndevs = 2;
		memcpy(&b.devs[1], at, sizeof(b.devs[1]));
	}
	return !blob_read(&b, b.ndevs <= VERBS_DEVICES ? blob_size(&b) : sizeof(b), PEER, SLOTS,
			  &out);
}

UNIT_TEST(every_field_is_held_to_its_rule)
{
	struct rule_walk w = { .table = &verbs_table, .limits = &lim, .means = means };
	unsigned int s;

	for (s = VERBS_SHAPE_MSG; s <= VERBS_SHAPE_QUIT; s++)
		walk_shape(&w, s, frame_taken, other_kind);
	walk_shape(&w, VERBS_SHAPE_REMOTE, remote_taken, NULL);
	for (s = VERBS_SHAPE_ASK; s <= VERBS_SHAPE_REFUSE; s++)
		walk_shape(&w, s, shake_taken, other_shake);
	walk_shape(&w, VERBS_SHAPE_BLOB, blob_taken, NULL);
	walk_shape(&w, VERBS_SHAPE_BLOB_DEV, blob_taken, NULL);
	walk_end(&w);
}

UNIT_TEST(a_datagram_is_judged_by_the_first_field_that_is_wrong)
{
	static const struct {
		const char *field;
		enum shake_verdict verdict;
	} judged[] = { { "magic", SHAKE_JUNK },     { "from", SHAKE_JUNK },
		       { "class", SHAKE_NO_CLASS }, { "version", SHAKE_OTHER_VERSION },
		       { "key", SHAKE_OTHER_JOB },  { "to", SHAKE_OTHER_JOB },
		       { "pad", SHAKE_MALFORMED },  { "reason", SHAKE_MALFORMED } };
	const struct rule_type *t = &verbs_types[VERBS_SHAPE_ASK];
	struct shake s;
	unsigned int i, k;

	for (i = 0; i < sizeof(judged) / sizeof(judged[0]); i++)
		for (k = 0; k < t->n; k++)
			if (!strcmp(t->fields[k].name, judged[i].field)) {
				rule_good(&verbs_table, &lim, VERBS_SHAPE_ASK, &s, false);
				rule_set(&t->fields[k], &s, 77);
				ck_assert_int_eq(shake_judge(&s, sizeof(s), ME, RANKS, KEY),
						 judged[i].verdict);
			}
	rule_good(&verbs_table, &lim, VERBS_SHAPE_ASK, &s, false);
	ck_assert_int_eq(shake_judge(&s, sizeof(s) - 1, ME, RANKS, KEY), SHAKE_MALFORMED);
	ck_assert_int_eq(shake_judge(&s, SHAKE_FIXED - 1, ME, RANKS, KEY), SHAKE_JUNK);
	s.from = ME;
	ck_assert_int_eq(shake_judge(&s, sizeof(s), ME, RANKS, KEY), SHAKE_JUNK);
}

/* ---- immediate words ------------------------------------------------------------------------- */

static bool word_means(enum word_kind kind, const char *field, uint64_t v)
{
	if (!strcmp(field, "slot"))
		return v < SLOTS;
	if (!strcmp(field, "bare"))
		return v == (kind == WORD_KIND_PROCESS_BLOCK);
	if (!strcmp(field, "echo"))
		return v == (kind == WORD_KIND_KERNEL_ECHO);
	if (!strcmp(field, "valid"))
		return v == 1;
	if (!strcmp(field, "zero"))
		return v == 0;
	if (!strcmp(field, "n"))
		return v >= 1 && v <= SPENT;
	return true;
}

/* For the transport's immediate data: does frame_read() agree? */
static bool word_taken(uint32_t word)
{
	const uint16_t slot = word < SLOTS ? (uint16_t)word : 0;
	struct frame_place p = place();
	const char *payload;
	struct frame f;
	struct msg m;

	rule_good(&verbs_table, &lim, VERBS_SHAPE_LANDED, &f, false);
	put_data(landing + slot * STRIDE, &f, slot);
	p.immediate = true;
	p.word = word;
	p.bytes = word_get_PROCESS_BLOCK(word).bare ? BLOCK : (uint32_t)HEAD + BEHIND;
	return frame_read(&p, &f, &m, &payload);
}

UNIT_TEST(every_field_of_a_word_is_held_to_its_rule)
{
	unsigned int kind, i, k, refusals = 0;
	int64_t lo, hi;

	for (kind = 0; kind < WORD_KINDS; kind++) {
		const struct word_type *t = &word_types[kind];
		uint32_t good = 0;

		for (i = 0; i < t->n; i++) {
			word_range(&words, (enum word_kind)kind, i, &lo, &hi);
			good = word_set(&t->fields[i], good, (uint64_t)lo);
		}
		ck_assert(word_good(&words, (enum word_kind)kind, good));
		for (i = 0; i < t->n; i++) {
			const struct word_field *f = &t->fields[i];

			word_range(&words, (enum word_kind)kind, i, &lo, &hi);
			const int64_t values[] = {
				lo, hi, lo - 1, hi + 1, 0, 1, (int64_t)WORD_MASK(f->bits)
			};
			for (k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
				const uint64_t v = (uint64_t)values[k] & WORD_MASK(f->bits);
				const uint32_t word = word_set(f, good, v);
				const bool want = word_means((enum word_kind)kind, f->name, v);

				if (word_good(&words, (enum word_kind)kind, word) != want ||
				    (kind <= WORD_KIND_PROCESS_SLOT && strcmp(f->name, "bare") &&
				     word_taken(word) != want))
					ck_abort_msg("%s: %s %#lx", t->name, f->name,
						     (unsigned long)v);
				refusals += !want;
			}
		}
	}
	ck_assert_uint_gt(refusals, 10);
}

UNIT_TEST(a_block_says_in_its_word_what_its_receiver_does_not_know)
{
	static const uint16_t homes[] = { 0, 1, 1023, 1024 };
	static const int16_t counts[] = { -1, 0, 1, 1023, 1024 };
	struct frame_place p = place();
	const char *payload;
	struct frame f;
	struct msg m, out;
	unsigned int i, k;

	p.immediate = true;
	p.have = 6;
	p.bytes = BLOCK;
	for (i = 0; i < sizeof(homes) / sizeof(homes[0]); i++)
		for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			m = (struct msg){ .version = WIRE_VERSION,
					  .type = MSG_DATA,
					  .op = k % 2 ? GRANT_WRITE : GRANT_READ,
					  .src = PEER,
					  .dst = ME,
					  .object = 103,
					  .req_node = ME,
					  .req_slot = 3,
					  .home = homes[i],
					  .count = counts[k] };
			ck_assert_int_eq(bare_fits(&m, PEER),
					 homes[i] < 1024 && counts[k] >= 0 && counts[k] < 1024);
			if (!bare_fits(&m, PEER))
				continue;
			p.word = bare_word(&m, 7);
			ck_assert(frame_read(&p, &f, &out, &payload));
			ck_assert_mem_eq(&out, &m, sizeof(m));
			ck_assert(f.seq == 7 && f.size == BLOCK &&
				  payload == landing + 3 * STRIDE + HEAD);
		}
}

UNIT_SUITE("frame")

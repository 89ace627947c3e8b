// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_shared_frame.c - net/shared/frame.c: the rules of frames of another rank in the transport
 * over librshare.
 */
#include "net/shared/frame.h"

#include <stdlib.h>
#include <string.h>

#include "../shared_values.h"
#include "rule_walk.h"

#define SLOTS 4u
#define RANKS 5
#define ME 2
#define PEER 3
#define LANE 4
#define BEHIND 64u
#define SIZE 1u
#define LENT 7
#define FETCHES 9

static const struct shared_limits lim = { .lent = LENT,
					  .fetches = FETCHES,
					  .behind = BEHIND,
					  .size = SIZE,
					  .nslots = SLOTS,
					  .peer = PEER,
					  .ranks = RANKS,
					  .lane = LANE };

static const struct net_config cfg = { .rank = ME, .size = RANKS, .nslots = SLOTS };

/* The rules, expressed in another way. */
static bool means(unsigned int rule, uint64_t v)
{
	switch ((enum shared_rule)rule) {
	case SHARED_RULE_ANY:
	case SHARED_RULE_COUNT: break;
	case SHARED_RULE_ZERO: return v == 0;
	case SHARED_RULE_IS_MSG: return v == 1;
	case SHARED_RULE_IS_LAND: return v == 2;
	case SHARED_RULE_IS_FETCH: return v == 3;
	case SHARED_RULE_IS_FETCHED: return v == 4;
	case SHARED_RULE_LANE: return v == LANE;
	case SHARED_RULE_RANK: return v < RANKS;
	case SHARED_RULE_PEER: return v == PEER;
	case SHARED_RULE_BEHIND: return v == BEHIND;
	case SHARED_RULE_BLOCK: return v && v <= 4096;
	case SHARED_RULE_PAYLOAD: return v && v <= 4 << 20;
	case SHARED_RULE_NEXT: return v == FETCHES + 1;
	case SHARED_RULE_READ: return v >= LENT && v <= FETCHES;
	case SHARED_RULE_SIZE: return v == SIZE;
	case SHARED_RULE_BLOB_MAGIC: return v == 0x32687364;
	case SHARED_RULE_SLOTS: return v == SLOTS;
	case SHARED_RULE_NODE: return v && v < 64;
	case SHARED_RULE_PLACES: return v == 4096 * SLOTS;
	}
	return true;
}

/* ---- frames --------------------------------------------------------------------------------- */

static struct shared_place place(unsigned int shape)
{
	return (struct shared_place){ .cfg = &cfg,
				      .peer = PEER,
				      .lane = LANE,
				      .class = shape == SHARED_SHAPE_LAND ? CLASS_DATA : CLASS_BULK,
				      .lent = LENT,
				      .fetches = FETCHES,
				      .bytes = sizeof(struct shared_frame) +
					      (shape == SHARED_SHAPE_MSG ? BEHIND : 0) };
}

/* A valid frame, for the caller to change. */
static struct shared_frame frame_of(unsigned int shape)
{
	struct shared_frame f;

	memset(&f, 0, sizeof(f));
	rule_good(&shared_table, &lim, shape, &f, false);
	if (shape == SHARED_SHAPE_FETCH)
		rule_good(&shared_table, &lim, SHARED_SHAPE_LENT, &f.from, false);
	if (shape != SHARED_SHAPE_FETCHED)
		f.m = (struct msg){ .version = WIRE_VERSION,
				    .type = shape == SHARED_SHAPE_LAND ? MSG_DATA : MSG_CALL,
				    .src = PEER,
				    .dst = ME,
				    .req_node = shape == SHARED_SHAPE_LAND ? ME : PEER };
	return f;
}

static bool accepted(unsigned int shape, struct shared_frame *f)
{
	struct shared_place p = place(shape);

	if (shape == SHARED_SHAPE_FETCHED)
		return shared_release_ok(&p, f);
	/*
	 * Choose a type whose payload may be that large: another check enforces the limit of each
	 * type.
	 */
	if (f->size > net_payload_max(f->m.type))
		f->m.type = MSG_RETURN;
	return shared_frame_ok(&p, f);
}

static bool head_taken(unsigned int shape, const void *at)
{
	struct shared_frame f = frame_of(shape);

	memcpy(&f, at, offsetof(struct shared_frame, from));
	f.from.size = shape == SHARED_SHAPE_FETCH ? f.size : 0;
	return accepted(shape, &f);
}

static bool nowhere_taken(unsigned int shape, const void *at)
{
	static const unsigned int shapes[] = { SHARED_SHAPE_MSG, SHARED_SHAPE_LAND,
					       SHARED_SHAPE_FETCHED };
	unsigned int i, taken = 0;

	(void)shape;
	for (i = 0; i < 3; i++) {
		struct shared_frame f = frame_of(shapes[i]);

		memcpy(&f.from, at, sizeof(f.from));
		taken += accepted(shapes[i], &f);
	}
	ck_assert(!taken || taken == 3);
	return taken;
}

static bool lent_taken(unsigned int shape, const void *at)
{
	struct shared_frame f = frame_of(SHARED_SHAPE_FETCH);

	(void)shape;
	memcpy(&f.from, at, sizeof(f.from));
	return accepted(SHARED_SHAPE_FETCH, &f);
}

static bool nothing_taken(unsigned int shape, const void *at)
{
	struct shared_frame f = frame_of(SHARED_SHAPE_FETCHED);

	(void)shape;
	memcpy(&f.m, at, sizeof(f.m));
	return accepted(SHARED_SHAPE_FETCHED, &f);
}

static bool other_kind(const struct rule_field *f, uint64_t v)
{
	return !strcmp(f->name, "kind") && v && v < SHARED_FETCHED;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static bool blob_taken(unsigned int shape, const void *at)
{
	struct shared_blob b, out;

	rule_good(&shared_table, &lim, SHARED_SHAPE_BLOB, &b, false);
	rule_good(&shared_table, &lim, SHARED_SHAPE_LANDING, &b.landing, false);
	if (shape == SHARED_SHAPE_BLOB)
		memcpy(&b, at, offsetof(struct shared_blob, landing));
	else
		memcpy(&b.landing, at, sizeof(b.landing));
	return !shared_blob_read(&b, sizeof(b), SLOTS, &out);
}

UNIT_TEST(every_field_is_held_to_its_rule)
{
	static const struct walk shapes[] = {
		{ SHARED_SHAPE_NOWHERE, nowhere_taken, NULL },
		{ SHARED_SHAPE_LENT, lent_taken, NULL },
		{ SHARED_SHAPE_NOTHING, nothing_taken, NULL },
		{ SHARED_SHAPE_BLOB, blob_taken, NULL },
		{ SHARED_SHAPE_LANDING, blob_taken, NULL },
	};
	struct rule_walk w = { .table = &shared_table, .limits = &lim, .means = means };
	unsigned int s, v;

	for (s = SHARED_SHAPE_MSG; s <= SHARED_SHAPE_FETCHED; s++)
		walk_shape(&w, s, head_taken, other_kind);
	walk_shapes(&w, shapes, sizeof(shapes) / sizeof(shapes[0]));
	for (v = 0; v <= UINT16_MAX; v++) {
		ck_assert(shared_sender(&cfg, (uint16_t)v) ==
			  (means(SHARED_RULE_RANK, v) && v != ME));
		w.refused[SHARED_RULE_RANK] += !means(SHARED_RULE_RANK, v);
	}
	walk_end(&w);
}

/* ---- what is no field's alone --------------------------------------------------------------- */

UNIT_TEST(a_frame_has_its_length)
{
	unsigned int s;
	size_t bytes;

	for (s = SHARED_SHAPE_MSG; s <= SHARED_SHAPE_FETCHED; s++)
		for (bytes = 0; bytes < 256; bytes++) {
			const struct shared_frame f = frame_of(s);
			struct shared_place p = place(s);
			const bool whole = bytes == p.bytes;

			p.bytes = bytes;
			ck_assert((s == SHARED_SHAPE_FETCHED ? shared_release_ok(&p, &f)
							     : shared_frame_ok(&p, &f)) == whole);
		}
}

UNIT_TEST(a_message_takes_its_lane_and_a_block_its_slot)
{
	struct shared_frame f = frame_of(SHARED_SHAPE_LAND);
	struct shared_place p = place(SHARED_SHAPE_LAND);

	ck_assert(shared_frame_ok(&p, &f));
	p.class = CLASS_SYNC;
	ck_assert(!shared_frame_ok(&p, &f));
	p.class = CLASS_DATA;
	f.m.req_slot = SLOTS;
	ck_assert(!shared_frame_ok(&p, &f));
	f.m.req_slot = SLOTS - 1;
	ck_assert(shared_frame_ok(&p, &f));
	f.m.req_node = PEER;
	ck_assert(!shared_frame_ok(&p, &f));
}

UNIT_TEST(a_message_is_of_the_node_of_its_peer)
{
	static const uint16_t nodes[RANKS] = { 0, 0, 1, 2, 2 }, first[] = { 0, 2, 3 };
	const struct net_config grouped = { .rank = ME,
					    .size = RANKS,
					    .node_of = nodes,
					    .rank_of = first,
					    .node = 1,
					    .nodes = 3,
					    .nslots = SLOTS };
	unsigned int s, src;

	for (s = SHARED_SHAPE_MSG; s <= SHARED_SHAPE_FETCH; s++)
		for (src = 0; src <= RANKS; src++) {
			struct shared_frame f = frame_of(s);
			struct shared_place p = place(s);

			f.m.src = (uint16_t)src;
			ck_assert(shared_frame_ok(&p, &f) == (src == PEER));
			p.cfg = &grouped;
			f.m.dst = 1;
			f.m.req_node = 1;
			ck_assert(shared_frame_ok(&p, &f) == (src == nodes[PEER]));
		}
}

UNIT_TEST(only_what_is_lent_comes_back)
{
	struct shared_frame f = frame_of(SHARED_SHAPE_FETCHED);
	struct shared_place p = place(SHARED_SHAPE_FETCHED);

	p.lent = p.fetches + 1; /* no buffer is lent */
	for (f.id = 0; f.id < 2 * FETCHES; f.id++)
		ck_assert(!shared_release_ok(&p, &f));
}

UNIT_SUITE("shared_frame")

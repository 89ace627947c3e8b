// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_region.c - calls/region.c, calls/owner.c, calls/call.c: changes that a node may make to
 * another node's tables by calls.
 */
#include <errno.h>

#include "../registry_world.h"
#include "calls/call.h"
#include "calls/owner.h"
#include "job/lost.h"
#include "miss/block.h"
#include "net/net.h"
#include "suite.h"

#define PAGES 1000u

static struct region_record rec;

static int create(uint16_t from, uint16_t creator, const char *name, uint64_t contents)
{
	struct region_want w = {
		.contents = contents, .size = PAGES << 12, .block_size = 4096, .creator = creator
	};

	strcpy(w.name, name);
	return region_serve(from, CALL_CREATE, &w, &rec);
}

static int by_name(uint16_t from, enum call_op op, const char *name)
{
	struct region_name n = { 0 };

	strcpy(n.name, name);
	return region_serve(from, op, &n, &rec);
}

static int by_id(uint16_t from, enum call_op op, const struct region_record *r)
{
	const struct region_id at = { r->id, r->gen };

	return region_serve(from, op, &at, &rec);
}

static int leave(uint16_t from, enum call_op op, const struct region_record *r)
{
	const struct region_place at = {
		.off = r->off, .bytes = r->bytes, .id = r->id, .gen = r->gen
	};

	return region_leave(from, op, &at);
}

static int may_purge(uint16_t node, const struct region_record *r)
{
	const struct region_burial b = {
		.at = { .off = r->off, .bytes = r->bytes, .id = r->id, .gen = r->gen }, .node = node
	};

	return region_may_purge(&b);
}

/* Make a new world, and in it a region of rank 2 of node 1. */
static struct region_record created(uint64_t contents)
{
	world_make();
	ck_assert_int_eq(create(1, 2, "a", contents), 0);
	return rec;
}

UNIT_TEST(a_region_takes_whole_units_behind_the_heap)
{
	created(0);
	ck_assert_uint_eq(rec.size, PAGES << 12);
	ck_assert_uint_eq(rec.bytes, 2 * UNIT_BYTES);
	ck_assert_uint_eq(rec.off, WORLD_HEAP);
	ck_assert_uint_eq(rec.attached, 1);
	ck_assert_uint_eq(rec.creator, 2);
	ck_assert_int_eq(create(1, 2, "a", 0), -EEXIST);
	ck_assert_int_eq(create(1, 2, "a", 1), -EINVAL);
	ck_assert_int_eq(by_name(1, CALL_DESTROY, "(heap)"), -EINVAL);
}

UNIT_TEST(a_node_has_no_more_ranks_to_attach_than_it_has)
{
	created(0);
	ck_assert_int_eq(by_name(1, CALL_ATTACH, "a"), -EBADMSG);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), 0);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), 0);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), -EBADMSG);
	ck_assert_uint_eq(rec.attached, 3);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "(heap)"), -EBADMSG);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "b"), -ENOENT);
}

UNIT_TEST(a_node_detaches_its_own_ranks_alone)
{
	struct region_record a = created(0);

	ck_assert_int_eq(by_id(2, CALL_DETACH, &a), -EBADMSG);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), 0);
	ck_assert_int_eq(by_id(2, CALL_DETACH, &a), 0);
	ck_assert_int_eq(by_id(2, CALL_DETACH, &a), -EBADMSG);
	ck_assert_int_eq(by_id(1, CALL_DETACH, &a), 0);
	a.gen++;
	ck_assert_int_eq(by_id(1, CALL_DETACH, &a), -ENOENT);
}

UNIT_TEST(only_the_creators_node_fills_a_region_and_once)
{
	const struct region_record a = created(77);

	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), -EINPROGRESS);
	ck_assert_int_eq(by_id(2, CALL_PUBLISH, &a), -EBADMSG);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), -EINPROGRESS);
	ck_assert_int_eq(by_id(1, CALL_PUBLISH, &a), 0);
	ck_assert_int_eq(by_id(1, CALL_PUBLISH, &a), -EBADMSG);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), 0);
}

UNIT_TEST(who_took_away_the_last_buries)
{
	const struct region_record a = created(0);
	struct region_record other;

	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), 0);
	ck_assert_int_eq(leave(1, CALL_QUIET, &a), -EBADMSG); /* the region exists */
	ck_assert_int_eq(by_name(1, CALL_DESTROY, "a"), 0);
	ck_assert_int_eq(by_id(1, CALL_DETACH, &a), 0);
	ck_assert_int_eq(by_id(1, CALL_VACATE, &a), -EBADMSG); /* the region has a user */
	ck_assert_int_eq(by_id(2, CALL_DETACH, &a), 0);
	ck_assert_int_eq(leave(1, CALL_PURGE, &a), -EBADMSG);
	ck_assert_int_eq(by_id(1, CALL_VACATE, &a), -EBADMSG);
	other = a;
	other.off += UNIT_BYTES;
	ck_assert_int_eq(leave(2, CALL_PURGE, &other), -EBADMSG);
	other = a;
	other.bytes += UNIT_BYTES;
	ck_assert_int_eq(leave(2, CALL_PURGE, &other), -EBADMSG);
	ck_assert_int_eq(may_purge(2, &other), -EPERM);
	ck_assert_int_eq(may_purge(1, &a), -EPERM);
	ck_assert_int_eq(may_purge(2, &a), 0);
	ck_assert_uint_eq(world_purges, 0);
	ck_assert_int_eq(leave(2, CALL_QUIET, &a), 0);
	ck_assert_int_eq(leave(2, CALL_PURGE, &a), 0);
	ck_assert_uint_eq(world_purges, 1);
	ck_assert_int_eq(by_id(2, CALL_VACATE, &a), 0);
	ck_assert_int_eq(may_purge(2, &a), -EPERM);
	ck_assert_int_eq(by_id(2, CALL_VACATE, &a), -ENOENT);
	ck_assert_int_eq(leave(2, CALL_PURGE, &a), -EBADMSG);
	ck_assert_int_eq(create(0, 1, "b", 0), 0); /* at the place of the old region */
	ck_assert_uint_eq(rec.off, a.off);
	ck_assert_uint_eq(rec.gen, a.gen + 1);
	ck_assert_int_eq(leave(2, CALL_PURGE, &a), -EBADMSG);
	ck_assert_int_eq(by_id(0, CALL_DETACH, &rec), 0); /* the name remains */
	ck_assert_int_eq(by_id(0, CALL_VACATE, &rec), -EBADMSG);
	ck_assert_int_eq(by_name(2, CALL_DESTROY, "b"), 0); /* that was the last reference */
	ck_assert_int_eq(by_id(0, CALL_VACATE, &rec), -EBADMSG);
	ck_assert_int_eq(by_id(2, CALL_VACATE, &rec), 0);
}

UNIT_TEST(a_creator_that_fails_takes_the_name_back)
{
	const struct region_record a = created(77);

	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), -EINPROGRESS);
	ck_assert_int_eq(by_id(2, CALL_WITHDRAW, &a), -EBADMSG);
	ck_assert_int_eq(by_id(1, CALL_WITHDRAW, &a), 0);
	ck_assert_uint_eq(rec.named, 0);
	ck_assert_uint_eq(rec.attached, 0);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), -ENOENT);
	ck_assert_int_eq(by_id(1, CALL_WITHDRAW, &a), -EBADMSG);
	ck_assert_int_eq(create(2, 3, "a", 77), 0); /* beside the old region, which still exists */
	ck_assert_uint_ne(rec.id, a.id);
	ck_assert_int_eq(leave(1, CALL_PURGE, &a), 0);
	ck_assert_int_eq(by_id(1, CALL_VACATE, &a), 0);
	ck_assert_int_eq(by_name(1, CALL_QUERY, "a"), 0);
}

UNIT_TEST(a_name_that_others_use_stays_when_its_creator_fails)
{
	struct region_record a = created(0);

	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), 0);
	ck_assert_int_eq(by_id(1, CALL_WITHDRAW, &a), 0);
	ck_assert_uint_eq(rec.named, 1);
	ck_assert_uint_eq(rec.attached, 1);
	ck_assert_int_eq(by_id(1, CALL_WITHDRAW, &a), -EBADMSG);
	ck_assert_int_eq(by_name(1, CALL_ATTACH, "a"), 0);
}

UNIT_TEST(a_place_to_which_a_rank_of_the_node_is_attached_is_not_purged)
{
	const struct region_record a = { .off = 20 << 20, .bytes = 4 << 20 };

	world_make();
	job.node = 1; /* this node does not know the regions of other nodes */
	ck_assert_int_eq(leave(2, CALL_PURGE, &a), 0);
	job.mem.mapped[11] = 1;
	ck_assert_int_eq(leave(2, CALL_QUIET, &a), -EBADMSG);
	ck_assert_int_eq(leave(2, CALL_PURGE, &a), -EBADMSG);
	job.mem.mapped[11] = 0;
	job.mem.mapped[12] = job.mem.mapped[9] = 1;
	ck_assert_int_eq(leave(2, CALL_PURGE, &a), 0);
}

/* ---- units of the heap ----------------------------------------------------------------------- */

static int units(uint16_t from, enum call_op op, uint16_t rank, uint32_t at, uint32_t n, void *out)
{
	const struct units_ask q = { .rank = rank, .at = at, .n = n };

	return owner_serve(from, op, &q, out);
}

UNIT_TEST(a_node_gives_back_its_own_units_or_those_of_all_while_it_reclaims)
{
	struct units_taken a;
	struct units_owned o;
	struct units_bits bits;

	world_make();
	ck_assert_int_eq(units(1, CALL_UNITS_TAKE, 2, 0, 3, &a), 0);
	ck_assert_uint_eq(a.n, 3);
	ck_assert_uint_eq(a.used, 0);
	ck_assert_int_eq(units(2, CALL_UNITS_GIVE, 2, a.at, 3, NULL), -EBADMSG);
	ck_assert_int_eq(units(1, CALL_UNITS_BEGIN, 2, 0, 0, NULL), 0);
	ck_assert_int_eq(units(2, CALL_UNITS_GIVE, 2, a.at, 3, NULL), -EBADMSG);
	ck_assert_int_eq(units(2, CALL_UNITS_BEGIN, 3, 0, 0, NULL), -EBUSY);
	ck_assert_int_eq(units(2, CALL_UNITS_END, 3, 0, 0, NULL), -EBADMSG);
	ck_assert_int_eq(units(1, CALL_UNITS_END, 2, 0, 0, NULL), 0);
	ck_assert_int_eq(units(2, CALL_UNITS_BEGIN, 3, 0, 0, NULL), 0);
	ck_assert_int_eq(units(2, CALL_UNITS_GIVE, 2, a.at, 1, NULL), 0);
	/* the unit has no owner */
	ck_assert_int_eq(units(2, CALL_UNITS_GIVE, 2, a.at, 1, NULL), -EINVAL);
	ck_assert_int_eq(units(2, CALL_UNITS_END, 3, 0, 0, NULL), 0);
	ck_assert_int_eq(units(1, CALL_UNITS_GIVE, 2, a.at + 1, 1, NULL), 0);
	ck_assert_int_eq(units(2, CALL_UNITS_OWNER, 3, a.at + 2, 1, &o), 0);
	ck_assert_uint_eq(o.owner, 3);
	ck_assert_int_eq(units(2, CALL_UNITS_WHICH, 3, a.at, 3, &bits), 0);
	ck_assert_uint_eq(bits.used[0], 3);
	ck_assert_int_eq(units(1, CALL_UNITS_TAKE, 2, 0, 100, &a), -ENOMEM);
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct msg sent;
static char said[WIRE_CALL_MAX];
static size_t said_size;
static unsigned int sends;

static int fake_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		     size_t size)
{
	(void)n, (void)rank;
	sent = *m;
	said_size = size;
	if (size)
		memcpy(said, payload, size);
	sends++;
	return 0;
}

static const struct net_ops net = { .send = fake_send };

static struct msg call_msg(enum call_op op, uint16_t from, uint32_t room)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = MSG_CALL,
			     .op = (uint8_t)op,
			     .src = from,
			     .req_node = from,
			     .req_slot = CTL_BLOCK_END,
			     .aux = room };
}

UNIT_TEST(a_call_that_breaks_a_rule_changes_nothing_and_has_no_answer)
{
	struct {
		struct call_head head;
		struct region_want want;
	} create = { .want = { .name = "a", .size = 5000, .block_size = 4096, .creator = 2 } }, bad;
	struct msg m = call_msg(CALL_CREATE, 1, sizeof(struct region_record));

	world_make();
	job.netops = &net;
	bad = create, bad.want.block_size = 4097;
	ck_assert_int_eq(call_arrived(&m, &bad, sizeof(bad)), -EBADMSG);
	bad = create, bad.want.size = WORLD_SPACE + 1;
	ck_assert_int_eq(call_arrived(&m, &bad, sizeof(bad)), -EBADMSG);
	bad = create, bad.want.home_policy = DSM_HOME_FIXED + 1;
	ck_assert_int_eq(call_arrived(&m, &bad, sizeof(bad)), -EBADMSG);
	bad = create, bad.want.home_policy = DSM_HOME_FIXED, bad.want.home_rank = WORLD_RANKS;
	ck_assert_int_eq(call_arrived(&m, &bad, sizeof(bad)), -EBADMSG);
	bad = create, bad.want.creator = 3; /* a rank of another node */
	ck_assert_int_eq(call_arrived(&m, &bad, sizeof(bad)), -EBADMSG);
	ck_assert_int_eq(call_arrived(&m, &create, sizeof(create) - 1), -EBADMSG);
	ck_assert_uint_eq(sends, 0);
	ck_assert_uint_eq(job.me->registry.ids.fresh, 1);
	ck_assert_int_eq(call_arrived(&m, &create, sizeof(create)), 0);
	ck_assert_uint_eq(sends, 1);
	ck_assert_uint_eq(sent.type, MSG_RETURN);
	ck_assert_uint_eq(sent.dst, 1);
	ck_assert_uint_eq(said_size, sizeof(struct region_record));
}

UNIT_TEST(who_may_not_ask_that_now_has_no_answer)
{
	struct {
		struct call_head head;
		struct region_place at;
	} purge = { .at = { .off = WORLD_HEAP, .bytes = UNIT_BYTES, .id = 1, .gen = 1 } };
	struct {
		struct call_head head;
		struct units_ask ask;
	} give = { .ask = { .rank = 0, .n = 1 } };
	struct msg m = call_msg(CALL_PURGE, 2, 0);

	world_make();
	job.netops = &net;
	ck_assert_int_eq(call_arrived(&m, &purge, sizeof(purge)), -EBADMSG);
	m.op = CALL_QUIET;
	ck_assert_int_eq(call_arrived(&m, &purge, sizeof(purge)), -EBADMSG);
	m.op = CALL_UNITS_GIVE;
	ck_assert_int_eq(call_arrived(&m, &give, sizeof(give)), -EBADMSG);
	ck_assert_uint_eq(sends, 0);
	ck_assert_uint_eq(world_purges, 0);
}

static struct msg asked;
static unsigned int asks, drops;

static int ask_first(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		     size_t size)
{
	struct region_burial b;

	if (m->type != MSG_CALL)
		return fake_send(n, rank, m, payload, size);
	unit_require(m->op == CALL_MAY_PURGE && m->dst == 0 &&
		     size == sizeof(struct call_head) + sizeof(b));
	memcpy(&b, (const char *)payload + sizeof(struct call_head), sizeof(b));
	unit_require(b.at.off == WORLD_HEAP && b.at.bytes == UNIT_BYTES && b.at.id == 1 &&
		     b.at.gen == 1 && b.node == 2);
	asked = *m;
	asks++;
	return 0;
}

static int first_says(int16_t status)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_RETURN,
			       .op = asked.op,
			       .dst = asked.src,
			       .req_node = asked.src,
			       .req_slot = asked.req_slot,
			       .count = status };

	return call_returned(&m, NULL, 0);
}

static void drop_peer(struct net *n, uint16_t rank)
{
	(void)n;
	unit_require(rank == job.pair[2]);
	drops++;
}

/* Node 2 asks this process, node 1, to purge a region. */
static const struct {
	struct call_head head;
	struct region_place at;
} purge_asked = { .head.to = 2,
		  .at = { .off = WORLD_HEAP, .bytes = UNIT_BYTES, .id = 1, .gen = 1 } };

static struct msg be_second(void)
{
	static const struct net_ops ops = { .send = ask_first, .drop = drop_peer };
	struct msg m = call_msg(CALL_PURGE, 2, 0);

	world_make();
	job.node = 1;
	job.rank = m.dst = 2;
	job.netops = &ops;
	job.ranks = calloc(WORLD_RANKS, sizeof(*job.ranks));
	job.mine = calloc(1, sizeof(*job.mine));
	ck_assert(job.ranks && job.mine);
	return m;
}

UNIT_TEST(a_node_asks_the_first_before_it_purges)
{
	const struct msg m = be_second();
	unsigned int i;

	ck_assert_int_eq(call_arrived(&m, &purge_asked, sizeof(purge_asked)), 0);
	ck_assert_int_eq(first_says(-EPERM), 0);
	ck_assert_uint_eq(drops, 1);
	ck_assert_uint_eq(sends, 0);
	ck_assert_uint_eq(world_purges, 0);
	ck_assert_int_eq(first_says(0), -EBADMSG); /* a second answer */
	for (i = 0; i < 2 * (CTL_BRIEF_END - CTL_BLOCK_END); i++) {
		ck_assert_int_eq(call_arrived(&m, &purge_asked, sizeof(purge_asked)), 0);
		unit_require(sends == i && first_says(0) == 0 && sends == i + 1);
		unit_require(sent.type == MSG_RETURN && sent.dst == 2 &&
			     sent.req_slot == m.req_slot && !sent.count);
	}
	ck_assert_uint_eq(world_purges, i);
	ck_assert_uint_eq(drops, 1);
	/* a rank attaches meanwhile: node 0 has lied */
	job.mem.mapped[WORLD_HEAP / UNIT_BYTES] = 1;
	ck_assert_int_eq(call_arrived(&m, &purge_asked, sizeof(purge_asked)), 0);
	ck_assert_int_eq(first_says(0), 0);
	ck_assert_uint_eq(world_purges, i);
	ck_assert_uint_eq(drops, 2);
}

/* The caller repeats its request. */
UNIT_TEST(without_a_slot_to_ask_the_first_nothing_is_purged)
{
	const struct msg m = be_second();
	unsigned int i;

	for (i = 0; i < CTL_BRIEF_END - CTL_BLOCK_END; i++)
		ck_assert_int_eq(call_arrived(&m, &purge_asked, sizeof(purge_asked)), 0);
	ck_assert_uint_eq(asks, i);
	ck_assert_uint_eq(sends, 0);
	ck_assert_int_eq(call_arrived(&m, &purge_asked, sizeof(purge_asked)), 0);
	ck_assert_uint_eq(asks, i);
	ck_assert_uint_eq(sends, 1);
	ck_assert_int_eq(sent.count, -EAGAIN);
	ck_assert_uint_eq(world_purges, 0);
}

UNIT_TEST(an_answer_is_held_against_its_call)
{
	struct region_record r = { .name = "a",
				   .size = 5000,
				   .bytes = UNIT_BYTES,
				   .off = WORLD_HEAP,
				   .block_size = 4096 };
	struct msg ask = call_msg(CALL_ATTACH, 1, sizeof(r)), m;
	struct answer *a;

	world_make();
	job.node = 1;
	a = &job.me->answers[0];
	ask.dst = 0;
	ask_note(&job.me->slots[CTL_BLOCK_END].ask, &ask);
	a->room = sizeof(r) + 1;
	a->op = CALL_ATTACH;
	m = (struct msg){ .version = WIRE_VERSION,
			  .type = MSG_RETURN,
			  .op = CALL_ATTACH,
			  .dst = 1,
			  .req_node = 1,
			  .req_slot = CTL_BLOCK_END };
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r) - 8), -EBADMSG);
	ck_assert_int_eq(call_returned(&m, NULL, 0), -EBADMSG);
	r.id = CTL_REGIONS; /* would write past the table of regions */
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), -EBADMSG);
	r.id = 1;
	r.off = WORLD_SPACE; /* would write past the table of units */
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), -EBADMSG);
	r.off = WORLD_SPACE - UNIT_BYTES;
	r.size = UNIT_BYTES + 1;
	r.bytes = 2 * UNIT_BYTES;
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), -EBADMSG);
	r.off -= UNIT_BYTES;
	m.op = CALL_QUERY;
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), -EBADMSG);
	m.op = CALL_ATTACH;
	m.count = -ENOENT;
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), -EBADMSG);
	m.count = 0;
	m.src = 2; /* this rank was not asked */
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), -EBADMSG);
	m.src = 0;
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), 0);
	ck_assert_uint_eq(a->size, sizeof(r));
	ck_assert_int_eq(call_returned(&m, &r, sizeof(r)), -EBADMSG);
}

/* A caller accepts what a correct registry answers. */
UNIT_TEST(its_own_answers_keep_the_rules)
{
	struct payload_limits lim;
	int i;

	world_make();
	lim = world_limits(0);
	for (i = 0; i < 3; i++) {
		char name[2] = { (char)('a' + i), 0 };

		ck_assert_int_eq(create(2, 4, name, (uint64_t)i), 0);
		ck_assert_int_eq(payload_answer(&lim, CALL_CREATE, &rec, sizeof(rec), sizeof(rec)),
				 0);
		ck_assert_int_eq(by_name(1, CALL_QUERY, name), 0);
		ck_assert_int_eq(payload_answer(&lim, CALL_QUERY, &rec, sizeof(rec), sizeof(rec)),
				 0);
	}
	ck_assert_int_eq(by_name(1, CALL_QUERY, "(heap)"), 0);
	ck_assert_int_eq(payload_answer(&lim, CALL_QUERY, &rec, sizeof(rec), sizeof(rec)), 0);
}

/* ---- messages whose payload is data, or none ------------------------------------------------- */

/* wire_check() has checked that the rank exists. */
UNIT_TEST(a_node_says_bye_for_its_own_ranks)
{
	struct msg m = {
		.version = WIRE_VERSION, .type = MSG_BYE, .src = 2, .req_node = 2, .aux = 2u << 16
	};

	world_make();
	ck_assert_int_eq(lost_heard(&m), -EBADMSG);
	m.aux = 4u << 16;
	ck_assert_int_eq(lost_heard(&m), 0);
}

/* ---- priorities ------------------------------------------------------------------------------ */

/* The priority of a block's data, at an offset in a unit. */
static unsigned int priority_at(uint64_t unit, size_t off, size_t size)
{
	const struct msg m = { .type = MSG_DATA,
			       .object = block_id(unit * UNIT_BYTES + off, size) };

	return region_priority(NULL, &m);
}

UNIT_TEST(blocks_have_the_priority_of_their_region)
{
	static const unsigned int expected[] = {
		0, DSM_PRIORITY_LOW, DSM_PRIORITY_LOW, DSM_PRIORITY_URGENT, DSM_PRIORITY_HIGH, 0
	};
	unsigned int unit;
	size_t size;

	world_make();
	region_set_priority(UNIT_BYTES, 2 * UNIT_BYTES, DSM_PRIORITY_LOW);
	region_set_priority(3 * UNIT_BYTES, UNIT_BYTES, DSM_PRIORITY_URGENT);
	region_set_priority(4 * UNIT_BYTES, UNIT_BYTES, DSM_PRIORITY_HIGH);
	for (unit = 0; unit < sizeof(expected) / sizeof(expected[0]); unit++)
		for (size = PAGE_BYTES; size <= BLOCK_MAX; size *= 2) {
			ck_assert_uint_eq(priority_at(unit, 0, size), expected[unit]);
			ck_assert_uint_eq(priority_at(unit, UNIT_BYTES - size, size),
					  expected[unit]);
		}
}

UNIT_TEST(a_purged_place_is_of_no_region)
{
	uint64_t unit;

	world_make();
	ck_assert_int_eq(create(1, 2, "a", 0), 0);
	unit = rec.off / UNIT_BYTES;
	region_set_priority(rec.off, rec.bytes + UNIT_BYTES, DSM_PRIORITY_HIGH);
	job.mem.regions[unit] = job.mem.regions[unit + 2] = 9;
	ck_assert_int_eq(leave(2, CALL_PURGE, &rec), -EBADMSG);
	ck_assert_uint_eq(priority_at(unit, 0, PAGE_BYTES), DSM_PRIORITY_HIGH);
	ck_assert_int_eq(by_name(1, CALL_DESTROY, "a"), 0);
	ck_assert_int_eq(by_id(1, CALL_DETACH, &rec), 0);
	ck_assert_int_eq(leave(1, CALL_QUIET, &rec), 0);
	ck_assert_uint_eq(priority_at(unit, 0, PAGE_BYTES), DSM_PRIORITY_HIGH);
	ck_assert_int_eq(leave(1, CALL_PURGE, &rec), 0);
	ck_assert_uint_eq(priority_at(unit, 0, PAGE_BYTES), DSM_PRIORITY_NORMAL);
	ck_assert_uint_eq(priority_at(unit + 1, 0, PAGE_BYTES), DSM_PRIORITY_NORMAL);
	ck_assert_uint_eq(priority_at(unit + 2, 0, PAGE_BYTES), DSM_PRIORITY_HIGH);
	ck_assert_uint_eq(job.mem.regions[unit], 0);
	ck_assert_uint_eq(job.mem.regions[unit + 2], 9);
}

UNIT_TEST(the_registry_keeps_the_priority)
{
	struct region_want w = { .name = "a",
				 .size = PAGES << 12,
				 .block_size = 4096,
				 .creator = 2,
				 .priority = DSM_PRIORITY_HIGH };

	world_make();
	ck_assert_int_eq(region_serve(1, CALL_CREATE, &w, &rec), 0);
	ck_assert_uint_eq(rec.priority, DSM_PRIORITY_HIGH);
	ck_assert_int_eq(region_serve(1, CALL_CREATE, &w, &rec), -EEXIST);
	w.priority = DSM_PRIORITY_LOW;
	ck_assert_int_eq(region_serve(1, CALL_CREATE, &w, &rec), -EINVAL);
	ck_assert_int_eq(by_name(2, CALL_ATTACH, "a"), 0);
	ck_assert_uint_eq(rec.priority, DSM_PRIORITY_HIGH);
}

UNIT_SUITE("region")

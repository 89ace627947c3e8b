// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_run.c - miss/run.c, step.c, lost.c: how node 0 of a job of three handles messages of the
 * others. If a message breaks a rule of core/wire.h, or its sender may not send it now, node 0
 * drops the sender, and the job ends with a line that names it. test_run_bundles.c has messages
 * that travel together.
 *
 * Most messages have a counterpart that differs in the sender, or in one field, and is accepted: so
 * this difference is the reason of the refusal.
 */
#include "run_node.h"

#include <errno.h>

#include "calls/payload.h"
#include "core/ask.h"
#include "core/diff.h"
#include "fault/range.h"
#include "miss/release.h"

#define CALL_SLOT CTL_BLOCK_END
#define HOLD 3
#define STRAYS 12 /* more than are logged */

static void refused(const struct msg *m, const void *payload, size_t size)
{
	was_refused(m, hear(m, payload, size, 1), 0);
	unit_require(!seen->opened);
}

/* ---- ranges --------------------------------------------------------------------------------- */

UNIT_TEST(a_value_out_of_its_range_costs_the_sender_its_connection)
{
	unsigned int type, f, i, tried = 0;

	for (type = 0; type < MSG_TYPES; type++) {
		const struct msg good = wire_good((uint8_t)type, 1, &job.limits);

		if (!(wire_hosts((uint8_t)type) & HOST_LIBRARY)) {
			refused(&good, NULL, 0);
			continue;
		}
		for (f = 0; f < WIRE_FIELD_COUNT; f++) {
			int64_t at[2];

			if (f == WF_type || f == WF_src) /* the transport uses these fields */
				continue;
			wire_range(wire_rule_of((uint8_t)type, f), &good, &job.limits, &at[0],
				   &at[1]);
			for (i = 0; i < 2; i++) {
				struct msg m = good;

				if (at[0] == INT64_MIN ||
				    !wire_set(&m, f, i ? at[1] + 1 : at[0] - 1))
					continue;
				refused(&m, NULL, 0);
				tried++;
			}
		}
	}
	ck_assert_uint_gt(tried, 300);
}

/* Messages with any value that the table allows are accepted. */
UNIT_TEST(each_range_is_looked_at)
{
	struct msg m = of(MSG_PING, 1);

	taken(&m, NULL, 0);
	m.value = 1;
	refused(&m, NULL, 0);
	m = of(MSG_READ_REQ, 1);
	m.req_slot = (uint16_t)(job.limits.block_slots - 1);
	taken(&m, NULL, 0);
	m.flags = MSGF_HAS;
	refused(&m, NULL, 0);
	m = of(MSG_SYNC, 1); /* destroys an object that does not exist */
	m.op = SOP_DESTROY;
	m.aux = 0;
	taken(&m, NULL, 0);
	m.op = SYNC_OPS;
	refused(&m, NULL, 0);
	m = of(MSG_ARRIVE, 1);
	m.object = job.limits.barriers - 1;
	taken(&m, NULL, 0);
	m.aux = 0;
	refused(&m, NULL, 0);
}

UNIT_TEST(a_payload_has_the_length_of_its_message)
{
	static const char block[PAGE_BYTES + 1];
	struct msg m = of(MSG_READ_REQ, 2);

	taken(&m, NULL, 0);
	refused(&m, block, 1);
	m = of(MSG_DATA, 2);
	m.req_slot = SLOT;
	m.home = 2;
	*copy_of(&m) = (struct copy){ .state = PG_WANT_READ, .slot = SLOT, .home = 3 };
	taken(&m, block, PAGE_BYTES);
	ck_assert_uint_eq(seen->opened, 1);
	refused(&m, block, PAGE_BYTES - 1);
	refused(&m, block, PAGE_BYTES + 1);
	refused(&m, NULL, 0);
}

/* A larger name would take neighbours along: no message with it is stepped. */
UNIT_TEST(a_block_has_the_size_of_its_region)
{
	static const char blocks[2 * PAGE_BYTES];
	unsigned int type, tried = 0;

	for (type = 0; type < MSG_TYPES; type++) {
		struct msg m = of((uint8_t)type, 2);

		if (wire_rule_of((uint8_t)type, WF_object) != RULE_BLOCK ||
		    !(wire_hosts((uint8_t)type) & HOST_LIBRARY))
			continue;
		at_home(0);
		m.object = block_id(0, 2 * PAGE_BYTES);
		refused(&m, blocks, type == MSG_DATA ? 2 * PAGE_BYTES : 0);
		tried++;
	}
	ck_assert_uint_gt(tried, 15);
}

/* A message of node 2 about a block of this size, which this node expects. */
static struct msg expected(uint8_t type, size_t size)
{
	struct msg m = of(type, 2);

	m.object = block_id(0, size);
	*copy_of(&m) = (struct copy){ 0 };
	if (type == MSG_INV) {
		m.req_node = 1;
		*copy_of(&m) = (struct copy){ .state = PG_READ, .home = 3 };
	} else if (type == MSG_DATA) {
		m.home = 2;
		m.req_slot = SLOT;
		*copy_of(&m) = (struct copy){ .state = PG_WANT_READ, .slot = SLOT, .home = 3 };
	}
	return m;
}

/* Nothing but the size is wrong. _i: the region has blocks of two pages. */
UNIT_LOOP_TEST(a_size_other_than_the_regions_is_what_is_refused, 0, 2)
{
	static const uint8_t types[] = { MSG_READ_REQ, MSG_INV, MSG_DATA, MSG_RELEASE };
	static const char blocks[4 * PAGE_BYTES];
	unsigned int i, pages;

	at_home(0);
	job.me->homes[1].block_size = PAGE_BYTES << _i;
	for (i = 0; i < sizeof(types); i++)
		for (pages = 1; pages <= 4; pages *= 2) {
			const size_t size = pages * PAGE_BYTES;
			const struct msg m = expected(types[i], size);

			(pages == 1u << _i ? taken : refused)(&m, blocks,
							      m.type == MSG_DATA ? size : 0);
		}
}

UNIT_TEST(of_a_region_that_is_not_known_any_size_is_served)
{
	struct msg m = of(MSG_RELEASE, 2);

	m.object = block_id(UNIT_BYTES, 4 * PAGE_BYTES);
	taken(&m, NULL, 0);
}

/* ---- who may say it now --------------------------------------------------------------------- */

UNIT_TEST(only_the_home_grants)
{
	struct msg m = of(MSG_GRANT, 2);

	m.flags = MSGF_ZERO;
	m.op = GRANT_WRITE;
	m.req_slot = SLOT;
	*copy_of(&m) = (struct copy){ .state = PG_WANT_WRITE, .slot = SLOT, .home = 3 };
	taken(&m, NULL, 0);
	ck_assert_uint_eq(seen->opened, 1);
	m.src = m.home = 1;
	refused(&m, NULL, 0);
	m.src = m.home = 2;
	m.req_slot = SLOT + 1; /* the slot did not ask */
	refused(&m, NULL, 0);
}

UNIT_TEST(only_the_home_takes_a_copy_away)
{
	struct msg m = of(MSG_INV, 2);

	m.req_node = 1;
	*copy_of(&m) = (struct copy){ .state = PG_READ, .home = 3 };
	taken(&m, NULL, 0);
	ck_assert_uint_eq(seen->sent[job.pair[1]], 1);
	m.src = 1;
	refused(&m, NULL, 0);
}

UNIT_TEST(only_the_manager_makes_homes)
{
	struct msg m = of(MSG_HOME, 2);

	at_home(3);
	m.req_slot = SLOT;
	*copy_of(&m) = (struct copy){ .state = PG_WANT_READ, .slot = SLOT };
	taken(&m, NULL, 0);
	m.src = m.home = 1;
	refused(&m, NULL, 0);
}

UNIT_TEST(who_knows_no_home_asks_the_manager)
{
	const struct msg m = of(MSG_READ_REQ, 1);

	at_home(0);
	taken(&m, NULL, 0);
	at_home(3);
	refused(&m, NULL, 0);
}

UNIT_TEST(only_who_was_asked_answers)
{
	struct msg ask = {
		.type = MSG_SYNC, .op = SOP_LOAD, .dst = 2, .object = 7, .req_slot = CALL_SLOT
	};
	struct msg m = of(MSG_REPLY, 2);

	m.object = 7;
	m.req_slot = CALL_SLOT;
	refused(&m, NULL, 0);
	ask_note(&job.me->slots[CALL_SLOT].ask, &ask);
	taken(&m, NULL, 0);
	m.src = 1;
	refused(&m, NULL, 0);
	m.src = 2;
	m.req_slot++;
	refused(&m, NULL, 0);
}

UNIT_TEST(only_who_was_called_returns)
{
	struct msg ask = { .type = MSG_CALL, .op = CALL_FREE, .dst = 2, .req_slot = CALL_SLOT };
	struct msg m = of(MSG_RETURN, 2);

	m.op = CALL_FREE;
	m.req_slot = CALL_SLOT;
	m.count = -EINVAL;
	refused(&m, NULL, 0);
	ask_note(&job.me->slots[CALL_SLOT].ask, &ask);
	job.me->answers[0] = (struct answer){ .room = 1, .op = CALL_FREE };
	taken(&m, NULL, 0);
	m.src = 1;
	refused(&m, NULL, 0);
	m.src = 2;
	m.op = CALL_STATS;
	refused(&m, NULL, 0);
}

UNIT_TEST(a_call_is_to_a_rank_of_this_node)
{
	struct {
		struct call_head head;
		struct call_word word;
	} in = { .word = { 5 } };
	struct msg m = of(MSG_CALL, 1);

	m.op = CALL_CANCEL;
	m.req_slot = CALL_SLOT;
	taken(&m, &in, sizeof(in));
	refused(&m, &in, sizeof(in) - 1);
	in.head.to = 3;
	refused(&m, &in, sizeof(in));
}

UNIT_TEST(only_the_home_of_a_lock_frees_its_record)
{
	struct msg m = of(MSG_FREED, 2);

	m.object = 1u << 24 | 7;
	m.req_slot = SLOT;
	m.aux = HOLD;
	job.me->holds[HOLD] = (struct hold){
		.state = HOLD_LEAVING, .home = 2, .object = m.object, .slot = SLOT, .gen = 0
	};
	taken(&m, NULL, 0);
	m.src = 1;
	refused(&m, NULL, 0);
	m.src = 2;
	m.aux = HOLD + 1;
	refused(&m, NULL, 0);
}

UNIT_TEST(a_child_arrives_once_and_only_the_parent_departs)
{
	struct msg m = of(MSG_ARRIVE, 1);
	struct bar *b = &job.mem.bars[1];

	m.object = 1;
	*b = (struct bar){ .threads = 1, .expect = 1 };
	taken(&m, NULL, 0);
	b->children = 1;
	b->from[0] = 1;
	refused(&m, NULL, 0);
	m = of(MSG_DEPART, 2);
	m.object = 1;
	refused(&m, NULL, 0);
}

/* A result comes from node 1, the parent of this node; node 2 is a sibling. */
UNIT_TEST(results_come_from_the_parent)
{
	const uint64_t value = 7;
	struct msg m = of(MSG_CHUNK, 1);

	m.op = 1;
	m.home = 1;
	taken(&m, &value, sizeof(value));
	m.src = m.req_node = 2;
	refused(&m, &value, sizeof(value));
}

UNIT_TEST(a_node_says_goodbye_for_its_own_ranks)
{
	struct msg m = of(MSG_BYE, 1);

	m.aux = 2u << 16;
	taken(&m, NULL, 0);
	m.aux = 3u << 16;
	refused(&m, NULL, 0);
	m.aux = (uint32_t)RANKS << 16;
	refused(&m, NULL, 0);
}

/* ---- nobody's fault ------------------------------------------------------------------------- */

/*
 * Another rank's lie may have caused these messages. The first ones are logged, no node is dropped,
 * and the job continues.
 */
UNIT_LOOP_TEST(what_was_not_asked_for_is_ignored, 0, 3)
{
	static const char block[PAGE_BYTES];
	static const uint8_t types[] = { MSG_INV_ACK, MSG_DATA, MSG_LOCKED };
	const struct msg m = of(types[_i], 1);
	char line[256];
	unsigned int n = 0;
	const char *at;
	uint16_t r;

	ck_assert_int_eq(hear(&m, block, m.type == MSG_DATA ? PAGE_BYTES : 0, STRAYS), 0);
	snprintf(line, sizeof(line),
		 "libdsm: node 1 sent %s for object %#x, which was not asked for: ignored\n",
		 wire_name(m.type), m.object);
	for (at = said; !strncmp(at, line, strlen(line)); at += strlen(line))
		n++;
	ck_assert_uint_eq(n, 8);
	ck_assert_str_eq(at, "");
	for (r = 0; r < RANKS; r++)
		ck_assert_uint_eq(seen->drops[r] + seen->sent[r], 0);
}

/*
 * A rank that drops a third one announces it: the others leave with its status, and blame neither.
 */
UNIT_TEST(a_rank_that_leaves_is_not_blamed)
{
	struct msg m = of(MSG_BYE, 1);
	int status;

	m.op = 1;
	m.aux = 70 | 1u << 16;
	status = hear(&m, NULL, 0, 1);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 70);
	ck_assert_str_eq(said, "");
	ck_assert_uint_eq(seen->drops[1] + seen->drops[3], 0);
}

/* ---- DONE ----------------------------------------------------------------------------------- */

static void ask_for_release(uint16_t node, size_t page)
{
	struct msg m = of(MSG_READ_REQ, node);

	m.object = block_id(page * PAGE_BYTES, PAGE_BYTES);
	m.flags = MSGF_KNOWN | MSGF_RELEASE;
	run_net(NULL, &m, NULL, 0);
}

static void ask_to_write(uint16_t node, size_t page)
{
	struct msg m = of(MSG_WRITE_REQ, node);

	m.object = block_id(page * PAGE_BYTES, PAGE_BYTES);
	m.req_slot = (uint16_t)page; /* a slot has one request */
	run_net(NULL, &m, NULL, 0);
}

UNIT_TEST(done_may_be_late_only_if_nobody_waits_for_it)
{
	at_home(0);
	ck_assert(!run_expects_done());
	ask_to_write(1, 0);
	ck_assert(run_expects_done());
	ck_assert(!run_expects_done());
	ask_to_write(2, 0); /* waits for DONE of the first */
	ck_assert(!run_expects_done());
	ask_to_write(1, 1);
	ask_to_write(2, 1);
	ck_assert(!run_expects_done());
	ask_to_write(2, 2); /* the other two still wait */
	ck_assert(!run_expects_done());
	usleep(110000);
	ask_to_write(2, 3);
	ck_assert(run_expects_done());
}

/* Node 1 requests the block, while a thread of this node, its home, gets it. */
static int zero_wanted(unsigned int who, size_t off, size_t len)
{
	ask_to_write(1, 0);
	return zero(who, off, len);
}

static int take(size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	(void)to, (void)writable, (void)pipe;
	return shut(off, len);
}

/*
 * The thread itself steps DONE, and what takes the block away. Here the steps take longer than the
 * hold time, which is none.
 */
UNIT_TEST(a_home_keeps_a_block_until_its_thread_is_back)
{
	struct fault_ops slow = fault;
	char *window = mmap(NULL, UNIT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	unit_require(window != MAP_FAILED);
	slow.zero = zero_wanted;
	slow.take = take;
	job.fault = &slow;
	range_window(window, UNIT_BYTES);
	at_home(0);
	ck_assert_int_eq(block_miss(&job.regions[1], window, true), FAULT_SERVED);
	ck_assert_uint_eq(seen->opened, 1);
	ck_assert_uint_eq(seen->sent[job.pair[1]], 0);
	ck_assert_uint_eq(job.mem.pages[0].state, PG_WRITE);
	ck_assert(work_late_waits());
	ck_assert(!work_late()); /* as the service thread does */
	ck_assert_uint_eq(seen->sent[job.pair[1]], 1);
	ck_assert_uint_eq(seen->last.type, MSG_DATA);
	ck_assert_uint_eq(job.mem.pages[0].state, PG_INVALID);
}

UNIT_TEST(no_done_follows_a_request_for_a_release_block)
{
	ask_for_release(1, UNIT_BYTES / PAGE_BYTES); /* of a region that this node does not know */
	ck_assert_uint_eq(seen->sent[job.pair[1]], 1);
	ck_assert(!run_expects_done());
	at_home(0);
	ask_to_write(1, 1);
	ask_for_release(1, UNIT_BYTES / PAGE_BYTES);
	ck_assert(run_expects_done());
}

/* ---- release blocks ------------------------------------------------------------------------- */

/*
 * Another thread has used the node's first release block, stored, and unlocked, since this one
 * called run_host().
 */
UNIT_TEST(a_lock_leaves_after_the_close_of_blocks_that_came_meanwhile)
{
	struct core_host h = run_host();
	const struct msg next = { .version = WIRE_VERSION,
				  .type = MSG_NEXT,
				  .src = 2,
				  .object = 7,
				  .req_node = 1,
				  .req_slot = SLOT,
				  .aux = HOLD };

	job.me->holds[HOLD] = (struct hold){ .state = HOLD_CACHED, .home = 2, .object = 7 };
	release_begin();
	job.me->rel_lists.opened = 1;
	core_deliver(&h, &next, NULL);
	ck_assert_uint_eq(seen->sent[job.pair[1]], 0);
	ck_assert_uint_eq(job.me->closing.held, 1);
	job.me->holds[HOLD] = (struct hold){ .state = HOLD_CACHED, .home = 2, .object = 7 };
	job.me->rel_lists.opened = 0;
	job.me->closing = (struct closing){ 0 };
	core_deliver(&h, &next, NULL);
	ck_assert_uint_eq(seen->sent[job.pair[1]], 1);
}

/* A FLUSH of node 1 comes in pieces. all: their number, if this piece says it; else 0. */
static struct msg flush_of(uint64_t close)
{
	struct msg m = of(MSG_FLUSH, 1);

	m.value = close;
	return m;
}

static void piece_comes(uint64_t close, uint32_t all)
{
	const struct msg m = flush_of(close);
	const uint32_t head[2] = { all };

	run_net(NULL, &m, head, sizeof(head));
}

static void pieces_come(const void *arg)
{
	const uint8_t *all;

	for (all = arg; *all != UINT8_MAX; all++)
		piece_comes(1, *all);
}

/* With a diff, which is merged by fill(). */
static void changed_piece_comes(uint32_t all)
{
	static const uint8_t twin[PAGE_BYTES];
	static uint8_t page[PAGE_BYTES];
	const struct msg m = flush_of(1);
	struct {
		uint32_t all, pad, object, size;
		uint8_t diff[DIFF_MAX];
	} piece = { .all = all, .object = block_id(0, PAGE_BYTES) };

	page[3] = 1;
	piece.size = (uint32_t)diff_make(page, twin, piece.diff);
	run_net(NULL, &m, &piece, 16 + piece.size);
}

static void other_piece_comes(void)
{
	piece_comes(1, 0);
}

static void other_pieces_come(void)
{
	piece_comes(1, 0);
	piece_comes(1, 0);
}

struct beside {
	void (*fn)(void);
};

static void a_changed_piece_comes(const void *beside)
{
	meanwhile = ((const struct beside *)beside)->fn;
	changed_piece_comes(2);
}

UNIT_TEST(a_flush_is_served_once_all_its_pieces_are_merged)
{
	static const uint8_t some[] = { 0, 0, UINT8_MAX }, whole[] = { 0, 3, 0, UINT8_MAX };
	const struct beside one = { other_piece_comes };

	ck_assert_int_eq(apart(pieces_come, some), 0);
	ck_assert_uint_eq(seen->sent[job.pair[1]], 0);
	ck_assert_int_eq(apart(pieces_come, whole), 0);
	ck_assert_uint_eq(seen->sent[job.pair[1]], 1);
	ck_assert_int_eq(apart(a_changed_piece_comes, &one), 0);
	ck_assert_uint_eq(seen->sent[job.pair[1]], 1);
}

UNIT_TEST(a_flush_has_no_more_pieces_than_it_says)
{
	static const struct {
		uint8_t all[5], answers;
	} cases[] = {
		{ { 1, 0, UINT8_MAX }, 1 },       { { 1, 1, UINT8_MAX }, 1 },
		{ { 2, 0, 0, UINT8_MAX }, 1 },    { { 0, 0, 1, UINT8_MAX }, 0 },
		{ { 0, 0, 2, UINT8_MAX }, 0 },    { { 2, 2, UINT8_MAX }, 0 },
		{ { 0, 0, 0, 2, UINT8_MAX }, 0 }, { { 3, 2, UINT8_MAX }, 0 },
	};
	const struct msg m = flush_of(1);
	const struct beside two = { other_pieces_come };
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		was_refused(&m, apart(pieces_come, cases[i].all), cases[i].answers);
	/* Two other threads merge pieces at the same time. */
	was_refused(&m, apart(a_changed_piece_comes, &two), 0);
}

/* The node serves its blocks, and enters the region later. */
static void a_region_is_entered(const void *consistency)
{
	changed_piece_comes(1);
	unit_require(seen->sent[job.pair[1]] == 1 && seen->opened == 1);
	job.regions[1].consistency = *(const uint8_t *)consistency;
	job.mem.regions[0] = 0;
	region_enter(&job.regions[1]);
}

UNIT_TEST(blocks_of_a_sequential_region_are_no_release_blocks)
{
	const uint8_t release = DSM_CONSISTENCY_RELEASE, sequential = DSM_CONSISTENCY_SEQUENTIAL;
	int status;

	at_home(0);
	job.mem.regions[0] = 0;
	ck_assert_int_eq(apart(a_region_is_entered, &release), 0);
	ck_assert_str_eq(said, "");
	status = apart(a_region_is_entered, &sequential);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 70);
	ck_assert_str_eq(
		said,
		"libdsm: node 1 used block 0x1 as one with release consistency, and its region is sequential\n"
		"libdsm: rank 1 is lost: it broke the protocol. The job ends with status 70.\n");
	ck_assert_uint_eq(seen->drops[1], 1);
}

UNIT_SUITE("run", .seconds = 60, .setup = set_up)

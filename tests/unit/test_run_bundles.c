// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_run_bundles.c - miss/run.c: messages about blocks in a row travel in one bundle. The node
 * opens, confirms and answers them together, and checks each of them.
 */
#include "run_node.h"

#include "core/bundle.h"
#include "miss/slot.h"

static const struct net_ops bundling = { .name = "bundling",
					 .send = note_send,
					 .drop = note_drop,
					 .bundle = WIRE_BUNDLE_MAX,
					 .bundles_data = true };

#define RUN 3u

static uint8_t payload[RUN * (sizeof(struct msg) + PAGE_BYTES)];
static size_t payload_size;

/* A bundle of node 2 about blocks in a row. This node has requested them of node 2. */
static struct msg run_of(uint8_t type)
{
	const bool data = type == MSG_DATA;
	struct msg v[RUN];
	unsigned int i;

	for (i = 0; i < RUN; i++) {
		v[i] = of(type, 2);
		v[i].object = block_id((i + 1) * PAGE_BYTES, PAGE_BYTES);
		/* no thread waits for it */
		v[i].req_slot = (uint16_t)slot_try_prefetch(v[i].object, SLOT_AHEAD);
		if (type != MSG_READ_REQ)
			v[i].home = 2;
		if (type == MSG_GRANT) {
			v[i].flags = MSGF_ZERO;
			v[i].op = GRANT_WRITE;
		}
		*copy_of(&v[i]) = (struct copy){ .state = data ? PG_WANT_READ : PG_WANT_WRITE,
						 .slot = v[i].req_slot,
						 .home = 3 };
		memset(payload + sizeof(v) + i * PAGE_BYTES, (int)i + 1, PAGE_BYTES);
	}
	memcpy(payload, v, sizeof(v));
	payload_size = sizeof(v) + (data ? RUN * PAGE_BYTES : 0);
	return bundle_head(v, RUN);
}

/* One bundle has gone to node 2, with so many messages of this type. */
static void sent_one_bundle(uint8_t type, int n)
{
	ck_assert_uint_eq(seen->sent[job.pair[2]], 1);
	ck_assert_uint_eq(seen->last.type, MSG_BUNDLE);
	ck_assert_uint_eq(seen->last.op, type);
	ck_assert_int_eq(seen->last.count, n);
}

/* _i: this transport sends bundles. */
UNIT_LOOP_TEST(a_run_that_comes_together_is_opened_and_confirmed_together, 0, 2)
{
	static const uint8_t types[] = { MSG_DATA, MSG_GRANT };
	unsigned int i;

	job.netops = _i ? &bundling : &net;
	for (i = 0; i < 2; i++) {
		const struct msg m = run_of(types[i]);

		taken(&m, payload, payload_size);
		ck_assert_uint_eq(seen->opened, 1);
		ck_assert_uint_eq(seen->filled, RUN * PAGE_BYTES);
		if (types[i] == MSG_DATA)
			ck_assert(seen->contents[0] == 1 && seen->contents[1] == 2 &&
				  seen->contents[2] == 3);
		if (_i)
			sent_one_bundle(MSG_DONE, RUN);
		else
			ck_assert_uint_eq(seen->sent[job.pair[2]], RUN);
	}
}

/* Blocks that are not neighbours, or are opened for other ranks. */
UNIT_TEST(what_does_not_belong_together_is_opened_alone)
{
	const struct msg m = run_of(MSG_DATA);
	struct msg v[RUN];

	job.netops = &bundling;
	memcpy(v, payload, sizeof(v));
	job.me->slots[v[1].req_slot].by = 1;
	taken(&m, payload, payload_size);
	ck_assert_uint_eq(seen->opened, RUN);
	job.me->slots[v[1].req_slot].by = 0;
	v[1].object = block_id((RUN + 1) * PAGE_BYTES, PAGE_BYTES);
	*copy_of(&v[1]) = (struct copy){ .state = PG_WANT_READ, .slot = v[1].req_slot, .home = 3 };
	memcpy(payload, v, sizeof(v));
	taken(&m, payload, payload_size);
	ck_assert_uint_eq(seen->opened, RUN);
	ck_assert_uint_eq(seen->filled, RUN * PAGE_BYTES);
	sent_one_bundle(MSG_DONE, RUN);
}

UNIT_TEST(each_message_of_a_bundle_is_checked)
{
	struct msg m = run_of(MSG_DATA), v[RUN];

	job.netops = &bundling;
	was_refused(&m, hear(&m, payload, payload_size - 1, 1), 0);
	ck_assert_uint_eq(seen->filled, (RUN - 1) * PAGE_BYTES);
	was_refused(&m, hear(&m, payload, payload_size - RUN * PAGE_BYTES - 1, 1), 0);
	ck_assert_uint_eq(seen->opened, 0);
	memcpy(v, payload, sizeof(v));
	v[1].object = 0;
	memcpy(payload, v, sizeof(v));
	was_refused(&m, hear(&m, payload, payload_size, 1), 0);
	ck_assert_uint_eq(seen->filled, PAGE_BYTES);
}

static void hear_finished(const void *arg)
{
	job.fenced = 1; /* no rank can be lost any more */
	hear_all(arg);
}

/* The second one of three, in each of the ways in which a message can break a rule. */
UNIT_LOOP_TEST(nothing_behind_a_message_that_breaks_a_rule_is_stepped, 0, 2)
{
	const struct msg m = run_of(MSG_GRANT);
	const struct heard h = { &m, payload, payload_size, 1 };
	struct msg v[RUN];
	int status;

	memcpy(v, payload, sizeof(v));
	if (_i)
		v[1].req_slot = v[0].req_slot; /* it did not ask for this block */
	else
		v[1].object = 0;
	memcpy(payload, v, sizeof(v));
	status = apart(hear_finished, &h);
	ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
	ck_assert_ptr_nonnull(strstr(said, "which no correct node could"));
	ck_assert_uint_eq(seen->drops[job.pair[2]], 1);
	ck_assert_uint_eq(seen->filled, PAGE_BYTES);
}

/* What another rank's lie may have caused says nothing of the messages behind it. */
UNIT_TEST(a_bundle_goes_on_behind_a_message_that_was_not_asked_for)
{
	const struct msg m = run_of(MSG_DATA);
	struct msg v[RUN];

	memcpy(v, payload, sizeof(v));
	copy_of(&v[1])->state = PG_INVALID;
	ck_assert_int_eq(hear(&m, payload, payload_size, 1), 0);
	ck_assert_uint_eq(seen->filled, (RUN - 1) * PAGE_BYTES);
	ck_assert_uint_eq(seen->drops[job.pair[2]], 0);
}

/* This node, their home, has written the block of so many bytes at the page. */
static void has_written(uint32_t page, size_t bytes)
{
	const uint8_t byte = (uint8_t)(10 + page);

	job.mem.pages[page] = (struct copy){ .state = PG_WRITE, .home = 1, .flags = PAGE_OWNER };
	job.mem.dirs[page] = (struct dir){ .state = DIR_EXCLUSIVE, .owner = 0, .copyset = 1 };
	unit_require(pwrite(frames_node.memfd, &byte, 1, (off_t)(page * PAGE_BYTES + bytes - 1)) ==
		     1);
}

/* The home has written a run, and node 2 asks for it. _i: this transport sends bundles. */
UNIT_LOOP_TEST(a_run_that_is_requested_together_is_answered_together, 0, 2)
{
	const struct msg m = run_of(MSG_READ_REQ);
	unsigned int i;

	job.netops = _i ? &bundling : &net;
	at_home(0);
	for (i = 0; i < RUN; i++)
		has_written(i + 1, PAGE_BYTES);
	taken(&m, payload, payload_size);
	ck_assert_uint_eq(seen->ends[0], 10 + RUN);
	ck_assert_uint_eq(seen->lowered, 1);
	if (_i) {
		sent_one_bundle(MSG_DATA, RUN);
		ck_assert_uint_eq(seen->last_size, RUN * (sizeof(struct msg) + PAGE_BYTES));
	} else {
		ck_assert_uint_eq(seen->sent[job.pair[2]], RUN);
		ck_assert_uint_eq(seen->last_size, PAGE_BYTES);
	}
}

/* A bundle of requests for the blocks of so many bytes at these pages. */
static struct msg run_at(const uint32_t *pages, size_t bytes)
{
	struct msg v[RUN];
	unsigned int i;

	run_of(MSG_READ_REQ);
	memcpy(v, payload, sizeof(v));
	for (i = 0; i < RUN; i++) {
		v[i].object = block_id(pages[i] * PAGE_BYTES, bytes);
		has_written(pages[i], bytes);
	}
	memcpy(payload, v, sizeof(v));
	return bundle_head(v, RUN);
}

/* A transport without bundles gains nothing by an answer that waits. */
UNIT_LOOP_TEST(runs_for_one_node_are_answered_together, 0, 2)
{
	static const uint32_t pages[RUN] = { 1, 4, 5 };
	struct msg m;

	job.netops = _i ? &bundling : &net;
	at_home(0);
	m = run_at(pages, PAGE_BYTES);
	taken(&m, payload, payload_size);
	ck_assert_uint_eq(seen->lowered, 2);
	ck_assert_uint_eq(seen->before, _i ? 2 : 1);
	if (_i) {
		sent_one_bundle(MSG_DATA, RUN);
		ck_assert_uint_eq(seen->last_size, RUN * (sizeof(struct msg) + PAGE_BYTES));
		ck_assert(seen->ends[2] == 11 && seen->ends[1] == 14 && seen->ends[0] == 15);
	} else {
		ck_assert_uint_eq(seen->sent[job.pair[2]], RUN);
		ck_assert_uint_eq(seen->ends[0], 15);
	}
}

/* _i: how many of these blocks one bundle may carry, and the next one has the rest. */
UNIT_LOOP_TEST(runs_that_are_answered_together_fit_into_a_bundle, 1, RUN)
{
	static const uint32_t pages[RUN] = { 0, 128, 256 };
	const size_t bytes = BUNDLE_BYTES / (size_t)_i;
	struct msg m;

	job.netops = &bundling;
	at_home_of(0, (uint32_t)bytes);
	m = run_at(pages, bytes);
	taken(&m, payload, payload_size);
	ck_assert_uint_eq(seen->lowered, RUN);
	ck_assert_uint_eq(seen->before, _i);
	ck_assert_uint_eq(seen->sent[job.pair[2]], _i == 1 ? 3 : 2);
	ck_assert_uint_eq(seen->last_size, bytes);
	ck_assert_uint_eq(seen->ends[0], (uint8_t)(10 + 256));
}

/* Two requests arrive with one poll. */
static struct msg arriving[2];

static int poll_two(struct net *n, unsigned int budget)
{
	(void)n, (void)budget;
	run_net(NULL, &arriving[0], NULL, 0);
	run_net(NULL, &arriving[1], NULL, 0);
	return 2;
}

static void poll_once(const void *none)
{
	(void)none;
	run_poll(WORK_CLOSINGS);
}

/*
 * Node 2 reads a block. Another one goes to node 1, or is closed only, or is larger: of a region
 * that this node does not know.
 */
UNIT_LOOP_TEST(runs_that_differ_are_answered_alone, 0, 3)
{
	static const struct net_ops polled = { .name = "polled",
					       .send = note_send,
					       .drop = note_drop,
					       .poll = poll_two,
					       .bundle = WIRE_BUNDLE_MAX,
					       .bundles_data = true };
	const size_t large = _i == 2 ? 2 * PAGE_BYTES : PAGE_BYTES;
	unsigned int i;

	job.netops = &polled;
	at_home(0);
	for (i = 0; i < 2; i++) {
		const uint32_t page = 2 * i + 2 + (!i && _i == 2 ? UNIT_BYTES / PAGE_BYTES : 0);

		arriving[i] = of(!i && _i == 1 ? MSG_INV : MSG_READ_REQ, i || _i == 2 ? 2 : 1);
		arriving[i].req_slot = (uint16_t)(SLOT + i);
		arriving[i].object = block_id(page * PAGE_BYTES, i ? PAGE_BYTES : large);
		has_written(page, i ? PAGE_BYTES : large);
	}
	if (_i == 1) {
		*copy_of(&arriving[0]) = (struct copy){ .state = PG_READ, .home = 2 };
		arriving[0].req_node = 2;
	}
	ck_assert_int_eq(apart(poll_once, NULL), 0);
	ck_assert_str_eq(said, "");
	ck_assert_uint_eq(seen->sent[job.pair[1]], !_i);
	ck_assert_uint_eq(seen->sent[job.pair[2]], _i ? 2 : 1);
	if (_i != 1)
		ck_assert(seen->before == 1 && seen->lowered == 2);
}

UNIT_SUITE("run_bundles", .seconds = 60, .setup = set_up)

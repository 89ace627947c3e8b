// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_run.c - miss/run.c, step.c, lost.c: how node 0 of a job of three handles messages of the
 * others. If a message breaks a rule of core/wire.h, or its sender may not send it now, node 0
 * drops the sender, and the job ends with a line that names it.
 *
 * Each message arrives in its own process, because a loss ends the process. Most messages have a
 * counterpart that differs in the sender, or in one field, and is accepted: so this difference is
 * the reason of the refusal.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../wire_values.h"
#include "calls/call.h"
#include "calls/payload.h"
#include "calls/region.h"
#include "core/ask.h"
#include "core/bundle.h"
#include "core/diff.h"
#include "fault/fault.h"
#include "fault/frames.h"
#include "job/job.h"
#include "job/memory.h"
#include "miss/block.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "miss/work.h"
#include "net/net.h"
#include "start/nodes.h"
#include "start/start.h"
#include "suite.h"

#define RANKS 4 /* 0; 1 and 2; 3 */
#define NODES 3
#define SPACE (64ul << 20)
#define SLOT 5
#define CALL_SLOT CTL_BLOCK_END
#define HOLD 3
#define STRAYS 12 /* more than are logged */
#define RUNS 8u   /* pages that are looked at */

/* ---- the node ------------------------------------------------------------------------------- */

/* What the process that handled a message has done. */
static struct seen {
	unsigned int drops[RANKS], sent[RANKS], opened;
	unsigned int lowered, before; /* runs of blocks: all, and those before the first message */
	size_t filled;                /* bytes */
	uint8_t contents[4];          /* the first byte of each page of the last fill */
	struct msg bye[RANKS], last;  /* last: to any rank */
	size_t last_size;
	uint8_t ends[RUNS]; /* the last byte of each page of the last payload, from its end */
} * seen;

static int note_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		     size_t size)
{
	const uint8_t *end = (const uint8_t *)payload + size;
	unsigned int i;

	(void)n;
	if (!seen->last.type)
		seen->before = seen->lowered;
	seen->sent[rank]++;
	seen->last = *m;
	seen->last_size = size;
	for (i = 0; i < RUNS; i++)
		seen->ends[i] = size > i * PAGE_BYTES ? end[-1 - (int)(i * PAGE_BYTES)] : 0;
	if (m->type == MSG_BYE)
		seen->bye[rank] = *m;
	return 0;
}

static void note_drop(struct net *n, uint16_t rank)
{
	(void)n;
	seen->drops[rank]++;
}

static const struct net_ops net = { .name = "noting", .send = note_send, .drop = note_drop };
static const struct net_ops bundling = {
	.name = "bundling", .send = note_send, .drop = note_drop, .bundles = true
};

static void (*meanwhile)(void); /* what another thread does while a block is filled, once */

static int fill(unsigned int who, size_t off, size_t len, const void *src, enum prot prot)
{
	void (*fn)(void) = meanwhile;

	size_t at;

	(void)who, (void)off, (void)prot;
	seen->opened++;
	seen->filled += len;
	for (at = 0; at < len && at < sizeof(seen->contents) * PAGE_BYTES; at += PAGE_BYTES)
		seen->contents[at / PAGE_BYTES] = ((const uint8_t *)src)[at];
	meanwhile = NULL;
	if (fn)
		fn();
	return 0;
}

static int zero(unsigned int who, size_t off, size_t len)
{
	(void)who, (void)off;
	seen->opened++;
	seen->filled += len;
	return 0;
}

static int shut(size_t off, size_t len)
{
	(void)off, (void)len;
	return 0;
}

static int lower(size_t off, size_t len)
{
	seen->lowered++;
	return shut(off, len);
}

static const struct fault_ops fault = {
	.name = "noting", .fill = fill, .zero = zero, .shut = shut, .lower = lower
};

static void set_up(void)
{
	const struct ctl_shape shape = {
		.size = RANKS, .nodes = NODES, .ranks = 1, .space = SPACE
	};
	uint16_t r;

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unit_require(seen != MAP_FAILED && !work_start());
	job.size = RANKS;
	job.up = &engine_upcalls;
	job.set.space = SPACE;
	job.netops = &net;
	job.net = (struct net *)&job; /* non-null: there is a transport */
	job.fault = &fault;
	job.state = CTL_RUNNING;
	job.ranks = calloc(RANKS, sizeof(*job.ranks));
	job.regions = calloc(2, sizeof(*job.regions));
	job.units = calloc(SPACE / UNIT_BYTES, sizeof(*job.units));
	unit_require(job.ranks && job.regions && job.units);
	for (r = 0; r < RANKS; r++)
		job.ranks[r] = (struct rank_info){ .doorbell = -1, .pidfd = -1, .life = -1 };
	unit_require(!nodes_make((const uint64_t[]){ 1, 2, 2, 3 }, 0));
	ctl_layout(&job.layout, &shape);
	unit_require(!memory_start());
	frames_node.memfd = job.mem.memfd;
	job.mine->state = CTL_RUNNING;
	job.limits = (struct wire_limits){ .me = 0,
					   .nnodes = NODES,
					   .ranks = RANKS,
					   .host = HOST_LIBRARY,
					   .calls = CALL_OPS,
					   .block_slots = ctl_block_slots(NODES),
					   .slots = CTL_ALL_SLOTS,
					   .holds = CTL_HOLDS,
					   .barriers = RANKS * CTL_BARRIERS,
					   .pages = SPACE >> PAGE_SHIFT,
					   .block_pages = BLOCK_MAX >> PAGE_SHIFT };
}

/* The first unit of the window is a region with such blocks, whose home is this rank. */
static void at_home_of(uint16_t rank, uint32_t block_size)
{
	job.regions[1] = (struct dsm_region){ .id = 1,
					      .size = UNIT_BYTES,
					      .bytes = UNIT_BYTES,
					      .block_size = block_size,
					      .home_policy = DSM_HOME_FIXED,
					      .home_rank = rank,
					      .attached = true };
	job.units[0] = 2;
	job.mem.mapped[0] = 1;
	job.mem.regions[0] = 0;
	region_enter(&job.regions[1]);
}

static void at_home(uint16_t rank)
{
	at_home_of(rank, PAGE_BYTES);
}

/* ---- what comes of a message ---------------------------------------------------------------- */

static char said[4096];

/*
 * Map a private copy of the node's memory, so that the next message finds it unchanged. A child
 * does not inherit the mapping itself.
 */
static void own_memory(void)
{
	unit_require(mmap(job.me, job.layout.total, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, job.mem.ctlfd, 0) == job.me);
}

/* Let a process call fn(), and return its exit status. */
static int apart(void (*fn)(const void *), const void *arg)
{
	const int fd = memfd_create("said", 0);
	ssize_t n;
	int status;
	pid_t pid;

	memset(seen, 0, sizeof(*seen));
	pid = fork();
	unit_require(fd >= 0 && pid >= 0);
	if (!pid) {
		job.mypid = getpid();
		own_memory();
		dup2(fd, STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	unit_require(waitpid(pid, &status, 0) == pid);
	n = pread(fd, said, sizeof(said) - 1, 0);
	unit_require(n >= 0);
	said[n] = 0;
	close(fd);
	return status;
}

struct heard {
	const struct msg *m;
	const void *payload;
	size_t size;
	unsigned int times;
};

static void hear_all(const void *arg)
{
	const struct heard *h = arg;
	unsigned int i;

	for (i = 0; i < h->times; i++)
		run_net(NULL, h->m, h->payload, h->size);
}

/* Let a process handle m so many times, and return its exit status. */
static int hear(const struct msg *m, const void *payload, size_t size, unsigned int times)
{
	const struct heard h = { m, payload, size, times };

	return apart(hear_all, &h);
}

static void taken(const struct msg *m, const void *payload, size_t size)
{
	const int status = hear(m, payload, size, 1);
	uint16_t r;

	if (!WIFEXITED(status) || WEXITSTATUS(status) || *said)
		ck_abort_msg("%s of node %d: status %#x, %s", wire_name(m->type), m->src,
			     (unsigned int)status, said);
	for (r = 0; r < RANKS; r++)
		unit_require(!seen->drops[r] && !seen->bye[r].type);
}

/* The node must drop the sender's node and name it, and tell the others that this rank leaves, with
 * its status. answers: what the sender has got before. */
static void was_refused(const struct msg *m, int status, unsigned int answers)
{
	char want[512];
	uint16_t n;

	snprintf(want, sizeof(want),
		 "libdsm: node %d sent %s for object %#x, which no correct node could\n"
		 "libdsm: rank %d is lost: it broke the protocol. The job ends with status 70.\n",
		 m->src, wire_name(m->type), m->object, job.first[m->src]);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 70 || strcmp(said, want))
		ck_abort_msg("%s of node %d: status %#x, %s", wire_name(m->type), m->src,
			     (unsigned int)status, said);
	for (n = 1; n < NODES; n++) {
		unit_require(seen->drops[job.pair[n]] == (n == m->src));
		unit_require(seen->sent[job.pair[n]] == 1 + (n == m->src ? answers : 0));
		unit_require(seen->bye[job.pair[n]].op == 1);
		unit_require(seen->bye[job.pair[n]].aux == 70);
	}
}

static void refused(const struct msg *m, const void *payload, size_t size)
{
	was_refused(m, hear(m, payload, size, 1), 0);
	unit_require(!seen->opened);
}

/* A valid message: a request is the sender's own, an answer has no error. */
static struct msg of(uint8_t type, uint16_t node)
{
	struct msg m = wire_good(type, node, &job.limits);

	if (wire_rule_of(type, WF_req_node) == RULE_NODE)
		m.req_node = node;
	if (wire_rule_of(type, WF_count) == RULE_ERRNO)
		m.count = 0;
	if (wire_rule_of(type, WF_object) == RULE_BLOCK)
		m.object = block_id(PAGE_BYTES, PAGE_BYTES);
	return m;
}

static struct copy *copy_of(const struct msg *m)
{
	return &job.mem.pages[block_page(m->object)];
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

/* ---- bundles --------------------------------------------------------------------------------- */

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
		if (type == MSG_GRANT)
			v[i].flags = MSGF_ZERO;
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
					       .bundles = true };
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

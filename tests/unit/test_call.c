// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_call.c - calls for service threads, in a node of ranks 0 and 1; rank 2 is another node. This
 * process plays both ranks, one at a time. A fake transport records the answers.
 */
#include "core.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "calls/call.h"
#include "calls/payload.h"
#include "job/job.h"
#include "miss/slot.h"
#include "net/net.h"
#include "start/nodes.h"
#include "start/start.h"

#define SPACE (64ul << 20)

static uint64_t cancelled[2 * CTL_CALLS];
static struct msg answered[2 * CTL_CALLS];
static unsigned int cancels, answers;

static int note_cancel(uint64_t arg)
{
	cancelled[cancels++] = arg;
	return -(int)(arg % 2);
}

static int keep_answer(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		       size_t size)
{
	(void)n, (void)payload;
	unit_require(rank == 2 && m->type == MSG_RETURN && m->op == CALL_CANCEL && !size);
	answered[answers++] = *m;
	return 0;
}

static const struct net_ops net = { .name = "keeping", .send = keep_answer };

static void be(uint16_t rank)
{
	job.rank = rank;
	job.local = rank;
	job.mine = rank_info(rank)->ctl;
}

static void set_up(void)
{
	const struct ctl_shape shape = { .size = 3, .nodes = 2, .ranks = 2, .space = SPACE };
	uint16_t r;
	char *at;

	job.size = 3;
	job.up = &engine_upcalls;
	job.set.space = SPACE;
	job.netops = &net;
	job.ranks = calloc(3, sizeof(*job.ranks));
	unit_require(job.ranks && !nodes_make((const uint64_t[]){ 1, 1, 3 }, 0));
	ctl_layout(&job.layout, &shape);
	at = mmap(NULL, job.layout.total, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unit_require(at != MAP_FAILED);
	job.me = (struct ctl *)at;
	job.mem.calls = (struct due_call *)(at + job.layout.calls);
	for (r = 0; r < 2; r++) {
		rank_info(r)->ctl = (struct rank_ctl *)(at + job.layout.ranks) + r;
		rank_info(r)->doorbell = eventfd(0, EFD_NONBLOCK);
	}
	be(0);
	call_cancel = note_cancel;
	cancels = answers = 0;
}

/* A call from node 1 to a rank of this node. */
static int call(uint16_t slot, uint16_t to, uint64_t arg)
{
	struct msg m = unit_msg(MSG_CALL, 1, 0, 1, slot);
	struct {
		struct call_head head;
		struct call_word word;
	} in = { { .to = to }, { arg } };

	m.op = CALL_CANCEL;
	m.object = m.aux = 0;
	return call_arrived(&m, &in, sizeof(in));
}

static unsigned int serve_all(void)
{
	unsigned int turns = 1;

	while (call_serve())
		turns++;
	return turns;
}

/* As many calls as a node can have in progress, all for one rank. */
UNIT_TEST(no_call_is_refused)
{
	unsigned int i;

	for (i = 0; i < CTL_CALLS; i++)
		ck_assert_int_eq(call((uint16_t)(CTL_BLOCK_END + i), 0, 7 * i), 0);
	ck_assert_uint_ge(serve_all(), CTL_CALLS / 64);
	ck_assert_uint_eq(cancels, CTL_CALLS);
	ck_assert_uint_eq(answers, CTL_CALLS);
	for (i = 0; i < CTL_CALLS; i++) {
		unit_require(cancelled[i] == 7 * i);
		unit_require(answered[i].req_slot == CTL_BLOCK_END + i &&
			     answered[i].count == -(int)(i % 2));
		unit_require(answered[i].dst == 1 && answered[i].src == 0 &&
			     answered[i].req_node == 1);
	}
}

/* The rank that receives a call need not wait for the other rank, whose service thread answers. */
UNIT_TEST(a_call_for_the_other_rank_waits_for_it)
{
	ck_assert_int_eq(call(CTL_BLOCK_END, 1, 5), 0);
	ck_assert_int_eq(call(CTL_BLOCK_END + 1, 0, 6), 0);
	serve_all();
	ck_assert_uint_eq(cancels, 1);
	ck_assert_uint_eq(cancelled[0], 6);
	be(1);
	serve_all();
	ck_assert_uint_eq(cancels, 2);
	ck_assert_uint_eq(cancelled[1], 5);
	ck_assert_uint_eq(answered[1].req_slot, CTL_BLOCK_END);
}

/* New calls arrive while others are served: they are served in order of arrival. */
UNIT_TEST(calls_that_come_later_are_served_later)
{
	unsigned int i;

	for (i = 0; i < 40; i++)
		call((uint16_t)(CTL_BLOCK_END + i), 0, i);
	ck_assert(call_serve());
	for (; i < 80; i++)
		call((uint16_t)(CTL_BLOCK_END + i), 0, i);
	serve_all();
	ck_assert_uint_eq(cancels, 80);
	for (i = 0; i < 80; i++)
		ck_assert_uint_eq(cancelled[i], i);
}

UNIT_TEST(a_slot_has_one_call)
{
	ck_assert_int_eq(call(CTL_BLOCK_END, 0, 5), 0);
	ck_assert_int_eq(call(CTL_BLOCK_END, 0, 6), -EBADMSG);
	ck_assert_int_eq(call(CTL_BLOCK_END, 1, 6), -EBADMSG);
	serve_all();
	ck_assert_uint_eq(cancels, 1);
	ck_assert_int_eq(call(CTL_BLOCK_END, 1, 6), 0);
}

UNIT_TEST(a_call_has_a_slot_for_calls)
{
	ck_assert_int_eq(call(CTL_BLOCK_END - 1, 0, 5), -EBADMSG);
	ck_assert_int_eq(call(CTL_BRIEF_END, 0, 5), -EBADMSG);
	ck_assert_int_eq(call(CTL_BRIEF_END - 1, 0, 5), 0);
}

UNIT_SUITE("call", .setup = set_up)

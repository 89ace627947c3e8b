// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_stall.c - reports of long waits, at rank 0 of two nodes of one rank. With the kernel helper,
 * the service thread starts a thread that asks the other rank, and the report contains both ranks.
 * A placement reports itself, with its block. The transport answers for rank 1.
 */
#include "core.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls/call.h"
#include "calls/payload.h"
#include "fault/range.h"
#include "job/job.h"
#include "miss/block.h"
#include "miss/run.h"
#include "miss/work.h"
#include "net/net.h"
#include "start/nodes.h"
#include "start/start.h"
#include "util/futex.h"
#include "watch/stall.h"
#include "watch/stall_collector.h"

#define SPACE (64ul << 20)

static unsigned int asked;
static struct stall_row others[2]; /* answer of rank 1 */
static unsigned int others_n;
static FILE *said;
/* received by rank 1, which does not answer before a report is printed */
static struct msg placement;

static int reply(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		 size_t size)
{
	struct msg r = unit_msg(MSG_RETURN, 1, 0, 0, m->req_slot);

	(void)n, (void)payload, (void)size;
	if (m->type == MSG_PLACE) {
		placement = *m;
		return 0;
	}
	unit_require(rank == 1 && m->type == MSG_CALL && m->op == CALL_STALLS);
	asked++;
	r.op = m->op;
	r.object = r.home = 0;
	unit_require(!call_returned(&r, others, others_n * sizeof(others[0])));
	return 0;
}

/* Everything printed. */
static const char *words(void)
{
	static char text[4096];
	size_t n;

	rewind(said);
	n = fread(text, 1, sizeof(text) - 1, said);
	text[n] = 0;
	return text;
}

static int bring(struct net *n, unsigned int budget)
{
	struct msg r = unit_msg(MSG_REPLY, 1, 0, 0, placement.req_slot);

	(void)n, (void)budget;
	if (!placement.type || !strchr(words(), '\n'))
		return 0;
	r.object = placement.object;
	r.home = 0;
	placement.type = 0;
	run_net(NULL, &r, NULL, 0);
	return 1;
}

static int arm(struct net *n)
{
	(void)n;
	return 0;
}

static const struct net_ops net = { .name = "replying", .send = reply, .poll = bring, .arm = arm };

static void set_up(void)
{
	const struct ctl_shape shape = { .size = 2, .nodes = 2, .ranks = 1, .space = SPACE };
	char *at;

	job.size = 2;
	job.up = &engine_upcalls;
	job.set.space = SPACE;
	job.set.stall_ms = 100;
	job.netops = &net;
	job.ranks = calloc(2, sizeof(*job.ranks));
	unit_require(job.ranks && !nodes_make((const uint64_t[]){ 1, 2 }, 0));
	ctl_layout(&job.layout, &shape);
	at = mmap(NULL, job.layout.total, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unit_require(at != MAP_FAILED);
	job.me = (struct ctl *)at;
	job.mine = rank_info(0)->ctl = (struct rank_ctl *)(at + job.layout.ranks);
	asked = others_n = 0;
	said = tmpfile();
	unit_require(said && dup2(fileno(said), STDERR_FILENO) == STDERR_FILENO);
}

static void note_since(unsigned int i, uint64_t since)
{
	struct wait_note *n = &job.mine->notes[i];

	n->about = (struct wait_about){ .kind = ABOUT_BARRIER, .threads = 1 };
	n->tid = 1 + i;
	__atomic_store_n(&n->since, since, __ATOMIC_RELEASE);
}

/* Rank 0 has waited in the job's barrier for that long. */
static void wait_for(unsigned int ms)
{
	note_since(0, clock_ns() - ms * 1000000ull);
}

/* Check as the service thread does, and return what it prints. */
static const char *look(void)
{
	stall_check_kernel();
	stall_ask();
	stall_collector_wait();
	return words();
}

UNIT_TEST(a_report_knows_of_other_nodes)
{
	wait_for(2000);
	ck_assert_ptr_nonnull(strstr(
		look(),
		"dsm_barrier() or a collective: rank 0 waits, rank 1 has not arrived; rank 1 is not waiting"));
	ck_assert_uint_eq(asked, 1);
}

UNIT_TEST(waits_of_other_nodes_are_in_it)
{
	others[0] = (struct stall_row){ .about = { .kind = ABOUT_BARRIER, .threads = 1 },
					.age_ms = 50,
					.rank = 1 };
	others_n = 1;
	wait_for(2000);
	ck_assert_ptr_nonnull(strstr(look(), "dsm_barrier() or a collective: ranks 0-1 wait\n"));
}

UNIT_TEST(a_short_wait_is_no_stall)
{
	wait_for(20);
	ck_assert_str_eq(look(), "");
	ck_assert_uint_eq(asked, 0);
}

/* The notes are read after the clock was. */
UNIT_TEST(a_wait_that_begins_meanwhile_is_no_old_one)
{
	wait_for(2000);
	note_since(1, clock_ns() + 10000000000ull);
	ck_assert_ptr_nonnull(strstr(look(), "after 2 s without an answer"));
}

UNIT_TEST(nobody_asks_once_the_ranks_part)
{
	wait_for(2000);
	stall_collector_close();
	ck_assert_str_eq(look(), "");
	ck_assert_uint_eq(asked, 0);
}

/*
 * A placement has only its block as a name. Rank 1 is silent until rank 0 has waited so long that
 * it reports that.
 */
UNIT_TEST(a_placement_whose_home_is_silent_names_its_block)
{
	struct dsm_region r = { .off = UNIT_BYTES,
				.size = 8192,
				.bytes = UNIT_BYTES,
				.block_size = 4096,
				.id = 1,
				.home_policy = DSM_HOME_FIXED,
				.home_rank = 1,
				.name = "grid",
				.attached = true };
	char want[200];

	job.net = (struct net *)&job;
	job.regions = &r;
	job.units = calloc(SPACE / UNIT_BYTES, sizeof(*job.units));
	unit_require(job.units && !work_start());
	job.units[1] = r.id; /* regions[id - 1] */
	job.limits = (struct wire_limits){ .nnodes = 2,
					   .host = HOST_LIBRARY,
					   .block_slots = ctl_block_slots(2),
					   .slots = CTL_ALL_SLOTS,
					   .pages = SPACE >> PAGE_SHIFT,
					   .block_pages = BLOCK_MAX >> PAGE_SHIFT };
	ck_assert_int_eq(block_place(&r, r.off + 4096, 0), 0);
	ck_assert_uint_eq(asked, 1);
	snprintf(want, sizeof(want),
		 "block %p of grid, home node 1: rank 0 waits; rank 1 is not waiting in libdsm\n",
		 (void *)range_at(r.off + 4096));
	ck_assert_msg(strstr(words(), want), "no \"%s\" in \"%s\"", want, words());
}

UNIT_SUITE("stall", .setup = set_up)

// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_search.c - every state of a small scheduler: three flows, operations of up to two and
 * a half chunks, picks of one and two chunks, completions in the order of each lane, one change of
 * priority, one drop; then flows that are held, too; then a narrow window.
 *
 * In every state: chunks of a flow follow each other without a gap and in order (nothing lost,
 * doubled or overtaken), no window overflows, no weighted chunk passes a strict backlog, also one
 * that is held, no flow waits for more chunks of its priority than its peers' shares, and
 * completions alone empty the queues (nothing is forgotten).
 *
 * The world is one static object that is copied out and in, so its pointers stay valid and its
 * bytes are the state.
 */
#include "suite.h"

#include <stdio.h>
#include <string.h>

#include "share/schedule.h"

#define FLOWS 3
#define CHUNK 64u /* RS_COST_MIN: an empty chunk costs as much as a full one */
#define OUT 8

struct outstanding {
	uint32_t flow, len;
};

static struct world {
	struct rs_sched sched;
	struct rs_flow flow[FLOWS];
	struct outstanding out[RS_LANES][OUT];
	uint32_t nout[RS_LANES];
	uint32_t len[FLOWS][4];        /* of the operations, in order */
	uint32_t op[FLOWS], at[FLOWS]; /* the next chunk expected */
	/* chunks of other flows of this priority since this one could have been sent */
	uint32_t waited[FLOWS];
	uint32_t pushes, sets, drops, holds;
} w;

/* ---- states that were seen ------------------------------------------------------------------ */

#define STATES (1u << 19)
static struct world *queue;
static uint64_t *seen;
static uint32_t nstates, head;

static uint64_t hash(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t h = 0x9e3779b97f4a7c15u, word;

	for (; size >= 8; size -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

/* 64 bits of a hash identify a state: collisions are too rare to matter. */
static void reached(void)
{
	const uint64_t h = hash(&w, sizeof(w));
	uint32_t i = (uint32_t)h & (2 * STATES - 1);

	while (seen[i] && seen[i] != h)
		i = (i + 1) & (2 * STATES - 1);
	if (seen[i])
		return;
	seen[i] = h;
	unit_require(nstates < STATES);
	queue[nstates++] = w;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static bool ready(const struct rs_flow *f)
{
	return f->first != f->end && !f->moving && !f->held;
}

static void check_chunk(const struct rs_chunk *c)
{
	const uint32_t i = (uint32_t)(c->flow - w.flow);

	unit_require(i < FLOWS && c->op == w.op[i] && c->offset == w.at[i]);
	unit_require(c->len <= CHUNK && c->offset + c->len <= w.len[i][c->op]);
	unit_require(c->last == (c->offset + c->len == w.len[i][c->op]));
	unit_require(c->lane == (c->flow->priority ? RS_STRICT : RS_WEIGHTED));
	for (uint32_t k = 0; k < w.nout[!c->lane]; k++)
		/* the flow has nothing on the other lane */
		unit_require(w.out[!c->lane][k].flow != i);
	w.at[i] += c->len;
	if (c->last) {
		w.op[i]++;
		w.at[i] = 0;
	}
	w.out[c->lane][w.nout[c->lane]++] = (struct outstanding){ i, c->len };
	unit_require(w.nout[c->lane] <= w.sched.lane[c->lane].max_chunks);
	w.waited[i] = 0;
}

static unsigned int pick(void)
{
	const bool alert = w.sched.alert;
	bool was_ready[FLOWS];
	struct rs_chunk c;
	unsigned int i, bound;

	for (i = 0; i < FLOWS; i++)
		was_ready[i] = ready(&w.flow[i]);
	if (!rs_sched_pick(&w.sched, &c, 1))
		return 0;
	check_chunk(&c);
	if (alert && c.lane == RS_WEIGHTED && c.len > CHUNK / 2)
		unit_require(w.sched.lane[RS_WEIGHTED].bytes <= w.sched.narrow);
	for (i = 0; i < FLOWS; i++) {
		const struct rs_flow *f = &w.flow[i];

		if (f->held && f->priority && f->first != f->end && !f->moving)
			unit_require(f->priority <= c.flow->priority);
		unit_require(!c.flow->held);
		if (f == c.flow || !was_ready[i])
			continue;
		unit_require(f->priority <= c.flow->priority);
		if (f->priority != c.flow->priority)
			continue;
		/*
		 * Strict: one chunk of each other flow. Weighted: what the others have left in this
		 * epoch, and the whole next one.
		 */
		bound = FLOWS - 1;
		if (!f->priority)
			for (unsigned int k = bound = 0; k < FLOWS; k++)
				bound += &w.flow[k] == f ? 0 : 2u * w.flow[k].weight + 1;
		unit_require(++w.waited[i] <= bound);
	}
	return 1;
}

static void done(unsigned int lane)
{
	const struct outstanding o = w.out[lane][0];

	memmove(&w.out[lane][0], &w.out[lane][1], (OUT - 1) * sizeof(o));
	w.out[lane][OUT - 1] = (struct outstanding){ 0, 0 };
	w.nout[lane]--;
	rs_sched_done(&w.sched, &w.flow[o.flow], lane, o.len);
}

/* Completions and picks alone must empty the queues and hand out every expected chunk. */
static void check_drains(void)
{
	unsigned int i, steps;

	for (i = 0; i < FLOWS; i++)
		if (w.flow[i].held)
			rs_sched_resume(&w.sched, &w.flow[i]);
	for (steps = 0; steps < 64; steps++) {
		while (pick())
			;
		if (!w.nout[0] && !w.nout[1])
			break;
		done(w.nout[0] ? 0 : 1);
	}
	unit_require(steps < 64 && !rs_sched_backlog(&w.sched));
	for (i = 0; i < FLOWS; i++)
		unit_require(w.op[i] == w.flow[i].end && !w.at[i] && !w.flow[i].outstanding);
	for (i = 0; i < RS_LANES; i++)
		unit_require(!w.sched.lane[i].bytes && !w.sched.lane[i].chunks);
}

static void push(unsigned int i, uint32_t len)
{
	w.len[i][w.flow[i].end] = len;
	w.pushes++;
	if (!ready(&w.flow[i]))
		w.waited[i] = 0;
	unit_require(rs_sched_push(&w.sched, &w.flow[i], len));
}

static void set(unsigned int i, uint8_t priority, uint8_t weight)
{
	w.sets++;
	memset(w.waited, 0, sizeof(w.waited));
	rs_sched_set(&w.sched, &w.flow[i], priority, weight);
}

static void drop(unsigned int i)
{
	w.drops++;
	rs_sched_drop(&w.sched, &w.flow[i]);
	w.op[i] = w.flow[i].end;
	w.at[i] = w.waited[i] = 0;
}

static void hold(unsigned int i, bool is)
{
	w.holds += is;
	memset(w.waited, 0, sizeof(w.waited));
	if (is)
		rs_sched_hold(&w.sched, &w.flow[i]);
	else
		rs_sched_resume(&w.sched, &w.flow[i]);
}

#define STEP(condition, action)          \
	do {                             \
		if (condition) {         \
			w = queue[head]; \
			action;          \
			reached();       \
		}                        \
	} while (0)

static void expand(uint32_t pushes, uint32_t holds)
{
	static const uint32_t lens[] = { 0, CHUNK, 5 * CHUNK / 2 };
	const struct world *at = &queue[head];
	unsigned int i, k;

	w = *at;
	check_drains();
	for (i = 0; i < FLOWS; i++) {
		for (k = 0; k < 3; k++)
			STEP(at->pushes < pushes && at->flow[i].end < 3, push(i, lens[k]));
		STEP(at->holds < holds && !at->flow[i].held, hold(i, true));
		STEP(at->flow[i].held, hold(i, false));
	}
	STEP(!at->sets, set(0, at->flow[0].priority ? 0 : 3, 2));
	STEP(!at->drops, drop(1));
	for (i = 0; i < RS_LANES; i++)
		STEP(at->nout[i], done(i));
	STEP(true, pick());
}

static void search(const uint8_t priority[FLOWS], const uint8_t weight[FLOWS], uint32_t window,
		   uint32_t narrow, uint32_t pushes, uint32_t holds)
{
	const uint32_t windows[] = { window * CHUNK, window * CHUNK },
		       slots[] = { OUT - 1, OUT - 1 };

	memset(&w, 0, sizeof(w));
	memset(seen, 0, 2 * STATES * sizeof(*seen));
	nstates = head = 0;
	rs_sched_init(&w.sched, CHUNK, windows, slots);
	rs_sched_narrow(&w.sched, narrow * CHUNK);
	for (unsigned int i = 0; i < FLOWS; i++)
		rs_flow_init(&w.flow[i], priority[i], weight[i]);
	reached();
	for (; head < nstates; head++)
		expand(pushes, holds);
	printf("share_search: priorities %u %u %u, windows %u %u, held %u times: %u states\n",
	       priority[0], priority[1], priority[2], window, narrow, holds, nstates);
	ck_assert_uint_gt(nstates, 1000);
}

UNIT_TEST(no_state_loses_or_starves)
{
	seen = calloc(2 * STATES, sizeof(*seen));
	queue = calloc(STATES, sizeof(*queue));
	ck_assert(seen && queue);
	search((const uint8_t[]){ 0, 0, 0 }, (const uint8_t[]){ 1, 2, 1 }, 2, 0, 3, 0);
	search((const uint8_t[]){ 0, 0, 3 }, (const uint8_t[]){ 1, 1, 1 }, 1, 0, 3, 0);
	search((const uint8_t[]){ 3, 3, 7 }, (const uint8_t[]){ 1, 1, 1 }, 2, 0, 3, 0);
	search((const uint8_t[]){ 0, 0, 7 }, (const uint8_t[]){ 1, 2, 1 }, 2, 0, 2, 2);
	search((const uint8_t[]){ 0, 7, 7 }, (const uint8_t[]){ 1, 1, 1 }, 1, 0, 2, 2);
	search((const uint8_t[]){ 0, 0, 0 }, (const uint8_t[]){ 1, 2, 1 }, 2, 1, 3, 0);
	search((const uint8_t[]){ 0, 0, 7 }, (const uint8_t[]){ 1, 1, 1 }, 2, 1, 2, 1);
	free(queue);
	free(seen);
}

UNIT_SUITE("share_search", .seconds = 120)

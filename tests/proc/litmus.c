// SPDX-License-Identifier: BSD-2-Clause
/*
 * litmus.c - the classic tests of memory models, on shared memory: a few threads, each a few loads
 * and stores, thousands of rounds, and outcomes that the guarantee (sequential consistency at block
 * level over each rank's x86-TSO) forbids.
 *
 * Variables are never reset: round r writes 2r + 1 or 2r + 2, and any smaller value counts as the
 * initial state. Rounds are synchronised through memory outside of libdsm. The blocks, the ranks
 * with copies of them before the round, the role of each rank, and delays are random. With
 * --threads N, each rank has N roles. The roles form groups; each group plays the test by itself,
 * on its own words in blocks that all groups share.
 *
 * --control runs the same on memory that is deliberately not coherent: every thread has its own
 * copy, stores reach the copies late and in any order, loads read any copy (and LB runs backwards).
 * It fails unless every forbidden outcome is seen.
 */
#include "common.h"

#include <sched.h>

#define ROLES 4
#define GROUPS 8
#define SEATS 64
#define VARS 2
#define REGS 8
#define INSTANCES 16
#define MAX_TESTS 16

enum place { SAME_BLOCK, TWO_BLOCKS, TWO_HOMES, BIG_BLOCKS, PLACES };
static const char *const place_names[PLACES] = { "same block", "two blocks", "two homes",
						 "64K blocks" };

struct round {
	uint64_t *v[VARS];
	uint64_t one, two; /* values that this round writes */
	uint64_t *reg;     /* values that it read */
	struct rng *rng;
	unsigned role;
};

struct litmus {
	const char *name;
	unsigned roles, nregs; /* nregs 0: the final state is the outcome */
	bool forbidden;
	void (*run)(struct round *r);
	/* was the interesting outcome seen? */
	bool (*seen)(const uint64_t *reg, const uint64_t *final, uint64_t one);
};

static uint64_t seconds = 8, control, threads;
static struct outside { /* one per group */
	uint32_t came[ROLES], generation;
	uint32_t stop;
	uint64_t reg[REGS];
	uint64_t rounds[MAX_TESTS][PLACES], seen[MAX_TESTS][PLACES],
		outcomes[MAX_TESTS][PLACES][16];
	uint64_t copy[ROLES][PLACES * INSTANCES * VARS];
} * outside;
static char *regions[4];

/* ---- accesses ------------------------------------------------------------------------------- */

/* Control: stores wait here until the end of the round. */
static __thread struct {
	unsigned n;
	struct {
		uint64_t *at, v;
	} s[ROLES * VARS * 2];
} late;

static void gap(struct round *r)
{
	uint64_t x = rng_next(r->rng);

	if (!(x & 3))
		test_delay(x >> 8 & 127);
	else if (!(x & 12))
		sched_yield(); /* there may be more roles than processors */
}

static uint64_t get(struct round *r, unsigned var)
{
	gap(r);
	if (control)
		return load(r->v[var] + rng_below(r->rng, ROLES) * (PLACES * INSTANCES * VARS));
	return load(r->v[var]);
}

static void put(struct round *r, unsigned var, uint64_t v)
{
	unsigned i;

	gap(r);
	if (!control) {
		store(r->v[var], v);
		return;
	}
	for (i = 0; i < ROLES; i++) {
		late.s[late.n].at = r->v[var] + i * (PLACES * INSTANCES * VARS);
		late.s[late.n++].v = v;
	}
}

static void flush(struct round *r)
{
	while (late.n) {
		unsigned i = (unsigned)rng_below(r->rng, late.n);

		store(late.s[i].at, late.s[i].v);
		late.s[i] = late.s[--late.n];
		gap(r);
	}
}

static void fence(void)
{
	if (!control)
		__asm__ volatile("mfence" ::: "memory");
}

/* ---- the tests; x is variable 0, y variable 1 ------------------------------------------------ */

enum { X, Y };

static void sb(struct round *r)
{
	put(r, r->role ? Y : X, r->one);
	r->reg[r->role] = get(r, r->role ? X : Y);
}

static void sb_fence(struct round *r)
{
	put(r, r->role ? Y : X, r->one);
	fence();
	r->reg[r->role] = get(r, r->role ? X : Y);
}

static void sb_xchg(struct round *r)
{
	if (control)
		put(r, r->role ? Y : X, r->one);
	else
		__atomic_exchange_n(r->v[r->role ? Y : X], r->one, __ATOMIC_SEQ_CST);
	r->reg[r->role] = get(r, r->role ? X : Y);
}

static bool both_old(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	(void) final;
	return reg[0] < one && reg[1] < one;
}

static void mp(struct round *r)
{
	if (!r->role) {
		put(r, X, r->one);
		put(r, Y, r->one);
	} else {
		r->reg[0] = get(r, Y);
		r->reg[1] = get(r, X);
	}
}

static bool new_then_old(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	(void) final;
	return reg[0] >= one && reg[1] < one;
}

static void lb(struct round *r)
{
	if (control) { /* backwards, in time with the memory of the others */
		put(r, r->role ? X : Y, r->one);
		flush(r);
		test_delay(100);
		r->reg[r->role] = get(r, r->role ? Y : X);
		return;
	}
	r->reg[r->role] = get(r, r->role ? Y : X);
	put(r, r->role ? X : Y, r->one);
}

static bool both_new(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	(void) final;
	return reg[0] >= one && reg[1] >= one;
}

static void iriw(struct round *r)
{
	if (r->role < 2) {
		put(r, r->role, r->one);
		return;
	}
	r->reg[r->role * 2 - 4] = get(r, r->role == 2 ? X : Y);
	r->reg[r->role * 2 - 3] = get(r, r->role == 2 ? Y : X);
}

static bool disagree(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	(void) final;
	return reg[0] >= one && reg[1] < one && reg[2] >= one && reg[3] < one;
}

static void corr(struct round *r)
{
	if (!r->role) {
		put(r, X, r->one);
		return;
	}
	r->reg[r->role * 2 - 2] = get(r, X);
	r->reg[r->role * 2 - 1] = get(r, X);
}

static bool backwards(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	(void) final;
	return reg[0] > reg[1] || reg[2] > reg[3] || reg[0] > one;
}

static void two_two_w(struct round *r)
{
	put(r, r->role ? Y : X, r->one);
	put(r, r->role ? X : Y, r->two);
}

static bool both_first(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	(void)reg;
	return final[X] == one && final[Y] == one;
}

static void wrc(struct round *r)
{
	switch (r->role) {
	case 0: put(r, X, r->one); break;
	case 1:
		r->reg[0] = get(r, X);
		put(r, Y, r->one);
		break;
	default: r->reg[1] = get(r, Y); r->reg[2] = get(r, X);
	}
}

static bool not_causal(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	(void) final;
	return reg[0] >= one && reg[1] >= one && reg[2] < one;
}

static void s_test(struct round *r)
{
	if (!r->role) {
		put(r, X, r->two);
		put(r, Y, r->one);
	} else {
		r->reg[0] = get(r, Y);
		put(r, X, r->one);
	}
}

static bool overwritten(const uint64_t *reg, const uint64_t *final, uint64_t one)
{
	return reg[0] >= one && final[X] == one + 1;
}

/* clang-format off */
static const struct litmus tests[] = {
	{ "SB", 2, 2, false, sb, both_old },          { "SB+fences", 2, 2, true, sb_fence, both_old },
	{ "SB+xchg", 2, 2, true, sb_xchg, both_old }, { "MP", 2, 2, true, mp, new_then_old },
	{ "LB", 2, 2, true, lb, both_new },           { "IRIW", 4, 4, true, iriw, disagree },
	{ "CoRR", 3, 4, true, corr, backwards },      { "2+2W", 2, 0, true, two_two_w, both_first },
	{ "WRC", 3, 3, true, wrc, not_causal },       { "S", 2, 1, true, s_test, overwritten },
};
/* clang-format on */
#define TESTS (sizeof(tests) / sizeof(tests[0]))

/* ---- running --------------------------------------------------------------------------------- */

static void wait_for(const uint32_t *word, uint32_t value)
{
	unsigned spins = 0;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		if (++spins < 200)
			__builtin_ia32_pause();
		else
			sched_yield();
}

/*
 * Only loads and stores: machines emulated with one processor each share memory without atomic
 * operations.
 */
static void meet(struct outside *out, unsigned role, unsigned n)
{
	uint32_t next = __atomic_load_n(&out->generation, __ATOMIC_ACQUIRE) + 1;
	unsigned i;

	__atomic_store_n(&out->came[role], next, __ATOMIC_RELEASE);
	if (role) {
		wait_for(&out->generation, next);
		return;
	}
	for (i = 1; i < n; i++)
		wait_for(&out->came[i], next);
	__atomic_store_n(&out->generation, next, __ATOMIC_RELEASE);
}

/* In each page, a group has 16 words: one per instance, or one per variable. */
static uint64_t *variable(unsigned group, enum place place, unsigned instance, unsigned var)
{
	const size_t word = group * 128 + instance * 8;

	if (control)
		return &outside[group].copy[0][(place * INSTANCES + instance) * VARS + var];
	switch (place) {
	case SAME_BLOCK: return (uint64_t *)(regions[0] + instance * 4096 + group * 128 + var * 64);
	case TWO_BLOCKS:
		return (uint64_t *)(regions[0] + (INSTANCES + instance * 2 + var) * 4096 + word);
	case TWO_HOMES: return (uint64_t *)(regions[1 + var] + instance * 4096 + word);
	default:
		return (uint64_t *)(regions[3] + (size_t)(instance * 2 + var) * 65536 +
				    var * 32768 + word);
	}
}

struct run {
	const struct litmus *test;
	enum place place;
	uint64_t round, until;
	uint8_t role_at[SEATS]; /* group by group; seat t * size + r is thread t of rank r */
};

/* Threads per rank: enough for one group, or as the option says. */
static unsigned threads_for(const struct litmus *t)
{
	return threads ? (unsigned)threads
		       : (t->roles + (unsigned)test_size - 1) / (unsigned)test_size;
}

static unsigned groups_for(const struct litmus *t)
{
	return threads ? threads_for(t) * (unsigned)test_size / t->roles : 1;
}

/* All ranks draw the same numbers. */
static void take_seats(struct run *run, uint64_t lot)
{
	const unsigned seats = threads_for(run->test) * (unsigned)test_size;
	struct rng rng = { test_seed + lot };
	unsigned i;

	for (i = 0; i < seats; i++) {
		unsigned k = (unsigned)rng_below(&rng, i + 1);

		run->role_at[i] = run->role_at[k];
		run->role_at[k] = (uint8_t)i;
	}
}

/* Role 0 records the outcome of a round. */
static void note(struct outside *out, const struct run *run, const struct round *r)
{
	const struct litmus *t = run->test;
	size_t test = (size_t)(t - tests);
	uint64_t final[VARS];
	unsigned i, outcome = 0;

	for (i = 0; i < VARS; i++)
		final[i] = load(r->v[i]);
	for (i = 0; i < t->nregs; i++)
		outcome = outcome * 2 + (out->reg[i] >= r->one);
	for (i = 0; i < VARS && !t->nregs; i++)
		outcome = outcome * 2 + (final[i] > r->one);
	out->rounds[test][run->place]++;
	out->outcomes[test][run->place][outcome]++;
	out->seen[test][run->place] += t->seen(out->reg, final, r->one);
	if (control) { /* continue until the outcome is seen, however slow that is */
		uint64_t seen = 0, p;

		for (p = 0; p < PLACES; p++)
			seen += out->seen[test][p];
		out->stop = (seen && out->rounds[test][run->place] > 50) ||
			test_ns() > run->until + 20000000000u;
	} else {
		out->stop = test_ns() > run->until;
	}
}

static void play(unsigned thread, void *arg)
{
	struct run *run = arg;
	const struct litmus *t = run->test;
	const unsigned at = run->role_at[thread * (unsigned)test_size + (unsigned)test_rank];
	const unsigned role = at % t->roles, group = at / t->roles;
	struct outside *out = &outside[group];
	struct rng rng = rng_of(run->round * 64 + at), common = rng_of(run->round * 64 + 63);
	uint64_t round;

	if (group >= groups_for(t))
		return;
	for (round = run->round;; round++) {
		unsigned instance = (unsigned)rng_below(&common, INSTANCES), i;
		struct round r = { .one = round * 2 + 1,
				   .two = round * 2 + 2,
				   .reg = out->reg,
				   .rng = &rng,
				   .role = role };
		uint64_t dice = rng_next(&rng);

		for (i = 0; i < VARS; i++)
			r.v[i] = variable(group, run->place, instance, i);
		/* Some threads read first, so that upgrades and invalidations race, too. */
		for (i = 0; i < VARS; i++)
			if (dice >> i & 1)
				(void)load(r.v[i]);
		if (!role)
			memset(out->reg, 0, sizeof(out->reg));
		meet(out, role, t->roles);
		test_delay(dice >> 8 & 63);
		t->run(&r);
		flush(&r);
		meet(out, role, t->roles);
		if (!role)
			note(out, run, &r);
		meet(out, role, t->roles);
		if (out->stop)
			break;
		meet(out, role, t->roles); /* all have looked before role 0 clears it */
	}
}

/*
 * "00:12 01:3 11:400": how often each outcome was seen. A digit is 1 if a register (or finally a
 * variable) has the value written in the round, or the last one.
 */
static void outcomes(size_t t, int p, char *text, size_t room)
{
	unsigned i, g, bit, digits = tests[t].nregs ? tests[t].nregs : VARS;
	size_t at = 0;

	text[0] = 0;
	for (i = 0; i < 1u << digits; i++) {
		uint64_t n = 0;

		for (g = 0; g < GROUPS; g++)
			n += outside[g].outcomes[t][p][i];
		if (!n || at + 32 > room)
			continue;
		text[at++] = ' ';
		for (bit = digits; bit-- > 0;)
			text[at++] = (char)('0' + (i >> bit & 1));
		at += (size_t)snprintf(text + at, room - at, ":%lu", (unsigned long)n);
	}
}

static bool verdict(void)
{
	bool ok = true;
	unsigned g;
	size_t t;
	int p;

	test_say("  %-10s %-10s %-12s %9s %9s  outcomes", "test", "", "placement", "rounds",
		 "seen");
	for (t = 0; t < TESTS; t++) {
		uint64_t seen = 0;

		for (p = 0; p < PLACES; p++) {
			uint64_t s = 0, rounds = 0;
			char text[320];

			for (g = 0; g < GROUPS; g++) {
				s += outside[g].seen[t][p];
				rounds += outside[g].rounds[t][p];
				ok &= (g < groups_for(&tests[t])) == (outside[g].rounds[t][p] > 0);
			}
			seen += s;
			outcomes(t, p, text, sizeof(text));
			test_say("  %-10s %-10s %-12s %9lu %9lu %s%s", tests[t].name,
				 tests[t].forbidden ? "forbidden" : "allowed", place_names[p],
				 (unsigned long)rounds, (unsigned long)s, text,
				 s && tests[t].forbidden && !control ? "  VIOLATION" : "");
		}
		if (control ? tests[t].forbidden && !seen : tests[t].forbidden && seen) {
			test_say("  %s: %s", tests[t].name,
				 control ? "the control's incoherent memory was not caught"
					 : "a forbidden outcome was seen");
			ok = false;
		}
	}
	return ok;
}

/*
 * Regions of all priorities: the connection that carries data must not create an order
 * (DSM_NET=shared).
 */
static void make_regions(void)
{
	static const struct {
		const char *name;
		size_t size, block_size;
		enum dsm_home home;
		enum dsm_priority priority;
	} all[4] = {
		{ "litmus", 3 * INSTANCES * 4096, 4096, DSM_HOME_FIRST_TOUCH, DSM_PRIORITY_NORMAL },
		{ "litmus x", INSTANCES * 4096, 4096, DSM_HOME_FIXED, DSM_PRIORITY_HIGH },
		{ "litmus y", INSTANCES * 4096, 4096, DSM_HOME_FIXED, DSM_PRIORITY_LOW },
		{ "litmus big", 2 * INSTANCES * 65536, 65536, DSM_HOME_CYCLIC,
		  DSM_PRIORITY_URGENT },
	};
	unsigned i;

	for (i = 0; i < 4; i++) {
		const struct dsm_region_options opt = { .block_size = all[i].block_size,
							.home = all[i].home,
							.home_rank = i == 2 ? test_size - 1 : 0,
							.priority = all[i].priority };
		dsm_region_t *r;

		MUST(dsm_region_open(all[i].name, all[i].size, &opt, &r));
		regions[i] = dsm_region_base(r);
	}
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "seconds", "N", "how long to run", &seconds },
		{ "control", NULL, "on memory that is not coherent: must see what is forbidden",
		  &control },
		{ "threads", "N",
		  "threads of each rank, which play in groups (0: as few as make one group)",
		  &threads },
	};
	static struct run run;
	uint64_t round = 1, each;
	unsigned turn;
	size_t t;

	test_start(argc, argv, "Litmus tests of the memory model.", options, 3);
	outside = test_outside(GROUPS * sizeof(*outside));
	for (t = 0; t < TESTS; t++)
		REQUIRE(threads_for(&tests[t]) * (unsigned)test_size <= SEATS &&
				groups_for(&tests[t]) >= 1 && groups_for(&tests[t]) <= GROUPS,
			"too many threads, or too few");
	make_regions();
	each = seconds * 1000000000u / (TESTS * PLACES * 2);
	for (turn = 0; turn < 2; turn++)
		for (t = 0; t < TESTS; t++)
			for (run.place = 0; run.place < PLACES; run.place++) {
				run.test = &tests[t];
				take_seats(&run, t * PLACES + run.place + turn * 977);
				run.round = round;
				MUST(dsm_barrier());
				run.until = test_ns() + each;
				test_threads(threads_for(run.test), play, &run);
				round += 1u << 24; /* beyond all rounds that were played */
			}
	MUST(dsm_barrier());
	REQUIRE(test_rank || verdict(), "see the table");
	return test_end();
}

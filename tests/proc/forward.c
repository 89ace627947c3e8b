// SPDX-License-Identifier: BSD-2-Clause
/*
 * forward.c - forward progress: all threads of all ranks continuously want the same block. Each
 * must get it repeatedly, in bounded time, with a share that is not too small. While the other
 * ranks have no processor to request a block or a lock, a node that uses it takes nothing from
 * them, so each stay at a node counts once per thread. A node that loses the block before its
 * threads have used it gets it as often as the others, but has few stays (--used).
 */
#include "common.h"

#include <sched.h>
#include <string.h>

#define MAX_THREADS 64

static uint64_t threads = 2, milliseconds = 1500, turns = 30, ratio = 200, used;
static struct hot {
	dsm_mutex_t mutex;
	uint64_t atomic, plain, turns;
	uint64_t stays; /* stays of the block, or the mutex, at a node */
	int at;         /* its last node + 1 */
} * hot;
static struct out {
	uint64_t done, count[1024 * MAX_THREADS], longest[1024];
	uint64_t got[1024]; /* times the block was got, to write it */
} * out;
static dsm_region_t *region;
static uint64_t until;
static uint64_t sum;

/* Count n increments of a thread, of which `share` count for its share. */
static void note(unsigned thread, uint64_t n, uint64_t share)
{
	out->count[(unsigned)test_rank * threads + thread] += share;
	__atomic_fetch_add(&sum, n, __ATOMIC_RELAXED);
}

/* Has the block been at another node since this thread last had it? With one node, always true. */
static bool is_new_stay(uint64_t *stay)
{
	uint64_t last = *stay;

	if (__atomic_load_n(&hot->at, __ATOMIC_RELAXED) != dsm_node() + 1 || dsm_nodes() == 1) {
		__atomic_store_n(&hot->at, dsm_node() + 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&hot->stays, 1, __ATOMIC_RELAXED);
	}
	*stay = load(&hot->stays);
	return *stay != last;
}

static void add_atomic(unsigned thread, void *arg)
{
	uint64_t n, shares = 0, stay = 0;

	(void)arg;
	for (n = 0; test_ns() < until; n++) {
		__atomic_fetch_add(&hot->atomic, 1, __ATOMIC_SEQ_CST);
		shares += is_new_stay(&stay);
	}
	note(thread, n, shares);
}

static void add_locked(unsigned thread, void *arg)
{
	uint64_t n, shares = 0, stay = 0;

	(void)arg;
	for (n = 0; test_ns() < until; n++) {
		MUST(dsm_mutex_lock(&hot->mutex));
		hot->plain++;
		shares += is_new_stay(&stay);
		MUST(dsm_mutex_unlock(&hot->mutex));
	}
	note(thread, n, shares);
}

/* A turn ends when another thread has had the block, so the block must move. */
static void take_turns(unsigned thread, void *arg)
{
	uint64_t i, start, took, seen;

	(void)arg;
	for (i = 0; i < turns; i++) {
		start = test_ns();
		seen = __atomic_add_fetch(&hot->turns, 1, __ATOMIC_SEQ_CST);
		took = test_ns() - start;
		if (took > out->longest[test_rank])
			out->longest[test_rank] = took;
		start = test_ns();
		while (load(&hot->turns) == seen && test_size > 1 && test_ns() - start < 2000000)
			sched_yield();
	}
	note(thread, turns, turns);
}

static uint64_t times_got(void)
{
	const struct dsm_stats s = test_stats(region);

	return s.write_faults + s.upgrades;
}

/*
 * A rank, which is a node, that has not used the block at least once of n times that it has got it;
 * -1: none.
 */
static int loser(uint64_t n)
{
	uint64_t i, stays;
	int r;

	for (r = 0; n && r < test_size; r++) {
		for (i = stays = 0; i < threads; i++)
			stays += out->count[(unsigned)r * threads + i];
		if (stays * n < out->got[r])
			return r;
	}
	return -1;
}

struct result {
	uint64_t all, shares, least, most, threads;
};

static struct result look(void)
{
	struct result r = { .all = sum, .least = ~0ul, .threads = threads * (uint64_t)test_size };
	uint64_t i;

	MUST(dsm_reduce(&r.all, DSM_UINT64, DSM_SUM));
	for (i = 0; i < r.threads; i++) {
		r.shares += out->count[i];
		r.least = out->count[i] < r.least ? out->count[i] : r.least;
		r.most = out->count[i] > r.most ? out->count[i] : r.most;
	}
	return r;
}

static bool is_fair(const struct result *r, uint64_t bound)
{
	return r->least && r->least * r->threads * bound >= r->shares;
}

/*
 * On a busy machine a thread may have no processor for most of a try. A thread that starves does so
 * in every try, however long it lasts.
 */
#define TRIES 4

static void part(const char *what, void (*fn)(unsigned, void *), const uint64_t *counter,
		 uint64_t bound, uint64_t n)
{
	const uint64_t before = times_got();
	struct result r;
	int tries = 0, lost;

	sum = 0;
	memset(&out->count[(uint64_t)test_rank * threads], 0, threads * sizeof(out->count[0]));
	do {
		MUST(dsm_barrier());
		until = test_ns() + (milliseconds << tries) * 1000000;
		test_threads((unsigned)threads, fn, NULL);
		out->got[test_rank] = times_got() - before;
		MUST(dsm_barrier());
		r = look();
	} while (!(is_fair(&r, bound) && loser(n) < 0) && ++tries < TRIES);
	REQUIRE(load(counter) == r.all, "%s: counted %lu, there are %lu", what, r.all,
		load(counter));
	test_say("  %-28s %9lu in all; for a thread count %lu to %lu", what, r.all, r.least,
		 r.most);
	REQUIRE(is_fair(&r, bound), "%s: for a thread count only %lu of %lu, by %lu threads", what,
		r.least, r.shares, r.threads);
	lost = loser(n);
	REQUIRE(lost < 0, "%s: rank %d got the block %lu times, and did not use it", what, lost,
		out->got[lost]);
	MUST(dsm_barrier());
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "threads", "N", "of each rank", &threads },
		{ "ms", "N", "milliseconds for each part", &milliseconds },
		{ "turns", "N", "increments of each thread in the last part", &turns },
		{ "ratio", "N", "a thread does at least the Nth part of its share", &ratio },
		{ "used", "N", "a rank uses the block at least once of N times that it gets it",
		  &used },
	};
	uint64_t start;

	test_start(argc, argv, "Nobody starves on a hot block.", options,
		   sizeof(options) / sizeof(options[0]));
	REQUIRE(threads && threads <= MAX_THREADS, "too many threads, or none");
	hot = test_open("hot", sizeof(*hot), DSM_HOME_CYCLIC, &region);
	out = test_outside(sizeof(*out));
	if (!test_rank)
		MUST(dsm_mutex_init(&hot->mutex));
	MUST(dsm_barrier());
	part("atomic increments", add_atomic, &hot->atomic, ratio, used);
	part("plain, under a mutex", add_locked, &hot->plain, ratio / 10 ? ratio / 10 : 1, 0);
	start = test_ns();
	part("turns", take_turns, &hot->turns, 1, 0);
	test_say("  turns took %.2f s", (double)(test_ns() - start) * 1e-9);
	REQUIRE(test_ns() - start < 60000000000u, "the turns took %lu s",
		(test_ns() - start) / 1000000000);
	return test_end();
}

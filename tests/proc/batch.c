// SPDX-License-Identifier: BSD-2-Clause
/*
 * batch.c - a node closes copies that it loses at one time together: requests for neighbouring
 * blocks arrive while the node's ranks are stopped, or the node leaves the region. The counter
 * protect_calls shows the number of calls.
 */
#include "common.h"

#include <signal.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / sizeof(uint64_t))

static uint64_t blocks = 64, rounds = 3;

static struct outside {
	uint64_t pid[64];
	uint64_t resting; /* holders that sleep outside the library */
	uint64_t done;    /* rank 0 has received its blocks */
} * outside;

static uint64_t *memory;
static int holder; /* first rank of the node that loses its copies */

static bool stopped(int pid)
{
	char path[64], line[256] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	REQUIRE(f && fgets(line, sizeof(line), f), "%s cannot be read", path);
	fclose(f);
	state = strrchr(line, ')');
	return state && state[2] == 'T';
}

static void stop_holders(void)
{
	int r;

	for (r = holder; r < test_size; r++)
		REQUIRE(!kill((pid_t)outside->pid[r], SIGSTOP), "rank %d cannot be stopped", r);
	for (r = holder; r < test_size; r++)
		while (!stopped((int)outside->pid[r]))
			test_nap(100000);
}

static void go_on(void)
{
	int r;

	for (r = holder; r < test_size; r++)
		REQUIRE(!kill((pid_t)outside->pid[r], SIGCONT), "rank %d cannot go on", r);
}

/* Counters of the holders' node. */
static void counted(uint64_t *closed, uint64_t *calls)
{
	int r;

	*closed = *calls = 0;
	for (r = holder; r < test_size; r++) {
		struct dsm_stats s;

		MUST(dsm_stats_get(r, NULL, &s));
		*closed += s.invalidations + s.downgrades;
		*calls += s.protect_calls;
	}
}

static void touch(uint64_t from, bool write)
{
	uint64_t i, sum = 0;

	for (i = 0; i < blocks; i++)
		if (write)
			store(&memory[i * WORDS], from + i);
		else
			sum += load(&memory[i * WORDS]);
	REQUIRE(write || sum == blocks * from + blocks * (blocks - 1) / 2, "sum %lu",
		(unsigned long)sum);
}

/*
 * Rank 0 requests all blocks while the holders are stopped. They sleep outside the library, so that
 * only their service threads handle messages.
 */
static void ask(enum dsm_access access)
{
	if (test_rank == 0) {
		while (see(&outside->resting) < (uint64_t)(test_size - holder))
			test_nap(100000);
		stop_holders();
		MUST(dsm_prefetch(memory, blocks * PAGE, access));
		go_on();
		MUST(dsm_acquire(memory, blocks * PAGE, access));
		add(&outside->done);
	} else if (test_rank >= holder) {
		add(&outside->resting);
	}
	while (!see(&outside->done))
		test_nap(1000000);
	test_sync();
}

/*
 * Rank 0 or the holder writes first; then the holder reads, or not; then rank 0 requests the
 * blocks.
 */
static void lose(const char *what, bool held, bool read, enum dsm_access access)
{
	uint64_t i, before[2], after[2];
	dsm_region_t *r;

	for (i = 1; i <= rounds; i++) {
		/* all ranks do, before the next barrier */
		outside->resting = outside->done = 0;
		/* rank 0 asks in order */
		memory = test_open(what, blocks * PAGE, DSM_HOME_FIXED, &r);
		if (test_rank == (held ? holder : 0))
			touch(i, true);
		test_sync();
		if (test_rank == holder && read)
			touch(i, false);
		test_sync();
		counted(&before[0], &before[1]);
		test_sync();
		ask(access);
		counted(&after[0], &after[1]);
		if (test_rank == 0)
			touch(i, false);
		test_say("%s: %lu copies, %lu calls", what, (unsigned long)(after[0] - before[0]),
			 (unsigned long)(after[1] - before[1]));
		REQUIRE(after[0] - before[0] == blocks, "%lu copies were lost",
			(unsigned long)(after[0] - before[0]));
		REQUIRE((after[1] - before[1]) * 2 < blocks, "%lu copies were closed by %lu calls",
			(unsigned long)blocks, (unsigned long)(after[1] - before[1]));
		test_close(what, r);
	}
}

static void part_drop(void)
{
	lose("drop", false, true, DSM_WRITE);
}

static void part_lower(void)
{
	lose("lower", true, false, DSM_READ);
}

static void part_take(void)
{
	lose("take", true, false, DSM_WRITE);
}

#define TRIES 100

/*
 * Rank 0 writes; the holder reads, or also writes; then its node leaves the region. The home
 * requests the contents at its own pace: on a busy host it may request blocks one by one, but not
 * each time.
 */
static void leave_with(const char *what, bool write)
{
	const uint64_t most = write ? blocks / 2 : 3;
	uint64_t i, before[2], after[2], last[2], until, least = blocks + 1;
	dsm_region_t *r;

	outside->done = 0; /* all ranks do, before the next barrier */
	for (i = 1; i <= rounds || (!outside->done && i <= TRIES); i++) {
		memory = test_open(what, blocks * PAGE, DSM_HOME_FIXED, &r);
		if (test_rank == 0)
			touch(i, true);
		test_sync();
		if (test_rank == holder)
			touch(i + write, write);
		test_sync();
		counted(&before[0], &before[1]);
		test_sync();
		if (test_rank >= holder)
			MUST(dsm_region_detach(r));
		test_sync();
		/* the home has the blocks; the thread that has sent them may still be counting */
		until = test_ns() + 1000000000;
		do {
			counted(&after[0], &after[1]);
			usleep(10000);
			counted(&last[0], &last[1]);
		} while ((after[1] == before[1] || last[1] != after[1]) && test_ns() < until);
		test_say("%s: %lu calls", what, (unsigned long)(after[1] - before[1]));
		if (after[1] - before[1] < least)
			least = after[1] - before[1];
		REQUIRE(least, "nothing was closed");
		if (test_rank == 0)
			outside->done = least <= most;
		if (test_rank == 0) {
			touch(i + write, false);
			MUST(dsm_region_destroy(what));
		}
		if (test_rank < holder)
			MUST(dsm_region_detach(r));
		test_sync();
	}
	REQUIRE(least <= most, "%lu copies were closed by %lu calls", (unsigned long)blocks,
		(unsigned long)least);
}

static void part_leave(void)
{
	leave_with("leave", false);
}

static void part_give_back(void)
{
	leave_with("give back", true);
}

static const struct test_part parts[] = {
	{ "invalidations", part_drop },
	{ "write permissions", part_lower },
	{ "only copies", part_take },
	{ "copies of who leaves", part_leave },
	{ "only copies of who leaves", part_give_back },
};

static const struct test_option options[] = {
	{ "blocks", "N", "neighbouring blocks", &blocks },
	{ "rounds", "N", "times each", &rounds },
};

int main(int argc, char **argv)
{
	test_start(argc, argv, "copies of neighbouring blocks that are lost together", options,
		   sizeof(options) / sizeof(options[0]));
	outside = test_outside(sizeof(*outside));
	holder = test_width() < test_size ? test_width() : 0;
	REQUIRE(holder && test_size <= 64, "two nodes are needed, of at most 64 ranks");
	outside->pid[test_rank] = (uint64_t)getpid();
	test_sync();
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}

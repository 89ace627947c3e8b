// SPDX-License-Identifier: BSD-2-Clause
/*
 * cost.c - what operations cost, by number of ranks: messages between ranks, and one-way trips one after the other
 * (time when every message takes one unit and all else takes none).
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#define COLUMNS 7

struct cost {
	uint64_t messages, hops;
};

static struct cost since(const struct sim *s, uint64_t messages, uint64_t at)
{
	return (struct cost){ s->st.total - messages, (s->now - at) / UNIT };
}

/* One access by thread 0 of a rank, until everything has calmed down. hops: until the access was done. */
static struct cost access_block(struct sim *s, uint16_t rank, uint8_t op)
{
	struct thread *t = sim_thread(s, rank, 0);
	uint64_t messages = s->st.total, at = s->now, before[MISSES], i;
	struct cost c;

	for (i = 0; i < MISSES; i++)
		before[i] = s->st.time[i];
	*t = (struct thread){ .op = op, .pc = PC_TRY, .left = 1 };
	thread_wake(s, rank, 0);
	sim_run(s);
	c = since(s, messages, at);
	for (c.hops = 0, i = 0; i < MISSES; i++)
		c.hops += (s->st.time[i] - before[i]) / UNIT;
	return c;
}

static struct cost barrier_episode(struct sim *s)
{
	uint64_t messages = s->st.total, at = s->now;
	uint16_t r;

	for (r = 0; r < s->o.ranks; r++) {
		*sim_thread(s, r, 0) = (struct thread){ .op = OP_BARRIER, .left = 1 };
		sync_call(s, r, 0);
	}
	sim_run(s);
	return since(s, messages, at);
}

static struct sim *fresh(unsigned int ranks, jmp_buf *failed)
{
	struct options o = { .ranks = ranks, .blocks = 1, .threads = 1, .ops = 1, .unit_delay = true, .seed = 1 };
	struct sim *s = sim_create(&o);

	s->failed = failed;
	return s;
}

/* The home of block 0 is rank 0. */
static void measure(unsigned int ranks, struct cost c[COLUMNS])
{
	uint16_t far = (uint16_t)(ranks - 1), other = ranks > 2 ? 1 : 0, r;
	jmp_buf failed;
	struct sim *s = fresh(ranks, &failed);

	if (setjmp(failed))
		exit(1); /* what was wrong has been said */
	c[0] = access_block(s, far, OP_READ);
	c[2] = access_block(s, other, OP_READ); /* the owner is another rank */
	c[3] = access_block(s, other, OP_WRITE);
	c[5] = access_block(s, 0, OP_READ); /* it migrates now */
	sim_destroy(s);
	s = fresh(ranks, &failed);
	access_block(s, 0, OP_WRITE);
	c[1] = access_block(s, far, OP_READ); /* the home is the owner */
	for (r = 0; r < far; r++)
		access_block(s, r, OP_READ);
	c[4] = access_block(s, far, OP_WRITE); /* everybody has a copy */
	c[6] = barrier_episode(s);
	sim_destroy(s);
}

int cost_table(void)
{
	static const char *const names[COLUMNS] = {
		"first read",     "read at home",   "read at third", "upgrade of 2",
		"upgrade of all", "read, migrates", "barrier",
	};
	struct cost c[COLUMNS];
	unsigned int n, i;

	printf("messages between ranks / one-way trips until the access is done (DONE is a message, but no trip)\n");
	printf("%6s", "ranks");
	for (i = 0; i < COLUMNS; i++)
		printf(" %14s", names[i]);
	for (n = 2; n <= WIRE_MAX_RANKS; n *= 2) {
		measure(n, c);
		printf("\n%6u", n);
		for (i = 0; i < COLUMNS; i++)
			printf(" %12llu/%llu", (unsigned long long)c[i].messages, (unsigned long long)c[i].hops);
	}
	printf("\n");
	return 0;
}

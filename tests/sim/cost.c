// SPDX-License-Identifier: BSD-2-Clause
/*
 * cost.c - the cost of operations by number of nodes: messages between nodes, and consecutive
 * one-way trips (each message takes one unit of time, everything else none), or microseconds over a
 * network (loggp.c).
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#define COLUMNS 11

struct cost {
	/* until the access completes; for barriers, until everything is idle */
	uint64_t messages, time;
};

static struct cost since(const struct sim *s, uint64_t messages, uint64_t at)
{
	return (struct cost){ s->st.total - messages, s->now - at };
}

/* Make one access in thread 0 of a node, and run until everything is idle. */
static struct cost access_block(struct sim *s, uint16_t node, uint8_t op)
{
	struct thread *t = sim_thread(s, node, 0);
	uint64_t messages = s->st.total, at = s->now, before[MISSES], i;
	struct cost c;

	for (i = 0; i < MISSES; i++)
		before[i] = s->st.time[i];
	*t = (struct thread){ .op = op, .pc = PC_TRY, .left = 1 };
	thread_wake(s, node, 0);
	sim_run(s);
	c = since(s, messages, at);
	for (c.time = 0, i = 0; i < MISSES; i++)
		c.time += s->st.time[i] - before[i];
	return c;
}

/* Lock and unlock the first object, a mutex whose home is node 0. */
static struct cost mutex(struct sim *s, uint16_t node)
{
	struct thread *t = sim_thread(s, node, 0);
	uint64_t messages = s->st.total, at = s->now;

	*t = (struct thread){ .op = OP_LOCK, .left = 1 };
	sync_lock(s, node, 0);
	sim_run(s);
	return since(s, messages, at);
}

/* All nodes but the home and the owner, node 1, read at once. time: until the last one has read. */
static struct cost read_at_once(struct sim *s)
{
	uint64_t messages, at;
	struct cost c = { 0 };
	uint16_t r;

	access_block(s, s->o.nodes > 1 ? 1 : 0, OP_WRITE);
	messages = s->st.total;
	at = s->now;
	for (r = 2; r < s->o.nodes; r++) {
		*sim_thread(s, r, 0) = (struct thread){ .op = OP_READ, .pc = PC_TRY, .left = 1 };
		thread_wake(s, r, 0);
	}
	sim_run(s);
	c = since(s, messages, at);
	c.time = s->st.latest - at;
	return s->o.nodes > 2 ? c : (struct cost){ 0 };
}

/*
 * Node 1 writes and node 2 reads, repeatedly. The home, which has initialised the block, does
 * neither. The cost of one write and one read.
 */
static struct cost write_and_read(struct sim *s, unsigned int times)
{
	struct cost w = { 0 }, r = { 0 };
	unsigned int i;

	if (s->o.nodes < 3)
		return w;
	access_block(s, 0, OP_WRITE);
	for (i = 0; i < times; i++) {
		w = access_block(s, 1, OP_WRITE);
		r = access_block(s, 2, OP_READ);
	}
	return (struct cost){ w.messages + r.messages, w.time + r.time };
}

static struct cost barrier_episode(struct sim *s)
{
	uint64_t messages = s->st.total, at = s->now;
	uint16_t r;

	for (r = 0; r < s->o.nodes; r++) {
		*sim_thread(s, r, 0) = (struct thread){ .op = OP_BARRIER, .left = 1 };
		sync_call(s, r, 0);
	}
	sim_run(s);
	return since(s, messages, at);
}

static struct sim *fresh(unsigned int nodes, const struct loggp *net, jmp_buf *failed)
{
	struct options o = { .nodes = nodes,
			     .blocks = 1,
			     .threads = 1,
			     .ops = 1,
			     .follow = DIR_FOLLOW,
			     .unit_delay = !net,
			     .net = net,
			     .seed = 1 };
	struct sim *s = sim_create(&o);

	s->failed = failed;
	return s;
}

/* The home of block 0 is node 0. */
static void measure(unsigned int nodes, const struct loggp *net, struct cost c[COLUMNS])
{
	uint16_t far = (uint16_t)(nodes - 1), other = nodes > 2 ? 1 : 0, r;
	jmp_buf failed;
	struct sim *s = fresh(nodes, net, &failed);

	if (setjmp(failed))
		exit(1); /* the error is printed already */
	c[0] = access_block(s, far, OP_READ);
	c[2] = access_block(s, other, OP_READ); /* the owner is another node */
	c[3] = access_block(s, other, OP_WRITE);
	c[5] = access_block(s, 0, OP_READ); /* the block migrates now */
	sim_destroy(s);
	s = fresh(nodes, net, &failed);
	access_block(s, 0, OP_WRITE);
	c[1] = access_block(s, far, OP_READ); /* the home is the owner */
	for (r = 0; r < far; r++)
		access_block(s, r, OP_READ);
	c[4] = access_block(s, far, OP_WRITE); /* every node has a copy */
	c[6] = barrier_episode(s);
	c[7] = mutex(s, far);
	sim_destroy(s);
	s = fresh(nodes, net, &failed);
	c[8] = read_at_once(s);
	sim_destroy(s);
	s = fresh(nodes, net, &failed);
	c[9] = write_and_read(s, DIR_FOLLOW);
	sim_destroy(s);
	s = fresh(nodes, net, &failed);
	c[10] = write_and_read(s, DIR_FOLLOW + 3);
	sim_destroy(s);
}

int cost_table(const struct loggp *net)
{
	static const char *const names[COLUMNS] = {
		"first read",       "read at home",     "read at third",   "upgrade of 2",
		"upgrade of all",   "read, migrates",   "barrier",         "lock, unlock",
		"all read at once", "written and read", "at its new home",
	};
	struct cost c[COLUMNS];
	unsigned int n, i;

	printf("messages between nodes / %s until the access is done (DONE is a message, but no trip)\n",
	       net ? "microseconds" : "one-way trips");
	printf("%6s", "nodes");
	for (i = 0; i < COLUMNS; i++)
		printf(" %16s", names[i]);
	for (n = 2; n <= WIRE_MAX_NODES; n *= 2) {
		measure(n, net, c);
		printf("\n%6u", n);
		for (i = 0; i < COLUMNS; i++)
			printf(" %8llu/%-5.*f", (unsigned long long)c[i].messages, net ? 1 : 0,
			       (double)c[i].time / (net ? TICKS_PER_US : UNIT));
	}
	printf("\n");
	return 0;
}

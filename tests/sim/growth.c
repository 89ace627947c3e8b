// SPDX-License-Identifier: BSD-2-Clause
/*
 * growth.c - messages of closes of release blocks (core/closing.h), by number of nodes: at most a
 * FLUSH for each home of a changed block, and a NOTE for each registered node. With more than 64
 * nodes a bit of the copyset stands for several, and all of them count as registered. Each has one
 * answer.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#define HOMES 16u

struct closed {
	uint64_t flushes, notes, answers;
};

static struct closed counted(const struct sim *s)
{
	return (struct closed){ s->st.messages[MSG_FLUSH], s->st.messages[MSG_NOTE],
				s->st.messages[MSG_FLUSHED] + s->st.messages[MSG_NOTED] };
}

static struct closed since(const struct sim *s, struct closed before)
{
	struct closed now = counted(s);

	return (struct closed){ now.flushes - before.flushes, now.notes - before.notes,
				now.answers - before.answers };
}

static jmp_buf failed;

static struct sim *fresh(unsigned int nodes, unsigned int blocks)
{
	struct options o = { .nodes = nodes,
			     .blocks = 1,
			     .release = blocks,
			     .threads = 1,
			     .ops = 1,
			     .mixed = true,
			     .unit_delay = true,
			     .seed = 1 };
	struct sim *s = sim_create(&o);

	s->failed = &failed;
	return s;
}

/* Thread 0 of a node accesses byte `byte` of release block `b`. */
static void access_byte(struct sim *s, unsigned int node, unsigned int b, unsigned int byte,
			bool store)
{
	struct thread *t = sim_thread(s, (uint16_t)node, 0);

	*t = (struct thread){ .op = store ? OP_STORE : OP_LOAD,
			      .pc = PC_TRY,
			      .touches = 1,
			      .rstore = store,
			      .rblock = s->o.blocks + b,
			      .rbyte = (uint8_t)byte,
			      .left = 1 };
	release_told(s, (uint16_t)node, 0);
	thread_wake(s, (uint16_t)node, 0);
	sim_run(s);
	if (t->touches)
		sim_fail(s, t->rblock, "node %u has not accessed block %u", node, b);
}

static struct closed close_node(struct sim *s, unsigned int node)
{
	struct closed before = counted(s);

	release_close(s, (uint16_t)node);
	sim_run(s);
	return since(s, before);
}

/* Node 0 changes a block of each of the other homes, of which only it has copies. */
static bool many_homes(unsigned int nodes, struct closed *c)
{
	const unsigned int homes = nodes - 1 < HOMES ? nodes - 1 : HOMES;
	struct sim *s = fresh(nodes, homes + 1);
	unsigned int i;

	for (i = 1; i <= homes; i++)
		access_byte(s, 0, i, 0, true);
	*c = close_node(s, 0);
	sim_destroy(s);
	return c->flushes == homes && (nodes > 64 || !c->notes) &&
		c->notes <= (uint64_t)homes * set_granule((uint16_t)nodes) &&
		c->answers == c->flushes + c->notes;
}

/* All nodes have read a block. Then its home, node 0, or another node changes it. */
static bool many_readers(unsigned int nodes, unsigned int writer, struct closed *c)
{
	const unsigned int others = nodes - (writer ? 2 : 1);
	struct sim *s = fresh(nodes, 1);
	unsigned int i;

	for (i = 1; i < nodes; i++)
		access_byte(s, i, 0, 0, false);
	access_byte(s, writer, 0, 1, true);
	*c = close_node(s, writer);
	sim_destroy(s);
	return c->flushes == !!writer && c->notes == others && c->answers == c->flushes + c->notes;
}

/* All nodes change a block, and close one after the other: each NOTE unregisters its receiver. */
static bool all_write(unsigned int nodes, struct closed *c)
{
	const uint64_t granule = set_granule((uint16_t)nodes);
	struct sim *s = fresh(nodes, 1);
	struct closed before;
	unsigned int i;

	for (i = 1; i < nodes; i++)
		access_byte(s, i, 0, i % RELEASE_BYTES, true);
	before = counted(s);
	for (i = 1; i < nodes; i++)
		close_node(s, i);
	*c = since(s, before);
	sim_destroy(s);
	return c->flushes == nodes - 1 && c->notes <= (uint64_t)(nodes - 1) * granule &&
		c->answers == c->flushes + c->notes;
}

/* The only node that uses a block is its home. */
static bool alone(unsigned int nodes, struct closed *c)
{
	struct sim *s = fresh(nodes, 1);

	access_byte(s, 0, 0, 0, true);
	*c = close_node(s, 0);
	sim_destroy(s);
	return !c->flushes && !c->notes && !c->answers;
}

static bool print_row(unsigned int nodes)
{
	struct closed c[5];
	unsigned int i;
	bool right = many_homes(nodes, &c[0]);

	right &= many_readers(nodes, 0, &c[1]);
	right &= many_readers(nodes, 1, &c[2]);
	right &= all_write(nodes, &c[3]);
	right &= alone(nodes, &c[4]);
	printf("%6u", nodes);
	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		printf(" %9llu/%-9llu", (unsigned long long)c[i].flushes,
		       (unsigned long long)c[i].notes);
	printf("%s\n", right ? "" : " FAILED: more than the homes and the registered nodes");
	return right;
}

static int print_rows(void)
{
	unsigned int n, bad = 0;

	for (n = 2; n <= WIRE_MAX_NODES; n *= 2)
		bad += !print_row(n);
	return bad > 0;
}

int growth_table(void)
{
	printf("FLUSH/NOTE of a close; each has an answer\n%6s %19s %19s %19s %19s %19s\n", "nodes",
	       "16 homes", "home, all read", "other, all read", "all write", "alone");
	if (setjmp(failed))
		return 1; /* the error is printed already */
	return print_rows();
}

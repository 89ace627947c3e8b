// SPDX-License-Identifier: BSD-2-Clause
/*
 * chunk.c - see chunk.h.
 *
 * Chunks are in a ring in node memory. The thread that completes a chunk (by adding the last part,
 * or by handling the last message) sends it on, so chunks follow each other down the tree without
 * waiting for a thread at each node. The lock of a chunk is a leaf; nothing that may fault is
 * touched with it held.
 */
#include "calls/chunk.h"

#include <string.h>

#include "calls/payload.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/note.h"
#include "miss/reduce.h"
#include "miss/release.h"
#include "miss/sharing.h"
#include "miss/wait.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"

#define FANOUT 2 /* a node sends through one link: with more children they would take turns */

struct tree {
	uint16_t parent; /* SET_NOBODY: this node is the root */
	uint16_t n, child[FANOUT];
};

static struct chunk *chunk_at(uint64_t number)
{
	return &job.me->chunks[number % CTL_CHUNKS];
}

/* Nodes by their distance from the root, numbered as in a heap. */
static struct tree tree_of(uint16_t root)
{
	const uint32_t n = job.nodes, at = (job.node + n - root) % n;
	struct tree t = { .parent = SET_NOBODY };
	uint32_t c;

	if (at)
		t.parent = (uint16_t)(((at - 1) / FANOUT + root) % n);
	for (c = at * FANOUT + 1; c <= at * FANOUT + FANOUT && c < n; c++)
		t.child[t.n++] = (uint16_t)((c + root) % n);
	return t;
}

static void send(const struct msg *like, uint16_t dst, bool down, const void *data, size_t size)
{
	struct msg m = *like;

	m.src = m.req_node = job.node;
	m.dst = dst;
	m.op = down;
	count(&job.mine->stats.messages_out, 1);
	count(&job.mine->sync_out, 1);
	if (job.netops->send(job.net, job.pair[dst], &m, data, size))
		lost_rank(job.pair[dst], "it cannot be reached");
}

/* A message that names a chunk. */
static struct msg about_chunk(uint64_t number, uint16_t root, uint8_t code)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = MSG_CHUNK,
			     .home = root,
			     .aux = code,
			     .value = number };
}

/*
 * May a chunk with this number take the place now? Every node completes every number, and sends
 * none before the last chunk in its place has been sent. -ESTALE: it is complete already. Another
 * node may have lied, and the sender only forwarded it. -EBADMSG: the sender itself cannot have got
 * to that number.
 */
static int check_number(const struct chunk *c, uint64_t number)
{
	const uint64_t done = __atomic_load_n(&c->done, __ATOMIC_RELAXED);

	if (done == number + 1)
		return -ESTALE;
	return done == (number < CTL_CHUNKS ? 0 : number + 1 - CTL_CHUNKS) ? 0 : -EBADMSG;
}

static void complete(struct chunk *c, uint64_t number)
{
	__atomic_store_n(&c->done, number + 1, __ATOMIC_RELEASE);
}

/* The chunk is complete: wake this node's ranks, and send it to the child nodes. */
static void chunk_publish(const struct tree *t, const struct msg *m, struct chunk *c, size_t size)
{
	uint16_t i;

	__atomic_fetch_add(&c->word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->sleepers, __ATOMIC_SEQ_CST))
		futex_wake(&c->word, 1 << 30);
	for (i = 0; i < t->n; i++)
		send(m, t->child[i], true, c->data, size);
}

/* Are the parts of this node and of all its children added? */
static bool has_all(const struct tree *t, const struct chunk *c)
{
	return c->parts == job.locals && c->came == (1u << t->n) - 1;
}

/* With the lock held, add a part of a rank of this node (child: FANOUT) or of a child. */
static void chunk_combine(struct chunk *c, const struct msg *m, unsigned int child,
			  const void *data, size_t size)
{
	if (c->begun != m->value + 1) {
		c->begun = m->value + 1;
		c->parts = c->came = 0;
	}
	if (c->parts || c->came)
		reduce_into((uint8_t)m->aux, c->data, data, size);
	else
		memcpy(c->data, data, size);
	c->parts += child == FANOUT;
	c->came |= child < FANOUT ? 1u << child : 0;
}

/*
 * -EBADMSG: the child's part was added before, or its number is impossible; -ESTALE: another node
 * may be the cause.
 */
static int chunk_add_child(const struct tree *t, const struct msg *m, unsigned int child,
			   const void *data, size_t size)
{
	struct chunk *c = chunk_at(m->value);
	const bool root = t->parent == SET_NOBODY;
	bool all = false;
	int err = 0;

	word_lock(&c->lock);
	if (child < FANOUT)
		err = c->begun == m->value + 1 && (c->came >> child & 1)
			? -EBADMSG
			: check_number(c, m->value);
	if (!err) {
		chunk_combine(c, m, child, data, size);
		all = has_all(t, c);
	}
	if (all && root)
		complete(c, m->value);
	word_unlock(&c->lock);
	/* Nothing more is added to it, so it can be read without the lock. */
	if (all && root)
		chunk_publish(t, m, c, size);
	else if (all)
		send(m, t->parent, false, c->data, size);
	return err;
}

/*
 * A result from the parent. If ranks of this node have parts in it, those and the children's parts
 * must come first.
 */
static int chunk_take(const struct tree *t, const struct msg *m, const void *data, size_t size)
{
	struct chunk *c = chunk_at(m->value);
	int err;

	word_lock(&c->lock);
	err = check_number(c, m->value);
	if (!err && c->begun == m->value + 1 && c->parts && (m->home || !has_all(t, c)))
		err = -ESTALE;
	if (!err) {
		memcpy(c->data, data, size);
		complete(c, m->value);
	}
	word_unlock(&c->lock);
	if (!err)
		chunk_publish(t, m, c, size);
	return err;
}

void chunk_send(uint64_t number, const void *data, size_t size)
{
	const struct msg m = about_chunk(number, job.node, 0);
	const struct tree t = tree_of(job.node);
	struct chunk *c = chunk_at(number);

	memcpy(c->data, data, size);
	complete(c, number);
	chunk_publish(&t, &m, c, size);
	HOOK(chunk_sent);
}

void chunk_add(uint64_t number, uint8_t code, const void *data, size_t size)
{
	const struct msg m = about_chunk(number, 0, code);
	const struct tree t = tree_of(0);

	chunk_add_child(&t, &m, FANOUT, data, size);
	HOOK(chunk_sent);
}

const void *chunk_wait(uint64_t number)
{
	struct chunk *c = chunk_at(number);

	for (;;) {
		uint32_t word = __atomic_load_n(&c->word, __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) == number + 1) {
			HOOK(chunk_came);
			sharing_acquired();
			release_acquire();
			return c->data;
		}
		note_about(ABOUT_BARRIER, 0, 0);
		wait_about.threads = 1;
		wait_word(&c->word, word, &c->sleepers);
		about_none();
	}
}

int chunk_arrived(const struct msg *m, const void *payload, size_t size)
{
	char aligned[CTL_CHUNK_BYTES] __attribute__((aligned(16)));
	const struct tree t = tree_of(m->home);
	unsigned int child;

	/* Only the first node gets parts; any node gets results. */
	if (payload_chunk(!m->op, (uint8_t)m->aux, size) || (!m->op && m->home))
		return -EBADMSG;
	if (m->op)
		return m->src == t.parent ? chunk_take(&t, m, payload, size) : -EBADMSG;
	for (child = 0; child < t.n && t.child[child] != m->src; child++)
		;
	if (child == t.n)
		return -EBADMSG;
	/* Values in a transport's buffer may be unaligned. */
	memcpy(aligned, payload, size);
	return chunk_add_child(&t, m, child, aligned, size);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * barriers.c - see barriers.h. Checked: no thread leaves an episode before all have arrived; all
 * leave it with the sum of all values, or all with -EINVAL; every episode ends. A thread with the
 * handle of a destroyed barrier is refused, or leaves with -EINVAL, and affects no other thread.
 */
#include "worlds.h"

#include "channel.h"
#include "core/dispatch.h"
#include "core/set.h"

#define NODES 4
#define LOCALS 2
#define THREADS 4
#define OLD 0x12fffe /* generation of the old barrier; the next one is that of the new barrier */

struct thread {
	uint8_t inside; /* the thread has arrived */
	uint8_t awake;
	uint8_t episode;
	uint8_t gen;
	uint8_t old; /* the thread has the old handle */
};

struct world {
	struct bar bars[NODES];
	struct bar_part parts[NODES][LOCALS]; /* one per rank, if a node has several */
	struct thread threads[NODES][THREADS];
	struct chan chan;
};

enum event { EV_ARRIVE = 1, EV_LEAVE, EV_MSG };

static uint32_t event(enum event e, unsigned int a, unsigned int b)
{
	return (uint32_t)e << 16 | a << 8 | b;
}

/*
 * Ranks and objects as they are numbered in the job. Values are large, and their sums the largest
 * possible.
 */
static struct chan_names names(const struct bar_cfg *cfg)
{
	return (struct chan_names){ .rank = WIRE_MAX_NODES - NODES,
				    .ranks = cfg->nnodes,
				    .slot = OLD & 0xffff,
				    .slots = 2,
				    .home = OLD >> 16,
				    .homes = 1,
				    .object = 0x456789ab,
				    .objects = 1,
				    .value = 0x0123456701234567ull };
}

/* Each episode has a different operation; its values must be combined by that one only. */
enum { SUM = 1, MAX, OPS_END };

static uint8_t op_of(unsigned int episode)
{
	return (uint8_t)(SUM + episode % (OPS_END - SUM));
}

static uint64_t combine(uint8_t op, uint64_t a, uint64_t b)
{
	if (op != SUM && op != MAX)
		model_fail("values are reduced by operation %u", op);
	return op == SUM ? a + b : a > b ? a : b;
}

static struct bar_tree tree(const struct bar_cfg *cfg, unsigned int rank, bool old)
{
	const uint8_t *parent = old ? cfg->was : cfg->parent;
	struct chan_names n = names(cfg);
	struct bar_tree t = { .parent = rank ? (uint16_t)(n.rank + parent[rank]) : SET_NOBODY };
	unsigned int r;

	for (r = 1; r < cfg->nnodes; r++)
		if (parent[r] == rank && (!cfg->members[old] || cfg->members[old] >> r & 1))
			t.child[t.nchildren++] = (uint16_t)(n.rank + r);
	return t;
}

static unsigned int episodes_of(const struct bar_cfg *cfg, unsigned int r, unsigned int t)
{
	return cfg->old[r][t] == BAR_OLD ? 1 : cfg->episodes;
}

/* A thread with the old handle gets an error. */
static struct thread told(const struct bar_cfg *cfg, unsigned int r, unsigned int t)
{
	return (struct thread){ .episode = cfg->old[r][t] == BAR_OLD };
}

static void start(const void *c, void *world)
{
	const struct bar_cfg *cfg = c;
	struct world *w = world;
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->threads[r]; t++)
			w->threads[r][t].old = cfg->old[r][t] != 0;
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct bar_cfg *cfg = c;
	const struct world *w = world;
	unsigned int n = 0, r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->threads[r]; t++) {
			const struct thread *th = &w->threads[r][t];

			if (!th->inside && th->episode < episodes_of(cfg, r, t))
				events[n++] = event(EV_ARRIVE, r, t);
			if (th->inside && (uint8_t)w->bars[r].gen != th->gen)
				events[n++] = event(EV_LEAVE, r, t);
		}
	for (r = 0; r < w->chan.n; r++)
		if (chan_next(&w->chan, r, cfg->fifo))
			events[n++] = event(EV_MSG, r, 0);
	return n;
}

/*
 * False: the thread's handle is of the destroyed barrier. The mask identifies the tree: 1 the new
 * one, 2 the old one.
 */
static bool step(const struct bar_cfg *cfg, struct world *w, unsigned int node,
		 struct bar_part *part, const struct wmsg *m)
{
	struct chan_names n = names(cfg);
	const bool own = m->src == node,
		   old = own ? cfg->remade && !m->req_slot : w->bars[node].mask == 2;
	const struct bar_tree t = tree(cfg, node, old);
	const struct bar_group group = { .mask = old ? 2 : 1, .locals = cfg->locals };
	const struct msg wide = chan_widen(&n, m);
	const struct dispatch at = { .me = wide.dst,
				     .nnodes = WIRE_MAX_NODES,
				     .bar = &w->bars[node],
				     .part = part,
				     .tree = &t,
				     .group = own ? &group : NULL,
				     .combine = combine };
	struct actions out;
	unsigned int i;
	int err = dispatch_step(&at, &wide, &out);

	if (err == -ESTALE && own && old)
		return false;
	if (err) {
		model_fail("node %u does not expect %s of %u", node, wire_name(m->type), m->src);
		return true;
	}
	for (i = 0; i < out.n; i++) {
		struct wmsg o;

		if (out.v[i].type == ACT_SEND) {
			o = chan_narrow(&n, &out.v[i].msg);
			chan_post(&w->chan, &o);
		} else if (out.v[i].type != ACT_WAKE_ALL) {
			model_fail("action %u", out.v[i].type);
		}
	}
	return true;
}

static void arrive(const struct bar_cfg *cfg, struct world *w, unsigned int r, unsigned int t)
{
	struct thread *th = &w->threads[r][t];
	struct bar_part *part = cfg->locals > 1 ? &w->parts[r][t % cfg->locals] : NULL;
	struct wmsg m = { .type = MSG_ARRIVE,
			  .op = op_of(th->episode),
			  .src = (uint8_t)r,
			  .dst = (uint8_t)r,
			  .req_node = (uint8_t)r,
			  .req_slot = (uint8_t)(cfg->remade && !th->old),
			  .home = 1,
			  .value = (uint8_t)(1 + r * THREADS + t + 3u * th->episode),
			  .data = cfg->says[r][t] };

	if (step(cfg, w, r, part, &m)) {
		th->inside = 1;
		th->gen = (uint8_t)(part ? part : &w->bars[r].part)->gen;
	} else {
		*th = told(cfg, r, t);
	}
}

static uint64_t value_of(const struct bar_cfg *cfg, unsigned int r, unsigned int t,
			 unsigned int episode)
{
	return names(cfg).value * (1 + r * THREADS + t + 3 * episode);
}

/* All threads must have arrived, and the result must contain their values. */
static void leave(const struct bar_cfg *cfg, struct world *w, unsigned int r, unsigned int t)
{
	struct thread *th = &w->threads[r][t];
	const uint32_t life = OLD + (cfg->remade && !th->old);
	uint64_t expected = 0, result = 0;
	unsigned int i, k;
	int status = bar_ended(&w->bars[r], life, &result);

	if (th->old) {
		if (status != -EINVAL)
			model_fail("thread %u.%u leaves a barrier that is no more, with status %d",
				   r, t, status);
		*th = told(cfg, r, t);
		return;
	}
	for (i = 0; i < cfg->nnodes; i++)
		for (k = 0; k < cfg->threads[i]; k++) {
			const struct thread *o = &w->threads[i][k];

			if (cfg->old[i][k] == BAR_OLD)
				continue;
			expected = combine(op_of(th->episode), expected,
					   value_of(cfg, i, k, th->episode));
			if (o->old || o->episode < th->episode ||
			    (o->episode == th->episode && !o->inside))
				model_fail("thread %u.%u leaves before %u.%u has come", r, t, i, k);
		}
	if (status != (cfg->spoiled ? -EINVAL : 0))
		model_fail("thread %u.%u leaves with status %d", r, t, status);
	if (!cfg->spoiled && result != expected)
		model_fail("thread %u.%u leaves with %llu instead of %llu", r, t,
			   (unsigned long long)result, (unsigned long long)expected);
	*th = (struct thread){ .episode = (uint8_t)(th->episode + 1) };
}

static void fire(const void *c, void *world, uint32_t ev)
{
	unsigned int a = ev >> 8 & 0xff, b = ev & 0xff;
	const struct bar_cfg *cfg = c;
	struct world *w = world;
	struct wmsg m;

	if (ev >> 16 == EV_MSG) {
		m = chan_take(&w->chan, a);
		step(cfg, w, m.dst, NULL, &m);
		return;
	}
	model_say("thread %u.%u %s\n", a, b, ev >> 16 == EV_ARRIVE ? "arrives" : "leaves");
	if (ev >> 16 == EV_ARRIVE)
		arrive(cfg, w, a, b);
	else
		leave(cfg, w, a, b);
}

static void canon(const void *c, void *world)
{
	const struct bar_cfg *cfg = c;
	struct world *w = world;
	unsigned int r, i;

	chan_canon(&w->chan, cfg->fifo);
	for (r = 0; r < cfg->nnodes; r++) {
		if (!w->bars[r].any)
			w->bars[r].acc = w->bars[r].expect = 0;
		if (w->bars[r].part.gen != w->bars[r].gen)
			w->bars[r].part = (struct bar_part){ 0 };
		for (i = 0; i < LOCALS; i++)
			if (w->parts[r][i].gen != w->bars[r].gen)
				w->parts[r][i] = (struct bar_part){ 0 };
	}
}

static void check(const void *c, const void *world)
{
	(void)c;
	(void)world;
}

static bool final(const void *c, const void *world)
{
	const struct bar_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->threads[r]; t++)
			if (w->threads[r][t].episode < episodes_of(cfg, r, t))
				return false;
	return !w->chan.n;
}

static void show(const void *c, const void *world)
{
	const struct bar_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++) {
		const struct bar *b = &w->bars[r];

		model_say(
			"    node %u: generation %#x, episode %u, %u of %u threads, %u children, %u early, up %u, status %d\n",
			r, b->life, b->gen, b->arrived, b->threads, b->children, b->earlies, b->up,
			b->status);
		for (t = 0; t < cfg->threads[r]; t++)
			model_say("    thread %u.%u: episode %u %s\n", r, t,
				  w->threads[r][t].episode,
				  w->threads[r][t].inside ? "inside" : "outside");
	}
}

const struct model bar_model = MODEL(struct world);

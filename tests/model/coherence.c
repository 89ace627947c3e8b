// SPDX-License-Identifier: BSD-2-Clause
/*
 * coherence.c - the possible events in a world of pages and directories: threads, channels, delayed
 * actions, timers.
 */
#include "coherence.h"

enum event {
	EV_OP = 1,
	EV_TRY,
	EV_FAULT,
	EV_AGAIN,
	EV_USED,
	EV_UNPIN,
	EV_ASYNC_USED,
	EV_MSG,
	EV_LIST,
	EV_TIMER,
	EV_PUSH
};

/* clang-format off */
static const char *const op_names[OPS] = {
	"read",        "write",        "prefetch to read", "prefetch to write",
	"pin to read", "pin to write", "release, keep",    "release, evict",
	"drop",        "place",
};
/* clang-format on */

static uint32_t event(enum event e, unsigned int a, unsigned int b, unsigned int c)
{
	return (uint32_t)e << 24 | a << 16 | b << 8 | c;
}

static bool for_writing(uint8_t op)
{
	return op == OP_WRITE || op == OP_PIN_W || op == OP_PREFETCH_W;
}

static void finish(struct thread *t)
{
	t->pc = PC_READY;
	t->op = t->block = t->where = 0;
	t->left--;
}

static void written(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block)
{
	unsigned int r, i;

	w->written[block] = 1;
	for (r = 0; r < cfg->nnodes; r++)
		w->latest[r][block] = r == rank;
	for (i = 0; i < w->chan.n; i++)
		if (w->chan.v[i].object == block)
			w->chan.v[i].data = 0;
	for (i = 0; i < w->nlists; i++)
		if (w->lists[i].block == block)
			w->lists[i].data = 0;
}

static void access(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block,
		   bool write)
{
	if (!w->latest[rank][block])
		model_fail("rank %u %s block %u, but does not have the latest value", rank,
			   write ? "writes" : "reads", block);
	model_say("      rank %u %s block %u\n", rank, write ? "writes" : "reads", block);
	if (write)
		written(cfg, w, rank, block);
}

/* If the thread has access, it accesses; otherwise it requests the block. */
static void attempt(const struct co_cfg *cfg, struct co *w, unsigned int r, unsigned int n)
{
	struct thread *t = &w->threads[r][n];
	bool write = for_writing(t->op);

	if (t->op == OP_PIN_R || t->op == OP_PIN_W) {
		if (!page_pin(&w->pages[r][t->block], write ? 2 : 1)) {
			t->pc = PC_PINNED;
			return;
		}
	} else if (w->hw[r][t->block] >= (write ? PROT_RW : PROT_RO)) {
		access(cfg, w, r, t->block, write);
		finish(t);
		return;
	}
	t->pc = PC_FAULT;
	if (!cfg->stale)
		co_local(cfg, w, r, t->block, write ? PE_WRITE : PE_READ, (int)n);
}

static void release(const struct co_cfg *cfg, struct co *w, unsigned int r, unsigned int block,
		    uint8_t op)
{
	const struct copy *p = &w->pages[r][block];
	struct wmsg m = { .type = MSG_RELEASE,
			  .op = op,
			  .src = (uint8_t)r,
			  .object = (uint8_t)block,
			  .req_node = (uint8_t)r };

	if (!p->home || !page_readable(p))
		return;
	m.dst = (uint8_t)(p->home - 1 - co_rank(cfg, 0));
	chan_post(&w->chan, &m);
}

/*
 * Ask the manager; then, if the block has been touched, the chosen rank until it is the home. In
 * between, ask the home of this rank's only copy.
 */
static void place(const struct co_cfg *cfg, struct co *w, unsigned int r, unsigned int n)
{
	struct thread *t = &w->threads[r][n];
	struct wmsg m = { .type = t->owns   ? MSG_CLAIM
				  : t->busy ? MSG_SETTLE
					    : MSG_PLACE,
			  .src = (uint8_t)r,
			  .dst = t->owns    ? (uint8_t)(t->owns - 1)
				  : t->busy ? t->where
					    : cfg->manager[t->block],
			  .object = t->block,
			  .req_node = (uint8_t)r,
			  .req_slot = (uint8_t)n,
			  .value = t->busy && !t->owns ? 0 : t->where };

	w->slot[r][n] = SLOT_PENDING;
	t->pc = PC_REPLY;
	t->busy = t->owns = 0;
	chan_post(&w->chan, &m);
}

static void start_op(const struct co_cfg *cfg, struct co *w, unsigned int r, unsigned int n,
		     uint8_t op, uint8_t block, uint8_t where)
{
	struct thread *t = &w->threads[r][n];

	t->op = op;
	t->block = block;
	switch ((enum op)op) {
	case OP_PREFETCH_R:
	case OP_PREFETCH_W:
		co_local(cfg, w, r, block, op == OP_PREFETCH_W ? PE_WRITE : PE_READ, WHO_ASYNC);
		finish(t);
		break;
	case OP_KEEP:
	case OP_EVICT:
		release(cfg, w, r, block, op == OP_EVICT ? RELEASE_EVICT : RELEASE_KEEP);
		finish(t);
		break;
	case OP_DROP:
		co_local(cfg, w, r, block, PE_DROP, WHO_HANDLER);
		finish(t);
		break;
	case OP_PLACE:
		t->where = where;
		place(cfg, w, r, n);
		break;
	default: attempt(cfg, w, r, n); break;
	}
}

/* Have all threads reached their last operation? */
static bool all_last(const struct co_cfg *cfg, const struct co *w)
{
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].left > 1)
				return false;
	return true;
}

/* With `meet`: has every pinning thread reached its pin? */
static bool all_pinned(const struct co_cfg *cfg, const struct co *w)
{
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].left && w->threads[r][t].pc != PC_PINNED)
				return false;
	return true;
}

static bool can_start(const struct co_cfg *cfg, const struct co *w, unsigned int r, unsigned int n,
		      unsigned int op, unsigned int b)
{
	const bool last = w->threads[r][n].left == 1;

	if (!(cfg->kinds[r] >> op & 1))
		return false;
	if (cfg->meet && (last ? op != OP_PIN_R || !all_last(cfg, w) : op == OP_PIN_R))
		return false;
	if (op == OP_DROP && !cfg->early_drop && co_leaves(w, r, b))
		return false;
	return (op != OP_PREFETCH_R && op != OP_PREFETCH_W) ||
		w->slot[r][cfg->nthreads] == SLOT_IDLE;
}

static unsigned int list_thread(const struct co_cfg *cfg, const struct co *w, unsigned int r,
				unsigned int n, uint32_t *events)
{
	const struct thread *t = &w->threads[r][n];
	unsigned int count = 0, op, b, where;

	switch ((enum pc)t->pc) {
	case PC_READY:
		for (op = 0; op < OPS && t->left; op++)
			for (b = 0; b < cfg->nblocks; b++)
				/* One rank too many: the job does not have it. */
				for (where = 0; can_start(cfg, w, r, n, op, b) &&
				     where <= (op == OP_PLACE ? cfg->nnodes : 0u);
				     where++)
					if (op != OP_PLACE || !cfg->places ||
					    cfg->places >> where & 1)
						events[count++] = event(EV_OP, r << 4 | n, op,
									where << 4 | b);
		return count;
	case PC_WAIT:
	case PC_REPLY:
		if (w->slot[r][n] != SLOT_WOKEN)
			return 0;
		events[0] = event(EV_USED, r << 4 | n, 0, 0);
		return 1;
	case PC_JOIN: return 0;
	case PC_TRY: events[0] = event(EV_TRY, r << 4 | n, 0, 0); return 1;
	case PC_FAULT: events[0] = event(EV_FAULT, r << 4 | n, 0, 0); return 1;
	case PC_AGAIN: events[0] = event(EV_AGAIN, r << 4 | n, 0, 0); return 1;
	case PC_PINNED:
		events[0] = event(EV_UNPIN, r << 4 | n, 0, 0);
		return !cfg->meet || all_pinned(cfg, w);
	}
	return 0;
}

static bool takes_away(const struct wmsg *m)
{
	return m->type == MSG_INV || m->type == MSG_FWD_READ || m->type == MSG_FWD_WRITE ||
		m->type == MSG_FWD_MIGRATE;
}

static bool samples(const struct co *w, const struct wmsg *m)
{
	return (m->type == MSG_READ_REQ || m->type == MSG_RESUME) &&
		w->dirs[m->dst][m->object].migratory;
}

/* A rank does not offer a block again before the home has answered. */
static bool is_offered(const struct co *w, unsigned int r, unsigned int block)
{
	unsigned int i;

	for (i = 0; i < w->chan.n; i++)
		if (w->chan.v[i].type == MSG_RELEASE && w->chan.v[i].src == r &&
		    w->chan.v[i].object == block)
			return true;
	return false;
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct co_cfg *cfg = c;
	const struct co *w = world;
	unsigned int count = 0, r, n, i;

	for (i = 0; i < w->chan.n; i++)
		if (co_deliverable(cfg, w, i)) {
			events[count++] = event(EV_MSG, i, 0, 0);
			if (cfg->hold && takes_away(&w->chan.v[i]))
				events[count++] = event(EV_MSG, i, VARIANT_EARLY, 0);
			if (samples(w, &w->chan.v[i]))
				events[count++] = event(EV_MSG, i, VARIANT_SAMPLE, 0);
		}
	for (i = 0; i < w->nlists; i++)
		events[count++] = event(EV_LIST, i, 0, 0);
	for (r = 0; r < cfg->nnodes; r++) {
		for (n = 0; n < cfg->nthreads; n++)
			count += list_thread(cfg, w, r, n, events + count);
		if (w->slot[r][cfg->nthreads] == SLOT_WOKEN)
			events[count++] = event(EV_ASYNC_USED, r, 0, 0);
		for (i = 0; i < cfg->nblocks; i++)
			if (w->timer[r][i])
				events[count++] = event(EV_TIMER, r, i, 0);
		for (i = 0; i < cfg->nblocks; i++)
			if (w->told[r][i] && !is_offered(w, r, i))
				events[count++] = event(EV_PUSH, r, i, 0);
	}
	return count;
}

static void fire_thread(const struct co_cfg *cfg, struct co *w, enum event e, unsigned int who,
			unsigned int op, unsigned int b)
{
	unsigned int r = who >> 4, n = who & 15;
	struct thread *t = &w->threads[r][n];
	bool write = for_writing(t->op);

	model_say("thread %u.%u %s\n", r, n,
		  e == EV_OP              ? op_names[op]
			  : e == EV_TRY   ? "tries again"
			  : e == EV_AGAIN ? "looks again"
			  : e == EV_USED  ? "is awake"
			  : e == EV_UNPIN ? "unpins"
					  : "steps its fault");
	switch (e) {
	case EV_OP: start_op(cfg, w, r, n, (uint8_t)op, b & 15, (uint8_t)(b >> 4)); break;
	case EV_TRY: attempt(cfg, w, r, n); break;
	case EV_FAULT: co_local(cfg, w, r, t->block, write ? PE_WRITE : PE_READ, (int)n); break;
	case EV_AGAIN:
		co_again(w, r, t->block);
		t->pc = PC_TRY;
		break;
	case EV_USED:
		if (t->pc == PC_REPLY && t->busy) {
			place(cfg, w, r, n);
		} else if (t->pc == PC_REPLY) {
			w->slot[r][n] = SLOT_IDLE;
			finish(t);
		} else {
			co_local(cfg, w, r, t->block, PE_USED, (int)n);
		}
		break;
	default: /* EV_UNPIN */
		access(cfg, w, r, t->block, write);
		if (page_unpin(&w->pages[r][t->block], write ? 2 : 1) == 1)
			w->timer[r][t->block] = 1;
		finish(t);
		break;
	}
}

static void fire(const void *c, void *world, uint32_t ev)
{
	const struct co_cfg *cfg = c;
	struct co *w = world;
	unsigned int a = ev >> 16 & 0xff, b = ev >> 8 & 0xff;

	switch ((enum event)(ev >> 24)) {
	case EV_MSG: co_deliver(cfg, w, a, (enum variant)b); break;
	case EV_LIST: co_continue(cfg, w, a); break;
	case EV_ASYNC_USED:
		model_say("rank %u: nobody waits, the prefetched block is used\n", a);
		co_local(cfg, w, a, w->async_block[a], PE_USED, WHO_ASYNC);
		break;
	case EV_TIMER:
		model_say("rank %u block %u: the time has come\n", a, b);
		w->timer[a][b] = 0;
		co_local(cfg, w, a, b, PE_REPLAY, WHO_HANDLER);
		break;
	case EV_PUSH:
		model_say("rank %u block %u: is pushed\n", a, b);
		w->told[a][b] = 0;
		if (page_writable(&w->pages[a][b]) && w->pages[a][b].home - 1 != co_rank(cfg, a))
			release(cfg, w, a, b, RELEASE_KEEP);
		break;
	default: fire_thread(cfg, w, (enum event)(ev >> 24), a, b, ev & 0xff); break;
	}
}

/* The block was placed, moved or first touched here, and has been written. */
static void begin_at(const struct co_cfg *cfg, struct co *w, unsigned int home, unsigned int b)
{
	uint16_t rank = co_rank(cfg, home);

	w->dirs[cfg->manager[b]][b] =
		(struct dir){ .state = DIR_MOVED, .owner = rank & (WIRE_MAX_NODES - 1) };
	w->dirs[home][b] = (struct dir){ .state = DIR_EXCLUSIVE,
					 .owner = rank & (WIRE_MAX_NODES - 1),
					 .copyset = set_of(rank, set_granule(co_nominal(cfg))) };
	w->dirs[home][b].migratory = cfg->migratory;
	w->pages[home][b] = (struct copy){ .state = PG_WRITE,
					   .flags = PAGE_OWNER,
					   .home = (uint16_t)(rank + 1) };
	w->hw[home][b] = PROT_RW;
	w->latest[home][b] = w->written[b] = 1;
}

static void start(const void *c, void *world)
{
	const struct co_cfg *cfg = c;
	struct co *w = world;
	unsigned int r, t, b;

	for (b = 0; cfg->home && b < cfg->nblocks; b++)
		begin_at(cfg, w, cfg->home - 1u, b);
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			w->threads[r][t].left = cfg->ops[r];
}

const struct model co_model = {
	.size = WORLD_SIZE(struct co),
	.start = start,
	.list = list,
	.fire = fire,
	.canon = co_canon,
	.check = co_check,
	.final = co_final,
	.show = co_show,
};

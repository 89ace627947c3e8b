// SPDX-License-Identifier: BSD-2-Clause
/*
 * maps.c - see maps.h. The node changes its state whenever the protocol may request it. Each change
 * is carried out in the smallest steps that the kernel makes visible. Meanwhile the node's ranks
 * read and write.
 *
 * Checked: except while a change is carried out, no mapping allows more than the node's state;
 * nothing is written after the contents have left; no contents that have left are read; and every
 * access completes if the node permits it.
 */
#include "worlds.h"

#include "show.h"

#define RANKS 3

/* The state of a mapping: empty; empty with a write-protect marker; read-only; read-write. */
enum pte { PTE_NONE = 0, PTE_MARK, PTE_RO, PTE_RW };

enum op {
	OP_NONE = 0,
	OP_FILL_RO,
	OP_FILL_RW,
	OP_RAISE,
	OP_LOWER,
	OP_DROP,
	OP_TAKE,
	OP_TAKE_LOWERED,
	OPS
};

/* The next action of the node's thread. */
enum pc { PC_REST = 0, PC_DOWN, PC_LEAVE, PC_UNMAP, PC_TRUNCATE, PC_OPEN };

/* The next action of a rank's thread. */
enum rpc { R_IDLE = 0, R_READ, R_WRITE, R_ASK, R_OPEN };

struct rank {
	uint8_t pte;
	uint8_t pc;
	uint8_t write; /* R_ASK, R_OPEN: the access that waits */
	uint8_t saw;   /* the node's state when the signal arrived */
	uint8_t open;  /* R_OPEN: to this protection */
	uint8_t left;
	/* protection that another thread of the rank is about to map ahead: enum prot */
	uint8_t ahead;
};

struct world {
	struct map map;
	struct rank ranks[RANKS];
	uint8_t node;   /* enum prot: the protocol's state */
	uint8_t object; /* the page exists */
	uint8_t left;   /* the contents have left: another node has them now */
	uint8_t lock;   /* lock of the page */
	uint8_t op, pc, who;
	uint8_t again; /* OP_TAKE_LOWERED: lowered already, now to be shut */
	uint8_t done;  /* mappings lowered, of todo */
	struct map_todo todo;
};

enum event { EV_OP = 1, EV_NEXT, EV_WANT, EV_TOUCH, EV_ASK, EV_OPEN, EV_MARK, EV_AHEAD, EV_MAPPED };

static uint32_t event(enum event e, unsigned int a, unsigned int b)
{
	return (uint32_t)e << 16 | a << 8 | b;
}

static void start(const void *c, void *world)
{
	const struct map_cfg *cfg = c;
	struct world *w = world;
	unsigned int r;

	for (r = 0; r < cfg->nranks; r++)
		w->ranks[r].left = cfg->ops[r];
}

static bool op_fits(const struct world *w, enum op op)
{
	switch (op) {
	case OP_FILL_RO:
	case OP_FILL_RW: return w->node == PROT_CLOSED;
	case OP_RAISE:
	case OP_DROP: return w->node == PROT_RO;
	case OP_LOWER:
	case OP_TAKE:
	case OP_TAKE_LOWERED: return w->node == PROT_RW;
	default: return false;
	}
}

static bool has_asker(enum op op)
{
	return op == OP_FILL_RO || op == OP_FILL_RW || op == OP_RAISE;
}

/*
 * Does the access make progress: does the kernel allow it, map the page, or send a signal with a
 * state that helps?
 */
static bool can_touch(const struct map_cfg *cfg, const struct world *w, const struct rank *r)
{
	bool write = r->pc == R_WRITE;

	if (r->pte == PTE_RW || (r->pte == PTE_RO && !write))
		return true;
	if (cfg->kind == MAP_SHOWN && w->object &&
	    (r->pte == PTE_NONE || (r->pte == PTE_MARK && !write)))
		return true;
	return w->node >= (write ? PROT_RW : PROT_RO);
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct map_cfg *cfg = c;
	const struct world *w = world;
	unsigned int n = 0, i, r;

	for (i = 1; i < OPS && w->op == OP_NONE && !w->lock; i++)
		for (r = 0;
		     op_fits(w, (enum op)i) && r < (has_asker((enum op)i) ? cfg->nranks : 1u); r++)
			events[n++] = event(EV_OP, i, r);
	if (w->op != OP_NONE)
		events[n++] = event(EV_NEXT, 0, 0);
	else if (cfg->early && !w->lock && w->node == PROT_CLOSED)
		for (r = 0; r < cfg->nranks; r++)
			events[n++] = event(EV_MARK, r, 0);
	for (r = 0; r < cfg->nranks; r++) {
		const struct rank *k = &w->ranks[r];

		if (k->ahead)
			events[n++] = event(EV_MAPPED, r, 0);
		else if (cfg->ahead && map_state(&w->map) != PROT_CLOSED &&
			 (!w->lock || cfg->unlocked))
			events[n++] = event(EV_AHEAD, r, 0);
		if (k->pc == R_IDLE && k->left) {
			events[n++] = event(EV_WANT, r, 0);
			events[n++] = event(EV_WANT, r, 1);
		} else if ((k->pc == R_READ || k->pc == R_WRITE) && can_touch(cfg, w, k)) {
			events[n++] = event(EV_TOUCH, r, 0);
		} else if (k->pc == R_ASK && (!w->lock || cfg->unlocked)) {
			events[n++] = event(EV_ASK, r, 0);
		} else if (k->pc == R_OPEN) {
			events[n++] = event(EV_OPEN, r, 0);
		}
	}
	return n;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static void lower_to(enum map_kind kind, struct rank *r, enum prot to)
{
	if (to == PROT_RO && r->pte == PTE_RW)
		r->pte = PTE_RO;
	else if (to == PROT_RO && r->pte == PTE_NONE && kind == MAP_SHOWN)
		r->pte = PTE_MARK;
	else if (to == PROT_CLOSED)
		r->pte = PTE_NONE;
}

static void open_to(const struct map_cfg *cfg, const struct world *w, struct rank *r, enum prot to,
		    bool filling)
{
	if (to == PROT_RO && r->pte != PTE_RW)
		r->pte = PTE_RO;
	else if (to == PROT_RW && cfg->kind == MAP_SHOWN && !filling &&
		 (!w->object || r->pte == PTE_MARK || r->pte == PTE_NONE))
		/* the marker is removed; the kernel maps the page on the next access */
		r->pte = PTE_NONE;
	else if (to == PROT_RW)
		r->pte = PTE_RW;
}

/*
 * Write-protected entries leave a marker behind, unless the page is removed from the object while
 * mapped.
 */
static void unmap(const struct map_cfg *cfg, struct world *w)
{
	unsigned int r;

	for (r = 0; r < cfg->nranks; r++)
		if (w->ranks[r].pte == PTE_RO && cfg->kind == MAP_SHOWN)
			w->ranks[r].pte = PTE_MARK;
		else if (w->ranks[r].pte == PTE_RW)
			w->ranks[r].pte = PTE_NONE;
}

static void truncate_page(const struct map_cfg *cfg, struct world *w)
{
	unsigned int r;

	for (r = 0; r < cfg->nranks; r++)
		if (w->ranks[r].pte == PTE_RO || w->ranks[r].pte == PTE_RW) {
			if (cfg->kind == MAP_ASKED)
				model_fail("rank %u still has the page mapped that goes", r);
			w->ranks[r].pte = PTE_NONE;
		}
	w->object = 0;
}

/* ---- the node's changes ---------------------------------------------------------------------- */

static enum map_event change_of(const struct world *w)
{
	switch ((enum op)w->op) {
	case OP_FILL_RO: return MAP_FILL_RO;
	case OP_FILL_RW: return MAP_FILL_RW;
	case OP_RAISE: return MAP_RAISE;
	case OP_LOWER: return MAP_LOWER;
	case OP_TAKE_LOWERED: return w->again ? MAP_SHUT : MAP_LOWER;
	default: return MAP_SHUT;
	}
}

static void begin(const struct map_cfg *cfg, struct world *w)
{
	map_step((enum map_kind)cfg->kind, &w->map, change_of(w), cfg->rank[w->who], &w->todo);
	w->lock = 1;
	w->done = 0;
	w->pc = PC_DOWN;
	if (cfg->wrong_way && w->op == OP_LOWER)
		w->left = 1;
}

static void end(struct world *w)
{
	w->lock = w->op = w->pc = w->who = w->again = w->done = 0;
	w->todo = (struct map_todo){ 0 };
}

static void begin_op(const struct map_cfg *cfg, struct world *w, enum op op, unsigned int who)
{
	static const uint8_t next[OPS] = { [OP_FILL_RO] = PROT_RO,
					   [OP_FILL_RW] = PROT_RW,
					   [OP_RAISE] = PROT_RW,
					   [OP_LOWER] = PROT_RO };

	w->op = (uint8_t)op;
	w->who = (uint8_t)who;
	w->node = next[op];
	if (op == OP_RAISE)
		w->left = 0;
	begin(cfg, w);
}

/* Find the next mapping that must be lowered; true if there is one. */
static bool down_one(const struct map_cfg *cfg, struct world *w)
{
	unsigned int r;

	for (r = 0; r < cfg->nranks; r++) {
		if (w->done >> r & 1 || !map_has(&w->todo, cfg->rank[r]))
			continue;
		w->done |= (uint8_t)(1u << r);
		lower_to((enum map_kind)cfg->kind, &w->ranks[r], (enum prot)w->todo.to);
		return true;
	}
	return false;
}

/* Are all mappings lowered enough? */
static void downed(const struct map_cfg *cfg, struct world *w)
{
	switch ((enum op)w->op) {
	case OP_FILL_RO:
	case OP_FILL_RW:
		w->object = 1;
		w->left = 0;
		open_to(cfg, w, &w->ranks[w->who], (enum prot)w->todo.open, true);
		end(w);
		break;
	case OP_RAISE:
		open_to(cfg, w, &w->ranks[w->who], (enum prot)w->todo.open, false);
		end(w);
		break;
	default:
		w->pc = w->op == OP_LOWER || (w->op == OP_TAKE_LOWERED && !w->again) ? PC_LEAVE
										     : PC_UNMAP;
		break;
	}
}

static void next(const struct map_cfg *cfg, struct world *w)
{
	switch ((enum pc)w->pc) {
	case PC_DOWN:
		if (!down_one(cfg, w))
			downed(cfg, w);
		break;
	case PC_LEAVE:
		w->left = 1;
		if (w->op == OP_LOWER) {
			end(w);
			break;
		}
		w->again = 1;
		begin(cfg, w);
		break;
	case PC_UNMAP:
		unmap(cfg, w);
		w->pc = PC_TRUNCATE;
		break;
	case PC_TRUNCATE:
		truncate_page(cfg, w);
		w->left = 1; /* a reference taken earlier reads what was written last */
		end(w);
		break;
	default: model_fail("step %u of a change", w->pc); break;
	}
}

/* ---- the ranks' accesses --------------------------------------------------------------------- */

static void done(struct rank *r)
{
	r->pc = R_IDLE;
	r->write = r->saw = r->open = 0;
	r->left--;
}

static void touch(const struct map_cfg *cfg, struct world *w, unsigned int i)
{
	struct rank *r = &w->ranks[i];
	bool write = r->pc == R_WRITE;

	if (cfg->kind == MAP_SHOWN && w->object) {
		if (r->pte == PTE_NONE)
			/* a write makes it writable at the latest, and no one is notified */
			r->pte = PTE_RW;
		else if (r->pte == PTE_MARK && !write)
			r->pte = PTE_RO;
	}
	if (r->pte == PTE_RW || (r->pte == PTE_RO && !write)) {
		if (!w->object)
			model_fail("rank %u uses a page that is not there", i);
		if (write && w->left)
			model_fail("rank %u writes what has left", i);
		done(r);
		return;
	}
	if (w->node < (write ? PROT_RW : PROT_RO))
		return; /* a miss */
	r->write = write;
	r->saw = w->node;
	r->pc = R_ASK;
}

static void ask(const struct map_cfg *cfg, struct world *w, unsigned int i)
{
	enum map_kind kind = (enum map_kind)cfg->kind;
	struct rank *r = &w->ranks[i];
	struct map_todo todo;

	map_step(kind, &w->map, r->saw == PROT_RW ? MAP_AGAIN_RW : MAP_AGAIN_RO, cfg->rank[i],
		 &todo);
	if (todo.down)
		model_fail("who asks lowers others");
	r->open = todo.open;
	r->pc = R_OPEN;
	if (!cfg->unlocked)
		w->lock = 1;
}

static void opened(const struct map_cfg *cfg, struct world *w, unsigned int i)
{
	struct rank *r = &w->ranks[i];

	open_to(cfg, w, r, (enum prot)r->open, false);
	r->pc = r->write ? R_WRITE : R_READ;
	r->write = r->saw = r->open = 0;
	if (!cfg->unlocked)
		w->lock = 0;
}

/*
 * A rank maps, under the lock, pages that it has not touched. Existing mappings stay, and missing
 * pages fail.
 */
static void ahead(const struct map_cfg *cfg, struct world *w, unsigned int i)
{
	w->ranks[i].ahead = (uint8_t)map_shown(&w->map, cfg->rank[i]);
	if (!cfg->unlocked)
		w->lock = 1;
}

static void mapped(const struct map_cfg *cfg, struct world *w, unsigned int i)
{
	struct rank *r = &w->ranks[i];

	if (w->object && (r->pte == PTE_NONE || r->pte == PTE_MARK))
		r->pte = r->ahead == PROT_RW ? PTE_RW : PTE_RO;
	r->ahead = PROT_CLOSED;
	if (!cfg->unlocked)
		w->lock = 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void mark(const struct map_cfg *cfg, struct world *w, unsigned int who)
{
	unsigned int r;

	for (r = 0; r < cfg->nranks; r++)
		if (r != who)
			lower_to(MAP_SHOWN, &w->ranks[r], PROT_RO);
	map_marked(&w->map, cfg->rank[who]);
}

static void fire(const void *c, void *world, uint32_t ev)
{
	static const char *const names[] = { "",      "fill to read",    "fill to write",
					     "raise", "lower",           "drop",
					     "take",  "lower, then take" };
	unsigned int a = ev >> 8 & 0xff, b = ev & 0xff;
	const struct map_cfg *cfg = c;
	struct world *w = world;

	switch ((enum event)(ev >> 16)) {
	case EV_OP:
		model_say("the node begins to %s, for rank %u\n", names[a], b);
		begin_op(cfg, w, (enum op)a, b);
		break;
	case EV_NEXT:
		model_say("the node's change: step %u\n", w->pc);
		next(cfg, w);
		break;
	case EV_WANT:
		model_say("rank %u wants to %s\n", a, b ? "write" : "read");
		w->ranks[a].pc = b ? R_WRITE : R_READ;
		break;
	case EV_TOUCH:
		model_say("rank %u touches the page\n", a);
		touch(cfg, w, a);
		break;
	case EV_ASK:
		model_say("rank %u asks for its mapping to follow\n", a);
		ask(cfg, w, a);
		break;
	case EV_OPEN:
		model_say("rank %u has it open\n", a);
		opened(cfg, w, a);
		break;
	case EV_MARK:
		model_say("markers for all but rank %u\n", a);
		mark(cfg, w, a);
		break;
	case EV_AHEAD:
		model_say("rank %u begins to map the page ahead\n", a);
		ahead(cfg, w, a);
		break;
	case EV_MAPPED:
		model_say("rank %u has mapped it ahead\n", a);
		mapped(cfg, w, a);
		break;
	}
}

static void canon(const void *c, void *world)
{
	(void)c, (void)world;
}

static void check(const void *c, const void *world)
{
	const struct map_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r;

	if (w->op != OP_NONE)
		return;
	if (map_state(&w->map) != w->node || w->object != (w->node != PROT_CLOSED))
		model_fail("the node has the page %s, and thinks it %s", show_prot(w->node),
			   show_prot(map_state(&w->map)));
	for (r = 0; r < cfg->nranks; r++) {
		const struct rank *k = &w->ranks[r];

		if ((k->pte == PTE_RW && w->node != PROT_RW) ||
		    (k->pte == PTE_RO && w->node == PROT_CLOSED))
			model_fail("rank %u's mapping allows more than the node's state: %s", r,
				   show_prot(w->node));
		if (cfg->kind == MAP_SHOWN && k->pte == PTE_NONE && w->node == PROT_RO)
			model_fail("rank %u's mapping would be written without anybody's knowledge",
				   r);
	}
}

static bool final(const void *c, const void *world)
{
	const struct map_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r;

	for (r = 0; r < cfg->nranks; r++)
		if (w->ranks[r].left)
			return false;
	return w->op == OP_NONE;
}

static void show(const void *c, const void *world)
{
	static const char *const ptes[] = { "nothing", "marker", "read-only", "read-write" };
	const struct map_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r;

	model_say("    node: %s, page %s, contents %s, %slocked, word %#llx\n", show_prot(w->node),
		  w->object ? "there" : "not there", w->left ? "have left" : "are its own",
		  w->lock ? "" : "un", (unsigned long long)w->map.word);
	for (r = 0; r < cfg->nranks; r++)
		model_say("    rank %u: %s, pc %u, %u to do\n", r, ptes[w->ranks[r].pte],
			  w->ranks[r].pc, w->ranks[r].left);
}

const struct model map_model = MODEL(struct world);

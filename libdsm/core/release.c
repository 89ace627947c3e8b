// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* release.c - see release.h (docs/protocol.md, "Release blocks"). */
#include "core/release.h"
#include "core/set.h"

enum rule {
	R_BAD = 0, /* no correct node causes it */
	R_NOTHING,
	R_AGAIN,   /* allowed already: let the hardware follow */
	R_ASK,     /* request the contents */
	R_JOIN,    /* wait for the request under way */
	R_TWIN,    /* make a twin, then open */
	R_RAISE,   /* ask for the home; or the same */
	R_ANSWER,  /* this node is the home when the copy is used; or it makes a twin */
	R_FILL,    /* the contents */
	R_REPEAT,  /* they are too old: request them once more */
	R_USE,     /* the copy is in use; open it if the thread wants to write */
	R_OUTDATE, /* the contents under way are too old */
	R_BUSY,    /* not before the copy has been used */
	R_DROP,    /* drop the copy */
	R_MARK,    /* the next close drops it */
	R_SENT,    /* a diff is on its way */
	R_SENT_DROP,
	R_UNCHANGED, /* nothing to send; after a while the twin goes */
	R_UNCHANGED_DROP,
	R_SHARE,      /* the first copy leaves: from now on the home makes twins, too */
	R_SERVE,      /* a copy leaves while nothing can be written here */
	R_COPY,       /* a copy leaves while there is a twin */
	R_LEND,       /* a copy leaves, and the next close notes it */
	R_STORE,      /* merge a diff; nobody has a copy */
	R_MERGE,      /* merge a diff, and note all but its writer */
	R_NOTIFY,     /* the home has written: note all */
	R_CALL_IN,    /* what was lent: note all */
	R_STORE_TOLD, /* store what the home has told */
	R_PASS,       /* a request for the home, which is another node */
	R_TAKE,       /* this node is the home */
	R_MOVED,      /* the next home knows that it is */
	R_RULES
};

/* clang-format off */
static const char *const rule_names[R_RULES] = {
	[R_BAD] = "-", [R_NOTHING] = "nothing", [R_AGAIN] = "open again", [R_ASK] = "READ_REQ", [R_JOIN] = "join the wait",
	[R_TWIN] = "twin, open", [R_RAISE] = "WRITE_REQ; or twin, open", [R_ANSWER] = "open; or refused", [R_FILL] = "fill, open", [R_REPEAT] = "READ_REQ", [R_USE] = "twin, open if it writes, or the home, DONE",
	[R_OUTDATE] = "repeat", [R_BUSY] = "later", [R_DROP] = "close", [R_MARK] = "mark", [R_SENT] = "diff",
	[R_SENT_DROP] = "diff, no twin", [R_UNCHANGED] = "nothing; at last no twin", [R_UNCHANGED_DROP] = "no twin",
	[R_SHARE] = "write-protect, DATA; or lent, DATA; or GRANT", [R_LEND] = "DATA", [R_SERVE] = "write-protect, DATA; or GRANT", [R_COPY] = "DATA of the twin; or no twin, DATA; or GRANT", [R_STORE] = "merge",
	[R_MERGE] = "merge; tell or note others, or give", [R_NOTIFY] = "tell or note all; if none is told, no twin", [R_CALL_IN] = "note all",
	[R_STORE_TOLD] = "store",
	[R_PASS] = "to the home", [R_TAKE] = "the home, DONE", [R_MOVED] = "moved",
};

static const uint8_t copy_rules[REL_STATES][REL_EVENTS] = {
	[REL_NONE] = {
		[RE_READ] = R_ASK, [RE_WRITE] = R_ASK, [RE_USED] = R_NOTHING, [RE_APPLY] = R_NOTHING, [RE_TOLD] = R_NOTHING,
		[RE_FETCH] = R_PASS, [RE_DONE] = R_MOVED },
	[REL_FETCH] = {
		[RE_READ] = R_JOIN, [RE_WRITE] = R_JOIN, [RE_USED] = R_NOTHING, [RE_DATA] = R_FILL, [RE_GRANT] = R_FILL,
		[RE_APPLY] = R_OUTDATE, [RE_TOLD] = R_OUTDATE,
		[RE_FETCH] = R_PASS, [RE_DONE] = R_MOVED },
	[REL_AGAIN] = {
		[RE_READ] = R_JOIN, [RE_WRITE] = R_JOIN, [RE_USED] = R_NOTHING, [RE_DATA] = R_REPEAT, [RE_GRANT] = R_REPEAT,
		[RE_APPLY] = R_NOTHING, [RE_TOLD] = R_NOTHING,
		[RE_FETCH] = R_PASS, [RE_DONE] = R_MOVED },
	[REL_GOT] = {
		[RE_READ] = R_JOIN, [RE_WRITE] = R_JOIN, [RE_USED] = R_USE, [RE_APPLY] = R_BUSY, [RE_TOLD] = R_BUSY,
		[RE_FETCH] = R_PASS, [RE_DONE] = R_MOVED },
	[REL_CLEAN] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_RAISE, [RE_USED] = R_NOTHING, [RE_APPLY] = R_DROP,
		[RE_TOLD] = R_STORE_TOLD,
		[RE_FETCH] = R_PASS, [RE_DONE] = R_MOVED },
	[REL_RAISE] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_JOIN, [RE_USED] = R_NOTHING, [RE_GRANT] = R_ANSWER,
		[RE_APPLY] = R_BUSY, [RE_TOLD] = R_STORE_TOLD,
		[RE_FETCH] = R_PASS },
	[REL_OPEN] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_AGAIN, [RE_USED] = R_NOTHING, [RE_APPLY] = R_MARK,
		[RE_TOLD] = R_STORE_TOLD, [RE_CHANGED] = R_SENT, [RE_SAME] = R_UNCHANGED, [RE_GIVEN] = R_TAKE,
		[RE_FETCH] = R_PASS, [RE_DONE] = R_MOVED },
	[REL_STALE] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_AGAIN, [RE_USED] = R_NOTHING, [RE_APPLY] = R_NOTHING,
		[RE_TOLD] = R_NOTHING, [RE_CHANGED] = R_SENT_DROP, [RE_SAME] = R_UNCHANGED_DROP,
		[RE_FETCH] = R_PASS, [RE_DONE] = R_MOVED },
};

static const uint8_t home_rules[RELH_STATES][REL_EVENTS] = {
	[RELH_EXCLUSIVE] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_AGAIN, [RE_FETCH] = R_SHARE, [RE_FLUSH] = R_STORE,
		[RE_APPLY] = R_NOTHING, [RE_TOLD] = R_NOTHING },
	[RELH_CLEAN] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_TWIN, [RE_FETCH] = R_SERVE, [RE_FLUSH] = R_MERGE,
		[RE_APPLY] = R_NOTHING, [RE_TOLD] = R_NOTHING },
	[RELH_OPEN] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_AGAIN, [RE_FETCH] = R_COPY, [RE_FLUSH] = R_MERGE,
		[RE_CHANGED] = R_NOTIFY, [RE_SAME] = R_UNCHANGED,
		[RE_APPLY] = R_NOTHING, [RE_TOLD] = R_NOTHING },
	[RELH_LENT] = {
		[RE_READ] = R_AGAIN, [RE_WRITE] = R_AGAIN, [RE_FETCH] = R_LEND, [RE_FLUSH] = R_MERGE,
		[RE_CHANGED] = R_CALL_IN,
		[RE_APPLY] = R_NOTHING, [RE_TOLD] = R_NOTHING },
};
/* clang-format on */

uint16_t rel_home(const struct rel_ctx *ctx, const struct rel *p)
{
	const uint16_t home = __atomic_load_n(&p->home, __ATOMIC_RELAXED);

	return home ? (uint16_t)(home - 1) : ctx->home;
}

/* Read without the block's lock, too. */
static void set_home(struct rel *p, uint16_t node)
{
	__atomic_store_n(&p->home, (uint16_t)(node + 1), __ATOMIC_RELAXED);
}

/* The next home may have served a request, and note the requester before its DATA has come. */
bool rel_may_note(const struct rel_ctx *ctx, const struct rel *p, uint16_t src)
{
	const uint16_t home = __atomic_load_n(&p->home, __ATOMIC_RELAXED);

	return src == ctx->home || (home ? src == home - 1 : ctx->follow);
}

static bool at_home(const struct rel_ctx *ctx, const struct rel *p)
{
	return rel_home(ctx, p) == ctx->me;
}

bool rel_open(const struct rel_ctx *ctx, const struct rel *p)
{
	return at_home(ctx, p) ? p->state == RELH_OPEN
			       : p->state == REL_OPEN || p->state == REL_STALE;
}

bool rel_lent(const struct rel_ctx *ctx, const struct rel *p)
{
	return at_home(ctx, p) && p->state == RELH_LENT;
}

bool rel_lends(const struct rel_ctx *ctx, const struct rel *p)
{
	return ctx->lends && p->rewrites + 1u >= ctx->lends && p->state == RELH_EXCLUSIVE;
}

enum prot rel_prot(const struct rel_ctx *ctx, const struct rel *p)
{
	if (rel_open(ctx, p) || rel_lent(ctx, p) || (at_home(ctx, p) && p->state == RELH_EXCLUSIVE))
		return PROT_RW;
	return at_home(ctx, p) || p->state == REL_CLEAN || p->state == REL_RAISE ? PROT_RO
										 : PROT_CLOSED;
}

bool rel_asks(const struct rel_ctx *ctx, const struct rel *p)
{
	return ctx->follow && !ctx->full && !p->home && p->state == REL_OPEN &&
		p->flags & REL_CHANGED && !at_home(ctx, p) &&
		!__atomic_load_n(&p->noticed, __ATOMIC_RELAXED);
}

/* Its last diff may not be merged yet. */
static bool diff_is_sent(const struct rel_ctx *ctx, const struct rel *p)
{
	return ctx->run != ctx->ended && p->flushed == (uint32_t)ctx->run;
}

/*
 * With a notice that waits, the copy is not what the home has, though the home may believe that it
 * has told it.
 */
bool rel_raises(const struct rel_ctx *ctx, const struct rel *p)
{
	return ctx->raises && ctx->follow && !ctx->full && !p->home && p->state == REL_CLEAN &&
		!(p->flags & REL_REFUSED) && !at_home(ctx, p) &&
		!__atomic_load_n(&p->noticed, __ATOMIC_RELAXED);
}

bool rel_fresh(const struct rel_ctx *ctx, const struct rel *p)
{
	return p->state == REL_CLEAN && p->flags & REL_FRESH && !at_home(ctx, p);
}

/* The home may just be giving itself to this node, whose copy must stay. */
static bool may_be_given(const struct rel_ctx *ctx, const struct rel *p)
{
	return p->flags & REL_ASKS && diff_is_sent(ctx, p);
}

/* A store after the comparison would be lost, where no later close looks at the block. */
enum prot rel_lower(const struct rel_ctx *ctx, const struct rel *p)
{
	if (!at_home(ctx, p) && p->state == REL_STALE)
		return PROT_CLOSED;
	return p->same + 1u >= REL_IDLE ? PROT_RO : PROT_RW;
}

bool rel_seems_idle(const struct rel_ctx *ctx, const struct rel *p)
{
	return p->same + 1u == REL_IDLE && rel_lower(ctx, p) == PROT_RO;
}

void rel_hurry(struct rel *p)
{
	p->same = REL_IDLE;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* False: it is in a list already. */
static bool list_add(uint32_t *head, uint32_t *next, uint8_t *in, uint32_t entry)
{
	uint32_t first;

	if (__atomic_exchange_n(in, 1, __ATOMIC_ACQ_REL))
		return false;
	first = __atomic_load_n(head, __ATOMIC_RELAXED);
	do {
		__atomic_store_n(next, first, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(head, &first, entry, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	return true;
}

static uint32_t list_leave(const uint32_t *next, uint8_t *in)
{
	uint32_t after = __atomic_load_n(next, __ATOMIC_RELAXED);

	/*
	 * The exchange in list_add() is its partner: who finds the block in no list adds it again,
	 * and it is looked at again.
	 */
	__atomic_store_n(in, 0, __ATOMIC_SEQ_CST);
	return after;
}

void rel_notice(struct rel_lists *lists, struct rel *blocks, uint32_t index)
{
	struct rel *p = &blocks[index];

	list_add(&lists->notices, &p->next_notice, &p->noticed, index + 1);
}

void rel_list_open(const struct rel_ctx *ctx, struct rel *p)
{
	if (rel_open(ctx, p) || rel_lent(ctx, p))
		list_add(&ctx->lists->opened, &p->next_open, &p->listed, ctx->index + 1);
}

uint32_t rel_take_open(struct rel_lists *lists)
{
	return __atomic_exchange_n(&lists->opened, 0, __ATOMIC_ACQ_REL);
}

uint32_t rel_take_notices(struct rel_lists *lists)
{
	return __atomic_exchange_n(&lists->notices, 0, __ATOMIC_ACQ_REL);
}

uint32_t rel_take_given(uint32_t *given)
{
	return __atomic_exchange_n(given, 0, __ATOMIC_ACQ_REL);
}

uint32_t rel_next_open(struct rel *p)
{
	return list_leave(&p->next_open, &p->listed);
}

uint32_t rel_next_notice(struct rel *p)
{
	return list_leave(&p->next_notice, &p->noticed);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void rel_again(const struct rel_ctx *ctx, const struct rel *p, struct actions *out)
{
	struct action *a = act_add(out, ACT_OPEN);

	a->prot = rel_prot(ctx, p);
	a->from = OPEN_AGAIN;
}

/* The twin is made before any mapping is writable. */
static void rel_twin(const struct rel_ctx *ctx, struct rel *p, struct actions *out)
{
	p->flags &= (uint8_t) ~(REL_WRITTEN | REL_SOON_WRITTEN);
	if (at_home(ctx, p) && (uint8_t)(ctx->run - p->same) <= REL_SOON)
		p->flags |= REL_SOON_WRITTEN;
	p->state = at_home(ctx, p) ? (uint8_t)RELH_OPEN : (uint8_t)REL_OPEN;
	p->same = 0;
	rel_list_open(ctx, p);
	act_add(out, ACT_TWIN);
	rel_again(ctx, p, out);
}

static void rel_untwin(struct rel *p, uint8_t state, struct actions *out)
{
	act_add(out, ACT_UNTWIN);
	p->state = state;
}

static void rel_ask(const struct rel_ctx *ctx, const struct rel *p, const struct msg *m,
		    struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = p->flags & REL_ASKED ? MSG_WRITE_REQ : MSG_READ_REQ;
	a->msg.src = a->msg.req_node = ctx->me;
	a->msg.dst = rel_home(ctx, p);
	a->msg.object = m->object;
	a->msg.req_slot = p->slot;
	a->msg.flags = MSGF_KNOWN | MSGF_RELEASE;
	if (p->state == REL_RAISE)
		a->msg.flags |= MSGF_HAS;
}

static void rel_wait(const struct rel *p, struct actions *out)
{
	struct action *a = act_add(out, ACT_WAIT);

	a->slot = p->slot;
}

/* ---- who is told ----------------------------------------------------------------------------- */

static enum rel_use use_of(const struct rel *p, uint16_t node)
{
	return node < REL_TOLD ? (enum rel_use)(p->uses >> 2 * node & 3) : USE_UNKNOWN;
}

static void use_set(struct rel *p, uint16_t node, enum rel_use use)
{
	if (node < REL_TOLD)
		p->uses = (p->uses & ~(3u << 2 * node)) | (uint32_t)use << 2 * node;
}

/* A node has shown that it uses the block. */
static void rel_uses(const struct rel_ctx *ctx, struct rel *p, uint16_t node, enum rel_use use)
{
	if (ctx->tells && use_of(p, node) < use)
		use_set(p, node, use);
}

/* The next registered node, from `node` on, that is one of the first; but not `writer`. */
static uint16_t next_registered(const struct rel_ctx *ctx, const struct rel *p, uint16_t node,
				uint16_t writer)
{
	for (; node < REL_TOLD && node < ctx->nnodes; node++)
		if (node != writer && set_has(p->copyset, node, 1))
			return node;
	return REL_TOLD;
}

bool rel_would_tell(const struct rel_ctx *ctx, const struct rel *p, uint16_t writer)
{
	uint16_t node = next_registered(ctx, p, 0, writer);

	if (!ctx->tells || set_granule(ctx->nnodes) > 1)
		return false; /* a bit of the copyset is several nodes */
	while (node < REL_TOLD && use_of(p, node) < USE_LAST)
		node = next_registered(ctx, p, (uint16_t)(node + 1), writer);
	return node < REL_TOLD;
}

bool rel_told_writes(const struct rel *p)
{
	uint16_t node;

	for (node = 0; node < REL_TOLD; node++)
		if (use_of(p, node) == USE_MORE && set_has(p->copyset, node, 1))
			return true;
	return false;
}

/* A number that looks like a random one, of the close and the block: there is no room to count. */
static uint32_t rel_chance(const struct rel_ctx *ctx)
{
	uint32_t x = (uint32_t)ctx->run ^ ctx->index * 0x85ebca6bu;

	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/*
 * Are those that have always fetched the block again told of the change after this one, too? All of
 * them or none, so that it is exclusive after the notice. Only of changes of the home.
 */
static bool rel_goes_on(const struct rel_ctx *ctx, const struct rel *p, uint16_t writer)
{
	return writer == ctx->me && rel_chance(ctx) & ((1u << p->steady) - 1);
}

/* Take the nodes that are told out of their uses. Returns them; the others are noted. */
static uint64_t rel_told(const struct rel_ctx *ctx, struct rel *p, uint16_t writer)
{
	const bool goes_on = rel_goes_on(ctx, p, writer);
	uint64_t told = 0;
	uint16_t node;

	if (!ctx->tells || set_granule(ctx->nnodes) > 1)
		return 0;
	for (node = next_registered(ctx, p, 0, writer); node < REL_TOLD;
	     node = next_registered(ctx, p, (uint16_t)(node + 1), writer))
		if (!ctx->kept || use_of(p, node) < USE_LAST) {
			use_set(p, node, USE_NOTED);
		} else {
			if (use_of(p, node) == USE_MORE || !goes_on)
				use_set(p, node, (enum rel_use)(use_of(p, node) - 1));
			told |= set_of(node, 1);
		}
	return told;
}

/*
 * All registered nodes but the writer are told or noted. Those that are told stay registered:
 * returns them.
 */
static uint64_t rel_note(const struct rel_ctx *ctx, struct rel *p, uint16_t writer,
			 struct actions *out)
{
	const uint64_t told = rel_told(ctx, p, writer);
	struct action *a = act_add(out, ACT_NOTICE);

	a->mask = p->copyset & ~told;
	a->except = writer;
	if (told) {
		a = act_add(out, ACT_TELL);
		a->mask = told;
		a->except = writer;
	}
	return told;
}

/* ---- copies that leave ----------------------------------------------------------------------- */

static void rel_answers(const struct rel_ctx *ctx, struct action *a, uint8_t type, uint8_t op,
			const struct msg *m)
{
	a->msg.type = type;
	a->msg.op = op;
	a->msg.src = a->msg.home = ctx->me;
	a->msg.dst = a->msg.req_node = m->req_node;
	a->msg.req_slot = m->req_slot;
	a->msg.object = m->object;
}

static struct action *rel_give(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
			       uint8_t from, struct actions *out)
{
	struct action *a = act_add(out, ctx->fresh ? ACT_SEND : ACT_DATA);

	if (p->only != m->req_node + 1)
		p->only = p->only ? REL_SEVERAL : (uint16_t)(m->req_node + 1);
	p->copyset |= set_of(m->req_node, set_granule(ctx->nnodes));
	if (use_of(p, m->req_node) == USE_NOTED)
		rel_uses(ctx, p, m->req_node, USE_LAST);
	a->prot = PROT_RO;
	a->from = from;
	rel_answers(ctx, a, ctx->fresh ? MSG_GRANT : MSG_DATA, GRANT_READ, m);
	a->msg.flags = ctx->fresh ? MSGF_ZERO : 0;
	return a;
}

/* Does this request get the home? */
static bool rel_moves(const struct rel_ctx *ctx, const struct rel *p, const struct msg *m)
{
	return ctx->follow && m->type == MSG_WRITE_REQ && (!p->only || p->only == m->req_node + 1);
}

/* The home moves to the node. This one keeps a copy. */
static void rel_leave(struct rel *p, uint16_t node)
{
	p->copyset = 0;
	p->slot = 0;
	p->flushed = 0;
	p->writes = 0;
	set_home(p, node);
	p->state = REL_CLEAN;
	p->flags = REL_MOVING;
}

/* The same, and it notes that copy itself. */
static void rel_leave_noted(const struct rel_ctx *ctx, struct rel *p, uint16_t node)
{
	rel_leave(p, node);
	rel_notice(ctx->lists, ctx->blocks, ctx->index);
}

static void rel_move(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		     struct actions *out)
{
	rel_give(ctx, p, m, PROT_RW, out)->msg.op = GRANT_WRITE;
	rel_leave_noted(ctx, p, m->req_node);
}

static void rel_answer(const struct rel_ctx *ctx, const struct msg *m, uint8_t op,
		       struct actions *out)
{
	rel_answers(ctx, act_add(out, ACT_SEND), MSG_GRANT, op, m);
}

/*
 * A node asks for the home, and has a copy. That is what the home has if there is no twin, and the
 * only node that is registered is this one: the close that told it something has ended, so that is
 * in the copy, or waits as a notice, with which it would not ask (rel_raises()).
 */
static void rel_raise_it(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
			 struct actions *out)
{
	if (!rel_moves(ctx, p, m) || p->state != RELH_CLEAN) {
		rel_answer(ctx, m, GRANT_READ, out);
		return;
	}
	rel_answer(ctx, m, GRANT_WRITE, out);
	rel_leave_noted(ctx, p, m->req_node);
}

/*
 * The contents are in place, and this node is the home from now on. registered: the first home
 * keeps its copy until it gets a notice.
 */
static void rel_become_home(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
			    bool registered, struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = MSG_DONE;
	a->msg.src = a->msg.req_node = ctx->me;
	a->msg.dst = ctx->home;
	a->msg.object = m->object;
	a->msg.req_slot = p->slot;
	set_home(p, ctx->me);
	p->only = REL_SEVERAL;
	p->copyset = registered ? set_of(ctx->home, set_granule(ctx->nnodes)) : 0;
	p->uses = 0;
	if (!registered)
		rel_uses(ctx, p, ctx->home, USE_NOTED); /* it has noted itself */
	p->flags = 0;
	p->state = registered ? (uint8_t)RELH_OPEN : (uint8_t)RELH_EXCLUSIVE;
}

/* A request of another node: to the home, or back to the first home. */
static void rel_pass(const struct rel_ctx *ctx, const struct rel *p, const struct msg *m,
		     struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg = *m;
	a->msg.src = ctx->me;
	a->msg.dst = rel_home(ctx, p);
	a->msg.flags ^= MSGF_FORWARDED;
}

/* The contents have come. The home may be another node than the one that was asked. */
static void rel_got(const struct rel_ctx *ctx, struct rel *p, const struct msg *m)
{
	if (m->op == GRANT_WRITE)
		p->flags |= REL_MOVES;
	if (m->src != ctx->home)
		set_home(p, m->src);
	p->flags &= (uint8_t) ~(REL_ASKED | REL_FRESH);
	if (m->flags & MSGF_ZERO)
		p->flags |= REL_FRESH;
	p->state = REL_GOT;
}

/*
 * Does the writer of a diff get the home? Nobody else has had a copy, and if its own were too old,
 * nobody were registered, and the block exclusive.
 */
static bool rel_gives(const struct rel_ctx *ctx, const struct rel *p, const struct msg *m)
{
	return ctx->follow && ctx->me == ctx->home && m->op == GRANT_WRITE &&
		p->state == RELH_CLEAN && p->only == m->src + 1;
}

/*
 * Nobody but the writer, and who is told, keeps a copy without a notice. If there is none, the
 * block is exclusive again.
 */
static void rel_merge(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		      struct actions *out)
{
	const uint64_t writer = p->copyset & set_of(m->src, set_granule(ctx->nnodes));

	act_add(out, ACT_MERGE);
	/* it is in another list only if a faulty node has noted the home */
	if (rel_gives(ctx, p, m) &&
	    list_add(ctx->given, &p->next_notice, &p->noticed, ctx->index + 1)) {
		rel_leave(p, m->src);
		return;
	}
	p->copyset = writer | rel_note(ctx, p, m->src, out);
	rel_uses(ctx, p, m->src, USE_MORE);
	if (p->copyset)
		return;
	if (p->state == RELH_OPEN)
		act_add(out, ACT_UNTWIN);
	p->steady = 0; /* RE_FLUSH does not say which close this is */
	p->state = RELH_EXCLUSIVE;
}

/* The home has written. Who is told keeps a copy, and the home its twin. */
static void rel_notify(const struct rel_ctx *ctx, struct rel *p, struct actions *out)
{
	p->copyset = rel_note(ctx, p, ctx->me, out);
	if (p->copyset || !(p->flags & REL_SOON_WRITTEN))
		p->rewrites = 0;
	else if (p->rewrites + 1u < ctx->lends)
		p->rewrites++;
	p->same = 0;
	p->flags |= REL_WRITTEN;
	if (p->copyset)
		return;
	p->same = (uint8_t)ctx->run;
	rel_untwin(p, RELH_EXCLUSIVE, out);
}

/* The block was lent, so there is no twin, and nobody is told (rel_ctx.kept). */
static void rel_call_in(const struct rel_ctx *ctx, struct rel *p, struct actions *out)
{
	rel_note(ctx, p, ctx->me, out);
	p->copyset = 0;
	p->same = (uint8_t)ctx->run;
	p->state = RELH_EXCLUSIVE;
}

/* A thread needs the contents. */
static int rel_request(const struct rel_ctx *ctx, struct rel *p, enum rel_event ev,
		       const struct msg *m, struct actions *out)
{
	if (diff_is_sent(ctx, p))
		return -EAGAIN; /* its writes would vanish */
	p->slot = m->req_slot;
	p->writes = ev == RE_WRITE;
	p->flags &= (uint8_t) ~(REL_ASKS | REL_CHANGED);
	if (ctx->follow && !ctx->full && !p->home && p->writes)
		p->flags |= REL_ASKED;
	p->state = REL_FETCH;
	rel_ask(ctx, p, m, out);
	rel_wait(p, out);
	return 0;
}

/* A thread stores to a copy. */
static void rel_raise(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		      struct actions *out)
{
	p->slot = m->req_slot;
	p->writes = 1;
	p->flags |= REL_ASKED;
	p->state = REL_RAISE;
	rel_ask(ctx, p, m, out);
	rel_wait(p, out);
}

static int rel_store(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		     struct actions *out)
{
	if (rel_raises(ctx, p)) {
		rel_raise(ctx, p, m, out);
		return 0;
	}
	if (p->flags & REL_MOVING)
		return -EAGAIN; /* its diff might come too early */
	rel_twin(ctx, p, out);
	return 0;
}

static void rel_raised(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		       struct actions *out)
{
	struct action *a;

	rel_got(ctx, p, m);
	if (m->op == GRANT_WRITE) {
		a = act_add(out, ACT_OPEN);
		a->prot = PROT_RW;
		a->from = OPEN_UPGRADE;
	} else {
		p->state = REL_CLEAN; /* the thread stores again, and makes a twin */
		p->flags |= REL_REFUSED;
		p->writes = 0;
	}
	a = act_add(out, ACT_WAKE);
	a->slot = p->slot;
}

static void rel_fill(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		     struct actions *out)
{
	struct action *a;

	rel_got(ctx, p, m);
	a = act_add(out, ACT_OPEN);
	a->prot = m->op == GRANT_WRITE ? PROT_RW : PROT_RO;
	a->from = m->flags & MSGF_ZERO ? OPEN_ZERO : OPEN_DATA;
	a = act_add(out, ACT_WAKE);
	a->slot = p->slot;
}

/* A diff is on its way. */
static void rel_sent(const struct rel_ctx *ctx, struct rel *p)
{
	p->flags &= (uint8_t)~REL_ASKS;
	if (ctx->asks)
		p->flags |= REL_ASKS;
	if (ctx->follow)
		p->flags |= REL_CHANGED;
	p->flushed = (uint32_t)ctx->run;
	p->same = 0;
}

/*
 * The home has the block open, but no close has found a store of it: it may have been opened ahead.
 * What is stored, and in no diff yet, is in the contents that leave.
 */
static void rel_serve_open(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
			   struct actions *out)
{
	if (p->flags & REL_WRITTEN || !rel_moves(ctx, p, m)) {
		rel_give(ctx, p, m, PROT_RO, out);
		return;
	}
	act_add(out, ACT_UNTWIN);
	rel_move(ctx, p, m, out);
}

static void rel_serve(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		      struct actions *out)
{
	if (rel_moves(ctx, p, m)) {
		rel_move(ctx, p, m, out);
		return;
	}
	if (p->state == RELH_EXCLUSIVE)
		p->same = (uint8_t)ctx->run;
	p->state = RELH_CLEAN;
	rel_give(ctx, p, m, PROT_RW, out);
}

/* Was it soon after the notice that made the block exclusive? */
static void rel_fetched_again(const struct rel_ctx *ctx, struct rel *p)
{
	if ((uint8_t)(ctx->run - p->same) > REL_SOON)
		p->steady = 0;
	else if (p->steady < REL_STEADY)
		p->steady++;
}

/* The first time, it joins the blocks that the next close looks at. */
static void rel_lend(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
		     struct actions *out)
{
	if (p->state == RELH_EXCLUSIVE && ++p->rewrites + 1u == ctx->lends + REL_LENDS)
		p->rewrites = (uint8_t)(ctx->lends > 1 ? ctx->lends - 2 : 0);
	p->state = RELH_LENT;
	rel_list_open(ctx, p);
	rel_give(ctx, p, m, PROT_RO, out);
}

static void rel_fetched(const struct rel_ctx *ctx, struct rel *p, const struct msg *m,
			struct actions *out)
{
	if (m->flags & MSGF_HAS) {
		rel_raise_it(ctx, p, m, out);
		return;
	}
	if (p->state == RELH_EXCLUSIVE && use_of(p, m->req_node) == USE_NOTED)
		rel_fetched_again(ctx, p);
	if (p->state == RELH_OPEN)
		rel_serve_open(ctx, p, m, out);
	else if (p->state == RELH_LENT || (rel_lends(ctx, p) && !rel_moves(ctx, p, m)))
		rel_lend(ctx, p, m, out);
	else
		rel_serve(ctx, p, m, out);
}

static int rel_apply(const struct rel_ctx *ctx, struct rel *p, enum rule rule, enum rel_event ev,
		     const struct msg *m, struct actions *out)
{
	switch (rule) {
	case R_AGAIN: rel_again(ctx, p, out); return 0;
	case R_ASK: return rel_request(ctx, p, ev, m, out);
	case R_JOIN:
		p->writes |= ev == RE_WRITE;
		rel_wait(p, out);
		return 0;
	case R_RAISE:
	case R_TWIN: return rel_store(ctx, p, m, out);
	case R_ANSWER: rel_raised(ctx, p, m, out); return 0;
	case R_REPEAT:
		if (m->op != GRANT_WRITE) {
			p->state = REL_FETCH;
			rel_ask(ctx, p, m, out);
			return 0;
		}
		/* a home that moves has sent the notice before: fall through */
		__attribute__((__fallthrough__));
	case R_FILL: rel_fill(ctx, p, m, out); return 0;
	case R_USE:
		if (m->req_slot != p->slot)
			return 0; /* of a thread that was refused, and comes late */
		p->state = REL_CLEAN;
		if (p->flags & REL_MOVES)
			rel_become_home(ctx, p, m, false, out);
		else if (p->writes)
			rel_twin(ctx, p, out);
		p->writes = 0;
		return 0;
	case R_OUTDATE: p->state = REL_AGAIN; return 0;
	case R_BUSY: return -EAGAIN;
	case R_DROP:
		if (p->flags & REL_MOVING)
			return -EAGAIN; /* the next home gets its contents */
		p->state = REL_NONE;
		act_add(out, ACT_CLOSE);
		return 0;
	case R_MARK:
		if (may_be_given(ctx, p))
			return -EAGAIN;
		p->state = REL_STALE;
		return 0;
	case R_SENT: rel_sent(ctx, p); return 0;
	case R_SENT_DROP:
		rel_sent(ctx, p);
		rel_untwin(p, REL_NONE, out);
		return 0;
	case R_UNCHANGED:
		if (++p->same >= REL_IDLE)
			rel_untwin(p, at_home(ctx, p) ? (uint8_t)RELH_CLEAN : (uint8_t)REL_CLEAN,
				   out);
		return 0;
	case R_UNCHANGED_DROP: rel_untwin(p, REL_NONE, out); return 0;
	case R_SHARE:
	case R_SERVE:
	case R_COPY:
	case R_LEND: rel_fetched(ctx, p, m, out); return 0;
	case R_STORE:
		act_add(out, ACT_MERGE);
		rel_uses(ctx, p, m->src, USE_MORE);
		return 0;
	case R_STORE_TOLD:
		act_add(out, ACT_MERGE);
		p->flags &= (uint8_t) ~(REL_CHANGED | REL_FRESH);
		return 0;
	case R_MERGE: rel_merge(ctx, p, m, out); return 0;
	case R_NOTIFY: rel_notify(ctx, p, out); return 0;
	case R_CALL_IN: rel_call_in(ctx, p, out); return 0;
	case R_PASS: rel_pass(ctx, p, m, out); return 0;
	case R_TAKE: rel_become_home(ctx, p, m, true, out); return 0;
	case R_MOVED: p->flags &= (uint8_t)~REL_MOVING; return 0;
	default: return 0;
	}
}

static enum rule rel_rule(bool home, unsigned int state, unsigned int event)
{
	if (state >= (home ? (unsigned int)RELH_STATES : (unsigned int)REL_STATES) ||
	    event >= REL_EVENTS)
		return R_BAD;
	return (enum rule)(home ? home_rules[state][event] : copy_rules[state][event]);
}

/*
 * A request comes from the node that makes it, to the home or to the first home; from the first
 * home, to the next one, whose contents may be on their way; or back from there.
 */
static bool rel_may_fetch(const struct rel_ctx *ctx, const struct rel *p, const struct msg *m)
{
	const bool first = ctx->me == ctx->home;

	if (m->req_node == ctx->me || m->req_node >= ctx->nnodes)
		return false;
	if (m->flags & MSGF_HAS) /* whoever had a copy keeps the home from moving to others */
		return first && at_home(ctx, p) && m->src == m->req_node;
	if (m->flags & MSGF_FORWARDED)
		return m->src == ctx->home &&
			(at_home(ctx, p) || p->flags & (REL_ASKS | REL_ASKED | REL_MOVES));
	if (m->src == m->req_node)
		return first || at_home(ctx, p);
	return first && m->src == rel_home(ctx, p);
}

/* The home may have moved, and have sent the request on to its next home. */
static bool rel_may_give(const struct rel_ctx *ctx, const struct rel *p, const struct msg *m)
{
	if (m->req_node != ctx->me || m->req_slot != p->slot || m->src == ctx->me)
		return false;
	if (m->op == GRANT_WRITE)
		return m->src == ctx->home && p->flags & REL_ASKED;
	return m->src == rel_home(ctx, p) || (ctx->follow && !p->home);
}

/* Who may say this now? Any node may flush: the home does not know who has a twin. */
static bool rel_may_say(const struct rel_ctx *ctx, const struct rel *p, enum rel_event ev,
			const struct msg *m)
{
	switch (ev) {
	case RE_DATA: return rel_may_give(ctx, p, m);
	case RE_GRANT:
		if (m->count || m->flags & ~MSGF_ZERO ||
		    !(m->flags & MSGF_ZERO) != (p->state == REL_RAISE))
			return false;
		return m->flags ? rel_may_give(ctx, p, m)
				: m->src == ctx->home && m->req_slot == p->slot;
	case RE_FETCH: return rel_may_fetch(ctx, p, m);
	case RE_GIVEN: return m->src == ctx->home && may_be_given(ctx, p);
	case RE_DONE: return p->flags & REL_MOVING && m->src == rel_home(ctx, p);
	case RE_FLUSH: return m->src != ctx->me && m->src < ctx->nnodes;
	case RE_TOLD: return rel_may_note(ctx, p, m->src);
	default: return true;
	}
}

int rel_step(const struct rel_ctx *ctx, struct rel *p, enum rel_event ev, const struct msg *m,
	     struct actions *out)
{
	const enum rule rule = rel_rule(at_home(ctx, p), p->state, ev);

	out->n = 0;
	if (rule == R_BAD || !rel_may_say(ctx, p, ev, m))
		return -EBADMSG;
	return rel_apply(ctx, p, rule, ev, m, out);
}

/* clang-format off */
static const char *const copy_names[REL_STATES] = { "NONE", "FETCH", "AGAIN", "GOT", "CLEAN", "RAISE", "OPEN", "STALE" };
static const char *const home_names[RELH_STATES] = { "EXCLUSIVE", "CLEAN", "OPEN", "LENT" };
static const char *const event_names[REL_EVENTS] = {
	"read", "write", "used", "DATA", "GRANT", "apply", "changed", "same", "request", "FLUSH", "told", "given", "DONE",
};
/* clang-format on */

const char *rel_state_name(bool home, unsigned int state)
{
	if (home)
		return state < RELH_STATES ? home_names[state] : "?";
	return state < REL_STATES ? copy_names[state] : "?";
}

const char *rel_event_name(unsigned int event)
{
	return event < REL_EVENTS ? event_names[event] : "?";
}

const char *rel_rule_name(bool home, unsigned int state, unsigned int event)
{
	return rule_names[rel_rule(home, state, event)];
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * page.c - the requester's and holder's side of the coherence protocol (docs/protocol.md, "The
 * page").
 *
 * The caller holds the block's lock at this node and carries the actions out after dropping it.
 */
#include "core/page.h"
#include "core/set.h"

enum rule {
	R_BAD = 0, /* no correct peer causes it */
	R_NOTHING,
	R_AGAIN, /* allowed already: let the hardware follow */
	R_JOIN,  /* wait for the request under way */
	R_ASK_READ,
	R_ASK_WRITE,
	R_ASK_UPGRADE,
	R_ASK_AGAIN,   /* the manager, as the home has moved */
	R_CONFIRM,     /* the grant is in use: MSG_DONE */
	R_REPLAY,      /* carry out what was held back */
	R_FORGET,      /* drop a read copy */
	R_FILL,        /* contents and permission */
	R_FILLED,      /* contents that we have already, and permission */
	R_PERMIT,      /* permission for the contents in place */
	R_ZERO,        /* permission for contents of zeros */
	R_ACK_EARLY,   /* an acknowledgement before the grant */
	R_ACK,         /* an acknowledgement after it */
	R_ACK_NONE,    /* asked to drop what is not here: acknowledge */
	R_ACK_WANTED,  /* the same of what a brief read may bring: then that is too old */
	R_DROP,        /* drop the read copy, acknowledge */
	R_DROP_ASKING, /* the same while asking to write */
	R_DROP_USED,   /* the same of a brief read, once a thread has used it */
	R_SHARE,       /* send a copy, keep reading */
	R_DEMOTE,      /* send a copy, stop writing */
	R_GIVE,        /* send the block, keep nothing */
	R_GIVE_ASKING, /* the same while asking to write */
	/*
	 * the same for a reader, whom a copy would serve as well: of a pinned block it gets one by
	 * the home
	 */
	R_MIGRATE,
	R_RULES
};

/* clang-format off */
static const char *const rule_names[R_RULES] = {
	[R_BAD] = "-", [R_NOTHING] = "nothing", [R_AGAIN] = "open again", [R_JOIN] = "join the wait",
	[R_ASK_READ] = "READ_REQ", [R_ASK_WRITE] = "WRITE_REQ", [R_ASK_UPGRADE] = "WRITE_REQ (has)",
	[R_ASK_AGAIN] = "ask the manager", [R_CONFIRM] = "DONE", [R_REPLAY] = "replay the held message",
	[R_FORGET] = "close", [R_FILL] = "fill, open", [R_FILLED] = "open", [R_PERMIT] = "open", [R_ZERO] = "zero, open",
	[R_ACK_EARLY] = "count", [R_ACK] = "count, open at 0", [R_ACK_NONE] = "INV_ACK", [R_ACK_WANTED] = "INV_ACK",
	[R_DROP] = "close, INV_ACK", [R_DROP_ASKING] = "close, INV_ACK", [R_DROP_USED] = "hold until used", [R_SHARE] = "DATA", [R_DEMOTE] = "write-protect, DATA",
	[R_GIVE] = "close, DATA", [R_GIVE_ASKING] = "close, DATA",
	[R_MIGRATE] = "close, DATA; KEPT if pinned",
};
/* clang-format on */

/* clang-format off */
static const uint8_t rules[PG_STATES][PE_EVENTS] = {
	[PG_INVALID] = {
		[PE_READ] = R_ASK_READ, [PE_WRITE] = R_ASK_WRITE, [PE_USED] = R_NOTHING, [PE_REPLAY] = R_NOTHING,
		[PE_DROP] = R_NOTHING, [PE_INV] = R_ACK_NONE },
	[PG_READ] = {
		[PE_READ] = R_AGAIN, [PE_WRITE] = R_ASK_UPGRADE, [PE_USED] = R_NOTHING, [PE_REPLAY] = R_REPLAY,
		[PE_DROP] = R_FORGET, [PE_INV] = R_DROP, [PE_FWD_READ] = R_SHARE, [PE_FWD_WRITE] = R_GIVE },
	[PG_WRITE] = {
		[PE_READ] = R_AGAIN, [PE_WRITE] = R_AGAIN, [PE_USED] = R_NOTHING, [PE_REPLAY] = R_REPLAY,
		[PE_DROP] = R_NOTHING, [PE_FWD_READ] = R_DEMOTE, [PE_FWD_WRITE] = R_GIVE, [PE_FWD_MIGRATE] = R_MIGRATE },
	[PG_WANT_READ] = {
		[PE_READ] = R_JOIN, [PE_WRITE] = R_JOIN, [PE_USED] = R_NOTHING, [PE_REPLAY] = R_NOTHING,
		[PE_DROP] = R_NOTHING, [PE_INV] = R_ACK_WANTED, [PE_MOVED] = R_ASK_AGAIN, [PE_DATA] = R_FILL, [PE_GRANT] = R_ZERO },
	[PG_WANT_WRITE] = {
		[PE_READ] = R_JOIN, [PE_WRITE] = R_JOIN, [PE_USED] = R_NOTHING, [PE_REPLAY] = R_NOTHING,
		[PE_DROP] = R_NOTHING, [PE_INV] = R_ACK_NONE, [PE_MOVED] = R_ASK_AGAIN, [PE_INV_ACK] = R_ACK_EARLY, [PE_DATA] = R_FILL,
		[PE_GRANT] = R_ZERO },
	[PG_UPGRADE] = {
		[PE_READ] = R_AGAIN, [PE_WRITE] = R_JOIN, [PE_USED] = R_NOTHING, [PE_REPLAY] = R_REPLAY,
		[PE_DROP] = R_NOTHING, [PE_INV] = R_DROP_ASKING, [PE_INV_ACK] = R_ACK_EARLY, [PE_FWD_READ] = R_SHARE,
		[PE_FWD_WRITE] = R_GIVE_ASKING, [PE_DATA] = R_FILLED, [PE_GRANT] = R_PERMIT },
	[PG_COUNT] = {
		[PE_READ] = R_JOIN, [PE_WRITE] = R_JOIN, [PE_USED] = R_NOTHING, [PE_REPLAY] = R_NOTHING,
		[PE_DROP] = R_NOTHING, [PE_INV_ACK] = R_ACK },
	/*
	 * The contents may still be arriving: other threads of this node wait like the one that
	 * asked.
	 */
	[PG_GOT_READ] = {
		[PE_READ] = R_JOIN, [PE_WRITE] = R_JOIN, [PE_USED] = R_CONFIRM, [PE_REPLAY] = R_NOTHING,
		[PE_DROP] = R_NOTHING, [PE_INV] = R_DROP_USED },
	[PG_GOT_WRITE] = {
		[PE_READ] = R_JOIN, [PE_WRITE] = R_JOIN, [PE_USED] = R_CONFIRM, [PE_REPLAY] = R_NOTHING,
		[PE_DROP] = R_NOTHING },
};
/* clang-format on */

bool page_readable(const struct copy *p)
{
	return p->state == PG_READ || p->state == PG_WRITE || p->state == PG_UPGRADE;
}

bool page_writable(const struct copy *p)
{
	return p->state == PG_WRITE;
}

bool page_asks(const struct copy *p)
{
	return p->state == PG_WANT_READ || p->state == PG_WANT_WRITE || p->state == PG_UPGRADE;
}

/*
 * Who may say this now? Answers name the slot that asked, and come of the home that is known; only
 * that home takes a copy away. Where a bit of the copyset is several nodes', those without a copy
 * are asked to drop one, too, by a home that they need not know; they acknowledge, and nothing
 * changes.
 */
static bool may_say(const struct page_ctx *ctx, const struct copy *p, enum page_event ev,
		    const struct msg *m)
{
	switch (ev) {
	case PE_DATA:
	case PE_GRANT:
		return m->req_node == ctx->me && m->req_slot == p->slot &&
			(!p->home || p->home - 1 == m->home);
	case PE_INV_ACK: return m->req_node == ctx->me && m->req_slot == p->slot;
	case PE_MOVED:
		return m->req_node == ctx->me && m->req_slot == p->slot && p->home &&
			p->home - 1 == m->src;
	case PE_INV:
		/* a brief read may have been answered by a home that is not known yet */
		return (p->home ? p->home - 1 == m->src : p->state == PG_WANT_READ) ||
			(set_granule(ctx->nnodes) > 1 && !page_readable(p) &&
			 p->state != PG_GOT_READ);
	case PE_FWD_READ:
	case PE_FWD_WRITE:
	case PE_FWD_MIGRATE: return p->home && p->home - 1 == m->src;
	default: return true;
	}
}

static struct action *page_send(const struct page_ctx *ctx, struct actions *out, uint8_t type,
				uint16_t dst, const struct msg *m)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = type;
	a->msg.src = ctx->me;
	a->msg.dst = dst;
	a->msg.object = m->object;
	a->msg.req_node = m->req_node;
	a->msg.req_slot = m->req_slot;
	return a;
}

static void page_ask(const struct page_ctx *ctx, struct copy *p, uint8_t type, uint8_t flags,
		     const struct msg *m, struct actions *out)
{
	struct action *a =
		page_send(ctx, out, type, p->home ? (uint16_t)(p->home - 1) : m->home, m);

	a->msg.req_node = ctx->me;
	flags |= m->flags & (type == MSG_WRITE_REQ ? MSGF_PLACE : MSGF_PUSH);
	a->msg.flags =
		(uint8_t)(flags | (p->home ? MSGF_KNOWN : 0) | (m->flags & MSGF_FIRST_TOUCH));
	p->slot = m->req_slot;
	p->acks = 0;
	p->flags &= (uint8_t) ~(PAGE_BRIEF | PAGE_OVERTAKEN);
	a = act_add(out, ACT_WAIT);
	a->slot = p->slot;
}

static void confirm(const struct page_ctx *ctx, struct copy *p, const struct msg *m,
		    struct actions *out)
{
	struct action *a;

	p->hold = ctx->now + ctx->hold_us;
	if (!(p->flags & PAGE_BRIEF)) {
		a = page_send(ctx, out, MSG_DONE, (uint16_t)(p->home - 1), m);
		a->msg.req_node = ctx->me;
		a->msg.req_slot = p->slot;
	}
}

/*
 * On channels that keep no order, an invalidation for a later write overtakes the contents of a
 * brief read:
 *
 *   home -- DATA (brief) ------------------------> this node
 *   home -- INV --> this node -- INV_ACK --> a writer, which goes on
 *
 * So this node asks once more, and confirms: as the home waits for that, it gets them this time. An
 * invalidation of an earlier copy, which was dropped silently, looks the same.
 */
static void ask_anew(const struct page_ctx *ctx, struct copy *p, const struct msg *m,
		     struct actions *out)
{
	struct action *a = page_send(ctx, out, MSG_READ_REQ, m->home, m);

	a->msg.flags = MSGF_KNOWN | MSGF_CONFIRM;
	p->home = (uint16_t)(m->home + 1);
	p->flags &= (uint8_t)~PAGE_OVERTAKEN;
}

static void open_now(struct copy *p, uint8_t prot, uint8_t from, struct actions *out)
{
	struct action *a = act_add(out, ACT_OPEN);

	a->prot = prot;
	a->from = from;
	a = act_add(out, ACT_WAKE);
	a->slot = p->slot;
	p->state = prot == PROT_RW ? PG_GOT_WRITE : PG_GOT_READ;
	if (prot == PROT_RW)
		p->flags |= PAGE_OWNER;
}

/*
 * The grant is here. Count the acknowledgements still to come, and open when there are none. A home
 * that reads a block becomes its owner, which sends copies to other nodes from then on.
 */
static void granted(const struct page_ctx *ctx, struct copy *p, const struct msg *m, uint8_t from,
		    struct actions *out)
{
	p->home = (uint16_t)(m->home + 1);
	p->flags &= (uint8_t)~PAGE_OVERTAKEN;
	if (m->op == GRANT_READ) {
		if (data_is_brief(m))
			p->flags |= PAGE_BRIEF;
		open_now(p, PROT_RO, from, out);
		if (m->home == ctx->me)
			p->flags |= PAGE_OWNER;
		return;
	}
	p->acks = (int16_t)(p->acks + m->count);
	if (p->acks == 0) {
		open_now(p, PROT_RW, from, out);
		return;
	}
	if (from == OPEN_DATA)
		act_add(out, ACT_LAND);
	p->flags = (uint8_t)((p->flags & ~0xf0) |
			     (from == OPEN_UPGRADE ? OPEN_UPGRADE : OPEN_LANDED) << 4);
	p->state = PG_COUNT;
}

static void page_give(const struct page_ctx *ctx, struct copy *p, const struct msg *m, uint8_t prot,
		      struct actions *out)
{
	struct action *a = page_send(ctx, out, MSG_DATA, m->req_node, m);

	a->type = ACT_DATA;
	a->prot = prot;
	/* what is given up, so that the host need not look */
	a->from = p->state == PG_WRITE ? PROT_RW : PROT_RO;
	a->msg.op = prot == PROT_CLOSED ? GRANT_WRITE : GRANT_READ;
	a->msg.home = (uint16_t)(p->home - 1);
	a->msg.count = m->count;
}

static void page_drop(const struct page_ctx *ctx, const struct msg *m, bool close,
		      struct actions *out)
{
	if (close)
		act_add(out, ACT_CLOSE);
	page_send(ctx, out, MSG_INV_ACK, m->req_node, m);
}

/*
 * Do pins forbid what this event wants? A pin for reading does not forbid giving a copy, or
 * answering that only a copy is possible.
 */
static bool page_is_pinned(const struct copy *p, enum page_event ev)
{
	return p->pins_write || (p->pins_read && ev != PE_FWD_READ && ev != PE_FWD_MIGRATE);
}

static void set_aside(struct copy *p, enum page_event ev, const struct msg *m)
{
	p->held = (uint8_t)ev;
	p->held_node = m->req_node;
	p->held_slot = m->req_slot;
	p->held_count = m->count;
}

/*
 * May the block be taken away now? Not before its thread has had the time to use it (Mirage's
 * delta), and not while it is pinned. A home serves one request at a time, so there is at most one
 * message to hold back.
 */
static bool hold_back(const struct page_ctx *ctx, struct copy *p, enum page_event ev,
		      const struct msg *m, struct actions *out)
{
	bool stays = page_is_pinned(p, ev);
	bool early = p->state != PG_UPGRADE && ctx->hold_us && us_before(ctx->now, p->hold) &&
		p->hold - ctx->now <= ctx->hold_us;

	if (ev == PE_FWD_READ && p->state != PG_WRITE)
		return false;
	if (!stays && !early)
		return false;
	set_aside(p, ev, m);
	if (!stays) {
		struct action *a = act_add(out, ACT_TIMER);

		a->at = p->hold;
	}
	return true;
}

/* The rules for a copy that another node wants. */
static int lose(const struct page_ctx *ctx, struct copy *p, enum rule rule, const struct msg *m,
		struct actions *out)
{
	switch (rule) {
	case R_ACK_NONE:
	case R_ACK_WANTED:
		if (rule == R_ACK_WANTED)
			p->flags |= PAGE_OVERTAKEN;
		page_drop(ctx, m, false, out);
		return 0;
	case R_DROP:
		p->state = PG_INVALID;
		p->flags = 0;
		page_drop(ctx, m, true, out);
		return 0;
	case R_DROP_ASKING:
		p->state = PG_WANT_WRITE;
		p->flags = 0;
		page_drop(ctx, m, true, out);
		return 0;
	case R_SHARE:
	case R_DEMOTE:
		page_give(ctx, p, m, PROT_RO, out);
		if (rule == R_DEMOTE)
			p->state = PG_READ;
		if (m->req_node == p->home - 1)
			p->flags = 0; /* the home is the owner now */
		return 0;
	case R_GIVE:
	case R_GIVE_ASKING:
	case R_MIGRATE:
		if (rule == R_MIGRATE && p->pins_read) {
			page_send(ctx, out, MSG_KEPT, (uint16_t)(p->home - 1), m);
			return 0;
		}
		page_give(ctx, p, m, PROT_CLOSED, out);
		p->state = rule == R_GIVE_ASKING ? PG_WANT_WRITE : PG_INVALID;
		p->flags = 0;
		return 0;
	default: return -EBADMSG;
	}
}

static int page_apply(const struct page_ctx *ctx, struct copy *p, enum rule rule,
		      const struct msg *m, struct actions *out);

/* The deferred message is due: handle it as if it came now, unless a pin has come meanwhile. */
static int page_replay(const struct page_ctx *ctx, struct copy *p, const struct msg *ev,
		       struct actions *out)
{
	struct msg m = { .object = ev->object,
			 .req_node = p->held_node,
			 .req_slot = p->held_slot,
			 .count = p->held_count };
	uint8_t held = p->held;

	if (!held || page_is_pinned(p, (enum page_event)held))
		return 0;
	p->held = 0;
	return page_apply(ctx, p, (enum rule)rules[p->state][held], &m, out);
}

/* An invalidation has come before the block was used. It may be held as long as any copy. */
static int held_used(const struct page_ctx *ctx, struct copy *p, const struct msg *ev,
		     struct actions *out)
{
	if (!ctx->hold_us)
		return page_replay(ctx, p, ev, out);
	act_add(out, ACT_TIMER)->at = p->hold;
	return 0;
}

static int page_apply(const struct page_ctx *ctx, struct copy *p, enum rule rule,
		      const struct msg *m, struct actions *out)
{
	struct action *a;

	switch (rule) {
	case R_AGAIN:
		a = act_add(out, ACT_OPEN);
		a->prot = page_writable(p) ? PROT_RW : PROT_RO;
		a->from = OPEN_AGAIN;
		return 0;
	case R_JOIN:
		a = act_add(out, ACT_WAIT);
		a->slot = p->slot;
		return 0;
	case R_ASK_READ:
		p->state = PG_WANT_READ;
		page_ask(ctx, p, MSG_READ_REQ, 0, m, out);
		return 0;
	case R_ASK_WRITE:
		p->state = PG_WANT_WRITE;
		page_ask(ctx, p, MSG_WRITE_REQ, 0, m, out);
		return 0;
	case R_ASK_UPGRADE:
		p->state = PG_UPGRADE;
		page_ask(ctx, p, MSG_WRITE_REQ, MSGF_HAS, m, out);
		return 0;
	case R_ASK_AGAIN:
		p->home = 0;
		page_send(ctx, out, p->state == PG_WANT_READ ? MSG_READ_REQ : MSG_WRITE_REQ,
			  m->home, m);
		return 0;
	case R_CONFIRM:
		confirm(ctx, p, m, out);
		p->state = p->state == PG_GOT_WRITE ? PG_WRITE : PG_READ;
		return p->held ? held_used(ctx, p, m, out) : 0;
	case R_DROP_USED:
		if (!(p->flags & PAGE_BRIEF) || p->held)
			return -EBADMSG; /* the home waits for MSG_DONE, or for INV_ACK */
		set_aside(p, PE_INV, m);
		return 0;
	case R_REPLAY: return page_replay(ctx, p, m, out);
	case R_FORGET:
		if (!(p->flags & PAGE_OWNER) && !p->held && !p->pins_read) {
			p->state = PG_INVALID;
			act_add(out, ACT_CLOSE);
		}
		return 0;
	case R_FILL:
		if (m->op != GRANT_WRITE &&
		    (m->op != GRANT_READ || p->state != PG_WANT_READ || m->count & ~1))
			return -EBADMSG;
		if (data_is_brief(m) && p->flags & PAGE_OVERTAKEN)
			ask_anew(ctx, p, m, out);
		else
			granted(ctx, p, m, OPEN_DATA, out);
		return 0;
	case R_FILLED:
	case R_PERMIT:
		if (m->op != GRANT_WRITE)
			return -EBADMSG;
		granted(ctx, p, m, OPEN_UPGRADE, out);
		return 0;
	case R_ZERO:
		if (m->op != GRANT_WRITE || !(m->flags & MSGF_ZERO) || m->count)
			return -EBADMSG;
		granted(ctx, p, m, OPEN_ZERO, out);
		return 0;
	case R_ACK_EARLY: p->acks--; return 0;
	case R_ACK:
		if (--p->acks == 0)
			open_now(p, PROT_RW, p->flags >> 4, out);
		return 0;
	case R_NOTHING: return 0;
	default: return lose(ctx, p, rule, m, out);
	}
}

int page_step(const struct page_ctx *ctx, struct copy *p, enum page_event ev, const struct msg *m,
	      struct actions *out)
{
	enum rule rule;

	out->n = 0;
	if (p->state >= PG_STATES || ev >= PE_EVENTS)
		return -EBADMSG;
	rule = (enum rule)rules[p->state][ev];
	if (rule == R_BAD || !may_say(ctx, p, ev, m))
		return -EBADMSG;
	switch (rule) {
	case R_SHARE:
	case R_DEMOTE:
	case R_GIVE:
	case R_GIVE_ASKING:
	case R_MIGRATE:
		if (!(p->flags & PAGE_OWNER))
			return -EBADMSG; /* a home forwards only to the owner */
		if (p->held)
			return -EBADMSG; /* a home serves one request at a time */
		if (hold_back(ctx, p, ev, m, out))
			return 0;
		break;
	case R_DROP:
	case R_DROP_ASKING:
		if (p->held)
			return -EBADMSG;
		if (hold_back(ctx, p, ev, m, out))
			return 0;
		break;
	default: break;
	}
	return page_apply(ctx, p, rule, m, out);
}

int page_pin(struct copy *p, uint8_t access)
{
	if (!(access & 2 ? page_writable(p) : page_readable(p)))
		return -EAGAIN;
	if ((access & 2 ? p->pins_write : p->pins_read) == 0xff)
		return -ERANGE;
	if (access & 2)
		p->pins_write++;
	else
		p->pins_read++;
	return 0;
}

int page_unpin(struct copy *p, uint8_t access)
{
	uint8_t *pins = access & 2 ? &p->pins_write : &p->pins_read;

	if (!*pins)
		return -EINVAL;
	return !--*pins && p->held;
}

static const char *const state_names[PG_STATES] = {
	"INVALID", "READ",  "WRITE",    "WANT_READ", "WANT_WRITE",
	"UPGRADE", "COUNT", "GOT_READ", "GOT_WRITE",
};

static const char *const event_names[PE_EVENTS] = {
	"read", "write",   "used",     "replay",    "drop",        "DATA",  "GRANT",
	"INV",  "INV_ACK", "FWD_READ", "FWD_WRITE", "FWD_MIGRATE", "MOVED",
};

const char *page_state_name(unsigned int state)
{
	return state < PG_STATES ? state_names[state] : "?";
}

const char *page_event_name(unsigned int event)
{
	return event < PE_EVENTS ? event_names[event] : "?";
}

const char *page_rule_name(unsigned int state, unsigned int event)
{
	return state < PG_STATES && event < PE_EVENTS ? rule_names[rules[state][event]] : "?";
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * closing.c - see closing.h (docs/protocol.md, "Release blocks"). The caller holds the lock of the
 * node's closes.
 */
#include "core/closing.h"
#include "core/set.h"
#include "core/sync.h"

enum rule {
	R_BAD = 0,
	R_RELEASE, /* send the message, or let it wait for a close */
	R_ASK,     /* a close, or one more after this one */
	R_FLUSH,   /* FLUSH */
	R_TELL,    /* NOTE for the node's own close */
	R_GATHERED,
	R_ACKED,   /* a FLUSH is acknowledged */
	R_SERVE,   /* begin a service */
	R_SPREAD,  /* NOTE of a service */
	R_MERGED,  /* the service waits for its NOTEs */
	R_NOTICED, /* NOTED */
	R_NOTED,   /* a NOTE is acknowledged */
	R_DRAIN,
	R_RULES
};

/* clang-format off */
static const char *const rule_names[R_RULES] = {
	[R_BAD] = "-", [R_RELEASE] = "send or hold", [R_ASK] = "gather, or once more", [R_FLUSH] = "FLUSH", [R_TELL] = "NOTE",
	[R_GATHERED] = "wait", [R_ACKED] = "count", [R_SERVE] = "begin a service", [R_SPREAD] = "NOTE",
	[R_MERGED] = "FLUSHED when noted", [R_NOTICED] = "NOTED", [R_NOTED] = "count", [R_DRAIN] = "go on",
};

#define ANY_PHASE                                                                                               \
	[CE_RELEASE] = R_RELEASE, [CE_CLOSE] = R_ASK, [CE_FLUSH] = R_SERVE, [CE_SPREAD] = R_SPREAD,             \
	[CE_MERGED] = R_MERGED, [CE_NOTE] = R_NOTICED, [CE_NOTED] = R_NOTED, [CE_DRAIN] = R_DRAIN

static const uint8_t rules[CLOSING_PHASES][CLOSING_EVENTS] = {
	[CLOSING_IDLE] = { ANY_PHASE },
	[CLOSING_GATHER] = { ANY_PHASE, [CE_SENT] = R_FLUSH, [CE_TOLD] = R_TELL, [CE_GATHERED] = R_GATHERED, [CE_FLUSHED] = R_ACKED },
	[CLOSING_WAIT] = { ANY_PHASE, [CE_FLUSHED] = R_ACKED },
};
/* clang-format on */

static void closing_send(const struct closing_ctx *ctx, uint8_t type, uint16_t dst, uint16_t writer,
			 uint64_t close, struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = type;
	a->msg.src = ctx->me;
	a->msg.dst = dst;
	a->msg.req_node = writer;
	a->msg.value = close;
}

/* ---- services -------------------------------------------------------------------------------- */

/*
 * The line of services. Each has two places in it: NOTES from its beginning, until its NOTEs are
 * acknowledged; ENDS once it has merged everything, until it is first. So it ends after all NOTEs
 * of blocks that others had taken copies away of before it merged, and waits for no end of another
 * service.
 */
enum { NOTES, ENDS };

static void line_add(const struct closing_ctx *ctx, struct closing *n, uint16_t node,
		     unsigned int place)
{
	const uint16_t entry = (uint16_t)(node * 2u + place + 1);

	ctx->peers[node].next[place] = 0;
	if (n->last)
		ctx->peers[(n->last - 1) / 2].next[(n->last - 1) & 1] = entry;
	else
		n->first = entry;
	n->last = entry;
}

static void service_begin(const struct closing_ctx *ctx, struct closing *n, uint16_t node,
			  uint64_t close)
{
	struct closing_peer *p = &ctx->peers[node];

	p->serving = close;
	p->merging = 1;
	p->asked = 0;
	line_add(ctx, n, node, NOTES);
}

/* Notices for this node are complete, of the service of `writer`. */
static int service_note(const struct closing_ctx *ctx, uint16_t writer, uint16_t dst,
			struct actions *out)
{
	struct closing_peer *p = &ctx->peers[writer];
	const uint16_t g = set_granule(ctx->nnodes);

	if (!p->merging || dst >= ctx->nnodes || dst == ctx->me || dst == writer ||
	    (g == 1 && set_has(p->asked, dst, g)))
		return -EBADMSG;
	p->asked |= set_of(dst, g);
	p->notes++;
	closing_send(ctx, MSG_NOTE, dst, writer, p->serving, out);
	return 0;
}

static int service_noted(const struct closing_ctx *ctx, const struct msg *m)
{
	struct closing_peer *p = m->req_node < ctx->nnodes ? &ctx->peers[m->req_node] : NULL;
	const uint16_t g = set_granule(ctx->nnodes);

	if (!p || p->serving != m->value || !p->notes || !set_has(p->asked, m->src, g))
		return -EBADMSG;
	if (g == 1)
		p->asked &= ~set_of(m->src, g);
	p->notes--;
	return 0;
}

/* Whoever is first in line may leave it. */
static bool line_next(const struct closing_ctx *ctx, struct closing *n, struct actions *out)
{
	const uint16_t node = (uint16_t)((n->first - 1) / 2), place = (n->first - 1) & 1;
	struct closing_peer *p;

	if (!n->first)
		return false;
	p = &ctx->peers[node];
	if (place == NOTES && (p->merging || p->notes))
		return false;
	n->first = p->next[place];
	if (!n->first)
		n->last = 0;
	p->next[place] = 0;
	if (place == NOTES)
		return true;
	if (node != ctx->me) {
		p->flushed = p->serving;
		closing_send(ctx, MSG_FLUSHED, node, node, p->serving, out);
	}
	p->serving = 0;
	p->asked = 0;
	return true;
}

/* ---- the node's own closes ------------------------------------------------------------------- */

static void closing_begin(const struct closing_ctx *ctx, struct closing *n, struct actions *out)
{
	n->phase = CLOSING_GATHER;
	__atomic_store_n(&n->run, n->asked, __ATOMIC_RELEASE);
	service_begin(ctx, n, ctx->me, n->run);
	act_add(out, ACT_GATHER);
}

/* The next close that begins. */
static uint64_t closing_ask(const struct closing_ctx *ctx, struct closing *n, struct actions *out)
{
	n->asked = n->run + 1;
	if (n->phase == CLOSING_IDLE)
		closing_begin(ctx, n, out);
	return n->asked;
}

static bool closing_end(const struct closing_ctx *ctx, struct closing *n, struct actions *out)
{
	if (n->phase != CLOSING_WAIT || n->flushes || ctx->peers[ctx->me].serving)
		return false;
	__atomic_store_n(&n->ended, n->run, __ATOMIC_RELEASE);
	n->phase = CLOSING_IDLE;
	if (n->asked != n->run)
		closing_begin(ctx, n, out);
	return true;
}

bool closing_releases(const struct msg *m)
{
	return wire_order(m->type) & ORDER_RELEASE && (m->type != MSG_SYNC || sync_releases(m->op));
}

bool closing_acquires(const struct msg *m)
{
	return wire_order(m->type) & ORDER_ACQUIRE;
}

bool closing_gathered(const struct closing *n, uint64_t close)
{
	return close < n->run || (close == n->run && n->phase != CLOSING_GATHER);
}

/* ---- messages that wait ---------------------------------------------------------------------- */

/*
 * May it leave? If all that is outstanding is at its destination: *what tells what the destination
 * must have served first. That is known of a NOTE only if each node has a bit of its own.
 */
static bool may_leave(const struct closing_ctx *ctx, const struct closing *n,
		      const struct closing_held *h, uint8_t *what)
{
	const struct closing_peer *to = &ctx->peers[h->m.dst], *own = &ctx->peers[ctx->me];
	const bool flush = to->sent;

	*what = 0;
	if (h->close <= n->ended)
		return true;
	if (h->close != n->run || n->flushes != flush)
		return false;
	*what = flush ? AFTER_FLUSH : 0;
	if (!own->serving)
		return true;
	if (n->first != ctx->me * 2 + NOTES + 1 || own->next[NOTES] != ctx->me * 2 + ENDS + 1 ||
	    own->notes != 1 || set_granule(ctx->nnodes) > 1 || !set_has(own->asked, h->m.dst, 1))
		return false;
	*what |= AFTER_NOTE;
	return true;
}

static bool may_come(const struct closing_ctx *ctx, uint16_t src, uint64_t close, uint8_t what)
{
	const struct closing_peer *p = &ctx->peers[src];

	return !(what & AFTER_FLUSH && p->flushed < close) &&
		!(what & AFTER_NOTE && p->noted < close);
}

static struct closing_held *held_take(const struct closing_ctx *ctx, struct closing *n,
				      const struct msg *m)
{
	uint32_t i;

	for (i = 0; i < ctx->nheld; i++)
		if (!ctx->held[i].used) {
			n->held++;
			ctx->peers[m->src].held++;
			ctx->held[i].used = 1;
			ctx->held[i].m = *m;
			return &ctx->held[i];
		}
	return NULL;
}

static void held_free(const struct closing_ctx *ctx, struct closing *n, struct closing_held *h)
{
	ctx->peers[h->m.src].held--;
	memset(h, 0, sizeof(*h));
	n->held--;
}

/* One message that has waited long enough. */
static bool held_next(const struct closing_ctx *ctx, struct closing *n, struct actions *out)
{
	uint32_t i, left = n->held;
	uint8_t what = 0;

	for (i = 0; left && i < ctx->nheld; i++) {
		struct closing_held *h = &ctx->held[i];
		struct action *a;

		if (!h->used)
			continue;
		left--;
		if (!(h->in ? may_come(ctx, h->m.src, h->close, h->in)
			    : may_leave(ctx, n, h, &what)))
			continue;
		a = act_add(out, h->in ? ACT_DELIVER : what ? ACT_AFTER : ACT_SEND);
		a->prot = h->in ? 0 : what;
		a->mask = h->close;
		a->msg = h->m;
		held_free(ctx, n, h);
		return true;
	}
	return false;
}

/* Whatever can go on now. Lists of actions are bounded: more follows by CE_DRAIN. */
static void closing_drain(const struct closing_ctx *ctx, struct closing *n, struct actions *out)
{
	const unsigned int most = out->n + CLOSING_DRAIN;

	while (out->n < most)
		if (!line_next(ctx, n, out) && !closing_end(ctx, n, out) && !held_next(ctx, n, out))
			return;
	act_add(out, ACT_DRAIN);
}

/*
 * The node has something to close if it has an open block; or if a service is under way: see
 * closing.h.
 */
static int closing_release(const struct closing_ctx *ctx, struct closing *n, const struct msg *m,
			   struct actions *out)
{
	struct closing_held *h;

	if (n->phase == CLOSING_IDLE && !n->first &&
	    !__atomic_load_n(&ctx->lists->opened, __ATOMIC_ACQUIRE)) {
		act_add(out, ACT_SEND)->msg = *m;
		return 0;
	}
	h = held_take(ctx, n, m);
	if (!h)
		return -ENOSPC;
	h->close = closing_ask(ctx, n, out);
	return 0;
}

int closing_after(const struct closing_ctx *ctx, struct closing *n, const struct msg *after,
		  const struct msg *inside, struct actions *out)
{
	struct closing_held *h;

	out->n = 0;
	if (after->src >= ctx->nnodes || after->src == ctx->me || inside->src != after->src ||
	    inside->dst != ctx->me || !closing_releases(inside))
		return -EBADMSG;
	if (may_come(ctx, after->src, after->value, after->op)) {
		act_add(out, ACT_DELIVER)->msg = *inside;
		return 0;
	}
	if (ctx->peers[after->src].held >= ctx->nheld / 2)
		return -EBADMSG;
	h = held_take(ctx, n, inside);
	if (!h)
		return -ENOSPC;
	h->close = after->value;
	h->in = after->op;
	return 0;
}

static int closing_serve(const struct closing_ctx *ctx, struct closing *n, const struct msg *m)
{
	const struct closing_peer *p = &ctx->peers[m->src];

	/* A node has one FLUSH at a time. */
	if (m->src == ctx->me || p->serving || m->value <= p->flushed)
		return -EBADMSG;
	service_begin(ctx, n, m->src, m->value);
	return 0;
}

/* The notices are in the list. Of the sender's own close, messages may be waiting for it. */
static int closing_noticed(const struct closing_ctx *ctx, const struct msg *m, struct actions *out)
{
	struct closing_peer *p = &ctx->peers[m->src];

	if (m->src == ctx->me || m->req_node == ctx->me)
		return -EBADMSG;
	if (m->req_node == m->src) {
		if (m->value <= p->noted)
			return -EBADMSG;
		p->noted = m->value;
	}
	closing_send(ctx, MSG_NOTED, m->src, m->req_node, m->value, out);
	return 0;
}

static int closing_acked(const struct closing_ctx *ctx, struct closing *n, const struct msg *m)
{
	struct closing_peer *p = &ctx->peers[m->src];

	if (!p->sent || p->sent != m->value)
		return -EBADMSG;
	p->sent = 0;
	n->flushes--;
	return 0;
}

static int closing_flush(const struct closing_ctx *ctx, struct closing *n, uint16_t dst,
			 struct actions *out)
{
	if (dst >= ctx->nnodes || dst == ctx->me || ctx->peers[dst].sent)
		return -EBADMSG;
	ctx->peers[dst].sent = n->run;
	n->flushes++;
	closing_send(ctx, MSG_FLUSH, dst, ctx->me, n->run, out);
	return 0;
}

static int closing_merged(const struct closing_ctx *ctx, struct closing *n, uint16_t node)
{
	struct closing_peer *p = &ctx->peers[node];

	if (!p->merging)
		return -EBADMSG;
	p->merging = 0;
	line_add(ctx, n, node, ENDS);
	return 0;
}

static int closing_apply(const struct closing_ctx *ctx, struct closing *n, enum rule rule,
			 const struct msg *m, struct actions *out)
{
	switch (rule) {
	case R_RELEASE: return closing_release(ctx, n, m, out);
	case R_ASK: n->due = closing_ask(ctx, n, out); return 0;
	case R_FLUSH: return closing_flush(ctx, n, m->dst, out);
	case R_TELL: return service_note(ctx, ctx->me, m->dst, out);
	case R_SPREAD: return m->src == ctx->me ? -EBADMSG : service_note(ctx, m->src, m->dst, out);
	case R_GATHERED: n->phase = CLOSING_WAIT; return closing_merged(ctx, n, ctx->me);
	case R_MERGED: return m->src == ctx->me ? -EBADMSG : closing_merged(ctx, n, m->src);
	case R_ACKED: return closing_acked(ctx, n, m);
	case R_SERVE: return closing_serve(ctx, n, m);
	case R_NOTICED: return closing_noticed(ctx, m, out);
	case R_NOTED: return service_noted(ctx, m);
	default: return 0;
	}
}

int closing_step(const struct closing_ctx *ctx, struct closing *n, enum closing_event ev,
		 const struct msg *m, struct actions *out)
{
	enum rule rule;
	int err;

	out->n = 0;
	if (n->phase >= CLOSING_PHASES || ev >= CLOSING_EVENTS)
		return -EBADMSG;
	rule = (enum rule)rules[n->phase][ev];
	if (rule == R_BAD || m->src >= ctx->nnodes)
		return -EBADMSG;
	err = closing_apply(ctx, n, rule, m, out);
	if (!err)
		closing_drain(ctx, n, out);
	return err;
}

/* clang-format off */
static const char *const phase_names[CLOSING_PHASES] = { "IDLE", "GATHER", "WAIT" };
static const char *const event_names[CLOSING_EVENTS] = {
	"release", "close", "sent", "told", "gathered", "FLUSHED", "FLUSH", "spread", "merged", "NOTE", "NOTED", "drain",
};
/* clang-format on */

const char *closing_phase_name(unsigned int phase)
{
	return phase < CLOSING_PHASES ? phase_names[phase] : "?";
}

const char *closing_event_name(unsigned int event)
{
	return event < CLOSING_EVENTS ? event_names[event] : "?";
}

const char *closing_rule_name(unsigned int phase, unsigned int event)
{
	return phase < CLOSING_PHASES && event < CLOSING_EVENTS ? rule_names[rules[phase][event]]
								: "?";
}

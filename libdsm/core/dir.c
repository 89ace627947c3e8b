// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * dir.c - the home's side of the coherence protocol (docs/protocol.md, "The directory").
 *
 * The caller holds the block's lock at this rank and carries the actions out after dropping it.
 */
#include "core/dir.h"

enum rule {
	R_BAD = 0,
	R_FIRST,    /* first touch: zeros, and the block is the requester's alone */
	R_COPY,     /* the owner sends a copy */
	R_TAKE,     /* all others lose theirs; the requester gets data unless it has it */
	R_FORWARD,  /* another rank is the home */
	R_RULES
};

static const char *const rule_names[R_RULES] = {
	"-", "GRANT (zero) or HOME", "FWD_READ to owner (FWD_WRITE if it migrates)", "INV to sharers; GRANT, or FWD_WRITE to owner", "forward to home",
};

static const uint8_t rules[DIR_STATES][2] = {
	/*                   READ_REQ    WRITE_REQ */
	[DIR_UNTOUCHED] = { R_FIRST,   R_FIRST },
	[DIR_PLACED]    = { R_FIRST,   R_FIRST },
	[DIR_SHARED]    = { R_COPY,    R_TAKE },
	[DIR_EXCLUSIVE] = { R_COPY,    R_TAKE },
	[DIR_MOVED]     = { R_FORWARD, R_FORWARD },
};

struct request {
	uint16_t rank, slot;
	uint8_t type, flags;
};

static struct msg *send(const struct dir_ctx *ctx, struct actions *out, uint8_t act, uint8_t type, uint16_t dst,
			uint32_t object, const struct request *r)
{
	struct action *a = act_add(out, act);

	a->msg.type = type;
	a->msg.src = ctx->me;
	a->msg.dst = dst;
	a->msg.object = object;
	a->msg.req_rank = r->rank;
	a->msg.req_slot = r->slot;
	a->msg.home = ctx->me;
	return &a->msg;
}

static void resume(const struct dir_ctx *ctx, struct dir *d, uint32_t object, struct actions *out)
{
	uint32_t head = queue_head(&ctx->queue, d->tail);
	struct action *a;

	if (!head) {
		d->phase = DIR_IDLE;
		return;
	}
	d->phase = DIR_TURN;
	a = act_add(out, ACT_RESUME);
	a->rank = queue_rank(&ctx->queue, head);
	a->slot = queue_slot(&ctx->queue, head);
	a->msg.type = MSG_RESUME;
	a->msg.src = a->msg.dst = ctx->me;
	a->msg.object = object;
	a->msg.req_rank = a->rank;
	a->msg.req_slot = a->slot;
}

static void first(const struct dir_ctx *ctx, struct dir *d, uint32_t object, const struct request *r, struct actions *out)
{
	struct msg *m;

	d->served = r->rank;
	d->owner = r->rank;
	if (d->state == DIR_UNTOUCHED && (r->flags & MSGF_FIRST_TOUCH) && r->rank != ctx->me) {
		d->state = DIR_MOVED;
		d->phase = DIR_HOMING;
		m = send(ctx, out, ACT_SEND, MSG_HOME, r->rank, object, r);
		m->op = r->type;
		return;
	}
	d->state = DIR_EXCLUSIVE;
	d->phase = DIR_BUSY;
	d->copyset = set_of(r->rank, set_granule(ctx->nranks));
	m = send(ctx, out, ACT_SEND, MSG_GRANT, r->rank, object, r);
	m->op = GRANT_WRITE;
	m->flags = MSGF_ZERO;
}

static void take(const struct dir_ctx *ctx, struct dir *d, uint32_t object, const struct request *r, struct actions *out)
{
	uint16_t g = set_granule(ctx->nranks);
	/* A coarse bit may be a neighbour's: only the owner is known to hold a copy then. */
	bool has = d->owner == r->rank ||
		   (g == 1 && (r->flags & MSGF_HAS) && set_has(d->copyset, r->rank, g));
	uint16_t except = has ? SET_NOBODY : d->owner;
	uint16_t n = set_count(d->copyset, ctx->nranks, g, r->rank, except);
	struct msg *m;

	/* The last to read is now the one to write, and the only other copy is the previous writer's: the block migrates. */
	if (g == 1 && has && d->state == DIR_SHARED && d->owner != r->rank && d->served == r->rank &&
	    d->copyset == (set_of(d->owner, g) | set_of(r->rank, g)))
		d->migratory = 1;
	if (n) {
		send(ctx, out, ACT_MCAST, MSG_INV, SET_NOBODY, object, r);
		out->v[out->n - 1].mask = d->copyset;
		out->v[out->n - 1].except = except;
	}
	if (has)
		m = send(ctx, out, ACT_SEND, MSG_GRANT, r->rank, object, r);
	else
		m = send(ctx, out, ACT_SEND, MSG_FWD_WRITE, d->owner, object, r);
	m->op = GRANT_WRITE;
	m->count = (int16_t)n;
	d->state = DIR_EXCLUSIVE;
	d->phase = DIR_BUSY;
	d->owner = d->served = r->rank;
	d->copyset = set_of(r->rank, g);
}

/*
 * A reader of a block that migrates (Cox and Fowler, 1993) gets it for writing, which saves it the upgrade. Every
 * sixteenth gets a copy only; if then somebody else reads before that reader has written, the block migrates no more.
 */
static void copy(const struct dir_ctx *ctx, struct dir *d, uint32_t object, const struct request *r, struct actions *out)
{
	if (d->migratory && d->state == DIR_EXCLUSIVE && ++d->sample) {
		take(ctx, d, object, r, out);
		return;
	}
	if (d->state == DIR_SHARED)
		d->migratory = 0;
	send(ctx, out, ACT_SEND, MSG_FWD_READ, d->owner, object, r);
	d->copyset |= set_of(r->rank, set_granule(ctx->nranks));
	d->state = DIR_SHARED;
	d->phase = DIR_BUSY;
	d->served = r->rank;
}

static int serve(const struct dir_ctx *ctx, struct dir *d, uint32_t object, const struct request *r, struct actions *out)
{
	struct msg *m;

	switch ((enum rule)rules[d->state][r->type == MSG_WRITE_REQ]) {
	case R_FIRST:
		first(ctx, d, object, r, out);
		return 0;
	case R_COPY:
		if (r->rank == d->owner)
			return -EBADMSG; /* the owner has one */
		copy(ctx, d, object, r, out);
		return 0;
	case R_TAKE:
		if (d->state == DIR_EXCLUSIVE && r->rank == d->owner)
			return -EBADMSG; /* it may write already */
		take(ctx, d, object, r, out);
		return 0;
	case R_FORWARD:
		m = send(ctx, out, ACT_SEND, r->type, d->owner, object, r);
		m->flags = (uint8_t)(r->flags & ~MSGF_FIRST_TOUCH);
		return 0;
	case R_BAD:
	case R_RULES:
		break;
	}
	return -EBADMSG;
}

static int request(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out)
{
	struct request r = { .rank = m->req_rank, .slot = m->req_slot, .type = m->type, .flags = m->flags };
	uint32_t node;

	/* Only a manager may speak for another rank. */
	if (r.rank >= ctx->nranks || r.slot >= ctx->queue.nslots)
		return -EBADMSG;
	if (d->phase == DIR_IDLE)
		return serve(ctx, d, m->object, &r, out);
	node = queue_node(&ctx->queue, r.rank, r.slot);
	if (queue_busy(&ctx->queue, node))
		return -EBADMSG;
	queue_at(&ctx->queue, node)->type = r.type;
	queue_at(&ctx->queue, node)->flags = r.flags;
	d->tail = queue_push(&ctx->queue, d->tail, node) & 0x3fffff;
	return 0;
}

static int turn(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out)
{
	uint32_t head = queue_head(&ctx->queue, d->tail);
	struct request r;

	if (d->phase != DIR_TURN || !head)
		return -EBADMSG;
	r.rank = queue_rank(&ctx->queue, head);
	r.slot = queue_slot(&ctx->queue, head);
	r.type = queue_at(&ctx->queue, head)->type;
	r.flags = queue_at(&ctx->queue, head)->flags;
	d->tail = queue_pop(&ctx->queue, d->tail) & 0x3fffff;
	d->phase = DIR_IDLE;
	/* Forwarded: nothing of it comes back here. What no correct rank would ask: too late to refuse, but not to forget. */
	if (serve(ctx, d, m->object, &r, out) || d->phase == DIR_IDLE)
		resume(ctx, d, m->object, out);
	return 0;
}

static int become_home(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out)
{
	struct request r = { .rank = m->req_rank, .slot = m->req_slot, .type = m->op };

	if (d->state != DIR_UNTOUCHED || d->phase != DIR_IDLE || r.rank != ctx->me)
		return -EBADMSG;
	if (r.type != MSG_READ_REQ && r.type != MSG_WRITE_REQ)
		return -EBADMSG;
	send(ctx, out, ACT_SEND, MSG_HOME_ACK, m->src, m->object, &r);
	return serve(ctx, d, m->object, &r, out);
}

static int place(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out)
{
	struct request r = { .rank = m->req_rank, .slot = m->req_slot };
	struct msg *reply = send(ctx, out, ACT_SEND, MSG_REPLY, r.rank, m->object, &r);

	if (m->value >= ctx->nranks) {
		reply->count = -EINVAL;
	} else if (d->phase != DIR_IDLE || d->state > DIR_PLACED) {
		reply->count = -EBUSY;
	} else if (m->value == ctx->me) {
		d->state = DIR_PLACED;
		reply->count = 0;
	} else {
		d->state = DIR_MOVED;
		d->owner = (uint16_t)m->value;
		reply->count = 0;
	}
	return 0;
}

int dir_step(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out)
{
	out->n = 0;
	if (d->state >= DIR_STATES || d->phase >= DIR_PHASES)
		return -EBADMSG;
	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
		return request(ctx, d, m, out);
	case MSG_DONE:
		if (d->phase != DIR_BUSY || m->src != d->served)
			return -EBADMSG;
		resume(ctx, d, m->object, out);
		return 0;
	case MSG_HOME_ACK:
		if (d->phase != DIR_HOMING || m->src != d->served)
			return -EBADMSG;
		resume(ctx, d, m->object, out);
		return 0;
	case MSG_RESUME:
		return turn(ctx, d, m, out);
	case MSG_HOME:
		return become_home(ctx, d, m, out);
	case MSG_PLACE:
		return place(ctx, d, m, out);
	default:
		return -EBADMSG;
	}
}

static const char *const state_names[DIR_STATES] = { "UNTOUCHED", "PLACED", "SHARED", "EXCLUSIVE", "MOVED" };
static const char *const phase_names[DIR_PHASES] = { "IDLE", "BUSY", "HOMING", "TURN" };

const char *dir_state_name(unsigned int state)
{
	return state < DIR_STATES ? state_names[state] : "?";
}

const char *dir_phase_name(unsigned int phase)
{
	return phase < DIR_PHASES ? phase_names[phase] : "?";
}

const char *dir_rule_name(unsigned int state, unsigned int type)
{
	return state < DIR_STATES ? rule_names[rules[state][type == MSG_WRITE_REQ]] : "?";
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * dir.c - the home's side of the coherence protocol (docs/protocol.md, "The directory").
 *
 * The caller holds the block's lock at this node and carries the actions out after dropping it.
 */
#include "core/dir.h"

enum rule {
	R_BAD = 0,
	R_FIRST,     /* first touch: zeros, and the block is the requester's alone */
	R_COPY,      /* the owner sends a copy */
	R_TAKE,      /* all others lose theirs; the requester gets data unless it has it */
	R_SEND_BACK, /* another node has become the home: the requester asks the manager */
	R_FORWARD,   /* another node is the home */
	R_RULES
};

static const char *const rule_names[R_RULES] = {
	"-",
	"GRANT (zero) or HOME",
	"FWD_READ to owner (FWD_MIGRATE if it migrates)",
	"INV to sharers; GRANT, or FWD_WRITE to owner",
	"MOVED",
	"forward to home, or MOVED",
};

/* clang-format off */
static const uint8_t rules[DIR_STATES][2] = {
	/*                   READ_REQ    WRITE_REQ */
	[DIR_UNTOUCHED] = { R_FIRST,   R_FIRST },
	[DIR_PLACED]    = { R_FIRST,   R_FIRST },
	[DIR_SHARED]    = { R_COPY,    R_TAKE },
	[DIR_EXCLUSIVE] = { R_COPY,    R_TAKE },
	[DIR_MOVED]     = { R_FORWARD, R_FORWARD },
	[DIR_LEFT]      = { R_SEND_BACK, R_SEND_BACK },
};
/* clang-format on */

struct request {
	uint16_t node, slot;
	uint8_t type, flags;
	bool beside; /* served beside other reads: marked and counted */
};

/* A node's number is below WIRE_MAX_NODES. */
#define NODE(r) ((r) & (WIRE_MAX_NODES - 1u))

static struct msg *dir_send(const struct dir_ctx *ctx, struct actions *out, uint8_t act,
			    uint8_t type, uint16_t dst, uint32_t object, const struct request *r)
{
	struct action *a = act_add(out, act);

	a->msg.type = type;
	a->msg.src = ctx->me;
	a->msg.dst = dst;
	a->msg.object = object;
	a->msg.req_node = r->node;
	a->msg.req_slot = r->slot;
	a->msg.home = ctx->me;
	return &a->msg;
}

/* Does the requester want more than the block, to be its home? */
static bool places(const struct dir_ctx *ctx, const struct request *r)
{
	return r->flags & MSGF_PLACE && r->node != ctx->me;
}

/*
 * Whoever is first in line goes next; a request that has to be alone waits for the last of the
 * reads that are under way.
 */
static void resume(const struct dir_ctx *ctx, struct dir *d, uint32_t object, struct actions *out)
{
	uint32_t head = queue_head(&ctx->queue, d->tail);
	struct action *a;

	d->phase = DIR_IDLE;
	if (!head || (d->readers && queue_at(&ctx->queue, head)->type != MSG_READ_REQ))
		return;
	d->phase = DIR_TURN;
	a = act_add(out, ACT_RESUME);
	a->node = queue_requester(&ctx->queue, head);
	a->slot = queue_slot(&ctx->queue, head);
	a->msg.type = MSG_RESUME;
	a->msg.src = a->msg.dst = ctx->me;
	a->msg.object = object;
	a->msg.req_node = a->node;
	a->msg.req_slot = a->slot;
}

/*
 * A read of a block that has copies changes nothing but the copyset, so many may be under way. The
 * owner has a copy in place and sends it to each; a home that reads becomes the owner, and until
 * its copy is there nobody can be sent to it: alone.
 */
static bool beside(const struct dir_ctx *ctx, const struct dir *d, uint32_t object,
		   const struct request *r)
{
	return r->type == MSG_READ_REQ && d->state == DIR_SHARED && r->node != d->owner &&
		r->node != ctx->me && d->readers < DIR_READERS &&
		queue_mark(&ctx->queue, queue_number(&ctx->queue, r->node, r->slot), object);
}

static void dir_first(const struct dir_ctx *ctx, struct dir *d, uint32_t object,
		      const struct request *r, struct actions *out)
{
	struct msg *m;

	d->served = d->owner = NODE(r->node);
	/*
	 * Only where it was placed is a block nobody has touched asked for by way of its manager.
	 */
	d->uses = d->state == DIR_PLACED || (r->flags & MSGF_FORWARDED) ? DIR_STAYS : 0;
	if (d->state == DIR_UNTOUCHED && (r->flags & MSGF_FIRST_TOUCH) && r->node != ctx->me) {
		d->state = DIR_MOVED;
		d->phase = DIR_HOMING;
		d->copyset = 0;
		m = dir_send(ctx, out, ACT_SEND, MSG_HOME, r->node, object, r);
		m->op = r->type;
		return;
	}
	d->state = DIR_EXCLUSIVE;
	d->phase = places(ctx, r) ? DIR_HANDING : DIR_BUSY;
	d->copyset = set_of(r->node, set_granule(ctx->nnodes));
	m = dir_send(ctx, out, ACT_SEND, MSG_GRANT, r->node, object, r);
	m->op = GRANT_WRITE;
	m->flags = MSGF_ZERO;
}

/*
 * Is the last to read now the one to write, and the only other copy the previous writer's? That one
 * is the owner still, unless the home has read.
 */
static bool migrates(const struct dir_ctx *ctx, const struct dir *d, const struct request *r)
{
	uint16_t g = set_granule(ctx->nnodes);
	uint64_t others = d->copyset & ~set_of(r->node, g);

	return g == 1 && d->state == DIR_SHARED && d->served == r->node &&
		(d->owner != r->node || r->node == ctx->me) && others && !(others & (others - 1));
}

/*
 * Homes follow use: a node that writes again and again, with nobody else writing and the home not
 * even reading in between, is made the home. What the home does with the block it asks for, as each
 * write takes its copy away.
 */
static bool dir_follow(const struct dir_ctx *ctx, struct dir *d, const struct request *r)
{
	bool again = d->owner == r->node && r->node != ctx->me;

	if (d->uses == DIR_STAYS || !ctx->follow)
		return false;
	if (again && d->uses + 1u >= ctx->follow)
		return true;
	d->uses = (again ? d->uses + 1u : 0) & 3;
	return false;
}

/* Is the requester, another node that is granted the block to write, to push it? */
static bool pushes(const struct dir_ctx *ctx, const struct dir *d, const struct request *r,
		   bool has)
{
	if (!ctx->pushes)
		return false;
	if (r->node != ctx->me)
		return push_written(ctx->push, d->owner == ctx->me, has && !d->migratory);
	ctx->push->told = 0;
	return false;
}

static void dir_take(const struct dir_ctx *ctx, struct dir *d, uint32_t object,
		     const struct request *r, struct actions *out)
{
	uint16_t g = set_granule(ctx->nnodes);
	/* A coarse bit may be a neighbour's: only the owner is known to hold a copy then. */
	bool has = d->owner == r->node ||
		(g == 1 && (r->flags & MSGF_HAS) && set_has(d->copyset, r->node, g));
	uint16_t except = has ? SET_NOBODY : d->owner;
	uint16_t n = set_count(d->copyset, ctx->nnodes, g, r->node, except);
	bool follows = dir_follow(ctx, d, r), push;
	struct msg *m;

	if (has && migrates(ctx, d, r))
		d->migratory = 1;
	push = pushes(ctx, d, r, has);
	if (n) {
		dir_send(ctx, out, ACT_MCAST, MSG_INV, SET_NOBODY, object, r);
		out->v[out->n - 1].mask = d->copyset;
		out->v[out->n - 1].except = except;
	}
	if (has)
		m = dir_send(ctx, out, ACT_SEND, MSG_GRANT, r->node, object, r);
	else
		m = dir_send(ctx, out, ACT_SEND, MSG_FWD_WRITE, d->owner, object, r);
	m->op = GRANT_WRITE;
	m->flags = push ? MSGF_PUSH : 0;
	m->count = (int16_t)n;
	d->state = DIR_EXCLUSIVE;
	d->phase = follows || places(ctx, r) ? DIR_HANDING : DIR_BUSY;
	d->owner = d->served = NODE(r->node);
	d->copyset = set_of(r->node, g);
}

/*
 * The owner hands the block to a reader. Should it be pinned there it stays, and the reader gets a
 * copy (dir_kept()): until the reader is done, the copyset remembers from whom the block comes.
 */
static void migrate(const struct dir_ctx *ctx, struct dir *d, uint32_t object,
		    const struct request *r, struct actions *out)
{
	dir_send(ctx, out, ACT_SEND, MSG_FWD_MIGRATE, d->owner, object, r);
	d->copyset |= set_of(r->node, set_granule(ctx->nnodes));
	d->owner = d->served = NODE(r->node);
	d->uses = d->uses == DIR_STAYS ? DIR_STAYS : 0;
	d->phase = DIR_BUSY;
}

/* The home uses the block. */
static void read_back(const struct dir_ctx *ctx, struct dir *d)
{
	d->uses = d->uses == DIR_STAYS ? DIR_STAYS : 0;
	if (ctx->pushes)
		push_missed(ctx->push, ctx->pushes);
}

/*
 * A reader of a block that migrates (Cox and Fowler, 1993) gets it for writing, which saves it the
 * upgrade. Every sixteenth gets a copy only; if then somebody else reads before that reader has
 * written, the block migrates no more.
 *
 * A home that reads becomes the owner: the next readers get their copies from it, a message less
 * each. That a block is given back to it (MSGF_PUSH) is no use of it.
 */
static void dir_copy(const struct dir_ctx *ctx, struct dir *d, uint32_t object,
		     const struct request *r, struct actions *out)
{
	const bool push = r->flags & MSGF_PUSH;
	struct msg *m;

	if (d->migratory && d->state == DIR_EXCLUSIVE && !push && ++d->sample) {
		migrate(ctx, d, object, r, out);
		return;
	}
	if (d->state == DIR_SHARED)
		d->migratory = 0;
	m = dir_send(ctx, out, ACT_SEND, MSG_FWD_READ, d->owner, object, r);
	m->count = ctx->brief && d->owner == ctx->me && !(r->flags & MSGF_CONFIRM);
	d->copyset |= set_of(r->node, set_granule(ctx->nnodes));
	d->state = DIR_SHARED;
	d->served = NODE(r->node);
	if (r->node == ctx->me) {
		d->owner = d->served;
		if (!push)
			read_back(ctx, d);
	}
	if (r->beside)
		d->readers++;
	else
		d->phase = DIR_BUSY;
}

/*
 * A request that was forwarded here is not forwarded again: two that were made to forward to each
 * other would do so for ever. Where this is not the block's manager, whoever moved the block here
 * has lied, not the manager.
 */
static int misled(const struct dir_ctx *ctx, const struct dir *d, struct actions *out)
{
	if (ctx->manager == SET_NOBODY)
		return -ESTALE;
	if (ctx->manager == ctx->me)
		return -EBADMSG;
	act_add(out, ACT_BLAME)->node = d->served;
	return 0;
}

/* The requester takes this node for the home: it forgets that, and asks the manager. */
static void send_back(const struct dir_ctx *ctx, uint16_t manager, uint32_t object,
		      const struct request *r, struct actions *out)
{
	dir_send(ctx, out, ACT_SEND, MSG_MOVED, r->node, object, r)->value = manager;
}

/*
 * No correct node asks for that; but the manager, which passes on what it is asked for, cannot
 * know.
 */
static int dir_refuse(const struct request *r)
{
	return r->flags & MSGF_FORWARDED ? -ESTALE : -EBADMSG;
}

static int dir_apply(const struct dir_ctx *ctx, struct dir *d, uint32_t object,
		     const struct request *r, struct actions *out)
{
	struct msg *m;

	switch ((enum rule)rules[d->state][r->type == MSG_WRITE_REQ]) {
	case R_FIRST: dir_first(ctx, d, object, r, out); return 0;
	case R_COPY:
		if (r->node == d->owner)
			return dir_refuse(r); /* the owner has one */
		dir_copy(ctx, d, object, r, out);
		return 0;
	case R_TAKE:
		if (d->state == DIR_EXCLUSIVE && r->node == d->owner)
			return dir_refuse(r); /* it may write already */
		dir_take(ctx, d, object, r, out);
		return 0;
	case R_FORWARD:
		if (r->flags & MSGF_FORWARDED)
			return misled(ctx, d, out);
		if (r->flags & MSGF_KNOWN) {
			send_back(ctx, ctx->me, object, r, out);
			return 0;
		}
		d->copyset++;
		m = dir_send(ctx, out, ACT_SEND, r->type, d->owner, object, r);
		m->home = 0;
		m->flags = (uint8_t)((r->flags & ~MSGF_FIRST_TOUCH) | MSGF_FORWARDED);
		return 0;
	case R_SEND_BACK:
		/*
		 * The manager forwards nothing here any more, and who does not know better asks the
		 * manager.
		 */
		if (!(r->flags & MSGF_KNOWN) || (r->flags & MSGF_FORWARDED))
			return -EBADMSG;
		send_back(ctx, d->owner, object, r, out);
		return 0;
	case R_BAD:
	case R_RULES: break;
	}
	return -EBADMSG;
}

static int dir_serve(const struct dir_ctx *ctx, struct dir *d, uint32_t object,
		     const struct request *r, struct actions *out)
{
	int err = dir_apply(ctx, d, object, r, out);

	if (!err && (r->flags & MSGF_FORWARDED))
		++*ctx->forwarded;
	return err;
}

static bool may_manage(const struct dir_ctx *ctx, uint16_t node)
{
	return ctx->manager == SET_NOBODY || ctx->manager == node;
}

/*
 * Only its manager is asked for a block that nobody has touched. Who asks another node has had the
 * block of that one (KNOWN), so somebody has touched it; or the manager has sent the request on
 * (FORWARDED). Were a stray served here, the manager would be blamed for making this node the home
 * of a block that is in use.
 */
static bool strays(const struct dir_ctx *ctx, const struct dir *d, const struct msg *m)
{
	if (d->state > DIR_PLACED || m->src == ctx->me)
		return false;
	return m->flags & MSGF_KNOWN || !(m->flags & MSGF_FORWARDED || may_manage(ctx, ctx->me));
}

static int request(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		   struct actions *out)
{
	struct request r = {
		.node = m->req_node, .slot = m->req_slot, .type = m->type, .flags = m->flags
	};
	uint32_t entry;

	if (r.node >= ctx->nnodes || r.slot >= ctx->queue.nslots)
		return -EBADMSG;
	/* Only the manager may speak for another node. */
	if (r.flags & MSGF_FORWARDED ? !may_manage(ctx, m->src) : r.node != m->src)
		return -EBADMSG;
	if (strays(ctx, d, m))
		return -EBADMSG;
	if (d->phase == DIR_IDLE && !d->tail) {
		r.beside = beside(ctx, d, m->object, &r);
		if (r.beside || !d->readers)
			return dir_serve(ctx, d, m->object, &r, out);
	}
	entry = queue_number(&ctx->queue, r.node, r.slot);
	if (queue_busy(&ctx->queue, entry))
		return dir_refuse(&r);
	queue_at(&ctx->queue, entry)->type = r.type;
	queue_at(&ctx->queue, entry)->flags = r.flags;
	d->tail = queue_push(&ctx->queue, d->tail, entry) & 0x3fffff;
	return 0;
}

static int dir_turn(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		    struct actions *out)
{
	uint32_t head = queue_head(&ctx->queue, d->tail);
	struct request r;

	if (d->phase != DIR_TURN || !head)
		return -EBADMSG;
	r.node = queue_requester(&ctx->queue, head);
	r.slot = queue_slot(&ctx->queue, head);
	r.type = queue_at(&ctx->queue, head)->type;
	r.flags = queue_at(&ctx->queue, head)->flags;
	d->phase = DIR_IDLE;
	r.beside = beside(ctx, d, m->object, &r);
	if (!r.beside && d->readers)
		return 0; /* the last of them has the next turn */
	d->tail = queue_pop(&ctx->queue, d->tail) & 0x3fffff;
	/*
	 * A read beside others, or forwarded: the next may follow at once. What no correct node
	 * would ask: too late to refuse, but not to forget.
	 */
	if (dir_serve(ctx, d, m->object, &r, out) || d->phase == DIR_IDLE)
		resume(ctx, d, m->object, out);
	return 0;
}

/*
 * A home moves to the node that holds the only copy, while nothing of the block is under way:
 *
 *	home -- MOVE --> manager -- MOVE_ACK --> home -- ADOPT --> new home -- HOME_ACK --> manager
 *
 * The manager takes MOVE if all that it has forwarded has been served, and forwards nothing until
 * HOME_ACK; so no request comes to the new home too early, and none to the old one that the manager
 * has sent there. Where the home is the manager, there is ADOPT and HOME_ACK.
 */
static void dir_adopt(const struct dir_ctx *ctx, struct dir *d, uint32_t object, uint16_t manager,
		      struct actions *out)
{
	struct request r = { .node = d->owner };

	dir_send(ctx, out, ACT_SEND, MSG_ADOPT, d->owner, object, &r)->value = manager;
	d->copyset = 0;
	d->uses = 0;
}

static void dir_hand_over(const struct dir_ctx *ctx, struct dir *d, uint32_t object,
			  struct actions *out)
{
	struct request r = { .node = d->owner };

	/* Should the manager refuse, a block that was placed here stays. */
	if (d->uses != DIR_STAYS)
		d->uses = 0;
	if (ctx->manager == SET_NOBODY) {
		resume(ctx, d, object, out);
	} else if (ctx->manager == ctx->me) {
		dir_adopt(ctx, d, object, ctx->me, out);
		d->state = DIR_MOVED;
		d->phase = DIR_HOMING;
	} else {
		dir_send(ctx, out, ACT_SEND, MSG_MOVE, ctx->manager, object, &r)->value =
			*ctx->forwarded;
		d->phase = DIR_MOVING;
	}
}

/*
 * A block is placed at a node that is said to have the only copy: it becomes the home at once. That
 * may have changed since; then nothing happens. Whoever places the block asks the node again in any
 * case.
 */
static int dir_claim(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		     struct actions *out)
{
	struct request r = { .node = m->req_node, .slot = m->req_slot };
	struct msg *reply = dir_send(ctx, out, ACT_SEND, MSG_REPLY, r.node, m->object, &r);

	reply->home = 0;
	reply->count = -EBUSY;
	if (d->state != DIR_EXCLUSIVE || d->phase != DIR_IDLE || d->owner != m->value ||
	    m->value == ctx->me)
		return 0;
	d->served = d->owner;
	dir_hand_over(ctx, d, m->object, out);
	return 0;
}

bool dir_stay(struct dir *d)
{
	if ((d->state != DIR_PLACED && d->state != DIR_SHARED && d->state != DIR_EXCLUSIVE) ||
	    d->phase == DIR_HANDING || d->phase == DIR_MOVING)
		return false;
	d->uses = DIR_STAYS;
	return true;
}

/* A home asks whether it may hand over. */
static int dir_move(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		    struct actions *out)
{
	struct request r = { .node = m->src };
	struct msg *ack;

	if (!may_manage(ctx, ctx->me) || d->state != DIR_MOVED || m->src != d->owner ||
	    m->req_node >= ctx->nnodes || m->req_node == m->src)
		return -EBADMSG;
	ack = dir_send(ctx, out, ACT_SEND, MSG_MOVE_ACK, m->src, m->object, &r);
	ack->home = 0;
	if (d->phase != DIR_IDLE || (uint16_t)d->copyset != m->value) {
		ack->count = -EBUSY;
		return 0;
	}
	d->owner = d->served = NODE(m->req_node);
	d->copyset = 0;
	d->phase = DIR_HOMING;
	return 0;
}

static int moving(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		  struct actions *out)
{
	if (d->phase != DIR_MOVING || !may_manage(ctx, m->src))
		return -EBADMSG;
	if (!m->count) {
		dir_adopt(ctx, d, m->object, m->src, out);
		d->state = DIR_LEFT;
		d->owner = NODE(m->src);
	}
	resume(ctx, d, m->object, out);
	return 0;
}

/*
 * This node has the only copy and becomes the home. Of an earlier time as the home, or as the
 * manager, requests may queue.
 */
static int adopted(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		   struct actions *out)
{
	struct request r = { .node = ctx->me };
	bool manages = m->value == ctx->me;

	if (ctx->manager != SET_NOBODY && ctx->manager != m->value)
		return -EBADMSG;
	if (manages ? d->state != DIR_MOVED || d->phase != DIR_HOMING || d->served != ctx->me
		    : (d->state != DIR_UNTOUCHED && d->state != DIR_LEFT) ||
			    (d->phase != DIR_IDLE && d->phase != DIR_TURN))
		return -EBADMSG;
	d->state = DIR_EXCLUSIVE;
	d->owner = d->served = NODE(ctx->me);
	d->copyset = set_of(ctx->me, set_granule(ctx->nnodes));
	d->uses = d->migratory = 0;
	if (manages)
		resume(ctx, d, m->object, out);
	else
		dir_send(ctx, out, ACT_SEND, MSG_HOME_ACK, (uint16_t)m->value, m->object, &r);
	return 0;
}

/*
 * A block that migrates is pinned at the node that was to hand it over: it is read by several, so
 * it migrates no more.
 */
static int dir_kept(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		    struct actions *out)
{
	struct request r = { .node = m->req_node, .slot = m->req_slot };

	if (d->phase != DIR_BUSY || d->state != DIR_EXCLUSIVE || !d->migratory ||
	    r.node != d->owner || m->src == d->owner || m->src >= ctx->nnodes ||
	    !set_has(d->copyset, m->src, set_granule(ctx->nnodes)))
		return -EBADMSG;
	d->state = DIR_SHARED;
	d->owner = NODE(m->src);
	dir_copy(ctx, d, m->object, &r, out);
	return 0;
}

/* This node ends a brief read, which is over already: the reader has said so, and must not. */
static int undone(const struct dir_ctx *ctx, const struct msg *m, struct actions *out)
{
	if (m->src != ctx->me || m->req_node == ctx->me)
		return -EBADMSG;
	act_add(out, ACT_BLAME)->node = m->req_node;
	return 0;
}

static int done(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out)
{
	const uint16_t node = m->src == ctx->me ? m->req_node : m->src;

	if (d->phase == DIR_BUSY || d->phase == DIR_HANDING) {
		if (node != d->served)
			return undone(ctx, m, out);
		if (d->migratory && d->state == DIR_EXCLUSIVE)
			d->copyset = set_of(d->owner, set_granule(ctx->nnodes));
		if (d->phase == DIR_HANDING)
			dir_hand_over(ctx, d, m->object, out);
		else
			resume(ctx, d, m->object, out);
		return 0;
	}
	if (!d->readers || node >= ctx->nnodes || m->req_slot >= ctx->queue.nslots ||
	    !queue_unmark(&ctx->queue, queue_number(&ctx->queue, node, m->req_slot), m->object))
		return undone(ctx, m, out);
	if (!--d->readers && d->phase == DIR_IDLE)
		resume(ctx, d, m->object, out);
	return 0;
}

static int become_home(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		       struct actions *out)
{
	struct request r = { .node = m->req_node, .slot = m->req_slot, .type = m->op };

	if (d->state != DIR_UNTOUCHED || d->phase != DIR_IDLE || r.node != ctx->me ||
	    !may_manage(ctx, m->src))
		return -EBADMSG;
	if (r.type != MSG_READ_REQ && r.type != MSG_WRITE_REQ)
		return -EBADMSG;
	dir_send(ctx, out, ACT_SEND, MSG_HOME_ACK, m->src, m->object, &r);
	return dir_serve(ctx, d, m->object, &r, out);
}

static int dir_place(const struct dir_ctx *ctx, struct dir *d, const struct msg *m,
		     struct actions *out)
{
	struct request r = { .node = m->req_node, .slot = m->req_slot };
	struct msg *reply;

	/*
	 * Of a region that this node has not attached it may be the manager: its peers may be
	 * quick.
	 */
	if (!may_manage(ctx, ctx->me))
		return -EBADMSG;
	reply = dir_send(ctx, out, ACT_SEND, MSG_REPLY, r.node, m->object, &r);
	reply->home = 0;
	if (m->value >= ctx->nnodes) {
		reply->count = -EINVAL;
	} else if (d->phase != DIR_IDLE || d->state > DIR_PLACED) {
		reply->count = -EBUSY;
	} else if (m->value == ctx->me) {
		d->state = DIR_PLACED;
		reply->count = 0;
	} else {
		d->state = DIR_MOVED;
		d->owner = NODE(m->value);
		d->served = NODE(r.node);
		d->copyset = 0;
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
	case MSG_WRITE_REQ: return request(ctx, d, m, out);
	case MSG_DONE: return done(ctx, d, m, out);
	case MSG_KEPT: return dir_kept(ctx, d, m, out);
	case MSG_HOME_ACK:
		if (d->phase != DIR_HOMING || m->src != d->served)
			return -EBADMSG;
		resume(ctx, d, m->object, out);
		return 0;
	case MSG_RESUME: return dir_turn(ctx, d, m, out);
	case MSG_MOVE: return dir_move(ctx, d, m, out);
	case MSG_MOVE_ACK: return moving(ctx, d, m, out);
	case MSG_ADOPT: return adopted(ctx, d, m, out);
	case MSG_HOME: return become_home(ctx, d, m, out);
	case MSG_PLACE: return dir_place(ctx, d, m, out);
	case MSG_CLAIM: return dir_claim(ctx, d, m, out);
	default: return -EBADMSG;
	}
}

static const char *const state_names[DIR_STATES] = { "UNTOUCHED", "PLACED", "SHARED",
						     "EXCLUSIVE", "MOVED",  "LEFT" };
static const char *const phase_names[DIR_PHASES] = { "IDLE",   "BUSY",   "HANDING",
						     "MOVING", "HOMING", "TURN" };

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

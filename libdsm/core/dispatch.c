// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * dispatch.c - see dispatch.h: the targets of messages, their permitted senders, creation and
 * destruction of objects, refusals.
 */
#include "core/dispatch.h"

/* clang-format off */
static const uint8_t targets[MSG_TYPES] = {
	[MSG_READ_REQ] = TARGET_BLOCK, [MSG_WRITE_REQ] = TARGET_BLOCK, [MSG_DONE] = TARGET_BLOCK, [MSG_FWD_READ] = TARGET_BLOCK,
	[MSG_FWD_WRITE] = TARGET_BLOCK, [MSG_FWD_MIGRATE] = TARGET_BLOCK, [MSG_KEPT] = TARGET_BLOCK,
	[MSG_INV] = TARGET_BLOCK, [MSG_INV_ACK] = TARGET_BLOCK, [MSG_GRANT] = TARGET_BLOCK,
	[MSG_DATA] = TARGET_BLOCK, [MSG_HOME] = TARGET_BLOCK, [MSG_HOME_ACK] = TARGET_BLOCK, [MSG_MOVE] = TARGET_BLOCK,
	[MSG_MOVE_ACK] = TARGET_BLOCK, [MSG_ADOPT] = TARGET_BLOCK, [MSG_MOVED] = TARGET_BLOCK, [MSG_PLACE] = TARGET_BLOCK,
	[MSG_SETTLE] = TARGET_BLOCK, [MSG_CLAIM] = TARGET_BLOCK,
	[MSG_RELEASE] = TARGET_BLOCK, [MSG_RESUME] = TARGET_BLOCK,
	[MSG_LOCK] = TARGET_OBJECT, [MSG_TRYLOCK] = TARGET_OBJECT, [MSG_UNLOCK] = TARGET_OBJECT, [MSG_RECALLED] = TARGET_OBJECT,
	[MSG_SYNC] = TARGET_OBJECT, [MSG_REVOKED] = TARGET_OBJECT,
	[MSG_NEXT] = TARGET_HOLD, [MSG_LOCKED] = TARGET_HOLD, [MSG_FREED] = TARGET_HOLD, [MSG_RECALL] = TARGET_HOLD,
	[MSG_ARRIVE] = TARGET_BARRIER, [MSG_DEPART] = TARGET_BARRIER,
	[MSG_REPLY] = TARGET_SLOT,
	[MSG_CALL] = TARGET_HOST, [MSG_RETURN] = TARGET_HOST, [MSG_PING] = TARGET_HOST, [MSG_BYE] = TARGET_HOST,
	[MSG_CHUNK] = TARGET_HOST, [MSG_REVOKE] = TARGET_HOST,
	[MSG_FLUSHED] = TARGET_CLOSING, [MSG_NOTED] = TARGET_CLOSING,
	[MSG_FLUSH] = TARGET_HOST, [MSG_NOTE] = TARGET_HOST, [MSG_AFTER] = TARGET_HOST,
	[MSG_BUNDLE] = TARGET_HOST,
	[MSG_KEY_WANTED] = TARGET_HOST, [MSG_KEY] = TARGET_HOST, [MSG_ECHO] = TARGET_HOST, [MSG_HELLO] = TARGET_HOST,
};
/* clang-format on */

enum target dispatch_target(const struct msg *m, uint32_t *number)
{
	enum target t = m->type < MSG_TYPES ? (enum target)targets[m->type] : TARGET_NONE;

	if (m->type == MSG_RESUME && m->op)
		t = TARGET_OBJECT;
	if (m->type == MSG_SYNC && m->op == SOP_CREATE)
		t = TARGET_CREATE;
	*number = t == TARGET_OBJECT ? object_index(m)
		: t == TARGET_HOLD   ? m->aux
		: t == TARGET_SLOT   ? m->req_slot
				     : m->object;
	return t;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* clang-format off */
static const uint8_t page_events[MSG_TYPES] = {
	[MSG_DATA] = PE_DATA, [MSG_GRANT] = PE_GRANT, [MSG_INV] = PE_INV, [MSG_INV_ACK] = PE_INV_ACK,
	[MSG_FWD_READ] = PE_FWD_READ, [MSG_FWD_WRITE] = PE_FWD_WRITE, [MSG_FWD_MIGRATE] = PE_FWD_MIGRATE,
	[MSG_MOVED] = PE_MOVED,
};
/* clang-format on */

static struct action *dispatch_reply(const struct msg *m, uint16_t node, int16_t status,
				     struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = MSG_REPLY;
	a->msg.src = m->dst;
	a->msg.dst = a->msg.req_node = node;
	a->msg.req_slot = m->req_slot;
	a->msg.object = m->object;
	a->msg.count = status;
	return a;
}

/*
 * The newest copy comes back. A sender that does not own the block is only answered: an honest node
 * may have lost the block while this message was in flight, and waits for the answer before it
 * leaves the region.
 */
static int dispatch_release(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	struct action *a;

	dispatch_reply(m, m->src, 0, out);
	if ((d->dir->state != DIR_SHARED && d->dir->state != DIR_EXCLUSIVE) ||
	    d->dir->owner != m->src || m->src == d->me)
		return 0;
	/*
	 * It asks itself, and not the manager, even if it has never used the block. Should the home
	 * move before the request arrives, the request is sent back, as it knew the home.
	 */
	if (d->page->state == PG_INVALID && !d->page->home)
		d->page->home = (uint16_t)(d->me + 1);
	a = act_add(out, ACT_FETCH);
	a->prot = m->op == RELEASE_EVICT ? PROT_RW : PROT_RO;
	a->msg = *m;
	a->msg.flags = m->op == RELEASE_EVICT ? 0 : MSGF_PUSH;
	a->msg.home = d->me;
	return 0;
}

/*
 * This node should become the home of a block that has been touched. If it is not the home yet, it
 * requests the block, and becomes the home with it. If it has the only copy, it returns the home of
 * that (+ 1), for MSG_CLAIM. In both cases the answer is -EBUSY, and the rank that places the block
 * asks again until this node is the home. In a region that this node does not know it cannot ask:
 * -ENXIO.
 */
static int dispatch_settle(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	struct action *a;

	a = dispatch_reply(m, m->src, 0, out);
	if (dir_stay(d->dir))
		return 0;
	a->msg.count = d->manager == SET_NOBODY ? -ENXIO : -EBUSY;
	if (d->manager == SET_NOBODY)
		return 0;
	if (d->page->state == PG_WRITE) {
		a->msg.value = d->page->home;
	} else if (d->page->state == PG_INVALID || d->page->state == PG_READ) {
		a = act_add(out, ACT_FETCH);
		a->prot = PROT_RW;
		a->msg = *m;
		a->msg.flags = MSGF_PLACE;
		a->msg.home = d->manager;
	}
	return 0;
}

static int page_message(const struct dispatch *d, enum page_event ev, const struct msg *m,
			struct actions *out)
{
	const struct page_ctx page = {
		.me = d->me, .nnodes = d->nnodes, .now = d->now, .hold_us = d->hold_us
	};
	struct msg again;
	int err;

	if (ev == PE_MOVED) {
		if (d->manager != SET_NOBODY && d->manager != m->value)
			return -EBADMSG;
		again = *m;
		again.home = (uint16_t)m->value;
		m = &again;
	}
	err = page_step(&page, d->page, ev, m, out);
	/* Sent for a home, which may have lied about the requester. */
	return err && (ev == PE_DATA || ev == PE_INV_ACK) && m->src != d->me ? -ESTALE : err;
}

/*
 * A node accepts only the home of its own copy as the one that makes it the home, and only if it
 * may write the block.
 */
static bool may_adopt(const struct dispatch *d, const struct msg *m)
{
	return d->page->state == PG_WRITE && d->page->home && d->page->home - 1 == m->src &&
		m->src != d->me;
}

/*
 * A request of the home itself, forwarded by the manager, must be one that the home has made. Any
 * other would occupy the place in line of one of its slots, and the next real request in that slot
 * would be refused.
 */
static bool may_forward(const struct dispatch *d, const struct msg *m)
{
	if ((m->type != MSG_READ_REQ && m->type != MSG_WRITE_REQ) || !(m->flags & MSGF_FORWARDED) ||
	    m->req_node != d->me)
		return true;
	return page_asks(d->page) && d->page->slot == m->req_slot;
}

static int dir_message(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	const struct dir_ctx dir = { .me = d->me,
				     .nnodes = d->nnodes,
				     .manager = d->manager,
				     .follow = d->follow,
				     .pushes = d->pushes,
				     .brief = d->brief,
				     .push = &d->page->push,
				     .queue = d->queue,
				     .forwarded = &d->page->forwarded };
	int err;

	if (m->type == MSG_RELEASE)
		return dispatch_release(d, m, out);
	if (m->type == MSG_SETTLE)
		return dispatch_settle(d, m, out);
	/* The new home serves its own request, which must be in progress. */
	if (m->type == MSG_HOME &&
	    (!page_asks(d->page) || d->page->slot != m->req_slot || d->page->home))
		return -EBADMSG;
	if (m->type == MSG_ADOPT && !may_adopt(d, m))
		return -EBADMSG;
	if (!may_forward(d, m))
		return -EBADMSG;
	err = dir_step(&dir, d->dir, m, out);
	if (err)
		return err;
	if (m->type == MSG_ADOPT)
		d->page->home = (uint16_t)(d->me + 1);
	if (m->type == MSG_ADOPT || m->type == MSG_HOME) {
		d->page->forwarded = 0;
		d->page->push = (struct push){ 0 };
	}
	return 0;
}

/* Release blocks have few messages. */
static int dispatch_rel(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	switch ((enum msg_type)m->type) {
	case MSG_DATA: return rel_step(d->rel_ctx, d->rel, RE_DATA, m, out);
	case MSG_READ_REQ:
	case MSG_WRITE_REQ: return rel_step(d->rel_ctx, d->rel, RE_FETCH, m, out);
	case MSG_GRANT: return rel_step(d->rel_ctx, d->rel, RE_GRANT, m, out);
	case MSG_DONE: return rel_step(d->rel_ctx, d->rel, RE_DONE, m, out);
	default: return -EBADMSG;
	}
}

static int block_step(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	enum page_event ev = (enum page_event)page_events[m->type];

	if (d->rel)
		return dispatch_rel(d, m, out);
	return ev ? page_message(d, ev, m, out) : dir_message(d, m, out);
}

/* ---- objects -------------------------------------------------------------------------------- */

static int dispatch_create(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	struct sync *s = d->object;

	if (!d->index || !s) {
		dispatch_reply(m, m->src, -ENOSPC, out);
		return 0;
	}
	*s = (struct sync){ .kind = m->aux & 7, .gen = s->gen + 1, .value = m->value };
	dispatch_reply(m, m->src, 0, out)->msg.value = object_name(d->index, s->gen);
	return 0;
}

static int dispatch_destroy(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	const struct sync_ctx ctx = { .me = d->me, .queue = d->queue };
	const bool idle = sync_idle(d->object);

	dispatch_reply(m, m->src,
		       idle                                      ? 0
			       : sync_is_ending(&ctx, d->object) ? -EINPROGRESS
								 : -EBUSY,
		       out);
	if (!idle) {
		sync_stays(&ctx, d->object, m->object, out);
	} else {
		d->object->kind = SYNC_NONE;
		objects_give(d->objects, object_index(m));
	}
	return 0;
}

/* The mutex may be cached by a node, and idle: ask that node. */
static int destroy_mutex(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	if (sync_idle(d->object))
		return dispatch_destroy(d, m, out);
	if (!d->object->value || !lock_home_recall(d->me, d->object, m, out))
		dispatch_reply(m, m->src, -EINPROGRESS, out);
	return 0;
}

static int mutex_step(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	struct sync *s = d->object;
	struct msg again = {
		.type = MSG_SYNC, .op = SOP_DESTROY, .dst = d->me, .object = m->object
	};
	bool asked;
	int err = lock_home_step(d->me, s, m, &asked, out);

	again.src = s->who;
	again.req_slot = s->slot;
	if (err || !asked)
		return err;
	if (s->value && m->count == -EINPROGRESS)
		dispatch_reply(&again, again.src, -EINPROGRESS, out);
	else
		dispatch_destroy(d, &again, out);
	return 0;
}

static int dispatch_gone(const struct msg *m, struct actions *out)
{
	struct action *a;

	if (m->type == MSG_RESUME)
		return 0;
	if (m->type == MSG_RECALLED || m->type == MSG_REVOKED)
		return -EBADMSG; /* do not destroy an object while a question about it is out */
	a = dispatch_reply(m, m->src, -EINVAL, out);
	if (m->type == MSG_SYNC)
		return 0;
	/*
	 * A release has crossed that of its successor, which has destroyed the mutex: the lock was
	 * handed on.
	 */
	a->msg.type = MSG_FREED;
	a->msg.aux = m->aux;
	a->msg.count = m->type == MSG_UNLOCK ? 0 : -EINVAL;
	a->msg.value = m->type == MSG_UNLOCK;
	return 0;
}

/* The machines know the requester by req_node, which on the wire is a part of the object's name. */
static int object_step(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	const struct sync_ctx ctx = { .me = d->me, .leases = d->leases, .queue = d->queue };
	struct msg named = *m;

	if (!d->object || !d->object->kind || d->object->gen != object_gen(m))
		return dispatch_gone(m, out);
	named.req_node = m->src;
	if (m->type == MSG_SYNC && m->op == SOP_DESTROY)
		return d->object->kind == SYNC_MUTEX ? destroy_mutex(d, m, out)
						     : dispatch_destroy(d, m, out);
	if (m->type == MSG_SYNC || m->type == MSG_RESUME || m->type == MSG_REVOKED)
		return sync_step(&ctx, d->object, &named, out);
	return d->object->kind == SYNC_MUTEX ? mutex_step(d, &named, out) : dispatch_gone(m, out);
}

/* ---- locks, barriers, answers ---------------------------------------------------------------- */

static int dispatch_hold(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	enum hold_event ev = m->type == MSG_LOCKED ? HE_LOCKED
		: m->type == MSG_NEXT              ? HE_NEXT
		: m->count                         ? HE_REFUSED
						   : HE_FREED;
	const struct hold_ctx ctx = { .me = d->me, .fast = d->fast, .queue = d->queue };
	const struct hold *h = d->hold;
	unsigned int i;
	int err;

	if (m->type == MSG_RECALL)
		return hold_step(&ctx, m->aux, d->hold, HE_RECALL, m, out);
	if (h->state == HOLD_FREE || m->object != h->object ||
	    (m->type != MSG_NEXT && m->req_slot != h->slot))
		err = -EBADMSG;
	else if (m->type != MSG_LOCKED && m->src != h->home)
		return -EBADMSG; /* only the home may send NEXT and FREED */
	else
		err = hold_step(&ctx, m->aux, d->hold, ev, m, out);
	/* The last holder passes the lock to the node that the home has named. */
	if (err && m->type == MSG_LOCKED && m->src != d->me)
		return -ESTALE;
	for (i = 0; ev == HE_REFUSED && !err && i < out->n; i++)
		out->v[i].status = m->count;
	return err;
}

static int barrier_message(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	/* The group is known once one of this node's own threads has arrived. */
	const bool known = d->bar->threads || m->src == d->me;
	const struct bar_tree *t = known ? d->tree : NULL;
	struct bar_tree place;
	int err = d->group ? bar_admit(d->bar, m, d->group) : 0;

	if (err)
		return err;
	if (known && !t &&
	    !bar_tree(__atomic_load_n(&d->bar->mask, __ATOMIC_RELAXED), d->nnodes, d->me, &place))
		t = &place;
	return bar_step(d->me, t, d->combine, d->bar, d->part, m, out);
}

int dispatch_answer(uint64_t *ask, const struct msg *m, bool *last)
{
	return ask_answer(ask, m, last) ? 0 : -EBADMSG;
}

static int dispatch_slot(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	struct action *a;
	bool last;

	if (dispatch_answer(d->ask, m, &last))
		return -EBADMSG;
	a = act_add(out, ACT_REPLY);
	a->slot = m->req_slot;
	a->status = m->count;
	a->mask = m->value;
	a->prot = last;
	return 0;
}

int dispatch_step(const struct dispatch *d, const struct msg *m, struct actions *out)
{
	uint32_t number;

	out->n = 0;
	switch (dispatch_target(m, &number)) {
	case TARGET_BLOCK: return block_step(d, m, out);
	case TARGET_CREATE: return dispatch_create(d, m, out);
	case TARGET_OBJECT: return object_step(d, m, out);
	case TARGET_HOLD: return dispatch_hold(d, m, out);
	case TARGET_BARRIER: return barrier_message(d, m, out);
	case TARGET_SLOT: return dispatch_slot(d, m, out);
	case TARGET_CLOSING:
		if (!d->closing)
			return -EBADMSG;
		return closing_step(d->closes, d->closing,
				    m->type == MSG_FLUSHED ? CE_FLUSHED : CE_NOTED, m, out);
	case TARGET_HOST:
	case TARGET_NONE: break;
	}
	return -EBADMSG;
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* lock.c - the two machines of a queue lock (docs/protocol.md, "Locks"). */
#include "core/lock.h"

static struct msg *lock_send(uint16_t me, struct actions *out, uint8_t type, uint16_t dst,
			     uint32_t object, uint16_t node, uint16_t slot, uint32_t hold)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = type;
	a->msg.src = me;
	a->msg.dst = dst;
	a->msg.object = object;
	a->msg.req_node = node;
	a->msg.req_slot = slot;
	a->msg.aux = hold;
	return &a->msg;
}

static uint64_t line_end(uint16_t node, uint32_t hold)
{
	return ((uint64_t)node << 32 | hold) + 1;
}

bool lock_home_recall(uint16_t me, struct sync *s, const struct msg *m, struct actions *out)
{
	uint64_t last = s->value - 1;

	if (s->pumping)
		return false;
	s->pumping = 1;
	s->asked = (uint16_t)(last >> 32);
	s->tail = (uint32_t)last;
	s->who = m->src;
	s->slot = m->req_slot;
	s->readers = m->aux;
	s->destroys = m->type == MSG_SYNC;
	lock_send(me, out, MSG_RECALL, s->asked, m->object, (uint16_t)(s->gen >> 8), 0, s->tail);
	return true;
}

/*
 * The lock was given back. If another node asked meanwhile, MSG_NEXT is on its way to the keeper,
 * which passes the lock on.
 */
static void lock_give_back(uint16_t me, struct sync *s, const struct msg *m, struct actions *out)
{
	bool was_last = s->value == line_end(m->req_node, m->aux);

	lock_send(me, out, MSG_FREED, m->req_node, m->object, m->req_node, m->req_slot, m->aux)
		->value = !was_last;
	if (was_last)
		s->value = 0;
}

/* The keeper has answered: grant or refuse the request that the question was for. */
static int recalled(uint16_t me, struct sync *s, const struct msg *m, bool *destroy,
		    struct actions *out)
{
	if (!s->pumping || m->req_node != s->asked || m->aux != s->tail)
		return -EBADMSG;
	if (!m->count)
		lock_give_back(me, s, m, out);
	s->pumping = 0;
	s->tail = 0;
	*destroy = s->destroys;
	if (s->destroys)
		return 0;
	if (s->value) {
		lock_send(me, out, MSG_FREED, s->who, m->object, s->who, s->slot, s->readers)
			->count = m->count == -EINPROGRESS ? -EINPROGRESS : -EBUSY;
	} else {
		s->value = line_end(s->who, s->readers);
		lock_send(me, out, MSG_LOCKED, s->who, m->object, s->who, s->slot, s->readers);
	}
	return 0;
}

int lock_home_step(uint16_t me, struct sync *s, const struct msg *m, bool *destroy,
		   struct actions *out)
{
	uint64_t last = s->value;
	struct msg *r;

	out->n = 0;
	*destroy = false;
	switch (m->type) {
	case MSG_TRYLOCK:
		if (last) {
			if (lock_home_recall(me, s, m, out))
				return 0;
			/* Another request already waits for the answer: repeat this one. */
			r = lock_send(me, out, MSG_FREED, m->req_node, m->object, m->req_node,
				      m->req_slot, m->aux);
			r->count = -EINPROGRESS;
			return 0;
		}
		__attribute__((__fallthrough__));
	case MSG_LOCK:
		s->value = line_end(m->req_node, m->aux);
		if (!last) {
			lock_send(me, out, MSG_LOCKED, m->req_node, m->object, m->req_node,
				  m->req_slot, m->aux);
			return 0;
		}
		last--;
		r = lock_send(me, out, MSG_NEXT, (uint16_t)(last >> 32), m->object, m->req_node,
			      m->req_slot, (uint32_t)last);
		r->value = m->aux;
		r->flags = m->flags;
		r->op = m->op;
		return 0;
	case MSG_UNLOCK: lock_give_back(me, s, m, out); return 0;
	case MSG_RECALLED: return recalled(me, s, m, destroy, out);
	default: return -EBADMSG;
	}
}

enum rule {
	R_BAD = 0,
	R_GRANTED,
	R_GRANTED_NEXT,
	R_REMEMBER,
	R_TELL_HOME,
	R_HAND_ON,
	R_HAND_LATE,
	R_EXPECT,
	R_FREE,
	R_REFUSED,
	R_UNLOCK,
	R_JOIN,
	R_TAKE,
	R_GIVE_BACK,
	R_NOT_IDLE,
	R_SOON,
	R_PASS,
	R_COME,
	R_RULES
};

/* clang-format off */
static const char *const rule_names[R_RULES] = {
	"-", "wake, HELD", "wake, HELD_NEXT", "note successor", "UNLOCK to home, LEAVING", "LOCKED to successor, FREE",
	"LOCKED to successor, LEFT", "LEAVING_NEXT", "FREE", "wake -EBUSY, FREE", "wake the next thread, or CACHED", "queue", "HELD",
	"RECALLED, LEAVING", "RECALLED (busy)", "RECALLED (soon)", "wake the next thread, or LOCKED to successor, FREE",
	"wake, HELD, or due",
};
/* clang-format on */

/* clang-format off */
static const uint8_t rules[HOLD_STATES][HE_EVENTS] = {
	[HOLD_FREE]      = { [HE_RECALL] = R_NOT_IDLE },
	[HOLD_WAITING]   = { [HE_LOCKED] = R_GRANTED, [HE_NEXT] = R_REMEMBER, [HE_REFUSED] = R_REFUSED, [HE_RECALL] = R_NOT_IDLE, [HE_JOIN] = R_JOIN },
	[HOLD_WAIT_NEXT] = { [HE_LOCKED] = R_GRANTED_NEXT, [HE_RECALL] = R_NOT_IDLE, [HE_JOIN] = R_JOIN },
	[HOLD_HELD]      = { [HE_UNLOCK] = R_UNLOCK, [HE_NEXT] = R_REMEMBER, [HE_RECALL] = R_NOT_IDLE, [HE_JOIN] = R_JOIN, [HE_COME] = R_COME },
	[HOLD_HELD_NEXT] = { [HE_UNLOCK] = R_PASS, [HE_RECALL] = R_NOT_IDLE, [HE_JOIN] = R_JOIN, [HE_COME] = R_COME },
	[HOLD_CACHED]    = { [HE_TAKE] = R_TAKE, [HE_GIVE] = R_TELL_HOME, [HE_NEXT] = R_HAND_ON, [HE_RECALL] = R_GIVE_BACK, [HE_COME] = R_COME },
	[HOLD_LEAVING]   = { [HE_NEXT] = R_HAND_LATE, [HE_FREED] = R_FREE, [HE_CROSSED] = R_EXPECT, [HE_RECALL] = R_SOON },
	[HOLD_LEAVING_NEXT] = { [HE_NEXT] = R_HAND_ON, [HE_RECALL] = R_NOT_IDLE },
	[HOLD_LEFT]      = { [HE_CROSSED] = R_FREE, [HE_RECALL] = R_NOT_IDLE },
};
/* clang-format on */

/* ---- the word: see lock.h -------------------------------------------------------------------- */

/* Take over the state that threads have left in the word of a fast record. */
static void hold_take_back(struct hold *h)
{
	if (!__atomic_load_n(&h->word, __ATOMIC_RELAXED))
		return; /* only steps make it fast */
	h->state = __atomic_exchange_n(&h->word, 0, __ATOMIC_SEQ_CST) & HOLD_TAKEN ? HOLD_HELD
										   : HOLD_CACHED;
}

/* Make the record fast, unless a thread waits that a release must wake, or give the lock to. */
static void hold_make_fast(const struct hold_ctx *ctx, struct hold *h)
{
	uint64_t name = hold_name(h->home, h->object, h->gen) | HOLD_FAST;

	if (!ctx->fast || h->wanted || (h->state != HOLD_HELD && h->state != HOLD_CACHED))
		return;
	if (h->turn == TURN_DUE || (h->line && h->turn == TURN_NONE))
		return;
	__atomic_store_n(&h->word, h->state == HOLD_HELD ? name | HOLD_TAKEN : name,
			 __ATOMIC_SEQ_CST);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void note_next(struct hold *h, const struct msg *m)
{
	h->next_node = m->req_node;
	h->next_slot = m->req_slot;
	h->next_hold = (uint32_t)m->value;
}

static void hold_wake(const struct hold *h, int16_t status, struct actions *out)
{
	struct action *a = act_add(out, ACT_WAKE);

	a->slot = h->slot;
	a->status = status;
}

/* Make the first thread in line the one that asks or holds now. False: the line is empty. */
static bool first_in_line(const struct hold_ctx *ctx, struct hold *h)
{
	uint32_t head = h->line ? queue_head(&ctx->queue, h->line) : 0;

	if (h->turn == TURN_DUE) {
		h->turn = TURN_NONE;
		return true;
	}
	if (!head)
		return false;
	h->slot = queue_slot(&ctx->queue, head);
	h->line = queue_pop(&ctx->queue, h->line);
	return true;
}

/* Threads in line behind the record still want the lock: request it again for them. */
static void ask_again(const struct hold_ctx *ctx, uint32_t index, struct hold *h,
		      struct actions *out)
{
	h->state = HOLD_FREE;
	if (!first_in_line(ctx, h))
		return;
	h->state = HOLD_WAITING;
	lock_send(ctx->me, out, MSG_LOCK, h->home, h->object, h->gen, h->slot, index)->op =
		ctx->claim;
}

static int hold_join(const struct hold_ctx *ctx, struct hold *h, const struct msg *m)
{
	uint32_t entry;

	if (!ctx->queue.nslots)
		return -EBADMSG;
	entry = queue_number(&ctx->queue, ctx->me, m->req_slot);
	if (queue_busy(&ctx->queue, entry))
		return -EBADMSG;
	queue_at(&ctx->queue, entry)->type = 1;
	h->line = queue_push(&ctx->queue, h->line, entry);
	return 0;
}

/*
 * Another node waits. The woken thread was woken before that node asked, so it gets the lock first.
 */
static void give_to_woken(struct hold *h)
{
	h->turn = TURN_GIVEN;
	h->passed++;
	h->state = HOLD_HELD_NEXT;
}

/*
 * Pass the lock to the next thread here, unless another node has waited for long enough; then to
 * that node. If there is neither, keep it.
 */
static void hold_unlock(const struct hold_ctx *ctx, uint32_t index, struct hold *h,
			struct actions *out)
{
	bool awaited = h->state == HOLD_HELD_NEXT;

	if (h->turn == TURN_WOKEN) { /* it is on its way already */
		if (awaited)
			give_to_woken(h);
		else
			h->state = HOLD_CACHED;
		return;
	}
	if (ctx->fast && !awaited && h->turn == TURN_NONE && first_in_line(ctx, h)) {
		h->turn = TURN_WOKEN;
		h->state = HOLD_CACHED;
		hold_wake(h, -EAGAIN, out);
		return;
	}
	if ((!awaited || h->passed < ctx->passes) && first_in_line(ctx, h)) {
		h->passed += awaited;
		hold_wake(h, 0, out);
		return;
	}
	if (!awaited) {
		h->state = HOLD_CACHED;
		return;
	}
	lock_send(ctx->me, out, MSG_LOCKED, h->next_node, h->object, h->next_node, h->next_slot,
		  h->next_hold);
	ask_again(ctx, index, h, out);
}

static enum rule rule_of(const struct hold *h, enum hold_event ev, const struct msg *m)
{
	if (ev == HE_FREED && m->value)
		ev = HE_CROSSED;
	/* The home asked while the lock was here; the record may have another lock by now. */
	if (ev == HE_RECALL &&
	    (m->object != h->object || m->req_node != h->gen || m->src != h->home))
		return R_NOT_IDLE;
	/* The lock is free but a thread is on its way to it, or its holder does not know yet. */
	if (h->turn == TURN_WOKEN && h->state == HOLD_CACHED && (ev == HE_RECALL || ev == HE_GIVE))
		return ev == HE_RECALL ? R_NOT_IDLE : R_BAD;
	if (h->turn == TURN_GIVEN && ev == HE_UNLOCK)
		return R_BAD;
	return (enum rule)rules[h->state][ev];
}

/* A woken thread has arrived. */
static int hold_come(struct hold *h, const struct msg *m, struct actions *out)
{
	if ((h->turn != TURN_WOKEN && h->turn != TURN_GIVEN) || m->req_slot != h->slot)
		return -EBADMSG;
	if (h->turn == TURN_WOKEN && h->state != HOLD_CACHED) {
		h->turn = TURN_DUE;
		return 0;
	}
	h->turn = TURN_NONE;
	if (h->state == HOLD_CACHED)
		h->state = HOLD_HELD;
	hold_wake(h, 0, out);
	return 0;
}

static int react(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev,
		 const struct msg *m, struct actions *out)
{
	enum rule rule = rule_of(h, ev, m);
	const uint16_t me = ctx->me;

	switch (rule) {
	case R_GRANTED:
		h->state = HOLD_HELD;
		hold_wake(h, 0, out);
		return 0;
	case R_GRANTED_NEXT:
		h->state = HOLD_HELD_NEXT;
		h->passed = 0;
		hold_wake(h, 0, out);
		return 0;
	case R_REMEMBER:
		note_next(h, m);
		h->passed = 0;
		h->state = h->state == HOLD_HELD ? HOLD_HELD_NEXT : HOLD_WAIT_NEXT;
		return 0;
	case R_TELL_HOME:
		h->state = HOLD_LEAVING;
		lock_send(me, out, MSG_UNLOCK, h->home, h->object, h->gen, h->slot, index);
		return 0;
	case R_EXPECT: h->state = HOLD_LEAVING_NEXT; return 0;
	case R_HAND_ON:
	case R_HAND_LATE:
		if (ev == HE_NEXT)
			note_next(h, m);
		if (h->turn == TURN_WOKEN) {
			h->passed = 0;
			give_to_woken(h);
			return 0;
		}
		h->state = rule == R_HAND_ON ? HOLD_FREE : HOLD_LEFT;
		lock_send(me, out, MSG_LOCKED, h->next_node, h->object, h->next_node, h->next_slot,
			  h->next_hold);
		return 0;
	case R_FREE: h->state = HOLD_FREE; return 0;
	case R_REFUSED:
		hold_wake(h, -EBUSY, out);
		ask_again(ctx, index, h, out);
		return 0;
	case R_JOIN: return hold_join(ctx, h, m);
	case R_UNLOCK:
	case R_PASS: hold_unlock(ctx, index, h, out); return 0;
	case R_TAKE: h->state = HOLD_HELD; return 0;
	case R_GIVE_BACK:
		h->state = HOLD_LEAVING;
		lock_send(me, out, MSG_RECALLED, h->home, h->object, h->gen, h->slot, index);
		return 0;
	case R_NOT_IDLE:
	case R_SOON:
		lock_send(me, out, MSG_RECALLED, m->src, m->object, m->req_node, 0, index)->count =
			rule == R_SOON ? -EINPROGRESS : -EBUSY;
		return 0;
	case R_COME: return hold_come(h, m, out);
	case R_BAD:
	case R_RULES: break;
	}
	return -EBADMSG;
}

int hold_step(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev,
	      const struct msg *m, struct actions *out)
{
	int err;

	out->n = 0;
	if (h->state >= HOLD_STATES || ev >= HE_EVENTS)
		return -EBADMSG;
	hold_take_back(h);
	if (ev == HE_NEXT)
		h->wanted = 0;
	err = react(ctx, index, h, ev, m, out);
	hold_make_fast(ctx, h);
	return err;
}

void hold_begin(struct hold *h, const struct msg *ask)
{
	const struct hold fresh = { .state = HOLD_WAITING,
				    .home = ask->dst,
				    .object = ask->object,
				    .gen = ask->req_node,
				    .slot = ask->req_slot };

	/*
	 * All but the word, which is 0 now: a thread that found the record by an old hint swaps or
	 * reads it (hold_fast_take()).
	 */
	memcpy(h, &fresh, offsetof(struct hold, word));
}

int hold_thread(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev,
		const struct msg *about, struct actions *out)
{
	out->n = 0;
	if (about &&
	    (h->object != about->object || h->gen != about->req_node || h->home != about->dst))
		return -EBADMSG;
	return hold_step(ctx, index, h, ev, about, out);
}

bool hold_want(struct hold *h, const struct msg *next)
{
	if (h->object != next->object || h->home != next->src)
		return false;
	hold_take_back(h);
	if (h->state != HOLD_HELD && h->state != HOLD_CACHED)
		return false;
	h->wanted = 1;
	return true;
}

bool hold_leave(const struct hold_ctx *ctx, struct hold *h, uint16_t slot)
{
	bool found;

	h->line = queue_remove(&ctx->queue, h->line, queue_number(&ctx->queue, ctx->me, slot),
			       &found);
	return found;
}

static const char *const state_names[HOLD_STATES] = {
	"FREE",   "WAITING", "WAIT_NEXT",    "HELD", "HELD_NEXT",
	"CACHED", "LEAVING", "LEAVING_NEXT", "LEFT",
};
static const char *const event_names[HE_EVENTS] = {
	"unlock",          "take",   "join", "give back", "LOCKED", "NEXT", "FREED", "FREED (busy)",
	"FREED (crossed)", "RECALL", "come",
};

const char *hold_state_name(unsigned int state)
{
	return state < HOLD_STATES ? state_names[state] : "?";
}

const char *hold_event_name(unsigned int event)
{
	return event < HE_EVENTS ? event_names[event] : "?";
}

const char *hold_rule_name(unsigned int state, unsigned int event)
{
	return state < HOLD_STATES && event < HE_EVENTS ? rule_names[rules[state][event]] : "?";
}

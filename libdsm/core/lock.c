// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* lock.c - the two machines of a queue lock (docs/protocol.md, "Locks"). */
#include "core/lock.h"

static struct msg *send(uint16_t me, struct actions *out, uint8_t type, uint16_t dst, uint32_t object, uint16_t rank,
			uint16_t slot, uint16_t hold)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = type;
	a->msg.src = me;
	a->msg.dst = dst;
	a->msg.object = object;
	a->msg.req_rank = rank;
	a->msg.req_slot = slot;
	a->msg.home = hold;
	return &a->msg;
}

int lock_home_step(uint16_t me, struct sync *s, const struct msg *m, struct actions *out)
{
	uint64_t mine = ((uint64_t)m->req_rank << 16 | m->home) + 1;
	uint64_t last = s->value;
	struct msg *r;

	out->n = 0;
	switch (m->type) {
	case MSG_TRYLOCK:
		if (last) {
			r = send(me, out, MSG_FREED, m->req_rank, m->object, m->req_rank, m->req_slot, m->home);
			r->count = -EBUSY;
			return 0;
		}
		__attribute__((__fallthrough__));
	case MSG_LOCK:
		s->value = mine;
		if (!last) {
			send(me, out, MSG_LOCKED, m->req_rank, m->object, m->req_rank, m->req_slot, m->home);
			return 0;
		}
		last--;
		r = send(me, out, MSG_NEXT, (uint16_t)(last >> 16), m->object, m->req_rank, m->req_slot, (uint16_t)last);
		r->value = m->home;
		return 0;
	case MSG_UNLOCK:
		/* Somebody came after: MSG_NEXT is on its way to the releaser, who passes the lock on. */
		r = send(me, out, MSG_FREED, m->req_rank, m->object, m->req_rank, m->req_slot, m->home);
		r->value = last != mine;
		if (last == mine)
			s->value = 0;
		return 0;
	default:
		return -EBADMSG;
	}
}

enum rule { R_BAD = 0, R_GRANTED, R_GRANTED_NEXT, R_REMEMBER, R_TELL_HOME, R_HAND_ON, R_HAND_LATE, R_EXPECT, R_FREE, R_REFUSED,
	    R_RULES };

static const char *const rule_names[R_RULES] = {
	"-", "wake, HELD", "wake, HELD_NEXT", "note successor", "UNLOCK to home, LEAVING", "LOCKED to successor, FREE",
	"LOCKED to successor, LEFT", "LEAVING_NEXT", "FREE", "wake -EBUSY, FREE",
};

static const uint8_t rules[HOLD_STATES][HE_EVENTS] = {
	[HOLD_FREE]      = { 0 },
	[HOLD_WAITING]   = { [HE_LOCKED] = R_GRANTED, [HE_NEXT] = R_REMEMBER, [HE_REFUSED] = R_REFUSED },
	[HOLD_WAIT_NEXT] = { [HE_LOCKED] = R_GRANTED_NEXT },
	[HOLD_HELD]      = { [HE_UNLOCK] = R_TELL_HOME, [HE_NEXT] = R_REMEMBER },
	[HOLD_HELD_NEXT] = { [HE_UNLOCK] = R_HAND_ON },
	[HOLD_LEAVING]   = { [HE_NEXT] = R_HAND_LATE, [HE_FREED] = R_FREE, [HE_CROSSED] = R_EXPECT },
	[HOLD_LEAVING_NEXT] = { [HE_NEXT] = R_HAND_ON },
	[HOLD_LEFT]      = { [HE_CROSSED] = R_FREE },
};

static void note_next(struct hold *h, const struct msg *m)
{
	h->next_rank = m->req_rank;
	h->next_slot = m->req_slot;
	h->next_hold = (uint16_t)m->value;
}

static void wake(const struct hold *h, int16_t status, struct actions *out)
{
	struct action *a = act_add(out, ACT_WAKE);

	a->slot = h->slot;
	a->status = status;
}

int hold_step(uint16_t me, uint16_t index, struct hold *h, enum hold_event ev, const struct msg *m, struct actions *out)
{
	enum rule rule;

	out->n = 0;
	if (h->state >= HOLD_STATES || ev >= HE_EVENTS)
		return -EBADMSG;
	if (ev == HE_FREED && m->value)
		ev = HE_CROSSED;
	rule = (enum rule)rules[h->state][ev];
	switch (rule) {
	case R_GRANTED:
		h->state = HOLD_HELD;
		wake(h, 0, out);
		return 0;
	case R_GRANTED_NEXT:
		h->state = HOLD_HELD_NEXT;
		wake(h, 0, out);
		return 0;
	case R_REMEMBER:
		note_next(h, m);
		h->state = h->state == HOLD_HELD ? HOLD_HELD_NEXT : HOLD_WAIT_NEXT;
		return 0;
	case R_TELL_HOME:
		h->state = HOLD_LEAVING;
		send(me, out, MSG_UNLOCK, h->home, h->object, me, h->slot, index);
		return 0;
	case R_EXPECT:
		h->state = HOLD_LEAVING_NEXT;
		return 0;
	case R_HAND_ON:
	case R_HAND_LATE:
		if (ev == HE_NEXT)
			note_next(h, m);
		h->state = rule == R_HAND_ON ? HOLD_FREE : HOLD_LEFT;
		send(me, out, MSG_LOCKED, h->next_rank, h->object, h->next_rank, h->next_slot, h->next_hold);
		return 0;
	case R_FREE:
		h->state = HOLD_FREE;
		return 0;
	case R_REFUSED:
		h->state = HOLD_FREE;
		wake(h, -EBUSY, out);
		return 0;
	case R_BAD:
	case R_RULES:
		break;
	}
	return -EBADMSG;
}

static const char *const state_names[HOLD_STATES] = {
	"FREE", "WAITING", "WAIT_NEXT", "HELD", "HELD_NEXT", "LEAVING", "LEAVING_NEXT", "LEFT",
};
static const char *const event_names[HE_EVENTS] = { "unlock", "LOCKED", "NEXT", "FREED", "FREED (busy)", "FREED (crossed)" };

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

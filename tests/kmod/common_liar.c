// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_liar.h"

#include "tests/kmod/common_honest.h"
#include "tests/wire_values.h"

void liar_hear(struct liar *l, const struct msg *m)
{
	l->seen[l->nseen++ % LIAR_SEEN] = *m;
}

/* NULL: none yet. */
static const struct msg *any_seen(const struct liar *l, uint64_t *r)
{
	const unsigned int n = l->nseen < LIAR_SEEN ? l->nseen : LIAR_SEEN;

	return n ? &l->seen[pick(r, n)] : NULL;
}

struct wire_limits liar_limits(const struct liar *l)
{
	return (struct wire_limits){ .me = l->target,
				     .nnodes = l->ranks,
				     .host = HOST_KERNEL,
				     .block_slots = LIAR_SLOTS,
				     .slots = 65536,
				     .holds = DSM_HOLDS_MAX,
				     .barriers = l->ranks * DSM_BARRIERS_MAX,
				     .pages = JOB_PAGES,
				     .block_pages = DSM_UNIT_PAGES };
}

bool liar_is_wrong(const struct liar *l, const struct msg *m, unsigned int class)
{
	const struct wire_limits limits = liar_limits(l);

	return m->src != l->me || wire_check(m, &limits) ||
		(m->type == MSG_DATA && m->req_slot < LIAR_SHORT_SLOTS) || m->type == MSG_HELLO ||
		wire_class(m->type) != class;
}

/* Choose values that are likely to exist for fields that accept many values. */
static void aim(const struct liar *l, uint64_t *r, struct msg *m)
{
	const unsigned int order = pick(r, 4) ? 0 : pick(r, 10);

	m->req_slot = wire_rule_of(m->type, WF_req_slot) == RULE_ZERO
		? 0
		: (uint16_t)pick(r, pick(r, 2) ? 8 : LIAR_SLOTS);
	if (m->type == MSG_DATA)
		m->req_slot = (uint16_t)(LIAR_SHORT_SLOTS + pick(r, LIAR_SLOTS - LIAR_SHORT_SLOTS));
	if (wire_rule_of(m->type, WF_req_node) == RULE_NODE)
		m->req_node = (uint16_t)pick(r, l->ranks);
	if (wire_rule_of(m->type, WF_object) == RULE_BLOCK)
		m->object = (uint32_t)((pick(r, JOB_PAGES) >> order << order) << 1 | 1u << order);
	else if (wire_rule_of(m->type, WF_object) != RULE_BARRIER)
		m->object = (uint32_t)(pick(r, 2) << 24 | (1 + pick(r, 7)));
	if (wire_rule_of(m->type, WF_aux) == RULE_HOLD)
		m->aux = (uint32_t)pick(r, 4);
	if (wire_rule_of(m->type, WF_count) == RULE_ACKS)
		m->count = (int16_t)pick(r, 2);
	if (m->type == MSG_SYNC) {
		m->op = (uint8_t)pick(r, SYNC_OPS);
		m->aux = m->op == SOP_CREATE ? 1 + (uint32_t)pick(r, 5) : 0;
		m->value = pick(r, 4);
	}
	if (m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ)
		m->flags = (uint8_t)(pick(r, 2) * MSGF_FIRST_TOUCH);
}

static struct msg any_good(const struct liar *l, uint64_t *r)
{
	const struct wire_limits limits = liar_limits(l);
	struct msg m;

	do {
		m = wire_good((uint8_t)(1 + pick(r, MSG_TYPES - 1)), l->me, &limits);
		if (m.type == MSG_DATA)
			m.req_slot = LIAR_SHORT_SLOTS;
	} while (liar_is_wrong(l, &m, wire_class(m.type)));
	return m;
}

struct msg liar_plausible(const struct liar *l, uint64_t *r)
{
	const struct msg *seen = pick(r, 3) ? NULL : any_seen(l, r);
	struct msg m;

	if (seen) {
		m = *seen;
		m.src = l->me;
		m.dst = l->target;
		if (pick(r, 2))
			m.type = (uint8_t)(1 + pick(r, MSG_TYPES - 1));
		if (!liar_is_wrong(l, &m, wire_class(m.type)))
			return m;
	}
	m = any_good(l, r);
	aim(l, r, &m);
	return m;
}

struct msg liar_related(const struct liar *l, uint64_t *r, const struct msg *seen)
{
	const struct wire_limits limits = liar_limits(l);
	struct msg m = any_good(l, r);
	unsigned int f;

	for (f = WF_object; f < WIRE_FIELD_COUNT; f++) {
		const enum wire_rule rule = wire_rule_of(m.type, (enum wire_field)f);
		const int64_t v = wire_get(seen, (enum wire_field)f);
		const struct msg before = m;
		int64_t lo, hi;

		wire_range(rule, &m, &limits, &lo, &hi);
		if (v >= lo && v <= hi)
			wire_set(&m, (enum wire_field)f, v);
		if (liar_is_wrong(l, &m, wire_class(m.type)))
			m = before;
	}
	if (m.type == MSG_HOME)
		m.op = seen->type == MSG_WRITE_REQ ? MSG_WRITE_REQ : MSG_READ_REQ;
	if (m.type == MSG_ADOPT || m.type == MSG_MOVED)
		m.value = pick(r, 4) ? l->me : pick(r, l->ranks);
	if (wire_rule_of(m.type, WF_req_node) == RULE_OTHER && pick(r, 2))
		m.req_node = l->me;
	return m;
}

void liar_change_field(const struct liar *l, uint64_t *r, struct msg *m)
{
	const struct wire_limits limits = liar_limits(l);
	const enum wire_field f = (enum wire_field)pick(r, WIRE_FIELD_COUNT);
	int64_t values[WIRE_VALUES_MAX];
	unsigned int n = wire_values(m, f, &limits, values);

	wire_set(m, f, values[pick(r, n)]);
}

/*
 * A block of region 0 whose home is the target unless another rank touches it first (region_home()
 * of the module).
 */
static uint32_t block_there(const struct liar *l, uint64_t *r, const struct job *j)
{
	const unsigned int run = j->home == DSM_REGION_CYCLIC ? 1 : 16,
			   all = j->pages / run / l->ranks;
	/* Few runs, so that the blocks are near those of other ranks. */
	const unsigned int runs = all < 4 ? all : 64 / run / l->ranks < 4 ? 4 : 64 / run / l->ranks;

	return ((pick(r, runs) * l->ranks + l->target) * run + pick(r, run)) << 1 | 1;
}

struct msg liar_ask(const struct liar *l, uint64_t *r, const struct job *j)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = pick(r, 2) ? MSG_READ_REQ : MSG_WRITE_REQ,
			 .src = l->me,
			 .dst = l->target,
			 .object = block_there(l, r, j),
			 .req_node = l->me,
			 .req_slot = (uint16_t)pick(r, LIAR_SLOTS) };

	if (!pick(r, 4)) {
		m.type = MSG_SYNC;
		m.op = SOP_CREATE;
		m.aux = 1 + pick(r, 5);
		m.object = m.req_node = 0;
	}
	return m;
}

bool liar_answer(const struct liar *l, const struct msg *m, struct msg *a)
{
	*a = (struct msg){ .version = WIRE_VERSION,
			   .src = l->me,
			   .dst = l->target,
			   .object = m->object,
			   .req_node = m->req_node,
			   .req_slot = m->req_slot };
	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
		a->type = MSG_GRANT;
		a->op = GRANT_WRITE;
		a->flags = MSGF_ZERO;
		a->home = l->me;
		return true;
	case MSG_SYNC:
		a->type = MSG_REPLY;
		a->req_node = l->target;
		return true;
	case MSG_LOCK:
	case MSG_TRYLOCK:
		a->type = MSG_LOCKED;
		a->req_node = l->target;
		a->aux = m->aux;
		return true;
	case MSG_HOME:
		a->type = MSG_HOME_ACK;
		a->home = l->me;
		return true;
	case MSG_INV: a->type = MSG_INV_ACK; return true;
	case MSG_GRANT: /* an answer to our request */
	case MSG_DATA: a->type = MSG_DONE; return true;
	default: return false;
	}
}

void liar_keep_off(const struct liar *l, struct msg *m)
{
	const uint32_t page = (m->object & (m->object - 1)) >> 1;

	if (page < HONEST_FIRST || page >= JOB_PAGES || liar_is_wrong(l, m, wire_class(m->type)))
		return;
	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
	case MSG_PLACE:
	case MSG_SETTLE:
	case MSG_CLAIM:
	case MSG_KEY_WANTED:
	case MSG_ECHO: /* the target would ask for a key, and then accept one from a liar */
	case MSG_INV_ACK: m->object = 1; break;
	default: break;
	}
}

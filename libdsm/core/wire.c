// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * wire.c - checks a peer's messages: the table of core/wire.h as code. Each type has its own
 * straight code, with only the rules that it needs.
 */
#include "core/sync.h"
#include "core/wire.h"

#define BARRIER_TYPES 3u /* types that a barrier combines: the first ones, of 8 bytes */

/* Every byte of a message has a column in the table. */
#define FIELD_SIZE(field) +sizeof(((struct msg *)0)->field)
_Static_assert(0 WIRE_FIELDS(FIELD_SIZE) == sizeof(struct msg),
	       "each field of struct msg is in WIRE_FIELDS");

static inline uint8_t flags_of(enum wire_rule rule)
{
	switch (rule) {
	case RULE_F_READ:
		return MSGF_FIRST_TOUCH | MSGF_CONFIRM | MSGF_RELEASE | MSGF_FORWARDED |
			MSGF_KNOWN | MSGF_PUSH;
	case RULE_F_WRITE:
		return MSGF_HAS | MSGF_FIRST_TOUCH | MSGF_RELEASE | MSGF_FORWARDED | MSGF_KNOWN |
			MSGF_PLACE;
	case RULE_F_GRANT: return MSGF_ZERO | MSGF_PUSH;
	case RULE_F_SYNC: return MSGF_TIMED | MSGF_LEASE;
	case RULE_F_LOCK: return MSGF_TIMED;
	default: return 0;
	}
}

static inline __attribute__((__always_inline__)) void field_range(enum wire_rule rule,
								  const struct msg *m,
								  const struct wire_limits *lim,
								  int64_t *lo, int64_t *hi)
{
	int64_t from = 0, to = 0;

	switch (rule) {
	case RULE_ZERO: break;
	case RULE_ANY: from = INT64_MIN, to = INT64_MAX; break;
	case RULE_VERSION: from = to = WIRE_VERSION; break;
	case RULE_TYPE: from = to = m->type; break;
	case RULE_NODE:
	case RULE_OTHER: to = lim->nnodes - 1; break;
	case RULE_SENDER: from = to = m->src; break;
	case RULE_RECEIVER: from = to = lim->me; break;
	case RULE_BLOCK:
		from = !!lim->block_pages,
		to = lim->block_pages ? UINT32_MAX : (int64_t)lim->pages - 1;
		break;
	case RULE_INDEX:
	case RULE_ADDRESS: to = UINT32_MAX; break;
	case RULE_GEN: to = 0xffff; break;
	case RULE_LIFE: to = m->object ? 0xffff : 0; break;
	case RULE_LIFE_HIGH: to = m->object ? 0xff : 0; break;
	case RULE_BARRIER: to = (int64_t)lim->barriers - 1; break;
	case RULE_BLOCK_SLOT: to = (int64_t)lim->block_slots - 1; break;
	case RULE_SLOT: to = (int64_t)lim->slots - 1; break;
	case RULE_HOLD: to = (int64_t)lim->holds - 1; break;
	case RULE_ACKS: to = lim->nnodes - 1; break;
	case RULE_ERRNO: from = -WIRE_ERRNO_MAX; break;
	case RULE_BIT: to = 1; break;
	case RULE_GRANT: from = GRANT_READ, to = GRANT_WRITE; break;
	case RULE_GRANT_WRITE: from = to = GRANT_WRITE; break;
	case RULE_RELEASE: from = RELEASE_KEEP, to = RELEASE_EVICT; break;
	case RULE_REQUEST: from = MSG_READ_REQ, to = MSG_WRITE_REQ; break;
	case RULE_SYNC_OP: to = SYNC_OPS - 1; break;
	case RULE_REDUCE: to = (BARRIER_TYPES - 1) << 4 | (WIRE_REDUCE_OPS - 1); break;
	case RULE_COMBINE: to = (WIRE_REDUCE_TYPES - 1) << 4 | (WIRE_REDUCE_OPS - 1); break;
	case RULE_CALL_OP: from = 1, to = (int64_t)lim->calls - 1; break;
	case RULE_ROOM: to = WIRE_CALL_MAX; break;
	case RULE_COUNT: to = UINT16_MAX; break;
	case RULE_FRAMES: to = WIRE_FRAMES_MAX; break;
	case RULE_THREADS: from = 1, to = INT32_MAX; break;
	case RULE_KEY: from = 1, to = UINT32_MAX; break;
	case RULE_CLOSE: from = 1, to = INT64_MAX >> 1; break;
	case RULE_BUNDLED: from = MSG_READ_REQ, to = MSG_RELEASE; break;
	case RULE_SEVERAL: from = 2, to = WIRE_BUNDLE_MAX; break;
	case RULE_TAIL: to = AFTER_FLUSH | AFTER_NOTE; break;
	case RULE_AFTER: from = AFTER_FLUSH, to = AFTER_FLUSH | AFTER_NOTE; break;
	case RULE_CAS:
	case RULE_KIND:
		if (m->op == SOP_CAS)
			from = INT64_MIN, to = INT64_MAX;
		else if (rule == RULE_KIND && m->op == SOP_CREATE)
			from = SYNC_MUTEX, to = SYNC_ATOMIC;
		break;
	case RULE_LEAVER:
		from = !!m->op;
		to = ((int64_t)lim->ranks - 1) * 0x10000 + (m->op ? WIRE_DYING | 0xff : 0);
		break;
	case RULE_INITIAL: /* the value of a mutex is the last in line */
		if (m->op != SOP_CREATE || m->aux == SYNC_SEM || m->aux == SYNC_ATOMIC)
			from = INT64_MIN, to = INT64_MAX;
		break;
	case RULE_F_READ:
	case RULE_F_WRITE:
	case RULE_F_GRANT:
	case RULE_F_SYNC:
	case RULE_F_LOCK: to = flags_of(rule); break;
	case WIRE_RULE_COUNT: break;
	}
	*lo = from;
	*hi = to;
}

/*
 * A block's name (block_id()) is always aligned. Its size must exist, and it must be in the window.
 */
static inline bool block_ok(uint32_t id, const struct wire_limits *lim)
{
	uint32_t pages = wire_block_pages(id), page = (id & (id - 1)) >> 1;

	if (!lim->block_pages)
		return true;
	return pages <= lim->block_pages && page < lim->pages && pages <= lim->pages - page;
}

static inline __attribute__((__always_inline__)) bool field_allowed(enum wire_rule rule,
								    int64_t value,
								    const struct msg *m,
								    const struct wire_limits *lim)
{
	int64_t lo, hi;

	if (rule == RULE_ANY)
		return true;
	field_range(rule, m, lim, &lo, &hi);
	if (value < lo || value > hi)
		return false;
	switch (rule) {
	case RULE_BLOCK: return block_ok((uint32_t)value, lim);
	case RULE_OTHER: return value != lim->me;
	case RULE_REDUCE:
	case RULE_COMBINE: return (value & 15) < WIRE_REDUCE_OPS;
	case RULE_LEAVER:
		return m->op ? value & 0xff && (value & 0xffff) <= (WIRE_DYING | 0xff)
			     : !(value & 0xffff);
	case RULE_INDEX: return value & SYNC_INDEX_MAX; /* index 0 is none */
	case RULE_F_READ:
	case RULE_F_WRITE:
	case RULE_F_GRANT:
	case RULE_F_SYNC:
	case RULE_F_LOCK: return !(value & ~flags_of(rule));
	default: return true;
	}
}

/*
 * One parameter per field: a row without a column is a call without an argument, which does not
 * compile.
 */
#define FIELD_PARAMETER(field) , enum wire_rule field##_rule
#define FIELD_ALLOWED(field) &&field_allowed(field##_rule, (int64_t)m->field, m, lim)

static inline __attribute__((__always_inline__)) bool
row_allows(const struct msg *m, const struct wire_limits *lim,
	   uint8_t hosts WIRE_FIELDS(FIELD_PARAMETER))
{
	return (hosts & lim->host) WIRE_FIELDS(FIELD_ALLOWED);
}

/* Columns that are equal for all types come before those of the row. */
#define ROW_ALLOWS(type, class, hosts, order, flags, op, object, req_node, req_slot, home, count, \
		   aux, value)                                                                    \
	case MSG_##type:                                                                          \
		return row_allows(m, lim, HOST_##hosts, RULE_VERSION, RULE_TYPE, RULE_##flags,    \
				  RULE_##op, RULE_NODE, RULE_RECEIVER, RULE_##object,             \
				  RULE_##req_node, RULE_##req_slot, RULE_##home, RULE_##count,    \
				  RULE_##aux, RULE_##value)                                       \
			? 0                                                                       \
			: -EBADMSG;

int wire_check(const struct msg *m, const struct wire_limits *lim)
{
	switch (m->type) {
		WIRE_MESSAGES(ROW_ALLOWS)
	default: return -EBADMSG;
	}
}

static const struct {
	const char *name;
	uint8_t class;
	uint8_t hosts;
	uint8_t order;
	uint8_t rules[WIRE_FIELD_COUNT];
	/* clang-format off */
} types[] = {
#define ROW(type, class, hosts, order, flags, op, object, req_node, req_slot, home, count, aux, value)                              \
	[MSG_##type] = { #type, CLASS_##class, HOST_##hosts, ORDER_##order,                                                                  \
			 { RULE_VERSION, RULE_TYPE, RULE_##flags, RULE_##op, RULE_NODE, RULE_RECEIVER, RULE_##object, RULE_##req_node,        \
			   RULE_##req_slot, RULE_##home, RULE_##count, RULE_##aux, RULE_##value } },
	WIRE_MESSAGES(ROW)
#undef ROW
};
/* clang-format on */
#define ONE_ROW(...) +1
_Static_assert(0 WIRE_MESSAGES(ONE_ROW) == MSG_TYPES, "each type has a row");

int wire_envelope(const struct msg *m, uint16_t me, uint16_t nnodes)
{
	if (m->version != WIRE_VERSION || m->type >= MSG_TYPES || !types[m->type].hosts)
		return -EBADMSG;
	return m->src >= nnodes || m->dst != me ? -EBADMSG : 0;
}

enum msg_class wire_class(uint8_t type)
{
	return type < MSG_TYPES ? (enum msg_class)types[type].class : CLASS_BULK;
}

const char *wire_name(uint8_t type)
{
	return type < MSG_TYPES ? types[type].name : "?";
}

uint8_t wire_hosts(uint8_t type)
{
	return type < MSG_TYPES ? types[type].hosts : HOST_NONE;
}

enum wire_order wire_order(uint8_t type)
{
	return type < MSG_TYPES ? (enum wire_order)types[type].order : ORDER_NEITHER;
}

enum wire_rule wire_rule_of(uint8_t type, enum wire_field field)
{
	return type < MSG_TYPES && field < WIRE_FIELD_COUNT
		? (enum wire_rule)types[type].rules[field]
		: RULE_ZERO;
}

const char *wire_rule_name(unsigned int rule)
{
	static const char *const names[] = {
#define NAME(rule, text) text,
		WIRE_RULES(NAME)
#undef NAME
	};

	return rule < WIRE_RULE_COUNT ? names[rule] : "?";
}

const char *wire_field_name(unsigned int field)
{
	static const char *const names[] = {
#define NAME(field) #field,
		WIRE_FIELDS(NAME)
#undef NAME
	};

	return field < WIRE_FIELD_COUNT ? names[field] : "?";
}

void wire_range(enum wire_rule rule, const struct msg *m, const struct wire_limits *lim,
		int64_t *lo, int64_t *hi)
{
	field_range(rule, m, lim, lo, hi);
}

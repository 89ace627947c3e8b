/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules.h - one rule for each field of what calls carry (payload.h), and one row for each call.
 * payload.c applies them; tests, the fuzzer and docs/protocol.md take their values from here.
 *
 * PAYLOAD_SHAPES lists the structs. PAYLOAD_<SHAPE> lists the fields of one with their rules: a
 * byte without a rule does not compile. PAYLOAD_CALLS has a row for each call: its receiver, its
 * permitted sender, the shapes of the request and of the answer. rules/make.h generates the checks.
 * Pure.
 */
#ifndef CALLS_RULES_H
#define CALLS_RULES_H

#include "calls/load.h"
#include "calls/payload.h"
#include "job/ctl.h"
#include "job/note.h"
#include "job/stats.h"
#include "job/usage.h"
#include "miss/sharing.h"
#include "rules/make.h"

#define PAYLOAD_UNIT BLOCK_MAX /* regions consist of whole units */
#define PAYLOAD_MANY 0xffffu

/* The values of the fields before this one, and of this one; its size. */
struct payload_seen {
	uint64_t before, before2, v;
	size_t size;
};

struct payload_field_limits {
	const struct payload_limits *lim;
	const void *at; /* the struct */
	size_t rows;    /* that follow it */
	struct payload_seen *seen;
};

static inline uint64_t payload_units(uint64_t bytes)
{
	return (bytes + PAYLOAD_UNIT - 1) / PAYLOAD_UNIT * PAYLOAD_UNIT;
}

/* How many units the heap has from number `at` on. */
static inline uint64_t payload_run(const struct payload_limits *lim, uint64_t at)
{
	const uint64_t units = lim->heap / PAYLOAD_UNIT;

	return at < units ? units - at : 0;
}

/* clang-format off */
/*
 * rule, lowest, highest, in words; x: struct payload_field_limits. "before" is the value of the
 * previous field.
 */
#define PAYLOAD_RULES(R) \
	R(ANY, 0, UINT64_MAX, "any") \
	R(ZERO, 0, 0, "0") \
	R(BIT, 0, 1, "0 or 1") \
	R(NAME, 1, x->seen->size - 1, "a name, with its NUL") \
	R(TEXT, 0, x->seen->size - 1, "text with its NUL") \
	R(SIZE, 1, x->lim->space, "1 to the window's size") \
	R(BLOCK_SIZE, PAGE_BYTES, BLOCK_MAX, "a block size") \
	R(POLICY, 0, DSM_HOME_FIXED, "a home policy") \
	R(PRIORITY, 0, DSM_PRIORITY_URGENT, "a priority") \
	R(FIXED, 0, x->seen->before == DSM_HOME_FIXED ? x->lim->ranks - 1u : 0, "0; before is \"fixed\": a rank") \
	R(HERE, 0, x->lim->ranks - 1u, "a rank of the receiver") \
	R(FROM, 0, x->lim->ranks - 1u, "a rank of the sender") \
	R(RANK, 0, x->lim->ranks - 1u, "a rank") \
	R(RANK_OR_0, 0, x->lim->ranks, "0, or a rank + 1") \
	R(NODE_OR_0, 0, x->lim->nodes, "0, or a node + 1") \
	R(USERS, 0, x->lim->ranks, "0 to ranks") \
	R(NODE, 0, x->lim->nodes - 1u, "a node") \
	R(REGION, 0, x->lim->regions - 1u, "a region") \
	R(REGION_OR_END, 0, x->lim->regions, "0 to regions") \
	R(PLACE, 0, x->lim->space - PAYLOAD_UNIT, "an offset of whole units") \
	R(UNITS, PAYLOAD_UNIT, x->lim->space - x->seen->before, "whole units from before, in the window") \
	R(TAKEN, payload_units(x->seen->before2), \
	  payload_units(x->seen->before2) <= x->lim->space - x->seen->before ? payload_units(x->seen->before2) : 0, \
	  "the size, in whole units from before, in the window") \
	R(OFFSET, 0, x->lim->space - 1, "an offset in the window") \
	R(LENGTH, 0, x->lim->space - x->seen->before, "0 to what is left from before") \
	R(HEAP, x->lim->heap ? x->lim->base : 1, x->lim->heap ? x->lim->base + x->lim->heap - 1 : 0, "an address in the heap") \
	R(UNIT, !payload_run(x->lim, 0), payload_run(x->lim, 0) - !!payload_run(x->lim, 0), "a unit of the heap") \
	R(RUN, 1, payload_run(x->lim, x->seen->before), "1 to what the heap has from before") \
	R(SOME, 1, UINT32_MAX, "1 or more") \
	R(FEW, 1, \
	  payload_run(x->lim, x->seen->before) < PAYLOAD_UNITS_MAX ? payload_run(x->lim, x->seen->before) : PAYLOAD_UNITS_MAX, \
	  "1 to 4096, and what the heap has from before") \
	R(RUN_OR_0, 0, payload_run(x->lim, x->seen->before), "0 to what the heap has from before") \
	R(PART, 0, x->seen->before, "0 to before") \
	R(ROWS, 0, x->rows, "0 to the rows that follow") \
	R(ABOUT, 0, ABOUT_DONE, "a kind of wait") \
	R(STALLED, 0, UINT64_MAX, "any; of a block: in the window")

/* field: struct, name, rule */
#define PAYLOAD_HEAD(F)  F(call_head, to, HERE) F(call_head, pad, ZERO)
#define PAYLOAD_NONE(F)
#define PAYLOAD_NOTHING(F)  F(call_word, word, ZERO)
#define PAYLOAD_FLAG(F)  F(call_word, word, BIT)
#define PAYLOAD_WORD(F)  F(call_word, word, ANY)
#define PAYLOAD_MEMORY(F) F(call_word, word, HEAP)
#define PAYLOAD_OF_REGION(F) F(call_word, word, REGION_OR_END)
#define PAYLOAD_WANT(F) \
	F(region_want, name, NAME) F(region_want, contents, ANY) F(region_want, size, SIZE) F(region_want, block_size, BLOCK_SIZE) \
	F(region_want, home_policy, POLICY) F(region_want, home_rank, FIXED) F(region_want, creator, FROM) F(region_want, priority, PRIORITY) \
	F(region_want, consistency, BIT) F(region_want, pad, ZERO)
#define PAYLOAD_BY_NAME(F) F(region_name, name, TEXT)
#define PAYLOAD_BY_ID(F) F(region_id, id, REGION) F(region_id, gen, ANY)
#define PAYLOAD_PLACED(F) \
	F(region_place, off, PLACE) F(region_place, bytes, UNITS) F(region_place, id, REGION) F(region_place, gen, ANY)
#define PAYLOAD_BURIAL(F) \
	F(region_burial, at.off, PLACE) F(region_burial, at.bytes, UNITS) F(region_burial, at.id, REGION) F(region_burial, at.gen, ANY) \
	F(region_burial, node, NODE) F(region_burial, pad, ZERO)
#define PAYLOAD_RANGE(F) F(window_range, off, OFFSET) F(window_range, bytes, LENGTH)
#define PAYLOAD_UNITS_TAKE(F) \
	F(units_ask, rank, FROM) F(units_ask, upper, BIT) F(units_ask, at, ZERO) F(units_ask, n, SOME)
#define PAYLOAD_UNITS_GIVE(F) \
	F(units_ask, rank, RANK) F(units_ask, upper, ZERO) F(units_ask, at, UNIT) F(units_ask, n, RUN)
#define PAYLOAD_UNITS_WHICH(F) \
	F(units_ask, rank, FROM) F(units_ask, upper, ZERO) F(units_ask, at, UNIT) F(units_ask, n, FEW)
#define PAYLOAD_UNITS_PLAIN(F) \
	F(units_ask, rank, FROM) F(units_ask, upper, ZERO) F(units_ask, at, ZERO) F(units_ask, n, ZERO)
#define PAYLOAD_RECORD(F) \
	F(region_record, name, NAME) F(region_record, contents, ANY) F(region_record, size, SIZE) F(region_record, off, PLACE) \
	F(region_record, bytes, TAKEN) F(region_record, block_size, BLOCK_SIZE) F(region_record, home_policy, POLICY) \
	F(region_record, home_rank, FIXED) F(region_record, creator, RANK) F(region_record, id, REGION) F(region_record, used, BIT) \
	F(region_record, named, BIT) F(region_record, ready, BIT) F(region_record, priority, PRIORITY) F(region_record, attached, USERS) \
	F(region_record, gen, ANY) F(region_record, next, REGION_OR_END) F(region_record, buries, NODE_OR_0) F(region_record, consistency, BIT)
#define PAYLOAD_TAKEN(F) \
	F(units_taken, at, UNIT) F(units_taken, n, RUN) F(units_taken, used, PART) F(units_taken, pad, ZERO)
#define PAYLOAD_OWNED(F) F(units_owned, owner, RANK_OR_0) F(units_owned, pad, ZERO)
#define PAYLOAD_BITS(F) F(units_bits, used, ANY)
#define PAYLOAD_ROWS(F) F(rows_head, n, ROWS) F(rows_head, more, ZERO)
#define PAYLOAD_TRIMMED(F) F(rows_head, n, ROWS) F(rows_head, more, BIT)
#define PAYLOAD_RUN(F) F(units_run, at, UNIT) F(units_run, n, RUN_OR_0)
#define PAYLOAD_FOUND(F) \
	F(found, object.start, ANY) F(found, object.size, ANY) F(found, object.name, TEXT) F(found, object.sites, ANY) F(found, site, TEXT)
#define PAYLOAD_ASLEEP(F) F(asleep, threads, ANY) F(asleep, since, ANY) F(asleep, sent, ANY) F(asleep, received, ANY)
#define PAYLOAD_LOAD(F) F(load, rank, FROM) F(load, pad, ZERO) F(load, threads, ANY)
#define PAYLOAD_HOT(F) F(hot, off, OFFSET) F(hot, bytes, LENGTH) F(hot, transfers, ANY)
#define PAYLOAD_SUM(F) F(sharing_sum, off, OFFSET) F(sharing_sum, bytes, LENGTH) F(sharing_sum, misses, ANY) F(sharing_sum, repeated, ANY)
#define PAYLOAD_VECTOR(F) \
	F(stats_vector, class, TEXT) F(stats_vector, device, TEXT) F(stats_vector, vector, ANY) F(stats_vector, pad, ZERO) \
	F(stats_vector, events, ANY) F(stats_vector, completions, ANY) F(stats_vector, softirq, ANY)
#define PAYLOAD_LANE(F) F(stats_lane, name, TEXT) F(stats_lane, connections, ANY) F(stats_lane, messages, ANY) F(stats_lane, bytes, ANY)
#define PAYLOAD_USAGE(F) \
	F(stats_memory, limit, ANY) F(stats_memory, bound, ANY) F(stats_memory, now, ANY) F(stats_memory, most, ANY) F(stats_memory, rough, BIT) F(stats_memory, pad, ZERO)
#define PAYLOAD_STALL(F) \
	F(stall_row, about.mask, ANY) F(stall_row, about.object, STALLED) F(stall_row, about.threads, ANY) F(stall_row, about.home, ANY) \
	F(stall_row, about.kind, ABOUT) F(stall_row, about.sync, ANY) F(stall_row, about.pad, ZERO) F(stall_row, label.object, ANY) \
	F(stall_row, label.holder, ANY) F(stall_row, label.what, ANY) F(stall_row, label.pad, ZERO) F(stall_row, age_ms, ANY) \
	F(stall_row, tid, ANY) F(stall_row, rank, RANK) F(stall_row, pad, ZERO)
#define PAYLOAD_STATS(F) \
	F(dsm_stats, read_faults, ANY) F(dsm_stats, write_faults, ANY) F(dsm_stats, upgrades, ANY) F(dsm_stats, local_faults, ANY) \
	F(dsm_stats, prefetched, ANY) F(dsm_stats, invalidations, ANY) F(dsm_stats, downgrades, ANY) F(dsm_stats, blocks_in, ANY) \
	F(dsm_stats, blocks_out, ANY) F(dsm_stats, bytes_in, ANY) F(dsm_stats, bytes_out, ANY) F(dsm_stats, messages_out, ANY) \
	F(dsm_stats, messages_in, ANY) F(dsm_stats, steps, ANY) F(dsm_stats, locks, ANY) F(dsm_stats, lock_waits, ANY) \
	F(dsm_stats, barriers, ANY) F(dsm_stats, atomics, ANY) F(dsm_stats, allocations, ANY) F(dsm_stats, frees, ANY) \
	F(dsm_stats, remote_frees, ANY) F(dsm_stats, latency_count, ANY) F(dsm_stats, latency_sum_ns, ANY) \
	F(dsm_stats, latency_max_ns, ANY) F(dsm_stats, latency, ANY) F(dsm_stats, homes_in, ANY) F(dsm_stats, populated, ANY) \
	F(dsm_stats, repeated_faults, ANY) F(dsm_stats, protect_calls, ANY) F(dsm_stats, pushed, ANY) \
	F(dsm_stats, closes, ANY) F(dsm_stats, flushes, ANY) F(dsm_stats, flushed_bytes, ANY) F(dsm_stats, notices, ANY) \
	F(dsm_stats, drops, ANY) F(dsm_stats, refetches, ANY) F(dsm_stats, twins, ANY) F(dsm_stats, twins_most, ANY) \
	F(dsm_stats, evicted_clean, ANY) F(dsm_stats, evicted_owned, ANY) F(dsm_stats, evict_short, ANY) \
	F(dsm_stats, empty_invalidations, ANY) F(dsm_stats, told, ANY) F(dsm_stats, lent, ANY) \
	F(dsm_stats, locks_kept, ANY)

/* shape, struct, bytes */
#define PAYLOAD_SHAPES(V) \
	V(NONE, payload_none, 0) V(HEAD, call_head, sizeof(struct call_head)) V(NOTHING, call_word, sizeof(struct call_word)) \
	V(FLAG, call_word, sizeof(struct call_word)) V(WORD, call_word, sizeof(struct call_word)) \
	V(MEMORY, call_word, sizeof(struct call_word)) V(OF_REGION, call_word, sizeof(struct call_word)) \
	V(WANT, region_want, sizeof(struct region_want)) V(BY_NAME, region_name, sizeof(struct region_name)) \
	V(BY_ID, region_id, sizeof(struct region_id)) V(PLACED, region_place, sizeof(struct region_place)) \
	V(BURIAL, region_burial, sizeof(struct region_burial)) V(RANGE, window_range, sizeof(struct window_range)) \
	V(UNITS_TAKE, units_ask, sizeof(struct units_ask)) V(UNITS_GIVE, units_ask, sizeof(struct units_ask)) \
	V(UNITS_WHICH, units_ask, sizeof(struct units_ask)) V(UNITS_PLAIN, units_ask, sizeof(struct units_ask)) \
	V(RECORD, region_record, sizeof(struct region_record)) V(TAKEN, units_taken, sizeof(struct units_taken)) \
	V(OWNED, units_owned, sizeof(struct units_owned)) V(BITS, units_bits, sizeof(struct units_bits)) \
	V(ROWS, rows_head, sizeof(struct rows_head)) V(TRIMMED, rows_head, sizeof(struct rows_head)) \
	V(RUN, units_run, sizeof(struct units_run)) \
	V(FOUND, found, sizeof(struct found)) V(ASLEEP, asleep, sizeof(struct asleep)) V(LOAD, load, sizeof(struct load)) \
	V(HOT, hot, sizeof(struct hot)) V(SUM, sharing_sum, sizeof(struct sharing_sum)) \
	V(VECTOR, stats_vector, sizeof(struct stats_vector)) V(LANE, stats_lane, sizeof(struct stats_lane)) \
	V(STALL, stall_row, sizeof(struct stall_row)) V(STATS, dsm_stats, sizeof(struct dsm_stats)) \
	V(USAGE, stats_memory, sizeof(struct stats_memory))
/* clang-format on */

/*
 * For each call: the receiving rank (FIRST: rank 0), the sending node (FIRST: that of rank 0), the
 * shapes of the request, the answer and the rows that follow the answer, and the number of rows, or
 * MANY: as many as the caller has room for. Further restrictions on the sender depend on the state:
 * calls/region.c, calls/owner.c.
 */
/* clang-format off */
#define PAYLOAD_CALLS(C) \
	C(CREATE,      FIRST, ANY,   WANT,        RECORD,    NONE,   0) \
	C(PUBLISH,     FIRST, ANY,   BY_ID,       RECORD,    NONE,   0) \
	C(ATTACH,      FIRST, ANY,   BY_NAME,     RECORD,    NONE,   0) \
	C(DETACH,      FIRST, ANY,   BY_ID,       RECORD,    NONE,   0) \
	C(DESTROY,     FIRST, ANY,   BY_NAME,     RECORD,    NONE,   0) \
	C(QUERY,       FIRST, ANY,   BY_NAME,     RECORD,    NONE,   0) \
	C(VACATE,      FIRST, ANY,   BY_ID,       RECORD,    NONE,   0) \
	C(QUIET,       ANY,   ANY,   PLACED,      NONE,      NONE,   0) \
	C(PURGE,       ANY,   ANY,   PLACED,      NONE,      NONE,   0) \
	C(MAY_PURGE,   FIRST, ANY,   BURIAL,      NONE,      NONE,   0) \
	C(FREE,        ANY,   ANY,   MEMORY,      NONE,      NONE,   0) \
	C(STATS,       ANY,   ANY,   OF_REGION,   STATS,     NONE,   0) \
	C(HOT,         ANY,   ANY,   NONE,        NONE,      HOT,    PAYLOAD_MANY) \
	C(FIND,        ANY,   ANY,   MEMORY,      FOUND,     NONE,   0) \
	C(VECTORS,     ANY,   ANY,   NOTHING,     ROWS,      VECTOR, PAYLOAD_STATS_VECTORS) \
	C(STALLS,      ANY,   ANY,   NONE,        NONE,      STALL,  PAYLOAD_MANY) \
	C(TRIM,        ANY,   ANY,   FLAG,        TRIMMED,   RUN,    PAYLOAD_RUNS) \
	C(SPAWN,       ANY,   ANY,   MEMORY,      NONE,      NONE,   0) \
	C(CANCEL,      ANY,   ANY,   WORD,        NONE,      NONE,   0) \
	C(ASLEEP,      ANY,   FIRST, NOTHING,     ASLEEP,    NONE,   0) \
	C(SHARING,     ANY,   ANY,   RANGE,       NONE,      SUM,    PAYLOAD_MANY) \
	C(UNITS_TAKE,  FIRST, ANY,   UNITS_TAKE,  TAKEN,     NONE,   0) \
	C(UNITS_GIVE,  FIRST, ANY,   UNITS_GIVE,  NONE,      NONE,   0) \
	C(UNITS_OWNER, FIRST, ANY,   UNITS_WHICH, OWNED,     NONE,   0) \
	C(UNITS_WHICH, FIRST, ANY,   UNITS_WHICH, BITS,      NONE,   0) \
	C(UNITS_BEGIN, FIRST, ANY,   UNITS_PLAIN, NONE,      NONE,   0) \
	C(UNITS_END,   FIRST, ANY,   UNITS_PLAIN, NONE,      NONE,   0) \
	C(LANES,       ANY,   ANY,   NOTHING,     ROWS,      LANE,   PAYLOAD_STATS_LANES) \
	C(WITHDRAW,    FIRST, ANY,   BY_ID,       RECORD,    NONE,   0) \
	C(LOAD,        ANY,   ANY,   WORD,        LOAD,      NONE,   0) \
	C(MEMORY,      ANY,   ANY,   NOTHING,     USAGE,     NONE,   0)
/* clang-format on */

enum { CALL_WITH_ANY = 0, CALL_WITH_FIRST };

enum call_shape {
#define PAYLOAD_SHAPE_NAME(shape, type, bytes) SHAPE_##shape,
	PAYLOAD_SHAPES(PAYLOAD_SHAPE_NAME)
#undef PAYLOAD_SHAPE_NAME
		SHAPES
};

/* No request, answer or row. */
struct payload_none {
};

struct payload_call {
	const char *name;
	uint8_t to, from; /* CALL_WITH_* */
	uint8_t request, answer, row;
	uint16_t rows;
};

/* NULL: no such call. */
const struct payload_call *payload_call(uint8_t op);

/* Reads a field, and remembers what the next ones are held against. */
static inline uint64_t payload_read(const void *at, size_t size, struct payload_seen *seen)
{
	*seen = (struct payload_seen){ seen->v, seen->before, rules_number(at, size), size };
	return seen->v;
}

static inline bool payload_also(unsigned int rule, uint64_t v,
				const struct payload_field_limits *x);

#define RULES_TABLE PAYLOAD_RULES
#define RULES_SHAPES PAYLOAD_SHAPES
#define RULES_FIELDS(shape) PAYLOAD_##shape
#define RULES_NAME(x) payload_field_##x
#define RULES_CONST(x) PAYLOAD_##x
#define RULES_READ(at, size, x) payload_read(at, size, x->seen)
#define RULES_ALSO payload_also
#include "rules/make.h"

/* The rules that are more than a range. */
static inline bool payload_also(unsigned int rule, uint64_t v, const struct payload_field_limits *x)
{
	const struct stall_row *stall = x->at;

	switch (rule) {
	case PAYLOAD_RULE_BLOCK_SIZE: return !(v & (v - 1));
	case PAYLOAD_RULE_HERE: return x->lim->node_of[v] == x->lim->me;
	case PAYLOAD_RULE_FROM: return x->lim->node_of[v] == x->lim->from;
	case PAYLOAD_RULE_PLACE:
	case PAYLOAD_RULE_UNITS: return v % PAYLOAD_UNIT == 0;
	case PAYLOAD_RULE_STALLED:
		/* A block's name (miss/block.h): twice its first page, and a bit for its size. */
		return stall->about.kind != ABOUT_BLOCK ||
			(v & (v - 1)) >> 1 < x->lim->space / PAGE_BYTES;
	default: return true;
	}
}

#endif

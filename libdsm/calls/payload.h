/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * payload.h - the payloads of MSG_CALL, MSG_RETURN and MSG_CHUNK: their structs, and one rule for each field.
 *
 * PAYLOAD_SHAPES lists the structs. PAYLOAD_<SHAPE> lists the fields of one with their rules; a struct with a byte outside these
 * fields does not compile. PAYLOAD_CALLS has a row for each call: its receiver, its permitted sender, the shapes of the request
 * and of the answer. The engine, tests, fuzzers and docs/protocol.md use these tables.
 *
 * Values have the sender's byte order: the ranks of a job run on machines of one kind. Pure functions; nothing here blocks.
 */
#ifndef CALLS_PAYLOAD_H
#define CALLS_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls/call.h"
#include "dsm.h"
#include "heap/heap.h"
#include "job/note.h"

#define PAYLOAD_RUNS 256u      /* runs of units in an answer */
#define PAYLOAD_UNITS_MAX 4096 /* units in a CALL_UNITS_WHICH */
#define PAYLOAD_STATS_VECTORS 44u
#define PAYLOAD_STATS_LANES 8u

/* ---- the structs of requests ------------------------------------------------------------------------- */

/* Precedes each request. */
struct call_head {
	uint16_t to; /* the rank that is called */
	uint16_t pad[3];
};

/* A request of one value: an address, a number, or nothing. */
struct call_word {
	uint64_t word;
};

struct region_want {
	char name[DSM_NAME_MAX];
	uint64_t contents; /* hash of the initial contents; 0: zeros */
	uint64_t size;
	uint32_t block_size;
	uint16_t home_policy, home_rank, creator, priority;
	uint16_t pad[2];
};

struct region_name {
	char name[DSM_NAME_MAX];
};

struct region_id {
	uint32_t id, gen;
};

/* The complete place of a region. */
struct region_place {
	uint64_t off, bytes;
	uint32_t id, gen;
};

/* A place, and the node that states that all ranks have left it. */
struct region_burial {
	struct region_place at;
	uint16_t node, pad[3];
};

struct window_range {
	uint64_t off, bytes;
};

struct units_ask {
	uint16_t rank, pad;
	uint32_t at, n;
};

/* ---- the structs of answers; others: region_record (ctl.h), load, hot, stats_vectors, stats_memory, sharing_sum, stall_row, dsm_stats ---- */

struct units_taken {
	uint32_t at, n, used; /* used: number of units that were used before */
	uint32_t pad;
};

struct units_owned {
	uint32_t owner; /* + 1; 0: nobody */
	uint32_t pad;
};

struct units_bits {
	uint64_t used[PAYLOAD_UNITS_MAX / 64];
};

/* Precedes rows: the number of valid rows. */
struct rows_head {
	uint32_t n, pad;
};

/* Units that were given back. */
struct trimmed {
	struct rows_head head;
	struct units_run {
		uint32_t at, n;
	} runs[PAYLOAD_RUNS];
};

struct found {
	struct heap_object object;
	char site[128];
};

/* The answer of CALL_ASLEEP. */
struct asleep {
	uint64_t threads; /* of the program; all wait */
	uint64_t since;   /* the sum of the times at which their waits began */
	uint64_t sent, received;
};

/* ---- the rule of each field ---------------------------------------------------------------------------- */

/* A rule, and its text in the documentation. "before" is the value of the previous field. */
/* clang-format off */
#define PAYLOAD_RULES(R) \
	R(ANY, "any")                          R(ZERO, "0")                              R(BIT, "0 or 1") \
	R(NAME, "a name, with its NUL")        R(TEXT, "text with its NUL")              R(SIZE, "1 to the window's size") \
	R(BLOCK_SIZE, "a block size")          R(POLICY, "a home policy")                R(PRIORITY, "a priority")  R(FIXED, "0; before is \"fixed\": a rank") \
	R(HERE, "a rank of the receiver")      R(FROM, "a rank of the sender")           R(RANK, "a rank") \
	R(RANK_OR_0, "0, or a rank + 1")       R(NODE_OR_0, "0, or a node + 1")          R(USERS, "0 to ranks") \
	R(NODE, "a node") \
	R(REGION, "a region")                  R(REGION_OR_END, "0 to regions") \
	R(PLACE, "an offset of whole units")   R(UNITS, "whole units from before, in the window") \
	R(TAKEN, "the size, in whole units from before, in the window") \
	R(OFFSET, "an offset in the window")   R(LENGTH, "0 to what is left from before") \
	R(HEAP, "an address in the heap") \
	R(UNIT, "a unit of the heap")          R(RUN, "1 to what the heap has from before")  R(SOME, "1 or more") \
	R(FEW, "1 to 4096, and what the heap has from before") R(RUN_OR_0, "0 to what the heap has from before") \
	R(PART, "0 to before")                 R(ROWS, "0 to the rows that follow")      R(ABOUT, "a kind of wait") \
	R(STALLED, "any; of a block: in the window")

/* field: struct, name, rule */
#define PAYLOAD_HEAD(F)  F(call_head, to, HERE) F(call_head, pad, ZERO)
#define PAYLOAD_NOTHING(F)  F(call_word, word, ZERO)
#define PAYLOAD_FLAG(F)  F(call_word, word, BIT)
#define PAYLOAD_WORD(F)  F(call_word, word, ANY)
#define PAYLOAD_MEMORY(F) F(call_word, word, HEAP)
#define PAYLOAD_OF_REGION(F) F(call_word, word, REGION_OR_END)
#define PAYLOAD_WANT(F) \
	F(region_want, name, NAME) F(region_want, contents, ANY) F(region_want, size, SIZE) F(region_want, block_size, BLOCK_SIZE) \
	F(region_want, home_policy, POLICY) F(region_want, home_rank, FIXED) F(region_want, creator, FROM) F(region_want, priority, PRIORITY) \
	F(region_want, pad, ZERO)
#define PAYLOAD_BY_NAME(F) F(region_name, name, TEXT)
#define PAYLOAD_BY_ID(F) F(region_id, id, REGION) F(region_id, gen, ANY)
#define PAYLOAD_PLACED(F) \
	F(region_place, off, PLACE) F(region_place, bytes, UNITS) F(region_place, id, REGION) F(region_place, gen, ANY)
#define PAYLOAD_BURIAL(F) \
	F(region_burial, at.off, PLACE) F(region_burial, at.bytes, UNITS) F(region_burial, at.id, REGION) F(region_burial, at.gen, ANY) \
	F(region_burial, node, NODE) F(region_burial, pad, ZERO)
#define PAYLOAD_RANGE(F) F(window_range, off, OFFSET) F(window_range, bytes, LENGTH)
#define PAYLOAD_UNITS_TAKE(F) \
	F(units_ask, rank, FROM) F(units_ask, pad, ZERO) F(units_ask, at, ZERO) F(units_ask, n, SOME)
#define PAYLOAD_UNITS_GIVE(F) \
	F(units_ask, rank, RANK) F(units_ask, pad, ZERO) F(units_ask, at, UNIT) F(units_ask, n, RUN)
#define PAYLOAD_UNITS_WHICH(F) \
	F(units_ask, rank, FROM) F(units_ask, pad, ZERO) F(units_ask, at, UNIT) F(units_ask, n, FEW)
#define PAYLOAD_UNITS_PLAIN(F) \
	F(units_ask, rank, FROM) F(units_ask, pad, ZERO) F(units_ask, at, ZERO) F(units_ask, n, ZERO)
#define PAYLOAD_RECORD(F) \
	F(region_record, name, NAME) F(region_record, contents, ANY) F(region_record, size, SIZE) F(region_record, off, PLACE) \
	F(region_record, bytes, TAKEN) F(region_record, block_size, BLOCK_SIZE) F(region_record, home_policy, POLICY) \
	F(region_record, home_rank, FIXED) F(region_record, creator, RANK) F(region_record, id, REGION) F(region_record, used, BIT) \
	F(region_record, named, BIT) F(region_record, ready, BIT) F(region_record, priority, PRIORITY) F(region_record, attached, USERS) \
	F(region_record, gen, ANY) F(region_record, next, REGION_OR_END) F(region_record, buries, NODE_OR_0) F(region_record, pad2, ZERO)
#define PAYLOAD_TAKEN(F) \
	F(units_taken, at, UNIT) F(units_taken, n, RUN) F(units_taken, used, PART) F(units_taken, pad, ZERO)
#define PAYLOAD_OWNED(F) F(units_owned, owner, RANK_OR_0) F(units_owned, pad, ZERO)
#define PAYLOAD_BITS(F) F(units_bits, used, ANY)
#define PAYLOAD_ROWS(F) F(rows_head, n, ROWS) F(rows_head, pad, ZERO)
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
	F(stats_memory, limit, ANY) F(stats_memory, now, ANY) F(stats_memory, most, ANY) F(stats_memory, rough, BIT) F(stats_memory, pad, ZERO)
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
	F(dsm_stats, repeated_faults, ANY) F(dsm_stats, protect_calls, ANY) F(dsm_stats, pushed, ANY)

/* shape, struct */
#define PAYLOAD_SHAPES(S) \
	S(HEAD, call_head) S(NOTHING, call_word) S(FLAG, call_word) S(WORD, call_word) S(MEMORY, call_word) \
	S(OF_REGION, call_word) S(WANT, region_want) S(BY_NAME, region_name) S(BY_ID, region_id) S(PLACED, region_place) S(BURIAL, region_burial) \
	S(RANGE, window_range) S(UNITS_TAKE, units_ask) S(UNITS_GIVE, units_ask) S(UNITS_WHICH, units_ask) S(UNITS_PLAIN, units_ask) \
	S(RECORD, region_record) S(TAKEN, units_taken) S(OWNED, units_owned) S(BITS, units_bits) S(ROWS, rows_head) S(RUN, units_run) \
	S(FOUND, found) S(ASLEEP, asleep) S(LOAD, load) S(HOT, hot) S(SUM, sharing_sum) S(VECTOR, stats_vector) S(LANE, stats_lane) S(STALL, stall_row) S(STATS, dsm_stats) S(USAGE, stats_memory)
/* clang-format on */

/*
 * For each call: the receiving rank (FIRST: rank 0), the sending node (FIRST: that of rank 0), the shapes of the request, the
 * answer and the rows that follow the answer, and the number of rows, or MANY: as many as the caller has room for. Further
 * restrictions on the sender depend on the state: calls/region.c, calls/owner.c.
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
	C(TRIM,        ANY,   ANY,   FLAG,        ROWS,      RUN,    PAYLOAD_RUNS) \
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

#define PAYLOAD_MANY 0xffffu

enum { CALL_WITH_ANY = 0, CALL_WITH_FIRST };

enum payload_rule {
#define PAYLOAD_RULE_NAME(rule, text) PAYLOAD_RULE_##rule,
	PAYLOAD_RULES(PAYLOAD_RULE_NAME)
#undef PAYLOAD_RULE_NAME
		PAYLOAD_RULE_COUNT
};

enum payload_shape {
	SHAPE_NONE = 0,
#define PAYLOAD_SHAPE_NAME(shape, type) SHAPE_##shape,
	PAYLOAD_SHAPES(PAYLOAD_SHAPE_NAME)
#undef PAYLOAD_SHAPE_NAME
		SHAPES
};

struct payload_field {
	const char *name;
	uint16_t offset, size;
	uint8_t rule;
};

struct payload_type {
	const char *name;
	const struct payload_field *fields;
	uint16_t n, size;
};

struct payload_call {
	const char *name;
	uint8_t to, from; /* CALL_WITH_* */
	uint8_t request, answer, row;
	uint16_t rows;
};

/* The parameters of the rules: sender, receiver, and limits of the job. */
struct payload_limits {
	uint16_t me, from; /* nodes: the receiver, and the sender */
	uint16_t ranks, nodes;
	const uint16_t *node_of; /* of each rank */
	uint64_t base, space;    /* of the window */
	uint64_t heap;           /* its bytes */
	uint32_t regions;        /* ids are below this */
};

/*
 * Check the payload of MSG_CALL, or of a MSG_RETURN without an error. room: bytes that the caller has for the answer. 0 or
 * -EBADMSG.
 */
int payload_request(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size, uint32_t room);
int payload_answer(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size, uint32_t room);
/* The same for MSG_CHUNK: a part to combine by code (reduce.h), or a result. */
int payload_chunk(bool part, uint8_t code, size_t size);

/* Does the call return the size of its answer, because it may be less than the caller's room? */
bool payload_counts(uint8_t op);

/* For documentation and tests. */
const struct payload_call *payload_call(uint8_t op);
const struct payload_type *payload_type(enum payload_shape shape);
const char *payload_rule_name(unsigned int rule);
/* Does each field of a struct satisfy its rule? rows: number of rows that follow. */
bool payload_allows(const struct payload_limits *lim, enum payload_shape shape, const void *at, size_t rows);
/* Return a range, lo to hi inclusive, that contains all values that the field's rule allows. False: the rule is not a range. */
bool payload_range(const struct payload_limits *lim, enum payload_shape shape, unsigned int field, const void *at,
		   size_t rows, uint64_t *lo, uint64_t *hi);

#endif

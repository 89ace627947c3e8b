/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * payload.h - the payloads of MSG_CALL, MSG_RETURN and MSG_CHUNK: their structs, and whether one is
 * valid, by the tables of rules.h.
 *
 * Values have the sender's byte order: the ranks of a job run on machines of one kind. Pure
 * functions; nothing here blocks.
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

/* ---- the structs of requests ----------------------------------------------------------------- */

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
	uint16_t consistency;
	uint16_t pad;
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
	uint16_t rank, upper; /* upper: of the part of the heap with release consistency */
	uint32_t at, n;
};

/*
 * ---- the structs of answers; others: region_record (ctl.h), load, hot, stats_vectors,
 * stats_memory, sharing_sum, stall_row, dsm_stats ----
 */

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
	uint32_t n;
	uint32_t more; /* CALL_TRIM: more will be given back, so ask again */
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

/* What the rules hold a field against: sender, receiver, and limits of the job. */
struct payload_limits {
	uint16_t me, from; /* nodes: the receiver, and the sender */
	uint16_t ranks, nodes;
	const uint16_t *node_of; /* of each rank */
	uint64_t base, space;    /* of the window */
	uint64_t heap;           /* its bytes */
	uint32_t regions;        /* ids are below this */
};

/*
 * Check the payload of MSG_CALL, or of a MSG_RETURN without an error. room: bytes that the caller
 * has for the answer. 0 or -EBADMSG.
 */
int payload_request(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size,
		    uint32_t room);
int payload_answer(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size,
		   uint32_t room);
/* The same for MSG_CHUNK: a part to combine by code (reduce.h), or a result. */
int payload_chunk(bool part, uint8_t code, size_t size);

/* Does the call return the size of its answer, because it may be less than the caller's room? */
bool payload_counts(uint8_t op);

/*
 * The number of a shape (rules.h). Does each field of the struct keep its rule? rows: number of
 * rows that follow.
 */
bool payload_allows(const struct payload_limits *lim, unsigned int shape, const void *at,
		    size_t rows);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules.h - one rule for each field that another rank sends below the messages, by the transport
 * over librshare: frames and addresses. (Additions of librshare: share/rules.h.) frame.c applies
 * the rules; tests, the fuzzer and docs/protocol.md take their values from here.
 *
 * SHARED_SHAPES lists the structs; a nested struct has its own shape. rules/make.h generates the
 * checks: a field without a rule, or with two, does not compile. Pure.
 */
#ifndef NET_SHARED_RULES_H
#define NET_SHARED_RULES_H

#include "net/shared/frame.h"

/* The values that rules compare fields with. A struct needs only those that its rules name. */
struct shared_limits {
	uint64_t lent, fetches; /* the oldest fetch not yet released; the last of the lane */
	uint32_t behind;        /* bytes received after the frame */
	uint32_t size;          /* size stated in the frame */
	uint32_t nslots;
	uint16_t peer, ranks; /* the sender; of the job */
	uint8_t lane;
};

/* clang-format off */
/* rule, lowest, highest, in words; x: struct shared_limits */
#define SHARED_RULES(R) \
	R(ANY, 0, UINT64_MAX, "any") \
	R(ZERO, 0, 0, "0") \
	R(IS_MSG, SHARED_MSG, SHARED_MSG, "1") \
	R(IS_LAND, SHARED_LAND, SHARED_LAND, "2") \
	R(IS_FETCH, SHARED_FETCH, SHARED_FETCH, "3") \
	R(IS_FETCHED, SHARED_FETCHED, SHARED_FETCHED, "4") \
	R(LANE, x->lane, x->lane, "the kind of the connection") \
	R(RANK, 0, x->ranks - 1, "a rank") \
	R(PEER, x->peer, x->peer, "the peer") \
	R(BEHIND, x->behind, x->behind, "the bytes behind the frame") \
	R(BLOCK, 1, SHARED_LANDING, "1 to 4096") \
	R(PAYLOAD, 1, NET_PAYLOAD_MAX, "1 to 2^22") \
	R(NEXT, x->fetches + 1, x->fetches + 1, "the next number") \
	R(READ, x->lent, x->fetches, "a number that is lent") \
	R(SIZE, x->size, x->size, "the size of the frame") \
	R(BLOB_MAGIC, SHARED_BLOB_MAGIC, SHARED_BLOB_MAGIC, "0x32687364") \
	R(SLOTS, x->nslots, x->nslots, "the slots of the receiver") \
	R(NODE, 1, sizeof(((struct shared_blob *)0)->node) - 1, "a string") \
	R(PLACES, (uint64_t)SHARED_LANDING * x->nslots, (uint64_t)SHARED_LANDING * x->nslots, "4096 for each slot")

/* field: struct, name, rule */
#define SHARED_FRAME(F, is, bytes, number) \
	F(shared_frame, kind, is) F(shared_frame, lane, LANE) F(shared_frame, src, PEER) F(shared_frame, size, bytes) \
	F(shared_frame, id, number)
#define SHARED_MSG_(F)     SHARED_FRAME(F, IS_MSG, BEHIND, ZERO)
#define SHARED_LAND_(F)    SHARED_FRAME(F, IS_LAND, BLOCK, ZERO)    /* the payload was written before */
#define SHARED_FETCH_(F)   SHARED_FRAME(F, IS_FETCH, PAYLOAD, NEXT) /* the receiver reads the payload */
#define SHARED_FETCHED_(F) SHARED_FRAME(F, IS_FETCHED, ZERO, READ)  /* the payload was read */

#define SHARED_REMOTE(F, where, bytes) \
	F(rshare_remote, address, where) F(rshare_remote, rkey, where) F(rshare_remote, size, bytes)
#define SHARED_NOWHERE_(F) SHARED_REMOTE(F, ZERO, ZERO)  /* from, in all frames but FETCH */
#define SHARED_LENT_(F)    SHARED_REMOTE(F, ANY, SIZE)   /* from, in FETCH */
#define SHARED_LANDING_(F) SHARED_REMOTE(F, ANY, PLACES) /* landing, in an address */

/* The message of FETCHED; wire_check() checks the others. */
#define SHARED_NOTHING_(F) \
	F(msg, version, ZERO) F(msg, type, ZERO) F(msg, flags, ZERO) F(msg, op, ZERO) F(msg, src, ZERO) F(msg, dst, ZERO) \
	F(msg, object, ZERO) F(msg, req_node, ZERO) F(msg, req_slot, ZERO) F(msg, value2, ZERO) F(msg, value, ZERO)

#define SHARED_BLOB_(F) F(shared_blob, magic, BLOB_MAGIC) F(shared_blob, nslots, SLOTS) F(shared_blob, node, NODE)

/* shape, struct, bytes */
#define SHARED_SHAPES(V) \
	V(MSG, shared_frame, offsetof(struct shared_frame, from))   V(LAND, shared_frame, offsetof(struct shared_frame, from)) \
	V(FETCH, shared_frame, offsetof(struct shared_frame, from)) V(FETCHED, shared_frame, offsetof(struct shared_frame, from)) \
	V(NOWHERE, rshare_remote, sizeof(struct rshare_remote))     V(LENT, rshare_remote, sizeof(struct rshare_remote)) \
	V(NOTHING, msg, sizeof(struct msg)) \
	V(BLOB, shared_blob, offsetof(struct shared_blob, landing)) V(LANDING, rshare_remote, sizeof(struct rshare_remote))
/* clang-format on */

#define RULES_TABLE SHARED_RULES
#define RULES_SHAPES SHARED_SHAPES
#define RULES_FIELDS(shape) SHARED_##shape##_
#define RULES_NAME(x) shared_##x
#define RULES_CONST(x) SHARED_##x
#include "rules/make.h"

#endif

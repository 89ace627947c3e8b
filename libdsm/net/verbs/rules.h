/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules.h - one rule for each field that a peer sends below the messages: the frames of lanes, the
 * datagrams that connect them, addresses. frame.c applies the rules; tests, the fuzzer and
 * docs/protocol.md take their values from here. (Immediate words: core/word.h.)
 *
 * VERBS_SHAPES lists the structs; a struct whose fields have several meanings has several shapes.
 * VERBS_<SHAPE> lists every field with its rule: a field without a rule, or with two, does not
 * compile. rules/make.h generates the checks. Pure.
 */
#ifndef NET_VERBS_RULES_H
#define NET_VERBS_RULES_H

#include "net/verbs/frame.h"

/* The values that rules compare fields with. A struct needs only those that its rules name. */
struct verbs_limits {
	uint64_t key;
	uint32_t behind;  /* bytes received after the frame and its message */
	uint32_t landing; /* maximum block size, bytes */
	uint32_t nslots;
	uint16_t peer, rank, ranks; /* the sender; the receiver; of the job */
	uint8_t class;              /* of the lane */
};

/* clang-format off */
/* rule, lowest, highest, in words; x: struct verbs_limits */
#define VERBS_RULES(R) \
	R(ANY, 0, UINT64_MAX, "any") \
	R(ZERO, 0, 0, "0") \
	R(BIT, 0, 1, "0 or 1") \
	R(IS_MSG, FRAME_MSG, FRAME_MSG, "1") \
	R(IS_LAND, FRAME_LAND, FRAME_LAND, "2") \
	R(IS_FETCH, FRAME_FETCH, FRAME_FETCH, "3") \
	R(IS_FREE, FRAME_FREE, FRAME_FREE, "4") \
	R(IS_QUIT, FRAME_QUIT, FRAME_QUIT, "5") \
	R(LANE, x->class, x->class, "the class of the lane") \
	R(PEER, x->peer, x->peer, "the peer") \
	R(BEHIND, x->behind, x->behind, "the bytes behind the message") \
	R(BLOCK, 1, x->landing, "1 to the largest block") \
	R(SOME, 1, UINT32_MAX, "1 or more") \
	R(SHAKE_MAGIC, SHAKE_MAGIC, SHAKE_MAGIC, "0x73646831") \
	R(SHAKE_VERSION, SHAKE_VERSION, SHAKE_VERSION, "1") \
	R(ASKS, SHAKE_REQ, SHAKE_REP, "1 or 2") \
	R(TELLS, SHAKE_RTU, SHAKE_POKE, "3 or 4") \
	R(REFUSES, SHAKE_REFUSE, SHAKE_REFUSE, "5") \
	R(CLASS, 0, CLASS_MAX - 1, "a class") \
	R(RANK, 0, x->ranks - 1, "a rank") \
	R(ME, x->rank, x->rank, "the receiver") \
	R(KEY, x->key, x->key, "the receiver's key") \
	R(QPN, 2, 0xffffff, "a queue pair") \
	R(QPN_OR_0, 0, 0xffffff, "0, or a queue pair") \
	R(PSN, 0, 0xffffff, "24 bits") \
	R(READS, 0, READS, "0 to 16") \
	R(REASON, REFUSE_VERSION, REFUSE_GONE, "1 to 3") \
	R(BLOB_MAGIC, BLOB_MAGIC, BLOB_MAGIC, "0x62767531") \
	R(BLOB_VERSION, BLOB_VERSION, BLOB_VERSION, "2") \
	R(SLOTS, x->nslots, x->nslots, "the slots of the receiver") \
	R(LANDING, 1, 1 << 20, "1 to 2^20") \
	R(DEVICES, 1, VERBS_DEVICES, "1 to 8") \
	R(QKEY, 0, 0x7fffffff, "0 to 2^31 - 1") \
	R(LID, 0, 0xbfff, "0, or a unicast LID") \
	R(MTU, 1, 5, "1 to 5") \
	R(PORT, 1, 255, "1 to 255") \
	R(CLASSES, 0, (1 << CLASS_MAX) - 1, "a set of classes")

/* field: struct, name, rule */
#define VERBS_FRAME(F, is, bytes, number) \
	F(frame, seq, ANY) F(frame, kind, is) F(frame, class, LANE) F(frame, src, PEER) F(frame, size, bytes) F(frame, id, number)
#define VERBS_MSG(F)     VERBS_FRAME(F, IS_MSG, BEHIND, ZERO)
#define VERBS_LAND(F)    VERBS_FRAME(F, IS_LAND, BLOCK, ZERO)  /* by a send; the payload was written before */
#define VERBS_LANDED(F)  VERBS_FRAME(F, IS_LAND, BEHIND, ZERO) /* by a write with immediate data */
#define VERBS_FETCH(F)   VERBS_FRAME(F, IS_FETCH, SOME, ANY)
#define VERBS_FREE(F)    VERBS_FRAME(F, IS_FREE, ZERO, ANY)
#define VERBS_QUIT(F)    VERBS_FRAME(F, IS_QUIT, ZERO, ZERO)
#define VERBS_REMOTE(F)  F(remote, addr, ANY) F(remote, rkey, ANY) F(remote, pad, ZERO)

#define VERBS_SHAKE(F, is, queue, why) \
	F(shake, magic, SHAKE_MAGIC) F(shake, version, SHAKE_VERSION) F(shake, type, is) F(shake, class, CLASS) \
	F(shake, from, RANK) F(shake, to, ME) F(shake, epoch, ANY) F(shake, key, KEY) F(shake, qpn, queue) F(shake, psn, PSN) \
	F(shake, received, ANY) F(shake, rkey, ANY) F(shake, landing, ANY) F(shake, rd_atomic, READS) F(shake, reason, why) \
	F(shake, pad, ZERO) F(shake, pad2, ZERO)
#define VERBS_ASK(F)     VERBS_SHAKE(F, ASKS, QPN, ZERO)
#define VERBS_TELL(F)    VERBS_SHAKE(F, TELLS, QPN_OR_0, ZERO)
#define VERBS_REFUSE(F)  VERBS_SHAKE(F, REFUSES, QPN_OR_0, REASON)

#define VERBS_BLOB(F) \
	F(blob, magic, BLOB_MAGIC) F(blob, version, BLOB_VERSION) F(blob, rank, PEER) F(blob, key, ANY) F(blob, nslots, SLOTS) \
	F(blob, landing, LANDING) F(blob, ndevs, DEVICES) F(blob, bare, BIT) F(blob, pad, ZERO)
#define VERBS_BLOB_DEV(F) \
	F(blob_dev, gid, ANY) F(blob_dev, ud_qpn, QPN) F(blob_dev, qkey, QKEY) F(blob_dev, lid, LID) F(blob_dev, mtu, MTU) \
	F(blob_dev, port, PORT) F(blob_dev, classes, CLASSES)

/* shape, struct, bytes */
#define VERBS_SHAPES(V) \
	V(MSG, frame, sizeof(struct frame))       V(LAND, frame, sizeof(struct frame))   V(LANDED, frame, sizeof(struct frame)) \
	V(FETCH, frame, sizeof(struct frame))     V(FREE, frame, sizeof(struct frame))   V(QUIT, frame, sizeof(struct frame)) \
	V(REMOTE, remote, sizeof(struct remote)) \
	V(ASK, shake, sizeof(struct shake))       V(TELL, shake, sizeof(struct shake))   V(REFUSE, shake, sizeof(struct shake)) \
	V(BLOB, blob, offsetof(struct blob, devs)) V(BLOB_DEV, blob_dev, sizeof(struct blob_dev))
/* clang-format on */

#define RULES_TABLE VERBS_RULES
#define RULES_SHAPES VERBS_SHAPES
#define RULES_FIELDS(shape) VERBS_##shape
#define RULES_NAME(x) verbs_##x
#define RULES_CONST(x) VERBS_##x
#include "rules/make.h"

#endif

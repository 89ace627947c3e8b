/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules.h - one rule for each field of external data: frames of peers, TCP messages between owners,
 * entries of the rings in shared memory, requests of processes and the owner's answers. check.h
 * applies the rules; tests, the fuzzer and docs/sharing.md take their values from here.
 *
 * RS_SHAPES lists the structs; a nested struct has its own shape. rules/make.h generates the
 * checks: a field without a rule, or with two, does not compile. Pure.
 */
#ifndef SHARE_RULES_H
#define SHARE_RULES_H

#include "share/control.h"
#include "share/frame.h"
#include "share/hello.h"
#include "share/hub.h"
#include "share/repair.h"

/* The values that rules compare fields with. A struct needs only those that its rules name. */
struct rs_limits {
	uint64_t key, pool; /* bytes */
	struct rs_layout layout;
	uint32_t behind, chunk; /* bytes after the frame; their maximum */
	uint32_t total, len;    /* as stated in the frame or the entry */
	uint32_t conns;         /* of the process */
	uint32_t pieces;        /* that the device takes */
	uint32_t epoch;         /* expected */
};

#define RS_LEAST(a, b) ((a) < (b) ? (a) : (b))
#define RS_MOST(a, b) ((a) > (b) ? (a) : (b))

/* clang-format off */
/* rule, lowest, highest, in words; x: struct rs_limits */
#define RS_RULES(R) \
	R(ANY, 0, UINT64_MAX, "any") \
	R(ZERO, 0, 0, "0") \
	R(BIT, 0, 1, "0 or 1") \
	R(STRING, 1, sizeof(((struct rshare_info *)0)->address) - 1, "a string") \
	R(VERSION, RS_FRAME_VERSION, RS_FRAME_VERSION, "4") \
	R(IS_DATA, RS_FRAME_DATA, RS_FRAME_DATA, "1") \
	R(IS_CREDIT, RS_FRAME_CREDIT, RS_FRAME_CREDIT, "2") \
	R(IS_OPEN, RS_FRAME_OPEN, RS_FRAME_OPEN, "3") \
	R(IS_OPENED, RS_FRAME_OPENED, RS_FRAME_OPENED, "4") \
	R(IS_REFUSED, RS_FRAME_REFUSED, RS_FRAME_REFUSED, "5") \
	R(IS_CLOSE, RS_FRAME_CLOSE, RS_FRAME_CLOSE, "6") \
	R(IS_CLOSED, RS_FRAME_CLOSED, RS_FRAME_CLOSED, "7") \
	R(IS_RESET, RS_FRAME_RESET, RS_FRAME_RESET, "8") \
	R(IS_FIRST, RS_FRAME_FIRST, RS_FRAME_FIRST, "9") \
	R(IS_WRITTEN, RS_FRAME_WRITTEN, RS_FRAME_WRITTEN, "10") \
	R(IS_ATOMIC, RS_FRAME_ATOMIC, RS_FRAME_ATOMIC, "11") \
	R(IS_RESULT, RS_FRAME_RESULT, RS_FRAME_RESULT, "12") \
	R(ATOMIC_TOTAL, sizeof(struct rs_atomic), sizeof(struct rs_atomic), "32") \
	R(ATOMIC_LEN, RS_MOST(x->behind, sizeof(struct rs_atomic)), RS_LEAST(x->behind, sizeof(struct rs_atomic)), "the bytes behind it, 32") \
	R(ID, RS_CONNS_MAX, UINT32_MAX, "2^16 or more") \
	R(TOTAL, x->behind, RS_MESSAGE_MAX, "len to 2^30") \
	R(WHOLE, 0, RS_MESSAGE_MAX, "0 to 2^30") \
	R(PLACE, 0, x->total - x->behind, "0 to total - len") \
	R(CHUNK, x->behind, RS_LEAST(x->behind, x->chunk), "the bytes behind it, at most a chunk") \
	R(PRIORITY, 0, RS_PRIORITIES - 1, "0 to 7") \
	R(WEIGHT, 1, RS_WEIGHT_MAX, "1 to 64") \
	R(ERRNO, 1, 4095, "an errno") \
	R(SENDS, RS_OP_SEND, RS_OP_SEND, "1") \
	R(WRITES, RS_OP_WRITE, RS_OP_WRITE, "2") \
	R(READS, RS_OP_READ, RS_OP_READ, "3") \
	R(ADDS, RS_OP_FETCH_ADD, RS_OP_FETCH_ADD, "4") \
	R(SWAPS, RS_OP_COMPARE_SWAP, RS_OP_COMPARE_SWAP, "5") \
	R(WORD, sizeof(uint64_t), sizeof(uint64_t), "8") \
	R(FLAGS, 0, RSHARE_UNSIGNALLED | RSHARE_FENCE | RSHARE_IMMEDIATE, "0 to 7") \
	R(INLINE_FLAGS, RSHARE_INLINE, RSHARE_INLINE | 7, "8 to 15") \
	R(READ_FLAGS, 0, RSHARE_UNSIGNALLED | RSHARE_FENCE, "0 to 3") \
	R(LEN, 0, RS_LEAST(x->pool, RS_MESSAGE_MAX), "0 to the pool, at most 2^30") \
	R(PIECES, 2, RS_LEAST(x->pieces, RS_PIECES_MAX), "2 to those that the device takes, at most 5") \
	R(PIECE, 1, RS_LEAST(x->pool, RS_MESSAGE_MAX), "1 to the pool, at most 2^30") \
	R(PIECES_MAX, 0, RS_PIECES_MAX, "0 to 5") \
	R(INLINE, 0, RSHARE_INLINE_MAX, "0 to 76") \
	R(OFFSET, 0, x->pool - x->len, "0 to the pool - len") \
	R(EVENT, RSHARE_CONNECTED, RSHARE_WRITTEN, "1 to 5") \
	R(ACCEPT, RS_EVENT_ACCEPT, RS_EVENT_ACCEPT, "100") \
	R(INDEX, 0, (uint64_t)x->conns - 1, "a connection of the process") \
	R(HELLO_MAGIC, RS_HELLO_MAGIC, RS_HELLO_MAGIC, "0x31525352") \
	R(KEY, x->key, x->key, "the key of the owner") \
	R(CHUNK_SIZE, 64, 1u << 20, "64 to 2^20") \
	R(FAILURE, UINT32_MAX - 4094, UINT32_MAX, "-4095 to -1") \
	R(PORT, 1, UINT16_MAX, "1 to 65535") \
	R(QPN, 2, 0xffffff, "a queue pair") \
	R(BITS_24, 0, 0xffffff, "24 bits") \
	R(LID, 0, 0xbfff, "0, or a unicast LID") \
	R(MTU, 0, 5, "0 to 5") \
	R(GO, RS_GO, RS_GO, "0x67") \
	R(REPAIR_MAGIC, RS_REPAIR_MAGIC, RS_REPAIR_MAGIC, "0x50525352") \
	R(ASKS, RS_REPAIR_ASK, RS_REPAIR_ASK, "1") \
	R(TELLS, RS_REPAIR_READY, RS_REPAIR_READY, "2") \
	R(EPOCH, x->epoch, x->epoch, "the epoch that is due") \
	R(IS_ATTACH, RS_ATTACH, RS_ATTACH, "1") \
	R(IS_LISTEN, RS_LISTEN, RS_LISTEN, "2") \
	R(IS_CONNECT, RS_CONNECT, RS_CONNECT, "3") \
	R(IS_PRIORITY, RS_PRIORITY, RS_PRIORITY, "4") \
	R(IS_ABOUT, RS_CLOSE, RS_JOIN, "5 to 9") \
	R(IS_INFO, RS_INFO, RS_INFO, "10") \
	R(IS_GRANT, RS_GRANT, RS_GRANT, "11") \
	R(IS_REVOKE, RS_REVOKE, RS_REVOKE, "12") \
	R(ACCESS, 1, RSHARE_ACCESS_READ | RSHARE_ACCESS_WRITE | RSHARE_ACCESS_ATOMIC, "1 to 7") \
	R(CONTROL_VERSION, RS_CONTROL_VERSION, RS_CONTROL_VERSION, "13") \
	R(CONNS, 1, RS_CONNS_MAX, "1 to 2^16") \
	R(DEPTH, 1, RS_DEPTH_SHIFT_MAX, "1 to 12") \
	R(PAGES, 1, 1u << 28, "1 to 2^28") \
	R(LAYOUT_CONNS, x->layout.conns, x->layout.conns, "as asked for") \
	R(LAYOUT_DEPTH, x->layout.depth, x->layout.depth, "as asked for") \
	R(LAYOUT_CONN, x->layout.conn_offset, x->layout.conn_offset, "what follows from conns and depth") \
	R(LAYOUT_CONN_BYTES, x->layout.conn_bytes, x->layout.conn_bytes, "what follows from conns and depth") \
	R(LAYOUT_POOL, x->layout.pool_offset, x->layout.pool_offset, "what follows from conns and depth") \
	R(LAYOUT_POOL_BYTES, x->layout.pool_bytes, x->layout.pool_bytes, "as asked for") \
	R(LAYOUT_BYTES, x->layout.bytes, x->layout.bytes, "what follows from all these")

/* field: struct, name, rule. A frame of a peer */
#define RS_FRAME(F, is, whom, who, turn, got, bytes, at, more) \
	F(rs_frame, version, VERSION) F(rs_frame, kind, is) F(rs_frame, number, ANY) F(rs_frame, to, whom) F(rs_frame, from, who) \
	F(rs_frame, seq, turn) F(rs_frame, credit, got) F(rs_frame, total, bytes) F(rs_frame, offset, at) F(rs_frame, len, more)
#define RS_DATA_(F)    RS_FRAME(F, IS_DATA, ID, ID, ANY, ANY, TOTAL, PLACE, CHUNK)
#define RS_EMPTY_(F)   RS_FRAME(F, IS_DATA, ID, ID, ANY, ANY, ZERO, ZERO, ZERO) /* of no bytes */
#define RS_FIRST_(F)   RS_FRAME(F, IS_FIRST, ID, ID, ANY, ANY, TOTAL, ANY, CHUNK)
#define RS_FIRST_EMPTY_(F) RS_FRAME(F, IS_FIRST, ID, ID, ANY, ANY, ZERO, ANY, ZERO)
#define RS_WRITTEN_(F) RS_FRAME(F, IS_WRITTEN, ID, ID, ANY, ANY, WHOLE, ANY, ZERO)
#define RS_ATOMIC_(F)  RS_FRAME(F, IS_ATOMIC, ID, ID, ANY, ANY, ATOMIC_TOTAL, ZERO, ATOMIC_LEN)
#define RS_RESULT_(F)  RS_FRAME(F, IS_RESULT, ID, ID, ANY, BIT, ANY, ANY, ZERO)
#define RS_CREDIT_(F)  RS_FRAME(F, IS_CREDIT, ID, ID, ZERO, ANY, ZERO, ZERO, ZERO)
#define RS_OPENED_(F)  RS_FRAME(F, IS_OPENED, ID, ID, ZERO, ANY, ZERO, ZERO, ZERO)
#define RS_REFUSED_(F) RS_FRAME(F, IS_REFUSED, ID, ZERO, ZERO, ZERO, ERRNO, ZERO, ZERO)
#define RS_CLOSE_(F)   RS_FRAME(F, IS_CLOSE, ID, ID, ANY, ANY, ZERO, ZERO, ZERO)
#define RS_CLOSED_(F)  RS_FRAME(F, IS_CLOSED, ID, ID, ZERO, ANY, ZERO, ZERO, ZERO)
#define RS_RESET_(F)   RS_FRAME(F, IS_RESET, ID, ID, ZERO, ANY, ZERO, ZERO, ZERO)
#define RS_UNKNOWN_(F) RS_FRAME(F, IS_RESET, ID, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO) /* of no connection */
#define RS_OPEN_(F) \
	F(rs_open, version, VERSION) F(rs_open, kind, IS_OPEN) F(rs_open, number, ANY) F(rs_open, to, ZERO) F(rs_open, from, ID) \
	F(rs_open, service, ANY) F(rs_open, credit, ANY) F(rs_open, priority, PRIORITY) F(rs_open, weight, WEIGHT) \
	F(rs_open, pad, ZERO) F(rs_open, offset, ZERO) F(rs_open, len, ZERO)

/* Behind a frame ATOMIC */
#define RS_ATOM(F, what, old) \
	F(rs_atomic, address, ANY) F(rs_atomic, operand, ANY) F(rs_atomic, compare, old) F(rs_atomic, rkey, ANY) F(rs_atomic, op, what) \
	F(rs_atomic, pad, ZERO) F(rs_atomic, pad2, ZERO) F(rs_atomic, pad3, ZERO)
#define RS_ADD_(F)  RS_ATOM(F, ADDS, ZERO)
#define RS_SWAP_(F) RS_ATOM(F, SWAPS, ANY)

/* An entry of a ring */
#define RS_SQE(F, what, how, bytes, at, key, where, more, many) \
	F(rs_sqe, turn, ANY) F(rs_sqe, op, what) F(rs_sqe, flags, how) F(rs_sqe, pad, ZERO) F(rs_sqe, len, bytes) F(rs_sqe, rkey, key) \
	F(rs_sqe, offset, at) F(rs_sqe, cookie, ANY) F(rs_sqe, remote, where) F(rs_sqe, immediate, more) F(rs_sqe, pieces, many)
#define RS_NO_DATA(F) F(rs_sqe, operand, ZERO) F(rs_sqe, compare, ZERO)
#define RS_SEND_(F)  RS_SQE(F, SENDS, FLAGS, LEN, OFFSET, ZERO, ZERO, ANY, ZERO) RS_NO_DATA(F)
#define RS_WRITE_(F) RS_SQE(F, WRITES, FLAGS, LEN, OFFSET, ANY, ANY, ANY, ZERO) RS_NO_DATA(F)
#define RS_READ_(F)  RS_SQE(F, READS, READ_FLAGS, LEN, OFFSET, ANY, ANY, ZERO, ZERO) RS_NO_DATA(F)
#define RS_SEND_PIECES_(F)  RS_SQE(F, SENDS, FLAGS, WHOLE, ZERO, ZERO, ZERO, ANY, PIECES) RS_NO_DATA(F)
#define RS_WRITE_PIECES_(F) RS_SQE(F, WRITES, FLAGS, WHOLE, ZERO, ANY, ANY, ANY, PIECES) RS_NO_DATA(F)
#define RS_READ_PIECES_(F)  RS_SQE(F, READS, READ_FLAGS, WHOLE, ZERO, ANY, ANY, ZERO, PIECES) RS_NO_DATA(F)
#define RS_PIECE_(F) F(rs_piece, offset, OFFSET) F(rs_piece, len, PIECE)
#define RS_SEND_INLINE_(F)  RS_SQE(F, SENDS, INLINE_FLAGS, INLINE, ZERO, ZERO, ZERO, ANY, ZERO) F(rs_sqe, data, ANY)
#define RS_WRITE_INLINE_(F) RS_SQE(F, WRITES, INLINE_FLAGS, INLINE, ZERO, ANY, ANY, ANY, ZERO) F(rs_sqe, data, ANY)
#define RS_FETCH_ADD_(F) \
	RS_SQE(F, ADDS, READ_FLAGS, WORD, OFFSET, ANY, ANY, ZERO, ZERO) F(rs_sqe, operand, ANY) F(rs_sqe, compare, ZERO)
#define RS_COMPARE_SWAP_(F) \
	RS_SQE(F, SWAPS, READ_FLAGS, WORD, OFFSET, ANY, ANY, ZERO, ZERO) F(rs_sqe, operand, ANY) F(rs_sqe, compare, ANY)
#define RS_RECEIVE_(F) \
	F(rs_rqe, turn, ANY) F(rs_rqe, len, LEN) F(rs_rqe, offset, OFFSET) F(rs_rqe, cookie, ANY) F(rs_rqe, reserved, ZERO)
#define RS_CQE(F, what, why, bytes, which, how, more) \
	F(rs_cqe, turn, ANY) F(rs_cqe, type, what) F(rs_cqe, status, why) F(rs_cqe, len, bytes) F(rs_cqe, cookie, which) \
	F(rs_cqe, tagged, how) F(rs_cqe, immediate, more)
#define RS_EVENT_(F)  RS_CQE(F, EVENT, ANY, ANY, ANY, BIT, ANY)
#define RS_ACCEPT_(F) RS_CQE(F, ACCEPT, ZERO, ZERO, INDEX, ZERO, ZERO) /* of a listener */

/* Between owners */
#define RS_HELLO(F, why) \
	F(rs_hello, magic, HELLO_MAGIC) F(rs_hello, version, VERSION) F(rs_hello, key, KEY) F(rs_hello, instance, ANY) \
	F(rs_hello, chunk, CHUNK_SIZE) F(rs_hello, status, why) F(rs_hello, port, PORT) F(rs_hello, pad, ZERO) \
	F(rs_hello, pad2, ZERO) F(rs_hello, pad3, ZERO)
#define RS_HELLO_(F)   RS_HELLO(F, ZERO)
#define RS_REFUSAL_(F) RS_HELLO(F, FAILURE)
#define RS_ADDRESS(F, queue, number, local, size) \
	F(rs_address, gid, ANY) F(rs_address, qpn_strict, queue) F(rs_address, qpn_weighted, queue) \
	F(rs_address, psn_strict, number) F(rs_address, psn_weighted, number) F(rs_address, lid, local) F(rs_address, mtu, size) \
	F(rs_address, reserved, ZERO)
#define RS_QPS_(F)    RS_ADDRESS(F, QPN, BITS_24, LID, MTU)
#define RS_NO_QPS_(F) RS_ADDRESS(F, BITS_24, BITS_24, LID, MTU) /* of a refusal */
#define RS_NONE_(F)   RS_ADDRESS(F, ZERO, ZERO, ZERO, ZERO)     /* of REPAIR_READY */
#define RS_REPAIR(F, is, numbers) \
	F(rs_repair_message, magic, REPAIR_MAGIC) F(rs_repair_message, kind, is) F(rs_repair_message, epoch, EPOCH) \
	F(rs_repair_message, received, numbers)
#define RS_REPAIR_ASK_(F)   RS_REPAIR(F, ASKS, ANY)
#define RS_REPAIR_READY_(F) RS_REPAIR(F, TELLS, ZERO)

/* Of a process, and to it */
#define RS_REQUEST(F, is, speaks, which, what, many, shift, size, urgent, heavy, far) \
	F(rs_request, type, is) F(rs_request, version, speaks) F(rs_request, index, which) F(rs_request, service, what) \
	F(rs_request, conns, many) F(rs_request, depth_shift, shift) F(rs_request, pages, size) F(rs_request, priority, urgent) \
	F(rs_request, weight, heavy) F(rs_request, remote, far) F(rs_request, reserved, ZERO)
#define RS_ASK_ATTACH_(F)   RS_REQUEST(F, IS_ATTACH, CONTROL_VERSION, ZERO, ZERO, CONNS, DEPTH, PAGES, ZERO, ZERO, BIT)
#define RS_ASK_LISTEN_(F)   RS_REQUEST(F, IS_LISTEN, ZERO, ZERO, ANY, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO)
#define RS_ASK_CONNECT_(F)  RS_REQUEST(F, IS_CONNECT, ZERO, ZERO, ANY, ZERO, ZERO, ZERO, PRIORITY, WEIGHT, ZERO)
#define RS_ASK_PRIORITY_(F) RS_REQUEST(F, IS_PRIORITY, ZERO, INDEX, ZERO, ZERO, ZERO, ZERO, PRIORITY, WEIGHT, ZERO)
#define RS_ASK_ABOUT_(F)    RS_REQUEST(F, IS_ABOUT, ZERO, INDEX, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO)
#define RS_ASK_INFO_(F)     RS_REQUEST(F, IS_INFO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO)
#define RS_ASK_GRANT_(F)    RS_REQUEST(F, IS_GRANT, ZERO, ZERO, WHOLE, ZERO, ZERO, ANY, ZERO, ZERO, ACCESS)
#define RS_ASK_REVOKE_(F)   RS_REQUEST(F, IS_REVOKE, ZERO, ZERO, ANY, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO)
#define RS_ANSWER(F, why, which, key, where, many) \
	F(rs_answer, status, why) F(rs_answer, index, which) F(rs_answer, rkey, key) F(rs_answer, pieces, many) \
	F(rs_answer, pool_address, where)
#define RS_ATTACHED_(F) RS_ANSWER(F, ZERO, ZERO, ANY, ANY, PIECES_MAX)
#define RS_DONE_(F)     RS_ANSWER(F, ZERO, INDEX, ZERO, ZERO, ZERO)
#define RS_FAILED_(F)   RS_ANSWER(F, FAILURE, ZERO, ZERO, ZERO, ZERO)
#define RS_LAYOUT_(F) \
	F(rs_layout, conns, LAYOUT_CONNS) F(rs_layout, depth, LAYOUT_DEPTH) F(rs_layout, conn_offset, LAYOUT_CONN) \
	F(rs_layout, conn_bytes, LAYOUT_CONN_BYTES) F(rs_layout, pool_offset, LAYOUT_POOL) \
	F(rs_layout, pool_bytes, LAYOUT_POOL_BYTES) F(rs_layout, bytes, LAYOUT_BYTES)
#define RS_STATS_(F) \
	F(rshare_stats, messages_sent, ANY) F(rshare_stats, bytes_sent, ANY) F(rshare_stats, messages_received, ANY) \
	F(rshare_stats, bytes_received, ANY) F(rshare_stats, chunks_sent, ANY) F(rshare_stats, chunks_received, ANY) \
	F(rshare_stats, stalls, ANY) F(rshare_stats, writes, ANY) F(rshare_stats, bytes_written, ANY) F(rshare_stats, reads, ANY) \
	F(rshare_stats, bytes_read, ANY) F(rshare_stats, atomics, ANY) F(rshare_stats, written, ANY) F(rshare_stats, fences, ANY) \
	F(rshare_stats, outstanding, ANY)
#define RS_INFO_(F) \
	F(rshare_info, peers, ANY) F(rshare_info, clients, ANY) F(rshare_info, connections, ANY) F(rshare_info, queue_pairs, ANY) \
	F(rshare_info, registered, ANY) F(rshare_info, posts, ANY) F(rshare_info, doorbells, ANY) F(rshare_info, completions, ANY) \
	F(rshare_info, wakeups, ANY) F(rshare_info, signals, ANY) F(rshare_info, unknown, ANY) F(rshare_info, malformed, ANY) \
	F(rshare_info, forged, ANY) F(rshare_info, repairs, ANY) F(rshare_info, resent, ANY) F(rshare_info, to_running, ANY) \
	F(rshare_info, to_blocked, ANY) F(rshare_info, chunk, ANY) F(rshare_info, pieces, PIECES_MAX) F(rshare_info, address, STRING)

/* shape, struct, bytes */
#define RS_SHAPES(V) \
	V(DATA, rs_frame, sizeof(struct rs_frame))       V(FIRST, rs_frame, sizeof(struct rs_frame)) \
	V(ATOMIC, rs_frame, sizeof(struct rs_frame)) \
	V(EMPTY, rs_frame, sizeof(struct rs_frame))      V(FIRST_EMPTY, rs_frame, sizeof(struct rs_frame)) \
	V(WRITTEN, rs_frame, sizeof(struct rs_frame))    V(RESULT, rs_frame, sizeof(struct rs_frame)) \
	V(CREDIT, rs_frame, sizeof(struct rs_frame))     V(OPEN, rs_open, sizeof(struct rs_open)) \
	V(OPENED, rs_frame, sizeof(struct rs_frame))     V(REFUSED, rs_frame, sizeof(struct rs_frame)) \
	V(CLOSE, rs_frame, sizeof(struct rs_frame))      V(CLOSED, rs_frame, sizeof(struct rs_frame)) \
	V(RESET, rs_frame, sizeof(struct rs_frame))      V(UNKNOWN, rs_frame, sizeof(struct rs_frame)) \
	V(ADD, rs_atomic, sizeof(struct rs_atomic))      V(SWAP, rs_atomic, sizeof(struct rs_atomic)) \
	V(SEND, rs_sqe, sizeof(struct rs_sqe))           V(WRITE, rs_sqe, sizeof(struct rs_sqe)) \
	V(READ, rs_sqe, sizeof(struct rs_sqe)) \
	V(SEND_INLINE, rs_sqe, sizeof(struct rs_sqe))    V(WRITE_INLINE, rs_sqe, sizeof(struct rs_sqe)) \
	V(SEND_PIECES, rs_sqe, sizeof(struct rs_sqe))    V(WRITE_PIECES, rs_sqe, sizeof(struct rs_sqe)) \
	V(READ_PIECES, rs_sqe, sizeof(struct rs_sqe)) \
	V(FETCH_ADD, rs_sqe, sizeof(struct rs_sqe))      V(COMPARE_SWAP, rs_sqe, sizeof(struct rs_sqe)) \
	V(PIECE, rs_piece, sizeof(struct rs_piece))      V(RECEIVE, rs_rqe, sizeof(struct rs_rqe)) \
	V(EVENT, rs_cqe, sizeof(struct rs_cqe))          V(ACCEPT, rs_cqe, sizeof(struct rs_cqe)) \
	V(HELLO, rs_hello, offsetof(struct rs_hello, address)) V(REFUSAL, rs_hello, offsetof(struct rs_hello, address)) \
	V(REPAIR_ASK, rs_repair_message, offsetof(struct rs_repair_message, address)) \
	V(REPAIR_READY, rs_repair_message, offsetof(struct rs_repair_message, address)) \
	V(QPS, rs_address, sizeof(struct rs_address))    V(NO_QPS, rs_address, sizeof(struct rs_address)) \
	V(NONE, rs_address, sizeof(struct rs_address)) \
	V(ASK_ATTACH, rs_request, offsetof(struct rs_request, node))   V(ASK_LISTEN, rs_request, offsetof(struct rs_request, node)) \
	V(ASK_CONNECT, rs_request, offsetof(struct rs_request, node))  V(ASK_PRIORITY, rs_request, offsetof(struct rs_request, node)) \
	V(ASK_GRANT, rs_request, offsetof(struct rs_request, node))    V(ASK_REVOKE, rs_request, offsetof(struct rs_request, node)) \
	V(ASK_ABOUT, rs_request, offsetof(struct rs_request, node))    V(ASK_INFO, rs_request, offsetof(struct rs_request, node)) \
	V(ATTACHED, rs_answer, offsetof(struct rs_answer, layout))     V(DONE, rs_answer, offsetof(struct rs_answer, layout)) \
	V(FAILED, rs_answer, offsetof(struct rs_answer, layout))       V(LAYOUT, rs_layout, sizeof(struct rs_layout)) \
	V(STATS, rshare_stats, sizeof(struct rshare_stats)) \
	V(INFO, rshare_info, offsetof(struct rshare_info, address) + sizeof(((struct rshare_info *)0)->address))
/* clang-format on */

#define RULES_TABLE RS_RULES
#define RULES_SHAPES RS_SHAPES
#define RULES_FIELDS(shape) RS_##shape##_
#define RULES_NAME(x) rs_##x
#define RULES_CONST(x) RS_##x
#include "rules/make.h"

#endif

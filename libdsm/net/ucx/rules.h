/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules.h - one rule for each field received by UCX other than messages, which are its headers:
 * addresses, and what UCX reports of an active message. frame.c applies the rules; tests, the
 * fuzzer and docs/protocol.md take their values from here. rules/make.h generates the checks: a
 * field without a rule, or with two, does not compile. Pure.
 */
#ifndef NET_UCX_RULES_H
#define NET_UCX_RULES_H

#include "net/ucx/frame.h"

/* The values that rules compare fields with. A struct needs only those that its rules name. */
struct ucx_limits {
	uint64_t behind; /* bytes after a struct ucx_blob */
	uint16_t nodes;
};

#define UCX_ADDRESS_MAX (NET_ADDRESS_MAX - sizeof(struct ucx_blob))

/* clang-format off */
/* rule, lowest, highest, in words; x: struct ucx_limits */
#define UCX_RULES(R) \
	R(ANY, 0, UINT64_MAX, "any") \
	R(ZERO, 0, 0, "0") \
	R(MAGIC, UCX_BLOB_MAGIC, UCX_BLOB_MAGIC, "0x78637532") \
	R(BEHIND, x->behind ? x->behind : 1, x->behind < UCX_ADDRESS_MAX ? x->behind : UCX_ADDRESS_MAX, \
	  "the bytes behind it, 1 to 4064") \
	R(HEADER, sizeof(struct msg), sizeof(struct msg), "32") \
	R(PAYLOAD, 0, NET_PAYLOAD_MAX, "0 to 2^22, and as the message allows") \
	R(NODE, 0, x->nodes - 1, "a node")

/* field: struct, name, rule */
#define UCX_BLOB_(F) \
	F(ucx_blob, magic, MAGIC) F(ucx_blob, size, BEHIND) F(ucx_blob, pid, ANY) F(ucx_blob, memory, ANY) \
	F(ucx_blob, pipe, ANY) F(ucx_blob, pad, ZERO) F(ucx_blob, key, ANY)
#define UCX_ARRIVAL_(F) F(ucx_arrival, header, HEADER) F(ucx_arrival, data, PAYLOAD) F(ucx_arrival, src, NODE)

/* shape, struct, bytes */
#define UCX_SHAPES(V) V(BLOB, ucx_blob, sizeof(struct ucx_blob)) V(ARRIVAL, ucx_arrival, sizeof(struct ucx_arrival))
/* clang-format on */

#define RULES_TABLE UCX_RULES
#define RULES_SHAPES UCX_SHAPES
#define RULES_FIELDS(shape) UCX_##shape##_
#define RULES_NAME(x) ucx_##x
#define RULES_CONST(x) UCX_##x
#include "rules/make.h"

#endif

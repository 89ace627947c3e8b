/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * word.h - the 32 bits of immediate data that come with an RDMA write or a send, and one rule for
 * each of their fields.
 *
 * A block is sent by an RDMA write, and its word replaces MSG_DATA: it has the fields that the
 * receiver does not know from its own request. Processes use PROCESS_BLOCK and PROCESS_SLOT
 * (net/verbs); the kernel module uses the others (kmod/).
 *
 * WORD_<NAME> has a row for each field: W(field, first bit, bits, lowest, highest, the rule in
 * words); x is a struct word_limits. A bit without a row, or with two rows, does not compile.
 * docs/protocol.md has the same table. Pure functions.
 */
#ifndef CORE_WORD_H
#define CORE_WORD_H

#include "core/types.h"

/* Limits of the receiver. */
struct word_limits {
	uint32_t slots; /* for blocks */
	uint32_t spent; /* credits that the peer may return */
};

/* clang-format off */
#define WORD_PROCESS_BLOCK(W) \
	W(slot, 0, 8, 0, (int64_t)x->slots - 1, "a slot") \
	W(home, 8, 10, 0, 1023, "that of DATA") \
	W(count, 18, 10, 0, 1023, "that of DATA") \
	W(write, 28, 1, 0, 1, "op of DATA: 0 read, 1 write") \
	W(seq, 29, 2, 0, 3, "the frame's number, modulo 4") \
	W(bare, 31, 1, 1, 1, "1")
#define WORD_PROCESS_SLOT(W) \
	W(slot, 0, 31, 0, (int64_t)x->slots - 1, "a slot") \
	W(bare, 31, 1, 0, 0, "0")
#define WORD_KERNEL_BLOCK(W) \
	W(slot_low, 0, 8, 0, 255, "a slot, modulo 256") \
	W(count, 8, 9, 0, 511, "that of DATA") \
	W(home, 17, 10, 0, 1023, "that of DATA") \
	W(write, 27, 1, 0, 1, "op of DATA: 0 read, 1 write") \
	W(slot_high, 28, 2, 0, 3, "a slot, divided by 256") \
	W(echo, 30, 1, 0, 0, "0") \
	W(valid, 31, 1, 1, 1, "1")
#define WORD_KERNEL_ECHO(W) \
	W(slot, 0, 16, 0, (int64_t)x->slots - 1, "a slot") \
	W(zero, 16, 14, 0, 0, "0") \
	W(echo, 30, 1, 1, 1, "1") \
	W(valid, 31, 1, 1, 1, "1")
#define WORD_KERNEL_CREDITS(W) \
	W(n, 0, 32, 1, (int64_t)x->spent, "1 to the credits that the receiver has spent")

#define WORDS(V) V(PROCESS_BLOCK) V(PROCESS_SLOT) V(KERNEL_BLOCK) V(KERNEL_ECHO) V(KERNEL_CREDITS)
/* clang-format on */

static inline bool word_within(int64_t v, int64_t lo, int64_t hi)
{
	return v >= lo && v <= hi;
}

#define WORD_MASK(bits) ((uint32_t)((1ull << (bits)) - 1))
#define WORD_FIELD(field, first, bits, lo, hi, text) uint32_t field;
#define WORD_OR(field, first, bits, lo, hi, text) | WORD_MASK(bits) << (first)
#define WORD_SUM(field, first, bits, lo, hi, text) +((uint64_t)WORD_MASK(bits) << (first))
#define WORD_GET(field, first, bits, lo, hi, text) .field = word >> (first)&WORD_MASK(bits),
#define WORD_PUT(field, first, bits, lo, hi, text) | (w.field & WORD_MASK(bits)) << (first)
#define WORD_IS(field, first, bits, lo, hi, text) &&word_within(w->field, lo, hi)
#define WORD(name)                                                                         \
	_Static_assert((0u WORD_##name(WORD_OR)) == 0xffffffffu, "each bit has a rule");   \
	_Static_assert((0u WORD_##name(WORD_SUM)) == 0xffffffffu, "no bit has two rules"); \
	struct word_##name {                                                               \
		WORD_##name(WORD_FIELD)                                                    \
	};                                                                                 \
	static inline struct word_##name word_get_##name(uint32_t word)                    \
	{                                                                                  \
		return (struct word_##name){ WORD_##name(WORD_GET) };                      \
	}                                                                                  \
	static inline uint32_t word_put_##name(struct word_##name w)                       \
	{                                                                                  \
		return 0u WORD_##name(WORD_PUT);                                           \
	}                                                                                  \
	/* Does each field keep its rule? */                                               \
	static inline bool word_is_##name(const struct word_##name *w,                     \
					  const struct word_limits *x)                     \
	{                                                                                  \
		(void)x;                                                                   \
		return true WORD_##name(WORD_IS);                                          \
	}
WORDS(WORD)

#endif

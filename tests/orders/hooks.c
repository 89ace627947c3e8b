// SPDX-License-Identifier: BSD-2-Clause
/*
 * hooks.c - what the compiler's instrumentation for data races calls (its -fsanitize=thread; no
 * runtime of it is linked). Accesses to memory that is not shared, and those of begin() and end(),
 * happen at once.
 */
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

#include "search.h"

uint64_t changed(const struct op *op, uint64_t old)
{
	switch (op->change) {
	case CHANGE_SET: return op->value;
	case CHANGE_ADD: return old + op->value;
	case CHANGE_SUB: return old - op->value;
	case CHANGE_AND: return old & op->value;
	case CHANGE_OR: return old | op->value;
	case CHANGE_XOR: return old ^ op->value;
	case CHANGE_NAND: return ~(old & op->value);
	}
	return 0;
}

static uint64_t low_bytes(uint64_t v, unsigned int size)
{
	return size == 8 ? v : v & ((1ull << 8 * size) - 1);
}

/* At once, in the search itself. */
static void perform_alone(struct op *op)
{
	op->result = read_value(op->at, op->size);
	op->swapped = op->kind == OP_SWAP && op->result == op->expected;
	if (op->kind == OP_STORE || op->swapped)
		write_value(op->at, op->size, op->value);
	if (op->kind == OP_CHANGE)
		write_value(op->at, op->size, changed(op, op->result));
}

static uint64_t atomic_access(struct op op)
{
	op.value = low_bytes(op.value, op.size);
	op.expected = low_bytes(op.expected, op.size);
	if (!running || memory_number(op.at) < 0) {
		perform_alone(&op);
		return op.result;
	}
	running->op = op;
	thread_yield();
	return running->op.result;
}

static void plain_access(const void *at, size_t bytes, bool writes, const void *pc)
{
	if (running && memory_number(at) >= 0)
		current_model()->plain(running, at, bytes, writes, pc);
}

/* clang-format off */
#define PC __builtin_return_address(0)
#define CHANGE_HOOK(bits, name, what)                                                                                  \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile void *at, uint##bits##_t v, int order);                   \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile void *at, uint##bits##_t v, int order)                    \
	{                                                                                                              \
		return (uint##bits##_t)atomic_access((struct op){ .kind = OP_CHANGE, .change = what, .size = bits / 8, \
					   .order = order, .at = (char *)at, .pc = PC, .value = v });                  \
	}
#define SWAP_HOOK(bits, name)                                                                                          \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile void *at, void *expected, uint##bits##_t v,         \
							  int order, int fail);                                        \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile void *at, void *expected, uint##bits##_t v,         \
							  int order, int fail)                                         \
	{                                                                                                              \
		uint64_t was = read_value(expected, bits / 8);                                                         \
		uint64_t seen = atomic_access((struct op){ .kind = OP_SWAP, .size = bits / 8, .order = order,          \
				    .order_fail = fail, .at = (char *)at, .pc = PC, .value = v, .expected = was });    \
		write_value(expected, bits / 8, seen);                                                                 \
		return seen == was;                                                                                    \
	}
#define HOOKS(bits)                                                                                                    \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order);                                 \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order)                                  \
	{                                                                                                              \
		return (uint##bits##_t)atomic_access((struct op){ .kind = OP_LOAD, .size = bits / 8, .order = order,   \
								  .at = (char *)at, .pc = PC });                       \
	}                                                                                                              \
	void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t v, int order);                              \
	void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t v, int order)                               \
	{                                                                                                              \
		atomic_access((struct op){ .kind = OP_STORE, .size = bits / 8, .order = order, .at = (char *)at,       \
					   .pc = PC, .value = v });                                                    \
	}                                                                                                              \
	CHANGE_HOOK(bits, exchange, CHANGE_SET)                                                                        \
	CHANGE_HOOK(bits, fetch_add, CHANGE_ADD)                                                                       \
	CHANGE_HOOK(bits, fetch_sub, CHANGE_SUB)                                                                       \
	CHANGE_HOOK(bits, fetch_and, CHANGE_AND)                                                                       \
	CHANGE_HOOK(bits, fetch_or, CHANGE_OR)                                                                         \
	CHANGE_HOOK(bits, fetch_xor, CHANGE_XOR)                                                                       \
	CHANGE_HOOK(bits, fetch_nand, CHANGE_NAND)                                                                     \
	SWAP_HOOK(bits, strong)                                                                                        \
	SWAP_HOOK(bits, weak)
HOOKS(8)
HOOKS(16)
HOOKS(32)
HOOKS(64)

#define PLAIN_HOOK(name, bytes, writes)            \
	void __tsan_##name(void *at);              \
	void __tsan_##name(void *at)               \
	{                                          \
		plain_access(at, bytes, writes, PC); \
	}
#define PLAIN_HOOKS(bytes)                                  \
	PLAIN_HOOK(read##bytes, bytes, false)               \
	PLAIN_HOOK(write##bytes, bytes, true)               \
	PLAIN_HOOK(unaligned_read##bytes, bytes, false)     \
	PLAIN_HOOK(unaligned_write##bytes, bytes, true)
PLAIN_HOOKS(1)
PLAIN_HOOKS(2)
PLAIN_HOOKS(4)
PLAIN_HOOKS(8)
PLAIN_HOOKS(16)
/* clang-format on */

void __tsan_read_range(void *at, size_t bytes);
void __tsan_read_range(void *at, size_t bytes)
{
	plain_access(at, bytes, false, PC);
}

void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes)
{
	plain_access(at, bytes, true, PC);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

/* A barrier against the compiler alone. */
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

static uint64_t other_operation(struct op op)
{
	if (!running)
		return 0;
	running->op = op;
	thread_yield();
	return running->op.result;
}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	other_operation((struct op){ .kind = OP_FENCE, .order = order, .pc = PC });
}

/* ---- calls that redirect.h redirects --------------------------------------------------------- */

void *order_memcpy(void *to, const void *from, size_t bytes);
void *order_memcpy(void *to, const void *from, size_t bytes)
{
	plain_access(from, bytes, false, PC);
	plain_access(to, bytes, true, PC);
	return __builtin_memcpy(to, from, bytes);
}

void *order_memset(void *at, int byte, size_t bytes);
void *order_memset(void *at, int byte, size_t bytes)
{
	plain_access(at, bytes, true, PC);
	return __builtin_memset(at, byte, bytes);
}

int order_clock(clockid_t clock, struct timespec *t);
int order_clock(clockid_t clock, struct timespec *t)
{
	(void)clock;
	*t = (struct timespec){ .tv_sec = 1 };
	return 0;
}

static void futex(uint32_t *word, int op, uint32_t value, const void *pc)
{
	op &= FUTEX_CMD_MASK & ~FUTEX_CLOCK_REALTIME;
	if (op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET) {
		if (other_operation((struct op){ .kind = OP_SLEEP,
						 .size = 4,
						 .at = (char *)word,
						 .value = value,
						 .pc = pc }) == value)
			thread_sleep();
	} else {
		other_operation((struct op){
			.kind = OP_WAKE, .size = 4, .at = (char *)word, .value = value, .pc = pc });
	}
}

long order_syscall(long number, ...);
long order_syscall(long number, ...)
{
	va_list args;

	va_start(args, number);
	if (number == SYS_futex) {
		uint32_t *word = va_arg(args, uint32_t *);
		int op = va_arg(args, int);

		futex(word, op, va_arg(args, uint32_t), PC);
	} else if (number == SYS_membarrier) {
		other_operation((struct op){ .kind = OP_BARRIER, .pc = PC });
	} else {
		violation("system call %ld", number);
	}
	va_end(args);
	return 0;
}

void cell_lock(unsigned int cell)
{
	other_operation((struct op){ .kind = OP_LOCK, .cell = cell, .pc = PC });
}

void cell_unlock(unsigned int cell)
{
	other_operation((struct op){ .kind = OP_UNLOCK, .cell = cell, .pc = PC });
}

void cell_post(unsigned int cell)
{
	other_operation((struct op){ .kind = OP_POST, .cell = cell, .pc = PC });
}

void cell_wait(unsigned int cell)
{
	other_operation((struct op){ .kind = OP_WAIT, .cell = cell, .pc = PC });
}

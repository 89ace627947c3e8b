/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dsm_atomics.h - dsm-cc includes it before each file of a program with threads, and has GCC call
 * functions for atomic operations, which libdsm-pthread.so has. GCC makes instructions of some of
 * its functions nevertheless: here they are written by means of others.
 *
 * Full fences stay instructions.
 */
#ifndef DSM_ATOMICS_H
#define DSM_ATOMICS_H

#if defined(__GNUC__) && !defined(__ASSEMBLER__)
#pragma GCC system_header

/* The type of *p, without qualifiers. */
#define DSM_ATOMICS_TYPE(p) __typeof__((__typeof__(*(p)))0)

/* The last argument is there so that none of these lacks one for its dots. */
#define DSM_ATOMICS_DO(name, p, value, ...) name((p), (value), __ATOMIC_SEQ_CST)
#define DSM_ATOMICS_CLEAR(p, ...) __atomic_store_n((p), (DSM_ATOMICS_TYPE(p))0, __ATOMIC_RELEASE)
#define DSM_ATOMICS_COMPARE(result, p, old, value, ...)                                         \
	__extension__({                                                                         \
		DSM_ATOMICS_TYPE(p) dsm_atomics_old = (old);                                    \
		const int dsm_atomics_same = __atomic_compare_exchange_n(                       \
			(p), &dsm_atomics_old, (value), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
		(void)dsm_atomics_same;                                                         \
		result;                                                                         \
	})

#define DSM_ATOMICS_BYTE(p) ((volatile unsigned char *)(p))
#define __atomic_test_and_set(p, order) \
	(__atomic_exchange_n(DSM_ATOMICS_BYTE(p), (unsigned char)1, (order)) != 0)
#define __atomic_clear(p, order) __atomic_store_n(DSM_ATOMICS_BYTE(p), (unsigned char)0, (order))

#define __sync_fetch_and_add(...) DSM_ATOMICS_DO(__atomic_fetch_add, __VA_ARGS__, 0)
#define __sync_fetch_and_sub(...) DSM_ATOMICS_DO(__atomic_fetch_sub, __VA_ARGS__, 0)
#define __sync_fetch_and_or(...) DSM_ATOMICS_DO(__atomic_fetch_or, __VA_ARGS__, 0)
#define __sync_fetch_and_and(...) DSM_ATOMICS_DO(__atomic_fetch_and, __VA_ARGS__, 0)
#define __sync_fetch_and_xor(...) DSM_ATOMICS_DO(__atomic_fetch_xor, __VA_ARGS__, 0)
#define __sync_fetch_and_nand(...) DSM_ATOMICS_DO(__atomic_fetch_nand, __VA_ARGS__, 0)
#define __sync_add_and_fetch(...) DSM_ATOMICS_DO(__atomic_add_fetch, __VA_ARGS__, 0)
#define __sync_sub_and_fetch(...) DSM_ATOMICS_DO(__atomic_sub_fetch, __VA_ARGS__, 0)
#define __sync_or_and_fetch(...) DSM_ATOMICS_DO(__atomic_or_fetch, __VA_ARGS__, 0)
#define __sync_and_and_fetch(...) DSM_ATOMICS_DO(__atomic_and_fetch, __VA_ARGS__, 0)
#define __sync_xor_and_fetch(...) DSM_ATOMICS_DO(__atomic_xor_fetch, __VA_ARGS__, 0)
#define __sync_nand_and_fetch(...) DSM_ATOMICS_DO(__atomic_nand_fetch, __VA_ARGS__, 0)
#define __sync_lock_test_and_set(...) DSM_ATOMICS_DO(__atomic_exchange_n, __VA_ARGS__, 0)
#define __sync_lock_release(...) DSM_ATOMICS_CLEAR(__VA_ARGS__, 0)
#define __sync_bool_compare_and_swap(...) DSM_ATOMICS_COMPARE(dsm_atomics_same, __VA_ARGS__, 0)
#define __sync_val_compare_and_swap(...) DSM_ATOMICS_COMPARE(dsm_atomics_old, __VA_ARGS__, 0)

#endif

#endif

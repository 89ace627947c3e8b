/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * types.h - fixed-width integers, errno and mem* for the core. No other header of the core tests
 * __KERNEL__.
 */
#ifndef CORE_TYPES_H
#define CORE_TYPES_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/string.h>
#include <linux/types.h>
#define INT32_MAX S32_MAX
#define INT64_MIN S64_MIN
#define INT64_MAX S64_MAX
#define UINT16_MAX U16_MAX
#define UINT32_MAX U32_MAX
/* a kernel that zeroes variables would spend most of a step on large ones */
#define CORE_UNINITIALIZED __uninitialized
#else
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define CORE_UNINITIALIZED
#endif

#define CORE_ASSERT_SIZE(type, size) \
	_Static_assert(sizeof(type) == (size), #type " has a fixed layout")

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "wire and shared-memory layouts are little endian"
#endif

/* Is a earlier than b? 32-bit times wrap, so the sign of the difference decides. */
static inline bool us_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

#endif

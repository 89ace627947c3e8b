/* SPDX-License-Identifier: BSD-2-Clause */
/* sizes.h - the page, and the unit in which the window is given out. */
#ifndef UTIL_SIZES_H
#define UTIL_SIZES_H

#define PAGE_SHIFT 12
#define PAGE_BYTES (1ul << PAGE_SHIFT)
/* A unit belongs to one region, or to the heap of one rank. No block crosses its end. */
#define UNIT_BYTES (2ul << 20)

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * touched.h - which pages of the node's memory this process has mapped: those that were mapped for
 * it, and those that it has touched since. Any thread, also in the fault handler; nothing blocks.
 */
#ifndef FAULT_TOUCHED_H
#define FAULT_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOUCHED_PAGES 16u /* of a chunk of FRAMES_CHUNK bytes */

/* Call after range_window(). Without /proc, all pages count as touched. */
void touched_open(void);
void touched_close(void);
/* Can it be told? */
bool touched_known(void);
/* The mapped pages of a chunk; all if that cannot be told. */
uint16_t touched_in(size_t chunk);
/*
 * Take the pages of [off, off + len) out of this process's page tables. What it may do with them
 * stays: write-protection markers remain, and the kernel maps a page again when it is touched.
 */
void touched_hide(size_t off, size_t len);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h - the memory objects of this node: control segment and frames.
 *
 * Start and stop are for the thread in dsm_init() or dsm_finalize(); the rest is for any thread. Nothing blocks for other ranks.
 */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This rank's doorbell, and the node's memory where it is the node's first rank. Errors have been said: -ENOMEM, -EMFILE. */
int memory_start(void);
/* Map the control segment, whose descriptor job.mem has: job.me and what lies behind it. -ENOMEM, said. */
int memory_map(void);
/* All of it, and every descriptor of other ranks, however far the start came. */
void memory_stop(void);

/* After a system call for a descriptor has failed: -errno, said. what: "cannot make a socket". */
int memory_no_descriptors(const char *what);

/*
 * Where contents wait for the acknowledgements of the request in a slot of this node; a second call gives the place back, and with
 * it what it holds if that has been used. In the fault handler, too.
 */
char *memory_stage(uint16_t slot, size_t bytes);
void memory_unstage(uint16_t slot, char *at, size_t bytes, bool used);

/* Before a core file: keep out of it what was never touched, which the kernel would allocate to write zeros, and the control
 * segment. In a handler of any signal. */
void memory_trim_core(void);

/* The next offset at or after off with a page state of this node that was ever touched; end if none. */
size_t memory_next_used(size_t off, size_t end);
/* The same of what sharing.h keeps of pages: many that were never missed may be among them. */
size_t memory_next_missed(size_t off, size_t end);
/* Of a range that no rank of the node is attached to: is no request and no directory entry under way? */
bool memory_quiet(size_t off, size_t end);
/* Zero all state of a range of the window, which is quiet. */
void memory_forget(size_t off, size_t bytes);

#endif

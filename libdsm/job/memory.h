/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h - the memory objects of this node: control segment and frames.
 *
 * The thread in dsm_init() or dsm_finalize() calls memory_start(), memory_map() and memory_stop().
 * Any thread may call the other functions. Nothing blocks for other ranks.
 */
#ifndef JOB_MEMORY_H
#define JOB_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Create this rank's doorbell and, in the node's first rank, the node's memory. -ENOMEM, -EMFILE;
 * prints its errors.
 */
int memory_start(void);
/*
 * Map the control segment (its descriptor is in job.mem), and set job.me and job.mem. -ENOMEM;
 * prints its error.
 */
int memory_map(void);
/* Release the memory and all descriptors of other ranks, also after a failed start. */
void memory_stop(void);

/*
 * Print why a system call returned no descriptor, and return -errno. what: e.g. "cannot make a
 * socket".
 */
int memory_no_descriptors(const char *what);

/*
 * Map the place where contents wait for the acknowledgements of the request in a slot of this node.
 * memory_unstage() unmaps it; if used is set, it also discards the contents. Safe in the fault
 * handler.
 */
char *memory_stage(uint16_t slot, size_t bytes);
void memory_unstage(uint16_t slot, char *at, size_t bytes, bool used);

/*
 * Mappings of the node's frames, and of its twins, that nothing watches. Mapped on the first call.
 * Touch a page of the frames only under its stripe, where the state says that it is present:
 * touching a hole would create a page. Safe in the fault handler; ends the process if there is no
 * memory.
 */
char *memory_alias(size_t off);
char *memory_twin(uint32_t number);

/*
 * The next offset at or after off with a page state of this node that was ever touched; end if
 * none.
 */
size_t memory_next_used(size_t off, size_t end);
/* The same for release blocks (struct rel). */
size_t memory_next_rel(size_t off, size_t end);
/* The same for the records of sharing.h. The result may be a page that was never missed. */
size_t memory_next_missed(size_t off, size_t end);
/*
 * Is no request and no directory entry active in this range? No rank of the node may be attached to
 * it.
 */
bool memory_quiet(size_t off, size_t end);
/* Zero all state of a range of the window. The range must be quiet. */
void memory_forget(size_t off, size_t bytes);

#endif

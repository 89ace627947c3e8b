/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ask.h - ask another process of the node to change its own mapping, for backends that cannot
 * change it from outside.
 *
 * Each rank has a box of requests in the node's shared memory, and a futex word that its threads
 * sleep on. The thread dsm-protect of the rank only serves the box. It takes no lock of the engine,
 * so it serves requests whatever locks the askers hold. A thread that waits for an answer also
 * serves the box of its own rank, which saves waking dsm-protect.
 *
 *   FREE -> (asker) WRITING -> POSTED -> (server) TAKEN -> DONE -> (asker) FREE
 *   POSTED -> (asker) FREE when the process has ended
 */
#ifndef FAULT_ASK_H
#define FAULT_ASK_H

#include "fault/frames.h"

/*
 * Serve a request: set this process's mapping of [off, off + len) to prot, as for mprotect(2). 0 or
 * -errno.
 */
typedef int (*ask_serve_fn)(size_t off, size_t len, int prot);

/* Bytes of shared memory for the boxes; whole pages. */
size_t ask_shared(unsigned int ranks);
/* Start to serve the boxes at `shared`. -EAGAIN: no thread could be created. */
int ask_open(void *shared, ask_serve_fn serve);
void ask_close(void);
/*
 * Make all ranks of `t->down`, this one included, set [off, off + len) to prot. 0 or -errno of the
 * first that failed. Blocks.
 */
int fault_ask_all(const struct map_todo *t, size_t off, size_t len, int prot);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ask.h - asking another process of the node to change its own mapping, for backends that cannot do it from outside.
 *
 * Each rank has a box of requests in memory of the node, and a word that its threads sleep on. A thread of its own, dsm-protect,
 * serves the box and does nothing else: it takes no lock of the engine's, so a request is served whatever the askers hold. Who
 * waits for an answer serves the box of its own rank, too, which spares waking that thread.
 *
 *   FREE -> (asker) WRITING -> POSTED -> (server) TAKEN -> DONE -> (asker) FREE
 *   POSTED -> (asker) FREE when the process has ended
 */
#ifndef FAULT_ASK_H
#define FAULT_ASK_H

#include "fault/frames.h"

/* What serves a request: this process's mapping of [off, off + len) to prot, an argument of mprotect(2). 0 or -errno. */
typedef int (*ask_serve_fn)(size_t off, size_t len, int prot);

/* Bytes of node memory, whole pages. */
size_t ask_shared(unsigned int ranks);
/* The boxes are at `shared`. -EAGAIN: no thread to be had. */
int ask_open(void *shared, ask_serve_fn serve);
void ask_close(void);
/* All ranks of `t->down`, this one among them, set [off, off + len) to prot. -errno of the first that could not. */
int ask_all(const struct map_todo *t, size_t off, size_t len, int prot);

#endif

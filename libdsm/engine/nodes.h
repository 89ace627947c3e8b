/* SPDX-License-Identifier: BSD-2-Clause */
/* nodes.h - which ranks are a node. At the start and the end only, by the thread that is there; nothing blocks. */
#ifndef ENGINE_NODES_H
#define ENGINE_NODES_H

#include <stdint.h>

/* Deal the ranks of each host (host[rank]) out to nodes of at most so many (0: any number), in the order of ranks: what job.h
 * says of nodes. -ENOMEM: nodes_forget() frees the rest. */
int nodes_make(const uint64_t *host, uint16_t most);
void nodes_forget(void);

#endif

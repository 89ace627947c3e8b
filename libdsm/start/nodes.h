/* SPDX-License-Identifier: BSD-2-Clause */
/* nodes.h - assignment of ranks to nodes. For the thread in dsm_init() or dsm_finalize(); nothing
 * blocks. */
#ifndef START_NODES_H
#define START_NODES_H

#include <stdint.h>

/* Assign the ranks of each host (host[rank]) to nodes of at most `most` ranks (0: no limit), in the
 * order of ranks, and set the fields of job.h about nodes. -ENOMEM: nodes_forget() frees what was
 * allocated. */
int nodes_make(const uint64_t *host, uint16_t most);
void nodes_forget(void);

#endif

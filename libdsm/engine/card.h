/* SPDX-License-Identifier: BSD-2-Clause */
/* card.h - a rank's card: what it publishes through the launcher before the ranks can talk. At the start, by the only thread. */
#ifndef ENGINE_CARD_H
#define ENGINE_CARD_H

#include <stdint.h>

#include "engine/host.h"

struct card {
	uint64_t magic, abi, settings, key, host;
	uint32_t places; /* ranges that are free for the window (window.h) */
	int32_t pid;
	uint32_t no_uffd;           /* it catches faults by mprotect(2) */
	uint32_t group;             /* most ranks of a node that it asks for; 0: all of its host */
	uint32_t hosted;            /* kind of its core's host */
	uint8_t host_key[HOST_KEY]; /* of the job, rank 0's: by which nodes know each other there */
};

/* This rank's, with a key for a job of which it is rank 0; it reserves the ranges of its `places` (window.h). -EIO: no random numbers. */
int card_make(struct card *c);
/* All ranks have published theirs: read them, and compare what must agree. 0, or -EPROTO, which has been said. */
int card_read_all(struct card *cards);
/* Most ranks of a node: the least that a rank asks for. 0: no rank asks. */
uint16_t card_group(const struct card *cards);
/* The ranges for the window that are free in all ranks. */
uint32_t card_places(const struct card *cards);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* card.h - a rank's card: data published through the launcher before ranks are connected. At the start, in the only thread. */
#ifndef START_CARD_H
#define START_CARD_H

#include <stdint.h>

#include "job/host_ops.h"

struct card {
	uint64_t magic, abi, settings, key, host;
	uint32_t places; /* ranges that are free for the window (window.h) */
	int32_t pid;
	uint32_t no_uffd;           /* it catches faults by mprotect(2) */
	uint32_t group;             /* most ranks per node that it requests; 0: all ranks of its host */
	uint32_t hosted;            /* kind of its core's host */
	uint8_t host_key[HOST_KEY]; /* the job's key, from rank 0; nodes authenticate each other with it */
	uint64_t token[2]; /* ends the name of this rank's socket (meet.c). That of rank 0 names things of the job */
};

/* Make this rank's card, with a key in case it is rank 0. Reserves the ranges in `places` (window.h). -EIO: no random numbers. */
int card_make(struct card *c);
/* Read the cards, which all ranks have published, and compare what must agree. 0, or -EPROTO after a message. */
int card_read_all(struct card *cards);
/* Most ranks per node: the smallest number that a rank requests. 0: no rank requests one. */
uint16_t card_group(const struct card *cards);
/* The ranges for the window that are free in all ranks. */
uint32_t card_places(const struct card *cards);

#endif

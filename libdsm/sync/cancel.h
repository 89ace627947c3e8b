/* SPDX-License-Identifier: BSD-2-Clause */
/* cancel.h - waits that end before their time. Inside the runtime, by the thread that has sent the request; both block. */
#ifndef SYNC_CANCEL_H
#define SYNC_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire.h"

/* After the first answer of a request that is answered twice ("in line", then its turn): 0, or -ETIMEDOUT after ns (0: none).
 * seq: of its slot, before it was sent. point: it is a cancellation point. */
int sync_turn(struct msg *m, uint32_t seq, uint64_t ns, bool point);
/* Of a thread that is cancelled: take its request back. 0, or 1: what it asked for has come all the same. */
int sync_take_back(struct msg *m, uint32_t seq, bool in_line);

#endif

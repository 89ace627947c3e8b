/* SPDX-License-Identifier: BSD-2-Clause */
/* cancel.h - end a wait early. Called inside the runtime, by the thread that has sent the request;
 * both functions block. */
#ifndef SYNC_CANCEL_H
#define SYNC_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire.h"

/* Wait for the second answer of a request that has two ("in line", then its turn). 0, or -ETIMEDOUT
 * after ns (0: no limit). seq: that of its slot before it was sent. point: this is a cancellation
 * point, and stop is as in wait_slot_point(): -EINTR. */
int sync_turn(struct msg *m, uint32_t seq, uint64_t ns, bool point, const uint32_t *stop);
/* Cancel the request of a thread whose wait ends early. in_line: "in line" has come, or will. 0; 1:
 * the request was granted first. */
int cancel_take_back(struct msg *m, uint32_t seq, bool in_line);

#endif

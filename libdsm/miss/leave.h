/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * leave.h - copies that leave this node for another one: lower their mappings, read the contents,
 * send them. What goes to one node travels together (core/bundle.h).
 */
#ifndef MISS_LEAVE_H
#define MISS_LEAVE_H

#include <stdbool.h>

#include "core/host.h"
#include "miss/work.h"

/* Send a block whose contents have been read: send_block() of struct core_ops. */
void leave_send_block(struct core_host *h, const struct msg *m, const void *contents);

/*
 * Close what this thread has set aside (work_closing()), and send the answers. No answer is sent
 * before all mappings of its block are lowered (core/map.h), and until then the protocol does
 * nothing else with that block. Called by run_work() alone. True: there was some.
 */
bool leave_close_all(struct core_host *h, struct work *w);

#endif

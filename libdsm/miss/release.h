/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * release.h - this process as a host of release blocks (core/host_release.h): closes, their
 * messages, acquires.
 *
 * A job without a release block pays for one test of releases_used() on each path. Any thread
 * inside the runtime may call these functions, also in the fault handler, without a stripe. Only
 * those that say so wait for other nodes.
 */
#ifndef MISS_RELEASE_H
#define MISS_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bundle.h"
#include "core/host_release.h"
#include "job/job.h"
#include "miss/release_state.h"

#define RELEASE_AHEAD 32u /* most blocks that a store opens, or a touch maps, beside its own */

extern const struct core_rel_ops release_ops;

/* For step_find(). 0: not a release block, nothing has changed; 1: it is; -EBADMSG: the message is
 * for another kind of block. */
int release_find_block(struct core_host *h, uint32_t object, const struct msg *m,
		       struct core_place *p);
void release_find_closing(struct core_place *p);

/* Handle MSG_FLUSH, MSG_NOTE and MSG_AFTER. 0 or -EBADMSG. */
int release_arrived(const struct msg *m, const void *payload, size_t size);
/* Does a message that releases come with m? */
bool release_has_inside(const struct msg *m);
/* Send MSG_FLUSH or MSG_NOTE with the payload in struct work; of a close that gathers, soon. */
void release_send(const struct msg *m);
/* Send MSG_FLUSHED, with the blocks whose home moves. */
void release_acknowledge(const struct msg *m);
/* Take the blocks of which MSG_FLUSHED, which comes next, says that this node is the home. 0 or
 * -EBADMSG. */
int release_given(const struct msg *m, const void *payload, size_t size);
/* Look at all open blocks: the item that a close queues. */
void release_gather(void);

/*
 * A thread of this node has stored to the block at off: open those behind it for writing, too, as
 * far as the node has copies that it has written before, or the first `most` copies; at most up to
 * end. One call of the fault backend opens all, and none of them costs a fault. Returns how many.
 */
unsigned int release_open_ahead(size_t off, size_t end, unsigned int most);
/*
 * A thread of this node has touched a block of its own that nobody had touched. Around it, how many
 * blocks of its chunk have contents here?
 */
unsigned int release_touched_around(size_t off);
/*
 * Give up to `most` blocks from off on, which nobody has touched, and whose home is here, their
 * first contents; at most up to end. One call of the fault backend maps all. Returns how many.
 */
unsigned int release_touch_ahead(size_t off, size_t end, unsigned int most);
/* The same for the blocks before off; at most down to start. */
unsigned int release_touch_before(size_t off, size_t start, unsigned int most);
/* Another node requests the blocks of this bundle: lower neighbours of which it gets the first
 * copies. */
void release_share_soon(struct bundle b);

void release_acquire_now(void);
void release_close_now(void);

/* Apply the notices that have come, before this thread reads what another node has written.
 * Waits. */
static inline void release_acquire(void)
{
	if (releases_used())
		release_acquire_now();
}

/* Before this thread tells another node of its stores by other means than a message of the core:
 * see that all of them are at their homes, and all notices with their nodes. Waits. */
static inline void release_close(void)
{
	if (releases_used())
		release_close_now();
}

/* Begin a close that looks at all stores so far, without waiting for it. Returns what
 * release_has_closed() takes; 0: there is nothing to close. Inside the runtime, not while a message
 * is handled. */
uint64_t release_close_begin(void);
/* The same, of a node that has used release blocks, also if there is nothing to close. */
uint64_t release_close_always(void);
bool release_has_closed(uint64_t close);

/* Does a close of this node run, or a message wait for one? Any thread. */
bool release_closing(void);

/* Try to apply the notices that have come. False: not all of them yet. Does not wait. */
bool release_try_acquire(void);

/* Before a thread opens one more block: if there are too many twins, wait for closes that free
 * some. */
void release_make_room(void);
/* May it open n more blocks now? A hint: others may be on their way. */
bool release_many_fit(unsigned int n);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* account.h - accounting of contexts and their users: locked memory, other memory, open contexts, threads that poll. */
#ifndef KMOD_ACCOUNT_H
#define KMOD_ACCOUNT_H

#include "ctx.h"

/* Other memory than frames, in pages; any context. False: the user may not lock so much. */
bool account_charge(struct ctx *c, long pages);
void account_uncharge(struct ctx *c, long pages);
/* The same for a small object. Bytes are summed, and charged in whole pages. */
bool account_charge_bytes(struct ctx *c, size_t n);
void account_uncharge_bytes(struct ctx *c, size_t n);
/* The same for n frames of one chunk, and the chunk. */
bool account_charge_frames(struct ctx *c, long n);
void account_uncharge_frames(struct ctx *c, long n);

int account_open_view(struct view *v); /* -EUSERS: the user has too many contexts; -ENOMEM */
void account_close_view(struct view *v);
void account_open_ctx(struct ctx *c, const struct view *v); /* with the user and the limit of the view */
void account_close_ctx(struct ctx *c);
void account_move(struct view *v, struct ctx *c);        /* from now on the context counts for the user, not the view */
int account_take_pollers(struct ctx *c, unsigned int n); /* -EUSERS; account_close_ctx() gives them back */

/* Between these two, allocations of this worker are charged to the memory cgroup of the context. */
struct mem_cgroup *account_memcg_begin(struct ctx *c);
void account_memcg_end(struct mem_cgroup *before);

/* How often a charge was refused. If it is unchanged after a failed allocation, the machine or the cgroup lacks the memory. */
static inline unsigned int account_refused(const struct ctx *c)
{
	return (unsigned int)atomic_read(&c->refused);
}

#define CHUNK_CHARGE 2l /* pages of a struct chunk */

static inline long account_pages(size_t bytes)
{
	return (long)DIV_ROUND_UP(bytes, PAGE_SIZE);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * account.h - accounting of contexts and their users: locked memory, other memory, open contexts,
 * threads that poll.
 */
#ifndef KMOD_ACCOUNT_H
#define KMOD_ACCOUNT_H

#include "ctx.h"

/*
 * Charge pages of memory other than frames. False: above the user's limit of locked memory. Any
 * context.
 */
bool account_charge(struct ctx *c, long pages);
void account_uncharge(struct ctx *c, long pages);
/* The same for a small object. The sum of all bytes is charged in whole pages. */
bool account_charge_bytes(struct ctx *c, size_t n);
void account_uncharge_bytes(struct ctx *c, size_t n);
/* The same for n frames of one chunk, and for the struct chunk itself. */
bool account_charge_frames(struct ctx *c, long n);
void account_uncharge_frames(struct ctx *c, long n);

int account_open_view(struct view *v); /* -EUSERS: too many contexts of the user; -ENOMEM */
void account_close_view(struct view *v);
void account_open_ctx(struct ctx *c, const struct view *v); /* sets user and limit to the view's */
void account_close_ctx(struct ctx *c);
/* count the context for the user in place of the view */
void account_move(struct view *v, struct ctx *c);
/* -EUSERS: too many; account_close_ctx() returns them */
int account_take_pollers(struct ctx *c, unsigned int n);

/*
 * Between these two calls, allocations of this worker are charged to the memory cgroup of the
 * context.
 */
struct mem_cgroup *account_memcg_begin(struct ctx *c);
void account_memcg_end(struct mem_cgroup *before);

/*
 * The number of refused charges. If it is unchanged after a failed allocation, the machine or the
 * cgroup is out of memory.
 */
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

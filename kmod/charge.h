/* SPDX-License-Identifier: GPL-2.0 */
/* charge.h - what users and contexts are charged for: locked memory, other memory, contexts, threads that poll. */
#ifndef KMOD_CHARGE_H
#define KMOD_CHARGE_H

#include "ctx.h"

/* Of `charged`, any context: false, more than the user may lock. */
bool ctx_charge(struct ctx *c, long pages);
void ctx_uncharge(struct ctx *c, long pages);
bool ctx_charge_bytes(struct ctx *c, size_t n); /* of a small object; charged by the page */
void ctx_uncharge_bytes(struct ctx *c, size_t n);
bool ctx_charge_frames(struct ctx *c, long n); /* of 2 MiB */
void ctx_uncharge_frames(struct ctx *c, long n);
int view_open_account(struct view *v); /* -EUSERS: the user has too many */
void view_close_account(struct view *v);
void ctx_open_account(struct ctx *c, const struct view *v); /* of the same user, and the same limit */
void ctx_close_account(struct ctx *c);
void account_move(struct view *v, struct ctx *c); /* what has counted the view counts the context */
int ctx_take_pollers(struct ctx *c, unsigned int n);
struct mem_cgroup *ctx_memory(struct ctx *c); /* what this worker allocates is of its memory cgroup, until */
void ctx_memory_end(struct mem_cgroup *before);

/* What was more than the user may lock, so often: a lack of memory between two equal values is the machine's, or the cgroup's. */
static inline unsigned int ctx_refused(const struct ctx *c)
{
	return (unsigned int)atomic_read(&c->refused);
}

#define CHUNK_CHARGE 2l /* pages of a struct chunk */
static inline long charge_of(size_t bytes)
{
	return (long)DIV_ROUND_UP(bytes, PAGE_SIZE);
}

#endif

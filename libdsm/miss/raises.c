// SPDX-License-Identifier: BSD-2-Clause
/* raises.c - see raises.h. */
#include "miss/raises.h"

#include "core/release.h"
#include "job/job.h"
#include "job/usage.h"

/*
 * Copies can go, what this node is the home of cannot: it does not ask while it has more than this
 * part of its bound.
 */
#define BOUND_PART 2
#define VAIN_REFUSED 2
#define VAIN_SHARED 4
#define VAIN_MOST 64    /* from here on the node does not ask */
#define VAIN_COUNTED 96 /* at most about so much: it asks again some closes later */

static void vain_add(int n)
{
	uint32_t *vain = &job.me->asked_in_vain;
	const int now = (int)__atomic_load_n(vain, __ATOMIC_RELAXED);

	if (n > 0 ? now < VAIN_COUNTED : now > 0)
		__atomic_store_n(vain, (uint32_t)(now + n), __ATOMIC_RELAXED);
}

bool raises_pay(void)
{
	return __atomic_load_n(&job.me->asked_in_vain, __ATOMIC_RELAXED) < VAIN_MOST &&
		(!job.set.memory || usage_bounded() < job.set.memory / BOUND_PART);
}

void raises_answered(const struct msg *m)
{
	vain_add(m->op == GRANT_WRITE ? -1 : VAIN_REFUSED);
}

void raises_shared(void)
{
	vain_add(VAIN_SHARED);
}

void raises_closed(void)
{
	vain_add(-1);
}

bool raises_asks(const struct region_homes *known, size_t off)
{
	const struct rel_ctx ctx = {
		.me = job.node,
		.home = region_home_of(known, off),
		.follow = true,
		.full = __atomic_load_n(&job.me->reclaim.over, __ATOMIC_RELAXED),
		.raises = true,
	};

	return rel_raises(&ctx, &job.mem.rels[off >> PAGE_SHIFT]);
}

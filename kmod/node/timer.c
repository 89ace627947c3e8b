// SPDX-License-Identifier: GPL-2.0
/* timer.c - timers for the hold time of blocks: when it ends, a block may be taken away. */
#include "timer.h"
#include "../base/account.h"
#include "../base/compat.h"
#include "../base/debug.h"
#include "host.h"
#include "../base/pool.h"
#include "rank.h"
#include "run.h"
#include "step.h"
#include "../base/work.h"

struct replay_timer {
	struct hrtimer timer;
	struct work_struct work; /* memory was short when the timer expired */
	struct rank *rank;
	u32 object;
};

static struct pool timers;

static void over(struct replay_timer *t)
{
	struct rank *r = t->rank;
	struct msg m = { .object = t->object, .src = r->me, .dst = r->me };

	/*
	 * The range may have been forgotten meanwhile, and be part of a region with other blocks.
	 */
	if (!READ_ONCE(r->dead) && step_block_ok(r, t->object))
		host_page(r, PE_REPLAY, &m, NULL);
	run_queued();
	pool_put(&timers, t);
	account_uncharge_bytes(r->ctx, sizeof(*t));
	rank_exit(r);
}

static void over_later(struct work_struct *work)
{
	pool_begin();
	over(container_of(work, struct replay_timer, work));
	local_bh_enable();
}

static enum hrtimer_restart replay_due(struct hrtimer *timer)
{
	struct replay_timer *t = container_of(timer, struct replay_timer, timer);

	softirq_run_join();
	if (pools_full()) {
		over(t);
	} else {
		debug_count(COUNT_USED_UP, 1);
		INIT_WORK(&t->work, over_later);
		queue_work(dsm_wq, &t->work);
	}
	return HRTIMER_NORESTART;
}

void timer_replay(struct rank *r, u32 object, u32 at)
{
	s32 us = (s32)(at - now_us());
	struct replay_timer *t;

	if (!rank_enter(r))
		return;
	if (!account_charge_bytes(r->ctx, sizeof(*t)))
		goto fail;
	t = pool_get(&timers);
	if (!t)
		goto uncharge;
	t->rank = r;
	t->object = object;
	compat_timer_setup(&t->timer, replay_due);
	hrtimer_start(&t->timer, ns_to_ktime(us > 0 ? us * NSEC_PER_USEC : 0),
		      HRTIMER_MODE_REL_SOFT);
	return;

uncharge:
	account_uncharge_bytes(r->ctx, sizeof(*t));
fail:
	host_no_memory(r);
	rank_exit(r);
}

int timer_start(void)
{
	return pool_create(&timers, "dsm_timer", sizeof(struct replay_timer),
			   __alignof__(struct replay_timer), KEEP_FEW);
}

void timer_stop(void)
{
	pool_destroy(&timers);
}

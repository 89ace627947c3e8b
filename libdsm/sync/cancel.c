// SPDX-License-Identifier: BSD-2-Clause
/*
 * cancel.c - waits that end early: a time limit has passed, a signal handler ends it, or the thread
 * is cancelled. A cancelled thread unwinds first through the cleanup handlers of the callers here,
 * which take its request back, then through those of the program.
 */
#include "sync/cancel.h"

#include <errno.h>

#include "job/job.h"
#include "miss/run.h"
#include "miss/wait.h"

#define AGAIN_NS 1000000u /* time for a request to reach its home before SOP_CANCEL is repeated */

/*
 * "In line" has come, or will: wait for the turn, or give up. The home always answers SOP_CANCEL.
 * Unless that answer is -ETIMEDOUT, the turn's own answer has crossed it, or comes with it. It is
 * the third, and the slot is not free before all are here.
 */
int sync_turn(struct msg *m, uint32_t seq, uint64_t ns, bool point, const uint32_t *stop)
{
	int err = point ? wait_slot_point(m->req_slot, seq, 2, ns, stop)
			: wait_slot(m->req_slot, seq, 2, ns);

	return err && !cancel_take_back(m, seq, true) ? err : 0;
}

/*
 * A request without "in line" may still be in flight, and SOP_CANCEL may overtake it: then
 * -EALREADY does not mean that the turn has come. So repeat SOP_CANCEL until the request is gone
 * (-ETIMEDOUT), or its own answer is here: then there is one answer more than SOP_CANCEL was sent.
 * The slot has the last status; if it is not one of SOP_CANCEL's two, it is the request's answer,
 * or goes with it.
 */
int cancel_take_back(struct msg *m, uint32_t seq, bool in_line)
{
	const struct slot *s = &job.me->slots[m->req_slot];
	uint32_t asked = in_line ? 1 : 0; /* "in line" is one answer of its own */

	m->op = SOP_CANCEL;
	m->flags = 0;
	for (;;) {
		int16_t status;

		asked++;
		run_send(m);
		wait_slot(m->req_slot, seq, asked, 0);
		status = __atomic_load_n(&s->status, __ATOMIC_ACQUIRE);
		if (status == -ETIMEDOUT)
			return 0;
		if (!wait_slot(m->req_slot, seq, asked + 1,
			       in_line || status != -EALREADY ? 0 : AGAIN_NS))
			return 1;
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * cancel.c - waits that end before their time: a limit has passed, or the thread is cancelled. A thread that is cancelled
 * unwinds through the cleanup handlers of its caller here, which take its request back, then through those of the program.
 */
#include "sync/cancel.h"

#include <errno.h>

#include "engine/job.h"
#include "engine/run.h"
#include "engine/wait.h"

#define AGAIN_NS 1000000u /* for a request to come to its home, before it is taken back once more */

/*
 * "In line" has come, or will: wait for the turn, or give up. The home answers SOP_CANCEL in any case; unless it says
 * -ETIMEDOUT, the turn's own answer crossed it and is the third, and the slot is not free before all are here.
 */
int sync_turn(struct msg *m, uint32_t seq, uint64_t ns, bool point)
{
	int err = point ? wait_slot_point(m->req_slot, seq, 2, ns) : wait_slot(m->req_slot, seq, 2, ns);

	if (err != -ETIMEDOUT)
		return 0;
	return sync_take_back(m, seq, true) ? 0 : -ETIMEDOUT;
}

/*
 * A request without "in line" may still be on its way, and SOP_CANCEL overtake it: then -EALREADY does not mean that the
 * turn has come. So ask again until it is gone (-ETIMEDOUT) or its own answer is here, which is one more than the times we
 * have asked. Whatever came last is in the slot; anything but the two statuses of SOP_CANCEL is, or goes with, its answer.
 */
int sync_take_back(struct msg *m, uint32_t seq, bool in_line)
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
		if (!wait_slot(m->req_slot, seq, asked + 1, in_line || status != -EALREADY ? 0 : AGAIN_NS))
			return 1;
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* mode.c - the transitions between the working modes. */
#include "share/mode.h"

/* clang-format off */
static const uint8_t table[RS_MODES][RS_MODE_EVENTS] = {
	/*
	 *                   worked          busy            empty       due             quiet       woken
	 */
	[RS_BLOCKED]     = { RS_INTERRUPTED, RS_INTERRUPTED, RS_BLOCKED, RS_BLOCKED,     RS_BLOCKED, RS_INTERRUPTED },
	[RS_INTERRUPTED] = { RS_INTERRUPTED, RS_RUNNING,     RS_BLOCKED, RS_INTERRUPTED, RS_BLOCKED, RS_INTERRUPTED },
	[RS_RUNNING]     = { RS_RUNNING,     RS_RUNNING,     RS_RUNNING, RS_RUNNING,     RS_BLOCKED, RS_RUNNING },
};
/* clang-format on */

enum rs_mode_state rs_mode_next(enum rs_mode_state from, enum rs_mode_event event)
{
	return (enum rs_mode_state)table[from][event];
}

static void step(struct rs_mode *m, enum rs_mode_event event)
{
	const uint8_t to = table[m->state][event];

	if (to == m->state)
		return;
	m->changes[m->state][to]++;
	m->state = to;
	m->rounds = 0;
}

void rs_mode_init(struct rs_mode *m, uint32_t run_after, uint32_t idle_after)
{
	*m = (struct rs_mode){ .state = RS_BLOCKED,
			       .run_after = run_after,
			       .idle_after = idle_after };
}

enum rs_mode_state rs_mode_round(struct rs_mode *m, int productive, int due)
{
	if (m->productive != !!productive)
		m->rounds = 0;
	m->productive = !!productive;
	m->rounds++;
	if (productive)
		step(m, m->run_after && m->rounds >= m->run_after ? RS_BUSY : RS_WORKED);
	else
		step(m, m->rounds >= m->idle_after ? RS_QUIET : due ? RS_DUE : RS_EMPTY);
	return (enum rs_mode_state)m->state;
}

void rs_mode_woken(struct rs_mode *m)
{
	step(m, RS_WOKEN);
}

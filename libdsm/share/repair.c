// SPDX-License-Identifier: BSD-2-Clause
/* repair.c - the states of a repair. */
#include "share/repair.h"

#include <errno.h>
#include <stdbool.h>

#include "share/rules.h"

#define BAD UINT8_MAX

struct transition {
	uint8_t next, actions; /* BAD: the event must not occur */
};

/* clang-format off */
static const struct transition table[RS_REPAIR_STATES][RS_REPAIR_EVENTS] = {
	/*
	 *                  breaks                      asked                                    connects                                    heard
	 */
	[RS_WHOLE]     = { { RS_BROKEN, RS_DO_ASK }, { RS_AGREED, RS_DO_ASK | RS_DO_CONNECT }, { BAD, 0 },                                 { BAD, 0 } },
	[RS_BROKEN]    = { { RS_BROKEN, 0 },         { RS_AGREED, RS_DO_CONNECT },             { BAD, 0 },                                 { BAD, 0 } },
	[RS_AGREED]    = { { RS_AGREED, 0 },         { BAD, 0 },                               { RS_CONNECTED, RS_DO_TELL },               { RS_AWAITED, 0 } },
	[RS_CONNECTED] = { { RS_CONNECTED, 0 },      { BAD, 0 },                               { BAD, 0 },                                 { RS_WHOLE, RS_DO_RESUME } },
	[RS_AWAITED]   = { { RS_AWAITED, 0 },        { BAD, 0 },                               { RS_WHOLE, RS_DO_TELL | RS_DO_RESUME },    { BAD, 0 } },
};
/* clang-format on */

int rs_repair_step(struct rs_repair *r, enum rs_repair_event event)
{
	const struct transition *t = &table[r->state][event];

	if (t->next == BAD)
		return -EBADMSG;
	r->state = t->next;
	if (t->actions & RS_DO_ASK)
		r->epoch++;
	return t->actions;
}

/* The side that begins an epoch is one ahead of a peer that has not noticed yet. */
int rs_repair_hear(struct rs_repair *r, const struct rs_repair_message *m)
{
	const struct rs_limits x = { .epoch = r->epoch + (r->state == RS_WHOLE) };

	if (rs_is_REPAIR_ASK(m, &x) && rs_is_QPS(&m->address, &x))
		return rs_repair_step(r, RS_ASKED);
	if (rs_is_REPAIR_READY(m, &x) && rs_is_NONE(&m->address, &x))
		return rs_repair_step(r, RS_HEARD);
	return -EBADMSG;
}

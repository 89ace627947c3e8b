/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ask.h - the question of a request slot: what is to be answered by MSG_REPLY or MSG_RETURN, by whom, about which object, and
 * how often. Blocks and locks have their questions in the page's state and in the hold record.
 *
 * One word for each slot, zero: nothing was asked. Whoever asks writes it before the question leaves; answers may come on any
 * thread, and each takes its part of the word by compare and exchange, so that none counts twice.
 */
#ifndef CORE_ASK_H
#define CORE_ASK_H

#include "core/sync.h"
#include "core/wire.h"

static inline bool ask_is(uint8_t type)
{
	return type == MSG_SYNC || type == MSG_PLACE || type == MSG_SETTLE || type == MSG_CLAIM ||
		type == MSG_RELEASE || type == MSG_CALL || type == MSG_ECHO;
}

/* Type of the request that has answers due; 0: none is. */
static inline uint8_t ask_due(uint64_t ask)
{
	return ask & 0x7f; /* as ask.c says */
}

/* Before m, a request in this slot of its sender, leaves. */
void ask_note(uint64_t *ask, const struct msg *m);

/* m answers: was it asked for, of its sender and about its object? *last: no other answer follows. */
bool ask_answer(uint64_t *ask, const struct msg *m, bool *last);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ask.h - the outstanding request of a slot: which node must answer it by MSG_REPLY or MSG_RETURN,
 * for which object, and how many times. For blocks and locks, the page's state and the hold record
 * have this information instead.
 *
 * Each slot has one word; zero means no request. The requester writes it before the request is
 * sent. Answers may arrive on any thread. Each updates the word by compare-and-swap, so that no
 * answer counts twice.
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

/* The type of the request; 0: no answer is outstanding. */
static inline uint8_t ask_due(uint64_t ask)
{
	return ask & 0x7f; /* as ask.c says */
}

/* Record the request m in its slot. Called before m is sent. */
void ask_note(uint64_t *ask, const struct msg *m);

/* Does the answer m match the request, by sender and object? *last: no other answer follows. */
bool ask_answer(uint64_t *ask, const struct msg *m, bool *last);

#endif

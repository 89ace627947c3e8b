/* SPDX-License-Identifier: BSD-2-Clause */
/* core.h - shared by the suites of the core's modules. */
#ifndef UNIT_CORE_H
#define UNIT_CORE_H

#include <stdio.h>

#include "core/action.h"
#include "suite.h"

/* The home, if a message needs one. */
static inline struct msg unit_msg(uint8_t type, uint16_t src, uint16_t dst, uint16_t req_node,
				  uint16_t req_slot)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = src,
			     .dst = dst,
			     .object = 1,
			     .req_node = req_node,
			     .req_slot = req_slot,
			     .home = src };
}

/* Action n of that type; NULL if there are fewer. */
static inline const struct action *unit_action(const struct actions *out, uint8_t type,
					       unsigned int n)
{
	unsigned int i;

	for (i = 0; i < out->n; i++)
		if (out->v[i].type == type && !n--)
			return &out->v[i];
	return NULL;
}

/* The first message of that type that a step sends, directly or by another action. */
static inline const struct msg *unit_sent(const struct actions *out, uint8_t type)
{
	unsigned int i;

	for (i = 0; i < out->n; i++)
		if ((out->v[i].type == ACT_SEND || out->v[i].type == ACT_MCAST ||
		     out->v[i].type == ACT_DATA) &&
		    out->v[i].msg.type == type)
			return &out->v[i].msg;
	return NULL;
}

/* The actions of a step in one line: "close INV_ACK", "open rw data wake". */
static inline const char *unit_text(const struct actions *out)
{
	static const char *const prots[] = { "closed", "ro", "rw" };
	static const char *const from[] = { "again", "data", "landed", "upgrade", "zero" };
	static const char *const names[] = { "",       "",         "mcast", "data",   "land",
					     "open",   "close",    "wake",  "wait",   "timer",
					     "resume", "wake-all", "",      "",       "",
					     "twin",   "untwin",   "merge", "notice", "tell" };
	static char text[ACTIONS_MAX * 40];
	size_t n = 0;
	unsigned int i;

	text[0] = 0;
	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];
		const char *space = i ? " " : "";

		ck_assert_uint_ge(a->type, ACT_SEND);
		ck_assert_uint_le(a->type, ACT_TELL);
		ck_assert_uint_eq(a->msg.version, WIRE_VERSION);
		if (a->type == ACT_SEND)
			n += (size_t)sprintf(text + n, "%s%s", space, wire_name(a->msg.type));
		else if (a->type == ACT_MCAST)
			n += (size_t)sprintf(text + n, "%smcast %s", space, wire_name(a->msg.type));
		else if (a->type == ACT_DATA)
			n += (size_t)sprintf(text + n, "%sDATA %s<-%s", space, prots[a->prot % 3],
					     prots[a->from % 3]);
		else if (a->type == ACT_OPEN)
			n += (size_t)sprintf(text + n, "%sopen %s %s", space, prots[a->prot % 3],
					     from[a->from % 5]);
		else
			n += (size_t)sprintf(text + n, "%s%s", space, names[a->type]);
	}
	return text;
}

#endif

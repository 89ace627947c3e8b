/* SPDX-License-Identifier: BSD-2-Clause */
/* core.h - what the suites of the core's modules share. */
#ifndef UNIT_CORE_H
#define UNIT_CORE_H

#include <check.h>
#include <stdlib.h>

#include "core/action.h"

/* In long loops: ck_assert() tells its parent process of every success, too. */
#define unit_require(x)                         \
	do {                                    \
		if (!(x))                       \
			ck_abort_msg("%s", #x); \
	} while (0)

/* Run one suite; the program's exit status. */
static inline int unit_main(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline struct msg unit_msg(uint8_t type, uint16_t src, uint16_t dst, uint16_t req_rank, uint16_t req_slot)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = src,
			     .dst = dst,
			     .object = 1,
			     .req_rank = req_rank,
			     .req_slot = req_slot };
}

/* The n-th action of that type, NULL if there are fewer. */
static inline const struct action *unit_action(const struct actions *out, uint8_t type, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < out->n; i++)
		if (out->v[i].type == type && !n--)
			return &out->v[i];
	return NULL;
}

/* The first message of that type that a step sends in whatever way. */
static inline const struct msg *unit_sent(const struct actions *out, uint8_t type)
{
	unsigned int i;

	for (i = 0; i < out->n; i++)
		if ((out->v[i].type == ACT_SEND || out->v[i].type == ACT_MCAST || out->v[i].type == ACT_DATA) &&
		    out->v[i].msg.type == type)
			return &out->v[i].msg;
	return NULL;
}

/* xorshift: the same numbers on every machine. */
static inline uint64_t unit_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * check.h - is the argument of a call as dsm_uapi_rules.h says? Done once, on the module's own copy, before the call looks at it.
 * What depends on the state of the rank (is there such a region, is that its block, is this lock held) is the call's to find out.
 */
#ifndef KMOD_CHECK_H
#define KMOD_CHECK_H

#include "dsm_uapi_rules.h"

/* What the context has: a window, a job. 0: not yet, and then nothing that is counted by it is valid. */
struct limits {
	u32 pages;
	u16 ranks, me;
};

/*
 * p: the argument of the call with this number; only what has a row other than OUT ANY is looked at. Indices are bounded
 * against speculation in place.
 */
bool check_call(unsigned int nr, const struct limits *limits, void *p);

bool check_prot_item(const struct limits *limits, struct dsm_prot_item *item);

#endif

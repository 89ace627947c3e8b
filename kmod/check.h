/* SPDX-License-Identifier: GPL-2.0 */
/*
 * check.h - is the argument of a call as dsm_uapi_rules.h says? Done once, on the module's own copy, before the call looks at it.
 * What depends on the state of the rank (is there such a region, is that its block, is this lock held) is the call's to find out.
 */
#ifndef KMOD_CHECK_H
#define KMOD_CHECK_H

#include "core/wire.h"
#include "dsm_uapi_rules.h"

/* What the context has: a window, a job. 0: not yet, and then nothing that is counted by it is valid. */
struct limits {
	u32 pages;
	u16 ranks, me;
	u16 peer; /* that CONNECT names */
};

/*
 * p: the argument of the call with this number; only what has a row other than OUT ANY is looked at. Indices are bounded
 * against speculation in place.
 */
bool check_call(unsigned int nr, const struct limits *limits, void *p);

/* The same of what pointers lead to, which is as large as the call says. */
bool check_prot_item(const struct limits *limits, struct dsm_prot_item *item);
bool check_owner(const struct limits *limits, struct dsm_owner *owner);

/* roce: is the context's device one that speaks it? Behind the address are its queue pairs, of as many ranks as the job has. */
bool check_address(const struct limits *limits, bool roce, struct dsm_address *address);

static inline struct dsm_address_qp *address_qp(struct dsm_address *address, u16 rank, unsigned int class)
{
	return (struct dsm_address_qp *)(address + 1) + (size_t)rank * CLASS_MAX + class;
}

static inline size_t address_bytes(u16 ranks)
{
	return sizeof(struct dsm_address) + (size_t)ranks * CLASS_MAX * sizeof(struct dsm_address_qp);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * check.h - validate the argument of a call by dsm_uapi_rules.h: once, on the module's own copy,
 * before the call reads it. The call itself checks what depends on the state of the rank: whether
 * the region, the block or the held lock exists.
 */
#ifndef KMOD_CHECK_H
#define KMOD_CHECK_H

#include "core/wire.h"
#include "dsm_uapi_rules.h"

/* The limits of the context's window and job. 0: not set yet, so that no index into it is valid. */
struct limits {
	u32 pages;
	u16 ranks, me;
	u16 peer; /* the peer that CONNECT names */
};

/*
 * p: the argument of the call with number nr. Fields whose row is OUT ANY are ignored. Indices are
 * clamped in place against speculation.
 */
bool check_call(unsigned int nr, const struct limits *limits, void *p);

/* The same for data that pointers refer to; its size is the one that the call gives. */
bool check_prot_item(const struct limits *limits, struct dsm_prot_item *item);
bool check_owner(const struct limits *limits, struct dsm_owner *owner);

/*
 * roce: the context's device uses RoCE. The address is followed by queue pairs, for each rank of
 * the job.
 */
bool check_address(const struct limits *limits, bool roce, struct dsm_address *address);

static inline struct dsm_address_qp *address_qp(struct dsm_address *address, u16 rank,
						unsigned int class)
{
	return (struct dsm_address_qp *)(address + 1) + (size_t)rank * CLASS_MAX + class;
}

static inline size_t address_bytes(u16 ranks)
{
	return sizeof(struct dsm_address) +
		(size_t)ranks * CLASS_MAX * sizeof(struct dsm_address_qp);
}

#endif

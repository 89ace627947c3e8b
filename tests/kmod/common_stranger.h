/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_stranger.h - processes that know the key of a job, and want to be one of its ranks: of
 * another user, of another network namespace.
 */
#ifndef KMOD_COMMON_STRANGER_H
#define KMOD_COMMON_STRANGER_H

#include "common.h"

struct visitor {
	uid_t uid;      /* 0: that of its parent */
	bool elsewhere; /* in a network namespace of its own */
	/* joins by the RDMA device; else without one, and connects to the next rank */
	bool by_device;
	unsigned int rank, size;
	struct dsm_ioc_key key;
};

/*
 * In a process of its own, which calls `over`: did is what succeeded that is only for ranks of the
 * job; if that is NULL, err is the errno with which it was refused.
 */
pid_t visit(const struct visitor *v,
	    void (*over)(const struct visitor *v, const char *did, int err));

/*
 * Whether visitors are refused for their user and their namespace only: one that differs in neither
 * can join, and those that differ are told so. The device is open to all then.
 */
bool strangers_control(void);

#endif

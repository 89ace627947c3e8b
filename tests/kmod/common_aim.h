/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_aim.h - arguments that hit something: the objects, locks, pinned blocks and regions that a
 * fuzzer's calls have made.
 */
#ifndef KMOD_AIM_H
#define KMOD_AIM_H

#include <stdatomic.h>

#include "common.h"
#include "common_args.h"

#define AIM_OBJECTS 64u
#define AIM_HOLDS 32u
/* at the end of the window: of no region, but of those that calls add */
#define AIM_FREE_PAGES 512u

struct aim {
	struct job *job;
	const struct dsm_ioc_key *keys[2]; /* of this job and another */
	/* one call in so many is an operation that only a liar sends */
	unsigned int calm;
	_Atomic uint64_t *objects;           /* AIM_OBJECTS of all ranks; 0: none */
	_Atomic uint64_t holds[AIM_HOLDS];   /* of mutexes that this process has; + 1 */
	_Atomic uint64_t rwlocks[AIM_HOLDS]; /* that it has: as in objects; to write: | 1 << 63 */
	_Atomic uint64_t pins[AIM_HOLDS];    /* page << 32 | pages << 1 | write */
};

/*
 * Fields that the table leaves open get what is there; and ranges the size that a call is soon done
 * with.
 */
void aim_at(struct aim *w, uint64_t *r, unsigned int variant, void *arg);
/* One field: at a bound, beyond it, or anything. */
void aim_aside(uint64_t *r, const struct dsm_variant *v, const struct args_limits *l, char *arg);
/* By RDMA, with the rank's address, in which a field may be aside. */
void aim_connect(const struct job *j, uint64_t *r, unsigned int peer, struct dsm_ioc_connect *c);
/*
 * The module would do as it is told: memory for 8 TiB of window in each file is more than a guest
 * has.
 */
void aim_tame(unsigned int variant, char *arg);
/* What a call of a rank's own context has changed, for those that follow. */
void aim_learn(struct aim *w, unsigned int variant, const void *arg, uint64_t *r);
/* May it take until others do something? */
bool aim_waits(unsigned int variant, const void *arg);
uint64_t aim_odd_number(uint64_t *r);

#endif

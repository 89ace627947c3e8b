/* SPDX-License-Identifier: BSD-2-Clause */
/* set.h - what DSM_VERBS and DSM_NET_DEVICE say. Pure: no device is looked at. */
#ifndef NET_VERBS_SET_H
#define NET_VERBS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_CHAIN_MAX 16
#define VERBS_BATCH_MAX 64
#define VERBS_NAMES 8 /* devices, at most */

/* The techniques, each with the default in verbs_set_parse(). docs/tuning.md explains them. */
struct verbs_set {
	uint32_t imm;      /* of a block's message all is in the immediate word, and a block of 4 KiB one packet */
	uint32_t coalesce; /* header and block in one write */
	uint32_t chain;    /* work requests handed over in one call, at most */
	uint32_t inlined;  /* bytes, at most, that travel in the work request itself */
	uint32_t signal;   /* every so many sends report their completion */
	uint32_t batch;    /* completions taken under one acquisition of the lock, at most */
	uint32_t spread;   /* classes over links */
	uint32_t direct;   /* threads post themselves; 0: a thread does it for all */
	uint32_t solicit;  /* an answer that a thread waits for wakes no other */
	uint32_t large;    /* large payloads in one read; 0: in pieces of 4 KiB */
	uint32_t srq;      /* receive buffers of a class; 0: by the protocol's bound */
	uint32_t depth;    /* frames of a lane under way; 0: by class */
	uint32_t landing;  /* bytes of the largest block that is written straight to its request */
	uint32_t odp;
	uint32_t huge;
	uint32_t timeout; /* of the queue pair: 4.096 us times two to the power of it */
	uint32_t retry;
	uint32_t breaks; /* for tests: break the lane at every so many sends; 0: never */
};

/* "name=value,..." into *out. -EINVAL: why (size bytes) says what is wrong. */
int verbs_set_parse(const char *text, struct verbs_set *out, char *why, size_t size);

/* "NAME[:PORT],...": devices that may be used. n 0: all. port 0: all of it. */
struct verbs_names {
	unsigned int n;
	struct {
		char name[64];
		unsigned int port;
	} at[VERBS_NAMES];
};

int verbs_names_parse(const char *text, struct verbs_names *out, char *why, size_t size);
/* May this one be used? */
bool verbs_names_have(const struct verbs_names *names, const char *device, unsigned int port);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* set.h - parsers of DSM_VERBS and DSM_NET_DEVICE. Pure: no device is accessed. */
#ifndef NET_VERBS_SET_H
#define NET_VERBS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_CHAIN_MAX 16
#define VERBS_BATCH_MAX 64
#define VERBS_NAMES 8 /* maximum devices */

/* The techniques, each with the default in verbs_set_parse(). docs/tuning.md explains them. */
struct verbs_set {
	/* a block's message is in the immediate word, and a block of 4 KiB is one packet */
	uint32_t imm;
	uint32_t coalesce; /* header and block in one write */
	uint32_t chain;    /* maximum work requests posted in one call */
	uint32_t inlined;  /* maximum bytes of inline data */
	uint32_t signal;   /* one of so many sends reports its completion */
	uint32_t batch;    /* maximum completions polled under one acquisition of the lock */
	uint32_t spread;   /* distribute classes over links */
	uint32_t direct;   /* each thread posts its sends; 0: one thread posts for all */
	uint32_t solicit;  /* a response that a thread waits for wakes no other thread */
	uint32_t large;    /* large payloads in one read; 0: in pieces of 4 KiB */
	uint32_t srq;      /* receive buffers per class; 0: by the bound of the protocol */
	uint32_t depth;    /* outstanding frames per lane; 0: by class */
	uint32_t landing;  /* maximum bytes of a block written directly to its landing slot */
	uint32_t odp;
	uint32_t huge;
	uint32_t timeout; /* of the queue pair: 4.096 us times two to the power of it */
	uint32_t retry;
	uint32_t breaks; /* for tests: break the lane after every so many sends; 0: never */
};

/* Parse "name=value,..." into *out. -EINVAL: why (size bytes) gets the reason. */
int verbs_set_parse(const char *text, struct verbs_set *out, char *why, size_t size);

/* "NAME[:PORT],...": devices that may be used. n 0: all devices. port 0: all ports. */
struct verbs_names {
	unsigned int n;
	struct {
		char name[64];
		unsigned int port;
	} at[VERBS_NAMES];
};

int verbs_names_parse(const char *text, struct verbs_names *out, char *why, size_t size);
/* True if this port may be used. */
bool verbs_names_have(const struct verbs_names *names, const char *device, unsigned int port);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* common.h - what the examples of librshare share: errors, and waiting for events. */
#ifndef SHARE_EXAMPLE_COMMON_H
#define SHARE_EXAMPLE_COMMON_H

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rshare.h>

/* End the program with a message if a call has failed. */
static inline int must(int result, const char *what)
{
	if (result < 0)
		errx(1, "%s: %s", what, strerror(-result));
	return result;
}

/*
 * Attach to the owner of this host, or become it. remote: peers may access what is exported of the
 * pool.
 */
static inline struct rshare *attach(int remote)
{
	struct rshare_config config;
	char why[RSHARE_WHY_MAX];
	struct rshare *r;

	rshare_config_init(&config);
	config.remote = remote;
	if (rshare_open(NULL, &config, &r, why) < 0)
		errx(1, "%s", why);
	return r;
}

static inline void *get_buffer(struct rshare *r, size_t size)
{
	void *buffer = rshare_get(r, size);

	if (!buffer)
		errx(1, "the pool has no room for %zu bytes", size);
	return memset(buffer, 0, size);
}

/* Wait for the next event. */
static inline struct rshare_event next_event(struct rshare_conn *c)
{
	struct rshare_event e;

	while (!must(rshare_poll(c, &e, 1), "rshare_poll")) {
		const int n = rshare_wait(c, -1);

		if (n != -EINTR)
			must(n, "rshare_wait");
	}
	return e;
}

/* Wait for an event of a type. The program ends if an operation fails or the peer is gone. */
static inline struct rshare_event wait_for(struct rshare_conn *c, enum rshare_event_type type)
{
	struct rshare_event e;

	do {
		e = next_event(c);
		must(e.status, "the connection");
		if (e.type == RSHARE_CLOSED && type != RSHARE_CLOSED)
			errx(1, "the peer has closed the connection");
	} while (e.type != type);
	return e;
}

#endif

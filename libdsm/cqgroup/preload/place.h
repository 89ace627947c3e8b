/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.h - inside the preload library: where a device's CQs and the threads that wait for them
 * belong.
 */
#ifndef PRELOAD_PLACE_H
#define PRELOAD_PLACE_H

#include "cqgroup.h"

struct place {
	struct place *next;
	char device[64];
	struct cqgroup *group; /* NULL: everything stays as the program wants it */
	int steer;             /* CQs get vectors of the group; else only threads are placed */
};

/* That of the device, made at its first use from the environment. Never NULL. */
struct place *place_of(struct ibv_context *ctx);

/*
 * Find the device that owns the program's group by the environment, if it is another one than
 * `device`. 0: none is.
 */
int place_owner(const char *device, char owner[CQGROUP_DEVICE_MAX]);

/* Has the user asked for reports? */
int place_verbose(void);

/* Does the user want to know of what is not as the program asked? */
int place_talks(void);

/* A line on stderr, with the program's name. */
void place_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

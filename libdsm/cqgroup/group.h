/* SPDX-License-Identifier: BSD-2-Clause */
/* group.h - the functions of cqgroup.c for table.c: one group, from what is known of a device. Any thread; none blocks. */
#ifndef CQGROUP_GROUP_H
#define CQGROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "cqgroup.h"
#include "cqgroup/device.h"

/* The CPUs of a group. */
struct cqgroup_place {
	struct cqset cpus; /* that its threads are bound to; none: to no CPU */
	bool listed;       /* they are those of a list: its vectors use them in turn */
};

/* What "", "auto", "none" and a list of CPUs (len bytes of text) mean for these vectors. -EINVAL: it is no such list.
 * -ERANGE: a CPU is not online. why says it: cqgroup_why(). */
int cqgroup_cpus(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors, const char *text,
		 size_t len, struct cqgroup_place *out, char *why);

/* Does the device have these vectors? -ERANGE: not all; why says which. */
int cqgroup_vectors(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors, char *why);

/* A group of what was looked at, at least one vector. cqgroup_destroy() frees it. -ENOMEM. */
int cqgroup_make(struct ibv_context *ctx, const struct cqgroup_device *dev, const char *name,
		 const struct cqset *vectors, const struct cqgroup_place *place, struct cqgroup **out);

/* Print the reason of an error to why (CQGROUP_WHY_MAX bytes); NULL: nobody wants to know. */
void cqgroup_why(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

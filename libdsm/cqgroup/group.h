/* SPDX-License-Identifier: BSD-2-Clause */
/* group.h - the functions of cqgroup.c for table.c: one group, for a device whose properties are
 * known. Any thread; none blocks. */
#ifndef CQGROUP_GROUP_H
#define CQGROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "cqgroup.h"
#include "cqgroup/device.h"

/* The CPUs of a group. */
struct cqgroup_place {
	struct cqset cpus; /* CPUs that its threads are bound to; empty: not bound */
	bool listed;       /* configured by a list: the vectors use them round-robin */
};

/* Find the CPUs for "", "auto", "none" or a list of CPUs (len bytes of text) and these vectors.
 * -EINVAL: malformed list. -ERANGE: a CPU is not online. why gets the reason: cqgroup_why(). */
int cqgroup_cpus(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors,
		 const char *text, size_t len, struct cqgroup_place *out, char *why);

/* Check that the device has these vectors. -ERANGE: not all; why names them. */
int cqgroup_vectors(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors,
		    char *why);

/* Create a group from checked values, with at least one vector. cqgroup_destroy() frees it.
 * -ENOMEM. */
int cqgroup_make(struct ibv_context *ctx, const struct cqgroup_device *dev, const char *name,
		 const struct cqset *vectors, const struct cqgroup_place *place,
		 struct cqgroup **out);

/* Print the reason of an error to why (CQGROUP_WHY_MAX bytes); NULL: do not print. */
void cqgroup_why(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

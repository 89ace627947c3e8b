/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h - inside the groups: making them from what is known of a device. */
#ifndef CQGROUP_TABLE_H
#define CQGROUP_TABLE_H

#include <stdbool.h>

#include "cqgroup.h"
#include "cqgroup/device.h"

/* Say why, if anybody wants to know. */
void cqgroup_why(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The CPUs of a group. */
struct cqgroup_place {
	struct cqset cpus; /* that its threads are bound to; none: to no CPU */
	bool listed;       /* they are those of a list: its vectors use them in turn */
};

/* What "", "auto", "none" and a list of CPUs mean for these vectors. -EINVAL, -ERANGE. */
int cqgroup_cpus(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors, const char *text,
		 size_t len, struct cqgroup_place *out, char *why);

/* Does the device have these vectors? -ERANGE. */
int cqgroup_vectors(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors, char *why);

/* A group of what was looked at. -ENOMEM. */
int cqgroup_make(struct ibv_context *ctx, const struct cqgroup_device *dev, const char *name,
		 const struct cqset *vectors, const struct cqgroup_place *place, struct cqgroup **out);

/* cqgroup_table_create() for a device that is known. */
int cqgroup_table_make(struct ibv_context *ctx, const struct cqgroup_device *dev, const char *config,
		       struct cqgroup_table **out, char *why);

#endif

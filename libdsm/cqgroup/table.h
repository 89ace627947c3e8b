/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.h - the groups of the protocol classes, for given device properties. Unit tests use it,
 * since they have no device.
 */
#ifndef CQGROUP_TABLE_H
#define CQGROUP_TABLE_H

#include "cqgroup.h"
#include "cqgroup/device.h"

/* As cqgroup_table_create(), with given device properties; the same errors. Does not block. */
int cqgroup_table_make(struct ibv_context *ctx, const struct cqgroup_device *dev,
		       const char *config, struct cqgroup_table **out, char *why);

#endif

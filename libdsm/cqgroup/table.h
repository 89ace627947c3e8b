/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h - the groups of the protocol classes, for a device that is known. The unit tests use it: they have no device. */
#ifndef CQGROUP_TABLE_H
#define CQGROUP_TABLE_H

#include "cqgroup.h"
#include "cqgroup/device.h"

/* cqgroup_table_create() with what is known of the device; the same errors. Does not block. */
int cqgroup_table_make(struct ibv_context *ctx, const struct cqgroup_device *dev, const char *config,
		       struct cqgroup_table **out, char *why);

#endif

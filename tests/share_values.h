/* SPDX-License-Identifier: BSD-2-Clause */
/* share_values.h - the table of share/rules.h to walk, and messages that keep it. */
#ifndef TESTS_SHARE_VALUES_H
#define TESTS_SHARE_VALUES_H

#include "rule_values.h"
#include "share/rules.h"

#define RULES_TYPES share_table
#define RULES_TABLE RS_RULES
#define RULES_SHAPES RS_SHAPES
#define RULES_FIELDS(shape) RS_##shape##_
#define RULES_NAME(x) rs_##x
#define RULES_CONST(x) RS_##x
#include "rule_types.h"

static inline struct rs_repair_message share_repair_message(uint32_t kind, uint32_t epoch)
{
	struct rs_repair_message m = { .magic = RS_REPAIR_MAGIC, .kind = kind, .epoch = epoch };

	if (kind != RS_REPAIR_READY)
		m.address = (struct rs_address){ .qpn = { 2, 3 }, .mtu = 5 };
	return m;
}

#endif

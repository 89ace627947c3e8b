/* SPDX-License-Identifier: BSD-2-Clause */
/* shared_values.h - the table of net/shared/rules.h to walk. */
#ifndef TESTS_SHARED_VALUES_H
#define TESTS_SHARED_VALUES_H

#include "net/shared/rules.h"
#include "rule_values.h"

#define RULES_TYPES shared_table
#define RULES_TABLE SHARED_RULES
#define RULES_SHAPES SHARED_SHAPES
#define RULES_FIELDS(shape) SHARED_##shape##_
#define RULES_NAME(x) shared_##x
#define RULES_CONST(x) SHARED_##x
#include "rule_types.h"

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* ucx_values.h - the table of net/ucx/rules.h to walk. */
#ifndef TESTS_UCX_VALUES_H
#define TESTS_UCX_VALUES_H

#include "net/ucx/rules.h"
#include "rule_values.h"

#define RULES_TYPES ucx_table
#define RULES_TABLE UCX_RULES
#define RULES_SHAPES UCX_SHAPES
#define RULES_FIELDS(shape) UCX_##shape##_
#define RULES_NAME(x) ucx_##x
#define RULES_CONST(x) UCX_##x
#include "rule_types.h"

#endif

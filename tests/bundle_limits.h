/* SPDX-License-Identifier: BSD-2-Clause */
/* bundle_limits.h - a receiver of bundles, and what it accepts. For unit tests and fuzzers. */
#ifndef TESTS_BUNDLE_LIMITS_H
#define TESTS_BUNDLE_LIMITS_H

#include "wire_values.h"

#define ME 2
#define OTHER 1 /* the sender */

static const struct wire_limits lim = { .me = ME,
					.nnodes = 4,
					.ranks = 4,
					.host = HOST_LIBRARY,
					.block_slots = 16,
					.slots = 64,
					.pages = 4096,
					.block_pages = 512 };

#endif

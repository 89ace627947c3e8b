/* SPDX-License-Identifier: BSD-2-Clause */
/* kept.h - the variables of the C library that libdsm-pthread.so keeps equal on all ranks. */
#ifndef UTIL_KEPT_H
#define UTIL_KEPT_H

#include <stdbool.h>
#include <string.h>

static inline bool kept_has(const char *variable)
{
	static const char *const kept[] = { "environ",
					    "__environ",
					    "_environ",
					    "program_invocation_name",
					    "program_invocation_short_name",
					    "__progname",
					    "__progname_full",
					    "tzname",
					    "__tzname" };
	unsigned int i;

	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!strcmp(kept[i], variable))
			return true;
	return false;
}

#endif

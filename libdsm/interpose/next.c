// SPDX-License-Identifier: BSD-2-Clause
/*
 * next.c - look the next functions up before main(); a part of each library that has some.
 */
#include "next.h"

#include <string.h>

/* The linker's names for the ends of the section. */
extern struct next __start_next_functions[] __attribute__((visibility("hidden")));
extern struct next __stop_next_functions[] __attribute__((visibility("hidden")));

void *next_named(const char *name)
{
	struct next *n;

	for (n = __start_next_functions; n < __stop_next_functions; n++)
		if (!strcmp(n->name, name))
			return next_at(n);
	return next_of(name);
}

__attribute__((constructor)) static void next_bind(void)
{
	struct next *n;

	/* What has no definition yet is looked up by its first call. */
	for (n = __start_next_functions; n < __stop_next_functions; n++)
		if (dlsym(RTLD_NEXT, n->name))
			next_at(n);
	dlerror();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * variables.h - names of the variables of the executable, from its symbol table, static variables
 * included. For reports: the file is mapped for each call. Any thread; no lock.
 */
#ifndef UTIL_VARIABLES_H
#define UTIL_VARIABLES_H

#include <stddef.h>

struct variable {
	char *at; /* the first of those found */
	size_t size;
	unsigned int n; /* number of variables that overlap the range */
};

/* Find the variables that overlap the size bytes at addr. The largest is stored in out, with its
 * name, cut to name_size. Returns 0, -ENOENT if there are none or the symbol table was stripped, or
 * the errno of opening and mapping the executable. */
int variables_find(const void *addr, size_t size, struct variable *out, char *name,
		   size_t name_size);

#endif

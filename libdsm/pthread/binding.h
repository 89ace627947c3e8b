/* SPDX-License-Identifier: BSD-2-Clause */
/* binding.h - the loader's tables of the program's shared libraries. */
#ifndef PTHREAD_BINDING_H
#define PTHREAD_BINDING_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* True if the loader binds the library's functions when they are first called. */
bool binding_is_late(const struct link_map *m);
/*
 * At the start, by the only thread: bind all functions of such a library as the loader would, so
 * that the table is never written again. Returns NULL, or the name of the first one that no library
 * has; the others are bound.
 */
const char *binding_complete(const struct link_map *m);

/* What the loader fills in for a library. */
struct reference {
	uintptr_t *slot;
	unsigned int type; /* R_X86_64_* */
	const char *name;  /* of the symbol; NULL: it has none */
};
/* Call fn for each reference of a library that is loaded, until it returns another value than 0.
 * Returns that value, or 0. Any thread; never blocks itself. */
int binding_each(const struct link_map *m, int (*fn)(const struct reference *, void *), void *arg);

#endif

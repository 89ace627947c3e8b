/* SPDX-License-Identifier: BSD-2-Clause */
/* binding.h - the loader's tables of the program's own shared libraries. */
#ifndef PTHREAD_BINDING_H
#define PTHREAD_BINDING_H

#include <link.h>
#include <stdbool.h>

/* True if the loader binds the library's functions when they are first called. */
bool binding_is_late(const struct link_map *m);
/*
 * At the start, by the only thread: bind all functions of such a library as the loader would, so
 * that the table is never written again. Returns NULL, or the name of the first one that no library
 * has; the others are bound.
 */
const char *binding_complete(const struct link_map *m);

#endif

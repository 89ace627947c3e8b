/* SPDX-License-Identifier: BSD-2-Clause */
/* needs.h - which functions of an OpenMP runtime the program calls, from the tables of what is
 * loaded. */
#ifndef OPENMP_NEEDS_H
#define OPENMP_NEEDS_H

#include <stdbool.h>

/* Does anything that is loaded create tasks? */
bool needs_tasks(void);
/*
 * Exit if something calls a function of libgomp's that is not here. Programs that dsm-cc links
 * cannot, but those that the compiler has linked for libgomp can.
 */
void needs_check(void);
/* Does the name of an object's file begin with one of these? */
bool needs_object_is(const char *path, const char *const *beginnings);

#endif

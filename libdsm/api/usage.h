/* SPDX-License-Identifier: BSD-2-Clause */
/* usage.h - prints the memory of all nodes by kind, for the report. */
#ifndef API_USAGE_H
#define API_USAGE_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Blocks for the other ranks. json: the rows of an array, one for each node; else lines of the
 * table, sums over all nodes.
 */
void usage_print(FILE *f, bool json);

#endif

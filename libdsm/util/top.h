/* SPDX-License-Identifier: BSD-2-Clause */
/* top.h - of any number of records, those with the largest counts. */
#ifndef UTIL_TOP_H
#define UTIL_TOP_H

#include <stddef.h>

struct top {
	void *list;           /* of the caller; the largest first */
	size_t size, key;     /* bytes of a record; where in it its count is, a uint64_t */
	unsigned int n, have; /* records that the list has room for, and those that are there */
};

/* Add a copy of a record, if it is among the largest; behind those that are as large. */
void top_add(struct top *t, const void *record);

#endif

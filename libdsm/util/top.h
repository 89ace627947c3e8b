/* SPDX-License-Identifier: BSD-2-Clause */
/* top.h - selects the records with the largest counts. */
#ifndef UTIL_TOP_H
#define UTIL_TOP_H

#include <stddef.h>

struct top {
	void *list;           /* the caller's array; the largest first */
	size_t size, key;     /* bytes of a record; offset of its count, a uint64_t */
	unsigned int n, have; /* capacity of the list, and current number of records */
};

/* Add a copy of a record, if it is among the largest; after records of equal count. */
void top_add(struct top *t, const void *record);

#endif

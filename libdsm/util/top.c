// SPDX-License-Identifier: BSD-2-Clause
/*
 * top.c - keeps the records with the largest counts, out of any number: insertion into a short
 * list.
 */
#include "util/top.h"

#include <stdint.h>
#include <string.h>

static uint64_t count_of(const struct top *t, const char *record)
{
	uint64_t count;

	memcpy(&count, record + t->key, sizeof(count));
	return count;
}

void top_add(struct top *t, const void *record)
{
	char *const list = t->list;
	const uint64_t count = count_of(t, record);
	unsigned int i;

	for (i = t->have; i > 0 && count_of(t, list + (i - 1) * t->size) < count; i--)
		;
	if (i == t->n)
		return;
	if (t->have < t->n)
		t->have++;
	memmove(list + (i + 1) * t->size, list + i * t->size, (t->have - 1 - i) * t->size);
	memcpy(list + i * t->size, record, t->size);
}

// SPDX-License-Identifier: BSD-2-Clause
/* set.c - sets of small numbers. */
#include "cqgroup/set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

unsigned int cqset_count(const struct cqset *s)
{
	unsigned int i, n = 0;

	for (i = 0; i < CQSET_MAX / 64; i++)
		n += (unsigned int)__builtin_popcountll(s->word[i]);
	return n;
}

unsigned int cqset_next(const struct cqset *s, unsigned int n)
{
	while (n < CQSET_MAX && !cqset_has(s, n))
		n++;
	return n;
}

unsigned int cqset_nth(const struct cqset *s, unsigned int i)
{
	unsigned int n = cqset_next(s, 0);

	while (i-- && n < CQSET_MAX)
		n = cqset_next(s, n + 1);
	return n;
}

void cqset_and(struct cqset *s, const struct cqset *other)
{
	unsigned int i;

	for (i = 0; i < CQSET_MAX / 64; i++)
		s->word[i] &= other->word[i];
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

/* A number and the blanks around it; NULL: there is none, or it is too large. */
static const char *set_number(const char *p, const char *end, unsigned int *out)
{
	unsigned int n = 0;
	const char *start;

	start = p = skip_blanks(p, end);
	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + (unsigned int)(*p - '0');
		if (n >= CQSET_MAX)
			return NULL;
	}
	*out = n;
	return p == start ? NULL : skip_blanks(p, end);
}

int cqset_parse(const char *text, size_t len, struct cqset *out, char *why, size_t why_size)
{
	const char *p = text, *end = text + len;
	unsigned int first, last;
	struct cqset s = { { 0 } };

	do {
		p = set_number(p, end, &first);
		last = first;
		if (p && p < end && *p == '-')
			p = set_number(p + 1, end, &last);
		if (!p || (p < end && *p != ',')) {
			snprintf(why, why_size,
				 "'%.*s' is no list of numbers from 0 to %d, like 0-1,4", (int)len,
				 text, CQSET_MAX - 1);
			return -EINVAL;
		}
		if (last < first) {
			snprintf(why, why_size, "the range %u-%u runs backwards", first, last);
			return -EINVAL;
		}
		for (; first <= last; first++) {
			if (cqset_has(&s, first)) {
				snprintf(why, why_size, "%u is in '%.*s' twice", first, (int)len,
					 text);
				return -EINVAL;
			}
			cqset_add(&s, first);
		}
	} while (p < end && p++);
	*out = s;
	return 0;
}

void cqset_print(const struct cqset *s, char *buf, size_t size)
{
	unsigned int first = cqset_next(s, 0), last;
	size_t used = 0;
	char piece[24];
	int n;

	if (size)
		buf[0] = '\0';
	for (; first < CQSET_MAX; first = cqset_next(s, last + 1)) {
		for (last = first; cqset_has(s, last + 1); last++)
			;
		n = snprintf(piece, sizeof(piece), last > first ? "%s%u-%u" : "%s%u",
			     used ? "," : "", first, last);
		if (used + (size_t)n + sizeof("...") > size) {
			snprintf(buf + used, size - used, "...");
			return;
		}
		memcpy(buf + used, piece, (size_t)n + 1);
		used += (size_t)n;
	}
}

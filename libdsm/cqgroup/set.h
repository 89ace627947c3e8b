/* SPDX-License-Identifier: BSD-2-Clause */
/* set.h - sets of small numbers (vectors or CPUs), and their text form: "0-1,4". */
#ifndef CQGROUP_SET_H
#define CQGROUP_SET_H

#include <stddef.h>
#include <stdint.h>

#define CQSET_MAX 4096 /* more than CPUs of a kernel or vectors of a PCI function */

/* Like a cpu_set_t, with another size. */
struct cqset {
	uint64_t word[CQSET_MAX / 64];
};

static inline void cqset_add(struct cqset *s, unsigned int n)
{
	s->word[n / 64] |= (uint64_t)1 << n % 64;
}

static inline int cqset_has(const struct cqset *s, unsigned int n)
{
	return n < CQSET_MAX && s->word[n / 64] >> n % 64 & 1;
}

static inline void cqset_range(struct cqset *s, unsigned int first, unsigned int end)
{
	for (; first < end; first++)
		cqset_add(s, first);
}

unsigned int cqset_count(const struct cqset *s);
/* the first from n on; CQSET_MAX: none */
unsigned int cqset_next(const struct cqset *s, unsigned int n);
/* counted from 0; CQSET_MAX: none */
unsigned int cqset_nth(const struct cqset *s, unsigned int i);
void cqset_and(struct cqset *s, const struct cqset *other);

/* Parse the list in the first len bytes of text; blanks around numbers are allowed. -EINVAL:
 * malformed, empty, or a duplicate number; why (why_size bytes) gets the reason. */
int cqset_parse(const char *text, size_t len, struct cqset *out, char *why, size_t why_size);

/* Print a set as a list; if too long, it ends in "...". */
void cqset_print(const struct cqset *s, char *buf, size_t size);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * divide.h - divides the completion vectors of a device among the four classes. Both cqgroup.h, of
 * the library and of dsm.ko, declare enum cqgroup_class; a file of dsm.ko includes its own first.
 */
#ifndef CQGROUP_DIVIDE_H
#define CQGROUP_DIVIDE_H

#ifndef __KERNEL__
#include "cqgroup.h"
#endif

struct cqgroup_share {
	int named; /* in: its vectors are configured and are not divided */
	/* in: it uses another device; it gets no vectors, and no class merges into it */
	int absent;
	enum cqgroup_class host; /* out: itself, or the class it was merged into */
	unsigned int vectors;    /* out: number of divided vectors; 0 if merged */
};

static inline unsigned int cqgroup_unserved(const struct cqgroup_share *s)
{
	unsigned int c, n = 0;

	for (c = 0; c < CQGROUP_CLASSES; c++)
		n += !s[c].named && !s[c].absent && s[c].host == (enum cqgroup_class)c;
	return n;
}

/* Return the class whose group class c uses. */
static inline enum cqgroup_class cqgroup_host(const struct cqgroup_share *s, enum cqgroup_class c)
{
	while (s[c].host != c)
		c = s[c].host;
	return c;
}

/*
 * Return the class that `who` merges into: `into`, or, if that uses another device, the first of
 * the others. Itself: there is none.
 */
static inline enum cqgroup_class cqgroup_merge_into(const struct cqgroup_share *s,
						    enum cqgroup_class who, enum cqgroup_class into)
{
	unsigned int c;

	if (!s[into].absent)
		return into;
	for (c = 0; c < CQGROUP_CLASSES; c++)
		if (!s[c].absent && cqgroup_host(s, (enum cqgroup_class)c) != who)
			return (enum cqgroup_class)c;
	return who;
}

/*
 * Divide n vectors among the classes that are not named; s has one element for each class. Return
 * 0, or, if there are too few vectors even after all permitted merges, the number of classes that
 * need one.
 */
static inline unsigned int cqgroup_divide(struct cqgroup_share *s, unsigned int n)
{
	/* The order in which classes give up their own vector, and the classes they merge into. */
	static const struct {
		enum cqgroup_class who, into;
	} merging[] = {
		{ CQGROUP_BULK, CQGROUP_DATA },
		{ CQGROUP_SYNC, CQGROUP_COHERENCE },
		{ CQGROUP_DATA, CQGROUP_COHERENCE },
	};
	/* Remaining vectors after an even division go to the busiest classes first. */
	static const enum cqgroup_class left_over[] = { CQGROUP_COHERENCE, CQGROUP_BULK,
							CQGROUP_DATA, CQGROUP_SYNC };
	unsigned int i, open, left;
	struct cqgroup_share *one;

	for (i = 0; i < CQGROUP_CLASSES; i++) {
		s[i].host = (enum cqgroup_class)i;
		s[i].vectors = 0;
	}
	for (i = 0; i < sizeof(merging) / sizeof(merging[0]) && cqgroup_unserved(s) > n; i++)
		if (!s[merging[i].who].named && !s[merging[i].who].absent)
			s[merging[i].who].host =
				cqgroup_merge_into(s, merging[i].who, merging[i].into);
	open = cqgroup_unserved(s);
	if (!open || open > n)
		return open;
	left = n % open;
	for (i = 0; i < CQGROUP_CLASSES; i++) {
		one = &s[left_over[i]];
		if (one->named || one->absent || one->host != left_over[i])
			continue;
		one->vectors = n / open + (left > 0);
		left -= left > 0;
	}
	return 0;
}

#endif

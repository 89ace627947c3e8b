/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * divide.h - the completion vectors of a device, divided among the four classes. Both cqgroup.h declare enum cqgroup_class:
 * that of the library, and that of dsm.ko, which a file of it includes first.
 */
#ifndef CQGROUP_DIVIDE_H
#define CQGROUP_DIVIDE_H

#ifndef __KERNEL__
#include "cqgroup.h"
#endif

struct cqgroup_share {
	int named;               /* in: it has vectors already, which are not among those that are divided */
	enum cqgroup_class host; /* out: itself, or the class that it has merged into */
	unsigned int vectors;    /* out: of those that are divided; 0 if it has merged */
};

static inline unsigned int cqgroup_unserved(const struct cqgroup_share *s)
{
	unsigned int c, n = 0;

	for (c = 0; c < CQGROUP_CLASSES; c++)
		n += !s[c].named && s[c].host == (enum cqgroup_class)c;
	return n;
}

/* The class whose group c belongs to. */
static inline enum cqgroup_class cqgroup_host(const struct cqgroup_share *s, enum cqgroup_class c)
{
	while (s[c].host != c)
		c = s[c].host;
	return c;
}

/*
 * Divide n vectors among the classes that are not named; s has one element for each class. If there are too few vectors even
 * when all classes have merged that may, the result is the number of classes that need one; 0 on success.
 */
static inline unsigned int cqgroup_divide(struct cqgroup_share *s, unsigned int n)
{
	/* The order in which classes give up a vector of their own, and whom they join. */
	static const struct {
		enum cqgroup_class who, into;
	} merging[] = {
		{ CQGROUP_BULK, CQGROUP_DATA },
		{ CQGROUP_SYNC, CQGROUP_COHERENCE },
		{ CQGROUP_DATA, CQGROUP_COHERENCE },
	};
	/* Who gets what is left when the vectors have been dealt out evenly: those who have most to do first. */
	static const enum cqgroup_class left_over[] = { CQGROUP_COHERENCE, CQGROUP_BULK, CQGROUP_DATA, CQGROUP_SYNC };
	unsigned int i, open, left;
	struct cqgroup_share *one;

	for (i = 0; i < CQGROUP_CLASSES; i++) {
		s[i].host = (enum cqgroup_class)i;
		s[i].vectors = 0;
	}
	for (i = 0; i < sizeof(merging) / sizeof(merging[0]) && cqgroup_unserved(s) > n; i++)
		if (!s[merging[i].who].named)
			s[merging[i].who].host = merging[i].into;
	open = cqgroup_unserved(s);
	if (!open || open > n)
		return open;
	left = n % open;
	for (i = 0; i < CQGROUP_CLASSES; i++) {
		one = &s[left_over[i]];
		if (one->named || one->host != left_over[i])
			continue;
		one->vectors = n / open + (left > 0);
		left -= left > 0;
	}
	return 0;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lookup.h - handles of libdsm by the addresses of objects, in a job of several nodes. By threads on their private stacks
 * (dsm_call()); any thread may call lookup_cached() and lookup_attr() on any stack. An int is 0 or a negative errno value.
 */
#ifndef PTHREAD_LOOKUP_H
#define PTHREAD_LOOKUP_H

#include "shim.h"

enum type { T_NONE = 0, T_MUTEX, T_COND, T_RWLOCK, T_SEM, T_BARRIER };

struct handles {
	uint64_t id[3]; /* T_BARRIER: a counter and two gates, as dsm_barrier_meet() has them; else one */
	int attr;       /* in the cache: its attribute */
};

enum renaming {
	LOOKUP_KEEP,   /* what there is, if it has the type */
	LOOKUP_FREE,   /* it is destroyed first. -EBUSY: it is in use, and stays */
	LOOKUP_REPLACE /* the same, in use or not */
};

/* Make the table of names. When the job starts; collective. -ENOMEM; errors of dsm_broadcast(). */
int lookup_start(void);

/* The object's handles, from the cache, or else from the table; they are made if the object has none of this type. attr: where the
 * object has its attribute, or NULL. May block for round trips. -ENOMEM; errors of the functions that make a handle. */
int lookup_find(const void *object, enum type type, const int *attr, struct handles *h);
/* The table's entry of the object is of this type from now on; T_NONE: there is none. value: of a semaphore. The cache keeps what it
 * has. May block for round trips. -EBUSY: LOOKUP_FREE; other errors as above. *out is set on success only, if there is an entry. */
int lookup_rename(const void *object, enum type type, uint32_t value, enum renaming how, struct handles *out);

/* Does the cache have handles of this type for the object? Never blocks. */
bool lookup_cached(const void *object, enum type type, struct handles *out);
/* Put them into the cache; take what it has of the object out of it. Both never block for other ranks. */
void lookup_remember(const void *object, enum type type, const struct handles *h);
void lookup_lose(const void *object);
/* The attribute at `at`, in the object's block; NULL: that of a normal mutex, or of a kind that has none. */
int lookup_attr(enum type type, const int *at);

#endif

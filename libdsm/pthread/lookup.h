/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lookup.h - map from addresses of objects to handles of libdsm, in a job of several nodes. Call on
 * a private stack (dsm_call()); lookup_cached() and lookup_attr() may be called on any stack. An
 * int is 0 or a negative errno value.
 */
#ifndef PTHREAD_LOOKUP_H
#define PTHREAD_LOOKUP_H

#include "shim.h"

enum type { T_NONE = 0, T_MUTEX, T_COND, T_RWLOCK, T_SEM, T_BARRIER };

struct handles {
	uint64_t id;
	int attr; /* in the cache: its attribute */
};

enum renaming {
	LOOKUP_KEEP,   /* keep an existing entry of this type */
	LOOKUP_FREE,   /* destroy it first. -EBUSY: it is in use, and is kept */
	LOOKUP_REPLACE /* destroy it first, even if it is in use */
};

/* Create the table of names. Called at job start; collective. -ENOMEM; errors of
 * dsm_broadcast(). */
int lookup_start(void);

/* Find the object's handles in the cache or the table, or create them if the object has none of
 * this type. attr: location of the object's attribute, or NULL. May block for round trips. -ENOMEM;
 * errors of the functions that make a handle. */
int lookup_find(const void *object, enum type type, const int *attr, struct handles *h);
/* Set the type of the object's table entry; T_NONE: remove it. value: of a semaphore. Does not
 * change the cache. May block for round trips. -EBUSY: LOOKUP_FREE; other errors as above. *out is
 * set on success only, if there is an entry. */
int lookup_rename(const void *object, enum type type, uint32_t value, enum renaming how,
		  struct handles *out);

/* True if the cache has handles of this type for the object. Never blocks. */
bool lookup_cached(const void *object, enum type type, struct handles *out);
/* Add the handles to the cache; remove those of the object from the cache. Neither blocks for other
 * ranks. */
void lookup_remember(const void *object, enum type type, const struct handles *h);
void lookup_lose(const void *object);
/* Return the attribute at `at`, in the object's block. at NULL: that of a normal mutex, or of a
 * type without attribute. */
int lookup_attr(enum type type, const int *at);

#endif

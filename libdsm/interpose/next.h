/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * next.h - for a library that stands in front of the C library: its definitions, and the next ones.
 * To be included before any header of the C library.
 */
#ifndef INTERPOSE_NEXT_H
#define INTERPOSE_NEXT_H

/*
 * Else those headers define some functions themselves (getline(), vprintf()), where that is
 * optimised.
 */
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif

#include <dlfcn.h>

#include <dsm.h>

#define EXPORT __attribute__((visibility("default")))

/* The next definition of a function, the C library's. Ends the process if there is none. */
static inline void *next_of(const char *name)
{
	void *at = dlsym(RTLD_NEXT, name);

	if (!at)
		dsm_abort(70, "the C library has no %s()", name);
	return at;
}

/* Looked up once for each place that calls it. */
#define NEXT(name)                                                                        \
	({                                                                                \
		static __typeof__(&name) next_;                                           \
		__typeof__(&name) at_ = __atomic_load_n(&next_, __ATOMIC_RELAXED);        \
		if (!at_)                                                                 \
			__atomic_store_n(&next_, at_ = next_of(#name), __ATOMIC_RELAXED); \
		at_;                                                                      \
	})

#endif

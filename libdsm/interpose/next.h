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

/*
 * A function of which the next definition is needed. All of them are in a section of their library,
 * and next.c looks them up before main(): the loader does that under its lock, which a constructor
 * of a library that the program opens has, maybe while it waits for a thread of the runtime.
 */
struct next {
	const char *name, *version; /* version: NULL, or one before others */
	void *(*find)(const struct next *n);
	void *at; /* atomic; NULL until it is looked up */
};

/* Is the C library in front of this one? Where a library of the program needs this one, and the
 * program does not. */
static inline int next_is_before(const char *name)
{
	static const char own;
	void *at = dlsym(RTLD_DEFAULT, name);
	Dl_info here, there;

	return at && dladdr(&own, &here) && dladdr(at, &there) && here.dli_fbase != there.dli_fbase;
}

/* The next definition of a function, the C library's. Ends the process if there is none. */
static inline void *next_of(const char *name)
{
	void *at = dlsym(RTLD_NEXT, name);

	if (!at && next_is_before(name))
		dsm_abort(70,
			  "the C library comes before libdsm's %s(): link the program by `dsm-cc "
			  "-pthread', too, not only its library",
			  name);
	if (!at)
		dsm_abort(70, "the C library has no %s()", name);
	return at;
}

static inline void *next_find(const struct next *n)
{
	void *at = n->version ? dlvsym(RTLD_NEXT, n->name, n->version) : NULL;

	return at ? at : next_of(n->name);
}

static inline void *next_at(struct next *n)
{
	void *at = __atomic_load_n(&n->at, __ATOMIC_RELAXED);

	if (__builtin_expect(!at, 0))
		__atomic_store_n(&n->at, at = n->find(n), __ATOMIC_RELAXED);
	return at;
}

/* The next definition of the function of that name (a string), of a type. */
#define NEXT_BY(type, name, version, find)                                                      \
	({                                                                                      \
		static struct next next_ __attribute__((section("next_functions"),              \
							used)) = { name, version, find, NULL }; \
		(type) next_at(&next_);                                                         \
	})
#define NEXT_NAMED(type, name) NEXT_BY(type, name, NULL, next_find)
#define NEXT(function) NEXT_NAMED(__typeof__(&function), #function)

/* The same for a name that the library has in one of these, but is known only when this runs. */
void *next_named(const char *name);

#endif

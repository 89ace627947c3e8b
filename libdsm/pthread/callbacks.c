// SPDX-License-Identifier: BSD-2-Clause
/* callbacks.c - functions of the C library that call functions of the program: see callbacks.h.
 * Compiled with -fexceptions, because a function of the program may leave by an exception. */
#include "callbacks.h"

#include "shim.h"

#include <search.h>
#include <stdlib.h>

/* In a section of its own, with nothing else, so that its addresses are known. */
__attribute__((section("calls_program"), noinline)) long call_program(void *fn, long a, long b,
								      long c)
{
	long result = ((long (*)(long, long, long))fn)(a, b, c);

	__asm__ volatile("" : "+r"(result)); /* no jump to fn, either */
	return result;
}

__thread unsigned int callbacks_depth __attribute__((tls_model("initial-exec")));

void callbacks_begin_last(void)
{
	callbacks_depth++;
}

void callbacks_end_last(void)
{
	callbacks_depth = 0;
}

static unsigned int callbacks_begin(const void *caller)
{
	const unsigned int before = callbacks_depth;

	callbacks_depth += caller_is_ours(caller);
	return before;
}

static void callbacks_end(const unsigned int *before)
{
	callbacks_depth = *before;
}

/* Until the end of the block. */
#define CALLS_BACK                                                                  \
	const unsigned int depth_ __attribute__((cleanup(callbacks_end), unused)) = \
		callbacks_begin(CALLER)

typedef int comparison(const void *a, const void *b);

EXPORT void qsort(void *base, size_t n, size_t size, comparison *compare)
{
	CALLS_BACK;
	NEXT(qsort)(base, n, size, compare);
}

EXPORT void qsort_r(void *base, size_t n, size_t size,
		    int (*compare)(const void *, const void *, void *), void *arg)
{
	CALLS_BACK;
	NEXT(qsort_r)(base, n, size, compare, arg);
}

EXPORT void *bsearch(const void *key, const void *base, size_t n, size_t size, comparison *compare)
{
	CALLS_BACK;
	return NEXT(bsearch)(key, base, n, size, compare);
}

EXPORT void *lfind(const void *key, const void *base, size_t *n, size_t size, comparison *compare)
{
	CALLS_BACK;
	return NEXT(lfind)(key, base, n, size, compare);
}

EXPORT void *lsearch(const void *key, void *base, size_t *n, size_t size, comparison *compare)
{
	CALLS_BACK;
	return NEXT(lsearch)(key, base, n, size, compare);
}

/* The C library allocates the node: with the program's malloc(), as it does here for all that it
 * calls. */
EXPORT void *tsearch(const void *key, void **root, comparison *compare)
{
	CALLS_BACK;
	return NEXT(tsearch)(key, root, compare);
}

EXPORT void *tfind(const void *key, void *const *root, comparison *compare)
{
	CALLS_BACK;
	return NEXT(tfind)(key, root, compare);
}

EXPORT void *tdelete(const void *key, void **root, comparison *compare)
{
	CALLS_BACK;
	return NEXT(tdelete)(key, root, compare);
}

EXPORT void twalk(const void *root, __action_fn_t visit)
{
	CALLS_BACK;
	NEXT(twalk)(root, visit);
}

EXPORT void twalk_r(const void *root, void (*visit)(const void *, VISIT, void *), void *arg)
{
	CALLS_BACK;
	NEXT(twalk_r)(root, visit, arg);
}

EXPORT void tdestroy(void *root, __free_fn_t destroy)
{
	CALLS_BACK;
	NEXT(tdestroy)(root, destroy);
}

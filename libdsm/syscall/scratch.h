/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scratch.h - memory for copies of one call's arguments, used and freed by the calling thread:
 * private, or shared where rank 0 makes the call. Copying reads shared memory, which may block for
 * other ranks; other functions do not block.
 */
#ifndef SYSCALL_SCRATCH_H
#define SYSCALL_SCRATCH_H

#include "wrap.h"

#define ROOM 8192u /* copies up to this size are on the stack */

/* Memory for one call. */
struct scratch {
	bool shared; /* in the shared heap */
	size_t used;
	struct mapped *mapped; /* blocks that did not fit in `room` */
	char room[ROOM] __attribute__((aligned(512)));
};

static inline size_t size_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Initialise as empty. */
static inline void scratch_init(struct scratch *s)
{
	s->shared = false;
	s->used = 0;
	s->mapped = NULL;
}

/* True if the callee cannot use what p points to, so that it needs a copy. */
bool scratch_misses(const struct scratch *s, const void *p);
/* Allocate size bytes that are copied to p later, with p's alignment, up to 512; p may be NULL.
 * NULL: ENOMEM; EFAULT: the program has closed p to stores. */
void *scratch_get(struct scratch *s, size_t size, const void *p);
/* The same for a copy of p. NULL: ENOMEM; EFAULT: the range extends beyond the end of shared
 * memory, or the program has closed it. */
void *scratch_copy(struct scratch *s, size_t size, const void *p);
/*
 * Copy a string, or a NULL-terminated array of strings; those that the callee can use are not
 * copied. NULL: ENOMEM, E2BIG.
 */
char *scratch_string(struct scratch *s, const char *p);
char **scratch_strings(struct scratch *s, char *const *p);
/* Free all of it; preserves errno. */
void scratch_free(void *scratch);

/* Put these around code that uses it. They also free it if the thread is cancelled. */
#define SCRATCH_BEGIN(s)  \
	scratch_init(&s); \
	pthread_cleanup_push(scratch_free, &s)
#define SCRATCH_END() pthread_cleanup_pop(1)

#endif

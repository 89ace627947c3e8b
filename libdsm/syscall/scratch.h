/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scratch.h - private memory for the copies of one call, used and freed by the thread that calls. Copies read shared memory,
 * which may block for other ranks; the rest does not block.
 */
#ifndef SYSCALL_SCRATCH_H
#define SYSCALL_SCRATCH_H

#include "wrap.h"

#define ROOM 8192u /* copies up to this size are on the stack */

/* Private memory for one call. */
struct scratch {
	size_t used;
	struct mapped *mapped; /* what had no room in `room` */
	char room[ROOM] __attribute__((aligned(512)));
};

/* Empty, for scratch_get() and the others. */
static inline void scratch_init(struct scratch *s)
{
	s->used = 0;
	s->mapped = NULL;
}

/* A place for a copy of so many bytes at p, aligned as p is, up to 512. NULL: ENOMEM. */
void *scratch_get(struct scratch *s, size_t size, const void *p);
/* The same with the copy made. NULL: ENOMEM; EFAULT, where the range goes on behind the end of shared memory. */
void *scratch_copy(struct scratch *s, size_t size, const void *p);
/* A string, and an array of strings with NULL at its end; what is private already stays. NULL: ENOMEM, E2BIG. */
char *scratch_string(struct scratch *s, const char *p);
char **scratch_strings(struct scratch *s, char *const *p);
/* Give all of it back; errno stays. */
void scratch_free(void *scratch);

/* Around what uses it; also where the thread is cancelled in between. */
#define SCRATCH_BEGIN(s)  \
	scratch_init(&s); \
	pthread_cleanup_push(scratch_free, &s)
#define SCRATCH_END() pthread_cleanup_pop(1)

#endif

// SPDX-License-Identifier: BSD-2-Clause
/*
 * wait.c - a layer above the library tells what a thread waits for, for reports of long waits and
 * of deadlocks.
 */
#include "job/job.h"
#include "job/note.h"
#include "util/futex.h"

static struct wait_label label(enum dsm_wait what, const void *object, int holder)
{
	return (struct wait_label){ .what = (uint8_t)what,
				    .object = (uintptr_t)object,
				    .holder = (uint32_t)holder };
}

DSM_API void dsm_wait_label(enum dsm_wait what, const void *object, int holder)
{
	wait_label = label(what, object, holder);
}

/*
 * Not job_ready(): that waits if the process is ending, which may need this thread, for instance to
 * release locks of the launcher's library.
 */
DSM_API int dsm_wait_begin(enum dsm_wait what, const void *object, int holder)
{
	const struct wait_label before = wait_label;
	int note;

	if (!what || !job_runs())
		return -1;
	wait_label = label(what, object, holder);
	note = note_begin(0, true, clock_ns());
	wait_label = before;
	return note;
}

DSM_API void dsm_wait_end(int wait)
{
	if (job_runs())
		note_end(wait);
}

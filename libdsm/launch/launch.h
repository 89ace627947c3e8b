/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * launch.h - the launcher's side of a job: the rank of a process, and the first exchange of bytes
 * between ranks (PMIx).
 *
 * Without a launcher, the process is a job of one rank, and every call succeeds at once. The calls
 * are not thread-safe: the thread that initialises and finalizes makes them. launch_gone() may be
 * called by any thread. Any call returns -EPIPE if the launcher has gone, or reports that a rank
 * has gone, and -ENOMEM if memory is short.
 */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#define LAUNCH_VALUE_MAX 8192

struct launch {
	int rank, size;
	/* among the processes of the job on this host; 0, 1 if the launcher does not say */
	int local_rank, local_size;
	char job[128]; /* name of the job */
	int alone;     /* 1: there is no launcher */
};

/* Return the number of ranks that the environment states; 0: one rank, or unknown. May be called
 * before launch_start(), which takes seconds under valgrind. Does not block. */
int launch_expected(void);

/* Connect to the launcher and fill *l. Blocks until the launcher answers, without a limit. -EPROTO:
 * the answers of the launcher are inconsistent. -ENOSYS: the process is one of several, but no PMIx
 * server is reachable. */
int launch_start(struct launch *l);

/* Publish size bytes as the value of key of this rank, and wait for all ranks, for at most this
 * many seconds (and 30 s for the launcher). Collective. launch_get() then finds the value of every
 * rank. -ETIMEDOUT: a rank did not call in time. -E2BIG: size is greater than LAUNCH_VALUE_MAX.
 * -EPROTO: the launcher refused the value. */
int launch_exchange(struct launch *l, const char *key, const void *value, size_t size,
		    unsigned int seconds);
/* Copy the value of key of a rank. *size: size of the buffer; on return, of the value. Blocks for
 * at most 30 s. -ENOENT: no such rank or key. -E2BIG: the buffer is too small. -ETIMEDOUT: the
 * launcher did not answer. */
int launch_get(struct launch *l, int rank, const char *key, void *value, size_t *size);

/* Wait for all ranks, for at most this many seconds. Collective. Prints no message on failure.
 * -ETIMEDOUT. After it, the launcher still counts this rank as arrived, so the caller must end the
 * job. */
int launch_fence(struct launch *l, unsigned int seconds);

/* Call fn when the launcher reports that a rank of the job has died, or (rank -1) that the launcher
 * itself has gone. fn runs in a thread of PMIx, and must not call PMIx. Blocks for at most 30 s.
 * -ENOSYS: the launcher does not support it. */
int launch_watch(struct launch *l, void (*fn)(int rank));

/* Return for how many milliseconds (at least 1) the connection to the launcher has been broken; 0:
 * it works. launch_watch() and failed calls detect this. Does not block. */
unsigned long launch_gone(void);

/* Call fn every 100 ms while a call of this file waits; NULL: stop. fn may end the process. */
void launch_meanwhile(void (*fn)(void));

/* Leave the launcher and free everything. No other call may follow. */
void launch_end(struct launch *l);
/* Ask the launcher to end the job. Returns after at most 5 s. why must stay valid, because PMIx may
 * use it later. */
void launch_abort(struct launch *l, int status, const char *why);

#endif

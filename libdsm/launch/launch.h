/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * launch.h - how a process learns who it is in the job and the ranks exchange their first bytes (PMIx, any launcher).
 *
 * Started by none, the process is a job of one rank and every call succeeds alone. Not thread-safe, but for launch_gone():
 * called by the thread that initialises and finalizes. -EPIPE of any call: the launcher has gone, or it says that a rank has.
 */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#define LAUNCH_VALUE_MAX 8192

struct launch {
	int rank, size;
	int local_rank, local_size; /* among the job's processes on this host, where the launcher says so; else 0, 1 */
	char job[128];              /* the launcher's name for the job */
	int alone;                  /* no launcher */
};

/* The number of ranks by the environment, before launch_start(), which takes seconds under valgrind. 0: one, or not known. */
int launch_expected(void);

/* 0; -EPROTO (the launcher answered nonsense), -ENOSYS (started by mpirun, but its PMIx server is not reachable). */
int launch_start(struct launch *l);

/* Publish size bytes as this rank's value of key, wait for all ranks to come here (at most seconds, and 30 for the launcher), so that launch_get()
 * finds everybody's value. -ETIMEDOUT, -E2BIG (LAUNCH_VALUE_MAX). */
int launch_exchange(struct launch *l, const char *key, const void *value, size_t size, unsigned int seconds);
/* *size: room in, bytes out. -ENOENT, -E2BIG. */
int launch_get(struct launch *l, int rank, const char *key, void *value, size_t *size);

/* The ranks this one shares a launcher node with are told by the caller; fence alone: says nothing when it fails. */
int launch_fence(struct launch *l, unsigned int seconds);

/* Call fn (any thread; no PMIx call inside) when the launcher reports that a rank of the job has died, or, with
 * rank -1, is gone itself. 0, -EPIPE or -ENOSYS. */
int launch_watch(struct launch *l, void (*fn)(int rank));

/* For how many ms, at least one, the connection to the launcher has been broken; 0: it stands. Known by launch_watch(), and from
 * calls that fail for that. */
unsigned long launch_gone(void);

/* fn is called ten times a second while the caller waits in one of these calls; NULL: no more. It may end the process. */
void launch_meanwhile(void (*fn)(void));

void launch_end(struct launch *l); /* leave; after it no other call */
/* Ask the launcher to end the job; returns, after 5 s at most. why: valid even after that, if the call is given up. */
void launch_abort(struct launch *l, int status, const char *why);

#endif

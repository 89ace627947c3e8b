/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shim.h - libdsm-pthread.so: POSIX threads of an ordinary program over the ranks of a job.
 *
 * The library stands in front of the C library: the program's calls come here, and so do those of every other library of the
 * process. Objects in shared memory are the program's, and handled here; objects elsewhere belong to libraries and to threads
 * of one rank, and go on to the C library. Where there is no object to tell by (malloc(), pthread_self()), the caller's address
 * does: the executable and the C++ library are the program.
 *
 * In a job of one rank everything goes on to the C library.
 *
 * Here are what all files share, and the functions of start.c, which the others ask. The functions of each other file are in
 * its header. As interpose/next.h wants, this one comes before any header of the C library.
 */
#ifndef PTHREAD_SHIM_H
#define PTHREAD_SHIM_H

#include "interpose/next.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <sched.h>

#define CALLER __builtin_return_address(0)

#define KEYS 1024u /* PTHREAD_KEYS_MAX */

/* In blocks of their own, which change with the keys only: they are read with each value. */
struct key {
	uint64_t seq; /* atomic; counts the times that it was made and deleted */
	void (*destructor)(void *);
};

/* What this process knows of the job; constant once it is active. */
struct shim {
	bool active; /* a job of several ranks, joined */
	bool near;   /* of one node: memory is coherent, and futexes work between ranks */
	int rank, size;
	int pid;
	char *heap, *heap_end;       /* the shared heap */
	char *globals, *globals_end; /* the program's variables */
	char *maps, *maps_end;       /* shared mappings (map.c) are between */
	bool shares_maps;            /* DSM_MMAP */
	struct key *keys;            /* KEYS of them */
};

extern struct shim shim;

/* Is it of mmap(), and shared? */
static inline bool is_mapped(const void *p)
{
	const char *at = p;

	return at < __atomic_load_n(&shim.maps_end, __ATOMIC_RELAXED) &&
		at >= __atomic_load_n(&shim.maps, __ATOMIC_RELAXED);
}

/* Is it in shared memory? */
static inline bool is_shared(const void *p)
{
	const char *at = p;

	return shim.active &&
		((at >= shim.heap && at < shim.heap_end) || (at >= shim.globals && at < shim.globals_end) ||
		 is_mapped(p));
}

/* What all ranks share, in the heap. Counters are atomic. */
struct team {
	uint32_t live;             /* threads made and not yet ended, main() among them */
	uint32_t how;              /* the program ends: enum ending; the first call decides */
	uint32_t status;           /* of the job, once `over` */
	pthread_mutex_t once_lock; /* over changes of every pthread_once_t */
	pthread_cond_t once_moved;
	dsm_sem_t exits; /* somebody wants the job to end, as `how` and `status` say */
	dsm_sem_t over;  /* the other ranks wait for this, and main() where it has left */
	pthread_mutex_t maps_lock;
	struct mapping *maps;
	uint32_t maps_made;
	pthread_mutex_t named_lock;
	struct named *named;
	struct key *keys;
	size_t stack_size, guard_size; /* of threads whose creator has no other wish */
};

extern struct team *team;

/* ---- start.c ---------------------------------------------------------------------------------------- */

/* Have rank 0 call exit(0): the program's last thread, of any rank, is about to end. Any rank. The first such call decides. */
void last_ended(void);

/* Does the program call, not a library? Any thread; never blocks. */
bool is_program(const void *caller);

/* Does the program call, of a job whose memory is shared? */
static inline bool is_ours(const void *caller)
{
	return shim.active && is_program(caller);
}

/* A library of the program's creates a thread, which is private to this rank: say so on stderr, once for each library. */
void say_stays(const void *caller);
/* Say on stderr what does not work across ranks. ENOSYS. */
int cannot(const char *what);

/* x86-64 keeps loads in order, and stores; this keeps the compiler from changing it. */
static inline void in_order(void)
{
	__asm__ volatile("" ::: "memory");
}

#endif

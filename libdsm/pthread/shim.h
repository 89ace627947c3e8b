/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shim.h - libdsm-pthread.so: POSIX threads of an ordinary program over the ranks of a job.
 *
 * The library interposes the C library's functions, for the program and for every other library of
 * the process. Objects in shared memory belong to the program and are handled here. Other objects
 * belong to libraries or to threads of one rank, and their calls are passed to the C library. If
 * there is no object (malloc(), pthread_self()), the caller's address decides: the executable and
 * the C++ library count as the program.
 *
 * In a job of one rank, all calls are passed to the C library, except those of contexts.c.
 *
 * This header has the shared definitions and the functions of start.c. The functions of each other
 * file are in its header. As interpose/next.h requires, this header comes before any header of the
 * C library.
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

#include "libraries.h"
#include "util/sizes.h"

#define CALLER __builtin_return_address(0)

#define KEYS 1024u /* PTHREAD_KEYS_MAX */

/* In separate blocks, which change only with the keys, because they are read with each value. */
struct key {
	uint64_t seq; /* atomic; incremented by each creation and deletion */
	void (*destructor)(void *);
};

/* This process's view of the job; constant once active. */
struct shim {
	bool active;   /* a job of several ranks, joined */
	bool one_node; /* of one node: memory is coherent, and futexes work between ranks */
	int rank, size;
	int pid;                     /* of this process */
	int leader;                  /* rank 0's, which is the program's */
	char *heap, *heap_end;       /* the shared heap */
	char *globals, *globals_end; /* the program's variables */
	char *maps, *maps_end;       /* shared mappings (anon.c) are between */
	bool shares_maps;            /* DSM_MMAP */
	bool shares_libraries;       /* the program has some of its own: DSM_OWN_LIBRARIES */
	/*
	 * the program's memory has release consistency: stores of another node are seen after calls
	 */
	bool weak;
	struct key *keys; /* KEYS of them */
};

extern struct shim shim;

/* True if p is in a shared mapping of mmap(). */
static inline bool is_mapped(const void *p)
{
	const char *at = p;

	return at < __atomic_load_n(&shim.maps_end, __ATOMIC_RELAXED) &&
		at >= __atomic_load_n(&shim.maps, __ATOMIC_RELAXED);
}

/* True if p is in shared memory. */
static inline bool is_shared(const void *p)
{
	const char *at = p;

	return shim.active &&
		((at >= shim.heap && at < shim.heap_end) ||
		 (at >= shim.globals && at < shim.globals_end) || is_mapped(p) ||
		 (shim.shares_libraries && libraries_has(p)));
}

#define LOCAL_MOST 64u /* functions of local.c, at most */

/* State shared by all ranks, in the heap. Counters are atomic. */
struct team {
	/* Constant, or nearly so: all ranks read it all the time. */
	struct signals *signals; /* signals.c */
	int pid;                 /* rank 0's */
	dsm_sem_t exits;         /* posted to end the job, as `how` and `status` specify */
	/* the other ranks wait for this, and so does main() if it has left */
	dsm_sem_t over;
	struct map_table *tables; /* maps.c; one for each rank */
	struct key *keys;
	struct generators *generators; /* random.c */
	struct environment *environment;
	struct statics *statics;
	struct iostreams *iostreams;   /* NULL: the process has no libstdc++ */
	struct seat *seats;            /* processors.c; NULL: the program sees the host's */
	size_t stack_size, guard_size; /* default sizes for new threads */

	/* Written with each thread, and less often: in another block. */
	/* threads created and not yet ended, including main() */
	uint32_t live __attribute__((aligned(PAGE_BYTES)));
	/* the program ends: enum ending; the first call decides */
	uint32_t how;
	uint32_t status;  /* of the job, once `over` */
	uint32_t refused; /* calls on files, or fork(), were, on any rank */
	/* functions whose state is of one rank: the program has been told */
	uint8_t reported[LOCAL_MOST];
	pthread_mutex_t once_lock; /* protects changes of every pthread_once_t */
	pthread_cond_t once_moved;
	pthread_mutex_t maps_lock;
	struct anon *maps;
	uint32_t maps_made;
	struct heapmap *heapmaps;    /* heapmap.c; under maps_lock as well */
	pthread_mutex_t closed_lock; /* closed.c */
	uint32_t closed;             /* atomic: a page has ever been closed */
	pthread_mutex_t named_lock;
	struct named *named;
};

extern struct team *team;

/* ---- local.c --------------------------------------------------------------------------------- */

/* Report, once in the job, that the program makes this system call, if what it changes is of one
 * rank. arg: six words. Any thread; keeps errno. Blocks for shared memory at most. */
void local_note_number(long n, const long *arg, const void *caller);

/* ---- start.c --------------------------------------------------------------------------------- */

/*
 * Make rank 0 call exit(0), because the program's last thread on any rank is about to end. Any
 * rank. The first call decides.
 */
void last_ended(void);

/* True if the caller is the program, not a library. Any thread; never blocks. */
bool is_program(const void *caller);

/*
 * True if the address is code of the executable itself, not of a library. Any thread; never blocks.
 */
bool is_executable(const void *at);

/*
 * True in a process that has joined a job, false in a child of vfork(). Any thread; never blocks.
 */
bool is_rank(void);

/* True if the caller is libdsm itself. Any thread; never blocks. */
bool is_runtime(const void *caller);

/*
 * True if the caller is a library that keeps nothing but what its callers hand round (zlib,
 * libnuma), for a thread of the program: its memory is the program's. libdsm is built on it as
 * well. Any thread; never blocks.
 */
bool is_library_of_program(const void *caller);

/* True if the caller is the program, in a job with shared memory. */
static inline bool caller_is_ours(const void *caller)
{
	return shim.active && is_program(caller);
}

/* True if the program calls it on another rank than 0, whose process the program believes to be. */
static inline bool caller_is_forwarded(const void *caller)
{
	return shim.rank && caller_is_ours(caller) && is_rank();
}

/*
 * Log that a library of the program creates a thread, which stays private to this rank. Once per
 * library.
 */
void thread_log_stays(const void *caller);
/*
 * Print a line to what stderr was when the process began. Takes no lock, and is no cancellation
 * point.
 */
void start_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Log what does not work across ranks. Return ENOSYS. */
int start_cannot(const char *what);

/*
 * A lock in shared memory, for some instructions that wait for nothing but blocks: a word, in the
 * block of what it protects. 0: free. Not for handlers of signals.
 */
static inline void brief_lock(uint32_t *word)
{
	unsigned int spin = 0;

	while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(word, __ATOMIC_RELAXED)) {
			__builtin_ia32_pause();
			if (++spin % 1000 == 0) /* ranks may share a processor */
				sched_yield();
		}
}

static inline void brief_unlock(uint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

/* Compiler barrier. x86-64 itself keeps loads in order, and stores. */
static inline void in_order(void)
{
	__asm__ volatile("" ::: "memory");
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * team.h - teams of threads, and what a thread knows of its own.
 *
 * This runtime is an ordinary threads program: it stands on POSIX threads alone, which
 * libdsm-pthread.so spreads over the ranks, and its variables, and what it allocates, are the
 * program's. Each thread that starts a parallel region leads a team for each number of threads that
 * it has asked for. Their other threads wait for the next region of that size.
 *
 * Thread-local variables differ between ranks, so nothing points to one.
 */
#ifndef OPENMP_TEAM_H
#define OPENMP_TEAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "icv.h"
#include "loop.h"
#include "meet.h"
#include "tls.h"

#define TEAM_MOST 1024u
#define TEAMS_MOST 4u   /* of one leader, for numbers of threads in turns */
#define TEAM_PLACES 64u /* constructs with tickets that two threads of a team may be apart */
#define TEAM_PAGE 4096u /* what one node writes again and again has a page of its own */

/* What the threads share of a work-sharing construct: loop.h. Construct i has place i modulo their
 * number. */
struct place {
	uint64_t tickets; /* atomic */
	uint64_t turn;    /* with `ordered`: the chunk whose turn it is; under turn_lock */
};

/* The chunks that a thread has left. */
struct share {
	uint64_t left; /* atomic */
	char rest[TEAM_PAGE - sizeof(uint64_t)];
};

/* What a thread remembers of the constructs that it has met in a team. Private to its rank. */
struct book {
	uint64_t constructs;
	uint64_t steals; /* those that are loops with shares */
	uint64_t barriers;
	uint64_t met; /* those before the last barrier: all threads have met them */
	/* of each place: what the constructs so far have used */
	uint64_t tickets[TEAM_PLACES], turns[TEAM_PLACES];
};

/* Does a region make tasks? NONE: its barriers are those of programs without, whose threads execute
 * nothing while they wait. All threads of a team know the same. */
enum makes {
	MAKES_UNKNOWN,
	MAKES_NONE,
	MAKES_TASKS,
};

/* What its leader tells a team before a region. */
struct orders {
	void (*fn)(void *);
	void *data;
	struct loop first; /* the region begins with it, if it has a step */
	struct icv icv;    /* of its threads */
	unsigned int level;
	enum makes makes;
};

struct team {
	struct orders orders;
	/* 1 + the last even and odd barrier before which a region that was to make none did */
	uint64_t made[2];
	void *copied; /* for `copyprivate` */
	bool ends;
	unsigned int leaving; /* threads that still use this, when it ends; atomic */
	/* constant */
	unsigned int n;
	struct team *next;   /* of the same leader */
	unsigned int book;   /* its leader's: which of its books */
	struct tasks *tasks; /* NULL: the program has none */
	struct meet all;     /* before a region, and within it */
	pthread_mutex_t turn_lock;
	pthread_cond_t turn_came;
	struct place places[TEAM_PLACES] __attribute__((aligned(TEAM_PAGE)));
	struct share shares[] __attribute__((aligned(TEAM_PAGE)));
};

struct task;

/* Zero-initialised: a thread outside of regions. */
struct self {
	struct team *team; /* NULL: it is alone */
	struct book *book; /* in that team */
	unsigned int id;
	unsigned int level; /* regions around it, also those of one thread */
	/* the region of several threads around it; n 0: none */
	struct {
		unsigned int n, level, id;
	} active;
	struct loop loop;   /* the last one that it has met */
	struct task *task;  /* that it executes */
	bool made;          /* tasks since the last barrier, for all */
	enum makes makes;   /* this region */
	unsigned int plain; /* its barriers before which none were made, while that is unknown */
	struct team *led;   /* its teams */
	struct tls_copy passed; /* by `copyprivate`, until the next barrier */
};

extern __thread struct self self __attribute__((tls_model("initial-exec")));

static inline unsigned int team_size(void)
{
	return self.team ? self.team->n : 1;
}

/* Execute a region. threads 0: as many as usual. first: the loop that it begins with, or NULL. */
void team_region(void (*fn)(void *), void *data, unsigned int threads, const struct loop *first);
/* Are there several ranks, which share memory only? */
bool team_is_spread(void);
/* Is it shared memory? For a job with several ranks. */
bool team_shares(const void *at);
/* This thread makes a task, or waits for some. The team has tasks. */
void team_makes_tasks(void);
/* Wait for all threads of this one's team, and for its tasks. */
void team_barrier(void);

/* What the allocation of `what` has returned; if that is NULL, exit as below. */
void *openmp_must(void *memory, const char *what);
/* Print why, and exit. */
void openmp_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif

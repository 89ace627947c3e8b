/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storm.h - shared by the files of storm: the memory that ranks and test share, the kinds of events
 * (storm_events.c), ranks (storm_ranks.c), and what happens to them (storm_outside.c).
 */
#ifndef KMOD_STORM_H
#define KMOD_STORM_H

#include "common.h"

#define THREADS 4u
#define HOT 16u
#define FAILSLAB "/sys/kernel/debug/failslab"

enum order { GO_ON, EXIT, UNMAP, FORK, MOVE, ORDERS };

enum event {
	EVENT_KILL,
	EVENT_EXIT,
	EVENT_UNMAP,
	EVENT_CHILD,
	EVENT_MOVE,
	EVENT_USER,
	EVENT_NAMESPACE,
	EVENT_REMOVAL,
	EVENT_OFFLINE,
	EVENT_UNLOAD,
	EVENT_RELOAD,
	EVENT_RANGE,
	EVENT_ADD,
	EVENT_SHORT,
	EVENT_LOCK,
	EVENT_LIMIT,
	EVENT_PIN,
	EVENT_BARRIER,
	EVENT_HOLDER,
	EVENT_WAITER,
	EVENTS
};

/*
 * A word that all ranks add to under a lock: the mutex of the rank with that number, or for the
 * last word, a pin of its page.
 */
#define GUARDS (JOB_RANKS + 1)
#define PIN_GUARD JOB_RANKS

struct orders {
	_Atomic int order[JOB_RANKS];
	_Atomic unsigned long accesses, signals, checked, wrong, intruders;
	_Atomic unsigned long events[EVENTS];
	struct {
		_Atomic uint64_t begun, done;
	} marks[JOB_RANKS][THREADS][HOT];
	_Atomic uint64_t mutex[JOB_RANKS]; /* its name and generation; 0: there is none */
	struct {
		_Atomic uint64_t begun, done;
		_Atomic unsigned int holder; /* rank + 1 */
	} guards[GUARDS];
	_Atomic bool waits[JOB_RANKS][THREADS];
};

/* Memory that the ranks and the test share. */
extern struct orders *orders;
extern const char *module;     /* file of the module, to unload and load it */
extern unsigned int round_now; /* inherited by processes that start in the round */

static inline void happened(enum event e)
{
	atomic_fetch_add(&orders->events[e], 1);
}

static inline unsigned long times(enum event e)
{
	return atomic_load(&orders->events[e]);
}

/* ---- storm_events.c -------------------------------------------------------------------------- */

/* Report an operation that the module should have refused. */
void intruded(const char *who, unsigned int rank, const char *what);
/* Print what failed. Returns false. */
/*
 * Print how often each kind of event has happened. False: enough rounds, and some event never
 * happened.
 */
bool report_events(unsigned int rounds);
/* Whether to run this round: there are fewer than `rounds`, or some event never happened. */
bool goes_on(unsigned int round, unsigned int rounds);

/* ---- storm_ranks.c --------------------------------------------------------------------------- */

/* The process of a rank; does not return. */
void rank_process(struct job *j, unsigned int rank, uint64_t seed);
/* Count what ended ranks held, and what they waited for. */
void count_ends(void);

/* ---- storm_outside.c ------------------------------------------------------------------------- */

extern double removal_longest, removal_sum; /* seconds that removals of the device took */

/* Run `rdma link COMMAND`. False: it has failed, and that is printed. */
bool device(const char *command);
/* Remove the device, which must end its users without other help, and record how long that took. */
bool remove_device(void);
/* Print and return false if a removal took too long. */
bool removed_soon(void);
/* Let a stranger try to join as this rank. */
void stranger(const struct job *j, uint64_t *r, unsigned int rank);
/* Let one of `one_of` allocations fail; 0: none. */
void shortage(unsigned int one_of);
const char *processor_file(void); /* the file that switches the last processor */
/* Switch the last processor. False: there is only one, or it cannot go offline. */
bool processor(bool online);
/* Unload the module as soon as it has no user, while ranks end, and load it. */
bool unload_at_once(void);
/*
 * Unload the module; nothing of it must be left, and the device must have the objects that it had
 * before.
 */
bool ends_well(const char *before);
/* Unload and load the module; with_device: while the device is removed and made. */
bool reload(const char *before, bool with_device);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h - what a scene of the checker of memory orders is made of.
 *
 * A scene is a few threads that call the project's own functions at the same time. Its file
 * includes the source that it checks, and is compiled with the compiler's instrumentation for data
 * races: each load and store calls hooks.c instead of a runtime of the compiler. The search then
 * runs every interleaving of the threads' atomic accesses, and in each every outcome that a memory
 * model allows (tso.c, c11.c).
 *
 * Threads are coroutines of one process. Memory that they share is registered by share(); accesses
 * to other memory are not seen.
 */
#ifndef ORDERS_ORDER_H
#define ORDERS_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_THREADS 4
#define ORDER_CELLS 8 /* locks, and semaphores */

enum { FAILS_TSO = 1, FAILS_C11 = 2 };

struct scene {
	const char *name, *what;
	unsigned int threads;
	/* before the threads; shared memory is as it was when the program started */
	void (*begin)(void);
	void (*thread)(unsigned int me);
	void (*end)(void);     /* after all threads; may be NULL */
	unsigned int switches; /* most preemptions of a thread that could run on; 0: no limit */
	bool full;             /* only with --full */
	unsigned int fails;    /* models that must violate it: it checks the checker */
};

/* Each program defines these; the last scene has no name. */
extern const struct scene scenes[];
void scene_memory(void); /* calls share() and own() */

/* Memory of all threads; name is for the report. */
void share_bytes(const char *name, void *at, size_t bytes);
#define share(object) share_bytes(#object, &(object), sizeof(object))
/*
 * Shared memory that is read as a hint, without a lock, while others store in it plainly: its races
 * do not count.
 */
void loose_bytes(const void *at, size_t bytes);
#define loose(object) loose_bytes(&(object), sizeof(object))
/*
 * Memory that each thread has for itself (__thread): its contents are exchanged when another thread
 * runs.
 */
void own_bytes(void *at, size_t bytes);
#define own(object) own_bytes(&(object), sizeof(object))

/* A lock and a semaphore without a fault, in place of those of the host: release and acquire. */
void cell_lock(unsigned int cell);
void cell_unlock(unsigned int cell);
void cell_post(unsigned int cell);
void cell_wait(unsigned int cell);

/* Report a violation and end this run. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define require(condition, ...)                 \
	do {                                    \
		if (!(condition))               \
			violation(__VA_ARGS__); \
	} while (0)

#endif

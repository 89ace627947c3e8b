/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * cqgroup.h - CQ handler groups: the completion vectors and CPUs that the completion queues of one kind of traffic use.
 *
 * A group is a name, a set of completion vectors of one device and a set of CPUs. CQs that are created in a group use only
 * its vectors, and threads that handle their events bind themselves to its CPUs, so that one kind of traffic never waits
 * behind the interrupts of another. A table holds the groups of the four protocol classes of libdsm; a string configures
 * it. The library does not depend on libdsm; any verbs program may use it.
 *
 * Conventions, for every function unless its comment says otherwise:
 *  - any thread may call it at any time; it does not block, except in libibverbs and sysfs;
 *  - it returns 0 or a non-negative result on success and a negative errno value on failure, and stores to its output
 *    arguments only on success. The exception is why, NULL or CQGROUP_WHY_MAX bytes: on failure, it describes the error;
 *  - a context must outlive the groups that were created for it.
 *
 * Lists of vectors and CPUs have the syntax of the kernel: "0-1,4". Both are numbers from 0 to 4095.
 */
#ifndef CQGROUP_H
#define CQGROUP_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CQGROUP_API __attribute__((visibility("default")))

#define CQGROUP_NAME_MAX 48  /* bytes in a group's name, with its final NUL */
#define CQGROUP_LIST_MAX 256 /* bytes of a list in struct cqgroup_info; longer ones end in "..." */
#define CQGROUP_WHY_MAX 256  /* bytes of an explanation */

struct cqgroup;
struct cqgroup_table;

/* ---- one group ----------------------------------------------------------------------------- */

/* The CQs of a vector are those that all processes of the host created in groups: see cq-groups.md. */
enum cqgroup_policy {
	CQGROUP_ROUND_ROBIN = 0, /* the group's vectors in turn; the first is the one with the fewest CQs */
	CQGROUP_LEAST_LOADED /* that with the fewest CQs, then the fewest counted completions, then the next in turn */
};

/* A group of any name. vectors NULL: all of the device. cpus NULL or "auto": one CPU per vector, from those near the
 * device (on its NUMA node) that the process may use; "none": threads are not bound.
 * -EINVAL: name empty or too long, malformed list. -ERANGE: the device has no such vector, or the CPU is not online. -ENOMEM. */
CQGROUP_API int cqgroup_create(struct ibv_context *ctx, const char *name, const char *vectors, const char *cpus,
			       struct cqgroup **out, char *why);

/* Destroy the group. Its remaining CQs stay valid; destroy them with ibv_destroy_cq(). NULL is allowed. No other call on the
 * group may be in progress. The groups of a table are destroyed with the table. */
CQGROUP_API void cqgroup_destroy(struct cqgroup *g);

/* Like ibv_create_cq(), with a vector of the group. The result is an ordinary CQ.
 * Errors are those of ibv_create_cq(), negative (-ENOMEM, -EINVAL). */
CQGROUP_API int cqgroup_create_cq(struct cqgroup *g, int cqe, void *cq_context, struct ibv_comp_channel *channel,
				  enum cqgroup_policy policy, struct ibv_cq **out);

/* Like ibv_destroy_cq(); waits until its events are acknowledged. -ENOENT: not a CQ of this group. -EBUSY: in use. */
CQGROUP_API int cqgroup_destroy_cq(struct cqgroup *g, struct ibv_cq *cq);

/* The vector of a CQ. -ENOENT: not a CQ of this group. */
CQGROUP_API int cqgroup_cq_vector(struct cqgroup *g, const struct ibv_cq *cq);

/* For CQs that are created in other ways, such as ibv_create_cq_ex(): take a vector for a CQ, and give it back. */
CQGROUP_API int cqgroup_take(struct cqgroup *g, enum cqgroup_policy policy);
CQGROUP_API void cqgroup_give(struct cqgroup *g, unsigned int vector);

/* The CPU that handles a vector's interrupt: scripts/irq-affinity directs it there, and dsm.ko steers to it where a device
 * ignores vectors. The vectors of a group use the CPUs of its list in turn, both in ascending order; without a list ("auto"),
 * vector v uses the v-th CPU beside the device, whether or not the process may use it.
 * -ENOENT: not a vector of this group. -ENODATA: the group has no CPUs ("none"). */
CQGROUP_API int cqgroup_vector_cpu(const struct cqgroup *g, unsigned int vector);

/* Begin with the turn-th vector of the group (modulo their number) among those that are equally loaded; by default the first.
 * Processes that pass different numbers, such as their rank, spread over the vectors even where the CQs of other processes
 * cannot be counted (no sysfs). */
CQGROUP_API void cqgroup_set_turn(struct cqgroup *g, unsigned int turn);

/* Count handled events and completions; any number of threads at once, without a lock. Vectors of other groups are ignored. */
CQGROUP_API void cqgroup_count(struct cqgroup *g, unsigned int vector, uint64_t events, uint64_t completions);

/* Bind the calling thread to the group's CPUs. 0 also if the group binds none. Errors of sched_setaffinity(). */
CQGROUP_API int cqgroup_bind_thread(const struct cqgroup *g);

struct cqgroup_info {
	char name[CQGROUP_NAME_MAX];
	char vectors[CQGROUP_LIST_MAX];
	char cpus[CQGROUP_LIST_MAX]; /* empty: threads are not bound */
	unsigned int nvectors;
	unsigned int cqs; /* current number */
	uint64_t events, completions;
};

struct cqgroup_vector {
	unsigned int vector;
	unsigned int cqs; /* current number */
	uint64_t made;    /* CQs created so far */
	uint64_t events, completions;
};

CQGROUP_API void cqgroup_query(struct cqgroup *g, struct cqgroup_info *out);

/* The first max of the group's vectors, in ascending order; returns the number of vectors in the group. */
CQGROUP_API unsigned int cqgroup_query_vectors(struct cqgroup *g, struct cqgroup_vector *out, unsigned int max);

CQGROUP_API const char *cqgroup_name(const struct cqgroup *g);

/* ---- the groups of the protocol classes ---------------------------------------------------- */

/* In the order of libdsm's message classes. */
enum cqgroup_class { CQGROUP_COHERENCE = 0, CQGROUP_DATA, CQGROUP_SYNC, CQGROUP_BULK, CQGROUP_CLASSES };

/* Create the groups that config describes:
 *
 *   NULL, "" or "auto"   all vectors, divided among the four classes
 *   "off"                one group, "all", for everything
 *   "coherence=0-1;data=2@4-7;sync=3;bulk=4-5@none"
 *                        vectors and, after @, CPUs (like cpus of cqgroup_create()) of each class
 *
 * Classes that config does not name share the vectors that it does not name. Each gets an equal number; the
 * remainder goes to coherence, bulk, data, sync in this order. If there are fewer vectors than classes, classes merge until
 * there are enough: bulk into data, then sync into coherence, then data into coherence. A merged group is named after all
 * its classes, "data+bulk".
 *
 * -EINVAL: malformed; a class that does not exist or occurs twice; a vector in two groups. -ERANGE: the device has no such
 * vector, or the CPU is not online. -ENOSPC: no vector is left for a class that is not named. -ENOMEM. */
CQGROUP_API int cqgroup_table_create(struct ibv_context *ctx, const char *config, struct cqgroup_table **out,
				     char *why);

/* Check the syntax of config, and everything else that needs no device. -EINVAL, -ENOMEM. */
CQGROUP_API int cqgroup_table_check(const char *config, char *why);

/* Like cqgroup_destroy(), for the table and all its groups. NULL is allowed. */
CQGROUP_API void cqgroup_table_destroy(struct cqgroup_table *t);

/* The group of a class; merged classes have the same group. Never NULL. */
CQGROUP_API struct cqgroup *cqgroup_table_class(const struct cqgroup_table *t, enum cqgroup_class c);

/* The group of a class by its name, "data". NULL: there is no such class. */
CQGROUP_API struct cqgroup *cqgroup_table_find(const struct cqgroup_table *t, const char *name);

/* Each group once: i from 0, until the result is NULL. */
CQGROUP_API struct cqgroup *cqgroup_table_at(const struct cqgroup_table *t, unsigned int i);

/* "coherence=0@0;data+bulk=1@1;sync=2@2", for messages; at most size bytes including the NUL. */
CQGROUP_API void cqgroup_table_print(const struct cqgroup_table *t, char *buf, size_t size);

/* ---- the device ---------------------------------------------------------------------------- */

/* Whether the device uses completion vectors. 1: it has its own interrupts, and a CQ uses that of its vector. 0: it has none,
 * like soft-RoCE, and accepts and ignores any vector; a group then only determines the CPUs of the threads that handle its
 * events. Callers should report this once. */
CQGROUP_API int cqgroup_vectors_effective(struct ibv_context *ctx);

#ifdef __cplusplus
}
#endif

#endif

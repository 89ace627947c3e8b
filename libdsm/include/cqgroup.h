/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * cqgroup.h - CQ handler groups: completion vectors and CPUs for the completion queues of one kind
 * of traffic.
 *
 * A group is a name, a set of completion vectors of one device and a set of CPUs. CQs that are
 * created in a group use only its vectors. Threads that handle their events bind themselves to its
 * CPUs. One kind of traffic then never waits behind the interrupts of another. A table holds the
 * groups of the four protocol classes of libdsm; a string configures it. The library does not
 * depend on libdsm, so any verbs program may use it.
 *
 * Conventions, unless the comment of a function says otherwise:
 *  - Any thread may call a function at any time. Functions block only in libibverbs and sysfs.
 *  - A function returns 0 or a non-negative result on success, and a negative errno value on
 *    failure. It stores to its output arguments only on success. Exception: why (NULL or
 *    CQGROUP_WHY_MAX bytes) describes the error on failure.
 *  - The context must exist longer than the groups that were created for it.
 *
 * Lists of vectors and CPUs have the syntax of the kernel: "0-1,4". Both are numbers from 0 to
 * 4095.
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

#define CQGROUP_NAME_MAX 48  /* bytes of the name of a group, including the final NUL */
#define CQGROUP_LIST_MAX 256 /* bytes of a list in struct cqgroup_info; longer lists end in "..." */
#define CQGROUP_WHY_MAX 256  /* bytes of why */
#define CQGROUP_DEVICE_MAX 64 /* bytes of the name of a device, including the final NUL */

struct cqgroup;
struct cqgroup_table;

/* ---- one group ----------------------------------------------------------------------------- */

/* How a group chooses the vector of a CQ. It counts the CQs that all processes of the host have in
 * groups: docs/cq-groups.md. */
enum cqgroup_policy {
	CQGROUP_ROUND_ROBIN = 0, /* the vectors in turn, from the one with the fewest CQs */
	CQGROUP_LEAST_LOADED /* the fewest CQs; among equals the fewest counted completions; then the next in turn */
};

/* Create a group. vectors NULL: all of the device. cpus NULL or "auto": one CPU per vector, among
 * the CPUs of the device's NUMA node that the process may use; "none": cqgroup_bind_thread() does
 * nothing. Destroy it with cqgroup_destroy(). -EINVAL: the name is empty or too long, or a list is
 * malformed. -ERANGE: the device has no such vector, or a CPU is not online. -ENOMEM. */
CQGROUP_API int cqgroup_create(struct ibv_context *ctx, const char *name, const char *vectors, const char *cpus,
			       struct cqgroup **out, char *why);

/* Destroy a group of cqgroup_create(). Its remaining CQs stay valid; destroy them with
 * ibv_destroy_cq(). NULL is allowed. No other call on the group may be in progress.
 * cqgroup_table_destroy() destroys the groups of a table. */
CQGROUP_API void cqgroup_destroy(struct cqgroup *g);

/* Create a CQ like ibv_create_cq(), on a vector of the group. The result is an ordinary CQ. Errors
 * are those of ibv_create_cq(), negative (-ENOMEM, -EINVAL). -EINVAL: also if there is no such
 * policy. */
CQGROUP_API int cqgroup_create_cq(struct cqgroup *g, int cqe, void *cq_context, struct ibv_comp_channel *channel,
				  enum cqgroup_policy policy, struct ibv_cq **out);

/* Destroy a CQ like ibv_destroy_cq(). Waits until its events are acknowledged. -ENOENT: not a CQ of
 * this group. -EBUSY: a queue pair uses it. */
CQGROUP_API int cqgroup_destroy_cq(struct cqgroup *g, struct ibv_cq *cq);

/* Return the vector of a CQ. -ENOENT: not a CQ of this group. */
CQGROUP_API int cqgroup_cq_vector(struct cqgroup *g, const struct ibv_cq *cq);

/* For CQs that are created in other ways, such as ibv_create_cq_ex(): choose a vector and count the
 * CQ; uncount it. cqgroup_take() returns the vector. -EINVAL: no such policy. cqgroup_give()
 * ignores vectors of other groups. */
CQGROUP_API int cqgroup_take(struct cqgroup *g, enum cqgroup_policy policy);
CQGROUP_API void cqgroup_give(struct cqgroup *g, unsigned int vector);

/* Return the CPU for the interrupt of a vector. scripts/irq-affinity directs the interrupt there;
 * dsm.ko steers its handlers there if the device ignores vectors. The vectors of a group use the
 * CPUs of its list in turn, both in ascending order. Without a list ("auto"), vector v uses the
 * v-th CPU near the device, whether or not the process may use it. -ENOENT: not a vector of this
 * group. -ENODATA: the group has no CPUs ("none"). */
CQGROUP_API int cqgroup_vector_cpu(const struct cqgroup *g, unsigned int vector);

/* Set which of several equally loaded vectors is chosen next: number turn of the group, modulo the
 * number of its vectors; default 0. Processes that pass different numbers, such as their ranks,
 * spread over the vectors even if the CQs of other processes cannot be counted (no sysfs). */
CQGROUP_API void cqgroup_set_turn(struct cqgroup *g, unsigned int turn);

/* Count handled events and completions. Takes no lock. Ignores vectors of other groups. */
CQGROUP_API void cqgroup_count(struct cqgroup *g, unsigned int vector, uint64_t events, uint64_t completions);

/* Bind the calling thread to the CPUs of the group. Returns 0 also if the group has none. Errors of
 * sched_setaffinity(2). */
CQGROUP_API int cqgroup_bind_thread(const struct cqgroup *g);

struct cqgroup_info {
	char name[CQGROUP_NAME_MAX];
	char vectors[CQGROUP_LIST_MAX];
	char cpus[CQGROUP_LIST_MAX]; /* empty: "none" */
	unsigned int nvectors;
	unsigned int cqs; /* current number, of this group */
	uint64_t events, completions;
};

struct cqgroup_vector {
	unsigned int vector;
	unsigned int cqs; /* current number */
	uint64_t made;    /* CQs so far */
	uint64_t events, completions;
};

/* Describe a group. */
CQGROUP_API void cqgroup_query(struct cqgroup *g, struct cqgroup_info *out);

/* Describe the first max vectors of the group, in ascending order. Returns the number of all its
 * vectors. */
CQGROUP_API unsigned int cqgroup_query_vectors(struct cqgroup *g, struct cqgroup_vector *out, unsigned int max);

/* Return the name, which belongs to the group. */
CQGROUP_API const char *cqgroup_name(const struct cqgroup *g);

/* ---- the groups of the protocol classes ---------------------------------------------------- */

/* In the order of libdsm's message classes. */
enum cqgroup_class { CQGROUP_COHERENCE = 0, CQGROUP_DATA, CQGROUP_SYNC, CQGROUP_BULK, CQGROUP_CLASSES };

/* Create the groups that config describes:
 *
 *   NULL, "" or "auto"   all vectors, divided among the four classes
 *   "off"                one group, "all", for all classes
 *   "coherence=0-1;data=2@4-7;sync=3;bulk=4-5@none"
 *                        the vectors of each class and, after @, its CPUs (as in cqgroup_create())
 *   "coherence=mlx5_0;bulk=mlx5_1:0-3@4-7"
 *                        a device owns the class: mlx5_0 with a share of its vectors, mlx5_1 with
 *                        these
 *   "devices"            the active devices of the host are divided among the classes, as vectors
 *                        are
 *
 * On a device, a class that another device owns has no group of its own: cqgroup_table_class()
 * returns the first group of the table. A device whose classes all belong to others has the group
 * "all".
 *
 * Classes that config does not name share the vectors that it does not name. Each gets an equal
 * number. The remainder goes to coherence, bulk, data, sync in this order. If there are fewer
 * vectors than classes, classes merge until there are enough: bulk into data, then sync into
 * coherence, then data into coherence. The name of a merged group lists its classes, "data+bulk".
 *
 * -EINVAL: config is malformed, names a class that does not exist or occurs twice, or has a vector
 * in two groups. -ERANGE: the device has no such vector, or a CPU is not online. -ENOSPC: no vector
 * is left for an unnamed class. -ENODEV: the host has no device of this name. -ENOMEM. */
CQGROUP_API int cqgroup_table_create(struct ibv_context *ctx, const char *config, struct cqgroup_table **out,
				     char *why);

/* Check everything in config that needs no device. -EINVAL: see cqgroup_table_create(). -ENOMEM. */
CQGROUP_API int cqgroup_table_check(const char *config, char *why);

/* Destroy the table and its groups, as cqgroup_destroy() does. NULL is allowed. */
CQGROUP_API void cqgroup_table_destroy(struct cqgroup_table *t);

/* Return the group of a class. Merged classes have the same group. Never NULL. The groups belong to
 * the table. */
CQGROUP_API struct cqgroup *cqgroup_table_class(const struct cqgroup_table *t, enum cqgroup_class c);

/* Return the name of the device that owns a class, which may be another one than the table's. NULL:
 * none; the CQs of the class may be on any device. The name belongs to the table. */
CQGROUP_API const char *cqgroup_table_device(const struct cqgroup_table *t, enum cqgroup_class c);

/* Find the device that owns the class of this name, such as "bulk", by config, before any is open;
 * "": none does. Whether the host has it, ibv_get_device_list() says. -EINVAL: there is no such
 * class, or config is malformed. */
CQGROUP_API int cqgroup_table_owner(const char *config, const char *name, char device[CQGROUP_DEVICE_MAX], char *why);

/* Return the group of the class with this name, such as "data". NULL: no such class. */
CQGROUP_API struct cqgroup *cqgroup_table_find(const struct cqgroup_table *t, const char *name);

/* Return group i of the table, from 0. NULL: there are no more. */
CQGROUP_API struct cqgroup *cqgroup_table_at(const struct cqgroup_table *t, unsigned int i);

/* Print the groups for a message, like "coherence=0@0;data+bulk=1@1;sync=2@2", in at most size
 * bytes including the NUL. */
CQGROUP_API void cqgroup_table_print(const struct cqgroup_table *t, char *buf, size_t size);

/* ---- the device ---------------------------------------------------------------------------- */

/* Return 1 if the device has its own interrupts, so that a CQ uses that of its vector. Return 0 if
 * it accepts and ignores any vector, like soft-RoCE; a group then only determines the CPUs of the
 * threads that handle its events. Callers should report this once. */
CQGROUP_API int cqgroup_vectors_effective(struct ibv_context *ctx);

#ifdef __cplusplus
}
#endif

#endif

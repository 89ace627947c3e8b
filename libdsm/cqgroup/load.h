/* SPDX-License-Identifier: BSD-2-Clause */
/* load.h - number of CQs of this host's processes on each completion vector of a device. */
#ifndef CQGROUP_LOAD_H
#define CQGROUP_LOAD_H

struct cqload;

/* Return the load table of a device, created at its first use in this process. NULL: no memory. */
struct cqload *cqload_of(const char *device, unsigned int nvectors);

/*
 * Lock and unlock the loads, against other threads and against other processes that can be counted.
 */
void cqload_begin(struct cqload *l);
void cqload_end(struct cqload *l);

/* Return the number of CQs on the vector, of this process and of all others that can be counted. */
unsigned int cqload_get(const struct cqload *l, unsigned int vector);
/* Count one CQ more, or one fewer, of this process. */
void cqload_add(struct cqload *l, unsigned int vector);
void cqload_remove(struct cqload *l, unsigned int vector);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* load.h - how many CQs the processes of this host have on each completion vector of a device. */
#ifndef CQGROUP_LOAD_H
#define CQGROUP_LOAD_H

struct cqload;

/* That of a device in this process, made at its first use. NULL: no memory. */
struct cqload *cqload_of(const char *device, unsigned int nvectors);

/* Between begin and end, no other thread, and no other process that can be counted, reads or changes loads. */
void cqload_begin(struct cqload *l);
void cqload_end(struct cqload *l);

/* CQs on the vector: of this process, and of all others if they can be counted. */
unsigned int cqload_get(const struct cqload *l, unsigned int vector);
/* One more, or one fewer, of this process. */
void cqload_add(struct cqload *l, unsigned int vector);
void cqload_remove(struct cqload *l, unsigned int vector);

#endif

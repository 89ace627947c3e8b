/* SPDX-License-Identifier: GPL-2.0 */
/* vectors.h - how many CQs each completion vector of a device has, as far as dsm.ko knows. */
#ifndef KMOD_VECTORS_H
#define KMOD_VECTORS_H

#include "core/wire.h"
#include "cqgroup.h"

struct seq_file;

/* Of the protocol, which are those of cqgroup.h. */
extern const char *const class_names[CLASS_MAX];

/* A CQ of a vector that somebody else has chosen; cqgroup_put_vector() when it is gone. */
void vectors_count(struct ib_device *dev, int vector);
int vectors_show(struct seq_file *f, void *unused);

/* To be registered before all clients that count. */
int vectors_init(void);
void vectors_exit(void);

#endif

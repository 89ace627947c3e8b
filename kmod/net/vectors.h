/* SPDX-License-Identifier: GPL-2.0 */
/* vectors.h - the number of CQs of each completion vector of a device, as far as dsm.ko knows. */
#ifndef KMOD_VECTORS_H
#define KMOD_VECTORS_H

#include "core/wire.h"
#include "cqgroup.h"

struct seq_file;

/* Names of the protocol's classes, which are those of cqgroup.h. */
extern const char *const class_names[CLASS_MAX];

/*
 * Count a CQ whose vector the caller has chosen. The caller calls cqgroup_put_vector() after it has
 * freed the CQ.
 */
void vectors_count(struct ib_device *dev, int vector);
int vectors_show(struct seq_file *f, void *unused);

/* Call before the registration of clients that count CQs. */
int vectors_init(void);
void vectors_exit(void);

#endif

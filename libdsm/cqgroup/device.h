/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h - what the groups want to know of a device: its vectors, the CPUs beside it, whether it has interrupts. */
#ifndef CQGROUP_DEVICE_H
#define CQGROUP_DEVICE_H

#include <infiniband/verbs.h>

#include "cqgroup/set.h"

struct cqgroup_device {
	char name[64];
	unsigned int nvectors;
	int numa_node;       /* -1: none, or not known */
	int interrupts;      /* it has its own, one for a vector */
	struct cqset online; /* CPUs of the machine */
	struct cqset beside; /* CPUs beside the device; never empty */
	struct cqset cpus;   /* of them those that are allowed to the process, or all that are; never empty */
};

/* Where sysfs is: "/sys"; a test changes it. */
extern const char *cqgroup_sysfs;

/* Read root ("/sys", or where a test has recorded one) for the device. What is missing there is taken for what it is on a
 * machine of one node. allowed: CPUs that the process may use. */
void cqgroup_device_read(const char *root, const char *name, unsigned int nvectors, const struct cqset *allowed,
			 struct cqgroup_device *out);

/* The same for an open device. */
void cqgroup_device_of(struct ibv_context *ctx, struct cqgroup_device *out);

/* The CPU beside the device that belongs to a vector: of those that the process may use, for its threads; of all, for the
 * vector's interrupt. */
unsigned int cqgroup_device_cpu(const struct cqgroup_device *dev, unsigned int vector);
unsigned int cqgroup_device_irq_cpu(const struct cqgroup_device *dev, unsigned int vector);

#endif

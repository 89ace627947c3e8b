/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h - properties of a device that groups need: vectors, local CPUs, interrupts. */
#ifndef CQGROUP_DEVICE_H
#define CQGROUP_DEVICE_H

#include <infiniband/verbs.h>

#include "cqgroup.h"
#include "cqgroup/set.h"

struct cqgroup_device {
	char name[CQGROUP_DEVICE_MAX];
	unsigned int nvectors;
	int numa_node;       /* -1: none, or not known */
	int interrupts;      /* it has its own interrupts, one per vector */
	struct cqset online; /* CPUs of the machine */
	struct cqset beside; /* CPUs local to the device; never empty */
	/* those of `beside` allowed to the process, else all allowed ones; never empty */
	struct cqset cpus;
};

/* Mount point of sysfs: "/sys"; tests change it. */
extern const char *cqgroup_sysfs;

/* Read the device's properties from root ("/sys", or a recorded copy in tests). Missing files get
 * the values of a machine with one NUMA node. allowed: CPUs that the process may use. */
void cqgroup_device_read(const char *root, const char *name, unsigned int nvectors,
			 const struct cqset *allowed, struct cqgroup_device *out);

/* Names of devices with an active port, in their natural order (mlx5_2 before mlx5_10): at most
 * max; the number of all. */
unsigned int cqgroup_device_list(const char *root, char names[][CQGROUP_DEVICE_MAX],
				 unsigned int max);

/* Return whether sysfs has a device of this name. */
int cqgroup_device_exists(const char *root, const char *name);

/* The same for an open device. */
void cqgroup_device_of(struct ibv_context *ctx, struct cqgroup_device *out);

/* Return the device-local CPU of a vector: for threads, one that the process may use; for the
 * vector's interrupt, any local CPU. */
unsigned int cqgroup_device_cpu(const struct cqgroup_device *dev, unsigned int vector);
unsigned int cqgroup_device_irq_cpu(const struct cqgroup_device *dev, unsigned int vector);

#endif

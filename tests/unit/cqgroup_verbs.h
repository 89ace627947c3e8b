/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cqgroup_verbs.h - a device with eight vectors, for tests of libdsm/cqgroup.
 *
 * The verbs functions of the program take the place of libibverbs': they record the vector that a
 * CQ was asked for.
 */
#ifndef UNIT_CQGROUP_VERBS_H
#define UNIT_CQGROUP_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "cqgroup/table.h"
#include "suite.h"

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = { .device = &device, .num_comp_vectors = 8 };
static char why[CQGROUP_WHY_MAX];

struct fake_cq {
	struct ibv_cq cq;
	int vector;
};

static int create_error, destroy_error, live;

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *f;

	if (create_error) {
		errno = create_error;
		return NULL;
	}
	f = calloc(1, sizeof(*f));
	f->cq = (struct ibv_cq){
		.context = ctx, .channel = channel, .cq_context = cq_context, .cqe = cqe
	};
	f->vector = comp_vector;
	__atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
	return &f->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	if (destroy_error)
		return destroy_error;
	__atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
	free(cq);
	return 0;
}

static int asked_for(const struct ibv_cq *cq)
{
	return ((const struct fake_cq *)cq)->vector;
}

static struct cqgroup_device with_vectors(unsigned int n)
{
	struct cqgroup_device dev = {
		.name = "fake0", .nvectors = n, .numa_node = -1, .interrupts = 1
	};

	cqset_range(&dev.online, 0, 64);
	cqset_range(&dev.beside, 0, 64);
	cqset_range(&dev.cpus, 0, 64);
	return dev;
}

static struct cqgroup *group(const char *vectors)
{
	struct cqgroup *g = NULL;
	int err = cqgroup_create(&context, "test", vectors, "none", &g, why);

	ck_assert_msg(!err, "%d: %s", err, why);
	return g;
}

#endif

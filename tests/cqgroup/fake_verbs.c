// SPDX-License-Identifier: BSD-2-Clause
/*
 * fake_verbs.c - takes the place of libibverbs.so.1: two devices, FAKE_VECTORS vectors each. It
 * prints the vector of every CQ that it is asked for, after the name of the device if that is the
 * second; one of vector FAKE_REFUSE is refused. The device FAKE_DEAD cannot be opened. Every poll
 * finds three completions.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_device devices[] = { { .name = "fake0" }, { .name = "fake1" } };
static struct ibv_device *list[] = { &devices[0], &devices[1], NULL };
static struct ibv_cq *newest;

static int number(const char *variable, int otherwise)
{
	return getenv(variable) ? atoi(getenv(variable)) : otherwise;
}

static void *make(const char *what, struct ibv_context *ctx, int vector)
{
	struct ibv_cq_ex *cq;

	printf("%s%s%s %d\n", ctx->device == list[0] ? "" : ctx->device->name,
	       ctx->device == list[0] ? "" : " ", what, vector);
	fflush(stdout);
	if (vector == number("FAKE_REFUSE", -1)) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	cq->context = ctx;
	newest = ibv_cq_ex_to_cq(cq);
	return cq;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)wc;
	return n < 3 ? n : 3;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	return make("create_cq_ex", ctx, (int)attr->comp_vector);
}

struct ibv_device **ibv_get_device_list(int *n)
{
	if (n)
		*n = 2;
	return list;
}

void ibv_free_device_list(struct ibv_device **l)
{
	(void)l;
}

static struct ibv_context *open_fake(struct ibv_device *d)
{
	struct verbs_context *v;

	if (getenv("FAKE_DEAD") && !strcmp(getenv("FAKE_DEAD"), d->name))
		return NULL;
	v = calloc(1, sizeof(*v));
	v->sz = sizeof(*v);
	v->create_cq_ex = create_cq_ex;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->context.device = d;
	v->context.num_comp_vectors = number("FAKE_VECTORS", 4);
	v->context.ops.poll_cq = poll_cq;
	return &v->context;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	return open_fake(d);
}

struct ibv_context *ibv_import_device(int fd)
{
	(void)fd;
	return open_fake(&devices[0]);
}

int ibv_close_device(struct ibv_context *ctx)
{
	free(verbs_get_ctx(ctx));
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *c = calloc(1, sizeof(*c));

	c->context = ctx;
	return c;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	free(c);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = make("create_cq", ctx, vector);

	if (!cq)
		return NULL;
	cq->cqe = cqe;
	cq->cq_context = cq_context;
	cq->channel = channel;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	if (number("FAKE_BUSY", 0))
		return EBUSY;
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	(void)channel;
	*cq = newest;
	*cq_context = newest->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq, (void)n;
}

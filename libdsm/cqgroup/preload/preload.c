// SPDX-License-Identifier: BSD-2-Clause
/*
 * preload.c - functions of libibverbs, taken over to give every CQ of an unmodified program a
 * vector of its group.
 *
 * ibv_create_cq, ibv_destroy_cq and ibv_get_cq_event are called by their names, also by librdmacm.
 * ibv_create_cq_ex and ibv_poll_cq are inline functions, which call what the context points to:
 * those pointers are replaced in each context that is seen, the second only when the user wants to
 * see figures.
 *
 * If a device owns the group, ibv_open_device opens that one, whichever the program chose; not for
 * librdmacm, which has to have the device of an address.
 *
 * Two tables, of CQs and of contexts, are read without a lock, for a CQ is looked up at every poll:
 * their entries are never freed, are filled before they are published, and an entry is only used
 * again after its CQ or context was destroyed, which a program does not do while it uses it. They
 * are changed under the lock.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cqgroup/preload/place.h"

#define HERE __attribute__((visibility("default")))
#define BUCKETS 1024

typedef struct ibv_cq_ex *(*create_cq_ex_fn)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
typedef int (*poll_cq_fn)(struct ibv_cq *, int, struct ibv_wc *);

/* A context whose pointers were replaced. */
struct patched {
	struct patched *next;
	struct ibv_context *ctx;
	create_cq_ex_fn create_cq_ex;
	poll_cq_fn poll_cq;
};

/* A CQ on a vector of its group. */
struct placed {
	struct placed *next;
	struct ibv_cq *cq; /* NULL: unused */
	struct place *place;
	unsigned int vector;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct patched *contexts;
static struct placed *cqs[BUCKETS];

/*
 * The function that would have been called: the next one in the program, or in a plugin if that
 * brought libibverbs.
 */
static void *next_function(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name), *lib;

	if (f)
		return f;
	lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	f = lib ? dlsym(lib, name) : NULL;
	if (!f)
		errno = ENOSYS;
	return f;
}

/* The lookup takes microseconds: once for each function. */
#define NEXT(name)                                                               \
	({                                                                       \
		static __typeof__(&name) found;                                  \
		__typeof__(&name) f = __atomic_load_n(&found, __ATOMIC_RELAXED); \
		if (!f) {                                                        \
			f = (__typeof__(&name))next_function(#name);             \
			__atomic_store_n(&found, f, __ATOMIC_RELAXED);           \
		}                                                                \
		f;                                                               \
	})

/* ---- the table of CQs ---------------------------------------------------------------------- */

static struct placed **bucket(const struct ibv_cq *cq)
{
	return &cqs[((uintptr_t)cq >> 4) * 0x9e3779b97f4a7c15u >> 54];
}

static struct placed *placed_find(const struct ibv_cq *cq)
{
	struct placed *e = __atomic_load_n(bucket(cq), __ATOMIC_ACQUIRE);

	while (e && __atomic_load_n(&e->cq, __ATOMIC_ACQUIRE) != cq)
		e = e->next;
	return e;
}

static void placed_add(struct ibv_cq *cq, struct place *place, unsigned int vector)
{
	struct placed **head = bucket(cq), *e;

	pthread_mutex_lock(&lock);
	for (e = *head; e && e->cq && e->cq != cq;)
		e = e->next;
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (e) {
			e->next = *head;
			__atomic_store_n(head, e, __ATOMIC_RELEASE);
		}
	}
	if (e) {
		e->place = place;
		e->vector = vector;
		__atomic_store_n(&e->cq, cq, __ATOMIC_RELEASE); /* with placed_find() */
	}
	pthread_mutex_unlock(&lock);
}

/* ---- contexts ------------------------------------------------------------------------------ */

static struct patched *patched_find(const struct ibv_context *ctx)
{
	struct patched *p = __atomic_load_n(&contexts, __ATOMIC_ACQUIRE);

	while (p && __atomic_load_n(&p->ctx, __ATOMIC_ACQUIRE) != ctx)
		p = p->next;
	return p;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	const struct patched *p = patched_find(cq->context);
	int got = p->poll_cq(cq, n, wc);
	struct placed *e;

	if (got > 0) {
		e = placed_find(cq);
		if (e)
			cqgroup_count(e->place->group, e->vector, 0, (uint64_t)got);
	}
	return got;
}

static enum cqgroup_policy policy(void)
{
	const char *value = getenv("CQGROUP_POLICY");

	return value && !strcmp(value, "least") ? CQGROUP_LEAST_LOADED : CQGROUP_ROUND_ROBIN;
}

static void refused(const struct place *p, int vector)
{
	static int said;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		place_log("%s: cannot create a CQ on vector %d; using the program's own choice",
			  p->device, vector);
}

/* A CQ was made on the group's vector; or, if cq is NULL, it was not. */
static void made(struct place *p, int vector, struct ibv_cq *cq)
{
	if (vector < 0)
		return;
	if (cq)
		placed_add(cq, p, (unsigned int)vector);
	else
		cqgroup_give(p->group, (unsigned int)vector);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct patched *hooks = patched_find(ctx);
	struct place *p = place_of(ctx);
	int vector = p->group && p->steer ? cqgroup_take(p->group, policy()) : -1;
	uint32_t wanted = attr->comp_vector;
	struct ibv_cq_ex *cq;

	/* Pass the caller's struct, not a copy: it may be of a later, longer version. */
	if (vector >= 0)
		attr->comp_vector = (uint32_t)vector;
	cq = hooks->create_cq_ex(ctx, attr);
	attr->comp_vector = wanted;
	made(p, vector, cq ? ibv_cq_ex_to_cq(cq) : NULL);
	if (!cq && vector >= 0 && (uint32_t)vector != wanted) {
		cq = hooks->create_cq_ex(ctx, attr);
		if (cq)
			refused(p, vector);
	}
	return cq;
}

/* An entry of a closed context is found again by its address. */
static void patch(struct ibv_context *ctx)
{
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, create_cq_ex);
	struct patched *p;

	if (!ctx || !place_of(ctx)->group)
		return;
	pthread_mutex_lock(&lock);
	p = patched_find(ctx);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			goto unlock;
		p->next = contexts;
		__atomic_store_n(&contexts, p, __ATOMIC_RELEASE);
	}
	if (vctx && vctx->create_cq_ex != create_cq_ex)
		p->create_cq_ex = vctx->create_cq_ex;
	if (ctx->ops.poll_cq != poll_cq)
		p->poll_cq = ctx->ops.poll_cq;
	__atomic_store_n(&p->ctx, ctx, __ATOMIC_RELEASE); /* with patched_find() */
	if (vctx)
		vctx->create_cq_ex = create_cq_ex;
	if (place_verbose() && p->poll_cq)
		ctx->ops.poll_cq = poll_cq;
unlock:
	pthread_mutex_unlock(&lock);
}

/* ---- what programs call -------------------------------------------------------------------- */

/* Open the device that owns the group. NULL: it cannot be opened, which was printed. */
static struct ibv_context *open_owner(const char *owner, const char *device)
{
	__typeof__(&ibv_open_device) next = NEXT(ibv_open_device);
	__typeof__(&ibv_get_device_list) get = NEXT(ibv_get_device_list);
	__typeof__(&ibv_free_device_list) give = NEXT(ibv_free_device_list);
	struct ibv_device **list = get && give ? get(NULL) : NULL;
	static int said;
	struct ibv_context *ctx = NULL;
	int i;

	for (i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(list[i]->name, owner))
			ctx = next(list[i]);
	if (list)
		give(list); /* an open device stays */
	if (!ctx)
		place_log("%s, which owns the group, cannot be opened; using %s", owner, device);
	else if (place_talks() && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		place_log("%s instead of %s: it owns the group", owner, device);
	return ctx;
}

static int is_rdmacm(const void *address)
{
	Dl_info where;

	return dladdr(address, &where) && where.dli_fname && strstr(where.dli_fname, "librdmacm");
}

HERE struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	__typeof__(&ibv_open_device) next = NEXT(ibv_open_device);
	struct ibv_context *ctx = NULL;
	char owner[CQGROUP_DEVICE_MAX];

	if (!next)
		return NULL;
	if (place_owner(device->name, owner) && !is_rdmacm(__builtin_return_address(0)))
		ctx = open_owner(owner, device->name);
	if (!ctx)
		ctx = next(device);
	if (ctx)
		patch(ctx);
	return ctx;
}

HERE struct ibv_context *ibv_import_device(int cmd_fd)
{
	__typeof__(&ibv_import_device) next = NEXT(ibv_import_device);
	struct ibv_context *ctx = next ? next(cmd_fd) : NULL;

	if (ctx)
		patch(ctx);
	return ctx;
}

HERE struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
				  struct ibv_comp_channel *channel, int comp_vector)
{
	__typeof__(&ibv_create_cq) next = NEXT(ibv_create_cq);
	struct place *p;
	struct ibv_cq *cq;
	int vector;

	if (!next)
		return NULL;
	p = place_of(ctx);
	vector = p->group && p->steer ? cqgroup_take(p->group, policy()) : -1;
	if (vector < 0)
		return next(ctx, cqe, cq_context, channel, comp_vector);
	patch(ctx); /* the context was opened by another function */
	cq = next(ctx, cqe, cq_context, channel, vector);
	made(p, vector, cq);
	if (!cq && vector != comp_vector) {
		cq = next(ctx, cqe, cq_context, channel, comp_vector);
		if (cq)
			refused(p, vector);
	}
	return cq;
}

HERE int ibv_destroy_cq(struct ibv_cq *cq)
{
	__typeof__(&ibv_destroy_cq) next = NEXT(ibv_destroy_cq);
	struct placed *e = placed_find(cq);
	unsigned int vector;
	struct place *p;
	int err;

	if (!next)
		return ENOSYS;
	if (!e)
		return next(cq);
	/* Remove the entry first: before the call returns, another CQ may have the address. */
	pthread_mutex_lock(&lock);
	p = e->place;
	vector = e->vector;
	__atomic_store_n(&e->cq, NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	err = next(cq);
	if (err)
		placed_add(cq, p, vector);
	else
		cqgroup_give(p->group, vector);
	return err;
}

/* Threads that wait for events are placed when they first wait. */
static void bind_thread(struct ibv_context *ctx)
{
	static __thread int bound;
	const struct place *p;
	int err;

	if (bound)
		return;
	bound = 1;
	p = place_of(ctx);
	err = p->group ? cqgroup_bind_thread(p->group) : 0;
	if (err)
		place_log("%s: a thread cannot be bound to the group's CPUs: %s", p->device,
			  strerror(-err));
}

HERE int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	__typeof__(&ibv_get_cq_event) next = NEXT(ibv_get_cq_event);
	struct placed *e;
	int err;

	if (!next)
		return -1;
	bind_thread(channel->context);
	err = next(channel, cq, cq_context);
	e = err ? NULL : placed_find(*cq);
	if (e)
		cqgroup_count(e->place->group, e->vector, 1, 0);
	return err;
}

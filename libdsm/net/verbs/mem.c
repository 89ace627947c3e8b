// SPDX-License-Identifier: BSD-2-Clause
/*
 * mem.c - registered memory: areas that rings and receive buffers are cut from, buffers for
 * payloads that peers read, and frames. All of it under dev.mem.
 *
 * A child made by fork() must not share these pages copy-on-write: the parent's next store would
 * move it to another page than the one that the device writes. So children do not inherit them.
 * ibv_fork_init() does the same for every registered page, with a slow look-up each; here it takes
 * one call per area.
 */
#include "net/verbs/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "util/log.h"

#define AREA_BYTES (256u << 10)
#define HUGE_BYTES (2u << 20)
#define CACHE_MAX (32u << 20) /* single buffers kept for reuse */
#define OUTS 16               /* frames cut at a time */

void *mem_map(size_t size, bool huge)
{
	void *at = MAP_FAILED;

	if (huge && size % HUGE_BYTES == 0)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (at == MAP_FAILED)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, size, MADV_DONTFORK);
	return at;
}

static void dev_memory_explain(struct dev *d, size_t size, const char *what, int err)
{
	const unsigned long long have = atomic_load(&d->net->registered);
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (err == ENOMEM && limit.rlim_cur != RLIM_INFINITY)
		log_line(
			"RDMA: %zu KiB for %s cannot be locked in memory (%llu KiB are already): the limit is %llu KiB; raise it "
			"with `ulimit -l unlimited`, or \"* - memlock unlimited\" in /etc/security/limits.conf, or use "
			"DSM_NET=ucx",
			size >> 10, what, have >> 10, (unsigned long long)limit.rlim_cur >> 10);
	else
		log_line("RDMA: %s cannot register %zu KiB for %s (it has %llu KiB): %s", d->name,
			 size >> 10, what, have >> 10, strerror(err));
}

struct ibv_mr *mem_register(struct dev *d, void *at, size_t size, int access, const char *what)
{
	struct ibv_mr *mr = NULL;

	if (d->odp)
		mr = ibv_reg_mr(d->pd, at, size, access | IBV_ACCESS_ON_DEMAND);
	if (!mr)
		mr = ibv_reg_mr(d->pd, at, size, access);
	if (mr)
		atomic_fetch_add(&d->net->registered, size);
	else
		dev_memory_explain(d, size, what, errno);
	return mr;
}

static void unregister(struct dev *d, struct ibv_mr *mr, size_t size)
{
	ibv_dereg_mr(mr);
	atomic_fetch_sub(&d->net->registered, size);
}

/* Under dev.mem. */
static struct area *area_create(struct dev *d, int kind, size_t size)
{
	int access = IBV_ACCESS_LOCAL_WRITE | (kind == MEM_READ ? IBV_ACCESS_REMOTE_READ : 0);
	struct area *a = own_zalloc(sizeof(*a));

	if (!a)
		return NULL;
	a->size = size > AREA_BYTES ? (size + 4095) & ~(size_t)4095 : AREA_BYTES;
	if (d->net->set.huge && a->size <= HUGE_BYTES) {
		a->at = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		if (a->at != MAP_FAILED) {
			madvise(a->at, HUGE_BYTES, MADV_DONTFORK);
			a->size = HUGE_BYTES;
		} else {
			a->at = NULL;
		}
	}
	if (!a->at)
		a->at = mem_map(a->size, false);
	if (a->at)
		a->mr = mem_register(d, a->at, a->size, access, "rings and buffers");
	if (!a->mr) {
		if (a->at)
			munmap(a->at, a->size);
		own_free(a);
		return NULL;
	}
	a->next = d->areas[kind];
	d->areas[kind] = a;
	return a;
}

static void *dev_memory_cut(struct dev *d, int kind, size_t size, struct ibv_mr **mr)
{
	struct area *a = d->areas[kind];
	void *at;

	size = (size + 63) & ~(size_t)63;
	if (!a || a->size - a->used < size)
		a = area_create(d, kind, size);
	if (!a)
		return NULL;
	at = a->at + a->used;
	a->used += size;
	*mr = a->mr;
	return at;
}

void *mem_cut(struct dev *d, int kind, size_t size, struct ibv_mr **mr)
{
	void *at;

	pthread_mutex_lock(&d->mem);
	at = dev_memory_cut(d, kind, size, mr);
	pthread_mutex_unlock(&d->mem);
	return at;
}

/* ---- buffers for payloads -------------------------------------------------------------------- */

#define SINGLE_ORDER 5 /* buffers of 128 KiB and more have mappings of their own */

static size_t buf_size(unsigned int order)
{
	return (size_t)1 << (BUF_MIN_SHIFT + order);
}

static struct buf *buf_create(struct dev *d, unsigned int order)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	struct buf *b = own_zalloc(sizeof(*b));

	if (!b)
		return NULL;
	b->order = (uint8_t)order;
	b->single = order >= SINGLE_ORDER;
	if (!b->single) {
		b->at = dev_memory_cut(d, MEM_READ, buf_size(order), &b->mr);
	} else {
		b->at = mem_map(buf_size(order), d->net->set.huge);
		if (b->at)
			b->mr = mem_register(d, b->at, buf_size(order), access, "a large message");
		if (b->at && !b->mr)
			munmap(b->at, buf_size(order));
	}
	if (b->mr)
		return b;
	own_free(b);
	return NULL;
}

static void buf_destroy(struct dev *d, struct buf *b)
{
	if (b->single) {
		unregister(d, b->mr, buf_size(b->order));
		munmap(b->at, buf_size(b->order));
	}
	own_free(b);
}

struct buf *buf_get(struct dev *d, size_t size)
{
	unsigned int order = 0;
	struct buf *b;

	while (buf_size(order) < size)
		order++;
	pthread_mutex_lock(&d->mem);
	b = d->bufs[order];
	if (b) {
		d->bufs[order] = b->next;
		if (b->single)
			d->cached -= buf_size(order);
	} else {
		b = buf_create(d, order);
	}
	pthread_mutex_unlock(&d->mem);
	if (b)
		b->next = NULL;
	return b;
}

void buf_put(struct dev *d, struct buf *b)
{
	pthread_mutex_lock(&d->mem);
	if (b->single && d->cached + buf_size(b->order) > CACHE_MAX) {
		buf_destroy(d, b);
	} else {
		if (b->single)
			d->cached += buf_size(b->order);
		b->next = d->bufs[b->order];
		d->bufs[b->order] = b;
	}
	pthread_mutex_unlock(&d->mem);
}

void mem_free(struct dev *d)
{
	struct area *a;
	struct buf *b;
	int i;

	for (i = 0; i < BUF_SIZES; i++)
		while ((b = d->bufs[i])) {
			d->bufs[i] = b->next;
			buf_destroy(d, b);
		}
	for (i = 0; i < 2; i++)
		while ((a = d->areas[i])) {
			d->areas[i] = a->next;
			unregister(d, a->mr, a->size);
			munmap(a->at, a->size);
			own_free(a);
		}
}

/* ---- frames ---------------------------------------------------------------------------------- */

#define OUT_SMALL 128

static size_t out_room(const struct dev *d, bool big)
{
	/* a block, or a message with a short payload */
	return !big ? OUT_SMALL : HEAD + d->net->landing_bytes;
}

struct out *mem_frame_get(struct dev *d, size_t bytes)
{
	const bool big = bytes > OUT_SMALL;
	const size_t each = (sizeof(struct out) + out_room(d, big) + 63) & ~(size_t)63;
	struct ibv_mr *mr;
	struct out *o;
	char *raw;
	int i;

	pthread_mutex_lock(&d->mem);
	o = d->outs[big];
	if (!o) {
		raw = dev_memory_cut(d, MEM_PRIVATE, OUTS * each, &mr);
		for (i = 0; raw && i < OUTS; i++) {
			o = (struct out *)(raw + (size_t)i * each);
			o->lkey = mr->lkey;
			o->big = big;
			o->next = d->outs[big];
			d->outs[big] = o;
		}
	}
	if (o)
		d->outs[big] = o->next;
	pthread_mutex_unlock(&d->mem);
	if (o) {
		o->next = NULL;
		o->bytes = (uint32_t)bytes;
	}
	return o;
}

void mem_frame_put(struct dev *d, struct out *o)
{
	pthread_mutex_lock(&d->mem);
	o->next = d->outs[o->big];
	d->outs[o->big] = o;
	pthread_mutex_unlock(&d->mem);
}

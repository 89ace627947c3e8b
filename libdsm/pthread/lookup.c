// SPDX-License-Identifier: BSD-2-Clause
/*
 * lookup.c - from the address of an object to handles of libdsm.
 *
 * The object's address is its name. A hash table in the shared heap leads from names to handles,
 * which are made when a name is first used, at the node that uses it. Each process keeps what it
 * has looked up in a cache.
 *
 * The table is divided by the page of the object: objects of one page, which threads of one node
 * often use alone, share a part, which is a block of memory with its lists, its first names and a
 * lock of its own. So no block of the table is everybody's.
 *
 * A part is read and written under its lock, which is one of libdsm's, with all signals blocked.
 * The cache is written under `writing`, which is a leaf, and read without a lock.
 */
#include "lookup.h"

#include <string.h>

#include "masks.h"
#include "util/sizes.h"

#define PARTS 256u
#define LISTS 32u /* of a part */
#define CACHE 65536u

struct name {
	struct name *next;
	const void *object;
	uint32_t type, pad;
	struct handles h;
};

/* names in the part; more come from the heap */
#define OWN ((PAGE_BYTES - LISTS * sizeof(void *)) / sizeof(struct name))

/* One page. */
struct part {
	struct name *lists[LISTS];
	struct name own[OWN]; /* object NULL: free */
} __attribute__((aligned(PAGE_BYTES)));

/* The same in all processes, and constant. */
static struct table {
	dsm_mutex_t locks[PARTS];
	struct part *parts;
} table;

/* Written under `writing`, read without it: seq is odd meanwhile. */
static struct entry {
	uint32_t seq, type;
	const void *object;
	struct handles h;
} cache[CACHE];
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static uint64_t lookup_hash(const void *object)
{
	return ((uintptr_t)object >> 2) * 0x9e3779b97f4a7c15u >> 20;
}

static uint32_t part_of(const void *object)
{
	return lookup_hash((const void *)((uintptr_t)object / PAGE_BYTES * PAGE_BYTES)) % PARTS;
}

int lookup_start(void)
{
	unsigned int i;
	int err;

	if (shim.rank == 0) {
		table.parts = dsm_malloc_named(PAGE_BYTES, PARTS * sizeof(*table.parts),
					       "objects of threads");
		if (!table.parts)
			return -ENOMEM;
		memset(table.parts, 0, PARTS * sizeof(*table.parts));
		for (i = 0; i < PARTS; i++) {
			err = dsm_mutex_init(&table.locks[i]);
			if (err)
				return err;
		}
	}
	return dsm_broadcast(&table, sizeof(table), 0);
}

bool lookup_cached(const void *object, enum type type, struct handles *out)
{
	struct entry *e = &cache[lookup_hash(object) % CACHE];
	uint32_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE);
	bool found = e->object == object && e->type == type;

	*out = e->h;
	in_order();
	return found && !(seq & 1) && __atomic_load_n(&e->seq, __ATOMIC_RELAXED) == seq;
}

void lookup_remember(const void *object, enum type type, const struct handles *h)
{
	struct entry *e = &cache[lookup_hash(object) % CACHE];
	const uint64_t signals = block_signals();

	pthread_mutex_lock(&writing);
	__atomic_store_n(&e->seq, e->seq + 1, __ATOMIC_RELAXED);
	in_order();
	e->object = object;
	e->type = type;
	e->h = *h;
	__atomic_store_n(&e->seq, e->seq + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&writing);
	masks_let_signals(signals);
}

void lookup_lose(const void *object)
{
	static const struct handles none;

	lookup_remember(object, T_NONE, &none);
}

static int lookup_make(enum type type, uint32_t value, struct handles *h)
{
	int err = -EINVAL;

	memset(h, 0, sizeof(*h));
	switch (type) {
	case T_MUTEX: return dsm_mutex_init((dsm_mutex_t *)&h->id);
	case T_COND:
	case T_BARRIER: return dsm_cond_init((dsm_cond_t *)&h->id);
	case T_RWLOCK: return dsm_rwlock_init((dsm_rwlock_t *)&h->id);
	case T_SEM: return dsm_sem_init((dsm_sem_t *)&h->id, value);
	case T_NONE: break;
	}
	return err;
}

static int unmake(enum type type, struct handles *h)
{
	switch (type) {
	case T_MUTEX: return dsm_mutex_destroy((dsm_mutex_t *)&h->id);
	case T_COND:
	case T_BARRIER: return dsm_cond_destroy((dsm_cond_t *)&h->id);
	case T_RWLOCK: return dsm_rwlock_destroy((dsm_rwlock_t *)&h->id);
	case T_SEM: return dsm_sem_destroy((dsm_sem_t *)&h->id);
	case T_NONE: break;
	}
	return 0;
}

static struct name **lookup_place(struct part *p, const void *object)
{
	struct name **at = &p->lists[lookup_hash(object) % LISTS];

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	return at;
}

static struct name *name_new(struct part *p, const void *object)
{
	struct name *n = NULL;
	unsigned int i;

	for (i = 0; i < OWN && !n; i++)
		if (!p->own[i].object)
			n = &p->own[i];
	if (!n)
		n = dsm_calloc(1, sizeof(*n));
	if (n)
		n->object = object;
	return n;
}

static void name_free(struct part *p, struct name *n)
{
	if (n >= p->own && n < p->own + OWN)
		memset(n, 0, sizeof(*n));
	else
		dsm_free(n);
}

int lookup_rename(const void *object, enum type type, uint32_t value, enum renaming how,
		  struct handles *out)
{
	const uint32_t part = part_of(object);
	struct part *p = &table.parts[part];
	dsm_mutex_t lock = table.locks[part];
	const uint64_t signals = block_signals();
	struct name **at, *n;
	int err = dsm_mutex_lock(&lock);

	if (err)
		goto out;
	at = lookup_place(p, object);
	n = *at;
	if (!n && type) {
		n = *at = name_new(p, object);
		err = n ? 0 : -ENOMEM;
	}
	if (n && (how != LOOKUP_KEEP || n->type != type)) {
		struct handles h = n->h;
		bool stays = unmake((enum type)n->type, &h) == -EBUSY && how == LOOKUP_FREE;

		n->type = stays ? n->type : T_NONE;
		err = stays ? -EBUSY : type ? lookup_make(type, value, &h) : 0;
		if (!err) {
			n->h = h;
			n->type = type;
		}
	}
	if (n && !err)
		*out = n->h;
	if (n && !n->type) {
		*at = n->next;
		name_free(p, n);
	}
	dsm_mutex_unlock(&lock);
out:
	masks_let_signals(signals);
	return err;
}

int lookup_attr(enum type type, const int *at)
{
	if (!at)
		return PTHREAD_MUTEX_NORMAL;
	return type == T_MUTEX ? *at & 3 : *at;
}

int lookup_find(const void *object, enum type type, const int *attr, struct handles *h)
{
	int err;

	if (lookup_cached(object, type, h))
		return 0;
	err = lookup_rename(object, type, 0, LOOKUP_KEEP, h);
	if (err)
		return err;
	h->attr = lookup_attr(type, attr);
	lookup_remember(object, type, h);
	return 0;
}

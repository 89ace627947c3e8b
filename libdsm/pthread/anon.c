// SPDX-License-Identifier: BSD-2-Clause
/*
 * anon.c - mmap(MAP_SHARED | MAP_ANONYMOUS) of the program, and large private anonymous mappings: a
 * region of its own for each, at one address on all ranks.
 *
 * Each rank must attach a region. The caller has a thread on each rank do that, one rank after the
 * other.
 */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "maps.h"
#include "everywhere.h"
#include "util/sizes.h"

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *p);

/* In the heap, in a list of all maps under team->maps_lock. */
struct anon {
	struct anon *next;
	void *at;
	size_t length; /* whole pages */
	char name[DSM_NAME_MAX];
};

/* The regions that this process has attached. */
static struct attached {
	struct attached *next;
	dsm_region_t *region;
} * attached;
static pthread_mutex_t attached_lock = PTHREAD_MUTEX_INITIALIZER;

/* Readers take no lock: the range only grows, and all of it belongs to the job. */
static void anon_widen(char *low, char *high)
{
	if (!shim.maps || low < shim.maps)
		__atomic_store_n(&shim.maps, low, __ATOMIC_RELEASE);
	if (high > shim.maps_end)
		__atomic_store_n(&shim.maps_end, high, __ATOMIC_RELEASE);
}

static int anon_region_note(dsm_region_t *r)
{
	struct attached *a = __libc_malloc(sizeof(*a));
	char *base = dsm_region_base(r);

	if (!a)
		return -ENOMEM;
	a->region = r;
	pthread_mutex_lock(&attached_lock);
	a->next = attached;
	attached = a;
	anon_widen(base, base + dsm_region_size(r));
	pthread_mutex_unlock(&attached_lock);
	return 0;
}

/* NULL: this rank has not attached it. */
static dsm_region_t *anon_region_remove(const void *base)
{
	struct attached **at, *a;
	dsm_region_t *r;

	pthread_mutex_lock(&attached_lock);
	for (at = &attached; *at && dsm_region_base((*at)->region) != base; at = &(*at)->next)
		;
	a = *at;
	if (a)
		*at = a->next;
	pthread_mutex_unlock(&attached_lock);
	r = a ? a->region : NULL;
	__libc_free(a);
	return r;
}

static void *anon_attach(void *arg)
{
	struct anon m = *(struct anon *)arg;
	dsm_region_t *r;
	intptr_t err = dsm_region_attach(m.name, &r);

	if (!err) {
		err = anon_region_note(r);
		if (err)
			dsm_region_detach(r);
	}
	return (void *)err;
}

static void *anon_detach(void *arg)
{
	struct anon m = *(struct anon *)arg;
	dsm_region_t *r = anon_region_remove(m.at);

	return (void *)(intptr_t)(r ? dsm_region_detach(r) : 0);
}

static void anon_drop(struct anon *m)
{
	char name[DSM_NAME_MAX];

	strcpy(name, m->name);
	dsm_region_destroy(name);
	everywhere_run(anon_detach, m);
	anon_detach(m);
	dsm_free(m);
}

static int anon_create(size_t length, struct anon **out)
{
	struct anon *m = dsm_calloc(1, sizeof(*m));
	char name[DSM_NAME_MAX];
	dsm_region_t *r;
	int err;

	if (!m)
		return -ENOMEM;
	snprintf(name, sizeof(name), "mmap %u",
		 __atomic_fetch_add(&team->maps_made, 1, __ATOMIC_SEQ_CST));
	err = dsm_region_create(name, length, NULL, &r);
	if (err) {
		dsm_free(m);
		return err;
	}
	strcpy(m->name, name);
	m->at = dsm_region_base(r);
	m->length = length;
	err = anon_region_note(r);
	if (err) {
		dsm_region_destroy(name);
		dsm_region_detach(r);
		dsm_free(m);
		return err;
	}
	err = everywhere_run(anon_attach, m);
	if (err)
		anon_drop(m);
	else
		*out = m;
	return err;
}

struct call {
	size_t length;
	struct anon *m;
	int err;
};

static void call_create(void *arg)
{
	struct call *out = arg, c = *out;

	c.err = anon_create(c.length, &c.m);
	*out = c;
}

static void call_drop(void *arg)
{
	struct call *out = arg, c = *out;

	anon_drop(c.m);
}

/* Neither function is a cancellation point, but the calls of libdsm in them are. */
static void anon_call(void (*fn)(void *), struct call *c)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	dsm_call(fn, c);
	pthread_setcancelstate(state, &state);
}

void *anon_map(size_t length)
{
	struct call c = { .length = (length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1) };

	if (c.length < length) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	anon_call(call_create, &c);
	if (c.err) {
		errno = c.err == -ENOSPC ? ENOMEM : -c.err;
		return MAP_FAILED;
	}
	pthread_mutex_lock(&team->maps_lock);
	c.m->next = team->maps;
	team->maps = c.m;
	pthread_mutex_unlock(&team->maps_lock);
	return c.m->at;
}

int anon_unmap(void *addr, size_t length)
{
	struct anon **at;
	struct call c = { .m = NULL };

	pthread_mutex_lock(&team->maps_lock);
	for (at = &team->maps; *at && (*at)->at != addr; at = &(*at)->next)
		;
	if (*at && length <= (*at)->length && (*at)->length - length < PAGE_BYTES) {
		c.m = *at;
		*at = c.m->next;
	}
	pthread_mutex_unlock(&team->maps_lock);
	if (!c.m)
		return -EINVAL;
	anon_call(call_drop, &c);
	return 0;
}

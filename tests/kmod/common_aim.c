// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_aim.h"

#include <string.h>

#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_memory.h"

#define TO_WRITE (1ull << 63)

uint64_t aim_odd_number(uint64_t *r)
{
	switch (pick(r, 3)) {
	case 0: return 1ull << pick(r, 64);
	case 1: return (1ull << pick(r, 64)) - 1;
	default: return next(r);
	}
}

/* ---- objects and holds that are kept -------------------------------------------------------- */

static void keep(_Atomic uint64_t *kept, uint64_t what)
{
	unsigned int i;

	for (i = 0; i < AIM_HOLDS; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&kept[i], &none, what))
			return;
	}
}

/* Take an entry out of the table; 0: the table is empty. */
static uint64_t take(_Atomic uint64_t *kept, uint64_t *r)
{
	unsigned int i, at = pick(r, AIM_HOLDS);

	for (i = 0; i < AIM_HOLDS; i++) {
		uint64_t what = atomic_exchange(&kept[(at + i) % AIM_HOLDS], 0);

		if (what)
			return what;
	}
	return 0;
}

/* An object: its kind, its home, and its name (the object's index and the generation). */
static uint64_t object(unsigned int kind, unsigned int home, uint64_t name)
{
	return (uint64_t)kind << 56 | (uint64_t)home << 48 | name;
}

static unsigned int kind_of(uint64_t o)
{
	return o >> 56 & 0x7f;
}

static void address(struct dsm_ioc_call *c, uint64_t o)
{
	c->home = o >> 48 & 0xff;
	c->gen = o >> 32 & 0xffff;
	c->object = (uint32_t)o;
}

/* Some object of that kind, or of any kind (SYNC_NONE). 0: there is none. */
static uint64_t any_object(struct aim *w, uint64_t *r, unsigned int kind)
{
	unsigned int i, at = pick(r, AIM_OBJECTS);

	for (i = 0; i < AIM_OBJECTS; i++) {
		uint64_t o = atomic_load(&w->objects[(at + i) % AIM_OBJECTS]);

		if (o && (!kind || kind_of(o) == kind))
			return o;
	}
	return 0;
}

static bool aim_object(struct aim *w, uint64_t *r, unsigned int kind, struct dsm_ioc_call *c)
{
	uint64_t o = any_object(w, r, kind);

	if (o)
		address(c, o);
	return o;
}

static void forget_object(struct aim *w, const struct dsm_ioc_call *c)
{
	unsigned int i;

	for (i = 0; i < AIM_OBJECTS; i++) {
		uint64_t o = atomic_load(&w->objects[i]);
		struct dsm_ioc_call named = { .home = 0 };

		address(&named, o);
		if (o && named.home == c->home && named.gen == c->gen && named.object == c->object)
			atomic_compare_exchange_strong(&w->objects[i], &o, 0);
	}
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* A kind of object and an operation for it; entries repeated here are chosen more often. */
static const struct {
	uint8_t kind, op;
} ops[] = {
	{ SYNC_RWLOCK, SOP_TRYRDLOCK }, { SYNC_RWLOCK, SOP_TRYRDLOCK },
	{ SYNC_RWLOCK, SOP_TRYWRLOCK }, { SYNC_SEM, SOP_TRYWAIT },
	{ SYNC_SEM, SOP_POST },         { SYNC_COND, SOP_SIGNAL },
	{ SYNC_COND, SOP_BROADCAST },   { SYNC_ATOMIC, SOP_LOAD },
	{ SYNC_ATOMIC, SOP_STORE },     { SYNC_ATOMIC, SOP_ADD },
	{ SYNC_ATOMIC, SOP_EXCHANGE },  { SYNC_NONE, SOP_TRYWAIT },
};

static void aim_sync(struct aim *w, uint64_t *r, struct dsm_ioc_call *c)
{
	const unsigned int i = pick(r, sizeof(ops) / sizeof(ops[0]));
	uint64_t held = pick(r, 3) ? 0 : take(w->rwlocks, r);

	c->value = pick(r, 3);
	c->op = ops[i].op;
	if (!pick(r, w->calm)) { /* without the lock, its home takes this rank for a liar */
		c->op = pick(r, 2) ? SOP_RDUNLOCK : SOP_WRUNLOCK;
		aim_object(w, r, SYNC_RWLOCK, c);
	} else if (held) {
		c->op = held & TO_WRITE ? SOP_WRUNLOCK : SOP_RDUNLOCK;
		address(c, held);
	} else if (!pick(r, 40)) {
		c->op = SOP_DESTROY;
		aim_object(w, r, SYNC_NONE, c);
	} else if (!aim_object(w, r, ops[i].kind, c)) {
		c->op = SOP_LOAD;
	}
}

static void aim_call(struct aim *w, uint64_t *r, unsigned int variant, struct dsm_ioc_call *c)
{
	uint64_t hold;

	switch (variant) {
	case VARIANT_CALL_SYNC: aim_sync(w, r, c); break;
	case VARIANT_CALL_CAS:
		aim_object(w, r, SYNC_ATOMIC, c);
		c->value = pick(r, 3);
		c->value2 = pick(r, 3);
		break;
	case VARIANT_CALL_CREATE: break;
	case VARIANT_CREATE_SEM:
	case VARIANT_CREATE_ATOMIC: c->value = pick(r, 3); break;
	case VARIANT_CALL_WAIT:
		aim_object(w, r,
			   c->op == SOP_WAIT              ? SYNC_SEM
				   : c->op == SOP_ENQUEUE ? SYNC_COND
							  : SYNC_RWLOCK,
			   c);
		c->ns = pick(r, 64) ? 1 + pick(r, 1000000) : 0;
		c->value = 0;
		c->mutex = c->op == SOP_ENQUEUE ? take(w->holds, r) : 0;
		break;
	case VARIANT_CALL_LOCK:
		aim_object(w, r, SYNC_MUTEX, c);
		c->ns = pick(r, 64) ? 1 + pick(r, 1000000) : 0;
		break;
	case VARIANT_CALL_TRYLOCK: aim_object(w, r, SYNC_MUTEX, c); break;
	case VARIANT_CALL_UNLOCK:
		hold = take(w->holds, r);
		c->hold = (uint16_t)(hold ? hold - 1 : c->hold);
		break;
	/* all calls of a thread use one address */
	case VARIANT_CALL_CANCEL: c->value = (uintptr_t)c; break;
	default:
		c->object = variant == VARIANT_CALL_BARRIER ? 1 + pick(r, 3) : 0;
		c->value = next(r);
		c->value2 = pick(r, 2) ? 0 : (1ull << w->job->ranks) - 1;
		c->threads = pick(r, 4) ? pick(r, 2) : pick(r, 8) ? 0 : c->threads;
	}
}

static void aim_range(struct aim *w, uint64_t *r, struct dsm_ioc_range *g)
{
	const unsigned int order = w->job->order, pages = JOB_PAGES - AIM_FREE_PAGES;
	uint64_t pinned;

	g->page = pick(r, pick(r, 2) ? 64 : pages) >> order << order;
	g->pages = (1 + pick(r, pick(r, 16) ? 2 : 16)) << order;
	if (g->page + g->pages > pages)
		g->page = 0;
	g->pages = g->pages > pages ? pages : g->pages;
	if (!pick(r, 32)) { /* perhaps in a region that a call has added */
		g->page = pages + (pick(r, AIM_FREE_PAGES) & -16u);
		g->pages = 16;
	}
	if (g->op != DSM_RANGE_UNPIN)
		return;
	pinned = take(w->pins, r);
	if (!pinned) {
		g->op = DSM_RANGE_ACQUIRE;
		return;
	}
	g->page = (uint32_t)(pinned >> 32);
	g->pages = (uint32_t)pinned >> 1;
	g->write = pinned & 1;
}

/* Regions of the window's last unit. All ranks derive the same region from an identifier. */
static void aim_region(struct aim *w, uint64_t *r, struct dsm_ioc_region *g)
{
	g->id = (uint16_t)(1 + pick(r, 6));
	g->page = JOB_PAGES - AIM_FREE_PAGES;
	g->pages = AIM_FREE_PAGES >> g->id % 2;
	g->order = g->id % 5;
	g->priority = g->id % DSM_REGION_PRIORITIES;
	if (g->home == DSM_REGION_CYCLIC)
		g->arg = g->id % 3 << g->order;
	if (g->home == DSM_REGION_FIXED)
		g->arg = g->id % w->job->ranks;
	if (g->home == DSM_REGION_PARTS) {
		static __thread struct dsm_owner owners[4];
		unsigned int i;

		for (i = 0; i < 4; i++)
			owners[i].rank = (uint16_t)((g->id + i) % w->job->ranks);
		if (!pick(r, 8)) /* no rank has that number: the call must be refused */
			owners[pick(r, 4)].rank = (uint16_t)(w->job->ranks + pick(r, 4));
		g->arg = 64u * g->id;
		g->parts = g->id % 5;
		g->owners = (uintptr_t)owners;
	}
}

static void aim_protect(uint64_t *r, struct dsm_ioc_protect *p)
{
	struct dsm_prot_item *items = (void *)memory_scratch;
	unsigned int i;

	p->items = (uintptr_t)items;
	p->count = pick(r, pick(r, 16) ? 5 : 64);
	for (i = 0; i < p->count; i++)
		items[i] = (struct dsm_prot_item){ pick(r, 1024), pick(r, 3) };
}

static void aim_join(struct aim *w, uint64_t *r, struct dsm_ioc_join *j)
{
	j->size = (uint16_t)(pick(r, 4) ? w->job->ranks : 1 + pick(r, 8));
	j->rank %= j->size;
	j->spin_us = 10;
	j->hold_us = 0;
	j->gid = -1;
	memset(j->vectors, -1, sizeof(j->vectors));
	memset(j->cpus, -1, sizeof(j->cpus));
	j->address = (uintptr_t)memory_scratch;
	if (pick(r, 6))
		strcpy(j->device, "none");
}

static struct dsm_address_qp *some_qp(const struct job *j, uint64_t *r, char *address)
{
	return (struct dsm_address_qp *)(void *)(address + sizeof(struct dsm_address)) +
		pick(r, j->ranks * CLASS_MAX);
}

void aim_connect(const struct job *j, uint64_t *r, unsigned int peer, struct dsm_ioc_connect *c)
{
	static __thread char address[DSM_ADDRESS_MAX] __attribute__((aligned(8)));
	const struct args_limits limits = { .ranks = (uint16_t)j->ranks, .peer = (uint16_t)peer };

	memcpy(address, j->address[peer], sizeof(address));
	switch (pick(r, 8)) {
	case 0:
	case 1:
	case 2: aim_aside(r, &dsm_variants[VARIANT_ADDRESS_ROCE], &limits, address); break;
	case 3:
		aim_aside(r, &dsm_variants[VARIANT_ADDRESS_QP], &limits,
			  (char *)some_qp(j, r, address));
		break;
	case 4:
		aim_aside(r, &dsm_variants[VARIANT_OTHER_QP], &limits,
			  (char *)some_qp(j, r, address));
		break;
	default: break;
	}
	c->rank = (uint16_t)peer;
	c->address = (uintptr_t)address;
	c->address_size = j->address_size[peer];
}

void aim_at(struct aim *w, uint64_t *r, unsigned int variant, void *arg)
{
	switch (variant) {
	case VARIANT_WINDOW:
		((struct dsm_ioc_window *)arg)->size = (uint64_t)(1 + pick(r, 8)) << 21;
		break;
	case VARIANT_PROTECT: aim_protect(r, arg); break;
	case VARIANT_JOIN: aim_join(w, r, arg); break;
	case VARIANT_KEY: *(struct dsm_ioc_key *)arg = *w->keys[pick(r, 2)]; break;
	case VARIANT_CONNECT: aim_connect(w->job, r, pick(r, w->job->ranks), arg); break;
	case VARIANT_REGION_FIRST:
	case VARIANT_REGION_CYCLIC:
	case VARIANT_REGION_FIXED:
	case VARIANT_REGION_PARTS: aim_region(w, r, arg); break;
	case VARIANT_CALL_SYNC:
	case VARIANT_CALL_CAS:
	case VARIANT_CALL_CREATE:
	case VARIANT_CREATE_SEM:
	case VARIANT_CREATE_ATOMIC:
	case VARIANT_CALL_WAIT:
	case VARIANT_CALL_LOCK:
	case VARIANT_CALL_TRYLOCK:
	case VARIANT_CALL_UNLOCK:
	case VARIANT_BARRIER_0:
	case VARIANT_CALL_BARRIER:
	case VARIANT_CALL_CANCEL: aim_call(w, r, variant, arg); break;
	case VARIANT_RANGE_ACCESS:
	case VARIANT_RANGE_PIN:
	case VARIANT_RANGE_GIVE:
	case VARIANT_RANGE_PLACE: aim_range(w, r, arg); break;
	case VARIANT_HOT: ((struct dsm_ioc_hot *)arg)->transfers = (uintptr_t)memory_scratch; break;
	default: break;
	}
}

bool aim_waits(unsigned int variant, const void *arg)
{
	const struct dsm_ioc_call *c = arg;

	switch (variant) {
	case VARIANT_CALL_WAIT:
	case VARIANT_CALL_LOCK: return true;
	case VARIANT_BARRIER_0:
	case VARIANT_CALL_BARRIER: return c->threads;
	default: return false;
	}
}

void aim_tame(unsigned int variant, char *arg)
{
	struct dsm_ioc_window *w = (void *)arg;
	struct dsm_ioc_join *j = (void *)arg;

	if (variant == VARIANT_WINDOW && w->size > 1ull << 36 && w->size <= DSM_WINDOW_MAX)
		w->size >>= 9;
	if (variant == VARIANT_JOIN && j->size > 8 && j->size <= DSM_RANKS_MAX)
		j->size = 8;
}

void aim_aside(uint64_t *r, const struct dsm_variant *v, const struct args_limits *l, char *arg)
{
	const struct dsm_rule *rule = &v->rules[pick(r, v->n)];
	uint64_t value[ARGS_EDGES];
	bool bad[ARGS_EDGES];
	unsigned int n = args_edges(rule, l, arg, value, bad);

	if (rule->kind == ARG_NONZERO && pick(r, 2))
		memset(arg + rule->at, 0, rule->size);
	else if (rule->kind == ARG_TEXT)
		memory_scratch[0] = arg[rule->at + pick(r, rule->size)] = (char)next(r);
	else if (n && pick(r, 4))
		args_put(rule, arg, value[pick(r, n)]);
	else if (pick(r, 3))
		args_put(rule, arg,
			 rule->size == 8 && pick(r, 2) ? memory_address(r) : aim_odd_number(r));
	else
		args_put(rule, arg, args_get(rule, arg) + (uint64_t)(int64_t)((int)pick(r, 5) - 2));
}

/* The mode in which a call locks a reader-writer lock: 0 to read, 1 to write; -1: another call. */
static int locks_to(const struct dsm_ioc_call *c)
{
	switch (c->op) {
	case SOP_RDLOCK:
	case SOP_TRYRDLOCK: return 0;
	case SOP_WRLOCK:
	case SOP_TRYWRLOCK: return 1;
	default: return -1;
	}
}

void aim_learn(struct aim *w, unsigned int variant, const void *arg, uint64_t *r)
{
	const struct dsm_ioc_call *c = arg;
	const struct dsm_ioc_range *g = arg;
	const uint64_t named = object(SYNC_RWLOCK, c->home, (uint64_t)c->gen << 32 | c->object);

	if (variant == VARIANT_RANGE_PIN)
		keep(w->pins, (uint64_t)g->page << 32 | g->pages << 1 | (g->write & DSM_PIN_WRITE));
	if (dsm_variants[variant].cmd != DSM_IOC_CALL || c->status)
		return;
	if (variant == VARIANT_CALL_CREATE || variant == VARIANT_CREATE_SEM ||
	    variant == VARIANT_CREATE_ATOMIC)
		atomic_store(&w->objects[pick(r, AIM_OBJECTS)],
			     object(c->value2 >> 32, c->home, c->result));
	else if (locks_to(c) >= 0 && (variant == VARIANT_CALL_SYNC || variant == VARIANT_CALL_WAIT))
		keep(w->rwlocks, named | (locks_to(c) ? TO_WRITE : 0));
	else if (variant == VARIANT_CALL_SYNC && c->op == SOP_DESTROY && pick(r, 2))
		/* else the name stays in use */
		forget_object(w, c);
	else if (variant == VARIANT_CALL_LOCK || variant == VARIANT_CALL_TRYLOCK)
		keep(w->holds, c->hold + 1u);
}

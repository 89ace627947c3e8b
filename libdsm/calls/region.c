// SPDX-License-Identifier: BSD-2-Clause
/*
 * region.c - the registry of regions, in the control segment of rank 0's node and served by the
 * ranks of that node.
 *
 * A record lives until its name is deleted and its last rank has detached. Then all ranks forget
 * the range, and only after that is the record freed, so that an address is never used again with
 * old state.
 */
#include "calls/region.h"

#include <string.h>

#include "calls/call.h"
#include "job/host_ops.h"
#include "job/job.h"
#include "job/pool.h"
#include "job/va_alloc.h"
#include "miss/block.h"
#include "miss/release_end.h"
#include "miss/work.h"
#include "util/futex.h"
#include "util/sys.h"

uint32_t region_hash(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;

	while (*name)
		h = (h ^ (uint8_t)*name++) * 0x100000001b3ull;
	return (uint32_t)(h ^ h >> 32) % CTL_NAMES;
}

static struct region_record *by_name(struct registry *g, const char *name)
{
	uint32_t id;

	for (id = g->names[region_hash(name)]; id; id = g->regions[id - 1].next)
		if (!strcmp(g->regions[id - 1].name, name))
			return &g->regions[id - 1];
	return NULL;
}

static void name(struct registry *g, struct region_record *r)
{
	uint32_t *first = &g->names[region_hash(r->name)];

	r->next = *first;
	*first = r->id + 1u;
	r->named = 1;
}

static void unname(struct registry *g, struct region_record *r)
{
	uint32_t *at = &g->names[region_hash(r->name)];

	while (*at != r->id + 1u)
		at = &g->regions[*at - 1].next;
	*at = r->next;
	r->named = 0;
}

static struct va_alloc_unit *units(void)
{
	return job.mem.va_units;
}

static struct region_record *by_id(struct registry *g, uint32_t id, uint32_t gen)
{
	struct region_record *r = id < CTL_REGIONS ? &g->regions[id] : NULL;

	return r && r->used && r->gen == gen ? r : NULL;
}

static bool registry_alike(const struct region_record *a, const struct region_want *b)
{
	return a->size == b->size && a->block_size == b->block_size &&
		a->home_policy == b->home_policy && a->home_rank == b->home_rank &&
		a->contents == b->contents && a->priority == b->priority &&
		a->consistency == b->consistency;
}

/* Ranks of a node that are attached. */
static uint16_t *members(const struct region_record *r, uint16_t node)
{
	return &job.mem.members[(size_t)r->id * job.nodes + node];
}

/* -EEXIST: taken, alike. -EINVAL: taken, with other options. */
static int create(struct registry *g, uint16_t from, const struct region_want *want,
		  struct region_record **out)
{
	const uint64_t bytes = (want->size + UNIT_BYTES - 1) & ~(UNIT_BYTES - 1);
	struct region_record *r = by_name(g, want->name);
	int64_t id, unit;

	if (r)
		return registry_alike(r, want) ? -EEXIST : -EINVAL;
	id = pool_take(&g->ids, g->next_id, job.host->regions);
	if (id < 0)
		return -ENOSPC;
	unit = va_alloc_take(&g->va, units(), (uint32_t)(bytes / UNIT_BYTES));
	if (unit < 0) {
		pool_give(&g->ids, g->next_id, (uint32_t)id);
		return (int)unit;
	}
	r = &g->regions[id];
	*r = (struct region_record){ .contents = want->contents,
				     .size = want->size,
				     .off = (uint64_t)unit * UNIT_BYTES,
				     .bytes = bytes,
				     .block_size = want->block_size,
				     .home_policy = want->home_policy,
				     .home_rank = want->home_rank,
				     .creator = want->creator,
				     .priority = (uint8_t)want->priority,
				     .consistency = want->consistency,
				     .id = (uint16_t)id,
				     .used = 1,
				     .ready = !want->contents,
				     .attached = 1,
				     .gen = r->gen + 1 };
	memcpy(r->name, want->name, sizeof(r->name));
	*members(r, from) = 1;
	name(g, r);
	*out = r;
	return 0;
}

/*
 * If no rank is attached and none can attach any more, one node removes the region: the one that
 * asked last.
 */
static void bury(struct region_record *r, uint16_t from)
{
	if (!r->attached && !r->named)
		r->buries = (uint16_t)(from + 1);
}

static bool is_buried_by(const struct region_record *r, uint16_t from)
{
	return r->used && r->buries == from + 1;
}

static int registry_attach(struct region_record *r, uint16_t from)
{
	if (!r->ready)
		return -EINPROGRESS;
	if (*members(r, from) >= job.width[from])
		return -EBADMSG;
	(*members(r, from))++;
	r->attached++;
	return 0;
}

static int registry_detach(struct region_record *r, uint16_t from)
{
	if (!*members(r, from))
		return -EBADMSG;
	(*members(r, from))--;
	r->attached--;
	bury(r, from);
	return 0;
}

/*
 * If contents are missing, no other rank can have attached; ranks that wait for the contents find
 * no such name.
 */
static int withdraw(struct registry *g, struct region_record *r, uint16_t from)
{
	int err = node_of(r->creator) == from ? registry_detach(r, from) : -EBADMSG;

	if (!err && !r->attached && r->named) {
		unname(g, r);
		bury(r, from);
	}
	return err;
}

static int serve_named(struct registry *g, uint16_t from, enum call_op op, struct region_record *r)
{
	if (op == CALL_QUERY)
		return 0;
	if (op == CALL_ATTACH)
		return registry_attach(r, from);
	if (r->off < job.heap)
		return -EINVAL; /* the heap cannot be removed */
	unname(g, r);
	bury(r, from);
	return 0;
}

static int serve_held(struct registry *g, uint16_t from, enum call_op op, struct region_record *r)
{
	if (op == CALL_DETACH)
		return registry_detach(r, from);
	if (op == CALL_WITHDRAW)
		return withdraw(g, r, from);
	if (op == CALL_PUBLISH) {
		if (r->ready || node_of(r->creator) != from)
			return -EBADMSG;
		r->ready = 1;
		return 0;
	}
	if (!is_buried_by(r, from))
		return -EBADMSG;
	r->used = 0;
	r->buries = 0;
	va_alloc_give(&g->va, units(), (uint32_t)(r->off / UNIT_BYTES),
		      (uint32_t)(r->bytes / UNIT_BYTES));
	pool_give(&g->ids, g->next_id, r->id);
	return 0;
}

/* Does the call name the region, instead of giving its id? */
static bool has_name(enum call_op op)
{
	return op == CALL_ATTACH || op == CALL_QUERY || op == CALL_DESTROY;
}

static int registry_perform(struct registry *g, uint16_t from, enum call_op op, const void *in,
			    struct region_record **out)
{
	struct region_want want;
	struct region_id at;

	if (op == CALL_CREATE) {
		memcpy(&want, in, sizeof(want));
		return create(g, from, &want, out);
	}
	if (has_name(op)) {
		*out = by_name(g, in);
		return *out ? serve_named(g, from, op, *out) : -ENOENT;
	}
	memcpy(&at, in, sizeof(at));
	*out = by_id(g, at.id, at.gen);
	return *out ? serve_held(g, from, op, *out) : -ENOENT;
}

int region_serve(uint16_t from, enum call_op op, const void *in, struct region_record *out)
{
	struct registry *g = &job.me->registry;
	struct region_record *got = NULL;
	int err;

	word_lock(&g->lock);
	err = registry_perform(g, from, op, in, &got);
	if (!err)
		*out = *got;
	word_unlock(&g->lock);
	return err;
}

int region_call(enum call_op op, const struct region_record *about, struct region_record *out)
{
	struct region_want want = { .contents = about->contents,
				    .size = about->size,
				    .block_size = about->block_size,
				    .home_policy = about->home_policy,
				    .home_rank = about->home_rank,
				    .creator = about->creator,
				    .priority = about->priority,
				    .consistency = about->consistency };
	const struct region_id at = { .id = about->id, .gen = about->gen };

	if (op == CALL_CREATE) {
		memcpy(want.name, about->name, sizeof(want.name));
		return call_rank(0, op, &want, sizeof(want), out, sizeof(*out));
	}
	return has_name(op) ? call_rank(0, op, about->name, sizeof(about->name), out, sizeof(*out))
			    : call_rank(0, op, &at, sizeof(at), out, sizeof(*out));
}

static void add_part(struct registry *g, const char *named, uint64_t off, uint64_t bytes,
		     uint16_t consistency)
{
	const uint32_t id = g->ids.fresh++;
	struct region_record *r = &g->regions[id];

	strcpy(r->name, named);
	r->off = off;
	r->size = r->bytes = bytes;
	r->block_size = PAGE_BYTES;
	r->home_policy = DSM_HOME_FIRST_TOUCH;
	r->consistency = consistency;
	r->id = (uint16_t)id;
	r->attached = job.size;
	r->used = r->ready = 1;
	memcpy(members(r, 0), job.width, job.nodes * sizeof(*job.width));
	if (bytes)
		name(g, r);
}

void region_add_heap(struct registry *g, uint64_t bytes, uint64_t upper)
{
	g->ids.fresh = 0;
	add_part(g, HEAP_NAME, 0, bytes - upper, DSM_CONSISTENCY_SEQUENTIAL);
	if (upper)
		add_part(g, HEAP_RELEASE_NAME, bytes - upper, upper, DSM_CONSISTENCY_RELEASE);
	va_alloc_start(&g->va, units(), (uint32_t)(bytes / UNIT_BYTES),
		       (uint32_t)(job.set.space / UNIT_BYTES));
}

/* Is a rank of this node attached to any part of it? */
static bool any_mapped(const struct region_place *at)
{
	uint64_t unit;

	for (unit = at->off / UNIT_BYTES; unit < (at->off + at->bytes) / UNIT_BYTES; unit++)
		if (__atomic_load_n(&job.mem.mapped[unit], __ATOMIC_ACQUIRE))
			return true;
	return false;
}

/* Runs on the first node. */
static bool may_bury(const struct region_place *at, uint16_t from)
{
	struct registry *g = &job.me->registry;
	const struct region_record *r;
	bool may;

	word_lock(&g->lock);
	r = by_id(g, at->id, at->gen);
	may = r && is_buried_by(r, from) && r->off == at->off && r->bytes == at->bytes;
	word_unlock(&g->lock);
	return may;
}

static void registry_enter(uint64_t off, uint64_t bytes, uint16_t entry)
{
	uint64_t unit;

	for (unit = off / UNIT_BYTES; unit < (off + bytes) / UNIT_BYTES; unit++)
		__atomic_store_n(&job.mem.regions[unit], entry, __ATOMIC_RELEASE);
}

/*
 * Until the range is purged, every rank that attaches would write the same value; others read it
 * without a lock.
 */
void region_enter(const struct dsm_region *r)
{
	const uint16_t entry = (uint16_t)(r->id + 1);

	if (__atomic_load_n(&job.mem.regions[r->off / UNIT_BYTES], __ATOMIC_ACQUIRE) == entry)
		return;
	job.me->homes[r->id] = region_homes(r);
	registry_enter(r->off, r->bytes, entry);
	release_enter(r);
}

int region_leave(uint16_t from, enum call_op op, const void *in)
{
	struct region_place at;

	memcpy(&at, in, sizeof(at));
	if (any_mapped(&at) || (job.node == node_of(0) && !may_bury(&at, from)))
		return -EBADMSG;
	if (op == CALL_QUIET)
		return job.host->quiet(at.off, at.bytes);
	region_set_priority(at.off, at.bytes, DSM_PRIORITY_NORMAL);
	registry_enter(at.off, at.bytes, 0);
	return job.host->purge(at.off, at.bytes);
}

int region_may_purge(const void *in)
{
	struct region_burial b;

	memcpy(&b, in, sizeof(b));
	return may_bury(&b.at, b.node) ? 0 : -EPERM;
}

/* Messages sent meanwhile may have either priority. */
void region_set_priority(uint64_t off, uint64_t bytes, uint8_t priority)
{
	uint64_t unit;

	for (unit = off / UNIT_BYTES; unit < (off + bytes) / UNIT_BYTES; unit++)
		if (__atomic_load_n(&job.mem.priorities[unit], __ATOMIC_RELAXED) != priority)
			__atomic_store_n(&job.mem.priorities[unit], priority, __ATOMIC_RELAXED);
}

unsigned int region_priority(void *arg, const struct msg *m)
{
	(void)arg;
	return __atomic_load_n(&job.mem.priorities[block_off(m->object) / UNIT_BYTES],
			       __ATOMIC_RELAXED);
}

static int call_all(enum call_op op, const struct region_record *r)
{
	const struct region_place at = {
		.off = r->off, .bytes = r->bytes, .id = r->id, .gen = r->gen
	};
	uint16_t i;
	int err = 0;

	for (i = 0; i < job.nodes && !err; i++)
		while ((err = call_rank(job.first[i], op, &at, sizeof(at), NULL, 0)) == -EAGAIN) {
			work_timers(true);
			job_await_loss();
			sys_sleep_us(50);
		}
	return err;
}

/*
 * Ranks that left may still be named in messages: the newest copy may be on its way to the home, or
 * MSG_DONE is. No rank starts anything new. So once each node has been found without a request,
 * only messages that end one are in flight; when each is quiet after that, nothing is.
 */
int region_bury(const struct region_record *r)
{
	struct region_record out;
	int err;

	if (r->attached || r->named)
		return 0;
	err = call_all(CALL_QUIET, r);
	if (!err)
		err = call_all(CALL_QUIET, r);
	if (!err)
		err = call_all(CALL_PURGE, r);
	return err ? err : region_call(CALL_VACATE, r, &out);
}

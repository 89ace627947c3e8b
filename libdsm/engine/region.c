// SPDX-License-Identifier: BSD-2-Clause
/*
 * region.c - the registry of regions, kept in the control segment of rank 0's node and served by the ranks of that node.
 *
 * A record lives until its name is taken away and its last rank has detached; then all ranks forget the range, and only
 * then is the record freed, so that an address is never used again with old state behind it.
 */
#include "engine/region.h"

#include <string.h>
#include <unistd.h>

#include "engine/call.h"
#include "engine/host.h"
#include "engine/job.h"
#include "engine/lost.h"
#include "engine/pool.h"
#include "engine/room.h"
#include "engine/work.h"
#include "util/futex.h"

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

static struct room_unit *units(void)
{
	return job.mem.room;
}

static struct region_record *by_id(struct registry *g, const struct region_record *in)
{
	struct region_record *r = in->id < CTL_REGIONS ? &g->regions[in->id] : NULL;

	return r && r->used && r->gen == in->gen ? r : NULL;
}

static bool alike(const struct region_record *a, const struct region_record *b)
{
	return a->size == b->size && a->block_size == b->block_size && a->home_policy == b->home_policy &&
		a->home_rank == b->home_rank && a->contents == b->contents;
}

/* -EEXIST: taken, alike. -EINVAL: taken, with other options. */
static int create(struct registry *g, const struct region_record *want, struct region_record **out)
{
	struct region_record *r = by_name(g, want->name);
	int64_t id, unit;
	uint32_t gen;

	if (r)
		return alike(r, want) ? -EEXIST : -EINVAL;
	id = pool_take(&g->ids, g->next_id, job.host->regions);
	if (id < 0)
		return -ENOSPC;
	unit = room_take(&g->room, units(), (uint32_t)(want->bytes / REGION_UNIT));
	if (unit < 0) {
		pool_give(&g->ids, g->next_id, (uint32_t)id);
		return (int)unit;
	}
	r = &g->regions[id];
	gen = r->gen + 1;
	*r = *want;
	r->off = (uint64_t)unit * REGION_UNIT;
	r->gen = gen;
	r->id = (uint16_t)id;
	r->attached = 1;
	r->used = 1;
	r->ready = !want->contents;
	name(g, r);
	*out = r;
	return 0;
}

static int serve(struct registry *g, enum call_op op, const struct region_record *in, struct region_record **out)
{
	struct region_record *r =
		op == CALL_ATTACH || op == CALL_QUERY || op == CALL_DESTROY ? by_name(g, in->name) : by_id(g, in);

	if (op == CALL_CREATE)
		return create(g, in, out);
	if (!r)
		return -ENOENT;
	*out = r;
	switch (op) {
	case CALL_PUBLISH: r->ready = 1; return 0;
	case CALL_ATTACH:
		if (!r->ready)
			return -EINPROGRESS;
		r->attached++;
		return 0;
	case CALL_QUERY: return 0;
	case CALL_DETACH:
		if (!r->attached)
			return -EINVAL;
		r->attached--;
		return 0;
	case CALL_DESTROY:
		if (!r->id)
			return -EINVAL; /* the heap stays */
		unname(g, r);
		return 0;
	case CALL_VACATE:
		if (!r->used || r->attached || r->named)
			return -EBUSY;
		r->used = 0;
		room_give(&g->room, units(), (uint32_t)(r->off / REGION_UNIT), (uint32_t)(r->bytes / REGION_UNIT));
		pool_give(&g->ids, g->next_id, r->id);
		return 0;
	default: return -EINVAL;
	}
}

int region_serve(struct registry *g, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size)
{
	struct region_record want, *got = NULL;
	int err;

	if (in_size != sizeof(want) || *out_size < sizeof(want))
		return -EINVAL;
	memcpy(&want, in, sizeof(want));
	want.name[DSM_NAME_MAX - 1] = 0;
	word_lock(&g->lock);
	err = serve(g, op, &want, &got);
	if (!err)
		memcpy(out, got, sizeof(*got));
	word_unlock(&g->lock);
	*out_size = err ? 0 : sizeof(want);
	return err;
}

void region_add_heap(struct registry *g, uint64_t bytes)
{
	struct region_record *r = &g->regions[0];

	strcpy(r->name, "(heap)");
	r->size = r->bytes = bytes;
	r->block_size = PAGE_BYTES;
	r->home_policy = DSM_HOME_FIRST_TOUCH;
	r->attached = job.size;
	r->used = r->ready = 1;
	name(g, r);
	g->ids.fresh = 1;
	room_start(&g->room, units(), (uint32_t)(bytes / REGION_UNIT), (uint32_t)(job.set.space / REGION_UNIT));
}

static bool range_ok(uint64_t off, uint64_t bytes)
{
	return off % REGION_UNIT == 0 && bytes % REGION_UNIT == 0 && off + bytes <= job.set.space && off + bytes >= off;
}

int region_quiet(uint64_t off, uint64_t bytes)
{
	return range_ok(off, bytes) ? job.host->quiet(off, bytes) : -EINVAL;
}

int region_purge(uint64_t off, uint64_t bytes)
{
	return range_ok(off, bytes) ? job.host->purge(off, bytes) : -EINVAL;
}

static int call_all(enum call_op op, const struct region_record *r)
{
	uint64_t range[2] = { r->off, r->bytes };
	uint16_t i;
	int err = 0;

	for (i = 0; i < job.nodes && !err; i++)
		while ((err = call_rank(job.first[i], op, range, sizeof(range), NULL, 0)) == -EAGAIN) {
			work_timers(true);
			lost_check();
			usleep(50);
		}
	return err;
}

/*
 * Those who left may still be named in messages: the home is being handed the newest copy, or MSG_DONE is on its way to it.
 * Nobody starts anything new. So when each node has been found without a request once, only what ends one is under way, and
 * when each is quiet after that, nothing is.
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
	return err ? err : call_rank(0, CALL_VACATE, r, sizeof(*r), &out, sizeof(out));
}

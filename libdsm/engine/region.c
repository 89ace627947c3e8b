// SPDX-License-Identifier: BSD-2-Clause
/*
 * region.c - the registry of regions, kept by rank 0 in its control segment and served by whoever shares that host.
 *
 * A record lives until its name is taken away and its last rank has detached; then all ranks forget the range, and only
 * then is the record freed, so that an address is never used again with old state behind it.
 */
#include "engine/engine.h"

#include <dsm_uapi.h>
#include <string.h>
#include <unistd.h>

#include "util/futex.h"

static int find_room(const struct registry *g, uint64_t bytes, uint64_t *off)
{
	uint64_t at = 0;
	unsigned int i;
	bool moved;

	do {
		moved = false;
		for (i = 0; i < CTL_REGIONS; i++) {
			const struct region_record *r = &g->regions[i];

			if (r->used && at < r->off + r->bytes && r->off < at + bytes) {
				at = r->off + r->bytes;
				moved = true;
			}
		}
	} while (moved);
	if (at + bytes > job.set.space)
		return -ENOMEM;
	*off = at;
	return 0;
}

static struct region_record *by_name(struct registry *g, const char *name)
{
	unsigned int i;

	for (i = 0; i < CTL_REGIONS; i++)
		if (g->regions[i].named && !strcmp(g->regions[i].name, name))
			return &g->regions[i];
	return NULL;
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
static int create(struct registry *g, uint16_t from, const struct region_record *want, struct region_record **out)
{
	struct region_record *r = by_name(g, want->name);
	uint64_t off;
	uint32_t gen;
	uint16_t i;
	int err;

	if (r)
		return alike(r, want) ? -EEXIST : -EINVAL;
	for (i = 0; i < CTL_REGIONS && g->regions[i].used; i++)
		;
	if (i == CTL_REGIONS)
		return -ENOSPC;
	r = &g->regions[i];
	err = find_room(g, want->bytes, &off);
	if (err)
		return err;
	gen = r->gen + 1;
	*r = *want;
	r->off = off;
	r->gen = gen;
	r->id = i;
	r->creator = from;
	r->attached = 1;
	r->used = r->named = 1;
	r->ready = !want->contents;
	*out = r;
	return 0;
}

static int serve(struct registry *g, uint16_t from, enum call_op op, const struct region_record *in, struct region_record **out)
{
	struct region_record *r = op == CALL_ATTACH || op == CALL_QUERY || op == CALL_DESTROY ? by_name(g, in->name) : by_id(g, in);

	if (op == CALL_CREATE)
		return create(g, from, in, out);
	if (!r)
		return -ENOENT;
	*out = r;
	switch (op) {
	case CALL_PUBLISH:
		r->ready = 1;
		return 0;
	case CALL_ATTACH:
		if (!r->ready)
			return -EINPROGRESS;
		r->attached++;
		return 0;
	case CALL_QUERY:
		return 0;
	case CALL_DETACH:
		if (!r->attached)
			return -EINVAL;
		r->attached--;
		return 0;
	case CALL_DESTROY:
		if (!r->id)
			return -EINVAL; /* the heap stays */
		r->named = 0;
		return 0;
	case CALL_VACATE:
		if (r->attached || r->named)
			return -EBUSY;
		r->used = 0;
		return 0;
	default:
		return -EINVAL;
	}
}

int region_serve(struct registry *g, uint16_t from, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size)
{
	struct region_record want, *got = NULL;
	int err;

	if (in_size != sizeof(want) || *out_size < sizeof(want))
		return -EINVAL;
	memcpy(&want, in, sizeof(want));
	want.name[DSM_NAME_MAX - 1] = 0;
	word_lock(&g->lock);
	err = serve(g, from, op, &want, &got);
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
	r->home_policy = DSM_HOME_FIXED;
	r->attached = job.size;
	r->used = r->named = r->ready = 1;
}

static bool range_ok(uint64_t off, uint64_t bytes)
{
	return off % REGION_UNIT == 0 && bytes % REGION_UNIT == 0 && off + bytes <= job.set.space && off + bytes >= off;
}

int region_quiet(uint16_t rank, uint64_t off, uint64_t bytes)
{
	if (!range_ok(off, bytes))
		return -EINVAL;
	if (job.kernel >= 0)
		return kernel_range(DSM_RANGE_QUIET, off, bytes, 0);
	return host_quiet(rank, off, off + bytes) ? 0 : -EAGAIN;
}

int region_purge(uint16_t rank, uint64_t off, uint64_t bytes)
{
	if (!range_ok(off, bytes))
		return -EINVAL;
	if (job.kernel >= 0)
		return kernel_range(DSM_RANGE_FORGET, off, bytes, 0);
	host_forget(rank, off, bytes);
	return job.fault->shut(&peer_of(rank)->frames, off, bytes);
}

static int call_all(enum call_op op, const struct region_record *r)
{
	uint64_t range[2] = { r->off, r->bytes };
	uint16_t i;
	int err = 0;

	for (i = 0; i < job.size && !err; i++)
		while ((err = call_rank(i, op, range, sizeof(range), NULL, 0)) == -EAGAIN) {
			run_timers(true);
			lost_check();
			usleep(50);
		}
	return err;
}

/*
 * Those who left may still be named in messages: the home is being handed the newest copy, or MSG_DONE is on its way to it.
 * Nobody starts anything new. So when each rank has been found without a request once, only what ends one is under way, and
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

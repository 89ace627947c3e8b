// SPDX-License-Identifier: BSD-2-Clause
/* region.c - shared regions by name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/guard.h"
#include "api/hints.h"
#include "api/region.h"
#include "calls/call.h"
#include "calls/region.h"
#include "fault/fault.h"
#include "fault/range.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/lost.h"
#include "miss/release.h"
#include "net/net.h"
#include "util/hook.h"
#include "util/log.h"
#include "util/sys.h"

/*
 * Guards this process's region table. Held for round trips, but not while other ranks can delay an
 * operation.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t names[CTL_NAMES]; /* attached regions by hash of the name: id + 1; under the lock */
static uint64_t serials;          /* attachments so far; under the lock */

/* A call under the lock must not be cancelled half-way. */
static int region_table_lock(void)
{
	int before = engine_keep();

	pthread_mutex_lock(&lock);
	return before;
}

static void region_table_unlock(int before)
{
	pthread_mutex_unlock(&lock);
	engine_let(before);
}

static uint64_t hash_contents(const void *data, size_t size)
{
	const uint8_t *p = data;
	uint64_t h = 0xcbf29ce484222325ull;

	while (size--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h ? h : 1;
}

/* Memory is allocated as blocks are touched; opening a region only reserves addresses. */
static int no_room(const char *name, size_t size)
{
	log_line(
		"region \"%s\" of %zu bytes finds no room: the shared space has %zu MiB (DSM_SPACE), of which the heap takes %zu "
		"(DSM_HEAP)",
		name, size, job.set.space >> 20, job.heap >> 20);
	return -ENOMEM;
}

enum dsm_consistency region_consistency(const struct dsm_region_options *opt)
{
	if (opt->consistency != DSM_CONSISTENCY_SETTING)
		return opt->consistency;
	return job.set.release ? DSM_CONSISTENCY_RELEASE : DSM_CONSISTENCY_SEQUENTIAL;
}

static bool region_may_release(const char *name, size_t block)
{
	const char *why = block == PAGE_BYTES ? job_no_release() : "needs blocks of 4096 bytes";

	if (why)
		log_line("region \"%s\": release consistency: %s", name, why);
	return !why;
}

static int region_describe(const char *name, size_t size, const struct dsm_region_options *opt,
			   struct region_record *out)
{
	static const struct dsm_region_options none;
	enum dsm_consistency consistency;
	size_t block;

	if (!name || !name[0] || strlen(name) >= DSM_NAME_MAX || !size)
		return -EINVAL;
	if (!opt)
		opt = &none;
	consistency = region_consistency(opt);
	if ((unsigned int)consistency > DSM_CONSISTENCY_RELEASE)
		return -EINVAL;
	block = opt->block_size                          ? opt->block_size
		: consistency == DSM_CONSISTENCY_RELEASE ? PAGE_BYTES
							 : job.set.block_size;
	if (block < PAGE_BYTES || block > BLOCK_MAX || (block & (block - 1)))
		return -EINVAL;
	if ((unsigned int)opt->home > DSM_HOME_FIXED ||
	    (opt->home == DSM_HOME_FIXED && (opt->home_rank < 0 || opt->home_rank >= job.size)))
		return -EINVAL;
	if ((unsigned int)opt->priority > DSM_PRIORITY_URGENT)
		return -EINVAL;
	if (opt->contents_size > size || (opt->contents_size && !opt->contents))
		return -EINVAL;
	if (consistency == DSM_CONSISTENCY_RELEASE && !region_may_release(name, block))
		return -ENOTSUP;
	if (size > job.set.space)
		return no_room(name, size);
	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->size = size;
	out->block_size = (uint32_t)block;
	out->home_policy = (uint16_t)opt->home;
	out->creator = job.rank;
	out->priority = (uint8_t)opt->priority;
	out->consistency = (uint16_t)consistency;
	out->home_rank = opt->home == DSM_HOME_FIXED ? (uint16_t)opt->home_rank : 0;
	out->contents = opt->contents_size ? hash_contents(opt->contents, opt->contents_size) : 0;
	return 0;
}

static struct dsm_region *attached_by_name(const char *name)
{
	uint32_t id;

	for (id = names[region_hash(name)]; id; id = job.regions[id - 1].next)
		if (!strcmp(job.regions[id - 1].name, name))
			return &job.regions[id - 1];
	return NULL;
}

static void abandon(struct dsm_region *r)
{
	uint32_t *at = &names[region_hash(r->name)];
	size_t unit;
	int err;

	while (*at != r->id + 1u)
		at = &job.regions[*at - 1].next;
	*at = r->next;
	job.host->detach(r);
	guard_forget(r->off, r->bytes);
	err = job.fault->bound ? job.fault->bound(r->off, r->bytes, 0) : 0;
	if (err)
		log_line("region \"%s\" is detached, but this process can still touch it: %s",
			 r->name, dsm_strerror(err));
	for (unit = r->off / UNIT_BYTES; unit < (r->off + r->bytes) / UNIT_BYTES; unit++) {
		__atomic_store_n(&job.units[unit], 0, __ATOMIC_RELEASE);
		__atomic_fetch_sub(&job.mem.mapped[unit], 1, __ATOMIC_RELEASE);
	}
	r->attached = false;
}

/* Change the number of this node's ranks that are attached, and return it. */
static uint32_t count_users(uint16_t id, int change)
{
	return __atomic_add_fetch(&job.me->users[id], (uint32_t)change, __ATOMIC_SEQ_CST);
}

#define ID_BITS 16 /* of a handle */

/* The registry gives each id and each place to one region only. */
static bool is_new(const struct region_record *rec)
{
	size_t unit;

	if (job.regions[rec->id].attached)
		return false;
	for (unit = rec->off / UNIT_BYTES; unit < (rec->off + rec->bytes) / UNIT_BYTES; unit++)
		if (job.units[unit])
			return false;
	return true;
}

/* back: the call that undoes attaching this rank. */
static int region_adopt(const struct region_record *rec, enum call_op back, struct dsm_region **out)
{
	struct dsm_region *r = &job.regions[rec->id];
	uint32_t *first = &names[region_hash(rec->name)];
	struct region_record left;
	size_t unit;
	int err;

	if (!is_new(rec)) {
		lost_rank(0, "it gave the place of one region to another");
		return -EBADMSG; /* the job is ending */
	}
	*r = (struct dsm_region){
		.off = rec->off,
		.size = rec->size,
		.bytes = rec->bytes,
		.block_size = rec->block_size,
		.id = rec->id,
		.home_policy = rec->home_policy,
		.home_rank = rec->home_rank,
		.creator = rec->creator,
		.priority = rec->priority,
		.consistency = (uint8_t)rec->consistency,
		.gen = rec->gen,
		.serial = ++serials,
		.attached = true,
		.next = *first,
	};
	*first = rec->id + 1u;
	memcpy(r->name, rec->name, sizeof(r->name));
	count_users(rec->id, 1);
	memset(&job.mine->region_stats[rec->id], 0, sizeof(job.mine->region_stats[0]));
	if (job.mine->region_end <= rec->id)
		job.mine->region_end = rec->id + 1u;
	region_enter(r);
	if (rec->consistency && !one_node())
		release_begin();
	for (unit = rec->off / UNIT_BYTES; unit < (rec->off + rec->bytes) / UNIT_BYTES; unit++) {
		__atomic_fetch_add(&job.mem.mapped[unit], 1, __ATOMIC_RELEASE);
		__atomic_store_n(&job.units[unit], (uint16_t)(rec->id + 1), __ATOMIC_RELEASE);
	}
	region_set_priority(r->off, r->bytes, r->priority);
	err = job.fault->bound ? job.fault->bound(r->off, r->bytes, region_usable(r)) : 0;
	if (!err)
		err = job.host->attach(r);
	if (!err) {
		if (out)
			*out = r;
		return 0;
	}
	if (err == -ENOMEM)
		log_line(
			"region \"%s\" cannot be mapped: too many mappings (vm.max_map_count), or memory is short",
			r->name);
	count_users(rec->id, -1);
	abandon(r);
	if (!region_call(back, rec, &left))
		region_bury(&left);
	return err;
}

/*
 * Another rank may hold a block of the contents for long, so drop the lock. Ranks that open the
 * region wait; this rank has the name.
 */
static int region_fill(struct region_record *rec, const struct dsm_region_options *opt)
{
	pthread_mutex_unlock(&lock);
	memcpy(range_at(rec->off), opt->contents, opt->contents_size);
	engine_enter();
	release_close();
	engine_leave();
	pthread_mutex_lock(&lock);
	return region_call(CALL_PUBLISH, rec, rec);
}

static int region_create(const struct region_record *want, const struct dsm_region_options *opt,
			 dsm_region_t **out)
{
	struct region_record rec;
	struct dsm_region *r;
	int err = region_call(CALL_CREATE, want, &rec);

	if (err == -ENOMEM)
		return no_room(want->name, want->size);
	if (err == -EINVAL)
		return -EEXIST; /* with other options */
	if (err)
		return err;
	HOOK(region_named);
	err = region_adopt(&rec, CALL_WITHDRAW, &r);
	HOOK(region_mapped);
	if (!err && rec.contents)
		err = region_fill(&rec, opt);
	if (!err)
		*out = region_handle(r);
	return err;
}

/* Do two records of one name differ, so that alike() in the registry would return false? */
static bool differ(const struct region_record *have, const struct region_record *want)
{
	return want->size != have->size || want->block_size != have->block_size ||
		want->home_policy != have->home_policy || want->home_rank != have->home_rank ||
		want->priority != have->priority || want->consistency != have->consistency ||
		want->contents != have->contents;
}

/* does: the operation of this rank. */
static void region_report_other(const struct region_record *have, const struct region_record *want,
				const char *does)
{
	static const char *const homes[] = { "first touch", "cyclic", "fixed" };
	static const char *const consistencies[] = { "sequential", "release" };
	static const char *const priorities[] = { "normal", "low", "high", "urgent" };

	if (want->size != have->size)
		log_line(
			"region \"%s\": rank %d has made it with %zu bytes, and this rank %s it with %zu",
			have->name, have->creator, (size_t)have->size, does, (size_t)want->size);
	else if (want->block_size != have->block_size)
		log_line(
			"region \"%s\": rank %d has made it with blocks of %u bytes, and this rank %s it with blocks of %u",
			have->name, have->creator, have->block_size, does, want->block_size);
	else if (want->home_policy != have->home_policy || want->home_rank != have->home_rank)
		log_line(
			"region \"%s\": rank %d has made it with homes by %s (rank %u), and this rank %s it with %s (rank %u)",
			have->name, have->creator, homes[have->home_policy], have->home_rank, does,
			homes[want->home_policy], want->home_rank);
	else if (want->priority != have->priority)
		log_line(
			"region \"%s\": rank %d has made it with %s priority, and this rank %s it with %s priority",
			have->name, have->creator, priorities[have->priority], does,
			priorities[want->priority]);
	else if (want->consistency != have->consistency)
		log_line(
			"region \"%s\": rank %d has made it with %s consistency, and this rank %s it with %s consistency",
			have->name, have->creator, consistencies[have->consistency], does,
			consistencies[want->consistency]);
	else
		log_line(
			"region \"%s\": rank %d has made it with other initial contents than this rank %s it with",
			have->name, have->creator, does);
}

/* -EINPROGRESS: its creator has not filled it yet. */
static int region_attach(const char *name, const struct region_record *want, dsm_region_t **out)
{
	struct region_record in = { 0 }, rec;
	struct dsm_region *have = attached_by_name(name);
	int err;

	snprintf(in.name, sizeof(in.name), "%s", name);
	if (have) {
		/* The name may belong to another region now. */
		err = region_call(CALL_QUERY, &in, &rec);
		if (!err && rec.id == have->id && rec.gen == have->gen) {
			if (want && differ(&rec, want))
				region_report_other(&rec, want, "opens");
			return -EALREADY;
		}
	}
	err = region_call(CALL_ATTACH, &in, &rec);
	if (err)
		return err;
	if (want && differ(&rec, want)) {
		region_report_other(&rec, want, "opens");
		region_call(CALL_DETACH, &rec, &rec);
		region_bury(&rec);
		return -EEXIST;
	}
	err = region_adopt(&rec, CALL_DETACH, &have);
	if (!err)
		*out = region_handle(have);
	return err;
}

/* Check what a program asks for, and make a record of it. */
static int wanted(const char *name, size_t size, const struct dsm_region_options *opt,
		  dsm_region_t **out, struct region_record *want)
{
	int err = job_ready();

	if (err)
		return err;
	return out ? region_describe(name, size, opt, want) : -EINVAL;
}

/* first pause between checks for the contents; each later one is twice as long, */
#define FILL_MIN_US 100u
#define FILL_MAX_US 10000u /* up to this */

/* Wait without the lock. job_await_loss(): the creator may be lost. */
static void await_contents(unsigned int *us)
{
	job_await_loss();
	sys_sleep_us(*us);
	*us = *us < FILL_MAX_US / 2 ? 2 * *us : FILL_MAX_US;
}

DSM_API int dsm_region_create(const char *name, size_t size, const struct dsm_region_options *opt,
			      dsm_region_t **out)
{
	struct region_record want, have;
	int err = wanted(name, size, opt, out, &want), before;

	if (err)
		return err;
	before = region_table_lock();
	err = region_create(&want, opt, out);
	region_table_unlock(before);
	if (err == -EEXIST && !region_call(CALL_QUERY, &want, &have) && differ(&have, &want))
		region_report_other(&have, &want, "creates");
	return err;
}

DSM_API int dsm_region_attach(const char *name, dsm_region_t **out)
{
	unsigned int us = FILL_MIN_US;
	int err = job_ready(), before;

	if (err)
		return err;
	if (!name || !out)
		return -EINVAL;
	if (strlen(name) >= DSM_NAME_MAX)
		return -ENOENT;
	for (;;) {
		before = region_table_lock();
		err = region_attach(name, NULL, out);
		region_table_unlock(before);
		if (err != -EINPROGRESS)
			return err;
		await_contents(&us);
	}
}

DSM_API int dsm_region_open(const char *name, size_t size, const struct dsm_region_options *opt,
			    dsm_region_t **out)
{
	struct region_record want;
	unsigned int us = FILL_MIN_US;
	int err = wanted(name, size, opt, out, &want), before;

	if (err)
		return err;
	for (;;) {
		before = region_table_lock();
		err = region_create(&want, opt, out);
		if (err == -EEXIST)
			err = region_attach(name, &want, out);
		region_table_unlock(before);
		if (err == -EINPROGRESS)
			await_contents(&us);
		else if (err != -ENOENT) /* destroyed between the two calls */
			return err;
	}
}

/*
 * The node keeps its blocks as long as one of its ranks is attached. Blocks that other ranks have
 * pinned leave only when they are unpinned. So the caller's lock is dropped meanwhile: calls about
 * other regions continue, and no other thread can detach this one.
 */
static int region_leave_job(struct dsm_region *r)
{
	int err;

	if (count_users(r->id, -1))
		return 0;
	r->leaving = true;
	pthread_mutex_unlock(&lock);
	err = job.host->leave(r);
	pthread_mutex_lock(&lock);
	r->leaving = false;
	if (err)
		count_users(r->id, 1);
	return err;
}

static int region_detach(struct dsm_region *r)
{
	struct region_record rec = { 0 };
	int err = r->leaving ? -EINVAL : pins_any(r->off, r->bytes) ? -EBUSY : region_leave_job(r);

	if (err)
		return err;
	abandon(r);
	HOOK(region_left);
	rec.id = r->id;
	rec.gen = r->gen;
	err = region_call(CALL_DETACH, &rec, &rec);
	return err ? err : region_bury(&rec);
}

DSM_API int dsm_region_detach(dsm_region_t *handle)
{
	int err = job_ready(), before;
	struct dsm_region *r;

	if (err)
		return err;
	before = region_table_lock();
	r = region_of(handle);
	err = r && !r->adopted ? region_detach(r) : -EINVAL;
	region_table_unlock(before);
	return err;
}

/*
 * An id is reused as soon as it is free. If a rank leaves a region and joins it again, id and gen
 * are the same as before.
 */
dsm_region_t *region_handle(const struct dsm_region *r)
{
	_Static_assert(CTL_REGIONS <= 1 << ID_BITS && sizeof(uintptr_t) == 8,
		       "a handle has room for an id, and 48 bits more");
	return (dsm_region_t *)(uintptr_t)(r->serial << ID_BITS | r->id);
}

struct dsm_region *region_of(const dsm_region_t *handle)
{
	const uint64_t id = (uintptr_t)handle & ((1u << ID_BITS) - 1),
		       serial = (uintptr_t)handle >> ID_BITS;
	struct dsm_region *r = job.regions && id && id < CTL_REGIONS ? &job.regions[id] : NULL;

	return r && r->attached && r->serial == serial ? r : NULL;
}

int region_reserve(const char *name, size_t size, const struct dsm_region_options *opt,
		   struct region_record *rec)
{
	struct region_record want;
	int err = region_describe(name, size, opt, &want);

	if (!err)
		err = region_call(CALL_CREATE, &want, rec);
	return err == -ENOMEM ? no_room(name, size) : err;
}

int region_take(const struct region_record *rec, struct dsm_region **out)
{
	struct region_record got;
	int before = region_table_lock(), err = 0;

	if (rec->creator != job.rank)
		err = region_call(CALL_ATTACH, rec, &got);
	if (!err)
		err = region_adopt(rec, CALL_DETACH, out);
	if (!err)
		(*out)->adopted = true;
	region_table_unlock(before);
	return err;
}

void region_unreserve(const struct region_record *rec)
{
	struct region_record left;

	region_call(CALL_DESTROY, rec, &left);
	if (!region_call(CALL_DETACH, rec, &left))
		region_bury(&left);
}

int region_drop(struct dsm_region *r)
{
	const bool last = r->creator == job.rank;
	struct region_record rec = { 0 };
	int before = region_table_lock(), err;

	snprintf(rec.name, sizeof(rec.name), "%s", r->name);
	if (last)
		region_call(CALL_DESTROY, &rec, &rec);
	err = region_detach(r);
	region_table_unlock(before);
	return err;
}

DSM_API int dsm_region_destroy(const char *name)
{
	struct region_record rec = { 0 };
	int err = job_ready(), before;

	if (err)
		return err;
	if (!name || !name[0])
		return -EINVAL;
	if (strlen(name) >= DSM_NAME_MAX)
		return -ENOENT;
	snprintf(rec.name, sizeof(rec.name), "%s", name);
	before = engine_keep();
	err = region_call(CALL_DESTROY, &rec, &rec);
	if (!err)
		err = region_bury(&rec);
	engine_let(before);
	return err;
}

DSM_API void *dsm_region_base(const dsm_region_t *handle)
{
	const struct dsm_region *r = region_of(handle);

	return r ? range_at(r->off) : NULL;
}

DSM_API size_t dsm_region_size(const dsm_region_t *handle)
{
	const struct dsm_region *r = region_of(handle);

	return r ? r->size : 0;
}

DSM_API int dsm_region_query(const void *addr, struct dsm_region_info *out)
{
	struct region_record rec = { 0 };
	struct dsm_region *r;
	size_t off, len;
	int err = hints_range(addr, 1, &r, &off, &len);

	if (err)
		return err == -EFAULT ? -ENOENT : err;
	if (!out)
		return -EINVAL;
	memcpy(rec.name, r->name, sizeof(rec.name));
	/*
	 * While this rank is attached, the name may be deleted, or belong to another region: then
	 * use what this rank knows.
	 */
	err = region_call(CALL_QUERY, &rec, &rec);
	if (err && err != -ENOENT)
		return err;
	memset(out, 0, sizeof(*out));
	memcpy(out->name, r->name, sizeof(out->name));
	out->base = range_at(r->off);
	out->size = r->size;
	out->block_size = r->block_size;
	out->home = (enum dsm_home)r->home_policy;
	out->home_rank = r->home_rank;
	out->creator = r->creator;
	out->priority = (enum dsm_priority)r->priority;
	out->consistency = (enum dsm_consistency)r->consistency;
	out->attached = err || rec.id != r->id || rec.gen != r->gen ? 1 : rec.attached;
	return 0;
}

int region_start(void)
{
	struct region_record lower = { .name = HEAP_NAME }, upper = { .name = HEAP_RELEASE_NAME };
	int err;

	if (!job.heap)
		return 0;
	err = region_call(CALL_QUERY, &lower, &lower);
	if (!err)
		err = region_adopt(&lower, CALL_DETACH, NULL);
	if (err || !heap_upper())
		return err;
	err = region_call(CALL_QUERY, &upper, &upper);
	return err ? err : region_adopt(&upper, CALL_DETACH, NULL);
}

void region_stop(void)
{
	uint32_t i;

	/* A start that failed early has no control segment. */
	for (i = 0; job.me && i < job.mine->region_end; i++)
		if (job.regions[i].attached)
			abandon(&job.regions[i]);
}

// SPDX-License-Identifier: BSD-2-Clause
/* region.c - shared regions by name. */
#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "util/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of this process's region table */

static uint64_t hash_contents(const void *data, size_t size)
{
	const uint8_t *p = data;
	uint64_t h = 0xcbf29ce484222325ull;

	while (size--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h ? h : 1;
}

/* More than the memory of as many hosts as there are ranks cannot ever be filled. */
static bool fits_memory(size_t size)
{
	struct sysinfo si;

	return sysinfo(&si) || size / job.size <= (si.totalram + si.totalswap) * si.mem_unit;
}

static int describe(const char *name, size_t size, const struct dsm_region_options *opt, struct region_record *out)
{
	static const struct dsm_region_options none;
	size_t block;

	if (!name || !name[0] || strlen(name) >= DSM_NAME_MAX || !size)
		return -EINVAL;
	if (!opt)
		opt = &none;
	block = opt->block_size ? opt->block_size : job.set.block_size;
	if (block < PAGE_BYTES || block > BLOCK_MAX || (block & (block - 1)))
		return -EINVAL;
	if ((unsigned int)opt->home > DSM_HOME_FIXED ||
	    (opt->home == DSM_HOME_FIXED && (opt->home_rank < 0 || opt->home_rank >= job.size)))
		return -EINVAL;
	if (opt->contents_size > size || (opt->contents_size && !opt->contents))
		return -EINVAL;
	if (size > job.set.space || !fits_memory(size)) {
		log_line("region \"%s\" of %zu MiB does not fit: the shared space is %zu MiB (DSM_SPACE), and all hosts' memory must "
			 "hold it", name, size >> 20, job.set.space >> 20);
		return -ENOMEM;
	}
	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->size = size;
	out->bytes = (size + REGION_UNIT - 1) & ~(REGION_UNIT - 1);
	out->block_size = (uint32_t)block;
	out->home_policy = (uint16_t)opt->home;
	out->home_rank = opt->home == DSM_HOME_FIXED ? (uint16_t)opt->home_rank : 0;
	out->contents = opt->contents_size ? hash_contents(opt->contents, opt->contents_size) : 0;
	return 0;
}

static int adopt(const struct region_record *rec, struct dsm_region **out)
{
	struct dsm_region *r = &job.regions[rec->id];
	size_t unit;

	*r = (struct dsm_region){
		.off = rec->off, .size = rec->size, .bytes = rec->bytes, .block_size = rec->block_size, .id = rec->id,
		.home_policy = rec->home_policy, .home_rank = rec->home_rank, .creator = rec->creator, .gen = rec->gen,
		.attached = true,
	};
	memcpy(r->name, rec->name, sizeof(r->name));
	memset(&job.me->region_stats[rec->id], 0, sizeof(job.me->region_stats[0]));
	for (unit = rec->off / REGION_UNIT; unit < (rec->off + rec->bytes) / REGION_UNIT; unit++)
		__atomic_store_n(&job.units[unit], (uint16_t)(rec->id + 1), __ATOMIC_RELEASE);
	if (out)
		*out = r;
	return job.kernel < 0 ? 0 : kernel_region(r, true);
}

static void abandon(struct dsm_region *r)
{
	size_t unit;

	if (job.kernel >= 0) {
		kernel_stats(); /* what it has counted would go with the region */
		kernel_region(r, false);
	}
	for (unit = r->off / REGION_UNIT; unit < (r->off + r->bytes) / REGION_UNIT; unit++)
		__atomic_store_n(&job.units[unit], 0, __ATOMIC_RELEASE);
	r->attached = false;
}

static int registry(enum call_op op, const struct region_record *in, struct region_record *out)
{
	return call_rank(0, op, in, sizeof(*in), out, sizeof(*out));
}

static int create(const struct region_record *want, const struct dsm_region_options *opt, dsm_region_t **out)
{
	struct region_record rec;
	int err = registry(CALL_CREATE, want, &rec);

	if (err)
		return err;
	err = adopt(&rec, out);
	if (!err && rec.contents) {
		memcpy(job.base + rec.off, opt->contents, opt->contents_size);
		err = registry(CALL_PUBLISH, &rec, &rec);
	}
	return err;
}

static int attach(const char *name, const struct region_record *want, dsm_region_t **out)
{
	struct region_record in = { 0 }, rec;
	uint16_t i;
	int err;

	snprintf(in.name, sizeof(in.name), "%s", name);
	for (i = 0; i < CTL_REGIONS; i++)
		if (job.regions[i].attached && !strcmp(job.regions[i].name, name)) {
			/* The name may belong to a new region since. */
			err = registry(CALL_QUERY, &in, &rec);
			if (!err && rec.id == i && rec.gen == job.regions[i].gen)
				return -EALREADY;
		}
	while ((err = registry(CALL_ATTACH, &in, &rec)) == -EINPROGRESS)
		usleep(100); /* its creator is filling it */
	if (err)
		return err;
	if (want && (want->size != rec.size || want->block_size != rec.block_size || want->home_policy != rec.home_policy ||
		     want->home_rank != rec.home_rank || want->contents != rec.contents)) {
		registry(CALL_DETACH, &rec, &rec);
		region_bury(&rec);
		return -EEXIST;
	}
	return adopt(&rec, out);
}

DSM_API int dsm_region_create(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out)
{
	struct region_record want;
	int err = api_ready();

	if (!err)
		err = out ? describe(name, size, opt, &want) : -EINVAL;
	if (err)
		return err;
	pthread_mutex_lock(&lock);
	err = create(&want, opt, out);
	pthread_mutex_unlock(&lock);
	return err == -EINVAL ? -EEXIST : err;
}

DSM_API int dsm_region_attach(const char *name, dsm_region_t **out)
{
	int err = api_ready();

	if (err)
		return err;
	if (!name || !out)
		return -EINVAL;
	if (strlen(name) >= DSM_NAME_MAX)
		return -ENOENT;
	pthread_mutex_lock(&lock);
	err = attach(name, NULL, out);
	pthread_mutex_unlock(&lock);
	return err;
}

DSM_API int dsm_region_open(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out)
{
	struct region_record want;
	int err = api_ready();

	if (!err)
		err = out ? describe(name, size, opt, &want) : -EINVAL;
	if (err)
		return err;
	pthread_mutex_lock(&lock);
	do {
		err = create(&want, opt, out);
		if (err == -EEXIST || err == -EINVAL)
			err = attach(name, &want, out);
	} while (err == -ENOENT); /* destroyed between the two */
	pthread_mutex_unlock(&lock);
	return err;
}

DSM_API int dsm_region_detach(dsm_region_t *r)
{
	struct region_record rec = { 0 };
	int err = api_ready();

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	if (r <= &job.regions[0] || r >= &job.regions[CTL_REGIONS] || !r->attached) {
		err = -EINVAL;
		goto unlock;
	}
	err = pins_any(r->off, r->bytes) ? -EBUSY : block_leave(r);
	if (err)
		goto unlock;
	abandon(r);
	rec.id = r->id;
	rec.gen = r->gen;
	err = registry(CALL_DETACH, &rec, &rec);
	if (!err)
		err = region_bury(&rec);
unlock:
	pthread_mutex_unlock(&lock);
	return err;
}

DSM_API int dsm_region_destroy(const char *name)
{
	struct region_record rec = { 0 };
	int err = api_ready();

	if (err)
		return err;
	if (!name || !name[0])
		return -EINVAL;
	if (strlen(name) >= DSM_NAME_MAX)
		return -ENOENT;
	snprintf(rec.name, sizeof(rec.name), "%s", name);
	err = registry(CALL_DESTROY, &rec, &rec);
	return err ? err : region_bury(&rec);
}

DSM_API void *dsm_region_base(const dsm_region_t *r)
{
	return r && r->attached ? job.base + r->off : NULL;
}

DSM_API size_t dsm_region_size(const dsm_region_t *r)
{
	return r && r->attached ? r->size : 0;
}

DSM_API int dsm_region_query(const void *addr, struct dsm_region_info *out)
{
	struct region_record rec = { 0 };
	struct dsm_region *r;
	size_t off, len;
	int err = api_range(addr, 1, &r, &off, &len);

	if (err)
		return err == -EFAULT ? -ENOENT : err;
	if (!out)
		return -EINVAL;
	memcpy(rec.name, r->name, sizeof(rec.name));
	/* The name may be gone already while we are attached: then what this rank knows has to do. */
	err = registry(CALL_QUERY, &rec, &rec);
	if (err && err != -ENOENT)
		return err;
	memset(out, 0, sizeof(*out));
	memcpy(out->name, r->name, sizeof(out->name));
	out->base = job.base + r->off;
	out->size = r->size;
	out->block_size = r->block_size;
	out->home = (enum dsm_home)r->home_policy;
	out->home_rank = r->home_rank;
	out->creator = r->creator;
	out->attached = err || rec.gen != r->gen ? 1 : rec.attached;
	return 0;
}

int region_start(void)
{
	struct region_record rec = { .name = "(heap)" };
	int err;

	if (!job.heap_part)
		return 0;
	err = registry(CALL_QUERY, &rec, &rec);
	return err ? err : adopt(&rec, NULL);
}

void region_stop(void)
{
	uint16_t i;

	for (i = 0; i < CTL_REGIONS; i++)
		if (job.regions[i].attached)
			abandon(&job.regions[i]);
}

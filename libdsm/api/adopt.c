// SPDX-License-Identifier: BSD-2-Clause
/*
 * adopt.c - existing memory of the program becomes a region, and the program's own memory again.
 *
 * The region has a place in the window like any other, by which its bytes are named, but nobody
 * touches it there: the table of ranges (fault/range.h) says that the bytes are at the program's
 * address. All ranks map the range before the first of them uses it, so no rank's mapping misses a
 * change of protection.
 *
 *   all:   agree on the arguments
 *   one:   a place in the window
 *   all:   save the contents of the memory; range, mapping
 *               -- if a rank cannot, all put back what they saved
 *   all:   attach
 *   one:   stores the saved contents
 *
 * Between the steps all ranks wait for each other. The code touches no variables of the program:
 * they may be in the memory that is adopted.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "api/hints.h"
#include "api/region.h"
#include "calls/region.h"
#include "fault/fault.h"
#include "fault/range.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/lost.h"
#include "util/log.h"

/* The arguments on which all ranks must agree. */
struct terms {
	uint64_t at, len, block_size;
	int32_t home, home_rank, priority, consistency, from, err;
	struct region_record rec; /* the maker's answer */
};

/* in the order of the calls, which is the same on all ranks */
static struct dsm_region *adopted[RANGES_MAX];
static unsigned int adoptions;

static bool adopt_is_zero(const char *page)
{
	const uint64_t *word = (const uint64_t *)page;
	unsigned int i;

	for (i = 0; i < PAGE_BYTES / sizeof(*word); i++)
		if (word[i])
			return false;
	return true;
}

/* Leave out pages of zeros: they need no memory in the region. */
static void copy_pages(char *to, const char *from, size_t len)
{
	size_t at;

	for (at = 0; at < len; at += PAGE_BYTES)
		if (!adopt_is_zero(from + at))
			memcpy(to + at, from + at, PAGE_BYTES);
}

/* Room for the contents. */
static char *make_copy(const struct terms *t)
{
	void *saved = mmap(NULL, t->len, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return saved == MAP_FAILED ? NULL : saved;
}

static char *save(const struct terms *t)
{
	char *saved = make_copy(t);

	if (saved)
		copy_pages(saved, (const char *)(uintptr_t)t->at, t->len);
	return saved;
}

static int put_back(const struct terms *t, const char *saved)
{
	void *at = (void *)(uintptr_t)t->at;

	if (mmap(at, t->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return -errno;
	copy_pages(at, saved, t->len);
	return 0;
}

/* The worst result of any rank. */
static int worst(int err)
{
	int32_t all = err;
	int failed = dsm_reduce(&all, DSM_INT32, DSM_MIN);

	return failed ? failed : all;
}

static int check_terms(const struct terms *t)
{
	const uint64_t end = t->at + t->len;

	if (!t->len || (t->at | t->len) % PAGE_BYTES || end < t->at || t->len % t->block_size)
		return -EINVAL;
	if (t->from < 0 || t->from >= job.size)
		return -EINVAL;
	if (!job.fault->adopt)
		return -ENOTSUP;
	if (adoptions == RANGES_MAX)
		return -ENOSPC;
	return msync((void *)(uintptr_t)t->at, t->len, MS_ASYNC) ? -EFAULT : 0;
}

/* Do all ranks have the same arguments, and are they valid? */
static int adopt_agree(const struct terms *mine)
{
	struct terms first = *mine;
	int err = check_terms(mine), failed;

	failed = dsm_broadcast(&first, sizeof(first), 0);
	if (failed)
		return failed;
	if (!err && memcmp(&first, mine, sizeof(first)))
		err = -EINVAL;
	return worst(err);
}

/* The maker reserves a place, and sends it to the others. */
static int adopt_reserve(struct terms *t)
{
	char name[DSM_NAME_MAX];
	const struct dsm_region_options opt = { .block_size = t->block_size,
						.home = (enum dsm_home)t->home,
						.home_rank = t->home_rank,
						.priority = (enum dsm_priority)t->priority,
						.consistency =
							(enum dsm_consistency)t->consistency };
	int failed;

	snprintf(name, sizeof(name), "(adopted %#" PRIx64 ")", t->at);
	if (job.rank == t->from)
		t->err = region_reserve(name, t->len, &opt, &t->rec);
	failed = dsm_broadcast(t, sizeof(*t), t->from);
	return failed ? failed : t->err;
}

static int adopt_map(const struct terms *t)
{
	int err = range_add((void *)(uintptr_t)t->at, t->rec.off, t->len);

	if (err)
		return err;
	err = job.fault->adopt(t->rec.off, t->len);
	if (err)
		range_remove(t->rec.off);
	return err;
}

static void unmap(const struct terms *t, const char *saved)
{
	int err;

	range_remove(t->rec.off);
	err = put_back(t, saved);
	if (err)
		log_line("%zu bytes at %#" PRIx64 " are lost: %s", (size_t)t->len, t->at,
			 dsm_strerror(err));
}

static int adopt_take(struct terms *t, struct dsm_region **out)
{
	char *saved = save(t);
	int mine = saved ? adopt_map(t) : -ENOMEM, err = worst(mine);

	if (err) {
		if (!mine)
			unmap(t, saved);
		if (job.rank == t->from)
			region_unreserve(&t->rec);
		goto out;
	}
	err = worst(region_take(&t->rec, out));
	if (err)
		lost_abort(70, "adopted memory cannot be attached");
	if (job.rank == t->from)
		copy_pages((char *)(uintptr_t)t->at, saved, t->len);
	adopted[adoptions++] = *out;
	err = dsm_barrier();
out:
	if (saved)
		munmap(saved, t->len);
	return err;
}

DSM_API int dsm_region_adopt(void *addr, size_t length, const struct dsm_region_options *opt,
			     dsm_region_t **out)
{
	static const struct dsm_region_options none;
	struct dsm_region *made = NULL;
	struct terms t;
	int err = job_ready(), before;

	if (err)
		return err;
	if (!opt)
		opt = &none;
	memset(&t, 0, sizeof(t));
	t.at = (uintptr_t)addr;
	t.len = length;
	t.consistency = (int32_t)region_consistency(opt);
	t.block_size = opt->block_size                              ? opt->block_size
		: t.consistency == (int32_t)DSM_CONSISTENCY_RELEASE ? PAGE_BYTES
								    : job.set.block_size;
	t.home = (int32_t)opt->home;
	t.home_rank = opt->home_rank;
	t.priority = (int32_t)opt->priority;
	t.from = opt->contents_rank;
	before = engine_keep();
	err = adopt_agree(&t);
	if (!err)
		err = adopt_reserve(&t);
	if (!err)
		err = adopt_take(&t, &made);
	engine_let(before);
	if (!err && out)
		*out = region_handle(made);
	return err;
}

static void forget_adopted(const struct dsm_region *r)
{
	unsigned int i;

	for (i = 0; adopted[i] != r; i++)
		;
	memmove(&adopted[i], &adopted[i + 1], (--adoptions - i) * sizeof(adopted[0]));
}

/*
 * Every rank reads all contents. When all have, each maps private memory there and stores them.
 * Ranks read by ordinary loads: a block may move to another reader meanwhile, and comes back with
 * the same contents. Without memory for the contents on some rank, no rank reads, for the messages
 * that bring them need memory too, and the region stays as it is.
 */
static int disown(struct dsm_region *r)
{
	const struct terms t = { .at = (uintptr_t)range_at(r->off), .len = r->size };
	char *saved = make_copy(&t);
	int err = worst(saved ? 0 : -ENOMEM);

	if (!err) {
		if (!one_node())
			job.host->fetch(r, r->off, r->size, DSM_READ, false);
		copy_pages(saved, (const char *)t.at, t.len);
		err = worst(0);
	}
	if (!err) {
		forget_adopted(r);
		range_remove(r->off);
		err = worst(put_back(&t, saved));
		if (!err)
			err = region_drop(r);
	}
	if (saved)
		munmap(saved, t.len);
	return err;
}

static int disown_one(struct dsm_region *r)
{
	int err = worst(pins_any(r->off, r->bytes) ? -EBUSY : 0);

	return err ? err : disown(r);
}

DSM_API int dsm_region_disown(dsm_region_t *handle)
{
	struct dsm_region *r = region_of(handle);
	int err = job_ready(), before;

	if (err)
		return err;
	if (!r || !r->adopted)
		return -EINVAL;
	before = engine_keep();
	err = disown_one(r);
	engine_let(before);
	return err;
}

void adopt_end(void)
{
	int err;

	while (adoptions) {
		struct dsm_region *r = adopted[adoptions - 1];

		pins_forget();
		err = disown(r);
		if (err && adoptions && adopted[adoptions - 1] == r)
			adoptions--;
		if (err)
			log_line("\"%s\" does not become private memory again: %s", r->name,
				 dsm_strerror(err));
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * bad_access.c - describes an access to a window address without memory: which region it missed,
 * and by how much.
 */
#include "job/bad_access.h"

#include "fault/range.h"
#include "job/job.h"
#include "util/log.h"

/* The region that ends at or before off, attached, or detached with its place still unused. */
static const struct dsm_region *region_below(size_t off, bool attached)
{
	const struct dsm_region *best = NULL;
	unsigned int i;

	for (i = 0; i < job.mine->region_end; i++) {
		const struct dsm_region *r = &job.regions[i];

		if (r->bytes && r->attached == attached && r->off <= off &&
		    (!best || r->off > best->off))
			best = r;
	}
	return best;
}

void (*bad_access_guard)(const char *addr);

void bad_access_report(const char *addr, bool write)
{
	const char *what = write ? "write" : "read";
	const struct dsm_region *r, *gone;
	size_t off;

	if (!range_off(addr, &off))
		return;
	r = region_at(off);
	gone = region_below(off, false);

	if (!r && gone && off < gone->off + gone->size) {
		log_line(
			"%s of address %p, which is in no region that this rank is attached to: it is %zu bytes into \"%s\", which this "
			"rank has detached",
			what, addr, off - gone->off, gone->name);
		return;
	}
	if (!r)
		r = region_below(off, true);
	if (r)
		log_line(
			"%s of address %p, which is in no region that this rank is attached to: it is %zu bytes past the end of \"%s\", "
			"which has %zu bytes at %p",
			what, addr, off - (r->off + r->size), r->name, (size_t)r->size,
			range_at(r->off));
	else
		log_line(
			"%s of address %p, which is in no region that this rank is attached to: there is none below it",
			what, addr);
}

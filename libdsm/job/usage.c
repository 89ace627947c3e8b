// SPDX-License-Identifier: BSD-2-Clause
/* usage.c - the memory of a node by kind, as the kernel counts it. */
#include "job/usage.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/host_ops.h"
#include "job/job.h"
#include "net/net.h"
#include "util/limits.h"
#include "util/lines.h"

#define TICK_NS 1000000000u
#define SOON_NS 100000000u /* the same while blocks come */
/* resident memory up to which each mapping is read: the kernel visits every page */
#define CLOSE_BYTES (16ull << 30)
#define CLOSE_NS 100000000u /* time for many mappings */
#define TABLE_PART 512      /* of what a process has touched, its page tables are */

bool usage_watches(void)
{
	return job.set.stats && strcmp(job.set.stats, "off") && strcmp(job.set.stats, "0");
}

static void usage_note(uint64_t *most, uint64_t now)
{
	uint64_t seen = __atomic_load_n(most, __ATOMIC_RELAXED);

	while (now > seen &&
	       !__atomic_compare_exchange_n(most, &seen, now, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

/* ---- the memory objects of the node ---------------------------------------------------------- */

static bool has_frames(void)
{
	return job.size > 1; /* else the window is private memory */
}

static uint64_t usage_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : (uint64_t)st.st_blocks * 512;
}

uint64_t usage_frames(void)
{
	if (job.host->frames)
		return job.host->frames();
	return has_frames() ? usage_of(job.mem.memfd) : 0;
}

static uint64_t usage_without(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

static uint64_t usage_came(void)
{
	return __atomic_load_n(&job.me->reclaim.came, __ATOMIC_RELAXED);
}

/* Those that were counted, and what each rank needs to map what has come since it counted. */
static uint64_t usage_tables(void)
{
	/* in this order: another rank may count meanwhile */
	const uint64_t then = __atomic_load_n(&job.me->tables_came, __ATOMIC_ACQUIRE),
		       since = usage_without(usage_came() * job.locals, then);

	return __atomic_load_n(&job.me->tables, __ATOMIC_RELAXED) + since / TABLE_PART;
}

uint64_t usage_bounded(void)
{
	return usage_frames() + usage_of(job.mem.ctlfd) + usage_tables();
}

/* The bytes of the control segment in a range that have memory. */
static uint64_t control_used(size_t from, size_t to)
{
	off_t at = (off_t)from, end = (off_t)to, data, hole;
	uint64_t sum = 0;

	while (at < end) {
		data = lseek(job.mem.ctlfd, at, SEEK_DATA);
		hole = data < 0 || data >= end ? -1 : lseek(job.mem.ctlfd, data, SEEK_HOLE);
		if (hole < 0)
			break;
		at = hole < end ? hole : end;
		sum += (uint64_t)(at - data);
	}
	return sum;
}

static void usage_of_control(uint64_t *now)
{
	const struct ctl_layout *l = &job.layout;

	now[USAGE_QUEUES] = control_used(l->bars, l->pages);
	now[USAGE_STATES] = control_used(l->pages, l->stage) + control_used(l->fault, l->total);
	now[USAGE_STAGE] =
		control_used(l->stage, l->va_units) + control_used(l->stage_last, l->twins);
	now[USAGE_TWINS] = control_used(l->twins, l->file);
	now[USAGE_TABLES] = control_used(0, l->bars) + control_used(l->va_units, l->fault);
}

static void note_node(const uint64_t *now, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		usage_note(&job.me->memory_most[i], now[i]);
}

/* ---- this process ---------------------------------------------------------------------------- */

struct usage_status {
	uint64_t anonymous, files, resident, most, tables;
};

static void read_status(struct usage_status *out)
{
	static const struct {
		const char *name;
		size_t at;
	} rows[] = {
		{ "RssAnon", offsetof(struct usage_status, anonymous) },
		{ "RssFile", offsetof(struct usage_status, files) },
		{ "VmRSS", offsetof(struct usage_status, resident) },
		{ "VmHWM", offsetof(struct usage_status, most) },
		{ "VmPTE", offsetof(struct usage_status, tables) },
	};
	struct lines l;
	char *line, name[16];
	unsigned long kib;
	size_t i;

	memset(out, 0, sizeof(*out));
	if (!lines_open(&l, "/proc/self/status"))
		return;
	while ((line = lines_next(&l)))
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (sscanf(line, "%15[^:]: %lu kB", name, &kib) == 2 &&
			    !strcmp(name, rows[i].name))
				memcpy((char *)out + rows[i].at, &(uint64_t){ (uint64_t)kib << 10 },
				       sizeof(uint64_t));
	lines_close(&l);
}

/* A line of /proc/self/smaps that begins a mapping: whose pages it shows. */
enum usage_of { OF_FRAMES, OF_CONTROL, OF_SEGMENT, OF_PROCESS };

static bool mapping_of(const char *line, enum usage_of *out)
{
	uintptr_t low, high;
	char path[64] = "";

	if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %63s", &low, &high, path) < 2)
		return false;
	if (strstr(path, "libdsm-frames") ||
	    (low >= (uintptr_t)job.base && low - (uintptr_t)job.base < job.set.space))
		*out = OF_FRAMES;
	else if (strstr(path, "libdsm-control"))
		*out = OF_CONTROL;
	else if (!strncmp(path, "/dev/shm/", 9) || !strncmp(path, "/memfd:", 7) ||
		 !strncmp(path, "/SYSV", 5) || !strncmp(path, "/dev/zero", 9))
		*out = OF_SEGMENT; /* of several processes, each of which counts its part */
	else
		*out = OF_PROCESS;
	return true;
}

/* Memory of this process and its share of segments, and what it has of the window that is in no
 * memory object. False: too much to look at. */
static bool read_mappings(uint64_t *private, uint64_t *window)
{
	const uint64_t until = clock_ns() + CLOSE_NS;
	enum usage_of of = OF_PROCESS;
	struct lines l;
	unsigned long kib;
	bool whole = true;
	char *line;

	*private = *window = 0;
	if (!lines_open(&l, "/proc/self/smaps"))
		return false;
	while (whole && (line = lines_next(&l))) {
		if (sscanf(line, "Anonymous: %lu kB", &kib) == 1 && of != OF_SEGMENT)
			*(of == OF_FRAMES ? window : private) += (uint64_t)kib << 10;
		else if (sscanf(line, "Pss: %lu kB", &kib) == 1 && of == OF_SEGMENT)
			*private += (uint64_t)kib << 10;
		else if (mapping_of(line, &of))
			whole = clock_ns() < until;
	}
	lines_close(&l);
	return whole;
}

static uint64_t usage_landing(void)
{
	struct net_counters c = { 0 };

	if (job.net)
		job.netops->counters(job.net, &c);
	return c.landing;
}

/* ---- looking --------------------------------------------------------------------------------- */

static uint64_t *most_of_rank(enum usage_kind kind)
{
	return &job.mine->memory_most[kind - USAGE_OF_NODE];
}

/*
 * The page tables of this process for memory of the job, in the sum of its node: what they have
 * grown by, but for private memory.
 */
static void count_tables(const struct usage_status *s)
{
	static uint64_t first;
	const uint64_t shared = usage_without(s->tables, (s->anonymous + s->files) / TABLE_PART),
		       came = usage_came();
	uint64_t now;

	if (!s->tables)
		return; /* unknown: the estimate goes on */
	if (!first)
		first = shared;
	now = usage_without(shared, first);
	__atomic_fetch_add(&job.me->tables, now - job.mine->tables, __ATOMIC_RELAXED);
	__atomic_fetch_add(&job.me->tables_came, came - job.mine->tables_came, __ATOMIC_RELEASE);
	job.mine->tables = now;
	job.mine->tables_came = came;
}

static struct {
	uint64_t at, came;
} last_look;

uint64_t usage_period(void)
{
	return job.set.memory && last_look.came != usage_came() ? SOON_NS : TICK_NS;
}

void usage_tick(uint64_t now)
{
	struct usage_status s;

	if (now - last_look.at < usage_period())
		return;
	last_look.at = now;
	last_look.came = usage_came();
	read_status(&s);
	if (job.set.memory)
		count_tables(&s);
	if (!usage_watches())
		return;
	if (job.local == 0)
		note_node(&(uint64_t){ usage_frames() }, 1);
	usage_note(most_of_rank(USAGE_PAGE_TABLES), s.tables);
	if (has_frames())
		usage_note(most_of_rank(USAGE_PRIVATE),
			   usage_without(s.anonymous, usage_landing()));
}

void usage_leaving(void)
{
	uint64_t now[USAGE_OF_NODE];

	if (!usage_watches())
		return;
	now[USAGE_FRAMES] = usage_frames();
	usage_of_control(now);
	note_node(now, USAGE_OF_NODE);
}

static void serve_rank(struct stats_memory *out)
{
	uint64_t *now = out->now, window = 0, all;
	struct usage_status s;
	unsigned int i;

	read_status(&s);
	now[USAGE_LANDING] = usage_landing();
	now[USAGE_PAGE_TABLES] = s.tables;
	now[USAGE_RESIDENT] = s.resident;
	out->rough = s.resident > CLOSE_BYTES || !read_mappings(&all, &window);
	if (out->rough)
		all = s.anonymous;
	now[USAGE_PRIVATE] = usage_without(all, now[USAGE_LANDING]);
	if (!has_frames() && !out->rough)
		now[USAGE_FRAMES] = window;
	usage_note(most_of_rank(USAGE_RESIDENT), s.most);
	for (i = USAGE_OF_NODE; i < USAGE_KINDS; i++) {
		usage_note(most_of_rank((enum usage_kind)i), now[i]);
		out->most[i] = __atomic_load_n(most_of_rank((enum usage_kind)i), __ATOMIC_RELAXED);
	}
}

void usage_serve(struct stats_memory *out)
{
	struct memory_limit limit;
	unsigned int i;

	memset(out, 0, sizeof(*out));
	limits_memory("", &limit);
	out->limit = limit.bytes;
	out->bound = job.set.memory;
	serve_rank(out);
	if (job.local)
		return;
	if (has_frames())
		out->now[USAGE_FRAMES] = usage_frames();
	usage_of_control(out->now);
	note_node(out->now, USAGE_OF_NODE);
	usage_note(&job.me->memory_most[USAGE_TWINS],
		   __atomic_load_n(&job.me->twins_most, __ATOMIC_RELAXED) * PAGE_BYTES);
	for (i = 0; i < USAGE_OF_NODE; i++)
		out->most[i] = __atomic_load_n(&job.me->memory_most[i], __ATOMIC_RELAXED);
}

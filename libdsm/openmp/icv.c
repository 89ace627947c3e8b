// SPDX-License-Identifier: BSD-2-Clause
/*
 * icv.c - see icv.h: the environment, and the functions of omp.h that ask and set. Of the regions
 * around a thread, one at most has several threads.
 */
#include "icv.h"

#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "entry.h"
#include "team.h"

static struct {
	struct icv first; /* of a thread that has not set anything */
	unsigned int processors, limit;
	size_t stack;
} env;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Per thread: `set`, once it has its own. */
static __thread struct {
	struct icv icv;
	bool set;
} mine __attribute__((tls_model("initial-exec")));

/* ---- the environment ------------------------------------------------------------------------- */

/* A wrong value is reported, and has no effect, as with libgomp. */
static void env_refuse(const char *name)
{
	fprintf(stderr, "libdsm-openmp: %s=%s is not understood\n", name, getenv(name));
}

/* A number from 1 on at the beginning of `text`; its end. 0: there is none. */
static unsigned long number_of(const char *text, const char **end)
{
	char *after;
	unsigned long n;

	while (isspace((unsigned char)*text))
		text++;
	if (!isdigit((unsigned char)*text))
		return 0;
	n = strtoul(text, &after, 10);
	while (isspace((unsigned char)*after))
		after++;
	*end = after;
	return n;
}

/* The first one of a list, which has a number for each level. */
static unsigned int env_number(const char *name, unsigned int usual, const char *ends)
{
	const char *text = getenv(name), *end = "";
	unsigned long n;

	if (!text)
		return usual;
	n = number_of(text, &end);
	if (n && n < UINT32_MAX && strchr(ends, *end))
		return (unsigned int)n;
	env_refuse(name);
	return usual;
}

static void env_schedule(void)
{
	static const char *const names[] = { "static", "dynamic", "guided", "auto" };
	const char *text = getenv("OMP_SCHEDULE"), *colon, *comma, *end = "";
	size_t i, n;

	if (!text)
		return;
	colon = strchr(text, ':'); /* a modifier */
	if (colon)
		text = colon + 1;
	comma = strchr(text, ',');
	n = comma ? (size_t)(comma - text) : strlen(text);
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	for (i = 0; i < 4; i++)
		if (strlen(names[i]) == n && !strncasecmp(text, names[i], n))
			break;
	if (i == 4 || (comma && (!number_of(comma + 1, &end) || *end))) {
		env_refuse("OMP_SCHEDULE");
		return;
	}
	env.first.schedule = (int)i + SCHED_STATIC;
	env.first.chunk = comma ? (long)number_of(comma + 1, &end) : 0;
}

/* In KiB, or with a unit. */
static size_t env_stack(void)
{
	static const char units[] = "bkmg";
	const char *text = getenv("OMP_STACKSIZE"), *end = "", *unit;
	unsigned long n;

	if (!text)
		return 0;
	n = number_of(text, &end);
	unit = *end ? strchr(units, tolower((unsigned char)*end)) : units + 1;
	if (!n || !unit || (*end && end[1])) {
		env_refuse("OMP_STACKSIZE");
		return 0;
	}
	return n << 10 * (unit - units);
}

static void env_read(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const char *cancel = getenv("OMP_CANCELLATION");

	env.processors = cpus > 0 ? (unsigned int)cpus : 1;
	env.limit = env_number("OMP_THREAD_LIMIT", TEAM_MOST, "");
	if (env.limit > TEAM_MOST)
		env.limit = TEAM_MOST;
	env.first.threads = env_number("OMP_NUM_THREADS", env.processors, ",");
	if (env.first.threads > env.limit)
		fprintf(stderr, "libdsm-openmp: a team has %u threads at most (OMP_THREAD_LIMIT)\n",
			env.limit);
	env.first.schedule = SCHED_STATIC;
	env_schedule();
	env.stack = env_stack();
	if (cancel && !strcasecmp(cancel, "true"))
		fputs("libdsm-openmp: OMP_CANCELLATION=true has no effect: nothing is cancelled\n",
		      stderr);
}

static void env_begin(void)
{
	pthread_once(&once, env_read);
}

struct icv *icv_mine(void)
{
	if (!mine.set) {
		env_begin();
		mine.icv = env.first;
		mine.set = true;
	}
	return &mine.icv;
}

unsigned int icv_processors(void)
{
	env_begin();
	return env.processors;
}

unsigned int icv_limit(void)
{
	env_begin();
	return env.limit;
}

size_t icv_stack(void)
{
	env_begin();
	return env.stack;
}

/* ---- threads --------------------------------------------------------------------------------- */

ENTRY int omp_get_thread_num(void)
{
	return (int)self.id;
}

ENTRY int omp_get_num_threads(void)
{
	return (int)team_size();
}

ENTRY int omp_get_max_threads(void)
{
	return (int)(icv_mine()->threads < icv_limit() ? icv_mine()->threads : icv_limit());
}

ENTRY void omp_set_num_threads(int n)
{
	icv_mine()->threads = n > 0 ? (unsigned int)n : 1;
}

ENTRY int omp_get_num_procs(void)
{
	return (int)icv_processors();
}

ENTRY int omp_get_thread_limit(void)
{
	return (int)icv_limit();
}

ENTRY int omp_in_parallel(void)
{
	return self.active.n > 0;
}

ENTRY int omp_get_level(void)
{
	return (int)self.level;
}

ENTRY int omp_get_active_level(void)
{
	return self.active.n > 0;
}

/* -1: there is no such level. */
ENTRY int omp_get_ancestor_thread_num(int level)
{
	if (level < 0 || level > (int)self.level)
		return -1;
	return self.active.n && level == (int)self.active.level ? (int)self.active.id : 0;
}

ENTRY int omp_get_team_size(int level)
{
	if (level < 0 || level > (int)self.level)
		return -1;
	return self.active.n && level == (int)self.active.level ? (int)self.active.n : 1;
}

/* ---- what is fixed --------------------------------------------------------------------------- */

/* A function that always has this answer, and one that sets it without effect. */
#define ASK(name, value)        \
	ENTRY int name(void)    \
	{                       \
		return (value); \
	}
#define SET(name)              \
	ENTRY void name(int x) \
	{                      \
		(void)x;       \
	}

ASK(omp_get_dynamic, 0)
SET(omp_set_dynamic)
ASK(omp_get_nested, 0)
SET(omp_set_nested)
ASK(omp_get_max_active_levels, 1)
SET(omp_set_max_active_levels)
ASK(omp_get_supported_active_levels, 1)
ASK(omp_get_cancellation, 0)
ASK(omp_get_proc_bind, 0)
ASK(omp_get_num_places, 0)
ASK(omp_get_place_num, -1)
ASK(omp_get_partition_num_places, 0)
ASK(omp_get_max_task_priority, 0)
ASK(omp_get_max_teams, 1)
SET(omp_set_num_teams)
ASK(omp_get_teams_thread_limit, 0)
SET(omp_set_teams_thread_limit)
ASK(omp_get_num_teams, 1)
ASK(omp_get_team_num, 0)
ASK(omp_get_num_devices, 0)
ASK(omp_get_default_device, 0)
SET(omp_set_default_device)
ASK(omp_get_initial_device, 0)
ASK(omp_get_device_num, 0)
ASK(omp_is_initial_device, 1)

/* ---- schedules, time ------------------------------------------------------------------------- */

#define MONOTONIC 0x80000000u /* omp_sched_monotonic, a modifier */

ENTRY void omp_set_schedule(unsigned int kind, int chunk)
{
	struct icv *icv = icv_mine();

	kind &= ~MONOTONIC;
	if (kind < SCHED_STATIC || kind > SCHED_AUTO)
		return;
	icv->schedule = (int)kind;
	icv->chunk = chunk > 0 ? chunk : 0;
}

ENTRY void omp_get_schedule(unsigned int *kind, int *chunk)
{
	*kind = (unsigned int)icv_mine()->schedule;
	*chunk = (int)icv_mine()->chunk;
}

ENTRY double omp_get_wtime(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ENTRY double omp_get_wtick(void)
{
	return 1e-9;
}

/* ---- memory of allocators: there is one kind ------------------------------------------------ */

#define DEFAULT_ALLOCATOR 1u /* omp_default_mem_alloc */

ENTRY uintptr_t omp_init_allocator(uintptr_t space, int n, const void *traits)
{
	(void)space, (void)n, (void)traits;
	return DEFAULT_ALLOCATOR;
}

ENTRY void omp_destroy_allocator(uintptr_t allocator)
{
	(void)allocator;
}

ENTRY void omp_set_default_allocator(uintptr_t allocator)
{
	(void)allocator;
}

ENTRY uintptr_t omp_get_default_allocator(void)
{
	return DEFAULT_ALLOCATOR;
}

ENTRY void *omp_alloc(size_t size, uintptr_t allocator)
{
	(void)allocator;
	return malloc(size);
}

ENTRY void *omp_calloc(size_t n, size_t size, uintptr_t allocator)
{
	(void)allocator;
	return calloc(n, size);
}

ENTRY void *omp_realloc(void *was, size_t size, uintptr_t allocator, uintptr_t freeing)
{
	(void)allocator, (void)freeing;
	return realloc(was, size);
}

ENTRY void *omp_aligned_alloc(size_t alignment, size_t size, uintptr_t allocator)
{
	void *memory = NULL;

	(void)allocator;
	if (alignment < sizeof(void *))
		alignment = sizeof(void *);
	return posix_memalign(&memory, alignment, size) ? NULL : memory;
}

ENTRY void omp_free(void *memory, uintptr_t allocator)
{
	(void)allocator;
	free(memory);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * place.c - reads the environment at the first use of each device, and prints messages then and at
 * the end.
 *
 *   CQGROUP=data            a class of the table DSM_CQ_GROUPS, with its device, vectors and CPUs
 *   CQGROUP_VECTORS=2-3     these vectors; CQGROUP is then but a name
 *   CQGROUP_CPUS=4-7        CPUs for threads that wait for events: a list, "auto" or "none"
 *   CQGROUP_POLICY=least    "turns" (default): vectors by turns; "least": the least loaded one
 *   CQGROUP_VERBOSE=1       print actions and counts; 0: not even that vectors are ignored
 *
 * An error is printed once per device, and the program runs as it would without the library.
 */
#include "cqgroup/preload/place.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The list only grows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place *places;

void place_log(const char *fmt, ...)
{
	char line[1024];
	int saved = errno;
	va_list ap;
	int n;

	n = snprintf(line, sizeof(line) - 1,
		     "cqgroup-preload: %s[%d]: ", program_invocation_short_name, (int)getpid());
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - 1 - (size_t)n, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		n = 0; /* stderr does not work */
	errno = saved;
}

/* The value of a variable; NULL if it is unset or empty. */
static const char *setting(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int is_set_to(const char *name, const char *value)
{
	const char *now = setting(name);

	return now && !strcmp(now, value);
}

int place_verbose(void)
{
	return setting("CQGROUP_VERBOSE") && !is_set_to("CQGROUP_VERBOSE", "0");
}

int place_owner(const char *device, char owner[CQGROUP_DEVICE_MAX])
{
	const char *name = setting("CQGROUP");

	*owner = '\0';
	if (!name || setting("CQGROUP_VECTORS") ||
	    cqgroup_table_owner(setting("DSM_CQ_GROUPS"), name, owner, NULL))
		return 0; /* place_of() has a message */
	return *owner && strcmp(owner, device);
}

int place_talks(void)
{
	return !is_set_to("CQGROUP_VERBOSE", "0");
}

/* The group of a class of the table, with other CPUs if cpus is set. */
static int group_of_table(struct ibv_context *ctx, const char *name, const char *cpus,
			  struct cqgroup **out, char *why)
{
	const char *config = setting("DSM_CQ_GROUPS");
	char words[CQGROUP_WHY_MAX], owner[CQGROUP_DEVICE_MAX];
	struct cqgroup_table *t;
	struct cqgroup_info info;
	struct cqgroup *g;
	int err;

	err = cqgroup_table_create(ctx, config, &t, words);
	if (err) {
		snprintf(why, CQGROUP_WHY_MAX, "DSM_CQ_GROUPS: %.230s", words);
		return err;
	}
	g = cqgroup_table_find(t, name);
	if (!g) {
		snprintf(
			why, CQGROUP_WHY_MAX,
			"CQGROUP: there is no group '%.64s': the groups are coherence, data, sync and bulk",
			name);
		err = -EINVAL;
	} else if (place_owner(ctx->device->name, owner)) {
		snprintf(why, CQGROUP_WHY_MAX, "group %.64s belongs to %s, and not to %.64s", name,
			 owner, ctx->device->name);
		err = -ENODEV;
	} else {
		cqgroup_query(g, &info);
		if (!cpus)
			cpus = *info.cpus ? info.cpus : "none";
		err = cqgroup_create(ctx, info.name, info.vectors, cpus, out, why);
	}
	cqgroup_table_destroy(t);
	return err;
}

static void announce(const struct place *p, struct ibv_context *ctx)
{
	struct cqgroup_info info;

	cqgroup_query(p->group, &info);
	if (place_verbose())
		place_log("%s: group %s: vectors %s of 0-%d%s, waiting threads on CPUs %s",
			  p->device, info.name, info.vectors, ctx->num_comp_vectors - 1,
			  p->steer ? "" : " as the program wants",
			  *info.cpus ? info.cpus : "as the program wants");
	if (p->steer && !cqgroup_vectors_effective(ctx) && place_talks())
		place_log("%s ignores completion vectors: only threads are placed", p->device);
}

static void fill(struct place *p, struct ibv_context *ctx)
{
	const char *name = setting("CQGROUP"), *vectors = setting("CQGROUP_VECTORS"),
		   *cpus = setting("CQGROUP_CPUS"), *policy = setting("CQGROUP_POLICY");
	char why[CQGROUP_WHY_MAX];
	int err;

	if (!name && !vectors && !cpus)
		return;
	if (policy && strcmp(policy, "turns") && strcmp(policy, "least")) {
		place_log(
			"CQGROUP_POLICY is turns or least, not '%.64s'; the program runs outside of groups",
			policy);
		return;
	}
	p->steer = name || vectors;
	if (name && !vectors)
		err = group_of_table(ctx, name, cpus, &p->group, why);
	else
		err = cqgroup_create(ctx, name ? name : "preload", vectors, cpus ? cpus : "none",
				     &p->group, why);
	if (err)
		place_log("%s; the program runs outside of groups", why);
	else
		announce(p, ctx);
}

struct place *place_of(struct ibv_context *ctx)
{
	static struct place none;
	struct place *p;

	pthread_mutex_lock(&lock);
	for (p = places; p && strcmp(p->device, ctx->device->name);)
		p = p->next;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (p) {
			snprintf(p->device, sizeof(p->device), "%s", ctx->device->name);
			fill(p, ctx);
			p->next = places;
			places = p;
		}
	}
	pthread_mutex_unlock(&lock);
	return p ? p : &none;
}

static void __attribute__((destructor)) report(void)
{
	struct cqgroup_vector v[64];
	const struct place *p;
	unsigned int i, n;

	if (!place_verbose())
		return;
	for (p = places; p; p = p->next) {
		n = p->group && p->steer ? cqgroup_query_vectors(p->group, v, 64) : 0;
		for (i = 0; i < n && i < 64; i++)
			place_log("%s: vector %u: %llu CQs, %llu events, %llu completions",
				  p->device, v[i].vector, (unsigned long long)v[i].made,
				  (unsigned long long)v[i].events,
				  (unsigned long long)v[i].completions);
	}
}

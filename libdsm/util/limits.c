// SPDX-License-Identifier: BSD-2-Clause
/*
 * limits.c - how much memory the host and the cgroups of this process allow.
 *
 * /proc/self/cgroup names the cgroup of the process in each hierarchy, and /proc/self/mountinfo
 * says where that is mounted and which cgroup the mount shows as its root: in a container, often
 * that of the container. Both versions of cgroups may be in use.
 */
#include "util/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/lines.h"

#define PLACE 1024 /* bytes of a path */

static const struct version {
	const char *type;       /* of the file system */
	const char *controller; /* "": the hierarchy of version 2, which has all */
	const char *files[3];
} versions[] = {
	{ "cgroup", "memory", { "memory.limit_in_bytes" } },
	{ "cgroup2", "", { "memory.max", "memory.high" } },
};

/* Is the word in a list that commas separate? */
static bool has_word(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, word, n) && (!list[n] || list[n] == ','))
			return true;
	return false;
}

static bool limits_open(struct lines *l, const char *root, const char *name)
{
	char path[PLACE];

	return snprintf(path, sizeof(path), "%s%s", root, name) < PLACE && lines_open(l, path);
}

/* "0::/path", or "4:memory:/path". False: the process is in no cgroup of this version. */
static bool own_group(const char *root, const struct version *v, char *out)
{
	struct lines l;
	bool found = false;
	char *line, *list, *path;

	if (!limits_open(&l, root, "/proc/self/cgroup"))
		return false;
	while (!found && (line = lines_next(&l))) {
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		*path = '\0';
		found = *v->controller ? has_word(list + 1, v->controller) : !list[1];
		if (found)
			snprintf(out, PLACE, "%s", path + 1);
	}
	lines_close(&l);
	return found;
}

/*
 * "36 35 98:0 /root /mount/point options - type source options". top: the cgroup that the mount
 * shows as its root.
 */
static bool find_mount(const char *root, const struct version *v, char *top, char *at)
{
	struct lines l;
	bool found = false;
	char *line, *rest, type[32], options[PLACE];

	if (!limits_open(&l, root, "/proc/self/mountinfo"))
		return false;
	while (!found && (line = lines_next(&l))) {
		rest = strstr(line, " - ");
		if (!rest || sscanf(line, "%*s %*s %*s %1023s %1023s", top, at) != 2 ||
		    sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
			continue;
		found = !strcmp(type, v->type) &&
			(!*v->controller || has_word(options, v->controller));
	}
	lines_close(&l);
	return found;
}

/*
 * The path of a group below the root of the mount; "": it is that root, or above it, where nothing
 * can be seen.
 */
static const char *below(const char *group, const char *top)
{
	const size_t n = strcmp(top, "/") ? strlen(top) : 0;

	if (strncmp(group, top, n) || (group[n] && group[n] != '/') || strstr(group, "/.."))
		return "";
	return group[n] && group[n + 1] ? group + n : "";
}

static uint64_t file_name(const struct stat *st)
{
	return ((uint64_t)st->st_dev << 40) ^ (uint64_t)st->st_ino;
}

/* "max" is no limit. */
static void consider(const char *folder, const char *file, struct memory_limit *out)
{
	char path[PLACE + 32], *line, *end;
	struct lines l;
	struct stat st;
	uint64_t bytes;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (!lines_open(&l, path))
		return;
	line = lines_next(&l);
	bytes = line ? strtoull(line, &end, 10) : 0;
	if (line && end != line && (!out->bytes || bytes < out->bytes) && !stat(folder, &st)) {
		out->bytes = bytes;
		out->group = file_name(&st);
	}
	lines_close(&l);
}

/* The group and all above it, up to the root of the mount. */
static void consider_all(const char *root, const struct version *v, struct memory_limit *out)
{
	char group[PLACE], top[PLACE], at[PLACE], folder[PLACE];
	size_t least;
	int i;

	if (!own_group(root, v, group) || !find_mount(root, v, top, at))
		return;
	least = strlen(root) + strlen(at);
	if (snprintf(folder, sizeof(folder), "%s%s%s", root, at, below(group, top)) >= PLACE)
		return;
	for (;;) {
		for (i = 0; v->files[i]; i++)
			consider(folder, v->files[i], out);
		if (strlen(folder) <= least)
			return;
		*strrchr(folder, '/') = '\0';
	}
}

static uint64_t of_host(const char *root)
{
	struct lines l;
	unsigned long kib = 0;
	char *line;

	if (!limits_open(&l, root, "/proc/meminfo"))
		return 0;
	while (!kib && (line = lines_next(&l)))
		sscanf(line, "MemTotal: %lu kB", &kib);
	lines_close(&l);
	return (uint64_t)kib << 10;
}

void limits_memory(const char *root, struct memory_limit *out)
{
	size_t i;

	*out = (struct memory_limit){ .bytes = of_host(root) };
	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		consider_all(root, &versions[i], out);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * table.c - the groups of the protocol classes, made from a line of text and a device.
 *
 * A plan contains what the line says: devices, vectors and CPUs of the classes that it names.
 * Completing it for a device gives each class that may use this device a vector, or a host: the
 * class that it is merged into. A table does not change after it is made, so it has no lock.
 */
#include "cqgroup/table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cqgroup/divide.h"
#include "cqgroup/group.h"

static const char *const class_names[CQGROUP_CLASSES] = { "coherence", "data", "sync", "bulk" };

struct plan {
	struct {
		struct cqset vectors;
		const char *cpus;
		size_t cpus_len;
		char device[CQGROUP_DEVICE_MAX]; /* that owns the class; "": any */
		bool seen;
	} c[CQGROUP_CLASSES];
	struct cqgroup_share share[CQGROUP_CLASSES];
	bool off, devices; /* one group for all; a device for each class */
};

struct cqgroup_table {
	struct cqgroup *by_class[CQGROUP_CLASSES];
	struct cqgroup *groups[CQGROUP_CLASSES]; /* each once */
	unsigned int ngroups;
	char owner[CQGROUP_CLASSES][CQGROUP_DEVICE_MAX];
};

/* ---- the line of text ---------------------------------------------------------------------- */

static void strip(const char **p, const char **end)
{
	while (*p < *end && (**p == ' ' || **p == '\t'))
		++*p;
	while (*end > *p && ((*end)[-1] == ' ' || (*end)[-1] == '\t'))
		--*end;
}

static int class_of(const char *name, size_t len)
{
	int c;

	for (c = 0; c < CQGROUP_CLASSES; c++)
		if (strlen(class_names[c]) == len && !memcmp(class_names[c], name, len))
			return c;
	return -1;
}

/*
 * The class that already has one of the vectors of this device ("": of any); CQGROUP_CLASSES: none.
 * *at: the vector.
 */
static int plan_taken(const struct plan *p, const char *device, const struct cqset *vectors,
		      unsigned int *at)
{
	struct cqset both;
	int c;

	for (c = 0; c < CQGROUP_CLASSES; c++) {
		if (*device && *p->c[c].device && strcmp(device, p->c[c].device))
			continue;
		both = p->c[c].vectors;
		cqset_and(&both, vectors);
		*at = cqset_next(&both, 0);
		if (*at < CQSET_MAX)
			return c;
	}
	return CQGROUP_CLASSES;
}

/*
 * The length of the device's name in DEVICE:VECTORS or DEVICE, which begins with a letter; 0: there
 * is none.
 */
static size_t device_length(const char *text, const char *end)
{
	const char *colon = memchr(text, ':', (size_t)(end - text));

	return text < end && ((*text | 32) >= 'a' && (*text | 32) <= 'z')
		? (size_t)((colon ? colon : end) - text)
		: 0;
}

/* DEVICE, DEVICE:VECTORS or VECTORS of class c. */
static int parse_place(struct plan *p, int c, const char *text, const char *end, char *why)
{
	char words[CQGROUP_WHY_MAX / 2], *device = p->c[c].device;
	const char *name, *name_end;
	struct cqset vectors;
	unsigned int v;
	int other;

	strip(&text, &end);
	name = text;
	text += device_length(text, end);
	name_end = text;
	strip(&name, &name_end);
	if (name_end - name >= (ptrdiff_t)sizeof(p->c[c].device) ||
	    memchr(name, '/', (size_t)(name_end - name))) {
		cqgroup_why(why, "%s: '%.*s' is no name of a device", class_names[c],
			    (int)(name_end - name), name);
		return -EINVAL;
	}
	memcpy(device, name, (size_t)(name_end - name));
	device[name_end - name] = '\0';
	p->c[c].seen = true;
	if (*device && text == end)
		return 0; /* its share of the device's vectors */
	text += *device != '\0';
	if (cqset_parse(text, (size_t)(end - text), &vectors, words, sizeof(words))) {
		cqgroup_why(why, "vectors of %s: %s", class_names[c], words);
		return -EINVAL;
	}
	other = plan_taken(p, device, &vectors, &v);
	if (other < CQGROUP_CLASSES) {
		cqgroup_why(why, "vector %u is in %s and in %s: a vector belongs to one group", v,
			    class_names[other], class_names[c]);
		return -EINVAL;
	}
	p->share[c].named = 1;
	p->c[c].vectors = vectors;
	return 0;
}

/* NAME=PLACE or NAME=PLACE@CPUS */
static int parse_group(struct plan *p, const char *text, const char *end, char *why)
{
	const char *equals = memchr(text, '=', (size_t)(end - text)), *name_end, *list, *at;
	int c, err;

	if (!equals) {
		cqgroup_why(why, "'%.*s' is not like NAME=VECTORS or NAME=VECTORS@CPUS",
			    (int)(end - text), text);
		return -EINVAL;
	}
	name_end = equals;
	strip(&text, &name_end);
	c = class_of(text, (size_t)(name_end - text));
	if (c < 0) {
		cqgroup_why(
			why,
			"there is no group '%.*s': the groups are coherence, data, sync and bulk",
			(int)(name_end - text), text);
		return -EINVAL;
	}
	if (p->c[c].seen) {
		cqgroup_why(why, "%s is there twice", class_names[c]);
		return -EINVAL;
	}
	list = equals + 1;
	at = memchr(list, '@', (size_t)(end - list));
	err = parse_place(p, c, list, at ? at : end, why);
	if (err)
		return err;
	if (at) {
		at++;
		strip(&at, &end);
		if (at == end) {
			cqgroup_why(why, "%s has nothing after its @", class_names[c]);
			return -EINVAL;
		}
		p->c[c].cpus = at;
		p->c[c].cpus_len = (size_t)(end - at);
	}
	return 0;
}

static int plan_parse(struct plan *p, const char *config, char *why)
{
	const char *from, *end, *next;
	int c, err = 0;

	memset(p, 0, sizeof(*p));
	for (c = 0; c < CQGROUP_CLASSES; c++)
		p->c[c].cpus = "";
	if (!config || !strcmp(config, "auto"))
		return 0;
	if (!strcmp(config, "off")) {
		p->off = true;
		return 0;
	}
	if (!strcmp(config, "devices")) {
		p->devices = true;
		return 0;
	}
	for (from = config; from && !err; from = next) {
		end = strchrnul(from, ';');
		next = *end ? end + 1 : NULL;
		strip(&from, &end);
		if (from < end)
			err = parse_group(p, from, end, why);
	}
	return err;
}

/* ---- the device ---------------------------------------------------------------------------- */

static void deal_out(struct plan *p, const struct cqset *vectors)
{
	unsigned int i, v = 0;
	int c;

	for (c = 0; c < CQGROUP_CLASSES; c++)
		for (i = 0; i < p->share[c].vectors; i++, v++) {
			v = cqset_next(vectors, v);
			cqset_add(&p->c[c].vectors, v);
		}
}

/*
 * Give each class one of the active devices, as vectors are given; classes that would share a
 * vector share a device.
 */
static void plan_devices(struct plan *p)
{
	struct cqgroup_share share[CQGROUP_CLASSES] = { { 0 } };
	unsigned int of[CQGROUP_CLASSES] = { 0 }, next = 0, n;
	char names[CQGROUP_CLASSES][CQGROUP_DEVICE_MAX];
	int c;

	n = cqgroup_device_list(cqgroup_sysfs, names, CQGROUP_CLASSES);
	if (!n)
		return;
	cqgroup_divide(share, n < CQGROUP_CLASSES ? n : CQGROUP_CLASSES);
	for (c = 0; c < CQGROUP_CLASSES; c++)
		if (share[c].host == (enum cqgroup_class)c)
			of[c] = next++;
	for (c = 0; c < CQGROUP_CLASSES; c++)
		strcpy(p->c[c].device, names[of[cqgroup_host(share, (enum cqgroup_class)c)]]);
}

/*
 * Find the devices that own classes, for a process that uses the device `here`: they have to be
 * there, if sysfs shows that one.
 */
static int plan_owners(struct plan *p, const char *here, char *why)
{
	int c;

	if (p->devices)
		plan_devices(p);
	for (c = 0; c < CQGROUP_CLASSES && cqgroup_device_exists(cqgroup_sysfs, here); c++) {
		if (!*p->c[c].device || cqgroup_device_exists(cqgroup_sysfs, p->c[c].device))
			continue;
		cqgroup_why(why, "%s: this host has no device %s", class_names[c], p->c[c].device);
		return -ENODEV;
	}
	return 0;
}

/* Leave out the classes that other devices own. If none is left, all may use this one. */
static void plan_here(struct plan *p, const struct cqgroup_device *dev)
{
	const struct cqset none = { { 0 } };
	int c, here = 0;

	for (c = 0; c < CQGROUP_CLASSES; c++) {
		p->share[c].absent = *p->c[c].device && strcmp(p->c[c].device, dev->name);
		here += !p->share[c].absent;
		if (!p->share[c].absent)
			continue;
		p->share[c].named = 0;
		p->c[c].vectors = none;
	}
	p->off |= !here;
}

/* Give each class without vectors some that no class names, or a host. */
static int plan_complete(struct plan *p, const struct cqgroup_device *dev, char *why)
{
	struct cqset free_vectors = { { 0 } };
	unsigned int v, ignored;
	int c, err;

	for (c = 0; c < CQGROUP_CLASSES; c++) {
		err = p->share[c].named
			? cqgroup_vectors(dev, class_names[c], &p->c[c].vectors, why)
			: 0;
		if (err)
			return err;
	}
	for (v = 0; v < dev->nvectors; v++) {
		struct cqset one = { { 0 } };

		cqset_add(&one, v);
		if (plan_taken(p, "", &one, &ignored) == CQGROUP_CLASSES)
			cqset_add(&free_vectors, v);
	}
	if (cqgroup_divide(p->share, cqset_count(&free_vectors))) {
		for (c = 0; p->share[c].named || p->share[c].absent ||
		     p->share[c].host != (enum cqgroup_class)c;)
			c++;
		cqgroup_why(
			why,
			"no vector of the %u of %s is left for %s: name it, too, or give the others fewer",
			dev->nvectors, dev->name, class_names[c]);
		return -ENOSPC;
	}
	deal_out(p, &free_vectors);
	return 0;
}

/* "data+bulk" */
static void group_name(const struct plan *p, enum cqgroup_class host, char *buf, size_t size)
{
	size_t used = 0;
	int c;

	for (c = 0; c < CQGROUP_CLASSES; c++)
		if (!p->share[c].absent && cqgroup_host(p->share, (enum cqgroup_class)c) == host)
			used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? "+" : "",
						 class_names[c]);
}

static int make_groups(struct cqgroup_table *t, const struct plan *p, struct ibv_context *ctx,
		       const struct cqgroup_device *dev, char *why)
{
	char name[CQGROUP_NAME_MAX];
	struct cqgroup_place place;
	int c, err;

	for (c = 0; c < CQGROUP_CLASSES; c++) {
		if (p->share[c].absent || p->share[c].host != (enum cqgroup_class)c)
			continue;
		group_name(p, (enum cqgroup_class)c, name, sizeof(name));
		err = cqgroup_cpus(dev, class_names[c], &p->c[c].vectors, p->c[c].cpus,
				   p->c[c].cpus_len, &place, why);
		if (err)
			return err;
		err = cqgroup_make(ctx, dev, name, &p->c[c].vectors, &place, &t->by_class[c]);
		if (err) {
			cqgroup_why(why, "no memory for %s", name);
			return err;
		}
		t->groups[t->ngroups++] = t->by_class[c];
	}
	for (c = 0; c < CQGROUP_CLASSES; c++)
		t->by_class[c] = p->share[c].absent
			? t->groups[0]
			: t->by_class[cqgroup_host(p->share, (enum cqgroup_class)c)];
	return 0;
}

static int make_one(struct cqgroup_table *t, struct ibv_context *ctx,
		    const struct cqgroup_device *dev, char *why)
{
	struct cqset vectors = { { 0 } };
	struct cqgroup_place place;
	int c, err;

	cqset_range(&vectors, 0, dev->nvectors);
	err = cqgroup_cpus(dev, "all", &vectors, "", 0, &place, why);
	if (!err)
		err = cqgroup_make(ctx, dev, "all", &vectors, &place, &t->groups[0]);
	if (err)
		return err;
	t->ngroups = 1;
	for (c = 0; c < CQGROUP_CLASSES; c++)
		t->by_class[c] = t->groups[0];
	return 0;
}

int cqgroup_table_make(struct ibv_context *ctx, const struct cqgroup_device *dev,
		       const char *config, struct cqgroup_table **out, char *why)
{
	struct cqgroup_table *t = calloc(1, sizeof(*t));
	struct plan p;
	int c, err;

	if (!t) {
		cqgroup_why(why, "no memory for the groups");
		return -ENOMEM;
	}
	err = plan_parse(&p, config, why);
	if (!err)
		err = plan_owners(&p, dev->name, why);
	if (!err)
		plan_here(&p, dev);
	for (c = 0; c < CQGROUP_CLASSES && !err; c++)
		strcpy(t->owner[c], p.c[c].device);
	if (!err && !p.off)
		err = plan_complete(&p, dev, why);
	if (!err)
		err = p.off ? make_one(t, ctx, dev, why) : make_groups(t, &p, ctx, dev, why);
	if (err) {
		cqgroup_table_destroy(t);
		return err;
	}
	*out = t;
	return 0;
}

/* ---- the public face ----------------------------------------------------------------------- */

int cqgroup_table_create(struct ibv_context *ctx, const char *config, struct cqgroup_table **out,
			 char *why)
{
	struct cqgroup_device dev;

	cqgroup_device_of(ctx, &dev);
	return cqgroup_table_make(ctx, &dev, config, out, why);
}

int cqgroup_table_check(const char *config, char *why)
{
	struct plan p;

	return plan_parse(&p, config, why);
}

int cqgroup_table_owner(const char *config, const char *name, char device[CQGROUP_DEVICE_MAX],
			char *why)
{
	struct plan p;
	int c = class_of(name, strlen(name)), err;

	if (c < 0) {
		cqgroup_why(why,
			    "there is no group '%s': the groups are coherence, data, sync and bulk",
			    name);
		return -EINVAL;
	}
	err = plan_parse(&p, config, why);
	if (err)
		return err;
	if (p.devices)
		plan_devices(&p);
	strcpy(device, p.c[c].device);
	return 0;
}

void cqgroup_table_destroy(struct cqgroup_table *t)
{
	unsigned int i;

	if (!t)
		return;
	for (i = 0; i < t->ngroups; i++)
		cqgroup_destroy(t->groups[i]);
	free(t);
}

struct cqgroup *cqgroup_table_class(const struct cqgroup_table *t, enum cqgroup_class c)
{
	return t->by_class[(unsigned int)c < CQGROUP_CLASSES ? c : 0];
}

const char *cqgroup_table_device(const struct cqgroup_table *t, enum cqgroup_class c)
{
	const char *owner = t->owner[(unsigned int)c < CQGROUP_CLASSES ? c : 0];

	return *owner ? owner : NULL;
}

struct cqgroup *cqgroup_table_find(const struct cqgroup_table *t, const char *name)
{
	int c = class_of(name, strlen(name));

	return c < 0 ? NULL : t->by_class[c];
}

struct cqgroup *cqgroup_table_at(const struct cqgroup_table *t, unsigned int i)
{
	return i < t->ngroups ? t->groups[i] : NULL;
}

void cqgroup_table_print(const struct cqgroup_table *t, char *buf, size_t size)
{
	struct cqgroup_info info;
	size_t used = 0;
	unsigned int i;
	int n;

	if (!size)
		return;
	buf[0] = '\0';
	for (i = 0; i < t->ngroups && used < size - 1; i++) {
		cqgroup_query(t->groups[i], &info);
		n = snprintf(buf + used, size - used, "%s%s=%s@%s", i ? ";" : "", info.name,
			     info.vectors, *info.cpus ? info.cpus : "none");
		used += (size_t)n < size - used ? (size_t)n : size - used - 1;
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* config.c - settings from the environment and from the program, checked against one table. */
#include "api/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

extern char **environ;

enum kind { CHOICE, SIZE, NUMBER, SWITCH, TEXT };

static const struct row {
	const char *name;
	enum kind kind;
	size_t field;           /* in struct dsm_config; NONE: not there */
	const char *choices;    /* CHOICE: separated by spaces, the first is the default */
	uint64_t def, min, max;
	bool power;             /* of two */
	const char *help;
} rows[] = {
#define FIELD(f) offsetof(struct dsm_config, f)
#define NONE ((size_t)-1)
	{ "DSM_FAULT", CHOICE, FIELD(fault), "auto uffd mprotect", 0, 0, 0, false, "how page faults are caught" },
	{ "DSM_BACKEND", CHOICE, FIELD(backend), "auto kmod user", 0, 0, 0, false,
	  "where faults are resolved: in the kernel helper (dsm.ko) or in this process; auto: in the kernel when it is loaded" },
	{ "DSM_KMOD_MODE", CHOICE, FIELD(kmod_mode), "softirq workqueue poll", 0, 0, 0, false,
	  "where the kernel helper handles completions: interrupt context, a worker, or a thread that polls" },
	{ "DSM_NET", CHOICE, FIELD(net), "auto ucx verbs", 0, 0, 0, false,
	  "the transport between ranks that share no memory; auto: verbs where there is an RDMA device" },
	{ "DSM_NET_DEVICE", TEXT, FIELD(net_device), "NAME[:PORT], separated by commas", 0, 0, 0, false,
	  "RDMA devices to use, instead of all with an active port" },
	{ "DSM_NET_GID", TEXT, FIELD(net_gid), "an index, an address, or ipv4, ipv6", 0, 0, 0, false,
	  "RDMA: the GID to use, instead of the best by type and family" },
	{ "DSM_CQ_GROUPS", TEXT, FIELD(cq_groups), "coherence=0-1;data=2;sync=3;bulk=4-5, or off", 0, 0, 0, false,
	  "RDMA: completion vectors (and, behind @, processors) of each class" },
	{ "DSM_VERBS", TEXT, FIELD(verbs), "NAME=VALUE, separated by commas", 0, 0, 0, false,
	  "RDMA: techniques to switch, for measurements (docs/tuning.md)" },
	{ "DSM_SHORTCUT", CHOICE, FIELD(host_path), "auto on off", 0, 0, 0, false,
	  "serve ranks of one host through shared memory; off: by messages, as between hosts" },
	{ "DSM_STATS", CHOICE, FIELD(stats), "off table json 1 0", 0, 0, 0, false, "statistics of the job at its end, on stderr" },
	{ "DSM_SPACE", SIZE, FIELD(space), NULL, 256ull << 30, 64ull << 20, 4ull << 40, false, "shared address space of the job" },
	{ "DSM_HEAP", SIZE, FIELD(heap), NULL, 64ull << 30, 0, 4ull << 40, false, "part of it for the shared heap" },
	{ "DSM_BLOCK", SIZE, FIELD(block_size), NULL, 4096, 4096, BLOCK_MAX, true, "block size of regions that name none" },
	{ "DSM_HOLD_US", NUMBER, FIELD(hold_us), NULL, 5, 0, 10000, false, "microseconds that a granted block stays at least" },
	{ "DSM_SPIN_US", NUMBER, FIELD(spin_us), NULL, 20, 0, 10000, false, "microseconds that a waiter looks before it sleeps" },
	{ "DSM_READAHEAD", NUMBER, FIELD(readahead), NULL, 16, 0, 64, false, "most blocks fetched ahead of a sequential reader" },
	{ "DSM_LOST_MS", NUMBER, FIELD(lost_ms), NULL, 10000, 500, 600000, false,
	  "milliseconds of silence after which a rank of another host is lost" },
	{ "DSM_HOSTS", NUMBER, NONE, NULL, 1, 1, 64, false, "for tests: treat the ranks of a host as so many hosts" },
	{ "DSM_HELP", SWITCH, NONE, NULL, 0, 0, 1, false, "print this table and exit" },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void print_size(char *buf, size_t room, uint64_t v)
{
	static const char units[] = " KMGT";
	int u = 0;

	while (v >= 1024 && v % 1024 == 0 && u < 4) {
		v /= 1024;
		u++;
	}
	snprintf(buf, room, "%lu%.*s", (unsigned long)v, u > 0, &units[u]);
}

static void range_text(const struct row *r, char *buf, size_t room)
{
	char a[24], b[24];

	if (r->kind == CHOICE || r->kind == TEXT) {
		snprintf(buf, room, "%s%s", r->kind == CHOICE ? "one of: " : "", r->choices);
		return;
	}
	if (r->kind == SIZE) {
		print_size(a, sizeof(a), r->min);
		print_size(b, sizeof(b), r->max);
	} else {
		snprintf(a, sizeof(a), "%lu", (unsigned long)r->min);
		snprintf(b, sizeof(b), "%lu", (unsigned long)r->max);
	}
	snprintf(buf, room, "%s to %s%s", a, b, r->power ? ", a power of two" : "");
}

static int complain(const struct row *r, const char *value)
{
	char range[160];

	range_text(r, range, sizeof(range));
	log_line("%s=%s is not allowed; allowed: %s", r->name, value, range);
	return -EINVAL;
}

static bool is_choice(const char *choices, const char *value)
{
	size_t n = strlen(value);
	const char *at = choices;

	while (n && (at = strstr(at, value))) {
		if ((at == choices || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
		at++;
	}
	return false;
}

/* A number, for sizes with K, M, G or T (powers of 1,024) behind it. */
static bool parse(const struct row *r, const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno)
		return false;
	if (*end && r->kind == SIZE) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit || *out > UINT64_MAX >> 10 * (unit - units + 1))
			return false;
		*out <<= 10 * (unit - units + 1);
		end++;
	}
	return !*end;
}

static bool in_range(const struct row *r, uint64_t v)
{
	return v >= r->min && v <= r->max && (!r->power || !(v & (v - 1)));
}

static int check_names(void)
{
	char **e;
	size_t i;

	for (e = environ; *e; e++) {
		size_t n = strcspn(*e, "=");

		if (strncmp(*e, "DSM_", 4))
			continue;
		for (i = 0; i < ROWS && (strlen(rows[i].name) != n || strncmp(rows[i].name, *e, n)); i++)
			;
		if (i == ROWS) {
			log_line("unknown setting %s (DSM_HELP=1 lists all)", *e);
			return -EINVAL;
		}
	}
	return 0;
}

/* The value of a row: the environment's, or the default. */
static int value_of(const struct row *r, uint64_t *number, const char **word)
{
	const char *text = getenv(r->name);

	*number = r->def;
	*word = NULL;
	if (r->kind == CHOICE) {
		static const char *const firsts[] = { "auto", "off", "softirq" };
		size_t i = 0;

		while (i + 1 < sizeof(firsts) / sizeof(firsts[0]) && strncmp(r->choices, firsts[i], strcspn(r->choices, " ")))
			i++;
		*word = text ? text : firsts[i];
		return is_choice(r->choices, *word) ? 0 : complain(r, *word);
	}
	if (r->kind == TEXT) {
		*word = text ? text : "";
		return 0; /* checked by who knows the devices */
	}
	if (text && (!parse(r, text, number) || !in_range(r, *number)))
		return complain(r, text);
	return 0;
}

static void store(const struct row *r, struct dsm_config *cfg, uint64_t number, const char *word)
{
	char *at = (char *)cfg + r->field;

	switch (r->kind) {
	case CHOICE:
	case TEXT:
		memcpy(at, &word, sizeof(word));
		break;
	case SIZE:
		memcpy(at, &(size_t){ (size_t)number }, sizeof(size_t));
		break;
	case NUMBER:
	case SWITCH:
		memcpy(at, &(unsigned int){ (unsigned int)number }, sizeof(unsigned int));
		break;
	}
}

DSM_API int dsm_config_init(struct dsm_config *cfg)
{
	struct dsm_config c = { .struct_size = sizeof(c) };
	size_t i;
	int err;

	if (!cfg)
		return -EINVAL;
	err = check_names();
	for (i = 0; i < ROWS && !err; i++) {
		uint64_t number;
		const char *word;

		err = value_of(&rows[i], &number, &word);
		if (!err && rows[i].field != NONE)
			store(&rows[i], &c, number, word);
	}
	/* A smaller space without a word about the heap: the heap shrinks along. */
	if (!getenv("DSM_HEAP") && c.heap > c.space / 4)
		c.heap = c.space / 4;
	if (!err)
		*cfg = c;
	return err;
}

/* The program may have changed what dsm_config_init() filled in. */
static int check(const struct dsm_config *cfg)
{
	size_t i;

	for (i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];
		const char *at = (const char *)cfg + r->field;
		uint64_t v = 0;
		char text[24];

		if (r->field == NONE)
			continue;
		if (r->kind == TEXT) {
			const char *word;

			memcpy(&word, at, sizeof(word));
			if (!word)
				return complain(r, "NULL");
			continue;
		}
		if (r->kind == CHOICE) {
			const char *word;

			memcpy(&word, at, sizeof(word));
			if (!word || !is_choice(r->choices, word))
				return complain(r, word ? word : "NULL");
			continue;
		}
		memcpy(&v, at, r->kind == SIZE ? sizeof(size_t) : sizeof(unsigned int));
		snprintf(text, sizeof(text), "%lu", (unsigned long)v);
		if (!in_range(r, v))
			return complain(r, text);
	}
	if (cfg->heap > cfg->space - cfg->space / 4) {
		log_line("DSM_HEAP may be at most three quarters of DSM_SPACE");
		return -EINVAL;
	}
	return 0;
}

static const struct row *row_of(const char *name)
{
	const struct row *r = rows;

	while (strcmp(r->name, name))
		r++;
	return r;
}

int config_read(const struct dsm_config *cfg, struct settings *out)
{
	struct dsm_config env;
	uint64_t hosts;
	const char *word;
	int err = dsm_config_init(&env);

	if (err)
		return err;
	if (cfg && cfg->struct_size != sizeof(*cfg)) {
		log_line("struct dsm_config was not filled by dsm_config_init() of this library");
		return -EINVAL;
	}
	if (!cfg)
		cfg = &env;
	err = check(cfg);
	if (err)
		return err;
	value_of(row_of("DSM_HOSTS"), &hosts, &word);
	*out = (struct settings){
		.fault = cfg->fault, .net = cfg->net, .host_path = cfg->host_path, .stats = cfg->stats,
		.space = cfg->space & ~(REGION_UNIT - 1), .heap = cfg->heap, .block_size = cfg->block_size,
		.hold_us = cfg->hold_us, .spin_us = cfg->spin_us, .readahead = cfg->readahead, .lost_ms = cfg->lost_ms,
		.hosts = (unsigned int)hosts, .backend = cfg->backend, .kmod_mode = cfg->kmod_mode, .net_device = cfg->net_device,
		.net_gid = cfg->net_gid, .cq_groups = cfg->cq_groups, .verbs = cfg->verbs,
	};
	return 0;
}

void config_help(void)
{
	size_t i;

	printf("libdsm %s: settings (environment variables; the program may set them too)\n\n", dsm_version());
	for (i = 0; i < ROWS; i++) {
		char range[160], def[64];

		range_text(&rows[i], range, sizeof(range));
		if (rows[i].kind == CHOICE)
			snprintf(def, sizeof(def), "%.*s", (int)strcspn(rows[i].choices, " "), rows[i].choices);
		else if (rows[i].kind == TEXT)
			snprintf(def, sizeof(def), "none");
		else if (rows[i].kind == SIZE)
			print_size(def, sizeof(def), rows[i].def);
		else
			snprintf(def, sizeof(def), "%lu", (unsigned long)rows[i].def);
		printf("  %-14s %s\n  %-14s   default %s; %s\n", rows[i].name, rows[i].help, "", def, range);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* config.c - settings from the environment and from the program, checked against one table. */
#include "api/init.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

#define HOME_RUN ((uint64_t)64 << 10) /* of DSM_HOME=cyclic without a size */
#define HOME_RUN_LEAST PAGE_BYTES
#define HOME_RUN_MOST ((uint64_t)1 << 30)

extern char **environ;

enum kind { CHOICE, SIZE, NUMBER, SWITCH, TEXT, HOMES };

static const struct row {
	const char *name;
	enum kind kind;
	size_t field;        /* offset in struct dsm_config; NONE: not there */
	const char *choices; /* CHOICE, HOMES: separated by spaces, the first is the default */
	uint64_t def, min, max;
	bool power; /* must be a power of two */
	const char *help;
	/* clang-format off */
} rows[] = {
#define FIELD(f) offsetof(struct dsm_config, f)
#define NONE ((size_t)-1)
	{ "DSM_FAULT", CHOICE, FIELD(fault), "auto uffd mprotect", 0, 0, 0, false, "how page faults are caught" },
	{ "DSM_BACKEND", CHOICE, FIELD(backend), "auto kmod user", 0, 0, 0, false,
	  "where faults are resolved: in the kernel helper (dsm.ko) or in this process; auto: in the kernel if it is loaded" },
	{ "DSM_KMOD_MODE", CHOICE, FIELD(kmod_mode), "softirq workqueue poll", 0, 0, 0, false,
	  "where the kernel helper handles completions: interrupt context, a worker, or a polling thread" },
	{ "DSM_NET", CHOICE, FIELD(net), "auto ucx verbs shared", 0, 0, 0, false,
	  "transport between ranks that share no memory; auto: verbs if there is an RDMA device" },
	{ "DSM_NET_DEVICE", TEXT, FIELD(net_device), "NAME[:PORT], separated by commas", 0, 0, 0, false,
	  "RDMA devices to use; default: all with an active port" },
	{ "DSM_NET_GID", TEXT, FIELD(net_gid), "an index, an address, or ipv4, ipv6", 0, 0, 0, false,
	  "RDMA: the GID to use; default: the best by type and family" },
	{ "DSM_CQ_GROUPS", TEXT, FIELD(cq_groups), "coherence=0-1;data=2;sync=3;bulk=4-5, or off", 0, 0, 0, false,
	  "RDMA: completion vectors (and, after @, processors) of each class" },
	{ "DSM_VERBS", TEXT, FIELD(verbs), "NAME=VALUE, separated by commas", 0, 0, 0, false,
	  "RDMA: switches techniques, for measurements (docs/tuning.md)" },
	{ "DSM_NODE", CHOICE, FIELD(node), "host rank", 0, 1, 1024, false,
	  "ranks of a node, which has one copy of each block: those of a host, one rank, or a number" },
	{ "DSM_HUGE", CHOICE, FIELD(huge), "auto on off", 0, 0, 0, false,
	  "huge pages in a job of one node; auto: if the host provides them; on: the same, with a message if it does not" },
	{ "DSM_PLACE", CHOICE, FIELD(place), "spread fill load", 0, 0, 0, false,
	  "where dsm_spawn() makes threads: on the ranks in turn, DSM_THREADS on a rank before the next, or where fewest run" },
	{ "DSM_THREADS", NUMBER, FIELD(threads), NULL, 1, 1, 4096, false, "threads of a rank before DSM_PLACE=fill takes the next" },
	{ "DSM_STATS", CHOICE, FIELD(stats), "off table json 1 0", 0, 0, 0, false, "print statistics of the job at its end, on stderr" },
	{ "DSM_STATS_SKIP", TEXT, FIELD(stats_skip), "names of functions, or patterns, separated by commas", 0, 0, 0, false,
	  "functions that wrap malloc(): the places of allocations in statistics are those of their callers" },
	{ "DSM_SPACE", SIZE, FIELD(space), NULL, 256ull << 30, 64ull << 20, 4ull << 40, false, "shared address space of the job" },
	{ "DSM_HEAP", SIZE, FIELD(heap), NULL, 128ull << 30, 0, 4ull << 40, false, "part of that space for the shared heap" },
	{ "DSM_BLOCK", SIZE, FIELD(block_size), NULL, 4096, 4096, BLOCK_MAX, true, "block size of regions whose options set none" },
	{ "DSM_HOLD_US", NUMBER, FIELD(hold_us), NULL, 5, 0, 10000, false, "minimum time that a node keeps a granted block, in microseconds" },
	{ "DSM_SPIN_US", NUMBER, FIELD(spin_us), NULL, 20, 0, 10000, false, "time that a waiter polls before it sleeps, in microseconds" },
	{ "DSM_QUANTUM_MS", NUMBER, FIELD(quantum_ms), NULL, 100, 0, 10000, false,
	  "maximum length of a node's turn with mutexes that bounce between nodes, in milliseconds; 0: no turns, a free mutex is passed on at once" },
	{ "DSM_READAHEAD", NUMBER, FIELD(readahead), NULL, 16, 0, 64, false, "maximum number of blocks fetched ahead of a thread" },
	{ "DSM_PUSH", CHOICE, FIELD(push), "on off", 0, 0, 0, false,
	  "blocks that their home reads again and again after another node has written them come back to it at barriers" },
	{ "DSM_HOME", HOMES, FIELD(home), "first cyclic blocked cyclic:SIZE", 0, HOME_RUN_LEAST, HOME_RUN_MOST, true,
	  "homes of blocks that the program does not place: where they are touched first, SIZE (64K) for each node in turn, or equal parts" },
	{ "DSM_CONSISTENCY", CHOICE, FIELD(consistency), "sequential release", 0, 0, 0, false,
	  "of the variables and the heap of a program with threads, and of regions that leave it to this; release: for programs that synchronise by calls alone" },
	{ "DSM_ATOMICS", CHOICE, FIELD(atomics), "check trust", 0, 0, 0, false,
	  "DSM_CONSISTENCY=release refuses programs with atomic instructions; trust: run them, they are not for shared data" },
	{ "DSM_TWINS", SIZE, FIELD(twins), NULL, 256ul << 20, 16384, SETTINGS_TWINS_MOST, false,
	  "memory of a node for copies of release blocks that it writes, at most a quarter of DSM_MEMORY; if it is used up, changes are sent early" },
	{ "DSM_MEMORY", SIZE, FIELD(memory), NULL, 0, 16ul << 20, 4ull << 40, false,
	  "memory of a node for copies of shared memory and its tables; above it, copies that others have or can take are given up; "
	  "0: what its host and cgroup allow, less a reserve" },
	{ "DSM_LOST_MS", NUMBER, FIELD(lost_ms), NULL, 10000, 500, 600000, false,
	  "silence after which a rank on another host is lost, in milliseconds" },
	{ "DSM_STALL_MS", NUMBER, FIELD(stall_ms), NULL, 30000, 0, 86400000, false,
	  "waiting time after which one line says which ranks wait for what, in milliseconds; 0: never" },
	{ "DSM_MMAP", SWITCH, NONE, NULL, 1, 0, 1, false,
	  "anonymous shared mappings of a program with libdsm-pthread.so are shared by all ranks" },
	{ "DSM_OWN_LIBRARIES", CHOICE, NONE, "outside rank share", 0, 0, 0, false,
	  "shared libraries whose variables and threads are those of a program with libdsm-pthread.so: all outside /lib and /usr/lib, none, or all" },
	{ "DSM_FEATURES", CHOICE, NONE, "check trust", 0, 0, 0, false,
	  "a program with libdsm-pthread.so is refused if processors of ranks have different features; trust: no function that it shares needs one" },
	{ "DSM_PROCESSORS", CHOICE, NONE, "job host", 0, 0, 0, false,
	  "the processors that a program with libdsm-pthread.so sees: those of all ranks, or of the rank's host" },
	{ "DSM_DEADLOCK", CHOICE, FIELD(deadlock), "report abort off", 0, 0, 0, false,
	  "when all threads of all ranks wait for each other for DSM_STALL_MS: print what each waits for; end the job as well" },
	{ "DSM_STRICT", SWITCH, NONE, NULL, 0, 0, 1, false, "unknown variables that start with DSM_ are errors, not warnings" },
	{ "DSM_HELP", SWITCH, NONE, NULL, 0, 0, 1, false, "print this table and exit" },
};
/* clang-format on */
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
		if (r->max)
			snprintf(buf + strlen(buf), room - strlen(buf), ", %lu to %lu",
				 (unsigned long)r->min, (unsigned long)r->max);
		return;
	}
	if (r->kind == SIZE || r->kind == HOMES) {
		print_size(a, sizeof(a), r->min);
		print_size(b, sizeof(b), r->max);
	} else {
		snprintf(a, sizeof(a), "%lu", (unsigned long)r->min);
		snprintf(b, sizeof(b), "%lu", (unsigned long)r->max);
	}
	snprintf(buf, room, "%s%s%s%s to %s%s", r->kind == HOMES ? "one of: " : "",
		 r->kind == HOMES ? r->choices : "", r->kind == HOMES ? ", " : "", a, b,
		 r->power ? ", a power of two" : "");
}

static int setting_complain(const struct row *r, const char *value)
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
static bool setting_parse(const struct row *r, const char *text, uint64_t *out)
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

/* One of the words, or if the row has a range, a number in it. */
static bool may_be(const struct row *r, const char *value)
{
	uint64_t n;

	return is_choice(r->choices, value) ||
		(r->max && setting_parse(r, value, &n) && n >= r->min && n <= r->max);
}

static bool in_range(const struct row *r, uint64_t v)
{
	return v == r->def || (v >= r->min && v <= r->max && (!r->power || !(v & (v - 1))));
}

/* first, blocked, cyclic or cyclic:SIZE. False: none of them. */
static bool homes_parse(const char *value, enum homes *homes, size_t *run)
{
	static const struct row size = {
		.kind = SIZE, .min = HOME_RUN_LEAST, .max = HOME_RUN_MOST, .power = true
	};
	uint64_t n = HOME_RUN;

	*homes = !strcmp(value, "first")    ? HOMES_FIRST
		: !strcmp(value, "blocked") ? HOMES_BLOCKED
					    : HOMES_CYCLIC;
	*run = 0;
	if (*homes != HOMES_CYCLIC)
		return true;
	if (strcmp(value, "cyclic") &&
	    (strncmp(value, "cyclic:", 7) || !setting_parse(&size, value + 7, &n) ||
	     !in_range(&size, n)))
		return false;
	*run = (size_t)n;
	return true;
}

static bool homes_may_be(const char *value)
{
	enum homes homes;
	size_t run;

	return homes_parse(value, &homes, &run);
}

/* The next variable of the environment that starts with DSM_ and is no setting; NULL: none. */
static char **next_unknown(char **e)
{
	size_t i;

	for (; *e; e++) {
		size_t n = strcspn(*e, "=");

		if (strncmp(*e, "DSM_", 4))
			continue;
		for (i = 0; i < ROWS && (strlen(rows[i].name) != n || strncmp(rows[i].name, *e, n));
		     i++)
			;
		if (i == ROWS)
			return e;
	}
	return NULL;
}

#define NAME_MOST 32

/* Letters to insert, take away or change until a is b (Wagner and Fischer, 1974). */
static unsigned int distance(const char *a, size_t na, const char *b)
{
	unsigned int row[NAME_MOST + 1], i, k, nb = (unsigned int)strlen(b);

	for (k = 0; k <= nb; k++)
		row[k] = k;
	for (i = 0; i < na; i++) {
		unsigned int corner = row[0];

		row[0] = i + 1;
		for (k = 0; k < nb; k++) {
			unsigned int change = corner + (a[i] != b[k]);

			corner = row[k + 1];
			row[k + 1] = (row[k] < corner ? row[k] : corner) + 1;
			if (row[k + 1] > change)
				row[k + 1] = change;
		}
	}
	return row[nb];
}

/* A setting with so similar a name that it may be meant; NULL: there is none. */
static const char *nearest(const char *name, size_t n)
{
	/* below half of the letters that distinguish DSM_HEAP */
	unsigned int best = n < 10 ? 3 : 4, d;
	const char *found = NULL;
	size_t i;

	for (i = 0; i < ROWS && n <= NAME_MOST; i++) {
		d = distance(name, n, rows[i].name);
		if (d < best) {
			best = d;
			found = rows[i].name;
		}
	}
	return found;
}

static void log_unknown(const char *variable, const char *what)
{
	const size_t n = strcspn(variable, "=");
	const char *meant = nearest(variable, n);

	log_line("%.*s is not a setting%s%s%s (%s)", (int)n, variable,
		 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "", what);
}

static int check_names(void)
{
	const char *strict = getenv("DSM_STRICT");
	char **e = strict && !strcmp(strict, "1") ? next_unknown(environ) : NULL;

	if (!e)
		return 0;
	log_unknown(*e, "DSM_HELP=1 lists all; DSM_STRICT=1 refuses it");
	return -EINVAL;
}

void config_warn(void)
{
	char **e;

	for (e = next_unknown(environ); e; e = next_unknown(e + 1))
		log_unknown(*e, "ignored; DSM_HELP=1 lists all, DSM_STRICT=1 refuses unknown ones");
}

/* The value of a row: the environment's, or the default. */
static int setting_value(const struct row *r, uint64_t *number, const char **word)
{
	const char *text = getenv(r->name);

	*number = r->def;
	*word = NULL;
	if (r->kind == CHOICE) {
		static const char *const firsts[] = { "auto",       "off",    "on",     "host",
						      "softirq",    "spread", "report", "job",
						      "sequential", "check",  "rank" };
		size_t i = 0;

		while (i + 1 < sizeof(firsts) / sizeof(firsts[0]) &&
		       strncmp(r->choices, firsts[i], strcspn(r->choices, " ")))
			i++;
		*word = text ? text : firsts[i];
		return may_be(r, *word) ? 0 : setting_complain(r, *word);
	}
	if (r->kind == TEXT) {
		*word = text ? text : "";
		return 0; /* the transport checks it, which knows the devices */
	}
	if (r->kind == HOMES) {
		*word = text ? text : "first";
		return homes_may_be(*word) ? 0 : setting_complain(r, *word);
	}
	if (text && (!setting_parse(r, text, number) || !in_range(r, *number)))
		return setting_complain(r, text);
	return 0;
}

static void setting_store(const struct row *r, struct dsm_config *cfg, uint64_t number,
			  const char *word)
{
	char *at = (char *)cfg + r->field;

	switch (r->kind) {
	case CHOICE:
	case HOMES:
	case TEXT: memcpy(at, &word, sizeof(word)); break;
	case SIZE: memcpy(at, &(size_t){ (size_t)number }, sizeof(size_t)); break;
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

		err = setting_value(&rows[i], &number, &word);
		if (!err && rows[i].field != NONE)
			setting_store(&rows[i], &c, number, word);
	}
	/* If the space is set smaller and the heap is not set, the heap shrinks, too. */
	if (!getenv("DSM_HEAP") && getenv("DSM_SPACE") && c.heap > c.space / 4)
		c.heap = c.space / 4;
	if (!err)
		*cfg = c;
	return err;
}

/* The program may have changed what dsm_config_init() filled in. */
static int config_check(const struct dsm_config *cfg)
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
				return setting_complain(r, "NULL");
			continue;
		}
		if (r->kind == CHOICE || r->kind == HOMES) {
			const char *word;

			memcpy(&word, at, sizeof(word));
			if (!word || !(r->kind == HOMES ? homes_may_be(word) : may_be(r, word)))
				return setting_complain(r, word ? word : "NULL");
			continue;
		}
		memcpy(&v, at, r->kind == SIZE ? sizeof(size_t) : sizeof(unsigned int));
		snprintf(text, sizeof(text), "%lu", (unsigned long)v);
		if (!in_range(r, v))
			return setting_complain(r, text);
	}
	if (cfg->heap > cfg->space - cfg->space / 4) {
		log_line("DSM_HEAP may be at most three quarters of DSM_SPACE");
		return -EINVAL;
	}
	return 0;
}

int config_read(const struct dsm_config *cfg, struct settings *out)
{
	struct dsm_config env;
	int err = dsm_config_init(&env);

	if (err)
		return err;
	if (cfg && cfg->struct_size != sizeof(*cfg)) {
		log_line("struct dsm_config was not filled by dsm_config_init() of this library");
		return -EINVAL;
	}
	if (!cfg)
		cfg = &env;
	err = config_check(cfg);
	if (err)
		return err;
	*out = (struct settings){
		.fault = cfg->fault,
		.net = cfg->net,
		.stats = cfg->stats,
		.space = cfg->space & ~(UNIT_BYTES - 1),
		.heap = cfg->heap,
		.block_size = cfg->block_size,
		.hold_us = cfg->hold_us,
		.spin_us = cfg->spin_us,
		.readahead = cfg->readahead,
		.twins = cfg->twins / PAGE_BYTES,
		.memory = cfg->memory,
		.push = !strcmp(cfg->push, "on"),
		.lost_ms = cfg->lost_ms,
		.stall_ms = cfg->stall_ms,
		.backend = cfg->backend,
		.kmod_mode = cfg->kmod_mode,
		.net_device = cfg->net_device,
		.net_gid = cfg->net_gid,
		.cq_groups = cfg->cq_groups,
		.verbs = cfg->verbs,
		.node = cfg->node,
		.huge = cfg->huge,
		.place = cfg->place,
		.threads = cfg->threads,
		.quantum_ms = cfg->quantum_ms,
		.deadlock = cfg->deadlock,
		.stats_skip = cfg->stats_skip,
		.release = !strcmp(cfg->consistency, "release"),
		.trust = !strcmp(cfg->atomics, "trust"),
	};
	homes_parse(cfg->home, &out->homes, &out->home_run);
	return 0;
}

void config_help(void)
{
	size_t i;

	printf("libdsm %s: settings (environment variables; the program may set them too)\n\n",
	       dsm_version());
	for (i = 0; i < ROWS; i++) {
		char range[160], def[64];

		range_text(&rows[i], range, sizeof(range));
		if (rows[i].kind == CHOICE || rows[i].kind == HOMES)
			snprintf(def, sizeof(def), "%.*s", (int)strcspn(rows[i].choices, " "),
				 rows[i].choices);
		else if (rows[i].kind == TEXT)
			snprintf(def, sizeof(def), "none");
		else if (rows[i].kind == SIZE)
			print_size(def, sizeof(def), rows[i].def);
		else
			snprintf(def, sizeof(def), "%lu", (unsigned long)rows[i].def);
		printf("  %-14s %s\n  %-14s   default %s; %s\n", rows[i].name, rows[i].help, "",
		       def, range);
	}
}

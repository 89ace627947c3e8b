// SPDX-License-Identifier: BSD-2-Clause
/*
 * statics.c - what functions of the C library keep between calls, or return a pointer to, is the
 * job's for calls of the program: the place of strtok(), the table of hsearch(), the buffers of
 * localtime() and its like, the variables of getopt(). Strings of the C library that do not change
 * (messages, names of time zones) are returned as shared copies.
 *
 * As in one process, nothing protects it from calls at the same time: these functions are not for
 * that. Only the list of strings has a lock, because strerror() and localtime_r() may be called at
 * any time.
 */
#include "statics.h"

#include <getopt.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "copies.h"
#include "everywhere.h"

#define TEXT 128u /* more than asctime() and ecvt() write */

struct string {
	struct string *next;
	char text[];
};

struct options {
	int index, errors, option;
	char *arg;
};

struct statics {
	char *token; /* of strtok() */
	struct hsearch_data table;
	struct tm tm;
	char time[TEXT], number[TEXT], radix[TEXT], address[TEXT];
	char *places[STATICS_PLACES];
	struct options options;
	char zone[TEXT]; /* TZ, when a thread has last told the C library */
	uint32_t strings_lock;
	struct string *strings;
};

/* the variables of getopt() as this rank has last read or written the job's */
static struct options known;

int statics_start(void)
{
	team->statics = dsm_calloc(1, sizeof(*team->statics));
	if (!team->statics)
		return -ENOMEM;
	return 0;
}

static struct options options_now(void)
{
	return (struct options){ optind, opterr, optopt, optarg };
}

/* Before the program's first call. */
void statics_join(void)
{
	known = options_now();
	if (!shim.rank)
		team->statics->options = known;
}

/* ---- strings --------------------------------------------------------------------------------- */

static char *find_string(const char *s)
{
	struct string *at = __atomic_load_n(&team->statics->strings, __ATOMIC_ACQUIRE);

	while (at && strcmp(at->text, s))
		at = at->next;
	return at ? at->text : NULL;
}

/*
 * Added at the front, and never removed: readers take no lock, and two threads may add the same
 * one.
 */
static char *add_string(const char *s)
{
	struct statics *t = team->statics;
	struct string *made = plain_alloc(sizeof(*made) + strlen(s) + 1);

	if (!made)
		return NULL;
	strcpy(made->text, s);
	brief_lock(&t->strings_lock);
	made->next = t->strings;
	__atomic_store_n(&t->strings, made, __ATOMIC_RELEASE);
	brief_unlock(&t->strings_lock);
	return made->text;
}

char *string_intern(const char *s)
{
	char *found;

	if (!s || is_shared(s))
		return (char *)(uintptr_t)s;
	found = find_string(s);
	if (!found)
		found = add_string(s);
	return found ? found : (char *)(uintptr_t)s;
}

char **statics_place(unsigned int i)
{
	return &team->statics->places[i];
}

char *statics_text(const char *address)
{
	return strcpy(team->statics->address, address);
}

EXPORT char *strerror(int number)
{
	char *s = NEXT(strerror)(number);

	return caller_is_ours(CALLER) ? string_intern(s) : s;
}

EXPORT char *strsignal(int number)
{
	char *s = NEXT(strsignal)(number);

	return caller_is_ours(CALLER) ? string_intern(s) : s;
}

/* ---- strtok(), hsearch(), numbers ------------------------------------------------------------ */

EXPORT char *strtok(char *s, const char *ends)
{
	return caller_is_ours(CALLER) ? strtok_r(s, ends, &team->statics->token)
				      : NEXT(strtok)(s, ends);
}

EXPORT int hcreate(size_t n)
{
	return caller_is_ours(CALLER) ? hcreate_r(n, &team->statics->table) : NEXT(hcreate)(n);
}

/* The C library allocates the table by malloc(). */
EXPORT int hcreate_r(size_t n, struct hsearch_data *table)
{
	const bool ours = caller_is_ours(CALLER);
	int made;

	lent += ours;
	made = NEXT(hcreate_r)(n, table);
	lent -= ours;
	return made;
}

EXPORT ENTRY *hsearch(ENTRY item, ACTION action)
{
	ENTRY *found;

	if (!caller_is_ours(CALLER))
		return NEXT(hsearch)(item, action);
	hsearch_r(item, action, &found, &team->statics->table);
	return found;
}

EXPORT void hdestroy(void)
{
	if (caller_is_ours(CALLER))
		hdestroy_r(&team->statics->table);
	else
		NEXT(hdestroy)();
}

/* A buffer of the C library's, in a shared one. */
static char *statics_copy(char *to, const char *from)
{
	return from ? strncpy(to, from, TEXT - 1) : NULL;
}

EXPORT char *l64a(long n)
{
	char *s = NEXT(l64a)(n);

	return caller_is_ours(CALLER) ? statics_copy(team->statics->radix, s) : s;
}

EXPORT char *ecvt(double value, int digits, int *point, int *sign)
{
	char *s = NEXT(ecvt)(value, digits, point, sign);

	return caller_is_ours(CALLER) ? statics_copy(team->statics->number, s) : s;
}

EXPORT char *fcvt(double value, int digits, int *point, int *sign)
{
	char *s = NEXT(fcvt)(value, digits, point, sign);

	return caller_is_ours(CALLER) && strlen(s) < TEXT ? statics_copy(team->statics->number, s)
							  : s;
}

/* ---- time ------------------------------------------------------------------------------------ */

/*
 * Both variables, where the executable holds one; the program's is not the one that the C library
 * sets.
 */
static void share_zone(void)
{
	char **library = copies_library(tzname);
	int i;

	for (i = 0; i < 2; i++) {
		char *zone = string_intern(library[i]);

		if (tzname[i] != zone) /* it may be shared: no write without need */
			tzname[i] = zone;
	}
}

static void *zone_here(void *arg)
{
	NEXT(tzset)();
	share_zone();
	(void)arg;
	return NULL;
}

/*
 * The caller has made this rank's C library read TZ, which is the same on all ranks. If it has
 * changed, the others read it, too.
 */
static void note_zone(void)
{
	struct statics *t = team->statics;
	const char *zone = NEXT(getenv)("TZ");
	char none = 0;

	zone = zone ? zone : "\1";
	if (!strncmp(t->zone, zone, TEXT - 1))
		return;
	strncpy(t->zone, zone, TEXT - 1);
	if (everywhere_call(EVERYWHERE, zone_here, &none, sizeof(none)))
		start_cannot("tzset()");
}

static struct tm *share_tm(struct tm *tm)
{
	if (tm) {
		tm->tm_zone = string_intern(tm->tm_zone);
		share_zone();
	}
	return tm;
}

static struct tm *keep_tm(const struct tm *tm)
{
	if (!tm)
		return NULL;
	team->statics->tm = *tm;
	return share_tm(&team->statics->tm);
}

EXPORT void tzset(void)
{
	NEXT(tzset)();
	if (!caller_is_ours(CALLER))
		return;
	note_zone();
	share_zone();
}

EXPORT struct tm *localtime(const time_t *t)
{
	struct tm *tm = NEXT(localtime)(t);

	if (!caller_is_ours(CALLER))
		return tm;
	note_zone();
	return keep_tm(tm);
}

EXPORT struct tm *gmtime(const time_t *t)
{
	struct tm *tm = NEXT(gmtime)(t);

	return caller_is_ours(CALLER) ? keep_tm(tm) : tm;
}

EXPORT struct tm *localtime_r(const time_t *t, struct tm *out)
{
	struct tm *tm = NEXT(localtime_r)(t, out);

	return caller_is_ours(CALLER) ? share_tm(tm) : tm;
}

EXPORT time_t mktime(struct tm *tm)
{
	time_t t = NEXT(mktime)(tm);

	if (caller_is_ours(CALLER)) {
		note_zone();
		share_tm(tm);
	}
	return t;
}

EXPORT char *asctime(const struct tm *tm)
{
	char *s = NEXT(asctime)(tm);

	return caller_is_ours(CALLER) ? statics_copy(team->statics->time, s) : s;
}

EXPORT char *ctime(const time_t *t)
{
	char *s = NEXT(ctime)(t);

	if (!caller_is_ours(CALLER))
		return s;
	note_zone();
	share_zone();
	return statics_copy(team->statics->time, s);
}

/* ---- getopt() -------------------------------------------------------------------------------- */

static bool options_are_same(const struct options *a, const struct options *b)
{
	return a->index == b->index && a->errors == b->errors && a->option == b->option &&
		a->arg == b->arg;
}

static void options_set(const struct options *o)
{
	optind = o->index;
	opterr = o->errors;
	optopt = o->option;
	optarg = o->arg;
	known = *o;
}

void statics_offer(void)
{
	const struct options now = options_now();

	if (options_are_same(&now, &known))
		return;
	known = now;
	team->statics->options = now;
}

void statics_follow(void)
{
	const struct options *last = &team->statics->options;

	if (!options_are_same(last, &known))
		options_set(last);
}

EXPORT int __posix_getopt(int argc, char *const argv[], const char *options);

/* A call of one of the functions. */
struct scan {
	enum { GETOPT, POSIX_GETOPT, GETOPT_LONG, GETOPT_LONG_ONLY } which;
	int argc, result;
	char *const *argv;
	const char *options;
	const struct option *names;
	int *index;
	struct options variables;
};

static int scan_next(const struct scan *s)
{
	switch (s->which) {
	case GETOPT: return NEXT(getopt)(s->argc, s->argv, s->options);
	case POSIX_GETOPT: return NEXT(__posix_getopt)(s->argc, s->argv, s->options);
	case GETOPT_LONG:
		return NEXT(getopt_long)(s->argc, s->argv, s->options, s->names, s->index);
	case GETOPT_LONG_ONLY: break;
	}
	return NEXT(getopt_long_only)(s->argc, s->argv, s->options, s->names, s->index);
}

/* On rank 0, where the C library knows how far it has come. */
static void *scan_here(void *arg)
{
	struct scan *s = arg;

	options_set(&s->variables);
	s->result = scan_next(s);
	s->variables = known = options_now();
	return NULL;
}

static int statics_scan(struct scan s)
{
	statics_offer();
	statics_follow();
	s.variables = options_now();
	s.result = -1;
	if (!shim.rank)
		scan_here(&s);
	else if (everywhere_call(0, scan_here, &s, sizeof(s)))
		start_cannot("getopt()");
	options_set(&s.variables);
	team->statics->options = s.variables;
	return s.result;
}

#define SCAN(which, names, index) \
	statics_scan((struct scan){ which, argc, 0, argv, options, names, index, { 0 } })

EXPORT int getopt(int argc, char *const argv[], const char *options)
{
	return caller_is_ours(CALLER) ? SCAN(GETOPT, NULL, NULL)
				      : NEXT(getopt)(argc, argv, options);
}

EXPORT int __posix_getopt(int argc, char *const argv[], const char *options)
{
	return caller_is_ours(CALLER) ? SCAN(POSIX_GETOPT, NULL, NULL)
				      : NEXT(__posix_getopt)(argc, argv, options);
}

EXPORT int getopt_long(int argc, char *const argv[], const char *options,
		       const struct option *names, int *index)
{
	return caller_is_ours(CALLER) ? SCAN(GETOPT_LONG, names, index)
				      : NEXT(getopt_long)(argc, argv, options, names, index);
}

EXPORT int getopt_long_only(int argc, char *const argv[], const char *options,
			    const struct option *names, int *index)
{
	return caller_is_ours(CALLER) ? SCAN(GETOPT_LONG_ONLY, names, index)
				      : NEXT(getopt_long_only)(argc, argv, options, names, index);
}

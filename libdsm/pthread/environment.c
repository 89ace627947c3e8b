// SPDX-License-Identifier: BSD-2-Clause
/*
 * environment.c - the environment is rank 0's, on all ranks, and a change by any thread reaches all
 * ranks before the call returns.
 *
 * There are two copies. The program's, in the shared heap, is what getenv() of the program returns,
 * so such a pointer is valid on all ranks, also for writing (strtok()). The other one is `environ`:
 * the C library and the kernel read it, who may miss no block, so it is private memory; it is at
 * the same address on all ranks, with the same contents, because an executable may have `environ`
 * itself among its variables, which are shared (copies.h). A change makes a new image of it, behind
 * the last one, in a ring.
 *
 * A program may assign to `environ` and to its elements, and a library's setenv() may do so in the
 * C library: the next call here notices and takes it. `lock` is held while an image is published,
 * by one rank after the other.
 */
#include "parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "copies.h"
#include "everywhere.h"

#define RING (4ul << 20)
#define NAME 4096
#define ROOM 64u /* more than there are, at first */

struct environment {
	pthread_mutex_t lock;
	char **text; /* NAME=value; never freed, for others may read it */
	uint32_t count, room;
	const char *ring; /* of rank 0 */
	char name[NAME];  /* program_invocation_name */
};

/* This library is at the same address on all ranks, and so are these. */
static char ring[RING] __attribute__((aligned(16)));
static char name[NAME];
static size_t used;
static char **published; /* environ, unless somebody has assigned to it */
static uint32_t words;   /* its elements */

/* ---- the image ------------------------------------------------------------------------------- */

static size_t image_size(void)
{
	const struct environment *e = team->environment;
	size_t size = (e->count + 1) * sizeof(char *);
	uint32_t i;

	for (i = 0; i < e->count; i++)
		size += strlen(e->text[i]) + 1;
	return (size + 15) & ~15ul;
}

/* All ranks do this for the same changes, and so have the same images at the same places. */
static void *publish_here(void *arg)
{
	const struct environment *e = team->environment;
	const size_t size = image_size();
	char **list, *at;
	uint32_t i;

	if (size > RING - used)
		used = 0;
	list = (char **)(void *)(ring + used);
	at = (char *)(list + e->count + 1);
	for (i = 0; i < e->count; i++) {
		list[i] = strcpy(at, e->text[i]);
		at += strlen(at) + 1;
	}
	list[i] = NULL;
	used += size;
	environ = published = list;
	words = e->count;
	*(char ***)copies_library(&environ) = list;
	(void)arg;
	return NULL;
}

/* The caller holds the lock, here and below. Returns 0 or an errno value. */
static int environment_publish(void)
{
	char none = 0;
	int err;

	if (image_size() > RING)
		return ENOMEM;
	publish_here(NULL);
	err = everywhere_call(EVERYWHERE, publish_here, &none, sizeof(none));
	return err ? ENOMEM : 0;
}

/* ---- the program's copy ---------------------------------------------------------------------- */

static bool is_named(const char *text, const char *variable, size_t n)
{
	return !strncmp(text, variable, n) && text[n] == '=';
}

static uint32_t environment_find(const char *variable, size_t n)
{
	const struct environment *e = team->environment;
	uint32_t i;

	for (i = 0; i < e->count && !is_named(e->text[i], variable, n); i++)
		;
	return i;
}

static bool widen_list(uint32_t room)
{
	struct environment *e = team->environment;
	char **more;

	if (room <= e->room)
		return true;
	more = shared_alloc(2 * room * sizeof(*more));
	if (!more)
		return false;
	memcpy(more, e->text, e->count * sizeof(*more));
	e->text = more;
	e->room = 2 * room;
	return true;
}

static char *environment_copy(const char *text)
{
	char *out = shared_alloc(strlen(text) + 1);

	return out ? strcpy(out, text) : NULL;
}

static int read_environ(void)
{
	struct environment *e = team->environment;
	uint32_t n = 0, i;

	while (environ && environ[n])
		n++;
	e->count = 0;
	if (!widen_list(n + ROOM))
		return ENOMEM;
	for (i = 0; i < n; i++) {
		e->text[i] = environment_copy(environ[i]);
		if (!e->text[i])
			return ENOMEM;
	}
	e->count = n;
	return 0;
}

/* Has somebody assigned to environ, or to one of its elements? */
static bool is_assigned(void)
{
	uint32_t i;

	if (environ != published)
		return true;
	for (i = 0; i < words && published[i] > ring && published[i] < ring + RING; i++)
		;
	return i < words || published[words];
}

/* Take what was assigned. */
static int environment_follow(void)
{
	int err;

	if (!is_assigned())
		return 0;
	err = read_environ();
	return err ? err : environment_publish();
}

static void environment_lock(void)
{
	pthread_mutex_lock(&team->environment->lock);
}

static int unlock_it(int err)
{
	pthread_mutex_unlock(&team->environment->lock);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

static int environment_put(char *text, size_t n)
{
	struct environment *e = team->environment;
	const uint32_t i = environment_find(text, n);

	if (!widen_list(i + 1))
		return ENOMEM;
	__atomic_store_n(&e->text[i], text, __ATOMIC_RELEASE);
	if (i == e->count)
		__atomic_store_n(&e->count, i + 1, __ATOMIC_RELEASE);
	return environment_publish();
}

static int environment_remove(const char *variable, size_t n)
{
	struct environment *e = team->environment;
	uint32_t i, removed = 0;

	while ((i = environment_find(variable, n)) < e->count) {
		memmove(&e->text[i], &e->text[i + 1], (e->count - i - 1) * sizeof(*e->text));
		e->count--;
		removed++;
	}
	return removed ? environment_publish() : 0;
}

/* ---- start ----------------------------------------------------------------------------------- */

static int environment_join_team(void)
{
	char *const last = strrchr(strcpy(name, team->environment->name), '/');

	program_invocation_name = name;
	program_invocation_short_name = last ? last + 1 : name;
	*(char **)copies_library(&program_invocation_name) = program_invocation_name;
	*(char **)copies_library(&program_invocation_short_name) = program_invocation_short_name;
	if (team->environment->ring != ring || image_size() > RING)
		return -E2BIG;
	publish_here(NULL);
	return 0;
}

int environment_start(void)
{
	struct environment *e = dsm_calloc(1, sizeof(*e));
	uint32_t n = 0, i;

	if (!e)
		return -ENOMEM;
	team->environment = e;
	e->ring = ring;
	strncpy(e->name, program_invocation_name, NAME - 1);
	while (environ && environ[n])
		n++;
	e->text = dsm_calloc(n + ROOM, sizeof(*e->text));
	if (!e->text)
		return -ENOMEM;
	e->room = n + ROOM;
	for (i = 0; i < n; i++) {
		e->text[i] = dsm_malloc(strlen(environ[i]) + 1);
		if (!e->text[i])
			return -ENOMEM;
		strcpy(e->text[i], environ[i]);
	}
	e->count = n;
	return environment_join_team();
}

int environment_join(void)
{
	return shim.rank ? environment_join_team() : 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/*
 * Is it a call of a rank's process, not of a child of vfork()? Libraries count as well: environ may
 * be the program's variable.
 */
static bool environment_is_carried(void)
{
	return shim.active && is_rank();
}

/* 0: no variable can have this name. */
/* 0, with errno: it is no name. */
static size_t length_of(const char *variable)
{
	const size_t n = variable && !strchr(variable, '=') ? strlen(variable) : 0;

	if (!n)
		errno = EINVAL;
	return n;
}

static char *environment_value(const char *variable)
{
	const struct environment *e = team->environment;
	const size_t n = strlen(variable);
	uint32_t i;

	if (is_assigned()) {
		environment_lock();
		unlock_it(environment_follow());
	}
	i = environment_find(variable, n);
	return i < e->count ? e->text[i] + n + 1 : NULL;
}

EXPORT char *getenv(const char *variable)
{
	return caller_is_ours(CALLER) && is_rank() ? environment_value(variable)
						   : NEXT(getenv)(variable);
}

EXPORT char *secure_getenv(const char *variable)
{
	return caller_is_ours(CALLER) && is_rank() ? environment_value(variable)
						   : NEXT(secure_getenv)(variable);
}

EXPORT int setenv(const char *variable, const char *value, int replace)
{
	size_t n;
	char *text;
	int err;

	if (!environment_is_carried())
		return NEXT(setenv)(variable, value, replace);
	n = length_of(variable);
	if (!n)
		return -1;
	environment_lock();
	err = environment_follow();
	if (err || (!replace && environment_find(variable, n) < team->environment->count))
		return unlock_it(err);
	text = shared_alloc(n + strlen(value) + 2);
	if (!text)
		return unlock_it(ENOMEM);
	memcpy(text, variable, n);
	text[n] = '=';
	strcpy(text + n + 1, value);
	return unlock_it(environment_put(text, n));
}

EXPORT int unsetenv(const char *variable)
{
	size_t n;
	int err;

	if (!environment_is_carried())
		return NEXT(unsetenv)(variable);
	n = length_of(variable);
	if (!n)
		return -1;
	environment_lock();
	err = environment_follow();
	return unlock_it(err ? err : environment_remove(variable, n));
}

/* The string itself becomes part of what getenv() reads, if it is shared. */
EXPORT int putenv(char *text)
{
	const char *end;
	char *own;
	int err;

	if (!environment_is_carried())
		return NEXT(putenv)(text);
	end = strchr(text, '=');
	if (!end)
		return unsetenv(text);
	own = is_shared(text) ? text : environment_copy(text);
	if (!own)
		return -1;
	environment_lock();
	err = environment_follow();
	return unlock_it(err ? err : environment_put(own, (size_t)(end - text)));
}

EXPORT int clearenv(void)
{
	if (!environment_is_carried())
		return NEXT(clearenv)();
	environment_lock();
	team->environment->count = 0;
	return unlock_it(environment_publish());
}

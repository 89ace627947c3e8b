// SPDX-License-Identifier: BSD-2-Clause
/*
 * lookups.c - what functions that look something up return belongs to the job, as the memory of
 * statics.c does: accounts, groups, services, hosts. Each function has a place in shared memory, to
 * which its structure is copied, with all that it points to; the next call takes the place. How far
 * a list has been read (getpwent()) is known to the C library of rank 0, which reads it for all
 * ranks.
 * * As in one process, nothing protects what a function has returned from its next call, by
 *   whichever thread. The heap is: a call
 * makes new memory, and frees only what it has itself taken out of the place.
 */
#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <shadow.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "everywhere.h"
#include "statics.h"

/* ---- structures ------------------------------------------------------------------------------ */

#define STRINGS 5

/*
 * The offsets of pointers in the structure of a database; a string is the first of each, so 0 is
 * none for the others.
 */
struct shape {
	size_t size, strings;
	size_t string[STRINGS];
	size_t list;              /* of strings, ends with NULL */
	size_t addresses, length; /* a list of `length` bytes each */
};

enum database { DB_ACCOUNT, DB_GROUP, DB_SHADOW, DB_SERVICE, DB_PROTOCOL, DB_NETWORK, DB_HOST };

static const struct shape shapes[] = {
	[DB_ACCOUNT] = { .size = sizeof(struct passwd),
			 .strings = 5,
			 .string = { offsetof(struct passwd, pw_name),
				     offsetof(struct passwd, pw_passwd),
				     offsetof(struct passwd, pw_gecos),
				     offsetof(struct passwd, pw_dir),
				     offsetof(struct passwd, pw_shell) } },
	[DB_GROUP] = { .size = sizeof(struct group),
		       .strings = 2,
		       .string = { offsetof(struct group, gr_name),
				   offsetof(struct group, gr_passwd) },
		       .list = offsetof(struct group, gr_mem) },
	[DB_SHADOW] = { .size = sizeof(struct spwd),
			.strings = 2,
			.string = { offsetof(struct spwd, sp_namp),
				    offsetof(struct spwd, sp_pwdp) } },
	[DB_SERVICE] = { .size = sizeof(struct servent),
			 .strings = 2,
			 .string = { offsetof(struct servent, s_name),
				     offsetof(struct servent, s_proto) },
			 .list = offsetof(struct servent, s_aliases) },
	[DB_PROTOCOL] = { .size = sizeof(struct protoent),
			  .strings = 1,
			  .string = { offsetof(struct protoent, p_name) },
			  .list = offsetof(struct protoent, p_aliases) },
	[DB_NETWORK] = { .size = sizeof(struct netent),
			 .strings = 1,
			 .string = { offsetof(struct netent, n_name) },
			 .list = offsetof(struct netent, n_aliases) },
	[DB_HOST] = { .size = sizeof(struct hostent),
		      .strings = 1,
		      .string = { offsetof(struct hostent, h_name) },
		      .list = offsetof(struct hostent, h_aliases),
		      .addresses = offsetof(struct hostent, h_addr_list),
		      .length = offsetof(struct hostent, h_length) },
};

/* ---- copies ---------------------------------------------------------------------------------- */

/* Where copies go; `to` may be NULL, to count the bytes. */
struct layout {
	char *to;
	size_t used;
};

static char *lay(struct layout *l, const void *from, size_t size)
{
	char *at = l->to ? l->to + l->used : NULL;

	if (at)
		memcpy(at, from, size);
	l->used += (size + 7) & ~7ul;
	return at;
}

/* size 0: of strings. */
static void lay_list(struct layout *l, const char *from, size_t offset, size_t size)
{
	char *const *list = offset ? *(char *const *const *)(from + offset) : NULL;
	char **out;
	size_t n = 0, i;

	if (!list)
		return;
	while (list[n])
		n++;
	out = (char **)lay(l, list, (n + 1) * sizeof(*list));
	for (i = 0; i < n; i++) {
		char *at = lay(l, list[i], size ? size : strlen(list[i]) + 1);

		if (out)
			out[i] = at;
	}
	if (l->to)
		*(char ***)(l->to + offset) = out;
}

static size_t lay_out(const struct shape *h, const char *from, char *to)
{
	struct layout l = { to, 0 };
	size_t i;
	int bytes;

	lay(&l, from, h->size);
	for (i = 0; i < h->strings; i++) {
		const char *s = *(char *const *)(from + h->string[i]);
		char *at = s ? lay(&l, s, strlen(s) + 1) : NULL;

		if (to)
			*(char **)(to + h->string[i]) = at;
	}
	lay_list(&l, from, h->list, 0);
	memcpy(&bytes, from + h->length, sizeof(bytes));
	lay_list(&l, from, h->addresses, (size_t)bytes);
	return l.used;
}

/* The functions that return a structure: by a key, and of a list. */
#define BY_KEY(X)                        \
	X(getpwnam, DB_ACCOUNT)          \
	X(getpwuid, DB_ACCOUNT)          \
	X(getgrnam, DB_GROUP)            \
	X(getgrgid, DB_GROUP)            \
	X(getspnam, DB_SHADOW)           \
	X(getservbyname, DB_SERVICE)     \
	X(getservbyport, DB_SERVICE)     \
	X(getprotobyname, DB_PROTOCOL)   \
	X(getprotobynumber, DB_PROTOCOL) \
	X(getnetbyname, DB_NETWORK)      \
	X(getnetbyaddr, DB_NETWORK)      \
	X(gethostbyname, DB_HOST)        \
	X(gethostbyname2, DB_HOST)       \
	X(gethostbyaddr, DB_HOST)
#define LISTS(X)                 \
	X(pwent, DB_ACCOUNT)     \
	X(grent, DB_GROUP)       \
	X(spent, DB_SHADOW)      \
	X(servent, DB_SERVICE)   \
	X(protoent, DB_PROTOCOL) \
	X(netent, DB_NETWORK)    \
	X(hostent, DB_HOST)

#define X(name, database) PLACE_##name,
enum place { BY_KEY(X) LISTS(X) PLACES };
#undef X

#define X(name, database) [PLACE_##name] = database,
static const uint8_t databases[] = { BY_KEY(X) LISTS(X) };
#undef X

_Static_assert(PLACES <= STATICS_PLACES, "there is room for each");

/* NULL stays, and is what there is no memory for. */
static void *lookups_share(enum place p, const void *from)
{
	const struct shape *h = &shapes[databases[p]];
	char *made;

	if (!from)
		return NULL;
	made = shared_alloc(lay_out(h, from, NULL));
	if (!made)
		return NULL;
	lay_out(h, from, made);
	free(__atomic_exchange_n(statics_place(p), made, __ATOMIC_ACQ_REL));
	return made;
}

/* ---- calls ----------------------------------------------------------------------------------- */

typedef long words_fn(long, long, long, long, long);

/* A call of the C library's, with what it leaves in variables of the thread. */
struct lookup_call {
	const char *name;
	long arg[5], result;
	enum place place; /* PLACES: it returns no structure */
	int error, host_error;
};

/* On the private stack: the C library has buffers on it. */
static void call_next(void *arg)
{
	struct lookup_call *out = arg, c = *out;
	words_fn *const next = (words_fn *)next_named(c.name);

	errno = c.error;
	c.result = next(c.arg[0], c.arg[1], c.arg[2], c.arg[3], c.arg[4]);
	c.error = errno;
	c.host_error = h_errno;
	*out = c;
}

static pthread_mutex_t results =
	/* this rank's: what the C library returns is copied before its next call */
	PTHREAD_MUTEX_INITIALIZER;

/* These functions need not be cancellation points, and the private stack must not be unwound. */
static long call_here(struct lookup_call *c)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	c->error = errno;
	pthread_mutex_lock(&results);
	dsm_call(call_next, c);
	if (c->place != PLACES)
		c->result = (long)lookups_share(c->place, (void *)c->result);
	pthread_mutex_unlock(&results);
	pthread_setcancelstate(state, &state);
	errno = c->error;
	return c->result;
}

/* In a thread of rank 0. */
static void *call_there(void *arg)
{
	struct lookup_call *c = arg;

	errno = c->error;
	c->result = call_here(c);
	c->error = errno;
	return NULL;
}

static long call_at_rank_0(struct lookup_call c)
{
	if (!shim.rank)
		return call_here(&c);
	c.error = errno;
	if (everywhere_call(0, call_there, &c, sizeof(c))) {
		errno = start_cannot(c.name);
		return c.place == PLACES ? ENOSYS : 0;
	}
	errno = c.error;
	h_errno = c.host_error;
	return c.result;
}

/* By a key: on the caller's rank. */
#define X(symbol, database)                                                  \
	EXPORT long found_##symbol(long a, long b, long c) __asm__(#symbol); \
	EXPORT long found_##symbol(long a, long b, long c)                   \
	{                                                                    \
		struct lookup_call call = { .name = #symbol,                 \
					    .arg = { a, b, c },              \
					    .place = PLACE_##symbol };       \
                                                                             \
		if (caller_is_ours(CALLER))                                  \
			return call_here(&call);                             \
		return NEXT_NAMED(words_fn *, #symbol)(a, b, c, 0, 0);       \
	}
BY_KEY(X)
#undef X

/* Of a list: at rank 0. The last one has memory of the caller. */
static bool lookups_reach(const struct lookup_call *c)
{
	int i;

	for (i = 0; i < 5; i++)
		if (i != 2 && c->arg[i] && !is_shared((void *)c->arg[i]))
			return false;
	return true;
}

#define X(list, database)                                                                      \
	EXPORT long found_set##list(long stay) __asm__("set" #list);                           \
	EXPORT long found_get##list(void) __asm__("get" #list);                                \
	EXPORT long found_end##list(void) __asm__("end" #list);                                \
	EXPORT long found_get##list##_r(long own, long text, long size, long got,              \
					long error) __asm__("get" #list "_r");                 \
	EXPORT long found_set##list(long stay)                                                 \
	{                                                                                      \
		if (caller_is_ours(CALLER))                                                    \
			return call_at_rank_0((struct lookup_call){                            \
				.name = "set" #list, .arg = { stay }, .place = PLACES });      \
		return NEXT_NAMED(words_fn *, "set" #list)(stay, 0, 0, 0, 0);                  \
	}                                                                                      \
	EXPORT long found_get##list(void)                                                      \
	{                                                                                      \
		if (caller_is_ours(CALLER))                                                    \
			return call_at_rank_0((struct lookup_call){ .name = "get" #list,       \
								    .place = PLACE_##list });  \
		return NEXT_NAMED(words_fn *, "get" #list)(0, 0, 0, 0, 0);                     \
	}                                                                                      \
	EXPORT long found_end##list(void)                                                      \
	{                                                                                      \
		if (caller_is_ours(CALLER))                                                    \
			return call_at_rank_0(                                                 \
				(struct lookup_call){ .name = "end" #list, .place = PLACES }); \
		return NEXT_NAMED(words_fn *, "end" #list)(0, 0, 0, 0, 0);                     \
	}                                                                                      \
	EXPORT long found_get##list##_r(long own, long text, long size, long got, long error)  \
	{                                                                                      \
		struct lookup_call call = { .name = "get" #list "_r",                          \
					    .arg = { own, text, size, got },                   \
					    .place = PLACES };                                 \
                                                                                               \
		if (database >= DB_NETWORK)                                                    \
			call.arg[4] = error;                                                   \
		if (!caller_is_ours(CALLER))                                                   \
			return NEXT_NAMED(words_fn *, "get" #list "_r")(own, text, size, got,  \
									error);                \
		return lookups_reach(&call)                                                    \
			? call_at_rank_0(call)                                                 \
			: start_cannot("get" #list "_r() with private memory");                \
	}
LISTS(X)
#undef X

EXPORT char *inet_ntoa(struct in_addr address)
{
	char *text = NEXT(inet_ntoa)(address);

	return caller_is_ours(CALLER) ? statics_text(text) : text;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * patterns.c - regular expressions of the program, which any rank uses and frees. What the C
 * library compiles is private to a rank, with a lock of its own, and grows while it is used. So a
 * regex_t leads to the pattern, in shared memory, and each rank compiles it when it first needs it.
 *
 * A compiled pattern that another rank has freed is dropped when the table of this rank is full.
 * Until then its number tells it from a pattern that is at the same address by now.
 */
#include "shim.h"

#define _REGEX_NELTS(n) /* no array of variable length */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define MARK 0x9e2b5c1fa4d70631ull
#define BUCKETS 256u
#define DROP_FROM 128u /* compiled patterns, before the table is first searched for freed ones */

/* In shared memory; constant until it is freed. */
struct pattern {
	uint64_t mark;
	uint64_t number; /* of no other pattern of the job; 0: it is freed */
	int flags;
	char text[];
};

struct compiled {
	struct compiled *next;
	const struct pattern *of;
	uint64_t number;
	regex_t regex;
};

/* Of this rank, and so is the lock. */
static struct compiled *table[BUCKETS];
static size_t count, limit = DROP_FROM;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t numbers; /* atomic */

static struct compiled **bucket_of(const struct pattern *p)
{
	return &table[(uintptr_t)p / 16 % BUCKETS];
}

/* NULL: a library has compiled it, or it is freed. */
static struct pattern *pattern_of(const regex_t *r)
{
	struct pattern *p = (struct pattern *)(void *)r->buffer;

	return p && is_shared(p) && p->mark == MARK ? p : NULL;
}

static void drop(struct compiled **at)
{
	struct compiled *c = *at;

	*at = c->next;
	NEXT(regfree)(&c->regex);
	free(c);
	count--;
}

/* With the lock. */
static void drop_freed(void)
{
	struct compiled **at;
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		for (at = &table[i]; *at;)
			if ((*at)->of->number == (*at)->number)
				at = &(*at)->next;
			else
				drop(at);
	limit = 2 * count > DROP_FROM ? 2 * count : DROP_FROM;
}

/* With the lock. NULL: it is not compiled here. */
static struct compiled *find(const struct pattern *p)
{
	struct compiled *c = *bucket_of(p);

	while (c && (c->of != p || c->number != p->number))
		c = c->next;
	return c;
}

/* Compile it on this rank. 0, or a status of regcomp(). */
static int compile(const char *text, int flags, struct compiled **out)
{
	struct compiled *c = private_alloc(sizeof(*c));
	int err;

	if (!c)
		return REG_ESPACE;
	err = NEXT(regcomp)(&c->regex, text, flags);
	if (err)
		free(c);
	*out = c;
	return err;
}

/* Another thread may have put one there. Returns the one that is there. */
static struct compiled *put(struct compiled *c, const struct pattern *p)
{
	struct compiled *there;

	c->of = p;
	c->number = p->number;
	pthread_rwlock_wrlock(&table_lock);
	there = find(p);
	if (!there) {
		if (count >= limit)
			drop_freed();
		c->next = *bucket_of(p);
		*bucket_of(p) = c;
		count++;
	}
	pthread_rwlock_unlock(&table_lock);
	if (!there)
		return c;
	NEXT(regfree)(&c->regex);
	free(c);
	return there;
}

EXPORT int regcomp(regex_t *out, const char *text, int flags)
{
	const size_t size = strlen(text) + 1;
	struct compiled *c = NULL;
	struct pattern *p;
	int err;

	if (!caller_is_ours(CALLER))
		return NEXT(regcomp)(out, text, flags);
	*out = (regex_t){ 0 }; /* a failed one may be freed */
	err = compile(text, flags, &c);
	if (err)
		return err;
	p = shared_alloc(sizeof(*p) + size);
	if (!p) {
		NEXT(regfree)(&c->regex);
		free(c);
		return REG_ESPACE;
	}
	p->mark = MARK;
	p->number = (__atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED) << 16) + (uint64_t)shim.rank;
	p->flags = flags;
	memcpy(p->text, text, size);
	*out = c->regex;
	out->buffer = (struct re_dfa_t *)(void *)p;
	out->fastmap = NULL;
	out->translate = NULL;
	put(c, p);
	return 0;
}

EXPORT int regexec(const regex_t *r, const char *s, size_t n, regmatch_t match[restrict], int flags)
{
	const struct pattern *p = pattern_of(r);
	struct compiled *c;
	int err;

	if (!p)
		return NEXT(regexec)(r, s, n, match, flags);
	pthread_rwlock_rdlock(&table_lock);
	c = find(p);
	pthread_rwlock_unlock(&table_lock);
	if (!c) {
		err = compile(p->text, p->flags, &c);
		if (err)
			return err;
		c = put(c, p);
	}
	return NEXT(regexec)(&c->regex, s, n, match, flags);
}

EXPORT void regfree(regex_t *r)
{
	struct pattern *p = pattern_of(r);
	struct compiled **at;

	if (!p) {
		NEXT(regfree)(r);
		return;
	}
	pthread_rwlock_wrlock(&table_lock);
	for (at = bucket_of(p); *at && (*at)->of != p; at = &(*at)->next)
		;
	if (*at)
		drop(at);
	pthread_rwlock_unlock(&table_lock);
	/* other ranks look at what is freed: the compiler must not leave the stores out */
	__atomic_store_n(&p->number, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&p->mark, 0, __ATOMIC_RELAXED);
	free(p);
	r->buffer = NULL;
}

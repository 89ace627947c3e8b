// SPDX-License-Identifier: BSD-2-Clause
/* tls.c - see tls.h. */
#include "tls.h"

#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "needs.h"
#include "team.h"

/* The thread-local variables of an object, of this thread. */
struct block {
	char *from;
	size_t size;
};

static __thread struct {
	struct block blocks[TLS_BLOCKS];
	unsigned int n;
	bool known; /* all of them, of what was loaded at: */
	unsigned long long adds, subs;
} mine;

static int note_block(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const others[] = { "libdsm-",    "libdsm.",  "libc.so.", "ld-linux",
					      "libstdc++.", "libgomp.", NULL };
	size_t i;

	(void)size, (void)arg;
	if (needs_object_is(info->dlpi_name, others))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_TLS)
			continue;
		if (!info->dlpi_tls_data) {
			mine.known = false; /* this thread has not used them yet */
			continue;
		}
		if (mine.n == TLS_BLOCKS)
			openmp_die("more than %u objects with thread-local variables", TLS_BLOCKS);
		mine.blocks[mine.n++] =
			(struct block){ info->dlpi_tls_data, info->dlpi_phdr[i].p_memsz };
	}
	return 0;
}

/* The first object tells whether others have come or gone. */
static int note_changes(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size, (void)arg;
	if (info->dlpi_adds != mine.adds || info->dlpi_subs != mine.subs)
		mine.known = false;
	mine.adds = info->dlpi_adds;
	mine.subs = info->dlpi_subs;
	return 1;
}

static void blocks_find(void)
{
	dl_iterate_phdr(note_changes, NULL);
	if (mine.known)
		return;
	mine.known = true;
	mine.n = 0;
	dl_iterate_phdr(note_block, NULL);
}

static const struct block *block_of(const void *at)
{
	unsigned int i;

	for (i = 0; i < mine.n; i++)
		if ((uintptr_t)at - (uintptr_t)mine.blocks[i].from < mine.blocks[i].size)
			return &mine.blocks[i];
	return NULL;
}

/* Pointers of the variables to each other stay so in the copy. */
static void part_copy(struct tls_part *p, const struct block *b)
{
	size_t i;
	char *word;

	*p = (struct tls_part){ b->from, malloc(b->size), malloc(b->size), b->size };
	if (!p->copy || !p->before)
		openmp_die("no memory for thread-local variables");
	memcpy(p->copy, b->from, b->size);
	for (i = 0; i + sizeof(word) <= b->size; i += sizeof(word)) {
		memcpy(&word, p->copy + i, sizeof(word));
		if (block_of(word) != b)
			continue;
		word = p->copy + (word - b->from);
		memcpy(p->copy + i, &word, sizeof(word));
	}
	memcpy(p->before, p->copy, b->size);
}

static struct tls_part *part_of(struct tls_copy *c, const struct block *b)
{
	unsigned int i;

	for (i = 0; i < c->n; i++)
		if (c->parts[i].from == b->from)
			return &c->parts[i];
	part_copy(&c->parts[c->n], b);
	return &c->parts[c->n++];
}

/* A structure with addresses is aligned. Behind it, the stack may end with its page. */
static unsigned int words_of(void **data)
{
	const uintptr_t a = (uintptr_t)data, page = (a | (TEAM_PAGE - 1)) + 1;

	if (a % sizeof(void *))
		return 0;
	if (page - a >= TLS_WORDS * sizeof(void *) || team_shares((const void *)page))
		return TLS_WORDS;
	return (unsigned int)((page - a) / sizeof(void *));
}

void tls_share(struct tls_copy *c, void **data)
{
	const unsigned int n = words_of(data);
	const struct block *b;
	struct tls_part *p;
	unsigned int i;

	c->data = data;
	c->n = 0;
	c->changed = 0;
	blocks_find();
	for (i = 0; mine.n && i < n; i++) {
		b = block_of(data[i]);
		if (!b)
			continue;
		p = part_of(c, b);
		data[i] = p->copy + ((char *)data[i] - p->from);
		c->changed |= 1u << i;
	}
}

static void part_end(const struct tls_part *p)
{
	size_t at;

	for (at = 0; at < p->size; at++)
		if (p->copy[at] != p->before[at])
			p->from[at] = p->copy[at];
	free(p->copy);
	free(p->before);
}

void tls_unshare(struct tls_copy *c)
{
	unsigned int i, k;

	for (i = 0; c->n && i < TLS_WORDS; i++)
		for (k = 0; c->changed >> i & 1 && k < c->n; k++) {
			const struct tls_part *p = &c->parts[k];
			const uintptr_t at = (uintptr_t)c->data[i] - (uintptr_t)p->copy;

			if (at < p->size) {
				c->data[i] = p->from + at;
				break;
			}
		}
	for (k = 0; k < c->n; k++)
		part_end(&c->parts[k]);
	c->n = 0;
}

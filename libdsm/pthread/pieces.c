// SPDX-License-Identifier: BSD-2-Clause
/*
 * pieces.c - the table of the program's mappings outside shared memory.
 *
 * A list is an array in descending order of addresses, without overlaps: the kernel chooses
 * addresses downwards, so a new mapping mostly goes to the end. An access by another rank searches
 * it by halves, also where there are many thousands.
 */
#include "shim.h"

#include "pieces.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "masks.h"
#include "util/sizes.h"

#define SOURCES 256u /* chains, by hash of the file */

struct entry {
	uintptr_t low;
	struct piece *piece;
};

struct map_table {
	pthread_mutex_t lock;
	struct entry *list;
	uint32_t n, room;
	struct source *sources[SOURCES];
	char rest[PAGE_BYTES - sizeof(pthread_mutex_t) - 2 * sizeof(void *) -
		  SOURCES * sizeof(void *)];
};
_Static_assert(sizeof(struct map_table) == PAGE_BYTES, "the table of a rank is a block of its own");

int pieces_start(void)
{
	if (shim.rank)
		return 0;
	team->tables = dsm_aligned_alloc(PAGE_BYTES, (size_t)shim.size * sizeof(*team->tables));
	if (!team->tables)
		return -ENOMEM;
	memset(team->tables, 0, (size_t)shim.size * sizeof(*team->tables));
	return 0;
}

uint64_t pieces_lock(int rank)
{
	const uint64_t mask = block_signals();

	pthread_mutex_lock(&team->tables[rank].lock);
	return mask;
}

void pieces_unlock(int rank, uint64_t mask)
{
	pthread_mutex_unlock(&team->tables[rank].lock);
	masks_let_signals(mask);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* The index of the first piece that begins below an address; n: none does. */
static uint32_t first_below(const struct map_table *t, uintptr_t at)
{
	uint32_t from = 0, to = t->n, i;

	while (from < to) {
		i = from + (to - from) / 2;
		if (t->list[i].low < at)
			to = i;
		else
			from = i + 1;
	}
	return from;
}

struct piece *piece_at(int rank, uintptr_t at)
{
	const struct map_table *t = &team->tables[rank];
	const uint32_t i = first_below(t, at + 1);

	return i < t->n && at < t->list[i].piece->high ? t->list[i].piece : NULL;
}

/* The first index behind the pieces in [low, high) that begin at i. */
static uint32_t pieces_end(const struct map_table *t, uint32_t i, uintptr_t low)
{
	while (i < t->n && t->list[i].piece->high > low)
		i++;
	return i;
}

static int pieces_insert(struct map_table *t, struct piece *p)
{
	const uint32_t i = first_below(t, p->low), room = t->room ? 2 * t->room : 64;
	struct entry *more;

	if (t->n == t->room) {
		more = shared_alloc(room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		if (t->n)
			memcpy(more, t->list, t->n * sizeof(*more));
		free(t->list);
		t->list = more;
		t->room = room;
	}
	memmove(&t->list[i + 1], &t->list[i], (t->n - i) * sizeof(t->list[0]));
	t->list[i] = (struct entry){ p->low, p };
	t->n++;
	return 0;
}

static int piece_split(int rank, uintptr_t at)
{
	struct map_table *t = &team->tables[rank];
	struct piece *p = piece_at(rank, at), *more;

	if (!p || p->low == at)
		return 0;
	more = shared_alloc(sizeof(*more));
	if (!more)
		return -ENOMEM;
	*more = *p;
	more->low = at;
	more->off += (off_t)(at - p->low);
	if (pieces_insert(t, more)) {
		free(more);
		return -ENOMEM;
	}
	if (more->source)
		more->source->pieces++;
	p->high = at;
	return 0;
}

int pieces_split(int rank, uintptr_t low, uintptr_t high)
{
	const int err = piece_split(rank, low);

	return err ? err : piece_split(rank, high);
}

void pieces_each(int rank, uintptr_t low, uintptr_t high, void (*fn)(struct piece *p, void *arg),
		 void *arg)
{
	const struct map_table *t = &team->tables[rank];
	const uint32_t from = first_below(t, high), to = pieces_end(t, from, low);
	uint32_t i;

	for (i = from; i < to; i++)
		fn(t->list[i].piece, arg);
}

struct piece *pieces_take(int rank, uintptr_t low, uintptr_t high, uint64_t *on)
{
	struct map_table *t = &team->tables[rank];
	const uint32_t from = first_below(t, high), to = pieces_end(t, from, low);
	struct piece *taken = NULL, *p;
	uint32_t i, k;

	for (i = from; i < to; i++) {
		p = t->list[i].piece;
		p->next = taken;
		taken = p;
		for (k = 0; k < PIECES_RANKS / 64; k++)
			on[k] |= p->on[k];
	}
	if (to > from)
		memmove(&t->list[from], &t->list[to], (t->n - to) * sizeof(t->list[0]));
	t->n -= to - from;
	return taken;
}

int pieces_add(int rank, const struct piece *like)
{
	struct piece *p = shared_alloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = *like;
	memset(p->on, 0, sizeof(p->on));
	if (!pieces_insert(&team->tables[rank], p))
		return 0;
	free(p);
	return -ENOMEM;
}

/* ---- sources --------------------------------------------------------------------------------- */

static struct source **chain_of(int rank, const struct stat *file)
{
	const uint64_t name = (uint64_t)file->st_ino ^ (uint64_t)file->st_dev << 32;

	return &team->tables[rank].sources[name * 0x9e3779b97f4a7c15u >> 56];
}

struct source *source_use(int rank, const struct stat *file, bool writes, const char *path)
{
	struct source *s = *chain_of(rank, file);

	while (s &&
	       (s->file.st_ino != file->st_ino || s->file.st_dev != file->st_dev ||
		s->writes != writes || strcmp(s->path, path)))
		s = s->next;
	if (!s)
		return NULL;
	s->pieces++;
	if (s->file.st_size != file->st_size || s->file.st_mtim.tv_sec != file->st_mtim.tv_sec ||
	    s->file.st_mtim.tv_nsec != file->st_mtim.tv_nsec) {
		s->summed = false;
		memset(s->agreed, 0, sizeof(s->agreed));
	}
	s->file = *file;
	return s;
}

void source_add(int rank, struct source *s)
{
	struct source **chain = chain_of(rank, &s->file);

	s->pieces = 1;
	s->next = *chain;
	*chain = s;
}

bool source_drop(int rank, struct source *s)
{
	struct source **at = chain_of(rank, &s->file);

	if (--s->pieces)
		return false;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	return true;
}

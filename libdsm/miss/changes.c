// SPDX-License-Identifier: BSD-2-Clause
/* changes.c - see changes.h. */
#include "miss/changes.h"

#include <string.h>

#include "core/diff.h"
#include "job/job.h"
#include "job/lost.h"
#include "net/net.h"
#include "net/own.h"

/* bytes of a piece of a FLUSH: 28 diffs of pages in which every byte has changed */
#define PIECE (128u << 10)

/*
 * Other nodes are told of changes while a close has fewer bytes of them. Each is told of blocks
 * that it has used lately, so what it does not need is little; but it is told in one message.
 */
#define TELL_MOST (1u << 20)

/*
 * A close notes each node once: a notice for each twin at most, and the diffs that are told, whose
 * last ones begin below TELL_MOST.
 */
_Static_assert(SETTINGS_TWINS_MOST / PAGE_BYTES * sizeof(struct change) + 2 * TELL_MOST <=
		       NET_PAYLOAD_MAX,
	       "the notices of a close fit in one NOTE");

void *changes_own(void *at)
{
	if (!at)
		lost_abort(70, "no memory for the changes of release blocks");
	return at;
}

/* ---- notes ----------------------------------------------------------------------------------- */

bool notes_tell(const struct notes *to)
{
	return __atomic_load_n(&to->used, __ATOMIC_RELAXED) < TELL_MOST;
}

uint8_t *notes_diff(struct notes *to)
{
	if (to->used + DIFF_MAX > to->diffs_room) {
		to->diffs_room = 2 * to->diffs_room + 4 * DIFF_MAX;
		to->diffs = changes_own(own_realloc(to->diffs, to->diffs_room));
	}
	return to->diffs + to->used;
}

void notes_add_diff(struct notes *to, struct note *one, const uint8_t *diff, size_t size)
{
	one->at = (uint32_t)to->used;
	one->size = (uint32_t)size;
	if (diff)
		memcpy(notes_diff(to), diff, size);
	__atomic_store_n(&to->used, to->used + size, __ATOMIC_RELAXED);
}

void notes_add(struct notes *to, const struct note *one)
{
	if (to->n == to->room) {
		to->room = to->room ? 2 * to->room : 64;
		to->v = changes_own(own_realloc(to->v, to->room * sizeof(to->v[0])));
	}
	to->v[to->n++] = *one;
}

static uint8_t *note_put(uint8_t *at, const struct notes *all, const struct note *one)
{
	const struct change c = { .object = one->object, .size = one->size };

	memcpy(at, &c, sizeof(c));
	if (c.size)
		memcpy(at + sizeof(c), all->diffs + one->at, c.size);
	return at + sizeof(c) + c.size;
}

uint8_t *notes_payload(const struct notes *all, uint16_t node, size_t *size)
{
	uint8_t *out, *at;
	size_t i;

	*size = 0;
	for (i = 0; i < all->n; i++)
		if (all->v[i].node == node)
			*size += sizeof(struct change) + all->v[i].size;
	if (!*size)
		return NULL;
	out = at = changes_own(own_alloc(*size + sizeof(struct msg), 0));
	for (i = 0; i < all->n; i++)
		if (all->v[i].node == node)
			at = note_put(at, all, &all->v[i]);
	return out;
}

void notes_free(struct notes *n)
{
	own_free(n->v);
	own_free(n->diffs);
}

/* ---- outboxes -------------------------------------------------------------------------------- */

bool outbox_full(const struct outbox *o)
{
	return o->size + sizeof(struct change) + DIFF_MAX > PIECE;
}

uint8_t *outbox_diff(struct outbox *o)
{
	if (!o->at) {
		o->at = changes_own(own_alloc(PIECE + sizeof(struct msg), 0));
		o->size = sizeof(struct piece);
	}
	return o->at + o->size + sizeof(struct change);
}

void outbox_add(struct outbox *o, uint32_t object, size_t size)
{
	const struct change c = { .object = object, .size = (uint32_t)size };

	memcpy(o->at + o->size, &c, sizeof(c));
	o->size += sizeof(c) + size;
}

void outbox_seal(struct outbox *o, bool last)
{
	const struct piece head = { .all = last ? o->pieces + 1 : 0 };

	memcpy(o->at, &head, sizeof(head));
}

void outbox_next(struct outbox *o)
{
	o->size = sizeof(struct piece);
	o->pieces++;
}

bool outbox_is_empty(const struct outbox *o)
{
	return !o->pieces && o->size <= sizeof(struct piece);
}

/* ---- what has come --------------------------------------------------------------------------- */

bool piece_take(const uint8_t **at, size_t *size, struct piece *head)
{
	if (*size < sizeof(*head))
		return false;
	memcpy(head, *at, sizeof(*head));
	*at += sizeof(*head);
	*size -= sizeof(*head);
	return !head->pad;
}

static bool is_object(uint32_t object)
{
	return object & 1 && block_page(object) < job.limits.pages;
}

bool change_next(const uint8_t **at, size_t *size, struct change *c, bool notices)
{
	if (*size < sizeof(*c))
		return false;
	memcpy(c, *at, sizeof(*c));
	if (!is_object(c->object) || c->size > *size - sizeof(*c) ||
	    (c->size ? diff_check(*at + sizeof(*c), c->size) : !notices))
		return false;
	*at += sizeof(*c) + c->size;
	*size -= sizeof(*c) + c->size;
	return true;
}

bool changes_check(const uint8_t *at, size_t size, bool notices)
{
	struct change c;

	while (change_next(&at, &size, &c, notices))
		;
	return !size;
}

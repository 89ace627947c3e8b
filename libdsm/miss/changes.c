// SPDX-License-Identifier: BSD-2-Clause
/* changes.c - see changes.h. */
#include "miss/changes.h"

#include <string.h>

#include "core/diff.h"
#include "job/job.h"
#include "job/lost.h"
#include "miss/span.h"
#include "net/net.h"
#include "net/own.h"

/* bytes of a piece of a FLUSH: 28 diffs of pages in which every byte has changed */
#define PIECE (128u << 10)

/* Bytes of diffs and notices of a piece of a NOTE, and those of one run of blocks more. */
#define NOTE_PIECE (192u << 10)

/*
 * A service, which has one piece, has a notice for each twin of the writer and node at most. A
 * close has more, as its own node lends blocks without twins.
 */
_Static_assert(SETTINGS_TWINS_MOST / PAGE_BYTES * sizeof(struct change) + NOTES_SERVICE +
			       NOTE_PIECE + (SPAN_MOST + 1) * DIFF_MAX <=
		       NET_PAYLOAD_MAX,
	       "the notices of a service fit in one piece");

void *changes_own(void *at)
{
	if (!at)
		lost_abort(70, "no memory for the changes of release blocks");
	return at;
}

/* ---- notes ----------------------------------------------------------------------------------- */

bool notes_tell(const struct notes *to, size_t most)
{
	return __atomic_load_n(&to->told, __ATOMIC_RELAXED) < most;
}

bool notes_tell_whole(struct notes *to, size_t size)
{
	if (to->whole >= NOTES_WHOLE)
		return false;
	to->whole += size;
	return true;
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
	to->used += size;
}

void notes_add(struct notes *to, const struct note *one)
{
	if (to->n == to->room) {
		to->room = to->room ? 2 * to->room : 64;
		to->v = changes_own(own_realloc(to->v, to->room * sizeof(to->v[0])));
	}
	to->objects += !to->n || to->v[to->n - 1].object != one->object;
	to->v[to->n++] = *one;
	__atomic_store_n(&to->told, to->told + one->size, __ATOMIC_RELAXED);
}

static uint8_t *note_put(uint8_t *at, const struct notes *all, const struct note *one)
{
	const struct change c = { .object = one->object, .size = (uint16_t)one->size };

	memcpy(at, &c, sizeof(c));
	if (c.size)
		memcpy(at + sizeof(c), all->diffs + one->at, c.size);
	return at + sizeof(c) + c.size;
}

uint8_t *notes_payload(struct notes *all, uint16_t node, uint16_t nodes, bool last, size_t *size)
{
	const uint32_t pieces = all->pieces ? all->pieces[node] : 0;
	const struct piece head = { .all = last ? pieces + 1 : 0 };
	size_t i, n = 0;
	uint8_t *out, *at;

	for (i = 0; i < all->n; i++)
		if (all->v[i].node == node)
			n += sizeof(struct change) + all->v[i].size;
	if (!n && !(last && pieces))
		return NULL;
	*size = sizeof(head) + n;
	out = changes_own(own_alloc(*size + sizeof(struct msg), 0));
	memcpy(out, &head, sizeof(head));
	at = out + sizeof(head);
	for (i = 0; n && i < all->n; i++)
		if (all->v[i].node == node)
			at = note_put(at, all, &all->v[i]);
	if (!last && !all->pieces)
		all->pieces = changes_own(own_zalloc(nodes * sizeof(all->pieces[0])));
	if (!last)
		all->pieces[node]++;
	return out;
}

bool notes_full(const struct notes *all)
{
	return all->used + all->objects * sizeof(struct change) >= NOTE_PIECE;
}

void notes_next(struct notes *all)
{
	all->n = all->objects = 0;
	all->used = 0;
}

void notes_free(struct notes *n)
{
	own_free(n->v);
	own_free(n->diffs);
	own_free(n->pieces);
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

_Static_assert(DIFF_MAX <= UINT16_MAX, "the size of a diff fits in struct change");

void outbox_add(struct outbox *o, uint32_t object, size_t size, bool asks)
{
	const struct change c = { .object = object, .size = (uint16_t)size, .asks = asks };

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

/* ---- the blocks that a service gives --------------------------------------------------------- */

/* at most one for each twin of the writer */
_Static_assert(SETTINGS_TWINS_MOST / PAGE_BYTES * sizeof(uint32_t) <= NET_PAYLOAD_MAX,
	       "the blocks that a service gives fit in one message");

void given_add(struct given *g, uint32_t object)
{
	if (g->n == g->room) {
		g->room = g->room ? 2 * g->room : 64;
		g->objects = changes_own(own_realloc(g->objects, g->room * sizeof(uint32_t)));
	}
	g->objects[g->n++] = object;
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

bool pieces_begin(struct pieces *p, uint32_t all)
{
	if (all && p->all)
		return false;
	p->begun++;
	p->all |= all;
	return !p->all || p->begun <= p->all;
}

bool pieces_end(struct pieces *p)
{
	return ++p->came == p->all;
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
	    (c->size ? diff_check(*at + sizeof(*c), c->size) : !notices) || c->asks > !notices)
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

bool given_next(const uint8_t **at, size_t *size, uint32_t *object)
{
	if (*size < sizeof(*object))
		return false;
	memcpy(object, *at, sizeof(*object));
	if (!is_object(*object))
		return false;
	*at += sizeof(*object);
	*size -= sizeof(*object);
	return true;
}

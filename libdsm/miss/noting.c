// SPDX-License-Identifier: BSD-2-Clause
/*
 * noting.c - see noting.h. A node sends one NOTE at a time because of the closes of one writer, so
 * there are few.
 */
#include "miss/noting.h"

#include "miss/changes.h"
#include "net/own.h"
#include "util/futex.h"

/* A NOTE of src, because of a close of writer, some pieces of which have come. */
struct noting {
	struct noting *next;
	uint16_t src, writer;
	uint64_t close;
	struct pieces pieces;
};

static struct noting *notings;
static uint32_t lock; /* above the transports' heap */

static struct noting **noting_of(const struct msg *m)
{
	struct noting **at = &notings;

	while (*at && ((*at)->src != m->src || (*at)->writer != m->req_node))
		at = &(*at)->next;
	return at;
}

/* One that is a single piece needs no record. */
int noting_begin(const struct msg *m, uint32_t all)
{
	struct noting **at;
	int err = 0;

	word_lock(&lock);
	at = noting_of(m);
	if (!*at && all != 1) {
		*at = changes_own(own_zalloc(sizeof(**at)));
		**at = (struct noting){ .src = m->src, .writer = m->req_node, .close = m->value };
	}
	if (*at && ((*at)->close != m->value || !pieces_begin(&(*at)->pieces, all)))
		err = -EBADMSG;
	word_unlock(&lock);
	return err;
}

bool noting_end(const struct msg *m, uint32_t all)
{
	struct noting **at, *n;
	bool done = all == 1;

	word_lock(&lock);
	at = noting_of(m);
	n = *at;
	if (n && pieces_end(&n->pieces)) {
		done = true;
		*at = n->next;
		own_free(n);
	}
	word_unlock(&lock);
	return done;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes.h - the payloads of FLUSH, NOTE and FLUSHED, built and read: diffs of release blocks,
 * notices, and blocks that are given.
 *
 * FLUSH and NOTE come in pieces: each has a struct piece, then diffs, those of a NOTE also notices.
 * A struct change precedes each diff or notice. FLUSHED has the names of blocks.
 *
 * Buffers are from the transports' heap (net/own.h). Without memory for them the job ends. The
 * caller has a lock of what it passes, where others use it.
 */
#ifndef MISS_CHANGES_H
#define MISS_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

/* at, which is what an allocation returned. NULL: ends the job. */
void *changes_own(void *at);

/* ---- the notices and diffs that a close, or a service, has for other nodes ------------------- */

struct note {
	uint32_t object, node;
	uint32_t at, size; /* in notes.diffs: what is told; size 0: a notice */
};

struct notes {
	struct note *v;
	size_t n, room;
	uint8_t *diffs;
	size_t used, diffs_room;
	size_t objects;   /* in v, where all notes of one follow each other */
	size_t told;      /* bytes of diffs in all, for each node; atomic */
	size_t whole;     /* of these, for blocks that were written as a whole, once */
	uint32_t *pieces; /* sent, by node; NULL: none */
};

/* May the contents of one more block be told, of `most` bytes? Any thread, without a lock. */
bool notes_tell(const struct notes *to, size_t most);
#define NOTES_CLOSE (16u << 20) /* for a close, which sends them in pieces */
#define NOTES_SERVICE (1u << 20)
/*
 * The same for a block that was written as a whole, to nodes that only read it, of a close: its
 * diff, of `size` bytes, counts if it is told.
 */
bool notes_tell_whole(struct notes *to, size_t size);
#define NOTES_WHOLE (64u << 10)
/* Room for one more diff, behind those that are in the notes. */
uint8_t *notes_diff(struct notes *to);
/* The diff of *one: copied; NULL: it is in notes_diff() already. notes_add() follows, for each
 * node that is told. */
void notes_add_diff(struct notes *to, struct note *one, const uint8_t *diff, size_t size);
void notes_add(struct notes *to, const struct note *one);
/*
 * The payload of a piece of the NOTE to node, one of `nodes`, with room for a message behind it.
 * NULL: there is nothing.
 */
uint8_t *notes_payload(struct notes *all, uint16_t node, uint16_t nodes, bool last, size_t *size);
/*
 * Is a piece full? Then notes_payload() makes one for each node, and notes_next() begins the next
 * ones.
 */
bool notes_full(const struct notes *all);
void notes_next(struct notes *all);
void notes_free(struct notes *n);

/* ---- the diffs that a close sends to a home -------------------------------------------------- */

struct outbox {
	uint8_t *at; /* the piece that is being filled; NULL: there was no diff */
	size_t size;
	uint32_t pieces; /* those sent */
};

/* Has the piece no room for one more diff? Then it is sent, after outbox_seal(), and the next one
 * begins with outbox_next(). */
bool outbox_full(const struct outbox *o);
/* Room for one more diff. */
uint8_t *outbox_diff(struct outbox *o);
/* It has been filled. */
void outbox_add(struct outbox *o, uint32_t object, size_t size, bool asks);
void outbox_seal(struct outbox *o, bool last);
void outbox_next(struct outbox *o);
/* A home to which nothing is sent may have an empty piece. */
bool outbox_is_empty(const struct outbox *o);

/* ---- the blocks that a service gives --------------------------------------------------------- */

struct given {
	uint32_t *objects;
	size_t n, room;
};

void given_add(struct given *g, uint32_t object);

/* ---- what has come --------------------------------------------------------------------------- */

/* A diff, which ends at the address behind it, or a notice, whose size is 0. */
struct change {
	uint32_t object;
	uint16_t size;
	uint16_t asks; /* 1: the writer asks for the home */
};

/* Precedes each piece. */
struct piece {
	uint32_t all; /* in the last piece: their number; else 0 */
	uint32_t pad;
};

/* Take it off a payload. False: it is malformed. */
bool piece_take(const uint8_t **at, size_t *size, struct piece *head);

/* Pieces come in any order, and maybe to several threads. Under a lock of the caller. */
struct pieces {
	uint32_t begun; /* read, or being read */
	uint32_t came;  /* read */
	uint32_t all;   /* 0 while unknown */
};

/* One more piece. all: their number, if this one says it. False: no correct node sends it. */
bool pieces_begin(struct pieces *p, uint32_t all);
/* It is read. True: they all are. */
bool pieces_end(struct pieces *p);
/*
 * Each diff of a piece or of a NOTE, in turn, and each notice, if there may be some. False: it ends
 * here, or (*size not 0) it is malformed.
 */
bool change_next(const uint8_t **at, size_t *size, struct change *c, bool notices);
/* Is none of them malformed? */
bool changes_check(const uint8_t *at, size_t size, bool notices);
/* Each block that FLUSHED names, in turn. False: it ends here, or (*size not 0) it is malformed. */
bool given_next(const uint8_t **at, size_t *size, uint32_t *object);

#endif

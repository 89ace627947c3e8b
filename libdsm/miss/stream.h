/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h - streams of misses, as far as one thread can see: blocks at equal distances, such as an
 * array in order, a column of a matrix, or several of them in turn.
 *
 * A miss continues a stream if it is where the stream expects it. It begins one if it is the block
 * behind an earlier miss, or the fourth of four at equal distances, whatever came between them: of
 * several distances the least counts. It begins one at once if it is beside a block of a column, as
 * a stream at a distance is called here, and not behind the last miss: the next column of a tile.
 * As many blocks are then expected as that column had from there on, more than STREAM_FEW. One
 * that was not continued where it was expected to be begins others of half its length.
 *
 * The window is the number of blocks that are fetched ahead: it doubles with each miss that
 * continues the stream, up to a limit that is higher for a long stream, whose thread would
 * otherwise wait once for each window. It begins with what the last stream of the thread at this
 * distance suggests, as columns of a matrix are all of one length.
 *
 * Pure. Of one thread, which may be in the fault handler. Zero-initialised: no streams.
 */
#ifndef MISS_STREAM_H
#define MISS_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#define STREAMS 8u            /* of a thread; the one not continued for longest goes */
#define STREAM_PAST 16u       /* misses that are remembered */
#define STREAM_MOST 64u       /* window: the streams of other threads need slots, too */
#define STREAM_LONG 4u        /* a long stream may fetch this many times what others may */
#define STREAM_PART 8u        /* window of a long stream: at most this part of its length */
#define STREAM_FEW 3u         /* most that a window in order starts from; so few are no column */
#define STREAM_FAR (8l << 20) /* longest distance: arrays of one size, in turn, are no stream */

struct stream {
	size_t next;   /* where the next miss will be */
	long distance; /* between its blocks, in bytes; 0: no stream */
	unsigned int window;
	unsigned int length; /* blocks before the next miss, those fetched ahead too */
	unsigned int sure;   /* its length when it was last continued: the thread has come so far */
	unsigned int used;   /* when it was continued */
	size_t first;        /* where it began */
	unsigned int expected; /* blocks that the column beside it had; 0: it began by itself */
};

struct streams {
	struct stream v[STREAMS];
	size_t past[STREAM_PAST]; /* the last misses, + 1; 0: none */
	unsigned int misses;
};

/*
 * The thread has missed the block at off, of `block` bytes. most: limit of the window, 0: no
 * streams; farthest: that of a long stream, not below. Returns the stream that it continues, or
 * NULL: fetch up to `window` blocks ahead, at off + distance and so on, and then call
 * stream_asked() before the next miss. The distance is a multiple of `block`.
 */
struct stream *stream_missed(struct streams *s, size_t off, size_t block, unsigned int most,
			     unsigned int farthest);
/*
 * The limit of the window of s: `most`, or an eighth of the blocks that the stream has had, up to
 * `farthest`.
 */
unsigned int stream_limit(const struct stream *s, unsigned int most, unsigned int farthest);
/* Are its blocks of this size, and at a distance? */
bool stream_is_column(const struct stream *s, size_t block);
/*
 * How many blocks behind the missed one may a writer take that another node may use? A quarter of
 * what the stream has had, or what is left of a column like the one beside it.
 */
unsigned int stream_owed(const struct stream *s);
/* n blocks behind the one at off were fetched ahead, or are here already: the next one will be
 * missed. */
void stream_asked(struct stream *s, size_t off, unsigned int n);

#endif

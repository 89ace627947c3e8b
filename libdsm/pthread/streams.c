// SPDX-License-Identifier: BSD-2-Clause
/*
 * streams.c - the structures of streams, at addresses where each rank has memory of its own.
 *
 * Compilers expand getc_unlocked(3) and its like. That code looks into the structure, and calls the
 * C library only if the buffer is empty or full (__uflow(), __overflow()). The program's streams
 * are rank 0's. So the C library of rank 0 gets memory for them in a variable of this library,
 * which has the same address on all ranks, as the standard streams have. On another rank it is
 * zeros, a stream without a buffer: the code makes the call, which libdsm-syscall.so has rank 0
 * carry out.
 *
 * feof_unlocked(3) and ferror_unlocked(3) look at two flags of the structure. So libdsm-syscall.so
 * stores there, on the rank that has made a call on a stream, what the call has left at rank 0.
 * Where that may be, the stream is KEPT: a call at rank 0 that clears the flags has all ranks clear
 * them. A place that has ever been KEPT is STALE once it is free, until all ranks have cleared it:
 * its next stream must not find such flags.
 */
#include "streams.h"

#include "shim.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "everywhere.h"

#define PLACES 1024u
#define PLACE_BYTES 640u /* the largest structure of fopen(3) and popen(3) has less */
#define STANDARD 3u
#define ALL (PLACES + STANDARD)

/* Bits of a state; 0: it is free. */
#define USED 1u
#define KEPT 2u
#define EVER_KEPT 4u
#define STALE 8u

static char places[PLACES][PLACE_BYTES] __attribute__((aligned(64)));
/* At rank 0, under `lock`. */
static uint8_t states[ALL];
static unsigned int unused = PLACES; /* that are free */
static unsigned int next_place;
static uint32_t lock;

__thread bool streams_wanted __attribute__((tls_model("initial-exec")));

/* The streams themselves, whatever the program stores in `stdin` and its like. */
extern FILE standard_in __asm__("_IO_2_1_stdin_");
extern FILE standard_out __asm__("_IO_2_1_stdout_");
extern FILE standard_error __asm__("_IO_2_1_stderr_");

static FILE *place_at(unsigned int i)
{
	FILE *const standard[] = { &standard_in, &standard_out, &standard_error };

	return i < PLACES ? (FILE *)places[i] : standard[i - PLACES];
}

/* ALL: it is none. */
static unsigned int place_of(const void *p)
{
	const char *at = p;
	unsigned int i;

	if (at >= places[0] && at < places[0] + sizeof(places))
		return (unsigned int)((size_t)(at - places[0]) / PLACE_BYTES);
	for (i = PLACES; i < ALL && place_at(i) != p; i++)
		;
	return i;
}

bool streams_has(const void *p)
{
	return place_of(p) < ALL;
}

/* ---- what other ranks keep ------------------------------------------------------------------- */

struct stale {
	uint8_t is[ALL];
};

static void *clear_here(void *arg)
{
	const struct stale *s = arg;
	unsigned int i;

	for (i = 0; i < ALL; i++)
		if (s->is[i])
			place_at(i)->_flags &= ~(_IO_EOF_SEEN | _IO_ERR_SEEN);
	return NULL;
}

/* Have all ranks clear the places from low on that have the bit, and take it from these. */
static void streams_settle(unsigned int bit, unsigned int low, unsigned int high)
{
	struct stale s = { { 0 } };
	unsigned int i, n = 0;

	brief_lock(&lock);
	for (i = low; i < high; i++)
		n += s.is[i] = (states[i] & bit) != 0;
	brief_unlock(&lock);
	if (!n || everywhere_call(EVERYWHERE, clear_here, &s, sizeof(s)))
		return;
	brief_lock(&lock);
	for (i = low; i < high; i++) {
		if (!s.is[i] || !(states[i] & bit))
			continue;
		states[i] &= (uint8_t)~bit;
		unused += !states[i] && i < PLACES;
	}
	brief_unlock(&lock);
}

void streams_note(const void *stream)
{
	const unsigned int i = place_of(stream);

	if (i == ALL)
		return;
	brief_lock(&lock);
	states[i] |= KEPT | EVER_KEPT;
	brief_unlock(&lock);
}

void streams_clear(const void *stream)
{
	const unsigned int i = place_of(stream);

	if (i < ALL && (__atomic_load_n(&states[i], __ATOMIC_RELAXED) & KEPT))
		streams_settle(KEPT, i, i + 1);
}

/* ---- places ---------------------------------------------------------------------------------- */

void streams_open(bool begins)
{
	if (begins && !__atomic_load_n(&unused, __ATOMIC_RELAXED))
		streams_settle(STALE, 0, PLACES);
	streams_wanted = begins;
}

void *streams_take(size_t size)
{
	void *at = NULL;
	unsigned int i;

	if (!streams_wanted || size > PLACE_BYTES)
		return NULL;
	streams_wanted = false;
	brief_lock(&lock);
	for (i = 0; unused && i < PLACES && !at; i++, next_place = (next_place + 1) % PLACES) {
		if (states[next_place])
			continue;
		states[next_place] = USED;
		unused--;
		at = places[next_place];
	}
	brief_unlock(&lock);
	return at;
}

bool streams_give(void *p)
{
	const unsigned int i = place_of(p);

	if (i >= PLACES)
		return false;
	brief_lock(&lock);
	states[i] = states[i] & EVER_KEPT ? STALE : 0;
	unused += !states[i];
	brief_unlock(&lock);
	return true;
}

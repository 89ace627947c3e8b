/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * row.h - a row of the tables rows.def and files.def: which arguments of a call are buffers. Any
 * thread; on any stack unless stated otherwise.
 */
#ifndef SYSCALL_ROW_H
#define SYSCALL_ROW_H

#include "wrap.h"

#include <sys/socket.h>

#define ARGS 6
#define BUFFERS 8
#define SET 8 /* bytes of a signal set that the kernel knows */

enum result { INT, LONG, ERROR, POINTER, VOID, DESCRIPTOR };

/* The number of units, from the argument that the row names. */
enum count { ONE, SIZE_COUNT, INT_COUNT, FDS_COUNT, PAGES_COUNT, PLUS_LONG_COUNT, ADDR_COUNT };
#define COUNT(how, arg) ((how) << 4 | (arg))
#define INT_(arg) COUNT(INT_COUNT, arg)
#define FDS_(arg) COUNT(FDS_COUNT, arg)
#define PAGES_(arg) COUNT(PAGES_COUNT, arg)
#define PLUS_LONG_(arg) COUNT(PLUS_LONG_COUNT, arg)
#define COUNT_OF(n) ((n) < 16 ? COUNT(SIZE_COUNT, n) : (n))

enum way {
	NONE,
	STRING,
	STRINGS,
	WIDE_STRING,
	STRING_INOUT,
	STRING_OUT,
	READ,
	WRITTEN,
	WRITTEN_ALWAYS,
	WRITTEN_BY_RESULT,
	SET_BEHIND,
	WRITTEN_LINE, /* of the C library: it needs a copy only abroad */
	OWN_STACK,
	/* no buffers */
	IS_DESCRIPTOR,
	IS_REPLACED,
	IS_STREAM,
	IS_CHILD,
	IS_WAIT,
	IS_POLL
};

struct buffer {
	uint8_t way, arg, count;
	uint16_t unit;
};

#define BUFFER(way, arg, count, unit) \
	{                             \
		way, arg, count, unit \
	}
#define S(a) BUFFER(STRING, a, 0, 0)
#define SS(a) BUFFER(STRINGS, a, 0, 0)
#define WS(a) BUFFER(WIDE_STRING, a, 0, 0)
#define IOS(a) BUFFER(STRING_INOUT, a, 0, 0)
#define OUTS(a, n) BUFFER(STRING_OUT, a, COUNT_OF(n), 1)
#define IN(a, size) BUFFER(READ, a, 0, size)
#define OUT(a, size) BUFFER(WRITTEN, a, 0, size)
#define IO(a, size) BUFFER(WRITTEN_ALWAYS, a, 0, size)
#define INN(a, unit, n) BUFFER(READ, a, COUNT_OF(n), unit)
#define OUTN(a, unit, n) BUFFER(WRITTEN, a, COUNT_OF(n), unit)
#define ION(a, unit, n) BUFFER(WRITTEN_ALWAYS, a, COUNT_OF(n), unit)
#define OUTR(a, unit, n) BUFFER(WRITTEN_BY_RESULT, a, COUNT_OF(n), unit)
#define ADDRS(a, unit, n) BUFFER(WRITTEN, a, COUNT(ADDR_COUNT, n), unit)
#define ADDR(a, n) ADDRS(a, 1, n)
#define MASK(a) BUFFER(SET_BEHIND, a, 0, 0)
#define LINE(a, n) BUFFER(WRITTEN_LINE, a, COUNT_OF(n), 1)
#define STACK BUFFER(OWN_STACK, 0, 0, 0)
#define FD(a) BUFFER(IS_DESCRIPTOR, a, 0, 0)
#define TO(a) BUFFER(IS_REPLACED, a, 0, 0)
#define ST(a) BUFFER(IS_STREAM, a, 0, 0)
#define CHILD BUFFER(IS_CHILD, 0, 0, 0)
#define WAITS BUFFER(IS_WAIT, 0, 0, 0)
#define POLLS BUFFER(IS_POLL, 0, 0, 0)

typedef long words_fn(long, long, long, long, long, long);

struct row {
	const char *name;
	enum result result;
	struct buffer buffers[BUFFERS];
	bool files; /* of files.def */
};

/* An array of strings ends with NULL. The array may be private and its strings shared. */
static inline bool strings_are_away(char *const *p)
{
	for (; p && !is_away(p) && *p; p++)
		if (is_away(*p))
			return true;
	return is_away(p);
}

/* The argument as in pselect6(2). */
struct mask {
	const void *set;
	size_t size;
};

static inline bool mask_is_away(const struct mask *p)
{
	return is_away(p) || (p && is_away(p->set));
}

/* True if a buffer of the call is in memory that the kernel may find missing. */
static inline __attribute__((always_inline)) bool row_needs_copies(const struct row *row,
								   const long *arg)
{
	int i;

	for (i = 0; i < BUFFERS && row->buffers[i].way; i++) {
		const struct buffer *b = &row->buffers[i];

		if (b->way > OWN_STACK || b->way == WRITTEN_LINE)
			continue;
		if (b->way == OWN_STACK         ? STACK_IS_AWAY
			    : b->way == STRINGS ? strings_are_away((char *const *)arg[b->arg - 1])
			    : b->way == SET_BEHIND ? mask_is_away((void *)arg[b->arg - 1])
						   : is_away((void *)arg[b->arg - 1]))
			return true;
	}
	return false;
}

/* Make the call, next or (NULL) the system call of that number, on the private stack with private
 * copies of the buffers. */
long row_run(const struct row *row, words_fn *next, long number, const long *arg);
/* Make it at rank 0, by the function self (NULL: syscall(2), with the number) of this library, with
 * copies in shared memory of buffers that are not there. Blocks as the call does. */
long row_run_abroad(const struct row *row, words_fn *self, long number, const long *arg);
/* True if the call is not for the kernel of this rank, or is for a descriptor of libdsm: then it
 * has been made at rank 0 or refused, and *result is what the function returns. next, number: as
 * above. */
bool row_elsewhere(const struct row *row, words_fn *self, words_fn *next, long number,
		   const long *arg, const void *caller, long *result);

/* The next definition of a function of files.def. Some of those on streams have one more function
 * of this library in front of it. */
void *row_next(const struct next *n);

/* True if row_elsewhere() notes the descriptors of libdsm for this call, though its result is
 * none. */
bool row_accounts(const char *name);

/* Define the function of a row of files.def; find finds the next definition. */
#define FILES_FUNCTION(name, find, kind, ...)                                             \
	static const struct row row_##name = { #name, kind, { __VA_ARGS__ }, true };      \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f)           \
	{                                                                                 \
		words_fn *at = NEXT_BY(words_fn *, #name, NULL, find);                    \
		const long arg[ARGS] = { a, b, c, d, e, f };                              \
		long result;                                                              \
		if (__builtin_expect(files, 0) &&                                         \
		    row_elsewhere(&row_##name, wrap_##name, at, 0, arg, CALLER, &result)) \
			return result;                                                    \
		if (__builtin_expect(!row_needs_copies(&row_##name, arg), 1))             \
			return at(a, b, c, d, e, f);                                      \
		return row_run(&row_##name, at, 0, arg);                                  \
	}
#define FILES_ROW(name, find, kind, ...)                                                        \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f) __asm__(#name); \
	FILES_FUNCTION(name, find, kind, __VA_ARGS__)
/* A function that programs have from another library, with the name of a version there: see
 * syscall.map. */
#define FILES_ROW_OF(name, version, find, kind, ...)                             \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f); \
	__asm__(".symver wrap_" #name ", " #name "@" version);                   \
	FILES_FUNCTION(name, find, kind, __VA_ARGS__)

#endif

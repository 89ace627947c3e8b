// SPDX-License-Identifier: BSD-2-Clause
/*
 * zlib.c - files of zlib, which many programs read in threads: the handle is private memory of the library's, and of rank 0, as a
 * stream of the C library. This library does not need zlib; a program that calls these functions has it.
 */
#include "row.h"

#include "caller.h"
#include "owner.h"

#include <string.h>

/* zlib may be out of the global scope: loaded with a library of the program, or left out by a linker that found its functions here. */
static void *zlib_find(const char *name)
{
	void *at = dlsym(RTLD_NEXT, name), *zlib = at ? NULL : dlopen("libz.so.1", RTLD_LAZY);

	if (!at && zlib)
		at = dlsym(zlib, name);
	if (!at)
		dsm_abort(70, "no library has %s()", name);
	return at;
}

#define ROW(name, kind, ...) FILES_ROW(name, zlib_find, kind, __VA_ARGS__)
ROW(gzopen, POINTER, S(1), S(2), STACK)
ROW(gzopen64, POINTER, S(1), S(2), STACK)
ROW(gzdopen, POINTER, FD(1), S(2), STACK)
ROW(gzbuffer, INT, STACK)
ROW(gzsetparams, INT, STACK)
ROW(gzread, INT, OUTR(2, 1, INT_(3)), WAITS)
ROW(gzwrite, INT, INN(2, 1, INT_(3)), WAITS)
ROW(gzgets, POINTER, LINE(2, INT_(3)), STACK)
ROW(gzputs, INT, S(2), STACK)
ROW(gzgetc, INT, STACK)
ROW(gzgetc_, INT, STACK)
ROW(gzputc, INT, STACK)
ROW(gzungetc, INT, STACK)
ROW(gzflush, INT, STACK)
ROW(gzseek, LONG, STACK)
ROW(gzseek64, LONG, STACK)
ROW(gzrewind, INT, STACK)
ROW(gztell, LONG, STACK)
ROW(gztell64, LONG, STACK)
ROW(gzoffset, LONG, STACK)
ROW(gzoffset64, LONG, STACK)
ROW(gzeof, INT, STACK)
ROW(gzdirect, INT, STACK)
ROW(gzclose, INT, STACK)
ROW(gzclose_r, INT, STACK)
ROW(gzclose_w, INT, STACK)
ROW(gzclearerr, VOID, STACK)

typedef const char *error_fn(void *file, int *number);
#define TEXT 256

struct error {
	int number;
	char text[TEXT];
};

static error_fn *next_error(void)
{
	static error_fn *next;

	if (!next)
		next = (error_fn *)zlib_find("gzerror");
	return next;
}

/* At rank 0. */
static long copy_error(long file, long to)
{
	struct error *e = (struct error *)to;
	const char *text = next_error()((void *)file, &e->number);

	strncpy(e->text, text ? text : "", TEXT - 1);
	return 0;
}

EXPORT const char *gzerror(void *file, int *number);
EXPORT const char *gzerror(void *file, int *number)
{
	static __thread struct error *e;

	if (!is_abroad(CALLER))
		return next_error()(file, number);
	if (!e)
		e = program.alloc(sizeof(*e));
	if (!e)
		return NULL;
	memset(e, 0, sizeof(*e));
	owner_words((void *)copy_error, (long)file, (long)e, 0, 0);
	if (number)
		*number = e->number;
	return e->text;
}

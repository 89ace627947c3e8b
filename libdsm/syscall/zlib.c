// SPDX-License-Identifier: BSD-2-Clause
/*
 * zlib.c - files of zlib, which many programs read in threads: the handle is private memory of the library's, and of rank 0, as a
 * stream of the C library. This library does not need zlib; a program that calls these functions has it.
 */
#include "row.h"

#include "caller.h"
#include "owner.h"

#include <string.h>

/* zlib may be out of the global scope: loaded with a library of the program. */
static void *zlib_find(const char *name)
{
	void *at = dlsym(RTLD_NEXT, name), *zlib = at ? NULL : dlopen("libz.so.1", RTLD_LAZY);

	if (!at && zlib)
		at = dlsym(zlib, name);
	if (!at)
		dsm_abort(70, "no library has %s()", name);
	return at;
}

#define UNNAMED "DSM_ZLIB" /* zlib has no name for the version of its oldest functions */
#define ROW(name, version, kind, ...) FILES_ROW_OF(name, version, zlib_find, kind, __VA_ARGS__)
ROW(gzopen, UNNAMED, POINTER, S(1), S(2), STACK)
ROW(gzopen64, "ZLIB_1.2.3.3", POINTER, S(1), S(2), STACK)
ROW(gzdopen, UNNAMED, POINTER, FD(1), S(2), STACK)
ROW(gzbuffer, "ZLIB_1.2.3.5", INT, STACK)
ROW(gzsetparams, UNNAMED, INT, STACK)
ROW(gzread, UNNAMED, INT, OUTR(2, 1, INT_(3)), WAITS)
ROW(gzwrite, UNNAMED, INT, INN(2, 1, INT_(3)), WAITS)
ROW(gzgets, UNNAMED, POINTER, LINE(2, INT_(3)), STACK)
ROW(gzputs, UNNAMED, INT, S(2), STACK)
ROW(gzgetc, UNNAMED, INT, STACK)
ROW(gzgetc_, "ZLIB_1.2.5.2", INT, STACK)
ROW(gzputc, UNNAMED, INT, STACK)
ROW(gzungetc, "ZLIB_1.2.0.2", INT, STACK)
ROW(gzflush, UNNAMED, INT, STACK)
ROW(gzseek, UNNAMED, LONG, STACK)
ROW(gzseek64, "ZLIB_1.2.3.3", LONG, STACK)
ROW(gzrewind, UNNAMED, INT, STACK)
ROW(gztell, UNNAMED, LONG, STACK)
ROW(gztell64, "ZLIB_1.2.3.3", LONG, STACK)
ROW(gzoffset, "ZLIB_1.2.3.5", LONG, STACK)
ROW(gzoffset64, "ZLIB_1.2.3.5", LONG, STACK)
ROW(gzeof, UNNAMED, INT, STACK)
ROW(gzdirect, "ZLIB_1.2.2.3", INT, STACK)
ROW(gzclose, UNNAMED, INT, STACK)
ROW(gzclose_r, "ZLIB_1.2.3.5", INT, STACK)
ROW(gzclose_w, "ZLIB_1.2.3.5", INT, STACK)
ROW(gzclearerr, "ZLIB_1.2.0.2", VOID, STACK)

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

EXPORT const char *wrap_gzerror(void *file, int *number);
__asm__(".symver wrap_gzerror, gzerror@" UNNAMED);
EXPORT const char *wrap_gzerror(void *file, int *number)
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

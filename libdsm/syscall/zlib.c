// SPDX-License-Identifier: BSD-2-Clause
/*
 * zlib.c - files of zlib, which many programs read in threads. Rank 0 has them, as the streams of
 * the C library; their memory is shared (libdsm/pthread/alloc.c), for gzgetc(3) is a macro that
 * takes bytes out of a file's buffer. This library does not need zlib; a program that calls these
 * functions has it.
 */
#include "row.h"

#include "caller.h"
#include "owner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* zlib may be out of the global scope: loaded with a library of the program. */
static void *zlib_find(const struct next *n)
{
	void *at = dlsym(RTLD_NEXT, n->name), *zlib = at ? NULL : dlopen("libz.so.1", RTLD_LAZY);

	if (!at && zlib)
		at = dlsym(zlib, n->name);
	if (!at)
		dsm_abort(70, "no library has %s()", n->name);
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

/* ---- items, formatted output ----------------------------------------------------------------- */

/* What the library knows as bytes, in items: the last one may be cut, as in the C library. */
typedef size_t items_fn(void *buf, size_t size, size_t n, void *file);
static const struct row items_in = { "gzfread", LONG, { OUTR(1, 1, 3), WAITS }, true },
			items_out = { "gzfwrite", LONG, { INN(1, 1, 3), WAITS }, true };

/* At rank 0, for another rank. self: the function of this library. */
static size_t items_abroad(const struct row *row, items_fn *self, void *buf, size_t size, size_t n,
			   void *file)
{
	long arg[ARGS] = { (long)buf, 1, 0, (long)file };

	if (__builtin_mul_overflow(size, n, &arg[2]) || !arg[2] || caller_is_child(row->name))
		return 0;
	return (size_t)row_run_abroad(row, (words_fn *)(void *)self, 0, arg) / size;
}

#define ITEMS(name, row)                                                                \
	EXPORT items_fn wrap_##name;                                                    \
	__asm__(".symver wrap_" #name ", " #name "@ZLIB_1.2.9");                        \
	EXPORT size_t wrap_##name(void *buf, size_t size, size_t n, void *file)         \
	{                                                                               \
		if (is_abroad(CALLER))                                                  \
			return items_abroad(&row, wrap_##name, buf, size, n, file);     \
		return NEXT_BY(items_fn *, #name, NULL, zlib_find)(buf, size, n, file); \
	}
ITEMS(gzfread, items_in)
ITEMS(gzfwrite, items_out)

typedef int write_fn(void *file, const void *text, unsigned int n);
typedef int print_fn(void *file, const char *format, ...);
typedef int vprint_fn(void *file, const char *format, va_list ap);

/* At rank 0. By the function itself, which has a limit of its own; it would end text at a zero. */
static long print_at_owner(long file, long text, long n)
{
	if (strlen((char *)text) != (size_t)n)
		return NEXT_BY(write_fn *, "gzwrite", NULL, zlib_find)((void *)file, (void *)text,
								       (unsigned int)n);
	return NEXT_BY(print_fn *, "gzprintf", NULL, zlib_find)((void *)file, "%s", (char *)text);
}

static int zlib_print(void *file, const char *format, va_list ap, const void *caller)
{
	va_list again;
	int n, now;
	char *text;

	if (!is_abroad(caller))
		return NEXT_BY(vprint_fn *, "gzvprintf", NULL, zlib_find)(file, format, ap);
	if (caller_is_child("gzprintf"))
		return 0;
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (n <= 0)
		return n;
	text = program.alloc((size_t)n + 1);
	if (!text)
		return 0;
	/* Other threads may have changed what it prints. */
	now = vsnprintf(text, (size_t)n + 1, format, ap);
	if (now > 0)
		n = (int)owner_wait((void *)print_at_owner, (long)file, (long)text,
				    now < n ? now : n, 0);
	free(text);
	return now > 0 ? n : now;
}

EXPORT vprint_fn wrap_gzvprintf;
__asm__(".symver wrap_gzvprintf, gzvprintf@ZLIB_1.2.7.1");
EXPORT int wrap_gzvprintf(void *file, const char *format, va_list ap)
{
	return zlib_print(file, format, ap, CALLER);
}

EXPORT print_fn wrap_gzprintf;
__asm__(".symver wrap_gzprintf, gzprintf@" UNNAMED);
EXPORT int wrap_gzprintf(void *file, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = zlib_print(file, format, ap, CALLER);
	va_end(ap);
	return n;
}

/* ---- errors ---------------------------------------------------------------------------------- */

typedef const char *error_fn(void *file, int *number);
#define TEXT 256

struct error {
	int number;
	char text[TEXT];
};

static error_fn *next_error(void)
{
	return NEXT_BY(error_fn *, "gzerror", NULL, zlib_find);
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

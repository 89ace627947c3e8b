// SPDX-License-Identifier: BSD-2-Clause
/*
 * wide.c - output of wide characters to streams of rank 0, which the calling rank formats. And
 * functions that neither rank 0 can run for another rank, nor that rank with a copy: on streams,
 * input of wide characters that is parsed, and databases; on descriptors, what the kernel does with
 * them later, or to the calling process. On what rank 0 has, they are refused.
 */
#include "wrap.h"

#include "caller.h"
#include "row.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

static bool wide_is_refused(const char *name, const void *stream, const void *caller)
{
	if (__builtin_expect(files != FILES_ABROAD, 1) || !is_abroad(caller) ||
	    stream_is_here(stream))
		return false;
	if (!caller_is_child(name))
		files_refuse(ENOSYS, name, "%s() on a stream of rank 0 is refused; see dsm-cc(1)",
			     name);
	return true;
}

/* Its stream would be of this rank, and what is written to it goes to rank 0. */
EXPORT FILE *open_wmemstream(wchar_t **out, size_t *size)
{
	if (files != FILES_ABROAD || !is_abroad(CALLER))
		return NEXT(open_wmemstream)(out, size);
	if (!caller_is_child(__func__))
		files_refuse(ENOSYS, __func__,
			     "%s() on another rank than 0 is refused; see dsm-cc(1)", __func__);
	return NULL;
}

/* Functions of up to six words, with a stream in one of them. */
#define REFUSED(name, stream, failure)                                                             \
	EXPORT long refused_##name(long a, long b, long c, long d, long e, long f) __asm__(#name); \
	EXPORT long refused_##name(long a, long b, long c, long d, long e, long f)                 \
	{                                                                                          \
		words_fn *const next = NEXT_NAMED(words_fn *, #name);                              \
		return wide_is_refused(#name, (void *)(stream), CALLER) ? (failure)                \
									: next(a, b, c, d, e, f);  \
	}
REFUSED(fgetpwent, a, 0)
REFUSED(fgetgrent, a, 0)
REFUSED(fgetspent, a, 0)
REFUSED(fgetsgent, a, 0)
REFUSED(fgetpwent_r, a, ENOSYS)
REFUSED(fgetgrent_r, a, ENOSYS)
REFUSED(fgetspent_r, a, ENOSYS)
REFUSED(fgetsgent_r, a, ENOSYS)
REFUSED(putpwent, b, -1)
REFUSED(putgrent, b, -1)
REFUSED(putspent, b, -1)
REFUSED(putsgent, b, -1)
REFUSED(malloc_info, b, -1)

static bool number_is_refused(const char *name, int fd, const void *caller)
{
	if (__builtin_expect(!files, 1))
		return false;
	if (!is_abroad(caller)) {
		errno = caller_may_not(fd, caller) ? EBADF : errno;
		return caller_may_not(fd, caller);
	}
	if (!caller_is_child(name))
		files_refuse(ENOSYS, name,
			     "%s() on a descriptor of rank 0 is refused; see dsm-cc(1)", name);
	return true;
}

/* Functions of up to seven words on the descriptor that is the first. */
typedef long seven_fn(long, long, long, long, long, long, long);
#define REFUSED_NUMBER(name)                                                               \
	EXPORT long refused_##name(long a, long b, long c, long d, long e, long f,         \
				   long g) __asm__(#name);                                 \
	EXPORT long refused_##name(long a, long b, long c, long d, long e, long f, long g) \
	{                                                                                  \
		if (number_is_refused(#name, (int)a, CALLER))                              \
			return -1;                                                         \
		return NEXT_NAMED(seven_fn *, #name)(a, b, c, d, e, f, g);                 \
	}
REFUSED_NUMBER(vmsplice)
REFUSED_NUMBER(fsconfig)
REFUSED_NUMBER(setns)
REFUSED_NUMBER(process_madvise)
REFUSED_NUMBER(process_mrelease)
REFUSED_NUMBER(getsourcefilter)
REFUSED_NUMBER(setsourcefilter)

/* ---- formatted output ------------------------------------------------------------------------ */

int __vfwprintf_chk(FILE *f, int flag, const wchar_t *format, va_list ap);
int __fwprintf_chk(FILE *f, int flag, const wchar_t *format, ...);
int __vwprintf_chk(int flag, const wchar_t *format, va_list ap);
int __wprintf_chk(int flag, const wchar_t *format, ...);

static void wide_unlock(void *f)
{
	funlockfile(f);
}

static long put_all_wide(const wchar_t *from, long n, FILE *f)
{
	long i = 0;

	while (i < n && fputwc_unlocked(from[i], f) != WEOF)
		i++;
	return i == n ? 0 : -1;
}

/* At rank 0. One call, which may have zeros in it. */
static long put_wide(long text, long n, long stream, long a, long b, long c)
{
	FILE *const f = (FILE *)stream;
	long done;

	(void)a, (void)b, (void)c;
	flockfile(f);
	pthread_cleanup_push(wide_unlock, f);
	done = put_all_wide((const wchar_t *)text, n, f);
	pthread_cleanup_pop(1);
	return done;
}

static int print_next(FILE *f, int flag, const wchar_t *format, va_list ap)
{
	return flag ? NEXT(__vfwprintf_chk)(f, flag, format, ap) : NEXT(vfwprintf)(f, format, ap);
}

static int print_abroad(FILE *f, int flag, const wchar_t *format, va_list ap)
{
	static const struct row out = {
		"fwprintf", INT, { INN(1, sizeof(wchar_t), 2), ST(3), WAITS }, true
	};
	const int saved = errno; /* %m */
	wchar_t *text = NULL;
	size_t n = 0;
	FILE *own = NEXT(open_wmemstream)(&text, &n);
	int done;

	if (!own)
		return -1;
	errno = saved;
	done = print_next(own, flag, format, ap);
	if (NEXT(fclose)(own))
		done = -1;
	if (done > 0) {
		const long arg[ARGS] = { (long)text, (long)n, (long)f };

		done = row_run_abroad(&out, put_wide, 0, arg) ? -1 : done;
	}
	free(text);
	return done;
}

static int print_wide(FILE *f, int flag, const wchar_t *format, va_list ap, const void *caller)
{
	if (files != FILES_ABROAD || !is_abroad(caller) || stream_is_here(f))
		return print_next(f, flag, format, ap);
	return caller_is_child("fwprintf") ? -1 : print_abroad(f, flag, format, ap);
}

TWO_FORMS(wprintf, vwprintf, PARAMETERS(const wchar_t *format),
	  print_wide(stdout, 0, format, ap, CALLER))
TWO_FORMS(fwprintf, vfwprintf, PARAMETERS(FILE *f, const wchar_t *format),
	  print_wide(f, 0, format, ap, CALLER))
TWO_FORMS(__wprintf_chk, __vwprintf_chk, PARAMETERS(int flag, const wchar_t *format),
	  print_wide(stdout, flag, format, ap, CALLER))
TWO_FORMS(__fwprintf_chk, __vfwprintf_chk, PARAMETERS(FILE *f, int flag, const wchar_t *format),
	  print_wide(f, flag, format, ap, CALLER))

/* ---- input that is parsed -------------------------------------------------------------------- */

/* Each of those with arguments of their own in two forms. */
#define WIDE(text, name, vname, parameters, stream, call) \
	TWO_FORMS(name, vname, PARAMETERS(parameters),    \
		  wide_is_refused(text, stream, CALLER) ? -1 : call)

int __isoc99_vfwscanf(FILE *f, const wchar_t *format, va_list ap);
int __isoc99_fwscanf(FILE *f, const wchar_t *format, ...);
int __isoc99_vwscanf(const wchar_t *format, va_list ap);
int __isoc99_wscanf(const wchar_t *format, ...);

WIDE("__isoc99_wscanf", __isoc99_wscanf, __isoc99_vwscanf, PARAMETERS(const wchar_t *format), stdin,
     NEXT(__isoc99_vfwscanf)(stdin, format, ap))
WIDE("__isoc99_fwscanf", __isoc99_fwscanf, __isoc99_vfwscanf,
     PARAMETERS(FILE *f, const wchar_t *format), f, NEXT(__isoc99_vfwscanf)(f, format, ap))

/* The names of the older standard, which the header redirects. */
#define OLD(name, result, ...) EXPORT result old_##name(__VA_ARGS__) __asm__(#name)
OLD(vfwscanf, int, FILE *f, const wchar_t *format, va_list ap);
OLD(vwscanf, int, const wchar_t *format, va_list ap);
OLD(fwscanf, int, FILE *f, const wchar_t *format, ...);
OLD(wscanf, int, const wchar_t *format, ...);

static int scan_wide(FILE *f, const wchar_t *format, va_list ap)
{
	return NEXT_NAMED(int (*)(FILE *, const wchar_t *, va_list), "vfwscanf")(f, format, ap);
}

WIDE("wscanf", old_wscanf, old_vwscanf, PARAMETERS(const wchar_t *format), stdin,
     scan_wide(stdin, format, ap))
WIDE("fwscanf", old_fwscanf, old_vfwscanf, PARAMETERS(FILE *f, const wchar_t *format), f,
     scan_wide(f, format, ap))

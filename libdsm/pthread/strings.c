// SPDX-License-Identifier: BSD-2-Clause
/* strings.c - what the C library allocates for the program is in shared memory, as if the program had called malloc(). */
#include "shim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 128u /* the first size of a line's buffer; it grows by realloc() */

extern void __libc_free(void *p);

static char *copy(const char *s, size_t len)
{
	char *out = shared_alloc(len + 1);

	if (!out)
		return NULL;
	memcpy(out, s, len);
	out[len] = 0;
	return out;
}

/* In place of a private string; NULL stays, with its errno. */
static char *share(char *s)
{
	char *out = s && !is_shared(s) ? copy(s, strlen(s)) : s;

	if (out != s)
		__libc_free(s);
	return out;
}

EXPORT char *strdup(const char *s)
{
	return is_ours(CALLER) ? copy(s, strlen(s)) : NEXT(strdup)(s);
}

EXPORT char *strndup(const char *s, size_t n)
{
	return is_ours(CALLER) ? copy(s, strnlen(s, n)) : NEXT(strndup)(s, n);
}

EXPORT char *getcwd(char *buf, size_t size)
{
	char *at = NEXT(getcwd)(buf, size);

	return !buf && is_ours(CALLER) ? share(at) : at;
}

EXPORT char *get_current_dir_name(void)
{
	char *at = NEXT(get_current_dir_name)();

	return is_ours(CALLER) ? share(at) : at;
}

EXPORT char *realpath(const char *path, char *out)
{
	char *at = NEXT(realpath)(path, out);

	return !out && is_ours(CALLER) ? share(at) : at;
}

EXPORT char *canonicalize_file_name(const char *path)
{
	char *at = NEXT(canonicalize_file_name)(path);

	return is_ours(CALLER) ? share(at) : at;
}

/* ---- lines ---------------------------------------------------------------------------------------- */

/* A buffer for the first line. ENOMEM. */
static bool has_line(char **line, size_t *size, const void *caller)
{
	if (!line || !size || *line || !is_ours(caller))
		return true;
	*line = shared_alloc(LINE);
	*size = LINE;
	return *line;
}

EXPORT ssize_t getline(char **line, size_t *size, FILE *f)
{
	return has_line(line, size, CALLER) ? NEXT(getline)(line, size, f) : -1;
}

EXPORT ssize_t getdelim(char **line, size_t *size, int end, FILE *f)
{
	return has_line(line, size, CALLER) ? NEXT(getdelim)(line, size, end, f) : -1;
}

EXPORT ssize_t __getdelim(char **line, size_t *size, int end, FILE *f)
{
	return has_line(line, size, CALLER) ? NEXT(__getdelim)(line, size, end, f) : -1;
}

/* ---- formatted output ----------------------------------------------------------------------------- */

int __vasprintf_chk(char **out, int flag, const char *format, va_list ap);
int __asprintf_chk(char **out, int flag, const char *format, ...);

static int print(char **out, int flag, const char *format, va_list ap, const void *caller)
{
	char *text = NULL;
	int n = NEXT(__vasprintf_chk)(&text, flag, format, ap);

	if (n < 0)
		return n;
	*out = is_ours(caller) ? share(text) : text;
	return *out ? n : -1;
}

EXPORT int vasprintf(char **out, const char *format, va_list ap)
{
	return print(out, 0, format, ap, CALLER);
}

EXPORT int __vasprintf_chk(char **out, int flag, const char *format, va_list ap)
{
	return print(out, flag, format, ap, CALLER);
}

EXPORT int asprintf(char **out, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = print(out, 0, format, ap, CALLER);
	va_end(ap);
	return n;
}

EXPORT int __asprintf_chk(char **out, int flag, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = print(out, flag, format, ap, CALLER);
	va_end(ap);
	return n;
}

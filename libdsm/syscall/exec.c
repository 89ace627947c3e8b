// SPDX-License-Identifier: BSD-2-Clause
/*
 * exec.c - exec(3) functions with strings as arguments: the list becomes an array for the call of
 * rows.def.
 */
#include "wrap.h"

#include <stdarg.h>
#include <unistd.h>

/* The number of strings before NULL, not counting the first one before these. */
static size_t exec_count(va_list ap)
{
	va_list own;
	size_t n;

	va_copy(own, ap);
	for (n = 0; va_arg(own, char *); n++)
		;
	va_end(own);
	return n;
}

/* The array is on the caller's stack; the call copies it to private memory. */
#define LISTED(name, environment, call)                           \
	EXPORT int name(const char *path, const char *first, ...) \
	{                                                         \
		va_list ap;                                       \
		size_t n, i;                                      \
		char **argv;                                      \
		int err;                                          \
		va_start(ap, first);                              \
		n = exec_count(ap) + 1;                           \
		argv = __builtin_alloca((n + 1) * sizeof(*argv)); \
		argv[0] = (char *)(uintptr_t)first;               \
		for (i = 1; i <= n; i++)                          \
			argv[i] = va_arg(ap, char *);             \
		err = call(path, argv, environment);              \
		va_end(ap);                                       \
		return err;                                       \
	}

LISTED(execl, environ, execve)
LISTED(execlp, environ, execvpe)
LISTED(execle, va_arg(ap, char **), execve)

// SPDX-License-Identifier: BSD-2-Clause
/*
 * exec.c - exec(3) functions with strings as arguments: the list becomes an array for the call of
 * rows.def. And those by a descriptor, which is rank 0's: another rank opens the same file.
 */
#include "wrap.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "caller.h"
#include "row.h"

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

/* ---- by a descriptor ------------------------------------------------------------------------- */

/* A descriptor of this rank; -1: errno. */
static int exec_open(int fd, const char *call, const void *caller)
{
	int here;

	if (fd < 0)
		return fd;
	if (is_abroad(caller) && caller_is_child(call))
		return -1;
	here = files ? dsm_files_open_here(fd) : fd;
	if (here >= 0 && here != fd)
		NEXT(fcntl)(here, F_SETFD, 0); /* an interpreter opens it by its number */
	return here;
}

static int exec_run(const struct row *row, words_fn *next, const long *arg)
{
	return (int)(row_needs_copies(row, arg)
			     ? row_run(row, next, 0, arg)
			     : next(arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]));
}

/* It has failed. */
static int exec_close(int here, int fd)
{
	const int saved = errno;

	if (here != fd)
		NEXT(close)(here);
	errno = saved;
	return -1;
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	static const struct row row = { "fexecve", INT, { SS(2), SS(3), STACK }, false };
	const int here = exec_open(fd, __func__, CALLER);
	const long arg[ARGS] = { here, (long)argv, (long)envp };

	if (here < 0 && fd >= 0)
		return -1;
	exec_run(&row, (words_fn *)(void *)NEXT(fexecve), arg);
	return exec_close(here, fd);
}

EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
	static const struct row row = { "execveat", INT, { S(2), SS(3), SS(4) }, false };
	const bool unused = fd < 0 || *path == '/';
	const int here = unused ? fd : exec_open(fd, __func__, CALLER);
	const long arg[ARGS] = { here, (long)path, (long)argv, (long)envp, flags };

	if (here < 0 && !unused)
		return -1;
	exec_run(&row, (words_fn *)(void *)NEXT(execveat), arg);
	return exec_close(here, fd);
}

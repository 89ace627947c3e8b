// SPDX-License-Identifier: BSD-2-Clause
/* log.c - one write(2) per line, so that lines of several ranks do not mix. */
#include "util/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/sys.h"

static int me = -1;
/* What stderr was at log_keep(); inode 0: nothing. */
static struct {
	bool known;
	int copy;
	dev_t device;
	ino_t inode;
} kept = { .copy = -1 };

static bool is_kept(int fd)
{
	struct stat s;

	return !syscall(SYS_fstat, fd, &s) && s.st_ino && s.st_dev == kept.device &&
		s.st_ino == kept.inode;
}

void log_keep(void)
{
	struct stat s;

	if (kept.copy >= 0)
		return;
	kept.known = true;
	if (syscall(SYS_fstat, STDERR_FILENO, &s))
		return;
	kept.device = s.st_dev;
	kept.inode = s.st_ino;
	kept.copy = sys_dup(STDERR_FILENO);
}

void log_release(void)
{
	if (kept.copy >= 0 && is_kept(kept.copy))
		sys_close(kept.copy);
	kept.copy = -1;
}

/* The program may have closed either, and opened another file of that number. */
int log_descriptor(void)
{
	if (!kept.known)
		return STDERR_FILENO;
	if (kept.copy >= 0 && is_kept(kept.copy))
		return kept.copy;
	return is_kept(STDERR_FILENO) ? STDERR_FILENO : -1;
}

void log_rank(int rank)
{
	me = rank;
}

/*
 * The reader of stderr, often the launcher, may have gone. Then the line is lost, but SIGPIPE must
 * not end the process, which may have to tell others. Uses system calls: the functions of libc are
 * cancellation points, or wrapped.
 */
static void write_line(const char *line, size_t n)
{
	const uint64_t pipe = UINT64_C(1) << (SIGPIPE - 1);
	const struct timespec now = { 0 };
	uint64_t pending = 0, old;

	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &pipe, &old, sizeof(old));
	if (syscall(SYS_write, log_descriptor(), line, n) < 0 && errno == EPIPE &&
	    !(pending & pipe))
		syscall(SYS_rt_sigtimedwait, &pipe, NULL, &now, sizeof(pipe));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

void log_line(const char *fmt, ...)
{
	char line[1024];
	int saved = errno;
	va_list ap;
	int n;

	if (me >= 0)
		n = snprintf(line, sizeof(line), "libdsm: rank %d: ", me);
	else
		n = snprintf(line, sizeof(line), "libdsm: ");
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	write_line(line, (size_t)n);
	errno = saved;
}

// SPDX-License-Identifier: BSD-2-Clause
/* log.c - one write(2) a line, so that the ranks' lines do not mix. */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static int me = -1;

void log_rank(int rank)
{
	me = rank;
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
	if (syscall(SYS_write, STDERR_FILENO, line, (size_t)n) < 0) /* the function is a cancellation point */
		n = 0;                                              /* nowhere to say it */
	errno = saved;
}

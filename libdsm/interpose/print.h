/* SPDX-License-Identifier: BSD-2-Clause */
/* print.h - a line to stderr, past what the program may have interposed or closed. */
#ifndef INTERPOSE_PRINT_H
#define INTERPOSE_PRINT_H

#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "interpose/raw_syscall.h"

/*
 * "LIBRARY: rank N: TEXT" and a newline in one write(2); a negative rank is left out. No
 * cancellation point, keeps errno.
 */
static inline void print_message(int fd, const char *library, int rank, const char *format,
				 va_list ap) __attribute__((format(printf, 4, 0)));
static inline void print_message(int fd, const char *library, int rank, const char *format,
				 va_list ap)
{
	const int saved = errno;
	char line[512];
	int n, len;

	n = snprintf(line, sizeof(line), "%s: ", library);
	if (rank >= 0)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "rank %d: ", rank);
	len = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	n += len < (int)sizeof(line) - n - 1 ? len : (int)sizeof(line) - n - 2;
	line[n++] = '\n';
	/*
	 * The stack may be shared memory, and its page go to another node before the kernel reads
	 * it.
	 */
	while (raw_syscall(SYS_write, (const long[6]){ fd, (long)line, n }) < 0 &&
	       errno == EFAULT) {
		*(volatile char *)line = library[0];
		*(volatile char *)&line[n - 1] = '\n';
	}
	errno = saved;
}

#endif

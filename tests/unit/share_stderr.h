/* SPDX-License-Identifier: BSD-2-Clause */
/* share_stderr.h - captures stderr line by line: tests also check messages. */
#ifndef UNIT_SHARE_STDERR_H
#define UNIT_SHARE_STDERR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int said_fd = -1, said_old;
static char said[16384];

/* Before the first owner, whose lines go to what stderr is when it begins. */
static inline void said_begin(void)
{
	FILE *f = tmpfile();

	if (!f)
		abort();
	said_old = dup(2);
	said_fd = fileno(f);
	dup2(said_fd, 2);
}

/* The number of lines since the last call that contain this text ("": all). said[] has them. */
static inline unsigned int said_lines(const char *text)
{
	const ssize_t n = pread(said_fd, said, sizeof(said) - 1, 0);
	unsigned int lines = 0;
	char *at;

	said[n > 0 ? n : 0] = 0;
	for (at = said; *at; at = strchr(at, '\n') + 1) {
		const char *found = strstr(at, text), *end = strchr(at, '\n');

		if (!end)
			break;
		lines += found && found <= end;
	}
	return lines;
}

static inline void said_forget(void)
{
	if (ftruncate(said_fd, 0) || lseek(said_fd, 0, SEEK_SET) < 0)
		abort();
}

static inline void said_end(void)
{
	dup2(said_old, 2);
	close(said_old);
}

#endif

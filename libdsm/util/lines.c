// SPDX-License-Identifier: BSD-2-Clause
/* lines.c - the lines of a file. */
#include "util/lines.h"

#include <string.h>

#include "util/sys.h"

bool lines_open(struct lines *l, const char *path)
{
	l->fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	l->at = l->have = 0;
	return l->fd >= 0;
}

void lines_close(struct lines *l)
{
	sys_close(l->fd);
}

/*
 * Move the unread bytes to the start of the buffer, and read more behind them. False: there is no
 * more, or no room.
 */
static bool lines_fill(struct lines *l)
{
	ssize_t n;

	memmove(l->buf, l->buf + l->at, l->have - l->at);
	l->have -= l->at;
	l->at = 0;
	n = syscall(SYS_read, l->fd, l->buf + l->have, sizeof(l->buf) - 1 - l->have);
	if (n > 0)
		l->have += (size_t)n;
	return n > 0;
}

char *lines_next(struct lines *l)
{
	char *line, *end;

	while (!(end = memchr(l->buf + l->at, '\n', l->have - l->at)))
		if (!lines_fill(l)) {
			if (l->at == l->have)
				return NULL;
			end = l->buf + l->have;
			break;
		}
	line = l->buf + l->at;
	l->at = (size_t)(end - l->buf) + (end < l->buf + l->have);
	*end = '\0';
	return line;
}

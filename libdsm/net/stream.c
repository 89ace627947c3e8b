// SPDX-License-Identifier: BSD-2-Clause
/* stream.c - see stream.h. */
#include "net/stream.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define STREAMS 4 /* UCX opens one at a time, and its own thread may open another */

static struct stream {
	FILE *file;
	int fd;
	bool used; /* atomic */
	char buffer[4096];
} streams[STREAMS];

static ssize_t read_some(void *arg, char *to, size_t size)
{
	const struct stream *s = arg;

	return read(s->fd, to, size);
}

void stream_prepare(void)
{
	const cookie_io_functions_t functions = { .read = read_some };
	struct stream *s;

	for (s = streams; s < streams + STREAMS; s++) {
		s->file = fopencookie(s, "r", functions);
		if (s->file)
			setvbuf(s->file, s->buffer, _IOFBF, sizeof(s->buffer));
	}
}

static bool is_kernels(const char *path)
{
	return !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5);
}

FILE *stream_open(const char *path, const char *mode)
{
	struct stream *s;

	for (s = streams;
	     s < streams + STREAMS && mode[0] == 'r' && !strchr(mode, '+') && is_kernels(path);
	     s++) {
		if (!s->file || __atomic_exchange_n(&s->used, true, __ATOMIC_ACQUIRE))
			continue;
		s->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (s->fd >= 0)
			return s->file;
		__atomic_store_n(&s->used, false, __ATOMIC_RELEASE);
		return NULL;
	}
	return fopen(path, mode);
}

int stream_close(FILE *f)
{
	struct stream *s;
	int err;

	for (s = streams; s < streams + STREAMS && s->file != f; s++)
		;
	if (s == streams + STREAMS)
		return fclose(f);
	__fpurge(f);
	clearerr(f);
	err = close(s->fd);
	__atomic_store_n(&s->used, false, __ATOMIC_RELEASE);
	return err;
}

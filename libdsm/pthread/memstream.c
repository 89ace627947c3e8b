// SPDX-License-Identifier: BSD-2-Clause
/*
 * memstream.c - open_memstream() of the program: the stream belongs to the C library and is
 * private, like all streams. Its contents are in shared memory, for any thread to read and to free.
 */
#include "shim.h"

#include "interpose/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *p);

struct memstream {
	char **out; /* the program's pointer; `size` is the program's, too */
	size_t *out_size;
	char *text; /* of `length` bytes, followed by a zero */
	size_t length, room, at;
};

/* Update the program's variables after a flush. */
static void memstream_show(struct memstream *m)
{
	*m->out = m->text;
	*m->out_size = m->at < m->length ? m->at : m->length;
}

/* ENOSPC: there is no memory. */
static bool memstream_reserve(struct memstream *m, size_t n)
{
	const size_t room = n > 2 * m->room ? n : 2 * m->room;
	char *more;

	if (n <= m->room)
		return true;
	more = realloc(m->text, room);
	if (!more)
		return false;
	m->text = more;
	m->room = room;
	return true;
}

static ssize_t write_text(void *cookie, const char *from, size_t n)
{
	struct memstream *m = cookie;
	size_t end;

	if (__builtin_add_overflow(m->at, n, &end) || end >= SSIZE_MAX ||
	    !memstream_reserve(m, end + 1)) {
		errno = ENOSPC;
		return 0; /* 0 from a cookie's write means an error */
	}
	if (m->at > m->length)
		memset(m->text + m->length, 0, m->at - m->length);
	memcpy(m->text + m->at, from, n);
	m->at = end;
	if (end > m->length) {
		m->length = end;
		m->text[end] = 0;
	}
	memstream_show(m);
	return (ssize_t)n;
}

static int seek(void *cookie, off64_t *to, int whence)
{
	struct memstream *m = cookie;
	const off64_t from =
		whence == SEEK_SET ? 0 : (off64_t)(whence == SEEK_CUR ? m->at : m->length);
	off64_t at;

	if (__builtin_add_overflow(from, *to, &at) || at < 0) {
		errno = EINVAL;
		return -1;
	}
	m->at = (size_t)at;
	*to = at;
	memstream_show(m);
	return 0;
}

static int memstream_end(void *cookie)
{
	memstream_show(cookie);
	__libc_free(cookie);
	return 0;
}

/* At rank 0, whose streams these are. */
static FILE *memstream_make(char **out, size_t *size)
{
	const cookie_io_functions_t functions = { .write = write_text,
						  .seek = seek,
						  .close = memstream_end };
	struct memstream *m = __libc_malloc(sizeof(*m));
	FILE *f;

	if (!m)
		return NULL;
	*m = (struct memstream){ .out = out, .out_size = size };
	if (!memstream_reserve(m, 1)) {
		__libc_free(m);
		return NULL;
	}
	m->text[0] = 0;
	f = fopencookie(m, "w", functions);
	if (!f) {
		free(m->text);
		__libc_free(m);
		return NULL;
	}
	memstream_show(m);
	return f;
}

EXPORT FILE *open_memstream(char **out, size_t *size)
{
	if (!caller_is_ours(CALLER))
		return NEXT(open_memstream)(out, size);
	return dsm_files_call
		? (FILE *)dsm_files_call((void *)memstream_make, (long)out, (long)size, 0, 0)
		: memstream_make(out, size);
}

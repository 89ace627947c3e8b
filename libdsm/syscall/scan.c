// SPDX-License-Identifier: BSD-2-Clause
/*
 * scan.c - input from a stream of rank 0 that is parsed by the rank that reads: scanf(3), and lines
 * for libraries, whose memory is private. A private stream stands for the other one: it takes what
 * that one has buffered, and gives back what was not used.
 */
#include "wrap.h"

#include "caller.h"
#include "owner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_SIZE 512

struct view {
	FILE *f;      /* rank 0's */
	FILE *view;   /* of this rank; NULL: none */
	char *shared; /* PIECE_SIZE bytes */
	int state;    /* whether the caller can be cancelled */
};

static void unlock_stream(void *f)
{
	funlockfile(f);
}

/*
 * One byte, for which it may wait, and what is buffered behind it. Returns their number, 0 at the
 * end.
 */
static long take_some(FILE *f, char *out, long size)
{
	long n = 0;
	int c;

	do {
		c = getc_unlocked(f);
		if (c == EOF)
			break;
		out[n++] = (char)c;
	} while (n < size && f->_IO_read_ptr < f->_IO_read_end);
	return n;
}

/* At rank 0. If it is cancelled, the stream is not left locked: no other thread could unlock it. */
static long take_input(long stream, long to, long size)
{
	FILE *const f = (FILE *)stream;
	long n;

	pthread_cleanup_push(unlock_stream, f);
	n = take_some(f, (char *)to, size);
	pthread_cleanup_pop(0);
	return n;
}

/* At rank 0. */
static long scan_give_back(long stream, long from, long n)
{
	while (n > 0)
		if (ungetc(((unsigned char *)from)[--n], (FILE *)stream) == EOF)
			return -1;
	return 0;
}

static ssize_t read_view(void *cookie, char *to, size_t size)
{
	const struct view *v = cookie;
	long n;

	pthread_setcancelstate(v->state, NULL);
	n = owner_wait((void *)take_input, (long)v->f, (long)v->shared,
		       (long)(size < PIECE_SIZE ? size : PIECE_SIZE), 0);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	if (n > 0)
		memcpy(to, v->shared, (size_t)n);
	return n;
}

/* What the parser has not used is a part of the last piece, or a character that it has put back. */
static void return_rest(struct view *v)
{
	size_t n = (size_t)(v->view->_IO_read_end - v->view->_IO_read_ptr);

	if (n > PIECE_SIZE)
		n = PIECE_SIZE;
	if (!n)
		return;
	memcpy(v->shared, v->view->_IO_read_ptr, n);
	owner_words((void *)scan_give_back, (long)v->f, (long)v->shared, (long)n, 0);
}

struct scanned {
	FILE *f;
	int (*scan)(FILE *, const char *, va_list);
	const char *format;
	va_list *ap;
	int result;
};

static void end_view(void *arg)
{
	struct view *v = arg;

	if (v->view)
		NEXT(fclose)(v->view);
	free(v->shared);
}

/*
 * The stream is locked meanwhile: it is one call. If it is cancelled, what it has read is gone, and
 * take_input() has unlocked.
 */
static void scan_view(struct scanned *c, struct view *v)
{
	const cookie_io_functions_t functions = { .read = read_view };
	char buffer[PIECE_SIZE];

	owner_words((void *)flockfile, (long)v->f, 0, 0, 0);
	v->view = NEXT(fopencookie)(v, "r", functions);
	if (v->view) {
		setvbuf(v->view, buffer, _IOFBF, sizeof(buffer));
		pthread_cleanup_push(end_view, v);
		c->result = c->scan(v->view, c->format, *c->ap);
		pthread_cleanup_pop(0);
		return_rest(v);
	}
	owner_words((void *)funlockfile, (long)v->f, 0, 0, 0);
}

static int scan_abroad(struct scanned c)
{
	struct view v = { .f = c.f, .shared = program.alloc(PIECE_SIZE) };

	c.result = EOF;
	if (!v.shared)
		return EOF;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &v.state);
	scan_view(&c, &v);
	end_view(&v);
	pthread_setcancelstate(v.state, NULL);
	return c.result;
}

int __isoc99_vfscanf(FILE *f, const char *format, va_list ap);
int __isoc99_vscanf(const char *format, va_list ap);
int __isoc99_fscanf(FILE *f, const char *format, ...);
int __isoc99_scanf(const char *format, ...);

static int scan_run(FILE *f, int (*next)(FILE *, const char *, va_list), const char *format,
		    va_list ap, const void *caller)
{
	struct scanned c = { .f = f, .scan = next, .format = format };
	va_list own;
	int n;

	if (!is_abroad(caller) || stream_is_here(f))
		return next(f, format, ap);
	if (caller_is_child("scanf"))
		return EOF;
	va_copy(own, ap);
	c.ap = &own;
	n = scan_abroad(c);
	va_end(own);
	return n;
}

TWO_FORMS(__isoc99_scanf, __isoc99_vscanf, PARAMETERS(const char *format),
	  scan_run(stdin, NEXT(__isoc99_vfscanf), format, ap, CALLER))
TWO_FORMS(__isoc99_fscanf, __isoc99_vfscanf, PARAMETERS(FILE *f, const char *format),
	  scan_run(f, NEXT(__isoc99_vfscanf), format, ap, CALLER))

/* The names of the older standard, which the header redirects. */
#define OLD(name, result, ...) EXPORT result old_##name(__VA_ARGS__) __asm__(#name)
OLD(vfscanf, int, FILE *f, const char *format, va_list ap);
OLD(vscanf, int, const char *format, va_list ap);
OLD(fscanf, int, FILE *f, const char *format, ...);
OLD(scanf, int, const char *format, ...);

static int (*old_next(void))(FILE *, const char *, va_list)
{
	return NEXT_NAMED(int (*)(FILE *, const char *, va_list), "vfscanf");
}

TWO_FORMS(old_scanf, old_vscanf, PARAMETERS(const char *format),
	  scan_run(stdin, old_next(), format, ap, CALLER))
TWO_FORMS(old_fscanf, old_vfscanf, PARAMETERS(FILE *f, const char *format),
	  scan_run(f, old_next(), format, ap, CALLER))

/* ---- lines ----------------------------------------------------------------------------------- */

struct line {
	char *text;
	size_t size;
};

/* A line into memory of a library's, which only this rank can enlarge. */
static ssize_t private_line(char **line, size_t *size, int end, FILE *f)
{
	struct line *const l = program.alloc(sizeof(*l));
	ssize_t n = -1;
	char *more;

	if (!l)
		return -1;
	*l = (struct line){ program.alloc(PIECE_SIZE), PIECE_SIZE };
	if (l->text)
		n = owner_wait((void *)getdelim, (long)&l->text, (long)&l->size, end, (long)f);
	if (n >= 0 && (!*line || *size <= (size_t)n)) {
		more = realloc(*line, (size_t)n + 1);
		if (more) {
			*line = more;
			*size = (size_t)n + 1;
		} else {
			n = -1;
		}
	}
	if (n >= 0)
		memcpy(*line, l->text, (size_t)n + 1);
	free(l->text);
	free(l);
	return n;
}

static ssize_t line_of(char **line, size_t *size, int end, FILE *f, const void *caller)
{
	if (!is_abroad(caller) || stream_is_here(f))
		return NEXT(getdelim)(line, size, end, f);
	if (caller_is_child("getline"))
		return -1;
	if (!line || !size) {
		errno = EINVAL;
		return -1;
	}
	if (program.is_shared(line) && program.is_shared(size) && program.is_shared(*line))
		return owner_wait((void *)getdelim, (long)line, (long)size, end, (long)f);
	return private_line(line, size, end, f);
}

ssize_t __getdelim(char **line, size_t *size, int end, FILE *f);

EXPORT ssize_t getline(char **line, size_t *size, FILE *f)
{
	return line_of(line, size, '\n', f, CALLER);
}

EXPORT ssize_t getdelim(char **line, size_t *size, int end, FILE *f)
{
	return line_of(line, size, end, f, CALLER);
}

EXPORT ssize_t __getdelim(char **line, size_t *size, int end, FILE *f)
	__attribute__((alias("getdelim")));

/*
 * ---- streams without a descriptor: of rank 0 if the program makes them, since any rank may use
 * them --
 */

struct made {
	void *cookie;
	cookie_io_functions_t functions;
	char mode[16];
};

static long scan_make_stream(long with)
{
	const struct made m = *(const struct made *)with;

	return (long)NEXT(fopencookie)(m.cookie, m.mode, m.functions);
}

EXPORT FILE *fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
	struct made *m;
	FILE *f;

	if (!is_abroad(CALLER) || !program.is_shared(cookie) || strlen(mode) >= sizeof(m->mode))
		return NEXT(fopencookie)(cookie, mode, functions);
	m = program.alloc(sizeof(*m));
	if (!m)
		return NULL;
	*m = (struct made){ .cookie = cookie, .functions = functions };
	strcpy(m->mode, mode);
	f = (FILE *)owner_words((void *)scan_make_stream, (long)m, 0, 0, 0);
	free(m);
	return f;
}

static long scan_make_memory(long buf, long size, long mode)
{
	char text[8];

	memcpy(text, &mode, sizeof(mode));
	return (long)NEXT(fmemopen)((void *)buf, (size_t)size, text);
}

EXPORT FILE *fmemopen(void *buf, size_t size, const char *mode)
{
	long word = 0;

	if (!is_abroad(CALLER) || (buf && !program.is_shared(buf)) || strlen(mode) >= sizeof(word))
		return NEXT(fmemopen)(buf, size, mode);
	memcpy(&word, mode, strlen(mode));
	return (FILE *)owner_words((void *)scan_make_memory, (long)buf, (long)size, word, 0);
}

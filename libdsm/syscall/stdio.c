// SPDX-License-Identifier: BSD-2-Clause
/*
 * stdio.c - streams. The C library fills and empties the buffer of a stream by its own read(2) and write(2), which cannot be wrapped;
 * and a large fread(3) or fwrite(3) passes the caller's memory to them. So a stream never has a shared buffer, and never sees a
 * large shared range: pieces are copied. Formatted output is made in private memory.
 *
 * The library's own buffers are private, because its calls of malloc() are not the program's (libdsm-pthread.so).
 */
#include "wrap.h"

#include <err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "scratch.h"

/* The header defines macros of these names. */
#undef fread_unlocked
#undef fwrite_unlocked

#define STREAM_PIECE (64ul << 10)

struct transfer {
	FILE *f;
	char *buf;
	size_t n;
	bool out;
	size_t done;
};

static size_t move_piece(const struct transfer *t, char *copy, size_t n)
{
	char *const at = t->buf + t->done;
	size_t got;

	if (!is_away(at))
		return t->out ? NEXT(fwrite_unlocked)(at, 1, n, t->f) : NEXT(fread_unlocked)(at, 1, n, t->f);
	if (t->out) {
		memcpy(copy, at, n);
		return NEXT(fwrite_unlocked)(copy, 1, n, t->f);
	}
	got = NEXT(fread_unlocked)(copy, 1, n, t->f);
	memcpy(at, copy, got);
	return got;
}

static void unlock(void *f)
{
	funlockfile(f);
}

/* Under the stream's lock, so that it is one call. */
static void transfer_run(void *arg)
{
	struct transfer *out = arg, t = *out;
	const size_t piece = t.n < STREAM_PIECE ? t.n : STREAM_PIECE;
	struct scratch s;
	size_t n, got = 0;
	char *copy;

	SCRATCH_BEGIN(s);
	copy = scratch_get(&s, piece, NULL);
	if (!copy)
		goto out;
	flockfile(t.f); /* also for the _unlocked functions: the lock nests */
	pthread_cleanup_push(unlock, t.f);
	do {
		n = t.n - t.done < piece ? t.n - t.done : piece;
		got = move_piece(&t, copy, n);
		t.done += got;
	} while (got == n && t.done < t.n);
	pthread_cleanup_pop(1);
out:
	SCRATCH_END();
	out->done = t.done;
}

static size_t items(struct transfer t, size_t size)
{
	dsm_call(transfer_run, &t);
	return t.done / size;
}

/* Must this function do the transfer? Otherwise the C library does, with its own checks of sizes. */
static bool takes(const void *buf, size_t size, size_t n, size_t *bytes)
{
	return (is_away(buf) || STACK_IS_AWAY) && !__builtin_mul_overflow(size, n, bytes) && *bytes;
}

#define READER(name)                                                                     \
	EXPORT size_t name(void *buf, size_t size, size_t n, FILE *f)                    \
	{                                                                                \
		size_t bytes;                                                            \
		if (!takes(buf, size, n, &bytes))                                        \
			return NEXT(name)(buf, size, n, f);                              \
		return items((struct transfer){ .f = f, .buf = buf, .n = bytes }, size); \
	}

#define WRITER(name)                                                                             \
	EXPORT size_t name(const void *buf, size_t size, size_t n, FILE *f)                      \
	{                                                                                        \
		struct transfer t = { .f = f, .buf = (char *)(uintptr_t)buf, .out = true };      \
		return takes(buf, size, n, &t.n) ? items(t, size) : NEXT(name)(buf, size, n, f); \
	}

READER(fread)
READER(fread_unlocked)
WRITER(fwrite)
WRITER(fwrite_unlocked)

extern void __chk_fail(void) __attribute__((noreturn));
size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *f);

EXPORT size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *f)
{
	size_t bytes;

	if (__builtin_mul_overflow(size, n, &bytes) || bytes > room)
		__chk_fail();
	return fread(buf, size, n, f);
}

static int put_string(const char *s, FILE *f)
{
	struct transfer t = { .f = f, .buf = (char *)(uintptr_t)s, .n = strlen(s), .out = true };

	if (!t.n)
		return 1;
	dsm_call(transfer_run, &t);
	return t.done == t.n ? 1 : EOF;
}

EXPORT int fputs(const char *s, FILE *f)
{
	return is_away(s) || STACK_IS_AWAY ? put_string(s, f) : NEXT(fputs)(s, f);
}

EXPORT int fputs_unlocked(const char *s, FILE *f)
{
	return is_away(s) || STACK_IS_AWAY ? put_string(s, f) : NEXT(fputs_unlocked)(s, f);
}

EXPORT int puts(const char *s)
{
	int done;

	if (!is_away(s) && !STACK_IS_AWAY)
		return NEXT(puts)(s);
	flockfile(stdout);
	done = put_string(s, stdout);
	if (done != EOF && putc_unlocked('\n', stdout) == EOF)
		done = EOF;
	funlockfile(stdout);
	return done;
}

/* ---- formatted output ----------------------------------------------------------------------------- */

extern int __vsnprintf_chk(char *buf, size_t size, int flag, size_t room, const char *format, va_list ap);

struct printed {
	FILE *f; /* NULL: to fd */
	int fd, flag, result;
	const char *format;
	va_list *ap;
};

static ssize_t put_all(int fd, const char *buf, size_t n)
{
	size_t done = 0;
	ssize_t got;

	while (done < n) {
		got = NEXT(write)(fd, buf + done, n - done);
		if (got < 0)
			return -1;
		done += (size_t)got;
	}
	return (ssize_t)n;
}

static void print_run(void *arg)
{
	struct printed *out = arg, p = *out;
	const int saved = errno; /* %m */
	struct scratch s;
	va_list again;
	char *text;
	int n;

	SCRATCH_BEGIN(s);
	va_copy(again, *p.ap);
	n = __vsnprintf_chk(s.room, ROOM, p.flag, ROOM, p.format, *p.ap);
	text = n < (int)ROOM ? s.room : scratch_get(&s, (size_t)n + 1, NULL);
	if (n >= (int)ROOM && text) {
		errno = saved;
		n = __vsnprintf_chk(text, (size_t)n + 1, p.flag, (size_t)n + 1, p.format, again);
	}
	va_end(again);
	if (!text)
		n = -1;
	if (n > 0 && (p.f ? NEXT(fwrite)(text, 1, (size_t)n, p.f) != (size_t)n : put_all(p.fd, text, (size_t)n) < 0))
		n = -1;
	SCRATCH_END();
	out->result = n;
}

static int print(FILE *f, int fd, int flag, const char *format, va_list ap)
{
	struct printed p = { .f = f, .fd = fd, .flag = flag, .format = format };
	va_list own;

	va_copy(own, ap);
	p.ap = &own;
	dsm_call(print_run, &p);
	va_end(own);
	return p.result;
}

/* An argument may be shared, and so may the stack, on which the C library formats for unbuffered streams. */
static bool prints(void)
{
	return dsm_needs_pin(NULL, 1);
}

EXPORT int vfprintf(FILE *f, const char *format, va_list ap)
{
	return prints() ? print(f, -1, 0, format, ap) : NEXT(vfprintf)(f, format, ap);
}

EXPORT int vprintf(const char *format, va_list ap)
{
	return vfprintf(stdout, format, ap);
}

EXPORT int vdprintf(int fd, const char *format, va_list ap)
{
	return prints() ? print(NULL, fd, 0, format, ap) : NEXT(vdprintf)(fd, format, ap);
}

int __vfprintf_chk(FILE *f, int flag, const char *format, va_list ap);
int __vprintf_chk(int flag, const char *format, va_list ap);
int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);

EXPORT int __vfprintf_chk(FILE *f, int flag, const char *format, va_list ap)
{
	return prints() ? print(f, -1, flag, format, ap) : NEXT(__vfprintf_chk)(f, flag, format, ap);
}

EXPORT int __vprintf_chk(int flag, const char *format, va_list ap)
{
	return __vfprintf_chk(stdout, flag, format, ap);
}

EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	return prints() ? print(NULL, fd, flag, format, ap) : NEXT(__vdprintf_chk)(fd, flag, format, ap);
}

/* The variadic form of each function. */
#define VARIADIC(name, last, params, call) \
	EXPORT int name params             \
	{                                  \
		va_list ap;                \
		int n;                     \
		va_start(ap, last);        \
		n = call;                  \
		va_end(ap);                \
		return n;                  \
	}

int __printf_chk(int flag, const char *format, ...);
int __fprintf_chk(FILE *f, int flag, const char *format, ...);
int __dprintf_chk(int fd, int flag, const char *format, ...);

VARIADIC(printf, format, (const char *format, ...), vfprintf(stdout, format, ap))
VARIADIC(fprintf, format, (FILE * f, const char *format, ...), vfprintf(f, format, ap))
VARIADIC(dprintf, format, (int fd, const char *format, ...), vdprintf(fd, format, ap))
VARIADIC(__printf_chk, format, (int flag, const char *format, ...), __vfprintf_chk(stdout, flag, format, ap))
VARIADIC(__fprintf_chk, format, (FILE * f, int flag, const char *format, ...), __vfprintf_chk(f, flag, format, ap))
VARIADIC(__dprintf_chk, format, (int fd, int flag, const char *format, ...), __vdprintf_chk(fd, flag, format, ap))

/* The program's exit(), which libdsm-pthread.so replaces. */
EXPORT void verr(int status, const char *format, va_list ap)
{
	vwarn(format, ap);
	exit(status);
}

EXPORT void verrx(int status, const char *format, va_list ap)
{
	vwarnx(format, ap);
	exit(status);
}

/* Functions that print messages, in the forms of rows.def. */
#define MESSAGE(name, last, params, call) \
	EXPORT void name params           \
	{                                 \
		va_list ap;               \
		va_start(ap, last);       \
		call;                     \
		va_end(ap);               \
	}

void __vsyslog_chk(int priority, int flag, const char *format, va_list ap);
void __syslog_chk(int priority, int flag, const char *format, ...);

MESSAGE(warn, format, (const char *format, ...), vwarn(format, ap))
MESSAGE(warnx, format, (const char *format, ...), vwarnx(format, ap))
MESSAGE(err, format, (int status, const char *format, ...), verr(status, format, ap))
MESSAGE(errx, format, (int status, const char *format, ...), verrx(status, format, ap))
MESSAGE(syslog, format, (int priority, const char *format, ...), vsyslog(priority, format, ap))
MESSAGE(__syslog_chk, format, (int priority, int flag, const char *format, ...),
	__vsyslog_chk(priority, flag, format, ap))

/* ---- buffers -------------------------------------------------------------------------------------- */

/* A shared buffer is not used: the C library allocates one of its own. */
EXPORT int setvbuf(FILE *f, char *buf, int mode, size_t size)
{
	return is_away(buf) ? NEXT(setvbuf)(f, NULL, mode, 0) : NEXT(setvbuf)(f, buf, mode, size);
}

EXPORT void setbuffer(FILE *f, char *buf, size_t size)
{
	setvbuf(f, buf, buf ? _IOFBF : _IONBF, size);
}

EXPORT void setbuf(FILE *f, char *buf)
{
	setbuffer(f, buf, BUFSIZ);
}

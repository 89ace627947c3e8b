// SPDX-License-Identifier: BSD-2-Clause
/*
 * stdio.c - streams. The C library fills and empties the buffer of a stream by its own read(2) and
 * write(2), which cannot be wrapped; and a large fread(3) or fwrite(3) passes the caller's memory
 * to them. So a stream never has a shared buffer, and never sees a large shared range: pieces are
 * copied. Formatted output is made in private memory.
 *
 * In a job that is one process to its author, streams are rank 0's, and are used there; output is
 * formatted by the rank that prints. files.def has the functions that are not here.
 *
 * Compilers expand getc_unlocked() and its like, which then look into the structure of the stream
 * (libdsm/pthread/streams.c).
 *
 * The library's own buffers are private, because its calls of malloc() are not the program's
 * (libdsm-pthread.so).
 */
#include "wrap.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caller.h"
#include "owner.h"
#include "row.h"
#include "scratch.h"

/* The header defines macros of these names. */
#undef fread_unlocked
#undef fwrite_unlocked

#define STREAM_PIECE (64ul << 10)
#define STREAM_FEW 512
#define STREAM_BY_LINE 0x200 /* _IO_LINE_BUF of the C library, which has no name in its headers */

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
		return t->out ? NEXT(fwrite_unlocked)(at, 1, n, t->f)
			      : NEXT(fread_unlocked)(at, 1, n, t->f);
	if (t->out) {
		memcpy(copy, at, n);
		return NEXT(fwrite_unlocked)(copy, 1, n, t->f);
	}
	got = NEXT(fread_unlocked)(copy, 1, n, t->f);
	memcpy(at, copy, got);
	return got;
}

/* Do functions lock the stream? That of a printf handler has no lock. */
static bool has_lock(const FILE *f)
{
	return !(f->_flags & _IO_USER_LOCK);
}

static __attribute__((__noinline__)) void stdio_lock(FILE *f)
{
	if (has_lock(f))
		NEXT(flockfile)(f);
}

static void stdio_unlock(void *f)
{
	if (has_lock(f))
		NEXT(funlockfile)(f);
}

/* Under the stream's lock, so that it is one call. */
static void transfer_run(void *arg)
{
	struct transfer *out = arg, t = *out;
	const size_t piece = t.n < STREAM_PIECE ? t.n : STREAM_PIECE;
	FILE *const f = t.f;
	struct scratch s;
	size_t n, got = 0;
	char *copy;

	SCRATCH_BEGIN(s);
	copy = scratch_get(&s, piece, NULL);
	if (!copy)
		goto out;
	stdio_lock(f); /* also for the _unlocked functions: the lock nests */
	pthread_cleanup_push(stdio_unlock, f);
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

/*
 * Transfers of a few bytes, when the stream's buffer has them, or room for them: then the C library
 * would only copy, too. As shared memory is not touched under the lock, no fault is handled there.
 * False: nothing was done.
 */
static bool transfer_few(struct transfer *t, bool unlocked)
{
	const ptrdiff_t n = (ptrdiff_t)t->n;
	char few[STREAM_FEW];
	FILE *const f = t->f;
	bool fits;

	if (t->n > sizeof(few))
		return false;
	if (t->out)
		memcpy(few, t->buf, t->n);
	if (!unlocked)
		stdio_lock(f);
	if (t->out)
		fits = !(f->_flags & STREAM_BY_LINE) && f->_IO_write_end - f->_IO_write_ptr >= n;
	else
		fits = f->_IO_read_end - f->_IO_read_ptr >= n;
	fits &= f->_mode <= 0; /* no wide characters */
	if (fits && t->out) {
		f->_IO_write_ptr = mempcpy(f->_IO_write_ptr, few, t->n);
	} else if (fits) {
		memcpy(few, f->_IO_read_ptr, t->n);
		f->_IO_read_ptr += n;
	}
	if (!unlocked)
		stdio_unlock(f);
	if (fits && !t->out)
		memcpy(t->buf, few, t->n);
	if (fits)
		t->done = t->n;
	return fits;
}

/*
 * False: the C library does it, with its own checks of sizes. Asked for each transfer: it looks for
 * shared memory last.
 */
static bool transfer(struct transfer *t, size_t size, size_t n, bool unlocked)
{
	if (__builtin_mul_overflow(size, n, &t->n) || !t->n)
		return false;
	if (transfer_few(t, unlocked))
		return true;
	if (!is_away(t->buf) && !STACK_IS_AWAY)
		return false;
	dsm_call(transfer_run, t);
	return true;
}

/* Bytes of a stream of rank 0's. */
static const struct row abroad_in = { "fread", LONG, { OUTR(1, 1, 3), ST(4), WAITS }, true },
			abroad_out = { "fwrite", LONG, { INN(1, 1, 3), ST(4), WAITS }, true },
			abroad_string = { "fputs", INT, { S(1), ST(2), WAITS }, true };

static bool is_stream_abroad(const FILE *f, const void *caller)
{
	return is_abroad(caller) && !stream_is_here(f);
}

/* Items done; self: fread() or fwrite(). */
static size_t items_abroad(const struct row *row, void *self, void *buf, size_t size, size_t n,
			   FILE *f)
{
	long arg[ARGS] = { (long)buf, 1, 0, (long)f };
	size_t bytes;

	if (__builtin_mul_overflow(size, n, &bytes) || !bytes || caller_is_child(row->name))
		return 0;
	arg[2] = (long)bytes;
	return (size_t)row_run_abroad(row, (words_fn *)self, 0, arg) / size;
}

#define READER(name, unlocked)                                                          \
	EXPORT size_t name(void *buf, size_t size, size_t n, FILE *f)                   \
	{                                                                               \
		struct transfer t = { .f = f, .buf = buf };                             \
		if (__builtin_expect(is_stream_abroad(f, CALLER), 0))                   \
			return items_abroad(&abroad_in, (void *)name, buf, size, n, f); \
		return transfer(&t, size, n, unlocked) ? t.done / size                  \
						       : NEXT(name)(buf, size, n, f);   \
	}

#define WRITER(name, unlocked)                                                              \
	EXPORT size_t name(const void *buf, size_t size, size_t n, FILE *f)                 \
	{                                                                                   \
		struct transfer t = { .f = f, .buf = (char *)(uintptr_t)buf, .out = true }; \
		if (__builtin_expect(is_stream_abroad(f, CALLER), 0))                       \
			return items_abroad(&abroad_out, (void *)name, t.buf, size, n, f);  \
		return transfer(&t, size, n, unlocked) ? t.done / size                      \
						       : NEXT(name)(buf, size, n, f);       \
	}

READER(fread, false)
READER(fread_unlocked, true)
WRITER(fwrite, false)
WRITER(fwrite_unlocked, true)

extern void __chk_fail(void) __attribute__((noreturn));
size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *f);

EXPORT size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *f)
{
	size_t bytes;

	if (__builtin_mul_overflow(size, n, &bytes) || bytes > room)
		__chk_fail();
	return is_stream_abroad(f, CALLER)
		? items_abroad(&abroad_in, (void *)fread, buf, size, n, f)
		: files ? NEXT(__fread_chk)(buf, room, size, n, f)
			: fread(buf, size, n, f);
}

static int put_string(const char *s, FILE *f)
{
	struct transfer t = { .f = f, .buf = (char *)(uintptr_t)s, .n = strlen(s), .out = true };

	if (!t.n)
		return 1;
	if (!transfer_few(&t, false))
		dsm_call(transfer_run, &t);
	return t.done == t.n ? 1 : EOF;
}

static int string_abroad(void *self, const char *s, FILE *f)
{
	const long arg[ARGS] = { (long)s, (long)f };

	return caller_is_child("fputs")
		? EOF
		: (int)row_run_abroad(&abroad_string, (words_fn *)self, 0, arg);
}

EXPORT int fputs(const char *s, FILE *f)
{
	if (__builtin_expect(is_stream_abroad(f, CALLER), 0))
		return string_abroad((void *)fputs, s, f);
	return is_away(s) || STACK_IS_AWAY ? put_string(s, f) : NEXT(fputs)(s, f);
}

EXPORT int fputs_unlocked(const char *s, FILE *f)
{
	if (__builtin_expect(is_stream_abroad(f, CALLER), 0))
		return string_abroad((void *)fputs_unlocked, s, f);
	return is_away(s) || STACK_IS_AWAY ? put_string(s, f) : NEXT(fputs_unlocked)(s, f);
}

EXPORT int puts(const char *s)
{
	int done;

	if (is_abroad(CALLER))
		return string_abroad((void *)puts, s, NULL);
	if (!is_away(s) && !STACK_IS_AWAY)
		return NEXT(puts)(s);
	flockfile(stdout);
	done = put_string(s, stdout);
	if (done != EOF && putc_unlocked('\n', stdout) == EOF)
		done = EOF;
	funlockfile(stdout);
	return done;
}

/* ---- formatted output ------------------------------------------------------------------------ */

extern int __vsnprintf_chk(char *buf, size_t size, int flag, size_t room, const char *format,
			   va_list ap);

struct printed {
	FILE *f; /* NULL: to fd */
	bool abroad;
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

/* At rank 0. */
static long put_at_owner(long fd, long text, long n)
{
	long done = 0;

	while (done < n) {
		const ssize_t got = write((int)fd, (const char *)text + done, (size_t)(n - done));

		if (got < 0)
			return -1;
		done += got;
	}
	return n;
}

/* Print what is formatted; false: errno. */
static bool put_text(const struct printed *p, const char *text, size_t n)
{
	const long to_stream[OWNER_WORDS] = { (long)text, 1, (long)n, (long)p->f };
	const long to_fd[OWNER_WORDS] = { p->fd, (long)text, (long)n };

	if (!p->abroad)
		return p->f ? NEXT(fwrite)(text, 1, n, p->f) == n : put_all(p->fd, text, n) >= 0;
	return p->f ? owner_call_on((void *)fwrite, to_stream, OWNER_WAITS, p->f) == (long)n
		    : owner_call((void *)put_at_owner, to_fd, OWNER_WAITS) >= 0;
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
	s.shared = p.abroad;
	va_copy(again, *p.ap);
	n = __vsnprintf_chk(s.room, ROOM, p.flag, ROOM, p.format, *p.ap);
	text = n < (int)ROOM && !p.abroad ? s.room
					  : scratch_get(&s, n < 0 ? 1 : (size_t)n + 1, NULL);
	if (text && text != s.room && n >= 0 && n < (int)ROOM)
		memcpy(text, s.room, (size_t)n + 1);
	if (n >= (int)ROOM && text) {
		errno = saved;
		n = __vsnprintf_chk(text, (size_t)n + 1, p.flag, (size_t)n + 1, p.format, again);
	}
	va_end(again);
	if (!text)
		n = -1;
	if (n > 0 && !put_text(&p, text, (size_t)n))
		n = -1;
	SCRATCH_END();
	out->result = n;
}

static int stdio_print(FILE *f, int fd, bool abroad, int flag, const char *format, va_list ap)
{
	struct printed p = { .f = f, .fd = fd, .abroad = abroad, .flag = flag, .format = format };
	va_list own;

	va_copy(own, ap);
	p.ap = &own;
	dsm_call(print_run, &p);
	va_end(own);
	return p.result;
}

/*
 * An argument may be shared, and so may the stack, on which the C library formats for unbuffered
 * streams.
 */
static bool prints(void)
{
	return dsm_needs_pin(NULL, 1);
}

int __vfprintf_chk(FILE *f, int flag, const char *format, va_list ap);
int __vprintf_chk(int flag, const char *format, va_list ap);
int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);
int __printf_chk(int flag, const char *format, ...);
int __fprintf_chk(FILE *f, int flag, const char *format, ...);
int __dprintf_chk(int fd, int flag, const char *format, ...);

static int print_stream(FILE *f, int flag, const char *format, va_list ap, const void *caller)
{
	const bool abroad = is_stream_abroad(f, caller) && !caller_is_child("fprintf");

	if (abroad || prints())
		return stdio_print(f, -1, abroad, flag, format, ap);
	return flag ? NEXT(__vfprintf_chk)(f, flag, format, ap) : NEXT(vfprintf)(f, format, ap);
}

static int print_fd(int fd, int flag, const char *format, va_list ap, const void *caller)
{
	const bool abroad = is_abroad(caller) && !caller_is_child("dprintf");

	if (files && caller_may_not(fd, caller)) {
		errno = EBADF;
		return -1;
	}
	if (abroad || prints())
		return stdio_print(NULL, fd, abroad, flag, format, ap);
	return flag ? NEXT(__vdprintf_chk)(fd, flag, format, ap) : NEXT(vdprintf)(fd, format, ap);
}

TWO_FORMS(printf, vprintf, PARAMETERS(const char *format),
	  print_stream(stdout, 0, format, ap, CALLER))
TWO_FORMS(fprintf, vfprintf, PARAMETERS(FILE *f, const char *format),
	  print_stream(f, 0, format, ap, CALLER))
TWO_FORMS(dprintf, vdprintf, PARAMETERS(int fd, const char *format),
	  print_fd(fd, 0, format, ap, CALLER))
TWO_FORMS(__printf_chk, __vprintf_chk, PARAMETERS(int flag, const char *format),
	  print_stream(stdout, flag, format, ap, CALLER))
TWO_FORMS(__fprintf_chk, __vfprintf_chk, PARAMETERS(FILE *f, int flag, const char *format),
	  print_stream(f, flag, format, ap, CALLER))
TWO_FORMS(__dprintf_chk, __vdprintf_chk, PARAMETERS(int fd, int flag, const char *format),
	  print_fd(fd, flag, format, ap, CALLER))

/* ---- buffers --------------------------------------------------------------------------------- */

/*
 * A shared buffer is not used: the C library allocates one of its own. Nor is the private one of
 * another rank.
 */
static int set_buffer(FILE *f, char *buf, int mode, size_t size, const void *caller)
{
	if (is_stream_abroad(f, caller))
		return (int)owner_words((void *)setvbuf, (long)f, 0, mode, buf ? 0 : (long)size);
	return is_away(buf) ? NEXT(setvbuf)(f, NULL, mode, 0) : NEXT(setvbuf)(f, buf, mode, size);
}

EXPORT int setvbuf(FILE *f, char *buf, int mode, size_t size)
{
	return set_buffer(f, buf, mode, size, CALLER);
}

EXPORT void setbuffer(FILE *f, char *buf, size_t size)
{
	set_buffer(f, buf, buf ? _IOFBF : _IONBF, size, CALLER);
}

EXPORT void setbuf(FILE *f, char *buf)
{
	set_buffer(f, buf, buf ? _IOFBF : _IONBF, BUFSIZ, CALLER);
}

/* ---- structures that all ranks may look at --------------------------------------------------- */

/* Functions that make a stream, and those that clear its flags. */
#define STREAM_FUNCTION(name, before, after)                                      \
	static long stream_##name(long a, long b, long c, long d, long e, long f) \
	{                                                                         \
		words_fn *const next = NEXT_NAMED(words_fn *, #name);             \
		long result;                                                      \
		if (files != FILES_GUARDED)                                       \
			return next(a, b, c, d, e, f);                            \
		before;                                                           \
		result = next(a, b, c, d, e, f);                                  \
		after;                                                            \
		return result;                                                    \
	}
#define OPENS(name) STREAM_FUNCTION(name, program.stream_open(true), program.stream_open(false))
#define CLEARS(name, f) STREAM_FUNCTION(name, , program.stream_clear((void *)(f)))
OPENS(fopen)
OPENS(fopen64)
OPENS(fdopen)
OPENS(popen)
OPENS(tmpfile)
OPENS(tmpfile64)
OPENS(setmntent)
CLEARS(freopen, c)
CLEARS(freopen64, c)
CLEARS(clearerr, a)
CLEARS(clearerr_unlocked, a)
CLEARS(rewind, a)
CLEARS(fseek, a)
CLEARS(fseeko, a)
CLEARS(fseeko64, a)
CLEARS(fsetpos, a)
CLEARS(fsetpos64, a)
CLEARS(ungetc, b)
CLEARS(ungetwc, b)

void *row_next(const struct next *n)
{
	static const struct {
		const char *name;
		words_fn *at;
	} found[] = {
#define AT(name) { #name, stream_##name }
		AT(fopen),
		AT(fopen64),
		AT(fdopen),
		AT(popen),
		AT(tmpfile),
		AT(tmpfile64),
		AT(setmntent),
		AT(freopen),
		AT(freopen64),
		AT(clearerr),
		AT(clearerr_unlocked),
		AT(rewind),
		AT(fseek),
		AT(fseeko),
		AT(fseeko64),
		AT(fsetpos),
		AT(fsetpos64),
		AT(ungetc),
		AT(ungetwc)
#undef AT
	};
	size_t i;

	for (i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		if (!strcmp(found[i].name, n->name))
			return (void *)found[i].at;
	return next_find(n);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * messages.c - functions that print messages on standard error. The rank that calls formats the
 * text; the C library of rank 0, which has the program's standard error, prints it with all that it
 * adds: the name of the program, the error, the count of messages.
 */
#include "wrap.h"

#include <err.h>
#include <error.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "caller.h"
#include "owner.h"
#include "scratch.h"

enum message_kind { WARN, WARNX, ERROR, ERROR_AT };

struct message {
	enum message_kind kind;
	bool abroad;
	int number, m; /* the error that is printed, and that of %m */
	const char *file;
	unsigned int line;
	const char *format; /* NULL: there is no text */
	va_list *ap;
};

/* On the private stack. */
struct line {
	long kind, number, file, line, text;
};

static void message_put(void *arg)
{
	const struct line m = *(const struct line *)arg;
	const char *text = (const char *)m.text, *file = (const char *)m.file;

	switch ((enum message_kind)m.kind) {
	case WARN:
		errno = (int)m.number;
		if (text)
			NEXT(warn)("%s", text);
		else
			NEXT(warn)(NULL);
		break;
	case WARNX:
		if (text)
			NEXT(warnx)("%s", text);
		else
			NEXT(warnx)(NULL);
		break;
	case ERROR: NEXT(error)(0, (int)m.number, "%s", text); break;
	case ERROR_AT:
		/* The C library keeps the name to compare the next one with it. */
		if (error_one_per_line && file)
			file = strdup(file);
		NEXT(error_at_line)(0, (int)m.number, file, (unsigned int)m.line, "%s", text);
		break;
	}
}

/* The C library formats on its stack for streams without a buffer. */
static void message_call(void (*fn)(void *), void *arg)
{
	if (files || STACK_IS_AWAY)
		dsm_call(fn, arg);
	else
		fn(arg);
}

/* At rank 0. */
static long message_arrives(long kind, long number, long file, long line, long text)
{
	struct line m = { kind, number, file, line, text };

	message_call(message_put, &m);
	return 0;
}

/* NULL: errno, or there is no format. */
static char *message_format(struct scratch *s, const struct message *m)
{
	va_list first;
	char *text = NULL;
	int n;

	if (!m->format)
		return NULL;
	va_copy(first, *m->ap);
	errno = m->m;
	n = vsnprintf(NULL, 0, m->format, first);
	va_end(first);
	if (n >= 0)
		text = scratch_get(s, (size_t)n + 1, NULL);
	errno = m->m;
	if (text)
		vsnprintf(text, (size_t)n + 1, m->format, *m->ap);
	return text;
}

static void message_run(void *arg)
{
	struct message m = *(struct message *)arg;
	struct line l = { m.kind, m.number, (long)m.file, m.line, 0 };
	struct scratch s;

	SCRATCH_BEGIN(s);
	s.shared = m.abroad;
	l.text = (long)message_format(&s, &m);
	if (m.file)
		l.file = (long)scratch_string(&s, m.file);
	if (!l.text && m.format) {
		/* no memory */
	} else if (m.abroad) {
		const long word[OWNER_WORDS] = { l.kind, l.number, l.file, l.line, l.text };

		owner_call((void *)message_arrives, word, OWNER_RUNS);
	} else {
		message_put(&l);
	}
	SCRATCH_END();
}

/* errno stays as it was for the caller of warn(3). */
static void message(struct message m, va_list ap, const void *caller)
{
	va_list own;

	m.m = errno;
	m.abroad = is_abroad(caller) && !caller_is_child("error");
	va_copy(own, ap);
	m.ap = &own;
	message_call(message_run, &m);
	va_end(own);
	errno = m.m;
}

EXPORT void vwarn(const char *format, va_list ap)
{
	message((struct message){ .kind = WARN, .number = errno, .format = format }, ap, CALLER);
}

EXPORT void vwarnx(const char *format, va_list ap)
{
	message((struct message){ .kind = WARNX, .number = errno, .format = format }, ap, CALLER);
}

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

EXPORT void error(int status, int number, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	message((struct message){ .kind = ERROR, .number = number, .format = format }, ap, CALLER);
	va_end(ap);
	if (status)
		exit(status);
}

EXPORT void error_at_line(int status, int number, const char *file, unsigned int line,
			  const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	message((struct message){ .kind = ERROR_AT,
				  .number = number,
				  .file = file,
				  .line = line,
				  .format = format },
		ap, CALLER);
	va_end(ap);
	if (status)
		exit(status);
}

EXPORT void herror(const char *s)
{
	if (is_abroad(CALLER))
		fprintf(stderr, "%s%s%s\n", s && *s ? s : "", s && *s ? ": " : "",
			hstrerror(h_errno));
	else
		NEXT(herror)(s);
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

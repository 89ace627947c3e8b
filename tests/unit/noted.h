/* SPDX-License-Identifier: BSD-2-Clause */
/* noted.h - for hosts that note each callback in one line of text. */
#ifndef UNIT_NOTED_H
#define UNIT_NOTED_H

#include "core.h"

#include <stdarg.h>

static char text[2000];

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	if (n && text[n - 1] != '[')
		text[n++] = ' ';
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
}

/* What the host has noted since the last call. */
static void noted(const char *what)
{
	ck_assert_str_eq(text, what);
	text[0] = 0;
}

#endif

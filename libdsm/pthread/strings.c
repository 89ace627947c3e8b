// SPDX-License-Identifier: BSD-2-Clause
/*
 * strings.c - memory that the C library allocates for the program is shared, as if the program had
 * called malloc(): strings, lines, lists of names and addresses, and vectors of strings. Streams
 * into memory are in memstream.c.
 */
#include "shim.h"

#include "interpose/files.h"

#include <argz.h>
#include <dirent.h>
#include <envz.h>
#include <fcntl.h>
#include <glob.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

#include "alloc.h"

#define LINE 128u /* first size of a line's buffer; realloc() enlarges it */

extern void __libc_free(void *p);

static char *strings_copy(const char *s, size_t len)
{
	char *out = shared_alloc(len + 1);

	if (!out)
		return NULL;
	memcpy(out, s, len);
	out[len] = 0;
	return out;
}

/* A copy for a library's constructor, before the start; NULL: for another caller. */
static char *strings_early(const char *s, size_t len, const void *caller)
{
	char *out = shim.active ? NULL : libraries_early(1, len + 1, caller);

	if (!out)
		return NULL;
	memcpy(out, s, len);
	out[len] = 0;
	return out;
}

/* Replace a private string by a shared copy; NULL stays, with its errno. */
static char *strings_share(char *s)
{
	char *out = s && !is_shared(s) ? strings_copy(s, strlen(s)) : s;

	if (out != s)
		__libc_free(s);
	return out;
}

EXPORT char *strdup(const char *s)
{
	char *early = strings_early(s, strlen(s), CALLER);

	if (early)
		return early;
	return caller_is_ours(CALLER) ? strings_copy(s, strlen(s)) : NEXT(strdup)(s);
}

EXPORT char *strndup(const char *s, size_t n)
{
	char *early = strings_early(s, strnlen(s, n), CALLER);

	if (early)
		return early;
	return caller_is_ours(CALLER) ? strings_copy(s, strnlen(s, n)) : NEXT(strndup)(s, n);
}

/* Names that older headers use. */
EXPORT char *__strdup(const char *s);
EXPORT char *__strdup(const char *s)
{
	char *early = strings_early(s, strlen(s), CALLER);

	if (early)
		return early;
	return caller_is_ours(CALLER) ? strings_copy(s, strlen(s)) : NEXT(__strdup)(s);
}

EXPORT char *__strndup(const char *s, size_t n);
EXPORT char *__strndup(const char *s, size_t n)
{
	char *early = strings_early(s, strnlen(s, n), CALLER);

	if (early)
		return early;
	return caller_is_ours(CALLER) ? strings_copy(s, strnlen(s, n)) : NEXT(__strndup)(s, n);
}

EXPORT wchar_t *wcsdup(const wchar_t *s)
{
	const size_t size = (wcslen(s) + 1) * sizeof(*s);
	wchar_t *out;

	if (!caller_is_ours(CALLER))
		return NEXT(wcsdup)(s);
	out = shared_alloc(size);
	return out ? memcpy(out, s, size) : NULL;
}

EXPORT char *tempnam(const char *folder, const char *prefix)
{
	char *at = NEXT(tempnam)(folder, prefix);

	return caller_is_ours(CALLER) ? strings_share(at) : at;
}

EXPORT char *getcwd(char *buf, size_t size)
{
	char *at = NEXT(getcwd)(buf, size);

	return !buf && caller_is_ours(CALLER) ? strings_share(at) : at;
}

EXPORT char *get_current_dir_name(void)
{
	char *at = NEXT(get_current_dir_name)();

	return caller_is_ours(CALLER) ? strings_share(at) : at;
}

EXPORT char *realpath(const char *path, char *out)
{
	char *at = NEXT(realpath)(path, out);

	return !out && caller_is_ours(CALLER) ? strings_share(at) : at;
}

EXPORT char *canonicalize_file_name(const char *path)
{
	char *at = NEXT(canonicalize_file_name)(path);

	return caller_is_ours(CALLER) ? strings_share(at) : at;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Allocate a buffer for the first line. ENOMEM. */
static bool has_line(char **line, size_t *size, const void *caller)
{
	if (!line || !size || *line || !caller_is_ours(caller))
		return true;
	*line = shared_alloc(LINE);
	*size = LINE;
	return *line;
}

EXPORT ssize_t getline(char **line, size_t *size, FILE *f)
{
	return has_line(line, size, CALLER) ? PASS_ON(NEXT(getline)(line, size, f)) : -1;
}

EXPORT ssize_t getdelim(char **line, size_t *size, int end, FILE *f)
{
	return has_line(line, size, CALLER) ? PASS_ON(NEXT(getdelim)(line, size, end, f)) : -1;
}

EXPORT ssize_t __getdelim(char **line, size_t *size, int end, FILE *f)
{
	return has_line(line, size, CALLER) ? PASS_ON(NEXT(__getdelim)(line, size, end, f)) : -1;
}

/* ---- formatted output ------------------------------------------------------------------------ */

int __vasprintf_chk(char **out, int flag, const char *format, va_list ap);
int __asprintf_chk(char **out, int flag, const char *format, ...);

static int strings_print(char **out, int flag, const char *format, va_list ap, const void *caller)
{
	char *text = NULL;
	int n = NEXT(__vasprintf_chk)(&text, flag, format, ap);

	if (n < 0)
		return n;
	*out = caller_is_ours(caller) ? strings_share(text) : text;
	return *out ? n : -1;
}

EXPORT int vasprintf(char **out, const char *format, va_list ap)
{
	return strings_print(out, 0, format, ap, CALLER);
}

EXPORT int __vasprintf_chk(char **out, int flag, const char *format, va_list ap)
{
	return strings_print(out, flag, format, ap, CALLER);
}

EXPORT int asprintf(char **out, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = strings_print(out, 0, format, ap, CALLER);
	va_end(ap);
	return n;
}

EXPORT int __asprintf(char **out, const char *format, ...) __attribute__((alias("asprintf")));

EXPORT int __asprintf_chk(char **out, int flag, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = strings_print(out, flag, format, ap, CALLER);
	va_end(ap);
	return n;
}

/* ---- folders --------------------------------------------------------------------------------- */

static void free_list(struct dirent **list, int n)
{
	while (n > 0)
		free(list[--n]);
	free(list);
}

/*
 * Replace a private list with private entries by a shared one. Returns their number; -1: ENOMEM,
 * and the list is freed.
 */
static int share_list(struct dirent ***list, int n)
{
	struct dirent **out = shared_alloc((size_t)n * sizeof(*out) + 1);
	int i;

	for (i = 0; out && i < n; i++) {
		out[i] = shared_alloc((*list)[i]->d_reclen);
		if (!out[i]) {
			free_list(out, i);
			out = NULL;
			break;
		}
		memcpy(out[i], (*list)[i], (*list)[i]->d_reclen);
	}
	free_list(*list, n);
	*list = out;
	return out ? n : -1;
}

struct listing {
	int fd;
	const char *path;
	struct dirent ***out;
	int (*filter)(const struct dirent *);
	int (*compare)(const struct dirent **, const struct dirent **);
	bool shares;
};

static int make_list(const struct listing *l)
{
	struct dirent **list;
	int n = NEXT(scandirat)(l->fd, l->path, &list, l->filter, l->compare);

	if (n >= 0 && l->shares)
		n = share_list(&list, n);
	if (n >= 0)
		*l->out = list;
	return n;
}

/* By rank 0, whose descriptors and folders they are, if the program asks. */
static int list_folder(struct listing l, const void *caller)
{
	l.shares = caller_is_ours(caller);
	if (!l.shares || !dsm_files_call || !is_shared(&l) || !is_shared(l.out))
		return make_list(&l);
	return (int)dsm_files_call((void *)make_list, (long)&l, 0, 0, 0);
}

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "the same functions");

EXPORT int scandirat(int fd, const char *path, struct dirent ***out,
		     int (*filter)(const struct dirent *),
		     int (*compare)(const struct dirent **, const struct dirent **))
{
	return list_folder((struct listing){ fd, path, out, filter, compare, false }, CALLER);
}

EXPORT int scandir(const char *path, struct dirent ***out, int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	return list_folder((struct listing){ AT_FDCWD, path, out, filter, compare, false }, CALLER);
}

EXPORT int scandirat64(int fd, const char *path, struct dirent64 ***out,
		       int (*filter)(const struct dirent64 *),
		       int (*compare)(const struct dirent64 **, const struct dirent64 **))
	__attribute__((alias("scandirat")));
EXPORT int scandir64(const char *path, struct dirent64 ***out,
		     int (*filter)(const struct dirent64 *),
		     int (*compare)(const struct dirent64 **, const struct dirent64 **))
	__attribute__((alias("scandir")));

/* ---- names of files, words, addresses -------------------------------------------------------- */

/*
 * Replace what is private of a vector with n strings behind `front` others, and a NULL. False:
 * there is no memory, and the rest is for this rank only.
 */
static bool share_vector(char ***vector, size_t front, size_t n)
{
	const size_t size = (front + n + 1) * sizeof(**vector);
	char **to = *vector, *s;
	size_t i;

	if (!is_shared(to)) {
		to = shared_alloc(size);
		if (!to)
			return false;
		memcpy(to, *vector, size);
		__libc_free(*vector);
		*vector = to;
	}
	for (i = front; i < front + n; i++) {
		s = is_shared(to[i]) ? to[i] : strings_copy(to[i], strlen(to[i]));
		if (!s)
			return false;
		if (s != to[i])
			__libc_free(to[i]);
		to[i] = s;
	}
	return true;
}

/* With another error, *found may never have been set. */
EXPORT int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found)
{
	const int err = NEXT(glob)(pattern, flags, failed, found);

	if (!caller_is_ours(CALLER) || (err && err != GLOB_NOMATCH && err != GLOB_ABORTED) ||
	    !found->gl_pathv || share_vector(&found->gl_pathv, found->gl_offs, found->gl_pathc))
		return err;
	return GLOB_NOSPACE;
}

_Static_assert(sizeof(glob_t) == sizeof(glob64_t), "the same function");
EXPORT int glob64(const char *pattern, int flags, int (*failed)(const char *, int), glob64_t *found)
	__attribute__((alias("glob")));

/* Put copies of the words behind those that *found has. False: there is no memory, and *found is
 * as it was. */
static bool add_words(wordexp_t *found, const wordexp_t *fresh)
{
	const size_t front = found->we_offs + found->we_wordc, n = fresh->we_wordc;
	char **to = shared_zalloc((front + n + 1) * sizeof(*to));
	size_t i;

	for (i = 0; to && i < n; i++) {
		to[front + i] = strings_copy(fresh->we_wordv[i], strlen(fresh->we_wordv[i]));
		if (!to[front + i])
			break;
	}
	if (!to || i < n) {
		while (i)
			free(to[front + --i]);
		free(to);
		return false;
	}
	if (found->we_wordv)
		memcpy(to, found->we_wordv, front * sizeof(*to));
	free(found->we_wordv);
	found->we_wordv = to;
	found->we_wordc += n;
	return true;
}

/* The C library adds to a vector by realloc(), and takes an error as if that had not moved it. */
EXPORT int wordexp(const char *text, wordexp_t *found, int flags)
{
	const int own = WRDE_APPEND | WRDE_REUSE | WRDE_DOOFFS;
	wordexp_t fresh;
	bool added;
	int err;

	if (!caller_is_ours(CALLER))
		return NEXT(wordexp)(text, found, flags);
	if (flags & WRDE_REUSE)
		wordfree(found);
	err = NEXT(wordexp)(text, &fresh, flags & ~own);
	if (err && err != WRDE_NOSPACE)
		return err;
	if (!(flags & WRDE_APPEND))
		*found = (wordexp_t){ .we_offs = flags & WRDE_DOOFFS ? found->we_offs : 0 };
	added = add_words(found, &fresh);
	wordfree(&fresh);
	return added ? err : WRDE_NOSPACE;
}

/* A copy of one address, as freeaddrinfo() frees it. */
static struct addrinfo *share_address(const struct addrinfo *a)
{
	struct addrinfo *to = shared_alloc(sizeof(*to) + a->ai_addrlen);

	if (!to)
		return NULL;
	*to = *a;
	to->ai_next = NULL;
	to->ai_addr = memcpy(to + 1, a->ai_addr, a->ai_addrlen);
	if (a->ai_canonname) {
		to->ai_canonname = strings_copy(a->ai_canonname, strlen(a->ai_canonname));
		if (!to->ai_canonname) {
			free(to);
			return NULL;
		}
	}
	return to;
}

EXPORT int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		       struct addrinfo **out)
{
	struct addrinfo *list, *a, *first = NULL, **end = &first;
	int err;

	if (!caller_is_ours(CALLER))
		return NEXT(getaddrinfo)(name, service, hints, out);
	err = NEXT(getaddrinfo)(name, service, hints, &list);
	if (err)
		return err;
	for (a = list; a && (*end = share_address(a)); a = a->ai_next)
		end = &(*end)->ai_next;
	freeaddrinfo(list);
	if (a && first)
		freeaddrinfo(first);
	if (a)
		return EAI_MEMORY;
	*out = first;
	return 0;
}

/* ---- vectors of strings: the C library is lent the program's malloc() --------------------- */

#define LEND(call)                                         \
	({                                                 \
		const bool ours_ = caller_is_ours(CALLER); \
		__typeof__(call) got_;                     \
		lent += ours_;                             \
		got_ = call;                               \
		lent -= ours_;                             \
		got_;                                      \
	})

EXPORT error_t argz_create(char *const argv[], char **argz, size_t *len)
{
	return LEND(NEXT(argz_create)(argv, argz, len));
}

EXPORT error_t argz_create_sep(const char *s, int sep, char **argz, size_t *len)
{
	return LEND(NEXT(argz_create_sep)(s, sep, argz, len));
}

EXPORT error_t argz_add(char **argz, size_t *len, const char *s)
{
	return LEND(NEXT(argz_add)(argz, len, s));
}

EXPORT error_t argz_add_sep(char **argz, size_t *len, const char *s, int sep)
{
	return LEND(NEXT(argz_add_sep)(argz, len, s, sep));
}

EXPORT error_t argz_append(char **argz, size_t *len, const char *buf, size_t n)
{
	return LEND(NEXT(argz_append)(argz, len, buf, n));
}

EXPORT error_t argz_insert(char **argz, size_t *len, char *before, const char *entry)
{
	return LEND(NEXT(argz_insert)(argz, len, before, entry));
}

EXPORT error_t argz_replace(char **argz, size_t *len, const char *s, const char *with,
			    unsigned int *count)
{
	return LEND(NEXT(argz_replace)(argz, len, s, with, count));
}

EXPORT error_t envz_add(char **envz, size_t *len, const char *name, const char *value)
{
	return LEND(NEXT(envz_add)(envz, len, name, value));
}

EXPORT error_t envz_merge(char **envz, size_t *len, const char *more, size_t n, int override)
{
	return LEND(NEXT(envz_merge)(envz, len, more, n, override));
}

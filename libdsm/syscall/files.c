// SPDX-License-Identifier: BSD-2-Clause
/*
 * files.c - calls on descriptors and folders whose results are not words: what rank 0's C library
 * returns a pointer to is copied. And ranges of descriptors, which leave out those of libdsm.
 */
#include "wrap.h"

#include "interpose/raw_syscall.h"
#include "caller.h"
#include "owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- ranges of descriptors ------------------------------------------------------------------- */

/* Close what lies between libdsm's descriptors. Of rank 0. */
static int close_between(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first, to;
	int own, err;

	for (;;) {
		own = from <= INT_MAX ? own_next((int)from) : -1;
		to = own < 0 || (unsigned int)own > last ? last : (unsigned int)own - 1;
		if (own < 0 || (unsigned int)own != from) {
			err = NEXT(close_range)(from, to, flags);
			if (err)
				return err;
		}
		if (to == last)
			return 0;
		from = (unsigned int)own + 1;
		if (from > last)
			return 0;
	}
}

static int files_close_all(unsigned int first, unsigned int last, int flags, const void *caller)
{
	if (is_abroad(caller))
		return caller_is_child("close_range")
			? -1
			: (int)owner_words((void *)close_range, first, last, flags, 0);
	if (files != FILES_GUARDED || dsm_files_is_runtime(caller) || first > last)
		return NEXT(close_range)(first, last, flags);
	return close_between(first, last, flags);
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	return files_close_all(first, last, flags, CALLER);
}

EXPORT void closefrom(int first)
{
	files_close_all(first < 0 ? 0 : (unsigned int)first, UINT_MAX, 0, CALLER);
}

/* ---- descriptors for mmap(2) ----------------------------------------------------------------- */

/* What another process of this host needs to open the same file. */
struct opened {
	int pid, fd, flags;
	uint64_t device, inode;
	char path[PATH_MAX], host[256];
};

/* At rank 0. */
static long files_describe(long fd, long to)
{
	struct opened o = { .pid = getpid(), .fd = (int)fd }, *const out = (struct opened *)to;
	char link[64];
	struct stat st;
	ssize_t n;

	if (caller_may_not((int)fd, NULL)) {
		errno = EBADF;
		return -1;
	}
	o.flags = NEXT(fcntl)((int)fd, F_GETFL);
	if (o.flags < 0 || NEXT(fstat)((int)fd, &st))
		return -1;
	o.device = st.st_dev;
	o.inode = st.st_ino;
	snprintf(link, sizeof(link), "/proc/self/fd/%ld", fd);
	n = NEXT(readlink)(link, o.path, sizeof(o.path) - 1);
	o.path[n > 0 ? n : 0] = 0;
	NEXT(gethostname)(o.host, sizeof(o.host) - 1);
	memcpy(out, &o, sizeof(o));
	return 0;
}

static bool files_is_same(int fd, const struct opened *o)
{
	struct stat st;

	return !NEXT(fstat)(fd, &st) && st.st_dev == o->device && st.st_ino == o->inode;
}

/* By the process of rank 0, if it is on this host; else by its path. -1. */
static int files_open_again(const struct opened *o)
{
	const int flags = (o->flags & (O_ACCMODE | O_DIRECTORY)) | O_CLOEXEC;
	char link[64], host[256] = "";
	int fd = -1;

	NEXT(gethostname)(host, sizeof(host) - 1);
	if (!strcmp(host, o->host)) {
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", o->pid, o->fd);
		fd = NEXT(open)(link, flags);
	}
	if (fd < 0)
		fd = NEXT(open)(o->path, flags);
	return fd;
}

struct here {
	int fd, result, err;
};

static void open_here(void *arg)
{
	struct here *out = arg, h = *out;
	struct opened *const shared = dsm_malloc(sizeof(*shared)), own;
	const long word[OWNER_WORDS] = { h.fd, (long)shared };

	h.result = -1;
	if (!shared || owner_call((void *)files_describe, word, OWNER_RUNS)) {
		h.err = shared ? errno : ENOMEM;
	} else {
		memcpy(&own, shared, sizeof(own));
		h.result = files_open_again(&own);
		h.err = EBADF;
		if (h.result >= 0 && !files_is_same(h.result, &own)) {
			NEXT(close)(h.result);
			h.result = -1;
		}
		if (h.result < 0)
			files_refuse(
				EBADF, "mmap",
				"descriptor %d of rank 0 (%s) cannot be opened here; use it at rank 0, see dsm-cc(1)",
				h.fd, own.path);
	}
	dsm_free(shared);
	*out = h;
}

EXPORT int dsm_files_open_here(int fd)
{
	struct here h = { .fd = fd };

	if (files == FILES_GUARDED && caller_may_not(fd, NULL)) {
		errno = EBADF;
		return -1;
	}
	if (!is_abroad(NULL))
		return fd;
	dsm_call(open_here, &h);
	if (h.result < 0)
		errno = h.err;
	return h.result;
}

/* ---- folders --------------------------------------------------------------------------------- */

/*
 * A thread's entry, for each folder that it reads at a time, in turn: it is valid until the same
 * folder's next one.
 */
#define ENTRIES 8
static __thread struct {
	DIR *of[ENTRIES];
	struct dirent *at[ENTRIES];
	unsigned int next;
} entries;

/* At rank 0: 1, 0 at the end, or -1. */
static long next_entry(long folder, long to)
{
	const int saved = errno;
	const struct dirent *e;

	errno = 0;
	e = NEXT(readdir)((DIR *)folder);
	if (!e)
		return errno ? -1 : (errno = saved, 0);
	memcpy((void *)to, e, e->d_reclen);
	errno = saved;
	return 1;
}

static struct dirent *entry_of(DIR *d)
{
	unsigned int i;

	for (i = 0; i < ENTRIES && entries.of[i] != d; i++)
		;
	if (i == ENTRIES)
		i = entries.next++ % ENTRIES;
	entries.of[i] = d;
	if (!entries.at[i])
		entries.at[i] = program.alloc(sizeof(struct dirent) + NAME_MAX);
	return entries.at[i];
}

EXPORT struct dirent *readdir(DIR *d)
{
	struct dirent *e;

	if (!is_abroad(CALLER))
		return NEXT(readdir)(d);
	e = caller_is_child("readdir") ? NULL : entry_of(d);
	return e && owner_words((void *)next_entry, (long)d, (long)e, 0, 0) > 0 ? e : NULL;
}

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one function serves both");
EXPORT struct dirent64 *readdir64(DIR *d) __attribute__((alias("readdir")));

static int read_entry(DIR *d, struct dirent *to, struct dirent **result)
{
	const int saved = errno;
	struct dirent *e = entry_of(d);
	const long got = e ? owner_words((void *)next_entry, (long)d, (long)e, 0, 0) : -1;
	const int err = got < 0 ? errno : 0;

	if (got > 0)
		memcpy(to, e, e->d_reclen < sizeof(*to) ? e->d_reclen : sizeof(*to));
	*result = got > 0 ? to : NULL;
	errno = saved;
	return err;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* readdir_r() itself */
EXPORT int readdir_r(DIR *d, struct dirent *to, struct dirent **result)
{
	return is_abroad(CALLER) ? read_entry(d, to, result) : NEXT(readdir_r)(d, to, result);
}

EXPORT int readdir64_r(DIR *d, struct dirent64 *to, struct dirent64 **result)
	__attribute__((alias("readdir_r")));

/* ---- names of terminals ---------------------------------------------------------------------- */

static __thread char terminal[256];

EXPORT char *ttyname(int fd)
{
	int err;

	if (!is_abroad(CALLER))
		return NEXT(ttyname)(fd);
	err = ttyname_r(fd, terminal, sizeof(terminal));
	errno = err ? err : errno;
	return err ? NULL : terminal;
}

EXPORT char *ptsname(int fd)
{
	int err;

	if (!is_abroad(CALLER))
		return NEXT(ptsname)(fd);
	err = ptsname_r(fd, terminal, sizeof(terminal));
	errno = err ? err : errno;
	return err ? NULL : terminal;
}

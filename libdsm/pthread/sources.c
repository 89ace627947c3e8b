// SPDX-License-Identifier: BSD-2-Clause
/*
 * sources.c - the files of mappings: the descriptors that their makers keep, and how another rank
 * opens the same file.
 *
 * On the maker's host that is the same inode. On another one it is the same file of a common file
 * system, by inode number, size and time, or one of the same path, size, time and contents, which
 * both hosts read once.
 */
#include "shim.h"

#include "sources.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc.h"
#include "everywhere.h"
#include "interpose/raw_syscall.h"

/* descriptors that a rank keeps; files mapped later are found by their path */
#define KEPT_MOST 256

static uint64_t host;
static int kept; /* number of descriptors; atomic */

void sources_start(void)
{
	const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char id[64] = "";
	int i;

	if (fd >= 0) {
		if (read(fd, id, sizeof(id) - 1) < 0)
			id[0] = '\0';
		close(fd);
	}
	for (i = 0; id[i]; i++)
		host = (host ^ (uint8_t)id[i]) * 0x100000001b3ull;
}

bool source_is_of_host(const struct source *s)
{
	return s->host == host;
}

void *source_close(void *arg)
{
	struct source *s = arg;
	const long words[6] = { s->kept };

	if (s->kept >= 0) {
		raw_syscall(SYS_close, words);
		__atomic_fetch_sub(&kept, 1, __ATOMIC_RELAXED);
	}
	free(s);
	return NULL;
}

/* A descriptor for the file alone: closing it releases no locks of the program. */
static int source_keep(int fd)
{
	char name[64];
	int path, high;

	if (__atomic_fetch_add(&kept, 1, __ATOMIC_RELAXED) >= KEPT_MOST)
		goto none;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	path = (int)raw_syscall(SYS_open, (const long[6]){ (long)name, O_PATH | O_CLOEXEC });
	if (path < 0)
		goto none;
	high = (int)raw_syscall(SYS_fcntl, (const long[6]){ path, F_DUPFD_CLOEXEC, 512 });
	if (high < 0)
		return path;
	raw_syscall(SYS_close, (const long[6]){ path });
	return high;
none:
	__atomic_fetch_sub(&kept, 1, __ATOMIC_RELAXED);
	return -1;
}

static struct source *source_make(int fd, const struct stat *file, bool writes, const char *path)
{
	struct source *s = shared_zalloc(sizeof(*s) + strlen(path) + 1);

	if (!s)
		return NULL;
	s->pid = (int)raw_syscall(SYS_getpid, (const long[6]){ 0 });
	s->kept = source_keep(fd);
	s->writes = writes;
	s->host = host;
	s->file = *file;
	strcpy(s->path, path);
	source_add(shim.rank, s);
	return s;
}

struct source *source_of(int fd)
{
	struct stat file;
	char name[64], path[PATH_MAX];
	struct source *s;
	ssize_t n;
	int flags;

	path[0] = path[sizeof(path) - 1] = '\0'; /* present, for the kernel */
	if (fstat(fd, &file) || !S_ISREG(file.st_mode))
		return NULL;
	flags = (int)raw_syscall(SYS_fcntl, (const long[6]){ fd, F_GETFL });
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = raw_syscall(SYS_readlink, (const long[6]){ (long)name, (long)path, sizeof(path) - 1 });
	path[n < 0 ? 0 : n] = '\0';
	s = source_use(shim.rank, &file, (flags & O_ACCMODE) == O_RDWR, path);
	return s ? s : source_make(fd, &file, (flags & O_ACCMODE) == O_RDWR, path);
}

/*
 * A sum of the contents of an open file, read by a mapping: the caller's stack may be in shared
 * memory, where read(2) could fail.
 */
static int content_sum(int fd, size_t size, uint64_t *out)
{
	const size_t words = (size + 7) / 8;
	const long map[6] = { 0, (long)size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd, 0 };
	uint64_t sum = size, *at;
	size_t i;

	*out = sum;
	if (!size)
		return 0;
	at = (uint64_t *)raw_syscall(SYS_mmap, map);
	if (at == MAP_FAILED)
		return -errno;
	for (i = 0; i < words; i++) {
		sum = (sum ^ at[i]) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 29;
	}
	raw_syscall(SYS_munmap, (const long[6]){ (long)at, (long)size });
	*out = sum;
	return 0;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* One file of a file system that both hosts have. */
static bool is_same_abroad(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Run by the maker. */
static void *source_sum(void *arg)
{
	struct source *s = arg;
	char name[PATH_MAX] = "";
	struct stat now;
	uint64_t sum;
	int fd, err = -ESTALE;

	if (s->kept >= 0)
		snprintf(name, sizeof(name), "/proc/self/fd/%d", s->kept);
	else
		strcpy(name, s->path);
	fd = (int)raw_syscall(SYS_open, (const long[6]){ (long)name, O_RDONLY | O_CLOEXEC });
	if (fd < 0)
		return (void *)(intptr_t)-errno;
	if (!fstat(fd, &now) && is_same_file(&now, &s->file) && now.st_size == s->file.st_size)
		err = content_sum(fd, (size_t)now.st_size, &sum);
	raw_syscall(SYS_close, (const long[6]){ fd });
	if (!err) {
		s->sum = sum;
		s->summed = true;
	}
	return (void *)(intptr_t)err;
}

/*
 * Has the file of this host the size, the time and the contents of the maker's? Both are read once.
 * 0 or -errno.
 */
static int compare_contents(struct source *s, int owner, int fd, const struct stat *now)
{
	uint64_t *agreed = &s->agreed[shim.rank / 64], sum;
	const uint64_t bit = 1ull << (shim.rank % 64);
	int err = 0;

	if (now->st_size != s->file.st_size || now->st_mtim.tv_sec != s->file.st_mtim.tv_sec)
		return -ESTALE;
	if (*agreed & bit)
		return 0;
	if (!s->summed)
		err = everywhere_visit(owner, source_sum, s);
	if (!err)
		err = content_sum(fd, (size_t)now->st_size, &sum);
	if (!err && sum != s->sum)
		err = -ESTALE;
	if (!err)
		*agreed |= bit;
	return err;
}

/* A descriptor of the maker's file by a name that this host has for it, or -errno. */
static int open_path(const char *path, struct source *s, int owner, bool compare)
{
	const int way = s->writes ? O_RDWR : O_RDONLY;
	const int fd = (int)raw_syscall(SYS_open, (const long[6]){ (long)path, way | O_CLOEXEC });
	struct stat now;
	int err;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &now))
		err = -errno;
	else if (s->host == host)
		err = is_same_file(&now, &s->file) ? 0 : -ESTALE;
	else if (is_same_abroad(&now, &s->file))
		err = 0;
	else
		err = compare ? compare_contents(s, owner, fd, &now) : -ESTALE;
	if (!err)
		return fd;
	raw_syscall(SYS_close, (const long[6]){ fd });
	return err;
}

/*
 * By the maker's descriptor, or by the path. /proc asks for less than pidfd_getfd(2), which also
 * wants the right to trace.
 */
int source_open(struct source *s, int owner, const char *path, bool compare)
{
	char name[64];
	int fd = -ENOENT;

	if (s->host == host && s->kept >= 0) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%d", s->pid, s->kept);
		fd = open_path(name, s, owner, compare);
	}
	return fd < 0 ? open_path(path, s, owner, compare) : fd;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * named.c - sem_open(): semaphores of the job, in the shared heap. They are not the C library's,
 * which are in files: the ranks of a job may be on several hosts. A name leads to the same address
 * on all ranks, as it does within a process.
 */
#include "shim.h"

#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "alloc.h"

#define PREFIX 4 /* the C library puts "sem." before a name */

/* In a list of all of them under team->named_lock. */
struct named {
	struct named *next;
	uint32_t opened; /* number of opens, by all ranks */
	uint32_t unlinked;
	sem_t sem;
	char name[];
};

/* Skip leading slashes. NULL: errno. */
static const char *named_name(const char *name)
{
	name += strspn(name, "/");
	if (!*name || strchr(name, '/'))
		errno = EINVAL;
	else if (strlen(name) + PREFIX > NAME_MAX)
		errno = ENAMETOOLONG;
	else
		return name;
	return NULL;
}

static struct named **named_place(const char *name)
{
	struct named **at = &team->named;

	while (*at && ((*at)->unlinked || strcmp((*at)->name, name)))
		at = &(*at)->next;
	return at;
}

/* The caller holds the lock, here and in the next functions. NULL: errno. */
static struct named *named_make(const char *name, unsigned int value)
{
	struct named *n;

	if (value > SEM_VALUE_MAX) {
		errno = EINVAL;
		return NULL;
	}
	n = shared_alloc(sizeof(*n) + strlen(name) + 1);
	if (!n)
		return NULL;
	if (sem_init(&n->sem, 1, value)) {
		free(n);
		return NULL;
	}
	n->opened = n->unlinked = 0;
	strcpy(n->name, name);
	n->next = team->named;
	team->named = n;
	return n;
}

static void named_drop(struct named **at)
{
	struct named *n = *at;

	*at = n->next;
	sem_destroy(&n->sem);
	free(n);
}

static sem_t *open_named(const char *name, int flags, unsigned int value)
{
	struct named *n = *named_place(name);

	if (n && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
		errno = EEXIST;
		return SEM_FAILED;
	}
	if (!n && !(flags & O_CREAT)) {
		errno = ENOENT;
		return SEM_FAILED;
	}
	if (!n)
		n = named_make(name, value);
	if (!n)
		return SEM_FAILED;
	n->opened++;
	return &n->sem;
}

EXPORT sem_t *sem_open(const char *name, int flags, ...)
{
	unsigned int value = 0;
	mode_t mode = 0;
	va_list more;
	sem_t *s;

	if (flags & O_CREAT) {
		va_start(more, flags);
		mode = va_arg(more, mode_t);
		value = va_arg(more, unsigned int);
		va_end(more);
	}
	if (!caller_is_ours(CALLER))
		return NEXT(sem_open)(name, flags, mode, value);
	name = named_name(name);
	if (!name)
		return SEM_FAILED;
	pthread_mutex_lock(&team->named_lock);
	s = open_named(name, flags, value);
	pthread_mutex_unlock(&team->named_lock);
	return s;
}

static int close_named(const sem_t *s)
{
	struct named **at = &team->named;

	while (*at && &(*at)->sem != s)
		at = &(*at)->next;
	if (!*at || !(*at)->opened) {
		errno = EINVAL;
		return -1;
	}
	if (!--(*at)->opened && (*at)->unlinked)
		named_drop(at);
	return 0;
}

EXPORT int sem_close(sem_t *s)
{
	int err;

	if (!is_shared(s))
		return NEXT(sem_close)(s);
	pthread_mutex_lock(&team->named_lock);
	err = close_named(s);
	pthread_mutex_unlock(&team->named_lock);
	return err;
}

static int unlink_named(const char *name)
{
	struct named **at = named_place(name);

	if (!*at) {
		errno = ENOENT;
		return -1;
	}
	if ((*at)->opened)
		(*at)->unlinked = 1;
	else
		named_drop(at);
	return 0;
}

EXPORT int sem_unlink(const char *name)
{
	int err;

	if (!caller_is_ours(CALLER))
		return NEXT(sem_unlink)(name);
	name = named_name(name);
	if (!name) {
		errno = errno == EINVAL ? ENOENT : errno; /* as in the C library */
		return -1;
	}
	pthread_mutex_lock(&team->named_lock);
	err = unlink_named(name);
	pthread_mutex_unlock(&team->named_lock);
	return err;
}

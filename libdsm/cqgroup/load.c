// SPDX-License-Identifier: BSD-2-Clause
/*
 * load.c - the load of vectors, counted over all processes of the host.
 *
 * The kernel keeps the table, as locks of byte ranges: a CQ on vector v is one byte, read-locked,
 * in the v-th range of RANGE bytes of the device's file in sysfs. The ranges lie far behind the end
 * of the file; nothing is ever written. A process begins at a random place in each range, so that
 * no two lock the same byte. Locks belong to the open file, as the device's CQs belong to another
 * one: however a process ends, the kernel drops both. Any user may read the file, and no user can
 * forge the load of another.
 *
 * flock() on the same file keeps two processes from choosing at once. A process that is stopped
 * while it chooses delays the others by PATIENCE tries; then they choose anyway, and may choose the
 * same vector.
 *
 * Where the file cannot be opened, a process counts its own CQs only.
 */
#include "cqgroup/load.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "cqgroup/device.h"

#define RANGE ((off_t)1 << 36) /* CQSET_MAX of them are less than the largest offset */
#define PATIENCE 100           /* of 1 ms each */

struct cqload {
	struct cqload *next;
	char device[64];
	unsigned int nvectors;
	pthread_mutex_t lock;
	pid_t pid;        /* process that opened fd: a child opens the file again */
	int fd;           /* -1: not open */
	uint32_t base;    /* this process's first byte in each range */
	unsigned int all; /* sum of own */
	unsigned int *own;
};

/* The list only grows. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cqload *list;

static struct cqload *load_make(const char *device, unsigned int nvectors)
{
	struct cqload *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->own = calloc(nvectors, sizeof(*l->own));
	if (!l->own) {
		free(l);
		return NULL;
	}
	snprintf(l->device, sizeof(l->device), "%s", device);
	l->nvectors = nvectors;
	l->fd = -1;
	pthread_mutex_init(&l->lock, NULL);
	return l;
}

struct cqload *cqload_of(const char *device, unsigned int nvectors)
{
	struct cqload *l;

	pthread_mutex_lock(&list_lock);
	for (l = list; l && (strcmp(l->device, device) || l->nvectors != nvectors);)
		l = l->next;
	if (!l) {
		l = load_make(device, nvectors);
		if (l) {
			l->next = list;
			list = l;
		}
	}
	pthread_mutex_unlock(&list_lock);
	return l;
}

/* ---- the locks ------------------------------------------------------------------------------ */

static off_t load_place(const struct cqload *l, unsigned int vector, unsigned int n)
{
	return (off_t)vector * RANGE + l->base + n;
}

/*
 * The number of bytes from start up to end that other open files have locked. The kernel returns
 * one lock at a time, in no order.
 */
static unsigned int locked(const struct cqload *l, off_t start, off_t end)
{
	struct flock f = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = end - start
	};
	off_t first, last;

	if (start >= end || fcntl(l->fd, F_OFD_GETLK, &f) || f.l_type == F_UNLCK)
		return 0;
	first = f.l_start > start ? f.l_start : start;
	last = f.l_len && f.l_start + f.l_len < end ? f.l_start + f.l_len : end;
	return (unsigned int)(last - first) + locked(l, start, first) + locked(l, last, end);
}

static void set_lock(const struct cqload *l, short type, off_t at)
{
	struct flock f = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	if (l->fd >= 0 && fcntl(l->fd, F_OFD_SETLK, &f))
		return; /* no memory for a lock: other processes do not count this CQ */
}

static void open_file(struct cqload *l)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/node_guid", cqgroup_sysfs, l->device);
	l->pid = getpid();
	l->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (l->fd >= 0 && getrandom(&l->base, sizeof(l->base), 0) != sizeof(l->base))
		l->base = (uint32_t)l->pid << 12;
}

void cqload_begin(struct cqload *l)
{
	int tries;

	pthread_mutex_lock(&l->lock);
	if (l->pid != getpid() && l->pid) {
		/*
		 * After fork(), the CQs and the locks belong to the parent; close() leaves the
		 * locks.
		 */
		if (l->fd >= 0)
			close(l->fd);
		l->fd = -1;
		l->all = 0;
		memset(l->own, 0, l->nvectors * sizeof(*l->own));
	}
	if (l->fd < 0)
		open_file(l);
	for (tries = 0; l->fd >= 0 && tries < PATIENCE && flock(l->fd, LOCK_EX | LOCK_NB); tries++)
		usleep(1000);
}

void cqload_end(struct cqload *l)
{
	if (l->fd >= 0)
		flock(l->fd, LOCK_UN);
	if (l->fd >= 0 && !l->all) {
		close(l->fd);
		l->fd = -1;
	}
	pthread_mutex_unlock(&l->lock);
}

unsigned int cqload_get(const struct cqload *l, unsigned int vector)
{
	const off_t start = (off_t)vector * RANGE;

	return l->own[vector] + (l->fd >= 0 ? locked(l, start, start + RANGE) : 0);
}

void cqload_add(struct cqload *l, unsigned int vector)
{
	set_lock(l, F_RDLCK, load_place(l, vector, l->own[vector]++));
	l->all++;
}

void cqload_remove(struct cqload *l, unsigned int vector)
{
	if (!l->own[vector])
		return;
	set_lock(l, F_UNLCK, load_place(l, vector, --l->own[vector]));
	l->all--;
}

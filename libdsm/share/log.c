// SPDX-License-Identifier: BSD-2-Clause
/*
 * log.c - one write(2) per line, to a copy of stderr. `keeping` protects all but the descriptor,
 * which is atomic: lines take no lock.
 */
#include "share/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rshare.h"

static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static unsigned int keepers;
/* What stderr was; inode 0: nothing. */
static struct {
	int copy; /* -1: none */
	dev_t device;
	ino_t inode;
} kept = { .copy = -1 };

/* The program may have closed the copy as well. */
static bool log_is_kept(int fd)
{
	struct stat s;

	return fd >= 0 && !fstat(fd, &s) && s.st_ino && s.st_dev == kept.device &&
		s.st_ino == kept.inode;
}

static void log_close(void)
{
	const int copy = __atomic_exchange_n(&kept.copy, -1, __ATOMIC_RELAXED);

	if (log_is_kept(copy))
		close(copy);
}

void rs_log_keep(void)
{
	static bool handles;
	struct stat s = { 0 };

	pthread_mutex_lock(&keeping);
	if (!keepers++) {
		if (fstat(STDERR_FILENO, &s))
			s.st_ino = 0;
		kept.device = s.st_dev;
		kept.inode = s.st_ino;
		__atomic_store_n(&kept.copy,
				 s.st_ino ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
					  : -1,
				 __ATOMIC_RELAXED);
	}
	/* The reader of stderr waits until all have closed it, and a child has no owner. */
	if (!handles)
		handles = !pthread_atfork(NULL, NULL, log_close);
	pthread_mutex_unlock(&keeping);
}

void rs_log_release(void)
{
	pthread_mutex_lock(&keeping);
	if (!--keepers)
		log_close();
	pthread_mutex_unlock(&keeping);
}

void rs_log_line(const char *text)
{
	const int copy = __atomic_load_n(&kept.copy, __ATOMIC_RELAXED);
	const int fd = log_is_kept(copy) ? copy : log_is_kept(STDERR_FILENO) ? STDERR_FILENO : -1;
	char line[2 * RSHARE_WHY_MAX + 32];
	int n = snprintf(line, sizeof(line), "librshare: %s\n", text);

	if (n >= (int)sizeof(line)) {
		n = (int)sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	if (fd >= 0 && write(fd, line, (size_t)n) < 0)
		return; /* stderr does not work */
}

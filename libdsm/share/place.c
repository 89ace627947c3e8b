// SPDX-License-Identifier: BSD-2-Clause
/*
 * place.c - where the owners of a user listen. A name is taken, and dead names are removed, under a
 * lock of the folder.
 */
#include "share/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share/why.h"

#define LOCK_MS 5000

/* ---- the folder ----------------------------------------------------------------------------- */

/* A folder of this user that others may not use in these ways. */
static bool place_is_private(const char *path, mode_t others)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
		!(st.st_mode & others);
}

static void place_choose(char *path, size_t size)
{
	const char *set = secure_getenv("XDG_RUNTIME_DIR");
	char run[32];

	snprintf(run, sizeof(run), "/run/user/%u", (unsigned int)geteuid());
	if (set && *set == '/' && place_is_private(set, 022))
		snprintf(path, size, "%s/rshare", set);
	else if (place_is_private(run, 022))
		snprintf(path, size, "%s/rshare", run);
	else
		snprintf(path, size, "/tmp/rshare-%u", (unsigned int)geteuid());
}

int rs_place_address(const char *name, struct sockaddr_un *un, char *why)
{
	char folder[sizeof(un->sun_path)];
	int n;

	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	place_choose(folder, sizeof(folder));
	if (!*name || *name == '.' || strchr(name, '/'))
		return rs_why(why, -EINVAL, "%s, as the name of an owner", name);
	if (mkdir(folder, 0700) && errno != EEXIST)
		return rs_why(why, -errno, "the folder %s, which XDG_RUNTIME_DIR changes", folder);
	if (!place_is_private(folder, 077))
		return rs_why(
			why, -EPERM,
			"the folder %s is not of this user alone: remove it, or set XDG_RUNTIME_DIR",
			folder);
	n = snprintf(un->sun_path, sizeof(un->sun_path), "%s/%s", folder, name);
	if (n >= (int)sizeof(un->sun_path))
		return rs_why(why, -EINVAL, "%s/%s is longer than the %zu bytes of a socket's name",
			      folder, name, sizeof(un->sun_path) - 1);
	return 0;
}

/* ---- names ---------------------------------------------------------------------------------- */

/*
 * Does nobody listen there any more? A datagram socket does not reach a listener: connect() reports
 * EPROTOTYPE, and the owner notices nothing. A connection would take a descriptor of each owner of
 * the user. An owner without a free one would say that it refuses a connection.
 */
static bool place_is_dead(const struct sockaddr_un *un)
{
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)un, sizeof(*un)) &&
		errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return dead;
}

/* Remove the sockets of owners that were killed. */
static void sweep(int folder, const struct sockaddr_un *un)
{
	const int prefix = (int)(strrchr(un->sun_path, '/') - un->sun_path);
	DIR *d = fdopendir(folder); /* takes the descriptor, and the lock with it */
	struct sockaddr_un at;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		at = (struct sockaddr_un){ .sun_family = AF_UNIX };
		if (e->d_type == DT_SOCK &&
		    snprintf(at.sun_path, sizeof(at.sun_path), "%.*s/%s", prefix, un->sun_path,
			     e->d_name) < (int)sizeof(at.sun_path) &&
		    place_is_dead(&at))
			unlink(at.sun_path);
	}
	if (d)
		closedir(d);
	else
		close(folder);
}

/* Receive the folder, locked. */
static int place_lock(const struct sockaddr_un *un)
{
	char path[sizeof(un->sun_path)];
	int fd, ms;

	snprintf(path, sizeof(path), "%.*s", (int)(strrchr(un->sun_path, '/') - un->sun_path),
		 un->sun_path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (ms = 0; ms < LOCK_MS && flock(fd, LOCK_EX | LOCK_NB); ms++)
		usleep(1000);
	if (ms < LOCK_MS)
		return fd;
	close(fd);
	return -EBUSY;
}

int rs_place_take(int fd, const struct sockaddr_un *un)
{
	const int folder = place_lock(un);
	int err = 0;

	if (folder < 0)
		return folder;
	if (place_is_dead(un))
		unlink(un->sun_path);
	if (bind(fd, (const struct sockaddr *)un, sizeof(*un)) || listen(fd, 64))
		err = -errno;
	sweep(folder, un);
	return err;
}

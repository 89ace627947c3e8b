// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_stranger.h"

#include "tests/kmod/common_trust.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Returns what succeeded, or NULL with errno set. Without a device, joining proves nothing until
 * the rank connects.
 */
static const char *join(const struct visitor *v)
{
	int fd = rank_open(JOB_WINDOW);

	if (fd < 0)
		return NULL;
	if (v->by_device)
		return rank_join_by(fd, "", NULL, v->rank, v->size) ? NULL
								    : "DSM_IOC_JOIN by the device";
	if (rank_join(fd, &v->key, v->rank, v->size))
		return NULL;
	return rank_connect(fd, (v->rank + 1) % v->size) ? NULL
							 : "DSM_IOC_CONNECT to the next rank";
}

pid_t visit(const struct visitor *v,
	    void (*over)(const struct visitor *v, const char *did, int err))
{
	const char *did;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	if ((v->uid && setresuid(v->uid, v->uid, v->uid)) ||
	    (v->elsewhere && unshare(CLONE_NEWNET)))
		_exit(1);
	did = join(v);
	over(v, did, did ? 0 : errno);
	_exit(0);
}

/* ---- control -------------------------------------------------------------------------------- */

static void exit_with(const struct visitor *v, const char *did, int err)
{
	(void)v;
	(void)did;
	_exit(err);
}

static bool ends_with(const struct visitor *v, int err, const char *what)
{
	pid_t pid = visit(v, exit_with);
	int status = 0;

	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == err)
		return true;
	printf("FAILED: %s: %s instead of %s\n", what, strerror(WEXITSTATUS(status)),
	       strerror(err));
	return false;
}

bool strangers_control(void)
{
	struct visitor same = { .rank = 1, .size = 2 }, v = same;
	int fd = rank_open(JOB_WINDOW);
	bool ok;

	new_key(&same.key);
	chmod("/dev/dsm", 0666);
	ok = expect(fd >= 0 && !rank_join(fd, &same.key, 0, 2), "rank 0 of a job") &&
		ends_with(&same, 0, "rank 1 of the same user");
	v = same, v.by_device = true;
	ok = ok && ends_with(&v, 0, "rank 1 of the same namespace");
	v.elsewhere = true;
	ok = ok && ends_with(&v, ENODEV, "rank 1 of another namespace");
	v = same, v.uid = SOMEBODY;
	ok = ok && ends_with(&v, EACCES, "rank 1 of another user");
	close(fd);
	return nothing_left(20) && ok;
}

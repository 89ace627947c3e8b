// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_place.c - where the owners of a user listen: what other users can do to them, and what
 * owners that were killed leave.
 */
#include "suite.h"

#include "share_pair.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OTHER 65534

static char base[64], folder[80];

static void place_begin(void)
{
	strcpy(base, "/tmp/test-place-XXXXXX");
	ck_assert(mkdtemp(base) != NULL);
	snprintf(folder, sizeof(folder), "%s/rshare", base);
	ck_assert(!setenv("XDG_RUNTIME_DIR", base, 1));
	begin();
}

static void place_end(void)
{
	end();
	ck_assert(!rmdir(folder)); /* owners that end leave nothing */
	ck_assert(!rmdir(base));
}

static int call(const struct sockaddr_un *un)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const int err = connect(fd, (const struct sockaddr *)un, sizeof(*un)) ? errno : 0;

	close(fd);
	return err;
}

UNIT_TEST(the_folder_is_the_users)
{
	const struct sockaddr_un un = owner_at(name_a);
	struct stat st;

	ck_assert(!strncmp(un.sun_path, folder, strlen(folder)));
	ck_assert(!lstat(folder, &st) && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700 &&
		  st.st_uid == geteuid());
	ck_assert_int_eq(call(&un), 0);
}

/* What others can write to, or have made, is not used. */
UNIT_TEST(folders_of_others_are_refused)
{
	struct sockaddr_un un;

	ck_assert(!chmod(folder, 0755));
	ck_assert_int_eq(rs_place_address("x", &un, why), -EPERM);
	ck_assert(strstr(why, folder) && strstr(why, "XDG_RUNTIME_DIR"));
	ck_assert(!chmod(folder, 0700) && !chmod(base, 0777));
	ck_assert(rs_place_address("x", &un, why) || strncmp(un.sun_path, base, strlen(base)));
	ck_assert(!chmod(base, 0700));
	ck_assert_int_eq(rs_place_address("a/b", &un, why), -EINVAL);
	ck_assert_int_eq(rs_place_address("..", &un, why), -EINVAL);
	ck_assert_int_eq(rs_place_address("", &un, why), -EINVAL);
}

/* An abstract name, which is free to every user, does not keep an owner from its own. */
UNIT_TEST(names_are_not_for_others_to_take)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct rshare_config x = config(name_c, 3);
	struct rshare *r;

	snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "rshare/%u/%s", (unsigned int)geteuid(),
		 name_c);
	ck_assert(!bind(fd, (struct sockaddr *)&un, sizeof(un)) && !listen(fd, 1));
	x.role = RSHARE_OWNER;
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -EADDRINUSE);
	rshare_close(r);
	close(fd);
}

/* An owner that starts looks at all names, and calls none of the owners. */
UNIT_TEST(an_owner_that_starts_does_not_disturb_others)
{
	const struct sockaddr_un un = owner_at("unit-other");
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct rshare_config x = config("unit-other", 3);
	struct rshare *r;

	ck_assert(!bind(fd, (const struct sockaddr *)&un, sizeof(un)) && !listen(fd, 8));
	x.role = RSHARE_OWNER;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -EADDRINUSE);
	x.name = name_c;
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert_int_eq(accept(fd, NULL, NULL), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(call(&un), 0); /* it still has its name */
	rshare_close(r);
	close(fd);
	ck_assert(!unlink(un.sun_path));
}

static int call_tcp(const char *address, uint16_t to)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(to) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err;

	inet_pton(AF_INET, address, &at.sin_addr);
	err = connect(fd, (const struct sockaddr *)&at, sizeof(at)) ? errno : 0;
	close(fd);
	return err;
}

/* The device's address is 127.0.0.1; 127.0.0.2 is another of this host. */
UNIT_TEST(an_owner_listens_at_the_devices_address)
{
	struct rshare_config x = config(name_c, 3);
	struct rshare *r;

	ck_assert_int_eq(call_tcp("127.0.0.1", port), 0);
	ck_assert_int_eq(call_tcp("127.0.0.2", port), ECONNREFUSED);
	x.address = "::";
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert_int_eq(call_tcp("127.0.0.1", (uint16_t)(port + 3)), 0);
	ck_assert_int_eq(call_tcp("127.0.0.2", (uint16_t)(port + 3)), 0);
	rshare_close(r);
}

#ifndef __SANITIZE_THREAD__ /* no threads after fork() */

/* Only root can be another user. */
UNIT_TEST(other_users_cannot_call)
{
	const struct sockaddr_un un = owner_at(name_a);
	int status;
	pid_t pid;

	if (geteuid())
		return;
	pid = fork();
	if (!pid)
		_exit(setuid(OTHER) ? 0 : call(&un));
	ck_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), EACCES);
}

static unsigned int sockets(void)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	unsigned int n = 0;

	while (d && (e = readdir(d)))
		n += e->d_type == DT_SOCK;
	if (d)
		closedir(d);
	return n;
}

/*
 * An owner is killed. Others are as before; the next that starts, of that name or another, removes
 * what it left.
 */
UNIT_LOOP_TEST(killed_owners_leave_their_name, 0, 2)
{
	struct rshare_config x = config(_i ? name_c : "unit-other", 3);
	struct sockaddr_un un = owner_at(name_c);
	struct rshare *r;
	int fds[2], status;
	char ready;
	pid_t pid;

	ck_assert(!pipe(fds));
	pid = fork();
	if (!pid) {
		struct rshare_config y = config(name_c, 3);

		y.role = RSHARE_OWNER;
		_exit(rshare_open(NULL, &y, &r, NULL) || write(fds[1], "x", 1) != 1 || pause());
	}
	ck_assert_int_eq(read(fds[0], &ready, 1), 1);
	ck_assert_uint_eq(sockets(), 3);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(call(&un), ECONNREFUSED);
	x.role = RSHARE_OWNER;
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert_uint_eq(sockets(), 3);
	un = owner_at(name_a);
	ck_assert_int_eq(call(&un), 0);
	rshare_close(r);
	ck_assert_uint_eq(sockets(), 2);
	close(fds[0]);
	close(fds[1]);
}

#endif

UNIT_SUITE("share_place", .seconds = 30, .setup = place_begin, .teardown = place_end)

// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool expect(bool is, const char *what)
{
	if (!is)
		printf("FAILED: %s (%s)\n", what, strerror(errno));
	return is;
}

bool refused(int result, int err, const char *what)
{
	if (result != -1 || errno != err) {
		printf("FAILED: %s: %s instead of %s\n", what,
		       result == -1 ? strerror(errno) : "done", strerror(err));
		return false;
	}
	return true;
}

/* ---- a job in one process: each rank is a file ----------------------------------------------- */

int rank_open(uint64_t window)
{
	struct dsm_ioc_window w = { .size = window };
	int fd = open("/dev/dsm", O_RDWR);

	if (fd >= 0 && ioctl(fd, DSM_IOC_WINDOW, &w)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int rank_join_by(int fd, const char *device, const struct dsm_ioc_key *key, unsigned int rank,
		 unsigned int size)
{
	static char address[DSM_ADDRESS_MAX];
	struct dsm_ioc_join in = { .rank = (uint16_t)rank,
				   .size = (uint16_t)size,
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)address,
				   .vectors = { -1, -1, -1, -1 } };

	snprintf(in.device, sizeof(in.device), "%s", device);
	return ioctl(fd, DSM_IOC_JOIN, &in) ? -1 : key ? ioctl(fd, DSM_IOC_KEY, key) : 0;
}

int rank_join(int fd, const struct dsm_ioc_key *key, unsigned int rank, unsigned int size)
{
	return rank_join_by(fd, "none", key, rank, size);
}

int rank_connect(int fd, unsigned int peer)
{
	struct dsm_ioc_connect c = { .rank = (uint16_t)peer, .flags = DSM_CONNECT_HERE };

	return ioctl(fd, DSM_IOC_CONNECT, &c);
}

int rank_region(int fd, uint32_t pages, unsigned int home)
{
	struct dsm_ioc_region g = { .pages = pages, .home = DSM_REGION_FIXED, .arg = home };

	return ioctl(fd, DSM_IOC_REGION, &g);
}

/* Make ranks 0 and 1 of a job of two, each a file of this process. */
bool two_ranks_by(int fd[2], const char *device, uint64_t window, unsigned int home0,
		  unsigned int home1)
{
	struct dsm_ioc_key key;
	unsigned int i;

	new_key(&key);
	for (i = 0; i < 2; i++) {
		fd[i] = rank_open(window);
		if (!expect(fd[i] >= 0, "a context") ||
		    !expect(!rank_join_by(fd[i], device, &key, i, 2), "JOIN"))
			return false;
	}
	return expect(!rank_connect(fd[0], 1) && !rank_connect(fd[1], 0), "CONNECT") &&
		expect(!rank_region(fd[0], (uint32_t)(window / PAGE), home0) &&
			       !rank_region(fd[1], (uint32_t)(window / PAGE), home1),
		       "REGION");
}

bool two_ranks(int fd[2], uint64_t window, unsigned int home0, unsigned int home1)
{
	return two_ranks_by(fd, "none", window, home0, home1);
}

pid_t start_somebody(bool (*fn)(void *), void *arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		bool ok = !setgid(SOMEBODY) && !setuid(SOMEBODY) && fn(arg);

		fflush(stdout);
		_exit(!ok);
	}
	return pid;
}

bool as_somebody(bool (*fn)(void *), void *arg)
{
	pid_t pid = start_somebody(fn, arg);
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

bool set_parameter(const char *parameter, const char *value)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/dsm/parameters/%s", parameter);
	f = fopen(path, "w");
	return expect(f && fputs(value, f) >= 0 && !fclose(f), path);
}

int join_one_of_two(int fd, uint32_t mode)
{
	static char address[DSM_ADDRESS_MAX];
	struct dsm_ioc_join in = { .size = 2,
				   .mode = mode,
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)address,
				   .vectors = { -1, -1, -1, -1 } };

	return ioctl(fd, DSM_IOC_JOIN, &in) ? -errno : 0;
}

int join_by_rdma(uint32_t mode)
{
	int fd = rank_open(JOB_WINDOW), err = fd < 0 ? 0 : join_one_of_two(fd, mode);

	if (!err)
		return fd;
	close(fd);
	errno = -err;
	return -1;
}

/* ---- one by one ----------------------------------------------------------------------------- */

static bool run(const struct attack *t)
{
	int status;
	pid_t pid;
	bool ok;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		ok = t->run();
		fflush(stdout);
		_exit(!ok);
	}
	ok = waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
	ok &= nothing_left(20);
	printf("%-10s %s\n", t->name, ok ? "ok" : "FAILED");
	return ok;
}

int attacks_main(int argc, char **argv, const struct attack *attacks, unsigned int count)
{
	unsigned int i, n = 0, failed = 0;
	int a;

	if (argc > 1 && argv[1][0] == '-') {
		printf("usage: %s [NAME]...\n"
		       "Attacks on dsm.ko that must come to nothing; in a guest with the module loaded, as root.\n",
		       argv[0]);
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	module_needed();
	chmod("/dev/dsm", 0666);
	for (i = 0; i < count; i++) {
		for (a = 1; a < argc && strcmp(argv[a], attacks[i].name); a++)
			;
		if (argc > 1 && a == argc)
			continue;
		n++;
		failed += !run(&attacks[i]);
	}
	chmod("/dev/dsm", 0660);
	printf("%u attacks, %u failed\n", n, failed);
	return n && !failed ? 0 : 1;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * undo.c - dsm_init() fails at every place that a limit can make it fail, and leaves the process as
 * it was: no descriptor, mapping, thread or signal handler more. A process can try once only, so
 * each limit is for a child.
 */
#include <dsm.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Mappings of ours, or larger than any of the program's. */
static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 &&
		    (strstr(line, "libdsm-") || to - from > 48ul << 20))
			n++;
	if (f)
		fclose(f);
	return n;
}

static int handlers(void)
{
	struct sigaction bus, segv;

	sigaction(SIGBUS, NULL, &bus);
	sigaction(SIGSEGV, NULL, &segv);
	return (bus.sa_handler != SIG_DFL) + (segv.sa_handler != SIG_DFL);
}

static int attempt(int resource, rlim_t limit)
{
	struct rlimit before, r;
	int fds = entries("/proc/self/fd"), maps = mappings(), err;

	getrlimit(resource, &before);
	r = before;
	r.rlim_cur = limit;
	setrlimit(resource, &r);
	err = dsm_init(NULL);
	setrlimit(resource, &before);
	if (!err)
		return 9;
	fds -= entries("/proc/self/fd");
	maps -= mappings();
	if (!fds && !maps && !handlers() && entries("/proc/self/task") == 3)
		/* -EALREADY, -ENOTCONN */
		return dsm_init(NULL) == -114 && dsm_barrier() == -107 ? 0 : 1;
	printf("limit %lu: error %d (%s) leaves %d descriptors, %d mappings, %d handlers, %d threads\n",
	       (unsigned long)limit, err, dsm_strerror(err), -fds, -maps, handlers(),
	       entries("/proc/self/task") - 2);
	fflush(stdout);
	return 1;
}

/* Until it succeeds; how often it failed, or -1. */
static int raise_limit(int resource, rlim_t from, rlim_t to, double factor, rlim_t plus)
{
	double limit;
	int n = 0;

	for (limit = (double)from; limit < (double)to; limit = limit * factor + (double)plus) {
		int status;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0)
			_exit(attempt(resource, (rlim_t)limit));
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 9)
			return n;
		if (status) {
			printf("limit %.0f: status %#x\n", limit, status);
			return -1;
		}
		n++;
	}
	return n;
}

int main(void)
{
	int fds, space, size;

	signal(SIGXFSZ, SIG_IGN);
	fds = raise_limit(RLIMIT_NOFILE, 3, 64, 1, 1);
	space = raise_limit(RLIMIT_AS, 64ul << 20, 1ul << 42, 1.1, 0);
	size = raise_limit(RLIMIT_FSIZE, 0, 1ul << 42, 2, 1ul << 20);

	printf("failed %d, %d and %d times\n", fds, space, size);
	if (fds > 0 && space > 0 && size > 0)
		printf("nothing is left\n");
	return fds > 0 && space > 0 && size > 0 ? 0 : 1;
}

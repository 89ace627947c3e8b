// SPDX-License-Identifier: BSD-2-Clause
/*
 * squatter.c - `squatter SECONDS UID FIRST COUNT <NAMES`: as that user, takes the socket names that
 * a next run would have if its names were those of the last run but for the processes: FIRST and
 * the following ones. Prints how many it has taken.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* name: "@libdsm-UID-PID-...". 1: it is taken. */
static int take(const char *name, int pid)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char rest[128] = "";
	int uid, n, s = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (sscanf(name, "@libdsm-%d-%*d%127s", &uid, rest) != 2)
		return 0;
	n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "libdsm-%d-%d%s", uid, pid, rest);
	return !bind(s, (struct sockaddr *)&sa,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
}

int main(int argc, char **argv)
{
	const int first = argc > 3 ? atoi(argv[3]) : 0, count = argc > 4 ? atoi(argv[4]) : 0;
	struct rlimit limit;
	char name[160];
	int i, taken = 0;

	if (argc != 5 || getrlimit(RLIMIT_NOFILE, &limit))
		return 2;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) || (atoi(argv[2]) && setuid((uid_t)atoi(argv[2]))))
		return 77;
	while (fgets(name, sizeof(name), stdin))
		for (i = 0; i < count; i++)
			taken += take(name, first + i);
	printf("%d names\n", taken);
	fflush(stdout);
	sleep((unsigned int)atoi(argv[1]));
	return 0;
}

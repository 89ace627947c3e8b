// SPDX-License-Identifier: BSD-2-Clause
/*
 * early.c - a rank, or several, are killed inside dsm_init(), or stop there until somebody goes on
 * with them, or are late.
 *
 *   early RANK[,RANK...] POINT [stop|abort|FILE]   at the first HOOK() of that name; in a build
 *                                                 without them (or POINT "none") nothing happens
 *
 * With a FILE (a path with a slash), the rank waits there until it exists, and ranks whose
 * dsm_init() fails end only then. With `abort`, it calls abort() there, or after dsm_init() at the
 * POINT "running". With `stop`, each rank says when the launcher's server has it, and one whose
 * dsm_init() succeeds waits for what ends it.
 */
#include <dsm.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STAY_SECONDS 10
#define LATE_SECONDS 15

static const char *point = "none";
static const char *awaited;
static bool stops, aborts;

static void await_file(void)
{
	int ms;

	for (ms = 0; access(awaited, F_OK) && ms < LATE_SECONDS * 1000; ms += 5)
		usleep(5000);
}

void dsm_test_hook(const char *where);
void dsm_test_hook(const char *where)
{
	struct timespec t;

	if (stops && !strcmp(where, "start_launched")) {
		printf("launched\n");
		fflush(stdout);
	}
	if (strcmp(where, point))
		return;
	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("reached %ld\n", t.tv_sec * 1000 + t.tv_nsec / 1000000);
	fflush(stdout);
	point = "none";
	if (awaited)
		await_file();
	else if (aborts)
		abort();
	else
		kill(getpid(), stops ? SIGSTOP : SIGKILL);
}

static bool is_listed(const char *list, int rank)
{
	char *end;

	for (; *list; list = *end ? end + 1 : end)
		if (strtol(list, &end, 10) == rank)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("PMIX_RANK");
	int err;

	if (argc < 3 || argc > 4)
		return 2;
	stops = argc == 4 && !strcmp(argv[3], "stop");
	awaited = argc == 4 && strchr(argv[3], '/') ? argv[3] : NULL;
	aborts = argc == 4 && !strcmp(argv[3], "abort");
	if (argc == 4 && !stops && !awaited && !aborts)
		return 2;
	if (rank && is_listed(argv[1], atoi(rank)))
		point = argv[2];
	err = dsm_init(NULL);
	if (err) {
		fprintf(stderr, "dsm_init: %s\n", dsm_strerror(err));
		if (awaited)
			await_file();
		return 3;
	}
	if (aborts && !strcmp(point, "running"))
		abort();
	if (stops)
		sleep(STAY_SECONDS);
	return dsm_finalize() != 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_launch.c - launch/pmix: alone, with a missing launcher, and as a real job.
 *
 * For the real job, the program starts itself by mpirun (if there is one) with a role in its
 * environment.
 */
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/launch.h"

#define ROLE "TEST_LAUNCH_ROLE"
/* prefix of files, one per rank, for results once the launcher is gone */
#define RESULT "TEST_LAUNCH_RESULT"
#define RANKS 4
#define PATIENCE_S 60
#define GONE_S 10 /* limit of a call after the launcher's end; on an idle host it takes 2 s */

/* ---- the job's side ------------------------------------------------------------------------- */

static volatile int dead = -1;

static void died(int rank)
{
	dead = rank;
}

static void fill(unsigned char *value, int rank, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		value[i] = (unsigned char)(rank * 37 + (int)i * 3);
}

/* Exchange values of several sizes among all ranks. */
static int role_exchange(struct launch *l)
{
	static const size_t sizes[] = { 1, 100, 4096, LAUNCH_VALUE_MAX };
	static unsigned char mine[LAUNCH_VALUE_MAX], theirs[LAUNCH_VALUE_MAX];
	char key[32];
	unsigned int k;
	int r;

	if (l->size != RANKS || l->local_size != RANKS || l->local_rank != l->rank || l->alone ||
	    !l->job[0])
		return 10;
	for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		snprintf(key, sizeof(key), "test.%u", k);
		fill(mine, l->rank, sizes[k]);
		if (launch_exchange(l, key, mine, sizes[k], PATIENCE_S))
			return 11;
		for (r = 0; r < l->size; r++) {
			size_t size = sizeof(theirs);

			fill(mine, r, sizes[k]);
			if (launch_get(l, r, key, theirs, &size) || size != sizes[k] ||
			    memcmp(mine, theirs, size))
				return 12;
		}
	}
	return 0;
}

static int role_errors(struct launch *l)
{
	unsigned char value[64] = { 1 }, big[LAUNCH_VALUE_MAX + 1] = { 0 };
	size_t size = sizeof(value);

	if (launch_exchange(l, "test.big", big, sizeof(big), 1) != -E2BIG)
		return 20;
	if (launch_exchange(l, "test", value, sizeof(value), PATIENCE_S))
		return 21;
	if (launch_get(l, 0, "test.none", value, &size) != -ENOENT)
		return 22;
	if (launch_get(l, l->size, "test", value, &size) != -ENOENT ||
	    launch_get(l, -1, "test", value, &size) != -ENOENT)
		return 23;
	size = 63;
	if (launch_get(l, 1, "test", value, &size) != -E2BIG)
		return 24;
	return launch_fence(l, PATIENCE_S) ? 25 : 0;
}

/* One rank does not arrive: the others get an error. After that the job can only end. */
static int role_late(struct launch *l)
{
	if (l->rank == 1) {
		sleep(3);
		return 0;
	}
	return launch_fence(l, 1) == -ETIMEDOUT ? 0 : 30;
}

static int role_killed(struct launch *l)
{
	if (launch_watch(l, died) || launch_fence(l, PATIENCE_S))
		return 40;
	if (l->rank == 1)
		kill(getpid(), SIGKILL);
	sleep(PATIENCE_S); /* mpirun ends the others */
	return 41;
}

static int role_abort(struct launch *l)
{
	if (launch_fence(l, PATIENCE_S))
		return 50;
	if (l->rank == 2)
		launch_abort(l, 7, "as the test wants");
	sleep(PATIENCE_S);
	return 51;
}

static bool forgets, silent;

/*
 * Replaces PMIx_Commit(): PMIx forgets a message sent while its connection breaks, and its sender
 * hangs.
 */
pmix_status_t PMIx_Commit(void)
{
	pmix_status_t (*next)(void) = (pmix_status_t(*)(void))dlsym(RTLD_NEXT, "PMIx_Commit");

	while (forgets)
		pause();
	return next();
}

/* The same for PMIx_Init(). */
pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n)
{
	pmix_status_t (*next)(pmix_proc_t *, pmix_info_t *, size_t) =
		(pmix_status_t(*)(pmix_proc_t *, pmix_info_t *, size_t))dlsym(RTLD_NEXT,
									      "PMIx_Init");

	while (silent)
		pause();
	return next(proc, info, n);
}

#define COMES (-1) /* a rank reports this before the call */
#define SILENT (-2)

static void path_of(char path[PATH_MAX], const char *name, int rank)
{
	snprintf(path, PATH_MAX, "%s.%d", name, rank);
}

static void tell(int rank, int result)
{
	char path[PATH_MAX];
	FILE *f;

	path_of(path, getenv(RESULT), rank);
	f = fopen(path, "w");
	if (f) {
		fprintf(f, "%d\n", result);
		fclose(f);
	}
}

static int told(const char *name, int rank)
{
	char path[PATH_MAX];
	int result = SILENT;
	FILE *f;

	path_of(path, name, rank);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%d", &result) != 1)
			result = SILENT;
		fclose(f);
	}
	return result;
}

/* When all ranks have reported COMES, rank 0 ends the launcher. Returns the time of that. */
static time_t end_launcher(int rank, int size)
{
	time_t when;
	int r;

	tell(rank, COMES);
	for (r = 0; rank == 0 && r < size; r++)
		while (told(getenv(RESULT), r) == SILENT)
			usleep(10000);
	when = time(NULL);
	if (rank == 0)
		kill(getppid(), SIGKILL);
	return when;
}

/* End the launcher when all ranks have passed a fence and are about to publish. */
static int role_gone(struct launch *l)
{
	time_t start;
	int err;

	alarm(2 * PATIENCE_S);
	if (launch_watch(l, died) || launch_fence(l, PATIENCE_S))
		return 60;
	forgets = true;
	start = end_launcher(l->rank, l->size);
	err = launch_exchange(l, "test", "late", 4, PATIENCE_S);
	tell(l->rank, err != -EPIPE ? 61 : time(NULL) - start > GONE_S ? 62 : 0);
	_exit(0);
}

static void *ender(void *rank)
{
	usleep(300000); /* time for launch_start() */
	end_launcher((int)(intptr_t)rank, RANKS);
	return NULL;
}

/* End the launcher while all ranks are in PMIx_Init(). */
static int role_starting(void)
{
	const int rank = atoi(getenv("PMIX_RANK"));
	const time_t start = time(NULL);
	struct launch l;
	pthread_t t;
	int err;

	alarm(2 * PATIENCE_S);
	silent = true;
	if (pthread_create(&t, NULL, ender, (void *)(intptr_t)rank))
		return 70;
	err = launch_start(&l);
	tell(rank,
	     err != -EPIPE                             ? 71
		     : time(NULL) - start > PATIENCE_S ? 72
		     : l.size != 1                     ? 73
						       : 0);
	_exit(0);
}

static int play(const char *role)
{
	static const struct {
		const char *name;
		int (*fn)(struct launch *l);
	} roles[] = { { "exchange", role_exchange }, { "errors", role_errors },
		      { "late", role_late },         { "killed", role_killed },
		      { "abort", role_abort },       { "gone", role_gone } };
	struct launch l;
	size_t i;
	int err;

	if (!strcmp(role, "starting"))
		return role_starting();
	err = launch_start(&l);
	if (err)
		return 2;
	for (i = 0; i < sizeof(roles) / sizeof(*roles); i++)
		if (!strcmp(role, roles[i].name))
			err = roles[i].fn(&l);
	launch_end(&l);
	return err;
}

/* ---- the suite's side ----------------------------------------------------------------------- */

static void no_launcher(void)
{
	unsetenv("PMIX_NAMESPACE");
	unsetenv("PMIX_RANK");
	unsetenv("PMI_SIZE");
	unsetenv("OMPI_COMM_WORLD_SIZE");
}

UNIT_TEST(without_a_launcher_a_job_of_one)
{
	struct launch l;
	char value[16] = "hello", back[16];
	size_t size = sizeof(back);

	no_launcher();
	ck_assert_int_eq(launch_start(&l), 0);
	ck_assert_int_eq(l.rank, 0);
	ck_assert_int_eq(l.size, 1);
	ck_assert_int_eq(l.local_rank, 0);
	ck_assert_int_eq(l.local_size, 1);
	ck_assert(l.alone && l.job[0]);
	ck_assert_int_eq(launch_exchange(&l, "key", value, sizeof(value), 1), 0);
	ck_assert_int_eq(launch_get(&l, 0, "key", back, &size), 0);
	ck_assert_uint_eq(size, sizeof(value));
	ck_assert_mem_eq(value, back, size);
	ck_assert_int_eq(launch_exchange(&l, "key", "new", 4, 1), 0);
	ck_assert_int_eq(launch_get(&l, 0, "key", back, &size), 0);
	ck_assert_str_eq(back, "new");
	size = 3;
	ck_assert_int_eq(launch_get(&l, 0, "key", back, &size), -E2BIG);
	ck_assert_int_eq(launch_get(&l, 0, "other", back, &size), -ENOENT);
	ck_assert_int_eq(launch_get(&l, 1, "key", back, &size), -ENOENT);
	ck_assert_int_eq(launch_fence(&l, 1), 0);
	ck_assert_int_eq(launch_watch(&l, died), 0);
	launch_abort(&l, 1, "nobody hears");
	launch_end(&l);
}

UNIT_TEST(a_launcher_that_is_not_there_is_an_error)
{
	struct launch l;

	no_launcher();
	setenv("PMIX_NAMESPACE", "nosuch", 1);
	setenv("PMIX_RANK", "0", 1);
	ck_assert_int_eq(launch_start(&l), -ENOSYS);
}

UNIT_TEST(a_launcher_without_pmix_is_an_error)
{
	struct launch l;

	no_launcher();
	setenv("PMI_SIZE", "4", 1);
	ck_assert_int_eq(launch_start(&l), -ENOSYS);
	setenv("PMI_SIZE", "1", 1);
	ck_assert_int_eq(launch_start(&l), 0);
	launch_end(&l);
}

/* Returns mpirun's exit status, or -1 if this host has no mpirun. */
static int job(const char *role)
{
	char command[8192], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int status;

	ck_assert_int_gt(n, 0);
	self[n] = 0;
	if (system("command -v mpirun >/dev/null 2>&1"))
		return -1;
	no_launcher();
	snprintf(command, sizeof(command),
		 "env " ROLE
		 "=%s OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 "
		 "mpirun --oversubscribe -n %d '%s' >/dev/null 2>&1 </dev/null",
		 role, RANKS, self);
	status = system(command);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

UNIT_TEST(a_job_exchanges_values)
{
	ck_assert_int_le(job("exchange"), 0);
}

UNIT_TEST(a_job_is_told_its_mistakes)
{
	ck_assert_int_le(job("errors"), 0);
}

UNIT_TEST(a_missing_rank_is_a_timeout)
{
	ck_assert_int_le(job("late"), 0);
}

UNIT_TEST(a_killed_rank_ends_the_job)
{
	time_t start = time(NULL);
	int status = job("killed");

	ck_assert(status == -1 || status == 128 + SIGKILL);
	ck_assert_int_lt(time(NULL) - start, PATIENCE_S / 2);
}

UNIT_TEST(an_abort_ends_the_job_with_its_status)
{
	time_t start = time(NULL);
	int status = job("abort");

	ck_assert(status == -1 || status == 7);
	ck_assert_int_lt(time(NULL) - start, PATIENCE_S / 2);
}

/* Returns 0, or the rank's result if it is wrong. */
static int result_of(const char *name, int rank)
{
	char path[PATH_MAX];
	int i, result = SILENT;

	for (i = 0; result < 0 && i < PATIENCE_S * 10; i++) {
		result = told(name, rank);
		if (result < 0)
			usleep(100000);
	}
	path_of(path, name, rank);
	unlink(path);
	return result;
}

/* Results of the ranks of a job whose launcher ends. */
static void job_without_end(const char *role)
{
	char name[] = "/tmp/test-launch.XXXXXX";
	int fd = mkstemp(name), status, r;

	ck_assert_int_ge(fd, 0);
	close(fd);
	setenv(RESULT, name, 1);
	status = job(role);
	for (r = 0; status != -1 && r < RANKS; r++)
		ck_assert_int_eq(result_of(name, r), 0);
	unlink(name);
}

UNIT_TEST(a_launcher_that_ends_is_seen_by_calls_it_forgets)
{
	job_without_end("gone");
}

UNIT_TEST(a_launcher_that_ends_is_seen_before_it_has_answered)
{
	job_without_end("starting");
}

int main(void)
{
	return getenv(ROLE) ? play(getenv(ROLE))
			    : unit_suite("launch", &(struct unit_case){ .seconds = 120 });
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_start_info.c - start/info: a job's keys are random numbers, the same for all ranks of the
 * job and for no other job.
 *
 * For the jobs, the program starts itself by mpirun (where there is one) with a role in its
 * environment.
 */
#include "suite.h"

#include <dsm.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault/fault.h"
#include "job/job.h"
#include "start/host.h"
#include "start/info.h"
#include "start/window.h"

#define ROLE "TEST_INFO_ROLE"
#define RANKS 3
#define INFOS 16

/* ---- a rank of a job ------------------------------------------------------------------------ */

static struct host_ops shown;

/* Stands in for the host driver: dsm_init() calls it with the key. */
static int show(const uint8_t key[HOST_KEY], void *address, size_t *size)
{
	char text[2 * HOST_KEY + 1];
	unsigned int i;

	(void)address;
	for (i = 0; i < HOST_KEY; i++)
		snprintf(text + 2 * i, 3, "%02x", key[i]);
	printf("keys %016llx %s\n", (unsigned long long)job.key, text);
	fflush(stdout);
	job.host = &host_process;
	*size = 0;
	return 0;
}

static int role(void)
{
	setenv("DSM_NODE", "rank", 1);
	setenv("DSM_BACKEND", "user", 1);
	shown.join = show;
	return dsm_init(NULL) || dsm_finalize();
}

/* ---- random numbers ------------------------------------------------------------------------- */

static unsigned int calls, fails; /* the number of the call, from 1, that fails, */
static ssize_t answer;            /* and its result */

/*
 * Replaces getrandom(2) for info.c. In a job, info.c calls it after the host was chosen and before
 * the ranks meet.
 */
ssize_t getrandom(void *buf, size_t n, unsigned int flags)
{
	if (shown.join == show && n == HOST_KEY && job.host != &shown) {
		shown = *job.host;
		shown.join = show;
		job.host = &shown;
	}
	if (++calls == fails) {
		memset(buf, 0, n);
		return answer;
	}
	return syscall(SYS_getrandom, buf, n, flags);
}

static int make(struct start_info *info)
{
	int err;

	memset(info, 0, sizeof(*info));
	job.set.node = "host";
	job.set.space = 1ul << 30;
	job.host = &host_process;
	job.fault = &fault_mprotect;
	err = start_info_make(info);
	window_release(false);
	return err;
}

/* ---- the suite ------------------------------------------------------------------------------ */

UNIT_TEST(each_start_info_has_keys_of_its_own)
{
	static struct start_info info[INFOS];
	unsigned int i, k, b;

	for (i = 0; i < INFOS; i++) {
		ck_assert_int_eq(make(&info[i]), 0);
		ck_assert_uint_ne(info[i].key, 0);
		for (k = 0; k < i; k++)
			ck_assert_uint_ne(info[i].key, info[k].key);
	}
	for (b = 0; b < HOST_KEY; b++) {
		/* all are drawn; the chance that one is the same in all infos is 2^-120 */
		for (i = 1; i < INFOS && info[i].host_key[b] == info[0].host_key[b]; i++)
			;
		ck_assert_msg(i < INFOS, "byte %u is always %02x", b, info[0].host_key[b]);
	}
}

UNIT_TEST(without_random_numbers_there_is_no_start_info)
{
	static const ssize_t answers[] = { -1, 0, 7, 15 };
	struct start_info info;
	unsigned int i;

	for (i = 0; i < 4; i++)
		for (fails = 1; fails <= 2; fails++) {
			calls = 0;
			answer = answers[i];
			errno = ENOSYS;
			ck_assert_int_eq(make(&info), -EIO);
			ck_assert_uint_eq(calls, fails);
		}
}

UNIT_TEST(ranks_compare_settings_by_name)
{
	static const struct {
		const char *name;
		size_t at;
	} fields[] = {
		{ "DSM_SPACE", offsetof(struct start_settings, space) },
		{ "DSM_HEAP", offsetof(struct start_settings, heap) },
		{ "DSM_HOME", offsetof(struct start_settings, homes) },
		{ "DSM_HOME", offsetof(struct start_settings, home_run) },
		{ "DSM_QUANTUM_MS", offsetof(struct start_settings, quantum_ms) },
		{ "DSM_CONSISTENCY", offsetof(struct start_settings, release) },
		{ "DSM_ATOMICS", offsetof(struct start_settings, trust) },
		{ "DSM_OWN_LIBRARIES", offsetof(struct start_settings, libraries) },
	};
	unsigned int i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct start_settings a = { 0 }, b = { 0 };

		ck_assert_ptr_null(start_settings_differ(&a, &b));
		*(uint64_t *)(void *)((char *)&b + fields[i].at) = 1;
		ck_assert_pstr_eq(start_settings_differ(&a, &b), fields[i].name);
		ck_assert_pstr_eq(start_settings_differ(&b, &a), fields[i].name);
	}
}

UNIT_TEST(a_rank_publishes_its_settings)
{
	struct start_info info;

	fails = 0;
	job.set = (struct settings){ .heap = 1ul << 29,
				     .homes = HOMES_CYCLIC,
				     .home_run = 1 << 16,
				     .release = true,
				     .trust = true };
	ck_assert_int_eq(make(&info), 0);
	ck_assert_uint_eq(info.settings.space, 1ul << 30);
	ck_assert_uint_eq(info.settings.heap, 1ul << 29);
	ck_assert_uint_eq(info.settings.homes, HOMES_CYCLIC);
	ck_assert_uint_eq(info.settings.home_run, 1 << 16);
	ck_assert_uint_eq(info.settings.release, 1);
	ck_assert_uint_eq(info.settings.trust, 1);
	ck_assert_uint_eq(info.settings.libraries, 0);
	setenv("DSM_OWN_LIBRARIES", "share", 1);
	ck_assert_int_eq(make(&info), 0);
	ck_assert_uint_eq(info.settings.libraries, 1);
	setenv("DSM_OWN_LIBRARIES", "rank", 1);
	ck_assert_int_eq(make(&info), 0);
	ck_assert_uint_eq(info.settings.libraries, 2);
	setenv("DSM_OWN_LIBRARIES", "outside", 1);
	ck_assert_int_eq(make(&info), 0);
	ck_assert_uint_eq(info.settings.libraries, 0);
	unsetenv("DSM_OWN_LIBRARIES");
}

struct keys {
	unsigned long long key;
	char host_key[2 * HOST_KEY + 1];
};

/* Collect the keys of a job's ranks. False: this host has no mpirun. */
static bool run_job(struct keys keys[RANKS])
{
	char command[8192], self[4096], line[256];
	ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
	unsigned int n = 0;
	FILE *f;

	ck_assert_int_gt(size, 0);
	self[size] = 0;
	if (system("command -v mpirun >/dev/null 2>&1"))
		return false;
	snprintf(
		command, sizeof(command),
		"env -u PMIX_NAMESPACE -u PMIX_RANK " ROLE "=1 OMPI_ALLOW_RUN_AS_ROOT=1 "
		"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 mpirun --oversubscribe -n %d '%s' 2>&1 </dev/null",
		RANKS, self);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		if (n < RANKS &&
		    sscanf(line, "keys %16llx %32s", &keys[n].key, keys[n].host_key) == 2)
			n++;
	ck_assert_int_eq(pclose(f), 0);
	ck_assert_uint_eq(n, RANKS);
	return true;
}

UNIT_TEST(a_job_has_the_same_keys_on_all_ranks_and_others_than_the_next)
{
	struct keys keys[2][RANKS];
	unsigned int j, r;

	for (j = 0; j < 2; j++) {
		if (!run_job(keys[j]))
			return;
		ck_assert_uint_ne(keys[j][0].key, 0);
		ck_assert_uint_ne(strspn(keys[j][0].host_key, "0"), 2 * HOST_KEY);
		for (r = 1; r < RANKS; r++) {
			ck_assert_uint_eq(keys[j][r].key, keys[j][0].key);
			ck_assert_str_eq(keys[j][r].host_key, keys[j][0].host_key);
		}
	}
	ck_assert_uint_ne(keys[0][0].key, keys[1][0].key);
	ck_assert_str_ne(keys[0][0].host_key, keys[1][0].host_key);
}

/*
 * What libdsm prints when the first rank of a node of two compares limits; the third rank is
 * another node's.
 */
static void compare(const struct memory_limit limits[RANKS], char *out, size_t room)
{
	static uint16_t node_of[RANKS] = { 0, 0, 1 };
	static struct start_info infos[RANKS];
	int fds[2], old = dup(STDERR_FILENO), i;
	ssize_t n;

	for (i = 0; i < RANKS; i++)
		infos[i].memory = limits[i];
	job.node_of = node_of;
	job.size = RANKS;
	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	start_info_compare_limits(infos);
	job.local = 1;
	start_info_compare_limits(infos); /* the second rank leaves it to the first */
	job.local = 0;
	ck_assert_int_eq(dup2(old, STDERR_FILENO), STDERR_FILENO);
	close(old);
	close(fds[1]);
	n = read(fds[0], out, room - 1);
	ck_assert_int_ge(n, 0);
	out[n] = 0;
	close(fds[0]);
}

UNIT_TEST(ranks_of_a_node_with_unlike_limits_are_named_once)
{
	static const struct memory_limit alike[RANKS] = { { 64 << 20, 5 },
							  { 64 << 20, 5 },
							  { 32 << 20, 6 } };
	static const struct memory_limit unlike[RANKS] = { { 64 << 20, 5 },
							   { 32 << 20, 6 },
							   { 64 << 20, 5 } };
	static const struct memory_limit one[RANKS] = { { 128 << 20, 0 },
							{ 128 << 20, 6 },
							{ 128 << 20, 0 } };
	char text[1024];

	compare(alike, text, sizeof(text));
	ck_assert_str_eq(text, "");
	compare(unlike, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(
		text,
		"rank 1 of this node is in another cgroup: its limit of memory is 32 MiB, here it is 64 MiB"));
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
	compare(one, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "rank 1 of this node"));
}

/* Ranks 0 and 1 are a node, rank 2 is another one. */
static void two_nodes(struct start_info *infos, uint64_t bytes)
{
	static uint16_t node_of[RANKS] = { 0, 0, 1 }, first[2] = { 0, 2 };
	int r;

	memset(infos, 0, RANKS * sizeof(*infos));
	for (r = 0; r < RANKS; r++)
		infos[r].memory.bytes = bytes;
	job.node_of = node_of;
	job.first = first;
	job.size = RANKS;
	job.nodes = 2;
	job.node = 0;
	job.rank = 0;
}

UNIT_TEST(ranks_of_a_node_have_one_bound)
{
	static struct start_info infos[RANKS];

	two_nodes(infos, 1 << 20);
	infos[2].bound = 64 << 20; /* of another node */
	ck_assert_int_eq(start_info_compare_bounds(infos), 0);
	infos[1].bound = 64 << 20;
	ck_assert_int_eq(start_info_compare_bounds(infos), -EPROTO);
	infos[0].bound = 64 << 20;
	ck_assert_int_eq(start_info_compare_bounds(infos), 0);
	infos[0].bound = 0;
	job.node = 1; /* all ranks of the job end */
	ck_assert_int_eq(start_info_compare_bounds(infos), -EPROTO);
}

UNIT_TEST(a_node_may_have_its_part_of_the_memory_less_a_reserve)
{
	static struct start_info infos[RANKS];
	const uint64_t gib = 1ull << 30, rank = 32ull << 20;

	two_nodes(infos, 16 * gib); /* of one host */
	ck_assert_uint_eq(start_info_bound(infos), (14 * gib - 3 * rank) / 2);
	infos[2].host = 1;
	ck_assert_uint_eq(start_info_bound(infos), 14 * gib - 2 * rank);
	/* The least limit of the node counts, and who shares it. */
	infos[1].memory = (struct memory_limit){ 8 * gib, 5 };
	ck_assert_uint_eq(start_info_bound(infos), 7 * gib - rank);
	infos[2].memory = infos[1].memory; /* of the other host */
	ck_assert_uint_eq(start_info_bound(infos), 7 * gib - rank);
	infos[2].host = 0;
	ck_assert_uint_eq(start_info_bound(infos), (7 * gib - 2 * rank) / 2);
	job.node = 1;
	job.rank = 2;
	ck_assert_uint_eq(start_info_bound(infos), (7 * gib - 2 * rank) / 2);
	infos[2].memory = (struct memory_limit){ 16 * gib, 0 };
	ck_assert_uint_eq(start_info_bound(infos), (14 * gib - 2 * rank) / 2);
	/* Ranks of a node with equal limits in two groups agree, whichever asks. */
	two_nodes(infos, 8 * gib);
	job.node = 0;
	infos[0].memory = infos[2].memory = (struct memory_limit){ 8 * gib, 5 };
	infos[1].memory = (struct memory_limit){ 8 * gib, 6 };
	for (job.rank = 0; job.rank < 2; job.rank++)
		ck_assert_uint_eq(start_info_bound(infos), (7 * gib - 2 * rank) / 2);
	/* Not so little that nothing works, and nothing if the limit is not known. */
	two_nodes(infos, 64 << 20);
	ck_assert_uint_eq(start_info_bound(infos), 64 << 20);
	two_nodes(infos, 0);
	ck_assert_uint_eq(start_info_bound(infos), 0);
}

int main(void)
{
	return getenv(ROLE) ? role()
			    : unit_suite("start_info", &(struct unit_case){ .seconds = 240 });
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_fault_none.c - memory of a job of one node: bounds, memory that is given back, huge pages if
 * the host has them.
 */
#include "fault/frames.h"
#include "fault/guard.h"

#include "suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPACE (64ul << 20)
#define USED (16ul << 20)
#ifdef __SANITIZE_THREAD__
#define WINDOW ((char *)0x7e9000000000)
#else
#define WINDOW ((char *)0x200000000000)
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define THP "/sys/kernel/mm/transparent_hugepage/"

static void open_window(bool shared, enum fault_huge huge)
{
	struct fault_node n = {
		.memfd = -1, .base = WINDOW, .size = SPACE, .ranks = shared ? 2 : 1, .huge = huge
	};
	const char *why = "";
	int fd;

	if (shared) {
		n.memfd = memfd_create("test-none", MFD_CLOEXEC);
		ck_assert(n.memfd >= 0 && !ftruncate(n.memfd, SPACE));
	}
	ck_assert(!fault_none.open(&n, &fd, &why) && fd == -1);
}

/* KiB of one line of smaps, summed over all parts of the window. */
static long smaps(const char *line)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char text[512];
	bool inside = false;
	long sum = 0, kib;

	ck_assert_ptr_nonnull(f);
	while (fgets(text, sizeof(text), f)) {
		unsigned long from, to;

		if (sscanf(text, "%lx-%lx ", &from, &to) == 2 &&
		    strchr(text, '-') < strchr(text, ' '))
			inside = from >= (unsigned long)WINDOW &&
				to <= (unsigned long)(WINDOW + SPACE);
		else if (inside && !strncmp(text, line, strlen(line)) &&
			 sscanf(text + strlen(line), ": %ld", &kib) == 1)
			sum += kib;
	}
	fclose(f);
	return sum;
}

static void use(char value)
{
	size_t at;

	ck_assert(!fault_none.bound(0, USED, USED));
	for (at = 0; at < USED; at += 4096)
		WINDOW[at] = value;
	for (at = 0; at < USED; at += 4096)
		ck_assert(WINDOW[at] == value);
}

UNIT_LOOP_TEST(what_is_in_bounds_is_plain_memory, 0, 2)
{
	unsigned int i;
	int status;
	pid_t pid;

	open_window(_i, FAULT_HUGE_AUTO);
	use(3);
	for (i = 0; i < 2; i++) { /* the last page in bounds, and the first one out of bounds */
		ck_assert(!fault_none.bound(0, USED, 4096));
		pid = fork();
		if (!pid) {
			if (_i) /* with several ranks, children have no access at all */
				_exit(7);
			signal(SIGSEGV, SIG_DFL);
			WINDOW[i * 4096] = 1;
			_exit(7);
		}
		ck_assert(waitpid(pid, &status, 0) == pid);
		ck_assert(_i || !i ? WIFEXITED(status) && WEXITSTATUS(status) == 7
				   : WIFSIGNALED(status) || WEXITSTATUS(status) != 7);
	}
	use(4);
	ck_assert(!fault_none.guard(4096, 4096, GUARD_STACK) && guard_of(4096) == GUARD_STACK &&
		  !guard_of(8192));
	pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		WINDOW[4096] = 1;
		_exit(7);
	}
	ck_assert(waitpid(pid, &status, 0) == pid);
	ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) != 7);
	ck_assert(!fault_none.guard(4096, 4096, GUARD_NONE) && !guard_of(4096) &&
		  WINDOW[4096] == 4);
	ck_assert(!fault_none.shut(0, USED));
	ck_assert(WINDOW[0] == 0 && WINDOW[USED - 4096] == 0);
	fault_none.close();
}

/* Returns the text between brackets in a file. */
static void setting(const char *file, char *text, size_t size)
{
	FILE *f = fopen(file, "r");
	char line[256] = "", *from, *to;

	text[0] = 0;
	if (!f)
		return;
	if (fgets(line, sizeof(line), f) && (from = strchr(line, '[')) &&
	    (to = strchr(from, ']'))) {
		*to = 0;
		snprintf(text, size, "%s", from + 1);
	}
	fclose(f);
}

static long vmstat(const char *name)
{
	FILE *f = fopen("/proc/vmstat", "r");
	char key[128];
	long value, found = 0;

	while (f && fscanf(f, "%127s %ld", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	if (f)
		fclose(f);
	return found;
}

UNIT_LOOP_TEST(huge_pages_come_where_the_host_provides_them, 0, 2)
{
	const char *file = _i ? THP "shmem_enabled" : THP "enabled",
		   *line = _i ? "ShmemPmdMapped" : "AnonHugePages";
	const char *failures = _i ? "thp_file_fallback" : "thp_fault_fallback";
	long refused = vmstat(failures), got;
	char is[32];

	setting(file, is, sizeof(is));
	open_window(_i, FAULT_HUGE_AUTO);
	use(5);
	got = smaps(line);
	if (!is[0] || !strcmp(is, "never") || !strcmp(is, "deny")) {
		printf("no huge pages in %s memory: %s is %s\n", _i ? "shared" : "private", file,
		       is[0] ? is : "not there");
		ck_assert_int_eq(got, 0);
	} else if (!got) {
		printf("no huge pages in %s memory: %ld times the host had none\n",
		       _i ? "shared" : "private", vmstat(failures) - refused);
		ck_assert_int_gt(vmstat(failures), refused);
	} else {
		ck_assert_int_le(got, USED / 1024);
	}
	ck_assert(!fault_none.shut(0, USED));
	fault_none.close();
	open_window(_i, FAULT_HUGE_OFF);
	use(6);
	ck_assert(smaps(line) == 0 || !strcmp(is, "force"));
	fault_none.close();
}

/* DSM_HUGE=on prints what the user must change, once per node. */
UNIT_TEST(who_insists_is_told_what_the_host_refuses)
{
	char is[32], text[512] = "";
	int pipes[2], kept = dup(2);

	setting(THP "shmem_enabled", is, sizeof(is));
	ck_assert(!pipe(pipes) && kept >= 0 && dup2(pipes[1], 2) == 2);
	open_window(true, FAULT_HUGE_ON);
	ck_assert(write(2, "\n", 1) == 1 && dup2(kept, 2) == 2);
	ck_assert(read(pipes[0], text, sizeof(text) - 1) > 0);
	ck_assert_msg(!!strstr(text, "shmem_enabled") ==
			      (!is[0] || !strcmp(is, "never") || !strcmp(is, "deny")),
		      "%s: %s", is, text);
	fault_none.close();
}

static long minor_faults(void)
{
	struct rusage u;

	ck_assert(!getrusage(RUSAGE_SELF, &u));
	return u.ru_minflt;
}

static size_t frames(void)
{
	struct stat s;

	ck_assert(!fstat(frames_node.memfd, &s));
	return (size_t)s.st_blocks * 512 / 4096;
}

/* Fill memory as another rank does. */
static void bring(size_t off, size_t len)
{
	char page[4096];
	size_t at;

	memset(page, 8, sizeof(page));
	for (at = off; at < off + len; at += sizeof(page))
		ck_assert(!frames_write(at, sizeof(page), page));
}

#define MIB (1ul << 20)
#define CHUNK (64ul << 10)
#define SECOND 1000000000ull

/*
 * Store to one byte of each page, and count the faults. Not instrumented: a sanitizer's shadow
 * memory faults as well.
 */
__attribute__((noinline, no_sanitize("address", "thread"))) static long
faults_of_stores(size_t bytes)
{
	const long before = minor_faults();
	size_t at;

	for (at = 1; at < bytes; at += 4096)
		((volatile char *)WINDOW)[at] = 9;
	return minor_faults() - before;
}

UNIT_TEST(what_other_ranks_have_brought_is_mapped_ahead)
{
	size_t at, before;

	open_window(true, FAULT_HUGE_OFF);
	ck_assert(!fault_none.bound(0, USED, USED));
	ck_assert_uint_eq(fault_none.populate(SECOND), 0);
	bring(0, 4 * MIB);
	bring(8 * MIB + 3 * 4096, 8 * 4096);
	before = frames();
	if (!fault_none.populate(2 * SECOND)) {
		ck_assert_int_eq(madvise(WINDOW, 0, MADV_POPULATE_READ), -1);
		printf("this kernel maps nothing ahead\n");
		fault_none.close();
		return;
	}
	ck_assert_uint_eq(frames(), before);
	ck_assert_int_lt(faults_of_stores(4 * MIB), 64);
	for (at = 0; at < 4 * MIB; at += 4096)
		ck_assert(WINDOW[at] == 8 && WINDOW[at + 1] == 9);
	ck_assert(WINDOW[4 * MIB] == 0 && WINDOW[8 * MIB + 3 * 4096] == 8);
	fault_none.close();
}

UNIT_TEST(frames_are_mapped_once_for_all_that_is_new)
{
	size_t chunks;

	open_window(true, FAULT_HUGE_OFF);
	ck_assert(!fault_none.bound(0, USED, USED));
	bring(0, 4 * MIB);
	if (fault_none.populate(SECOND)) {
		ck_assert_uint_eq(fault_none.populate(2 * SECOND), 0);
		bring(4 * MIB, MIB / 4);
		/* 1/16 more is not worth a pass */
		ck_assert_uint_eq(fault_none.populate(3 * SECOND), 0);
		bring(8 * MIB, 4 * MIB);
		/* nor a check so soon */
		ck_assert_uint_eq(fault_none.populate(3 * SECOND + 1000), 0);
		ck_assert_uint_eq(fault_none.populate(4 * SECOND), (8 * MIB + MIB / 4) / CHUNK);
	}
	/* Memory out of bounds, as a region of other ranks is, is skipped. */
	ck_assert(!fault_none.bound(0, 2 * MIB, 0));
	bring(12 * MIB, 4 * MIB);
	chunks = fault_none.populate(5 * SECOND);
	ck_assert(!chunks || chunks == (10 * MIB + MIB / 4) / CHUNK);
	WINDOW[12 * MIB]++;
	fault_none.close();
}

UNIT_SUITE("fault_none", .seconds = 30)

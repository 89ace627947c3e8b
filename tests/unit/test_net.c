// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net.c - net/ucx over shared memory and over TCP: opening, messages, peers that misbehave or
 * go.
 */
#include "net_suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <glob.h>
#include <sys/mman.h>
#include <ucs/debug/log_def.h>

#include "util/log.h"

/* ---- opening -------------------------------------------------------------------------------- */

UNIT_CASE(ucx, NULL)

UNIT_TEST(opening_leaves_signals_libc_and_environment_alone)
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
	void *const code[] = { (void *)mmap, (void *)munmap, (void *)madvise, (void *)sbrk };
	unsigned char before[4][16];
	struct sigaction old[4], now;
	struct end a, b;
	int i;

	for (i = 0; i < 4; i++) {
		sigaction(numbers[i], NULL, &old[i]);
		memcpy(before[i], code[i], sizeof(before[i]));
	}
	open_pair(&a, &b, 0);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	poll_until(&a, &b, &b.messages, 1);
	for (i = 0; i < 4; i++) {
		sigaction(numbers[i], NULL, &now);
		ck_assert_ptr_eq((void *)now.sa_handler, (void *)old[i].sa_handler);
		ck_assert_mem_eq(before[i], code[i], sizeof(before[i]));
	}
	ck_assert_ptr_null(getenv("UCX_TLS"));
	ck_assert_ptr_null(getenv("UCX_LOG_LEVEL"));
	close_pair(&a, &b);
}

UNIT_TEST(opening_without_a_usable_transport_says_so)
{
	struct end a;

	setenv("UCX_TLS", "nosuch", 1);
	ck_assert_int_eq(try_open(&a, 0, handler), -ENODEV);
}

UNIT_TEST(opening_without_descriptors_says_so)
{
	const struct rlimit few = { 16, 16 };
	struct end a;

	setrlimit(RLIMIT_NOFILE, &few);
	ck_assert_int_eq(try_open(&a, 0, handler), -EMFILE);
}

/* The program closes its stderr, and its next file gets number 2. */
UNIT_TEST(what_ucx_prints_goes_to_what_stderr_was)
{
	static const char words[] =
		"libdsm: UCX: error: a.c:7: five 5\nlibdsm: UCX: info: b.c:8: six\n";
	ucs_log_component_config_t part = { .log_level = UCS_LOG_LEVEL_INFO, .name = "part" };
	__typeof__(&ucs_log_dispatch) print;
	char line[256] = "";
	struct end a, b;
	FILE *f = tmpfile();
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	log_keep();
	open_pair(&a, &b, 0);
	*(void **)&print = dlsym(dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD), "ucs_log_dispatch");
	ck_assert(f && print && dup2(fileno(f), STDERR_FILENO) == STDERR_FILENO);
	print("/a/a.c", 7, "function", UCS_LOG_LEVEL_ERROR, &part, "five %d", 5);
	print("b.c", 8, "function", UCS_LOG_LEVEL_INFO, &part, "six");
	ck_assert_int_eq(lseek(fileno(f), 0, SEEK_END), 0);
	ck_assert_int_eq(read(fds[0], line, sizeof(line) - 1), sizeof(words) - 1);
	ck_assert_str_eq(line, words);
	close_pair(&a, &b);
	log_release();
}

static bool is_mapped_in(const char *maps, const char *name)
{
	FILE *f = fopen(maps, "r");
	bool found = false;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, name);
	if (f)
		fclose(f);
	return found;
}

/* Is the file one of another job that runs at the same time? */
static bool is_of_another(const char *name)
{
	bool found = false;
	char own[32];
	glob_t maps;
	size_t i;

	snprintf(own, sizeof(own), "/proc/%d/maps", getpid());
	if (glob("/proc/[0-9]*/maps", 0, NULL, &maps))
		return false;
	for (i = 0; i < maps.gl_pathc && !found; i++)
		found = strcmp(maps.gl_pathv[i], own) && is_mapped_in(maps.gl_pathv[i], name);
	globfree(&maps);
	return found;
}

/* Count the files of UCX that this process maps, or no process. */
int net_leftovers(void)
{
	DIR *d = opendir("/dev/shm");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += !strncmp(e->d_name, "ucx", 3) && !is_of_another(e->d_name);
	if (d)
		closedir(d);
	return n;
}

/* What the payload says is nothing to the transport. */
UNIT_LOOP_TEST(a_bundle_counts_as_its_messages, 0, TRANSPORTS)
{
	const uint8_t types[] = { MSG_DATA, MSG_READ_REQ };
	const unsigned int bundles = 12, each = 10, budget = 16;
	struct net_counters count;
	unsigned int i, sum = 0;
	struct end a, b;
	int came;

	open_pair(&a, &b, _i);
	for (i = 0; i < bundles; i++) {
		struct msg m = message(&a, 1, MSG_BUNDLE, 0, 0);

		m.op = types[i % 2];
		m.count = (int16_t)each;
		ck_assert_int_eq(ops->send(a.net, 1, &m, NULL, 0), 0);
	}
	while (sum < bundles * each) {
		ops->poll(a.net, budget);
		came = ops->poll(b.net, budget);
		ck_assert(came % (int)each == 0 && came < (int)(budget + each));
		sum += (unsigned int)came;
	}
	ck_assert_uint_eq(b.messages, bundles);
	ops->counters(a.net, &count);
	ck_assert_uint_eq(count.sent, bundles);
	ck_assert_uint_eq(count.by_class[CLASS_DATA], bundles / 2);
	ck_assert_uint_eq(count.by_class[CLASS_COHERENCE], bundles / 2);
	close_pair(&a, &b);
}

UNIT_SUITE("net", .seconds = 120)

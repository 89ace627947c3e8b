// SPDX-License-Identifier: BSD-2-Clause
/* common.c - see common.h. */
#include "common.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int test_rank, test_size;
uint64_t test_seed;

static const char *name;
static bool seed_given;
static const char *chosen[8]; /* parts whose names contain one of these; none: all */
static size_t nchosen;
static uint64_t repeat = 1;

static void help(const char *about, const struct test_option *options, size_t n)
{
	size_t i;

	printf("usage: %s [options]\n%s\n\n", name, about);
	printf("  %-22s print this and exit\n", "--help");
	printf("  %-22s seed of all random choices (default: the clock)\n", "--seed S");
	printf("  %-22s of a test in parts: only parts whose names contain NAME; may be repeated\n",
	       "--part NAME");
	printf("  %-22s of a test in parts: run each N times (default 1)\n", "--repeat N");
	for (i = 0; i < n; i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s %s", options[i].name,
			 options[i].arg ? options[i].arg : "");
		printf("  %-22s %s", left, options[i].help);
		if (options[i].arg)
			printf(" (default %lu)", (unsigned long)*options[i].value);
		printf("\n");
	}
}

static uint64_t number(const char *option, const char *text)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = text ? strtoull(text, &end, 0) : 0;
	if (!text || errno || *end || end == text) {
		fprintf(stderr, "%s: %s takes a number\n", name, option);
		exit(2);
	}
	return v;
}

void test_options(int argc, char **argv, const char *about, const struct test_option *options,
		  size_t n)
{
	int i;
	size_t k;

	name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	test_seed = test_ns() ^ (uint64_t)getpid() << 32;
	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			help(about, options, n);
			exit(0);
		}
		if (!strcmp(argv[i], "--seed")) {
			test_seed = number(argv[i], argv[i + 1]);
			seed_given = true;
			i++;
			continue;
		}
		if (!strcmp(argv[i], "--part") && argv[i + 1] &&
		    nchosen < sizeof(chosen) / sizeof(chosen[0])) {
			chosen[nchosen++] = argv[++i];
			continue;
		}
		if (!strcmp(argv[i], "--repeat")) {
			repeat = number(argv[i], argv[i + 1]);
			i++;
			continue;
		}
		for (k = 0;
		     k < n && (strncmp(argv[i], "--", 2) || strcmp(argv[i] + 2, options[k].name));
		     k++)
			;
		if (k == n) {
			fprintf(stderr, "%s: what is %s? (--help)\n", name, argv[i]);
			exit(2);
		}
		*options[k].value = options[k].arg ? number(argv[i], argv[i + 1]) : 1;
		i += options[k].arg != NULL;
	}
}

void test_same_addresses(char **argv)
{
	if (personality(0xffffffff) & ADDR_NO_RANDOMIZE)
		return;
	if (personality(ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
	perror("personality");
	exit(1);
}

void test_join(void)
{
	int err = dsm_init(NULL);

	if (err) {
		fprintf(stderr, "%s: dsm_init: %s\n", name, dsm_strerror(err));
		exit(1);
	}
	test_rank = dsm_rank();
	test_size = dsm_size();
	if (!seed_given)
		test_seed &= 0xffffffff;
	MUST(dsm_broadcast(&test_seed, sizeof(test_seed), 0));
	test_say("%s: %d ranks, --seed %lu", name, test_size, (unsigned long)test_seed);
}

void test_start(int argc, char **argv, const char *about, const struct test_option *options,
		size_t n)
{
	test_options(argc, argv, about, options, n);
	test_join();
}

int test_end(void)
{
	MUST(dsm_finalize());
	test_say("%s: ok", name);
	return 0;
}

void test_fail_at(const char *file, int line, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fflush(stdout);
	/* print it here, too: ranks race to the exit, and the text of an abort may be cut */
	fprintf(stderr, "FAILED: %s, rank %d, %s:%d: %s (--seed %lu)\n", name, test_rank, file,
		line, text, (unsigned long)test_seed);
	dsm_abort(1, "%s", text);
}

void test_expect(const char *file, int line, const char *call, long got, long want)
{
	if (got != want)
		test_fail_at(file, line, "%s is %ld (%s), not %ld (%s)", call, got,
			     dsm_strerror((int)got), want, dsm_strerror((int)want));
}

void test_say(const char *fmt, ...)
{
	va_list ap;

	if (test_rank)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

struct start {
	pthread_t id;
	unsigned thread;
	void (*fn)(unsigned thread, void *arg);
	void *arg;
};

static void *begin(void *arg)
{
	struct start *s = arg;

	s->fn(s->thread, s->arg);
	return NULL;
}

void test_threads(unsigned n, void (*fn)(unsigned thread, void *arg), void *arg)
{
	struct start *all = calloc(n, sizeof(*all));
	unsigned i;

	REQUIRE(all, "no memory");
	for (i = 1; i < n; i++) {
		all[i] = (struct start){ .thread = i, .fn = fn, .arg = arg };
		REQUIRE(!pthread_create(&all[i].id, NULL, begin, &all[i]), "no thread");
	}
	fn(0, arg);
	for (i = 1; i < n; i++)
		pthread_join(all[i].id, NULL);
	free(all);
}

/*
 * Ranks in several guests of scripts/cluster share only the memory of a device. Each call uses
 * another part of it: all ranks call in the same order, and only one job runs at a time.
 */
static void *outside_of_guests(const char *device, size_t size)
{
	static off_t used;
	int fd = open(device, O_RDWR | O_CLOEXEC);
	void *p;

	REQUIRE(fd >= 0, "%s: %m", device);
	size = (size + 4095) & ~(size_t)4095;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, used);
	REQUIRE(p != MAP_FAILED, "mmap %s: %m", device);
	close(fd);
	used += (off_t)size;
	if (!test_rank)
		memset(p, 0, size);
	MUST(dsm_barrier());
	return p;
}

void *test_outside(size_t size)
{
	struct {
		int pid, fd;
	} at = { 0, 0 };
	char path[64];
	void *p;
	int fd;

	if (getenv("CLUSTER_MEMORY"))
		return outside_of_guests(getenv("CLUSTER_MEMORY"), size);
	if (!test_rank) {
		at.pid = getpid();
		at.fd = memfd_create("libdsm-test", MFD_CLOEXEC);
		REQUIRE(at.fd >= 0 && !ftruncate(at.fd, (off_t)size),
			"no memory outside of the shared memory: %m");
	}
	MUST(dsm_broadcast(&at, sizeof(at), 0));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", at.pid, at.fd);
	fd = test_rank ? open(path, O_RDWR | O_CLOEXEC) : at.fd;
	REQUIRE(fd >= 0, "%s: %m", path);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap: %m");
	MUST(dsm_barrier());
	close(fd);
	return p;
}

void *test_region(const char *region, size_t size, size_t block_size, enum dsm_home home,
		  int home_rank)
{
	struct dsm_region_options opt = { .block_size = block_size,
					  .home = home,
					  .home_rank = home_rank };
	dsm_region_t *r;

	MUST(dsm_region_open(region, size, &opt, &r));
	return dsm_region_base(r);
}

int test_width(void)
{
	const char *nodes = getenv("TEST_NODES"), *node = getenv("DSM_NODE");

	if (nodes)
		return test_size / atoi(nodes);
	return node && atoi(node) ? atoi(node) : 1;
}

struct dsm_stats test_stats(const dsm_region_t *r)
{
	struct dsm_stats s;

	MUST(dsm_stats_get(test_rank, r, &s));
	return s;
}

void *test_open(const char *region, size_t size, enum dsm_home home, dsm_region_t **r)
{
	struct dsm_region_options opt = { .block_size = 4096, .home = home };

	MUST(dsm_region_open(region, size, &opt, r));
	return dsm_region_base(*r);
}

void test_close(const char *region, dsm_region_t *r)
{
	test_sync();
	if (!test_rank)
		MUST(dsm_region_destroy(region));
	MUST(dsm_region_detach(r));
	test_sync();
}

void test_sync(void)
{
	MUST(dsm_barrier());
}

bool test_in_kernel(void)
{
	const char *backend = getenv("DSM_BACKEND");

	return !access("/dev/dsm", F_OK) && (!backend || strcmp(backend, "user"));
}

uint64_t test_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t test_cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
		(uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

void test_nap(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

void test_delay(uint64_t loops)
{
	while (loops--)
		__builtin_ia32_pause();
}

static bool is_chosen(const struct test_part *part)
{
	size_t i;

	for (i = 0; i < nchosen && !strstr(part->name, chosen[i]); i++)
		;
	return !nchosen || i < nchosen;
}

static void run_part(const struct test_part *part)
{
	uint64_t start = test_ns(), round;

	MUST(dsm_barrier());
	test_say("part: %s", part->name);
	for (round = 0; round < repeat; round++) {
		part->fn();
		MUST(dsm_barrier());
	}
	test_say("part: %s: ok %llu ms", part->name,
		 (unsigned long long)(test_ns() - start) / 1000000);
}

void test_parts(const struct test_part *parts, size_t n)
{
	size_t i, ran = 0;

	for (i = 0; i < n; i++)
		if (is_chosen(&parts[i])) {
			run_part(&parts[i]);
			ran++;
		}
	REQUIRE(ran, "no part has that name");
}

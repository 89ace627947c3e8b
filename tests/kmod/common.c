// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double patience(double seconds)
{
	const char *slow = getenv("KMOD_TEST_SLOW");

	return slow && atof(slow) > 1 ? seconds * atof(slow) : seconds;
}

bool reached(const _Atomic unsigned int *n, unsigned int wanted)
{
	const double end = now_s() + patience(60);

	while (atomic_load(n) < wanted && now_s() < end)
		usleep(500);
	return atomic_load(n) >= wanted;
}

void all_here(_Atomic unsigned int *place, unsigned int n)
{
	atomic_fetch_add(place, 1);
	while (atomic_load(place) < n)
		usleep(1000);
}

void *shared_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("shared memory");
		exit(2);
	}
	return p;
}

bool it_failed(const char *what)
{
	printf("FAILED: %s\n", what);
	return false;
}

void no_arguments(int argc, char **argv, const char *about)
{
	if (argc == 1)
		return;
	printf("usage: %s\n%s; in a guest with dsm.ko loaded.\n", argv[0], about);
	exit(strcmp(argv[1], "--help") ? 2 : 0);
}

int window_at_base(void)
{
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	int fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, DSM_IOC_WINDOW, &w) ||
	    mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		 0) == MAP_FAILED) {
		perror("/dev/dsm");
		return -1;
	}
	return fd;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

struct job *job_new(void)
{
	return shared_memory(sizeof(struct job));
}

void new_key(struct dsm_ioc_key *key)
{
	if (getrandom(key, sizeof(*key), 0) != sizeof(*key)) {
		perror("getrandom");
		exit(2);
	}
}

static uint64_t rotated(uint64_t v, unsigned int n)
{
	return v << n | v >> (64 - n);
}

/* SipHash-2-4 of two words. */
static uint64_t siphash(const uint64_t key[2], uint64_t first, uint64_t second)
{
	const uint64_t words[] = { first, second, 16ull << 56, 0, 0 };
	uint64_t v0 = 0x736f6d6570736575ull ^ key[0], v1 = 0x646f72616e646f6dull ^ key[1],
		 v2 = 0x6c7967656e657261ull ^ key[0], v3 = 0x7465646279746573ull ^ key[1];
	unsigned int i, round;

	for (i = 0; i < 5; i++) {
		if (i == 3)
			v2 ^= 0xff;
		v3 ^= words[i];
		for (round = 0; round < 2; round++) {
			v0 += v1, v1 = rotated(v1, 13) ^ v0, v0 = rotated(v0, 32);
			v2 += v3, v3 = rotated(v3, 16) ^ v2;
			v0 += v3, v3 = rotated(v3, 21) ^ v0;
			v2 += v1, v1 = rotated(v1, 17) ^ v2, v2 = rotated(v2, 32);
		}
		v0 ^= words[i];
	}
	return v0 ^ v1 ^ v2 ^ v3;
}

uint64_t lane_secret(const struct dsm_ioc_key *key, char what, unsigned int class,
		     const unsigned int rank[2], const uint32_t qpn[2])
{
	const uint64_t way = (uint64_t)rank[0] << 16 | rank[1];
	uint64_t k[2];

	memcpy(k, key->key, sizeof(k));
	return siphash(k, way << 32 | class << 8 | (unsigned char)what,
		       (uint64_t)qpn[0] << 32 | qpn[1]);
}

void job_set(struct job *j, unsigned int ranks, bool rdma)
{
	memset(j, 0, sizeof(*j));
	j->ranks = ranks;
	j->rdma = rdma;
	j->vector = -1;
	j->cpu = DSM_CPU_OF_VECTOR;
	new_key(&j->key);
}

/* Wait until all ranks are there, or one has failed. */
static bool together(struct job *j, _Atomic unsigned int *place)
{
	double end = now_s() + patience(60);

	atomic_fetch_add(place, 1);
	while (atomic_load(place) <
	       (j->present ? (unsigned int)__builtin_popcountll(j->present) : j->ranks)) {
		if (atomic_load(&j->failed) || atomic_load(&j->stop) || now_s() > end)
			return false;
		usleep(1000);
	}
	return true;
}

static int connect_all(struct job *j, unsigned int rank, int fd)
{
	unsigned int p;

	for (p = 0; p < j->ranks; p++) {
		const bool here = !j->rdma || (j->here >> p & j->here >> rank & 1);
		struct dsm_ioc_connect c = { .rank = (uint16_t)p,
					     .flags = here ? DSM_CONNECT_HERE : 0,
					     .address_size = j->address_size[p],
					     .address = (uintptr_t)j->address[p] };

		if (p != rank && (!j->present || j->present >> p & 1) &&
		    ioctl(fd, DSM_IOC_CONNECT, &c))
			return -errno;
	}
	return 0;
}

int job_region(const struct job *j, int fd, unsigned int op)
{
	const uint32_t pages = j->pages ? j->pages : JOB_PAGES;
	struct dsm_ioc_region g = { .op = op,
				    .pages = pages,
				    .home = j->home,
				    .order = (uint16_t)j->order,
				    .arg = j->home == DSM_REGION_PARTS ? pages / j->ranks : 0 };

	return ioctl(fd, DSM_IOC_REGION, &g);
}

int job_join(struct job *j, unsigned int rank)
{
	struct dsm_ioc_window w = { .size = j->window ? j->window : JOB_WINDOW };
	struct dsm_ioc_join in = { .rank = (uint16_t)rank,
				   .size = (uint16_t)j->ranks,
				   .mode = j->mode,
				   .hold_us = j->hold_us,
				   .spin_us = j->spin_us ? j->spin_us : 20,
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)j->address[rank],
				   .vectors = { j->vector, j->vector, j->vector, j->vector },
				   .cpus = { j->cpu, j->cpu, j->cpu, j->cpu } };
	int fd = open("/dev/dsm", O_RDWR), err = -EIO;

	if (fd < 0)
		return -errno;
	if (!j->rdma)
		strcpy(in.device, "none");
	if (ioctl(fd, DSM_IOC_WINDOW, &w) || ioctl(fd, DSM_IOC_JOIN, &in) ||
	    ioctl(fd, DSM_IOC_KEY, &j->key))
		goto fail_errno;
	j->address_size[rank] = in.address_size;
	if (!together(j, &j->come))
		goto fail;
	err = connect_all(j, rank, fd);
	if (err)
		goto fail;
	if (job_region(j, fd, DSM_REGION_ADD))
		goto fail_errno;
	if (mmap(JOB_BASE, w.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		 0) == MAP_FAILED)
		goto fail_errno;
	err = -EIO;
	if (together(j, &j->ready))
		return fd;
	goto fail;

fail_errno:
	err = -errno;
fail:
	atomic_store(&j->failed, err);
	close(fd);
	return err;
}

int job_attach(const struct job *j, int of)
{
	struct dsm_ioc_attach a = { .fd = of };
	int fd = open("/dev/dsm", O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	if (!ioctl(fd, DSM_IOC_ATTACH, &a) && (!j || !job_region(j, fd, DSM_REGION_ADD)) &&
	    mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		 0) != MAP_FAILED)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* ---- processes ------------------------------------------------------------------------------ */

static void show_stacks(pid_t pid)
{
	char name[300], line[300];
	struct dirent *e;
	FILE *f;
	DIR *d;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	d = opendir(name);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "/proc/%d/task/%.20s/stack", pid, e->d_name);
		f = fopen(name, "r");
		printf("thread %s:\n", e->d_name);
		while (f && fgets(line, sizeof(line), f))
			printf("  %s", line);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
}

/*
 * Wait for processes until `end`. gone[i]: process i has ended, with statuses[i] if not NULL.
 * Returns how many have not.
 */
static unsigned int wait_for_all(const pid_t *pids, unsigned int n, bool *gone, int *statuses,
				 double end)
{
	unsigned int i, left;

	do {
		for (left = i = 0; i < n; i++) {
			gone[i] = gone[i] ||
				waitpid(pids[i], statuses ? &statuses[i] : NULL, WNOHANG) != 0;
			left += !gone[i];
		}
	} while (left && now_s() < end && !usleep(2000));
	return left;
}

bool job_statuses(const pid_t *pids, unsigned int n, int *statuses, double seconds)
{
	bool gone[64] = { false };
	unsigned int i;

	if (!wait_for_all(pids, n, gone, statuses, now_s() + patience(seconds)))
		return true;
	show_ranks();
	for (i = 0; i < n; i++)
		if (!gone[i]) {
			printf("process %d does not end\n", pids[i]);
			show_stacks(pids[i]);
			kill(pids[i], SIGKILL);
		}
	if (wait_for_all(pids, n, gone, statuses, now_s() + patience(10)))
		printf("nor if they are killed\n");
	return false;
}

bool job_reap(const pid_t *pids, unsigned int n, double seconds)
{
	return job_statuses(pids, n, NULL, seconds);
}

char thread_state(pid_t pid, unsigned int tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%u/stat", pid, tid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state;
}

void until_asleep(const _Atomic unsigned int *tid)
{
	double end = now_s() + patience(60);

	do
		usleep(1000);
	while ((!atomic_load(tid) || thread_state(getpid(), atomic_load(tid)) != 'S') &&
	       now_s() < end);
}

/* ---- accesses ------------------------------------------------------------------------------- */

__thread sigjmp_buf away;
__thread volatile bool away_set;

static void caught(int sig)
{
	if (!away_set) {
		/* repeat the access with the default handler: the kernel logs its address */
		signal(sig, SIG_DFL);
		return;
	}
	siglongjmp(away, sig);
}

void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = caught, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

int touch(volatile char *p, bool write)
{
	int sig = sigsetjmp(away, 0);

	if (!sig) {
		away_set = true;
		if (write)
			*p = (char)(*p + 1);
		else
			(void)*p;
	}
	away_set = false;
	return sig;
}

/* ---- the module ----------------------------------------------------------------------------- */

long long frames_kept;

long long counter(const char *name)
{
	char path[100];
	long long value;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/dsm/%s", name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lld", &value) != 1)
		value = -1;
	if (f)
		fclose(f);
	return value;
}

static long long expected(const char *gauge)
{
	return strcmp(gauge, "frames") ? 0 : frames_kept;
}

bool nothing_left(double seconds)
{
	static const char *const gauges[] = { "views",  "contexts", "joined",
					      "frames", "charged",  "sends_waiting" };
	enum { GAUGES = sizeof(gauges) / sizeof(gauges[0]) };
	double end = now_s() + patience(seconds);
	unsigned int i, left;

	do {
		for (i = left = 0; i < GAUGES; i++)
			left += counter(gauges[i]) != expected(gauges[i]);
		if (left)
			usleep(1000);
	} while (left && now_s() < end);
	for (i = 0; i < GAUGES && left; i++)
		printf("left: %s %lld\n", gauges[i], counter(gauges[i]));
	return !left;
}

bool module_loaded(void)
{
	return !access("/sys/module/dsm", F_OK);
}

void module_needed(void)
{
	if (module_loaded())
		return;
	fprintf(stderr, "%s: dsm.ko is not loaded\n", program_invocation_short_name);
	exit(77);
}

void show_ranks(void)
{
	FILE *f = fopen("/sys/kernel/debug/dsm/ranks", "r");
	char line[400];

	while (f && fgets(line, sizeof(line), f))
		fputs(line, stdout);
	if (f)
		fclose(f);
}

unsigned int listed_with(const char *what, const char *part)
{
	FILE *f = fopen("/sys/kernel/debug/dsm/ranks", "r");
	unsigned int n = 0;
	char line[400];

	while (f && fgets(line, sizeof(line), f))
		n += !strncmp(line, what, strlen(what)) && strstr(line, part);
	if (f)
		fclose(f);
	return n;
}

unsigned int listed(const char *what)
{
	return listed_with(what, "");
}

bool none_listed(const char *what)
{
	double end = now_s() + patience(60);

	while (listed(what) && now_s() < end)
		usleep(1000);
	return !listed(what);
}

int tainted(void)
{
	FILE *t = fopen("/proc/sys/kernel/tainted", "r");
	int v = 0;

	if (!t || fscanf(t, "%d", &v) != 1)
		v = -1;
	if (t)
		fclose(t);
	return v;
}

void show_counters(void)
{
	static const char *const names[] = { "faults",        "pages_changed",
					     "messages_sent", "messages_received",
					     "keys_asked",    "bad_messages",
					     "ranks_given_up" };
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("%s %lld, ", names[i], counter(names[i]));
}

int fuzz_options(int argc, char **argv, const char *usage, struct fuzz_options *o)
{
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seed") && a + 1 < argc) {
			o->seed = strtoull(argv[++a], NULL, 0);
		} else if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			o->seconds = atof(argv[++a]);
		} else if (!strcmp(argv[a], "--inputs") && a + 1 < argc) {
			o->inputs = strtoul(argv[++a], NULL, 0);
		} else if (!strcmp(argv[a], "--round") && a + 1 < argc && o->round > 0) {
			o->round = atof(argv[++a]);
		} else {
			fputs(usage, stdout);
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	module_needed();
	return -1;
}

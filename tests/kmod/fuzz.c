// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz.c - calls of /dev/dsm that no library makes: valid ones with a field changed, random ones, from several threads of several
 * ranks at once, and everything that a process can do to a mapping and to a file; with processes killed in the middle.
 *
 * Runs in a guest with the module loaded. A round is a job of one to three ranks, by RDMA or in one kernel, each with some
 * threads that call for a while; then it is killed. What must hold: processes end when they are killed, and afterwards no
 * context, rank or frame is left; the kernel's log is its caller's to read. Everything follows from --seed but time.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8u /* most of them soon wait for what never comes: they asked nonsense */
#define FILES 6u

/* ---- the calls ------------------------------------------------------------------------------ */

struct field {
	unsigned short at, size;
};
#define F(type, name) { offsetof(struct type, name), sizeof(((struct type *)0)->name) }

static const struct field window_fields[] = { F(dsm_ioc_window, size), F(dsm_ioc_window, reserved) };
static const struct field protect_fields[] = { F(dsm_ioc_protect, items), F(dsm_ioc_protect, count), F(dsm_ioc_protect, flags) };
static const struct field join_fields[] = {
	F(dsm_ioc_join, key), F(dsm_ioc_join, rank), F(dsm_ioc_join, size), F(dsm_ioc_join, mode), F(dsm_ioc_join, readahead), F(dsm_ioc_join, hold_us),
	F(dsm_ioc_join, spin_us), F(dsm_ioc_join, device[0]), F(dsm_ioc_join, device[31]), F(dsm_ioc_join, gid),
	F(dsm_ioc_join, address_size), F(dsm_ioc_join, address), F(dsm_ioc_join, vectors[0]), F(dsm_ioc_join, vectors[3]),
};
static const struct field connect_fields[] = { F(dsm_ioc_connect, rank), F(dsm_ioc_connect, flags),
					       F(dsm_ioc_connect, address_size), F(dsm_ioc_connect, address) };
static const struct field region_fields[] = { F(dsm_ioc_region, op), F(dsm_ioc_region, page), F(dsm_ioc_region, pages),
					      F(dsm_ioc_region, id), F(dsm_ioc_region, order), F(dsm_ioc_region, home),
					      F(dsm_ioc_region, arg) };
static const struct field call_fields[] = { F(dsm_ioc_call, call), F(dsm_ioc_call, home), F(dsm_ioc_call, object),
					    F(dsm_ioc_call, value), F(dsm_ioc_call, value2), F(dsm_ioc_call, ns), F(dsm_ioc_call, mutex),
					    F(dsm_ioc_call, threads), F(dsm_ioc_call, hold), F(dsm_ioc_call, op) };
static const struct field range_fields[] = { F(dsm_ioc_range, op), F(dsm_ioc_range, page), F(dsm_ioc_range, pages),
					     F(dsm_ioc_range, write) };
static const struct field stats_fields[] = { F(dsm_ioc_stats, region), F(dsm_ioc_stats, flags) };

#define N(a) (sizeof(a) / sizeof((a)[0]))
enum what { INFO, WINDOW, PROTECT, JOIN, CONNECT, REGION, CALL, RANGE, STATS, LOST, QUEUES, IOCTLS };
static const struct {
	const char *name;
	unsigned long code;
	unsigned int size;
	const struct field *fields;
	unsigned int n, weight;
} calls[IOCTLS] = {
	[INFO] = { "INFO", DSM_IOC_INFO, sizeof(struct dsm_ioc_info), NULL, 0, 2 },
	[WINDOW] = { "WINDOW", DSM_IOC_WINDOW, sizeof(struct dsm_ioc_window), window_fields, N(window_fields), 3 },
	[PROTECT] = { "PROTECT", DSM_IOC_PROTECT, sizeof(struct dsm_ioc_protect), protect_fields, N(protect_fields), 8 },
	[JOIN] = { "JOIN", DSM_IOC_JOIN, sizeof(struct dsm_ioc_join), join_fields, N(join_fields), 3 },
	[CONNECT] = { "CONNECT", DSM_IOC_CONNECT, sizeof(struct dsm_ioc_connect), connect_fields, N(connect_fields), 3 },
	[REGION] = { "REGION", DSM_IOC_REGION, sizeof(struct dsm_ioc_region), region_fields, N(region_fields), 4 },
	[CALL] = { "CALL", DSM_IOC_CALL, sizeof(struct dsm_ioc_call), call_fields, N(call_fields), 16 },
	[RANGE] = { "RANGE", DSM_IOC_RANGE, sizeof(struct dsm_ioc_range), range_fields, N(range_fields), 16 },
	[STATS] = { "STATS", DSM_IOC_STATS, sizeof(struct dsm_ioc_stats), stats_fields, N(stats_fields), 2 },
	[LOST] = { "LOST", DSM_IOC_LOST, sizeof(struct dsm_ioc_lost), NULL, 0, 1 },
	[QUEUES] = { "QUEUES", DSM_IOC_QUEUES, sizeof(struct dsm_ioc_queues), NULL, 0, 1 },
};

/* What came of it all, in memory of all processes. */
static struct tally {
	_Atomic unsigned long ok[IOCTLS], failed[IOCTLS], touches, signals, others, killed, forks;
} *tally;

struct fuzzer {
	uint64_t random;
	struct job *job;
	unsigned int rank;
	int *files;           /* FILES of the process, -1: none; files[0] is the rank's */
};

/* ---- arguments ------------------------------------------------------------------------------ */

static uint64_t odd_number(uint64_t *r)
{
	static const uint64_t odd[] = { 0, 1, 2, 3, 7, 8, 9, 255, 256, 511, 512, 513, 1023, 1024, 2047, 2048, 4095, 4096, 0x7fff, 0x8000,
					0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 1ull << 40, 1ull << 44,
					1ull << 63, ~0ull, 0x7fffffffffffffff };

	switch (pick(r, 4)) {
	case 0: return odd[pick(r, N(odd))];
	case 1: return 1ull << pick(r, 64);
	case 2: return (1ull << pick(r, 64)) - 1;
	default: return next(r);
	}
}

static char scratch[64 << 10];

/* An address that may be anything. */
static uint64_t odd_address(uint64_t *r)
{
	switch (pick(r, 6)) {
	case 0: return 0;
	case 1: return (uintptr_t)JOB_BASE + pick(r, JOB_WINDOW);
	case 2: return 0xffff888000000000ull + pick(r, 1 << 30);
	case 3: return (uintptr_t)scratch + sizeof(scratch) - pick(r, 64);
	case 4: return 0x7ffffffff000ull - pick(r, 64);
	default: return next(r);
	}
}

static void fill_call(struct fuzzer *f, struct dsm_ioc_call *c)
{
	uint64_t *r = &f->random;

	*c = (struct dsm_ioc_call){ .call = (uint16_t)pick(r, DSM_CALLS), .home = (uint16_t)pick(r, f->job->ranks),
				    .object = pick(r, 8) | 1u << 16, .value = pick(r, 3), .ns = 1000000 + pick(r, 1000000),
				    .threads = pick(r, 3), .hold = (uint16_t)pick(r, 4), .op = (uint8_t)pick(r, 20) };
	if (c->call == DSM_CALL_SYNC && !c->op)
		c->value2 = (uint64_t)(1 + pick(r, 6)) << 32; /* create: a kind */
	if (c->call == DSM_CALL_BARRIER) {
		c->object = pick(r, 4);
		c->op = (uint8_t)pick(r, 6);
		c->value2 = (1ull << f->job->ranks) - 1;
	}
}

/* A call that could be right. */
static void fill(struct fuzzer *f, enum what what, void *arg)
{
	uint64_t *r = &f->random;
	unsigned int page = pick(r, JOB_PAGES), i;

	memset(arg, 0, calls[what].size);
	switch (what) {
	case WINDOW:
		((struct dsm_ioc_window *)arg)->size = (uint64_t)(1 + pick(r, 8)) << 21;
		break;
	case PROTECT: {
		struct dsm_prot_item *items = (void *)scratch;
		unsigned int n = pick(r, 64);

		for (i = 0; i < n; i++)
			items[i] = (struct dsm_prot_item){ pick(r, 1024), pick(r, 3) };
		*(struct dsm_ioc_protect *)arg = (struct dsm_ioc_protect){ .items = (uintptr_t)items, .count = n, .flags = pick(r, 2) };
		break;
	}
	case JOIN:
		*(struct dsm_ioc_join *)arg = (struct dsm_ioc_join){
			.key = f->job->key, .rank = (uint16_t)pick(r, 3), .size = 3, .mode = pick(r, 3), .spin_us = 10, .gid = -1,
			.address_size = DSM_ADDRESS_MAX, .address = (uintptr_t)scratch, .vectors = { -1, -1, 0, -1 } };
		if (pick(r, 4))
			strcpy(((struct dsm_ioc_join *)arg)->device, "none");
		break;
	case CONNECT: {
		unsigned int peer = pick(r, f->job->ranks);

		*(struct dsm_ioc_connect *)arg = (struct dsm_ioc_connect){
			.rank = (uint16_t)peer, .flags = (uint16_t)pick(r, 2), .address_size = f->job->address_size[peer],
			.address = (uintptr_t)f->job->address[peer] };
		break;
	}
	case REGION:
		*(struct dsm_ioc_region *)arg = (struct dsm_ioc_region){
			.op = pick(r, 2), .page = pick(r, 4) * 512, .pages = 512, .id = (uint16_t)pick(r, 4), .order = (uint16_t)pick(r, 10),
			.home = pick(r, 4), .arg = pick(r, 3) };
		break;
	case CALL:
		fill_call(f, arg);
		break;
	case RANGE: {
		unsigned int n = 1 + pick(r, 32), op = pick(r, DSM_RANGES), order = f->job->order;

		page &= ~((1u << order) - 1);
		n = (n << order) + page > JOB_PAGES ? 1u << order : n << order;
		if (op >= DSM_RANGE_QUIET) {
			page &= ~511u;
			n = 512;
		}
		*(struct dsm_ioc_range *)arg = (struct dsm_ioc_range){ .op = op, .page = page, .pages = n, .write = pick(r, 2) };
		break;
	}
	case STATS:
		*(struct dsm_ioc_stats *)arg = (struct dsm_ioc_stats){ .region = pick(r, 2) ? 0 : 0xffff, .flags = pick(r, 2) };
		break;
	default:
		break;
	}
}

static void change_field(uint64_t *r, enum what what, char *arg)
{
	const struct field *f = &calls[what].fields[pick(r, calls[what].n)];
	uint64_t value = f->size == 8 && pick(r, 2) ? odd_address(r) : odd_number(r), old = 0;

	if (!pick(r, 3)) {
		memcpy(&old, arg + f->at, f->size);
		value = old + (uint64_t)(int64_t)((int)pick(r, 5) - 2);
	}
	memcpy(arg + f->at, &value, f->size);
}

/* The module would do as it is told: memory for 16 TiB of window in each file is more than a guest has. */
static void tame(enum what what, char *arg)
{
	struct dsm_ioc_window *w = (void *)arg;
	struct dsm_ioc_join *j = (void *)arg;

	if (what == WINDOW && w->size > 1ull << 36 && w->size <= 16ull << 40)
		w->size >>= 8;
	if (what == JOIN && j->size > 8 && j->size <= DSM_RANKS_MAX)
		j->size = 8;
}

static void do_ioctl(struct fuzzer *f)
{
	static __thread char arg[sizeof(struct dsm_ioc_stats)] __attribute__((aligned(8)));
	uint64_t *r = &f->random;
	unsigned int w = pick(r, 58), what = 0, i;
	int fd = f->files[pick(r, 3) ? 0 : pick(r, FILES)];
	void *at = arg;

	while (what < IOCTLS - 1 && w >= calls[what].weight)
		w -= calls[what++].weight;
	/* What a rank's own file was set up with comes again rarely: an answer of EBUSY is soon known. */
	if (fd == f->files[0] && (what == WINDOW || what == JOIN || what == PROTECT) && pick(r, 4))
		what = RANGE;
	if (what == PROTECT)
		fd = f->files[1];
	fill(f, (enum what)what, arg);
	switch (pick(r, 8)) {
	case 0: case 1: case 2: case 3:
		break;
	case 4: case 5: case 6:
		if (calls[what].n)
			change_field(r, (enum what)what, arg);
		break;
	default:
		for (i = 0; i < calls[what].size; i += 8) {
			uint64_t v = pick(r, 3) ? odd_number(r) : next(r);

			memcpy(arg + i, &v, calls[what].size - i < 8 ? calls[what].size - i : 8);
		}
	}
	tame((enum what)what, arg);
	if (!pick(r, 40))
		at = (void *)(uintptr_t)odd_address(r);
	if (ioctl(fd, pick(r, 100) ? calls[what].code : next(r), at))
		atomic_fetch_add(&tally->failed[what], 1);
	else
		atomic_fetch_add(&tally->ok[what], 1);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void do_touch(struct fuzzer *f)
{
	unsigned int i, n = 1 + pick(&f->random, 8);
	volatile char *p = JOB_BASE + pick(&f->random, JOB_WINDOW);

	for (i = 0; i < n; i++)
		if (touch(p, pick(&f->random, 2)))
			atomic_fetch_add(&tally->signals, 1);
	atomic_fetch_add(&tally->touches, n);
}

static void do_memory(struct fuzzer *f)
{
	static const int advice[] = { MADV_NORMAL, MADV_RANDOM, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTFORK,
				      MADV_DOFORK, MADV_MERGEABLE, MADV_HUGEPAGE, MADV_COLD, MADV_PAGEOUT, 22 /* POPULATE_READ */,
				      23 /* POPULATE_WRITE */, 25 /* COLLAPSE */ };
	uint64_t *r = &f->random;
	char *at = JOB_BASE + pick(r, JOB_PAGES) * PAGE;
	size_t size = (1 + pick(r, 64)) * PAGE;
	struct iovec mine = { scratch, 4096 }, theirs = { at, 4096 };
	int fd = f->files[pick(r, FILES)], other;
	void *p;

	switch (pick(r, 14)) {
	case 0: /* only rarely the mapping by which the rank lives */
		if (!pick(r, 60))
			munmap(JOB_BASE, JOB_WINDOW);
		else
			munmap(at, size);
		break;
	case 1:
		p = mmap(NULL, pick(r, 2) ? JOB_WINDOW : size, pick(r, 8), pick(r, 2) ? MAP_SHARED : MAP_PRIVATE, fd,
			 (off_t)(pick(r, 4) ? 0 : pick(r, 8) * PAGE));
		if (p != MAP_FAILED && pick(r, 2))
			munmap(p, JOB_WINDOW);
		break;
	case 2:
		p = mremap(at, size, size * (1 + pick(r, 3)), pick(r, 4));
		break;
	case 3:
		if (!pick(r, 60))
			mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED, JOB_BASE + (1ul << 38));
		break;
	case 4:
		mprotect(at, size, (int)pick(r, 8));
		break;
	case 5:
		madvise(at, size, advice[pick(r, N(advice))]);
		break;
	case 6:
		if (pick(r, 2))
			mlock(at, size);
		else
			munlock(at, size);
		break;
	case 7:
		msync(at, size, MS_SYNC);
		break;
	case 8:
		process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0);
		break;
	case 9:
		process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0);
		break;
	case 10: /* as a debugger does */
		other = open("/proc/self/mem", O_RDWR);
		if (other >= 0 && pick(r, 2) && pread(other, scratch, 4096, (off_t)(uintptr_t)at) < 0)
			atomic_fetch_add(&tally->signals, 1);
		else if (other >= 0 && pwrite(other, scratch, 64, (off_t)(uintptr_t)at) < 0)
			atomic_fetch_add(&tally->signals, 1);
		close(other);
		break;
	case 11: /* a system call that faults */
		other = open(pick(r, 2) ? "/dev/zero" : "/proc/self/maps", O_RDONLY);
		if (other >= 0 && read(other, at, PAGE) < 0)
			atomic_fetch_add(&tally->signals, 1);
		close(other);
		break;
	case 12: {
		struct pollfd p1 = { .fd = fd, .events = POLLIN };

		poll(&p1, 1, (int)pick(r, 2));
		break;
	}
	default:
		if (lseek(fd, (off_t)pick(r, 100), SEEK_SET) < 0 || read(fd, scratch, 8) < 0 || write(fd, scratch, 8) < 0)
			atomic_fetch_add(&tally->signals, 1);
	}
	atomic_fetch_add(&tally->others, 1);
}

static void child(struct fuzzer *f)
{
	unsigned int i;

	alarm(2);
	signal(SIGALRM, SIG_DFL);
	for (i = 0; i < 20; i++) {
		if (pick(&f->random, 2))
			do_ioctl(f);
		else
			do_touch(f);
	}
	_exit(0);
}

/* A context with a window of its own, mapped somewhere; its file. */
static int other_window(uint64_t *r)
{
	struct dsm_ioc_window w = { .size = 4 << 20 };
	int fd = open("/dev/dsm", O_RDWR);
	void *p;

	if (fd < 0 || ioctl(fd, DSM_IOC_WINDOW, &w))
		return fd;
	p = mmap((void *)(0x300000000000ul + ((unsigned long)pick(r, 64) << 30)), w.size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (p != MAP_FAILED && pick(r, 4) == 0)
		munmap(p, w.size);
	return fd;
}

static void do_file(struct fuzzer *f)
{
	uint64_t *r = &f->random;
	unsigned int i = 1 + pick(r, FILES - 1);
	pid_t pid;
	int fd;

	switch (pick(r, 4)) {
	case 0:
		fd = open("/dev/dsm", pick(r, 2) ? O_RDWR : O_RDONLY);
		fd = __atomic_exchange_n(&f->files[i], fd, __ATOMIC_RELAXED);
		if (fd >= 0)
			close(fd);
		break;
	case 1:
		fd = dup(f->files[pick(r, FILES)]);
		fd = __atomic_exchange_n(&f->files[i], fd, __ATOMIC_RELAXED);
		if (fd >= 0)
			close(fd);
		break;
	case 2:
		fd = __atomic_exchange_n(&f->files[i], other_window(r), __ATOMIC_RELAXED);
		if (fd >= 0)
			close(fd);
		break;
	default:
		if (pick(r, 4))
			return;
		pid = fork();
		if (!pid)
			child(f);
		atomic_fetch_add(&tally->forks, 1);
		if (pid > 0 && pick(r, 2)) {
			usleep(pick(r, 20000));
			kill(pid, SIGKILL);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	atomic_fetch_add(&tally->others, 1);
}

/* ---- processes ------------------------------------------------------------------------------ */

static void *fuzz_thread(void *arg)
{
	struct fuzzer *f = arg;

	while (!atomic_load(&f->job->stop)) {
		unsigned int what = pick(&f->random, 100);

		if (what < 50)
			do_ioctl(f);
		else if (what < 80)
			do_touch(f);
		else if (what < 93)
			do_memory(f);
		else
			do_file(f);
	}
	return NULL;
}

static void rank_process(struct job *j, unsigned int rank, uint64_t seed)
{
	static int files[FILES];
	static struct fuzzer f[THREADS];
	pthread_t threads[THREADS];
	unsigned int i;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	catch_signals();
	fd = job_join(j, rank);
	if (fd < 0)
		_exit(3);
	for (i = 0; i < FILES; i++)
		files[i] = i == 0 ? fd : i == 1 ? other_window(&seed) : -1;
	for (i = 0; i < THREADS; i++) {
		f[i] = (struct fuzzer){ .random = seed + rank * 64 + i, .job = j, .rank = rank, .files = files };
		pthread_create(&threads[i], NULL, fuzz_thread, &f[i]);
	}
	/* Threads may wait for ever, for what they asked was nonsense: the end is a kill, or this. */
	while (!atomic_load(&j->stop))
		usleep(10000);
	_exit(0);
}

static bool one_round(struct job *j, uint64_t seed, unsigned int number)
{
	uint64_t r = seed * 1000003 + number;
	pid_t pids[JOB_RANKS];
	unsigned int i, ranks = 1 + pick(&r, 3);
	double end;
	bool ok;

	job_set(j, ranks, pick(&r, 2));
	j->mode = pick(&r, 3);
	j->home = pick(&r, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
	j->order = pick(&r, 3) ? 0 : pick(&r, 10);
	fflush(stdout);
	for (i = 0; i < ranks; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i, next(&r));
	}
	end = now_s() + patience(30);
	while (atomic_load(&j->ready) < ranks && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	if (atomic_load(&j->ready) < ranks)
		printf("round %u: no job: %s\n", number, strerror(-atomic_load(&j->failed)));
	usleep(200000 + pick(&r, 800000));
	if (pick(&r, 2)) { /* some go on when others are gone */
		kill(pids[pick(&r, ranks)], SIGKILL);
		usleep(pick(&r, 500000));
	}
	if (pick(&r, 2))
		atomic_store(&j->stop, 1);
	usleep(pick(&r, 20000));
	for (i = 0; i < ranks; i++)
		kill(pids[i], SIGKILL);
	atomic_fetch_add(&tally->killed, ranks);
	atomic_store(&j->stop, 1);
	ok = job_reap(pids, ranks, 60);
	while (waitpid(-1, NULL, WNOHANG) > 0) /* children of theirs that this process has inherited */
		;
	return atomic_load(&j->ready) >= ranks && ok && nothing_left(20);
}

static void report(void)
{
	unsigned int i;

	printf("calls (succeeded/refused):");
	for (i = 0; i < IOCTLS; i++)
		printf(" %s %lu/%lu", calls[i].name, atomic_load(&tally->ok[i]), atomic_load(&tally->failed[i]));
	printf("\naccesses %lu, signals %lu, other system calls %lu, children %lu, processes killed %lu\n", atomic_load(&tally->touches),
	       atomic_load(&tally->signals), atomic_load(&tally->others), atomic_load(&tally->forks), atomic_load(&tally->killed));
}

int main(int argc, char **argv)
{
	uint64_t seed = 1;
	double seconds = 20, end;
	unsigned int round = 0, failed = 0;
	struct job *j;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
			seed = strtoull(argv[++i], NULL, 0);
		} else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) {
			seconds = atof(argv[++i]);
		} else {
			printf("usage: fuzz [--seed S] [--seconds S]\n"
			       "Nonsense for /dev/dsm; in a guest with dsm.ko loaded.\n");
			return strcmp(argv[i], "--help") ? 2 : 0;
		}
	}
	if (!module_loaded()) {
		fprintf(stderr, "fuzz: dsm.ko is not loaded\n");
		return 77;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* children of ranks that were killed */
	j = job_new();
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	end = now_s() + seconds;
	while (now_s() < end && !failed) {
		if (!one_round(j, seed, round)) {
			printf("round %u of seed %llu failed\n", round, (unsigned long long)seed);
			failed++;
		}
		round++;
	}
	printf("%u rounds of seed %llu\n", round, (unsigned long long)seed);
	report();
	return failed ? 1 : 0;
}

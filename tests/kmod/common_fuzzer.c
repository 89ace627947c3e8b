// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_fuzzer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/common_memory.h"

#define THREADS OUTCOME_THREADS
#define FILES 6u  /* file 0 is the rank's own */
#define BURST 64u /* calls between two other actions */

/* Shared by the threads of a process. */
static struct {
	struct fuzzer_shared *all;
	struct fuzzer_job *job;
	unsigned int number; /* of this process */
	int files[FILES];    /* -1: none */
	struct args_limits limits[FILES];
	struct aim aim;
	_Atomic unsigned int waiting; /* threads in calls that may wait for other threads */
	pthread_t threads[THREADS];
} self;

struct fuzzer {
	uint64_t random;
	unsigned int thread, nrecord;
};

/* ---- calls ---------------------------------------------------------------------------------- */

/* clang-format off */
static const uint8_t weights[] = {
	[VARIANT_INFO] = 3,          [VARIANT_WINDOW] = 2,        [VARIANT_PROTECT] = 6,
	[VARIANT_PROTECT_PAGE] = 6,
	[VARIANT_ATTACH] = 2,
	[VARIANT_JOIN] = 2,          [VARIANT_KEY] = 2,           [VARIANT_CONNECT] = 2,
	[VARIANT_REGION_FIRST] = 1,  [VARIANT_REGION_FIXED] = 1,  [VARIANT_REGION_PARTS] = 1,
	[VARIANT_REGION_CYCLIC] = 1,
	[VARIANT_CALL_SYNC] = 40,    [VARIANT_CALL_CAS] = 6,      [VARIANT_CALL_CREATE] = 2,
	[VARIANT_CREATE_SEM] = 1, [VARIANT_CREATE_ATOMIC] = 1, [VARIANT_BARRIER_0] = 4,
	[VARIANT_CALL_WAIT] = 4,     [VARIANT_CALL_LOCK] = 4,     [VARIANT_CALL_UNLOCK] = 14,
	[VARIANT_CALL_TRYLOCK] = 18,
	[VARIANT_CALL_BARRIER] = 4,  [VARIANT_CALL_CANCEL] = 4,   [VARIANT_RANGE_ACCESS] = 12,
	[VARIANT_RANGE_GIVE] = 10,   [VARIANT_RANGE_PIN] = 4,
	[VARIANT_RANGE_PLACE] = 3,   [VARIANT_RANGE_UNITS] = 3,   [VARIANT_STATS] = 1,
	[VARIANT_HOT] = 2,           [VARIANT_LOST] = 2,          [VARIANT_QUEUES] = 2,
};
/* clang-format on */
_Static_assert(sizeof(weights) == dsm_narguments, "each argument has a weight");

static unsigned int choose(uint64_t *r)
{
	unsigned int total = 0, i, w;

	for (i = 0; i < dsm_narguments; i++)
		total += weights[i];
	w = pick(r, total);
	for (i = 0; w >= weights[i]; i++)
		w -= weights[i];
	return i;
}

/* Note the limits of a file other than the rank's own. */
static void side_learn(unsigned int variant, unsigned int file, const void *arg)
{
	if (variant == VARIANT_WINDOW)
		self.limits[file].pages =
			(uint32_t)(((const struct dsm_ioc_window *)arg)->size / PAGE);
	if (variant == VARIANT_JOIN) {
		self.limits[file].ranks = ((const struct dsm_ioc_join *)arg)->size;
		self.limits[file].me = ((const struct dsm_ioc_join *)arg)->rank;
	}
}

static void do_call(struct fuzzer *f, unsigned int variant, unsigned int file, void *arg, void *at,
		    unsigned long cmd)
{
	const struct dsm_variant *v = &dsm_variants[variant];
	struct outcome *last =
		&self.all->outcomes->last[self.number][f->thread][f->nrecord++ % OUTCOME_RECORDS];
	const int fd = __atomic_load_n(&self.files[file], __ATOMIC_RELAXED);
	const bool waits = aim_waits(variant, arg);
	int err;

	*last = (struct outcome){ .variant = (uint8_t)variant,
				  .file = (uint8_t)file,
				  .under_way = 1 };
	memcpy(last->arg, arg, v->size < sizeof(last->arg) ? v->size : sizeof(last->arg));
	atomic_fetch_add(&self.waiting, waits);
	err = outcome_call(self.all->outcomes, last, variant, fd, cmd, at);
	atomic_fetch_sub(&self.waiting, waits);
	if (err || at != arg || cmd != v->cmd)
		return;
	if (file)
		side_learn(variant, file, arg);
	else
		aim_learn(&self.aim, variant, arg, &f->random);
}

static unsigned int open_file(uint64_t *r)
{
	unsigned int i = pick(r, FILES);

	return __atomic_load_n(&self.files[i], __ATOMIC_RELAXED) < 0 && pick(r, 20) ? 0 : i;
}

static void scramble(uint64_t *r, const struct dsm_variant *v, char *arg)
{
	unsigned int i;

	for (i = 0; i + 8 <= v->size && i < 128; i += 8) {
		uint64_t n = pick(r, 3) ? aim_odd_number(r) : next(r);

		memcpy(arg + i, &n, 8);
	}
}

/* A repeated set-up call on the rank's own context always fails, or ends the rank. */
static bool sets_up(unsigned int variant)
{
	switch (variant) {
	case VARIANT_WINDOW:
	case VARIANT_ATTACH:
	case VARIANT_JOIN:
	case VARIANT_KEY:
	case VARIANT_CONNECT:
	case VARIANT_RANGE_UNITS: return true;
	default: return false;
	}
}

/*
 * CONNECT again to a peer that is connected: the context must not change, whether the call fails
 * with EINVAL (a wrong address) or EEXIST (the right one).
 */
static void connect_again(struct fuzzer *f)
{
	const struct job *j = &self.job->job;
	struct dsm_ioc_connect c = { 0 };
	unsigned int peer = pick(&f->random, j->ranks);

	if (!j->rdma || j->ranks < 2 || peer == self.limits[0].me)
		return;
	aim_connect(j, &f->random, peer, &c);
	if (ioctl(__atomic_load_n(&self.files[0], __ATOMIC_RELAXED), DSM_IOC_CONNECT, &c) &&
	    (errno == EINVAL || errno == EEXIST))
		atomic_fetch_add(&self.all->outcomes->addresses[errno == EEXIST], 1);
}

static void do_ioctl(struct fuzzer *f)
{
	static __thread char arg[sizeof(struct dsm_ioc_stats)] __attribute__((aligned(8)));
	uint64_t *r = &f->random;
	unsigned int variant = choose(r), file = pick(r, 8) ? 0 : open_file(r);
	const struct dsm_variant *v = &dsm_variants[variant];
	unsigned long cmd = v->cmd;
	void *at;
	bool agreed; /* ranks whose regions of one name differ take each other for liars */

	if (!file && sets_up(variant) && pick(r, self.job->calm)) {
		connect_again(f);
		variant = VARIANT_CALL_SYNC, v = &dsm_variants[variant], cmd = v->cmd;
	}
	if (variant == VARIANT_PROTECT || variant == VARIANT_PROTECT_PAGE)
		file = 1;
	agreed = !file && v->cmd == DSM_IOC_REGION && pick(r, self.job->calm);
	memset(arg, 0, v->size);
	args_fill(v, &self.limits[file], arg, r);
	if (agreed || pick(r, 50))
		aim_at(&self.aim, r, variant, arg);
	if (!agreed && pick(r, 5) < 2)
		aim_aside(r, v, &self.limits[file], arg);
	else if (!agreed && !pick(r, 50))
		scramble(r, v, arg);
	aim_tame(variant, arg);
	/* Keep some threads out of waits, so that they can end the waits of others. */
	if (aim_waits(variant, arg) && atomic_load(&self.waiting) + 2 >= THREADS && pick(r, 200))
		return;
	at = pick(r, 100) ? args_pass(v, arg) : (void *)(uintptr_t)memory_address(r);
	if (!pick(r, 400))
		cmd = next(r);
	do_call(f, variant, file, arg, at, cmd);
}

/* ---- other contexts of a process ------------------------------------------------------------ */

static void put_file(unsigned int i, int fd)
{
	int old = __atomic_exchange_n(&self.files[i], fd, __ATOMIC_RELAXED);

	self.limits[i] = (struct args_limits){ .pages = 0 };
	if (old >= 0)
		close(old);
}

static void step(struct fuzzer *f, unsigned int variant, unsigned int file, void *arg)
{
	const struct dsm_variant *v = &dsm_variants[variant];

	if (!pick(&f->random, 12))
		aim_aside(&f->random, v, &self.limits[file], arg);
	aim_tame(variant, arg);
	do_call(f, variant, file, arg, arg, v->cmd);
}

/*
 * Join as another rank, or as the same rank again, in this job or the other one, which may belong
 * to another user. Each step may use a wrong argument.
 */
static void side_rank(struct fuzzer *f, unsigned int file)
{
	uint64_t *r = &f->random;
	struct job *j = &self.all->jobs[pick(r, FUZZER_JOBS)].job;
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	struct dsm_ioc_join in = { .size = (uint16_t)(pick(r, 3) ? j->ranks : FUZZER_RANKS),
				   .spin_us = 10,
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)memory_scratch,
				   .vectors = { -1, -1, -1, -1 } };
	struct dsm_ioc_region g = { .pages = 512,
				    .home = pick(r, 2),
				    .id = (uint16_t)pick(r, 4),
				    .page = pick(r, 4) * 512 };
	const bool rdma = !pick(r, j->rdma ? 4 : 8);
	struct dsm_ioc_key key = j->key;
	unsigned int peer;

	in.rank = (uint16_t)pick(r, in.size ? in.size : 1);
	if (!rdma)
		strcpy(in.device, "none");
	else if (pick(r, 4))
		/* with the job's key, this would be a second rank with the same number */
		key.key[0] ^= (uint8_t)(1 + pick(r, 255));
	step(f, VARIANT_WINDOW, file, &w);
	step(f, VARIANT_JOIN, file, &in);
	step(f, VARIANT_KEY, file, &key);
	for (peer = 0; peer < in.size && peer < FUZZER_RANKS; peer++) {
		struct dsm_ioc_connect c = { .rank = (uint16_t)peer, .flags = DSM_CONNECT_HERE };

		if (rdma) {
			aim_connect(j, r, peer, &c);
			c.flags = 0;
		}
		step(f, VARIANT_CONNECT, file, &c);
	}
	step(f, g.home == DSM_REGION_CYCLIC ? VARIANT_REGION_CYCLIC : VARIANT_REGION_FIRST, file,
	     &g);
}

/* Create a context with its own window, and map it. */
static void side_window(struct fuzzer *f, unsigned int file)
{
	struct dsm_ioc_window w = { .size = 4 << 20 };
	void *p;

	step(f, VARIANT_WINDOW, file, &w);
	p = mmap((void *)(0x300000000000ul + ((unsigned long)pick(&f->random, 64) << 30)), 4 << 20,
		 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, self.files[file], 0);
	if (p != MAP_FAILED && !pick(&f->random, 4))
		munmap(p, 4 << 20);
}

/*
 * Attach another view to a context of this process, mostly that of its rank; then the file acts for
 * that rank, too.
 */
static void side_view(struct fuzzer *f, unsigned int file)
{
	const unsigned int of = pick(&f->random, 3) ? 0 : pick(&f->random, FILES);
	struct dsm_ioc_attach a = { .fd = self.files[of] };

	step(f, VARIANT_ATTACH, file, &a);
	self.limits[file] = self.limits[of];
}

/* A child, which may join the node as another process. */
static void child(struct fuzzer *f)
{
	unsigned int i;

	alarm(2);
	signal(SIGALRM, SIG_DFL);
	if (pick(&f->random, 2)) {
		put_file(2, open("/dev/dsm", O_RDWR));
		side_view(f, 2);
		mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		     self.files[2], 0);
		put_file(0, dup(self.files[2]));
		self.limits[0] = self.limits[2];
	}
	for (i = 0; i < 20; i++) {
		if (pick(&f->random, 2))
			do_ioctl(f);
		else
			touch(JOB_BASE + pick(&f->random, JOB_WINDOW), pick(&f->random, 2));
	}
	_exit(0);
}

static void do_fork(struct fuzzer *f)
{
	pid_t pid = fork();

	if (!pid)
		child(f);
	atomic_fetch_add(&self.all->outcomes->forks, 1);
	if (pid > 0 && pick(&f->random, 2)) {
		usleep(pick(&f->random, 20000));
		kill(pid, SIGKILL);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void do_file(struct fuzzer *f)
{
	uint64_t *r = &f->random;
	unsigned int i = 1 + pick(r, FILES - 1);

	atomic_fetch_add(&self.all->outcomes->others, 1);
	switch (pick(r, 14)) {
	case 0: put_file(i, open("/dev/dsm", pick(r, 2) ? O_RDWR : O_RDONLY)); break;
	case 1: put_file(i, dup(self.files[pick(r, FILES)])); break;
	case 2:
	case 3:
	case 4:
		put_file(1, open("/dev/dsm", O_RDWR));
		side_window(f, 1);
		break;
	case 5: do_fork(f); break;
	case 6:
	case 7:
		put_file(i, open("/dev/dsm", O_RDWR));
		side_view(f, i);
		break;
	default: put_file(i, open("/dev/dsm", O_RDWR)); side_rank(f, i);
	}
}

static void do_touch(struct fuzzer *f)
{
	unsigned int i, n = 1 + pick(&f->random, 8);
	volatile char *p = JOB_BASE +
		(pick(&f->random, 2) ? pick(&f->random, 16) * PAGE : pick(&f->random, JOB_WINDOW));

	atomic_fetch_add(&self.waiting, 1);
	for (i = 0; i < n; i++)
		if (touch(p, pick(&f->random, 2)))
			atomic_fetch_add(&self.all->outcomes->signals, 1);
	atomic_fetch_sub(&self.waiting, 1);
	atomic_fetch_add(&self.all->outcomes->accesses, n);
}

/* ---- processes ------------------------------------------------------------------------------ */

static void nothing(int sig)
{
	(void)sig;
}

/* Make objects of each kind for all ranks. */
static void make_objects(unsigned int rank)
{
	uint64_t random = rank;
	unsigned int kind, i;

	for (i = 0; i < 4; i++)
		for (kind = 1; kind <= DSM_SYNC_KIND_MAX; kind++) {
			struct dsm_ioc_call c = { .home = (uint16_t)rank,
						  .value2 = (uint64_t)kind << 32 };

			if (!ioctl(self.files[0], DSM_IOC_CALL, &c))
				aim_learn(&self.aim, VARIANT_CALL_CREATE, &c, &random);
		}
}

static void *fuzz_thread(void *arg)
{
	struct fuzzer *f = arg;
	uint64_t *r = &f->random;

	while (!atomic_load(&self.all->go)) /* the job cannot begin until all ranks have joined */
		usleep(1000);
	while (!atomic_load(&self.job->job.stop)) {
		unsigned int n = pick(r, BURST);

		while (n--)
			do_ioctl(f);
		do_touch(f);
		if (!pick(r, 4)) {
			memory_call(r, self.files[pick(r, FILES)]);
			atomic_fetch_add(&self.all->outcomes->others, 1);
		}
		if (!pick(r, 8)) /* interrupt a wait */
			pthread_kill(self.threads[pick(r, THREADS)], SIGUSR1);
		if (!pick(r, 64))
			do_file(f);
	}
	return NULL;
}

static void begin(int fd, unsigned int rank)
{
	struct fuzzer_job *job = self.job;
	struct fuzzer_job *jobs = self.all->jobs;
	unsigned int i;

	for (i = 0; i < FILES; i++)
		self.files[i] = i ? -1 : fd;
	self.limits[0] = (struct args_limits){ .pages = JOB_PAGES,
					       .ranks = (uint16_t)job->job.ranks,
					       .me = (uint16_t)rank };
	self.aim = (struct aim){ .job = &job->job,
				 .keys = { &jobs[0].job.key, &jobs[1].job.key },
				 .calm = job->calm,
				 .objects = job->objects };
	make_objects(rank);
}

void fuzzer_rank(struct fuzzer_shared *all, struct fuzzer_job *job, unsigned int number,
		 unsigned int rank, uint64_t seed)
{
	static struct fuzzer f[THREADS];
	unsigned int i;
	int fd;

	self.all = all;
	self.job = job;
	self.number = number;
	if (job->uid && setuid(job->uid))
		_exit(4);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGUSR1, nothing);
	catch_signals();
	fd = job_join(&job->job, rank);
	if (fd < 0)
		_exit(3);
	begin(fd, rank);
	for (i = 0; i < THREADS; i++) {
		f[i] = (struct fuzzer){ .random = seed + i, .thread = i };
		/* a valid thread to signal until the others exist */
		self.threads[i] = pthread_self();
	}
	put_file(1, open("/dev/dsm", O_RDWR));
	side_window(&f[0], 1);
	for (i = 0; i < THREADS; i++)
		pthread_create(&self.threads[i], NULL, fuzz_thread, &f[i]);
	/*
	 * Threads may wait forever, because their calls made no sense. Only a kill or this exit
	 * ends them.
	 */
	while (!atomic_load(&job->job.stop))
		usleep(10000);
	_exit(0);
}

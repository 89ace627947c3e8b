// SPDX-License-Identifier: BSD-2-Clause
/*
 * hot.c - DSM_IOC_HOT reports blocks that change ranks. Two ranks of one guest store to blocks in
 * turn, in an order that the test imposes: the home of each block must have counted every change of
 * its write permission, and nothing else. Two jobs run at a time, with different numbers; neither
 * sees those of the other. In one kernel and by RDMA, with blocks of one page and of four.
 *
 * Also checked: a refused call changes nothing; another process of the node sees the same numbers;
 * a forgotten range begins at 0.
 *
 * Runs in a guest with the module loaded and an RDMA device.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS 2u
#define RANKS 2u

static struct turns {
	struct job job;
	_Atomic unsigned int done; /* steps that are done */
	unsigned int times;        /* how often the hottest block changes ranks */
} * turns;

static struct {
	struct turns *t;
	int fd;
	unsigned int me, steps; /* steps that this rank has reached */
} self;

static void fail(const char *what)
{
	printf("FAILED: job of %u, rank %u: %s\n", self.t->times, self.me, what);
	fflush(stdout);
	atomic_store(&self.t->job.failed, 1);
	_exit(1);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		fail(what);
}

/*
 * If the next step is rank's: wait until all earlier steps are done, and return true. Other ranks
 * return at once.
 */
static bool my_turn(unsigned int rank)
{
	const unsigned int before = self.steps++;

	if (rank != self.me)
		return false;
	must(reached(&self.t->done, before), "the other rank does not do its step");
	return true;
}

static void step_done(void)
{
	atomic_fetch_add(&self.t->done, 1);
}

static void all_steps_done(void)
{
	must(reached(&self.t->done, self.steps), "the other rank does not do its steps");
}

/* ---- accesses ------------------------------------------------------------------------------- */

/* Use the last byte of a block: the counters are by the block's first page. */
static volatile char *byte_of(uint32_t page)
{
	return JOB_BASE + ((page + (1ul << self.t->job.order)) * PAGE - 1);
}

/* Only store: a load would first get a copy, which may move the ownership. */
static void store(unsigned int rank, uint32_t page)
{
	if (!my_turn(rank))
		return;
	*byte_of(page) = (char)self.steps;
	step_done();
}

static void load(unsigned int rank, uint32_t page)
{
	if (!my_turn(rank))
		return;
	(void)*byte_of(page);
	step_done();
}

/* The home touches the block first; then the block changes ranks `times` times. */
static void pass_around(unsigned int home, uint32_t page, unsigned int times)
{
	unsigned int i;

	for (i = 0; i <= times; i++)
		store((home + i) % 2, page);
}

static void range(unsigned int op)
{
	struct dsm_ioc_range r = { .op = op, .page = 2 * DSM_UNIT_PAGES, .pages = DSM_UNIT_PAGES };
	const double end = now_s() + patience(20);
	int err;

	do {
		err = ioctl(self.fd, DSM_IOC_RANGE, &r) ? errno : 0;
		usleep(err ? 1000 : 0);
	} while (op == DSM_RANGE_QUIET && err == EAGAIN && now_s() < end);
	must(!err, "a range is given back and forgotten");
}

/* Both ranks do this, one after the other, in step. */
static void both(unsigned int op)
{
	unsigned int r;

	for (r = 0; r < RANKS; r++)
		if (my_turn(r)) {
			range(op);
			step_done();
		}
	all_steps_done();
}

/* ---- counters ------------------------------------------------------------------------------- */

static uint32_t transfers[DSM_UNIT_PAGES];

/* Returns 0 or errno; *page is set to the first page with counters. */
static int hot(int fd, uint32_t *page)
{
	struct dsm_ioc_hot h = { .page = *page, .transfers = (uintptr_t)transfers };
	int err;

	memset(transfers, 0xff, sizeof(transfers));
	err = ioctl(fd, DSM_IOC_HOT, &h) ? errno : 0;
	*page = h.page;
	return err;
}

/* There are no counters from `page` on; the call then leaves its argument unchanged. */
static void none_from(uint32_t page)
{
	uint32_t at = page;

	must(hot(self.fd, &at) == ENOENT && at == page && transfers[0] == ~0u,
	     "nothing from here on");
}

struct expected {
	uint32_t page, times;
};

/* From `from` on, the first unit with counters is at `page`, and has exactly these counters. */
static void counted(int fd, uint32_t from, uint32_t page, const struct expected *e, unsigned int n)
{
	uint32_t at = from, i, k, sum = 0;
	char what[120];

	must(!hot(fd, &at), "there are counters");
	snprintf(what, sizeof(what), "counters from page %u on are those of %u, not %u", from, page,
		 at);
	must(at == page, what);
	for (i = 0; i < n; i++) {
		snprintf(what, sizeof(what), "page %u changed ranks %u times, counted were %u",
			 e[i].page, e[i].times, transfers[e[i].page - page]);
		must(transfers[e[i].page - page] == e[i].times, what);
	}
	for (k = 0; k < DSM_UNIT_PAGES; k++)
		sum += transfers[k] != 0;
	must(sum == n, "other pages have no counter");
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refused(int fd, struct dsm_ioc_hot h, int wanted, const char *what)
{
	const struct dsm_ioc_hot before = h;
	char line[120];
	int err = ioctl(fd, DSM_IOC_HOT, &h) ? errno : 0;

	snprintf(line, sizeof(line), "%s: %s, which should be: %s", what, strerror(err),
		 strerror(wanted));
	must(err == wanted, line);
	must(!memcmp(&h, &before, sizeof(h)), "a refused call writes nothing");
}

static void refusals(void)
{
	const uint64_t to = (uintptr_t)transfers;
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	int fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	char *edge =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(fd >= 0 && edge != MAP_FAILED && !munmap(edge + PAGE, PAGE), "a file and a page");
	refused(self.fd, (struct dsm_ioc_hot){ .page = 1, .transfers = to }, EINVAL,
		"no first page");
	refused(self.fd, (struct dsm_ioc_hot){ .page = JOB_PAGES, .transfers = to }, EINVAL,
		"behind the window");
	refused(self.fd, (struct dsm_ioc_hot){ .page = ~0u << 9, .transfers = to }, EINVAL,
		"far behind it");
	refused(self.fd, (struct dsm_ioc_hot){ .reserved = 1, .transfers = to }, EINVAL,
		"reserved");
	refused(self.fd, (struct dsm_ioc_hot){ .transfers = 0 }, EFAULT, "no room");
	refused(self.fd, (struct dsm_ioc_hot){ .transfers = (uintptr_t)edge + PAGE - 1024 }, EFAULT,
		"half the room");
	refused(self.fd, (struct dsm_ioc_hot){ .transfers = ~0ull << 47 }, EFAULT,
		"the kernel's memory");
	refused(fd, (struct dsm_ioc_hot){ .transfers = to }, ENOTCONN, "a file without a window");
	must(!ioctl(fd, DSM_IOC_WINDOW, &w), "a window");
	refused(fd, (struct dsm_ioc_hot){ .transfers = to }, ENOTCONN, "a context without a job");
	close(fd);
	munmap(edge, PAGE);
}

/*
 * A forked child may not use the file. A process that has attached to the context may, and sees the
 * same counters.
 */
static void other_process(const struct expected *e, unsigned int n)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		refused(self.fd, (struct dsm_ioc_hot){ .transfers = (uintptr_t)transfers }, ENXIO,
			"another's file");
		fd = job_attach(&self.t->job, self.fd);
		must(fd >= 0, "a process attaches");
		counted(fd, 0, 0, e, n);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "another process of the node");
}

/* ---- a job ---------------------------------------------------------------------------------- */

static void rank(struct turns *t, unsigned int me)
{
	const uint32_t block = 1u << t->job.order;
	const uint32_t other = 2 * DSM_UNIT_PAGES, last = 3 * DSM_UNIT_PAGES; /* blocks of home 0 */
	/* Expected counters by home. All other accesses below count nothing. */
	const struct expected first[RANKS][2] = { { { 0, t->times }, { 4 * block, 1 } },
						  { { block, 7 }, { 7 * block, 3 } } };
	const struct expected second[RANKS] = { { other, 5 }, { other + block, 2 } };
	unsigned int i;

	self.t = t;
	self.me = me;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self.fd = job_join(&t->job, me);
	must(self.fd >= 0, "the ranks join");
	none_from(0);
	pass_around(0, 0, t->times);
	pass_around(1, block, 7);
	for (i = 0; i < 9; i++) /* read copies only: the write permission stays */
		load(i % 2, 2 * block);
	for (i = 0; i < 9; i++) /* rank 1 only */
		store(1, 3 * block);
	/* Rank 1 reads, then writes: one change. */
	store(0, 4 * block);
	load(1, 4 * block);
	store(1, 4 * block);
	/* First touched by the rank that is not the home. */
	for (i = 0; i < 4; i++)
		store(i % 2, 7 * block);
	pass_around(0, other, 5);
	pass_around(1, other + block, 2);
	for (i = 0; i < 9; i++)
		store(0, last);
	all_steps_done();

	counted(self.fd, 0, 0, first[me], 2);
	counted(self.fd, DSM_UNIT_PAGES, other, &second[me], 1);
	counted(self.fd, other, other, &second[me], 1);
	none_from(last);
	refusals();
	other_process(first[me], 2);
	/* Reading does not reset the counters. */
	pass_around(0, other, 2);
	all_steps_done();
	counted(self.fd, other, other, &(struct expected){ other + me * block, me ? 2 : 8 }, 1);

	both(DSM_RANGE_LEAVE);
	both(DSM_RANGE_QUIET);
	both(DSM_RANGE_FORGET);
	none_from(DSM_UNIT_PAGES);
	counted(self.fd, 0, 0, first[me], 2);
	/* The range is used again; counters begin at 0. */
	pass_around(0, other, 1);
	all_steps_done();
	if (me)
		none_from(DSM_UNIT_PAGES);
	else
		counted(self.fd, DSM_UNIT_PAGES, other, &(struct expected){ other, 1 }, 1);
	_exit(0);
}

static bool jobs(bool rdma, unsigned int order)
{
	pid_t pids[JOBS * RANKS];
	unsigned int i;
	bool ok = true;
	int status;

	memset(turns, 0, JOBS * sizeof(*turns));
	for (i = 0; i < JOBS; i++) {
		job_set(&turns[i].job, RANKS, rdma);
		turns[i].job.home = DSM_REGION_CYCLIC;
		turns[i].job.order = order;
		turns[i].times = i ? 11 : 40;
	}
	fflush(stdout);
	for (i = 0; i < JOBS * RANKS; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank(&turns[i / RANKS], i % RANKS);
	}
	for (i = 0; i < JOBS * RANKS; i++) {
		waitpid(pids[i], &status, 0);
		ok &= !status;
	}
	ok &= nothing_left(20);
	printf("%s, blocks of %u pages: %s\n", rdma ? "RDMA" : "one kernel", 1u << order,
	       ok ? "ok" : "FAILED");
	return ok;
}

int main(void)
{
	static const unsigned int orders[] = { 0, 2 };
	bool ok = true;
	unsigned int i;

	module_needed();
	turns = shared_memory(JOBS * sizeof(*turns));
	for (i = 0; i < 4 && ok; i++)
		ok = jobs(i / 2, orders[i % 2]);
	printf("transfers of blocks: %s\n", ok ? "ok" : "FAILED");
	return ok ? 0 : 1;
}

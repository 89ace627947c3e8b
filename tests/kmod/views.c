// SPDX-License-Identifier: BSD-2-Clause
/*
 * views.c - several processes of one context: all have the same access to a page, and lose it
 * together.
 *
 *   refused   the arguments that ATTACH and mmap(2) refuse
 *   shared    two processes without a job: words, and protections that either of them changes
 *   faults    two processes are rank 0 of a job, a third is rank 1: a block that one of the two has
 *             fetched costs the other no request, and when rank 1 writes neither sees the old word
 *   regions   a process accesses regions that it has added; when the last process removes one, the
 *             context loses it
 *   maker     the process that has made the window exits; the others continue
 *   killed    one of the two is killed, while it waits for a lock, runs a handler that has
 *             interrupted such a wait, or uses blocks that rank 1 takes; the other continues, and
 *             rank 1 gets the lock that came for the handler's thread
 *   unload    the module cannot be unloaded while one of the two is left
 *
 * After each nothing may be left.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/sync.h"
#include "tests/kmod/common.h"

#define ROUNDS 60u
#define PAGES 4u
#define NOBODY 12345u
/*
 * The hold time. Two processes that write to one block make progress only if each keeps the block
 * until it has repeated its access. If no page table lock is free (test_fail_trylock), the access
 * faults twice: only the second fault makes the entry.
 */
#define HOLD_US 1000u

static struct shared {
	struct job job;
	_Atomic unsigned int turn;
	_Atomic uint32_t name; /* of the mutex */
	_Atomic bool handled;  /* the victim runs a handler */
} * sh;

/* ---- processes in turns --------------------------------------------------------------------- */

static void fail(const char *what)
{
	printf("FAILED: %s\n", what);
	fflush(stdout);
	atomic_store(&sh->job.failed, 1);
	_exit(1);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		fail(what);
}

/* Wait for one's turn; a process that has failed ends the others. */
static void await(unsigned int turn)
{
	double end = now_s() + patience(60);

	while (atomic_load(&sh->turn) < turn) {
		if (atomic_load(&sh->job.failed))
			_exit(1);
		must(now_s() < end, "a process has not had its turn");
		usleep(200);
	}
}

static void pass(unsigned int turn)
{
	atomic_store(&sh->turn, turn);
}

static void begin(unsigned int ranks)
{
	memset(sh, 0, sizeof(*sh));
	job_set(&sh->job, ranks, false);
	sh->job.home = DSM_REGION_CYCLIC;
	sh->job.hold_us = HOLD_US;
	fflush(stdout);
}

static pid_t start(void (*f)(int fd), int fd)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		f(fd);
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

/*
 * Have all processes ended with status 0, and left nothing? The wait is bounded: if one fails, its
 * rank may be gone, and another may wait for a block of that rank forever.
 */
static bool ended(const pid_t *pids, unsigned int n)
{
	int statuses[2] = { -1, -1 };
	bool ok = job_statuses(pids, n, statuses, 70);
	unsigned int i;

	for (i = 0; i < n; i++)
		ok &= statuses[i] == 0;
	return nothing_left(20) && ok;
}

static volatile uint64_t *word(unsigned int page)
{
	return (volatile uint64_t *)(JOB_BASE + page * PAGE);
}

static bool may(unsigned int page, bool write)
{
	return !touch((volatile char *)word(page) + 64, write);
}

/* ---- refused -------------------------------------------------------------------------------- */

static int attach(int fd, int of)
{
	struct dsm_ioc_attach a = { .fd = of };

	return ioctl(fd, DSM_IOC_ATTACH, &a) ? errno : 0;
}

static int device(void)
{
	int fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);

	must(fd >= 0, "/dev/dsm");
	return fd;
}

static void stranger(int of)
{
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	int fd;

	/*
	 * To lock any amount of memory, and to do everything in a user namespace of one's own, is
	 * no privilege here.
	 */
	must(!setrlimit(RLIMIT_MEMLOCK, &none), "setrlimit");
	must(!setgid(NOBODY) && !setuid(NOBODY), "another user");
	fd = device();
	must(attach(fd, of) == EACCES, "another user's context is refused");
	must(!unshare(CLONE_NEWUSER) && attach(fd, of) == EACCES, "also in a user namespace");
}

static void refused(int none)
{
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	int first = device(), second = device(), third = device(), null = open("/dev/null", O_RDWR);
	pid_t pid;
	int status;

	(void)none;
	must(attach(second, null) == ENXIO && attach(second, 987) == EBADF,
	     "another file, and none");
	must(attach(second, third) == ENXIO && attach(second, second) == ENXIO,
	     "a file without a window");
	must(!ioctl(first, DSM_IOC_WINDOW, &w) && !attach(second, first), "a view of a window");
	must(attach(second, first) == EBUSY && attach(first, second) == EBUSY &&
		     attach(first, first) == EBUSY,
	     "to attach twice");
	must(ioctl(second, DSM_IOC_WINDOW, &w) && errno == EBUSY, "a window of a view");
	must(!attach(third, second), "a view of a view's window");
	must(mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
		  first, 0) != MAP_FAILED,
	     "the window's mapping");
	must(mmap(JOB_BASE + (1ul << 40), JOB_WINDOW, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_FIXED_NOREPLACE, second, 0) == MAP_FAILED &&
		     errno == EINVAL,
	     "another address is refused");
	must(!chmod("/dev/dsm", 0666), "chmod");
	pid = start(stranger, first);
	must(waitpid(pid, &status, 0) == pid && !status, "another user");
	must(!chmod("/dev/dsm", 0660), "chmod");
}

/* ---- shared --------------------------------------------------------------------------------- */

static void protect(int fd, unsigned int page, unsigned int prot)
{
	struct dsm_prot_item item = { page, prot };
	struct dsm_ioc_protect p = { .items = (uintptr_t)&item, .count = 1 };

	if (prot == DSM_PROT_READ)
		must(!ioctl(fd, DSM_IOC_PROTECT_PAGE, dsm_page_item(page, prot)), "PROTECT_PAGE");
	else
		must(!ioctl(fd, DSM_IOC_PROTECT, &p), "PROTECT");
}

static void shared_other(int of)
{
	int fd = job_attach(NULL, of);

	close(of);
	must(fd >= 0, "the other attaches");
	must(!may(0, false), "nothing is open");
	pass(1);
	await(2);
	must(*word(0) == 7, "the other sees the word");
	*word(0) = 8;
	pass(3);
	await(4);
	must(!may(0, true) && may(0, false) && *word(0) == 8, "the other may only read");
	protect(fd, 0, DSM_PROT_NONE);
	pass(5);
	await(6);
	must(may(0, true) && *word(0) == 8, "the other may write again");
}

static void shared_maker(int none)
{
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	int fd = device(), status;
	pid_t other;

	(void)none;
	must(!ioctl(fd, DSM_IOC_WINDOW, &w) &&
		     mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != MAP_FAILED,
	     "the window");
	other = start(shared_other, fd);
	await(1);
	protect(fd, 0, DSM_PROT_WRITE);
	*word(0) = 7;
	pass(2);
	await(3);
	must(*word(0) == 8, "the maker sees the word");
	protect(fd, 0, DSM_PROT_READ);
	must(!may(0, true) && may(0, false), "the maker may only read");
	pass(4);
	await(5);
	must(!may(0, false), "what the other closes is closed here");
	protect(fd, 0, DSM_PROT_WRITE);
	pass(6);
	must(waitpid(other, &status, 0) == other && !status, "the other");
	must(may(0, true) && counter("views") == 1, "the maker goes on alone");
}

/* ---- faults --------------------------------------------------------------------------------- */

static uint64_t requests(int fd)
{
	struct dsm_ioc_stats s = { .region = 0 };

	must(!ioctl(fd, DSM_IOC_STATS, &s), "STATS");
	return s.read_faults + s.write_faults + s.upgrades;
}

/*
 * Turns 4i + 1 .. 4i + 4 of round i are those of rank 1, of the maker, of the other, of the maker.
 */
static void writer(int none)
{
	unsigned int i;
	int fd = job_join(&sh->job, 1);

	(void)none;
	must(fd >= 0, "rank 1 joins");
	for (i = 0; i < ROUNDS; i++) {
		await(4 * i + 1);
		*word(i % PAGES) = i + 1;
		pass(4 * i + 2);
	}
	await(4 * i + 1);
}

static void faults_other(int of)
{
	int fd = job_attach(&sh->job, of);
	unsigned int i;

	close(of);
	must(fd >= 0, "the other attaches");
	pass(1);
	for (i = 0; i < ROUNDS; i++) {
		uint64_t before;

		await(4 * i + 3);
		before = requests(fd);
		must(*word(i % PAGES) == i + 1, "the other sees rank 1's word");
		must(requests(fd) == before, "a block that is here costs no request");
		*word(i % PAGES) = 1000 + i;
		/* None where its home has come here, and granted more than was asked for. */
		must(requests(fd) - before <= 1 && (i >= PAGES || requests(fd) - before == 1),
		     "to write costs one");
		pass(4 * i + 4);
	}
}

static void faults_maker(int none)
{
	int fd = job_join(&sh->job, 0), status;
	unsigned int i;
	pid_t other;

	(void)none;
	must(fd >= 0, "rank 0 joins");
	other = start(faults_other, fd);
	for (i = 0; i < ROUNDS; i++) {
		uint64_t before;

		await(4 * i + 2);
		before = requests(fd);
		must(*word(i % PAGES) == i + 1, "the maker sees rank 1's word");
		must(requests(fd) == before + 1, "to read costs one request");
		pass(4 * i + 3);
		await(4 * i + 4);
		before = requests(fd);
		*word(i % PAGES) += 1;
		must(*word(i % PAGES) == 1001 + i && requests(fd) == before,
		     "to write what the other may write costs none");
		pass(4 * i + 5);
	}
	must(waitpid(other, &status, 0) == other && !status, "the other");
}

/* ---- regions -------------------------------------------------------------------------------- */

/* As a debugger reads it. */
static bool may_be_read_by_force(unsigned int page)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	uint64_t w;
	bool is = pread(fd, &w, sizeof(w), (off_t)word(page)) == sizeof(w);

	close(fd);
	return is;
}

static void regions_other(int of)
{
	struct dsm_ioc_region g = { .pages = JOB_PAGES, .home = DSM_REGION_FIRST_TOUCH };
	int fd = job_attach(NULL, of);

	close(of);
	must(fd >= 0, "the other attaches");
	must(!may(0, false) && !may_be_read_by_force(0),
	     "a region that this process has not added");
	g.op = DSM_REGION_REMOVE;
	must(ioctl(fd, DSM_IOC_REGION, &g) && errno == ENOENT, "to remove it");
	g.op = DSM_REGION_ADD;
	must(ioctl(fd, DSM_IOC_REGION, &g) && errno == EEXIST, "to add it with other homes");
	must(!job_region(&sh->job, fd, DSM_REGION_ADD), "to add it");
	must(job_region(&sh->job, fd, DSM_REGION_ADD) && errno == EEXIST, "to add it twice");
	must(may(0, true) && *word(0) == 9 && may_be_read_by_force(0),
	     "a region that this process has added");
	pass(1);
	await(2);
	must(may(0, true) && *word(0) == 9, "the other still has it");
	*word(0) = 10;
	must(!job_region(&sh->job, fd, DSM_REGION_REMOVE) && !may(0, false), "the last removes it");
	pass(3);
}

static void regions_maker(int none)
{
	int fd = job_join(&sh->job, 0), status;
	pid_t other;

	(void)none;
	must(fd >= 0, "rank 0 joins");
	*word(0) = 9;
	other = start(regions_other, fd);
	await(1);
	must(*word(0) == 9 && !job_region(&sh->job, fd, DSM_REGION_REMOVE), "the first removes it");
	must(!may(0, false) && !may(0, true), "what a process has removed it cannot touch");
	pass(2);
	await(3);
	must(!may(0, false) && !job_region(&sh->job, fd, DSM_REGION_ADD),
	     "it is gone, and may be added again");
	must(waitpid(other, &status, 0) == other && !status, "the other");
	must(*word(0) == 10, "what was in it");
}

/* ---- maker ---------------------------------------------------------------------------------- */

static void heir(int of)
{
	int fd = job_attach(&sh->job, of);
	unsigned int i;

	close(of);
	must(fd >= 0, "the heir attaches");
	pass(1);
	await(2); /* the maker has gone */
	usleep(50000);
	for (i = 0; i < 20; i++) {
		pass(3 + 2 * i);
		await(4 + 2 * i);
		must(*word(i % PAGES) == i + 1, "the heir sees rank 1's word");
		*word(i % PAGES) = 0;
	}
	pass(3 + 2 * i); /* the blocks that rank 1 has would go with it */
}

static void maker(int none)
{
	int fd = job_join(&sh->job, 0);

	(void)none;
	must(fd >= 0, "rank 0 joins");
	*word(0) = 5;
	prctl(PR_SET_PDEATHSIG, 0);
	if (!fork())
		heir(fd), _exit(0);
	await(1);
}

static void maker_writer(int none)
{
	int fd = job_join(&sh->job, 1);
	unsigned int i;

	(void)none;
	must(fd >= 0, "rank 1 joins");
	for (i = 0; i < 20; i++) {
		await(3 + 2 * i);
		*word(i % PAGES) = i + 1;
		pass(4 + 2 * i);
	}
	await(3 + 2 * i);
}

static bool run_maker(void)
{
	int status = -1;
	pid_t pids[2];

	begin(2);
	pids[0] = start(maker, -1);
	pids[1] = start(maker_writer, -1);
	job_statuses(pids, 1, &status, 70);
	pass(2);
	return ended(&pids[1], 1) && !status && !atomic_load(&sh->job.failed);
}

/* ---- killed --------------------------------------------------------------------------------- */

static bool call(int fd, struct dsm_ioc_call *c)
{
	return !ioctl(fd, DSM_IOC_CALL, c) && !c->status;
}

static void stays(int sig)
{
	(void)sig;
	atomic_store(&sh->handled, true);
	for (;;)
		pause();
}

static void victim(int of)
{
	struct sigaction sa = { .sa_handler = stays };
	struct dsm_ioc_call c = { .call = DSM_CALL_LOCK, .object = atomic_load(&sh->name) };
	int fd = job_attach(&sh->job, of);

	close(of);
	must(fd >= 0, "the victim attaches");
	sigaction(SIGUSR1, &sa, NULL);
	pass(1);
	if (c.object)
		call(fd, &c);
	else
		for (;;)
			*word(0) += 1, *word(1) += 1;
	fail("the victim was not to come so far");
}

/* What came to the victim, too late. */
static bool gets_mutex(int fd)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_TRYLOCK, .object = atomic_load(&sh->name) };
	double end = now_s() + patience(5);
	bool got;

	while (!(got = call(fd, &c)) && now_s() < end) {
		c = (struct dsm_ioc_call){ .call = DSM_CALL_TRYLOCK,
					   .object = atomic_load(&sh->name) };
		usleep(1000);
	}
	return got;
}

static void taker(int none)
{
	int fd = job_join(&sh->job, 1);

	(void)none;
	must(fd >= 0, "rank 1 joins");
	while (!atomic_load(&sh->job.stop) && !atomic_load(&sh->job.failed)) {
		*word(1) += 1;
		*word(2) += 1;
	}
	must(!atomic_load(&sh->handled) || gets_mutex(fd),
	     "what came to a killed thread's handler is given back");
	pass(2); /* it asks rank 0 for nothing any more */
}

enum place { IN_LOCK, IN_HANDLER, IN_FAULT };

static void kill_victim(pid_t pid, enum place place)
{
	double end = now_s() + patience(20);
	int status;

	usleep((useconds_t)(patience(0.2) * 1e6));
	if (place == IN_HANDLER)
		kill(pid, SIGUSR1);
	while (place == IN_HANDLER && !atomic_load(&sh->handled) && now_s() < end)
		usleep(1000);
	must(place != IN_HANDLER || atomic_load(&sh->handled), "the victim runs a handler");
	kill(pid, SIGKILL);
	must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "the victim is killed");
}

static void survivor(enum place place)
{
	const bool lock = place != IN_FAULT;
	struct dsm_ioc_call made = { .value2 = (uint64_t)SYNC_MUTEX << 32 },
			    held = { .call = DSM_CALL_LOCK };
	int fd = job_join(&sh->job, 0);
	uint64_t seen = 0;
	unsigned int i;
	double end;
	pid_t pid;

	must(fd >= 0, "rank 0 joins");
	if (lock) {
		must(call(fd, &made), "a mutex");
		held.object = (uint32_t)made.result;
		must(call(fd, &held), "the mutex is had");
		atomic_store(&sh->name, held.object);
	}
	pid = start(victim, fd);
	await(1);
	kill_victim(pid, place);
	held = (struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = held.hold };
	must(!lock || call(fd, &held), "the mutex is given");
	end = now_s() + patience(20);
	/*
	 * Blocks come and go as before. Until now the victim may have kept rank 1 from its first
	 * round.
	 */
	for (i = 0; i < 20 || (!seen && now_s() < end); i++) {
		must(*word(2) >= seen, "a word goes back");
		seen = *word(2);
		*word(0) += 1;
		*word(1) += 1;
		usleep(1000);
	}
	must(seen, "rank 1 writes");
	atomic_store(&sh->job.stop, 1);
	await(2);
}

static void survivor_lock(int none)
{
	(void)none;
	survivor(IN_LOCK);
}

static void survivor_handler(int none)
{
	(void)none;
	survivor(IN_HANDLER);
}

static void survivor_fault(int none)
{
	(void)none;
	survivor(IN_FAULT);
}

/* ---- unload --------------------------------------------------------------------------------- */

static void unloader(int of)
{
	int fd = job_attach(&sh->job, of);

	must(fd >= 0, "the other attaches");
	close(of);
	pass(1);
	await(2);
	must(syscall(SYS_delete_module, "dsm", O_NONBLOCK) && errno == EWOULDBLOCK,
	     "a module in use stays");
	must(may(0, true), "the other goes on");
}

static void unload(int none)
{
	int fd = job_join(&sh->job, 0);

	(void)none;
	must(fd >= 0, "rank 0 joins");
	prctl(PR_SET_PDEATHSIG, 0);
	if (!fork())
		unloader(fd), _exit(0);
	await(1);
}

static bool run_unload(void)
{
	int status = -1;
	pid_t pid;

	begin(1);
	pid = start(unload, -1);
	job_statuses(&pid, 1, &status, 70);
	pass(2);
	return nothing_left(20) && !status && !atomic_load(&sh->job.failed);
}

/* ---- the test ------------------------------------------------------------------------------- */

static bool run(void (*first)(int), void (*second)(int), unsigned int ranks)
{
	pid_t pids[2];

	begin(ranks);
	pids[0] = start(first, -1);
	if (second)
		pids[1] = start(second, -1);
	return ended(pids, second ? 2 : 1);
}

static bool row(const char *name, bool ok)
{
	printf("%s: %s\n", name, ok ? "ok" : "FAILED");
	return ok;
}

int main(void)
{
	bool ok;

	module_needed();
	sh = shared_memory(sizeof(*sh));
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	catch_signals();
	/* A failed row ends the test: what it leaves would fail the next row, too. */
	ok = row("refused", run(refused, NULL, 1)) && row("shared", run(shared_maker, NULL, 1)) &&
		row("faults", run(faults_maker, writer, 2)) &&
		row("regions", run(regions_maker, NULL, 1)) && row("maker", run_maker()) &&
		row("killed in a lock", run(survivor_lock, taker, 2)) &&
		row("killed in a handler", run(survivor_handler, taker, 2)) &&
		row("killed in a fault", run(survivor_fault, taker, 2)) &&
		row("unload", run_unload());
	return ok ? 0 : 1;
}

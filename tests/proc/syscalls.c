// SPDX-License-Identifier: BSD-2-Clause
/*
 * syscalls.c - shared memory and the rest of the system: system calls on pinned ranges, children of fork(), system()
 * and popen(), a signal handler that touches shared memory; and with --die the message of an access to nowhere.
 */
#include "common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (64 * 4096ul)

static uint64_t die, no_handler;
static char *shared;
static uint64_t *ticks;

static void fill(char *at, int seed)
{
	size_t i;

	for (i = 0; i < SIZE; i++)
		at[i] = (char)(seed + i / 7);
}

static void check(const char *at, int seed, const char *what)
{
	size_t i;

	for (i = 0; i < SIZE; i++)
		REQUIRE(at[i] == (char)(seed + i / 7), "%s: byte %zu is %d", what, i, at[i]);
}

static bool in_kernel(void)
{
	const char *backend = getenv("DSM_BACKEND");

	return !access("/dev/dsm", F_OK) && (!backend || strcmp(backend, "user"));
}

/* Through a file, in pieces that the kernel likes. */
static void move_all(int fd, char *at, bool out)
{
	size_t done = 0;

	REQUIRE(lseek(fd, 0, SEEK_SET) == 0, "lseek: %m");
	while (done < SIZE) {
		ssize_t n = out ? write(fd, at + done, SIZE - done) : read(fd, at + done, SIZE - done);

		REQUIRE(n > 0, "%s of a pinned range: %m", out ? "write" : "read");
		done += (size_t)n;
	}
}

static void part_read_write(void)
{
	char name[] = "/tmp/dsm-syscalls-XXXXXX";
	static char private[SIZE];
	int fd = mkstemp(name), r;

	REQUIRE(fd >= 0, "mkstemp: %m");
	unlink(name);
	for (r = 0; r < test_size; r++) {
		if (test_rank == (r + 1) % test_size)
			fill(shared, r);
		MUST(dsm_barrier());
		if (test_rank == r) {
			MUST(dsm_pin(shared, SIZE, DSM_READ));
			move_all(fd, shared, true);
			MUST(dsm_unpin(shared, SIZE));
			move_all(fd, private, false);
			check(private, r, "written to a file");
			fill(private, r + 50);
			move_all(fd, private, true);
			MUST(dsm_pin(shared, SIZE, DSM_WRITE));
			move_all(fd, shared, false);
			MUST(dsm_unpin(shared, SIZE));
		}
		MUST(dsm_barrier());
		check(shared, r + 50, "read from a file");
		MUST(dsm_barrier());
		/* Not pinned and not here: the kernel says so, and nothing is harmed. */
		if (test_rank == (r + 1) % test_size)
			fill(shared, r + 70);
		MUST(dsm_barrier());
		if (test_rank == r && test_size > 1) {
			const bool waits = in_kernel();
			ssize_t n = (lseek(fd, 0, SEEK_SET), read(fd, shared + SIZE / 2, 8));

			if (waits) /* its faults are the kernel's own: they are waited for */
				REQUIRE(n == 8, "read into a range that is not here: %zd, %m", n);
			else
				REQUIRE(n < 0 && errno == EFAULT, "read into a range that is not here: %zd, %m", n);
			if (n == 8)
				fill(shared, r + 70);
			MUST(dsm_acquire(shared, SIZE, DSM_READ));
			n = write(fd, shared, 4096); /* may have gone again: then it is not an accident, but EFAULT */
			REQUIRE(n == 4096 || errno == EFAULT, "write of an acquired range: %zd, %m", n);
		}
		MUST(dsm_barrier());
		check(shared, r + 70, "after EFAULT");
		MUST(dsm_barrier());
	}
	close(fd);
}

static void child(void)
{
	dsm_mutex_t m = { 0 };
	uint64_t v = 0;
	dsm_region_t *r;
	void *p;

	if (dsm_rank() != -ECHILD || dsm_size() != -ECHILD || dsm_barrier() != -ECHILD || dsm_mutex_init(&m) != -ECHILD ||
	    dsm_mutex_lock(&m) != -ECHILD || dsm_region_open("x", 1, NULL, &r) != -ECHILD || dsm_free(&v) != -ECHILD ||
	    dsm_reduce(&v, DSM_UINT64, DSM_SUM) != -ECHILD || dsm_prefetch(shared, 1, DSM_READ) != -ECHILD ||
	    dsm_finalize() != -ECHILD)
		_exit(2);
	p = dsm_malloc(10);
	if (p || errno != ENOMEM)
		_exit(3);
	p = malloc(1000); /* the private heap works */
	free(p);
}

static int status_of(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		REQUIRE(errno == EINTR, "waitpid: %m");
	return status;
}

static void part_fork(void)
{
	int status, i;
	pid_t pid;

	for (i = 0; i < 4; i++) {
		if (!test_rank)
			fill(shared, i);
		MUST(dsm_barrier());
		fflush(stdout);
		fflush(stderr);
		pid = fork();
		REQUIRE(pid >= 0, "fork: %m");
		if (!pid) {
			child();
			if (i == 1)
				exit(0); /* with what the library has for atexit() */
			if (i == 2) { /* the shared memory is not the child's */
				close(2);
				store((uint64_t *)shared, 1);
				_exit(4);
			}
			if (i == 3)
				dsm_finalize();
			_exit(0);
		}
		status = status_of(pid);
		if (i == 2)
			REQUIRE(test_size == 1 || (WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS)),
				"a child wrote to shared memory: status %#x", status);
		else
			REQUIRE(WIFEXITED(status) && !WEXITSTATUS(status), "child %d: status %#x", i, status);
		if (test_size > 1 || i != 2)
			check(shared, i, "after fork");
		MUST(dsm_barrier());
	}
}

static void part_commands(void)
{
	char line[64] = "";
	FILE *f;
	int i;

	for (i = 0; i < 3; i++) {
		REQUIRE(!system("true"), "system");
		f = popen("echo some words", "r");
		REQUIRE(f && fgets(line, sizeof(line), f) && !strcmp(line, "some words\n"), "popen: %s", line);
		REQUIRE(!pclose(f), "pclose: %m");
		store((uint64_t *)shared + test_rank, (uint64_t)i);
		MUST(dsm_barrier());
	}
}

static volatile sig_atomic_t rings;

static void on_alarm(int sig)
{
	(void)sig;
	__atomic_fetch_add(ticks, 1, __ATOMIC_SEQ_CST);
	ticks[8 + test_rank * 8]++;
	rings = rings + 1;
}

/* The handler interrupts private computation, which is what dsm(7) allows. */
static void part_handler(void)
{
	struct sigaction sa = { .sa_handler = on_alarm }, old;
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } }, off = { { 0, 0 }, { 0, 0 } };
	uint64_t start, all;
	volatile double x = 1;

	MUST(dsm_barrier());
	sigaction(SIGALRM, &sa, &old);
	setitimer(ITIMER_REAL, &every, NULL);
	for (start = test_ns(); rings < 150 && test_ns() - start < 30000000000u;)
		x = x * 1.0000001 + 1e-9;
	setitimer(ITIMER_REAL, &off, NULL);
	test_delay(100000);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	all = (uint64_t)rings;
	REQUIRE(all >= 150, "the handler ran only %lu times", all);
	REQUIRE(load(&ticks[8 + test_rank * 8]) == all, "own word: %lu of %lu", load(&ticks[8 + test_rank * 8]), all);
	MUST(dsm_reduce(&all, DSM_UINT64, DSM_SUM));
	REQUIRE(load(ticks) == all, "%lu of %lu increments by signal handlers", load(ticks), all);
	MUST(dsm_barrier());
}

/* Somewhere in the shared range, but in no region. */
static void nowhere(void)
{
	store((uint64_t *)(shared + (1ul << 32)), 1);
	FAIL("an access to nowhere went through");
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "die", NULL, "touch an address that is in no region: must end with a message", &die },
		{ "no-handler", NULL, "without the signal handler", &no_handler },
	};

	test_start(argc, argv, "Shared memory and system calls.", options, 2);
	shared = test_region("shared", SIZE, 8192, DSM_HOME_FIRST_TOUCH, 0);
	ticks = test_region("ticks", 8 * (8 + 8 * (size_t)test_size), 4096, DSM_HOME_CYCLIC, 0);
	if (die) {
		if (test_rank == test_size - 1)
			nowhere();
		MUST(dsm_barrier());
		FAIL("the others live on");
	}
	test_say("  read and write");
	part_read_write();
	test_say("  fork");
	part_fork();
	test_say("  commands");
	part_commands();
	if (!no_handler) {
		test_say("  signal handler");
		part_handler();
	}
	return test_end();
}

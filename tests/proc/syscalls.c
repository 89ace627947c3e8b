// SPDX-License-Identifier: BSD-2-Clause
/*
 * syscalls.c - shared memory and the rest of the system: system calls on pinned ranges (with the
 * kernel helper on any range), io_uring, futexes, debuggers, children of fork(), system() and
 * popen(), a signal handler that touches shared memory; and with --die the message of an invalid
 * access.
 */
#include "common.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
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

/* Read or write a file in pieces as large as the kernel allows. */
static void move_all(int fd, char *at, bool out)
{
	size_t done = 0;

	REQUIRE(lseek(fd, 0, SEEK_SET) == 0, "lseek: %m");
	while (done < SIZE) {
		ssize_t n =
			out ? write(fd, at + done, SIZE - done) : read(fd, at + done, SIZE - done);

		REQUIRE(n > 0, "%s of a pinned range: %m", out ? "write" : "read");
		done += (size_t)n;
	}
}

static void part_needs_pin(void)
{
	const bool needs = dsm_nodes() > 1 && !test_in_kernel();
	char private[16];

	REQUIRE(dsm_needs_pin(NULL, 5) == (needs ? 5 : 0), "a pin, in general: %zu",
		dsm_needs_pin(NULL, 5));
	REQUIRE(dsm_needs_pin(private, sizeof(private)) == 0, "private memory needs a pin");
	REQUIRE(dsm_needs_pin(shared, 100) == (needs ? 100 : 0), "shared memory: %zu",
		dsm_needs_pin(shared, 100));
	REQUIRE(dsm_needs_pin(shared + SIZE - 10, 100) == (needs ? 10 : 0), "at the end: %zu",
		dsm_needs_pin(shared + SIZE - 10, 100));
	REQUIRE(dsm_needs_pin(shared + SIZE, 100) == 0, "behind the end");
	REQUIRE(dsm_needs_pin(shared, 0) == 0, "nothing");
}

static void part_read_write(void)
{
	char name[] = "/tmp/dsm-syscalls-XXXXXX";
	static char private[SIZE];
	int fd = mkstemp(name), r;

	REQUIRE(fd >= 0, "mkstemp: %m");
	unlink(name);
	for (r = 0; r < test_size; r++) {
		const bool near = dsm_node_of(r) == dsm_node_of((r + 1) % test_size);

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
		/*
		 * The range is neither pinned nor here: the kernel must report that, without harm.
		 */
		if (test_rank == (r + 1) % test_size)
			fill(shared, r + 70);
		MUST(dsm_barrier());
		if (test_rank == r && dsm_nodes() > 1) {
			const bool waits = test_in_kernel();
			ssize_t n = (lseek(fd, 0, SEEK_SET), read(fd, shared + SIZE / 2, 8));

			if (waits) /* the module resolves faults of the kernel */
				REQUIRE(n == 8, "read into a range that is not here: %zd, %m", n);
			else
				REQUIRE((n < 0 && errno == EFAULT) || (near && n == 8),
					"read into a range that is not here: %zd, %m", n);
			if (n == 8)
				fill(shared, r + 70);
			MUST(dsm_acquire(shared, SIZE, DSM_READ));
			/* the block may be gone again: then the error must be EFAULT */
			n = write(fd, shared, 4096);
			REQUIRE(n == 4096 || errno == EFAULT, "write of an acquired range: %zd, %m",
				n);
		}
		MUST(dsm_barrier());
		check(shared, r + 70, "after EFAULT");
		MUST(dsm_barrier());
	}
	close(fd);
}

/*
 * Pin the block of `shared` that the next rank has written, unless the kernel itself can wait for
 * it.
 */
static void here(void *at, size_t size, int access)
{
	if (!test_in_kernel())
		MUST(dsm_pin(at, size, access));
}

static void gone(void *at, size_t size)
{
	if (!test_in_kernel())
		MUST(dsm_unpin(at, size));
}

/* ---- io_uring: one request at a time --------------------------------------------------------- */

struct ring {
	struct io_uring_params p;
	int fd;
	char *sq, *cq;
	struct io_uring_sqe *sqes;
};

static bool ring_open(struct ring *g)
{
	memset(g, 0, sizeof(*g));
	g->fd = (int)syscall(SYS_io_uring_setup, 4, &g->p);
	if (g->fd < 0)
		return false;
	g->sq = mmap(NULL, g->p.sq_off.array + g->p.sq_entries * 4, PROT_READ | PROT_WRITE,
		     MAP_SHARED, g->fd, IORING_OFF_SQ_RING);
	g->cq = mmap(NULL, g->p.cq_off.cqes + g->p.cq_entries * sizeof(struct io_uring_cqe),
		     PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, IORING_OFF_CQ_RING);
	g->sqes = mmap(NULL, g->p.sq_entries * sizeof(*g->sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
		       g->fd, IORING_OFF_SQES);
	REQUIRE(g->sq != MAP_FAILED && g->cq != MAP_FAILED && (void *)g->sqes != MAP_FAILED,
		"rings: %m");
	return true;
}

static uint32_t *at_ring(char *ring, uint32_t off)
{
	return (uint32_t *)(void *)(ring + off);
}

static int ring_do(struct ring *g, uint8_t op, int fd, void *data, uint32_t size)
{
	uint32_t tail = *at_ring(g->sq, g->p.sq_off.tail), head = *at_ring(g->cq, g->p.cq_off.head),
		 i;
	struct io_uring_cqe *done;

	i = tail & *at_ring(g->sq, g->p.sq_off.ring_mask);
	/* By a kernel worker, which is another thread. */
	g->sqes[i] = (struct io_uring_sqe){
		.opcode = op, .flags = IOSQE_ASYNC, .fd = fd, .addr = (uintptr_t)data, .len = size
	};
	at_ring(g->sq, g->p.sq_off.array)[i] = i;
	__atomic_store_n(at_ring(g->sq, g->p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	REQUIRE(syscall(SYS_io_uring_enter, g->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
		"io_uring_enter: %m");
	REQUIRE(__atomic_load_n(at_ring(g->cq, g->p.cq_off.tail), __ATOMIC_ACQUIRE) == head + 1,
		"no completion");
	done = &((struct io_uring_cqe *)(void *)(g->cq + g->p.cq_off.cqes))
		       [head & *at_ring(g->cq, g->p.cq_off.ring_mask)];
	__atomic_store_n(at_ring(g->cq, g->p.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return done->res;
}

static void part_ring(void)
{
	char name[] = "/tmp/dsm-ring-XXXXXX";
	struct ring g;
	int fd = mkstemp(name), r, n;

	REQUIRE(fd >= 0, "mkstemp: %m");
	unlink(name);
	if (!ring_open(&g)) {
		test_say("  (this machine has no io_uring: %s)", strerror(errno));
		return;
	}
	for (r = 0; r < test_size; r++) {
		if (test_rank == (r + 1) % test_size)
			fill(shared, r + 20);
		MUST(dsm_barrier());
		if (test_rank == r) {
			here(shared, SIZE, DSM_READ);
			n = ring_do(&g, IORING_OP_WRITE, fd, shared, SIZE);
			REQUIRE(n == (int)SIZE, "io_uring: written %d", n);
			gone(shared, SIZE);
		}
		MUST(dsm_barrier());
		if (test_rank == (r + 1) % test_size)
			fill(shared, r + 30);
		MUST(dsm_barrier());
		if (test_rank == r) {
			here(shared, SIZE, DSM_WRITE);
			n = ring_do(&g, IORING_OP_READ, fd, shared, SIZE);
			REQUIRE(n == (int)SIZE, "io_uring: read %d", n);
			gone(shared, SIZE);
		}
		MUST(dsm_barrier());
		check(shared, r + 20, "there and back by io_uring");
		MUST(dsm_barrier());
	}
	close(g.fd);
	close(fd);
}

/* ---- futexes, of the threads of one rank ----------------------------------------------------- */

static long futex(uint32_t *word, int op, uint32_t value)
{
	struct timespec long_time = { 60, 0 };

	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value,
		       op == FUTEX_WAIT ? &long_time : NULL, NULL, 0);
}

static void *wait_for_word(void *arg)
{
	uint32_t *word = arg;

	while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		if (futex(word, FUTEX_WAIT, 0) && errno == EFAULT)
			REQUIRE(!test_in_kernel(), "futex: %m");
	return NULL;
}

static void part_futex(void)
{
	uint32_t *word = (uint32_t *)(void *)shared;
	uint64_t start;
	pthread_t thread;
	int r, i;

	for (r = 0; r < test_size; r++) {
		for (i = 0; i < 5; i++) {
			if (test_rank == (r + 1) % test_size)
				__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
			MUST(dsm_barrier());
			if (test_rank == r) {
				if (test_in_kernel()) /* the word is at another rank */
					REQUIRE(futex(word, FUTEX_WAIT, 7) == -1 && errno == EAGAIN,
						"futex on a word elsewhere: %m");
				REQUIRE(!pthread_create(&thread, NULL, wait_for_word, word),
					"pthread_create");
				test_delay(20000);
				start = test_ns();
				__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
				REQUIRE(futex(word, FUTEX_WAKE, INT_MAX) >= 0, "futex: %m");
				pthread_join(thread, NULL);
				REQUIRE(test_ns() - start < 50000000000u,
					"the thread was not woken");
			}
			MUST(dsm_barrier());
		}
	}
}

static int status_of(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		REQUIRE(errno == EINTR, "waitpid: %m");
	return status;
}

/* ---- debuggers ------------------------------------------------------------------------------- */

/* A child reads its parent's memory, as a debugger does. */
static int trace_parent(long *word)
{
	pid_t parent = getppid();
	long seen;
	int status;

	if (ptrace(PTRACE_SEIZE, parent, NULL, NULL))
		return errno == EPERM || errno == ENOSYS ? 77 : 1;
	if (ptrace(PTRACE_INTERRUPT, parent, NULL, NULL) ||
	    waitpid(parent, &status, __WALL) != parent)
		return 2;
	errno = 0;
	seen = ptrace(PTRACE_PEEKDATA, parent, word, NULL);
	if (errno)
		return 3;
	if (ptrace(PTRACE_POKEDATA, parent, word, (void *)(seen + 1)))
		return 4;
	return ptrace(PTRACE_DETACH, parent, NULL, NULL) ? 5 : 0;
}

static void part_debugger(void)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), r, status;
	static char private[SIZE];
	long *word = (long *)(void *)shared;
	pid_t pid;

	REQUIRE(fd >= 0, "/proc/self/mem: %m");
	for (r = 0; r < test_size; r++) {
		if (test_rank == (r + 1) % test_size)
			fill(shared, r + 40);
		MUST(dsm_barrier());
		if (test_rank == r) {
			here(shared, SIZE, DSM_WRITE);
			REQUIRE(pread(fd, private, SIZE, (off_t)(uintptr_t)shared) == (ssize_t)SIZE,
				"/proc/self/mem: %m");
			check(private, r + 40, "as a debugger sees it");
			gone(shared, SIZE);
		}
		MUST(dsm_barrier());
		if (test_rank == (r + 1) % test_size)
			fill(shared, r + 50);
		MUST(dsm_barrier());
		if (test_rank == r) {
			here(shared, SIZE, DSM_WRITE);
			fill(private, r + 60);
			REQUIRE(pwrite(fd, private, SIZE, (off_t)(uintptr_t)shared) ==
					(ssize_t)SIZE,
				"/proc/self/mem: %m");
			gone(shared, SIZE);
		}
		MUST(dsm_barrier());
		check(shared, r + 60, "as a debugger wrote it");
		MUST(dsm_barrier());
		if (test_rank == (r + 1) % test_size)
			*word = 1000;
		MUST(dsm_barrier());
		if (test_rank == r) {
			here(shared, 4096, DSM_WRITE);
			pid = fork();
			REQUIRE(pid >= 0, "fork: %m");
			if (!pid)
				_exit(trace_parent(word));
			status = status_of(pid);
			if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
				test_say("  (this machine has no ptrace)");
				*word = 1001;
			} else {
				REQUIRE(!status, "ptrace: %#x", (unsigned int)status);
			}
			gone(shared, 4096);
		}
		MUST(dsm_barrier());
		REQUIRE(*word == 1001, "a debugger made it %ld", *word);
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

	if (dsm_rank() != -ECHILD || dsm_size() != -ECHILD || dsm_barrier() != -ECHILD ||
	    dsm_mutex_init(&m) != -ECHILD || dsm_mutex_lock(&m) != -ECHILD ||
	    dsm_region_open("x", 1, NULL, &r) != -ECHILD || dsm_free(&v) != -ECHILD ||
	    dsm_reduce(&v, DSM_UINT64, DSM_SUM) != -ECHILD ||
	    dsm_prefetch(shared, 1, DSM_READ) != -ECHILD || dsm_finalize() != -ECHILD)
		_exit(2);
	p = dsm_malloc(10);
	if (p || errno != ENOMEM)
		_exit(3);
	p = malloc(1000); /* the private heap works */
	free(p);
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
				exit(0); /* runs the library's atexit() handlers */
			if (i == 2) {    /* the child has no shared memory */
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
			REQUIRE(test_size == 1 ||
					(WIFSIGNALED(status) &&
					 (WTERMSIG(status) == SIGSEGV ||
					  WTERMSIG(status) == SIGBUS)),
				"a child wrote to shared memory: status %#x", status);
		else
			REQUIRE(WIFEXITED(status) && !WEXITSTATUS(status), "child %d: status %#x",
				i, status);
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
		REQUIRE(f && fgets(line, sizeof(line), f) && !strcmp(line, "some words\n"),
			"popen: %s", line);
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
	REQUIRE(load(&ticks[8 + test_rank * 8]) == all, "own word: %lu of %lu",
		load(&ticks[8 + test_rank * 8]), all);
	MUST(dsm_reduce(&all, DSM_UINT64, DSM_SUM));
	REQUIRE(load(ticks) == all, "%lu of %lu increments by signal handlers", load(ticks), all);
	MUST(dsm_barrier());
}

/* In the shared range, but in no region. */
static void nowhere(void)
{
	store((uint64_t *)(shared + (1ul << 32)), 1);
	FAIL("an access to nowhere went through");
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "die", NULL, "touch an address that is in no region: must end with a message",
		  &die },
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
	part_needs_pin();
	test_say("  read and write");
	part_read_write();
	test_say("  io_uring");
	part_ring();
	test_say("  futex");
	part_futex();
	if (!no_handler) {
		test_say("  debugger");
		part_debugger();
	}
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

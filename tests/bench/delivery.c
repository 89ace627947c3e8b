// SPDX-License-Identifier: BSD-2-Clause
/*
 * delivery.c - how a page fault best reaches the runtime, and what changing a page's protection
 * costs, on this machine.
 *
 * No libdsm inside: plain userfaultfd(2), signals and mprotect(2). The choice recorded in
 * docs/tuning.md (the faulting thread itself, by SIGBUS) rests on these rows. Output: one JSON
 * object a line.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define PAGE 4096ul
#define PAGES 2048
#define REPEATS 7

static char *area;
static int memfd, uffd = -1;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "delivery: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void report(const char *row, double *v)
{
	qsort(v, REPEATS, sizeof(*v), bench_by_value);
	printf("{\"row\": \"%s\", \"mode\": \"bare\", \"ranks\": 1, \"value\": %.3f, \"unit\": \"us\"}\n",
	       row, v[REPEATS / 2]);
	fflush(stdout);
}

static void punch(void)
{
	must(!fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * PAGE),
	     "fallocate");
}

static void open_uffd(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = features | UFFD_FEATURE_MISSING_SHMEM |
					  UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	struct uffdio_register reg = { .range = { (uint64_t)(uintptr_t)area, PAGES * PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING |
					       UFFDIO_REGISTER_MODE_WP };

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	must(uffd >= 0, "userfaultfd");
	must(!ioctl(uffd, UFFDIO_API, &api), "UFFDIO_API");
	must(!ioctl(uffd, UFFDIO_REGISTER, &reg), "UFFDIO_REGISTER");
}

static void zero(uint64_t addr)
{
	struct uffdio_zeropage z = { .range = { addr & ~(PAGE - 1), PAGE } };

	must(!ioctl(uffd, UFFDIO_ZEROPAGE, &z), "UFFDIO_ZEROPAGE");
}

static void protect(size_t page, size_t n, bool on)
{
	struct uffdio_writeprotect w = { .range = { (uint64_t)(uintptr_t)(area + page * PAGE),
						    n * PAGE },
					 .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0 };

	must(!ioctl(uffd, UFFDIO_WRITEPROTECT, &w), "UFFDIO_WRITEPROTECT");
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	zero((uint64_t)(uintptr_t)info->si_addr);
}

static void on_segv(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	must(!mprotect((void *)((uintptr_t)info->si_addr & ~(PAGE - 1)), PAGE,
		       PROT_READ | PROT_WRITE),
	     "mprotect");
}

static void catch (int sig, void (*fn)(int, siginfo_t *, void *))
{
	struct sigaction sa = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO };

	sigfillset(&sa.sa_mask);
	must(!sigaction(sig, &sa, NULL), "sigaction");
}

static void *handler_thread(void *arg)
{
	struct pollfd p = { .fd = uffd, .events = POLLIN };
	struct uffd_msg m;

	(void)arg;
	while (poll(&p, 1, -1) == 1 && !(p.revents & (POLLERR | POLLHUP)))
		if (read(uffd, &m, sizeof(m)) == sizeof(m) && m.event == UFFD_EVENT_PAGEFAULT)
			zero(m.arg.pagefault.address);
	return NULL;
}

static double touch_all(void)
{
	double start = bench_now_us();
	size_t i;

	for (i = 0; i < PAGES; i++)
		*(volatile char *)(area + i * PAGE) = 1;
	return (bench_now_us() - start) / PAGES;
}

static void row_touch(const char *name)
{
	double v[REPEATS];
	int r;

	for (r = 0; r < REPEATS; r++) {
		punch();
		v[r] = touch_all();
	}
	report(name, v);
}

static void rows_uffd_protection(void)
{
	double one[REPEATS], all[REPEATS], start;
	size_t i;
	int r;

	for (r = 0; r < REPEATS; r++) {
		touch_all();
		start = bench_now_us();
		for (i = 0; i < PAGES; i++)
			protect(i, 1, true);
		one[r] = (bench_now_us() - start) / PAGES;
		protect(0, PAGES, false);
		start = bench_now_us();
		protect(0, PAGES, true);
		all[r] = (bench_now_us() - start) / PAGES;
		protect(0, PAGES, false);
	}
	report("protection change, uffd write-protect, a page a call", one);
	report("protection change, uffd write-protect, all pages in one call", all);
}

static void rows_mprotect(void)
{
	double fault[REPEATS], one[REPEATS], all[REPEATS], start;
	size_t i;
	int r;

	catch (SIGSEGV, on_segv);
	for (r = 0; r < REPEATS; r++) {
		must(!mprotect(area, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
		touch_all();
		start = bench_now_us();
		for (i = 0; i < PAGES; i++)
			must(!mprotect(area + i * PAGE, PAGE, i & 1 ? PROT_READ : PROT_NONE),
			     "mprotect");
		one[r] = (bench_now_us() - start) / PAGES;
		must(!mprotect(area, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
		start = bench_now_us();
		must(!mprotect(area, PAGES * PAGE, PROT_NONE), "mprotect");
		all[r] = (bench_now_us() - start) / PAGES;
		fault[r] = touch_all();
	}
	report("fault delivery, SIGSEGV and mprotect", fault);
	report("protection change, mprotect, a page a call", one);
	report("protection change, mprotect, all pages in one call", all);
}

/* What it costs to take pages from another process, which sleeps or keeps its processor. */
static void row_close(const char *name, bool running)
{
	int to_child[2], from_child[2], r;
	double v[REPEATS], start;
	size_t i;
	pid_t child;
	char c = 0;

	must(!pipe(to_child) && !pipe2(from_child, O_CLOEXEC), "pipe");
	child = fork();
	must(child >= 0, "fork");
	if (!child) {
		while (read(to_child[0], &c, 1) == 1 && c != 'q') {
			must(!fcntl(to_child[0], F_SETFL, running ? O_NONBLOCK : 0), "fcntl");
			touch_all();
			must(write(from_child[1], &c, 1) == 1, "write");
			while (read(to_child[0], &c, 1) != 1) /* until the pages are gone */
				for (i = 0; i < 20000; i++)
					__asm__ volatile("" ::: "memory");
			must(!fcntl(to_child[0], F_SETFL, 0), "fcntl");
		}
		_exit(0);
	}
	for (r = 0; r < REPEATS; r++) {
		must(write(to_child[1], "t", 1) == 1 && read(from_child[0], &c, 1) == 1, "pipe");
		start = bench_now_us();
		for (i = 0; i < PAGES; i++)
			must(!fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					(off_t)(i * PAGE), PAGE),
			     "fallocate");
		v[r] = (bench_now_us() - start) / PAGES;
		must(write(to_child[1], "n", 1) == 1, "write");
	}
	must(write(to_child[1], "q", 1) == 1 && waitpid(child, NULL, 0) == child, "waitpid");
	close(to_child[0]), close(to_child[1]), close(from_child[0]), close(from_child[1]);
	report(name, v);
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc > 1) {
		bool help = !strcmp(argv[1], "--help");

		fprintf(help ? stdout : stderr,
			"usage: delivery\nCosts of fault delivery and protection changes, as JSON lines.\n");
		return help ? 0 : 2;
	}
	memfd = memfd_create("delivery", MFD_CLOEXEC);
	must(memfd >= 0 && !ftruncate(memfd, PAGES * PAGE), "memfd_create");
	area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	must(area != MAP_FAILED, "mmap");
	open_uffd(UFFD_FEATURE_SIGBUS);
	catch (SIGBUS, on_bus);
	row_touch("fault delivery, userfaultfd by SIGBUS on the faulting thread");
	rows_uffd_protection();
	close(uffd);
	open_uffd(0);
	must(!pthread_create(&t, NULL, handler_thread, NULL), "pthread_create");
	row_touch("fault delivery, userfaultfd by a handler thread");
	must(!pthread_cancel(t) && !pthread_join(t, NULL),
	     "pthread_join"); /* before the descriptor's number is used again */
	close(uffd);
	must(mmap(area, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd, 0) ==
		     area,
	     "mmap");
	rows_mprotect();
	must(!mprotect(area, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
	punch();
	row_close("closing a page of another process, which sleeps", false);
	row_close("closing a page of another process, which runs", true);
	return 0;
}

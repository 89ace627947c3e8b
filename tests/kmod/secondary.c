// SPDX-License-Identifier: BSD-2-Clause
/*
 * secondary.c - a virtual machine has memory of a region. Its translations are KVM's, which no
 * flush of a processor reaches; when a call or an answer to a peer says that access was taken away,
 * the machine has lost it, too:
 *
 *   protect    a call closes the page, to reading and altogether
 *   freed      the page's frame is freed, and the machine writes to the next one
 *   peer       a peer reads the page, and writes it, in turns with the machine
 *   removed    the machine's process removes the region, which another process of the node keeps
 *   another    the machine is in the other process of the node: what one lowers, the other loses
 *   ended      the machine's process ends while others take its pages
 *
 * stale --machine does the first with threads, all the time. Runs in a guest with KVM, as root,
 * with the module loaded.
 */
#include "tests/kmod/common.h"
#include "tests/kmod/common_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNIT 512u  /* pages of 2 MiB */
#define PAGES 256u /* of the region: of 2 MiB in one piece, KVM takes only the first page */

static int bad;
static bool control;
static unsigned int seen; /* signs of stale translations, for the control */
static struct {
	_Atomic unsigned int step;
} * both; /* of two processes */

static void expect(bool ok, const char *what)
{
	if (!ok) {
		bad++;
		printf("FAILED: %s (errno %d)\n", what, errno);
		fflush(stdout);
	}
}

/* What is wrong only with a stale translation. */
static void expect_none_stale(bool ok, const char *what)
{
	if (control)
		seen += !ok;
	else
		expect(ok, what);
}

static volatile uint32_t *word(unsigned int page)
{
	return (volatile uint32_t *)(JOB_BASE + page * PAGE);
}

static void next_step(unsigned int n)
{
	atomic_store(&both->step, n);
}

static void wait_for(unsigned int n)
{
	expect(reached(&both->step, n), "the other process goes on");
}

static int range(int fd, unsigned int op, unsigned int page, unsigned int pages)
{
	struct dsm_ioc_range r = { .op = op, .page = page, .pages = pages };

	return ioctl(fd, DSM_IOC_RANGE, &r) ? -errno : 0;
}

static int protect(int fd, unsigned int page, unsigned int prot)
{
	struct dsm_prot_item item = { .page = page, .prot = prot };
	struct dsm_ioc_protect p = { .items = (uintptr_t)&item, .count = 1 };

	if (prot == DSM_PROT_READ)
		return ioctl(fd, DSM_IOC_PROTECT_PAGE, dsm_page_item(page, prot)) ? -errno : 0;
	return ioctl(fd, DSM_IOC_PROTECT, &p) ? -errno : 0;
}

/* ---- one process ---------------------------------------------------------------------------- */

static void protected(struct job *j)
{
	const unsigned int lower[] = { DSM_PROT_READ, DSM_PROT_NONE };
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	int fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	struct machine m;
	unsigned int i;

	(void)j;
	expect(fd >= 0 && !ioctl(fd, DSM_IOC_WINDOW, &w) &&
		       mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != MAP_FAILED,
	       "a window");
	/* The machine is older than its memory, then younger. */
	for (i = 0; i < 4; i++) {
		if (i == 2) {
			machine_destroy(&m);
			expect(!protect(fd, 0, DSM_PROT_WRITE), "open");
		}
		if (i % 2 == 0)
			expect(machine_create(&m, JOB_BASE, 2), "a virtual machine");
		expect(!protect(fd, 0, DSM_PROT_WRITE), "open");
		*word(0) = 5;
		expect(machine_adds(&m, 0, 1) && *word(0) == 6,
		       "the machine writes to an open page");
		expect(!protect(fd, 0, lower[i % 2]), "close");
		expect_none_stale(!machine_adds(&m, 0, 1), "it is refused a closed page");
		expect(!protect(fd, 0, DSM_PROT_READ), "open for reading");
		expect_none_stale(*word(0) == 6, "a closed page does not change");
	}
	machine_destroy(&m);
}

/*
 * What the machine writes after the page was forgotten is in the new frame, not in the one that was
 * freed.
 */
static void freed(struct job *j)
{
	int fd = job_join(j, 0);
	struct machine m;

	expect(fd >= 0 && machine_create(&m, JOB_BASE, 1), "a rank with a virtual machine");
	*word(0) = 5;
	expect(machine_adds(&m, 0, 1) && *word(0) == 6, "the machine writes to the page");
	expect(!range(fd, DSM_RANGE_FORGET, 0, UNIT), "a range is forgotten");
	expect(machine_adds(&m, 0, 1) && *word(0) == 1, "it writes to the new frame");
}

/* ---- two ranks ------------------------------------------------------------------------------ */

#define TURNS 20u

/* The machine adds 1, the peer reads and adds 10, in turns. */
static void has_machine(struct job *j)
{
	struct machine m;
	unsigned int i;

	expect(job_join(j, 0) >= 0 && machine_create(&m, JOB_BASE, 1),
	       "a rank with a virtual machine");
	for (i = 0; i < TURNS && !bad; i++) {
		expect(machine_adds(&m, 0, 1), "the machine adds");
		next_step(4 * i + 1);
		wait_for(4 * i + 2);
		expect(machine_adds(&m, 0, 1), "the machine adds to what the peer has read");
		next_step(4 * i + 3);
		wait_for(4 * i + 4);
	}
}

static void is_peer(struct job *j)
{
	unsigned int i;

	expect(job_join(j, 1) >= 0, "a rank");
	for (i = 0; i < TURNS && !bad; i++) {
		wait_for(4 * i + 1);
		expect_none_stale(*word(0) == 12 * i + 1,
				  "the peer reads what the machine has written");
		next_step(4 * i + 2);
		wait_for(4 * i + 3);
		expect_none_stale(*word(0) == 12 * i + 2, "also after it has read the page before");
		*word(0) += 10;
		next_step(4 * i + 4);
	}
}

/* Its pages are taken while it ends, with a machine that has them. */
static void ends_with_machine(struct job *j)
{
	struct machine m;
	unsigned int i;

	expect(job_join(j, 0) >= 0 && machine_create(&m, JOB_BASE, MACHINE_PAGES),
	       "a rank with a virtual machine");
	for (i = 0; i < MACHINE_PAGES; i++)
		expect(machine_adds(&m, i * PAGE, 1), "the machine writes");
	next_step(1);
}

static void *takes(void *arg)
{
	unsigned int i;

	for (i = 0; i < MACHINE_PAGES; i++)
		if (!touch((volatile char *)word(i), true))
			expect(*(volatile unsigned char *)word(i) == 2,
			       "what the machine has written is there");
	return arg;
}

/* For so long as it does. Nobody answers for blocks of a rank that has left. */
static void takes_pages(struct job *j)
{
	pthread_t thread;

	expect(job_join(j, 1) >= 0, "a rank");
	catch_signals();
	wait_for(1);
	pthread_create(&thread, NULL, takes, NULL);
	usleep(300000);
}

/* ---- two processes of a node ---------------------------------------------------------------- */

static void removes(struct job *j)
{
	int fd = job_join(j, 0), status;
	struct machine m;

	expect(fd >= 0 && machine_create(&m, JOB_BASE, 1), "a rank with a virtual machine");
	fflush(stdout);
	if (!fork()) {
		expect(job_attach(j, fd) >= 0, "another process of the node");
		next_step(1);
		wait_for(2);
		expect_none_stale(*word(0) == 1, "who has removed the region writes no more");
		next_step(3);
		fflush(stdout);
		_exit(bad ? 1 : seen ? 2 : 0);
	}
	wait_for(1);
	expect(machine_adds(&m, 0, 1) && *word(0) == 1, "the machine writes to the page");
	expect(!job_region(j, fd, DSM_REGION_REMOVE), "the region is removed");
	expect_none_stale(!machine_adds(&m, 0, 1), "the machine is refused it");
	next_step(2);
	wait_for(3);
	wait(&status);
	expect(!status || (control && WEXITSTATUS(status) == 2), "the other process");
}

/*
 * The peer takes the page from a node, the machine is in the process that does not handle messages.
 */
static void two_views(struct job *j)
{
	int fd = job_join(j, 0);
	struct machine m;
	unsigned int i;

	expect(fd >= 0, "a rank");
	fflush(stdout);
	if (!fork()) {
		expect(job_attach(j, fd) >= 0 && machine_create(&m, JOB_BASE, 1),
		       "another process with a machine");
		for (i = 0; i < TURNS && !bad; i++) {
			expect(machine_adds(&m, 0, 1), "the machine adds");
			next_step(2 * i + 1);
			wait_for(2 * i + 2);
		}
		fflush(stdout);
		_exit(bad ? 1 : 0);
	}
	wait(&bad);
}

static void is_peer_of_two(struct job *j)
{
	unsigned int i;

	expect(job_join(j, 1) >= 0, "a rank");
	for (i = 0; i < TURNS && !bad; i++) {
		wait_for(2 * i + 1);
		expect_none_stale(*word(0) == 11 * i + 1,
				  "the peer reads what the machine has written");
		*word(0) += 10;
		next_step(2 * i + 2);
	}
}

/* ---- the test ------------------------------------------------------------------------------- */

/* A case. With the control, it must show a stale translation if it can. */
static void go(struct job *j, const char *name, unsigned int n, void (*const ranks[])(struct job *),
	       bool shows)
{
	pid_t pids[2];
	int statuses[2] = { 0, 0 };
	unsigned int i, stale = 0;

	atomic_store(&both->step, 0);
	job_set(j, n, false);
	j->pages = PAGES;
	fflush(stdout);
	for (i = 0; i < n; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			bad = 0;
			alarm((unsigned int)patience(60));
			ranks[i](j);
			fflush(stdout);
			_exit(bad ? 1 : seen ? 2 : 0);
		}
	}
	expect(job_statuses(pids, n, statuses, 60), name);
	for (i = 0; i < n; i++) {
		stale += WIFEXITED(statuses[i]) && WEXITSTATUS(statuses[i]) == 2;
		bad += statuses[i] != 0;
	}
	if (control)
		bad -= (int)stale;
	if (bad)
		printf("%s: status %#x, %#x\n", name, statuses[0], statuses[1]);
	expect(!control || !shows || stale, name);
	expect(nothing_left(20), "nothing is left");
}

int main(int argc, char **argv)
{
	static void (*const ranks[][2])(struct job *) = { { protected },
							  { removes },
							  { has_machine, is_peer },
							  { two_views, is_peer_of_two },
							  { freed },
							  { ends_with_machine, takes_pages } };
	static const char *const names[] = { "protect", "removed", "peer",
					     "another", "freed",   "ended" };
	struct job *j;
	unsigned int i;
	int kvm;

	control = argc > 1 && !strcmp(argv[1], "--control");
	if (argc > 1 && !control) {
		printf("usage: secondary [--control]\n"
		       "No translation of a virtual machine outlives the access of its process; in a guest with dsm.ko and KVM.\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (!module_loaded() || kvm < 0) {
		fprintf(stderr, "secondary: this test needs dsm.ko and KVM\n");
		return 77;
	}
	close(kvm);
	j = job_new();
	both = shared_memory(PAGE);
	for (i = 0; i < 14; i++) {
		const unsigned int at = i < 5 ? i : 5;

		go(j, names[at], ranks[at][1] ? 2 : 1, ranks[at], at < 4);
	}
	printf("%d failed, %lld notified\n", bad, counter("lowerings_notified"));
	return bad ? 1 : 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * stale.c - no translation outlives the call that took the access away.
 *
 * Several threads write to the same pages all the time. Others open pages of theirs and close them
 * again; once the call that closes has returned, nobody's word in them may change until they are
 * opened. Where changes of one page cross, one of them finds an entry that another has lowered but
 * not yet flushed:
 *
 *   faults     a thread that was allowed to write when it faulted makes the entry after the page
 *              was closed, and so lowers it
 *   lowerers   threads that only take access away, from anybody's pages
 *   --apart    those who write, and the lowerers, are another process, which is attached to the
 *              context of this one
 *   --machine  one more that writes is a virtual machine, whose translations are KVM's
 *   --moves    the window is moved by mremap(2), which is refused half-way: entries leave their
 *              place and come back
 *   --hotplug  processors go and come; those that go have acknowledged, but not yet gone on
 *              (test_hold_cpu)
 *
 * Runs in a guest with two processors or more (--machine: one) and the module loaded, which is
 * asked to be slow, by chance, between a check of the protection and the entry (test_slow_entry).
 * With test_fail_trylock, when workers and faults make all entries, most changes cross. With
 * test_no_remote_flush a word must change (--control), or with test_lose_notify and --machine: this
 * depends on timing, so the test waits for it.
 */
#include "tests/kmod/common.h"
#include "tests/kmod/common_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 3u
#define CLOSERS 2u
#define LOWERERS 2u
#define MACHINE (WRITERS + CLOSERS)
#define WORDS (MACHINE + 1u) /* threads that write */
#define OWNED 2u             /* pages per closer, all in 2 MiB, and so under one lock */
#define ELSEWHERE (JOB_BASE + (1ul << 40))
#define STUCK_S 60    /* longer than any call takes on a busy host */
#define ROUNDS 100u   /* per closer, at least */
#define PATIENCE_S 60 /* wait this long for events that depend on chance */

static int dev;
static bool moving, hotplug, control, apart, with_machine;

static struct shared {
	atomic_bool stop;
	_Atomic unsigned long rounds[CLOSERS], wrong, faults, lowered, moves, switches, left,
		refused, added;
} * sh;

static volatile uint64_t *word(unsigned int page, unsigned int writer)
{
	return (volatile uint64_t *)(JOB_BASE + page * PAGE) + writer;
}

enum way { PROCESS, SOFTIRQ, SINGLY, WAYS };

static void protect(const unsigned int *pages, unsigned int n, unsigned int prot, enum way way)
{
	struct dsm_prot_item items[OWNED];
	struct dsm_ioc_protect p = { .items = (uintptr_t)items,
				     .count = n,
				     .flags = way == SOFTIRQ ? DSM_PROTECT_SOFTIRQ : 0 };
	unsigned int i;
	bool ok = true;

	for (i = 0; i < n; i++)
		items[i] = (struct dsm_prot_item){ pages[i], prot };
	if (way != SINGLY)
		ok = !ioctl(dev, DSM_IOC_PROTECT, &p);
	for (i = 0; way == SINGLY && i < n; i++)
		ok &= !ioctl(dev, DSM_IOC_PROTECT_PAGE, dsm_page_item(pages[i], prot));
	if (!ok)
		atomic_fetch_add(&sh->refused, 1);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Write to a page until it is closed, at most n times. Returns whether it was closed. */
static bool store(unsigned int page, unsigned int me, unsigned int n)
{
	volatile uint64_t *at = word(page, me);
	volatile unsigned int times = n;

	if (sigsetjmp(away, 0)) {
		away_set = false;
		atomic_fetch_add(&sh->faults, 1);
		return true;
	}
	for (away_set = true; times; times--)
		++*at;
	away_set = false;
	return false;
}

static void *writer(void *arg)
{
	const unsigned int me = (unsigned int)(uintptr_t)arg;
	uint64_t random = me;

	/* A thread that is refused sleeps, to leave the processor to writers. */
	while (!atomic_load(&sh->stop))
		if (store(pick(&random, CLOSERS * OWNED), me, 1 + pick(&random, 200000)))
			usleep(pick(&random, 500));
	return NULL;
}

static void *machine_writer(void *arg)
{
	uint64_t random = 4000;
	struct machine m;

	if (!machine_create(&m, JOB_BASE, 1))
		exit(2);
	while (!atomic_load(&sh->stop)) {
		/* To page 0: of 2 MiB in one piece, KVM takes only the first page. */
		if (machine_adds(&m, MACHINE * sizeof(uint64_t), 1 + pick(&random, 20000)))
			atomic_fetch_add(&sh->added, 1);
		else
			usleep(pick(&random, 500));
	}
	machine_destroy(&m);
	return arg;
}

static void pause_for(unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		__asm__ volatile("pause");
}

/*
 * Check that no thread, including this one, can write to closed pages. They are open for reading.
 */
static void look(const unsigned int *pages, unsigned int n, unsigned int me, unsigned int patient)
{
	uint64_t seen[OWNED][WORDS];
	unsigned int i, w;

	for (i = 0; i < n; i++)
		for (w = 0; w < WORDS; w++)
			seen[i][w] = *word(pages[i], w);
	pause_for(patient);
	for (i = 0; i < n; i++)
		store(pages[i], me, 1);
	for (i = 0; i < n; i++)
		for (w = 0; w < WORDS; w++)
			if (*word(pages[i], w) != seen[i][w])
				atomic_fetch_add(&sh->wrong, 1);
}

static void *closer(void *arg)
{
	const unsigned int closer = (unsigned int)(uintptr_t)arg, me = WRITERS + closer;
	uint64_t random = 1000 + me;
	unsigned int pages[OWNED], i;

	while (!atomic_load(&sh->stop)) {
		unsigned int n = 1 + pick(&random, OWNED), from = pick(&random, OWNED);
		enum way way = pick(&random, WAYS);

		for (i = 0; i < n; i++)
			pages[i] = closer * OWNED + (from + i) % OWNED;
		protect(pages, n, DSM_PROT_WRITE, way);
		for (i = 0; i < n; i++)
			store(pages[i], me, 1);
		pause_for(pick(&random, 2) ? pick(&random, 300) : pick(&random, 20000));
		/* Close first to DSM_PROT_NONE, or directly to DSM_PROT_READ. */
		if (pick(&random, 4) == 0)
			protect(pages, n, DSM_PROT_NONE, way);
		protect(pages, n, DSM_PROT_READ, way);
		look(pages, n, me, 500 + pick(&random, 2000));
		atomic_fetch_add(&sh->rounds[closer], 1);
	}
	return NULL;
}

/* Lowers access to reading only; closers need to read. */
static void *lowerer(void *arg)
{
	uint64_t random = 2000 + (uintptr_t)arg;

	while (!atomic_load(&sh->stop)) {
		unsigned int page = pick(&random, CLOSERS * OWNED);

		protect(&page, 1, DSM_PROT_READ, pick(&random, WAYS));
		atomic_fetch_add(&sh->lowered, 1);
		usleep(pick(&random, 1000));
	}
	return NULL;
}

static void *mover(void *arg)
{
	(void)arg;
	while (!atomic_load(&sh->stop)) {
		if (mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED,
			   ELSEWHERE) != MAP_FAILED)
			abort();
		atomic_fetch_add(&sh->moves, 1);
		usleep(2000);
	}
	return NULL;
}

static bool set(const char *parameter, int value)
{
	char path[100];
	bool ok;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/dsm/parameters/%s", parameter);
	f = fopen(path, "w");
	ok = f && fprintf(f, "%d", value) > 0;
	return f && !fclose(f) && ok;
}

static bool online(unsigned int cpu, bool is)
{
	char path[80];
	bool ok;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	f = fopen(path, "w");
	ok = f && fputs(is ? "1" : "0", f) >= 0;
	return f && !fclose(f) && ok;
}

/* Check that an offline processor does not block the other threads. */
static bool all_go_on(void)
{
	double end = now_s() + patience(STUCK_S);
	unsigned long before[CLOSERS];
	unsigned int i;

	for (i = 0; i < CLOSERS; i++)
		before[i] = atomic_load(&sh->rounds[i]);
	for (i = 0; i < CLOSERS && now_s() < end && !atomic_load(&sh->stop); usleep(1000))
		i += atomic_load(&sh->rounds[i]) > before[i] + 1;
	return i == CLOSERS || atomic_load(&sh->stop);
}

static void *switcher(void *arg)
{
	uint64_t random = 3000;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	(void)arg;
	while (!atomic_load(&sh->stop)) {
		unsigned int cpu = 1 + pick(&random, (unsigned int)cpus - 1);

		if (pick(&random, 2)) {
			set("test_hold_cpu", (int)cpu);
			usleep(pick(&random, 20000));
		}
		if (online(cpu, false)) {
			atomic_fetch_add(&sh->switches, 1);
			if (!all_go_on())
				atomic_fetch_add(&sh->left, 1);
		}
		set("test_hold_cpu", -1);
		online(cpu, true);
		usleep(pick(&random, 20000));
	}
	return NULL;
}

/* ---- the test ------------------------------------------------------------------------------- */

static unsigned int start(pthread_t *threads, unsigned int at, void *(*f)(void *), unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (pthread_create(&threads[at++], NULL, f, (void *)(uintptr_t)i))
			exit(2);
	return at;
}

/* Has everything happened that the test needs? For the control: was a stale write seen? */
static bool seen_enough(void)
{
	unsigned int i;

	if (control)
		return atomic_load(&sh->wrong);
	for (i = 0; i < CLOSERS; i++)
		if (atomic_load(&sh->rounds[i]) < ROUNDS)
			return false;
	return atomic_load(&sh->faults) && (!with_machine || atomic_load(&sh->added)) &&
		(!moving || atomic_load(&sh->moves)) && (!hotplug || atomic_load(&sh->switches));
}

/*
 * Run for the given time, and until enough was seen. If a call never returns, an acknowledgement
 * was lost.
 */
static bool watch(double seconds)
{
	double end = now_s() + seconds, latest = end + patience(PATIENCE_S), last[CLOSERS];
	unsigned long before[CLOSERS] = { 0 };
	unsigned int i;

	for (i = 0; i < CLOSERS; i++)
		last[i] = now_s();
	while (now_s() < end || (!seen_enough() && now_s() < latest)) {
		usleep(100000);
		for (i = 0; i < CLOSERS; i++) {
			unsigned long n = atomic_load(&sh->rounds[i]);

			if (n != before[i])
				last[i] = now_s();
			before[i] = n;
			if (now_s() > last[i] + patience(STUCK_S)) {
				printf("FAILED: closer %u has not come back from its call\n", i);
				return false;
			}
		}
	}
	return true;
}

/* Start the threads that lose access when closers close pages. */
static unsigned int start_losers(pthread_t *threads)
{
	unsigned int n = start(threads, start(threads, 0, writer, WRITERS), lowerer, LOWERERS);

	return start(threads, n, machine_writer, with_machine);
}

static pid_t start_apart(void)
{
	pthread_t threads[WRITERS + LOWERERS + 1];
	pid_t pid = fork();
	unsigned int n;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dev = job_attach(NULL, dev);
	if (dev < 0)
		_exit(2);
	n = start_losers(threads);
	while (n--)
		pthread_join(threads[n], NULL);
	_exit(0);
}

static int run(double seconds)
{
	pthread_t threads[WRITERS + CLOSERS + LOWERERS + 3];
	pid_t pid = apart ? start_apart() : 0;
	unsigned int n, i;
	int status = 0;
	bool ok;

	n = apart ? 0 : start_losers(threads);
	n = start(threads, n, closer, CLOSERS);
	n = start(threads, n, mover, moving);
	n = start(threads, n, switcher, hotplug);
	ok = watch(seconds);
	atomic_store(&sh->stop, true);
	if (!ok) {
		fflush(stdout);
		_exit(1);
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (pid && (waitpid(pid, &status, 0) != pid || status))
		ok = false;
	set("test_slow_entry", 0);
	printf("%lu + %lu rounds, %lu lowered, %lu stale, %lu refused, %lu faults, %lu moves, %lu processors off (%lu with what others waited for), %lu by the machine\n",
	       atomic_load(&sh->rounds[0]), atomic_load(&sh->rounds[1]), atomic_load(&sh->lowered),
	       atomic_load(&sh->wrong), atomic_load(&sh->refused), atomic_load(&sh->faults),
	       atomic_load(&sh->moves), atomic_load(&sh->switches), atomic_load(&sh->left),
	       atomic_load(&sh->added));
	ok &= !atomic_load(&sh->refused) && !atomic_load(&sh->left) && seen_enough() &&
		(control || !atomic_load(&sh->wrong));
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	double seconds = 3;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			seconds = atof(argv[++a]);
		} else if (!strcmp(argv[a], "--apart")) {
			apart = true;
		} else if (!strcmp(argv[a], "--machine")) {
			with_machine = true;
		} else if (!strcmp(argv[a], "--moves")) {
			moving = true;
		} else if (!strcmp(argv[a], "--hotplug")) {
			hotplug = true;
		} else if (!strcmp(argv[a], "--control")) {
			control = true;
		} else {
			printf("usage: stale [--seconds S] [--apart] [--machine] [--moves] [--hotplug] [--control]\n"
			       "No translation outlives the call that took the access away; in a guest with dsm.ko loaded.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	if (with_machine && access("/dev/kvm", R_OK | W_OK)) {
		fprintf(stderr, "stale: --machine needs KVM\n");
		return 77;
	}
	if (!module_loaded() || sysconf(_SC_NPROCESSORS_ONLN) < (with_machine ? 1 : 2)) {
		fprintf(stderr,
			"stale: this test needs dsm.ko and two processors (--machine: one)\n");
		return 77;
	}
	sh = shared_memory(sizeof(*sh));
	catch_signals();
	if ((dev = window_at_base()) < 0 || !set("test_slow_entry", 2000)) {
		perror("stale: /dev/dsm");
		return 1;
	}
	return run(seconds);
}

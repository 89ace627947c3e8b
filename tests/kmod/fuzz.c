// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz.c - calls of /dev/dsm that no library makes: valid ones that go deep, with a field now and
 * then that is at its bound or beyond, random ones, and everything else that a process can do to a
 * mapping and to a file.
 *
 * Arguments come from the table by which the module checks them (common_args.h), aimed at what is
 * there: objects that were made, locks that are held, blocks that others want. A round is one or
 * two jobs of one to three ranks each, of the same user or of two, by RDMA or in one kernel. Each
 * rank is a process with some threads (common_fuzzer.h). Threads get signals; processes are killed
 * in the middle. A round in which most threads wait for what never comes is over: it would try
 * nothing.
 *
 * What must hold: processes end when they are killed; no context, rank or frame is left; the kernel
 * has complained of nothing (/proc/sys/kernel/tainted; its log is the caller's to read). If not,
 * the last calls of each thread are printed. And calls get somewhere (outcomes_reach()).
 * Everything follows from --seed but time. Runs in a guest with the module loaded.
 */
#include "tests/kmod/common_fuzzer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS FUZZER_JOBS
#define RANKS FUZZER_RANKS
#define LONGER 4 /* times as long at most, until everything has succeeded once */
_Static_assert(JOBS *RANKS <= OUTCOME_PROCESSES, "each process has its records");

static struct fuzzer_shared *shared;

static unsigned long inputs(void)
{
	return outcomes_inputs(shared->outcomes);
}

/* Read the ticks of all processors since boot: idle ones, and all. */
static void read_ticks(unsigned long long *idle, unsigned long long *all)
{
	unsigned long long v[8] = { 0 };
	FILE *f = fopen("/proc/stat", "r");
	unsigned int i;

	*all = *idle = 0;
	if (!f ||
	    fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
		   &v[4], &v[5], &v[6], &v[7]) != 8)
		perror("/proc/stat");
	if (f)
		fclose(f);
	for (i = 0; i < 8; i++)
		*all += v[i];
	*idle = v[3];
}

/* Run for a while; stop early if the processors are mostly idle. */
static void let_run(double seconds)
{
	const double end = now_s() + seconds;
	unsigned long long idle[2], all[2];

	read_ticks(&idle[0], &all[0]);
	do {
		usleep(100000);
		read_ticks(&idle[1], &all[1]);
		if (all[1] - all[0] < 20)
			continue; /* too few ticks to judge */
		if ((idle[1] - idle[0]) * 5 > (all[1] - all[0]) * 2)
			break;
		idle[0] = idle[1];
		all[0] = all[1];
	} while (now_s() < end);
}

static void choose_jobs(uint64_t *r, unsigned int *njobs)
{
	unsigned int i;

	*njobs = 1 + pick(r, JOBS);
	atomic_store(&shared->go, false);
	memset(shared->outcomes->last, 0, sizeof(shared->outcomes->last));
	for (i = 0; i < *njobs; i++) {
		struct fuzzer_job *j = &shared->jobs[i];

		memset(j, 0, sizeof(*j));
		job_set(&j->job, 1 + pick(r, RANKS), pick(r, 2));
		j->job.mode = pick(r, 3);
		j->job.home = pick(r, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
		j->job.order = pick(r, 3) ? 0 : pick(r, 10);
		j->job.pages = JOB_PAGES - AIM_FREE_PAGES;
		j->calm = 64u << pick(r, 10);
		j->uid = pick(r, 3) ? 1000 + pick(r, 2) : 0;
	}
}

static unsigned int start(uint64_t *r, pid_t *pids, unsigned int njobs)
{
	unsigned int i, k, n = 0;

	fflush(stdout);
	for (i = 0; i < njobs; i++)
		for (k = 0; k < shared->jobs[i].job.ranks; k++, n++) {
			uint64_t s = next(r);

			pids[n] = fork();
			if (!pids[n])
				fuzzer_rank(shared, &shared->jobs[i], n, k, s);
		}
	return n;
}

static bool wait_for_jobs(unsigned int njobs, unsigned int number)
{
	const double end = now_s() + patience(30);
	bool ok = true;
	unsigned int i;

	for (i = 0; i < njobs; i++) {
		struct job *j = &shared->jobs[i].job;

		while (atomic_load(&j->ready) < j->ranks && !atomic_load(&j->failed) &&
		       now_s() < end)
			usleep(1000);
		if (atomic_load(&j->ready) < j->ranks) {
			printf("round %u: no job: %s\n", number,
			       strerror(-atomic_load(&j->failed)));
			ok = false;
		}
	}
	return ok;
}

static bool stop(uint64_t *r, const pid_t *pids, unsigned int n, unsigned int njobs)
{
	unsigned int i;
	bool ok;

	for (i = 0; i < njobs && pick(r, 2); i++)
		atomic_store(&shared->jobs[i].job.stop, 1);
	usleep(pick(r, 20000));
	for (i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	atomic_fetch_add(&shared->outcomes->killed, n);
	for (i = 0; i < njobs; i++)
		atomic_store(&shared->jobs[i].job.stop, 1);
	ok = job_reap(pids, n, 60);
	while (waitpid(-1, NULL, WNOHANG) > 0) /* reap orphans that this process has inherited */
		;
	return nothing_left(20) && ok;
}

static bool one_round(uint64_t seed, unsigned int number, double seconds)
{
	uint64_t r = seed * 1000003 + number;
	pid_t pids[JOBS * RANKS];
	unsigned int n, njobs;
	const unsigned long before = inputs();
	const int taint = tainted();
	bool ok;

	choose_jobs(&r, &njobs);
	n = start(&r, pids, njobs);
	ok = wait_for_jobs(njobs, number);
	atomic_store(&shared->go, true);
	let_run(seconds);
	if (inputs() == before) {
		printf("round %u: nobody called\n", number);
		ok = false;
	}
	if (pick(&r, 2)) { /* let other ranks continue after one is gone */
		kill(pids[pick(&r, n)], SIGKILL);
		let_run(seconds / 4);
	}
	ok &= stop(&r, pids, n, njobs);
	if (tainted() != taint) {
		printf("the kernel complains (tainted %d, was %d)\n", tainted(), taint);
		ok = false;
	}
	if (!ok)
		outcomes_show_last(shared->outcomes);
	return ok;
}

static bool prepare(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &all);
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* inherit the children of killed ranks */
	shared = shared_memory(sizeof(*shared));
	if (chmod("/dev/dsm", 0666)) {
		perror("fuzz");
		return false;
	}
	shared->outcomes = outcomes_new();
	return true;
}

/*
 * Some calls succeed only now and then, a CANCEL that meets its call for instance: so the rounds go
 * on for such, within limits.
 */
static bool goes_on(const struct fuzz_options *o, double began)
{
	const double passed = now_s() - began;

	if (inputs() >= o->inputs)
		return false;
	return passed < o->seconds ||
		(passed < o->seconds * LONGER && !outcomes_reach(shared->outcomes, false));
}

static int run(const struct fuzz_options *o)
{
	const double began = now_s();
	double told = began;
	unsigned int round = 0;
	bool ok = true;

	if (!prepare())
		return 2;
	while (ok && goes_on(o, began)) {
		ok = one_round(o->seed, round, o->round);
		if (!ok)
			printf("round %u of seed %llu failed\n", round,
			       (unsigned long long)o->seed);
		round++;
		if (now_s() > told + 60) {
			told = now_s();
			printf("%u rounds, %lu inputs, %.0f a second\n", round, inputs(),
			       (double)inputs() / (told - began));
		}
	}
	chmod("/dev/dsm", 0660);
	printf("%u rounds of seed %llu\n", round, (unsigned long long)o->seed);
	ok &= outcomes_reach(shared->outcomes, true);
	outcomes_show(shared->outcomes, now_s() - began);
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const char usage[] =
		"usage: fuzz [--seed S] [--seconds S] [--round S] [--inputs N]\n"
		"Nonsense for /dev/dsm, for so long (20) or until there were so many calls, in rounds of so\n"
		"many seconds (5); in a guest with dsm.ko loaded.\n";
	struct fuzz_options o = { .seed = 1, .seconds = 20, .round = 5, .inputs = ~0ul };
	int status = fuzz_options(argc, argv, usage, &o);

	return status < 0 ? run(&o) : status;
}

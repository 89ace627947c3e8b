// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm.c - everything that ends a rank of dsm.ko, at the worst moment. Ranks whose threads
 * continuously fault, lock, pin and meet at a barrier are killed, exit, unmap their window, or try
 * to move it or to give it to a child. Their RDMA device is deleted, also while they join; a
 * processor goes offline; allocations are refused; processes of another user and of another
 * namespace try to join; and meanwhile the test tries to unload the module.
 *
 * Most rounds take only some tens of milliseconds, so that there are thousands; every LONG_EVERYth
 * is longer. In every DEVICE_EVERYth round the device is removed and comes back, in every
 * CPU_EVERYth a processor, and in every SHORT_EVERYth memory is short. After every RELOAD_EVERYth
 * round the module is unloaded and loaded again, half of the time while the device is removed; in
 * some rounds it is unloaded while ranks die, and faults linger in it.
 *
 * What the contents of pages must be is in storm_ranks.c, which events must have happened in
 * storm_events.c. Before the first round, a process that differs from the strangers only in its
 * user or its network namespace must be able to join.
 *
 * Runs in a guest, as root, with the module loaded and a soft RDMA device. What must hold:
 * processes end within seconds, a device can be removed within REMOVAL_S, unloading is refused
 * while there are users, and nothing is left after each round. Whenever the module can be unloaded,
 * and it must be after the last round, the RDMA device and the slab caches have no more objects
 * than before. The caller checks the kernel's log.
 */
#include "tests/kmod/storm.h"
#include "tests/kmod/common_module.h"
#include "tests/kmod/common_stranger.h"

#include <errno.h>
#include <fcntl.h>
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

#define LONG_EVERY 20u
#define DEVICE_EVERY 10u /* even, so that these rounds are over RDMA */
#define RELOAD_EVERY 25u
#define CPU_EVERY 8u
#define SHORT_EVERY 6u

enum { KILL = GO_ON, STRANGER = ORDERS, REMOVAL }; /* events that are no order to a rank */

struct orders *orders;
const char *module;
unsigned int round_now;
static bool all_long; /* long rounds only: more accesses, fewer ends of ranks */
static unsigned long early;
static double round_longest;

struct plan {
	unsigned int number;
	unsigned int pause_us; /* longest pause between two events */
	bool removal;          /* remove the device in this round, */
	bool early;            /* while ranks join */
	bool removed;
	bool shortage;  /* make memory short */
	bool processor; /* take a processor offline */
	bool unload;    /* unload the module while its ranks are killed; faults linger in it */
};

static bool is_running(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

/* Wait until ranks have obeyed, have ended, or are too busy. */
static void wait_for_orders(const struct job *j, const pid_t *pids)
{
	const double end = now_s() + patience(0.05);
	unsigned int i;

	for (i = 0; i < j->ranks; i++)
		while (atomic_load(&orders->order[i]) != GO_ON && is_running(pids[i]) &&
		       now_s() < end)
			usleep(500);
}

static bool weather(struct job *j, uint64_t *r, const pid_t *pids, struct plan *plan)
{
	unsigned int i, n = 2 + pick(r, 6), rank, gone = pick(r, j->ranks), event;
	unsigned int removal = plan->removal ? pick(r, n) : n,
		     offline = plan->processor ? pick(r, n) : n;
	int err;

	for (i = 0; i < n; i++) {
		usleep(pick(r, plan->pause_us));
		rank = pick(r, j->ranks);
		if (i == offline && processor(false))
			happened(EVENT_OFFLINE);
		event = i == removal ? REMOVAL : pick(r, REMOVAL);
		switch (event) {
		case KILL:
			if (is_running(pids[rank]) && !kill(pids[rank], SIGKILL))
				happened(EVENT_KILL);
			gone = rank;
			break;
		/* in the place of this rank, if it has gone */
		case STRANGER: stranger(j, r, gone); break;
		case REMOVAL:
			plan->removed = true;
			if (!remove_device())
				return false;
			break;
		default: atomic_store(&orders->order[rank], (int)event);
		}
		/* One process has the device open for sure: this one. */
		err = module_unload();
		if (err != -EWOULDBLOCK && err != -EBUSY)
			return it_failed("the module could be unloaded while in use");
		happened(EVENT_UNLOAD);
	}
	if (pick(r, 2))
		wait_for_orders(j, pids);
	return true;
}

/* Wait until all ranks have joined. Without their device they cannot. */
static bool all_come(struct job *j, uint64_t *r, struct plan *plan)
{
	double end = now_s() + patience(60);

	if (plan->early) {
		usleep(pick(r, (unsigned int)patience(60000)));
		plan->removed = true;
		early++;
		if (!remove_device())
			return false;
		end = now_s() + 0.02;
	}
	while (atomic_load(&j->ready) < j->ranks && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	if (atomic_load(&j->ready) == j->ranks)
		return true;
	if (!plan->early)
		printf("round %u: no job: %s\n", plan->number, strerror(-atomic_load(&j->failed)));
	return plan->early;
}

static bool one_round(struct job *j, uint64_t *r, unsigned int number)
{
	struct plan plan = { .number = number,
			     .shortage = number % SHORT_EVERY == 1,
			     .removal = number % DEVICE_EVERY == 0,
			     .early = number % DEVICE_EVERY == 0 && pick(r, 3) == 0,
			     .processor = number % CPU_EVERY == 3,
			     .unload = module && number % RELOAD_EVERY % 10 == 7 };
	int keep = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	unsigned int i, ranks = 2 + pick(r, 2);
	pid_t pids[JOB_RANKS];
	long long reserve;
	bool ok;

	plan.pause_us =
		(unsigned int)patience(all_long || number % LONG_EVERY == LONG_EVERY - 1 ? 100000
					       : plan.shortage                           ? 50000
											 : 6000);
	if (keep < 0)
		return it_failed("/dev/dsm cannot be opened");
	job_set(j, ranks, number % 2 == 0);
	memset(orders->order, 0, sizeof(orders->order));
	memset(orders->marks, 0, sizeof(orders->marks));
	memset(orders->mutex, 0, sizeof(orders->mutex));
	memset(orders->guards, 0, sizeof(orders->guards));
	memset(orders->waits, 0, sizeof(orders->waits));
	chmod("/dev/dsm", 0666); /* strangers may open it */
	j->mode = pick(r, 3);
	j->home = pick(r, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
	fflush(stdout);
	for (i = 0; i < ranks; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i, next(r));
	}
	ok = all_come(j, r, &plan);
	if (plan.unload)
		file_set("/sys/module/dsm/parameters/test_linger", "2");
	reserve = counter("from_reserve");
	if (plan.shortage)
		shortage(2 + pick(r, pick(r, 2) ? 4 : 20));
	if (ok && !plan.early)
		ok = weather(j, r, pids, &plan);
	if (plan.shortage)
		atomic_fetch_add(&orders->events[EVENT_SHORT],
				 (unsigned long)(counter("from_reserve") - reserve));
	if (pick(r, 2))
		atomic_store(&j->stop, 1);
	for (i = 0; i < ranks; i++)
		kill(pids[i], SIGKILL);
	close(keep);
	if (plan.unload)
		ok &= unload_at_once();
	ok &= job_reap(pids, ranks, 20);
	count_ends();
	shortage(0);
	if (plan.processor)
		processor(true);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	if (plan.removed)
		ok &= device("add rxe0 type rxe netdev eth0");
	return nothing_left(20) && ok;
}

int main(int argc, char **argv)
{
	unsigned int rounds = 20, i;
	double seconds = 0, began = now_s(); /* 0: all rounds */
	unsigned long removals;
	char before[300];
	uint64_t r = 1;
	struct job *j;
	bool ok;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seed") && a + 1 < argc) {
			r = strtoull(argv[++a], NULL, 0);
		} else if (!strcmp(argv[a], "--rounds") && a + 1 < argc) {
			rounds = (unsigned int)atoi(argv[++a]);
		} else if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			seconds = atof(argv[++a]);
		} else if (!strcmp(argv[a], "--long")) {
			all_long = true;
		} else if (!strcmp(argv[a], "--module") && a + 1 < argc) {
			module = argv[++a];
		} else {
			printf("usage: storm [--seed S] [--rounds N] [--seconds T] [--long] [--module FILE]\n"
			       "Ranks of dsm.ko die in all ways; in a guest with the module loaded, which is unloaded at the end.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	module_needed();
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* inherit the children of killed ranks */
	/* above the ranks' threads, whose number must not affect the times */
	setpriority(PRIO_PROCESS, 0, -20);
	j = job_new();
	orders = shared_memory(sizeof(*orders));
	device_objects(before, sizeof(before));
	ok = strangers_control();
	for (i = 0; ok && goes_on(i, rounds) && (!seconds || now_s() < began + seconds); i++) {
		double start = now_s(), took;

		round_now = i;
		ok = one_round(j, &r, i) && !atomic_load(&orders->wrong);
		took = now_s() - start;
		if (took > round_longest)
			round_longest = took;
		if (took > patience(5))
			printf("round %u took %.0f s: %s, mode %u\n", i, took,
			       j->rdma ? "RDMA" : "one kernel", j->mode);
		if (ok && module && i % RELOAD_EVERY == RELOAD_EVERY - 1)
			ok = reload(before, pick(&r, 2));
		if (!ok)
			printf("round %u failed\n", i);
	}
	printf("%lu accesses, %lu of them refused, %lu words checked, %lu wrong; the longest round %.1f s\n",
	       atomic_load(&orders->accesses), atomic_load(&orders->signals),
	       atomic_load(&orders->checked), atomic_load(&orders->wrong), round_longest);
	ok = report_events(i) && ok;
	removals = times(EVENT_REMOVAL);
	printf("%u rounds: %lu devices removed (%lu while ranks joined) in %.2f s, at most %.2f s; %lu times reloaded\n",
	       i, removals, early, removals ? removal_sum / (double)removals : 0, removal_longest,
	       times(EVENT_RELOAD));
	ok &= removed_soon();
	ok &= !atomic_load(&orders->intruders); /* printed already */
	if (atomic_load(&orders->wrong) || !atomic_load(&orders->checked))
		ok = it_failed("contents");
	return ok && ends_well(before) ? 0 : 1;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * short.c - dsm.ko when something is short: page table locks taken, allocations of softirq refused,
 * send queues and queues of processors full, no inline sends; and the three ways to handle
 * completions. A job whose ranks write words of the same pages must come out right all the same,
 * with no rank lost, and a counter must tell that the detour was taken.
 *
 * Runs in a guest with the module loaded and a soft RDMA device; sets parameters of the module and
 * takes them back.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 3u
#define THREADS 3u
#define HOT 48u /* pages that all ranks write; fewer if each message takes milliseconds */
#define HOT_SLOW 12u
#define LATE_US 500
#define STRING2(x) #x
#define STRING(x) STRING2(x)

static const struct shortage {
	const char *name, *parameter, *value, *back, *counter;
	uint32_t mode;
	bool rdma; /* for jobs over RDMA only; `here`: for jobs in one kernel only */
	bool here;
	bool refuse; /* refuse also all allocations in softirq */
	bool late;   /* delay table entries, so that changes of a page cross; blocks stay longer */
		     /* clang-format off */
} shortages[] = {
	{ "nothing short", NULL, NULL, NULL, "handled_in_softirq", DSM_MODE_SOFTIRQ, true, false, false, false },
	{ "nothing short, one kernel", NULL, NULL, NULL, "faults", DSM_MODE_SOFTIRQ, false, true, false, false },
	{ "completions in a worker", NULL, NULL, NULL, "handled_in_process", DSM_MODE_WORKQUEUE, true, false, false, false },
	{ "completions by polling", NULL, NULL, NULL, "handled_in_process", DSM_MODE_POLL, true, false, false, false },
	{ "page table locks taken", "test_fail_trylock", "1", "0", "trylock_failures", DSM_MODE_SOFTIRQ, true, true, false, false },
	{ "locks taken, entries late", "test_fail_trylock", "1", "0", "trylock_failures", DSM_MODE_SOFTIRQ, true, true, false, true },
	{ "one of 3 allocations refused", "test_fail_alloc", "3", "0", "from_reserve", DSM_MODE_SOFTIRQ, true, true, false, false },
	{ "all allocations refused", NULL, NULL, NULL, "reserve_used_up", DSM_MODE_SOFTIRQ, true, true, true, false },
	{ "all refused, in a worker", NULL, NULL, NULL, "reserve_used_up", DSM_MODE_WORKQUEUE, true, false, true, false },
	{ "all refused, by polling", NULL, NULL, NULL, "from_reserve", DSM_MODE_POLL, true, false, true, false },
	{ "all refused, lanes full", "test_send_room", "18", "0", "reserve_used_up", DSM_MODE_SOFTIRQ, true, false, true, false },
	{ "all refused, queues full", "test_runq", "1", "0", "reserve_used_up", DSM_MODE_SOFTIRQ, false, true, true, false },
	{ "send queues full", "test_send_room", "18", "0", "send_queue_full", DSM_MODE_SOFTIRQ, true, false, false, false },
	{ "queues of processors full", "test_runq", "1", "0", "left_to_worker", DSM_MODE_SOFTIRQ, false, true, false, false },
	{ "no inline sends", "test_no_inline", "1", "0", "messages_sent", DSM_MODE_SOFTIRQ, true, false, false, false },
};
/* clang-format on */

static struct sums {
	_Atomic unsigned int ready, over, done, checked, wrong, lost;
	uint64_t written[RANKS][THREADS][HOT]; /* by rank and thread, into each page */
} * sums;
static double seconds = 2;
static unsigned int hot = HOT;

struct worker {
	uint64_t random;
	unsigned int rank, thread;
	int fd;
};

static volatile uint64_t *word(unsigned int page, unsigned int rank, unsigned int thread)
{
	return (volatile uint64_t *)(JOB_BASE + page * PAGE) + rank * THREADS + thread;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	while (!atomic_load(&sums->over)) {
		for (i = 0; i < 8 && !atomic_load(&sums->over); i++) {
			unsigned int page = pick(&w->random, hot);

			++*word(page, w->rank, w->thread);
			sums->written[w->rank][w->thread][page]++;
			(void)*word(pick(&w->random, hot), 0, 0);
		}
		if (pick(&w->random, 8) == 0) { /* send many messages at once */
			struct dsm_ioc_range r = { .op = DSM_RANGE_PREFETCH,
						   .pages = hot,
						   .write = pick(&w->random, 2) };

			ioctl(w->fd, DSM_IOC_RANGE, &r);
		}
	}
	return NULL;
}

static void rank_process(struct job *j, unsigned int rank)
{
	struct worker w[THREADS];
	pthread_t threads[THREADS];
	struct dsm_ioc_lost l;
	unsigned int t, page, r, wrong = 0;
	int fd = job_join(j, rank);

	if (fd < 0)
		_exit(3);
	atomic_fetch_add(&sums->ready, 1);
	for (t = 0; t < THREADS; t++) {
		w[t] = (struct worker){
			.random = rank * 100 + t, .rank = rank, .thread = t, .fd = fd
		};
		pthread_create(&threads[t], NULL, work, &w[t]);
	}
	for (t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	all_here(&sums->done, RANKS);
	for (r = 0; r < RANKS; r++)
		for (t = 0; t < THREADS; t++)
			for (page = 0; page < hot; page++)
				wrong += *word(page, r, t) != sums->written[r][t][page];
	atomic_fetch_add(&sums->wrong, wrong);
	if (!ioctl(fd, DSM_IOC_LOST, &l) && l.rank >= 0)
		atomic_fetch_add(&sums->lost, 1);
	all_here(&sums->checked, RANKS);
	_exit(0);
}

static bool set(const char *parameter, const char *value)
{
	char path[100];
	FILE *f;

	if (!parameter)
		return true;
	snprintf(path, sizeof(path), "/sys/module/dsm/parameters/%s", parameter);
	f = fopen(path, "w");
	if (!f || fputs(value, f) < 0 || fclose(f)) {
		perror(path);
		return false;
	}
	return true;
}

static uint64_t total(void)
{
	const uint64_t *at = &sums->written[0][0][0];
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < RANKS * THREADS * HOT; i++)
		n += at[i];
	return n;
}

/* A busy softirq continues in ksoftirqd; both count. */
static long long counted(const struct shortage *s)
{
	return counter(s->counter) +
		(strcmp(s->counter, "handled_in_softirq") ? 0 : counter("handled_in_ksoftirqd"));
}

static void start(struct job *j, const struct shortage *s, bool rdma, pid_t *pids)
{
	unsigned int i;

	job_set(j, RANKS, rdma);
	memset(sums, 0, sizeof(*sums));
	j->mode = s->mode;
	j->home = DSM_REGION_CYCLIC;
	j->hold_us = s->late ? 3 * LATE_US : 0;
	fflush(stdout);
	for (i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i);
	}
}

/*
 * Run for the given time, and until the detour was taken: on a busy machine that may take longer.
 */
static void watch(const struct job *j, const struct shortage *s, long long before)
{
	double latest = now_s() + patience(60), end;

	while (atomic_load(&sums->ready) < RANKS && !atomic_load(&j->failed) && now_s() < latest)
		usleep(1000);
	for (end = now_s() + seconds; now_s() < end || (counted(s) <= before && now_s() < latest);
	     usleep(10000))
		;
	atomic_store(&sums->over, 1);
}

static bool run(struct job *j, const struct shortage *s, bool rdma)
{
	long long before = counted(s), after;
	pid_t pids[RANKS];
	bool ended, left;

	start(j, s, rdma, pids);
	watch(j, s, before);
	ended = job_reap(pids, RANKS, 60 + 10 * seconds);
	left = !nothing_left(20);
	after = counted(s);
	printf("%-30s %-4s  %8llu writes, %u wrong, %u ranks lost, %s %lld%s\n", s->name,
	       rdma ? "RDMA" : "here", (unsigned long long)total(), atomic_load(&sums->wrong),
	       atomic_load(&sums->lost), s->counter, after - before, ended ? "" : ", did not end");
	return ended && !left && atomic_load(&sums->checked) == RANKS &&
		!atomic_load(&sums->wrong) && !atomic_load(&sums->lost) && after > before;
}

int main(int argc, char **argv)
{
	unsigned int i, cases = sizeof(shortages) / sizeof(shortages[0]), failed = 0;
	struct job *j;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			seconds = atof(argv[++a]);
		} else if (!strcmp(argv[a], "--cases") && a + 1 < argc) {
			i = (unsigned int)atoi(argv[++a]);
			cases = i < cases ? i : cases;
		} else {
			printf("usage: short [--seconds S] [--cases N]\n"
			       "dsm.ko when something is short; in a guest with the module loaded and an RDMA device.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	module_needed();
	if (patience(1) > 1)
		hot = HOT_SLOW;
	j = job_new();
	sums = shared_memory(sizeof(*sums));
	for (i = 0; i < cases; i++) {
		const struct shortage *s = &shortages[i];

		if ((s->refuse && !set("test_fail_alloc", "1")) || !set(s->parameter, s->value) ||
		    (s->late && !set("test_slow_entry", STRING(LATE_US))))
			return 1;
		if (s->rdma)
			failed += !run(j, s, true);
		if (s->here)
			failed += !run(j, s, false);
		set(s->parameter, s->back);
		set("test_fail_alloc", "0");
		set("test_slow_entry", "0");
	}
	return failed ? 1 : 0;
}

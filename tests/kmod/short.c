// SPDX-License-Identifier: BSD-2-Clause
/*
 * short.c - dsm.ko when something is short: page table locks taken, allocations of softirq refused, send queues and queues of
 * processors full, no inline sends; and the three ways to handle completions. A job whose ranks write words of the same pages must
 * come out right all the same, and a counter must tell that the detour was taken.
 *
 * --reserve: softirq's reserves are used up as well; the module is loaded with few objects in each. Then a rank that cannot go
 * on must be told, soon, and no other word may be wrong.
 *
 * Runs in a guest with the module loaded and a soft RDMA device; sets parameters of the module and takes them back.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 3u
#define THREADS 2u
#define HOT 48u /* pages that all want */

static const struct shortage {
	const char *name, *parameter, *value, *back, *counter;
	uint32_t mode;
	bool rdma;            /* only of jobs by RDMA, or only of those of one kernel */
	bool here;
} shortages[] = {
	{ "nothing short", NULL, NULL, NULL, "handled_in_softirq", DSM_MODE_SOFTIRQ, true, false },
	{ "nothing short, one kernel", NULL, NULL, NULL, "faults", DSM_MODE_SOFTIRQ, false, true },
	{ "completions in a worker", NULL, NULL, NULL, "handled_in_process", DSM_MODE_WORKQUEUE, true, false },
	{ "completions by polling", NULL, NULL, NULL, "handled_in_process", DSM_MODE_POLL, true, false },
	{ "page table locks taken", "test_fail_trylock", "1", "0", "trylock_failures", DSM_MODE_SOFTIRQ, true, true },
	{ "one of 3 allocations refused", "test_fail_alloc", "3", "0", "from_reserve", DSM_MODE_SOFTIRQ, true, true },
	{ "all allocations refused", "test_fail_alloc", "1", "0", "from_reserve", DSM_MODE_SOFTIRQ, true, true },
	{ "send queues full", "test_send_room", "18", "0", "send_queue_full", DSM_MODE_SOFTIRQ, true, false },
	{ "queues of processors full", "test_runq", "1", "0", "left_to_worker", DSM_MODE_SOFTIRQ, false, true },
	{ "no inline sends", "test_no_inline", "1", "0", "messages_sent", DSM_MODE_SOFTIRQ, true, false },
};

static const struct shortage used_up[] = {
	{ "reserves used up", "test_fail_alloc", "1", "0", "reserve_used_up", DSM_MODE_SOFTIRQ, true, true },
	{ "reserves used up, queues full", "test_runq", "1", "0", "reserve_used_up", DSM_MODE_SOFTIRQ, false, true },
};

static struct sums {
	_Atomic unsigned int ended, done, checked, wrong, lost; /* ended: threads */
	uint64_t written[RANKS][THREADS][HOT]; /* by whom, into which page */
} *sums;
static double seconds = 2;
static bool may_be_lost; /* ranks, to whom it must be told */

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
	double end = now_s() + seconds;
	unsigned int i;

	while (now_s() < end) {
		for (i = 0; i < 8; i++) {
			unsigned int page = pick(&w->random, HOT);

			++*word(page, w->rank, w->thread);
			sums->written[w->rank][w->thread][page]++;
			(void)*word(pick(&w->random, HOT), 0, 0);
		}
		if (pick(&w->random, 8) == 0) { /* many messages at once */
			struct dsm_ioc_range r = { .op = DSM_RANGE_PREFETCH, .pages = HOT, .write = pick(&w->random, 2) };

			ioctl(w->fd, DSM_IOC_RANGE, &r);
		}
	}
	atomic_fetch_add(&sums->ended, 1);
	return NULL;
}

static void all_come(_Atomic unsigned int *place)
{
	atomic_fetch_add(place, 1);
	while (atomic_load(place) < RANKS)
		usleep(1000);
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
	for (t = 0; t < THREADS; t++) {
		w[t] = (struct worker){ .random = rank * 100 + t, .rank = rank, .thread = t, .fd = fd };
		pthread_create(&threads[t], NULL, work, &w[t]);
	}
	/* A rank that is told that it is lost goes, as the library does; its threads may wait for what never comes. */
	for (; may_be_lost && atomic_load(&sums->ended) < RANKS * THREADS; usleep(1000))
		if (!ioctl(fd, DSM_IOC_LOST, &l) && l.rank >= 0) {
			atomic_fetch_add(&sums->lost, 1);
			_exit(0);
		}
	for (t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	all_come(&sums->done);
	for (r = 0; r < RANKS; r++)
		for (t = 0; t < THREADS; t++)
			for (page = 0; page < HOT; page++)
				wrong += *word(page, r, t) != sums->written[r][t][page];
	atomic_fetch_add(&sums->wrong, wrong);
	if (!ioctl(fd, DSM_IOC_LOST, &l) && l.rank >= 0)
		atomic_fetch_add(&sums->lost, 1);
	all_come(&sums->checked);
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

/* A softirq that has much to do goes on in ksoftirqd, which is the same to us. */
static long long counted(const struct shortage *s)
{
	return counter(s->counter) + (strcmp(s->counter, "handled_in_softirq") ? 0 : counter("handled_in_ksoftirqd"));
}

static void start(struct job *j, const struct shortage *s, bool rdma, pid_t *pids)
{
	unsigned int i;

	job_set(j, RANKS, rdma);
	memset(sums, 0, sizeof(*sums));
	j->mode = s->mode;
	j->home = DSM_REGION_CYCLIC;
	fflush(stdout);
	for (i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i);
	}
}

static bool run(struct job *j, const struct shortage *s, bool rdma)
{
	long long before = counted(s), after;
	unsigned int i;
	pid_t pids[RANKS];
	bool ended, left;

	start(j, s, rdma, pids);
	ended = job_reap(pids, RANKS, 60 + 10 * seconds);
	for (i = 0; i < RANKS && !ended; i++)
		kill(pids[i], SIGKILL);
	if (!ended)
		job_reap(pids, RANKS, 20);
	left = !nothing_left(20);
	after = counted(s);
	printf("%-30s %-4s  %8llu writes, %u wrong, %u ranks lost, %s %lld%s\n", s->name, rdma ? "RDMA" : "here", (unsigned long long)total(),
	       atomic_load(&sums->wrong), atomic_load(&sums->lost), s->counter, after - before, ended ? "" : ", did not end");
	return ended && !left && atomic_load(&sums->checked) == RANKS && !atomic_load(&sums->wrong) && !atomic_load(&sums->lost) &&
	       after > before;
}

/* Whether whoever cannot go on is told. The first to be told leaves; others may wait for it for ever, and are killed. */
static bool run_out(struct job *j, const struct shortage *s, bool rdma)
{
	long long before = counter(s->counter), used;
	double end = now_s() + patience(10 + seconds);
	pid_t pids[RANKS];
	unsigned int i;
	bool ok;

	start(j, s, rdma, pids);
	while (!atomic_load(&sums->lost) && atomic_load(&sums->checked) < RANKS && now_s() < end)
		usleep(1000);
	for (i = 0; i < RANKS; i++)
		kill(pids[i], SIGKILL);
	ok = job_reap(pids, RANKS, 20) && nothing_left(20);
	used = counter(s->counter) - before;
	printf("%-30s %-4s  %8llu writes, %u wrong, %u ranks told, %s %lld\n", s->name, rdma ? "RDMA" : "here", (unsigned long long)total(),
	       atomic_load(&sums->wrong), atomic_load(&sums->lost), s->counter, used);
	return ok && used > 0 && atomic_load(&sums->lost) && !atomic_load(&sums->wrong);
}

static unsigned int run_all_out(struct job *j)
{
	unsigned int i, failed = 0;

	may_be_lost = true;
	for (i = 0; i < sizeof(used_up) / sizeof(used_up[0]); i++) {
		const struct shortage *s = &used_up[i];

		if (!set(s->parameter, s->value) || !set("test_fail_alloc", "1"))
			return 1;
		if (s->rdma)
			failed += !run_out(j, s, true);
		if (s->here)
			failed += !run_out(j, s, false);
		set(s->parameter, s->back);
		set("test_fail_alloc", "0");
	}
	return failed;
}

int main(int argc, char **argv)
{
	unsigned int i, failed = 0;
	bool reserve = false;
	struct job *j;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			seconds = atof(argv[++a]);
		} else if (!strcmp(argv[a], "--reserve")) {
			reserve = true;
		} else {
			printf("usage: short [--seconds S] [--reserve]\n"
			       "dsm.ko when something is short; in a guest with the module loaded and an RDMA device.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	if (!module_loaded()) {
		fprintf(stderr, "short: dsm.ko is not loaded\n");
		return 77;
	}
	j = job_new();
	sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reserve)
		return run_all_out(j) ? 1 : 0;
	for (i = 0; i < sizeof(shortages) / sizeof(shortages[0]); i++) {
		const struct shortage *s = &shortages[i];

		if (!set(s->parameter, s->value))
			return 1;
		if (s->rdma)
			failed += !run(j, s, true);
		if (s->here)
			failed += !run(j, s, false);
		set(s->parameter, s->back);
	}
	return failed ? 1 : 0;
}

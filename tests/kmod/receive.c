// SPDX-License-Identifier: BSD-2-Clause
/*
 * receive.c - the receive buffers of dsm.ko. Four ranks over RDMA. First: how much memory each has
 * for an idle peer. Then three ranks send to the first at once, more than it has buffers for at
 * first, and all make equal progress. The same without shared receive queues. Last: a rank in user
 * space sends without credit; only the rank that it sends to gives it up.
 *
 * Runs in a guest with the module loaded and a soft RDMA device; sets parameters of the module and
 * resets them.
 */
#include "core/sync.h"
#include "tests/kmod/common_module.h"
#include "tests/kmod/common_peer.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 4u
#define THREADS 24u /* threads of a sending rank */
#define BURST 256u  /* requests at once, before the threads start: several times PEER_CREDITS */
#define IDLE_MOST 16384ul
#define FAIR 8u    /* largest ratio between the progress of two ranks; processors are few */
#define LEAST 100u /* additions of a rank before a comparison */
#define PERIODS 5u /* periods in which ranks are compared */
#define GREEDY 1u
#define GREEDY_SENDS 400u

static struct shared {
	_Atomic unsigned int go, ranks, answered, over, finished, done;
	_Atomic int lost[RANKS]; /* mask of the ranks that this rank was told are lost */
	_Atomic uint64_t object, sum;
	_Atomic unsigned long added[RANKS];
} * shared;

static int file;
static unsigned int me;

/* ---- ranks ---------------------------------------------------------------------------------- */

static bool operate(unsigned int op, uint64_t value, uint64_t *result)
{
	const uint64_t name = atomic_load(&shared->object);
	struct dsm_ioc_call c = {
		.op = (uint8_t)op, .object = (uint32_t)name, .gen = name >> 32, .value = value
	};

	if (ioctl(file, DSM_IOC_CALL, &c) || c.status)
		return false;
	*result = c.result;
	return true;
}

static void *add(void *unused)
{
	uint64_t before;

	(void)unused;
	while (!atomic_load(&shared->over) && operate(SOP_ADD, 1, &before))
		atomic_fetch_add(&shared->added[me], 1);
	return NULL;
}

static void make_object(void)
{
	struct dsm_ioc_call c = { .op = SOP_CREATE, .value2 = (uint64_t)SYNC_ATOMIC << 32 };

	if (ioctl(file, DSM_IOC_CALL, &c) || c.status)
		_exit(5);
	atomic_store(&shared->object, c.result);
}

static void hear_of_losses(void)
{
	struct dsm_ioc_lost l;

	while (!ioctl(file, DSM_IOC_LOST, &l) && l.rank >= 0)
		atomic_fetch_or(&shared->lost[me], 1 << l.rank);
}

static void rank_process(struct job *j, unsigned int rank)
{
	struct dsm_ioc_range burst = { .op = DSM_RANGE_PREFETCH, .pages = BURST };
	pthread_t threads[THREADS];
	unsigned int t, page;
	uint64_t sum;

	me = rank;
	file = job_join(j, rank);
	if (file < 0)
		_exit(3);
	if (rank == 0)
		make_object();
	while (!atomic_load(&shared->go) || !atomic_load(&shared->object))
		usleep(1000);
	/* Wait until all requests are answered, also those that waited for credit. */
	ioctl(file, DSM_IOC_RANGE, &burst);
	for (page = 0; page < BURST; page++)
		(void)*(volatile char *)(JOB_BASE + page * PAGE);
	atomic_fetch_add(&shared->answered, 1);
	while (atomic_load(&shared->answered) < atomic_load(&shared->ranks))
		usleep(1000);
	for (t = 0; rank && t < THREADS; t++)
		pthread_create(&threads[t], NULL, add, NULL);
	while (!atomic_load(&shared->over)) {
		hear_of_losses();
		usleep(1000);
	}
	for (t = 0; rank && t < THREADS; t++)
		pthread_join(threads[t], NULL);
	atomic_fetch_add(&shared->finished, 1);
	while (rank == 0 && atomic_load(&shared->finished) < RANKS)
		usleep(1000);
	if (rank == 0 && operate(SOP_LOAD, 0, &sum))
		atomic_store(&shared->sum, sum);
	hear_of_losses();
	atomic_fetch_add(&shared->done, 1);
	for (;;)
		pause(); /* others may still send */
}

static unsigned int start(struct job *j, unsigned int ranks, uint64_t mask, pid_t *pids)
{
	unsigned int i, n = 0;

	job_set(j, ranks, true);
	j->home = DSM_REGION_FIXED; /* rank 0 */
	memset(shared, 0, sizeof(*shared));
	atomic_store(&shared->ranks, (unsigned int)__builtin_popcountll(mask));
	fflush(stdout);
	for (i = 0; i < ranks; i++) {
		if (!(mask >> i & 1))
			continue;
		pids[n] = fork();
		if (!pids[n])
			rank_process(j, i);
		n++;
	}
	return n;
}

static bool wait_for(_Atomic unsigned int *place, unsigned int n, const struct job *j)
{
	const double end = now_s() + patience(60);

	while (atomic_load(place) < n && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	return atomic_load(place) >= n;
}

static bool end(pid_t *pids, unsigned int n)
{
	unsigned int i;
	bool ok;

	for (i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	ok = job_reap(pids, n, 60);
	return nothing_left(20) && ok;
}

/* ---- memory for an idle peer ---------------------------------------------------------------- */

/* Memory of each rank, as the module reports it. */
static bool idle(const char *kind)
{
	FILE *f = fopen("/sys/kernel/debug/dsm/queues", "r");
	unsigned long bytes, each, most = 0;
	unsigned int n = 0;
	char line[200];
	bool ok = true;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " receive buffers: %lu bytes, %lu per peer", &bytes, &each) != 2)
			continue;
		ok &= each && bytes >= each * (RANKS - 1) && strstr(line, kind);
		most = each > most ? each : most;
		n++;
	}
	if (f)
		fclose(f);
	printf("%u ranks have %lu bytes of receive buffers for an idle peer, %s\n", n, most, kind);
	return ok && n == RANKS && most <= IDLE_MOST;
}

/* ---- several peers at once ------------------------------------------------------------------ */

struct additions {
	unsigned long least, most, all;
};

/* Additions of each sending rank since `before`. */
static struct additions added_since(const unsigned long *before)
{
	struct additions a = { .least = ~0ul };
	unsigned int i;

	for (i = 1; i < RANKS; i++) {
		const unsigned long n = atomic_load(&shared->added[i]) - before[i];

		a.least = n < a.least ? n : a.least;
		a.most = n > a.most ? n : a.most;
		a.all += n;
	}
	return a;
}

/* Is no rank faster than another by more than FAIR? */
static bool fair_for(double seconds, double latest)
{
	const double begun = now_s();
	unsigned long before[RANKS];
	struct additions a;
	unsigned int i;
	bool ok;

	for (i = 0; i < RANKS; i++)
		before[i] = atomic_load(&shared->added[i]);
	do {
		usleep(1000);
		a = added_since(before);
	} while (now_s() < begun + seconds || (a.least < LEAST && now_s() < latest));
	ok = a.least >= LEAST && a.least * FAIR >= a.most;
	printf("%u peers at once: %lu to %lu additions each, %.0f a second%s\n", RANKS - 1, a.least,
	       a.most, (double)a.all / (now_s() - begun), ok ? "" : ", NOT ALIKE");
	return ok;
}

/*
 * Must hold in one of several periods. A busy host may keep a rank from its processor for most of a
 * period, and a lost packet may delay its messages. If credits are distributed unfairly, all
 * periods are unfair.
 */
static bool fair(double seconds)
{
	const double latest = now_s() + patience(60);
	unsigned int i;

	for (i = 0; i < PERIODS; i++)
		if (fair_for(seconds, latest))
			return true;
	return false;
}

/* Check the sums after all ranks have ended. */
static bool right(void)
{
	const unsigned long none[RANKS] = { 0 };
	const struct additions a = added_since(none);
	unsigned int i, lost = 0;

	for (i = 0; i < RANKS; i++)
		lost |= (unsigned int)atomic_load(&shared->lost[i]);
	printf("the sum of %lu additions is %s, ranks lost %#x\n", a.all,
	       atomic_load(&shared->sum) == a.all ? "right" : "WRONG", lost);
	return atomic_load(&shared->sum) == a.all && !lost;
}

/* *waited: messages waited for credit. */
static bool busy_once(struct job *j, const char *kind, double seconds, bool *waited)
{
	const long long before = counter("credits_returned"), out = counter("out_of_credit");
	pid_t pids[RANKS];
	const unsigned int n = start(j, RANKS, (1u << RANKS) - 1, pids);
	bool ok = wait_for(&j->ready, RANKS, j) && idle(kind);

	atomic_store(&shared->go, 1);
	ok &= wait_for(&shared->answered, RANKS, j);
	ok &= fair(seconds);
	atomic_store(&shared->over, 1);
	ok &= wait_for(&shared->done, RANKS, j);
	ok &= right();
	printf("%lld times credits were returned, %lld messages waited for some\n",
	       counter("credits_returned") - before, counter("out_of_credit") - out);
	ok &= counter("credits_returned") > before;
	*waited = counter("out_of_credit") > out;
	return end(pids, n) && ok;
}

/*
 * Whether a message finds its peer without credit is a matter of time: it has to in one of three
 * runs.
 */
static bool busy(struct job *j, const char *kind, double seconds)
{
	bool waited = false;
	unsigned int i;

	for (i = 0; i < 3 && !waited; i++)
		if (!busy_once(j, kind, seconds, &waited))
			return false;
	return waited;
}

/* ---- a peer that sends without credit ------------------------------------------------------- */

static void ignored(struct peer *p, const struct msg *m)
{
	(void)p;
	(void)m;
}

/*
 * The peer requests objects, as many as it likes, which is correct. It never returns credit for the
 * answers.
 */
static void send_without_credit(struct peer *p)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_SYNC,
			       .op = SOP_CREATE,
			       .src = p->liar.me,
			       .dst = p->liar.target,
			       .aux = SYNC_ATOMIC };
	const double latest = now_s() + patience(20);
	unsigned int n = 0;

	while (n < GREEDY_SENDS && !p->broken && now_s() < latest) {
		peer_poll(p, ignored);
		if (p->posted > 48) {
			usleep(100);
			continue;
		}
		peer_post(p, CLASS_SYNC, &m, sizeof(m), NULL);
		n++;
	}
	while (!atomic_load(&shared->lost[p->liar.target]) && now_s() < latest) {
		peer_poll(p, ignored);
		usleep(1000);
	}
}

/* Rank 1 is this program, connected to the other two, which are connected to each other. */
static bool greedy(struct job *j)
{
	static struct peer peers[2];
	unsigned long before, after;
	unsigned int i, n;
	pid_t pids[RANKS];
	bool ok;

	n = start(j, 3, 5, pids);
	ok = wait_for(&j->come, 2, j);
	for (i = 0; i < 2 && ok; i++)
		ok = (peers[i].mr || peer_open(&peers[i])) &&
			peer_begin(&peers[i], 3, GREEDY, (uint16_t)(2 * i));
	if (ok)
		peer_address(peers, 2, j);
	for (i = 0; i < 2 && ok; i++)
		ok = peer_connect(&peers[i], j);
	if (ok) {
		atomic_fetch_add(&j->ready, 1);
		atomic_fetch_add(&j->come, 1);
		ok = wait_for(&j->ready, 3, j);
	}
	atomic_store(&shared->go, 1);
	if (ok) {
		peer_greet(&peers[0], j, 0);
		peers[0].greedy = ~0u;
		send_without_credit(&peers[0]);
		before = atomic_load(&shared->added[2]);
		usleep(500000);
		after = atomic_load(&shared->added[2]);
		printf("a peer without credit: given up by ranks %s%s, the other rank has added %lu times since\n",
		       atomic_load(&shared->lost[0]) == 1 << GREEDY ? "0" : "",
		       atomic_load(&shared->lost[2]) ? "2" : "", after - before);
		ok = atomic_load(&shared->lost[0]) == 1 << GREEDY &&
			!atomic_load(&shared->lost[2]) && after > before;
	}
	atomic_store(&shared->over, 1);
	ok = end(pids, n) && ok;
	for (i = 0; i < 2; i++)
		peer_end(&peers[i]);
	return ok;
}

#define SOFTIRQ_BUDGET "/sys/module/dsm/parameters/test_softirq_budget"
#define SOFTIRQ_MOST "/sys/kernel/debug/dsm/softirq_run_most"
#define SOFTIRQ_FEW 8

/* However many packets come at once, a run of softirq handles so many messages at most. */
static bool budget(struct job *j)
{
	bool ok = file_set(SOFTIRQ_BUDGET, "8") && file_set(SOFTIRQ_MOST, "0") &&
		busy(j, "shared", 1);
	const long long most = counter("softirq_run_most");

	printf("softirq has handled %lld messages at most in one run\n", most);
	return file_set(SOFTIRQ_BUDGET, "0") && ok && most > 0 && most <= SOFTIRQ_FEW;
}

#define NO_SRQ "/sys/module/dsm/parameters/test_no_srq"

int main(int argc, char **argv)
{
	struct job *j;
	bool ok;

	no_arguments(argc, argv, "The receive buffers of dsm.ko");
	module_needed();
	j = job_new();
	shared = shared_memory(sizeof(*shared));
	ok = busy(j, "shared", 2);
	ok &= file_set(NO_SRQ, "1") && busy(j, "of each connection", 1);
	ok &= file_set(NO_SRQ, "0");
	ok &= budget(j);
	ok &= greedy(j);
	return ok ? 0 : 1;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * quota_messages.c - a peer whose messages make the module allocate or work for a rank: states of
 * blocks, tables, keys, frames, and requests that nobody answers.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"
#include "tests/kmod/common_victim.h"
#include "tests/kmod/quota.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- states of blocks ------------------------------------------------------------------------ */

static int place(int fd, uint32_t page, uint32_t rank)
{
	struct dsm_ioc_range p = { .op = DSM_RANGE_PLACE, .page = page, .pages = 1, .write = rank };

	return ioctl(fd, DSM_IOC_RANGE, &p);
}

static long available_kib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[100];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %ld", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib;
}

static struct meeting {
	struct dsm_ioc_key key;
	_Atomic unsigned int come, connected, placed;
} * meeting;

static bool meet(_Atomic unsigned int *place)
{
	double end = now_s() + patience(10);

	atomic_fetch_add(place, 1);
	while (atomic_load(place) < 2 && now_s() < end)
		usleep(1000);
	return expect(atomic_load(place) == 2, "both ranks");
}

/* A rank of a job of two processes; the home of all blocks is rank 0. */
static int big_rank(unsigned int rank)
{
	int fd = rank_open(BIG);

	if (!expect(fd >= 0 && !rank_join(fd, &meeting->key, rank, 2), "JOIN") ||
	    !meet(&meeting->come) ||
	    !expect(!rank_connect(fd, !rank) && !rank_region(fd, (uint32_t)(BIG / PAGE), 0),
		    "CONNECT, REGION") ||
	    !meet(&meeting->connected))
		return -1;
	return fd;
}

/* Naming a page makes its home, rank 0, allocate 20 KiB of state for the 2 MiB around it. */
static pid_t start_placing(void)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	fd = big_rank(1);
	while (fd >= 0 && atomic_load(&meeting->placed) < BIG / PAGE / 512 &&
	       !place(fd, atomic_load(&meeting->placed) * 512, 0))
		atomic_fetch_add(&meeting->placed, 1);
	_exit(0);
}

static bool place_all(void *unused)
{
	struct rlimit limit = { LIMIT, LIMIT };
	const long before = available_kib();
	struct dsm_ioc_lost lost = { .rank = -1 };
	unsigned int placed;
	long taken;
	pid_t other;
	int fd;

	(void)unused;
	if (!expect(!setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit"))
		return false;
	fflush(stdout);
	other = start_placing();
	fd = big_rank(0);
	while (fd >= 0 && !ioctl(fd, DSM_IOC_LOST, &lost) && lost.rank < 0 &&
	       atomic_load(&meeting->placed) < BIG / PAGE / 512)
		usleep(1000);
	taken = before - available_kib();
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	placed = atomic_load(&meeting->placed);
	printf("%u states, %ld KiB, rank %d cannot go on (%s)\n", placed, taken, lost.rank,
	       strerror(-lost.err));
	return expect(placed > 64 && placed * 20480ul <= LIMIT + FREE,
		      "no more states than may be locked") &&
		expect(taken < (long)((4 * LIMIT + 4 * FREE) >> 10), "no more memory than that") &&
		expect(lost.rank == 0 && lost.err == -EDQUOT,
		       "their home is told why it cannot go on");
}

bool quota_states(void)
{
	meeting = shared_memory(sizeof(*meeting));
	new_key(&meeting->key);
	return as_somebody(place_all, NULL);
}

/* ---- tables and keys that a peer over RDMA, and the victim itself, make the module keep ------ */

#define LARGE (1ull << 40) /* a window whose tables need more than the free memory */
#define FREE_PAGES (FREE / PAGE)
/* chunks of a table that the peer asks for, at most; each is a page or more */
#define CHUNKS 128u
#define FOR_CHUNKS 32u   /* pages that the limit leaves for them */
#define LINES_CHUNK 256u /* places per chunk, as in core/queue.h */
#define BARS_CHUNK 16u   /* as in kmod/node/rank.h */

static struct victim victim;

static void heard(struct peer *p, const struct msg *m)
{
	(void)p;
	(void)m;
}

/* A request that queues at the victim takes a place there. Each slot has its own. */
static struct msg line(unsigned int chunk)
{
	return (struct msg){ .type = MSG_SYNC,
			     .op = SOP_WAIT,
			     .object = 1,
			     .req_slot = (uint16_t)(chunk * LINES_CHUNK) };
}

/* The same for a block. The first request is served, but MSG_DONE never comes. */
static struct msg block(unsigned int chunk)
{
	return (struct msg){ .type = MSG_READ_REQ,
			     .object = 1,
			     .req_node = 1,
			     .req_slot = (uint16_t)(chunk * LINES_CHUNK) };
}

static struct msg barrier(unsigned int chunk)
{
	return (struct msg){
		.type = MSG_ARRIVE, .req_node = 1, .object = chunk * BARS_CHUNK, .aux = 1
	};
}

/* Send until the victim is lost, or all messages are sent and completed. */
static bool ask_for_chunks(struct msg (*message)(unsigned int chunk), unsigned int all)
{
	const double end = now_s() + patience(60);
	struct peer *p = &victim.peer;
	unsigned int n = 0;

	peer_greet(p, victim.job, 0);
	while ((n < all || p->posted) && !victim_lost(&victim, 0) && !p->broken && now_s() < end) {
		struct msg m;

		peer_poll(p, heard);
		if (n == all || !peer_may_send(p)) {
			usleep(100);
			continue;
		}
		m = message(n++);
		m.version = WIRE_VERSION;
		m.src = p->liar.me;
		m.dst = p->liar.target;
		if (!expect(!liar_is_wrong(&p->liar, &m, wire_class(m.type)),
			    "what a rank may send"))
			return false;
		peer_post(p, wire_class(m.type), &m, sizeof(m), NULL);
	}
	return expect(!p->broken && now_s() < end, "the messages are taken");
}

/* Wait until at least `pages` pages are charged. */
static long charged_at_least(long pages)
{
	const double end = now_s() + patience(20);

	while (charged() < pages && now_s() < end)
		usleep(1000);
	return charged();
}

/*
 * Without a limit each chunk is charged. With a limit, the victim is told why it is lost, and stays
 * within the limit.
 */
static bool chunks(struct msg (*message)(unsigned int chunk), unsigned int all)
{
	long base, taken;
	bool ok;

	ok = victim_begin(&victim, LARGE, RLIM_INFINITY);
	base = charged();
	ok = ok && ask_for_chunks(message, all) &&
		expect(!victim_lost(&victim, 0), "the victim goes on");
	taken = charged_at_least(base + (long)all) - base;
	printf("%ld pages with the window, %ld more for %u chunks\n", base, taken, all);
	ok = ok && expect(base > (long)FREE_PAGES, "the window takes what is free") &&
		expect(taken >= (long)all, "chunks are charged");
	ok = victim_end(&victim) && ok;
	if (!ok)
		return false;
	ok = victim_begin(&victim, LARGE, (rlim_t)base - FREE_PAGES + FOR_CHUNKS) &&
		ask_for_chunks(message, all) &&
		expect(victim_loses(&victim, 0, heard) && victim_lost(&victim, 0) == -EDQUOT,
		       "the victim is told why it cannot go on") &&
		expect(charged() <= base + (long)FOR_CHUNKS, "it has no more than it may");
	return victim_end(&victim) && ok;
}

bool quota_lines(void)
{
	return chunks(line, CHUNKS);
}

bool quota_blocks(void)
{
	return chunks(block, LIAR_SLOTS / LINES_CHUNK);
}

bool quota_barriers(void)
{
	return chunks(barrier, CHUNKS);
}

/* Pages charged for the first access to 2 MiB, except frames, in a rank that needs no key. */
static long charged_without_key(void)
{
	struct dsm_ioc_key key;
	long before, taken = -1;
	int fd = rank_open(JOB_WINDOW);

	new_key(&key);
	if (!expect(fd >= 0 && !rank_join(fd, &key, 0, 1) && !rank_region(fd, JOB_PAGES, 0),
		    "a rank") ||
	    !expect(mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == JOB_BASE,
		    "its window"))
		return -1;
	before = charged();
	if (expect(!touch(JOB_BASE, true), "an access"))
		taken = charged() - before;
	munmap(JOB_BASE, JOB_WINDOW);
	close(fd);
	return nothing_left(20) ? taken : -1;
}

/* A rank with a peer on another host makes a key on its first access to 2 MiB. */
bool quota_keys(void)
{
	const long without = charged_without_key();
	long base, with;
	bool ok;

	if (without < 0)
		return false;
	ok = victim_begin(&victim, LARGE, RLIM_INFINITY);
	base = charged();
	ok = ok && expect(!victim_do(&victim, VICTIM_WRITE, 0), "an access");
	with = charged() - base;
	printf("%ld pages for 2 MiB, %ld with a key\n", without, with);
	ok = ok && expect(base > (long)FREE_PAGES, "the window takes what is free") &&
		expect(with > without, "a key is charged");
	ok = victim_end(&victim) && ok;
	if (!ok)
		return false;
	ok = victim_begin(&victim, LARGE, (rlim_t)(base + without) - FREE_PAGES + DSM_UNIT_PAGES) &&
		expect(victim_do(&victim, VICTIM_WRITE, 0) == SIGBUS, "no room for a key");
	return victim_end(&victim) && ok;
}

/* ---- blocks that the victim loses ------------------------------------------------------------ */

/* blocks of the victim that the peer asks for, all at once */
#define LENT (512u / (unsigned int)patience(1))
#define LENT_BYTES 64u /* no transaction and no timer is smaller */
/* pages for places in line, which stay */
#define LENT_PLACES ((long)((LENT + LINES_CHUNK - 1) / LINES_CHUNK))
#define LENT_PAGES (LENT_PLACES + (long)(LENT * LENT_BYTES / PAGE))
#define LENT_ROOM (LENT_PLACES + 1) /* pages that the limit leaves */
#define SPARE 1                     /* memory charged by the byte may keep one page charged */
#define HOLD_US DSM_US_MAX

static unsigned int lent; /* blocks that the peer has got */

static void write_all(int fd)
{
	unsigned int i;

	(void)fd;
	for (i = 0; i < LENT; i++)
		touch(JOB_BASE + i * PAGE, true);
}

static void take_block(struct peer *p, const struct msg *m)
{
	if (m->type == MSG_KEY_WANTED)
		peer_give_key(p, m);
	lent += m->type == MSG_GRANT;
}

static struct msg wish(uint8_t type, unsigned int n)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = victim.peer.liar.me,
			     .dst = victim.peer.liar.target,
			     .object = n << 1 | 1,
			     .req_node = victim.peer.liar.me,
			     .req_slot = (uint16_t)n };
}

/*
 * Ask for all blocks. Returns the most pages that are charged meanwhile, and until they are
 * `pages`.
 */
static long most_charged(long pages)
{
	const double end = now_s() + patience(10);
	struct peer *p = &victim.peer;
	unsigned int n = 0;
	long most = 0;

	while ((n < LENT || most < pages) && !victim_lost(&victim, 0) && !p->broken &&
	       lent < LENT && now_s() < end) {
		struct msg m = wish(MSG_WRITE_REQ, n);

		peer_poll(p, take_block);
		if (n < LENT && peer_may_send(p)) {
			peer_post(p, wire_class(m.type), &m, sizeof(m), NULL);
			n++;
		}
		if (n % 16 == 0)
			most = charged() > most ? charged() : most;
	}
	return most;
}

/* Workers take their time to close a page: a transaction lasts as long. */
static bool close_slowly(bool is)
{
	return set_parameter("test_fail_trylock", is ? "1" : "0") &&
		set_parameter("test_slow_entry", is ? "2000000" : "0");
}

/*
 * Keys are charged as well, so they are there before: the answer to an echo is the block, which the
 * victim keeps.
 */
static bool has_written(rlim_t limit)
{
	const double end = now_s() + patience(10);
	bool came, asked = false;

	lent = 0;
	if (!victim_begin(&victim, LARGE, limit))
		return false;
	peer_greet(&victim.peer, victim.job, 0);
	while (!lent && !victim.peer.broken && now_s() < end) {
		peer_poll(&victim.peer, take_block);
		if (!asked && peer_may_send(&victim.peer)) {
			const struct msg echo = wish(MSG_ECHO, 0);

			peer_post(&victim.peer, wire_class(echo.type), &echo, sizeof(echo), NULL);
			asked = true;
		}
	}
	came = lent == 1;
	lent = 0;
	return expect(came, "a block") &&
		expect(charged() > (long)FREE_PAGES, "the window takes what is free");
}

/* All of them are charged while they exist. */
static bool are_charged_at_a_time(bool slowly, long *needed)
{
	const double end = now_s() + patience(40);
	long base, most;
	bool ok = has_written(RLIM_INFINITY) && (!slowly || close_slowly(true));

	base = charged();
	*needed = base - (long)FREE_PAGES + (long)counter("frames");
	most = ok ? most_charged(base + LENT_PAGES) : 0;
	ok = (!slowly || close_slowly(false)) && ok;
	printf("%ld pages, %ld more for %u blocks\n", base, most - base, LENT);
	ok = ok && expect(most >= base + LENT_PAGES, "they are charged");
	while (ok && (lent < LENT || charged() > base + LENT_PLACES + SPARE) && now_s() < end) {
		peer_poll(&victim.peer, take_block);
		usleep(200);
	}
	printf("%u blocks have come, %ld pages are left\n", lent, charged() - base);
	ok = ok &&
		expect(lent == LENT && charged() <= base + LENT_PLACES + SPARE,
		       "and no longer when they have gone") &&
		expect(!victim_lost(&victim, 0) && !victim_lost(&victim, 1), "nobody is lost");
	return victim_end(&victim) && ok;
}

static bool lends(bool slowly)
{
	long needed, base;
	bool ok;

	victim.prepare = write_all;
	ok = are_charged_at_a_time(slowly, &needed);
	ok = ok && has_written((rlim_t)(needed + LENT_ROOM)) && (!slowly || close_slowly(true));
	base = charged();
	ok = ok && most_charged(base + LENT_PAGES) <= base + LENT_ROOM + SPARE &&
		expect(victim_loses(&victim, 0, take_block) && victim_lost(&victim, 0) == -EDQUOT,
		       "the victim is told why it cannot go on");
	ok = (!slowly || close_slowly(false)) && ok;
	victim.prepare = NULL;
	victim.hold_us = 0;
	return victim_end(&victim) && ok;
}

bool quota_transactions(void)
{
	return lends(true);
}

/* The victim keeps a block for a second, and the peer asks before: each request has a timer. */
bool quota_timers(void)
{
	victim.hold_us = HOLD_US;
	return lends(false);
}

/* ---- frames that the victim allocates because of a peer -------------------------------------- */

/* region 0 has the first JOB_PAGES of it */
#define BARE_WINDOW (64ul << 20)
/* the first unit of 2 MiB after region 0, in no region */
#define BARE ((unsigned int)(JOB_PAGES / DSM_UNIT_PAGES))
#define BARE_UNITS 16u /* units that get frames */

static unsigned int granted; /* blocks granted to the peer */

static void count_grant(struct peer *p, const struct msg *m)
{
	(void)p;
	granted += m->type == MSG_GRANT;
}

/* Send a message from the peer to the victim. */
static bool say(struct msg m)
{
	struct peer *p = &victim.peer;
	struct wire_limits limits = liar_limits(&p->liar);

	m.version = WIRE_VERSION;
	m.src = p->liar.me;
	m.dst = p->liar.target;
	limits.pages = (uint32_t)(victim.job->window / PAGE);
	if (!expect(!wire_check(&m, &limits), "what a rank may send"))
		return false;
	peer_post(p, wire_class(m.type), &m, sizeof(m), NULL);
	return true;
}

/*
 * The peer gets a block and gives it back. This is correct if the peer has a region that the victim
 * has left, or not added yet.
 */
static bool give_back(unsigned int unit, double end)
{
	const struct msg m = { .object = (unit * DSM_UNIT_PAGES) << 1 | 1,
			       .req_node = victim.peer.liar.me };
	const unsigned int before = granted;
	struct msg ask = m, done = m, back = m;

	ask.type = MSG_WRITE_REQ;
	done.type = MSG_DONE;
	back.type = MSG_RELEASE;
	back.op = RELEASE_EVICT;
	back.aux = DSM_UNIT_PAGES;
	if (!say(ask))
		return false;
	for (;
	     granted == before && !victim.peer.broken && !victim_lost(&victim, 0) && now_s() < end;
	     usleep(100))
		peer_poll(&victim.peer, count_grant);
	return granted != before && say(done) && say(back);
}

/* Wait until there are at least `pages` frames. */
static long frames_at_least(long pages)
{
	const double end = now_s() + patience(20);

	while (counter("frames") < pages && !victim_lost(&victim, 0) && now_s() < end) {
		peer_poll(&victim.peer, count_grant);
		usleep(1000);
	}
	return (long)counter("frames");
}

/* The victim has no frames at first, and its processes touch no page. */
static unsigned int give_back_all(rlim_t limit)
{
	const double end = now_s() + patience(60);
	unsigned int n = 0;

	granted = 0;
	if (!victim_begin(&victim, BARE_WINDOW, limit) ||
	    !expect(!counter("frames"), "no frames yet"))
		return 0;
	peer_greet(&victim.peer, victim.job, 0);
	while (n < BARE_UNITS && give_back(BARE + n, end))
		n++;
	return n;
}

bool quota_frames(void)
{
	unsigned int n = give_back_all(RLIM_INFINITY);
	long made = frames_at_least((long)(BARE_UNITS * DSM_UNIT_PAGES));
	bool ok = expect(n == BARE_UNITS && made == (long)(BARE_UNITS * DSM_UNIT_PAGES),
			 "frames for each block that is given back") &&
		expect(!victim_lost(&victim, 0), "the victim goes on");

	printf("%u blocks given back: %ld frames\n", n, made);
	ok = victim_end(&victim) && ok;
	if (!ok)
		return false;
	n = give_back_all(LIMIT / PAGE);
	ok = expect(n && victim_loses(&victim, 0, count_grant) &&
			    victim_lost(&victim, 0) == -EDQUOT,
		    "the victim is told why it cannot go on");
	made = (long)counter("frames");
	printf("%u blocks given back to somebody who may lock %lu pages: %ld frames\n", n,
	       LIMIT / PAGE, made);
	ok = ok &&
		expect(made > 0 && made <= (long)(LIMIT / PAGE),
		       "no more frames than may be locked");
	return victim_end(&victim) && ok;
}

#define FOREIGN_MIB 16 /* 8 of these units; the victim has added 4 */

/* A peer gives back more blocks of regions that the victim has not added than the victim takes. */
bool quota_foreign(void)
{
	const long most = FOREIGN_MIB << 8;
	unsigned int n;
	long made;
	bool ok;

	if (!set_parameter("foreign_mib", "16"))
		return false;
	n = give_back_all(RLIM_INFINITY);
	ok = expect(n && victim_loses(&victim, 1, count_grant), "the peer is given up");
	made = (long)counter("frames");
	printf("%u blocks given back to a rank that takes %d MiB: %ld frames\n", n, FOREIGN_MIB,
	       made);
	ok = ok && expect(made == most, "frames for what the rank takes, and no more") &&
		expect(!victim_lost(&victim, 0) && !victim_do(&victim, VICTIM_WRITE, 0),
		       "the victim goes on");
	ok = victim_end(&victim) && ok;
	return set_parameter("foreign_mib", "256") && ok;
}

/* ---- processors ------------------------------------------------------------------------------ */

/*
 * Two ranks each claim that the other is the home, so that they forward a request to each other
 * forever. The requester must get its processor back all the same, and the ranks must be killable.
 */
bool quota_homes(void)
{
	struct dsm_ioc_range ask = { .op = DSM_RANGE_PREFETCH, .pages = 64, .write = 1 };
	int fd[2], page;
	double start;

	if (!two_ranks(fd, JOB_WINDOW, 0, 1))
		return false;
	for (page = 0; page < 64; page++)
		if (!expect(!place(fd[0], page, 1) && !place(fd[1], page, 0), "PLACE"))
			return false;
	start = now_s();
	alarm((unsigned int)patience(10));
	return expect(!ioctl(fd[0], DSM_IOC_RANGE, &ask), "PREFETCH") &&
		expect(now_s() - start < patience(2), "an answer in time");
}

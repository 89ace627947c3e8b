// SPDX-License-Identifier: BSD-2-Clause
/*
 * quota.c - members of the group that use more of dsm.ko than their share: memory, directly and through the messages
 * that they send, contexts, threads, processors (docs/kernel.md, "Security"). Each test is an attack that must fail.
 *
 * Runs in a guest with the module loaded, as root; /dev/dsm is opened to everybody meanwhile. Without arguments all
 * tests run.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"
#include "tests/kmod/common_victim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT (8ul << 20)

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

#define BIG (32ull << 30) /* a window of 16,384 times 2 MiB */
#define FREE (8ul << 20)  /* free memory of a context, not counted as locked */

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

	if (!expect(fd >= 0 && !rank_join(fd, &meeting->key, rank, 2), "JOIN") || !meet(&meeting->come) ||
	    !expect(!rank_connect(fd, !rank) && !rank_region(fd, (uint32_t)(BIG / PAGE), 0), "CONNECT, REGION") ||
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
	printf("%u states, %ld KiB, rank %d cannot go on (%s)\n", placed, taken, lost.rank, strerror(-lost.err));
	return expect(placed > 64 && placed * 20480ul <= LIMIT + FREE, "no more states than may be locked") &&
		expect(taken < (long)((4 * LIMIT + 4 * FREE) >> 10), "no more memory than that") &&
		expect(lost.rank == 0 && lost.err == -EDQUOT, "their home is told why it cannot go on");
}

static bool states(void)
{
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	new_key(&meeting->key);
	return as_somebody(place_all, NULL);
}

/* ---- tables and keys that a peer over RDMA, and the victim itself, make the module keep --------- */

#define LARGE (1ull << 40) /* a window whose tables need more than the free memory */
#define FREE_PAGES (FREE / PAGE)
#define CHUNKS 128u      /* chunks of a table that the peer asks for, at most; each is a page or more */
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
	return (struct msg){
		.type = MSG_SYNC, .op = SOP_WAIT, .object = 1, .req_slot = (uint16_t)(chunk * LINES_CHUNK)
	};
}

/* The same for a block. The first request is served, but MSG_DONE never comes. */
static struct msg block(unsigned int chunk)
{
	return (struct msg){
		.type = MSG_READ_REQ, .object = 1, .req_node = 1, .req_slot = (uint16_t)(chunk * LINES_CHUNK)
	};
}

static struct msg barrier(unsigned int chunk)
{
	return (struct msg){ .type = MSG_ARRIVE, .req_node = 1, .object = chunk * BARS_CHUNK, .aux = 1 };
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
		if (!expect(!liar_is_wrong(&p->liar, &m, wire_class(m.type)), "what a rank may send"))
			return false;
		peer_post(p, wire_class(m.type), &m, sizeof(m), NULL);
	}
	return expect(!p->broken && now_s() < end, "the messages are taken");
}

/* Pages charged to all contexts. */
static long charged(void)
{
	return (long)counter("charged");
}

/* Wait until at least `pages` pages are charged. */
static long charged_at_least(long pages)
{
	const double end = now_s() + patience(20);

	while (charged() < pages && now_s() < end)
		usleep(1000);
	return charged();
}

/* Without a limit each chunk is charged. With a limit, the victim is told why it is lost, and stays within the limit. */
static bool chunks(struct msg (*message)(unsigned int chunk), unsigned int all)
{
	long base, taken;
	bool ok;

	ok = victim_begin(&victim, LARGE, RLIM_INFINITY);
	base = charged();
	ok = ok && ask_for_chunks(message, all) && expect(!victim_lost(&victim, 0), "the victim goes on");
	taken = charged_at_least(base + (long)all) - base;
	printf("%ld pages with the window, %ld more for %u chunks\n", base, taken, all);
	ok = ok && expect(base > (long)FREE_PAGES, "the window takes what is free") &&
		expect(taken >= (long)all, "chunks are charged");
	ok = victim_end(&victim) && ok;
	if (!ok)
		return false;
	ok = victim_begin(&victim, LARGE, (rlim_t)base - FREE_PAGES + FOR_CHUNKS) && ask_for_chunks(message, all) &&
		expect(victim_loses(&victim, 0, heard) && victim_lost(&victim, 0) == -EDQUOT,
		       "the victim is told why it cannot go on") &&
		expect(charged() <= base + (long)FOR_CHUNKS, "it has no more than it may");
	return victim_end(&victim) && ok;
}

static bool lines(void)
{
	return chunks(line, CHUNKS);
}

static bool blocks(void)
{
	return chunks(block, LIAR_SLOTS / LINES_CHUNK);
}

static bool barriers(void)
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
	if (!expect(fd >= 0 && !rank_join(fd, &key, 0, 1) && !rank_region(fd, JOB_PAGES, 0), "a rank") ||
	    !expect(mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) ==
			    JOB_BASE,
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
static bool keys(void)
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

/* ---- frames that the victim allocates because of a peer --------------------------------------- */

#define BARE_WINDOW (64ul << 20)                          /* region 0 has the first JOB_PAGES of it */
#define BARE ((unsigned int)(JOB_PAGES / DSM_UNIT_PAGES)) /* the first unit of 2 MiB after region 0, in no region */
#define BARE_UNITS 16u                                    /* units that get frames */

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
 * The peer gets a block and gives it back. This is correct if the peer has a region that the victim has left, or not added yet.
 */
static bool give_back(unsigned int unit, double end)
{
	const struct msg m = { .object = (unit * DSM_UNIT_PAGES) << 1 | 1, .req_node = victim.peer.liar.me };
	const unsigned int before = granted;
	struct msg ask = m, done = m, back = m;

	ask.type = MSG_WRITE_REQ;
	done.type = MSG_DONE;
	back.type = MSG_RELEASE;
	back.op = RELEASE_EVICT;
	back.aux = DSM_UNIT_PAGES;
	if (!say(ask))
		return false;
	for (; granted == before && !victim.peer.broken && !victim_lost(&victim, 0) && now_s() < end; usleep(100))
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
	if (!victim_begin(&victim, BARE_WINDOW, limit) || !expect(!counter("frames"), "no frames yet"))
		return 0;
	peer_greet(&victim.peer, victim.job, 0);
	while (n < BARE_UNITS && give_back(BARE + n, end))
		n++;
	return n;
}

static bool frames(void)
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
	ok = expect(n && victim_loses(&victim, 0, count_grant) && victim_lost(&victim, 0) == -EDQUOT,
		    "the victim is told why it cannot go on");
	made = (long)counter("frames");
	printf("%u blocks given back to somebody who may lock %lu pages: %ld frames\n", n, LIMIT / PAGE, made);
	ok = ok && expect(made > 0 && made <= (long)(LIMIT / PAGE), "no more frames than may be locked");
	return victim_end(&victim) && ok;
}

#define FOREIGN_MIB 16 /* 8 of these units; the victim has added 4 */

/* A peer gives back more blocks of regions that the victim has not added than the victim takes. */
static bool foreign(void)
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
	printf("%u blocks given back to a rank that takes %d MiB: %ld frames\n", n, FOREIGN_MIB, made);
	ok = ok && expect(made == most, "frames for what the rank takes, and no more") &&
		expect(!victim_lost(&victim, 0) && !victim_do(&victim, VICTIM_WRITE, 0), "the victim goes on");
	ok = victim_end(&victim) && ok;
	return set_parameter("foreign_mib", "256") && ok;
}

/* ---- regions and their tables ------------------------------------------------------------------- */

#define OWNERS DSM_PARTS_MAX
#define OWNERS_BYTES (OWNERS * sizeof(struct dsm_owner))

static int one_region(int fd, uint32_t id, uint32_t op)
{
	static struct dsm_owner owners[OWNERS];
	struct dsm_ioc_region g = { .op = op,
				    .page = id * DSM_UNIT_PAGES,
				    .pages = DSM_UNIT_PAGES,
				    .id = (uint16_t)id,
				    .home = DSM_REGION_PARTS,
				    .arg = 1,
				    .parts = OWNERS,
				    .owners = (uintptr_t)owners };

	return ioctl(fd, DSM_IOC_REGION, &g);
}

/* Shared by the process that adds regions, and by root, which may read the counters. */
static struct crowd {
	_Atomic unsigned int joined, added, removed, go;
	_Atomic unsigned int n; /* number of regions */
	_Atomic int err;        /* error of the region that is refused */
} * crowd;

/* Make each 2 MiB of the window a region, each with its own table of owners. */
static bool regions_all(void *unused)
{
	struct rlimit limit = { LIMIT, LIMIT };
	struct dsm_ioc_key key;
	unsigned int n = 0, i;
	int fd;

	(void)unused;
	new_key(&key);
	if (!expect(!setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit"))
		return false;
	fd = rank_open(BIG);
	if (!expect(fd >= 0 && !rank_join(fd, &key, 0, 1), "a rank"))
		return false;
	atomic_store(&crowd->joined, 1);
	if (!reached(&crowd->go, 1))
		return false;
	while (n < DSM_REGIONS_MAX && !one_region(fd, n, DSM_REGION_ADD))
		n++;
	atomic_store(&crowd->err, errno);
	atomic_store(&crowd->n, n);
	atomic_store(&crowd->added, 1);
	if (!reached(&crowd->go, 2))
		return false;
	for (i = 0; i < n; i++)
		if (!expect(!one_region(fd, i, DSM_REGION_REMOVE), "a region goes"))
			return false;
	atomic_store(&crowd->removed, 1);
	return reached(&crowd->go, 3) && expect(!one_region(fd, 0, DSM_REGION_ADD), "a region can be added again");
}

static bool are_charged(void)
{
	long base, more;
	unsigned int n;
	bool ok;

	if (!expect(reached(&crowd->joined, 1), "a rank without regions"))
		return false;
	base = charged();
	atomic_store(&crowd->go, 1);
	if (!expect(reached(&crowd->added, 1), "regions"))
		return false;
	n = atomic_load(&crowd->n);
	more = charged() - base;
	printf("%u regions with %u owners each: %ld pages, beside %ld\n", n, OWNERS, more, base);
	ok = expect(n && n < DSM_REGIONS_MAX && atomic_load(&crowd->err) == EDQUOT, "there is no memory for another") &&
		expect(n * OWNERS_BYTES <= (unsigned long)more * PAGE, "they are charged") &&
		expect(base + more <= (long)((LIMIT + FREE) / PAGE), "no more than may be locked");
	atomic_store(&crowd->go, 2);
	ok = expect(reached(&crowd->removed, 1) && charged() == base, "all of it is given back") && ok;
	atomic_store(&crowd->go, 3);
	return ok;
}

static bool regions(void)
{
	int status;
	bool ok;
	pid_t pid;

	crowd = mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = start_somebody(regions_all, NULL);
	ok = are_charged();
	return waitpid(pid, &status, 0) == pid && !status && ok;
}

/* ---- contexts, threads ------------------------------------------------------------------------ */

static bool open_all(void *unused)
{
	unsigned int n;

	(void)unused;
	for (n = 0; n < 1000 && open("/dev/dsm", O_RDWR) >= 0; n++)
		;
	printf("%u contexts\n", n);
	return expect(n >= 64 && n < 1000 && errno == EUSERS, "no user has any number of contexts");
}

#define ENOUGH 250u /* contexts, more than a user may have */

/* In a process of root, with or without CAP_SYS_RESOURCE: the number of contexts that it can make, up to ENOUGH; 255: failed. */
static unsigned int open_as_root(bool exempt)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	unsigned int n = 0;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (syscall(SYS_capget, &head, caps))
			_exit(255);
		caps[0].effective &= exempt ? ~0u : ~(1u << CAP_SYS_RESOURCE);
		if (syscall(SYS_capset, &head, caps))
			_exit(255);
		while (n < ENOUGH && open("/dev/dsm", O_RDWR) >= 0)
			n++;
		_exit((int)n);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? (unsigned int)WEXITSTATUS(status) : 255;
}

static bool put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return expect(ok, file);
}

/* As another user of a namespace of SOMEBODY: open until it is refused, and keep the files until *go is 2. */
static void open_as_subuid(unsigned int uid, _Atomic unsigned int *opened, const _Atomic unsigned int *go)
{
	unsigned int n = 0;

	if (setuid(uid))
		_exit(3);
	while (n < 1000 && open("/dev/dsm", O_RDWR) >= 0)
		n++;
	atomic_store(opened, n + 1);
	reached(go, 2);
	_exit(0);
}

/* In a process of SOMEBODY: a namespace with two more users, which open as much as they can. */
static bool namespace_opens(void *shared)
{
	_Atomic unsigned int *n = shared;
	pid_t pids[2];
	unsigned int i;

	if (!expect(!unshare(CLONE_NEWUSER), "a user namespace"))
		return false;
	atomic_store(&n[0], 1);
	if (!reached(&n[1], 1)) /* the map is written */
		return false;
	for (i = 0; i < 2; i++) {
		fflush(stdout);
		pids[i] = fork();
		if (!pids[i])
			open_as_subuid(i + 1, &n[2 + i], &n[1]);
		if (!reached(&n[2 + i], 1))
			return false;
	}
	atomic_store(&n[1], 2);
	for (i = 0; i < 2; i++)
		waitpid(pids[i], NULL, 0);
	return true;
}

/* All users of a namespace count as its owner. */
static bool namespaces(void)
{
	_Atomic unsigned int *n = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char path[64];
	bool ok;
	int status;
	pid_t pid = start_somebody(namespace_opens, n);

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	ok = expect(reached(&n[0], 1), "a user namespace") && put(path, "0 1234 1\n1 100000 2");
	atomic_store(&n[1], 1);
	ok = expect(waitpid(pid, &status, 0) == pid && !status, "users of a namespace") && ok;
	printf("%u and %u contexts of two users of a namespace\n", n[2] - 1, n[3] - 1);
	return expect(n[2] > 64 && n[2] < ENOUGH && n[3] == 1, "users of a namespace share its owner's limit") && ok;
}

static bool contexts(void)
{
	struct rlimit files = { 2000, 2000 };
	unsigned int with, without;

	setrlimit(RLIMIT_NOFILE, &files);
	with = open_as_root(true);
	without = open_as_root(false);
	printf("%u contexts of root, %u without CAP_SYS_RESOURCE\n", with, without);
	return expect(with == ENOUGH, "who has CAP_SYS_RESOURCE is exempt") &&
		expect(without >= 64 && without < ENOUGH, "nobody else is, root or not") &&
		as_somebody(open_all, NULL) && namespaces();
}

/* Processor time of all polling threads, in ticks of 10 ms. */
static unsigned long polled(void)
{
	unsigned long ticks = 0, user, kernel;
	char path[300], line[400];
	struct dirent *e;
	DIR *d = opendir("/proc");
	FILE *f;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = fopen(path, "r");
		if (f && fgets(line, sizeof(line), f) && strstr(line, "(dsm-poll)") &&
		    sscanf(strchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			   &kernel) == 2)
			ticks += user + kernel;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return ticks;
}

/* Let all polling threads run for two seconds, with nothing to poll for. */
static bool idle(void)
{
	unsigned long before, took;

	usleep(200000);
	before = polled();
	usleep(2000000);
	took = polled() - before;
	printf("%lu0 ms of processors while nothing came\n", took);
	return took < 40;
}

static bool poll_all(void *unused)
{
	(void)unused;
	return expect(join_by_rdma(DSM_MODE_POLL) >= 0 && join_by_rdma(DSM_MODE_POLL) >= 0, "two ranks that poll") &&
		expect(idle(), "threads that poll leave the processors alone while nothing comes") &&
		refused(join_by_rdma(DSM_MODE_POLL), EUSERS, "a third one") &&
		expect(join_by_rdma(DSM_MODE_SOFTIRQ) >= 0, "a rank that does not poll");
}

/* Polling threads belong to no process, and may each take a whole processor. */
static bool pollers(void)
{
	bool ok = set_parameter("max_pollers", "8") && as_somebody(poll_all, NULL);

	return set_parameter("max_pollers", "64") && ok;
}

#define GROUPS "/tmp/dsm-groups"
#define GROUP GROUPS "/quota"

static long charged_kib(void)
{
	FILE *f = fopen(GROUP "/memory.current", "r");
	long bytes = -1;

	if (!f || fscanf(f, "%ld", &bytes) != 1)
		bytes = -1;
	if (f)
		fclose(f);
	return bytes / 1024;
}

#define ATTACHED (8 * (2l << 20)) /* an attached process begins here */

/* Another process of the node, of another cgroup: its accesses are charged to that of the context. */
static bool group_attached(int fd, uint64_t size)
{
	struct dsm_ioc_attach a = { .fd = fd };
	int mine = open("/dev/dsm", O_RDWR), i;

	if (!put(GROUPS "/cgroup.procs", "0") ||
	    !expect(mine >= 0 && !ioctl(mine, DSM_IOC_ATTACH, &a) && !rank_region(mine, (uint32_t)(size / PAGE), 0),
		    "ATTACH") ||
	    !expect(mmap(JOB_BASE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, mine, 0) !=
			    MAP_FAILED,
		    "its window"))
		return false;
	for (i = 0; i < 8; i++)
		if (!expect(!touch(JOB_BASE + ATTACHED + i * (2l << 20), true), "an access of an attached process"))
			return false;
	return true;
}

/*
 * Frames and tables are charged to the memory cgroup of the process. The kernel charges in units of up to 256 KiB per processor.
 */
static bool group_rank(void)
{
	const uint64_t size = 256ull << 30;
	struct dsm_ioc_key key;
	long before, tables, frames, others;
	int fd, i, status = -1;
	pid_t pid;

	new_key(&key);
	catch_signals();
	if (!put(GROUP "/cgroup.procs", "0"))
		return false;
	before = charged_kib();
	fd = rank_open(size);
	if (!expect(fd >= 0 && !rank_join(fd, &key, 0, 1) && !rank_region(fd, (uint32_t)(size / PAGE), 0), "a rank") ||
	    !expect(mmap(JOB_BASE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != MAP_FAILED,
		    "its window"))
		return false;
	tables = charged_kib() - before;
	for (i = 0; i < 8; i++)
		if (!expect(!touch(JOB_BASE + i * (2l << 20), true), "an access"))
			return false;
	frames = charged_kib() - before - tables;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		bool ok = group_attached(fd, size);

		fflush(stdout);
		_exit(!ok);
	}
	waitpid(pid, &status, 0);
	others = charged_kib() - before - tables - frames;
	printf("%ld KiB of tables, %ld KiB for 16 MiB, %ld KiB for 16 MiB of an attached process in another group\n",
	       tables, frames, others);
	return !status && expect(others >= 16000, "frames of an attached process are charged to the same group") &&
		expect(tables > 1024, "tables are charged") && expect(frames >= 16000, "frames are charged");
}

static bool cgroup(void)
{
	pid_t pid;
	int status = -1;

	mkdir(GROUPS, 0700);
	if (!expect(!mount("none", GROUPS, "cgroup2", 0, NULL), "cgroup2") ||
	    !put(GROUPS "/cgroup.subtree_control", "+memory") || !expect(!mkdir(GROUP, 0700), GROUP))
		return false;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		bool ok = group_rank();

		fflush(stdout);
		_exit(!ok);
	}
	waitpid(pid, &status, 0);
	/* A worker frees the rank's memory soon afterwards. */
	return nothing_left(20) && expect(!rmdir(GROUP), "rmdir " GROUP) && expect(!umount(GROUPS), "umount " GROUPS) &&
		!status;
}

/*
 * Two ranks each claim that the other is the home, so that they forward a request to each other forever. The requester must get
 * its processor back all the same, and the ranks must be killable.
 */
static bool homes(void)
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

int main(int argc, char **argv)
{
	static const struct attack attacks[] = {
		{ "states", states }, { "lines", lines },       { "blocks", blocks },   { "barriers", barriers },
		{ "keys", keys },     { "frames", frames },     { "foreign", foreign }, { "regions", regions },
		{ "cgroup", cgroup }, { "contexts", contexts }, { "pollers", pollers }, { "homes", homes },
	};

	return attacks_main(argc, argv, attacks, sizeof(attacks) / sizeof(attacks[0]));
}

// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_victim.h"

#include "tests/kmod/common_trust.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define VICTIM 0u
#define PEER 1u
#define RANKS 2u

struct victim_shared {
	_Atomic unsigned int order, page, prepared;
	_Atomic uint64_t result;
	_Atomic int lost[RANKS];
	struct dsm_ioc_call call;
};

/* ---- the victim ----------------------------------------------------------------------------- */

static uint64_t forget(const struct job *j, int fd)
{
	struct dsm_ioc_range r = { .op = DSM_RANGE_FORGET, .pages = DSM_UNIT_PAGES };

	return job_region(j, fd, DSM_REGION_REMOVE) || ioctl(fd, DSM_IOC_RANGE, &r)
		? (uint64_t)errno
		: 0;
}

static uint64_t make_call(int fd, struct dsm_ioc_call *c)
{
	return ioctl(fd, DSM_IOC_CALL, c) ? (uint64_t)errno : (uint64_t)(int64_t)c->status;
}

/*
 * The argument of the last VICTIM_CALL or VICTIM_CHILD. It has one address, by which the module
 * recognises a repeated call.
 */
static struct dsm_ioc_call called;

static sigjmp_buf out_of_call;

static void leave_call(int sig)
{
	(void)sig;
	siglongjmp(out_of_call, 1);
}

static uint64_t make_called(int fd)
{
	const struct sigaction leave = { .sa_handler = leave_call },
			       ignore = { .sa_handler = SIG_IGN };
	volatile uint64_t result = EINPROGRESS;

	if (!sigsetjmp(out_of_call, 1)) {
		sigaction(SIGUSR1, &leave, NULL);
		result = make_call(fd, &called);
	}
	sigaction(SIGUSR1, &ignore, NULL);
	return result;
}

static uint64_t cancel(int fd)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_CANCEL, .value = (uintptr_t)&called };

	return ioctl(fd, DSM_IOC_CALL, &c) ? (uint64_t)errno : (uint64_t)(int64_t)called.status;
}

static uint64_t begin_child(const struct job *j, int of)
{
	const pid_t pid = fork();
	int fd;

	if (pid)
		return (uint64_t)pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = job_attach(j, of);
	if (fd < 0)
		_exit(1);
	make_call(fd, &called);
	cancel(fd);
	_exit(2);
}

static uint64_t obey(const struct job *j, int fd, enum victim_order order, unsigned int page)
{
	struct dsm_ioc_call other = { .call = DSM_CALL_BARRIER, .object = 1, .value2 = 1 };
	char *at = JOB_BASE + page * PAGE;

	switch (order) {
	case VICTIM_CALL: return make_called(fd);
	case VICTIM_CANCEL: return cancel(fd);
	case VICTIM_OTHER: return make_call(fd, &other);
	case VICTIM_CHILD: return begin_child(j, fd);
	case VICTIM_REAP: return (uint64_t)wait(NULL);
	case VICTIM_WRITE: return (uint64_t)touch(at, true);
	case VICTIM_READ: return *(volatile uint64_t *)at;
	case VICTIM_FORGET: return forget(j, fd);
	case VICTIM_REST: break;
	}
	return 0;
}

static void serve(struct victim *v)
{
	struct victim_shared *s = v->shared;
	const int fd = job_join(v->job, VICTIM);

	if (fd < 0)
		_exit(3);
	catch_signals();
	if (v->prepare)
		v->prepare(fd);
	atomic_store(&s->prepared, 1);
	for (;; usleep(200)) {
		const enum victim_order order = (enum victim_order)atomic_load(&s->order);
		struct dsm_ioc_lost l;

		if (!ioctl(fd, DSM_IOC_LOST, &l) && l.rank >= 0 && l.rank < (int)RANKS)
			atomic_store(&s->lost[l.rank], l.err);
		if (order == VICTIM_REST)
			continue;
		if (order == VICTIM_CALL || order == VICTIM_CHILD)
			called = s->call;
		atomic_store(&s->result, obey(v->job, fd, order, atomic_load(&s->page)));
		atomic_store(&s->order, VICTIM_REST);
	}
}

static bool be_victim(void *victim)
{
	serve(victim);
	return false;
}

/* ---- attackers ------------------------------------------------------------------------------ */

static bool has_come(struct job *j, const _Atomic unsigned int *place, unsigned int n)
{
	const double end = now_s() + patience(60);

	while (atomic_load(place) < n && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	errno = -atomic_load(&j->failed);
	return atomic_load(place) >= n;
}

bool victim_begin(struct victim *v, uint64_t window, rlim_t limit)
{
	struct job *j = v->job ? v->job : job_new();

	if (!v->shared)
		v->shared = shared_memory(sizeof(*v->shared));
	v->job = j;
	memset(v->shared, 0, sizeof(*v->shared));
	job_set(j, RANKS, true);
	j->window = window;
	j->home = DSM_REGION_FIXED; /* rank 0 */
	j->pages = v->pages;
	j->order = v->order;
	j->hold_us = v->hold_us;
	if (limit == RLIM_INFINITY) {
		fflush(stdout);
		v->pid = fork();
		if (!v->pid)
			serve(v);
	} else {
		struct rlimit before, now;

		getrlimit(RLIMIT_MEMLOCK, &before);
		now = (struct rlimit){ limit * PAGE, limit * PAGE };
		setrlimit(RLIMIT_MEMLOCK, &now);
		v->pid = start_somebody(be_victim, v);
		setrlimit(RLIMIT_MEMLOCK, &before);
	}
	if (!expect(has_come(j, &j->come, 1), "the victim joins") ||
	    !(v->peer.mr || peer_open(&v->peer)) || !peer_begin(&v->peer, RANKS, PEER, VICTIM))
		return false;
	peer_address(&v->peer, 1, j);
	if (!peer_connect(&v->peer, j))
		return false;
	atomic_fetch_add(&j->ready, 1);
	atomic_fetch_add(&j->come, 1);
	return expect(has_come(j, &j->ready, RANKS), "the victim connects") &&
		expect(has_come(j, &v->shared->prepared, 1), "the victim is prepared");
}

bool victim_end(struct victim *v)
{
	bool ok = v->pid > 0;

	if (ok) {
		kill(v->pid, SIGKILL);
		ok = job_reap(&v->pid, 1, 60);
	}
	v->pid = 0;
	peer_end(&v->peer);
	return nothing_left(20) && ok;
}

void victim_order(struct victim *v, enum victim_order order, uint32_t page)
{
	atomic_store(&v->shared->page, page);
	atomic_store(&v->shared->order, order);
}

void victim_call(struct victim *v, const struct dsm_ioc_call *c)
{
	v->shared->call = *c;
}

uint64_t victim_result(struct victim *v)
{
	const double end = now_s() + patience(60);

	while (atomic_load(&v->shared->order) != VICTIM_REST && now_s() < end)
		usleep(200);
	return atomic_load(&v->shared->order) == VICTIM_REST ? atomic_load(&v->shared->result)
							     : ~0ull;
}

uint64_t victim_do(struct victim *v, enum victim_order order, uint32_t page)
{
	victim_order(v, order, page);
	return victim_result(v);
}

int victim_lost(const struct victim *v, unsigned int rank)
{
	return atomic_load(&v->shared->lost[rank]);
}

bool victim_loses(struct victim *v, unsigned int rank,
		  void (*heard)(struct peer *p, const struct msg *m))
{
	const double end = now_s() + patience(20);

	while (!victim_lost(v, rank) && now_s() < end) {
		peer_poll(&v->peer, heard);
		usleep(200);
	}
	return victim_lost(v, rank);
}

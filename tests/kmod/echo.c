// SPDX-License-Identifier: BSD-2-Clause
/*
 * echo.c - only the rank that was asked may answer an echo (DSM_RANGE_ECHO), and only once; the
 * answer is 32 bits of immediate data. Rank 0 is a context of dsm.ko; the others are this program,
 * by verbs from user space. Rank 1 is asked. Rank 2 answers first: rank 0 gives it up, and the echo
 * still waits. Rank 1's answer completes the echo. A second answer makes rank 1 lost, too.
 *
 * Runs in a guest with the module loaded and an RDMA device.
 */
#include "tests/kmod/common_peer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CONTEXT, HOME, OTHER, RANKS };

static struct {
	_Atomic int result; /* result of the echo */
	_Atomic unsigned int ended, lost;
} * shared;
static int asked = -1; /* the slot in which the home must answer */

static void *ask(void *arg)
{
	struct dsm_ioc_range r = { .op = DSM_RANGE_ECHO, .page = HOME, .pages = 1 };

	atomic_store(&shared->result, ioctl(*(int *)arg, DSM_IOC_RANGE, &r) ? -errno : 0);
	atomic_store(&shared->ended, 1);
	return NULL;
}

static void context(struct job *j)
{
	pthread_t thread;
	int fd = job_join(j, CONTEXT);

	if (fd < 0 || pthread_create(&thread, NULL, ask, &fd))
		_exit(1);
	for (;;) {
		struct dsm_ioc_lost l;

		if (!ioctl(fd, DSM_IOC_LOST, &l) && l.rank >= 0)
			atomic_fetch_or(&shared->lost, 1u << l.rank);
		usleep(1000);
	}
}

static void heard(struct peer *p, const struct msg *m)
{
	if (p->liar.me == HOME && m->type == MSG_ECHO)
		asked = m->req_slot;
}

static void answer(struct peer *p)
{
	const struct word_KERNEL_ECHO w = { .valid = 1, .echo = 1, .slot = (uint32_t)asked };
	const struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					.imm_data = __builtin_bswap32(word_put_KERNEL_ECHO(w)) };

	peer_post(p, CLASS_DATA, NULL, 0, &wr);
}

static bool connected(struct job *j, struct peer *peers)
{
	unsigned int i;
	bool ok = reached(&j->come, 1);

	for (i = 0; i < 2 && ok; i++) {
		ok = peer_open(&peers[i]) &&
			peer_begin(&peers[i], RANKS, (uint16_t)(HOME + i), CONTEXT);
		if (ok)
			peer_address(&peers[i], 1, j);
		ok = ok && peer_connect(&peers[i], j);
	}
	for (i = 0; i < 2 && ok; i++) {
		atomic_fetch_add(&j->ready, 1);
		atomic_fetch_add(&j->come, 1);
	}
	ok = ok && reached(&j->ready, RANKS);
	for (i = 0; i < 2 && ok; i++)
		peer_greet(&peers[i], j, 0);
	return ok;
}

static bool is_lost(unsigned int rank)
{
	const double end = now_s() + patience(20);

	while (!(atomic_load(&shared->lost) >> rank & 1) && now_s() < end)
		usleep(1000);
	return atomic_load(&shared->lost) >> rank & 1;
}

static bool echoes(struct peer *peers)
{
	const double end = now_s() + patience(20);
	bool ok;

	while (asked < 0 && now_s() < end) {
		peer_poll(&peers[0], heard);
		usleep(1000);
	}
	if (!it_holds(asked >= 0, "the home is asked"))
		return false;
	answer(&peers[1]);
	ok = it_holds(is_lost(OTHER), "a rank that was not asked is given up") &&
		it_holds(!atomic_load(&shared->ended), "the echo waits");
	answer(&peers[0]);
	ok = ok &&
		it_holds(reached(&shared->ended, 1) && !atomic_load(&shared->result),
			 "the home's answer ends it") &&
		it_holds(!(atomic_load(&shared->lost) >> HOME & 1), "the home is not lost");
	answer(&peers[0]);
	return ok && it_holds(is_lost(HOME), "a home that answers twice is given up");
}

int main(void)
{
	static struct peer peers[2];
	struct job *j;
	pid_t pid;
	bool ok;

	module_needed();
	j = job_new();
	shared = shared_memory(sizeof(*shared));
	job_set(j, RANKS, true);
	j->home = DSM_REGION_CYCLIC;
	pid = fork();
	if (!pid)
		context(j);
	ok = it_holds(connected(j, peers), "the ranks connect") && echoes(peers);
	kill(pid, SIGKILL);
	ok &= job_reap(&pid, 1, 60) && nothing_left(20);
	printf("an echo that another rank answers: %s\n", ok ? "ok" : "FAILED");
	return ok ? 0 : 1;
}

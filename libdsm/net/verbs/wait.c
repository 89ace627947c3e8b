// SPDX-License-Identifier: BSD-2-Clause
/*
 * wait.c - sleeping. Each queue has an event channel, on which a thread of its own sleeps, on the
 * processors of the queue's group; a rank that waits for a message, or computes, burns no
 * processor.
 *
 * While some thread polls, queues are not armed: the poller would take everything before a woken
 * thread came. The last poller to stop arms them, and then checks that nothing had arrived.
 * queue.armed: an event is due, or on its way to the thread.
 *
 * While nobody waits, queues are armed for solicited completions only, and answers are sent
 * unsolicited (cfg.waited): a polling thread takes its answer without an event, which would wake
 * another thread in vain and cannot be disarmed. A thread that sleeps is woken for everything.
 *
 *   poller                          thread
 *   pollers: 1 -> 0                 armed: 1 -> 0, for its event came
 *   armed? then leave it to the     pollers? then leave it to them, and sleep
 *   thread; else arm, take
 *
 * All of these are sequentially consistent, so at least one of the two sees what the other has
 * written first.
 *
 * Without cfg.thread there are no threads: then fd covers the queues too, and arm arms them.
 */
#include "net/verbs/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "net/verbs/conn.h"
#include "net/verbs/recv.h"
#include "net/verbs/send.h"
#include "util/log.h"

#define PATIENCE_MAX 16 /* polls without a completion, before a busy thread sleeps */
#define BURST 64        /* completions, before a thread checks for other work */
#define NO_DEVICE 0xffffffffu

/* ---- arming ---------------------------------------------------------------------------------- */

enum arming { ARMED_NOT = 0, ARMED_SOLICITED, ARMED_ANY };

static void arm_queue(struct queue *q)
{
	const struct net *n = q->net;
	const bool all =
		!n->threads || !n->set.solicit || atomic_load(&n->waiters) || atomic_load(&n->due);
	const int how = all ? ARMED_ANY : ARMED_SOLICITED;

	pthread_mutex_lock(&q->lock);
	if (atomic_load(&q->armed) < how) {
		atomic_store(&q->armed, how);
		ibv_req_notify_cq(q->cq, how == ARMED_SOLICITED);
		verbs_count(&q->net->count.arms, 1);
	}
	pthread_mutex_unlock(&q->lock);
}

/* The queue may be armed for too few completions now: pollers arm it anew, others have it armed. */
void wait_due(const struct lane *l, int delta)
{
	struct net *n = l->peer->net;

	atomic_fetch_add(&n->due, delta);
	if (delta > 0 && n->set.solicit && !atomic_load(&n->pollers))
		conn_kick(n);
}

/*
 * Take the event that has come, if any. One arming causes at most one event. A second one comes if
 * the queue was armed for more while the first was in flight; it is superfluous.
 */
static void clear_event(struct queue *q)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(q->channel, &cq, &context))
		return;
	ibv_ack_cq_events(q->cq, 1);
	atomic_store(&q->armed, ARMED_NOT);
	atomic_fetch_add_explicit(&q->events, 1, memory_order_relaxed);
	cqgroup_count(q->group, (unsigned int)q->vector, 1, 0);
}

/* Arm all queues, and handle what had arrived before. */
static bool arm_all(struct net *n)
{
	unsigned int d, i, delivered = 0;
	bool any = false;

	for (d = 0; d < n->ndevs; d++)
		for (i = 0; i < n->devs[d].nqueues; i++) {
			struct queue *q = &n->devs[d].queues[i];

			if (!n->threads)
				clear_event(q);
			arm_queue(q);
			while (queue_serve(q, BURST, true, &delivered) > 0)
				any = true;
		}
	return any;
}

int verbs_arm(struct net *n)
{
	conn_serve(n, true);
	if (!n->threads || !atomic_load(&n->pollers))
		if (arm_all(n))
			return -EBUSY;
	return atomic_load(&n->pending) ? -EBUSY : 0;
}

int verbs_wait_step(struct net *n, enum net_wait_step next)
{
	if (next == NET_WAIT_BEGIN)
		atomic_fetch_add(&n->waiters, 1);
	if (next == NET_WAIT_END)
		atomic_fetch_sub(&n->waiters, 1);
	if (next == NET_WAIT_BEGIN || next == NET_WAIT_POLL) {
		atomic_fetch_add(&n->pollers, 1);
		return 0;
	}
	if (atomic_fetch_sub(&n->pollers, 1) > 1)
		return 0;
	return arm_all(n) || atomic_load(&n->pending) ? -EBUSY : 0;
}

int verbs_fd(struct net *n)
{
	return n->epfd;
}

/* ---- threads --------------------------------------------------------------------------------- */

static bool verbs_is_stopping(struct net *n)
{
	return atomic_load(&n->closing);
}

/*
 * Serve the queue until it has been empty for a while, or another thread polls: bursts are waited
 * for.
 */
static void serve_burst(struct queue *q, unsigned int *patience)
{
	struct net *n = q->net;
	unsigned int idle = 0, delivered = 0;

	while (!verbs_is_stopping(n) && !atomic_load(&n->pollers)) {
		if (queue_serve(q, BURST, true, &delivered) > 0) {
			idle = 0;
			continue;
		}
		if (idle++ < *patience) {
			sched_yield();
			continue;
		}
		arm_queue(q);
		if (queue_serve(q, BURST, true, &delivered) <= 0) {
			*patience /= 2;
			return;
		}
		*patience = *patience * 2 + 1 < PATIENCE_MAX ? *patience * 2 + 1 : PATIENCE_MAX;
		idle = 0;
	}
}

static void *queue_thread(void *arg)
{
	struct queue *q = arg;
	struct net *n = q->net;
	struct pollfd fds[2] = { { .fd = q->channel->fd, .events = POLLIN },
				 { .fd = n->stop, .events = POLLIN } };
	unsigned int patience = 0;
	char name[16];

	snprintf(name, sizeof(name), "dsm-%.11s", cqgroup_name(q->group));
	prctl(PR_SET_NAME, name);
	n->cfg.thread(n->cfg.arg);
	cqgroup_bind_thread(q->group);
	while (!verbs_is_stopping(n)) {
		serve_burst(q, &patience);
		if (poll(fds, 2, -1) > 0 && (fds[0].revents & POLLIN))
			clear_event(q);
	}
	return NULL;
}

int wait_threads_start(struct net *n)
{
	sigset_t all, old;
	unsigned int d, i;
	int err = 0;

	if (!n->cfg.thread || n->threads)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	n->threads = true;
	for (d = 0; d < n->ndevs && !err; d++)
		for (i = 0; i < n->devs[d].nqueues && !err; i++) {
			struct queue *q = &n->devs[d].queues[i];

			err = -pthread_create(&q->thread, NULL, queue_thread, q);
			q->has_thread = !err;
		}
	if (!n->set.direct && !err)
		err = send_thread_start(n);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

void wait_threads_stop(struct net *n)
{
	unsigned int d, i;
	uint64_t one = 1;

	atomic_store(&n->closing, true);
	if (write(n->stop, &one, sizeof(one)) < 0)
		log_line("RDMA: threads are not stopped: %s", strerror(errno));
	for (d = 0; d < n->ndevs; d++)
		for (i = 0; i < n->devs[d].nqueues; i++) {
			struct queue *q = &n->devs[d].queues[i];

			if (q->has_thread)
				pthread_join(q->thread, NULL);
			q->has_thread = false;
		}
	send_thread_stop(n);
	n->threads = false;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static int verbs_watch(struct net *n, int fd, uint32_t device)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = (uint64_t)(uint32_t)fd << 32 | device };

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return epoll_ctl(n->epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int wait_open(struct net *n)
{
	unsigned int d, i;
	int err = 0;

	n->epfd = epoll_create1(EPOLL_CLOEXEC);
	n->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	n->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (n->epfd < 0 || n->timer < 0 || n->kick < 0 || n->stop < 0)
		err = -errno;
	if (!err)
		err = verbs_watch(n, n->timer, NO_DEVICE);
	if (!err)
		err = verbs_watch(n, n->kick, NO_DEVICE);
	for (d = 0; d < n->ndevs && !err; d++) {
		err = verbs_watch(n, n->devs[d].ctx->async_fd, d);
		if (!err)
			err = verbs_watch(n, n->devs[d].ud.channel->fd, d);
		for (i = 0; i < n->devs[d].nqueues && !err; i++) {
			int fd = n->devs[d].queues[i].channel->fd;

			fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
			if (!n->cfg.thread)
				err = verbs_watch(n, fd, NO_DEVICE);
		}
	}
	if (err) {
		log_line("RDMA: no descriptors to sleep on: %s (`ulimit -n`)", strerror(-err));
		wait_close(n);
	}
	return err;
}

void wait_close(struct net *n)
{
	int *const fds[] = { &n->epfd, &n->timer, &n->kick, &n->stop };
	unsigned int i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

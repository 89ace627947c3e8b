// SPDX-License-Identifier: BSD-2-Clause
/*
 * conns.c - the thread that makes connections. It asks the owner of librshare, which takes memory
 * and a round trip through a socket: a thread that sends during a miss must not do that.
 */
#include "net/shared/conns.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "net/shared/lane.h"
#include "net/shared/receive.h"
#include "util/log.h"

#define STARVED_MS 5 /* memory of the pool is freed without a notification */

static unsigned int stride_of(unsigned int kind)
{
	return (unsigned int)sizeof(struct shared_frame) + lane_kinds[kind].room;
}

uint64_t conns_memory(void)
{
	uint64_t bytes = 0;
	unsigned int k;

	for (k = 0; k < KINDS; k++)
		bytes += (uint64_t)lane_kinds[k].receives * stride_of(k) + 1024 +
			RELEASES * sizeof(struct shared_frame);
	return bytes;
}

/* ---- wanted lanes --------------------------------------------------------------------------- */

static void conns_wake(struct net *n)
{
	const uint64_t one = 1;

	if (write(n->wake, &one, sizeof(one)) != sizeof(one))
		return; /* readable already */
}

void conns_want(struct lane *l)
{
	struct net *n = l->peer->net;
	bool was;

	pthread_mutex_lock(&n->leaf);
	was = l->wanted;
	if (!was) {
		l->wanted = true;
		l->next_wanted = n->wanted;
		n->wanted = l;
	}
	pthread_mutex_unlock(&n->leaf);
	if (!was)
		conns_wake(n);
}

static struct lane *next_wanted(struct net *n)
{
	struct lane *l;

	pthread_mutex_lock(&n->leaf);
	l = n->wanted;
	if (l) {
		n->wanted = l->next_wanted;
		l->wanted = false;
	}
	pthread_mutex_unlock(&n->leaf);
	return l;
}

static int conns_watch(struct net *n, struct rshare_conn *c, union source s)
{
	const int fd = rshare_fd(c);
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = s.word };

	return fd < 0 ? fd : epoll_ctl(n->epfd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int post_releases(struct net *n, struct lane *l, struct rshare_conn *c)
{
	unsigned int i;
	int err = 0;

	l->releases = rshare_get(n->r, RELEASES * sizeof(struct shared_frame));
	if (!l->releases)
		return -ENOMEM;
	for (i = 0; i < RELEASES && !err; i++)
		err = rshare_recv(c, l->releases + i * sizeof(struct shared_frame),
				  sizeof(struct shared_frame), i);
	return err;
}

static void connect_lane(struct net *n, struct lane *l)
{
	const struct peer *p = l->peer;
	struct rshare_conn *c;
	int err = rshare_connect(n->r, p->node, (uint32_t)p->rank * KINDS + l->kind,
				 lane_kinds[l->kind].priority, lane_kinds[l->kind].weight, &c);

	if (!err) {
		err = post_releases(n, l, c);
		if (err)
			rshare_disconnect(c, 0);
	}
	if (err == -ECONNRESET) {
		atomic_store(&n->dead, true);
	} else if (err) {
		log_line("no connection to rank %d at %s: %s", p->rank, p->node, strerror(-err));
		lane_fail(l, err);
	} else {
		lane_opened(l, c);
		pthread_mutex_lock(&n->lock);
		l->next = n->lanes;
		n->lanes = l;
		pthread_mutex_unlock(&n->lock);
	}
}

static void watch_lane(struct net *n, struct lane *l)
{
	if (l->watched || atomic_load(&l->state) != LANE_OPEN)
		return;
	if (conns_watch(n, l->conn, (union source){ .word = (uintptr_t)l | SOURCE_LANE })) {
		log_line("no file descriptor for a connection to rank %d; raise `ulimit -n`",
			 l->peer->rank);
		lane_fail(l, -EMFILE);
		return;
	}
	pthread_mutex_lock(&l->lock);
	l->watched = true;
	pthread_mutex_unlock(&l->lock);
	lane_serve(l, false);
}

/* ---- connections of others ------------------------------------------------------------------ */

static struct in *in_create(struct net *n, unsigned int kind, struct rshare_conn *c)
{
	const unsigned int k = lane_kinds[kind].receives;
	struct in *in = own_zalloc(sizeof(*in) + k * sizeof(in->items[0]));

	if (!in)
		return NULL;
	in->net = n;
	in->conn = c;
	in->rank = -1;
	in->kind = (uint8_t)kind;
	in->buffers = k;
	in->stride = stride_of(kind);
	in->reads_end = &in->reading;
	in->memory = rshare_get(n->r, (size_t)k * in->stride + sizeof(struct shared_frame));
	if (in->memory)
		return in;
	own_free(in);
	return NULL;
}

static void accept_one(struct net *n, unsigned int kind, struct rshare_conn *c)
{
	struct in *in = in_create(n, kind, c);
	unsigned int i;
	int err = in ? 0 : -ENOMEM;

	for (i = 0; !err && i < in->buffers; i++)
		err = rshare_recv(c, in->memory + i * in->stride, in->stride, i);
	if (!err)
		err = rshare_set_priority(c, lane_kinds[kind].priority, lane_kinds[kind].weight);
	if (!err)
		err = conns_watch(n, c, (union source){ .ptr = in });
	if (err) {
		log_line("a connection is refused: %s", strerror(-err));
		if (in)
			in_free(in);
		rshare_disconnect(c, 0);
		return;
	}
	pthread_mutex_lock(&n->lock);
	in->next = n->ins;
	n->ins = in;
	pthread_mutex_unlock(&n->lock);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void conns_serve(struct net *n)
{
	struct rshare_conn *c;
	struct lane *l;
	unsigned int k;

	for (k = 0; k < KINDS; k++)
		while (!rshare_accept(n->listeners[k], &c))
			accept_one(n, k, c);
	while ((l = next_wanted(n)))
		if (atomic_load(&l->state) == LANE_WANTED)
			connect_lane(n, l);
		else
			watch_lane(n, l);
	if (!atomic_exchange(&n->starved, false))
		return;
	pthread_mutex_lock(&n->lock);
	for (l = n->lanes; l; l = l->next)
		lane_serve(l, false);
	pthread_mutex_unlock(&n->lock);
}

static void *conns_thread(void *arg)
{
	struct net *n = arg;
	struct pollfd p[1 + KINDS] = { { .fd = n->wake, .events = POLLIN } };
	unsigned int k;
	uint64_t count;

	prctl(PR_SET_NAME, "dsm-conns");
	if (n->cfg.thread)
		n->cfg.thread(n->cfg.arg);
	for (k = 0; k < KINDS; k++)
		p[1 + k] = (struct pollfd){ .fd = rshare_listener_fd(n->listeners[k]),
					    .events = POLLIN };
	while (!atomic_load(&n->stopping) && !atomic_load(&n->dead)) {
		conns_serve(n);
		poll(p, 1 + KINDS, atomic_load(&n->starved) ? STARVED_MS : -1);
		if (p[0].revents && read(n->wake, &count, sizeof(count)) != sizeof(count))
			continue;
	}
	return NULL;
}

int conns_start(struct net *n)
{
	const uint32_t service = (uint32_t)n->cfg.rank * KINDS;
	sigset_t all, old;
	unsigned int k;
	int err = 0;

	for (k = 0; k < KINDS && !err; k++)
		err = rshare_listen(n->r, service + k, &n->listeners[k]);
	if (err)
		return err;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&n->thread, NULL, conns_thread, n);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	n->has_thread = !err;
	return err;
}

void conns_stop(struct net *n)
{
	atomic_store(&n->stopping, true);
	if (!n->has_thread)
		return;
	conns_wake(n);
	pthread_join(n->thread, NULL);
	n->has_thread = false;
}

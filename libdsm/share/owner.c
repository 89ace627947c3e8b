// SPDX-License-Identifier: BSD-2-Clause
/*
 * owner.c - the rounds of the owner's thread, and how it sleeps.
 *
 * Going to sleep races with a client that submits:
 *
 *   client                          owner
 *   publish the slot                sleeping = n, a full barrier
 *   set its ready bit, the same     arm the CQ, poll all ready bits
 *   if (sleeping == n) ring,
 *     then sleeping = 0 if it is n
 *
 * Both sides write before they read, so that one of them sees the other. The CQ is armed before the
 * poll, too. A client that has rung saves others from ringing until the owner wakes.
 */
#include "share/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>

#include "share/link.h"
#include "share/listen.h"
#include "share/log.h"
#include "share/mem.h"
#include "share/mend.h"
#include "share/peer.h"
#include "share/place.h"
#include "share/process.h"
#include "share/signal.h"
#include "share/unasked.h"
#include "share/why.h"

#define POLL_BATCH 32
/*
 * Rounds without sleep, and time, between two checks of the sockets. On a busy machine, each empty
 * round lets other threads run for some ms, while peers wait for answers, and repairs have
 * deadlines.
 */
#define EPOLL_EVERY 64
#define EPOLL_NS 1000000u
#define SUPPLY_MS 10 /* between attempts to post receives that the device has refused */

uint64_t rs_owner_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int rs_owner_watch(struct rs_owner *o, struct rs_source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	return epoll_ctl(o->epoll, EPOLL_CTL_ADD, s->fd, &e) ? -errno : 0;
}

void rs_owner_forget(struct rs_owner *o, struct rs_source *s)
{
	if (s->fd < 0)
		return;
	epoll_ctl(o->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	close(s->fd);
	s->fd = -1;
}

int rs_owner_refused(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS;
}

/*
 * Without a free descriptor, accept4() leaves the connection in the backlog, and epoll reports it
 * again at once, without end. So the reserve descriptor is freed to accept the connection, which is
 * then closed: the client is refused.
 */
int rs_owner_accept(struct rs_owner *o, const struct rs_source *s, struct sockaddr *from,
		    socklen_t *len)
{
	const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	char text[RSHARE_WHY_MAX];
	int fd, err;

	if (o->reserve < 0)
		o->reserve = eventfd(0, EFD_CLOEXEC);
	fd = accept4(s->fd, from, len, flags);
	if (fd >= 0 || !rs_owner_refused(-errno) || o->reserve < 0)
		return fd;
	err = -errno;
	close(o->reserve);
	fd = accept4(s->fd, NULL, NULL, flags);
	if (fd >= 0) {
		rs_why(text, err, "refuses a connection");
		rs_log_line(text);
		rs_unasked_close(fd, o->refuses || s == &o->tcp);
	}
	o->reserve = eventfd(0, EFD_CLOEXEC);
	return -1;
}

/* ---- the wire of the hub -------------------------------------------------------------------- */

static struct rs_owner *hub_owner(struct rs_hub *h)
{
	return (struct rs_owner *)((char *)h - offsetof(struct rs_owner, hub));
}

static void wire_post(struct rs_peer *p, enum rs_lane lane, const struct rs_post *v, unsigned int n)
{
	struct rs_owner *o = hub_owner(p->hub);
	struct rs_link *l = p->link;

	if (!l->dead && !l->broken && rs_qp_post(&o->dev, &l->qp[lane], v, n))
		rs_mend_want(l);
}

static void wire_post_long(struct rs_peer *p, const struct rs_post *v, unsigned int n)
{
	struct rs_owner *o = hub_owner(p->hub);
	struct rs_link *l = p->link;

	if (!o->config.direct_post)
		wire_post(p, RS_WEIGHTED, v, n);
	else if (!l->dead && !l->broken &&
		 rs_qp_post_open(&o->dev, &l->qp[RS_WEIGHTED], v, n, &o->gate))
		rs_mend_want(l);
}

static void signal_fd(struct rs_owner *o, int fd)
{
	o->signals++;
	rs_signal_send(fd);
}

static void wire_wake(struct rs_conn *c)
{
	signal_fd(hub_owner(c->client->hub), c->fd);
}

static void wire_wake_set(struct rs_client *c)
{
	signal_fd(hub_owner(c->hub), c->fd);
}

static void wire_freed(struct rs_conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
}

static const struct rs_wire wire = { wire_post,  wire_wake,   wire_wake_set,
				     wire_freed, rs_log_line, wire_post_long };

/* ---- completions ---------------------------------------------------------------------------- */

/*
 * The link has failed, or the other side has: its TCP connection tells which. Any other status is
 * an error of one of the owners.
 */
static void owner_wc_failed(struct rs_owner *o, struct rs_link *l, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR || wc->status == IBV_WC_RETRY_EXC_ERR)
		rs_mend_want(l);
	else
		rs_link_fail(o, l, -ECONNRESET, ibv_wc_status_str(wc->status));
}

/* The device of the peer has refused a post, for a reason that lies in the post. */
static bool owner_wc_refused(enum ibv_wc_status status)
{
	return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
		status == IBV_WC_REM_OP_ERR;
}

static void owner_wc_sent(struct rs_owner *o, const struct ibv_wc *wc)
{
	enum rs_lane lane;
	struct rs_link *l = rs_link_of_qp(o, wc->qp_num, &lane);

	if (!l || l->dead)
		return;
	if (owner_wc_refused(wc->status) &&
	    rs_peer_refused(&l->peer, lane, rs_qp_before(&l->qp[lane], wc->wr_id))) {
		l->fruitless = 0; /* its cause has ended */
		rs_mend_want(l);
		return;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		owner_wc_failed(o, l, wc);
		return;
	}
	l->fruitless = 0;
	rs_peer_sent(&l->peer, lane, rs_qp_chain_done(&l->qp[lane]));
}

static void take_frame(struct rs_owner *o, struct rs_link *l, enum rs_lane lane,
		       const struct ibv_wc *wc)
{
	switch (rs_peer_receive(&l->peer, lane, rs_landing(&o->dev, wc->wr_id), wc->byte_len)) {
	case 0: l->fruitless = 0; break;
	case -ENOMEM: rs_link_fail(o, l, -ENOMEM, "no memory for an answer to it; dropped"); break;
	case -ENOBUFS:
		rs_link_fail(o, l, -ENOBUFS, "does not take the answers to what it sends; dropped");
		break;
	default: rs_link_fail(o, l, -EBADMSG, "sent what no owner sends; dropped");
	}
}

static void owner_wc_received(struct rs_owner *o, const struct ibv_wc *wc)
{
	enum rs_lane lane;
	struct rs_link *l = rs_link_of_qp(o, wc->qp_num, &lane);

	if (l && !l->dead) {
		if (wc->status != IBV_WC_SUCCESS)
			owner_wc_failed(o, l, wc);
		else
			take_frame(o, l, lane, wc);
	}
	rs_landing_put(&o->dev, wc->wr_id);
}

/*
 * Post landing buffers to the device again. While it refuses them, peers wait. If it has none left
 * for as long as a repair may take, their connections end.
 */
static void supply(struct rs_owner *o)
{
	const int err = rs_landing_post(&o->dev);
	char text[RSHARE_WHY_MAX];
	struct rs_link *l;

	if (err && !o->refused) {
		rs_why(text, err, "%s refuses receives, peers wait", o->dev.name);
		rs_log_line(text);
	}
	o->refused = err;
	if (!err || o->dev.nspare < o->dev.receives) {
		o->starved = 0;
		return;
	}
	if (!o->starved)
		o->starved = rs_owner_now();
	if (rs_owner_now() - o->starved < o->config.repair * 1000000ull)
		return;
	for (l = o->links; l; l = l->next)
		rs_link_fail(o, l, err, "dropped: nothing can be received");
}

static unsigned int poll_queue(struct rs_owner *o)
{
	struct ibv_wc wc[POLL_BATCH];
	int i, n = ibv_poll_cq(o->dev.cq, POLL_BATCH, wc);

	for (i = 0; i < n; i++)
		if (wc[i].wr_id < o->dev.receives)
			owner_wc_received(o, &wc[i]);
		else
			owner_wc_sent(o, &wc[i]);
	if (n < POLL_BATCH && o->dev.nspare)
		supply(o);
	if (n > 0) {
		o->completions += (uint64_t)n;
		cqgroup_count(o->dev.group, o->dev.vector, 0, (uint64_t)n);
	}
	return n > 0 ? (unsigned int)n : 0;
}

void rs_owner_drain(struct rs_owner *o)
{
	while (poll_queue(o))
		;
}

/* ---- rounds --------------------------------------------------------------------------------- */

static unsigned int round_once(struct rs_owner *o)
{
	struct rs_process *p;
	struct rs_link *l;
	unsigned int n = 0;

	for (p = o->processes; p; p = p->next)
		if (p->attached && !p->dead)
			n += rs_client_kick(&p->rs);
	n += poll_queue(o);
	/* all events of a batch at once, and before the posts, which take longer */
	rs_hub_notify(&o->hub);
	for (l = o->links; l; l = l->next)
		if (!l->dead)
			n += rs_peer_pump(&l->peer);
	if (o->reap) {
		o->reap = false;
		rs_link_reap(o);
		rs_process_reap(o, false);
	}
	n += rs_mend_begin(o);
	rs_hub_notify(&o->hub);
	return n;
}

static void help_once(struct rs_owner *o)
{
	struct rs_process *p;
	struct rs_link *l;
	unsigned int n = 0;

	for (p = o->processes; p; p = p->next)
		if (p->attached && !p->dead)
			rs_client_kick(&p->rs);
	for (l = o->links; l; l = l->next)
		if (!l->dead)
			n += rs_peer_pump_strict(&l->peer);
	__atomic_fetch_add(&o->helped, n, __ATOMIC_RELAXED);
	poll_queue(o);
	rs_hub_notify(&o->hub);
}

void rs_owner_help(struct rs_owner *o)
{
	int state;

	if (!__atomic_load_n(&o->gate.open, __ATOMIC_RELAXED))
		return;
	/* Posts and signals are cancellation points. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (!pthread_mutex_trylock(&o->gate.lock)) {
		help_once(o);
		pthread_mutex_unlock(&o->gate.lock);
	}
	pthread_setcancelstate(state, NULL);
}

static void owner_wait_events(struct rs_owner *o, int ms)
{
	struct epoll_event e[32];
	int i, n = epoll_wait(o->epoll, e, 32, ms);

	for (i = 0; i < n; i++) {
		struct rs_source *s = e[i].data.ptr;

		s->ready(o, s, e[i].events);
	}
	o->checked = rs_owner_now();
}

/*
 * 0: awake. Otherwise the number of the sleep, so that a late doorbell of a client does not count
 * for the next one.
 */
static void set_sleeping(struct rs_owner *o, uint32_t value)
{
	struct rs_process *p;

	for (p = o->processes; p; p = p->next)
		if (p->attached)
			__atomic_exchange_n(&((struct rs_seg_head *)p->base)->sleeping, value,
					    __ATOMIC_SEQ_CST);
}

/* Read at most once: the CQ stays armed until its event comes, so there is at most one event. */
static int owner_arm(struct rs_owner *o)
{
	const int err = o->armed ? 0 : ibv_req_notify_cq(o->dev.cq, 0);

	o->armed = !err;
	return err;
}

static void sleep_once(struct rs_owner *o)
{
	int ms;

	o->sleep += 1 + (o->sleep == UINT32_MAX);
	set_sleeping(o, o->sleep);
	if (owner_arm(o) || round_once(o)) {
		set_sleeping(o, 0);
		rs_mode_woken(&o->mode);
		return;
	}
	ms = rs_link_deadlines(o);
	if (o->reap && (ms < 0 || ms > 20))
		ms = 20; /* a dead process whose last chunks are on the wire */
	if (o->refused && (ms < 0 || ms > SUPPLY_MS))
		ms = SUPPLY_MS;
	owner_wait_events(o, ms);
	set_sleeping(o, 0);
	o->wakeups++;
	rs_mode_woken(&o->mode);
}

/*
 * A completion of this side's own is due, and maybe an answer: poll a little rather than arm the CQ
 * and sleep.
 */
static bool awaits(const struct rs_owner *o)
{
	const struct rs_link *l;

	for (l = o->links; l; l = l->next)
		if (l->peer.ready && rs_peer_busy(&l->peer))
			return true;
	return false;
}

static void *owner_run(void *arg)
{
	struct rs_owner *o = arg;
	unsigned int rounds = 0, n;

	if (o->config.thread)
		o->config.thread(o->config.arg);
	cqgroup_bind_thread(o->dev.group);
	pthread_mutex_lock(&o->gate.lock);
	while (!o->stopping) {
		n = round_once(o);
		if (rs_mode_round(&o->mode, n > 0, !n && awaits(o)) == RS_BLOCKED) {
			sleep_once(o);
			continue;
		}
		if (++rounds >= EPOLL_EVERY || (!n && rs_owner_now() - o->checked >= EPOLL_NS)) {
			owner_wait_events(o, 0);
			rs_link_deadlines(o);
			rounds = 0;
		}
		if (!n)
			sched_yield();
	}
	pthread_mutex_unlock(&o->gate.lock);
	return NULL;
}

/* ---- sources -------------------------------------------------------------------------------- */

static void on_channel(struct rs_owner *o, struct rs_source *s, uint32_t events)
{
	struct ibv_cq *cq;
	void *context;

	(void)s;
	(void)events;
	if (ibv_get_cq_event(o->dev.channel, &cq, &context))
		return;
	o->armed = false;
	ibv_ack_cq_events(cq, 1);
	cqgroup_count(o->dev.group, o->dev.vector, 1, 0);
}

static void on_stop(struct rs_owner *o, struct rs_source *s, uint32_t events)
{
	(void)s;
	(void)events;
	o->stopping = true;
}

static int open_control(struct rs_owner *o, const char *name, char *why)
{
	struct sockaddr_un un;
	int err = rs_place_address(name, &un, why);

	if (err)
		return err;
	o->control.ready = rs_process_accept;
	o->control.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	err = o->control.fd < 0 ? -errno : 0;
	o->refuses = !err && rs_unasked_refuse(o->control.fd);
	if (!err)
		err = rs_place_take(o->control.fd, &un);
	if (err && err != -EADDRINUSE)
		return rs_why(why, err, "the socket of the owner, %s", un.sun_path);
	if (err)
		snprintf(why, RSHARE_WHY_MAX, "there is an owner called %s", name);
	else
		o->at = un;
	return err;
}

static int open_sources(struct rs_owner *o, char *why)
{
	o->stop = (struct rs_source){ eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), on_stop };
	o->channel = (struct rs_source){ o->dev.channel->fd, on_channel };
	o->reserve = eventfd(0, EFD_CLOEXEC);
	if (o->reserve < 0 || o->stop.fd < 0 || rs_owner_watch(o, &o->stop, EPOLLIN) ||
	    rs_owner_watch(o, &o->channel, EPOLLIN))
		return rs_why(why, -errno, "descriptors of the owner");
	return rs_listen_start(o, why);
}

/* ---- start and stop ------------------------------------------------------------------------- */

static int start_thread(struct rs_owner *o, char *why)
{
	sigset_t all, old;
	int err;

	/* Signals belong to the application. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&o->thread, NULL, owner_run, o);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err ? rs_why(why, -err, "the owner's thread, which `ulimit -u` may forbid") : 0;
}

static void close_source(struct rs_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
}

static void owner_destroy(struct rs_owner *o)
{
	struct rs_link *l;

	for (l = o->links; l; l = l->next)
		rs_link_fail(o, l, -ECONNRESET, NULL);
	rs_link_reap(o);
	rs_process_reap(o, true);
	rs_hub_exit(&o->hub);
	if (*o->at.sun_path)
		/* while it listens: afterwards the name may be another owner's */
		unlink(o->at.sun_path);
	if (o->control.fd >= 0)
		rs_unasked_close(o->control.fd, o->refuses);
	close_source(&o->tcp);
	close_source(&o->stop);
	if (o->reserve >= 0)
		close(o->reserve);
	if (o->epoll >= 0)
		close(o->epoll);
	rs_device_close(&o->dev);
	pthread_mutex_destroy(&o->gate.lock);
	rs_free(o);
	rs_log_release();
}

int rs_owner_start(const char *device, const char *name, const struct rshare_config *config,
		   struct rs_owner **out, char *why)
{
	struct rs_owner *o = rs_zalloc(1, sizeof(*o));
	int err;

	if (!o)
		return rs_why(why, -ENOMEM, "the owner");
	rs_log_keep();
	o->config = *config;
	o->control.fd = o->tcp.fd = o->stop.fd = o->reserve = -1;
	o->epoll = epoll_create1(EPOLL_CLOEXEC);
	err = o->epoll < 0 ? rs_why(why, -errno, "descriptors of the owner") : 0;
	if (getrandom(&o->instance, sizeof(o->instance), 0) != sizeof(o->instance))
		o->instance = rs_owner_now() ^ (uint64_t)getpid() << 40;
	pthread_mutex_init(&o->gate.lock, NULL);
	rs_hub_init(&o->hub, &wire);
	rs_mode_init(&o->mode, config->run_after == UINT32_MAX ? 0 : config->run_after,
		     config->idle_after);
	if (!err)
		err = open_control(o, name, why);
	if (!err)
		err = rs_device_open(&o->dev, device, config, why);
	o->hub.pieces = o->dev.pieces;
	if (!err)
		err = open_sources(o, why);
	if (!err)
		err = rs_owner_watch(o, &o->control, EPOLLIN);
	if (!err)
		err = start_thread(o, why);
	if (err)
		owner_destroy(o);
	else
		*out = o;
	return err;
}

void rs_owner_stop(struct rs_owner *o)
{
	const uint64_t one = 1;

	if (write(o->stop.fd, &one, sizeof(one)) != sizeof(one))
		rs_log_line("cannot stop");
	pthread_join(o->thread, NULL);
	owner_destroy(o);
}

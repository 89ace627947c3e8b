// SPDX-License-Identifier: BSD-2-Clause
/*
 * conn.c - connecting lanes, and mending them.
 *
 * The two ends of a lane shake hands by datagrams, between UD queue pairs whose addresses were
 * exchanged at the start. The lower rank of the two is the active end: it counts the lane's queue
 * pairs (epoch), and its is the timer.
 *
 *   active                         passive
 *   REQ(epoch+1, QP, received) ->           new queue pair, able to receive
 *                              <- REP(epoch, QP, received)
 *   ready: sends the rest again
 *   RTU(epoch)                 ->           ready: sends the rest again
 *
 * A passive end that wants to send, or finds its queue pair broken, asks with POKE(epoch of its
 * queue pair, 0: none yet) until a REQ comes. Datagrams get lost, doubled and overtaken: who asks
 * repeats it, an answer is given to every REQ of the present epoch, and anything of an earlier
 * epoch is ignored. Every datagram names the key of the rank it is for, from that rank's address;
 * who does not know it (a process of another job, of another version) is told so and otherwise
 * ignored.
 *
 * A receiver freezes a lane before it says what it has received: its queue pair is put into the
 * error state, so that it acknowledges nothing more, and what was acknowledged is taken out of the
 * completion queue. Otherwise the sender could forget, for it was acknowledged, what is then thrown
 * away.
 */
#include "net/verbs/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "net/verbs/dev.h"
#include "net/verbs/gid.h"
#include "net/verbs/send.h"
#include "net/verbs/ud.h"
#include "util/clock.h"
#include "util/log.h"

#define INTERVAL_MS 20 /* first interval until a datagram is repeated */
#define INTERVAL_MAX_MS 320
#define FRUITLESS_MAX 20 /* repairs in a row without any frame, before the peer is given up */
#define STEADY_MS 1000   /* a connection that worked so long was no failure */
#define LOST_MS 2000     /* if the configuration sets none */

static bool lane_is_active(const struct lane *l)
{
	return l->peer->net->cfg.rank < l->peer->rank;
}

/* ---- who wants what -------------------------------------------------------------------------- */

void conn_want(struct lane *l)
{
	struct net *n = l->peer->net;

	pthread_mutex_lock(&n->leaf);
	if (!l->wanted) {
		l->wanted = true;
		l->next_wanted = n->wanted;
		n->wanted = l;
		atomic_fetch_add(&n->busy, 1);
	}
	pthread_mutex_unlock(&n->leaf);
	atomic_store(&n->again, 1);
}

void conn_kick(struct net *n)
{
	uint64_t one = 1;

	if (write(n->kick, &one, sizeof(one)) < 0)
		one = 0; /* it is full: the thread is awake */
}

void conn_peer_lose(struct peer *p, int err)
{
	struct net *n = p->net;
	uint8_t known = PEER_KNOWN;

	if (!atomic_compare_exchange_strong(&p->state, &known, PEER_LOST))
		return;
	p->err = err;
	pthread_mutex_lock(&n->leaf);
	p->next_lost = n->lost;
	n->lost = p;
	pthread_mutex_unlock(&n->leaf);
	atomic_fetch_add(&n->pending, 1);
	conn_kick(n);
}

/* ---- the two ends; under conn and the lane's lock -------------------------------------------- */

static void transit(struct lane *l, enum lane_state state)
{
	struct net *n = l->peer->net;

	if (!l->in_transit) {
		l->in_transit = true;
		l->next_transit = n->transit;
		n->transit = l;
		atomic_fetch_add(&n->busy, 1);
		l->waited = 0;
	}
	l->state = (uint8_t)state;
	l->interval = INTERVAL_MS;
	l->tried_at = clock_ms();
}

static int fail_lane(struct lane *l, int err)
{
	conn_peer_lose(l->peer, err == -ENOMEM ? -ENOMEM : -EPIPE);
	return err;
}

/* The active end opens an epoch. */
static void verbs_lane_ask(struct lane *l)
{
	if (clock_ms() - l->began_at > STEADY_MS)
		l->fruitless = 0;
	l->began_at = clock_ms();
	if (++l->fruitless > FRUITLESS_MAX) {
		log_line("RDMA: the connection to rank %d by %s breaks again and again",
			 l->peer->rank, l->dev->name);
		fail_lane(l, -EPIPE);
		return;
	}
	l->epoch++;
	if (qp_begin(l)) {
		fail_lane(l, -ENOMEM);
		return;
	}
	transit(l, LANE_ASKED);
	ud_send(l, SHAKE_REQ, l->epoch, 0);
}

static void verbs_lane_want(struct lane *l)
{
	if (l->state != LANE_BROKEN)
		return;
	if (lane_is_active(l)) {
		verbs_lane_ask(l);
		return;
	}
	transit(l, LANE_ASKED);
	ud_send(l, SHAKE_POKE, l->epoch, 0);
}

static void got_poke(struct lane *l, const struct shake *s)
{
	if (!lane_is_active(l) || s->epoch != l->epoch)
		return; /* an echo of an earlier epoch */
	verbs_lane_ask(l);
}

static void got_req(struct lane *l, const struct shake *s)
{
	int err;

	if (lane_is_active(l) || (int32_t)(s->epoch - l->epoch) < 0)
		return;
	if (s->epoch == l->epoch) {
		if (l->state == LANE_ANSWERED || l->state == LANE_READY)
			ud_send(l, SHAKE_REP, l->epoch, 0);
		return;
	}
	if (qp_begin(l)) {
		fail_lane(l, -ENOMEM);
		return;
	}
	l->epoch = s->epoch;
	err = qp_connect(l, s);
	if (err) {
		log_line("RDMA: %s cannot be connected to rank %d: %s", l->dev->name, l->peer->rank,
			 strerror(-err));
		fail_lane(l, -EPIPE);
		return;
	}
	if (!frame_received_good(s->received, l->done, l->sent)) {
		conn_peer_lose(l->peer, -EBADMSG);
		return;
	}
	lane_retire(l, s->received);
	transit(l, LANE_ANSWERED);
	ud_send(l, SHAKE_REP, l->epoch, 0);
}

static void got_rep(struct lane *l, const struct shake *s)
{
	int err;

	if (!lane_is_active(l) || s->epoch != l->epoch)
		return;
	if (l->state == LANE_ASKED) {
		err = qp_connect(l, s);
		if (err) {
			log_line("RDMA: %s cannot be connected to rank %d: %s", l->dev->name,
				 l->peer->rank, strerror(-err));
			fail_lane(l, -EPIPE);
			return;
		}
		if (lane_ready(l, s->received)) {
			conn_peer_lose(l->peer, -EBADMSG);
			return;
		}
	}
	if (l->state == LANE_READY)
		ud_send(l, SHAKE_RTU, l->epoch, 0);
}

static void got_rtu(struct lane *l, const struct shake *s)
{
	if (!lane_is_active(l) && s->epoch == l->epoch && l->state == LANE_ANSWERED)
		lane_ready(l, l->done);
}

/* ---- what comes in --------------------------------------------------------------------------- */

static void verbs_peer_refused(struct peer *p, const struct shake *s)
{
	if (s->reason != REFUSE_GONE)
		log_line("rank %d refuses this rank: %s", p->rank,
			 s->reason == REFUSE_VERSION ? "it runs another version of libdsm"
						     : "it is of another job");
	conn_peer_lose(p, -EPIPE);
}

/* The lane that the datagram is about, if it comes from the right address. */
static struct lane *verbs_lane_of(struct dev *d, const struct shake *s, size_t bytes,
				  uint32_t src_qp)
{
	struct net *n = d->net;
	const enum shake_verdict v = shake_judge(s, bytes, n->cfg.rank, n->cfg.size, n->key);
	struct peer *p;
	struct lane *l;

	if (v == SHAKE_JUNK)
		goto bad;
	p = &n->peers[s->from];
	if (!verbs_peer_well(p) || v == SHAKE_NO_CLASS)
		return NULL; /* not known yet: it will ask again. If lost, it was told so */
	l = &p->lanes[s->class];
	if (v == SHAKE_MALFORMED ||
	    (v == SHAKE_GOOD && src_qp != p->at->devs[l->remote_dev].ud_qpn))
		goto bad;
	if (v == SHAKE_GOOD)
		return l;
	verbs_count(&n->count.malformed, 1);
	if (!p->complained++)
		log_line("ignored a connection request in the name of rank %d, whose sender %s",
			 p->rank,
			 v == SHAKE_OTHER_VERSION ? "runs another version of libdsm"
						  : "is of another job");
	/* The reply has the key of the rank it is for, so that a stranger does not accept it. */
	if (s->type != SHAKE_REFUSE)
		ud_send(l, SHAKE_REFUSE, s->epoch,
			v == SHAKE_OTHER_VERSION ? REFUSE_VERSION : REFUSE_KEY);
	return NULL;
bad:
	verbs_count(&n->count.malformed, 1);
	return NULL;
}

void conn_received(struct dev *d, const void *data, size_t bytes, uint32_t src_qp)
{
	const struct shake *s = data;
	struct lane *l = verbs_lane_of(d, s, bytes, src_qp);

	if (!l)
		return;
	if (s->type == SHAKE_REFUSE) {
		verbs_peer_refused(l->peer, s);
		return;
	}
	pthread_mutex_lock(&l->lock);
	if (l->state != LANE_DEAD)
		switch ((enum shake_type)s->type) {
		case SHAKE_REQ: got_req(l, s); break;
		case SHAKE_REP: got_rep(l, s); break;
		case SHAKE_RTU: got_rtu(l, s); break;
		case SHAKE_POKE: got_poke(l, s); break;
		case SHAKE_REFUSE: break;
		}
	pthread_mutex_unlock(&l->lock);
}

/* ---- routes ---------------------------------------------------------------------------------- */

#define ROUTES_MS 20 /* for all routes; one may take seconds if nobody answers there */

/* A lane that is being connected and has a stale route: copy its destination. */
static struct lane *stale_route(struct net *n, struct ibv_ah_attr *to)
{
	struct lane *l;

	pthread_mutex_lock(&n->conn);
	for (l = n->transit; l && (!l->route->stale || !verbs_peer_well(l->peer));
	     l = l->next_transit)
		;
	if (l) {
		dev_gid_refresh(l->dev);
		qp_address(l, to);
	}
	pthread_mutex_unlock(&n->conn);
	return l;
}

static void no_way(const struct lane *l, int err)
{
	const union ibv_gid *to = (const union ibv_gid *)l->peer->at->devs[l->remote_dev].gid;
	char text[64];

	log_line(
		"RDMA: no way from %s to rank %d at %s: %s (do the devices have GIDs of one family? see DSM_NET_GID)",
		l->dev->name, l->peer->rank, gid_print(to, text, sizeof(text)), strerror(err));
}

/* If no new handle can be made, the present one stays: its address may be right. */
static void route_make(struct lane *l, struct ibv_ah_attr *to, bool needed)
{
	struct net *n = l->peer->net;
	struct ibv_ah *ah = ibv_create_ah(l->dev->pd, to), *unused = ah;
	const int err = errno;
	bool first;

	pthread_mutex_lock(&n->conn);
	first = !ah && needed && !l->peer->complained++;
	if (ah && l->state != LANE_DEAD) {
		unused = l->route->ah;
		l->route->ah = ah;
	}
	l->route->stale = false;
	pthread_mutex_unlock(&n->conn);
	if (unused)
		ibv_destroy_ah(unused);
	if (first)
		no_way(l, err);
}

static void routes_serve(struct net *n)
{
	const uint64_t until = clock_ms() + ROUTES_MS;
	struct ibv_ah_attr to;
	struct lane *l;

	while (clock_ms() <= until && (l = stale_route(n, &to)))
		route_make(l, &to, true);
}

void conn_route(struct lane *l)
{
	struct net *n = l->peer->net;
	struct ibv_ah_attr to;

	pthread_mutex_lock(&n->conn);
	qp_address(l, &to);
	pthread_mutex_unlock(&n->conn);
	route_make(l, &to, false);
}

/*
 * Any polling thread may take the timer's event from the service thread, which must be told then.
 */
void conn_route_renew(struct lane *l)
{
	l->route->stale = true;
	conn_kick(l->peer->net);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void verbs_lane_repeat(struct lane *l)
{
	conn_route_renew(l); /* the GID of the handle may have changed with the link */
	if (l->state == LANE_ANSWERED)
		ud_send(l, SHAKE_REP, l->epoch, 0);
	else if (l->state == LANE_ASKED)
		ud_send(l, lane_is_active(l) ? SHAKE_REQ : SHAKE_POKE, l->epoch, 0);
}

/* Under conn. Returns the time of the next check of this lane; 0: none is needed. */
static uint64_t verbs_lane_tick(struct lane *l, uint64_t now)
{
	struct net *n = l->peer->net;
	const uint32_t limit = n->cfg.lost_ms ? n->cfg.lost_ms : LOST_MS;
	uint64_t next = 0;

	pthread_mutex_lock(&l->lock);
	if ((l->state == LANE_ASKED || l->state == LANE_ANSWERED) && verbs_peer_well(l->peer) &&
	    !atomic_load(&l->peer->left)) {
		if (now >= l->tried_at + l->interval) {
			/*
			 * A process that was stopped or starved has not really waited for its peer
			 * all that time.
			 */
			uint64_t waited = now - l->tried_at;

			l->waited +=
				(uint32_t)(waited > 2 * l->interval ? 2 * l->interval : waited);
			l->tried_at = now;
			l->interval = l->interval * 2 < INTERVAL_MAX_MS ? l->interval * 2
									: INTERVAL_MAX_MS;
			if (l->waited < limit)
				verbs_lane_repeat(l);
			else
				conn_peer_lose(l->peer, -EPIPE);
		}
		next = l->tried_at + l->interval;
	}
	pthread_mutex_unlock(&l->lock);
	return next;
}

static void set_timer(struct net *n, uint64_t at)
{
	const struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at / 1000),
						    .tv_nsec = (long)(at % 1000) * 1000000 } };

	if (at == n->timer_at)
		return;
	n->timer_at = at;
	timerfd_settime(n->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void time_serve(struct net *n)
{
	struct lane **at = &n->transit, *l;
	uint64_t next = 0, now, t;

	if (!n->transit) {
		set_timer(n, 0);
		return;
	}
	now = clock_ms();
	while ((l = *at)) {
		t = verbs_lane_tick(l, now);
		if (t) {
			next = next && next < t ? next : t;
			at = &l->next_transit;
			continue;
		}
		*at = l->next_transit;
		l->in_transit = false;
		atomic_fetch_sub(&n->busy, 1);
	}
	set_timer(n, next);
}

/* ---- all together ---------------------------------------------------------------------------- */

static void wants_serve(struct net *n)
{
	struct lane *l;

	for (;;) {
		pthread_mutex_lock(&n->leaf);
		l = n->wanted;
		if (l) {
			n->wanted = l->next_wanted;
			l->wanted = false;
		}
		pthread_mutex_unlock(&n->leaf);
		if (!l)
			return;
		atomic_fetch_sub(&n->busy, 1);
		pthread_mutex_lock(&l->lock);
		if (verbs_peer_well(l->peer) && !atomic_load(&l->peer->left))
			verbs_lane_want(l);
		pthread_mutex_unlock(&l->lock);
	}
}

/* Drop a peer, and tell it, so that it need not wait for timeouts. */
static void lanes_end(struct peer *p)
{
	unsigned int c;

	if (p->at && !p->net->closing && p->lanes[0].state != LANE_DEAD)
		ud_send(&p->lanes[0], SHAKE_REFUSE, p->lanes[0].epoch, REFUSE_GONE);
	for (c = 0; c < CLASS_MAX; c++) {
		struct lane *l = &p->lanes[c];

		pthread_mutex_lock(&l->lock);
		if (l->dev && l->state != LANE_DEAD)
			qp_lane_end(l);
		pthread_mutex_unlock(&l->lock);
	}
	for (c = 0; c < VERBS_DEVICES; c++) {
		if (p->routes[c].ah)
			ibv_destroy_ah(p->routes[c].ah);
		p->routes[c].ah = NULL;
	}
}

static void verbs_bury(struct net *n)
{
	struct peer *p;

	for (;;) {
		pthread_mutex_lock(&n->leaf);
		p = n->to_bury;
		if (p)
			n->to_bury = p->next_lost;
		pthread_mutex_unlock(&n->leaf);
		if (!p)
			return;
		lanes_end(p);
	}
}

void conn_forget(struct peer *p)
{
	pthread_mutex_lock(&p->net->conn);
	lanes_end(p);
	pthread_mutex_unlock(&p->net->conn);
}

/* If a device is gone, so are its lanes. Each lane finds out by itself, and is repaired or not. */
static void async_serve(struct dev *d)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(d->ctx, &ev)) {
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL)
			log_line("RDMA: %s has failed: %s", d->name,
				 ibv_event_type_str(ev.event_type));
		else if (ev.event_type == IBV_EVENT_CQ_ERR)
			log_line("RDMA: a completion queue of %s ran over", d->name);
		else if (ev.event_type == IBV_EVENT_QP_FATAL ||
			 ev.event_type == IBV_EVENT_QP_ACCESS_ERR ||
			 ev.event_type == IBV_EVENT_QP_REQ_ERR) {
			struct lane *l = dev_lane(d, ev.element.qp->qp_num);

			if (l) {
				pthread_mutex_lock(&l->lock);
				if (l->qp == ev.element.qp)
					verbs_lane_broken(l);
				pthread_mutex_unlock(&l->lock);
			}
		}
		ibv_ack_async_event(&ev);
	}
}

static void descriptors_serve(struct net *n)
{
	struct epoll_event ev[2 + 2 * VERBS_DEVICES];
	int i, count = epoll_wait(n->epfd, ev, (int)(sizeof(ev) / sizeof(ev[0])), 0);
	struct ibv_cq *cq;
	uint64_t word;
	void *context;

	for (i = 0; i < count; i++) {
		const uint32_t index = (uint32_t)ev[i].data.u64;
		const int fd = (int)(ev[i].data.u64 >> 32);

		if (fd == n->timer || fd == n->kick) {
			if (read(fd, &word, sizeof(word)) == sizeof(word) && fd == n->timer)
				n->timer_at = 0;
		} else if (index < n->ndevs && fd == n->devs[index].ctx->async_fd) {
			async_serve(&n->devs[index]);
		} else if (index < n->ndevs && fd == n->devs[index].ud.channel->fd) {
			while (!ibv_get_cq_event(n->devs[index].ud.channel, &cq, &context))
				ibv_ack_cq_events(cq, 1);
			ibv_req_notify_cq(n->devs[index].ud.cq, 0);
		}
	}
}

void conn_serve(struct net *n, bool all)
{
	unsigned int i;

	if (all)
		routes_serve(n);
	do {
		if (pthread_mutex_trylock(&n->conn)) {
			if (!all) {
				atomic_store(&n->again, 1);
				return; /* the holder of the lock checks `again` */
			}
			pthread_mutex_lock(&n->conn);
		}
		atomic_store(&n->again, 0);
		if (all)
			descriptors_serve(n);
		verbs_bury(n);
		wants_serve(n);
		for (i = 0; i < n->ndevs; i++)
			ud_serve(&n->devs[i]);
		time_serve(n);
		pthread_mutex_unlock(&n->conn);
	} while (atomic_load(&n->again));
}

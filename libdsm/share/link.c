// SPDX-License-Identifier: BSD-2-Clause
/*
 * link.c - how two owners connect: over TCP they exchange the addresses of two queue pairs, and
 * keep the TCP connection to learn of the other's death. The connecting side asks, the other one
 * answers, and the first says go:
 *
 *   connecting -> asked -> up            (connects)
 *   accepted -> answered -> up           (accepts)
 *
 * If both connect at once, the request of the lower instance number is answered, and the other is
 * refused with -EALREADY.
 */
#include "share/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>

#include "share/check.h"
#include "share/listen.h"
#include "share/log.h"
#include "share/mem.h"
#include "share/mend.h"
#include "share/peer.h"
#include "share/rules.h"
#include "share/why.h"

#define MEET_NS 15000000000ull
#define RETRIES_MS 8000 /* of a queue pair, until it breaks: see rs_qp_connect() */
#define TICK_NS 1000000000ull

static void on_tcp(struct rs_owner *o, struct rs_source *s, uint32_t events);

/* ---- addresses ------------------------------------------------------------------------------ */

static bool link_address_same(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b)
{
	return a->sin6_port == b->sin6_port &&
		!memcmp(&a->sin6_addr, &b->sin6_addr, sizeof(a->sin6_addr));
}

static void link_name_set(struct rs_link *l)
{
	char host[48] = "?";

	if (IN6_IS_ADDR_V4MAPPED(&l->at.sin6_addr))
		inet_ntop(AF_INET, l->at.sin6_addr.s6_addr + 12, host, sizeof(host));
	else
		inet_ntop(AF_INET6, &l->at.sin6_addr, host, sizeof(host));
	snprintf(l->peer.name, sizeof(l->peer.name), "%s:%u", host, ntohs(l->at.sin6_port));
}

/* ---- making and ending ---------------------------------------------------------------------- */

int rs_link_create_qps(struct rs_owner *o, struct rs_link *l, char *why)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < RS_LANES && !err; i++)
		err = l->qp[i].qp ? 0 : rs_qp_create(&o->dev, &l->qp[i], why);
	return err;
}

/*
 * Make room for one more of `peers`. A connection that has not said hello yet is dropped for a
 * later one.
 */
static int link_make_room(struct rs_owner *o)
{
	struct rs_link *l, *oldest = NULL;
	uint32_t n = 0;

	for (l = o->links; l; l = l->next) {
		n += !l->dead;
		if (!l->dead && l->state == RS_LINK_ACCEPTED)
			oldest = l; /* the list begins with the newest */
	}
	if (n < o->config.peers)
		return 0;
	if (!oldest)
		return -ENOSPC;
	rs_link_fail(o, oldest, -ETIMEDOUT, "says nothing while others come; dropped");
	return 0;
}

/* why: a buffer of RSHARE_WHY_MAX bytes. */
static int link_create(struct rs_owner *o, struct rs_link **out, char *why)
{
	const uint32_t window[RS_LANES] = { o->config.window_strict, o->config.window_weighted };
	struct rs_link *l;

	if (link_make_room(o)) {
		snprintf(why, RSHARE_WHY_MAX, "%u nodes are connected; raise `peers`",
			 o->config.peers);
		return -ENOSPC;
	}
	l = rs_zalloc(1, sizeof(*l));
	if (!l || rs_peer_init(&l->peer, &o->hub, o->config.chunk, window, RS_SLOTS)) {
		rs_free(l);
		return rs_why(why, -ENOMEM, "a node");
	}
	rs_sched_narrow(
		&l->peer.sched,
		o->config.window_narrow < o->config.window_weighted ? o->config.window_narrow : 0);
	l->peer.link = l;
	l->source = (struct rs_source){ .fd = -1, .ready = on_tcp };
	l->deadline = rs_owner_now() + MEET_NS;
	l->next = o->links;
	o->links = l;
	*out = l;
	return 0;
}

void rs_link_fail(struct rs_owner *o, struct rs_link *l, int status, const char *what)
{
	char text[2 * RSHARE_WHY_MAX];

	if (l->dead)
		return;
	l->dead = true;
	l->status = status;
	o->reap = true;
	if (!what)
		return;
	snprintf(text, sizeof(text), "%s: %s", l->peer.name[0] ? l->peer.name : "a peer", what);
	rs_log_line(text);
}

void rs_link_reap(struct rs_owner *o)
{
	struct rs_link **at = &o->links, *l;
	unsigned int i;

	while ((l = *at)) {
		if (!l->dead) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		if (o->last == l)
			o->last = NULL;
		rs_owner_forget(o, &l->source);
		for (i = 0; i < RS_LANES; i++)
			rs_qp_destroy(&o->dev, &l->qp[i]);
		/*
		 * A later queue pair may have the same number: first take the old ones' completions
		 * from the CQ.
		 */
		rs_owner_drain(o);
		rs_peer_lost(&l->peer, l->status);
		rs_free(l);
		at = &o->links; /* draining may have ended more links */
	}
}

static bool has_qp(const struct rs_link *l, uint32_t qpn, enum rs_lane *lane)
{
	unsigned int i;

	for (i = 0; i < RS_LANES; i++)
		if (l->qp[i].qp && l->qp[i].qp->qp_num == qpn) {
			*lane = (enum rs_lane)i;
			return true;
		}
	return false;
}

struct rs_link *rs_link_of_qp(struct rs_owner *o, uint32_t qpn, enum rs_lane *lane)
{
	struct rs_link *l;

	if (o->last && has_qp(o->last, qpn, lane))
		return o->last;
	for (l = o->links; l; l = l->next)
		if (has_qp(l, qpn, lane)) {
			o->last = l;
			return l;
		}
	return NULL;
}

/* Repeat OPENs of connections that have no answer. Returns ms until the next call. */
static int link_tick(struct rs_owner *o, struct rs_link *l, uint64_t now, int ms)
{
	const uint32_t seconds = (o->config.repair + RETRIES_MS) / 1000;
	char text[RSHARE_WHY_MAX];
	uint32_t n;

	if (now >= l->tick) {
		l->tick = now + TICK_NS;
		n = rs_peer_tick(&l->peer, seconds);
		snprintf(text, sizeof(text), "%s: %u connections are not answered in %u s",
			 l->peer.name, n, seconds);
		if (n)
			rs_log_line(text);
	}
	return ms < 0 || ms > 1000 ? 1000 : ms;
}

int rs_link_deadlines(struct rs_owner *o)
{
	const uint64_t now = rs_owner_now();
	struct rs_link *l;
	int ms = -1;

	for (l = o->links; l; l = l->next) {
		if (l->dead)
			continue;
		if (l->state == RS_LINK_UP) {
			if (l->repair.state != RS_WHOLE)
				ms = rs_mend_tick(o, l, now);
			else if (l->peer.unanswered)
				ms = link_tick(o, l, now, ms);
			continue;
		}
		if (now >= l->deadline)
			rs_link_fail(o, l, -ETIMEDOUT, "does not answer");
		ms = ms < 0 ? 1000 : ms;
	}
	return ms;
}

/* ---- the exchange --------------------------------------------------------------------------- */

void rs_link_address(const struct rs_owner *o, const struct rs_link *l, struct rs_address *out)
{
	unsigned int i;

	*out = (struct rs_address){ .lid = o->dev.port_attr.lid,
				    .mtu = (uint8_t)o->dev.port_attr.active_mtu };
	memcpy(out->gid, o->dev.gid.raw, sizeof(out->gid));
	for (i = 0; i < RS_LANES && l->qp[i].qp; i++) {
		out->qpn[i] = l->qp[i].qp->qp_num;
		out->psn[i] = l->qp[i].psn;
	}
}

static void fill_hello(struct rs_owner *o, struct rs_link *l, struct rs_hello *h, int status)
{
	*h = (struct rs_hello){ .magic = RS_HELLO_MAGIC,
				.version = RS_FRAME_VERSION,
				.key = o->config.key,
				.instance = o->instance,
				.chunk = o->config.chunk,
				.status = status,
				.port = o->port };
	rs_link_address(o, l, &h->address);
}

/* The socket's buffer is empty, so a hello fits. */
static int link_answer_send(struct rs_owner *o, struct rs_link *l, int status)
{
	struct rs_hello h;

	fill_hello(o, l, &h, status);
	return send(l->source.fd, &h, sizeof(h), MSG_NOSIGNAL) == sizeof(h) ? 0 : -ECONNRESET;
}

int rs_link_connect_qps(struct rs_owner *o, struct rs_link *l)
{
	const struct rshare_config *c = &o->config;
	int err = rs_qp_connect(&o->dev, &l->qp[RS_STRICT], &l->in.address, RS_STRICT, c->sl_strict,
				c->traffic_class_strict);

	if (!err)
		err = rs_qp_connect(&o->dev, &l->qp[RS_WEIGHTED], &l->in.address, RS_WEIGHTED,
				    c->sl_weighted, c->traffic_class_weighted);
	return err;
}

static void up(struct rs_link *l, uint32_t chunk)
{
	l->state = RS_LINK_UP;
	l->instance = l->in.instance;
	rs_peer_ready(&l->peer, chunk < l->in.chunk ? chunk : l->in.chunk);
}

static void answered(struct rs_owner *o, struct rs_link *l)
{
	static const uint8_t go = RS_GO;
	struct rs_link *other;
	char why[RSHARE_WHY_MAX];
	int err = rs_hello_answers(&l->in, o->config.key);

	if (err == -EALREADY) {
		for (other = o->links; other; other = other->next)
			if (other->state == RS_LINK_UP && other->instance == l->in.instance &&
			    !other->dead)
				rs_link_fail(
					o, l, -EHOSTUNREACH,
					"is a node that is connected under another address: use that");
		/*
		 * otherwise the other side's request is in flight, and takes over these connections
		 */
		return;
	}
	if (err) {
		snprintf(why, sizeof(why), "refuses: %s", strerror(-err));
		rs_link_fail(o, l, err,
			     err == -EACCES           ? "has another key"
				     : err == -EPROTO ? "is no owner, or of another version"
						      : why);
		return;
	}
	err = rs_link_connect_qps(o, l);
	if (err)
		rs_why(why, err, "queue pairs to it cannot be connected");
	else if (send(l->source.fd, &go, 1, MSG_NOSIGNAL) != 1)
		err = rs_why(why, -ECONNRESET, "has gone");
	if (err)
		rs_link_fail(o, l, err, why);
	else
		up(l, o->config.chunk);
}

static void link_watch(struct rs_owner *o, struct rs_link *l, uint32_t events)
{
	char why[RSHARE_WHY_MAX];
	const int err = rs_owner_watch(o, &l->source, events);

	if (err)
		rs_link_fail(o, l, rs_why(why, err, "its socket cannot be watched"), why);
}

/* The connections that wait for `old`, which is or will be refused, continue over l. */
static void take_over(struct rs_owner *o, struct rs_link *l, struct rs_link *old)
{
	struct rs_source source = l->source;
	struct rs_hello in = l->in;

	/*
	 * The old record stays, since its connections point to it; it gets the TCP connection of
	 * the new one.
	 */
	epoll_ctl(o->epoll, EPOLL_CTL_DEL, l->source.fd, NULL);
	l->source.fd = -1;
	rs_link_fail(o, l, -ECONNRESET, NULL);
	rs_owner_forget(o, &old->source);
	old->source.fd = source.fd;
	old->in = in;
	old->state = RS_LINK_ACCEPTED;
	old->deadline = rs_owner_now() + MEET_NS;
	link_watch(o, old, EPOLLIN);
}

static struct rs_link *link_find_twin(struct rs_owner *o, const struct rs_link *but)
{
	struct rs_link *l;

	for (l = o->links; l; l = l->next)
		if (l != but && !l->dead && link_address_same(&l->at, &but->at))
			return l;
	return NULL;
}

static void link_refuse(struct rs_owner *o, struct rs_link *l, int status, const char *what)
{
	link_answer_send(o, l, status);
	rs_link_fail(o, l, status, what);
}

/* Make queue pairs, and their address for the other side. */
static void link_answer(struct rs_owner *o, struct rs_link *l)
{
	char why[RSHARE_WHY_MAX];
	int err = rs_link_create_qps(o, l, why);

	if (!err) {
		err = rs_link_connect_qps(o, l);
		if (err)
			rs_why(why, err, "queue pairs to it cannot be connected");
	}
	if (err) {
		link_refuse(o, l, err, why);
		return;
	}
	l->state = RS_LINK_ANSWERED;
	if (link_answer_send(o, l, 0))
		rs_link_fail(o, l, -ECONNRESET, "has gone");
}

static void asked(struct rs_owner *o, struct rs_link *l)
{
	int err = rs_hello_asks(&l->in, o->config.key);
	struct rs_link *old;

	l->at.sin6_port = htons(l->in.port);
	link_name_set(l);
	if (err) {
		link_refuse(o, l, err,
			    err == -EACCES ? "has another key" : "speaks another protocol");
		return;
	}
	/* A node's connections to itself have a link at each end. */
	old = l->in.instance == o->instance ? NULL : link_find_twin(o, l);
	if (old && old->state == RS_LINK_UP && old->instance == l->in.instance) {
		link_refuse(o, l, -EALREADY, NULL);
		return;
	}
	if (old && old->state == RS_LINK_UP) {
		rs_link_fail(o, old, -ECONNRESET, "has started anew");
	} else if (old && old->state <= RS_LINK_ASKED) {
		if (o->instance < l->in.instance && old->in.status != -EALREADY) {
			link_refuse(o, l, -EALREADY, NULL);
			return;
		}
		take_over(o, l, old);
		l = old;
	}
	if (!l->dead)
		link_answer(o, l);
}

/* Read the part of a hello that has arrived. 1: it is complete. */
static int read_hello(struct rs_owner *o, struct rs_link *l)
{
	const ssize_t n =
		recv(l->source.fd, (char *)&l->in + l->got, sizeof(l->in) - l->got, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		/* After -EALREADY, it waits for the other side's request. */
		if (l->got < sizeof(l->in) || l->in.status != -EALREADY)
			rs_link_fail(o, l, -ECONNRESET, NULL);
		return 0;
	}
	l->got += (uint32_t)n;
	return l->got == sizeof(l->in);
}

static void connected(struct rs_owner *o, struct rs_link *l)
{
	int err = 0;
	socklen_t len = sizeof(err);
	char why[RSHARE_WHY_MAX];
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = &l->source };

	getsockopt(l->source.fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		rs_link_fail(o, l, err == ECONNREFUSED ? -ECONNREFUSED : -EHOSTUNREACH,
			     "no owner answers there");
		return;
	}
	epoll_ctl(o->epoll, EPOLL_CTL_MOD, l->source.fd, &e);
	l->state = RS_LINK_ASKED;
	err = rs_link_create_qps(o, l, why);
	if (err)
		rs_link_fail(o, l, err, why);
	else if (link_answer_send(o, l, 0))
		rs_link_fail(o, l, -ECONNRESET, "has gone");
}

/* Receive "go" from the side that asked; anything else ends the link. */
static void answered_go(struct rs_owner *o, struct rs_link *l)
{
	uint8_t byte;
	const ssize_t n = recv(l->source.fd, &byte, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && rs_holds_GO(byte, NULL))
		up(l, o->config.chunk);
	else
		rs_link_fail(o, l, -ECONNRESET, NULL);
}

static void on_tcp(struct rs_owner *o, struct rs_source *s, uint32_t events)
{
	struct rs_link *l = (struct rs_link *)s;

	(void)events;
	if (l->dead)
		return;
	switch (l->state) {
	case RS_LINK_CONNECTING: connected(o, l); break;
	case RS_LINK_ASKED:
		if (l->got == sizeof(l->in)) { /* refused, and closed: the socket is gone */
			rs_owner_forget(o, &l->source);
		} else if (read_hello(o, l)) {
			answered(o, l);
		}
		break;
	case RS_LINK_ACCEPTED:
		if (read_hello(o, l))
			asked(o, l);
		break;
	case RS_LINK_ANSWERED: answered_go(o, l); break;
	default: rs_mend_hear(o, l);
	}
}

/* ---- sockets -------------------------------------------------------------------------------- */

/* TCP may take as long as a repair, in ms. */
static void link_socket_set(int fd, uint32_t repair)
{
	const int one = 1, idle = 5, interval = 2, count = 3, ms = (int)repair + RETRIES_MS,
		  syn = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &syn, sizeof(syn));
}

int rs_link_get(struct rs_owner *o, const struct sockaddr_storage *at, struct rs_link **out)
{
	struct rs_link *l, want = { .dead = false };
	char why[RSHARE_WHY_MAX];
	int err = rs_listen_in6(at, &want.at);

	if (err)
		return err;
	l = link_find_twin(o, &want);
	if (l) {
		*out = l;
		return 0;
	}
	err = link_create(o, &l, why);
	if (err) {
		if (!rs_owner_refused(err))
			rs_log_line(why);
		return err;
	}
	l->at = want.at;
	link_name_set(l);
	l->state = RS_LINK_CONNECTING;
	l->source.fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->source.fd < 0) {
		err = -errno;
		rs_link_fail(o, l, err, NULL); /* the caller reports it */
		return err;
	}
	link_socket_set(l->source.fd, o->config.repair);
	if (connect(l->source.fd, (const struct sockaddr *)&l->at, sizeof(l->at)) &&
	    errno != EINPROGRESS)
		rs_link_fail(o, l, -EHOSTUNREACH, "cannot be reached");
	else
		link_watch(o, l, EPOLLOUT);
	*out = l;
	return 0;
}

void rs_link_accept(struct rs_owner *o, struct rs_source *s, uint32_t events)
{
	struct sockaddr_in6 from;
	socklen_t len = sizeof(from);
	char why[RSHARE_WHY_MAX], text[2 * RSHARE_WHY_MAX];
	struct rs_link *l;
	int fd;

	(void)events;
	fd = rs_owner_accept(o, s, (struct sockaddr *)&from, &len);
	if (fd < 0)
		return;
	if (link_create(o, &l, why)) {
		snprintf(text, sizeof(text), "refuses a node: %s", why);
		rs_log_line(text);
		close(fd);
		return;
	}
	link_socket_set(fd, o->config.repair);
	l->state = RS_LINK_ACCEPTED;
	l->at = from;
	l->source.fd = fd;
	link_name_set(l); /* until it says where it listens */
	link_watch(o, l, EPOLLIN);
}

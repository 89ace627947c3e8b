// SPDX-License-Identifier: BSD-2-Clause
/*
 * receive.c - incoming messages: taken from connections, put into the inbox, delivered one by one,
 * and their buffers given back. Payloads that are still with their senders are read first, FETCHES
 * at a time, in the order of their priorities.
 *
 * Sleeping. The fd of the transport is an epoll set of the connections' fds and of a kick. A
 * polling thread leaves these fds alone; arm makes them readable again. A thread that leaves
 * something in the inbox of an armed transport writes the kick.
 */
#include "net/shared/receive.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/shared/lane.h"
#include "util/hook.h"
#include "util/log.h"

enum cookie { COOKIE_READ = 1, COOKIE_TOLD };

/* ---- the inbox ------------------------------------------------------------------------------ */

void inbox_put(struct net *n, struct item *it)
{
	const uint64_t one = 1;

	it->next = NULL;
	pthread_mutex_lock(&n->leaf);
	*n->inbox_end = it;
	n->inbox_end = &it->next;
	pthread_mutex_unlock(&n->leaf);
	/* Store the item before loading armed; shared_arm() sets that before it polls for items. */
	if (atomic_exchange(&n->armed, false) && write(n->kick, &one, sizeof(one)) != sizeof(one))
		return; /* readable already */
}

static struct item *shared_inbox_take(struct net *n)
{
	struct item *it;

	pthread_mutex_lock(&n->leaf);
	it = n->inbox;
	if (it)
		n->inbox = it->next;
	if (!n->inbox)
		n->inbox_end = &n->inbox;
	pthread_mutex_unlock(&n->leaf);
	return it;
}

static bool inbox_empty(struct net *n)
{
	bool empty;

	pthread_mutex_lock(&n->leaf);
	empty = !n->inbox;
	pthread_mutex_unlock(&n->leaf);
	return empty;
}

/* ---- payloads that are read ----------------------------------------------------------------- */

/*
 * Payloads of several kinds wait for few buffers. Strict kinds go before weighted ones. Each
 * weighted kind has a clock that advances with the bytes read, more slowly for a larger weight; the
 * kind with the earliest clock is next. A kind that had nothing to read starts at the time of the
 * others.
 */
static bool goes_before(const struct net *n, unsigned int a, unsigned int b)
{
	if (lane_kinds[a].priority != lane_kinds[b].priority)
		return lane_kinds[a].priority > lane_kinds[b].priority;
	return n->turn[a] < n->turn[b];
}

static void fetch_put(struct net *n, struct fetch *f)
{
	const unsigned int kind = f->item.in->kind;

	if (!n->waiting[kind] && n->turn[kind] < n->turn_now)
		n->turn[kind] = n->turn_now;
	*n->waiting_end[kind] = f;
	n->waiting_end[kind] = &f->next;
}

static struct fetch *fetch_take(struct net *n)
{
	unsigned int kind = KINDS, k;
	struct fetch *f;

	for (k = KINDS; k-- > 0;)
		if (n->waiting[k] && (kind == KINDS || goes_before(n, k, kind)))
			kind = k;
	if (kind == KINDS)
		return NULL;
	f = n->waiting[kind];
	n->waiting[kind] = f->next;
	if (!f->next)
		n->waiting_end[kind] = &n->waiting[kind];
	f->next = NULL;
	if (!lane_kinds[kind].priority) {
		n->turn_now = n->turn[kind];
		n->turn[kind] += f->item.size / lane_kinds[kind].weight;
	}
	return f;
}

static void fetches_start(struct net *n)
{
	struct fetch *f;
	struct in *in;

	while (n->nfree && (f = fetch_take(n))) {
		in = f->item.in;
		f->buffer = n->fetch_free[n->nfree - 1];
		if (in->ended ||
		    rshare_read(in->conn, f->buffer, f->item.size, &f->from, 0, COOKIE_READ)) {
			own_free(f); /* the connection is closing */
			continue;
		}
		n->nfree--;
		*in->reads_end = f;
		in->reads_end = &f->next;
	}
}

/* Tell the sender what it may free. One such frame at a time: the last one covers all before it. */
static void shared_in_notify(struct in *in)
{
	const struct shared_frame f = {
		.kind = SHARED_FETCHED, .lane = in->kind, .src = in->net->cfg.rank, .id = in->read
	};
	char *at = in->memory + in->buffers * in->stride;

	if (in->telling || in->told == in->read || in->ended)
		return;
	memcpy(at, &f, sizeof(f));
	if (rshare_send(in->conn, at, sizeof(f), COOKIE_TOLD))
		return;
	in->telling = true;
	in->told = f.id;
}

static void fetch_done(struct in *in, int status)
{
	struct net *n = in->net;
	struct fetch *f = in->reading;

	if (!f)
		return;
	in->reading = f->next;
	if (!f->next)
		in->reads_end = &in->reading;
	if (status) {
		n->fetch_free[n->nfree++] = f->buffer;
		own_free(f);
		return;
	}
	in->read = f->id;
	f->item.payload = f->buffer;
	f->item.fetch = f;
	inbox_put(n, &f->item);
}

void fetches_free(struct fetch *f)
{
	struct fetch *next;

	for (; f; f = next) {
		next = f->next;
		own_free(f);
	}
}

/* ---- frames --------------------------------------------------------------------------------- */

static void shared_in_repost(struct in *in, unsigned int buffer)
{
	if (!in->ended &&
	    rshare_recv(in->conn, in->memory + buffer * in->stride, in->stride, buffer))
		return; /* the connection is closing, and reports that itself */
}

static void shared_in_malformed(struct in *in, const struct shared_frame *f)
{
	struct net *n = in->net;

	shared_count(&n->count.malformed, 1);
	if (in->rank < 0)
		return;
	if (shared_peer_well(&n->peers[in->rank]))
		log_line("malformed message of rank %d: version %d, type %d, %u bytes behind it",
			 in->rank, f->m.version, f->m.type, f->size);
	peer_gone(&n->peers[in->rank], -EBADMSG);
}

static bool frame_ok(struct in *in, const struct shared_frame *f, size_t bytes)
{
	struct shared_place p = { .cfg = &in->net->cfg,
				  .lane = in->kind,
				  .class = lane_kinds[in->kind].class,
				  .fetches = in->asked,
				  .bytes = bytes };

	if (in->rank < 0 && shared_sender(p.cfg, f->src))
		in->rank = f->src;
	if (in->rank < 0)
		return false;
	p.peer = (uint16_t)in->rank;
	return shared_frame_ok(&p, f);
}

static void queue_fetch(struct in *in, const struct shared_frame *f)
{
	struct net *n = in->net;
	struct fetch *fetch = own_zalloc(sizeof(*fetch));

	if (!fetch) {
		peer_gone(&n->peers[in->rank], -ENOMEM);
		return;
	}
	fetch->from = f->from;
	fetch->id = in->asked = f->id;
	fetch->item =
		(struct item){ .in = in, .m = f->m, .size = f->size, .rank = (uint16_t)in->rank };
	fetch_put(n, fetch);
	fetches_start(n);
}

static void on_frame(struct in *in, unsigned int buffer, size_t bytes)
{
	const char *at = in->memory + buffer * in->stride;
	struct item *it = &in->items[buffer];
	struct shared_frame f = { .kind = 0 };

	/* Check a copy: the buffer is shared with the owner's process. */
	memcpy(&f, at, bytes < sizeof(f) ? bytes : sizeof(f));
	if (bytes < sizeof(f) || !frame_ok(in, &f, bytes)) {
		shared_in_malformed(in, &f);
		shared_in_repost(in, buffer);
		return;
	}
	shared_count(&in->net->count.received, 1);
	shared_count(&in->net->count.bytes_received, f.size);
	if (f.kind == SHARED_FETCH) {
		queue_fetch(in, &f);
		shared_in_repost(in, buffer);
		return;
	}
	*it = (struct item){ .in = in,
			     .m = f.m,
			     .size = f.size,
			     .rank = (uint16_t)in->rank,
			     .buffer = (uint16_t)buffer };
	it->payload = f.kind == SHARED_LAND
		? in->net->landing + (size_t)f.m.req_slot * SHARED_LANDING
		: at + sizeof(f);
	inbox_put(in->net, it);
}

static void shared_in_on_event(struct in *in, const struct rshare_event *e)
{
	switch (e->type) {
	case RSHARE_RECEIVED:
		if (e->cookie < in->buffers && e->status != -ECANCELED)
			on_frame(in, (unsigned int)e->cookie,
				 e->size < in->stride ? e->size : in->stride);
		break;
	case RSHARE_SENT:
		if (e->cookie == COOKIE_READ)
			fetch_done(in, e->status);
		else
			in->telling = false;
		shared_in_notify(in);
		break;
	case RSHARE_CLOSED:
		in->ended = true;
		if (in->rank >= 0 && !e->status)
			atomic_store(&in->net->peers[in->rank].left, true);
		else if (in->rank >= 0 && !atomic_load(&in->net->peers[in->rank].left))
			peer_gone(&in->net->peers[in->rank], -EPIPE);
		break;
	default: break;
	}
}

void in_serve(struct in *in, bool arm)
{
	struct rshare_event e[16];
	int i, k;

	do {
		k = arm ? rshare_poll(in->conn, e, 16) : rshare_poll_again(in->conn, e, 16);
		for (i = 0; i < k; i++)
			shared_in_on_event(in, &e[i]);
	} while (k > 0);
	if (k < 0)
		atomic_store(&in->net->dead, true);
}

void in_free(struct in *in)
{
	rshare_put(in->net->r, in->memory);
	fetches_free(in->reading);
	own_free(in);
}

/* ---- delivering ----------------------------------------------------------------------------- */

static void shared_item_return(struct net *n, struct item *it)
{
	if (it->self) {
		own_free(it);
	} else if (it->fetch) {
		n->fetch_free[n->nfree++] = it->fetch->buffer;
		own_free(it->fetch);
		fetches_start(n);
	} else if (it->in) {
		shared_in_repost(it->in, it->buffer);
	}
}

static void shared_deliver(struct net *n, const struct item *it)
{
	HOOK(deliver);
	if (it->err) {
		if (n->cfg.lost && n->peers[it->rank].state != PEER_DROPPED)
			n->cfg.lost(n->cfg.arg, it->rank, it->err);
	} else if (it->self || shared_peer_well(&n->peers[it->rank])) {
		n->cfg.handler(n->cfg.arg, &it->m, it->payload, it->size);
	}
}

static void shared_collect(struct net *n)
{
	struct lane *l;
	struct in *in;

	for (in = n->ins; in; in = in->next)
		if (!in->ended)
			in_serve(in, false);
	for (l = n->lanes; l; l = l->next)
		if (l->state == LANE_OPEN)
			lane_serve(l, false);
}

int shared_poll(struct net *n, unsigned int budget)
{
	const uint64_t one = 1;
	unsigned int done = 0;
	struct item *it;

	if (pthread_mutex_trylock(&n->lock))
		return 0;
	if (inbox_empty(n))
		shared_collect(n);
	while (done < budget && (it = shared_inbox_take(n))) {
		pthread_mutex_unlock(&n->lock);
		shared_deliver(n, it);
		pthread_mutex_lock(&n->lock);
		shared_item_return(n, it);
		done++;
	}
	shared_count(&n->count.polls, 1);
	if (!done)
		shared_count(&n->count.empty_polls, 1);
	if (!inbox_empty(n) && atomic_exchange(&n->armed, false) &&
	    write(n->kick, &one, sizeof(one)) != sizeof(one))
		done = budget; /* readable already */
	pthread_mutex_unlock(&n->lock);
	return (int)done;
}

void inbox_drop(struct net *n)
{
	struct item *it;

	while ((it = shared_inbox_take(n)))
		if (!it->err)
			shared_item_return(n, it);
}

/* ---- sleeping ------------------------------------------------------------------------------- */

static void serve_source(struct net *n, union source s)
{
	uint64_t count;

	if (!s.ptr) {
		if (read(n->kick, &count, sizeof(count)) != sizeof(count))
			return;
	} else if (s.word & SOURCE_LANE) {
		s.word &= ~SOURCE_LANE;
		lane_serve(s.ptr, true);
	} else {
		in_serve(s.ptr, true);
	}
}

/* When the owner ends, all fds become readable for good. Nothing more comes through them. */
static void watch_nothing(struct net *n)
{
	struct lane *l;
	struct in *in;

	for (in = n->ins; in; in = in->next)
		epoll_ctl(n->epfd, EPOLL_CTL_DEL, rshare_fd(in->conn), NULL);
	for (l = n->lanes; l; l = l->next)
		if (l->watched)
			epoll_ctl(n->epfd, EPOLL_CTL_DEL, rshare_fd(l->conn), NULL);
}

int shared_arm(struct net *n)
{
	struct epoll_event e[16];
	int i, k, err = 0;

	pthread_mutex_lock(&n->lock);
	atomic_store(&n->armed, true);
	/* An fd stays readable until its connection is empty. */
	while (inbox_empty(n) && !atomic_load(&n->dead) && (k = epoll_wait(n->epfd, e, 16, 0)) > 0)
		for (i = 0; i < k; i++)
			serve_source(n, (union source){ .word = e[i].data.u64 });
	if (atomic_load(&n->dead))
		watch_nothing(n);
	if (!inbox_empty(n)) {
		atomic_store(&n->armed, false);
		err = -EBUSY;
	} else {
		shared_count(&n->count.arms, 1);
	}
	pthread_mutex_unlock(&n->lock);
	return err;
}

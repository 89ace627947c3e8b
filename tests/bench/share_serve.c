// SPDX-License-Identifier: BSD-2-Clause
/*
 * share_serve.c - the server: one thread for all connections of librshare, and one for each native
 * queue pair.
 */
#include "share.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

static const uint32_t services[] = {
	SHARE_SERVICE(SHARE_SINK, 6, 5),   SHARE_SERVICE(SHARE_SINK, 12, 5),
	SHARE_SERVICE(SHARE_SINK, 12, 2),  SHARE_SERVICE(SHARE_SINK, 12, 0),
	SHARE_SERVICE(SHARE_SINK, 22, 1),  SHARE_SERVICE(SHARE_ECHO, 6, 5),
	SHARE_SERVICE(SHARE_ECHO, 20, 1),  SHARE_SERVICE(SHARE_NATIVE, 8, 0),
	SHARE_SERVICE(SHARE_REPORT, 8, 0),
};

/* A connection, or (c NULL) the listener of a service. */
struct session {
	struct rshare_conn *c;
	struct rshare_listener *l;
	uint32_t service;
	char *buf;
};

static struct rshare *r;
static int epoll_fd, set = -1; /* set: the fd of all connections */
static uint64_t native_messages;

/* s NULL: the set. */
static void watch(struct session *s, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = s };

	share_must(fd, "fd");
	share_must(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0, "epoll_ctl");
}

static uint32_t kind(const struct session *s)
{
	return s->service >> 16;
}

/* At least that of the largest answer. */
static size_t size(const struct session *s)
{
	const size_t n = (size_t)1 << (s->service >> 8 & 255);

	return n < sizeof(struct share_report) ? sizeof(struct share_report) : n;
}

static void post(struct session *s, uint64_t slot)
{
	share_must(rshare_recv(s->c, s->buf + slot * size(s), size(s), slot), "rshare_recv");
}

static void begin(struct session *listener, struct rshare_conn *c)
{
	struct session *s = calloc(1, sizeof(*s));
	const uint64_t slots = 1u << (listener->service & 255);
	uint64_t i;

	if (!s)
		share_must(-ENOMEM, "memory");
	s->c = c;
	s->service = listener->service;
	s->buf = rshare_get(r, slots * size(s));
	if (!s->buf)
		share_must(-ENOMEM, "the server's pool");
	for (i = 0; i < slots; i++)
		post(s, i);
	set = rshare_join(c, s);
	share_must(set, "rshare_join");
}

/* ---- native queue pairs --------------------------------------------------------------------- */

struct native_server {
	struct share_native *n;
	struct share_ask ask;
};

static void *native(void *arg)
{
	struct native_server *s = arg;
	struct ibv_wc wc[16];
	bool armed = false, end = false;
	int i, got;

	while (!end) {
		got = share_native_poll(s->n, wc, 16);
		for (i = 0; i < got; i++) {
			if (wc[i].wr_id != SHARE_RECEIVED)
				continue;
			__atomic_fetch_add(&native_messages, 1, __ATOMIC_RELAXED);
			end = wc[i].byte_len == 1;
			if (s->ask.echo && !end)
				share_native_send(s->n, wc[i].byte_len, 0);
		}
		if (got || !s->ask.sleeping)
			continue;
		if (armed)
			share_native_wait(s->n);
		else
			share_must(-ibv_req_notify_cq(s->n->dev.cq, 0), "arming");
		armed = !armed; /* look once between the two */
	}
	share_native_close(s->n);
	free(s);
	return NULL;
}

static size_t answer_native(char *message)
{
	struct native_server *s = calloc(1, sizeof(*s));
	struct rs_address here;
	pthread_t thread;

	if (!s)
		share_must(-ENOMEM, "memory");
	memcpy(&s->ask, message, sizeof(s->ask));
	s->n = share_native_open(s->ask.size, &here);
	share_native_connect(s->n, &s->ask.address);
	share_must(-pthread_create(&thread, NULL, native, s), "a thread");
	pthread_detach(thread);
	memcpy(message, &here, sizeof(here));
	return sizeof(here);
}

/* ---- messages ------------------------------------------------------------------------------- */

static size_t answer_report(char *message)
{
	struct share_report out = { .native = __atomic_load_n(&native_messages, __ATOMIC_RELAXED) };
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	out.user_us = (double)use.ru_utime.tv_sec * 1e6 + (double)use.ru_utime.tv_usec;
	out.system_us = (double)use.ru_stime.tv_sec * 1e6 + (double)use.ru_stime.tv_usec;
	rshare_get_info(r, &out.info);
	memcpy(message, &out, sizeof(out));
	return sizeof(out);
}

static void message(struct session *s, const struct rshare_event *e)
{
	char *at = s->buf + e->cookie * size(s);
	size_t n = e->size;

	switch (kind(s)) {
	case SHARE_SINK: post(s, e->cookie); return;
	case SHARE_NATIVE: n = answer_native(at); break;
	case SHARE_REPORT: n = answer_report(at); break;
	default: break;
	}
	share_must(rshare_send(s->c, at, n, e->cookie), "rshare_send");
}

static void events(struct session *s)
{
	struct rshare_event e[16];
	int i, n;

	while ((n = rshare_poll(s->c, e, 16)) > 0)
		for (i = 0; i < n; i++) {
			if (e[i].type == RSHARE_RECEIVED && !e[i].status)
				message(s, &e[i]);
			if (e[i].type == RSHARE_SENT && !e[i].status)
				post(s, e[i].cookie);
			if (e[i].type == RSHARE_CLOSED) {
				rshare_disconnect(s->c, 0);
				rshare_put(r, s->buf);
				free(s);
				return;
			}
		}
}

static void accept_all(struct session *listener)
{
	const int before = set;
	struct rshare_conn *c;

	while (!rshare_accept(listener->l, &c))
		begin(listener, c);
	if (before < 0 && set >= 0)
		watch(NULL, set);
}

static void serve_set(void)
{
	void *ready[64];
	int i, n;

	while ((n = rshare_ready(r, ready, 64)) > 0)
		for (i = 0; i < n; i++)
			events(ready[i]);
	share_must(n, "rshare_ready");
}

void share_serve(const struct share_profile *p)
{
	static struct session listeners[sizeof(services) / sizeof(services[0])];
	struct epoll_event e[32];
	size_t k;
	int i, n;

	r = share_open(p, true);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (k = 0; k < sizeof(services) / sizeof(services[0]); k++) {
		listeners[k].service = services[k];
		share_must(rshare_listen(r, services[k], &listeners[k].l), "rshare_listen");
		watch(&listeners[k], rshare_listener_fd(listeners[k].l));
	}
	puts("serving");
	for (;;) {
		n = epoll_wait(epoll_fd, e, 32, -1);
		for (i = 0; i < n; i++) {
			if (e[i].data.ptr)
				accept_all(e[i].data.ptr);
			else
				serve_set();
		}
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* common_serve.c - the server of the tests of librshare: its services. */
#include "node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define SLOTS 4

void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	exit(1);
}

static struct rshare *open_with(struct rshare_config *c)
{
	struct rshare *out;
	char why[RSHARE_WHY_MAX];

	c->remote = 1;
	c->key = 42;
	if (rshare_open(NULL, c, &out, why) < 0) {
		fprintf(stderr, "rshare_open: %s\n", why);
		exit(1);
	}
	return out;
}

struct rshare *node_open(enum rshare_role role, uint32_t connections, uint64_t pool)
{
	struct rshare_config c;

	rshare_config_init(&c);
	c.role = role;
	c.connections = connections;
	c.pool = pool;
	c.name = getenv("SHARE_NAME");
	if (getenv("SHARE_PORT"))
		c.port = (uint16_t)atoi(getenv("SHARE_PORT"));
	c.direct_post = getenv("SHARE_DIRECT") != NULL;
	return open_with(&c);
}

struct rshare *node_own(const char *name, uint16_t port, uint32_t connections, uint32_t receives)
{
	struct rshare_config c;

	rshare_config_init(&c);
	c.role = RSHARE_OWNER;
	c.name = name;
	c.port = port;
	c.connections = connections;
	c.pool = 4u << 20;
	if (receives)
		c.receives = receives;
	return open_with(&c);
}

struct session {
	struct rshare_conn *c;
	struct rshare_listener *l;
	unsigned int service;
	char *buf; /* SLOTS receive buffers; cookies are their numbers */
	size_t slot;
	uint32_t next;
};

static struct rshare *r;
static struct report counted;
static struct rshare_remote exported;
static int epoll_fd;

static void watch(struct session *s, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = s };

	must(fd, "fd");
	must(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0, "epoll_ctl");
}

static void post(struct session *s, uint64_t slot)
{
	rshare_recv(s->c, s->buf + slot * s->slot, s->slot, slot);
}

static void session_begin(struct session *listener, struct rshare_conn *c)
{
	struct session *s = calloc(1, sizeof(*s));

	s->c = c;
	s->service = listener->service;
	s->slot = s->service == MEMORY ? BIG : SLOT;
	if (s->service != STUCK) {
		s->buf = rshare_get(r, SLOTS * s->slot);
		if (!s->buf)
			must(-ENOMEM, "rshare_get");
		for (uint64_t i = s->service == MEMORY; i < SLOTS; i++)
			post(s, i);
	}
	if (s->service == MEMORY) { /* slot 0 sends the address */
		memcpy(s->buf, &exported, sizeof(exported));
		rshare_send(c, s->buf, sizeof(exported), 0);
	}
	watch(s, rshare_fd(c));
}

/* Send the first bytes of a buffer back, with the immediate data of the event. */
static void echo_of(struct session *s, const struct rshare_event *e, size_t size)
{
	const struct rshare_op op = { .type = RSHARE_OP_SEND,
				      .flags = e->flags,
				      .cookie = e->cookie,
				      .buffer = s->buf + e->cookie * s->slot,
				      .size = size,
				      .immediate = e->immediate };

	rshare_post(s->c, &op);
}

static void on_message(struct session *s, const struct rshare_event *e)
{
	char *at = s->buf + e->cookie * s->slot;
	uint32_t number;

	if (s->service == SINK) {
		memcpy(&number, at, sizeof(number));
		counted.out_of_order += number != s->next++;
		counted.messages++;
		counted.bytes += e->size;
		post(s, e->cookie);
		return;
	}
	if (s->service == REPORT) {
		rshare_get_info(r, &counted.info);
		memcpy(at, &counted, sizeof(counted));
		rshare_send(s->c, at, sizeof(counted), e->cookie);
		return;
	}
	echo_of(s, e, e->size);
}

static void session_events(struct session *s)
{
	struct rshare_event e[16];
	int i, n;

	while ((n = rshare_poll(s->c, e, 16)) > 0)
		for (i = 0; i < n; i++) {
			if (e[i].type == RSHARE_RECEIVED && !e[i].status)
				on_message(s, &e[i]);
			if (e[i].type == RSHARE_WRITTEN)
				echo_of(s, &e[i], 0);
			if (e[i].type == RSHARE_SENT && !e[i].status)
				post(s, e[i].cookie);
			if (e[i].type == RSHARE_CLOSED) {
				*(e[i].status ? &counted.broken : &counted.closed) += 1;
				rshare_disconnect(s->c, 0);
				rshare_put(r, s->buf);
				free(s);
				return;
			}
		}
}

void node_serve(void)
{
	struct session listener[SERVICES] = { { NULL } };
	struct epoll_event e[32];
	struct rshare_conn *c;
	char *memory;
	int i, n;

	r = node_open(RSHARE_OWNER, 2048, 64u << 20);
	memory = rshare_get(r, BIG);
	must(rshare_grant(r, memory, BIG,
			  RSHARE_ACCESS_READ | RSHARE_ACCESS_WRITE | RSHARE_ACCESS_ATOMIC,
			  &exported),
	     "rshare_grant");
	epoll_fd = epoll_create1(0);
	for (i = 1; i < SERVICES; i++) {
		listener[i].service = (unsigned int)i;
		must(rshare_listen(r, (uint32_t)i, &listener[i].l), "rshare_listen");
		watch(&listener[i], rshare_listener_fd(listener[i].l));
	}
	puts("serving");
	fflush(stdout);
	for (;;) {
		n = epoll_wait(epoll_fd, e, 32, -1);
		for (i = 0; i < n; i++) {
			struct session *s = e[i].data.ptr;

			if (s->c)
				session_events(s);
			else
				while (!rshare_accept(s->l, &c))
					session_begin(s, c);
		}
	}
}

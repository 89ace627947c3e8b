// SPDX-License-Identifier: BSD-2-Clause
/*
 * rshare.c - connections as a process sees them. Any thread; operations and polling take no lock,
 * but see direct_post.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "share/check.h"
#include "share/attach.h"
#include "share/mem.h"
#include "share/owner.h"
#include "share/signal.h"

#define READ_FLAGS (RSHARE_UNSIGNALLED | RSHARE_FENCE)
#define CLIENT_FLAGS (READ_FLAGS | RSHARE_IMMEDIATE | RSHARE_INLINE)

static int client_conn_call(struct rshare_conn *c, uint32_t type, struct rs_answer *a)
{
	struct rs_request q = { .type = type, .index = c->index };

	return rs_attach_request(c->r, &q, a);
}

static bool client_conn_is_dead(const struct rshare_conn *c)
{
	return __atomic_load_n(&c->r->dead, __ATOMIC_ACQUIRE);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* A numeric address needs no resolver, which would allocate from the C library. */
static bool is_address(const char *host, const char *port, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	char *end;
	const unsigned long number = strtoul(port, &end, 10);

	if (!*port || *end || number > UINT16_MAX)
		return false;
	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)number);
		return true;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)number);
	return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

/* "host", "host:port", "[v6]:port" */
static int client_node_resolve(const char *node, struct sockaddr_storage *out)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found;
	char host[256], port[8], *colon;

	snprintf(port, sizeof(port), "%d", RSHARE_PORT);
	if (strlen(node) >= sizeof(host) || !*node)
		return -EINVAL;
	strcpy(host, node);
	colon = strrchr(host, ':');
	if (host[0] == '[') {
		char *end = strchr(host, ']');

		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		colon = end[1] ? end + 1 : NULL;
		*end = 0;
		memmove(host, host + 1, (size_t)(end - host));
	} else if (colon && strchr(host, ':') != colon) {
		colon = NULL; /* an IPv6 address alone */
	}
	if (colon) {
		snprintf(port, sizeof(port), "%s", colon + 1);
		*colon = 0;
	}
	if (is_address(host, port, out))
		return 0;
	if (getaddrinfo(host, port, &hints, &found))
		return -EHOSTUNREACH;
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static void client_buffer_return(struct rshare *r, uint32_t index)
{
	struct rs_request q = { .type = RS_RELEASE, .index = index };
	struct rs_answer a;

	rs_attach_request(r, &q, &a);
}

/* The owner has made a connection or listener. -ENOMEM: it is given back. */
static int new_conn(struct rshare *r, uint32_t index, struct rshare_conn **out)
{
	struct rshare_conn *c = rs_zalloc(1, sizeof(struct rshare_listener));

	if (!c) {
		client_buffer_return(r, index);
		return -ENOMEM;
	}
	rs_attach_enter(r, index, c);
	*out = c;
	return 0;
}

int rshare_connect(struct rshare *r, const char *node, uint32_t service, unsigned int priority,
		   unsigned int weight, struct rshare_conn **out)
{
	struct rs_request q = { .type = RS_CONNECT, .service = service };
	struct rs_answer a;
	int err;

	if (priority > RSHARE_PRIORITY_MAX || weight > RSHARE_WEIGHT_MAX)
		return -EINVAL;
	q.priority = (uint8_t)priority;
	q.weight = (uint8_t)(weight ? weight : 1);
	err = client_node_resolve(node, &q.node);
	if (!err)
		err = rs_attach_request(r, &q, &a);
	return err ? err : new_conn(r, a.index, out);
}

int rshare_listen(struct rshare *r, uint32_t service, struct rshare_listener **out)
{
	struct rs_request q = { .type = RS_LISTEN, .service = service };
	struct rs_answer a;
	struct rshare_conn *c;
	int err = rs_attach_request(r, &q, &a);

	if (!err)
		err = new_conn(r, a.index, &c);
	if (!err)
		*out = (struct rshare_listener *)c;
	return err;
}

/* ---- events --------------------------------------------------------------------------------- */

static bool client_cqe_take(struct rshare_conn *c, struct rs_cqe *e)
{
	const struct rs_layout *l = &c->r->layout;

	if (!rs_ring_take_shared(rs_seg_cq(l, c->seg), &c->cq, RS_CQ_FACTOR * l->depth, e,
				 sizeof(*e)))
		return false;
	if (rs_event_ok(e, l->conns))
		return true;
	rs_attach_owner_died(c->r);
	return false;
}

static bool pending(struct rshare_conn *c)
{
	const struct rs_layout *l = &c->r->layout;

	return rs_ring_filled(rs_seg_cq(l, c->seg), __atomic_load_n(&c->cq, __ATOMIC_RELAXED),
			      RS_CQ_FACTOR * l->depth, sizeof(struct rs_cqe));
}

/*
 * Make the fd readable at the next event. true: there is an event already. The owner clears armed
 * before it signals, so that its signal may come after the client has armed again, and would stay
 * in the fd: its count of signals shows that.
 */
static bool client_conn_arm(struct rshare_conn *c)
{
	uint32_t signals;

	if (client_conn_is_dead(c))
		return false; /* it stays readable */
	/* Before the signal is taken; pairs with the owner's count in rs_hub_notify(). */
	signals = __atomic_load_n(&c->seg->signals, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&c->seg->armed, __ATOMIC_SEQ_CST) &&
	    signals == __atomic_load_n(&c->signals, __ATOMIC_RELAXED))
		return pending(c); /* the owner has signalled nothing since */
	__atomic_store_n(&c->signals, signals, __ATOMIC_RELAXED);
	rs_signal_take(c->fd);
	/* A full barrier before the load; pairs with the owner's in rs_hub_notify(). */
	__atomic_exchange_n(&c->seg->armed, 1, __ATOMIC_SEQ_CST);
	return pending(c);
}

static void client_event_fill(struct rshare_conn *c, const struct rs_cqe *e,
			      struct rshare_event *out)
{
	*out = (struct rshare_event){ .type = (enum rshare_event_type)e->type,
				      .status = e->status,
				      .cookie = e->cookie,
				      .size = e->len,
				      .flags = e->tagged ? RSHARE_IMMEDIATE : 0,
				      .immediate = e->immediate };
	if (e->type == RSHARE_SENT)
		__atomic_fetch_sub(&c->sends, 1, __ATOMIC_RELEASE);
	if (e->type == RSHARE_RECEIVED || e->type == RSHARE_WRITTEN)
		__atomic_fetch_sub(&c->receives, 1, __ATOMIC_RELEASE);
	if (e->type == RSHARE_CLOSED) {
		c->status = e->status;
		__atomic_store_n(&c->closed, 1, __ATOMIC_RELEASE);
	}
}

int rshare_poll_again(struct rshare_conn *c, struct rshare_event *out, int max)
{
	struct rs_cqe e;
	int n = 0;

	while (n < max && client_cqe_take(c, &e))
		client_event_fill(c, &e, &out[n++]);
	return n || !client_conn_is_dead(c) ? n : -ECONNRESET;
}

int rshare_poll(struct rshare_conn *c, struct rshare_event *out, int max)
{
	int n;

	do
		n = rshare_poll_again(c, out, max);
	while (!n && max > 0 && __atomic_load_n(&c->fd, __ATOMIC_ACQUIRE) >= 0 &&
	       client_conn_arm(c));
	return n;
}

int rshare_fd(struct rshare_conn *c)
{
	int err;

	if (__atomic_load_n(&c->fd, __ATOMIC_ACQUIRE) >= 0)
		return c->fd;
	err = rs_attach_signal(c);
	if (!err && client_conn_is_dead(c))
		err = -ECONNRESET;
	return err ? err : c->fd;
}

int rshare_wait(struct rshare_conn *c, int timeout_ms)
{
	struct pollfd p = { .events = POLLIN };
	int n;

	if (pending(c))
		return 1;
	if (c->r->owner) {
		rs_owner_help(c->r->owner); /* the completion may be due */
		if (pending(c))
			return 1;
	}
	p.fd = rshare_fd(c);
	if (p.fd < 0)
		return p.fd;
	if (client_conn_arm(c))
		return 1;
	n = poll(&p, 1, timeout_ms);
	if (client_conn_is_dead(c) && !pending(c))
		return -ECONNRESET;
	return n < 0 ? -errno : n > 0;
}

/* ---- listening ------------------------------------------------------------------------------ */

int rshare_accept(struct rshare_listener *l, struct rshare_conn **out)
{
	struct rshare_event e;
	int n = rshare_poll(&l->conn, &e, 1);

	if (n <= 0)
		return n ? n : -EAGAIN;
	if ((uint32_t)e.type != RS_EVENT_ACCEPT)
		return -EBADMSG;
	return new_conn(l->conn.r, (uint32_t)e.cookie, out);
}

int rshare_listener_fd(struct rshare_listener *l)
{
	return rshare_fd(&l->conn);
}

void rshare_unlisten(struct rshare_listener *l)
{
	struct rshare_event e;
	struct rs_answer a;

	if (!l)
		return;
	client_conn_call(&l->conn, RS_CLOSE, &a);
	while (rshare_poll(&l->conn, &e, 1) > 0 && e.type != RSHARE_CLOSED)
		client_buffer_return(l->conn.r, (uint32_t)e.cookie);
	client_conn_call(&l->conn, RS_RELEASE, &a);
	rs_attach_leave(&l->conn);
	rs_free(l);
}

/* ---- closing -------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_closed(struct rshare_conn *c, int timeout_ms)
{
	const int64_t end = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
	struct rshare_event e[16];
	int64_t left;
	int n = 0;

	while (!__atomic_load_n(&c->closed, __ATOMIC_ACQUIRE)) {
		n = rshare_poll(c, e, 16);
		if (n > 0)
			continue;
		left = end - now_ms();
		if (n < 0 || left <= 0)
			return n < 0 ? n : -ETIMEDOUT;
		n = rshare_wait(c, left > INT_MAX ? -1 : (int)left);
		if (n < 0 && n != -EINTR)
			return n;
	}
	return c->status;
}

int rshare_disconnect(struct rshare_conn *c, int timeout_ms)
{
	struct rs_answer a;
	int status = 0;

	if (!c)
		return 0;
	if (timeout_ms) {
		status = client_conn_call(c, RS_CLOSE, &a);
		if (!status)
			status = wait_closed(c, timeout_ms);
	}
	client_conn_call(c, RS_RELEASE, &a);
	rs_attach_leave(c);
	rs_free(c);
	return status;
}

int rshare_set_priority(struct rshare_conn *c, unsigned int priority, unsigned int weight)
{
	struct rs_request q = { .type = RS_PRIORITY, .index = c->index };
	struct rs_answer a;

	if (priority > RSHARE_PRIORITY_MAX || weight > RSHARE_WEIGHT_MAX)
		return -EINVAL;
	q.priority = (uint8_t)priority;
	q.weight = (uint8_t)(weight ? weight : 1);
	return rs_attach_request(c->r, &q, &a);
}

int rshare_get_stats(struct rshare_conn *c, struct rshare_stats *out)
{
	struct rs_answer a;
	int err = client_conn_call(c, RS_STATS, &a);

	if (!err)
		*out = a.stats;
	return err;
}

/* ---- operations ----------------------------------------------------------------------------- */

static int client_buffer_offset(const struct rshare_conn *c, const void *buffer, size_t size,
				uint64_t *offset)
{
	const uint64_t pool = c->r->layout.pool_bytes;

	*offset = (uint64_t)((const char *)buffer - c->r->pool.base);
	return *offset > pool || size > pool - *offset || size > RSHARE_MESSAGE_MAX ? -EINVAL : 0;
}

/* Called after the slot is published. The order is that of owner.c. */
static void client_conn_notify(struct rshare_conn *c)
{
	struct rs_seg_head *head = c->r->base;
	uint32_t sleep;

	__atomic_fetch_or(&head->ready[c->index / 64], 1ull << c->index % 64, __ATOMIC_SEQ_CST);
	if (c->r->owner)
		rs_owner_help(c->r->owner);
	sleep = __atomic_load_n(&head->sleeping, __ATOMIC_SEQ_CST);
	if (!sleep || send(c->r->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return; /* the owner is awake, or was woken often enough */
	/*
	 * The owner will wake, so others need not ring. Set after the call: a thread may be
	 * cancelled or stopped in it.
	 */
	__atomic_compare_exchange_n(&head->sleeping, &sleep, 0, 0, __ATOMIC_SEQ_CST,
				    __ATOMIC_RELAXED);
}

static int client_conn_reserve(const struct rshare_conn *c, uint32_t *outstanding)
{
	if (client_conn_is_dead(c))
		return -ECONNRESET;
	if (__atomic_fetch_add(outstanding, 1, __ATOMIC_ACQUIRE) < c->r->layout.depth)
		return 0;
	__atomic_fetch_sub(outstanding, 1, __ATOMIC_RELAXED);
	return -EAGAIN;
}

/* Unsignalled operations have no event: those that have completed are subtracted here. False: none
 * have since. */
static bool client_quiet_collect(struct rshare_conn *c)
{
	/* Pairs with the owner's store in conn_complete(). */
	const uint32_t now = __atomic_load_n(&c->seg->quiet, __ATOMIC_ACQUIRE);
	/* Each of them once, by whichever thread. */
	const uint32_t before = __atomic_exchange_n(&c->quiet, now, __ATOMIC_ACQ_REL);

	__atomic_fetch_sub(&c->sends, now - before, __ATOMIC_RELEASE);
	return now != before;
}

/* second: the second entry, or NULL. */
static int client_conn_submit(struct rshare_conn *c, const struct rs_sqe *e, const void *second)
{
	const uint32_t depth = c->r->layout.depth;
	void *ring = rs_seg_sq(c->seg);
	int err = client_conn_reserve(c, &c->sends);

	if (err == -EAGAIN && client_quiet_collect(c))
		err = client_conn_reserve(c, &c->sends);
	if (err)
		return err;
	if (second ? !rs_ring_put_pair(ring, &c->sq, depth, e, second, sizeof(*e))
		   : !rs_ring_put_shared(ring, &c->sq, depth, e, sizeof(*e))) {
		__atomic_fetch_sub(&c->sends, 1, __ATOMIC_RELAXED);
		return -EAGAIN;
	}
	client_conn_notify(c);
	return 0;
}

static int client_inline_submit(struct rshare_conn *c, struct rs_sqe *e, const struct rshare_op *op)
{
	const struct rshare_piece whole = { op->buffer, e->len };
	const struct rshare_piece *v = op->pieces ? op->pieces : &whole;
	struct rs_rest rest = { .turn = 0 };
	char data[RS_INLINE_MAX];
	size_t n = 0;

	for (; n < e->len; n += v++->size)
		if (v->size)
			memcpy(data + n, v->buffer, v->size);
	memcpy(e->data, data, n < RS_INLINE_FIRST ? n : RS_INLINE_FIRST);
	if (n <= RS_INLINE_FIRST)
		return client_conn_submit(c, e, NULL);
	memcpy(rest.data, data + RS_INLINE_FIRST, n - RS_INLINE_FIRST);
	return client_conn_submit(c, e, &rest);
}

static int client_pieces_submit(struct rshare_conn *c, struct rs_sqe *e, const struct rshare_op *op)
{
	struct rs_pieces v = { .turn = 0 };
	unsigned int i, n = 0;
	int err;

	for (i = 0; i < op->npieces; i++) {
		const struct rshare_piece *piece = &op->pieces[i];

		if (!piece->size)
			continue; /* some devices would take it for 2^31 bytes */
		err = client_buffer_offset(c, piece->buffer, piece->size, &v.offset[n]);
		if (err)
			return err;
		v.len[n++] = (uint32_t)piece->size;
	}
	if (n > 1 && n > c->r->pieces)
		return -EINVAL;
	if (n < 2) {
		e->offset = v.offset[0];
		return client_conn_submit(c, e, NULL);
	}
	e->pieces = n;
	return client_conn_submit(c, e, &v);
}

/* The bytes of an operation. -EINVAL: no such pieces. */
static int client_op_measure(const struct rshare_op *op, size_t *out)
{
	size_t sum = op->size;
	unsigned int i;

	if (op->pieces ? op->buffer || op->size || op->npieces > RSHARE_PIECES_MAX : op->npieces)
		return -EINVAL;
	for (i = 0; i < op->npieces; i++) {
		if (op->pieces[i].size > RSHARE_MESSAGE_MAX)
			return -EINVAL;
		sum += op->pieces[i].size;
	}
	*out = sum;
	return sum > RSHARE_MESSAGE_MAX ? -EINVAL : 0;
}

static int client_remote_fill(const struct rshare_op *op, size_t size, struct rs_sqe *e)
{
	if (!op->remote)
		return -EINVAL;
	if (op->offset > op->remote->size || size > op->remote->size - op->offset)
		return -ERANGE;
	e->remote = op->remote->address + op->offset;
	e->rkey = op->remote->rkey;
	return 0;
}

static bool client_op_exists(const struct rshare_op *op)
{
	const unsigned int flags = op->type >= RSHARE_OP_READ ? READ_FLAGS : CLIENT_FLAGS;

	return op->type >= RSHARE_OP_SEND && op->type <= RSHARE_OP_COMPARE_SWAP &&
		!(op->flags & ~flags);
}

static bool client_op_is_atomic(const struct rshare_op *op)
{
	return op->type == RSHARE_OP_FETCH_ADD || op->type == RSHARE_OP_COMPARE_SWAP;
}

int rshare_post(struct rshare_conn *c, const struct rshare_op *op)
{
	struct rs_sqe e = { .op = (uint8_t)op->type,
			    .flags = (uint8_t)op->flags,
			    .cookie = op->cookie };
	size_t size;
	int err;

	if (!client_op_exists(op) || client_op_measure(op, &size))
		return -EINVAL;
	if (op->flags & RSHARE_IMMEDIATE)
		e.immediate = op->immediate;
	err = op->type == RSHARE_OP_SEND ? 0 : client_remote_fill(op, size, &e);
	if (err)
		return err;
	if (client_op_is_atomic(op)) {
		if (op->size != sizeof(uint64_t) || e.remote % sizeof(uint64_t))
			return -EINVAL;
		e.operand = op->operand;
		e.compare = op->type == RSHARE_OP_COMPARE_SWAP ? op->compare : 0;
	}
	e.len = (uint32_t)size;
	if (op->flags & RSHARE_INLINE)
		return size > RSHARE_INLINE_MAX ? -EINVAL : client_inline_submit(c, &e, op);
	if (op->pieces)
		return client_pieces_submit(c, &e, op);
	err = client_buffer_offset(c, op->buffer, op->size, &e.offset);
	return err ? err : client_conn_submit(c, &e, NULL);
}

int rshare_send(struct rshare_conn *c, const void *buffer, size_t size, uint64_t cookie)
{
	const struct rshare_op op = { .type = RSHARE_OP_SEND,
				      .cookie = cookie,
				      .buffer = (void *)(uintptr_t)buffer,
				      .size = size };

	return rshare_post(c, &op);
}

int rshare_write(struct rshare_conn *c, const void *buffer, size_t size,
		 const struct rshare_remote *to, uint64_t offset, uint64_t cookie)
{
	const struct rshare_op op = { .type = RSHARE_OP_WRITE,
				      .cookie = cookie,
				      .buffer = (void *)(uintptr_t)buffer,
				      .size = size,
				      .remote = to,
				      .offset = offset };

	return rshare_post(c, &op);
}

int rshare_read(struct rshare_conn *c, void *buffer, size_t size, const struct rshare_remote *from,
		uint64_t offset, uint64_t cookie)
{
	const struct rshare_op op = { .type = RSHARE_OP_READ,
				      .cookie = cookie,
				      .buffer = buffer,
				      .size = size,
				      .remote = from,
				      .offset = offset };

	return rshare_post(c, &op);
}

int rshare_recv(struct rshare_conn *c, void *buffer, size_t size, uint64_t cookie)
{
	const struct rs_layout *l = &c->r->layout;
	struct rs_rqe e = { .cookie = cookie, .len = (uint32_t)size };
	int err = client_buffer_offset(c, buffer, size, &e.offset);

	if (!err)
		err = client_conn_reserve(c, &c->receives);
	if (err)
		return err;
	if (!rs_ring_put_shared(rs_seg_rq(l, c->seg), &c->rq, l->depth, &e, sizeof(e))) {
		__atomic_fetch_sub(&c->receives, 1, __ATOMIC_RELAXED);
		return -EAGAIN;
	}
	client_conn_notify(c);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * lanes_run.c - one measurement: two ends of net/verbs that are opened for it, find each other over
 * a socket, and run a load. Both ends may be in one process.
 *
 *   client                          server
 *   order (case, side) ->           opens
 *   address            <->          address
 *   connected          <->          connected
 *   the load                        answers, or counts
 *   done               ->           counts
 *                      <-           struct lanes_count
 */
#include "lanes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define SLOTS 256     /* as many as blocks' messages in one word may name */
#define ACK_PART 4    /* the receiver reports each so-manieth part of a window */
#define SAMPLES 65536 /* of echoes */
#define ECHOES 200    /* at least: on a busy machine, few fit into the time of a measurement */
#define LATEST 1      /* aux of a message: report at once */
#define PATIENCE_S 60 /* for anything of the other end */
#define BUDGET 64
#define PEEK_EVERY 64 /* polls, until the server checks whether the client is done */
#define AGAIN_MS 100  /* until a report is asked for again */

struct order {
	uint32_t which, side;
};

struct sender {
	struct lanes_end *end;
	unsigned int number;
	pthread_t thread;
	uint64_t sent; /* by itself */
	_Atomic uint64_t acked;
	sem_t window;
};

struct lanes_end {
	const struct lanes_case *c;
	struct net *net;
	uint16_t rank;
	struct sender senders[LANES_SENDERS];
	_Atomic uint64_t received[LANES_SENDERS], reported[LANES_SENDERS]; /* at the receiver */
	_Atomic uint32_t asked, answered;
	_Atomic int stop;
	char *payload;
};

static void must(bool fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "lanes: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must_net(int err, const char *what)
{
	errno = -err;
	must(err >= 0, what);
}

static void put(int fd, const void *p, size_t n)
{
	must(send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n, "the other end");
}

static void get(int fd, void *p, size_t n)
{
	must(recv(fd, p, n, MSG_WAITALL) == (ssize_t)n, "the other end");
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct msg message(const struct lanes_end *e, uint8_t type, uint32_t object)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = e->rank,
			     .dst = !e->rank,
			     .req_node = e->rank,
			     .object = object };
}

static void post(struct lanes_end *e, const struct msg *m, size_t size)
{
	must_net(net_verbs.send(e->net, !e->rank, m, e->payload, size), "sending");
}

/* What a sender of a stream sends next: payloads are calls. */
static uint8_t stream_type(const struct lanes_case *c, uint64_t sent)
{
	static const uint8_t types[] = { MSG_PING, MSG_DATA, MSG_READ_REQ, MSG_CALL };

	return c->size ? MSG_CALL
		       : types[c->classes ? sent % (sizeof(types) / sizeof(types[0])) : 0];
}

/* The receiver's side of the window. Several threads may be here; each message is reported once. */
static void stream_in(struct lanes_end *e, const struct msg *m)
{
	const uint64_t part = e->c->window / ACK_PART,
		       n = atomic_fetch_add(&e->received[m->object], 1) + 1;
	uint64_t reported = atomic_load(&e->reported[m->object]);
	struct msg ack;

	while (n > reported && (n - reported >= part || m->aux == LATEST))
		if (atomic_compare_exchange_weak(&e->reported[m->object], &reported, n)) {
			ack = message(e, MSG_PING, m->object);
			ack.value = n - reported;
			post(e, &ack, 0);
			return;
		}
}

static void acked(struct lanes_end *e, const struct msg *m)
{
	struct sender *s = &e->senders[m->object];
	uint64_t i;

	for (i = 0; i < m->value; i++)
		sem_post(&s->window);
	atomic_fetch_add(&s->acked, m->value);
}

/* A block for a request, as the home of a block sends it; without a block, its permission. */
static void answer(struct lanes_end *e, const struct msg *ask)
{
	struct msg m = message(e, e->c->size ? MSG_DATA : MSG_GRANT, ask->object);

	m.op = GRANT_READ;
	m.req_node = ask->req_node;
	m.req_slot = ask->req_slot;
	post(e, &m, e->c->size);
}

static void handler(void *arg, const struct msg *m, const void *payload, size_t size)
{
	struct lanes_end *e = arg;
	const bool echo = e->c->load == LANES_ECHO;

	(void)payload;
	if (!echo && m->object >= LANES_SENDERS)
		must_net(-EBADMSG, "a message");
	if (e->rank && echo)
		answer(e, m);
	else if (e->rank)
		stream_in(e, m);
	else if (!echo)
		acked(e, m);
	else if (size == e->c->size && m->object == atomic_load(&e->asked))
		atomic_store(&e->answered, m->object);
}

static void lost(void *arg, uint16_t rank, int err)
{
	(void)arg;
	(void)rank;
	must_net(err, "the other end");
}

static void new_thread(void *arg)
{
	(void)arg;
}

static uint32_t object(void *arg, uint16_t slot)
{
	struct lanes_end *e = arg;

	(void)slot;
	return atomic_load(&e->asked);
}

static bool waited(const struct msg *m)
{
	return m->type == MSG_DATA || m->type == MSG_GRANT;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void open_end(struct lanes_end *e, const struct lanes_case *c, enum lanes_side side,
		     uint16_t rank, int fd, const char *devices)
{
	struct net_config cfg = { .rank = rank,
				  .size = 2,
				  .nslots = SLOTS,
				  .handler = handler,
				  .lost = lost,
				  .thread = c->threads ? new_thread : NULL,
				  .object = object,
				  .waited = waited,
				  .arg = e,
				  .key = 1,
				  .number = (uint64_t)getpid(),
				  .device = devices,
				  .gid = "",
				  .cq_groups = c->groups[side] ? c->groups[side] : "",
				  .verbs = c->verbs[side] };
	char address[NET_ADDRESS_MAX], first[64];
	size_t size = sizeof(address);
	uint32_t bytes;
	unsigned int i;

	memset(e, 0, sizeof(*e));
	e->c = c;
	e->rank = rank;
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(devices, ","), devices);
	if (c->links == 1)
		cfg.device = first;
	e->payload = calloc(1, c->size + 1);
	must(e->payload, "memory");
	for (i = 0; i < LANES_SENDERS; i++) {
		e->senders[i].end = e;
		e->senders[i].number = i;
		must(!sem_init(&e->senders[i].window, 0, c->window), "sem_init");
	}
	must_net(net_verbs.open(&cfg, &e->net, address, &size), "opening the device");
	bytes = (uint32_t)size;
	put(fd, &bytes, sizeof(bytes));
	put(fd, address, size);
	get(fd, &bytes, sizeof(bytes));
	must(bytes <= sizeof(address), "the other end's address");
	get(fd, address, bytes);
	must_net(net_verbs.connect(e->net, !rank, address, bytes), "connecting");
	put(fd, "", 1);
	get(fd, address, 1);
}

static void close_end(struct lanes_end *e)
{
	unsigned int i;

	net_verbs.close(e->net);
	for (i = 0; i < LANES_SENDERS; i++)
		sem_destroy(&e->senders[i].window);
	free(e->payload);
}

static void count(struct lanes_end *e, const struct bench_cost *from, struct lanes_count *out)
{
	struct net_vector rows[LANES_VECTORS];
	struct bench_cost now;
	unsigned int i, n;

	bench_cost_read(&now);
	memset(out, 0, sizeof(*out));
	net_verbs.counters(e->net, &out->net);
	n = net_verbs.vectors(e->net, rows, LANES_VECTORS);
	out->nvectors = n < LANES_VECTORS ? n : LANES_VECTORS;
	for (i = 0; i < out->nvectors; i++) {
		snprintf(out->vectors[i].device, sizeof(out->vectors[i].device), "%s",
			 rows[i].device);
		out->vectors[i].vector = rows[i].vector;
		out->vectors[i].completions = rows[i].completions;
	}
	out->cpu_us = now.cpu_us - from->cpu_us;
	out->calls = now.calls - from->calls;
}

/* ---- the server ------------------------------------------------------------------------------ */

static bool client_is_done(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

static void serve_until_done(struct lanes_end *e, int fd)
{
	unsigned int i;

	if (e->c->threads) {
		while (!client_is_done(fd, 2))
			net_verbs.arm(e->net); /* connections */
	} else if (e->c->late) {
		while (!client_is_done(fd, 0)) {
			usleep(LANES_LATE_US);
			while (net_verbs.poll(e->net, BUDGET))
				;
		}
	} else {
		while (!client_is_done(fd, 0))
			for (i = 0; i < PEEK_EVERY; i++)
				net_verbs.poll(e->net, BUDGET);
	}
}

void lanes_serve(int fd, const char *devices)
{
	static struct lanes_end e;
	struct bench_cost from;
	struct lanes_count out;
	struct order order;
	char done;

	while (recv(fd, &order, sizeof(order), MSG_WAITALL) == (ssize_t)sizeof(order)) {
		must(order.which < lanes_ncases && order.side < LANES_SIDES, "an order");
		open_end(&e, &lanes_cases[order.which], (enum lanes_side)order.side, 1, fd,
			 devices);
		bench_cost_read(&from);
		serve_until_done(&e, fd);
		get(fd, &done, 1);
		count(&e, &from, &out);
		put(fd, &out, sizeof(out));
		get(fd, &done, 1); /* the client has what it needs */
		close_end(&e);
	}
}

/* ---- the client ------------------------------------------------------------------------------ */

static void take_turn(struct sender *s)
{
	struct lanes_end *e = s->end;

	if (e->c->threads)
		while (sem_wait(&s->window))
			;
	else
		while (sem_trywait(&s->window))
			net_verbs.poll(e->net, BUDGET);
}

static void send_one(struct sender *s, bool last)
{
	struct msg m = message(s->end, stream_type(s->end->c, s->sent), s->number);

	take_turn(s);
	m.aux = last ? LATEST : 0;
	s->sent++;
	post(s->end, &m, s->end->c->size);
}

/*
 * Where several threads deliver, messages overtake each other: the last may be reported before
 * others were received.
 */
static void finish(struct sender *s)
{
	const double until = bench_now_us() + PATIENCE_S * 1e6;
	double again;

	do {
		errno = ETIMEDOUT;
		must(bench_now_us() < until, "the receiver");
		send_one(s, true);
		again = bench_now_us() + AGAIN_MS * 1e3;
		while (bench_now_us() < again && atomic_load(&s->acked) < s->sent)
			if (s->end->c->threads)
				usleep(200);
			else
				net_verbs.poll(s->end->net, BUDGET);
	} while (atomic_load(&s->acked) < s->sent);
}

static void *send_all(void *arg)
{
	struct sender *s = arg;

	while (!atomic_load(&s->end->stop))
		send_one(s, false);
	finish(s);
	return NULL;
}

/* Threads that deliver connect only where somebody serves descriptors. */
static void *serve_descriptors(void *arg)
{
	struct lanes_end *e = arg;

	while (atomic_load(&e->stop) < 2) {
		net_verbs.arm(e->net);
		usleep(2000);
	}
	return NULL;
}

static void stream(struct lanes_end *e, unsigned int ms, struct lanes_result *out)
{
	const unsigned int n = e->c->senders;
	uint64_t before = 0, after = 0;
	double start;
	unsigned int i;

	for (i = 0; i < n; i++)
		finish(&e->senders[i]); /* connects */
	for (i = 0; i < n; i++)
		before += e->senders[i].sent;
	start = bench_now_us();
	for (i = 0; i < n && e->c->threads; i++)
		must(!pthread_create(&e->senders[i].thread, NULL, send_all, &e->senders[i]),
		     "a thread");
	if (e->c->threads)
		usleep(ms * 1000);
	while (!e->c->threads && bench_now_us() - start < ms * 1000.0)
		send_one(&e->senders[0], false);
	atomic_store(&e->stop, 1);
	for (i = 0; i < n; i++)
		if (e->c->threads)
			pthread_join(e->senders[i].thread, NULL);
		else
			finish(&e->senders[i]);
	out->us = bench_now_us() - start;
	for (i = 0; i < n; i++)
		after += e->senders[i].sent;
	out->messages = after - before;
	out->sent = after;
}

static double ask_once(struct lanes_end *e, uint32_t number)
{
	struct msg m = message(e, MSG_READ_REQ, number);
	const double start = bench_now_us();

	m.req_slot = (uint16_t)(number % SLOTS);
	atomic_store(&e->asked, number);
	if (e->c->threads)
		net_verbs.wait_step(e->net, NET_WAIT_BEGIN);
	post(e, &m, 0);
	while (atomic_load(&e->answered) != number) {
		errno = ETIMEDOUT;
		must(bench_now_us() - start < PATIENCE_S * 1e6, "an answer");
		net_verbs.poll(e->net, BUDGET);
	}
	while (e->c->threads && net_verbs.wait_step(e->net, NET_WAIT_END) == -EBUSY)
		net_verbs.wait_step(e->net, NET_WAIT_BEGIN);
	return bench_now_us() - start;
}

static void echo(struct lanes_end *e, unsigned int ms, struct lanes_result *out)
{
	double *samples = calloc(SAMPLES, sizeof(*samples)), start;
	uint32_t number = 0, n = 0;

	must(samples, "memory");
	while (number < 20) /* connects */
		ask_once(e, ++number);
	start = bench_now_us();
	while (n < ECHOES || (bench_now_us() - start < ms * 1000.0 && n < SAMPLES))
		samples[n++] = ask_once(e, ++number);
	out->us = bench_now_us() - start;
	qsort(samples, n, sizeof(*samples), bench_by_value);
	out->messages = n;
	out->sent = number;
	out->median_us = samples[n / 2];
	out->p99_us = samples[(uint64_t)n * 99 / 100];
	free(samples);
}

void lanes_measure(int fd, const char *devices, const struct lanes_case *c, enum lanes_side side,
		   unsigned int ms, struct lanes_result *out)
{
	const struct order order = { .which = (uint32_t)(c - lanes_cases), .side = side };
	static struct lanes_end e;
	struct bench_cost from;
	pthread_t descriptors;

	memset(out, 0, sizeof(*out));
	put(fd, &order, sizeof(order));
	open_end(&e, c, side, 0, fd, devices);
	if (c->threads)
		must(!pthread_create(&descriptors, NULL, serve_descriptors, &e), "a thread");
	bench_cost_read(&from);
	(c->load == LANES_ECHO ? echo : stream)(&e, ms, out);
	put(fd, "", 1);
	count(&e, &from, &out->sender);
	get(fd, &out->receiver, sizeof(out->receiver));
	atomic_store(&e.stop, 2);
	if (c->threads)
		pthread_join(descriptors, NULL);
	put(fd, "", 1);
	close_end(&e);
}

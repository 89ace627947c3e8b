/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net_ends.h - transport ends for tests, which check each message on arrival.
 *
 * Every test runs in its own process: UCX reads its settings once. The loop index of a test selects
 * the transports.
 */
#ifndef UNIT_NET_ENDS_H
#define UNIT_NET_ENDS_H

#include "core.h"

#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "net/check.h"
#include "net/net.h"
#include "util/sizes.h"

#define SLOTS 16
#define LOST_MS 4000
#define PATIENCE_MS 20000 /* for an operation that takes 1 ms on an idle host */

#ifndef NET_OPS
#define NET_OPS net_ucx
#define TRANSPORTS 3
#define SLEEPERS TRANSPORTS /* of them, those whose sender need not poll */
#endif

struct end {
	struct net *net;
	uint16_t rank;
	unsigned char address[NET_ADDRESS_MAX];
	size_t size;
	/* counts of arrivals; atomic, because handlers run in any thread */
	unsigned int messages, wrong, lost;
	uint64_t sum;
	int err;
	int epoll; /* of watch() */
};

static const struct net_ops *const ops = &NET_OPS;
static unsigned char bytes[NET_PAYLOAD_MAX];
static const char *verbs_setting = "";
static bool one_host; /* ranks know that they are on one host */

static inline uint64_t now_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline unsigned char byte_of(uint32_t seed, size_t i)
{
	return (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

/* value: size of the payload; object: its seed. */
static inline void handler(void *arg, const struct msg *m, const void *payload, size_t size)
{
	const unsigned char *p = payload;
	struct end *e = arg;
	size_t i;

	if (size != m->value || m->dst != e->rank)
		__atomic_fetch_add(&e->wrong, 1, __ATOMIC_RELAXED);
	for (i = 0; i < size; i += i + 64 < size ? 61 : 1)
		if (p[i] != byte_of(m->object, i)) {
			__atomic_fetch_add(&e->wrong, 1, __ATOMIC_RELAXED);
			break;
		}
	__atomic_fetch_add(&e->sum, m->aux, __ATOMIC_RELAXED);
	__atomic_fetch_add(&e->messages, 1, __ATOMIC_RELEASE);
}

static inline void lost(void *arg, uint16_t rank, int err)
{
	struct end *e = arg;

	(void)rank;
	e->lost++;
	e->err = err;
}

static inline bool on_this_host(void *arg, uint16_t rank)
{
	(void)arg, (void)rank;
	return true;
}

static inline bool is_late(const struct msg *m)
{
	return m->type == MSG_DONE;
}

/* optional: threads of the transport, waiters, priorities. */
static inline int open_with(struct end *e, uint16_t rank, net_handler h,
			    const struct net_config *optional)
{
	const struct net_config cfg = { .rank = rank,
					.size = 3,
					.nslots = SLOTS,
					.handler = h,
					.lost = lost,
					.arg = e,
					.thread = optional->thread,
					.waited = optional->waited,
					.late = is_late,
					.same_host = one_host ? on_this_host : NULL,
					.priority = optional->priority,
					.key = (uint64_t)getpid(),
					.number = (uint64_t)getpid(),
					.lost_ms = LOST_MS,
					.device = "",
					.gid = "",
					.cq_groups = "",
					.verbs = verbs_setting };

	memset(e, 0, sizeof(*e));
	e->rank = rank;
	return ops->open(&cfg, &e->net, e->address, &e->size);
}

static inline int try_open(struct end *e, uint16_t rank, net_handler h)
{
	return open_with(e, rank, h, &(struct net_config){ 0 });
}

/* Transport 0 is the default; 2 is the same with ranks that know that they are on one host. */
static inline void choose(int transport)
{
#ifdef NET_SETTINGS
	static const char *const settings[] = { NET_SETTINGS };

	verbs_setting = settings[transport];
#else
	if (transport == 1)
		setenv("UCX_TLS", "tcp", 1);
	else
		unsetenv("UCX_TLS");
	one_host = transport == 2;
#endif
}

static inline void connect_pair(struct end *a, struct end *b)
{
	ck_assert_int_eq(ops->connect(a->net, 1, b->address, b->size), 0);
	ck_assert_int_eq(ops->connect(b->net, 0, a->address, a->size), 0);
}

/* The setting as verbs_setting() expects it. */
static inline void open_set(struct end *a, struct end *b)
{
	ck_assert_int_eq(try_open(a, 0, handler), 0);
	ck_assert_int_eq(try_open(b, 1, handler), 0);
	connect_pair(a, b);
}

static inline void open_pair(struct end *a, struct end *b, int transport)
{
	choose(transport);
	open_set(a, b);
}

static inline void close_pair(struct end *a, struct end *b)
{
	ops->close(a->net);
	ops->close(b->net);
	if (a->epoll > 0)
		close(a->epoll);
	if (b->epoll > 0)
		close(b->epoll);
}

static inline struct msg message(const struct end *from, uint16_t to, uint8_t type, uint32_t seed,
				 size_t size)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = from->rank,
			     .dst = to,
			     .req_node = from->rank,
			     .object = seed,
			     .value = size,
			     .aux = 1 };
}

static inline int send_to(struct end *from, uint16_t to, uint8_t type, uint32_t seed, size_t size)
{
	struct msg m = message(from, to, type, seed, size);
	size_t i;
	int err;

	for (i = 0; i < size; i++)
		bytes[i] = byte_of(seed, i);
	err = ops->send(from->net, to, &m, bytes, size);
	memset(bytes, 0, size); /* the buffer belongs to the caller again */
	return err;
}

/* Wait as long as the count grows: the speed depends on the machine. */
static inline void poll_until(struct end *a, struct end *b, const unsigned int *word,
			      unsigned int value)
{
	uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	unsigned int seen, before = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < value &&
	       now_ms(CLOCK_MONOTONIC) < until) {
		if (seen != before)
			until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
		before = seen;
		ops->poll(a->net, 64);
		if (b)
			ops->poll(b->net, 64);
	}
	ck_assert_uint_eq(__atomic_load_n(word, __ATOMIC_ACQUIRE), value);
}

/* Wait until both ends are connected and idle. */
static inline void settle(struct end *a, struct end *b)
{
	uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	int quiet = 0;

	while (quiet < 3 && now_ms(CLOCK_MONOTONIC) < until) {
		quiet = ops->poll(a->net, 64) + ops->poll(b->net, 64) ? 0 : quiet + 1;
		usleep(2000);
	}
}

/*
 * Watch as the service thread does: what has a bell may be readable of old (net.h), so only changes
 * count.
 */
static inline void watch(struct end *e)
{
	const int bell_fd = ops->bell ? ops->bell(e->net) : -1;
	struct epoll_event fd = { .events = EPOLLIN | (bell_fd < 0 ? 0u : EPOLLET) },
			   bell = { .events = EPOLLIN | EPOLLET };

	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	ck_assert_int_ge(e->epoll, 0);
	ck_assert_int_eq(epoll_ctl(e->epoll, EPOLL_CTL_ADD, ops->fd(e->net), &fd), 0);
	if (bell_fd >= 0) {
		ck_assert_int_eq(epoll_ctl(e->epoll, EPOLL_CTL_ADD, bell_fd, &bell), 0);
		epoll_wait(e->epoll, &fd, 1, 0);
	}
}

/* Has a sleeper been woken since arm()? Without it, what was before is forgotten. */
static inline bool readable(struct end *e, int ms)
{
	struct epoll_event ev;

	if (e->epoll <= 0)
		watch(e);
	return epoll_wait(e->epoll, &ev, 1, ms) > 0;
}

/* Arm; handle what has arrived first. */
static inline void arm(struct end *e)
{
	uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	int err;

	if (e->epoll <= 0)
		watch(e);
	while ((err = ops->arm(e->net)) == -EBUSY && now_ms(CLOCK_MONOTONIC) < until)
		ops->poll(e->net, 64);
	ck_assert_int_ge(err, 0);
}

#endif

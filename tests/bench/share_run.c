// SPDX-License-Identifier: BSD-2-Clause
/*
 * share_run.c - the experiments, but for those of share_flows.c.
 *
 *   threads      COUNT threads send to one node; side ring: each over a connection; mutex: all over
 *                one native queue pair; chain: the same, but the holder of the mutex posts what all
 *                threads have to send, as one chain. A thread without completions sleeps on its
 *                connection, or (mutex, chain) yields
 *   connections  one thread sends over COUNT connections; side ring: they are in a set; fds: each
 *                has an fd
 *   bursts       bursts of COUNT echoes; the working modes are the profile's; side pause: 2 ms
 *                between them; side stream: none
 *   latency      echoes, one at a time; side ring, or a native queue pair whose two ends poll or
 *                wait for events
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common.h"
#include "share.h"

#define WINDOW 8 /* messages that a thread has under way */

/* ---- threads -------------------------------------------------------------------------------- */

struct sender {
	pthread_t thread;
	const struct share_options *o;
	unsigned int number;
	struct rshare_conn *c;
	char *buf;
	unsigned int waiting; /* messages for the holder of the mutex; side chain */
	/* messages: of all that are done, counted by whoever polls; and taken note of */
	uint64_t done, mine;
} __attribute__((aligned(64)));

static struct sender senders[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t locks, contended; /* under the lock */

static void *send_over_ring(void *arg)
{
	struct sender *s = arg;
	unsigned int under_way = 0;
	struct rshare_event e[16];
	int i, n;

	while (!share_stopped() || under_way) {
		while (under_way < WINDOW && !share_stopped() &&
		       !rshare_send(s->c, s->buf, s->o->size, 0))
			under_way++;
		n = rshare_poll(s->c, e, 16);
		share_must(n, "rshare_poll");
		for (i = 0; i < n; i++)
			if (e[i].type == RSHARE_SENT) {
				share_must(e[i].status, "a send");
				under_way--;
				__atomic_fetch_add(&s->done, 1, __ATOMIC_RELAXED);
			}
		if (!n)
			rshare_wait(s->c, 1000);
	}
	return NULL;
}

static void take_lock(void)
{
	const bool waited = pthread_mutex_trylock(&lock);

	if (waited)
		pthread_mutex_lock(&lock);
	locks++;
	contended += waited;
}

/* Post what all threads have to send. The lock is held. */
static void post_waiting(const struct share_options *o)
{
	const unsigned int threads = o->count < 64 ? o->count : 64;
	uint32_t ids[SHARE_CHAIN];
	unsigned int i, n = 0, k;

	for (i = 0; i < threads && n <= SHARE_CHAIN - WINDOW; i++)
		for (k = __atomic_exchange_n(&senders[i].waiting, 0, __ATOMIC_RELAXED); k; k--)
			ids[n++] = i;
	if (n)
		share_native_chain(share_pair, o->size, ids, n);
}

static void post(struct sender *s, bool chains)
{
	if (chains) {
		__atomic_fetch_add(&s->waiting, 1, __ATOMIC_RELAXED);
		return;
	}
	take_lock();
	share_native_send(share_pair, s->o->size, s->number);
	pthread_mutex_unlock(&lock);
}

/*
 * The lock is for a call of libibverbs. The completion of a send is for its thread, whoever finds
 * it.
 */
static void *send_under_mutex(void *arg)
{
	struct sender *s = arg;
	const bool chains = !strcmp(s->o->side, "chain");
	uint64_t posted = 0, done;
	struct ibv_wc wc[16];
	int i, n;

	while (!share_stopped() || s->mine != posted) {
		for (; posted - s->mine < WINDOW && !share_stopped(); posted++)
			post(s, chains);
		take_lock();
		if (chains)
			post_waiting(s->o);
		n = share_native_poll(share_pair, wc, 16);
		for (i = 0; i < n; i++)
			__atomic_fetch_add(&senders[wc[i].wr_id].done, 1, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
		done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
		if (done == s->mine)
			sched_yield();
		s->mine = done;
	}
	return NULL;
}

struct share_native *share_native_dial(uint32_t size, bool echo, bool sleeping)
{
	struct rshare_conn *c = share_dial(SHARE_SERVICE(SHARE_NATIVE, 8, 0), 7);
	char *buf = rshare_get(share_here, 4096);
	struct share_ask ask = { .size = size, .echo = echo, .sleeping = sleeping };
	struct share_native *n = share_native_open(size, &ask.address);
	struct rs_address there;

	share_must_buffer(buf);
	memcpy(buf, &ask, sizeof(ask));
	share_must(rshare_recv(c, buf + 2048, 2048, 0), "rshare_recv");
	share_must(rshare_send(c, buf, sizeof(ask), 0), "rshare_send");
	share_next_of(c, RSHARE_RECEIVED);
	memcpy(&there, buf + 2048, sizeof(there));
	share_native_connect(n, &there);
	share_must(rshare_disconnect(c, SHARE_WAIT_MS), "rshare_disconnect");
	rshare_put(share_here, buf);
	return n;
}

void share_native_end(struct share_native *n)
{
	struct ibv_wc wc;

	share_native_send(n, 1, 0);
	while (!share_native_poll(n, &wc, 1))
		;
	share_native_close(n);
}

static uint64_t all_done(unsigned int threads)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < threads; i++)
		sum += __atomic_load_n(&senders[i].done, __ATOMIC_RELAXED);
	return sum;
}

static void share_run_threads(const struct share_options *o)
{
	const bool ring = !strcmp(o->side, "ring");
	const unsigned int threads = o->count < 64 ? o->count : 64;
	struct share_counters before, after;
	uint64_t first, last;
	double start, us;
	unsigned int i;

	if (!ring)
		share_pair = share_native_dial(o->size, false, true);
	for (i = 0; i < threads; i++) {
		senders[i] = (struct sender){ .o = o, .number = i };
		if (ring) {
			senders[i].c = share_dial(SHARE_SERVICE(SHARE_SINK, 6, 5), 0);
			senders[i].buf = rshare_get(share_here, o->size);
			share_must_buffer(senders[i].buf);
			share_next_of(senders[i].c, RSHARE_CONNECTED);
		}
	}
	share_count(&before);
	for (i = 0; i < threads; i++)
		share_must(-pthread_create(&senders[i].thread, NULL,
					   ring ? send_over_ring : send_under_mutex, &senders[i]),
			   "a thread");
	usleep(SHARE_WARM_UP_US);
	start = share_now_us();
	first = all_done(threads);
	usleep(o->ms * 1000);
	last = all_done(threads);
	us = share_now_us() - start;
	share_stop();
	for (i = 0; i < threads; i++)
		pthread_join(senders[i].thread, NULL);
	share_count(&after);
	printf("\"per_s\": %.1f, \"messages\": %llu, \"locks\": %llu, \"contended\": %llu, ",
	       (double)(last - first) / us * 1e6, (unsigned long long)all_done(threads),
	       (unsigned long long)locks, (unsigned long long)contended);
	share_print_counters(&before, &after);
	if (share_pair)
		share_native_end(share_pair);
}

/* ---- connections ---------------------------------------------------------------------------- */

static unsigned int depth_of(unsigned int connections)
{
	return connections <= 16 ? 5 : connections <= 256 ? 2 : 0;
}

static unsigned int open_files(void)
{
	unsigned int n = 0;
	int fd;

	for (fd = 0; fd < 8192; fd++)
		n += lseek(fd, 0, SEEK_CUR) != -1 || errno != EBADF;
	return n;
}

static struct one {
	struct rshare_conn *c;
	unsigned int under_way;
	bool used;
} all[1024];

struct many {
	const struct share_options *o;
	bool set;
	unsigned int window, used;
	char *buf;
	uint64_t done;
};

static void fill(const struct many *m, struct one *c)
{
	while (c->under_way < m->window && !rshare_send(c->c, m->buf, m->o->size, 0))
		c->under_way++;
}

static void refill(struct many *m, struct one *c)
{
	struct rshare_event e[16];
	int n;

	while ((n = m->set ? rshare_poll_again(c->c, e, 16) : rshare_poll(c->c, e, 16)) > 0) {
		c->under_way -= (unsigned int)n;
		m->done += (uint64_t)n;
		m->used += !c->used;
		c->used = true;
		fill(m, c);
	}
	share_must(n, "rshare_poll");
}

static void refill_set(struct many *m)
{
	void *ready[64];
	int k, n;

	while ((n = rshare_ready(share_here, ready, 64)) > 0)
		for (k = 0; k < n; k++)
			refill(m, ready[k]);
	share_must(n, "rshare_ready");
}

/* The next event of a connection of the set must be that it is connected. */
static void await_connected(struct rshare_conn *c, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct rshare_event e;
	void *ready[64];
	int n;

	while (!(n = rshare_poll_again(c, &e, 1)))
		if (rshare_ready(share_here, ready, 64) == 0 && poll(&p, 1, SHARE_WAIT_MS) != 1)
			share_must(-ETIMEDOUT, "a connection of the set");
	share_must(n < 0 ? n : e.type == RSHARE_CONNECTED ? 0 : -EPIPE, "a connection of the set");
}

/* Connect them all. Returns what epoll is to watch. */
static int connect_all(const struct share_options *o, unsigned int depth, bool set)
{
	const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event in = { .events = EPOLLIN };
	unsigned int i;
	int fd = -1;

	for (i = 0; i < o->count; i++) {
		all[i].c = share_dial(SHARE_SERVICE(SHARE_SINK, 12, depth), 0);
		fd = set ? rshare_join(all[i].c, &all[i]) : rshare_fd(all[i].c);
		share_must(fd, "an fd");
		if (set)
			await_connected(all[i].c, fd);
		else
			share_next_of(all[i].c, RSHARE_CONNECTED);
		in.data.ptr = set ? NULL : &all[i];
		if (!set || !i)
			share_must(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &in) ? -errno : 0,
				   "epoll_ctl");
	}
	return epoll_fd;
}

static void share_run_connections(const struct share_options *o)
{
	const unsigned int depth = depth_of(o->count);
	struct many m = { .o = o,
			  .set = !strcmp(o->side, "ring"),
			  .window = 1u << depth,
			  .buf = rshare_get(share_here, o->size) };
	const int epoll_fd = connect_all(o, depth, m.set);
	struct epoll_event ready[64];
	struct share_counters before, after;
	double start, end, now = 0;
	uint64_t first = 0;
	unsigned int i;
	int k, n;

	share_must_buffer(m.buf);
	share_count(&before);
	start = share_now_us() + SHARE_WARM_UP_US;
	end = start + o->ms * 1000.0;
	for (i = 0; i < o->count; i++)
		fill(&m, &all[i]);
	while (now < end) {
		n = epoll_wait(epoll_fd, ready, 64, 1000);
		for (k = 0; k < n; k++)
			if (ready[k].data.ptr)
				refill(&m, ready[k].data.ptr);
			else
				refill_set(&m);
		now = share_now_us();
		if (now >= start && !first) {
			first = m.done;
			start = now;
		}
	}
	share_count(&after);
	printf("\"per_s\": %.1f, \"messages\": %llu, \"queue_pairs\": %u, \"connections\": %u, \"used\": %u, "
	       "\"registered\": %llu, "
	       "\"files\": %u, ",
	       (double)(m.done - first) / (now - start) * 1e6, (unsigned long long)m.done,
	       after.here.queue_pairs, before.here.connections, m.used,
	       (unsigned long long)after.here.registered, open_files());
	share_print_counters(&before, &after);
}

/* ---- bursts --------------------------------------------------------------------------------- */

static void share_run_bursts(const struct share_options *o)
{
	static struct share_samples times;
	struct rshare_conn *c = share_dial(SHARE_SERVICE(SHARE_ECHO, 6, 5), 0);
	const unsigned int n = o->count < 32 ? o->count : 32;
	const bool pause = strcmp(o->side, "stream") != 0;
	char *buf = rshare_get(share_here, 64 * 256);
	struct share_counters before, after;
	double start, end;
	unsigned int i;

	share_must_buffer(buf);
	share_next_of(c, RSHARE_CONNECTED);
	share_count(&before);
	/* In a slow guest, connecting may take longer than the measurement. */
	end = share_now_us() + o->ms * 1000.0;
	while (share_now_us() < end) {
		start = share_now_us();
		for (i = 0; i < n; i++) {
			share_must(rshare_recv(c, buf + i * 256, 256, i), "rshare_recv");
			share_must(rshare_send(c, buf + (32 + i) * 256, o->size, i), "rshare_send");
		}
		for (i = 0; i < n; i++)
			share_next_of(c, RSHARE_RECEIVED);
		share_sample(&times, share_now_us() - start);
		if (pause)
			usleep(2000);
	}
	share_count(&after);
	share_print_samples("bursts", &times);
	printf(", ");
	share_print_counters(&before, &after);
}

/* ---- latency -------------------------------------------------------------------------------- */

static void echo_ring(struct rshare_conn *c, char *buf, uint32_t size)
{
	share_must(rshare_recv(c, buf, 1u << 20, 0), "rshare_recv");
	share_must(rshare_send(c, buf + (1u << 20), size, 0), "rshare_send");
	share_next_of(c, RSHARE_RECEIVED);
}

static void echo_native(struct share_native *n, uint32_t size, bool sleeping)
{
	bool armed = false, back = false;
	struct ibv_wc wc[4];
	int i, got;

	share_native_send(n, size, 0);
	while (!back) {
		got = share_native_poll(n, wc, 4);
		for (i = 0; i < got; i++)
			back |= wc[i].wr_id == SHARE_RECEIVED;
		if (got || !sleeping)
			continue;
		if (armed)
			share_native_wait(n);
		else
			share_must(-ibv_req_notify_cq(n->dev.cq, 0), "arming");
		armed = !armed;
	}
}

static void share_run_latency(const struct share_options *o)
{
	static struct share_samples times;
	const bool ring = !strcmp(o->side, "ring"), sleeping = !strcmp(o->side, "events");
	struct rshare_conn *c = NULL;
	char *buf = rshare_get(share_here, 2u << 20);
	struct share_counters before, after;
	double start, end;
	unsigned int i;

	share_must_buffer(buf);
	if (ring) {
		c = share_dial(SHARE_SERVICE(SHARE_ECHO, 20, 1), 0);
		share_next_of(c, RSHARE_CONNECTED);
	} else {
		share_pair = share_native_dial(o->size, true, sleeping);
	}
	for (i = 0; i < 10; i++)
		ring ? echo_ring(c, buf, o->size) : echo_native(share_pair, o->size, sleeping);
	share_count(&before);
	end = share_now_us() + o->ms * 1000.0;
	do {
		start = share_now_us();
		ring ? echo_ring(c, buf, o->size) : echo_native(share_pair, o->size, sleeping);
		share_sample(&times, share_now_us() - start);
	} while (share_now_us() < end);
	share_count(&after);
	share_print_samples("rounds", &times);
	printf(", \"events\": %llu, ", (unsigned long long)(share_pair ? share_pair->events : 0));
	share_print_counters(&before, &after);
	if (share_pair)
		share_native_end(share_pair);
}

/* ---- all ------------------------------------------------------------------------------------ */

#define EXPERIMENT(name)                                                                           \
	static void begin_##name(struct rshare *share, const char *at,                             \
				 const struct share_options *o)                                    \
	{                                                                                          \
		share_here = share;                                                                \
		share_server = at;                                                                 \
		printf("{\"row\": \"" #name "\", \"side\": \"%s\", \"count\": %u, \"size\": %u, ", \
		       o->side, o->count, o->size);                                                \
		share_run_##name(o);                                                               \
		printf("}\n");                                                                     \
	}
EXPERIMENT(threads)
EXPERIMENT(connections)
EXPERIMENT(mice)
EXPERIMENT(class)
EXPERIMENT(load)
EXPERIMENT(bursts)
EXPERIMENT(latency)

const struct share_experiment share_experiments[] = {
	{ "threads", begin_threads }, { "connections", begin_connections },
	{ "mice", begin_mice },       { "class", begin_class },
	{ "load", begin_load },       { "bursts", begin_bursts },
	{ "latency", begin_latency }, { NULL, NULL },
};

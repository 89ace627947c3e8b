// SPDX-License-Identifier: BSD-2-Clause
/*
 * share_run.c - the experiments.
 *
 *   threads      COUNT threads send to one node; side ring: each over a connection; mutex: all over one native queue pair.
 *                thread without completions sleeps on its connection, or yields
 *   connections  one thread sends over COUNT connections; side ring
 *   mice         COUNT flows, half of them mice of SIZE bytes, half elephants of 4 MiB; side equal: one priority; strict: mice
 *                have a higher one
 *   bursts       bursts of COUNT echoes; the working modes are the profile's; side pause: 2 ms between them; side stream: none
 *   latency      echoes, one at a time; side ring, or a native queue pair whose two ends poll or wait for events
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"
#include "share.h"
#include "share/client.h"
#include "share/owner.h"

#define WAIT_MS 60000
#define ELEPHANT (4u << 20)
#define WARM_UP_US 200000
#define WINDOW 8 /* messages that a thread has under way */
#define SAMPLES 65536

static struct rshare *r;
static const char *server;

static struct rshare_conn *dial(uint32_t service, unsigned int priority)
{
	struct rshare_conn *c;

	share_must(rshare_connect(r, server, service, priority, 1, &c), "rshare_connect");
	return c;
}

/* The next event of that type; others are passed over. */
static struct rshare_event next_of(struct rshare_conn *c, enum rshare_event_type type)
{
	struct rshare_event e;
	int n;

	for (;;) {
		n = rshare_poll(c, &e, 1);
		share_must(n, "rshare_poll");
		if (n && (e.type == RSHARE_CLOSED || e.status))
			share_must(e.status ? e.status : -EPIPE, "a connection");
		if (n && e.type == type)
			return e;
		if (!n && rshare_wait(c, WAIT_MS) <= 0)
			share_must(-ETIMEDOUT, "an event");
	}
}

static void must_buffer(const void *p)
{
	if (!p)
		share_must(-ENOMEM, "rshare_get");
}

/* ---- counters ------------------------------------------------------------------------------- */

struct counters {
	struct rshare_info here;
	struct share_report there;
	double user_us, system_us, us;
	uint32_t strict; /* posts on the strict queue pair */
	uint64_t native_posts, native_doorbells;
};

static struct share_native *shared; /* the native queue pair, where there is one */

/* The server's half takes a message each way. */
static void count(struct counters *out)
{
	struct rshare_conn *c = dial(SHARE_SERVICE(SHARE_REPORT, 8, 0), 7);
	char *buf = rshare_get(r, 4096);
	struct rusage use;

	must_buffer(buf);
	share_must(rshare_recv(c, buf, 4096, 0), "rshare_recv");
	share_must(rshare_send(c, buf, 1, 0), "rshare_send");
	next_of(c, RSHARE_RECEIVED);
	memcpy(&out->there, buf, sizeof(out->there));
	share_must(rshare_disconnect(c, WAIT_MS), "rshare_disconnect");
	rshare_put(r, buf);
	getrusage(RUSAGE_SELF, &use);
	out->user_us = (double)use.ru_utime.tv_sec * 1e6 + (double)use.ru_utime.tv_usec + out->there.user_us;
	out->system_us = (double)use.ru_stime.tv_sec * 1e6 + (double)use.ru_stime.tv_usec + out->there.system_us;
	share_must(rshare_get_info(r, &out->here), "rshare_get_info");
	out->strict = r->owner->links ? r->owner->links->peer.lane[RS_STRICT].tail : 0;
	out->native_posts = shared ? shared->posts : 0;
	out->native_doorbells = shared ? shared->doorbells : 0;
	out->us = share_now_us();
}

/* What happened between two counts, as members of a JSON object. */
static void print_counters(const struct counters *a, const struct counters *b)
{
#define MORE(field) ((unsigned long long)(b->field - a->field))
	printf("\"seconds\": %.3f, \"user_us\": %.0f, \"system_us\": %.0f, \"posts\": %llu, \"doorbells\": %llu, "
	       "\"strict_posts\": %u, \"wakeups\": %llu, \"signals\": %llu, \"to_running\": %llu, \"to_blocked\": %llu, "
	       "\"server_wakeups\": %llu, \"server_to_running\": %llu, \"native\": %llu, \"native_posts\": %llu, "
	       "\"native_doorbells\": %llu",
	       (b->us - a->us) / 1e6, b->user_us - a->user_us, b->system_us - a->system_us, MORE(here.posts),
	       MORE(here.doorbells), b->strict - a->strict, MORE(here.wakeups), MORE(here.signals),
	       MORE(here.to_running), MORE(here.to_blocked), MORE(there.info.wakeups), MORE(there.info.to_running),
	       MORE(there.native), MORE(native_posts), MORE(native_doorbells));
#undef MORE
}

/* ---- samples -------------------------------------------------------------------------------- */

struct samples {
	unsigned int n;
	double us[SAMPLES];
};

static void sample(struct samples *s, double us)
{
	if (s->n < SAMPLES)
		s->us[s->n++] = us;
}

static void print_samples(const char *name, struct samples *s)
{
	qsort(s->us, s->n, sizeof(s->us[0]), bench_by_value);
	printf("\"%s\": %u, \"median_us\": %.1f, \"p99_us\": %.1f", name, s->n, s->n ? s->us[s->n / 2] : 0,
	       s->n ? s->us[s->n * 99 / 100] : 0);
}

/* ---- threads -------------------------------------------------------------------------------- */

struct sender {
	pthread_t thread;
	const struct share_options *o;
	unsigned int number;
	struct rshare_conn *c;
	char *buf;
	uint64_t done, mine; /* messages: of all that are done, counted by whoever polls; and taken note of */
} __attribute__((aligned(64)));

static struct sender senders[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t locks, contended; /* under the lock */
static int stop;

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void *send_over_ring(void *arg)
{
	struct sender *s = arg;
	unsigned int under_way = 0;
	struct rshare_event e[16];
	int i, n;

	while (!stopped() || under_way) {
		while (under_way < WINDOW && !stopped() && !rshare_send(s->c, s->buf, s->o->size, 0))
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

/* The lock is for a call of libibverbs. The completion of a send is for its thread, whoever finds it. */
static void *send_under_mutex(void *arg)
{
	struct sender *s = arg;
	uint64_t posted = 0, done;
	struct ibv_wc wc[16];
	int i, n;

	while (!stopped() || s->mine != posted) {
		for (; posted - s->mine < WINDOW && !stopped(); posted++) {
			take_lock();
			share_native_send(shared, s->o->size, s->number);
			pthread_mutex_unlock(&lock);
		}
		take_lock();
		n = share_native_poll(shared, wc, 16);
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

/* Ask the server for the other end of a native queue pair. */
static struct share_native *native_pair(uint32_t size, bool echo, bool sleeping)
{
	struct rshare_conn *c = dial(SHARE_SERVICE(SHARE_NATIVE, 8, 0), 7);
	char *buf = rshare_get(r, 4096);
	struct share_ask ask = { .size = size, .echo = echo, .sleeping = sleeping };
	struct share_native *n = share_native_open(size, &ask.address);
	struct rs_address there;

	must_buffer(buf);
	memcpy(buf, &ask, sizeof(ask));
	share_must(rshare_recv(c, buf + 2048, 2048, 0), "rshare_recv");
	share_must(rshare_send(c, buf, sizeof(ask), 0), "rshare_send");
	next_of(c, RSHARE_RECEIVED);
	memcpy(&there, buf + 2048, sizeof(there));
	share_native_connect(n, &there);
	share_must(rshare_disconnect(c, WAIT_MS), "rshare_disconnect");
	rshare_put(r, buf);
	return n;
}

static void native_end(struct share_native *n)
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

static void run_threads(const struct share_options *o)
{
	const bool ring = !strcmp(o->side, "ring");
	const unsigned int threads = o->count < 64 ? o->count : 64;
	struct counters before, after;
	uint64_t first, last;
	double start, us;
	unsigned int i;

	if (!ring)
		shared = native_pair(o->size, false, true);
	for (i = 0; i < threads; i++) {
		senders[i] = (struct sender){ .o = o, .number = i };
		if (ring) {
			senders[i].c = dial(SHARE_SERVICE(SHARE_SINK, 6, 5), 0);
			senders[i].buf = rshare_get(r, o->size);
			must_buffer(senders[i].buf);
			next_of(senders[i].c, RSHARE_CONNECTED);
		}
	}
	count(&before);
	for (i = 0; i < threads; i++)
		share_must(-pthread_create(&senders[i].thread, NULL, ring ? send_over_ring : send_under_mutex,
					   &senders[i]),
			   "a thread");
	usleep(WARM_UP_US);
	start = share_now_us();
	first = all_done(threads);
	usleep(o->ms * 1000);
	last = all_done(threads);
	us = share_now_us() - start;
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < threads; i++)
		pthread_join(senders[i].thread, NULL);
	count(&after);
	printf("\"per_s\": %.1f, \"messages\": %llu, \"locks\": %llu, \"contended\": %llu, ",
	       (double)(last - first) / us * 1e6, (unsigned long long)all_done(threads), (unsigned long long)locks,
	       (unsigned long long)contended);
	print_counters(&before, &after);
	if (shared)
		native_end(shared);
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

static void fill(struct rshare_conn *c, char *buf, uint32_t size, unsigned int *under_way, unsigned int window)
{
	while (*under_way < window && !rshare_send(c, buf, size, 0))
		++*under_way;
}

static void run_connections(const struct share_options *o)
{
	static struct rshare_conn *c[1024];
	static unsigned int under_way[1024];
	static bool used[1024];
	unsigned int nused = 0;
	const unsigned int depth = depth_of(o->count), window = 1u << depth;
	const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	char *buf = rshare_get(r, o->size);
	struct epoll_event ready[64];
	struct rshare_event e[16];
	uint64_t done = 0, first = 0;
	double start = 0, end = 0, now;
	struct counters before, after;
	unsigned int i;
	int k, n, got;

	must_buffer(buf);
	for (i = 0; i < o->count; i++) {
		struct epoll_event in = { .events = EPOLLIN, .data.u32 = i };

		c[i] = dial(SHARE_SERVICE(SHARE_SINK, 12, depth), 0);
		next_of(c[i], RSHARE_CONNECTED);
		share_must(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, rshare_fd(c[i]), &in) ? -errno : 0, "epoll_ctl");
	}
	count(&before);
	start = share_now_us() + WARM_UP_US;
	end = start + o->ms * 1000.0;
	for (i = 0; i < o->count; i++)
		fill(c[i], buf, o->size, &under_way[i], window);
	for (now = 0; now < end;) {
		n = epoll_wait(epoll_fd, ready, 64, 1000);
		for (k = 0; k < n; k++) {
			i = ready[k].data.u32;
			while ((got = rshare_poll(c[i], e, 16)) > 0) {
				under_way[i] -= (unsigned int)got;
				done += (uint64_t)got;
				nused += !used[i];
				used[i] = true;
				fill(c[i], buf, o->size, &under_way[i], window);
			}
			share_must(got, "rshare_poll");
		}
		now = share_now_us();
		if (now >= start && !first) {
			first = done;
			start = now;
		}
	}
	count(&after);
	printf("\"per_s\": %.1f, \"messages\": %llu, \"queue_pairs\": %u, \"connections\": %u, \"used\": %u, "
	       "\"registered\": %llu, "
	       "\"files\": %u, ",
	       (double)(done - first) / (now - start) * 1e6, (unsigned long long)done, after.here.queue_pairs,
	       before.here.connections, nused, (unsigned long long)after.here.registered, open_files());
	print_counters(&before, &after);
}

/* ---- mice and elephants --------------------------------------------------------------------- */

struct flow {
	pthread_t thread;
	const struct share_options *o;
	struct rshare_conn *c;
	char *buf;
	struct samples times;
};

static void *mouse(void *arg)
{
	struct flow *f = arg;
	double start;

	while (!stopped()) {
		start = share_now_us();
		share_must(rshare_send(f->c, f->buf, f->o->size, 0), "rshare_send");
		next_of(f->c, RSHARE_SENT);
		sample(&f->times, share_now_us() - start);
		usleep(2000);
	}
	return NULL;
}

/* Two messages under way, until the mice are done. */
static void *elephant(void *arg)
{
	struct flow *f = arg;
	int i;

	for (i = 0; i < 2; i++)
		share_must(rshare_send(f->c, f->buf, ELEPHANT, 0), "rshare_send");
	while (!stopped()) {
		next_of(f->c, RSHARE_SENT);
		share_must(rshare_send(f->c, f->buf, ELEPHANT, 0), "rshare_send");
	}
	return NULL;
}

static uint64_t elephant_chunks(const struct flow *flows, unsigned int n)
{
	struct rshare_stats stats;
	uint64_t chunks = 0;
	unsigned int i;

	for (i = 1; i < n; i += 2) {
		share_must(rshare_get_stats(flows[i].c, &stats), "rshare_get_stats");
		chunks += stats.chunks_sent;
	}
	return chunks;
}

static void run_mice(const struct share_options *o)
{
	static struct flow flows[16];
	static struct samples all;
	const unsigned int n = o->count < 16 ? o->count : 16;
	const bool strict = !strcmp(o->side, "strict");
	char *buf = rshare_get(r, ELEPHANT);
	struct counters before, after;
	uint64_t chunks;
	double start, us;
	unsigned int i, k;

	must_buffer(buf);
	for (i = 0; i < n; i++) {
		flows[i].o = o;
		flows[i].buf = buf;
		flows[i].c = i % 2 ? dial(SHARE_SERVICE(SHARE_SINK, 22, 1), 0)
				   : dial(SHARE_SERVICE(SHARE_SINK, 12, 5), strict ? 7 : 0);
		next_of(flows[i].c, RSHARE_CONNECTED);
	}
	count(&before);
	for (i = 1; i < n; i += 2)
		share_must(-pthread_create(&flows[i].thread, NULL, elephant, &flows[i]), "a thread");
	usleep(WARM_UP_US);
	start = share_now_us();
	chunks = elephant_chunks(flows, n);
	for (i = 0; i < n; i += 2)
		share_must(-pthread_create(&flows[i].thread, NULL, mouse, &flows[i]), "a thread");
	usleep(o->ms * 1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < n; i += 2)
		pthread_join(flows[i].thread, NULL);
	chunks = elephant_chunks(flows, n) - chunks;
	us = share_now_us() - start;
	for (i = 1; i < n; i += 2)
		pthread_join(flows[i].thread, NULL);
	count(&after);
	for (i = 0; i < n; i += 2)
		for (k = 0; k < flows[i].times.n; k++)
			sample(&all, flows[i].times.us[k]);
	print_samples("mice", &all);
	printf(", \"elephant_chunks\": %llu, \"elephant_us\": %.0f, \"chunk\": %u, ", (unsigned long long)chunks, us,
	       after.here.chunk);
	print_counters(&before, &after);
}

/* ---- bursts --------------------------------------------------------------------------------- */

static void run_bursts(const struct share_options *o)
{
	static struct samples times;
	struct rshare_conn *c = dial(SHARE_SERVICE(SHARE_ECHO, 6, 5), 0);
	const unsigned int n = o->count < 32 ? o->count : 32;
	const bool pause = strcmp(o->side, "stream") != 0;
	char *buf = rshare_get(r, 64 * 256);
	const double end = share_now_us() + o->ms * 1000.0;
	struct counters before, after;
	double start;
	unsigned int i;

	must_buffer(buf);
	next_of(c, RSHARE_CONNECTED);
	count(&before);
	while (share_now_us() < end) {
		start = share_now_us();
		for (i = 0; i < n; i++) {
			share_must(rshare_recv(c, buf + i * 256, 256, i), "rshare_recv");
			share_must(rshare_send(c, buf + (32 + i) * 256, o->size, i), "rshare_send");
		}
		for (i = 0; i < n; i++)
			next_of(c, RSHARE_RECEIVED);
		sample(&times, share_now_us() - start);
		if (pause)
			usleep(2000);
	}
	count(&after);
	print_samples("bursts", &times);
	printf(", ");
	print_counters(&before, &after);
}

/* ---- latency -------------------------------------------------------------------------------- */

static void echo_ring(struct rshare_conn *c, char *buf, uint32_t size)
{
	share_must(rshare_recv(c, buf, 1u << 20, 0), "rshare_recv");
	share_must(rshare_send(c, buf + (1u << 20), size, 0), "rshare_send");
	next_of(c, RSHARE_RECEIVED);
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

static void run_latency(const struct share_options *o)
{
	static struct samples times;
	const bool ring = !strcmp(o->side, "ring"), sleeping = !strcmp(o->side, "events");
	struct rshare_conn *c = NULL;
	char *buf = rshare_get(r, 2u << 20);
	struct counters before, after;
	double start, end;
	unsigned int i;

	must_buffer(buf);
	if (ring) {
		c = dial(SHARE_SERVICE(SHARE_ECHO, 20, 1), 0);
		next_of(c, RSHARE_CONNECTED);
	} else {
		shared = native_pair(o->size, true, sleeping);
	}
	for (i = 0; i < 10; i++)
		ring ? echo_ring(c, buf, o->size) : echo_native(shared, o->size, sleeping);
	count(&before);
	end = share_now_us() + o->ms * 1000.0;
	do {
		start = share_now_us();
		ring ? echo_ring(c, buf, o->size) : echo_native(shared, o->size, sleeping);
		sample(&times, share_now_us() - start);
	} while (share_now_us() < end);
	count(&after);
	print_samples("rounds", &times);
	printf(", \"events\": %llu, ", (unsigned long long)(shared ? shared->events : 0));
	print_counters(&before, &after);
	if (shared)
		native_end(shared);
}

/* ---- all ------------------------------------------------------------------------------------ */

#define EXPERIMENT(name)                                                                                              \
	static void begin_##name(struct rshare *share, const char *at, const struct share_options *o)                 \
	{                                                                                                             \
		r = share;                                                                                            \
		server = at;                                                                                          \
		printf("{\"row\": \"" #name "\", \"side\": \"%s\", \"count\": %u, \"size\": %u, ", o->side, o->count, \
		       o->size);                                                                                      \
		run_##name(o);                                                                                        \
		printf("}\n");                                                                                        \
	}
EXPERIMENT(threads)
EXPERIMENT(connections)
EXPERIMENT(mice)
EXPERIMENT(bursts)
EXPERIMENT(latency)

const struct share_experiment share_experiments[] = {
	{ "threads", begin_threads }, { "connections", begin_connections }, { "mice", begin_mice },
	{ "bursts", begin_bursts },   { "latency", begin_latency },         { NULL, NULL },
};

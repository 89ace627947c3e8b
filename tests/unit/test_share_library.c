// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_library.c - librshare as a program uses it: two owners in one process, over
 * share_verbs.h. Threads, sleeping, descriptors, processes that attach, owners that meet over TCP,
 * closing. Also built with thread and address sanitizers.
 */
#include "suite.h"

#include "share_pair.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "share/client.h"
#include "share/link.h"

#ifdef __SANITIZE_THREAD__ /* no threads after fork() */
#define FORKS 0
#else
#define FORKS 1
#endif

/* For how long other threads run when an owner lets them, in us; 0: as the kernel decides. */
static unsigned int yield_us;
static unsigned int yield_mending_us; /* the same, of owner a during a repair */

int sched_yield(void)
{
	const unsigned int mending = __atomic_load_n(&yield_mending_us, __ATOMIC_ACQUIRE);
	unsigned int us = __atomic_load_n(&yield_us, __ATOMIC_ACQUIRE);

	if (mending && pthread_equal(pthread_self(), a->owner->thread) &&
	    a->owner->links->repair.state != RS_WHOLE)
		us = mending;
	return us ? usleep(us) : (int)syscall(SYS_sched_yield);
}

UNIT_TEST(messages_writes_and_reads)
{
	struct rshare_conn *c, *d;
	struct rshare_remote at;
	struct rshare_info info;
	struct rshare_stats stats;
	char *out = rshare_get(a, 100000), *in = rshare_get(b, 100000);
	struct rshare_event e;
	unsigned int before = __atomic_load_n(&taken, __ATOMIC_RELAXED);

	pair(&c, &d, 3);
	ck_assert_uint_gt(__atomic_load_n(&taken, __ATOMIC_RELAXED), before);
	for (unsigned int i = 0; i < 100000; i++)
		out[i] = (char)(i * 31);
	ck_assert_int_eq(rshare_recv(d, in, 100000, 1), 0);
	ck_assert_int_eq(rshare_send(c, out, 70000, 2), 0);
	e = next(d);
	ck_assert(e.type == RSHARE_RECEIVED && e.cookie == 1 && e.size == 70000 &&
		  !memcmp(in, out, 70000));
	e = next(c);
	ck_assert(e.type == RSHARE_SENT && e.cookie == 2 && !e.status);
	ck_assert_int_eq(rshare_export(b, in, 100000, &at), 0);
	ck_assert_int_eq(rshare_write(c, out, 50000, &at, 50000, 3), 0);
	e = next(c);
	ck_assert(e.type == RSHARE_SENT && !e.status && !memcmp(in + 50000, out, 50000));
	ck_assert_int_eq(rshare_read(c, out, 99999, &at, 1, 4), 0);
	e = next(c);
	ck_assert(e.type == RSHARE_SENT && !e.status && !memcmp(out, in + 1, 99999));
	ck_assert_int_eq(rshare_read(c, out, 2, &at, 99999, 4), -ERANGE);
	ck_assert_int_eq(rshare_send(c, in, 2, 4), -EINVAL);
	ck_assert_int_eq(rshare_send(c, out, 5u << 20, 4), -EINVAL);
	ck_assert_int_eq(rshare_set_priority(c, 8, 1), -EINVAL);
	ck_assert_int_eq(rshare_set_priority(c, 0, 2), 0);
	ck_assert_int_eq(rshare_get_stats(c, &stats), 0);
	ck_assert(stats.messages_sent == 1 && stats.bytes_sent == 70000);
	ck_assert_int_eq(rshare_get_info(a, &info), 0);
	ck_assert(info.queue_pairs == 2 && info.peers == 1 && info.connections == 1);
	ck_assert_int_eq(rshare_disconnect(c, 5000), 0);
	ck_assert_int_eq(next(d).type, RSHARE_CLOSED);
	ck_assert_int_eq(rshare_disconnect(d, 5000), 0);
}

UNIT_TEST(a_node_connects_to_itself)
{
	struct rshare_conn *c, *d;
	struct rshare_listener *l;
	struct pollfd p;
	char self[32], *buf = rshare_get(a, 1000);
	int i;

	snprintf(self, sizeof(self), "127.0.0.1:%u", port);
	ck_assert_int_eq(rshare_listen(a, 9, &l), 0);
	ck_assert_int_eq(rshare_connect(a, self, 9, 0, 0, &c), 0);
	p = (struct pollfd){ .fd = rshare_listener_fd(l), .events = POLLIN };
	for (i = 0; i < 200 && rshare_accept(l, &d); i++)
		poll(&p, 1, 100);
	ck_assert_int_eq(rshare_recv(d, buf, 1000, 1), 0);
	ck_assert_int_eq(rshare_send(c, buf, 500, 2), 0);
	ck_assert_uint_eq(next_of(d, RSHARE_RECEIVED).size, 500);
	ck_assert_int_eq(rshare_disconnect(c, 5000), 0);
	rshare_disconnect(d, 0);
	rshare_unlisten(l);
}

static void count_thread(void *arg)
{
	__atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
}

UNIT_TEST(an_owner_at_any_port_says_where)
{
	struct rshare_config config_of = config(name_a, 0);
	struct rshare_listener *l;
	struct rshare_conn *c;
	struct rshare_event e;
	struct rshare_info info;
	struct rshare *r;
	char name[40];
	int threads = 0;

	snprintf(name, sizeof(name), "%s-any", name_a);
	config_of.name = name; /* a has the port */
	ck_assert_int_eq(rshare_open(NULL, &config_of, &r, why), -EADDRINUSE);
	config_of.any_port = 1;
	config_of.thread = count_thread;
	config_of.arg = &threads;
	ck_assert_msg(!rshare_open(NULL, &config_of, &r, why), "%s", why);
	ck_assert_int_eq(rshare_get_info(r, &info), 0);
	/* the address is the device's */
	ck_assert_int_eq(strncmp(info.address, "127.0.0.1:", 10), 0);
	ck_assert_int_eq(rshare_listen(r, 3, &l), 0);
	ck_assert_int_eq(rshare_connect(b, info.address, 3, 1, 1, &c), 0);
	ck_assert_int_eq(next(c).type, RSHARE_CONNECTED);
	ck_assert_int_eq(__atomic_load_n(&threads, __ATOMIC_RELAXED), 1);
	ck_assert_int_eq(rshare_poll(c, &e, 1), 0);
	rshare_close(r);
	ck_assert_int_eq(next(c).type, RSHARE_CLOSED);
	rshare_disconnect(c, 0);
}

static int is_readable(struct rshare_conn *c, int ms)
{
	struct pollfd p = { .fd = rshare_fd(c), .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

UNIT_TEST(polling_again_leaves_the_descriptor_alone)
{
	struct rshare_conn *c, *d;
	struct rshare_event e;
	char *buf = rshare_get(a, 64), *in = rshare_get(b, 64);

	pair(&c, &d, 0);
	ck_assert_int_ge(rshare_fd(d), 0);
	ck_assert_int_eq(rshare_poll(d, &e, 1), 0); /* armed */
	ck_assert_int_eq(rshare_recv(d, in, 64, 1), 0);
	ck_assert_int_eq(rshare_send(c, buf, 64, 2), 0);
	ck_assert(is_readable(d, EVENT_MS));
	while (!rshare_poll_again(d, &e, 1))
		;
	ck_assert_int_eq(e.type, RSHARE_RECEIVED);
	ck_assert_int_eq(rshare_poll_again(d, &e, 1), 0);
	ck_assert(is_readable(d, 0)); /* still */
	ck_assert_int_eq(rshare_poll(d, &e, 1), 0);
	ck_assert(!is_readable(d, 0));
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
}

/* Returns the next mark of the set, which is readable if it has one. */
static void *ready_of(struct rshare *r, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	void *mark;
	int i, n;

	for (i = 0; i < 100; i++) {
		n = poll(&p, 1, 200) == 1 ? rshare_ready(r, &mark, 1) : 0;
		ck_assert_int_ge(n, 0);
		if (n)
			return mark;
	}
	ck_abort_msg("nothing is ready");
}

/* Connections share an fd: a thread that sleeps on it learns of each, and reads their marks. */
UNIT_TEST(a_set_tells_of_its_connections)
{
	struct rshare_conn *c[3], *d[3];
	char *buf = rshare_get(a, 100), *in = rshare_get(b, 100);
	struct rshare_event e;
	struct pollfd p = { .events = POLLIN };
	void *mark;
	int i, fd = -1;

	ck_assert_int_eq(rshare_ready(b, &mark, 1), 0); /* b has no set yet */
	for (i = 0; i < 3; i++) {
		pair(&c[i], &d[i], 0);
		ck_assert_int_eq(rshare_join(d[i], NULL), -EINVAL);
		if (i == 1) { /* an event before it joins is reported at once */
			ck_assert_int_eq(rshare_recv(d[1], in, 100, 1), 0);
			ck_assert_int_eq(rshare_send(c[1], buf, 10, 1), 0);
			ck_assert_int_eq(next(c[1]).type, RSHARE_SENT);
		}
		p.fd = rshare_join(d[i], &d[i]);
		ck_assert(p.fd >= 0 && (fd < 0 || p.fd == fd));
		fd = p.fd;
		if (i)
			continue;
		/* Only its own mark is reported; then the fd is quiet. */
		for (; poll(&p, 1, 300) == 1;)
			while (rshare_ready(b, &mark, 1) > 0)
				ck_assert(mark == &d[0]);
	}
	while (ready_of(b, fd) != &d[1])
		;
	ck_assert(rshare_poll(d[1], &e, 1) == 1 && e.type == RSHARE_RECEIVED);
	while (rshare_ready(b, &mark, 1) > 0)
		;
	for (i = 0; i < 300; i++) {
		const int k = i * 7 % 3;

		ck_assert_int_eq(rshare_recv(d[k], in, 100, 1), 0);
		ck_assert_int_eq(rshare_send(c[k], buf, 10, 1), 0);
		while ((mark = ready_of(b, fd)) != &d[k])
			/* polled already */
			ck_assert(!rshare_poll(*(struct rshare_conn **)mark, &e, 1));
		ck_assert(rshare_poll(d[k], &e, 1) == 1 && e.type == RSHARE_RECEIVED &&
			  !rshare_poll(d[k], &e, 1));
		ck_assert_int_eq(next(c[k]).type, RSHARE_SENT);
	}
	/*
	 * A connection that has left is not reported. Its own descriptor works without the set's.
	 */
	ck_assert_int_eq(rshare_disconnect(c[0], 5000), 0);
	ck_assert(ready_of(b, fd) == &d[0]);
	ck_assert_int_eq(next(d[0]).type, RSHARE_CLOSED);
	rshare_disconnect(d[0], 0);
	rshare_disconnect(c[1], 0);
	ck_assert(ready_of(b, fd) == &d[1]);
	rshare_disconnect(d[1], 0);
	ck_assert_int_eq(rshare_ready(b, &mark, 1), 0);
	rshare_disconnect(c[2], 0);
	rshare_disconnect(d[2], 0);
}

/* Both owners begin at once, many times: there must always be one pair of queue pairs. */
UNIT_LOOP_TEST(owners_meet_once, 0, 10)
{
	struct rshare_conn *c, *d;
	struct rshare_listener *l;
	struct rshare_info info;
	char node_a[32];

	snprintf(node_a, sizeof(node_a), "127.0.0.1:%u", port);
	ck_assert_int_eq(rshare_listen(a, 7, &l), 0);
	ck_assert_int_eq(rshare_connect(a, node_b, 7, 0, 1, &c), 0);
	ck_assert_int_eq(rshare_connect(b, node_a, 7, 0, 1, &d), 0);
	ck_assert_int_eq(next(c).type, RSHARE_CONNECTED);
	ck_assert_int_eq(next(d).type, RSHARE_CONNECTED);
	for (int i = 0; i < 50; i++) {
		rshare_get_info(a, &info);
		if (info.queue_pairs == 2)
			break;
		usleep(20000);
	}
	ck_assert_uint_eq(info.queue_pairs, 2);
	ck_assert_uint_eq(info.peers, 1);
	rshare_disconnect(c, 0);
	rshare_disconnect(d, 0);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define THREADS 4
#define EACH 300

static struct rshare_conn *shared;

static void *sender(void *arg)
{
	char *buf = rshare_get(a, 64);

	for (uint64_t i = 0; i < EACH; i++)
		while (rshare_send(shared, buf, 64, (uintptr_t)arg * EACH + i))
			usleep(50);
	return NULL;
}

UNIT_TEST(threads_share_a_connection)
{
	static uint8_t done[THREADS * EACH];
	unsigned int received = 0, sent = 0, i;
	struct rshare_event e;
	struct rshare_conn *d;
	pthread_t thread[THREADS];
	char *in = rshare_get(b, 8 * 64);

	pair(&shared, &d, 0);
	for (i = 0; i < 8; i++)
		ck_assert_int_eq(rshare_recv(d, in + i * 64, 64, i), 0);
	for (uintptr_t k = 0; k < THREADS; k++)
		pthread_create(&thread[k], NULL, sender, (void *)k);
	while (received < THREADS * EACH || sent < THREADS * EACH) {
		while (rshare_poll(d, &e, 1) > 0) {
			unit_require(e.type == RSHARE_RECEIVED && !e.status && e.size == 64);
			received++;
			unit_require(!rshare_recv(d, in + e.cookie * 64, 64, e.cookie));
		}
		while (rshare_poll(shared, &e, 1) > 0) {
			unit_require(e.type == RSHARE_SENT && !e.status && !done[e.cookie]++);
			sent++;
		}
		rshare_wait(received < THREADS * EACH ? d : shared, 10);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_eq(rshare_disconnect(shared, 5000), 0);
	rshare_disconnect(d, 5000);
}

/* ---- strict messages beside long posts ------------------------------------------------------- */

#define BESIDE 300

struct beside {
	struct rshare_conn *c, *d;
	unsigned int bytes;
};

/* One message after the other: each sent, and complete, before the next. */
static void *beside_run(void *arg)
{
	struct beside *m = arg;
	char *out = rshare_get(a, m->bytes);
	unsigned int i;

	for (i = 0; i < BESIDE; i++) {
		out[0] = (char)i;
		unit_require(!rshare_send(m->c, out, m->bytes, i));
		unit_require(next_of(m->c, RSHARE_SENT).cookie == i);
	}
	rshare_put(a, out);
	return NULL;
}

static void *beside_take(void *arg)
{
	struct beside *m = arg;
	char *in = rshare_get(b, m->bytes);
	struct rshare_event e;
	unsigned int i;

	unit_require(!rshare_recv(m->d, in, m->bytes, 0));
	for (i = 0; i < BESIDE; i++) {
		e = next_of(m->d, RSHARE_RECEIVED);
		unit_require(!e.status && e.size == m->bytes && in[0] == (char)i);
		if (i + 1 < BESIDE)
			unit_require(!rshare_recv(m->d, in, m->bytes, 0));
	}
	rshare_put(b, in);
	return NULL;
}

/*
 * Threads of the owner's process post short strict messages, while its thread posts long ones. In
 * the second run the queue pairs break meanwhile.
 */
UNIT_LOOP_TEST(threads_post_strict_messages_during_long_posts, 0, 2)
{
	static const unsigned int bytes[] = { 60000, 60000, 10, 100, 4000 };
	struct beside m[5];
	pthread_t thread[5][2];
	unsigned int k;

	__atomic_store_n(&fake_slow_us, 300, __ATOMIC_RELAXED);
	for (k = 0; k < 5; k++) {
		m[k] = (struct beside){ .bytes = bytes[k] };
		pair(&m[k].c, &m[k].d, k < 2 ? 0 : k);
	}
	set_fake(_i ? 40 : 0, 0);
	for (k = 0; k < 5; k++) {
		pthread_create(&thread[k][0], NULL, beside_take, &m[k]);
		pthread_create(&thread[k][1], NULL, beside_run, &m[k]);
	}
	for (k = 0; k < 5; k++) {
		pthread_join(thread[k][1], NULL);
		pthread_join(thread[k][0], NULL);
	}
	set_fake(0, 0);
	__atomic_store_n(&fake_slow_us, 0, __ATOMIC_RELAXED);
	ck_assert_uint_gt(__atomic_load_n(&a->owner->helped, __ATOMIC_RELAXED), 0);
	ck_assert_uint_eq(__atomic_load_n(&b->owner->helped, __ATOMIC_RELAXED), 0);
	for (k = 0; k < 5; k++) {
		ck_assert_int_eq(rshare_disconnect(m[k].c, 5000), 0);
		rshare_disconnect(m[k].d, 5000);
	}
}

/* ---- closing and dying ----------------------------------------------------------------------- */

UNIT_TEST(closing_loses_nothing)
{
	struct rshare_conn *c, *d;
	char *out = rshare_get(a, 8 * 1000), *in = rshare_get(b, 8 * 1000);
	struct rshare_event e;
	unsigned int i, k, got;

	for (k = 0; k < 30; k++) {
		pair(&c, &d, k % 8);
		for (i = 0; i < 8; i++)
			unit_require(!rshare_recv(d, in + i * 1000, 1000, i) &&
				     !rshare_send(c, out + i * 1000, 1000, i));
		ck_assert_int_eq(rshare_disconnect(c, 5000), 0);
		for (got = 0; (e = next(d)).type == RSHARE_RECEIVED; got++)
			unit_require(!e.status);
		ck_assert_uint_eq(got, 8);
		ck_assert(e.type == RSHARE_CLOSED && !e.status);
		ck_assert_int_eq(rshare_disconnect(d, 5000), 0);
	}
}

/* ---- queue pairs that break ------------------------------------------------------------------ */

#define MANY 32
#define MESSAGES 8
#define LARGE 20000u /* more than one chunk */

struct line {
	struct rshare_conn *c, *d;
	char *out, *in;
	unsigned int sent, received, next;
};

static size_t size_of(unsigned int line, unsigned int message)
{
	return 1 + (message * 2113u + line * 977u) % LARGE;
}

/* The length of the message after the last one. It must be the next, and undamaged. */
static void line_take(struct line *l, unsigned int k)
{
	const struct rshare_event e = next_of(l->d, RSHARE_RECEIVED);

	unit_require(e.type == RSHARE_RECEIVED && !e.status && e.size == size_of(k, l->received));
	for (size_t i = 0; i < e.size; i++)
		unit_require(l->in[i] == (char)(l->received * 31 + k + i));
	if (++l->received < MESSAGES)
		unit_require(!rshare_recv(l->d, l->in, LARGE, 1));
}

static void line_send(struct line *l, unsigned int k)
{
	for (size_t i = 0; i < size_of(k, l->next); i++)
		l->out[i] = (char)(l->next * 31 + k + i);
	unit_require(!rshare_send(l->c, l->out, size_of(k, l->next), l->next));
	l->next++;
}

/*
 * Many connections of all priorities. Queue pairs of both sides break after so many work requests.
 */
UNIT_LOOP_TEST(connections_survive_broken_queue_pairs, 0, 4)
{
	static const unsigned int every[] = { 3, 7, 16, 50 };
	static struct line line[MANY];
	struct rshare_stats stats;
	struct rshare_event e;
	unsigned int k, m;

	memset(line, 0, sizeof(line));
	for (k = 0; k < MANY; k++) {
		pair(&line[k].c, &line[k].d, k % 8);
		line[k].out = rshare_get(a, LARGE);
		line[k].in = rshare_get(b, LARGE);
		unit_require(line[k].in && !rshare_recv(line[k].d, line[k].in, LARGE, 1));
	}
	set_fake(every[_i], 0);
	for (m = 0; m < MESSAGES; m++) {
		for (k = 0; k < MANY; k++)
			line_send(&line[k], k);
		for (k = 0; k < MANY; k++)
			line_take(&line[k], k);
		for (k = 0; k < MANY; k++) {
			e = next_of(line[k].c, RSHARE_SENT);
			unit_require(!e.status && e.cookie == m);
		}
	}
	ck_assert_uint_gt(info_of(a).repairs, 5);
	/*
	 * Lost posts are sent again. Without a backlog every other break loses some; the last round
	 * has few breaks.
	 */
	ck_assert_uint_gt(info_of(a).resent, every[_i] < 50 ? 5 : 0);
	ck_assert_uint_eq(info_of(a).queue_pairs, 2);
	set_fake(0, 0);
	for (k = 0; k < MANY; k++) {
		ck_assert_int_eq(rshare_get_stats(line[k].d, &stats), 0);
		ck_assert_uint_eq(stats.messages_received, MESSAGES);
		ck_assert_int_eq(rshare_poll(line[k].d, &e, 1), 0);
		ck_assert_int_eq(rshare_disconnect(line[k].c, 5000), 0);
		rshare_disconnect(line[k].d, 5000);
	}
}

static void open_again(struct rshare **r, const char *name, int n, uint32_t repair)
{
	struct rshare_config x = config(name, n);

	rshare_close(*r);
	x.run_after = 1;
	x.repair = repair;
	ck_assert_msg(!rshare_open(NULL, &x, r, why), "%s", why);
}

static void set_yield(unsigned int us, unsigned int mending_us)
{
	__atomic_store_n(&yield_us, us, __ATOMIC_RELEASE);
	__atomic_store_n(&yield_mending_us, mending_us, __ATOMIC_RELEASE);
}

/*
 * Both owners poll, and other threads take the processor whenever an owner finds nothing to do: for
 * a while, or in a repair for longer than that may last, when the peer has long answered.
 */
UNIT_LOOP_TEST(a_repair_is_in_time_on_a_busy_machine, 0, 2)
{
	struct rshare_conn *c, *d;
	char *out, *in;

	open_again(&a, name_a, 0, _i ? 1000 : 2000);
	open_again(&b, name_b, 1, _i ? 10000 : 2000);
	ck_assert_int_eq(rshare_listen(b, 7, &echo), 0);
	out = rshare_get(a, 64);
	in = rshare_get(b, 64);
	pair(&c, &d, 0);
	set_yield(_i ? 0 : 50000, _i ? 1100000 : 0);
	set_fake(3, 0);
	for (unsigned int i = 0; i < 6 - 3 * (unsigned int)_i; i++) {
		ck_assert_int_eq(rshare_recv(d, in, 64, i), 0);
		ck_assert_int_eq(rshare_send(c, out, 64, i), 0);
		ck_assert_int_eq(next_of(d, RSHARE_RECEIVED).status, 0);
		ck_assert_int_eq(next_of(c, RSHARE_SENT).status, 0);
	}
	set_fake(0, 0);
	set_yield(0, 0);
	ck_assert_uint_gt(info_of(a).repairs, _i ? 0 : 1);
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
}

UNIT_TEST(writes_and_reads_survive_broken_queue_pairs)
{
	struct rshare_conn *c, *d;
	struct rshare_remote at;
	char *out = rshare_get(a, 100000), *back = rshare_get(a, 100000),
	     *in = rshare_get(b, 100000);

	pair(&c, &d, 0);
	ck_assert_int_eq(rshare_export(b, in, 100000, &at), 0);
	set_fake(11, 0); /* more than a chain, so that some posts have arrived each time */
	for (unsigned int k = 0; k < 10; k++) {
		for (unsigned int i = 0; i < 100000; i++)
			out[i] = (char)(i * 7 + k);
		ck_assert_int_eq(rshare_write(c, out, 100000, &at, 0, 1), 0);
		ck_assert_int_eq(rshare_read(c, back, 100000, &at, 0, 2), 0);
		unit_require(!next(c).status && !next(c).status);
		unit_require(!memcmp(in, out, 100000) && !memcmp(back, out, 100000));
	}
	ck_assert_uint_gt(info_of(a).repairs, 3);
	set_fake(0, 0);
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
}

/*
 * A key that does not fit ends its connection. The queue pairs are repaired for the others, without
 * a limit to how often.
 */
UNIT_TEST(a_stale_key_ends_one_connection)
{
	struct rshare_conn *c, *d, *stale, *other;
	struct rshare_remote at;
	struct rshare_event e;
	char *out = rshare_get(a, 100000), *in = rshare_get(b, 100000);

	pair(&c, &d, 0);
	ck_assert_int_eq(rshare_export(b, in, 100000, &at), 0);
	for (unsigned int i = 0; i < 8; i++) {
		const bool key = i % 2;
		const struct rshare_remote wrong = { key ? at.address : 16,
						     key ? at.rkey + 1 : at.rkey, at.size };

		pair(&stale, &other, i & 4 ? 7 : 0);
		ck_assert_int_eq(rshare_recv(d, in, 100000, 1), 0);
		ck_assert_int_eq(rshare_send(c, out, 100000, i), 0);
		ck_assert_int_eq(i & 2 ? rshare_write(stale, out, 50000, &wrong, 0, 7)
				       : rshare_read(stale, out, 50000, &wrong, 0, 7),
				 0);
		e = next(stale);
		ck_assert(e.type == RSHARE_SENT && e.cookie == 7 && e.status == -EKEYREJECTED);
		e = next(stale);
		ck_assert(e.type == RSHARE_CLOSED && e.status == -EKEYREJECTED);
		e = next(other);
		ck_assert(e.type == RSHARE_CLOSED && e.status == -ECONNRESET);
		e = next(c);
		ck_assert(e.type == RSHARE_SENT && e.cookie == i && !e.status);
		e = next(d);
		ck_assert(e.type == RSHARE_RECEIVED && e.size == 100000 && !e.status);
		rshare_disconnect(stale, 0);
		rshare_disconnect(other, 0);
	}
	ck_assert_uint_ge(info_of(a).repairs, 8);
	ck_assert_uint_eq(info_of(a).malformed + info_of(b).malformed, 0);
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
}

/* More of them than repairs in a row may be without effect. */
UNIT_TEST(stale_keys_of_many_connections_end_these)
{
	enum { N = 12 };
	struct rshare_conn *c, *d, *stale[N], *other[N];
	struct rshare_remote wrong;
	struct rshare_event e;
	char *buf = rshare_get(a, 1000);
	unsigned int i;
	uint64_t posts;

	pair(&c, &d, 7);
	ck_assert_int_eq(rshare_export(b, rshare_get(b, 1000), 1000, &wrong), 0);
	wrong.rkey++;
	for (i = 0; i < N; i++)
		pair(&stale[i], &other[i], 7);
	posts = info_of(a).posts;
	fake_hold(1, UINT_MAX);
	for (i = 0; i < N; i++)
		ck_assert_int_eq(rshare_write(stale[i], buf, 1000, &wrong, 0, i), 0);
	while (info_of(a).posts < posts + N) /* so that nothing arrives between them */
		usleep(1000);
	fake_hold(0, UINT_MAX);
	for (i = 0; i < N; i++) {
		e = next(stale[i]);
		ck_assert(e.type == RSHARE_SENT && e.status == -EKEYREJECTED);
		e = next(other[i]);
		ck_assert(e.type == RSHARE_CLOSED && e.status == -ECONNRESET);
		rshare_disconnect(stale[i], 0);
		rshare_disconnect(other[i], 0);
	}
	ck_assert_int_eq(rshare_recv(d, rshare_get(b, 1000), 1000, 1), 0);
	ck_assert_int_eq(rshare_send(c, buf, 1000, 2), 0);
	e = next(c);
	ck_assert(e.type == RSHARE_SENT && !e.status);
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
}

/* Send a message into a queue pair that breaks, as do all later ones. */
static void send_into_break(struct rshare_conn **c, struct rshare_conn **d, int down)
{
	char *buf = rshare_get(a, 64), *in = rshare_get(b, 64);

	pair(c, d, 0);
	ck_assert_int_eq(rshare_recv(*d, in, 64, 1), 0);
	set_fake(1, down);
	ck_assert_int_eq(rshare_send(*c, buf, 64, 2), 0);
}

UNIT_TEST(a_port_may_come_back)
{
	struct rshare_conn *c, *d;

	send_into_break(&c, &d, 1);
	for (int i = 0; i < 500 && !info_of(a).repairs; i++)
		usleep(10000);
	set_fake(0, 1);
	usleep(200000);
	ck_assert_uint_eq(info_of(a).repairs, 1);
	set_fake(0, 0);
	ck_assert_int_eq(next_of(d, RSHARE_RECEIVED).status, 0);
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
}

/* The repair ends after the configured time, or after several failed attempts. */
UNIT_LOOP_TEST(a_repair_does_not_last_for_ever, 0, 2)
{
	struct rshare_conn *c, *d;

	send_into_break(&c, &d, _i); /* they never come back */
	ck_assert_int_eq(next(c).status, -ECONNRESET);
	ck_assert_int_eq(next(c).type, RSHARE_CLOSED);
	ck_assert_int_eq(next(d).status, -ECANCELED);
	ck_assert_int_eq(next(d).status, -ECONNRESET);
	rshare_disconnect(c, 0);
	rshare_disconnect(d, 0);
	set_fake(0, 0);
	pair(&c, &d, 0); /* and back again */
	rshare_disconnect(c, 0);
	rshare_disconnect(d, 0);
}

UNIT_LOOP_TEST(a_peer_that_lies_about_repairs_is_dropped, 0, 7)
{
	static const struct rs_repair_message lie[] = {
		{ .magic = RS_REPAIR_MAGIC,
		  .kind = RS_REPAIR_ASK,
		  .epoch = 1,
		  .received = { 1, 0 },
		  .address = NOWHERE },
		{ .magic = RS_REPAIR_MAGIC,
		  .kind = RS_REPAIR_ASK,
		  .epoch = 1,
		  .received = { 0, UINT32_MAX },
		  .address = NOWHERE },
		{ .magic = RS_REPAIR_MAGIC, .kind = RS_REPAIR_ASK, .epoch = 2, .address = NOWHERE },
		{ .magic = RS_REPAIR_MAGIC, .kind = RS_REPAIR_ASK, .epoch = 1 },
		{ .magic = RS_REPAIR_MAGIC, .kind = RS_REPAIR_READY, .epoch = 1 },
		{ .magic = RS_REPAIR_MAGIC, .kind = 7, .epoch = 1, .address = NOWHERE },
		{ .magic = 7, .kind = RS_REPAIR_ASK, .epoch = 1, .address = NOWHERE },
	};
	struct rs_repair_message m;
	struct rshare_conn *c, *d;
	struct rshare_info info;
	char *buf = rshare_get(a, 64), *in = rshare_get(b, 64);
	const int fd = liar();
	int i;

	pair(&c, &d, 0);
	ck_assert_int_eq(send(fd, &lie[_i], sizeof(lie[0]), 0), sizeof(lie[0]));
	for (i = 0; i < 1000 && recv(fd, &m, sizeof(m), MSG_WAITALL) > 0; i++)
		; /* until the owner closes it */
	close(fd);
	info = info_of(b);
	ck_assert_uint_eq(info.malformed, 1);
	ck_assert_uint_eq(info.peers, 1);
	ck_assert(!rshare_recv(d, in, 64, 1) && !rshare_send(c, buf, 64, 2));
	ck_assert_int_eq(next_of(d, RSHARE_RECEIVED).status, 0);
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
}

UNIT_TEST(connecting_fails_clearly)
{
	struct rshare_conn *c, *d;
	struct rshare_config x = config("unit-none", 2);
	struct rshare *r;

	pair(&c, &d, 0);
	rshare_disconnect(d, 0);
	ck_assert_int_eq(next_of(c, RSHARE_CLOSED).status, -ECONNRESET);
	rshare_disconnect(c, 0);
	ck_assert_int_eq(rshare_connect(a, node_b, 99, 0, 1, &c), 0);
	ck_assert_int_eq(next_of(c, RSHARE_CLOSED).status, -ECONNREFUSED);
	rshare_disconnect(c, 0);
	ck_assert_int_eq(rshare_connect(a, "127.0.0.1:9", 7, 0, 1, &c), 0);
	ck_assert_int_eq(next_of(c, RSHARE_CLOSED).status, -ECONNREFUSED);
	rshare_disconnect(c, 0);
	ck_assert_int_eq(rshare_connect(a, "no.such.host.invalid", 7, 0, 1, &c), -EHOSTUNREACH);
	ck_assert_int_eq(rshare_connect(a, "", 7, 0, 1, &c), -EINVAL);
	ck_assert_int_eq(rshare_connect(a, node_b, 7, 9, 1, &c), -EINVAL);
	x.role = RSHARE_CLIENT;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ECONNREFUSED);
	ck_assert(strstr(why, "there is no owner called unit-none: nobody listens at /") == why);
	x = config(name_a, 2);
	x.role = RSHARE_OWNER;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -EADDRINUSE);
	x = config(name_c, 0); /* the port is taken */
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -EADDRINUSE);
	x.depth = 9;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -EINVAL);
	x = config(name_c, 2);
	x.ib_port = 2;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ENODEV);
	ck_assert_int_eq(rshare_open("nothing0", &x, &r, why), -ENODEV);
	fake_device[0].transport_type = IBV_TRANSPORT_IWARP;
	ck_assert_int_eq(rshare_open("fake0", &x, &r, why), -ENODEV);
	ck_assert(strstr(why, "fake0 is no InfiniBand or RoCE device") == why);
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ENODEV);
	ck_assert(strstr(why, "no RDMA device of InfiniBand or RoCE") == why);
	fake_device[0].transport_type = IBV_TRANSPORT_IB;
	x = config(name_c, 2);
	x.key = 1; /* nodes of another key */
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), 0);
	ck_assert_int_eq(rshare_connect(r, node_b, 7, 0, 1, &c), 0);
	ck_assert_int_eq(next_of(c, RSHARE_CLOSED).status, -EACCES);
	rshare_disconnect(c, 0);
	rshare_close(r);
}

UNIT_TEST(a_peer_that_ends_is_noticed)
{
	struct rshare_conn *c, *d;
	char *buf = rshare_get(a, 100);
	struct rshare_config x;

	pair(&c, &d, 0);
	ck_assert_int_eq(rshare_recv(c, buf, 100, 5), 0);
	rshare_close(b);
	ck_assert_int_eq(next_of(c, RSHARE_RECEIVED).status, -ECANCELED);
	ck_assert_int_eq(next_of(c, RSHARE_CLOSED).status, -ECONNRESET);
	rshare_disconnect(c, 0);
	x = config(name_b, 1);
	ck_assert_int_eq(rshare_open(NULL, &x, &b, why), 0);
	ck_assert_int_eq(rshare_listen(b, 7, &echo), 0);
	pair(&c, &d, 0); /* and back again */
	rshare_disconnect(c, 0);
	rshare_disconnect(d, 0);
}

/* Processes attach to the owner in this process, which has the queue pairs. */
UNIT_LOOP_TEST(processes_attach_and_die, 0, FORKS)
{
	struct rshare_info info;
	unsigned int i;
	int status;

	for (i = 0; i < 4; i++) {
		const pid_t pid = fork();
		struct rshare_config x = config(name_a, 0);
		struct rshare_conn *c;
		struct rshare_event e;
		struct rshare *r;
		char *buf;

		if (!pid) {
			x.role = RSHARE_CLIENT;
			if (rshare_open(NULL, &x, &r, NULL) ||
			    rshare_connect(r, node_b, 7, 0, 1, &c))
				_exit(1);
			e = next(c);
			buf = rshare_get(r, 1000);
			for (int k = 0; k < 8; k++)
				rshare_send(c, buf, 1000, 1);
			if (i % 2)
				kill(getpid(), SIGKILL);
			_exit(e.type != RSHARE_CONNECTED ||
			      rshare_disconnect(c, 100) != -ETIMEDOUT);
		}
		waitpid(pid, &status, 0);
		ck_assert(i % 2 ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
	}
	for (i = 0; i < 100; i++) {
		ck_assert_int_eq(rshare_get_info(a, &info), 0);
		if (info.clients == 1 && !info.connections)
			break;
		usleep(20000);
	}
	ck_assert_uint_eq(info.clients, 1);
	ck_assert_uint_eq(info.connections, 0);
}

UNIT_TEST(the_narrow_window_is_the_configured_one)
{
	static const uint32_t window[] = { 0, 5000, UINT32_MAX }, narrow[] = { 2 * 16384, 5000, 0 };
	struct rshare_config x = config(name_c, 3);
	struct rshare_conn *c;
	struct rshare *r;

	for (unsigned int i = 0; i < 3; i++) {
		x.window_narrow = window[i];
		ck_assert_int_eq(rshare_open(NULL, &x, &r, why), 0);
		ck_assert_int_eq(rshare_connect(r, node_b, 7, 0, 1, &c), 0);
		ck_assert(next(c).type == RSHARE_CONNECTED);
		ck_assert_uint_eq(r->owner->links->peer.sched.narrow, narrow[i]);
		rshare_close(r);
		rshare_disconnect(accept_one(), 0);
	}
}

UNIT_LOOP_TEST(the_owners_death_is_told, 0, FORKS)
{
	struct rshare_config x = config(name_c, 3);
	struct rshare_listener *l;
	struct rshare *r = NULL;
	struct rshare_conn *c;
	struct pollfd p, set = { .events = POLLIN };
	const pid_t pid = own();
	char self[32];
	void *mark;
	int i;

	x.role = RSHARE_CLIENT;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), 0);
	ck_assert_int_eq(rshare_listen(r, 1, &l), 0);
	p = (struct pollfd){ .fd = rshare_listener_fd(l), .events = POLLIN };
	ck_assert_int_eq(rshare_accept(l, NULL), -EAGAIN);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	snprintf(self, sizeof(self), "127.0.0.1:%u", port + 3);
	ck_assert_int_eq(rshare_connect(r, self, 9, 0, 0, &c), 0); /* no listener */
	ck_assert_int_eq(next(c).type, RSHARE_CLOSED);
	set.fd = rshare_join(c, r);
	ck_assert(ready_of(r, set.fd) == r);
	while (rshare_ready(r, &mark, 1) > 0)
		;
	ck_assert_int_eq(poll(&set, 1, 0), 0);
	kill(pid, SIGKILL);
	ck_assert_int_eq(poll(&p, 1, 10000), 1);
	for (i = 0; i < 5000 && rshare_accept(l, NULL) == -EAGAIN; i++)
		/* the fds end with the owner, and a thread of the library notices it */
		usleep(1000);
	for (i = 0; i < 2; i++)
		ck_assert(rshare_accept(l, NULL) == -ECONNRESET &&
			  rshare_ready(r, &mark, 1) == -ECONNRESET);
	ck_assert_int_eq(poll(&set, 1, 1000), 1);
	ck_assert_int_eq(rshare_listen(r, 2, &l), -ECONNRESET);
	waitpid(pid, NULL, 0);
	rshare_close(r);
}

static uint64_t processor_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static char answer[80]; /* what refuses() has found */

/* Does the owner close a new connection of a process (0) or of another node (1)? */
static bool refuses(int fd, int node)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct sockaddr_un un = owner_at(name_a);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int came, one;
	ssize_t n;
	char c;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert(!(node ? connect(fd, (struct sockaddr *)&in, sizeof(in))
			 : connect(fd, (const struct sockaddr *)&un, sizeof(un))));
	came = poll(&p, 1, 2000);
	n = recv(fd, &c, 1, MSG_DONTWAIT);
	one = n < 0 ? errno : 0;
	snprintf(answer, sizeof(answer), "poll(): %d, recv(): %zd, errno %d", came, n, one);
	one = dup(STDERR_FILENO);
	if (one >= 0) {
		strcat(answer, ", a descriptor is free");
		close(one);
	}
	return came == 1 && !n;
}

/* _i: as in refuses(). */
UNIT_LOOP_TEST(without_descriptors_who_comes_is_refused, 0, 2)
{
	int client[3], fill[DESCRIPTORS], i, n;
	uint64_t before;

	for (i = 0; i < 3; i++)
		client[i] =
			_i ? socket(AF_INET, SOCK_STREAM, 0) : socket(AF_UNIX, SOCK_SEQPACKET, 0);
	ck_assert_int_ge(client[2], 0);
	n = use_up_descriptors(fill);
	before = processor_ms();
	ck_assert_msg(refuses(client[0], _i), "%s", answer);
	poll(NULL, 0, 500); /* without a reserve descriptor, the owner would spin */
	ck_assert_uint_lt(processor_ms() - before, 250);
	ck_assert_msg(refuses(client[1], _i), "%s", answer); /* the owner has a reserve again */
	while (n)
		close(fill[--n]);
	ck_assert_msg(!refuses(client[2], _i), "%s", answer);
	for (i = 0; i < 3; i++)
		close(client[i]);
}

UNIT_TEST(the_pool_gives_and_takes)
{
	char *p[64];
	unsigned int i, k;

	for (k = 0; k < 3; k++) {
		for (i = 0; i < 64; i++) {
			p[i] = rshare_get(a, 65000);
			unit_require(p[i] && !((uintptr_t)p[i] % 256));
			memset(p[i], (int)i, 65000);
		}
		ck_assert_ptr_null(rshare_get(a, 1u << 20));
		for (i = 0; i < 64; i++) {
			unit_require(p[i][0] == (char)i && p[i][64999] == (char)i);
			rshare_put(a, p[i]);
		}
	}
	p[0] = rshare_get(a, 4u << 20);
	ck_assert_ptr_nonnull(p[0]);
	ck_assert_ptr_null(rshare_get(a, 1));
	rshare_put(a, p[0]);
	rshare_put(a, NULL);
}

UNIT_SUITE("share_library", .seconds = 60, .setup = begin, .teardown = end)

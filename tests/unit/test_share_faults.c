// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_faults.c - librshare when others fail while data is in transit: processes and owners
 * that are killed, peers that fall silent, a device that refuses or runs out of receives. No thread
 * waits forever, and other connections continue.
 */
#include "suite.h"

#include "share_old.h"
#include "share_stderr.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>

#include "share/client.h"

static void faults_begin(void)
{
	said_begin();
	begin();
	pair(&old_a, &old_b, 0);
}

static void faults_end(void)
{
	said_end();
	fake_hold(0, UINT_MAX);
	rshare_disconnect(old_a, 0);
	rshare_disconnect(old_b, 0);
	end();
}

/* ---- processes that are killed --------------------------------------------------------------- */

/*
 * Attach to a's owner once more. This attachment ends as that of a killed process: the kernel
 * closes the socket, nothing more.
 */
static struct rshare *attach(void)
{
	struct rshare_config x = config(name_a, 0);
	struct rshare *r;

	x.role = RSHARE_CLIENT;
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	return r;
}

/*
 * All rings of the process are full: sends without credit, receives that no message fills,
 * completions that it has not polled. Chunks on the wire still read its pool.
 */
UNIT_TEST(a_process_is_killed_with_full_rings)
{
	const struct rshare_info before = info_of(a);
	struct rshare *r = attach();
	char *buf = rshare_get(r, 20000), *in = rshare_get(b, 20000);
	struct rshare_conn *c[3], *d[3];
	struct rshare_event e;
	unsigned int i, k, n;
	uint64_t posts;

	for (k = 0; k < 3; k++) {
		ck_assert_int_eq(rshare_connect(r, node_b, 7, k, 1, &c[k]), 0);
		d[k] = accept_one();
		ck_assert(next(c[k]).type == RSHARE_CONNECTED &&
			  next(d[k]).type == RSHARE_CONNECTED);
		for (i = 0; i < 8; i++)
			ck_assert_int_eq(rshare_recv(c[k], buf, 20000, i), 0);
		ck_assert_int_eq(rshare_recv(c[k], buf, 20000, i), -EAGAIN);
	}
	for (i = 0; i < 8; i++) /* completions of c[1] that it does not poll */
		ck_assert(!rshare_send(d[1], in, 100, i) && !next_of(d[1], RSHARE_SENT).status);
	posts = info_of(b).posts;
	ck_assert_int_eq(rshare_recv(d[2], in, 20000, 1), 0);
	while (info_of(b).posts == posts) /* the credit for a message of c[2] */
		usleep(1000);
	while (info_of(a).connections < 4)
		usleep(1000);
	posts = info_of(a).posts;
	/* A query wakes the owner, so make none now. */
	while (!__atomic_load_n(&((struct rs_seg_head *)r->base)->sleeping, __ATOMIC_SEQ_CST))
		usleep(1000);
	fake_hold(1, UINT_MAX);
	for (k = 0; k < 3; k++)
		for (i = 0; !rshare_send(c[k], buf, 20000, i); i++)
			;
	while (info_of(a).posts == posts)
		usleep(1000);
	shutdown(r->sock, SHUT_RDWR);
	for (i = 0; i < 500 && info_of(a).clients > 1; i++)
		usleep(2000);
	usleep(50000);
	/* the wire still reads its pool */
	ck_assert_uint_gt(info_of(a).registered, before.registered);
	fake_hold(0, UINT_MAX);
	for (i = 0; i < 1000 && info_of(a).registered != before.registered; i++)
		usleep(2000);
	ck_assert_uint_eq(info_of(a).registered, before.registered);
	ck_assert_uint_eq(info_of(a).connections, before.connections);
	for (k = 0; k < 3; k++) {
		for (n = 0; (e = next(d[k])).type != RSHARE_CLOSED && e.type; n++)
			;
		ck_assert(e.type == RSHARE_CLOSED && e.status == -ECONNRESET);
		rshare_disconnect(d[k], 0);
	}
	require_old();
	rshare_close(r);
	/* a process may end in any way, so nothing is logged */
	ck_assert_uint_eq(said_lines("librshare: "), 0);
}

#ifndef __SANITIZE_THREAD__ /* no threads after fork() */

/* Run until the owner is dead. Returns 0, or what is wrong. */
static const char *stream(struct rshare_conn *c, struct rshare_conn *d, char *out, char *in,
			  unsigned int *received)
{
	struct rshare_event e;
	int n, err = 0;

	while (!err) {
		while (!(err = rshare_recv(d, in, 20000, 1)))
			;
		if (err == -EAGAIN)
			while (!(err = rshare_send(c, out, 20000, 2)))
				;
		if (err != -EAGAIN)
			break;
		for (err = 0; !err && (n = rshare_poll(d, &e, 1)); err = n < 0 ? n : 0) {
			if (n > 0 && (e.type != RSHARE_RECEIVED || e.status))
				return "an event of the receiver";
			__atomic_fetch_add(received, n > 0, __ATOMIC_RELAXED);
		}
		for (; !err && (n = rshare_poll(c, &e, 1)); err = n < 0 ? n : 0)
			if (n > 0 && (e.type != RSHARE_SENT || e.status))
				return "an event of the sender";
	}
	return err == -ECONNRESET ? NULL : "another error";
}

static unsigned int streamed;
static pid_t victim;

static void *killer(void *arg)
{
	const unsigned int after = *(unsigned int *)arg;

	while (__atomic_load_n(&streamed, __ATOMIC_RELAXED) < after)
		usleep(200);
	kill(victim, SIGKILL);
	return NULL;
}

/*
 * Both ends of the connection are in this process. Their owner is another one, and is killed while
 * it copies and sends.
 */
UNIT_LOOP_TEST(the_owner_is_killed_in_mid_transfer, 0, 5)
{
	struct rshare_config x = config(name_c, 3);
	unsigned int after = 20 + 37 * (unsigned int)_i;
	struct rshare_conn *c, *d = NULL;
	struct rshare_listener *l;
	struct rshare_event e;
	struct rshare *r;
	struct pollfd p;
	pthread_t thread;
	const char *wrong;
	char node[32], *out, *in;

	snprintf(node, sizeof(node), "127.0.0.1:%u", port + 3);
	victim = own();
	x.role = RSHARE_CLIENT;
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert(!rshare_listen(r, 5, &l) && !rshare_connect(r, node, 5, 0, 1, &c));
	ck_assert_int_eq(next(c).type, RSHARE_CONNECTED);
	while (rshare_accept(l, &d) == -EAGAIN)
		usleep(1000);
	ck_assert_int_eq(next(d).type, RSHARE_CONNECTED);
	ck_assert(rshare_fd(c) >= 0 && rshare_fd(d) >= 0);
	out = rshare_get(r, 20000);
	in = rshare_get(r, 20000);
	streamed = 0;
	pthread_create(&thread, NULL, killer, &after);
	wrong = stream(c, d, out, in, &streamed);
	pthread_join(thread, NULL);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_ge(streamed, after);
	p = (struct pollfd){ .fd = rshare_fd(c), .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 5000), 1);
	while (rshare_poll(c, &e, 1) > 0)
		;
	ck_assert_int_eq(rshare_poll(c, &e, 1), -ECONNRESET);
	ck_assert_int_eq(rshare_wait(c, 1000), -ECONNRESET);
	ck_assert_int_eq(rshare_disconnect(c, -1), -ECONNRESET); /* without end: must not hang */
	ck_assert_int_eq(rshare_disconnect(d, -1), -ECONNRESET);
	rshare_unlisten(l);
	rshare_close(r);
	waitpid(victim, NULL, 0);
	require_old();
}

#endif

/* ---- peers that say nothing ------------------------------------------------------------------ */

static int tcp(uint16_t to)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(to),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static int tcp_listen(uint16_t at_port)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(at_port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ck_assert(!bind(fd, (const struct sockaddr *)&at, sizeof(at)) && !listen(fd, 4));
	return fd;
}

/* A node made by hand; its queue pairs accept what is sent to them. */
struct mute {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[RS_LANES];
	char landing[1 << 15];
	int tcp;
};

static void mute_begin(struct mute *m)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_sge sge = { (uintptr_t)m->landing, sizeof(m->landing), 1 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	unsigned int i;

	m->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	m->pd = ibv_alloc_pd(m->ctx);
	m->channel = ibv_create_comp_channel(m->ctx);
	m->cq = ibv_create_cq(m->ctx, 16, NULL, m->channel, 0);
	m->srq = ibv_create_srq(m->pd, &(struct ibv_srq_init_attr){ .attr.max_wr = 16 });
	for (i = 0; i < 64; i++)
		ibv_post_srq_recv(m->srq, &wr, &bad);
	for (i = 0; i < RS_LANES; i++)
		m->qp[i] = ibv_create_qp(m->pd,
					 &(struct ibv_qp_init_attr){ .send_cq = m->cq,
								     .recv_cq = m->cq,
								     .srq = m->srq,
								     .qp_type = IBV_QPT_RC });
}

/* Answer the hello of an owner that connects, and nothing after that. */
static void mute_meet(struct mute *m, int listener)
{
	struct rs_hello hello;
	unsigned int i;

	m->tcp = accept(listener, NULL, NULL);
	ck_assert_int_eq(recv(m->tcp, &hello, sizeof(hello), MSG_WAITALL), sizeof(hello));
	for (i = 0; i < RS_LANES; i++) {
		ck_assert(
			!ibv_modify_qp(m->qp[i],
				       &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
							      .dest_qp_num = hello.address.qpn[i] },
				       IBV_QP_DEST_QPN));
		hello.address.qpn[i] = m->qp[i]->qp_num;
	}
	hello.instance = 1;
	hello.status = 0;
	ck_assert_int_eq(send(m->tcp, &hello, sizeof(hello), 0), sizeof(hello));
}

static void mute_end(struct mute *m)
{
	unsigned int i;

	close(m->tcp);
	for (i = 0; i < RS_LANES; i++)
		ibv_destroy_qp(m->qp[i]);
	ibv_destroy_srq(m->srq);
	ibv_destroy_cq(m->cq);
	ibv_destroy_comp_channel(m->channel);
	ibv_dealloc_pd(m->pd);
	ibv_close_device(m->ctx);
}

static struct rshare_conn *dial(uint16_t to)
{
	struct rshare_conn *c;
	char node[32];

	snprintf(node, sizeof(node), "127.0.0.1:%u", to);
	ck_assert_int_eq(rshare_connect(a, node, 5, 0, 1, &c), 0);
	return c;
}

/*
 * Peers that fall silent at each stage: one connects and says nothing; one gets the hello and does
 * not answer; one is up and answers no connection.
 */
UNIT_TEST(who_says_nothing_is_not_waited_for)
{
	static struct mute m;
	const int listener = tcp_listen((uint16_t)(port + 2)),
		  mute_listener = tcp_listen((uint16_t)(port + 3));
	const int stranger = tcp((uint16_t)(port + 1));
	struct rshare_conn *c = dial((uint16_t)(port + 2)), *d = dial((uint16_t)(port + 3));
	const int64_t start = now_ms();
	char byte;

	mute_begin(&m);
	mute_meet(&m, mute_listener);
	require_old();
	/* repair and the retries of a queue pair: 10 s */
	ck_assert_int_eq(next(d).status, -ETIMEDOUT);
	ck_assert_int_ge(now_ms() - start, 9000);
	ck_assert_int_eq(next(c).status, -ETIMEDOUT); /* 15 s */
	ck_assert_int_eq(recv(stranger, &byte, 1, 0), 0);
	ck_assert_int_lt(now_ms() - start, 18000);
	ck_assert_uint_eq(said_lines("1 connections are not answered in 10 s"), 1);
	ck_assert_uint_eq(said_lines("does not answer"), 2);
	ck_assert_uint_eq(said_lines("librshare: "), 3);
	rshare_disconnect(c, 0);
	rshare_disconnect(d, 0);
	close(stranger);
	close(listener);
	close(mute_listener);
	mute_end(&m);
	require_old();
	for (int i = 0; i < 500 && info_of(a).peers > 1; i++)
		usleep(2000);
	ck_assert_uint_eq(info_of(a).queue_pairs, 2);
	ck_assert_uint_eq(info_of(a).connections, 1);
}

/* Connections that do not say hello do not count as nodes. */
UNIT_TEST(strangers_do_not_keep_nodes_out)
{
	struct rshare_config x = config(name_c, 2);
	struct rshare_listener *l;
	struct rshare_conn *c;
	struct rshare *r;
	int fd[4], i;
	char node[32];

	x.peers = 2;
	snprintf(node, sizeof(node), "127.0.0.1:%u", port + 2);
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert_int_eq(rshare_listen(r, 5, &l), 0);
	for (i = 0; i < 4; i++)
		fd[i] = tcp((uint16_t)(port + 2));
	ck_assert_int_eq(rshare_connect(b, node, 5, 0, 1, &c), 0);
	ck_assert_int_eq(next(c).type, RSHARE_CONNECTED);
	ck_assert_uint_eq(said_lines("says nothing while others come; dropped"), 3);
	rshare_disconnect(c, 5000);
	for (i = 0; i < 4; i++)
		close(fd[i]);
	rshare_close(r);
	require_old();
}

/* ---- receives of the device ------------------------------------------------------------------ */

#define LINES 24
#define ROUNDS 20

struct line {
	struct rshare_conn *c, *d;
	char *out, *in;
};

static void lines_open(struct line *v)
{
	for (unsigned int k = 0; k < LINES; k++) {
		pair(&v[k].c, &v[k].d, k % 8);
		v[k].out = rshare_get(a, 3000);
		v[k].in = rshare_get(b, 3000);
	}
}

/* Each message must arrive once, and complete. */
static void lines_talk(struct line *v)
{
	struct rshare_event e;
	unsigned int k, i;

	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < LINES; k++) {
			memset(v[k].out, (int)(k + i), 3000);
			unit_require(!rshare_recv(v[k].d, v[k].in, 3000, i) &&
				     !rshare_send(v[k].c, v[k].out, 3000, i));
		}
		for (k = 0; k < LINES; k++) {
			e = next_of(v[k].d, RSHARE_RECEIVED);
			unit_require(e.type == RSHARE_RECEIVED && !e.status && e.cookie == i &&
				     e.size == 3000);
			unit_require(v[k].in[0] == (char)(k + i) &&
				     !memcmp(v[k].in, v[k].in + 1, 2999));
			unit_require(!next_of(v[k].c, RSHARE_SENT).status);
		}
	}
}

static void lines_close(struct line *v)
{
	for (unsigned int k = 0; k < LINES; k++) {
		ck_assert_int_eq(rshare_disconnect(v[k].c, 5000), 0);
		rshare_disconnect(v[k].d, 5000);
	}
}

/* Far more messages than landing buffers: senders wait, and none is lost. */
UNIT_TEST(landing_buffers_run_out)
{
	static struct line line[LINES];
	struct rshare_config x = config(name_b, 1);

	rshare_disconnect(old_b, 0);
	rshare_close(b);
	x.receives = 16;
	ck_assert_msg(!rshare_open(NULL, &x, &b, why), "%s", why);
	ck_assert_int_eq(rshare_listen(b, 7, &echo), 0);
	rshare_disconnect(old_a, 0);
	pair(&old_a, &old_b, 0);
	lines_open(line);
	__atomic_store_n(&fake_starved, 0, __ATOMIC_RELAXED);
	/* On a busy machine the owner may repost as fast as the threads send. */
	for (int i = 0; i < 100 && __atomic_load_n(&fake_starved, __ATOMIC_RELAXED) <= 10; i++)
		lines_talk(line);
	ck_assert_uint_gt(__atomic_load_n(&fake_starved, __ATOMIC_RELAXED), 10);
	lines_close(line);
	require_old();
}

/*
 * The device refuses some receives of each chain: those before are posted, the others are posted
 * again, none twice.
 */
UNIT_TEST(receives_are_refused_for_a_while)
{
	static struct line line[LINES];

	lines_open(line);
	said_forget();
	for (int i = 0; i < 20; i++) {
		fake_refuse(FAKE_RECV, ENOMEM, i % 17, 1 + i % 5);
		lines_talk(line);
	}
	fake_refuse(FAKE_RECV, 0, 0, 0);
	ck_assert_uint_gt(said_lines("fake0 refuses receives, peers wait: Cannot allocate memory"),
			  5);
	lines_close(line);
	require_old();
}

/* Send until a message does not arrive because no receive is posted; then the owners sleep. */
static void starve(void)
{
	char *out = rshare_get(a, 64), *in = rshare_get(b, 64);
	struct rshare_event e;
	int n, i, ms;

	fake_refuse(FAKE_RECV, ENOMEM, 0, INT_MAX);
	for (i = 0, ms = 0; ms < 300; i++) {
		ck_assert_int_lt(i, 200);
		ck_assert(!rshare_recv(old_b, in, 64, 1) && !rshare_send(old_a, out, 64, 2));
		for (ms = 0; ms < 300 && !(n = rshare_poll(old_b, &e, 1)); ms++)
			usleep(1000);
		ck_assert(ms == 300 || (e.type == RSHARE_RECEIVED && !e.status));
		for (n = 0; ms < 300 && n < 300 && !rshare_poll(old_a, &e, 1); n++)
			usleep(1000);
	}
}

/* Nothing arrives that would wake the owner: it must retry by itself. */
UNIT_TEST(a_sleeping_owner_posts_refused_receives)
{
	starve();
	ck_assert_uint_ge(said_lines("fake0 refuses receives, peers wait: Cannot allocate memory"),
			  1);
	ck_assert_uint_le(said_lines("librshare: "), 2); /* one per owner */
	fake_refuse(FAKE_RECV, 0, 0, 0);
	ck_assert_int_eq(next_of(old_b, RSHARE_RECEIVED).status, 0);
	require_old();
}

UNIT_TEST(receives_that_are_refused_for_good_end_connections)
{
	starve();
	ck_assert_int_lt(next_of(old_a, RSHARE_CLOSED).status, 0);
	ck_assert_int_lt(next_of(old_b, RSHARE_CLOSED).status, 0);
	ck_assert_uint_ge(said_lines("dropped: nothing can be received"), 1);
	ck_assert_uint_le(said_lines("librshare: "), 4);
	fake_refuse(FAKE_RECV, 0, 0, 0);
	rshare_disconnect(old_a, 0);
	rshare_disconnect(old_b, 0);
	pair(&old_a, &old_b, 0); /* and back again */
	require_old();
}

UNIT_SUITE("share_faults", .seconds = 60, .setup = faults_begin, .teardown = faults_end)

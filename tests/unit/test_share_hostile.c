// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_hostile.c - a hostile process attached to librshare's owner. It speaks the control
 * protocol by hand, so that it keeps each descriptor that the owner hands out, and writes each word
 * of the memory that it shares. The owner and the honest processes must go on.
 */
#include "suite.h"

#include "share_old.h"
#include "share_stderr.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ROUNDS 60
#define ATTACKS 8
#define FDS 64
#define CONNS 16
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#ifdef __SANITIZE_THREAD__
#define THREADS_AFTER_FORK 0
#else
#define THREADS_AFTER_FORK 1
#endif

static int old_kernel;         /* before 6.16 */
static unsigned int *attacked; /* by the hostile process, how often */
static unsigned int *counted;  /* the test has seen that the hostile process is attached */

/* In place of the C library's. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	if (old_kernel && level == SOL_SOCKET && name == SO_PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}

static struct rshare *honest; /* a process of its own to a's owner */
static struct rshare_conn *honest_a, *honest_b;

static void hostile_begin(void)
{
	struct rshare_config x;

	said_begin();
	begin();
	x = config(name_a, 0);
	x.role = RSHARE_CLIENT;
	attacked = mmap(NULL, 2 * sizeof(*attacked), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(attacked != MAP_FAILED);
	counted = attacked + 1;
	pair(&old_a, &old_b, 0);
	ck_assert_msg(!rshare_open(NULL, &x, &honest, why), "%s", why);
	ck_assert_int_eq(rshare_connect(honest, node_b, 7, 3, 1, &honest_a), 0);
	honest_b = accept_one();
	unit_require(next(honest_a).type == RSHARE_CONNECTED &&
		     next(honest_b).type == RSHARE_CONNECTED);
}

static void hostile_end(void)
{
	said_end();
	rshare_disconnect(honest_a, 0);
	rshare_disconnect(honest_b, 0);
	rshare_disconnect(old_a, 0);
	rshare_disconnect(old_b, 0);
	rshare_close(honest);
	munmap(attacked, 2 * sizeof(*attacked));
	end();
}

/* A message each way, between processes that sleep for it. */
static void honest_exchange(unsigned int i)
{
	char *out = rshare_get(honest, 20000), *in = rshare_get(b, 20000);
	struct rshare_event e;

	memset(out, (int)(i | 1), 20000);
	memset(in, 0, 20000);
	unit_require(!rshare_recv(honest_b, in, 20000, i) && !rshare_send(honest_a, out, 20000, i));
	e = next_of(honest_b, RSHARE_RECEIVED);
	unit_require(e.type == RSHARE_RECEIVED && !e.status && e.cookie == i && e.size == 20000);
	unit_require(!memcmp(in, out, 20000));
	unit_require(!next_of(honest_a, RSHARE_SENT).status);
	unit_require(!rshare_recv(honest_a, out, 20000, i) && !rshare_send(honest_b, in, 64, i));
	unit_require(!next_of(honest_a, RSHARE_RECEIVED).status &&
		     !next_of(honest_b, RSHARE_SENT).status);
	rshare_put(honest, out);
	rshare_put(b, in);
}

/* Until there were so many attacks. Between the rounds, the owner falls asleep. */
static void require_all(unsigned int attacks)
{
	for (unsigned int i = 0;
	     i < ROUNDS || __atomic_load_n(attacked, __ATOMIC_RELAXED) < attacks; i++) {
		require_old();
		honest_exchange(i);
		usleep(1000 * (i % 4));
	}
}

/* ---- the hostile process --------------------------------------------------------------------- */

struct hostile {
	int sock, fd[FDS];
	unsigned int fds;
	struct rs_layout layout;
	char *base;
	uint64_t random;
};

static int hostile_connect(void)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const struct sockaddr_un un = owner_at(name_a);

	if (connect(fd, (const struct sockaddr *)&un, sizeof(un)))
		_exit(1);
	return fd;
}

/* Keeps the descriptors of the answer. */
static int hostile_ask(struct hostile *h, const struct rs_request *q, struct rs_answer *out)
{
	union {
		char buf[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { out, sizeof(*out) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	size_t n;

	if (send(h->sock, q, sizeof(*q), MSG_NOSIGNAL) != sizeof(*q) ||
	    recvmsg(h->sock, &m, 0) != sizeof(*out))
		return -ECONNRESET;
	c = CMSG_FIRSTHDR(&m);
	n = c && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	for (size_t i = 0; i < n; i++) {
		int *at = &h->fd[h->fds++ % FDS];

		if (*at >= 0)
			close(*at);
		memcpy(at, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
	return out->status;
}

static void hostile_attach(struct hostile *h)
{
	const struct rs_request q = { .type = RS_ATTACH,
				      .version = RS_CONTROL_VERSION,
				      .conns = CONNS,
				      .depth_shift = 3,
				      .pages = 64,
				      .remote = 1 };
	struct rs_answer out;

	*h = (struct hostile){ .random = 88172645463325252u };
	memset(h->fd, -1, sizeof(h->fd));
	h->sock = hostile_connect();
	if (hostile_ask(h, &q, &out))
		_exit(1);
	h->layout = out.layout;
	h->base = mmap(NULL, h->layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd[0], 0);
	if (h->base == MAP_FAILED)
		_exit(1);
}

/* Connections to a service that exists, and to one that does not; a descriptor for each. */
static void hostile_dial(struct hostile *h)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)(port + 1)),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rs_request q = { .type = RS_CONNECT,
				.service = unit_random(&h->random) % 4 ? 99 : 7,
				.weight = 1 };
	struct rs_answer out;

	memcpy(&q.node, &at, sizeof(at));
	if (hostile_ask(h, &q, &out))
		return;
	q = (struct rs_request){ .type = unit_random(&h->random) % 2 ? RS_FD : RS_JOIN,
				 .index = out.index };
	hostile_ask(h, &q, &out);
}

/* More signals than a socket holds, none of them read. */
static void hostile_hoard(struct hostile *h)
{
	const struct rs_request listen_request = { .type = RS_LISTEN, .service = 1 };
	struct rs_request q = { .type = RS_JOIN };
	struct rs_answer out;

	if (hostile_ask(h, &listen_request, &out))
		_exit(1);
	q.index = out.index;
	for (unsigned int i = 0; i < 1000; i++) {
		__atomic_store_n(&((struct rs_seg_head *)h->base)->armed, 1, __ATOMIC_SEQ_CST);
		if (hostile_ask(h, &q, &out))
			_exit(1);
	}
}

static void hostile_release(struct hostile *h)
{
	const struct rs_request q = { .type = RS_RELEASE,
				      .index = (uint32_t)(unit_random(&h->random) % CONNS) };
	struct rs_answer out;

	hostile_ask(h, &q, &out);
}

/* ---- its attacks ----------------------------------------------------------------------------- */

/* Arm everything, so that the owner signals each event. */
static void attack_arm(struct hostile *h)
{
	struct rs_seg_head *head = (struct rs_seg_head *)h->base;

	__atomic_store_n(&head->armed, 1, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < CONNS; i++)
		__atomic_store_n(&rs_seg_conn(&h->layout, h->base, i)->armed, 1, __ATOMIC_SEQ_CST);
}

/* Fill a descriptor, so that the next write to it would wait; then let it wait. */
static void attack_fill(struct hostile *h, int fd)
{
	const uint64_t max = UINT64_MAX - 1;

	(void)h;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	while (write(fd, &max, sizeof(max)) > 0)
		;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

/* Empty a descriptor, so that the next read would wait. What is read may be for another process. */
static void attack_empty(struct hostile *h, int fd)
{
	char buf[4096];

	(void)h;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	while (fd != h->sock && read(fd, buf, sizeof(buf)) > 0)
		;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

static void attack_memory(struct hostile *h, int fd)
{
	const int64_t bytes = (int64_t)h->layout.bytes;

	if (!ftruncate(fd, 0) || !ftruncate(fd, bytes * 2))
		_exit(2);
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes);
	fcntl(fd, F_ADD_SEALS,
	      F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
		      0x10 /* F_SEAL_FUTURE_WRITE */);
	fcntl(fd, F_SETLEASE, F_WRLCK);
	if (fchmod(fd, 0))
		return;
}

static void attack_shutdown(struct hostile *h, int fd)
{
	if (fd != h->sock)
		shutdown(fd, SHUT_RDWR);
}

static void (*const attacks[])(struct hostile *h, int fd) = { attack_fill, attack_empty,
							      attack_memory, attack_shutdown };

/* One attack on each descriptor, without end. */
static void attack_descriptors(unsigned int which)
{
	struct hostile h;

	hostile_attach(&h);
	hostile_hoard(&h);
	for (;;) {
		hostile_dial(&h);
		for (unsigned int i = 0; i < FDS; i++)
			if (h.fd[i] >= 0)
				attacks[which](&h, h.fd[i]);
		attack_arm(&h);
		if (which != 0)
			attacks[which](&h, h.sock);
		hostile_release(&h);
		__atomic_fetch_add(attacked, 1, __ATOMIC_RELAXED);
	}
}

/* A word that a ring may take for a turn, a length, an index, or anything. */
static uint32_t strange_word(struct hostile *h)
{
	const uint64_t n = unit_random(&h->random);

	switch (n % 4) {
	case 0: return (uint32_t)(n >> 8) % 16;
	case 1: return UINT32_MAX - (uint32_t)(n >> 8) % 16;
	case 2: return 1u << (n >> 8) % 32;
	default: return (uint32_t)(n >> 32);
	}
}

/* The second entry of an operation in pieces. */
static void strange_pieces(struct hostile *h, struct rs_seg_conn *c, uint32_t at)
{
	struct rs_pieces v;

	for (unsigned int i = 0; i < RS_PIECES_MAX; i++) {
		v.len[i] = strange_word(h);
		v.offset[i] = strange_word(h) * (uint64_t)strange_word(h);
	}
	rs_ring_publish(rs_seg_sq(c), at, 8, &v, sizeof(v));
}

/* An entry that the owner takes, full of anything. */
static void strange_entry(struct hostile *h)
{
	const bool sends = unit_random(&h->random) % 2;
	struct rs_seg_conn *c =
		rs_seg_conn(&h->layout, h->base, (uint32_t)(unit_random(&h->random) % CONNS));
	struct rs_sqe e = { .op = (uint8_t)(unit_random(&h->random) % 7),
			    .flags = (uint8_t)(unit_random(&h->random) % 5),
			    .len = strange_word(h),
			    .offset = strange_word(h),
			    .rkey = strange_word(h),
			    .remote = unit_random(&h->random),
			    .pieces = sends ? (uint32_t)(unit_random(&h->random) % 7) : 0 };
	uint32_t at = (uint32_t)(unit_random(&h->random) % 16);

	if (e.pieces)
		strange_pieces(h, c, at + 1);
	rs_ring_publish(sends ? rs_seg_sq(c) : rs_seg_rq(&h->layout, c), at, 8, &e,
			sends ? sizeof(struct rs_sqe) : sizeof(struct rs_rqe));
}

static void attack_words(unsigned int unused)
{
	struct hostile h;
	const uint64_t words = rs_layout(CONNS, 8, 64 * RS_PAGE).pool_offset / 4;
	uint32_t *at;

	(void)unused;
	hostile_attach(&h);
	at = (uint32_t *)(void *)h.base;
	for (unsigned int i = 0;; i++) {
		const uint64_t n = unit_random(&h.random) % words;

		__atomic_store_n(&at[n], strange_word(&h), __ATOMIC_RELAXED);
		if (i % 4 == 0) /* where all of them are read */
			__atomic_store_n((uint32_t *)(void *)((struct rs_seg_head *)h.base)->ready,
					 UINT32_MAX, __ATOMIC_RELAXED);
		if (i % 16 == 0)
			strange_entry(&h);
		if (i % 4096 == 0) {
			hostile_dial(&h);
			hostile_release(&h);
			send(h.sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
			__atomic_fetch_add(attacked, 1, __ATOMIC_RELAXED);
		}
	}
}

/* A TCP socket whose last close waits for its peer, which does not read. */
static int lingerer(void)
{
	const int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0),
		  small = 4096;
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger linger = { 1, 30 };
	char buf[4096] = "";
	socklen_t len = sizeof(at);

	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len) ||
	    connect(fd, (struct sockaddr *)&at, len))
		_exit(3);
	while (send(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	return fd;
}

static void *lingerer_close(void *fd)
{
	close((int)(intptr_t)fd);
	return NULL;
}

static void send_lingerer(int sock, size_t bytes)
{
	static struct rs_request q = { .type = RS_INFO };
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { "" };
	struct iovec iov = { &q, bytes };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	const struct linger no_linger = { 0 };
	const int fd = lingerer();
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	pthread_t id;

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(fd)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		/* the last close is our own */
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_linger, sizeof(no_linger));
	/*
	 * If the owner was quicker, this close is the last, and waits: in a thread, for the attack
	 * goes on.
	 */
	if (pthread_create(&id, NULL, lingerer_close, (void *)(intptr_t)fd) || pthread_detach(id))
		_exit(4);
}

/*
 * Descriptors with a ring, with a request, without data, and in a socket that closes before the
 * owner has looked.
 */
static void attack_close(unsigned int unused)
{
	static const size_t bytes[] = { 1, sizeof(struct rs_request), 0, 1 };
	struct hostile h;

	(void)unused;
	hostile_attach(&h);
	while (!__atomic_load_n(counted, __ATOMIC_ACQUIRE))
		usleep(1000);
	for (unsigned int i = 0;; i = (i + 1) % 4) {
		send_lingerer(h.sock, bytes[i]);
		usleep(i < 3 ? 10000 : 0);
		close(h.sock);
		h.sock = hostile_connect();
		__atomic_fetch_add(attacked, 1, __ATOMIC_RELAXED);
	}
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Wait until the owner has so many processes. */
static void await_clients(unsigned int n)
{
	const int64_t end_ms = now_ms() + EVENT_MS;

	while (info_of(a).clients != n && now_ms() < end_ms)
		usleep(1000);
	ck_assert_uint_eq(info_of(a).clients, n);
}

static pid_t begin_attack(void (*attack)(unsigned int), unsigned int which)
{
	const pid_t pid = fork();

	if (!pid) {
		signal(SIGPIPE, SIG_IGN);
		attack(which);
	}
	ck_assert_int_gt(pid, 0);
	await_clients(3);
	__atomic_store_n(counted, 1, __ATOMIC_RELEASE);
	return pid;
}

/* It attacks to the end, and everything that it had is freed. */
static void end_attack(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	await_clients(2);
	require_all(0);
}

UNIT_LOOP_TEST(a_process_abuses_its_descriptors, 0,
	       THREADS_AFTER_FORK ? sizeof(attacks) / sizeof(attacks[0]) : 0)
{
	const pid_t pid = begin_attack(attack_descriptors, (unsigned int)_i);

	require_all(ATTACKS);
	end_attack(pid);
}

UNIT_LOOP_TEST(a_process_scribbles_into_its_memory, 0, THREADS_AFTER_FORK)
{
	const pid_t pid = begin_attack(attack_words, 0);

	require_all(ATTACKS);
	while (!info_of(a)
			/*
			 * until an entry was where the owner looks; the limit of the test is the
			 * limit of this
			 */
			.forged)
		require_all(0);
	end_attack(pid);
}

/* Keys without end: the owner registers so many, and no more. */
static void attack_grants(unsigned int unused)
{
	struct rs_request q = { .type = RS_GRANT, .service = 64, .remote = RSHARE_ACCESS_READ };
	struct rs_answer out;
	struct hostile h;

	(void)unused;
	hostile_attach(&h);
	for (unsigned int i = 0;; i++) {
		if (hostile_ask(&h, &q, &out) != (i < 20 ? 0 : -ENOSPC))
			_exit(5);
		if (i % 256 == 255)
			__atomic_fetch_add(attacked, 1, __ATOMIC_RELAXED);
	}
}

UNIT_LOOP_TEST(a_process_asks_for_keys_without_end, 0, THREADS_AFTER_FORK)
{
	const uint64_t registered = info_of(a).registered;
	const pid_t pid = begin_attack(attack_grants, 0);

	require_all(ATTACKS);
	ck_assert_uint_eq(info_of(a).registered, registered + 64 * RS_PAGE + 20 * 64);
	ck_assert_uint_eq(said_lines("it has 20; raise `grants`"), 1); /* not for each */
	end_attack(pid);
	ck_assert_uint_eq(info_of(a).registered, registered);
}

/* _i: the kernel cannot refuse descriptors. */
UNIT_LOOP_TEST(a_process_sends_descriptors, 0, THREADS_AFTER_FORK ? 2 : 0)
{
	pid_t pid;

	old_kernel = _i;
	hostile_end(); /* and again, with new owners */
	hostile_begin();
	pid = begin_attack(attack_close, 0);
	require_all(ATTACKS);
	end_attack(pid);
}

UNIT_SUITE("share_hostile", .seconds = 60, .setup = hostile_begin, .teardown = hostile_end)

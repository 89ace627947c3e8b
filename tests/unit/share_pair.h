/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share_pair.h - two owners of librshare in this process, a and b, over share_verbs.h; b listens.
 * Also a peer made by hand. In the end, the library must have freed everything.
 */
#ifndef UNIT_SHARE_PAIR_H
#define UNIT_SHARE_PAIR_H

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "share_verbs.h"
#include "suite.h"

#include "rshare.h"
#include "share/owner.h"
#include "share/place.h"

#define EVENT_MS 20000
#include "../share/events.h"

static struct rshare *a, *b;
static struct rshare_listener *echo;
static char why[RSHARE_WHY_MAX], name_a[32], name_b[32], name_c[32], node_b[32];
static uint16_t port;
static unsigned int taken;    /* blocks of memory in use by the library */
static int take_after = -1;   /* allocations that succeed before one is refused; -1: all */
static unsigned int refusals; /* refused allocations */

#define DESCRIPTORS 256

/*
 * Use the descriptors of this process up. An owner closes what it has passed on after the receiver
 * has it, so some may become free meanwhile. Returns how many are in fill[].
 */
static inline int use_up_descriptors(int fill[DESCRIPTORS])
{
	struct rlimit limit;
	int n = 0, was;

	ck_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = DESCRIPTORS;
	ck_assert(!setrlimit(RLIMIT_NOFILE, &limit));
	do {
		for (was = n; n < DESCRIPTORS && (fill[n] = dup(STDERR_FILENO)) >= 0; n++)
			;
		poll(NULL, 0, 100);
	} while (n > was);
	return n;
}

static void *take(size_t size)
{
	if (__atomic_load_n(&take_after, __ATOMIC_RELAXED) >= 0 &&
	    !__atomic_fetch_sub(&take_after, 1, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&refusals, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	__atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
	return calloc(1, size);
}

static void give_back(void *p)
{
	__atomic_fetch_sub(&taken, 1, __ATOMIC_RELAXED);
	free(p);
}

static inline struct rshare_config config(const char *name, int n)
{
	struct rshare_config c;

	rshare_config_init(&c);
	c.name = name;
	c.port = (uint16_t)(port + n);
	c.connections = 256;
	c.depth = 8;
	c.pool = 4u << 20;
	c.remote = 1;
	c.receives = 64;
	c.repair = 2000;
	c.grants = 20;
	return c;
}

/* Run the owner of name_c, to be killed by a signal. */
static inline pid_t own(void)
{
	struct rshare_config x = config(name_c, 3);
	struct rshare *r;
	int fds[2];
	char ready;
	pid_t pid;

	ck_assert(!pipe(fds));
	pid = fork();
	if (!pid) {
		x.role = RSHARE_OWNER;
		if (rshare_open(NULL, &x, &r, NULL) || write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(fds[0], &ready, 1), 1);
	close(fds[0]);
	close(fds[1]);
	return pid;
}

static inline void begin(void)
{
	struct rshare_config c;

	rshare_set_allocator(take, give_back);
	fake_breaks = fake_count = 0;
	fake_down = 0;
	/* below the ports that the kernel assigns to clients */
	port = (uint16_t)(10000 + getpid() % 5000 * 4);
	snprintf(name_a, sizeof(name_a), "unit-a-%d", getpid());
	snprintf(name_b, sizeof(name_b), "unit-b-%d", getpid());
	snprintf(name_c, sizeof(name_c), "unit-c-%d", getpid());
	snprintf(node_b, sizeof(node_b), "127.0.0.1:%u", port + 1);
	c = config(name_a, 0);
	c.direct_post = 1; /* not in b */
	ck_assert_msg(!rshare_open(NULL, &c, &a, why), "%s", why);
	c = config(name_b, 1);
	ck_assert_msg(!rshare_open(NULL, &c, &b, why), "%s", why);
	ck_assert_int_eq(rshare_listen(b, 7, &echo), 0);
}

static inline void end(void)
{
	rshare_close(a);
	rshare_close(b);
	ck_assert_uint_eq(fake_live, 0);
	ck_assert_uint_eq(taken, 0);
}

static inline struct rshare_conn *accept_one(void)
{
	struct pollfd p = { .fd = rshare_listener_fd(echo), .events = POLLIN };
	struct rshare_conn *c = NULL;
	int i;

	for (i = 0; i < 200 && rshare_accept(echo, &c); i++)
		poll(&p, 1, 100);
	ck_assert(c);
	return c;
}

static inline void pair(struct rshare_conn **at_a, struct rshare_conn **at_b, unsigned int priority)
{
	ck_assert_int_eq(rshare_connect(a, node_b, 7, priority, 1, at_a), 0);
	*at_b = accept_one();
	unit_require(next(*at_a).type == RSHARE_CONNECTED && next(*at_b).type == RSHARE_CONNECTED);
}

static inline void set_fake(unsigned int breaks, int down)
{
	pthread_mutex_lock(&fake_lock);
	fake_breaks = breaks;
	fake_down = down;
	pthread_mutex_unlock(&fake_lock);
}

static inline struct rshare_info info_of(struct rshare *r)
{
	struct rshare_info info;

	ck_assert_int_eq(rshare_get_info(r, &info), 0);
	return info;
}

static inline struct sockaddr_un owner_at(const char *name)
{
	struct sockaddr_un un;

	ck_assert_msg(!rs_place_address(name, &un, why), "%s", why);
	return un;
}

/* Queue pair numbers that do not exist. */
#define NOWHERE                                         \
	{                                               \
		.qpn = { 0xfffff0, 0xfffff1 }, .mtu = 5 \
	}

/* A peer made by hand: it says hello as an owner until both are up, and then something else. */
static inline int liar(void)
{
	struct rs_hello hello = { .magic = RS_HELLO_MAGIC,
				  .version = RS_FRAME_VERSION,
				  .chunk = 16384,
				  .instance = 1,
				  .address = NOWHERE };
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)(port + 1)),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	hello.port = (uint16_t)(port + 3);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	ck_assert_int_eq(recv(fd, &hello, sizeof(hello), MSG_WAITALL), sizeof(hello));
	ck_assert_int_eq(hello.status, 0);
	ck_assert_int_eq(send(fd, "g", 1, 0), 1);
	return fd;
}

#endif

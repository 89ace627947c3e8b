// SPDX-License-Identifier: BSD-2-Clause
/*
 * attach.c - a process's attachment to the owner: settings, requests, the pool.
 *
 * A thread of a client waits for the end of the control socket: the kernel closes it however the
 * owner dies. It then marks the attachment dead and makes the fd of each connection readable.
 */
#include "share/attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "share/check.h"
#include "share/mem.h"
#include "share/owner.h"
#include "share/place.h"
#include "share/signal.h"
#include "share/why.h"

/* ---- settings ------------------------------------------------------------------------------- */

void rshare_config_init(struct rshare_config *config)
{
	*config = (struct rshare_config){ .size = sizeof(*config), .gid_index = -1 };
}

#define DEFAULT(field, value)               \
	do {                                \
		if (!c->field)              \
			c->field = (value); \
	} while (0)

static void set_defaults(struct rshare_config *c)
{
	DEFAULT(connections, 1024);
	DEFAULT(depth, 32);
	DEFAULT(pool, 16u << 20);
	DEFAULT(port, RSHARE_PORT);
	DEFAULT(ib_port, 1);
	/* with its header, whole packets of 4,096 bytes */
	DEFAULT(chunk, 16384 - sizeof(struct rs_frame));
	DEFAULT(window_strict, 131072);
	DEFAULT(window_weighted, 131072);
	DEFAULT(window_narrow,
		/* that of a write has the header's bytes */
		2 * (c->chunk + (uint32_t)sizeof(struct rs_frame)));
	DEFAULT(receives, 512);
	DEFAULT(peers, 64);
	DEFAULT(grants, 1024);
	DEFAULT(run_after, 8);
	DEFAULT(idle_after, 200);
	DEFAULT(repair, 15000);
	c->pool = (c->pool + RS_PAGE - 1) & ~(uint64_t)(RS_PAGE - 1);
}

static int client_config_check(const struct rshare_config *c, char *why)
{
	const char *bad = NULL;

	if (c->size != sizeof(*c))
		bad = "size is not that of struct rshare_config: call rshare_config_init()";
	else if (c->connections > RS_CONNS_MAX)
		bad = "connections is more than 65,536";
	else if (c->depth < 2 || c->depth > RS_DEPTH_MAX || c->depth & (c->depth - 1))
		bad = "depth is no power of two from 2 to 4,096";
	else if (c->chunk < 64 || c->chunk > 1u << 20)
		bad = "chunk is not between 64 bytes and 1 MiB";
	else if (c->receives < 16 || c->receives > 1u << 20)
		bad = "receives is not between 16 and 1,048,576";
	else if (c->repair > 3600000)
		bad = "repair is more than an hour";
	else if (c->peers > 4096)
		bad = "peers is more than 4,096";
	else if (c->grants > 65536)
		bad = "grants is more than 65,536";
	else if (c->pool > 1ull << 40)
		bad = "pool is more than 1 TiB";
	else if (c->role < RSHARE_ANY || c->role > RSHARE_CLIENT)
		bad = "role is none";
	else if (c->sl_strict > 15 || c->sl_weighted > 15)
		bad = "a service level is more than 15";
	if (!bad)
		return 0;
	snprintf(why, RSHARE_WHY_MAX, "%s", bad);
	return -EINVAL;
}

/* ---- requests ------------------------------------------------------------------------------- */

static void take_fds(struct msghdr *m, int fds[2])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	fds[0] = fds[1] = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

static int client_exchange(struct rshare *r, const struct rs_request *q, struct rs_answer *a,
			   int fds[2])
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { a, sizeof(*a) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	ssize_t n;
	int err, i;

	if (send(r->sock, q, sizeof(*q), MSG_NOSIGNAL) != sizeof(*q))
		return -ECONNRESET;
	do
		n = recvmsg(r->sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*a))
		return -ECONNRESET;
	take_fds(&m, fds);
	err = m.msg_flags & MSG_CTRUNC ? -EMFILE : rs_answer_check(q, a, r->layout.conns);
	for (i = 0; err && i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return err;
}

int rs_attach_request(struct rshare *r, struct rs_request *q, struct rs_answer *a)
{
	int none[2], err;

	pthread_mutex_lock(&r->lock);
	err = client_exchange(r, q, a, none);
	pthread_mutex_unlock(&r->lock);
	return err;
}

int rs_attach_signal(struct rshare_conn *c)
{
	const struct rs_request q = { .type = RS_FD, .index = c->index };
	struct rs_answer a;
	int fds[2], err = 0;

	pthread_mutex_lock(&c->r->lock);
	if (c->fd < 0) { /* no other thread has been faster */
		err = client_exchange(c->r, &q, &a, fds);
		if (!err)
			__atomic_store_n(&c->fd, fds[0], __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&c->r->lock);
	return err;
}

void rs_attach_enter(struct rshare *r, uint32_t index, struct rshare_conn *c)
{
	*c = (struct rshare_conn){
		.r = r, .index = index, .fd = -1, .seg = rs_seg_conn(&r->layout, r->base, index)
	};
	pthread_mutex_lock(&r->lock);
	r->conn[index] = c;
	pthread_mutex_unlock(&r->lock);
}

void rs_attach_leave(struct rshare_conn *c)
{
	pthread_mutex_lock(&c->r->lock);
	c->r->conn[c->index] = NULL;
	__atomic_store_n(&c->r->mark[c->index], NULL, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&c->r->lock);
	rs_signal_close(&c->fd);
}

/* ---- the owner's death ---------------------------------------------------------------------- */

void rs_attach_owner_died(struct rshare *r)
{
	uint32_t i;

	__atomic_store_n(&r->dead, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&r->lock);
	for (i = 0; i < r->layout.conns; i++)
		if (r->conn[i] && r->conn[i]->fd >= 0)
			rs_signal_end(r->conn[i]->fd);
	rs_signal_end(r->set);
	pthread_mutex_unlock(&r->lock);
}

static void *client_watch_run(void *arg)
{
	struct rshare *r = arg;
	struct pollfd p[2] = { { .fd = r->sock }, { .fd = r->stop, .events = POLLIN } };

	if (r->thread)
		r->thread(r->thread_arg);
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[0].revents)
		rs_attach_owner_died(r);
	return NULL;
}

static int client_watch_start(struct rshare *r, char *why)
{
	sigset_t all, old;
	int err;

	r->stop = eventfd(0, EFD_CLOEXEC);
	if (r->stop < 0)
		return rs_why(why, -errno, "a descriptor of this process");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&r->watcher, NULL, client_watch_run, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	r->watched = !err;
	return err ? rs_why(why, -err, "a thread of this process, which `ulimit -u` may forbid")
		   : 0;
}

/* ---- attaching ------------------------------------------------------------------------------ */

static int connect_control(struct rshare *r, const struct sockaddr_un *un)
{
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(who);

	r->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (r->sock < 0)
		return -errno;
	if (connect(r->sock, (const struct sockaddr *)un, sizeof(*un))) {
		close(r->sock);
		r->sock = -1;
		return -ECONNREFUSED;
	}
	if (getsockopt(r->sock, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != geteuid())
		return -EPERM;
	return 0;
}

static int client_attach(struct rshare *r, const struct rshare_config *c, char *why)
{
	struct rs_request q = { .type = RS_ATTACH,
				.version = RS_CONTROL_VERSION,
				.conns = c->connections,
				.depth_shift = (uint32_t)__builtin_ctz(c->depth),
				.pages = c->pool / RS_PAGE,
				.remote = c->remote != 0 };
	struct rs_answer a = { .status = 0 };
	int fds[2] = { -1, -1 }, err = client_exchange(r, &q, &a, fds);

	if (err) {
		a.why[RSHARE_WHY_MAX - 1] = 0;
		if (err == -ECONNRESET)
			snprintf(
				why, RSHARE_WHY_MAX,
				"the owner has ended, or refuses this process; its stderr says why");
		else if (a.why[0])
			snprintf(why, RSHARE_WHY_MAX, "%s", a.why);
		else
			rs_why(why, err, "descriptors from the owner, in this process");
		return err;
	}
	r->layout = a.layout;
	r->rkey = a.rkey;
	r->pieces = a.pieces;
	r->pool_address = a.pool_address;
	r->remote = c->remote != 0;
	r->set = fds[1];
	r->base = mmap(NULL, r->layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	close(fds[0]);
	r->conn = rs_zalloc(r->layout.conns, sizeof(*r->conn));
	r->mark = rs_zalloc(r->layout.conns, sizeof(*r->mark));
	if (r->base == MAP_FAILED)
		r->base = NULL;
	if (!r->base || !r->conn || !r->mark ||
	    rs_pool_init(&r->pool, (char *)r->base + r->layout.pool_offset, r->layout.pool_bytes))
		return rs_why(why, -ENOMEM, "%u connections and a pool of %llu bytes",
			      r->layout.conns, (unsigned long long)r->layout.pool_bytes);
	r->pool_ready = true;
	return r->owner ? 0 : client_watch_start(r, why);
}

/* Attach to the owner of that name, or become it. */
static int find_owner(struct rshare *r, const char *device, const char *name,
		      const struct rshare_config *c, char *why)
{
	struct sockaddr_un un;
	int err = rs_place_address(name, &un, why);

	if (err)
		return err;
	err = c->role == RSHARE_OWNER ? -ECONNREFUSED : connect_control(r, &un);
	if (err == -EPERM)
		snprintf(why, RSHARE_WHY_MAX, "the owner of %s is another user's", name);
	else if (err && err != -ECONNREFUSED)
		rs_why(why, err, "a socket to the owner %s", name);
	if (err != -ECONNREFUSED)
		return err;
	if (c->role == RSHARE_CLIENT) {
		snprintf(why, RSHARE_WHY_MAX, "there is no owner called %s: nobody listens at %s",
			 name, un.sun_path);
		return err;
	}
	err = rs_owner_start(device, name, c, &r->owner, why);
	if (err && c->role == RSHARE_ANY && !connect_control(r, &un))
		return 0; /* another process was faster */
	if (err)
		return err;
	err = connect_control(r, &un);
	return err ? rs_why(why, err, "a socket to the owner %s", name) : 0;
}

int rshare_open(const char *device, const struct rshare_config *config, struct rshare **out,
		char *why)
{
	char unused[RSHARE_WHY_MAX];
	struct rshare_config c;
	struct rshare *r;
	int err;

	why = why ? why : unused;
	why[0] = 0;
	if (config)
		c = *config;
	else
		rshare_config_init(&c);
	set_defaults(&c);
	err = client_config_check(&c, why);
	if (err)
		return err;
	r = rs_zalloc(1, sizeof(*r));
	if (!r)
		return rs_why(why, -ENOMEM, "an attachment");
	r->sock = r->stop = r->set = -1;
	r->thread = c.thread;
	r->thread_arg = c.arg;
	pthread_mutex_init(&r->lock, NULL);
	err = find_owner(r, device, c.name ? c.name : device ? device : "default", &c, why);
	if (!err)
		err = client_attach(r, &c, why);
	if (err) {
		if (!why[0])
			snprintf(why, RSHARE_WHY_MAX, "%s", strerror(-err));
		rshare_close(r);
		return err;
	}
	*out = r;
	return 0;
}

static void client_fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

void rshare_close(struct rshare *r)
{
	const uint64_t one = 1;
	uint32_t i;

	if (!r)
		return;
	if (r->watched && write(r->stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(r->watcher, NULL);
	for (i = 0; r->conn && i < r->layout.conns; i++)
		if (r->conn[i]) {
			rs_signal_close(&r->conn[i]->fd);
			rs_free(r->conn[i]);
		}
	client_fd_close(r->sock);
	client_fd_close(r->stop);
	rs_signal_close(&r->set);
	if (r->owner)
		rs_owner_stop(r->owner);
	if (r->pool_ready)
		rs_pool_exit(&r->pool);
	if (r->base)
		munmap(r->base, r->layout.bytes);
	rs_free(r->conn);
	rs_free(r->mark);
	pthread_mutex_destroy(&r->lock);
	rs_free(r);
}

/* ---- buffers -------------------------------------------------------------------------------- */

void *rshare_get(struct rshare *r, size_t size)
{
	return rs_pool_get(&r->pool, size);
}

void rshare_put(struct rshare *r, void *buffer)
{
	rs_pool_put(&r->pool, buffer);
}

int rshare_export(struct rshare *r, const void *buffer, size_t size, struct rshare_remote *out)
{
	const uint64_t offset = (uint64_t)((const char *)buffer - r->pool.base);

	if (!r->remote)
		return -EACCES;
	if (offset > r->layout.pool_bytes || size > r->layout.pool_bytes - offset ||
	    size > RSHARE_MESSAGE_MAX)
		return -EINVAL;
	*out = (struct rshare_remote){ r->pool_address + offset, r->rkey, (uint32_t)size };
	return 0;
}

int rshare_grant(struct rshare *r, const void *buffer, size_t size, unsigned int access,
		 struct rshare_remote *out)
{
	const uint64_t offset = (uint64_t)((const char *)buffer - r->pool.base);
	struct rs_request q = { .type = RS_GRANT,
				.service = (uint32_t)size,
				.pages = offset,
				.remote = (uint8_t)access };
	struct rs_answer a;
	int err;

	if (!size || size > RSHARE_MESSAGE_MAX || access > UINT8_MAX)
		return -EINVAL;
	err = rs_attach_request(r, &q, &a);
	if (!err)
		*out = (struct rshare_remote){ a.pool_address, a.rkey, (uint32_t)size };
	return err;
}

int rshare_revoke(struct rshare *r, const struct rshare_remote *granted)
{
	struct rs_request q = { .type = RS_REVOKE, .service = granted->rkey };
	struct rs_answer a;

	return rs_attach_request(r, &q, &a);
}

int rshare_get_info(struct rshare *r, struct rshare_info *out)
{
	struct rs_request q = { .type = RS_INFO };
	struct rs_answer a;
	int err = rs_attach_request(r, &q, &a);

	if (!err)
		*out = a.info;
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/* process.c - the processes of the node: their requests, segments and ends. The owner's thread. */
#include "share/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "share/check.h"
#include "share/conn.h"
#include "share/link.h"
#include "share/log.h"
#include "share/mem.h"
#include "share/signal.h"
#include "share/unasked.h"
#include "share/why.h"

/* ---- answers -------------------------------------------------------------------------------- */

/* Log a line about a process. */
static void process_log(const struct rs_process *p, int err, const char *what)
{
	char text[RSHARE_WHY_MAX], why[64];

	snprintf(why, sizeof(why), "process %d: %s", (int)p->pid, what);
	rs_why(text, err, "%s", why);
	if (err != -EPIPE && err != -ECONNRESET) /* it has ended by itself */
		rs_log_line(text);
}

/* Send with up to two descriptors. A process that does not read its answers is dropped. */
static void process_answer(struct rs_owner *o, struct rs_process *p, const struct rs_answer *a,
			   const int *fds, unsigned int nfds)
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { (void *)(uintptr_t)a, sizeof(*a) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (nfds) {
		m.msg_control = control.buf;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	if (sendmsg(p->source.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(*a)) {
		process_log(p, -errno,
			    errno == EAGAIN ? "dropped: it does not read its answers"
					    : "dropped: an answer cannot be sent");
		p->dead = true;
		o->reap = true;
	}
}

/* ---- attaching ------------------------------------------------------------------------------ */

/* Receive its descriptor. */
static int make_segment(const struct rs_layout *l)
{
	int fd = memfd_create("rshare", MFD_CLOEXEC | MFD_ALLOW_SEALING), err = 0;

	/* Sealed: the client cannot shrink what the owner reads. */
	if (fd < 0 || ftruncate(fd, (off_t)l->bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	return fd;
}

/* Free the first grant of a list. */
static void grant_free(struct rs_owner *o, struct rs_process *p, struct rs_grant **list)
{
	struct rs_grant *g = *list;

	*list = g->next;
	p->rs.ngrants--;
	o->dev.registered -= g->len;
	ibv_dereg_mr(g->mr);
	rs_free(g);
}

/* Free everything that a process has of the owner, even if attaching failed half-way. */
static void process_session_detach(struct rs_owner *o, struct rs_process *p)
{
	while (p->rs.grants)
		grant_free(o, p, &p->rs.grants);
	if (p->mr) {
		o->dev.registered -= p->rs.layout.pool_bytes;
		ibv_dereg_mr(p->mr);
	}
	rs_signal_close(&p->rs.fd);
	if (p->base)
		munmap(p->base, p->rs.layout.bytes);
	rs_client_exit(&p->rs);
	p->mr = NULL;
	p->base = NULL;
	p->attached = false;
}

static int register_pool(struct rs_owner *o, struct rs_process *p, int access, char *why)
{
	const struct rs_layout *l = &p->rs.layout;
	int err;

	p->mr = ibv_reg_mr(o->dev.pd, (char *)p->base + l->pool_offset, l->pool_bytes, access);
	if (!p->mr) {
		err = errno ? -errno : -ENOMEM;
		snprintf(
			why, RSHARE_WHY_MAX,
			"%s: a pool of %llu bytes cannot be registered: %s; raise `ulimit -l` of the owner (process %d)",
			o->dev.name, (unsigned long long)l->pool_bytes, strerror(-err),
			(int)getpid());
		return err;
	}
	o->dev.registered += l->pool_bytes;
	p->rs.lkey = p->mr->lkey;
	p->rs.rkey = p->mr->rkey;
	p->rs.remote = access & IBV_ACCESS_REMOTE_WRITE;
	return 0;
}

static int process_session_attach(struct rs_owner *o, struct rs_process *p,
				  const struct rs_request *r, struct rs_answer *a, int fds[2])
{
	const struct rs_layout l = rs_layout(r->conns, 1u << r->depth_shift, r->pages * RS_PAGE);
	int err, access = IBV_ACCESS_LOCAL_WRITE;

	fds[0] = make_segment(&l);
	if (fds[0] < 0)
		return rs_why(a->why, fds[0], "a segment of %llu bytes, in the owner (process %d)",
			      (unsigned long long)l.bytes, (int)getpid());
	p->rs.layout = l;
	p->base = mmap(NULL, l.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (p->base == MAP_FAILED)
		p->base = NULL;
	err = p->base ? rs_client_init(&p->rs, &o->hub, &l, p->base) : -ENOMEM;
	if (err)
		rs_why(a->why, err,
		       "%u connections and a pool of %llu bytes, in the owner (process %d)",
		       l.conns, (unsigned long long)l.pool_bytes, (int)getpid());
	if (r->remote)
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	if (!err)
		err = register_pool(o, p, access, a->why);
	if (!err) {
		err = rs_signal_make(&p->rs.fd, &fds[1]);
		if (err)
			rs_why(a->why, err, "descriptors of the owner (process %d)", (int)getpid());
	}
	if (err) {
		process_session_detach(o, p);
		return err;
	}
	p->attached = true;
	a->rkey = p->mr->rkey;
	a->pieces = o->hub.pieces;
	a->pool_address = (uintptr_t)p->base + l.pool_offset;
	a->layout = l;
	return 0;
}

/* ---- keys of single buffers ----------------------------------------------------------------- */

static int grant_access(uint8_t access)
{
	return IBV_ACCESS_LOCAL_WRITE | (access & RSHARE_ACCESS_READ ? IBV_ACCESS_REMOTE_READ : 0) |
		(access & RSHARE_ACCESS_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
}

/* The device opens these bytes only, and the owner for atomic operations. */
static int process_grant(struct rs_owner *o, struct rs_process *p, const struct rs_request *r,
			 struct rs_answer *a)
{
	const uint64_t pool = p->rs.layout.pool_bytes, offset = r->pages;
	char *at = (char *)p->base + p->rs.layout.pool_offset + offset;
	struct rs_grant *g;
	struct ibv_mr *mr;
	int err;

	if (!r->service || offset > pool || r->service > pool - offset)
		return -EINVAL;
	if (p->rs.ngrants >= o->config.grants)
		return -ENOSPC;
	g = rs_zalloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	mr = ibv_reg_mr(o->dev.pd, at, r->service, grant_access(r->remote));
	if (!mr) {
		err = errno ? -errno : -ENOMEM;
		rs_free(g);
		return err;
	}
	*g = (struct rs_grant){ .next = p->rs.grants,
				.mr = mr,
				.offset = offset,
				.len = r->service,
				.rkey = mr->rkey,
				.access = r->remote };
	p->rs.grants = g;
	p->rs.ngrants++;
	o->dev.registered += g->len;
	a->rkey = g->rkey;
	a->pool_address = (uintptr_t)at;
	return 0;
}

/* Mostly, it is registered memory that lacks. */
static void grant_log(const struct rs_process *p, int err)
{
	char text[RSHARE_WHY_MAX];

	if (err == -ENOSPC)
		snprintf(text, sizeof(text),
			 "process %d: a key for peers is refused: it has %u; raise `grants`",
			 (int)p->pid, p->rs.ngrants);
	else
		snprintf(
			text, sizeof(text),
			"process %d: a buffer cannot be registered for peers: %s; raise `ulimit -l` of the owner (process %d)",
			(int)p->pid, strerror(-err), (int)getpid());
	rs_log_line(text);
}

static int process_revoke(struct rs_owner *o, struct rs_process *p, uint32_t rkey)
{
	struct rs_grant **at = &p->rs.grants;

	while (*at && (*at)->rkey != rkey)
		at = &(*at)->next;
	if (!*at)
		return -ENOENT;
	grant_free(o, p, at);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

static struct rs_conn *find_conn(const struct rs_process *p, uint32_t index)
{
	struct rs_conn *c = rs_index_ok(index, p->rs.layout.conns) ? p->rs.conn[index] : NULL;

	return c && !c->released ? c : NULL;
}

static int do_connect(struct rs_owner *o, struct rs_process *p, const struct rs_request *r,
		      struct rs_answer *a)
{
	struct rs_link *l;
	struct rs_conn *c;
	int err;

	err = rs_link_get(o, &r->node, &l);
	if (err)
		return err;
	err = rs_conn_connect(&p->rs, &l->peer, r->service, r->priority, r->weight, &c);
	if (!err)
		a->index = c->index;
	else if (l->state == RS_LINK_CONNECTING && !l->peer.conns)
		rs_link_fail(o, l, err, NULL); /* no other process waits for it */
	return err;
}

static void do_stats(const struct rs_conn *c, struct rshare_stats *out)
{
	const struct rs_conn_stats *s = &c->stats;

	*out = (struct rshare_stats){ .messages_sent = s->messages_sent,
				      .bytes_sent = s->bytes_sent,
				      .messages_received = s->messages_received,
				      .bytes_received = s->bytes_received,
				      .chunks_sent = s->chunks_sent,
				      .chunks_received = s->chunks_received,
				      .stalls = s->stalls,
				      .writes = s->writes,
				      .bytes_written = s->bytes_written,
				      .reads = s->reads,
				      .bytes_read = s->bytes_read,
				      .atomics = s->atomics,
				      .written = s->written,
				      .fences = s->fences,
				      .outstanding = conn_pending(c) };
}

static void process_info(const struct rs_owner *o, struct rshare_info *out)
{
	const struct rs_hub_stats *h = &o->hub.stats;
	const struct rs_process *p;
	const struct rs_link *l;

	*out = (struct rshare_info){ .connections = o->hub.live,
				     .queue_pairs = o->dev.queue_pairs,
				     .registered = o->dev.registered,
				     .posts = h->posts,
				     .doorbells = o->dev.doorbells,
				     .completions = o->completions,
				     .wakeups = o->wakeups,
				     .signals = o->signals,
				     .unknown = h->unknown,
				     .malformed = h->malformed,
				     .forged = h->forged,
				     .repairs = o->repairs,
				     .resent = h->resent,
				     .chunk = o->config.chunk,
				     .pieces = o->hub.pieces };
	memcpy(out->address, o->address, sizeof(out->address));
	out->to_running = o->mode.changes[RS_INTERRUPTED][RS_RUNNING];
	out->to_blocked = o->mode.changes[RS_INTERRUPTED][RS_BLOCKED] +
		o->mode.changes[RS_RUNNING][RS_BLOCKED];
	for (p = o->processes; p; p = p->next)
		out->clients += p->attached && !p->dead;
	for (l = o->links; l; l = l->next)
		out->peers += l->state == RS_LINK_UP && !l->dead;
}

/* Requests that concern one connection. */
static int about_conn(struct rs_process *p, const struct rs_request *r, struct rs_answer *a,
		      int *fd)
{
	struct rs_conn *c = find_conn(p, r->index);

	if (!c)
		return -ENOENT;
	switch (r->type) {
	case RS_PRIORITY: rs_conn_priority(c, r->priority, r->weight); return 0;
	case RS_CLOSE: rs_conn_close(c); return 0;
	case RS_RELEASE: rs_conn_release(c); return 0;
	case RS_FD: return rs_signal_make(&c->fd, fd);
	case RS_JOIN: rs_conn_join(c); return 0;
	case RS_STATS: do_stats(c, &a->stats); return 0;
	}
	return -EINVAL;
}

/* Is the request allowed? */
static int obey(struct rs_owner *o, struct rs_process *p, const struct rs_request *r,
		struct rs_answer *a, int fds[2])
{
	struct rs_conn *c;
	int err;

	switch (r->type) {
	case RS_ATTACH: return process_session_attach(o, p, r, a, fds);
	case RS_LISTEN:
		err = rs_conn_listen(&p->rs, r->service, &c);
		a->index = err ? 0 : c->index;
		return err;
	case RS_CONNECT: return do_connect(o, p, r, a);
	case RS_INFO: process_info(o, &a->info); return 0;
	case RS_GRANT: return process_grant(o, p, r, a);
	case RS_REVOKE: return process_revoke(o, p, r->service);
	default: return about_conn(p, r, a, &fds[0]);
	}
}

/*
 * Log the lack of memory, descriptors or keys for requests once, until there are some again. An
 * attaching process gets the message itself.
 */
static void process_complain(struct rs_process *p, uint32_t type, int status)
{
	const bool lacks = rs_owner_refused(status);

	if (type != RS_LISTEN && type != RS_CONNECT && type != RS_FD && type != RS_GRANT)
		return;
	if (type == RS_GRANT && status == -ENOSPC) {
		/* it can have one more at any time, by giving one back */
		if (!p->full)
			grant_log(p, status);
		p->full = true;
		return;
	}
	if (lacks && p->refused != status) {
		if (type == RS_GRANT)
			grant_log(p, status);
		else
			process_log(p, status,
				    type == RS_FD ? "an fd is refused" : "a connection is refused");
	}
	if (!status || lacks)
		p->refused = status;
}

static void process_serve(struct rs_owner *o, struct rs_process *p, const struct rs_request *r)
{
	struct rs_answer a = { .status =
				       rs_request_check(r, p->attached ? p->rs.layout.conns : 0) };
	int fds[2] = { -1, -1 };
	unsigned int i;

	if (!a.status)
		a.status = obey(o, p, r, &a, fds);
	else if (a.status == -EPROTO)
		snprintf(a.why, sizeof(a.why), "the owner is of another version");
	process_complain(p, r->type, a.status);
	process_answer(o, p, &a, fds, a.status ? 0 : (fds[0] >= 0) + (fds[1] >= 0));
	for (i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void on_request(struct rs_owner *o, struct rs_source *s, uint32_t events)
{
	struct rs_process *p = (struct rs_process *)s;
	struct rs_request r;
	unsigned int n;

	(void)events;
	for (n = 0; n < 16 && !p->dead; n++) {
		const ssize_t got = rs_unasked_receive(s->fd, &r, sizeof(r), o->refuses);

		if (got == 1 || got == -EAGAIN || got == -EINTR)
			/*
			 * a doorbell; the next round looks at the rings, and epoll reports what
			 * else there is
			 */
			return;
		if (got == -EBADMSG)
			process_log(p, (int)got, "dropped: it sends descriptors");
		if (got != sizeof(r)) {
			p->dead = true;
			o->reap = true;
			return;
		}
		process_serve(o, p, &r);
	}
}

/* ---- coming and going ------------------------------------------------------------------------ */

void rs_process_accept(struct rs_owner *o, struct rs_source *s, uint32_t events)
{
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(who);
	struct rs_process *p;
	int err, fd = rs_owner_accept(o, s, NULL, NULL);

	(void)events;
	if (fd < 0)
		return;
	p = rs_zalloc(1, sizeof(*p));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.uid != geteuid())
		goto refuse;
	err = p ? 0 : -ENOMEM;
	if (!err) {
		*p = (struct rs_process){ .source = { .fd = fd, .ready = on_request },
					  .rs.fd = -1,
					  .pid = who.pid };
		err = rs_owner_watch(o, &p->source, EPOLLIN);
	}
	if (err) {
		process_log(&(struct rs_process){ .pid = who.pid }, err, "refused");
		goto refuse;
	}
	p->next = o->processes;
	o->processes = p;
	return;
refuse:
	rs_free(p);
	rs_unasked_close(fd, o->refuses);
}

static void hang_up(struct rs_owner *o, struct rs_process *p)
{
	if (p->source.fd < 0)
		return;
	epoll_ctl(o->epoll, EPOLL_CTL_DEL, p->source.fd, NULL);
	rs_unasked_close(p->source.fd, o->refuses);
	p->source.fd = -1;
}

static void process_free(struct rs_owner *o, struct rs_process *p)
{
	process_session_detach(o, p);
	rs_free(p);
}

void rs_process_reap(struct rs_owner *o, bool all)
{
	struct rs_process **at = &o->processes, *p;

	while ((p = *at)) {
		if (p->dead || all) {
			hang_up(o, p);
			if (p->attached)
				rs_client_gone(&p->rs);
			/* The wire may still read its pool: check again later. */
			if (!p->attached || rs_client_idle(&p->rs)) {
				*at = p->next;
				process_free(o, p);
				continue;
			}
			o->reap = true;
		}
		at = &p->next;
	}
}

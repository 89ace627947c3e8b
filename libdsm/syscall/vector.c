// SPDX-License-Identifier: BSD-2-Clause
/*
 * vector.c - calls with buffers behind pointers in structures: readv(2) and similar calls, messages
 * of sockets. Each buffer that may be elsewhere has one private copy for the whole call, because
 * the transfer must not be divided.
 */
#include "wrap.h"

#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "caller.h"
#include "owner.h"
#include "row.h"
#include "scratch.h"

static bool iov_is_away(const struct iovec *v, int n)
{
	int i;

	if (is_away(v))
		return true;
	for (i = 0; i < n && i < IOV_MAX; i++)
		if (is_away(v[i].iov_base))
			return true;
	return false;
}

/* Make private copies of n entries and of their buffers; in: with the contents. NULL: errno. */
static struct iovec *iov_get(struct scratch *s, const struct iovec *v, size_t n, bool in)
{
	struct iovec *out = scratch_get(s, n * sizeof(*out), NULL);
	size_t i;

	for (i = 0; out && i < n; i++) {
		out[i] = v[i];
		if (!v[i].iov_len || !scratch_misses(s, v[i].iov_base))
			continue;
		out[i].iov_base = in ? scratch_copy(s, v[i].iov_len, v[i].iov_base)
				     : scratch_get(s, v[i].iov_len, v[i].iov_base);
		if (!out[i].iov_base)
			return NULL;
	}
	return out;
}

/* Copy the first `bytes` received from the copies to their buffers. */
static void iov_put(const struct iovec *to, const struct iovec *from, size_t n, ssize_t bytes)
{
	size_t i, left = bytes > 0 ? (size_t)bytes : 0;

	for (i = 0; i < n && left; i++) {
		const size_t len = left < from[i].iov_len ? left : from[i].iov_len;

		if (to[i].iov_base != from[i].iov_base)
			memcpy(to[i].iov_base, from[i].iov_base, len);
		left -= len;
	}
}

/*
 * EBADF: the descriptor is libdsm's, or this is a child of vfork(2), which has not the program's.
 */
static bool is_not_for(int fd, const void *caller, const char *call)
{
	if (files == FILES_ABROAD)
		return caller_is_abroad(caller) && caller_is_child(call);
	if (!caller_may_not(fd, caller))
		return false;
	errno = EBADF;
	return true;
}

/* ---- readv(2) and its like ------------------------------------------------------------------- */

enum vector_call { READV, PREADV, PREADV2, WRITEV, PWRITEV, PWRITEV2 };

struct vector {
	enum vector_call what;
	bool abroad; /* rank 0 makes the call */
	int fd, n, flags;
	const struct iovec *v;
	off_t off;
	ssize_t result;
};

static ssize_t vector_abroad(const struct vector *c, const struct iovec *v)
{
	static const struct {
		void *fn;
	} by_name[] = {
		[READV] = { (void *)readv },     [PREADV] = { (void *)preadv },
		[PREADV2] = { (void *)preadv2 }, [WRITEV] = { (void *)writev },
		[PWRITEV] = { (void *)pwritev }, [PWRITEV2] = { (void *)pwritev2 },
	};
	const long word[OWNER_WORDS] = { c->fd, (long)v, c->n, c->off, c->flags };

	return owner_call(by_name[c->what].fn, word, OWNER_WAITS);
}

static ssize_t vector_next(const struct vector *c, const struct iovec *v)
{
	if (c->abroad)
		return vector_abroad(c, v);
	switch (c->what) {
	case READV: return NEXT(readv)(c->fd, v, c->n);
	case PREADV: return NEXT(preadv)(c->fd, v, c->n, c->off);
	case PREADV2: return NEXT(preadv2)(c->fd, v, c->n, c->off, c->flags);
	case WRITEV: return NEXT(writev)(c->fd, v, c->n);
	case PWRITEV: return NEXT(pwritev)(c->fd, v, c->n, c->off);
	case PWRITEV2: break;
	}
	return NEXT(pwritev2)(c->fd, v, c->n, c->off, c->flags);
}

static void vector_run(void *arg)
{
	struct vector *out = arg, c = *out;
	struct iovec *v;
	struct scratch s;

	SCRATCH_BEGIN(s);
	s.shared = c.abroad;
	c.result = -1;
	v = iov_get(&s, c.v, (size_t)c.n, c.what >= WRITEV);
	if (v) {
		c.result = vector_next(&c, v);
		if (c.what < WRITEV)
			iov_put(c.v, v, (size_t)c.n, c.result);
	}
	SCRATCH_END();
	out->result = c.result;
}

static ssize_t vector(struct vector c, const void *caller)
{
	if (files && is_not_for(c.fd, caller, c.what < WRITEV ? "readv" : "writev"))
		return -1;
	c.abroad = is_abroad(caller);
	if (c.abroad && c.n >= 0 && c.n <= IOV_MAX && (c.v || !c.n)) {
		dsm_call(vector_run, &c);
		return c.result;
	}
	if (c.n <= 0 || c.n > IOV_MAX || !c.v || !iov_is_away(c.v, c.n))
		return vector_next(&c, c.v);
	dsm_call(vector_run, &c);
	return c.result;
}

EXPORT ssize_t readv(int fd, const struct iovec *v, int n)
{
	return vector((struct vector){ .what = READV, .fd = fd, .v = v, .n = n }, CALLER);
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	return vector((struct vector){ .what = WRITEV, .fd = fd, .v = v, .n = n }, CALLER);
}

EXPORT ssize_t preadv(int fd, const struct iovec *v, int n, off_t off)
{
	return vector((struct vector){ .what = PREADV, .fd = fd, .v = v, .n = n, .off = off },
		      CALLER);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *v, int n, off_t off)
{
	return vector((struct vector){ .what = PWRITEV, .fd = fd, .v = v, .n = n, .off = off },
		      CALLER);
}

EXPORT ssize_t preadv2(int fd, const struct iovec *v, int n, off_t off, int flags)
{
	return vector(
		(struct vector){
			.what = PREADV2, .fd = fd, .v = v, .n = n, .off = off, .flags = flags },
		CALLER);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t off, int flags)
{
	return vector(
		(struct vector){
			.what = PWRITEV2, .fd = fd, .v = v, .n = n, .off = off, .flags = flags },
		CALLER);
}

/* ---- messages of sockets --------------------------------------------------------------------- */

static bool msg_is_away(const struct msghdr *m)
{
	return is_away(m) || is_away(m->msg_name) || is_away(m->msg_control) ||
		(m->msg_iov &&
		 iov_is_away(m->msg_iov, m->msg_iovlen < IOV_MAX ? (int)m->msg_iovlen : IOV_MAX));
}

/* Make a private header with private buffers; send: with their contents. False: errno. */
static bool msg_get(struct scratch *s, const struct msghdr *m, struct msghdr *out, bool send)
{
	*out = *m;
	if (out->msg_iovlen > IOV_MAX) {
		errno = EMSGSIZE;
		return false;
	}
	if (out->msg_iovlen && !(out->msg_iov = iov_get(s, m->msg_iov, m->msg_iovlen, send)))
		return false;
	if (scratch_misses(s, m->msg_name) &&
	    !(out->msg_name = send ? scratch_copy(s, m->msg_namelen, m->msg_name)
				   : scratch_get(s, m->msg_namelen, m->msg_name)))
		return false;
	return !scratch_misses(s, m->msg_control) ||
		(out->msg_control = send ? scratch_copy(s, m->msg_controllen, m->msg_control)
					 : scratch_get(s, m->msg_controllen, m->msg_control));
}

/* `bytes` were received. */
static void msg_put(struct msghdr *m, const struct msghdr *from, ssize_t bytes)
{
	iov_put(m->msg_iov, from->msg_iov, from->msg_iovlen, bytes);
	if (m->msg_name && m->msg_name != from->msg_name)
		memcpy(m->msg_name, from->msg_name, size_least(m->msg_namelen, from->msg_namelen));
	if (m->msg_control && m->msg_control != from->msg_control)
		memcpy(m->msg_control, from->msg_control,
		       size_least(m->msg_controllen, from->msg_controllen));
	m->msg_namelen = from->msg_namelen;
	m->msg_controllen = from->msg_controllen;
	m->msg_flags = from->msg_flags;
}

struct message {
	int fd, flags;
	bool send, abroad;
	struct msghdr *m;
	ssize_t result;
};

static ssize_t message_next(const struct message *c, struct msghdr *m)
{
	const long word[OWNER_WORDS] = { c->fd, (long)m, c->flags };

	if (c->abroad)
		return owner_call(c->send ? (void *)sendmsg : (void *)recvmsg, word, OWNER_WAITS);
	return c->send ? NEXT(sendmsg)(c->fd, m, c->flags) : NEXT(recvmsg)(c->fd, m, c->flags);
}

static void message_run(void *arg)
{
	struct message *out = arg, c = *out;
	struct msghdr own;
	struct scratch s;

	SCRATCH_BEGIN(s);
	s.shared = c.abroad;
	c.result = -1;
	struct msghdr *const m = c.abroad ? scratch_get(&s, sizeof(*m), NULL) : &own;
	if (m && msg_get(&s, c.m, m, c.send)) {
		c.result = message_next(&c, m);
		if (!c.send && c.result >= 0)
			msg_put(c.m, m, c.result);
	}
	SCRATCH_END();
	out->result = c.result;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	struct message c = { .fd = fd, .flags = flags, .m = m, .abroad = is_abroad(CALLER) };

	if (files && is_not_for(fd, CALLER, "recvmsg"))
		return -1;
	if (!c.abroad && (!m || !msg_is_away(m)))
		return NEXT(recvmsg)(fd, m, flags);
	dsm_call(message_run, &c);
	return c.result;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct message c = { .fd = fd,
			     .flags = flags,
			     .send = true,
			     .m = (struct msghdr *)(uintptr_t)m,
			     .abroad = is_abroad(CALLER) };

	if (files && is_not_for(fd, CALLER, "sendmsg"))
		return -1;
	if (!c.abroad && (!m || !msg_is_away(m)))
		return NEXT(sendmsg)(fd, m, flags);
	dsm_call(message_run, &c);
	return c.result;
}

struct messages {
	int fd, flags;
	bool send, abroad;
	struct mmsghdr *m;
	unsigned int n;
	struct timespec *timeout;
	int result;
};

static int messages_next(const struct messages *c, struct mmsghdr *m, struct timespec *timeout)
{
	const long word[OWNER_WORDS] = { c->fd, (long)m, c->n, c->flags, (long)timeout };

	if (c->abroad)
		return (int)owner_call(c->send ? (void *)sendmmsg : (void *)recvmmsg, word,
				       OWNER_WAITS);
	return c->send ? NEXT(sendmmsg)(c->fd, m, c->n, c->flags)
		       : NEXT(recvmmsg)(c->fd, m, c->n, c->flags, timeout);
}

static void messages_run(void *arg)
{
	struct messages *out = arg, c = *out;
	struct timespec own = c.timeout ? *c.timeout : (struct timespec){ 0 };
	struct mmsghdr *m;
	struct scratch s;
	unsigned int i;
	int j;

	SCRATCH_BEGIN(s);
	s.shared = c.abroad;
	struct timespec *const timeout = !c.timeout ? NULL
		: c.abroad                          ? scratch_copy(&s, sizeof(own), &own)
						    : &own;
	c.n = c.n < IOV_MAX ? c.n : IOV_MAX; /* as the kernel does */
	c.result = -1;
	m = scratch_get(&s, c.n * sizeof(*m), NULL);
	for (i = 0; m && i < c.n; i++) {
		m[i] = (struct mmsghdr){ 0 };
		if (!msg_get(&s, &c.m[i].msg_hdr, &m[i].msg_hdr, c.send))
			goto out;
	}
	if (!m)
		goto out;
	c.result = messages_next(&c, m, timeout);
	for (j = 0; j < c.result; j++) {
		if (!c.send)
			msg_put(&c.m[j].msg_hdr, &m[j].msg_hdr, (ssize_t)m[j].msg_len);
		c.m[j].msg_len = m[j].msg_len;
	}
	if (timeout && c.result >= 0)
		*c.timeout = *timeout;
out:
	SCRATCH_END();
	out->result = c.result;
}

static bool messages_are_away(const struct mmsghdr *m, unsigned int n)
{
	unsigned int i;

	for (i = 0; m && i < n && i < IOV_MAX; i++)
		if (msg_is_away(&m[i].msg_hdr))
			return true;
	return false;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags, struct timespec *timeout)
{
	struct messages c = { .fd = fd,
			      .flags = flags,
			      .m = m,
			      .n = n,
			      .timeout = timeout,
			      .abroad = is_abroad(CALLER) };

	if (files && is_not_for(fd, CALLER, "recvmmsg"))
		return -1;
	if (!c.abroad && !messages_are_away(m, n) && !is_away(timeout))
		return NEXT(recvmmsg)(fd, m, n, flags, timeout);
	dsm_call(messages_run, &c);
	return c.result;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags)
{
	struct messages c = {
		.fd = fd, .flags = flags, .send = true, .m = m, .n = n, .abroad = is_abroad(CALLER)
	};

	if (files && is_not_for(fd, CALLER, "sendmmsg"))
		return -1;
	if (!c.abroad && !messages_are_away(m, n))
		return NEXT(sendmmsg)(fd, m, n, flags);
	dsm_call(messages_run, &c);
	return c.result;
}

/* ---- seven arguments ------------------------------------------------------------------------- */

extern void __chk_fail(void) __attribute__((noreturn));
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags, struct sockaddr *addr,
		       socklen_t *len);

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags,
			      struct sockaddr *addr, socklen_t *len)
{
	if (n > size)
		__chk_fail();
	return dsm_files_is_runtime(CALLER) ? NEXT(recvfrom)(fd, buf, n, flags, addr, len)
					    : recvfrom(fd, buf, n, flags, addr, len);
}

#define SAME(name64, result, name, ...) \
	EXPORT result name64(__VA_ARGS__) __attribute__((alias(#name)));
SAME(preadv64, ssize_t, preadv, int, const struct iovec *, int, off_t)
SAME(pwritev64, ssize_t, pwritev, int, const struct iovec *, int, off_t)
SAME(preadv64v2, ssize_t, preadv2, int, const struct iovec *, int, off_t, int)
SAME(pwritev64v2, ssize_t, pwritev2, int, const struct iovec *, int, off_t, int)

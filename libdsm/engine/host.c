// SPDX-License-Identifier: BSD-2-Clause
/*
 * host.c - the memory objects of this rank, and how the ranks of one host come to share theirs.
 *
 * Each rank listens on an abstract socket named after its process; every pair meets once and swaps descriptors:
 * control segment, frames, userfaultfd, doorbell. Abstract names and memfds leave nothing behind, however a rank dies.
 * Only processes of the same user that know the job's key are answered.
 */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/futex.h"
#include "util/log.h"

#define NFDS 4
#define EXCHANGE_MS 60000
#define CALLERS 256 /* that have connected and said nothing yet */

struct hello {
	uint64_t magic, key;
	uint32_t rank;
	int32_t pid;
	int32_t has_uffd;
	int32_t pad;
};

static int listener = -1;

static int no_descriptors(const char *what)
{
	int err = -errno;

	log_line("%s: %s%s", what, dsm_strerror(err),
		 err == -EMFILE ? " (each rank of a host needs about 6 descriptors for each other; raise `ulimit -n`)" : "");
	return err;
}

static void point(struct peer *p, char *at)
{
	const struct ctl_layout *l = &job.layout;

	p->ctl = (struct ctl *)at;
	p->bars = (struct bar *)(at + l->bars);
	p->nodes = (struct qnode *)(at + l->nodes);
	p->pages = (struct copy *)(at + l->pages);
	p->dirs = (struct dir *)(at + l->dirs);
	p->moves = (uint32_t *)(at + l->moves);
	p->stage = at + l->stage;
	p->heap = (struct heap_shared *)(at + l->heap);
}

static int map_ctl(struct peer *p)
{
	char *at = mmap(NULL, job.layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, p->ctlfd, 0);

	if (at == MAP_FAILED) {
		log_line("cannot map %zu MiB of control memory: %s (a smaller DSM_SPACE needs less)", job.layout.total >> 20,
			 dsm_strerror(errno));
		return -ENOMEM;
	}
	madvise(at, job.layout.total, MADV_DONTFORK);
	point(p, at);
	return 0;
}

static int make_memory(const char *name, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		return no_descriptors("cannot make shared memory");
	if (ftruncate(fd, (off_t)size)) {
		int err = no_descriptors("cannot size shared memory");

		close(fd);
		return err;
	}
	return fd;
}

static void address(struct sockaddr_un *sa, socklen_t *len, uint16_t rank)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "libdsm-%u-%d-%u", geteuid(), peer_of(rank)->pid, rank);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(sa->sun_path + 1));
}

int host_start(void)
{
	struct peer *p = peer_of(job.rank);
	int err;

	p->ctlfd = make_memory("libdsm-control", job.layout.total);
	if (p->ctlfd < 0)
		return p->ctlfd;
	p->frames.memfd = make_memory("libdsm-frames", job.set.space);
	if (p->frames.memfd < 0)
		return p->frames.memfd;
	p->frames.self = true;
	p->frames.uffd = -1;
	p->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->doorbell < 0)
		return no_descriptors("cannot make an eventfd");
	err = map_ctl(p);
	if (err)
		return err;
	job.me = p->ctl;
	job.me->magic = CTL_MAGIC;
	job.me->abi = CTL_ABI;
	job.me->rank = job.rank;
	job.me->size = job.size;
	job.me->pid = getpid();
	job.me->object_used[0] = 1; /* object 0 is none */
	return 0;
}

int host_listen(void)
{
	struct sockaddr_un sa;
	socklen_t len;

	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return no_descriptors("cannot make a socket");
	address(&sa, &len, job.rank);
	if (bind(listener, (struct sockaddr *)&sa, len) || listen(listener, 1024))
		return no_descriptors("cannot listen for the ranks of this host");
	return 0;
}

static int send_fds(int s)
{
	struct peer *p = peer_of(job.rank);
	int fds[NFDS] = { p->ctlfd, p->frames.memfd, p->doorbell, p->frames.uffd };
	int n = p->frames.uffd >= 0 ? NFDS : NFDS - 1;
	struct hello h = { CTL_MAGIC, job.key, job.rank, getpid(), p->frames.uffd >= 0, 0 };
	union { char buf[CMSG_SPACE(sizeof(fds))]; struct cmsghdr align; } c;
	struct iovec io = { &h, sizeof(h) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = c.buf, .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int)) };
	struct cmsghdr *cm;

	memset(&c, 0, sizeof(c));
	cm = CMSG_FIRSTHDR(&m);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(cm), fds, (size_t)n * sizeof(int));
	return sendmsg(s, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* On the other side of the socket. */
static bool same_user(int s)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return !getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.uid == geteuid();
}

/* Take what a rank has sent; on failure the descriptors stay the caller's. */
static int adopt(const struct hello *h, const int *fds, int n)
{
	struct peer *p;
	int err;

	if (h->rank >= job.size || n < NFDS - 1)
		return -EPROTO;
	p = peer_of((uint16_t)h->rank);
	if (p->ctl)
		return -EPROTO;
	p->ctlfd = fds[0];
	err = host_watch((uint16_t)h->rank);
	if (!err)
		err = map_ctl(p);
	if (err) {
		p->ctlfd = -1;
		return err;
	}
	p->frames.memfd = fds[1];
	p->doorbell = fds[2];
	p->frames.uffd = n == NFDS ? fds[3] : -1;
	return 0;
}

static int receive_fds(int s)
{
	int fds[NFDS] = { -1, -1, -1, -1 }, n = 0;
	struct hello h;
	union { char buf[CMSG_SPACE(sizeof(fds))]; struct cmsghdr align; } c;
	struct iovec io = { &h, sizeof(h) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = c.buf, .msg_controllen = sizeof(c.buf) };
	struct pollfd pfd = { .fd = s, .events = POLLIN };
	struct cmsghdr *cm;
	ssize_t got;
	int err;

	if (!same_user(s))
		return -EPERM;
	if (poll(&pfd, 1, EXCHANGE_MS) != 1)
		return -ETIMEDOUT;
	got = recvmsg(s, &m, MSG_CMSG_CLOEXEC);
	cm = got > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (cm && cm->cmsg_type == SCM_RIGHTS) {
		n = (int)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cm), (size_t)n * sizeof(int));
	}
	if (got != sizeof(h) || h.magic != CTL_MAGIC || h.key != job.key) {
		err = -EPROTO;
	} else if (m.msg_flags & MSG_CTRUNC) {
		errno = EMFILE;
		err = no_descriptors("cannot take the memory of a rank of this host");
	} else {
		err = adopt(&h, fds, n);
	}
	while (err && n-- > 0)
		close(fds[n]);
	return err;
}

static int meet(uint16_t rank)
{
	struct sockaddr_un sa;
	socklen_t len;
	int err, s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (s < 0)
		return no_descriptors("cannot make a socket");
	address(&sa, &len, rank);
	err = connect(s, (struct sockaddr *)&sa, len) ? -errno : 0;
	if (!err && !same_user(s))
		err = -EPERM;
	if (!err)
		err = send_fds(s);
	if (!err)
		err = receive_fds(s);
	close(s);
	return err;
}

/* One that has connected, and may be a stranger: who it is comes first. 1: a rank, answered. */
static int answer(int s)
{
	int err = receive_fds(s);

	if (!err)
		err = send_fds(s);
	if (err == -EPERM || err == -EPROTO) /* a stranger: not answered, and not counted */
		return 0;
	return err ? err : 1;
}

/* Answer as many ranks as will call. Strangers may call too, and then say nothing. */
static int answer_all(int ranks)
{
	struct pollfd waiting[1 + CALLERS] = { { .fd = listener, .events = POLLIN } };
	uint64_t until = clock_ns() + EXCHANGE_MS * 1000000ull;
	int n = 1, i, err = 0;

	while (!err && ranks) {
		if (clock_ns() > until)
			err = -ETIMEDOUT;
		else if (poll(waiting, (nfds_t)n, 1000) < 0 && errno != EINTR)
			err = -errno;
		for (i = n - 1; i > 0 && !err; i--) {
			if (!waiting[i].revents)
				continue;
			err = answer(waiting[i].fd);
			if (err > 0)
				ranks--;
			err = err < 0 ? err : 0;
			close(waiting[i].fd);
			waiting[i] = waiting[--n];
		}
		if (err || !(waiting[0].revents & POLLIN))
			continue;
		if (n == 1 + CALLERS) /* the oldest has been silent for longest */
			close(waiting[1].fd);
		i = n == 1 + CALLERS ? 1 : n++;
		waiting[i] = (struct pollfd){ .fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), .events = POLLIN };
		if (waiting[i].fd < 0)
			err = no_descriptors("cannot accept a rank of this host");
	}
	while (--n > 0)
		if (waiting[n].fd >= 0)
			close(waiting[n].fd);
	return err;
}

int host_watch(uint16_t rank)
{
	struct peer *p = peer_of(rank);

	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd < 0 && errno == ESRCH) {
		log_line("rank %d has ended before the job began", rank);
		return -EPROTO;
	}
	return p->pidfd < 0 && errno != ENOSYS ? no_descriptors("cannot watch a rank of this host") : 0;
}

/* Lower ranks are called, higher ranks call; everybody calls before answering, so nobody waits in a circle. */
int host_exchange(void)
{
	int host = peer_of(job.rank)->host, higher = 0, err = 0;
	uint16_t r;

	for (r = 0; r < job.size && !err; r++) {
		if (r == job.rank || peer_of(r)->host != host)
			continue;
		if (r < job.rank)
			err = meet(r);
		else
			higher++;
	}
	if (!err)
		err = answer_all(higher);
	close(listener);
	listener = -1;
	if (err)
		log_line("the ranks of this host cannot share memory: %s (DSM_SHORTCUT=off does without)", dsm_strerror(err));
	return err;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void host_stop(void)
{
	uint16_t r;

	close_fd(&listener);
	for (r = 0; job.peers && r < job.size; r++) {
		struct peer *p = peer_of(r);

		if (p->ctl)
			munmap(p->ctl, job.layout.total);
		p->ctl = NULL;
		close_fd(&p->ctlfd);
		close_fd(&p->frames.memfd);
		close_fd(&p->frames.uffd);
		close_fd(&p->doorbell);
		close_fd(&p->pidfd);
	}
	job.me = NULL;
}

/* Of an array in a rank's control segment: the first element at or after i that lies in memory; end if none. Looking at
 * the others would allocate them. */
static size_t next_used(uint16_t rank, size_t array, size_t each, size_t i, size_t end)
{
	off_t at = (off_t)(array + i * each), data;

	if (i >= end)
		return end;
	if ((size_t)at % PAGE_BYTES >= each)
		return i; /* the element before it shares its page */
	data = lseek(peer_of(rank)->ctlfd, at, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		return end;
	if (data <= at)
		return i;
	i = ((size_t)data - array) / each;
	return i < end ? i : end;
}

size_t host_next_used(size_t off, size_t end)
{
	return next_used(job.rank, job.layout.pages, sizeof(struct copy), off >> PAGE_SHIFT, end >> PAGE_SHIFT) << PAGE_SHIFT;
}

bool host_quiet(uint16_t rank, size_t off, size_t end)
{
	const struct peer *p = peer_of(rank);
	size_t first = off >> PAGE_SHIFT, last = end >> PAGE_SHIFT, i;

	for (i = next_used(rank, job.layout.pages, sizeof(struct copy), first, last); i < last;
	     i = next_used(rank, job.layout.pages, sizeof(struct copy), i + 1, last)) {
		uint8_t state = __atomic_load_n(&p->pages[i].state, __ATOMIC_ACQUIRE);

		if (state != PG_INVALID && state != PG_READ && state != PG_WRITE)
			return false;
	}
	for (i = next_used(rank, job.layout.dirs, sizeof(struct dir), first, last); i < last;
	     i = next_used(rank, job.layout.dirs, sizeof(struct dir), i + 1, last))
		if (p->dirs[i].phase != DIR_IDLE)
			return false;
	return true;
}

static void clear(struct peer *p, size_t at, size_t bytes)
{
	size_t first = (at + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1), last = (at + bytes) & ~(PAGE_BYTES - 1);
	char *base = (char *)p->ctl;

	if (first >= last) {
		memset(base + at, 0, bytes);
		return;
	}
	memset(base + at, 0, first - at);
	memset(base + last, 0, at + bytes - last);
	if (fallocate(p->ctlfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(last - first)))
		memset(base + first, 0, last - first);
}

void host_forget(uint16_t rank, size_t off, size_t bytes)
{
	struct peer *p = peer_of(rank);
	size_t from = off >> PAGE_SHIFT, n = bytes >> PAGE_SHIFT;

	clear(p, job.layout.pages + from * sizeof(struct copy), n * sizeof(struct copy));
	clear(p, job.layout.dirs + from * sizeof(struct dir), n * sizeof(struct dir));
	clear(p, job.layout.moves + from * sizeof(uint32_t), n * sizeof(uint32_t));
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * rendezvous.c - how the ranks of one machine connect.
 *
 * Each rank listens on an abstract socket; every pair meets once. Its name ends with random numbers
 * that the launcher passes on, so that no other user can take it first. Ranks that share memory
 * exchange
 * doorbells, and the first rank of a node hands its memory to the others: control segment and
 * frames. The socket stays open as the pair's life line: it is closed when either process ends,
 * like a pidfd, and also when one executes another program.
 *
 * Abstract names leave nothing behind, however a rank dies. A rank answers only processes of the
 * same user that know the job's key; it drops others as soon as they connect.
 */
#include "job/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "job/job.h"
#include "job/lost.h"
#include "job/memory.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"
#include "util/valgrind.h"

#define NFDS 3
#define EXCHANGE_MS 60000
#define CHECK_MS 100 /* between two checks for dead ranks */
#define DEAD_MS 1000 /* for a process that has closed its sockets to be seen dead */
#define CALLERS 256  /* connections that have sent nothing yet, at most */

struct hello {
	uint64_t magic, key;
	uint32_t rank;
	int32_t pid;
};

static int listener = -1;

static void address(struct sockaddr_un *sa, socklen_t *len, int pid, uint16_t rank,
		    const uint64_t token[2])
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "libdsm-%u-%d-%u-%016lx%016lx",
		 geteuid(), pid, rank, (unsigned long)token[0], (unsigned long)token[1]);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(sa->sun_path + 1));
}

int rendezvous_listen(const uint64_t token[2])
{
	struct sockaddr_un sa;
	socklen_t len;

	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return memory_no_descriptors("cannot make a socket");
	address(&sa, &len, getpid(), job.rank, token);
	if (bind(listener, (struct sockaddr *)&sa, len) || listen(listener, 1024))
		return memory_no_descriptors("cannot listen for the ranks of this host");
	return 0;
}

/* The number of descriptors that a rank hands to another. */
static int fds_of(uint16_t from, uint16_t to)
{
	if (node_of(from) != node_of(to))
		return 0;
	return rank_info(from)->local ? 1 : NFDS;
}

static int send_hello(int s, uint16_t to)
{
	int fds[NFDS] = { rank_info(job.rank)->doorbell, job.mem.ctlfd, job.mem.memfd };
	int n = fds_of(job.rank, to);
	struct hello h = { CTL_MAGIC, job.key, job.rank, getpid() };
	union {
		char buf[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} c;
	struct iovec io = { &h, sizeof(h) };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = c.buf,
			    .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int)) };
	struct cmsghdr *cm;

	if (!n) {
		m.msg_control = NULL;
		m.msg_controllen = 0;
		return sendmsg(s, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
	}
	memset(&c, 0, sizeof(c));
	cm = CMSG_FIRSTHDR(&m);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(cm), fds, (size_t)n * sizeof(int));
	return sendmsg(s, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Is the process at the other end of the same user? */
static bool same_user(int s)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return !getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.uid == geteuid();
}

/* Take over what a rank has sent; on failure the caller keeps the descriptors. */
static int adopt(const struct hello *h, const int *fds, int n)
{
	struct rank_info *p;
	int err;

	if (h->rank >= job.size || h->rank == job.rank)
		return -EPROTO;
	p = rank_info((uint16_t)h->rank);
	if (!p->same_host || p->life >= 0 || p->doorbell >= 0 ||
	    n != fds_of((uint16_t)h->rank, job.rank))
		return -EPROTO;
	if (n == NFDS) {
		job.mem.ctlfd = fds[1];
		err = memory_map();
		if (err) {
			job.mem.ctlfd = -1;
			return err;
		}
		job.mem.memfd = fds[2];
	}
	if (n)
		p->doorbell = fds[0];
	return 0;
}

/* Wait until the other rank sends something; if a rank dies meanwhile, the job ends. */
static int rendezvous_await(int s)
{
	uint64_t until = clock_ns() + EXCHANGE_MS * 1000000ull;
	struct pollfd pfd = { .fd = s, .events = POLLIN };

	while (clock_ns() < until) {
		if (poll(&pfd, 1, CHECK_MS) == 1)
			return 0;
		lost_scan();
	}
	return -ETIMEDOUT;
}

/* Receive a hello. Returns the rank, or -errno. */
static int receive_hello(int s)
{
	int fds[NFDS] = { -1, -1, -1 }, n = 0;
	struct hello h;
	union {
		char buf[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} c;
	struct iovec io = { &h, sizeof(h) };
	/* Not CMSG_SPACE(): with its padding, the kernel would store a fourth descriptor. */
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = c.buf,
			    .msg_controllen = CMSG_LEN(sizeof(fds)) };
	struct cmsghdr *cm;
	ssize_t got;
	int err;

	if (!same_user(s))
		return -EPERM;
	err = rendezvous_await(s);
	if (err)
		return err;
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
		err = memory_no_descriptors("cannot take the memory of a rank of this host");
	} else {
		err = adopt(&h, fds, n);
	}
	while (err && n-- > 0)
		close(fds[n]);
	return err ? err : (int)h.rank;
}

static int rendezvous_with(uint16_t rank)
{
	struct sockaddr_un sa;
	socklen_t len;
	int err, s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (s < 0)
		return memory_no_descriptors("cannot make a socket");
	address(&sa, &len, rank_info(rank)->pid, rank, rank_info(rank)->token);
	err = connect(s, (struct sockaddr *)&sa, len) ? -errno : 0;
	if (!err && !same_user(s))
		err = -EPERM;
	HOOK(rendezvous_connected);
	if (!err)
		err = send_hello(s, rank);
	HOOK(rendezvous_said);
	if (!err)
		err = receive_hello(s);
	if (err == rank) {
		rank_info(rank)->life = s;
		return 0;
	}
	close(s);
	return err < 0 ? err : -EPROTO;
}

/*
 * A new connection, which may be a stranger's: its hello comes first. 1: it is a rank, and was
 * answered; s is its life line from now on.
 */
static int rendezvous_answer(int s)
{
	int rank = receive_hello(s), err;

	if (rank == -EPERM || rank == -EPROTO) /* a stranger: neither answered nor counted */
		return 0;
	if (rank < 0)
		return rank;
	HOOK(rendezvous_heard);
	err = send_hello(s, (uint16_t)rank);
	if (err)
		return err;
	rank_info((uint16_t)rank)->life = s;
	return 1;
}

/* Another user takes no place from those who wait. */
static int take_caller(struct pollfd *waiting, int *n)
{
	const int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (s < 0)
		return memory_no_descriptors("cannot accept a rank of this host");
	if (!same_user(s)) {
		close(s);
		return 0;
	}
	if (*n == 1 + CALLERS) { /* the oldest has been silent longest */
		close(waiting[1].fd);
		waiting[1].fd = s;
		return 0;
	}
	waiting[(*n)++] = (struct pollfd){ .fd = s, .events = POLLIN };
	return 0;
}

/* Answer as many ranks as will connect. Strangers may connect, too, and send nothing. */
static int answer_all(int ranks)
{
	struct pollfd waiting[1 + CALLERS] = { { .fd = listener, .events = POLLIN } };
	uint64_t until = clock_ns() + EXCHANGE_MS * 1000000ull;
	int n = 1, i, err = 0;

	while (!err && ranks) {
		if (clock_ns() > until)
			err = -ETIMEDOUT;
		else if (poll(waiting, (nfds_t)n, CHECK_MS) < 0 && errno != EINTR)
			err = -errno;
		lost_scan();
		for (i = n - 1; i > 0 && !err; i--) {
			if (!waiting[i].revents)
				continue;
			err = rendezvous_answer(waiting[i].fd);
			if (err > 0)
				ranks--;
			if (err <= 0)
				close(waiting[i].fd);
			err = err < 0 ? err : 0;
			waiting[i] = waiting[--n];
		}
		if (err || !(waiting[0].revents & POLLIN))
			continue;
		err = take_caller(waiting, &n);
	}
	while (--n > 0)
		close(waiting[n].fd);
	return err;
}

/* valgrind also returns ENOSYS, after a warning of five lines. */
static int pidfd_of(pid_t pid)
{
	if (!under_valgrind())
		return (int)syscall(SYS_pidfd_open, pid, 0);
	errno = ENOSYS;
	return -1;
}

/* Watch the ranks of this machine before meeting them, so that a death meanwhile is noticed. */
static int watch_all(void)
{
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		struct rank_info *p = rank_info(r);

		if (r == job.rank || !p->same_host)
			continue;
		p->pidfd = pidfd_of(p->pid);
		if (p->pidfd < 0 && errno == ESRCH)
			lost_rank(r, "its process ended in dsm_init()");
		if (p->pidfd < 0 && errno != ENOSYS)
			return memory_no_descriptors("cannot watch a rank of this host");
	}
	return 0;
}

/*
 * The meeting of two ranks has failed. Often one of them has died, which its pidfd shows a little
 * later.
 */
void rendezvous_check(void)
{
	int i;

	for (i = 0; i < DEAD_MS / 10; i++) {
		lost_scan();
		usleep(10000);
	}
}

/*
 * A rank connects to lower ranks and is connected to by higher ones. Every rank connects before it
 * answers, so there is no circular wait.
 */
int rendezvous_connect(void)
{
	int higher = 0, err = watch_all();
	uint16_t r;

	launch_meanwhile(lost_scan); /* until the service thread watches */

	for (r = 0; r < job.size && !err; r++) {
		if (r == job.rank || !rank_info(r)->same_host)
			continue;
		if (r < job.rank)
			err = rendezvous_with(r);
		else
			higher++;
	}
	if (!err)
		err = answer_all(higher);
	rendezvous_stop();
	if (err && err != -EMFILE)
		rendezvous_check();
	if (err)
		log_line("the ranks of this host cannot meet: %s", dsm_strerror(err));
	return err;
}

static int send_fd(int s, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(fd))];
		struct cmsghdr align;
	} c;
	struct iovec io = { "", 1 };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	struct cmsghdr *cm;

	memset(&c, 0, sizeof(c));
	cm = CMSG_FIRSTHDR(&m);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cm), &fd, sizeof(fd));
	return sendmsg(s, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* -errno, or the descriptor. */
static int receive_fd(int s)
{
	char byte;
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec io = { &byte, 1 };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	struct cmsghdr *cm;
	int err = rendezvous_await(s), fd;

	if (err)
		return err;
	if (recvmsg(s, &m, MSG_CMSG_CLOEXEC) != 1)
		return -EPIPE;
	cm = CMSG_FIRSTHDR(&m);
	if (m.msg_flags & MSG_CTRUNC) {
		errno = EMFILE;
		return memory_no_descriptors("cannot take a descriptor of a rank of this host");
	}
	if (!cm || cm->cmsg_type != SCM_RIGHTS || cm->cmsg_len != CMSG_LEN(sizeof(fd)))
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(cm), sizeof(fd));
	return fd;
}

int rendezvous_swap(int fd, void (*join)(unsigned int local, int fd))
{
	int err = 0, its;
	uint16_t r;

	for (r = 0; r < job.size && !err; r++)
		if (r != job.rank && is_here(r))
			err = send_fd(rank_info(r)->life, fd);
	for (r = 0; r < job.size && !err; r++) {
		if (r == job.rank || !is_here(r))
			continue;
		its = receive_fd(rank_info(r)->life);
		if (its < 0)
			err = its;
		else
			join(rank_info(r)->local, its);
	}
	if (err && err != -EMFILE)
		rendezvous_check();
	if (err)
		log_line("the ranks of this node cannot exchange descriptors: %s",
			 dsm_strerror(err));
	return err;
}

void rendezvous_stop(void)
{
	if (listener >= 0)
		close(listener);
	listener = -1;
}

void rendezvous_forked(void)
{
	uint16_t r;

	for (r = 0; job.ranks && r < job.size; r++) {
		if (job.ranks[r].life >= 0)
			close(job.ranks[r].life);
		job.ranks[r].life = -1;
	}
}

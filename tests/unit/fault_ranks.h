/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault_ranks.h - a node of several processes over a fault backend, without an engine. All
 * processes share the node's state of each page; a test sets it as the protocol would. A signal
 * asks the backend to update the mapping if that state allows the access, and is counted.
 */
#ifndef UNIT_FAULT_RANKS_H
#define UNIT_FAULT_RANKS_H

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "fault/frames.h"
#include "util/futex.h"

#define PG 4096ul
#define SPACE (16ul << 20)
#define PAGES (SPACE / PG)
#define RANKS_MAX 4u
#define SHARED_MAX (1ul << 20)
/* The library's address: a sanitizer supports only some addresses. */
#ifdef __SANITIZE_THREAD__
#define WINDOW ((char *)0x7e9000000000)
#else
#define WINDOW ((char *)0x200000000000)
#endif

/* Shared by all processes of a test. */
struct table {
	uint8_t state[PAGES]; /* enum prot: access of the node; atomic */
	uint32_t arrived, round, failed, left;
	char complaint[256];
	uint32_t signals[RANKS_MAX]; /* by rank, since the rank set it to 0 */
	int32_t pid[RANKS_MAX];
	uint32_t locks[PAGES];
	char copy[64][PG]; /* copies of another node */
	uint64_t words[64];
};

struct ranks {
	const struct fault_ops *ops;
	unsigned int n, me;            /* number of processes; this process */
	unsigned int index[RANKS_MAX]; /* their indices; all zero: 0, 1, 2, ... */
	unsigned int called;           /* number of ranks that the node assumes; 0: n */
	bool bound;                    /* everything is in bounds from the start */
	struct table *t;
	int sockets[RANKS_MAX][RANKS_MAX];
	void (*miss)(size_t off, bool write); /* called for a forbidden access; NULL: it fails */
};

static struct ranks node;
static sigjmp_buf bail;
static volatile sig_atomic_t trying;

/* Fails the test from a rank's process. */
#define rank_require(x)                                                                  \
	do {                                                                             \
		if (!(x)) {                                                              \
			if (!__atomic_fetch_add(&node.t->failed, 1, __ATOMIC_SEQ_CST))   \
				snprintf(node.t->complaint, sizeof(node.t->complaint),   \
					 "rank %u, line %d: %s", node.me, __LINE__, #x); \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

/* Wait until all living ranks are here. */
static inline void meet(void)
{
	uint32_t round = __atomic_load_n(&node.t->round, __ATOMIC_SEQ_CST);

	if (__atomic_add_fetch(&node.t->arrived, 1, __ATOMIC_SEQ_CST) == node.t->left) {
		__atomic_store_n(&node.t->arrived, 0, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&node.t->round, 1, __ATOMIC_SEQ_CST);
	}
	while (__atomic_load_n(&node.t->round, __ATOMIC_SEQ_CST) == round) {
		if (__atomic_load_n(&node.t->failed, __ATOMIC_SEQ_CST))
			_exit(1);
		sched_yield();
	}
}

static inline enum prot state_of(size_t off)
{
	return (enum prot)__atomic_load_n(&node.t->state[off / PG], __ATOMIC_SEQ_CST);
}

static inline void set_state(size_t off, size_t len, enum prot p)
{
	for (; len; off += PG, len -= PG)
		__atomic_store_n(&node.t->state[off / PG], (uint8_t)p, __ATOMIC_SEQ_CST);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	char *at = info->si_addr;
	bool write = u->uc_mcontext.gregs[REG_ERR] & 2;
	size_t off;

	(void)sig;
	if (at < WINDOW || at >= WINDOW + SPACE) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		return;
	}
	off = (size_t)(at - WINDOW) / PG * PG;
	__atomic_fetch_add(&node.t->signals[node.me], 1, __ATOMIC_RELAXED);
	if (trying && trying++ > 100)
		siglongjmp(bail, 1); /* out of bounds: it would fault forever */
	if (state_of(off) >= (write ? PROT_RW : PROT_RO))
		node.ops->again(off, PG, state_of(off));
	else if (node.miss)
		node.miss(off, write);
	else
		siglongjmp(bail, 1);
}

/*
 * An access that may fault must not be made inside a sanitizer: jumping out of the handler would
 * leave its locks held.
 */
__attribute__((no_sanitize("thread"), noinline)) static uint64_t load(const volatile uint64_t *at)
{
	return *at;
}

__attribute__((no_sanitize("thread"), noinline)) static void store(volatile uint64_t *at,
								   uint64_t value)
{
	*at = value;
}

/* Can this rank read? *value is the value read. */
static inline bool try_read(size_t off, uint64_t *value)
{
	bool ok = false;

	trying = 1;
	if (!sigsetjmp(bail, 1)) {
		*value = load((uint64_t *)(WINDOW + off));
		ok = true;
	}
	trying = 0;
	return ok;
}

static inline bool try_write(size_t off, uint64_t value)
{
	bool ok = false;

	trying = 1;
	if (!sigsetjmp(bail, 1)) {
		store((uint64_t *)(WINDOW + off), value);
		ok = true;
	}
	trying = 0;
	return ok;
}

static inline bool reads(size_t off, uint64_t value)
{
	uint64_t got;

	return try_read(off, &got) && got == value;
}

/* Signals of this rank since the last call. */
static inline unsigned int signals(void)
{
	return __atomic_exchange_n(&node.t->signals[node.me], 0, __ATOMIC_SEQ_CST);
}

static void pass(int s, int fd)
{
	char byte = fd >= 0, room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (fd < 0) {
		m.msg_control = NULL;
		m.msg_controllen = 0;
	}
	rank_require(sendmsg(s, &m, 0) == 1);
}

static int receive(int s)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	int fd = -1;

	rank_require(recvmsg(s, &m, 0) == 1);
	if (byte)
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static bool has_gone(unsigned int rank)
{
	unsigned int i;

	for (i = 0; i < node.n; i++)
		if (node.index[i] == rank)
			return __atomic_load_n(&node.t->pid[i], __ATOMIC_SEQ_CST) == 0;
	return true;
}

static inline void rank_start(int memfd, void *shared)
{
	struct fault_node f = { .memfd = memfd,
				.base = WINDOW,
				.size = SPACE,
				.ranks = node.called,
				.self = node.index[node.me],
				.shared = shared,
				.gone = has_gone };
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	const char *why = "";
	unsigned int i;
	int fd;

	sigfillset(&sa.sa_mask);
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	rank_require(!node.ops->open(&f, &fd, &why));
	for (i = 0; i < node.n; i++)
		if (i != node.me)
			pass(node.sockets[node.me][i], fd);
	for (i = 0; i < node.n; i++)
		if (i != node.me) {
			int other = receive(node.sockets[node.me][i]);

			rank_require((other >= 0) == (fd >= 0));
			if (node.ops->join && other >= 0)
				node.ops->join(node.index[i], other);
		}
	if (node.bound)
		rank_require(!node.ops->bound(0, SPACE, SPACE));
	meet();
}

static void wait_for_ranks(pid_t *pid)
{
	unsigned int i, ended;
	int status, wrong = 0;

	for (ended = 0; ended < node.n; ended++) {
		pid_t p = waitpid(-1, &status, 0);

		for (i = 0; i < node.n; i++)
			if (pid[i] == p)
				__atomic_store_n(&node.t->pid[i], 0, __ATOMIC_SEQ_CST);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			continue; /* killed by the test */
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			if (!__atomic_fetch_add(&node.t->failed, 1, __ATOMIC_SEQ_CST))
				snprintf(node.t->complaint, sizeof(node.t->complaint),
					 "a rank ended with status %#x", status);
			wrong++;
		}
	}
	ck_assert_msg(!wrong, "%s", node.t->complaint);
}

/* Run `body` in n processes; the test fails if one fails. */
static inline void run_ranks(const struct ranks *r, void (*body)(void))
{
	int memfd = memfd_create("test-frames", MFD_CLOEXEC), pair[2];
	pid_t pid[RANKS_MAX];
	unsigned int i, k;
	void *shared;

	node = *r;
	if (!node.called)
		node.called = node.n;
	for (i = 0; !r->index[1] && i < node.n; i++)
		node.index[i] = i;
	ck_assert(memfd >= 0 && !ftruncate(memfd, SPACE));
	node.t = mmap(NULL, sizeof(*node.t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	shared = mmap(NULL, SHARED_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(node.t != MAP_FAILED && shared != MAP_FAILED);
	ck_assert_uint_le(node.ops->shared ? node.ops->shared(SPACE, node.called) : 0, SHARED_MAX);
	node.t->left = node.n;
	for (i = 0; i < node.n; i++)
		for (k = 0; k < i; k++) {
			ck_assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
			node.sockets[i][k] = pair[0];
			node.sockets[k][i] = pair[1];
		}
	for (i = 0; i < node.n; i++) {
		node.t->pid[i] = -1;
		pid[i] = fork();
		ck_assert(pid[i] >= 0);
		if (!pid[i]) {
			node.me = i;
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			node.t->pid[i] = getpid();
			rank_start(memfd, node.called > 1 ? shared : NULL);
			body();
			meet();
			node.ops->close();
			_exit(0);
		}
	}
	wait_for_ranks(pid);
}

#endif

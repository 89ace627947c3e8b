// SPDX-License-Identifier: BSD-2-Clause
/*
 * lost.c - ends the job when a rank is lost; dsm_abort().
 *
 * The service thread, and any thread that waits for a lock of a rank that may be dead, watch the
 * ranks of this machine through pidfds. Ranks of other machines are lost by an error of the
 * transport or by silence. A loss ends this process at once with _exit(), because its other threads
 * may wait for the dead rank. A rank announces its exit to all peers that it can reach, so that
 * they do not report it as lost. The first rank of a machine to notice a loss prints the message.
 *
 * A rank that a signal is about to end prints the message itself. The others wait for its end,
 * because the kernel may still write its core file, and the launcher kills all ranks once one has
 * left. They leave with the status that it has announced.
 */
#include "job/lost.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "fault/catch.h"
#include "fault/fault.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/upcalls.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/log.h"
#include "util/sys.h"

#define CORE_RANGES 16384 /* of memory in a core file; each takes two mappings of at most 65,530 */
#define EXIT_LOST 70
#define CONNECTING_MS 10000ull /* at most, after which abort() is the program's fault */
#define LEAVE_SECONDS 2        /* to tell the launcher, which may be gone, too */
#define LAUNCHER_MS 1000
#define EARLY_TRIES 5   /* of about 1 ms each, to receive a BYE that is in flight */
#define LATE_TRIES 2000 /* the same, if this rank has finalized, too */
/* a process closes its descriptors long before it ends, if it has much memory to free */
#define DYING_MS 500
#define HINT_MS 100          /* a process may be seen dead this long after its connection broke */
#define LINGER_EARLY_MS 1500 /* the same in the start: some notice the launcher's end 1 s later */
/* the rank that prints the message stays this long, for ranks that notice later */
#define LINGER_MS 200

#define NAME_MS 100 /* for a rank to listen at the name that it has taken */
/* until a node with a dying rank counts as silent; its connections end earlier */
#define DYING_SECONDS 600

enum bye { BYE_DONE = 0, BYE_LEAVING };

static uint64_t heard[WIRE_MAX_NODES];   /* by other node, ns; atomic */
static uint8_t finished[WIRE_MAX_NODES]; /* by rank of other nodes; atomic */
/* by rank of other nodes: the status that it has announced; atomic */
static uint8_t dying[WIRE_MAX_NODES];
static uint8_t dumping[WIRE_MAX_NODES]; /* by other node: one of its ranks is dying; atomic */

static bool has_finished(uint16_t rank)
{
	return __atomic_load_n(&finished[rank], __ATOMIC_ACQUIRE);
}

static volatile sig_atomic_t leave_status = EXIT_LOST;
static bool speaks;  /* this process owns the name of the one that prints */
static bool mute;    /* the transport has broken in the hands of this thread, which leaves */
static pid_t leaver; /* the thread for which begin_leaving() was true */
static struct {
	uint64_t from, ns; /* when the transport began to connect, 0: it does not; how long */
	pid_t thread;      /* that of dsm_init() */
} connects;

static void too_late(int sig)
{
	(void)sig;
	_exit(leave_status);
}

/*
 * True for the one thread that ends the process. It is no longer cancelled: all other threads wait
 * for it.
 */
static bool begin_leaving(void)
{
	if (__atomic_exchange_n(&job.state, CTL_LOST, __ATOMIC_ACQ_REL) == CTL_LOST)
		return false;
	leaver = gettid();
	engine_keep();
	return true;
}

/*
 * Send BYE to this rank's peer in each other node. `aux` contains the status, and above it the
 * rank.
 */
static void notify_others(enum bye bye, int status)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_BYE,
			 .op = (uint8_t)bye,
			 .src = job.node,
			 .req_node = job.node,
			 .aux = (uint32_t)status | (uint32_t)job.rank << 16 };
	uint16_t n;

	for (n = 0; job.net && !mute && n < job.nodes; n++) {
		m.dst = n;
		if (n != job.node && !has_finished(job.pair[n]))
			job.netops->send(job.net, job.pair[n], &m, NULL, 0);
	}
}

/* This rank is in dsm_init(), and all others are, too, or have died there. */
static bool is_early(void)
{
	return !job.mine || __atomic_load_n(&job.mine->state, __ATOMIC_RELAXED) == CTL_STARTING;
}

/* why: the text for the launcher; NULL: another rank has told it. */
static void lost_leave(int status, const char *why) __attribute__((noreturn));
static void lost_leave(int status, const char *why)
{
	const bool early = is_early();
	struct sigaction sa = { .sa_handler = too_late };
	sigset_t alarms;

	/*
	 * Nothing below may block the exit: a stopped thread may have the transport's lock, and the
	 * launcher may be dead.
	 */
	leave_status = status;
	sigaction(SIGALRM, &sa, NULL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(LEAVE_SECONDS);
	if (job.mine) {
		__atomic_store_n(&job.mine->abort_status, (uint32_t)status, __ATOMIC_RELEASE);
		__atomic_store_n(&job.mine->state, CTL_LOST, __ATOMIC_RELEASE);
	}
	notify_others(BYE_LEAVING, status);
	if (why && job.launch.size > 1)
		launch_abort(&job.launch, status, why);
	if ((why || speaks) && job.launch.size > 1)
		sys_sleep_us((early ? LINGER_EARLY_MS : LINGER_MS) * 1000);
	_exit(status);
}

/*
 * Has another rank left before, or is it dying? Then that rank prints the message or knows which
 * one does, and its status is the job's.
 */
static int status_of_the_first(void)
{
	uint32_t status;
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		struct rank_ctl *c = rank_info(r)->ctl;

		status = c ? __atomic_load_n(&c->abort_status, __ATOMIC_ACQUIRE)
			   : __atomic_load_n(&dying[r], __ATOMIC_ACQUIRE);
		if (status && r != job.rank)
			return (int)status;
	}
	return 0;
}

/*
 * Names of the job have its number, but not before its ranks have exchanged their data
 * (start/info.h). Until then:
 */
static uint64_t launcher_number(void)
{
	uint64_t h = 0xcbf29ce484222325ull;
	const char *p;

	for (p = job.launch.job; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3ull;
	return h;
}

/* The user who listens at a name; -1: nobody does, yet or any more. */
static uid_t listener_of(const struct sockaddr_un *sa, socklen_t len)
{
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(who);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (!syscall(SYS_connect, s, sa, len)) /* connect() is a cancellation point */
		getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &size);
	sys_close(s);
	return who.uid;
}

/*
 * False: another rank has the name, or had it. Another user may have taken it to keep us silent,
 * and does not count.
 */
static bool take_name(uint64_t number)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), n, ms;
	socklen_t len;
	uid_t who;

	n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "libdsm-lost-%u-%016lx", geteuid(),
		     (unsigned long)number);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	for (ms = 0; ms < NAME_MS; ms++) {
		if (!bind(s, (struct sockaddr *)&sa, len))
			return !listen(s, 64) && !ms;
		who = errno == EADDRINUSE ? listener_of(&sa, len) : (uid_t)-2;
		if (who != (uid_t)-1)
			return who != geteuid();
		sys_sleep_us(1000); /* a rank that has bound the socket listens at once */
	}
	return true;
}

/*
 * One survivor per machine prints the message: the owner of the name, which the kernel frees with
 * the process. A rank in its start also needs the name of ranks that have no key yet: one of them
 * may notice at the same time.
 */
static bool speaker(void)
{
	speaks = (!is_early() || take_name(launcher_number())) &&
		(!job.number || take_name(job.number));
	return speaks;
}

void lost_rank(uint16_t rank, const char *how)
{
	struct rank_ctl *of = rank_info(rank)->ctl;
	int status;

	if (__atomic_load_n(&job.fenced, __ATOMIC_ACQUIRE) || has_finished(rank) ||
	    (of && __atomic_load_n(&of->state, __ATOMIC_ACQUIRE) == CTL_FINALIZED) ||
	    getpid() != job.mypid)
		return;
	if (!begin_leaving())
		job_await_loss();
	status = status_of_the_first();
	if (status)
		lost_leave(status, NULL);
	if (!speaker())
		lost_leave(EXIT_LOST, NULL);
	log_line("rank %d%s is lost: %s. The job ends with status %d.", rank,
		 rank_info(rank)->pidfd >= 0 ? " of this host" : "", how, EXIT_LOST);
	lost_leave(EXIT_LOST, "a rank of the DSM job is lost");
}

static void leave_without_launcher(void) __attribute__((noreturn));
static void leave_without_launcher(void)
{
	if (!status_of_the_first() && speaker())
		log_line("the launcher is gone. The job ends with status %d.", EXIT_LOST);
	lost_leave(EXIT_LOST, NULL);
}

/*
 * Runs on a thread of the launcher's library. Without the launcher nobody can end the job, or learn
 * its result. Often the launcher has gone because the job is ending, which is noticed in other
 * ways: wait for that. In dsm_init() this thread leaves the exit to the one that initialises
 * (lost_scan(), engine_start()), which still makes objects that lost_leave() uses.
 */
void lost_launcher(int rank)
{
	if (rank >= 0)
		return; /* not lost: it may have finalized */
	if (__atomic_load_n(&job.state, __ATOMIC_SEQ_CST) == CTL_STARTING)
		return;
	sys_sleep_us(LAUNCHER_MS * 1000);
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_FINALIZED || !begin_leaving())
		return;
	leave_without_launcher();
}

/* As in linux/pidfd.h of Linux 6.15. */
struct pidfd_info_64 {
	uint64_t mask, cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};
#define PIDFD_INFO_EXIT_BIT 8u
#define PIDFD_GET_INFO_64 _IOWR(0xff, 11, struct pidfd_info_64)

/* The status of wait(2) of a process that its parent has waited for; 0: not known. */
static int status_behind_wait(int pidfd)
{
	struct pidfd_info_64 info = { .mask = PIDFD_INFO_EXIT_BIT };

	return ioctl(pidfd, PIDFD_GET_INFO_64, &info) || !(info.mask & PIDFD_INFO_EXIT_BIT)
		? 0
		: info.exit_code;
}

/* The same before that, of a process that is ending: the last number of its line in /proc. */
static int status_before_wait(int pid)
{
	char path[32], line[1024];
	const char *last;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = syscall(SYS_read, fd, line, sizeof(line) - 1);
		sys_close(fd);
	}
	line[n > 0 ? n : 0] = 0;
	last = strrchr(line, ' ');
	return last ? atoi(last) : 0;
}

/* The connection closes before the process is seen dead. *status: as of wait(2); 0: not known. */
static bool rank_has_ended(uint16_t rank, int *status)
{
	const struct rank_info *r = rank_info(rank);
	struct pollfd p = { .fd = r->pidfd, .events = POLLIN };
	bool over = p.fd < 0;
	int ms;

	*status = 0;
	for (ms = 0; !over && ms < DYING_MS; ms++) {
		over = sys_poll(&p, 1, ms > 0) == 1;
		if (!*status)
			*status = status_before_wait(r->pid);
		if (!*status && over)
			*status = status_behind_wait(p.fd);
	}
	return over;
}

/* The signal of misses of this job's ranks; 0: there is none. */
static int signal_of_misses(void)
{
	if (job.fault == &fault_uffd)
		return SIGBUS;
	return job.fault == &fault_mprotect ? SIGSEGV : 0;
}

/*
 * A miss whose signal is blocked ends a process by it: the kernel calls no handler, so only the
 * survivors can tell.
 */
static void lost_by_signal(uint16_t rank, int sig)
{
	const char *const name = sigabbrev_np(sig);
	char how[400];
	int n = snprintf(how, sizeof(how), "its process was ended by SIG%s", name ? name : "?");

	if (sig == signal_of_misses())
		snprintf(
			how + n, sizeof(how) - (size_t)n,
			", the signal of misses. If this was no fault of the program, a thread touched shared memory"
			" while it blocked SIG%s: leave SIGBUS and SIGSEGV out of masks that are set without the C"
			" library's functions or by libraries",
			name);
	lost_rank(rank, how);
}

/*
 * The process of a rank of this machine has ended. Its last message may still be in flight. If this
 * rank has finalized, too, that one may have passed the last fence, which this rank is about to
 * pass.
 */
void lost_process(uint16_t rank)
{
	int tries, status;
	bool ended;

	for (tries = 0; !is_here(rank) && job.net && !has_finished(rank) &&
	     !__atomic_load_n(&job.fenced, __ATOMIC_ACQUIRE);
	     tries++) {
		if (tries >= (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_FINALIZED
				      ? LATE_TRIES
				      : EARLY_TRIES))
			break;
		while (job.up->poll(64) > 0)
			;
		if (!has_finished(rank))
			sys_sleep_us(1000);
	}
	ended = rank_has_ended(rank, &status);
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_STARTING)
		lost_rank(rank,
			  ended ? "its process ended in dsm_init()" : "it failed in dsm_init()");
	else if (!ended)
		lost_rank(rank, "it executed another program without dsm_finalize()");
	else if (WIFSIGNALED(status))
		lost_by_signal(rank, WTERMSIG(status));
	else
		lost_rank(rank, "its process ended without dsm_finalize()");
}

static void scan_ranks(void)
{
	uint16_t r;

	job_await_loss();
	fault_end_if_signalled(); /* a stopped rank may hold what this thread waits for */
	for (r = 0; r < job.size; r++) {
		struct pollfd p[] = { { .fd = rank_info(r)->pidfd, .events = POLLIN },
				      { .fd = rank_info(r)->life, .events = POLLRDHUP } };

		if (r != job.rank && sys_poll(p, 2, 0) > 0)
			lost_process(r);
	}
}

/* During the start, the launcher has often gone because a rank has died: then report that. */
void lost_scan(void)
{
	scan_ranks();
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) != CTL_STARTING || !launch_gone())
		return;
	while (launch_gone() <= LAUNCHER_MS) {
		sys_sleep_us(10000);
		scan_ranks();
	}
	if (!begin_leaving())
		job_await_loss();
	leave_without_launcher();
}

void lost_unnamed(void)
{
	if (!begin_leaving())
		job_await_loss();
	if (speaker())
		log_line(
			"a rank is lost: it ended, or failed, in dsm_init(). The job ends with status %d.",
			EXIT_LOST);
	lost_leave(EXIT_LOST, "a rank of the DSM job is lost");
}

/* abort() in this thread, which uses the transport. A signal of another process is none. */
static bool is_abort_inside(const siginfo_t *info)
{
	const bool runs =
		job.mine && __atomic_load_n(&job.mine->state, __ATOMIC_RELAXED) == CTL_RUNNING;

	return info->si_code == SI_TKILL && info->si_pid == getpid() && getpid() == job.mypid &&
		(engine_busy() || (!runs && gettid() == connects.thread));
}

/*
 * UCX 1.13 checks that a peer that it connects to does not answer a second time, and calls abort()
 * if one does, which happens where a rank dies meanwhile. UCX may have any of its locks then, and
 * this thread that of the transport, so the ranks of this host learn it from their connections.
 */
void lost_aborted(const siginfo_t *info)
{
	int status;
	uint16_t r;

	if (!connects.from || clock_ns() - connects.from > connects.ns || !is_abort_inside(info))
		return;
	if (leaver == gettid())
		_exit(leave_status);
	if (!begin_leaving())
		job_await_loss();
	mute = true;
	status = status_of_the_first();
	if (status)
		lost_leave(status, NULL);
	if (speaker())
		log_line(
			"a rank is lost: abort() was called inside libdsm, as UCX does if one dies while they connect. The job ends with status %d.",
			EXIT_LOST);
	for (r = 0; r < job.size; r++)
		shutdown(rank_info(r)->life, SHUT_RDWR);
	lost_leave(EXIT_LOST, NULL);
}

void lost_on_abort(int sig, siginfo_t *info, void *context)
{
	(void)context;
	lost_aborted(info);
	signal(sig, SIG_DFL);
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info))
		raise(sig);
}

void lost_by_abort(bool on)
{
	const struct sigaction sa = { .sa_sigaction = lost_on_abort, .sa_flags = SA_SIGINFO };
	struct sigaction now;

	connects.ns = job.set.lost_ms < CONNECTING_MS ? job.set.lost_ms * 1000000ull
						      : CONNECTING_MS * 1000000ull;
	connects.thread = on ? gettid() : 0;
	connects.from = on ? clock_ns() : 0;
	if (sigaction(SIGABRT, NULL, &now))
		return;
	if (on && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
		sigaction(SIGABRT, &sa, NULL);
	else if (!on && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == lost_on_abort)
		signal(SIGABRT, SIG_DFL);
}

void lost_alive(uint16_t node)
{
	__atomic_store_n(&heard[node], clock_ns(), __ATOMIC_RELAXED);
}

int lost_heard(const struct msg *m)
{
	uint16_t rank = (uint16_t)(m->aux >> 16);
	int status = (int)(m->aux & 0xff);

	if (m->type != MSG_BYE)
		return 0;
	if (node_of(rank) != m->src)
		return -EBADMSG;
	if (m->op == BYE_LEAVING && (m->aux & WIRE_DYING)) {
		__atomic_store_n(&dying[rank], (uint8_t)status, __ATOMIC_RELEASE);
		__atomic_store_n(&dumping[m->src], 1, __ATOMIC_RELEASE);
		return 0;
	}
	__atomic_store_n(&finished[rank], 1, __ATOMIC_RELEASE);
	if (m->op == BYE_DONE)
		return 0;
	if (!begin_leaving())
		job_await_loss();
	lost_leave(status, NULL);
}

static bool is_dumping(uint16_t node)
{
	return __atomic_load_n(&dumping[node], __ATOMIC_ACQUIRE);
}

/*
 * Called four times in DSM_LOST_MS by the first rank of a node: one heartbeat between two nodes. If
 * it was not called for long, this process was stopped or starved: restart all limits. The kernel
 * reports the end of a rank on this host, so one that is silent there is stopped, not lost.
 */
void lost_silence(void)
{
	static uint64_t last;
	uint64_t now = clock_ns(), limit = job.set.lost_ms * 1000000ull;
	struct msg m = {
		.version = WIRE_VERSION, .type = MSG_PING, .src = job.node, .req_node = job.node
	};
	bool again = !last || now - last > limit / 2;
	uint64_t at;
	uint16_t n;

	last = now;
	for (n = 0; !job.local && n < job.nodes; n++) {
		uint16_t rank = job.pair[n];

		if (n == job.node || has_finished(rank))
			continue;
		at = __atomic_load_n(&heard[n], __ATOMIC_RELAXED);
		if (again || !at || rank_info(rank)->life >= 0) {
			lost_alive(n);
		} else if (now > at &&
			   now - at > (is_dumping(n) ? DYING_SECONDS * 1000000000ull : limit)) {
			lost_rank(rank, "nothing was heard of it for DSM_LOST_MS");
			continue;
		}
		m.dst = n;
		if (job.netops->send(job.net, rank, &m, NULL, 0))
			lost_connection(rank, -EPIPE);
	}
}

void lost_goodbye(void)
{
	__atomic_store_n(&job.mine->state, CTL_FINALIZED, __ATOMIC_RELEASE);
	notify_others(BYE_DONE, 0);
}

/*
 * Inside the runtime, this thread may hold locks that notify_others() needs. Then other nodes learn
 * of its death from its neighbours or connections.
 */
static void notify_death(int status)
{
	const struct sigaction sa = { .sa_handler = SIG_DFL };
	sigset_t alarms, before;

	if (engine_busy())
		return;
	sigaction(SIGALRM, &sa, NULL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarms, &before);
	alarm(LEAVE_SECONDS); /* it ends the process without a core file, but surely */
	notify_others(BYE_LEAVING, status | (int)WIRE_DYING);
	alarm(0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/*
 * Keep untouched parts of the window out of the core file: the kernel would allocate memory for
 * them.
 */
static void trim_core(void)
{
	off_t at = 0, data;
	unsigned int n;

	if (!job.me || job.mem.memfd < 0)
		return;
	madvise(job.me, job.layout.total, MADV_DONTDUMP);
	madvise(job.base, job.set.space, MADV_DONTDUMP);
	for (n = 0; n < CORE_RANGES; n++) {
		data = lseek(job.mem.memfd, at, SEEK_DATA);
		at = data < 0 ? -1 : lseek(job.mem.memfd, data, SEEK_HOLE);
		if (at <= data)
			break;
		madvise(job.base + data, (size_t)(at - data), MADV_DODUMP);
	}
}

void lost_dying(int status, const char *why)
{
	static uint32_t first;
	const int me = gettid();
	uint32_t other = 0;

	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) != CTL_RUNNING || job.size == 1 ||
	    getpid() != job.mypid)
		return;
	if (!__atomic_compare_exchange_n(&first, &other, (uint32_t)me, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		if (other != (uint32_t)me)
			/* the first thread does the work, and needs some time */
			sys_sleep_us(LEAVE_SECONDS * 1000000);
		return;
	}
	log_line("thread %d %s. The job ends with status %d.", me, why, status);
	__atomic_store_n(&job.mine->abort_status, (uint32_t)status, __ATOMIC_RELEASE);
	notify_death(status);
	trim_core();
}

void lost_abort(int status, const char *why)
{
	log_line("%s", why);
	if (job.mypid != getpid()) /* a forked child, or not initialised */
		_exit(status);
	begin_leaving();
	lost_leave(status, why);
}

/*
 * Prefer to report the end of the process, which may be seen a moment after that of its connection.
 */
void lost_connection(uint16_t rank, int err)
{
	struct pollfd p[] = { { .fd = rank_info(rank)->pidfd, .events = POLLIN },
			      { .fd = rank_info(rank)->life, .events = POLLRDHUP } };

	if (err != -EBADMSG && sys_poll(p, 2, HINT_MS) > 0)
		lost_process(rank);
	switch (err) {
	case -EPIPE: lost_rank(rank, "its connection is broken"); return;
	case -EBADMSG: lost_rank(rank, "it sent a malformed message"); return;
	case -EHOSTUNREACH:
		lost_rank(rank, "there is no way to it (see UCX_TLS, UCX_NET_DEVICES)");
		return;
	default: lost_rank(rank, dsm_strerror(err));
	}
}

void lost_net(void *arg, uint16_t rank, int err)
{
	(void)arg;
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) != CTL_FINALIZED)
		lost_connection(rank, err);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * service.c - the service thread: it handles messages from other hosts while the application
 * computes, watches the other ranks of this host, fires timers that threads left behind, and
 * delivers the messages that the node has kept (miss/keep.h). It sleeps in epoll.
 */
#include "watch/service.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "calls/call.h"
#include "heap/heap.h"
#include "heap/ring.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/threads.h"
#include "job/usage.h"
#include "miss/reclaim.h"
#include "miss/run.h"
#include "miss/spin.h"
#include "miss/wait.h"
#include "miss/work.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/log.h"
#include "util/sys.h"
#include "watch/deadlock.h"
#include "watch/linger.h"
#include "watch/stall.h"

enum {
	WHAT_DOORBELL = 1ull << 32,
	WHAT_NET = 2ull << 32,
	WHAT_PROCESS = 3ull << 32,
	WHAT_LIFE = 5ull << 32,
	WHAT_HOST = 4ull << 32,
	WHAT_BELL = 6ull << 32,
	WHAT_MASK = ~0ull << 32
};

/* longest sleep between two checks of connections, of silent ranks, and of memory */
#define TICK_MS 1000
/* longer than a tick of the kernel: setting an earlier timer may take 7 us in a virtual machine */
#define DOZE_MS 20
#define THREADS_MS 250 /* between two checks for remaining threads, once the first has ended */

static int stopping;
static bool woken; /* the transport ended the last sleep */
static bool spent; /* the transport's event, which comes once, has come (watch_as) */
static bool edges; /* its descriptor may be readable of old: only changes count */
static bool moved; /* moved to the processor of a sleeping thread */

static int watch_as(int fd, uint64_t what, int how)
{
	/*
	 * While the transport stays unarmed, an unread event must not wake this thread repeatedly.
	 */
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = what };

	if (what == WHAT_BELL || (what == WHAT_NET && edges))
		ev.events |= EPOLLET;
	else if (what == WHAT_NET && !job.netops->threads)
		ev.events |= EPOLLONESHOT;
	return epoll_ctl(job.epoll, how, fd, &ev) ? -errno : 0;
}

static int service_watch(int fd, uint64_t what)
{
	return watch_as(fd, what, EPOLL_CTL_ADD);
}

static void unwatch(uint16_t rank)
{
	epoll_ctl(job.epoll, EPOLL_CTL_DEL, rank_info(rank)->pidfd, NULL);
	epoll_ctl(job.epoll, EPOLL_CTL_DEL, rank_info(rank)->life, NULL);
}

static void service_handle(const struct epoll_event *ev)
{
	uint16_t rank = (uint16_t)ev->data.u64;
	char rings[64];
	uint64_t n;

	switch (ev->data.u64 & WHAT_MASK) {
	case WHAT_DOORBELL:
		if (read(rank_info(job.rank)->doorbell, &n, sizeof(n)) < 0)
			n = 0;
		break;
	case WHAT_PROCESS:
	case WHAT_LIFE:
		unwatch(rank);
		lost_process(rank);
		break;
	case WHAT_HOST: job.host->lost(); break;
	case WHAT_NET: woken = spent = true; break;
	case WHAT_BELL:
		while (read(job.netops->bell(job.net), rings, sizeof(rings)) == sizeof(rings))
			;
		break;
	default: break;
	}
}

/* Does anything depend on usage_tick()? */
static bool service_looks(void)
{
	return usage_watches() || job.set.memory;
}

/* The longest sleep in epoll. */
static int service_timeout(bool busy, bool dozes)
{
	int ms = !job.net                       ? -1
		: job.set.lost_ms / 4 < TICK_MS ? (int)job.set.lost_ms / 4 + 1
						: TICK_MS;

	if (busy) /* timers are due in microseconds: yield, because a sleep could take longer */
		return 0;
	if (dozes)
		return DOZE_MS;
	if (deadlock_watches() && (ms < 0 || ms > deadlock_ms()))
		ms = deadlock_ms();
	if (service_looks() && (ms < 0 || ms > (int)(usage_period() / 1000000)))
		ms = (int)(usage_period() / 1000000);
	return threads_check() && (ms < 0 || ms > THREADS_MS) ? THREADS_MS : ms;
}

/* Events other than messages, which ring the doorbell of a sleeping thread. */
static bool has_other_work(void)
{
	return work_late_waits() || call_waits() || __atomic_load_n(&stopping, __ATOMIC_RELAXED);
}

/*
 * Launchers bind a rank to one processor by default. This thread must be able to run when the
 * application uses that one.
 */
static void be_anywhere(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all); /* the kernel keeps only permitted ones */
	moved = false;
}

/*
 * Move to the processor of a sleeping thread, which nobody needs. The kernel would wake this thread
 * near the sender.
 */
static bool move_over(void)
{
	const unsigned int cpu = wait_sleeper_cpu();
	cpu_set_t one;

	if (moved || cpu >= CPU_SETSIZE)
		return false;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	moved = !sched_setaffinity(0, sizeof(one), &one);
	return moved;
}

/* Does another thread want this processor? Checked from time to time. */
static bool is_in_the_way(uint32_t *rounds, uint64_t now)
{
	if (++*rounds % SPIN_YIELD)
		return false;
	sched_yield();
	return clock_ns() - now > SPIN_SWITCHED_NS && !move_over();
}

/* What has come lately. */
static struct {
	struct spin spin; /* intervals between messages */
	uint64_t last;    /* time of the last message; 0: none has come */
	bool slept;       /* has this thread slept since then, or is it about to? */
} coming;

static void message_came(void)
{
	const uint64_t now = clock_ns();

	if (coming.last)
		spin_saw(&coming.spin, now - coming.last, job.spin_us * 1000ull, coming.slept);
	coming.last = now;
	coming.slept = false;
}

/*
 * A peer that waits for each answer sends its next message soon after it, and waking this thread
 * takes longer than everything else. So after a message it polls for the next one, for as long as a
 * waiter would (spin.h). It does so only while a thread of this rank sleeps, since then a processor
 * is likely to be idle, and none polls: that one takes the message, and this one would take a
 * processor from a thread that it serves. It does not if the transport's own threads poll. True: a
 * message has come.
 */
static bool next_comes(void)
{
	const uint64_t set = job.spin_us * 1000ull;
	uint32_t rounds = 0;
	uint64_t now;

	if (job.netops->threads || coming.slept || !coming.last)
		return false;
	do {
		if (has_other_work())
			return false;
		now = clock_ns();
		if (!wait_sleepers() || wait_polls() ||
		    now - coming.last >= spin_limit(&coming.spin, set) ||
		    is_in_the_way(&rounds, now)) {
			if (moved)
				be_anywhere();
			coming.slept = true;
			return false;
		}
		cpu_relax();
	} while (run_poll(64) <= 0);
	message_came();
	return true;
}

/* needed: a message has come that no other thread would have handled. */
static unsigned int lingers(bool needed)
{
	static struct linger linger;
	static uint32_t seen;
	const bool vain = woken, waits = wait_polled(&seen);

	woken = false;
	return job.netops->threads ? 0
				   : linger_for(&linger, needed, vain, waits && !wait_sleepers());
}

/* dozes: for a short sleep. False: a message is there already. */
static bool arm(bool *dozes)
{
	int err = *dozes && job.netops->doze ? job.netops->doze(job.net) : -ENOTSUP;

	if (err == -ENOTSUP) {
		*dozes = false;
		err = job.netops->arm(job.net);
	}
	if (err == -EBUSY)
		return false;
	if (err == 1 ? !edges : spent && !job.netops->threads) {
		edges = err == 1;
		watch_as(job.netops->fd(job.net), WHAT_NET, EPOLL_CTL_MOD);
	}
	spent = false;
	return true;
}

/* ns: the longest sleep, below one second; 0: sleep as service_timeout() says. */
static int wait_events(struct epoll_event *ev, int max, uint64_t ns, bool busy, bool dozes)
{
	const struct timespec soon = { .tv_nsec = (long)ns };
	struct pollfd fd = { .fd = job.epoll, .events = POLLIN };

	if (ns)
		ppoll(&fd, 1, &soon, NULL);
	return epoll_wait(job.epoll, ev, max, service_timeout(busy || ns, dozes));
}

static void serve_once(uint64_t *last_ping)
{
	struct epoll_event ev[16];
	bool busy = work_late(), dozes = false;
	uint64_t linger = 0, keeps, now;
	int i, n;

	if (moved && !wait_sleepers())
		be_anywhere();
	busy |= call_serve();
	busy |= run_late();
	if (heap_wants_drain(rank_info(job.rank)->heap))
		heap_drain();
	if (job.net) {
		/* then that thread takes messages, or would have */
		const bool polled = wait_polls();
		bool came = false;

		while (run_poll(64) > 0)
			came = true;
		busy |= work_late();
		if (came)
			message_came();
		if (!busy && next_comes())
			busy = came = true;
		linger = lingers(came && !polled);
		if (busy)
			linger = 0;
		/*
		 * A requester says that it has used the block: that can wait for its next request.
		 */
		dozes = run_expects_done() && !wait_sleepers();
		if (!busy && !linger && !arm(&dozes))
			busy = true;
		now = clock_ns();
		if (job.host->check_waits)
			job.host->check_waits();
		stall_ask();
		if (now - *last_ping > job.set.lost_ms * 1000000ull / 4) {
			*last_ping = now;
			lost_silence();
		}
	}
	if (deadlock_watches())
		deadlock_check(clock_ns());
	if (reclaim_is_due())
		reclaim_frames(false);
	if (service_looks())
		usage_tick(clock_ns());
	keeps = run_kept(false);
	if (!busy && keeps && (!linger || keeps < linger))
		linger = keeps;
	n = wait_events(ev, 16, linger, busy, dozes);
	for (i = 0; i < n; i++)
		service_handle(&ev[i]);
	if (busy)
		sched_yield();
}

static void *service(void *arg)
{
	uint64_t last_ping = 0;

	prctl(PR_SET_NAME, "dsm-service");
	prctl(PR_SET_TIMERSLACK, LINGER_NS / 10);
	engine_thread(arg);
	be_anywhere();
	while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
		serve_once(&last_ping);
	return NULL;
}

int service_start(void)
{
	sigset_t all, old;
	uint16_t r;
	int err;

	spent = edges = false;
	job.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (job.epoll < 0)
		return -errno;
	err = service_watch(rank_info(job.rank)->doorbell, WHAT_DOORBELL);
	if (!err && job.net)
		err = service_watch(job.netops->fd(job.net), WHAT_NET);
	if (!err && job.net && job.netops->bell && job.netops->bell(job.net) >= 0)
		err = service_watch(job.netops->bell(job.net), WHAT_BELL);
	if (!err && job.host->fd)
		err = service_watch(job.host->fd(), WHAT_HOST);
	for (r = 0; !err && r < job.size; r++)
		if (r != job.rank && rank_info(r)->pidfd >= 0)
			err = service_watch(rank_info(r)->pidfd, WHAT_PROCESS | r);
	for (r = 0; !err && r < job.size; r++)
		if (r != job.rank && rank_info(r)->life >= 0)
			err = service_watch(rank_info(r)->life, WHAT_LIFE | r);
	if (err)
		return err;
	stopping = 0;
	word_lock_late = lost_scan;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&job.service, NULL, service, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

void service_stop(void)
{
	word_lock_late = NULL;
	if (job.service) {
		__atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
		job_ring(job.rank);
		pthread_join(job.service, NULL);
	}
	job.service = 0;
	if (job.epoll >= 0)
		close(job.epoll);
	job.epoll = -1;
}

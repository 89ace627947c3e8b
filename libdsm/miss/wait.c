// SPDX-License-Identifier: BSD-2-Clause
/*
 * wait.c - how a thread waits for the answer in its slot.
 *
 * A waiter first polls for a while, doing any work there is (timers, the transport), then sleeps on
 * its slot's count of completions. Only its own events wake it.
 */
#include "miss/wait.h"

#include <sched.h>

#include "fault/catch.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/note.h"
#include "job/upcalls.h"
#include "miss/keep.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "miss/spin.h"
#include "miss/work.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"

/*
 * A sleeper checks whether the job still lives: first after this time, then after twice as long
 * each time. Thousands of threads may sleep for long, and the service thread checks for all of
 * them.
 */
#define NAP_NS 200000000ull
#define NAP_MAX_NS 12800000000ull

/*
 * A polling thread checks the transport in every second round. With a check in every eighth,
 * answers waited for the check: the fastest barriers and locks between two nodes took 1.2 to 1.5
 * times as long.
 */
#define HELP_ROUNDS 2

/*
 * Do the work there is. True: more will come soon, so do not sleep. *came: the transport delivered
 * something.
 */
static bool help(bool *came)
{
	bool busy = work_timers(false);

	run_kept(false);
	*came = job.net && run_poll(16) > 0;
	return busy || *came;
}

static uint32_t pollers; /* threads of this process that poll here */
static uint32_t begun;   /* waits that have begun; wraps around */

bool wait_polls(void)
{
	return __atomic_load_n(&pollers, __ATOMIC_RELAXED);
}

bool wait_polled(uint32_t *seen)
{
	const uint32_t old = *seen;

	*seen = __atomic_load_n(&begun, __ATOMIC_RELAXED);
	return *seen != old || wait_polls();
}

/* A waiting thread polls the transport; meanwhile no other thread need be woken for it. */
static void poll_begin(enum net_wait_step how)
{
	if (!job.net)
		return;
	__atomic_fetch_add(&pollers, 1, __ATOMIC_RELAXED);
	if (how == NET_WAIT_BEGIN)
		__atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	if (job.netops->wait_step)
		job.netops->wait_step(job.net, how);
}

/* False: a message has come meanwhile. */
static bool poll_pause(void)
{
	if (!job.net)
		return true;
	__atomic_fetch_sub(&pollers, 1, __ATOMIC_RELAXED);
	return (job.netops->wait_step ? job.netops->wait_step(job.net, NET_WAIT_SLEEP)
				      : job.netops->arm(job.net)) != -EBUSY;
}

/* The wait is over: later messages are for the threads of the runtime. */
static void poll_end(void)
{
	if (!job.net)
		return;
	__atomic_fetch_sub(&pollers, 1, __ATOMIC_RELAXED);
	if (job.netops->wait_step && job.netops->wait_step(job.net, NET_WAIT_END) == -EBUSY)
		do {
			poll_begin(NET_WAIT_POLL);
			while (run_poll(16) > 0)
				;
		} while (!poll_pause());
}

/* between wait_begin() and the wait */
static __thread bool announced __attribute__((tls_model("initial-exec")));

void wait_begin(void)
{
	if (!announced)
		poll_begin(NET_WAIT_BEGIN);
	announced = true;
}

void wait_end(void)
{
	if (announced)
		poll_end();
	announced = false;
}

/* A wait begins. */
static void poll_now(void)
{
	if (!announced)
		poll_begin(NET_WAIT_BEGIN);
	announced = false;
}

/* Separate statistics for misses, brief requests, lasting requests, and words (barriers, slots). */
enum wait_kind { WAIT_MISS, WAIT_BRIEF, WAIT_LASTING, WAIT_WORD, WAIT_KINDS };

static __thread struct spin spins[WAIT_KINDS] __attribute__((tls_model("initial-exec")));

/* for the next message */
static __thread struct spin nexts __attribute__((tls_model("initial-exec")));

struct patience {
	enum wait_kind kind;
	uint64_t began; /* restarts when a message comes */
	uint64_t start, until, nap, asked;
	uint64_t slept; /* start of the sleep, apart from short breaks; 0: it has not slept */
	uint64_t next;  /* start of polling for the next message meanwhile; 0: it does not */
	uint32_t block; /* block that is waited for; 0: something else */
	int note;       /* note of stall.c, + 1 */
	unsigned int rounds;
	int rests;        /* engine_rests */
	bool point;       /* the wait is a cancellation point */
	bool crowded;     /* other threads want this processor */
	uint8_t switched; /* calls of sched_yield(2) in a row after which another thread had run */
	uint32_t *asleep; /* while it may be cancelled: the counter of sleepers that includes it */
	const uint32_t *stop;
};

static uint32_t asleep;    /* threads of this process that sleep here */
static uint32_t asleep_on; /* the processor on which the last of them fell asleep */

uint32_t wait_sleepers(void)
{
	return __atomic_load_n(&asleep, __ATOMIC_RELAXED);
}

unsigned int wait_sleeper_cpu(void)
{
	return __atomic_load_n(&asleep_on, __ATOMIC_RELAXED);
}

/* Has a handler ended the wait? */
static bool is_stopped(const uint32_t *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* Kept signals run their handlers in engine_rest(). */
static void sleep_on(uint32_t *word, uint32_t seen, uint64_t ns, const uint32_t *stop)
{
	const int before = engine_rest(fault_handling() ? engine_rests : engine_depth);

	if (!is_stopped(stop))
		futex_wait(word, seen, ns);
	engine_rest(before);
}

/*
 * A thread may be cancelled in the system call, or just before or after it; cancel_wait() undoes
 * what be_patient() has done.
 */
static void doze(struct patience *p, uint32_t *word, uint32_t seen, uint32_t *sleepers, uint64_t ns)
{
	int state, type;

	if (!p->point) {
		sleep_on(word, seen, ns, NULL);
		return;
	}
	__atomic_store_n(&p->asleep, sleepers, __ATOMIC_RELAXED);
	pthread_setcancelstate(engine_cancel, &state);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	sleep_on(word, seen, ns, p->stop);
	pthread_setcanceltype(type, &type);
	pthread_setcancelstate(state, &state);
	__atomic_store_n(&p->asleep, NULL, __ATOMIC_RELAXED);
}

/*
 * In the fault handler, which blocks signals, a sleeper checks for pending ones at this interval,
 * which grows with the number of sleepers.
 */
#define SIGNAL_NS 20000000ull
#define SIGNAL_EACH_NS 400000ull

static uint32_t dozing; /* threads that sleep in the fault handler */

static uint64_t signal_ns(void)
{
	return SIGNAL_NS + __atomic_load_n(&dozing, __ATOMIC_RELAXED) * SIGNAL_EACH_NS;
}

/*
 * A thread that has waited for a lock for so long is not served soon: the holder may be another
 * node's thread that waits for a lock that this node keeps.
 */
#define STUCK_NS 300000ull

/*
 * The longest sleep: to the time limit, to the next check of the job, or to the next check for
 * signals.
 */
static uint64_t nap(struct patience *p, uint64_t now)
{
	uint64_t ns;

	p->nap = p->nap ? p->nap * 2 : NAP_NS;
	if (p->nap > NAP_MAX_NS)
		p->nap = NAP_MAX_NS;
	ns = p->until && p->until - now < p->nap ? p->until - now : p->nap;
	ns = note_nap(p->slept, now, ns);
	if (keep_any() && p->kind == WAIT_LASTING && ns > STUCK_NS)
		ns = STUCK_NS;
	return fault_handling() && ns > signal_ns() ? signal_ns() : ns;
}

/*
 * In the fault handler: is a signal pending? Checked only at an interval, also by a thread that
 * never sleeps because many messages come.
 */
static bool interrupted(struct patience *p, uint64_t now)
{
	if (!fault_handling() || now - p->asked < signal_ns() * 3 / 4)
		return false;
	p->asked = now;
	return fault_signal_waits();
}

/*
 * Another thread that needs the processor may be the one that must answer; polling then delays the
 * answer. A miss is different: another node answers it, and the polling thread receives the answer
 * itself, without an interrupt.
 */
static void poll_on(struct patience *p, uint64_t now)
{
	bool early = now - p->start < job.spin_us * 1000ull;

	if (early && (p->kind == WAIT_MISS || p->rounds % SPIN_YIELD)) {
		cpu_relax();
		return;
	}
	sched_yield();
	if (p->kind == WAIT_MISS)
		return;
	p->switched = clock_ns() - now > SPIN_SWITCHED_NS ? p->switched + 1 : 0;
	p->crowded = p->switched == SPIN_CROWDED;
}

/* Does the wait end only when another thread of the program acts, as far as the runtime knows? */
static bool lasts(const struct patience *p)
{
	return !p->until && (p->kind == WAIT_LASTING || p->kind == WAIT_WORD);
}

/*
 * After one message others may follow: poll again, so that a busy home is not woken for each. The
 * limit comes from earlier waits for such messages, not from waits like this one, which may be
 * long.
 */
static void expect_next(struct patience *p, uint64_t now)
{
	if (p->next)
		spin_saw(&nexts, now - p->next, job.spin_us * 1000ull, false);
	p->start = p->next = now;
}

/* A miss may bring a run of blocks, which takes longer than an answer. */
static uint64_t spin_set(const struct patience *p)
{
	return job.spin_us * (p->kind == WAIT_MISS ? 2000ull : 1000ull);
}

static bool polls(struct patience *p, uint64_t now)
{
	const uint64_t set = job.spin_us * 1000ull;

	if (now - p->start < spin_limit(&spins[p->kind], spin_set(p)))
		return true;
	if (!p->next)
		return false;
	if (now - p->next < spin_limit(&nexts, set))
		return true;
	spin_saw(&nexts, now - p->next, set, true);
	p->next = 0;
	return false;
}

/*
 * Sleep or spin once; *word changes when there is something new. Returns 0, -ETIMEDOUT or -EINTR. A
 * thread that has kept a signal sleeps, so that its handler runs.
 */
static int be_patient(struct patience *p, uint32_t *word, uint32_t seen, uint32_t *sleepers)
{
	uint64_t now;
	bool came;

	if (++p->rounds % HELP_ROUNDS) {
		cpu_relax();
		return 0;
	}
	now = clock_ns();
	if (!p->start)
		p->start = p->began = p->asked = now;
	if (p->until && now >= p->until)
		return -ETIMEDOUT;
	if (interrupted(p, now) || is_stopped(p->stop))
		return -EINTR;
	job_await_loss();
	if (help(&came) && !engine_kept) {
		if (came)
			expect_next(p, now);
		return 0;
	}
	if (p->kind == WAIT_LASTING && now - p->began > STUCK_NS)
		run_kept(true);
	if (!p->crowded && !engine_kept && polls(p, now)) {
		poll_on(p, now);
		return 0;
	}
	if (!p->slept) {
		p->slept = now;
		p->note = note_begin(p->block, lasts(p), now) + 1;
	}
	job.up->long_wait(p->slept, now);
	if (fault_handling())
		HOOK(miss_sleep);
	else
		HOOK(call_sleep);
	if (poll_pause()) {
		/* A full barrier, which pairs with those of wait_wake(), slot_complete() and
		 * publish() (chunk.c): either the waker sees the count, or this thread sees the
		 * word. */
		__atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&asleep_on, (uint32_t)sched_getcpu(), __ATOMIC_RELAXED);
		__atomic_fetch_add(&asleep, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&dozing, (uint32_t)fault_handling(), __ATOMIC_RELAXED);
		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen)
			doze(p, word, seen, sleepers, nap(p, now));
		__atomic_fetch_sub(&dozing, (uint32_t)fault_handling(), __ATOMIC_RELAXED);
		__atomic_fetch_sub(&asleep, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
	}
	poll_begin(NET_WAIT_POLL);
	return 0;
}

static struct patience patience(uint16_t slot, uint64_t ns, bool point)
{
	return (struct patience){ .until = ns ? clock_ns() + ns : 0,
				  .rests = engine_rests,
				  .point = point,
				  .kind = slot_is_block(slot)    ? WAIT_MISS
					  : slot < CTL_BRIEF_END ? WAIT_BRIEF
								 : WAIT_LASTING,
				  .block = slot_is_block(slot) ? slot_object(NULL, slot) : 0 };
}

static void end_patience(struct patience *p)
{
	if (p->began)
		spin_saw(&spins[p->kind], clock_ns() - p->began, spin_set(p),
			 p->kind != WAIT_MISS && (p->slept || p->crowded));
	note_end(p->note - 1);
	poll_end();
}

static int wait_until(struct patience *p, uint16_t slot, uint32_t seq, uint32_t n)
{
	struct slot *s = &job.me->slots[slot];
	int err;

	for (;;) {
		uint32_t now = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE);

		if (now - seq >= n)
			return 0;
		err = be_patient(p, &s->seq, now, &s->sleepers);
		if (err)
			return err;
	}
}

int wait_slot(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns)
{
	struct patience p = patience(slot, ns, false);
	int err;

	if (slot_seq(slot) - seq >= n)
		return 0;
	poll_now();
	err = wait_until(&p, slot, seq, n);
	end_patience(&p);
	return err;
}

static void cancel_wait(void *arg)
{
	struct patience *p = arg;

	engine_rest(p->rests);
	if (p->asleep) {
		__atomic_fetch_sub(p->asleep, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&asleep, 1, __ATOMIC_RELAXED);
		poll_begin(NET_WAIT_POLL);
	}
	end_patience(p);
	keep_resume();
}

int wait_slot_point(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns, const uint32_t *stop)
{
	struct patience p = patience(slot, ns, true);
	int err;

	p.stop = stop;
	if (slot_seq(slot) - seq >= n)
		return 0;
	keep_pause();
	poll_now();
	pthread_cleanup_push(cancel_wait, &p);
	err = wait_until(&p, slot, seq, n);
	pthread_cleanup_pop(1);
	return err;
}

int wait_word(uint32_t *word, uint32_t old, uint32_t *sleepers)
{
	struct patience p = { .kind = WAIT_WORD };
	int err = 0;

	keep_pause();
	poll_now();
	while (!err && __atomic_load_n(word, __ATOMIC_ACQUIRE) == old)
		err = be_patient(&p, word, old, sleepers);
	end_patience(&p);
	keep_resume();
	return err;
}

void wait_wake(uint32_t *word, uint32_t *sleepers)
{
	/* A full barrier, which pairs with the sleeper's count in be_patient(). */
	if (__atomic_fetch_add(sleepers, 0, __ATOMIC_SEQ_CST))
		futex_wake(word, 1 << 30);
}

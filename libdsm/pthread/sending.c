// SPDX-License-Identifier: BSD-2-Clause
/*
 * sending.c - the program is one process to itself: rank 0's. getpid() returns its number on all
 * ranks, and calls that send signals to it, set its timers, or concern its parent, group and
 * session are carried out there (everywhere.c). pending.c says which thread of the job takes such a
 * signal.
 *
 * The C library's thread that runs a function of SIGEV_THREAD blocks all signals, those of misses
 * too: begin_notice() unblocks them.
 */
#include "shim.h"

#include <mqueue.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/raw_syscall.h"
#include "callbacks.h"
#include "everywhere.h"
#include "masks.h"
#include "signals.h"

extern void *__libc_malloc(size_t size);

struct call {
	enum {
		KILL,
		QUEUE,
		ALARM,
		SET_ITIMER,
		GET_ITIMER,
		CREATE,
		SET,
		GET,
		DELETE,
		NOTIFY,
		OVERRUN,
		PARENT,
		GROUP,
		SET_GROUP,
		SESSION,
		NEW_SESSION
	} what;
	int number, flags; /* SET_GROUP: the group */
	long result;
	int err; /* errno */
	pid_t pid;
	timer_t timer;
	union {
		union sigval value;
		unsigned int seconds;
		struct itimerval interval;
		struct itimerspec spec;
		struct sigevent event;
	} in, out;
	bool has_in; /* CREATE, NOTIFY: an event is given */
};

static long make_call(struct call *c)
{
	switch (c->what) {
	case KILL: return NEXT(kill)(c->pid, c->number);
	case QUEUE: return NEXT(sigqueue)(c->pid, c->number, c->in.value);
	case ALARM: return NEXT(alarm)(c->in.seconds);
	case SET_ITIMER: return NEXT(setitimer)(c->number, &c->in.interval, &c->out.interval);
	case GET_ITIMER: return NEXT(getitimer)(c->number, &c->out.interval);
	case CREATE:
		return NEXT(timer_create)(c->number, c->has_in ? &c->in.event : NULL, &c->timer);
	case SET: return NEXT(timer_settime)(c->timer, c->flags, &c->in.spec, &c->out.spec);
	case GET: return NEXT(timer_gettime)(c->timer, &c->out.spec);
	case DELETE: return NEXT(timer_delete)(c->timer);
	case NOTIFY: return NEXT(mq_notify)(c->number, c->has_in ? &c->in.event : NULL);
	case OVERRUN: return NEXT(timer_getoverrun)(c->timer);
	case PARENT: return NEXT(getppid)();
	case GROUP: return NEXT(getpgid)(c->pid);
	case SET_GROUP: return NEXT(setpgid)(c->pid, c->number);
	case SESSION: return NEXT(getsid)(c->pid);
	case NEW_SESSION: break;
	}
	return NEXT(setsid)();
}

/* On rank 0. */
static int make_call_there(void *arg)
{
	struct call *c = arg;

	errno = 0;
	c->result = make_call(c);
	c->err = errno;
	return 0;
}

/* Make the call on a rank. Result and errno are those of the function. */
static long on_rank(int rank, struct call *c)
{
	const int saved = errno;
	const int err = rank == shim.rank ? make_call_there(c)
					  : ranks_run(rank, make_call_there, c, sizeof(*c));

	if (err) {
		errno = -err;
		return -1;
	}
	errno = c->result < 0 ? c->err : saved;
	return c->result;
}

EXPORT pid_t getpid(void)
{
	const long none[6] = { 0 };
	const pid_t pid = (pid_t)raw_syscall(SYS_getpid, none);

	return pid == shim.pid && caller_is_ours(CALLER) ? shim.leader : pid;
}

/* ---- parent, group, session ------------------------------------------------------------------ */

EXPORT pid_t getppid(void)
{
	struct call c = { .what = PARENT };

	return caller_is_forwarded(CALLER) ? (pid_t)on_rank(0, &c) : NEXT(getppid)();
}

EXPORT pid_t getpgid(pid_t pid)
{
	struct call c = { .what = GROUP, .pid = pid };

	return caller_is_forwarded(CALLER) ? (pid_t)on_rank(0, &c) : NEXT(getpgid)(pid);
}

EXPORT pid_t getpgrp(void)
{
	struct call c = { .what = GROUP };

	return caller_is_forwarded(CALLER) ? (pid_t)on_rank(0, &c) : NEXT(getpgrp)();
}

EXPORT int setpgid(pid_t pid, pid_t group)
{
	struct call c = { .what = SET_GROUP, .pid = pid, .number = group };

	return caller_is_forwarded(CALLER) ? (int)on_rank(0, &c) : NEXT(setpgid)(pid, group);
}

EXPORT int setpgrp(void)
{
	struct call c = { .what = SET_GROUP };

	return caller_is_forwarded(CALLER) ? (int)on_rank(0, &c) : NEXT(setpgrp)();
}

EXPORT pid_t getsid(pid_t pid)
{
	struct call c = { .what = SESSION, .pid = pid };

	return caller_is_forwarded(CALLER) ? (pid_t)on_rank(0, &c) : NEXT(getsid)(pid);
}

EXPORT pid_t setsid(void)
{
	struct call c = { .what = NEW_SESSION };

	return caller_is_forwarded(CALLER) ? (pid_t)on_rank(0, &c) : NEXT(setsid)();
}

/* ---- signals --------------------------------------------------------------------------------- */

/* The process, or its group. */
static bool is_program_of(pid_t pid)
{
	return pid == shim.leader || pid == 0 || pid == -1;
}

EXPORT int kill(pid_t pid, int sig)
{
	struct call c = { .what = KILL, .pid = pid, .number = sig };

	return caller_is_forwarded(CALLER) && is_program_of(pid) ? (int)on_rank(0, &c)
								 : NEXT(kill)(pid, sig);
}

bool signal_ends_unreported(int sig, uint64_t blocked)
{
	return (sig == SIGHUP || sig == SIGINT || sig == SIGTERM) && !(blocked & signal_bit(sig)) &&
		has_default(sig);
}

int signal_end_program(int sig)
{
	struct call c = { .what = KILL, .pid = shim.leader, .number = sig };

	return on_rank(0, &c) ? errno : 0;
}

/* A launcher reports the first process that ends. The others report rank 0 as lost only after it
 * has ended by the signal. */
EXPORT int raise(int sig)
{
	if (!caller_is_forwarded(CALLER) || !signal_ends_unreported(sig, blocked_signals()))
		return NEXT(raise)(sig);
	return signal_end_program(sig) ? -1 : 0;
}

EXPORT int sigqueue(pid_t pid, int sig, const union sigval value)
{
	struct call c = { .what = QUEUE, .pid = pid, .number = sig, .in.value = value };

	return caller_is_forwarded(CALLER) && is_program_of(pid) ? (int)on_rank(0, &c)
								 : NEXT(sigqueue)(pid, sig, value);
}

EXPORT unsigned int alarm(unsigned int seconds)
{
	struct call c = { .what = ALARM, .in.seconds = seconds };

	return caller_is_forwarded(CALLER) ? (unsigned int)on_rank(0, &c) : NEXT(alarm)(seconds);
}

static int set_interval(int which, const struct itimerval *in, struct itimerval *out)
{
	struct call c = { .what = in ? SET_ITIMER : GET_ITIMER, .number = which };
	int err;

	if (in)
		c.in.interval = *in;
	err = (int)on_rank(0, &c);
	if (!err && out)
		*out = c.out.interval;
	return err;
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *in, struct itimerval *out)
{
	return in && caller_is_forwarded(CALLER) ? set_interval((int)which, in, out)
						 : NEXT(setitimer)(which, in, out);
}

EXPORT int getitimer(__itimer_which_t which, struct itimerval *out)
{
	return caller_is_forwarded(CALLER) ? set_interval((int)which, NULL, out)
					   : NEXT(getitimer)(which, out);
}

static struct timeval time_of_us(unsigned int us)
{
	return (struct timeval){ .tv_sec = us / 1000000, .tv_usec = us % 1000000 };
}

EXPORT unsigned int ualarm(unsigned int us, unsigned int interval)
{
	const struct itimerval in = { .it_value = time_of_us(us),
				      .it_interval = time_of_us(interval) };
	struct itimerval out;

	if (!caller_is_forwarded(CALLER))
		return NEXT(ualarm)(us, interval);
	if (set_interval(ITIMER_REAL, &in, &out))
		return (unsigned int)-1;
	return (unsigned int)(out.it_value.tv_sec * 1000000 + out.it_value.tv_usec);
}

/* ---- notification by a thread ---------------------------------------------------------------- */

struct notice {
	void (*fn)(union sigval);
	union sigval value;
};

static void begin_notice(union sigval v)
{
	const struct notice n = *(const struct notice *)v.sival_ptr;

	let_misses();
	call_program((void *)n.fn, (long)n.value.sival_ptr, 0, 0);
}

/* Timers are few, and may expire while they are deleted: this memory is not freed. False: there is
 * none. */
static bool open_notice(struct sigevent *e)
{
	struct notice *n;

	if (e->sigev_notify != SIGEV_THREAD)
		return true;
	n = __libc_malloc(sizeof(*n));
	if (!n)
		return false;
	*n = (struct notice){ e->sigev_notify_function, e->sigev_value };
	e->sigev_notify_function = begin_notice;
	e->sigev_value.sival_ptr = n;
	return true;
}

/* By rank 0's C library, which has the memory of a thread's attributes. */
static int create_there(void *arg)
{
	struct call *c = arg;

	if (c->has_in && !open_notice(&c->in.event)) {
		c->result = -1;
		c->err = c->what == CREATE ? EAGAIN : ENOMEM;
		return 0;
	}
	return make_call_there(c);
}

/* Rank 0 has the queue. */
EXPORT int mq_notify(mqd_t queue, const struct sigevent *event)
{
	struct call c = { .what = NOTIFY, .number = queue, .has_in = event };
	int err;

	if (!caller_is_ours(CALLER) || !is_rank())
		return NEXT(mq_notify)(queue, event);
	if (event)
		c.in.event = *event;
	err = ranks_run(0, create_there, &c, sizeof(c));
	if (err || c.result)
		errno = err ? -err : c.err;
	return err || c.result ? -1 : 0;
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* A timer of another rank than 0, which signals a thread there, has the rank above the kernel's
 * number; one of SIGEV_THREAD is a pointer of rank 0's C library, with the highest bit set. */
#define OWNER_SHIFT 40
#define POINTER (1ul << 63)

static int timer_owner(timer_t timer)
{
	const uintptr_t t = (uintptr_t)timer;

	return t & POINTER ? 0 : (int)(t >> OWNER_SHIFT);
}

static timer_t number_of(timer_t timer)
{
	return timer_owner(timer) ? (timer_t)((uintptr_t)timer & ((1ul << OWNER_SHIFT) - 1))
				  : timer;
}

/* Does it belong to a thread, so that only the thread's own process can make it? */
static bool is_of_thread(const struct call *c)
{
	return c->number == CLOCK_THREAD_CPUTIME_ID ||
		(c->has_in && c->in.event.sigev_notify == SIGEV_THREAD_ID);
}

static int create_timer(struct call *c)
{
	const bool here = shim.rank && is_of_thread(c);
	const int err = here ? create_there(c) : ranks_run(0, create_there, c, sizeof(*c));

	if (err || c->result)
		errno = err ? -err : c->err;
	else if (here)
		c->timer = (timer_t)((uintptr_t)c->timer | (uintptr_t)shim.rank << OWNER_SHIFT);
	return err || c->result ? -1 : 0;
}

/* Make the call on the rank that has the timer. */
static long on_owner(struct call *c)
{
	const int owner = timer_owner(c->timer);

	c->timer = number_of(c->timer);
	return on_rank(owner < shim.size ? owner : 0, c);
}

static bool is_of_program(const void *caller)
{
	return caller_is_ours(caller) && is_rank();
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	struct call c = { .what = CREATE, .number = clock, .has_in = event };

	if (!caller_is_ours(CALLER) || !is_rank())
		return NEXT(timer_create)(clock, event, timer);
	if (event)
		c.in.event = *event;
	if (create_timer(&c))
		return -1;
	*timer = c.timer;
	return 0;
}

EXPORT int timer_settime(timer_t timer, int flags, const struct itimerspec *in,
			 struct itimerspec *out)
{
	struct call c = { .what = SET, .timer = timer, .flags = flags };

	if (!is_of_program(CALLER))
		return NEXT(timer_settime)(timer, flags, in, out);
	c.in.spec = *in;
	if (on_owner(&c))
		return -1;
	if (out)
		*out = c.out.spec;
	return 0;
}

EXPORT int timer_gettime(timer_t timer, struct itimerspec *out)
{
	struct call c = { .what = GET, .timer = timer };

	if (!is_of_program(CALLER))
		return NEXT(timer_gettime)(timer, out);
	if (on_owner(&c))
		return -1;
	*out = c.out.spec;
	return 0;
}

EXPORT int timer_delete(timer_t timer)
{
	struct call c = { .what = DELETE, .timer = timer };

	return is_of_program(CALLER) ? (int)on_owner(&c) : NEXT(timer_delete)(timer);
}

EXPORT int timer_getoverrun(timer_t timer)
{
	struct call c = { .what = OVERRUN, .timer = timer };

	return is_of_program(CALLER) ? (int)on_owner(&c) : NEXT(timer_getoverrun)(timer);
}

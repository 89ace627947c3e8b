// SPDX-License-Identifier: BSD-2-Clause
/*
 * handle.c - functions with a thread as argument: a pthread_t of the program is the handle of
 * libdsm, which the C library must not see.
 *
 * All of them work for a thread of any rank: what the kernel does to a thread is asked for by a
 * thread of its rank. Only the clock of its processor time exists in its process alone: for a
 * thread of another rank, that function fails, and the message names it.
 *
 * dsm_thread_native() calls the C library, which must not touch shared memory: arguments and
 * results are passed through struct request.
 */
#include "shim.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "async.h"
#include "everywhere.h"
#include "pending.h"
#include "processors.h"
#include "signals.h"
#include "sync.h"

#define CPU_BYTES 1024u /* of a set of processors: the kernel's largest */
#define NAME_BYTES 16u

struct request {
	dsm_thread_t t;
	uint64_t ns; /* limit of a join, or FOR_EVER */
	void *result;
	/* a call of the C library; returns 0 or an errno value */
	int (*fn)(pthread_t t, struct request *q);
	bool anywhere; /* not only in this process */
	int err;
	union {
		char name[NAME_BYTES];
		struct {
			int policy;
			struct sched_param param;
		} sched;
		clockid_t clock;
		struct {
			int number;
			union sigval value;
			bool ends; /* it was not sent: it ends the program */
		} signal;
		struct {
			size_t bytes;
			char set[CPU_BYTES];
		} cpus;
		struct dsm_thread_info info;
	};
};
#define FOR_EVER UINT64_MAX

static bool handle_is_ours(pthread_t t)
{
	return is_shared((const void *)t);
}

/* ---- of any rank ----------------------------------------------------------------------------- */

static void do_join(void *arg)
{
	struct request *out = arg, q = *out;

	q.err = q.ns == FOR_EVER ? dsm_join(q.t, &q.result) : dsm_timedjoin(q.t, q.ns, &q.result);
	out->result = q.result;
	out->err = q.err;
}

static int handle_join(pthread_t t, uint64_t ns, void **result)
{
	struct request q = { .t = { t }, .ns = ns };

	dsm_call(do_join, &q);
	if (!q.err && result)
		*result = q.result;
	return -q.err;
}

static int join_until(pthread_t t, void **result, clockid_t clock, const struct timespec *until)
{
	int err;

	if (!until)
		return handle_join(t, FOR_EVER, result);
	if (!is_time(until))
		return EINVAL;
	err = handle_join(t, time_left(clock, until), result);
	return err == EBUSY ? ETIMEDOUT : err;
}

EXPORT int pthread_join(pthread_t t, void **result)
{
	return handle_is_ours(t) ? handle_join(t, FOR_EVER, result) : NEXT(pthread_join)(t, result);
}

EXPORT int pthread_tryjoin_np(pthread_t t, void **result)
{
	return handle_is_ours(t) ? handle_join(t, 0, result) : NEXT(pthread_tryjoin_np)(t, result);
}

EXPORT int pthread_timedjoin_np(pthread_t t, void **result, const struct timespec *until)
{
	return handle_is_ours(t) ? join_until(t, result, CLOCK_REALTIME, until)
				 : NEXT(pthread_timedjoin_np)(t, result, until);
}

EXPORT int pthread_clockjoin_np(pthread_t t, void **result, clockid_t clock,
				const struct timespec *until)
{
	if (!handle_is_ours(t))
		return NEXT(pthread_clockjoin_np)(t, result, clock, until);
	if (until && clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	return join_until(t, result, clock, until);
}

static void do_detach(void *arg)
{
	struct request *out = arg;
	const dsm_thread_t t = out->t;

	out->err = dsm_detach(t);
}

static void do_cancel(void *arg)
{
	struct request *out = arg;
	const dsm_thread_t t = out->t;

	out->err = dsm_cancel(t);
}

EXPORT int pthread_detach(pthread_t t)
{
	struct request q = { .t = { t } };

	if (!handle_is_ours(t))
		return NEXT(pthread_detach)(t);
	dsm_call(do_detach, &q);
	return -q.err;
}

EXPORT int pthread_cancel(pthread_t t)
{
	struct request q = { .t = { t } };
	int err;

	if (!handle_is_ours(t)) {
		/* libdsm calls it as well, on the thread's own rank */
		err = NEXT(pthread_cancel)(t);
		async_cancelled(t);
		return err;
	}
	dsm_call(do_cancel, &q);
	if (!q.err && async_is_on() && dsm_self().id == t)
		pthread_testcancel();
	return -q.err;
}

static void do_query(void *arg)
{
	struct request *out = arg, q = *out;

	q.err = dsm_thread_query(q.t, &q.info);
	out->info = q.info;
	out->err = q.err;
}

/* ---- by the thread's own process ------------------------------------------------------------- */

static int by_library(unsigned long t, void *arg)
{
	struct request *q = arg;

	return q->fn(t, q);
}

static int get_cpus(pthread_t t, struct request *q)
{
	return NEXT(pthread_getaffinity_np)(t, q->cpus.bytes, (cpu_set_t *)q->cpus.set);
}

static int set_cpus(pthread_t t, struct request *q)
{
	return NEXT(pthread_setaffinity_np)(t, q->cpus.bytes, (const cpu_set_t *)q->cpus.set);
}

/* Processors are translated here: that reads shared memory. */
static int ask_process(void *arg)
{
	struct request *q = arg;
	const bool self = dsm_self().id == q->t.id;

	q->err = q->fn == set_cpus ? processors_to_host(q->cpus.set, q->cpus.bytes, self) : 0;
	if (!q->err)
		q->err = dsm_thread_native(q->t, by_library, q);
	if (!q->err && q->fn == get_cpus)
		q->err = processors_to_job(q->cpus.set, q->cpus.bytes, self);
	return 0;
}

static void do_ask(void *arg)
{
	struct request *out = arg, q = *out;
	int err = ask_process(&q);

	if (q.err == -EXDEV && q.anywhere) {
		err = ranks_run(dsm_thread_rank(q.t), ask_process, &q, sizeof(q));
		q.err = err ? err : q.err;
	}
	*out = q;
}

static int get_clock(pthread_t t, struct request *q)
{
	return NEXT(pthread_getcpuclockid)(t, &q->clock);
}

/* Call fn for a thread and return its errno value. ESRCH: the thread has ended. */
static int handle_request(pthread_t t, struct request *q, int (*fn)(pthread_t t, struct request *q))
{
	q->t.id = t;
	q->fn = fn;
	q->anywhere = fn != get_clock;
	dsm_call(do_ask, q);
	return q->err < 0 ? -q->err : q->err;
}

static int get_sched(pthread_t t, struct request *q)
{
	return NEXT(pthread_getschedparam)(t, &q->sched.policy, &q->sched.param);
}

static int set_sched(pthread_t t, struct request *q)
{
	return NEXT(pthread_setschedparam)(t, q->sched.policy, &q->sched.param);
}

static int set_priority(pthread_t t, struct request *q)
{
	return NEXT(pthread_setschedprio)(t, q->sched.param.sched_priority);
}

/*
 * Does the signal end this process, which should not be the first of the job? The kernel's number
 * of the thread is in its clock.
 */
static bool signal_ends_rank(pthread_t t, int sig)
{
	clockid_t clock;

	return shim.rank && signal_ends_unreported(sig, 0) &&
		!NEXT(pthread_getcpuclockid)(t, &clock) &&
		signal_ends_unreported(sig, pending_mask_of(~(clock >> 3)));
}

static int handle_send(pthread_t t, struct request *q)
{
	q->signal.ends = signal_ends_rank(t, q->signal.number);
	if (q->signal.ends)
		return 0;
	return NEXT(pthread_kill)(t, q->signal.number);
}

static int handle_queue(pthread_t t, struct request *q)
{
	q->signal.ends = signal_ends_rank(t, q->signal.number);
	if (q->signal.ends)
		return 0;
	return NEXT(pthread_sigqueue)(t, q->signal.number, q->signal.value);
}

EXPORT int pthread_getschedparam(pthread_t t, int *policy, struct sched_param *param)
{
	struct request q = { 0 };
	int err;

	if (!handle_is_ours(t))
		return NEXT(pthread_getschedparam)(t, policy, param);
	err = handle_request(t, &q, get_sched);
	if (!err) {
		*policy = q.sched.policy;
		*param = q.sched.param;
	}
	return err;
}

EXPORT int pthread_setschedparam(pthread_t t, int policy, const struct sched_param *param)
{
	struct request q = { 0 };

	if (!handle_is_ours(t))
		return NEXT(pthread_setschedparam)(t, policy, param);
	q.sched.policy = policy;
	q.sched.param = *param;
	return handle_request(t, &q, set_sched);
}

EXPORT int pthread_setschedprio(pthread_t t, int priority)
{
	struct request q = { 0 };

	if (!handle_is_ours(t))
		return NEXT(pthread_setschedprio)(t, priority);
	q.sched.param.sched_priority = priority;
	return handle_request(t, &q, set_priority);
}

EXPORT int pthread_getcpuclockid(pthread_t t, clockid_t *clock)
{
	struct request q = { 0 };
	int err;

	if (!handle_is_ours(t))
		return NEXT(pthread_getcpuclockid)(t, clock);
	err = handle_request(t, &q, get_clock);
	if (!err)
		*clock = q.clock;
	if (err == EXDEV)
		start_cannot("pthread_getcpuclockid()");
	return err == EXDEV ? ENOENT : err;
}

EXPORT int pthread_kill(pthread_t t, int sig)
{
	struct request q = { .signal.number = sig };
	int err;

	if (!handle_is_ours(t))
		return NEXT(pthread_kill)(t, sig);
	err = handle_request(t, &q, handle_send);
	if (!err && q.signal.ends)
		return signal_end_program(sig);
	/* it has a handle still, and no thread to receive the signal */
	return err == ESRCH ? 0 : err;
}

EXPORT int pthread_sigqueue(pthread_t t, int sig, const union sigval value)
{
	struct request q = { .signal = { .number = sig, .value = value } };
	int err;

	if (!handle_is_ours(t))
		return NEXT(pthread_sigqueue)(t, sig, value);
	err = handle_request(t, &q, handle_queue);
	return !err && q.signal.ends ? signal_end_program(sig) : err;
}

EXPORT int pthread_getaffinity_np(pthread_t t, size_t size, cpu_set_t *set)
{
	struct request q = { .cpus.bytes = size < CPU_BYTES ? size : CPU_BYTES };
	int err;

	if (!handle_is_ours(t))
		return NEXT(pthread_getaffinity_np)(t, size, set);
	err = handle_request(t, &q, get_cpus);
	if (!err) {
		memcpy(set, q.cpus.set, q.cpus.bytes);
		memset((char *)set + q.cpus.bytes, 0, size - q.cpus.bytes);
	}
	return err;
}

EXPORT int pthread_setaffinity_np(pthread_t t, size_t size, const cpu_set_t *set)
{
	struct request q = { .cpus.bytes = size < CPU_BYTES ? size : CPU_BYTES };

	if (!handle_is_ours(t))
		return NEXT(pthread_setaffinity_np)(t, size, set);
	memcpy(q.cpus.set, set, q.cpus.bytes);
	return handle_request(t, &q, set_cpus);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void do_rename(void *arg)
{
	struct request *out = arg, q = *out;

	out->err = dsm_thread_rename(q.t, q.name);
}

EXPORT int pthread_setname_np(pthread_t t, const char *name)
{
	struct request q = { .t = { t } };

	if (!handle_is_ours(t))
		return NEXT(pthread_setname_np)(t, name);
	if (strlen(name) >= NAME_BYTES)
		return ERANGE;
	strcpy(q.name, name);
	dsm_call(do_rename, &q);
	return -q.err;
}

EXPORT int pthread_getname_np(pthread_t t, char *name, size_t size)
{
	struct request q = { .t = { t } };

	if (!handle_is_ours(t))
		return NEXT(pthread_getname_np)(t, name, size);
	if (size < NAME_BYTES)
		return ERANGE;
	dsm_call(do_query, &q);
	if (!q.err)
		memcpy(name, q.info.name, NAME_BYTES);
	return -q.err;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Without the processors: the C library would store them in memory of this rank. */
EXPORT int pthread_getattr_np(pthread_t t, pthread_attr_t *attr)
{
	struct request q = { .t = { t } }, s = { 0 };
	int err;

	if (!handle_is_ours(t))
		return NEXT(pthread_getattr_np)(t, attr);
	dsm_call(do_query, &q);
	if (q.err)
		return -q.err;
	err = pthread_attr_init(attr);
	if (!err)
		err = pthread_attr_setstack(attr, q.info.stack, q.info.stack_size);
	if (!err)
		err = pthread_attr_setguardsize(attr, q.info.guard_size);
	if (!err)
		err = pthread_attr_setdetachstate(
			attr, q.info.detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
	if (!err && !handle_request(t, &s, get_sched)) {
		pthread_attr_setschedpolicy(attr, s.sched.policy);
		pthread_attr_setschedparam(attr, &s.sched.param);
	}
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * spawn.c - threads on other ranks.
 *
 * A thread is a record in the shared heap (record.c). The service thread of the chosen rank creates
 * a POSIX thread for it, which is listed there until it ends (native.c). With a shared stack, so
 * that a pointer to a local variable is good on every rank, the record lies at the top of that, and
 * the function runs on it (stack.c); what the kernel and the C library keep for a thread (its
 * descriptor, thread-local storage) stays private.
 */
#include "api/init.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/native.h"
#include "api/record.h"
#include "calls/call.h"
#include "calls/load.h"
#include "job/bad_access.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/note.h"
#include "miss/release.h"
#include "miss/sharing.h"
#include "miss/work.h"
#include "sync/held.h"
#include "util/futex.h"
#include "util/hook.h"

static unsigned long timer_slack; /* of threads of the program, in ns */
static uint32_t spawned;          /* by this rank; atomic */
/* threads here that others may take for ended, and that are still in the runtime; atomic */
static uint32_t ending;

/* As the first thread of the process, whatever the service thread is. */
static void be_scheduled(void)
{
	int nice;

	errno = 0;
	nice = getpriority(PRIO_PROCESS, (id_t)getpid());
	if (!errno)
		setpriority(PRIO_PROCESS, (id_t)gettid(), nice);
	prctl(PR_SET_TIMERSLACK, timer_slack);
}

/* Only those of misses come, or all. */
static void spawn_let_signals(bool all)
{
	sigset_t blocked;

	if (all) {
		sigemptyset(&blocked);
	} else {
		sigfillset(&blocked);
		sigdelset(&blocked, SIGSEGV);
		sigdelset(&blocked, SIGBUS);
	}
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

/*
 * A thread of the program. It was created with all signals blocked, and no handler of the program
 * runs before it or after it.
 */
static void *body(void *arg)
{
	struct live *l = arg;
	struct record *r = l->record;
	char name[RECORD_NAME];
	int state;

	work_take(l->work);
	if (l->by_service)
		be_scheduled();
	spawn_let_signals(false);
	sharing_acquired();
	engine_enter();
	release_acquire();
	engine_leave();
	memcpy(name, r->name, sizeof(name)); /* the kernel does not wait for a block */
	prctl(PR_SET_NAME, name);
	if (!r->masked)
		spawn_let_signals(true);
	stack_run(r);
	spawn_let_signals(false);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	native_forget(l);
	free(l);
	__atomic_fetch_add(&ending, 1, __ATOMIC_SEQ_CST);
	record_end(r);
	held_leave();
	if (!__atomic_sub_fetch(&ending, 1, __ATOMIC_SEQ_CST))
		futex_wake(&ending, INT_MAX);
	return NULL;
}

void spawn_settle(void)
{
	uint32_t n;

	while ((n = __atomic_load_n(&ending, __ATOMIC_SEQ_CST)))
		futex_wait(&ending, n, 1000000000u);
}

/* The record is not looked at: the service thread touches no shared memory. */
static int spawn_on_call(uint64_t arg)
{
	struct live *l = calloc(1, sizeof(*l));
	pthread_attr_t attr;
	sigset_t before;
	cpu_set_t bound;
	int err;

	if (!l)
		return -EAGAIN;
	/* without it, the thread's first step of the protocol would end the process */
	l->work = work_reserve();
	if (!l->work) {
		free(l);
		return -EAGAIN;
	}
	l->by_service = pthread_equal(pthread_self(), job.service);
	l->record = (struct record *)(uintptr_t)arg;
	native_note(l);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_OWN + RECORD_STACK);
	/* The service thread may run anywhere; what it starts is bound as the rank is. */
	if (l->by_service && !sched_getaffinity(getpid(), sizeof(bound), &bound))
		pthread_attr_setaffinity_np(&attr, sizeof(bound), &bound);
	/*
	 * l->thread is there before anybody looks for it; the thread begins with all signals
	 * blocked.
	 */
	native_lock(&before);
	err = pthread_create(&l->thread, &attr, body, l);
	native_unlock(&before);
	pthread_attr_destroy(&attr);
	if (err) {
		native_forget(l);
		work_release(l->work);
		free(l);
	}
	return -err;
}

void spawn_start(void)
{
	timer_slack = (unsigned long)prctl(PR_GET_TIMERSLACK);
	call_spawn = spawn_on_call;
	call_cancel = native_cancel;
	bad_access_guard = stack_overflow;
}

/*
 * Ranks in turn, beginning behind this one; so many threads on each before the next one's turn; or
 * that with the fewest threads.
 */
static int choose_any(void)
{
	const uint32_t n = __atomic_fetch_add(&spawned, 1, __ATOMIC_RELAXED);
	const uint32_t each = job.set.threads ? job.set.threads : 1;

	if (!strcmp(job.set.place, "fill"))
		return (int)((job.rank + (n + 1) / each) % job.size);
	if (!strcmp(job.set.place, "load")) {
		uint16_t rank;
		int err = load_least((uint16_t)((job.rank + n + 1) % job.size), &rank);

		return err ? err : rank;
	}
	return (int)((job.rank + n + 1) % job.size);
}

/*
 * The rank of this node with the fewest threads. Of several, another one each time: threads may end
 * soon.
 */
static int choose_of_node(uint16_t node)
{
	static uint32_t chosen;
	const uint32_t n = __atomic_fetch_add(&chosen, 1, __ATOMIC_RELAXED);
	uint16_t rank;
	int err = load_on(node, (uint16_t)((job.rank + n + 1) % job.size), &rank);

	return err ? err : rank;
}

/* The rank that `where` means, or -errno. */
static int spawn_choose(int where)
{
	if (where == -1)
		return choose_any();
	if (where >= 0 && where < job.size)
		return where;
	if (where >= DSM_ON_NODE(0) && where < DSM_ON_NODE(job.nodes))
		return choose_of_node((uint16_t)(where - DSM_ON_NODE(0)));
	return -EINVAL;
}

DSM_API int dsm_spawn(dsm_thread_t *t, int where, const struct dsm_thread_options *opt,
		      void *(*fn)(void *), void *arg)
{
	struct record *r;
	uint64_t at;
	int err = job_ready(), rank;

	if (err)
		return err;
	if (!t || !fn)
		return -EINVAL;
	rank = spawn_choose(where);
	err = rank < 0 ? rank : record_make(opt, false, fn, arg, &r);
	if (err)
		return err;
	r->rank = rank;
	r->state = opt && opt->detached ? RECORD_DETACHED : RECORD_RUNS;
	at = (uintptr_t)r;
	engine_enter();
	release_close();
	engine_leave();
	HOOK(spawn_made);
	err = call_rank((uint16_t)r->rank, CALL_SPAWN, &at, sizeof(at), NULL, 0);
	HOOK(spawn_began);
	if (err)
		record_release(r);
	else
		t->id = at;
	return err;
}

/* ns NULL: for ever; 0: not at all. */
static int spawn_await_end(dsm_sem_t *done, const uint64_t *ns)
{
	int err;

	if (!ns)
		return dsm_sem_wait(done);
	if (*ns)
		return dsm_sem_timedwait(done, *ns);
	err = dsm_sem_trywait(done);
	return err == -EAGAIN ? -EBUSY : err;
}

/* What a call returns where record_of() has found none. */
static int no_thread(dsm_thread_t t)
{
	return t.id ? -ESRCH : -EINVAL;
}

static int spawn_join(dsm_thread_t t, const uint64_t *ns, void **result)
{
	struct record *r = record_of(t);
	int err = job_ready();
	dsm_sem_t done;
	bool labels;

	if (err)
		return err;
	if (!r)
		return no_thread(t);
	if (r->state == RECORD_DETACHED)
		return -EINVAL;
	if (r == stack_record())
		return -EDEADLK;
	done = r->done;
	labels = label_begin(DSM_WAIT_JOIN, r);
	err = spawn_await_end(&done, ns);
	label_end(labels);
	if (err)
		return err;
	HOOK(join_ended);
	if (result)
		*result = r->result;
	record_release(r);
	return 0;
}

DSM_API int dsm_join(dsm_thread_t t, void **result)
{
	return spawn_join(t, NULL, result);
}

DSM_API int dsm_timedjoin(dsm_thread_t t, uint64_t ns, void **result)
{
	return spawn_join(t, &ns, result);
}

DSM_API int dsm_cancel(dsm_thread_t t)
{
	const struct record *r = record_of(t);
	int err = job_ready();

	if (err)
		return err;
	if (!r)
		return no_thread(t);
	return call_rank((uint16_t)r->rank, CALL_CANCEL, &t.id, sizeof(t.id), NULL, 0);
}

DSM_API int dsm_detach(dsm_thread_t t)
{
	struct record *r = record_of(t);
	int err = job_ready();
	uint32_t was;

	if (err)
		return err;
	if (!r)
		return no_thread(t);
	was = __atomic_exchange_n(&r->state, RECORD_DETACHED, __ATOMIC_SEQ_CST);
	if (was == RECORD_ENDED)
		record_release(r);
	return was == RECORD_DETACHED ? -EINVAL : 0;
}

DSM_API int dsm_thread_rank(dsm_thread_t t)
{
	const struct record *r = record_of(t);

	return r ? r->rank : no_thread(t);
}

DSM_API int dsm_thread_native(dsm_thread_t t, int (*fn)(unsigned long thread, void *arg), void *arg)
{
	const struct record *r = record_of(t);
	int err = job_ready();

	if (err)
		return err;
	if (!fn)
		return -EINVAL;
	if (!r)
		return no_thread(t);
	if (r == stack_record())
		return fn(pthread_self(), arg);
	return r->rank == job.rank ? native_call(t.id, fn, arg) : -EXDEV;
}

static int spawn_set_name(unsigned long thread, void *arg)
{
	return -pthread_setname_np(thread, arg);
}

static int get_name(unsigned long thread, void *arg)
{
	return -pthread_getname_np(thread, arg, RECORD_NAME);
}

DSM_API int dsm_thread_rename(dsm_thread_t t, const char *name)
{
	struct record *r = record_of(t);
	char copy[RECORD_NAME] = "";
	int err = job_ready();

	if (err)
		return err;
	if (!name)
		return -EINVAL;
	if (!r)
		return no_thread(t);
	if (strlen(name) >= sizeof(copy))
		return -ERANGE;
	strcpy(copy, name);
	memcpy(r->name, copy, sizeof(copy));
	__atomic_store_n(&r->called, dsm_thread_native(t, spawn_set_name, copy) != 0,
			 __ATOMIC_RELEASE);
	return 0;
}

/*
 * The kernel has the name, which prctl(2) may have changed, or is told now; else the record has it.
 */
static void spawn_name(struct record *r, char *out)
{
	const dsm_thread_t t = { (uintptr_t)r };
	const bool called = __atomic_load_n(&r->called, __ATOMIC_ACQUIRE);
	char name[RECORD_NAME];

	memcpy(name, r->name, sizeof(name));
	if (!called)
		dsm_thread_native(t, get_name, name);
	else if (!dsm_thread_native(t, spawn_set_name, name))
		__atomic_store_n(&r->called, 0, __ATOMIC_RELEASE);
	memcpy(out, name, sizeof(name));
}

DSM_API int dsm_thread_query(dsm_thread_t t, struct dsm_thread_info *info)
{
	struct record *r = record_of(t);
	int err = job_ready();

	if (err)
		return err;
	if (!r)
		return no_thread(t);
	*info = (struct dsm_thread_info){ .rank = r->rank,
					  .detached = r->state == RECORD_DETACHED };
	info->stack = r->stack;
	info->stack_size = r->size;
	info->guard_size = r->guard;
	spawn_name(r, info->name);
	return 0;
}

DSM_API int dsm_run(const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg,
		    void **result)
{
	struct live l = { .thread = pthread_self() };
	int err = job_ready();
	struct record *r;
	bool unwound;

	if (err)
		return err;
	if (!fn || stack_record())
		return -EINVAL;
	err = record_make(opt, true, fn, arg, &r);
	if (err)
		return err;
	r->rank = job.rank;
	l.record = r;
	r->state = opt && opt->detached ? RECORD_DETACHED : RECORD_RUNS;
	native_note(&l);
	unwound = stack_run(r);
	native_forget(&l);
	if (result)
		*result = r->result;
	if (unwound)
		record_end(r);
	else
		record_release(r);
	return 0;
}

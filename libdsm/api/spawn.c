// SPDX-License-Identifier: BSD-2-Clause
/*
 * spawn.c - threads on other ranks.
 *
 * A thread is a record in the shared heap. The service thread of the chosen rank creates a POSIX thread for it. With a shared
 * stack, so that a pointer to a local variable is good on every rank, the record lies at the top of that, and the function runs
 * on it; what the kernel and the C library keep for a thread (its descriptor, thread-local storage) stays private.
 *
 * A miss of a block of the stack cannot be handled on that stack: part of the thread's private stack is its alternate one for
 * signals. And the runtime cannot run there: it may not miss a block while it holds a lock. dsm_call() goes to the private stack.
 *
 * Cancellation and exit are the C library's. Its unwinding ends in run_here(), so the thread that is left can say that it has
 * ended; and at the foot of the private stack of dsm_call(), from where it goes on on the shared one. There it compares addresses:
 * frames of the private stack look to it as if they lay beyond all handlers of the shared one. The signal by which the C library
 * interrupts a system call is handled on the alternate stack, for the kernel cannot wait for a block of the shared one.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/api.h"
#include "api/spawn.h"
#include "engine/call.h"
#include "engine/inside.h"
#include "engine/job.h"
#include "engine/load.h"
#include "engine/sharing.h"
#include "engine/stall.h"
#include "engine/stray.h"
#include "engine/work.h"
#include "fault/catch.h"
#include "fault/fault.h"
#include "fault/range.h"
#include "sync/held.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

#define STACK_MIN (64ul << 10)
#define STACK_DEFAULT (2ul << 20)
#define WARM (32ul << 10)         /* of a stack, there before the function runs */
#define SIGNAL_STACK (192u << 10) /* what a miss needs, transports included, several times over */
#define CALL_STACK (256u << 10)   /* for dsm_call() */
#define OWN_STACK (SIGNAL_STACK + CALL_STACK + (128u << 10))
#define NAME_BYTES 16u /* as the kernel has them */

enum { RUNS, DETACHED, ENDED };

/* In shared memory: at the top of the stack, or by itself where the stack is private or the program's. */
struct record {
	void *(*fn)(void *);
	void *arg, *result;
	dsm_sem_t done;
	uint32_t state; /* atomic */
	int32_t rank;
	void *memory;       /* what is freed at the end */
	char *stack, *top;  /* the shared one, without guard; NULL: it is private */
	size_t size, guard; /* of the stack, and below it; where the record is at its top, size includes that */
	uint32_t called;    /* by another rank: the kernel does not know the name; atomic */
	char name[NAME_BYTES];
};

/* The fault handler reads it, where no memory can be allocated. */
static __thread struct {
	struct record *record;
	char *low, *high;            /* its shared stack */
	size_t guard;                /* below that, while it is closed */
	char *own;                   /* top of the private one for dsm_call() */
	bool exits;                  /* by dsm_thread_exit() */
	__pthread_unwind_buf_t call; /* of dsm_call() */
} self __attribute__((tls_model("initial-exec")));

/* A thread of this rank that can be cancelled. */
struct live {
	struct live *next;
	struct record *record;
	struct work *work; /* reserved for it */
	bool by_service;   /* created by the service thread, whose scheduling is not the program's */
	pthread_t thread;
};

static struct live *lives;
static pthread_mutex_t lives_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf, held with all signals blocked: see native() */

static unsigned long timer_slack; /* of threads of the program, in ns */
static uint32_t spawned;          /* by this rank; atomic */
static uint32_t ending; /* threads here that others may take for ended, and that are still in the runtime; atomic */

static void release(struct record *r)
{
	dsm_sem_t done = r->done;

	dsm_free(r->memory);
	dsm_sem_destroy(&done);
}

/*
 * fn(arg) on another stack. In assembler, for no compiler may keep values on the stack that it leaves; its frame is found by
 * the frame pointer from there, so debuggers and exceptions pass.
 */
void dsm_call_on(void *top, void (*fn)(void *), void *arg) __attribute__((visibility("hidden")));
__asm__(".text\n\t"
	".type dsm_call_on, @function\n"
	".globl dsm_call_on\n\t"
	".hidden dsm_call_on\n"
	"dsm_call_on:\n\t"
	".cfi_startproc\n\t"
	"pushq %rbp\n\t"
	".cfi_def_cfa_offset 16\n\t"
	".cfi_offset %rbp, -16\n\t"
	"movq %rsp, %rbp\n\t"
	".cfi_def_cfa_register %rbp\n\t"
	"movq %rdi, %rsp\n\t"
	"movq %rdx, %rdi\n\t"
	"callq *%rsi\n\t"
	"leave\n\t"
	".cfi_def_cfa %rsp, 8\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size dsm_call_on, . - dsm_call_on");

/*
 * fn(arg). True: the thread ends, by cancellation or exit, and the unwinding stops here. What pthread_cleanup_push() expands to;
 * but the handler would have to go on with the unwinding.
 */
static bool unwinds(void (*fn)(void *), void *arg, __pthread_unwind_buf_t *here)
{
	if (__sigsetjmp_cancel(here->__cancel_jmp_buf, 0)) {
		__pthread_unregister_cancel(here);
		return true;
	}
	__pthread_register_cancel(here);
	fn(arg);
	__pthread_unregister_cancel(here);
	return false;
}

static void run(void *arg)
{
	struct record *r = arg;

	r->result = r->fn(r->arg);
}

static void warm(const struct record *r)
{
	if (!one_node())
		dsm_acquire(r->top - WARM, WARM, DSM_WRITE);
}

static void run_on_shared(void *arg)
{
	struct record *r = arg;
	char signals[SIGNAL_STACK], calls[CALL_STACK];

	sigaltstack(&(stack_t){ .ss_sp = signals, .ss_size = sizeof(signals) }, NULL);
	fault_alternate_stack();
	warm(r);
	self.low = r->stack;
	self.high = r->top;
	self.own = (char *)((uintptr_t)(calls + sizeof(calls)) & ~63ul);
	dsm_call_on(r->top, run, r);
}

/* Where threads of this rank may not go, whatever the protocol allows. Other ranks may: they have no reason to. */
static void close_guard(const struct record *r)
{
	static uint32_t said;
	size_t off;
	int err;

	if (!r->guard || !job.fault->guard || !range_off(r->stack - r->guard, &off))
		return;
	err = job.fault->guard(off, r->guard, true);
	if (!err)
		self.guard = r->guard;
	else if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		log_line("no guard page below the stack of a thread: %s; raise vm.max_map_count (said once)",
			 dsm_strerror(err));
}

static void open_guard(const struct record *r)
{
	size_t off;

	if (self.guard && range_off(r->stack - self.guard, &off))
		job.fault->guard(off, self.guard, false);
	self.guard = 0;
}

/* In the fault handler: what the kernel knows of the thread, for a name in shared memory may not be here. */
static void say_overflow(const char *addr)
{
	const char *low = self.low;
	char name[NAME_BYTES] = "";

	prctl(PR_GET_NAME, name);
	if (self.guard && addr < low && addr >= low - self.guard)
		log_line(
			"stack overflow: thread %p (%s, %d) of this rank has used all %zu KiB of its stack, which begins at %p",
			(void *)self.record, name, gettid(), (size_t)(self.high - low + 1023) >> 10, low);
	else
		log_line("thread %s (%d) touches %p, the guard page below the stack of another thread", name, gettid(),
			 addr);
}

/* The thread's private stacks are further in than the frame where the unwinding stops. It is not cancelled any more after this.
 * True: the function has not returned. */
static bool run_here(struct record *r)
{
	__pthread_unwind_buf_t here;
	stack_t before;
	bool unwound;

	sigaltstack(NULL, &before);
	self.record = r;
	self.exits = false;
	close_guard(r);
	unwound = unwinds(r->stack ? run_on_shared : run, r, &here);
	open_guard(r);
	self.low = self.high = NULL;
	sigaltstack(&before, NULL);
	if (unwound && !self.exits)
		r->result = PTHREAD_CANCELED;
	self.record = NULL;
	return unwound;
}

struct called {
	void (*fn)(void *);
	void *arg;
	bool unwound;
};

static void call(void *arg)
{
	struct called *c = arg;

	c->unwound = unwinds(c->fn, c->arg, &self.call);
}

DSM_API void dsm_call(void (*fn)(void *), void *arg)
{
	const char *here = __builtin_frame_address(0);
	struct called c = { fn, arg, false };

	if (here < self.low || here >= self.high || one_node()) {
		fn(arg);
		return;
	}
	dsm_call_on(self.own, call, &c);
	if (c.unwound)
		__pthread_unwind_next(&self.call);
}

static void *decoy(void *arg)
{
	pause();
	return arg;
}

/* As the kernel has it: the C library does not let its own signals be changed. */
struct signal_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};
#define SIGNAL_OF_CANCEL 32

/* The C library installs the handler, and loads what unwinds, when a thread is cancelled first. */
static void prepare_cancel(void)
{
	struct signal_action a;
	pthread_t t;
	int before;

	if (pthread_create(&t, NULL, decoy, NULL))
		return;
	pthread_cancel(t);
	before = engine_keep(); /* this thread may be one of the program's: dsm_run() */
	pthread_join(t, NULL);
	engine_let(before);
	if (syscall(SYS_rt_sigaction, SIGNAL_OF_CANCEL, NULL, &a, sizeof(a.mask)))
		return;
	if (one_node())
		return; /* every stack is there, and cleanup handlers have all of the thread's */
	a.flags |= SA_ONSTACK;
	syscall(SYS_rt_sigaction, SIGNAL_OF_CANCEL, &a, NULL, sizeof(a.mask));
}

static void lock_lives(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
	pthread_mutex_lock(&lives_lock);
}

static void unlock_lives(const sigset_t *before)
{
	pthread_mutex_unlock(&lives_lock);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void note(struct live *l)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	sigset_t before;

	pthread_once(&once, prepare_cancel);
	lock_lives(&before);
	l->next = lives;
	lives = l;
	unlock_lives(&before);
	load_add(1);
}

static void forget(struct live *l)
{
	struct live **at;
	sigset_t before;

	lock_lives(&before);
	for (at = &lives; *at != l; at = &(*at)->next)
		;
	*at = l->next;
	unlock_lives(&before);
	load_add(-1);
}

/*
 * fn(thread, arg) while it cannot end; -ESRCH. A handler of the program may send signals to threads, and so come here: it
 * interrupts nobody who holds the lock.
 */
static int native(uint64_t record, int (*fn)(unsigned long thread, void *arg), void *arg)
{
	int err = -ESRCH;
	struct live *l;
	sigset_t before;

	lock_lives(&before);
	for (l = lives; l && (uintptr_t)l->record != record; l = l->next)
		;
	if (l)
		err = fn(l->thread, arg);
	unlock_lives(&before);
	return err;
}

static int cancel_it(unsigned long thread, void *arg)
{
	(void)arg;
	pthread_cancel(thread);
	return 0;
}

/* The service thread, which looks at no record. A thread that has ended is not there, and that is no error. */
static int cancel(uint64_t arg)
{
	native(arg, cancel_it, NULL);
	return 0;
}

/* Who joins the thread has its record from now on. */
static void say_ended(struct record *r)
{
	dsm_sem_t done = r->done;

	if (__atomic_exchange_n(&r->state, ENDED, __ATOMIC_SEQ_CST) == DETACHED)
		release(r);
	else
		dsm_sem_post(&done, 1); /* r may be gone after the exchange only where it is detached */
}

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

/* A thread of the program. It was created with all signals blocked. */
static void *body(void *arg)
{
	struct live *l = arg;
	struct record *r = l->record;
	sigset_t none;
	char name[NAME_BYTES];
	int state;

	work_take(l->work);
	if (l->by_service)
		be_scheduled();
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	sharing_acquired();
	memcpy(name, r->name, sizeof(name)); /* the kernel does not wait for a block */
	prctl(PR_SET_NAME, name);
	run_here(r);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	forget(l);
	free(l);
	__atomic_fetch_add(&ending, 1, __ATOMIC_SEQ_CST);
	say_ended(r);
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
static int start(uint64_t arg)
{
	struct live *l = calloc(1, sizeof(*l));
	pthread_attr_t attr;
	sigset_t before;
	cpu_set_t bound;
	int err;

	if (!l)
		return -EAGAIN;
	l->work = work_reserve(); /* without it, the thread's first step of the protocol would end the process */
	if (!l->work) {
		free(l);
		return -EAGAIN;
	}
	l->by_service = pthread_equal(pthread_self(), job.service);
	l->record = (struct record *)(uintptr_t)arg;
	note(l);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, OWN_STACK + STACK_DEFAULT);
	/* The service thread may run anywhere; what it starts is bound as the rank is. */
	if (l->by_service && !sched_getaffinity(getpid(), sizeof(bound), &bound))
		pthread_attr_setaffinity_np(&attr, sizeof(bound), &bound);
	/* l->thread is there before anybody looks for it; the thread begins with all signals blocked. */
	lock_lives(&before);
	err = pthread_create(&l->thread, &attr, body, l);
	unlock_lives(&before);
	pthread_attr_destroy(&attr);
	if (err) {
		forget(l);
		work_release(l->work);
		free(l);
	}
	return -err;
}

void spawn_start(void)
{
	timer_slack = (unsigned long)prctl(PR_GET_TIMERSLACK);
	call_spawn = start;
	call_cancel = cancel;
	stray_guard = say_overflow;
}

/* Ranks in turn, beginning behind this one; so many threads on each before the next one's turn; or that with the fewest threads. */
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

/* The rank of this node with the fewest threads. Of several, another one each time: threads may end soon. */
static int choose_of_node(uint16_t node)
{
	static uint32_t chosen;
	const uint32_t n = __atomic_fetch_add(&chosen, 1, __ATOMIC_RELAXED);
	uint16_t rank;
	int err = load_on(node, (uint16_t)((job.rank + n + 1) % job.size), &rank);

	return err ? err : rank;
}

/* The rank that `where` means, or -errno. */
static int choose(int where)
{
	if (where == -1)
		return choose_any();
	if (where >= 0 && where < job.size)
		return where;
	if (where >= DSM_ON_NODE(0) && where < DSM_ON_NODE(job.nodes))
		return choose_of_node((uint16_t)(where - DSM_ON_NODE(0)));
	return -EINVAL;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static bool is_shared_memory(const char *at, size_t size)
{
	size_t first, last;

	return at + size > at && range_off(at, &first) && range_off(at + size - 1, &last) && last - first == size - 1;
}

/* A stack of the program's, with the record elsewhere. */
static int use_stack(const struct dsm_thread_options *opt, struct record **out)
{
	struct record *r;

	if (opt->stack_size < STACK_MIN || !is_shared_memory(opt->stack, opt->stack_size))
		return -EINVAL;
	r = dsm_calloc(1, sizeof(*r));
	if (!r)
		return -EAGAIN;
	r->memory = r;
	r->stack = opt->stack;
	r->size = opt->stack_size;
	r->top = (char *)((uintptr_t)(r->stack + r->size) & ~63ul);
	*out = r;
	return 0;
}

/* A guard, the stack, and at its top the record. */
static int make_stack(const struct dsm_thread_options *opt, struct record **out)
{
	const size_t wanted = opt->stack_size ? opt->stack_size : STACK_DEFAULT;
	const size_t guard = opt->guard_size == DSM_NO_GUARD ? 0 : opt->guard_size ? opt->guard_size : PAGE_BYTES;
	const size_t size = whole_pages(wanted > STACK_MIN ? wanted : STACK_MIN), below = whole_pages(guard);
	struct record *r;
	char *at;

	if (size < wanted || below < guard || size + below < size)
		return -EAGAIN;
	at = dsm_aligned_alloc(PAGE_BYTES, size + below);
	if (!at)
		return -EAGAIN;
	r = (struct record *)((uintptr_t)(at + below + size - sizeof(*r)) & ~63ul);
	memset(r, 0, sizeof(*r));
	r->memory = at;
	r->stack = at + below;
	r->size = size;
	r->guard = below;
	r->top = (char *)r;
	*out = r;
	return 0;
}

static int make_private(struct record **out)
{
	struct record *r = dsm_aligned_alloc(PAGE_BYTES, PAGE_BYTES); /* alone in its block */

	if (!r)
		return -EAGAIN;
	memset(r, 0, sizeof(*r));
	r->memory = r;
	*out = r;
	return 0;
}

static int make(const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg, struct record **out)
{
	char name[NAME_BYTES] = "";
	struct record *r;
	int err;

	if (!opt || !opt->shared_stack)
		err = make_private(&r);
	else
		err = opt->stack ? use_stack(opt, &r) : make_stack(opt, &r);
	if (err)
		return err;
	r->fn = fn;
	r->arg = arg;
	prctl(PR_GET_NAME, name);
	memcpy(r->name, name, sizeof(name));
	err = dsm_sem_init(&r->done, 0);
	if (err) {
		dsm_free(r->memory);
		return err;
	}
	*out = r;
	return 0;
}

DSM_API int dsm_spawn(dsm_thread_t *t, int where, const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg)
{
	struct record *r;
	uint64_t at;
	int err = api_ready(), rank;

	if (err)
		return err;
	if (!t || !fn)
		return -EINVAL;
	rank = choose(where);
	err = rank < 0 ? rank : make(opt, fn, arg, &r);
	if (err)
		return err;
	r->rank = rank;
	r->state = opt && opt->detached ? DETACHED : RUNS;
	at = (uintptr_t)r;
	HOOK("spawn-made");
	err = call_rank((uint16_t)r->rank, CALL_SPAWN, &at, sizeof(at), NULL, 0);
	HOOK("spawn-began");
	if (err)
		release(r);
	else
		t->id = at;
	return err;
}

/* ns NULL: for ever; 0: not at all. */
static int await_end(dsm_sem_t *done, const uint64_t *ns)
{
	int err;

	if (!ns)
		return dsm_sem_wait(done);
	if (*ns)
		return dsm_sem_timedwait(done, *ns);
	err = dsm_sem_trywait(done);
	return err == -EAGAIN ? -EBUSY : err;
}

static int join(dsm_thread_t t, const uint64_t *ns, void **result)
{
	struct record *r = (struct record *)(uintptr_t)t.id;
	int err = api_ready();
	dsm_sem_t done;
	bool labels;

	if (err)
		return err;
	if (!r || r->state == DETACHED)
		return -EINVAL;
	if (r == self.record)
		return -EDEADLK;
	done = r->done;
	labels = label_begin(DSM_WAIT_JOIN, r);
	err = await_end(&done, ns);
	label_end(labels);
	if (err)
		return err;
	HOOK("join-ended");
	if (result)
		*result = r->result;
	release(r);
	return 0;
}

DSM_API int dsm_join(dsm_thread_t t, void **result)
{
	return join(t, NULL, result);
}

DSM_API int dsm_timedjoin(dsm_thread_t t, uint64_t ns, void **result)
{
	return join(t, &ns, result);
}

DSM_API int dsm_cancel(dsm_thread_t t)
{
	const struct record *r = (const struct record *)(uintptr_t)t.id;
	int err = api_ready();

	if (err)
		return err;
	if (!r)
		return -EINVAL;
	return call_rank((uint16_t)r->rank, CALL_CANCEL, &t.id, sizeof(t.id), NULL, 0);
}

DSM_API int dsm_detach(dsm_thread_t t)
{
	struct record *r = (struct record *)(uintptr_t)t.id;
	int err = api_ready();
	uint32_t was;

	if (err)
		return err;
	if (!r)
		return -EINVAL;
	was = __atomic_exchange_n(&r->state, DETACHED, __ATOMIC_SEQ_CST);
	if (was == ENDED)
		release(r);
	return was == DETACHED ? -EINVAL : 0;
}

DSM_API dsm_thread_t dsm_self(void)
{
	return (dsm_thread_t){ (uintptr_t)self.record };
}

DSM_API int dsm_thread_rank(dsm_thread_t t)
{
	const struct record *r = (const struct record *)(uintptr_t)t.id;

	return r ? r->rank : -EINVAL;
}

DSM_API int dsm_thread_native(dsm_thread_t t, int (*fn)(unsigned long thread, void *arg), void *arg)
{
	const struct record *r = (const struct record *)(uintptr_t)t.id;
	int err = api_ready();

	if (err)
		return err;
	if (!r || !fn)
		return -EINVAL;
	if (r == self.record)
		return fn(pthread_self(), arg);
	return r->rank == job.rank ? native(t.id, fn, arg) : -EXDEV;
}

static int set_name(unsigned long thread, void *arg)
{
	return -pthread_setname_np(thread, arg);
}

static int get_name(unsigned long thread, void *arg)
{
	return -pthread_getname_np(thread, arg, NAME_BYTES);
}

DSM_API int dsm_thread_rename(dsm_thread_t t, const char *name)
{
	struct record *r = (struct record *)(uintptr_t)t.id;
	char copy[NAME_BYTES] = "";
	int err = api_ready();

	if (err)
		return err;
	if (!r || !name)
		return -EINVAL;
	if (strlen(name) >= sizeof(copy))
		return -ERANGE;
	strcpy(copy, name);
	memcpy(r->name, copy, sizeof(copy));
	__atomic_store_n(&r->called, dsm_thread_native(t, set_name, copy) != 0, __ATOMIC_RELEASE);
	return 0;
}

/* The kernel has the name, which prctl(2) may have changed, or is told now; else the record has it. */
static void name_of(struct record *r, char *out)
{
	const dsm_thread_t t = { (uintptr_t)r };
	const bool called = __atomic_load_n(&r->called, __ATOMIC_ACQUIRE);
	char name[NAME_BYTES];

	memcpy(name, r->name, sizeof(name));
	if (!called)
		dsm_thread_native(t, get_name, name);
	else if (!dsm_thread_native(t, set_name, name))
		__atomic_store_n(&r->called, 0, __ATOMIC_RELEASE);
	memcpy(out, name, sizeof(name));
}

DSM_API int dsm_thread_query(dsm_thread_t t, struct dsm_thread_info *info)
{
	struct record *r = (struct record *)(uintptr_t)t.id;
	int err = api_ready();

	if (err)
		return err;
	if (!r)
		return -EINVAL;
	*info = (struct dsm_thread_info){ .rank = r->rank, .detached = r->state == DETACHED };
	info->stack = r->stack;
	info->stack_size = r->size;
	info->guard_size = r->guard;
	name_of(r, info->name);
	return 0;
}

DSM_API void dsm_thread_exit(void *result)
{
	if (!self.record)
		dsm_abort(70, "dsm_thread_exit() by a thread that dsm_spawn() has not made");
	self.record->result = result;
	self.exits = true;
	pthread_exit(result);
}

DSM_API int dsm_run(const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg, void **result)
{
	struct live l = { .thread = pthread_self() };
	int err = api_ready();
	struct record *r;
	bool unwound;

	if (err)
		return err;
	if (!fn || self.record)
		return -EINVAL;
	err = make(opt, fn, arg, &r);
	if (err)
		return err;
	r->rank = job.rank;
	l.record = r;
	r->state = opt && opt->detached ? DETACHED : RUNS;
	note(&l);
	unwound = run_here(r);
	forget(&l);
	if (result)
		*result = r->result;
	if (unwound)
		say_ended(r);
	else
		release(r);
	return 0;
}

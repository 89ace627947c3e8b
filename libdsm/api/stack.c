// SPDX-License-Identifier: BSD-2-Clause
/*
 * stack.c - a thread's function on its stacks, from its start to its end.
 *
 * A miss of a block of a shared stack cannot be handled on that stack: part of the thread's private
 * stack is its alternate one for signals. And the runtime cannot run there: it may not miss a block
 * while it holds a lock. dsm_call() goes to the private stack.
 *
 * Cancellation and exit are the C library's. Its unwinding ends in stack_run(), so the thread that
 * is left can say that it has ended; and at the foot of the private stack of dsm_call(), from where
 * it goes on on the shared one. There it compares addresses: frames of the private stack look to it
 * as if they lay beyond all handlers of the shared one.
 */

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "api/record.h"
#include "fault/catch.h"
#include "fault/fault.h"
#include "fault/range.h"
#include "job/job.h"
#include "util/log.h"

#define WARM (32ul << 10) /* of a stack, there before the function runs */

/* The fault handler reads it, where no memory can be allocated. */
static __thread struct {
	struct record *record;
	char *low, *high;            /* its shared stack */
	size_t guard;                /* below that, while it is closed */
	char *own;                   /* top of the private one for dsm_call() */
	bool exits;                  /* by dsm_thread_exit() */
	__pthread_unwind_buf_t call; /* of dsm_call() */
} self __attribute__((tls_model("initial-exec")));

/*
 * fn(arg) on another stack. In assembler, for no compiler may keep values on the stack that it
 * leaves; its frame is found by the frame pointer from there, so debuggers and exceptions pass.
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
 * fn(arg). True: the thread ends, by cancellation or exit, and the unwinding stops here. What
 * pthread_cleanup_push() expands to; but the handler would have to go on with the unwinding.
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

static void stack_run_fn(void *arg)
{
	struct record *r = arg;

	__builtin_ia32_ldmxcsr(r->mxcsr);
	__asm__ volatile("fldcw %0" : : "m"(r->x87));
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
	char signals[STACK_SIGNALS], calls[STACK_CALLS];

	sigaltstack(&(stack_t){ .ss_sp = signals, .ss_size = sizeof(signals) }, NULL);
	fault_alternate_stack();
	warm(r);
	self.low = r->stack;
	self.high = r->top;
	self.own = (char *)((uintptr_t)(calls + sizeof(calls)) & ~63ul);
	dsm_call_on(r->top, stack_run_fn, r);
}

/*
 * Where threads of this rank may not go, whatever the protocol allows. Other ranks may: they have
 * no reason to.
 */
static void close_guard(const struct record *r)
{
	static uint32_t said;
	size_t off;
	int err;

	if (!r->guard || !job.fault->guard || !range_off(r->stack - r->guard, &off))
		return;
	err = job.fault->guard(off, r->guard, GUARD_STACK);
	if (!err)
		self.guard = r->guard;
	else if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		log_line(
			"no guard page below the stack of a thread: %s; raise vm.max_map_count (said once)",
			dsm_strerror(err));
}

static void open_guard(const struct record *r)
{
	size_t off;

	if (self.guard && range_off(r->stack - self.guard, &off))
		job.fault->guard(off, self.guard, GUARD_NONE);
	self.guard = 0;
}

/* What the kernel knows of the thread, for a name in shared memory may not be here. */
void stack_overflow(const char *addr)
{
	const char *low = self.low;
	char name[RECORD_NAME] = "";

	prctl(PR_GET_NAME, name);
	if (self.guard && addr < low && addr >= low - self.guard)
		log_line(
			"stack overflow: thread %p (%s, %d) of this rank has used all %zu KiB of its stack, which begins at %p",
			(void *)self.record, name, gettid(), (size_t)(self.high - low + 1023) >> 10,
			low);
	else
		log_line(
			"thread %s (%d) touches %p, the guard page below the stack of another thread",
			name, gettid(), addr);
}

/*
 * The thread's private stacks are further in than the frame where the unwinding stops. It is not
 * cancelled any more after this.
 */
bool stack_run(struct record *r)
{
	__pthread_unwind_buf_t here;
	stack_t before;
	bool unwound;

	sigaltstack(NULL, &before);
	self.record = r;
	self.exits = false;
	close_guard(r);
	unwound = unwinds(r->stack ? run_on_shared : stack_run_fn, r, &here);
	open_guard(r);
	self.low = self.high = self.own = NULL;
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

static void stack_call(void *arg)
{
	struct called *c = arg;

	c->unwound = unwinds(c->fn, c->arg, &self.call);
}

DSM_API void dsm_call(void (*fn)(void *), void *arg)
{
	const char *here = __builtin_frame_address(0);
	struct called c = { fn, arg, false };
	size_t off;

	/*
	 * On the thread's stack, or on one that the program has made of shared memory
	 * (makecontext(3)).
	 */
	if (!self.own || one_node() ||
	    ((here < self.low || here >= self.high) && !range_off((void *)(uintptr_t)here, &off))) {
		fn(arg);
		return;
	}
	dsm_call_on(self.own, stack_call, &c);
	if (c.unwound)
		__pthread_unwind_next(&self.call);
}

struct record *stack_record(void)
{
	return self.record;
}

DSM_API dsm_thread_t dsm_self(void)
{
	return (dsm_thread_t){ (uintptr_t)self.record };
}

DSM_API void dsm_thread_exit(void *result)
{
	if (!self.record)
		dsm_abort(70, "dsm_thread_exit() by a thread that dsm_spawn() has not made");
	self.record->result = result;
	self.exits = true;
	pthread_exit(result);
}

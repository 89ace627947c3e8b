// SPDX-License-Identifier: BSD-2-Clause
/*
 * contexts.c - makecontext(3) and its like between nodes. The C library's functions have the kernel
 * read and write signal masks in the context, which another node may have taken meanwhile. Here the
 * mask is exchanged in private memory, and the context is accessed by instructions alone. The C
 * library's makecontext() would have a context in uc_link go on by its own setcontext(). These
 * functions replace the C library's in every process, for assembler cannot pass a call on.
 *
 * A context may go on in a thread of any rank, but for one that swapcontext() has saved in a
 * handler: between nodes, that runs on a private stack, which the next signal needs.
 */
#include "shim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "callbacks.h"
#include "masks.h"

#define ARGS 6 /* in registers */

/* Offsets in ucontext_t, for the assembler. */
#define AT_R8 40
#define AT_R9 48
#define AT_R12 72
#define AT_R13 80
#define AT_R14 88
#define AT_R15 96
#define AT_RDI 104
#define AT_RSI 112
#define AT_RBP 120
#define AT_RBX 128
#define AT_RDX 136
#define AT_RCX 152
#define AT_RSP 160
#define AT_RIP 168
#define AT_X87 424
#define AT_MXCSR 448
#define GREG(name) (offsetof(ucontext_t, uc_mcontext.gregs) + 8u * (name))
_Static_assert(AT_R8 == GREG(REG_R8) && AT_R9 == GREG(REG_R9) && AT_R12 == GREG(REG_R12) &&
		       AT_R13 == GREG(REG_R13) && AT_R14 == GREG(REG_R14) &&
		       AT_R15 == GREG(REG_R15) && AT_RDI == GREG(REG_RDI) &&
		       AT_RSI == GREG(REG_RSI) && AT_RBP == GREG(REG_RBP) &&
		       AT_RBX == GREG(REG_RBX) && AT_RDX == GREG(REG_RDX) &&
		       AT_RCX == GREG(REG_RCX) && AT_RSP == GREG(REG_RSP) &&
		       AT_RIP == GREG(REG_RIP) && AT_X87 == offsetof(ucontext_t, __fpregs_mem) &&
		       AT_MXCSR == offsetof(ucontext_t, __fpregs_mem.mxcsr),
	       "as in the assembler below");

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define SET(name, at) ".set " name ", " TEXT(at) "\n\t"

/* Save the caller's registers, and go on with the other context. 0: this one goes on. */
int context_switch(ucontext_t *from, const ucontext_t *to) __attribute__((visibility("hidden")));
void context_load(int unused, const ucontext_t *to) __attribute__((noreturn, visibility("hidden")));
/* Where a function of makecontext() returns to: rbx has the place of uc_link. */
void context_begin(void) __attribute__((visibility("hidden")));
void context_end(const ucontext_t *link) __attribute__((used, noreturn, visibility("hidden")));

/* clang-format off */
__asm__(	SET("at_r8", AT_R8)
	SET("at_r9", AT_R9)
	SET("at_r12", AT_R12)
	SET("at_r13", AT_R13)
	SET("at_r14", AT_R14)
	SET("at_r15", AT_R15)
	SET("at_rdi", AT_RDI)
	SET("at_rsi", AT_RSI)
	SET("at_rbp", AT_RBP)
	SET("at_rbx", AT_RBX)
	SET("at_rdx", AT_RDX)
	SET("at_rcx", AT_RCX)
	SET("at_rsp", AT_RSP)
	SET("at_rip", AT_RIP)
	SET("at_x87", AT_X87)
	SET("at_mxcsr", AT_MXCSR)
	".text\n\t"
	/* its caller's frame is what is saved: so it is no function of C */
	".globl getcontext\n\t"
	".type getcontext, @function\n\t"
	"getcontext:\n\t"
	".cfi_startproc\n\t"
	"pushq %rdi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"call context_prepare\n\t"
	"popq %rdi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"movq %rbx, at_rbx(%rdi)\n\t"
	"movq %rbp, at_rbp(%rdi)\n\t"
	"movq %r12, at_r12(%rdi)\n\t"
	"movq %r13, at_r13(%rdi)\n\t"
	"movq %r14, at_r14(%rdi)\n\t"
	"movq %r15, at_r15(%rdi)\n\t"
	"movq (%rsp), %rcx\n\t"
	"movq %rcx, at_rip(%rdi)\n\t"
	"leaq 8(%rsp), %rcx\n\t"
	"movq %rcx, at_rsp(%rdi)\n\t"
	"fnstcw at_x87(%rdi)\n\t"
	"stmxcsr at_mxcsr(%rdi)\n\t"
	"xorl %eax, %eax\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size getcontext, . - getcontext\n\t"
	".globl context_switch\n\t"
	".type context_switch, @function\n\t"
	".hidden context_switch\n\t"
	"context_switch:\n\t"
	".cfi_startproc\n\t"
	"movq %rbx, at_rbx(%rdi)\n\t"
	"movq %rbp, at_rbp(%rdi)\n\t"
	"movq %r12, at_r12(%rdi)\n\t"
	"movq %r13, at_r13(%rdi)\n\t"
	"movq %r14, at_r14(%rdi)\n\t"
	"movq %r15, at_r15(%rdi)\n\t"
	"movq (%rsp), %rcx\n\t"
	"movq %rcx, at_rip(%rdi)\n\t"
	"leaq 8(%rsp), %rcx\n\t"
	"movq %rcx, at_rsp(%rdi)\n\t"
	"fnstcw at_x87(%rdi)\n\t"
	"stmxcsr at_mxcsr(%rdi)\n\t"
	"jmp context_load\n\t"
	".cfi_endproc\n\t"
	".size context_switch, . - context_switch\n\t"
	".globl context_load\n\t"
	".type context_load, @function\n\t"
	".hidden context_load\n\t"
	"context_load:\n\t"
	".cfi_startproc\n\t"
	"fldcw at_x87(%rsi)\n\t"
	"ldmxcsr at_mxcsr(%rsi)\n\t"
	"movq at_rbx(%rsi), %rbx\n\t"
	"movq at_rbp(%rsi), %rbp\n\t"
	"movq at_r12(%rsi), %r12\n\t"
	"movq at_r13(%rsi), %r13\n\t"
	"movq at_r14(%rsi), %r14\n\t"
	"movq at_r15(%rsi), %r15\n\t"
	"movq at_rdi(%rsi), %rdi\n\t"
	"movq at_rdx(%rsi), %rdx\n\t"
	"movq at_rcx(%rsi), %rcx\n\t"
	"movq at_r8(%rsi), %r8\n\t"
	"movq at_r9(%rsi), %r9\n\t"
	"movq at_rip(%rsi), %r10\n\t"
	"movq at_rsp(%rsi), %rsp\n\t"
	".cfi_undefined rip\n\t"
	"movq at_rsi(%rsi), %rsi\n\t"
	"xorl %eax, %eax\n\t"
	"jmp *%r10\n\t"
	".cfi_endproc\n\t"
	".size context_load, . - context_load\n\t"
	".globl context_begin\n\t"
	".type context_begin, @function\n\t"
	".hidden context_begin\n\t"
	"context_begin:\n\t"
	".cfi_startproc\n\t"
	".cfi_undefined rip\n\t"
	"movq (%rbx), %rdi\n\t"
	"movq %rbx, %rsp\n\t"
	"andq $-16, %rsp\n\t"
	"call context_end\n\t"
	".cfi_endproc\n\t"
	".size context_begin, . - context_begin\n\t"
);
/* clang-format on */

/* Misses are never blocked, whatever the context says. */
static uint64_t mask_of(const ucontext_t *u)
{
	uint64_t mask;

	memcpy(&mask, &u->uc_sigmask, sizeof(mask));
	return shim.active && !shim.one_node ? mask & ~of_misses() : mask;
}

/* What of a context is no register. */
static void context_keep(ucontext_t *in, uint64_t mask)
{
	sigemptyset(&in->uc_sigmask);
	memcpy(&in->uc_sigmask, &mask, sizeof(mask));
	in->uc_mcontext.fpregs = &in->__fpregs_mem;
}

/* For getcontext(). */
void context_prepare(ucontext_t *u) __attribute__((used, visibility("hidden")));
void context_prepare(ucontext_t *u)
{
	context_keep(u, blocked_signals());
}

EXPORT int setcontext(const ucontext_t *to)
{
	masks_exchange(mask_of(to));
	context_load(0, to);
}

EXPORT int swapcontext(ucontext_t *from, const ucontext_t *to)
{
	static bool said;

	if (!shim.one_node && caller_is_ours(CALLER) && !is_shared(&from) &&
	    !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		start_cannot("swapcontext() in a handler of a signal");
	context_keep(from, masks_exchange(mask_of(to)));
	return context_switch(from, to);
}

void context_end(const ucontext_t *link)
{
	if (link)
		setcontext(link);
	call_program((void *)exit, 0, 0, 0);
	__builtin_unreachable();
}

EXPORT void makecontext(ucontext_t *u, void (*fn)(void), int argc, ...)
{
	static const int registers[ARGS] = { REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9 };
	const unsigned int more = argc > ARGS ? (unsigned int)argc - ARGS : 0;
	greg_t *const regs = u->uc_mcontext.gregs,
		      *sp = (greg_t *)((char *)u->uc_stack.ss_sp + u->uc_stack.ss_size);
	va_list ap;
	int i;

	/* the link, the arguments, and below them the address to return to */
	sp = (greg_t *)((uintptr_t)(sp - more - 1) & ~15ul) - 1;
	sp[0] = (greg_t)(uintptr_t)context_begin;
	sp[1 + more] = (greg_t)(uintptr_t)u->uc_link;
	regs[REG_RIP] = (greg_t)(uintptr_t)fn;
	regs[REG_RBX] = (greg_t)(uintptr_t)(sp + 1 + more);
	regs[REG_RSP] = (greg_t)(uintptr_t)sp;
	va_start(ap, argc);
	for (i = 0; i < argc; i++)
		*(i < ARGS ? &regs[registers[i]] : &sp[1 + i - ARGS]) = va_arg(ap, greg_t);
	va_end(ap);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cross.h - lets another thread act between the load of a word and its compare and exchange. The
 * word's page is read-only; the fault handler changes the word before the instruction is repeated.
 *
 * Not with thread sanitizer, which emulates atomics with a lock held. It has the tests with two
 * threads.
 */
#ifndef UNIT_CROSS_H
#define UNIT_CROSS_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef __SANITIZE_THREAD__
#define CROSS_SIZE 4096

static void *cross_page;
static void (*cross_deed)(void);

static inline void cross_fault(int sig)
{
	void (*deed)(void) = cross_deed;

	if (!deed || mprotect(cross_page, CROSS_SIZE, PROT_READ | PROT_WRITE)) {
		signal(sig, SIG_DFL); /* repeat it without the handler */
		return;
	}
	cross_deed = NULL;
	deed();
}

/* A page of zeros for the words. */
static inline void *cross_memory(void)
{
	cross_page =
		mmap(NULL, CROSS_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(cross_page, MAP_FAILED);
	return cross_page;
}

/* Run the function at the next write to the page. */
static inline void cross_arm(void (*deed)(void))
{
	struct sigaction sa = { .sa_handler = cross_fault, .sa_flags = SA_NODEFER };

	cross_deed = deed;
	ck_assert_int_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	ck_assert_int_eq(mprotect(cross_page, CROSS_SIZE, PROT_READ), 0);
}

/* Has it run? */
static inline bool cross_done(void)
{
	signal(SIGSEGV, SIG_DFL);
	return !cross_deed;
}
#endif

#endif

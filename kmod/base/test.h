/* SPDX-License-Identifier: GPL-2.0 */
/*
 * test.h - parameters that provoke rare events, for tests/kmod. Part of the module only if it is
 * built with DSM_TEST=y (scripts/build-kmod --test). In other builds each parameter is a constant,
 * and the code that it controls is compiled away.
 */
#ifndef KMOD_TEST_H
#define KMOD_TEST_H

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>

/* values of parameters for test_pause() and test_pause_atomic() */
enum { TEST_PAUSE_NEXT = 1, TEST_PAUSED = 2 };
#define TEST_PAUSE_MS 20000u /* a longer pause means that the test has died */
#define TEST_PAUSE_ATOMIC_MS 2000u

#ifdef DSM_TEST
/* A parameter of this file: bool, int or uint, of this initial value. */
#define TEST_PARAM(type, name, init, what) \
	static type name = init;           \
	module_param(name, type, 0600);    \
	MODULE_PARM_DESC(name, "for tests: " what)
#define test_value(name) READ_ONCE(name)

static inline bool test_pause_begins(unsigned int *here)
{
	return READ_ONCE(*here) == TEST_PAUSE_NEXT &&
		cmpxchg(here, TEST_PAUSE_NEXT, TEST_PAUSED) == TEST_PAUSE_NEXT;
}

/*
 * If the parameter is TEST_PAUSE_NEXT, set it to TEST_PAUSED and wait until it is something else.
 * Sleeps.
 */
#define test_pause(name) test_pause_sleep(&(name))
static inline void test_pause_sleep(unsigned int *here)
{
	const unsigned long end = jiffies + msecs_to_jiffies(TEST_PAUSE_MS);

	if (test_pause_begins(here))
		while (READ_ONCE(*here) == TEST_PAUSED && time_before(jiffies, end))
			msleep(1);
}

/* The same without sleeping, for code that runs with bottom halves off. */
#define test_pause_atomic(name) test_pause_spin(&(name))
static inline void test_pause_spin(unsigned int *here)
{
	unsigned int ms;

	if (test_pause_begins(here))
		for (ms = 0; ms < TEST_PAUSE_ATOMIC_MS && READ_ONCE(*here) == TEST_PAUSED; ms++)
			mdelay(1);
}

/* wait so many milliseconds without sleeping */
#define test_delay_atomic(name) mdelay(READ_ONCE(name))

/* Take one from a parameter that is not 0. False: it is 0. */
#define test_spend(name) test_spend_one(&(name))
static inline bool test_spend_one(unsigned int *here)
{
	const unsigned int n = READ_ONCE(*here);

	return n && cmpxchg(here, n, n - 1) == n;
}
#else
#define TEST_PARAM(type, name, init, what) enum { name = init }
#define test_value(name) (name)
#define test_pause(name) ((void)(name))
#define test_pause_atomic(name) ((void)(name))
#define test_delay_atomic(name) ((void)(name))
#define test_spend(name) ((void)(name), false)
#endif

#endif

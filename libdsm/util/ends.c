// SPDX-License-Identifier: BSD-2-Clause
/* ends.c - see ends.h. */
#include "util/ends.h"

#include <errno.h>
#include <pthread.h>

#define KEYS_AT_HAND 32 /* number of keys whose values are in the C library's thread descriptor */

static pthread_key_t key;
static int no_key;                    /* errno; atomic */
static void (*functions[ENDS])(void); /* atomic */

/*
 * The key is older than those of other libraries, so its destructor runs first. Their destructors
 * may still use what is undone here, so it is undone in the next round of destructors. A thread
 * that is noted again after that has two more rounds.
 */
static void ends_run(void *arg)
{
	static __thread bool again __attribute__((tls_model("initial-exec")));
	void (*fn)(void);
	unsigned int i;

	again = !again;
	if (again && !pthread_setspecific(key, arg))
		return;
	for (i = 0; i < ENDS; i++) {
		fn = __atomic_load_n(&functions[i], __ATOMIC_ACQUIRE);
		if (fn)
			fn();
	}
}

static void __attribute__((constructor(101))) ends_prepare(void)
{
	no_key = pthread_key_create(&key, ends_run);
}

/* The library may be unloaded before its threads end. */
static void __attribute__((destructor)) ends_forget(void)
{
	if (!__atomic_exchange_n(&no_key, EAGAIN, __ATOMIC_RELAXED))
		pthread_key_delete(key);
}

int ends_call(enum ends which, void (*fn)(void))
{
	__atomic_store_n(&functions[which], fn, __ATOMIC_RELEASE);
	return -__atomic_load_n(&no_key, __ATOMIC_RELAXED);
}

void ends_note(void)
{
	if (!__atomic_load_n(&no_key, __ATOMIC_RELAXED))
		pthread_setspecific(key, &key);
}

bool ends_allocate(void)
{
	return key >= KEYS_AT_HAND;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * record.c - the record of a thread, which all ranks see, and its shared stack: made by the rank
 * that creates the thread, freed by the one that joins it, or by the thread's own where it is
 * detached.
 */
#include "api/record.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>

#include "fault/range.h"
#include "job/job.h"

#define STACK_MIN (64ul << 10)

#define MARK 0x7fb5d329728ea185ull

static uint64_t mark_of(const struct record *r)
{
	return MARK ^ (uintptr_t)r;
}

struct record *record_of(dsm_thread_t t)
{
	struct record *r = (struct record *)(uintptr_t)t.id;
	size_t at;

	if (t.id % _Alignof(struct record) || !range_off((const void *)r, &at) ||
	    at + sizeof(*r) > job.heap)
		return NULL;
	return __atomic_load_n(&r->mark, __ATOMIC_ACQUIRE) == mark_of(r) ? r : NULL;
}

void record_release(struct record *r)
{
	dsm_sem_t done = r->done;

	__atomic_store_n(&r->mark, 0, __ATOMIC_RELEASE);
	dsm_free(r->apart);
	dsm_free(r->memory);
	dsm_sem_destroy(&done);
}

void record_end(struct record *r)
{
	dsm_sem_t done = r->done;

	if (__atomic_exchange_n(&r->state, RECORD_ENDED, __ATOMIC_SEQ_CST) == RECORD_DETACHED)
		record_release(r);
	/* r may be gone after the exchange only where it is detached */
	else
		dsm_sem_post(&done, 1);
}

static size_t record_whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static bool is_shared_memory(const char *at, size_t size)
{
	size_t first, last;

	return at + size > at && range_off(at, &first) && range_off(at + size - 1, &last) &&
		last - first == size - 1;
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

static int make_apart(struct record **out)
{
	struct record *r = dsm_aligned_alloc(PAGE_BYTES, PAGE_BYTES); /* alone in its block */

	if (!r)
		return -EAGAIN;
	memset(r, 0, sizeof(*r));
	r->memory = r;
	*out = r;
	return 0;
}

/*
 * A guard and the stack. The record is at its top, unless the stack may be release memory, as the
 * program's heap is: other ranks read records at any time.
 */
static int make_stack(const struct dsm_thread_options *opt, bool program, struct record **out)
{
	const size_t wanted = opt->stack_size ? opt->stack_size : RECORD_STACK;
	const size_t guard = opt->guard_size == DSM_NO_GUARD ? 0
		: opt->guard_size                            ? opt->guard_size
							     : PAGE_BYTES;
	const size_t size = record_whole_pages(wanted > STACK_MIN ? wanted : STACK_MIN),
		     below = record_whole_pages(guard);
	struct record *r = NULL;
	char *at;

	if (size < wanted || below < guard || size + below < size || (program && make_apart(&r)))
		return -EAGAIN;
	at = program ? dsm_malloc_program(PAGE_BYTES, size + below, 0)
		     : dsm_aligned_alloc(PAGE_BYTES, size + below);
	if (!at) {
		dsm_free(r);
		return -EAGAIN;
	}
	if (program) {
		r->apart = at;
		r->top = at + below + size;
	} else {
		r = (struct record *)((uintptr_t)(at + below + size - sizeof(*r)) & ~63ul);
		memset(r, 0, sizeof(*r));
		r->memory = at;
		r->top = (char *)r;
	}
	r->stack = at + below;
	r->size = size;
	r->guard = below;
	*out = r;
	return 0;
}

int record_make(const struct dsm_thread_options *opt, bool program, void *(*fn)(void *), void *arg,
		struct record **out)
{
	char name[RECORD_NAME] = "";
	struct record *r;
	int err;

	if (!opt || !opt->shared_stack)
		err = make_apart(&r);
	else
		err = opt->stack ? use_stack(opt, &r) : make_stack(opt, program, &r);
	if (err)
		return err;
	r->fn = fn;
	r->arg = arg;
	r->masked = opt && opt->signals_blocked;
	r->mxcsr = __builtin_ia32_stmxcsr();
	__asm__("fnstcw %0" : "=m"(r->x87));
	prctl(PR_GET_NAME, name);
	memcpy(r->name, name, sizeof(name));
	err = dsm_sem_init(&r->done, 0);
	if (err) {
		dsm_free(r->apart);
		dsm_free(r->memory);
		return err;
	}
	__atomic_store_n(&r->mark, mark_of(r), __ATOMIC_RELEASE);
	*out = r;
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* ask.c - see ask.h. */
#include "fault/ask.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "fault/catch.h"
#include "util/futex.h"

enum { FREE = 0, WRITING, POSTED, TAKEN, DONE };

#define PLACES 63u
#define SPINS 200 /* polls before sleeping */
/* between checks: does the other process live, must this one end */
#define CHECK_NS (20ull * 1000 * 1000)
#define ASKED_AT_ONCE 64u

struct request {
	uint32_t state; /* atomic */
	int32_t prot;
	uint64_t off, len;
	uint32_t from; /* the asker */
	int32_t err;
};

struct box {
	/* changes when a request has come, and when one of this rank's is done; atomic; a futex */
	uint32_t bell;
	uint32_t pad[7];
	struct request v[PLACES];
};
CORE_ASSERT_SIZE(struct box, 2048);

struct asked {
	uint16_t rank;
	uint8_t place;
};

static struct box *boxes; /* one per rank of the node */
static ask_serve_fn serve_fn;
static pthread_t server;
static uint32_t stopping; /* atomic */

size_t ask_shared(unsigned int ranks)
{
	return (ranks * sizeof(struct box) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void ring(unsigned int rank)
{
	/*
	 * A full barrier: the sleeper's next poll finds what was stored before, or its wait ends at
	 * once.
	 */
	__atomic_fetch_add(&boxes[rank].bell, 1, __ATOMIC_SEQ_CST);
	futex_wake(&boxes[rank].bell, 1 << 30);
}

/* Handle the requests to this rank. True if there were any. */
static bool ask_serve(void)
{
	struct box *b = &boxes[frames_node.self];
	bool any = false;
	unsigned int i;

	for (i = 0; i < PLACES; i++) {
		struct request *r = &b->v[i];
		uint32_t posted = POSTED, from;

		if (__atomic_load_n(&r->state, __ATOMIC_RELAXED) != POSTED ||
		    !__atomic_compare_exchange_n(&r->state, &posted, TAKEN, 0, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		r->err = serve_fn(r->off, r->len, r->prot);
		from = r->from;
		__atomic_store_n(&r->state, DONE, __ATOMIC_RELEASE);
		ring(from);
		any = true;
	}
	return any;
}

static void *server_main(void *arg)
{
	uint32_t *bell = &boxes[frames_node.self].bell, seen;

	(void)arg;
	prctl(PR_SET_NAME, "dsm-protect");
	for (;;) {
		seen = __atomic_load_n(bell, __ATOMIC_SEQ_CST);
		ask_serve();
		if (__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
			return NULL;
		futex_wait(bell, seen, 10ull * 1000 * 1000 * 1000);
	}
}

int ask_open(void *shared, ask_serve_fn fn)
{
	sigset_t all, old;
	int err;

	boxes = shared;
	serve_fn = fn;
	stopping = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = pthread_create(&server, NULL, server_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

void ask_close(void)
{
	__atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
	ring(frames_node.self);
	pthread_join(server, NULL);
}

/* Wait until something happens to this rank, or for a while. */
static void wait_for_bell(uint32_t *bell, uint32_t seen, int *polls)
{
	if ((*polls)++ < SPINS)
		cpu_relax();
	else
		futex_wait(bell, seen, CHECK_NS);
}

/*
 * Has the process of a rank ended, as far as polls have shown? It may only be stopped. A thread
 * that waits for it in the fault handler cannot return, because the block is half closed. So a
 * signal that ends this process does so here; a handler must wait.
 */
static bool ask_is_gone(unsigned int rank, int polls)
{
	if (polls <= SPINS)
		return false;
	fault_end_if_signalled();
	return frames_node.gone && frames_node.gone(rank);
}

/* Reserve a place in a rank's box. -ESRCH: the rank has ended. */
static int ask_post(unsigned int rank, size_t off, size_t len, int prot)
{
	struct box *b = &boxes[rank];
	uint32_t *bell = &boxes[frames_node.self].bell, seen;
	unsigned int i;
	int polls = 0;

	for (;;) {
		seen = __atomic_load_n(bell, __ATOMIC_SEQ_CST);
		for (i = 0; i < PLACES; i++) {
			struct request *r = &b->v[i];
			uint32_t state = FREE;

			if (__atomic_load_n(&r->state, __ATOMIC_RELAXED) != FREE ||
			    !__atomic_compare_exchange_n(&r->state, &state, WRITING, 0,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				continue;
			r->off = off;
			r->len = len;
			r->prot = prot;
			r->from = frames_node.self;
			__atomic_store_n(&r->state, POSTED, __ATOMIC_RELEASE);
			ring(rank);
			return (int)i;
		}
		if (ask_is_gone(rank, polls))
			return -ESRCH;
		if (!ask_serve())
			wait_for_bell(bell, seen, &polls);
	}
}

/* The answer. An ended process has no mapping that could allow access. */
static int ask_await(const struct asked *a)
{
	struct request *r = &boxes[a->rank].v[a->place];
	uint32_t *bell = &boxes[frames_node.self].bell, seen;
	int polls = 0, err;

	for (;;) {
		uint32_t posted = POSTED;

		seen = __atomic_load_n(bell, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == DONE)
			break;
		if (ask_is_gone(a->rank, polls)) {
			__atomic_compare_exchange_n(&r->state, &posted, FREE, 0, __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED);
			return 0;
		}
		if (!ask_serve())
			wait_for_bell(bell, seen, &polls);
	}
	err = r->err;
	__atomic_store_n(&r->state, FREE, __ATOMIC_RELEASE);
	return err;
}

static int await_all(const struct asked *v, unsigned int n)
{
	int err = 0, one;
	unsigned int i;

	for (i = 0; i < n; i++) {
		one = ask_await(&v[i]);
		if (!err)
			err = one;
	}
	return err;
}

int fault_ask_all(const struct map_todo *t, size_t off, size_t len, int prot)
{
	struct asked v[ASKED_AT_ONCE] = { { 0 } };
	unsigned int n = 0, r;
	int err = 0, one;

	for (r = 0; r < frames_node.ranks && t->down; r++) {
		if (r == frames_node.self || !map_has(t, (uint16_t)r))
			continue;
		one = ask_post(r, off, len, prot);
		if (one == -ESRCH)
			continue;
		v[n++] = (struct asked){ .rank = (uint16_t)r, .place = (uint8_t)one };
		if (n == ASKED_AT_ONCE) {
			one = await_all(v, n);
			err = err ? err : one;
			n = 0;
		}
	}
	if (map_has(t, (uint16_t)frames_node.self)) {
		one = serve_fn(off, len, prot);
		err = err ? err : one;
	}
	one = await_all(v, n);
	return err ? err : one;
}

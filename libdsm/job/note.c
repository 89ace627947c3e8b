// SPDX-License-Identifier: BSD-2-Clause
/*
 * note.c - what the threads of this process wait for.
 *
 * A thread that goes to sleep leaves a note in its node's control segment. Reports (stall.c,
 * deadlock.c) read notes, and nothing else does, so they need no lock.
 */
#include "job/note.h"

#include <unistd.h>

#include "job/job.h"
#include "util/futex.h"

__thread struct wait_about wait_about __attribute__((tls_model("initial-exec")));
__thread struct wait_label wait_label __attribute__((tls_model("initial-exec")));
static __thread uint32_t my_tid __attribute__((tls_model("initial-exec")));
__thread bool note_quiet __attribute__((tls_model("initial-exec")));

uint64_t note_limit_ns(void)
{
	return job.set.stall_ms * 1000000ull;
}

static struct wait_about block_about(uint32_t block)
{
	const size_t off = block_off(block);
	const struct dsm_region *r = region_at(off);
	uint16_t home = r ? region_home(r, off) : 0;

	if (r && r->consistency) /* it may have moved */
		home = rel_home(&(struct rel_ctx){ .home = home },
				&job.mem.rels[block_page(block)]);
	return (struct wait_about){ .kind = ABOUT_BLOCK, .object = block, .home = home };
}

/*
 * Does the label fit the wait? A thread that a condition has woken waits for the mutex next, in the
 * same call; a cancelled thread waits for something else.
 */
static bool is_labelled(const struct wait_about *a)
{
	static const uint8_t kinds[] = {
		[DSM_WAIT_MUTEX] = SYNC_MUTEX,   [DSM_WAIT_COND] = SYNC_COND,
		[DSM_WAIT_RWLOCK] = SYNC_RWLOCK, [DSM_WAIT_SEM] = SYNC_SEM,
		[DSM_WAIT_BARRIER] = SYNC_COND,  [DSM_WAIT_JOIN] = SYNC_SEM,
		[DSM_WAIT_IDLE] = SYNC_SEM,      [DSM_WAIT_FUTEX] = SYNC_SEM
	};

	return a->kind != ABOUT_OBJECT || wait_label.what >= sizeof(kinds) ||
		a->sync == kinds[wait_label.what];
}

static void note_down(struct wait_note *n, uint32_t block, bool lasting, uint64_t now)
{
	if (!my_tid)
		my_tid = (uint32_t)gettid();
	n->about = block ? block_about(block) : wait_about;
	n->label = wait_label;
	if (block || !is_labelled(&n->about))
		n->label = (struct wait_label){ 0 };
	n->tid = my_tid;
	n->lasting = lasting;
	__atomic_store_n(&n->since, now, __ATOMIC_RELEASE);
}

int note_begin(uint32_t block, bool lasting, uint64_t now)
{
	struct rank_ctl *c = job.mine;
	unsigned int w;

	/*
	 * Two ranks may report at once, and wait for each other's answers: such waits are not
	 * reported.
	 */
	if (!job.set.stall_ms || note_quiet)
		return -1;
	for (w = 0; w < CTL_NOTES / 64; w++) {
		uint64_t seen = __atomic_load_n(&c->note_used[w], __ATOMIC_RELAXED);

		while (~seen) {
			int bit = __builtin_ctzll(~seen), i = (int)(w * 64) + bit;

			if (!__atomic_compare_exchange_n(&c->note_used[w], &seen,
							 seen | 1ull << bit, 0, __ATOMIC_ACQUIRE,
							 __ATOMIC_RELAXED))
				continue;
			note_down(&c->notes[i], block, lasting, now);
			return i;
		}
	}
	return -1; /* no note is free: the listed waits tell enough */
}

void note_end(int note)
{
	struct rank_ctl *c = job.mine;
	uint64_t since, now;

	if (note < 0)
		return;
	since = c->notes[note].since;
	__atomic_store_n(&c->notes[note].since, 0, __ATOMIC_RELAXED);
	__atomic_fetch_and(&c->note_used[note / 64], ~(1ull << (note % 64)), __ATOMIC_RELEASE);
	now = clock_ns();
	if (now - since < note_limit_ns())
		return;
	/* there is progress: restart the intervals */
	__atomic_store_n(&job.me->stall_step, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&job.me->stall_due, now + note_limit_ns(), __ATOMIC_RELAXED);
}

static unsigned int add_held(uint16_t local, struct stall_row *out, unsigned int n,
			     unsigned int most)
{
	unsigned int i, end = __atomic_load_n(&job.me->hold_pool.fresh, __ATOMIC_RELAXED);

	for (i = 0; i < end && i < CTL_HOLDS && n < most; i++) {
		const struct hold *h = &job.me->holds[i];
		const uint8_t state = hold_state(h);

		if (job.me->hold_by[i] == local &&
		    (state == HOLD_HELD || state == HOLD_HELD_NEXT) && h->turn != TURN_GIVEN)
			out[n++] = (struct stall_row){ .about = { .kind = ABOUT_HOLDS,
								  .home = h->home,
								  .object = h->object } };
	}
	return n;
}

/* If a note was rewritten while it was read, an object may look like a block. */
static bool is_there(const struct wait_about *a)
{
	return a->kind != ABOUT_BLOCK || block_off(a->object) < job.set.space;
}

unsigned int note_list(uint16_t rank, struct stall_row *out, unsigned int most)
{
	struct rank_ctl *c = rank_info(rank)->ctl;
	uint64_t now = clock_ns();
	unsigned int i, n = 0;

	for (i = 0; i < CTL_NOTES && n < most; i++) {
		const struct wait_note *w = &c->notes[i];
		uint64_t since = __atomic_load_n(&w->since, __ATOMIC_ACQUIRE);

		if (!since || w->label.what == DSM_WAIT_IDLE)
			continue;
		out[n] = (struct stall_row){ .about = w->about,
					     .label = w->label,
					     /* It may have begun after `now`. */
					     .age_ms = since < now
						     ? (uint32_t)((now - since) / 1000000)
						     : 0,
					     .tid = w->tid,
					     .rank = rank };
		n += is_there(&out[n].about);
	}
	i = n;
	n = add_held(rank_info(rank)->local, out, n, most);
	for (; i < n; i++)
		out[i].rank = rank;
	return n;
}

uint64_t note_nap(uint64_t since, uint64_t now, uint64_t ns)
{
	uint64_t age = now - since; /* the limit, then ever longer intervals, like the reports */

	return job.set.stall_ms && age < note_limit_ns() && note_limit_ns() - age < ns
		? note_limit_ns() - age
		: ns;
}

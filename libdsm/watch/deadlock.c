// SPDX-License-Identifier: BSD-2-Clause
/*
 * deadlock.c - the program is deadlocked when all its threads, on all ranks, wait for each other
 * (DSM_DEADLOCK).
 *
 * A thread counts as waiting if the kernel says that it sleeps, and its note (note.c) says that it
 * has waited for another thread, without a time limit, for at least DSM_STALL_MS. Any other thread
 * of a rank's process may wake one: then there is no verdict. Nor is there one while a rank has a
 * signal handler of the program, which may call sem_post(3).
 *
 * Rank 0 asks all ranks twice, as in the detection of termination (Mattern, "Algorithms for
 * distributed termination detection", 1987). Each rank answers with its waits, and with the numbers
 * of messages sent and received that may wake a thread. If both answers of each rank are equal, all
 * threads have waited from the end of the first round to the beginning of the second, so none of
 * them started anything in between. If as many messages were received as sent, nothing that they
 * started before was in flight. If a message has arrived but its thread has not run yet, that
 * thread does not sleep. (The kernel helper does not count messages; there the age of the waits
 * must do.) While a node closes (miss/release.h), messages wait there that are not counted yet:
 * then there is no verdict.
 *
 * Threads: the one of stall_collector.c asks.
 */
#include "watch/deadlock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls/call.h"
#include "calls/payload.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/note.h"
#include "job/threads.h"
#include "miss/keep.h"
#include "miss/release.h"
#include "util/futex.h"
#include "util/log.h"
#include "watch/stall.h"
#include "watch/stall_collector.h"

#define CHECK_MIN_MS 50u
#define CHECK_MAX_MS 1000u
#define LINES_MAX 64u /* threads that are listed */

/* Written by one thread at a time: the service thread, then the asking thread on its behalf. */
static struct {
	uint32_t stop; /* atomic */
	bool reported;
	uint64_t next; /* time of the next check */
} state;

bool deadlock_watches(void)
{
	return job.rank == 0 && job.set.stall_ms && strcmp(job.set.deadlock, "off");
}

int deadlock_ms(void)
{
	const unsigned int ms = job.set.stall_ms / 4;

	return (int)(ms < CHECK_MIN_MS ? CHECK_MIN_MS : ms > CHECK_MAX_MS ? CHECK_MAX_MS : ms);
}

/* ---- one rank -------------------------------------------------------------------------------- */

/*
 * The waits of this rank's threads. Used by one thread at a time: the service thread, or at rank 0
 * the asking thread.
 */
static struct {
	unsigned int n;
	uint32_t tid[CTL_NOTES];
	uint64_t since;
} waits;

/* False: a thread waits for something else, or not long enough. */
static bool read_notes(uint64_t now)
{
	unsigned int i;

	waits.n = 0;
	waits.since = 0;
	for (i = 0; i < CTL_NOTES; i++) {
		const struct wait_note *w = &job.mine->notes[i];
		uint64_t since = __atomic_load_n(&w->since, __ATOMIC_ACQUIRE);

		if (!since)
			continue;
		if (!w->lasting ||
		    (w->about.kind != ABOUT_OBJECT && w->about.kind != ABOUT_BARRIER &&
		     !w->label.what) ||
		    now < since || now - since < note_limit_ns())
			return false;
		waits.tid[waits.n++] = w->tid;
		waits.since += since;
		if (__atomic_load_n(&w->since, __ATOMIC_ACQUIRE) != since)
			return false; /* the note was rewritten meanwhile */
	}
	return waits.n > 0;
}

static bool has_note(int tid)
{
	unsigned int i;

	for (i = 0; i < waits.n && waits.tid[i] != (uint32_t)tid; i++)
		;
	return i < waits.n;
}

int deadlock_serve(struct asleep *out)
{
	struct asleep v = { 0 };
	int n;

	/* what may wake a thread waits for a close, and is not counted yet */
	if (releases_used() && release_closing())
		return -EBUSY;
	if (keep_any()) /* the same for a message that the node keeps */
		return -EBUSY;
	/*
	 * A note may be removed after it was read. Then the thread sleeps elsewhere, and the next
	 * round notices.
	 */
	n = read_notes(clock_ns()) && !threads_handle_signals() ? threads_asleep(has_note) : -1;
	if (n <= 0)
		return -EBUSY;
	v.threads = (uint64_t)n;
	v.since = waits.since;
	v.sent = __atomic_load_n(&job.mine->sync_out, __ATOMIC_ACQUIRE);
	v.received = __atomic_load_n(&job.mine->sync_in, __ATOMIC_ACQUIRE);
	*out = v;
	return 0;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

static bool stopping(void)
{
	return __atomic_load_n(&state.stop, __ATOMIC_ACQUIRE);
}

/* False: some thread does not wait. */
static bool ask_all(struct asleep *v)
{
	const uint64_t none = 0;
	uint16_t r;

	for (r = 0; r < job.size; r++)
		if (stopping() ||
		    call_rank(r, CALL_ASLEEP, &none, sizeof(none), &v[r], sizeof(v[r])))
			return false;
	return true;
}

/* False: the job is ending. */
static bool pause_ms(int ms)
{
	for (; ms > 0 && !stopping(); ms -= 10)
		usleep(10000);
	return !stopping();
}

static bool is_deadlock(struct asleep *first, struct asleep *second)
{
	uint64_t sent = 0, received = 0;
	uint16_t r;

	if (!pause_ms(20) || !ask_all(first) || !pause_ms(deadlock_ms()) || !ask_all(second) ||
	    memcmp(first, second, job.size * sizeof(*first)))
		return false;
	for (r = 0; r < job.size; r++) {
		sent += second[r].sent;
		received += second[r].received;
	}
	return sent == received;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* ", held by ..." if the holder is known; else empty. */
static void holder_describe(const struct stall_row *rows, unsigned int n, const struct stall_row *w,
			    char *buf, size_t size)
{
	unsigned int i;

	buf[0] = 0;
	for (i = 0; i < n; i++) {
		const struct stall_row *o = &rows[i];

		if (o->about.kind == ABOUT_HOLDS) {
			if (w->about.kind != ABOUT_OBJECT || !stall_same(&o->about, &w->about))
				continue;
			snprintf(buf, size, ", held by rank %u", o->rank);
			return;
		}
		if (w->label.holder && o->tid == w->label.holder) {
			snprintf(buf, size, ", held by thread %u of rank %u", o->tid, o->rank);
			return;
		}
	}
	if (w->label.holder)
		snprintf(buf, size, ", held by thread %u", w->label.holder);
}

static unsigned int deadlock_gather(struct stall_row *rows)
{
	unsigned int n = 0;
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		int got = call_rank(r, CALL_STALLS, "", 0, &rows[n], STALL_ROWS * sizeof(*rows));

		if (got > 0)
			n += (unsigned int)got / sizeof(*rows);
	}
	return n;
}

/* Report, unless all remaining threads belong to a layer above. */
static void deadlock_report(struct stall_row *rows)
{
	const unsigned int n = deadlock_gather(rows);
	unsigned int i, threads = 0, said = 0;
	char object[160], holder[80];

	for (i = 0; i < n; i++)
		threads += rows[i].about.kind != ABOUT_HOLDS;
	if (!threads)
		return;
	state.reported = true;
	log_line(
		"deadlock: the threads of all ranks wait for each other (%u thread%s; DSM_DEADLOCK=%s)",
		threads, threads > 1 ? "s" : "", job.set.deadlock);
	for (i = 0; i < n && said < LINES_MAX; i++) {
		const struct stall_row *w = &rows[i];

		if (w->about.kind == ABOUT_HOLDS)
			continue;
		stall_object(w, object, sizeof(object));
		holder_describe(rows, n, w, holder, sizeof(holder));
		log_line("deadlock: thread %u of rank %u waits for %s%s", w->tid, w->rank, object,
			 holder);
		said++;
	}
	if (said < threads)
		log_line("deadlock: and %u threads more", threads - said);
	if (!strcmp(job.set.deadlock, "abort"))
		lost_abort(DEADLOCK_STATUS, "the program is deadlocked (DSM_DEADLOCK=abort)");
}

static void deadlock_ask(void)
{
	struct asleep *views = calloc(job.size, 2 * sizeof(*views));
	struct stall_row *rows = calloc(job.size, STALL_ROWS * sizeof(*rows));

	if (views && rows && is_deadlock(views, views + job.size))
		deadlock_report(rows);
	free(views);
	free(rows);
}

void deadlock_check(uint64_t now)
{
	if (now < state.next || __atomic_load_n(&job.state, __ATOMIC_ACQUIRE) != CTL_RUNNING ||
	    stopping() || state.reported)
		return;
	state.next = now + (uint64_t)deadlock_ms() * 1000000u;
	if (!read_notes(now))
		return;
	if (stall_collector_start(deadlock_ask))
		state.next = now + note_limit_ns();
}

void deadlock_stop(void)
{
	__atomic_store_n(&state.stop, 1, __ATOMIC_RELEASE);
	stall_collector_wait();
}

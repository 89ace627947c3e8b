// SPDX-License-Identifier: BSD-2-Clause
/*
 * stall.c - if a wait lasts long, one report says which threads wait where (DSM_STALL_MS).
 *
 * A thread that goes to sleep leaves a note that says what it waits for (note.c). A waiter whose
 * own wait has lasted for DSM_STALL_MS gathers the notes of all ranks, those of other nodes by
 * calls, and prints the report. In the fault handler, and if the kernel helper has the waits, a
 * thread does that instead (stall_collector.c), which the service thread starts: a call must not
 * wait there, or cannot be made. One process of a node at a time reports (`stall_due`), and among
 * the nodes the one with the lowest rank whose wait is old; intervals double.
 */
#include "watch/stall.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calls/call.h"
#include "fault/catch.h"
#include "fault/range.h"
#include "job/job.h"
#include "job/note.h"
#include "util/futex.h"
#include "util/log.h"
#include "watch/deadlock.h"
#include "watch/stall_collector.h"

#define ROWS 2048 /* of all ranks, per report */

/* ---- gathering ------------------------------------------------------------------------------- */

enum { OUTSIDE = 0, ABSENT, WAITS, PART, HOLDS };

/* -errno: a rank cannot be asked, or another node reports. */
static int stall_gather(struct stall_row *rows)
{
	unsigned int n = 0, i;
	int lowest = job.size;
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		size_t room = (ROWS - n < STALL_ROWS ? ROWS - n : STALL_ROWS) * sizeof(rows[0]);
		int got = call_rank(r, CALL_STALLS, "", 0, &rows[n], room);

		if (got < 0)
			return got;
		n += (unsigned int)got / sizeof(rows[0]);
	}
	for (i = 0; i < n; i++)
		if (rows[i].about.kind != ABOUT_HOLDS && rows[i].age_ms >= job.set.stall_ms &&
		    rows[i].rank < lowest)
			lowest = rows[i].rank;
	return lowest < job.size && is_here((uint16_t)lowest) ? (int)n : -EAGAIN;
}

/* ---- the line -------------------------------------------------------------------------------- */

struct text {
	size_t n;
	char s[880];
};

static void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
	va_end(ap);
	t->n = t->n + (size_t)n < sizeof(t->s) ? t->n + (size_t)n : sizeof(t->s) - 1;
}

/* The name that the program has given; false: none. */
static bool labelled(const struct wait_label *l, char *buf, size_t size)
{
	static const char *const names[] = {
		[DSM_WAIT_MUTEX] = "mutex",     [DSM_WAIT_COND] = "condition",
		[DSM_WAIT_RWLOCK] = "rwlock",   [DSM_WAIT_SEM] = "semaphore",
		[DSM_WAIT_BARRIER] = "barrier", [DSM_WAIT_JOIN] = "the end of thread",
		[DSM_WAIT_FUTEX] = "futex"
	};

	if (l->what >= sizeof(names) / sizeof(names[0]) || !names[l->what])
		return false;
	snprintf(buf, size, "%s %#lx", names[l->what], (unsigned long)l->object);
	return true;
}

void stall_object(const struct stall_row *row, char *buf, size_t size)
{
	static const char *const names[] = { [SYNC_MUTEX] = "mutex",
					     [SYNC_RWLOCK] = "rwlock",
					     [SYNC_COND] = "condition",
					     [SYNC_SEM] = "semaphore",
					     [SYNC_ATOMIC] = "atomic object" };
	const struct wait_about *a = &row->about;
	struct dsm_region *r;

	if (labelled(&row->label, buf, size))
		return;
	switch ((enum about)a->kind) {
	case ABOUT_BLOCK:
		r = region_at(block_off(a->object));
		snprintf(buf, size, "block %p of %s, home node %u",
			 (void *)range_at(block_off(a->object)), r ? r->name : "?", a->home);
		return;
	case ABOUT_OBJECT:
		snprintf(buf, size, "%s %u of node %u",
			 a->sync < sizeof(names) / sizeof(names[0]) && names[a->sync]
				 ? names[a->sync]
				 : "object",
			 a->object & SYNC_INDEX_MAX, a->home);
		return;
	case ABOUT_BARRIER:
		if (a->object)
			snprintf(buf, size, "barrier %u of rank %u", a->object / job.size,
				 a->object % job.size);
		else
			snprintf(buf, size, "dsm_barrier() or a collective");
		return;
	case ABOUT_CALL:
	case ABOUT_HOLDS:
	case ABOUT_DONE: break;
	}
	snprintf(buf, size, "answers to calls");
}

/* "rank 3 waits", "ranks 0-2,5 wait": the ranks with which[r] == is. False: there are none. */
static bool text_add_ranks(struct text *t, const char *before, const uint8_t *which, uint8_t is,
			   const char *one, const char *many)
{
	unsigned int n = 0, r, end;
	bool comma = false;

	for (r = 0; r < job.size; r++)
		n += which[r] == is;
	if (!n)
		return false;
	text_add(t, "%s%s ", before, n > 1 ? "ranks" : "rank");
	for (r = 0; r < job.size; r = end) {
		for (end = r; end < job.size && which[end] == is; end++)
			;
		if (end == r) {
			end++;
			continue;
		}
		text_add(t, end - r > 1 ? "%s%u-%u" : "%s%u", comma ? "," : "", r, end - 1);
		comma = true;
	}
	text_add(t, " %s", n > 1 ? many : one);
	return true;
}

bool stall_same(const struct wait_about *a, const struct wait_about *b)
{
	return a->home == b->home && a->object == b->object;
}

static bool same(const struct stall_row *a, const struct stall_row *b)
{
	if (a->label.what || b->label.what)
		return a->label.what == b->label.what && a->label.object == b->label.object;
	return stall_same(&a->about, &b->about);
}

static void text_add_barrier(struct text *t, const struct wait_about *a, uint8_t *which,
			     const uint32_t *threads)
{
	uint16_t r;

	for (r = 0; r < job.size; r++)
		if (which[r] == WAITS && threads[r] < a->threads)
			which[r] = PART;
		else if (!which[r] && (!a->mask || a->mask >> r & 1))
			which[r] = ABSENT;
	text_add_ranks(t, ": ", which, WAITS, "waits", "wait");
	text_add_ranks(t, ", ", which, PART, "waits with some of its threads",
		       "wait with some of their threads");
	text_add_ranks(t, ", ", which, ABSENT, "has not arrived", "have not arrived");
}

static void text_add_other(struct text *t, const uint8_t *which)
{
	text_add_ranks(t, ": ", which, WAITS, "waits", "wait");
	text_add_ranks(t, ", ", which, HOLDS, "holds it", "hold it");
}

/* Print all threads that wait for the same as rows[i], and mark them as printed. */
static void text_add_group(struct text *t, struct stall_row *rows, unsigned int n, unsigned int i)
{
	static uint32_t threads[WIRE_MAX_NODES];
	static uint8_t which[WIRE_MAX_NODES];
	const struct stall_row row = rows[i];
	const struct wait_about a = row.about;
	char object[160];
	unsigned int k;

	memset(which, OUTSIDE, sizeof(which));
	memset(threads, 0, sizeof(threads));
	for (k = 0; k < n; k++) {
		struct stall_row *o = &rows[k];

		if (o->about.kind == a.kind && same(o, &row)) {
			which[o->rank] = WAITS;
			threads[o->rank]++;
			o->about.kind = ABOUT_DONE;
		} else if (o->about.kind == ABOUT_HOLDS && a.kind == ABOUT_OBJECT &&
			   stall_same(&o->about, &a) && !which[o->rank]) {
			which[o->rank] = HOLDS;
		}
	}
	stall_object(&row, object, sizeof(object));
	text_add(t, "%s", object);
	if (a.kind == ABOUT_BARRIER)
		text_add_barrier(t, &a, which, threads);
	else
		text_add_other(t, which);
}

static void stall_report(void)
{
	/* stall_due admits one thread per node, for as long as its calls last */
	static struct stall_row rows[ROWS];
	static uint8_t busy[WIRE_MAX_NODES];
	static uint32_t inside;
	struct text t = { 0 };
	uint64_t oldest = 0;
	unsigned int i;
	int n;

	if (__atomic_exchange_n(&inside, 1, __ATOMIC_ACQUIRE))
		return;
	n = stall_gather(rows);
	memset(busy, OUTSIDE, sizeof(busy));
	for (i = 0; n > 0 && i < (unsigned int)n; i++)
		if (rows[i].about.kind != ABOUT_HOLDS) {
			busy[rows[i].rank] = WAITS;
			oldest = rows[i].age_ms > oldest ? rows[i].age_ms : oldest;
		}
	for (i = 0; n > 0 && i < (unsigned int)n; i++)
		if (rows[i].about.kind != ABOUT_HOLDS && rows[i].about.kind != ABOUT_DONE) {
			text_add(&t, "%s", t.n ? "; " : "");
			text_add_group(&t, rows, (unsigned int)n, i);
		}
	if (t.n) {
		text_add_ranks(&t, "; ", busy, OUTSIDE, "is not waiting in libdsm",
			       "are not waiting in libdsm");
		log_line("after %lu s without an answer (a report, not an error: DSM_STALL_MS): %s",
			 (unsigned long)(oldest / 1000), t.s);
	}
	__atomic_store_n(&inside, 0, __ATOMIC_RELEASE);
}

/* May this process report now? */
static bool stall_claim(uint64_t now)
{
	struct ctl *c = job.me;
	uint64_t due = __atomic_load_n(&c->stall_due, __ATOMIC_RELAXED),
		 step = __atomic_load_n(&c->stall_step, __ATOMIC_RELAXED);

	step = step ? step * 2 : note_limit_ns();
	if (now < due ||
	    !__atomic_compare_exchange_n(&c->stall_due, &due, now + step, 0, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&c->stall_step, step, __ATOMIC_RELAXED);
	return true;
}

bool stall_is_due(uint64_t since, uint64_t now)
{
	return job.set.stall_ms && now - since >= note_limit_ns() && !note_quiet &&
		stall_claim(now);
}

static uint32_t wanted; /* a report by the asking thread is wanted; atomic */

static void stall_want(void)
{
	__atomic_store_n(&wanted, 1, __ATOMIC_RELEASE);
}

void stall_ask(void)
{
	if (__atomic_exchange_n(&wanted, 0, __ATOMIC_ACQUIRE) &&
	    !stall_collector_start(stall_report))
		stall_want(); /* let the other thread ask */
}

static void report_here(void)
{
	struct wait_about mine = wait_about;

	note_quiet = true; /* its own calls are waits, too */
	about_none();
	stall_report();
	wait_about = mine;
	note_quiet = false;
}

void stall_check(uint64_t since, uint64_t now)
{
	if (stall_is_due(since, now)) {
		if (fault_handling()) {
			stall_want();
			job_ring(job.rank);
		} else {
			report_here();
		}
	}
	if (job.size == 1 && deadlock_watches()) /* a job of one rank has no service thread */
		deadlock_check(now);
}

void stall_check_kernel(void)
{
	static uint64_t next;
	uint64_t now = clock_ns();
	unsigned int i;

	if (now < next)
		return;
	next = now + 500000000u;
	for (i = 0; i < CTL_NOTES; i++) {
		uint64_t since = __atomic_load_n(&job.mine->notes[i].since, __ATOMIC_RELAXED);

		if (since && since < now && stall_is_due(since, now))
			stall_want();
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * wait.c - threads that sleep until another has done something (miss/wait.c), and slots that are
 * short (miss/slot.c). The sleeper counts itself, then checks once more; the waker changes the
 * word, then looks for sleepers. Nobody sleeps for ever. What these files call besides is not the
 * subject: it does nothing here, and time stands still, so that each wait sleeps.
 */
#include "../order.h"
#include "miss/slot.c"
#include "miss/wait.c"

struct job job;
__thread int engine_depth __attribute__((tls_model("initial-exec")));
__thread int engine_cancel __attribute__((tls_model("initial-exec")));
__thread int engine_rests __attribute__((tls_model("initial-exec")));
__thread uint64_t engine_kept __attribute__((tls_model("initial-exec")));
void (*word_lock_late)(void);

static struct ctl ctl;

static struct {
	uint32_t word, sleepers;
	uint32_t data; /* written before the word */
} m;

static uint32_t seq;

/* The counters of sleepers and pollers in wait.c are hints for other threads, and no part of it. */
static void long_wait(uint64_t since, uint64_t now)
{
	(void)since;
	(void)now;
}

static const struct upcalls up = { .long_wait = long_wait };

void scene_memory(void)
{
	job.up = &up;
	job.me = &ctl;
	share(m);
	share(ctl.slots[0]);
	share(ctl.brief_queue);
	share(ctl.block_queue);
	share(ctl.brief_slots);
	share(ctl.slot_next[CTL_BLOCK_END]);
	share(ctl.slot_used);
	share(ctl.lasting_slots);
	share(ctl.left_last);
	share(ctl.slots[CTL_BLOCK_END]);
	own(spins);
	own(nexts);
	own(engine_depth);
	own(engine_rests);
}

bool work_timers(bool all)
{
	(void)all;
	return false;
}

int run_poll(unsigned int most)
{
	return (int)(most - most);
}

bool keep_any(void)
{
	return false;
}

uint64_t run_kept(bool all)
{
	return (uint64_t)(all - all);
}

void keep_pause(void)
{
}

void keep_resume(void)
{
}

void job_await_loss(void)
{
}

int note_begin(uint32_t block, bool lasts_long, uint64_t now)
{
	return (int)(block + lasts_long + now) * 0;
}

void note_end(int note)
{
	(void)note;
}

uint64_t note_nap(uint64_t slept, uint64_t now, uint64_t ns)
{
	return ns + 0 * (slept + now);
}

bool fault_handling(void)
{
	return false;
}

bool fault_signal_waits(void)
{
	return false;
}

void engine_let_signals(void)
{
}

/* ---- a word, a slot -------------------------------------------------------------------------- */

static void word(unsigned int me)
{
	if (me == 1) {
		m.data = 1;
		/* as the core stores a barrier's generation */
		__atomic_store_n(&m.word, 1, __ATOMIC_RELEASE);
		wait_wake(&m.word, &m.sleepers);
	} else {
		wait_word(&m.word, 0, &m.sleepers);
		require(m.data, "what came before the word is not seen");
	}
}

static void slot_begin(void)
{
	seq = ctl.slots[0].seq;
	ctl.slots[0].status = -1;
}

static void slot(unsigned int me)
{
	if (me) {
		slot_complete(0, 5, 77);
	} else {
		wait_slot(0, seq, 1, 0);
		require(ctl.slots[0].status == 5 && ctl.slots[0].value == 77,
			"the answer is not seen");
	}
}

/* "In line", and the turn. */
static void slot_twice(unsigned int me)
{
	if (me) {
		slot_complete(0, 1, 1);
		slot_complete(0, 5, 77);
	} else {
		wait_slot(0, seq, 2, 0);
		require(ctl.slots[0].status == 5, "the second answer is not seen");
	}
}

/* ---- slots that are short -------------------------------------------------------------------- */

/* One brief slot exists, and thread 1 has it. */
static void brief_begin(void)
{
	ctl.brief_slots.fresh = CTL_BRIEF_END - CTL_BLOCK_END;
}

static void brief(unsigned int me)
{
	if (me == 0)
		slot_put(CTL_BLOCK_END);
	else
		slot_put((uint16_t)slot_get(SLOT_BRIEF));
}

/* The same with slots for blocks: all are in use. */
static void block_begin(void)
{
	memset(ctl.slot_used, 0xff, sizeof(ctl.slot_used));
	job.limits.block_slots = CTL_BRIEF_END;
}

static void block(unsigned int me)
{
	if (me == 0)
		slot_put(0);
	else
		slot_put((uint16_t)slot_get(SLOT_BLOCK));
}

/* ---- an answer that comes while its thread stops waiting ------------------------------------- */

static unsigned int frees[ORDER_THREADS];

static void leave(unsigned int me)
{
	if (me == 0)
		frees[0] = !slot_leave(0); /* the answer is here: the thread frees the slot */
	else
		frees[1] = !slot_woken(0);
}

static void quit(unsigned int me)
{
	if (me == 0)
		frees[0] = !slot_quit(0, 9);
	else
		frees[1] = !slot_woken(0);
}

static void leave_begin(void)
{
	frees[0] = frees[1] = 0;
	slot_expect(0);
}

static void leave_end(void)
{
	require(frees[0] + frees[1] == 1, "%u threads free one slot", frees[0] + frees[1]);
}

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "word", .what = "a thread sleeps on a word", .threads = 2, .thread = word },
	{ .name = "slot", .what = "a thread waits for an answer",
	  .threads = 2, .begin = slot_begin, .thread = slot },
	{ .name = "slot-twice", .what = "a thread waits for the second of two answers",
	  .threads = 2, .begin = slot_begin, .thread = slot_twice },
	{ .name = "brief", .what = "a thread waits for a brief slot",
	  .threads = 2, .begin = brief_begin, .thread = brief },
	{ .name = "brief-two", .what = "two threads wait for a brief slot",
	  .threads = 3, .begin = brief_begin, .thread = brief, .switches = 2, .full = true },
	{ .name = "block", .what = "a thread waits for a slot for blocks",
	  .threads = 2, .begin = block_begin, .thread = block },
	{ .name = "block-two", .what = "two threads wait for a slot for blocks",
	  .threads = 3, .begin = block_begin, .thread = block, .switches = 1, .full = true },
	{ .name = "leave", .what = "an answer comes while nobody waits any more",
	  .threads = 2, .begin = leave_begin, .thread = leave, .end = leave_end },
	{ .name = "quit", .what = "a lock comes while its thread gives up",
	  .threads = 2, .begin = leave_begin, .thread = quit, .end = leave_end },
	{ .name = NULL },
};
/* clang-format on */

// SPDX-License-Identifier: BSD-2-Clause
/*
 * block.c - what this rank's threads want of blocks: faults, fetching ahead, giving back, pinning.
 */
#include "miss/block.h"

#include <stdlib.h>

#include "fault/fault.h"
#include "fault/guard.h"
#include "fault/range.h"
#include "job/bad_access.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/memory.h"
#include "job/note.h"
#include "job/stats.h"
#include "miss/discard.h"
#include "miss/footprint.h"
#include "miss/raises.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/sample.h"
#include "miss/sharing.h"
#include "miss/slot.h"
#include "miss/stream.h"
#include "miss/temporal.h"
#include "miss/wait.h"
#include "miss/work.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

static bool may(const struct copy *p, uint8_t access)
{
	struct copy seen = { .state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) };

	return access & DSM_WRITE ? page_writable(&seen) : page_readable(&seen);
}

/* Of a block that it touches first, this node then does not become the home. */
static bool is_full(void)
{
	return __atomic_load_n(&job.me->reclaim.over, __ATOMIC_RELAXED);
}

/* Another node, for 2 MiB in a row. */
static uint16_t node_beside(size_t off)
{
	const uint16_t n = (uint16_t)(off / UNIT_BYTES % (job.nodes - 1u));

	return n < job.node ? n : (uint16_t)(n + 1);
}

/*
 * A full node that is about to touch a block first, and is its manager, places the block at another
 * node. A thread that has asked for the block meanwhile comes first: then it stays.
 */
static void let_overflow(const struct dsm_region *r, size_t off)
{
	const struct msg m = { .type = MSG_PLACE,
			       .src = job.node,
			       .dst = job.node,
			       .object = block_id(off, r->block_size),
			       .req_node = job.node,
			       .value = node_beside(off) };
	struct core_host h = run_host();
	struct actions answer;

	if (is_full() && region_first_touch(r) && !r->consistency &&
	    region_home(r, off) == job.node &&
	    job.mem.dirs[off >> PAGE_SHIFT].state == DIR_UNTOUCHED)
		core_step(&h, &m, NULL, &answer);
}

static struct msg ask_for(const struct dsm_region *r, size_t off, uint16_t slot)
{
	return (struct msg){
		.version = WIRE_VERSION,
		.src = job.node,
		.dst = job.node,
		.object = block_id(off, r->block_size),
		.req_node = job.node,
		.req_slot = slot,
		.home = region_home(r, off),
		.flags = region_first_touch(r) && !is_full() ? MSGF_FIRST_TOUCH : 0,
	};
}

int block_start_prefetch(uint32_t block, bool write, uint8_t flags, uint16_t manager,
			 enum slot_kind kind)
{
	int slot = slot_try_prefetch(block, kind);
	struct msg ask = { .version = WIRE_VERSION,
			   .src = job.node,
			   .dst = job.node,
			   .object = block,
			   .req_node = job.node,
			   .req_slot = (uint16_t)slot,
			   .home = manager,
			   .flags = flags };
	uint16_t wait = SET_NOBODY;
	uint32_t seq;

	if (slot < 0)
		return -EAGAIN;
	if (run_page(write ? PE_WRITE : PE_READ, &ask, &wait, &seq) == CORE_ASKED && wait == slot)
		return 1;
	slot_put((uint16_t)slot);
	return 0;
}

/* blocks asked for at once: as many as slots to fetch ahead */
#define PIECE (CTL_AHEAD_SLOTS - CTL_BLOCK_SLOTS)

/* Will this rank not read the block, as far as it has sampled? */
static bool is_denied(const struct dsm_region *r, size_t off)
{
	const struct footprint *chunk;
	unsigned int page;

	if (!r->consistency || !sample_works())
		return false;
	chunk = sample_chunk(off, &page);
	return footprint_denies(chunk, page);
}

/* Ask for a block that a thread is expected to miss. */
static int ask_predicted(const struct dsm_region *r, size_t off, bool write)
{
	struct footprint *chunk;
	unsigned int page;

	if (r->consistency) {
		chunk = sample_chunk(off, &page);
		footprint_asked(chunk, page);
	}
	return block_start_prefetch(block_id(off, r->block_size), write, ask_for(r, off, 0).flags,
				    region_home(r, off), SLOT_AHEAD);
}

/* Ask for copies of the release blocks of a set, from the chunk that begins at `first`. */
static unsigned int ask_set(const struct dsm_region *r, size_t first, uint16_t set,
			    unsigned int most)
{
	const struct region_homes *known = &job.me->homes[r->id];
	unsigned int asked = 0;
	int got = 0;
	size_t off;

	for (; set && asked < most && got != -EAGAIN; set &= (uint16_t)(set - 1)) {
		off = first + ((size_t)__builtin_ctz(set) << PAGE_SHIFT);
		if (off >= r->off + r->size || !release_copy_is(known, off, REL_NONE))
			continue;
		got = ask_predicted(r, off, false);
		asked += got > 0;
	}
	return asked;
}

/*
 * As for a miss of the block at off, which is only predicted. known: only what was seen to be used
 * with it. Returns how many.
 */
static unsigned int ask_chunk_ahead(const struct dsm_region *r, size_t off, bool known)
{
	unsigned int page;
	const struct footprint *chunk = sample_chunk(off, &page);

	return ask_set(r, off - ((size_t)page << PAGE_SHIFT),
		       known ? footprint_known(chunk) : footprint_used(chunk), job.set.readahead);
}

/*
 * Ask for up to n blocks, from off on and so far from each other, that this rank does not have;
 * what it causes is only queued. guess: leave those out that are denied; and as in a miss, what is
 * known to be used with each of the others is asked for, unless they are neighbours. Returns how
 * many of the n are here, were left out, or were asked for: the first ones, as long as there are
 * slots.
 */
static unsigned int ask_ahead(const struct dsm_region *r, size_t off, long distance, unsigned int n,
			      bool write, bool guess)
{
	const bool along = guess && r->consistency && labs(distance) > (long)PAGE_BYTES;
	unsigned int asked = 0, i;
	int got;

	if (write && r->consistency) {
		release_make_room();
		/* those that are on their way are not counted yet */
		if (!release_many_fit(2 * PIECE))
			n = 0;
	}
	for (i = 0; i < n && off - r->off < r->size; i++, off += (size_t)distance) {
		if (may(block_copy(off), write ? DSM_WRITE : DSM_READ) ||
		    (r->consistency && release_comes(&job.me->homes[r->id], off)) ||
		    (guess && is_denied(r, off)))
			continue;
		if (work_mine()->raises && may(block_copy(off), DSM_READ) &&
		    !raises_asks(&job.me->homes[r->id], off))
			break; /* its store would make a twin */
		let_overflow(r, off);
		got = ask_predicted(r, off, write);
		if (got == -EAGAIN)
			break;
		asked += got > 0;
		if (got > 0 && along)
			asked += ask_chunk_ahead(r, off, true);
	}
	count(&job.mine->region_stats[r->id].prefetched, asked);
	return i;
}

/* May a writer take this block ahead? If it wrote it last, or nobody ever did. */
static bool ours(const struct dsm_region *r, size_t off)
{
	const struct copy *p;

	if (r->consistency)
		return release_is_home(&job.me->homes[r->id], off);
	p = block_copy(off);
	if (__atomic_load_n(&p->state, __ATOMIC_RELAXED) == PG_READ)
		return p->flags & PAGE_OWNER;
	return region_home(r, off) == job.node &&
		job.mem.dirs[off >> PAGE_SHIFT].state == DIR_UNTOUCHED;
}

/*
 * May a thread whose stream is at off take the n-th block after it ahead? For a write, one of
 * another node only if the stream is long, or a column that is expected to be: where it ends, that
 * node has to fetch blocks back, at most those that were expected, or a quarter of those that the
 * writer needed.
 */
static bool in_stream(const struct dsm_region *r, const struct stream *s, size_t off,
		      unsigned int n, bool write)
{
	const size_t at = off + (n + 1) * (size_t)s->distance;

	/* a block outside the region has no home either */
	return at - r->off < r->size && (!write || n < stream_owed(s) || ours(r, at));
}

/* This thread's misses of release blocks. A region is not disturbed by another. */
#define ORDERS 4u
static __thread struct temporal orders[ORDERS] __attribute__((tls_model("initial-exec")));

/*
 * Ask for copies of the blocks that the node uses together with the one at off, which was missed.
 * column: its thread uses blocks at a distance, so what lies between may belong to others: only
 * what is known counts, and the thread learns no trust. most 0: only remember it.
 */
static void ask_chunk(const struct dsm_region *r, size_t off, unsigned int most, bool column)
{
	int8_t none = -FOOTPRINT_TRUST, *const trust = column ? &none : sample_trust(r->id);
	const struct region_homes *known = &job.me->homes[r->id];
	unsigned int page, i;
	struct footprint *chunk = sample_chunk(off, &page);
	const size_t first = off - ((size_t)page << PAGE_SHIFT);
	uint16_t set = 0;

	for (i = 0; i < FOOTPRINT_PAGES && first + i * PAGE_BYTES < r->off + r->size; i++)
		set |= (uint16_t)(!release_is_home(known, first + i * PAGE_BYTES) << i);
	set = footprint_missed(chunk, page, set, sample_works(), trust);
	count(&job.mine->region_stats[r->id].prefetched, ask_set(r, first, set, most));
}

/*
 * Ask for the blocks of the region that this thread misses next if it repeats an order of misses.
 * Only of release blocks: a copy that nobody reads costs the writer of a sequential block a wait.
 * Only of this region: the thread uses it, so it is not being removed, which another may be.
 */
static void follow_links(const struct dsm_region *r, size_t off, unsigned int most)
{
	const struct region_homes *known = &job.me->homes[r->id];
	struct temporal *t = &orders[r->id % ORDERS];
	unsigned int asked = 0, along = 0;
	uint32_t page, tail = 0;
	int got = 0;

	temporal_missed(t, job.mem.sharing, (uint32_t)(off >> PAGE_SHIFT), most);
	while (asked < t->window && got != -EAGAIN) {
		tail = t->tail;
		if (!temporal_next(t, job.mem.sharing, &page))
			break;
		off = (size_t)page << PAGE_SHIFT;
		if (off - r->off >= r->size || !release_copy_is(known, off, REL_NONE))
			continue;
		got = ask_predicted(r, off, false);
		asked += got > 0;
		along += ask_chunk_ahead(r, off, false);
	}
	if (got == -EAGAIN)
		t->tail = tail; /* the next miss goes on there */
	count(&job.mine->region_stats[r->id].prefetched, asked + along);
}

/*
 * How many blocks of a stream, from off on, the node has, come, or are denied to a reader: none of
 * them will be missed.
 */
static unsigned int here_already(const struct dsm_region *r, size_t off, long distance, bool write)
{
	const struct region_homes *known = &job.me->homes[r->id];
	unsigned int n;

	for (n = 0; r->consistency && n < PIECE && off - r->off < r->size &&
	     (may(block_copy(off), DSM_READ) || release_comes(known, off) ||
	      (!write && is_denied(r, off)));
	     n++)
		off += (size_t)distance;
	return n;
}

/* Where a thread goes on that touches memory in order. */
static __thread struct {
	size_t next, before; /* upwards, and downwards, as memcpy(3) copies aligned arrays */
	unsigned int window;
} touches __attribute__((tls_model("initial-exec")));

/*
 * A thread has touched a block that nobody had touched, at its home. Those where it goes on get
 * their memory as well: as many as for a writer in order, or as there is memory around it.
 */
static void touch_ahead(const struct dsm_region *r, size_t off)
{
	const bool down = off + r->block_size == touches.before;
	unsigned int n;

	if (!job.set.readahead || is_full())
		return;
	touches.window = touches.next != off && !down    ? 0
		: 2 * touches.window + 1 < RELEASE_AHEAD ? 2 * touches.window + 1
							 : RELEASE_AHEAD;
	n = release_touched_around(off);
	if (n < touches.window)
		n = touches.window;
	n = down ? release_touch_before(off, r->off, n)
		 : release_touch_ahead(off + r->block_size, r->off + r->size, n);
	touches.next = off + (1 + (down ? 0 : n)) * r->block_size;
	touches.before = off - (down ? n : 0) * r->block_size;
}

#define REGION_SHIFT 44 /* a window has 8 TiB at most */

/* A place in the streams of a thread: blocks of two regions are none. */
static size_t in_region_of(const struct dsm_region *r, size_t off)
{
	return (size_t)r->id << REGION_SHIFT | (off - r->off);
}

/* Of n blocks, those that may be asked for at once. */
static unsigned int ahead_at_once(const struct dsm_region *r, unsigned int n)
{
	const unsigned int fit = (unsigned int)(BLOCK_MAX / r->block_size);

	n = n < STREAM_MOST ? n : STREAM_MOST;
	return n < fit ? n : fit;
}

static void read_ahead(const struct dsm_region *r, size_t off, bool write)
{
	const size_t in_region = in_region_of(r, off);
	const unsigned int most = ahead_at_once(r, job.set.readahead);
	struct stream *s;
	unsigned int n = 0;

	if (r->consistency)
		follow_links(r, off, most);
	s = stream_missed(&work_mine()->streams[write], in_region, r->block_size, most,
			  ahead_at_once(r, most * STREAM_LONG));
	/* a writer in order asks for homes, and copies would be in the way */
	if (r->consistency)
		ask_chunk(r, off, write && s ? 0 : job.set.readahead,
			  s && stream_is_column(s, r->block_size));
	if (!s)
		return;
	while (n < s->window && in_stream(r, s, off, n, write))
		n++;
	n = ask_ahead(r, off + (size_t)s->distance, s->distance, n, write, !write);
	n += here_already(r, off + (1 + n) * (size_t)s->distance, s->distance, write);
	stream_asked(s, in_region, n);
}

/* ---- stores to copies of release blocks ------------------------------------------------------ */

/*
 * A thread is about to store to a copy that it can read. If such stores go on in order, or at one
 * distance, they may ask for homes. Data that a lock protects go from node to node: their homes
 * stay.
 */
static void store_begins(const struct dsm_region *r, size_t off)
{
	const size_t in_region = in_region_of(r, off);
	struct work *w = work_mine();

	if (in_region != w->stored) /* it is not repeated, after a refusal */
		w->storing = stream_missed(&w->opened, in_region, r->block_size,
					   job.set.readahead ? RELEASE_AHEAD : 0, RELEASE_AHEAD);
	w->stored = in_region;
	w->raises = w->storing && raises_pay();
}

static void store_ends(unsigned int n)
{
	struct work *w = work_mine();

	if (w->storing)
		stream_asked(w->storing, w->stored, n);
}

/* Will the home of this block not miss it? It had never touched it. */
static bool is_fresh_at(const struct dsm_region *r, size_t at)
{
	return at - r->off < r->size && release_is_fresh(&job.me->homes[r->id], at);
}

/*
 * It has asked for the home. It asks for those of the blocks behind it, too: at most for a quarter
 * of those that were needed, or what is left of a column, as for a write miss (in_stream()); and
 * for fresh ones.
 */
static void raise_ahead(const struct dsm_region *r, size_t off)
{
	const struct stream *s = work_mine()->storing;
	unsigned int most = ahead_at_once(r, job.set.readahead), n = 0;

	if (s) {
		most = stream_limit(s, most, ahead_at_once(r, most * STREAM_LONG));
		most = s->window < most ? s->window : most;
		while (n < most &&
		       (n < stream_owed(s) || is_fresh_at(r, off + (n + 1) * (size_t)s->distance)))
			n++;
		n = ask_ahead(r, off + (size_t)s->distance, s->distance, n, true, false);
	}
	store_ends(n);
}

/*
 * It has opened the copy. Those behind it get their twins as well, if they were written before, or
 * if this is the third one in order.
 */
static void open_ahead(const struct dsm_region *r, size_t off)
{
	const struct stream *s = work_mine()->storing;
	const bool in_order = s && s->distance == (long)r->block_size;
	const unsigned int n = release_open_ahead(off, r->off + r->size,
						  in_order && s->length > 1 ? s->window : 0);

	store_ends(s && s->distance > 0 ? n * r->block_size / (size_t)s->distance : 0);
}

static void keep_mapped(const struct dsm_region *r, size_t at, bool on)
{
	if (job.fault->pin)
		job.fault->pin(at, r->block_size, on);
}

/*
 * Under the stripe. The protocol has the block open; the hardware, where it may lag behind, has it
 * from now on, too.
 */
static int keep_open(const struct dsm_region *r, size_t at)
{
	int err;

	/* for each pin: the node's number of pins says nothing of this rank's */
	keep_mapped(r, at, true);
	err = discard_refill(at, r->block_size);
	if (err < 0 || !job.fault->again)
		return err < 0 ? err : 0;
	err = job.fault->again(at, r->block_size,
			       page_writable(block_copy(at)) ? PROT_RW : PROT_RO);
	return err < 0 ? err : 0;
}

struct pin {
	const struct dsm_region *r;
	size_t at;
	uint8_t access;
	int err; /* -EAGAIN: the block is not here */
};

/* Under the stripe. */
static void pin_here(void *arg)
{
	struct pin *pin = arg;
	struct copy *p = block_copy(pin->at);

	pin->err = page_pin(p, pin->access);
	if (!pin->err && keep_open(pin->r, pin->at)) {
		page_unpin(p, pin->access);
		keep_mapped(pin->r, pin->at, false);
		pin->err = -ENOMEM; /* the map count is used up by what is pinned */
	}
}

enum got {
	GOT_PERHAPS, /* look again */
	GOT_OPEN,    /* the node has it, and this rank's mapping has followed */
	GOT_ASKED    /* it was asked for, and came */
};

/*
 * Get one block for a thread that waits for it. In the fault handler, a signal that waits makes it
 * return at once. The request goes on without the thread, as one that fetches ahead, and the
 * repeated access joins it.
 *
 * A pin (NULL: none) comes before the home hears that the block is used: a home of this node would
 * have it taken away at once for the next node in line, and would never get it pinned as long as
 * there is one.
 */
static enum got get(const struct dsm_region *r, size_t off, bool write, bool ahead, struct pin *pin)
{
	int found = slot_get(SLOT_BLOCK);
	uint16_t slot = (uint16_t)found, wait = 0;
	struct msg ask = ask_for(r, off, slot);
	enum core_page page;
	uint32_t seq = 0;

	if (found < 0)
		return GOT_PERHAPS;
	HOOK(miss_slot);
	let_overflow(r, off);
	__atomic_store_n(&job.me->slots[slot].object, ask.object, __ATOMIC_RELAXED);
	wait_begin();
	page = run_page(write ? PE_WRITE : PE_READ, &ask, &wait, &seq);
	if (page != CORE_ASKED) {
		wait_end();
		slot_put(slot);
		if ((int)page == -EAGAIN)
			/* what this node has changed of the release block is not at its home yet */
			block_help();
		return page == CORE_FOLLOWED ? GOT_OPEN : GOT_PERHAPS;
	}
	if (wait != slot) {
		/*
		 * another thread's request: any number of threads may wait for it, so none keeps a
		 * slot
		 */
		slot_put(slot);
		run_work();
		HOOK(miss_joined);
		wait_slot(wait, seq, 1, 0);
		wait_end();
		return GOT_PERHAPS;
	}
	HOOK(miss_asked);
	run_work(); /* the thread waits for this one: it does not travel with those that follow */
	if (ahead && work_mine()->raises) {
		raise_ahead(r, off);
		run_work();
	} else if (ahead) {
		read_ahead(r, off, write);
		run_work();
	}
	HOOK(miss_sent);
	if (wait_slot(slot, seq, 1, 0) == -EINTR && slot_leave(slot))
		return GOT_PERHAPS;
	while (wait_slot(slot, seq, 1, 0))
		; /* the answer is as good as there */
	wait_end();
	HOOK(miss_came);
	work_use();
	run_used(&ask, pin ? pin_here : NULL, pin);
	HOOK(miss_used);
	/* Threads that joined after the answer had come wait for this. */
	slot_complete(slot, 0, 0);
	run_work();
	work_used();
	slot_put(slot);
	return GOT_ASKED;
}

/* What this rank has kept to read is read-only in its new mapping. */
static void protect_again(const struct dsm_region *r)
{
	size_t at, end = r->off + r->bytes;

	for (at = memory_next_used(r->off, end); at < end;
	     at = memory_next_used(at + r->block_size, end)) {
		size_t off = at / r->block_size * r->block_size;
		uint32_t *stripe = block_stripe(block_id(off, r->block_size));
		const struct copy *p = block_copy(off);

		word_lock(stripe);
		if (page_readable(p) && !page_writable(p))
			job.fault->lower(off, r->block_size);
		word_unlock(stripe);
	}
}

int block_attach(const struct dsm_region *r)
{
	if (!one_node())
		protect_again(r);
	return 0;
}

enum fault_answer block_fault(void *addr, bool write)
{
	struct dsm_region *r;
	enum guard guard;
	size_t off;

	if (!range_off(addr, &off))
		return FAULT_REFUSED;
	guard = guard_of(off);
	if (guard == GUARD_STACK)
		bad_access_guard(addr);
	if (guard_forbids(guard, write))
		return FAULT_NOWHERE;
	r = region_at(off);
	if (!r || off >= r->off + region_usable(r)) {
		bad_access_report(addr, write);
		return FAULT_NOWHERE;
	}
	job_await_quit();
	return one_node() ? FAULT_REFUSED : job.host->fault(r, addr, write);
}

enum fault_answer block_miss(struct dsm_region *r, void *addr, bool write)
{
	struct region_stats *s;
	uint64_t start;
	size_t off;
	bool upgrade, repeated, fresh;
	uint8_t state;
	const bool inside = engine_depth; /* at rest, which may be a cancellation point */
	int before = 0;
	enum got got;

	if (!range_off(addr, &off))
		return FAULT_REFUSED;
	if (engine_busy()) {
		log_line(
			"shared memory at %p is touched by a signal handler that interrupted a libdsm call that does not "
			"sleep, which is not supported (dsm_signal_defer(3))",
			addr);
		return FAULT_REFUSED;
	}
	off = r->off + (off - r->off) / r->block_size * r->block_size;
	if (inside)
		before = engine_keep();
	engine_enter();
	HOOK(miss_begin);
	start = clock_ns();
	s = &job.mine->region_stats[r->id];
	if (write && r->consistency)
		release_make_room();
	state = __atomic_load_n(&block_copy(off)->state, __ATOMIC_RELAXED);
	upgrade = write && state == PG_READ;
	fresh = state == PG_INVALID;
	repeated = sharing_is_repeated(off, upgrade);
	if (upgrade && r->consistency)
		store_begins(r, off);
	got = get(r, off, write, job.set.readahead, NULL);
	if (got == GOT_ASKED) {
		unsigned int kind = upgrade ? DSM_LAT_UPGRADE
			: write             ? DSM_LAT_WRITE_MISS
					    : DSM_LAT_READ_MISS;

		count(upgrade ? &s->upgrades : write ? &s->write_faults : &s->read_faults, 1);
		count(&s->repeated_faults, repeated);
		sharing_missed(off, repeated);
		stats_latency(&s->latency_count[kind], &s->latency_sum[kind], &s->latency_max[kind],
			      s->latency[kind], clock_ns() - start);
	} else if (got == GOT_OPEN && r->consistency && fresh) {
		touch_ahead(r, off);
	} else if (got == GOT_OPEN && upgrade && r->consistency) {
		open_ahead(r, off);
	} else if (got == GOT_PERHAPS) {
		sched_yield(); /* whoever opens the block is about to */
	}
	work_mine()->raises = false;
	work_timers(true);
	HOOK(miss_end);
	engine_leave();
	if (inside)
		engine_let(before);
	return FAULT_SERVED;
}

/* Is the access possible now? What the protocol has open may be without a frame (discard.h). */
static bool has_come(size_t at, uint8_t access)
{
	return may(block_copy(at), access) && !discard_is_empty(at);
}

int block_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait)
{
	size_t end = off + len, at, step = (size_t)PIECE * r->block_size;

	engine_enter();
	for (at = off; at < end; at += step) {
		size_t stop = at + step < end ? at + step : end, b;

		ask_ahead(r, at, r->block_size, (unsigned int)((stop - at) / r->block_size),
			  access & DSM_WRITE, false);
		run_work();
		for (b = at; wait && b < stop; b += r->block_size)
			while (!has_come(b, access) &&
			       get(r, b, access & DSM_WRITE, false, NULL) == GOT_PERHAPS)
				;
	}
	work_timers(true);
	engine_leave();
	return 0;
}

void block_help(void)
{
	work_timers(false);
	if (job.net)
		run_poll(WORK_CLOSINGS);
	job_await_loss();
	sched_yield();
}

void block_release(struct dsm_region *r, size_t off, size_t len, bool evict)
{
	size_t at;
	int slot;

	engine_enter();
	for (at = off; at < off + len; at += r->block_size) {
		const struct copy *p = block_copy(at);
		struct msg m = ask_for(r, at, 0);

		if (!(p->flags & PAGE_OWNER) || !p->home || p->home - 1 == job.node)
			continue;
		if (p->pins_read || p->pins_write)
			/*
			 * the home would wait for the unpin, and others who give back for the home
			 */
			continue;
		m.type = MSG_RELEASE;
		m.flags = 0;
		m.home = 0;
		m.op = evict ? RELEASE_EVICT : RELEASE_KEEP;
		m.dst = (uint16_t)(p->home - 1);
		while ((slot = slot_try_prefetch(m.object, SLOT_BACK)) < 0) {
			run_work();
			block_help();
		}
		m.req_slot = (uint16_t)slot;
		run_send_first(&m);
	}
	run_work();
	work_timers(true);
	engine_leave();
}

static __thread int pins_of_thread __attribute__((tls_model("initial-exec")));

/*
 * Pins of several threads that overlap would keep a block for ever. So while another node waits for
 * it, a thread without pins lets the pins that are there come to an end; for a while only, as it
 * may be that they end after its own. A thread that has pins waits for nobody.
 */
#define PIN_PATIENCE_NS 10000000u

/* Under the stripe. */
static bool gives_way(const struct copy *p, uint64_t *until)
{
	if (!p->held || (!p->pins_read && !p->pins_write) || pins_of_thread > 0)
		return false;
	if (!*until)
		*until = clock_ns() + PIN_PATIENCE_NS;
	return clock_ns() < *until;
}

static int pin_one(struct dsm_region *r, size_t at, uint8_t access)
{
	struct pin pin = { .r = r, .at = at, .access = access };
	uint32_t *stripe = block_stripe(block_id(at, r->block_size));
	uint64_t until = 0;
	bool waits;

	do {
		word_lock(stripe);
		waits = gives_way(block_copy(at), &until);
		if (!waits)
			pin_here(&pin);
		word_unlock(stripe);
		if (waits) {
			block_help();
		} else if (pin.err == -EAGAIN) {
			get(r, at, access & DSM_WRITE, false, &pin);
			work_timers(true);
		}
	} while (waits || pin.err == -EAGAIN);
	pins_of_thread += !pin.err;
	return pin.err == -ERANGE ? -EAGAIN : pin.err;
}

static int unpin_one(struct dsm_region *r, size_t at, uint8_t access)
{
	struct msg m = ask_for(r, at, 0);
	uint32_t *stripe = block_stripe(m.object);
	int due;

	word_lock(stripe);
	due = page_unpin(block_copy(at), access);
	if (due >= 0)
		keep_mapped(r, at, false);
	word_unlock(stripe);
	pins_of_thread -= due >= 0;
	if (due > 0) {
		run_page(PE_REPLAY, &m, NULL, NULL);
		run_work();
	}
	return due < 0 ? due : 0;
}

int block_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	size_t at;
	int err = 0;

	engine_enter();
	for (at = off; !err && at < off + len; at += r->block_size)
		err = pin_one(r, at, access);
	if (err)
		for (at -= r->block_size; at > off; at -= r->block_size)
			unpin_one(r, at - r->block_size, access);
	engine_leave();
	return err;
}

int block_unpin(struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	size_t at;
	int err = 0;

	engine_enter();
	for (at = off; at < off + len; at += r->block_size)
		if (unpin_one(r, at, access))
			err = -EINVAL;
	work_timers(true);
	engine_leave();
	return err;
}

/* The answer's status; what it brings is in the slot. */
static int ask_of(const struct dsm_region *r, size_t at, uint16_t slot, uint8_t type, uint16_t dst,
		  uint64_t value)
{
	struct msg m = ask_for(r, at, slot);
	uint32_t seq = slot_seq(slot);

	m.type = type;
	m.dst = dst;
	m.flags = 0;
	m.home = 0;
	m.value = value;
	note_about(ABOUT_BLOCK, dst, m.object);
	run_send(&m);
	wait_slot(slot, seq, 1, 0);
	about_none();
	return job.me->slots[slot].status;
}

int block_place(struct dsm_region *r, size_t off, uint16_t rank)
{
	const uint16_t node = node_of(rank);
	uint64_t home;
	uint16_t slot;
	int err;

	engine_enter();
	slot = (uint16_t)slot_get(SLOT_BRIEF);
	err = ask_of(r, off, slot, MSG_PLACE, region_home(r, off), node);
	if (err == -EBUSY)
		err = ask_of(r, off, slot, MSG_SETTLE, node, 0);
	home = job.me->slots[slot].value;
	if (err == -EBUSY && home && home <= job.nodes)
		ask_of(r, off, slot, MSG_CLAIM, (uint16_t)(home - 1), node);
	slot_put(slot);
	work_timers(true);
	engine_leave();
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * block.c - what this rank's threads want of blocks: faults, fetching ahead, giving back, pinning.
 */
#include "engine/engine.h"

#include <dsm_uapi.h>
#include "util/futex.h"
#include "util/log.h"

#define MANAGER_RUN 16 /* neighbouring blocks of a first-touch region share a manager, so that runs travel together */

/* A sequential reader, as far as one thread can see. */
static __thread struct {
	size_t next;
	unsigned int window;
} stream __attribute__((tls_model("initial-exec")));

uint16_t block_home(const struct dsm_region *r, size_t off)
{
	size_t index = (off - r->off) / r->block_size;

	if (r->id == 0)
		return (uint16_t)((off - r->off) / job.heap_part);
	switch ((enum dsm_home)r->home_policy) {
	case DSM_HOME_FIXED:
		return r->home_rank;
	case DSM_HOME_CYCLIC:
		return (uint16_t)(index % job.size);
	case DSM_HOME_FIRST_TOUCH:
		break;
	}
	return (uint16_t)(index / MANAGER_RUN % job.size);
}

static struct copy *page_at(size_t off)
{
	return &job.peers[job.rank].pages[off >> PAGE_SHIFT];
}

static bool may(const struct copy *p, uint8_t access)
{
	struct copy seen = { .state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) };

	return access & DSM_WRITE ? page_writable(&seen) : page_readable(&seen);
}

static struct msg ask_for(const struct dsm_region *r, size_t off, uint16_t slot)
{
	return (struct msg){
		.version = WIRE_VERSION, .src = job.rank, .dst = job.rank, .object = block_id(off, r->block_size),
		.req_rank = job.rank, .req_slot = slot, .home = block_home(r, off),
		.flags = r->id && r->home_policy == DSM_HOME_FIRST_TOUCH ? MSGF_FIRST_TOUCH : 0,
	};
}

void block_start_prefetch(uint16_t rank, uint32_t block, bool write, uint8_t flags, uint16_t manager)
{
	int slot = slot_try_prefetch(rank, block);
	struct msg ask = { .version = WIRE_VERSION, .src = rank, .dst = rank, .object = block, .req_rank = rank,
			   .req_slot = (uint16_t)slot, .home = manager, .flags = flags };
	uint16_t wait = SET_NOBODY;
	uint32_t seq;

	if (slot < 0)
		return; /* a hint, and its asker tries again where it matters */
	/* Open already, or somebody's request is under way: nothing was asked in this slot's name. */
	if (run_page(rank, write ? PE_WRITE : PE_READ, &ask, &wait, &seq) || wait != slot)
		slot_put(rank, (uint16_t)slot);
}

/* Ask for up to n blocks from off on that this rank does not have; what it causes is only queued. */
static unsigned int ask_ahead(const struct dsm_region *r, size_t off, unsigned int n, bool write)
{
	unsigned int asked = 0;

	for (; n && off < r->off + r->bytes; n--, off += r->block_size) {
		if (may(page_at(off), write ? DSM_WRITE : DSM_READ))
			continue;
		block_start_prefetch(job.rank, block_id(off, r->block_size), write, ask_for(r, off, 0).flags, block_home(r, off));
		asked++;
	}
	count(&job.me->region_stats[r->id].prefetched, asked);
	return asked;
}

/* May a sequential writer take this block ahead? If it wrote it last, or nobody ever did. */
static bool ours(const struct dsm_region *r, size_t off)
{
	uint16_t home = block_home(r, off);
	const struct copy *p = page_at(off);

	if (off >= r->off + r->bytes)
		return false;
	if (__atomic_load_n(&p->state, __ATOMIC_RELAXED) == PG_READ)
		return p->flags & PAGE_OWNER;
	return is_here(home) && peer_of(home)->dirs[off >> PAGE_SHIFT].state == DIR_UNTOUCHED;
}

static void read_ahead(const struct dsm_region *r, size_t off, bool write)
{
	size_t next = off + r->block_size;
	unsigned int most = job.set.readahead, n;

	if ((size_t)most * r->block_size > BLOCK_MAX)
		most = (unsigned int)(BLOCK_MAX / r->block_size);
	if (stream.next != off) {
		stream.window = 0;
		stream.next = next;
		return;
	}
	stream.window = stream.window * 2 + 1 < most ? stream.window * 2 + 1 : most;
	for (n = 0; write && n < stream.window && ours(r, next + n * (size_t)r->block_size); n++)
		;
	if (!write)
		n = stream.window;
	stream.next = next + n * (size_t)r->block_size;
	ask_ahead(r, next, n, write);
}

/* Get one block for a thread that waits for it. True: something had to be asked for. */
static bool get(const struct dsm_region *r, size_t off, bool write, bool ahead)
{
	uint16_t slot = slot_get(), wait = 0;
	struct msg ask = ask_for(r, off, slot);
	bool asked = false;
	uint32_t seq = 0;

	__atomic_store_n(&job.me->slots[slot].object, ask.object, __ATOMIC_RELAXED);
	while (!run_page(job.rank, write ? PE_WRITE : PE_READ, &ask, &wait, &seq)) {
		if (wait != slot) { /* another thread's request: then look again */
			run_work();
			slot_wait(wait, seq, 1, 0);
			continue;
		}
		asked = true;
		if (ahead)
			read_ahead(r, off, write);
		run_work();
		slot_wait(slot, seq, 1, 0);
		run_page(job.rank, PE_USED, &ask, &wait, &seq);
		/* Threads that joined after the answer had come wait for this. */
		slot_complete(job.rank, slot, 0, 0);
		run_work();
		break;
	}
	slot_put(job.rank, slot);
	return asked;
}

bool block_fault(void *addr, bool write)
{
	size_t off = ((size_t)((char *)addr - job.base)) & ~(PAGE_BYTES - 1);
	struct dsm_region *r = region_at(off);
	struct region_stats *s;
	uint64_t start;
	bool upgrade;

	if (!r || off >= r->off + r->bytes) {
		log_line("%s of address %p, which is in no region that this rank is attached to", write ? "write" : "read", addr);
		return false;
	}
	if (job.kernel >= 0) {
		kernel_no_block(addr, write);
		return false;
	}
	if (engine_depth) {
		log_line("shared memory at %p is touched by a signal handler that interrupted a libdsm call, which is not "
			 "supported (dsm(7), SIGNALS)", addr);
		return false;
	}
	off = r->off + (off - r->off) / r->block_size * r->block_size;
	engine_depth++;
	start = clock_ns();
	s = &job.me->region_stats[r->id];
	upgrade = write && __atomic_load_n(&page_at(off)->state, __ATOMIC_RELAXED) == PG_READ;
	if (get(r, off, write, job.set.readahead)) {
		unsigned int kind = upgrade ? DSM_LAT_UPGRADE : write ? DSM_LAT_WRITE_MISS : DSM_LAT_READ_MISS;

		count(upgrade ? &s->upgrades : write ? &s->write_faults : &s->read_faults, 1);
		stats_latency(&s->latency_count[kind], &s->latency_sum[kind], &s->latency_max[kind], s->latency[kind],
			      clock_ns() - start);
	} else {
		sched_yield(); /* whoever opens the block is about to */
	}
	run_timers(true);
	engine_depth--;
	return true;
}

static int kernel_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait)
{
	int err = kernel_range(DSM_RANGE_PREFETCH, off, len, access & DSM_WRITE ? 1 : 0);

	count(&job.me->region_stats[r->id].prefetched, len / r->block_size);
	return err || !wait ? err : kernel_range(DSM_RANGE_ACQUIRE, off, len, access & DSM_WRITE ? 1 : 0);
}

int block_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait)
{
	size_t end = off + len, at, step;
	/* What one piece may cause fits in the thread's queue: for each block, a message to and from every rank here. */
	unsigned int piece = 4096 / ((unsigned int)job.ranks_here * 2 + 4);

	if (job.kernel >= 0)
		return kernel_fetch(r, off, len, access, wait);
	if (piece > CTL_SLOTS - CTL_SYNC_SLOTS)
		piece = CTL_SLOTS - CTL_SYNC_SLOTS;
	step = (size_t)piece * r->block_size;
	engine_depth++;
	for (at = off; at < end; at += step) {
		size_t stop = at + step < end ? at + step : end, b;

		ask_ahead(r, at, (unsigned int)((stop - at) / r->block_size), access & DSM_WRITE);
		run_work();
		for (b = at; wait && b < stop; b += r->block_size)
			if (!may(page_at(b), access))
				get(r, b, access & DSM_WRITE, false);
	}
	run_timers(true);
	engine_depth--;
	return 0;
}

/* Let others get on: what we wait for has no slot of ours. */
static void help_others(void)
{
	run_timers(false);
	if (job.net)
		job.netops->poll(job.net, 16);
	lost_check();
	sched_yield();
}

void block_release(struct dsm_region *r, size_t off, size_t len, bool evict)
{
	size_t at;
	int slot;

	if (job.kernel >= 0) {
		kernel_range(evict ? DSM_RANGE_EVICT : DSM_RANGE_RELEASE, off, len, 0);
		return;
	}
	engine_depth++;
	for (at = off; at < off + len; at += r->block_size) {
		const struct copy *p = page_at(at);
		struct msg m = ask_for(r, at, 0);

		if (!(p->flags & PAGE_OWNER) || !p->home || p->home - 1 == job.rank)
			continue;
		m.type = MSG_RELEASE;
		m.op = evict ? RELEASE_EVICT : RELEASE_KEEP;
		m.dst = (uint16_t)(p->home - 1);
		while ((slot = slot_try_prefetch(job.rank, m.object)) < 0)
			help_others();
		m.req_slot = (uint16_t)slot;
		run_send(&m);
	}
	run_timers(true);
	engine_depth--;
}

static int pin_one(struct dsm_region *r, size_t at, uint8_t access)
{
	uint32_t *stripe = stripe_of(job.rank, block_id(at, r->block_size));
	int err;

	for (;;) {
		word_lock(stripe);
		err = page_pin(page_at(at), access);
		word_unlock(stripe);
		if (err != -EAGAIN)
			return err == -ERANGE ? -EAGAIN : err;
		get(r, at, access & DSM_WRITE, false);
		run_timers(true);
	}
}

static int unpin_one(struct dsm_region *r, size_t at, uint8_t access)
{
	struct msg m = ask_for(r, at, 0);
	uint32_t *stripe = stripe_of(job.rank, m.object);
	int due;

	word_lock(stripe);
	due = page_unpin(page_at(at), access);
	word_unlock(stripe);
	if (due > 0) {
		run_page(job.rank, PE_UNHOLD, &m, NULL, NULL);
		run_work();
	}
	return due < 0 ? due : 0;
}

static int kernel_pin(const struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	const uint32_t write = access & DSM_WRITE ? 1 : 0;
	size_t at;
	int err = 0;

	for (at = off; !err && at < off + len; at += r->block_size)
		err = kernel_range(DSM_RANGE_PIN, at, r->block_size, write);
	if (err && at > off + r->block_size)
		kernel_range(DSM_RANGE_UNPIN, off, at - r->block_size - off, write);
	return err;
}

int block_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	size_t at;
	int err = 0;

	if (job.kernel >= 0)
		return kernel_pin(r, off, len, access);
	engine_depth++;
	for (at = off; !err && at < off + len; at += r->block_size)
		err = pin_one(r, at, access);
	if (err)
		for (at -= r->block_size; at > off; at -= r->block_size)
			unpin_one(r, at - r->block_size, access);
	engine_depth--;
	return err;
}

int block_unpin(struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	size_t at;
	int err = 0;

	if (job.kernel >= 0)
		return kernel_range(DSM_RANGE_UNPIN, off, len, access & DSM_WRITE ? 1 : 0);
	engine_depth++;
	for (at = off; at < off + len; at += r->block_size)
		if (unpin_one(r, at, access))
			err = -EINVAL;
	run_timers(true);
	engine_depth--;
	return err;
}

int block_place(struct dsm_region *r, size_t off, size_t len, uint16_t rank)
{
	uint16_t slot;
	size_t at;
	int err = 0;

	if (job.kernel >= 0)
		return kernel_range(DSM_RANGE_PLACE, off, len, rank);
	engine_depth++;
	slot = slot_get();
	for (at = off; at < off + len; at += r->block_size) {
		struct msg m = ask_for(r, at, slot);
		uint32_t seq = slot_seq(slot);

		m.type = MSG_PLACE;
		m.dst = m.home;
		m.value = rank;
		run_send(&m);
		slot_wait(slot, seq, 1, 0);
		if (job.me->slots[slot].status)
			err = job.me->slots[slot].status;
	}
	slot_put(job.rank, slot);
	engine_depth--;
	return err;
}

/* One block: drop a read copy, or give the newest copy to its home and wait until it has gone. */
static void leave_one(struct dsm_region *r, size_t at)
{
	struct copy *p = page_at(at);
	struct msg m = ask_for(r, at, 0);

	while (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != PG_INVALID) {
		if (!(p->flags & PAGE_OWNER)) {
			run_page(job.rank, PE_DROP, &m, NULL, NULL);
			run_work();
		} else if (p->home - 1 == job.rank) {
			return; /* the home keeps it for the others */
		} else {
			block_release(r, at, r->block_size, true);
			while (slot_any_prefetch(at, at + r->block_size))
				help_others();
		}
		if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != PG_INVALID)
			help_others();
	}
}

int block_leave(struct dsm_region *r)
{
	size_t at;

	size_t end = r->off + r->bytes;

	if (job.kernel >= 0)
		return kernel_leave(r);
	for (at = host_next_used(r->off, end); at < end; at = host_next_used(at + r->block_size, end))
		if (page_at(at)->pins_read || page_at(at)->pins_write)
			return -EBUSY;
	engine_depth++;
	for (at = host_next_used(r->off, end); at < end; at = host_next_used(at + r->block_size, end))
		leave_one(r, at / r->block_size * r->block_size);
	while (slot_any_prefetch(r->off, end))
		help_others(); /* releases that the homes have not heard of */
	run_timers(true);
	engine_depth--;
	return 0;
}

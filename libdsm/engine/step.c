// SPDX-License-Identifier: BSD-2-Clause
/*
 * step.c - runs the dispatcher of the core: finds the target of a message in the node's control segment, steps it under its
 * stripe, and leaves the actions to the caller.
 */
#include "engine/step.h"

#include <string.h>

#include "engine/block.h"
#include "engine/job.h"
#include "engine/lost.h"
#include "engine/memory.h"
#include "engine/reduce.h"
#include "engine/slot.h"
#include "engine/upcalls.h"
#include "util/futex.h"

struct page_ctx step_ctx(void)
{
	return (struct page_ctx){ .me = job.node, .nnodes = job.nodes, .now = clock_us(), .hold_us = job.set.hold_us };
}

/* The manager, if the dispatcher checks the sender against it. */
static uint16_t manager_of(const struct msg *m)
{
	return dispatch_manager(m) ? region_manager(block_off(m->object)) : SET_NOBODY;
}

/* Keep contents that came before the last acknowledgement, but only for a request in progress. */
static void land(const struct msg *m, const void *data, const struct copy *p)
{
	struct copy seen = { .state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE),
			     .slot = __atomic_load_n(&p->slot, __ATOMIC_RELAXED) };
	const size_t bytes = block_bytes(m->object);
	char *at;

	if (!page_asks(&seen) || seen.slot != m->req_slot || m->req_node != job.node)
		return;
	at = memory_stage(m->req_slot, bytes);
	memcpy(at, data, bytes);
	memory_unstage(m->req_slot, at, bytes, false);
}

static uint32_t *outgoing(uint32_t object)
{
	return &job.me->outgoing[stripe_index(object)];
}

void step_leaves(uint32_t object, const struct actions *acts)
{
	unsigned int i;

	for (i = 0; i < acts->n; i++)
		if (acts->v[i].type == ACT_DATA)
			__atomic_fetch_add(outgoing(object), 1, __ATOMIC_RELAXED);
}

/* Pairs with the check in step_any_leaves(): contents are dropped only after they were read. */
void step_left(uint32_t object)
{
	__atomic_fetch_sub(outgoing(object), 1, __ATOMIC_RELEASE);
}

bool step_any_leaves(uint32_t object)
{
	return __atomic_load_n(outgoing(object), __ATOMIC_ACQUIRE);
}

static int step_block(const struct msg *m, const void *data, struct actions *acts)
{
	uint32_t at = block_page(m->object), *stripe = block_stripe(m->object);
	struct dispatch d; /* not cleared: clearing takes as long as a step. Blocks need only the fields set here */
	uint16_t owner;
	uint8_t state;
	int err;

	d.me = job.node;
	d.nnodes = job.nodes;
	d.manager = manager_of(m);
	d.follow = DIR_FOLLOW;
	d.pushes = job.set.push ? PUSH_AFTER : 0;
	d.now = clock_us();
	d.hold_us = job.set.hold_us;
	d.queue = (struct qpool){ job.mem.nodes, job.limits.block_slots, NULL };
	d.page = &job.mem.pages[at];
	d.dir = &job.mem.dirs[at];
	/* Before the step: after it, another thread may handle the last acknowledgement and open the block. */
	if (m->type == MSG_DATA && m->count > 0)
		land(m, data, d.page);
	word_lock(stripe);
	owner = d.dir->owner;
	state = d.dir->state;
	err = dispatch_step(&d, m, acts);
	if (d.dir->owner != owner && d.dir->state == DIR_EXCLUSIVE && (state == DIR_SHARED || state == DIR_EXCLUSIVE))
		job.mem.transfers[at]++;
	if (!err)
		step_leaves(m->object, acts);
	word_unlock(stripe);
	return err;
}

static struct objects objects(void)
{
	return (struct objects){ .list = &job.me->object_list, .flat = job.mem.objects, .limit = CTL_OBJECTS };
}

static struct qpool lines(void)
{
	return (struct qpool){ job.mem.lines, CTL_ALL_SLOTS, NULL };
}

static int step_object(const struct msg *m, uint32_t index, struct actions *acts)
{
	struct objects all = objects();
	struct dispatch d = { .me = job.node,
			      .nnodes = job.nodes,
			      .queue = lines(),
			      .objects = &all,
			      .object = objects_at(&all, index),
			      .index = index };
	uint32_t *stripe = stripe_of(index);
	int err;

	word_lock(stripe);
	err = dispatch_step(&d, m, acts);
	word_unlock(stripe);
	return err;
}

static int create_object(const struct msg *m, struct actions *acts)
{
	struct objects all = objects();
	uint32_t none;

	return step_object(m, objects_take(&all, &none), acts);
}

/* Threads of this node lock and unlock by the record's word if no other node asks for the lock (sync/lent.h). */
#define LOCK_LENDS true

/* The lock has left this node: the next thread that asks for it need not look at this record. */
static void free_hold(uint32_t index, const struct hold *h)
{
	uint32_t at = index + 1;

	__atomic_compare_exchange_n(kept_place(hold_name(h->home, h->object, h->gen)), &at, 0, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	hold_give(index);
}

static int step_hold(const struct msg *m, uint32_t index, struct actions *acts)
{
	struct dispatch d = { .me = job.node,
			      .nnodes = job.nodes,
			      .queue = lines(),
			      .hold = &job.me->holds[index],
			      .lends = LOCK_LENDS };
	uint32_t *stripe = stripe_of(0x80000000u | index);
	uint8_t before;
	int err;

	word_lock(stripe);
	before = d.hold->state;
	err = dispatch_step(&d, m, acts);
	if (!err && hold_freed(before, d.hold))
		free_hold(index, d.hold);
	word_unlock(stripe);
	return err;
}

void step_hold_begin(uint32_t index, const struct msg *ask)
{
	uint32_t *stripe = stripe_of(0x80000000u | index);

	word_lock(stripe);
	hold_begin(&job.me->holds[index], ask);
	word_unlock(stripe);
}

static struct hold_ctx hold_ctx(void)
{
	return (struct hold_ctx){ .me = job.node, .passes = LOCK_PASSES, .lends = LOCK_LENDS, .queue = lines() };
}

int step_held(uint32_t index, enum hold_event ev, const struct msg *about, struct actions *acts)
{
	uint32_t *stripe = stripe_of(0x80000000u | index);
	const struct hold_ctx ctx = hold_ctx();
	struct hold *h = &job.me->holds[index];
	uint8_t before;
	int err;

	word_lock(stripe);
	before = h->state;
	err = hold_thread(&ctx, index, h, ev, about, acts);
	if (!err && hold_freed(before, h))
		free_hold(index, h);
	word_unlock(stripe);
	return err;
}

bool step_hold_leave(uint32_t index, uint16_t slot)
{
	uint32_t *stripe = stripe_of(0x80000000u | index);
	const struct hold_ctx ctx = hold_ctx();
	bool found;

	word_lock(stripe);
	found = hold_leave(&ctx, &job.me->holds[index], slot);
	word_unlock(stripe);
	return found;
}

int step_bar(const struct msg *m, const struct bar_group *group, uint32_t *gen, struct actions *acts)
{
	struct dispatch d = { .me = job.node,
			      .nnodes = job.nodes,
			      .bar = &job.mem.bars[m->object],
			      .part = job.parts ? &job.parts[m->object] : NULL,
			      .group = group,
			      .combine = reduce_combine };
	uint32_t *stripe = stripe_of(0x40000000u | m->object);
	int err;

	word_lock(stripe);
	err = dispatch_step(&d, m, acts);
	if (gen)
		*gen = (d.part ? d.part : &d.bar->part)->gen;
	word_unlock(stripe);
	return err;
}

bool step_bar_last(uint32_t object, uint32_t threads)
{
	const struct bar *b = &job.mem.bars[object];
	const struct bar_part *part = job.parts ? &job.parts[object] : &b->part;
	uint32_t *stripe = stripe_of(0x40000000u | object), arrived;

	if (threads == 1)
		return true;
	word_lock(stripe);
	arrived = part->gen == b->gen ? part->arrived : 0;
	word_unlock(stripe);
	return arrived + 1 >= threads;
}

int step_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen, struct actions *acts)
{
	struct bar *b = &job.mem.bars[m->object];
	struct bar_part *part = &job.parts[m->object];
	const struct bar_tree t = { .parent = alone ? SET_NOBODY : job.nodes };
	uint32_t *stripe = stripe_of(0x40000000u | m->object);
	int err;

	word_lock(stripe);
	err = group ? bar_admit(b, m, group) : 0;
	if (!err)
		err = bar_step(job.node, &t, reduce_combine, b, part, m, acts);
	if (gen)
		*gen = part->gen;
	word_unlock(stripe);
	return err;
}

static int step_slot(const struct msg *m, uint32_t slot, struct actions *acts)
{
	struct dispatch d = { .me = job.node, .nnodes = job.nodes, .ask = &job.me->slots[slot].ask };

	return dispatch_step(&d, m, acts);
}

static int ours(const struct msg *m, const void *payload, size_t size)
{
	switch ((enum msg_type)m->type) {
	case MSG_CALL: return job.up->call(m, payload, size);
	case MSG_RETURN: return job.up->answer(m, payload, size);
	case MSG_PING:
	case MSG_BYE: return lost_heard(m);
	case MSG_CHUNK: return job.up->chunk(m, payload, size);
	default: return -EBADMSG;
	}
}

int step_message(const struct msg *m, const void *payload, size_t size, struct actions *acts)
{
	uint32_t number;

	acts->n = 0;
	switch (dispatch_target(m, &number)) {
	case TARGET_BLOCK: return step_block(m, payload, acts);
	case TARGET_CREATE: return create_object(m, acts);
	case TARGET_OBJECT: return step_object(m, number, acts);
	case TARGET_HOLD: return step_hold(m, number, acts);
	case TARGET_BARRIER: return step_bar(m, NULL, NULL, acts);
	case TARGET_SLOT: return step_slot(m, number, acts);
	case TARGET_HOST: return ours(m, payload, size);
	case TARGET_NONE: break;
	}
	return -EBADMSG;
}

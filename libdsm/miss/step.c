// SPDX-License-Identifier: BSD-2-Clause
/*
 * step.c - the node of this process, as core/host.h sees it: where its state machines are in the
 * control segment, and what is done with them under their stripes.
 */
#include "miss/step.h"

#include <string.h>

#include "job/job.h"
#include "job/memory.h"
#include "fault/fault.h"
#include "miss/block.h"
#include "miss/discard.h"
#include "miss/reduce.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "miss/twin.h"
#include "miss/work.h"
#include "util/futex.h"

/* The manager, if the dispatcher checks the sender against it. */
static uint16_t manager_of(const struct msg *m)
{
	return dispatch_manager(m) ? region_manager(block_off(m->object)) : SET_NOBODY;
}

/*
 * A larger block than those of its region would take neighbours along, a smaller one leave a part
 * behind. Of a region that no rank of this node has ever attached, the size is not known here; its
 * messages come and go by the name that the sender has used.
 */
static bool fits_region(uint32_t object)
{
	const struct region_homes *known = region_known(block_off(object));

	return !known || known->block_size == block_bytes(object);
}

static void find_block(uint32_t object, const struct msg *m, struct core_place *p)
{
	const uint32_t at = block_page(object);

	p->d.manager = manager_of(m);
	p->d.queue = (struct qpool){ job.mem.nodes, job.limits.block_slots, NULL };
	p->d.page = &job.mem.pages[at];
	p->d.dir = &job.mem.dirs[at];
	p->key = at;
	p->transfers = &job.mem.transfers[at];
}

static void find_object(enum target target, uint32_t index, struct core_place *p)
{
	uint32_t none;

	p->objects = (struct objects){ .list = &job.me->object_list,
				       .flat = job.mem.objects,
				       .limit = CTL_OBJECTS };
	p->d.index = target == TARGET_CREATE ? objects_take(&p->objects, &none) : index;
	p->d.object = objects_at(&p->objects, p->d.index);
}

int step_find(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
	      struct core_place *p)
{
	int is;

	if (target == TARGET_BLOCK) {
		if (m->type && m->src != job.node && !fits_region(number))
			return -EBADMSG;
		is = __builtin_expect(job.me->releases | (m->flags & MSGF_RELEASE), 0)
			? release_find_block(h, number, m, p)
			: 0;
		if (!is) {
			p->unknown = m->type == MSG_NOTE && !region_known(block_off(number));
			find_block(number, m, p);
		}
		return is < 0 ? is : 0;
	}
	p->d.queue = (struct qpool){ job.mem.lines, CTL_ALL_SLOTS, NULL };
	switch (target) {
	case TARGET_CREATE:
	case TARGET_OBJECT: find_object(target, number, p); break;
	case TARGET_HOLD: p->d.hold = &job.me->holds[number]; break;
	case TARGET_BARRIER:
		p->d.bar = &job.mem.bars[number];
		p->d.part = job.parts ? &job.parts[number] : NULL;
		p->d.combine = reduce_combine;
		break;
	case TARGET_SLOT: p->d.ask = &job.me->slots[number].ask; break;
	case TARGET_CLOSING: release_find_closing(p); break;
	default: return -EBADMSG;
	}
	return 0;
}

void step_lock(struct core_host *h, uint32_t key)
{
	(void)h;
	word_lock(stripe_of(key));
}

void step_unlock(struct core_host *h, uint32_t key)
{
	(void)h;
	word_unlock(stripe_of(key));
}

uint32_t step_now(struct core_host *h)
{
	(void)h;
	return work_now();
}

/* Not under the stripe: it copies a block. */
void step_land(struct core_host *h, const struct msg *m, const void *data)
{
	const size_t bytes = block_bytes(m->object);
	char *at = memory_stage(m->req_slot, bytes);

	(void)h;
	memcpy(at, data, bytes);
	memory_unstage(m->req_slot, at, bytes, false);
}

static uint32_t *outgoing(uint32_t object)
{
	return &job.me->outgoing[stripe_index(object)];
}

/* Under the stripe: what is about to be used, or sent, has a frame. */
static bool step_refill(uint32_t object)
{
	const int did = discard_refill(block_off(object), block_bytes(object));

	if (did < 0)
		run_protect_failed(did);
	return did;
}

void step_leaves(struct core_host *h, uint32_t object)
{
	(void)h;
	step_refill(object);
	__atomic_fetch_add(outgoing(object), 1, __ATOMIC_RELAXED);
	if (releases_used() && release_is(block_off(object)))
		twin_share(object);
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

bool step_again(struct core_host *h, uint32_t object, uint8_t prot)
{
	(void)h;
	if (releases_used() && release_is(block_off(object)))
		return twin_follow(object, prot);
	return step_refill(object) ||
		job.fault->again(block_off(object), block_bytes(object), prot) > 0;
}

uint32_t step_answers(struct core_host *h, uint16_t slot)
{
	(void)h;
	return slot_seq(slot);
}

/* The lock has left this node: the next thread that asks for it need not look at this record. */
void step_freed(struct core_host *h, uint32_t index, struct hold *hold)
{
	uint32_t at = index + 1;

	(void)h;
	__atomic_compare_exchange_n(
		cached_lock_place(hold_name(hold->home, hold->object, hold->gen)), &at, 0, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED);
	hold_give(index);
}

bool step_bar_last(uint32_t object, uint32_t threads)
{
	const struct bar *b = &job.mem.bars[object];
	const struct bar_part *part = job.parts ? &job.parts[object] : &b->part;
	uint32_t *stripe = stripe_of(core_key_barrier(object)), arrived;

	if (threads == 1)
		return true;
	word_lock(stripe);
	arrived = part->gen == b->gen ? part->arrived : 0;
	word_unlock(stripe);
	return arrived + 1 >= threads;
}

int step_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen,
		struct actions *acts)
{
	struct bar *b = &job.mem.bars[m->object];
	struct bar_part *part = &job.parts[m->object];
	const struct bar_tree t = { .parent = alone ? SET_NOBODY : job.nodes };
	uint32_t *stripe = stripe_of(core_key_barrier(m->object));
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

// SPDX-License-Identifier: BSD-2-Clause
/*
 * call.c - calls with answers of any size: names of regions, statistics, frees.
 *
 * A call is to a rank. Most calls need only the memory of its node: any rank there serves them,
 * even the caller if it is on that node. CALL_FIND, CALL_VECTORS, CALL_LANES, CALL_MEMORY,
 * CALL_TRIM, CALL_SPAWN, CALL_CANCEL and CALL_ASLEEP need the callee's process: its service thread
 * serves them.
 *
 * A call for a service thread is queued for it in the control segment, by the caller, or by the
 * thread that handles the message of another node, and the callee answers it itself. A call has a
 * slot of its node until it is answered, and the callee's node has a place for each slot of each
 * node. So there is always room, and nobody waits for another rank on behalf of a third. This
 * matters for service threads, which watch the transport and the other ranks.
 *
 * Calls from other nodes are checked against the tables of payload.h first; calls inside a node are
 * not.
 */
#include "calls/call.h"

#include <string.h>

#include "calls/load.h"
#include "calls/owner.h"
#include "calls/payload.h"
#include "calls/region.h"
#include "core/dispatch.h"
#include "heap/heap.h"
#include "heap/site.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/note.h"
#include "job/stats.h"
#include "job/upcalls.h"
#include "job/usage.h"
#include "miss/run.h"
#include "miss/sharing.h"
#include "miss/slot.h"
#include "miss/wait.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

#define CALL_MAX WIRE_CALL_MAX
/* calls, before the service thread does its other work; creating a thread takes about 50 us */
#define SERVE_MAX 16

int (*call_spawn)(uint64_t arg);
int (*call_cancel)(uint64_t arg);

static int call_find(uint64_t arg, void *out)
{
	struct found f;
	int err;

	memset(&f, 0, sizeof(f));
	err = heap_find((void *)(uintptr_t)arg, &f.object);
	if (err)
		return err;
	heap_object_site(&f.object, f.site, sizeof(f.site));
	memcpy(out, &f, sizeof(f));
	return 0;
}

/* Must the callee's own service thread serve the call? */
static bool is_private(enum call_op op)
{
	return op == CALL_FIND || op == CALL_VECTORS || op == CALL_LANES || op == CALL_MEMORY ||
		op == CALL_TRIM || op == CALL_SPAWN || op == CALL_CANCEL || op == CALL_ASLEEP;
}

/* Serve a call that needs the callee's process. */
static int serve_private(enum call_op op, uint64_t arg, void *out)
{
	_Static_assert(sizeof(struct stats_vectors) <= CALL_MAX &&
			       sizeof(struct trimmed) <= CALL_MAX,
		       "they fit in an answer");
	if (op == CALL_FIND)
		return call_find(arg, out);
	if (op == CALL_TRIM)
		return owner_trim(arg, out);
	if (op == CALL_ASLEEP)
		return job.up->asleep(out);
	if (op == CALL_SPAWN)
		return call_spawn ? call_spawn(arg) : -ENOSYS;
	if (op == CALL_CANCEL)
		return call_cancel ? call_cancel(arg) : -ENOSYS;
	if (op == CALL_LANES)
		stats_lanes(out);
	else if (op == CALL_MEMORY)
		usage_serve(out);
	else
		stats_vectors(out);
	return 0;
}

/*
 * -ESTALE: the rank does not have that unit of the heap (any more). -EAGAIN: it has no room for
 * more frees; its service thread makes some.
 */
static int free_of(uint16_t from, uint16_t rank, uint64_t addr)
{
	int err;

	if (!owner_is((size_t)(addr - (uintptr_t)job.base), rank))
		return -ESTALE;
	if (rank == job.rank && from != job.node)
		heap_comes_back(); /* it does not pass the ring */
	err = heap_free(rank_info(rank)->heap, (void *)(uintptr_t)addr);
	if (err == -EAGAIN)
		job_ring(rank);
	return err;
}

/* Serve a call of a node. -EBADMSG: the node must not make it now. */
static int call_perform(uint16_t from, uint16_t rank, enum call_op op, const void *in,
			size_t in_size, void *out, size_t *out_size)
{
	uint64_t args[2] = { 0, 0 };

	if (in_size)
		memcpy(args, in, in_size < sizeof(args) ? in_size : sizeof(args));
	switch (op) {
	case CALL_FREE: return free_of(from, rank, args[0]);
	case CALL_QUIET:
	case CALL_PURGE: return region_leave(from, op, in);
	case CALL_MAY_PURGE: return region_may_purge(in);
	case CALL_STATS: return stats_serve(rank, (uint32_t)args[0], out);
	case CALL_HOT: {
		int n = stats_hot_serve(out, (int)(*out_size / sizeof(struct hot)));

		*out_size = n < 0 ? 0 : (size_t)n * sizeof(struct hot);
		return n < 0 ? n : 0;
	}
	case CALL_STALLS:
		*out_size =
			note_list(rank, out, (unsigned int)(*out_size / sizeof(struct stall_row))) *
			sizeof(struct stall_row);
		return 0;
	case CALL_LOAD: {
		const struct load least = load_here(args[0]);

		memcpy(out, &least, sizeof(least));
		return 0;
	}
	case CALL_SHARING:
		*out_size = sharing_serve(args[0], out,
					  (unsigned int)(*out_size / sizeof(struct sharing_sum))) *
			sizeof(struct sharing_sum);
		return 0;
	case CALL_FIND:
	case CALL_ASLEEP:
	case CALL_VECTORS:
	case CALL_LANES:
	case CALL_MEMORY:
	case CALL_SPAWN:
	case CALL_CANCEL:
	case CALL_TRIM: return serve_private(op, args[0], out);
	case CALL_UNITS_TAKE:
	case CALL_UNITS_GIVE:
	case CALL_UNITS_OWNER:
	case CALL_UNITS_WHICH:
	case CALL_UNITS_BEGIN:
	case CALL_UNITS_END: return owner_serve(from, op, in, out);
	default: return region_serve(from, op, in, out);
	}
}

static struct answer *answer_of(uint16_t slot)
{
	return &job.me->answers[slot - CTL_BLOCK_END];
}

static void send_call(uint16_t slot, uint16_t rank, enum call_op op, const void *in, size_t in_size,
		      size_t out_size)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_CALL,
			       .op = (uint8_t)op,
			       .src = job.node,
			       .dst = node_of(rank),
			       .req_node = job.node,
			       .req_slot = slot,
			       .aux = (uint32_t)out_size };
	struct answer *a = answer_of(slot);
	struct {
		struct call_head head;
		char in[CALL_MAX - sizeof(struct call_head)];
	} call = { .head = { .to = rank } };

	if (in_size)
		memcpy(call.in, in, in_size);
	a->size = 0;
	a->op = op;
	__atomic_store_n(&a->room, (uint32_t)out_size + 1, __ATOMIC_RELEASE);
	ask_note(&job.me->slots[slot].ask, &m);
	count(&job.mine->stats.messages_out, 1);
	if (job.netops->send(job.net, job.pair[m.dst], &m, &call, sizeof(call.head) + in_size))
		lost_rank(job.pair[m.dst], "it cannot be reached");
}

static int call_by_message(uint16_t rank, enum call_op op, const void *in, size_t in_size,
			   void *out, size_t out_size)
{
	uint16_t slot = (uint16_t)slot_get(SLOT_BRIEF);
	const struct answer *a = answer_of(slot);
	uint32_t seq = slot_seq(slot);
	int err;

	wait_begin();
	send_call(slot, rank, op, in, in_size, out_size);
	HOOK(call_sent);
	wait_slot(slot, seq, 1, 0);
	wait_end();
	HOOK(call_came);
	err = job.me->slots[slot].status;
	if (!err && a->size)
		memcpy(out, a->text, a->size);
	if (!err && payload_counts(op))
		err = (int)a->size;
	slot_put(slot);
	return err;
}

/* ---- for a service thread of this node ------------------------------------------------------- */

static uint32_t due_number(uint16_t node, uint16_t slot)
{
	return (uint32_t)node * CTL_CALLS + slot - CTL_BLOCK_END;
}

/*
 * The line is a list, newest first. Its only consumer takes the whole list, so the head may change
 * and return to its old value while this runs: it still names the rest. The release pairs with the
 * acquire in take_due().
 */
static void put_due(uint16_t rank, uint32_t number)
{
	struct rank_ctl *c = rank_info(rank)->ctl;
	uint32_t head = __atomic_load_n(&c->calls_in, __ATOMIC_RELAXED);

	do {
		job.mem.calls[number].next = head;
	} while (!__atomic_compare_exchange_n(&c->calls_in, &head, number + 1, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	job_ring(rank);
}

/* The number + 1 of the oldest call; 0: there is none. */
static uint32_t take_due(void)
{
	struct rank_ctl *c = job.mine;
	uint32_t n, next;

	if (!c->calls_due)
		for (n = __atomic_exchange_n(&c->calls_in, 0, __ATOMIC_ACQUIRE); n; n = next) {
			next = job.mem.calls[n - 1].next;
			job.mem.calls[n - 1].next = c->calls_due;
			c->calls_due = n;
		}
	n = c->calls_due;
	if (n)
		c->calls_due = job.mem.calls[n - 1].next;
	return n;
}

static int call_one_rank(uint16_t rank, enum call_op op, const void *in, void *out, size_t out_size)
{
	const uint16_t slot = (uint16_t)slot_get(SLOT_BRIEF);
	const uint32_t seq = slot_seq(slot), number = due_number(job.node, slot);
	struct due_call *d = &job.mem.calls[number];
	int err;

	d->op = (uint8_t)op;
	memcpy(&d->arg, in, sizeof(d->arg));
	put_due(rank, number);
	wait_slot(slot, seq, 1, 0);
	err = job.me->slots[slot].status;
	if (!err && out_size)
		memcpy(out, answer_of(slot)->text, out_size);
	slot_put(slot);
	return err;
}

int call_rank(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out,
	      size_t out_size)
{
	size_t got = out_size;
	int err;

	if (out_size > CALL_MAX || in_size > CALL_MAX - sizeof(struct call_head))
		return -EMSGSIZE;
	engine_enter();
	HOOK(call_begin);
	if (!is_here(rank)) {
		err = call_by_message(rank, op, in, in_size, out, out_size);
	} else if (is_private(op) && rank != job.rank) {
		err = call_one_rank(rank, op, in, out, out_size);
	} else {
		err = call_perform(job.node, rank, op, in, in_size, out, &got);
		if (!err && payload_counts(op))
			err = (int)got;
	}
	engine_leave();
	return err;
}

static void call_reply(const struct msg *call, int status, const void *out, size_t size)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_RETURN,
			 .op = call->op,
			 .src = job.node,
			 .dst = call->src,
			 .req_node = call->src,
			 .req_slot = call->req_slot,
			 .count = (int16_t)status };

	if (job.netops->send(job.net, job.pair[m.dst], &m, out, status ? 0 : size))
		lost_rank(job.pair[m.dst], "it cannot be reached");
}

/* -EBADMSG: the node's last call in that slot has not been answered yet. */
static int leave_due(const struct msg *m, uint16_t to, const void *arg)
{
	const uint32_t number = due_number(m->src, m->req_slot);
	struct due_call *d = &job.mem.calls[number];

	if (__atomic_exchange_n(&d->waits, 1, __ATOMIC_ACQUIRE))
		return -EBADMSG;
	d->op = m->op;
	d->room = (uint16_t)m->aux;
	memcpy(&d->arg, arg, sizeof(d->arg));
	put_due(to, number);
	return 0;
}

static void serve_due(uint32_t number)
{
	struct due_call *d = &job.mem.calls[number];
	struct msg m = { .op = d->op,
			 .src = (uint16_t)(number / CTL_CALLS),
			 .req_slot = (uint16_t)(CTL_BLOCK_END + number % CTL_CALLS) };
	char out[CALL_MAX] __attribute__((aligned(16)));
	const uint64_t arg = d->arg;
	const size_t room = d->room;
	int status;

	if (m.src == job.node) {
		status = serve_private((enum call_op)m.op, arg, answer_of(m.req_slot)->text);
		slot_complete(m.req_slot, (int16_t)status, 0);
		return;
	}
	/* Before the answer is sent, because the next call in the slot may follow it. */
	__atomic_store_n(&d->waits, 0, __ATOMIC_RELEASE);
	status = serve_private((enum call_op)m.op, arg, out);
	call_reply(&m, status, out, room);
}

bool call_waits(void)
{
	return __atomic_load_n(&job.mine->calls_in, __ATOMIC_RELAXED);
}

bool call_serve(void)
{
	unsigned int i;
	uint32_t n;

	for (i = 0; i < SERVE_MAX; i++) {
		n = take_due();
		if (!n)
			return false;
		serve_due(n - 1);
	}
	return true;
}

static struct payload_limits limits(uint16_t from)
{
	return (struct payload_limits){ .me = job.node,
					.from = from,
					.ranks = job.size,
					.nodes = job.nodes,
					.node_of = job.node_of,
					.base = (uintptr_t)job.base,
					.space = job.set.space,
					.heap = job.heap,
					.regions = CTL_REGIONS };
}

/*
 * A CALL_PURGE of another node, while the first node is asked for permission: it is stored where
 * the awaited answer's text would be.
 */
struct purge {
	struct msg m;
	struct region_place place;
};

/* Nobody waits for the answer: purge_asked() continues. */
static void purge_ask(const struct msg *m, const void *in)
{
	struct purge p = { .m = *m };
	struct region_burial b = { .node = m->src };
	int slot = slot_try_prefetch(0, SLOT_BRIEF);

	if (slot < 0) {
		call_reply(m, -EAGAIN, NULL, 0);
		return;
	}
	memcpy(&p.place, in, sizeof(p.place));
	b.at = p.place;
	memcpy(answer_of((uint16_t)slot)->text, &p, sizeof(p));
	send_call((uint16_t)slot, 0, CALL_MAY_PURGE, &b, sizeof(b), 0);
}

static void purge_asked(uint16_t slot, int status)
{
	struct purge p;

	memcpy(&p, answer_of(slot)->text, sizeof(p));
	slot_put(slot);
	if (!status)
		status = region_leave(p.m.src, CALL_PURGE, &p.place);
	if (status == -EPERM || status == -EBADMSG)
		run_refuse(&p.m, -EBADMSG);
	else
		call_reply(&p.m, status, NULL, 0);
}

int call_arrived(const struct msg *m, const void *payload, size_t size)
{
	const struct payload_limits lim = limits(m->src);
	const char *in = (const char *)payload + sizeof(struct call_head);
	struct call_head head;
	char out[CALL_MAX] __attribute__((aligned(16)));
	size_t room = m->aux;
	int status;

	if (m->req_slot < CTL_BLOCK_END || m->req_slot >= CTL_BRIEF_END ||
	    payload_request(&lim, m->op, payload, size, m->aux))
		return -EBADMSG;
	memcpy(&head, payload, sizeof(head));
	size -= sizeof(head);
	if (is_private((enum call_op)m->op))
		return leave_due(m, head.to, in);
	if (m->op == CALL_PURGE && job.node != node_of(0)) {
		purge_ask(m, in);
		return 0;
	}
	status = call_perform(m->src, head.to, (enum call_op)m->op, in, size, out, &room);
	if (status == -EBADMSG)
		return status;
	call_reply(m, status, out, room);
	return 0;
}

/* Is this the answer to the question in the slot? An error has no contents. */
static bool is_answer(const struct answer *a, const struct msg *m, const void *payload, size_t size)
{
	const struct payload_limits lim = limits(m->src);
	const uint32_t room = __atomic_load_n(&a->room, __ATOMIC_ACQUIRE);

	if (!room || m->op != a->op)
		return false;
	return m->count ? !size : !payload_answer(&lim, m->op, payload, size, room - 1);
}

int call_returned(const struct msg *m, const void *payload, size_t size)
{
	struct answer *a;
	bool last;

	if (m->req_slot < CTL_BLOCK_END || m->req_slot >= CTL_BRIEF_END)
		return -EBADMSG;
	a = answer_of(m->req_slot);
	if (!is_answer(a, m, payload, size) ||
	    dispatch_answer(&job.me->slots[m->req_slot].ask, m, &last) ||
	    !__atomic_exchange_n(&a->room, 0, __ATOMIC_ACQUIRE))
		return -EBADMSG;
	if (slot_is_prefetch(m->req_slot)) {
		purge_asked(m->req_slot, m->count);
		return 0;
	}
	a->size = (uint32_t)size;
	if (a->size)
		memcpy(a->text, payload, a->size);
	slot_complete(m->req_slot, m->count, 0);
	return 0;
}

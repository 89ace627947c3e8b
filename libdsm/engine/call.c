// SPDX-License-Identifier: BSD-2-Clause
/*
 * call.c - calls with answers of any size: names of regions, statistics, frees.
 *
 * A call is to a rank. Most need only the memory of its node: any rank there serves them, the caller itself where it is of that
 * node. CALL_FIND, CALL_VECTORS, CALL_LANES, CALL_TRIM, CALL_SPAWN, CALL_CANCEL and CALL_ASLEEP need the callee's process: they go to its
 * service thread, inside a node by mail.
 *
 * What comes from another node is held against the tables of payload.h first; calls inside a node are not.
 */
#include "engine/call.h"

#include <string.h>

#include "core/dispatch.h"
#include "engine/deadlock.h"
#include "engine/inside.h"
#include "engine/job.h"
#include "engine/lost.h"
#include "engine/owner.h"
#include "engine/payload.h"
#include "engine/region.h"
#include "engine/run.h"
#include "engine/service.h"
#include "engine/sharing.h"
#include "engine/slot.h"
#include "engine/stall.h"
#include "engine/stats.h"
#include "engine/wait.h"
#include "heap/heap.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

#define CALL_MAX WIRE_CALL_MAX

/* Calls that came from other nodes and wait for the service thread. */
static struct {
	uint32_t lock, head, tail;
	struct msg m[CTL_MAIL];
	uint64_t arg[CTL_MAIL];
	uint16_t to[CTL_MAIL];
} inbox;

int (*call_spawn)(uint64_t arg);
int (*call_cancel)(uint64_t arg);

static int find(uint64_t arg, void *out)
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

/* Which calls are for the callee's process alone, by its service thread. */
static bool is_private(enum call_op op)
{
	return op == CALL_FIND || op == CALL_VECTORS || op == CALL_LANES || op == CALL_TRIM || op == CALL_SPAWN ||
		op == CALL_CANCEL || op == CALL_ASLEEP;
}

/* What only the callee's process can tell. */
static int serve_private(enum call_op op, uint64_t arg, void *out)
{
	_Static_assert(sizeof(struct stats_vectors) <= CTL_TEXT && sizeof(struct trimmed) <= CTL_TEXT,
		       "they fit in a mail");
	if (op == CALL_FIND)
		return find(arg, out);
	if (op == CALL_TRIM)
		return owner_trim(arg, out);
	if (op == CALL_ASLEEP)
		return deadlock_serve(out);
	if (op == CALL_SPAWN)
		return call_spawn ? call_spawn(arg) : -ENOSYS;
	if (op == CALL_CANCEL)
		return call_cancel ? call_cancel(arg) : -ENOSYS;
	if (op == CALL_LANES)
		stats_lanes(out);
	else
		stats_vectors(out);
	return 0;
}

/* -ESTALE: the rank does not have that unit of the heap (any more). */
static int free_of(uint16_t rank, uint64_t addr)
{
	if (!owner_is((size_t)(addr - (uintptr_t)job.base), rank))
		return -ESTALE;
	return heap_free(peer_of(rank)->heap, (void *)(uintptr_t)addr);
}

/* Of a node. -EBADMSG: it may not ask that now. */
static int serve(uint16_t from, uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out,
		 size_t *out_size)
{
	uint64_t args[2] = { 0, 0 };

	if (in_size)
		memcpy(args, in, in_size < sizeof(args) ? in_size : sizeof(args));
	switch (op) {
	case CALL_FREE: return free_of(rank, args[0]);
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
		*out_size = stall_serve(rank, out, (unsigned int)(*out_size / sizeof(struct stall_row))) *
			sizeof(struct stall_row);
		return 0;
	case CALL_SHARING:
		*out_size =
			sharing_serve(args[0], args[1], out, (unsigned int)(*out_size / sizeof(struct sharing_sum))) *
			sizeof(struct sharing_sum);
		return 0;
	case CALL_FIND:
	case CALL_ASLEEP:
	case CALL_VECTORS:
	case CALL_LANES:
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

/* What has come by mail. */
static void serve_mail(void)
{
	unsigned int i;

	for (i = 0; i < CTL_MAIL; i++) {
		struct mail *l = &job.mine->mail[i];

		if (__atomic_load_n(&l->state, __ATOMIC_ACQUIRE) != 2)
			continue;
		l->status = serve_private((enum call_op)l->op, l->arg, l->text);
		__atomic_store_n(&l->state, 3, __ATOMIC_RELEASE);
		futex_wake(&l->state, 1);
	}
}

/*
 * In the same node, by the callee's service thread. Where the caller is a service thread itself (serves), it serves its own mail
 * meanwhile: two may call each other.
 */
static int call_by_mail(uint16_t rank, enum call_op op, const void *in, void *out, size_t out_size, bool serves)
{
	struct rank_ctl *c = peer_of(rank)->ctl;
	unsigned int i;
	int status;

	if (out_size > sizeof(c->mail[0].text))
		return -EMSGSIZE;
	for (i = 0;; i = (i + 1) % CTL_MAIL) {
		uint32_t zero = 0;

		if (__atomic_compare_exchange_n(&c->mail[i].state, &zero, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			break;
		lost_check();
		if (i == CTL_MAIL - 1)
			sched_yield(); /* its service thread needs a processor to serve them */
	}
	c->mail[i].op = op;
	memcpy(&c->mail[i].arg, in, sizeof(c->mail[i].arg));
	__atomic_store_n(&c->mail[i].state, 2, __ATOMIC_RELEASE);
	service_ring(rank);
	while (__atomic_load_n(&c->mail[i].state, __ATOMIC_ACQUIRE) == 2) {
		lost_check();
		futex_wait(&c->mail[i].state, 2, serves ? 1000000 : 100000000);
		if (serves)
			serve_mail();
	}
	status = c->mail[i].status;
	if (!status)
		memcpy(out, c->mail[i].text, out_size);
	__atomic_store_n(&c->mail[i].state, 0, __ATOMIC_RELEASE);
	return status;
}

static struct answer *answer_of(uint16_t slot)
{
	return &job.me->answers[slot - CTL_BLOCK_END];
}

static void send_call(uint16_t slot, uint16_t rank, enum call_op op, const void *in, size_t in_size, size_t out_size)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_CALL,
			       .op = (uint8_t)op,
			       .src = job.node,
			       .dst = node_of(rank),
			       .req_rank = job.node,
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

static int call_by_message(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t out_size)
{
	uint16_t slot = (uint16_t)slot_get(SLOT_BRIEF);
	const struct answer *a = answer_of(slot);
	uint32_t seq = slot_seq(slot);
	int err;

	send_call(slot, rank, op, in, in_size, out_size);
	wait_slot(slot, seq, 1, 0);
	err = job.me->slots[slot].status;
	if (!err && a->size)
		memcpy(out, a->text, a->size);
	if (!err && payload_counts(op))
		err = (int)a->size;
	slot_put(slot);
	return err;
}

int call_rank(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t out_size)
{
	size_t got = out_size;
	int err;

	if (out_size > CALL_MAX || in_size > CALL_MAX - sizeof(struct call_head))
		return -EMSGSIZE;
	engine_enter();
	HOOK("call-begin");
	if (!is_here(rank)) {
		err = call_by_message(rank, op, in, in_size, out, out_size);
	} else if (is_private(op) && rank != job.rank) {
		err = call_by_mail(rank, op, in, out, out_size, false);
	} else {
		err = serve(job.node, rank, op, in, in_size, out, &got);
		if (!err && payload_counts(op))
			err = (int)got;
	}
	engine_leave();
	return err;
}

static void answer(const struct msg *call, int status, const void *out, size_t size)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_RETURN,
			 .op = call->op,
			 .src = job.node,
			 .dst = call->src,
			 .req_rank = call->src,
			 .req_slot = call->req_slot,
			 .count = (int16_t)status };

	if (job.netops->send(job.net, job.pair[m.dst], &m, out, status ? 0 : size))
		lost_rank(job.pair[m.dst], "it cannot be reached");
}

/* For the service thread, which may wait for another. False: there are too many. */
static bool put_by(const struct msg *m, uint16_t to, const void *arg)
{
	unsigned int i;
	bool room;

	word_lock(&inbox.lock);
	room = inbox.tail - inbox.head < CTL_MAIL;
	if (room) {
		i = inbox.tail++ % CTL_MAIL;
		inbox.m[i] = *m;
		inbox.to[i] = to;
		memcpy(&inbox.arg[i], arg, sizeof(inbox.arg[i]));
	}
	word_unlock(&inbox.lock);
	if (room)
		service_ring(job.rank);
	return room;
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

/* CALL_PURGE of another node while the first node is asked whether it may: in the text of the answer that is awaited. */
struct purge {
	struct msg m;
	struct region_place place;
};

/* Nobody waits for the answer: purge_asked() goes on. */
static void purge_ask(const struct msg *m, const void *in)
{
	struct purge p = { .m = *m };
	struct region_burial b = { .node = m->src };
	int slot = slot_try_prefetch(0, SLOT_BRIEF);

	if (slot < 0) {
		answer(m, -EAGAIN, NULL, 0);
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
		answer(&p.m, status, NULL, 0);
}

int call_arrived(const struct msg *m, const void *payload, size_t size)
{
	const struct payload_limits lim = limits(m->src);
	const char *in = (const char *)payload + sizeof(struct call_head);
	struct call_head head;
	char out[CALL_MAX] __attribute__((aligned(16)));
	size_t room = m->aux;
	int status;

	if (payload_request(&lim, m->op, payload, size, m->aux))
		return -EBADMSG;
	memcpy(&head, payload, sizeof(head));
	size -= sizeof(head);
	if (is_private((enum call_op)m->op)) {
		if (!put_by(m, head.to, in))
			answer(m, -EAGAIN, NULL, 0);
		return 0;
	}
	if (m->op == CALL_PURGE && job.node != node_of(0)) {
		purge_ask(m, in);
		return 0;
	}
	status = serve(m->src, head.to, (enum call_op)m->op, in, size, out, &room);
	if (status == -EBADMSG)
		return status;
	answer(m, status, out, room);
	return 0;
}

/* The answer to what was asked in a slot. An error comes alone. */
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
	if (!is_answer(a, m, payload, size) || dispatch_answer(&job.me->slots[m->req_slot].ask, m, &last) ||
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

void call_mail(void)
{
	serve_mail();
	for (;;) {
		char out[CTL_TEXT] __attribute__((aligned(16)));
		struct msg m;
		uint64_t arg;
		uint16_t to;
		int status;

		word_lock(&inbox.lock);
		if (inbox.head == inbox.tail) {
			word_unlock(&inbox.lock);
			return;
		}
		m = inbox.m[inbox.head % CTL_MAIL];
		to = inbox.to[inbox.head % CTL_MAIL];
		arg = inbox.arg[inbox.head++ % CTL_MAIL];
		word_unlock(&inbox.lock);
		if (to == job.rank)
			status = serve_private((enum call_op)m.op, arg, out);
		else
			status = call_by_mail(to, (enum call_op)m.op, &arg, out, m.aux, true);
		answer(&m, status, out, m.aux);
	}
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* sync.c - synchronisation objects at their homes (docs/protocol.md, "Synchronisation objects"). */
#include "core/set.h"
#include "core/sync.h"

#define SEM_MAX 0x7fffffffULL

/* The operations of each kind. */
/* clang-format off */
static const uint32_t known[SYNC_KINDS] = {
	[SYNC_RWLOCK] = 1u << SOP_RDLOCK | 1u << SOP_WRLOCK | 1u << SOP_TRYRDLOCK | 1u << SOP_TRYWRLOCK | 1u << SOP_RDUNLOCK |
			1u << SOP_WRUNLOCK | 1u << SOP_CANCEL,
	[SYNC_COND]   = 1u << SOP_ENQUEUE | 1u << SOP_SIGNAL | 1u << SOP_BROADCAST | 1u << SOP_CANCEL |
			1u << SOP_MEET,
	[SYNC_SEM]    = 1u << SOP_WAIT | 1u << SOP_TRYWAIT | 1u << SOP_POST | 1u << SOP_CANCEL | 1u << SOP_LOAD,
	[SYNC_ATOMIC] = 1u << SOP_LOAD | 1u << SOP_STORE | 1u << SOP_ADD | 1u << SOP_EXCHANGE | 1u << SOP_CAS,
};
/* clang-format on */

static void sync_answer(const struct sync_ctx *ctx, uint16_t node, uint16_t slot, uint32_t object,
			int16_t status, uint64_t value, struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = MSG_REPLY;
	a->msg.src = ctx->me;
	a->msg.dst = node;
	a->msg.object = object;
	a->msg.req_node = node;
	a->msg.req_slot = slot;
	a->msg.count = status;
	a->msg.value = value;
}

static void reply(const struct sync_ctx *ctx, const struct msg *m, int16_t status, uint64_t value,
		  struct actions *out)
{
	sync_answer(ctx, m->req_node, m->req_slot, m->object, status, value, out);
}

static void enqueue(const struct sync_ctx *ctx, struct sync *s, const struct msg *m)
{
	uint32_t entry = queue_number(&ctx->queue, m->req_node, m->req_slot);

	queue_at(&ctx->queue, entry)->type = m->op;
	s->tail = queue_push(&ctx->queue, s->tail, entry);
}

/* If the first in line may proceed, change the state, and return true. */
static bool admit(struct sync *s, uint8_t op)
{
	switch (op) {
	case SOP_RDLOCK:
		if (s->writer & RW_WRITER)
			return false;
		s->readers++;
		return true;
	case SOP_WRLOCK:
	case SOP_TRYWRLOCK:
	case SOP_CANCEL:
		if (s->writer & RW_WRITER || s->readers || s->value)
			return false;
		s->writer |= RW_WRITER;
		return true;
	case SOP_WAIT:
		if (!s->value)
			return false;
		s->value--;
		return true;
	case SOP_ENQUEUE:
	case SOP_MEET:
		if (!s->readers)
			return false;
		s->readers--;
		return true;
	default: return false;
	}
}

/* Step the object again soon. */
static void another_turn(const struct sync_ctx *ctx, struct sync *s, uint32_t object,
			 struct actions *out)
{
	struct action *a = act_add(out, ACT_RESUME);

	s->pumping = 1;
	a->node = SET_NOBODY; /* any thread may */
	a->msg.type = MSG_RESUME;
	a->msg.src = a->msg.dst = ctx->me;
	a->msg.object = object;
	a->msg.req_node = (uint16_t)(s->gen >> 8);
	a->msg.op = 1;
}

/* ---- leases of reader-writer locks ----------------------------------------------------------- */

static uint64_t lease_bit(uint16_t node)
{
	return node < 64 ? 1ull << node : 0;
}

/*
 * May the node of this request, SOP_RDLOCK, have a lease? Not before there were some reads since
 * the last writer: who writes next has to wait until it is returned.
 */
static bool lease(const struct sync_ctx *ctx, struct sync *s, const struct msg *m)
{
	const uint64_t bit = lease_bit(m->req_node);

	if (!ctx->leases || m->flags != MSGF_LEASE || s->tail || !(bit & ~s->value) ||
	    s->writer & (RW_WRITER | RW_RECALLS | RW_ENDS))
		return false;
	if (s->writer < LEASE_AFTER * RW_READ) {
		s->writer += RW_READ;
		return false;
	}
	s->value |= bit;
	return true;
}

/* Revoke the next lease, if all are being revoked; if there are more, in another turn. */
static void revoke_one(const struct sync_ctx *ctx, struct sync *s, uint32_t object,
		       struct actions *out)
{
	const uint64_t left = s->writer & RW_RECALLS ? s->value & ~s->revoked : 0;
	struct action *a;

	if (!left)
		return;
	s->revoked |= left & -left;
	a = act_add(out, ACT_SEND);
	a->msg.type = MSG_REVOKE;
	a->msg.src = ctx->me;
	a->msg.dst = (uint16_t)__builtin_ctzll(left);
	a->msg.object = object;
	a->msg.req_node = (uint16_t)(s->gen >> 8);
	if (s->value != s->revoked)
		another_turn(ctx, s, object, out);
}

/* Does nobody hold the lock or wait for it, as far as is known, while nodes have leases? */
static bool only_leased(const struct sync *s)
{
	return s->kind == SYNC_RWLOCK && s->value && !s->tail && (int32_t)s->readers <= 0;
}

void sync_stays(const struct sync_ctx *ctx, struct sync *s, uint32_t object, struct actions *out)
{
	if (!only_leased(s)) {
		s->writer &= ~RW_ENDS;
		return;
	}
	s->writer |= RW_RECALLS | RW_ENDS;
	if (!s->pumping)
		revoke_one(ctx, s, object, out);
}

/* ---------------------------------------------------------------------------------------------- */

/*
 * The answer to the first in line, which cannot proceed, if it waits for the leases only: it tries,
 * or is a writer that is cancelled. 0: none yet, as nobody is known to hold the lock.
 */
static int16_t in_vain(const struct sync *s, uint8_t op)
{
	if (s->value && (int32_t)s->readers <= 0)
		return 0;
	return op == SOP_TRYWRLOCK ? -EBUSY : op == SOP_CANCEL ? -ETIMEDOUT : 0;
}

/*
 * If the first in line may proceed, answer it, and ask for another turn in case the next one may,
 * too.
 */
static void pump(const struct sync_ctx *ctx, struct sync *s, uint32_t object, struct actions *out)
{
	uint32_t head = queue_head(&ctx->queue, s->tail);
	const uint8_t op = head ? queue_at(&ctx->queue, head)->type : 0;
	int16_t status = 0;

	if (s->kind == SYNC_RWLOCK && s->value) {
		if (head && op != SOP_RDLOCK)
			s->writer |= RW_RECALLS;
		revoke_one(ctx, s, object, out);
		if (s->pumping)
			return;
	}
	if (!admit(s, op)) {
		status = in_vain(s, op);
		if (!status)
			return;
	}
	s->tail = queue_pop(&ctx->queue, s->tail);
	sync_answer(ctx, queue_requester(&ctx->queue, head), queue_slot(&ctx->queue, head), object,
		    status, 0, out);
	if (op == SOP_CANCEL && !status)
		sync_answer(ctx, queue_requester(&ctx->queue, head), queue_slot(&ctx->queue, head),
			    object, -EALREADY, 0, out);
	if (s->tail)
		another_turn(ctx, s, object, out);
}

/* A node has no lease any more, and m->value readers. */
static int returned(const struct sync_ctx *ctx, struct sync *s, const struct msg *m,
		    struct actions *out)
{
	const uint64_t bit = lease_bit(m->src);

	if (s->kind != SYNC_RWLOCK || !(s->revoked & bit) ||
	    (s->value == bit && (int32_t)(s->readers + (uint32_t)m->value) < 0))
		return -EBADMSG;
	s->readers += (uint32_t)m->value;
	s->value &= ~bit;
	s->revoked &= ~bit;
	if (!s->value)
		s->writer &= RW_ENDS;
	if (!s->pumping)
		pump(ctx, s, m->object, out);
	return 0;
}

/* A request that may wait: grant it at once if the line is empty and the state permits it. */
static void wait_in_line(const struct sync_ctx *ctx, struct sync *s, const struct msg *m,
			 struct actions *out)
{
	if (!s->tail && admit(s, m->op)) {
		reply(ctx, m, 0, 0, out);
		return;
	}
	enqueue(ctx, s, m);
	if (s->kind == SYNC_RWLOCK && !s->pumping)
		pump(ctx, s, m->object, out);
}

/* The same for a request that must not wait: it is granted, or fails with `status`. */
static void try_at_once(const struct sync_ctx *ctx, struct sync *s, const struct msg *m, uint8_t op,
			int16_t status, struct actions *out)
{
	reply(ctx, m, !s->tail && admit(s, op) ? 0 : status, 0, out);
}

/*
 * The value of a condition counts those that have come in this round. The last one wakes them, and
 * does not wait itself.
 */
static void sync_meet(const struct sync_ctx *ctx, struct sync *s, const struct msg *m,
		      struct actions *out)
{
	if (s->value + 1 < m->value) {
		enqueue(ctx, s, m);
		s->value++;
		return;
	}
	s->value = 0;
	s->readers = queue_length(&ctx->queue, s->tail);
	reply(ctx, m, 0, SYNC_LAST, out);
	if (!s->pumping)
		pump(ctx, s, m->object, out);
}

static void sync_atomic(const struct sync_ctx *ctx, struct sync *s, const struct msg *m,
			struct actions *out)
{
	uint64_t old = s->value;
	int16_t status = 0;

	switch (m->op) {
	case SOP_STORE:
	case SOP_EXCHANGE: s->value = m->value; break;
	case SOP_ADD: s->value += m->value; break;
	case SOP_CAS:
		if (old == m->value)
			s->value = m->value2;
		else
			status = -EAGAIN;
		break;
	default: break;
	}
	reply(ctx, m, status, old, out);
}

/*
 * A writer that is first in line, and that only leases keep from going, does not leave: a lock that
 * is free is given whatever the time limit. SOP_CANCEL is answered when they are returned.
 */
static bool stays(const struct sync_ctx *ctx, const struct sync *s, uint32_t entry)
{
	if (!s->value || (int32_t)s->readers > 0 || queue_head(&ctx->queue, s->tail) != entry ||
	    queue_at(&ctx->queue, entry)->type != SOP_WRLOCK)
		return false;
	queue_at(&ctx->queue, entry)->type = SOP_CANCEL;
	return true;
}

/*
 * The answer is -ETIMEDOUT, and nothing else follows; or -EALREADY, and the request's own answer
 * follows. A waiter that a signal has counted cannot leave: otherwise the signal would be lost to
 * those behind it. If a writer leaves, readers behind it may be able to proceed.
 */
static void cancel(const struct sync_ctx *ctx, struct sync *s, const struct msg *m,
		   struct actions *out)
{
	uint32_t entry = queue_number(&ctx->queue, m->req_node, m->req_slot);
	bool found =
		s->kind != SYNC_COND || queue_position(&ctx->queue, s->tail, entry) >= s->readers;

	if (stays(ctx, s, entry))
		return;
	if (found)
		s->tail = queue_remove(&ctx->queue, s->tail, entry, &found);
	if (found && s->kind == SYNC_COND && s->value)
		s->value--; /* others do not wait at a condition where threads meet */
	reply(ctx, m, found ? -ETIMEDOUT : -EALREADY, 0, out);
	if (!s->pumping)
		pump(ctx, s, m->object, out);
}

static int sync_operate(const struct sync_ctx *ctx, struct sync *s, const struct msg *m,
			struct actions *out)
{
	switch (m->op) {
	case SOP_RDLOCK:
		if (lease(ctx, s, m)) {
			reply(ctx, m, 0, SYNC_LEASED, out);
			return 0;
		}
		__attribute__((__fallthrough__));
	case SOP_WAIT:
	case SOP_WRLOCK:
		if (m->flags & MSGF_TIMED)
			reply(ctx, m, 0, 1, out);
		wait_in_line(ctx, s, m, out);
		return 0;
	case SOP_MEET:
		if (m->flags & MSGF_TIMED)
			reply(ctx, m, 0, 1, out);
		sync_meet(ctx, s, m, out);
		return 0;
	case SOP_TRYWAIT: try_at_once(ctx, s, m, SOP_WAIT, -EAGAIN, out); return 0;
	case SOP_TRYRDLOCK: try_at_once(ctx, s, m, SOP_RDLOCK, -EBUSY, out); return 0;
	case SOP_TRYWRLOCK:
		if (only_leased(s))
			wait_in_line(ctx, s, m, out);
		else
			try_at_once(ctx, s, m, SOP_WRLOCK, -EBUSY, out);
		return 0;
	case SOP_RDUNLOCK:
		/* it, or one before it, is counted in a MSG_REVOKED that is still on its way */
		if ((int32_t)s->readers <= 0 && !s->revoked)
			return -EBADMSG;
		s->readers--;
		break;
	case SOP_WRUNLOCK:
		if (!(s->writer & RW_WRITER))
			return -EBADMSG;
		s->writer &= RW_ENDS;
		break;
	case SOP_POST:
		if (m->value > SEM_MAX || s->value + m->value > SEM_MAX) {
			reply(ctx, m, -EOVERFLOW, 0, out);
			return 0;
		}
		s->value += m->value;
		break;
	case SOP_ENQUEUE:
		enqueue(ctx, s, m);
		reply(ctx, m, 0, 1, out); /* value 1: in line; the final answer has value 0 */
		return 0;
	case SOP_SIGNAL:
		if (s->readers < queue_length(&ctx->queue, s->tail))
			s->readers++;
		break;
	case SOP_BROADCAST: s->readers = queue_length(&ctx->queue, s->tail); break;
	case SOP_CANCEL: cancel(ctx, s, m, out); return 0;
	default: sync_atomic(ctx, s, m, out); return 0;
	}
	reply(ctx, m, 0, s->kind == SYNC_COND && s->readers ? SYNC_FOUND : 0, out);
	if (!s->pumping)
		pump(ctx, s, m->object, out);
	return 0;
}

bool sync_idle(const struct sync *s)
{
	if (s->kind == SYNC_MUTEX)
		return !s->value && !s->pumping;
	return !s->tail && !s->readers && !(s->writer & RW_WRITER) && !s->pumping &&
		(s->kind != SYNC_RWLOCK || !s->value);
}

bool sync_is_ending(const struct sync_ctx *ctx, const struct sync *s)
{
	return only_leased(s) ||
		(s->kind == SYNC_COND && s->pumping &&
		 s->readers == queue_length(&ctx->queue, s->tail));
}

int sync_step(const struct sync_ctx *ctx, struct sync *s, const struct msg *m, struct actions *out)
{
	out->n = 0;
	if (m->type == MSG_RESUME) {
		if (!s->pumping)
			return -EBADMSG;
		s->pumping = 0;
		pump(ctx, s, m->object, out);
		return 0;
	}
	if (m->type == MSG_REVOKED)
		return returned(ctx, s, m, out);
	if (m->type != MSG_SYNC || m->op >= SYNC_OPS || s->kind >= SYNC_KINDS)
		return -EBADMSG;
	if (!(known[s->kind] >> m->op & 1)) {
		reply(ctx, m, -EINVAL, 0, out);
		return 0;
	}
	if ((sync_waits(m->op) || (ctx->leases && m->op == SOP_TRYWRLOCK)) &&
	    queue_busy(&ctx->queue, queue_number(&ctx->queue, m->req_node, m->req_slot)))
		return -EBADMSG;
	return sync_operate(ctx, s, m, out);
}

static const char *const kind_names[SYNC_KINDS] = { "none",      "mutex",  "rwlock", "condition",
						    "semaphore", "atomic", "barrier" };
/* clang-format off */
static const char *const op_names[SYNC_OPS] = {
	"CREATE", "DESTROY", "RDLOCK", "WRLOCK", "TRYRDLOCK", "TRYWRLOCK", "RDUNLOCK", "WRUNLOCK", "WAIT", "TRYWAIT", "POST",
	"ENQUEUE", "SIGNAL", "BROADCAST", "CANCEL", "LOAD", "STORE", "ADD", "EXCHANGE", "CAS", "MEET",
};
/* clang-format on */

const char *sync_kind_name(unsigned int kind)
{
	return kind < SYNC_KINDS ? kind_names[kind] : "?";
}

const char *sync_op_name(unsigned int op)
{
	return op < SYNC_OPS ? op_names[op] : "?";
}

const char *sync_rule_name(unsigned int kind, unsigned int op)
{
	return kind < SYNC_KINDS && op < SYNC_OPS && known[kind] >> op & 1 ? "yes" : "-";
}

/* SPDX-License-Identifier: GPL-2.0 */
/* clang-format off */
/*
 * trace.h - tracepoints in events/dsm/ of tracefs, for faults, messages, changes of protections and
 * wake-ups. A disabled tracepoint costs one branch.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dsm

#if !defined(KMOD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KMOD_TRACE_H

#include <linux/tracepoint.h>

#include "core/wire.h"

#define dsm_message_types \
	E(READ_REQ) E(WRITE_REQ) E(DONE) E(FWD_READ) E(FWD_WRITE) E(FWD_MIGRATE) E(KEPT) E(INV) E(INV_ACK) E(GRANT) E(DATA) E(HOME) E(HOME_ACK) E(PLACE) E(SETTLE) E(CLAIM) \
	E(RELEASE) E(RESUME) E(LOCK) E(TRYLOCK) E(UNLOCK) E(NEXT) E(LOCKED) E(FREED) E(SYNC) E(REPLY) E(ARRIVE) E(DEPART)

#undef E
#define E(name) TRACE_DEFINE_ENUM(MSG_##name);
dsm_message_types
#undef E
#define E(name) { MSG_##name, #name },

/* A fault on the window that sent a request; result: 1: the page is open; 0: retry; -errno. */
TRACE_EVENT(dsm_fault,
	TP_PROTO(u16 rank, u32 page, bool write, u64 ns, int result),
	TP_ARGS(rank, page, write, ns, result),
	TP_STRUCT__entry(
		__field(u16, rank)
		__field(bool, write)
		__field(u32, page)
		__field(u64, ns)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->rank = rank;
		__entry->page = page;
		__entry->write = write;
		__entry->ns = ns;
		__entry->result = result;
	),
	TP_printk("rank=%u page=%#x %s ns=%llu result=%d", __entry->rank, __entry->page, __entry->write ? "write" : "read",
		  __entry->ns, __entry->result)
);

DECLARE_EVENT_CLASS(dsm_message,
	TP_PROTO(u16 rank, const struct msg *m),
	TP_ARGS(rank, m),
	TP_STRUCT__entry(
		__field(u16, rank)
		__field(u16, src)
		__field(u16, dst)
		__field(u8, type)
		__field(u8, op)
		__field(u32, object)
		__field(u16, req_node)
		__field(u16, req_slot)
	),
	TP_fast_assign(
		__entry->rank = rank;
		__entry->src = m->src;
		__entry->dst = m->dst;
		__entry->type = m->type;
		__entry->op = m->op;
		__entry->object = m->object;
		__entry->req_node = m->req_node;
		__entry->req_slot = m->req_slot;
	),
	TP_printk("rank=%u %u->%u %s op=%u object=%#x request=%u.%u", __entry->rank, __entry->src, __entry->dst,
		  __print_symbolic(__entry->type, dsm_message_types { 0, "NONE" }), __entry->op, __entry->object, __entry->req_node,
		  __entry->req_slot)
);

/* A rank of this kernel is about to handle a message, or to send one to any rank. */
DEFINE_EVENT(dsm_message, dsm_message_in, TP_PROTO(u16 rank, const struct msg *m), TP_ARGS(rank, m));
DEFINE_EVENT(dsm_message, dsm_message_out, TP_PROTO(u16 rank, const struct msg *m), TP_ARGS(rank, m));

/* The page tables show a batch of protections; other processors are being flushed. */
TRACE_EVENT(dsm_protect,
	TP_PROTO(u32 page, unsigned int count, u8 prot, unsigned int stale, unsigned int deferred, unsigned int flushed),
	TP_ARGS(page, count, prot, stale, deferred, flushed),
	TP_STRUCT__entry(
		__field(u32, page)
		__field(unsigned int, count)
		__field(unsigned int, stale)
		__field(unsigned int, deferred)
		__field(unsigned int, flushed)
		__field(u8, prot)
	),
	TP_fast_assign(
		__entry->page = page;
		__entry->count = count;
		__entry->prot = prot;
		__entry->stale = stale;
		__entry->deferred = deferred;
		__entry->flushed = flushed;
	),
	TP_printk("page=%#x items=%u prot=%u stale=%u deferred=%u processors=%u", __entry->page, __entry->count, __entry->prot,
		  __entry->stale, __entry->deferred, __entry->flushed)
);

/* The answer to a request has arrived. */
TRACE_EVENT(dsm_wake,
	TP_PROTO(u16 rank, unsigned int slot, u32 object, int status),
	TP_ARGS(rank, slot, object, status),
	TP_STRUCT__entry(
		__field(u16, rank)
		__field(unsigned int, slot)
		__field(u32, object)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->rank = rank;
		__entry->slot = slot;
		__entry->object = object;
		__entry->status = status;
	),
	TP_printk("rank=%u slot=%u object=%#x status=%d", __entry->rank, __entry->slot, __entry->object, __entry->status)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>

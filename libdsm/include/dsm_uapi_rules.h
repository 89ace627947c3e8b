/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* clang-format off */
/*
 * dsm_uapi_rules.h - the valid values of each field of each argument of /dev/dsm, in one table. The
 * checks of the module (kmod/base/check.c), the generator of tests/kmod/fuzz.c and the table of
 * dsm(4) are generated from it. No other file states a range.
 *
 * One or more variants describe an argument. A call whose fields depend on the operation has one
 * variant per meaning. An argument is valid if it matches one variant of its call. A variant has
 * one row for each field that it uses:
 *
 *   R(struct, field, way, kind, a, b)
 *
 * Any other field is 0 on input; the module may write to it.
 *
 * way: IN (the module reads the field), OUT (it writes the field), INOUT. kind, and the meaning of
 * a and b:
 *
 *   ANY        any value; the module ignores the input value of an OUT field
 *   IS         a
 *   NUMBER     a to b
 *   SIGNED     a to b, signed
 *   EACH       an array, each element like SIGNED
 *   FLAGS      only bits of b
 *   ONE_OF     a value below 64 whose bit is set in b
 *   MULTIPLE   a, 2a, 3a ... b
 *   INDEX      below b
 *   INDEX_OR   below b, or a
 *   RANK       below the size of the context's job
 *   PEER       the rank that the call names
 *   SIZE       the size of the context's job
 *   OBJECT     any value with a bit of b
 *   OWN_RANK   below the field `size` of the struct
 *   GROUP      0, or a mask of ranks of the context's job that includes its own rank
 *   BARRIER    1 to below b times the size of the context's job
 *   PAGE       a page of the context's window, a multiple of a
 *   PAGES      a number of pages, a multiple of a and not 0; from the field `page` on, they lie in
 *              the window
 *   POINTER    an address of the caller; an access to unmapped memory fails with -EFAULT
 *   NONZERO    bytes, not all 0
 *   TEXT       a string that ends within the field
 *
 * The memory that a POINTER refers to has rows of its own (DSM_POINTEES). DSM_FIELDS_<struct> lists
 * the fields of a struct, which are all its bytes; a field that is in no list, a row for no field
 * or a second row for a field does not compile.
 */
#ifndef DSM_UAPI_RULES_H
#define DSM_UAPI_RULES_H

#include "dsm_uapi.h"

#define DSM_BIT(n) (1ull << (n))

/* F(struct, field), in their order */
#define DSM_FIELDS_dsm_ioc_info(F, s) F(s, version) F(s, features) F(s, frames) F(s, frames_limit)
#define DSM_FIELDS_dsm_ioc_window(F, s) F(s, size) F(s, reserved)
#define DSM_FIELDS_dsm_ioc_attach(F, s) F(s, fd) F(s, reserved)
#define DSM_FIELDS_dsm_prot_item(F, s) F(s, page) F(s, prot)
#define DSM_FIELDS_dsm_ioc_protect(F, s) F(s, items) F(s, count) F(s, flags) F(s, deferred) F(s, flushed)
#define DSM_FIELDS_dsm_ioc_join(F, s) \
	F(s, rank) F(s, size) F(s, mode) F(s, readahead) F(s, hold_us) F(s, spin_us) F(s, device) F(s, gid) F(s, address_size) \
	F(s, address) F(s, vectors) F(s, cpus)
#define DSM_FIELDS_dsm_ioc_key(F, s) F(s, key)
#define DSM_FIELDS_dsm_ioc_connect(F, s) F(s, rank) F(s, flags) F(s, address_size) F(s, address)
#define DSM_FIELDS_dsm_address(F, s) \
	F(s, magic) F(s, version) F(s, rank) F(s, size) F(s, lid) F(s, mtu) F(s, global) F(s, gid)
#define DSM_FIELDS_dsm_address_qp(F, s) F(s, qpn)
#define DSM_FIELDS_dsm_ioc_region(F, s) \
	F(s, op) F(s, page) F(s, pages) F(s, id) F(s, order) F(s, home) F(s, arg) F(s, parts) F(s, priority) F(s, owners)
#define DSM_FIELDS_dsm_owner(F, s) F(s, rank)
#define DSM_FIELDS_dsm_ioc_call(F, s) \
	F(s, call) F(s, home) F(s, object) F(s, value) F(s, value2) F(s, ns) F(s, mutex) F(s, result) F(s, status) F(s, threads) \
	F(s, hold) F(s, op) F(s, waited) F(s, gen)
#define DSM_FIELDS_dsm_ioc_range(F, s) F(s, op) F(s, page) F(s, pages) F(s, write)
#define DSM_FIELDS_dsm_ioc_stats(F, s) \
	F(s, region) F(s, flags) F(s, read_faults) F(s, write_faults) F(s, upgrades) F(s, local_faults) F(s, prefetched) \
	F(s, invalidations) F(s, downgrades) F(s, blocks_in) F(s, blocks_out) F(s, bytes_in) F(s, bytes_out) F(s, homes_in) \
	F(s, latency_count) F(s, latency_sum) F(s, latency_max) F(s, latency) F(s, messages_in) F(s, messages_out) F(s, steps)
#define DSM_FIELDS_dsm_ioc_hot(F, s) F(s, page) F(s, reserved) F(s, transfers)
#define DSM_FIELDS_dsm_ioc_lost(F, s) F(s, rank) F(s, err)
#define DSM_FIELDS_dsm_ioc_queues(F, s) F(s, device) F(s, mode) F(s, reserved) F(s, of)

#define DSM_WRITTEN(R, s, field) R(s, field, OUT, ANY, 0, 0)

#define DSM_RULES_INFO(R, s) \
	DSM_WRITTEN(R, s, version) DSM_WRITTEN(R, s, features) DSM_WRITTEN(R, s, frames) DSM_WRITTEN(R, s, frames_limit)

#define DSM_RULES_WINDOW(R, s) \
	R(s, size, IN, MULTIPLE, DSM_UNIT, DSM_WINDOW_MAX)

#define DSM_RULES_ATTACH(R, s) \
	R(s, fd, IN, NUMBER, 0, 0x7fffffff)

/* Each item that `items` of PROTECT points to. */
#define DSM_RULES_PROT_ITEM(R, s) \
	R(s, page, IN, PAGE, 1, 0) \
	R(s, prot, IN, NUMBER, DSM_PROT_NONE, DSM_PROT_WRITE)

/* The argument of PROTECT_PAGE, by value. */
#define DSM_RULES_PROTECT_PAGE(R, s) DSM_RULES_PROT_ITEM(R, s)

#define DSM_RULES_PROTECT(R, s) \
	R(s, items, IN, POINTER, 0, 0) \
	R(s, count, IN, NUMBER, 0, DSM_PROTECT_MAX) \
	R(s, flags, IN, FLAGS, 0, DSM_PROTECT_SOFTIRQ)

#define DSM_RULES_JOIN(R, s) \
	R(s, rank, IN, OWN_RANK, 0, 0) \
	R(s, size, IN, NUMBER, 1, DSM_RANKS_MAX) \
	R(s, mode, IN, NUMBER, DSM_MODE_SOFTIRQ, DSM_MODE_POLL) \
	R(s, readahead, IN, NUMBER, 0, DSM_READAHEAD_MAX) \
	R(s, hold_us, IN, NUMBER, 0, DSM_US_MAX) \
	R(s, spin_us, IN, NUMBER, 0, DSM_US_MAX) \
	R(s, device, IN, TEXT, 0, 0) \
	R(s, gid, IN, SIGNED, -1, 0x7fffffff) \
	R(s, address_size, INOUT, NUMBER, DSM_ADDRESS_MAX, 0xffffffff) \
	R(s, address, IN, POINTER, 0, 0) \
	R(s, vectors, IN, EACH, -1, 0x7fff) \
	R(s, cpus, IN, EACH, DSM_CPU_ANY, 0x7fff)

#define DSM_RULES_KEY(R, s) \
	R(s, key, IN, NONZERO, 0, 0)

#define DSM_RULES_CONNECT(R, s) \
	R(s, rank, IN, RANK, 0, 0) \
	R(s, flags, IN, FLAGS, 0, DSM_CONNECT_HERE) \
	R(s, address_size, IN, NUMBER, 0, DSM_ADDRESS_MAX) \
	R(s, address, IN, POINTER, 0, 0)

/*
 * The start of what `address` of CONNECT points to, for a RoCE device and for an InfiniBand device
 * of the context.
 */
#define DSM_RULES_ADDRESS_HEAD(R, s) \
	R(s, magic, IN, IS, DSM_ADDRESS_MAGIC, 0) \
	R(s, version, IN, IS, DSM_UAPI_VERSION, 0) \
	R(s, rank, IN, PEER, 0, 0) \
	R(s, size, IN, SIZE, 0, 0)
#define DSM_RULES_ADDRESS_ROCE(R, s) \
	DSM_RULES_ADDRESS_HEAD(R, s) \
	R(s, mtu, IN, NUMBER, DSM_MTU_MIN, DSM_MTU_MAX) \
	R(s, global, IN, IS, 1, 0) \
	R(s, gid, IN, NONZERO, 0, 0)
#define DSM_RULES_ADDRESS_IB(R, s) \
	DSM_RULES_ADDRESS_HEAD(R, s) \
	R(s, lid, IN, NUMBER, 1, DSM_LID_MAX) \
	R(s, mtu, IN, NUMBER, DSM_MTU_MIN, DSM_MTU_MAX) \
	R(s, global, IN, IS, 0, 0) \
	R(s, gid, IN, ANY, 0, 0)
/* The rest: queue pairs for the rank of the context, and the others. */
#define DSM_RULES_ADDRESS_QP(R, s) \
	R(s, qpn, IN, NUMBER, DSM_QPN_MIN, DSM_QPN_MAX)
#define DSM_RULES_OTHER_QP(R, s) \
	R(s, qpn, IN, NUMBER, 0, DSM_QPN_MAX)

#define DSM_RULES_REGION_HEAD(R, s) \
	R(s, op, IN, NUMBER, DSM_REGION_ADD, DSM_REGION_REMOVE) \
	R(s, page, IN, PAGE, DSM_UNIT_PAGES, 0) \
	R(s, pages, IN, PAGES, 1, 0) \
	R(s, id, IN, INDEX, 0, DSM_REGIONS_MAX) \
	R(s, order, IN, NUMBER, 0, DSM_ORDER_MAX) \
	R(s, priority, IN, NUMBER, 0, DSM_REGION_PRIORITIES - 1)
#define DSM_RULES_REGION_FIRST(R, s) \
	DSM_RULES_REGION_HEAD(R, s) \
	R(s, home, IN, IS, DSM_REGION_FIRST_TOUCH, 0)
#define DSM_RULES_REGION_CYCLIC(R, s) \
	DSM_RULES_REGION_HEAD(R, s) \
	R(s, home, IN, IS, DSM_REGION_CYCLIC, 0) \
	R(s, arg, IN, NUMBER, 0, 0xffffffff)
#define DSM_RULES_REGION_FIXED(R, s) \
	DSM_RULES_REGION_HEAD(R, s) \
	R(s, home, IN, IS, DSM_REGION_FIXED, 0) \
	R(s, arg, IN, RANK, 0, 0)
#define DSM_RULES_REGION_PARTS(R, s) \
	DSM_RULES_REGION_HEAD(R, s) \
	R(s, home, IN, IS, DSM_REGION_PARTS, 0) \
	R(s, arg, IN, NUMBER, 1, 0xffffffff) \
	R(s, parts, IN, NUMBER, 0, DSM_PARTS_MAX) \
	R(s, owners, IN, POINTER, 0, 0)

/* Each item that `owners` of REGION points to. */
#define DSM_RULES_OWNER(R, s) \
	R(s, rank, IN, RANK, 0, 0)

/* Requests that name an object. */
#define DSM_RULES_CALL_NAMED(R, s) \
	R(s, home, IN, RANK, 0, 0) \
	R(s, gen, IN, NUMBER, 0, 0xffff)
/* Requests with one answer. */
#define DSM_RULES_CALL_SYNC(R, s) \
	R(s, call, IN, IS, DSM_CALL_SYNC, 0) \
	DSM_RULES_CALL_NAMED(R, s) \
	R(s, object, IN, ANY, 0, 0) \
	R(s, value, IN, ANY, 0, 0) \
	R(s, op, IN, ONE_OF, 0, DSM_SYNC_ONCE)
#define DSM_RULES_CALL_CAS(R, s) \
	R(s, call, IN, IS, DSM_CALL_SYNC, 0) \
	DSM_RULES_CALL_NAMED(R, s) \
	R(s, object, IN, ANY, 0, 0) \
	R(s, value, IN, ANY, 0, 0) \
	R(s, value2, IN, ANY, 0, 0) \
	R(s, op, IN, IS, DSM_SYNC_CAS, 0)
/* Objects without an initial value; semaphores and atomic objects, which have one. */
#define DSM_RULES_CREATE(R, s) \
	R(s, call, IN, IS, DSM_CALL_SYNC, 0) \
	R(s, home, IN, RANK, 0, 0) \
	R(s, op, IN, IS, DSM_SYNC_CREATE, 0)
#define DSM_RULES_CALL_CREATE(R, s) \
	DSM_RULES_CREATE(R, s) \
	R(s, value2, IN, MULTIPLE, 1ull << 32, (__u64)(DSM_SYNC_KIND_SEM - 1) << 32)
#define DSM_RULES_CREATE_SEM(R, s) \
	DSM_RULES_CREATE(R, s) \
	R(s, value, IN, ANY, 0, 0) \
	R(s, value2, IN, IS, (__u64)DSM_SYNC_KIND_SEM << 32, 0)
#define DSM_RULES_CREATE_ATOMIC(R, s) \
	DSM_RULES_CREATE(R, s) \
	R(s, value, IN, ANY, 0, 0) \
	R(s, value2, IN, IS, (__u64)DSM_SYNC_KIND_MAX << 32, 0)
#define DSM_RULES_CALL_WAIT(R, s) \
	R(s, call, IN, IS, DSM_CALL_SYNC, 0) \
	DSM_RULES_CALL_NAMED(R, s) \
	R(s, object, IN, ANY, 0, 0) \
	R(s, value, IN, ANY, 0, 0) \
	R(s, ns, IN, ANY, 0, 0) \
	R(s, mutex, IN, INDEX, 0, DSM_HOLDS_MAX + 1) \
	R(s, hold, IN, FLAGS, 0, DSM_SYNC_POINT) \
	R(s, op, IN, ONE_OF, 0, DSM_SYNC_WAITS)
#define DSM_RULES_CALL_LOCK(R, s) \
	R(s, call, IN, IS, DSM_CALL_LOCK, 0) \
	DSM_RULES_CALL_NAMED(R, s) \
	R(s, object, IN, OBJECT, 0, DSM_OBJECT_INDEX) \
	R(s, ns, IN, ANY, 0, 0)
#define DSM_RULES_CALL_TRYLOCK(R, s) \
	R(s, call, IN, IS, DSM_CALL_TRYLOCK, 0) \
	DSM_RULES_CALL_NAMED(R, s) \
	R(s, object, IN, OBJECT, 0, DSM_OBJECT_INDEX)
#define DSM_RULES_CALL_UNLOCK(R, s) \
	R(s, call, IN, IS, DSM_CALL_UNLOCK, 0) \
	R(s, hold, IN, INDEX, 0, DSM_HOLDS_MAX)
/* Barrier 0, which belongs to the job and always exists; the others. */
#define DSM_RULES_BARRIER_0(R, s) \
	R(s, call, IN, IS, DSM_CALL_BARRIER, 0) \
	R(s, value, IN, ANY, 0, 0) \
	R(s, value2, IN, GROUP, 0, 0) \
	R(s, threads, IN, NUMBER, 0, 0x7fffffff) \
	R(s, hold, IN, FLAGS, 0, DSM_BARRIER_ALL | DSM_BARRIER_DIFFER) \
	R(s, op, IN, ONE_OF, 0, DSM_REDUCE_OPS)
#define DSM_RULES_CALL_BARRIER(R, s) \
	DSM_RULES_BARRIER_0(R, s) \
	R(s, object, IN, BARRIER, 0, DSM_BARRIERS_MAX) \
	R(s, gen, IN, NUMBER, 0, DSM_BARRIER_GEN_MAX)
#define DSM_RULES_CALL_CANCEL(R, s) \
	R(s, call, IN, IS, DSM_CALL_CANCEL, 0) \
	R(s, value, IN, ANY, 0, 0)

/* Access, pin, give back and place blocks; whole units of the window. */
#define DSM_RULES_RANGE_BLOCKS(R, s) \
	R(s, page, IN, PAGE, 1, 0) \
	R(s, pages, IN, PAGES, 1, 0)
#define DSM_RULES_RANGE_ACCESS(R, s) \
	R(s, op, IN, ONE_OF, 0, \
	  DSM_BIT(DSM_RANGE_PREFETCH) | DSM_BIT(DSM_RANGE_ACQUIRE) | DSM_BIT(DSM_RANGE_UNPIN)) \
	DSM_RULES_RANGE_BLOCKS(R, s) \
	R(s, write, IN, NUMBER, 0, 1)
#define DSM_RULES_RANGE_PIN(R, s) \
	R(s, op, IN, IS, DSM_RANGE_PIN, 0) \
	DSM_RULES_RANGE_BLOCKS(R, s) \
	R(s, write, IN, FLAGS, 0, DSM_PIN_WRITE | DSM_PIN_TURNS)
#define DSM_RULES_RANGE_GIVE(R, s) \
	R(s, op, IN, ONE_OF, 0, \
	  DSM_BIT(DSM_RANGE_RELEASE) | DSM_BIT(DSM_RANGE_EVICT) | DSM_BIT(DSM_RANGE_LEAVE) | DSM_BIT(DSM_RANGE_ECHO)) \
	DSM_RULES_RANGE_BLOCKS(R, s)
#define DSM_RULES_RANGE_PLACE(R, s) \
	R(s, op, IN, IS, DSM_RANGE_PLACE, 0) \
	DSM_RULES_RANGE_BLOCKS(R, s) \
	R(s, write, IN, RANK, 0, 0)
#define DSM_RULES_RANGE_UNITS(R, s) \
	R(s, op, IN, ONE_OF, 0, DSM_BIT(DSM_RANGE_QUIET) | DSM_BIT(DSM_RANGE_FORGET)) \
	R(s, page, IN, PAGE, DSM_UNIT_PAGES, 0) \
	R(s, pages, IN, PAGES, DSM_UNIT_PAGES, 0)

#define DSM_RULES_STATS(R, s) \
	R(s, region, IN, INDEX_OR, DSM_STATS_RANK, DSM_REGIONS_MAX) \
	R(s, flags, IN, FLAGS, 0, DSM_STATS_RESET) \
	DSM_WRITTEN(R, s, read_faults) DSM_WRITTEN(R, s, write_faults) DSM_WRITTEN(R, s, upgrades) \
	DSM_WRITTEN(R, s, local_faults) DSM_WRITTEN(R, s, prefetched) DSM_WRITTEN(R, s, invalidations) \
	DSM_WRITTEN(R, s, downgrades) DSM_WRITTEN(R, s, blocks_in) DSM_WRITTEN(R, s, blocks_out) DSM_WRITTEN(R, s, bytes_in) \
	DSM_WRITTEN(R, s, bytes_out) DSM_WRITTEN(R, s, homes_in) DSM_WRITTEN(R, s, latency_count) \
	DSM_WRITTEN(R, s, latency_sum) DSM_WRITTEN(R, s, latency_max) DSM_WRITTEN(R, s, latency) \
	DSM_WRITTEN(R, s, messages_in) DSM_WRITTEN(R, s, messages_out) DSM_WRITTEN(R, s, steps)

#define DSM_RULES_HOT(R, s) \
	R(s, page, INOUT, PAGE, DSM_UNIT_PAGES, 0) \
	R(s, transfers, IN, POINTER, 0, 0)

#define DSM_RULES_LOST(R, s) \
	DSM_WRITTEN(R, s, rank) DSM_WRITTEN(R, s, err)

#define DSM_RULES_QUEUES(R, s) \
	DSM_WRITTEN(R, s, device) DSM_WRITTEN(R, s, mode) DSM_WRITTEN(R, s, reserved) DSM_WRITTEN(R, s, of)

/* V(call, variant, struct) */
#define DSM_VARIANTS(V) \
	V(INFO, INFO, dsm_ioc_info) \
	V(WINDOW, WINDOW, dsm_ioc_window) \
	V(ATTACH, ATTACH, dsm_ioc_attach) \
	V(PROTECT, PROTECT, dsm_ioc_protect) \
	V(PROTECT_PAGE, PROTECT_PAGE, dsm_prot_item) \
	V(JOIN, JOIN, dsm_ioc_join) \
	V(KEY, KEY, dsm_ioc_key) \
	V(CONNECT, CONNECT, dsm_ioc_connect) \
	V(REGION, REGION_FIRST, dsm_ioc_region) \
	V(REGION, REGION_CYCLIC, dsm_ioc_region) \
	V(REGION, REGION_FIXED, dsm_ioc_region) \
	V(REGION, REGION_PARTS, dsm_ioc_region) \
	V(CALL, CALL_SYNC, dsm_ioc_call) \
	V(CALL, CALL_CAS, dsm_ioc_call) \
	V(CALL, CALL_CREATE, dsm_ioc_call) \
	V(CALL, CREATE_SEM, dsm_ioc_call) \
	V(CALL, CREATE_ATOMIC, dsm_ioc_call) \
	V(CALL, CALL_WAIT, dsm_ioc_call) \
	V(CALL, CALL_LOCK, dsm_ioc_call) \
	V(CALL, CALL_TRYLOCK, dsm_ioc_call) \
	V(CALL, CALL_UNLOCK, dsm_ioc_call) \
	V(CALL, BARRIER_0, dsm_ioc_call) \
	V(CALL, CALL_BARRIER, dsm_ioc_call) \
	V(CALL, CALL_CANCEL, dsm_ioc_call) \
	V(RANGE, RANGE_ACCESS, dsm_ioc_range) \
	V(RANGE, RANGE_PIN, dsm_ioc_range) \
	V(RANGE, RANGE_GIVE, dsm_ioc_range) \
	V(RANGE, RANGE_PLACE, dsm_ioc_range) \
	V(RANGE, RANGE_UNITS, dsm_ioc_range) \
	V(STATS, STATS, dsm_ioc_stats) \
	V(HOT, HOT, dsm_ioc_hot) \
	V(LOST, LOST, dsm_ioc_lost) \
	V(QUEUES, QUEUES, dsm_ioc_queues)

/* The memory that their pointers refer to: V(call, variant, struct) */
#define DSM_POINTEES(V) \
	V(PROTECT, PROT_ITEM, dsm_prot_item) \
	V(CONNECT, ADDRESS_ROCE, dsm_address) \
	V(CONNECT, ADDRESS_IB, dsm_address) \
	V(CONNECT, ADDRESS_QP, dsm_address_qp) \
	V(CONNECT, OTHER_QP, dsm_address_qp) \
	V(REGION, OWNER, dsm_owner)

/*
 * The fields of a list build a packed struct, which must equal the struct of the call: a missing
 * one moves the later fields, or makes the struct too small. The rows of a variant build another,
 * in which a second row for a field is a duplicate member.
 */
#define DSM_RULED_FIELD(s, field, ...) __typeof__(((struct s *)0)->field) field;
#define DSM_RULED_PLACE(s, field) \
	DSM_RULED_ASSERT(__builtin_offsetof(ruled, field) == __builtin_offsetof(struct s, field));
#ifdef __cplusplus
#define DSM_RULED_ASSERT(x) static_assert(x, "a field without a rule")
#else
#define DSM_RULED_ASSERT(x) _Static_assert(x, "a field without a rule")
#endif
#define DSM_RULED(call, variant, s) \
	static inline void dsm_ruled_##variant(void) \
	{ \
		typedef struct { DSM_FIELDS_##s(DSM_RULED_FIELD, s) } __attribute__((packed)) ruled; \
		typedef struct { DSM_RULES_##variant(DSM_RULED_FIELD, s) } __attribute__((packed)) rows; \
		DSM_RULED_ASSERT(sizeof(ruled) == sizeof(struct s) && sizeof(rows) <= sizeof(struct s)); \
		DSM_FIELDS_##s(DSM_RULED_PLACE, s) \
	}
DSM_VARIANTS(DSM_RULED)
DSM_POINTEES(DSM_RULED)

#endif

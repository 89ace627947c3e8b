/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * wire.h - the messages of the protocol: 32 bytes, fixed layout, little endian, the same in every
 * host of the core.
 *
 * A message names its object (a block, a sync object) and its request (req_node, req_slot).
 * It names nodes by number. Only MSG_BYE names a rank.
 * Channels need not preserve order: the state machines are correct if messages between two nodes
 * overtake each other.
 */
#ifndef CORE_WIRE_H
#define CORE_WIRE_H

#include "core/types.h"

#define WIRE_VERSION 25
#define WIRE_MAX_NODES 1024
#define WIRE_ERRNO_MAX 4095 /* answers carry -errno down to minus this */
#define WIRE_CALL_MAX 4096u /* most bytes of a call and of its answer */
/* enum dsm_op of dsm.h; enum dsm_type is in the upper half of the byte */
#define WIRE_REDUCE_OPS 7u
#define WIRE_REDUCE_TYPES 12u
#define WIRE_DYING 0x100u /* MSG_BYE, with the status: the sender has not left yet */
#define WIRE_PAGE 4096u
#define WIRE_BUNDLE_MAX 64   /* MSG_BUNDLE: most messages */
#define WIRE_FRAMES_MAX 512u /* MSG_RELEASE: most frames to allocate: 2 MiB */

/* The pages of a block, by its name: a bit below its first page. */
static inline uint32_t wire_block_pages(uint32_t id)
{
	return id & -id;
}

enum msg_class { CLASS_COHERENCE = 0, CLASS_DATA, CLASS_SYNC, CLASS_BULK, CLASS_MAX };

enum msg_type {
	MSG_NONE = 0,
	/* requester -> home */
	MSG_READ_REQ,  /* wants a read copy */
	MSG_WRITE_REQ, /* wants to write; MSGF_HAS: holds a read copy */
	MSG_DONE,      /* the grant has arrived and been used */
	/* home -> holders */
	MSG_FWD_READ,  /* send a copy to req_node, keep one */
	MSG_FWD_WRITE, /* send the block and `count` to req_node, keep none */
	/*
	 * the same for a reader of a migratory block; answered by MSG_KEPT if it is pinned for
	 * reading
	 */
	MSG_FWD_MIGRATE,
	MSG_INV, /* drop the copy, acknowledge to req_node */
	/* holder -> home: MSG_FWD_MIGRATE found a pin; send req_node a copy instead */
	MSG_KEPT,
	/* -> requester */
	MSG_INV_ACK,
	/*
	 * permission without data; MSGF_ZERO: nobody ever wrote the block. Of release blocks: that,
	 * or the answer to WRITE_REQ with MSGF_HAS; op GRANT_READ: the home stays
	 */
	MSG_GRANT,
	/*
	 * permission with the block; count: acknowledgements to wait for, or, with GRANT_READ, 1 if
	 * the home waits for no MSG_DONE (a brief read, core/dir.h)
	 */
	MSG_DATA,
	/* homes */
	/* manager -> first toucher: become the home, and serve your own request (op: its type) */
	MSG_HOME,
	MSG_HOME_ACK,
	/*
	 * home -> manager: make req_node the home; value: forwarded requests served since the
	 * sender is home
	 */
	MSG_MOVE,
	MSG_MOVE_ACK, /* count: -errno */
	/* home -> the owner, which has the only copy: become the home; value: the manager */
	MSG_ADOPT,
	MSG_MOVED, /* former home -> requester: ask the manager, value, again */
	MSG_PLACE, /* -> manager: make value the home, if the block is untouched */
	/*
	 * -> the intended home of a touched block: become its home; the answer tells whether it is
	 */
	MSG_SETTLE,
	MSG_CLAIM, /* -> home: make value, which has the only copy, the home */
	/*
	 * holder -> home: take the newest copy back (op: RELEASE_*; aux: frames to allocate in an
	 * unknown region)
	 */
	MSG_RELEASE,
	MSG_RESUME, /* home -> itself: serve the next waiter; never on the wire */
	/* locks */
	/*
	 * requester -> home; aux: the requester's hold record; op: its node's claim
	 * (core/quantum.h), 0: none. NEXT repeats flags and op
	 */
	MSG_LOCK,
	MSG_TRYLOCK,
	MSG_UNLOCK, /* keeper -> home: return the lock */
	/*
	 * home -> tail of the queue: the successor is req_node, req_slot, value (its hold record)
	 */
	MSG_NEXT,
	/* -> requester: the lock is granted; sent by the home or by the previous holder */
	MSG_LOCKED,
	/* home -> holder: answer to MSG_UNLOCK; value 0: free the record, 1: MSG_NEXT follows */
	MSG_FREED,
	MSG_RECALL, /* home -> tail of the queue: return the lock if it is idle in this record */
	/*
	 * count 0: returned, MSG_FREED follows; -EBUSY: not idle; -EINPROGRESS: MSG_UNLOCK is on
	 * its way
	 */
	MSG_RECALLED,
	/* other sync objects: one request, one reply */
	MSG_SYNC,    /* op: enum sync_op */
	MSG_REPLY,   /* count: -errno; value */
	MSG_REVOKE,  /* home -> node: return the lease of a reader-writer lock */
	MSG_REVOKED, /* answer: it is returned; value: threads of this node that hold the lock */
	/* barriers; req_slot, home: the generation */
	MSG_ARRIVE, /* child -> parent; value, op, aux: threads per rank, count: -errno */
	MSG_DEPART, /* parent -> child; value, count: -errno */
	/* the runtime's own calls, with a payload of any length */
	MSG_CALL,   /* op: enum call_op of the engine */
	MSG_RETURN, /* count: -errno */
	MSG_PING,   /* liveness between hosts */
	/*
	 * the sender has finalized (op 0) or aborts the job (op 1); aux: its status, WIRE_DYING,
	 * the rank above them
	 */
	MSG_BYE,
	/*
	 * piece of a collective; op 0: a part, for the parent to combine; 1: the result, for a
	 * child; value: number
	 */
	MSG_CHUNK,
	/* between kernels: the keys for writing blocks, and a block as it is, whoever holds it */
	MSG_KEY_WANTED,
	MSG_KEY, /* aux: the key, value: where writes by it begin: the offset in the window */
	MSG_ECHO,
	/* the first message of each queue pair; value proves that its sender has the job's key */
	MSG_HELLO,
	/*
	 * release blocks; value: the close of req_node that this belongs to. FLUSH and NOTE of the
	 * sender's own close have a message behind their payload if op is not 0: as if it came in
	 * AFTER, with that op
	 */
	MSG_FLUSH, /* writer -> home: diffs, the payload */
	/*
	 * home -> writer: the diffs are merged, and no copy without them is left that has no
	 * notice; the payload: blocks whose home is the writer from now on
	 */
	MSG_FLUSHED,
	/* home -> registered node: notices, the payload, for blocks that req_node has changed */
	MSG_NOTE,
	MSG_NOTED,
	/*
	 * a message that releases, the payload: deliver it when the close has been served (op:
	 * AFTER_*)
	 */
	MSG_AFTER,
	MSG_BUNDLE, /* `count` messages of type `op`, the payload (core/bundle.h) */
	MSG_TYPES
};

enum {
	MSGF_HAS = 1,         /* WRITE_REQ: requester holds a read copy */
	MSGF_FIRST_TOUCH = 2, /* requests: the first toucher of this block becomes its home */
	MSGF_ZERO = 4,        /* GRANT: contents are zero */
	MSGF_CONFIRM = 4,     /* READ_REQ: no brief read (struct dir_ctx): MSG_DONE will come */
	/*
	 * READ_REQ, WRITE_REQ: of a release block; a home may not know the region yet. WRITE_REQ:
	 * the requester would like to be its home
	 */
	MSGF_RELEASE = 8,
	/*
	 * RDLOCK, WRLOCK, WAIT, MEET: reply also when queued, as ENQUEUE; SOP_CANCEL may follow.
	 * LOCK, NEXT: the requester waits for a short time
	 */
	MSGF_TIMED = 8,
	MSGF_LEASE = 16, /* RDLOCK, not timed: the node would like a lease (core/lease.h) */
	/* requests: forwarded by the block's manager to the home; do not forward it again */
	MSGF_FORWARDED = 16,
	MSGF_KNOWN = 32, /* requests: the requester believes that the receiver is the home */
	/* WRITE_REQ: place the block at the requester, which also becomes the home */
	MSGF_PLACE = 64,
	/* GRANT: give the block back at a barrier; READ_REQ: given back, not used by the home */
	MSGF_PUSH = 128,
};

enum { GRANT_READ = 1, GRANT_WRITE = 2 };
enum { RELEASE_KEEP = 0, RELEASE_EVICT = 1 };
enum { AFTER_FLUSH = 1, AFTER_NOTE = 2 }; /* what the receiver must have served */

struct msg {
	uint8_t version;
	uint8_t type;
	uint8_t flags;
	uint8_t op;   /* GRANT_*, RELEASE_*, sync_op ..., depends on type */
	uint16_t src; /* the sending node */
	uint16_t dst;
	uint32_t object; /* block number, or index of a sync object at its home */
	uint16_t req_node;
	uint16_t req_slot;
	union {
		struct {
			uint16_t home; /* coherence: the block's home */
			int16_t count; /* acknowledgements to expect; replies: -errno */
			/*
			 * locks: hold record of the receiver, or of the sender in messages to the
			 * home
			 */
			uint32_t aux;
		};
		uint64_t value2; /* compare-exchange: the new value */
	};
	uint64_t value;
};
CORE_ASSERT_SIZE(struct msg, 32);

/* ---- the rule of each field -------------------------------------------------------------------
 *
 * One table defines what a peer may send: a row for each type, a column for each field of struct
 * msg. Hosts, fuzzers, tests and docs/protocol.md use it.
 *
 * WIRE_FIELDS names every field once. It generates the parameters of the function that each row of
 * WIRE_MESSAGES calls. A field without a column, a row without a field, or a field of struct msg
 * that is missing in WIRE_FIELDS does not compile.
 */
#define WIRE_FIELDS(F) \
	F(version)     \
	F(type)        \
	F(flags)       \
	F(op) F(src) F(dst) F(object) F(req_node) F(req_slot) F(home) F(count) F(aux) F(value)

/* A rule, and its text in the documentation. */
/* clang-format off */
#define WIRE_RULES(R) \
	R(ZERO, "0")                     R(ANY, "any")                   R(VERSION, "WIRE_VERSION")       R(TYPE, "the type") \
	R(NODE, "a node")                R(SENDER, "the sender")         R(RECEIVER, "the receiver") \
	R(OTHER, "a node, not the receiver") \
	R(BLOCK, "a block")              R(INDEX, "an object")           R(BARRIER, "a barrier")          R(ADDRESS, "a block or an object") \
	R(BLOCK_SLOT, "a slot for blocks") R(SLOT, "a slot")             R(HOLD, "a hold record") \
	R(ACKS, "0 to nodes - 1")        R(ERRNO, "0 or -errno")         R(BIT, "0 or 1") \
	R(GRANT, "read or write")        R(GRANT_WRITE, "write")         R(RELEASE, "keep or evict") \
	R(REQUEST, "READ_REQ or WRITE_REQ") R(SYNC_OP, "a sync operation") R(REDUCE, "an operation and a type") R(COMBINE, "an operation and a type of C") \
	R(CALL_OP, "a call")             R(ROOM, "0 to 4096")            R(FRAMES, "0 to 512")            R(THREADS, "1 to 2^31 - 1") \
	R(GEN, "a generation")           R(LIFE, "a generation; barrier 0: 0") R(LIFE_HIGH, "its upper 8 bits; barrier 0: 0") \
	R(KEY, "not 0")               R(CLOSE, "1 to 2^62 - 1")              R(AFTER, "FLUSH, NOTE or both") \
	R(TAIL, "0, or as in AFTER: a message follows the payload") \
	R(BUNDLED, "READ_REQ to RELEASE")     R(SEVERAL, "2 to 64") \
	R(CAS, "0; CAS: any")           R(KIND, "0; CREATE: a kind; CAS: any") \
	R(INITIAL, "any; CREATE: 0, of semaphores and atomics any") \
	R(LEAVER, "a rank; op 1: and a status") \
	R(COUNT, "0 to 65535")           R(F_READ, "FIRST_TOUCH, CONFIRM, RELEASE, FORWARDED, KNOWN, PUSH") \
	R(F_WRITE, "HAS, FIRST_TOUCH, RELEASE, FORWARDED, KNOWN, PLACE") R(F_GRANT, "ZERO, PUSH") R(F_SYNC, "TIMED, LEASE") \
	R(F_LOCK, "TIMED")
/* clang-format on */

enum wire_rule {
#define WIRE_RULE_NAME(rule, text) RULE_##rule,
	WIRE_RULES(WIRE_RULE_NAME)
#undef WIRE_RULE_NAME
		WIRE_RULE_COUNT
};

enum wire_field {
#define WIRE_FIELD_NAME(field) WF_##field,
	WIRE_FIELDS(WIRE_FIELD_NAME)
#undef WIRE_FIELD_NAME
		WIRE_FIELD_COUNT
};

/*
 * What a message does to release blocks (core/closing.h). RELEASE: it tells of stores that happened
 * before it, so its sender closes first; MSG_SYNC by operation (sync_releases()). ACQUIRE: a thread
 * that it wakes may know of them by it, so it applies the notices that have come. A false BOTH
 * costs time, a false NEITHER is an error.
 */
enum wire_order { ORDER_NEITHER = 0, ORDER_RELEASE = 1, ORDER_ACQUIRE = 2, ORDER_BOTH = 3 };

/* The hosts that accept a message from a peer. */
enum { HOST_NONE = 0, HOST_LIBRARY = 1, HOST_KERNEL = 2, HOST_BOTH = 3 };

/* clang-format off */
/* type, class, hosts, order: flags, op, object, req_node, req_slot, home, count, aux, value */
#define WIRE_MESSAGES(M) \
	M(NONE,       COHERENCE, NONE,    NEITHER, ZERO,    ZERO,        ZERO,    ZERO,     ZERO,       ZERO,   ZERO,  ZERO,    ZERO) \
	M(READ_REQ,   COHERENCE, BOTH,    NEITHER, F_READ,  ZERO,        BLOCK,   NODE,     BLOCK_SLOT, ZERO,   ZERO,  ZERO,    ZERO) \
	M(WRITE_REQ,  COHERENCE, BOTH,    NEITHER, F_WRITE, ZERO,        BLOCK,   NODE,     BLOCK_SLOT, ZERO,   ZERO,  ZERO,    ZERO) \
	M(DONE,       COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   SENDER,   BLOCK_SLOT, ZERO,   ZERO,  ZERO,    ZERO) \
	M(FWD_READ,   COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   OTHER,    BLOCK_SLOT, SENDER, ZERO,  ZERO,    ZERO) \
	M(FWD_WRITE,  COHERENCE, BOTH,    NEITHER, ZERO,    GRANT_WRITE, BLOCK,   OTHER,    BLOCK_SLOT, SENDER, ACKS,  ZERO,    ZERO) \
	M(FWD_MIGRATE, COHERENCE, BOTH,   NEITHER, ZERO,    ZERO,        BLOCK,   OTHER,    BLOCK_SLOT, SENDER, ZERO,  ZERO,    ZERO) \
	M(INV,        COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   OTHER,    BLOCK_SLOT, SENDER, ZERO,  ZERO,    ZERO) \
	M(KEPT,       COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   NODE,     BLOCK_SLOT, ZERO,   ZERO,  ZERO,    ZERO) \
	M(INV_ACK,    COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   RECEIVER, BLOCK_SLOT, ZERO,   ZERO,  ZERO,    ZERO) \
	M(GRANT,      COHERENCE, BOTH,    NEITHER, F_GRANT, GRANT,       BLOCK,   RECEIVER, BLOCK_SLOT, SENDER, ACKS,  ZERO,    ZERO) \
	M(DATA,       DATA,      BOTH,    NEITHER, ZERO,    GRANT,       BLOCK,   RECEIVER, BLOCK_SLOT, NODE,   ACKS,  ZERO,    ZERO) \
	M(HOME,       COHERENCE, BOTH,    NEITHER, ZERO,    REQUEST,     BLOCK,   RECEIVER, BLOCK_SLOT, SENDER, ZERO,  ZERO,    ZERO) \
	M(HOME_ACK,   COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   SENDER,   BLOCK_SLOT, SENDER, ZERO,  ZERO,    ZERO) \
	M(MOVE,       COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   NODE,     ZERO,       SENDER, ZERO,  ZERO,    COUNT) \
	M(MOVE_ACK,   COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   RECEIVER, ZERO,       ZERO,   ERRNO, ZERO,    ZERO) \
	M(ADOPT,      COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   RECEIVER, ZERO,       SENDER, ZERO,  ZERO,    NODE) \
	M(MOVED,      COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   RECEIVER, BLOCK_SLOT, SENDER, ZERO,  ZERO,    NODE) \
	M(PLACE,      COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   SENDER,   BLOCK_SLOT, ZERO,   ZERO,  ZERO,    NODE) \
	M(SETTLE,     COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   SENDER,   BLOCK_SLOT, ZERO,   ZERO,  ZERO,    ZERO) \
	M(CLAIM,      COHERENCE, BOTH,    NEITHER, ZERO,    ZERO,        BLOCK,   SENDER,   BLOCK_SLOT, ZERO,   ZERO,  ZERO,    NODE) \
	M(RELEASE,    COHERENCE, BOTH,    NEITHER, ZERO,    RELEASE,     BLOCK,   SENDER,   BLOCK_SLOT, ZERO,   ZERO,  FRAMES,  ZERO) \
	M(RESUME,     COHERENCE, NONE,    NEITHER, ZERO,    BIT,         ADDRESS, ANY,      ANY,        ZERO,   ZERO,  ZERO,    ZERO) \
	M(LOCK,       SYNC,      BOTH,    NEITHER, F_LOCK,  ANY,         INDEX,   GEN,      SLOT,       ZERO,   ZERO,  HOLD,    ZERO) \
	M(TRYLOCK,    SYNC,      BOTH,    NEITHER, ZERO,    ZERO,        INDEX,   GEN,      SLOT,       ZERO,   ZERO,  HOLD,    ZERO) \
	M(UNLOCK,     SYNC,      BOTH,    RELEASE, ZERO,    ZERO,        INDEX,   GEN,      SLOT,       ZERO,   ZERO,  HOLD,    ZERO) \
	M(NEXT,       SYNC,      BOTH,    NEITHER, F_LOCK,  ANY,         INDEX,   NODE,     SLOT,       ZERO,   ZERO,  HOLD,    HOLD) \
	M(LOCKED,     SYNC,      BOTH,    BOTH,    ZERO,    ZERO,        INDEX,   RECEIVER, SLOT,       ZERO,   ZERO,  HOLD,    ZERO) \
	M(FREED,      SYNC,      BOTH,    NEITHER, ZERO,    ZERO,        INDEX,   RECEIVER, SLOT,       ZERO,   ERRNO, HOLD,    BIT) \
	M(RECALL,     SYNC,      BOTH,    NEITHER, ZERO,    ZERO,        INDEX,   GEN,      ZERO,       ZERO,   ZERO,  HOLD,    ZERO) \
	M(RECALLED,   SYNC,      BOTH,    RELEASE, ZERO,    ZERO,        INDEX,   GEN,      SLOT,       ZERO,   ERRNO, HOLD,    ZERO) \
	M(SYNC,       SYNC,      BOTH,    RELEASE, F_SYNC,  SYNC_OP,     ANY,     GEN,      SLOT,       CAS,    CAS,   KIND,    INITIAL) \
	M(REPLY,      SYNC,      BOTH,    BOTH,    ZERO,    ZERO,        ADDRESS, RECEIVER, SLOT,       ZERO,   ERRNO, ZERO,    ANY) \
	M(REVOKE,     SYNC,      LIBRARY, NEITHER, ZERO,    ZERO,        INDEX,   GEN,      ZERO,       ZERO,   ZERO,  ZERO,    ZERO) \
	M(REVOKED,    SYNC,      LIBRARY, RELEASE, ZERO,    ZERO,        INDEX,   GEN,      ZERO,       ZERO,   ZERO,  ZERO,    COUNT) \
	M(ARRIVE,     SYNC,      BOTH,    BOTH,    ZERO,    REDUCE,      BARRIER, SENDER,   LIFE,       LIFE_HIGH, ERRNO, THREADS, ANY) \
	M(DEPART,     SYNC,      BOTH,    BOTH,    ZERO,    ZERO,        BARRIER, SENDER,   LIFE,       LIFE_HIGH, ERRNO, ZERO,    ANY) \
	M(CALL,       BULK,      LIBRARY, BOTH,    ZERO,    CALL_OP,     ZERO,    SENDER,   SLOT,       ZERO,   ZERO,  ROOM,    ZERO) \
	M(RETURN,     BULK,      LIBRARY, BOTH,    ZERO,    CALL_OP,     ZERO,    RECEIVER, SLOT,       ZERO,   ERRNO, ZERO,    ZERO) \
	M(PING,       SYNC,      LIBRARY, NEITHER, ZERO,    ZERO,        ZERO,    SENDER,   ZERO,       ZERO,   ZERO,  ZERO,    ZERO) \
	M(BYE,        SYNC,      LIBRARY, RELEASE, ZERO,    BIT,         ZERO,    SENDER,   ZERO,       ZERO,   ZERO,  LEAVER,  ZERO) \
	M(CHUNK,      BULK,      LIBRARY, BOTH,    ZERO,    BIT,         ZERO,    SENDER,   ZERO,       NODE,   ZERO,  COMBINE, ANY) \
	M(KEY_WANTED, COHERENCE, KERNEL,  NEITHER, ZERO,    ZERO,        BLOCK,   ZERO,     ZERO,       ZERO,   ZERO,  ZERO,    ZERO) \
	M(KEY,        COHERENCE, KERNEL,  NEITHER, ZERO,    ZERO,        BLOCK,   ZERO,     ZERO,       ZERO,   ZERO,  KEY,     ANY) \
	M(ECHO,       COHERENCE, KERNEL,  NEITHER, ZERO,    ZERO,        BLOCK,   SENDER,   BLOCK_SLOT, ZERO,   ZERO,  ZERO,    ZERO) \
	M(HELLO,      COHERENCE, KERNEL,  NEITHER, ZERO,    ZERO,        ZERO,    ZERO,     ZERO,       ZERO,   ZERO,  ZERO,    ANY) \
	M(FLUSH,      BULK,      LIBRARY, NEITHER, ZERO,    TAIL,        ZERO,    SENDER,   ZERO,       ZERO,   ZERO,  ZERO,    CLOSE) \
	M(FLUSHED,    BULK,      LIBRARY, NEITHER, ZERO,    ZERO,        ZERO,    RECEIVER, ZERO,       ZERO,   ZERO,  ZERO,    CLOSE) \
	M(NOTE,       BULK,      LIBRARY, NEITHER, ZERO,    TAIL,        ZERO,    OTHER,    ZERO,       ZERO,   ZERO,  ZERO,    CLOSE) \
	M(NOTED,      COHERENCE, LIBRARY, NEITHER, ZERO,    ZERO,        ZERO,    NODE,     ZERO,       ZERO,   ZERO,  ZERO,    CLOSE) \
	M(AFTER,      SYNC,      LIBRARY, NEITHER, ZERO,    AFTER,       ZERO,    SENDER,   ZERO,       ZERO,   ZERO,  ZERO,    CLOSE) \
	M(BUNDLE,     BULK,      LIBRARY, NEITHER, ZERO,    BUNDLED,     ZERO,    SENDER,   ZERO,       ZERO,   SEVERAL, ZERO,  ZERO)
/* clang-format on */

/* The limits at the receiver of a message. */
struct wire_limits {
	uint16_t me, nnodes;  /* nodes */
	uint16_t ranks;       /* of the job: MSG_BYE */
	uint8_t host;         /* HOST_LIBRARY or HOST_KERNEL */
	uint8_t calls;        /* call numbers are below this */
	uint32_t block_slots; /* slots of a node that may request blocks */
	uint32_t slots;       /* all slots of a node */
	uint32_t holds;       /* hold records of a node */
	uint32_t barriers;    /* of the job */
	uint32_t pages;       /* of the window */
	/* pages of the largest block; 0: blocks have plain numbers, below `pages` */
	uint32_t block_pages;
};

/*
 * Check the fields of a peer's message. 0, or -EBADMSG if a field violates its rule. This checks
 * ranges only; dispatch_step() checks whether the sender may send it now. The transport checks the
 * class of the type.
 */
int wire_check(const struct msg *m, const struct wire_limits *lim);
/*
 * Check what a transport needs before it delivers a message: version, type, sender, receiver. 0 or
 * -EBADMSG.
 */
int wire_envelope(const struct msg *m, uint16_t me, uint16_t nnodes);

enum msg_class wire_class(uint8_t type);
const char *wire_name(uint8_t type);
uint8_t wire_hosts(uint8_t type); /* HOST_* */
enum wire_order wire_order(uint8_t type);

/* For documentation and tests. */
enum wire_rule wire_rule_of(uint8_t type, enum wire_field field);
const char *wire_rule_name(unsigned int rule);
const char *wire_field_name(unsigned int field);
/*
 * Return a range, lo to hi inclusive, that contains all values that a rule allows. The rule may
 * allow fewer.
 */
void wire_range(enum wire_rule rule, const struct msg *m, const struct wire_limits *lim,
		int64_t *lo, int64_t *hi);

#endif

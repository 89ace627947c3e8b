/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.h - the bounded queues of a connection in shared memory, without a lock.
 *
 * A ring is an array of slots; the first word of each is its turn. Slot p % size is free for
 * position p while its turn is 2 * (p / size), and filled while it is one more. Zeroed memory is an
 * empty ring. There is no shared index: each side keeps its position private, so the other side can
 * forge only turns and contents. The owner copies a slot once and checks the copy. In the client,
 * any number of threads may claim positions.
 */
#ifndef SHARE_RING_H
#define SHARE_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The submission of an operation: client to owner. */
struct rs_sqe {
	uint32_t turn;
	uint8_t op;    /* enum rs_op */
	uint8_t flags; /* enum rshare_op_flags */
	uint16_t pad;
	uint32_t len;
	uint32_t rkey;
	uint64_t offset; /* of the buffer in the pool */
	uint64_t cookie;
	uint64_t remote;    /* address */
	uint32_t immediate; /* data, with RSHARE_IMMEDIATE */
	uint32_t pieces;    /* of the buffer, in the second entry; 0: it is one, at offset */
	union {
		struct {
			uint64_t operand, compare; /* of an atomic operation */
		};
		uint8_t data[16]; /* with RSHARE_INLINE: its beginning */
	};
};

/* The second entry of an operation with RSHARE_INLINE and more data than that: its rest. */
struct rs_rest {
	uint32_t turn;
	uint8_t data[60];
};

#define RS_PIECES_MAX 5

/* The second entry of an operation whose buffer is in pieces. */
struct rs_pieces {
	uint32_t turn;
	uint32_t len[RS_PIECES_MAX];
	uint64_t offset[RS_PIECES_MAX]; /* in the pool */
};

/* One of them, as the owner checks and keeps it. */
struct rs_piece {
	uint64_t offset, len;
};

#define RS_INLINE_FIRST sizeof(((struct rs_sqe *)0)->data)
#define RS_INLINE_MAX (RS_INLINE_FIRST + sizeof(((struct rs_rest *)0)->data))

/* A buffer for one message: client to owner. */
struct rs_rqe {
	uint32_t turn;
	uint32_t len;
	uint64_t offset;
	uint64_t cookie;
	uint64_t reserved;
};

/* A completion: owner to client. */
struct rs_cqe {
	uint32_t turn;
	uint32_t type; /* enum rshare_event_type */
	int32_t status;
	uint32_t len;
	uint64_t cookie;
	uint32_t tagged; /* 1: immediate has data of the peer */
	uint32_t immediate;
};

enum rs_op {
	RS_OP_SEND = 1,
	RS_OP_WRITE,
	RS_OP_READ,
	RS_OP_FETCH_ADD,
	RS_OP_COMPARE_SWAP,
	RS_OP_TELL /* the owner's: tells the peer of a write with immediate data */
};
#define RS_OP_SILENT 0x80 /* a flag of the owner: no event, for the next operation has it */

_Static_assert(sizeof(struct rs_rest) == sizeof(struct rs_sqe) &&
		       sizeof(struct rs_pieces) == sizeof(struct rs_sqe) &&
		       sizeof(struct rs_sqe) == 64 && sizeof(struct rs_rqe) == 32 &&
		       sizeof(struct rs_cqe) == 32,
	       "slots are parts of cache lines, the same in every process");

/* size is a power of two everywhere. */
static inline uint32_t rs_turn_free(uint32_t position, uint32_t size)
{
	return 2 * (position / size);
}

static inline void *rs_slot(void *ring, uint32_t position, uint32_t size, uint32_t bytes)
{
	return (char *)ring + (size_t)(position & (size - 1)) * bytes;
}

/* True if the slot at a position is filled. Pairs with the release of rs_ring_publish(). */
static inline bool rs_ring_filled(void *ring, uint32_t position, uint32_t size, uint32_t bytes)
{
	const uint32_t *turn = rs_slot(ring, position, size, bytes);

	return __atomic_load_n(turn, __ATOMIC_ACQUIRE) == rs_turn_free(position, size) + 1;
}

static inline bool rs_ring_free(void *ring, uint32_t position, uint32_t size, uint32_t bytes)
{
	const uint32_t *turn = rs_slot(ring, position, size, bytes);

	return __atomic_load_n(turn, __ATOMIC_ACQUIRE) == rs_turn_free(position, size);
}

/* Fill the slot of a position that the caller has claimed; entry's own turn is ignored. */
static inline void rs_ring_publish(void *ring, uint32_t position, uint32_t size, const void *entry,
				   uint32_t bytes)
{
	uint32_t *slot = rs_slot(ring, position, size, bytes);

	memcpy(slot + 1, (const char *)entry + sizeof(*slot), bytes - sizeof(*slot));
	__atomic_store_n(slot, rs_turn_free(position, size) + 1, __ATOMIC_RELEASE);
}

/* Copy a filled slot out and free it. */
static inline void rs_ring_consume(void *ring, uint32_t position, uint32_t size, void *entry,
				   uint32_t bytes)
{
	uint32_t *slot = rs_slot(ring, position, size, bytes);

	memcpy(entry, slot, bytes);
	/* positions wrap */
	__atomic_store_n(slot, rs_turn_free(position + size, size), __ATOMIC_RELEASE);
}

/* Take an entry. For a side with a single thread: the owner. False: empty. */
static inline bool rs_ring_take(void *ring, uint32_t *position, uint32_t size, void *entry,
				uint32_t bytes)
{
	if (!rs_ring_filled(ring, *position, size, bytes))
		return false;
	rs_ring_consume(ring, (*position)++, size, entry, bytes);
	return true;
}

static inline bool rs_ring_put(void *ring, uint32_t *position, uint32_t size, const void *entry,
			       uint32_t bytes)
{
	if (!rs_ring_free(ring, *position, size, bytes))
		return false;
	rs_ring_publish(ring, (*position)++, size, entry, bytes);
	return true;
}

/*
 * Claim the next n positions if the slot of the last one is ready: the owner makes slots ready in
 * their order. False: it is not, and no other thread has advanced the position.
 */
static inline bool rs_ring_claim(void *ring, uint32_t *position, uint32_t n, uint32_t size,
				 uint32_t bytes, bool filled, uint32_t *out)
{
	uint32_t p = __atomic_load_n(position, __ATOMIC_RELAXED), now;

	for (;;) {
		if (filled ? rs_ring_filled(ring, p + n - 1, size, bytes)
			   : rs_ring_free(ring, p + n - 1, size, bytes)) {
			if (__atomic_compare_exchange_n(position, &p, p + n, 1, __ATOMIC_ACQ_REL,
							__ATOMIC_RELAXED))
				break;
			continue;
		}
		now = __atomic_load_n(position, __ATOMIC_RELAXED);
		if (now == p)
			return false;
		p = now;
	}
	*out = p;
	return true;
}

/* For a side with any number of threads: the client. False: full, or empty. */
static inline bool rs_ring_put_shared(void *ring, uint32_t *position, uint32_t size,
				      const void *entry, uint32_t bytes)
{
	uint32_t p;

	if (!rs_ring_claim(ring, position, 1, size, bytes, false, &p))
		return false;
	rs_ring_publish(ring, p, size, entry, bytes);
	return true;
}

/*
 * Put two entries behind each other. The first is published last, so that the second is filled
 * where the first is. False: there is no room for both.
 */
static inline bool rs_ring_put_pair(void *ring, uint32_t *position, uint32_t size,
				    const void *first, const void *second, uint32_t bytes)
{
	uint32_t p;

	if (!rs_ring_claim(ring, position, 2, size, bytes, false, &p))
		return false;
	rs_ring_publish(ring, p + 1, size, second, bytes);
	rs_ring_publish(ring, p, size, first, bytes);
	return true;
}

static inline bool rs_ring_take_shared(void *ring, uint32_t *position, uint32_t size, void *entry,
				       uint32_t bytes)
{
	uint32_t p;

	if (!rs_ring_claim(ring, position, 1, size, bytes, true, &p))
		return false;
	rs_ring_consume(ring, p, size, entry, bytes);
	return true;
}

#endif

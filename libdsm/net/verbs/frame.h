/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - the wire format of the transport over verbs and its checks: frames on lanes, datagrams
 * that connect lanes, addresses. Pure: bytes in, verdict out. Little endian, like the core's
 * messages. rules.h defines the valid values of each field.
 */
#ifndef NET_VERBS_FRAME_H
#define NET_VERBS_FRAME_H

#include "net/check.h"
#include "net/net.h"

#define VERBS_DEVICES 8 /* maximum in use */
#define READS 16        /* maximum outstanding per lane */

/* ---- frames ---------------------------------------------------------------------------------- */

enum frame_kind {
	FRAME_MSG = 1, /* a message, followed by its payload */
	FRAME_LAND,    /* a message whose payload is in the landing slot of its request */
	FRAME_FETCH,   /* a message whose payload the receiver reads; followed by struct remote */
	FRAME_FREE,    /* the payload was read; id */
	FRAME_QUIT,    /* the sender closes and receives nothing more */
	FRAME_KINDS,
	FRAME_BARE /* no header: a block in its landing slot; the immediate word has the message */
};

struct frame {
	uint32_t seq;
	uint8_t kind;
	uint8_t class;
	uint16_t src;  /* rank of the sending process */
	uint32_t size; /* of the payload */
	uint32_t id;   /* FETCH, FREE: of the sender's buffer */
};
_Static_assert(sizeof(struct frame) == 16, "size of struct frame");

#define HEAD (sizeof(struct frame) + sizeof(struct msg))

struct remote {
	uint64_t addr;
	uint32_t rkey, pad;
};

/* Where a frame arrived. */
struct frame_place {
	const struct net_config *cfg;
	uint16_t peer;
	uint8_t class;
	bool immediate;       /* written to a landing slot; otherwise to a receive buffer */
	uint32_t word;        /* the immediate word: core/word.h, PROCESS_* */
	uint32_t have;        /* number of the last frame accepted */
	const char *buf;      /* the receive buffer, of room bytes */
	uint32_t room, bytes; /* bytes: received */
	/* nslots slots, stride bytes apart: HEAD, and a block of at most landing_bytes */
	const char *landing;
	size_t landing_bytes, landing_stride;
};

/*
 * Decode a frame, its message if its kind has one, and its payload, which is not copied. False: not
 * a valid frame.
 */
bool frame_read(const struct frame_place *p, struct frame *f, struct msg *m, const char **payload);

/*
 * A block's message may fit in the immediate word, next to the frame's number. Then a block of 4
 * KiB takes one packet. The receiver knows the other fields: the sender, and the object that it
 * requested in that slot.
 */
#define BARE_SLOTS 256

bool bare_fits(const struct msg *m, uint16_t sender);
uint32_t bare_word(const struct msg *m, uint32_t seq);

enum frame_turn { FRAME_NEXT, FRAME_AGAIN, FRAME_AHEAD };
/*
 * Compare a frame's number with that of the last one accepted: the next one; a repetition after a
 * repair; an invalid one.
 */
enum frame_turn frame_turn(uint32_t seq, uint32_t have);
/*
 * True if a peer may have received this many frames: frames up to sent were posted, and up to done
 * were acknowledged.
 */
bool frame_received_good(uint32_t received, uint32_t done, uint32_t sent);

/* ---- datagrams ------------------------------------------------------------------------------- */

#define SHAKE_MAGIC 0x73646831u /* "1hds" */
#define SHAKE_VERSION 1
#define SHAKE_FIXED 24 /* bytes that are the same in every version */

enum shake_type { SHAKE_REQ = 1, SHAKE_REP, SHAKE_RTU, SHAKE_POKE, SHAKE_REFUSE };
enum { REFUSE_VERSION = 1, REFUSE_KEY, REFUSE_GONE };

struct shake {
	uint32_t magic;
	uint16_t version;
	uint8_t type, class;
	uint16_t from, to;
	uint32_t epoch;
	uint64_t key; /* of the destination rank */
	uint32_t qpn, psn;
	uint32_t received; /* frames */
	uint32_t rkey;
	uint64_t landing;
	uint8_t rd_atomic, reason;
	uint16_t pad;
	uint32_t pad2;
};
_Static_assert(sizeof(struct shake) == 56, "size of struct shake");

enum shake_verdict {
	SHAKE_GOOD,
	SHAKE_JUNK, /* it names no rank, or is too short to */
	SHAKE_NO_CLASS,
	SHAKE_OTHER_VERSION,
	SHAKE_OTHER_JOB,
	SHAKE_MALFORMED /* its length is wrong, or another field */
};

/*
 * Check a datagram for rank `rank` of `size` with this key, in our version. Unless SHAKE_JUNK, from
 * is in range.
 */
enum shake_verdict shake_judge(const struct shake *s, size_t bytes, uint16_t rank, uint16_t size,
			       uint64_t key);

/* ---- addresses ------------------------------------------------------------------------------- */

#define BLOB_MAGIC 0x62767531u /* "1uvb" */
#define BLOB_VERSION 2

/* Address of a device, in a rank's address. */
struct blob_dev {
	uint8_t gid[16];
	uint32_t ud_qpn, qkey;
	uint16_t lid;
	uint8_t mtu, port;
	uint32_t classes; /* bit mask: it owns these classes; see choose_link() */
};

struct blob {
	uint32_t magic;
	uint16_t version, rank;
	uint64_t key;             /* every datagram to this rank must contain it */
	uint32_t nslots, landing; /* slots, and maximum block size of one, in bytes */
	uint16_t ndevs;
	uint16_t bare; /* it accepts FRAME_BARE */
	uint32_t pad;
	struct blob_dev devs[VERBS_DEVICES];
};
_Static_assert(sizeof(struct blob) <= NET_ADDRESS_MAX, "size of struct blob");

size_t blob_size(const struct blob *b);
/*
 * Decode the address of a rank with nslots slots into *out. -EINVAL; -EPROTO: another version,
 * stored in out->version.
 */
int blob_read(const void *address, size_t size, uint16_t rank, uint32_t nslots, struct blob *out);

#endif

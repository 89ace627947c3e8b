/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - what a peer says by verbs, and whether a peer may say it: frames on lanes, datagrams that connect them,
 * addresses. Pure: bytes in, verdict out. Little endian as the core's messages. rules.h says what each field may be.
 */
#ifndef NET_VERBS_FRAME_H
#define NET_VERBS_FRAME_H

#include "net/check.h"
#include "net/net.h"

#define VERBS_DEVICES 8 /* that are used, at most */
#define READS 16        /* of a lane under way at once */

/* ---- frames ------------------------------------------------------------------------------------ */

enum frame_kind {
	FRAME_MSG = 1, /* a message, its payload behind it */
	FRAME_LAND,    /* a message, whose payload lies in the landing slot of its request */
	FRAME_FETCH,   /* a message, whose payload is to be read: struct remote behind it */
	FRAME_FREE,    /* it has been read; id */
	FRAME_QUIT,    /* the sender closes: it hears nothing any more */
	FRAME_KINDS,
	FRAME_BARE /* no bytes of its own: a block in its landing slot, and the immediate word says the rest */
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

/* Where a frame came to. */
struct frame_place {
	const struct net_config *cfg;
	uint16_t peer;
	uint8_t class;
	bool immediate;       /* it was written to a landing slot; otherwise into a receive buffer */
	uint32_t word;        /* the immediate word: core/word.h, PROCESS_* */
	uint32_t have;        /* number of the last frame taken */
	const char *buf;      /* the receive buffer, of room bytes */
	uint32_t room, bytes; /* that came */
	const char *landing;  /* nslots slots, stride bytes apart: HEAD, and a block of at most landing_bytes */
	size_t landing_bytes, landing_stride;
};

/* The frame, its message (where its kind has one) and its payload, which stays where it is. False: it is none. */
bool frame_read(const struct frame_place *p, struct frame *f, struct msg *m, const char **payload);

/*
 * A block's message that fits in the immediate word, next to the frame's number: then a block of 4 KiB is one packet. What
 * is not in the word its receiver knows: who sent it, and for which object it had asked in that slot.
 */
#define BARE_SLOTS 256

bool bare_fits(const struct msg *m, uint16_t sender);
uint32_t bare_word(const struct msg *m, uint32_t seq);

enum frame_turn { FRAME_NEXT, FRAME_AGAIN, FRAME_AHEAD };
/* A frame's number, when have is that of the last one taken: the next; one of before the connection was mended; wrong. */
enum frame_turn frame_turn(uint32_t seq, uint32_t have);
/* May a peer have received so much, when frames up to sent were posted, and up to done are known to be received? */
bool frame_received_good(uint32_t received, uint32_t done, uint32_t sent);

/* ---- datagrams --------------------------------------------------------------------------------- */

#define SHAKE_MAGIC 0x73646831u /* "1hds" */
#define SHAKE_VERSION 1
#define SHAKE_FIXED 24 /* bytes that stay as they are in every version */

enum shake_type { SHAKE_REQ = 1, SHAKE_REP, SHAKE_RTU, SHAKE_POKE, SHAKE_REFUSE };
enum { REFUSE_VERSION = 1, REFUSE_KEY, REFUSE_GONE };

struct shake {
	uint32_t magic;
	uint16_t version;
	uint8_t type, class;
	uint16_t from, to;
	uint32_t epoch;
	uint64_t key; /* of the rank it is for */
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
	SHAKE_JUNK, /* it names no rank, or is too short for that */
	SHAKE_NO_CLASS,
	SHAKE_OTHER_VERSION,
	SHAKE_OTHER_JOB,
	SHAKE_MALFORMED /* its length is wrong, or another field */
};

/* Is it for rank `rank` of `size`, whose key is this, and in our version? What is not junk has from in range. */
enum shake_verdict shake_judge(const struct shake *s, size_t bytes, uint16_t rank, uint16_t size, uint64_t key);

/* ---- addresses --------------------------------------------------------------------------------- */

#define BLOB_MAGIC 0x62767531u /* "1uvb" */
#define BLOB_VERSION 2

/* How to reach a device, in a rank's address. */
struct blob_dev {
	uint8_t gid[16];
	uint32_t ud_qpn, qkey;
	uint16_t lid;
	uint8_t mtu, port;
	uint32_t pad;
};

struct blob {
	uint32_t magic;
	uint16_t version, rank;
	uint64_t key;             /* whoever talks to this rank has to know it */
	uint32_t nslots, landing; /* slots, and bytes of the largest block in one */
	uint16_t ndevs;
	uint16_t bare; /* it takes FRAME_BARE */
	uint32_t pad;
	struct blob_dev devs[VERBS_DEVICES];
};
_Static_assert(sizeof(struct blob) <= NET_ADDRESS_MAX, "size of struct blob");

size_t blob_size(const struct blob *b);
/* Into *out, of a rank with nslots slots. -EINVAL; -EPROTO: of another version, which is in out->version. */
int blob_read(const void *address, size_t size, uint16_t rank, uint32_t nslots, struct blob *out);

#endif

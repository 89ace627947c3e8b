/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_peer.h - a rank of a job that is no context of dsm.ko, but this program: by verbs from
 * user space, it may send its peers whatever it likes.
 */
#ifndef KMOD_PEER_H
#define KMOD_PEER_H

#include <infiniband/verbs.h>

#include "common_liar.h"
#include "core/word.h"

/* as kmod/net/conn.h has it: messages of one send of the coherence class */
#define PEER_PACK 4u
#define PEER_CREDITS 64u   /* as kmod/net/conn.h has it */
#define PEER_RECEIVES 256u /* of each queue pair */

/* The number of the first packet: that which the key gives, or a wrong one. */
enum peer_psn { PSN_RIGHT = 0, PSN_ZERO, PSN_AHEAD, PSN_BEHIND };

/* The connection of a rank to another, which is a context. */
struct peer {
	struct liar liar;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[CLASS_MAX];
	struct peer_memory *memory;
	unsigned int posted;            /* sends not completed */
	unsigned int credit[CLASS_MAX]; /* sends that the target has buffers for */
	unsigned int taken[CLASS_MAX];  /* receives that it has not heard of */
	unsigned int greedy;            /* mask of classes in which it never hears of them */
	bool broken;
	enum ibv_wc_status status; /* of the first request that has failed */
	enum peer_psn psn;         /* set before peer_connect() */
	uint32_t rkey;             /* of frames of the target, 0: not known */
	uint64_t at;
	uint64_t landing;            /* for blocks that it sends, whatever 2 MiB they are of */
	uint32_t wanted[LIAR_SLOTS]; /* blocks that were asked for, by slot */
	unsigned long sends, landed;
};

bool peer_fail(const char *what); /* says so, with errno; false */

/* Both once, with the device that is there first. */
bool peer_open(struct peer *p);
/* Queue pairs and receives; until peer_end(). */
bool peer_begin(struct peer *p, uint16_t ranks, uint16_t me, uint16_t target);
void peer_end(struct peer *p);
/*
 * Put the address of rank `me` where the others look for it. It is made of their addresses: they
 * have come.
 */
void peer_address(const struct peer *p, unsigned int n, struct job *j);
bool peer_connect(struct peer *p, const struct job *j);

/*
 * What the first message of a queue pair says to prove that its sender has the key; theirs: what
 * the target says.
 */
uint64_t peer_proof(const struct peer *p, const struct job *j, unsigned int class, bool theirs);
/*
 * The first message of a queue pair proves that its sender has the key, but for the bits that are
 * wrong in it.
 */
void peer_greet(struct peer *p, const struct job *j, uint64_t wrong);
/* May it send in each class, and answer? */
bool peer_may_send(const struct peer *p);
/*
 * In a class in which it is not greedy, if there are enough of them; peer_poll() does so as
 * messages come.
 */
void peer_return_credits(struct peer *p, unsigned int class);
/* A send, or what `like` says. */
void peer_post(struct peer *p, unsigned int class, const void *data, uint32_t size,
	       const struct ibv_send_wr *like);
/* Answer MSG_KEY_WANTED. */
void peer_give_key(struct peer *p, const struct msg *wanted);
/* Take what has come; each message goes to heard(). */
void peer_poll(struct peer *p, void (*heard)(struct peer *p, const struct msg *m));

#endif

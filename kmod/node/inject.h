/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * inject.h - injection of messages, for tests/kmod/flood.c. Part of the module only if it is built
 * with scripts/build-kmod --inject: an administrator passes messages to a rank as if peers on other
 * hosts had sent them, and reads what the rank sends to peers to which it is not connected.
 */
#ifndef KMOD_INJECT_H
#define KMOD_INJECT_H

#include "core/wire.h"
#include "dsm_uapi.h"

#define INJECT_MAX 1024u /* messages per call */

enum inject_outcome {
	INJECT_LOST = 0, /* the peer is lost: its messages are dropped */
	/* invalid: a field is out of range, or this is the connection of another peer */
	INJECT_REFUSED,
	INJECT_WRONG, /* invalid in this state: the only change is that the peer is lost */
	INJECT_STRAY, /* not requested: ignored */
	INJECT_LATER, /* deferred to a worker */
	INJECT_TAKEN,
	INJECT_OUTCOMES
};

struct inject_message {
	struct msg m;
	__u32 imm;    /* not 0: a block has landed, with this immediate data */
	__u16 peer;   /* the peer over whose connection it arrives */
	__u8 class;   /* the class of that connection */
	__u8 outcome; /* out: enum inject_outcome */
};
DSM_LAYOUT(inject_message, 40);

#define INJECT_FORGIVE 1u /* before each message, lost peers on other hosts are accepted again */

struct inject_call {
	__u64 messages; /* in: address of struct inject_message[count] */
	/*
	 * in: address of struct msg[room]: messages sent to peers that are not connected. If the
	 * rank sends more than INJECT_MAX between two calls, the oldest are lost
	 */
	__u64 sent;
	__u32 count; /* in: up to INJECT_MAX */
	__u32 room;  /* in: up to INJECT_MAX */
	__u32 nsent; /* out */
	__u32 flags; /* in: INJECT_* */
};
DSM_LAYOUT(inject_call, 32);

#define DSM_IOC_INJECT _IOWR(DSM_IOC_MAGIC, 0x80, struct inject_call)

#ifdef __KERNEL__
struct rank;
struct view;

#ifdef DSM_INJECT
/* -ENOTTY: not DSM_IOC_INJECT; -EPERM */
long inject_ioctl(struct view *v, unsigned int cmd, void __user *arg);
/* Bottom halves are off. */
/* record m, sent to a peer on another host */
void inject_sent(struct rank *r, const struct msg *m);
void inject_stepped(struct rank *r, const struct msg *m, int err);
void inject_end(struct rank *r); /* the rank is stopped: free the buffer */
#else
static inline long inject_ioctl(struct view *v, unsigned int cmd, void __user *arg)
{
	return -ENOTTY;
}
static inline void inject_sent(struct rank *r, const struct msg *m)
{
}
static inline void inject_stepped(struct rank *r, const struct msg *m, int err)
{
}
static inline void inject_end(struct rank *r)
{
}
#endif
#endif

#endif

/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * inject.h - messages that nobody has sent. Part of the module only if it is built for that (scripts/build-kmod --inject): an
 * administrator gives a rank messages as if peers on other hosts had sent them, and reads what the rank sends to peers that it
 * is not connected to. For tests/kmod/flood.c.
 */
#ifndef KMOD_INJECT_H
#define KMOD_INJECT_H

#include "core/wire.h"
#include "dsm_uapi.h"

#define INJECT_MAX 1024u /* messages of a call */

enum inject_outcome {
	INJECT_LOST = 0, /* the peer is lost: nothing of it is taken */
	INJECT_REFUSED,  /* no rank sends that: a field is out of its range, or the connection is another's */
	INJECT_WRONG,    /* no rank sends it now: nothing has changed but that the peer is lost */
	INJECT_STRAY,    /* nobody has asked for it: ignored */
	INJECT_LATER,    /* a worker judges it */
	INJECT_TAKEN,
	INJECT_OUTCOMES
};

struct inject_message {
	struct msg m;
	__u32 imm;    /* not 0: a block has landed, of which this tells */
	__u16 peer;   /* over whose connection it comes, */
	__u8 class;   /* and over which one */
	__u8 outcome; /* out: enum inject_outcome */
};
DSM_LAYOUT(inject_message, 40);

#define INJECT_FORGIVE 1u /* lost peers that are not of this kernel come back before each message */

struct inject_call {
	__u64 messages; /* in: address of struct inject_message[count] */
	__u64 sent; /* in: address of struct msg[room]: what has left for peers that are not connected. The oldest go first, if the
			   rank sends more than INJECT_MAX between two calls */
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
long inject_ioctl(struct view *v, unsigned int cmd, void __user *arg); /* -ENOTTY: another call; -EPERM */
/* Bottom halves are off. */
void inject_sent(struct rank *r, const struct msg *m); /* to a peer that is not of this kernel */
void inject_stepped(struct rank *r, const struct msg *m, int err);
void inject_end(struct rank *r); /* nothing of it is under way any more */
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

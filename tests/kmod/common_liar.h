/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_liar.h - the messages of a rank that breaks the protocol to one that does not: messages
 * that a rank could send at some time, made from the table of core/wire.h and from received
 * messages; and messages that no rank sends.
 */
#ifndef KMOD_LIAR_H
#define KMOD_LIAR_H

#include "common.h"
#include "core/wire.h"

#define LIAR_SLOTS 16384u      /* for blocks, of 65,536 */
#define LIAR_SHORT_SLOTS 1024u /* of them, those whose blocks come without a message */
#define LIAR_SEEN 16u

/* Rank `me` of so many, as rank `target` sees it. */
struct liar {
	uint16_t ranks, me, target;
	struct msg seen[LIAR_SEEN]; /* what the target has sent */
	unsigned int nseen;
};

void liar_hear(struct liar *l, const struct msg *m);
/* By which the target checks what it says. */
struct wire_limits liar_limits(const struct liar *l);
/* Wrong in itself, whatever the state of the target. */
bool liar_is_wrong(const struct liar *l, const struct msg *m, unsigned int class);

/* Every field is one that its rule allows. */
struct msg liar_plausible(const struct liar *l, uint64_t *random);
/*
 * The same, of a type that need not be what the target waits for, about what the target has spoken
 * of in `seen`.
 */
struct msg liar_related(const struct liar *l, uint64_t *random, const struct msg *seen);
/*
 * One field gets a value from its rule: an edge, just outside, or one that its width cuts to
 * something allowed.
 */
void liar_change_field(const struct liar *l, uint64_t *random, struct msg *m);
/*
 * What a rank may ask for at any time: a block of region 0 that the target is the manager of, or to
 * make an object.
 */
struct msg liar_ask(const struct liar *l, uint64_t *random, const struct job *j);
/* What a rank in good order, and the home of what it is asked for, would say. False: nothing. */
bool liar_answer(const struct liar *l, const struct msg *m, struct msg *answer);
/*
 * It names no block whose contents are checked (common_honest.h), where it might be believed that a
 * block is wanted, or gone.
 */
void liar_keep_off(const struct liar *l, struct msg *m);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bundle.h - messages of one type that travel together, as the payload of MSG_BUNDLE: requests of a
 * run of blocks, their answers, their ends. The receiver steps them one by one, in any order,
 * between other messages if it likes: a bundle changes what transports carry, and nothing else. So
 * the state machines and the model do not know it.
 *
 * The payload: the messages as they would travel alone; then, if they are MSG_DATA, the contents of
 * their blocks in the same order.
 */
#ifndef CORE_BUNDLE_H
#define CORE_BUNDLE_H

#include "core/wire.h"

#define BUNDLE_BYTES (128u << 10) /* most bytes of contents */

/* May messages of this type travel in a bundle? */
static inline bool bundle_takes(uint8_t type)
{
	return type >= MSG_READ_REQ && type <= MSG_RELEASE;
}

/* How many messages travel with this one; of a head that is not checked yet, 1 if it is wrong. */
static inline unsigned int bundle_count(const struct msg *m)
{
	return m->type == MSG_BUNDLE && m->count > 1 && m->count <= WIRE_BUNDLE_MAX
		? (unsigned int)m->count
		: 1;
}

/* The class of what travels, for statistics. */
static inline enum msg_class bundle_class(const struct msg *m)
{
	return wire_class(m->type == MSG_BUNDLE ? m->op : m->type);
}

/* The message before a payload of n messages like `first`, 2 <= n <= WIRE_BUNDLE_MAX. */
struct msg bundle_head(const struct msg *first, unsigned int n);

struct bundle {
	const struct wire_limits *lim;
	const struct msg *head; /* checked by wire_check() */
	const char *messages;   /* the next one; may be unaligned */
	const char *contents;   /* of the next one */
	size_t left;            /* bytes of contents */
	unsigned int n;         /* messages that are left */
};

/* Begin to read a bundle of another node. -EBADMSG: the payload is too short. */
int bundle_begin(struct bundle *b, const struct msg *head, const void *payload, size_t size,
		 const struct wire_limits *lim);

/*
 * Take the next message. 1: *m, which wire_check() allows, and its contents (NULL: it has none) of
 * *size bytes. 0: there is none. -EBADMSG: it breaks a rule, is not what the head says, or the
 * bytes of contents are too few, or, after the last one, too many.
 */
int bundle_next(struct bundle *b, struct msg *m, const void **contents, size_t *size);

#endif

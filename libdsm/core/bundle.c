// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bundle.c - see bundle.h. */
#include "core/bundle.h"

struct msg bundle_head(const struct msg *first, unsigned int n)
{
	return (struct msg){
		.version = WIRE_VERSION,
		.type = MSG_BUNDLE,
		.op = first->type,
		.src = first->src,
		.dst = first->dst,
		.req_node = first->src,
		.count = (int16_t)n,
	};
}

int bundle_begin(struct bundle *b, const struct msg *head, const void *payload, size_t size,
		 const struct wire_limits *lim)
{
	const size_t messages = (size_t)head->count * sizeof(struct msg);

	if (size < messages)
		return -EBADMSG;
	*b = (struct bundle){
		.lim = lim,
		.head = head,
		.messages = payload,
		.contents = (const char *)payload + messages,
		.left = size - messages,
		.n = (unsigned int)head->count,
	};
	return 0;
}

int bundle_next(struct bundle *b, struct msg *m, const void **contents, size_t *size)
{
	const struct msg *head = b->head;

	if (!b->n)
		return b->left ? -EBADMSG : 0;
	memcpy(m, b->messages, sizeof(*m));
	if (m->type != head->op || m->src != head->src || wire_check(m, b->lim))
		return -EBADMSG;
	*contents = NULL;
	*size = 0;
	if (m->type == MSG_DATA) {
		*contents = b->contents;
		*size = (size_t)wire_block_pages(m->object) * WIRE_PAGE;
	}
	if (*size > b->left)
		return -EBADMSG;
	b->messages += sizeof(*m);
	b->contents += *size;
	b->left -= *size;
	b->n--;
	return 1;
}

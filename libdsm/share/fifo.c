// SPDX-License-Identifier: BSD-2-Clause
/* fifo.c - posts that are kept until they have arrived. The caller serialises. */
#include "share/fifo.h"

#include <errno.h>

#include "share/mem.h"

int rs_fifo_init(struct rs_fifo *f, uint32_t size)
{
	*f = (struct rs_fifo){ .size = size };
	f->sent = rs_zalloc(size, sizeof(*f->sent));
	return f->sent ? 0 : -ENOMEM;
}

void rs_fifo_exit(struct rs_fifo *f)
{
	rs_free(f->sent);
	f->sent = NULL;
}

struct rs_sent *rs_fifo_add(struct rs_fifo *f, const struct rs_post *post)
{
	struct rs_sent *s = &f->sent[f->tail++ % f->size];

	*s = (struct rs_sent){ .post = *post };
	if (post->op == RS_OP_SEND)
		s->post.frame.number = (uint16_t)++f->numbered;
	return s;
}

struct rs_sent *rs_fifo_pop(struct rs_fifo *f, unsigned int *n)
{
	struct rs_sent *s = &f->sent[f->head % f->size];

	if (f->head == f->tail || (!s->arrived && !*n))
		return NULL;
	*n -= !s->arrived;
	f->head++;
	return s;
}

const struct rs_sent *rs_fifo_next(const struct rs_fifo *f, uint32_t *at)
{
	for (; *at != f->tail; ++*at)
		if (!f->sent[*at % f->size].arrived)
			return &f->sent[*at % f->size];
	return NULL;
}

void rs_fifo_forsake(struct rs_fifo *f, const struct rs_conn *conn)
{
	uint32_t at;

	for (at = f->head; at != f->tail; at++) {
		struct rs_sent *s = &f->sent[at % f->size];

		if (s->conn != conn)
			continue;
		s->last = false;
		s->arrived |= s->post.op != RS_OP_SEND;
		s->post.frame = (struct rs_frame){ .version = RS_FRAME_VERSION,
						   .kind = RS_FRAME_RESET,
						   .number = s->post.frame.number,
						   .to = s->post.frame.to,
						   .from = s->post.frame.from };
	}
}

/* Sends of which only the peer knows whether they arrived. */
static uint32_t uncertain(const struct rs_fifo *f)
{
	const struct rs_sent *s;
	uint32_t n = 0, at;

	for (at = f->head; (s = rs_fifo_next(f, &at)); at++)
		n += s->post.op == RS_OP_SEND;
	return n;
}

int rs_fifo_arrived(struct rs_fifo *f, uint32_t received)
{
	const uint32_t missing = f->numbered - received;
	uint32_t newer = 0, at;
	bool before = false;

	if (missing > uncertain(f))
		return -EBADMSG;
	for (at = f->tail; at != f->head; at--) {
		struct rs_sent *s = &f->sent[(at - 1) % f->size];

		before |= s->post.op == RS_OP_SEND && newer++ == missing;
		s->arrived |= before && s->post.op != RS_OP_READ;
	}
	return 0;
}

int rs_fifo_take(struct rs_fifo *f, uint16_t number)
{
	if (number != (uint16_t)(f->received + 1))
		return -EBADMSG;
	f->received++;
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* verbs_frame.c - what is believed of what a peer says: lengths, ranks, slots, numbers. Pure. */
#include "net/verbs_frame.h"

#include <errno.h>
#include <string.h>

/* ---- frames ------------------------------------------------------------------------------------ */

bool frame_read(const struct frame_place *p, struct frame *f, struct msg *m, const char **payload)
{
	const char *at = p->buf;
	uint32_t behind = p->bytes;

	if (p->immediate) {
		if (p->class != CLASS_DATA || p->slot >= p->cfg->nslots || behind <= HEAD || behind > HEAD + p->landing_bytes)
			return false;
		at = p->landing + p->slot * p->landing_stride;
	} else if (behind < sizeof(*f) || behind > p->room) {
		return false;
	}
	memcpy(f, at, sizeof(*f));
	if (f->class != p->class || f->src != p->peer)
		return false;
	switch ((enum frame_kind)f->kind) {
	case FRAME_FREE:
	case FRAME_QUIT:
		return behind == sizeof(*f);
	case FRAME_MSG:
	case FRAME_LAND:
	case FRAME_FETCH:
		break;
	case FRAME_KINDS:
	default:
		return false;
	}
	if (behind < HEAD)
		return false;
	memcpy(m, at + sizeof(*f), sizeof(*m));
	*payload = at + HEAD;
	behind -= HEAD;
	if (f->kind == FRAME_FETCH)
		return behind == sizeof(struct remote) && f->size;
	if (f->kind == FRAME_MSG)
		return !p->immediate && behind == f->size;
	if (!f->size || f->size > p->landing_bytes || m->req_rank != p->cfg->rank || m->type != MSG_DATA)
		return false;
	if (p->immediate)
		return m->req_slot == p->slot && behind == f->size;
	if (behind || m->req_slot >= p->cfg->nslots)
		return false;
	*payload = p->landing + m->req_slot * p->landing_stride + HEAD;
	return true;
}

enum frame_turn frame_turn(uint32_t seq, uint32_t have)
{
	if (seq == have + 1)
		return FRAME_NEXT;
	return (int32_t)(seq - have) > 1 ? FRAME_AHEAD : FRAME_AGAIN;
}

bool frame_received_good(uint32_t received, uint32_t done, uint32_t sent)
{
	return (int32_t)(received - done) >= 0 && (int32_t)(received - sent) <= 0;
}

/* ---- datagrams --------------------------------------------------------------------------------- */

enum shake_verdict shake_judge(const struct shake *s, size_t bytes, uint16_t rank, uint16_t size, uint64_t key)
{
	if (bytes < SHAKE_FIXED || s->magic != SHAKE_MAGIC || s->from >= size || s->from == rank)
		return SHAKE_JUNK;
	if (s->class >= CLASS_MAX)
		return SHAKE_NO_CLASS;
	if (s->version != SHAKE_VERSION)
		return SHAKE_OTHER_VERSION;
	if (s->key != key || s->to != rank)
		return SHAKE_OTHER_JOB;
	return bytes == sizeof(*s) ? SHAKE_GOOD : SHAKE_CUT;
}

/* ---- addresses --------------------------------------------------------------------------------- */

size_t blob_size(const struct blob *b)
{
	return offsetof(struct blob, devs) + b->ndevs * sizeof(b->devs[0]);
}

int blob_read(const void *address, size_t size, uint16_t rank, uint32_t nslots, struct blob *out)
{
	struct blob b;

	memset(&b, 0, sizeof(b));
	if (size < offsetof(struct blob, devs) || size > sizeof(b))
		return -EINVAL;
	memcpy(&b, address, size);
	if (b.magic == BLOB_MAGIC && b.version != BLOB_VERSION) {
		out->version = b.version;
		return -EPROTO;
	}
	if (b.magic != BLOB_MAGIC || b.rank != rank || !b.ndevs || b.ndevs > VERBS_DEVICES || size != blob_size(&b) ||
	    b.landing < 1 || b.landing > 1u << 20 || b.nslots != nslots)
		return -EINVAL;
	*out = b;
	return 0;
}

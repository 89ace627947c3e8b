// SPDX-License-Identifier: BSD-2-Clause
/* frame.c - what is believed of what a peer says: lengths, ranks, slots, numbers. Pure. */
#include "net/verbs/frame.h"

#include <errno.h>
#include <string.h>

/* ---- frames ------------------------------------------------------------------------------------ */

#define WORD_COUNT 1023u /* and as many homes */

bool bare_fits(const struct msg *m, uint16_t sender)
{
	const struct msg all = { .version = WIRE_VERSION,
				 .type = MSG_DATA,
				 .op = m->op,
				 .src = sender,
				 .dst = m->req_rank,
				 .object = m->object,
				 .req_rank = m->req_rank,
				 .req_slot = m->req_slot,
				 .home = m->home,
				 .count = m->count };

	return !memcmp(m, &all, sizeof(all)) && (m->op == GRANT_READ || m->op == GRANT_WRITE) &&
		m->req_slot < BARE_SLOTS && m->home <= WORD_COUNT && m->count >= 0 &&
		(unsigned int)m->count <= WORD_COUNT;
}

uint32_t bare_word(const struct msg *m, uint32_t seq)
{
	return BARE | (seq & 3) << 29 | (uint32_t)(m->op == GRANT_WRITE) << 28 | (uint32_t)m->count << 18 |
		(uint32_t)m->home << 8 | m->req_slot;
}

/* Of the number there are two bits: enough to tell the next from one too many, and from one that came again. */
static uint32_t bare_seq(uint32_t word, uint32_t have)
{
	const uint32_t ahead = ((word >> 29) - have) & 3;

	return ahead == 3 ? have - 1 : have + ahead;
}

static bool read_bare(const struct frame_place *p, struct frame *f, struct msg *m, const char **payload)
{
	const uint16_t slot = p->word % BARE_SLOTS;

	if (!p->cfg->object || p->class != CLASS_DATA || slot >= p->cfg->nslots || !p->bytes ||
	    p->bytes > p->landing_bytes)
		return false;
	*f = (struct frame){ .seq = bare_seq(p->word, p->have),
			     .kind = FRAME_BARE,
			     .class = p->class,
			     .src = p->peer,
			     .size = p->bytes };
	*m = (struct msg){ .version = WIRE_VERSION,
			   .type = MSG_DATA,
			   .op = p->word >> 28 & 1 ? GRANT_WRITE : GRANT_READ,
			   .src = net_node_of(p->cfg, p->peer),
			   .dst = net_me(p->cfg),
			   .object = p->cfg->object(p->cfg->arg, slot),
			   .req_rank = net_me(p->cfg),
			   .req_slot = slot,
			   .home = p->word >> 8 & WORD_COUNT,
			   .count = (int16_t)(p->word >> 18 & WORD_COUNT) };
	*payload = p->landing + slot * p->landing_stride + HEAD;
	return true;
}

bool frame_read(const struct frame_place *p, struct frame *f, struct msg *m, const char **payload)
{
	const char *at = p->buf;
	uint32_t behind = p->bytes;

	if (p->immediate && p->word & BARE)
		return read_bare(p, f, m, payload);
	if (p->immediate) {
		if (p->class != CLASS_DATA || p->word >= p->cfg->nslots || behind <= HEAD ||
		    behind > HEAD + p->landing_bytes)
			return false;
		at = p->landing + p->word * p->landing_stride;
	} else if (behind < sizeof(*f) || behind > p->room) {
		return false;
	}
	memcpy(f, at, sizeof(*f));
	if (f->class != p->class || f->src != p->peer)
		return false;
	switch ((enum frame_kind)f->kind) {
	case FRAME_FREE:
	case FRAME_QUIT: return behind == sizeof(*f);
	case FRAME_MSG:
	case FRAME_LAND:
	case FRAME_FETCH: break;
	case FRAME_KINDS:
	case FRAME_BARE:
	default: return false;
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
	if (!f->size || f->size > p->landing_bytes || m->req_rank != net_me(p->cfg) || m->type != MSG_DATA)
		return false;
	if (p->immediate)
		return m->req_slot == p->word && behind == f->size;
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

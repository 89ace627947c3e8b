// SPDX-License-Identifier: BSD-2-Clause
/* frame.c - checks what a peer sends: lengths, ranks, slots, numbers. Pure. */
#include "net/verbs/frame.h"

#include <errno.h>
#include <string.h>

#include "core/word.h"
#include "net/verbs/rules.h"

/* ---- frames ---------------------------------------------------------------------------------- */

#define WORD_MAX 1023 /* homes and counts have ten bits */

bool bare_fits(const struct msg *m, uint16_t sender)
{
	const struct msg all = { .version = WIRE_VERSION,
				 .type = MSG_DATA,
				 .op = m->op,
				 .src = sender,
				 .dst = m->req_node,
				 .object = m->object,
				 .req_node = m->req_node,
				 .req_slot = m->req_slot,
				 .home = m->home,
				 .count = m->count };

	return !memcmp(m, &all, sizeof(all)) && (m->op == GRANT_READ || m->op == GRANT_WRITE) &&
		m->req_slot < BARE_SLOTS && m->home <= WORD_MAX && m->count >= 0 &&
		m->count <= WORD_MAX;
}

uint32_t bare_word(const struct msg *m, uint32_t seq)
{
	return word_put_PROCESS_BLOCK((struct word_PROCESS_BLOCK){ .slot = m->req_slot,
								   .home = m->home,
								   .count = (uint32_t)m->count,
								   .write = m->op == GRANT_WRITE,
								   .seq = seq,
								   .bare = 1 });
}

/*
 * Two bits of the number are sent: enough to recognise the next one, one too many, and a repeated
 * one.
 */
static uint32_t bare_seq(uint32_t seq, uint32_t have)
{
	const uint32_t ahead = (seq - have) & 3;

	return ahead == 3 ? have - 1 : have + ahead;
}

static bool read_bare(const struct frame_place *p, struct frame *f, struct msg *m,
		      const char **payload)
{
	const struct word_PROCESS_BLOCK w = word_get_PROCESS_BLOCK(p->word);
	const struct word_limits x = { .slots = p->cfg->nslots };

	if (!word_is_PROCESS_BLOCK(&w, &x) || !p->cfg->object || p->class != CLASS_DATA ||
	    !p->bytes || p->bytes > p->landing_bytes)
		return false;
	*f = (struct frame){ .seq = bare_seq(w.seq, p->have),
			     .kind = FRAME_BARE,
			     .class = p->class,
			     .src = p->peer,
			     .size = p->bytes };
	*m = (struct msg){ .version = WIRE_VERSION,
			   .type = MSG_DATA,
			   .op = w.write ? GRANT_WRITE : GRANT_READ,
			   .src = net_node_of(p->cfg, p->peer),
			   .dst = net_me(p->cfg),
			   .object = p->cfg->object(p->cfg->arg, (uint16_t)w.slot),
			   .req_node = net_me(p->cfg),
			   .req_slot = (uint16_t)w.slot,
			   .home = (uint16_t)w.home,
			   .count = (int16_t)w.count };
	*payload = p->landing + w.slot * p->landing_stride + HEAD;
	return true;
}

/* The message after a frame's header; its payload may follow. */
static void read_message(const char *at, struct msg *m, const char **payload)
{
	memcpy(m, at + sizeof(struct frame), sizeof(*m));
	*payload = at + HEAD;
}

/* Is it a block of this rank, for a request in a slot? */
static bool verbs_lands(const struct frame_place *p, const struct msg *m)
{
	return m->type == MSG_DATA && m->req_node == net_me(p->cfg) && m->req_slot < p->cfg->nslots;
}

static bool read_landed(const struct frame_place *p, struct frame *f, struct msg *m,
			const char **payload)
{
	const struct word_PROCESS_SLOT w = word_get_PROCESS_SLOT(p->word);
	const struct word_limits limits = { .slots = p->cfg->nslots };
	const struct verbs_limits x = { .behind = p->bytes - (uint32_t)HEAD,
					.peer = p->peer,
					.class = p->class };
	const char *at;

	if (!word_is_PROCESS_SLOT(&w, &limits) || p->class != CLASS_DATA || p->bytes <= HEAD ||
	    p->bytes > HEAD + p->landing_bytes)
		return false;
	at = p->landing + w.slot * p->landing_stride;
	memcpy(f, at, sizeof(*f));
	read_message(at, m, payload);
	return verbs_is_LANDED(f, &x) && verbs_lands(p, m) && m->req_slot == w.slot;
}

static bool remote_good(const char *at, const struct verbs_limits *x)
{
	struct remote r;

	memcpy(&r, at, sizeof(r));
	return verbs_is_REMOTE(&r, x);
}

bool frame_read(const struct frame_place *p, struct frame *f, struct msg *m, const char **payload)
{
	struct verbs_limits x = { .landing = (uint32_t)p->landing_bytes,
				  .peer = p->peer,
				  .class = p->class };

	if (p->immediate)
		return word_get_PROCESS_BLOCK(p->word).bare ? read_bare(p, f, m, payload)
							    : read_landed(p, f, m, payload);
	if (p->bytes < sizeof(*f) || p->bytes > p->room)
		return false;
	memcpy(f, p->buf, sizeof(*f));
	if (p->bytes == sizeof(*f))
		return verbs_is_FREE(f, &x) || verbs_is_QUIT(f, &x);
	if (p->bytes < HEAD)
		return false;
	read_message(p->buf, m, payload);
	x.behind = p->bytes - (uint32_t)HEAD;
	switch ((enum frame_kind)f->kind) {
	case FRAME_MSG: return verbs_is_MSG(f, &x);
	case FRAME_FETCH:
		return verbs_is_FETCH(f, &x) && x.behind == sizeof(struct remote) &&
			remote_good(*payload, &x);
	case FRAME_LAND:
		if (!verbs_is_LAND(f, &x) || x.behind || !verbs_lands(p, m))
			return false;
		*payload = p->landing + m->req_slot * p->landing_stride + HEAD;
		return true;
	case FRAME_FREE:
	case FRAME_QUIT:
	case FRAME_KINDS:
	case FRAME_BARE:
	default: return false;
	}
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

/* ---- datagrams ------------------------------------------------------------------------------- */

static bool shake_good(const struct shake *s, const struct verbs_limits *x)
{
	return verbs_is_ASK(s, x) || verbs_is_TELL(s, x) || verbs_is_REFUSE(s, x);
}

enum shake_verdict shake_judge(const struct shake *s, size_t bytes, uint16_t rank, uint16_t size,
			       uint64_t key)
{
	const struct verbs_limits x = { .key = key, .rank = rank, .ranks = size };

	if (bytes < SHAKE_FIXED || !verbs_holds_SHAKE_MAGIC(s->magic, &x) ||
	    !verbs_holds_RANK(s->from, &x) || s->from == rank)
		return SHAKE_JUNK;
	if (!verbs_holds_CLASS(s->class, &x))
		return SHAKE_NO_CLASS;
	if (!verbs_holds_SHAKE_VERSION(s->version, &x))
		return SHAKE_OTHER_VERSION;
	if (!verbs_holds_KEY(s->key, &x) || !verbs_holds_ME(s->to, &x))
		return SHAKE_OTHER_JOB;
	return bytes == sizeof(*s) && shake_good(s, &x) ? SHAKE_GOOD : SHAKE_MALFORMED;
}

/* ---- addresses ------------------------------------------------------------------------------- */

size_t blob_size(const struct blob *b)
{
	return offsetof(struct blob, devs) + b->ndevs * sizeof(b->devs[0]);
}

int blob_read(const void *address, size_t size, uint16_t rank, uint32_t nslots, struct blob *out)
{
	const struct verbs_limits x = { .peer = rank, .nslots = nslots };
	unsigned int i;
	struct blob b;

	memset(&b, 0, sizeof(b));
	if (size < offsetof(struct blob, devs) || size > sizeof(b))
		return -EINVAL;
	memcpy(&b, address, size);
	if (verbs_holds_BLOB_MAGIC(b.magic, &x) && !verbs_holds_BLOB_VERSION(b.version, &x)) {
		out->version = b.version;
		return -EPROTO;
	}
	if (!verbs_is_BLOB(&b, &x) || size != blob_size(&b))
		return -EINVAL;
	for (i = 0; i < b.ndevs; i++)
		if (!verbs_is_BLOB_DEV(&b.devs[i], &x))
			return -EINVAL;
	*out = b;
	return 0;
}

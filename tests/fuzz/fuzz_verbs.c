// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_verbs.c - frames, datagrams and addresses of a malicious peer over verbs, before the message
 * is interpreted: libFuzzer target.
 *
 * The first byte selects the kind of input: a frame in a receive buffer, a frame written to a
 * landing slot, a datagram, or an address. The rest is raw bytes, or a valid struct in which some
 * fields have values at the edges of their rules. Each input lies in memory of exactly its size, so
 * that AddressSanitizer detects reads beyond it. The target checks what the transport accepts: no
 * payload outside its place, no rank that does not exist, no slot other than that of the request,
 * no length other than the received one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include "../verbs_values.h"
#include "net/check.h"
#include "net/verbs/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 4
#define RANKS 5
#define ME 2
#define PEER 3
#define KEY 0x6b6b6b6b6b6b6b6bull
#define BLOCK 256 /* bytes in a landing slot */

static uint32_t object(void *arg, uint16_t slot)
{
	(void)arg;
	must(slot < SLOTS);
	return 100u + slot;
}

static const struct net_config cfg = {
	.rank = ME, .size = RANKS, .nslots = SLOTS, .object = object
};

#define BEHIND 64 /* bytes behind the message of a frame of values */

static const struct verbs_limits lim = { .key = KEY,
					 .behind = BEHIND,
					 .landing = BLOCK,
					 .nslots = SLOTS,
					 .peer = PEER,
					 .rank = ME,
					 .ranks = RANKS,
					 .class = CLASS_DATA };

static bool holds(enum verbs_shape shape, const void *at)
{
	return rule_all_hold(&verbs_table, &lim, shape, at);
}

static void *copy(const void *from, size_t size)
{
	void *p = malloc(size ? size : 1);

	must(p);
	memcpy(p, from, size);
	return p;
}

static void take(const uint8_t **data, size_t *size, void *out, size_t want)
{
	size_t n = *size < want ? *size : want;

	memset(out, 0, want);
	memcpy(out, *data, n);
	*data += n;
	*size -= n;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool inside(const char *at, size_t size, const char *area, size_t room)
{
	return at >= area && size <= room && (size_t)(at - area) <= room - size;
}

static void check_frame(const struct frame_place *p, const struct frame *f, const struct msg *m,
			const char *payload)
{
	const size_t all = SLOTS * p->landing_stride;
	volatile uint8_t sum = 0;
	uint32_t i;

	must(f->class == p->class && f->src == p->peer && f->kind &&
	     (f->kind < FRAME_KINDS || f->kind == FRAME_BARE));
	must((f->kind == FRAME_BARE) == (p->immediate && p->word >> 31));
	if (f->kind == FRAME_FREE || f->kind == FRAME_QUIT) {
		must(!p->immediate && p->bytes == sizeof(*f));
		return;
	}
	if (f->kind == FRAME_FETCH) {
		must(!p->immediate && f->size && p->bytes == HEAD + sizeof(struct remote));
		must(holds(VERBS_SHAPE_REMOTE, payload));
		/* as begin_fetch() does; AddressSanitizer looks */
		for (i = 0; i < sizeof(struct remote); i++)
			sum = (uint8_t)(sum + (uint8_t)payload[i]);
		return;
	}
	must(f->kind == FRAME_BARE
		     ? p->bytes == f->size && m->object == 100u + m->req_slot &&
			     bare_fits(m, PEER) && bare_word(m, f->seq) == p->word
		     : p->bytes == HEAD + (f->kind == FRAME_LAND && !p->immediate ? 0 : f->size));
	must((f->kind != FRAME_LAND && f->kind != FRAME_BARE) ||
	     (f->size <= p->landing_bytes && m->req_node == ME && m->req_slot < SLOTS));
	must(!p->immediate || f->kind == FRAME_BARE ||
	     (f->kind == FRAME_LAND && m->req_slot == p->word));
	if (f->kind == FRAME_LAND || f->kind == FRAME_BARE)
		must(inside(payload, f->size, p->landing, all));
	else
		must(inside(payload, f->size, p->buf, p->bytes));
	if (net_check(&cfg, m, f->size))
		return;
	must(m->src < RANKS && m->src != ME && f->size <= net_payload_max(m->type));
	for (i = 0; i < f->size; i++)
		sum = (uint8_t)(sum + (uint8_t)payload[i]);
}

struct frame_how {
	uint8_t class, longer, have, pad;
	uint32_t word;
};

static void frame_in(const uint8_t *data, size_t size, bool immediate)
{
	struct frame_how how;
	struct frame_place p = {
		.cfg = &cfg, .peer = PEER, .immediate = immediate, .landing_bytes = BLOCK
	};
	char *landing, *buf;
	const char *payload = NULL;
	struct frame f;
	struct msg m;

	take(&data, &size, &how, sizeof(how));
	p.landing_stride = (HEAD + BLOCK + 63) & ~(size_t)63;
	p.class = how.class % CLASS_MAX;
	p.room = p.class == CLASS_BULK ? 1024 : 128;
	p.word = how.word;
	p.have = how.have;
	p.bytes = (uint32_t)size + how.longer; /* a device may say anything */
	landing = calloc(SLOTS, p.landing_stride);
	buf = calloc(1, p.room);
	must(landing && buf);
	memcpy(buf, data, size < p.room ? size : p.room);
	if (how.word < SLOTS)
		memcpy(landing + how.word * p.landing_stride, data,
		       size < p.landing_stride ? size : p.landing_stride);
	p.buf = buf;
	p.landing = landing;
	if (frame_read(&p, &f, &m, &payload)) {
		check_frame(&p, &f, &m, payload);
		must((frame_turn(f.seq, f.seq - 1) == FRAME_NEXT) &&
		     (frame_turn(f.seq, f.seq) == FRAME_AGAIN));
	}
	free(buf);
	free(landing);
}

/* ---- datagrams and addresses ----------------------------------------------------------------- */

static void datagram_in(const uint8_t *data, size_t size)
{
	struct shake *s = copy(data, size);
	const enum shake_verdict v = shake_judge(s, size, ME, RANKS, KEY);

	if (v != SHAKE_JUNK)
		must(size >= SHAKE_FIXED && s->from < RANKS && s->from != ME);
	if (v != SHAKE_JUNK && v != SHAKE_NO_CLASS)
		must(s->class < CLASS_MAX);
	must((v == SHAKE_GOOD) ==
	     (size == sizeof(*s) && s->from != ME &&
	      (holds(VERBS_SHAPE_ASK, s) || holds(VERBS_SHAPE_TELL, s) ||
	       holds(VERBS_SHAPE_REFUSE, s))));
	if (v == SHAKE_GOOD) {
		must(size == sizeof(*s) && s->version == SHAKE_VERSION && s->key == KEY &&
		     s->to == ME);
		/* With 10 frames sent and 4 known to be there. */
		must(frame_received_good(s->received, 4, 10) ==
		     (s->received >= 4 && s->received <= 10));
	}
	free(s);
}

static void address_in(const uint8_t *data, size_t size)
{
	void *at = copy(data, size);
	struct blob b;
	unsigned int i;
	int err = blob_read(at, size, PEER, SLOTS, &b);

	if (!err) {
		must(b.version == BLOB_VERSION && b.rank == PEER && b.nslots == SLOTS);
		must(b.ndevs && b.ndevs <= VERBS_DEVICES && blob_size(&b) == size &&
		     holds(VERBS_SHAPE_BLOB, &b));
		for (i = 0; i < b.ndevs; i++)
			must(holds(VERBS_SHAPE_BLOB_DEV, &b.devs[i]));
	}
	free(at);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* One field, and which of its values. */
struct choice {
	uint8_t field, value;
};

static void set_fields(enum verbs_shape shape, void *at, const uint8_t **data, size_t *size)
{
	const size_t used = rule_choose(&verbs_table, &lim, shape, at, *data, *size);

	*data += used;
	*size -= used;
}

static uint32_t set_word(const uint8_t **data, size_t *size)
{
	const struct word_limits x = { .slots = SLOTS };
	enum word_kind kind;
	uint32_t word = 0;
	struct choice c;
	int64_t lo, hi;
	unsigned int i;

	take(data, size, &c, sizeof(c));
	kind = c.field & 1 ? WORD_KIND_PROCESS_BLOCK : WORD_KIND_PROCESS_SLOT;
	for (i = 0; i < word_types[kind].n; i++) {
		word_range(&x, kind, i, &lo, &hi);
		word = word_set(&word_types[kind].fields[i], word, (uint64_t)lo);
	}
	i = c.value % word_types[kind].n;
	word_range(&x, kind, i, &lo, &hi);
	return word_set(&word_types[kind].fields[i], word,
			(uint64_t)(c.field & 2 ? hi : lo) + (c.field >> 2 & 3) - 1);
}

/*
 * As it lies in memory: what stands before a frame in the input of frame_in(), the frame, its
 * message, what is behind it.
 */
static void frame_of_values(enum verbs_shape shape, const uint8_t *data, size_t size)
{
	struct {
		struct frame_how how;
		struct frame f;
		struct msg m;
		uint8_t behind[BLOCK];
	} in = { .how = { .class = CLASS_DATA },
		 .m = { .version = WIRE_VERSION,
			.type = MSG_DATA,
			.src = PEER,
			.dst = ME,
			.object = 100,
			.req_node = ME } };
	size_t behind = shape == VERBS_SHAPE_LAND ? 0
		: shape == VERBS_SHAPE_FETCH      ? sizeof(struct remote)
						  : BEHIND;
	const bool bare = shape == VERBS_SHAPE_FREE || shape == VERBS_SHAPE_QUIT;

	set_fields(shape, &in.f, &data, &size);
	if (shape == VERBS_SHAPE_FETCH)
		set_fields(VERBS_SHAPE_REMOTE, in.behind, &data, &size);
	if (shape == VERBS_SHAPE_LANDED)
		in.how.word = set_word(&data, &size);
	in.m.req_slot = in.how.word < SLOTS ? (uint16_t)in.how.word : 0;
	frame_in((const uint8_t *)&in,
		 offsetof(__typeof__(in), m) + (bare ? 0 : sizeof(in.m) + behind),
		 shape == VERBS_SHAPE_LANDED);
}

static void values_in(const uint8_t *data, size_t size)
{
	struct shake s;
	struct blob b;
	uint8_t shape;

	take(&data, &size, &shape, 1);
	shape %= VERBS_SHAPE_COUNT;
	switch ((enum verbs_shape)shape) {
	case VERBS_SHAPE_ASK:
	case VERBS_SHAPE_TELL:
	case VERBS_SHAPE_REFUSE:
		set_fields((enum verbs_shape)shape, &s, &data, &size);
		datagram_in((const uint8_t *)&s, sizeof(s));
		return;
	case VERBS_SHAPE_BLOB:
	case VERBS_SHAPE_BLOB_DEV:
		set_fields(VERBS_SHAPE_BLOB, &b, &data, &size);
		for (shape = 0; shape < VERBS_DEVICES; shape++)
			set_fields(VERBS_SHAPE_BLOB_DEV, &b.devs[shape], &data, &size);
		address_in((const uint8_t *)&b,
			   b.ndevs <= VERBS_DEVICES ? blob_size(&b) : sizeof(b));
		return;
	case VERBS_SHAPE_REMOTE: shape = VERBS_SHAPE_FETCH; break;
	default: break;
	}
	frame_of_values((enum verbs_shape)shape, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 4) {
		values_in(data + 1, size - 1);
		return 0;
	}
	switch (data[0] & 3) {
	case 0: frame_in(data + 1, size - 1, false); break;
	case 1: frame_in(data + 1, size - 1, true); break;
	case 2: datagram_in(data + 1, size - 1); break;
	default: address_in(data + 1, size - 1);
	}
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_shared.c - frames and addresses of a malicious rank over librshare, before the message is
 * interpreted: libFuzzer target.
 *
 * The first byte selects the kind of input: a frame, the frame by which a peer returns memory, or
 * an address. The rest is raw bytes, or a valid struct in which some fields have values at the
 * edges of their rules. The target checks what the transport accepts: no payload that was not
 * received, no slot other than that of a request, no number that was not given out.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include "../shared_values.h"
#include "net/shared/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 4
#define RANKS 5
#define ME 2
#define PEER 3
#define BEHIND 64
#define LENT 7
#define FETCHES 9

static const struct net_config cfg = { .rank = ME, .size = RANKS, .nslots = SLOTS };

static struct shared_limits limits(uint8_t lane, size_t bytes, uint32_t size)
{
	return (struct shared_limits){ .lent = LENT,
				       .fetches = FETCHES,
				       .behind = (uint32_t)(bytes - sizeof(struct shared_frame)),
				       .size = size,
				       .nslots = SLOTS,
				       .peer = PEER,
				       .ranks = RANKS,
				       .lane = lane };
}

static bool holds(const struct shared_limits *x, enum shared_shape shape, const void *at)
{
	return rule_all_hold(&shared_table, x, shape, at);
}

/* ---- frames ---------------------------------------------------------------------------------- */

struct how {
	uint8_t lane, class, longer;
};

static struct shared_place place(const struct how *how, size_t bytes)
{
	return (struct shared_place){ .cfg = &cfg,
				      .peer = PEER,
				      .lane = how->lane % 7,
				      .class = how->class % CLASS_MAX,
				      .lent = LENT,
				      .fetches = FETCHES,
				      .bytes = bytes };
}

static void frame_in(const struct shared_place *p, const struct shared_frame *f)
{
	const struct shared_limits x = limits(p->lane, p->bytes, f->size);

	if (!shared_frame_ok(p, f))
		return;
	must(p->bytes >= sizeof(*f) && f->src == PEER && f->m.src == PEER &&
	     wire_class(f->m.type) == p->class);
	must(f->size <= net_payload_max(f->m.type));
	switch (f->kind) {
	case SHARED_MSG:
		must(holds(&x, SHARED_SHAPE_MSG, f) && f->size == p->bytes - sizeof(*f));
		break;
	case SHARED_LAND:
		must(holds(&x, SHARED_SHAPE_LAND, f) && f->m.req_slot < SLOTS &&
		     f->m.req_node == ME);
		must(f->size && f->size <= SHARED_LANDING && p->bytes == sizeof(*f));
		break;
	case SHARED_FETCH:
		must(holds(&x, SHARED_SHAPE_FETCH, f) && holds(&x, SHARED_SHAPE_LENT, &f->from));
		must(f->id == FETCHES + 1 && f->from.size == f->size && p->bytes == sizeof(*f));
		return;
	default: must(false);
	}
	must(holds(&x, SHARED_SHAPE_NOWHERE, &f->from));
}

static void release_in(const struct shared_place *p, const struct shared_frame *f)
{
	const struct shared_limits x = limits(p->lane, p->bytes, f->size);

	must(shared_release_ok(p, f) ==
	     (p->bytes == sizeof(*f) && holds(&x, SHARED_SHAPE_FETCHED, f) &&
	      holds(&x, SHARED_SHAPE_NOWHERE, &f->from) && holds(&x, SHARED_SHAPE_NOTHING, &f->m)));
}

static void bytes_in(const uint8_t *data, size_t size, bool release)
{
	struct shared_frame f;
	struct shared_place p;
	struct how how;

	if (size < sizeof(how))
		return;
	memcpy(&how, data, sizeof(how));
	data += sizeof(how);
	size -= sizeof(how);
	memset(&f, 0, sizeof(f));
	memcpy(&f, data, size < sizeof(f) ? size : sizeof(f));
	p = place(&how, size + how.longer);
	if (release)
		release_in(&p, &f);
	else
		frame_in(&p, &f);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void address_in(const void *address, size_t size)
{
	const struct shared_limits x = limits(0, sizeof(struct shared_frame), 0);
	void *exact = malloc(size ? size : 1);
	struct shared_blob b;

	must(exact);
	memcpy(exact, address, size);
	if (!shared_blob_read(exact, size, SLOTS, &b)) {
		must(size == sizeof(b) && holds(&x, SHARED_SHAPE_BLOB, &b) &&
		     holds(&x, SHARED_SHAPE_LANDING, &b.landing));
		must(strlen(b.node) < sizeof(b.node) && b.nslots == SLOTS);
	}
	free(exact);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const uint8_t *choose(unsigned int shape, const struct shared_limits *x, void *at,
			     const uint8_t *data, size_t *size)
{
	const size_t used = rule_choose(&shared_table, x, shape, at, data, *size);

	*size -= used;
	return data + used;
}

static void frame_of_values(unsigned int shape, const uint8_t *data, size_t size)
{
	const bool land = shape == SHARED_SHAPE_LAND, release = shape == SHARED_SHAPE_FETCHED;
	const size_t bytes = sizeof(struct shared_frame) + (shape == SHARED_SHAPE_MSG ? BEHIND : 0);
	const struct how how = { .class = land ? CLASS_DATA : CLASS_BULK };
	const struct shared_place p = place(&how, bytes);
	struct shared_limits x = limits(p.lane, bytes, 0);
	struct shared_frame f;

	memset(&f, 0, sizeof(f));
	data = choose(shape, &x, &f, data, &size);
	x.size = f.size;
	data = choose(shape == SHARED_SHAPE_FETCH ? SHARED_SHAPE_LENT : SHARED_SHAPE_NOWHERE, &x,
		      &f.from, data, &size);
	if (release) {
		choose(SHARED_SHAPE_NOTHING, &x, &f.m, data, &size);
		release_in(&p, &f);
		return;
	}
	f.m = (struct msg){ .version = WIRE_VERSION,
			    .type = land ? MSG_DATA : MSG_CALL,
			    .src = size > 1 ? data[1] % (RANKS + 1) : PEER,
			    .dst = ME,
			    .req_node = land ? ME : PEER,
			    .req_slot = size ? data[0] % (SLOTS + 1) : 0 };
	frame_in(&p, &f);
}

static void values_in(const uint8_t *data, size_t size)
{
	const struct shared_limits x = limits(0, sizeof(struct shared_frame), 0);
	struct shared_blob b;
	unsigned int shape;

	if (!size)
		return;
	shape = data[0] % SHARED_SHAPE_COUNT;
	data++;
	size--;
	if (shape <= SHARED_SHAPE_FETCHED) {
		frame_of_values(shape, data, size);
		return;
	}
	data = choose(SHARED_SHAPE_BLOB, &x, &b, data, &size);
	choose(SHARED_SHAPE_LANDING, &x, &b.landing, data, &size);
	address_in(&b, sizeof(b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] & 3) {
	case 0: bytes_in(data + 1, size - 1, false); break;
	case 1: bytes_in(data + 1, size - 1, true); break;
	case 2: address_in(data + 1, size - 1); break;
	default: values_in(data + 1, size - 1);
	}
	return 0;
}

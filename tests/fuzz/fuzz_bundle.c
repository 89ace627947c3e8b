// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_bundle.c - bundles of a malicious peer: libFuzzer target.
 *
 * The input begins with a record that says how the bundle is made: as the bytes that follow, or as
 * valid messages of one type, of which up to three fields get a value at the edge of their rule or
 * just outside, and whose payload is a little longer or shorter than it should be. What comes out
 * must be what the head says, messages that may arrive alone, and contents that lie in the payload
 * one behind the other. A bundle in which nothing was changed must come out whole.
 *
 * The payload lies in memory of exactly its size, so that AddressSanitizer detects reads beyond it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include "../bundle_limits.h"
#include "core/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHANGES 3u

struct record {
	uint8_t how; /* HOW_* */
	uint8_t type, count;
	int8_t longer; /* bytes put to the payload, or taken from it */
	uint8_t order; /* of each block: these bits in turn */
	struct {
		uint8_t at, field, value;
	} change[CHANGES];
};

enum { HOW_RAW = 1, HOW_HEAD = 2 };

struct made {
	struct msg head;
	char *payload;
	size_t size;
	bool whole; /* nothing was changed */
};

/* A field gets a value of its rule's edge, or one beside it. */
static void change(struct msg *m, uint8_t field, uint8_t value)
{
	int64_t values[WIRE_VALUES_MAX];
	const enum wire_field f = (enum wire_field)(field % WIRE_FIELD_COUNT);
	const unsigned int n = wire_values(m, f, &lim, values);

	if (n)
		wire_set(m, f, values[value % n]);
}

static size_t contents_of(const struct msg *m)
{
	return m->type == MSG_DATA ? (size_t)wire_block_pages(m->object) * WIRE_PAGE : 0;
}

/* As sent, but for the size. */
static void resize(struct made *b, const void *payload, size_t size, int longer)
{
	const size_t more = longer > 0 ? (size_t)longer : 0,
		     less = longer < 0 ? (size_t)-longer : 0;

	b->size = less < size ? size - less + more : 0;
	b->payload = calloc(b->size ? b->size : 1, 1);
	must(b->payload);
	memcpy(b->payload, payload, size < b->size ? size : b->size);
}

static void make(struct made *b, const struct record *r)
{
	static char payload[WIRE_BUNDLE_MAX * (sizeof(struct msg) + 4 * WIRE_PAGE)];
	const unsigned int n = 2 + r->count % (WIRE_BUNDLE_MAX - 1);
	struct msg v[WIRE_BUNDLE_MAX];
	unsigned int i;
	size_t size;

	for (i = 0; i < n; i++) {
		const uint32_t pages = r->order >> (i % 8) & 1 ? 4 : 1;

		v[i] = wire_good((uint8_t)(MSG_READ_REQ + r->type % MSG_HOME_ACK), OTHER, &lim);
		v[i].object = 8 * (i + 1) | pages;
	}
	for (i = 0; i < CHANGES; i++)
		if (r->change[i].at)
			change(&v[r->change[i].at % n], r->change[i].field, r->change[i].value);
	b->head = bundle_head(&v[0], n);
	memcpy(payload, v, n * sizeof(v[0]));
	size = n * sizeof(v[0]);
	/* A change may name a block that is larger than the room for it. */
	for (i = 0; i < n && contents_of(&v[i]) <= sizeof(payload) - size; i++) {
		memset(payload + size, (int)i + 1, contents_of(&v[i]));
		size += contents_of(&v[i]);
	}
	resize(b, payload, size, r->longer);
	b->whole = !r->longer;
	for (i = 0; i < CHANGES; i++)
		b->whole &= !r->change[i].at;
}

/* Read it, and compare with what the head and the payload say. */
static int check(const struct made *b)
{
	const size_t messages = (size_t)b->head.count * sizeof(struct msg);
	const char *next = b->payload + messages;
	const void *contents;
	struct bundle in;
	struct msg m;
	size_t bytes;
	int err = bundle_begin(&in, &b->head, b->payload, b->size, &lim), n;

	must(err ? err == -EBADMSG && b->size < messages : b->size >= messages);
	for (n = 0; !err && (err = bundle_next(&in, &m, &contents, &bytes)) > 0; n++) {
		must(n < b->head.count);
		must(!memcmp(&m, b->payload + (size_t)n * sizeof(m), sizeof(m)));
		must(!wire_check(&m, &lim));
		must(m.type == b->head.op && m.src == b->head.src && m.dst == ME);
		must(bytes == contents_of(&m) && !contents == !bytes);
		must(!bytes ||
		     (contents == next && bytes <= (size_t)(b->payload + b->size - next)));
		next += bytes;
		err = 0;
	}
	must(err == 0 || err == -EBADMSG);
	must(err || (n == b->head.count && next == b->payload + b->size));
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record r;
	struct made b;

	if (size < sizeof(r) + sizeof(b.head))
		return 0;
	memcpy(&r, data, sizeof(r));
	data += sizeof(r);
	size -= sizeof(r);
	make(&b, &r);
	if (r.how & HOW_HEAD)
		memcpy(&b.head, data, sizeof(b.head));
	if (r.how & HOW_RAW) {
		free(b.payload);
		resize(&b, data + sizeof(b.head), size - sizeof(b.head), 0);
	}
	must(bundle_count(&b.head) <= WIRE_BUNDLE_MAX);
	if (!wire_check(&b.head, &lim) && b.head.type == MSG_BUNDLE)
		must(!check(&b) || r.how & (HOW_RAW | HOW_HEAD) || !b.whole);
	else
		must(r.how & HOW_HEAD || !b.whole);
	free(b.payload);
	return 0;
}

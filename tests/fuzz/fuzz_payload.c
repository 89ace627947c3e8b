// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_payload.c - calls and answers of a malicious peer: libFuzzer target.
 *
 * The input is a sequence of records. A record selects the caller, the call, and the payload: bytes
 * of the input, or a valid payload with small numbers from the input, of which one field is set to
 * an edge of its range or just outside. Calls that payload_request() accepts go to the first node's
 * tables of regions and units, as in call.c. Invalid calls may be refused. The tables must stay
 * consistent, no place may be given out twice, and answers must obey their rules.
 *
 * Each payload lies in memory of exactly its size, so that AddressSanitizer detects reads beyond
 * it.
 */
#include <errno.h>

#include "must.h"

#include "../payload_values.h"
#include "../registry_world.h"
#include "calls/owner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct record {
	uint8_t op, from;
	uint8_t how; /* HOW_*, and what is cut from the size or put to it */
	uint8_t field, value;
	uint8_t rows; /* of the answer */
	uint8_t small[6];
	uint32_t name; /* few names, so that they meet */
};

enum { HOW_RAW = 1, HOW_ANSWER = 2, HOW_EDGE = 4, HOW_LONGER = 8, HOW_SHORTER = 16 };

/* ---- what must hold -------------------------------------------------------------------------- */

static void check_regions(void)
{
	const struct registry *g = &job.me->registry;
	uint8_t taken[WORLD_SPACE / UNIT_BYTES] = { 0 };
	unsigned int i, n, chained;
	uint64_t unit;
	uint32_t id;

	for (i = 0; i < WORLD_REGIONS; i++) {
		const struct region_record *r = &g->regions[i];
		uint32_t sum = 0;

		for (n = 0; n < WORLD_NODES; n++) {
			must(job.mem.members[i * WORLD_NODES + n] <= job.width[n]);
			sum += job.mem.members[i * WORLD_NODES + n];
		}
		must(sum == r->attached);
		if (!r->used) {
			must(!r->attached && !r->named);
			continue;
		}
		must(r->off + r->bytes <= WORLD_SPACE && r->bytes >= r->size);
		for (unit = r->off / UNIT_BYTES; unit < (r->off + r->bytes) / UNIT_BYTES; unit++)
			must(!taken[unit]++);
		chained = n = 0;
		for (id = g->names[region_hash(r->name)]; id; id = g->regions[id - 1].next) {
			must(id <= WORLD_REGIONS && g->regions[id - 1].used &&
			     g->regions[id - 1].named);
			must(++chained <= WORLD_REGIONS);
			n += id == i + 1;
		}
		must(n == r->named);
	}
}

static void check_units(void)
{
	unsigned int i;

	must(job.mem.units->reclaimer <= WORLD_RANKS);
	for (i = 0; i < job.heap_shape.count; i++)
		must(units_owner(job.mem.units, i) <= WORLD_RANKS);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void call(const struct payload_limits *lim, uint8_t op, const char *payload, uint32_t room)
{
	const void *in = payload + sizeof(struct call_head);
	char *out = malloc(room ? room : 1);
	int err;

	must(out);
	if (op <= CALL_VACATE || op == CALL_WITHDRAW)
		err = region_serve(lim->from, (enum call_op)op, in, (struct region_record *)out);
	else if (op == CALL_QUIET || op == CALL_PURGE)
		err = region_leave(lim->from, (enum call_op)op, in);
	else if (op == CALL_MAY_PURGE)
		err = region_may_purge(in);
	else if (op >= CALL_UNITS_TAKE && op <= CALL_UNITS_END)
		err = owner_serve(lim->from, (enum call_op)op, in, out);
	else
		err = -ENOSYS;
	must(err <= 0);
	must(err || !payload_answer(lim, op, out, room, room));
	free(out);
}

/* The numbers of a struct that keeps the rules, changed a little. */
static void season(const struct payload_limits *lim, unsigned int shape, char *at,
		   const struct record *r)
{
	const struct rule_type *t = payload_type(shape);
	unsigned int i, k = 0;

	for (i = 0; i < t->n; i++) {
		const struct rule_field *f = &t->fields[i];
		uint64_t was, v = r->small[k % sizeof(r->small)] % 32, lo, hi;

		if (f->rule == PAYLOAD_RULE_NAME || f->rule == PAYLOAD_RULE_TEXT) {
			at[f->offset] = (char)('a' + r->name % 3);
		} else if (payload_is_number(f) && f->rule != PAYLOAD_RULE_ZERO &&
			   shape != SHAPE_HEAD) {
			was = rule_get(f, at);
			if (f->size == 8 && payload_range(lim, shape, i, at, 0, &lo, &hi) &&
			    hi - lo > UNIT_BYTES)
				v *= UNIT_BYTES;
			rule_set(f, at, f->rule == PAYLOAD_RULE_ANY || v ? v : was);
			k++;
		}
	}
}

static void edge(const struct payload_limits *lim, unsigned int shape, char *at,
		 const struct record *r, size_t rows)
{
	const struct rule_type *t = payload_type(shape);
	uint64_t values[VALUES_MAX];
	unsigned int i = t->n ? r->field % t->n : 0;

	if (!t->n)
		return;
	if (payload_is_number(&t->fields[i]))
		rule_set(&t->fields[i], at,
			 values[r->value % payload_values(lim, shape, i, at, rows, values)]);
	else
		memset(at + t->fields[i].offset, r->value, t->fields[i].size);
}

static uint32_t few_rows(uint8_t op, uint8_t rows)
{
	return payload_room(
		op, rows % (1 + WIRE_CALL_MAX / (payload_type(payload_call(op)->row)->size + 1)));
}

static size_t change_size(const struct record *r, size_t size)
{
	size += r->how & HOW_LONGER ? 1 : 0;
	return r->how & HOW_SHORTER && size ? size - 1 : size;
}

/* A copy that ends where the payload does, so that a sanitizer sees what is read beyond it. */
static char *as_sent(const struct record *r, char *good, size_t *size, const uint8_t *raw,
		     size_t raw_size)
{
	char *at;

	if (r->how & HOW_RAW)
		memcpy(good, raw, raw_size < *size ? raw_size : *size);
	*size = change_size(r, *size);
	at = malloc(*size ? *size : 1);
	must(at);
	memcpy(at, good, *size);
	return at;
}

static void request(const struct record *r, uint8_t op, const uint8_t *raw, size_t raw_size)
{
	const struct payload_call *c = payload_call(op);
	const struct payload_limits lim = world_limits(r->from % WORLD_NODES);
	char good[WIRE_CALL_MAX], *at;
	size_t size;
	uint32_t room = few_rows(op, r->rows);

	size = payload_good_request(&lim, op, good);
	season(&lim, c->request, good + sizeof(struct call_head), r);
	if (r->how & HOW_EDGE) {
		edge(&lim, c->request, good + sizeof(struct call_head), r, 0);
		if (r->value & 128)
			edge(&lim, SHAPE_HEAD, good, r, 0);
	}
	at = as_sent(r, good, &size, raw, raw_size);
	if (!payload_request(&lim, op, at, size, room))
		call(&lim, op, at, room);
	free(at);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void believe(const struct payload_limits *lim, uint8_t op, const char *at, size_t size)
{
	const struct region_record *r = (const struct region_record *)(const void *)at;
	const struct units_taken *u = (const struct units_taken *)(const void *)at;
	const struct trimmed *t = (const struct trimmed *)(const void *)at;
	const struct found *f = (const struct found *)(const void *)at;
	size_t i;

	if (op <= CALL_VACATE || op == CALL_WITHDRAW)
		must(r->id < CTL_REGIONS && r->off % UNIT_BYTES == 0 && r->off < lim->space &&
		     r->bytes <= lim->space - r->off && r->size <= r->bytes &&
		     strlen(r->name) < sizeof(r->name));
	else if (op == CALL_UNITS_TAKE)
		must(u->n && u->at + (uint64_t)u->n <= job.heap_shape.count && u->used <= u->n);
	else if (op == CALL_TRIM)
		for (i = 0; i < t->head.n; i++)
			must(t->runs[i].at + (uint64_t)t->runs[i].n <= job.heap_shape.count);
	else if (op == CALL_FIND)
		must(strlen(f->site) < sizeof(f->site) &&
		     strlen(f->object.name) < sizeof(f->object.name));
	must(size <= WIRE_CALL_MAX);
}

static void answer(const struct record *r, uint8_t op, const uint8_t *raw, size_t raw_size)
{
	const struct payload_call *c = payload_call(op);
	const struct payload_limits lim = world_limits(r->from % WORLD_NODES);
	const uint32_t room = few_rows(op, r->rows), row = payload_type(c->row)->size;
	const size_t head = payload_type(c->answer)->size, rows = row ? (room - head) / row : 0;
	char good[2 * WIRE_CALL_MAX], *at;
	size_t size = room, i;

	payload_good(&lim, c->answer, good);
	for (i = 0; i < rows; i++)
		payload_good(&lim, c->row, good + head + i * row);
	if (r->how & HOW_EDGE) {
		edge(&lim, c->answer, good, r, rows);
		if (rows)
			edge(&lim, c->row, good + head + r->small[0] % rows * row, r, rows);
	}
	at = as_sent(r, good, &size, raw, raw_size);
	if (!payload_answer(&lim, op, at, size, room))
		believe(&lim, op, at, size);
	free(at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record r;
	uint8_t op;

	if (!job.me)
		world_make();
	else
		world_again();
	while (size >= sizeof(r)) {
		memcpy(&r, data, sizeof(r));
		data += sizeof(r);
		size -= sizeof(r);
		op = (uint8_t)(1 + r.op % (CALL_OPS - 1));
		must(payload_chunk(r.how & 1, r.op, r.value) == 0 ||
		     payload_chunk(r.how & 1, r.op, r.value) == -EBADMSG);
		if (r.how & HOW_ANSWER)
			answer(&r, op, data, size);
		else
			request(&r, op, data, size);
		check_units();
	}
	check_regions();
	return 0;
}

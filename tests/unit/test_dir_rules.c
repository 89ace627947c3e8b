// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_dir_rules.c - core/dir: the effect of each request of each rank in each state, at once and
 * after a turn, in full.
 */
#include "core.h"

#include "core/dir.h"

#define ME 60
#define OWNER 50
#define SHARER 40
#define THIRD 30
#define OBJECT 0x87654321u
#define SLOT 0x1234
#define BIT(r) (1ull << (r))

static struct queue_entry nodes[64 * (SLOT + 1)];
static uint16_t forwarded;
static const struct dir_ctx ctx = { .me = ME,
				    .nnodes = 64,
				    .manager = ME,
				    .queue = { .entries = nodes, .nslots = SLOT + 1 },
				    .forwarded = &forwarded };
static const struct dir_ctx elsewhere = { .me = ME,
					  .nnodes = 64,
					  .manager = SHARER,
					  .queue = { .entries = nodes, .nslots = SLOT + 1 },
					  .forwarded = &forwarded };

struct ask {
	uint16_t rank;
	uint8_t type, flags;
};

static struct msg message(const struct ask *a)
{
	struct msg m = unit_msg(a->type, a->rank, ME, a->rank, SLOT);

	m.object = OBJECT;
	m.flags = a->flags;
	if (a->flags & MSGF_FORWARDED) /* only the manager may set it */
		m.src = ctx.manager;
	return m;
}

static struct dir entry(unsigned int state)
{
	struct dir d = { .state = state & 7, .owner = OWNER, .served = THIRD };

	if (state == DIR_SHARED)
		d.copyset = BIT(OWNER) | BIT(SHARER) | BIT(THIRD);
	if (state == DIR_EXCLUSIVE)
		d.copyset = BIT(OWNER);
	return d;
}

/* The ranks that a multicast goes to. */
static uint64_t reached(const struct action *a)
{
	uint64_t set = 0;
	unsigned int r;

	for (r = 0; r < 64; r++)
		if (a->mask >> r & 1 && r != a->except && r != a->msg.req_node)
			set |= BIT(r);
	return set;
}

static void check_names(const struct msg *m, const struct ask *a)
{
	ck_assert_uint_eq(m->version, WIRE_VERSION);
	ck_assert_uint_eq(m->src, ME);
	ck_assert_uint_eq(m->object, OBJECT);
	ck_assert_uint_eq(m->req_node, a->rank);
	ck_assert_uint_eq(m->req_slot, SLOT);
	ck_assert_uint_eq(m->home, m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ ? 0 : ME);
	ck_assert_uint_eq(m->aux, 0);
	ck_assert_uint_eq(m->value, 0);
}

/* No rank has touched the block: the requester gets it alone, or becomes the home. */
static void check_first(unsigned int state, const struct ask *a, const struct dir *d,
			const struct actions *out)
{
	const struct msg *m = &out->v[0].msg;

	ck_assert_uint_eq(m->dst, a->rank);
	ck_assert_uint_eq(d->owner, a->rank);
	ck_assert_uint_eq(d->served, a->rank);
	check_names(m, a);
	if (state == DIR_UNTOUCHED && a->flags & MSGF_FIRST_TOUCH && a->rank != ME) {
		ck_assert_str_eq(unit_text(out), "HOME");
		ck_assert_uint_eq(m->op, a->type);
		ck_assert_uint_eq(d->state, DIR_MOVED);
		ck_assert_uint_eq(d->phase, DIR_HOMING);
		return;
	}
	ck_assert_str_eq(unit_text(out), "GRANT");
	ck_assert_uint_eq(m->op, GRANT_WRITE);
	ck_assert_uint_eq(m->flags, MSGF_ZERO);
	ck_assert_int_eq(m->count, 0);
	ck_assert_uint_eq(d->state, DIR_EXCLUSIVE);
	ck_assert_uint_eq(d->phase, DIR_BUSY);
	ck_assert_uint_eq(d->copyset, BIT(a->rank));
}

static void check_copy(const struct dir *was, const struct ask *a, const struct dir *d,
		       const struct actions *out)
{
	bool beside = was->state == DIR_SHARED && a->rank != ME;

	ck_assert_str_eq(unit_text(out), "FWD_READ");
	check_names(&out->v[0].msg, a);
	ck_assert_uint_eq(out->v[0].msg.dst, OWNER);
	ck_assert_uint_eq(out->v[0].msg.flags, 0);
	ck_assert_uint_eq(d->state, DIR_SHARED);
	ck_assert_uint_eq(d->phase, beside ? DIR_IDLE : DIR_BUSY);
	ck_assert_uint_eq(d->readers, beside);
	ck_assert_uint_eq(d->owner, a->rank == ME ? ME : OWNER);
	ck_assert_uint_eq(d->served, a->rank);
	ck_assert_uint_eq(d->copyset, was->copyset | BIT(a->rank));
}

static void check_take(const struct dir *was, const struct ask *a, const struct dir *d,
		       const struct actions *out)
{
	bool has = a->rank == OWNER || (a->flags & MSGF_HAS && was->copyset >> a->rank & 1);
	uint64_t losers = was->copyset & ~BIT(a->rank) & ~(has ? 0 : BIT(OWNER));
	const struct msg *m = &out->v[out->n - 1].msg;
	char text[40];

	snprintf(text, sizeof(text), "%s%s", losers ? "mcast INV " : "",
		 has ? "GRANT" : "FWD_WRITE");
	ck_assert_str_eq(unit_text(out), text);
	if (losers) {
		check_names(&out->v[0].msg, a);
		ck_assert_uint_eq(reached(&out->v[0]), losers);
	}
	check_names(m, a);
	ck_assert_uint_eq(m->dst, has ? a->rank : OWNER);
	ck_assert_uint_eq(m->op, GRANT_WRITE);
	ck_assert_uint_eq(m->flags, 0);
	ck_assert_int_eq(m->count, __builtin_popcountll(losers));
	ck_assert_uint_eq(d->state, DIR_EXCLUSIVE);
	ck_assert_uint_eq(d->phase, DIR_BUSY);
	ck_assert_uint_eq(d->owner, a->rank);
	ck_assert_uint_eq(d->served, a->rank);
	ck_assert_uint_eq(d->copyset, BIT(a->rank));
}

static void check_forward(const struct dir *was, const struct ask *a, const struct dir *d,
			  const struct actions *out)
{
	struct dir after = *was;

	after.copyset++;
	ck_assert_str_eq(unit_text(out), wire_name(a->type));
	check_names(&out->v[0].msg, a);
	ck_assert_uint_eq(out->v[0].msg.dst, OWNER);
	ck_assert_uint_eq(out->v[0].msg.flags, (a->flags & ~MSGF_FIRST_TOUCH) | MSGF_FORWARDED);
	ck_assert_mem_eq(d, &after, sizeof(*d));
}

static bool absurd(const struct dir *d, const struct ask *a)
{
	if (d->state == DIR_MOVED)
		return a->flags & MSGF_FORWARDED; /* the home does not forward */
	if (d->state == DIR_LEFT)
		return true; /* no rank in this test takes this one for the home */
	if (a->rank != OWNER)
		return false;
	return d->state == DIR_EXCLUSIVE || (d->state == DIR_SHARED && a->type == MSG_READ_REQ);
}

/* The mark of a read that is served beside others. */
static uint32_t mark_of(uint16_t rank)
{
	return queue_at(&ctx.queue, queue_number(&ctx.queue, rank, SLOT))->mark;
}

/* The manager cannot know what the requester has, so it is not blamed. */
static int refusal(const struct dir *d, const struct ask *a)
{
	bool innocent =
		a->flags & MSGF_FORWARDED && (d->state == DIR_SHARED || d->state == DIR_EXCLUSIVE);

	return innocent ? -ESTALE : -EBADMSG;
}

static void check_served(const struct dir *was, const struct ask *a, const struct dir *d,
			 const struct actions *out)
{
	switch (was->state) {
	case DIR_UNTOUCHED:
	case DIR_PLACED: check_first(was->state, a, d, out); break;
	case DIR_MOVED: check_forward(was, a, d, out); break;
	default:
		if (a->type == MSG_READ_REQ)
			check_copy(was, a, d, out);
		else
			check_take(was, a, d, out);
		break;
	}
}

/* A queued request keeps its type, flags, rank and slot. */
static void check_queued(unsigned int state, const struct ask *a)
{
	struct dir d = entry(state), was = d;
	struct msg m = message(a), over = unit_msg(MSG_DONE, THIRD, ME, THIRD, 0), turn;
	const struct action *resume;
	struct actions out;

	memset(nodes, 0, sizeof(nodes));
	d.phase = DIR_BUSY;
	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	over.object = OBJECT;
	ck_assert_int_eq(dir_step(&ctx, &d, &over, &out), 0);
	ck_assert_str_eq(unit_text(&out), "resume");
	resume = &out.v[0];
	ck_assert_uint_eq(resume->node, a->rank);
	ck_assert_uint_eq(resume->slot, SLOT);
	ck_assert_uint_eq(resume->msg.type, MSG_RESUME);
	ck_assert_uint_eq(resume->msg.src, ME);
	ck_assert_uint_eq(resume->msg.dst, ME);
	ck_assert_uint_eq(resume->msg.object, OBJECT);
	ck_assert_uint_eq(resume->msg.req_node, a->rank);
	ck_assert_uint_eq(resume->msg.req_slot, SLOT);
	ck_assert_uint_eq(d.phase, DIR_TURN);
	turn = resume->msg;
	ck_assert_int_eq(dir_step(&ctx, &d, &turn, &out), 0);
	ck_assert_uint_eq(d.tail, 0);
	if (absurd(&was, a)) {
		ck_assert_uint_eq(out.n, 0);
		ck_assert_uint_eq(d.phase, DIR_IDLE);
	} else {
		check_served(&was, a, &d, &out);
	}
}

UNIT_TEST(every_request_in_every_state)
{
	static const uint16_t ranks[] = { ME, OWNER, SHARER, THIRD, 0, 63 };
	unsigned int state, r, write, flags;

	for (state = 0; state < DIR_STATES; state++)
		for (r = 0; r < 6; r++)
			for (write = 0; write < 2; write++)
				for (flags = 0; flags < 8; flags++) {
					struct ask a = {
						.rank = ranks[r],
						.type = write ? MSG_WRITE_REQ : MSG_READ_REQ,
						.flags = (uint8_t)((flags & 3) |
								   (flags & 4 ? MSGF_FORWARDED : 0))
					};
					struct dir d = entry(state), was = d;
					struct msg m = message(&a);
					struct actions out;
					int err;

					queue_at(&ctx.queue, queue_number(&ctx.queue, a.rank, SLOT))
						->mark = 0;
					err = dir_step(&ctx, &d, &m, &out);
					if (absurd(&was, &a)) {
						ck_assert_int_eq(err, refusal(&was, &a));
						ck_assert_mem_eq(&d, &was, sizeof(d));
						ck_assert_uint_eq(mark_of(a.rank), 0);
					} else {
						ck_assert_int_eq(err, 0);
						check_served(&was, &a, &d, &out);
					}
					check_queued(state, &a);
				}
}

/* A rank repeats a request that is in line, directly or through the manager. */
UNIT_TEST(a_request_queues_once)
{
	unsigned int flags;

	for (flags = 0; flags < 2; flags++) {
		struct ask a = { .rank = SHARER,
				 .type = MSG_WRITE_REQ,
				 .flags = flags ? MSGF_FORWARDED : 0 };
		struct dir d = entry(DIR_EXCLUSIVE), was;
		struct msg m = message(&a);
		struct actions out;

		memset(nodes, 0, sizeof(nodes));
		d.phase = DIR_BUSY;
		ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
		was = d;
		ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), flags ? -ESTALE : -EBADMSG);
		ck_assert_mem_eq(&d, &was, sizeof(d));
	}
}

/* Queue entries are numbered by rank and slot, at full width. */
UNIT_TEST(the_rest_of_a_line_stays)
{
	struct ask first = { .rank = SHARER, .type = MSG_WRITE_REQ },
		   second = { .rank = 63, .type = MSG_WRITE_REQ };
	struct dir d = entry(DIR_EXCLUSIVE);
	struct msg m = message(&first), n = message(&second),
		   over = unit_msg(MSG_DONE, THIRD, ME, THIRD, 0), turn;
	uint32_t last = queue_number(&ctx.queue, second.rank, SLOT);
	struct actions out;

	memset(nodes, 0, sizeof(nodes));
	d.phase = DIR_BUSY;
	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	ck_assert_int_eq(dir_step(&ctx, &d, &n, &out), 0);
	ck_assert_uint_gt(last, UINT16_MAX);
	ck_assert_uint_eq(d.tail, last);
	over.object = OBJECT;
	ck_assert_int_eq(dir_step(&ctx, &d, &over, &out), 0);
	turn = out.v[0].msg;
	ck_assert_int_eq(dir_step(&ctx, &d, &turn, &out), 0);
	ck_assert_uint_eq(d.owner, SHARER);
	ck_assert_uint_eq(d.tail, last);
}

/* The messages that each phase accepts, their senders, and the next phase. */
UNIT_TEST(every_message_in_every_phase)
{
	unsigned int phase, type, from;

	for (phase = 0; phase < DIR_PHASES; phase++)
		for (type = 0; type < MSG_TYPES; type++)
			for (from = 0; from < 2; from++) {
				struct dir d = entry(DIR_EXCLUSIVE), was;
				struct ask a = { .rank = from ? THIRD : SHARER,
						 .type = (uint8_t)type };
				struct msg m = message(&a);
				struct actions out;
				bool request = type == MSG_READ_REQ || type == MSG_WRITE_REQ, ok;
				int err;

				memset(nodes, 0, sizeof(nodes));
				d.phase = phase & 7;
				was = d;
				/*
				 * Only the manager itself hands over unasked; `follow` is 0 here.
				 */
				ok = request || type == MSG_PLACE || type == MSG_CLAIM ||
					(type == MSG_DONE && phase == DIR_BUSY && from) ||
					(type == MSG_DONE && phase == DIR_HANDING && from) ||
					(type == MSG_HOME_ACK && phase == DIR_HOMING && from);
				err = dir_step(&ctx, &d, &m, &out);
				/* RESUME is valid with an empty line */
				ck_assert_int_eq(err, ok ? 0 : -EBADMSG);
				if (!ok) {
					ck_assert_mem_eq(&d, &was, sizeof(d));
				} else if (request) {
					ck_assert_uint_eq(d.phase,
							  phase == DIR_IDLE ? DIR_BUSY : phase);
					ck_assert_uint_eq(!d.tail, phase == DIR_IDLE);
				} else if (type == MSG_PLACE || type == MSG_CLAIM) {
					ck_assert_int_eq(unit_sent(&out, MSG_REPLY)->count, -EBUSY);
					ck_assert_mem_eq(&d, &was, sizeof(d));
				} else if (phase == DIR_HANDING) {
					ck_assert_str_eq(unit_text(&out), "ADOPT");
					ck_assert_uint_eq(d.phase, DIR_HOMING);
					ck_assert_uint_eq(d.state, DIR_MOVED);
				} else {
					ck_assert_uint_eq(d.phase, DIR_IDLE);
					ck_assert_uint_eq(out.n, 0);
				}
			}
}

/* A turn is accepted only if one was asked for. */
UNIT_TEST(nobody_takes_a_turn_out_of_turn)
{
	unsigned int phase;

	for (phase = 0; phase < DIR_PHASES; phase++) {
		struct dir d = entry(DIR_EXCLUSIVE);
		struct ask a = { .rank = SHARER, .type = MSG_READ_REQ };
		struct msg m = message(&a), turn = unit_msg(MSG_RESUME, ME, ME, SHARER, SLOT);
		struct actions out;

		memset(nodes, 0, sizeof(nodes));
		d.phase = DIR_BUSY;
		ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
		d.phase = phase & 7;
		ck_assert_int_eq(dir_step(&ctx, &d, &turn, &out), phase == DIR_TURN ? 0 : -EBADMSG);
	}
}

UNIT_TEST(a_block_is_marked_as_migratory_by_one_pattern_only)
{
	unsigned int i;

	for (i = 0; i < 32; i++) {
		bool sharer = i & 1, has = i & 2, last = i & 4, more = i & 8, large = i & 16;
		struct dir_ctx c = ctx;
		struct dir d = { .state = DIR_SHARED, .owner = OWNER };
		struct ask a = { .type = MSG_WRITE_REQ,
				 .rank = sharer ? SHARER : OWNER,
				 .flags = has ? MSGF_HAS : 0 };
		struct msg m = message(&a);
		struct actions out;

		/* A coarse copyset does not tell. */
		c.nnodes = large ? 65 : 64;
		d.served = last ? a.rank : THIRD;
		d.copyset = set_of(OWNER, large + 1) | set_of(SHARER, large + 1) |
			(more ? set_of(THIRD, large + 1) : 0);
		ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
		ck_assert_uint_eq(d.migratory, sharer && has && last && !more && !large);
	}
}

/* The same for an owner that is the only sharer. */
UNIT_TEST(a_block_of_one_rank_does_not_migrate)
{
	struct dir d = {
		.state = DIR_SHARED, .owner = OWNER, .served = OWNER, .copyset = BIT(OWNER)
	};
	struct ask a = { .rank = OWNER, .type = MSG_WRITE_REQ, .flags = MSGF_HAS };
	struct msg m = message(&a);
	struct actions out;

	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "GRANT");
	ck_assert_uint_eq(d.migratory, 0);
}

UNIT_TEST(every_sixteenth_reader_of_a_migratory_block_gets_a_copy)
{
	unsigned int sample, migratory;

	for (sample = 0; sample < 16; sample++)
		for (migratory = 0; migratory < 2; migratory++) {
			struct dir d = entry(DIR_EXCLUSIVE), shared = entry(DIR_SHARED);
			struct ask a = { .rank = SHARER, .type = MSG_READ_REQ },
				   b = { .rank = 0, .type = MSG_READ_REQ };
			struct msg m = message(&a), n = message(&b);
			bool whole = migratory && sample < 15;
			struct actions out;

			d.migratory = shared.migratory = migratory & 1;
			d.sample = shared.sample = sample & 15;
			ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
			ck_assert_str_eq(unit_text(&out), whole ? "FWD_MIGRATE" : "FWD_READ");
			ck_assert_uint_eq(d.sample, (sample + migratory) % 16);
			ck_assert_uint_eq(d.migratory, migratory);
			/* Two reads without a write between them: the row ends. */
			ck_assert_int_eq(dir_step(&ctx, &shared, &n, &out), 0);
			ck_assert_str_eq(unit_text(&out), "FWD_READ");
			ck_assert_uint_eq(shared.migratory, 0);
			ck_assert_uint_eq(shared.sample, sample);
		}
}

UNIT_TEST(placing_is_answered_in_full)
{
	unsigned int state, phase, where;

	for (state = 0; state < DIR_STATES; state++)
		for (phase = 0; phase < DIR_PHASES; phase++)
			for (where = 0; where < 66; where++) {
				struct dir d = entry(state), was;
				struct ask a = { .rank = SHARER, .type = MSG_PLACE };
				struct msg m = message(&a), reply;
				bool free = phase == DIR_IDLE &&
					(state == DIR_UNTOUCHED || state == DIR_PLACED);
				struct actions out;

				d.phase = phase & 7;
				was = d;
				m.value = where;
				ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
				ck_assert_str_eq(unit_text(&out), "REPLY");
				reply = out.v[0].msg;
				ck_assert_int_eq(reply.count,
						 where >= 64    ? -EINVAL
							 : free ? 0
								: -EBUSY);
				ck_assert_uint_eq(reply.dst, SHARER);
				ck_assert_uint_eq(reply.src, ME);
				ck_assert_uint_eq(reply.req_node, SHARER);
				ck_assert_uint_eq(reply.req_slot, SLOT);
				ck_assert_uint_eq(reply.object, OBJECT);
				ck_assert_uint_eq(reply.value, 0);
				ck_assert_uint_eq(reply.home, 0);
				if (reply.count) {
					ck_assert_mem_eq(&d, &was, sizeof(d));
				} else {
					ck_assert_uint_eq(d.state,
							  where == ME ? DIR_PLACED : DIR_MOVED);
					ck_assert_uint_eq(d.owner, where == ME ? was.owner : where);
				}
			}
}

/* Values beyond the ranks are refused, however large. */
UNIT_TEST(placing_nowhere_is_refused)
{
	uint64_t values[] = { 64, 0x10000, 0x100000001ull, UINT64_MAX };
	unsigned int i;

	for (i = 0; i < 4; i++) {
		struct dir d = { 0 };
		struct ask a = { .rank = SHARER, .type = MSG_PLACE };
		struct msg m = message(&a);
		struct actions out;

		m.value = values[i];
		ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
		ck_assert_int_eq(out.v[0].msg.count, -EINVAL);
		ck_assert_uint_eq(d.state, DIR_UNTOUCHED);
	}
}

UNIT_TEST(who_is_made_the_home_serves_itself)
{
	unsigned int state, phase, op, mine;

	for (state = 0; state < DIR_STATES; state++)
		for (phase = 0; phase < DIR_PHASES; phase++)
			for (op = 0; op < MSG_TYPES; op++)
				for (mine = 0; mine < 2; mine++) {
					struct dir d = entry(state), was;
					struct msg m = unit_msg(MSG_HOME, SHARER, ME,
								mine ? ME : THIRD, SLOT);
					struct ask a = { .rank = ME };
					struct actions out;
					bool ok = state == DIR_UNTOUCHED && phase == DIR_IDLE &&
						mine && (op == MSG_READ_REQ || op == MSG_WRITE_REQ);

					d.phase = phase & 7;
					was = d;
					m.op = (uint8_t)op;
					m.object = OBJECT;
					ck_assert_int_eq(dir_step(&elsewhere, &d, &m, &out),
							 ok ? 0 : -EBADMSG);
					if (!ok) {
						ck_assert_mem_eq(&d, &was, sizeof(d));
						continue;
					}
					ck_assert_str_eq(unit_text(&out), "HOME_ACK GRANT");
					check_names(&out.v[0].msg, &a);
					check_names(&out.v[1].msg, &a);
					ck_assert_uint_eq(out.v[0].msg.dst, SHARER);
					ck_assert_uint_eq(out.v[1].msg.dst, ME);
					ck_assert_uint_eq(out.v[1].msg.flags, MSGF_ZERO);
					ck_assert_uint_eq(d.owner, ME);
					ck_assert_uint_eq(d.state, DIR_EXCLUSIVE);
				}
}

UNIT_SUITE("dir_rules")

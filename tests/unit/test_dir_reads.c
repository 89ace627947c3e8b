// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_dir_reads.c - core/dir: reads of a block with read copies, which are served beside each
 * other.
 */
#include "core.h"

#include "core/dir.h"

#define RANKS 8
#define SLOTS 4
#define OBJECT 0x87654321u

static struct queue_entry nodes[RANKS * SLOTS];
static const struct dir_ctx ctx = { .me = 0,
				    .nnodes = RANKS,
				    .queue = { .entries = nodes, .nslots = SLOTS } };

/* Rank 1 wrote the block, and it and rank 7 have copies. */
static struct dir shared(void)
{
	memset(nodes, 0, sizeof(nodes));
	return (struct dir){ .state = DIR_SHARED, .owner = 1, .served = 7, .copyset = 0x82 };
}

static int take(struct dir *d, uint8_t type, uint16_t rank, uint16_t slot, struct actions *out)
{
	struct msg m = unit_msg(type, rank, 0, rank, slot);

	m.object = OBJECT;
	return dir_step(&ctx, d, &m, out);
}

static void turn(struct dir *d, struct actions *out)
{
	struct msg m = unit_action(out, ACT_RESUME, 0)->msg;

	ck_assert_int_eq(dir_step(&ctx, d, &m, out), 0);
}

UNIT_TEST(reads_of_copies_do_not_wait_for_each_other)
{
	struct dir d = shared();
	struct actions out;
	uint16_t r;

	for (r = 2; r < 6; r++) {
		ck_assert_int_eq(take(&d, MSG_READ_REQ, r, 1, &out), 0);
		ck_assert_str_eq(unit_text(&out), "FWD_READ");
		ck_assert_uint_eq(out.v[0].msg.dst, 1);
		ck_assert_uint_eq(out.v[0].msg.req_node, r);
		ck_assert_uint_eq(d.phase, DIR_IDLE);
		ck_assert_uint_eq(d.readers, r - 1u);
		ck_assert(!dir_quiet(&d));
	}
	ck_assert_uint_eq(d.copyset, 0xbe);
	for (r = 5; r > 1; r--) {
		ck_assert_int_eq(take(&d, MSG_DONE, r, 1, &out), 0);
		ck_assert_uint_eq(out.n, 0);
	}
	ck_assert(dir_quiet(&d));
}

/* _i: the home has the newest copy, and has not written it (DIR_SHARED), or has. */
UNIT_LOOP_TEST(a_home_that_sends_the_contents_need_not_hear_that_they_came, 0, 2)
{
	struct dir_ctx c = ctx;
	struct dir d = shared();
	struct msg m = unit_msg(MSG_READ_REQ, 2, 0, 2, 1), done = unit_msg(MSG_DONE, 0, 0, 2, 1);
	struct actions out;

	c.brief = true;
	m.object = done.object = OBJECT;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0); /* rank 1 sends them */
	ck_assert_uint_eq(out.v[0].msg.count, 0);
	d = shared();
	d.owner = 0;
	d.state = _i ? DIR_EXCLUSIVE : DIR_SHARED;
	m.flags = MSGF_CONFIRM;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(out.v[0].msg.count, 0);
	d = shared();
	d.owner = 0;
	d.state = _i ? DIR_EXCLUSIVE : DIR_SHARED;
	m.flags = 0;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	ck_assert_uint_eq(out.v[0].msg.count, 1);
	ck_assert(!dir_quiet(&d));
	/* then the home says that it has sent them; a reader that has said so itself is bad */
	done.req_node = 0;
	ck_assert_int_eq(dir_step(&c, &d, &done, &out), -EBADMSG);
	done.req_node = 0x305;
	ck_assert_int_eq(dir_step(&c, &d, &done, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_BLAME, 0)->node, 0x305);
	ck_assert(!dir_quiet(&d));
	done.req_node = 2;
	ck_assert_int_eq(dir_step(&c, &d, &done, &out), 0);
	ck_assert(dir_quiet(&d));
	/* the home itself reads */
	d = shared();
	m.src = m.req_node = 0;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(out.v[0].msg.count, 0);
	/* a host whose device reads the contents later has no brief reads */
	d = shared();
	d.owner = 0;
	m.src = m.req_node = 2;
	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	ck_assert_uint_eq(out.v[0].msg.count, 0);
}

UNIT_TEST(a_home_is_quiet_if_nothing_is_under_way)
{
	unsigned int phase, readers;

	for (phase = 0; phase < DIR_PHASES; phase++)
		for (readers = 0; readers < 2; readers++) {
			const struct dir d = { .state = DIR_SHARED,
					       .phase = phase & 7,
					       .readers = readers };

			ck_assert_int_eq(dir_quiet(&d), phase == DIR_IDLE && !readers);
		}
}

/*
 * Queue entries of other queues may follow those of this job, and do if there are fewer slots than
 * a message can name.
 */
UNIT_TEST(who_is_not_in_the_job_has_read_nothing)
{
	const struct dir_ctx few = { .me = 0,
				     .nnodes = 4,
				     .queue = { .entries = nodes, .nslots = SLOTS } };
	struct dir d = shared();
	struct msg m = unit_msg(MSG_DONE, 4, 0, 4, 1);
	struct actions out;
	uint32_t node;

	d.readers = 1;
	m.object = OBJECT;
	for (node = 1; node <= RANKS * SLOTS; node++)
		ck_assert(queue_mark(&few.queue, node, OBJECT));
	ck_assert_int_eq(dir_step(&few, &d, &m, &out), -EBADMSG);
	m.src = m.req_node = 5;
	ck_assert_int_eq(dir_step(&few, &d, &m, &out), -EBADMSG);
	m.src = m.req_node = 2;
	m.req_slot = SLOTS;
	ck_assert_int_eq(dir_step(&few, &d, &m, &out), -EBADMSG);
	m.req_slot = SLOTS + 1;
	ck_assert_int_eq(dir_step(&few, &d, &m, &out), -EBADMSG);
	ck_assert_uint_eq(d.readers, 1);
	m.req_slot = SLOTS - 1;
	ck_assert_int_eq(dir_step(&few, &d, &m, &out), 0);
}

/* A block migrates between two ranks, rank 0 or others, but not if no other rank has a copy. */
UNIT_TEST(a_block_migrates_from_another)
{
	struct msg m = unit_msg(MSG_WRITE_REQ, 2, 0, 2, 1),
		   own = unit_msg(MSG_WRITE_REQ, 0, 0, 0, 1);
	struct dir d = shared();
	struct actions out;

	d = (struct dir){ .state = DIR_SHARED, .owner = 0, .served = 2, .copyset = 5 };
	m.object = own.object = OBJECT;
	m.flags = own.flags = MSGF_HAS;
	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	ck_assert_uint_eq(d.migratory, 1);
	d = (struct dir){ .state = DIR_SHARED, .owner = 0, .served = 0, .copyset = 1 };
	ck_assert_int_eq(dir_step(&ctx, &d, &own, &out), 0);
	ck_assert_uint_eq(d.migratory, 0);
}

/* A writer waits for all reads in progress, and later requests wait for the writer. */
UNIT_TEST(a_writer_waits_for_the_last_reader)
{
	struct dir d = shared();
	struct actions out;

	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 3, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_WRITE_REQ, 4, 0, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 5, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 6, 0, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 3, 0, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 0, &out), 0);
	ck_assert_str_eq(unit_text(&out), "resume");
	turn(&d, &out);
	ck_assert_str_eq(unit_text(&out), "mcast INV FWD_WRITE");
	ck_assert_int_eq(out.v[1].msg.count, 3);
	/* The first read after a write is alone; the next ones are served together. */
	ck_assert_int_eq(take(&d, MSG_DONE, 4, 0, &out), 0);
	turn(&d, &out);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	ck_assert_uint_eq(d.phase, DIR_BUSY);
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 5, 0, &out), 0);
	turn(&d, &out);
	ck_assert_str_eq(unit_text(&out), "FWD_READ resume");
	turn(&d, &out);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	ck_assert_uint_eq(d.readers, 2);
	ck_assert_uint_eq(d.phase, DIR_IDLE);
	ck_assert_uint_eq(d.tail, 0);
}

/* A request that must be alone gets no turn before it can take it. */
UNIT_TEST(a_writer_behind_a_read_gets_no_turn_before_its_end)
{
	struct dir d = shared();
	struct actions out;

	d.phase = DIR_BUSY;
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_WRITE_REQ, 3, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 7, 0, &out), 0);
	turn(&d, &out);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	ck_assert_uint_eq(d.phase, DIR_IDLE);
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 0, &out), 0);
	turn(&d, &out);
	ck_assert_str_eq(unit_text(&out), "mcast INV FWD_WRITE");
}

/* A request that must be alone stays first in line if its turn comes too early. */
UNIT_TEST(a_turn_may_come_too_early)
{
	struct dir d = shared();
	struct actions out, late;

	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_WRITE_REQ, 3, 0, &out), 0); /* the queue is not empty now */
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 0, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 0, &out), 0);
	turn(&d, &out);
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 4, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 3, 0, &late), 0);
	turn(&d, &late); /* the home's own read */
	ck_assert_str_eq(unit_text(&late), "FWD_READ");
	ck_assert_int_eq(take(&d, MSG_DONE, 0, 0, &out), 0);
	turn(&d, &out);
	ck_assert_uint_eq(d.readers, 1);
	/* The home's read waits behind another read, until the first DONE. */
	d.owner = 1;
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 0, 1, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	d.phase = DIR_TURN;
	ck_assert_int_eq(take(&d, MSG_RESUME, 0, 0, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(d.phase, DIR_IDLE);
	ck_assert_uint_ne(d.tail, 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 4, 0, &out), 0);
	ck_assert_str_eq(unit_text(&out), "resume");
	/* DONE comes in another request's turn: no second turn is asked for. */
	d = shared();
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 0, &out), 0);
	ck_assert_int_eq(take(&d, MSG_WRITE_REQ, 3, 0, &out), 0);
	d.phase = DIR_TURN;
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 0, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&d, MSG_RESUME, 0, 0, &out), 0);
	ck_assert_str_eq(unit_text(&out), "mcast INV FWD_WRITE");
}

UNIT_TEST(only_who_reads_is_done_and_once)
{
	struct dir d = shared(), other = shared(), before;
	struct msg m = unit_msg(MSG_DONE, 2, 0, 2, 1);
	struct actions out;

	m.object = OBJECT;
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 1, &out), 0);
	before = d;
	ck_assert_int_eq(take(&d, MSG_DONE, 3, 1, &out), -EBADMSG);
	ck_assert_int_eq(take(&d, MSG_DONE, 1, 1, &out), -EBADMSG);
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 0, &out), -EBADMSG);
	ck_assert_int_eq(take(&d, MSG_DONE, 2, SLOTS, &out), -EBADMSG);
	ck_assert_int_eq(take(&d, MSG_DONE, RANKS, 1, &out), -EBADMSG);
	m.object ^= 0x10000;
	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), -EBADMSG);
	ck_assert_int_eq(take(&other, MSG_DONE, 2, 1, &out), -EBADMSG);
	ck_assert_mem_eq(&d, &before, sizeof(d));
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 1, &out), 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 1, &out), -EBADMSG);
}

/*
 * The next request of a slot may overtake the confirmation of the one before: it is served, but
 * alone.
 */
UNIT_TEST(a_slot_may_ask_again_before_its_confirmation_is_here)
{
	struct dir d = shared(),
		   other = { .state = DIR_SHARED, .owner = 1, .served = 7, .copyset = 0x82 };
	struct msg m = unit_msg(MSG_READ_REQ, 2, 0, 2, 1);
	struct actions out;

	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 1, &out), 0);
	m.object = OBJECT + 0x10000;
	ck_assert_int_eq(dir_step(&ctx, &other, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	ck_assert_uint_eq(other.phase, DIR_BUSY);
	ck_assert_uint_eq(other.readers, 0);
	/* It is for the same block, after a drop: it waits for the confirmation. */
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 1, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&d, MSG_DONE, 2, 1, &out), 0);
	turn(&d, &out);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	ck_assert_uint_eq(d.readers, 1);
	m.type = MSG_DONE;
	ck_assert_int_eq(dir_step(&ctx, &other, &m, &out), 0);
	ck_assert(dir_quiet(&other));
}

UNIT_TEST(readers_are_bounded)
{
	struct dir d = shared();
	struct actions out;

	d.readers = DIR_READERS - 1;
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 0, &out), 0);
	ck_assert_uint_eq(d.readers, DIR_READERS);
	ck_assert_int_eq(take(&d, MSG_READ_REQ, 3, 0, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(d.readers, DIR_READERS);
	ck_assert_int_eq(take(&d, MSG_DONE, 3, 0, &out), -EBADMSG);
}

/* Which rank sends copies, and which reads are still alone. */
UNIT_TEST(a_home_that_reads_becomes_the_owner)
{
	static const uint8_t states[] = { DIR_SHARED, DIR_EXCLUSIVE };
	struct actions out;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct dir d = shared();

		d.state = states[i] & 7;
		ck_assert_int_eq(take(&d, MSG_READ_REQ, 0, 0, &out), 0);
		ck_assert_str_eq(unit_text(&out), "FWD_READ");
		ck_assert_uint_eq(out.v[0].msg.dst, 1);
		ck_assert_uint_eq(d.owner, 0);
		ck_assert_uint_eq(d.phase, DIR_BUSY);
		ck_assert_int_eq(take(&d, MSG_DONE, 0, 0, &out), 0);
		ck_assert_int_eq(take(&d, MSG_READ_REQ, 2, 0, &out), 0);
		ck_assert_uint_eq(out.v[0].msg.dst, 0);
		ck_assert_uint_eq(d.owner, 0);
		ck_assert_uint_eq(d.readers, 1);
	}
}

/*
 * A home that reads and then writes makes a block migrate as any other rank does, though it has
 * become the owner.
 */
UNIT_TEST(a_block_may_migrate_to_its_home)
{
	unsigned int i;

	for (i = 0; i < 8; i++) {
		struct dir d = shared();
		bool more = i & 1, last = i & 2, home = i & 4;
		struct msg m = unit_msg(MSG_WRITE_REQ, home ? 0 : 1, 0, home ? 0 : 1, 0);
		struct actions out;

		d.owner = home ? 0 : 1;
		d.copyset = more ? 0x83 : 0x3;
		d.served = last ? m.src & 1 : 7;
		m.flags = MSGF_HAS;
		ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
		ck_assert_uint_eq(d.migratory, home && last && !more);
	}
}

UNIT_SUITE("dir_reads")

// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_dir_push.c - core/dir, core/push, core/dispatch: which grants request that the writer pushes
 * the block.
 */
#include "core.h"

#include "core/dispatch.h"

#define RANKS 8
#define SLOTS 4
#define OBJECT 0x87654321u
#define MANAGER 6
#define HOME 0
#define USER 2
#define OTHER 3

static struct queue_entry nodes[RANKS * SLOTS];
static uint16_t forwarded;
static struct push push;
static struct dir d;
static struct actions out;
static struct dir_ctx ctx;

static void begin(void)
{
	memset(nodes, 0, sizeof(nodes));
	push = (struct push){ 0 };
	d = (struct dir){
		.state = DIR_EXCLUSIVE, .owner = USER, .served = USER, .copyset = 1u << USER
	};
	ctx = (struct dir_ctx){ .me = HOME,
				.nnodes = RANKS,
				.manager = MANAGER,
				.follow = DIR_FOLLOW,
				.pushes = PUSH_AFTER,
				.push = &push,
				.queue = { .entries = nodes, .nslots = SLOTS },
				.forwarded = &forwarded };
}

static struct msg from(uint8_t type, uint16_t rank, uint8_t flags)
{
	struct msg m = unit_msg(type, rank, HOME, rank, 1);

	m.object = OBJECT;
	m.flags = flags;
	return m;
}

static void done(uint16_t rank)
{
	struct msg m = from(MSG_DONE, rank, 0);

	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
}

/* Handle a request and its DONE. */
static void use(uint8_t type, uint16_t rank, uint8_t flags)
{
	struct msg m = from(type, rank, flags);

	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	done(rank);
}

/* A rank writes, with or without a copy to read: is it told to push? */
static bool told(uint16_t rank, bool has)
{
	struct msg m = from(MSG_WRITE_REQ, rank, has ? MSGF_HAS : 0);
	const struct msg *grant, *data;
	bool is;

	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	grant = unit_sent(&out, MSG_GRANT);
	data = unit_sent(&out, MSG_FWD_WRITE);
	ck_assert((grant != NULL) != (data != NULL));
	is = grant && grant->flags & MSGF_PUSH;
	ck_assert(!data || !data->flags);
	ck_assert(!grant || !(grant->flags & ~MSGF_PUSH));
	ck_assert_uint_eq(push.told, is);
	done(rank);
	return is;
}

static void read_back(void)
{
	use(MSG_READ_REQ, HOME, 0);
}

static void pushed(void)
{
	use(MSG_READ_REQ, HOME, MSGF_PUSH);
}

/* Repeat until the writer is told to push, and has pushed. */
static void learn(void)
{
	begin();
	read_back();
	ck_assert(!told(USER, true));
	read_back();
	ck_assert(told(USER, true));
	pushed();
}

UNIT_TEST(a_writer_is_told_to_push_what_the_home_reads_again_and_again)
{
	unsigned int i;

	learn();
	for (i = 1; i < PUSH_FEW; i++) {
		ck_assert(told(USER, true));
		pushed();
	}
	/* The writer is not told once. The home misses the push, so more are requested. */
	ck_assert(!told(USER, true));
	read_back();
	for (i = 0; i < PUSH_MANY; i++) {
		ck_assert(told(USER, true));
		pushed();
	}
	ck_assert(!told(USER, true));
	read_back();
	for (i = 0; i < PUSH_MANY; i++) {
		ck_assert(told(USER, true));
		pushed();
	}
	ck_assert(!told(USER, true));
}

UNIT_TEST(a_writer_is_not_told_where_nothing_is_pushed)
{
	unsigned int i;

	begin();
	ctx.pushes = 0;
	ctx.push = NULL;
	for (i = 0; i < 8; i++) {
		struct msg m = from(MSG_WRITE_REQ, USER, MSGF_HAS);

		read_back();
		ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->flags, 0);
		done(USER);
	}
}

/*
 * The home does not use the block: no writer is told any more, and the home follows the writer like
 * any other block's.
 */
UNIT_TEST(pushing_ends_when_the_home_does_not_read)
{
	unsigned int i;

	learn();
	for (i = 1; i < PUSH_FEW; i++) {
		ck_assert(told(USER, true));
		pushed();
	}
	ck_assert(!told(USER, true));
	for (i = 0; i < DIR_FOLLOW; i++) {
		struct msg m = from(MSG_WRITE_REQ, USER, MSGF_HAS);

		use(MSG_READ_REQ, OTHER, 0);
		ck_assert_uint_eq(d.phase, DIR_IDLE);
		ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->flags, 0);
		ck_assert_uint_eq(push.reads, 0);
		ck_assert_uint_eq(d.phase, i + 1 < DIR_FOLLOW ? DIR_BUSY : DIR_HANDING);
		done(USER);
	}
	ck_assert_str_eq(unit_text(&out), "MOVE");
}

UNIT_TEST(what_is_pushed_is_no_use_by_the_home)
{
	begin();
	d.uses = 2;
	pushed();
	ck_assert_uint_eq(d.uses, 2);
	ck_assert_uint_eq(d.owner, HOME);
	ck_assert_uint_eq(d.state, DIR_SHARED);
	ck_assert_uint_eq(d.copyset, 1u << HOME | 1u << USER);
	ck_assert_uint_eq(push.reads, 0);
	begin();
	d.uses = 2;
	read_back();
	ck_assert_uint_eq(d.uses, 0);
	ck_assert_uint_eq(push.reads, 1);
}

/*
 * The home had to request the block although the writer was told: the program also synchronises
 * without barriers.
 */
UNIT_TEST(pushing_pauses_when_nothing_is_pushed)
{
	unsigned int i;

	learn();
	for (i = 0; i < 4; i++) {
		ck_assert(told(USER, true));
		read_back();
		ck_assert(!told(USER, true));
		read_back();
	}
}

/* The row of reads ends when a node writes a block that the home has not read. */
UNIT_TEST(a_row_of_reads_has_one_after_each_write)
{
	unsigned int later;

	for (later = 0; later < 2; later++) {
		begin();
		read_back();
		if (later) {
			ck_assert(!told(USER, true));
			read_back();
		}
		ck_assert_uint_eq(told(USER, true), later);
		ck_assert(!told(OTHER, false));
		ck_assert_uint_eq(push.reads, 0);
		ck_assert_uint_eq(push.left, 0);
		read_back();
		ck_assert(!told(USER, false));
		read_back();
		ck_assert(told(USER, true));
	}
}

/*
 * A writer without the contents gets them with the permission; that message has no room for a flag.
 */
UNIT_TEST(only_a_grant_without_contents_says_so)
{
	learn();
	ck_assert(!told(OTHER, false));
	read_back();
	ck_assert(told(OTHER, true));
}

UNIT_TEST(writes_of_the_home_itself_end_nothing)
{
	learn();
	use(MSG_WRITE_REQ, HOME, MSGF_HAS);
	ck_assert_uint_eq(push.told, 0);
	ck_assert_uint_eq(d.migratory, 1); /* pushed, then written: as if the home had read it */
	d.migratory = 0;
	ck_assert(!told(USER, false));
	read_back();
	ck_assert(told(USER, true));
}

/* The reader of a migratory block gets the block; the home of a pushed block gets only a copy. */
UNIT_TEST(a_migratory_block_is_not_pushed)
{
	learn();
	d.migratory = 1;
	ck_assert(!told(USER, true));
	d.migratory = 1;
	pushed();
	ck_assert_uint_eq(d.state, DIR_SHARED);
	ck_assert_uint_eq(d.copyset, 1u << HOME | 1u << USER);
}

/* A queued request keeps the type that it arrived with. */
UNIT_TEST(what_is_pushed_later_is_no_use_either)
{
	struct msg m = from(MSG_WRITE_REQ, OTHER, 0), back = from(MSG_READ_REQ, HOME, MSGF_PUSH),
		   turn;

	begin();
	ck_assert_int_eq(dir_step(&ctx, &d, &m, &out), 0);
	ck_assert_int_eq(dir_step(&ctx, &d, &back, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	done(OTHER);
	turn = unit_action(&out, ACT_RESUME, 0)->msg;
	ck_assert_int_eq(dir_step(&ctx, &d, &turn, &out), 0);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	done(HOME);
	ck_assert_uint_eq(push.reads, 0);
	ck_assert_uint_eq(d.owner, HOME);
}

/* A node that becomes the home knows nothing of the reads of another. */
UNIT_TEST(a_new_home_begins_anew)
{
	struct copy page = { .state = PG_WRITE,
			     .flags = PAGE_OWNER,
			     .home = MANAGER + 1,
			     .push = { .reads = 3, .left = 9 } };
	struct dir entry = { .state = DIR_UNTOUCHED };
	struct dispatch at = { .me = HOME,
			       .nnodes = RANKS,
			       .manager = MANAGER,
			       .pushes = PUSH_AFTER,
			       .queue = { .entries = nodes, .nslots = SLOTS },
			       .page = &page,
			       .dir = &entry };
	struct msg m = unit_msg(MSG_ADOPT, MANAGER, HOME, HOME, 0);

	begin();
	m.object = OBJECT;
	m.value = MANAGER;
	ck_assert_int_eq(dispatch_step(&at, &m, &out), 0);
	ck_assert_uint_eq(entry.state, DIR_EXCLUSIVE);
	ck_assert_uint_eq(page.push.reads, 0);
	ck_assert_uint_eq(page.push.left, 0);
	/* The dispatcher passes the page with the home's counts. */
	entry.owner = entry.served = USER;
	m = from(MSG_READ_REQ, HOME, MSGF_KNOWN);
	ck_assert_int_eq(dispatch_step(&at, &m, &out), 0);
	ck_assert_uint_eq(page.push.reads, 1);
}

UNIT_SUITE("dir_push")

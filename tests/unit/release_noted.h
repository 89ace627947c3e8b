/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * release_noted.h - for test_host_release.c: a host with release blocks that notes each callback in
 * one line of text. "[" takes a lock, "]" drops it. All numbers are wide, so that a value that is
 * cut off on its way shows.
 */
#ifndef UNIT_RELEASE_NOTED_H
#define UNIT_RELEASE_NOTED_H

#include "noted.h"

#include "core/host_release.h"

#include "../core_ops.h"

#define ME 0x102
#define HOME 0x205
#define OTHER 0x306
#define NODES 0x400
#define SLOT 0x107
#define INDEX 0x10001u /* of the block in most tests */
#define BLOCKS (INDEX + 3)
#define OBJECT(index) (0x80000000u + (index))
#define KEY 77
#define ANSWERS 0x20000u
#define RUN 0x180000003 /* the last close, at the beginning of each test */
#define WAITING 40

static struct rel blocks[BLOCKS], *const rel = &blocks[INDEX];
static struct rel_lists lists;
static struct closing closing;
static struct closing_peer peers[NODES];
static struct closing_held waiting[WAITING];
static const struct closing_ctx closes = { .me = ME,
					   .nnodes = NODES,
					   .lists = &lists,
					   .peers = peers,
					   .held = waiting,
					   .nheld = WAITING };
static uint32_t held;
static const char diff_bytes[] = "a diff";

/* What the host does at the next call. */
static struct {
	bool home, sequential, unknown, follows, changed, tells, full;
	bool moves;  /* homes do */
	bool stores; /* a thread stores to the block before it is lowered */
	int missing;
} host;

static struct {
	struct msg about; /* for which find() was called last */
	struct action action;
	size_t size;
	uint16_t writer;
	unsigned int sent;
	bool noticed[2]; /* the block was in a list of notices when its lock was taken; dropped */
} seen;

static void locked(uint32_t key)
{
	ck_assert_uint_eq(held, key);
}

static uint32_t index_of(uint32_t object)
{
	ck_assert_uint_ge(object, OBJECT(0));
	ck_assert_uint_lt(object, OBJECT(BLOCKS));
	return object - OBJECT(0);
}

static int find(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		struct core_place *p)
{
	static const struct dispatch zero;

	locked(0);
	ck_assert_ptr_nonnull(h->ops->rel);
	ck_assert_uint_eq(m->dst, ME);
	seen.about = *m;
	if (host.missing)
		return host.missing;
	if (target == TARGET_CLOSING) {
		ck_assert_uint_eq(number, 0);
		ck_assert_mem_eq(&p->d, &zero, sizeof(zero));
		p->rel.lists = &lists;
	} else {
		ck_assert_int_eq(target, TARGET_BLOCK);
		ck_assert_uint_eq(number, m->object);
		p->d.rel = host.sequential ? NULL : &blocks[index_of(number)];
		p->d.page = NULL;
		p->unknown = host.unknown;
		p->d.rel_ctx = &p->rel;
		p->rel = (struct rel_ctx){ .me = ME,
					   .nnodes = h->nnodes,
					   .home = host.home ? ME : HOME,
					   .run = 1,
					   .ended = 2,
					   .tells = host.tells,
					   .follow = host.moves,
					   .lists = &lists,
					   .blocks = blocks,
					   .index = index_of(number) };
		p->key = KEY;
	}
	p->d.closing = &closing;
	p->d.closes = &closes;
	return 0;
}

static void lock(struct core_host *h, uint32_t key)
{
	(void)h;
	locked(0);
	held = key;
	seen.noticed[0] = rel->noticed;
	note("[");
}

static void unlock(struct core_host *h, uint32_t key)
{
	(void)h;
	locked(key);
	held = 0;
	seen.noticed[1] = rel->noticed;
	note("]");
}

static uint32_t now(struct core_host *h)
{
	(void)h;
	return 0;
}

static bool again(struct core_host *h, uint32_t object, uint8_t prot)
{
	(void)h;
	locked(KEY);
	ck_assert_uint_eq(object, OBJECT(INDEX));
	note("again %u", prot);
	return host.follows;
}

static uint32_t answers(struct core_host *h, uint16_t slot)
{
	(void)h;
	locked(KEY);
	return ANSWERS + slot;
}

static void leaves(struct core_host *h, uint32_t object)
{
	(void)h;
	locked(KEY);
	ck_assert_uint_eq(object, OBJECT(INDEX));
	note("leaves");
}

static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *acts)
{
	(void)h, (void)m, (void)acts;
	if (err)
		note("refused %d", err);
}

static void damaged(struct core_host *h, const struct msg *about, enum page_event ev, uint8_t state)
{
	(void)h;
	locked(0);
	ck_assert_uint_eq(about->object, OBJECT(INDEX));
	note("damaged %s in %u", page_event_name(ev), state);
}

static void send(struct core_host *h, const struct msg *m)
{
	(void)h;
	locked(0);
	seen.sent++;
	note("%s to %x", wire_name(m->type), m->dst);
}

static void send_block(struct core_host *h, const struct msg *m, const void *contents)
{
	(void)h, (void)contents;
	note("block to %x", m->dst);
}

static bool leave(struct core_host *h, const struct core_leave *l)
{
	(void)h;
	note("leave %u %u", l->from, l->to);
	return true;
}

static bool open(struct core_host *h, const struct actions *acts, unsigned int at,
		 const struct msg *m, const void *data)
{
	(void)h, (void)m, (void)data;
	note("open %u", acts->v[at].prot);
	return true;
}

static bool wake(struct core_host *h, const struct action *a, const struct msg *m)
{
	(void)h, (void)m;
	note("wake %x", a->slot);
	return true;
}

static void twin(struct core_host *h, uint32_t object)
{
	(void)h;
	locked(KEY);
	index_of(object);
	note("twin");
}

static void untwin(struct core_host *h, uint32_t object)
{
	(void)h;
	locked(KEY);
	index_of(object);
	note("untwin");
}

static void lower(struct core_host *h, uint32_t object, uint8_t prot)
{
	(void)h;
	locked(KEY);
	note("lower %x %u", index_of(object), prot);
	host.changed |= host.stores;
}

static bool diff(struct core_host *h, uint32_t object, uint16_t home, bool asks, bool *kept)
{
	(void)h;
	locked(KEY);
	note("%s %x for %x%s", *kept ? "keep diff" : "diff", index_of(object), home,
	     asks ? ", asking" : "");
	*kept = *kept && !host.full;
	return host.changed;
}

static void merge(struct core_host *h, uint32_t object, const void *bytes, size_t size)
{
	(void)h;
	locked(KEY);
	ck_assert_uint_eq(object, OBJECT(INDEX));
	ck_assert_ptr_eq(bytes, diff_bytes);
	ck_assert_uint_eq(size, sizeof(diff_bytes));
	note("merge");
}

static uint32_t object_at(struct core_host *h, uint32_t index)
{
	(void)h;
	return OBJECT(index);
}

static void notice(struct core_host *h, uint32_t object, const struct action *a, uint16_t writer)
{
	(void)h;
	locked(0);
	note("%s %x to %llx of %x but %x", a->type == ACT_TELL ? "tell" : "notice",
	     index_of(object), (unsigned long long)a->mask, writer, a->except);
}

static void gather(struct core_host *h)
{
	(void)h;
	locked(0);
	note("gather");
}

static void after(struct core_host *h, const struct action *a)
{
	(void)h;
	locked(0);
	note("%s to %x after %u", wire_name(a->msg.type), a->msg.dst, a->prot);
}

static void deliver(struct core_host *h, const struct msg *m)
{
	(void)h;
	locked(0);
	note("%s comes", wire_name(m->type));
}

static void ends(struct core_host *h, const char *why)
{
	(void)h, (void)why;
	note("fail");
}

static const struct core_rel_ops rel_ops = { .twin = twin,
					     .untwin = untwin,
					     .lower = lower,
					     .diff = diff,
					     .merge = merge,
					     .object = object_at,
					     .notice = notice,
					     .gather = gather,
					     .after = after,
					     .deliver = deliver,
					     .fail = ends };
static struct core_ops ops;
static struct core_host node = { .ops = &ops, .me = ME, .nnodes = NODES };

static void setup(void)
{
	memset(blocks, 0, sizeof(blocks));
	memset(peers, 0, sizeof(peers));
	memset(waiting, 0, sizeof(waiting));
	memset(&host, 0, sizeof(host));
	memset(&seen, 0, sizeof(seen));
	lists = (struct rel_lists){ 0 };
	closing = (struct closing){ .run = RUN, .ended = RUN, .asked = RUN };
	held = 0;
	text[0] = 0;
	ops = (struct core_ops){ .find = find,
				 .lock = lock,
				 .unlock = unlock,
				 .now = now,
				 .again = again,
				 .answers = answers,
				 .leaves = leaves,
				 .stepped = stepped,
				 .damaged = damaged,
				 .send = send,
				 .send_block = send_block,
				 .lower = leave,
				 .open = open,
				 .wake = wake,
				 .rel = &rel_ops };
}

static void has(uint8_t state)
{
	*rel = (struct rel){ .state = state, .slot = SLOT };
	lists = (struct rel_lists){ 0 };
	if (host.home && state != RELH_EXCLUSIVE)
		rel->copyset = set_of(HOME, 16) | set_of(OTHER, 16);
}

static struct msg about(uint8_t type, uint16_t src, uint16_t requester)
{
	struct msg m = unit_msg(type, src, ME, requester, SLOT);

	m.object = OBJECT(INDEX);
	m.op = GRANT_READ;
	return m;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_noted.h - for test_host.c: a host that notes each callback in one line of text. "[" takes
 * the lock, "]" drops it.
 */
#ifndef UNIT_HOST_NOTED_H
#define UNIT_HOST_NOTED_H

#include "noted.h"

#include "core/host_release.h"

#include "../core_ops.h"

#define ME 2
#define HOME 5
#define OTHER 6
#define RANKS 8
#define SLOTS 8
#define SLOT 3
#define BLOCK 1
#define HOLD_US 10
#define WAITING 3 /* messages that may wait for a close */

static struct copy page;
static struct dir dir;
static struct queue_entry nodes[RANKS * SLOTS];
static struct hold hold;
static struct bar bar;
static struct bar_part part;
static uint64_t ask;
static uint32_t transfers, clock_now, held;
static struct closing closing;
static struct closing_peer peers[RANKS];
static struct closing_held waiting[WAITING];
static struct rel_lists lists;
static struct rel rel; /* a copy of a release block */
static struct closing_ctx closes = { .me = ME,
				     .nnodes = RANKS,
				     .lists = &lists,
				     .peers = peers,
				     .held = waiting,
				     .nheld = WAITING };

/* What the host does at the next call. */
static struct {
	bool nothing, later, early, unwanted, no_timer, follows, releases;
	int missing;
} host;

static const int contents = 7;

static void locked(bool is)
{
	ck_assert_int_eq(!!held, is);
}

static int find(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		struct core_place *p)
{
	(void)h, (void)number, (void)m;
	locked(false);
	if (host.missing)
		return host.missing;
	p->d.queue = (struct qpool){ nodes, SLOTS, NULL };
	if (target == TARGET_BLOCK) {
		p->d.page = host.nothing ? NULL : &page;
		p->d.dir = host.nothing ? NULL : &dir;
		p->d.manager = SET_NOBODY;
		p->key = 77;
		p->transfers = &transfers;
	}
	if (target == TARGET_BLOCK && host.releases) {
		p->d.rel = &rel;
		p->rel = (struct rel_ctx){
			.me = ME, .nnodes = RANKS, .home = HOME, .lists = &lists, .blocks = &rel
		};
	}
	if (target == TARGET_CLOSING || host.releases) {
		p->d.closing = &closing;
		p->d.closes = &closes;
		p->rel.lists = &lists;
	}
	p->d.hold = &hold;
	p->d.bar = &bar;
	p->d.part = &part;
	p->d.ask = &ask;
	return 0;
}

static void lock(struct core_host *h, uint32_t key)
{
	(void)h;
	locked(false);
	held = key;
	note("[");
}

static void unlock(struct core_host *h, uint32_t key)
{
	(void)h;
	ck_assert_uint_eq(held, key);
	held = 0;
	note("]");
}

static uint32_t now(struct core_host *h)
{
	(void)h;
	return clock_now;
}

static bool again(struct core_host *h, uint32_t object, uint8_t prot)
{
	(void)h;
	locked(true);
	ck_assert_uint_eq(object, BLOCK);
	note("again %u", prot);
	return host.follows;
}

static uint32_t answers(struct core_host *h, uint16_t slot)
{
	(void)h;
	locked(true);
	return 100u + slot;
}

static void leaves(struct core_host *h, uint32_t object)
{
	(void)h;
	locked(true);
	ck_assert_uint_eq(object, BLOCK);
	note("leaves");
}

static void drop(struct core_host *h, uint32_t object)
{
	(void)h;
	locked(true);
	ck_assert_uint_eq(object, BLOCK);
	note("drop");
}

static void freed(struct core_host *h, uint32_t index, struct hold *record)
{
	(void)h;
	locked(true);
	ck_assert_ptr_eq(record, &hold);
	note("freed %u", index);
}

static void land(struct core_host *h, const struct msg *m, const void *data)
{
	(void)h, (void)m;
	locked(false);
	ck_assert_ptr_eq(data, &contents);
	note("land");
}

static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *acts)
{
	(void)h, (void)acts;
	locked(false);
	if (err)
		note("%s refused %d", wire_name(m->type), err);
	else
		note("stepped");
}

static void damaged(struct core_host *h, const struct msg *about, enum page_event ev, uint8_t state)
{
	(void)h, (void)about;
	locked(false);
	note("damaged %s in %s", page_event_name(ev), page_state_name(state));
}

static void send(struct core_host *h, const struct msg *m)
{
	(void)h;
	locked(false);
	note("%s to %u", wire_name(m->type), m->dst);
}

static void send_block(struct core_host *h, const struct msg *m, const void *block)
{
	(void)h;
	locked(false);
	note("block to %u%s", m->dst, block ? " with contents" : "");
}

static bool lower(struct core_host *h, const struct core_leave *l)
{
	locked(false);
	note("lower %u to %u", l->from, l->to);
	if (host.early)
		core_lowered(h, l->m, NULL);
	return !host.later && !host.early;
}

static bool open(struct core_host *h, const struct actions *acts, unsigned int at,
		 const struct msg *m, const void *data)
{
	(void)h, (void)m;
	locked(false);
	note("open %u from %u%s", acts->v[at].prot, acts->v[at].from,
	     data == &contents ? " with contents" : "");
	return !host.later;
}

static bool wake(struct core_host *h, const struct action *a, const struct msg *m)
{
	(void)h, (void)m;
	locked(false);
	note("wake %u", a->slot);
	return !host.unwanted;
}

static void unclaimed(struct core_host *h, const struct action *a)
{
	(void)h;
	locked(false);
	note("unclaimed %u", a->slot);
}

static bool timer(struct core_host *h, uint32_t object, uint32_t at)
{
	(void)h, (void)object;
	locked(false);
	note("timer %u", at);
	return !host.no_timer;
}

static void wake_all(struct core_host *h, uint32_t barrier)
{
	(void)h;
	note("wake all %u", barrier);
}

static void answer(struct core_host *h, const struct action *a)
{
	(void)h;
	note("answer %u %d", a->slot, a->status);
}

static void fetch(struct core_host *h, const struct action *a)
{
	(void)h;
	note("fetch %u", a->msg.object);
}

static void blame(struct core_host *h, uint16_t node)
{
	(void)h;
	note("blame %u", node);
}

static void gather(struct core_host *h)
{
	(void)h;
	locked(false);
	note("gather");
}

static uint32_t object_at(struct core_host *h, uint32_t index)
{
	(void)h, (void)index;
	return BLOCK;
}

static void ends(struct core_host *h, const char *why)
{
	(void)h;
	locked(false);
	note("fail: %s", why);
}

/* clang-format off */
#define NOTED_OPS(...) \
	CORE_OPS(.lock = lock, .unlock = unlock, .answers = answers, .leaves = leaves, .freed = freed, .wake = wake, \
		 .unclaimed = unclaimed, .wake_all = wake_all, .answer = answer, .blame = blame, __VA_ARGS__)
/* clang-format on */

static const struct core_rel_ops rel_ops = { .object = object_at, .gather = gather, .fail = ends };
static const struct core_ops ops = NOTED_OPS(.rel = NULL), release_ops = NOTED_OPS(.rel = &rel_ops);

static struct core_host node = {
	.ops = &ops, .me = ME, .nnodes = RANKS, .follow = DIR_FOLLOW, .passes = LOCK_PASSES
};

static void setup(void)
{
	memset(&page, 0, sizeof(page));
	memset(&dir, 0, sizeof(dir));
	memset(nodes, 0, sizeof(nodes));
	memset(&hold, 0, sizeof(hold));
	memset(&bar, 0, sizeof(bar));
	memset(&part, 0, sizeof(part));
	memset(&host, 0, sizeof(host));
	memset(&closing, 0, sizeof(closing));
	memset(peers, 0, sizeof(peers));
	memset(waiting, 0, sizeof(waiting));
	lists = (struct rel_lists){ 0 };
	rel = (struct rel){ 0 };
	node.ops = &ops;
	ask = 0;
	transfers = clock_now = held = 0;
	node.hold_us = 0;
	text[0] = 0;
}

static void has_block(uint8_t state)
{
	page = (struct copy){ .state = state,
			      .flags = state == PG_WRITE ? PAGE_OWNER : 0,
			      .home = HOME + 1,
			      .slot = SLOT };
}

static void deliver(uint8_t type, uint16_t src, uint16_t requester, uint8_t op, int16_t acks)
{
	struct msg m = unit_msg(type, src, ME, requester, SLOT);

	m.home = HOME;
	m.op = op;
	m.count = acks;
	core_deliver(&node, &m, &contents);
}

#endif

// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_repair.c - libdsm/share: which work requests are posted again after queue pairs broke
 * at any point, and the messages of a repair in any order.
 */
#include "suite.h"

#include <errno.h>
#include <string.h>

#include "../share_values.h"
#include "share/fifo.h"
#include "share/repair.h"

/* ---- posts ---------------------------------------------------------------------------------- */

#define POSTS 5
#define ROUNDS 3 /* queue pairs, of which two break */

static const uint8_t ops[] = { RS_OP_SEND, RS_OP_WRITE, RS_OP_READ };

/* A lane, and what its peer has seen. The len of a post identifies it. */
struct lane {
	struct rs_fifo fifo, peer;
	uint8_t op[POSTS];
	unsigned int executed[POSTS];
	bool answered[POSTS];   /* reads answered on the current queue pair */
	unsigned int last_send; /* last post that the peer has received, + 1 */
	unsigned int next;      /* next post to complete */
	struct rs_sent slot[8], none[8];
};

static void lane_begin(struct lane *l, unsigned int which)
{
	memset(l, 0, sizeof(*l));
	l->fifo = (struct rs_fifo){
		.sent = l->slot, .size = 8, .numbered = UINT32_MAX - 1, .head = 6, .tail = 6
	};
	l->peer = (struct rs_fifo){ .sent = l->none, .size = 8, .received = UINT32_MAX - 1 };
	for (uint32_t i = 0; i < POSTS; i++, which /= 3) {
		l->op[i] = ops[which % 3];
		rs_fifo_add(&l->fifo, &(struct rs_post){ .op = l->op[i], .len = i });
	}
}

/* The peer's device executes a post. */
static void execute(struct lane *l, const struct rs_post *p)
{
	const unsigned int i = p->len;

	l->executed[i]++;
	if (p->op == RS_OP_READ) { /* a read may be executed several times */
		l->answered[i] = true;
		return;
	}
	if (p->op == RS_OP_WRITE) {
		unit_require(i >= l->last_send); /* later, the peer may have reused the memory */
		return;
	}
	unit_require(!rs_fifo_take(&l->peer, p->frame.number) && l->executed[i] == 1 &&
		     i >= l->last_send);
	for (unsigned int k = 0; k < i; k++)
		unit_require(l->executed[k]);
	l->last_send = i + 1;
}

static void complete(struct lane *l, unsigned int n)
{
	const struct rs_sent *s;

	while ((s = rs_fifo_pop(&l->fifo, &n))) {
		unit_require(s->post.len == l->next && l->executed[l->next]);
		unit_require(s->post.op != RS_OP_READ || l->answered[l->next]);
		l->next++;
	}
	unit_require(!n);
}

/*
 * The queue pair executes some posts, completes some of those, and breaks. The last one executes
 * and completes all.
 */
static void run(struct lane *l, unsigned int round)
{
	const struct rs_post *post[POSTS];
	unsigned int n = 0, executed, completed;
	const struct rs_sent *s;
	uint32_t at = l->fifo.head;

	for (; (s = rs_fifo_next(&l->fifo, &at)); at++)
		post[n++] = &s->post;
	for (executed = round == ROUNDS ? n : 0; executed <= n; executed++)
		for (completed = round == ROUNDS ? n : 0; completed <= executed; completed++) {
			struct lane next = *l;

			next.fifo.sent = next.slot;
			for (unsigned int i = 0; i < executed; i++)
				execute(&next, post[i]);
			complete(&next, completed);
			if (round == ROUNDS) {
				unit_require(next.next == POSTS &&
					     next.fifo.head == next.fifo.tail);
				continue;
			}
			memset(next.answered, 0, sizeof(next.answered));
			unit_require(!rs_fifo_arrived(&next.fifo, next.peer.received));
			complete(&next, 0);
			run(&next, round + 1);
		}
}

UNIT_TEST(posts_arrive_once_wherever_it_breaks)
{
	struct lane l;

	for (unsigned int which = 0; which < 243; which++) { /* 3 to the power of POSTS */
		lane_begin(&l, which);
		run(&l, 1);
	}
}

UNIT_TEST(claims_must_be_possible)
{
	struct lane l;
	unsigned int done = 2;

	for (uint32_t claim = 0; claim < 20; claim++) {
		lane_begin(&l, 0); /* five sends: UINT32_MAX to 3 */
		done = 2;
		while (rs_fifo_pop(&l.fifo, &done))
			;
		/* UINT32_MAX and 0 have been acknowledged */
		ck_assert_int_eq(rs_fifo_arrived(&l.fifo, claim - 8),
				 claim >= 8 && claim <= 11 ? 0 : -EBADMSG);
	}
	ck_assert_int_eq(rs_fifo_arrived(&l.fifo, 1u << 31), -EBADMSG);
}

UNIT_TEST(numbers_follow)
{
	struct rs_fifo f = { .received = 0 };

	for (uint32_t i = 1; i < 200000; i++) {
		ck_assert_int_eq(rs_fifo_take(&f, (uint16_t)(i + 1)), -EBADMSG);
		ck_assert_int_eq(rs_fifo_take(&f, (uint16_t)(i - 1)), -EBADMSG);
		unit_require(!rs_fifo_take(&f, (uint16_t)i));
	}
	ck_assert_uint_eq(f.received, 199999);
}

/* ---- messages ------------------------------------------------------------------------------- */

#define BREAKS 3 /* total of both sides */
#define QUEUE 8

struct side {
	struct rs_repair repair;
	struct rs_repair_message in[QUEUE]; /* from the other side */
	unsigned int head, tail, breaks;    /* breaks: noticed here first */
	bool connecting, connected;         /* queue pairs of this epoch */
};

static unsigned int visited;

static void tell(struct side *to, enum rs_repair_kind kind, uint32_t epoch)
{
	ck_assert_uint_lt(to->tail, QUEUE);
	to->in[to->tail++] = share_repair_message(kind, epoch);
}

static void obey(struct side *s, struct side *other, int actions)
{
	unit_require(actions >= 0);
	if (actions & RS_DO_ASK) {
		s->connecting = s->connected = false;
		tell(other, RS_REPAIR_ASK, s->repair.epoch);
	}
	if (actions & RS_DO_CONNECT) {
		unit_require(!s->connecting && !s->connected);
		s->connecting = true;
	}
	if (actions & RS_DO_TELL) {
		unit_require(s->connected);
		tell(other, RS_REPAIR_READY, s->repair.epoch);
	}
	/* The other side can receive, unless its queue pairs have broken again. */
	if (actions & RS_DO_RESUME)
		unit_require(s->connected &&
			     (other->repair.epoch != s->repair.epoch
				      ? other->repair.epoch == s->repair.epoch + 1
				      : other->connected));
}

static void explore(const struct side now[2])
{
	struct side next[2];
	bool end = true;

	visited++;
	for (unsigned int i = 0; i < 2; i++) {
		const struct side *s = &now[i];

		if (now[0].breaks + now[1].breaks < BREAKS && s->repair.state == RS_WHOLE) {
			memcpy(next, now, sizeof(next));
			next[i].breaks++;
			obey(&next[i], &next[!i], rs_repair_step(&next[i].repair, RS_BREAKS));
			explore(next);
		}
		if (s->connecting) {
			memcpy(next, now, sizeof(next));
			next[i].connecting = false;
			next[i].connected = true;
			obey(&next[i], &next[!i], rs_repair_step(&next[i].repair, RS_CONNECTS));
			explore(next);
			end = false;
		}
		if (s->head != s->tail) {
			memcpy(next, now, sizeof(next));
			obey(&next[i], &next[!i],
			     rs_repair_hear(&next[i].repair, &next[i].in[next[i].head++]));
			if (next[i].head == next[i].tail)
				next[i].head = next[i].tail = 0;
			explore(next);
			end = false;
		}
	}
	if (!end)
		return;
	unit_require(now[0].repair.state == RS_WHOLE && now[1].repair.state == RS_WHOLE);
	unit_require(now[0].repair.epoch == now[1].repair.epoch);
}

UNIT_TEST(two_sides_agree_in_every_order)
{
	struct side start[2];

	memset(start, 0, sizeof(start));
	visited = 0;
	explore(start);
	ck_assert_uint_gt(visited, 1000);
}

UNIT_TEST(messages_that_are_not_due_are_bad)
{
	static const bool ask_due[] = {
		[RS_WHOLE] = true, [RS_BROKEN] = true, [RS_REPAIR_STATES] = false
	};
	static const bool ready_due[] = {
		[RS_AGREED] = true, [RS_CONNECTED] = true, [RS_REPAIR_STATES] = false
	};

	for (unsigned int state = 0; state < RS_REPAIR_STATES; state++)
		for (uint32_t kind = 0; kind < 5; kind++)
			for (uint32_t epoch = 0; epoch < 5; epoch++) {
				struct rs_repair r = { .state = (uint8_t)state, .epoch = 2 };
				struct rs_repair_message m = share_repair_message(kind, epoch);
				const bool due = epoch == 2u + (state == RS_WHOLE) &&
					((kind == RS_REPAIR_ASK && ask_due[state]) ||
					 (kind == RS_REPAIR_READY && ready_due[state]));

				ck_assert_int_eq(rs_repair_hear(&r, &m) >= 0, due);
				/* nothing has changed */
				ck_assert(due || (r.state == state && r.epoch == 2));
				r = (struct rs_repair){ .state = (uint8_t)state, .epoch = 2 };
				m.magic++;
				ck_assert_int_eq(rs_repair_hear(&r, &m), -EBADMSG);
			}
}

UNIT_SUITE("share_repair", .seconds = 60)

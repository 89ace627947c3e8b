// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_sync_rules.c - core/sync: long random walks of each kind of object, compared with a
 * specification in plain arrays, and every field of every answer.
 */
#include "core.h"

#include "core/set.h"
#include "core/sync.h"

#define ME 1022
#define OBJECT 0x87654321u
#define SLOTS 0x1235
#define WHO 9 /* number of requesters */
#define STEPS 30000

static struct queue_entry nodes[WIRE_MAX_NODES * SLOTS];
static const struct sync_ctx ctx = { .me = ME, .queue = { .entries = nodes, .nslots = SLOTS } };
static const uint16_t ranks[WHO] = { 1, 1, 1, 700, 700, 700, 1023, 1023, 1023 },
		      slots[WHO] = {
			      0, 0x101, SLOTS - 1, 0, 0x101, SLOTS - 1, 0, 0x101, SLOTS - 1
		      };

struct spec {
	uint8_t kind;
	bool pumping, writer;
	unsigned int n, readers, owed; /* owed: signals granted to the first in line */
	uint64_t value;
	struct {
		unsigned int who;
		uint8_t op;
	} line[WHO];
	/* of this step */
	unsigned int answers;
	bool resume;
	struct {
		unsigned int who;
		int16_t status;
		uint64_t value;
	} answer[3];
};

static void answer(struct spec *s, unsigned int who, int16_t status, uint64_t value)
{
	s->answer[s->answers].who = who;
	s->answer[s->answers].status = status;
	s->answer[s->answers++].value = value;
}

/* Can a request of this kind be granted now? If so, grant it. */
static bool goes(struct spec *s, uint8_t op)
{
	bool may = op == SOP_RDLOCK ? !s->writer
		: op == SOP_WRLOCK  ? !s->writer && !s->readers
		: op == SOP_WAIT    ? s->value
				    : s->owed;

	if (!may)
		return false;
	s->readers += op == SOP_RDLOCK;
	s->writer = s->writer || op == SOP_WRLOCK;
	s->value -= op == SOP_WAIT;
	s->owed -= op == SOP_ENQUEUE || op == SOP_MEET;
	return true;
}

static void leave(struct spec *s, unsigned int at)
{
	s->n--;
	memmove(&s->line[at], &s->line[at + 1], (s->n - at) * sizeof(s->line[0]));
}

static unsigned int place(const struct spec *s, unsigned int who)
{
	unsigned int i;

	for (i = 0; i < s->n && s->line[i].who != who; i++)
		;
	return i;
}

static void pump(struct spec *s)
{
	if (!s->n || !goes(s, s->line[0].op))
		return;
	answer(s, s->line[0].who, 0, 0);
	leave(s, 0);
	s->pumping = s->resume = s->n;
}

static void stand(struct spec *s, unsigned int who, uint8_t op)
{
	s->line[s->n].who = who;
	s->line[s->n++].op = op;
}

static bool knows(uint8_t kind, uint8_t op)
{
	switch (kind) {
	case SYNC_RWLOCK: return (op >= SOP_RDLOCK && op <= SOP_WRUNLOCK) || op == SOP_CANCEL;
	case SYNC_SEM:
		return (op >= SOP_WAIT && op <= SOP_POST) || op == SOP_CANCEL || op == SOP_LOAD;
	case SYNC_COND: return (op >= SOP_ENQUEUE && op <= SOP_CANCEL) || op == SOP_MEET;
	case SYNC_ATOMIC: return op >= SOP_LOAD && op <= SOP_CAS;
	default: return false;
	}
}

static void atomic(struct spec *s, unsigned int who, const struct msg *m)
{
	uint64_t old = s->value;

	if (m->op == SOP_STORE || m->op == SOP_EXCHANGE)
		s->value = m->value;
	else if (m->op == SOP_ADD)
		s->value += m->value;
	else if (m->op == SOP_CAS && old == m->value)
		s->value = m->value2;
	answer(s, who, m->op == SOP_CAS && old != m->value ? -EAGAIN : 0, old);
}

static void meet(struct spec *s, unsigned int who, const struct msg *m)
{
	if (m->flags & MSGF_TIMED)
		answer(s, who, 0, 1);
	if (s->value + 1 < m->value) {
		stand(s, who, m->op);
		s->value++;
		return;
	}
	answer(s, who, 0, SYNC_LAST);
	s->value = 0;
	s->owed = s->n;
	if (!s->pumping)
		pump(s);
}

/* Returns true if no correct rank causes the step. */
static bool specify(struct spec *s, unsigned int who, const struct msg *m)
{
	unsigned int at = place(s, who);
	bool waits = m->op == SOP_RDLOCK || m->op == SOP_WRLOCK || m->op == SOP_WAIT ||
		m->op == SOP_ENQUEUE || m->op == SOP_MEET;

	if (!knows(s->kind, m->op)) {
		answer(s, who, -EINVAL, 0);
		return false;
	}
	if (waits && at < s->n)
		return true;
	switch (m->op) {
	case SOP_RDLOCK:
	case SOP_WRLOCK:
	case SOP_WAIT:
		if (m->flags & MSGF_TIMED)
			answer(s, who, 0, 1);
		if (!s->n && goes(s, m->op))
			answer(s, who, 0, 0);
		else
			stand(s, who, m->op);
		return false;
	case SOP_ENQUEUE:
		stand(s, who, m->op);
		answer(s, who, 0, 1);
		return false;
	case SOP_MEET: meet(s, who, m); return false;
	case SOP_TRYWAIT: answer(s, who, !s->n && goes(s, SOP_WAIT) ? 0 : -EAGAIN, 0); return false;
	case SOP_TRYRDLOCK:
		answer(s, who, !s->n && goes(s, SOP_RDLOCK) ? 0 : -EBUSY, 0);
		return false;
	case SOP_TRYWRLOCK:
		answer(s, who, !s->n && goes(s, SOP_WRLOCK) ? 0 : -EBUSY, 0);
		return false;
	case SOP_CANCEL:
		if (at < s->n && (s->kind != SYNC_COND || at >= s->owed)) {
			s->value -= s->kind == SYNC_COND && s->value;
			leave(s, at);
			answer(s, who, -ETIMEDOUT, 0);
		} else {
			answer(s, who, -EALREADY, 0);
		}
		if (!s->pumping) /* readers behind a writer that has left the line */
			pump(s);
		return false;
	case SOP_RDUNLOCK:
		if (!s->readers)
			return true;
		s->readers--;
		break;
	case SOP_WRUNLOCK:
		if (!s->writer)
			return true;
		s->writer = false;
		break;
	case SOP_POST:
		if (m->value > INT32_MAX || s->value + m->value > INT32_MAX) {
			answer(s, who, -EOVERFLOW, 0);
			return false;
		}
		s->value += m->value;
		break;
	case SOP_SIGNAL: s->owed += s->owed < s->n; break;
	case SOP_BROADCAST: s->owed = s->n; break;
	default: atomic(s, who, m); return false;
	}
	answer(s, who, 0, s->owed ? SYNC_FOUND : 0);
	if (!s->pumping)
		pump(s);
	return false;
}

static void compare(const struct spec *s, const struct sync *o, const struct actions *out)
{
	unsigned int i;

	unit_require(out->n == s->answers + s->resume);
	for (i = 0; i < s->answers; i++) {
		const struct msg *m = &out->v[i].msg;

		unit_require(out->v[i].type == ACT_SEND && m->type == MSG_REPLY &&
			     m->version == WIRE_VERSION);
		unit_require(m->src == ME && m->object == OBJECT);
		unit_require(m->dst == ranks[s->answer[i].who] && m->req_node == m->dst);
		unit_require(m->req_slot == slots[s->answer[i].who]);
		unit_require(m->count == s->answer[i].status && m->value == s->answer[i].value);
		unit_require(m->aux == 0 && m->home == 0 && m->op == 0 && m->flags == 0);
	}
	if (s->resume) {
		const struct action *a = &out->v[i];

		unit_require(a->type == ACT_RESUME && a->node == SET_NOBODY &&
			     a->msg.type == MSG_RESUME);
		unit_require(a->msg.src == ME && a->msg.dst == ME && a->msg.object == OBJECT &&
			     a->msg.op == 1);
	}
	unit_require(o->value == s->value && o->pumping == s->pumping);
	unit_require(sync_idle(o) ==
		     (!s->n && !s->readers && !s->writer && !s->owed && !s->pumping));
}

static uint64_t some_value(uint64_t *seed)
{
	static const uint64_t values[] = {
		0, 1, 2, 3, INT32_MAX, INT32_MAX - 1u, INT32_MAX + 1ull, UINT64_MAX, 1ull << 40
	};

	return unit_random(seed) % 4 ? unit_random(seed) % 3 : values[unit_random(seed) % 9];
}

static void walk(uint8_t kind, uint64_t seed)
{
	struct spec s = { .kind = kind };
	struct sync o = { .kind = kind };
	unsigned int i, who;

	memset(nodes, 0, sizeof(nodes));
	for (i = 0; i < STEPS; i++) {
		bool turn = s.pumping ? unit_random(&seed) % 2 : unit_random(&seed) % 64 == 0, bad;
		struct sync before = o;
		struct actions out;
		struct msg m;

		who = (unsigned int)(unit_random(&seed) % WHO);
		m = unit_msg(turn ? MSG_RESUME : MSG_SYNC, ranks[who], ME, ranks[who], slots[who]);
		m.object = OBJECT;
		/* Mostly operations that this kind has. */
		do
			m.op = (uint8_t)(unit_random(&seed) % SYNC_OPS);
		while (!knows(kind, m.op) && unit_random(&seed) % 16);
		/* only one flag has a meaning; leases: test_lease.c */
		m.flags = (uint8_t)(unit_random(&seed) & ~MSGF_LEASE);
		m.value = some_value(&seed);
		if (m.op == SOP_CAS) {
			m.value2 = unit_random(&seed);
			m.value = unit_random(&seed) % 2 ? o.value : m.value;
		}
		s.answers = 0;
		s.resume = false;
		bad = turn ? !s.pumping : specify(&s, who, &m);
		if (turn && !bad) {
			s.pumping = false;
			pump(&s);
		}
		unit_require(sync_step(&ctx, &o, &m, &out) == (bad ? -EBADMSG : 0));
		if (bad)
			unit_require(!memcmp(&o, &before, sizeof(o)));
		else
			compare(&s, &o, &out);
		/* A full semaphore and an ever longer line would test nothing. */
		if (kind == SYNC_SEM && i % 50 == 49)
			o.value = s.value = unit_random(&seed) % 3;
	}
}

UNIT_LOOP_TEST(every_kind_does_what_its_specification_says, 0, 6)
{
	static const uint8_t kinds[] = { SYNC_RWLOCK, SYNC_COND, SYNC_SEM,
					 SYNC_ATOMIC, SYNC_NONE, SYNC_BARRIER };

	walk(kinds[_i], 0x9e3779b97f4a7c15ull + (unsigned int)_i);
}

UNIT_TEST(nonsense_is_refused)
{
	struct sync o = { .kind = SYNC_SEM }, before = o;
	struct msg m = unit_msg(MSG_SYNC, 1, ME, 1, 0);
	struct actions out;
	unsigned int type;

	for (type = 0; type < MSG_TYPES; type++) {
		m.type = (uint8_t)type;
		m.op = SOP_POST;
		m.value = 0;
		ck_assert_int_eq(sync_step(&ctx, &o, &m, &out), type == MSG_SYNC ? 0 : -EBADMSG);
		ck_assert_mem_eq(&o, &before, sizeof(o));
	}
	m.type = MSG_SYNC;
	m.op = SYNC_OPS;
	ck_assert_int_eq(sync_step(&ctx, &o, &m, &out), -EBADMSG);
	m.op = SOP_POST;
	o.kind = SYNC_KINDS;
	ck_assert_int_eq(sync_step(&ctx, &o, &m, &out), -EBADMSG);
}

UNIT_TEST(a_mutex_is_idle_when_nobody_is_last_in_line)
{
	uint64_t values[] = { 0, 1, 1ull << 32, UINT64_MAX };
	unsigned int i;

	for (i = 0; i < 4; i++) {
		struct sync o = { .kind = SYNC_MUTEX, .value = values[i] };

		ck_assert_int_eq(sync_idle(&o), !i);
	}
}

UNIT_TEST(more_threads_meet_than_16_bits_count)
{
	struct sync o = { .kind = SYNC_COND };
	struct msg m = unit_msg(MSG_SYNC, 0, ME, 0, 0);
	struct actions out;
	unsigned int i;

	memset(nodes, 0, sizeof(nodes));
	m.op = SOP_MEET;
	m.value = 70000;
	for (i = 0; i < 70000; i++) {
		m.src = m.req_node = (uint16_t)(i / SLOTS);
		m.req_slot = (uint16_t)(i % SLOTS);
		unit_require(!sync_step(&ctx, &o, &m, &out));
	}
	ck_assert_uint_eq(out.v[0].msg.value, SYNC_LAST);
	ck_assert_uint_eq(o.readers, 69998); /* and the first one has gone */
}

UNIT_SUITE("sync_rules")

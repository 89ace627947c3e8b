// SPDX-License-Identifier: BSD-2-Clause
/*
 * wait.c - request slots and how a thread waits for its answer.
 *
 * A waiter first looks for a while, doing whatever there is to do (its turn at a home, timers, the transport), then sleeps
 * on its slot's word. Any event moves the word; completions also move seq.
 */
#include "engine/engine.h"

#include "util/futex.h"

#define NAP_NS 200000000u /* a sleeper looks up so often whether the job still lives */

int bits_take(uint64_t *words, unsigned int from, unsigned int to)
{
	unsigned int w;

	for (w = from / 64; w < to / 64; w++) {
		uint64_t seen = __atomic_load_n(&words[w], __ATOMIC_RELAXED);

		while (~seen) {
			int bit = __builtin_ctzll(~seen);

			if (__atomic_compare_exchange_n(&words[w], &seen, seen | 1ull << bit, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return (int)(w * 64) + bit;
		}
	}
	return -EAGAIN;
}

uint16_t slot_get(void)
{
	int s;

	/* More threads of this rank wait than there are slots: some will be done soon. */
	while ((s = bits_take(job.me->slot_free, 0, CTL_SYNC_SLOTS)) < 0) {
		lost_check();
		sched_yield();
	}
	__atomic_store_n(&job.me->slots[s].prefetch, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&job.me->slots[s].turn, 0, __ATOMIC_RELAXED);
	return (uint16_t)s;
}

int slot_try_prefetch(uint16_t rank, uint32_t object)
{
	struct ctl *c = peer_of(rank)->ctl;
	int s = bits_take(c->slot_free, CTL_SYNC_SLOTS, CTL_SLOTS);

	if (s >= 0) {
		__atomic_store_n(&c->slots[s].prefetch, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&c->slots[s].object, object, __ATOMIC_RELAXED);
	}
	return s;
}

bool slot_is_prefetch(uint16_t rank, uint16_t slot)
{
	return __atomic_load_n(&peer_of(rank)->ctl->slots[slot].prefetch, __ATOMIC_RELAXED);
}

bool slot_any_prefetch(size_t off, size_t end)
{
	uint16_t s;

	for (s = CTL_SYNC_SLOTS; s < CTL_SLOTS; s++) {
		size_t at = block_off(__atomic_load_n(&job.me->slots[s].object, __ATOMIC_RELAXED));

		if ((__atomic_load_n(&job.me->slot_free[s / 64], __ATOMIC_ACQUIRE) >> (s % 64) & 1) && at >= off && at < end)
			return true;
	}
	return false;
}

void slot_put(uint16_t rank, uint16_t slot)
{
	__atomic_fetch_and(&peer_of(rank)->ctl->slot_free[slot / 64], ~(1ull << (slot % 64)), __ATOMIC_RELEASE);
}

uint32_t slot_seq(uint16_t slot)
{
	return __atomic_load_n(&job.me->slots[slot].seq, __ATOMIC_ACQUIRE);
}

static void stir(struct slot *s)
{
	__atomic_fetch_add(&s->word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST))
		futex_wake(&s->word, 1 << 30);
}

void slot_complete(uint16_t rank, uint16_t slot, int16_t status, uint64_t value)
{
	struct slot *s = &peer_of(rank)->ctl->slots[slot];

	s->status = status;
	s->value = value;
	__atomic_fetch_add(&s->seq, 1, __ATOMIC_RELEASE);
	stir(s);
}

void slot_turn(uint16_t rank, uint16_t slot, uint16_t home, uint32_t object)
{
	struct slot *s = &peer_of(rank)->ctl->slots[slot];

	s->turn_home = home;
	s->turn_object = object;
	__atomic_store_n(&s->turn, 1, __ATOMIC_RELEASE);
	stir(s);
}

static void take_turn(struct slot *s)
{
	struct msg m = { .version = WIRE_VERSION, .type = MSG_RESUME };

	/* Several threads may wait here. Until the turn is taken no other comes; once it is, one may, with its own object. */
	if (!__atomic_load_n(&s->turn, __ATOMIC_RELAXED) || !__atomic_exchange_n(&s->turn, 0, __ATOMIC_ACQUIRE))
		return;
	m.src = m.dst = s->turn_home;
	m.object = s->turn_object;
	run_message(&m, NULL, 0);
}

/* Do what there is to do. True: there will be more soon, so do not sleep. *came: the transport brought something. */
static bool help(bool *came)
{
	bool busy = run_timers(false);

	*came = job.net && job.netops->poll(job.net, 16) > 0;
	return busy || *came;
}

bool slot_waited(const struct msg *m)
{
	switch ((enum msg_type)m->type) {
	case MSG_DATA: case MSG_GRANT: case MSG_INV_ACK: case MSG_REPLY: case MSG_LOCKED:
		return m->req_rank == m->dst && m->req_slot < CTL_SYNC_SLOTS;
	case MSG_DEPART:
		return true; /* it comes when all threads are in the barrier */
	default:
		return false;
	}
}

uint32_t slot_object(void *arg, uint16_t slot)
{
	(void)arg;
	return __atomic_load_n(&job.me->slots[slot].object, __ATOMIC_RELAXED);
}

/* A thread that waits looks for what the transport brings; while it does, nobody needs to be woken for it. */
static void look(enum net_look how)
{
	__atomic_fetch_add(&job.me->looking, 1, __ATOMIC_RELAXED);
	if (job.net && job.netops->look)
		job.netops->look(job.net, how);
}

/* False: something has come in the meantime. */
static bool look_away(void)
{
	__atomic_fetch_sub(&job.me->looking, 1, __ATOMIC_RELAXED);
	if (!job.net)
		return true;
	return (job.netops->look ? job.netops->look(job.net, LOOK_SLEEP) : job.netops->arm(job.net)) != -EBUSY;
}

/* Done waiting: what comes from now on is for the threads of the runtime. */
static void look_no_more(void)
{
	__atomic_fetch_sub(&job.me->looking, 1, __ATOMIC_RELAXED);
	if (job.net && job.netops->look && job.netops->look(job.net, LOOK_END) == -EBUSY)
		do {
			while (job.netops->poll(job.net, 16) > 0)
				;
		} while (job.netops->arm(job.net) == -EBUSY);
}

struct patience {
	uint64_t start, until;
	unsigned int rounds;
};

/* Sleep or spin once; *word moves when there is something new. False: time is up. */
static bool be_patient(struct patience *p, uint32_t *word, uint32_t seen, uint32_t *sleepers)
{
	uint64_t now;
	bool came;

	favour_look();
	if (++p->rounds % 8) {
		cpu_relax();
		return true;
	}
	now = clock_ns();
	if (!p->start)
		p->start = now;
	if (p->until && now >= p->until)
		return false;
	lost_check();
	if (help(&came)) {
		/* Where one message came there may come others: look as long again, so that a busy home is not woken for each. */
		if (came)
			p->start = now;
		return true;
	}
	if (now - p->start < job.spin_us * 1000ull) {
		cpu_relax();
		return true;
	}
	if (look_away()) {
		__atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen)
			futex_wait(word, seen, p->until && p->until - now < NAP_NS ? p->until - now : NAP_NS);
		__atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
	}
	look(LOOK_AGAIN);
	return true;
}

static int wait_slot(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns)
{
	struct slot *s = &job.me->slots[slot];
	struct patience p = { .until = ns ? clock_ns() + ns : 0 };

	for (;;) {
		uint32_t word = __atomic_load_n(&s->word, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(&s->seq, __ATOMIC_ACQUIRE) - seq >= n)
			return 0;
		take_turn(s);
		if (__atomic_load_n(&s->word, __ATOMIC_RELAXED) != word)
			continue;
		if (!be_patient(&p, &s->word, word, &s->sleepers))
			return -ETIMEDOUT;
	}
}

int slot_wait(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns)
{
	int err;

	if (slot_seq(slot) - seq >= n)
		return 0;
	look(LOOK_BEGIN);
	err = wait_slot(slot, seq, n, ns);
	look_no_more();
	return err;
}

void wait_word(uint32_t *word, uint32_t old, uint32_t *sleepers)
{
	struct patience p = { 0 };

	look(LOOK_BEGIN);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == old)
		be_patient(&p, word, old, sleepers);
	look_no_more();
}

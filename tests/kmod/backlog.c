// SPDX-License-Identifier: BSD-2-Clause
/*
 * backlog.c - messages that wait in dsm.ko because of a peer are charged to the user of the waiting rank
 * (docs/kernel.md, "Security"). In each test, a peer makes thousands of messages wait, by verbs. They must be charged
 * while they exist. Then the test repeats this with a limit of locked memory that leaves room for few of them: the
 * module refuses the others, and continues.
 *
 * Messages also wait, without a limit, if neither softirq nor a worker has memory for them. No rank is lost then, and
 * the requests are served as soon as there is memory.
 *
 * Runs in a guest with the module loaded and a soft RDMA device, as root; /dev/dsm is opened to everybody meanwhile.
 * Without arguments all tests run.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"
#include "tests/kmod/common_victim.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define VICTIM 0u
#define LARGE (1ull << 40)                           /* a window whose own tables are more than what is free: */
#define FREE_PAGES ((long)((8ul << 20) / PAGE))      /* that a context has without its counting as locked */
#define MESSAGES (6000u / (unsigned int)patience(1)) /* a debug kernel complains of workers that wait for a minute */
#define LEAST \
	(MESSAGES * (long)sizeof(struct msg) / (long)PAGE) /* pages of them, but for what the module adds to each */
#define ROOM (LEAST / 3)                                   /* pages that there are for them, with a limit */
#define SPARE 1             /* a page that stays charged for what is charged by the byte */
#define THERE 0u            /* a page of the victim that has a frame, and a key of it, where a test needs one */
#define AWAY DSM_UNIT_PAGES /* a page of the peer's, in 2 MiB of which the victim has no frames */

static struct victim victim;
static struct peer *const peer = &victim.peer;
static unsigned int granted; /* blocks, to the peer: */
static uint32_t grants[6000];
static unsigned int asked_back; /* of them */

static long charged(void)
{
	return (long)counter("charged");
}

/* Of the victim's user. It is beyond what is free. */
static long locked(void)
{
	return charged() - FREE_PAGES + (long)counter("frames");
}

static void heard(struct peer *p, const struct msg *m)
{
	(void)p;
	if (m->type == MSG_GRANT && granted < sizeof(grants) / sizeof(grants[0]))
		grants[granted++] = m->object;
	asked_back += m->type == MSG_FWD_READ || m->type == MSG_FWD_WRITE;
}

static struct msg about(uint8_t type, uint32_t page)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = peer->liar.me,
			     .dst = peer->liar.target,
			     .object = page << 1 | 1,
			     .req_node = peer->liar.me };
}

static bool say(const struct msg *m)
{
	struct wire_limits limits = liar_limits(&peer->liar);

	limits.pages = (uint32_t)(LARGE / PAGE);
	peer_post(peer, wire_class(m->type), m, sizeof(*m), NULL);
	return expect(!wire_check(m, &limits), "what a rank may send");
}

/* While the peer listens, and is heard: until there is no more charged than that. */
static bool falls_to(long pages)
{
	const double end = now_s() + patience(20);

	while (charged() > pages && now_s() < end) {
		peer_poll(peer, heard);
		usleep(200);
	}
	return charged() <= pages;
}

/* ---- from a backlog to none ------------------------------------------------------------------- */

struct backlog {
	bool (*prepare)(void);                 /* NULL: nothing to do */
	bool (*hold)(void);                    /* so that messages wait; NULL: they do anyway */
	struct msg (*message)(unsigned int n); /* that the peer sends as its nth */
	unsigned int greedy;                   /* mask of classes in which it takes no answers */
	bool (*release)(void);                 /* they go */
	long more;                             /* pages that are charged then for other things, at most */
	unsigned int loses;                    /* with a limit, the victim loses this rank, */
	int err;                               /* and is told this */
};

/* Until all have been sent and taken, or the module has given somebody up: then it takes no more. */
static bool flood(const struct backlog *b)
{
	const long long given_up = counter("ranks_given_up");
	const double end = now_s() + patience(60);
	unsigned int n = 0;

	while ((n < MESSAGES || peer->posted) && counter("ranks_given_up") == given_up && !peer->broken &&
	       now_s() < end) {
		struct msg m;

		peer_poll(peer, heard);
		if (n == MESSAGES || !peer_may_send(peer)) {
			usleep(100);
			continue;
		}
		m = b->message(n);
		m.req_slot = (uint16_t)(n++ % LIAR_SLOTS);
		if (!say(&m))
			return false;
	}
	return expect(now_s() < end, "the messages are taken");
}

/* limit: RLIM_INFINITY, or what there is room for. needed: pages that were locked before the messages came. */
static bool begin(const struct backlog *b, rlim_t limit, long *needed)
{
	const bool ok =
		victim_begin(&victim, LARGE, limit) && expect(charged() > FREE_PAGES, "the window takes what is free");

	if (!ok)
		return false;
	peer_greet(peer, victim.job, 0);
	peer->greedy = b->greedy;
	if (b->prepare && !b->prepare())
		return false;
	*needed = locked();
	return !b->hold || b->hold();
}

static bool charges(const struct backlog *b, long *needed)
{
	const double end = now_s() + patience(20);
	long before, most;

	if (!begin(b, RLIM_INFINITY, needed))
		return false;
	before = charged();
	if (!flood(b))
		return false;
	while (charged() < before + LEAST && now_s() < end)
		usleep(1000);
	most = charged();
	printf("%ld pages locked, %ld more for %u messages\n", *needed, most - before, MESSAGES);
	return expect(most >= before + LEAST, "messages that wait are charged") &&
		expect(!victim_lost(&victim, VICTIM) && !victim_lost(&victim, peer->liar.me), "nobody is lost") &&
		b->release() &&
		expect(falls_to(before + b->more + SPARE), "they are charged no more when they have gone");
}

static bool refuses(const struct backlog *b, long limit)
{
	const long long given_up = counter("ranks_given_up");
	const double end = now_s() + patience(20);
	long before, needed, most;

	if (!begin(b, (rlim_t)limit, &needed))
		return false;
	before = charged();
	if (!flood(b))
		return false;
	while (counter("ranks_given_up") == given_up && now_s() < end)
		usleep(1000);
	most = locked();
	printf("%ld pages locked before, %ld with messages, of %ld\n", needed, most, limit);
	return expect(counter("ranks_given_up") > given_up, "more messages than the user may lock") &&
		expect(most <= limit, "no more than that") && b->release() &&
		expect(victim_loses(&victim, b->loses, heard) && victim_lost(&victim, b->loses) == b->err,
		       "the victim is told") &&
		expect(!victim_lost(&victim, !b->loses), "nobody else is lost") &&
		expect(falls_to(before + b->more + SPARE), "all that waited is gone");
}

static bool run(const struct backlog *b)
{
	long needed;
	bool ok = charges(b, &needed);

	ok = victim_end(&victim) && ok;
	if (!ok)
		return false;
	ok = refuses(b, needed + ROOM);
	return victim_end(&victim) && ok;
}

/* ---- for the peer's credit -------------------------------------------------------------------- */

/* Nobody has the block: the answer says only that it has come. */
static struct msg give_back(unsigned int n)
{
	(void)n;
	return about(MSG_RELEASE, THERE);
}

static bool take_answers(void)
{
	peer->greedy = 0;
	peer_return_credits(peer, CLASS_SYNC);
	return true;
}

static bool credit(void)
{
	static const struct backlog b = {
		.message = give_back, .greedy = 1u << CLASS_SYNC, .release = take_answers, .loses = 1, .err = -EPIPE
	};

	return run(&b);
}

/* ---- for the peer's key ----------------------------------------------------------------------- */

static bool write_there(void)
{
	return expect(!victim_do(&victim, VICTIM_WRITE, THERE), "the victim writes a page");
}

/* The answer is the block. */
static struct msg ask_for_echo(unsigned int n)
{
	(void)n;
	return about(MSG_ECHO, THERE);
}

/* A key is never 0. */
static bool break_the_protocol(void)
{
	const struct msg m = about(MSG_KEY, THERE);

	peer_post(peer, wire_class(m.type), &m, sizeof(m), NULL);
	return expect(victim_loses(&victim, peer->liar.me, heard), "the victim gives the peer up");
}

static bool key(void)
{
	static const struct backlog b = { .prepare = write_there,
					  .message = ask_for_echo,
					  .release = break_the_protocol,
					  .loses = 1,
					  .err = -EPIPE };

	return run(&b);
}

/* ---- for a worker ----------------------------------------------------------------------------- */

/* The peer has the first blocks of 2 MiB and more that the victim has no frames of. */
static bool own_away(unsigned int blocks)
{
	const double end = now_s() + patience(60);
	unsigned int asked = 0, done = 0;

	granted = 0;
	if (!write_there())
		return false;
	while (done < blocks && !peer->broken && now_s() < end) {
		struct msg m;

		peer_poll(peer, heard);
		if (!peer_may_send(peer) || (done == granted && asked == blocks)) {
			usleep(100);
			continue;
		}
		m = done < granted ? about(MSG_DONE, grants[done++] >> 1) : about(MSG_WRITE_REQ, AWAY + asked++);
		m.req_slot = (uint16_t)((m.object >> 1) - AWAY);
		if (!say(&m))
			return false;
	}
	return expect(done == blocks, "blocks for the peer");
}

static bool own_one(void)
{
	return own_away(1);
}

static bool own_many(void)
{
	return own_away(MESSAGES);
}

/* Nobody makes frames while others are freed (test_slow_free), here until forgotten(); their state goes first. */
static bool forget_slowly(void)
{
	const double end = now_s() + patience(20);
	const long before = charged();
	char ms[20];

	snprintf(ms, sizeof(ms), "%.0f", patience(60) * 1000);
	if (!set_parameter("test_slow_free", ms))
		return false;
	victim_order(&victim, VICTIM_FORGET, THERE);
	while (charged() >= before && now_s() < end)
		usleep(1000);
	usleep(100000);
	return expect(charged() < before, "the victim forgets a range");
}

/* To take the block back, frames have to be made. */
static struct msg give_back_away(unsigned int n)
{
	struct msg m = about(MSG_RELEASE, AWAY + n);

	m.op = RELEASE_EVICT;
	m.aux = DSM_UNIT_PAGES;
	return m;
}

static bool forgotten(void)
{
	return set_parameter("test_slow_free", "0") && expect(!victim_result(&victim), "FORGET");
}

#define UNIT_NEEDS 16 /* pages that frames of 2 MiB need besides: their list, their key */

static bool worker(void)
{
	const struct backlog b = { .prepare = own_many,
				   .hold = forget_slowly,
				   .message = give_back_away,
				   .release = forgotten,
				   .more = UNIT_NEEDS * (long)(1 + MESSAGES / DSM_UNIT_PAGES),
				   .loses = 0,
				   .err = -EDQUOT };
	const bool ok = run(&b);

	return set_parameter("test_slow_free", "0") && ok;
}

/* ---- again and again -------------------------------------------------------------------------- */

static struct msg give_back_again(unsigned int n)
{
	struct msg m = give_back_away(0);

	m.op = n % 2 ? RELEASE_EVICT : RELEASE_KEEP;
	return m;
}

/* One of each kind waits, and with it all the others. */
static bool waits_once(const struct backlog *b)
{
	const long long later = counter("left_to_worker");
	long needed, before;
	double end;

	asked_back = 0;
	if (!begin(b, RLIM_INFINITY, &needed))
		return false;
	before = charged();
	if (!flood(b))
		return false;
	if (!expect(counter("left_to_worker") >= later + 2, "a worker is to take the block back") ||
	    !expect(falls_to(before + SPARE), "a message that is repeated waits once") ||
	    !expect(!asked_back, "it waits") || !b->release())
		return false;
	for (end = now_s() + patience(20); !asked_back && now_s() < end; usleep(200))
		peer_poll(peer, heard);
	return expect(asked_back, "the block is asked back") &&
		expect(!victim_lost(&victim, VICTIM) && !victim_lost(&victim, peer->liar.me), "nobody is lost");
}

static bool again(void)
{
	static const struct backlog b = {
		.prepare = own_one, .hold = forget_slowly, .message = give_back_again, .release = forgotten
	};
	bool ok = waits_once(&b);

	ok = set_parameter("test_slow_free", "0") && ok;
	return victim_end(&victim) && ok;
}

/* ---- for memory ------------------------------------------------------------------------------- */

#define UNKNOWN (2 * DSM_UNIT_PAGES) /* a page in 2 MiB that nobody has named yet */

static bool refuse_all(bool is)
{
	return set_parameter("test_fail_alloc", is ? "1" : "0") && set_parameter("test_fail_sleeping", is ? "1" : "0");
}

/* Until a worker has tried it some times. */
static bool waits_for_memory(const struct msg *m)
{
	const long long before = counter("tried_again");
	const double end = now_s() + patience(10);

	if (!refuse_all(true) || !say(m))
		return false;
	while (counter("tried_again") < before + 5 && !victim_lost(&victim, VICTIM) && now_s() < end) {
		peer_poll(peer, heard);
		usleep(200);
	}
	return expect(!victim_lost(&victim, VICTIM), "a lack of memory does not fail the rank") &&
		expect(counter("tried_again") >= before + 5, "a worker tries it again");
}

/* To take a block back takes frames; to be home of one takes state. */
static bool for_memory(void)
{
	const struct msg back = give_back_away(0), ask = about(MSG_WRITE_REQ, UNKNOWN);
	const double end = now_s() + patience(20);
	const long long frames = counter("frames");

	if (!waits_for_memory(&back) || !expect(counter("frames") == frames, "no frames while there is no memory") ||
	    !refuse_all(false))
		return false;
	while (counter("frames") == frames && now_s() < end)
		usleep(1000);
	if (!expect(counter("frames") > frames, "frames as soon as there is"))
		return false;
	granted = 0;
	if (!waits_for_memory(&ask) || !expect(!granted, "nothing is granted") || !refuse_all(false))
		return false;
	for (; !granted && !peer->broken && now_s() < end; usleep(200))
		peer_poll(peer, heard);
	return expect(granted, "a block for the peer") &&
		expect(!victim_lost(&victim, VICTIM) && !victim_lost(&victim, peer->liar.me), "nobody is lost");
}

static bool shortage(void)
{
	bool ok = victim_begin(&victim, 0, RLIM_INFINITY);

	if (ok) {
		peer_greet(peer, victim.job, 0);
		ok = own_away(1) && for_memory();
	}
	ok = refuse_all(false) && ok;
	return victim_end(&victim) && ok;
}

int main(int argc, char **argv)
{
	static const struct attack attacks[] = {
		{ "credit", credit }, { "key", key },           { "worker", worker },
		{ "again", again },   { "shortage", shortage },
	};

	return attacks_main(argc, argv, attacks, sizeof(attacks) / sizeof(attacks[0]));
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * backlog.c - messages that wait in dsm.ko because of a peer are charged to the user of the waiting
 * rank (docs/kernel.md, "Security"). In each test, a peer makes thousands of messages wait, by
 * verbs. They must be charged while they exist. Then the test repeats this with a limit of locked
 * memory that leaves room for few of them: the module refuses the others, and continues.
 *
 * Messages also wait, without a limit, if neither softirq nor a worker has memory for them. No rank
 * is lost then, and the requests are served as soon as there is memory.
 *
 * Runs in a guest with the module loaded and a soft RDMA device, as root; /dev/dsm is opened to
 * everybody meanwhile. Without arguments all tests run.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"
#include "tests/kmod/common_victim.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define VICTIM 0u
/* a window whose tables need more than the free memory */
#define LARGE (1ull << 40)
/* free memory of a context, not counted as locked */
#define FREE_PAGES ((long)((8ul << 20) / PAGE))
/* a debug kernel complains of workers that wait for a minute */
#define MESSAGES (6000u / (unsigned int)patience(1))
/* pages that the messages themselves fill */
#define LEAST (MESSAGES * (long)sizeof(struct msg) / (long)PAGE)
/* pages that the limit leaves for messages */
#define ROOM (LEAST / 3)
#define SPARE 1 /* memory charged by the byte may keep one page charged */
/* a page of the victim that has a frame and, if a test needs it, a key */
#define THERE 0u
/* a page of the peer, in a unit of 2 MiB in which the victim has no frames */
#define AWAY DSM_UNIT_PAGES

static struct victim victim;
static struct peer *const peer = &victim.peer;
static unsigned int granted; /* blocks granted to the peer, */
static uint32_t grants[6000];
static unsigned int asked_back; /* blocks that the victim requested back */

static long charged(void)
{
	return (long)counter("charged");
}

/* Locked pages of the victim's user: what is charged beyond the free memory. */
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

/* Receive at the peer until at most `pages` pages are charged. */
static bool falls_to(long pages)
{
	const double end = now_s() + patience(20);

	while (charged() > pages && now_s() < end) {
		peer_poll(peer, heard);
		usleep(200);
	}
	return charged() <= pages;
}

/* ---- from a backlog to none ------------------------------------------------------------------ */

struct backlog {
	bool (*prepare)(void);                 /* NULL: nothing to prepare */
	bool (*hold)(void);                    /* makes messages wait; NULL: they wait anyway */
	struct msg (*message)(unsigned int n); /* the n-th message of the peer */
	unsigned int greedy;                   /* mask of classes in which it takes no answers */
	bool (*release)(void);                 /* lets the messages proceed */
	long more;                             /* pages charged for other things then, at most */
	unsigned int loses;                    /* with a limit, the victim loses this rank */
	int err;                               /* with this error */
};

/*
 * Send until all messages are sent and completed, or the module gives a rank up: then it accepts no
 * more.
 */
static bool flood(const struct backlog *b)
{
	const long long given_up = counter("ranks_given_up");
	const double end = now_s() + patience(60);
	unsigned int n = 0;

	while ((n < MESSAGES || peer->posted) && counter("ranks_given_up") == given_up &&
	       !peer->broken && now_s() < end) {
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

/* limit: of locked memory, or RLIM_INFINITY. needed: pages locked before the messages are sent. */
static bool begin(const struct backlog *b, rlim_t limit, long *needed)
{
	const bool ok = victim_begin(&victim, LARGE, limit) &&
		expect(charged() > FREE_PAGES, "the window takes what is free");

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
		expect(!victim_lost(&victim, VICTIM) && !victim_lost(&victim, peer->liar.me),
		       "nobody is lost") &&
		b->release() &&
		expect(falls_to(before + b->more + SPARE),
		       "they are charged no more when they have gone");
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
	return expect(counter("ranks_given_up") > given_up,
		      "more messages than the user may lock") &&
		expect(most <= limit, "no more than that") && b->release() &&
		expect(victim_loses(&victim, b->loses, heard) &&
			       victim_lost(&victim, b->loses) == b->err,
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

/* ---- for the peer's credit ------------------------------------------------------------------- */

/* The block is at home, so the victim only answers that the message has arrived. */
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
	static const struct backlog b = { .message = give_back,
					  .greedy = 1u << CLASS_SYNC,
					  .release = take_answers,
					  .loses = 1,
					  .err = -EPIPE };

	return run(&b);
}

/* ---- for the peer's key ---------------------------------------------------------------------- */

static bool write_there(void)
{
	return expect(!victim_do(&victim, VICTIM_WRITE, THERE), "the victim writes a page");
}

/* The answer to an echo is the block. */
static struct msg ask_for_echo(unsigned int n)
{
	(void)n;
	return about(MSG_ECHO, THERE);
}

/* A key of 0 is a protocol error. */
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

/* ---- for a worker ---------------------------------------------------------------------------- */

/* Give the peer the first blocks of units in which the victim has no frames. */
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
		m = done < granted ? about(MSG_DONE, grants[done++] >> 1)
				   : about(MSG_WRITE_REQ, AWAY + asked++);
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

/*
 * No frames can be made while others are freed; test_slow_free holds that up until forgotten(). The
 * state of blocks goes first.
 */
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

/* A message that gives a block back; the victim must make frames to take it. */
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

#define UNIT_NEEDS 16 /* pages that 2 MiB of frames need besides: their list and their key */

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

/* ---- repeated messages ----------------------------------------------------------------------- */

static struct msg give_back_again(unsigned int n)
{
	struct msg m = give_back_away(0);

	m.op = n % 2 ? RELEASE_EVICT : RELEASE_KEEP;
	return m;
}

/* One message of each kind waits, and stands for all repetitions. */
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
		expect(!victim_lost(&victim, VICTIM) && !victim_lost(&victim, peer->liar.me),
		       "nobody is lost");
}

static bool again(void)
{
	static const struct backlog b = { .prepare = own_one,
					  .hold = forget_slowly,
					  .message = give_back_again,
					  .release = forgotten };
	bool ok = waits_once(&b);

	ok = set_parameter("test_slow_free", "0") && ok;
	return victim_end(&victim) && ok;
}

/* ---- for memory ------------------------------------------------------------------------------ */

#define UNKNOWN (2 * DSM_UNIT_PAGES) /* a page in 2 MiB that nobody has named yet */

static bool refuse_all(bool is)
{
	return set_parameter("test_fail_alloc", is ? "1" : "0") &&
		set_parameter("test_fail_sleeping", is ? "1" : "0");
}

/* Waits until a worker has retried several times without memory. */
static bool waits_for_memory(const struct msg *m)
{
	const long long before = counter("tried_again");
	const double end = now_s() + patience(10);

	if (!refuse_all(true) || !say(m))
		return false;
	while (counter("tried_again") < before + 5 && !victim_lost(&victim, VICTIM) &&
	       now_s() < end) {
		peer_poll(peer, heard);
		usleep(200);
	}
	return expect(!victim_lost(&victim, VICTIM), "a lack of memory does not fail the rank") &&
		expect(counter("tried_again") >= before + 5, "a worker tries it again");
}

/* A rank needs frames to take a block back, and state to be the home of a block. */
static bool for_memory(void)
{
	const struct msg back = give_back_away(0), ask = about(MSG_WRITE_REQ, UNKNOWN);
	const double end = now_s() + patience(20);
	const long long frames = counter("frames");

	if (!waits_for_memory(&back) ||
	    !expect(counter("frames") == frames, "no frames while there is no memory") ||
	    !refuse_all(false))
		return false;
	while (counter("frames") == frames && now_s() < end)
		usleep(1000);
	if (!expect(counter("frames") > frames, "frames as soon as there is"))
		return false;
	granted = 0;
	if (!waits_for_memory(&ask) || !expect(!granted, "nothing is granted") ||
	    !refuse_all(false))
		return false;
	for (; !granted && !peer->broken && now_s() < end; usleep(200))
		peer_poll(peer, heard);
	return expect(granted, "a block for the peer") &&
		expect(!victim_lost(&victim, VICTIM) && !victim_lost(&victim, peer->liar.me),
		       "nobody is lost");
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

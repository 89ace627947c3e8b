// SPDX-License-Identifier: BSD-2-Clause
/*
 * egress.c - the order in which dsm.ko sends to a peer (kmod/net/egress.c). A rank in user space,
 * by verbs, requests blocks and objects from a context, and returns no credit, so that the answers
 * wait. Checked: blocks are cut into chunks, and arrive complete; the bytes in flight stay within
 * the window; synchronisation overtakes blocks, and blocks wait meanwhile; blocks share the
 * connection by the priority of their region; if the peer is given up, or the process is killed,
 * nothing that waited is left.
 *
 * Runs in a guest with the module loaded and a soft RDMA device, as root; sets parameters of the
 * module and resets them. Without arguments all tests run.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"
#include "tests/kmod/common_victim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ORDER 4u /* blocks of 64 KiB, four chunks */
#define BLOCK_PAGES (1u << ORDER)
#define UNIT_BLOCKS (DSM_UNIT_PAGES / BLOCK_PAGES)
#define MANY 16u /* units of region 0 */
#define CHUNK (16u << 10)
#define WINDOW (128u << 10)
/* sends before credit runs out: HELLO takes one, returning credits another */
#define ALONE (PEER_CREDITS - 2u)

/* Units of the window after region 0. */
enum { UNIT_LOW = MANY, UNIT_HIGH, UNIT_URGENT, UNIT_LARGE, UNITS };

static const struct {
	uint32_t priority, order;
} others[UNITS - MANY] = {
	[UNIT_LOW - MANY] = { DSM_REGION_LOW, ORDER },
	[UNIT_HIGH - MANY] = { DSM_REGION_HIGH, ORDER },
	[UNIT_URGENT - MANY] = { DSM_REGION_URGENT, ORDER },
	[UNIT_LARGE - MANY] = { DSM_REGION_NORMAL, DSM_ORDER_MAX },
};

static void prepare(int fd);
static struct victim victim = { .pages = MANY * DSM_UNIT_PAGES,
				.order = ORDER,
				.prepare = prepare };
static struct peer *const peer = &victim.peer;
static unsigned int landed, replies; /* landed blocks, and answers about objects */
static uint32_t pages_landed[1024];  /* the first page of each block, in order of arrival */

/* ---- the victim ------------------------------------------------------------------------------ */

static uint64_t word_of(uint32_t page)
{
	return page * 0x9e3779b97f4a7c15ull + 1;
}

/*
 * The victim owns all pages, so that it sends them. Each page has its own word at its begin and
 * end.
 */
static void prepare(int fd)
{
	uint32_t i, page;

	for (i = 0; i < UNITS - MANY; i++) {
		struct dsm_ioc_region g = { .page = (MANY + i) * DSM_UNIT_PAGES,
					    .pages = DSM_UNIT_PAGES,
					    .id = (uint16_t)(1 + i),
					    .order = (uint16_t)others[i].order,
					    .home = DSM_REGION_FIXED,
					    .priority = others[i].priority };

		if (ioctl(fd, DSM_IOC_REGION, &g)) {
			perror("REGION");
			_exit(3);
		}
	}
	for (page = 0; page < UNITS * DSM_UNIT_PAGES; page++) {
		volatile uint64_t *at = (volatile uint64_t *)(void *)(JOB_BASE + page * PAGE);

		at[0] = at[PAGE / 8 - 1] = word_of(page);
	}
}

/* ---- the peer -------------------------------------------------------------------------------- */

static void heard(struct peer *p, const struct msg *m)
{
	if (m->type == MSG_KEY_WANTED)
		peer_give_key(p, m);
	else if (m->type == MSG_GRANT && landed < sizeof(pages_landed) / sizeof(pages_landed[0]))
		pages_landed[landed++] = (m->object & (m->object - 1)) >> 1;
	else if (m->type == MSG_REPLY)
		replies++;
}

static void say(const struct msg *m)
{
	while (!peer_may_send(peer) && !peer->broken) {
		peer_poll(peer, heard);
		usleep(20);
	}
	peer_post(peer, wire_class(m->type), m, sizeof(*m), NULL);
}

static void ask_block(uint32_t page, uint32_t pages)
{
	static uint16_t slot;
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_READ_REQ,
			       .src = peer->liar.me,
			       .dst = peer->liar.target,
			       .object = page << 1 | pages,
			       .req_node = peer->liar.me,
			       .req_slot = slot };

	peer->wanted[slot] = m.object;
	slot = (uint16_t)((slot + 1) % LIAR_SHORT_SLOTS);
	say(&m);
}

static void ask_blocks(unsigned int unit, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		ask_block(unit * DSM_UNIT_PAGES + i * BLOCK_PAGES, BLOCK_PAGES);
}

/* Request a new object: the answer is a message of class SYNC. */
static void ask_object(void)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_SYNC,
			       .op = SOP_CREATE,
			       .src = peer->liar.me,
			       .dst = peer->liar.target,
			       .aux = SYNC_ATOMIC };

	say(&m);
}

static bool until(const unsigned int *n, unsigned int wanted, double seconds)
{
	const double end = now_s() + patience(seconds);

	while (*n < wanted && !peer->broken && now_s() < end) {
		peer_poll(peer, heard);
		usleep(20);
	}
	return *n >= wanted;
}

static bool until_counted(const char *name, long long n)
{
	const double end = now_s() + patience(20);

	while (counter(name) < n && now_s() < end) {
		peer_poll(peer, heard);
		usleep(100);
	}
	return expect(counter(name) >= n, name);
}

/*
 * Receive blocks until the victim has no credit for more. They are from units that the test uses
 * for nothing else.
 */
static bool spend_data_credit(void)
{
	peer->greedy |= 1u << CLASS_DATA;
	ask_blocks(MANY - 2, UNIT_BLOCKS);
	ask_blocks(MANY - 1, ALONE - UNIT_BLOCKS);
	return expect(until(&landed, ALONE, 20), "blocks for which there is credit");
}

static void give_credit(unsigned int class)
{
	peer->greedy &= ~(1u << class);
	peer_return_credits(peer, class);
}

static bool begin(void)
{
	landed = replies = 0;
	if (!victim_begin(&victim, (uint64_t)UNITS * DSM_UNIT, RLIM_INFINITY))
		return false;
	peer_greet(peer, victim.job, 0);
	return true;
}

static bool end(bool ok)
{
	ok = ok &&
		expect(!victim_lost(&victim, 0) && !victim_lost(&victim, peer->liar.me),
		       "nobody is lost");
	return victim_end(&victim) && ok;
}

/* Does the landed data match the pages of the unit? All units land at one place. */
static bool right(unsigned int unit)
{
	unsigned int page, wrong = 0;

	for (page = 0; page < DSM_UNIT_PAGES; page++) {
		const uint64_t *at = (const uint64_t *)(uintptr_t)(peer->landing + page * PAGE);
		const uint64_t word = word_of(unit * DSM_UNIT_PAGES + page);

		wrong += at[0] != word || at[PAGE / 8 - 1] != word;
	}
	return expect(!wrong, "the contents of the blocks");
}

/* ---- the window ------------------------------------------------------------------------------ */

/* The module's maximum of block bytes in flight to the peer. */
static unsigned long most_on_the_way(void)
{
	FILE *f = fopen("/sys/kernel/debug/dsm/queues", "r");
	unsigned long now, most = 0;
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " blocks on their way: %lu bytes, to a peer at most %lu of", &now,
			   &most) == 2)
			break;
	if (f)
		fclose(f);
	return most;
}

/* All blocks of a unit wait for credit, then are released at once. */
static bool burst(unsigned long *most)
{
	const bool ok = begin() && spend_data_credit();
	bool came;

	if (ok) {
		ask_blocks(0, UNIT_BLOCKS);
		if (!until_counted("sends_waiting", UNIT_BLOCKS))
			return end(false);
		give_credit(CLASS_DATA);
	}
	came = ok && expect(until(&landed, ALONE + UNIT_BLOCKS, 20), "all blocks") && right(0);
	*most = most_on_the_way();
	return end(came);
}

static bool window(void)
{
	const long long chunks = counter("chunks_sent");
	unsigned long most, without;
	bool ok = burst(&most);

	ok = ok &&
		expect(counter("chunks_sent") >= chunks + (long long)(DSM_UNIT / CHUNK),
		       "blocks that have waited go in chunks") &&
		expect(most > WINDOW / 2 && most <= WINDOW, "the window is used, and holds");
	/* Without a window, the same burst puts all bytes in flight. */
	ok = set_parameter("send_window", "0") && ok;
	ok = burst(&without) && ok;
	ok = set_parameter("send_window", "131072") && ok;
	printf("at most %lu bytes on their way to the peer, %lu without a window\n", most, without);
	return ok && expect(without > 2 * WINDOW, "without a window there is more");
}

/* A block larger than the window, with nothing ahead of it. */
static bool large(void)
{
	const long long full = counter("send_window_full");
	bool ok = begin();

	if (ok)
		ask_block(UNIT_LARGE * DSM_UNIT_PAGES, DSM_UNIT_PAGES);
	ok = ok && expect(until(&landed, 1, 20), "a block of 2 MiB") && right(UNIT_LARGE) &&
		expect(counter("send_window_full") > full, "it waits for the window") &&
		expect(most_on_the_way() <= WINDOW, "the window holds");
	return end(ok);
}

/* ---- strict classes first -------------------------------------------------------------------- */

#define WAIT 8u /* answers and blocks that must wait */

/*
 * Answers wait for credit. Later blocks wait behind them, though the blocks have places and credit.
 */
static bool hold_back(void)
{
	const long long first = counter("strict_first");
	unsigned int i;

	ask_blocks(0, 1); /* makes the victim ask for the key */
	if (!expect(until(&landed, 1, 20), "a block"))
		return false;
	peer->greedy |= 1u << CLASS_SYNC;
	for (i = 0; i < ALONE + WAIT; i++)
		ask_object();
	if (!until_counted("sends_waiting", WAIT))
		return false;
	for (i = 1; i <= WAIT; i++)
		ask_block(i * BLOCK_PAGES, BLOCK_PAGES);
	return until_counted("strict_first", first + WAIT);
}

static bool strict(void)
{
	bool ok = begin() && hold_back();
	const double latest = now_s() + 0.5;

	for (; ok && now_s() < latest; usleep(1000))
		peer_poll(peer, heard); /* receive anything that arrives */
	ok = ok && expect(replies < ALONE + WAIT, "answers wait") &&
		expect(landed == 1, "so do blocks");
	if (ok)
		give_credit(CLASS_SYNC);
	ok = ok && expect(until(&replies, ALONE + WAIT, 20), "the answers come") &&
		expect(until(&landed, 1 + WAIT, 20), "and then the blocks");
	return end(ok);
}

static int by_size(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

#define PINGS 400u

/*
 * While hundreds of blocks wait, answers are sent at once: few blocks come between a request and
 * its answer.
 */
static bool pass(void)
{
	static int between[PINGS];
	const unsigned int all = MANY * UNIT_BLOCKS;
	unsigned int unit, n = 0, before;
	bool ok = begin();

	for (unit = 0; ok && unit < MANY; unit++)
		ask_blocks(unit, UNIT_BLOCKS);
	while (ok && landed < all && n < PINGS) {
		before = landed;
		ask_object();
		ok = expect(until(&replies, n + 1, 20), "an answer");
		between[n++] = (int)(landed - before);
	}
	ok = ok && expect(until(&landed, all, 60), "all blocks");
	qsort(between, n, sizeof(between[0]), by_size);
	if (n)
		printf("%u answers passed a backlog of %u blocks of 64 KiB; between question and answer came %d (median), %d (most)\n",
		       n, all, between[n / 2], between[n - 1]);
	ok = ok && expect(n >= 8, "answers in the middle of blocks") &&
		expect(between[n / 2] <= (int)(8 * WINDOW / (BLOCK_PAGES * PAGE)),
		       "answers pass blocks");
	return end(ok);
}

/* ---- weights --------------------------------------------------------------------------------- */

#define URGENT 10u
#define SHARE 21u /* blocks of four epochs: 16 of high priority, 4 of normal, 1 of low */

static bool weights(void)
{
	unsigned int i, of[UNITS] = { 0 }, urgent = 0;
	bool ok = begin() && spend_data_credit();

	if (ok) {
		ask_blocks(UNIT_LOW, UNIT_BLOCKS);
		ask_blocks(0, UNIT_BLOCKS);
		ask_blocks(UNIT_HIGH, UNIT_BLOCKS);
		ask_blocks(UNIT_URGENT, URGENT);
		ok = until_counted("sends_waiting", 3 * UNIT_BLOCKS + URGENT);
	}
	if (ok) {
		give_credit(CLASS_DATA);
		ok = expect(until(&landed, ALONE + 3 * UNIT_BLOCKS + URGENT, 20), "all blocks");
	}
	for (i = ALONE; ok && i < ALONE + URGENT; i++)
		urgent += pages_landed[i] / DSM_UNIT_PAGES == UNIT_URGENT;
	for (; ok && i < ALONE + URGENT + SHARE; i++)
		of[pages_landed[i] / DSM_UNIT_PAGES]++;
	printf("first %u urgent blocks of %u; then %u of high priority, %u of normal, %u of low\n",
	       urgent, URGENT, of[UNIT_HIGH], of[0], of[UNIT_LOW]);
	ok = ok && expect(urgent == URGENT, "urgent blocks come first") &&
		expect(of[UNIT_HIGH] >= 15 && of[UNIT_HIGH] <= 17 && of[0] >= 3 && of[0] <= 5 &&
			       of[UNIT_LOW] <= 2,
		       "the others by weight");
	return end(ok);
}

/* ---- loss of the peer, end of the process ---------------------------------------------------- */

#define LISTED_SENDS "  sends to "

/* A key of 0 is a protocol error. */
static void break_the_protocol(void)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_KEY,
			       .src = peer->liar.me,
			       .dst = peer->liar.target,
			       .object = 1 };

	peer_post(peer, wire_class(m.type), &m, sizeof(m), NULL);
}

/*
 * The victim gives the peer up while messages and blocks wait for it; the victim's process
 * continues.
 */
static bool given_up(void)
{
	bool ok = begin() && hold_back();
	double latest;

	if (ok)
		break_the_protocol();
	ok = ok && expect(victim_loses(&victim, peer->liar.me, heard), "the peer is given up");
	for (latest = now_s() + patience(10); counter("sends_waiting") && now_s() < latest;
	     usleep(1000))
		;
	ok = ok && expect(!counter("sends_waiting"), "nothing waits any more") &&
		expect(none_listed(LISTED_SENDS), "nor has a turn") &&
		expect(!victim_lost(&victim, 0), "the victim is not lost");
	return victim_end(&victim) && ok;
}

/* The victim's process is killed while messages and blocks wait. */
static bool killed(void)
{
	return end(begin() && hold_back() &&
		   expect(listed(LISTED_SENDS) == 1, "what waits is listed"));
}

int main(int argc, char **argv)
{
	static const struct attack tests[] = {
		{ "window", window }, { "large", large },     { "strict", strict },
		{ "pass", pass },     { "weights", weights }, { "given-up", given_up },
		{ "killed", killed },
	};

	return attacks_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}

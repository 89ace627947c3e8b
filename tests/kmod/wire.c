// SPDX-License-Identifier: BSD-2-Clause
/*
 * wire.c - a peer that breaks the protocol. Ranks 0 and 2 of a job of three are contexts of dsm.ko,
 * of one kernel, which share memory and an object (common_honest.h); their threads also fault, lock
 * and create objects. Rank 1 is this program, by verbs from user space, connected to both. Now and
 * then it answers as a rank would. Otherwise it sends messages made from the table of core/wire.h
 * with a field at the edge of its range, just outside, or anything; random bytes; other lengths;
 * messages on the wrong queue pair; and writes with and without a key.
 *
 * Runs in a guest with the module loaded and a soft RDMA device. What must hold: an invalid message
 * ends the connection to its receiver, and the process of the receiver is told within seconds of
 * the loss of rank 1, and of no other rank. The other two ranks continue, also in memory that they
 * have not used before, and find what they have written there. They end when they are killed, and
 * leave nothing behind. The caller checks the kernel's log.
 *
 * In some rounds rank 1 also lies: it sends messages that a rank could send at another time, or
 * about another block. An honest rank may believe a forged answer, and then blame the other honest
 * rank (docs/protocol.md). In these rounds the two need to continue only if this has not happened,
 * and it may happen in one of MISLED rounds. The messages that an honest rank may believe from
 * anyone - that a block is wanted, that one was dropped - never name a block whose contents are
 * checked (keep_off()).
 */
#include "tests/kmod/common_aim.h"
#include "tests/kmod/common_honest.h"
#include "tests/kmod/common_peer.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIAR 1u
#define RANKS 3u
#define HONEST 2u
#define HONEST_MASK 5u /* ranks 0 and 2 */
#define MISLED 50u     /* forged answers must guess the request, and seldom succeed */
#define WORKERS 4u     /* other threads of an honest rank */

static struct peer peers[HONEST];
static struct honest *honest;
static uint64_t random_state;
static bool lies; /* in this round */

static struct shared {
	_Atomic int lost[RANKS];   /* this rank was told that rank 1 is lost */
	_Atomic int blamed[RANKS]; /* + 1: an honest rank that this rank was told is lost */
} * shared;

static unsigned long rounds, messages, answers, drops, wrong, writes, steps, blames;

/* ---- ranks 0 and 2 -------------------------------------------------------------------------- */

static void rank_process(struct job *j, unsigned int rank, uint64_t seed)
{
	struct dsm_ioc_lost l;
	int fd;

	catch_signals();
	fd = job_join(j, rank);
	if (fd < 0)
		_exit(3);
	honest_start(honest, fd, rank);
	honest_disturb(fd, RANKS, WORKERS, seed);
	for (;;) {
		struct pollfd f = { .fd = fd, .events = POLLIN };

		if (poll(&f, 1, 1000) != 1 || ioctl(fd, DSM_IOC_LOST, &l) || l.rank < 0)
			continue;
		if (l.rank == LIAR)
			atomic_store(&shared->lost[rank], 1);
		else
			atomic_store(&shared->blamed[rank], l.rank + 1);
	}
}

/* ---- sending -------------------------------------------------------------------------------- */

static void keep_off(const struct peer *p, char *at, uint32_t size)
{
	for (; size >= sizeof(struct msg);
	     at += sizeof(struct msg), size -= (uint32_t)sizeof(struct msg)) {
		struct msg m;

		memcpy(&m, at, sizeof(m));
		liar_keep_off(&p->liar, &m);
		memcpy(at, &m, sizeof(m));
	}
}

static void say(struct peer *p, unsigned int class, const void *data, uint32_t size)
{
	char copy[4096];

	memcpy(copy, data, size);
	keep_off(p, copy, size);
	messages += size / sizeof(struct msg) ? size / sizeof(struct msg) : 1;
	peer_post(p, class, copy, size, NULL);
}

static void answer(struct peer *p, const struct msg *m)
{
	struct msg a;

	if (m->type == MSG_KEY_WANTED)
		a = (struct msg){ .version = WIRE_VERSION,
				  .type = MSG_KEY,
				  .src = LIAR,
				  .dst = p->liar.target,
				  .object = m->object,
				  .aux = p->mr->rkey,
				  .value = p->landing };
	else if (!liar_answer(&p->liar, m, &a))
		return;
	answers++;
	say(p, wire_class(a.type), &a, sizeof(a));
}

static void heard(struct peer *p, const struct msg *m)
{
	if (m->type == MSG_KEY) {
		p->rkey = m->aux;
		p->at = m->value;
	} else if (pick(&random_state, 8) && peer_may_send(p)) {
		answer(p, m);
	}
}

/* ---- invented messages ---------------------------------------------------------------------- */

/* Immediate data of a block, of an echo with one invalid bit, or random. */
static uint32_t some_word(uint64_t *r)
{
	const struct word_KERNEL_BLOCK w = { .valid = 1,
					     .write = pick(r, 2),
					     .count = pick(r, 2),
					     .slot_low = pick(r, 256),
					     .slot_high = pick(r, 4) };
	const struct word_KERNEL_ECHO echo = {
		.valid = 1, .echo = 1, .slot = pick(r, LIAR_SLOTS), .zero = 1u << pick(r, 14)
	};

	if (pick(r, 3))
		return word_put_KERNEL_BLOCK(w);
	return pick(r, 4) ? (uint32_t)next(r) : word_put_KERNEL_ECHO(echo);
}

/*
 * A write into the target's frames, or beside them. Only the owner may say that a block of rank 0
 * has arrived.
 */
static void write_block(struct peer *p)
{
	uint64_t *r = &random_state;
	struct ibv_send_wr wr = { .opcode = pick(r, 4) ? IBV_WR_RDMA_WRITE_WITH_IMM
						       : IBV_WR_RDMA_WRITE };
	struct word_KERNEL_BLOCK w = word_get_KERNEL_BLOCK(some_word(r));

	writes++;
	messages++;
	if (!w.home)
		w.home = LIAR;
	wr.imm_data = __builtin_bswap32(word_put_KERNEL_BLOCK(w));
	wr.wr.rdma.rkey = pick(r, 4) ? p->rkey : (uint32_t)next(r);
	wr.wr.rdma.remote_addr = p->at + (pick(r, 8) ? pick(r, 512) * PAGE : aim_odd_number(r));
	peer_post(p, CLASS_DATA, NULL, pick(r, 8) ? PAGE : pick(r, 4096), &wr);
}

static void ask(struct peer *p, const struct job *j)
{
	struct msg m = liar_ask(&p->liar, &random_state, j);

	if (m.type != MSG_SYNC)
		p->wanted[m.req_slot] = m.object;
	say(p, wire_class(m.type), &m, sizeof(m));
}

/*
 * Several messages in a send. It is wrong if there are too many, or if the class does not allow it.
 */
static bool say_several(struct peer *p, const struct msg *first, unsigned int class)
{
	struct msg all[PEER_PACK + 1];
	unsigned int n = 2 +
		pick(&random_state, pick(&random_state, 4) ? PEER_PACK - 1 : PEER_PACK),
		     i;
	bool bad = n > PEER_PACK || class != CLASS_COHERENCE;

	for (i = 0; i < n; i++) {
		all[i] = i ? liar_plausible(&p->liar, &random_state) : *first;
		bad |= liar_is_wrong(&p->liar, &all[i], class);
	}
	say(p, class, all, n * sizeof(*first));
	return bad;
}

/* Return no credit, or more than the messages that can have been taken. */
static void return_too_much(struct peer *p, unsigned int class)
{
	const uint32_t n =
		pick(&random_state, 2) ? 0 : PEER_CREDITS + 1 + pick(&random_state, 1000);
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
					.imm_data = __builtin_bswap32(n) };

	messages++;
	peer_post(p, class, NULL, 0, &wr);
}

/* One send. True: it must end the connection. */
static bool say_something(struct peer *p)
{
	uint64_t *r = &random_state;
	struct msg m = liar_plausible(&p->liar, &random_state);
	unsigned int class = pick(r, 40) ? wire_class(m.type) : pick(r, CLASS_MAX), i, size;
	char bytes[2048];

	switch (pick(r, 40)) {
	case 0: /* of another length */
		for (i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)next(r);
		memcpy(bytes, &m, sizeof(m));
		size = pick(r, 2) ? pick(r, 32) : 33 + pick(r, 2000);
		size += size % sizeof(m) == 0;
		say(p, class, bytes, size);
		return true;
	case 1: /* random all over */
		for (i = 0; i < sizeof(m); i++)
			((char *)&m)[i] = (char)next(r);
		break;
	case 2:
	case 3:
	case 4: write_block(p); return false;
	case 5: return_too_much(p, class); return true;
	case 6:
	case 7: return say_several(p, &m, class);
	case 8:
	case 9:
	case 10:
	case 11:
	case 12:
	case 13:
	case 14:
	case 15: liar_change_field(&p->liar, &random_state, &m); break;
	default: break;
	}
	say(p, class, &m, sizeof(m));
	return liar_is_wrong(&p->liar, &m, class);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static bool is_lost(const struct peer *p)
{
	return atomic_load(&shared->lost[p->liar.target]);
}

/* Send one message that the table forbids. */
static void say_wrong(struct peer *p)
{
	struct msg m;

	do {
		m = liar_plausible(&p->liar, &random_state);
		liar_change_field(&p->liar, &random_state, &m);
	} while (!liar_is_wrong(&p->liar, &m, wire_class(m.type)));
	say(p, wire_class(m.type), &m, sizeof(m));
}

/* Send valid messages for a while, or the first message would end the round. */
static bool talk(struct peer *p, const struct job *j, unsigned int most)
{
	uint64_t *r = &random_state;
	const unsigned int calm = 1u << pick(r, 10);
	bool must = !pick(r, 8);
	unsigned int n = 0;
	double end = now_s() + patience(10);

	peer_greet(p, j, must ? 1ull << pick(r, 64) : 0);
	while (n < most && !must && !p->broken && !is_lost(p) && now_s() < end) {
		peer_poll(p, heard);
		if (!peer_may_send(p)) {
			usleep(100);
			continue;
		}
		n++;
		if (pick(r, calm)) {
			ask(p, j);
		} else if (lies) {
			must = say_something(p);
		} else {
			say_wrong(p);
			must = true;
		}
	}
	if (must && !p->broken) {
		wrong++;
		for (end = now_s() + patience(20); !is_lost(p) && now_s() < end; usleep(1000))
			peer_poll(p, heard);
		if (!is_lost(p))
			return peer_fail("a wrong message did not end the connection");
	}
	drops += is_lost(p);
	return true;
}

static bool misled(void)
{
	return atomic_load(&shared->blamed[0]) || atomic_load(&shared->blamed[2]);
}

/* Honest ranks must continue, unless a lie has made one give the other up. */
static bool end_well(void)
{
	if (lies && misled())
		return true;
	if (!honest_end(honest, HONEST))
		return lies && misled();
	if (!lies && misled())
		printf("FAILED: an honest rank was told that the other is gone\n");
	return lies || !misled();
}

/* Wait until all three have joined and are connected. */
static bool begin(struct job *j)
{
	double end = now_s() + patience(60);
	unsigned int i;

	while (atomic_load(&j->come) < HONEST && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	if (atomic_load(&j->come) < HONEST)
		return peer_fail("honest ranks do not join");
	for (i = 0; i < HONEST; i++)
		if (!peer_begin(&peers[i], RANKS, LIAR, (uint16_t)(2 * i)))
			return false;
	peer_address(peers, HONEST, j);
	for (i = 0; i < HONEST; i++)
		if (!peer_connect(&peers[i], j))
			return false;
	atomic_fetch_add(&j->ready, 1);
	atomic_fetch_add(&j->come, 1);
	while (atomic_load(&j->ready) < RANKS && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	return atomic_load(&j->ready) == RANKS ? honest_warm(honest, HONEST)
					       : peer_fail("honest ranks do not connect");
}

static bool one_round(struct job *j)
{
	uint64_t *r = &random_state;
	pid_t pids[HONEST];
	const unsigned int first = pick(r, HONEST);
	unsigned int i;
	bool ok;

	job_set(j, RANKS, true);
	j->here = HONEST_MASK;
	lies = pick(r, 2);
	j->pages = HONEST_FIRST;
	j->mode = pick(r, 3);
	j->home = pick(r, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
	memset(shared, 0, sizeof(*shared));
	honest_begin(honest);
	fflush(stdout);
	for (i = 0; i < HONEST; i++) {
		const uint64_t seed = next(r);

		pids[i] = fork();
		if (!pids[i])
			rank_process(j, 2 * i, seed);
	}
	ok = begin(j);
	for (i = 0; i < HONEST && ok; i++)
		ok = talk(&peers[(first + i) % HONEST], j, 20 + pick(r, 2000));
	ok = ok && end_well();
	steps += honest_steps(honest);
	blames += misled();
	if (!ok) {
		printf("round %lu failed\n", rounds);
		show_ranks();
	}
	for (i = 0; i < HONEST; i++)
		kill(pids[i], SIGKILL);
	ok &= job_reap(pids, HONEST, 60);
	for (i = 0; i < HONEST; i++)
		peer_end(&peers[i]);
	rounds++;
	return nothing_left(20) && ok;
}

static int run(const struct fuzz_options *o)
{
	const double began = now_s();
	double told = began;
	struct job *j = job_new();
	unsigned int i;
	bool ok = true;

	random_state = o->seed;
	honest = honest_new();
	shared = shared_memory(sizeof(*shared));
	for (i = 0; i < HONEST && ok; i++)
		ok = peer_open(&peers[i]);
	/* Send at least one message, however slow the guest is. */
	while (ok && (now_s() < began + o->seconds || !messages) && messages < o->inputs) {
		ok = one_round(j);
		if (now_s() > told + 60) {
			told = now_s();
			printf("%lu rounds, %lu messages\n", rounds, messages);
		}
	}
	printf("%lu rounds of seed %llu: of %lu messages %lu answers, %lu writes; %lu blocks came; %lu wrong in themselves, "
	       "%lu connections ended; %lu steps of honest ranks, of which one was blamed in %lu rounds\n",
	       rounds, (unsigned long long)o->seed, messages, answers, writes,
	       peers[0].landed + peers[1].landed, wrong, drops, steps, blames);
	printf("bad messages counted: %lld; %lu messages, %.0f a second\n", counter("bad_messages"),
	       messages, (double)messages / (now_s() - began));
	if (blames > 1 + rounds / MISLED) {
		printf("FAILED: an honest rank was blamed in %lu rounds of %lu\n", blames, rounds);
		ok = false;
	}
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const char usage[] =
		"usage: wire [--seed S] [--seconds S] [--inputs N]\n"
		"Wrong messages for ranks of dsm.ko, for so long (20) or until there were so many; in a guest\n"
		"with the module loaded and an RDMA device.\n";
	struct fuzz_options o = { .seed = 1, .seconds = 20, .inputs = ~0ul };
	int status = fuzz_options(argc, argv, usage, &o);

	return status < 0 ? run(&o) : status;
}

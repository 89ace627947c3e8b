// SPDX-License-Identifier: BSD-2-Clause
/*
 * flood.c - wire.c without a network: messages of ranks that break the protocol, thousands per
 * second. In a job of 64 ranks, two are contexts of dsm.ko that share memory and objects
 * (common_honest.h); their threads fault, lock, create objects and meet at barriers. The other 62
 * are liars. They exist only as messages, which a thread of each honest rank hands to the code
 * behind its completions (kmod/node/inject.h). The same call returns the messages that the module
 * sends to liars. Most of these are answered as a rank would: by the homes of blocks, by owners, in
 * locks, in barriers. So requests make progress, and invented messages find objects in all their
 * states.
 *
 * A refused message changes nothing. In three of four rounds, a liar that is lost for it may
 * therefore come back at once, as if it had not sent it. In the fourth it stays lost, and the round
 * is over when most of them are lost.
 *
 * What must hold: processes end when they are killed, leave nothing behind, and the kernel reports
 * no problem. In rounds in which liars send nothing that may be believed, honest ranks continue,
 * find what they have written, and none is told that the other is lost. In the other rounds they
 * may wait forever, or take each other for liars (docs/protocol.md). Each type of message must have
 * been accepted at least once.
 *
 * Runs in a guest, with a module that is built for it.
 */
#include "tests/kmod/common_crowd.h"
#include "tests/kmod/common_honest.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS CROWD_RANKS
#define HONEST 2u
#define SECOND 3u /* the second honest rank */
#define WORKERS 6u
#define BATCH 256u
#define ENOUGH 2000000u /* after so many messages, each type should have been accepted */

static const char *const outcome_names[INJECT_OUTCOMES] = { "lost",  "refused", "wrong",
							    "stray", "later",   "taken" };

static struct shared {
	/* liars of all ranks should send; those of rank [i] do */
	_Atomic bool pour, pours[JOB_RANKS];
	bool lies, forgive;
	_Atomic int blamed[JOB_RANKS]; /* + 1: an honest rank that this rank was told is lost */
	_Atomic uint64_t lost[JOB_RANKS];
	_Atomic unsigned long by[INJECT_OUTCOMES][MSG_TYPES];
} * shared;

static struct crowd *crowd;
static struct honest *honest;
static unsigned long rounds, steps;

/* State of an honest rank's process. */
static struct {
	struct job *job;
	uint16_t me;
	int fd;
	uint64_t random;
	_Atomic uint64_t barrier;          /* group of a barrier that a thread waits at; 0: none */
	_Atomic unsigned int number, life; /* the barrier's number and generation */
} self;

static unsigned long count_of(enum inject_outcome o)
{
	unsigned long n = 0;
	unsigned int t;

	for (t = 0; t < MSG_TYPES; t++)
		n += atomic_load(&shared->by[o][t]);
	return n;
}

static unsigned long messages(void)
{
	unsigned long n = 0;
	unsigned int o;

	for (o = INJECT_REFUSED; o < INJECT_OUTCOMES; o++)
		n += count_of((enum inject_outcome)o);
	return n;
}

/* ---- invented messages ---------------------------------------------------------------------- */

static void landed(const struct liar *l, struct inject_message *i)
{
	uint64_t *r = &self.random;

	/* Only the owner may say that a block of rank 0 has arrived. */
	struct word_KERNEL_BLOCK w = { .valid = 1,
				       .write = pick(r, 2),
				       .home = pick(r, 4) ? l->me : 1 + pick(r, RANKS - 1),
				       .count = !pick(r, 8),
				       .slot_low = pick(r, 16) };

	if (!pick(r, 8)) {
		w.slot_low = pick(r, 256);
		w.slot_high = pick(r, 4);
	}
	i->imm = word_put_KERNEL_BLOCK(w);
	if (!pick(r, 8))
		i->imm ^= 1u << pick(r, 17);
}

static struct inject_message make_up(void)
{
	uint64_t *r = &self.random;
	struct liar *l = crowd_liar(crowd_any(r));
	struct inject_message i = { .peer = l->me };
	const unsigned int what = pick(r, 100);

	if (!shared->lies || what < 40) {
		i.m = liar_ask(l, r, self.job);
		if (i.m.type != MSG_SYNC)
			i.m.flags = (uint8_t)(pick(r, 2) * MSGF_FIRST_TOUCH);
		if (pick(r, 2))
			crowd_operate(l, &i.m);
		else if (shared->lies && pick(r, 2))
			crowd_forward(&i);
		else if (l->nseen && shared->lies && !pick(r, 4))
			crowd_answer_again(l);
		if (what > 97) {
			do
				liar_change_field(l, r, &i.m);
			while (!liar_is_wrong(l, &i.m, wire_class(i.m.type)));
		}
	} else if (what < 75) {
		const struct msg *seen = crowd_heard(r);

		if (seen->type && pick(r, 8)) {
			l = crowd_liar(seen->dst);
			i.peer = l->me;
		}
		i.m = liar_related(l, r, seen);
	} else if (what < 80) {
		landed(l, &i);
	} else {
		i.m = liar_plausible(l, r);
		if (what > 92)
			liar_change_field(l, r, &i.m);
	}
	liar_keep_off(l, &i.m);
	i.class = (uint8_t)(pick(r, 1000) || !shared->lies ? wire_class(i.m.type)
							   : pick(r, CLASS_MAX));
	return i;
}

/* Send the arrivals of the liars in a group that a thread here waits for. */
static unsigned int arrive(struct inject_message *out, unsigned int room)
{
	const uint64_t group = atomic_exchange(&self.barrier, 0);
	unsigned int n = 0, p;

	if (!group || (unsigned int)__builtin_ctzll(group) != self.me)
		return 0; /* the thread sends its own arrival to a liar */
	for (p = 0; p < RANKS && n < room; p++)
		if (group >> p & 1 && !crowd_is_honest(p))
			out[n++] = (struct inject_message){
				.m = { .version = WIRE_VERSION,
				       .type = MSG_ARRIVE,
				       .src = (uint16_t)p,
				       .dst = self.me,
				       .object = atomic_load(&self.number),
				       .req_node = (uint16_t)p,
				       .req_slot = (uint16_t)atomic_load(&self.life),
				       .aux = 1 },
				.peer = (uint16_t)p,
				.class = CLASS_SYNC
			};
	return n;
}

static void note(const struct inject_message *i)
{
	const unsigned int type = i->imm ? MSG_DATA : i->m.type;

	atomic_fetch_add(&shared->by[i->outcome][type < MSG_TYPES ? type : MSG_NONE], 1);
	if (i->outcome == INJECT_LOST)
		atomic_fetch_or(&shared->lost[self.me], 1ull << i->peer);
}

static void pour_batch(void)
{
	static struct inject_message all[BATCH];
	static struct msg sent[INJECT_MAX];
	struct inject_call c = { .messages = (uintptr_t)all,
				 .sent = (uintptr_t)sent,
				 .room = INJECT_MAX,
				 .flags = shared->forgive ? INJECT_FORGIVE : 0 };
	unsigned int i;

	c.count = crowd_answered(all, BATCH / 2);
	c.count += arrive(all + c.count, BATCH / 4);
	while (c.count < BATCH)
		all[c.count++] = make_up();
	if (ioctl(self.fd, DSM_IOC_INJECT, &c))
		_exit(20 + errno % 100);
	for (i = 0; i < c.count; i++)
		note(&all[i]);
	for (i = 0; i < c.nsent; i++)
		crowd_hear(&sent[i]);
}

static void *pour(void *arg)
{
	(void)arg;
	crowd_join(crowd, self.job, self.me, next(&self.random));
	/* this thread only: honest threads leave it enough time */
	setpriority(PRIO_PROCESS, 0, -10);
	for (;;) {
		atomic_store(&shared->pours[self.me], true);
		while (atomic_load(&shared->pour))
			pour_batch();
		atomic_store(&shared->pours[self.me], false);
		usleep(1000);
	}
	return NULL;
}

/* ---- honest ranks --------------------------------------------------------------------------- */

/* Meet liars at barriers. A thread that gets no answer waits until its process is killed. */
static void *meet(void *arg)
{
	uint64_t r = self.random ^ 1;
	uint16_t calls = 0;

	(void)arg;
	for (;;) {
		struct dsm_ioc_call c = { .call = DSM_CALL_BARRIER,
					  .threads = 1,
					  .value = next(&r) };
		unsigned int i;

		c.object = 1 + self.me * 4 + pick(&r, 4);
		c.value2 = 1ull << self.me;
		for (i = 1 + pick(&r, 5); i; i--)
			c.value2 |= 1ull << (pick(&r, 4) ? crowd_any(&r) : 1);
		c.gen = ++calls / 8; /* the barriers are destroyed and made again */
		atomic_store(&self.number, c.object);
		atomic_store(&self.life, c.gen);
		atomic_store(&self.barrier, c.value2);
		if (ioctl(self.fd, DSM_IOC_CALL, &c))
			usleep(10000);
	}
	return NULL;
}

static void rank_process(struct job *j, unsigned int rank, uint64_t seed)
{
	struct dsm_ioc_lost l;
	pthread_t thread;

	catch_signals();
	self.fd = job_join(j, rank);
	if (self.fd < 0)
		_exit(3);
	self.job = j;
	self.me = (uint16_t)rank;
	self.random = seed;
	honest_start(honest, self.fd, rank);
	honest_disturb(self.fd, RANKS, WORKERS, seed);
	pthread_create(&thread, NULL, pour, NULL);
	pthread_create(&thread, NULL, meet, NULL);
	for (;;) {
		struct pollfd f = { .fd = self.fd, .events = POLLIN };

		if (poll(&f, 1, 1000) == 1 && !ioctl(self.fd, DSM_IOC_LOST, &l) && l.rank >= 0 &&
		    crowd_is_honest((unsigned int)l.rank))
			atomic_store(&shared->blamed[rank], l.rank + 1);
	}
}

/* ---- rounds --------------------------------------------------------------------------------- */

static bool misled(void)
{
	return atomic_load(&shared->blamed[0]) || atomic_load(&shared->blamed[SECOND]);
}

static bool begin(const struct job *j)
{
	const double end = now_s() + patience(60);

	while (atomic_load(&j->ready) < HONEST && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	return atomic_load(&j->ready) == HONEST ? honest_warm(honest, HONEST)
						: it_failed("honest ranks do not join");
}

/* Let liars send for a while, or until most of them are lost. */
static void let_pour(unsigned long most)
{
	const double end = now_s() + patience(10);
	const unsigned long before = messages();

	atomic_store(&shared->pour, true);
	while (messages() - before < most && now_s() < end &&
	       __builtin_popcountll(atomic_load(&shared->lost[0]) &
				    atomic_load(&shared->lost[SECOND])) < RANKS / 2)
		usleep(20000);
	/*
	 * Any rank may answer an honest rank's first request for a block. So liars must be silent
	 * before honest ranks use new pages.
	 */
	atomic_store(&shared->pour, false);
	while ((atomic_load(&shared->pours[0]) || atomic_load(&shared->pours[SECOND])) &&
	       now_s() < end + patience(10))
		usleep(1000);
}

static bool end_well(void)
{
	if (shared->lies)
		return true;
	return honest_end(honest, HONEST) &&
		(!misled() || it_failed("an honest rank was told that another is gone"));
}

/* Are both honest ranks alive? They run until they are killed. */
static bool all_live(const pid_t *pids)
{
	bool live = true;
	unsigned int i;

	for (i = 0; i < HONEST; i++) {
		siginfo_t is = { .si_pid = 0 };

		if (waitid(P_PID, (id_t)pids[i], &is, WEXITED | WNOHANG | WNOWAIT) || !is.si_pid)
			continue;
		printf("FAILED: process %u of the honest ranks has ended: %s %d\n", i,
		       is.si_code == CLD_EXITED ? "exit status" : "signal", is.si_status);
		live = false;
	}
	return live;
}

static void choose(struct job *j, uint64_t *r)
{
	unsigned int i;

	job_set(j, RANKS, false);
	j->present = CROWD_HONEST;
	j->pages = HONEST_FIRST;
	j->home = pick(r, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
	honest_begin(honest);
	shared->lies = pick(r, 4);
	shared->forgive = pick(r, 4);
	crowd_begin(crowd, shared->lies);
	for (i = 0; i < JOB_RANKS; i++) {
		atomic_store(&shared->lost[i], 0);
		atomic_store(&shared->blamed[i], 0);
	}
}

static bool one_round(struct job *j, uint64_t *r, unsigned long most)
{
	const int taint = tainted();
	pid_t pids[HONEST];
	unsigned int i;
	bool ok;

	choose(j, r);
	fflush(stdout);
	for (i = 0; i < HONEST; i++) {
		const uint64_t seed = next(r);

		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i ? SECOND : 0, seed);
	}
	ok = begin(j);
	if (ok)
		let_pour(most);
	ok = ok && end_well();
	ok &= all_live(pids);
	steps += honest_steps(honest);
	if (!ok) {
		printf("round %lu failed%s%s\n", rounds, shared->lies ? ", with lies" : "",
		       shared->forgive ? "" : ", with losses");
		show_ranks();
	}
	for (i = 0; i < HONEST; i++)
		kill(pids[i], SIGKILL);
	ok &= job_reap(pids, HONEST, 60);
	ok &= nothing_left(20);
	if (tainted() != taint)
		ok = it_failed("the kernel complains");
	rounds++;
	return ok;
}

/* ---- results -------------------------------------------------------------------------------- */

static bool is_ours(uint8_t type)
{
	return wire_hosts(type) & HOST_KERNEL && type != MSG_HELLO && type != MSG_KEY_WANTED &&
		type != MSG_KEY && type != MSG_ECHO; /* handled by the connection, not by a step */
}

static bool show_types(void)
{
	const bool enough = messages() >= ENOUGH;
	bool reach = true;
	unsigned int o;
	uint8_t t;

	for (t = 0; t < MSG_TYPES; t++) {
		if (t && !is_ours(t))
			continue;
		printf("%-10s", t ? wire_name(t) : "no type");
		for (o = INJECT_REFUSED; o < INJECT_OUTCOMES; o++)
			printf(" %8lu %s", atomic_load(&shared->by[o][t]), outcome_names[o]);
		putchar('\n');
		if (t && enough && !atomic_load(&shared->by[INJECT_TAKEN][t])) {
			printf("FAILED: %s was never accepted\n", wire_name(t));
			reach = false;
		}
	}
	return reach;
}

static int run(const struct fuzz_options *o)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	const double began = now_s();
	double told = began;
	struct job *j = job_new();
	uint64_t r = o->seed;
	bool ok = true;

	setrlimit(RLIMIT_MEMLOCK, &all);
	honest = honest_new();
	crowd = crowd_new();
	shared = shared_memory(sizeof(*shared));
	while (ok && now_s() < began + o->seconds && messages() < o->inputs) {
		ok = one_round(j, &r, (unsigned long)o->round);
		if (now_s() > told + 60) {
			told = now_s();
			printf("%lu rounds, %lu messages, %.0f a second\n", rounds, messages(),
			       (double)messages() / (told - began));
		}
	}
	ok &= show_types();
	printf("%lu rounds of seed %llu: %lu messages, %lu of them answers, %lu for lost ranks besides; %lu steps of honest ranks\n",
	       rounds, (unsigned long long)o->seed, messages(), crowd_answers(crowd),
	       count_of(INJECT_LOST), steps);
	printf("%lu inputs, %lu taken, %.0f a second\n", messages(), count_of(INJECT_TAKEN),
	       (double)messages() / (now_s() - began));
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const char usage[] =
		"usage: flood [--seed S] [--seconds S] [--inputs N] [--round N]\n"
		"Messages of 62 liars for two ranks of dsm.ko, for so long (20) or until there were so many, in\n"
		"rounds of so many (50000); in a guest with a module that scripts/build-kmod --inject has built.\n";
	struct fuzz_options o = { .seed = 1, .seconds = 20, .inputs = ~0ul, .round = 50000 };
	int status = fuzz_options(argc, argv, usage, &o);

	return status < 0 ? run(&o) : status;
}

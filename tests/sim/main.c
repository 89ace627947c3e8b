// SPDX-License-Identifier: BSD-2-Clause
/* main.c - the simulator's command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sim.h"

static const char usage[] =
	"Usage: sim [options]\n"
	"Random schedules of the protocol core in virtual time. Without --nodes: a mix of sizes.\n\n"
	"  --nodes N (1-1024)  --blocks N  --threads N (1-8)  --ops N (of each thread)\n"
	"  --ranks N           the same as --nodes\n"
	"  --hold US           hold time of granted blocks\n"
	"  --follow N          so many writes in a row make a node the home (default 3, 0: homes stay)\n"
	"  --push N            after so many reads by the home a writer pushes what it writes (default 0: never)\n"
	"  --fifo              channels keep order\n"
	"  --first-touch       the first toucher becomes a block's home\n"
	"  --release N         so many release blocks beside the others (default 0); with --replay, not 0: the blocks of one page\n"
	"                      have release consistency\n"
	"  --slow              every fourth channel delays its messages by 1 ms\n"
	"  --no-sync           no locks, semaphores, atomics, barriers\n"
	"  --runs N            with seeds one after the other (default 1 with --seed, else as many as fit)\n"
	"  --seconds S         stop beginning runs after (default 20)\n"
	"  --seed S            the first seed; the same seed and options repeat a run\n"
	"  --cost              messages and trips of each kind of access, by number of nodes; with --net, microseconds\n"
	"  --growth            messages of closes of release blocks, by number of nodes; fails if they are more than the homes and\n"
	"                      the registered nodes\n"
	"  --net FILE          a network, LogGP (tests/sim/nets)\n"
	"  --replay DIR        a recorded application (tests/sim/predict) over that network: one line of JSON\n"
	"  --readahead N       blocks that a reader fetches ahead in it (default 16)\n"
	"  --help\n\n"
	"Exit status: 0 all is well, 1 a run failed (its last events and the command to repeat it are printed).\n";

/* clang-format off */
static const struct option options[] = {
	{ "nodes", required_argument, NULL, 'r' },   { "ranks", required_argument, NULL, 'r' },
	{ "blocks", required_argument, NULL, 'b' },
	{ "threads", required_argument, NULL, 't' }, { "ops", required_argument, NULL, 'o' },
	{ "push", required_argument, NULL, 'u' },
	{ "hold", required_argument, NULL, 'd' },    { "follow", required_argument, NULL, 'W' }, { "fifo", no_argument, NULL, 'f' },
	{ "first-touch", no_argument, NULL, 'F' },   { "no-sync", no_argument, NULL, 'n' },
	{ "runs", required_argument, NULL, 'R' },    { "seconds", required_argument, NULL, 'S' },
	{ "seed", required_argument, NULL, 's' },    { "cost", no_argument, NULL, 'c' },
	{ "net", required_argument, NULL, 'N' },     { "replay", required_argument, NULL, 'p' },
	{ "release", required_argument, NULL, 'e' },  { "slow", no_argument, NULL, 'l' },    { "growth", no_argument, NULL, 'g' },
	{ "readahead", required_argument, NULL, 'a' }, { "help", no_argument, NULL, 'h' },
	{ 0 },
};
/* clang-format on */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void add(struct stats *all, const struct stats *st)
{
	const uint64_t *from = (const uint64_t *)st;
	uint64_t *to = (uint64_t *)all;
	size_t i;

	for (i = 0; i < sizeof(*all) / sizeof(uint64_t); i++)
		to[i] += from[i];
}

/* One run. Returns false if it failed. */
static bool run(const struct options *o, struct stats *all)
{
	struct sim *volatile s = sim_create(o);
	jmp_buf failed;
	uint16_t r;
	unsigned int t;

	s->failed = &failed;
	if (setjmp(failed)) {
		printf("repeat: sim --nodes %u --blocks %u --threads %u --ops %u --hold %u --follow %u --push %u --release %u%s%s%s%s --seed %llu\n",
		       o->nodes, o->blocks, o->threads, o->ops, o->hold_us, o->follow, o->pushes,
		       o->release, o->slow ? " --slow" : "", o->fifo ? " --fifo" : "",
		       o->first_touch ? " --first-touch" : "", o->mixed ? "" : " --no-sync",
		       (unsigned long long)o->seed);
		sim_destroy(s);
		return false;
	}
	for (r = 0; r < o->nodes; r++)
		for (t = 0; t < o->threads; t++) {
			sim_thread(s, r, t)->left = o->ops;
			thread_wake(s, r, t);
		}
	sim_run(s);
	sim_check_rest(s);
	add(all, &s->st);
	sim_destroy(s);
	return true;
}

/*
 * The runs without --nodes: few nodes with much contention, the largest exact copyset, and coarse
 * copysets.
 */
/* clang-format off */
static const struct options mix[] = {
	{ .nodes = 2, .blocks = 2, .threads = 3, .ops = 2000, .follow = 3, .pushes = 1, .mixed = true },
	{ .nodes = 3, .blocks = 1, .threads = 2, .ops = 2000, .follow = 1, .pushes = 1, .mixed = true, .hold_us = 30 },
	{ .nodes = 4, .blocks = 4, .threads = 2, .ops = 1000, .follow = 1, .mixed = true, .first_touch = true },
	{ .nodes = 8, .blocks = 8, .threads = 2, .ops = 1000, .follow = 2, .pushes = 1, .mixed = true, .fifo = true },
	{ .nodes = 16, .blocks = 16, .threads = 1, .ops = 500, .follow = 1, .mixed = false, .hold_us = 20, .first_touch = true },
	{ .nodes = 64, .blocks = 64, .threads = 2, .ops = 200, .follow = 3, .pushes = 2, .mixed = true },
	{ .nodes = 65, .blocks = 16, .threads = 1, .ops = 200, .follow = 1, .pushes = 1, .mixed = true, .first_touch = true },
	{ .nodes = 200, .blocks = 100, .threads = 1, .ops = 100, .follow = 3, .mixed = true, .hold_us = 10 },
	{ .nodes = 1024, .blocks = 64, .threads = 1, .ops = 32, .follow = 1, .mixed = true },
	{ .nodes = 2, .blocks = 1, .release = 2, .threads = 3, .ops = 1000, .follow = 3, .mixed = true },
	{ .nodes = 3, .blocks = 2, .release = 1, .threads = 2, .ops = 1000, .follow = 1, .mixed = true, .slow = true },
	{ .nodes = 4, .blocks = 1, .release = 6, .threads = 2, .ops = 1000, .mixed = true, .slow = true },
	{ .nodes = 8, .blocks = 2, .release = 3, .threads = 2, .ops = 500, .follow = 2, .mixed = true, .fifo = true },
	{ .nodes = 70, .blocks = 1, .release = 4, .threads = 1, .ops = 100, .mixed = true, .slow = true },
};
/* clang-format on */

static void report(const struct stats *st, uint64_t runs, double time)
{
	static const char *const names[MISSES] = { "", "read miss", "write miss", "upgrade" };
	unsigned int i;
	uint64_t misses = 0;

	printf("%llu runs, %llu operations, %llu events, %llu steps, %llu messages in %.1f s\n",
	       (unsigned long long)runs, (unsigned long long)st->ops,
	       (unsigned long long)st->events, (unsigned long long)st->steps,
	       (unsigned long long)st->total, time);
	for (i = 1; i < MISSES; i++) {
		misses += st->misses[i];
		printf("  %-10s %10llu  %6.1f us of virtual time each\n", names[i],
		       (unsigned long long)st->misses[i],
		       st->misses[i] ? (double)st->time[i] / (double)st->misses[i] : 0);
	}
	printf("  locks and the like entered %llu times, %llu barriers left, %llu blocks pushed; messages for each miss:",
	       (unsigned long long)st->locks, (unsigned long long)st->episodes,
	       (unsigned long long)st->pushes);
	for (i = MSG_READ_REQ; i <= MSG_MOVED && misses; i++)
		printf(" %s %.2f", wire_name((uint8_t)i), (double)st->messages[i] / (double)misses);
	printf("\n  %llu closes; of release blocks %llu loads, %llu of them of what another node had stored, and %llu stores; %llu races avoided",
	       (unsigned long long)st->closes, (unsigned long long)st->loads,
	       (unsigned long long)st->seen, (unsigned long long)st->stores,
	       (unsigned long long)st->left_out);
	printf("\n  %llu objects made, %llu destroyed; %llu destructions and %llu uses of gone objects refused\n",
	       (unsigned long long)st->made, (unsigned long long)st->unmade,
	       (unsigned long long)st->busy, (unsigned long long)st->stale);
}

struct plan {
	struct options o;
	uint64_t runs;
	double most;
	bool chosen, seeded, cost, growth;
	const char *replay;
	struct loggp net;
};

static int replay(struct plan *p)
{
	struct replay *r = replay_load(p->replay);
	struct sim *s;
	jmp_buf failed;
	uint16_t node;
	int status = 1;

	replay_options(r, &p->o);
	/* the library's limit of read-ahead */
	p->o.async = 128;
	/* 5 us is the library's default */
	p->o.hold_us = (p->o.hold_us ? p->o.hold_us : 5) * TICKS_PER_US;
	s = sim_create(&p->o);
	s->failed = &failed;
	if (!setjmp(failed)) {
		for (node = 0; node < p->o.nodes; node++)
			thread_wake(s, node, 0);
		sim_run(s);
		status = replay_report(s);
	}
	sim_destroy(s);
	replay_free(r);
	return status;
}

static int carry_out(const struct plan *p)
{
	struct stats all = { 0 };
	double start = seconds();
	uint64_t i;

	printf("sim: first seed %llu\n", (unsigned long long)p->o.seed);
	for (i = 0; (!p->runs || i < p->runs) && (p->runs || seconds() - start < p->most); i++) {
		struct options o = p->chosen ? p->o : mix[i % (sizeof(mix) / sizeof(mix[0]))];

		o.seed = p->o.seed + i;
		if (!run(&o, &all))
			return 1;
	}
	report(&all, i, seconds() - start);
	if (!p->chosen && i >= sizeof(mix) / sizeof(mix[0]) &&
	    (!all.unmade || !all.busy || !all.stale)) {
		printf("FAILED: objects of these runs were never destroyed, or never refused\n");
		return 1;
	}
	if (!p->chosen && i >= sizeof(mix) / sizeof(mix[0]) && !all.seen) {
		printf("FAILED: no node of these runs has loaded what another had stored\n");
		return 1;
	}
	return 0;
}

static unsigned int number(const char *text, unsigned int least, unsigned int most)
{
	unsigned long v = strtoul(text, NULL, 0);

	if (v < least || v > most) {
		fprintf(stderr, "sim: %s is not between %u and %u\n", text, least, most);
		exit(2);
	}
	return (unsigned int)v;
}

int main(int argc, char **argv)
{
	struct plan p = { .o = { .nodes = 8,
				 .blocks = 8,
				 .threads = 2,
				 .ops = 500,
				 .mixed = true,
				 .seed = (uint64_t)time(NULL),
				 .readahead = 16 },
			  .most = 20 };
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		p.chosen = p.chosen || o == 'r' || o == 'b' || o == 't' || o == 'o';
		switch (o) {
		case 'r': p.o.nodes = number(optarg, 1, WIRE_MAX_NODES); break;
		case 'b': p.o.blocks = number(optarg, 1, 1 << 20); break;
		case 't': p.o.threads = number(optarg, 1, THREADS_MAX); break;
		case 'o': p.o.ops = number(optarg, 1, 1 << 30); break;
		case 'd': p.o.hold_us = number(optarg, 0, 1 << 20); break;
		case 'W': p.o.follow = number(optarg, 0, DIR_FOLLOW); break;
		case 'u': p.o.pushes = number(optarg, 0, PUSH_AFTER); break;
		case 'f': p.o.fifo = true; break;
		case 'F': p.o.first_touch = true; break;
		case 'n': p.o.mixed = false; break;
		case 'R': p.runs = strtoull(optarg, NULL, 0); break;
		case 'S': p.most = strtod(optarg, NULL); break;
		case 's':
			p.o.seed = strtoull(optarg, NULL, 0);
			p.seeded = true;
			break;
		case 'c': p.cost = true; break;
		case 'g': p.growth = true; break;
		case 'e': p.o.release = number(optarg, 0, 1 << 10); break;
		case 'l': p.o.slow = true; break;
		case 'N':
			if (loggp_read(&p.net, optarg))
				return 2;
			p.o.net = &p.net;
			break;
		case 'p': p.replay = optarg; break;
		case 'a': p.o.readahead = number(optarg, 0, 64); break;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	}
	if (p.growth)
		return growth_table();
	if (p.cost)
		return cost_table(p.o.net);
	if (p.replay && !p.o.net) {
		fputs("sim: --replay needs --net\n", stderr);
		return 2;
	}
	if (p.replay)
		return replay(&p);
	if (p.seeded && !p.runs)
		p.runs = 1;
	return carry_out(&p);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * lanes.c - what each technique of net/verbs is worth (DSM_VERBS): two processes send each other
 * messages over the transport alone, without libdsm above it. Each experiment (lanes_cases.c) has a
 * side with the technique and one without; they alternate. Each side has to prove by counters that
 * it ran with it, or without: a row that cannot is an error, and the exit status is 3.
 *
 * The two find each other by TCP: `lanes --serve PORT` there, `lanes HOST:PORT` here. The side that
 * connects prints JSON lines.
 */
#include "lanes.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "common_tcp.h"

static void must(bool fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "lanes: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_end(const char *name, const struct lanes_count *c)
{
	const struct net_work *w = &c->net.work;
	uint32_t i;

#define U(v) ((unsigned long long)(v))
	printf("\"%s\": {\"cpu_us\": %.0f, \"calls\": %llu, \"requests\": %llu, \"doorbells\": %llu, \"writes\": %llu, "
	       "\"immediates\": %llu, \"bare\": %llu, \"reads\": %llu, \"inlined\": %llu, \"signalled\": %llu, "
	       "\"solicited\": %llu, \"handed_over\": %llu, \"completions\": %llu, \"locks\": %llu, \"idle_locks\": %llu, "
	       "\"events\": %llu, \"vectors\": [",
	       name, c->cpu_us, U(c->calls), U(w->requests), U(w->doorbells), U(w->writes),
	       U(w->immediates), U(w->bare), U(w->reads), U(w->inlined), U(w->signalled),
	       U(w->solicited), U(w->handed_over), U(w->completions), U(w->locks), U(w->idle_locks),
	       U(w->events));
	for (i = 0; i < c->nvectors; i++)
		printf("%s{\"device\": \"%s\", \"vector\": %d, \"completions\": %llu}",
		       i ? ", " : "", c->vectors[i].device, c->vectors[i].vector,
		       U(c->vectors[i].completions));
	printf("]}");
}

static void print_side(const char *name, const struct lanes_result *r)
{
	printf(", \"%s\": {\"messages\": %llu, \"sent\": %llu, \"us\": %.0f, \"median_us\": %.1f, \"p99_us\": %.1f, ",
	       name, U(r->messages), U(r->sent), r->us, r->median_us, r->p99_us);
	print_end("sender", &r->sender);
	printf(", ");
	print_end("receiver", &r->receiver);
	printf("}");
}

/* What the row is about: higher is better for rates. */
static const char *unit_of(const struct lanes_case *c)
{
	return c->by_cpu                ? "us of processor time/message"
		: c->load == LANES_ECHO ? "us"
					: "messages/s";
}

static void print_row(const struct lanes_case *c, unsigned int turn,
		      const struct lanes_result r[LANES_SIDES], const char *error)
{
	printf("{\"row\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"senders\": %u, \"size\": %u, \"window\": %u, "
	       "\"links\": %u, "
	       "\"aim\": %.3f, \"turn\": %u, \"settings\": [\"%s\", \"%s\"], \"groups\": [\"%s\", \"%s\"], \"error\": \"%s\"",
	       c->name, c->what, unit_of(c), c->senders ? c->senders : 1, c->size,
	       c->window ? c->window : 1, c->links, c->aim, turn, c->verbs[LANES_ON],
	       c->verbs[LANES_OFF], c->groups[LANES_ON] ? c->groups[LANES_ON] : "",
	       c->groups[LANES_OFF] ? c->groups[LANES_OFF] : "", error);
	print_side("on", &r[LANES_ON]);
	print_side("off", &r[LANES_OFF]);
	printf("}\n");
	fflush(stdout);
}
#undef U

/* ---- all ------------------------------------------------------------------------------------- */

static bool wanted(const char *name, int n, char **names)
{
	int i;

	for (i = 0; i < n && strcmp(names[i], name); i++)
		;
	return !n || i < n;
}

static unsigned int links_of(const char *devices)
{
	unsigned int n = 1;

	for (; *devices; devices++)
		n += *devices == ',';
	return n;
}

/* Sides take turns at being the first. False: a side is not what it should be. */
static bool run_case(int fd, const char *devices, const struct lanes_case *c, unsigned int turn,
		     unsigned int ms)
{
	struct lanes_result r[LANES_SIDES];
	char error[256] = "";
	unsigned int i;

	for (i = 0; i < LANES_SIDES; i++) {
		const enum lanes_side side = (enum lanes_side)((i + turn) % LANES_SIDES);
		const char *why;

		lanes_measure(fd, devices, c, side, ms, &r[side]);
		why = lanes_judge(c, side, &r[side]);
		if (why)
			snprintf(error, sizeof(error), "%s: %s", side == LANES_ON ? "on" : "off",
				 why);
	}
	print_row(c, turn, r, error);
	if (error[0])
		fprintf(stderr, "lanes: %s, %u senders, %u bytes: error: %s\n", c->name, c->senders,
			c->size, error);
	return !error[0];
}

static void usage(FILE *to)
{
	unsigned int i;

	fprintf(to,
		"usage: lanes [OPTION...] --serve PORT | HOST:PORT [EXPERIMENT...]\n"
		"What each technique of the verbs transport is worth, between two processes.\n"
		"  --device A,B   RDMA devices; experiments over one link use the first,\n"
		"                 those over more links than devices are left out (rxe0,rxe1)\n"
		"  --turns N      turns, in which the two sides of each row alternate (1)\n"
		"  --ms N         length of a measurement (400)\n"
		"Exit status 3: the counters of a side are not those of that side.\n"
		"Experiments:");
	for (i = 0; i < lanes_ncases; i++)
		if (!i || strcmp(lanes_cases[i].name, lanes_cases[i - 1].name))
			fprintf(to, " %s", lanes_cases[i].name);
	fprintf(to, "\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "serve", required_argument, NULL, 's' },
		{ "device", required_argument, NULL, 'd' },
		{ "turns", required_argument, NULL, 't' },
		{ "ms", required_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *serve = NULL, *devices = "rxe0,rxe1";
	unsigned int turns = 1, ms = 400, turn, i;
	bool fine = true;
	int opt, fd;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (opt) {
		case 's': serve = optarg; break;
		case 'd': devices = optarg; break;
		case 't': turns = bench_number(optarg, 1, 1000); break;
		case 'm': ms = bench_number(optarg, 1, 60000); break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	if (serve ? optind != argc : optind >= argc) {
		usage(stderr);
		return 2;
	}
	bench_cost_open();
	fd = serve ? bench_listen(serve) : bench_connect(argv[optind]);
	must(fd >= 0, serve ? "listening" : argv[optind]);
	if (serve) {
		lanes_serve(fd, devices);
		return 0;
	}
	for (turn = 0; turn < turns; turn++)
		for (i = 0; i < lanes_ncases; i++)
			if (!wanted(lanes_cases[i].name, argc - optind - 1, argv + optind + 1))
				continue;
			else if (lanes_cases[i].links > links_of(devices))
				printf("{\"row\": \"%s\", \"what\": \"%s\", \"links\": %u, \"unmeasured\": \"takes more devices\"}\n",
				       lanes_cases[i].name, lanes_cases[i].what,
				       lanes_cases[i].links);
			else
				fine &= run_case(fd, devices, &lanes_cases[i], turn, ms);
	return fine ? 0 : 3;
}

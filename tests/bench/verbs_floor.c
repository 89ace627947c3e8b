// SPDX-License-Identifier: BSD-2-Clause
/*
 * verbs_floor.c - what a round trip between two machines costs at the least: bare verbs, no library
 * of ours.
 *
 * The responder answers a small message with
 *
 *   message   another small message: the least that a lock or an atomic operation costs
 *   fault     4 KiB by one RDMA write with immediate: the least that a miss costs
 *
 * Each side polls its completion queue, or sleeps on the completion channel. Where the responder is
 * to sleep, the requester lets it: it pauses before each round.
 * The sides find each other by TCP: `verbs_floor --serve PORT` here, `verbs_floor HOST:PORT` there,
 * in any order.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "common_link.h"
#include "common_tcp.h"

#define FAIL_SECONDS 300

static const struct {
	const char *name;
	enum link_ask ask;
	bool requester_sleeps, responder_sleeps;
	unsigned int depth;
	/* clang-format off */
} rows[] = {
	{ "message", LINK_MESSAGE, false, false, 1 },
	{ "message", LINK_MESSAGE, false, true, 1 },
	{ "message", LINK_MESSAGE, true, true, 1 },
	{ "fault", LINK_FAULT, false, false, 1 },
	{ "fault", LINK_FAULT, false, true, 1 },
	{ "fault", LINK_FAULT, true, true, 1 },
	{ "message", LINK_MESSAGE, false, false, 16 },
	{ "fault", LINK_FAULT, false, false, 16 },
	{ "message", LINK_MESSAGE, true, true, 16 },
	{ "fault", LINK_FAULT, true, true, 16 },
};
/* clang-format on */
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static unsigned int rounds = 2000, gap_us = 100;
static double *samples;

static void die(const char *what)
{
	fprintf(stderr, "verbs_floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(bool fine, const char *what)
{
	if (!fine)
		die(what);
}

static struct link *make_link(int fd, const char *device, int gid_index)
{
	struct link_address here, there;
	struct link *l = link_open(device, gid_index, &here);
	char ready = 1;

	must(write(fd, &here, sizeof(here)) == (ssize_t)sizeof(here), "sending the address");
	must(recv(fd, &there, sizeof(there), MSG_WAITALL) == (ssize_t)sizeof(there),
	     "the other side's address");
	link_connect(l, &there);
	must(write(fd, &ready, 1) == 1 && recv(fd, &ready, 1, MSG_WAITALL) == 1, "the other side");
	return l;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

/* One at a time: each round's time. */
static void run_singly(struct link *l, size_t row, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		double start = bench_now_us();

		while (rows[row].responder_sleeps && bench_now_us() - start < gap_us)
			;
		start = bench_now_us();
		link_ask(l, rows[row].ask, rows[row].responder_sleeps, i);
		link_answered(l, rows[row].ask, rows[row].requester_sleeps, i);
		samples[i] = bench_now_us() - start;
	}
	qsort(samples, n, sizeof(*samples), bench_by_value);
}

/* Several under way: the mean time of a round is all there is. */
static void run_deep(struct link *l, size_t row, unsigned int n)
{
	unsigned int asked = 0, i;
	double start = bench_now_us();

	for (i = 0; i < n; i++) {
		while (asked < n && asked < i + rows[row].depth)
			link_ask(l, rows[row].ask, rows[row].responder_sleeps, asked++);
		link_answered(l, rows[row].ask, rows[row].requester_sleeps, i);
	}
	samples[0] = (bench_now_us() - start) / n;
}

static void measure(struct link *l, size_t row)
{
	unsigned int deep = rows[row].depth > 1, n = rounds;
	struct bench_cost before, after;
	double total;

	(deep ? run_deep : run_singly)(l, row, n / 10 + 32);
	bench_cost_read(&before);
	(deep ? run_deep : run_singly)(l, row, n);
	bench_cost_read(&after);
	total = after.us - before.us;
	printf("{\"row\": \"%s\", \"requester\": \"%s\", \"responder\": \"%s\", \"depth\": %u, \"rounds\": %u, \"median_us\": %.3f, "
	       "\"p99_us\": %.3f, \"p10_us\": %.3f, \"min_us\": %.3f, \"calls\": %.2f, \"busy_percent\": %.0f}\n",
	       rows[row].name, rows[row].requester_sleeps ? "event" : "poll",
	       rows[row].responder_sleeps ? "event" : "poll", rows[row].depth, n,
	       samples[deep ? 0 : n / 2], samples[deep ? 0 : n * 99ull / 100],
	       samples[deep ? 0 : n / 10], samples[0], (double)(after.calls - before.calls) / n,
	       (after.cpu_us - before.cpu_us) / total * 100);
	fflush(stdout);
}

/* ---- options --------------------------------------------------------------------------------- */

static void usage(FILE *to)
{
	fprintf(to,
		"usage: verbs_floor [OPTION...] --serve PORT | HOST:PORT\n"
		"The least that a round trip over an RDMA device costs: a 32-byte message there, and back a message\n"
		"or a block of 4 KiB; polling or sleeping. The side that connects prints JSON lines.\n"
		"  --rounds N     round trips of a row (2000)\n"
		"  --gap US       pause before each, where the responder is to sleep (100)\n"
		"  --device NAME  RDMA device (the first)\n"
		"  --gid INDEX    of its GID table (the best RoCE v2 one)\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "serve", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'n' },
		{ "gap", required_argument, NULL, 'g' },
		{ "device", required_argument, NULL, 'd' },
		{ "gid", required_argument, NULL, 'x' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *serve = NULL, *device = NULL;
	int opt, fd, gid_index = -1;
	struct link *l;
	size_t row;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (opt) {
		case 's': serve = optarg; break;
		case 'n': rounds = bench_number(optarg, 1, 1000000); break;
		case 'g': gap_us = bench_number(optarg, 0, 1000000); break;
		case 'd': device = optarg; break;
		case 'x': gid_index = (int)bench_number(optarg, 0, 255); break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	if (optind + !serve != argc) {
		usage(stderr);
		return 2;
	}
	samples = calloc(rounds + rounds / 10 + 32, sizeof(*samples));
	must(samples, "memory");
	alarm(FAIL_SECONDS);
	bench_cost_open();
	fd = serve ? bench_listen(serve) : bench_connect(argv[optind]);
	must(fd >= 0, serve ? "listening" : argv[optind]);
	l = make_link(fd, device, gid_index);
	if (serve) {
		link_respond(l);
	} else {
		for (row = 0; row < ROWS; row++)
			measure(l, row);
		link_ask(l, LINK_END, false, 0);
	}
	/* Neither leaves before the other has what it sent. */
	must(write(fd, "", 1) == 1 && recv(fd, &(char){ 0 }, 1, MSG_WAITALL) == 1, "the end");
	return 0;
}

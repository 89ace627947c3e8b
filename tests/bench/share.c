// SPDX-License-Identifier: BSD-2-Clause
/*
 * share.c - librshare against native queue pairs, and its scheduler and working modes against none:
 * one measurement per run, a line of JSON. tests/bench/sharing runs it in a guest.
 *
 *   share serve PROFILE
 *   share PROFILE EXPERIMENT SIDE COUNT SIZE MS    with the server of that profile, at SHARE_SERVER
 *                                                  (default 10.10.0.1)
 *
 * SHARE_DEVICE is the RDMA device (the first).
 * Experiment class starts a second process with an owner of its own, whose elephants go to the
 * server of profile fifo; its line of JSON is the second. Side alone: it does not.
 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define MIB (1u << 20)

static pid_t load; /* the other process of experiment class */

static const struct share_profile profiles[] = {
	/*
	 * name, port, chunk, window, receives, run_after, idle_after, pool, connections, class,
	 * narrow, direct
	 */
	{ "default", 18700, 0, 0, 0, 0, 0, 96 * MIB, 2048, 0, 0, 0 },
	/*
	 * A message of 4 MiB is four chunks, which are all posted at once: first come, first
	 * served.
	 */
	{ "fifo", 18701, MIB, 64 * MIB, 64, 0, 0, 64 * MIB, 64, 0, UINT32_MAX, 0 },
	/* The owner polls after one productive round, and sleeps after an empty one. */
	{ "eager", 18702, 0, 0, 0, 1, 1, 8 * MIB, 64, 0, 0, 0 },
	/* Expedited forwarding: DSCP 46. */
	{ "urgent", 18703, 0, 0, 0, 0, 0, 8 * MIB, 64, 46 << 2, 0, 0 },
	/* Threads of the owner's process post their strict messages. */
	{ "direct", 18704, 0, 0, 0, 0, 0, 96 * MIB, 64, 0, 0, 1 },
};

const struct share_profile *share_profile(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
		if (!strcmp(profiles[i].name, name))
			return &profiles[i];
	fprintf(stderr, "share: there is no profile %s\n", name);
	exit(2);
}

void share_must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "share: %s: %s\n", what, strerror(-err));
	exit(1);
}

double share_now_us(void)
{
	return bench_now_us();
}

struct rshare *share_open(const struct share_profile *p, bool server)
{
	char why[RSHARE_WHY_MAX], name[32];
	struct rshare_config c;
	struct rshare *r;

	snprintf(name, sizeof(name), "bench-%s-%s", server ? "server" : "client", p->name);
	rshare_config_init(&c);
	c.role = RSHARE_OWNER;
	c.name = name;
	c.port = (uint16_t)(p->port + (server ? 0 : 100));
	c.chunk = p->chunk;
	c.window_strict = c.window_weighted = p->window;
	c.window_narrow = p->narrow;
	c.direct_post = p->direct;
	c.receives = p->receives;
	c.run_after = p->run_after;
	c.idle_after = p->idle_after;
	c.traffic_class_strict = p->traffic_class;
	c.pool = server ? p->pool : 16 * MIB;
	c.connections = p->connections;
	if (rshare_open(getenv("SHARE_DEVICE"), &c, &r, why) < 0) {
		fprintf(stderr, "share: rshare_open: %s\n", why);
		exit(1);
	}
	return r;
}

/* The other process of experiment class. Returns an fd that ends it when it is closed. */
static int begin_load(const char *ms)
{
	int input[2], loaded[2];
	char number[16], byte;

	if (pipe2(input, O_CLOEXEC) || pipe2(loaded, O_CLOEXEC))
		share_must(-errno, "a pipe");
	load = fork();
	share_must(load, "fork");
	if (!load) {
		snprintf(number, sizeof(number), "%d", dup(loaded[1]));
		setenv("SHARE_LOADED", number, 1);
		dup2(input[0], STDIN_FILENO);
		execl("/proc/self/exe", "share", "fifo", "load", "equal", "2", "4194304", ms,
		      (char *)NULL);
		_exit(127);
	}
	close(input[0]);
	close(loaded[1]);
	if (read(loaded[0], &byte, 1) != 1)
		share_must(-EPIPE, "the elephants");
	close(loaded[0]);
	return input[1];
}

static void end_load(int fd)
{
	int status;

	close(fd);
	if (waitpid(load, &status, 0) != load || status)
		share_must(-EPIPE, "the elephants");
}

static void raise_files(void)
{
	struct rlimit files;

	/* an fd of a connection is one here and one in the owner */
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv)
{
	const struct share_profile *p;
	const struct share_experiment *e;
	struct share_options o;
	char server[64];
	struct rshare *r;
	int loaded = -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	raise_files();
	if (argc == 3 && !strcmp(argv[1], "serve"))
		share_serve(share_profile(argv[2]));
	if (argc != 7) {
		fprintf(stderr,
			"usage: share serve PROFILE | share PROFILE EXPERIMENT SIDE COUNT SIZE MS\n");
		return 2;
	}
	p = share_profile(argv[1]);
	o = (struct share_options){ .side = argv[3],
				    .count = bench_number(argv[4], 1, 1024),
				    .size = bench_number(argv[5], 1, 4 * MIB),
				    .ms = bench_number(argv[6], 1, 60000) };
	for (e = share_experiments; e->name && strcmp(e->name, argv[2]);)
		e++;
	if (!e->name) {
		fprintf(stderr, "share: there is no experiment %s\n", argv[2]);
		return 2;
	}
	snprintf(server, sizeof(server), "%s:%u",
		 getenv("SHARE_SERVER") ? getenv("SHARE_SERVER") : "10.10.0.1", p->port);
	if (!strcmp(e->name, "class") && strcmp(o.side, "alone"))
		loaded = begin_load(argv[6]);
	r = share_open(p, false);
	e->run(r, server, &o);
	if (loaded >= 0)
		end_load(loaded);
	rshare_close(r);
	return 0;
}

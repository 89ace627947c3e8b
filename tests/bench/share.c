// SPDX-License-Identifier: BSD-2-Clause
/*
 * share.c - librshare against native queue pairs, and its scheduler and working modes against none: one measurement per run, a
 * line of JSON. tests/bench/sharing runs it in a guest.
 *
 *   share serve PROFILE
 *   share PROFILE EXPERIMENT SIDE COUNT SIZE MS    with the server of that profile, at SHARE_SERVER (default 10.10.0.1)
 *
 * SHARE_DEVICE is the RDMA device (the first).
 */
#include "share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define MIB (1u << 20)

static const struct share_profile profiles[] = {
	/* name      port   chunk  window   receives run_after idle_after pool conns */
	{ "default", 18700, 0, 0, 0, 0, 0, 96 * MIB, 2048 },
	/* A message of 4 MiB is four chunks, which are all posted at once: first come, first served. */
	{ "fifo", 18701, MIB, 64 * MIB, 64, 0, 0, 64 * MIB, 64 },
	/* The owner polls after one productive round, and sleeps after an empty one. */
	{ "eager", 18702, 0, 0, 0, 1, 1, 8 * MIB, 64 },
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
	c.receives = p->receives;
	c.run_after = p->run_after;
	c.idle_after = p->idle_after;
	c.pool = server ? p->pool : 16 * MIB;
	c.connections = p->connections;
	if (rshare_open(getenv("SHARE_DEVICE"), &c, &r, why) < 0) {
		fprintf(stderr, "share: rshare_open: %s\n", why);
		exit(1);
	}
	return r;
}

static void raise_files(void)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files); /* an fd of a connection is one here and one in the owner */
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

	setvbuf(stdout, NULL, _IOLBF, 0);
	raise_files();
	if (argc == 3 && !strcmp(argv[1], "serve"))
		share_serve(share_profile(argv[2]));
	if (argc != 7) {
		fprintf(stderr, "usage: share serve PROFILE | share PROFILE EXPERIMENT SIDE COUNT SIZE MS\n");
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
	snprintf(server, sizeof(server), "%s:%u", getenv("SHARE_SERVER") ? getenv("SHARE_SERVER") : "10.10.0.1",
		 p->port);
	r = share_open(p, false);
	e->run(r, server, &o);
	rshare_close(r);
	return 0;
}

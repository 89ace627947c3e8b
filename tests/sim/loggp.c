// SPDX-License-Identifier: BSD-2-Clause
/*
 * loggp.c - the time of messages by the LogGP model (Alexandrov, Ionescu, Schauser and Scheiman,
 * 1995), and of a fault and a change of protection at a node.
 *
 * A node has one processor for the protocol and one port per direction. A message takes o of the
 * sender's processor, then the port for g or for its bytes times G, whichever is more, then L in
 * transit. At the receiver it takes the port and the processor for the same times.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define PARAMETERS 7

struct loggp_node {
	uint64_t cpu, out, in; /* busy until */
};

/*
 * A file has lines "name value" and comments that begin with #. Times are in microseconds, G in
 * nanoseconds per byte.
 */
static double *parameter(struct loggp *p, const char *name)
{
	const struct {
		const char *name;
		double *value;
	} all[] = { { "o", &p->o },        { "L", &p->l },         { "g", &p->g },
		    { "G", &p->big_g },    { "fault", &p->fault }, { "open", &p->open },
		    { "close", &p->close } };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, name))
			return all[i].value;
	return NULL;
}

int loggp_read(struct loggp *p, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256], name[32];
	double value, *to;
	int n = 0, err = 0;

	*p = (struct loggp){ 0 };
	if (!f)
		return -errno;
	while (!err && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "#\n")] = 0;
		if (line[strspn(line, " \t")] == 0)
			continue;
		to = sscanf(line, "%31s %lf", name, &value) == 2 && value >= 0 ? parameter(p, name)
									       : NULL;
		if (!to) {
			fprintf(stderr, "%s: '%s' is no parameter with its value\n", path, line);
			err = -EINVAL;
			break;
		}
		*to = value;
		n++;
	}
	fclose(f);
	if (!err && n != PARAMETERS) {
		fprintf(stderr, "%s: %d of %d parameters\n", path, n, PARAMETERS);
		err = -EINVAL;
	}
	return err;
}

struct loggp_node *loggp_create(unsigned int nodes)
{
	struct loggp_node *r = calloc(nodes, sizeof(*r));

	if (!r)
		abort();
	return r;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t ticks(double us)
{
	return (uint64_t)(us * TICKS_PER_US + 0.5);
}

/* The time for which a message occupies a port. */
static uint64_t port(const struct loggp *p, unsigned int bytes)
{
	double us = p->big_g * bytes / 1e3;

	return ticks(us > p->g ? us : p->g);
}

/* A node sends a message. Returns the time from now to its arrival. */
uint64_t loggp_send(struct sim *s, uint16_t src, unsigned int bytes)
{
	const struct loggp *p = s->o.net;
	struct loggp_node *r = &s->loggp[src];

	r->cpu = later(r->cpu, s->now) + ticks(p->o);
	r->out = later(r->out, r->cpu) + port(p, bytes);
	return r->out + ticks(p->l) - s->now;
}

/* A message has arrived. Returns the time from now until the receiver has taken it. */
uint64_t loggp_receive(struct sim *s, uint16_t dst, unsigned int bytes)
{
	const struct loggp *p = s->o.net;
	struct loggp_node *r = &s->loggp[dst];

	/*
	 * The port received the bytes while they were sent, unless it was busy with another
	 * message.
	 */
	r->in = later(r->in + port(p, bytes), s->now);
	r->cpu = later(r->cpu, r->in) + ticks(p->o);
	return r->cpu - s->now;
}

/* Occupy the node's processor for that time. */
void loggp_spend(struct sim *s, uint16_t node, double us)
{
	struct loggp_node *r = &s->loggp[node];

	r->cpu = later(r->cpu, s->now) + ticks(us);
}

uint64_t loggp_ticks(double us)
{
	return ticks(us);
}

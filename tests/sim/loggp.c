// SPDX-License-Identifier: BSD-2-Clause
/*
 * loggp.c - the time of messages by the LogGP model (Alexandrov, Ionescu, Schauser and Scheiman,
 * 1995), and of a fault and a change of protection at a node.
 *
 * A node has one processor for the protocol and one port per direction. A message takes o of the
 * sender's processor, then the port for g or for its bytes times G, whichever is more, then L in
 * transit. At the receiver it takes the port and the processor for the same times.
 *
 * A message that finds another one of its type, for the same node, still at its port travels with
 * it (core/bundle.h): it takes the ports for its bytes, and neither o nor g.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bundle.h"
#include "sim.h"

#define PARAMETERS 8

struct loggp_node {
	uint64_t cpu, out, in; /* busy until */
	/* the last message, or bundle, that it has sent */
	uint16_t dst;
	uint8_t type;
	unsigned int n, bytes; /* messages in it; 0: nothing may join it */
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
	} all[] = { { "o", &p->o },         { "L", &p->l },         { "g", &p->g },
		    { "G", &p->big_g },     { "fault", &p->fault }, { "open", &p->open },
		    { "close", &p->close }, { "diff", &p->diff } };
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

static bool joins(const struct sim *s, const struct loggp_node *r, const struct msg *m,
		  unsigned int bytes)
{
	return r->n && r->n < WIRE_BUNDLE_MAX && r->out >= s->now && m->dst == r->dst &&
		m->type == r->type && bundle_takes(m->type) && r->bytes + bytes <= BUNDLE_BYTES;
}

/* The time of the ports for a message. */
static uint64_t port_of(const struct loggp *p, unsigned int bytes, bool joined)
{
	return joined ? ticks(p->big_g * bytes / 1e3) : port(p, bytes);
}

/* A node sends a message. Returns the time from now to its arrival. */
uint64_t loggp_send(struct sim *s, const struct msg *m, unsigned int bytes, bool *joined)
{
	const struct loggp *p = s->o.net;
	struct loggp_node *r = &s->loggp[m->src];

	*joined = joins(s, r, m, bytes);
	if (!*joined) {
		r->cpu = later(r->cpu, s->now) + ticks(p->o);
		r->out = later(r->out, r->cpu);
		r->dst = m->dst;
		r->type = m->type;
		r->n = r->bytes = 0;
	}
	r->out += port_of(p, bytes, *joined);
	r->n++;
	r->bytes += bytes;
	return r->out + ticks(p->l) - s->now;
}

/* Whatever the node sends next travels alone, or begins a bundle. */
void loggp_apart(struct sim *s, uint16_t node)
{
	if (s->o.net)
		s->loggp[node].n = 0;
}

/* A message has arrived. Returns the time from now until the receiver has taken it. */
uint64_t loggp_receive(struct sim *s, uint16_t dst, unsigned int bytes, bool joined)
{
	const struct loggp *p = s->o.net;
	struct loggp_node *r = &s->loggp[dst];

	/*
	 * The port received the bytes while they were sent, unless it was busy with another
	 * message.
	 */
	r->in = later(r->in + port_of(p, bytes, joined), s->now);
	r->cpu = later(r->cpu, r->in) + (joined ? 0 : ticks(p->o));
	return r->cpu - s->now;
}

uint64_t loggp_spend(struct sim *s, uint16_t node, double us)
{
	struct loggp_node *r = &s->loggp[node];

	r->cpu = later(r->cpu, s->now) + ticks(us);
	return r->cpu - s->now;
}

uint64_t loggp_ticks(double us)
{
	return ticks(us);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * lanes_cases.c - the experiments: each technique of DSM_VERBS by itself, under a load that uses
 * it, with the settings that would hide it out of the way; and the counters that tell its two sides
 * apart.
 */
#include "lanes.h"

#include <string.h>

#define KIB 1024u

/* clang-format off */
#define DIRECT(n, kib) \
	{ .name = "S1", .what = "threads post directly; else a queue and a thread that posts", .verbs = { "", "direct=0" }, \
	  .load = LANES_STREAM, .links = 1, .senders = n, .window = 8, .size = (kib) * KIB, .threads = true, .aim = 1.25 }
#define LARGE(kib) \
	{ .name = "S4", .what = "a payload in one read; else in pieces of 4 KiB", .verbs = { "", "large=0" }, \
	  .load = LANES_STREAM, .links = 1, .senders = 1, .window = 8, .size = (kib) * KIB, .by_cpu = true, .aim = 1 / 0.6 }
#define SPREAD(how, on, off, group_off, n, least) \
	{ .name = "R1", .what = how, .verbs = { on, off }, .groups = { "auto", group_off }, \
	  .load = LANES_STREAM, .links = n, .senders = 4, .window = 32, .classes = true, .threads = true, .aim = least }

const struct lanes_case lanes_cases[] = {
	DIRECT(1, 4), DIRECT(1, 32), DIRECT(1, 128),
	DIRECT(2, 4), DIRECT(2, 32), DIRECT(2, 128),
	DIRECT(4, 4), DIRECT(4, 32), DIRECT(4, 128),
	DIRECT(8, 4), DIRECT(8, 32), DIRECT(8, 128),
	/*
	 * imm=0: else the immediate word is the header, on both sides. landing: a block of 8 KiB is
	 * written, too.
	 */
	{ .name = "S2", .what = "header and block in one write; else a write and a send", .aim = 1.2,
	  .verbs = { "imm=0,landing=8192", "imm=0,landing=8192,coalesce=0" },
	  .load = LANES_ECHO, .links = 1, .size = 8 * KIB },
	{ .name = "imm", .what = "the immediate word is the header of a block; else it is written with it",
	  .verbs = { "", "imm=0" }, .load = LANES_ECHO, .links = 1, .size = 4 * KIB },
	/* depth: a sender that is ahead by more than that has a backlog. */
	{ .name = "S3", .what = "a backlog is posted in chains; else one by one",
	  .verbs = { "depth=32", "depth=32,chain=0" }, .load = LANES_STREAM, .links = 1, .senders = 1, .window = 256 },
	LARGE(64), LARGE(128),
	SPREAD("classes over two links, and over vectors; else one link, one vector", "", "spread=0", "off", 2, 1.2),
	SPREAD("classes over two links", "", "spread=0", "auto", 2, 0),
	SPREAD("classes over vectors", "", "", "off", 1, 0),
	{ .name = "R2", .what = "completions taken per lock: 16; else 1", .verbs = { "", "batch=1" }, .by_cpu = true,
	  .load = LANES_STREAM, .links = 1, .senders = 1, .window = 256, .late = true },
	{ .name = "inline", .what = "small messages in the work request", .verbs = { "", "inline=0" },
	  .load = LANES_ECHO, .links = 1 },
	{ .name = "signal", .what = "one in 16 sends reports its completion; else all", .verbs = { "", "signal=1" },
	  .load = LANES_STREAM, .links = 1, .senders = 1, .window = 64 },
	{ .name = "solicit", .what = "an awaited answer raises no event; else it wakes a thread", .verbs = { "", "solicit=0" },
	  .load = LANES_ECHO, .links = 1, .threads = true },
};
/* clang-format on */
const unsigned int lanes_ncases = sizeof(lanes_cases) / sizeof(lanes_cases[0]);

static const char *unless(bool condition, const char *text)
{
	return condition ? NULL : text;
}

/* Completions of the busiest device, or of the busiest vector of all devices, and of all. */
static uint64_t busiest(const struct lanes_count *c, bool by_device, uint64_t *all)
{
	uint64_t most = 0, sum;
	uint32_t i, k;

	*all = 0;
	for (i = 0; i < c->nvectors; i++) {
		*all += c->vectors[i].completions;
		sum = 0;
		for (k = 0; k < c->nvectors; k++)
			if (by_device ? !strcmp(c->vectors[k].device, c->vectors[i].device)
				      : c->vectors[k].vector == c->vectors[i].vector)
				sum += c->vectors[k].completions;
		most = sum > most ? sum : most;
	}
	return most;
}

/*
 * Where they are spread, the busiest link, or vector, has at most 4/5 of the completions; where
 * not, at least 19/20.
 */
static const char *judge_spread(const struct lanes_case *c, bool on, const struct lanes_result *r)
{
	const bool links = strcmp(c->verbs[LANES_ON], c->verbs[LANES_OFF]) != 0;
	const bool vectors = strcmp(c->groups[LANES_ON], c->groups[LANES_OFF]) != 0;
	uint64_t all, device, vector;

	device = busiest(&r->receiver, true, &all);
	vector = busiest(&r->receiver, false, &all);
	if (links && (on ? device * 5 > all * 4 : device * 20 < all * 19))
		return on ? "came over one link" : "came over two links";
	if (vectors && (on ? vector * 5 > all * 4 : vector * 20 < all * 19))
		return on ? "came by one vector" : "came by several vectors";
	return NULL;
}

const char *lanes_judge(const struct lanes_case *c, enum lanes_side side,
			const struct lanes_result *r)
{
	const struct net_work *s = &r->sender.net.work, *d = &r->receiver.net.work;
	const uint64_t n = r->messages, sends = s->requests - s->reads,
		       found = d->locks - d->idle_locks;
	const bool on = side == LANES_ON;

	if (!n || sends < n)
		return "sent nothing";
	if (!strcmp(c->name, "S1"))
		return on ? unless(!s->handed_over, "went through the send thread")
			  : unless(s->handed_over >= n, "did not go through the send thread");
	if (!strcmp(c->name, "S2"))
		return unless(d->writes >= n && !d->bare, "blocks were not written with a header")
			?: on ? unless(d->immediates == d->writes,
				       "header and block were two work requests")
			      : unless(!d->immediates, "header and block were one work request");
	if (!strcmp(c->name, "imm"))
		return unless(d->immediates >= n, "blocks were not written with an immediate word")
			?: on
			? unless(d->bare == d->immediates, "the immediate word was not the header")
			: unless(!d->bare, "the immediate word was the header");
	if (!strcmp(c->name, "S3"))
		return on ? unless(s->doorbells * 2 <= s->requests, "there were no chains")
			  : unless(s->doorbells == s->requests, "there were chains");
	if (!strcmp(c->name, "S4"))
		return on
			? unless(d->reads >= n && d->reads <= r->sent,
				 "payloads were read in pieces")
			: unless(d->reads >= n * (c->size / (4 * KIB)), "payloads were read whole");
	if (!strcmp(c->name, "R1"))
		return judge_spread(c, on, r);
	if (!strcmp(c->name, "R2"))
		return unless(d->completions >= n, "completions are missing")
			?: on ? unless(found * 2 <= d->completions, "there were no batches")
			      : unless(found >= d->completions, "there were batches");
	if (!strcmp(c->name, "inline"))
		return on ? unless(s->inlined * 10 >= sends * 9,
				   "messages were not in the work request")
			  : unless(!s->inlined, "messages were in the work request");
	if (!strcmp(c->name, "signal"))
		return on
			? unless(s->signalled * 4 <= sends, "each send reported its completion")
			: unless(s->signalled == sends, "not all sends reported their completion");
	if (!strcmp(c->name, "solicit")) {
		/* while a woken thread waits for a processor, no further event comes */
		const uint64_t few = r->sent / 10 + 10;

		return on ? unless(s->events <= few, "answers raised events")
			  : unless(s->events > few, "answers raised no events");
	}
	return "has no rule";
}

// SPDX-License-Identifier: BSD-2-Clause
/* main.c - the model checker's command line. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search.h"

static const char usage[] =
	"Usage: model [options]\n"
	"Exhaustive search over the protocol core: every schedule of small worlds.\n\n"
	"  --config NAME        search only this world (may be given several times)\n"
	"  --full               also search the deep worlds\n"
	"  --slice I/N          search only world I of the first N (from 0), and each Nth after it\n"
	"  --list               list the worlds\n"
	"  --max-states N       give up after N states (default 60000000); giving up is a failure\n"
	"  --first N            search the first N states of each world; that there are more is no failure\n"
	"  --max-seconds S      give up after S seconds per world (default 3600)\n"
	"  --expect-violation   succeed if each of the given worlds is violated (for seeded faults)\n"
	"  --mutations          run tests/model/mutate: seeded faults that must be found (in the project's folder)\n"
	"  --quiet              print no trace after a violation\n"
	"  --help\n\n"
	"Exit status: 0 no violation, 1 a violation, 2 a limit was reached or wrong usage.\n";

/* clang-format off */
static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "full", no_argument, NULL, 'f' },
	{ "slice", required_argument, NULL, 'S' },
	{ "list", no_argument, NULL, 'l' },
	{ "max-states", required_argument, NULL, 'm' },
	{ "first", required_argument, NULL, 'F' },
	{ "max-seconds", required_argument, NULL, 's' },
	{ "expect-violation", no_argument, NULL, 'e' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "mutations", no_argument, NULL, 'M' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};
/* clang-format on */

static void list(void)
{
	const struct config *c;

	for (c = configs; c->name; c++)
		printf("%-26s %s%s\n", c->name, c->full ? "(full) " : "", c->what);
	for (c = host_faults; c->name; c++)
		printf("%-26s (must be violated) %s\n", c->name, c->what);
}

static const struct config *find(const char *name)
{
	const struct config *c;

	for (c = configs; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	for (c = host_faults; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	fprintf(stderr, "model: no configuration %s; see --list\n", name);
	exit(2);
}

struct tally {
	unsigned int n, held, violated, gave_up;
};

static void run(struct tally *t, const struct config *c, const struct limits *l, bool quiet)
{
	enum verdict v = search(c, l, quiet);

	t->n++;
	t->held += v == HOLDS;
	t->violated += v == VIOLATED;
	t->gave_up += v == GAVE_UP;
}

int main(int argc, char **argv)
{
	struct limits limits = { .states = 60000000, .seconds = 3600 };
	bool full = false, expect = false, quiet = false, first = false;
	const struct config *chosen[64], *c;
	unsigned int n = 0, i, slice = 0, slices = 1;
	struct tally t = { 0 };
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'c':
			if (n < 64)
				chosen[n++] = find(optarg);
			break;
		case 'f': full = true; break;
		case 'S':
			if (sscanf(optarg, "%u/%u", &slice, &slices) != 2 || slice >= slices) {
				fputs(usage, stderr);
				return 2;
			}
			break;
		case 'l': list(); return 0;
		case 'm': limits.states = strtoull(optarg, NULL, 0); break;
		case 'F':
			limits.states = strtoull(optarg, NULL, 0);
			first = true;
			break;
		case 's': limits.seconds = strtod(optarg, NULL); break;
		case 'e': expect = quiet = true; break;
		case 'q': quiet = true; break;
		case 'M':
			execl("tests/model/mutate", "mutate", (char *)NULL);
			perror("model: tests/model/mutate");
			return 2;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	}
	for (i = 0; i < n; i++)
		run(&t, chosen[i], &limits, quiet);
	for (c = configs; c->name && !n; c++)
		if ((full || !c->full) && (c - configs) % slices == slice)
			run(&t, c, &limits, quiet);
	printf("%u configurations: %u hold, %u violated, %u gave up\n", t.n, t.held, t.violated,
	       t.gave_up);
	if (expect)
		return t.violated == t.n ? 0 : 1;
	return t.violated ? 1 : t.gave_up && !first ? 2 : 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* main.c - the command line of each program of scenes, and the report of a violation. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "search.h"

static const char usage[] =
	"Usage: %s [options]\n"
	"Scenes of threads that access the same memory without a lock: every interleaving of their accesses, under the memory\n"
	"models of x86 (tso) and of C11 (c11).\n\n"
	"  --scene NAME         run only this scene (may be given several times)\n"
	"  --model tso|c11      only this memory model\n"
	"  --full               no limit of preemptions; also the scenes that take long\n"
	"  --list               list the scenes\n"
	"  --max-seconds S      give up after S seconds per scene and model, which is a failure (default 3600)\n"
	"  --expect-violation   succeed if each of the given scenes is violated (for seeded faults)\n"
	"  --help\n\n"
	"Exit status: 0 no violation, 1 a violation, 2 a limit was reached or wrong usage.\n";

/* clang-format off */
static const struct option options[] = {
	{ "scene", required_argument, NULL, 's' },
	{ "model", required_argument, NULL, 'm' },
	{ "full", no_argument, NULL, 'f' },
	{ "list", no_argument, NULL, 'l' },
	{ "max-seconds", required_argument, NULL, 'S' },
	{ "expect-violation", no_argument, NULL, 'e' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char *const kinds[OP_KINDS] = {
	"load", "store", "change", "compare", "fence", "lock", "unlock", "post", "wait", "futex wait", "asleep", "futex wake",
	"membarrier", "leaves the buffer",
};
static const char *const orders[] = { "relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst" };
/* clang-format on */

double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Where a call returns to, as addr2line(1) says; "" if it does not. */
static void place(const void *pc, char *out, size_t size)
{
	char command[100], function[100] = "", line[100] = "", *slash;
	FILE *f;

	*out = 0;
	snprintf(command, sizeof(command), "addr2line -f -e /proc/%d/exe %p 2>/dev/null",
		 (int)getpid(), (const void *)((const char *)pc - 1));
	f = popen(command, "r");
	if (!f)
		return;
	if (fgets(function, sizeof(function), f) && fgets(line, sizeof(line), f)) {
		function[strcspn(function, "\n")] = line[strcspn(line, "\n")] = 0;
		slash = strrchr(line, '/');
		snprintf(out, size, "%s, %s", function, slash ? slash + 1 : line);
	}
	pclose(f);
}

static void show_step(const struct step *s)
{
	const struct op *op = &s->op;
	char where[250];
	size_t offset;

	printf("   thread %u  %s", s->thread, kinds[op->kind]);
	if (op->kind == OP_FLUSH) {
		putchar('\n');
		return;
	}
	if (op->kind <= OP_FENCE)
		printf(" %s", orders[op->order]);
	if (op->at) {
		const char *name = memory_name(op->at, &offset);

		printf("  %s+%zu", name, offset);
	} else if (op->kind != OP_FENCE && op->kind != OP_BARRIER) {
		printf("  %u", op->cell);
	}
	if (op->kind == OP_LOAD || op->kind == OP_CHANGE || op->kind == OP_SWAP ||
	    op->kind == OP_SLEEP)
		printf("  was %#llx", (unsigned long long)op->result);
	if (op->kind == OP_STORE || op->kind == OP_CHANGE || (op->kind == OP_SWAP && op->swapped))
		printf("  now %#llx",
		       (unsigned long long)(op->kind == OP_CHANGE ? changed(op, op->result)
								  : op->value));
	place(op->pc, where, sizeof(where));
	printf("  (%s)\n", where);
}

#define STEPS_SHOWN 60u

/* The last steps of a run. */
static void show_steps(const struct result *r)
{
	unsigned int i = r->nsteps > STEPS_SHOWN ? r->nsteps - STEPS_SHOWN : 0;

	if (i)
		printf("   (after %u steps)\n", i);
	for (; i < r->nsteps; i++)
		show_step(&r->steps[i]);
}

struct tally {
	unsigned int n, held, violated, gave_up;
};

struct wish {
	bool full, quiet;
	double seconds;
};

/* m is the model with bit `model` of scene.fails. */
static void judge(struct tally *t, const struct scene *s, const struct model *m, unsigned int model,
		  const struct wish *w)
{
	const bool fails = s->fails & model;
	static const char *const words[] = { "holds", "VIOLATED", "GAVE UP" };
	const double start = now_seconds();
	struct scene now = *s;
	struct result r;

	if (w->full)
		now.switches = 0;
	r = search(&now, m, w->seconds);
	t->n++;
	t->held += r.verdict == (fails ? VIOLATED : HOLDS);
	t->violated += r.verdict == (fails ? HOLDS : VIOLATED);
	t->gave_up += r.verdict == GAVE_UP;
	printf("%-22s %s  %s%-8s %9zu states %9zu runs %6.2f s  %s\n", s->name, m->name,
	       fails ? "(must be) " : "", words[r.verdict], r.states, r.runs, now_seconds() - start,
	       r.verdict == VIOLATED ? r.why : "");
	if (r.verdict == VIOLATED && !fails && !w->quiet)
		show_steps(&r);
	fflush(stdout);
}

static bool is_wanted(const struct scene *s, char *const *names, unsigned int n, bool full)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!strcmp(s->name, names[i]))
			return true;
	return !n && (full || !s->full);
}

int main(int argc, char **argv)
{
	static const struct model *const models[] = { &model_tso, &model_c11 };
	struct wish w = { .seconds = 3600 };
	struct tally t = { 0 };
	const char *model = NULL;
	const struct scene *s;
	char *names[16];
	unsigned int n = 0, i;
	bool expect = false;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (o) {
		case 's':
			if (n < 16)
				names[n++] = optarg;
			break;
		case 'm': model = optarg; break;
		case 'f': w.full = true; break;
		case 'l':
			for (s = scenes; s->name; s++)
				printf("%-22s %s%s\n", s->name, s->full ? "(full) " : "", s->what);
			return 0;
		case 'S': w.seconds = strtod(optarg, NULL); break;
		case 'e': expect = w.quiet = true; break;
		case 'h': printf(usage, argv[0]); return 0;
		default: fprintf(stderr, usage, argv[0]); return 2;
		}
	scene_memory();
	for (s = scenes; s->name; s++)
		for (i = 0; i < 2 && is_wanted(s, names, n, w.full); i++)
			if (!model || !strcmp(model, models[i]->name))
				judge(&t, s, models[i], 1u << i, &w);
	printf("%u searches: %u hold, %u violated, %u gave up\n", t.n, t.held, t.violated,
	       t.gave_up);
	if (!t.n)
		return 2;
	if (expect)
		return t.violated == t.n ? 0 : 1;
	return t.violated ? 1 : t.gave_up ? 2 : 0;
}

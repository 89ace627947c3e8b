/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.c - the frame that every application runs in: options, memory, workers, timing,
 * verification, results.
 *
 * Threads: the main thread of a rank starts threads - 1 others for each run and is its first
 * worker; only it makes collective calls, and rank 0's alone verifies and prints. No locks: the
 * workers meet at barriers.
 */
#include "common.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_MISMATCH = 1, EXIT_USAGE = 2 };

struct app_memory {
	struct app_memory *next;
	void *addr;
	dsm_region_t *region; /* NULL: addr is of the heap, or private */
	char name[DSM_NAME_MAX];
};

/* between dsm_init() and dsm_finalize(): an error has to end the other ranks too */
static bool in_job;

/* ---- errors and small helpers ---------------------------------------------------------------- */

void app_fail(const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (in_job)
		dsm_abort(EXIT_FAILURE, "%s", text);
	fprintf(stderr, "%s\n", text);
	exit(EXIT_FAILURE);
}

void app_must(int rc, const char *what)
{
	if (rc < 0)
		app_fail("%s: %s (%d)", what, dsm_strerror(rc), rc);
}

double app_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t app_hash(uint64_t hash, const void *data, size_t size)
{
	const uint32_t *words = data;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u + (hash >> 29);
	return hash;
}

/* Compare bit by bit; at is the index of the first byte in the whole, for the message. */
bool app_same(const struct app *app, const char *what, const void *a, const void *b, size_t size,
	      size_t at)
{
	const unsigned char *x = a, *y = b;
	size_t i = 0;

	if (!memcmp(a, b, size))
		return true;
	while (x[i] == y[i])
		i++;
	fprintf(stderr, "%s: %s differs from the sequential run at byte %zu (address %p)\n",
		app->name, what, at + i, (const void *)(x + i));
	return false;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *app_private(size_t size)
{
	void *p = aligned_alloc(APP_PAGE, app_round_up(size ? size : 1, APP_PAGE));

	if (!p)
		app_fail("out of memory: %zu private bytes", size);
	memset(p, 0, size);
	return p;
}

static struct app_memory *memory_add(struct app_job *job, const char *name)
{
	struct app_memory *m = calloc(1, sizeof(*m));

	if (!m)
		app_fail("out of memory");
	snprintf(m->name, sizeof(m->name), "%s", name);
	m->next = job->memory;
	job->memory = m;
	return m;
}

void *app_region(struct app_job *job, const char *name, size_t size, size_t block_size)
{
	struct dsm_region_options how = { .block_size = block_size, .home = DSM_HOME_FIRST_TOUCH };
	struct app_memory *m = memory_add(job, name);

	if (!job->shared)
		return m->addr = app_private(size);
	app_must(dsm_region_open(name, size, &how, &m->region), name);
	return m->addr = dsm_region_base(m->region);
}

static void *heap_from(struct app_job *job, const char *name, size_t size, unsigned root)
{
	void *p = NULL;

	if (job->rank == root) {
		p = dsm_malloc_named(APP_PAGE, app_round_up(size, APP_PAGE), name);
		if (!p)
			app_fail(
				"%s: no %zu bytes in the shared heap of rank %u: %s; raise DSM_HEAP",
				name, size, root, strerror(errno));
		memset(p, 0, size);
		memory_add(job, name)->addr = p;
	}
	app_must(dsm_broadcast(&p, sizeof(p), (int)root), "dsm_broadcast");
	return p;
}

void *app_heap(struct app_job *job, const char *name, size_t size)
{
	if (!job->shared)
		return memory_add(job, name)->addr = app_private(size);
	return heap_from(job, name, size, 0);
}

void app_heap_each(struct app_job *job, const char *name, size_t size, void **pieces)
{
	if (!job->shared) {
		pieces[0] = memory_add(job, name)->addr = app_private(size);
		return;
	}
	for (unsigned r = 0; r < job->ranks; r++)
		pieces[r] = heap_from(job, name, size, r);
}

/* Collective, like the calls that allocated: nobody takes away what another rank still uses. */
static void memory_free(struct app_job *job)
{
	struct app_memory *m;

	if (job->shared)
		app_must(dsm_barrier(), "dsm_barrier");
	while ((m = job->memory)) {
		job->memory = m->next;
		if (!job->shared)
			free(m->addr);
		else if (!m->region)
			app_must(dsm_free(m->addr), "dsm_free");
		else {
			app_must(dsm_region_detach(m->region), "dsm_region_detach");
			if (!job->rank)
				app_must(dsm_region_destroy(m->name), "dsm_region_destroy");
		}
		free(m);
	}
}

/* ---- for workers ----------------------------------------------------------------------------- */

void app_barrier(struct app_worker *w)
{
	if (w->job->shared)
		app_must(dsm_barrier_wait(&w->job->barrier), "dsm_barrier_wait");
}

static uint64_t combine(uint64_t a, uint64_t b, enum dsm_type type, enum dsm_op op)
{
	double x, y;

	if (type == DSM_INT64)
		return op == DSM_SUM ? a + b : (int64_t)a > (int64_t)b ? a : b;
	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	x = op == DSM_SUM ? x + y : fmax(x, y);
	memcpy(&a, &x, sizeof(a));
	return a;
}

void app_reduce(struct app_worker *w, void *value, enum dsm_type type, enum dsm_op op)
{
	struct app_job *job = w->job;

	if (!job->shared)
		return;
	if (job->threads == 1) {
		app_must(dsm_reduce(value, type, op), "dsm_reduce");
		return;
	}
	memcpy(&job->slots[w->thread], value, sizeof(job->slots[0]));
	pthread_barrier_wait(&job->local);
	if (!w->thread) {
		for (unsigned t = 1; t < job->threads; t++)
			job->slots[0] = combine(job->slots[0], job->slots[t], type, op);
		app_must(dsm_reduce(&job->slots[0], type, op), "dsm_reduce");
	}
	pthread_barrier_wait(&job->local);
	memcpy(value, &job->slots[0], sizeof(job->slots[0]));
	/* the first worker may reuse its slot only when all have read it */
	pthread_barrier_wait(&job->local);
}

void app_prefetch(struct app_worker *w, const void *addr, size_t size)
{
	if (w->job->shared && !w->job->opt->no_prefetch && size)
		app_must(dsm_prefetch(addr, size, DSM_READ), "dsm_prefetch");
}

void app_own(struct app_worker *w, void *addr, size_t size)
{
	if (w->job->shared && !w->job->opt->no_prefetch && size)
		app_must(dsm_acquire(addr, size, DSM_WRITE), "dsm_acquire");
}

void app_progress(struct app_worker *w, uint64_t done, uint64_t total)
{
	static double last;
	double now;

	if (w->id || w->job->opt->quiet || !isatty(STDERR_FILENO))
		return;
	now = app_seconds();
	if (now - last < 0.2 && done < total)
		return;
	last = now;
	fprintf(stderr, done < total ? "\r%s: %3.0f%%" : "\r%s: %3.0f%%\r              \r",
		w->job->app->name, 100.0 * (double)done / (double)total);
}

/* ---- options --------------------------------------------------------------------------------- */

static void print_options(FILE *out, const struct app_option *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct app_option *o = &rows[i];
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		fprintf(out, "  %-20s %s", left, o->help);
		if (o->kind == APP_COUNT)
			fprintf(out, " (default %llu)", (unsigned long long)*(uint64_t *)o->value);
		else if (o->kind == APP_REAL)
			fprintf(out, " (default %g)", *(double *)o->value);
		fputc('\n', out);
	}
}

static bool parse_count(const char *text, double *out)
{
	char *end;
	unsigned long long v;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	v = strtoull(text, &end, 10);
	*out = (double)v;
	if (*end && strchr("kKmMgG", *end)) {
		*out *= strchr("kK", *end) ? 0x1p10 : strchr("mM", *end) ? 0x1p20 : 0x1p30;
		end++;
	}
	return !errno && !*end;
}

static bool option_set(const struct app *app, const struct app_option *o, const char *text)
{
	double v = 0;
	char *end;
	bool ok;

	if (o->kind == APP_FLAG) {
		*(bool *)o->value = true;
		return true;
	}
	if (o->kind == APP_COUNT) {
		ok = parse_count(text, &v);
	} else {
		v = strtod(text, &end);
		ok = end != text && !*end && isfinite(v);
	}
	if (!ok || v < o->min || v > o->max) {
		fprintf(stderr, "%s: --%s %s: expected a %s from %.17g to %.17g\n", app->name,
			o->name, text, o->kind == APP_COUNT ? "whole number" : "number", o->min,
			o->max);
		return false;
	}
	if (o->kind == APP_COUNT)
		*(uint64_t *)o->value = (uint64_t)v;
	else
		*(double *)o->value = v;
	return true;
}

static const struct app_option *option_find(const struct app_option *rows, size_t n,
					    const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(rows[i].name) == len && !strncmp(rows[i].name, name, len))
			return &rows[i];
	return NULL;
}

/* Returns -1 to go on, otherwise the exit status. */
static int parse(const struct app *app, struct app_settings *s, int argc, char **argv)
{
	bool help = false;
	const struct app_option common[] = {
		{ "help", NULL, "print this and exit", APP_FLAG, &help, 0, 0 },
		{ "size", "N", app->size_help, APP_COUNT, &s->size, (double)app->size_min,
		  (double)app->size_max },
		{ "seed", "S", "seed of the input", APP_COUNT, &s->seed, 0, 0x1p53 },
		{ "threads", "T", "threads per rank", APP_COUNT, &s->threads, 1, APP_MAX_THREADS },
		{ "repeat", "R", "runs; the time printed is their median", APP_COUNT, &s->repeat, 1,
		  1000 },
		{ "verify", NULL, "check the result against a sequential run (default)", APP_FLAG,
		  &s->verify, 0, 0 },
		{ "no-verify", NULL, "do not", APP_FLAG, &s->no_verify, 0, 0 },
		{ "sequential", NULL, "run on private memory, without the runtime", APP_FLAG,
		  &s->sequential, 0, 0 },
		{ "prefetch", NULL, "ask for remote data ahead of its use (default)", APP_FLAG,
		  &s->prefetch, 0, 0 },
		{ "no-prefetch", NULL, "do not", APP_FLAG, &s->no_prefetch, 0, 0 },
		{ "table", NULL, "print counters of the runtime at the end", APP_FLAG, &s->table, 0,
		  0 },
		{ "quiet", NULL, "no progress on the terminal", APP_FLAG, &s->quiet, 0, 0 },
	};
	const size_t ncommon = sizeof(common) / sizeof(common[0]);

	for (int i = 1; i < argc && !help; i++) {
		const char *text = strchr(argv[i], '=');
		const struct app_option *o = NULL;
		size_t len = text ? (size_t)(text - argv[i]) : strlen(argv[i]);

		if (len > 2 && !strncmp(argv[i], "--", 2)) {
			o = option_find(common, ncommon, argv[i] + 2, len - 2);
			if (!o)
				o = option_find(app->options, app->noptions, argv[i] + 2, len - 2);
		}
		if (!o || (o->kind == APP_FLAG && text)) {
			fprintf(stderr, "%s: unknown option '%s'; --help lists them\n", app->name,
				argv[i]);
			return EXIT_USAGE;
		}
		if (text)
			text++;
		else if (o->kind != APP_FLAG)
			text = argv[++i];
		if (o->kind != APP_FLAG && !text) {
			fprintf(stderr, "%s: --%s needs a value\n", app->name, o->name);
			return EXIT_USAGE;
		}
		if (!option_set(app, o, text))
			return EXIT_USAGE;
	}
	if (help) {
		printf("usage: %s [options]\n%s\n\n", app->name, app->about);
		print_options(stdout, common, ncommon);
		print_options(stdout, app->options, app->noptions);
		return EXIT_SUCCESS;
	}
	if (s->no_verify)
		s->verify = false;
	return !app->check || app->check(s) ? -1 : EXIT_USAGE;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void *worker_main(void *arg)
{
	struct app_worker *w = arg;
	struct app_job *job = w->job;

	for (unsigned r = 0; r < job->opt->repeat; r++) {
		double start;

		job->app->init(w, job->data);
		app_barrier(w);
		if (job->stats && !w->thread)
			app_must(dsm_stats_reset(), "dsm_stats_reset");
		app_barrier(w);
		start = app_seconds();
		job->app->run(w, job->data);
		app_barrier(w);
		if (!w->id)
			job->times[r] = app_seconds() - start;
		if (job->stats && !w->id && r + 1 == job->opt->repeat)
			app_must(dsm_stats_get(-1, NULL, job->stats), "dsm_stats_get");
		app_barrier(w);
	}
	return NULL;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Run all repetitions; returns the median time (sorted times stay in job->times). */
static double job_run(struct app_job *job)
{
	struct app_worker *w = calloc(job->threads, sizeof(*w));
	pthread_t *id = calloc(job->threads, sizeof(*id));
	size_t n = job->opt->repeat;
	int rc;

	job->times = calloc(n, sizeof(*job->times));
	if (!w || !id || !job->times)
		app_fail("out of memory");
	pthread_barrier_init(&job->local, NULL, job->threads);
	for (unsigned t = 0; t < job->threads; t++) {
		w[t] = (struct app_worker){ job, t, job->rank * job->threads + t, job->workers };
		rc = t ? pthread_create(&id[t], NULL, worker_main, &w[t]) : 0;
		if (rc)
			app_fail("rank %u: cannot start thread %u: %s", job->rank, t, strerror(rc));
	}
	worker_main(&w[0]);
	for (unsigned t = 1; t < job->threads; t++)
		pthread_join(id[t], NULL);
	pthread_barrier_destroy(&job->local);
	free(id);
	free(w);
	qsort(job->times, n, sizeof(*job->times), compare_doubles);
	return n % 2 ? job->times[n / 2] : 0.5 * (job->times[n / 2 - 1] + job->times[n / 2]);
}

static void job_end(struct app_job *job)
{
	job->app->destroy(job->data);
	memory_free(job);
	free(job->times);
}

static void job_start(struct app_job *job, const struct app *app, const struct app_settings *opt,
		      bool shared)
{
	*job = (struct app_job){
		.app = app, .opt = opt, .shared = shared, .ranks = 1, .threads = 1, .workers = 1
	};
	if (shared) {
		job->ranks = (unsigned)dsm_size();
		job->rank = (unsigned)dsm_rank();
		job->threads = (unsigned)opt->threads;
		job->workers = job->ranks * job->threads;
		if (job->ranks > APP_MAX_RANKS)
			app_fail("%s: %u ranks; the limit is %u", app->name, job->ranks,
				 APP_MAX_RANKS);
		if (!job->rank)
			app_must(dsm_barrier_init(&job->barrier, NULL, 0, job->threads),
				 "dsm_barrier_init");
		app_must(dsm_broadcast(&job->barrier, sizeof(job->barrier), 0), "dsm_broadcast");
	}
	job->data = app->create(job);
}

/* ---- results --------------------------------------------------------------------------------- */

static void print_table(FILE *out, const struct dsm_stats *s, double seconds)
{
	static const char *const waits[DSM_LAT_MAX] = { "read miss", "write miss", "upgrade",
							"lock",      "barrier",    "atomic" };

	fprintf(out, "%-24s %14.6f s\n", "time", seconds);
	fprintf(out, "%-24s %14llu\n", "read faults", (unsigned long long)s->read_faults);
	fprintf(out, "%-24s %14llu\n", "write faults", (unsigned long long)s->write_faults);
	fprintf(out, "%-24s %14llu\n", "upgrades", (unsigned long long)s->upgrades);
	fprintf(out, "%-24s %14llu\n", "first touches", (unsigned long long)s->local_faults);
	fprintf(out, "%-24s %14llu\n", "blocks fetched ahead", (unsigned long long)s->prefetched);
	fprintf(out, "%-24s %14llu\n", "invalidations", (unsigned long long)s->invalidations);
	fprintf(out, "%-24s %14llu\n", "downgrades", (unsigned long long)s->downgrades);
	fprintf(out, "%-24s %14llu\n", "blocks moved", (unsigned long long)s->blocks_in);
	fprintf(out, "%-24s %14.3f MiB\n", "data moved", (double)s->bytes_in * 0x1p-20);
	fprintf(out, "%-24s %14llu\n", "messages", (unsigned long long)s->messages_out);
	fprintf(out, "%-24s %14s %12s %12s\n", "waits", "count", "mean us", "slowest us");
	for (int i = 0; i < DSM_LAT_MAX; i++) {
		unsigned long long n = s->latency_count[i];

		if (n)
			fprintf(out, "  %-22s %14llu %12.2f %12.2f\n", waits[i], n,
				1e-3 * (double)s->latency_sum_ns[i] / (double)n,
				1e-3 * (double)s->latency_max_ns[i]);
	}
}

/* verdict: 1 right, 0 wrong, -1 not checked; seq_s < 0: no sequential run. */
static void print_result(struct app_job *job, double time_s, double seq_s, uint64_t checksum,
			 int verdict)
{
	const struct app_settings *s = job->opt;

	printf("result app=%s ranks=%u threads=%u size=%llu", job->app->name, job->ranks,
	       job->threads, (unsigned long long)s->size);
	if (job->app->describe)
		job->app->describe(stdout, job->data);
	printf(" time_s=%.6f", time_s);
	if (s->repeat > 1)
		printf(" best_s=%.6f", job->times[0]);
	if (seq_s >= 0)
		printf(" seq_s=%.6f", seq_s);
	printf(" checksum=0x%016llx verify=%s%s\n", (unsigned long long)checksum,
	       verdict < 0       ? "off"
		       : verdict ? "ok"
				 : "FAIL",
	       job->shared ? "" : " mode=sequential");
	fflush(stdout);
}

/* Rank 0: run the reference, judge the result and print it. */
static int finish(struct app_job *job, double time_s)
{
	const struct app *app = job->app;
	uint64_t checksum = app->checksum(job->data);
	struct app_job reference;
	double seq_s = -1;
	int verdict = -1;

	if (job->opt->verify && job->shared) {
		job_start(&reference, app, job->opt, false);
		seq_s = job_run(&reference);
		verdict = app->verify(job->opt, job->data, reference.data);
		if (app->checksum(reference.data) != checksum)
			verdict = 0;
		job_end(&reference);
	} else if (job->opt->verify) {
		verdict = app->verify(job->opt, job->data, NULL);
	}
	if (job->stats)
		print_table(stdout, job->stats, time_s);
	print_result(job, time_s, seq_s, checksum, verdict);
	return verdict == 0 ? EXIT_MISMATCH : EXIT_SUCCESS;
}

int app_main(const struct app *app, int argc, char **argv)
{
	struct app_settings settings = {
		.size = app->size, .seed = 1, .threads = 1, .repeat = 1, .verify = true
	};
	struct dsm_stats stats;
	struct app_job job;
	double time_s;
	int status = parse(app, &settings, argc, argv);

	if (status >= 0)
		return status;
	if (settings.sequential) {
		job_start(&job, app, &settings, false);
		time_s = job_run(&job);
		status = finish(&job, time_s);
		job_end(&job);
		return status;
	}
	app_must(dsm_init(NULL), "dsm_init");
	in_job = true;
	job_start(&job, app, &settings, true);
	job.stats = settings.table ? &stats : NULL;
	time_s = job_run(&job);
	if (!job.rank)
		status = finish(&job, time_s);
	app_must(dsm_broadcast(&status, sizeof(status), 0), "dsm_broadcast");
	job_end(&job);
	if (!job.rank)
		app_must(dsm_barrier_destroy(&job.barrier), "dsm_barrier_destroy");
	app_must(dsm_finalize(), "dsm_finalize");
	in_job = false;
	return status;
}

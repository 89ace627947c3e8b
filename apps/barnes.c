/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * barnes.c - gravity of N bodies by the method of Barnes and Hut.
 *
 * Bodies are kept in Morton order, so that every cell of the octree is a run of bodies, and a
 * worker owns a run of bodies that costs as much as any other's. A step:
 *   1. each worker sorts its bodies by their new keys and publishes keys and running costs;
 *      barrier;
 *   2. each finds by bisection in everybody's lists the keys between which a fair share of the cost
 *      lies, and copies these bodies (nearly all were its own before); barrier;
 *   3. each builds subtrees for the largest cells that hold none but its bodies, and publishes a
 *      list of them (branches); barrier;
 *   4. each joins all branches to a tree in private memory, computes forces on its bodies, and
 *      moves them. The moved bodies go to the other copy of the arrays, as the places in this one
 *      are being read. The reduction of the extent of all bodies, before step 1, is the barrier
 *      after it.
 * The tree follows from the keys alone: cells with one child only are left out, and cells of few
 * bodies are leaves. So it is the same for any number of workers, and so is the result, bit by bit.
 */
#include "common.h"
#include "octree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	LEAF = 8,                     /* most bodies in a leaf above the last level */
	BRANCHES = 2 * 7 * LEVELS + 1 /* most cells along the two ends of a worker's run */
};

static uint64_t steps = 4;
static double theta = 0.5, dt = 0.01, soften = 0.05;

struct motion { /* of a body, what others do not read */
	double v[DIMS];
	uint32_t id, cost;
};

struct entry { /* a body of a sorted list; cost includes all before it */
	uint64_t key, cost;
	uint32_t slot, id;
};

struct branch {
	uint64_t first_key, last_key;
	uint32_t start, count; /* bodies */
	uint32_t root, cells;  /* in the cells of all */
};

struct info {
	/* what a worker publishes: first a page, then, while others read that, few of the next */
	uint64_t lo, count, first_key, last_key;
	uint64_t branches __attribute__((aligned(APP_PAGE)));
	struct branch branch[BRANCHES];
};

struct top { /* cell of the private tree; branch: its subtree is elsewhere */
	struct cell cell;
	const struct branch *branch;
};

struct local {                 /* private to a worker */
	uint64_t *lo, *count;  /* bodies of each worker in the arrays of moved bodies */
	uint64_t *key;         /* of its own bodies after the exchange */
	struct entry *list;    /* scratch for sorting */
	struct branch *branch; /* all branches, in key order */
	struct top *top;
	size_t branches, tops;
	double half; /* all bodies are in [-half, half)^3 */
};

struct barnes {
	size_t n;
	uint64_t seed;
	unsigned workers, threads;
	struct point *moved, *point; /* bodies after a step, and while forces are computed */
	struct motion *moved_motion, *motion;
	struct entry *entry; /* the sorted lists of all workers */
	struct cell *cell;   /* 2 n: a tree of k leaves has less than 2 k cells */
	char *info;          /* of each worker */
	size_t info_size;
	struct local *local; /* of each thread of this rank */
};

static struct info *info_of(const struct barnes *s, unsigned worker)
{
	return (struct info *)(s->info + worker * s->info_size);
}

static void *barnes_create(struct app_job *job)
{
	struct barnes *s = calloc(1, sizeof(*s));
	size_t n = job->opt->size;

	if (!s)
		app_fail("out of memory");
	s->n = n;
	s->seed = job->opt->seed;
	s->workers = job->workers;
	s->threads = job->threads;
	s->info_size = app_round_up(sizeof(struct info), APP_PAGE);
	s->moved = app_region(job, "barnes.moved", n * sizeof(struct point), 0);
	s->point = app_region(job, "barnes.points", n * sizeof(struct point), 0);
	s->moved_motion = app_region(job, "barnes.moved_motion", n * sizeof(struct motion), 0);
	s->motion = app_region(job, "barnes.motion", n * sizeof(struct motion), 0);
	s->entry = app_region(job, "barnes.keys", n * sizeof(struct entry), 0);
	s->cell = app_region(job, "barnes.cells", 2 * n * sizeof(struct cell), 0);
	s->info = app_region(job, "barnes.branches", s->workers * s->info_size, 0);
	s->local = calloc(s->threads, sizeof(*s->local));
	if (!s->local)
		app_fail("out of memory");
	for (unsigned t = 0; t < s->threads; t++)
		s->local[t] = (struct local){
			.lo = app_private(s->workers * sizeof(uint64_t)),
			.count = app_private(s->workers * sizeof(uint64_t)),
			.key = app_private(n * sizeof(uint64_t)),
			.list = app_private(n * sizeof(struct entry)),
			.branch = app_private(s->workers * BRANCHES * sizeof(struct branch)),
			.top = app_private(2 * s->workers * BRANCHES * sizeof(struct top)),
		};
	return s;
}

static void barnes_destroy(void *data)
{
	struct barnes *s = data;

	for (unsigned t = 0; t < s->threads; t++) {
		struct local *l = &s->local[t];

		free(l->lo);
		free(l->count);
		free(l->key);
		free(l->list);
		free(l->branch);
		free(l->top);
	}
	free(s->local);
	free(s);
}

/* ---- the start: a Plummer sphere, in Morton order -------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void place(const struct barnes *s, uint32_t id, struct point *p, struct motion *m)
{
	double r, z[2], angle[2], speed;

	r = 1 / sqrt(pow(0.001 + 0.998 * app_uniform(s->seed, 8 * (uint64_t)id), -2.0 / 3) - 1);
	for (int k = 0; k < 2; k++) {
		z[k] = 2 * app_uniform(s->seed, 8 * (uint64_t)id + 1 + k) - 1;
		angle[k] = 2 * M_PI * app_uniform(s->seed, 8 * (uint64_t)id + 3 + k);
	}
	speed = 0.8 * pow(1 + r * r, -0.25) * app_uniform(s->seed, 8 * (uint64_t)id + 5);
	*p = (struct point){ { r * sqrt(1 - z[0] * z[0]) * cos(angle[0]),
			       r * sqrt(1 - z[0] * z[0]) * sin(angle[0]), r * z[0] },
			     1 / (double)s->n };
	*m = (struct motion){ { speed * sqrt(1 - z[1] * z[1]) * cos(angle[1]),
				speed * sqrt(1 - z[1] * z[1]) * sin(angle[1]), speed * z[1] },
			      id,
			      1 };
}

/* Every worker orders all bodies and keeps its share; this is not timed. */
static void barnes_init(struct app_worker *w, void *data)
{
	struct barnes *s = data;
	struct local *l = &s->local[w->thread];
	size_t lo = app_share(s->n, 1, w->count, w->id),
	       hi = app_share(s->n, 1, w->count, w->id + 1);

	for (unsigned v = 0; v < w->count; v++) {
		l->lo[v] = app_share(s->n, 1, w->count, v);
		l->count[v] = app_share(s->n, 1, w->count, v + 1) - l->lo[v];
	}
	for (size_t i = 0; i < s->n; i++) {
		struct point p;
		struct motion m;

		place(s, (uint32_t)i, &p, &m);
		l->list[i] = (struct entry){ .key = key_of(p.x, 50), .id = (uint32_t)i };
	}
	qsort(l->list, s->n, sizeof(*l->list), compare_entries);
	for (size_t i = lo; i < hi; i++)
		place(s, l->list[i].id, &s->moved[i], &s->moved_motion[i]);
	memset(s->point + lo, 0, (hi - lo) * sizeof(*s->point));
	memset(s->motion + lo, 0, (hi - lo) * sizeof(*s->motion));
	memset(s->entry + lo, 0, (hi - lo) * sizeof(*s->entry));
	memset(s->cell + 2 * lo, 0, 2 * (hi - lo) * sizeof(*s->cell));
}

/* ---- 1 and 2: order and exchange ------------------------------------------------------------- */

static void publish_keys(struct app_worker *w, struct barnes *s, struct local *l)
{
	size_t lo = l->lo[w->id], count = l->count[w->id];
	uint64_t sum = 0;
	double half = 0;

	for (size_t i = lo; i < lo + count; i++)
		for (int d = 0; d < DIMS; d++)
			half = fmax(half, fabs(s->moved[i].x[d]));
	app_reduce(w, &half, DSM_DOUBLE, DSM_MAX);
	l->half = half * 1.0001 + 1e-9;
	for (size_t i = 0; i < count; i++)
		l->list[i] = (struct entry){ key_of(s->moved[lo + i].x, l->half),
					     s->moved_motion[lo + i].cost, (uint32_t)(lo + i),
					     s->moved_motion[lo + i].id };
	qsort(l->list, count, sizeof(*l->list), compare_entries);
	for (size_t i = 0; i < count; i++)
		sum = l->list[i].cost += sum;
	memcpy(s->entry + lo, l->list, count * sizeof(*l->list));
}

/* Entries of worker v with a key below the one given. */
static size_t below(const struct barnes *s, const struct local *l, unsigned v, uint64_t key)
{
	const struct entry *e = s->entry + l->lo[v];
	size_t a = 0, b = l->count[v];

	while (a < b) {
		size_t middle = (a + b) / 2;

		if (e[middle].key < key)
			a = middle + 1;
		else
			b = middle;
	}
	return a;
}

/* The least key that has part / parts of all cost below it. */
static uint64_t split(const struct barnes *s, const struct local *l, unsigned part, unsigned parts)
{
	uint64_t a = 0, b = (uint64_t)1 << 3 * LEVELS, all = 0;

	if (!part || part == parts)
		return part ? b : a;
	for (unsigned v = 0; v < s->workers; v++)
		all += l->count[v] ? s->entry[l->lo[v] + l->count[v] - 1].cost : 0;
	while (a < b) {
		uint64_t middle = (a + b) / 2, sum = 0;

		for (unsigned v = 0; v < s->workers; v++) {
			size_t i = below(s, l, v, middle);

			sum += i ? s->entry[l->lo[v] + i - 1].cost : 0;
		}
		if (sum * parts < all * part)
			a = middle + 1;
		else
			b = middle;
	}
	return a;
}

/* Copy this worker's bodies to their places in order, and publish where they are. */
static void exchange(struct app_worker *w, struct barnes *s, struct local *l)
{
	uint64_t from = split(s, l, w->id, w->count), to = split(s, l, w->id + 1, w->count);
	struct info *info = info_of(s, w->id);
	size_t lo = 0, count = 0;

	for (unsigned v = 0; v < w->count; v++) {
		size_t a = below(s, l, v, from), b = below(s, l, v, to);

		lo += a;
		memcpy(l->list + count, s->entry + l->lo[v] + a, (b - a) * sizeof(*l->list));
		count += b - a;
	}
	qsort(l->list, count, sizeof(*l->list), compare_entries);
	app_own(w, s->point + lo, count * sizeof(*s->point));
	for (size_t i = 0; i < count; i++) {
		l->key[i] = l->list[i].key;
		s->point[lo + i] = s->moved[l->list[i].slot];
		s->motion[lo + i] = s->moved_motion[l->list[i].slot];
	}
	info->lo = lo;
	info->count = count;
	if (count) {
		info->first_key = l->key[0];
		info->last_key = l->key[count - 1];
	}
}

/* ---- 3: subtrees ----------------------------------------------------------------------------- */

struct builder {
	const struct barnes *s;
	const uint64_t *key; /* of this worker's bodies, */
	size_t lo;           /* the first of which is here in the arrays */
	uint32_t next;       /* cell to be used */
	double half;
	uint64_t before, behind; /* keys that other workers have next to this one's: */
	bool any_before, any_behind;
	struct info *info;
};

/* The tree of bodies lo to hi of this worker; there is at least one. */
static uint32_t build(struct builder *b, size_t lo, size_t hi)
{
	uint32_t me = b->next++;
	struct cell *c = &b->s->cell[me];
	unsigned level = common_level(b->key[lo], b->key[hi - 1]);

	cell_begin(c, b->half / theta, b->key[lo], b->key[hi - 1]);
	if (hi - lo <= LEAF || level == LEVELS) {
		cell_leaf(c, b->s->point, b->lo + lo, hi - lo);
	} else {
		for (unsigned d = 0; d < 8; d++) {
			size_t end = d < 7 ? lower_digit(b->key, lo, hi, level, d + 1) : hi;

			if (end > lo) {
				const struct cell *child = &b->s->cell[build(b, lo, end)];

				cell_add(c, child->x, child->mass);
			}
			lo = end;
		}
	}
	cell_end(c, b->next);
	return me;
}

/* Find the largest cells without other workers' bodies in the cell at prefix, which holds bodies lo
 * to hi. */
static void find_branches(struct builder *b, uint64_t prefix, unsigned level, size_t lo, size_t hi)
{
	uint64_t last = prefix + ((uint64_t)1 << 3 * (LEVELS - level)) - 1;

	if (lo == hi)
		return;
	if ((!b->any_before || b->before < prefix) && (!b->any_behind || b->behind > last)) {
		struct branch *br = &b->info->branch[b->info->branches++];

		br->first_key = b->key[lo];
		br->last_key = b->key[hi - 1];
		br->start = (uint32_t)(b->lo + lo);
		br->count = (uint32_t)(hi - lo);
		br->root = build(b, lo, hi);
		br->cells = b->next - br->root;
		return;
	}
	for (unsigned d = 0; d < 8; d++) {
		size_t end = d < 7 ? lower_digit(b->key, lo, hi, level, d + 1) : hi;

		find_branches(b, prefix + ((uint64_t)d << 3 * (LEVELS - 1 - level)), level + 1, lo,
			      end);
		lo = end;
	}
}

static void build_branches(struct app_worker *w, struct barnes *s, struct local *l)
{
	struct builder b = { .s = s, .key = l->key, .half = l->half, .info = info_of(s, w->id) };

	for (unsigned v = 0; v < w->count; v++) {
		const struct info *info = info_of(s, v);

		l->lo[v] = info->lo;
		l->count[v] = info->count;
		if (v < w->id && info->count) {
			b.any_before = true;
			b.before = info->last_key;
		}
		if (v > w->id && info->count && !b.any_behind) {
			b.any_behind = true;
			b.behind = info->first_key;
		}
	}
	b.lo = l->lo[w->id];
	b.next = (uint32_t)(2 * b.lo);
	b.info->branches = 0;
	app_own(w, s->cell + b.next, 2 * l->count[w->id] * sizeof(*s->cell));
	find_branches(&b, 0, 0, 0, l->count[w->id]);
}

/* ---- 4: the whole tree, forces and motion ---------------------------------------------------- */

/* Join branches lo to hi; the rules are those of build(). Returns the cell at the root. */
static const struct cell *join(const struct barnes *s, struct local *l, size_t lo, size_t hi)
{
	struct top *t = &l->top[l->tops++];
	const struct branch *a = &l->branch[lo], *z = &l->branch[hi - 1];
	unsigned level = common_level(a->first_key, z->last_key);
	size_t bodies = z->start + z->count - a->start;

	if (hi - lo == 1) {
		t->branch = a;
		return &s->cell[a->root];
	}
	t->branch = NULL;
	cell_begin(&t->cell, l->half / theta, a->first_key, z->last_key);
	if (bodies <= LEAF) {
		cell_leaf(&t->cell, s->point, a->start, bodies);
	} else {
		while (lo < hi) {
			unsigned d = digit(l->branch[lo].first_key, level);
			size_t end = lo + 1;
			const struct cell *child;

			while (end < hi && digit(l->branch[end].first_key, level) == d)
				end++;
			child = join(s, l, lo, end);
			cell_add(&t->cell, child->x, child->mass);
			lo = end;
		}
	}
	cell_end(&t->cell, (uint32_t)l->tops);
	return &t->cell;
}

static void join_branches(struct app_worker *w, const struct barnes *s, struct local *l)
{
	l->branches = l->tops = 0;
	for (unsigned v = 0; v < w->count; v++) {
		const struct info *info = info_of(s, v);

		memcpy(l->branch + l->branches, info->branch,
		       info->branches * sizeof(info->branch[0]));
		l->branches += info->branches;
	}
	for (size_t i = 0; i < l->branches; i++)
		app_prefetch(w, &s->cell[l->branch[i].root],
			     l->branch[i].cells * sizeof(struct cell));
	for (unsigned v = 0; v < w->count; v++)
		if (v != w->id)
			app_prefetch(w, s->point + l->lo[v], l->count[v] * sizeof(struct point));
	join(s, l, 0, l->branches);
}

static inline void attract(double f[DIMS], const double x[DIMS], const double other[DIMS],
			   double mass)
{
	double dx = other[0] - x[0], dy = other[1] - x[1], dz = other[2] - x[2];
	double r2 = dx * dx + dy * dy + dz * dz + soften * soften,
	       strength = mass / (r2 * sqrt(r2));

	f[0] += strength * dx;
	f[1] += strength * dy;
	f[2] += strength * dz;
}

/* Add the force of a cell on x, where it is far enough or a leaf; otherwise return false: its
 * children come next. */
static inline bool visit(const struct barnes *s, const struct cell *c, const double x[DIMS],
			 double f[DIMS], uint32_t *cost)
{
	double dx = c->x[0] - x[0], dy = c->x[1] - x[1], dz = c->x[2] - x[2];

	if (dx * dx + dy * dy + dz * dz >= c->reach2) {
		attract(f, x, c->x, c->mass);
		*cost += 1;
		return true;
	}
	for (uint32_t i = c->start; i < c->start + c->count; i++)
		attract(f, x, s->point[i].x, s->point[i].mass);
	*cost += c->count;
	return c->count;
}

/* Walk the whole tree for one body; returns the number of interactions. */
static uint32_t walk(const struct barnes *s, const struct local *l, const double x[DIMS],
		     double f[DIMS])
{
	uint32_t cost = 0;

	f[0] = f[1] = f[2] = 0;
	for (size_t t = 0; t < l->tops;) {
		const struct branch *b = l->top[t].branch;

		if (!b) {
			t = visit(s, &l->top[t].cell, x, f, &cost) ? l->top[t].cell.skip : t + 1;
			continue;
		}
		for (uint32_t i = b->root; i < b->root + b->cells;)
			i = visit(s, &s->cell[i], x, f, &cost) ? s->cell[i].skip : i + 1;
		t++;
	}
	return cost;
}

/* Leapfrog: velocities are half a step behind. */
static void barnes_run(struct app_worker *w, void *data)
{
	struct barnes *s = data;
	struct local *l = &s->local[w->thread];

	for (uint64_t k = 0; k < steps; k++) {
		size_t lo, hi;

		publish_keys(w, s, l);
		app_barrier(w);
		exchange(w, s, l);
		app_barrier(w);
		build_branches(w, s, l);
		app_barrier(w);
		join_branches(w, s, l);
		lo = l->lo[w->id];
		hi = lo + l->count[w->id];
		for (size_t i = lo; i < hi; i++) {
			struct point p = s->point[i];
			struct motion m = s->motion[i];
			double f[DIMS];

			m.cost = walk(s, l, p.x, f);
			for (int d = 0; d < DIMS; d++) {
				m.v[d] += dt * f[d];
				p.x[d] += dt * m.v[d];
			}
			s->moved[i] = p;
			s->moved_motion[i] = m;
		}
		app_progress(w, k + 1, steps);
	}
}

/* ---- verification ---------------------------------------------------------------------------- */

static uint64_t barnes_checksum(void *data)
{
	struct barnes *s = data;

	return app_hash(app_hash(0, s->moved, s->n * sizeof(*s->moved)), s->moved_motion,
			s->n * sizeof(*s->moved_motion));
}

/* The change of velocities in the last step against forces by direct summation, for some bodies. A
 * cell's mass at its centre leaves out the quadrupole, which is theta^2 of the cell's force at
 * worst. Much of that cancels in the sum over cells: errors are 1 to 5 % of theta^2, so 10 % of it
 * is a limit that only wrong trees exceed. */
static bool forces_right(const struct barnes *s)
{
	size_t samples = s->n < 100 ? s->n : 100;
	double error2 = 0, force2 = 0, limit = 0.1 * theta * theta + 1e-9;

	for (size_t k = 0; k < samples; k++) {
		size_t i = k * s->n / samples;
		double f[DIMS] = { 0 };

		for (size_t j = 0; j < s->n; j++)
			attract(f, s->point[i].x, s->point[j].x, s->point[j].mass);
		for (int d = 0; d < DIMS; d++) {
			double got = (s->moved_motion[i].v[d] - s->motion[i].v[d]) / dt;

			error2 += (got - f[d]) * (got - f[d]);
			force2 += f[d] * f[d];
		}
	}
	if (!(error2 <= limit * limit * force2))
		fprintf(stderr, "barnes: forces are off by %g of themselves, more than %g\n",
			sqrt(error2 / force2), limit);
	return error2 <= limit * limit * force2;
}

static const struct app app;

/* The tree and the order of all sums follow from the keys: no difference from the sequential run is
 * allowed. */
static bool barnes_verify(const struct app_settings *opt, void *data, void *reference)
{
	struct barnes *s = data, *r = reference;

	(void)opt;
	if (r &&
	    (!app_same(&app, "a body", s->moved, r->moved, s->n * sizeof(*s->moved), 0) ||
	     !app_same(&app, "a motion", s->moved_motion, r->moved_motion,
		       s->n * sizeof(*s->motion), 0)))
		return false;
	return forces_right(s);
}

static void barnes_describe(FILE *out, void *data)
{
	(void)data;
	fprintf(out, " steps=%llu theta=%g", (unsigned long long)steps, theta);
}

/* clang-format off */
static const struct app_option options[] = {
	{ "steps", "K", "time steps", APP_COUNT, &steps, 1, 1e9 },
	{ "theta", "A", "most width over distance of a cell that is not opened", APP_REAL, &theta, 0.01, 1 },
	{ "dt", "T", "time step", APP_REAL, &dt, 1e-6, 1 },
	{ "soften", "L", "softening length", APP_REAL, &soften, 1e-6, 1 },
};
/* clang-format on */

static const struct app app = {
	.name = "barnes",
	.about = "Gravity of N bodies by the method of Barnes and Hut.",
	.options = options,
	.noptions = 4,
	.size = 32768,
	.size_min = 1,
	.size_max = 1u << 24,
	.size_help = "bodies",
	.create = barnes_create,
	.destroy = barnes_destroy,
	.init = barnes_init,
	.run = barnes_run,
	.checksum = barnes_checksum,
	.verify = barnes_verify,
	.describe = barnes_describe,
};

int main(int argc, char **argv)
{
	return app_main(&app, argc, argv);
}

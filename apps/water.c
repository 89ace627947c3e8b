/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * water.c - molecular dynamics of water in a periodic box, with all pairs of molecules looked at.
 *
 * A worker owns a contiguous share of the molecules and computes each of them with the half of all
 * that follows it, so every pair is met once. Positions are all that is read by others: they are
 * packed, apart for each owner, in a piece of the heap of the owner's rank. Velocities and sums are
 * private. A worker adds up its forces on others' molecules privately and hands them over once a
 * step: in buffers of its own that the owners collect, or, with --mutex, by adding to the owners'
 * sums under a mutex each.
 * Forces and energies are added as fixed-point numbers: such sums do not depend on their order, so
 * that the result does not depend on the number of workers, and Newton's third law holds exactly.
 *
 * Units: Angstrom, picosecond, atomic mass; energy in amu A^2/ps^2, 100 of which are 1 kJ/mol.
 */
#include "common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ATOMS = 3, DIMS = 3, COORDS = ATOMS * DIMS }; /* O, H, H */

static uint64_t steps = 50;
static double cutoff_wanted = 9, dt = 0.00025; /* the O-H bond swings in 0.009 ps */
static bool use_mutex;

static const double spacing = 3.1; /* of the starting lattice: the density of water */
static const double mass[ATOMS] = { 15.9994, 1.008, 1.008 };
static const double charge[ATOMS] = { -0.82, 0.41, 0.41 }; /* of the SPC models */
static const double coulomb = 138935.5;
static const double lj_energy = 65.0, lj_size = 3.166;
static const double bond_oh = 1.012, stiff_oh = 443153, bond_hh = 1.633, stiff_hh = 100000;

/* Fixed point: forces to 2^-32 up to 2^31, some thousand times the largest; energies to 2^-20 up to
 * 2^43. */
static const double force_scale = 0x1p32, energy_scale = 0x1p20;

/* What a worker keeps to itself, in private memory. */
struct private
{
	double(*velocity)[COORDS], (*force)[COORDS]; /* of its molecules */
	double(*x)[COORDS];                          /* positions of all that it meets */
	int64_t(*sum)[COORDS];                       /* forces on all that it meets */
};

struct energies {
	int64_t potential, kinetic;
};

struct water {
	size_t n, share; /* molecules; room for one owner's */
	double box, cutoff;
	uint64_t seed;
	unsigned workers, threads;
	double (**position)[COORDS]; /* of each owner */
	/* of each worker, for each owner, share apart; --mutex: of each owner */
	int64_t (**partial)[COORDS];
	dsm_mutex_t *mutex;      /* of each owner */
	struct private *private; /* of each thread of this rank */
	struct energies begin, end;
};

static size_t first(const struct water *s, unsigned worker)
{
	return app_share(s->n, 1, s->workers, worker);
}

/* Does worker compute forces on molecules of owner? It meets its own and the half of all that
 * follow. */
static bool meets(const struct water *s, unsigned worker, unsigned owner)
{
	size_t lo = first(s, worker), mine = first(s, worker + 1) - lo;
	size_t olo = first(s, owner), theirs = first(s, owner + 1) - olo;

	return mine && theirs &&
		((olo + s->n - lo) % s->n < mine + s->n / 2 || (lo + s->n - olo) % s->n < theirs);
}

static void *water_create(struct app_job *job)
{
	struct water *s = calloc(1, sizeof(*s));
	void **pieces = calloc(job->ranks, sizeof(*pieces));
	size_t bytes, blocks = use_mutex ? 1 : job->workers;

	if (!s || !pieces)
		app_fail("out of memory");
	s->n = job->opt->size;
	s->box = ceil(cbrt((double)s->n) - 1e-9) * spacing;
	s->cutoff = fmin(cutoff_wanted, s->box / 2);
	s->seed = job->opt->seed;
	s->workers = job->workers;
	s->threads = job->threads;
	s->share = (s->n + s->workers - 1) / s->workers;
	bytes = app_round_up(s->share * sizeof(double[COORDS]), APP_PAGE);
	/* no other rank uses the rest of the last page */
	s->share = bytes / sizeof(double[COORDS]);
	s->position = calloc(s->workers, sizeof(*s->position));
	s->partial = calloc(s->workers, sizeof(*s->partial));
	s->mutex = calloc(s->workers, sizeof(*s->mutex));
	s->private = calloc(s->threads, sizeof(*s->private));
	if (!s->position || !s->partial || !s->mutex || !s->private)
		app_fail("out of memory");
	app_heap_each(job, "water.positions", bytes * job->threads, pieces);
	for (unsigned w = 0; w < s->workers; w++)
		s->position[w] = (void *)((char *)pieces[w / s->threads] + w % s->threads * bytes);
	app_heap_each(job, "water.forces", bytes * blocks * job->threads, pieces);
	for (unsigned w = 0; w < s->workers; w++)
		s->partial[w] =
			(void *)((char *)pieces[w / s->threads] + w % s->threads * blocks * bytes);
	free(pieces);
	for (unsigned w = 0; w < s->workers && use_mutex && job->shared; w++) {
		if (job->rank == w / s->threads)
			app_must(dsm_mutex_init(&s->mutex[w]), "dsm_mutex_init");
		app_must(dsm_broadcast(&s->mutex[w], sizeof(s->mutex[w]), (int)(w / s->threads)),
			 "dsm_broadcast");
	}
	for (unsigned t = 0; t < s->threads; t++)
		s->private[t] = (struct private){
			.velocity = app_private(s->share * sizeof(double[COORDS])),
			.force = app_private(s->share * sizeof(double[COORDS])),
			.x = app_private(s->n * sizeof(double[COORDS])),
			.sum = app_private(s->n * sizeof(int64_t[COORDS])),
		};
	return s;
}

static void water_destroy(void *data)
{
	struct water *s = data;

	for (unsigned w = 0; w < s->workers; w++)
		if (s->mutex[w].id && dsm_rank() == (int)(w / s->threads))
			app_must(dsm_mutex_destroy(&s->mutex[w]), "dsm_mutex_destroy");
	for (unsigned t = 0; t < s->threads; t++) {
		free(s->private[t].velocity);
		free(s->private[t].force);
		free(s->private[t].x);
		free(s->private[t].sum);
	}
	free(s->private);
	free(s->mutex);
	free(s->partial);
	free(s->position);
	free(s);
}

/* ---- the start: a lattice, turned at random -------------------------------------------------- */

static void random_direction(uint64_t seed, uint64_t index, double d[DIMS])
{
	double z = 2 * app_uniform(seed, index) - 1, a = 2 * M_PI * app_uniform(seed, index + 1),
	       r = sqrt(1 - z * z);

	d[0] = r * cos(a);
	d[1] = r * sin(a);
	d[2] = z;
}

static void place(const struct water *s, size_t i, double x[COORDS], double v[COORDS])
{
	size_t side = (size_t)(s->box / spacing + 0.5),
	       cell[DIMS] = { i % side, i / side % side, i / side / side };
	double axis[DIMS], across[DIMS], dot = 0, length = 0, half = bond_hh / 2;
	double along = sqrt(bond_oh * bond_oh - half * half);

	random_direction(s->seed, 8 * i, axis);
	random_direction(s->seed, 8 * i + 2, across);
	for (int d = 0; d < DIMS; d++)
		dot += axis[d] * across[d];
	for (int d = 0; d < DIMS; d++) {
		across[d] -= dot * axis[d];
		length += across[d] * across[d];
	}
	length = sqrt(length);
	for (int d = 0; d < DIMS; d++) {
		double o = ((double)cell[d] + 0.5) * spacing,
		       speed = 12 * app_uniform(s->seed, 8 * i + 4 + d) - 6;

		x[d] = o;
		x[DIMS + d] = o + along * axis[d] + half * across[d] / length;
		x[2 * DIMS + d] = o + along * axis[d] - half * across[d] / length;
		v[d] = v[DIMS + d] = v[2 * DIMS + d] = speed; /* some 300 K */
	}
}

static void water_init(struct app_worker *w, void *data)
{
	struct water *s = data;
	size_t lo = first(s, w->id), mine = first(s, w->id + 1) - lo;
	size_t blocks = use_mutex ? 1 : s->workers;

	for (size_t i = 0; i < mine; i++)
		place(s, lo + i, s->position[w->id][i], s->private[w->thread].velocity[i]);
	memset(s->partial[w->id], 0, blocks * s->share * sizeof(int64_t[COORDS]));
}

/* ---- forces ---------------------------------------------------------------------------------- */

/* 1 up to 0.9 of the cutoff, then smoothly down to 0 at the cutoff; *slope is its derivative. */
static double taper(double r, double cutoff, double *slope)
{
	double width = 0.1 * cutoff, t = (r - 0.9 * cutoff) / width;

	*slope = 0;
	if (t <= 0)
		return 1;
	*slope = -30 * t * t * (1 - t) * (1 - t) / width;
	return 1 - t * t * t * (10 - t * (15 - 6 * t));
}

/* Forces between two molecules, shifted towards each other by shift; returns the energy. */
static double pair_force(const double a[COORDS], const double b[COORDS], const double shift[DIMS],
			 double fa[COORDS], double fb[COORDS])
{
	double energy = 0;

	for (int p = 0; p < ATOMS; p++)
		for (int q = 0; q < ATOMS; q++) {
			double d[DIMS], r2 = 0, strength, e;

			for (int k = 0; k < DIMS; k++) {
				d[k] = a[p * DIMS + k] - b[q * DIMS + k] - shift[k];
				r2 += d[k] * d[k];
			}
			e = coulomb * charge[p] * charge[q] / sqrt(r2);
			strength = e / r2;
			if (!p && !q) {
				double s2 = lj_size * lj_size / r2, s6 = s2 * s2 * s2;

				e += 4 * lj_energy * s6 * (s6 - 1);
				strength += 24 * lj_energy * s6 * (2 * s6 - 1) / r2;
			}
			energy += e;
			for (int k = 0; k < DIMS; k++) {
				fa[p * DIMS + k] += strength * d[k];
				fb[q * DIMS + k] -= strength * d[k];
			}
		}
	return energy;
}

/* Molecules i and j, if they are near enough. Returns the energy in fixed point. */
static int64_t pair(const struct water *s, struct private *m, size_t i, size_t j)
{
	const double *a = m->x[i], *b = m->x[j];
	double fa[COORDS] = { 0 }, fb[COORDS] = { 0 };
	double d[DIMS], shift[DIMS], r2 = 0, r, factor, slope, energy;

	for (int k = 0; k < DIMS; k++) {
		d[k] = a[k] - b[k];
		shift[k] = d[k] > 0.5 * s->box ? s->box : d[k] < -0.5 * s->box ? -s->box : 0;
		d[k] -= shift[k];
		r2 += d[k] * d[k];
	}
	if (r2 >= s->cutoff * s->cutoff)
		return 0;
	energy = pair_force(a, b, shift, fa, fb);
	r = sqrt(r2);
	factor = taper(r, s->cutoff, &slope);
	for (int c = 0; c < COORDS; c++) {
		double along = c < DIMS ? slope * energy * d[c] / r : 0;

		m->sum[i][c] += (int64_t)((factor * fa[c] - along) * force_scale);
		m->sum[j][c] += (int64_t)((factor * fb[c] + along) * force_scale);
	}
	return (int64_t)(factor * energy * energy_scale);
}

static double spring(const double *a, const double *b, double length, double stiff, double *fa,
		     double *fb)
{
	double d[DIMS], r = 0, pull;

	for (int k = 0; k < DIMS; k++) {
		d[k] = b[k] - a[k];
		r += d[k] * d[k];
	}
	r = sqrt(r);
	pull = stiff * (r - length) / r;
	for (int k = 0; k < DIMS; k++) {
		fa[k] += pull * d[k];
		fb[k] -= pull * d[k];
	}
	return 0.5 * stiff * (r - length) * (r - length);
}

/* Read the positions of the others that this worker meets. */
static void gather(struct app_worker *w, const struct water *s, struct private *m)
{
	for (unsigned k = 0; k < s->workers; k++) {
		unsigned o = (w->id + k) % s->workers;
		size_t lo = first(s, o), count = first(s, o + 1) - lo;

		if (!meets(s, w->id, o))
			continue;
		if (k)
			app_prefetch(w, s->position[o], count * sizeof(m->x[0]));
		memcpy(m->x[lo], s->position[o], count * sizeof(m->x[0]));
		memset(m->sum[lo], 0, count * sizeof(m->sum[0]));
	}
}

static void add(int64_t (*to)[COORDS], int64_t (*from)[COORDS], size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int c = 0; c < COORDS; c++)
			to[i][c] += from[i][c];
}

/* Give the others the forces on their molecules, the right neighbour first. */
static void hand_over(struct app_worker *w, struct water *s, struct private *m)
{
	for (unsigned k = 1; k < s->workers; k++) {
		unsigned o = (w->id + k) % s->workers;
		size_t lo = first(s, o), count = first(s, o + 1) - lo;

		if (!meets(s, w->id, o))
			continue;
		if (use_mutex) {
			app_must(dsm_mutex_lock(&s->mutex[o]), "dsm_mutex_lock");
			add(s->partial[o], m->sum + lo, count);
			app_must(dsm_mutex_unlock(&s->mutex[o]), "dsm_mutex_unlock");
		} else {
			app_own(w, s->partial[w->id] + o * s->share, count * sizeof(m->sum[0]));
			memcpy(s->partial[w->id] + o * s->share, m->sum[lo],
			       count * sizeof(m->sum[0]));
		}
	}
}

static void collect(struct app_worker *w, struct water *s, struct private *m)
{
	size_t lo = first(s, w->id), mine = first(s, w->id + 1) - lo;

	if (use_mutex && s->workers > 1) {
		add(m->sum + lo, s->partial[w->id], mine);
		/* others add again after the next barrier */
		memset(s->partial[w->id], 0, mine * sizeof(m->sum[0]));
		return;
	}
	for (unsigned k = 1; k < s->workers; k++) {
		unsigned v = (w->id + k) % s->workers;

		if (!meets(s, v, w->id))
			continue;
		app_prefetch(w, s->partial[v] + w->id * s->share, mine * sizeof(m->sum[0]));
		add(m->sum + lo, s->partial[v] + w->id * s->share, mine);
	}
}

/* All forces on this worker's molecules, and its part of the potential energy. Between the two
 * barriers forces are handed over; positions are rewritten after the second only, when all have
 * gathered them. */
static int64_t forces(struct app_worker *w, struct water *s, struct private *m)
{
	size_t lo = first(s, w->id), mine = first(s, w->id + 1) - lo, half = (s->n - 1) / 2;
	int64_t energy = 0;

	app_barrier(w);
	gather(w, s, m);
	for (size_t i = lo; i < lo + mine; i++) {
		/* opposite molecules are met once, too */
		size_t last = half + (s->n % 2 == 0 && i < s->n / 2);

		for (size_t k = 1; k <= last; k++)
			energy += pair(s, m, i, i + k < s->n ? i + k : i + k - s->n);
	}
	hand_over(w, s, m);
	app_barrier(w);
	collect(w, s, m);
	for (size_t i = 0; i < mine; i++) {
		double *x = m->x[lo + i], *f = m->force[i];
		double e;

		for (int c = 0; c < COORDS; c++)
			f[c] = (double)m->sum[lo + i][c] / force_scale;
		e = spring(x, x + DIMS, bond_oh, stiff_oh, f, f + DIMS);
		e += spring(x, x + 2 * DIMS, bond_oh, stiff_oh, f, f + 2 * DIMS);
		e += spring(x + DIMS, x + 2 * DIMS, bond_hh, stiff_hh, f + DIMS, f + 2 * DIMS);
		energy += (int64_t)(e * energy_scale);
	}
	return energy;
}

/* ---- motion ---------------------------------------------------------------------------------- */

static void kick(struct private *m, size_t count, double time)
{
	for (size_t i = 0; i < count; i++)
		for (int c = 0; c < COORDS; c++)
			m->velocity[i][c] += time * m->force[i][c] / mass[c / DIMS];
}

/* Move, and bring molecules whose oxygen has left the box back to the other side. */
static void drift(const struct water *s, struct private *m, double (*x)[COORDS], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (int c = 0; c < COORDS; c++)
			x[i][c] += dt * m->velocity[i][c];
		for (int d = 0; d < DIMS; d++) {
			double shift = x[i][d] < 0 ? s->box : x[i][d] >= s->box ? -s->box : 0;

			for (int a = 0; a < ATOMS; a++)
				x[i][a * DIMS + d] += shift;
		}
	}
}

static struct energies total(struct app_worker *w, struct private *m, size_t count,
			     int64_t potential)
{
	struct energies e = { .potential = potential };

	for (size_t i = 0; i < count; i++)
		for (int c = 0; c < COORDS; c++)
			e.kinetic += (int64_t)(0.5 * energy_scale * mass[c / DIMS] *
					       m->velocity[i][c] * m->velocity[i][c]);
	app_reduce(w, &e.potential, DSM_INT64, DSM_SUM);
	app_reduce(w, &e.kinetic, DSM_INT64, DSM_SUM);
	return e;
}

/* Velocity Verlet. */
static void water_run(struct app_worker *w, void *data)
{
	struct water *s = data;
	struct private *m = &s->private[w->thread];
	size_t mine = first(s, w->id + 1) - first(s, w->id);
	struct energies begin, end;
	int64_t potential = forces(w, s, m);

	begin = total(w, m, mine, potential);
	for (uint64_t k = 0; k < steps; k++) {
		kick(m, mine, 0.5 * dt);
		app_own(w, s->position[w->id], mine * sizeof(m->x[0]));
		drift(s, m, s->position[w->id], mine);
		potential = forces(w, s, m);
		kick(m, mine, 0.5 * dt);
		app_progress(w, k + 1, steps);
	}
	end = total(w, m, mine, potential);
	if (!w->thread) {
		s->begin = begin;
		s->end = end;
	}
}

/* ---- verification ---------------------------------------------------------------------------- */

static uint64_t water_checksum(void *data)
{
	struct water *s = data;
	uint64_t h = 0;

	for (unsigned o = 0; o < s->workers; o++)
		h = app_hash(h, s->position[o],
			     (first(s, o + 1) - first(s, o)) * sizeof(double[COORDS]));
	return h;
}

static const struct app app;

/* Fixed-point sums make the run independent of the number of workers: no difference from the
 * sequential run is allowed. Alone, the total energy has to stay: the error of velocity Verlet
 * swings with (2 pi dt / period)^2 / 8, 0.4 % of the energy in the fastest bond at the default
 * step, so 2 % of what moves is a wide limit there. */
static bool water_verify(const struct app_settings *opt, void *data, void *reference)
{
	struct water *s = data, *r = reference;
	double begin = (double)(s->begin.potential + s->begin.kinetic) / energy_scale;
	double end = (double)(s->end.potential + s->end.kinetic) / energy_scale;
	double kinetic = (double)s->end.kinetic / energy_scale,
	       limit = 0.02 * (dt / 0.00025) * (dt / 0.00025);

	(void)opt;
	for (unsigned o = 0; r && o < s->workers; o++) {
		size_t lo = first(s, o), bytes = (first(s, o + 1) - lo) * sizeof(double[COORDS]);

		if (!app_same(&app, "a position", s->position[o], r->position[0] + lo, bytes,
			      lo * sizeof(double[COORDS])))
			return false;
	}
	if (r && memcmp(&s->end, &r->end, sizeof(s->end))) {
		fprintf(stderr, "water: energies differ from the sequential run\n");
		return false;
	}
	if (!(fabs(end - begin) <= limit * kinetic)) {
		fprintf(stderr, "water: the energy went from %g to %g\n", begin, end);
		return false;
	}
	return true;
}

static void water_describe(FILE *out, void *data)
{
	struct water *s = data;
	double begin = (double)(s->begin.potential + s->begin.kinetic);

	fprintf(out, " steps=%llu energy=%.8g drift=%.2e", (unsigned long long)steps,
		begin / energy_scale,
		((double)(s->end.potential + s->end.kinetic) - begin) / (double)s->end.kinetic);
}

/* clang-format off */
static const struct app_option options[] = {
	{ "steps", "K", "time steps", APP_COUNT, &steps, 1, 1e9 },
	{ "cutoff", "A", "Angstrom; at most half the box", APP_REAL, &cutoff_wanted, 1, 1000 },
	{ "dt", "PS", "time step in picoseconds", APP_REAL, &dt, 1e-6, 0.002 },
	{ "mutex", NULL, "add forces under mutexes", APP_FLAG, &use_mutex, 0, 0 },
};
/* clang-format on */

static const struct app app = {
	.name = "water",
	.about = "Molecular dynamics of water, all pairs.",
	.options = options,
	.noptions = 4,
	.size = 2000,
	.size_min = 1,
	.size_max = 1u << 20,
	.size_help = "molecules",
	.create = water_create,
	.destroy = water_destroy,
	.init = water_init,
	.run = water_run,
	.checksum = water_checksum,
	.verify = water_verify,
	.describe = water_describe,
};

int main(int argc, char **argv)
{
	return app_main(&app, argc, argv);
}

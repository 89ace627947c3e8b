// SPDX-License-Identifier: BSD-2-Clause
/*
 * random.c - random operations by threads of all ranks, against a history that can be checked.
 *
 *   words     each thread has pairs of words that it alone writes, a then b, with growing numbers;
 *             whoever reads them must see its own last, never an older one than before, and never b
 *             newer than a
 *   counters  atomic adds, of the processor and of the library; the sums are known at the end
 *   records   under a mutex or a reader-writer lock: all words equal, versions never go back
 *   gates     semaphores: never more threads inside than permits
 *   queues    mutex, two conditions: what goes in comes out once
 *   letters   allocated, filled, put into a shared box, taken out, checked and freed by whoever
 *             comes
 *   regions   opened, written, checked, detached and destroyed all the time
 *   hints     prefetch, acquire, release, pin, unpin, place on random ranges of all of it
 *
 * With --release, words, counters and records are in regions with release consistency. Words of
 * other threads are then read at the barriers only, counters are atomic objects only, and hints are
 * left out.
 *
 * In rounds: barriers of all threads between, and a reduction over the ranks. At the end everything
 * is added up.
 */
#include "common.h"

#include <sched.h>

#define PAIRS 8 /* pairs of words per thread */
#define MAX_THREADS 64
#define MAX_ACTORS 512
#define COUNTERS 8
#define RECORDS 12
#define RECORD_WORDS 24
#define GATES 3
#define QUEUES 2
#define QUEUE_SLOTS 8
#define BOXES 24
#define CHURN 3

struct record {
	dsm_mutex_t mutex;
	dsm_rwlock_t rwlock;
	uint64_t is_rw;
};

struct gate {
	dsm_sem_t sem;
	uint64_t permits, inside;
};

struct queue {
	dsm_mutex_t mutex;
	dsm_cond_t not_empty, not_full;
	uint64_t head, tail, item[QUEUE_SLOTS];
};

struct letter {
	uint64_t size, seed; /* followed by bytes made from seed */
	uint8_t text[];
};

struct box {
	dsm_mutex_t mutex;
	struct letter *letter;
};

/* In one region, set up by rank 0. */
struct world {
	dsm_barrier_t barrier;
	dsm_atomic_t atomics[COUNTERS];
	struct record records[RECORDS];
	struct gate gates[GATES];
	struct queue queues[QUEUES];
	struct box boxes[BOXES];
	dsm_mutex_t churn_lock[CHURN];
};

struct actor {
	struct rng rng;
	unsigned thread, id, actors;
	uint64_t seq[PAIRS];
	uint64_t *seen; /* by pair: least values of b and a */
	uint64_t version[RECORDS];
	uint64_t added[COUNTERS], atomic_added[COUNTERS], pushed, popped, pushes, pops, letters_in,
		letters_out, ops;
};

static uint64_t seconds = 5, threads = 2, blocks = 32, block_size, no_regions, release;
static struct world *world;
static char *words, *cells; /* words of pairs; counters and words of records, scattered */
static size_t words_size, cells_size, letter_max = 40000;
static uint64_t totals[6];

/* ---- places ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
	struct rng r = { test_seed ^ a * 0x9e3779b97f4a7c15u ^ b << 32 };

	rng_next(&r);
	return rng_next(&r);
}

/* The address of a word; its neighbours in a block belong to other actors. */
static uint64_t *word(unsigned actor, unsigned pair, unsigned which, unsigned actors)
{
	size_t all = (size_t)actors * PAIRS * 2,
	       index = ((size_t)pair * 2 + which) * actors + actor;

	return (uint64_t *)(words + words_size / all / 8 * 8 * index);
}

static uint64_t *cell(size_t index)
{
	return (uint64_t *)(cells +
			    cells_size / (COUNTERS + RECORDS * RECORD_WORDS) / 8 * 8 * index);
}

static uint64_t *record_word(unsigned record, unsigned i)
{
	return cell(COUNTERS + (size_t)i * RECORDS + record);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void write_words(struct actor *a)
{
	unsigned p = (unsigned)rng_below(&a->rng, PAIRS),
		 times = 1 + (unsigned)rng_below(&a->rng, 6);

	while (times--) {
		uint64_t v = (uint64_t)a->id << 48 | ++a->seq[p],
			 was = (uint64_t)a->id << 48 | (a->seq[p] - 1);
		uint64_t *x = word(a->id, p, 0, a->actors), *y = word(a->id, p, 1, a->actors);

		if (a->seq[p] > 1)
			REQUIRE(load(x) == was && load(y) == was,
				"own word %p is %#lx or %#lx, not %#lx", (void *)x, load(x),
				load(y), was);
		store(x, v);
		store(y, v);
	}
}

static void check_words(struct actor *a, unsigned who, unsigned p)
{
	uint64_t *y, *x;
	uint64_t *seen = &a->seen[(who * PAIRS + p) * 2];
	uint64_t b, v;

	y = word(who, p, 1, a->actors);
	x = word(who, p, 0, a->actors);
	b = load(y);
	v = load(x);

	REQUIRE((!b || b >> 48 == who) && (!v || v >> 48 == who), "words of %u are %#lx and %#lx",
		who, v, b);
	b &= ~0ull >> 16;
	v &= ~0ull >> 16;
	REQUIRE(b >= seen[0], "word %p went back from %lu to %lu", (void *)y, seen[0], b);
	REQUIRE(v >= seen[1], "word %p went back from %lu to %lu", (void *)x, seen[1], v);
	REQUIRE(v >= b, "words %p and %p: %lu was seen after %lu, which was written later",
		(void *)x, (void *)y, v, b);
	seen[0] = b;
	seen[1] = v;
}

static void read_words(struct actor *a)
{
	unsigned who = (unsigned)rng_below(&a->rng, a->actors),
		 p = (unsigned)rng_below(&a->rng, PAIRS);

	if (!release) /* else the threads are not ordered; see the barrier */
		check_words(a, who, p);
}

/* ---- counters -------------------------------------------------------------------------------- */

static void add_counters(struct actor *a)
{
	unsigned c = (unsigned)rng_below(&a->rng, COUNTERS);
	uint64_t n = rng_below(&a->rng, 100), old, seen;

	switch (release ? 2 + rng_below(&a->rng, 2) : rng_below(&a->rng, 4)) {
	case 0:
		__atomic_fetch_add(cell(c), n, __ATOMIC_SEQ_CST);
		a->added[c] += n;
		break;
	case 1:
		old = load(cell(c));
		while (!__atomic_compare_exchange_n(cell(c), &old, old + n, 0, __ATOMIC_SEQ_CST,
						    __ATOMIC_SEQ_CST))
			;
		a->added[c] += n;
		break;
	case 2:
		MUST(dsm_atomic_fetch_add(&world->atomics[c], n, &old));
		MUST(dsm_atomic_load(&world->atomics[c], &seen));
		REQUIRE(seen >= old + n, "an atomic object went back: %lu after %lu", seen,
			old + n);
		a->atomic_added[c] += n;
		break;
	default:
		MUST(dsm_atomic_load(&world->atomics[c], &old));
		for (;;) {
			int err = dsm_atomic_compare_exchange(&world->atomics[c], &old, old + n);

			if (!err)
				break;
			EXPECT(err, -EAGAIN);
		}
		a->atomic_added[c] += n;
	}
}

/* ---- records --------------------------------------------------------------------------------- */

static void check_record(struct actor *a, unsigned r)
{
	uint64_t v = load(record_word(r, 0));
	unsigned i;

	for (i = 1; i < RECORD_WORDS; i++)
		REQUIRE(load(record_word(r, i)) == v,
			"record %u under its lock: word %u at %p is %lu, word 0 is %lu", r, i,
			(void *)record_word(r, i), load(record_word(r, i)), v);
	REQUIRE(v >= a->version[r], "record %u went back from %lu to %lu", r, a->version[r], v);
	a->version[r] = v;
}

static void change_record(struct actor *a, unsigned r)
{
	unsigned i;

	check_record(a, r);
	for (i = 0; i < RECORD_WORDS; i++)
		store(record_word(r, i), a->version[r] + 1);
	check_record(a, r);
}

static int take_rwlock(struct rng *rng, dsm_rwlock_t *l, bool write)
{
	uint64_t ns;

	switch (rng_below(rng, 4)) {
	case 0: return write ? dsm_rwlock_trywrlock(l) : dsm_rwlock_tryrdlock(l);
	case 1:
		ns = rng_below(rng, 300000);
		return write ? dsm_rwlock_timedwrlock(l, ns) : dsm_rwlock_timedrdlock(l, ns);
	default: return write ? dsm_rwlock_wrlock(l) : dsm_rwlock_rdlock(l);
	}
}

static void use_record(struct actor *a)
{
	unsigned r = (unsigned)rng_below(&a->rng, RECORDS);
	struct record *rec = &world->records[r];
	bool write = rng_below(&a->rng, 2);

	if (rec->is_rw) {
		int err = take_rwlock(&a->rng, &rec->rwlock, write);

		if (err == -EBUSY || err == -ETIMEDOUT)
			return;
		EXPECT(err, 0);
	} else if (rng_below(&a->rng, 3)) {
		MUST(dsm_mutex_lock(&rec->mutex));
		EXPECT(dsm_mutex_lock(&rec->mutex), -EDEADLK);
	} else {
		int err = dsm_mutex_trylock(&rec->mutex);

		if (err == -EBUSY)
			return;
		EXPECT(err, 0);
	}
	if (write)
		change_record(a, r);
	else
		check_record(a, r);
	MUST(rec->is_rw ? dsm_rwlock_unlock(&rec->rwlock) : dsm_mutex_unlock(&rec->mutex));
}

/* ---- gates and queues ------------------------------------------------------------------------ */

static void pass_gate(struct actor *a)
{
	struct gate *g = &world->gates[rng_below(&a->rng, GATES)];
	uint64_t inside;
	int err = 0;

	switch (rng_below(&a->rng, 3)) {
	case 0:
		err = dsm_sem_trywait(&g->sem);
		REQUIRE(!err || err == -EAGAIN, "dsm_sem_trywait: %d", err);
		break;
	case 1:
		err = dsm_sem_timedwait(&g->sem, rng_below(&a->rng, 200000));
		REQUIRE(!err || err == -ETIMEDOUT, "dsm_sem_timedwait: %d", err);
		break;
	default: MUST(dsm_sem_wait(&g->sem));
	}
	if (err)
		return;
	inside = __atomic_add_fetch(&g->inside, 1, __ATOMIC_SEQ_CST);
	REQUIRE(inside <= g->permits, "%lu threads in a gate with %lu permits", inside, g->permits);
	test_delay(rng_below(&a->rng, 200));
	__atomic_fetch_sub(&g->inside, 1, __ATOMIC_SEQ_CST);
	MUST(dsm_sem_post(&g->sem, 1));
}

static void push(struct actor *a, struct queue *q)
{
	uint64_t v = rng_next(&a->rng) >> 8;

	MUST(dsm_mutex_lock(&q->mutex));
	while (q->tail - q->head == QUEUE_SLOTS) {
		int err = dsm_cond_timedwait(&q->not_full, &q->mutex,
					     100000 + rng_below(&a->rng, 1000000));

		REQUIRE(!err || err == -ETIMEDOUT, "dsm_cond_timedwait: %d", err);
		if (err) {
			MUST(dsm_mutex_unlock(&q->mutex));
			return;
		}
	}
	q->item[q->tail++ % QUEUE_SLOTS] = v;
	a->pushed += v;
	a->pushes++;
	MUST(rng_below(&a->rng, 4) ? dsm_cond_signal(&q->not_empty)
				   : dsm_cond_broadcast(&q->not_empty));
	MUST(dsm_mutex_unlock(&q->mutex));
}

static void pop(struct actor *a, struct queue *q)
{
	MUST(dsm_mutex_lock(&q->mutex));
	while (q->tail == q->head) {
		int err = dsm_cond_timedwait(&q->not_empty, &q->mutex,
					     100000 + rng_below(&a->rng, 1000000));

		REQUIRE(!err || err == -ETIMEDOUT, "dsm_cond_timedwait: %d", err);
		if (err) {
			MUST(dsm_mutex_unlock(&q->mutex));
			return;
		}
	}
	a->popped += q->item[q->head++ % QUEUE_SLOTS];
	a->pops++;
	MUST(dsm_cond_signal(&q->not_full));
	MUST(dsm_mutex_unlock(&q->mutex));
}

static void use_queue(struct actor *a)
{
	struct queue *q = &world->queues[rng_below(&a->rng, QUEUES)];

	if (rng_below(&a->rng, 2))
		push(a, q);
	else
		pop(a, q);
}

/* ---- letters --------------------------------------------------------------------------------- */

static struct letter *write_letter(struct actor *a)
{
	static const size_t limits[] = { 24, 200, 5000, 0 };
	size_t most = limits[rng_below(&a->rng, 4)], size, i;
	struct letter *l;

	size = rng_below(&a->rng, (most ? most : letter_max) + 1);
	l = rng_below(&a->rng, 2) ? dsm_malloc(sizeof(*l) + size)
				  : dsm_calloc(1, sizeof(*l) + size);
	REQUIRE(l, "no memory for a letter: %m");
	l->size = size;
	l->seed = rng_next(&a->rng);
	for (i = 0; i < size; i++)
		l->text[i] = (uint8_t)((l->seed >> i % 57) + i);
	return l;
}

static void read_letter(struct letter *l)
{
	size_t i;

	for (i = 0; i < l->size; i++)
		REQUIRE(l->text[i] == (uint8_t)((l->seed >> i % 57) + i),
			"letter %p: byte %zu of %lu is %#x", (void *)l, i, l->size, l->text[i]);
	MUST(dsm_free(l));
}

static void use_box(struct actor *a)
{
	struct box *b = &world->boxes[rng_below(&a->rng, BOXES)];
	struct letter *mine = rng_below(&a->rng, 2) ? write_letter(a) : NULL, *theirs;

	MUST(dsm_mutex_lock(&b->mutex));
	theirs = b->letter;
	b->letter = mine;
	MUST(dsm_mutex_unlock(&b->mutex));
	a->letters_in += mine != NULL;
	a->letters_out += theirs != NULL;
	if (theirs)
		read_letter(theirs);
}

/* ---- regions --------------------------------------------------------------------------------- */

/*
 * One thread per rank. While this rank is attached, the region must stay, and so must this rank's
 * writes.
 */
static void churn(struct actor *a)
{
	unsigned c = (unsigned)rng_below(&a->rng, CHURN), i;
	static const enum dsm_priority priorities[CHURN] = { DSM_PRIORITY_LOW, DSM_PRIORITY_HIGH,
							     DSM_PRIORITY_URGENT };
	struct dsm_region_options opt = { .block_size = 4096u << c,
					  .home = (enum dsm_home)(c % 2),
					  .priority = priorities[c] };
	size_t each = opt.block_size * 3 / 2 / 8, size = each * 8 * (size_t)test_size;
	struct dsm_region_info info;
	uint64_t *mine, first = rng_next(&a->rng) | 1;
	dsm_region_t *r;
	char name[16];
	int err;

	snprintf(name, sizeof(name), "churn %u", c);
	MUST(dsm_region_open(name, size, &opt, &r));
	REQUIRE(dsm_region_size(r) == size, "size");
	mine = (uint64_t *)dsm_region_base(r) + each * (size_t)test_rank;
	for (i = 0; i < each; i += 61)
		store(&mine[i], first + i);
	MUST(dsm_region_query(mine, &info));
	REQUIRE(!strcmp(info.name, name) && info.size == size && info.attached &&
			info.priority == priorities[c],
		"query: %s", info.name);
	for (i = 0; i < (unsigned)rng_below(&a->rng, 20); i++)
		(void)load((uint64_t *)dsm_region_base(r) + rng_below(&a->rng, size / 8));
	if (!rng_below(&a->rng, 3)) {
		err = dsm_region_destroy(name);
		REQUIRE(!err || err == -ENOENT, "dsm_region_destroy: %d", err);
	}
	for (i = 0; i < each; i += 61)
		REQUIRE(load(&mine[i]) == first + i,
			"region %s: word %u of rank %d at %p is %#lx, not %#lx", name, i, test_rank,
			(void *)&mine[i], load(&mine[i]), first + i);
	MUST(dsm_region_detach(r));
}

/* A new region holds its first contents and zeros, whatever was there before. */
static void create(struct actor *a)
{
	size_t size = 4096 * (1 + rng_below(&a->rng, 40)), i;
	static __thread uint64_t contents[64];
	struct dsm_region_options opt = { .block_size = 4096u << rng_below(&a->rng, 3),
					  .contents = contents,
					  .contents_size = sizeof(contents) };
	dsm_region_t *r;
	char name[32];
	uint64_t *p;

	contents[5] = rng_next(&a->rng);
	snprintf(name, sizeof(name), "own %u", a->id);
	MUST(dsm_region_create(name, size, &opt, &r));
	EXPECT(dsm_region_create(name, size, &opt, &r), -EEXIST);
	EXPECT(dsm_region_open(name, size, &opt, &r), -EALREADY);
	p = dsm_region_base(r);
	for (i = 0; i < size / 8; i++)
		REQUIRE(load(&p[i]) == (i < 64 ? contents[i] : 0),
			"new region: word %zu at %p is %#lx", i, (void *)&p[i], load(&p[i]));
	for (i = 0; i < size / 8; i += 100)
		store(&p[i], ~i);
	MUST(dsm_region_destroy(name));
	EXPECT(dsm_region_destroy(name), -ENOENT);
	MUST(dsm_region_detach(r));
}

static void use_region(struct actor *a)
{
	if (a->thread || no_regions)
		return;
	if (rng_below(&a->rng, 2))
		churn(a);
	else
		create(a);
}

/* ---- hints ----------------------------------------------------------------------------------- */

static void hint(struct actor *a)
{
	bool w = rng_below(&a->rng, 2);
	size_t all = w ? words_size : cells_size, at = rng_below(&a->rng, all);
	size_t len = 1 + rng_below(&a->rng, rng_below(&a->rng, 2) ? 64 : all / 4);
	char *p = (w ? words : cells) + at;
	enum dsm_access how = rng_below(&a->rng, 2) ? DSM_READ : DSM_WRITE;
	int err;

	if (release)
		return;
	len = len > all - at ? all - at : len;
	switch (rng_below(&a->rng, 6)) {
	case 0: MUST(dsm_prefetch(p, len, how)); break;
	case 1: MUST(dsm_acquire(p, len, how)); break;
	case 2:
	case 3: MUST(dsm_release(p, len)); break;
	case 4: /* one block only: ranks that pin several at once may wait forever */
		MUST(dsm_pin(p, 1, how));
		test_delay(rng_below(&a->rng, 500));
		MUST(dsm_unpin(p, 1));
		break;
	default:
		err = dsm_place(p, len, (int)rng_below(&a->rng, (uint64_t)test_size));
		REQUIRE(!err || err == -EBUSY, "dsm_place: %d", err);
	}
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static const struct op {
	void (*fn)(struct actor *a);
	unsigned weight;
	/* clang-format off */
} ops[] = {
	{ write_words, 30 }, { read_words, 40 }, { add_counters, 20 }, { use_record, 12 }, { pass_gate, 6 },
	{ use_queue, 6 },    { use_box, 8 },     { use_region, 2 },    { hint, 6 },
};
/* clang-format on */
#define OPS (sizeof(ops) / sizeof(ops[0]))

static uint64_t go_on;

static void act(unsigned thread, void *arg)
{
	struct actor *a = &((struct actor *)arg)[thread];
	uint64_t until = test_ns() + 200000000 + mix(1, a->seq[0]) % 100000000;
	unsigned total = 0, dice, i;

	for (i = 0; i < OPS; i++)
		total += ops[i].weight;
	while (test_ns() < until) {
		dice = (unsigned)rng_below(&a->rng, total);
		for (i = 0; dice >= ops[i].weight; i++)
			dice -= ops[i].weight;
		ops[i].fn(a);
		a->ops++;
	}
	MUST(dsm_barrier_wait(&world->barrier));
	/* No thread writes now: all writes must be visible. */
	for (i = 0; i < PAIRS; i++)
		if (a->seq[i])
			REQUIRE(load(word(a->id, i, 0, a->actors)) ==
					((uint64_t)a->id << 48 | a->seq[i]),
				"own word at the barrier");
	for (i = 0; release && i < a->actors * PAIRS; i++)
		check_words(a, i / PAIRS, i % PAIRS);
	MUST(dsm_barrier_wait(&world->barrier));
}

static void make_world(void)
{
	struct world *w = world;
	unsigned i;

	for (i = 0; i < COUNTERS; i++)
		MUST(dsm_atomic_init(&w->atomics[i], 0, (int)i % test_size));
	for (i = 0; i < RECORDS; i++) {
		w->records[i].is_rw = i % 2;
		MUST(dsm_mutex_init(&w->records[i].mutex));
		MUST(dsm_rwlock_init(&w->records[i].rwlock));
	}
	for (i = 0; i < GATES; i++) {
		w->gates[i].permits = i + 1;
		MUST(dsm_sem_init(&w->gates[i].sem, i + 1));
	}
	for (i = 0; i < QUEUES; i++) {
		MUST(dsm_mutex_init(&w->queues[i].mutex));
		MUST(dsm_cond_init(&w->queues[i].not_empty));
		MUST(dsm_cond_init(&w->queues[i].not_full));
	}
	for (i = 0; i < BOXES; i++)
		MUST(dsm_mutex_init(&w->boxes[i].mutex));
	MUST(dsm_barrier_init(&w->barrier, NULL, 0, (unsigned)threads));
}

static uint64_t sum(uint64_t v)
{
	MUST(dsm_reduce(&v, DSM_UINT64, DSM_SUM));
	return v;
}

/* Compare what all threads have done with the final state. */
static void verify(struct actor *all)
{
	uint64_t v, n, pushed = 0, popped = 0, in = 0, out = 0, left = 0, items = 0;
	unsigned c, t, i;

	for (c = 0; c < COUNTERS; c++) {
		uint64_t added = 0, atomic_added = 0;

		for (t = 0; t < threads; t++) {
			added += all[t].added[c];
			atomic_added += all[t].atomic_added[c];
		}
		MUST(dsm_atomic_load(&world->atomics[c], &v));
		added = sum(added);
		atomic_added = sum(atomic_added);
		REQUIRE(load(cell(c)) == added, "counter %u is %lu, not %lu", c, load(cell(c)),
			added);
		REQUIRE(v == atomic_added, "atomic object %u is %lu, not %lu", c, v, atomic_added);
	}
	for (t = 0; t < threads; t++) {
		for (i = 0; i < RECORDS; i++)
			check_record(&all[t], i);
		pushed += all[t].pushed;
		popped += all[t].popped;
		in += all[t].letters_in;
		out += all[t].letters_out;
		totals[0] += all[t].ops;
	}
	for (i = 0; i < QUEUES; i++)
		for (n = world->queues[i].head; n != world->queues[i].tail; n++)
			items += world->queues[i].item[n % QUEUE_SLOTS];
	pushed = sum(pushed);
	popped = sum(popped);
	REQUIRE(pushed == popped + items, "queues: %lu went in, %lu came out, %lu are left", pushed,
		popped, items);
	for (i = 0; i < BOXES; i++)
		left += world->boxes[i].letter != NULL;
	in = sum(in);
	out = sum(out);
	REQUIRE(in == out + left, "letters: %lu in, %lu out, %lu left", in, out, left);
	MUST(dsm_barrier());
	for (i = 0; i < BOXES; i++)
		if (world->boxes[i].letter && i % (unsigned)test_size == (unsigned)test_rank)
			read_letter(world->boxes[i].letter);
	totals[0] = sum(totals[0]);
	totals[1] = in;
}

static char *data_region(const char *name, size_t size, enum dsm_home home, int home_rank)
{
	const struct dsm_region_options opt = { .block_size = block_size,
						.home = home,
						.home_rank = home_rank,
						.consistency = release
							? DSM_CONSISTENCY_RELEASE
							: DSM_CONSISTENCY_SEQUENTIAL };
	dsm_region_t *r;

	MUST(dsm_region_open(name, size, &opt, &r));
	return dsm_region_base(r);
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "seconds", "N", "how long to run", &seconds },
		{ "threads", "N", "of each rank", &threads },
		{ "blocks", "N", "shared blocks for words, and as many for counters and records",
		  &blocks },
		{ "block-size", "BYTES", "of them; 0: by chance", &block_size },
		{ "no-regions", NULL, "without making and unmaking regions", &no_regions },
		{ "release", NULL, "with release consistency", &release },
	};
	struct actor *all;
	uint64_t start;
	unsigned t;

	test_start(argc, argv, "Random operations on all of the interface, checked.", options, 6);
	REQUIRE(threads && threads <= MAX_THREADS && threads * (unsigned)test_size <= MAX_ACTORS,
		"too many threads, or none");
	REQUIRE(blocks, "no blocks");
	if (!block_size)
		block_size = release ? 4096u : 4096u << mix(2, 0) % 4;
	words_size = cells_size = blocks * block_size;
	REQUIRE(words_size / (threads * (unsigned)test_size * PAIRS * 2) >= 8,
		"too few blocks for so many threads");
	test_say("random: --threads %lu --blocks %lu --block-size %lu", threads, blocks,
		 block_size);
	world = test_region("world", sizeof(*world), 4096, DSM_HOME_FIRST_TOUCH, 0);
	words = data_region("words", words_size, (enum dsm_home)(mix(3, 0) % 3),
			    (int)(mix(4, 0) % (unsigned)test_size));
	cells = data_region("cells", cells_size, (enum dsm_home)(mix(5, 0) % 3), 0);
	if (!test_rank)
		make_world();
	MUST(dsm_barrier());
	all = calloc(threads, sizeof(*all));
	REQUIRE(all, "memory");
	for (t = 0; t < threads; t++) {
		all[t].id = t * (unsigned)test_size + (unsigned)test_rank;
		all[t].thread = t;
		all[t].actors = (unsigned)(threads * (unsigned)test_size);
		all[t].rng = rng_of(all[t].id + 1);
		all[t].seen = calloc(all[t].actors * PAIRS * 2, sizeof(uint64_t));
		REQUIRE(all[t].seen, "memory");
	}
	start = test_ns();
	do {
		test_threads((unsigned)threads, act, all);
		go_on = test_ns() - start < seconds * 1000000000u;
		MUST(dsm_broadcast(&go_on, sizeof(go_on), 0));
	} while (go_on);
	verify(all);
	for (t = 0; t < threads; t++)
		free(all[t].seen);
	free(all);
	test_say("random: %lu operations, %lu letters", totals[0], totals[1]);
	return test_end();
}

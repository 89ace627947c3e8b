// SPDX-License-Identifier: BSD-2-Clause
/*
 * release.c - see release.h.
 *
 * The thread that carries ACT_GATHER out queues WORK_GATHER for itself (work.h). There it collects
 * the diffs of all open blocks, by home, and their notices. A thread that serves a FLUSH collects
 * the notices that it causes. A FLUSH comes in pieces, in any order and maybe to several threads at
 * once; the last one to be merged continues with the notices. A node has at most one close, and
 * serves at most one of each other node, so what is collected for a service is kept by node.
 *
 * Buffers are from the transports' heap (net/own.h).
 */
#include "miss/release.h"

#include <string.h>

#include "job/lost.h"
#include "job/upcalls.h"
#include "miss/block.h"
#include "miss/changes.h"
#include "miss/entries.h"
#include "miss/noting.h"
#include "miss/raises.h"
#include "miss/run.h"
#include "miss/step.h"
#include "miss/twin.h"
#include "miss/work.h"
#include "net/own.h"
#include "util/futex.h"
#include "util/log.h"

/* The last message of a close to a node, until all that may go with it is known. */
struct parcel {
	struct msg m;
	uint8_t *at; /* with room for one more message */
	size_t size;
};

struct gather {
	struct notes notes;
	struct parcel *parcels;
	size_t nparcels, room;
	struct outbox homes[];
};

/* What this process knows of the FLUSH of a node. */
struct service {
	uint32_t lock; /* a leaf */
	uint64_t close;
	struct pieces pieces;
	struct notes notes;
};

static struct service *services; /* by node; atomic */

static struct msg message_to(uint16_t dst)
{
	return (struct msg){ .version = WIRE_VERSION, .src = job.node, .dst = dst };
}

/* ---- blocks ---------------------------------------------------------------------------------- */

#define LENDS_AFTER 2u /* rewrites after which a home lends a block (core/release.h) */
_Static_assert(LENDS_AFTER + REL_LENDS < 16, "rel.rewrites has four bits");

/* A home may not know the region yet: only its first message tells it then. */
static bool says_release(const struct msg *m)
{
	return ((m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ) && m->flags & MSGF_RELEASE) ||
		m->type == MSG_FLUSH;
}

/* The region may turn out to be sequential: release_enter() of release_end.h is the partner. Either
 * it finds the mark, or this thread finds the region afterwards. */
static void mark_early(uint32_t object, uint16_t node)
{
	release_begin();
	__atomic_exchange_n(&job.mem.rels[block_page(object)].early, (uint16_t)(node + 1),
			    __ATOMIC_SEQ_CST);
}

int release_find_block(struct core_host *h, uint32_t object, const struct msg *m,
		       struct core_place *p)
{
	const size_t off = block_off(object);
	const struct region_homes *known = region_known(off);
	bool is;

	if (!known && says_release(m) && block_bytes(object) == PAGE_BYTES) {
		mark_early(object, m->src);
		known = region_known(off);
	}
	is = known ? release_is(off) : says_release(m);
	if (!is)
		return says_release(m) ? -EBADMSG : 0;
	if (block_bytes(object) != PAGE_BYTES)
		return -EBADMSG;
	release_begin();
	if (!h->ops->rel)
		h->ops = run_host().ops;
	p->key = block_page(object);
	p->rel = (struct rel_ctx){
		.me = job.node,
		.nnodes = job.nodes,
		.home = known ? region_home_of(known, off) : job.node,
		.follow = known,
		/* who is told leaves this home its twin */
		.tells = !__atomic_load_n(&job.me->pressed, __ATOMIC_RELAXED),
		.full = __atomic_load_n(&job.me->reclaim.over, __ATOMIC_RELAXED),
		.raises = work_mine()->raises,
		.lends = LENDS_AFTER + 1,
		.lists = &job.me->rel_lists,
		.blocks = job.mem.rels,
		.index = block_page(object),
	};
	p->d.rel = &job.mem.rels[block_page(object)];
	p->d.rel_ctx = &p->rel;
	p->d.closing = &job.me->closing;
	p->d.closes = &job.mem.closes;
	return 1;
}

void release_find_closing(struct core_place *p)
{
	p->d.closing = &job.me->closing;
	p->d.closes = &job.mem.closes;
	p->rel.lists = &job.me->rel_lists;
}

static uint32_t object_of(struct core_host *h, uint32_t index)
{
	(void)h;
	return block_id((size_t)index << PAGE_SHIFT, PAGE_BYTES);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Step n neighbours by fn: alone, or as a run whose blocks `lowers` are lowered before. */
static void step_run(const uint32_t *v, unsigned int n, bool (*lowers)(uint32_t),
		     void (*fn)(struct core_host *, uint32_t, void *), void *arg)
{
	struct core_host h = n > 1 ? run_host_of_run() : run_host();
	uint64_t set = 0;
	unsigned int i;

	if (n > 1) {
		twin_run_begin(entry_off(v[0]), n);
		for (i = 0; i < n; i++)
			set |= (uint64_t)lowers(v[i]) << i;
		twin_run_lower(set);
	}
	for (i = 0; i < n; i++)
		fn(&h, v[i], arg);
	if (n > 1)
		twin_run_end();
}

/* Of a close that gathers: pieces of its NOTEs that are full, and not the last ones. */
static void send_full(void)
{
	struct gather *g = work_mine()->gather;
	struct msg m = message_to(0);
	uint8_t *out;
	size_t size;

	if (!g || !notes_full(&g->notes))
		return;
	m.type = MSG_NOTE;
	m.req_node = job.node;
	m.value = job.me->closing.run;
	for (; m.dst < job.nodes; m.dst++) {
		out = notes_payload(&g->notes, m.dst, job.nodes, false, &size);
		if (!out)
			continue;
		run_send_with(&m, out, size);
		own_free(out);
	}
	notes_next(&g->notes);
}

/* Step all blocks of a list that this thread has taken. */
static void step_list(uint32_t entry, uint32_t (*next)(const struct rel *),
		      bool (*lowers)(uint32_t), void (*fn)(struct core_host *, uint32_t, void *),
		      void *arg)
{
	struct entries s;
	unsigned int at, n;

	while (entry) {
		entry = entries_sort(&s, entry, next);
		for (at = 0; at < s.n; at += n) {
			n = entries_neighbours(&s.v[at], s.n - at);
			step_run(&s.v[at], n, lowers, fn, arg);
			send_full();
		}
	}
}

static bool never(uint32_t entry)
{
	(void)entry;
	return false;
}

/*
 * Does the first fetch of the block lower it? It is exclusive, and would not be lent. With the
 * stripe of the block held; without, a hint.
 */
static bool fetch_lowers(uint32_t entry)
{
	static const struct rel_ctx ctx = { .lends = LENDS_AFTER + 1 };
	const struct rel *p = &job.mem.rels[entry - 1];
	const size_t off = entry_off(entry);
	const struct region_homes *known = region_known(off);

	return known && known->consistency == DSM_CONSISTENCY_RELEASE &&
		release_is_home(known, off) &&
		__atomic_load_n(&p->state, __ATOMIC_RELAXED) == RELH_EXCLUSIVE &&
		!rel_lends(&ctx, p);
}

static void nothing(struct core_host *h, uint32_t entry, void *arg)
{
	(void)h, (void)entry, (void)arg;
}

void release_share_soon(struct bundle b)
{
	uint32_t v[SPAN_MOST];
	const void *contents;
	unsigned int n = 0;
	struct msg m;
	size_t size;
	int more = 1;

	while (more > 0) {
		more = bundle_next(&b, &m, &contents, &size);
		if (n &&
		    (more <= 0 || n == SPAN_MOST || block_page(m.object) != v[0] - 1 + n ||
		     block_off(m.object) % UNIT_BYTES == 0)) {
			if (n > 1)
				step_run(v, n, fetch_lowers, nothing, NULL);
			n = 0;
		}
		if (more > 0 && block_bytes(m.object) == PAGE_BYTES && !(m.flags & MSGF_HAS) &&
		    fetch_lowers(block_page(m.object) + 1))
			v[n++] = block_page(m.object) + 1;
	}
}

/* With its stripe held: would a store of this node make a twin now, without a message? */
static bool may_open(size_t off, bool raises)
{
	const struct region_homes *known = region_known(off);
	const struct rel *p = &job.mem.rels[off >> PAGE_SHIFT];

	return p->state == (release_is_home(known, off) ? (int)RELH_CLEAN : (int)REL_CLEAN) &&
		!__atomic_load_n(&p->noticed, __ATOMIC_RELAXED) && /* it is about to be dropped */
		!(raises && raises_asks(known, off));
}

unsigned int release_open_ahead(size_t off, size_t end, unsigned int most)
{
	const uint64_t twins = __atomic_load_n(&job.me->twins, __ATOMIC_RELAXED);
	struct msg about = { .src = job.node, .dst = job.node, .req_node = job.node };
	struct core_host h = run_host_of_run();
	const bool raises = work_mine()->raises;
	unsigned int n = 0, i;

	if (__atomic_load_n(&job.me->reclaim.over, __ATOMIC_RELAXED))
		return 0; /* twins are memory */
	for (off += PAGE_BYTES; n < RELEASE_AHEAD && twins + n < job.set.twins; n++) {
		const size_t at = off + n * PAGE_BYTES;

		if (at >= end || at % UNIT_BYTES == 0 || (n >= most && !twin_was_written(at)) ||
		    __atomic_load_n(&block_copy(at)->state, __ATOMIC_RELAXED) != PG_READ)
			break;
	}
	if (!n)
		return 0;
	twin_run_begin(off, n);
	work_mine()->raises = false; /* it has no slot */
	for (i = 0; i < n && may_open(off, raises); i++, off += PAGE_BYTES) {
		about.object = block_id(off, PAGE_BYTES);
		core_page_event(&h, PE_WRITE, &about, NULL);
	}
	twin_run_end();
	return i;
}

/* With its stripe held: would a touch of this node make its first contents, without a message? */
static bool may_touch(size_t off)
{
	return block_copy(off)->state == PG_INVALID && release_is_home(region_known(off), off) &&
		job.mem.rels[off >> PAGE_SHIFT].state == RELH_EXCLUSIVE;
}

static bool is_fresh(size_t at)
{
	return __atomic_load_n(&block_copy(at)->state, __ATOMIC_RELAXED) == PG_INVALID;
}

/* Without its stripe: does it seem so? */
static bool seems_fresh(size_t at)
{
	return is_fresh(at) && release_is_home(region_known(at), at);
}

unsigned int release_touched_around(size_t off)
{
	const size_t chunk = FOOTPRINT_PAGES * PAGE_BYTES, from = off / chunk * chunk;
	unsigned int n = 0;
	size_t at;

	for (at = from; at < from + chunk; at += PAGE_BYTES)
		n += at != off && !is_fresh(at);
	return n;
}

static unsigned int touch_run(size_t off, unsigned int n)
{
	struct msg about = { .src = job.node, .dst = job.node, .req_node = job.node };
	struct core_host h = run_host_of_run();
	unsigned int i;

	if (!n)
		return 0;
	twin_run_begin(off, n);
	for (i = 0; i < n && may_touch(off); i++, off += PAGE_BYTES) {
		about.object = block_id(off, PAGE_BYTES);
		core_page_event(&h, PE_WRITE, &about, NULL);
	}
	twin_run_end();
	return i;
}

unsigned int release_touch_ahead(size_t off, size_t end, unsigned int most)
{
	unsigned int n = 0;

	for (; n < most && n < RELEASE_AHEAD; n++) {
		const size_t at = off + n * PAGE_BYTES;

		if (at >= end || at % UNIT_BYTES == 0 || !seems_fresh(at))
			break;
	}
	return touch_run(off, n);
}

unsigned int release_touch_before(size_t off, size_t start, unsigned int most)
{
	unsigned int n = 0;

	for (; n < most && n < RELEASE_AHEAD; n++, off -= PAGE_BYTES)
		if (off == start || off % UNIT_BYTES == 0 || !seems_fresh(off - PAGE_BYTES))
			break;
	return touch_run(off, n);
}

/* ---- notices --------------------------------------------------------------------------------- */

static void add_notice(struct core_host *h, uint32_t object, const struct action *a,
		       uint16_t writer)
{
	const uint16_t n = h->nnodes, g = set_granule(n);
	struct service *s = writer == h->me ? NULL : &services[writer];
	const struct work *w = work_mine();
	struct notes *to = s ? &s->notes : &w->gather->notes;
	struct note one = { .object = object };
	uint16_t node;

	if (s)
		word_lock(&s->lock);
	if (a->type == ACT_TELL)
		notes_add_diff(to, &one, w->diff, w->diff_size);
	for (node = set_next(a->mask, 0, n, g, a->except, h->me); node < n;
	     node = set_next(a->mask, (uint16_t)(node + 1), n, g, a->except, h->me)) {
		one.node = node;
		notes_add(to, &one);
	}
	if (s)
		word_unlock(&s->lock);
}

/* Send a node its notices, if it has any, by this event. */
static void notes_send(struct core_host *h, struct notes *all, uint16_t node, enum closing_event ev,
		       uint16_t writer)
{
	struct msg m = message_to(node);
	struct work *w = work_mine();
	size_t size;
	uint8_t *out = notes_payload(all, node, h->nnodes, true, &size);

	if (!out)
		return;
	m.src = writer;
	w->payload = out;
	w->payload_size = size;
	if (core_closing_event(h, ev, &m))
		lost_abort(70, "the state of the closes is damaged");
	if (ev != CE_TOLD)
		own_free(out);
}

static void notes_send_all(struct core_host *h, struct notes *all, enum closing_event ev,
			   uint16_t writer)
{
	uint16_t node;

	for (node = 0; (all->n || all->pieces) && node < h->nnodes; node++)
		notes_send(h, all, node, ev, writer);
}

/* ---- a close --------------------------------------------------------------------------------- */

static void gather_soon(struct core_host *h)
{
	(void)h;
	work_push(WORK_GATHER, &(struct msg){ .dst = job.node });
}

/* A piece that is not the last one. */
static void outbox_send(struct outbox *o, uint16_t home)
{
	struct msg m = message_to(home);

	m.type = MSG_FLUSH;
	m.req_node = job.node;
	m.value = job.me->closing.run;
	outbox_seal(o, false);
	run_send_with(&m, o->at, o->size);
	outbox_next(o);
}

/*
 * At the home. *kept: the diff stays in the notes, if notes_add_diff() follows. Many blocks that
 * were written as a whole are not told: nodes that read them fetch runs of them for less.
 */
static bool has_written(struct notes *to, uint32_t object, bool *kept)
{
	size_t size;

	*kept = *kept && notes_tell(to, NOTES_CLOSE);
	size = twin_compare(object, *kept ? notes_diff(to) : NULL);
	if (*kept && size > DIFF_MAX / 4 * 3 && !rel_told_writes(&job.mem.rels[block_page(object)]))
		*kept = notes_tell_whole(to, size);
	work_mine()->diff_size = size;
	return size;
}

static bool differs(struct core_host *h, uint32_t object, uint16_t home, bool asks, bool *kept)
{
	struct gather *g = work_mine()->gather;
	struct outbox *o = &g->homes[home];
	size_t size;

	if (home == h->me)
		return has_written(&g->notes, object, kept);
	if (outbox_full(o))
		outbox_send(o, home);
	size = twin_compare(object, outbox_diff(o));
	if (!size)
		return false;
	outbox_add(o, object, size, asks);
	count(&job.mine->stats.flushed_bytes, size);
	return true;
}

void release_send(const struct msg *m)
{
	const struct work *w = work_mine();
	struct gather *g = w->gather;

	if (!g || m->req_node != job.node) {
		run_send_with(m, w->payload, w->payload_size);
		return;
	}
	if (g->nparcels == g->room) {
		g->room = g->room ? 2 * g->room : 4;
		g->parcels = changes_own(own_realloc(g->parcels, g->room * sizeof(g->parcels[0])));
	}
	g->parcels[g->nparcels++] =
		(struct parcel){ .m = *m, .at = w->payload, .size = w->payload_size };
}

static void parcels_send(struct gather *g)
{
	size_t i;

	for (i = 0; i < g->nparcels; i++) {
		run_send_with(&g->parcels[i].m, g->parcels[i].at, g->parcels[i].size);
		own_free(g->parcels[i].at);
	}
	own_free(g->parcels);
}

/* The last piece. */
static void outbox_end(struct core_host *h, struct outbox *o, uint16_t home)
{
	const struct msg m = message_to(home);
	struct work *w = work_mine();

	if (outbox_is_empty(o)) {
		own_free(o->at);
		return;
	}
	outbox_seal(o, true);
	w->payload = o->at;
	w->payload_size = o->size;
	if (core_closing_event(h, CE_SENT, &m))
		lost_abort(70, "the state of the closes is damaged");
}

/* Memory for twins is short: lower this block, and end its twin if the next close finds no
 * difference. */
static void hurry(struct core_host *h, uint32_t index)
{
	h->ops->lock(h, index);
	rel_hurry(&job.mem.rels[index]);
	h->ops->unlock(h, index);
}

/* With its stripe held: will this close lower it? */
static bool close_lowers(uint32_t entry)
{
	const uint32_t object = object_of(NULL, entry - 1);
	const struct msg none = { .object = object, .src = job.node, .dst = job.node };
	struct core_place p CORE_UNINITIALIZED;
	struct core_host h = run_host();

	if (release_find_block(&h, object, &none, &p) != 1 || !rel_open(&p.rel, p.d.rel))
		return false;
	if (rel_seems_idle(&p.rel, p.d.rel))
		return !twin_differs(object);
	return rel_lower(&p.rel, p.d.rel) != PROT_RW;
}

/* Without its stripe: is the block lent? */
static bool is_lent(uint32_t entry)
{
	const size_t off = entry_off(entry);
	const struct region_homes *known;

	if (__atomic_load_n(&job.mem.rels[entry - 1].state, __ATOMIC_RELAXED) != RELH_LENT)
		return false;
	known = region_known(off);
	return known && release_is_home(known, off);
}

static void gather_one(struct core_host *h, uint32_t entry, void *pressed)
{
	count(&job.mine->stats.lent, is_lent(entry));
	core_gather_next(h, entry);
	if (*(const bool *)pressed)
		hurry(h, entry - 1);
}

void release_gather(void)
{
	struct core_host h = run_host();
	struct work *w = work_mine();
	struct gather *g = changes_own(own_zalloc(sizeof(*g) + h.nnodes * sizeof(g->homes[0])));
	bool pressed = __atomic_load_n(&job.me->pressed, __ATOMIC_RELAXED);
	const struct msg none = message_to(job.node);
	uint16_t node;

	w->gather = g;
	w->diff = NULL;
	step_list(core_gather_first(&h), entry_next_open, close_lowers, gather_one, &pressed);
	for (node = 0; node < h.nnodes; node++)
		if (g->homes[node].at)
			outbox_end(&h, &g->homes[node], node);
	notes_send_all(&h, &g->notes, CE_TOLD, h.me);
	notes_free(&g->notes);
	count(&job.mine->stats.closes, 1);
	raises_closed();
	if (core_closing_event(&h, CE_GATHERED, &none))
		lost_abort(70, "the state of the closes is damaged");
	w->gather = NULL;
	parcels_send(g);
	own_free(g);
}

/* ---- messages of other nodes ----------------------------------------------------------------- */

static struct service *service_of(uint16_t node)
{
	struct service *s = __atomic_load_n(&services, __ATOMIC_ACQUIRE), *none = NULL;

	if (!s) {
		s = changes_own(own_zalloc(job.nodes * sizeof(*s)));
		if (!__atomic_compare_exchange_n(&services, &none, s, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE)) {
			own_free(s);
			s = none;
		}
	}
	return &s[node];
}

/* The first piece begins the service. Pieces count from here on: other threads may be about to
 * merge some of them. */
static int flush_begin(struct core_host *h, const struct msg *m, struct service *s, uint32_t all)
{
	int err = 0;

	word_lock(&s->lock);
	if (s->close != m->value) {
		err = core_closing_event(h, CE_FLUSH, m);
		if (!err) {
			s->close = m->value;
			s->pieces = (struct pieces){ 0 };
		}
	}
	if (!err && !pieces_begin(&s->pieces, all))
		err = -EBADMSG;
	word_unlock(&s->lock);
	return err;
}

/* True: all pieces are merged, and the notices are the caller's. */
static bool flush_end(struct service *s, struct notes *notes)
{
	bool done;

	word_lock(&s->lock);
	done = pieces_end(&s->pieces);
	if (done) {
		*notes = s->notes;
		s->notes = (struct notes){ 0 };
	}
	word_unlock(&s->lock);
	return done;
}

static int merge_one(struct core_host *h, const struct msg *m, const struct service *s,
		     const uint8_t *diff, const struct change *c)
{
	const struct core_change change = { .object = c->object,
					    .asks = c->asks,
					    .kept = notes_tell(&s->notes, NOTES_SERVICE),
					    .diff = diff,
					    .size = c->size };
	const size_t off = block_off(c->object);
	const struct region_homes *known = region_known(off);
	struct work *w = work_mine();

	w->diff = diff;
	w->diff_size = c->size;
	if (known && m->src == region_home_of(known, off))
		raises_shared();
	return core_flush_block(h, m->src, &change);
}

static int flush_arrived(const struct msg *m, const uint8_t *at, size_t size)
{
	struct core_host h = run_host();
	struct service *s = service_of(m->src);
	struct notes notes;
	struct piece head;
	struct change c;
	int err;

	if (!piece_take(&at, &size, &head) || !changes_check(at, size, false))
		return -EBADMSG;
	err = flush_begin(&h, m, s, head.all);
	while (!err && change_next(&at, &size, &c, false))
		err = merge_one(&h, m, s, at - c.size, &c);
	if (err)
		return err;
	if (!flush_end(s, &notes))
		return 0;
	notes_send_all(&h, &notes, CE_SPREAD, m->src);
	notes_free(&notes);
	return core_closing_event(&h, CE_MERGED, m);
}

static int note_arrived(const struct msg *m, const uint8_t *at, size_t size)
{
	struct core_host h = run_host();
	uint64_t notices = 0, told = 0;
	struct piece head;
	struct change c;
	int err;

	if (!piece_take(&at, &size, &head) || (!size && head.all < 2) ||
	    !changes_check(at, size, true))
		return -EBADMSG;
	err = m->req_node < job.nodes ? noting_begin(m, head.all) : -EBADMSG;
	while (!err && change_next(&at, &size, &c, true)) {
		err = c.size ? core_tell_block(&h, c.object, m->src, at - c.size, c.size)
			     : core_note_block(&h, c.object, m->src);
		notices += !c.size;
		told += !!c.size;
	}
	if (err)
		return err;
	count(&job.mine->stats.notices, notices);
	count(&job.mine->stats.told, told);
	return noting_end(m, head.all) ? core_closing_event(&h, CE_NOTE, m) : 0;
}

void release_acknowledge(const struct msg *m)
{
	struct core_host h = run_host();
	struct given given = { 0 };
	uint32_t entry;

	for (entry = core_given_first(&h, m->dst); entry; entry = core_given_next(&h, entry))
		given_add(&given, object_of(&h, entry - 1));
	run_send_with(m, given.objects, given.n * sizeof(given.objects[0]));
	own_free(given.objects);
}

int release_given(const struct msg *m, const void *payload, size_t size)
{
	struct core_host h = run_host();
	const uint8_t *at = payload;
	uint32_t object;
	int err = 0;

	while (!err && given_next(&at, &size, &object)) {
		err = core_give_block(&h, object, m->src);
		if (!err)
			count(&run_stats_of(object)->homes_in, 1);
	}
	return size ? -EBADMSG : err;
}

/* Messages with a payload are never inside another. */
static int after_arrived(const struct msg *m, const void *payload, size_t size)
{
	struct core_host h = run_host();
	struct msg inside;
	uint32_t number;

	if (size != sizeof(inside))
		return -EBADMSG;
	memcpy(&inside, payload, sizeof(inside));
	if (wire_check(&inside, &job.limits) || dispatch_target(&inside, &number) == TARGET_HOST)
		return -EBADMSG;
	return core_after(&h, m, &inside) ? -EBADMSG : 0;
}

bool release_has_inside(const struct msg *m)
{
	return m->type == MSG_AFTER || ((m->type == MSG_FLUSH || m->type == MSG_NOTE) && m->op);
}

int release_arrived(const struct msg *m, const void *payload, size_t size)
{
	const size_t tail = m->type != MSG_AFTER && release_has_inside(m) ? sizeof(*m) : 0;
	int err = -EBADMSG;

	/* A close is that of the sender only if it is its own. */
	if (tail > size || (tail && m->req_node != m->src))
		return -EBADMSG;
	release_begin();
	switch ((enum msg_type)m->type) {
	case MSG_FLUSH: err = flush_arrived(m, payload, size - tail); break;
	case MSG_NOTE: err = note_arrived(m, payload, size - tail); break;
	case MSG_AFTER: return after_arrived(m, payload, size);
	default: break;
	}
	if (!err && tail)
		err = after_arrived(m, (const uint8_t *)payload + size - tail, tail);
	return err;
}

/* In what the close sends to the same node, if there is something. */
static bool put_inside(struct gather *g, const struct action *a)
{
	struct parcel *p;
	size_t i;

	for (i = 0; g && i < g->nparcels; i++) {
		p = &g->parcels[i];
		if (p->m.dst != a->msg.dst || p->m.op || p->m.value != a->mask)
			continue;
		p->m.op = a->prot;
		memcpy(p->at + p->size, &a->msg, sizeof(a->msg));
		p->size += sizeof(a->msg);
		return true;
	}
	return false;
}

static void send_after(struct core_host *h, const struct action *a)
{
	struct msg m = message_to(a->msg.dst);

	run_note_inside(&a->msg);
	if (put_inside(work_mine()->gather, a))
		return;
	m.type = MSG_AFTER;
	m.op = a->prot;
	m.req_node = h->me;
	m.value = a->mask;
	run_send_with(&m, &a->msg, sizeof(a->msg));
}

static void deliver_held(struct core_host *h, const struct msg *m)
{
	(void)h;
	work_push(WORK_STEP, m);
}

static void release_fail(struct core_host *h, const char *why)
{
	(void)h;
	lost_abort(70, why);
}

const struct core_rel_ops release_ops = {
	.twin = twin_make,
	.untwin = twin_end,
	.lower = twin_lower,
	.diff = differs,
	.merge = twin_merge,
	.fresh = twin_fresh,
	.object = object_of,
	.notice = add_notice,
	.gather = gather_soon,
	.after = send_after,
	.deliver = deliver_held,
	.fail = release_fail,
};

/* ---- what threads wait for ------------------------------------------------------------------- */

struct acquiring {
	bool stale;
	int err;
};

static void acquire_one(struct core_host *h, uint32_t entry, void *arg)
{
	struct acquiring *a = arg;

	core_acquire_next(h, entry, &a->stale, &a->err);
}

#define HELPS 64u /* between two looks at the clock */

/* A wait for closes. */
struct close_wait {
	uint64_t since; /* 0: it is short */
	uint32_t helps;
};

/* A node that has not acknowledged a FLUSH or a NOTE of this one; -1: there is none. */
static int close_awaits(void)
{
	uint32_t *stripe = stripe_of(core_key_closing());
	int node, found = -1;

	word_lock(stripe);
	for (node = 0; found < 0 && node < job.nodes; node++) {
		const struct closing_peer *p = &job.mem.peers[node];

		if (p->sent)
			found = node;
		else if (p->asked && job.nodes <= 64)
			found = __builtin_ctzll(p->asked);
	}
	word_unlock(stripe);
	return found;
}

/*
 * Work for others, and report a wait that is long. The calls by which reports ask other ranks wait
 * for closes, too: so this one asks nobody.
 */
static void close_help(struct close_wait *w)
{
	uint64_t now;
	int node;

	block_help();
	if (++w->helps % HELPS)
		return;
	now = clock_ns();
	if (!w->since)
		w->since = now;
	node = close_awaits();
	if (node >= 0 && job.up->wait_is_due(w->since, now))
		log_line("after %lu s without an answer (a report, not an error: DSM_STALL_MS): "
			 "node %d has not acknowledged stores of this node",
			 (unsigned long)((now - w->since) / 1000000000u), node);
}

/* As core_acquire(), neighbours together. */
bool release_try_acquire(void)
{
	struct core_host h = run_host();
	struct acquiring a = { 0 };
	const uint32_t first = core_acquire_begin(&h, &a.err);

	if (!a.err) {
		step_list(first, entry_next_notice, never, acquire_one, &a);
		a.err = core_acquire_end(&h, a.stale, a.err);
	}
	run_work();
	return a.err != -EAGAIN;
}

void release_acquire_now(void)
{
	struct close_wait w = { 0 };

	while (!release_try_acquire())
		close_help(&w);
}

/* Begin a close that looks at all stores so far. Returns its number; 0: there is nothing to
 * close. */
static uint64_t close_begin(bool always)
{
	struct closing *n = &job.me->closing;
	struct core_host h = run_host();
	const struct msg none = message_to(job.node);
	uint32_t *stripe = stripe_of(core_key_closing());
	uint64_t due;
	bool idle;

	word_lock(stripe);
	idle = n->phase == CLOSING_IDLE && !n->first &&
		!__atomic_load_n(&job.me->rel_lists.opened, __ATOMIC_ACQUIRE);
	word_unlock(stripe);
	if (idle && !always)
		return 0;
	if (core_closing_event(&h, CE_CLOSE, &none))
		lost_abort(70, "the state of the closes is damaged");
	run_work();
	word_lock(stripe);
	due = n->due;
	word_unlock(stripe);
	return due;
}

bool release_has_closed(uint64_t close)
{
	return __atomic_load_n(&job.me->closing.ended, __ATOMIC_ACQUIRE) >= close;
}

static void close_end(uint64_t close)
{
	struct close_wait w = { 0 };

	while (!release_has_closed(close))
		close_help(&w);
}

uint64_t release_close_begin(void)
{
	return releases_used() ? close_begin(false) : 0;
}

uint64_t release_close_always(void)
{
	return close_begin(true);
}

void release_close_now(void)
{
	const uint64_t close = close_begin(false);

	if (close)
		close_end(close);
}

bool release_closing(void)
{
	const struct closing *n = &job.me->closing;

	return __atomic_load_n(&n->phase, __ATOMIC_ACQUIRE) != CLOSING_IDLE ||
		__atomic_load_n(&n->held, __ATOMIC_ACQUIRE);
}

static bool has_room(void)
{
	return __atomic_load_n(&job.me->twins, __ATOMIC_RELAXED) < job.set.twins;
}

bool release_many_fit(unsigned int n)
{
	return __atomic_load_n(&job.me->twins, __ATOMIC_RELAXED) + n <= job.set.twins;
}

void release_make_room(void)
{
	if (has_room())
		return;
	__atomic_fetch_add(&job.me->pressed, 1, __ATOMIC_RELAXED);
	while (!has_room())
		close_end(release_close_always());
	__atomic_fetch_sub(&job.me->pressed, 1, __ATOMIC_RELAXED);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * run.c - the process as a host of the core (core/host.h): what its actions do here.
 *
 * A message for this node is an item in the thread's own queue: the thread that caused it steps the
 * receiver, and no other thread is woken. A message for another node goes to the transport.
 *
 * Everything here may run on any thread, also inside the fault handler.
 */
#include "miss/run.h"

#include "fault/fault.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/memory.h"
#include "job/upcalls.h"
#include "miss/block.h"
#include "miss/keep.h"
#include "miss/lease.h"
#include "miss/leave.h"
#include "miss/push.h"
#include "miss/raises.h"
#include "miss/recent.h"
#include "miss/release.h"
#include "miss/sample.h"
#include "miss/slot.h"
#include "miss/step.h"
#include "miss/twin.h"
#include "miss/wait.h"
#include "miss/work.h"
#include "net/net.h"
#include "net/own.h"
#include "util/clock.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

static void send_failed(uint16_t rank, int err)
{
	if (err == -ESRCH)
		lost_rank(rank, "its process is gone");
	lost_connection(rank, err);
}

/*
 * Counts messages of locks, objects and barriers; chunk.c counts those of collectives when it sends
 * them.
 */
static bool may_wake(uint8_t type)
{
	return type >= MSG_LOCK && type <= MSG_DEPART;
}

void run_send_with(const struct msg *m, const void *payload, size_t size)
{
	int err;

	count(&job.mine->stats.messages_out, 1);
	if (m->type == MSG_FLUSH)
		count(&job.mine->stats.flushes, 1);
	err = job.netops->send(job.net, job.pair[m->dst], m, payload, size);
	if (err)
		send_failed(job.pair[m->dst], err);
}

/* Send what was gathered for one node: alone, or in a bundle. */
static void send_gathered(struct work *w)
{
	const unsigned int n = w->sendings;
	struct msg head;

	w->sendings = 0;
	if (n == 1) {
		run_send_with(&w->sending[0], NULL, 0);
	} else if (n) {
		head = bundle_head(&w->sending[0], n);
		run_send_with(&head, w->sending, n * sizeof(w->sending[0]));
	}
}

/* Until run_work(), which follows whatever steps blocks. */
static void gather_sending(const struct msg *m)
{
	struct work *w = work_mine();
	const struct msg *first = &w->sending[0];

	if (w->sendings == job.netops->bundle ||
	    (w->sendings && (first->type != m->type || first->dst != m->dst)))
		send_gathered(w);
	w->sending[w->sendings++] = *m;
}

/*
 * A request of this node, or a message that may wake a thread of another one, is about to be sent.
 */
static void note_sending(const struct msg *m)
{
	if (ask_is(m->type) && m->src == job.node)
		ask_note(&job.me->slots[m->req_slot].ask, m);
	if (may_wake(m->type) && m->dst != job.node)
		count(&job.mine->sync_out, 1);
}

static void route(const struct msg *m)
{
	note_sending(m);
	if (m->dst == job.node)
		work_push(WORK_STEP, m);
	else if (job.netops->bundle && bundle_takes(m->type))
		gather_sending(m);
	else
		run_send_with(m, NULL, 0);
}

void run_note_inside(const struct msg *inside)
{
	note_sending(inside);
}

struct region_stats *run_stats_of(uint32_t object)
{
	struct dsm_region *r = region_at(block_off(object));

	return &job.mine->region_stats[r ? r->id : 0];
}

static void report_peer(uint16_t node)
{
	if (node != job.node)
		job.netops->drop(job.net, job.pair[node]);
	lost_rank(job.first[node], "it broke the protocol");
}

#define STRAYS_LOGGED 8 /* more messages would say nothing new */

void run_refuse(const struct msg *m, int err)
{
	static uint32_t strays;

	if (err != -ESTALE) {
		work_mine()->refused = true;
		log_line("node %d sent %s for object %#x, which no correct node could", m->src,
			 wire_name(m->type), m->object);
		report_peer(m->src);
	} else if (__atomic_fetch_add(&strays, 1, __ATOMIC_RELAXED) < STRAYS_LOGGED) {
		log_line("node %d sent %s for object %#x, which was not asked for: ignored", m->src,
			 wire_name(m->type), m->object);
	}
}

void run_protect_failed(int err)
{
	log_line("shared blocks cannot be mapped: %s", dsm_strerror(err));
	lost_abort(70, "out of memory for shared blocks");
}

/* Release blocks that were fetched ahead, neighbours: nobody has used them yet. */
static void sample_run(const struct opening *o, unsigned int n)
{
	unsigned int i, ahead;

	if ((!o->contents && o->open.from != OPEN_ZERO) || o->open.prot != PROT_RO ||
	    !releases_used() || !release_is(block_off(o->m.object)))
		return;
	for (i = 0; i < n; i += ahead + 1) {
		for (ahead = 0; i + ahead < n && slot_is_prefetch(o[i + ahead].m.req_slot); ahead++)
			;
		if (ahead)
			sample_opened(block_off(o[i].m.object), ahead);
	}
}

/* The contents are in place, and open to the thread that waits. */
static void note_opened(uint32_t object, uint8_t from, uint8_t prot)
{
	if (releases_used() && release_is(block_off(object)))
		twin_filled(object, prot);
	if (job.set.memory && from != OPEN_UPGRADE && from != OPEN_AGAIN)
		recent_came(block_off(object), block_bytes(object));
}

/*
 * A block is about to be opened. Afterwards would be too late: threads that find it open go on, and
 * may ask for the counters.
 */
static void count_opening(uint32_t object, uint8_t from)
{
	struct region_stats *s = run_stats_of(object);

	if (from == OPEN_DATA || from == OPEN_LANDED) {
		count(&s->blocks_in, 1);
		count(&s->bytes_in, block_bytes(object));
	} else if (from == OPEN_ZERO) {
		count(&s->local_faults, 1);
	}
}

/* Can one call of the fault backend open both? */
static bool opens_with(const struct opening *a, const struct opening *b)
{
	const size_t end = block_off(a->m.object) + block_bytes(a->m.object);

	return a->open.from == b->open.from && a->open.prot == b->open.prot &&
		job.me->slots[a->m.req_slot].by == job.me->slots[b->m.req_slot].by &&
		block_off(b->m.object) == end && end % UNIT_BYTES &&
		(!a->contents || a->contents + block_bytes(a->m.object) == b->contents);
}

/*
 * How many of them, from the first on. A reader in order asks for the next run as soon as it has
 * this one, while the slots of this one are being freed: so long runs are opened in pieces.
 */
static unsigned int opens_together(const struct opening *o, unsigned int n)
{
	const size_t bytes = block_bytes(o->m.object);
	unsigned int i;

	for (i = 1; i < n && (i + 1) * bytes <= BUNDLE_BYTES && opens_with(&o[i - 1], &o[i]); i++)
		;
	return i;
}

int run_zero(unsigned int who, size_t off, size_t len, uint8_t prot)
{
	static uint8_t zeros[BUNDLE_BYTES]; /* nobody writes them */

	return prot == PROT_RW ? job.fault->zero(who, off, len)
			       : job.fault->fill(who, off, len, zeros, PROT_RO);
}

static void open_run(const struct opening *o, unsigned int n)
{
	const size_t off = block_off(o->m.object),
		     end = block_off(o[n - 1].m.object) + block_bytes(o[n - 1].m.object);
	const unsigned int who = job.me->slots[o->m.req_slot].by;
	int err;

	if (o->contents)
		err = job.fault->fill(who, off, end - off, o->contents, o->open.prot);
	else if (o->open.from == OPEN_UPGRADE)
		err = job.fault->raise(who, off, end - off);
	else
		err = run_zero(who, off, end - off, o->open.prot);
	if (err)
		run_protect_failed(err);
}

/*
 * Open what was gathered, neighbours in one call, and go on with the actions of each. True: there
 * was some.
 */
static bool open_all(struct core_host *h, struct work *w)
{
	const unsigned int all = w->openings;
	struct actions rest CORE_UNINITIALIZED;
	unsigned int at, i, n;

	for (at = 0; at < all; at += n) {
		const struct opening *o = &w->opening[at];

		n = opens_together(o, all - at);
		for (i = 0; i < n; i++)
			count_opening(o[i].m.object, o[i].open.from);
		open_run(o, n);
		sample_run(o, n);
		for (i = 0; i < n; i++) {
			note_opened(o[i].m.object, o[i].open.from, o[i].open.prot);
			rest.n = 1;
			rest.v[0] = o[i].wake;
			core_carry_out(h, &rest, 0, &o[i].m, NULL);
		}
	}
	w->openings = 0;
	return all;
}

/*
 * May the block be opened a little later, with its neighbours? Its page waits for that: the home
 * hears of no use before.
 */
static bool opens_later(const struct work *w, const struct actions *acts, unsigned int at)
{
	if (at + 2 != acts->n || acts->v[at + 1].type != ACT_WAKE)
		return false;
	return acts->v[at].from == OPEN_ZERO ? w->bundled || w->running
					     : acts->v[at].from != OPEN_LANDED && w->bundled;
}

static bool act_open(struct core_host *h, const struct actions *acts, unsigned int at,
		     const struct msg *m, const void *data)
{
	const struct action *a = &acts->v[at];
	const size_t off = block_off(m->object), len = block_bytes(m->object);
	const unsigned int who = job.me->slots[m->req_slot].by;
	struct work *w = work_mine();
	int err = 0;
	char *landed;

	if (opens_later(w, acts, at)) {
		if (w->openings == WIRE_BUNDLE_MAX)
			open_all(h, w);
		w->opening[w->openings++] =
			(struct opening){ .m = *m,
					  .open = *a,
					  .wake = acts->v[at + 1],
					  .contents = a->from == OPEN_DATA ? data : NULL };
		return false;
	}
	count_opening(m->object, a->from);
	switch ((enum open_from)a->from) {
	case OPEN_DATA: err = job.fault->fill(who, off, len, data, a->prot); break;
	case OPEN_LANDED:
		landed = memory_stage(m->req_slot, len);
		err = job.fault->fill(who, off, len, landed, a->prot);
		memory_unstage(m->req_slot, landed, len, true);
		break;
	case OPEN_UPGRADE: err = job.fault->raise(who, off, len); break;
	case OPEN_ZERO: err = run_zero(who, off, len, a->prot); break;
	case OPEN_AGAIN: break; /* step_again() */
	}
	if (err)
		run_protect_failed(err);
	if (a->from == OPEN_DATA || a->from == OPEN_ZERO)
		sample_run(&(struct opening){ .m = *m, .open = *a, .contents = data }, 1);
	note_opened(m->object, a->from, a->prot);
	return true;
}

static bool act_wake(struct core_host *h, const struct action *a, const struct msg *m)
{
	(void)h, (void)m;
	if (slot_woken(a->slot)) {
		slot_complete(a->slot, a->status, a->mask);
		return true;
	}
	if (!slot_has_quit(a->slot))
		return false;
	work_push(WORK_PASS, &(struct msg){ .req_slot = a->slot, .count = a->status });
	return true;
}

static void act_unclaimed(struct core_host *h, const struct action *a)
{
	(void)h;
	slot_complete(a->slot, 0, 0);
	slot_put(a->slot);
}

static void act_answer(struct core_host *h, const struct action *a)
{
	(void)h;
	if (!slot_is_prefetch(a->slot)) {
		slot_complete(a->slot, a->status, a->mask);
	} else if (a->prot) { /* of MSG_RELEASE: no thread waits for its status */
		slot_complete(a->slot, 0, 0);
		slot_put(a->slot);
	}
}

static void wake_barrier(struct bar *b)
{
	wait_wake(&b->gen, &b->sleepers);
}

static void act_wake_all(struct core_host *h, uint32_t barrier)
{
	(void)h;
	wake_barrier(&job.mem.bars[barrier]);
}

/* By run_work(), which closes neighbours together. */
static bool act_lower(struct core_host *h, const struct core_leave *l)
{
	enum work_kind kind = WORK_DROP;

	(void)h;
	if (releases_used() && release_is(block_off(l->m->object)))
		kind = WORK_COPY; /* step_leaves() has lowered it */
	else if (l->m->type == MSG_DATA && l->to == PROT_CLOSED)
		kind = l->from == PROT_RW ? WORK_TAKE_RW : WORK_TAKE_RO;
	else if (l->m->type == MSG_DATA)
		kind = l->from == PROT_RW ? WORK_LOWER : WORK_COPY;
	work_push(kind, l->m);
	return false;
}

/* If the node has release blocks by now, whatever it had when this thread called run_host(). */
static void send_now(const struct msg *m)
{
	struct core_host h;

	if (releases_used()) {
		h = run_host();
		if (core_releases(&h, m)) {
			core_release(&h, m);
			return;
		}
	}
	route(m);
}

/*
 * Of a host that had no release blocks:
 *
 *   this thread: run_host(), for MSG_NEXT        another: uses the node's first release block, and
 *                                                stores
 *                                                         unlocks: the lock stays here, without a
 *                                                         message
 *                steps NEXT, and sends LOCKED
 *
 * The step has seen the unlock, so this thread sees the release block.
 */
static void act_send(struct core_host *h, const struct msg *m)
{
	(void)h;
	send_now(m);
}

/* Diffs and notices are with the thread that has stepped the close. */
static void act_send_release(struct core_host *h, const struct msg *m)
{
	(void)h;
	if (m->type == MSG_FLUSH || m->type == MSG_NOTE)
		release_send(m);
	else if (m->type == MSG_FLUSHED)
		release_acknowledge(m);
	else
		route(m);
}

static bool act_timer(struct core_host *h, uint32_t object, uint32_t at)
{
	(void)h;
	return work_timer(object, at);
}

/* A block that is placed here may have to wait for pinned ones. */
static void act_fetch(struct core_host *h, const struct action *a)
{
	(void)h;
	block_start_prefetch(a->msg.object, a->prot == PROT_RW, a->msg.flags, a->msg.home,
			     a->msg.type == MSG_RELEASE ? SLOT_BACK : SLOT_AHEAD);
}

static void act_report_peer(struct core_host *h, uint16_t node)
{
	(void)h;
	report_peer(node);
}

static __thread bool answered __attribute__((tls_model("initial-exec"))); /* MSG_DONE will come */
/* when a request was queued last, to wait for the end of another; clock_ns(); atomic */
static uint64_t queued;

/* what has waited for so long, waits at most a fifth longer for a home that dozes */
#define QUEUED_NS 100000000ull

bool run_expects_done(void)
{
	const bool expects =
		answered && clock_ns() - __atomic_load_n(&queued, __ATOMIC_RELAXED) > QUEUED_NS;

	answered = false;
	return expects;
}

/* Requests without actions have been queued. DONE does not follow those of release blocks. */
static void note_request(const struct msg *m, const struct actions *acts)
{
	if ((m->type != MSG_READ_REQ && m->type != MSG_WRITE_REQ) || m->flags & MSGF_RELEASE)
		return;
	if (acts->n)
		answered |= acts->v[0].msg.type != MSG_FWD_READ || !acts->v[0].msg.count;
	else
		__atomic_store_n(&queued, clock_ns(), __ATOMIC_RELAXED);
}

/* Does it make this node the home of a release block? */
static bool is_home_of_release(const struct msg *m)
{
	return (m->type == MSG_DATA || m->type == MSG_GRANT) && m->op == GRANT_WRITE &&
		releases_used() && release_is(block_off(m->object));
}

static void act_stepped(struct core_host *h, const struct msg *m, int err,
			const struct actions *acts)
{
	(void)h;
	if (err) {
		run_refuse(m, err);
		return;
	}
	note_request(m, acts);
	if (m->type == MSG_GRANT && m->flags & MSGF_PUSH)
		push_note(m); /* before its thread is woken */
	/* Nothing is closed. */
	if (m->type == MSG_INV && acts->n && acts->v[0].type == ACT_SEND)
		count(&job.mine->stats.empty_invalidations, 1);
	if (m->type == MSG_GRANT && !m->flags && releases_used() &&
	    release_is(block_off(m->object)))
		raises_answered(m);
	if (m->type == MSG_ADOPT || is_home_of_release(m))
		count(&run_stats_of(m->object)->homes_in, 1);
}

static void act_damaged(struct core_host *h, const struct msg *about, enum page_event ev,
			uint8_t state)
{
	(void)h;
	log_line("block %#x is in state %s, which event %s does not fit", about->object,
		 page_state_name(state), page_event_name(ev));
	lost_abort(70, "the protocol's state is damaged");
}

/* clang-format off */
#define RUN_OPS(locks, unlocks) \
	.find = step_find, .lock = locks, .unlock = unlocks, .now = step_now, .again = step_again, .answers = step_answers, \
	.leaves = step_leaves, .drop = NULL, /* drop_blocks() steps PE_DROP itself, for several blocks at once */ \
	.freed = step_freed, .land = step_land, .stepped = act_stepped, .damaged = act_damaged, .send_block = leave_send_block, \
	.lower = act_lower, .open = act_open, .wake = act_wake, .unclaimed = act_unclaimed, .timer = act_timer, \
	.wake_all = act_wake_all, .answer = act_answer, .fetch = act_fetch, .blame = act_report_peer
/* clang-format on */

/* The thread holds the stripes of the run. */
static void hold_on(struct core_host *h, uint32_t key)
{
	(void)h, (void)key;
}

static const struct core_ops run_ops = { RUN_OPS(step_lock, step_unlock), .send = act_send };
static const struct core_ops run_release_ops = { RUN_OPS(step_lock, step_unlock),
						 .send = act_send_release, .rel = &release_ops };
static const struct core_ops run_held_ops = { RUN_OPS(hold_on, hold_on), .send = act_send_release,
					      .rel = &release_ops };

struct core_host run_host(void)
{
	return (struct core_host){
		.ops = releases_used() ? &run_release_ops : &run_ops,
		.me = job.node,
		.nnodes = job.nodes,
		.follow = DIR_FOLLOW,
		.pushes = job.set.push ? PUSH_AFTER : 0,
		.brief = true,
		.passes = LOCK_PASSES,
		/* threads of this node lock and unlock by the record's word (sync/fast_lock.h) */
		.fast = true,
		.leases = true,
		.hold_us = work_hold(),
	};
}

struct core_host run_host_of_run(void)
{
	struct core_host h = run_host();

	h.ops = &run_held_ops;
	return h;
}

/* ---- one message ----------------------------------------------------------------------------- */

/* The home of a reader-writer lock revokes the lease of this node. */
static int give_lease_back(const struct msg *m)
{
	const int readers = lease_revoked(m);

	if (readers < 0)
		return readers;
	run_send(&(struct msg){ .type = MSG_REVOKED,
				.src = job.node,
				.dst = m->src,
				.object = m->object,
				.req_node = m->req_node,
				.value = (uint64_t)readers });
	return 0;
}

/* The runtime's own messages. */
static int step_ours(const struct msg *m, const void *payload, size_t size)
{
	switch ((enum msg_type)m->type) {
	case MSG_CALL: return job.up->call(m, payload, size);
	case MSG_RETURN: return job.up->answer(m, payload, size);
	case MSG_PING:
	case MSG_BYE: return lost_heard(m);
	case MSG_REVOKE: return give_lease_back(m);
	case MSG_CHUNK: return job.up->chunk(m, payload, size);
	case MSG_FLUSH:
	case MSG_NOTE:
	case MSG_AFTER: return release_arrived(m, payload, size);
	default: return -EBADMSG;
	}
}

/* False: the message is kept for later. */
static bool deliver(struct core_host *h, const struct msg *m, const void *payload, size_t size)
{
	uint32_t number;
	const bool ours = dispatch_target(m, &number) == TARGET_HOST;
	int err = 0;

	HOOK(step);
	if (m->type == MSG_NEXT && keep_next(h, m))
		return false;
	count(&job.mine->stats.steps, 1);
	if (ours)
		err = step_ours(m, payload, size);
	else if (m->type == MSG_FLUSHED)
		err = release_given(m, payload, size);
	if (err)
		run_refuse(m, err);
	else if (!ours)
		core_deliver(h, m, payload);
	return true;
}

/* ---- messages that were kept ----------------------------------------------------------------- */

static void step_kept(const struct msg *m)
{
	struct core_host h = run_host();

	count(&job.mine->stats.steps, 1);
	core_deliver(&h, m, NULL);
	run_work();
	if (m->src != job.node)
		count(&job.mine->sync_in, 1); /* as run_net() does for others */
}

uint64_t run_kept(bool all)
{
	struct msg m;
	uint64_t left;

	while (keep_take(all, &m, &left))
		step_kept(&m);
	return left;
}

/* ---- locks that are passed on ---------------------------------------------------------------- */

struct late_pass {
	struct late_pass *next;
	struct msg m;
};

static struct {
	uint32_t lock;
	struct late_pass *first;
} late_passes;

static void pass_later(const struct msg *m)
{
	struct late_pass *p = own_alloc(sizeof(*p), 0);

	if (!p)
		lost_abort(70, "no memory for a lock that is passed on");
	p->m = *m;
	word_lock(&late_passes.lock);
	p->next = late_passes.first;
	__atomic_store_n(&late_passes.first, p, __ATOMIC_RELAXED);
	word_unlock(&late_passes.lock);
	job_ring(job.rank);
}

/*
 * On behalf of a thread that has given up (sync/lock.c): come if it is woken without the lock, and
 * release the lock if it gets it. The next thread of this node may take it without a message, and
 * so without applying the notices that came with it.
 */
static void pass_on(const struct msg *m)
{
	const uint32_t hold = slot_object(NULL, m->req_slot);
	const struct hold *h = &job.me->holds[hold];
	const struct msg about = { .dst = h->home,
				   .object = h->object,
				   .req_node = h->gen,
				   .req_slot = m->req_slot,
				   .aux = hold };

	if (m->count == -EAGAIN && !run_held(hold, HE_COME, &about))
		return; /* the lock comes next */
	if (!m->count && releases_used() && !release_try_acquire()) {
		pass_later(m);
		return;
	}
	if (!m->count)
		run_held(hold, HE_UNLOCK, NULL);
	slot_put(m->req_slot);
}

bool run_late(void)
{
	struct late_pass *p, *next;

	if (!__atomic_load_n(&late_passes.first, __ATOMIC_RELAXED))
		return false;
	word_lock(&late_passes.lock);
	p = late_passes.first;
	__atomic_store_n(&late_passes.first, NULL, __ATOMIC_RELAXED);
	word_unlock(&late_passes.lock);
	for (; p; p = next) {
		next = p->next;
		pass_on(&p->m);
		own_free(p);
	}
	return __atomic_load_n(&late_passes.first, __ATOMIC_RELAXED);
}

static void do_item(struct core_host *h, struct work *w, const struct item *it)
{
	switch ((enum work_kind)it->kind) {
	case WORK_STEP: deliver(h, &it->m, NULL, 0); break;
	case WORK_PASS: pass_on(&it->m); break;
	case WORK_GATHER: release_gather(); break;
	case WORK_COPY:
	case WORK_DROP:
	case WORK_LOWER:
	case WORK_TAKE_RO:
	case WORK_TAKE_RW:
		if (w->closings == WORK_CLOSINGS)
			leave_close_all(h, w);
		work_closing(it);
		break;
	}
}

/* ---- what the other files use ---------------------------------------------------------------- */

void run_work(void)
{
	struct work *w = work_mine();
	struct core_host h;
	struct item it;

	if (w->running)
		return; /* the loop below, further up this thread's stack, handles it */
	h = run_host();
	w->running = true;
	do {
		while (work_pop(&it))
			do_item(&h, w, &it);
	} while (open_all(&h, w) || (!w->more && leave_close_all(&h, w)));
	w->running = false;
	send_gathered(w);
}

/* Nothing that belongs to the stored closings can follow any more. */
static void close_now(bool more)
{
	struct work *w = work_mine();

	w->more = false;
	if (w->closings)
		run_work();
	w->more = more;
}

void run_send_first(const struct msg *m)
{
	struct msg copy = *m;

	copy.version = WIRE_VERSION;
	send_now(&copy);
}

void run_send(const struct msg *m)
{
	run_send_first(m);
	run_work();
}

int run_held(uint32_t index, enum hold_event ev, const struct msg *about)
{
	struct core_host h = run_host();
	struct msg m;
	int n;

	if (ev == HE_UNLOCK)
		h.claim = keep_claim();
	n = core_hold_event(&h, index, ev, about);
	if (n < 0)
		return -EPERM;
	if (n)
		run_work();
	if (ev == HE_UNLOCK && keep_released(index, &m))
		step_kept(&m);
	return 0;
}

int run_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen,
	       struct msg *up)
{
	struct actions acts;
	int err = step_gather(m, alone, group, gen, &acts), all = 0;
	unsigned int i;

	for (i = 0; !err && i < acts.n; i++) {
		if (acts.v[i].type == ACT_SEND) {
			*up = acts.v[i].msg;
			all = 1;
		} else {
			wake_barrier(&job.mem.bars[m->object]);
		}
	}
	return err ? err : all;
}

int run_arrive(const struct msg *m, const struct bar_group *group, uint32_t *gen)
{
	struct core_host h = run_host();
	int err = core_arrive(&h, m, group, NULL, gen);

	if (!err)
		run_work();
	return err;
}

/* The home answers a release, then asks for the block. */
static bool is_of_blocks(const struct msg *m)
{
	return m->type == MSG_BUNDLE || wire_class(m->type) == CLASS_COHERENCE ||
		(m->type == MSG_REPLY && slot_is_block(m->req_slot));
}

static void bundle_arrived(struct core_host *h, const struct msg *head, const void *payload,
			   size_t size)
{
	struct work *w = work_mine();
	struct bundle b;
	struct msg m;
	const void *contents;
	size_t bytes;
	int err = bundle_begin(&b, head, payload, size, &job.limits), more = !err;

	w->bundled = true;
	w->refused = false;
	if (more > 0 && releases_used() && (head->op == MSG_READ_REQ || head->op == MSG_WRITE_REQ))
		release_share_soon(b);
	while (more > 0 && !w->refused) {
		more = bundle_next(&b, &m, &contents, &bytes);
		if (more > 0)
			deliver(h, &m, contents, bytes);
	}
	open_all(h, w); /* while the contents are there */
	w->bundled = false;
	if (err || more < 0)
		run_refuse(head, -EBADMSG);
}

void run_net(void *arg, const struct msg *m, const void *payload, size_t size)
{
	struct core_host h = run_host();
	bool stepped = true;

	(void)arg;
	count(&job.mine->stats.messages_in, 1);
	lost_alive(m->src);
	if (wire_check(m, &job.limits) ||
	    (wire_class(m->type) <= CLASS_DATA &&
	     size != (m->type == MSG_DATA ? block_bytes(m->object) : 0))) {
		run_refuse(m, -EBADMSG);
		return;
	}
	if (!is_of_blocks(m))
		close_now(work_mine()->more);
	if (m->type == MSG_BUNDLE)
		bundle_arrived(&h, m, payload, size);
	else
		stepped = deliver(&h, m, payload, size);
	run_work();
	/* a message that is kept counts when it is stepped */
	if (stepped && (may_wake(m->type) || m->type == MSG_CHUNK || release_has_inside(m)))
		count(&job.mine->sync_in, 1); /* after the wake-ups, as deadlock.c requires */
	work_timers(true);
}

int run_poll(unsigned int budget)
{
	struct work *w = work_mine();
	const bool before = w->more;
	int came;

	w->more = true;
	came = job.netops->poll(job.net, budget);
	close_now(before);
	return came;
}

enum core_page run_page(enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq)
{
	struct core_host h = run_host();
	struct core_waiter t = { .wait = -1 };
	enum core_page page = (enum core_page)core_page_event(&h, ev, ask, wait ? &t : NULL);

	if (t.wait >= 0) {
		*wait = (uint16_t)t.wait;
		*seq = t.seq;
	}
	return page;
}

void run_used(const struct msg *ask, void (*also)(void *), void *arg)
{
	struct core_host h = run_host();
	struct core_waiter t = { .also = also, .arg = arg };

	core_page_event(&h, PE_USED, ask, &t);
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* host_release.c - see host_release.h. The comments of action.h say what each action means. */
#include "core/host_release.h"
#include "core/set.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

static const struct core_rel_ops *ops_of(const struct core_host *h)
{
	return h->ops->rel;
}

/* A release block. */
static int find_block(struct core_host *h, const struct msg *about, struct core_place *p)
{
	int err;

	p->d.rel = NULL;
	err = ops_of(h) ? h->ops->find(h, TARGET_BLOCK, about->object, about, p) : -EBADMSG;
	return err ? err : p->d.rel ? 0 : -EBADMSG;
}

/*
 * A block of a list that was taken. Without it, the rest of the list is lost, and with it stores or
 * notices.
 */
static int find_listed(struct core_host *h, const struct msg *about, struct core_place *p)
{
	int err = find_block(h, about, p);

	if (err)
		ops_of(h)->fail(h, "a list of release blocks is damaged");
	return err;
}

/*
 * For misses, notices and closes, with the lock held: a close that has looked at the block has
 * begun then.
 */
static void set_closes(struct core_place *p)
{
	p->rel.run = __atomic_load_n(&p->d.closing->run, __ATOMIC_ACQUIRE);
	p->rel.ended = __atomic_load_n(&p->d.closing->ended, __ATOMIC_ACQUIRE);
}

/* What must happen before the block's lock is dropped. A step that is refused has no actions. */
static int rel_locked(struct core_host *h, uint32_t object, const struct actions *acts,
		      struct core_waiter *t, const struct core_change *d)
{
	int result = CORE_ASKED;
	unsigned int i;

	for (i = 0; i < acts->n; i++) {
		const struct action *a = &acts->v[i];

		switch ((enum act)a->type) {
		case ACT_TWIN: ops_of(h)->twin(h, object); break;
		case ACT_UNTWIN: ops_of(h)->untwin(h, object); break;
		case ACT_MERGE: ops_of(h)->merge(h, object, d->diff, d->size); break;
		case ACT_OPEN:
			if (a->from == OPEN_AGAIN)
				result = h->ops->again(h, object, a->prot) ? CORE_FOLLOWED
									   : CORE_OPEN;
			break;
		case ACT_CLOSE:
			ops_of(h)->lower(h, object, PROT_CLOSED);
			result = CORE_DROPPED;
			break;
		case ACT_WAIT:
			if (t) {
				t->wait = a->slot;
				t->seq = h->ops->answers(h, a->slot);
			}
			break;
		case ACT_DATA:
			if (h->ops->leaves)
				h->ops->leaves(h, object);
			break;
		default: break;
		}
	}
	return result;
}

static void carry_notices(struct core_host *h, uint32_t object, const struct actions *acts,
			  uint16_t writer)
{
	unsigned int i;

	for (i = 0; i < acts->n; i++)
		if (acts->v[i].type == ACT_NOTICE || acts->v[i].type == ACT_TELL)
			ops_of(h)->notice(h, object, &acts->v[i], writer);
}

int core_rel_message(struct core_host *h, struct core_place *p, const struct msg *m,
		     struct actions *out)
{
	int err;

	h->ops->lock(h, p->key);
	set_closes(p);
	p->rel.fresh = ops_of(h)->fresh && ops_of(h)->fresh(h, m->object);
	err = dispatch_step(&p->d, m, out);
	rel_locked(h, m->object, out, NULL, NULL);
	h->ops->unlock(h, p->key);
	return err;
}

_Static_assert((unsigned int)REL_CLEAN >= (unsigned int)RELH_STATES,
	       "no home has a copy that may be dropped");

/*
 * A copy may be dropped without a word: a home may count nodes without one. Homes wait for no copy.
 */
static enum rel_event local_event(const struct rel *b, enum page_event ev, bool home)
{
	switch (ev) {
	case PE_READ: return RE_READ;
	case PE_WRITE: return RE_WRITE;
	case PE_USED: return home ? REL_EVENTS : RE_USED;
	case PE_DROP: return b->state == REL_CLEAN ? RE_APPLY : REL_EVENTS;
	default: return REL_EVENTS;
	}
}

int core_rel_event(struct core_host *h, struct core_place *p, enum page_event ev,
		   const struct msg *about, struct core_waiter *t)
{
	struct actions acts CORE_UNINITIALIZED;
	enum rel_event re;
	int err = 0, result;

	acts.n = 0;
	h->ops->lock(h, p->key);
	set_closes(p);
	re = local_event(p->d.rel, ev, rel_home(&p->rel, p->d.rel) == h->me);
	if (re != REL_EVENTS)
		err = rel_step(&p->rel, p->d.rel, re, about, &acts);
	result = rel_locked(h, about->object, &acts, t, NULL);
	if (t && t->also)
		t->also(t->arg);
	h->ops->unlock(h, p->key);
	if (err && err != -EAGAIN)
		h->ops->damaged(h, about, ev, p->d.rel->state);
	core_carry_out(h, &acts, 0, about, NULL);
	return err ? err : result;
}

/*
 * A diff has come with m: merge or store it. One that is told, and cannot be stored yet, becomes a
 * notice.
 */
static int diff_step(struct core_host *h, enum rel_event ev, const struct msg *m,
		     const struct core_change *d)
{
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	int err = find_block(h, m, &p);

	if (err)
		return err;
	p.rel.kept = d->kept;
	p.rel.given = &p.d.closes->peers[m->src].given;
	h->ops->lock(h, p.key);
	err = rel_step(&p.rel, p.d.rel, ev, m, &acts);
	rel_locked(h, m->object, &acts, NULL, d);
	if (err == -EAGAIN) {
		/* before the copy is used: a store would take it for what the home has */
		rel_notice(p.rel.lists, p.rel.blocks, p.rel.index);
		err = 0;
	}
	h->ops->unlock(h, p.key);
	carry_notices(h, m->object, &acts, m->src);
	return err;
}

int core_flush_block(struct core_host *h, uint16_t src, const struct core_change *c)
{
	const struct msg m = { .type = MSG_FLUSH,
			       .op = c->asks ? GRANT_WRITE : GRANT_READ,
			       .object = c->object,
			       .src = src,
			       .dst = h->me };

	return diff_step(h, RE_FLUSH, &m, c);
}

int core_give_block(struct core_host *h, uint32_t object, uint16_t src)
{
	const struct msg m = { .type = MSG_FLUSHED, .object = object, .src = src, .dst = h->me };
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	int err = find_block(h, &m, &p);

	if (err)
		return err;
	h->ops->lock(h, p.key);
	set_closes(&p);
	err = rel_step(&p.rel, p.d.rel, RE_GIVEN, &m, &acts);
	h->ops->unlock(h, p.key);
	core_carry_out(h, &acts, 0, &m, NULL);
	return err;
}

int core_note_block(struct core_host *h, uint32_t object, uint16_t src)
{
	const struct msg m = { .type = MSG_NOTE, .object = object, .src = src, .dst = h->me };
	struct core_place p CORE_UNINITIALIZED;
	int err;

	p.unknown = false;
	err = find_block(h, &m, &p);
	if (p.unknown && set_granule(h->nnodes) > 1)
		return 0; /* a neighbour in the copyset has the copy */
	if (err)
		return err;
	if (!rel_may_note(&p.rel, p.d.rel, src))
		return -EBADMSG;
	rel_notice(p.rel.lists, p.rel.blocks, p.rel.index);
	return 0;
}

int core_tell_block(struct core_host *h, uint32_t object, uint16_t src, const void *diff,
		    size_t size)
{
	const struct msg m = { .type = MSG_NOTE, .object = object, .src = src, .dst = h->me };

	return diff_step(h, RE_TOLD, &m, &(struct core_change){ .diff = diff, .size = size });
}

/* ---- a close --------------------------------------------------------------------------------- */

static int find_closing(struct core_host *h, struct core_place *p)
{
	const struct msg none = { .dst = h->me };

	memset(p, 0, sizeof(*p));
	return ops_of(h) ? h->ops->find(h, TARGET_CLOSING, 0, &none, p) : -EBADMSG;
}

uint32_t core_given_first(struct core_host *h, uint16_t writer)
{
	struct core_place p CORE_UNINITIALIZED;

	return find_closing(h, &p) ? 0 : rel_take_given(&p.d.closes->peers[writer].given);
}

uint32_t core_given_next(struct core_host *h, uint32_t entry)
{
	const struct msg about = { .object = ops_of(h)->object(h, entry - 1),
				   .src = h->me,
				   .dst = h->me };
	struct core_place p CORE_UNINITIALIZED;

	return find_listed(h, &about, &p) ? 0 : rel_next_notice(p.d.rel);
}

static const struct msg no_msg; /* of events that have none */

static int step_closing(struct core_host *h, struct core_place *p, enum closing_event ev,
			const struct msg *m, struct actions *out)
{
	int err;

	h->ops->lock(h, core_key_closing());
	err = closing_step(p->d.closes, p->d.closing, ev, m, out);
	h->ops->unlock(h, core_key_closing());
	return err;
}

/* True: there is more to do. */
static bool carry_some(struct core_host *h, const struct actions *acts)
{
	bool more = false;
	unsigned int i;

	for (i = 0; i < acts->n; i++) {
		const struct action *a = &acts->v[i];

		switch ((enum act)a->type) {
		case ACT_SEND: h->ops->send(h, &a->msg); break;
		case ACT_AFTER: ops_of(h)->after(h, a); break;
		case ACT_DELIVER: ops_of(h)->deliver(h, &a->msg); break;
		case ACT_GATHER: ops_of(h)->gather(h); break;
		case ACT_DRAIN: more = true; break;
		default: break;
		}
	}
	return more;
}

void core_carry_closing(struct core_host *h, struct actions *acts)
{
	struct core_place p CORE_UNINITIALIZED;

	while (carry_some(h, acts))
		if (find_closing(h, &p) || step_closing(h, &p, CE_DRAIN, &no_msg, acts))
			return;
}

int core_closing_event(struct core_host *h, enum closing_event ev, const struct msg *m)
{
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	int err = find_closing(h, &p);

	if (!err)
		err = step_closing(h, &p, ev, m, &acts);
	if (!err)
		core_carry_closing(h, &acts);
	return err;
}

bool core_releases(const struct core_host *h, const struct msg *m)
{
	return h->ops->rel && m->dst != h->me && closing_releases(m);
}

static const char no_room[] = "too many messages wait for closes of release blocks";

void core_release(struct core_host *h, const struct msg *m)
{
	int err = core_releases(h, m) ? core_closing_event(h, CE_RELEASE, m) : -EBADMSG;

	if (err == -ENOSPC)
		ops_of(h)->fail(h, no_room);
	else if (err)
		h->ops->send(h, m);
}

int core_after(struct core_host *h, const struct msg *after, const struct msg *inside)
{
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	int err = find_closing(h, &p);

	if (err)
		return err;
	h->ops->lock(h, core_key_closing());
	err = closing_after(p.d.closes, p.d.closing, after, inside, &acts);
	h->ops->unlock(h, core_key_closing());
	if (!err)
		core_carry_closing(h, &acts);
	else if (err == -ENOSPC)
		ops_of(h)->fail(h, no_room);
	return err;
}

/*
 * Does the block differ from its twin? What may no longer be written afterwards is lowered first: a
 * store between the comparison and the lowering would be in no diff.
 */
static bool gather_diff(struct core_host *h, struct core_place *p, uint32_t object)
{
	const uint8_t prot = (uint8_t)rel_lower(&p->rel, p->d.rel);
	const uint16_t home = rel_home(&p->rel, p->d.rel);
	const bool asks = rel_asks(&p->rel, p->d.rel);

	p->rel.asks = asks;
	if (rel_seems_idle(&p->rel, p->d.rel) &&
	    ops_of(h)->diff(h, object, home, asks, &p->rel.kept))
		return true;
	if (prot != PROT_RW)
		ops_of(h)->lower(h, object, prot);
	return ops_of(h)->diff(h, object, home, asks, &p->rel.kept);
}

/* One open block, or one that is lent. */
static void gather_block(struct core_host *h, struct core_place *p, const struct msg *about)
{
	struct actions acts CORE_UNINITIALIZED;
	bool changed;

	acts.n = 0;
	h->ops->lock(h, p->key);
	set_closes(p);
	if (rel_lent(&p->rel, p->d.rel)) {
		p->rel.kept = false;
		rel_step(&p->rel, p->d.rel, RE_CHANGED, about, &acts);
	} else if (rel_open(&p->rel, p->d.rel)) {
		p->rel.kept = rel_would_tell(&p->rel, p->d.rel, h->me);
		changed = gather_diff(h, p, about->object);
		rel_step(&p->rel, p->d.rel, changed ? RE_CHANGED : RE_SAME, about, &acts);
		rel_locked(h, about->object, &acts, NULL, NULL);
		rel_list_open(&p->rel, p->d.rel);
	}
	h->ops->unlock(h, p->key);
	carry_notices(h, about->object, &acts, h->me);
}

uint32_t core_gather_first(struct core_host *h)
{
	struct core_place p CORE_UNINITIALIZED;

	return find_closing(h, &p) ? 0 : rel_take_open(p.rel.lists);
}

uint32_t core_gather_next(struct core_host *h, uint32_t entry)
{
	const struct msg about = { .object = ops_of(h)->object(h, entry - 1),
				   .src = h->me,
				   .dst = h->me };
	struct core_place p CORE_UNINITIALIZED;
	uint32_t next;

	if (find_listed(h, &about, &p))
		return 0;
	next = rel_next_open(p.d.rel);
	gather_block(h, &p, &about);
	return next;
}

void core_gather(struct core_host *h)
{
	uint32_t entry = core_gather_first(h);

	while (entry)
		entry = core_gather_next(h, entry);
}

/* ---- an acquire ------------------------------------------------------------------------------ */

uint32_t core_acquire_begin(struct core_host *h, int *err)
{
	struct core_place p CORE_UNINITIALIZED;

	*err = find_closing(h, &p);
	if (*err)
		return 0;
	h->ops->lock(h, core_key_closing());
	*err = p.d.closing->applying ? -EAGAIN : 0;
	p.d.closing->applying = 1;
	h->ops->unlock(h, core_key_closing());
	return *err ? 0 : rel_take_notices(p.rel.lists);
}

uint32_t core_acquire_next(struct core_host *h, uint32_t entry, bool *stale, int *err)
{
	const struct msg about = { .object = ops_of(h)->object(h, entry - 1),
				   .src = h->me,
				   .dst = h->me };
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;
	uint32_t next;
	int later;

	if (find_listed(h, &about, &p))
		return 0;
	/* a block in no list of notices has none that is not applied: rel_raises(), rel_asks() */
	h->ops->lock(h, p.key);
	next = rel_next_notice(p.d.rel);
	set_closes(&p);
	later = rel_step(&p.rel, p.d.rel, RE_APPLY, &about, &acts);
	rel_locked(h, about.object, &acts, NULL, NULL);
	if (later == -EAGAIN) {
		/* before a close looks at the block: it asks for nothing more */
		rel_notice(p.rel.lists, p.rel.blocks, p.rel.index);
		*err = -EAGAIN;
	} else {
		*stale |= rel_open(&p.rel, p.d.rel);
	}
	h->ops->unlock(h, p.key);
	return next;
}

int core_acquire_end(struct core_host *h, bool stale, int err)
{
	struct core_place p CORE_UNINITIALIZED;
	struct actions acts CORE_UNINITIALIZED;

	acts.n = 0;
	if (find_closing(h, &p))
		return err;
	h->ops->lock(h, core_key_closing());
	p.d.closing->applying = 0;
	if (stale)
		closing_step(p.d.closes, p.d.closing, CE_CLOSE, &no_msg, &acts);
	if (!closing_gathered(p.d.closing, p.d.closing->due))
		err = -EAGAIN;
	h->ops->unlock(h, core_key_closing());
	core_carry_closing(h, &acts);
	return err;
}

int core_acquire(struct core_host *h)
{
	bool stale = false;
	int err;
	uint32_t entry = core_acquire_begin(h, &err);

	if (err)
		return err == -EAGAIN ? err : 0;
	while (entry)
		entry = core_acquire_next(h, entry, &stale, &err);
	return core_acquire_end(h, stale, err);
}

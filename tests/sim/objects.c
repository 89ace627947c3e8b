// SPDX-License-Identifier: BSD-2-Clause
/*
 * objects.c - the homes' tables of objects, which the core fills and empties, and the check of each
 * of its steps.
 *
 * The first `nobjects` objects are made at the start and stay. The programs create and destroy
 * others, at a few nodes (hubs) and in few places, so that places are reused while threads still
 * have old handles.
 * The tables of all nodes are sections of one array, so a place has a number that no other home
 * uses.
 *
 * Checked at each step:
 *   - the generation of a place only grows, and nothing is created in a place whose object is not
 *     destroyed;
 *   - creation fails only if no place at that home is free;
 *   - a request that names a destroyed object is refused, and changes nothing in the place;
 *   - a request that names a living object is not refused as stale;
 *   - destruction fails with -EBUSY if the object is in use, and only then.
 * Checked at the end: each place has its last object, or is in the list of free places once, or its
 * generations are used up.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define HUBS 5u   /* nodes that are homes of such objects, at most */
#define PLACES 4u /* indices per home for objects that are created and destroyed */

static uint16_t hubs(const struct sim *s)
{
	return s->o.replay ? 0 : (uint16_t)(s->o.nodes < HUBS ? s->o.nodes : HUBS);
}

uint16_t objects_hub(struct sim *s)
{
	return (uint16_t)(sim_random(s, hubs(s)) * s->o.nodes / hubs(s));
}

static uint16_t home_of(const struct sim *s, uint32_t handle)
{
	return s->o.replay ? replay_home(s->o.replay, handle) : (uint16_t)(handle * 7 % s->o.nodes);
}

/*
 * Indices start at OBJECT, and the first one is unused. The array begins where OBJECT's chunk does.
 */
static struct sync *at_place(const struct sim *s, uint32_t place)
{
	return &s->objects[OBJECT % OBJECT_CHUNK + place];
}

static const struct made *latest(const struct sim *s, uint32_t place)
{
	return s->latest[place] ? &s->made[s->latest[place] - 1] : NULL;
}

struct objects objects_of(const struct sim *s, uint16_t home)
{
	return (struct objects){ .list = &s->lists[home],
				 .chunks = s->chunks,
				 .limit = OBJECT + s->first[home + 1] };
}

/* ---- handles --------------------------------------------------------------------------------- */

uint32_t objects_handle(struct sim *s, bool gone)
{
	uint32_t place = s->first[objects_hub(s) + 1] - 1 - (uint32_t)sim_random(s, PLACES);
	uint32_t h;

	for (h = s->latest[place]; h; h = s->made[h - 1].before)
		if (s->made[h - 1].known && (gone ? !s->made[h - 1].alive : sim_random(s, 4)))
			return h - 1;
	return NO_HANDLE;
}

static struct made *named(const struct sim *s, uint64_t name)
{
	uint32_t place = (uint32_t)(name & SYNC_INDEX_MAX), h;

	if (place <= OBJECT || place >= OBJECT + s->first[s->o.nodes])
		return NULL;
	for (h = s->latest[place - OBJECT]; h; h = s->made[h - 1].before)
		if (s->made[h - 1].name == name)
			return &s->made[h - 1];
	return NULL;
}

void objects_publish(struct sim *s, uint16_t node, uint64_t name)
{
	struct made *o = named(s, name);

	if (!o || o->known)
		sim_fail(s, (uint32_t)name, "node %u is told that it has made %#llx, which %s",
			 node, (unsigned long long)name, o ? "another has" : "was never made");
	o->known = true;
}

/* ---- the specification ----------------------------------------------------------------------- */

bool objects_used(const struct made *o)
{
	return o->line || o->holders || o->turns || (o->kind == SYNC_MUTEX && o->inside);
}

void objects_left(struct sim *s, struct made *o, uint32_t *count)
{
	if (!*count)
		sim_fail(s, (uint32_t)o->name, "one more leaves object %#llx than came",
			 (unsigned long long)o->name);
	--*count;
	o->used = s->now;
}

/* Could an object be created at this home? */
static bool has_room(const struct sim *s, uint16_t home)
{
	uint32_t place;

	for (place = s->first[home]; place < s->first[home + 1]; place++)
		if (s->last_gen[place] < OBJECT_GEN_MAX &&
		    (!latest(s, place) || !latest(s, place)->alive))
			return true;
	return false;
}

static struct made *another(struct sim *s)
{
	if (s->nmade == s->made_room) {
		s->made_room = s->made_room ? s->made_room * 2 : 64;
		s->made = realloc(s->made, s->made_room * sizeof(*s->made));
		if (!s->made)
			abort();
	}
	return &s->made[s->nmade++];
}

static void judge_create(struct sim *s, const struct msg *m, const struct actions *out)
{
	const struct msg *a = &out->v[0].msg;
	uint32_t place = (uint32_t)(a->value & SYNC_INDEX_MAX) - OBJECT,
		 gen = (uint32_t)(a->value >> 24);

	if (out->n != 1 || a->type != MSG_REPLY || a->dst != m->src || a->req_slot != m->req_slot)
		sim_fail(s, OBJECT, "the creation of %u.%u has %u answers", m->src, m->req_slot,
			 out->n);
	if (a->count == -ENOSPC && !has_room(s, m->dst))
		return;
	if (a->count)
		sim_fail(s, OBJECT, "a creation is answered %d", a->count);
	if (place < s->first[m->dst] || place >= s->first[m->dst + 1])
		sim_fail(s, OBJECT, "node %u makes an object in place %u", m->dst, place);
	if (latest(s, place) && latest(s, place)->alive)
		sim_fail(s, OBJECT | place,
			 "%#llx is made in the place of %#llx, which is not destroyed",
			 (unsigned long long)a->value, (unsigned long long)latest(s, place)->name);
	if (gen <= s->last_gen[place] || gen > OBJECT_GEN_MAX)
		sim_fail(s, OBJECT | place, "generation %#x comes after %#x", gen,
			 s->last_gen[place]);
	if (at_place(s, place)->gen != gen || at_place(s, place)->kind != m->aux ||
	    at_place(s, place)->value != m->value || !sync_idle(at_place(s, place)))
		sim_fail(s, OBJECT | place, "a new %s is not as it was asked for",
			 sync_kind_name(m->aux));
	s->last_gen[place] = gen;
	*another(s) = (struct made){ .name = a->value,
				     .value = m->value,
				     .added = m->aux == SYNC_ATOMIC ? m->value : 0,
				     .before = s->latest[place],
				     .home = m->dst,
				     .kind = (uint8_t)m->aux,
				     .alive = true };
	s->latest[place] = s->nmade;
	s->st.made++;
}

/*
 * The handle names a destroyed object: the request must be refused, and must not change the object
 * that has its index now.
 */
static void judge_gone(struct sim *s, const struct msg *m, const struct sync *before,
		       const struct actions *out)
{
	const struct sync *now = at_place(s, object_index(m) - OBJECT);
	const struct msg *a = &out->v[0].msg;
	/* another node has destroyed the lock since this one took it */
	bool unlocks = m->type == MSG_UNLOCK;

	if (memcmp(before, now, sizeof(*now)))
		sim_fail(s, m->object,
			 "%s by generation %#x, which is gone, changes generation %#x",
			 wire_name(m->type), object_gen(m), now->gen);
	if (out->n != 1 || a->type != (m->type == MSG_SYNC ? MSG_REPLY : MSG_FREED) ||
	    a->dst != m->src || a->req_slot != m->req_slot || a->count != (unlocks ? 0 : -EINVAL) ||
	    a->value != unlocks)
		sim_fail(s, m->object, "%s by generation %#x, which is gone, has %u answers: %s %d",
			 m->type == MSG_SYNC ? sync_op_name(m->op) : wire_name(m->type),
			 object_gen(m), out->n, out->n ? wire_name(a->type) : "-", a->count);
	s->st.stale++;
}

/*
 * a: the answer to the destruction of an existing object. A mutex may be found in use though nobody
 * uses it any more when the answer is sent.
 */
static void judge_destroy(struct sim *s, struct made *o, const struct msg *a)
{
	const struct thread *t = sim_thread(s, a->dst, a->req_slot);
	const struct sync *now = at_place(s, (uint32_t)(o->name & SYNC_INDEX_MAX) - OBJECT);
	bool mutex = o->kind == SYNC_MUTEX;

	if (a->count == -EINPROGRESS && (mutex || (o->kind == SYNC_COND && objects_used(o))))
		return;
	if (a->count == -EBUSY && (objects_used(o) || (mutex && o->used >= t->since))) {
		s->st.busy++;
		return;
	}
	if (a->count || objects_used(o) || now->kind != SYNC_NONE)
		sim_fail(
			s, (uint32_t)o->name,
			"destruction is answered %d: %u in line, %u hold it, %u turns, %u inside; then it is a %s",
			a->count, o->line, o->holders, o->turns, o->inside,
			sync_kind_name(now->kind));
	o->alive = false;
	s->st.unmade++;
}

static void judge_mutex(struct sim *s, struct made *o, const struct msg *m,
			const struct actions *out)
{
	unsigned int i;

	o->line += m->type == MSG_LOCK || m->type == MSG_TRYLOCK;
	for (i = 0; i < out->n; i++) {
		const struct msg *a = &out->v[i].msg;

		if (a->count == -EINVAL)
			sim_fail(s, m->object, "%s of a living mutex is refused",
				 wire_name(m->type));
		if (a->type == MSG_FREED && a->count)
			objects_left(s, o, &o->line);
		if (a->type == MSG_REPLY)
			judge_destroy(s, o, a);
	}
}

/* Check the answer to a request that does not queue. */
static void judge_answer(struct sim *s, struct made *o, const struct msg *m, const struct msg *a)
{
	int want = 0;

	switch (m->op) {
	case SOP_DESTROY: judge_destroy(s, o, a); return;
	case SOP_TRYRDLOCK:
	case SOP_TRYWRLOCK:
		if (a->count == -EBUSY && objects_used(o))
			return;
		o->holders++;
		break;
	case SOP_RDUNLOCK:
	case SOP_WRUNLOCK: objects_left(s, o, &o->holders); break;
	case SOP_CANCEL:
		want = a->count == -ETIMEDOUT ? -ETIMEDOUT : -EALREADY;
		if (a->count == -ETIMEDOUT)
			objects_left(s, o, &o->line);
		break;
	case SOP_ADD:
		if (a->value != o->value)
			sim_fail(s, m->object, "an addition finds %llu instead of %llu",
				 (unsigned long long)a->value, (unsigned long long)o->value);
		o->value += m->value;
		break;
	default: break;
	}
	if (a->count != want)
		sim_fail(s, m->object, "%s of a living object is answered %d", sync_op_name(m->op),
			 a->count);
}

static void judge_living(struct sim *s, struct made *o, const struct msg *m,
			 const struct actions *out)
{
	bool waits = m->type == MSG_SYNC && sync_waits(m->op), own = m->type == MSG_SYNC && !waits;
	unsigned int i;

	o->line += waits;
	if (m->type == MSG_RESUME)
		objects_left(s, o, &o->turns);
	for (i = 0; i < out->n; i++) {
		const struct msg *a = &out->v[i].msg;

		if (a->type == MSG_RESUME) {
			o->turns++;
		} else if (own && a->dst == m->src && a->req_slot == m->req_slot) {
			own = false;
			judge_answer(s, o, m, a);
		} else if (a->count) {
			sim_fail(s, m->object,
				 "a request to wait for a living object is answered %d", a->count);
		} else if (!waits || a->value != 1) { /* a value of 1 means "in line" */
			objects_left(s, o, &o->line);
			o->holders += o->kind == SYNC_RWLOCK;
		}
	}
	if (own)
		sim_fail(s, m->object, "%s is not answered", sync_op_name(m->op));
}

void objects_judge(struct sim *s, const struct msg *m, const struct sync *before,
		   const struct actions *out)
{
	struct made *o;

	if (m->type == MSG_SYNC && m->op == SOP_CREATE) {
		judge_create(s, m, out);
		return;
	}
	o = named(s, object_name(object_index(m), object_gen(m)));
	if (!o || o->home != m->dst)
		sim_fail(s, m->object, "%s names generation %#x, which was never made",
			 wire_name(m->type), object_gen(m));
	if (!o->alive)
		judge_gone(s, m, before, out);
	else if (o->kind == SYNC_MUTEX)
		judge_mutex(s, o, m, out);
	else {
		judge_living(s, o, m, out);
		release_ordered(s, o, m, out);
	}
}

/* ---- at rest --------------------------------------------------------------------------------- */

/* The mutex is kept by one record, which the home takes for the last in line. */
static bool kept(const struct sim *s, const struct made *made, const struct sync *o)
{
	unsigned int i, n = 0;
	uint64_t by = 0;

	for (i = 0; i < s->o.nodes * s->nholds; i++)
		if (s->holds[i].state == HOLD_CACHED && hold_is(&s->holds[i], made)) {
			by = ((uint64_t)(i / s->nholds) << 32 | i % s->nholds) + 1;
			n++;
		}
	return o->kind == SYNC_MUTEX && !o->pumping && n == 1 && o->value == by;
}

static void check_living(struct sim *s, const struct made *made, const struct sync *o)
{
	unsigned long long name = made->name, value = o->value;

	if (o->kind != made->kind || o->gen != made->name >> 24)
		sim_fail(s, (uint32_t)name, "in the end object %#llx is a %s of generation %#x",
			 name, sync_kind_name(o->kind), o->gen);
	if (!sync_idle(o) && !kept(s, made, o))
		sim_fail(s, (uint32_t)name, "in the end object %#llx is not idle", name);
	if (o->kind == SYNC_SEM && value != made->value)
		sim_fail(s, (uint32_t)name, "in the end semaphore %#llx is %llu", name, value);
	if (o->kind == SYNC_ATOMIC && (value != made->value || value != made->added))
		sim_fail(s, (uint32_t)name,
			 "in the end atomic %#llx is %llu: %llu were to be added, %llu are known",
			 name, value, (unsigned long long)made->value,
			 (unsigned long long)made->added);
}

/* Each free index is in the list once or above the mark, and no other index is. */
static void check_places(struct sim *s, uint16_t home)
{
	uint32_t at = (uint32_t)s->lists[home].free, place = 0;
	uint32_t low = OBJECT + s->first[home], high = OBJECT + s->first[home + 1],
		 fresh = s->lists[home].fresh;
	bool *seen = calloc(high - low, sizeof(*seen));

	if (!seen)
		abort();
	for (; at; at = at_place(s, at - OBJECT)->tail) {
		if (at < low || at > fresh || seen[at - low])
			break;
		seen[at - low] = true;
	}
	for (place = low; !at && place < high; place++) {
		const struct made *made = latest(s, place - OBJECT);
		bool taken = made && (made->alive || made->name >> 24 == OBJECT_GEN_MAX);

		if (seen[place - low] != (made && !taken) || (place > fresh) != !made)
			break;
		if (made && !made->alive && at_place(s, place - OBJECT)->kind != SYNC_NONE)
			break;
	}
	free(seen);
	if (at)
		sim_fail(
			s, at,
			"in the end node %u has place %u in its list of free places, or has it twice",
			home, at - OBJECT);
	if (place < high)
		sim_fail(s, place, "in the end place %u of node %u is lost, or both free and taken",
			 place - OBJECT, home);
}

void objects_check_rest(struct sim *s)
{
	uint32_t i;
	uint16_t r;

	for (i = 0; i < s->nmade; i++) {
		const struct made *o = &s->made[i];

		if (o->inside || o->line || o->holders || o->turns || !o->known)
			sim_fail(s, (uint32_t)o->name,
				 "in the end %u are inside object %#llx, %u in line, %u hold it",
				 o->inside, (unsigned long long)o->name, o->line, o->holders);
		if (o->alive)
			check_living(s, o,
				     at_place(s, (uint32_t)(o->name & SYNC_INDEX_MAX) - OBJECT));
	}
	for (r = 0; r < s->o.nodes; r++)
		check_places(s, r);
}

/* ---- creation -------------------------------------------------------------------------------- */

/*
 * The first generation of an index: sometimes close to the last one, sometimes close to the
 * overflow of the part in `object`.
 */
static uint32_t start_gen(struct sim *s)
{
	switch (sim_random(s, 8)) {
	case 0: return OBJECT_GEN_MAX - 1 - (uint32_t)sim_random(s, 6);
	case 1:
	case 2: return 0xff - (uint32_t)sim_random(s, 3);
	case 3:
	case 4: return 0xffff - (uint32_t)sim_random(s, 3);
	default: return (uint32_t)sim_random(s, OBJECT_GEN_MAX / 2);
	}
}

static void tables(struct sim *s)
{
	uint32_t i, n;
	uint16_t r;

	s->first = zeroed(s->o.nodes + 1, sizeof(*s->first));
	s->lists = zeroed(s->o.nodes, sizeof(*s->lists));
	for (i = 0; i < s->nobjects; i++)
		s->first[home_of(s, i) + 1]++;
	for (i = 0; i < hubs(s); i++)
		s->first[i * s->o.nodes / hubs(s) + 1] += PLACES;
	s->first[0] = 1;
	for (r = 0; r < s->o.nodes; r++) {
		s->lists[r].fresh = OBJECT + s->first[r] - 1;
		s->first[r + 1] += s->first[r];
	}
	n = (OBJECT % OBJECT_CHUNK + s->first[s->o.nodes] + OBJECT_CHUNK - 1) / OBJECT_CHUNK;
	s->objects = zeroed((size_t)n * OBJECT_CHUNK, sizeof(*s->objects));
	s->chunks = zeroed(OBJECT / OBJECT_CHUNK + n, sizeof(*s->chunks));
	for (i = 0; i < n; i++)
		s->chunks[OBJECT / OBJECT_CHUNK + i] = &s->objects[i * OBJECT_CHUNK];
	s->latest = zeroed(s->first[s->o.nodes], sizeof(*s->latest));
	s->last_gen = zeroed(s->first[s->o.nodes], sizeof(*s->last_gen));
	for (i = 1; i < s->first[s->o.nodes]; i++)
		at_place(s, i)->gen = s->last_gen[i] = start_gen(s) & OBJECT_GEN_MAX;
}

/* Create the objects that stay; they have the first handles. */
void objects_create(struct sim *s)
{
	struct actions out;
	uint32_t i;

	tables(s);
	for (i = 0; i < s->nobjects; i++) {
		uint8_t kind = s->o.replay ? SYNC_MUTEX : (uint8_t)(SYNC_MUTEX + i % KINDS);
		struct msg m = { .version = WIRE_VERSION,
				 .type = MSG_SYNC,
				 .op = SOP_CREATE,
				 .src = home_of(s, i),
				 .dst = home_of(s, i),
				 .aux = kind,
				 .value = kind == SYNC_SEM ? SEM_TOKENS : 0 };

		sim_step(s, &m, &out);
		objects_publish(s, m.src, out.v[0].msg.value);
	}
	s->st = (struct stats){ 0 };
}

void objects_destroy(struct sim *s)
{
	void *all[] = {
		s->objects, s->chunks, s->lists, s->first, s->latest, s->last_gen, s->made
	};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
}

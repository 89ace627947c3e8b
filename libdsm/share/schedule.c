// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* schedule.c - the turns of flows. Called by one thread at a time. */
#include "share/schedule.h"

static void unlink_flow(struct rs_flow *f)
{
	if (!f->on)
		return;
	*(f->prev ? &f->prev->next : &f->on->head) = f->next;
	*(f->next ? &f->next->prev : &f->on->tail) = f->prev;
	f->next = f->prev = 0;
	f->on = 0;
}

static void append(struct rs_turns *t, struct rs_flow *f)
{
	f->next = 0;
	f->prev = t->tail;
	*(t->tail ? &t->tail->next : &t->head) = f;
	t->tail = f;
	f->on = t;
}

static void prepend(struct rs_turns *t, struct rs_flow *f)
{
	f->prev = 0;
	f->next = t->head;
	*(t->head ? &t->head->prev : &t->tail) = f;
	t->head = f;
	f->on = t;
}

/* Give a flow its share of an epoch. A debt stays, a surplus is lost. */
static void new_share(const struct rs_sched *s, struct rs_flow *f, uint32_t epoch)
{
	f->share = (f->share < 0 ? f->share : 0) + (int32_t)(f->weight * s->chunk);
	f->epoch = epoch;
}

static void link_weighted(struct rs_sched *s, struct rs_flow *f)
{
	if ((int32_t)(f->epoch - s->epoch) < 0)
		new_share(s, f, s->epoch); /* it was idle when this epoch began */
	else if (f->epoch == s->epoch && f->share <= 0)
		new_share(s, f, s->epoch + 1);
	append(f->epoch == s->epoch ? &s->turns[0] : &s->expired, f);
}

/* Put the flow at the end of its list if it has something to send and need not wait for a lane. */
static void link_flow(struct rs_sched *s, struct rs_flow *f)
{
	if (f->on || f->moving || f->first == f->end)
		return;
	if (f->priority)
		append(&s->turns[f->priority], f);
	else if (!f->held)
		link_weighted(s, f);
}

static bool is_long(const struct rs_sched *s, uint32_t len)
{
	return len > s->chunk / 2;
}

static bool lane_fits(const struct rs_sched *s, uint8_t lane, uint32_t len)
{
	const struct rs_window *w = &s->lane[lane];
	const bool narrow =
		lane == RS_WEIGHTED && s->alert && s->narrow < w->max_bytes && is_long(s, len);
	const uint32_t max_bytes = narrow ? s->narrow : w->max_bytes;

	if (w->chunks >= w->max_chunks)
		return false;
	/* A chunk larger than the window is sent alone. */
	return !w->bytes || (w->bytes <= max_bytes && rs_cost(len) <= max_bytes - w->bytes);
}

static struct rs_flow *first_not_held(const struct rs_turns *t)
{
	struct rs_flow *f = t->head;

	while (f && f->held)
		f = f->next;
	return f;
}

/* The next flow. A new epoch begins when the flows of this one have used their shares. */
static struct rs_flow *next_flow(struct rs_sched *s)
{
	unsigned int p;

	for (p = RS_PRIORITIES - 1; p; p--)
		if (s->turns[p].head)
			return first_not_held(&s->turns[p]);
	if (!s->turns[0].head && s->expired.head) {
		struct rs_flow *f = s->expired.head;

		s->epoch++;
		s->turns[0] = s->expired;
		s->expired.head = s->expired.tail = 0;
		for (; f; f = f->next)
			f->on = &s->turns[0];
	}
	return s->turns[0].head;
}

void rs_sched_init(struct rs_sched *s, uint32_t chunk, const uint32_t max_bytes[RS_LANES],
		   const uint32_t max_chunks[RS_LANES])
{
	unsigned int i;

	*s = (struct rs_sched){ .chunk = chunk, .epoch = 1 };
	for (i = 0; i < RS_LANES; i++) {
		s->lane[i].max_bytes = max_bytes[i];
		s->lane[i].max_chunks = max_chunks[i];
	}
}

void rs_sched_narrow(struct rs_sched *s, uint32_t bytes)
{
	s->narrow = bytes;
	s->alert = 0;
}

static enum rs_lane lane_for(uint8_t priority)
{
	return priority ? RS_STRICT : RS_WEIGHTED;
}

void rs_flow_init(struct rs_flow *f, uint8_t priority, uint8_t weight)
{
	rs_flow_init_on(f, priority, weight, lane_for(priority));
}

void rs_flow_init_on(struct rs_flow *f, uint8_t priority, uint8_t weight, enum rs_lane lane)
{
	*f = (struct rs_flow){ .priority = priority, .weight = weight, .lane = (uint8_t)lane };
}

enum rs_lane rs_flow_lane(const struct rs_flow *f)
{
	return (enum rs_lane)f->lane;
}

/* Note an operation. True if it is a short message of an idle flow that sends no long ones. */
static bool is_urgent(const struct rs_sched *s, struct rs_flow *f, uint32_t len, uint8_t extra)
{
	if (len > s->chunk + extra)
		f->bulky = RS_BULKY_OPS;
	else if (f->bulky)
		f->bulky--;
	return s->narrow && !f->bulky && !is_long(s, len) && f->first == f->end && !f->outstanding;
}

bool rs_sched_push_longer(struct rs_sched *s, struct rs_flow *f, uint32_t len, uint8_t extra)
{
	bool urgent;

	if (f->end - f->first == RS_FLOW_OPS)
		return false;
	urgent = is_urgent(s, f, len, extra);
	if (urgent)
		s->alert = RS_ALERT_CHUNKS;
	f->extra[f->end % RS_FLOW_OPS] = extra;
	f->len[f->end++ % RS_FLOW_OPS] = len;
	link_flow(s, f);
	if (urgent && f->on == &s->turns[0]) {
		unlink_flow(f);
		prepend(&s->turns[0], f);
	}
	return true;
}

bool rs_sched_push(struct rs_sched *s, struct rs_flow *f, uint32_t len)
{
	return rs_sched_push_longer(s, f, len, 0);
}

/* Size of the next chunk in bytes. */
static uint32_t next_len(const struct rs_sched *s, const struct rs_flow *f)
{
	const uint32_t left = f->len[f->first % RS_FLOW_OPS] - f->sent;
	const uint32_t most = s->chunk + f->extra[f->first % RS_FLOW_OPS];

	return left < most ? left : most;
}

struct rs_flow *rs_sched_next(struct rs_sched *s)
{
	struct rs_flow *f = next_flow(s);

	return f && lane_fits(s, f->lane, next_len(s, f)) ? f : 0;
}

void rs_sched_take(struct rs_sched *s, struct rs_flow *f, struct rs_chunk *out)
{
	const uint32_t len = next_len(s, f);
	struct rs_window *w = &s->lane[f->lane];

	*out = (struct rs_chunk){
		.flow = f, .op = f->first, .offset = f->sent, .len = len, .lane = f->lane
	};
	f->sent += len;
	out->last = f->sent == f->len[f->first % RS_FLOW_OPS];
	if (out->last) {
		f->first++;
		f->sent = 0;
	}
	if (s->alert && is_long(s, len))
		s->alert--;
	f->outstanding++;
	w->bytes += rs_cost(len);
	w->chunks++;
	if (!f->priority)
		f->share -= (int32_t)rs_cost(len);
	unlink_flow(f);
	link_flow(s, f);
}

unsigned int rs_sched_pick(struct rs_sched *s, struct rs_chunk *out, unsigned int max)
{
	struct rs_flow *f;
	unsigned int n = 0;

	while (n < max && (f = rs_sched_next(s))) {
		const bool alone = s->alert && is_long(s, next_len(s, f));

		if (alone && n)
			break;
		rs_sched_take(s, f, &out[n++]);
		if (alone)
			break;
	}
	return n;
}

void rs_sched_hold(struct rs_sched *s, struct rs_flow *f)
{
	(void)s;
	f->held = true;
	if (!f->priority)
		unlink_flow(f);
}

void rs_sched_resume(struct rs_sched *s, struct rs_flow *f)
{
	f->held = false;
	link_flow(s, f);
}

static void flow_apply(struct rs_sched *s, struct rs_flow *f)
{
	f->moving = false;
	f->priority = f->next_priority;
	f->weight = f->next_weight;
	f->lane = (uint8_t)lane_for(f->priority);
	if (f->share > (int32_t)(f->weight * s->chunk))
		f->share = (int32_t)(f->weight * s->chunk);
	link_flow(s, f);
}

void rs_sched_done(struct rs_sched *s, struct rs_flow *f, enum rs_lane lane, uint32_t len)
{
	s->lane[lane].bytes -= rs_cost(len);
	s->lane[lane].chunks--;
	f->outstanding--;
	if (f->moving && !f->outstanding)
		flow_apply(s, f);
}

void rs_sched_set(struct rs_sched *s, struct rs_flow *f, uint8_t priority, uint8_t weight)
{
	f->next_priority = priority;
	f->next_weight = weight;
	unlink_flow(f);
	f->moving = lane_for(priority) != rs_flow_lane(f) && f->outstanding;
	if (!f->moving)
		flow_apply(s, f);
}

void rs_sched_drop(struct rs_sched *s, struct rs_flow *f)
{
	(void)s;
	unlink_flow(f);
	f->first = f->end;
	f->sent = 0;
}

bool rs_sched_backlog(const struct rs_sched *s)
{
	unsigned int p;

	for (p = 0; p < RS_PRIORITIES; p++)
		if (s->turns[p].head)
			return true;
	return s->expired.head;
}

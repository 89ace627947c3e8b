// SPDX-License-Identifier: BSD-2-Clause
/*
 * call.c - calls with answers of any size: names of regions, statistics, frees.
 *
 * Most calls need only the callee's control segment, so the caller itself serves them when it shares the callee's host.
 * CALL_FIND and CALL_VECTORS need the callee's private memory: they go to its service thread, through mail on the same host.
 */
#include "engine/engine.h"

#include <string.h>

#include "util/futex.h"
#include "util/log.h"

#define CALL_MAX 4096

/* Answers from other hosts, by slot. */
static struct {
	uint32_t size;
	char text[CALL_MAX];
} answers[CTL_SYNC_SLOTS];

/* Calls that came from other hosts and wait for the service thread. */
static struct {
	uint32_t lock, head, tail;
	struct msg m[CTL_MAIL];
	uint64_t arg[CTL_MAIL];
} inbox;

static int find(uint64_t arg, void *out, size_t room)
{
	struct found {
		struct heap_object object;
		char site[128];
	} f;
	int err;

	if (room < sizeof(f))
		return -EINVAL;
	memset(&f, 0, sizeof(f));
	err = heap_find((void *)(uintptr_t)arg, &f.object);
	if (err)
		return err;
	if (f.object.site)
		heap_site_name(f.object.site, f.site, sizeof(f.site));
	memcpy(out, &f, sizeof(f));
	return 0;
}

/* What only the callee's process can tell. */
static int serve_private(enum call_op op, uint64_t arg, void *out, size_t room)
{
	_Static_assert(sizeof(struct stats_vectors) <= CTL_TEXT, "it fits in a mail");
	if (op == CALL_FIND)
		return find(arg, out, room);
	if (op != CALL_VECTORS || room < sizeof(struct stats_vectors))
		return -EINVAL;
	stats_vectors(out);
	return 0;
}

int call_serve(uint16_t rank, uint16_t from, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size)
{
	uint64_t args[2] = { 0, 0 };

	memcpy(args, in, in_size < sizeof(args) ? in_size : sizeof(args));
	switch (op) {
	case CALL_FREE:
		*out_size = 0;
		return heap_free(peer_of(rank)->heap, (void *)(uintptr_t)args[0]);
	case CALL_QUIET:
		*out_size = 0;
		return region_quiet(rank, args[0], args[1]);
	case CALL_PURGE:
		*out_size = 0;
		return region_purge(rank, args[0], args[1]);
	case CALL_STATS:
		if (*out_size < sizeof(struct dsm_stats))
			return -EINVAL;
		*out_size = sizeof(struct dsm_stats);
		return stats_serve(rank, (uint32_t)args[0], out);
	case CALL_HOT: {
		int n = stats_hot_serve(rank, out, (int)(*out_size / sizeof(struct hot)));

		*out_size = n < 0 ? 0 : (size_t)n * sizeof(struct hot);
		return n < 0 ? n : 0;
	}
	case CALL_FIND:
		if (rank != job.rank)
			return -EINVAL;
		return find(args[0], out, *out_size);
	case CALL_VECTORS:
		if (rank != job.rank)
			return -EINVAL;
		return serve_private(op, 0, out, *out_size);
	default:
		if (rank != 0)
			return -EINVAL;
		return region_serve(&peer_of(0)->ctl->registry, from, op, in, in_size, out, out_size);
	}
}

/* On the same host, by the callee's service thread. */
static int call_by_mail(uint16_t rank, enum call_op op, const void *in, void *out, size_t out_size)
{
	struct ctl *c = peer_of(rank)->ctl;
	unsigned int i;
	int status;

	if (out_size > sizeof(c->mail[0].text))
		return -EMSGSIZE;
	for (i = 0;; i = (i + 1) % CTL_MAIL) {
		uint32_t zero = 0;

		if (__atomic_compare_exchange_n(&c->mail[i].state, &zero, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			break;
		lost_check();
	}
	c->mail[i].op = op;
	memcpy(&c->mail[i].arg, in, sizeof(c->mail[i].arg));
	__atomic_store_n(&c->mail[i].state, 2, __ATOMIC_RELEASE);
	service_ring(rank);
	while (__atomic_load_n(&c->mail[i].state, __ATOMIC_ACQUIRE) == 2) {
		lost_check();
		futex_wait(&c->mail[i].state, 2, 100000000);
	}
	status = c->mail[i].status;
	if (!status)
		memcpy(out, c->mail[i].text, out_size);
	__atomic_store_n(&c->mail[i].state, 0, __ATOMIC_RELEASE);
	return status;
}

static int call_by_message(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t out_size)
{
	struct msg m = { .version = WIRE_VERSION, .type = MSG_CALL, .op = (uint8_t)op, .src = job.rank, .dst = rank,
			 .req_rank = job.rank, .aux = (uint32_t)out_size };
	uint16_t slot = slot_get();
	uint32_t seq = slot_seq(slot);
	int err;

	m.req_slot = slot;
	count(&job.me->stats.messages_out, 1);
	err = job.netops->send(job.net, rank, &m, in, in_size);
	if (err)
		lost_rank(rank, "it cannot be reached");
	slot_wait(slot, seq, 1, 0);
	err = job.me->slots[slot].status;
	if (!err && out_size)
		memcpy(out, answers[slot].text, out_size < answers[slot].size ? out_size : answers[slot].size);
	if (!err && op == CALL_HOT)
		err = (int)answers[slot].size;
	slot_put(job.rank, slot);
	return err;
}

int call_rank(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t out_size)
{
	size_t got = out_size;
	int err;

	if (out_size > CALL_MAX || in_size > CALL_MAX)
		return -EMSGSIZE;
	engine_depth++;
	if (!is_here(rank)) {
		err = call_by_message(rank, op, in, in_size, out, out_size);
	} else if ((op == CALL_FIND || op == CALL_VECTORS) && rank != job.rank) {
		err = call_by_mail(rank, op, in, out, out_size);
	} else {
		err = call_serve(rank, job.rank, op, in, in_size, out, &got);
		if (!err && op == CALL_HOT)
			err = (int)got;
	}
	engine_depth--;
	return err;
}

static void answer(const struct msg *call, int status, const void *out, size_t size)
{
	struct msg m = { .version = WIRE_VERSION, .type = MSG_RETURN, .op = call->op, .src = call->dst, .dst = call->src,
			 .req_rank = call->src, .req_slot = call->req_slot, .count = (int16_t)status };

	if (job.netops->send(job.net, call->src, &m, out, status ? 0 : size))
		lost_rank(call->src, "it cannot be reached");
}

void call_arrived(const struct msg *m, const void *payload, size_t size)
{
	char out[CALL_MAX];
	size_t room = m->aux < CALL_MAX ? m->aux : CALL_MAX;
	int status;

	if (m->op != CALL_FIND) {
		status = call_serve(m->dst, m->src, (enum call_op)m->op, payload, size, out, &room);
		answer(m, status, out, room);
		return;
	}
	word_lock(&inbox.lock);
	if (inbox.tail - inbox.head < CTL_MAIL && size >= sizeof(uint64_t)) {
		inbox.m[inbox.tail % CTL_MAIL] = *m;
		memcpy(&inbox.arg[inbox.tail++ % CTL_MAIL], payload, sizeof(uint64_t));
		word_unlock(&inbox.lock);
		service_ring(job.rank);
	} else {
		word_unlock(&inbox.lock);
		answer(m, -EAGAIN, NULL, 0);
	}
}

void call_returned(const struct msg *m, const void *payload, size_t size)
{
	if (m->req_slot >= CTL_SYNC_SLOTS || size > CALL_MAX)
		return;
	answers[m->req_slot].size = (uint32_t)size;
	if (size)
		memcpy(answers[m->req_slot].text, payload, size);
	slot_complete(job.rank, m->req_slot, m->count, 0);
}

void call_mail(void)
{
	unsigned int i;

	for (i = 0; i < CTL_MAIL; i++) {
		struct mail *l = &job.me->mail[i];

		if (__atomic_load_n(&l->state, __ATOMIC_ACQUIRE) != 2)
			continue;
		l->status = serve_private((enum call_op)l->op, l->arg, l->text, sizeof(l->text));
		__atomic_store_n(&l->state, 3, __ATOMIC_RELEASE);
		futex_wake(&l->state, 1);
	}
	for (;;) {
		char out[CTL_TEXT];
		struct msg m;
		uint64_t arg;
		int status;

		word_lock(&inbox.lock);
		if (inbox.head == inbox.tail) {
			word_unlock(&inbox.lock);
			return;
		}
		m = inbox.m[inbox.head % CTL_MAIL];
		arg = inbox.arg[inbox.head++ % CTL_MAIL];
		word_unlock(&inbox.lock);
		status = find(arg, out, sizeof(out));
		answer(&m, status, out, sizeof(struct heap_object) + 128);
	}
}

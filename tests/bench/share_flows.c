// SPDX-License-Identifier: BSD-2-Clause
/*
 * share_flows.c - experiments with flows of short and of long messages.
 *
 *   mice         COUNT flows, half of them mice of SIZE bytes, half elephants of 4 MiB; side equal:
 *                one priority; strict: mice have a higher one; events, poll: each flow has a native
 *                queue pair, and each mouse sleeps or polls
 *   class        COUNT flows of mice with a high priority, beside the elephants of `load` in
 *                another process
 *   load         COUNT flows of elephants, until the end of stdin; a byte to fd SHARE_LOADED once
 *                they are under way
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "share.h"

#define ELEPHANT (4u << 20)
#define MOUSE_EVERY_US 2000

/* ---- mice and elephants --------------------------------------------------------------------- */

struct flow {
	pthread_t thread;
	const struct share_options *o;
	struct rshare_conn *c;
	struct share_native *n; /* instead of c */
	bool sleeping;
	uint64_t sent; /* messages of a native elephant */
	char *buf;
	/* since the send, and since the moment at which it was due */
	struct share_samples times, late;
};

/* Wait for the completion of a send. */
static void native_sent(struct flow *f)
{
	bool armed = false;
	struct ibv_wc wc;

	while (!share_native_poll(f->n, &wc, 1)) {
		if (!f->sleeping)
			continue;
		if (armed)
			share_native_wait(f->n);
		else
			share_must(-ibv_req_notify_cq(f->n->dev.cq, 0), "arming");
		armed = !armed;
	}
}

static void send_mouse(struct flow *f)
{
	if (f->n) {
		share_native_send(f->n, f->o->size, 0);
		native_sent(f);
		return;
	}
	share_must(rshare_send(f->c, f->buf, f->o->size, 0), "rshare_send");
	share_next_of(f->c, RSHARE_SENT);
}

static void *mouse(void *arg)
{
	struct flow *f = arg;
	double start, end, due = share_now_us();

	while (!share_stopped()) {
		start = share_now_us();
		send_mouse(f);
		end = share_now_us();
		share_sample(&f->times, end - start);
		share_sample(&f->late, end - due);
		due = end + MOUSE_EVERY_US;
		usleep(MOUSE_EVERY_US);
	}
	return NULL;
}

/* Two messages under way, until the mice are done. */
static void *elephant(void *arg)
{
	struct flow *f = arg;
	int i;

	for (i = 0; i < 2; i++)
		share_must(rshare_send(f->c, f->buf, ELEPHANT, 0), "rshare_send");
	while (!share_stopped()) {
		share_next_of(f->c, RSHARE_SENT);
		share_must(rshare_send(f->c, f->buf, ELEPHANT, 0), "rshare_send");
	}
	return NULL;
}

static void *native_elephant(void *arg)
{
	struct flow *f = arg;
	int i;

	for (i = 0; i < 2; i++)
		share_native_send(f->n, ELEPHANT, 0);
	for (; i; __atomic_fetch_add(&f->sent, 1, __ATOMIC_RELAXED)) {
		native_sent(f);
		if (share_stopped())
			i--;
		else
			share_native_send(f->n, ELEPHANT, 0);
	}
	return NULL;
}

/* Chunks that were posted; of native queue pairs, messages that have arrived. */
static uint64_t elephant_chunks(const struct flow *flows, unsigned int n)
{
	struct rshare_stats stats;
	uint64_t chunks = 0;
	unsigned int i;

	for (i = 1; i < n; i += 2) {
		if (flows[i].n) {
			chunks += __atomic_load_n(&flows[i].sent, __ATOMIC_RELAXED);
			continue;
		}
		share_must(rshare_get_stats(flows[i].c, &stats), "rshare_get_stats");
		chunks += stats.chunks_sent;
	}
	return chunks;
}

static struct flow flows[16];

static void begin_flow(struct flow *f, const struct share_options *o, bool heavy,
		       unsigned int priority, char *buf)
{
	f->o = o;
	f->buf = buf;
	f->c = share_dial(heavy ? SHARE_SERVICE(SHARE_SINK, 22, 1)
				: SHARE_SERVICE(SHARE_SINK, 12, 5),
			  priority);
	share_next_of(f->c, RSHARE_CONNECTED);
}

static void begin_native(struct flow *f, const struct share_options *o, bool heavy)
{
	f->o = o;
	f->sleeping = heavy || !strcmp(o->side, "events");
	f->n = share_native_dial(heavy ? ELEPHANT : o->size, false, f->sleeping);
}

static void start_flow(struct flow *f, void *(*run)(void *))
{
	share_must(-pthread_create(&f->thread, NULL, run, f), "a thread");
}

/* The mice of every step-th flow, for as long as was asked for. */
static void let_mice_run(const struct share_options *o, unsigned int n, unsigned int step)
{
	unsigned int i;

	for (i = 0; i < n; i += step)
		start_flow(&flows[i], mouse);
	usleep(o->ms * 1000);
	share_stop();
	for (i = 0; i < n; i += step)
		pthread_join(flows[i].thread, NULL);
}

static void print_mice(unsigned int n, unsigned int step)
{
	static struct share_samples times, late;
	unsigned int i, k;

	for (i = 0; i < n; i += step)
		for (k = 0; k < flows[i].times.n; k++) {
			share_sample(&times, flows[i].times.us[k]);
			share_sample(&late, flows[i].late.us[k]);
		}
	share_print_samples("mice", &times);
	qsort(late.us, late.n, sizeof(late.us[0]), bench_by_value);
	printf(", \"due_us\": %.1f", late.n ? late.us[late.n / 2] : 0);
}

void share_run_mice(const struct share_options *o)
{
	const unsigned int n = o->count < 16 ? o->count : 16;
	const unsigned int priority = strcmp(o->side, "strict") ? 0 : 7;
	const bool native = !strcmp(o->side, "events") || !strcmp(o->side, "poll");
	char *buf = rshare_get(share_here, ELEPHANT);
	struct share_counters before, after;
	uint64_t chunks, events = 0;
	double start, us;
	unsigned int i;

	share_must_buffer(buf);
	for (i = 0; i < n; i++)
		if (native)
			begin_native(&flows[i], o, i % 2);
		else
			begin_flow(&flows[i], o, i % 2, i % 2 ? 0 : priority, buf);
	share_count(&before);
	for (i = 1; i < n; i += 2)
		start_flow(&flows[i], native ? native_elephant : elephant);
	usleep(SHARE_WARM_UP_US);
	start = share_now_us();
	chunks = elephant_chunks(flows, n);
	let_mice_run(o, n, 2);
	chunks = elephant_chunks(flows, n) - chunks;
	us = share_now_us() - start;
	for (i = 1; i < n; i += 2)
		pthread_join(flows[i].thread, NULL);
	share_count(&after);
	for (i = 0; native && i < n; i++) {
		events += i % 2 ? 0 : flows[i].n->events;
		share_native_end(flows[i].n);
	}
	print_mice(n, 2);
	printf(", \"events\": %llu, \"elephant_chunks\": %llu, \"elephant_us\": %.0f, \"chunk\": %u, ",
	       (unsigned long long)events, (unsigned long long)chunks, us,
	       native ? ELEPHANT : after.here.chunk);
	share_print_counters(&before, &after);
}

/* ---- mice of one process, elephants of another ---------------------------------------------- */

void share_run_class(const struct share_options *o)
{
	const unsigned int n = o->count < 16 ? o->count : 16;
	char *buf = rshare_get(share_here, o->size);
	struct share_counters before, after;
	unsigned int i;

	share_must_buffer(buf);
	for (i = 0; i < n; i++)
		begin_flow(&flows[i], o, false, 7, buf);
	share_count(&before);
	let_mice_run(o, n, 1);
	share_count(&after);
	print_mice(n, 1);
	printf(", ");
	share_print_counters(&before, &after);
}

void share_run_load(const struct share_options *o)
{
	const unsigned int n = o->count < 8 ? o->count : 8;
	const char *loaded = getenv("SHARE_LOADED");
	char *buf = rshare_get(share_here, ELEPHANT), byte;
	struct rshare_info info;
	double start;
	unsigned int i;

	share_must_buffer(buf);
	for (i = 0; i < n; i++) {
		begin_flow(&flows[2 * i + 1], o, true, 0, buf);
		start_flow(&flows[2 * i + 1], elephant);
	}
	usleep(SHARE_WARM_UP_US);
	start = share_now_us();
	if (loaded && write(atoi(loaded), "", 1) != 1)
		share_must(-EPIPE, "SHARE_LOADED");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	share_must(rshare_get_info(share_here, &info), "rshare_get_info");
	/* All that was posted: one window is long, so it says nothing of when it was sent. */
	printf("\"bytes\": %llu, \"us\": %.0f}\n",
	       (unsigned long long)elephant_chunks(flows, 2 * n) * info.chunk,
	       share_now_us() - start);
	fflush(stdout);
	_exit(0); /* what is under way is of no interest */
}

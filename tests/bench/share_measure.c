// SPDX-License-Identifier: BSD-2-Clause
/*
 * share_measure.c - what the experiments share: connections to the server, counters of both
 * processes, samples.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common.h"
#include "share.h"
#include "share/client.h"
#include "share/owner.h"

struct rshare *share_here;
const char *share_server;
struct share_native *share_pair;
static int stop;

struct rshare_conn *share_dial(uint32_t service, unsigned int priority)
{
	struct rshare_conn *c;

	share_must(rshare_connect(share_here, share_server, service, priority, 1, &c),
		   "rshare_connect");
	return c;
}

/* The next event of that type; others are passed over. */
struct rshare_event share_next_of(struct rshare_conn *c, enum rshare_event_type type)
{
	struct rshare_event e;
	int n;

	for (;;) {
		n = rshare_poll(c, &e, 1);
		share_must(n, "rshare_poll");
		if (n && (e.type == RSHARE_CLOSED || e.status))
			share_must(e.status ? e.status : -EPIPE, "a connection");
		if (n && e.type == type)
			return e;
		if (!n && rshare_wait(c, SHARE_WAIT_MS) <= 0)
			share_must(-ETIMEDOUT, "an event");
	}
}

void share_must_buffer(const void *p)
{
	if (!p)
		share_must(-ENOMEM, "rshare_get");
}

/* ---- counters ------------------------------------------------------------------------------- */

/* The server's half takes a message each way. */
void share_count(struct share_counters *out)
{
	struct rshare_conn *c = share_dial(SHARE_SERVICE(SHARE_REPORT, 8, 0), 7);
	char *buf = rshare_get(share_here, 4096);
	struct rusage use;

	share_must_buffer(buf);
	share_must(rshare_recv(c, buf, 4096, 0), "rshare_recv");
	share_must(rshare_send(c, buf, 1, 0), "rshare_send");
	share_next_of(c, RSHARE_RECEIVED);
	memcpy(&out->there, buf, sizeof(out->there));
	share_must(rshare_disconnect(c, SHARE_WAIT_MS), "rshare_disconnect");
	rshare_put(share_here, buf);
	getrusage(RUSAGE_SELF, &use);
	out->user_us = (double)use.ru_utime.tv_sec * 1e6 + (double)use.ru_utime.tv_usec +
		out->there.user_us;
	out->system_us = (double)use.ru_stime.tv_sec * 1e6 + (double)use.ru_stime.tv_usec +
		out->there.system_us;
	share_must(rshare_get_info(share_here, &out->here), "rshare_get_info");
	out->strict =
		share_here->owner->links ? share_here->owner->links->peer.lane[RS_STRICT].tail : 0;
	out->helped = __atomic_load_n(&share_here->owner->helped, __ATOMIC_RELAXED);
	out->native_posts = share_pair ? share_pair->posts : 0;
	out->native_doorbells = share_pair ? share_pair->doorbells : 0;
	out->us = share_now_us();
}

/* What happened between two counts, as members of a JSON object. */
void share_print_counters(const struct share_counters *a, const struct share_counters *b)
{
#define MORE(field) ((unsigned long long)(b->field - a->field))
	printf("\"seconds\": %.3f, \"user_us\": %.0f, \"system_us\": %.0f, \"posts\": %llu, \"doorbells\": %llu, "
	       "\"strict_posts\": %u, \"helped\": %llu, \"wakeups\": %llu, \"signals\": %llu, \"to_running\": %llu, \"to_blocked\": %llu, "
	       "\"server_wakeups\": %llu, \"server_to_running\": %llu, \"native\": %llu, \"native_posts\": %llu, "
	       "\"native_doorbells\": %llu",
	       (b->us - a->us) / 1e6, b->user_us - a->user_us, b->system_us - a->system_us,
	       MORE(here.posts), MORE(here.doorbells), b->strict - a->strict, MORE(helped),
	       MORE(here.wakeups), MORE(here.signals), MORE(here.to_running), MORE(here.to_blocked),
	       MORE(there.info.wakeups), MORE(there.info.to_running), MORE(there.native),
	       MORE(native_posts), MORE(native_doorbells));
#undef MORE
}

/* ---- samples -------------------------------------------------------------------------------- */

void share_sample(struct share_samples *s, double us)
{
	if (s->n < SHARE_SAMPLES)
		s->us[s->n++] = us;
}

void share_print_samples(const char *name, struct share_samples *s)
{
	qsort(s->us, s->n, sizeof(s->us[0]), bench_by_value);
	printf("\"%s\": %u, \"median_us\": %.1f, \"p99_us\": %.1f", name, s->n,
	       s->n ? s->us[s->n / 2] : 0, s->n ? s->us[s->n * 99 / 100] : 0);
}

/* ---- the end of a measurement --------------------------------------------------------------- */

bool share_stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

void share_stop(void)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
}

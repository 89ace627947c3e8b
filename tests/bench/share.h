/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share.h - what the files of the benchmark of librshare share: profiles of owners, services of the
 * server, and a native queue pair for the other side of each comparison.
 *
 * The counters beside each figure show what it is of: work requests and doorbells of the owner and
 * of native queue pairs, locks taken, events waited for. tests/bench/sharing refuses rows whose two
 * sides ran the same code.
 */
#ifndef BENCH_SHARE_H
#define BENCH_SHARE_H

#include "rshare.h"
#include "share/device.h"

/* ---- owners --------------------------------------------------------------------------------- */

/* Both ends of a connection have the same one. */
struct share_profile {
	const char *name;
	uint16_t port; /* of the server's owner; the client's has 100 more */
	uint32_t chunk, window, receives;
	uint32_t run_after, idle_after;
	uint64_t pool; /* of the server */
	uint32_t connections;
	uint8_t traffic_class; /* of the strict queue pair */
	uint32_t narrow;
	int direct;
};

const struct share_profile *share_profile(const char *name); /* ends the program if there is none */
struct rshare *share_open(const struct share_profile *p, bool server);
void share_must(int err, const char *what);
double share_now_us(void);

/* ---- the server ----------------------------------------------------------------------------- */

enum { SHARE_ECHO = 1, SHARE_SINK, SHARE_NATIVE, SHARE_REPORT };

/* A service: what is done with messages of up to 1 << size bytes, of which 1 << depth may be under
 * way. */
#define SHARE_SERVICE(kind, size, depth) \
	((uint32_t)(kind) << 16 | (uint32_t)(size) << 8 | (uint32_t)(depth))

struct share_report {
	struct rshare_info info;
	double user_us, system_us; /* of the server's process */
	uint64_t native;           /* messages received over native queue pairs */
};

void share_serve(const struct share_profile *p);

/* ---- a native queue pair -------------------------------------------------------------------- */

/* What a client asks of SHARE_NATIVE; the answer is a struct rs_address. */
struct share_ask {
	uint32_t size; /* of the largest message */
	uint32_t echo, sleeping;
	struct rs_address address;
};

struct share_native {
	struct rs_device dev; /* one CQ for both directions */
	struct rs_qp qp;
	struct ibv_mr *mr;
	char *buffer; /* that is sent */
	uint64_t events;
	uint64_t posts, doorbells; /* work requests of sends; calls that handed them over */
};

struct share_native *share_native_open(uint32_t size, struct rs_address *here);
void share_native_connect(struct share_native *n, const struct rs_address *there);
void share_native_close(struct share_native *n);
/* id: reported by the completion of the send. A message of one byte ends the server's side. */
void share_native_send(struct share_native *n, uint32_t bytes, uint32_t id);
/* The same with the messages of a chain, with one doorbell; at most SHARE_CHAIN. */
#define SHARE_CHAIN 64
void share_native_chain(struct share_native *n, uint32_t bytes, const uint32_t *ids,
			unsigned int count);
/* Completions of sends have their id in wr_id, those of messages a number of SHARE_RECEIVED or
 * more. Messages are handed back to the queue; what they contain is nobody's concern. */
#define SHARE_RECEIVED (1u << 20)
int share_native_poll(struct share_native *n, struct ibv_wc *wc, int max);
/* Sleep until there may be a completion. */
void share_native_wait(struct share_native *n);

/* Ask the server for the other end of a native queue pair, and connect both. */
struct share_native *share_native_dial(uint32_t size, bool echo, bool sleeping);
/* End it at both sides. Nothing may be under way. */
void share_native_end(struct share_native *n);

/* ---- the experiments ------------------------------------------------------------------------ */

struct share_options {
	const char *side;
	unsigned int count; /* threads, connections or flows */
	unsigned int size;
	unsigned int ms;
};

struct share_experiment {
	const char *name;
	void (*run)(struct rshare *r, const char *server, const struct share_options *o);
};

extern const struct share_experiment share_experiments[];

void share_run_mice(const struct share_options *o);
void share_run_class(const struct share_options *o);
void share_run_load(const struct share_options *o);

/* ---- measuring ------------------------------------------------------------------------------ */

#define SHARE_WAIT_MS 60000
#define SHARE_WARM_UP_US 200000
#define SHARE_SAMPLES 65536

extern struct rshare *share_here;
extern const char *share_server;
extern struct share_native *share_pair; /* the native queue pair, where there is one */

struct rshare_conn *share_dial(uint32_t service, unsigned int priority);
/* The next event of that type; others are passed over. */
struct rshare_event share_next_of(struct rshare_conn *c, enum rshare_event_type type);
void share_must_buffer(const void *p);

struct share_counters {
	struct rshare_info here;
	struct share_report there;
	double user_us, system_us, us;
	uint32_t strict; /* posts on the strict queue pair */
	uint64_t helped; /* posts of threads other than the owner's */
	uint64_t native_posts, native_doorbells;
};

void share_count(struct share_counters *out);
/* What happened between two counts, as members of a JSON object. */
void share_print_counters(const struct share_counters *a, const struct share_counters *b);

struct share_samples {
	unsigned int n;
	double us[SHARE_SAMPLES];
};

void share_sample(struct share_samples *s, double us);
void share_print_samples(const char *name, struct share_samples *s);

/* Threads end when the measurement is over. */
bool share_stopped(void);
void share_stop(void);

#endif

// SPDX-License-Identifier: BSD-2-Clause
/*
 * floor.c - what a fault on another rank's block costs at the least: bare UCX, no library of ours.
 *
 * Two processes. The requester sends one small message (32 bytes); the responder, polling or
 * asleep, answers with 4 KiB:
 *
 *   am    as the payload of one active message (what libdsm does over UCX)
 *   put   written into the requester's memory (ucp_put_nbx, flush), followed by a small message
 *         that says so
 *
 * and the requester, polling or asleep, waits for it. Where the responder sleeps, the requester
 * first computes for a while, so that it really does. One process for each transport and side,
 * because UCX reads its settings once.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "common.h"

#define BLOCK 4096
#define BLOB_MAX 4096
#define REPEATS_MAX 100
#define FAIL_SECONDS 300

enum { ANSWER_AM = 0, ANSWER_PUT, ANSWERS };
enum { MODE_POLL_SLEEP = 0, MODE_SLEEP_SLEEP, MODE_POLL_POLL, MODES }; /* requester, responder */
enum { OP_ASK = 1, OP_ANSWER, OP_END };

static const char *const answer_names[ANSWERS] = { "am", "put" };
static const char *const mode_names[MODES] = { "poll_sleep", "sleep_sleep", "poll_poll" };
static const struct {
	const char *name, *tls;
} transports[] = { { "sm", "sm" }, { "tcp", "tcp" } };

#define TRANSPORTS (sizeof(transports) / sizeof(*transports))

/* The small message; as large as libdsm's. */
struct note {
	uint32_t op, answer, sleep, round;
	uint64_t pad[2];
};
_Static_assert(sizeof(struct note) == 32, "as struct msg");

struct result {
	double median, p99, least, most; /* us; least and most of the repeats' medians */
	int ok;
};

struct side {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	ucp_mem_h memory;
	ucp_rkey_h rkey;
	int fd;
	char *block;      /* BLOCK bytes, where answers come to or from */
	uint64_t remote;  /* the other side's */
	struct note note; /* the last that came */
	int came;
};

struct blob {
	uint64_t block;
	uint32_t address_size, rkey_size;
	char bytes[BLOB_MAX];
};

static unsigned int rounds = 2000, repeats = 5, gap_us = 100;
static double samples[1000000];

static void die(const char *what, ucs_status_t status)
{
	fprintf(stderr, "floor: %s: %s\n", what, ucs_status_string(status));
	_exit(1);
}

static void must(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		die(what, status);
}

static void finish(struct side *s, ucs_status_ptr_t req, const char *what)
{
	ucs_status_t status;

	if (UCS_PTR_IS_ERR(req))
		die(what, UCS_PTR_STATUS(req));
	if (!req)
		return;
	while ((status = ucp_request_check_status(req)) == UCS_INPROGRESS)
		ucp_worker_progress(s->worker);
	ucp_request_free(req);
	must(status, what);
}

static ucs_status_t arrived(void *arg, const void *header, size_t header_size, void *data,
			    size_t size, const ucp_am_recv_param_t *param)
{
	struct side *s = arg;

	(void)param;
	if (header_size != sizeof(s->note))
		return UCS_OK;
	memcpy(&s->note, header, sizeof(s->note));
	if (size && size <= BLOCK)
		memcpy(s->block, data, size);
	s->came = 1;
	return UCS_OK;
}

/* ---- making the two sides ------------------------------------------------------------------- */

static void write_all(int fd, const void *from, size_t size)
{
	if (write(fd, from, size) != (ssize_t)size)
		_exit(1);
}

static void read_all(int fd, void *to, size_t size)
{
	ssize_t n;

	for (; size; size -= (size_t)n, to = (char *)to + n) {
		n = read(fd, to, size);
		if (n <= 0)
			_exit(1);
	}
}

static void make_worker(struct side *s)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
	};
	const ucp_worker_params_t worker = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	const ucp_am_handler_param_t am = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.cb = arrived,
		.arg = s,
	};
	const ucp_mem_map_params_t map = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = BLOCK,
		.flags = UCP_MEM_MAP_ALLOCATE, /* shared memory, where there is any */
	};
	ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };

	must(ucp_init(&params, NULL, &s->context), "ucp_init");
	must(ucp_worker_create(s->context, &worker, &s->worker), "worker");
	must(ucp_worker_set_am_recv_handler(s->worker, &am), "handler");
	must(ucp_worker_get_efd(s->worker, &s->fd), "event fd");
	must(ucp_mem_map(s->context, &map, &s->memory), "memory");
	must(ucp_mem_query(s->memory, &attr), "memory");
	s->block = attr.address;
	memset(s->block, 1, BLOCK);
}

static void exchange(struct side *s, int in, int out)
{
	ucp_ep_params_t ep = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	ucp_address_t *address;
	struct blob b = { .block = (uint64_t)(uintptr_t)s->block };
	size_t address_size, rkey_size;
	void *rkey;

	must(ucp_worker_get_address(s->worker, &address, &address_size), "address");
	must(ucp_rkey_pack(s->context, s->memory, &rkey, &rkey_size), "rkey");
	if (address_size + rkey_size > BLOB_MAX)
		die("address", UCS_ERR_EXCEEDS_LIMIT);
	b.address_size = (uint32_t)address_size;
	b.rkey_size = (uint32_t)rkey_size;
	memcpy(b.bytes, address, address_size);
	memcpy(b.bytes + address_size, rkey, rkey_size);
	ucp_worker_release_address(s->worker, address);
	ucp_rkey_buffer_release(rkey);
	write_all(out, &b, sizeof(b));
	read_all(in, &b, sizeof(b));
	ep.address = (const ucp_address_t *)b.bytes;
	must(ucp_ep_create(s->worker, &ep, &s->ep), "endpoint");
	must(ucp_ep_rkey_unpack(s->ep, b.bytes + b.address_size, &s->rkey), "rkey");
	s->remote = b.block;
}

/* ---- the rounds ----------------------------------------------------------------------------- */

static void wait_note(struct side *s, int sleeping)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	ucs_status_t status;

	while (!s->came) {
		if (ucp_worker_progress(s->worker) || !sleeping || s->came)
			continue;
		status = ucp_worker_arm(s->worker);
		if (status == UCS_ERR_BUSY)
			continue;
		must(status, "arm");
		if (poll(&p, 1, FAIL_SECONDS * 1000) == 0)
			die("waiting", UCS_ERR_TIMED_OUT);
	}
	s->came = 0;
}

static void send_note(struct side *s, const struct note *note, size_t payload)
{
	const ucp_request_param_t none = { 0 };

	finish(s, ucp_am_send_nbx(s->ep, 0, note, sizeof(*note), s->block, payload, &none),
	       "message");
}

static void respond(struct side *s)
{
	const ucp_request_param_t none = { 0 };
	struct note n = { 0 };

	for (;;) {
		wait_note(s, (int)n.sleep);
		n = s->note;
		if (n.op == OP_END)
			return;
		n.op = OP_ANSWER;
		if (n.answer == ANSWER_PUT) {
			ucs_status_ptr_t put =
				ucp_put_nbx(s->ep, s->block, BLOCK, s->remote, s->rkey, &none);

			finish(s, ucp_ep_flush_nbx(s->ep, &none), "flush");
			finish(s, put, "put");
		}
		send_note(s, &n, n.answer == ANSWER_AM ? BLOCK : 0);
	}
}

static void run_rounds(struct side *s, int answer, int mode, unsigned int n)
{
	struct note note = { .op = OP_ASK,
			     .answer = (uint32_t)answer,
			     .sleep = mode != MODE_POLL_POLL };
	unsigned int i;

	for (i = 0; i < n; i++) {
		double start = bench_now_us();

		while (mode != MODE_POLL_POLL && bench_now_us() - start < gap_us)
			;
		note.round = i;
		start = bench_now_us();
		send_note(s, &note, 0);
		wait_note(s, mode == MODE_SLEEP_SLEEP);
		samples[i] = bench_now_us() - start;
		if (s->note.op != OP_ANSWER || s->note.round != i)
			die("answer", UCS_ERR_INVALID_PARAM);
	}
}

static struct result measure(struct side *s, int answer, int mode)
{
	double medians[REPEATS_MAX], p99s[REPEATS_MAX];
	unsigned int r;

	run_rounds(s, answer, mode, rounds / 10 + 10);
	for (r = 0; r < repeats; r++) {
		run_rounds(s, answer, mode, rounds);
		qsort(samples, rounds, sizeof(*samples), bench_by_value);
		medians[r] = samples[rounds / 2];
		p99s[r] = samples[rounds * 99ull / 100];
	}
	qsort(medians, repeats, sizeof(*medians), bench_by_value);
	qsort(p99s, repeats, sizeof(*p99s), bench_by_value);
	return (struct result){ medians[repeats / 2], p99s[repeats / 2], medians[0],
				medians[repeats - 1], 1 };
}

/* In a process of its own: both sides over one transport; results to fd out. */
static void run_transport(const char *tls, int out)
{
	struct result results[ANSWERS][MODES];
	struct note end = { .op = OP_END };
	struct side s = { 0 };
	int up[2], down[2], a, m;
	pid_t pid;

	setenv("UCX_TLS", tls, 1);
	setenv("UCX_LOG_LEVEL", "error", 0);
	if (pipe(up) || pipe(down))
		_exit(1);
	pid = fork();
	if (pid < 0)
		_exit(1);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(up[0]);
		close(down[1]);
		make_worker(&s);
		exchange(&s, down[0], up[1]);
		respond(&s);
		_exit(0);
	}
	close(up[1]);
	close(down[0]);
	make_worker(&s);
	exchange(&s, up[0], down[1]);
	for (a = 0; a < ANSWERS; a++)
		for (m = 0; m < MODES; m++)
			results[a][m] = measure(&s, a, m);
	send_note(&s, &end, 0);
	write_all(out, results, sizeof(results));
	while (waitpid(pid, NULL, WNOHANG) == 0) /* the last message may need a hand */
		ucp_worker_progress(s.worker);
	_exit(0);
}

/* ---- output --------------------------------------------------------------------------------- */

static void print_json(struct result all[TRANSPORTS][ANSWERS][MODES])
{
	size_t t, a, m;

	printf("{\"floor\": {\"message_bytes\": %zu, \"block_bytes\": %d, \"rounds\": %u, \"repeats\": %u, "
	       "\"gap_us\": %u",
	       sizeof(struct note), BLOCK, rounds, repeats, gap_us);
	for (t = 0; t < TRANSPORTS; t++) {
		printf(",\n  \"%s\": {", transports[t].name);
		for (a = 0; a < ANSWERS; a++) {
			printf("%s\"%s\": {", a ? ",\n    " : "\n    ", answer_names[a]);
			for (m = 0; m < MODES; m++) {
				const struct result *r = &all[t][a][m];

				printf("%s\"%s\": ", m ? ", " : "", mode_names[m]);
				if (r->ok)
					printf("{\"median_us\": %.3f, \"p99_us\": %.3f, \"min_us\": %.3f, "
					       "\"max_us\": %.3f}",
					       r->median, r->p99, r->least, r->most);
				else
					printf("null");
			}
			printf("}");
		}
		printf("}");
	}
	printf("}}\n");
}

static void print_table(struct result all[TRANSPORTS][ANSWERS][MODES])
{
	size_t t, a, m;

	printf("%-10s %-6s %-12s %10s %10s   %s\n", "transport", "answer", "req_resp", "median us",
	       "p99 us", "medians");
	for (t = 0; t < TRANSPORTS; t++)
		for (a = 0; a < ANSWERS; a++)
			for (m = 0; m < MODES; m++) {
				const struct result *r = &all[t][a][m];

				printf("%-10s %-6s %-12s ", transports[t].name, answer_names[a],
				       mode_names[m]);
				if (r->ok)
					printf("%10.2f %10.2f   %.2f..%.2f\n", r->median, r->p99,
					       r->least, r->most);
				else
					printf("%10s\n", "failed");
			}
}

static void usage(void)
{
	printf("usage: floor [--rounds N] [--repeats N] [--gap US] [--table]\n"
	       "The least that fetching a 4 KiB block from another process costs over bare UCX: one 32-byte message,\n"
	       "one answer, by polling or sleeping. JSON on stdout (medians and 99th percentiles in us), or a table.\n"
	       "  --rounds N   fetches per repeat (2000)\n"
	       "  --repeats N  repeats (5); the median of their medians is reported\n"
	       "  --gap US     pause before each fetch, where the responder is to sleep (100)\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'n' },
		{ "repeats", required_argument, NULL, 'r' },
		{ "gap", required_argument, NULL, 'g' },
		{ "table", no_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct result all[TRANSPORTS][ANSWERS][MODES];
	int opt, table = 0, failed = 0, status, ends[2];
	size_t t;
	pid_t pid;

	while ((opt = getopt_long(argc, argv, "n:r:g:th", options, NULL)) != -1)
		switch (opt) {
		case 'n':
			rounds = bench_number(optarg, 1, sizeof(samples) / sizeof(*samples));
			break;
		case 'r': repeats = bench_number(optarg, 1, REPEATS_MAX); break;
		case 'g': gap_us = bench_number(optarg, 1, 1000000); break;
		case 't': table = 1; break;
		case 'h': usage(); return 0;
		default: usage(); return 2;
		}
	for (t = 0; t < TRANSPORTS; t++) {
		if (pipe(ends) || (pid = fork()) < 0) {
			perror("floor");
			return 1;
		}
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_transport(transports[t].tls, ends[1]);
		}
		close(ends[1]);
		if (read(ends[0], all[t], sizeof(all[t])) != (ssize_t)sizeof(all[t])) {
			memset(all[t], 0, sizeof(all[t]));
			failed = 1;
		}
		close(ends[0]);
		waitpid(pid, &status, 0);
	}
	if (table)
		print_table(all);
	else
		print_json(all);
	return failed;
}

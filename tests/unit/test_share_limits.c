// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_limits.c - librshare when memory, descriptors, queue pairs or receives run out, at
 * every place where they can. A failed operation prints one message and leaves nothing behind.
 * Connections that need nothing new continue.
 */
#include "suite.h"

#include "share_old.h"
#include "share_stderr.h"

#include <dirent.h>
#include <sys/resource.h>

static void limits_begin(void)
{
	said_begin();
	begin();
	pair(&old_a, &old_b, 0);
	ck_assert(rshare_fd(old_a) >= 0 && rshare_fd(old_b) >= 0);
	/* An owner closes its copy of a descriptor after the answer, and before the next answer. */
	info_of(a);
	info_of(b);
}

static void limits_end(void)
{
	said_end();
	rshare_disconnect(old_a, 0);
	rshare_disconnect(old_b, 0);
	end();
}

static unsigned int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- all that a program does ----------------------------------------------------------------- */

static int failed; /* the first error of a call, or the status of the connection */
static bool explained;

static bool good(int err)
{
	if (err && !failed)
		failed = err;
	return !err;
}

/* Wait until the connection is accepted, or the connecting end has failed. */
static struct rshare_conn *accept_at(struct rshare_listener *l, struct rshare_conn *c)
{
	struct rshare_conn *d = NULL;
	const int64_t end_ms = now_ms() + EVENT_MS;
	struct rshare_event e = { .status = 0 };
	int err;

	while ((err = rshare_accept(l, &d)) == -EAGAIN && now_ms() < end_ms) {
		if (rshare_poll(c, &e, 1) > 0 && e.type == RSHARE_CLOSED)
			break;
		if (rshare_wait(c, 1) < 0)
			usleep(1000);
	}
	unit_require(err != -EAGAIN || e.type == RSHARE_CLOSED);
	good(e.type == RSHARE_CLOSED ? e.status : err);
	return d;
}

static void talk(struct rshare *r, struct rshare_conn *c, struct rshare_conn *d)
{
	char *out = rshare_get(b, 64), *in = rshare_get(r, 64);

	if (good(rshare_recv(d, in, 64, 1)) && good(rshare_send(c, out, 64, 2)) &&
	    good(next_of(d, RSHARE_RECEIVED).status) && good(next_of(c, RSHARE_SENT).status))
		good(rshare_disconnect(d, 5000));
	else
		rshare_disconnect(d, 0);
	rshare_put(b, out);
}

/*
 * An owner starts, b connects to it, and everything ends. This uses every kind of memory,
 * descriptor and device object.
 */
static void live(void)
{
	struct rshare_config x = config(name_c, 2);
	struct rshare_listener *l;
	struct rshare_conn *c, *d;
	struct rshare *r;
	char node[32];
	int err;

	failed = 0;
	x.receives = 16;
	snprintf(node, sizeof(node), "127.0.0.1:%u", port + 2);
	err = rshare_open(NULL, &x, &r, why);
	explained = err && why[0];
	if (!good(err))
		return;
	if (good(rshare_listen(r, 5, &l))) {
		if (good(rshare_connect(b, node, 5, 0, 1, &c))) {
			d = accept_at(l, c);
			if (d)
				talk(r, c, d);
			rshare_disconnect(c, d ? 5000 : 0);
		}
		rshare_unlisten(l);
	}
	rshare_close(r);
}

/* What the library holds in this process. */
struct held {
	unsigned int memory, descriptors, objects;
};

static struct held held_now(void)
{
	return (struct held){ .memory = __atomic_load_n(&taken, __ATOMIC_RELAXED),
			      .descriptors = descriptors(),
			      .objects = __atomic_load_n(&fake_live, __ATOMIC_RELAXED) };
}

/* Only the listener of b and the old connection are left. */
static bool only_old(const struct rshare_info *i)
{
	return i->peers == 1 && i->queue_pairs == 2 && i->connections == 2;
}

/*
 * Wait until all memory, descriptors and objects are given back: b learns of the end of the other
 * owner later. Count `before` while nothing is about to end.
 */
static void require_freed(const struct held *before)
{
	const int64_t end_ms = now_ms() + EVENT_MS;
	struct rshare_info i;
	struct held now;

	for (;;) {
		i = info_of(b);
		now = held_now();
		if (only_old(&i) && !memcmp(&now, before, sizeof(now)))
			return;
		if (now_ms() >= end_ms)
			break;
		usleep(1000);
	}
	ck_abort_msg(
		"%u nodes, %u queue pairs, %u connections; %u blocks of %u, %u descriptors of %u, %u objects of %u",
		i.peers, i.queue_pairs, i.connections, now.memory, before->memory, now.descriptors,
		before->descriptors, now.objects, before->objects);
}

/* A failure prints one message, and at least `least`. An owner that is refused prints one, too. */
static void require_told(unsigned int n, unsigned int least)
{
	const unsigned int lines = said_lines("librshare: ") - said_lines(": refuses: ") +
		(explained && !strstr(why, "its stderr says why"));

	if (lines > 1 || (failed && lines < least))
		ck_abort_msg("failure %u: %s; %u lines: %s; why: %s", n, strerror(-failed), lines,
			     said, explained ? why : "");
	if (strstr(said, "AddressSanitizer"))
		ck_abort_msg("%s", said);
	said_forget();
}

UNIT_TEST(memory_may_run_out_anywhere)
{
	const struct held before = held_now();
	unsigned int at, ends = 0;

	for (at = 0;; at++) {
		__atomic_store_n(&refusals, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&take_after, (int)at, __ATOMIC_RELAXED);
		live();
		__atomic_store_n(&take_after, -1, __ATOMIC_RELAXED);
		require_freed(&before);
		ends += failed != 0;
		if (!__atomic_load_n(&refusals, __ATOMIC_RELAXED))
			break;
		require_told(at, 0); /* -ENOMEM from the call is enough */
		require_old();
	}
	ck_assert_int_eq(failed, 0);
	ck_assert_uint_gt(at, 10);
	ck_assert_uint_gt(ends, 8);
}

/* Let the first call of each kind fail, then the second, and so on. */
UNIT_LOOP_TEST(verbs_may_fail_anywhere, 0, FAKE_CALLS)
{
	static const int errors[FAKE_CALLS] = { [FAKE_QP] = ENOMEM, [FAKE_MODIFY] = EINVAL };
	const enum fake_call call = (enum fake_call)_i;
	const struct held before = held_now();
	unsigned int at, ends = 0;

	for (at = 0;; at++) {
		fake_refuse(call, errors[call] ? errors[call] : ENOMEM, (int)at,
			    call == FAKE_QP ? 2 : 1);
		live();
		require_freed(&before);
		if (__atomic_load_n(&fake_refusal[call].times, __ATOMIC_SEQ_CST) > 0)
			break;
		ends += failed != 0;
		fake_refuse(call, 0, 0, 0);
		require_told(at, 1);
		require_old();
	}
	fake_refuse(call, 0, 0, 0);
	ck_assert_int_eq(failed, 0);
	ck_assert_uint_gt(at, 0);
	if (call != FAKE_SEND && call != FAKE_RECV) /* these lead to a repair or a retry */
		ck_assert_uint_gt(ends, 0);
}

UNIT_TEST(descriptors_may_run_out_anywhere)
{
	const struct held before = held_now();
	int fill[256], n, free_ones, i;
	struct rlimit limit;
	unsigned int ends = 0, mute = 0;

	ck_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 256;
	ck_assert(!setrlimit(RLIMIT_NOFILE, &limit));
	for (free_ones = 0; free_ones < 30; free_ones++) {
		for (n = 0; n < 256 && (fill[n] = dup(2)) >= 0; n++)
			;
		for (i = 0; i < free_ones; i++)
			close(fill[--n]);
		live();
		while (n)
			close(fill[--n]);
		require_freed(&before);
		ends += failed != 0;
		/*
		 * The owner says so for each attempt that it refuses; their number depends on the
		 * time.
		 */
		ck_assert_msg(
			said_lines("librshare: ") -
						said_lines("librshare: refuses a connection: ") <=
					3 &&
				said_lines("librshare: refuses a connection: ") <= 20,
			"%d: %s", free_ones, said);
		/* A process that cannot receive the requested descriptor gets -EMFILE. */
		mute += failed && !said_lines("") && !explained;
		said_forget();
		require_old();
	}
	ck_assert_int_eq(failed, 0);
	ck_assert_uint_gt(ends, 5);
	ck_assert_uint_le(mute, 2);
}

/* ---- what is said ---------------------------------------------------------------------------- */

/*
 * The status with which the first connection from b to an owner at port + 2 ends, while calls fail.
 */
static int end_of_connecting(enum fake_call call, int error, int after, int times)
{
	struct rshare_config x = config(name_c, 2);
	const struct held before = held_now();
	struct rshare_conn *c;
	struct rshare_event e;
	struct rshare *r;
	char node[32];

	snprintf(node, sizeof(node), "127.0.0.1:%u", port + 2);
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	fake_refuse(call, error, after, times);
	ck_assert_int_eq(rshare_connect(b, node, 5, 0, 1, &c), 0);
	e = next_of(c, RSHARE_CLOSED);
	fake_refuse(call, 0, 0, 0);
	rshare_disconnect(c, 0);
	rshare_close(r);
	require_freed(&before);
	return e.status;
}

/* The side that lacks queue pairs prints one line, and so does the other side. */
UNIT_TEST(who_lacks_queue_pairs_says_so_once)
{
	ck_assert_int_eq(end_of_connecting(FAKE_QP, ENOMEM, 0, 2), -ENOMEM);
	ck_assert_uint_eq(said_lines("librshare: "), 1);
	ck_assert_uint_eq(
		said_lines(
			"fake0: no queue pair beside its 2: Cannot allocate memory; `rdma resource show qp`"),
		1);
	said_forget();
	/* the other owner's calls fail */
	ck_assert_int_eq(end_of_connecting(FAKE_QP, ENOSPC, 2, 2), -ENOSPC);
	ck_assert_uint_eq(
		said_lines(
			"no queue pair beside its 0: No space left on device; `rdma resource show qp`"),
		1);
	ck_assert_uint_eq(said_lines(": refuses: No space left on device"), 1);
	ck_assert_uint_eq(said_lines("librshare: "), 2);
	said_forget();
	ck_assert_int_eq(end_of_connecting(FAKE_MR, ENOMEM, 0, 1), -ENOMEM);
	ck_assert_uint_eq(said_lines("raise `ulimit -l` of the owner"), 1);
	ck_assert_uint_eq(said_lines("librshare: "), 1);
	require_old();
}

UNIT_LOOP_TEST(an_owner_that_cannot_begin_says_why, 0, 6)
{
	static const struct {
		enum fake_call call;
		const char *text;
	} cases[] = {
		{ FAKE_PD, "fake0: no protection domain: Cannot allocate memory" },
		{ FAKE_CHANNEL, "fake0: no completion channel: Cannot allocate memory" },
		{ FAKE_CQ, "set peers or receives lower" },
		{ FAKE_MR,
		  "landing buffers cannot be registered: Cannot allocate memory; raise `ulimit -l`" },
		{ FAKE_SRQ,
		  "no shared receive queue of 64 entries: Cannot allocate memory; set receives lower" },
		{ FAKE_RECV, "the shared receive queue refuses receives: Cannot allocate memory" },
	};
	struct rshare_config x = config(name_c, 2);
	struct rshare *r;

	fake_refuse(cases[_i].call, ENOMEM, 0, 1);
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ENOMEM);
	ck_assert_msg(strstr(why, cases[_i].text) != NULL, "%s", why);
	ck_assert_uint_eq(said_lines("librshare: "), 0);
	fake_refuse(FAKE_MR, ENOMEM, 1, 1); /* the pool, which comes after the landing buffers */
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ENOMEM);
	ck_assert_msg(strstr(why, "a pool of 4194304 bytes cannot be registered") &&
			      strstr(why, "raise `ulimit -l`"),
		      "%s", why);
	require_old();
}

#ifndef __SANITIZE_THREAD__ /* the sanitizer's runtime maps memory itself */
UNIT_TEST(address_space_may_run_out)
{
	struct rshare_config x = config(name_c, 2);
	struct rlimit limit;
	struct rshare *r;
	unsigned long pages;
	FILE *f = fopen("/proc/self/statm", "r");

	ck_assert(f && fscanf(f, "%lu", &pages) == 1 && !fclose(f) &&
		  !getrlimit(RLIMIT_AS, &limit));
	limit.rlim_cur = pages * 4096 + (1ul << 30);
	ck_assert(!setrlimit(RLIMIT_AS, &limit));
	x.pool = 1ull << 40;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ENOMEM);
	ck_assert_msg(strstr(why, "a pool of 1099511627776 bytes") && strstr(why, "`ulimit -v`"),
		      "%s", why);
	x = config(name_c, 2);
	x.receives = 1u << 20;
	ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ENOMEM);
	ck_assert_msg(strstr(why, "1048576 landing buffers (receives in the config)") &&
			      strstr(why, "`ulimit -v`"),
		      "%s", why);
	require_old();
}
#endif

/* A failed open leaves no mapping behind. */
UNIT_TEST(a_failed_open_leaves_no_memory)
{
	struct rshare_config x = config(name_c, 2);
	unsigned long before = 0, after = 0;
	struct rshare *r;
	FILE *f;

	x.receives = 2048; /* 32 MiB */
	for (int i = 0; i < 40; i++) {
		f = fopen("/proc/self/statm", "r");
		ck_assert(f && fscanf(f, "%lu", i < 8 ? &before : &after) == 1 && !fclose(f));
		fake_refuse(i % 2 ? FAKE_SRQ : FAKE_MR, ENOMEM, 0, 1);
		ck_assert_int_eq(rshare_open(NULL, &x, &r, why), -ENOMEM);
	}
	ck_assert_uint_lt(after, before + (320u << 20) / 4096);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* A control socket of a's owner, made by hand. */
static int control(void)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const struct sockaddr_un un = owner_at(name_a);

	ck_assert(!connect(fd, (const struct sockaddr *)&un, sizeof(un)));
	return fd;
}

static int ask(int fd, const struct rs_request *q, struct rs_answer *a_out)
{
	ck_assert_int_eq(send(fd, q, sizeof(*q), 0), sizeof(*q));
	ck_assert_int_eq(recv(fd, a_out, sizeof(*a_out), 0), sizeof(*a_out));
	return a_out->status;
}

/*
 * A process whose pool cannot be registered is not attached: without keys, its sends would break
 * queue pairs.
 */
UNIT_TEST(a_process_that_cannot_attach_has_nothing)
{
	const struct rs_request attach = { .type = RS_ATTACH,
					   .version = RS_CONTROL_VERSION,
					   .conns = 4,
					   .depth_shift = 3,
					   .pages = 16 };
	const struct rs_request listen_request = { .type = RS_LISTEN, .service = 3 };
	const uint64_t registered = info_of(a).registered;
	struct rs_answer answer;
	const int fd = control();

	for (int i = 0; i < 3; i++) {
		fake_refuse(FAKE_MR, ENOMEM, 0, 1);
		ck_assert_int_eq(ask(fd, &attach, &answer), -ENOMEM);
		ck_assert(strstr(answer.why, "raise `ulimit -l` of the owner") != NULL);
		ck_assert_int_eq(ask(fd, &listen_request, &answer), -EPROTO);
		ck_assert_uint_eq(info_of(a).clients, 1);
	}
	ck_assert_int_eq(ask(fd, &attach, &answer), 0);
	ck_assert_int_eq(ask(fd, &listen_request, &answer), 0);
	ck_assert_uint_eq(info_of(a).clients, 2);
	ck_assert_uint_eq(info_of(a).registered, registered + 16 * RS_PAGE);
	close(fd);
	/* Its pool goes when its connections have, which is later than the process. */
	for (int i = 0; i < 500 && (info_of(a).clients > 1 || info_of(a).registered > registered);
	     i++)
		usleep(2000);
	ck_assert_uint_eq(info_of(a).clients, 1);
	ck_assert_uint_eq(info_of(a).registered, registered);
	require_old();
}

/*
 * A process that asks and does not read is dropped, with one line: the owner must not wait for it.
 */
static void read_no_answers(void)
{
	const struct rs_request q = { .type = RS_INFO };
	const int fd = control();
	int n;

	for (n = 0; n < 100000 && send(fd, &q, sizeof(q), MSG_NOSIGNAL) == sizeof(q); n++)
		;
	ck_assert_int_lt(n, 100000);
	ck_assert_uint_eq(said_lines("dropped: it does not read its answers"), 1);
	ck_assert_uint_eq(said_lines("librshare: "), 1);
	close(fd);
	require_old();
}

UNIT_TEST(a_process_that_reads_no_answers_is_dropped)
{
	read_no_answers();
}

/* Number 2 is a file of the program by now: its stderr was another. */
UNIT_TEST(a_line_does_not_go_to_a_file_of_the_program)
{
	FILE *f = tmpfile();

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(dup2(fileno(f), STDERR_FILENO), STDERR_FILENO);
	read_no_answers();
	ck_assert_int_eq(lseek(fileno(f), 0, SEEK_END), 0);
	fclose(f);
}

UNIT_TEST(an_fd_that_cannot_be_made_is_told)
{
	struct rshare_listener *l;
	int fill[DESCRIPTORS], n, i, err;

	ck_assert_int_eq(rshare_listen(a, 9, &l), 0);
	n = use_up_descriptors(fill);
	for (i = 0; i < 3; i++) {
		err = rshare_listener_fd(l);
		ck_assert_int_eq(err, -EMFILE);
	}
	while (n)
		close(fill[--n]);
	ck_assert_uint_eq(said_lines("an fd is refused: Too many open files; raise `ulimit -n`"),
			  1);
	ck_assert_uint_eq(said_lines("librshare: "), 1);
	err = rshare_listener_fd(l);
	ck_assert_int_ge(err, 0);
	rshare_unlisten(l);
	require_old();
}

UNIT_SUITE("share_limits", .seconds = 60, .setup = limits_begin, .teardown = limits_end)

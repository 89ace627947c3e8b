// SPDX-License-Identifier: BSD-2-Clause
/*
 * node.c - a node of the tests of librshare over real queue pairs; tests/share/run starts it in
 * guests.
 *
 *   node serve              own the device, serve until the process is killed
 *   node test HOST TEST...  run tests against the server at HOST, by default all. SHARE_OUTAGE:
 *                           outage and silent, too, and more connections for repair. The last line
 *                           is "N passed, N failed"
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rshare.h"
#include "share/client.h"
#include "share/owner.h"

#include "tests.h"

struct rshare *r;
static unsigned int passed, failed;
static const char *host;

/* ---- what tests share ------------------------------------------------------------------------ */

void check(const char *what, int ok)
{
	passed += ok != 0;
	failed += !ok;
	if (!ok)
		printf("FAIL %s\n", what);
}

struct rshare_conn *dial(uint32_t service, unsigned int priority)
{
	struct rshare_conn *c;

	must(rshare_connect(r, host, service, priority, 1, &c), "rshare_connect");
	return c;
}

static int echo(struct rshare_conn *c, char *out, char *in, size_t size)
{
	struct rshare_event e;

	for (size_t i = 0; i < size; i++)
		out[i] = (char)(i * 7 + size);
	memset(in, 0, size);
	if (rshare_recv(c, in, size, 1) || rshare_send(c, out, size, 2))
		return 0;
	e = next_of(c, RSHARE_RECEIVED);
	if (e.type != RSHARE_RECEIVED || e.status || e.size != size || memcmp(in, out, size)) {
		printf("echo of %zu: event %d, status %d, %zu bytes\n", size, e.type, e.status,
		       e.size);
		return 0;
	}
	return 1;
}

int echo_small(struct rshare_conn *c)
{
	char *buf = rshare_get(r, 2 * SLOT);
	int ok = buf && echo(c, buf, buf + SLOT, 1000);

	rshare_put(r, buf);
	return ok;
}

struct report report(void)
{
	struct rshare_conn *c = dial(REPORT, 7);
	char *buf = rshare_get(r, SLOT);
	struct report out = { .messages = 0 };

	if (!rshare_recv(c, buf, SLOT, 1) && !rshare_send(c, buf, 1, 2) &&
	    !next_of(c, RSHARE_RECEIVED).status)
		memcpy(&out, buf, sizeof(out));
	check("the report's connection closes", !rshare_disconnect(c, EVENT_MS));
	rshare_put(r, buf);
	return out;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void test_echo(void)
{
	static const size_t sizes[] = { 0, 1, 100, 4096, 16384, 16385, 100000, BIG };
	char *out = rshare_get(r, BIG), *in = rshare_get(r, BIG);
	struct rshare_conn *c;

	for (unsigned int priority = 0; priority < 8; priority += 7) {
		c = dial(MEMORY, priority);
		must(rshare_recv(c, in, BIG, 1), "rshare_recv");
		check("the first message",
		      next_of(c, RSHARE_RECEIVED).size == sizeof(struct rshare_remote));
		for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			check("an echo", echo(c, out, in, sizes[i]));
		check("disconnect", !rshare_disconnect(c, EVENT_MS));
	}
	rshare_put(r, out);
	rshare_put(r, in);
}

static void test_rdma(void)
{
	char *out = rshare_get(r, BIG), *in = rshare_get(r, BIG);
	struct rshare_conn *c = dial(MEMORY, 0), *stay;
	struct rshare_remote at, wrong;

	must(rshare_recv(c, in, BIG, 1), "rshare_recv");
	check("the address", next_of(c, RSHARE_RECEIVED).size == sizeof(at));
	memcpy(&at, in, sizeof(at));
	for (size_t i = 0; i < BIG; i++)
		out[i] = (char)(i ^ i >> 9);
	check("past the end", rshare_write(c, out, 1, &at, BIG, 1) == -ERANGE);
	check("not in the pool", rshare_send(c, &at, 1, 1) == -EINVAL);
	check("write",
	      !rshare_write(c, out, 300000, &at, 1000, 5) && !next_of(c, RSHARE_SENT).status);
	memset(in, 0, BIG);
	check("read", !rshare_read(c, in, 300000, &at, 1000, 6) && !next_of(c, RSHARE_SENT).status);
	check("what was written is read", !memcmp(in, out, 300000));
	check("disconnect", !rshare_disconnect(c, EVENT_MS));
	/*
	 * A wrong key, or a range of which nothing is exported, ends the connection, and nothing
	 * else.
	 */
	stay = dial(ECHO, 0);
	for (int i = 0; i < 4; i++) {
		wrong = at;
		if (i & 1)
			wrong.rkey ^= 0x5a5a5a;
		else
			wrong.address += i & 2 ? at.size : 1ull << 40; /* beside it; nothing */
		c = dial(MEMORY, i & 2 ? 7 : 0);
		must(i & 2 ? rshare_write(c, out, 300000, &wrong, 0, 7)
			   : rshare_read(c, out, 300000, &wrong, 0, 7),
		     "a wrong key");
		check("a wrong key is refused", next_of(c, RSHARE_SENT).status == -EKEYREJECTED);
		check("its connection ends", next_of(c, RSHARE_CLOSED).status == -EKEYREJECTED);
		rshare_disconnect(c, 0);
		check("another connection stays", echo_small(stay));
	}
	check("disconnect", !rshare_disconnect(stay, EVENT_MS));
	rshare_put(r, out);
	rshare_put(r, in);
}

static void test_many(void)
{
	enum { N = 1000 };
	static struct rshare_conn *c[N];
	char *in = rshare_get(r, N * 256), *out = rshare_get(r, 256);
	unsigned int good = 0, i, k;
	struct rshare_info info;
	struct report rep;

	memset(out, 5, 256);
	for (i = 0; i < N; i++) {
		c[i] = dial(ECHO, i % 8);
		if (i % 50 == 49) /* accepted: a listener holds 4 * depth that are not */
			check("the first echo", echo_small(c[i]));
	}
	for (k = 0; k < 3; k++) {
		for (i = 0; i < N; i++)
			good += !rshare_recv(c[i], in + i * 256, 256, k) &&
				!rshare_send(c[i], out, 200, k);
		for (i = 0; i < N; i++)
			good += next_of(c[i], RSHARE_RECEIVED).size == 200;
	}
	check("1,000 connections echo", good == 6 * N);
	must(rshare_get_info(r, &info), "rshare_get_info");
	rep = report();
	printf("1,000 connections: %u queue pairs, %llu bytes registered, %llu posts in %llu chains\n",
	       info.queue_pairs, (unsigned long long)info.registered,
	       (unsigned long long)info.posts, (unsigned long long)info.doorbells);
	check("over two queue pairs", info.queue_pairs == 2 && info.connections >= N);
	check("at the other end, too", rep.info.queue_pairs == 2 && rep.info.connections >= N);
	for (i = good = 0; i < N; i++)
		good += !rshare_disconnect(c[i], EVENT_MS);
	check("1,000 connections close", good == N);
	rshare_put(r, in);
	rshare_put(r, out);
}

#define ALL 1024

static unsigned int all = ALL; /* --quick: an eighth */

/*
 * A round of echoes by all connections, each with its own contents; in the middle of it something
 * happens.
 */
static unsigned int round_of(struct rshare_conn **c, char *buf, unsigned int number,
			     void (*happens)(void))
{
	const size_t size = 100 + number * 331 % 1900;
	unsigned int i, good = 0;
	struct rshare_event e;

	for (i = 0; i < all; i++) {
		memset(buf + i * SLOT, (int)(i + number), size);
		if (rshare_recv(c[i], buf + i * SLOT + SLOT / 2, SLOT / 2, number) ||
		    rshare_send(c[i], buf + i * SLOT, size, number))
			return 0;
	}
	if (happens)
		happens();
	for (i = 0; i < all; i++) {
		e = next_of(c[i], RSHARE_RECEIVED);
		good += e.type == RSHARE_RECEIVED && !e.status && e.cookie == number &&
			e.size == size && !memcmp(buf + i * SLOT, buf + i * SLOT + SLOT / 2, size);
	}
	return good;
}

static void all_open(struct rshare_conn **c)
{
	for (unsigned int i = 0; i < all; i++) {
		c[i] = dial(ECHO, i % 8);
		if (i % 50 == 49) /* accepted: a listener holds 4 * depth that are not */
			check("the first echo", echo_small(c[i]));
	}
}

static void all_close(struct rshare_conn **c, unsigned int rounds)
{
	struct rshare_stats stats;
	unsigned int i, good = 0, exact = 0;

	for (i = 0; i < all; i++) {
		const unsigned int first = i % 50 == 49;

		exact += !rshare_get_stats(c[i], &stats) &&
			stats.messages_received == rounds + first &&
			stats.messages_sent == rounds + first;
		good += !rshare_disconnect(c[i], EVENT_MS);
	}
	check("each message once", exact == all);
	check("all close", good == all);
}

static enum rs_lane breaking;

/* While this thread waits for it, the queue pair stays the same. */
static void break_lane(void)
{
	rs_qp_stop(&r->owner->links->qp[breaking]);
}

/* Queue pairs break while all connections have messages on their way. */
static void test_repair(void)
{
	static struct rshare_conn *c[ALL];
	char *buf = rshare_get(r, ALL * SLOT);
	const unsigned int rounds = 4;
	unsigned int good = 0, k;
	struct rshare_info before, after;

	all_open(c);
	must(rshare_get_info(r, &before), "rshare_get_info");
	for (k = 0; k < rounds; k++) {
		breaking = k % 2 ? RS_STRICT : RS_WEIGHTED;
		good += round_of(c, buf, k, break_lane);
	}
	check("all echoes, though queue pairs broke", good == rounds * all);
	must(rshare_get_info(r, &after), "rshare_get_info");
	/* a round that was over before its break has none */
	check("repairs", after.repairs > before.repairs);
	check("two queue pairs", after.queue_pairs == 2);
	printf("%llu repairs, %llu posts sent again\n",
	       (unsigned long long)(after.repairs - before.repairs),
	       (unsigned long long)(after.resent - before.resent));
	all_close(c, rounds);
	rshare_put(r, buf);
}

/*
 * tests/share/run takes the link down when it reads the first line, for longer than a queue pair
 * retries.
 */
static void test_outage(void)
{
	static struct rshare_conn *c[ALL];
	char *buf = rshare_get(r, ALL * SLOT);
	unsigned int good = 0, k = 0;
	struct rshare_info info;
	uint64_t before;
	int64_t longest = 0, at, start;

	all_open(c);
	must(rshare_get_info(r, &info), "rshare_get_info");
	before = info.repairs;
	start = now_ms();
	puts("outage: take the link down now");
	while (info.repairs == before && now_ms() - start < 2 * EVENT_MS) {
		at = now_ms();
		good += round_of(c, buf, k++, NULL);
		longest = now_ms() - at > longest ? now_ms() - at : longest;
		must(rshare_get_info(r, &info), "rshare_get_info");
	}
	good += round_of(c, buf, k++, NULL);
	check("all echoes, though the link was down", good == k * all);
	check("queue pairs were repaired", info.repairs > before);
	printf("%u rounds of %u echoes, the longest %lld ms; %llu repairs, %llu posts sent again\n",
	       k, all, (long long)longest, (unsigned long long)(info.repairs - before),
	       (unsigned long long)info.resent);
	all_close(c, k);
	rshare_put(r, buf);
}

/* 4 MiB on each of two weighted connections, then a strict message: it passes them. */
static void test_order(void)
{
	struct rshare_conn *elephant[2] = { dial(SINK, 0), dial(SINK, 0) }, *mouse = dial(ECHO, 7);
	char *buf = rshare_get(r, 2 * SLOT), *big = rshare_get(r, SLOT);
	struct rshare_event e;
	unsigned int i, k, sent = 0, before, ready = 0;
	int done = 0;

	memset(big, 0, SLOT);
	check("the mouse is there", echo(mouse, buf, buf + SLOT, 64));
	for (k = 0; k < 2; k++)
		ready += next(elephant[k]).type == RSHARE_CONNECTED;
	check("the elephants are there", ready == 2);
	for (i = 0; i < 32; i++)
		for (k = 0; k < 2; k++)
			sent += !rshare_send(elephant[k], big, SLOT, i);
	check("the echo passes", echo(mouse, buf, buf + SLOT, 64));
	for (k = before = 0; k < 2; k++)
		while (rshare_poll(elephant[k], &e, 1) > 0)
			before += e.type == RSHARE_SENT;
	done = (int)before;
	for (k = 0; k < 2; k++)
		while (before < sent && (e = next(elephant[k])).type) {
			before += e.type == RSHARE_SENT && !e.status;
			if (e.cookie == 31)
				break;
		}
	printf("the mouse came back after %d of %u messages of the elephants\n", done, sent);
	check("before the elephants' end", done < (int)sent && before == sent);
	check("priority at run time",
	      !rshare_set_priority(elephant[0], 7, 1) && !rshare_set_priority(mouse, 0, 4) &&
		      echo_small(mouse));
	for (k = 0; k < 2; k++)
		check("disconnect", !rshare_disconnect(elephant[k], EVENT_MS));
	check("disconnect", !rshare_disconnect(mouse, EVENT_MS));
	rshare_put(r, buf);
	rshare_put(r, big);
}

static void test_close(void)
{
	const struct report before = report();
	char *buf = rshare_get(r, 32 * SLOT);
	struct report after;

	for (unsigned int k = 0; k < 20; k++) {
		struct rshare_conn *c = dial(SINK, k % 8);

		for (uint32_t i = 0; i < 32; i++) {
			memcpy(buf + i * SLOT, &i, sizeof(i));
			check("send", !rshare_send(c, buf + i * SLOT, SLOT, i));
		}
		check("close", !rshare_disconnect(c, EVENT_MS));
	}
	after = report();
	check("nothing is lost",
	      after.messages - before.messages == 20 * 32 &&
		      after.bytes - before.bytes == 20 * 32 * SLOT);
	check("nor out of order", after.out_of_order == before.out_of_order);
	check("all closed", after.broken == before.broken);
	rshare_put(r, buf);
}

static void test_opens(void)
{
	struct rshare_conn *other = dial(ECHO, 0), *c[50];
	const unsigned int opens =
		getenv("SHARE_OPENS") ? (unsigned int)atoi(getenv("SHARE_OPENS")) : 1000;
	unsigned int n, i, good = 0, echoes = 0;
	struct rshare_info info;
	int64_t start = now_ms();

	for (n = 0; n < opens; n += 50) {
		for (i = 0; i < 50; i++)
			c[i] = dial(ECHO, i % 8);
		echoes += (unsigned int)echo_small(other);
		for (i = 0; i < 50; i++)
			good += next(c[i]).type == RSHARE_CONNECTED;
		for (i = 0; i < 50; i++)
			good += !rshare_disconnect(c[i], EVENT_MS);
	}
	check("opens and closes", good == 2 * opens);
	check("others send meanwhile", echoes == opens / 50);
	must(rshare_get_info(r, &info), "rshare_get_info");
	check("and leave nothing", info.connections == 1);
	printf("%u opens and closes in %lld ms\n", opens, (long long)(now_ms() - start));
	check("disconnect", !rshare_disconnect(other, EVENT_MS));
}

static void test_stuck(void)
{
	struct rshare_conn *stuck = dial(STUCK, 0), *c = dial(ECHO, 0);
	char *buf = rshare_get(r, SLOT);
	struct rshare_stats stats = { 0 };

	for (unsigned int i = 0; i < 32; i++)
		check("send to one that does not read", !rshare_send(stuck, buf, SLOT, i));
	check("no more than depth", rshare_send(stuck, buf, SLOT, 99) == -EAGAIN);
	for (unsigned int i = 0; i < 20; i++)
		check("others go on", echo_small(c));
	check("statistics",
	      !rshare_get_stats(stuck, &stats) && stats.stalls == 1 && !stats.messages_sent);
	check("a close that cannot end", rshare_disconnect(stuck, 200) == -ETIMEDOUT);
	check("disconnect", !rshare_disconnect(c, EVENT_MS));
	c = dial(77, 0);
	check("nobody listens", next(c).status == -ECONNREFUSED);
	rshare_disconnect(c, 0);
	must(rshare_connect(r, "10.10.0.99:1", 1, 0, 1, &c), "rshare_connect");
	check("nobody is there", next(c).status < 0);
	rshare_disconnect(c, 0);
	rshare_put(r, buf);
}

/* A process of its own attaches to this one's owner. */
pid_t attach(void (*body)(void))
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	r = node_open(RSHARE_CLIENT, 64, 4u << 20);
	passed = failed = 0;
	body();
	exit(failed != 0);
}

int reap(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void child_echo(void)
{
	struct rshare_conn *c = dial(ECHO, 3);

	for (unsigned int i = 0; i < 50; i++)
		check("echo", echo_small(c));
	check("disconnect", !rshare_disconnect(c, EVENT_MS));
	rshare_close(r);
}

static void child_dies(void)
{
	struct rshare_conn *c = dial(ECHO, 3);
	char *buf = rshare_get(r, BIG);

	echo_small(c);
	for (unsigned int i = 0; i < 32; i++)
		rshare_send(c, buf, SLOT, i);
	kill(getpid(), SIGKILL);
}

/* Everything that this process may write, overwritten again and again while it submits. */
static void child_scribbles(void)
{
	struct rshare_conn *c = dial(ECHO, 3);
	unsigned int seed = 1;

	echo_small(c);
	for (unsigned int i = 0; i < 3000; i++) {
		char *at = (char *)c->seg + (unsigned int)rand_r(&seed) % r->layout.conn_bytes;

		*at = (char)(rand_r(&seed) & (i & 1 ? 3 : 255));
		rshare_send(c, r->pool.base, 100, i);
		__atomic_fetch_or(&((struct rs_seg_head *)r->base)->ready[0], ~0ull,
				  __ATOMIC_SEQ_CST);
	}
	usleep(100000);
	_exit(0);
}

static void test_processes(void)
{
	struct rshare_conn *c = dial(ECHO, 0);
	pid_t pid[4];
	struct rshare_info info;

	for (unsigned int i = 0; i < 4; i++)
		pid[i] = attach(child_echo);
	for (unsigned int i = 0; i < 4; i++)
		check("a process of its own", reap(pid[i]));
	check("one that dies", !reap(attach(child_dies)));
	check("others go on", echo_small(c));
	check("one that scribbles", reap(attach(child_scribbles)));
	check("others go on", echo_small(c));
	must(rshare_get_info(r, &info), "rshare_get_info");
	check("nothing is left of them",
	      info.connections == 1 && info.clients == 1 && info.peers == 1);
	printf("scribbled: %llu connections ended for it\n", (unsigned long long)info.forged);
	check("disconnect", !rshare_disconnect(c, EVENT_MS));
}

/* An owner of our own sends what no owner sends. */
static void test_liar(void)
{
	struct rshare *mine = r;
	struct report before = report(), after;
	struct rs_post post = { .op = RS_OP_SEND,
				.frame = { .version = RS_FRAME_VERSION, .kind = RS_FRAME_CLOSE } };
	struct rshare_conn *c;
	struct rs_link *l;

	r = node_own("liar", 18802, 64, 0);
	c = dial(ECHO, 0);
	check("it works", echo_small(c));
	usleep(200000); /* the owner's thread sleeps: its queue pair is ours */
	l = r->owner->links;
	for (uint32_t i = 0; i < 20; i++) {
		post.frame.to = 0x12340000 + i;
		post.frame.from = 0x56788000 + i; /* none of ours: the answer is for it */
		post.frame.number = (uint16_t)++l->peer.lane[RS_STRICT].numbered;
		check("post", !rs_qp_post(&r->owner->dev, &l->qp[RS_STRICT], &post, 1));
		usleep(20000);
	}
	after = report();
	check("unknown ids are counted", after.info.unknown - before.info.unknown >= 20);
	check("and harm nobody", echo_small(c));
	usleep(200000);
	post.frame.kind = 99;
	check("post", !rs_qp_post(&r->owner->dev, &l->qp[RS_STRICT], &post, 1));
	check("the liar is dropped", next_of(c, RSHARE_CLOSED).status == -ECONNRESET);
	rshare_disconnect(c, 0);
	rshare_close(r);
	r = mine;
	after = report();
	check("it was counted", after.info.malformed == before.info.malformed + 1);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "echo", test_echo },
	{ "rdma", test_rdma },
	{ "ops", test_ops },
	{ "many", test_many },
	{ "order", test_order },
	{ "close", test_close },
	{ "opens", test_opens },
	{ "stuck", test_stuck },
	{ "processes", test_processes },
	{ "liar", test_liar },
	{ "owner_dies", test_owner_dies },
	{ "repair", test_repair },
	{ "killed", test_killed },
	{ "starved", test_starved },
	{ "silent", test_silent },
	{ "outage", test_outage },
};

/*
 * Half a minute each. Of silent the same is tested in one process (tests/unit/test_share_faults.c).
 */
static bool takes_long(void (*test)(void))
{
	return test == test_outage || test == test_silent;
}

int main(int argc, char **argv)
{
	const unsigned int n = sizeof(tests) / sizeof(tests[0]);

	struct rlimit files;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* each fd of a connection is one here and one in the owner */
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (argc == 2 && !strcmp(argv[1], "serve"))
		node_serve();
	if (argc < 3 || strcmp(argv[1], "test"))
		return 2;
	if (!getenv("SHARE_OUTAGE"))
		all = ALL / 8;
	host = argv[2];
	r = node_open(RSHARE_OWNER, 1100, 32u << 20);
	for (unsigned int i = 0; i < n; i++)
		for (int k = argc == 3 ? 2 : 3; k < argc; k++)
			if (argc == 3 ? getenv("SHARE_OUTAGE") || !takes_long(tests[i].run)
				      : !strcmp(argv[k], tests[i].name)) {
				const unsigned int before = failed;
				const int64_t start = now_ms();

				tests[i].run();
				printf("%-10s %s %6lld ms\n", tests[i].name,
				       failed == before ? "ok  " : "FAIL",
				       (long long)(now_ms() - start));
			}
	rshare_close(r);
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}

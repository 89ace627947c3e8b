// SPDX-License-Identifier: BSD-2-Clause
/*
 * common_faults.c - tests of a node whose processes, owner or peers are killed, stopped, or send
 * more than there are landing buffers, while data is under way.
 */
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share/client.h"
#include "tests.h"

#define STREAMS 8

/* ---- a process ------------------------------------------------------------------------------- */

/*
 * Until the rings of all connections are full: of one whose peer reads, and one whose peer does
 * not.
 */
static void child_fills(void)
{
	struct rshare_conn *c[STREAMS];
	char *buf = rshare_get(r, SLOT);
	unsigned int i, k, n = 0;

	for (k = 0; k < STREAMS; k++) {
		c[k] = dial(k % 2 ? STUCK : SINK, k % 8);
		check("connected", next(c[k]).type == RSHARE_CONNECTED);
	}
	for (i = 0; i < 20; i++)
		for (k = 0; k < STREAMS; k++) {
			memcpy(buf, &n, sizeof(n));
			while (!rshare_send(c[k], buf, SLOT, 1) || !rshare_recv(c[k], buf, SLOT, 1))
				n++;
		}
	if (n < STREAMS * 64)
		_exit(1);
	kill(getpid(), SIGKILL);
}

void test_killed(void)
{
	struct rshare_conn *c = dial(ECHO, 0);
	struct rshare_info before, after;
	struct report at = report(), then;
	unsigned int good = 0, i, status = 0;

	must(rshare_get_info(r, &before), "rshare_get_info");
	for (i = 0; i < 5; i++) {
		const pid_t pid = attach(child_fills);
		int how;

		while (!waitpid(pid, &how, WNOHANG))
			good += !echo_small(c); /* while it sends */
		status += WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
		good += !echo_small(c);
	}
	check("killed with full rings", status == 5);
	check("others go on", good == 0);
	for (i = 0; i < 500; i++) {
		must(rshare_get_info(r, &after), "rshare_get_info");
		if (after.registered == before.registered &&
		    after.connections == before.connections)
			break;
		usleep(20000);
	}
	check("nothing is left of it",
	      after.registered == before.registered && after.connections == before.connections);
	then = report();
	check("its peers are told", then.broken - at.broken == 5 * STREAMS);
	check("one pair of queue pairs, never broken",
	      after.queue_pairs == 2 && after.repairs == before.repairs);
	check("disconnect", !rshare_disconnect(c, EVENT_MS));
}

/* ---- the owner ------------------------------------------------------------------------------- */

static pid_t own(const char *name, uint16_t port)
{
	pid_t pid;

	pid = fork();
	if (pid)
		return pid;
	r = node_own(name, port, 64, 0);
	for (;;)
		pause();
}

static void join(const char *name)
{
	struct rshare_config c;

	rshare_config_init(&c);
	c.role = RSHARE_CLIENT;
	c.name = name;
	for (unsigned int i = 0; i < 500; i++) {
		if (!rshare_open(NULL, &c, &r, NULL))
			return;
		usleep(20000);
	}
	must(-ETIMEDOUT, "the owner");
}

/* Sends to all of them until a call fails: its error. */
static int stream(struct rshare_conn **c, uint32_t *number, pid_t victim)
{
	char *buf = rshare_get(r, STREAMS * SLOT);
	const int64_t start = now_ms();
	struct rshare_event e[8];
	bool killed = false;
	int n = 0;

	while (n >= 0 && now_ms() - start < EVENT_MS) {
		for (unsigned int k = 0; k < STREAMS && n >= 0; k++) {
			memcpy(buf + k * SLOT, &number[k], sizeof(number[k]));
			n = rshare_send(c[k], buf + k * SLOT, SLOT, 1);
			number[k] += !n;
			n = n == -EAGAIN ? rshare_poll(c[k], e, 8) : n;
		}
		if (!killed && now_ms() - start > 1000) {
			kill(victim, SIGKILL);
			killed = true;
		}
	}
	return n;
}

/* The owner is another process, and is killed while it sends for this one. */
void test_owner_dies(void)
{
	struct rshare *mine = r;
	struct rshare_conn *c[STREAMS], *other = dial(ECHO, 0);
	const struct report before = report();
	struct pollfd p = { .events = POLLIN };
	uint32_t number[STREAMS] = { 0 };
	struct report after;
	struct rshare_event e;
	unsigned int k, reset = 0;
	pid_t pid;

	pid = own("victim", 18801);
	join("victim");
	for (k = 0; k < STREAMS; k++) {
		c[k] = dial(STREAMS - 1 == k ? ECHO : SINK, k % 8);
		check("connected", next(c[k]).type == RSHARE_CONNECTED);
	}
	p.fd = rshare_fd(c[0]);
	check("ECONNRESET", stream(c, number, pid) == -ECONNRESET);
	check("the fd tells", poll(&p, 1, EVENT_MS) == 1);
	for (k = 0; k < STREAMS; k++) {
		while (rshare_poll(c[k], &e, 1) > 0)
			;
		reset += rshare_poll(c[k], &e, 1) == -ECONNRESET &&
			rshare_wait(c[k], 1000) == -ECONNRESET &&
			rshare_send(c[k], r->pool.base, 1, 1) == -ECONNRESET &&
			rshare_disconnect(c[k], -1) == -ECONNRESET;
	}
	check("of all calls of all connections", reset == STREAMS);
	waitpid(pid, NULL, 0);
	rshare_close(r);
	r = mine;
	check("other owners go on", echo_small(other) && !rshare_disconnect(other, EVENT_MS));
	for (k = 0; k < 100 && (after = report()).broken - before.broken < STREAMS; k++)
		usleep(50000);
	check("the peer is told", after.broken - before.broken == STREAMS && after.info.peers == 1);
	check("data was under way", after.messages > before.messages);
	printf("%llu messages before the owner was killed\n",
	       (unsigned long long)(after.messages - before.messages));
}

/* ---- landing buffers ------------------------------------------------------------------------- */

/* Times that this device had no receive for a message. */
static uint64_t not_ready(void)
{
	unsigned long long value, all = 0;
	glob_t found;
	FILE *f;

	if (glob("/sys/class/infiniband/*/ports/1/hw_counters/*send_rnr_err*", 0, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		f = fopen(found.gl_pathv[i], "r");
		if (f && fscanf(f, "%llu", &value) == 1)
			all += value;
		if (f)
			fclose(f);
	}
	globfree(&found);
	return all;
}

/* An owner with 16 landing buffers, to which more connections send than that. */
void test_starved(void)
{
	enum { N = 200 };
	static struct rshare_conn *c[N];
	struct rshare *mine = r;
	const uint64_t before = not_ready();
	unsigned int good = 0, i, k;
	struct rshare_info info;
	char *in, *out;

	r = node_own("starved", 18803, N, 16);
	in = rshare_get(r, N * 256);
	out = rshare_get(r, 256);
	memset(out, 5, 256);
	for (i = 0; i < N; i++) {
		c[i] = dial(ECHO, i % 8);
		if (i % 50 == 49)
			check("the first echo", echo_small(c[i]));
	}
	for (k = 0; k < 5; k++) {
		for (i = 0; i < N; i++)
			good += !rshare_recv(c[i], in + i * 256, 256, k) &&
				!rshare_send(c[i], out, 200, k);
		for (i = 0; i < N; i++)
			good += next_of(c[i], RSHARE_RECEIVED).size == 200;
	}
	check("all arrive", good == 2 * 5 * N);
	must(rshare_get_info(r, &info), "rshare_get_info");
	printf("%llu times no landing buffer, %llu repairs\n",
	       (unsigned long long)(not_ready() - before), (unsigned long long)info.repairs);
	check("there was no landing buffer at times", not_ready() > before);
	check("nothing broke", !info.repairs);
	for (i = good = 0; i < N; i++)
		good += !rshare_disconnect(c[i], EVENT_MS);
	check("all close", good == N);
	rshare_close(r);
	r = mine;
}

/* ---- a peer that is stopped ------------------------------------------------------------------ */

/* An owner that listens at a service, says where it is, and stops. */
static pid_t stopped(int to)
{
	struct rshare_listener *l;
	struct rshare_info info;
	pid_t pid;

	pid = fork();
	if (pid)
		return pid;
	r = node_own("stopped", 18804, 64, 0);
	must(rshare_listen(r, 9, &l), "rshare_listen");
	must(rshare_get_info(r, &info), "rshare_get_info");
	must(write(to, info.address, sizeof(info.address)) == sizeof(info.address) ? 0 : -EIO,
	     "write");
	for (;;)
		pause();
}

/*
 * Its kernel and its device answer, and it does not: connections to it end, others go on, and it
 * comes back.
 */
void test_silent(void)
{
	struct rshare_conn *c, *other = dial(ECHO, 0);
	unsigned int echoes = 0;
	char address[64];
	int fds[2];
	pid_t pid;
	int64_t start;

	must(pipe(fds), "pipe");
	pid = stopped(fds[1]);
	check("its address", read(fds[0], address, sizeof(address)) == sizeof(address));
	must(rshare_connect(r, address, 9, 0, 1, &c), "rshare_connect");
	check("it works", next(c).type == RSHARE_CONNECTED);
	kill(pid, SIGSTOP);
	rshare_disconnect(c, 0);
	must(rshare_connect(r, address, 9, 0, 1, &c), "rshare_connect");
	for (start = now_ms(); !rshare_wait(c, 100) && now_ms() - start < EVENT_MS; echoes++)
		if (!echo_small(other))
			break;
	check("no answer is an error", next(c).status == -ETIMEDOUT);
	check("others go on", echoes > 20);
	printf("%lld ms until then, %u echoes of another connection\n",
	       (long long)(now_ms() - start), echoes);
	rshare_disconnect(c, 0);
	kill(pid, SIGCONT);
	must(rshare_connect(r, address, 9, 0, 1, &c), "rshare_connect");
	check("it comes back", next(c).type == RSHARE_CONNECTED);
	rshare_disconnect(c, 0);
	check("disconnect", !rshare_disconnect(other, EVENT_MS));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
}

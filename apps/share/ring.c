// SPDX-License-Identifier: BSD-2-Clause
/*
 * ring.c - a queue of records in memory that the other side writes. No side posts a receive for
 * them, and the owners' threads of the receiver take no part.
 *
 *   ring take                  take the records of one producer, then end
 *   ring put HOST[:PORT] [N]   put N records (100,000)
 *
 * The consumer exports the ring, the producer the number of records that were taken. Each writes
 * into the other's memory: the producer a record, whose last word is its number; the consumer,
 * after each quarter of the ring, how many it has taken. A connection keeps the order of writes,
 * and a record is at most a packet, so its number is there after the rest of it.
 */
#include "common.h"

#include <poll.h>
#include <sched.h>

#define SERVICE 102
#define SLOTS 256

struct record {
	char text[48];
	uint64_t number; /* from 1 on: last, so that it arrives last */
};

/* The memory that the other side writes. */
static struct rshare_remote exchange(struct rshare *r, struct rshare_conn *c, const void *mine,
				     size_t size)
{
	struct rshare_remote *out = get_buffer(r, sizeof(*out)), *in = get_buffer(r, sizeof(*in));

	must(rshare_export(r, mine, size, out), "rshare_export");
	must(rshare_recv(c, in, sizeof(*in), 0), "rshare_recv");
	must(rshare_send(c, out, sizeof(*out), 0), "rshare_send");
	wait_for(c, RSHARE_RECEIVED);
	return *in;
}

/* Write some bytes of the stack. They have no event, unless the write fails. */
static void put_bytes(struct rshare_conn *c, const void *bytes, size_t size,
		      const struct rshare_remote *to, uint64_t offset)
{
	const struct rshare_op op = { .type = RSHARE_OP_WRITE,
				      .flags = RSHARE_INLINE | RSHARE_UNSIGNALLED,
				      .buffer = (void *)(uintptr_t)bytes,
				      .size = size,
				      .remote = to,
				      .offset = offset };
	int err;

	while ((err = rshare_post(c, &op)) == -EAGAIN)
		sched_yield();
	must(err, "rshare_post");
}

/* Memory that the other side writes: load it anew each time. */
static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Has the other side gone? Unsignalled writes have events only if they fail. */
static int is_over(struct rshare_conn *c)
{
	struct rshare_event e;

	while (must(rshare_poll_again(c, &e, 1), "rshare_poll"))
		if (e.type == RSHARE_CLOSED)
			return 1;
	sched_yield();
	return 0;
}

static int take(struct rshare *r, struct rshare_conn *c)
{
	struct record *ring = get_buffer(r, SLOTS * sizeof(*ring));
	const struct rshare_remote taken_at = exchange(r, c, ring, SLOTS * sizeof(*ring));
	uint64_t taken = 0, wrong = 0;
	char text[sizeof(ring->text)];

	for (;;) {
		const struct record *next = &ring[taken % SLOTS];

		while (load(&next->number) != taken + 1)
			if (is_over(c) && load(&next->number) != taken + 1) {
				printf("%llu records, %llu wrong\n", (unsigned long long)taken,
				       (unsigned long long)wrong);
				return wrong != 0;
			}
		taken++;
		snprintf(text, sizeof(text), "record %llu", (unsigned long long)taken);
		wrong += strcmp(text, next->text) != 0;
		if (taken % (SLOTS / 4) == 0)
			put_bytes(c, &taken, sizeof(taken), &taken_at, 0);
	}
}

static int put(struct rshare *r, struct rshare_conn *c, uint64_t count)
{
	uint64_t *taken = get_buffer(r, sizeof(*taken)), i;
	const struct rshare_remote ring = exchange(r, c, taken, sizeof(*taken));
	struct record next = { .number = 0 };

	for (i = 0; i < count; i++) {
		while (i - load(taken) >= SLOTS)
			if (is_over(c))
				errx(1, "the consumer has gone");
		next.number = i + 1;
		snprintf(next.text, sizeof(next.text), "record %llu",
			 (unsigned long long)next.number);
		put_bytes(c, &next, sizeof(next), &ring, i % SLOTS * sizeof(next));
	}
	/* What was submitted arrives before the end. */
	return rshare_disconnect(c, 5000) != 0;
}

int main(int argc, char **argv)
{
	struct rshare *r = attach(1);
	struct rshare_listener *l;
	struct rshare_conn *c;
	struct pollfd p = { .events = POLLIN };
	int status, err;

	if (argc == 2 && !strcmp(argv[1], "take")) {
		must(rshare_listen(r, SERVICE, &l), "rshare_listen");
		p.fd = must(rshare_listener_fd(l), "rshare_listener_fd");
		puts("serving");
		fflush(stdout);
		while ((err = rshare_accept(l, &c)) == -EAGAIN)
			poll(&p, 1, -1);
		must(err, "rshare_accept");
		status = take(r, c);
		rshare_disconnect(c, 0);
		rshare_unlisten(l);
	} else if (argc >= 3 && !strcmp(argv[1], "put")) {
		must(rshare_connect(r, argv[2], SERVICE, 0, 1, &c), "rshare_connect");
		status = put(r, c, argc > 3 ? strtoull(argv[3], NULL, 10) : 100000);
	} else {
		errx(2, "usage: ring take | ring put HOST[:PORT] [N]");
	}
	rshare_close(r);
	return status;
}

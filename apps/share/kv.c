// SPDX-License-Identifier: BSD-2-Clause
/*
 * kv.c - a key-value store. Clients write through the server, and read without it.
 *
 *   kv serve                      serve until the program is killed
 *   kv HOST[:PORT] put KEY VALUE  store a value
 *   kv HOST[:PORT] get KEY        print the value; the exit status is 1 if there is none
 *   kv HOST[:PORT] gets           print how often values were read
 *
 * The server exports its table. A put is a message. A get reads the entries in which the key may be
 * by one RDMA read, of which the server's processor takes no notice. An entry that the server
 * changes meanwhile is recognised by its checksum, and read again. An atomic operation counts the
 * gets; nothing waits for it.
 */
#include "common.h"

#include <poll.h>

#define SERVICE 101
#define ENTRIES 1024
#define PROBES 8 /* entries in which a key may be */

struct entry {
	char key[48], value[72]; /* strings */
	uint64_t sum;            /* of both */
};

struct table {
	struct entry entry[ENTRIES + PROBES];
	uint64_t gets;
};

static uint64_t hash(const void *data, size_t size)
{
	uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t i = 0; i < size; i++)
		h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
	return h;
}

static uint64_t sum_of(const struct entry *e)
{
	return hash(e, offsetof(struct entry, sum));
}

static size_t first_entry(const char *key)
{
	return hash(key, strlen(key)) % ENTRIES;
}

/* ---- the server ----------------------------------------------------------------------------- */

static void table_put(struct table *t, const struct entry *new)
{
	struct entry *e = &t->entry[first_entry(new->key)], *end = e + PROBES;

	for (; e < end; e++)
		if (!e->key[0] || !strcmp(e->key, new->key))
			break;
	if (e == end) {
		warnx("no room for %s", new->key);
		return;
	}
	*e = *new;
	e->sum = sum_of(e);
}

/* One client at a time. Its first message gets the table in return, the others are puts. */
static void serve_one(struct rshare_conn *c, struct table *t, struct entry *in,
		      struct rshare_remote *out)
{
	struct rshare_event e;

	do {
		must(rshare_recv(c, in, sizeof(*in), 0), "rshare_recv");
		do
			e = next_event(c);
		while (e.type != RSHARE_RECEIVED && e.type != RSHARE_CLOSED);
		if (e.type != RSHARE_RECEIVED || e.status)
			break;
		if (e.size == sizeof(*in)) {
			in->key[sizeof(in->key) - 1] = in->value[sizeof(in->value) - 1] = 0;
			table_put(t, in);
		}
		/* The client knows now that it is stored. */
		must(rshare_send(c, out, sizeof(*out), 0), "rshare_send");
	} while (1);
}

static void serve(struct rshare *r)
{
	struct table *t = get_buffer(r, sizeof(*t));
	struct entry *in = get_buffer(r, sizeof(*in));
	struct rshare_remote *out = get_buffer(r, sizeof(*out));
	struct rshare_listener *l;
	struct rshare_conn *c;
	struct pollfd p = { .events = POLLIN };

	for (size_t i = 0; i < ENTRIES + PROBES; i++)
		t->entry[i].sum = sum_of(&t->entry[i]);
	must(rshare_export(r, t, sizeof(*t), out), "rshare_export");
	must(rshare_listen(r, SERVICE, &l), "rshare_listen");
	p.fd = must(rshare_listener_fd(l), "rshare_listener_fd");
	puts("serving");
	fflush(stdout);
	for (;;) {
		const int err = rshare_accept(l, &c);

		if (err == -EAGAIN) {
			poll(&p, 1, -1);
			continue;
		}
		must(err, "rshare_accept");
		serve_one(c, t, in, out);
		rshare_disconnect(c, 0);
	}
}

/* ---- the client ----------------------------------------------------------------------------- */

/* Send a put, or nothing. Returns where the table is. */
static struct rshare_remote client_ask(struct rshare *r, struct rshare_conn *c,
				       const struct entry *put)
{
	struct rshare_remote *table = get_buffer(r, sizeof(*table));
	struct entry *out = get_buffer(r, sizeof(*out));

	must(rshare_recv(c, table, sizeof(*table), 0), "rshare_recv");
	if (put)
		*out = *put;
	must(rshare_send(c, out, put ? sizeof(*out) : 0, 0), "rshare_send");
	wait_for(c, RSHARE_RECEIVED);
	return *table;
}

static int client_get(struct rshare *r, struct rshare_conn *c, const char *key)
{
	const struct rshare_remote table = client_ask(r, c, NULL);
	const uint64_t offset = first_entry(key) * sizeof(struct entry);
	struct entry *e = get_buffer(r, PROBES * sizeof(*e));
	const struct rshare_op count = { .type = RSHARE_OP_FETCH_ADD,
					 .flags = RSHARE_UNSIGNALLED,
					 .buffer = get_buffer(r, sizeof(uint64_t)),
					 .size = sizeof(uint64_t),
					 .remote = &table,
					 .offset = offsetof(struct table, gets),
					 .operand = 1 };
	int i;

	must(rshare_post(c, &count), "rshare_post");
	do {
		must(rshare_read(c, e, PROBES * sizeof(*e), &table, offset, 1), "rshare_read");
		while (wait_for(c, RSHARE_SENT).cookie != 1)
			;
		for (i = 0; i < PROBES && e[i].sum == sum_of(&e[i]); i++)
			if (!strcmp(e[i].key, key)) {
				puts(e[i].value);
				return 0;
			}
	} while (i < PROBES);
	return 1;
}

static int client_gets(struct rshare *r, struct rshare_conn *c)
{
	const struct rshare_remote table = client_ask(r, c, NULL);
	uint64_t *gets = get_buffer(r, sizeof(*gets));

	must(rshare_read(c, gets, sizeof(*gets), &table, offsetof(struct table, gets), 1),
	     "rshare_read");
	while (wait_for(c, RSHARE_SENT).cookie != 1)
		;
	printf("%llu\n", (unsigned long long)*gets);
	return 0;
}

static int client_put(struct rshare *r, struct rshare_conn *c, const char *key, const char *value)
{
	struct entry e = { .sum = 0 };

	if (!*key || strlen(key) >= sizeof(e.key) || strlen(value) >= sizeof(e.value))
		errx(2, "a key has 1 to %zu characters, a value at most %zu", sizeof(e.key) - 1,
		     sizeof(e.value) - 1);
	strcpy(e.key, key);
	strcpy(e.value, value);
	client_ask(r, c, &e);
	return 0;
}

int main(int argc, char **argv)
{
	struct rshare_conn *c;
	struct rshare *r;
	int status = 2;

	r = attach(1);
	if (argc == 2 && !strcmp(argv[1], "serve"))
		serve(r);
	if (argc < 3)
		errx(2, "usage: kv serve | kv HOST[:PORT] put KEY VALUE | get KEY | gets");
	must(rshare_connect(r, argv[1], SERVICE, 0, 1, &c), "rshare_connect");
	if (argc == 5 && !strcmp(argv[2], "put"))
		status = client_put(r, c, argv[3], argv[4]);
	else if (argc == 4 && !strcmp(argv[2], "get"))
		status = client_get(r, c, argv[3]);
	else if (argc == 3 && !strcmp(argv[2], "gets"))
		status = client_gets(r, c);
	must(rshare_disconnect(c, 5000), "rshare_disconnect");
	rshare_close(r);
	return status;
}

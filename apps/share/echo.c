// SPDX-License-Identifier: BSD-2-Clause
/*
 * echo.c - messages and immediate data: a server sends each message back.
 *
 *   echo serve             serve until the program is killed
 *   echo HOST[:PORT] [N]   send N messages (1,000), check what comes back
 *
 * The server sleeps on one descriptor for all its connections. The client's messages are inline and
 * unsignalled: it keeps no buffers of them, and polls only what it receives. Their number travels
 * as immediate data.
 */
#include "common.h"

#include <poll.h>

#define SERVICE 100
#define SLOTS 8 /* messages on their way */
#define SIZE 64 /* bytes of a message */

/* ---- the server ----------------------------------------------------------------------------- */

struct client {
	struct rshare_conn *c;
	char *buffer; /* SLOTS of them; cookies are their numbers */
};

/* Returns the descriptor of all clients. */
static int client_begin(struct rshare *r, struct rshare_conn *c)
{
	struct client *client = malloc(sizeof(*client));

	if (!client)
		errx(1, "no memory");
	*client = (struct client){ .c = c, .buffer = get_buffer(r, SLOTS * SIZE) };
	for (uint64_t i = 0; i < SLOTS; i++)
		must(rshare_recv(c, client->buffer + i * SIZE, SIZE, i), "rshare_recv");
	return must(rshare_join(c, client), "rshare_join");
}

/* Send a message back from the buffer in which it came, or receive the next one there. */
static void client_event(struct rshare *r, struct client *client, const struct rshare_event *e)
{
	char *buffer = client->buffer + e->cookie * SIZE;
	const struct rshare_op op = { .type = RSHARE_OP_SEND,
				      .flags = e->flags,
				      .cookie = e->cookie,
				      .buffer = buffer,
				      .size = e->size,
				      .immediate = e->immediate };

	if (e->type == RSHARE_RECEIVED && !e->status)
		must(rshare_post(client->c, &op), "rshare_post");
	if (e->type == RSHARE_SENT && !e->status)
		must(rshare_recv(client->c, buffer, SIZE, e->cookie), "rshare_recv");
	if (e->type == RSHARE_CLOSED) {
		rshare_disconnect(client->c, 0);
		rshare_put(r, client->buffer);
		free(client);
	}
}

static void clients_serve(struct rshare *r)
{
	struct rshare_event e;
	void *ready;
	int last;

	while (must(rshare_ready(r, &ready, 1), "rshare_ready")) {
		struct client *client = ready;

		for (last = 0; !last && rshare_poll_again(client->c, &e, 1) == 1;) {
			last = e.type == RSHARE_CLOSED;
			client_event(r, client, &e);
		}
	}
}

static void serve(struct rshare *r)
{
	struct rshare_listener *l;
	struct rshare_conn *c;
	struct pollfd p[2] = { { .fd = -1, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
	int err;

	must(rshare_listen(r, SERVICE, &l), "rshare_listen");
	p[0].fd = must(rshare_listener_fd(l), "rshare_listener_fd");
	puts("serving");
	fflush(stdout);
	for (;;) {
		while (!(err = rshare_accept(l, &c)))
			p[1].fd = client_begin(r, c);
		if (err != -EAGAIN)
			must(err, "rshare_accept");
		clients_serve(r);
		poll(p, 2, -1);
	}
}

/* ---- the client ----------------------------------------------------------------------------- */

static void client_send(struct rshare_conn *c, uint32_t number)
{
	char message[SIZE];
	const struct rshare_op op = { .type = RSHARE_OP_SEND,
				      .flags =
					      RSHARE_INLINE | RSHARE_UNSIGNALLED | RSHARE_IMMEDIATE,
				      .buffer = message,
				      .size = 1 + number % SIZE,
				      .immediate = number };

	memset(message, (int)number, sizeof(message));
	must(rshare_post(c, &op), "rshare_post");
}

static int is_echo(const struct rshare_event *e, const char *buffer, uint32_t number)
{
	return e->flags & RSHARE_IMMEDIATE && e->immediate == number &&
		e->size == 1 + number % SIZE && buffer[0] == (char)number &&
		buffer[e->size - 1] == (char)number;
}

static int client_run(struct rshare *r, const char *host, uint32_t count)
{
	char *buffer = get_buffer(r, SLOTS * SIZE);
	uint32_t sent, seen, wrong = 0;
	struct rshare_conn *c;
	struct rshare_event e;

	must(rshare_connect(r, host, SERVICE, 0, 1, &c), "rshare_connect");
	for (sent = 0; sent < SLOTS && sent < count; sent++) {
		must(rshare_recv(c, buffer + sent * SIZE, SIZE, sent), "rshare_recv");
		client_send(c, sent);
	}
	for (seen = 0; seen < count; seen++) {
		e = wait_for(c, RSHARE_RECEIVED);
		wrong += !is_echo(&e, buffer + e.cookie * SIZE, seen);
		if (sent == count)
			continue;
		must(rshare_recv(c, buffer + e.cookie * SIZE, SIZE, e.cookie), "rshare_recv");
		client_send(c, sent++);
	}
	must(rshare_disconnect(c, 5000), "rshare_disconnect");
	printf("%u echoes, %u wrong\n", seen, wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	struct rshare *r;
	int status;

	if (argc < 2)
		errx(2, "usage: echo serve | echo HOST[:PORT] [N]");
	r = attach(0);
	if (!strcmp(argv[1], "serve"))
		serve(r);
	status = client_run(r, argv[1], argc > 2 ? (uint32_t)atoi(argv[2]) : 1000);
	rshare_close(r);
	return status;
}

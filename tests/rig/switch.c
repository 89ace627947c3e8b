// SPDX-License-Identifier: BSD-2-Clause
/*
 * The network switch between the guests: each port is a datagram socket, whose other end a guest's
 * network device has, and a datagram is an Ethernet frame. It learns which addresses are behind a
 * port, as switches do.
 *
 *   switch FD,FD,...[/FD,FD,...]...     ports, inherited; "/" separates networks
 *
 * No frame is lost between running guests: what a guest does not take yet waits in its port's
 * queue. The queue has a bound, so that a guest that stands still costs no memory: from there on
 * frames to it are dropped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	/* eight guests, each with four devices for RDMA and one for control */
	PORTS = 40,
	ADDRESSES = 16,       /* per port */
	FRAME = 69632,        /* what QEMU sends at most */
	BATCH = 32,           /* frames of a port before the next port's turn */
	QUEUE_MAX = 32 << 20, /* bytes; a queue pair of rxe has 64 packets of 4 KiB on the way */
};

struct queued {
	struct queued *next;
	size_t length;
	char data[];
};

struct port {
	int fd, network;
	uint8_t address[ADDRESSES][6];
	int known; /* addresses */
	struct queued *first, **last;
	size_t queued; /* bytes */
};

static struct port ports[PORTS];
static int count;

static bool behind(const struct port *p, const uint8_t *address)
{
	for (int i = 0; i < p->known; i++)
		if (!memcmp(p->address[i], address, 6))
			return true;
	return false;
}

static void learn(struct port *p, const uint8_t *address)
{
	if (p->known < ADDRESSES && !behind(p, address))
		memcpy(p->address[p->known++], address, 6);
}

static void enqueue(struct port *p, const char *data, size_t length)
{
	struct queued *q;

	if (p->queued + length > QUEUE_MAX)
		return;
	q = malloc(sizeof(*q) + length);
	if (!q)
		return;
	q->next = NULL;
	q->length = length;
	memcpy(q->data, data, length);
	*p->last = q;
	p->last = &q->next;
	p->queued += length;
}

static bool blocked(ssize_t sent)
{
	return sent < 0 && (errno == EAGAIN || errno == ENOBUFS);
}

static void transmit(struct port *p, const char *data, size_t length)
{
	if (p->first || blocked(send(p->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)))
		enqueue(p, data, length);
}

static void drain(struct port *p)
{
	while (p->first) {
		struct queued *q = p->first;

		if (blocked(send(p->fd, q->data, q->length, MSG_DONTWAIT | MSG_NOSIGNAL)))
			return;
		p->queued -= q->length;
		p->first = q->next;
		if (!p->first)
			p->last = &p->first;
		free(q);
	}
}

static void forward(struct port *from, const char *data, size_t length)
{
	const uint8_t *to = (const uint8_t *)data;

	learn(from, to + 6);
	for (struct port *p = ports; p < ports + count; p++)
		if (p != from && p->network == from->network && behind(p, to)) {
			transmit(p, data, length);
			return;
		}
	for (struct port *p = ports; p < ports + count; p++)
		if (p != from && p->network == from->network)
			transmit(p, data, length);
}

static void receive(struct port *p)
{
	static char data[FRAME];

	for (int i = 0; i < BATCH; i++) {
		ssize_t n = recv(p->fd, data, sizeof(data), MSG_DONTWAIT);

		if (n < 14)
			return;
		forward(p, data, n);
	}
}

static bool parse(char *text)
{
	int network = 0;
	char *end;

	for (;; text = end + 1) {
		if (count == PORTS)
			return false;
		ports[count] = (struct port){ .fd = strtol(text, &end, 10), .network = network };
		ports[count].last = &ports[count].first;
		count++;
		network += *end == '/';
		if (*end != ',' && *end != '/')
			return !*end;
	}
}

int main(int argc, char **argv)
{
	struct pollfd set[PORTS];

	if (argc != 2 || !parse(argv[1])) {
		fprintf(stderr, "usage: switch FD,FD,...[/FD,FD,...]...\n");
		return 2;
	}
	for (;;) {
		for (int i = 0; i < count; i++)
			set[i] = (struct pollfd){ .fd = ports[i].fd,
						  .events =
							  POLLIN | (ports[i].first ? POLLOUT : 0) };
		if (poll(set, count, -1) < 0)
			continue;
		for (int i = 0; i < count; i++) {
			if (set[i].revents & POLLOUT)
				drain(&ports[i]);
			if (set[i].revents & (POLLIN | POLLHUP | POLLERR))
				receive(&ports[i]);
		}
	}
}

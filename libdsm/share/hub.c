// SPDX-License-Identifier: BSD-2-Clause
/*
 * hub.c - the tables of the hub: connections by id and by index, clients. One thread at a
 * time (hub.h).
 */
#include "share/hub.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rshare.h"
#include "share/check.h"
#include "share/conn.h"
#include "share/mem.h"

#define SLOT(id) ((id) & (RS_CONNS_MAX - 1))

void rs_hub_init(struct rs_hub *h, const struct rs_wire *wire)
{
	*h = (struct rs_hub){ .wire = wire, .pieces = RS_PIECES_MAX };
}

void rs_hub_exit(struct rs_hub *h)
{
	rs_free(h->conn);
	rs_free(h->generation);
	*h = (struct rs_hub){ .wire = NULL };
}

/* ---- events --------------------------------------------------------------------------------- */

static void forget_unnotified(struct rs_conn *c)
{
	if (!c->unnotified)
		return;
	*c->unnotified = c->next_unnotified;
	if (c->next_unnotified)
		c->next_unnotified->unnotified = c->unnotified;
	c->unnotified = NULL;
}

void hub_conn_unnotified(struct rs_conn *c)
{
	struct rs_hub *h = c->client->hub;

	if (c->unnotified)
		return;
	c->next_unnotified = h->unnotified;
	if (c->next_unnotified)
		c->next_unnotified->unnotified = &c->next_unnotified;
	c->unnotified = &h->unnotified;
	h->unnotified = c;
}

/*
 * Set the bit after the events, and before loading armed. The client arms before it looks for bits:
 * see arm_set().
 */
static void hub_notify_set(struct rs_conn *c)
{
	struct rs_seg_head *head = (struct rs_seg_head *)c->client->base;

	__atomic_fetch_or(&head->events[c->index / 64], 1ull << c->index % 64, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&head->armed, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&head->armed, 0, __ATOMIC_SEQ_CST) && c->client->fd >= 0) {
		c->client->hub->wire->wake_set(c->client);
		/* After the signal; pairs with the load in arm_set(). */
		__atomic_fetch_add(&head->signals, 1, __ATOMIC_RELEASE);
	}
}

void rs_hub_notify(struct rs_hub *h)
{
	struct rs_conn *c;

	while ((c = h->unnotified)) {
		forget_unnotified(c);
		if (c->joined)
			hub_notify_set(c);
		/*
		 * Store the events before loading armed. The client arms before it polls for
		 * events: see client_conn_arm().
		 */
		if (c->fd >= 0 && __atomic_exchange_n(&c->seg->armed, 0, __ATOMIC_SEQ_CST)) {
			h->wire->wake(c);
			/* After the signal; pairs with the load in client_conn_arm(). */
			__atomic_fetch_add(&c->seg->signals, 1, __ATOMIC_RELEASE);
		}
	}
}

/* ---- connections by id ---------------------------------------------------------------------- */

static int hub_grow(struct rs_hub *h)
{
	const uint32_t n = h->nconn ? 2 * h->nconn : 256;
	struct rs_conn **conn;
	uint16_t *generation;

	if (n > RS_CONNS_MAX)
		return -ENOSPC;
	conn = rs_zalloc(n, sizeof(*conn));
	generation = rs_zalloc(n, sizeof(*generation));
	if (!conn || !generation) {
		rs_free(conn);
		rs_free(generation);
		return -ENOMEM;
	}
	if (h->nconn) {
		memcpy(conn, h->conn, h->nconn * sizeof(*conn));
		memcpy(generation, h->generation, h->nconn * sizeof(*generation));
	}
	rs_free(h->conn);
	rs_free(h->generation);
	h->conn = conn;
	h->generation = generation;
	h->next = h->nconn;
	h->nconn = n;
	return 0;
}

/*
 * Slots are used in turn, so that a late frame for a closed connection does not find its successor.
 */
static int hub_conn_enter(struct rs_hub *h, struct rs_conn *c)
{
	uint32_t slot;
	int err;

	/*
	 * Half of the slots stay free, which keeps the search short. Without memory the other half
	 * is used, too.
	 */
	if (2 * h->live >= h->nconn && h->nconn < RS_CONNS_MAX) {
		err = hub_grow(h);
		if (err && h->live == h->nconn)
			return err;
	}
	if (h->live == h->nconn)
		return -ENOSPC;
	for (slot = h->next; h->conn[slot]; slot = (slot + 1) % h->nconn)
		;
	h->next = (slot + 1) % h->nconn;
	h->conn[slot] = c;
	h->live++;
	if (!++h->generation[slot])
		h->generation[slot] = 1; /* no id is 0 */
	c->id = (uint32_t)h->generation[slot] * RS_CONNS_MAX + slot;
	return 0;
}

struct rs_conn *hub_conn_find(struct rs_hub *h, uint32_t id)
{
	struct rs_conn *c = SLOT(id) < h->nconn ? h->conn[SLOT(id)] : NULL;

	return c && c->id == id ? c : NULL;
}

void hub_conn_log(struct rs_conn *c, const char *what)
{
	char text[256];

	snprintf(text, sizeof(text), "connection %u%s%s: %s", c->index, c->peer ? " with " : "",
		 c->peer ? c->peer->name : "", what);
	c->client->hub->wire->log(text);
}

static int free_index(struct rs_client *client, uint32_t *out)
{
	uint32_t i;

	if (client->live == client->layout.conns)
		return -ENOSPC;
	for (i = client->next; client->conn[i]; i = (i + 1) % client->layout.conns)
		;
	client->next = (i + 1) % client->layout.conns;
	*out = i;
	return 0;
}

static void link_conn(struct rs_conn *c, struct rs_conn **list)
{
	c->next = *list;
	if (c->next)
		c->next->link = &c->next;
	c->link = list;
	*list = c;
}

void hub_conn_unlink(struct rs_conn *c)
{
	if (!c->link)
		return;
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	c->next = NULL;
	c->link = NULL;
}

int hub_conn_create(struct rs_client *client, struct rs_peer *p, struct rs_conn **out)
{
	struct rs_conn *c = rs_zalloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	err = free_index(client, &c->index);
	if (!err)
		err = hub_conn_enter(client->hub, c);
	if (err) {
		rs_free(c);
		return err;
	}
	client->conn[c->index] = c;
	client->live++;
	c->client = client;
	c->peer = p;
	c->fd = -1;
	c->seg = rs_seg_conn(&client->layout, client->base, c->index);
	memset(c->seg, 0, client->layout.conn_bytes);
	rs_flow_init(&c->flow, 0, 1);
	link_conn(c, p ? &p->conns : &client->hub->listeners);
	*out = c;
	return 0;
}

void hub_conn_destroy(struct rs_conn *c)
{
	struct rs_hub *h = c->client->hub;

	h->wire->freed(c);
	hub_conn_unlink(c);
	forget_unnotified(c);
	c->client->conn[c->index] = NULL;
	c->client->live--;
	h->conn[SLOT(c->id)] = NULL;
	h->live--;
	rs_free(c);
}

/* ---- clients -------------------------------------------------------------------------------- */

int rs_client_init(struct rs_client *c, struct rs_hub *h, const struct rs_layout *l, void *base)
{
	*c = (struct rs_client){ .hub = h, .layout = *l, .base = base, .fd = -1 };
	c->conn = rs_zalloc(l->conns, sizeof(*c->conn));
	if (!c->conn)
		return -ENOMEM;
	c->sibling = h->clients;
	h->clients = c;
	return 0;
}

void rs_client_gone(struct rs_client *c)
{
	uint32_t i;

	for (i = 0; i < c->layout.conns; i++)
		if (c->conn[i])
			rs_conn_release(c->conn[i]);
}

bool rs_client_idle(const struct rs_client *c)
{
	return !c->live && !c->outstanding;
}

void rs_client_exit(struct rs_client *c)
{
	struct rs_client **at = c->hub ? &c->hub->clients : &c->sibling;

	for (; *at; at = &(*at)->sibling)
		if (*at == c) {
			*at = c->sibling;
			break;
		}
	rs_free(c->conn);
	c->conn = NULL;
}

/* May peers change the 8 bytes at offset by this key? */
static bool is_granted(const struct rs_client *c, uint32_t rkey, uint64_t offset)
{
	const struct rs_grant *g;

	for (g = c->grants; g; g = g->next)
		/* An offset before its own wraps. */
		if (g->rkey == rkey && g->access & RSHARE_ACCESS_ATOMIC &&
		    g->len >= sizeof(uint64_t) && offset - g->offset <= g->len - sizeof(uint64_t))
			return true;
	return false;
}

uint64_t *hub_word_find(struct rs_hub *h, uint32_t rkey, uint64_t address)
{
	struct rs_client *c;

	for (c = h->clients; c; c = c->sibling) {
		char *pool = c->base + c->layout.pool_offset;
		const uint64_t offset = address - (uintptr_t)pool;

		if (offset % sizeof(uint64_t) == 0 && offset < c->layout.pool_bytes &&
		    ((c->remote && c->rkey == rkey) || is_granted(c, rkey, offset)))
			return (uint64_t *)(void *)(pool + offset);
	}
	return NULL;
}

unsigned int rs_client_kick(struct rs_client *c)
{
	struct rs_seg_head *head = (struct rs_seg_head *)c->base;
	unsigned int n = 0;
	uint32_t word, index;
	uint64_t bits;

	for (word = 0; word < (c->layout.conns + 63) / 64; word++) {
		if (!__atomic_load_n(&head->ready[word], __ATOMIC_RELAXED))
			continue;
		/* Pairs with the client's fetch-or, which comes after its slot is published. */
		bits = __atomic_exchange_n(&head->ready[word], 0, __ATOMIC_ACQ_REL);
		for (; bits; bits &= bits - 1) {
			index = word * 64 + (uint32_t)__builtin_ctzll(bits);
			if (rs_index_ok(index, c->layout.conns) && c->conn[index])
				rs_conn_kick(c->conn[index]);
			n++;
		}
	}
	return n;
}

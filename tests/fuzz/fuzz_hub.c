// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_hub.c - the rings and frames of librshare: libFuzzer target.
 *
 * Two nodes run in this process (share_world.h). On each, one process overwrites the rings that it
 * shares with the owner with bytes of the input; a third node sends frames made of them to the
 * second. A connection between two other processes must continue: all its messages arrive, in order
 * and complete, and neither node blames the other.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include "../unit/share_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONNS 8
#define LEN 300 /* more than a chunk */

struct state {
	struct world_node *n, *sink; /* sink: where what is posted for the third node ends */
	struct rs_peer third;
	uint32_t bad[2], good[2]; /* indices of the connections */
	uint32_t sent, posted, received;
};

static void third_begin(struct state *s)
{
	const uint32_t window[RS_LANES] = { 4 * WORLD_CHUNK, 4 * WORLD_CHUNK };

	memset(&s->third, 0, sizeof(s->third));
	must(!rs_peer_init(&s->third, &s->n[1].hub, WORLD_CHUNK, window, 16));
	s->third.link = s->sink;
	rs_peer_ready(&s->third, WORLD_CHUNK);
}

/*
 * Of the third node: what it has posted is done; a node that breaks the rules is dropped, and comes
 * again.
 */
static void third_sends(struct state *s, const uint8_t *b, size_t n)
{
	struct rs_frame f = { .version = RS_FRAME_VERSION,
			      .kind = (uint8_t)(b[0] % (RS_FRAME_KINDS + 1)) };
	char message[sizeof(f) + WORLD_CHUNK] = { 0 };
	unsigned int lane;

	for (lane = 0; lane < RS_LANES; lane++) {
		rs_peer_pump(&s->third);
		while (s->sink->lane[lane].head != s->sink->lane[lane].tail) {
			s->sink->lane[lane].head++;
			rs_peer_sent(&s->third, (enum rs_lane)lane, 1);
		}
	}
	f.number = (uint16_t)(s->third.lane[b[1] & 1].received + 1 + !(b[1] & 0xf0));
	f.to = b[2] & 1 ? RS_CONNS_MAX * (1 + b[3] % 4u) + b[4] % 16u
		: s->n[1].client[b[2] >> 1 & 1].rs.conn[0]
		? s->n[1].client[b[2] >> 1 & 1].rs.conn[0]->id
		: 0;
	f.from = RS_CONNS_MAX + b[5];
	f.seq = b[6];
	f.total = b[7] & 1 ? b[7] / 2u | 1u << 8 : b[7] * 4u;
	f.credit = b[8];
	f.len = f.kind == RS_FRAME_DATA || f.kind == RS_FRAME_FIRST ? b[9] : 0;
	if (f.kind == RS_FRAME_ATOMIC)
		f.len = f.total = sizeof(struct rs_atomic);
	f.to = f.kind == RS_FRAME_OPEN ? 0 : f.to;
	memcpy(message, &f, sizeof(f));
	if (n > 12 && b[10] & 1) /* any byte of it */
		message[b[11] % sizeof(f)] = (char)b[12];
	if (rs_peer_receive(&s->third, (enum rs_lane)(b[1] & 1), message,
			    (uint32_t)sizeof(f) + f.len)) {
		rs_peer_lost(&s->third, -EBADMSG);
		third_begin(s);
	}
}

static void scribble(struct state *s, const uint8_t *b)
{
	struct world_client *c = &s->n[b[0] & 1].client[0];
	const uint32_t at = b[1] | (uint32_t)b[2] << 8,
		       index = b[0] & 2 ? s->bad[b[0] & 1] : b[0] >> 2 & (CONNS - 1);

	((char *)world_seg(c, index))[at % c->rs.layout.conn_bytes] = (char)b[3];
	world_ready(c, index);
	if (b[0] & 128)
		memset(c->rs.base, b[3], 16 + b[1]);
}

/* An operation in pieces: some of them lie in the pool, and some have its length together. */
static void submit_pieces(struct state *s, const uint8_t *b)
{
	struct rs_sqe e = { .op = (uint8_t)(RS_OP_SEND + b[0] / 2 % 3),
			    .flags = b[1] % 16 ? 0 : b[1] / 16,
			    .len = b[2] & 1 ? b[2] : 0,
			    .pieces = b[3] % (RS_PIECES_MAX + 2u) };
	struct rs_pieces v;
	unsigned int i;

	for (i = 0; i < RS_PIECES_MAX; i++) {
		v.len[i] = b[4 + i] & 1 ? b[4 + i] * 4u : b[4 + i] / 2u;
		v.offset[i] = b[9] >> i & 1 ? WORLD_POOL - b[10] * 4u : b[11] * 256u + i;
		if (!(b[2] & 1) && i < e.pieces)
			e.len += v.len[i];
	}
	world_submit_pair(&s->n[b[0] & 1].client[0], s->bad[b[0] & 1], &e, &v);
}

/* The connection that nobody has touched. */
static void go_on(struct state *s)
{
	struct world_client *from = &s->n[0].client[1], *to = &s->n[1].client[1];
	struct rs_cqe e;

	if (s->posted - s->received < 4 &&
	    world_recv(to, s->good[1], (s->posted % 4) * 1024, LEN, s->posted))
		s->posted++;
	if (s->sent - s->received < 4) {
		memset(world_pool(from, (s->sent % 4) * 1024), (int)s->sent, LEN);
		s->sent += world_send(from, s->good[0], (s->sent % 4) * 1024, LEN, s->sent);
	}
	while (world_poll(from, s->good[0], &e))
		must(e.type == RSHARE_SENT && !e.status);
	while (world_poll(to, s->good[1], &e)) {
		const char *at = world_pool(to, (e.cookie % 4) * 1024);

		must(e.type == RSHARE_RECEIVED && !e.status && e.cookie == s->received &&
		     e.len == LEN);
		must(at[0] == (char)s->received && !memcmp(at, at + 1, LEN - 1));
		s->received++;
	}
	must(!s->n[0].error && !s->n[1].error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s = { .n = world_create(CONNS), .sink = calloc(1, sizeof(*s.sink)) };
	struct rs_conn *l;
	uint32_t before;

	must(s.sink);
	world_connect(s.n, 0, 0, 0, &s.bad[0], &s.bad[1]);
	world_connect(s.n, 1, 1, 0, &s.good[0], &s.good[1]);
	must(!rs_conn_listen(&s.n[1].client[0].rs, 0, &l));
	third_begin(&s);
	for (; size > 13; data += 14, size -= 14) {
		switch (data[0] % 5) {
		case 0: third_sends(&s, data + 1, 13); break;
		case 1: go_on(&s); break;
		case 2: submit_pieces(&s, data + 1); break;
		default: scribble(&s, data + 1); scribble(&s, data + 5);
		}
		world_turn(s.n, data[13] * 0x0101010101010101u);
	}
	for (before = s.received, size = 0; size < 1000 && s.received < before + 20; size++) {
		go_on(&s);
		world_turn(s.n, ~0ull);
	}
	must(s.received >= before + 20);
	rs_peer_lost(&s.third, -ECONNRESET);
	rs_conn_release(l);
	world_destroy(s.n);
	free(s.sink);
	return 0;
}

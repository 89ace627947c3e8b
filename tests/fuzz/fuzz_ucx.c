// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_ucx.c - what a malicious peer can do by UCX, up to where the message is looked at: libFuzzer
 * target.
 *
 * The first byte says what the rest is: an address or an active message; as bytes, or as a struct
 * that is right but for fields that have values at the edges of their rules. All is in memory of
 * exactly its size.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include "../ucx_values.h"
#include "net/ucx/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RANKS 5
#define ME 2

static const struct net_config cfg = { .rank = ME, .size = RANKS, .nslots = 4 };

static void *copy(const void *from, size_t size)
{
	void *p = malloc(size ? size : 1);

	must(p);
	memcpy(p, from, size);
	return p;
}

static void address_in(const void *address, size_t size)
{
	const struct ucx_limits x = { .behind = size - sizeof(struct ucx_blob) };
	void *at = copy(address, size);
	struct ucx_blob b;
	int err = ucx_blob_read(at, size, &b);

	must(!err == (size >= sizeof(b) && rule_all_hold(&ucx_table, &x, UCX_SHAPE_BLOB, at)));
	must(err || (b.size && b.size == size - sizeof(b) && size <= NET_ADDRESS_MAX));
	free(at);
}

static void message_in(const void *header, size_t header_size, size_t size)
{
	const struct ucx_limits x = { .nodes = RANKS };
	void *at = copy(header, header_size);
	struct ucx_arrival a;
	struct msg m;
	int err = ucx_message_read(&cfg, at, header_size, size, &a, &m);

	must(a.header == header_size && a.data == size && a.src == m.src);
	must(err ||
	     (rule_all_hold(&ucx_table, &x, UCX_SHAPE_ARRIVAL, &a) && ucx_sender_known(&cfg, &a)));
	must(err || (header_size == sizeof(m) && size <= net_payload_max(m.type) && m.dst == ME));
	must(!ucx_sender_known(&cfg, &a) ||
	     (m.src < RANKS && m.src != ME && header_size == sizeof(m)));
	free(at);
}

static void values_in(const uint8_t *data, size_t size, bool address)
{
	const struct ucx_limits x = { .behind = 64, .nodes = RANKS };
	struct msg m = { .version = WIRE_VERSION, .type = MSG_RETURN, .dst = ME, .req_node = ME };
	char bytes[sizeof(struct ucx_blob) + 64] = { 0 };
	struct ucx_arrival a;

	if (address) {
		rule_choose(&ucx_table, &x, UCX_SHAPE_BLOB, bytes, data, size);
		address_in(bytes, sizeof(bytes));
		return;
	}
	rule_choose(&ucx_table, &x, UCX_SHAPE_ARRIVAL, &a, data, size);
	m.src = (uint16_t)a.src;
	memcpy(bytes, &m, sizeof(m));
	message_in(bytes, a.header < sizeof(bytes) ? a.header : sizeof(bytes), a.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t payload = 0;

	if (!size)
		return 0;
	switch (data[0] & 3) {
	case 0: address_in(data + 1, size - 1); break;
	case 1:
		if (size > 4) {
			memcpy(&payload, data + 1, sizeof(payload));
			message_in(data + 5, size - 5, payload);
		}
		break;
	default: values_in(data + 1, size - 1, data[0] & 1);
	}
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* set.c - the settings of the transport over verbs, checked against one table. */
#include "net/verbs/set.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
	const char *name;
	size_t field;
	uint32_t def, min, max;
	bool power; /* of two, or 0 where min is 0 */
		    /* clang-format off */
} rows[] = {
#define FIELD(f) offsetof(struct verbs_set, f)
	{ "imm", FIELD(imm), 1, 0, 1, false },
	{ "solicit", FIELD(solicit), 1, 0, 1, false },
	{ "coalesce", FIELD(coalesce), 1, 0, 1, false },
	{ "chain", FIELD(chain), VERBS_CHAIN_MAX, 0, VERBS_CHAIN_MAX, false },
	{ "inline", FIELD(inlined), 128, 0, 1024, false },
	{ "signal", FIELD(signal), 16, 1, 1024, false },
	{ "batch", FIELD(batch), 16, 1, VERBS_BATCH_MAX, false },
	{ "spread", FIELD(spread), 1, 0, 1, false },
	{ "direct", FIELD(direct), 1, 0, 1, false },
	{ "large", FIELD(large), 1, 0, 1, false },
	{ "srq", FIELD(srq), 0, 0, 1 << 15, false },
	{ "depth", FIELD(depth), 0, 0, 1024, true },
	{ "landing", FIELD(landing), 4096, 4096, 65536, true },
	{ "odp", FIELD(odp), 1, 0, 1, false },
	{ "huge", FIELD(huge), 1, 0, 1, false },
	/*
	 * 14, the usual default, is 67 ms: slow guests then resend messages that were not lost. 18
	 * is 1.07 s.
	 */
	{ "timeout", FIELD(timeout), 18, 1, 31, false },
	/* Not 7: rxe takes that for "without limit", and would never notice a dead peer. */
	{ "retry", FIELD(retry), 6, 0, 7, false },
	{ "break", FIELD(breaks), 0, 0, 1u << 30, false },
};
/* clang-format on */
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct row *row_of(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < ROWS; i++)
		if (strlen(rows[i].name) == n && !strncmp(rows[i].name, name, n))
			return &rows[i];
	return NULL;
}

static void list_names(char *why, size_t size, const char *name, size_t n)
{
	size_t used = (size_t)snprintf(why, size, "DSM_VERBS knows no %.*s; there are:", (int)n,
				       name),
	       i;

	for (i = 0; i < ROWS && used < size; i++)
		used += (size_t)snprintf(why + used, size - used, " %s", rows[i].name);
}

static int set_one(struct verbs_set *out, const char *text, size_t n, char *why, size_t size)
{
	const char *equals = memchr(text, '=', n), *p;
	const size_t name = equals ? (size_t)(equals - text) : n;
	const struct row *r = row_of(text, name);
	unsigned long v = 0;

	if (!r) {
		list_names(why, size, text, name);
		return -EINVAL;
	}
	for (p = equals ? equals + 1 : text + n;
	     p < text + n && isdigit((unsigned char)*p) && v <= r->max; p++)
		v = v * 10 + (unsigned long)(*p - '0');
	if (!equals || equals + 1 == text + n || p != text + n || v < r->min || v > r->max ||
	    (r->power && (v & (v - 1)))) {
		snprintf(why, size, "DSM_VERBS: %.*s is not allowed; %s may be %u to %u%s", (int)n,
			 text, r->name, r->min, r->max, r->power ? ", a power of two" : "");
		return -EINVAL;
	}
	memcpy((char *)out + r->field, &(uint32_t){ (uint32_t)v }, sizeof(uint32_t));
	return 0;
}

int verbs_set_parse(const char *text, struct verbs_set *out, char *why, size_t size)
{
	struct verbs_set set;
	size_t i, n;
	int err = 0;

	for (i = 0; i < ROWS; i++)
		memcpy((char *)&set + rows[i].field, &rows[i].def, sizeof(uint32_t));
	for (; text && *text && !err; text += n + (text[n] == ',')) {
		n = strcspn(text, ",");
		err = set_one(&set, text, n, why, size);
	}
	if (err)
		return err;
	if (!set.chain)
		set.chain = 1;
	*out = set;
	return 0;
}

int verbs_names_parse(const char *text, struct verbs_names *out, char *why, size_t size)
{
	struct verbs_names names = { 0 };
	size_t n, length;

	for (; text && *text; text += n + (text[n] == ',')) {
		const char *colon;
		unsigned long port = 0;
		char *end;

		n = strcspn(text, ",");
		colon = memchr(text, ':', n);
		length = colon ? (size_t)(colon - text) : n;
		if (colon) {
			port = strtoul(colon + 1, &end, 10);
			if (!isdigit((unsigned char)colon[1]) || end != text + n || !port ||
			    port > 255)
				length = 0;
		}
		if (!length || length >= sizeof(names.at[0].name)) {
			snprintf(why, size, "DSM_NET_DEVICE: %.*s is not NAME or NAME:PORT", (int)n,
				 text);
			return -EINVAL;
		}
		if (names.n == VERBS_NAMES) {
			snprintf(why, size, "DSM_NET_DEVICE: more than %d devices", VERBS_NAMES);
			return -EINVAL;
		}
		memcpy(names.at[names.n].name, text, length);
		names.at[names.n++].port = (unsigned int)port;
	}
	*out = names;
	return 0;
}

bool verbs_names_have(const struct verbs_names *names, const char *device, unsigned int port)
{
	unsigned int i;

	for (i = 0; i < names->n; i++)
		if (!strcmp(names->at[i].name, device) &&
		    (!port || !names->at[i].port || names->at[i].port == port))
			return true;
	return !names->n;
}

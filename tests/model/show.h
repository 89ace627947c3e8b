/* SPDX-License-Identifier: BSD-2-Clause */
/* show.h - messages and actions as text, for the traces of the model and of the simulator. */
#ifndef MODEL_SHOW_H
#define MODEL_SHOW_H

#include <stdio.h>

#include "core/sync.h"
#include "core/wire.h"

/* Coherence and lock messages show the fields that they use; others show common fields. */
static inline const char *show_msg(const struct msg *m, char *text, size_t size)
{
	const char *name = m->type == MSG_SYNC ? sync_op_name(m->op) : wire_name(m->type);
	int n = snprintf(text, size, "%s %u->%u object %u for %u.%u", name, m->src, m->dst,
			 m->object, m->req_node, m->req_slot);

	if (n > 0 && (size_t)n < size && (m->count || m->value || m->op || m->flags))
		n += snprintf(text + n, size - (size_t)n, " (op %u flags %u count %d value %llu)",
			      m->op, m->flags, m->count, (unsigned long long)m->value);
	return text;
}

static inline const char *show_prot(unsigned int prot)
{
	static const char *const names[] = { "closed", "read", "write" };

	return prot < 3 ? names[prot] : "?";
}

#endif

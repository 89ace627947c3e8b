// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* map.c - see map.h. */
#include "core/map.h"

#define RANKS ((1ULL << MAP_BITS) - 1)

/* D_OTHERS: but the asker's, which the filling itself opens no further */
enum down { D_NONE, D_LOOSE, D_OTHERS };
/* L_WHO: the asker's alone; L_MORE: the asker's, too */
enum loose { L_SAME, L_NONE, L_ALL, L_WHO, L_MORE };

struct rule {
	uint8_t down, to; /* first these mappings are lowered, to this */
	uint8_t loose;    /* then these are loose */
	uint8_t state;    /* new state of the node */
	uint8_t open;     /* protection opened for the asker */
};

/* clang-format off */
static const struct rule rules[MAP_KINDS][MAP_AGAIN_RO] = {
	[MAP_SHOWN] = {
		[MAP_FILL_RO] = { D_OTHERS, PROT_RO,     L_NONE, PROT_RO,     PROT_RO },
		[MAP_FILL_RW] = { D_NONE,   PROT_RW,     L_MORE, PROT_RW,     PROT_RW },
		[MAP_RAISE]   = { D_NONE,   PROT_RW,     L_MORE, PROT_RW,     PROT_RW },
		[MAP_LOWER]   = { D_LOOSE,  PROT_RO,     L_NONE, PROT_RO,     PROT_CLOSED },
		[MAP_SHUT]    = { D_NONE,   PROT_CLOSED, L_ALL,  PROT_CLOSED, PROT_CLOSED }, /* the object's page goes from all mappings */
	},
	[MAP_ASKED] = {
		[MAP_FILL_RO] = { D_LOOSE,  PROT_CLOSED, L_WHO,  PROT_RO,     PROT_RO },
		[MAP_FILL_RW] = { D_LOOSE,  PROT_CLOSED, L_WHO,  PROT_RW,     PROT_RW },
		[MAP_RAISE]   = { D_NONE,   PROT_RW,     L_MORE, PROT_RW,     PROT_RW },
		[MAP_LOWER]   = { D_LOOSE,  PROT_RO,     L_SAME, PROT_RO,     PROT_CLOSED },
		[MAP_SHUT]    = { D_LOOSE,  PROT_CLOSED, L_NONE, PROT_CLOSED, PROT_CLOSED },
	},
};
/* clang-format on */

uint64_t map_loose(enum map_kind kind, const struct map *m)
{
	return (kind == MAP_SHOWN ? ~m->word : m->word) & RANKS;
}

static void map_set(enum map_kind kind, struct map *m, uint64_t loose, enum prot state)
{
	m->word = (uint64_t)state << MAP_BITS | ((kind == MAP_SHOWN ? ~loose : loose) & RANKS);
}

static uint64_t loose_after(enum loose rule, uint64_t loose, uint16_t who)
{
	switch (rule) {
	case L_NONE: return 0;
	case L_ALL: return RANKS;
	case L_WHO: return map_bit(who);
	case L_MORE: return loose | map_bit(who);
	default: return loose;
	}
}

/*
 * The asker has read the node's state without this page's lock:
 *
 *   map_again()                          lower()
 *     the node may write
 *                                      the node may read; all mappings lowered
 *                                      contents leave
 *     opens for no more than the state now
 */
static void map_again(enum map_kind kind, struct map *m, enum prot asked, uint16_t who,
		      struct map_todo *todo)
{
	enum prot state = map_state(m), open = asked < state ? asked : state;

	if (open == PROT_CLOSED || (kind == MAP_SHOWN && open == PROT_RO))
		return; /* nothing to open, or the kernel opens it */
	map_set(kind, m, map_loose(kind, m) | map_bit(who), state);
	todo->open = (uint8_t)open;
}

void map_step(enum map_kind kind, struct map *m, enum map_event ev, uint16_t who,
	      struct map_todo *todo)
{
	uint64_t loose = map_loose(kind, m);
	const struct rule *r;

	*todo = (struct map_todo){ .except = MAP_NOBODY };
	if (ev >= MAP_AGAIN_RO) {
		map_again(kind, m, ev == MAP_AGAIN_RO ? PROT_RO : PROT_RW, who, todo);
		return;
	}
	if (map_state(m) == PROT_CLOSED && (ev == MAP_RAISE || ev == MAP_LOWER))
		return; /* nothing is there */
	r = &rules[kind][ev];
	if (r->down != D_NONE)
		todo->down = loose;
	if (r->down == D_OTHERS)
		todo->except = who;
	todo->to = r->to;
	todo->open = r->open;
	map_set(kind, m, loose_after((enum loose)r->loose, loose, who), (enum prot)r->state);
}

enum prot map_shown(const struct map *m, uint16_t who)
{
	if (map_state(m) == PROT_RW && !(map_loose(MAP_SHOWN, m) & map_bit(who)))
		return PROT_RO; /* nobody would lower it */
	return map_state(m);
}

void map_marked(struct map *m, uint16_t who)
{
	map_set(MAP_SHOWN, m, map_loose(MAP_SHOWN, m) & map_bit(who), map_state(m));
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol-tables.c - prints the tables of docs/protocol.md and docs/sharing.md from the core, and
 * the rules.h of calls, the transports and librshare: `protocol-tables NAME`, or `--list`.
 *
 * What a rule is called is what the core calls it. Where it leads is found by stepping the machine,
 * with all the contents of object and message that make a difference, and collecting the states
 * that come out.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/closing.h"
#include "core/dir.h"
#include "core/lock.h"
#include "core/page.h"
#include "core/release.h"
#include "tests/payload_values.h"
#include "tests/share_values.h"
#include "tests/shared_values.h"
#include "tests/ucx_values.h"
#include "tests/verbs_values.h"

#define RANKS 4
#define SLOTS 4

/* ---- small helpers --------------------------------------------------------------------------- */

static void rule_line(unsigned int columns)
{
	putchar('|');
	while (columns--)
		printf(" --- |");
	putchar('\n');
}

/* "rule → A or B"; nothing about states when the only one is the one before. */
static void cell(const char *rule, unsigned int before, uint32_t after,
		 const char *(*name)(unsigned int))
{
	const char *sep = *rule ? " → " : "";
	unsigned int s;

	printf(" %s", rule);
	for (s = 0; s < 32 && after != 1u << before; s++)
		if (after >> s & 1) {
			printf("%s%s", sep, name(s));
			sep = " or ";
		}
	printf(" |");
}

/* ---- messages -------------------------------------------------------------------------------- */

static void messages(void)
{
	static const char *const classes[CLASS_MAX] = { "coherence", "data", "sync", "bulk" };
	static const char *const hosts[] = { "itself", "processes", "kernels", "all" };
	unsigned int t;

	printf("| message | class | taken by | releases | acquires |\n");
	rule_line(5);
	for (t = MSG_NONE + 1; t < MSG_TYPES; t++)
		printf("| %s | %s | %s | %s | %s |\n", wire_name((uint8_t)t),
		       classes[wire_class((uint8_t)t)], hosts[wire_hosts((uint8_t)t)],
		       !(wire_order((uint8_t)t) & ORDER_RELEASE) ? "-"
			       : t == MSG_SYNC                   ? "by operation"
								 : "yes",
		       wire_order((uint8_t)t) & ORDER_ACQUIRE ? "yes" : "-");
}

/* All but those that every type has alike. */
static void fields(void)
{
	static const enum wire_field columns[] = { WF_flags,    WF_op,       WF_object,
						   WF_req_node, WF_req_slot, WF_home,
						   WF_count,    WF_aux,      WF_value };
	const unsigned int n = sizeof(columns) / sizeof(columns[0]);
	unsigned int t, i;

	printf("| message |");
	for (i = 0; i < n; i++)
		printf(" %s |", wire_field_name(columns[i]));
	putchar('\n');
	rule_line(n + 1);
	for (t = MSG_NONE + 1; t < MSG_TYPES; t++) {
		if (!wire_hosts((uint8_t)t))
			continue;
		printf("| %s |", wire_name((uint8_t)t));
		for (i = 0; i < n; i++)
			printf(" %s |", wire_rule_name(wire_rule_of((uint8_t)t, columns[i])));
		putchar('\n');
	}
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void shape_line(unsigned int shape)
{
	printf(" %s |", shape == SHAPE_NONE ? "-" : payload_type(shape)->name);
}

static void calls(void)
{
	static const char *const to[] = { "any rank", "rank 0" },
				 *const from[] = { "any node", "the first node" };
	unsigned int op;

	printf("| call | to | from | request | answer | rows of the answer | how many |\n");
	rule_line(7);
	for (op = 1; op < CALL_OPS; op++) {
		const struct payload_call *c = payload_call((uint8_t)op);

		printf("| %s | %s | %s |", c->name, to[c->to], from[c->from]);
		shape_line(c->request);
		shape_line(c->answer);
		shape_line(c->row);
		if (c->rows == PAYLOAD_MANY)
			printf(" as many as fit |\n");
		else
			printf(" %u |\n", c->rows);
	}
}

static void payloads(void)
{
	unsigned int s, i;

	printf("| payload | field | offset | bytes | value |\n");
	rule_line(5);
	for (s = SHAPE_NONE + 1; s < SHAPES; s++) {
		const struct rule_type *t = payload_type(s);

		for (i = 0; i < t->n; i++)
			printf("| %s | %s | %u | %u | %s |\n", t->name, t->fields[i].name,
			       t->fields[i].offset, t->fields[i].size,
			       payload_table.texts[t->fields[i].rule]);
	}
}

/* ---- below the messages ---------------------------------------------------------------------- */

static void structs(const struct rule_table *table, unsigned int shapes)
{
	unsigned int s, i;

	printf("| struct | shape | field | offset | bytes | value |\n");
	rule_line(6);
	for (s = 0; s < shapes; s++) {
		const struct rule_type *t = &table->types[s];

		for (i = 0; i < t->n; i++)
			printf("| %s | %s | %s | %u | %u | %s |\n", t->type, t->name,
			       t->fields[i].name, t->fields[i].offset, t->fields[i].size,
			       table->texts[t->fields[i].rule]);
	}
}

static void frames(void)
{
	structs(&verbs_table, VERBS_SHAPE_COUNT);
}

static void shared_frames(void)
{
	structs(&shared_table, SHARED_SHAPE_COUNT);
}

static void librshare(void)
{
	structs(&share_table, RS_SHAPE_COUNT);
}

static void ucx(void)
{
	structs(&ucx_table, UCX_SHAPE_COUNT);
}

static void immediate_words(void)
{
	unsigned int w, i;

	printf("| word | field | first bit | bits | value |\n");
	rule_line(5);
	for (w = 0; w < WORD_KINDS; w++)
		for (i = 0; i < word_types[w].n; i++) {
			const struct word_field *f = &word_types[w].fields[i];

			printf("| %s | %s | %u | %u | %s |\n", word_types[w].name, f->name,
			       f->first, f->bits, f->text);
		}
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The states that the event can lead to. */
static uint32_t page_after(unsigned int state, unsigned int event)
{
	static const uint8_t held[] = { 0, PE_INV, PE_FWD_READ, PE_FWD_WRITE, PE_FWD_MIGRATE };
	const struct page_ctx ctx = { .me = 0, .now = 0, .hold_us = 0 };
	uint32_t after = 0;
	unsigned int v;

	for (v = 0; v < 2 * 4 * 2 * 2 * 2 * 5; v++) {
		struct copy p = { .state = (uint8_t)state,
				  .flags = v & 1 ? PAGE_OWNER : 0,
				  .acks = (int16_t)((v >> 1 & 3) - 1),
				  .home = 2,
				  .held = event == PE_REPLAY ? held[v >> 6] : 0 };
		struct msg m = { .src = 1,
				 .req_node = 2,
				 .op = v >> 3 & 1 ? GRANT_READ : GRANT_WRITE,
				 .flags = v >> 4 & 1 ? MSGF_ZERO : 0,
				 .count = (int16_t)(v >> 5 & 1),
				 .home = 1 };
		struct actions acts;

		/* Acknowledgements are for those who asked to write what others have. */
		if (state != PG_WANT_WRITE && state != PG_UPGRADE && state != PG_COUNT)
			p.acks = 0;
		if (state == PG_WANT_WRITE && event == PE_GRANT)
			p.acks = 0;
		if (state == PG_WANT_READ)
			m.count = 0;
		if (!page_step(&ctx, &p, (enum page_event)event, &m, &acts))
			after |= 1u << p.state;
	}
	return after;
}

static void page_table(unsigned int from, unsigned int to)
{
	unsigned int s, e;

	printf("| state |");
	for (e = from; e < to; e++)
		printf(" %s |", page_event_name(e));
	putchar('\n');
	rule_line(to - from + 1);
	for (s = 0; s < PG_STATES; s++) {
		printf("| %s |", page_state_name(s));
		for (e = from; e < to; e++)
			cell(page_rule_name(s, e), s, page_after(s, e), page_state_name);
		putchar('\n');
	}
}

static void page_local(void)
{
	page_table(PE_READ, PE_DATA);
}

static void page_messages(void)
{
	page_table(PE_DATA, PE_EVENTS);
}

/* ---- the directory --------------------------------------------------------------------------- */

/*
 * Rank 0 is home or manager, rank 1 asks, or is the manager; the entry is in this state and phase,
 * and waiters of its line are in the queue.
 */
static uint32_t dir_after(unsigned int state, unsigned int phase, unsigned int type,
			  uint32_t *phases)
{
	uint32_t states = 0;
	unsigned int v;

	*phases = 0;
	for (v = 0; v < 3 * 2 * 2 * 2 * 2; v++) {
		uint16_t forwarded = 0;
		struct queue_entry nodes[RANKS * SLOTS] = { 0 };
		struct dir_ctx ctx = { .me = 0,
				       .nnodes = RANKS,
				       .manager = v / 24 % 2,
				       .queue = { .entries = nodes, .nslots = SLOTS },
				       .forwarded = &forwarded };
		struct dir d = { .state = state & 15,
				 .phase = phase & 15,
				 .owner = (uint16_t)(v % 3),
				 .served = 1,
				 .copyset = 1u << v % 3 };
		struct msg m = { .type = (uint8_t)type,
				 .src = 1,
				 .req_node = 1,
				 .flags = v / 3 % 2 ? MSGF_FIRST_TOUCH : 0,
				 .op = MSG_WRITE_REQ,
				 .value = type == MSG_CLAIM ? 1
					 : v / 6 % 2        ? 2
							    : 0 };
		bool waiters = v / 12 % 2;
		struct actions acts;

		if (type == MSG_HOME) /* to the new home, about itself */
			m.req_node = 0;
		if (type == MSG_MOVE)
			m.req_node = 2;
		if (type == MSG_KEPT) { /* by rank 1, from rank 2 */
			m.req_node = 2;
			d.owner = d.served = 2;
			d.copyset = 6;
			d.migratory = 1;
		}
		if (type == MSG_ADOPT) {
			m.req_node = d.served = 0;
			m.value = ctx.manager;
		}
		if (waiters || phase == DIR_TURN) {
			nodes[queue_number(&ctx.queue, 2, 0) - 1].type = MSG_READ_REQ;
			d.tail = queue_push(&ctx.queue, 0, queue_number(&ctx.queue, 2, 0)) &
				0xffffff;
		}
		if (waiters && phase == DIR_TURN) {
			nodes[queue_number(&ctx.queue, 3, 0) - 1].type = MSG_WRITE_REQ;
			d.tail = queue_push(&ctx.queue, d.tail, queue_number(&ctx.queue, 3, 0)) &
				0xffffff;
		}
		if (phase == DIR_IDLE && d.tail)
			continue;
		if (dir_step(&ctx, &d, &m, &acts))
			continue;
		states |= 1u << d.state;
		*phases |= 1u << d.phase;
	}
	return states;
}

static void directory(void)
{
	static const uint8_t types[] = { MSG_READ_REQ, MSG_WRITE_REQ };
	uint32_t phases;
	unsigned int s, t;

	printf("| state | READ_REQ | WRITE_REQ |\n");
	rule_line(3);
	for (s = 0; s < DIR_STATES; s++) {
		printf("| %s |", dir_state_name(s));
		for (t = 0; t < 2; t++)
			cell(dir_rule_name(s, types[t]), s,
			     dir_after(s, DIR_IDLE, types[t], &phases), dir_state_name);
		putchar('\n');
	}
}

static void directory_phases(void)
{
	static const uint8_t types[] = { MSG_READ_REQ, MSG_WRITE_REQ, MSG_DONE,     MSG_KEPT,
					 MSG_HOME_ACK, MSG_RESUME,    MSG_HOME,     MSG_PLACE,
					 MSG_CLAIM,    MSG_MOVE,      MSG_MOVE_ACK, MSG_ADOPT };
	unsigned int p, s, t;

	printf("| phase |");
	for (t = 0; t < sizeof(types); t++)
		printf(" %s |", wire_name(types[t]));
	putchar('\n');
	rule_line(sizeof(types) + 1);
	for (p = 0; p < DIR_PHASES; p++) {
		printf("| %s |", dir_phase_name(p));
		for (t = 0; t < sizeof(types); t++) {
			uint32_t after = 0, phases;

			for (s = 0; s < DIR_STATES; s++) {
				if (p == DIR_HOMING && s != DIR_MOVED)
					continue;
				if ((p == DIR_HANDING || p == DIR_MOVING) && s != DIR_EXCLUSIVE)
					continue;
				dir_after(s, p, types[t], &phases);
				after |= phases;
			}
			cell(!after                     ? "-"
				     : after == 1u << p ? "stays"
							: "",
			     p, after, dir_phase_name);
		}
		putchar('\n');
	}
}

/* ---- release blocks -------------------------------------------------------------------------- */

static const char *rel_copy_name(unsigned int state)
{
	return rel_state_name(false, state);
}

static const char *rel_home_name(unsigned int state)
{
	return rel_state_name(true, state);
}

/*
 * The states that the event can lead to, with a second node that is registered or not, a thread
 * that writes or not, and a home that lends or not.
 */
static uint32_t rel_after(bool home, unsigned int state, unsigned int event)
{
	uint32_t after = 0;
	unsigned int v;

	for (v = 0; v < 16; v++) {
		const bool asks = v >> 3 && (event == RE_WRITE || event == RE_GRANT);
		struct rel blocks[1] = { { .state = (uint8_t)state,
					   .flags = asks && event == RE_GRANT ? REL_ASKED : 0,
					   .writes = v & 1,
					   .same = v >> 1 & 1 ? REL_IDLE - 1 : 0,
					   .copyset = !home || state == RELH_EXCLUSIVE ? 0
						   : v >> 2 & 1                        ? 2
										       : 4 } };
		struct rel_lists lists = { 0 };
		const struct rel_ctx ctx = { .me = 0,
					     .nnodes = RANKS,
					     .home = home ? 0 : 1,
					     .follow = asks,
					     .raises = asks,
					     .lends = v & 1,
					     .lists = &lists,
					     .blocks = blocks };
		const struct msg m = { .src = 1,
				       .req_node = home ? 1 : 0,
				       .op = asks ? GRANT_WRITE : GRANT_READ };
		struct actions acts;

		if (!rel_step(&ctx, blocks, (enum rel_event)event, &m, &acts))
			after |= 1u << blocks->state;
	}
	return after;
}

static void rel_table(bool home, unsigned int states, const uint8_t *events, unsigned int n)
{
	unsigned int s, e;

	printf("| state |");
	for (e = 0; e < n; e++)
		printf(" %s |", rel_event_name(events[e]));
	putchar('\n');
	rule_line(n + 1);
	for (s = 0; s < states; s++) {
		printf("| %s |", rel_state_name(home, s));
		for (e = 0; e < n; e++) {
			uint32_t after = rel_after(home, s, events[e]);

			cell(rel_rule_name(home, s, events[e]), s, after ? after : 1u << s,
			     home ? rel_home_name : rel_copy_name);
		}
		putchar('\n');
	}
}

static void release_copies(void)
{
	static const uint8_t events[] = { RE_READ,  RE_WRITE, RE_USED,    RE_DATA,
					  RE_GRANT, RE_APPLY, RE_CHANGED, RE_SAME,
					  RE_TOLD,  RE_GIVEN, RE_FETCH,   RE_DONE };

	rel_table(false, REL_STATES, events, sizeof(events));
}

static void release_homes(void)
{
	static const uint8_t events[] = { RE_READ,    RE_WRITE, RE_FETCH, RE_FLUSH,
					  RE_CHANGED, RE_SAME,  RE_APPLY, RE_TOLD };

	rel_table(true, RELH_STATES, events, sizeof(events));
}

static void closes(void)
{
	unsigned int p, e;

	printf("| event |");
	for (p = 0; p < CLOSING_PHASES; p++)
		printf(" %s |", closing_phase_name(p));
	putchar('\n');
	rule_line(CLOSING_PHASES + 1);
	for (e = 0; e < CLOSING_EVENTS; e++) {
		printf("| %s |", closing_event_name(e));
		for (p = 0; p < CLOSING_PHASES; p++)
			printf(" %s |", closing_rule_name(p, e));
		putchar('\n');
	}
}

/* ---- locks and other objects ----------------------------------------------------------------- */

static void hold(void)
{
	unsigned int s, e;

	printf("| state |");
	for (e = 0; e < HE_EVENTS; e++)
		printf(" %s |", hold_event_name(e));
	putchar('\n');
	rule_line(HE_EVENTS + 1);
	for (s = 0; s < HOLD_STATES; s++) {
		printf("| %s |", hold_state_name(s));
		for (e = 0; e < HE_EVENTS; e++)
			printf(" %s |", hold_rule_name(s, e));
		putchar('\n');
	}
}

static void objects(void)
{
	static const uint8_t kinds[] = { SYNC_RWLOCK, SYNC_COND, SYNC_SEM, SYNC_ATOMIC };
	unsigned int k, o;

	printf("| operation |");
	for (k = 0; k < sizeof(kinds); k++)
		printf(" %s |", sync_kind_name(kinds[k]));
	putchar('\n');
	rule_line(sizeof(kinds) + 1);
	for (o = SOP_RDLOCK; o < SYNC_OPS; o++) {
		printf("| %s |", sync_op_name(o));
		for (k = 0; k < sizeof(kinds); k++)
			printf(" %s |", sync_rule_name(kinds[k], o));
		putchar('\n');
	}
}

static const struct {
	const char *name;
	void (*print)(void);
	/* clang-format off */
} tables[] = {
	{ "messages", messages }, { "fields", fields }, { "calls", calls }, { "payloads", payloads }, { "frames", frames }, { "words", immediate_words }, { "shared-frames", shared_frames }, { "librshare", librshare }, { "ucx", ucx }, { "page-local", page_local }, { "page-messages", page_messages }, { "directory", directory },
	{ "release-copies", release_copies }, { "release-homes", release_homes }, { "closes", closes },
	{ "directory-phases", directory_phases }, { "hold", hold }, { "objects", objects },
};
/* clang-format on */

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (argc == 2 && !strcmp(argv[1], "--list"))
			puts(tables[i].name);
		if (argc == 2 && !strcmp(argv[1], tables[i].name)) {
			tables[i].print();
			return 0;
		}
	}
	return argc == 2 && !strcmp(argv[1], "--list") ? 0 : 1;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm_events.c - each kind of event is counted where it happens. After ENOUGH rounds each kind
 * must have happened, except those that this kernel cannot do, which the output lists. An operation
 * that should have been refused, and was not, is printed with its round.
 */
#include "tests/kmod/storm.h"

#include <stdio.h>
#include <unistd.h>

#define ENOUGH 50u /* enough rounds for all events; a debug kernel runs as many */

static const char *const event_names[EVENTS] = {
	[EVENT_KILL] = "ranks killed",
	[EVENT_EXIT] = "ranks that exited",
	[EVENT_UNMAP] = "windows unmapped",
	[EVENT_CHILD] = "children refused",
	[EVENT_MOVE] = "moves refused",
	[EVENT_USER] = "other users refused",
	[EVENT_NAMESPACE] = "other namespaces refused",
	[EVENT_REMOVAL] = "devices removed",
	[EVENT_OFFLINE] = "processors off",
	[EVENT_UNLOAD] = "unloads refused",
	[EVENT_RELOAD] = "reloads",
	[EVENT_RANGE] = "ranges",
	[EVENT_ADD] = "additions",
	[EVENT_SHORT] = "allocations refused",
	[EVENT_LOCK] = "additions under a lock",
	[EVENT_LIMIT] = "waits for a lock given up",
	[EVENT_PIN] = "additions with a pin",
	[EVENT_BARRIER] = "barriers",
	[EVENT_HOLDER] = "ends with a lock or a pin",
	[EVENT_WAITER] = "ends in a wait for one, or at a barrier",
};

/* Report an operation that the module should have refused. */
void intruded(const char *who, unsigned int rank, const char *what)
{
	atomic_fetch_add(&orders->intruders, 1);
	dprintf(1, "FAILED: round %u: %s rank %u: %s succeeded\n", round_now, who, rank, what);
}

/* Why the event is impossible here; NULL: it is possible. */
static const char *cannot_happen(enum event e)
{
	if (e == EVENT_OFFLINE && access(processor_file(), W_OK))
		return "none can go offline";
	return e == EVENT_RELOAD && !module ? "no --module" : NULL;
}

static bool is_missing(enum event e)
{
	return !times(e) && !cannot_happen(e);
}

static bool all_happened(void)
{
	enum event e;

	for (e = 0; e < EVENTS && !is_missing(e); e++)
		;
	return e == EVENTS;
}

/* False: enough rounds, and some event never happened. */
bool report_events(unsigned int rounds)
{
	enum event e;

	for (e = 0; e < EVENTS; e++) {
		printf("%s%lu %s", e ? ", " : "", times(e), event_names[e]);
		if (cannot_happen(e))
			printf(" (%s)", cannot_happen(e));
	}
	printf("%s\n", access(FAILSLAB, F_OK) ? " (no failslab: only the module's own)" : "");
	for (e = 0; rounds >= ENOUGH && e < EVENTS; e++)
		if (is_missing(e))
			printf("FAILED: %s: none in %u rounds\n", event_names[e], rounds);
	return rounds < ENOUGH || all_happened();
}

/*
 * Rounds are short, and a busy host does little in them: run up to four times as many until every
 * event has happened.
 */
bool goes_on(unsigned int round, unsigned int rounds)
{
	return round < rounds || (rounds >= ENOUGH && round < 4 * rounds && !all_happened());
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mode.h - the three working modes of the owner's thread. Pure.
 *
 *   blocked      it sleeps in epoll_wait(); every event source is armed, clients ring the doorbell
 *   interrupted  it was woken; it works until a round finds nothing and nothing is on the wire,
 *                then sleeps again
 *   running      it polls; nothing is armed, and clients see that and skip the doorbell
 */
#ifndef SHARE_MODE_H
#define SHARE_MODE_H

#include <stdint.h>

enum rs_mode_state { RS_BLOCKED, RS_INTERRUPTED, RS_RUNNING, RS_MODES };

/* Result of the last round. RS_BUSY: `run_after` productive rounds in a row. RS_DUE: it was empty,
 * but a completion is due. RS_QUIET: `idle_after` empty rounds in a row. */
enum rs_mode_event { RS_WORKED, RS_BUSY, RS_EMPTY, RS_DUE, RS_QUIET, RS_WOKEN, RS_MODE_EVENTS };

struct rs_mode {
	uint8_t state;
	uint32_t run_after, idle_after;
	uint32_t rounds;                      /* consecutive rounds with the same outcome */
	uint8_t productive;                   /* that outcome */
	uint64_t changes[RS_MODES][RS_MODES]; /* from, to */
};

/* run_after: productive rounds from interrupted to running; 0: never. idle_after: empty rounds from
 * running to blocked. */
void rs_mode_init(struct rs_mode *m, uint32_t run_after, uint32_t idle_after);

/* End a round. due: a completion is expected soon. Return the next state; RS_BLOCKED: arm
 * everything, poll once more, sleep. */
enum rs_mode_state rs_mode_round(struct rs_mode *m, int productive, int due);

/* Record that epoll_wait() returned an event, or that the poll after arming found work. */
void rs_mode_woken(struct rs_mode *m);

/* The table, for tests and documents. */
enum rs_mode_state rs_mode_next(enum rs_mode_state from, enum rs_mode_event event);

#endif

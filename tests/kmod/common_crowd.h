/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_crowd.h - a job of many ranks, of which all but a few exist only as messages
 * (kmod/node/inject.h): their answers to the messages of the others. They are homes of blocks,
 * owners, holders of locks, and members of barriers; nearly always, each does what a correct rank
 * would do. Messages among themselves are omitted: they count as delivered.
 */
#ifndef KMOD_CROWD_H
#define KMOD_CROWD_H

#include "common_liar.h"
#include "core/word.h"
#include "../../kmod/node/inject.h"

#define CROWD_RANKS 64u
#define CROWD_HONEST 9ull /* mask of those that exist: 0 and 3, parents of both kinds in barriers */

struct crowd;

struct crowd *crowd_new(void); /* in memory of all processes */
/* a new job; lies: not all answers come, or are right */
void crowd_begin(struct crowd *c, bool lies);
unsigned long crowd_answers(const struct crowd *c);
/* In the process of rank `me`. One thread calls those that follow. */
void crowd_join(struct crowd *c, const struct job *j, uint16_t me, uint64_t seed);

static inline bool crowd_is_honest(unsigned int rank)
{
	return rank < CROWD_RANKS && CROWD_HONEST >> rank & 1;
}
uint16_t crowd_any(uint64_t *random);   /* one that does not exist */
struct liar *crowd_liar(uint16_t rank); /* it, as this process's rank sees it */

/* A message to one that does not exist. */
void crowd_hear(const struct msg *m);
/*
 * Something that this process's rank has said lately, mostly what it asked for: one that does not
 * exist has heard it.
 */
const struct msg *crowd_heard(uint64_t *random);
/* Answers for this process's rank, whoever has caused them. */
unsigned int crowd_answered(struct inject_message *out, unsigned int room);
/* What was answered before, or late. */
void crowd_answer_again(const struct liar *l);

/* An operation on an object of the target's, or on its lock. False: no object is known. */
bool crowd_operate(const struct liar *l, struct msg *m);
/*
 * For others, what a manager would forward to the home that it has made: of one that writes, and
 * one that reads. False: there is none.
 */
bool crowd_forward(struct inject_message *i);

#endif

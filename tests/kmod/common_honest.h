/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_honest.h - ranks that share memory while another rank breaks the protocol. Each thread
 * counts in its own words on pages that all write, and in an object that all add to; at the end
 * every word has the value that its thread has written.
 */
#ifndef KMOD_HONEST_H
#define KMOD_HONEST_H

#include "common.h"

/*
 * At the end of the window, in a region of its own, which lives at rank 0. The first unit is in use
 * from the start; nobody touches the second before honest_end().
 */
#define HONEST_PAGES (2 * DSM_UNIT_PAGES)
#define HONEST_FIRST (JOB_PAGES - HONEST_PAGES)

struct honest;

struct honest *honest_new(void); /* in memory of all of them */
void honest_begin(struct honest *h);
/* In the process of a rank that has joined: threads that count. */
void honest_start(struct honest *h, int fd, unsigned int rank);
/* Threads that do anything besides: touch pages before those, lock, create. */
void honest_disturb(int fd, unsigned int ranks, unsigned int threads, uint64_t seed);
/* They have used all pages of the first unit, so that they know where those live. */
bool honest_warm(const struct honest *h, unsigned int ranks);
/*
 * They go on, also on pages that nobody had used, and what they have written is there. Says what is
 * not so.
 */
bool honest_end(struct honest *h, unsigned int ranks);
unsigned long honest_steps(const struct honest *h);

#endif

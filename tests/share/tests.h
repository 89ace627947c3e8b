/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests.h - what the tests of a node share: node.c, common_faults.c (what others do to it),
 * common_ops.c (rshare_post()).
 */
#ifndef SHARE_TESTS_H
#define SHARE_TESTS_H

#include <sys/types.h>

#include "events.h"
#include "node.h"

extern struct rshare *r; /* the attachment that is tested */

/* Counts the check, and prints it if it has failed. */
void check(const char *what, int ok);
/* To a service of the server. */
struct rshare_conn *dial(uint32_t service, unsigned int priority);
int echo_small(struct rshare_conn *c);
/* The counters of the server. */
struct report report(void);
/* A process of its own, which attaches to this one's owner. */
pid_t attach(void (*body)(void));
/* Whether it has ended well. */
int reap(pid_t pid);

void test_ops(void);
void test_killed(void);
void test_owner_dies(void);
void test_starved(void);
void test_silent(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* why.h - the message of a failed call: what failed, the error, and the remedy. */
#ifndef SHARE_WHY_H
#define SHARE_WHY_H

/* Write "TEXT: ERROR; ADVICE" to why, RSHARE_WHY_MAX bytes. err: negative. Return err. */
int rs_why(char *why, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Return how to raise the limit that a system call hit. "": unknown. */
const char *rs_advice(int err);

#endif

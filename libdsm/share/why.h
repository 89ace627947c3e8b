/* SPDX-License-Identifier: BSD-2-Clause */
/* why.h - the message of a call that fails: what failed, the error, and what mends it. */
#ifndef SHARE_WHY_H
#define SHARE_WHY_H

/* Writes "TEXT: ERROR; ADVICE" into why, RSHARE_WHY_MAX bytes. err: negative. Returns err. */
int rs_why(char *why, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What raises the limit that a system call has met. "": nothing is known. */
const char *rs_advice(int err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - log messages: one line each, "libdsm: rank 2: ...", on stderr, safe in signal
 * handlers. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

/* From now on, lines go to what stderr is now, by a descriptor of libdsm's, or 2 as long as that is
 * the same file: a program may close its descriptor 2, and open a file that gets this number. */
void log_keep(void);
/* Close the descriptor. For the end, and for children of fork(). */
void log_release(void);
/* The descriptor that lines go to; -1: there is none any more. */
int log_descriptor(void);
/* Set the rank printed in each line; -1: not known yet. */
void log_rank(int rank);
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

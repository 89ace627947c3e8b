/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - log messages: one line each, "libdsm: rank 2: ...", on stderr, safe in signal handlers. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

/* From now on, lines go to what stderr is now: a program may close its descriptor 2, and open a file that gets this number. */
void log_keep(void);
/* The descriptor that lines go to; -1: there is none. */
int log_descriptor(void);
/* Set the rank printed in each line; -1: not known yet. */
void log_rank(int rank);
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

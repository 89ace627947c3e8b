/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - log messages: one line each, "libdsm: rank 2: ...", on stderr, safe in signal handlers. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

/* Set the rank printed in each line; -1: not known yet. */
void log_rank(int rank);
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

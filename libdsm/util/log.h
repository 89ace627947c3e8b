/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - messages for people: one line each, "libdsm: rank 2: ...", on stderr, safe in signal handlers. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

/* The rank that lines carry; -1 before it is known. */
void log_rank(int rank);
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

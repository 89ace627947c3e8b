/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - lines of the owner. Any thread. */
#ifndef SHARE_LOG_H
#define SHARE_LOG_H

/* From the first rs_log_keep() to its rs_log_release(), lines go to what stderr was then: the
 * program may close its descriptor 2, and open a file that gets this number. One call each for an
 * owner. */
void rs_log_keep(void);
void rs_log_release(void);
/* Write a line to stderr. */
void rs_log_line(const char *text);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* globals.h - whether the variables of a program can be shared. */
#ifndef API_GLOBALS_H
#define API_GLOBALS_H

/*
 * Check the file of a program with libdsm-pthread.so as dsm_adopt_globals() will check the program,
 * for a process that starts it. It ends soon: what is mapped is not unmapped. 0: nothing is wrong
 * with it, or it is no executable that can be read. -ENOTSUP, after a line that says why: the
 * program cannot be a job of several ranks.
 */
int globals_check_file(const char *path);

#endif

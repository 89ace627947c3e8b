/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * caller.h - whose call it is. In a job that is one process to its author, the program's
 * descriptors and streams are rank 0's: calls of the program and its libraries on them are made
 * there (owner.h). libdsm and the libraries below it call the kernel on every rank; their
 * descriptors are theirs alone.
 */
#ifndef SYSCALL_CALLER_H
#define SYSCALL_CALLER_H

#include "wrap.h"

#include "interpose/files.h"

#define CALLER __builtin_return_address(0)

enum files { FILES_PLAIN, FILES_GUARDED, FILES_ABROAD };

/* FILES_PLAIN: each rank is a process of its own. FILES_GUARDED: this is rank 0. FILES_ABROAD:
 * another rank. Set once. */
extern uint8_t files;

/* What libdsm-pthread.so has given; valid unless FILES_PLAIN. */
extern struct files_program program;

/* True if the call must be made at rank 0, for a thread of the program on another rank. */
bool caller_is_abroad(const void *caller);
static inline bool is_abroad(const void *caller)
{
	return __builtin_expect(files == FILES_ABROAD, 0) && caller_is_abroad(caller);
}

/* True, with EBADF and a message, if this is a child of vfork(2), which has not the program's
 * descriptors. */
bool caller_is_child(const char *call);

/* Print a line to dsm_files_stderr(). Not by dprintf(3), which is the wrapper of this library for
 * the program. */
void caller_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* At rank 0: true if the descriptor is one of libdsm's, and the caller is not. */
bool caller_may_not(int fd, const void *caller);
/* At rank 0: note that libdsm has opened or closed a descriptor. */
void own_add(int fd);
void own_remove(int fd);
/* At rank 0: libdsm has opened a descriptor, which nobody knows yet. Move it above the numbers that
 * are the program's, and return it. */
int own_move(int fd);
/* The first descriptor of libdsm's from fd on; -1: none. */
int own_next(int fd);

/* Print, once for each cause, that a call of the program is refused, and make the job end with
 * FILES_STATUS. `cause` is a constant. Returns -1, with errno err. */
int files_refuse(int err, const char *cause, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* True if the stream is this rank's: a library has made it before the program began, or without a
 * function of this library. */
bool stream_is_here(const void *stream);

#endif

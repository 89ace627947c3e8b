/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.h - what libdsm-pthread.so and libdsm-syscall.so share about files: in a job that is one
 * process to its author, descriptors and streams belong to rank 0.
 */
#ifndef INTERPOSE_FILES_H
#define INTERPOSE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the job's exit status if a call on a file was refused and the program itself ends with 0 */
#define FILES_STATUS 74

/* A function of the program, or of the C library, with its arguments as words. */
typedef long files_fn(long, long, long, long, long, long, long);

/* What libdsm-pthread.so knows. */
struct files_program {
	bool (*is_shared)(const void *p);
	void *(*alloc)(size_t size); /* memory that any rank may give to realloc() and free() */
	/*
	 * At rank 0, around a call that makes a stream: the C library allocates its structure where
	 * other ranks may look at it
	 */
	void (*stream_open)(bool begins);
	/* True if every rank has memory of its own at the address of this stream. */
	bool (*stream_has)(const void *stream);
	/* At rank 0: another rank keeps flags of the stream; a call has cleared them. */
	void (*stream_note)(const void *stream);
	void (*stream_clear)(const void *stream);
	/* code of libdsm-pthread.so that functions of the program return to */
	const char *calls, *calls_end;
	uint32_t *refused; /* in shared memory: not 0 after a refusal by any rank */
};

/* These are weak: a program may be linked without libdsm-syscall.so, and then has none of this. */

/* Note which descriptors the process has before libdsm opens its own, and keep low numbers from it.
 * Before dsm_init(). */
extern void dsm_files_before(void) __attribute__((weak));
/* The descriptor for messages: what stderr was at dsm_files_before(), for the program's descriptor
 * 2 may be another file by now. -1: there was none. */
extern int dsm_files_stderr(void) __attribute__((weak));
/* The same numbers are free again: those below are the program's alone, where the limit of open
 * files allows that. Once, when libdsm has started. */
extern void dsm_files_after(void) __attribute__((weak));
/* From now on, rank 0 has the descriptors and streams of the program. Once per rank, after
 * dsm_init(), before any thread of the program. -ENOSPC: the process has more threads, or code of
 * the runtime, than can be noted. */
extern int dsm_files_start(const struct files_program *p) __attribute__((weak));
/* Run fn(a, b, c, d) of the same address at rank 0, for a thread of another rank; otherwise call
 * it. All pointers are to shared memory. A pointer in the result is rank 0's. errno is set as fn
 * does. Blocks as fn does. */
extern long dsm_files_call(void *fn, long a, long b, long c, long d) __attribute__((weak));
/* A descriptor of this rank for the program's descriptor fd, for mmap(2): fd itself at rank 0;
 * otherwise a new one, which the caller closes. -1 and EBADF: a descriptor of libdsm, or one that
 * cannot be opened on this rank, which is then reported. */
extern int dsm_files_open_here(int fd) __attribute__((weak));
/* True if the function of this name keeps account of the descriptors that libdsm opens and
 * closes. */
extern bool dsm_files_accounts(const char *name) __attribute__((weak));
/* +1: until it is called with -1, calls that libdsm-pthread.so makes in this thread are the
 * program's, passed on. */
extern void dsm_files_pass(int more) __attribute__((weak));
/* While the next call of this thread that polls waits at rank 0, this thread has the mask, which is
 * copied. NULL: none has. */
extern void dsm_files_mask(const uint64_t *mask) __attribute__((weak));
/* A handler of the program returns, with SA_RESTART or without: it ends calls of its thread that
 * rank 0 makes. Async-signal-safe. */
extern void dsm_files_interrupt(bool restarts) __attribute__((weak));
/* True if the call comes from libdsm, libdsm-pthread.so for itself, or one of the libraries below
 * libdsm. Takes no lock. */
extern bool dsm_files_is_runtime(const void *caller) __attribute__((weak));

/* Pass on a call, in libdsm-pthread.so, of whose caller the other library must know that it is the
 * program. */
#define PASS_ON(call)                       \
	({                                  \
		__typeof__(call) passed_;   \
		if (dsm_files_pass)         \
			dsm_files_pass(1);  \
		passed_ = call;             \
		if (dsm_files_pass)         \
			dsm_files_pass(-1); \
		passed_;                    \
	})

#endif

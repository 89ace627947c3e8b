/* SPDX-License-Identifier: BSD-2-Clause */
/* opened_tls.h - thread-local variables of libraries that the program opens (opened.c). */
#ifndef PTHREAD_OPENED_TLS_H
#define PTHREAD_OPENED_TLS_H

#include <link.h>
#include <stddef.h>

/* What a thread's copy of the variables of one library begins with. */
struct opened_tls {
	size_t module; /* the number that rank 0's loader has given the library; 0: it has none */
	const char *image; /* the first image_size of size bytes; the others are 0 */
	size_t image_size, size, align;
};

/* At rank 0, after the library was loaded: why the ranks cannot share its accesses to thread-local
 * variables, or NULL. Never blocks. */
const char *opened_tls_fault(const struct link_map *m);

/* At rank 0, before the others have a copy: let the library ask this file where its variables
 * are. 0, or a negative errno value of mprotect(2). */
int opened_tls_lead(const struct link_map *m, struct opened_tls *out);

/* On another rank, a thread at a time: add what such a library has, which stays in memory.
 * -ENOMEM. */
int opened_tls_add(const struct opened_tls *tls);

/* The calling thread ends: free its variables. The program no longer uses them. */
void opened_tls_thread_ended(void);

#endif

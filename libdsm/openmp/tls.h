/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tls.h - thread-local variables whose addresses GCC passes to other threads: `copyin` and
 * `copyprivate` of arrays and objects. Their memory is private to a rank.
 *
 * GCC passes a structure of addresses and values, whose size it does not tell. So of its first
 * words, those that point to thread-local variables of the program point to a copy of these in
 * shared memory for some time. Words behind the structure are changed back unharmed, as whoever
 * they belong to waits meanwhile.
 */
#ifndef OPENMP_TLS_H
#define OPENMP_TLS_H

#include <stddef.h>
#include <stdint.h>

#define TLS_WORDS 32u
#define TLS_BLOCKS 8u /* objects that have such variables: the program and its libraries */

/* A copy of the variables of an object. */
struct tls_part {
	char *from;
	char *copy, *before; /* shared; as it was */
	size_t size;
};

/* Zero-initialised: nothing is shared. */
struct tls_copy {
	void **data;
	uint32_t changed; /* words of data, a bit each */
	unsigned int n;
	struct tls_part parts[TLS_BLOCKS];
};

/* This thread is about to pass `data` to threads of other ranks. */
void tls_share(struct tls_copy *c, void **data);
/* They do not use it any more: what they have changed is changed in the variables. */
void tls_unshare(struct tls_copy *c);

#endif

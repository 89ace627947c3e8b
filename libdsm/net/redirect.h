/* SPDX-License-Identifier: BSD-2-Clause */
/* redirect.h - makes the transports' libraries allocate from the runtime's heap (net/own.h). */
#ifndef NET_REDIRECT_H
#define NET_REDIRECT_H

/*
 * Make the libraries of UCX and of verbs (libibverbs and its providers) allocate by own_alloc(),
 * including libraries that they load later. Call it again if the program may have loaded one.
 * Memory that they got from the C library is freed there.
 */
void redirect_malloc(void);

#endif

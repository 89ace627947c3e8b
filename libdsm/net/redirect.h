/* SPDX-License-Identifier: BSD-2-Clause */
/* redirect.h - has the libraries of the transports allocate from a heap of the runtime's (net/own.h). */
#ifndef NET_REDIRECT_H
#define NET_REDIRECT_H

/*
 * From now on the libraries of UCX and of verbs (libibverbs and its providers) take memory from own_alloc(), also those that they
 * load later. Call it again when the program may have loaded one. What they have from the C library goes back there.
 */
void redirect_malloc(void);

#endif

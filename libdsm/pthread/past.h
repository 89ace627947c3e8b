/* SPDX-License-Identifier: BSD-2-Clause */
/* past.h - libdsm's own calls of the C library. */
#ifndef PTHREAD_PAST_H
#define PTHREAD_PAST_H

/* Bind libdsm to the C library, past this library and libdsm-syscall.so. Once, before dsm_init(). */
void past_bind(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* vectors.h - what vectors.c and the BPF programs that it loads share. */
#ifndef VECTORS_H
#define VECTORS_H

#define CPUS_MAX 64 /* of a guest; rxe has as many vectors */

#endif

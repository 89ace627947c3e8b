/* SPDX-License-Identifier: BSD-2-Clause */
/* vectors.h - what vectors.c and the BPF programs that it loads share. */
#ifndef VECTORS_H
#define VECTORS_H

#include <linux/types.h>

#define CPUS_MAX 64     /* of a guest; rxe has as many vectors */
#define PROGRAMS_MAX 64 /* names of programs that have created CQs */
#define NAME 16         /* of a program, as the kernel stores it */

/* Of the CQs that programs of a name have created, on one processor. */
struct program_counts {
	__u64 completions;
	__u64 packets; /* that were redirected to the processor, and handled */
	/* packets of other programs that were handled there while these waited, summed over them */
	__u64 ahead;
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* must.h - what a fuzzer requires: it ends the program, and libFuzzer keeps the input. */
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define must(x)                                                                         \
	do {                                                                            \
		if (!(x)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#endif

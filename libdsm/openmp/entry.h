/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * entry.h - how functions are defined that programs call: those of omp.h, and those that GCC makes
 * of directives ("The libgomp ABI" in the manual of libgomp). A program that needs another one is
 * refused by the linker, which names it.
 */
#ifndef OPENMP_ENTRY_H
#define OPENMP_ENTRY_H

#define ENTRY __attribute__((visibility("default")))

/* Their header is GCC's, or none. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#endif

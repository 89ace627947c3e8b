/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * entry.h - how functions are defined that programs call: those of omp.h, and those that GCC makes
 * of directives ("The libgomp ABI" in the manual of libgomp). A program that needs another one is
 * refused by the linker, which names it.
 */
#ifndef OPENMP_ENTRY_H
#define OPENMP_ENTRY_H

#define ENTRY(type, name, ...)                                         \
	__attribute__((visibility("default"))) type name(__VA_ARGS__); \
	__attribute__((visibility("default"))) type name(__VA_ARGS__)

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* reduce.h - the arithmetic of dsm_reduce(). A code is enum dsm_op | enum dsm_type << 4. */
#ifndef MISS_REDUCE_H
#define MISS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t reduce_size(unsigned int type); /* of a value; 0: no such type */
bool reduce_has(unsigned int type, unsigned int op);
/*
 * Compute into[i] = into[i] op from[i] for all whole values in `bytes`. Does nothing if the type
 * lacks the operation.
 */
void reduce_into(uint8_t code, void *into, const void *from, size_t bytes);
/* Combine two values of 8 bytes, for barriers. */
uint64_t reduce_combine(uint8_t code, uint64_t a, uint64_t b);

#endif

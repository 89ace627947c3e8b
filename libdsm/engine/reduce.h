/* SPDX-License-Identifier: BSD-2-Clause */
/* reduce.h - how barrier values combine; op is enum dsm_op | enum dsm_type << 4. */
#ifndef ENGINE_REDUCE_H
#define ENGINE_REDUCE_H

#include <stdint.h>

uint64_t reduce_combine(uint8_t op, uint64_t a, uint64_t b);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* noting.h - the pieces of NOTEs that have come to this process. */
#ifndef MISS_NOTING_H
#define MISS_NOTING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire.h"

/*
 * A piece of a NOTE has come, and is read next. all: the number of pieces, if this one says it;
 * else 0. Returns 0; -EBADMSG: no correct node sends it. Any thread; without memory the job ends.
 */
int noting_begin(const struct msg *m, uint32_t all);
/* It is read. True: all pieces of its NOTE are. */
bool noting_end(const struct msg *m, uint32_t all);

#endif

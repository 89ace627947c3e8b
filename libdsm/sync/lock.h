/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h - mutexes and conditions if this process hosts the core: members of sync_process; host.h has their contracts. */
#ifndef SYNC_LOCK_H
#define SYNC_LOCK_H

#include <stdint.h>

int lock_acquire(uint64_t id, uint8_t type, uint64_t ns);
int lock_release(uint32_t hold);
int lock_wait(uint64_t cond, uint64_t mutex, uint64_t ns);

#endif

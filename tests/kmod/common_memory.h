/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_memory.h - all system calls except ioctl(2) by which a process can affect the mapping of a
 * window and its file.
 */
#ifndef KMOD_MEMORY_H
#define KMOD_MEMORY_H

#include <stdint.h>

void memory_call(uint64_t *random, int fd); /* one of them, anywhere in the window at JOB_BASE */
uint64_t memory_address(uint64_t *random);  /* one that may be anything */

extern char memory_scratch[64 << 10];

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapping.h - userfaultfd ioctls on one rank's mapping of the node's memory object, by that rank's
 * descriptor.
 *
 * [off, off + len) may span several VMAs and ranges (range.h). No thread is woken: with
 * UFFD_FEATURE_SIGBUS none waits. The result is 0 or -errno; -ESRCH: the rank's process has ended,
 * or has no mapping there.
 */
#ifndef FAULT_MAPPING_H
#define FAULT_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

#include "core/action.h"

/* Allocate and fill pages that are not in the object; map them as prot says, or (zero) read-write.
 * *done: in, how many bytes to skip, as they are filled; out, also on an error, how many are filled
 * now. -EEXIST: the page there exists. */
int mapping_copy(int fd, size_t off, size_t len, const void *src, enum prot prot, size_t *done);
int mapping_zero(int fd, size_t off, size_t len, size_t *done);
/* Write-protect mapped pages and set markers for the others; or (on: false) allow writes to mapped
 * pages and remove markers. */
int mapping_protect(int fd, size_t off, size_t len, bool on);
/* Map pages that are in the object, and replace markers. Pages that are mapped already keep their
 * protection. */
int mapping_continue(int fd, size_t off, size_t len, enum prot prot);
/* Can the kernel map pages write-protected (Linux 6.4)? `at`: a page that is not in the object. */
bool mapping_can_continue(int fd, const void *at);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapping.h - userfaultfd calls on one rank's mapping of the node's memory object, by that rank's descriptor.
 *
 * [off, off + len) may lie in several VMAs and ranges (range.h). Nobody is woken: with UFFD_FEATURE_SIGBUS no thread waits. The
 * result is 0 or -errno; -ESRCH: the rank's process has ended, or has nothing mapped there.
 */
#ifndef FAULT_MAPPING_H
#define FAULT_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

#include "core/action.h"

/* Pages that are not in the object: allocate, fill, and map for reads or for everything. -EEXIST: one is there. */
int mapping_copy(int fd, size_t off, size_t len, const void *src, enum prot prot);
int mapping_zero(int fd, size_t off, size_t len);
/* Write-protect what is mapped, and lay markers where nothing is; or allow writes to what is mapped, and take markers away. */
int mapping_protect(int fd, size_t off, size_t len, bool on);
/* Map pages that are in the object, in place of markers, too. What is mapped already keeps its protection. */
int mapping_continue(int fd, size_t off, size_t len, enum prot prot);
/* Can the kernel map pages without letting them be written (Linux 6.4)? `at`: a page that is not in the object. */
bool mapping_can_continue(int fd, const void *at);

#endif

// SPDX-License-Identifier: BSD-2-Clause
/*
 * kmod.c - the fault backend of the kernel helper: the window is a mapping of /dev/dsm, and the
 * rest happens in the kernel.
 */
#include "fault/fault.h"

#include <errno.h>
#include <sys/mman.h>

#include "fault/range.h"

int fault_kmod_device = -1;

static struct fault_node node;

static int kmod_open(const struct fault_node *n, int *fd, const char **why)
{
	*fd = -1;
	if (mmap(n->base, n->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fault_kmod_device, 0) == MAP_FAILED) {
		*why = "/dev/dsm cannot be mapped";
		return -errno;
	}
	node = *n;
	range_window(n->base, n->size);
	return 0;
}

static void kmod_close(void)
{
	munmap(node.base, node.size);
	range_window(NULL, 0);
}

const struct fault_ops fault_kmod = { .name = "kmod", .open = kmod_open, .close = kmod_close };

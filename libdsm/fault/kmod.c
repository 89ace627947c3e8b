// SPDX-License-Identifier: BSD-2-Clause
/* kmod.c - the fault backend of the kernel helper: the window is a mapping of /dev/dsm, and the rest happens in the kernel. */
#include "fault/fault.h"

#include <errno.h>
#include <sys/mman.h>

int fault_kmod_device = -1;

static int kmod_open(struct frames *f, void *base, size_t size, const char **why)
{
	f->uffd = -1;
	if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fault_kmod_device, 0) == MAP_FAILED) {
		*why = "/dev/dsm cannot be mapped";
		return -errno;
	}
	return 0;
}

static void kmod_close(struct frames *f, void *base, size_t size)
{
	(void)f;
	munmap(base, size);
}

const struct fault_ops fault_kmod = { .name = "kmod", .open = kmod_open, .close = kmod_close };

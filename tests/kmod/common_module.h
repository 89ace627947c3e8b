/* SPDX-License-Identifier: BSD-2-Clause */
/* common_module.h - tests that load and unload dsm.ko, and set what the kernel has in files. */
#ifndef KMOD_COMMON_MODULE_H
#define KMOD_COMMON_MODULE_H

#include <stdbool.h>
#include <stddef.h>

int module_unload(void); /* 0, or -errno: -EWOULDBLOCK while it has users */
bool module_load(const char *file);
bool file_set(const char *path, const char *value);

/* Objects of the RDMA device: "pd 1 cq 1 qp 1 ..."; empty without one. */
void device_objects(char *out, size_t size);

#endif

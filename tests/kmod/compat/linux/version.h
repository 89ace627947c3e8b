/* SPDX-License-Identifier: BSD-2-Clause */
/* version.h - for compat.c: the version that is on its compiler's command line. */
#ifndef COMPAT_LINUX_VERSION_H
#define COMPAT_LINUX_VERSION_H

#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(COMPAT_MAJOR, COMPAT_MINOR, 0)
#define COMPAT_SINCE(a, b) (LINUX_VERSION_CODE >= KERNEL_VERSION(a, b, 0))

#endif

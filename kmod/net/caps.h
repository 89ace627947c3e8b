/* SPDX-License-Identifier: GPL-2.0 */
/* caps.h - can a rank use a device? */
#ifndef KMOD_CAPS_H
#define KMOD_CAPS_H

#include <rdma/ib_verbs.h>

/*
 * Check what connections and keys need of a device and its port, and choose the partition: *pkey is
 * its index. Sleeps. -EOPNOTSUPP: the device cannot do it, and the log says what; -EACCES: it is a
 * full member of no partition; -ENOMEM.
 */
int caps_check(struct ib_device *dev, u32 port, u16 *pkey);

u8 caps_service_level(void); /* of all connections */

#endif

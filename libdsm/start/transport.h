/* SPDX-License-Identifier: BSD-2-Clause */
/* transport.h - the transport to other nodes. */
#ifndef START_TRANSPORT_H
#define START_TRANSPORT_H

/* Open the transport and exchange addresses. All ranks call it at the start; blocks for all of them. job.net stays NULL if all
 * ranks share memory. -EPROTO (ranks differ), -ENOMEM, errors of the transport and of the launcher; prints its errors. */
int transport_open_others(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* reach.h - the transport to other nodes. */
#ifndef ENGINE_REACH_H
#define ENGINE_REACH_H

/* At the start, by all ranks: open it and exchange addresses, which blocks for all of them. job.net stays NULL where all share
 * memory. Errors have been said: -EPROTO (ranks differ), -ENOMEM, those of the transport and of the launcher. */
int reach_others(void);

#endif

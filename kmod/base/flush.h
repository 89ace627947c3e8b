/* SPDX-License-Identifier: GPL-2.0 */
/* flush.h - have processors forget translations of the pages of a batch. */
#ifndef KMOD_FLUSH_H
#define KMOD_FLUSH_H

#include "pte.h"

int flush_start(void); /* -ENOMEM */
void flush_stop(void);
/*
 * Entries of a process have been lowered: note which processors may have stale translations of it.
 * A full barrier.
 */
void flush_gather(struct batch *b, struct mm_struct *mm);
/*
 * Ask these processors; acks grows by the number of those that have yet to acknowledge. Interrupts
 * are off.
 */
void flush_ask(struct batch *b);
/*
 * An entry of the process that runs here has been lowered. Flush its page if no other processor may
 * have translations of the process; false: some may. A full barrier. Interrupts are off.
 */
bool flush_here(struct mm_struct *mm, unsigned long addr);
void flush_unlist(struct batch *b); /* all have acknowledged */

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * secondary.h - secondary MMUs: those of virtual machines and devices, which make translations from
 * the entries of a process.
 */
#ifndef KMOD_SECONDARY_H
#define KMOD_SECONDARY_H

#include "ctx.h"

/*
 * May there be any in the view's process? Call it after its entries were lowered, and a full
 * barrier. Any context.
 */
bool secondary_any(const struct view *v);
/*
 * Have them drop their translations of these pages, whose protections are lowered already. The
 * entries are emptied; faults make them again. The caller holds mmap_lock, and the mapping exists.
 * Sleeps.
 */
void secondary_tell(struct view *v, u32 page, u32 pages);
/*
 * The same in all views, before the frames are freed: the entries are empty, and nobody makes new
 * ones. Sleeps.
 */
void secondary_zap(struct ctx *c, u32 page, u32 pages);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* fit.h - can the module run on this kernel and machine? */
#ifndef KMOD_FIT_H
#define KMOD_FIT_H

/* At load. Logs the reason and returns -EOPNOTSUPP if it cannot. */
int fit_check(void);

#endif

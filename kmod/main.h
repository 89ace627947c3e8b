/* SPDX-License-Identifier: GPL-2.0 */
/* main.h - the module itself: what main.c offers to the others. */
#ifndef KMOD_MAIN_H
#define KMOD_MAIN_H

void dsm_test_stay(void); /* sleeps: test_linger */

#endif

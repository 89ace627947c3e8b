/* SPDX-License-Identifier: GPL-2.0 */
/* main.h - functions of main.c for other files. */
#ifndef KMOD_MAIN_H
#define KMOD_MAIN_H

#ifdef DSM_TEST
void dsm_test_stay(void); /* delay by test_linger; sleeps */
#else
static inline void dsm_test_stay(void)
{
}
#endif

#endif

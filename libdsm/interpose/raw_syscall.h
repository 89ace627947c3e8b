/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_syscall.h - a system call by its number, for libraries that stand in front of syscall(2). */
#ifndef INTERPOSE_RAW_SYSCALL_H
#define INTERPOSE_RAW_SYSCALL_H

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

/*
 * As syscall(2), arg: six words. Not by NEXT(): libdsm and jemalloc call syscall(2) where they may
 * not call dlsym(3).
 */
static inline long raw_syscall(long n, const long *arg)
{
	const long fourth = arg[3], fifth = arg[4], sixth = arg[5];
	register long d __asm__("r10") = fourth;
	register long e __asm__("r8") = fifth;
	register long f __asm__("r9") = sixth;
	long result = n;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(arg[0]), "S"(arg[1]), "d"(arg[2]), "r"(d), "r"(e), "r"(f)
			 : "rcx", "r11", "memory");
	if ((unsigned long)result < -4095ul)
		return result;
	errno = (int)-result;
	return -1;
}

/* Sleep for ns nanoseconds, less than a second; signals end it early. No cancellation point.
 * Preserves errno. */
static inline void raw_pause(long ns)
{
	const struct timespec t = { .tv_nsec = ns };
	const long arg[6] = { (long)&t };
	const int saved = errno;

	raw_syscall(SYS_nanosleep, arg);
	errno = saved;
}

#endif

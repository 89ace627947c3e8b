/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sys.h - system calls that sleep, or may, without the cancellation points that the C library's functions of these names are.
 *
 * For what a function of dsm.h runs where cancellation is not off (engine/inside.h): scripts/check-cancel has the list of files
 * that may call the C library's. As there, -1 and errno.
 */
#ifndef UTIL_SYS_H
#define UTIL_SYS_H

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A signal ends it early: for loops that check again. */
static inline void sys_sleep_us(unsigned int us)
{
	struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000l };

	syscall(SYS_nanosleep, &t, NULL);
}

static inline int sys_poll(struct pollfd *fds, unsigned int n, int ms)
{
	return (int)syscall(SYS_poll, fds, n, ms);
}

static inline int sys_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}

static inline void sys_close(int fd)
{
	syscall(SYS_close, fd);
}

static inline ssize_t sys_write(int fd, const void *buf, size_t size)
{
	return syscall(SYS_write, fd, buf, size);
}

static inline void sys_pause(void)
{
	syscall(SYS_pause);
}

#endif

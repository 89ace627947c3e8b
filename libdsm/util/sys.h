/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sys.h - system calls that may sleep. Unlike the C library's functions of these names, they are no
 * cancellation points.
 *
 * For code that functions of dsm.h run with cancellation enabled (job/inside.h).
 * scripts/check-cancel lists the files that may call the C library's functions. Errors are -1 and
 * errno, as in the C library.
 */
#ifndef UTIL_SYS_H
#define UTIL_SYS_H

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleep; a signal ends it early. For loops that check their condition again. */
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

static inline int sys_fallocate(int fd, int mode, off_t at, off_t bytes)
{
	return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

/* A copy of fd that ends with execve(2), of the lowest number above it that is free. */
static inline int sys_dup(int fd)
{
	return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, fd);
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

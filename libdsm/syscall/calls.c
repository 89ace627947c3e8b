// SPDX-License-Identifier: BSD-2-Clause
/*
 * calls.c - the functions of rows.def and files.def. Each becomes a function of six words, as the
 * calling convention passes them in registers; so it also serves variadic functions, and passes on
 * arguments that it does not know. Also syscall(2), which finds the rows by number.
 */
#include "row.h"

#include "interpose/raw_syscall.h"
#include "caller.h"
#include "owner.h"

#include <execinfo.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#define ROW(name, kind, ...)                                                                    \
	static const struct row row_##name = { #name, kind, { __VA_ARGS__ }, false };           \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f) __asm__(#name); \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f)                 \
	{                                                                                       \
		words_fn *at = NEXT_NAMED(words_fn *, #name);                                   \
		const long arg[ARGS] = { a, b, c, d, e, f };                                    \
		if (__builtin_expect(!row_needs_copies(&row_##name, arg), 1))                   \
			return at(a, b, c, d, e, f);                                            \
		return row_run(&row_##name, at, 0, arg);                                        \
	}
#define CALL ROW
#define KERNEL(...)
#define FUNCTION(...)
#define CHOICE(...)
#include "rows.def"
#undef ROW

#define ROW(name, kind, ...) FILES_ROW(name, row_next, kind, __VA_ARGS__)
#include "files.def"
#undef ROW

#undef CALL
#undef KERNEL
#undef FUNCTION
#undef CHOICE

/* ---- a function of more than six words ------------------------------------------------------- */

struct name_lookup {
	const struct sockaddr *address;
	socklen_t size, host_size, service_size;
	char *host, *service;
	int flags, result;
};

static void look_name_up(void *arg)
{
	struct name_lookup *l = arg;

	l->result = NEXT(getnameinfo)(l->address, l->size, l->host, l->host_size, l->service,
				      l->service_size, l->flags);
}

EXPORT int getnameinfo(const struct sockaddr *address, socklen_t size, char *host,
		       socklen_t host_size, char *service, socklen_t service_size, int flags)
{
	struct name_lookup l = { address, size,    host_size, service_size,
				 host,    service, flags,     EAI_SYSTEM };

	if (STACK_IS_AWAY)
		dsm_call(look_name_up, &l);
	else
		look_name_up(&l);
	return l.result;
}

/* ---- functions whose buffer depends on what is asked for ------------------------------------- */

static const struct row
	fcntl_lock = { "fcntl", INT, { FD(1), IO(3, sizeof(struct flock)), WAITS }, true },
	fcntl_owner = { "fcntl", INT, { FD(1), IO(3, sizeof(struct f_owner_ex)) }, true },
	fcntl_hint = { "fcntl", INT, { FD(1), IO(3, sizeof(uint64_t)) }, true },
	fcntl_dup = { "fcntl", DESCRIPTOR, { FD(1) }, true },
	fcntl_plain = { "fcntl", INT, { FD(1) }, true };

static const struct row *fcntl_row(int cmd)
{
	switch (cmd) {
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW: return &fcntl_lock;
	case F_GETOWN_EX:
	case F_SETOWN_EX: return &fcntl_owner;
	case F_GET_RW_HINT:
	case F_SET_RW_HINT:
	case F_GET_FILE_RW_HINT:
	case F_SET_FILE_RW_HINT: return &fcntl_hint;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC: return &fcntl_dup;
	default: return &fcntl_plain; /* an integer */
	}
}

/*
 * Bytes behind the argument of ioctl(2): encoded in the request, or known. 0: it is an integer, or
 * not known.
 */
static size_t ioctl_size(unsigned int request)
{
	switch (request) {
	case TCGETS:
	case TCSETS:
	case TCSETSW:
	/* the kernel's has 19 control characters */
	case TCSETSF: return offsetof(struct termios, c_cc) + 19;
	case TIOCGWINSZ:
	case TIOCSWINSZ: return sizeof(struct winsize);
	case FIONREAD:
	case FIONBIO:
	case FIOASYNC:
	case TIOCOUTQ:
	case TIOCGPGRP:
	case TIOCSPGRP:
	case TIOCGSID:
	case TIOCMGET:
	case TIOCMSET:
	case TIOCMBIS:
	case TIOCMBIC:
	case SIOCATMARK: return sizeof(int);
	default: break;
	}
	if (request >= SIOCGIFNAME && request <= SIOCGIFTXQLEN && request != SIOCGIFCONF)
		return sizeof(struct ifreq);
	return _IOC_DIR(request) ? _IOC_SIZE(request) : 0;
}

static const struct row prctl_in = { "prctl", INT, { S(2) }, false },
			prctl_name = { "prctl", INT, { OUT(2, 16) }, false },
			prctl_int = { "prctl", INT, { OUT(2, sizeof(int)) }, false };

static const struct row *prctl_row(int what)
{
	switch (what) {
	case PR_SET_NAME: return &prctl_in;
	case PR_GET_NAME: return &prctl_name;
	case PR_GET_PDEATHSIG:
	case PR_GET_CHILD_SUBREAPER: return &prctl_int;
	default: return NULL;
	}
}

#define CHOICE(name, choose)                                                                    \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f) __asm__(#name); \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f)                 \
	{                                                                                       \
		const long arg[ARGS] = { a, b, c, d, e, f };                                    \
		words_fn *at = (words_fn *)(void *)NEXT(name);                                  \
		const struct row *row = choose;                                                 \
		long result;                                                                    \
		if (__builtin_expect(files, 0) && row && row->files &&                          \
		    row_elsewhere(row, wrap_##name, at, 0, arg, CALLER, &result))               \
			return result;                                                          \
		return row && row_needs_copies(row, arg) ? row_run(row, at, 0, arg)             \
							 : at(a, b, c, d, e, f);                \
	}
#define ROW(...)
#define CALL(...)
#define KERNEL(...)
#define FUNCTION(...)
#include "rows.def"
#undef CHOICE
#undef KERNEL
#undef FUNCTION

EXPORT long wrap_fcntl64(long a, long b, long c, long d, long e, long f) __asm__("fcntl64")
	__attribute__((alias("fcntl")));

/* ---- syscall(2) ------------------------------------------------------------------------------ */

/* By number. Rows without a buffer have no entry; nor have FUNCTION and CHOICE. */
#undef CALL
#define KERNEL(name, ...) [SYS_##name] = { #name, LONG, { __VA_ARGS__ }, FILES },
#define CALL(name, kind, ...) \
	[SYS_##name] = { #name, (kind) == DESCRIPTOR ? DESCRIPTOR : LONG, { __VA_ARGS__ }, FILES },
#define FUNCTION(...)
#define CHOICE(...)
static const struct row numbers[] = {
#define FILES false
#include "rows.def"
#undef FILES
#define FILES true
#include "files.def"
#undef FILES
};
#undef CALL
#undef KERNEL
#undef FUNCTION
#undef CHOICE

/*
 * The kernel uses the buffers of such requests after they are submitted, which may need no system
 * call. They cannot be pinned here.
 */
static void log_pin(const char *what)
{
	static uint32_t said;
	const int saved = errno;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		caller_print(
			"%s: pin buffers in shared memory until their requests have completed, see dsm_pin(3)",
			what);
	errno = saved;
}

static long by_row(const struct row *row, long n, const long *arg, const void *caller)
{
	long result;

	if (files && row && row->files && row_elsewhere(row, NULL, NULL, n, arg, caller, &result))
		return result;
	return row && row_needs_copies(row, arg) ? row_run(row, NULL, n, arg) : raw_syscall(n, arg);
}

/*
 * The last system call that the tables have, or that takes neither a descriptor nor a path. What is
 * newer may do anything.
 */
#define NEWEST SYS_set_mempolicy_home_node

/* Calls whose descriptor is of use only in the process that has made it, or that the tables do not
 * know; and those that change what this process has, and rank 0's not. */
static bool is_of_process(long n)
{
	switch (n) {
	case SYS_io_setup:
	case SYS_io_uring_setup:
	case SYS_io_uring_enter:
	case SYS_io_uring_register:
	case SYS_userfaultfd:
	case SYS_perf_event_open:
	case SYS_bpf:
	case SYS_vmsplice:
	case SYS_landlock_create_ruleset:
	case SYS_landlock_add_rule:
	case SYS_landlock_restrict_self:
	case SYS_fsconfig:
	case SYS_chdir:
	case SYS_fchdir:
	case SYS_setns:
	case SYS_execveat:
	case SYS_finit_module:
	case SYS_kexec_file_load:
	case SYS_quotactl_fd:
	case SYS_process_madvise:
	case SYS_process_mrelease: return true;
	default: return n > NEWEST;
	}
}

static long refuse_number(long n)
{
	return files_refuse(
		ENOSYS, "syscall",
		"syscall(%ld) by a thread of this rank is refused: descriptors are rank 0's; see dsm-cc(1)",
		n);
}

/* Only waiting operations have a time in the fourth argument. */
static const struct row futex_row = { "futex", LONG, { IN(4, sizeof(struct timespec)) }, false };

static bool has_time(int op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2: return true;
	default: return false;
	}
}

static long by_table(long n, const long *arg, const void *caller)
{
	const long a = arg[0], b = arg[1], c = arg[2], d = arg[3], e = arg[4], f = arg[5];
	const struct row *row =
		n >= 0 && n < (long)(sizeof(numbers) / sizeof(numbers[0])) ? &numbers[n] : NULL;
	int state, saved;
	long result;

	if (is_abroad(caller) && (is_of_process(n) || (n == SYS_mmap && !(d & MAP_ANONYMOUS))))
		return refuse_number(n);
	switch (n) {
#define FUNCTION(name, call)                                            \
	case SYS_##name:                                                \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); \
		result = call;                                          \
		break;
#define CHOICE(name, choose) \
	case SYS_##name:     \
		return by_row(choose, n, arg, caller);
#define CALL(...)
#define KERNEL(...)
#include "rows.def"
	case SYS_io_uring_setup:
	case SYS_io_setup:
		result = by_row(row, n, arg, caller);
		if (result >= 0 && dsm_needs_pin(NULL, 1))
			log_pin(n == SYS_io_setup ? "io_setup" : "io_uring_setup");
		return result;
	case SYS_futex: return by_row(has_time((int)b) ? &futex_row : NULL, n, arg, caller);
	default: return by_row(row, n, arg, caller);
	}
	/* Called as a FUNCTION, it would be a cancellation point, which syscall(2) is not. */
	saved = errno;
	pthread_setcancelstate(state, &state);
	errno = saved;
	return result;
}

EXPORT long wrap_syscall(long n, long a, long b, long c, long d, long e, long f) __asm__("syscall");
EXPORT long wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	const long arg[ARGS] = { a, b, c, d, e, f };

	return __builtin_expect(!files && !dsm_needs_pin(NULL, 1), 1) ? raw_syscall(n, arg)
								      : by_table(n, arg, CALLER);
}

/* ---- libdsm's own descriptors ---------------------------------------------------------------- */

#undef ROW
#undef CALL

EXPORT bool dsm_files_accounts(const char *name)
{
	static const struct {
		const char *name;
		enum result result;
	} functions[] = {
#define ROW(name, kind, ...) { #name, kind },
#define CALL(name, kind, ...) { #name, kind },
#include "files.def"
#undef ROW
#undef CALL
	};
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(name, functions[i].name))
			return functions[i].result == DESCRIPTOR || row_accounts(name);
	return !strncmp(name, "fcntl", 5); /* F_DUPFD */
}

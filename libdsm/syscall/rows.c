// SPDX-License-Identifier: BSD-2-Clause
/*
 * rows.c - the functions of rows.def. Each becomes a function of six words, as the calling convention passes them in registers;
 * so it also serves variadic functions, and passes on arguments that it does not know. Also syscall(2), which finds the rows by
 * number.
 *
 * Output buffers are copied from the caller's memory first, so that bytes which the kernel leaves alone come back unchanged.
 */
#include "wrap.h"

#include "interpose/number.h"
#include "scratch.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#define ARGS 6
#define BUFFERS 6
#define SET 8 /* bytes of a signal set that the kernel knows */

enum result { INT, LONG, ERROR, POINTER, VOID };

/* The number of units, from the argument that the row names. */
enum count { ONE, SIZE_COUNT, INT_COUNT, FDS_COUNT, PAGES_COUNT, PLUS_LONG_COUNT, ADDR_COUNT };
#define COUNT(how, arg) ((how) << 4 | (arg))
#define INT_(arg) COUNT(INT_COUNT, arg)
#define FDS_(arg) COUNT(FDS_COUNT, arg)
#define PAGES_(arg) COUNT(PAGES_COUNT, arg)
#define PLUS_LONG_(arg) COUNT(PLUS_LONG_COUNT, arg)
#define COUNT_OF(n) ((n) < 16 ? COUNT(SIZE_COUNT, n) : (n))

enum way {
	NONE,
	STRING,
	STRINGS,
	STRING_INOUT,
	STRING_OUT,
	READ,
	WRITTEN,
	WRITTEN_ALWAYS,
	WRITTEN_BY_RESULT,
	SET_BEHIND,
	OWN_STACK
};

struct buffer {
	uint8_t way, arg, count;
	uint16_t unit;
};

#define BUFFER(way, arg, count, unit) \
	{                             \
		way, arg, count, unit \
	}
#define S(a) BUFFER(STRING, a, 0, 0)
#define SS(a) BUFFER(STRINGS, a, 0, 0)
#define IOS(a) BUFFER(STRING_INOUT, a, 0, 0)
#define OUTS(a, n) BUFFER(STRING_OUT, a, COUNT_OF(n), 1)
#define IN(a, size) BUFFER(READ, a, 0, size)
#define OUT(a, size) BUFFER(WRITTEN, a, 0, size)
#define IO(a, size) BUFFER(WRITTEN_ALWAYS, a, 0, size)
#define INN(a, unit, n) BUFFER(READ, a, COUNT_OF(n), unit)
#define OUTN(a, unit, n) BUFFER(WRITTEN, a, COUNT_OF(n), unit)
#define ION(a, unit, n) BUFFER(WRITTEN_ALWAYS, a, COUNT_OF(n), unit)
#define OUTR(a, unit, n) BUFFER(WRITTEN_BY_RESULT, a, COUNT_OF(n), unit)
#define ADDR(a, n) BUFFER(WRITTEN, a, COUNT(ADDR_COUNT, n), 1)
#define MASK(a) BUFFER(SET_BEHIND, a, 0, 0)
#define STACK BUFFER(OWN_STACK, 0, 0, 0)

typedef long words_fn(long, long, long, long, long, long);

struct row {
	const char *name;
	enum result result;
	struct buffer buffers[BUFFERS];
};

struct call {
	const struct row *row;
	words_fn *next; /* NULL: the system call of that number */
	long number, arg[ARGS], result;
};

/* The argument as in pselect6(2). */
struct mask {
	const void *set;
	size_t size;
};

static void *pointer(const struct call *c, const struct buffer *b)
{
	return (void *)c->arg[b->arg - 1];
}

static size_t size_of(const struct call *c, const struct buffer *b)
{
	const long n = b->count ? c->arg[(b->count & 15) - 1] : 0;
	const socklen_t *len = (const socklen_t *)n;
	size_t units = 1, size;

	switch ((enum count)(b->count >> 4)) {
	case ONE: break;
	case SIZE_COUNT: units = (size_t)n; break;
	case INT_COUNT: units = (int)n > 0 ? (size_t)(int)n : 0; break;
	case FDS_COUNT: units = (int)n > 0 ? ((size_t)(int)n + 63) / 64 : 0; break;
	case PAGES_COUNT: units = ((size_t)n + 4095) / 4096; break;
	case PLUS_LONG_COUNT: units = (size_t)n + sizeof(long); break;
	case ADDR_COUNT: units = len ? *len : 0; break;
	}
	return __builtin_mul_overflow(units, b->unit, &size) ? SIZE_MAX : size;
}

static struct mask *copy_mask(struct scratch *s, const struct mask *p)
{
	struct mask *out = scratch_get(s, sizeof(*out), NULL);

	if (!out)
		return NULL;
	*out = *p;
	if (is_away(out->set))
		out->set = scratch_copy(s, SET, out->set);
	return out->set || !p->set ? out : NULL;
}

/* The private copy of a buffer; the buffer itself if it is private or empty. NULL: errno. */
static void *copy_in(struct scratch *s, const struct call *c, const struct buffer *b, size_t size)
{
	void *p = pointer(c, b);

	switch ((enum way)b->way) {
	case NONE:
	case OWN_STACK: break;
	case STRING: return scratch_string(s, p);
	case STRINGS: return p ? scratch_strings(s, p) : p;
	case SET_BEHIND: return p ? copy_mask(s, p) : p;
	case STRING_INOUT: return scratch_copy(s, size, p);
	case STRING_OUT:
	case WRITTEN_BY_RESULT: return scratch_get(s, size, p);
	case READ:
	case WRITTEN:
	case WRITTEN_ALWAYS: return scratch_copy(s, size, p);
	}
	return p;
}

static bool failed(const struct call *c)
{
	switch (c->row->result) {
	case INT: return (int)c->result < 0;
	case LONG: return c->result < 0;
	case ERROR: return (int)c->result != 0;
	case POINTER: return !c->result;
	case VOID: break;
	}
	return false;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void copy_out(const struct call *c, const struct buffer *b, void *to, const void *from, size_t size)
{
	const size_t came = (size_t)(c->row->result == INT ? (int)c->result : c->result) * b->unit;

	if (b->way == WRITTEN_ALWAYS)
		memcpy(to, from, size);
	if (failed(c))
		return;
	if (b->way == WRITTEN || b->way == STRING_INOUT)
		memcpy(to, from, size);
	else if (b->way == WRITTEN_BY_RESULT)
		memcpy(to, from, least(size, came));
	else if (b->way == STRING_OUT)
		memcpy(to, from, least(size, strnlen(from, size) + 1));
}

static long fail(enum result kind)
{
	return kind == ERROR ? errno : kind == POINTER ? 0 : -1;
}

static long proceed(const struct call *c, const long *arg)
{
	return c->next ? c->next(arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]) : by_number(c->number, arg);
}

/* Does the structure point to memory that may be elsewhere, though it is private itself? */
static bool is_nested(enum way way)
{
	return way == STRINGS || way == SET_BEHIND;
}

static void run(void *arg)
{
	struct call *out = arg, c = *out, private = c;
	size_t size[BUFFERS] = { 0 };
	struct scratch s;
	int i;

	SCRATCH_BEGIN(s);
	for (i = 0; i < BUFFERS && c.row->buffers[i].way; i++) {
		const struct buffer *b = &c.row->buffers[i];
		void *copy;

		if (b->way == OWN_STACK || (!is_nested(b->way) && !is_away(pointer(&c, b))))
			continue;
		size[i] = b->way == STRING_INOUT ? strlen(pointer(&c, b)) + 1 : size_of(&c, b);
		if (!size[i] && b->way != STRING && !is_nested(b->way))
			continue;
		copy = copy_in(&s, &c, b, size[i]);
		if (!copy && pointer(&c, b)) {
			c.result = fail(c.row->result);
			goto out;
		}
		private.arg[b->arg - 1] = (long)copy;
	}
	c.result = proceed(&c, private.arg);
	for (i = 0; i < BUFFERS && c.row->buffers[i].way; i++) {
		const struct buffer *b = &c.row->buffers[i];

		if (!size[i])
			continue;
		copy_out(&c, b, pointer(&c, b), (void *)private.arg[b->arg - 1], size[i]);
		if (c.row->result == POINTER && c.result == private.arg[b->arg - 1])
			c.result = c.arg[b->arg - 1];
	}
out:
	SCRATCH_END();
	out->result = c.result;
}

/* An array of strings ends with NULL. The array may be private and its strings shared. */
static bool strings_are_away(char *const *p)
{
	for (; p && !is_away(p) && *p; p++)
		if (is_away(*p))
			return true;
	return is_away(p);
}

static bool mask_is_away(const struct mask *p)
{
	return is_away(p) || (p && is_away(p->set));
}

static inline __attribute__((always_inline)) bool needs_copies(const struct row *row, const long *arg)
{
	int i;

	for (i = 0; i < BUFFERS && row->buffers[i].way; i++) {
		const struct buffer *b = &row->buffers[i];

		if (b->way == OWN_STACK            ? STACK_IS_AWAY
			    : b->way == STRINGS    ? strings_are_away((char *const *)arg[b->arg - 1])
			    : b->way == SET_BEHIND ? mask_is_away((void *)arg[b->arg - 1])
						   : is_away((void *)arg[b->arg - 1]))
			return true;
	}
	return false;
}

static __attribute__((noinline)) long run_private(const struct row *row, words_fn *next, long number, const long *arg)
{
	struct call c = { .row = row, .next = next, .number = number };

	memcpy(c.arg, arg, sizeof(c.arg));
	dsm_call(run, &c);
	return c.result;
}

#define ROW(name, kind, ...)                                                                        \
	static const struct row row_##name = { #name, kind, { __VA_ARGS__ } };                      \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f) __asm__(#name);     \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f)                     \
	{                                                                                           \
		static words_fn *next;                                                              \
		words_fn *at = __atomic_load_n(&next, __ATOMIC_RELAXED);                            \
		const long arg[ARGS] = { a, b, c, d, e, f };                                        \
		if (!at)                                                                            \
			__atomic_store_n(&next, at = (words_fn *)next_of(#name), __ATOMIC_RELAXED); \
		if (__builtin_expect(!needs_copies(&row_##name, arg), 1))                           \
			return at(a, b, c, d, e, f);                                                \
		return run_private(&row_##name, at, 0, arg);                                        \
	}
#define CALL ROW
#define KERNEL(...)
#define FUNCTION(...)
#define CHOICE(...)
#include "rows.def"
#undef ROW
#undef CALL
#undef KERNEL
#undef FUNCTION
#undef CHOICE

/* ---- functions whose buffer depends on what is asked for ------------------------------------------ */

#define FCNTL_ROW(bytes)             \
	{                            \
		"fcntl", INT,        \
		{                    \
			IO(3, bytes) \
		}                    \
	}
static const struct row fcntl_lock = FCNTL_ROW(sizeof(struct flock)),
			fcntl_owner = FCNTL_ROW(sizeof(struct f_owner_ex)), fcntl_hint = FCNTL_ROW(sizeof(uint64_t));

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
	default: return NULL; /* an integer */
	}
}

/* Bytes behind the argument of ioctl(2): encoded in the request, or known. 0: it is an integer, or not known. */
static size_t ioctl_size(unsigned int request)
{
	switch (request) {
	case TCGETS:
	case TCSETS:
	case TCSETSW:
	case TCSETSF: return offsetof(struct termios, c_cc) + 19; /* the kernel's has 19 control characters */
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

static const struct row prctl_in = { "prctl", INT, { S(2) } }, prctl_name = { "prctl", INT, { OUT(2, 16) } },
			prctl_int = { "prctl", INT, { OUT(2, sizeof(int)) } };

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

#define CHOICE(name, choose)                                                                                \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f) __asm__(#name);             \
	EXPORT long wrap_##name(long a, long b, long c, long d, long e, long f)                             \
	{                                                                                                   \
		const long arg[ARGS] = { a, b, c, d, e, f };                                                \
		words_fn *at = (words_fn *)(void *)NEXT(name);                                              \
		const struct row *row = is_away((void *)b) || is_away((void *)c) ? choose : NULL;           \
		return row && needs_copies(row, arg) ? run_private(row, at, 0, arg) : at(a, b, c, d, e, f); \
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

/* ---- syscall(2) ----------------------------------------------------------------------------------- */

/* By number. Rows without a buffer have no entry; nor have FUNCTION and CHOICE. */
#undef CALL
#define KERNEL(name, ...) [SYS_##name] = { #name, LONG, { __VA_ARGS__ } },
#define CALL(name, kind, ...) KERNEL(name, __VA_ARGS__)
#define FUNCTION(...)
#define CHOICE(...)
static const struct row numbers[] = {
#include "rows.def"
};
#undef CALL
#undef KERNEL
#undef FUNCTION
#undef CHOICE

/*
 * The kernel uses the buffers of such requests after they are submitted, which may need no system call. They cannot be pinned
 * here.
 */
static void say_pin(const char *what)
{
	static uint32_t said;
	const int saved = errno;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		dprintf(STDERR_FILENO,
			"libdsm-syscall: rank %d: %s: pin buffers in shared memory until their requests have completed, see "
			"dsm_pin(3)\n",
			dsm_rank(), what);
	errno = saved;
}

static long by_row(const struct row *row, long n, const long *arg)
{
	return row && needs_copies(row, arg) ? run_private(row, NULL, n, arg) : by_number(n, arg);
}

/* Only waiting operations have a time in the fourth argument. */
static const struct row futex_row = { "futex", LONG, { IN(4, sizeof(struct timespec)) } };

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

static long of_memory(long n, const long *arg)
{
	const long a = arg[0], b = arg[1], c = arg[2], d = arg[3], e = arg[4], f = arg[5];
	const struct row *row = n >= 0 && n < (long)(sizeof(numbers) / sizeof(numbers[0])) ? &numbers[n] : NULL;
	int state, saved;
	long result;

	switch (n) {
#define FUNCTION(name, call)                                            \
	case SYS_##name:                                                \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); \
		result = call;                                          \
		break;
#define CHOICE(name, choose) \
	case SYS_##name:     \
		return by_row(choose, n, arg);
#define CALL(...)
#define KERNEL(...)
#include "rows.def"
	case SYS_io_uring_setup:
	case SYS_io_setup:
		result = by_row(row, n, arg);
		if (result >= 0)
			say_pin(n == SYS_io_setup ? "io_setup" : "io_uring_setup");
		return result;
	case SYS_futex: return by_row(has_time((int)b) ? &futex_row : NULL, n, arg);
	default: return by_row(row, n, arg);
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

	return __builtin_expect(!dsm_needs_pin(NULL, 1), 1) ? by_number(n, arg) : of_memory(n, arg);
}

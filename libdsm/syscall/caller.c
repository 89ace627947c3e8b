// SPDX-License-Identifier: BSD-2-Clause
/*
 * caller.c - whose call it is: by the code that calls, and by the thread. libdsm and what it is
 * built on are known by the names of their libraries. Libraries that they share with programs
 * (libevent) are told apart by the thread: those that exist before the program starts are not the
 * program's.
 */
#include "caller.h"

#include "interpose/print.h"
#include "interpose/raw_syscall.h"
#include "owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RANGES 128u
#define THREADS 1024u
#define DESCRIPTORS 65536
/* numbers for the program alone; libdsm has at most half of the limit of open files */
#define LOW_MAX 512

uint8_t files;
struct files_program program;

/*
 * Code of the runtime, and of libraries that it shares with programs. Constant once `files` is set.
 */
static struct range {
	const char *low, *high;
	/* passes: it is libdsm-pthread.so, which passes calls of the program on */
	bool shared, passes;
} runtime[RANGES];
static unsigned int ranges;
static long early[THREADS]; /* threads of the runtime, by gettid(2) */
static unsigned int earlies;
static bool noted_all = true; /* neither table is full */

static uint64_t before[DESCRIPTORS / 64]; /* open when the process began */
static uint64_t own[DESCRIPTORS / 64];    /* libdsm's; atomic */
static uint64_t kept_low[LOW_MAX / 64];   /* taken while libdsm starts */
static int errors = STDERR_FILENO;        /* what was stderr when the process began */
static int floor_of_own;                  /* libdsm's are from here on, if the limit allows that */

/* calls of the program's that come by way of libdsm-pthread.so */
static __thread int passed_on __attribute__((tls_model("initial-exec")));
/* 0: not known, 1: the program's, -1: the runtime's */
static __thread int8_t whose __attribute__((tls_model("initial-exec")));

/* ---- code ------------------------------------------------------------------------------------ */

static bool is_runtime_library(const char *path)
{
	static const char *const names[] = { "libdsm.so",  "libdsm-pthread", "libucp.so",
					     "libuct",     "libucs",         "libucm",
					     "libpmix.so", "libibverbs.so",  "librdmacm.",
					     "libhwloc.",  "ld-linux" };
	static const char *const folders[] = { "/ucx/", "/pmix", "/libibverbs/" };
	const char *name = strrchr(path, '/');
	unsigned int i;

	name = name ? name + 1 : path;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	for (i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (strstr(path, folders[i]))
			return true;
	return strstr(name, "-rdmav");
}

static int caller_note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	const bool shared = strstr(info->dlpi_name, "/libevent");
	int i;

	(void)size, (void)arg;
	if (!shared && !is_runtime_library(info->dlpi_name))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
			continue;
		if (ranges == RANGES) {
			noted_all = false;
			continue;
		}
		runtime[ranges].low = (const char *)(info->dlpi_addr + h->p_vaddr);
		runtime[ranges].high = runtime[ranges].low + h->p_memsz;
		runtime[ranges].shared = shared;
		runtime[ranges].passes = strstr(info->dlpi_name, "/libdsm-pthread.");
		ranges++;
	}
	return 0;
}

/* A function of the program has ended in a jump, so its caller's address stands for it. */
static bool is_called(const char *at)
{
	return at >= program.calls && at < program.calls_end;
}

static const struct range *range_of(const void *caller)
{
	const char *at = caller;
	unsigned int i;

	for (i = 0; i < ranges; i++)
		if (at >= runtime[i].low && at < runtime[i].high)
			return runtime[i].passes && (passed_on || is_called(at)) ? NULL
										 : &runtime[i];
	return NULL;
}

EXPORT bool dsm_files_is_runtime(const void *caller)
{
	const struct range *r = range_of(caller);

	return r && !r->shared;
}

EXPORT void dsm_files_pass(int more)
{
	passed_on += more;
}

/* ---- threads --------------------------------------------------------------------------------- */

/*
 * Call fn with each number that is the name of an entry of the folder, and with the descriptor that
 * reads the folder.
 */
static void each_number(const char *folder, void (*fn)(long n, int reader))
{
	DIR *d = NEXT(opendir)(folder);
	const struct dirent *e;

	if (!d)
		return;
	while ((e = NEXT(readdir)(d)))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			fn(atol(e->d_name), NEXT(dirfd)(d));
	NEXT(closedir)(d);
}

static void note_thread(long tid, int reader)
{
	(void)reader; /* a thread may have the same number */
	if (earlies < THREADS)
		early[earlies++] = tid;
	else
		noted_all = false;
}

static bool caller_is_early(long tid)
{
	unsigned int i;

	for (i = 0; i < earlies; i++)
		if (early[i] == tid)
			return true;
	return false;
}

bool caller_is_abroad(const void *caller)
{
	if (!whose)
		whose = caller_is_early(gettid()) ? -1 : 1;
	return whose > 0 && !dsm_files_is_runtime(caller);
}

static long pid; /* of this rank */

bool caller_is_child(const char *call)
{
	const long none[6] = { 0 };

	if (raw_syscall(SYS_getpid, none) == pid)
		return false;
	files_refuse(
		EBADF, "vfork",
		"%s() in a child of vfork() is refused: its descriptors are rank 0's; use posix_spawn(), see dsm-cc(1)",
		call);
	return true;
}

/* ---- streams --------------------------------------------------------------------------------- */

extern FILE *_IO_list_all; /* of this process, linked by _chain */
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);

bool stream_is_here(const void *stream)
{
	const FILE *f;

	if (!stream || stream == stdin || stream == stdout || stream == stderr)
		return false;
	_IO_list_lock();
	for (f = _IO_list_all; f && f != stream; f = f->_chain)
		;
	_IO_list_unlock();
	return f;
}

/* ---- descriptors of libdsm at rank 0 --------------------------------------------------------- */

static void caller_note_before(long fd, int reader)
{
	if (fd < DESCRIPTORS && fd != reader)
		before[fd / 64] |= 1ull << fd % 64;
}

static void caller_note_own(long fd, int reader)
{
	if (fd < DESCRIPTORS && fd != reader && !(before[fd / 64] >> fd % 64 & 1))
		own_add((int)fd);
}

static bool caller_set_has(const uint64_t *set, int fd)
{
	return set[fd / 64] >> fd % 64 & 1;
}

void own_add(int fd)
{
	if (fd >= 0 && fd < DESCRIPTORS)
		__atomic_fetch_or(&own[fd / 64], 1ull << fd % 64, __ATOMIC_RELAXED);
}

void own_remove(int fd)
{
	if (fd >= 0 && fd < DESCRIPTORS)
		__atomic_fetch_and(&own[fd / 64], ~(1ull << fd % 64), __ATOMIC_RELAXED);
}

static bool is_own(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS &&
		__atomic_load_n(&own[fd / 64], __ATOMIC_RELAXED) >> fd % 64 & 1;
}

int own_next(int fd)
{
	for (; fd < DESCRIPTORS; fd++) {
		if (!__atomic_load_n(&own[fd / 64], __ATOMIC_RELAXED))
			fd |= 63;
		else if (is_own(fd))
			return fd;
	}
	return -1;
}

bool caller_may_not(int fd, const void *caller)
{
	return is_own(fd) && !range_of(caller);
}

int own_move(int fd)
{
	const int saved = errno;
	int high;

	if (fd < 0 || fd >= floor_of_own || caller_set_has(before, fd))
		return fd;
	high = NEXT(fcntl)(fd, NEXT(fcntl)(fd, F_GETFD) & FD_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD,
			   floor_of_own);
	if (high >= 0)
		NEXT(close)(fd);
	errno = saved;
	return high < 0 ? fd : high;
}

/* ---- numbers for the program ----------------------------------------------------------------- */

/*
 * Take all free numbers below `floor_of_own`, so that what libdsm and the libraries below it open
 * comes above.
 */
static void keep_low(void)
{
	int first = NEXT(open)("/dev/null", O_RDWR | O_CLOEXEC), fd = first;

	while (fd >= 0 && fd < floor_of_own) {
		kept_low[fd / 64] |= 1ull << fd % 64;
		fd = NEXT(fcntl)(first, F_DUPFD_CLOEXEC, fd + 1);
	}
	if (fd >= 0)
		NEXT(close)(fd);
}

EXPORT void dsm_files_after(void)
{
	int fd;

	for (fd = 0; fd < floor_of_own; fd++) {
		if (!caller_set_has(kept_low, fd))
			continue;
		NEXT(close)(fd);
		own_remove(fd);
	}
}

/* ---- start, refusals ------------------------------------------------------------------------- */

/* The reader of stderr waits until all have closed it. */
static void caller_forked(void)
{
	if (errors > STDERR_FILENO)
		NEXT(close)(errors);
	errors = STDERR_FILENO;
}

EXPORT void dsm_files_before(void)
{
	struct rlimit limit;
	int copy;

	each_number("/proc/self/fd", caller_note_before);
	if (!NEXT(getrlimit)(RLIMIT_NOFILE, &limit))
		floor_of_own = limit.rlim_cur / 2 < LOW_MAX ? (int)(limit.rlim_cur / 2) : LOW_MAX;
	copy = NEXT(fcntl)(STDERR_FILENO, F_DUPFD_CLOEXEC, floor_of_own);
	if (copy >= 0 || errno == EBADF)
		errors = copy;
	keep_low();
	pthread_atfork(NULL, NULL, caller_forked);
}

EXPORT int dsm_files_stderr(void)
{
	return errors;
}

EXPORT int dsm_files_start(const struct files_program *p)
{
	const long none[6] = { 0 };

	program = *p;
	pid = raw_syscall(SYS_getpid, none);
	dl_iterate_phdr(caller_note_library, NULL);
	each_number("/proc/self/task", note_thread);
	if (dsm_rank() == 0)
		each_number("/proc/self/fd", caller_note_own);
	owner_start();
	files = dsm_rank() ? FILES_ABROAD : FILES_GUARDED;
	return noted_all ? 0 : -ENOSPC;
}

struct refusal {
	const char *text;
};

void caller_print(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	print_message(errors, "libdsm-syscall", dsm_rank(), format, ap);
	va_end(ap);
}

static void caller_refuse(void *arg)
{
	const struct refusal *r = arg;

	__atomic_store_n(program.refused, 1, __ATOMIC_RELAXED);
	caller_print("%s", r->text);
}

int files_refuse(int err, const char *cause, const char *format, ...)
{
	static const char *said[64];
	char text[400];
	struct refusal r = { text };
	const char *none;
	unsigned int i;
	va_list ap;

	for (i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&said[i], &none, cause, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			break;
		if (none == cause) {
			errno = err;
			return -1;
		}
	}
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	dsm_call(caller_refuse, &r);
	errno = err;
	return -1;
}

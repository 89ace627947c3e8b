// SPDX-License-Identifier: BSD-2-Clause
/*
 * process.c - the working directory, the file mode mask, the limits of resources and the locale
 * belong to the process: a change by a thread of the program is carried out on all ranks before the
 * call returns. The time that the process has used is the sum over the ranks.
 *
 * A rank may be unable to follow, because its host has no such directory or locale. Then the call
 * fails, with a message.
 */
#include "shim.h"

#include "interpose/files.h"
#include "interpose/raw_syscall.h"

#include <fcntl.h>
#include <libintl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/times.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "everywhere.h"
#include "statics.h"

enum what { FOLDER, MASK, LIMIT, LOCALE, DOMAIN, DOMAIN_FOLDER, DOMAIN_CODESET };

struct change {
	enum what what;
	int number; /* a mask, a limit's, a category */
	int rank;   /* that could not follow */
	bool none;  /* no second text */
	struct rlimit limit;
	char text[NAME_MAX + 1], path[PATH_MAX];
};

static bool change_is_carried(const void *caller)
{
	return caller_is_ours(caller) && is_rank();
}

static int change_apply(const struct change *c)
{
	const char *path = c->none ? NULL : c->path;

	switch (c->what) {
	case FOLDER: return NEXT(chdir)(c->path) ? -errno : 0;
	case MASK: NEXT(umask)((mode_t)c->number); return 0;
	case LIMIT: return NEXT(setrlimit)((__rlimit_resource_t)c->number, &c->limit) ? -errno : 0;
	case LOCALE: return NEXT(setlocale)(c->number, c->path) ? 0 : -ENOENT;
	case DOMAIN: return NEXT(textdomain)(c->path) ? 0 : -ENOMEM;
	case DOMAIN_FOLDER: return NEXT(bindtextdomain)(c->text, path) || !path ? 0 : -ENOMEM;
	case DOMAIN_CODESET:
		return NEXT(bind_textdomain_codeset)(c->text, path) || !path ? 0 : -ENOMEM;
	}
	return 0;
}

static void *apply_here(void *arg)
{
	struct change *shared = arg, c = *shared;
	const int err = change_apply(&c);

	if (err && shared->rank < 0)
		shared->rank = shim.rank;
	return (void *)(intptr_t)err;
}

/* Returns 0, or -1 with errno after a message. */
static int carry(struct change *c, const char *call)
{
	int err;

	c->rank = -1;
	err = everywhere_call(EVERYWHERE, apply_here, c, sizeof(*c));
	if (!err)
		return 0;
	start_print("%s: rank %d cannot do it: %s", call, c->rank, dsm_strerror(err));
	errno = -err;
	return -1;
}

static bool keep_text(char *to, size_t size, const char *from)
{
	if (strlen(from) >= size)
		return false;
	strcpy(to, from);
	return true;
}

/* ---- working directory, mask, limits --------------------------------------------------------- */

/* This rank is there; before: where it was, or empty. */
static int follow_folder(const char *call, const char *before)
{
	struct change c = { .what = FOLDER };
	int err;

	if (!NEXT(getcwd)(c.path, sizeof(c.path)))
		return -1;
	if (!carry(&c, call))
		return 0;
	err = errno;
	if (*before && keep_text(c.path, sizeof(c.path), before) && !change_apply(&c))
		carry(&c, call);
	errno = err;
	return -1;
}

EXPORT int chdir(const char *path)
{
	char before[PATH_MAX];

	if (!change_is_carried(CALLER))
		return NEXT(chdir)(path);
	if (!NEXT(getcwd)(before, sizeof(before)))
		*before = 0;
	return NEXT(chdir)(path) ? -1 : follow_folder("chdir()", before);
}

/* By a descriptor of the program, which is rank 0's. */
static int enter_folder(int fd)
{
	const int here = dsm_files_open_here ? dsm_files_open_here(fd) : fd;
	int err, saved;

	if (here < 0)
		return -1;
	err = NEXT(fchdir)(here);
	saved = errno;
	if (here != fd)
		raw_syscall(SYS_close, (const long[6]){ here });
	errno = saved;
	return err;
}

EXPORT int fchdir(int fd)
{
	char before[PATH_MAX];

	if (!change_is_carried(CALLER))
		return NEXT(fchdir)(fd);
	if (!NEXT(getcwd)(before, sizeof(before)))
		*before = 0;
	return enter_folder(fd) ? -1 : follow_folder("fchdir()", before);
}

EXPORT mode_t umask(mode_t mask)
{
	struct change c = { .what = MASK, .number = (int)mask };
	const mode_t before = NEXT(umask)(mask);

	if (change_is_carried(CALLER))
		carry(&c, "umask()");
	return before;
}

static int carry_limit(int resource, const struct rlimit *limit, const char *call)
{
	struct change c = { .what = LIMIT, .number = resource, .limit = *limit };

	return carry(&c, call);
}

EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	if (NEXT(setrlimit)(resource, limit))
		return -1;
	return change_is_carried(CALLER) ? carry_limit((int)resource, limit, "setrlimit()") : 0;
}

_Static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64), "the same functions");
EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
	__attribute__((alias("setrlimit")));

/* getpid() may be rank 0's. */
EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit,
		   struct rlimit *old)
{
	const bool carried = change_is_carried(CALLER) && (!pid || pid == getpid());

	if (NEXT(prlimit)(carried ? 0 : pid, resource, limit, old))
		return -1;
	return limit && carried ? carry_limit((int)resource, limit, "prlimit()") : 0;
}

EXPORT int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limit,
		     struct rlimit64 *old) __attribute__((alias("prlimit")));

/* ---- locale ---------------------------------------------------------------------------------- */

EXPORT char *setlocale(int category, const char *locale)
{
	struct change c = { .what = LOCALE, .number = category };
	char *now = NEXT(setlocale)(category, locale);

	if (!now || !change_is_carried(CALLER))
		return now;
	/* By its result, because the environment of this call is that of all. */
	if (locale && (!keep_text(c.path, sizeof(c.path), now) || carry(&c, "setlocale()")))
		return NULL;
	return string_intern(now);
}

EXPORT char *textdomain(const char *domain)
{
	struct change c = { .what = DOMAIN };
	char *now = NEXT(textdomain)(domain);

	if (!now || !change_is_carried(CALLER))
		return now;
	if (domain && (!keep_text(c.path, sizeof(c.path), now) || carry(&c, "textdomain()")))
		return NULL;
	return string_intern(now);
}

static char *carry_domain(enum what what, const char *domain, const char *text, char *now,
			  const char *call)
{
	struct change c = { .what = what };

	if (text &&
	    (!keep_text(c.text, sizeof(c.text), domain) ||
	     !keep_text(c.path, sizeof(c.path), text) || carry(&c, call)))
		return NULL;
	return string_intern(now);
}

EXPORT char *bindtextdomain(const char *domain, const char *folder)
{
	char *now = NEXT(bindtextdomain)(domain, folder);

	return now && change_is_carried(CALLER)
		? carry_domain(DOMAIN_FOLDER, domain, folder, now, "bindtextdomain()")
		: now;
}

EXPORT char *bind_textdomain_codeset(const char *domain, const char *codeset)
{
	char *now = NEXT(bind_textdomain_codeset)(domain, codeset);

	return now && change_is_carried(CALLER)
		? carry_domain(DOMAIN_CODESET, domain, codeset, now, "bind_textdomain_codeset()")
		: now;
}

/* ---- time and resources used ----------------------------------------------------------------- */

struct used {
	uint64_t ns;
	struct rusage self, children;
};

static void add_time(struct timeval *to, const struct timeval *from)
{
	to->tv_usec += from->tv_usec;
	to->tv_sec += from->tv_sec + to->tv_usec / 1000000;
	to->tv_usec %= 1000000;
}

static void add_usage(struct rusage *to, const struct rusage *from)
{
	add_time(&to->ru_utime, &from->ru_utime);
	add_time(&to->ru_stime, &from->ru_stime);
	to->ru_maxrss += from->ru_maxrss;
	to->ru_minflt += from->ru_minflt;
	to->ru_majflt += from->ru_majflt;
	to->ru_inblock += from->ru_inblock;
	to->ru_oublock += from->ru_oublock;
	to->ru_nvcsw += from->ru_nvcsw;
	to->ru_nivcsw += from->ru_nivcsw;
}

/* Ranks add what they have used, one after the other. */
static void *add_here(void *arg)
{
	struct rusage self, children;
	struct used *u = arg;
	struct timespec t;

	if (NEXT(getrusage)(RUSAGE_SELF, &self) || NEXT(getrusage)(RUSAGE_CHILDREN, &children) ||
	    NEXT(clock_gettime)(CLOCK_PROCESS_CPUTIME_ID, &t))
		return (void *)(intptr_t)-errno;
	add_usage(&u->self, &self);
	add_usage(&u->children, &children);
	u->ns += (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return NULL;
}

static int sum(struct used *u)
{
	const int saved = errno;
	int err;

	memset(u, 0, sizeof(*u));
	err = (int)(intptr_t)add_here(u);
	if (!err)
		err = everywhere_call(EVERYWHERE, add_here, u, sizeof(*u));
	errno = err ? -err : saved;
	return err;
}

EXPORT clock_t clock(void)
{
	struct used u;

	if (!change_is_carried(CALLER))
		return NEXT(clock)();
	return sum(&u) ? -1 : (clock_t)(u.ns / (1000000000u / CLOCKS_PER_SEC));
}

EXPORT int clock_gettime(clockid_t id, struct timespec *out)
{
	struct used u;

	if (id != CLOCK_PROCESS_CPUTIME_ID || !change_is_carried(CALLER))
		return NEXT(clock_gettime)(id, out);
	if (sum(&u))
		return -1;
	*out = (struct timespec){ (time_t)(u.ns / 1000000000u), (long)(u.ns % 1000000000u) };
	return 0;
}

/* The clock of the kernel is that of one rank's process. */
EXPORT int clock_getcpuclockid(pid_t pid, clockid_t *clock)
{
	if (!change_is_carried(CALLER) || (pid && pid != shim.leader))
		return NEXT(clock_getcpuclockid)(pid, clock);
	*clock = CLOCK_PROCESS_CPUTIME_ID;
	return 0;
}

EXPORT int getrusage(__rusage_who_t who, struct rusage *out)
{
	struct used u;

	if ((who != RUSAGE_SELF && who != RUSAGE_CHILDREN) || !change_is_carried(CALLER))
		return NEXT(getrusage)(who, out);
	if (sum(&u))
		return -1;
	*out = who == RUSAGE_SELF ? u.self : u.children;
	return 0;
}

static clock_t ticks(const struct timeval *t)
{
	const long hz = NEXT(sysconf)(_SC_CLK_TCK);

	return t->tv_sec * hz + t->tv_usec * hz / 1000000;
}

EXPORT clock_t times(struct tms *out)
{
	const clock_t now = NEXT(times)(out);
	struct used u;

	if (!out || !change_is_carried(CALLER))
		return now;
	if (sum(&u))
		return -1;
	*out = (struct tms){ ticks(&u.self.ru_utime), ticks(&u.self.ru_stime),
			     ticks(&u.children.ru_utime), ticks(&u.children.ru_stime) };
	return now;
}

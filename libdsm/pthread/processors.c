// SPDX-License-Identifier: BSD-2-Clause
/*
 * processors.c - the processors that the program sees are those of the job: on each host, what its
 * ranks may use together.
 *
 * They have numbers. Processors of rank 0's host keep theirs, so a job on one host looks as a
 * process there does. Those of the other hosts, in the order of their first ranks, get the lowest
 * numbers that are free. A thread stays on its host: of a set that names processors there, it may
 * use these; a set of other hosts' processors is folded onto those of its host.
 *
 * Each rank writes what it may use into shared memory when it starts. A process reads all entries
 * once, when the program first asks. DSM_PROCESSORS=host turns all this off.
 */
#include "processors.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define CPUS 8192u /* the kernel's most */
#define BYTES (CPUS / 8)
#define BOOT 40

/*
 * What a rank may use, and which kernel it runs on: containers of one machine have the same
 * processors.
 */
struct seat {
	char boot[BOOT];
	int32_t pid, configured;
	uint8_t set[BYTES];
};

/* Private, constant once `read`. */
static struct {
	uint8_t own[BYTES];   /* this rank's, as it started */
	uint8_t all[BYTES];   /* numbers in the job */
	uint16_t job[CPUS];   /* number of a processor of this host, NONE for others */
	uint16_t local[CPUS]; /* this host's processors */
	unsigned int here, online, configured;
} cpus;
#define NONE UINT16_MAX

static bool processors_has(const uint8_t *set, unsigned int i)
{
	return set[i / 8] >> i % 8 & 1;
}

static void processors_add(uint8_t *set, unsigned int i)
{
	set[i / 8] = (uint8_t)(set[i / 8] | 1u << i % 8);
}

int processors_start(void)
{
	const char *which = getenv("DSM_PROCESSORS");

	if (which && !strcmp(which, "host"))
		return 0;
	team->seats = dsm_calloc((size_t)shim.size, sizeof(struct seat));
	return team->seats ? 0 : -ENOMEM;
}

void processors_note(void)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	uint8_t set[BYTES] = { 0 };
	char boot[BOOT] = "";
	struct seat *seat;

	if (fd >= 0) {
		if (read(fd, boot, BOOT - 1) < 0)
			boot[0] = 0;
		close(fd);
	}
	if (!team->seats || NEXT(sched_getaffinity)(0, BYTES, (cpu_set_t *)(void *)set))
		return;
	memcpy(cpus.own, set, BYTES);
	seat = &team->seats[shim.rank];
	memcpy(seat->boot, boot, BOOT);
	memcpy(seat->set, set, BYTES);
	seat->pid = shim.pid;
	seat->configured = NEXT(get_nprocs_conf)();
}

/* Number the processors of the host of rank `first`. */
static void processors_number(int first, const uint8_t *set)
{
	const bool is_here = !strcmp(team->seats[first].boot, team->seats[shim.rank].boot);
	unsigned int c, next = 0;

	for (c = 0; c < CPUS; c++) {
		unsigned int n = c;

		if (!processors_has(set, c))
			continue;
		for (; first && next < CPUS && processors_has(cpus.all, next); next++)
			;
		if (first)
			n = next;
		if (n == CPUS)
			return;
		processors_add(cpus.all, n);
		cpus.online++;
		if (!is_here)
			continue;
		cpus.job[c] = (uint16_t)n;
		cpus.local[cpus.here++] = (uint16_t)c;
	}
}

/* The ranks of the host of rank `first`, if it is the first of them. */
static void read_host(int first)
{
	const struct seat *seats = team->seats;
	uint8_t set[BYTES] = { 0 };
	int r, configured = 0;
	unsigned int i;

	for (r = 0; r < shim.size; r++) {
		if (strcmp(seats[r].boot, seats[first].boot))
			continue;
		if (r < first)
			return;
		for (i = 0; i < BYTES; i++)
			set[i] |= seats[r].set[i];
		configured = seats[r].configured > configured ? seats[r].configured : configured;
	}
	cpus.configured += (unsigned int)configured;
	processors_number(first, set);
}

static void processors_read(void)
{
	int r;

	memset(cpus.job, 0xff, sizeof(cpus.job));
	for (r = 0; r < shim.size; r++)
		read_host(r);
}

/* Is the program shown the job's? */
static bool processors_are_shown(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!shim.active || !team->seats)
		return false;
	NEXT(pthread_once)(&once, processors_read);
	return true;
}

/* The thread has chosen some, which may be those that its rank started with. */
static __thread bool chose __attribute__((tls_model("initial-exec")));

int processors_to_job(void *set, size_t size, bool self)
{
	uint8_t out[BYTES] = { 0 }, mine[BYTES] = { 0 };
	unsigned int c;

	if (!processors_are_shown())
		return 0;
	memcpy(mine, set, size < BYTES ? size : BYTES);
	if (!memcmp(mine, cpus.own, BYTES) && !(self && chose))
		memcpy(out, cpus.all, BYTES);
	else
		for (c = 0; c < CPUS; c++)
			if (processors_has(mine, c) && cpus.job[c] != NONE)
				processors_add(out, cpus.job[c]);
	for (c = (unsigned int)size; c < BYTES; c++)
		if (out[c])
			return EINVAL;
	memset(set, 0, size);
	memcpy(set, out, size < BYTES ? size : BYTES);
	return 0;
}

int processors_to_host(void *set, size_t size, bool self)
{
	uint8_t in[BYTES] = { 0 }, out[BYTES] = { 0 }, far[BYTES] = { 0 };
	const size_t bytes = size < BYTES ? size : BYTES;
	unsigned int i, named = 0, here = 0;

	if (!processors_are_shown())
		return 0;
	memcpy(in, set, bytes);
	for (i = 0; i < CPUS; i++) {
		if (!processors_has(in, i) || !processors_has(cpus.all, i))
			continue;
		named++;
		processors_add(far, cpus.local[i % cpus.here]);
	}
	for (i = 0; i < cpus.here; i++)
		if (processors_has(in, cpus.job[cpus.local[i]])) {
			processors_add(out, cpus.local[i]);
			here++;
		}
	if (!named)
		return EINVAL;
	if (self)
		chose = named < cpus.online;
	memset(set, 0, size);
	memcpy(set, named == cpus.online ? cpus.own : here ? out : far, bytes);
	return 0;
}

/* ---- how many -------------------------------------------------------------------------------- */

EXPORT long sysconf(int name)
{
	if ((name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) &&
	    caller_is_ours(CALLER) && processors_are_shown())
		return name == _SC_NPROCESSORS_ONLN ? cpus.online : cpus.configured;
	return NEXT(sysconf)(name);
}

EXPORT int get_nprocs(void)
{
	return caller_is_ours(CALLER) && processors_are_shown() ? (int)cpus.online
								: NEXT(get_nprocs)();
}

EXPORT int get_nprocs_conf(void)
{
	return caller_is_ours(CALLER) && processors_are_shown() ? (int)cpus.configured
								: NEXT(get_nprocs_conf)();
}

/* ---- which ----------------------------------------------------------------------------------- */

/* Is it a thread of the program? getpid() may be that of rank 0. */
static bool is_thread(pid_t id)
{
	return !id || id == team->seats[0].pid || !syscall(SYS_tgkill, shim.pid, id, 0);
}

/* On another rank than 0, rank 0's process stands for the calling thread. */
static pid_t here(pid_t id)
{
	return (shim.rank && id == team->seats[0].pid) || id == gettid() ? 0 : id;
}

EXPORT int sched_getaffinity(pid_t id, size_t size, cpu_set_t *set)
{
	int err;

	if (!caller_is_ours(CALLER) || !processors_are_shown() || !is_thread(id))
		return NEXT(sched_getaffinity)(id, size, set);
	if (NEXT(sched_getaffinity)(here(id), size, set))
		return -1;
	err = processors_to_job(set, size, !here(id));
	if (!err)
		return 0;
	errno = err;
	return -1;
}

EXPORT int sched_setaffinity(pid_t id, size_t size, const cpu_set_t *set)
{
	uint8_t host[BYTES] = { 0 };
	const size_t bytes = size < BYTES ? size : BYTES;

	if (!caller_is_ours(CALLER) || !processors_are_shown() || !is_thread(id))
		return NEXT(sched_setaffinity)(id, size, set);
	memcpy(host, set, bytes);
	errno = processors_to_host(host, bytes, !here(id));
	return errno ? -1 : NEXT(sched_setaffinity)(here(id), bytes, (cpu_set_t *)(void *)host);
}

// SPDX-License-Identifier: BSD-2-Clause
/* common.c - see common.h. */
#include "common.h"

#include <dsm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int calls_fd = -1;

static double clock_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

double bench_now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

double bench_thread_us(void)
{
	return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

int bench_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

unsigned int bench_number(const char *text, unsigned int least, unsigned int most)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*end || end == text || v < least || v > most) {
		fprintf(stderr, "%s: %s: a number from %u to %u is wanted\n",
			program_invocation_short_name, text, least, most);
		exit(2);
	}
	return (unsigned int)v;
}

void bench_check(int err, const char *what)
{
	if (err < 0)
		dsm_abort(1, "%s: %s", what, dsm_strerror(err));
}

/* The number of the tracepoint at which every system call begins. */
static long tracepoint(void)
{
	static const char *const places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char path[96];
	long id = -1;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]) && id < 0; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/events/raw_syscalls/sys_enter/id", places[i]);
		f = fopen(path, "r");
		if (f && fscanf(f, "%ld", &id) != 1)
			id = -1;
		if (f)
			fclose(f);
	}
	return id;
}

bool bench_cost_open(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT,
					.size = sizeof(attr),
					.inherit = 1 };
	long id = tracepoint();

	if (id < 0)
		return false;
	attr.config = (uint64_t)id;
	calls_fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return calls_fd >= 0;
}

void bench_cost_read(struct bench_cost *out)
{
	struct rusage use;
	uint64_t calls = 0;

	if (calls_fd >= 0 && read(calls_fd, &calls, sizeof(calls)) != (ssize_t)sizeof(calls))
		calls = 0;
	getrusage(RUSAGE_SELF, &use);
	*out = (struct bench_cost){
		.calls = calls,
		.switches = (uint64_t)(use.ru_nvcsw + use.ru_nivcsw),
		.cpu_us = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e6 +
			(double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec),
		.us = bench_now_us(),
	};
}

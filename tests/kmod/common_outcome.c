// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_outcome.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define OFTEN 1000u /* after so many calls, one should have succeeded */

struct outcomes *outcomes_new(void)
{
	return shared_memory(sizeof(struct outcomes));
}

int outcome_call(struct outcomes *o, struct outcome *last, unsigned int variant, int fd,
		 unsigned long cmd, void *at)
{
	const struct dsm_variant *v = &dsm_variants[variant];
	int err = ioctl(fd, cmd, at) ? errno : 0;

	last->err = (int16_t)err;
	last->under_way = 0;
	atomic_fetch_add(&o->by[variant][err < (int)OUTCOME_ERRNOS ? err : 0], 1);
	if (!err && v->cmd == DSM_IOC_CALL && cmd == v->cmd) {
		const int status = -((struct dsm_ioc_call *)at)->status;

		atomic_fetch_add(
			&o->answered[variant]
				    [status > 0 && status < (int)OUTCOME_ERRNOS ? status : 0],
			1);
	}
	return err;
}

static unsigned long sum(const _Atomic unsigned long *by)
{
	unsigned long n = 0;
	unsigned int e;

	for (e = 0; e < OUTCOME_ERRNOS; e++)
		n += atomic_load(&by[e]);
	return n;
}

unsigned long outcomes_inputs(const struct outcomes *o)
{
	unsigned long n = atomic_load(&o->others) + atomic_load(&o->addresses[0]) +
		atomic_load(&o->addresses[1]);
	unsigned int v;

	for (v = 0; v < dsm_narguments; v++)
		n += sum(o->by[v]);
	return n;
}

static unsigned int show(const _Atomic unsigned long *by, const char *success)
{
	unsigned int e, different = 0;

	printf(" %8lu %s", atomic_load(&by[0]), success);
	for (e = 0; e < OUTCOME_ERRNOS; e++) {
		different += atomic_load(&by[e]) > 0;
		if (e && atomic_load(&by[e]))
			printf(", %lu %s", atomic_load(&by[e]), strerrorname_np((int)e));
	}
	return different;
}

void outcomes_show(const struct outcomes *o, double seconds)
{
	unsigned int v, different = 0;

	for (v = 0; v < dsm_narguments; v++) {
		printf("%-14s", dsm_variants[v].name);
		different += show(o->by[v], "done");
		if (dsm_variants[v].cmd == DSM_IOC_CALL) {
			printf("; answers:");
			different += show(o->answered[v], "yes");
		}
		putchar('\n');
	}
	show_counters();
	printf("addresses refused %lu, right %lu\n", atomic_load(&o->addresses[0]),
	       atomic_load(&o->addresses[1]));
	printf("accesses %lu, signals %lu, other system calls %lu, children %lu, processes killed %lu\n",
	       atomic_load(&o->accesses), atomic_load(&o->signals), atomic_load(&o->others),
	       atomic_load(&o->forks), atomic_load(&o->killed));
	printf("%lu inputs, %u different outcomes, %.0f a second\n", outcomes_inputs(o), different,
	       (double)outcomes_inputs(o) / seconds);
}

void outcomes_show_last(const struct outcomes *o)
{
	unsigned int p, t, i, b;

	for (p = 0; p < OUTCOME_PROCESSES; p++)
		for (t = 0; t < OUTCOME_THREADS; t++)
			for (i = 0; i < OUTCOME_RECORDS; i++) {
				const struct outcome *l = &o->last[p][t][i];

				if (!l->err && !l->under_way && !l->variant)
					continue;
				printf("process %u thread %u file %u %s %s:", p, t, l->file,
				       dsm_variants[l->variant].name,
				       l->under_way     ? "under way"
					       : l->err ? strerror(l->err)
							: "done");
				for (b = 0; b < sizeof(l->arg) && b < dsm_variants[l->variant].size;
				     b += 4)
					printf(" %x",
					       *(const uint32_t *)(const void *)(l->arg + b));
				putchar('\n');
			}
}

bool outcomes_reach(const struct outcomes *o, bool say)
{
	bool reach = true;
	unsigned int v;

	for (v = 0; v < dsm_narguments; v++) {
		const bool answered =
			dsm_variants[v].cmd != DSM_IOC_CALL || atomic_load(&o->answered[v][0]);

		if (sum(o->by[v]) < OFTEN || (atomic_load(&o->by[v][0]) && answered))
			continue;
		if (say)
			printf("FAILED: %s never succeeded\n", dsm_variants[v].name);
		reach = false;
	}
	if (atomic_load(&o->addresses[0]) >= OFTEN && !atomic_load(&o->addresses[1])) {
		if (say)
			printf("FAILED: no address was right\n");
		reach = false;
	}
	return reach;
}

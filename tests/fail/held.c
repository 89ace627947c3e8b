// SPDX-License-Identifier: BSD-2-Clause
/*
 * held.c - rank 1 is killed while it holds every lock of every control segment of its host.
 *
 * The one program here that knows more than dsm.h: where those locks are.
 */
#include "job/ctl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hold_all(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0, i;

	while (f && fgets(line, sizeof(line), f)) {
		struct ctl *c = (struct ctl *)strtoul(line, NULL, 16);

		if (!strstr(line, "libdsm-control") || c->magic != CTL_MAGIC)
			continue;
		for (i = 0; i < CTL_STRIPES; i++)
			__atomic_store_n(&c->stripes[i], 1, __ATOMIC_SEQ_CST);
		n++;
	}
	fprintf(stderr, "%d segments held\n", n);
}

int main(void)
{
	struct dsm_region_options opt = { .home = DSM_HOME_CYCLIC };
	volatile char *memory;
	dsm_region_t *r;
	unsigned int i;
	int me;

	if (dsm_init(NULL) || dsm_region_open("memory", 1 << 20, &opt, &r))
		return 2;
	memory = dsm_region_base(r);
	me = dsm_rank();
	dsm_barrier();
	if (me == 1) {
		usleep(300000);
		hold_all();
		usleep(300000);
		kill(getpid(), SIGKILL);
	}
	for (i = 0;; i++)
		memory[(i * 7 + (unsigned int)me) % 256 * 4096] = (char)i;
}

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: jobs on two hosts; with the programs of ends.sh and signals.sh.

program hostnames <<'END'
#include <dsm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char names[3][64];
static void *look(void *arg)
{
	gethostname(arg, 64);
	return arg;
}
int main(void)
{
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, look, names[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("%s %s %s, %d nodes\n", names[0], names[1], names[2], dsm_nodes());
	return 5;
}
END
if ((${#host1[@]})); then
	# shellcheck disable=SC2206
	hosts=(${ways[hosts]})
	says "hosts: threads go to both" "host1 host2 host2, 2 nodes" 5 \
		"${on_hosts[@]}" "${run[@]}" "${hosts[@]}" "$scratch/hostnames"
	says "hosts: settings go to both" "host1 host2 host2, 4 nodes" 5 "${on_hosts[@]}" "${run[@]}" "${hosts[@]}" --nodes rank \
		"$scratch/hostnames"
	two_hosts=("${on_hosts[@]}" "${run[@]}" -n 2 --hosts host1,host2)
	says "hosts: exit() on the other one" "handler of exit" 5 "${two_hosts[@]}" "$scratch/endings" exit 1
	says "hosts: SIGSEGV on the other one" "is ended by SIGSEGV at address (nil). The job ends with status 139." 139 \
		"${two_hosts[@]}" "$scratch/endings" SIGSEGV 1
	signalled "signals: SIGTERM" hosts "-15 " TERM
	signalled "signals: two that are handled" hosts "5 handled 1|handled 2" "USR1 USR2" 10 12
	hosts_down
fi

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
	# shellcheck disable=SC2206
	two_hosts=("${on_hosts[@]}" "${run[@]}" ${ways[pair]})
	says "hosts: exit() on the other one" "handler of exit" 5 "${two_hosts[@]}" "$scratch/endings" exit 1
	says "hosts: SIGSEGV on the other one" "is ended by SIGSEGV at address (nil). The job ends with status 139." 139 \
		"${two_hosts[@]}" "$scratch/endings" SIGSEGV 1
	signalled "signals: SIGTERM" hosts "-15 " TERM
	signalled "signals: two that are handled" hosts "5 handled 1|handled 2" "USR1 USR2" 10 12
	program=waits signalled "signals: SIGTERM, sigwait() on another rank" pair "6 handled 15" TERM

	# How many ranks run on host1 and on host2.
	ranks_by_host() {
		local pid host count=(0 0)
		for pid in $(pgrep -f "^$scratch/signalled"); do
			for host in 0 1; do
				[[ "/proc/$pid/ns/uts" -ef "/proc/${host_pids[host]}/ns/uts" ]] && count[host]=$((count[host] + 1))
			done
		done
		echo "${count[*]}"
	}
	if is_chosen "hosts: no rank is left: SIGKILL"; then
		: >"$scratch/log"
		"${on_hosts[@]}" "${run[@]}" "${hosts[@]}" "$scratch/signalled" >"$scratch/log" 2>&1 </dev/null &
		for ((i = 0; i < 300; i++)); do
			! grep -q ready "$scratch/log" && kill -0 $! 2>/dev/null || break
			sleep 0.1
		done
		got=$(ranks_by_host)
		[[ $got == "2 2" ]] || show_end "$scratch/log"
		kill -KILL $!
		wait $! 2>/dev/null
		for ((i = 0; i < 50; i++)); do
			[[ $(ranks_by_host) != "0 0" ]] || break
			sleep 0.1
		done
		now=$(ranks_by_host)
		same "hosts: no rank is left: SIGKILL" "$got, then $now" "2 2, then 0 0"
		# The launcher, which has this folder in its command, may need its network for a moment longer.
		for ((i = 0; i < 50; i++)); do
			pgrep -f "$scratch/" >/dev/null || break
			sleep 0.1
		done
		pgrep -f "$scratch/" | xargs -r kill -KILL
	fi
	hosts_down
fi

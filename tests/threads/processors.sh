# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: the processors that a program sees are those of the job.

cat >"$scratch/processors.cc" <<'END'
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <thread>
#include <unistd.h>
static int counts[4][5], kept[4];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* What was set is what is read; all processors are as before. */
static int round_trip(const cpu_set_t *all)
{
	cpu_set_t one, now;
	int first = 0;
	while (!CPU_ISSET(first, all))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pthread_getaffinity_np(pthread_self(), sizeof(now), &now) || CPU_COUNT(&now) != 1)
		return 0;
	if (pthread_setaffinity_np(pthread_self(), sizeof(*all), all) || sched_getaffinity(getpid(), sizeof(now), &now))
		return 0;
	return CPU_EQUAL(&now, all);
}
static void *look(void *arg)
{
	const int me = (int)(long)arg;
	cpu_set_t set, none;
	counts[me][0] = (int)sysconf(_SC_NPROCESSORS_ONLN);
	counts[me][1] = get_nprocs();
	counts[me][2] = (int)std::thread::hardware_concurrency();
	counts[me][3] = sched_getaffinity(0, sizeof(set), &set) ? -1 : CPU_COUNT(&set);
	counts[me][4] = pthread_getaffinity_np(pthread_self(), sizeof(set), &set) ? -1 : CPU_COUNT(&set);
	CPU_ZERO(&none);
	kept[me] = sysconf(_SC_NPROCESSORS_CONF) >= counts[me][0] && round_trip(&set) && sched_setaffinity(0, sizeof(none), &none);
	return arg;
}
int main()
{
	pthread_t t[4];
	int same = 1, i, j, good = 0;
	for (i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, look, (void *)(long)i);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < 4; i++)
		for (j = 0; j < 5; j++)
			same &= counts[i][j] == counts[0][0];
	for (i = 0; i < 4; i++)
		good += kept[i];
	printf("%d processors%s, kept %d\n", counts[0][0], same ? "" : " or others", good);
	return 0;
}
END
if is_chosen "processors"; then
	g++ -O2 -fPIC -pthread "$scratch/processors.cc" -o "$scratch/processors.own" &&
		"$tools/dsm-c++" -O2 -pthread "$scratch/processors.cc" -o "$scratch/processors" || count_failure "processors: build"
	have=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
	says "processors: by itself" "$have processors, kept 4" 0 "$scratch/processors.own"
	for way in one node two preload; do
		built=$scratch/processors
		[[ $way != preload ]] || built+=.own
		# shellcheck disable=SC2086
		says "processors: $way" "$have processors, kept 4" 0 "${run[@]}" ${ways[$way]} "$built"
	done
	# Each rank may use one processor, another one than the rank before.
	cat >"$scratch/bound" <<-'END'
		#!/bin/bash
		all=$(taskset -cp $$ | sed 's/.*: //; s/-/../' | sed 's/\([0-9]*\)\.\.\([0-9]*\)/{\1..\2}/g')
		eval "all=($(tr ',' ' ' <<<"$all"))"
		exec taskset -c "${all[PMIX_RANK % ${#all[@]}]}" "$@"
	END
	chmod +x "$scratch/bound"
	both=$((have < 2 ? have : 2))
	says "processors: each rank has one" "$both processors, kept 4" 0 "${run[@]}" -n 2 "$scratch/bound" "$scratch/processors"
	says "processors: each rank has one, two nodes" "$both processors, kept 4" 0 \
		"${run[@]}" -n 2 --nodes rank "$scratch/bound" "$scratch/processors"
	says "processors: all ranks have one" "1 processors, kept 4" 0 taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" \
		"${run[@]}" -n 2 --no-bind "$scratch/processors"
	((have < 2)) || says "processors: of the host" " processors or others" 0 env DSM_PROCESSORS=host "${run[@]}" -n 2 "$scratch/bound" "$scratch/processors"
	says "processors: wrong setting" "DSM_PROCESSORS=node is not allowed; allowed: one of: job host" 2 \
		env DSM_PROCESSORS=node "${run[@]}" -n 2 "$scratch/processors"
	if ((${#host1[@]})); then
		# shellcheck disable=SC2086
		says "processors: two hosts" "$((2 * have)) processors, kept 4" 0 "${on_hosts[@]}" "${run[@]}" ${ways[hosts]} "$scratch/processors"
	fi
fi

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: what has a limit of time. Nothing else runs beside it.

program joined <<'END'
#include <pthread.h>
static void *nothing(void *arg) { return arg; }
int main(void)
{
	pthread_t t;
	return pthread_create(&t, 0, nothing, 0) || pthread_join(t, 0);
}
END

# Wrong settings: one line by dsmrun, before anything is started, which takes no second. A busy host
# may be late, but not three times. refused_at_once NAME LINE COMMAND...: LINE is how its only line
# begins.
refused_at_once() {
	local began got status took
	is_chosen "settings: $1" || return 0
	for _ in 1 2 3; do
		status=0 began=$(date +%s%3N)
		got=$(timeout -k 5 60 "${@:3}" 2>&1 </dev/null) || status=$?
		took=$(($(date +%s%3N) - began))
		((took > 1000)) || break
	done
	((took > 1000)) || took="a second"
	[[ $got == *$'\n'* || $got != "$2"* ]] || got=$2
	same "settings: $1" "status $status within $took: $got" "status 2 within a second: $2"
}
refused_at_once "--nodes bad" "dsmrun: DSM_NODE=bad is not allowed; allowed: one of: host rank, 1 to 1024" \
	"${run[@]}" -n 2 --nodes bad "$scratch/joined"
refused_at_once "DSM_HOME" "dsmrun: DSM_HOME=cyclic:5K is not allowed; allowed: one of: first cyclic blocked cyclic:SIZE, 4K to 1G, a power of two" \
	env DSM_HOME=cyclic:5K "${run[@]}" -n 2 "$scratch/joined"
refused_at_once "DSM_HEAP" "dsmrun: DSM_HEAP=9T is not allowed" \
	env DSM_HEAP=9T "${run[@]}" -n 2 "$scratch/joined"
refused_at_once "--launcher srun" "dsmrun: --launcher srun: srun is not installed" \
	env PATH=/usr/bin:/bin "${run[@]}" -n 2 --launcher srun "$scratch/joined"

# Refused before the job starts: in valgrind, two ranks take longer for that than one takes to run
# the program. A busy host may be late, but not three times.
if command -v valgrind >/dev/null && is_chosen "valgrind: threads of several ranks"; then
	printf '#!/bin/sh\nexec valgrind -q --leak-check=no "$@"\n' >"$scratch/in-valgrind" && chmod +x "$scratch/in-valgrind"
	in_valgrind() { DSM_SPACE=1G timeout -k 5 60 "${run[@]}" -n "$1" "$scratch/in-valgrind" "$scratch/joined" 2>&1; }
	for _ in 1 2 3; do
		began=$(date +%s%3N)
		in_valgrind 1 >/dev/null && alone=$(($(date +%s%3N) - began)) || alone=0
		began=$(date +%s%3N)
		got=$(in_valgrind 2) && got+=" (status 0)"
		took=$(($(date +%s%3N) - began))
		((took > alone * 3 / 2)) || break
	done
	same "valgrind: threads of several ranks" "$(grep -o 'rank 1: valgrind runs it.*\|.status 0.' <<<"$got"), $((took <= alone * 3 / 2 ? 0 : took))" \
		"rank 1: valgrind runs it, with a malloc() of its own for each rank (start one rank), 0"
fi

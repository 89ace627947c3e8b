# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: what has a limit of time. Nothing else runs beside it.

# Refused before the ranks have started, which takes valgrind seconds. A busy host may be late, but not three times.
if command -v valgrind >/dev/null && is_chosen "valgrind: threads of several ranks"; then
	program joined <<'END'
#include <pthread.h>
static void *nothing(void *arg) { return arg; }
int main(void)
{
	pthread_t t;
	return pthread_create(&t, 0, nothing, 0) || pthread_join(t, 0);
}
END
	printf '#!/bin/sh\nexec valgrind -q --leak-check=no "$@"\n' >"$scratch/in-valgrind" && chmod +x "$scratch/in-valgrind"
	for _ in 1 2 3; do
		began=$(date +%s%3N)
		got=$(DSM_SPACE=1G timeout -k 5 60 "${run[@]}" -n 2 "$scratch/in-valgrind" "$scratch/joined" 2>&1) && got+=" (status 0)"
		took=$(($(date +%s%3N) - began))
		((took > 3000)) || break
	done
	same "valgrind: threads of several ranks" "$(grep -o 'rank 1: valgrind runs it.*\|.status 0.' <<<"$got"), $((took <= 3000 ? 0 : took))" \
		"rank 1: valgrind runs it, with a malloc() of its own for each rank (start one rank), 0"
fi

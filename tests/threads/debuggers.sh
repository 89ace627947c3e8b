# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: gdb and valgrind.

program debugged -g -O0 <<'END'
#include <pthread.h>
#include <stdio.h>
struct {
	char before[4096];
	int value;
	char after[4096];
} distant;
volatile int sum;
static void *add(void *arg)
{
	for (int i = 0; i < 100; i++)
		sum++;
	distant.value = sum;
	return arg;
}
static void shown(int n) { printf("sum %d\n", n); }
int main(int argc, char **argv)
{
	pthread_t t;
	if (argc > 1)
		fprintf(stderr, "%s\n", argv[1]);
	while (argc > 1 && !sum)
		;
	pthread_create(&t, NULL, add, NULL);
	pthread_join(t, NULL);
	shown(sum);
	return 5;
}
END
if command -v gdb >/dev/null; then
	# Rank 0 in gdb, as docs/tuning.md has it. `distant` is rank 1's, until the program itself
	# reads or writes it.
	cat >"$scratch/in-gdb" <<'END'
#!/bin/sh
[ "$PMIX_RANK" = 0 ] || exec "$@"
exec gdb -q -nx -batch -ex 'handle SIGSEGV SIGBUS nostop noprint pass' -ex 'break shown' -ex run \
	-ex 'echo stopped by\n' -ex 'bt -frame-arguments none' -ex 'print sum' \
	-ex 'print (int)memcmp(&distant.value, &distant.value, 4)' -ex 'print distant.value' \
	-ex 'print (long)memmove(&distant.value, &distant.value, 4) != 0' \
	-ex 'set var distant.value = 7' -ex 'print distant.value' -ex continue --args "$@"
END
	chmod +x "$scratch/in-gdb"
	# On processors with AMX, gdb 13 cannot call a function of any program: "Couldn't write extended
	# state status". What it reads and writes is tested there all the same.
	zero='0 ' one='1 '
	gcc -g -x c - -o "$scratch/plain" <<<'int main(void) { return 0; }'
	got=$(gdb -q -nx -batch -ex 'break main' -ex run -ex 'print (int)getpid()' "$scratch/plain" 2>&1)
	if [[ $got == *"Couldn't write extended state"* ]]; then
		echo "  gdb calls no function on this processor, of whatever program"
		zero='' one=''
	fi
	for way in node two mprotect; do
		is_chosen "gdb: rank 0, $way" || continue
		settings=()
		[[ $way != mprotect ]] || settings=(DSM_FAULT=mprotect)
		# shellcheck disable=SC2086
		env "${settings[@]}" timeout -k 5 60 \
			"${run[@]}" ${ways[$way]} "$scratch/in-gdb" "$scratch/debugged" >"$scratch/log" 2>&1 </dev/null
		got=$(sed -n 's/^#0 .*\<shown (.*/shown/p; s/^#1 .* main (.*/main/p; s/^\$[0-9]* = //p; /^sum/p
			s/.* exited with code /code /p; /received signal/p; /Cannot access/p' "$scratch/log" | paste -sd ' ')
		same "gdb: rank 0, $way" "$got" "shown main 100 ${zero}100 ${one}7 sum 100 code 05]"
	done
	for way in node two; do
		is_chosen "gdb: attached, $way" || continue
		: >"$scratch/log"
		# shellcheck disable=SC2086
		timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/debugged" waits >"$scratch/log" 2>&1 </dev/null &
		for i in {1..300}; do
			! grep -qs '^waits' "$scratch/log" || break
			sleep 0.1
		done
		sleep 0.2 # it leaves fprintf()
		pid=$(pgrep -f "^$scratch/debugged waits" | while read -r pid; do
			# grep -q would end first: then tr fails, and with it the pipe
			! tr '\0' '\n' <"/proc/$pid/environ" | grep -x PMIX_RANK=0 >/dev/null || echo "$pid"
		done)
		gdb -q -nx -batch -p "$pid" -ex 'handle SIGSEGV SIGBUS nostop noprint pass' -ex 'bt' -ex 'set var sum = 1' \
			-ex detach >"$scratch/gdb.log" 2>&1
		got=$(sed -n 's/^#[0-9]* .* main (.*/main/p; s/.*detached]/detached/p; /Cannot access/p' "$scratch/gdb.log")
		[[ $got == *detached* ]] || { echo "  gdb said of process $pid:"; show_end "$scratch/gdb.log"; }
		status=0
		wait $! || status=$?
		same "gdb: attached, $way" "${got//$'\n'/ } $(grep '^sum' "$scratch/log"), status $status" \
			"main detached sum 101, status 5"
	done
else
	echo "gdb is not installed (make setup): its tests are not run"
fi
if command -v valgrind >/dev/null; then
	printf '#!/bin/sh\nexec valgrind -q --leak-check=no "$@"\n' >"$scratch/in-valgrind" && chmod +x "$scratch/in-valgrind"
	says "valgrind: several nodes" "valgrind works with one node only, and this job has 2" 1 \
		env DSM_SPACE=1G DSM_NODE=rank "${run[@]}" -n 2 "$scratch/in-valgrind" "$tools/apps/sor"
	says "valgrind: too large a space" "set DSM_SPACE=1G" 70 valgrind -q "$scratch/debugged"
	says "valgrind: one rank" "sum 100" 5 env DSM_SPACE=1G "${run[@]}" -n 1 "$scratch/in-valgrind" "$scratch/debugged"
	says "valgrind: several ranks" "verify=ok" 0 env DSM_SPACE=1G \
		"${run[@]}" -n 2 "$scratch/in-valgrind" "$tools/apps/sor" --size 64 --iterations 2 --verify
else
	echo "valgrind is not installed (make setup): its tests are not run"
fi

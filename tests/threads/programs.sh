# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: each program in several ways, standard input.

# ---- programs ------------------------------------------------------------------------------------

number=0
for source in apps/threads/*.c* tests/threads/*.c*; do
	name=$(basename "$source")
	name=${name%.*}
	is_chosen "$name" && ((number++ % slices == slice)) || continue
	own=() linked=() flags=()
	# It counts misses, where there are any.
	[[ $name != beside ]] || own=(-Ilibdsm/include)
	[[ $name != atomics ]] || linked=(-latomic)
	# The compiler then has a function load the guard of its variable before it calls.
	[[ $name != statics ]] || flags=(--inline-atomics)
	if [[ $source == *.cc ]]; then
		g++ -std=c++20 -O2 "${own[@]}" -pthread "$source" -o "$scratch/$name.own" "${linked[@]}" &&
			"$tools/dsm-c++" "${flags[@]}" -std=c++20 -O2 -pthread "$source" -o "$scratch/$name"
	else
		gcc -O2 "${own[@]}" -pthread "$source" -o "$scratch/$name.own" &&
			"$tools/dsm-cc" -O2 -Wall -Wextra -Werror -pthread "$source" -o "$scratch/$name"
	fi || { count_failure "$name: build"; continue; }
	want=$("$scratch/$name.own" <"$input" 2>&1) || { count_failure "$name: by itself"; continue; }
	# On a busy host they take long, and their main threads wait all the time.
	more='' common=(DSM_STALL_MS=25000)
	[[ $name != queue ]] || more="mprotect fill"
	[[ $name != @(futexes|futures|interrupts|named|mutexes|rwlocks|handles|stacks|beside|faults|async|iostreams|calls|numbers|aio|closed) ]] || more=mprotect
	((!${#host1[@]})) || [[ $name != @(words|calls|mutexes|objects) ]] || more+=" hosts"
	[[ $name != regression ]] || more=mprotect
	ways_of="one node two mixed preload"
	[[ $name != @(bank|queue|wavefront|strings|random|objects|futures|unwind|contexts|patterns|closed) ]] || more+=" release"
	[[ $name != exceptions ]] || more="release many"
	# A small heap: one thread gets memory whose home is at the other one's node.
	[[ $name != edges ]] || { ways_of="node two release many"; common+=(DSM_HEAP=128M); }
	[[ $name != statics ]] || ways_of="two release many"
	[[ $name != conditions ]] || ways_of="node two preload release many"
	[[ $name != atomics ]] || ways_of="node two preload release many"
	for ((turn = 0; turn < repeat; turn++)); do
		for way in $ways_of $more; do
			settings=("${common[@]}") built=$scratch/$name
			[[ $way != hosts ]] || settings=("${by_rsh[@]}" "${common[@]}" "${host1[@]}")
			[[ $way != mprotect ]] || settings+=(DSM_FAULT=mprotect)
			[[ $way != preload ]] || built+=.own
			# shellcheck disable=SC2086
			got=$(env "${settings[@]}" timeout -k 5 60 "${run[@]}" ${ways[$way]} "$built" <"$input" 2>&1) || got+=" (status $?)"
			# Open MPI's mpirun and the child that it makes for the other host race to
			# set the child's process group; mpirun minds if it loses.
			[[ $way != hosts ]] || got=$(sed '/plm:rsh: Warning: setpgid(.*) failed in parent/d' <<<"$got")
			same "$name:$way" "$got" "$want"
		done
	done
done

# The last context of a thread ends the process as exit(0) does, on any rank. One that is saved in a
# handler must not go on.
if is_chosen contexts; then
	program last-context <<-'END'
		#include <pthread.h>
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <ucontext.h>
		static ucontext_t last, main_context, handler;
		static char stack[65536];
		static void bye(void) { puts("bye"); }
		static void runs(int a, int b) { printf("%d %d\n", a, b); }
		static void swaps(int sig) { (void)sig; swapcontext(&handler, &main_context); }
		static void *starts(void *arg)
		{
			volatile int again = 0;
			if (arg) {
				signal(SIGUSR1, swaps);
				getcontext(&main_context);
				if (!again++)
					raise(SIGUSR1);
			}
			getcontext(&last);
			last.uc_stack.ss_sp = stack;
			last.uc_stack.ss_size = sizeof(stack);
			last.uc_link = NULL;
			makecontext(&last, (void (*)(void))runs, 2, 3, 4);
			setcontext(&last);
			return arg;
		}
		int main(int argc, char **argv)
		{
			pthread_t t;
			atexit(bye);
			pthread_create(&t, NULL, starts, argc > 1 ? argv : NULL);
			pthread_join(t, NULL);
			return 3;
		}
	END
	for way in one node two; do
		# shellcheck disable=SC2086
		same "contexts: the last one, $way" "$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/last-context" 2>&1; echo $?)" $'3 4\nbye\n0'
	done
	says "contexts: of a handler" "swapcontext() in a handler of a signal does not work across ranks" 0 \
		"${run[@]}" -n 2 --nodes rank "$scratch/last-context" handler
fi

# What libatomic may not do. One rank is a process as any other, and has children.
[[ ! -x $scratch/atomics ]] || says "atomics: fork" $'interleavings: ok\nconstants: ok\nforks: ok' 0 "${run[@]}" -n 1 "$scratch/atomics" fork

# Thirteen tests in two ways, whose batches have 32 rounds.
if ((slice == 0 && litmus)) && [[ -x $scratch/atomics ]]; then
	for way in release many; do
		# shellcheck disable=SC2086
		got=$(timeout -k 5 14400 "${run[@]}" ${ways[$way]} "$scratch/atomics" $((32 * litmus)) 2>&1) || got+=" (status $?)"
		same "atomics: $litmus times 1024, $way" "$(grep -c ': ok$' <<<"$got") of $(wc -l <<<"$got")" "26 of 26"
	done
fi

# Atomic instructions are found and named. One node has no need.
if ((slice == 0)) && is_chosen atomics; then
	program atomic --inline-atomics <<-'END'
		#include <stdio.h>
		static int count;
		__attribute__((noinline)) void count_one(void) { __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST); }
		int main(void) { count_one(); printf("%d\n", count); return 0; }
	END
	says "atomics: refused" "in count_one: with release consistency" 2 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/atomic"
	program fence <<-'END'
		static volatile int x;
		__attribute__((noinline)) int other(void) { x = 1; __sync_synchronize(); return x; }
		int main(void) { return !other(); }
	END
	says "atomics: fence" "in other: with release consistency" 2 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/fence"
	cat >"$scratch/excepted.cc" <<-'END'
		#include <exception>
		std::exception_ptr kept;
		__attribute__((noinline)) std::exception_ptr copy() { return kept; }
		int main() { return copy() != nullptr; }
	END
	# Without threads, the counts are the C++ library's.
	"$tools/dsm-c++" -O2 "$scratch/excepted.cc" -o "$scratch/excepted" || count_failure "excepted: build"
	says "atomics: exception_ptr" "in copy(), main" 2 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/excepted"
	{
		for ((i = 0; i < 3000; i++)); do echo "int a_function_with_a_long_name_of_its_own_$i(int *p) { return __sync_fetch_and_add(p, 1); }"; done
		echo 'int main(void) { return 0; }'
	} >"$scratch/many.c"
	"$tools/dsm-cc" --inline-atomics -pthread "$scratch/many.c" -o "$scratch/many" || count_failure "many: build"
	says "atomics: many functions" "its_own_100: with release consistency" 2 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/many"
	printf '#!/bin/sh\nexec %s\n' "$scratch/atomic" >"$scratch/script"
	chmod +x "$scratch/script"
	says "atomics: script" "not an executable in which to look" 2 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/script"
	says "atomics: one node" 1 0 "${run[@]}" -n 2 --consistency release "$scratch/atomic"
	says "atomics: trusted" 1 0 env DSM_ATOMICS=trust "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/atomic"
	says "atomics: sequential" 1 0 "${run[@]}" -n 2 --nodes rank "$scratch/atomic"
	says "atomics: not looked at" "start the program with dsmrun" 1 env -u DSMRUN_ATOMICS DSM_CONSISTENCY=release DSM_NODE=rank \
		mpirun -q --allow-run-as-root --oversubscribe -n 2 setarch -R "$scratch/atomic"
fi

# main() is cancelled: the process goes on until its last thread ends, with status 0. And what the C
# library itself may fail at.
if is_chosen cancel && [[ -x $scratch/cancel ]]; then
	for way in node two; do
		# shellcheck disable=SC2086
		says "cancel: main(), $way" " main destroyed" 0 "${run[@]}" ${ways[$way]} "$scratch/cancel" main
		# shellcheck disable=SC2086
		says "cancel: crossing, $way" "crossing: 1" 0 "${run[@]}" ${ways[$way]} "$scratch/cancel" crossing
	done
fi

# No lock of the runtime is left taken, wherever a thread is cancelled.
if is_chosen async && [[ -x $scratch/async ]]; then
	for ((turn = 0; turn < repeat; turn++)); do
		for way in node two; do
			# shellcheck disable=SC2086
			says "async: in library, $way" "$(printf '%s: 0 not cancelled, 0 without handler, 60 did not go on\n' "in library" "in memset()")
0 torn" 0 "${run[@]}" ${ways[$way]} "$scratch/async" 20 in
		done
	done
fi

# The functions of _FORTIFY_SOURCE make system calls, too.
if is_chosen calls && [[ -x $scratch/calls ]]; then
	"$tools/dsm-cc" -O2 -D_FORTIFY_SOURCE=2 -pthread tests/threads/calls.c -o "$scratch/fortified" ||
		count_failure "calls, fortified: build"
	want=$("$scratch/calls.own" 2>&1)
	# shellcheck disable=SC2086
	got=$(DSM_STALL_MS=0 timeout -k 5 60 "${run[@]}" ${ways[two]} "$scratch/fortified" 2>&1) || got+=" (status $?)"
	same "calls, fortified" "$got" "$want"
fi

# Objects of whole pages, and large ones, begin with a page: rows of pages are not shared falsely.
program rows <<'END'
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
enum { ROWS = 64, LENGTH = 512, ROUNDS = 50 };
static double *rows;
static pthread_barrier_t all;
static void *write_rows(void *arg)
{
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = (int)(intptr_t)arg; i < ROWS; i += 2)
			for (int j = 0; j < LENGTH; j++)
				rows[i * LENGTH + j] += i + 1;
		pthread_barrier_wait(&all);
	}
	return NULL;
}
static int begins(void *p)
{
	return (uintptr_t)p % 4096 == 0;
}
int main(void)
{
	static const size_t large[] = { 4096, 8192, 65536, 100000, 1 << 20 }, small[] = { 1, 4000, 5000, 40000 };
	double sum = 0;
	pthread_t t;
	for (int i = 0; i < 5; i++)
		printf("%d", begins(malloc(large[i])) && begins(calloc(1, large[i])) && begins(realloc(malloc(10), large[i])));
	for (int i = 0; i < 4; i++)
		printf("%d", !((uintptr_t)malloc(small[i]) % 16));
	printf("%d", begins(aligned_alloc(64, 8192)) && begins(aligned_alloc(2048, 1 << 20)));
	rows = calloc(ROWS, LENGTH * sizeof(*rows));
	pthread_barrier_init(&all, NULL, 2);
	pthread_create(&t, NULL, write_rows, (void *)1);
	write_rows(NULL);
	pthread_join(t, NULL);
	for (int i = 0; i < ROWS * LENGTH; i++)
		sum += rows[i];
	printf(" %.0f\n", sum);
	return 0;
}
END
says "rows: one node" "1111111111 53248000" 0 "${run[@]}" -n 2 "$scratch/rows"
if is_chosen rows; then
	got=$(DSM_STATS=table timeout -k 5 60 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/rows" 2>&1)
	same "rows: release" "$(head -n 1 <<<"$got")" "1111111111 53248000"
	notices=$(grep -oE '(notices|told) +[0-9]+' <<<"$got" | awk '{ n += $2 } END { print n }')
	same "rows: few notices" "$((${notices:-9999} < 400))" 1
	((${notices:-9999} < 400)) || sed 's/^/    /' <<<"$got"
fi

# Half of the pages are read, others are in between: after the first round they are not fetched. And
# main() writes all of them again and again: it lends them.
program columns <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { PAGES = 1024, PAGE = 4096, ROUNDS = 20 };
static unsigned char *rows;
static pthread_barrier_t all;
static unsigned long sum;
static void *read_columns(void *arg)
{
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&all);
		for (int i = 0; i < PAGES; i++)
			for (int j = 0; i % 4 < 2 && j < PAGE; j += 64)
				sum += rows[i * PAGE + j];
		pthread_barrier_wait(&all);
	}
	return arg;
}
int main(void)
{
	pthread_t t;
	rows = malloc(PAGES * PAGE);
	pthread_barrier_init(&all, NULL, 2);
	pthread_create(&t, NULL, read_columns, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		memset(rows, round + 1, PAGES * PAGE);
		pthread_barrier_wait(&all);
		pthread_barrier_wait(&all);
	}
	pthread_join(t, NULL);
	printf("%lu\n", sum);
	return 0;
}
END
if is_chosen columns; then
	got=$(DSM_STATS=table timeout -k 5 60 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/columns" 2>&1)
	same "columns: release" "$(head -n 1 <<<"$got")" 6881280
	blocks=$(grep -oE 'blocks_in +[0-9]+' <<<"$got" | awk '{ print $2 }') lent=$(grep -oE '\blent +[0-9]+' <<<"$got" | awk '{ print $2 }')
	echo "    columns: blocks_in ${blocks:-?}, lent ${lent:-?}"
	most=12500
	[[ $got == *"faults by uffd"* && -r /proc/self/pagemap ]] || most=20000 # it cannot look
	same "columns: few blocks, most of them lent" "$((${blocks:-99999} < most)) $((${lent:-0} > 6000))" "1 1"
	((${blocks:-99999} < most && ${lent:-0} > 6000)) || sed 's/^/    /' <<<"$got"
fi

# Variables of main() are release memory as well: two nodes write one page of its stack at a time.
program frame <<'END'
#include <pthread.h>
#include <stdio.h>
enum { ROUNDS = 20, STORES = 2000000 };
static pthread_barrier_t all;
static void count(volatile long *mine)
{
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < STORES; i++)
			*mine += 1;
		pthread_barrier_wait(&all);
	}
}
static void *count_second(void *arg)
{
	count((long *)arg + 1);
	return NULL;
}
int main(void)
{
	long counts[2] = { 0 };
	pthread_t t;
	pthread_barrier_init(&all, NULL, 2);
	pthread_create(&t, NULL, count_second, counts);
	count(counts);
	pthread_join(t, NULL);
	printf("%ld %ld\n", counts[0], counts[1]);
	return 0;
}
END
if is_chosen frame; then
	got=$(DSM_STATS=table timeout -k 5 60 "${run[@]}" -n 2 --nodes rank --consistency release "$scratch/frame" 2>&1)
	same "frame: release" "$(head -n 1 <<<"$got")" "40000000 40000000"
	blocks=$(grep -oE 'blocks_in +[0-9]+' <<<"$got" | awk '{ print $2 }')
	same "frame: few blocks" "$((${blocks:-9999} < 250))" 1
	((${blocks:-9999} < 250)) || sed 's/^/    /' <<<"$got"
fi

# ---- standard input, statuses --------------------------------------------------------------------

if is_chosen words && [[ -x $scratch/words ]]; then
	want=$("$scratch/words.own" <"$input")
	same "words: input by a pipe" "$(cat "$input" | timeout 60 "${run[@]}" -n 2 "$scratch/words" 2>&1)" "$want"
	for way in node two; do
		status=0
		# shellcheck disable=SC2086
		timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/words" 3 <"$input" >"$scratch/log" 2>&1 || status=$?
		same "words: exit() on another rank, $way" "$status" 3
	done
fi

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: each program in several ways, standard input, ANL macros.

# ---- programs -----------------------------------------------------------------------------------------

for source in apps/threads/*.c* tests/threads/*.c*; do
	name=$(basename "$source")
	name=${name%.*}
	is_chosen "$name" || continue
	own=()
	# It counts misses, where there are any.
	[[ $name != beside ]] || own=(-Ilibdsm/include)
	if [[ $source == *.cc ]]; then
		g++ -std=c++20 -O2 "${own[@]}" -pthread "$source" -o "$scratch/$name.own" &&
			"$tools/dsm-c++" -std=c++20 -O2 -pthread "$source" -o "$scratch/$name"
	else
		gcc -O2 "${own[@]}" -pthread "$source" -o "$scratch/$name.own" &&
			"$tools/dsm-cc" -O2 -Wall -Wextra -Werror -pthread "$source" -o "$scratch/$name"
	fi || { count_failure "$name: build"; continue; }
	want=$("$scratch/$name.own" <"$input" 2>&1) || { count_failure "$name: by itself"; continue; }
	more='' common=()
	[[ $name != queue ]] || more="mprotect fill"
	[[ $name != @(futexes|futures|interrupts|named|mutexes|rwlocks|handles|stacks|beside|faults|async) ]] || more=mprotect
	# They take long on a busy host, and their main threads wait all the time.
	[[ $name != @(calls|numbers|aio) ]] || { more=mprotect; common=(DSM_STALL_MS=0); }
	((!${#host1[@]})) || [[ $name != @(words|calls|mutexes|objects) ]] || more+=" hosts"
	for way in one node two mixed preload $more; do
		settings=("${common[@]}") built=$scratch/$name
		[[ $way != hosts ]] || settings=("${by_rsh[@]}" "${common[@]}" "${host1[@]}")
		[[ $way != mprotect ]] || settings+=(DSM_FAULT=mprotect)
		[[ $way != preload ]] || built+=.own
		# shellcheck disable=SC2086
		got=$(env "${settings[@]}" timeout -k 5 60 "${run[@]}" ${ways[$way]} "$built" <"$input" 2>&1) || got+=" (status $?)"
		# Open MPI's mpirun and the child that it makes for the other host race to set the child's process group; mpirun minds if it loses.
		[[ $way != hosts ]] || got=$(sed '/plm:rsh: Warning: setpgid(.*) failed in parent/d' <<<"$got")
		same "$name:$way" "$got" "$want"
	done
done

# main() is cancelled: the process goes on until its last thread ends, with status 0. And what the C library itself may fail at.
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
	for way in node two; do
		# shellcheck disable=SC2086
		says "async: in library, $way" "$(printf '%s: 0 not cancelled, 0 without handler, 60 did not go on\n' "in library" "in memset()")
0 torn" 0 "${run[@]}" ${ways[$way]} "$scratch/async" 20 in
	done
fi

# The functions of _FORTIFY_SOURCE make system calls, too.
if is_chosen calls; then
	"$tools/dsm-cc" -O2 -D_FORTIFY_SOURCE=2 -pthread tests/threads/calls.c -o "$scratch/fortified" ||
		count_failure "calls, fortified: build"
	want=$("$scratch/calls.own" 2>&1)
	# shellcheck disable=SC2086
	got=$(DSM_STALL_MS=0 timeout -k 5 60 "${run[@]}" ${ways[two]} "$scratch/fortified" 2>&1) || got+=" (status $?)"
	same "calls, fortified" "$got" "$want"
fi

# ---- standard input, statuses -------------------------------------------------------------------------

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

# ---- ANL macros ---------------------------------------------------------------------------------------

# anl NAME FILE [OPTION OF M4]...: FILE, expanded, as $scratch/NAME by dsm-cc and $scratch/NAME.own without libdsm.
anl() {
	local name=$1 file=$2
	shift 2
	m4 "$@" "$("$tools/dsm-cc" --showme:m4)" "$file" >"$scratch/$name.c" &&
		gcc -O2 -Wall -Wextra -Werror -pthread -Ilibdsm/include "$scratch/$name.c" -o "$scratch/$name.own" \
			-L"$BUILD" -ldsm-anl &&
		"$tools/dsm-cc" -O2 -Wall -Wextra -Werror -pthread "$scratch/$name.c" -o "$scratch/$name" ||
		count_failure "$name: build"
}

if is_chosen macros; then
	anl macros-s tests/threads/macros.C -s -P
	anl macros tests/threads/macros.C
	want=$'3 threads, numbers 1, alone 2, locks 6, loops 0, rounds 9, done 1\natomic 1 1.25, late 3, 1, 5'
	same "macros: by themselves" "$("$scratch/macros.own" 3 2>&1)" "$want"
	same "macros: by themselves, m4 -s -P" "$("$scratch/macros-s.own" 3 2>&1)" "$want"
	for way in one node two mixed; do
		for n in 3 5; do
			want=$("$scratch/macros.own" $n)
			# shellcheck disable=SC2086
			got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/macros" $n 2>&1) || got+=" (status $?)"
			same "macros:$way, $n threads" "$got" "$want"
		done
	done
fi

# A suite: each program of apps/anl, and those that print something else over libdsm or do not compile.
if is_chosen suite; then
	mkdir -p "$scratch/suite/"{good,bad,broken}
	cat >"$scratch/suite/good/good.C" <<'END'
MAIN_ENV
#include <stdio.h>
#include "good.h"
static void work(void) { LOCK(lock) sum++; UNLOCK(lock) }
int main(int argc, char **argv)
{
	unsigned long now;
	char word[20];
	MAIN_INITENV
	CREATE(work, atol(argv[1]))
	WAIT_FOR_END(atol(argv[1]))
	CLOCK(now)
	printf("%ld threads, input %s, at %lu\n%s", sum, fgets(word, 20, stdin), now, argc > 2 ? argv[2] : "");
	printf("sum %ld\n", sum);
	MAIN_END
}
END
	printf 'LOCKDEC(lock)\nlong sum;\n' >"$scratch/suite/good/good.H"
	sed 's/"sum %ld.n", sum/"rank %s\\n", getenv("PMIX_RANK") ? "some" : "none"/' "$scratch/suite/good/good.C" \
		>"$scratch/suite/bad/bad.c.in"
	cp "$scratch/suite/good/good.H" "$scratch/suite/bad"
	printf 'MAIN_ENV\nint main(void) { LOCK(nothing) }\n' >"$scratch/suite/broken/broken.C"
	printf '[DEFAULT]\narguments = {threads}\ninput = {dir}/word\n' >"$scratch/suite/anl.ini"
	echo word >"$scratch/suite/word"
	suite=(scripts/anl --runs 1)
	says "suite: apps/anl" "4 programs agree" 0 "${suite[@]}" apps/anl
	says "suite: its own" "1 programs agree" 0 "${suite[@]}" -n 2 -t 2 --nodes 2 --only good "$scratch/suite"
	says "suite: another output" "not printed: rank none" 1 "${suite[@]}" "$scratch/suite" --only bad
	says "suite: does not compile" "broken                 FAILED: dsm-cc" 1 "${suite[@]}" "$scratch/suite"
	says "suite: no such program" "missing: no such program" 2 "${suite[@]}" "$scratch/suite" --args missing=1
	says "suite: nothing there" "no program" 2 "${suite[@]}" docs
fi

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: ANL macros, and scripts/anl.

# anl NAME FILE [OPTION OF M4]...: FILE, expanded, as $scratch/NAME by dsm-cc and $scratch/NAME.own
# without libdsm.
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

# A suite: each program of apps/anl, and those that print something else over libdsm, do not
# compile, or lack something. suite_program NAME STATEMENTS: a program that counts its threads in
# sum, and ends with the statements.
suite_program() {
	mkdir -p "$scratch/suite/$1"
	cat >"$scratch/suite/$1/main.C" <<-END
		MAIN_ENV
		#include <stdio.h>
		#include "sum.h"
		#ifdef TABLES
		#include "table.h"
		#endif
		static void work(void) { LOCK(lock) sum++; UNLOCK(lock) }
		int main(int argc, char **argv)
		{
			unsigned long now;
			char word[20];
			MAIN_INITENV
			CREATE(work, atol(argv[1]))
			WAIT_FOR_END(atol(argv[1]))
			CLOCK(now)
			if (fgets(word, 20, stdin))
				printf("input %s, at %lu\n", word, now);
			$2
			MAIN_END
		}
	END
	printf 'LOCKDEC(lock)\nlong sum;\n' >"$scratch/suite/$1/sum.H"
}

# The report of the last suite has a text.
reports() {
	is_chosen "$1" || return 0
	[[ $report == *"$2"* ]] && same "$1" 1 1 || same "$1" "$report" "$2"
}

if is_chosen suite; then
	in_job='(getenv("PMIX_RANK") != NULL)'
	suite_program good 'printf("sum %ld\n", sum);'
	suite_program other "printf(\"rank %d\\nsum 1\\n\", $in_job);"
	suite_program more "printf(\"sum %ld\\n%s\", sum, $in_job ? \"error 5\\n\" : \"\");"
	suite_program chance 'FILE *f = fopen("runs", "a"); fputc(0, f); printf("sum %ld\nTime 1.%d\n", sum, ftell(f) > 5); fclose(f);'
	suite_program times 'printf("Time %lu\nThe end\n", now);'
	suite_program dies 'FILE *f = fopen(argv[1], "r"); printf("%d\n", fgetc(f));'
	suite_program tables 'printf("sum %d\n", TABLE);'
	suite_program makes 'printf("sum %ld\n", sum);'
	suite_program needs 'printf("sum %d\n", TABLE);'
	suite_program without 'printf("sum %ld\n", sum);'
	mkdir -p "$scratch/suite/"{broken,header,common,none,uneven}
	printf 'MAIN_ENV\nint main(void) { LOCK(nothing) }\n' >"$scratch/suite/broken/broken.C"
	sed 's/^MAIN_ENV$/#include "..\/common\/all.h"/' "$scratch/suite/good/main.C" >"$scratch/suite/header/main.c.in"
	cp "$scratch/suite/good/sum.H" "$scratch/suite/header"
	echo '#include "env.h"' >"$scratch/suite/common/all.H"
	echo MAIN_ENV >"$scratch/suite/common/env.H"
	# Half of the threads' time in the parallel part is in a barrier; locks and pauses outside
	# of it take longer.
	cat >"$scratch/suite/uneven/main.C" <<-END
		MAIN_ENV
		#include <stdio.h>
		LOCKDEC(lock)
		BARDEC(all)
		static long ids, threads;
		static void work(void)
		{
			unsigned long begin, now;
			long me;
			LOCK(lock) me = ids++; UNLOCK(lock)
			BARRIER(all, threads)
			CLOCK(begin)
			do { CLOCK(now) } while (me == 0 && now - begin < 100000);
			BARRIER(all, threads)
		}
		int main(int argc, char **argv)
		{
			long i;
			MAIN_INITENV
			threads = atol(argv[1]);
			LOCKINIT(lock)
			BARINIT(all, threads)
			for (i = 0; i < 500; i++) { LOCK(lock) usleep(100); UNLOCK(lock) }
			CREATE(work, threads)
			WAIT_FOR_END(threads)
			for (i = 0; i < 500; i++) { LOCK(lock) usleep(100); UNLOCK(lock) }
			printf("threads %ld\n", ids);
			MAIN_END
		}
	END
	echo 'LOCKDEC(lock)' >"$scratch/suite/none/none.C"
	printf '%s\n' 'main: sum.h main.c; $(CC) -O2 main.c -o main' '%.c: %.C; m4 $(MACROS) $< >$@' '%.h: %.H; m4 $(MACROS) $< >$@' \
		>"$scratch/suite/makes/Makefile"
	cat >"$scratch/suite/anl.ini" <<-END
		[DEFAULT]
		arguments = {threads}
		input = {dir}/word
		[dies]
		arguments = {dir}/no/such.file
		[tables]
		prepare = echo '#define TABLE 1' >table.h
		cflags = -DTABLES
		[needs]
		cflags = -DTABLES
		[without]
		input = nowhere
	END
	echo word >"$scratch/suite/word"
	suite=(scripts/anl --runs 1 --keep "$scratch/built")
	same "suite: functions of the script" "$(tests/threads/suite.py 2>&1)" "ok"
	says "suite: apps/anl" "4 programs agree" 0 scripts/anl --runs 1 --json "$scratch/apps.json" apps/anl
	# Allocations have lines, and each program is told what to change.
	same "suite: lines of allocations" "$(python3 -c 'import json, re, sys
for name, program in json.load(open(sys.argv[1])).items():
    for way, result in program["ways"].items():
        if not result["change"] or way == "rank" and name != "tasks" and not any(re.search(r"\w[.](C|c[.]in):\d+$", row["site"]) for row in result["stats"]["sharing"]):
            print(name, way, result["change"], result["stats"]["sharing"])' "$scratch/apps.json" 2>&1)" ""
	report=$("${suite[@]}" --nodes host --json "$scratch/suite.json" "$scratch/suite" 2>&1) && status=0 || status=$?
	same "suite: status" "$status" 1
	reports "suite: those that agree" $'\n6 programs agree; '
	reports "suite: two equal times" "chance                 pthreads, 1"
	same "suite: spread and load" "$(grep -A 1 '^good ' <<<"$report" | grep -cE ' load [0-9.]+$|  pthreads, 2  *[0-9.]+ \([0-9.]+-[0-9.]+\)')" 2
	reports "suite: no result" "so): times"
	reports "suite: another output" "not printed: rank 0"
	reports "suite: a line too many" "printed only over libdsm: error 5"
	reports "suite: dies" "1 threads: ended by SIGSEGV"
	reports "suite: a missing file" "an argument names no file: $scratch/suite/no/such.file"
	reports "suite: no input" "without                FAILED: 1 threads: input: No such file or directory: $scratch/suite/without/nowhere"
	reports "suite: a header that is made" "table.h is made by no .H or .h.in below DIR: give \`prepare' in anl.ini"
	reports "suite: does not compile" "broken                 FAILED: dsm-cc:"
	reports "suite: why not" "undeclared"
	reports "suite: not a program" "none: macros, but no MAIN_ENV"
	reports "suite: those that differ" "these differ: more, other"
	reports "suite: those that fail" "these fail: broken, dies, needs, without"
	# The last program fails. Times are those of the parallel part, and all of it: locks outside
	# of it do not count.
	same "suite: results on file" "$(python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
way = r["uneven"]["ways"]["host"]
print(len(r), sorted(n for n in r if "error" in r[n]), r["good"]["ways"]["host"]["same"], way["report"]["locks"])
if not 90 < way["shares_sum"] < 110 or not 25 < way["shares"]["barriers"] < 75 or way["shares"]["locks"] > 25:
    print(way)' "$scratch/suite.json" 2>&1)" "13 ['broken', 'dies', 'needs', 'without'] True 2"
	built=$(stat -c %y "$scratch/built/"{chance,good}/dsm)
	says "suite: its own" "1 programs agree" 0 "${suite[@]}" -n 2 -t 2 --nodes 2 --only good "$scratch/suite"
	# It writes a file into its folder, which is no reason.
	says "suite: once more" "1 programs agree" 0 "${suite[@]}" --nodes host --only chance "$scratch/suite"
	same "suite: builds once" "$(stat -c %y "$scratch/built/"{chance,good}/dsm)" "$built"
	echo '/* changed */' >>"$scratch/suite/good/sum.H"
	says "suite: a changed header" "1 programs agree" 0 "${suite[@]}" --nodes host --only good "$scratch/suite"
	same "suite: builds again" "$([[ $(stat -c %y "$scratch/built/"{chance,good}/dsm) != "$built" ]] && echo yes)" yes
	says "suite: makefiles" "1 programs agree" 0 "${suite[@]}" --keep "$scratch/made" --make "$scratch/suite"
	# The documented way without the script.
	make -s -C "$scratch/suite/makes" CC="$tools/dsm-cc -pthread" MACROS="$("$tools/dsm-cc" --showme:m4)" >"$scratch/log" 2>&1 || cat "$scratch/log"
	says "suite: make by hand" "sum 2" 0 "${run[@]}" -n 2 "$scratch/suite/makes/main" 2
	says "suite: no such program" "missing: no such program" 2 "${suite[@]}" "$scratch/suite" --args missing=1
	says "suite: nothing there" "no program" 2 "${suite[@]}" docs
fi

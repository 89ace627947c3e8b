# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: programs with OpenMP directives print what they print with libgomp.

# openmp NAME: tests/openmp/NAME.c, .cc or .f90 as $scratch/NAME by dsm-cc, and as $scratch/NAME.own by GCC.
openmp() {
	local name=$1 source=tests/openmp/$1.c own=gcc ours=dsm-cc
	[[ -e $source ]] || source=tests/openmp/$1.cc own=g++ ours=dsm-c++
	[[ -e $source ]] || source=tests/openmp/$1.f90 own=gfortran ours=dsm-fc
	"$own" -O2 -Wall -Wextra -Werror -fopenmp "$source" -o "$scratch/$name.own" &&
		"$tools/$ours" -O2 -Wall -Wextra -Werror -fopenmp "$source" -o "$scratch/$name" || count_failure "$name: build"
}

# openmp_run THREADS WAY COMMAND: what it prints, and its status if that is not 0.
openmp_run() {
	local status=0
	# shellcheck disable=SC2086
	OMP_NUM_THREADS=$1 timeout -k 5 100 "${run[@]}" ${ways[$2]} "$3" 2>&1 </dev/null || status=$?
	((!status)) || echo "(status $status)"
}

for name in loops constructs tasks away objects fortran; do
	is_chosen "$name" || continue
	openmp "$name"
	for threads in 3 5; do
		want=$(OMP_NUM_THREADS=$threads "$scratch/$name.own" 2>&1) || count_failure "$name: by itself, $threads threads: $want"
		for way in one node two mixed release many; do
			[[ $threads == 3 || $way == @(mixed|many) ]] || continue
			same "$name:$way, $threads threads" "$(openmp_run $threads $way "$scratch/$name")" "$want"
		done
	done
	want=$(OMP_NUM_THREADS=3 "$scratch/$name.own" 2>&1)
	same "$name:preload, 3 threads" "$(openmp_run 3 preload "$scratch/$name.own")" "$want"
done

# The examples, whose times go to standard error.
for name in heat mandelbrot queens; do
	is_chosen "$name" || continue
	gcc -O2 -Wall -Wextra -Werror -fopenmp "apps/openmp/$name.c" -o "$scratch/$name.own" &&
		"$tools/dsm-cc" -O2 -Wall -Wextra -Werror -fopenmp "apps/openmp/$name.c" -o "$scratch/$name" || count_failure "$name: build"
	arguments=200
	[[ $name != queens ]] || arguments=9
	want=$("$scratch/$name.own" $arguments 2>/dev/null)
	for way in two release; do
		# shellcheck disable=SC2086
		got=$(OMP_NUM_THREADS=3 timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/$name" $arguments 2>/dev/null) || got+=" (status $?)"
		same "$name:$way" "$got" "$want"
	done
done

if is_chosen constructs; then
	same "constructs: DSM_OWN_LIBRARIES=rank" "$(DSM_OWN_LIBRARIES=rank openmp_run 3 two "$scratch/constructs")" "$(OMP_NUM_THREADS=3 "$scratch/constructs.own" 2>&1)"
fi

if is_chosen costs; then
	"$tools/dsm-cc" -O2 -DTASKS -fopenmp tests/openmp/costs.c -o "$scratch/costs" || count_failure "costs: build"
	says "costs: a few rounds" "task " 0 "${run[@]}" -n 2 --nodes rank "$scratch/costs" 20
fi

if is_chosen where; then
	cat >"$scratch/where.c" <<-END
		#include <omp.h>
		#include <stdio.h>
		#include <sys/auxv.h>
		int main(void)
		{
			static long processes[64];
			int i, j, n = 0, different = 0;

		#pragma omp parallel
		{
			processes[omp_get_thread_num()] = *(long *)getauxval(AT_RANDOM);
		#pragma omp single
			n = omp_get_num_threads();
		}
			for (i = 0; i < n; i++) {
				for (j = 0; j < i && processes[j] != processes[i]; j++)
					;
				different += j == i;
			}
			printf("%d threads, %d processes\n", n, different);
		}
	END
	"$tools/dsm-cc" -fopenmp "$scratch/where.c" -o "$scratch/where" || count_failure "where: build"
	gcc -fopenmp "$scratch/where.c" -o "$scratch/where.own" || count_failure "where: build"
	same "where:one" "$(openmp_run 4 one "$scratch/where")" "4 threads, 1 processes"
	same "where:node" "$(openmp_run 4 node "$scratch/where")" "4 threads, 4 processes"
	same "where:two" "$(openmp_run 2 two "$scratch/where")" "2 threads, 2 processes"
	same "where:preload" "$(openmp_run 4 preload "$scratch/where.own")" "4 threads, 4 processes"
	same "where: OMP_THREAD_LIMIT" "$(OMP_THREAD_LIMIT=2 openmp_run 9 node "$scratch/where")" $'libdsm-openmp: a team has 2 threads at most (OMP_THREAD_LIMIT)\n2 threads, 2 processes'
	says "where: a wrong number" "OMP_NUM_THREADS=none is not understood" 0 env OMP_NUM_THREADS=none "${run[@]}" "$scratch/where"
	says "where: a wrong schedule" "OMP_SCHEDULE=dynamic,x is not understood" 0 env OMP_SCHEDULE=dynamic,x "${run[@]}" "$scratch/where"
	says "where: cancellation" "OMP_CANCELLATION=true has no effect" 0 env OMP_CANCELLATION=true "${run[@]}" "$scratch/where"
fi

# Constructors, destructors and functions of atexit() run on a stack that is private: their regions have one thread.
if is_chosen outside; then
	cat >"$scratch/outside.cc" <<-END
		#include <cstdio>
		#include <cstdlib>
		static int count()
		{
			int n = 0;
		#pragma omp parallel reduction(+ : n)
			n++;
			return n;
		}
		static int at_first = count();
		struct Last { ~Last() { std::printf("destructor %d\n", count() > 0); } } last;
		static void at_exit() { std::printf("atexit %d\n", count() > 0); }
		int main()
		{
			std::atexit(at_exit);
			std::printf("constructor %d, main %d\n", at_first > 0, count());
		}
	END
	"$tools/dsm-c++" -O2 -fopenmp "$scratch/outside.cc" -o "$scratch/outside" || count_failure "outside: build"
	for way in one node two release; do
		same "outside:$way" "$(openmp_run 3 $way "$scratch/outside")" $'constructor 1, main 3\natexit 1\ndestructor 1'
	done
	cat >"$scratch/itself.cc" <<-END
		#include <cstdio>
		#include <string>
		extern std::string name;
		#pragma omp threadprivate(name)
		std::string name("long before main");
		int main()
		{
			int right = 0;
		#pragma omp parallel reduction(+ : right)
			{
				name = "own";
		#pragma omp single copyprivate(name)
				name = "short";
				right += name == "short";
		#pragma omp single copyprivate(name)
				name += ", and longer than what a string holds itself";
				right += name.size() == 49;
			}
			name.resize(3);
			std::printf("strings %d %s\n", right, name.c_str());
		}
	END
	"$tools/dsm-c++" -O2 -fopenmp "$scratch/itself.cc" -o "$scratch/itself" || count_failure "outside: build"
	for way in one node two release; do
		same "outside: objects:$way" "$(openmp_run 3 $way "$scratch/itself")" "strings 6 sho"
	done
	# A library's directives, in a program that has none of its own.
	printf '%s\n' 'int count(void) { int n = 0;' '#pragma omp parallel reduction(+:n)' 'n++;' 'return n; }' >"$scratch/lib.c"
	printf '%s\n' '#include <stdio.h>' 'int count(void);' 'int main(void) { printf("library %d\n", count()); }' >"$scratch/user.c"
	"$tools/dsm-cc" -O2 -shared -fopenmp "$scratch/lib.c" -o "$scratch/libcount.so" &&
		"$tools/dsm-cc" -O2 -pthread "$scratch/user.c" -o "$scratch/user" -L"$scratch" -lcount "-Wl,-rpath,$scratch" || count_failure "outside: build"
	for way in one two release; do
		same "outside: library:$way" "$(openmp_run 3 $way "$scratch/user")" "library 3"
	done
	"$tools/dsm-cc" -O2 "$scratch/user.c" -o "$scratch/user" -L"$scratch" -lcount "-Wl,-rpath,$scratch" 2>/dev/null || count_failure "outside: build"
	says "outside: library, not the program" "link the program by \`dsm-cc -pthread'" 70 "${run[@]}" -n 2 "$scratch/user"
fi

# What is not there is refused: by the linker, or by name at the first region.
if is_chosen refused; then
	cat >"$scratch/target.c" <<-END
		#include <stdio.h>
		int main(void)
		{
			int sum = 0;
		#pragma omp parallel
		#pragma omp atomic
			sum++;
		#pragma omp target map(tofrom: sum)
			sum++;
			printf("%d\n", sum);
		}
	END
	says "refused: target" "undefined reference to \`GOMP_target" 1 "$tools/dsm-cc" -fopenmp "$scratch/target.c" -o "$scratch/target"
	gcc -fopenmp "$scratch/target.c" -o "$scratch/target.own" || count_failure "target: build"
	says "refused: target, preload" "GOMP_target_ext() is not supported, which the program calls" 1 \
		"${run[@]}" -n 2 --preload "$scratch/target.own"
	gcc -no-pie -fopenmp "$scratch/target.c" -o "$scratch/target.own" || count_failure "target: build"
	says "refused: target, preload, fixed" "GOMP_target_ext() is not supported, which the program calls" 1 \
		"${run[@]}" -n 1 --preload "$scratch/target.own"
	printf '%s\n' 'int omp_own(int x) { return x + 1; }' >"$scratch/own.c"
	gcc -shared -fPIC "$scratch/own.c" -o "$scratch/libown.so" || count_failure "own: build"
	printf '%s\n' '#include <stdio.h>' 'int omp_own(int);' 'int main(void) { int x = 0;' \
		'#pragma omp parallel reduction(+:x)' 'x += omp_own(0);' 'printf("own %d\n", x); }' >"$scratch/ours.c"
	"$tools/dsm-cc" -fopenmp "$scratch/ours.c" -o "$scratch/ours" -L"$scratch" -lown "-Wl,-rpath,$scratch" || count_failure "own: build"
	says "refused: not a function of the program's" "own 3" 0 env OMP_NUM_THREADS=3 "${run[@]}" -n 2 "$scratch/ours"
	says "refused: libgomp by its path" "its threads would stay on one rank" 2 \
		"$tools/dsm-cc" "$scratch/ours.c" -o "$scratch/ours" "$(gcc -print-file-name=libgomp.so)"
	cat >"$scratch/detach.c" <<-END
		#include <omp.h>
		int main(void)
		{
			omp_event_handle_t event;
		#pragma omp parallel
		#pragma omp single
		#pragma omp task detach(event)
			(void)event;
		}
	END
	"$tools/dsm-cc" -fopenmp "$scratch/detach.c" -o "$scratch/detach" || count_failure "detach: build"
	says "refused: detach" "\`detach' is not supported" 1 env OMP_NUM_THREADS=2 "${run[@]}" -n 2 "$scratch/detach"
	says "refused: clang" "OpenMP (-fopenmp): only with GCC" 2 env DSM_CC=clang "$tools/dsm-cc" -fopenmp "$scratch/detach.c"
fi

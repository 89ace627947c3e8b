# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: dsm-cc and dsmrun: what they refuse, programs that dsm-cc has not
# built, binding, placing.

printf 'int main(void) { return 0; }\n' >"$scratch/nothing.c"
gcc "$scratch/nothing.c" -o "$scratch/plain"
gcc -static "$scratch/nothing.c" -o "$scratch/static"
says "dsm-cc -static" "shared libraries" 2 "$tools/dsm-cc" -static "$scratch/nothing.c" -o "$scratch/no"
says "dsm-cc --showme:compile" "-fPIC" 0 "$tools/dsm-cc" --showme:compile
says "dsm-cc --showme:link" "-z,now" 0 "$tools/dsm-cc" --showme:link
says "dsm-cc --version" "" 0 "$tools/dsm-cc" --version
says "dsm-cc -o" "the last option lacks its argument" 2 "$tools/dsm-cc" -o
# Of other processors: i386, x32, and by its header aarch64.
echo 'void _start(void) { for (;;); }' >"$scratch/start.c"
for machine in 32 x32; do
	gcc -m$machine -nostdlib -static "$scratch/start.c" -o "$scratch/of-$machine" || count_failure "of-$machine: build"
done
{ head -c 18 "$scratch/plain"; printf '\267\0'; tail -c +21 "$scratch/plain"; } >"$scratch/of-aarch64"
head -c 16 "$scratch/plain" >"$scratch/of-nothing"
chmod +x "$scratch/of-aarch64" "$scratch/of-nothing"
declare -A machines=([32]=" (ELF32 Intel 80386)" [x32]=" (ELF32 Advanced Micro Devices X86-64)" [aarch64]=" (ELF64 AArch64)" [nothing]=)
for machine in "${!machines[@]}"; do
	for option in "" --preload; do
		# shellcheck disable=SC2086
		says "dsmrun${option:+ $option}: another architecture: $machine" "another architecture than x86-64${machines[$machine]}" 2 \
			"${run[@]}" -n 2 $option "$scratch/of-$machine"
	done
done
# at_once NAME TEXT COMMAND...: dsmrun refuses it, by one line that has TEXT in it, and no rank has
# been started.
at_once() {
	local got status=0
	is_chosen "$1" || return 0
	got=$(timeout -k 5 60 "${@:3}" 2>&1 </dev/null) || status=$?
	[[ $got != "dsmrun: "*"$2"* || $got == *$'\n'* ]] || got=$2
	same "$1" "$status $got" "2 $2"
}
# What dsmrun does not check, the ranks do.
started=(mpirun -q -n 2 setarch -R)

says "dsmrun of a plain program" "not linked with libdsm" 2 "${run[@]}" -n 2 "$scratch/plain"
says "dsmrun of a static program" "statically linked" 2 "${run[@]}" -n 2 "$scratch/static"
says "dsmrun of a program with libdsm.a" "2 ranks, sum 3" 0 "${run[@]}" -n 2 "$BUILD/apps/example"
says "dsmrun of nothing" "no such program" 2 "${run[@]}" -n 2 "$scratch/not-there"
says "dsmrun --bad" "what is --bad" 2 "${run[@]}" --bad

# Of a library that is not the C library, nothing is known.
echo 'int its_own = 3;' >"$scratch/its-own.c"
gcc -shared -fPIC "$scratch/its-own.c" -o "$scratch/libits-own.so"
program copies -fno-pic "$scratch/libits-own.so" "-Wl,-rpath,$scratch" <<'END'
#include <unistd.h>
extern int its_own;
int main(void) { return environ == 0 || its_own != 3; }
END
at_once "a copy of a library's variable" "that ranks cannot share: its_own (" "$tools/dsmrun" -n 2 "$scratch/copies"
says "a copy of a library's variable, one rank" "" 0 "${run[@]}" -n 1 "$scratch/copies"
says "a copy of a library's variable, by mpirun" "that ranks cannot share: its_own (" 70 "${started[@]}" "$scratch/copies"
program environment -fno-pic <<'END'
#include <unistd.h>
int main(void) { return environ == 0; }
END
says "a copy of environ" "" 0 "${run[@]}" -n 2 "$scratch/environment"
# Each rank reads the environment where its own C library has put it: rank 0's is at an address where
# the others have no memory. The more there are, the likelier one of them is ahead of rank 0.
cat >"$scratch/elsewhere.c" <<'END'
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void move_heap(int argc, char **argv, char **envp) {
	(void)argc, (void)argv;
	for (; *envp; envp++) if (!strcmp(*envp, "PMIX_RANK=0")) sbrk(1 << 26);
}
END
gcc -shared -fPIC -Wl,-z,initfirst "$scratch/elsewhere.c" -o "$scratch/libelsewhere.so"
says "a copy of environ, elsewhere on rank 0" "" 0 env DSM_NODE=rank mpirun -q -n 6 setarch -R bash -c \
	'[[ $PMIX_RANK != 0 ]] || export MALLOC_ARENA_MAX=1; LD_PRELOAD=$1 exec "$0"' "$scratch/environment" "$scratch/libelsewhere.so"
# Without libdsm-pthread.so nobody keeps it equal.
cat >"$scratch/adopts.c" <<'END'
#include <dsm.h>
#include <unistd.h>
int main(void) {
	if (!environ || dsm_init(NULL)) return 2;
	int bad = dsm_adopt_globals(NULL);
	return dsm_finalize() || bad;
}
END
"$tools/dsm-cc" -D_GNU_SOURCE -fno-pic "$scratch/adopts.c" -o "$scratch/adopts" || count_failure "adopts: build"
says "a copy of environ, without libdsm-pthread" "environ (compile with -fPIC" 1 "${run[@]}" -n 2 "$scratch/adopts"

# Programs that dsm-cc has not built.
cat >"$scratch/shares.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long count;
static long pid[2];
static void *add(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		count++;
		pthread_mutex_unlock(&lock);
	}
	pid[(long)arg] = *(const long *)getauxval(AT_RANDOM); /* differs by process: getpid() is the same on all ranks */
	return strdup(" and a string");
}
int main(int argc, char **argv)
{
	pthread_t t[2];
	char *text = calloc(100, 1);
	void *more;
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, add, (void *)i);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &more);
		strcat(text, more);
	}
	fprintf(stdout, "%ld%s, %d process\n", count, text, 1 + (pid[0] != pid[1]));
	return argc > 1 ? atoi(argv[1]) : 0;
}
END
gcc -O2 "$scratch/shares.c" -pthread -o "$scratch/shares-pie" -pie -fPIE
gcc -O2 "$scratch/shares.c" -pthread -o "$scratch/shares-lazy" -no-pie -fno-pic -Wl,-z,lazy
gcc -O2 "$scratch/shares.c" -pthread -o "$scratch/shares-open" -no-pie -fno-pic -Wl,-z,norelro
gcc -static "$scratch/shares.c" -pthread -o "$scratch/shares-static"
gcc -no-pie -fno-pic "$scratch/environment.c" -D_GNU_SOURCE -o "$scratch/environment-plain"
cp "$scratch/shares-pie" "$scratch/shares-setuid" && chmod u+s "$scratch/shares-setuid"
printf '#!/bin/sh\nexec "$@"\n' >"$scratch/script" && chmod +x "$scratch/script"

# What --showme prints does what dsm-cc does, and dsm-cc has done nothing then.
if is_chosen "dsm-cc --showme"; then
	shared="2000 and a string and a string, 2 process"
	command=$("$tools/dsm-cc" -O2 --showme "$scratch/shares.c" -pthread -o "$scratch/shown")
	same "dsm-cc --showme: makes nothing" "$([[ -e $scratch/shown ]] && echo made)" ""
	eval "$command"
	says "dsm-cc --showme: its command" "$shared" 5 "${run[@]}" -n 2 "$scratch/shown" 5
	# shellcheck disable=SC2046
	gcc -O2 $("$tools/dsm-cc" --showme:compile) -c "$scratch/shares.c" -o "$scratch/shown.o" &&
		gcc "$scratch/shown.o" $("$tools/dsm-cc" --showme:link -pthread) -o "$scratch/shown-twice"
	says "dsm-cc --showme: its options" "$shared" 5 "${run[@]}" -n 2 "$scratch/shown-twice" 5
	says "dsm-cc --showme: no file" "-ldsm-pthread" 0 "$tools/dsm-cc" --showme -pthread
	same "dsm-cc --showme: -c" "$("$tools/dsm-cc" --showme -pthread -c a.c | grep -c -e -ldsm)" 0
fi
# Other ways to give it a program: by standard input, with options for executables that are linked
# at any address, in two steps of the linker.
if is_chosen "dsm-cc: input"; then
	(cd "$scratch" && "$tools/dsm-cc" -pthread -xc - <shares.c)
	says "dsm-cc: input from a pipe" "string, 2 process" 0 "${run[@]}" -n 2 "$scratch/a.out"
	"$tools/dsm-cc" -D_GNU_SOURCE -O2 -fPIE -pthread -pie "$scratch/environment.c" -o "$scratch/environment-pie"
	says "dsm-cc: input with -fPIE" "" 0 "${run[@]}" -n 2 "$scratch/environment-pie"
	"$tools/dsm-cc" -pthread -c "$scratch/shares.c" -o "$scratch/shares.o" &&
		"$tools/dsm-cc" -pthread -r "$scratch/shares.o" -o "$scratch/shares-r.o" &&
		"$tools/dsm-cc" -pthread "$scratch/shares-r.o" -o "$scratch/shares-r"
	says "dsm-cc: input by -r" "string, 2 process" 0 "${run[@]}" -n 2 "$scratch/shares-r"
fi
"$tools/dsm-cc" "$scratch/shares.c" -o "$scratch/shares-alone"
says "dsmrun of a program without -pthread" "was linked without -pthread: each rank runs the whole program" 0 \
	"${run[@]}" -n 2 "$scratch/shares-alone"
libraries=LD_PRELOAD=$tools/libdsm-pthread.so:$tools/libdsm-syscall.so
for way in node two; do
	for kind in pie lazy; do
		# shellcheck disable=SC2086
		says "--preload: $kind, $way" "2000 and a string and a string, 2 process" 5 \
			"${run[@]}" ${ways[$way]} --preload "$scratch/shares-$kind" 5
	done
done
says "--preload: once" $'string, 2 process\nend' 0 bash -c '"$@"; echo end' - "${run[@]}" -n 2 --preload "$scratch/shares-pie"
says "--preload: one rank" "2000 and a string and a string, 1 process" 5 "${run[@]}" --preload "$scratch/shares-pie" 5
at_once "--preload: no RELRO" "it has no RELRO segment" "$tools/dsmrun" -n 2 --preload "$scratch/shares-open"
says "--preload: no RELRO, one rank" "2000 and a string and a string, 1 process" 5 "${run[@]}" -n 1 --preload "$scratch/shares-open" 5
says "--preload: no RELRO, by mpirun" "it has no RELRO segment" 70 "${started[@]}" env "$libraries" LD_BIND_NOW=1 "$scratch/shares-open"
# shellcheck disable=SC2046
gcc -O2 -fPIC "$scratch/shares.c" $("$tools/dsm-cc" --showme:link -pthread) -Wl,-z,lazy -o "$scratch/shares-late"
at_once "functions bound late" "its functions are bound when they are called" "$tools/dsmrun" -n 2 "$scratch/shares-late"
says "functions bound late, but for LD_BIND_NOW" "2000 and a string" 5 env LD_BIND_NOW=1 "${run[@]}" -n 2 "$scratch/shares-late" 5
at_once "more ranks than there may be" "a job may have 1024 ranks, this one has 1025" "$tools/dsmrun" -n 1025 --preload "$scratch/shares-pie"

# Each of several ranks of a program with threads reserves all addresses; others have room for the
# window.
limited=(bash -c 'ulimit -v "$1" && exec "${@:2}"' -)
at_once "a limit of addresses: threads" "the address space is limited" "${limited[@]}" 900000000 "$tools/dsmrun" -n 2 "$scratch/shares-late"
says "a limit of addresses: threads of one rank" "2000 and a string" 5 "${limited[@]}" 900000000 "${run[@]}" "$scratch/shares-late" 5
says "a limit of addresses: threads, by mpirun" "no range of addresses of its own: the address space is limited" 70 \
	"${limited[@]}" 900000000 "${started[@]}" env LD_BIND_NOW=1 "$scratch/shares-late"
for ranks in 1 2; do
	at_once "a limit of addresses: no window, -n $ranks" "no range of 256 GiB of addresses is free" \
		"${limited[@]}" 100000000 "$tools/dsmrun" -n $ranks "$BUILD/apps/example"
done
says "a limit of addresses: a small window" "2 ranks, sum 3" 0 "${limited[@]}" 100000000 env DSM_SPACE=1G "${run[@]}" -n 2 "$BUILD/apps/example"
says "--preload: a copy of environ" "" 0 "${run[@]}" -n 2 --preload "$scratch/environment-plain"
says "--preload: static" "statically linked" 2 "${run[@]}" -n 2 --preload "$scratch/shares-static"
says "--preload: setuid" "setuid" 2 "${run[@]}" -n 2 --preload "$scratch/shares-setuid"
says "--preload: a script" "not for scripts" 2 "${run[@]}" -n 2 --preload "$scratch/script" "$scratch/shares-pie"
says "--preload: no library" "/nowhere/libdsm-pthread.so: not there" 2 \
	env DSM_LIBDIR=/nowhere "${run[@]}" -n 2 --preload "$scratch/shares-pie"
says "--preload: mpirun's command" "setarch -R env $libraries LD_BIND_NOW=1 $scratch/shares-pie" 0 \
	"${run[@]}" -n 2 --preload --explain "$scratch/shares-pie"
says "--preload: srun's command" "srun --mpi=pmix -n 2 setarch -R env $libraries LD_BIND_NOW=1 $scratch/shares-pie" 0 \
	"${run[@]}" -n 2 --launcher srun --preload --explain "$scratch/shares-pie"
says "--preload: another library first" "libdsm-syscall.so:/mine.so LD_BIND_NOW=1" 0 \
	env LD_PRELOAD=/mine.so "${run[@]}" -n 2 --preload --explain "$scratch/shares-pie"

program status <<'END'
#include <stdlib.h>
int main(int argc, char **argv) { return argc > 1 ? atoi(argv[1]) : 0; }
END
says "dsmrun --explain" "setarch -R" 0 "${run[@]}" -n 2 --explain "$scratch/status" 7

# A status other than 0 passes mpirun by, which would wait for two seconds.
mkdir -p "$scratch/launcher"
printf '#!/bin/bash\nunset TMPDIR\n"%s" "$@"\nstatus=$?\necho "mpirun: $status"\nexit $status\n' "$(command -v mpirun)" >"$scratch/launcher/mpirun"
chmod +x "$scratch/launcher/mpirun"
says "a status, past mpirun" "mpirun: 0" 7 env "PATH=$scratch/launcher:$PATH" "${run[@]}" --launcher mpirun -n 2 "$scratch/status" 7
says "a status, by mpirun" "mpirun: 7" 7 env "PATH=$scratch/launcher:$PATH" TMPDIR=/nowhere "${run[@]}" --launcher mpirun -n 2 "$scratch/status" 7
says "no status, past mpirun" "mpirun: 0" 0 env "PATH=$scratch/launcher:$PATH" "${run[@]}" --launcher mpirun -n 2 "$scratch/status"

# Binding. The environment of the tests turns it off.
by_mpirun=("${run[@]}" --launcher mpirun)
free=(env -u OMPI_MCA_hwloc_base_binding_policy)
cores=$(lscpu -p=CORE | grep -v '^#' | sort -u | wc -l)
printf '#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\n' >"$scratch/mask"
chmod +x "$scratch/mask"
says "bind: a core for each rank" "--map-by ppr:$cores:node:PE=1 --bind-to core" 0 \
	"${free[@]}" "${by_mpirun[@]}" -n "$cores" --explain "$scratch/mask"
says "bind: all cores for one rank" "--map-by ppr:1:node:PE=$cores --bind-to core" 0 \
	"${free[@]}" "${by_mpirun[@]}" -n 1 -t "$cores" --explain "$scratch/mask"
says "bind: more ranks than cores" "binding_policy=none" 0 \
	"${free[@]}" "${by_mpirun[@]}" -n $((cores + 1)) --explain "$scratch/mask"
says "bind: more threads than cores" "binding_policy=none" 0 \
	"${free[@]}" "${by_mpirun[@]}" -n "$cores" -t 2 --explain "$scratch/mask"
says "bind: --no-bind" "binding_policy=none" 0 "${free[@]}" "${by_mpirun[@]}" -n "$cores" --no-bind --explain "$scratch/mask"
says "bind: as the environment says" "binding_policy=none" 0 "${by_mpirun[@]}" -n "$cores" --explain "$scratch/mask"
says "bind: --bind, too few cores" "$cores core(s) for $((cores + 1)) rank(s)" 2 \
	"${by_mpirun[@]}" -n $((cores + 1)) --bind "$scratch/mask"
((cores == 1)) || says "bind: dsmrun is bound itself" "binding_policy=none" 0 \
	taskset -c 0 "${free[@]}" "${by_mpirun[@]}" -n 1 --explain "$scratch/mask"
says "bind: as many threads as DSM_THREADS says" "--map-by ppr:$cores:node:PE=1 --bind-to core" 0 \
	env DSM_PLACE=fill DSM_THREADS=1 "${free[@]}" "${by_mpirun[@]}" -n "$cores" --explain "$scratch/status"
says "bind: DSM_THREADS without DSM_PLACE=fill" "binding_policy=none" 0 \
	env DSM_THREADS=1 "${free[@]}" "${by_mpirun[@]}" -n "$cores" --explain "$scratch/status"
says "bind: threads that dsmrun does not know" "binding_policy=none" 0 \
	"${free[@]}" "${by_mpirun[@]}" -n "$cores" --explain "$scratch/status"
says "bind: srun" "--cpu-bind=cores" 0 "${run[@]}" --launcher srun -n 2 --bind --explain "$scratch/mask"
if is_chosen "bind: masks"; then
	masks=$("${by_mpirun[@]}" -n "$cores" --bind "$scratch/mask" 2>&1 | sort -u)
	same "bind: masks of the ranks" "$(grep -c '^Cpus_allowed_list:' <<<"$masks") distinct" "$cores distinct"
	masks=$("${by_mpirun[@]}" -n "$cores" --no-bind "$scratch/mask" 2>&1 | sort -u)
	same "bind: masks with --no-bind" "$(grep -c '^Cpus_allowed_list:' <<<"$masks") distinct" "1 distinct"
fi

# Placing: the ranks on which main() and its threads run; and the line that dsmrun prints about the
# job with these settings.
program placed <<'END'
#include <dsm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int ranks[40];
static pthread_barrier_t all; /* are there at once */
static void *look(void *arg)
{
	*(int *)arg = dsm_rank();
	pthread_barrier_wait(&all);
	return arg;
}
int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : 7;
	pthread_t t[40];
	pthread_barrier_init(&all, NULL, (unsigned int)n);
	for (int i = 1; i < n; i++)
		pthread_create(&t[i], NULL, look, &ranks[i]);
	look(&ranks[0]);
	for (int i = 1; i < n; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < n; i++)
		printf("%d%s", ranks[i], i < n - 1 ? " " : "\n");
	return 0;
}
END
# placed NAME OUTPUT COMMAND...: all that it prints.
placed() {
	local got
	is_chosen "place: $1" || return 0
	got=$(timeout -k 5 60 "${@:3}" 2>&1 </dev/null) || got+=" (status $?)"
	same "place: $1" "$got" "$2"
}
filling="DSM_PLACE=fill DSM_THREADS=2"
placed "in turn, with a line" $'dsmrun: placed in 3 rank(s) by mpirun\n0 1 2 0 1 2 0' "$tools/dsmrun" -n 3 "$scratch/placed"
placed "-t, with a line" "dsmrun: $filling placed in 3 rank(s) by mpirun"$'\n0 0 1 1 2 2 0' \
	"$tools/dsmrun" -n 3 -t 2 "$scratch/placed"
placed "one rank, with a line" $'dsmrun: placed in 1 rank(s) by none\n0 0 0 0 0 0 0' "$tools/dsmrun" "$scratch/placed"
placed "--threads, nodes" "0 0 0 1 1 1 2" "${run[@]}" -n 3 --threads 3 --nodes rank "$scratch/placed"
# shellcheck disable=SC2086
placed "DSM_PLACE=fill" "0 0 1 1 2 2 0" env $filling "${run[@]}" -n 3 "$scratch/placed"
for way in "" "--nodes rank"; do
	# shellcheck disable=SC2086
	placed "more threads than -t${way:+, $way}" "0 0 1 1 2 2 0 0 1 1 2 2 0 0 1 1 2" \
		"${run[@]}" -n 3 -t 2 $way "$scratch/placed" 17
done
placed "DSM_THREADS alone" "0 1 2 0 1 2 0" env DSM_THREADS=2 "${run[@]}" -n 3 "$scratch/placed"
says "place: srun's command" "srun --mpi=pmix -n 3 " 0 \
	"${run[@]}" --launcher srun -n 3 -t 2 --explain "$scratch/placed"
says "place: -t 0" "-t 0: a number of threads is wanted" 2 "${run[@]}" -n 2 -t 0 "$scratch/placed"
says "place: -t 5000" "DSM_THREADS" 2 "${run[@]}" -n 2 -t 5000 "$scratch/placed"
says "place: -t of nothing" "-t takes a value" 2 "${run[@]}" -n 2 -t

# Threads are bound as their ranks are, each to another core.
if is_chosen "bind: threads"; then
	program bound <<'END'
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
static cpu_set_t mask[2];
static void *look(void *arg) { sched_getaffinity(0, sizeof(mask[0]), arg); return arg; }
int main(void)
{
	pthread_t t;
	sched_getaffinity(0, sizeof(mask[0]), &mask[0]);
	pthread_create(&t, NULL, look, &mask[1]);
	pthread_join(t, NULL);
	CPU_AND(&mask[0], &mask[0], &mask[1]);
	printf("%d in common\n", CPU_COUNT(&mask[0]));
	return 0;
}
END
	((cores == 1)) || says "bind: threads of two ranks" "0 in common" 0 env DSM_PROCESSORS=host "${by_mpirun[@]}" -n 2 -t 1 --bind "$scratch/bound"
fi

says "status of main()" "" 7 "${run[@]}" -n 2 "$scratch/status" 7

program named <<'END'
#include <stdio.h>
int main(int argc, char **argv) { return printf("I am %s, of %d\n", argv[0], argc) < 0; }
END
says "argv[0] is what was typed" "I am named, of 2" 0 env PATH="$scratch:$PATH" "${run[@]}" -n 2 named 1
says "argv[0] is what was typed, in an environment" "I am named, of 2" 0 env PATH="$scratch:$PATH" "${run[@]}" -n 2 env A=1 named 1

# A scheduler may start ranks on other hosts, which have another PATH, and limits of their own.
mkdir "$scratch/slurm"
printf '#!/bin/sh\n' >"$scratch/slurm/srun" && chmod +x "$scratch/slurm/srun"
explained=("${run[@]}" -n 2 --launcher mpirun --explain)
says "a scheduler: none" "setarch -R named " 0 env PATH="$scratch:$PATH" "${explained[@]}" named
for variable in SLURM_JOB_ID PBS_JOBID LSB_JOBID OMPI_MCA_orte_default_hostfile; do
	says "a scheduler: $variable, path of the program" "setarch -R $scratch/named " 0 env PATH="$scratch:$PATH" $variable=1 "${explained[@]}" named
	says "a scheduler: $variable, limits" "setarch -R $scratch/named " 0 "${limited[@]}" 900000000 env $variable=1 "${explained[@]}" "$scratch/named"
done
says "a scheduler: hosts, limits" "setarch -R $scratch/named " 0 "${limited[@]}" 900000000 "${explained[@]}" --hosts a,b "$scratch/named"
says "a scheduler: its launcher" "srun --mpi=pmix -n 2 " 0 env SLURM_JOB_ID=1 PATH="$scratch/slurm:$PATH" "${run[@]}" -n 2 --explain "$scratch/named"
says "a scheduler: its launcher is not there" "mpirun -q -n 2 " 0 env SLURM_JOB_ID=1 "${run[@]}" -n 2 --explain "$scratch/named"
says "a scheduler: none, its launcher is there" "mpirun -q -n 2 " 0 env PATH="$scratch/slurm:$PATH" "${run[@]}" -n 2 --explain "$scratch/named"

# Where /dev/fd does not exist: a /dev with no more than jobs need. Each test is in a mount
# namespace of its own.
mkdir "$scratch/dev"
cat >"$scratch/small-dev" <<'END'
#!/bin/sh
cd "${0%/*}/dev" && mount --rbind /dev . && mount -t tmpfs tmpfs /dev || exit 99
for name in null zero urandom tty ptmx; do
	true >"/dev/$name" && mount --bind $name "/dev/$name" || exit 99
done
for name in shm pts; do
	mkdir "/dev/$name" && mount --rbind $name "/dev/$name" || exit 99
done
[ ! -e /dev/fd ] || exit 99
cd / && exec "$@"
END
chmod +x "$scratch/small-dev"
small_dev=(unshare -m "$scratch/small-dev")
if "${small_dev[@]}" true 2>/dev/null; then
	for way in one node two; do
		# shellcheck disable=SC2086
		says "no /dev/fd: $way" "" 7 "${small_dev[@]}" "${run[@]}" ${ways[$way]} "$scratch/status" 7
	done
	says "no /dev/fd: another architecture" "another architecture than x86-64${machines[aarch64]}" 2 \
		"${small_dev[@]}" "${run[@]}" -n 2 "$scratch/of-aarch64"
	if is_chosen "no /dev/fd: output to a file"; then
		"${small_dev[@]}" "${run[@]}" -n 2 --preload "$scratch/shares-pie" >"$scratch/out" 2>&1 </dev/null
		same "no /dev/fd: output to a file" "$(<"$scratch/out")" "2000 and a string and a string, 2 process"
	fi
else
	echo "mount namespaces cannot be made: dsmrun without /dev/fd is not tested"
fi

says "settings: DSM_HELP" "DSM_NODE" 0 env DSM_HELP=1 "${run[@]}" -n 2 "$scratch/status" 7

# Programs that start another one.
for wrapper in "env A=1" "nice -n 1" "taskset -c 0" "timeout -k 5 50" "stdbuf -oL" "env A=1 nice timeout 50" "strace -f -o /dev/null -e trace=none" \
	"perf stat -o /dev/null"; do
	if [[ $wrapper == perf* ]] && ! perf stat -o /dev/null true >/dev/null 2>&1; then
		echo "perf is not installed, or may not count: its tests are not run"
		continue
	fi
	# shellcheck disable=SC2086
	says "wrapper: $wrapper" "" 7 "${run[@]}" -n 2 $wrapper "$scratch/status" 7
	# shellcheck disable=SC2086
	says "wrapper: $wrapper, a plain program" "plain: not linked with libdsm" 2 "${run[@]}" -n 2 $wrapper "$scratch/plain"
done
says "wrapper: gdb --args" "exited with code 07" 0 "${run[@]}" -n 1 gdb -q -nx -batch -ex run --args "$scratch/status" 7
says "wrapper: timeout alone" "timeout has no program" 2 "${run[@]}" -n 2 timeout 5
says "wrapper: a shell" "let the script call dsmrun" 2 "${run[@]}" -n 2 bash "$scratch/status" 7
says "wrapper: valgrind" "valgrind has a malloc() of its own" 2 "${run[@]}" -n 2 valgrind "$scratch/status" 7

# Sanitizers of the compiler: those with a malloc() or addresses of their own are refused, by name;
# the other one works. The runtime of gcc is a library, that of clang is in the program.
cat >"$scratch/overflows.c" <<'END'
#include <pthread.h>
static volatile int most = 0x7fffffff, sum;
static void *add(void *arg)
{
	most += arg != 0;
	sum += 3;
	return arg;
}
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, add, &t);
	pthread_join(t, NULL);
	add(NULL);
	return sum;
}
END
# sanitized COMPILER KIND: --preload of a program that COMPILER has built alone, and one by dsm-cc.
sanitized() {
	local way name="sanitizer: $1 -fsanitize=$2" built="$scratch/$1-$2" flags=("-fsanitize=$2" -pthread "$scratch/overflows.c")
	is_chosen "$name" || return 0
	if ! "$1" "${flags[@]}" -o "$built" || ! DSM_CC=$1 "$tools/dsm-cc" "${flags[@]}" -o "$built-dsm"; then
		count_failure "$name: build"
		return
	fi
	if [[ $2 == undefined ]]; then
		for way in node two; do
			# shellcheck disable=SC2086
			says "$name, --preload, $way" "runtime error: signed integer overflow" 6 "${run[@]}" ${ways[$way]} --preload "$built"
			# shellcheck disable=SC2086
			says "$name, dsm-cc, $way" "runtime error: signed integer overflow" 6 "${run[@]}" ${ways[$way]} "$built-dsm"
		done
		return
	fi
	says "$name, --preload" "$1-$2: built with a sanitizer (-fsanitize=$2), wh" 2 "${run[@]}" -n 2 --preload "$built"
	says "$name, dsm-cc" "$1-$2-dsm: built with a sanitizer (-fsanitize=$2), wh" 2 "${run[@]}" -n 2 "$built-dsm"
	if [[ $2 == @(memory|thread) ]]; then
		says "$name, one rank" "leaves no addresses to libdsm" 2 "${run[@]}" -n 1 "$built-dsm"
	else
		says "$name, one rank" "" 6 "${run[@]}" -n 1 "$built-dsm"
	fi
}
for kind in address leak thread undefined; do sanitized gcc $kind; done
if clang -fsanitize=address "$scratch/nothing.c" -o "$scratch/nothing" 2>/dev/null; then
	for kind in address leak memory thread undefined; do sanitized clang $kind; done
else
	echo "clang and its sanitizers are not installed (make setup): they are not tested"
fi

# Streams: what the program finds is what dsmrun was given; all lines arrive, those of a rank in
# order, and what the caller writes to the same file before and afterwards stays.
program streams <<'END'
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *lines(void *arg)
{
	char line[32];
	for (int i = 0; i < 200; i++)
		write(1, line, (size_t)snprintf(line, sizeof(line), "%ld %d\n", (long)arg, i));
	return NULL;
}
int main(void)
{
	pthread_t t[4];
	char word[16];
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, lines, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	while (fgets(word, sizeof(word), stdin))
		printf("read %s", word);
	printf("terminals %d%d%d\n", isatty(0), isatty(1), isatty(2));
	return 0;
}
END
# streamed NAME FILE: 200 lines of each of four threads, in order.
streamed() {
	local thread got=''
	for thread in 0 1 2 3; do
		[[ $(sed -n "s/^$thread //p" "$2") == "$(seq 0 199)" ]] && got+=" $thread"
	done
	same "$1" "$got$(grep -vE '^[0-3] [0-9]+$' "$2" | paste -sd ,)" " 0 1 2 3$3"
}
if is_chosen "streams"; then
	{ echo before; printf 'a\nb\n' | "${run[@]}" -n 2 "$scratch/streams"; echo after; } >"$scratch/out" 2>&1
	streamed "streams: a file and a pipe" "$scratch/out" "before,read a,read b,terminals 000,after"
	printf 'a\nb\nc\n' >"$scratch/in"
	{ read -r first; "${run[@]}" -n 2 "$scratch/streams"; } <"$scratch/in" 2>&1 | cat >"$scratch/out"
	streamed "streams: the rest of a file" "$scratch/out" "read b,read c,terminals 000"
	script -qec "${run[*]} -n 2 $scratch/streams </dev/null" /dev/null </dev/null | tr -d '\r' >"$scratch/out"
	streamed "streams: a terminal" "$scratch/out" "terminals 011"
fi

# No rank outlives dsmrun: killed, it leaves none after five seconds; ended by a signal, it returns
# after the last.
program sleeps <<'END'
#include <pthread.h>
#include <unistd.h>
static void *sleeps(void *arg)
{
	for (;;)
		pause();
	return arg;
}
int main(void)
{
	pthread_t t;
	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, sleeps, NULL);
	write(1, "up\n", 3);
	sleeps(NULL);
}
END
left() { pgrep -fc "^$scratch/sleeps" || true; }
for signal in KILL INT TERM; do
	is_chosen "no rank is left: SIG$signal" || continue
	: >"$scratch/out"
	# By a program that lets SIGINT through: a background job of a shell ignores it.
	python3 -c 'import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
job = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=open(sys.argv[2], "w"), start_new_session=True)
for i in range(300):
    if "up" in open(sys.argv[2]).read(): break
    time.sleep(0.1)
job.send_signal(signal.Signals["SIG" + sys.argv[1]])
job.wait()' "$signal" "$scratch/out" "${run[@]}" -n 4 "$scratch/sleeps"
	for ((i = 0; i < 50; i++)); do
		[[ $signal == KILL && $(left) != 0 ]] || break
		sleep 0.1
	done
	same "no rank is left: SIG$signal" "$(cat "$scratch/out") $(left)" "up 0"
done

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: what is refused, how jobs end, what works on other ranks, statistics, deadlocks, debuggers.

# ---- refused ------------------------------------------------------------------------------------------

# program NAME FLAGS... <SOURCE: by dsm-cc
program() {
	local name=$1
	shift
	cat >"$scratch/$name.c"
	"$tools/dsm-cc" -D_GNU_SOURCE -pthread "$scratch/$name.c" -o "$scratch/$name" "$@" || count_failure "$name: build"
}

printf 'int main(void) { return 0; }\n' >"$scratch/nothing.c"
gcc "$scratch/nothing.c" -o "$scratch/plain"
gcc -static "$scratch/nothing.c" -o "$scratch/static"
says "dsm-cc -static" "shared libraries" 2 "$tools/dsm-cc" -static "$scratch/nothing.c" -o "$scratch/no"
says "dsm-cc --showme:compile" "-fPIC" 0 "$tools/dsm-cc" --showme:compile
says "dsm-cc --showme:link" "-z,now" 0 "$tools/dsm-cc" --showme:link
says "dsm-cc --version" "" 0 "$tools/dsm-cc" --version
says "dsmrun of a plain program" "not linked with libdsm" 2 "${run[@]}" -n 2 "$scratch/plain"
says "dsmrun of a static program" "statically linked" 2 "${run[@]}" -n 2 "$scratch/static"
says "dsmrun of a program with libdsm.a" "2 ranks, sum 3" 0 "${run[@]}" -n 2 "$BUILD/apps/example"
says "dsmrun of nothing" "no such program" 2 "${run[@]}" -n 2 "$scratch/not-there"
says "dsmrun --bad" "what is --bad" 2 "${run[@]}" --bad

program environment -fno-pic <<'END'
#include <unistd.h>
int main(void) { return environ == 0; }
END
says "a copy of environ" "environ" 70 "${run[@]}" -n 2 "$scratch/environment"

# Programs that dsm-cc has not built.
cat >"$scratch/shares.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long count;
static pid_t pid[2];
static void *add(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		count++;
		pthread_mutex_unlock(&lock);
	}
	pid[(long)arg] = getpid();
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
libraries=LD_PRELOAD=$tools/libdsm-pthread.so:$tools/libdsm-syscall.so
for way in node two; do
	for kind in pie lazy; do
		# shellcheck disable=SC2086
		says "--preload: $kind, $way" "2000 and a string and a string, 2 process" 5 "${run[@]}" ${ways[$way]} --preload "$scratch/shares-$kind" 5
	done
done
says "--preload: once" $'string, 2 process\nend' 0 bash -c '"$@"; echo end' - "${run[@]}" -n 2 --preload "$scratch/shares-pie"
says "--preload: one rank" "2000 and a string and a string, 1 process" 5 "${run[@]}" --preload "$scratch/shares-pie" 5
says "--preload: no RELRO" "no RELRO segment" 70 "${run[@]}" -n 2 --preload "$scratch/shares-open"
says "--preload: a copy of environ" "environ" 70 "${run[@]}" -n 2 --preload "$scratch/environment-plain"
says "--preload: static" "statically linked" 2 "${run[@]}" -n 2 --preload "$scratch/shares-static"
says "--preload: setuid" "setuid" 2 "${run[@]}" -n 2 --preload "$scratch/shares-setuid"
says "--preload: a script" "not for scripts" 2 "${run[@]}" -n 2 --preload "$scratch/script" "$scratch/shares-pie"
says "--preload: no library" "/nowhere/libdsm-pthread.so: not there" 2 env DSM_LIBDIR=/nowhere "${run[@]}" -n 2 --preload "$scratch/shares-pie"
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

# Binding. The environment of the tests turns it off.
by_mpirun=("${run[@]}" --launcher mpirun)
free=(env -u OMPI_MCA_hwloc_base_binding_policy)
cores=$(lscpu -p=CORE | grep -v '^#' | sort -u | wc -l)
printf '#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\n' >"$scratch/mask"
chmod +x "$scratch/mask"
says "bind: a core for each rank" "--map-by ppr:$cores:node:PE=1 --bind-to core" 0 "${free[@]}" "${by_mpirun[@]}" -n "$cores" --explain "$scratch/mask"
says "bind: all cores for one rank" "--map-by ppr:1:node:PE=$cores --bind-to core" 0 "${free[@]}" "${by_mpirun[@]}" -n 1 -t "$cores" --explain "$scratch/mask"
says "bind: more ranks than cores" "binding_policy=none" 0 "${free[@]}" "${by_mpirun[@]}" -n $((cores + 1)) --explain "$scratch/mask"
says "bind: more threads than cores" "binding_policy=none" 0 "${free[@]}" "${by_mpirun[@]}" -n "$cores" -t 2 --explain "$scratch/mask"
says "bind: --no-bind" "binding_policy=none" 0 "${free[@]}" "${by_mpirun[@]}" -n "$cores" --no-bind --explain "$scratch/mask"
says "bind: as the environment says" "binding_policy=none" 0 "${by_mpirun[@]}" -n "$cores" --explain "$scratch/mask"
says "bind: --bind, too few cores" "$cores core(s) for $((cores + 1)) rank(s)" 2 "${by_mpirun[@]}" -n $((cores + 1)) --bind "$scratch/mask"
((cores == 1)) || says "bind: dsmrun is bound itself" "binding_policy=none" 0 taskset -c 0 "${free[@]}" "${by_mpirun[@]}" -n 1 --explain "$scratch/mask"
says "bind: threads that dsmrun does not know" "binding_policy=none" 0 "${free[@]}" "${by_mpirun[@]}" -n "$cores" --explain "$scratch/status"
says "bind: srun" "--cpu-bind=cores" 0 "${run[@]}" --launcher srun -n 2 --bind --explain "$scratch/mask"
if is_chosen "bind: masks"; then
	masks=$("${by_mpirun[@]}" -n "$cores" --bind "$scratch/mask" 2>&1 | sort -u)
	same "bind: masks of the ranks" "$(grep -c '^Cpus_allowed_list:' <<<"$masks") distinct" "$cores distinct"
	masks=$("${by_mpirun[@]}" -n "$cores" --no-bind "$scratch/mask" 2>&1 | sort -u)
	same "bind: masks with --no-bind" "$(grep -c '^Cpus_allowed_list:' <<<"$masks") distinct" "1 distinct"
fi

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
	((cores == 1)) || says "bind: threads of two ranks" "0 in common" 0 "${by_mpirun[@]}" -n 2 -t 1 --bind "$scratch/bound"
fi

says "status of main()" "" 7 "${run[@]}" -n 2 "$scratch/status" 7

# Ends as $1 says, by main(), or by a thread of another rank. A second one runs on.
program endings -g <<'END'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static const char *how;
static volatile int *volatile nothing;
static volatile int zero;
static void usual(void) { fprintf(stderr, "handler of exit\n"); }
static void quick(void) { fprintf(stderr, "handler of quick_exit\n"); }
static void last(void) { _Exit(5); }
static void on_abort(int sig)
{
	fprintf(stderr, "handler of %d\n", sig);
	signal(sig, SIG_DFL);
	raise(sig);
}
static void leaves(int sig)
{
	(void)sig;
	_exit(5);
}
static void *runs_on(void *arg)
{
	for (;;)
		pause();
	return arg;
}
static void *ends(void *arg)
{
	struct sigaction before;
	int ended = 0;
	pid_t child;
	if (!strcmp(how, "exit"))
		exit(5);
	if (!strcmp(how, "_exit"))
		_exit(5);
	if (!strcmp(how, "_Exit 0"))
		_Exit(0);
	if (!strcmp(how, "quick_exit"))
		quick_exit(5);
	if (!strcmp(how, "last")) {
		atexit(last);
		exit(4);
	}
	if (!strcmp(how, "SIGSEGV handled")) {
		signal(SIGSEGV, leaves);
		*nothing = 1;
	}
	if (!strcmp(how, "child")) {
		child = vfork();
		if (!child)
			_exit(9);
		fprintf(stderr, "child %d\n", waitpid(child, &ended, 0) == child ? WEXITSTATUS(ended) : -1);
		exit(5);
	}
	if (!strcmp(how, "default")) {
		sigaction(SIGABRT, NULL, &before);
		fprintf(stderr, "default: %d", before.sa_handler == SIG_DFL && !before.sa_flags);
		sigaction(SIGUSR1, NULL, &before);
		fprintf(stderr, " %d", before.sa_handler == SIG_DFL && !before.sa_flags);
		fprintf(stderr, " %d", signal(SIGFPE, SIG_IGN) == SIG_DFL);
		fprintf(stderr, " %d", signal(SIGPIPE, SIG_IGN) == SIG_DFL);
		fprintf(stderr, " %d\n", signal(SIGPIPE, SIG_DFL) == SIG_IGN);
		raise(SIGPIPE);
	}
	if (!strcmp(how, "SIGABRT"))
		abort();
	if (!strcmp(how, "SIGABRT twice")) {
		signal(SIGABRT, on_abort);
		abort();
	}
	if (!strcmp(how, "SIGSEGV"))
		*nothing = 1;
	if (!strcmp(how, "SIGFPE"))
		zero = 7 / zero; /* not 1: that is no division */
	if (!strcmp(how, "SIGILL"))
		__builtin_trap();
	if (!strcmp(how, "SIGUSR1"))
		raise(SIGUSR1);
	if (!strcmp(how, "SIGALRM"))
		alarm(1);
	for (;;)
		pause();
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t t;
	how = argc > 1 ? argv[1] : "";
	nothing = NULL;
	atexit(usual);
	at_quick_exit(quick);
	pthread_create(&t, NULL, argc > 2 ? ends : runs_on, NULL);
	if (argc > 2)
		pthread_join(t, NULL);
	else
		ends(NULL);
	return 0;
}
END
# What each way of ending leaves: its status, and all that it prints, with the thread's number as N.
declare -A endings=(
	[exit]="5 handler of exit"
	[_exit]="5 "
	[_Exit 0]="0 "
	[quick_exit]="5 handler of quick_exit"
	[child]="5 child 9|handler of exit"
	[SIGSEGV handled]="5 "
	[SIGABRT]="134 R thread N is ended by SIGABRT. The job ends with status 134."
	[SIGABRT twice]="134 handler of 6|R thread N is ended by SIGABRT. The job ends with status 134."
	[SIGSEGV]="139 R thread N is ended by SIGSEGV at address (nil). The job ends with status 139."
	[SIGFPE]="136 R thread N is ended by SIGFPE. The job ends with status 136."
	[SIGILL]="132 R thread N is ended by SIGILL. The job ends with status 132."
	[SIGUSR1]="138 R thread N is ended by SIGUSR1. The job ends with status 138."
	[SIGALRM]="142 R thread N is ended by SIGALRM. The job ends with status 142."
	[default]="141 default: 1 1 1 1 1|R thread N is ended by SIGPIPE. The job ends with status 141."
)
for how in "${!endings[@]}"; do
	for way in node two; do
		for rank in 0 1; do
			is_chosen "ends by $how" || continue
			status=0
			# shellcheck disable=SC2086
			timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/endings" "$how" ${rank/0/} >"$scratch/log" 2>&1 </dev/null || status=$?
			# What mpirun says of a rank that has ended is not ours. Lines of different ranks come in any order.
			got=$(grep -E '^(libdsm|handler|child|default)' "$scratch/log" | sed "s/^libdsm: rank $rank: thread [0-9]*/R thread N/" |
				LC_ALL=C sort -f | paste -sd '|')
			same "ends by $how, rank $rank, $way" "$status $got" "${endings[$how]}"
		done
	done
done
for n in 1 2; do
	says "ends by a handler of exit, $n" "" 5 "${run[@]}" -n $n "$scratch/endings" last
done
says "ends by SIGSEGV, one rank" "" 139 "${run[@]}" -n 1 "$scratch/endings" SIGSEGV
# The core file has the thread that has failed, where it has failed.
if is_chosen "ends with a core file" && [[ $(</proc/sys/kernel/core_pattern) != [\|/]* ]]; then
	for rank in 0 1; do
		mkdir -p "$scratch/core.$rank"
		got=$(
			cd "$scratch/core.$rank" && ulimit -c unlimited
			timeout -k 5 60 "${run[@]}" -n 3 --nodes 2 "$scratch/endings" SIGSEGV ${rank/0/} >log 2>&1 </dev/null
			echo "status $?, $(printf '%s\n' core* | grep -vcF 'core*') file"
		)
		same "ends with a core file, rank $rank" "$got" "status 139, 1 file"
		! command -v gdb >/dev/null ||
			same "ends with a core file, rank $rank, read" \
				"$(gdb -batch -nx -ex 'p $_siginfo._sifields._sigfault.si_addr' -ex 'p how' -ex 'info symbol $pc' \
					"$scratch/endings" "$scratch/core.$rank"/core* 2>&1 |
					sed -n 's/^\$1 = .* \(0x[0-9a-f]*\)$/\1/p; s/^\$2 = .* //p; s/^ends .*/ends/p' | paste -sd ' ')" \
				'0x0 "SIGSEGV" ends'
	done
fi

# ---- signals that dsmrun gets --------------------------------------------------------------------------

# main() waits for each of the signals that it is given, in turn, or for ever; a thread of another rank runs.
program signalled <<'END'
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static sem_t runs;
static int caught[NSIG];
static void handler(int sig) { caught[sig]++; }
static void *other(void *arg)
{
	sem_post(&runs);
	for (;;)
		pause();
	return arg;
}
int main(int argc, char **argv)
{
	sigset_t all, none;
	pthread_t t;
	sem_init(&runs, 0, 0);
	pthread_create(&t, NULL, other, NULL);
	sem_wait(&runs);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &none);
	for (int i = 1; i < argc; i++)
		signal(atoi(argv[i]), handler);
	fprintf(stderr, "ready\n");
	for (int i = 1; i < argc; i++) {
		while (!caught[atoi(argv[i])])
			sigsuspend(&none);
		fprintf(stderr, "handled %d%s\n", i, caught[atoi(argv[i])] > 1 ? " twice" : "");
	}
	if (argc > 1)
		return 5;
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (;;)
		pause();
}
END

# The next signal goes to it when the program is ready, or has handled the one before.
cat >"$scratch/signals.py" <<'END'
import os, signal, subprocess, sys, time

def wait_for(text):
    until = time.monotonic() + 30
    while time.monotonic() < until and job.poll() is None and text not in open(sys.argv[1]).read():
        time.sleep(0.02)

with open(sys.argv[1], "w") as log:
    job = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
for n, name in enumerate(sys.argv[2].split()):
    wait_for(f"handled {n}\n" if n else "ready\n")
    job.send_signal(signal.Signals["SIG" + name])
try:
    print(job.wait(30))
except subprocess.TimeoutExpired:
    print("still runs")
    os.killpg(job.pid, signal.SIGKILL)
END

# signalled NAME WAY EXPECTED SIGNALS [NUMBER]...: how dsmrun ends by them, as its parent sees it, and what the job prints.
signalled() {
	local name="$1, $2" way=$2 want=$3 signals=$4 got before=()
	shift 4
	is_chosen "$name" || return 0
	[[ $way != hosts ]] || before=("${on_hosts[@]}")
	# shellcheck disable=SC2086
	got=$(python3 "$scratch/signals.py" "$scratch/log" "$signals" "${before[@]}" "${run[@]}" ${ways[$way]} "$scratch/signalled" "$@" 2>&1)
	# A rank may see that mpirun has ended another one before it is ended itself, and say so.
	got+=" $(grep -E '^handled|^libdsm.*thread' "$scratch/log" |
		sed 's/thread [0-9]*/thread N/; s/from process [0-9]*/from process N/' | paste -sd '|')"
	same "$name" "$got" "$want"
}
for sig in HUP INT QUIT TERM; do
	signalled "signals: SIG$sig" one "-$(kill -l $sig) " $sig
	ended="-$(kill -l $sig) "
	signalled "signals: SIG$sig" node "${ended/-3/131}" $sig # bash, which dsmrun runs in, ignores SIGQUIT
done
signalled "signals: SIGTERM" two "-15 " TERM
signalled "signals: SIGINT is handled" one "5 handled 1" INT 2
signalled "signals: mpirun ends the ranks for SIGINT" node "-2 " INT 2
for way in one node two; do
	signalled "signals: two that are handled" $way "5 handled 1|handled 2" "USR1 USR2" 10 12
	signalled "signals: SIGUSR1, then SIGTERM" $way "-15 handled 1" "USR1 TERM" 10 12
done
for way in node two; do
	signalled "signals: SIGUSR1, no handler" $way \
		"138 libdsm: rank 0: thread N is ended by SIGUSR1 from process N. The job ends with status 138." USR1
done

# ---- two hosts -----------------------------------------------------------------------------------------

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
	says "hosts: threads go to both" "host1 host2 host2, 2 nodes" 5 "${on_hosts[@]}" "${run[@]}" "${hosts[@]}" "$scratch/hostnames"
	says "hosts: settings go to both" "host1 host2 host2, 4 nodes" 5 "${on_hosts[@]}" "${run[@]}" "${hosts[@]}" --nodes rank \
		"$scratch/hostnames"
	two_hosts=("${on_hosts[@]}" "${run[@]}" -n 2 --hosts host1,host2)
	says "hosts: exit() on the other one" "handler of exit" 5 "${two_hosts[@]}" "$scratch/endings" exit 1
	says "hosts: SIGSEGV on the other one" "is ended by SIGSEGV at address (nil). The job ends with status 139." 139 \
		"${two_hosts[@]}" "$scratch/endings" SIGSEGV 1
	signalled "signals: SIGTERM" hosts "-15 " TERM
	signalled "signals: two that are handled" hosts "5 handled 1|handled 2" "USR1 USR2" 10 12
	hosts_down
fi

# main() ends as $1 says while other threads run.
program outlived <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
enum { THREADS = 4 };
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_t first, cycle[2];
static pthread_barrier_t both;
static int times, joined;
static long switches;
static const char *result_of_main = "not joined";
static void *join_main(void *arg)
{
	void *result = NULL;
	int err = pthread_join(first, &result);
	joined = err ? err : 1;
	result_of_main = result == PTHREAD_CANCELED ? "cancelled" : result == &times ? "its value" : "no value";
	return arg;
}
static void *cross(void *arg)
{
	pthread_mutex_lock(arg);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(arg == &a ? &b : &a);
	return arg;
}
static void *late(void *arg)
{
	usleep(300000);
	joined = 2;
	return arg;
}
static void *joins_other(void *arg)
{
	pthread_barrier_wait(&both);
	pthread_join(cycle[arg == NULL], NULL);
	return arg;
}
static void slowly(void)
{
	times++;
	sleep(1);
}
static void *wait_once(void *arg)
{
	struct rusage before, after;
	getrusage(RUSAGE_THREAD, &before);
	pthread_once(&once, slowly);
	getrusage(RUSAGE_THREAD, &after);
	__atomic_fetch_add(&switches, after.ru_nvcsw - before.ru_nvcsw, __ATOMIC_SEQ_CST);
	return arg;
}
static void last(void) { printf("main: %d, %s\n", joined, result_of_main); } /* by rank 0, as all output */
int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	const char *how = argc > 1 ? argv[1] : "";
	first = pthread_self();
	pthread_barrier_init(&both, NULL, strcmp(how, "joins") ? 2 : 3);
	if (!strcmp(how, "once")) {
		for (int i = 0; i < THREADS; i++)
			pthread_create(&t[i], NULL, wait_once, NULL);
		for (int i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
		printf("%d time, %s\n", times, switches < 1000 ? "asleep" : "polling");
		return 0;
	}
	atexit(last);
	if (!strcmp(how, "locks")) {
		pthread_create(&t[0], NULL, cross, &a);
		pthread_create(&t[1], NULL, cross, &b);
	} else if (!strcmp(how, "joins")) {
		pthread_create(&cycle[0], NULL, joins_other, NULL);
		pthread_create(&cycle[1], NULL, joins_other, &a);
		pthread_barrier_wait(&both); /* both handles are stored */
	} else if (!strcmp(how, "detached")) {
		pthread_detach(first);
		pthread_create(&t[0], NULL, late, NULL);
	} else {
		pthread_create(&t[0], NULL, join_main, NULL);
	}
	if (!strcmp(how, "cancel")) {
		pthread_cancel(first);
		pthread_testcancel();
	}
	pthread_exit(&times);
}
END
for way in one node two mixed; do
	# shellcheck disable=SC2206
	ranks=(${ways[$way]})
	says "main() is joined, $way" "main: 1, its value" 0 "${run[@]}" "${ranks[@]}" "$scratch/outlived"
	says "main() is joined, cancelled, $way" "main: 1, cancelled" 0 "${run[@]}" "${ranks[@]}" "$scratch/outlived" cancel
	says "main() ends, detached, $way" "main: 2, not joined" 0 "${run[@]}" "${ranks[@]}" "$scratch/outlived" detached
	says "once: waits without polling, $way" "1 time, asleep" 0 "${run[@]}" "${ranks[@]}" "$scratch/outlived" once
done
for way in node two; do
	# shellcheck disable=SC2206
	ranks=(${ways[$way]})
	says "main() ends, deadlock by locks, $way" "(2 threads; DSM_DEADLOCK=abort)" 71 \
		env DSM_STALL_MS=300 DSM_DEADLOCK=abort "${run[@]}" "${ranks[@]}" "$scratch/outlived" locks
	says "main() ends, deadlock by joins, $way" "(2 threads; DSM_DEADLOCK=abort)" 71 \
		env DSM_STALL_MS=300 DSM_DEADLOCK=abort "${run[@]}" "${ranks[@]}" "$scratch/outlived" joins
done

program wishes <<'END'
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock;
static void *wait_for_it(void *arg) { pause(); return arg; }
int main(void)
{
	pthread_mutexattr_t attr;
	pthread_t t;
	int robust, killed, forked;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	robust = pthread_mutex_init(&lock, &attr);
	pthread_create(&t, NULL, wait_for_it, NULL);
	killed = pthread_kill(t, 0);
	forked = fork();
	printf("%d %d %d\n", robust == ENOTSUP, killed == ENOSYS, forked);
	return 0; /* with a thread that never ends */
}
END
says "robust, kill, fork" "1 1 -1" 0 "${run[@]}" -n 2 "$scratch/wishes"
says "robust, kill, fork: named" "pthread_kill() does not work" 0 "${run[@]}" -n 2 --nodes rank "$scratch/wishes"

# What the kernel does to a thread works for those of the caller's rank: of two ranks, the first thread is another's, the second is not.
program strangers <<'END'
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static void *wait_for_it(void *arg) { pause(); return arg; }
static pthread_t other, near;
static void both(const char *name, int there, int want, int here)
{
	if (there != want || here)
		printf("%s: %d, %d\n", name, there, here);
}
int main(void)
{
	const union sigval value = { 0 };
	struct sched_param param;
	struct timespec used;
	clockid_t clock;
	cpu_set_t set;
	int policy, there;
	pthread_create(&other, NULL, wait_for_it, NULL);
	pthread_create(&near, NULL, wait_for_it, NULL);
	there = pthread_getschedparam(other, &policy, &param);
	both("getschedparam", there, ENOSYS, pthread_getschedparam(near, &policy, &param) || policy != SCHED_OTHER);
	there = pthread_setschedparam(other, policy, &param);
	both("setschedparam", there, ENOTSUP, pthread_setschedparam(near, policy, &param));
	both("setschedprio", pthread_setschedprio(other, 0), ENOTSUP, pthread_setschedprio(near, 0));
	there = pthread_getcpuclockid(other, &clock);
	both("getcpuclockid", there, ENOENT, pthread_getcpuclockid(near, &clock) || clock_gettime(clock, &used));
	there = pthread_getaffinity_np(other, sizeof(set), &set);
	both("getaffinity_np", there, ENOSYS, pthread_getaffinity_np(near, sizeof(set), &set) || !CPU_COUNT(&set));
	there = pthread_setaffinity_np(other, sizeof(set), &set);
	both("setaffinity_np", there, ENOSYS, pthread_setaffinity_np(near, sizeof(set), &set));
	both("kill", pthread_kill(other, 0), ENOSYS, pthread_kill(near, 0));
	both("sigqueue", pthread_sigqueue(other, 0, value), ENOSYS, pthread_sigqueue(near, 0, value));
	pthread_cancel(near);
	pthread_join(near, NULL);
	puts("asked");
	return 0;
}
END
if is_chosen strangers; then
	for way in node two; do
		# shellcheck disable=SC2086
		got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]/4/2} "$scratch/strangers" 2>&1 </dev/null | sort | sed 's/.*: pthread_\(.*\)() does not work across ranks$/\1/')
		same "strangers: refused and named, $way" "$got" "$(printf '%s\n' asked getaffinity_np getcpuclockid getschedparam kill setaffinity_np setschedparam setschedprio sigqueue)"
	done
fi
# Futexes that libdsm does not have. On one node, the kernel has those with priority inheritance.
program inherits <<'END'
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static uint32_t word, other;
static void *lock_it(void *arg)
{
	if (syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, NULL) || syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE))
		return (void *)strerrorname_np(errno);
	return arg;
}
int main(void)
{
	struct futex_waitv v = { .val = 1, .uaddr = (uintptr_t)&word, .flags = FUTEX_32 };
	void *here = lock_it("0"), *there;
	pthread_t t;
	long woken;
	pthread_create(&t, NULL, lock_it, "0");
	pthread_join(t, &there);
	woken = syscall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 1, 1, &other, FUTEX_OP(FUTEX_OP_SET, 1, FUTEX_OP_CMP_EQ, 0));
	printf("%s %s %ld ", (char *)here, (char *)there, woken);
	printf("%s\n", syscall(SYS_futex_waitv, &v, 1, 0, NULL, 0) < 0 ? strerrorname_np(errno) : "0");
	return 0;
}
END
says "futexes refused, one" "0 0 0 EAGAIN" 0 "${run[@]}" -n 1 "$scratch/inherits"
says "futexes refused, node" "0 0 0 ENOSYS" 0 "${run[@]}" -n 2 "$scratch/inherits"
says "futexes refused, two" "ENOSYS ENOSYS -1 ENOSYS" 0 "${run[@]}" -n 2 --nodes rank "$scratch/inherits"
says "futexes refused: named" "a futex with priority inheritance between nodes does not work" 0 "${run[@]}" -n 2 --nodes rank "$scratch/inherits"

# Stacks: the page below is nobody's, on whatever rank the thread runs. How the process's end is reported depends on who sees it first.
program overflow -O0 <<'END'
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
enum { SIZE = 1 << 20 };
static int deep(int n)
{
	volatile char some[500];
	some[0] = n;
	return n ? deep(n + 1) + some[0] : 0;
}
static void *overflow(void *arg) { pthread_setname_np(pthread_self(), "deep"); return deep(1) ? arg : NULL; }
static void *ends(void *arg) { return arg; }
int main(int argc, char **argv)
{
	const int at = argc > 1 ? atoi(argv[1]) : 0;
	pthread_attr_t attr;
	sigset_t set;
	pthread_t t;
	if (at < 0) {
		void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		int err;
		pthread_attr_init(&attr);
		pthread_attr_setstack(&attr, p, SIZE);
		err = pthread_create(&t, &attr, ends, NULL);
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		sigemptyset(&set);
		printf("%d %d\n", err == EINVAL, pthread_attr_setsigmask_np(&attr, &set) == ENOTSUP);
		return 0;
	}
	if (!at)
		overflow(NULL);
	for (int i = 1; i <= at; i++) {
		pthread_create(&t, NULL, i == at ? overflow : ends, NULL);
		pthread_join(t, NULL);
	}
	puts("no overflow");
	return 0;
}
END
for way in node two mixed mprotect; do
	settings=(DSM_STALL_MS=0)
	[[ $way != mprotect ]] || settings+=(DSM_FAULT=mprotect)
	for thread in 0 1 2; do # main(), another rank's first, and one where another's stack was before
		is_chosen "overflow: thread $thread, $way" || continue
		# shellcheck disable=SC2086
		got=$(env "${settings[@]}" timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/overflow" $thread 2>&1 </dev/null)
		status=$?
		read -r _ ranks _ <<<"${ways[$way]}"
		same "overflow: thread $thread, $way" \
			"$((status == 139 || status == 70)) $(grep -o "rank $((thread % ranks)): stack overflow: thread 0x[0-9a-f]* (deep" <<<"$got" | sed 's/0x[0-9a-f]*/0x/')" \
			"1 rank $((thread % ranks)): stack overflow: thread 0x (deep"
	done
done
says "stacks refused" "1 1" 0 "${run[@]}" -n 2 "$scratch/overflow" -1
says "stacks refused: named" "a thread on a stack of private memory (pthread_attr_setstack()) does not work" 0 "${run[@]}" -n 2 "$scratch/overflow" -1

# A thread for which the process has no mapping left has no guard. The stack of one that has just ended is used again soon.
program unguarded <<'END'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
enum { PAGE = 4096, MAPPINGS = 1 << 20 };
static void *ends(void *arg) { return arg; }
static void threads(void)
{
	pthread_t t;
	int err;
	for (int i = 0; i < 4; i++) {
		while ((err = pthread_create(&t, NULL, ends, NULL)) == EAGAIN)
			usleep(1000);
		if (err || pthread_join(t, NULL))
			exit(1);
	}
}
int main(void)
{
	char *p = mmap(NULL, 2ul * MAPPINGS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int n = 0;
	threads();
	while (n < MAPPINGS && !mprotect(p + (2ul * n + 1) * PAGE, PAGE, PROT_READ))
		n++;
	threads();
	munmap(p, 2ul * MAPPINGS * PAGE);
	threads();
	puts(n < MAPPINGS ? "went on" : "no limit of mappings");
	return 0;
}
END
for way in node two; do
	is_chosen "unguarded: $way" || continue
	# shellcheck disable=SC2086
	got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/unguarded" 2>&1 </dev/null) || got+=" (status $?)"
	same "unguarded: $way" "$(sed 's/ of a thread:.*//' <<<"$got" | sort | tr '\n' ',')" \
		"libdsm: rank 0: no guard page below the stack,went on,"
done

program mappings <<'END'
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
static int is(void *p, int err) { return p == MAP_FAILED && errno == err; }
int main(int argc, char **argv)
{
	const int shared = MAP_SHARED | MAP_ANONYMOUS, rw = PROT_READ | PROT_WRITE;
	char *p = mmap(NULL, 3 * 4096, rw, shared, -1, 0), *q = mmap(NULL, 1 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)argv;
	if (argc > 1) /* by itself */
		return p == MAP_FAILED || mprotect(p, 4096, PROT_READ) || munmap(p + 4096, 4096);
	printf("%d %d %d", is(mmap(p, 4096, rw, shared | MAP_FIXED, -1, 0), ENOTSUP), is(mmap(NULL, 4096, PROT_NONE, shared, -1, 0), ENOTSUP),
	       is(mmap(NULL, 0, rw, shared, -1, 0), EINVAL));
	printf(" %d %d %d", munmap(p + 4096, 4096) && errno == EINVAL, mprotect(p, 4096, PROT_READ) && errno == ENOSYS,
	       is(mremap(p, 3 * 4096, 8 * 4096, MREMAP_MAYMOVE), ENOSYS));
	printf(" %d %d %d %d\n", q != MAP_FAILED && !mprotect(q, 4096, rw) && !munmap(q, 1 << 30), mprotect(p, 4096, rw),
	       munmap(p, 3 * 4096 - 10), is(mmap(NULL, 1ul << 46, rw, shared, -1, 0), ENOMEM));
	return 0;
}
END
for way in node two; do
	# shellcheck disable=SC2086
	says "mappings refused, $way" "1 1 1 1 1 1 1 0 0 1" 0 "${run[@]}" ${ways[$way]} "$scratch/mappings"
done
says "mappings refused: named" "at a fixed address does not work" 0 "${run[@]}" -n 2 "$scratch/mappings"
says "mappings, DSM_MMAP=0" "" 0 env DSM_MMAP=0 "${run[@]}" -n 2 "$scratch/mappings" private

# Requests of a ring are the kernel's affair: the library says what to do, once. The parameters are in shared memory.
program rings <<'END'
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static __attribute__((aligned(4096))) struct io_uring_params p[2];
static int made;
static void *touch(void *arg) { __atomic_fetch_or(&p[0].flags, 0, __ATOMIC_SEQ_CST); return arg; }
static int make(struct io_uring_params *at) { return syscall(SYS_io_uring_setup, 4, at) >= 0 && at->sq_entries == 4; }
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, touch, NULL);
	pthread_join(t, NULL);
	made = make(&p[0]);
	made += make(&p[1]);
	printf("%d rings\n", made);
	return 0;
}
END
if is_chosen "rings: named"; then
	want="$("$scratch/rings") 0" # by itself; a machine may have none
	for way in one node two mixed; do
		# shellcheck disable=SC2086
		got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/rings" 2>&1 </dev/null)
		[[ $way == one || $way == node || $want == 0* ]] || want=${want/% 0/ 1}
		same "rings: named, $way" "$(grep rings$ <<<"$got") $(grep -c 'io_uring_setup: pin buffers in shared memory .*dsm_pin(3)' <<<"$got")" "$want"
	done
fi

# A library of the program's: its variables and threads are the rank's, and its constructors have run on each. One line says so of
# the threads.
cat >"$scratch/own.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
static int *counted, constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }
static void *count(void *arg) { ++*counted; return arg; }
int run_thread(void);
int run_thread(void)
{
	pthread_t t;
	if (!constructed)
		return -1;
	if (!counted)
		counted = calloc(1, sizeof(*counted));
	if (pthread_create(&t, NULL, count, NULL) || pthread_join(t, NULL))
		return -1;
	return *counted;
}
END
gcc -shared -fPIC -pthread "$scratch/own.c" -o "$scratch/libown.so"
program library -L"$scratch" -lown "-Wl,-rpath,$scratch" <<'END'
#include <pthread.h>
#include <stdio.h>
int run_thread(void);
static int there[2];
static void *look(void *arg) { *(int *)arg = run_thread(); return arg; }
int main(void)
{
	pthread_t t[2];
	int i, here = run_thread() + run_thread();
	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, look, &there[i]);
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("here %d, there %d\n", here, there[0] > 0 && there[1] > 0);
	return 0;
}
END
for way in one node two; do
	# shellcheck disable=SC2086
	says "a library's threads, $way" "here 3, there 1" 0 "${run[@]}" ${ways[$way]} "$scratch/library"
done
if is_chosen "a library's threads: named"; then
	got=$(timeout -k 5 60 "${run[@]}" -n 2 "$scratch/library" 2>&1 | grep -c 'rank 0: threads that libown.so creates stay on this rank')
	same "a library's threads: named" "$got" 1
fi

program timed <<'END'
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t sem, held, go;
static int readers;
static struct timespec after(clockid_t clock, long ms)
{
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}
static int value(void)
{
	int v = -1;
	return sem_getvalue(&sem, &v) ? -errno : v;
}
static void *post(void *arg)
{
	sem_post(&sem);
	printf("%d\n", value());
	return arg;
}
static void semaphores(void)
{
	struct timespec t = after(CLOCK_MONOTONIC, 50);
	pthread_t one;
	int err, i;
	sem_init(&sem, 0, 3);
	printf("values %d ", value());
	fflush(stdout);
	pthread_create(&one, NULL, post, NULL);
	pthread_join(one, NULL);
	for (i = 0; i < 4; i++)
		sem_wait(&sem);
	err = sem_clockwait(&sem, CLOCK_MONOTONIC, &t) ? errno : 0;
	printf("%d, %s\n", value(), err == ETIMEDOUT ? "timed out" : "no");
}
static void *hold(void *arg)
{
	pthread_rwlock_rdlock(&lock);
	sem_post(&held);
	while (sem_wait(&go))
		;
	pthread_rwlock_unlock(&lock);
	return arg;
}
/* It comes while a writer waits, and is to be let in when that one gives up. */
static void *read_it(void *arg)
{
	pthread_rwlock_rdlock(&lock);
	pthread_mutex_lock(&count_lock);
	readers++;
	pthread_mutex_unlock(&count_lock);
	pthread_rwlock_unlock(&lock);
	return arg;
}
static void locks(void)
{
	struct timespec t = after(CLOCK_REALTIME, 300);
	pthread_t one, two;
	int late, bad, shared, free_one;
	pthread_create(&one, NULL, hold, NULL);
	while (sem_wait(&held))
		;
	pthread_create(&two, NULL, read_it, NULL);
	late = pthread_rwlock_timedwrlock(&lock, &t);
	pthread_join(two, NULL);
	t = after(CLOCK_MONOTONIC, 100);
	shared = pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &t);
	if (!shared)
		pthread_rwlock_unlock(&lock);
	t.tv_nsec = 1000000000;
	bad = pthread_rwlock_timedrdlock(&lock, &t);
	sem_post(&go);
	pthread_join(one, NULL);
	t = after(CLOCK_REALTIME, 10000);
	free_one = pthread_rwlock_timedwrlock(&lock, &t);
	printf("locks %d %d %d %d %d\n", late == ETIMEDOUT, shared, bad == EINVAL, free_one, readers);
}
int main(int argc, char **argv)
{
	(void)argv;
	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	if (argc == 1)
		semaphores();
	else
		locks();
	return 0;
}
END
for way in one node two; do
	# shellcheck disable=SC2086
	says "semaphores: values, $way" $'values 3 4\n0, timed out' 0 "${run[@]}" ${ways[$way]} "$scratch/timed"
done
for way in one node two; do
	# shellcheck disable=SC2086
	says "locks with a limit of time, $way" "locks 1 0 1 0 1" 0 "${run[@]}" ${ways[$way]} "$scratch/timed" locks
done

# Threads of all ranks wait for a mutex with a limit of time: how much of a processor they use meanwhile, and how soon a hand-over
# arrives, the quickest of some.
program patient <<'END'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
enum { THREADS = 50, TURNS = 20, SECONDS = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static volatile long left[TURNS], came[TURNS], used;
static int late;
static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static int lock_for(long seconds)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += seconds;
	return pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &t);
}
static long processor_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static void *waits(void *arg)
{
	long before = processor_ms();
	int err = lock_for(SECONDS);
	__atomic_fetch_add(&used, processor_ms() - before, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&late, err == ETIMEDOUT, __ATOMIC_SEQ_CST);
	return arg;
}
static void *takes(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		pthread_barrier_wait(&all);
		if (lock_for(60))
			break;
		came[i] = now();
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&all);
	}
	return arg;
}
static void processor(void)
{
	pthread_t t[THREADS];
	pthread_mutex_lock(&lock);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, waits, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	pthread_mutex_unlock(&lock);
	if (late == THREADS && used < 100 * SECONDS)
		printf("%d waited\n", late);
	else
		printf("%d gave up, %ld ms of the processor\n", late, used);
}
static void hand_over(void)
{
	long best = 1000000000;
	pthread_t one;
	pthread_barrier_init(&all, NULL, 2);
	pthread_create(&one, NULL, takes, NULL);
	for (int i = 0; i < TURNS; i++) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&all);
		usleep(20000);
		left[i] = now();
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&all);
		if (came[i] - left[i] < best)
			best = came[i] - left[i];
	}
	pthread_join(one, NULL);
	if (best < 2000)
		printf("handed over at once\n");
	else
		printf("handed over after %ld us\n", best);
}
int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "processor"))
		processor();
	else
		hand_over();
	return 0;
}
END
for way in node two mixed mprotect; do
	settings=()
	[[ $way != mprotect ]] || settings=(DSM_FAULT=mprotect)
	# shellcheck disable=SC2086
	says "waits with a limit: processor, $way" "50 waited" 0 env "${settings[@]}" "${run[@]}" ${ways[$way]} "$scratch/patient" processor
	# shellcheck disable=SC2086
	says "waits with a limit: hand-over, $way" "handed over at once" 0 env "${settings[@]}" "${run[@]}" ${ways[$way]} "$scratch/patient" hand-over
done

program relay <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { THREADS = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int turn, turns;
static void *runner(void *arg)
{
	const int me = (int)(long)arg;
	pthread_mutex_lock(&lock);
	while (turn < turns) {
		if (turn % THREADS == me) {
			turn++;
			pthread_cond_broadcast(&moved);
		} else {
			pthread_cond_wait(&moved, &lock);
		}
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	turns = argc > 1 ? atoi(argv[1]) : 0;
	alarm(60); /* a wake-up that is lost is not repeated */
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, runner, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	printf("%d turns\n", turn);
	return 0;
}
END
says "turns by a condition" "9000 turns" 0 "${run[@]}" -n 3 "$scratch/relay" 9000
says "turns by a condition, three nodes" "300 turns" 0 "${run[@]}" -n 3 --nodes rank "$scratch/relay" 300

# Rank 0 writes memory whose home is where thread 1 runs: it has to ask there.
program homes <<'END'
#include <dsm.h>
#include <dsm_anl.h>
#include <stdio.h>
#include <string.h>
static void count(void *arg)
{
	struct dsm_stats s;
	*(unsigned long *)arg = dsm_stats_get(0, NULL, &s) ? 0 : s.messages_out;
}
static unsigned long cost(long home)
{
	char *p = dsm_anl_malloc(64 * 4096, home);
	unsigned long before, after;
	dsm_call(count, &before);
	memset(p, 1, 64 * 4096);
	dsm_call(count, &after);
	return after - before;
}
int main(void)
{
	unsigned long here = cost(2), there = cost(1);
	printf("home here: %d, there: %d\n", here < 32, there > 64);
	return 0;
}
END
# ---- statistics ---------------------------------------------------------------------------------------

# Two threads write words of their own in one block, which a wrapper has allocated.
program slots -g <<'END'
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static volatile long *slots;
static __attribute__((noinline)) void *wrapper(size_t n)
{
	void *p = malloc(n);
	__asm__ volatile("" : "+r"(p));
	return p;
}
static void *count(void *arg)
{
	volatile long *own = slots + 8 * (long)arg;
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		(*own)++;
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < 500);
	return arg;
}
int main(void)
{
	pthread_t t;
	slots = wrapper(3000); /* line 28 */
	pthread_create(&t, NULL, count, (void *)1);
	count(NULL);
	pthread_join(t, NULL);
	return 0;
}
END
if is_chosen statistics; then
	export DSM_STATS=table
	skipped=$(DSM_STATS_SKIP=other,wrap* timeout -k 5 60 "${run[@]}" -n 2 --nodes rank "$scratch/slots" 2>&1)
	named=$(timeout -k 5 60 "${run[@]}" -n 2 --nodes rank "$scratch/slots" 2>&1)
	unset DSM_STATS
	got=$(sed -n 's/.* \([0-9]*\) % repeated: (heap) at .*allocated at \(slots.c:[0-9]*\)$/\1 \2/p' <<<"$skipped" | head -n 1)
	read -r share place <<<"$got"
	same "statistics: repeated faults, of a wrapper's caller" "$((${share:-0} > 80)) $place" "1 slots.c:28"
	((${share:-0} > 80)) || sed 's/^/    /' <<<"$skipped"
	same "statistics: of a wrapper" "$(grep -c 'repeated: .*allocated at slots.c:9$' <<<"$named")" 1
fi

# ---- deadlocks ----------------------------------------------------------------------------------------

# Ends by DSM_DEADLOCK=abort, or not at all; "ends": waits that end, though all threads wait in each; "handler": by a signal.
program stuck <<'END'
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t three;
static sem_t sem, go;
static const char *what;
static volatile int word;
static void *other(void *arg)
{
	if (!strcmp(what, "locks")) {
		pthread_mutex_lock(&b);
		sem_post(&sem);
		pthread_mutex_lock(&a);
	} else if (!strcmp(what, "condition")) {
		pthread_mutex_lock(&a);
		while (what)
			pthread_cond_wait(&never, &a);
	} else if (!strcmp(what, "barrier")) {
		pthread_barrier_wait(&three);
	} else if (!strcmp(what, "join")) {
		sem_wait(&go);
	} else if (!strcmp(what, "futex")) {
		while (!word)
			syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL);
	}
	return arg;
}
static void *waits(void *arg)
{
	sem_wait(&go);
	return arg;
}
static void later(struct timespec *t)
{
	clock_gettime(CLOCK_REALTIME, t);
	t->tv_sec++;
}
static void ends(void)
{
	struct timespec t;
	pthread_t one;
	char c = 0;
	FILE *f;
	sem_init(&go, 0, 0);
	pthread_create(&one, NULL, waits, NULL);
	later(&t);
	pthread_mutex_lock(&a);
	while (pthread_cond_timedwait(&never, &a, &t) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&a);
	later(&t);
	if (sem_timedwait(&sem, &t) == 0)
		puts("a semaphore");
	sleep(1);
	f = popen("sleep 1; echo x", "r");
	if (!f || read(fileno(f), &c, 1) != 1)
		puts("no pipe");
	pclose(f);
	sem_post(&go);
	pthread_join(one, NULL);
}
static void handler(int sig)
{
	(void)sig;
	sem_post(&sem);
}
int main(int argc, char **argv)
{
	pthread_t one;
	what = argc > 1 ? argv[1] : "";
	sem_init(&sem, 0, 0);
	pthread_barrier_init(&three, NULL, 3);
	if (!strcmp(what, "ends")) {
		ends();
	} else if (!strcmp(what, "handler")) {
		const struct itimerval t = { .it_value = { .tv_sec = 1, .tv_usec = 500000 } };
		signal(SIGALRM, handler);
		setitimer(ITIMER_REAL, &t, NULL);
		while (sem_wait(&sem))
			;
	} else {
		if (!strcmp(what, "locks"))
			pthread_mutex_lock(&a);
		pthread_create(&one, NULL, other, NULL);
		if (!strcmp(what, "locks")) {
			while (sem_wait(&sem))
				;
			pthread_mutex_lock(&b);
		} else if (!strcmp(what, "barrier")) {
			pthread_barrier_wait(&three);
		}
		pthread_join(one, NULL);
	}
	puts("done");
	return 0;
}
END
export DSM_STALL_MS=300 DSM_DEADLOCK=abort
for way in node two; do
	# shellcheck disable=SC2206
	ranks=(${ways[$way]})
	address=$(nm "$scratch/stuck" | sed -n 's/^0*\([0-9a-f]*\) b a$/\1/p')
	says "deadlock: locks, $way" "waits for mutex 0x$address, held by " 71 "${run[@]}" "${ranks[@]}" "$scratch/stuck" locks
	says "deadlock: condition, $way" " waits for condition 0x" 71 "${run[@]}" "${ranks[@]}" "$scratch/stuck" condition
	says "deadlock: barrier, $way" " waits for barrier 0x" 71 "${run[@]}" "${ranks[@]}" "$scratch/stuck" barrier
	says "deadlock: join, $way" "of rank 0 waits for the end of thread 0x" 71 "${run[@]}" "${ranks[@]}" "$scratch/stuck" join
	says "deadlock: futex, $way" " waits for futex 0x" 71 "${run[@]}" "${ranks[@]}" "$scratch/stuck" futex
	says "no deadlock: waits that end, $way" "done" 0 "${run[@]}" "${ranks[@]}" "$scratch/stuck" ends
done
says "no deadlock: a signal handler" "done" 0 "${run[@]}" -n 2 "$scratch/stuck" handler
if is_chosen "deadlock: once"; then
	got=$(DSM_DEADLOCK=report timeout -k 5 4 "${run[@]}" -n 2 "$scratch/stuck" locks 2>&1 | grep -c 'deadlock: the threads of all ranks wait')
	same "deadlock: once" "$got" 1
	got=$(DSM_DEADLOCK=off timeout -k 5 3 "${run[@]}" -n 2 "$scratch/stuck" locks 2>&1 | grep -c 'deadlock:')
	same "deadlock: once, off" "$got" 0
fi
DSM_STALL_MS=5000
unset DSM_DEADLOCK

# ---- debuggers -----------------------------------------------------------------------------------------

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
	# Rank 0 in gdb, as docs/tuning.md has it. `distant` is rank 1's, until the program itself reads or writes it.
	cat >"$scratch/in-gdb" <<'END'
#!/bin/sh
[ "$PMIX_RANK" = 0 ] || exec "$@"
exec gdb -q -nx -batch -ex 'handle SIGSEGV SIGBUS nostop noprint pass' -ex 'break shown' -ex run \
	-ex 'echo stopped by\n' -ex 'bt -frame-arguments none' -ex 'print sum' \
	-ex 'print (int)memcmp(&distant.value, &distant.value, 4)' -ex 'print distant.value' \
	-ex 'print (long)memmove(&distant.value, &distant.value, 4) != 0' -ex 'set var distant.value = 7' -ex 'print distant.value' \
	-ex continue --args "$@"
END
	chmod +x "$scratch/in-gdb"
	for way in node two mprotect; do
		is_chosen "gdb: rank 0, $way" || continue
		settings=()
		[[ $way != mprotect ]] || settings=(DSM_FAULT=mprotect)
		# shellcheck disable=SC2086
		env "${settings[@]}" timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/in-gdb" "$scratch/debugged" >"$scratch/log" 2>&1 </dev/null
		got=$(sed -n 's/^#0 .*\<shown (.*/shown/p; s/^#1 .* main (.*/main/p; s/^\$[0-9]* = //p; /^sum/p; s/.* exited with code /code /p
			/received signal/p; /Cannot access/p' "$scratch/log" | paste -sd ' ')
		same "gdb: rank 0, $way" "$got" "shown main 100 0 100 1 7 sum 100 code 05]"
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
			! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx PMIX_RANK=0 || echo "$pid"
		done)
		got=$(gdb -q -nx -batch -p "$pid" -ex 'handle SIGSEGV SIGBUS nostop noprint pass' -ex 'bt' -ex 'set var sum = 1' -ex detach 2>&1 |
			sed -n 's/^#[0-9]* .* main (.*/main/p; s/.*detached]/detached/p; /Cannot access/p')
		status=0
		wait $! || status=$?
		same "gdb: attached, $way" "${got//$'\n'/ } $(grep '^sum' "$scratch/log"), status $status" "main detached sum 101, status 5"
	done
else
	echo "gdb is not installed (make setup): its tests are not run"
fi
if command -v valgrind >/dev/null; then
	printf '#!/bin/sh\nexec valgrind -q "$@"\n' >"$scratch/in-valgrind" && chmod +x "$scratch/in-valgrind"
	says "valgrind: several ranks" "valgrind works with one rank only" 1 "${run[@]}" -n 2 "$scratch/in-valgrind" "$scratch/debugged"
	says "valgrind: too large a space" "set DSM_SPACE=1G" 70 valgrind -q "$scratch/debugged"
	says "valgrind: one rank" "sum 100" 5 env DSM_SPACE=1G "${run[@]}" -n 1 "$scratch/in-valgrind" "$scratch/debugged"
else
	echo "valgrind is not installed (make setup): its tests are not run"
fi

says "homes" "home here: 1, there: 1" 0 "${run[@]}" -n 2 --nodes rank "$scratch/homes"

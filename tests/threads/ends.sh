# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: how jobs end: by each function and signal, by any rank, with a core
# file, and when main() ends first.

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
			# A signal to the process is rank 0's.
			by=$rank
			[[ $how != SIGALRM ]] || by=0
			# shellcheck disable=SC2086
			timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/endings" "$how" ${rank/0/} \
				>"$scratch/log" 2>&1 </dev/null || status=$?
			# What mpirun says of a rank that has ended is not ours. Lines of different
			# ranks come in any order.
			got=$(grep -E '^(libdsm|handler|child|default)' "$scratch/log" |
				sed "s/^libdsm: rank $by: thread [0-9]*/R thread N/" | LC_ALL=C sort -f | paste -sd '|')
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
					sed -n 's/^\$1 = .* \(0x[0-9a-f]*\)$/\1/p; s/^\$2 = .* //p; s/^ends .*/ends/p' |
					paste -sd ' ')" \
				'0x0 "SIGSEGV" ends'
	done
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

# Variables that were shared are each rank's own again behind dsm_finalize(), with the last values:
# in main(), in handlers of exit(), in destructors, in children. The first argument is a file by
# which the ranks meet then.
cat >"$scratch/returned.c" <<'END'
#include <dsm.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static int count, slot[8];
static char between[3 * 4096];
static int constant = 7; /* in .data, of all ranks */
static __thread int me, size;
static __thread unsigned int *met;
static void show(const char *where)
{
	int sum = 0;
	for (int i = 0; i < 8; i++)
		sum += slot[i];
	printf("%s %d: %d %d %d %d\n", where, me, count, sum, constant, between[4096 * 2]);
	fflush(stdout);
}
static void part(void)
{
	int status;
	if (dsm_finalize())
		abort();
	show("finalized");
	count += 100 * (me + 1);
	constant += me;
	__atomic_fetch_add(met, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(met, __ATOMIC_SEQ_CST) % (unsigned int)size)
		usleep(1000);
	if (!fork()) {
		show("child");
		_exit(0);
	}
	wait(&status);
}
static void before(void) { show("handler before dsm_init()"); }
static void after(void) { show("handler"); }
__attribute__((destructor)) static void last(void) { show("destructor"); }
int main(int argc, char **argv)
{
	met = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[1], O_RDWR), 0);
	atexit(before);
	if (met == MAP_FAILED || dsm_init(NULL))
		return 1;
	me = dsm_rank();
	size = dsm_size();
	constant += me;
	if (dsm_adopt_globals(NULL))
		return 1;
	if (argc > 2)
		atexit(part);
	atexit(after);
	__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
	slot[me] = me + 1;
	if (me == size - 1)
		between[4096 * 2] = 5;
	dsm_barrier();
	if (argc == 2)
		part();
	return 0;
}
END
if is_chosen "returned variables"; then
	"$tools/dsm-cc" -O2 -Wall -Wextra -Werror "$scratch/returned.c" -o "$scratch/returned" || count_failure "returned: build"
	# returned_by RANKS WHERE...: each rank prints at these places the shared values, and after
	# dsm_finalize() its own.
	returned_by() {
		local n=$1 r where own
		shift
		for where; do
			for ((r = 0; r < n; r++)); do
				own=$([[ $where == finalized || $where == shared* ]] || echo $((100 * (r + 1))))
				echo "${where#shared } $r: $((n + ${own:-0})) $((n * (n + 1) / 2)) $((7 + (${own:-0} ? r : 0))) 5"
			done
		done | LC_ALL=C sort
	}
	for way in one node two mixed mprotect; do
		# shellcheck disable=SC2206
		ranks=(${ways[$way]})
		settings=()
		[[ $way != mprotect ]] || settings=(DSM_FAULT=mprotect)
		for how in main handler; do
			where=(finalized child destructor "handler before dsm_init()" handler)
			[[ $how == main ]] || where[4]="shared handler"
			head -c 4096 /dev/zero >"$scratch/met"
			got=$(env "${settings[@]}" timeout -k 5 60 "${run[@]}" "${ranks[@]}" "$scratch/returned" "$scratch/met" \
				${how/main/} 2>&1 </dev/null | LC_ALL=C sort) || got+=" (failed)"
			same "returned variables: in $how, $way" "$got" "$(returned_by "${ranks[1]}" "${where[@]}")"
		done
	done
fi

# With libdsm-pthread.so, handlers and destructors are rank 0's, which has what threads of all ranks
# have stored.
program collected <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int slot[6];
static void show(const char *where)
{
	for (int i = 0; i < 6; i++)
		printf("%d%s", slot[i], i < 5 ? " " : where);
}
static void handler(void) { show(" handler\n"); }
__attribute__((destructor)) static void last(void) { show(" destructor\n"); }
static void *set(void *arg)
{
	*(int *)arg = (int)((int *)arg - slot) + 1;
	return arg;
}
int main(void)
{
	pthread_t t[6];
	atexit(handler);
	for (int i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, set, &slot[i]);
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	return 0;
}
END
for way in node two; do
	# shellcheck disable=SC2086
	says "collected variables at the end, $way" $'1 2 3 4 5 6 handler\n1 2 3 4 5 6 destructor' 0 \
		"${run[@]}" ${ways[$way]} "$scratch/collected"
done

# Two threads call exit() at once: one status, one run of the handlers. A handler that never returns
# does not keep others from _exit().
program at_once <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t both;
static const char *how;
static void handler(void)
{
	fprintf(stderr, "handler\n");
	if (!strcmp(how, "stuck"))
		for (;;)
			pause();
}
static void *ends(void *arg)
{
	pthread_barrier_wait(&both);
	if (!strcmp(how, "stuck")) {
		sleep(1);
		_exit(4);
	}
	exit(4);
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t t;
	how = argc > 1 ? argv[1] : "";
	atexit(handler);
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&t, NULL, ends, NULL);
	pthread_barrier_wait(&both);
	if (!strcmp(how, "return"))
		return 3;
	exit(3);
}
END
for way in node two; do
	for how in exit return; do
		is_chosen "exit() by two ranks at once: $how, $way" || continue
		got=''
		for i in {1..10}; do
			status=0
			# shellcheck disable=SC2086
			said=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/at_once" "$how" 2>&1 </dev/null) || status=$?
			# By the libevent of mpirun, rarely; that of a rank has descriptors above 500.
			said=$(sed '/^\[warn\] Epoll .* on fd [0-9][0-9]\? failed.* Bad file descriptor/d' <<<"$said")
			[[ $status == [34] && $said == handler ]] || got+="status $status, $said; "
		done
		same "exit() by two ranks at once: $how, $way" "$got" ""
	done
	# shellcheck disable=SC2086
	says "exit() that is stuck, and _exit(), $way" handler 4 "${run[@]}" ${ways[$way]} "$scratch/at_once" stuck
done

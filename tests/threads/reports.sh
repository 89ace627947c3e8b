# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: statistics, and deadlocks.

# ---- statistics ----------------------------------------------------------------------------------

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

# Misses by memory are all misses: in many small allocations of one line, and in variables, which
# have the names of the symbol table.
program memory -g <<'END'
#include <pthread.h>
#include <stdlib.h>
static long table[50000];
static struct node { struct node *next; long v[60]; } *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *add(void *arg)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 50000; i += 512)
		table[i]++;
	for (struct node *n = list; n; n = n->next)
		n->v[0]++;
	pthread_mutex_unlock(&lock);
	return arg;
}
int main(void)
{
	pthread_t t;
	for (int i = 0; i < 2000; i++) {
		struct node *n = calloc(1, sizeof(*n)); /* line 20 */
		n->next = list;
		list = n;
	}
	add(NULL);
	pthread_create(&t, NULL, add, NULL);
	pthread_join(t, NULL);
	return 0;
}
END
if is_chosen statistics; then
	# without read-ahead, so that each block is a miss
	got=$(DSM_READAHEAD=0 timeout -k 5 60 "${run[@]}" -n 2 --nodes rank --stats json "$scratch/memory" 2>&1 | grep '^{"ranks"' | python3 -c '
import json, sys
s = json.load(sys.stdin)
rows, more = s["sharing"], s["sharing_more"][0]
# The report itself causes a few.
faults = s["read_faults"] + s["write_faults"] + s["upgrades"]
print(0 <= sum(r["faults"] for r in rows) + more["faults"] - faults <= faults / 10,
      [r["object_bytes"] for r in rows if r["name"] == "table"], sum(r["objects"] > 100 for r in rows if r["site"] == "memory.c:20"))')
	same "statistics: all misses by memory" "$got" "True [400000] 1"
fi

# DSM_HOME is for variables and malloc() as well. The other rank touches the second half of a
# variable, and every second 64 KiB of an allocation: where these are at home there, it needs no
# messages, in place of three per page. Pages that both ranks use may move some times more on a busy
# host, for some dozens of messages.
program homes <<'END'
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#define SIZE (16ul << 20)
static char table[SIZE] __attribute__((aligned(4096)));
static char *memory;
static void *touch(void *arg)
{
	for (size_t i = SIZE / 2; i < SIZE; i += 4096)
		table[i] = 1;
	for (char *p = memory; p < memory + SIZE; p += 4096)
		if ((uintptr_t)p >> 16 & 1)
			*p = 1;
	return arg;
}
int main(void)
{
	pthread_t t;
	memory = malloc(SIZE);
	pthread_create(&t, NULL, touch, NULL);
	pthread_join(t, NULL);
	return 0;
}
END
if is_chosen homes; then
	messages=()
	for way in first cyclic blocked; do
		messages+=("$(DSM_HOME=$way DSM_READAHEAD=0 timeout -k 5 60 "${run[@]}" -n 2 --nodes rank --stats json "$scratch/homes" 2>&1 |
			sed -n 's/^{"ranks".* "messages_out": \([0-9]*\),.*/\1/p')")
	done
	same "homes: cyclic, blocked" "$((messages[1] + 5500 < messages[0])) $((messages[2] + 3450 < messages[0]))" "1 1"
	((messages[1] + 5500 < messages[0] && messages[2] + 3450 < messages[0])) || echo "    messages: ${messages[*]}"
fi

# ---- a miss whose signal is blocked --------------------------------------------------------------

# By the system call itself, which no library sees. Alone, the program ends with 7.
program blocking <<'END'
#include <pthread.h>
#include <sys/syscall.h>
static struct { char pad[4096]; long n; char more[4096]; } shared;
static void *touches(void *arg)
{
	unsigned long all = ~0ul;
	register long size __asm__("r10") = 8;
	long result = SYS_rt_sigprocmask;
	__asm__ volatile("syscall" : "+a"(result) : "D"(2l), "S"(&all), "d"(0l), "r"(size) : "rcx", "r11", "memory");
	shared.n++;
	return arg;
}
int main(void)
{
	pthread_t t;
	shared.n = 6;
	pthread_create(&t, NULL, touches, NULL);
	pthread_join(t, NULL);
	return (int)shared.n;
}
END
# blocked NAME SIGNAL SETTING...: the job ends by the rank's signal, or by the survivor's status,
# whichever mpirun sees first.
blocked() {
	local name=$1 sig=$2 got status=0
	shift 2
	is_chosen "$name" || return 0
	got=$(timeout -k 5 60 env "$@" "${run[@]}" -n 2 --nodes rank "$scratch/blocking" 2>&1) || status=$?
	[[ $status != @(70|$((128 + $(kill -l "$sig")))) ]] || status=ended
	same "$name" "$status $(grep -o 'rank 1 of this host is lost: .* while it blocked SIG[A-Z]*' <<<"$got")" \
		"ended rank 1 of this host is lost: its process was ended by SIG$sig, the signal of misses. If this was no fault of\
 the program, a thread touched shared memory while it blocked SIG$sig"
}
blocked "a miss with its signal blocked" BUS
blocked "a miss with its signal blocked, mprotect" SEGV DSM_FAULT=mprotect
says "no miss, all blocked" "" 7 "${run[@]}" -n 2 "$scratch/blocking"

# ---- deadlocks -----------------------------------------------------------------------------------

# Ends by DSM_DEADLOCK=abort, or not at all; "ends": waits that end, though all threads wait in
# each; "handler": by a signal.
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
	: >"$scratch/log"
	DSM_DEADLOCK=report timeout -k 5 60 "${run[@]}" -n 2 "$scratch/stuck" locks >"$scratch/log" 2>&1 </dev/null &
	for i in {1..300}; do
		! grep -q 'deadlock: the threads of all ranks wait' "$scratch/log" || break
		sleep 0.1
	done
	sleep 3 # a second one would come
	kill $!
	wait $!
	same "deadlock: once" "$(grep -c 'deadlock: the threads of all ranks wait' "$scratch/log")" 1
	got=$(DSM_DEADLOCK=off timeout -k 5 3 "${run[@]}" -n 2 "$scratch/stuck" locks 2>&1 | grep -c 'deadlock:')
	same "deadlock: once, off" "$got" 0
fi
DSM_STALL_MS=5000
unset DSM_DEADLOCK

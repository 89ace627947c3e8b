# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: the ends of stacks: overflows, stacks that are refused, and guards.

# Stacks: the page below is nobody's, on whatever rank the thread runs. How the process's end is
# reported depends on who sees it first.
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
			"$((status == 139 || status == 70)) $(
				grep -o "rank $((thread % ranks)): stack overflow: thread 0x[0-9a-f]* (deep" <<<"$got" |
					sed 's/0x[0-9a-f]*/0x/'
			)" \
			"1 rank $((thread % ranks)): stack overflow: thread 0x (deep"
	done
done
says "stacks refused" "1 1" 0 env DSM_MMAP=0 "${run[@]}" -n 2 "$scratch/overflow" -1
says "stacks refused: named" "a thread on a stack of private memory (pthread_attr_setstack()) does not work" 0 \
	env DSM_MMAP=0 "${run[@]}" -n 2 "$scratch/overflow" -1

# A thread for which the process has no mapping left has no guard. The stack of one that has just
# ended is used again soon.
program unguarded <<'END'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
enum { PAGE = 4096, MAPPINGS = 1 << 20 };
static pthread_barrier_t both;
static void *ends(void *arg) { pthread_barrier_wait(&both); return arg; }
/* Two at a time, so that this rank has one of them. */
static void threads(void)
{
	pthread_t t[2];
	int err;
	for (int i = 0; i < 4; i++) {
		while ((err = pthread_create(&t[i % 2], NULL, ends, NULL)) == EAGAIN)
			usleep(1000);
		if (err || (i % 2 && (pthread_join(t[0], NULL) || pthread_join(t[1], NULL))))
			exit(1);
	}
}
int main(void)
{
	char *p = mmap(NULL, 2ul * MAPPINGS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int n = 0;
	pthread_barrier_init(&both, NULL, 2);
	threads();
	/* A thread that was joined may free its guard and stack later, which makes mappings available: on a busy host, after all of the
	 * first round. */
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 25; i++, usleep(20000))
			while (n < MAPPINGS && !mprotect(p + (2ul * n + 1) * PAGE, PAGE, PROT_READ))
				n++;
		threads();
	}
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

# As many threads with default stacks as the default heap has to hold, all at the same time.
program crowd <<'END'
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#define N 10000
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int here, leave;
static void *waits(void *arg)
{
	pthread_mutex_lock(&lock);
	if (++here == N)
		pthread_cond_broadcast(&changed);
	while (!leave)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return arg;
}
int main(void)
{
	static pthread_t t[N];
	int err;
	for (int i = 0; i < N; i++) {
		err = pthread_create(&t[i], NULL, waits, NULL);
		if (err)
			return printf("thread %d: %s\n", i, strerror(err)), 1;
	}
	pthread_mutex_lock(&lock);
	while (here < N)
		pthread_cond_wait(&changed, &lock);
	leave = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	printf("%d threads\n", here);
	return 0;
}
END
says "10,000 threads with default stacks" "10000 threads" 0 "${run[@]}" -n 2 "$scratch/crowd"

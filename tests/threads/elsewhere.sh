# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: threads that libraries create, memory whose home is another rank,
# mutexes in blocks that move, and what libdsm itself calls.

# A library that is no part of the program: its variables and threads are the rank's, and its
# constructors have run on each. One line says so of the threads.
export DSM_OWN_LIBRARIES=rank
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
	got=$(timeout -k 5 60 "${run[@]}" -n 2 "$scratch/library" 2>&1 | grep -c \
		'rank 0: threads that libown.so creates stay on this rank')
	same "a library's threads: named" "$got" 1
fi

# The C library creates them, and signals them, with all signals blocked: not on a stack whose page
# another node takes meanwhile.
cat >"$scratch/crowd.c" <<'END'
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int waits(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 100000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return pthread_cond_timedwait(&never, &lock, &until) != ETIMEDOUT;
}
static void *end(void *arg) { return arg; }
static void *sleeps(void *arg) { sigset_t none; sigemptyset(&none); sigsuspend(&none); return arg; }
static void ignore(int sig) { (void)sig; }
int run_threads(int threads);
int run_threads(int threads)
{
	pthread_attr_t attr;
	pthread_t t;
	char name[16];
	int i, wrong = 0;
	for (i = 0; i < threads; i++) {
		pthread_attr_init(&attr);
		wrong += !!pthread_create(&t, i & 1 ? &attr : NULL, end, NULL);
		wrong += !!pthread_join(t, NULL);
		pthread_attr_destroy(&attr);
	}
	signal(SIGUSR1, ignore);
	wrong += !!pthread_create(&t, NULL, sleeps, NULL);
	wrong += !!pthread_setname_np(t, "sleeps") + !!pthread_getname_np(t, name, sizeof(name)) + (name[0] != 's');
	for (i = 0; i < threads; i++)
		wrong += !!pthread_kill(t, 0);
	pthread_mutex_lock(&lock);
	for (i = 0; i < threads; i++)
		wrong += waits();
	pthread_mutex_unlock(&lock);
	wrong += !!pthread_cancel(t);
	return wrong + !!pthread_join(t, NULL);
}
END
gcc -D_GNU_SOURCE -shared -fPIC -pthread "$scratch/crowd.c" -o "$scratch/libcrowd.so"
program contended -L"$scratch" -lcrowd "-Wl,-rpath,$scratch" <<'END'
#include <alloca.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
int run_threads(int threads);
static long *volatile word;
static volatile int wrong = -1;
static __attribute__((noinline)) int run(long *at)
{
	*at = 0;
	word = at;
	return run_threads(300);
}
static void *thread(void *arg)
{
	/* the word lies at the top of a page, and the frames of what is called below it in the same one */
	char *top = (char *)((uintptr_t)__builtin_frame_address(0) & -4096L) - 8192, *low;
	do
		low = alloca(64);
	while (low > top - 128);
	wrong = run((long *)(top - 16));
	return arg;
}
int main(void)
{
	pthread_t t;
	long writes = 0;
	pthread_create(&t, NULL, thread, NULL);
	while (!word)
		;
	while (wrong < 0)
		*(volatile long *)word = ++writes;
	pthread_join(t, NULL);
	printf("wrong %d, written %d\n", wrong, writes > 100);
	return 0;
}
END
for way in node two mixed mprotect; do
	# shellcheck disable=SC2086
	says "a library's threads: contended, $way" "wrong 0, written 1" 0 "${run[@]}" ${ways[$way]} "$scratch/contended"
done
unset DSM_OWN_LIBRARIES

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
# Without write-ahead, whose runs are one message each.
says "homes" "home here: 1, there: 1" 0 env DSM_READAHEAD=0 "${run[@]}" -n 2 --nodes rank "$scratch/homes"

# The one thread of the other rank signals with the mutex held. The condition's home is rank 0, where
# a thread has waited before.
program vain <<'END'
#include <dsm.h>
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int ready;
static void count(void *arg)
{
	struct dsm_stats s;
	*(unsigned long *)arg = dsm_stats_get(dsm_rank(), NULL, &s) ? 0 : s.messages_out;
}
static void *signals(void *arg)
{
	unsigned long before, after;
	pthread_mutex_lock(&m);
	ready = 1;
	pthread_cond_signal(&c);
	pthread_mutex_unlock(&m);
	pthread_mutex_lock(&m); /* again, as it is where the waiter was */
	pthread_cond_signal(&c);
	dsm_call(count, &before);
	for (int i = 0; i < 1000; i++) {
		pthread_cond_signal(&c);
		pthread_cond_broadcast(&c);
	}
	dsm_call(count, &after);
	pthread_mutex_unlock(&m);
	printf("rank %d, messages %s: %lu\n", dsm_rank(), after - before < 50 ? "few" : "many", after - before);
	return arg;
}
int main(void)
{
	pthread_t t;
	pthread_mutex_lock(&m);
	pthread_create(&t, NULL, signals, NULL);
	while (!ready)
		pthread_cond_wait(&c, &m);
	pthread_mutex_unlock(&m);
	return pthread_join(t, NULL);
}
END
# shellcheck disable=SC2086
says "signals in vain" "rank 1, messages few: " 0 "${run[@]}" ${ways[release]} "$scratch/vain"

# Mutexes of each type, initialised without a call, in blocks that another node writes before each
# round: rank 0 uses them without fetching the blocks.
program fetches <<'END'
#include <dsm.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
enum { TYPES = 4, ROUNDS = 30 };
static struct block {
	pthread_mutex_t lock;
	volatile long word;
} __attribute__((aligned(4096))) blocks[TYPES] = {
	{ PTHREAD_MUTEX_INITIALIZER, 0 },
	{ PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, 0 },
	{ PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, 0 },
	{ PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, 0 },
};
static volatile long written __attribute__((aligned(4096))), stop __attribute__((aligned(4096)));
static pthread_cond_t never __attribute__((aligned(4096))) = PTHREAD_COND_INITIALIZER;
static void *write_all(void *arg)
{
	while (!stop) {
		for (int i = 0; i < TYPES; i++) {
			pthread_mutex_lock(&blocks[i].lock);
			blocks[i].word++;
			pthread_mutex_unlock(&blocks[i].lock);
		}
		written++;
	}
	return arg;
}
static int use(pthread_mutex_t *m)
{
	struct timespec past = { 0 };
	int bad = pthread_mutex_lock(m) || !pthread_cond_clockwait(&never, m, CLOCK_MONOTONIC, &past);
	if (m == &blocks[1].lock)
		bad |= pthread_mutex_lock(m) || pthread_mutex_trylock(m) || pthread_mutex_unlock(m) || pthread_mutex_unlock(m);
	bad |= pthread_mutex_unlock(m);
	past.tv_sec = 1l << 32;
	return bad | pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past) | pthread_mutex_unlock(m);
}
static void count(void *arg)
{
	struct dsm_stats s;
	*(unsigned long *)arg = dsm_stats_get(0, NULL, &s) ? 0 : s.read_faults + s.write_faults + s.upgrades;
}
int main(void)
{
	unsigned long before, after, fetched = 0;
	int bad = 0;
	pthread_t t;
	pthread_create(&t, NULL, write_all, NULL);
	for (int n = 0; n < ROUNDS; n++) {
		for (long seen = written; written < seen + 2;)
			sched_yield();
		dsm_call(count, &before);
		for (int i = 0; i < TYPES; i++)
			bad |= use(&blocks[i].lock);
		dsm_call(count, &after);
		fetched += n ? after - before : 0;
	}
	stop = 1;
	pthread_join(t, NULL);
	printf("%s: %lu blocks\n", bad ? "errors" : fetched < ROUNDS ? "few" : "many", fetched);
	return 0;
}
END
says "mutexes that fetch no block" "few: " 0 "${run[@]}" -n 2 --nodes rank "$scratch/fetches"

# libdsm's own calls go to the C library, past libdsm-pthread and libdsm-syscall. These libraries
# see only calls that open or close descriptors, map memory, cancel a thread or end the process. A
# name that is not bound yet counts as what it would be bound to.
program past "-I$top/libdsm" -Wl,--no-as-needed -ldl <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "util/bound.h"
static struct dl_phdr_info libdsm;
static int find(struct dl_phdr_info *info, size_t size, void *out)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/libdsm."))
		return 0;
	*(struct dl_phdr_info *)out = *info;
	return 1;
}
static void show(const char *name, void **where, void *arg)
{
	Dl_info to;
	void *at = *where;
	(void)arg;
	if (dladdr(at, &to) && strstr(to.dli_fname, "/libdsm."))
		at = dlsym(RTLD_DEFAULT, name);
	if (at && dladdr(at, &to) && (strstr(to.dli_fname, "/libdsm-pthread.") || strstr(to.dli_fname, "/libdsm-syscall.")))
		printf("%s\n", name);
}
static void *thread(void *arg)
{
	dl_iterate_phdr(find, &libdsm);
	bound_each(&libdsm, show, NULL);
	return arg;
}
int main(void)
{
	pthread_t t;
	return pthread_create(&t, NULL, thread, NULL) || pthread_join(t, NULL);
}
END
for way in one node two; do
	is_chosen past || continue
	# shellcheck disable=SC2086
	seen=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/past" 2>&1 | sort -u)
	same "past: libdsm's own calls, $way" "$(grep -vxE 'accept4|close|epoll_create1|eventfd|exit|fcntl|memfd_create|mmap|munmap|open|pipe2|pthread_cancel|socket|socketpair|timerfd_create' <<<"$seen")" ""
	same "past: descriptors, $way" "$(grep -cxE 'close|open' <<<"$seen")" 2
done

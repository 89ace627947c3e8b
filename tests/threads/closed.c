// SPDX-License-Identifier: BSD-2-Clause
/*
 * closed.c - mprotect(2) of shared memory: threads on all ranks find pages closed to all access, or
 * to stores, and open again, as in one process. The output is that of POSIX threads.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096l
#define PAGES 16l
#define TURNS 6

static char variables[3 * PAGE] __attribute__((aligned(4096)));
static char *heap, *mapped, *shared;
static __thread sigjmp_buf back;
static __thread volatile int catches; /* 1: give up the access; 2: open the page */
static int opened;
static char *barrier_at;

static void on_segv(int sig, siginfo_t *info, void *context)
{
	char *page = (char *)((unsigned long)info->si_addr & -PAGE);

	(void)sig;
	(void)context;
	if (info->si_code != SEGV_ACCERR)
		_exit(9);
	if (catches == 1)
		siglongjmp(back, 1);
	if (catches != 2 || page < barrier_at || page >= barrier_at + PAGES * PAGE)
		_exit(10);
	opened++;
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		_exit(11);
}

/* r: it can be read; w: written as well. */
static char access_of(char *p)
{
	volatile char *at = p;
	volatile char can = '-', was = 0;

	catches = 1;
	if (!sigsetjmp(back, 1)) {
		was = *at;
		can = 'r';
	}
	if (can == 'r' && !sigsetjmp(back, 1)) {
		*at = was;
		can = 'w';
	}
	catches = 0;
	return can;
}

static int failed(int err)
{
	return err ? errno : 0;
}

static void show(const char *name, char *at, long pages)
{
	long i;

	printf("%s ", name);
	for (i = 0; i < pages; i++)
		putchar(access_of(at + i * PAGE + 8 * i));
	putchar('\n');
}

static void *shows(void *arg)
{
	(void)arg;
	show("heap", heap, PAGES);
	show("mapped", mapped, PAGES);
	show("shared", shared, PAGES);
	show("variables", variables, 3);
	return NULL;
}

static void on_each(void *(*fn)(void *))
{
	pthread_t t;
	long i;

	for (i = 0; i < TURNS; i++) {
		pthread_create(&t, NULL, fn, (void *)i);
		pthread_join(t, NULL);
	}
}

static void *closes(void *arg)
{
	const long n = (long)arg;

	printf("%d", failed(mprotect(heap + n * PAGE, PAGE, PROT_NONE)));
	printf("%d", failed(mprotect(heap + (n + 6) * PAGE, PAGE, PROT_READ)));
	printf("%d",
	       failed(mprotect(mapped + 2 * n * PAGE, 2 * PAGE, n % 2 ? PROT_NONE : PROT_READ)));
	printf("%d", failed(mprotect(shared + n, PAGE, PROT_READ)));
	printf("%d\n", failed(mprotect(shared + n * PAGE, PAGE + 1, PROT_READ)));
	return NULL;
}

static void *opens(void *arg)
{
	const long n = (long)arg;

	printf("%d", failed(mprotect(heap + n * PAGE, PAGE, n % 2 ? PROT_READ : PROT_WRITE)));
	printf("%d\n", failed(mprotect(mapped + n * PAGE, PAGE, PROT_READ | PROT_WRITE)));
	return NULL;
}

/* A collector's write barrier: the first store to a page is noticed, once in the program. */
static void *stores(void *arg)
{
	const long n = (long)arg;
	long i;

	catches = 2;
	for (i = 0; i < PAGES; i++)
		barrier_at[i * PAGE + n] = (char)(n + i);
	catches = 0;
	return NULL;
}

static void barrier(char *at)
{
	int i, sum = 0;

	barrier_at = at;
	opened = 0;
	printf("barrier %d", failed(mprotect(at, PAGES * PAGE, PROT_READ)));
	on_each(stores);
	for (i = 0; i < PAGES * PAGE; i++)
		sum += at[i];
	printf(" opened %d, sum %d\n", opened, sum);
}

/* The kernel refuses as well. */
static void *calls(void *arg)
{
	static int ends[2];
	long n;

	if (!arg && pipe(ends))
		return NULL;
	n = write(ends[1], heap, 8);
	printf("write %ld %d", n, n < 0 ? errno : 0);
	n = write(ends[1], heap + 8 * PAGE, 8);
	printf(" %ld", n);
	n = read(ends[0], heap + 8 * PAGE, 8);
	printf(", read %ld %d", n, n < 0 ? errno : 0);
	n = read(ends[0], heap + 15 * PAGE, 8);
	printf(" %ld\n", n);
	return NULL;
}

static void *again(void *arg)
{
	char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *q = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	memset(p, 1, 8 * PAGE);
	memset(q, 1, 8 * PAGE);
	printf("%d", failed(mprotect(p, 8 * PAGE, PROT_NONE)));
	printf("%d", failed(mprotect(q, 8 * PAGE, PROT_READ)));
	printf("%d", failed(munmap(p + 2 * PAGE, 2 * PAGE)));
	printf("%d", failed(munmap(p, 2 * PAGE)));
	printf("%d", failed(munmap(p + 4 * PAGE, 4 * PAGE)));
	printf("%d\n", failed(munmap(q, 8 * PAGE)));
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&sa.sa_mask);
	sigaction(SIGSEGV, &sa, NULL);
	heap = aligned_alloc((size_t)PAGE, (size_t)(PAGES * PAGE));
	mapped = mmap(NULL, (size_t)(PAGES * PAGE), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared = mmap(NULL, (size_t)(PAGES * PAGE), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(heap, 1, (size_t)(PAGES * PAGE));
	on_each(shows);
	on_each(closes);
	printf("%d\n", failed(mprotect(variables + PAGE, PAGE, PROT_READ)));
	on_each(shows);
	shows(NULL);
	on_each(calls);
	on_each(opens);
	on_each(shows);
	mprotect(heap, (size_t)(PAGES * PAGE), PROT_READ | PROT_WRITE);
	mprotect(mapped, (size_t)(PAGES * PAGE), PROT_READ | PROT_WRITE);
	mprotect(shared, (size_t)(PAGES * PAGE), PROT_READ | PROT_WRITE);
	mprotect(variables, sizeof(variables), PROT_READ | PROT_WRITE);
	on_each(shows);
	barrier(heap);
	barrier(shared);
	on_each(again);
	on_each(again);
	if (argc > 1 && mprotect(heap, (size_t)PAGE, PROT_READ | PROT_EXEC))
		printf("%s\n", strerror(errno));
	else if (argc > 1 && !mprotect(heap, (size_t)PAGE, PROT_NONE))
		heap[atoi(argv[1])] = 1;
	free(heap);
	printf("done\n");
	return 0;
}

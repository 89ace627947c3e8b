// SPDX-License-Identifier: BSD-2-Clause
/*
 * mapped.c - a plain POSIX threads program that maps files and private memory in main(), and uses
 * them in all threads: read-only, shared, unlinked, without a name, private and written, in pieces,
 * moved, with another protection, beyond the end of the file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe.h"
#include "steps.h"

enum { THREADS = 4, PAGE = 4096, PAGES = 5, SIZE = PAGES * PAGE - 100 };

static char *readable, *shared, *unlinked, *unnamed, *written, *zeros, *moved, *odd;
static pthread_barrier_t all;

static void fill(int fd)
{
	char page[PAGE];
	int i;

	for (i = 0; i < PAGES; i++) {
		memset(page, 'a' + i, PAGE);
		check("write", write(fd, page, i < PAGES - 1 ? PAGE : SIZE % PAGE) > 0);
	}
}

/* A file that is unlinked now, or later. */
static int make(char *name)
{
	int fd;

	strcpy(name, "/tmp/mapped-XXXXXX");
	fd = mkstemp(name);
	check("mkstemp", fd >= 0);
	fill(fd);
	return fd;
}

static char *map(int fd, int prot, int flags, size_t length, off_t off)
{
	char *p = mmap(NULL, length, prot, flags, fd, off);

	check("mmap", p != MAP_FAILED);
	return p;
}

static int holds(const char *p, int from, int pages)
{
	int i, good = 1;

	for (i = 0; i < pages; i++)
		good &= p[i * PAGE] == 'a' + from + i && p[i * PAGE + 99] == 'a' + from + i;
	return good;
}

static void *work(void *arg)
{
	const long me = (long)arg;

	probe_begin();
	check("read-only", holds(readable, 0, PAGES - 1));
	check("shared", holds(shared, 0, PAGES - 1));
	check("unlinked", holds(unlinked, 1, PAGES - 1));
	check("unnamed", holds(unnamed, 0, PAGES));
	check("written", written[me * PAGE + 7] == 'a' + me && zeros[me * PAGE] == 0);
	written[me * PAGE + 7] = (char)('A' + me);
	shared[4 * PAGE + me] = (char)('A' + me);
	zeros[me * PAGE] = (char)('0' + me);
	check("past the end", written[SIZE] == 0 && readable[SIZE] == 0);
	check("beyond the end", fault(odd) == 0 && fault(odd + PAGE) == SIGBUS);
	pthread_barrier_wait(&all);
	check("written by others",
	      !memcmp(&shared[4 * PAGE], "ABCD", 4) && written[3 * PAGE + 7] == 'D' &&
		      zeros[2 * PAGE] == '2');
	pthread_barrier_wait(&all);
	/* main() changes the mappings */
	pthread_barrier_wait(&all);
	check("part", holds(readable, 0, 1) && holds(readable + 2 * PAGE, 2, 2));
	check("moved", holds(moved, 0, PAGES - 1));
	check("cleared", zeros[me * PAGE] == 0);
	check("replaced", holds(unnamed, 2, 1) && holds(unnamed + PAGE, 1, 4));
	pthread_barrier_wait(&all);
	return NULL;
}

static void change(void)
{
	char name[64];
	int fd;

	check("munmap", !munmap(readable + PAGE, PAGE));
	shared = moved = mremap(shared, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
	check("mremap", moved != MAP_FAILED);
	check("madvise", !madvise(zeros, THREADS * PAGE, MADV_DONTNEED));
	fd = make(name);
	check("mmap, fixed",
	      mmap(unnamed, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 2 * PAGE) == unnamed);
	close(fd);
	unlink(name);
}

static void compare_file(int fd)
{
	char got[PAGE];

	check("pread", pread(fd, got, PAGE, 0) == PAGE && got[7] == 'a');
	check("pread", pread(fd, got, 4, 4 * PAGE) == 4 && !memcmp(got, "ABCD", 4));
}

int main(void)
{
	pthread_t t[THREADS];
	char name[64], other[64];
	int fd = make(name), gone = make(other), nameless = memfd_create("mapped", 0), small;
	long i;

	fill(nameless);
	pthread_barrier_init(&all, NULL, THREADS + 1);
	readable = map(fd, PROT_READ, MAP_PRIVATE, SIZE, 0);
	shared = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED, PAGES * PAGE, 0);
	written = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, SIZE, 0);
	unlink(other);
	unlinked = map(gone, PROT_READ, MAP_SHARED, SIZE - PAGE, PAGE);
	close(gone);
	unnamed = map(nameless, PROT_READ, MAP_SHARED, SIZE, 0);
	close(nameless);
	small = memfd_create("small", 0);
	check("ftruncate", !ftruncate(small, 10));
	odd = map(small, PROT_READ, MAP_SHARED, 2 * PAGE, 0);
	zeros = map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, THREADS * PAGE, 0);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, (void *)i);
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	compare_file(fd);
	change();
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	check("munmap",
	      !munmap(written, 2 * PAGE) && !munmap(written + 2 * PAGE, SIZE - 2 * PAGE) &&
		      !munmap(zeros, THREADS * PAGE));
	check("munmap",
	      !munmap(moved, 2 * PAGES * PAGE) && !munmap(unlinked, SIZE - PAGE) &&
		      !munmap(readable, SIZE));
	unlink(name);
	return conclude();
}

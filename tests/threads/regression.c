// SPDX-License-Identifier: BSD-2-Clause
/*
 * regression.c - a plain POSIX threads program in the manner of MapReduce: main() maps a file of
 * points, threads fit a line to their parts of it, and main() adds. The file is mapped in two ways,
 * private and shared, and it is unlinked, or has no name. Then one that gets shorter while it is
 * mapped, and one in ten thousand mappings.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe.h"
#include "steps.h"

enum { THREADS = 4, PAGE = 4096, POINTS = 150001, MANY = 10000 };

struct point {
	int8_t x, y;
};

struct sums {
	long n, x, y, xx, yy, xy;
};

static struct task {
	const struct point *from;
	size_t n;
	struct sums sums;
} tasks[THREADS];

static const char *shrinking, *many;
static pthread_barrier_t all;

/* ---- map and reduce -------------------------------------------------------------------------- */

static void *map_part(void *arg)
{
	struct task *t = arg;
	struct sums s = { .n = (long)t->n };
	size_t i;

	for (i = 0; i < t->n; i++) {
		s.x += t->from[i].x;
		s.y += t->from[i].y;
		s.xx += t->from[i].x * t->from[i].x;
		s.yy += t->from[i].y * t->from[i].y;
		s.xy += t->from[i].x * t->from[i].y;
	}
	t->sums = s;
	return NULL;
}

static void fit(const char *what, int fd, int flags)
{
	const size_t size = POINTS * sizeof(struct point), each = POINTS / THREADS;
	const struct point *p = mmap(NULL, size + 1, PROT_READ, flags, fd, 0);
	pthread_t t[THREADS];
	struct sums s = { 0 };
	size_t i;

	check("mmap", p != MAP_FAILED);
	for (i = 0; i < THREADS; i++) {
		tasks[i] = (struct task){ .from = p + i * each,
					  .n = i < THREADS - 1 ? each : POINTS - i * each };
		pthread_create(&t[i], NULL, map_part, &tasks[i]);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		s.n += tasks[i].sums.n;
		s.x += tasks[i].sums.x;
		s.y += tasks[i].sums.y;
		s.xx += tasks[i].sums.xx;
		s.yy += tasks[i].sums.yy;
		s.xy += tasks[i].sums.xy;
	}
	printf("%s: %ld points, sums %ld %ld, squares %ld %ld %ld, slope %.6f\n", what, s.n, s.x,
	       s.y, s.xx, s.yy, s.xy,
	       (double)(s.n * s.xy - s.x * s.y) / (double)(s.n * s.xx - s.x * s.x));
	check("munmap", !munmap((void *)p, size + 1));
}

static void fill(int fd)
{
	static struct point points[POINTS];
	uint64_t random = 1;
	size_t i;

	check("a file", fd >= 0);
	for (i = 0; i < POINTS; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		points[i].x = (int8_t)(random >> 60);
		points[i].y = (int8_t)(3 * points[i].x + (int8_t)(random >> 52 & 15));
	}
	check("write", write(fd, points, sizeof(points)) == (ssize_t)sizeof(points));
}

static int make(const char *name)
{
	const int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

	fill(fd);
	return fd;
}

/* ---- a file that gets shorter, and one in many mappings -------------------------------------- */

static void *look(void *arg)
{
	const long me = (long)arg;
	size_t i, wrong = 0;

	probe_begin();
	check("before", !fault(shrinking) && !fault(shrinking + 3 * PAGE));
	pthread_barrier_wait(&all);
	/* main() makes the file shorter */
	pthread_barrier_wait(&all);
	check("shorter",
	      !fault(shrinking) && fault(shrinking + PAGE) == SIGBUS &&
		      fault(shrinking + 3 * PAGE) == SIGBUS);
	pthread_barrier_wait(&all);
	/* main() makes it longer */
	pthread_barrier_wait(&all);
	check("longer", !fault(shrinking + 3 * PAGE) && !shrinking[3 * PAGE]);
	for (i = 0; i < MANY; i += me ? 97 : 1)
		wrong += many[i * PAGE] != 'a' + (char)(i % 3);
	check("many", !wrong);
	return NULL;
}

/* Neighbours that cannot be one mapping. */
static const char *map_many(int fd)
{
	char *p = mmap(NULL, (size_t)MANY * PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t i;
	int wrong = p == MAP_FAILED;

	for (i = 0; i < MANY && !wrong; i++)
		wrong = mmap(p + i * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
			     (off_t)(i % 3) * PAGE) != p + i * PAGE;
	check("mmap, fixed", !wrong);
	return p;
}

static void change(void)
{
	const int fd = memfd_create("many", 0), shorter = memfd_create("shorter", 0);
	static char page[PAGE];
	pthread_t t[THREADS];
	long i;

	for (i = 0; i < 3; i++) {
		memset(page, 'a' + (int)i, PAGE);
		check("write", write(fd, page, PAGE) == PAGE);
	}
	many = map_many(fd);
	close(fd);
	check("ftruncate", !ftruncate(shorter, 4 * PAGE));
	shrinking = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, shorter, 0);
	check("mmap", shrinking != MAP_FAILED);
	pthread_barrier_init(&all, NULL, THREADS + 1);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, look, (void *)i);
	pthread_barrier_wait(&all);
	check("ftruncate", !ftruncate(shorter, 100));
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	check("ftruncate", !ftruncate(shorter, 4 * PAGE));
	pthread_barrier_wait(&all);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	check("munmap", !munmap((void *)many, (size_t)MANY * PAGE));
	check("munmap", !munmap((void *)shrinking, 4 * PAGE));
	close(shorter);
}

int main(void)
{
	char name[] = "/tmp/regression-XXXXXX";
	const int unnamed = memfd_create("points", 0);
	int fd;

	check("mkdtemp", mkdtemp(name) && !chdir(name));
	fd = make("points");
	fit("private", fd, MAP_PRIVATE);
	fit("shared", fd, MAP_SHARED);
	unlink("points");
	check("rmdir", !rmdir(name));
	fit("unlinked, private", fd, MAP_PRIVATE);
	fit("unlinked, shared", fd, MAP_SHARED);
	close(fd);
	fill(unnamed);
	fit("without a name", unnamed, MAP_SHARED);
	change();
	return conclude();
}

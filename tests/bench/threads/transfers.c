// SPDX-License-Identifier: BSD-2-Clause
/*
 * transfers.c - what a system call on a program's memory takes: of a file in memory, of a pipe, and
 * one that is hardly more than its wrapper.
 *
 * Output: a JSON object of microseconds, medians, before that of main.c. "shared" tells whether
 * libdsm-syscall.so has to step in.
 */
#define _GNU_SOURCE 1 /* O_TMPFILE */
#include <dsm.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define REPEATS 101
#define CALLS 10 /* a figure is the mean of so many */
#define PIPED (48ul << 10)

#pragma weak dsm_needs_pin

static char memory[1 << 20] __attribute__((aligned(4096)));
static int file, ends[2];

static void must(int is, const char *what)
{
	if (is)
		return;
	perror(what);
	exit(1);
}

static void read_file(size_t n)
{
	must(pread(file, memory, n, 0) == (ssize_t)n, "pread");
}

static void write_file(size_t n)
{
	must(pwrite(file, memory, n, 0) == (ssize_t)n, "pwrite");
}

static void through_pipe(size_t n)
{
	must(write(ends[1], memory, n) == (ssize_t)n && read(ends[0], memory, n) == (ssize_t)n,
	     "pipe");
}

static void look_at_clock(size_t n)
{
	(void)n;
	clock_gettime(CLOCK_MONOTONIC, (struct timespec *)memory);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
	const double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

static void measure(const char *row, void (*call)(size_t), size_t n)
{
	double us[REPEATS], start;
	int i, k;

	for (i = 0; i < REPEATS; i++) {
		start = now_us();
		for (k = 0; k < CALLS; k++)
			call(n);
		us[i] = (now_us() - start) / CALLS;
	}
	qsort(us, REPEATS, sizeof(us[0]), by_value);
	printf(", \"%s\": %.4f", row, us[REPEATS / 2]);
}

int main(void)
{
	file = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	must(file >= 0 && !ftruncate(file, sizeof(memory)) && !pipe(ends), "files");
	printf("{\"shared\": %d", dsm_needs_pin && dsm_needs_pin(memory, 1));
	measure("clock", look_at_clock, 0);
	measure("read_1", read_file, 1);
	measure("read_4k", read_file, 4096);
	measure("read_16k", read_file, 16384);
	measure("read_64k", read_file, 65536);
	measure("read_1m", read_file, sizeof(memory));
	measure("write_4k", write_file, 4096);
	measure("write_16k", write_file, 16384);
	measure("write_64k", write_file, 65536);
	measure("write_1m", write_file, sizeof(memory));
	measure("pipe_48k", through_pipe, PIPED);
	puts("}");
	return 0;
}

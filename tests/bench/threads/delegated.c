// SPDX-License-Identifier: BSD-2-Clause
/*
 * delegated.c - what a call on a file takes that rank 0 makes: in main(), then in a thread of the
 * next rank.
 *
 * Output: a line for each, "main|thread CALL MICROSECONDS", the mean of CALLS calls. The calls move
 * bytes of a buffer that nobody else touches: of a file in /tmp.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CALLS 200

static char name[] = "/tmp/delegated.XXXXXX", buffer[1 << 16];
static int file;

static void must(int is, const char *what)
{
	if (is)
		return;
	perror(what);
	exit(1);
}

static void write_byte(void)
{
	must(pwrite(file, buffer, 1, 0) == 1, "pwrite");
}

static void write_much(void)
{
	must(pwrite(file, buffer, sizeof(buffer), 0) == (ssize_t)sizeof(buffer), "pwrite");
}

static void read_much(void)
{
	must(pread(file, buffer, sizeof(buffer), 0) == (ssize_t)sizeof(buffer), "pread");
}

static void open_and_close(void)
{
	const int fd = open(name, O_RDONLY);

	must(fd >= 0 && !close(fd), "open");
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void *measure(void *who)
{
	static const struct {
		const char *name;
		void (*call)(void);
	} rows[] = { { "write-1", write_byte },
		     { "write-64k", write_much },
		     { "read-64k", read_much },
		     { "open-close", open_and_close } };
	double start;
	size_t i;
	int k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rows[i].call();
		start = now_us();
		for (k = 0; k < CALLS; k++)
			rows[i].call();
		printf("%s %s %.3f\n", (const char *)who, rows[i].name, (now_us() - start) / CALLS);
	}
	return NULL;
}

int main(void)
{
	static char in_main[] = "main", in_thread[] = "thread";
	pthread_t thread;

	file = mkstemp(name);
	must(file >= 0, "mkstemp");
	measure(in_main);
	must(!pthread_create(&thread, NULL, measure, in_thread) && !pthread_join(thread, NULL),
	     "thread");
	must(!unlink(name), "unlink");
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases.h - the frame of the programs of this folder. A program has cases; it runs those
 * that its arguments name, or all that leave the process as it was, and prints a line "NAME:
 * RESULT" for each. tests/posix/run compares the lines.
 *
 * A case adds to its result by say(). A case with EACH runs in main(), then in three threads, one
 * after the other, which are threads of all ranks; their results stand in the line as well, behind
 * "|", where they differ. A case with ALONE ends the process, or changes it for good, so it has a
 * process of its own, and has to call said() itself if it does not return.
 */
#ifndef POSIX_CASES_H
#define POSIX_CASES_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../after.h"

#define EACH 1
#define ALONE 2

struct posix_case {
	const char *name;
	void (*run)(void);
	int how;
};

/*
 * Define a case: CASE(name, how) { ... }. The linker collects them. (Not constructors: those run on
 * each rank.)
 */
#define CASE(name, how)                                                                           \
	static void case_##name(void);                                                            \
	static const struct posix_case row_##name = { #name, case_##name, how };                  \
	static const struct posix_case *const at_##name __attribute__((used, section("cases"))) = \
		&row_##name;                                                                      \
	static void case_##name(void)

extern const struct posix_case *const __start_cases[], *const __stop_cases[];

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char result[1 << 14];
static size_t result_bytes;
static const char *running;

static void say_text(const char *text)
{
	pthread_mutex_lock(&said_lock);
	if (result_bytes + strlen(text) + 2 < sizeof(result)) {
		result[result_bytes++] = ' ';
		strcpy(result + result_bytes, text);
		result_bytes += strlen(text);
	}
	pthread_mutex_unlock(&said_lock);
}

/* Add a word to the result of the case. */
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	say_text(text);
}

/* The name of an error number. */
static inline const char *error_name(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "?";
}

/*
 * Add the result of a function that returns an error number, or of one that returns -1 and sets
 * errno.
 */
static inline void say_error(int err)
{
	say_text(err ? error_name(err) : "ok");
}

static inline void say_call(long got)
{
	if (got == -1)
		say_text(error_name(errno));
	else
		say("%ld", got);
}

/* Print the line of the case. */
static inline void said(void)
{
	char line[sizeof(result) + 256];
	const size_t n = (size_t)snprintf(line, sizeof(line), "%s:%s\n", running, result);

	if (write(STDOUT_FILENO, line, n) != (ssize_t)n)
		abort();
}

static inline void wait_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* A thread that has to be there. */
static inline pthread_t start(void *(*body)(void *), void *arg)
{
	pthread_t thread;
	const int err = pthread_create(&thread, NULL, body, arg);

	if (err) {
		fprintf(stderr, "%s: pthread_create: %s\n", running, strerror(err));
		_exit(99);
	}
	return thread;
}

static inline void *ended(pthread_t thread)
{
	void *got = NULL;

	if (pthread_join(thread, &got))
		say("join failed");
	return got;
}

/* Run body in a thread of another rank than the thread before it, and return what it returns. */
static inline void *apart(void *(*body)(void *), void *arg)
{
	return ended(start(body, arg));
}

static inline void say_text_of(void *text)
{
	say_text(text);
}

/* Bodies of threads: one that ends with its argument, one that ends when it is cancelled. */
static inline void *give_back(void *arg)
{
	return arg;
}

static inline void *sleep_on(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static inline void cancel_and_join(pthread_t thread)
{
	pthread_cancel(thread);
	say("%d", ended(thread) == PTHREAD_CANCELED);
}

static void *run_each(void *arg)
{
	((const struct posix_case *)arg)->run();
	return NULL;
}

/* Does the text at texts + at stand before it, too? */
static int is_known(const char *texts, size_t at)
{
	const char *p;

	for (p = texts; p < texts + at; p += strlen(p) + 1)
		if (!strcmp(p, texts + at))
			return 1;
	return 0;
}

/* Each result that differs stands in the line once. */
static void run_in_threads(const struct posix_case *c)
{
	static char texts[4 * sizeof(result)];
	size_t at = 0, begin = 0;
	int i;

	for (i = 0; i < 4; i++) {
		if (i)
			apart(run_each, (void *)(uintptr_t)c);
		else
			c->run();
		strcpy(texts + at, result + begin);
		result[result_bytes = begin] = 0;
		if (!is_known(texts, at)) {
			if (i)
				say("|");
			result_bytes += (size_t)sprintf(result + result_bytes, "%s", texts + at);
			at += strlen(texts + at) + 1;
		}
		begin = result_bytes;
	}
}

static void run_case(const struct posix_case *c)
{
	running = c->name;
	result_bytes = 0;
	result[0] = 0;
	if (c->how & EACH)
		run_in_threads(c);
	else
		c->run();
	said();
}

int main(int argc, char **argv)
{
	const struct posix_case *const *at;
	int i;

	for (at = __start_cases; at < __stop_cases; at++) {
		const struct posix_case *c = *at;

		if (argc > 1 && !strcmp(argv[1], "--list")) {
			printf("%s%s\n", c->name, c->how & ALONE ? " alone" : "");
			continue;
		}
		for (i = 1; i < argc && strcmp(argv[i], c->name);)
			i++;
		if (argc > 1 ? i < argc : !(c->how & ALONE))
			run_case(c);
	}
	return 0;
}

#endif

// SPDX-License-Identifier: BSD-2-Clause
/* test_log.c - util/log: lines on stderr, also if nobody reads them. */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/log.h"

/* Replace stderr by a pipe; returns the reading end. */
static int pipe_of_stderr(void)
{
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	close(fds[1]);
	return fds[0];
}

static bool pends(void)
{
	sigset_t set;

	ck_assert_int_eq(sigpending(&set), 0);
	return sigismember(&set, SIGPIPE);
}

static bool blocked(int signal)
{
	sigset_t set;

	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, signal);
}

UNIT_TEST(a_line_names_the_rank_and_leaves_errno)
{
	static const char words[] = "libdsm: one\nlibdsm: rank 7: two 2\n";
	char line[256] = "";
	int fd = pipe_of_stderr();

	errno = ENOTTY;
	log_line("one");
	log_rank(7);
	log_line("two %d", 2);
	ck_assert_int_eq(errno, ENOTTY);
	ck_assert_int_eq(read(fd, line, sizeof(line) - 1), sizeof(words) - 1);
	ck_assert_str_eq(line, words);
}

UNIT_TEST(a_line_that_nobody_reads_ends_no_process)
{
	close(pipe_of_stderr());
	ck_assert_ptr_ne(signal(SIGPIPE, SIG_DFL), SIG_ERR);
	errno = 0;
	log_line("lost");
	ck_assert_int_eq(errno, 0);
	ck_assert(!pends() && !blocked(SIGPIPE) && !blocked(SIGUSR1));
}

UNIT_TEST(a_signal_of_the_program_stays)
{
	sigset_t set;

	close(pipe_of_stderr());
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGUSR1);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	log_line("lost");
	ck_assert(!pends() && blocked(SIGPIPE) && blocked(SIGUSR1));
	ck_assert_int_eq(pthread_kill(pthread_self(), SIGPIPE), 0);
	log_line("lost");
	ck_assert(pends() && blocked(SIGPIPE));
}

/* Make number n another file, from whose start the test can read. */
static int file_instead(int n)
{
	char name[] = "/tmp/dsm-log.XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	ck_assert(!unlink(name));
	ck_assert_int_eq(dup2(fd, n), n);
	return fd;
}

/*
 * The program closes 2, then libdsm's copy as well, and the next files get these numbers. Lines
 * follow stderr, not the numbers.
 */
UNIT_TEST(a_line_does_not_go_to_a_file_of_the_program)
{
	int fd = pipe_of_stderr(), file, copy;
	char c[8];

	log_keep();
	copy = log_descriptor();
	ck_assert_int_gt(copy, STDERR_FILENO);
	file = file_instead(STDERR_FILENO);
	log_line("one");
	ck_assert_int_eq(read(fd, c, 8), 8);
	ck_assert_int_eq(file_instead(copy) < 0, 0);
	ck_assert_int_eq(log_descriptor(), -1);
	log_line("two");
	ck_assert_int_eq(lseek(file, 0, SEEK_END) + lseek(copy, 0, SEEK_END), 0);
	log_release();
	/* it is not libdsm's any more, and stays open */
	ck_assert_int_eq(lseek(copy, 0, SEEK_END), 0);
}

UNIT_TEST(without_stderr_there_are_no_lines)
{
	int file;

	close(STDERR_FILENO);
	log_keep();
	ck_assert_int_eq(log_descriptor(), -1);
	file = file_instead(STDERR_FILENO);
	log_line("one");
	ck_assert_int_eq(lseek(file, 0, SEEK_END), 0);
}

UNIT_SUITE("log")

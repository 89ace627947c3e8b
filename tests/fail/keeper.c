// SPDX-License-Identifier: BSD-2-Clause
/*
 * keeper.c - starts a rank where the launcher cannot reach it, and writes down how it ended.
 *
 *   mpirun -n N keeper FOLDER SECONDS PROGRAM [ARGUMENT...]
 *
 * mpirun ends all ranks when one fails, which would hide what the runtime itself does. So the
 * process that mpirun started only waits; a second one, in a session of its own, starts the program
 * and leaves in FOLDER, for rank R:
 *   pid.R   the program's process    out.R, err.R   what it wrote
 *   end.R   its exit status (128 + signal; 124: killed after SECONDS) and when, in ms of
 *           CLOCK_MONOTONIC
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *folder, *rank;

static int open_at(const char *what)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.%s", folder, what, rank);
	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

/* Under another name first: who reads it reads all of it. */
static void note(const char *what, const char *text)
{
	char from[512], to[512];
	int fd = open_at("note");

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(125);
	close(fd);
	snprintf(from, sizeof(from), "%s/note.%s", folder, rank);
	snprintf(to, sizeof(to), "%s/%s.%s", folder, what, rank);
	rename(from, to);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static pid_t start(char **argv)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	dup2(open_at("out"), STDOUT_FILENO);
	dup2(open_at("err"), STDERR_FILENO);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(126);
}

static void keep(int seconds, char **argv)
{
	long until = now_ms() + seconds * 1000L;
	int status = 0, late = 0;
	char text[64];
	pid_t pid;

	pid = start(argv);
	snprintf(text, sizeof(text), "%d\n", pid);
	note("pid", text);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		usleep(2000);
		if (late || now_ms() < until)
			continue;
		kill(pid, SIGKILL);
		late = 1;
	}
	status = late ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	snprintf(text, sizeof(text), "%d %ld\n", status, now_ms());
	note("end", text);
	_exit(0);
}

/* The launcher takes a rank's end for a reason to end the others: let them end by themselves. */
static void wait_for_all(void)
{
	const char *size = getenv("OMPI_COMM_WORLD_SIZE");
	long until = now_ms() + 10000;
	char path[512];
	int r;

	for (r = 0; size && r < atoi(size); r++) {
		snprintf(path, sizeof(path), "%s/end.%d", folder, r);
		while (access(path, F_OK) && now_ms() < until)
			usleep(5000);
	}
}

int main(int argc, char **argv)
{
	pid_t keeper;

	rank = getenv("PMIX_RANK");
	if (argc < 4)
		return 2;
	if (!rank)
		rank = "0";
	folder = argv[1];
	signal(SIGTERM, SIG_IGN);
	keeper = fork();
	if (keeper == 0) {
		setsid();
		signal(SIGTERM, SIG_DFL);
		keep(atoi(argv[2]), argv + 3);
	}
	waitpid(keeper, NULL, 0);
	wait_for_all();
	return 0;
}

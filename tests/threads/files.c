/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.c - descriptors, streams and folders belong to the process: what main() opens, threads of
 * any rank read and write, and the other way round; numbers, offsets and buffers are those of one
 * process.
 */
#define _GNU_SOURCE
#include "steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, LINES = 500 };

static char folder[] = "/tmp/files.XXXXXX", path[64], other[64];
static FILE *stream, *made;
static DIR *list;
static int fd, number, ends[2], pair[2], event, waits;

/* ---- descriptors of main() in a thread ------------------------------------------------------- */

static void *by_number(void *arg)
{
	char text[32] = "", more[32] = "";
	struct iovec v[2] = { { text, 3 }, { more, 4 } };
	struct stat st;
	int copy, flags;

	check("write", write(fd, "0123456789", 10) == 10);
	check("lseek", lseek(fd, 0, SEEK_CUR) == 10 && lseek(fd, 2, SEEK_SET) == 2);
	check("read", read(fd, text, 3) == 3 && !strcmp(text, "234"));
	check("pread", pread(fd, text, 4, 6) == 4 && !strcmp(text, "6789"));
	check("pwrite", pwrite(fd, "abc", 3, 10) == 3);
	memset(text, 0, sizeof(text));
	check("readv", readv(fd, v, 2) == 7 && !strcmp(text, "567") && !strcmp(more, "89ab"));
	check("fstat", !fstat(fd, &st) && st.st_size == 13);
	copy = dup(fd);
	check("dup", copy >= 0 && copy != fd && lseek(copy, 0, SEEK_CUR) == 12);
	flags = fcntl(copy, F_GETFL);
	check("fcntl",
	      (flags & O_ACCMODE) == O_RDWR && fcntl(fd, F_DUPFD, 200) == 200 && !close(200));
	check("close", !close(copy) && fcntl(copy, F_GETFD) == -1 && errno == EBADF);
	check("open again", (number = open(path, O_RDONLY)) == copy);
	check("syscall",
	      syscall(SYS_lseek, number, 5, SEEK_SET) == 5 &&
		      syscall(SYS_read, number, text, 2) == 2);
	check("ftruncate", !ftruncate(fd, 11) && !fstat(fd, &st) && st.st_size == 11);
	check("dprintf", lseek(fd, 0, SEEK_END) == 11 && dprintf(fd, "%s%d", "x", 42) == 3);
	return arg;
}

static void *by_pipe(void *arg)
{
	struct pollfd p = { .fd = ends[0], .events = POLLIN };
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 7 }, came;
	uint64_t count = 0;
	char text[8] = "";
	fd_set set;

	check("poll", poll(&p, 1, 0) == 0);
	check("pipe", write(ends[1], "ab", 2) == 2 && poll(&p, 1, 0) == 1 && p.revents == POLLIN);
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	check("select",
	      select(ends[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(ends[0], &set));
	check("epoll",
	      !epoll_ctl(waits, EPOLL_CTL_ADD, ends[0], &e) &&
		      epoll_wait(waits, &came, 1, 1000) == 1 && came.data.u64 == 7);
	check("read of a pipe", read(ends[0], text, 8) == 2 && !strcmp(text, "ab"));
	check("eventfd",
	      eventfd_write(event, 3) == 0 && eventfd_read(event, &count) == 0 && count == 3);
	check("send", send(pair[0], "hello", 5, MSG_DONTWAIT) == 5);
	check("ioctl", !ioctl(pair[1], FIONREAD, &number) && number == 5);
	check("recv", recv(pair[1], text, 8, 0) == 5 && !memcmp(text, "hello", 5));
	signal(SIGPIPE, SIG_IGN);
	check("shutdown",
	      !shutdown(pair[1], SHUT_RDWR) && !close(pair[1]) && send(pair[0], "x", 1, 0) == -1 &&
		      errno == EPIPE);
	return arg;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void *by_stream(void *arg)
{
	char text[64] = "", *line = NULL;
	size_t size = 0;
	int a = 0, b = 0;
	fpos_t here;

	check("fgets", fgets(text, sizeof(text), stream) && !strcmp(text, "first line\n"));
	check("fgetpos", !fgetpos(stream, &here) && ftell(stream) == 11);
	check("fscanf",
	      fscanf(stream, "%d,%d %63s", &a, &b, text) == 3 && a == 12 && b == -34 &&
		      !strcmp(text, "word"));
	check("getc", getc(stream) == '\n' && ungetc('?', stream) == '?' && fgetc(stream) == '?');
	check("getline", getline(&line, &size, stream) == 10 && !strcmp(line, "last line\n"));
	check("end", getc(stream) == EOF && feof(stream) && !ferror(stream));
	check("fsetpos",
	      !fsetpos(stream, &here) && fread(text, 1, 5, stream) == 5 &&
		      !memcmp(text, "12,-3", 5));
	check("fileno", fcntl(fileno(stream), F_GETFD) >= 0);
	rewind(stream);
	check("fwrite",
	      fwrite("FIRST", 1, 5, stream) == 5 && fprintf(stream, "%c%s", '_', "LINE") == 5 &&
		      !fflush(stream));
	free(line);
	return arg;
}

static void *make_streams(void *arg)
{
	made = fopen(other, "w+");
	check("fopen", made && fputs("by a thread\n", made) >= 0);
	list = opendir(folder);
	check("opendir", list != NULL);
	number = open(other, O_WRONLY | O_CREAT, 0600);
	return arg;
}

static void *by_folder(void *arg)
{
	struct dirent *e;
	int known = 0;

	rewinddir(list);
	while ((e = readdir(list)))
		known += !strcmp(e->d_name, "one") + !strcmp(e->d_name, "two");
	check("fchdir",
	      !fchdir(dirfd(list)) && !access("one", F_OK) && !chdir("/") && access("one", F_OK));
	check("readdir", known == 2 && fcntl(dirfd(list), F_GETFD) >= 0 && !closedir(list));
	return arg;
}

/* All threads write lines to one stream, and to one descriptor. */
static void *write_lines(void *arg)
{
	int i;

	for (i = 0; i < LINES; i++) {
		flockfile(made);
		fprintf(made, "%d", (int)(long)arg);
		fprintf(made, " %d\n", i);
		funlockfile(made);
		dprintf(number, "%d %d\n", (int)(long)arg, i);
	}
	return NULL;
}

static int whole_lines(const char *name)
{
	int seen[THREADS] = { 0 }, who, n, lines = 0;
	FILE *f = fopen(name, "r");

	while (f && fscanf(f, "%d %d\n", &who, &n) == 2 && who >= 0 && who < THREADS &&
	       seen[who] == n) {
		seen[who]++;
		lines++;
	}
	if (f)
		fclose(f);
	return lines;
}

static void write_together(void)
{
	made = fopen(other, "w");
	number = open(path, O_WRONLY | O_TRUNC | O_APPEND);
	in_threads(THREADS, write_lines);
	check("lines of a stream", !fclose(made) && whole_lines(other) == THREADS * LINES);
	check("lines of a descriptor", !close(number) && whole_lines(path) == THREADS * LINES);
}

/* A new descriptor has the lowest number that is free, as the program sees it. */
static void *by_lowest(void *arg)
{
	const int low = open("/dev/null", O_RDONLY), next = dup(low);
	int i, taken = 0;

	for (i = 0; i < low; i++)
		taken += fcntl(i, F_GETFD) >= 0;
	check("the lowest number", low >= 0 && low < 64 && taken == low);
	for (i = low + 1; i < next; i++)
		taken += fcntl(i, F_GETFD) >= 0;
	check("the next number",
	      taken == next - 1 && !close(low) && dup(next) == low && !close(low) && !close(next));
	return arg;
}

/* ---- the table of descriptors, children ------------------------------------------------------ */

static void *by_range(void *arg)
{
	int i, high = dup2(fd, 300);

	check("dup2", high == 300);
	for (i = 3; i < 64; i++)
		if (i != fd && i != ends[0] && i != ends[1])
			close(i);
	check("close_range", !close_range(64, ~0u, 0) && fcntl(300, F_GETFD) == -1);
	check("what is left", write(ends[1], "z", 1) == 1 && fcntl(fd, F_GETFD) >= 0);
	closefrom(200);
	return arg;
}

static void *by_child(void *arg)
{
	char *words[] = { "sh", "-c", "cat; echo child", NULL }, text[32] = "";
	posix_spawn_file_actions_t actions;
	int status = -1, from[2];
	pid_t child;
	FILE *p;

	check("pipe in a thread", !pipe(from) && write(ends[1], "to a child\n", 11) == 11);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, from[1], 1);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	check("posix_spawn", !posix_spawn(&child, "/bin/sh", &actions, NULL, words, NULL));
	posix_spawn_file_actions_destroy(&actions);
	check("waitpid", waitpid(child, &status, 0) == child && status == 0);
	check("output of a child",
	      read(from[0], text, sizeof(text)) == 6 && !strcmp(text, "child\n"));
	p = popen("echo opened", "r");
	check("popen",
	      p && fgets(text, sizeof(text), p) && !strcmp(text, "opened\n") && pclose(p) == 0);
	check("system", system("exit 3") == 3 << 8);
	return arg;
}

static void *by_map(void *arg)
{
	char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	check("mmap", at != MAP_FAILED && at[0] == '0' && !munmap(at, 4096));
	return arg;
}

/* ---- */

static void prepare(void)
{
	FILE *f;

	check("mkdtemp", mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/one", folder);
	snprintf(other, sizeof(other), "%s/two", folder);
	f = fopen(other, "w");
	fputs("first line\n12,-34 word\nlast line\n", f);
	fclose(f);
	stream = fopen(other, "r+");
	fd = open(path, O_RDWR | O_CREAT, 0600);
	check("pipe", !pipe(ends) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	event = eventfd(0, 0);
	waits = epoll_create1(0);
}

int main(void)
{
	char text[32] = "";

	prepare();
	by_lowest(NULL);
	in_thread(by_lowest, NULL);
	in_thread(by_number, NULL);
	check("offset",
	      lseek(fd, 0, SEEK_CUR) == 14 && read(number, text, 3) == 3 &&
		      !memcmp(text, "789", 3) && !close(number));
	in_thread(by_map, NULL);
	in_thread(by_pipe, NULL);
	in_thread(by_stream, NULL);
	check("stream again", ftell(stream) == 10 && !fclose(stream));
	in_thread(make_streams, NULL);
	rewind(made);
	check("a thread's stream",
	      fgets(text, sizeof(text), made) && !strcmp(text, "by a thread\n") && !fclose(made) &&
		      !close(number));
	in_thread(by_folder, NULL);
	write_together();
	in_thread(by_child, NULL);
	check("what a child left",
	      read(ends[0], text, 11) == 11 && !memcmp(text, "to a child\n", 11));
	in_thread(by_range, NULL);
	check("after close_range", read(ends[0], text, 1) == 1 && text[0] == 'z');
	tell("descriptors, streams, folders, children\n");
	unlink(path);
	unlink(other);
	rmdir(folder);
	return conclude();
}

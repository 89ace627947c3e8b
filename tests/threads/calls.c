// SPDX-License-Identifier: BSD-2-Clause
/*
 * calls.c - a plain POSIX threads program that makes system calls on the memory of all its threads:
 * on variables, on the heap, on its stack. Before each call another thread writes to every page of
 * the call's memory; a third thread does so continuously (away.h). So in a job of several nodes,
 * the node does not hold the memory at the time of the call. The program prints each call, and each
 * error.
 */
#define _GNU_SOURCE
#include "away.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char name[64], odd[3 * PAGE];

static void files(void)
{
	static const size_t sizes[] = { SMALL, PAGE, 3 * PAGE + 5, LARGE, HUGE };
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	APART struct iovec v[3];
	size_t i, n;

	check("open", fd >= 0);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		n = sizes[i];
		disturb(n == LARGE);
		fill(text, n, (int)i);
		away(text, n);
		check("write", write(fd, text, n) == (ssize_t)n);
		check("lseek", lseek(fd, 0, SEEK_SET) == 0);
		away(back, n);
		check("read", read(fd, back, n) == (ssize_t)n && is_filled(back, n, (int)i));
		check("read at the end", read(fd, back, n) == 0);
		away(text + 1, n - 1);
		check("pwrite", pwrite(fd, text + 1, n - 1, 10) == (ssize_t)n - 1);
		away(back, n);
		memset(back, 0, n);
		away(back, n);
		check("pread",
		      pread(fd, back, n - 1, 10) == (ssize_t)n - 1 &&
			      !memcmp(back, text + 1, n - 1));
		check("ftruncate", !ftruncate(fd, 0) && !lseek(fd, 0, SEEK_SET));
		disturb(0);
	}
	fill(text, LARGE, 30);
	v[0] = (struct iovec){ text, 10 };
	v[1] = (struct iovec){ text + 10, 5 * PAGE };
	v[2] = (struct iovec){ text + 10 + 5 * PAGE, 1 };
	away(text, LARGE);
	AWAY(v);
	check("writev", writev(fd, v, 3) == (ssize_t)(5 * PAGE + 11));
	memset(back, 0, LARGE);
	v[0].iov_base = back;
	v[1].iov_base = back + 10;
	v[2].iov_base = back + 10 + 5 * PAGE;
	away(back, LARGE);
	AWAY(v);
	check("preadv",
	      preadv(fd, v, 3, 0) == (ssize_t)(5 * PAGE + 11) &&
		      is_filled(back, 5 * PAGE + 11, 30));
	check("rest of preadv", !back[5 * PAGE + 11]);
	close(fd);
}

/* The memory of copies is mapped once, not for each call. */
static void copies(void)
{
	enum { N = 48 << 10, TURNS = 100 };
	struct rusage before, after;
	int fd[2], i, good = 1;

	check("pipe", !pipe(fd));
	fill(text, N, 40);
	memset(back, 0, N);
	for (i = 0; i < TURNS; i++) {
		if (i == 1)
			getrusage(RUSAGE_THREAD, &before);
		good &= write(fd[1], text, N) == N && read(fd[0], back, N) == N;
	}
	getrusage(RUSAGE_THREAD, &after);
	check("copies", good && is_filled(back, N, 40));
	check("faults of copies", after.ru_minflt - before.ru_minflt < TURNS);
	close(fd[0]);
	close(fd[1]);
}

static void paths(void)
{
	APART char local[64] = "/tmp/dsm-calls-XXXXXX", where[PAGE];
	APART struct stat st;
	APART struct utsname u;
	APART struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };
	int fd;

	AWAY(local);
	fd = mkstemp(local);
	check("mkstemp", fd >= 0 && strcmp(local, "/tmp/dsm-calls-XXXXXX"));
	strcpy(name, local);
	AWAY(name);
	AWAY(st);
	check("stat", !stat(name, &st) && S_ISREG(st.st_mode) && !st.st_size);
	AWAY(st);
	check("fstat", !fstat(fd, &st) && S_ISREG(st.st_mode));
	AWAY(l);
	check("fcntl", !fcntl(fd, F_SETLK, &l));
	AWAY(local);
	check("unlink", !unlink(local));
	AWAY(name);
	check("stat of nothing", stat(name, &st) == -1 && errno == ENOENT);
	check("chdir", !chdir("/tmp"));
	AWAY(where);
	check("getcwd", getcwd(where, sizeof(where)) == where && !strcmp(where, "/tmp"));
	AWAY(where);
	check("getcwd without room", !getcwd(where, 2) && errno == ERANGE);
	strcpy(name, "/tmp/../tmp");
	AWAY(name);
	AWAY(where);
	check("realpath", realpath(name, where) == where && !strcmp(where, "/tmp"));
	strcpy(name, "/proc/self/cwd");
	AWAY(name);
	AWAY(where);
	check("readlink", readlink(name, where, sizeof(where)) == 4 && !memcmp(where, "/tmp", 4));
	AWAY(u);
	check("uname", !uname(&u) && !strcmp(u.sysname, "Linux"));
	close(fd);
}

static void streams(void)
{
	char line[200], *at = malloc(100);
	size_t size = 100;
	FILE *f = tmpfile();

	check("tmpfile", f != NULL);
	fill(text, HUGE, 1);
	away(text, HUGE);
	check("fwrite", fwrite(text, 1, HUGE, f) == HUGE);
	rewind(f);
	away(back, HUGE);
	check("fread", fread(back, 1, HUGE, f) == HUGE && is_filled(back, HUGE, 1));
	check("fread at the end", fread(back, 1, 10, f) == 0 && feof(f));
	rewind(f);
	memset(text, 'x', LARGE);
	text[LARGE] = 0;
	/* the C library looks for the end of the string first: it is here for a moment */
	disturb(1);
	away(text, LARGE);
	check("fputs", fputs(text, f) >= 0);
	away(text, LARGE);
	check("fprintf", fprintf(f, "%s\n", text) == (int)LARGE + 1);
	disturb(0);
	rewind(f);
	away(back, HUGE);
	check("fgets", fgets(back, HUGE, f) == back && strlen(back) == 2 * LARGE + 1);
	rewind(f);
	away(at, 100);
	check("getline",
	      getline(&at, &size, f) == (ssize_t)(2 * LARGE + 1) && at[2 * LARGE] == '\n');
	fclose(f);
	free(at);

	/* Without a buffer every output is a system call. */
	f = tmpfile();
	setvbuf(f, NULL, _IONBF, 0);
	check("fprintf, unbuffered", fprintf(f, "%d words\n", 12) == 9);
	rewind(f);
	AWAY(line);
	check("fgets, unbuffered",
	      fgets(line, sizeof(line), f) == line && !strcmp(line, "12 words\n"));
	fclose(f);

	f = tmpfile();
	check("setvbuf", !setvbuf(f, odd, _IOFBF, sizeof(odd)));
	fill(text, LARGE, 9);
	for (size = 0; size < LARGE; size += PAGE) {
		AWAY(odd);
		if (fwrite(text + size, 1, PAGE, f) != PAGE)
			break;
	}
	check("fwrite with a shared buffer", size >= LARGE && !fflush(f));
	rewind(f);
	check("fread of it", fread(back, 1, LARGE, f) == LARGE && is_filled(back, LARGE, 9));
	fclose(f);
}

/* Memory in two pieces, with a descriptor behind it. */
static void messages(int from, int to)
{
	APART char control[200];
	APART struct msghdr m;
	APART struct iovec v[2];
	struct cmsghdr *c;
	int passed;

	memset(control, 0, sizeof(control));
	v[0] = (struct iovec){ text, 10 };
	v[1] = (struct iovec){ text + 10, PAGE };
	m = (struct msghdr){ .msg_iov = v,
			     .msg_iovlen = 2,
			     .msg_control = control,
			     .msg_controllen = CMSG_SPACE(sizeof(int)) };
	c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &from, sizeof(int));
	AWAY(v);
	AWAY(control);
	AWAY(m);
	away(text, 2 * PAGE);
	check("sendmsg", sendmsg(from, &m, 0) == (ssize_t)PAGE + 10);
	memset(control, 0, sizeof(control));
	v[0] = (struct iovec){ back, PAGE };
	v[1] = (struct iovec){ odd, PAGE };
	m.msg_controllen = sizeof(control);
	AWAY(v);
	AWAY(control);
	AWAY(m);
	AWAY(odd);
	away(back, PAGE);
	check("recvmsg",
	      recvmsg(to, &m, 0) == (ssize_t)PAGE + 10 && is_filled(back, PAGE, 2) &&
		      !memcmp(odd, text + PAGE, 10));
	c = CMSG_FIRSTHDR(&m);
	check("a descriptor",
	      c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)) &&
		      m.msg_controllen < sizeof(control));
	memcpy(&passed, CMSG_DATA(c), sizeof(passed));
	check("it is open", !close(passed));
}

static void datagrams(void)
{
	APART int pair[2];

	AWAY(pair);
	check("socketpair", !socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	fill(text, PAGE * 8, 2);
	away(text, PAGE * 8);
	check("send", send(pair[0], text, PAGE * 8, 0) == (ssize_t)PAGE * 8);
	away(back, PAGE * 8);
	check("recv",
	      recv(pair[1], back, PAGE * 8, 0) == (ssize_t)PAGE * 8 &&
		      is_filled(back, PAGE * 8, 2));
	check("recv of nothing", recv(pair[1], back, 10, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	messages(pair[0], pair[1]);
	close(pair[0]);
	close(pair[1]);
}

static void addresses(void)
{
	APART struct sockaddr_in addr = { .sin_family = AF_INET }, from;
	APART socklen_t len;
	APART int one = 1, value;
	int udp;

	udp = socket(AF_INET, SOCK_DGRAM, 0);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	AWAY(one);
	check("setsockopt", !setsockopt(udp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	len = sizeof(value);
	value = 0;
	AWAY(value);
	check("getsockopt",
	      !getsockopt(udp, SOL_SOCKET, SO_REUSEADDR, &value, &len) && value &&
		      len == sizeof(value));
	AWAY(addr);
	check("bind", !bind(udp, (struct sockaddr *)&addr, sizeof(addr)));
	len = sizeof(addr);
	AWAY(len);
	AWAY(addr);
	check("getsockname",
	      !getsockname(udp, (struct sockaddr *)&addr, &len) && addr.sin_port &&
		      len == sizeof(addr));
	AWAY(addr);
	fill(text, PAGE, 2);
	away(text, PAGE);
	check("sendto",
	      sendto(udp, text, SMALL, 0, (struct sockaddr *)&addr, sizeof(addr)) ==
		      (ssize_t)SMALL);
	memset(back, 0, PAGE);
	len = sizeof(from);
	away(back, PAGE);
	AWAY(len);
	AWAY(from);
	check("recvfrom",
	      recvfrom(udp, back, PAGE, 0, (struct sockaddr *)&from, &len) == (ssize_t)SMALL &&
		      is_filled(back, SMALL, 2));
	check("its sender", from.sin_port == addr.sin_port && !back[SMALL]);
	close(udp);
}

static void pipes(void)
{
	APART int fds[2], value;

	AWAY(fds);
	check("pipe", !pipe(fds));
	fill(text, PAGE, 5);
	away(text, PAGE);
	check("write to a pipe", write(fds[1], text, PAGE) == (ssize_t)PAGE);
	AWAY(value);
	check("ioctl", !ioctl(fds[0], FIONREAD, &value) && value == (int)PAGE);
	away(back, HUGE);
	check("read of a pipe",
	      read(fds[0], back, HUGE) == (ssize_t)PAGE && is_filled(back, PAGE, 5));
	close(fds[0]);
	signal(SIGPIPE, SIG_IGN);
	away(text, PAGE);
	check("write to nobody", write(fds[1], text, PAGE) == -1 && errno == EPIPE);
	close(fds[1]);
}

static void on_alarm(int sig)
{
	(void)sig;
}

#define TICKS 400
static int late, ticks; /* a descriptor; alarms */

/* Alarms, the first and then every so many microseconds; a single one, or none. */
static void alarms(int first, int every)
{
	const struct itimerval t = { { 0, every }, { 0, first } };

	setitimer(ITIMER_REAL, &t, NULL);
}

/*
 * It writes when the other thread has been through all memory three times; else, in the end, when
 * there is no other alarm.
 */
static void on_tick(int sig)
{
	const int saved = errno;

	(void)sig;
	if (ticks < TICKS && __atomic_load_n(&rounds, __ATOMIC_SEQ_CST) < 3) {
		ticks++;
		alarms(50000, 0);
	} else if (write(late, "later", 5) != 5) {
		alarms(50000, 0);
	}
	errno = saved;
}

static void waiting(void)
{
	APART struct timespec ts = { .tv_nsec = 1000000 }, left = { 5, 5 }, before, after;
	APART struct pollfd p;
	APART struct timeval tv = { 0, 1000 };
	struct sigaction sa = { .sa_handler = on_alarm };
	APART struct epoll_event e = { .events = EPOLLIN, .data.u64 = 77 }, got[3];
	int fds[2], ep = epoll_create1(0);
	APART int status;
	APART fd_set set;
	APART pid_t pid;
	APART char *argv[4] = { "/bin/sh", "-c", NULL, NULL };
	extern char **environ;

	check("clock_gettime", !clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before));
	clock_gettime(CLOCK_MONOTONIC, &before);
	AWAY(ts);
	AWAY(left);
	check("nanosleep", !nanosleep(&ts, &left) && left.tv_sec == 5);
	clock_gettime(CLOCK_MONOTONIC, &after);
	check("its time",
	      (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >=
		      1000000);
	sigaction(SIGALRM, &sa, NULL);
	ts.tv_sec = 19; /* whenever the alarm comes, 10 to 19 seconds are left */
	AWAY(left);
	alarms(200000, 200000);
	check("nanosleep, interrupted",
	      nanosleep(&ts, &left) == -1 && errno == EINTR && left.tv_sec >= 10 &&
		      left.tv_sec < 20);
	alarms(0, 0);

	if (pipe(fds))
		return;
	p = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	AWAY(p);
	check("poll", poll(&p, 1, 1) == 0 && !p.revents);
	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	AWAY(set);
	AWAY(tv);
	check("select", select(fds[0] + 1, &set, NULL, NULL, &tv) == 0 && !FD_ISSET(fds[0], &set));
	away(back, HUGE);
	alarms(200000, 200000);
	check("read, interrupted", read(fds[0], back, HUGE) == -1 && errno == EINTR);
	alarms(0, 0);

	/* A call that waits keeps no block: the other thread writes to its buffer meanwhile. */
	sa.sa_handler = on_tick;
	sa.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &sa, NULL);
	late = fds[1];
	__atomic_store_n(&rounds, 0, __ATOMIC_SEQ_CST);
	disturb(1);
	alarms(200000, 0);
	check("read that waits", read(fds[0], back, HUGE) == 5 && !memcmp(back, "later", 5));
	disturb(0);
	check("meanwhile", ticks < TICKS);
	AWAY(e);
	check("epoll_ctl", !epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &e));
	check("write", write(fds[1], "x", 1) == 1);
	AWAY(got);
	check("epoll_wait", epoll_wait(ep, got, 3, 1000) == 1 && got[0].data.u64 == 77);
	AWAY(p);
	check("poll, ready", poll(&p, 1, 1000) == 1 && p.revents == POLLIN);
	close(ep);

	close(fds[0]);
	close(fds[1]);

	strcpy(name, "exit 3");
	argv[2] = name;
	AWAY(name);
	AWAY(argv);
	check("posix_spawn", !posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ));
	AWAY(status);
	check("waitpid", waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
	AWAY(name);
	check("system", WEXITSTATUS(system(name)) == 3);
}

/* What is wrong stays wrong. */
static void errors(void)
{
	int fd = open("/dev/zero", O_RDWR), null = open("/dev/null", O_WRONLY);
	char *volatile hole = (char *)8;

	away(text, PAGE);
	check("read of no descriptor", read(-1, text, PAGE) == -1 && errno == EBADF);
	away(text, LARGE);
	check("write to no descriptor", write(12345, text, LARGE) == -1 && errno == EBADF);
	check("read to nowhere", read(fd, hole, 10) == -1 && errno == EFAULT);
	check("stat of nowhere", stat(hole, (struct stat *)text) == -1 && errno == EFAULT);
	check("send of no socket", send(null, text, 10, 0) == -1 && errno == ENOTSOCK);
	check("nothing", write(null, text, 0) == 0);
	close(fd);
	close(null);
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		alarm(100);
	begin();
	files();
	copies();
	paths();
	streams();
	datagrams();
	addresses();
	pipes();
	waiting();
	errors();
	return finish();
}

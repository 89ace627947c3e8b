// SPDX-License-Identifier: BSD-2-Clause
/*
 * numbers.c - as calls.c, with system calls by syscall(2): those that have a function of the C
 * library, those whose arguments are not those of the function, and those that no library changes.
 */
#define _GNU_SOURCE
#include "away.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static char name[64];

static void files(void)
{
	static const size_t sizes[] = { SMALL, PAGE, LARGE, HUGE };
	APART struct iovec v[2];
	APART struct stat st;
	size_t i, n;
	int fd;

	strcpy(name, "/tmp");
	AWAY(name);
	fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_TMPFILE | O_RDWR, 0600);
	check("openat", fd >= 0);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		n = sizes[i];
		disturb(n == LARGE);
		fill(text, n, (int)i);
		away(text, n);
		check("write", syscall(SYS_write, fd, text, n) == (long)n);
		check("lseek", syscall(SYS_lseek, fd, 0l, SEEK_SET) == 0);
		away(back, n);
		check("read",
		      syscall(SYS_read, fd, back, n) == (long)n && is_filled(back, n, (int)i));
		away(text + 1, n - 1);
		check("pwrite64", syscall(SYS_pwrite64, fd, text + 1, n - 1, 10l) == (long)n - 1);
		memset(back, 0, n);
		away(back, n);
		check("pread64",
		      syscall(SYS_pread64, fd, back, n - 1, 10l) == (long)n - 1 &&
			      !memcmp(back, text + 1, n - 1));
		check("ftruncate", !syscall(SYS_ftruncate, fd, 0l) && !lseek(fd, 0, SEEK_SET));
		disturb(0);
	}
	v[0] = (struct iovec){ text, 10 };
	v[1] = (struct iovec){ text + 10, 5 * PAGE };
	fill(text, LARGE, 30);
	away(text, LARGE);
	AWAY(v);
	check("writev", syscall(SYS_writev, fd, v, 2) == (long)(5 * PAGE + 10));
	v[0].iov_base = back;
	v[1].iov_base = back + 10;
	away(back, LARGE);
	AWAY(v);
	check("preadv",
	      syscall(SYS_preadv, fd, v, 2, 5l, 0l) == (long)(5 * PAGE + 5) &&
		      !memcmp(back, text + 5, 5 * PAGE + 5));
	AWAY(v);
	away(back, LARGE);
	check("preadv2, at the position",
	      syscall(SYS_lseek, fd, 7l, SEEK_SET) == 7 &&
		      syscall(SYS_preadv2, fd, v, 2, -1l, -1l, 0) == (long)(5 * PAGE + 3) &&
		      !memcmp(back, text + 7, 5 * PAGE + 3));
	AWAY(st);
	check("fstat", !syscall(SYS_fstat, fd, &st) && st.st_size == (off_t)(5 * PAGE + 10));
	strcpy(name, "tmp");
	AWAY(name);
	AWAY(st);
	check("newfstatat",
	      !syscall(SYS_newfstatat, open("/", O_RDONLY), name, &st, 0) && S_ISDIR(st.st_mode));
	close(fd);
}

static void sockets(void)
{
	APART struct msghdr m;
	APART struct iovec v;
	APART int pair[2], value;

	AWAY(pair);
	check("socketpair", !syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, pair));
	fill(text, 3 * PAGE, 2);
	away(text, 3 * PAGE);
	check("sendto",
	      syscall(SYS_sendto, pair[0], text, 3 * PAGE, 0, NULL, 0) == (long)(3 * PAGE));
	AWAY(value);
	check("ioctl", !syscall(SYS_ioctl, pair[1], FIONREAD, &value) && value == 3 * (int)PAGE);
	away(back, 3 * PAGE);
	check("recvfrom",
	      syscall(SYS_recvfrom, pair[1], back, 4 * PAGE, 0, NULL, NULL) == (long)(3 * PAGE) &&
		      is_filled(back, 3 * PAGE, 2));
	v = (struct iovec){ text, 2 * PAGE };
	m = (struct msghdr){ .msg_iov = &v, .msg_iovlen = 1 };
	away(text, 3 * PAGE);
	AWAY(v);
	AWAY(m);
	check("sendmsg", syscall(SYS_sendmsg, pair[0], &m, 0) == (long)(2 * PAGE));
	memset(back, 0, 3 * PAGE);
	v = (struct iovec){ back, 3 * PAGE };
	away(back, 3 * PAGE);
	AWAY(v);
	AWAY(m);
	check("recvmsg",
	      syscall(SYS_recvmsg, pair[1], &m, 0) == (long)(2 * PAGE) &&
		      is_filled(back, 2 * PAGE, 2));
	check("rest of recvmsg", !back[2 * PAGE]);
	close(pair[0]);
	close(pair[1]);
}

/* The kernel's interface is not the C library's. */
static void different(void)
{
	APART struct {
		const sigset_t *set;
		size_t size;
	} mask;
	APART struct timespec ts;
	APART struct timeval tv;
	APART sigset_t set, old;
	APART char where[PAGE];
	APART unsigned long cpus[128];
	APART fd_set fds;
	int pipes[2];

	check("chdir", !chdir("/tmp"));
	AWAY(where);
	check("getcwd", syscall(SYS_getcwd, where, sizeof(where)) == 5 && !strcmp(where, "/tmp"));
	AWAY(where);
	check("getcwd without room", syscall(SYS_getcwd, where, 2l) == -1 && errno == ERANGE);
	AWAY(cpus);
	check("sched_getaffinity",
	      syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus) >= 8 && cpus[0]);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	AWAY(set);
	AWAY(old);
	check("rt_sigprocmask",
	      !syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, 8l) &&
		      !sigismember(&old, SIGUSR2));
	AWAY(old);
	check("its mask",
	      !syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, &old, 8l) &&
		      sigismember(&old, SIGUSR2));
	AWAY(tv);
	check("gettimeofday", !syscall(SYS_gettimeofday, &tv, NULL) && tv.tv_sec > 1000000000);
	ts = (struct timespec){ 0, 1000000 };
	AWAY(ts);
	check("clock_nanosleep", !syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL));
	ts.tv_nsec = 1000000000;
	AWAY(ts);
	check("clock_nanosleep, wrong",
	      syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL) == -1 && errno == EINVAL);

	/* A mask behind a pointer in a structure; the time that is left comes back. */
	if (pipe(pipes))
		return;
	FD_ZERO(&fds);
	FD_SET(pipes[0], &fds);
	sigfillset(&set);
	mask.set = &set;
	mask.size = 8;
	ts = (struct timespec){ 0, 2000000 };
	AWAY(fds);
	AWAY(ts);
	AWAY(set);
	AWAY(mask);
	check("pselect6",
	      syscall(SYS_pselect6, pipes[0] + 1, &fds, NULL, NULL, &ts, &mask) == 0 &&
		      !ts.tv_nsec);
	check("write", write(pipes[1], "x", 1) == 1);
	FD_SET(pipes[0], &fds);
	ts = (struct timespec){ 100, 0 };
	AWAY(fds);
	AWAY(ts);
	AWAY(set);
	check("pselect6, ready",
	      syscall(SYS_pselect6, pipes[0] + 1, &fds, NULL, NULL, &ts, &mask) == 1 &&
		      FD_ISSET(pipes[0], &fds) && ts.tv_sec < 100);
	close(pipes[0]);
	close(pipes[1]);
}

static void others(void)
{
	APART struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };
	APART struct utsname u;
	APART int fds[2];
	APART char is[16];
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	AWAY(u);
	check("uname", !syscall(SYS_uname, &u) && !strcmp(u.sysname, "Linux"));
	memset(back, 0, PAGE);
	away(back, PAGE);
	check("getrandom",
	      syscall(SYS_getrandom, back, 256l, 0) == 256 && !back[256] &&
		      memcmp(back, back + 256, 256));
	AWAY(l);
	check("fcntl", !syscall(SYS_fcntl, fd, F_SETLK, &l));
	strcpy(name, "a name");
	AWAY(name);
	AWAY(is);
	check("prctl",
	      !syscall(SYS_prctl, PR_SET_NAME, name) && !syscall(SYS_prctl, PR_GET_NAME, is) &&
		      !strcmp(is, name));
	AWAY(fds);
	check("pipe2", !syscall(SYS_pipe2, fds, O_CLOEXEC) && !close(fds[0]) && !close(fds[1]));
	close(fd);
}

/* All six arguments, any result, errno. */
static void passed(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	char *volatile hole = (char *)8;
	APART struct timespec soon = { .tv_nsec = 1000000 };
	APART int word = 0;
	char *map;
	int *free_word;

	fill(text, 2 * PAGE, 4);
	check("write", write(fd, text, 2 * PAGE) == (ssize_t)(2 * PAGE));
	map = (char *)syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, PAGE);
	check("mmap", map != MAP_FAILED && !memcmp(map, text + PAGE, PAGE));
	check("munmap", !syscall(SYS_munmap, map, PAGE));
	check("mmap, wrong",
	      syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 1l) == -1 &&
		      errno == EINVAL);
	check("getpid", syscall(SYS_getpid) == getpid());
	errno = 5;
	check("errno", syscall(SYS_getppid) == getppid() && errno == 5);
	check("no such call", syscall(100000l) == -1 && errno == ENOSYS);
	check("no call", syscall(-1l) == -1 && errno == ENOSYS);
	away(text, PAGE);
	check("read of no descriptor", syscall(SYS_read, -1, text, PAGE) == -1 && errno == EBADF);
	check("write from nowhere", syscall(SYS_write, fd, hole, 10l) == -1 && errno == EFAULT);
	check("uname to nowhere", syscall(SYS_uname, hole) == -1 && errno == EFAULT);

	/*
	 * On private memory, a futex is the kernel's; on shared memory, the word need not be here.
	 */
	free_word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check("futex",
	      syscall(SYS_futex, free_word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0) == -1 &&
		      errno == EAGAIN);
	AWAY(soon);
	check("futex with a limit",
	      syscall(SYS_futex, free_word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0) == -1 &&
		      errno == ETIMEDOUT);
	AWAY(word);
	check("futex on a shared word",
	      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0) == -1 &&
		      errno == EAGAIN);
	close(fd);
}

static long got;

/* It is cancelled, and lives on in syscall(2). */
static void *cancelled(void *arg)
{
	int fd = open("/dev/zero", O_RDONLY);

	pthread_cancel(pthread_self());
	got = syscall(SYS_read, fd, arg, 3 * PAGE);
	got += syscall(SYS_getrandom, arg, 256l, 0);
	pthread_testcancel();
	got = -1;
	return NULL;
}

static void cancellation(void)
{
	pthread_t thread;
	void *result;

	away(back, 3 * PAGE);
	pthread_create(&thread, NULL, cancelled, back);
	pthread_join(thread, &result);
	check("no cancellation point", got == 3 * (long)PAGE + 256 && result == PTHREAD_CANCELED);
}

int main(void)
{
	alarm(100);
	begin();
	files();
	sockets();
	different();
	others();
	passed();
	cancellation();
	return finish();
}

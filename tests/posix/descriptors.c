// SPDX-License-Identifier: BSD-2-Clause
/*
 * descriptors.c - descriptors, paths and folders, which belong to the process; system calls by
 * number.
 */
#define _GNU_SOURCE
#include "cases.h"

#include <aio.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <fts.h>
#include <glob.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <threads.h>
#include <wordexp.h>

static int new_file(const char *text)
{
	int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		say("new_file %s", error_name(errno));
	return fd;
}

CASE(fd_read_write, EACH)
{
	char text[16] = "", more[8] = "";
	struct iovec v[2] = { { text, 3 }, { more, 4 } };
	int fd = new_file("0123456789");
	struct stat st;

	say_call(lseek(fd, 2, SEEK_SET));
	say_call(read(fd, text, 3));
	say("%s", text);
	say_call(pread(fd, text, 4, 5));
	say("%s", text);
	say_call(pwrite(fd, "ab", 2, 8));
	say_call(lseek(fd, 0, SEEK_CUR));
	say_call(readv(fd, v, 2));
	say("%.3s %s", text, more);
	say_call(writev(fd, v, 2));
	say_call(ftruncate(fd, 4));
	say_call(fstat(fd, &st));
	say("%ld", (long)st.st_size);
	say_call(lseek(fd, 0, SEEK_END));
	say_call(lseek(fd, -1, SEEK_SET));
	say_call(fsync(fd));
	say_call(read(fd, text, 3));
	say_call(close(fd));
	say_call(read(fd, text, 3));
	say_call(close(fd));
}

static int shared_fd;

static void *read_four(void *arg)
{
	char text[8] = "";

	say_call(read(shared_fd, text, 4));
	say("%s", text);
	return arg;
}

static void *close_it(void *arg)
{
	say_call(close(shared_fd));
	return arg;
}

static void *open_it(void *arg)
{
	shared_fd = new_file("opened by another");
	lseek(shared_fd, 0, SEEK_SET);
	return arg;
}

CASE(fd_shared_offset, EACH)
{
	shared_fd = new_file("onlytwowordsthree");
	lseek(shared_fd, 0, SEEK_SET);
	apart(read_four, NULL);
	read_four(NULL);
	apart(read_four, NULL);
	say_call(lseek(shared_fd, 0, SEEK_CUR));
	apart(close_it, NULL);
	read_four(NULL);
	apart(open_it, NULL);
	read_four(NULL);
	close_it(NULL);
}

CASE(fd_duplicates, EACH)
{
	int fd = new_file("duplicate"), other = dup(fd), high;
	char text[16] = "";

	say_call(lseek(fd, 3, SEEK_SET));
	say_call(read(other, text, 3));
	say("%s", text);
	close(other);
	say("%d", dup(fd) == other); /* the lowest free number */
	say("%d", dup2(fd, other) == other);
	say("%d", dup3(fd, other, O_CLOEXEC) == other);
	say_call(fcntl(other, F_GETFD));
	say_call(fcntl(other, F_SETFD, 0));
	say_call(fcntl(other, F_GETFD));
	say_call(dup3(fd, fd, 0));
	say_call(dup2(fd, -1));
	say_call(dup2(-1, fd));
	high = fcntl(fd, F_DUPFD, 200);
	say("%d", high >= 200);
	say_call(close(high));
	say_call(close(other));
	say_call(fcntl(fd, F_SETFL, O_APPEND));
	say("%d", (fcntl(fd, F_GETFL) & O_APPEND) != 0);
	say_call(fcntl(fd, 12345));
	close(fd);
}

CASE(fd_pipes, EACH)
{
	struct pollfd p = { .events = POLLIN };
	struct timeval no = { 0 };
	char text[8] = "";
	fd_set set;
	int ends[2];

	say_call(pipe2(ends, O_NONBLOCK));
	say_call(read(ends[0], text, 1));
	p.fd = ends[0];
	say_call(poll(&p, 1, 0));
	say_call(poll(&p, 1, 10));
	say_call(write(ends[1], "hello", 5));
	say_call(poll(&p, 1, 1000));
	say("%d", p.revents == POLLIN);
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	say_call(select(ends[0] + 1, &set, NULL, NULL, &no));
	say("%d", FD_ISSET(ends[0], &set) != 0);
	say_call(read(ends[0], text, 8));
	say("%s", text);
	say_call(lseek(ends[0], 0, SEEK_CUR));
	close(ends[1]);
	say_call(read(ends[0], text, 8));
	say_call(poll(&p, 1, 0));
	say("%d", p.revents == POLLHUP);
	close(ends[0]);
	p.fd = ends[0];
	say_call(poll(&p, 1, 0));
	say("%d", p.revents == POLLNVAL);
}

static void *write_later(void *arg)
{
	wait_ms(30);
	return (void *)write(shared_fd, "12345678", (size_t)(intptr_t)arg);
}

/* Functions that end in a jump to one of the C library, which returns to the caller. */
static void *write_last(void *arg)
{
	return (void *)write(shared_fd, arg, 5);
}

static int write_c11(void *arg)
{
	return (int)write(shared_fd, arg, 3);
}

static void write_value(void *value)
{
	if (write(shared_fd, value, 4) < 0)
		abort();
}

static void write_once(void)
{
	write_value("once");
}

static void write_in_handler(int sig)
{
	write_value(sig == SIGUSR1 ? "hand" : "what");
}

static void *write_by_others(void *arg)
{
	static pthread_once_t once;
	static pthread_key_t key;

	once = (pthread_once_t)PTHREAD_ONCE_INIT;
	pthread_once(&once, write_once);
	signal(SIGUSR1, write_in_handler);
	raise(SIGUSR1);
	pthread_key_create(&key, write_value);
	pthread_setspecific(key, arg);
	return NULL;
}

CASE(fd_tail_calls, EACH)
{
	char text[64] = "";
	thrd_t thread;
	int got = 0;

	shared_fd = new_file("");
	say_call((long)apart(write_last, "first"));
	say_call((long)apart(write_last, "again"));
	thrd_create(&thread, write_c11, "c11");
	thrd_join(thread, &got);
	say("%d", got);
	apart(write_by_others, "gone");
	apart(write_by_others, "left");
	say_call(pread(shared_fd, text, sizeof(text), 0));
	say("%s", text);
	close(shared_fd);
}

CASE(fd_waits, EACH)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = 77 }, got = { 0 };
	struct timespec soon = { .tv_nsec = 10000000 };
	struct pollfd p = { .events = POLLIN };
	int poller = epoll_create1(EPOLL_CLOEXEC), ends[2];
	pthread_t thread;
	sigset_t set;
	char text[8];

	sigfillset(&set);
	say_call(pipe(ends));
	say("%d", poller >= 0);
	say_call(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &e));
	say_call(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &e));
	say_call(epoll_wait(poller, &got, 1, 10));
	shared_fd = ends[1];
	thread = start(write_later, (void *)8);
	say_call(epoll_wait(poller, &got, 1, 10000));
	say_call((long)ended(thread));
	say("%u", got.data.u32);
	say_call(epoll_pwait(poller, &got, 1, 0, &set));
	p.fd = ends[0];
	say_call(ppoll(&p, 1, &soon, &set));
	say_call(read(ends[0], text, 8));
	say_call(ppoll(&p, 1, &soon, &set));
	say_call(epoll_ctl(poller, EPOLL_CTL_DEL, ends[0], NULL));
	say_call(epoll_wait(poller, &got, 0, 0));
	close(poller);
	close(ends[0]);
	close(ends[1]);
}

CASE(fd_events, EACH)
{
	struct itimerspec t = { .it_value = { .tv_nsec = 10000000 } };
	int event = eventfd(3, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t n = 5;

	say_call(write(event, &n, sizeof(n)));
	say_call(read(event, &n, sizeof(n)));
	say("%lu", (unsigned long)n);
	say_call(read(event, &n, sizeof(n)));
	say_call(timerfd_settime(timer, 0, &t, NULL));
	say_call(read(timer, &n, sizeof(n)));
	say("%lu", (unsigned long)n);
	close(event);
	close(timer);
}

CASE(fd_sockets, EACH)
{
	char text[16] = "", space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = "";
	struct iovec v = { text, 4 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = space,
			    .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pair[2], type = 0, fd = new_file("passed"), got;
	socklen_t size = sizeof(type);

	say_call(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	say_call(send(pair[0], "text", 4, MSG_NOSIGNAL));
	say_call(recv(pair[1], text, 8, MSG_PEEK));
	say_call(recv(pair[1], text, 8, 0));
	say_call(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &size));
	say("%d", type == SOCK_STREAM);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	say_call(sendmsg(pair[0], &m, 0));
	say_call(recvmsg(pair[1], &m, 0));
	memcpy(&got, CMSG_DATA(c), sizeof(got));
	memset(text, 0, sizeof(text));
	say_call(pread(got, text, 6, 0));
	say("%s", text);
	say_call(shutdown(pair[0], SHUT_WR));
	say_call(recv(pair[1], text, 8, 0));
	say_call(send(pair[0], "x", 1, MSG_NOSIGNAL));
	close(got);
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

static void *connect_to(void *arg)
{
	int s = socket(AF_INET, SOCK_STREAM, 0), err = connect(s, arg, sizeof(struct sockaddr_in));
	ssize_t n = write(s, "over a network", 14);

	close(s);
	return (void *)(err ? -1 : n);
}

CASE(fd_network, EACH)
{
	struct sockaddr_in *a = calloc(1, sizeof(*a));
	socklen_t size = sizeof(*a);
	int s = socket(AF_INET, SOCK_STREAM, 0), peer;
	char text[16] = "";
	pthread_t thread;

	a->sin_family = AF_INET;
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	say_call(bind(s, (struct sockaddr *)a, size));
	say_call(listen(s, 1));
	say_call(getsockname(s, (struct sockaddr *)a, &size));
	thread = start(connect_to, a);
	peer = accept(s, NULL, NULL);
	say("%d", peer >= 0);
	say_call((long)ended(thread));
	say_call(recv(peer, text, 14, MSG_WAITALL));
	say("%s", text);
	close(peer);
	close(s);
	free(a);
}

CASE(fd_locks, EACH)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 4 };
	int fd = new_file("locked"), other = open("data", O_RDWR);

	say_call(fcntl(fd, F_SETLK, &l));
	say_call(fcntl(other, F_GETLK, &l));
	say("%d", l.l_type == F_UNLCK); /* the same process */
	say_call(flock(fd, LOCK_EX));
	say_call(flock(other, LOCK_EX | LOCK_NB));
	say_call(flock(fd, LOCK_UN));
	say_call(lockf(fd, F_TLOCK, 0));
	close(fd);
	close(other);
}

static int count_entry(const char *path, const struct stat *st, int flag, struct FTW *where)
{
	(void)st;
	say("%s %d %d", path + where->base, flag == FTW_D, where->level);
	return 0;
}

static int is_named(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

CASE(fd_folders, EACH)
{
	struct dirent *e, **list = NULL;
	char path[PATH_MAX], *whole;
	int n = 0, i;
	DIR *d;

	say_call(mkdir("folder", 0700));
	say_call(mkdir("folder", 0700));
	close(open("folder/a", O_CREAT | O_WRONLY, 0600));
	close(open("folder/b", O_CREAT | O_WRONLY, 0600));
	d = opendir("folder");
	while ((e = readdir(d)))
		n += is_named(e);
	say("%d", n);
	rewinddir(d);
	say("%d", readdir(d) != NULL);
	say("%d", dirfd(d) >= 0);
	say_call(closedir(d));
	n = scandir("folder", &list, is_named, alphasort);
	say("%d", n);
	for (i = 0; i < n; i++) {
		say("%s", list[i]->d_name);
		free(list[i]);
	}
	free(list);
	say_call(nftw("folder/a", count_entry, 4, FTW_PHYS));
	whole = realpath("folder/../folder/./b", NULL);
	say("%s", whole ? strrchr(whole, '/') : error_name(errno));
	free(whole);
	say("%d", realpath("no", path) == NULL);
	whole = getcwd(NULL, 0);
	say("%d", whole != NULL && getcwd(path, sizeof(path)) && !strcmp(whole, path));
	free(whole);
	say("%d", getcwd(path, 1) == NULL);
	say("%d", opendir("none") == NULL);
	say_call(rmdir("folder"));
	unlink("folder/a");
	unlink("folder/b");
	say_call(rmdir("folder"));
}

CASE(fd_paths, EACH)
{
	struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } };
	char text[32] = "";
	struct stat st;
	int fd = new_file("path");

	close(fd);
	say_call(access("data", R_OK | W_OK));
	say_call(chmod("data", 0640));
	say_call(utimensat(AT_FDCWD, "data", times, 0));
	say_call(stat("data", &st));
	say("%o", (unsigned int)st.st_mode);
	say("%ld", (long)st.st_mtime);
	say_call(symlink("data", "link"));
	say_call(readlink("link", text, sizeof(text)));
	say("%s", text);
	say_call(lstat("link", &st));
	say("%d", S_ISLNK(st.st_mode));
	say_call(link("data", "other"));
	say_call(stat("other", &st));
	say("%ld", (long)st.st_nlink);
	say_call(rename("other", "moved"));
	say_call(unlink("moved"));
	say_call(unlink("moved"));
	say_call(unlink("link"));
	say_call(truncate("data", 2));
	say_call(mkfifo("fifo", 0600));
	say_call(unlink("fifo"));
	say_call(open("data/x", O_RDONLY));
	say_call(open(".", O_WRONLY));
	say_call(open("data", O_CREAT | O_EXCL, 0600));
	say_call(open("", O_RDONLY));
}

static void *patterns_of(void *arg)
{
	glob_t g;
	wordexp_t w;
	char *paths[] = { ".", NULL };
	FTS *t;

	close(open("glob-a", O_CREAT | O_WRONLY, 0600));
	close(open("glob-b", O_CREAT | O_WRONLY, 0600));
	say("%d", glob("glob-*", 0, NULL, &g));
	say("%zu %s", g.gl_pathc, g.gl_pathv[0]);
	globfree(&g);
	say("%d", wordexp("one $((1+1)) glob-*", &w, 0));
	say("%zu %s", w.we_wordc, w.we_wordv[1]);
	wordfree(&w);
	t = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	say("%d", t && fts_read(t) != NULL);
	if (t)
		say("%d", fts_close(t));
	return arg;
}

CASE(fd_patterns, EACH)
{
	patterns_of(NULL);
}

CASE(fd_asynchronous, EACH)
{
	struct aiocb *cb = calloc(1, sizeof(*cb));
	const struct aiocb *list[] = { cb };
	char *text = calloc(1, 16);

	cb->aio_fildes = new_file("asynchronous");
	cb->aio_buf = text;
	cb->aio_nbytes = 12;
	say_call(aio_read(cb));
	say_call(aio_suspend(list, 1, NULL));
	say("%d", aio_error(cb));
	say_call(aio_return(cb));
	say("%s", text);
	cb->aio_offset = 12;
	say_call(aio_write(cb));
	while (aio_error(cb) == EINPROGRESS)
		wait_ms(1);
	say_call(aio_return(cb));
	say_call(lseek(cb->aio_fildes, 0, SEEK_END));
	close(cb->aio_fildes);
	free(text);
	free(cb);
}

/* ---- by number ------------------------------------------------------------------------------- */

static uint32_t word;

static void *wait_word(void *arg)
{
	const struct timespec late = { .tv_sec = 20 };

	say_call(syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL));
	say_call(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &late));
	return arg;
}

CASE(futexes, EACH)
{
	const struct timespec soon = { .tv_nsec = 10000000 };
	pthread_t thread = start(wait_word, NULL);
	int woken = 0;

	while (!woken) {
		wait_ms(5);
		woken = (int)syscall(SYS_futex, &word, FUTEX_WAKE, 1);
	}
	ended(thread);
	say_call(woken);
	say_call(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &soon));
	say_call(syscall(SYS_futex, &word, FUTEX_WAKE, 1));
}

CASE(futex_many, EACH)
{
	struct {
		uint64_t value, address;
		uint32_t flags, reserved;
	} v = { 1, (uintptr_t)&word, 2, 0 };

	say_call(syscall(SYS_futex_waitv, &v, 1, 0, NULL, 0));
}

CASE(by_number, EACH)
{
	char text[8] = "";
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "data", O_RDWR | O_CREAT | O_TRUNC, 0600);

	say("%d", fd >= 0);
	say_call(syscall(SYS_write, fd, "number", 6));
	say_call(syscall(SYS_pread64, fd, text, 3, 0));
	say("%s", text);
	say_call(syscall(SYS_close, fd));
	say_call(syscall(SYS_close, fd));
	say("%d", syscall(SYS_getpid) == getpid());
	say("%d", syscall(SYS_gettid) == gettid());
	say_call(syscall(99999));
}

/* Those that a thread of another rank is refused: what they are natively depends on the host. */
CASE(fd_refused, EACH | ALONE)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr) };
	char zero[128] = "";

	say("%d", (syscall(SYS_userfaultfd, 0x7fffffff) < 0 ? errno : 0) == ENOSYS);
	say("%d", (syscall(SYS_perf_event_open, &attr, 0, -1, -1, -1L) < 0 ? errno : 0) == ENOSYS);
	say("%d", (syscall(SYS_bpf, 12345, zero, sizeof(zero)) < 0 ? errno : 0) == ENOSYS);
	say("%d", (syscall(SYS_io_uring_setup, 0, zero) < 0 ? errno : 0) == ENOSYS);
	say("%d", (syscall(SYS_execveat, -1, "nothing", NULL, NULL, 0) < 0 ? errno : 0) == ENOSYS);
}

/* How many of these are refused, on no descriptor. */
CASE(fd_refused_numbers, EACH | ALONE)
{
	struct sockaddr_in group = { .sin_family = AF_INET };
	struct sockaddr_storage sources[1] = { 0 };
	struct iovec v = { sources, 1 };
	uint32_t mode = 0, n = 0;
	int sum = 0;

	sum += vmsplice(-1, &v, 1, 0) < 0 && errno == ENOSYS;
	sum += setns(-1, 0) < 0 && errno == ENOSYS;
	sum += fsconfig(-1, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 && errno == ENOSYS;
	sum += process_madvise(-1, &v, 1, MADV_COLD, 0) < 0 && errno == ENOSYS;
	sum += process_mrelease(-1, 0) < 0 && errno == ENOSYS;
	sum += getsourcefilter(-1, 0, (struct sockaddr *)&group, sizeof(group), &mode, &n,
			       sources) < 0 &&
		errno == ENOSYS;
	sum += setsourcefilter(-1, 0, (struct sockaddr *)&group, sizeof(group), MCAST_INCLUDE, 0,
			       sources) < 0 &&
		errno == ENOSYS;
	say("%d", sum);
}

static void *close_high(void *arg)
{
	int fd = dup2(new_file("range"), 900);

	say_call(close_range(900, 1000, 0));
	say_call(close(fd));
	fd = dup2(new_file("range"), 900);
	closefrom(800);
	say_call(close(fd));
	say_call(close_range(10, 5, 0));
	return arg;
}

CASE(fd_close_ranges, EACH)
{
	close_high(NULL);
}

CASE(fd_close_all, ALONE)
{
	say_call(close_range(3, ~0u, 0));
	apart(close_high, NULL);
	say_call(close_range(3, ~0u, 0));
}

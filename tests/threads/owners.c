/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owners.c - descriptors and streams that several threads use at a time: ends of pipes, record
 * locks, numbers, order of output, code that looks into streams, wide characters, and descriptors
 * that come in messages. Each is that of one process, whichever rank calls.
 */
#define _GNU_SOURCE
#include "steps.h"

#include <err.h>
#include <errno.h>
#include <error.h>
#include <execinfo.h>
#include <fcntl.h>
#include <mntent.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

enum { THREADS = 4, LINES = 600, ROUNDS = 60 };

static char folder[] = "/tmp/owners.XXXXXX", path[64];
static int ends[2], pair[2], fd, listener;
static FILE *made;
static pthread_barrier_t together;

/* ---- the end of a pipe ----------------------------------------------------------------------- */

/* One thread reads to the end; the writing end has two numbers, which two others close. */
static void *by_end(void *arg)
{
	static int copy, count;
	char c;

	if (!arg) {
		until(3);
		while (read(ends[0], &c, 1) == 1)
			count++;
		check("end of a pipe", count == 2);
	} else if (arg == (void *)1) {
		copy = dup(ends[1]);
		go_to(1);
		until(2);
		go_to(3);
		check("first end", write(copy, "a", 1) == 1 && !close(copy));
		go_to(4);
	} else {
		until(1);
		go_to(2);
		until(4);
		check("second end", write(ends[1], "b", 1) == 1 && !close(ends[1]));
	}
	return arg;
}

/* ---- locks of records ------------------------------------------------------------------------ */

static struct flock whole(int type)
{
	return (struct flock){ .l_type = (short)type, .l_whence = SEEK_SET };
}

/* Another process: the lock that it finds is that of `pid`. */
static int finds_lock(const char *file, long pid)
{
	struct flock lock = whole(F_WRLCK);
	const int f = open(file, O_RDWR);

	return f < 0 || fcntl(f, F_GETLK, &lock) || lock.l_type != (pid ? F_WRLCK : F_UNLCK) ||
		(pid && lock.l_pid != pid);
}

static int child_finds(long pid)
{
	char number[24], self[] = "/proc/self/exe", *words[] = { self, path, number, NULL };
	int status = -1;
	pid_t child;

	snprintf(number, sizeof(number), "%ld", pid);
	return !posix_spawn(&child, self, NULL, NULL, words, environ) &&
		waitpid(child, &status, 0) == child && !status;
}

/* Locks of records are the process's: threads do not exclude each other, and closing any descriptor
 * of the file drops them. */
static void *by_record(void *arg)
{
	struct flock lock = whole(F_WRLCK), seen = whole(F_WRLCK);
	const int own = open(path, O_RDWR);

	check("F_SETLK", !fcntl(own, F_SETLK, &lock));
	pthread_barrier_wait(&together);
	check("F_GETLK", !fcntl(own, F_GETLK, &seen) && seen.l_type == F_UNLCK);
	if (!arg)
		check("lock of the process", child_finds(getpid()));
	pthread_barrier_wait(&together);
	close(own);
	pthread_barrier_wait(&together);
	if (arg)
		check("lock after close", child_finds(0));
	return arg;
}

/* Locks of open files are not: the second thread waits until the first one's only descriptor is
 * closed. */
static void *by_open_file(void *arg)
{
	const int own = open(path, O_RDWR);
	struct flock lock = whole(F_WRLCK);
	static int closed;

	if (!arg)
		check("F_OFD_SETLK", !fcntl(own, F_OFD_SETLK, &lock));
	pthread_barrier_wait(&together);
	if (arg) {
		check("F_OFD_SETLK elsewhere",
		      fcntl(own, F_OFD_SETLK, &lock) == -1 && errno == EAGAIN);
		go_to(11);
		check("F_OFD_SETLKW", !fcntl(own, F_OFD_SETLKW, &lock) && closed);
	} else {
		until(11);
		usleep(20000);
		closed = 1;
	}
	return close(own) ? NULL : arg;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* No number is given twice while it is open. */
static void *by_race(void *arg)
{
	static int used[1024];
	int i, a, b;

	for (i = 0; i < ROUNDS; i++) {
		a = open("/dev/null", O_RDWR);
		b = dup(a);
		if (a < 0 || b < 0 || __atomic_fetch_add(&used[a], 1, __ATOMIC_SEQ_CST) ||
		    __atomic_fetch_add(&used[b], 1, __ATOMIC_SEQ_CST))
			check("one number each", 0);
		__atomic_fetch_sub(&used[a], 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&used[b], 1, __ATOMIC_SEQ_CST);
		check("close", !close(a) && !close(b));
	}
	return arg;
}

/* ---- output of all threads ------------------------------------------------------------------- */

/* Half of the threads lock the stream and print a line in parts, the others print one at once. And
 * all append to one file, each by an open file of its own. */
static void *by_line(void *arg)
{
	const int own = open(path, O_WRONLY | O_APPEND), who = (int)(long)arg;
	char line[32];
	int i;

	for (i = 0; i < LINES; i++) {
		if (who % 2) {
			fprintf(made, "%d %d %s\n", who, i, "whole");
		} else {
			flockfile(made);
			fprintf(made, "%d ", who);
			fprintf(made, "%d whole\n", i);
			funlockfile(made);
		}
		snprintf(line, sizeof(line), "%d %d whole\n", who, i);
		if (write(own, line, strlen(line)) != (ssize_t)strlen(line))
			check("append", 0);
	}
	close(own);
	return arg;
}

static int whole_lines(FILE *f)
{
	int next[THREADS] = { 0 }, lines = 0, who, n, at = -1;
	char line[64];

	rewind(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "%d %d whole%n", &who, &n, &at) == 2 &&
	       at > 0 && line[at] == '\n' && who >= 0 && who < THREADS && next[who] == n) {
		next[who]++;
		lines++;
		at = -1;
	}
	return lines;
}

static void *ends_stream(void *arg)
{
	check("fclose elsewhere", !fclose(made));
	return arg;
}

/* ---- what looks into a stream ---------------------------------------------------------------- */

/* Compilers expand these functions. Half of the file is read by main(), and flags are cleared
 * there. */
static void *by_parts(void *arg)
{
	check("getc_unlocked",
	      getc_unlocked(made) == 'c' && getc_unlocked(made) == 'd' && !feof_unlocked(made));
	check("end", getc_unlocked(made) == EOF && feof_unlocked(made) && !ferror_unlocked(made));
	go_to(31);
	until(32);
	check("end is cleared", !feof_unlocked(made) && getc_unlocked(made) == 'a');
	check("no output", putc_unlocked('x', made) == EOF && ferror_unlocked(made));
	go_to(33);
	until(34);
	check("error is cleared", !ferror_unlocked(made));
	return arg;
}

/* More streams than there are places for: each begins without the flags of the last one. */
static void *by_number(void *arg)
{
	FILE *f;
	int i;

	for (i = 0; i < 1100; i++) {
		f = fopen("/dev/null", "r");
		if (!f || feof_unlocked(f) || getc_unlocked(f) != EOF || !feof_unlocked(f) ||
		    fclose(f)) {
			check("a stream without flags", 0);
			break;
		}
	}
	return arg;
}

static void look_into_streams(void)
{
	pthread_t t;

	made = fopen(path, "w");
	check("putc_unlocked", putc_unlocked('a', made) == 'a' && fputs("bcd", made) >= 0);
	check("written", !fclose(made));
	made = fopen(path, "r");
	check("first half", getc_unlocked(made) == 'a' && getc_unlocked(made) == 'b');
	pthread_create(&t, NULL, by_parts, NULL);
	until(31);
	rewind(made);
	go_to(32);
	until(33);
	clearerr(made);
	go_to(34);
	pthread_join(t, NULL);
	fclose(made);
	in_threads(1, by_number);
}

/* ---- wide characters, mounted file systems --------------------------------------------------- */

static void *by_wide(void *arg)
{
	static const wchar_t text[] = L"wide\n";
	wchar_t line[16] = L"";

	check("fwprintf", fwprintf(made, L"%ls %d%lc|\n", L"number", 7, L'\0') == 11);
	check("fputws", fputws(text, made) >= 0 && fputws(L"end", made) >= 0);
	rewind(made);
	check("fgetws", fgetws(line, 16, made) == line && !wmemcmp(line, L"number 7\0|\n", 12));
	check("next line", fgetws(line, 16, made) == line && !wcscmp(line, text));
	check("short", fgetws(line, 3, made) == line && !wcscmp(line, L"en"));
	check("last", fgetws(line, 16, made) == line && !wcscmp(line, L"d"));
	check("wide end", !fgetws(line, 16, made) && feof(made));
	return arg;
}

static void *by_mounts(void *arg)
{
	struct mntent m = {
		(char *)"disk", (char *)"/a b", (char *)"ext4", (char *)"rw,quiet", 1, 2
	};
	struct mntent *got, own;
	FILE *f = setmntent(path, "w+");
	char room[64];

	check("addmntent", f && !addmntent(f, &m) && !addmntent(f, &m));
	rewind(f);
	got = getmntent(f);
	check("getmntent", got && !strcmp(got->mnt_dir, "/a b") && got->mnt_passno == 2);
	check("hasmntopt", got && hasmntopt(got, "quiet"));
	got = getmntent_r(f, &own, room, sizeof(room));
	check("getmntent_r",
	      got == &own && own.mnt_fsname == room && !strcmp(own.mnt_type, "ext4"));
	check("last entry", !getmntent(f) && endmntent(f) == 1);
	return arg;
}

/* ---- messages, what is cancelled ------------------------------------------------------------- */

/* A descriptor comes in a message: a new number of the same file. */
static void *by_message(void *arg)
{
	char room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(16))) = "", text[8] = "";
	struct iovec v = { text, 3 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int got;

	if (!arg) {
		strcpy(text, "fd");
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
		check("sendmsg", sendmsg(pair[0], &m, 0) == 3);
		return NULL;
	}
	check("recvmsg", recvmsg(pair[1], &m, 0) == 3 && !strcmp(text, "fd"));
	c = CMSG_FIRSTHDR(&m);
	check("control", c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)));
	memcpy(&got, CMSG_DATA(c), sizeof(got));
	check("the same file",
	      got != fd && lseek(got, 0, SEEK_CUR) == 7 && lseek(got, 5, SEEK_SET) == 5);
	check("closed", !close(got) && lseek(fd, 0, SEEK_CUR) == 5);
	return arg;
}

static void *accepts(void *arg)
{
	struct sockaddr_un from;
	socklen_t size = sizeof(from);

	go_to(21);
	return (void *)(long)accept(listener, (struct sockaddr *)&from, arg ? NULL : &size);
}

/* A thread that waits for a connection is cancelled; the next one is not lost. */
static void cancel_accept(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	void *result = NULL;
	pthread_t t;
	int s;

	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s", folder);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	check("listen",
	      !bind(listener, (struct sockaddr *)&name, sizeof(name)) && !listen(listener, 4));
	pthread_create(&t, NULL, accepts, NULL);
	until(21);
	usleep(20000);
	pthread_cancel(t);
	check("cancelled", !pthread_join(t, &result) && result == PTHREAD_CANCELED);
	pthread_create(&t, NULL, accepts, NULL);
	s = socket(AF_UNIX, SOCK_STREAM, 0);
	check("connect", !connect(s, (struct sockaddr *)&name, sizeof(name)));
	check("accept", !pthread_join(t, &result) && (long)result > 0 && write(s, "x", 1) == 1);
	check("connection", read((int)(long)result, path + 63, 1) == 1 && path[63] == 'x');
	close(s);
	close(listener);
	close((int)(long)result);
}

/* ---- standard error, calls by number --------------------------------------------------------- */

static void *by_error(void *arg)
{
	void *at[] = { (void *)by_error };
	struct stat st;

	errno = ENOENT;
	warn("warned %d", 1);
	check("errno", errno == ENOENT);
	warnx("%s: %m", "warned");
	warn(NULL);
	error(0, EPERM, "error %d", 2);
	error_at_line(0, 0, "file.c", 7, "at %s", "line");
	check("messages", !fstat(fd, &st) && st.st_size > 0);
	backtrace_symbols_fd(at, 1, fd);
	return arg;
}

/* Messages go to what the program has made its standard error. */
static void redirect(void)
{
	const char *name = program_invocation_short_name, *whole_name = program_invocation_name;
	const int saved = dup(2);
	char want[512], got[1024] = "";
	int n;

	n = snprintf(
		want, sizeof(want),
		"%s: warned 1: %s\n%s: warned: %s\n%s: %s\n%s: error 2: %s\n%s:file.c:7: at line\n",
		name, strerror(ENOENT), name, strerror(ENOENT), name, strerror(ENOENT), whole_name,
		strerror(EPERM), whole_name);
	check("redirected", !ftruncate(fd, 0) && !lseek(fd, 0, SEEK_SET) && dup2(fd, 2) == 2);
	in_threads(1, by_error);
	check("restored", dup2(saved, 2) == 2 && !close(saved));
	check("text of messages",
	      pread(fd, got, sizeof(got) - 1, 0) > n && !strncmp(got, want, (size_t)n));
	check("symbols", strchr(got + n, '[') && strchr(got + n, '\n'));
}

static void *by_system_call(void *arg)
{
	const int top = open("/", O_RDONLY | O_DIRECTORY);
	const long process = syscall(SYS_pidfd_open, getpid(), 0);
	char here[64] = "";

	check("fchdir by number",
	      !syscall(SYS_fchdir, top) && getcwd(here, sizeof(here)) && !strcmp(here, "/"));
	check("chdir by number", !syscall(SYS_chdir, folder) && !access("one", F_OK));
	check("pidfd_send_signal",
	      process >= 0 && !syscall(SYS_pidfd_send_signal, process, 0, NULL, 0));
	check("its function", !pidfd_send_signal((int)process, 0, NULL, 0));
	close(top);
	close((int)process);
	return arg;
}

int main(int argc, char **argv)
{
	FILE *f;

	if (argc == 3)
		return finds_lock(argv[1], atol(argv[2]));
	check("mkdtemp", mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path) - 1, "%s/one", folder);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	pthread_barrier_init(&together, NULL, 2);
	check("pipe", !pipe(ends) && !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	in_threads(3, by_end);
	in_threads(2, by_record);
	in_threads(2, by_open_file);
	in_threads(THREADS, by_race);
	made = tmpfile();
	in_threads(THREADS, by_line);
	check("lines of a stream", whole_lines(made) == THREADS * LINES);
	in_threads(1, ends_stream);
	f = fopen(path, "r");
	check("lines of a file", whole_lines(f) == THREADS * LINES && !fclose(f));
	look_into_streams();
	made = tmpfile();
	in_threads(1, by_wide);
	fclose(made);
	in_threads(1, by_mounts);
	check("offset", lseek(fd, 7, SEEK_SET) == 7);
	in_threads(2, by_message);
	cancel_accept();
	redirect();
	in_threads(1, by_system_call);
	check("the folder of the process",
	      !access("one", F_OK) && !chdir("/") && access("one", F_OK));
	tell("pipes, locks, numbers, lines, streams, messages\n");
	unlink(path);
	rmdir(folder);
	return conclude();
}

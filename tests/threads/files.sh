# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: calls on files that are refused, what ends a waiting one, standard
# input and output of threads on other ranks, and libraries that have descriptors and streams.
# Programs whose calls all work are in files.c.

program refusals <<'END'
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>
static const char *what;
static void *own(void *arg)
{
	int i, bad = 0;
	/* each number that main() has not opened is no descriptor, whatever libdsm has there */
	for (i = 3; i < 700; i++) {
		char c = 0;
		bad += write(i, &c, 1) != -1 || errno != EBADF;
		bad += fcntl(i, F_GETFD) != -1 || errno != EBADF;
		bad += close(i) != -1 || errno != EBADF;
		bad += syscall(SYS_close, i) != -1 || errno != EBADF;
		bad += ftruncate(i, 0) != -1;
	}
	fprintf(stderr, "own: %d\n", bad);
	return arg;
}
static void *onto(void *arg)
{
	int i, refused = 0;
	for (i = 3; i < 700; i++)
		refused += dup2(0, i) != i && errno == EBADF;
	fprintf(stderr, "onto: %d\n", refused > 0 && refused < 188);
	return arg;
}
static void *child(void *arg)
{
	int status = -1;
	pid_t pid = vfork();
	if (!pid)
		_exit(write(1, "x", 1) == -1 && errno == EBADF ? 5 : 6);
	waitpid(pid, &status, 0);
	fprintf(stderr, "child: %d\n", WEXITSTATUS(status));
	return arg;
}
static void *wide(void *arg)
{
	fprintf(stderr, "wide: %d\n", wscanf(L"text\n") == WEOF);
	return arg;
}
/* Not by rank 0, and not by what this rank has under the number. */
static void *mine(void *arg)
{
	struct iovec v = { arg, 1 };
	int ends[2], refused = pipe(ends);
	refused += vmsplice(ends[1], &v, 1, 0) == -1 && errno == ENOSYS;
	refused += setns(ends[0], 0) == -1 && errno == ENOSYS;
	refused += syscall(SYS_vmsplice, ends[1], &v, 1, 0) == -1 && errno == ENOSYS;
	refused += syscall(SYS_setns, ends[0], 0) == -1 && errno == ENOSYS;
	refused += syscall(SYS_set_mempolicy_home_node + 1, ends[0], arg, arg, 0) == -1 && errno == ENOSYS;
	fprintf(stderr, "mine: %d\n", refused);
	return arg;
}
static void *ring(void *arg)
{
	fprintf(stderr, "ring: %d\n", syscall(SYS_io_uring_setup, 1, arg) == -1 && errno == ENOSYS);
	return arg;
}
int main(int argc, char **argv)
{
	static char room[256];
	pthread_t t;
	what = argv[1];
	pthread_create(&t, NULL, !strcmp(what, "own") ? own : !strcmp(what, "onto") ? onto : !strcmp(what, "child") ? child :
		!strcmp(what, "wide") ? wide : !strcmp(what, "mine") ? mine : ring, room);
	pthread_join(t, NULL);
	return argc > 2 ? atoi(argv[2]) : 0;
}
END
for way in node two; do
	# shellcheck disable=SC2206
	ranks=(${ways[$way]})
	says "files: libdsm's own, $way" "own: 0" 0 "${run[@]}" "${ranks[@]}" "$scratch/refusals" own
	says "files: onto libdsm's own, $way" "rank 0: descriptor" 74 "${run[@]}" "${ranks[@]}" "$scratch/refusals" onto
	says "files: refused, own status, $way" "onto: 1" 3 "${run[@]}" "${ranks[@]}" "$scratch/refusals" onto 3
	says "files: child of vfork, $way" "rank 1: write() in a child of vfork() is refused" 74 "${run[@]}" "${ranks[@]}" \
		"$scratch/refusals" child
	says "files: wide characters, $way" "rank 1: __isoc99_wscanf() on a stream of rank 0 is refused" 74 "${run[@]}" "${ranks[@]}" \
		"$scratch/refusals" wide
	says "files: a rank's own, $way" "mine: 5" 74 "${run[@]}" "${ranks[@]}" "$scratch/refusals" mine
	says "files: io_uring, $way" "rank 1: syscall(425) " 74 "${run[@]}" "${ranks[@]}" "$scratch/refusals" ring
done

# Where process numbers are as small as those of libdsm's descriptors, as in a container: one job
# after another, each from a higher number on. They have a network of their own, for the names of
# sockets have process numbers in them.
program numbered <<'END'
#include <pthread.h>
static void *nothing(void *arg)
{
	return arg;
}
int main(void)
{
	pthread_t t;
	return pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL);
}
END
if is_chosen "files: small process numbers"; then
	if unshare --net --pid --fork --mount-proc true 2>/dev/null; then
		got=$(unshare --net --pid --fork --mount-proc bash -c 'ip link set lo up; for ((n = 490; n < 530; n++)); do
			echo $n >/proc/sys/kernel/ns_last_pid && timeout -k 1 10 "$@" >/dev/null 2>&1 || echo "after $n: status $?"
		done' job "${run[@]}" -n 2 --nodes rank "$scratch/numbered" 2>&1)
		same "files: small process numbers" "$got" ""
	else
		echo "  files: small process numbers: not run, for namespaces cannot be made"
	fi
fi
# The program closes its stderr, and its next file gets that number. What libdsm has to say at the
# end must not get into the file.
program second <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void *nothing(void *arg) { return arg; }
int main(int argc, char **argv)
{
	pthread_t t;
	close(2);
	return open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0600) != 2 || write(2, "data\n", 5) != 5 ||
		pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL) || argc != 2;
}
END
for way in "-n 2" "-n 2 --nodes rank"; do
	is_chosen "files: number 2" || break
	# shellcheck disable=SC2086
	DSM_STATS=json timeout -k 5 60 "${run[@]}" $way "$scratch/second" "$scratch/second.data" >"$scratch/second.out" 2>&1
	same "files: number 2 is the program's, $way" "$? $(<"$scratch/second.data") $(grep -c '^{"ranks": 2' "$scratch/second.out")" "0 data 1"
	# shellcheck disable=SC2086
	DSM_STATS=table timeout -k 5 60 "${run[@]}" $way "$scratch/second" "$scratch/second.data" 2>&-
	same "files: number 2, no stderr at all, $way" "$? $(<"$scratch/second.data")" "0 data"
done
# Threads that a library starts before libdsm does are none of the program's. There is room to note
# a thousand.
cat >"$scratch/early.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *wait_for_ever(void *arg) { for (;;) pause(); return arg; }
__attribute__((constructor)) static void crowd(void)
{
	pthread_attr_t small;
	pthread_t t;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int i = 0; i < atoi(getenv("EARLY")); i++)
		if (pthread_create(&t, &small, wait_for_ever, NULL))
			abort();
}
END
gcc -shared -fPIC -pthread "$scratch/early.c" -o "$scratch/libearly.so"
program crowded "-L$scratch" -Wl,--no-as-needed -learly "-Wl,-rpath,$scratch" <<'END'
#include <pthread.h>
static void *nothing(void *arg) { return arg; }
int main(void)
{
	pthread_t t;
	return pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL);
}
END
says "files: 900 threads before the start" "" 0 env DSM_OWN_LIBRARIES=rank EARLY=900 "${run[@]}" -n 2 "$scratch/crowded"
says "files: 1,100 threads before the start" "more than 1,024 threads before the start" 70 env DSM_OWN_LIBRARIES=rank EARLY=1100 "${run[@]}" -n 2 "$scratch/crowded"
says "files: libdsm's own, main()" "own: 0" 0 "${run[@]}" -n 4 -t 4 "$scratch/refusals" own

# What a thread of another rank reads from standard input, and prints, is the process's: one stream,
# in order.
program standard <<'END'
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *part(void *arg)
{
	char line[100];
	int c;
	printf("%s", fgets(line, sizeof(line), stdin));
	while ((c = getchar_unlocked()) != EOF && c != '\n')
		putchar_unlocked(c);
	puts("|");
	printf("isatty %d, rest %d\n", isatty(0), scanf("%99s", line));
	puts(line);
	return arg;
}
int main(void)
{
	pthread_t t;
	char line[100];
	printf("%s", fgets(line, sizeof(line), stdin));
	pthread_create(&t, NULL, part, NULL);
	pthread_join(t, NULL);
	printf("%s", fgets(line, sizeof(line), stdin));
	return 0;
}
END
if is_chosen "files: standard streams"; then
	printf 'one\ntwo\nthree\n  four five\n' >"$scratch/four"
	for way in one node two; do
		# shellcheck disable=SC2086
		got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/standard" <"$scratch/four" 2>&1) || got+=" (status $?)"
		same "files: standard streams, $way" "$got" $'one\ntwo\nthree|\nisatty 0, rest 1\nfour\n five'
	done
fi

# A thread that waits in a call which rank 0 makes for it is cancelled, or interrupted by a handler.
# Nothing that comes later is lost, and the stream is not left locked.
program waiting <<'END'
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static int ends[2], handled;
static FILE *in;
static void *in_read(void *arg)
{
	char c;
	(void)arg;
	return (void *)(read(ends[0], &c, 1) + 7);
}
static void *in_fgets(void *arg)
{
	char line[8];
	(void)arg;
	return fgets(line, sizeof(line), in);
}
static void *in_getc(void *arg)
{
	(void)arg;
	return (void *)(long)getc(in);
}
static void *in_scanf(void *arg)
{
	int n;
	(void)arg;
	return (void *)(long)fscanf(in, "%d", &n);
}
static void handler(int sig) { handled += sig == SIGUSR1; }
static void *to_poll(void *arg)
{
	struct pollfd p = { .fd = ends[0], .events = POLLIN };
	(void)arg;
	return (void *)(long)(poll(&p, 1, 20000) == -1 ? errno : 0);
}
static void *to_read(void *arg)
{
	char c = 0;
	long n = read(ends[0], &c, 1);
	(void)arg;
	return (void *)(long)(n < 0 ? errno : c);
}
/* What it returns after two signals, and then a byte for a call that goes on. */
static void interrupted(void *(*fn)(void *), int flags, int byte)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };
	void *result = NULL;
	pthread_t t;
	int i;
	handled = 0;
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&t, NULL, fn, NULL);
	for (i = 0; i < (byte ? 2 : 1); i++) {
		usleep(50000);
		pthread_kill(t, SIGUSR1);
	}
	usleep(50000);
	if (byte)
		write(ends[1], "x", 1);
	pthread_join(t, &result);
	printf(" %s%s", (long)result == EINTR ? "EINTR" : (long)result == 'x' ? "x" : "?", handled == (byte ? 2 : 1) ? "" : "!");
}
int main(void)
{
	void *(*const all[])(void *) = { in_read, in_read, in_fgets, in_getc, in_scanf };
	void *result = NULL;
	char c = 0, line[8] = "";
	pthread_t t;
	size_t i;
	if (pipe(ends) || !(in = fdopen(ends[0], "r")))
		return 1;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		pthread_create(&t, NULL, all[i], NULL);
		usleep(50000);
		pthread_cancel(t);
		pthread_join(t, &result);
		printf("%d", result == PTHREAD_CANCELED);
	}
	interrupted(to_read, 0, 0);
	interrupted(to_read, SA_RESTART, 1);
	interrupted(to_poll, SA_RESTART, 0);
	write(ends[1], "yabc\n", 5);
	printf(" left %d", (int)read(ends[0], &c, 1));
	printf(" %s", fgets(line, sizeof(line), in));
	return 0;
}
END
for way in one node two; do
	# shellcheck disable=SC2086
	says "files: cancelled, interrupted, $way" "11111 EINTR x EINTR left 1 abc" 0 "${run[@]}" ${ways[$way]} "$scratch/waiting"
done

# A library with a descriptor and a stream, used by the thread that has opened them, and with memory
# that is private to its rank.
cat >"$scratch/reader.c" <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int library_sum(const char *path);
int library_sum(const char *path)
{
	int fd = open(path, O_RDONLY), sum = 0, n, i;
	char *room = malloc(100000), *line = NULL;
	FILE *f = fopen(path, "r");
	size_t size = 0;
	while ((n = (int)read(fd, room, 100000)) > 0)
		for (i = 0; i < n; i++)
			sum += room[i];
	while (getline(&line, &size, f) > 0)
		for (i = 0; line[i]; i++)
			sum -= line[i];
	rewind(f);
	for (i = 0; (n = (int)fread(room, 1, 777, f)) > 0; i += n)
		;
	close(fd);
	fclose(f);
	free(room);
	free(line);
	return sum * 1000000 + i;
}
END
gcc -O2 -shared -fPIC "$scratch/reader.c" -o "$scratch/libreader.so"
program libraries -L"$scratch" -lreader "-Wl,-rpath,$scratch" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdint.h>
int library_sum(const char *path);
static void *sum(void *arg) { return (void *)(intptr_t)library_sum(arg); }
int main(int argc, char **argv)
{
	pthread_t t;
	void *there = NULL;
	int here = library_sum(argv[argc - 1]);
	pthread_create(&t, NULL, sum, argv[1]);
	pthread_join(t, &there);
	printf("same %d of %d\n", here == (int)(intptr_t)there, here);
	return 0;
}
END
for way in node two; do
	# shellcheck disable=SC2086
	says "files: a library's, $way" "same 1 of $(stat -c %s "$input")" 0 "${run[@]}" ${ways[$way]} "$scratch/libraries" "$input"
done

# Files of zlib, whose handles are private memory of rank 0's library. Its header need not be
# installed.
program zipped -l:libz.so.1 <<'END'
#include <pthread.h>
#include <stdio.h>
#include <string.h>
void *gzopen(const char *path, const char *mode);
int gzread(void *f, void *buf, unsigned int n), gzwrite(void *f, const void *buf, unsigned int n), gzputs(void *f, const char *s);
int gzeof(void *f), gzclose(void *f), gzprintf(void *f, const char *format, ...);
size_t gzfread(void *to, size_t size, size_t n, void *f), gzfwrite(const void *from, size_t size, size_t n, void *f);
char *gzgets(void *f, char *buf, int n);
const char *gzerror(void *f, int *number);
int (gzgetc)(void *f);
/* As zlib's header has it. */
struct seen { unsigned int have; unsigned char *next; long pos; };
#define gzgetc(g) (((struct seen *)(g))->have ? (((struct seen *)(g))->have--, ((struct seen *)(g))->pos++, *(((struct seen *)(g))->next)++) : (gzgetc)(g))
static void *file;
static int bad;
static void *reads(void *arg)
{
	char line[100] = "", rest[100] = "";
	int number = 7;
	bad += !gzgets(file, line, sizeof(line)) || strcmp(line, "irst line\n");
	bad += gzread(file, rest, 7) != 7 || memcmp(rest, "second ", 7);
	bad += gzfread(rest, 4, 2, file) != 1 || memcmp(rest, "line\n", 5);
	bad += !gzeof(file) || *gzerror(file, &number) || number;
	bad += gzclose(file) != 0;
	file = gzopen(arg, "w");
	bad += gzwrite(file, "third line\n", 11) != 11;
	bad += gzprintf(file, "%s %d\n", "number", 4) != 9 || gzprintf(file, "%9000d", 4) != 0;
	bad += gzprintf(file, "%c%c", 0, 10) != 2 || gzfwrite("abcdef", 3, 2, file) != 2;
	return arg;
}
/* In turns, by all ranks. */
static void *reads_line(void *arg)
{
	static const char *const lines[] = { "third line\n", "number 4\n", "\0\nabcdef" };
	const long i = (long)arg;
	char line[100] = "";
	if (i == 0)
		bad += gzgetc(file) != 't' || gzgetc(file) != 'h' || !gzgets(file, line, sizeof(line)) || strcmp(line, "ird line\n");
	else if (i == 1)
		bad += !gzgets(file, line, sizeof(line)) || strcmp(line, lines[i]);
	else
		bad += gzread(file, line, sizeof(line)) != 8 || memcmp(line, lines[i], 8);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t t;
	long i;
	file = gzopen(argv[1], "w");
	gzputs(file, "first line\nsecond line\n");
	gzclose(file);
	file = gzopen(argv[1], "r");
	bad += gzgetc(file) != 'f';
	pthread_create(&t, NULL, reads, argv[1]);
	pthread_join(t, NULL);
	bad += gzclose(file) != 0;
	file = gzopen(argv[1], "r");
	for (i = 0; i < 3; i++) {
		pthread_create(&t, NULL, reads_line, (void *)i);
		pthread_join(t, NULL);
	}
	printf("bad %d\n", bad);
	return argc == 3;
}
END
for way in one node two; do
	# shellcheck disable=SC2086
	says "files: zlib, $way" "bad 0" 0 "${run[@]}" ${ways[$way]} "$scratch/zipped" "$scratch/zipped.gz"
done

# A program that another rank executes by a descriptor of rank 0: that rank becomes it.
program executes <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
static int fd;
static void *execute(void *how)
{
	char *words[] = { "echo", "executed", how, NULL };
	if (!strcmp(how, "f"))
		fexecve(fd, words, environ);
	else
		execveat(fd, *(char *)how == 'p' ? "echo" : "", words, environ, *(char *)how == 'p' ? 0 : AT_EMPTY_PATH);
	_exit(3);
}
int main(int argc, char **argv)
{
	pthread_t t;
	fd = open(*argv[argc - 1] == 'p' ? "/bin" : "/bin/echo", O_RDONLY);
	pthread_create(&t, NULL, execute, argv[1]);
	pthread_join(t, NULL);
	return 4;
}
END
if is_chosen "files: executes"; then
	for way in node two; do
		for how in f at p; do
			# shellcheck disable=SC2086
			got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]/4/2} "$scratch/executes" $how 2>/dev/null </dev/null)
			same "files: executes, $how, $way" "$got" "executed $how"
		done
	done
fi

# What threads have left in the buffers of streams is written when the program ends, whoever has
# opened and used them.
program leaves <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static FILE *one, *two;
static void *part(void *arg)
{
	two = fopen(arg, "w");
	fprintf(one, "%s", "by a thread, ");
	fprintf(two, "%s", "of a thread, ");
	return arg;
}
static void *last(void *arg)
{
	fclose(two);
	exit(fputs("at the end\n", one) < 0 || !arg);
}
int main(int argc, char **argv)
{
	pthread_t t;
	one = fopen(argv[1], "w");
	pthread_create(&t, NULL, part, argv[2]);
	pthread_join(t, NULL);
	fputs("by main()\n", two);
	pthread_create(&t, NULL, last, argv[argc - 1]);
	pthread_join(t, NULL);
	return 1;
}
END
for way in node two; do
	is_chosen "files: buffers at the end" || break
	# shellcheck disable=SC2086
	got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/leaves" "$scratch/left.one" "$scratch/left.two" 2>&1) || got+=" (status $?)"
	same "files: buffers at the end, $way" "$got$(cat "$scratch/left.one" "$scratch/left.two")" $'by a thread, at the end\nof a thread, by main()'
done

// SPDX-License-Identifier: BSD-2-Clause
/* streams.c - streams of the C library, which belong to the process. */
#define _GNU_SOURCE
#include "cases.h"

#include <err.h>
#include <error.h>
#include <fcntl.h>
#include <mntent.h>
#include <printf.h>
#include <pwd.h>
#include <stdio_ext.h>
#include <sys/wait.h>
#include <wchar.h>

static FILE *stream;

static FILE *opened(const char *mode)
{
	FILE *f = fopen("stream", mode);

	if (!f)
		say("fopen %s", error_name(errno));
	return f;
}

CASE(stream_write_read, EACH)
{
	FILE *f = opened("w+");
	char text[32] = "";
	int n = 0;

	say("%d", fprintf(f, "%d %s\n", 42, "words"));
	say("%d", fputs("second\n", f) >= 0);
	say("%d", fputc('x', f));
	say("%d", putc('y', f));
	say("%zu", fwrite("12345", 1, 5, f));
	say("%d", fflush(f));
	say("%ld", ftell(f));
	rewind(f);
	say("%d", fscanf(f, "%d %31s", &n, text));
	say("%d %s", n, text);
	say("%d", fgetc(f));
	say("%d", fgets(text, 8, f) == text);
	say("%s", text[0] == 's' ? "second" : text);
	say("%zu", fread(text, 1, 4, f));
	say("%.4s %d", text, fseek(f, -2, SEEK_END));
	say("%d", getc(f));
	say("%d", fgetc(f));
	say("%d", fgetc(f));
	say("%d", feof(f) != 0);
	clearerr(f);
	say("%d", feof(f));
	say("%d", fseek(f, 0, 99));
	say("%s", error_name(errno));
	say("%d", fclose(f));
}

/* Lines after bytes that were not: the C library looks for the end of a line from then on. */
CASE(stream_lines_late, EACH)
{
	FILE *f = opened("w"), *g;
	char read_back[8] = "";

	say("%zu", fwrite("ab", 1, 2, f));
	setlinebuf(f);
	say("%zu", fwrite("c\nd", 1, 3, f));
	g = opened("r");
	say("%zu", fread(read_back, 1, sizeof(read_back), g));
	say("%.3s", read_back);
	fclose(g);
	fclose(f);
}

/*
 * Reads, writes and moves of all lengths, around the size of the buffer. A linear congruential
 * generator chooses; what is read, where the stream is and what the file has in the end are said as
 * sums.
 */
CASE(stream_random, EACH)
{
	FILE *f = opened("w+");
	static char bytes[5000];
	uint32_t x = 12345, sum = 0;
	unsigned int i, k;

	for (i = 0; i < 3000; i++) {
		x = x * 1664525u + 1013904223u;
		const size_t n = (x >> 8) % (x >> 31 ? sizeof(bytes) : 40);
		size_t done = 0;

		switch (x >> 28 & 7) {
		case 0: done = (size_t)fseek(f, (long)n * 3, SEEK_SET); break;
		case 1: /* after a read: else the C library itself may crash */
			fseek(f, 0, SEEK_CUR);
			done = fgetc(f) != EOF ? (size_t)ungetc('u', f) : 0;
			break;
		case 2: done = (size_t)fflush(f); break;
		case 3:
		case 4:
			fseek(f, 0, SEEK_CUR);
			memset(bytes, (int)i, n);
			done = fwrite(bytes, 1, n, f);
			break;
		default:
			fseek(f, 0, SEEK_CUR);
			memset(bytes, 0, sizeof(bytes));
			done = fread(bytes, 1, n, f);
			for (k = 0; k < sizeof(bytes); k++)
				sum = sum * 31 + (unsigned char)bytes[k];
			break;
		}
		sum = (sum * 31 + (uint32_t)done) * 31 + (uint32_t)ftell(f);
		if (i % 500 == 499)
			say("%u: %u %d", i, sum, feof(f));
	}
	rewind(f);
	for (sum = 0; (k = (unsigned int)fgetc(f)) != (unsigned int)EOF;)
		sum = sum * 31 + k;
	say("%u %ld", sum, ftell(f));
	fclose(f);
}

/* A function that prints gets a stream without a lock. */
static int print_hook(FILE *f, const struct printf_info *info, const void *const *args)
{
	(void)info, (void)args;
	return (int)fwrite("hook", 1, 4, f);
}

static int no_arguments(const struct printf_info *info, size_t n, int *types, int *sizes)
{
	(void)info, (void)n, (void)types, (void)sizes;
	return 0;
}

CASE(stream_hook, ALONE)
{
	const char *volatile format = "<%W>"; /* which the compiler does not know */
	char text[16];

	say("%d", register_printf_specifier('W', print_hook, no_arguments));
	say("%d", snprintf(text, sizeof(text), format));
	say("%s", text);
}

static void *write_unlocked(void *f)
{
	say("%zu", (fwrite_unlocked)("x", 1, 1, f)); /* no macro */
	return NULL;
}

/* Who does not lock does not wait. */
CASE(stream_unlocked_held, 0)
{
	FILE *f = opened("w");

	fputc('a', f);
	flockfile(f);
	apart(write_unlocked, f);
	funlockfile(f);
	fclose(f);
}

CASE(stream_errors, EACH)
{
	FILE *f;

	say("%d", fopen("no/such/file", "r") == NULL);
	say("%s", error_name(errno));
	say("%d", fopen("stream", "?") == NULL);
	say("%s", error_name(errno));
	f = opened("w");
	say("%d", fgetc(f));
	say("%d", ferror(f) != 0);
	say("%s", error_name(errno));
	fclose(f);
	say("%d", fopen(".", "w") == NULL);
	say("%s", error_name(errno));
	f = fopen("/dev/full", "w");
	fputs("text", f);
	say("%d", fclose(f));
	say("%s", error_name(errno));
}

static void *print_to(void *arg)
{
	say("%d", fprintf(stream, "%s\n", (char *)arg));
	return arg;
}

static void *read_line(void *arg)
{
	char line[64] = "";

	if (!fgets(line, sizeof(line), stream))
		say("EOF");
	say("%.*s", (int)strcspn(line, "\n"), line);
	return arg;
}

/* Of one thread, used by others. */
CASE(stream_shared, EACH)
{
	stream = opened("w+");
	fputs("main ", stream);
	apart(print_to, "first");
	apart(print_to, "second");
	rewind(stream);
	apart(read_line, NULL);
	read_line(NULL);
	apart(read_line, NULL);
	say("%ld", ftell(stream));
	say("%d", fclose(stream));
}

static void *open_stream(void *arg)
{
	stream = opened(arg);
	return NULL;
}

CASE(stream_opened_elsewhere, EACH)
{
	apart(open_stream, "w+");
	say("%d", fputs("line\n", stream) >= 0);
	rewind(stream);
	apart(read_line, NULL);
	say("%d", fclose(stream));
}

CASE(stream_push_back, EACH)
{
	FILE *f = opened("w+");

	fputs("ab", f);
	rewind(f);
	say("%d", fgetc(f));
	say("%d", ungetc('z', f));
	say("%d", fgetc(f));
	say("%d", getc(f));
	say("%d", ungetc(EOF, f));
	fclose(f);
}

CASE(stream_buffers, EACH)
{
	FILE *f = opened("w"), *g;
	static char buffer[4096];

	say("%d", setvbuf(f, NULL, _IONBF, 0));
	say("%d", setvbuf(f, NULL, 99, 0));
	fputc('a', f);
	g = opened("r");
	say("%d", fgetc(g));
	fclose(g);
	fclose(f);
	f = opened("w");
	say("%d", setvbuf(f, buffer, _IOFBF, sizeof(buffer)));
	fputs("abc", f);
	say("%zu", __fpending(f));
	g = opened("r");
	say("%d", fgetc(g));
	fclose(g);
	setlinebuf(f);
	fputs("d\n", f);
	g = opened("r");
	say("%d", fgetc(g));
	fclose(g);
	fclose(f);
	say("%d", fflush(NULL));
}

static void *try_lock(void *arg)
{
	say("%d", ftrylockfile(arg) != 0);
	return NULL;
}

static void *lock_and_print(void *arg)
{
	flockfile(arg);
	say("locked");
	funlockfile(arg);
	return NULL;
}

CASE(stream_locks, EACH)
{
	FILE *f = opened("w");
	pthread_t thread;

	flockfile(f);
	flockfile(f);
	apart(try_lock, f);
	funlockfile(f);
	thread = start(lock_and_print, f);
	wait_ms(30);
	say("before");
	funlockfile(f);
	ended(thread);
	fclose(f);
}

CASE(stream_in_memory, EACH)
{
	char text[16] = "one two", *out = NULL, word[8];
	size_t size = 0;
	FILE *f = fmemopen(text, sizeof(text), "r");

	say("%d", f ? fscanf(f, "%*s %7s", word) : -9);
	say("%s", word);
	if (f)
		fclose(f);
	f = open_memstream(&out, &size);
	say("%d", fprintf(f, "%s-%d", "memory", 7));
	say("%d", fflush(f));
	say("%zu", size);
	say("%s", out);
	fputs(" more", f);
	say("%d", fclose(f));
	say("%s", out);
	free(out);
}

CASE(stream_wide_memory, EACH)
{
	wchar_t *out = NULL;
	size_t size = 0;
	FILE *f = open_wmemstream(&out, &size);

	say("%d", f != NULL && fputws(L"wide", f) >= 0);
	if (f)
		fclose(f);
	say("%zu %ls", size, out ? out : L"");
	free(out);
}

CASE(stream_processes, EACH)
{
	char line[32] = "";
	FILE *f = popen("echo from a child; exit 3", "r");

	say("%d", f && fgets(line, sizeof(line), f));
	say("%.*s %d", (int)strcspn(line, "\n"), line, WEXITSTATUS(pclose(f)));
	f = popen("cat >written", "w");
	say("%d", fputs("to a child\n", f) >= 0);
	say("%d", pclose(f));
	f = fopen("written", "r");
	say("%d", fgets(line, sizeof(line), f) == line);
	say("%s", line[0] == 't' ? "same" : line);
	fclose(f);
	say("%d", popen("true", "?") == NULL);
	say("%s", error_name(errno));
}

CASE(stream_temporary, EACH)
{
	char name[] = "file-XXXXXX", folder[] = "folder-XXXXXX", unique[L_tmpnam], *other;
	FILE *f = tmpfile();
	int fd = mkstemp(name);

	say("%d", f && fputs("x", f) >= 0);
	say("%d", fclose(f));
	say("%d", fd >= 0);
	say("%d", access(name, R_OK));
	close(fd);
	say("%d", mkdtemp(folder) == folder);
	say("%s", strlen(folder) == 13 ? "named" : folder);
	say("%d", rename(name, "renamed"));
	say("%d", remove("renamed"));
	say("%d", remove(folder));
	say("%d", remove(folder));
	say("%s", error_name(errno));
	say("%d", tmpnam(unique) == unique);
	other = tempnam("/tmp", "dsm");
	say("%d", strncmp(other, "/tmp/dsm", 8));
	free(other);
	say("%d", tmpnam(NULL) != NULL);
}

CASE(stream_numbers, EACH)
{
	int fd = open("stream", O_RDWR | O_CREAT | O_TRUNC, 0600);
	FILE *f = fdopen(fd, "w+");
	char text[8] = "";

	say("%d", fileno(f) == fd);
	fputs("text", f);
	say("%d", fflush(f));
	say_call(pread(fd, text, 4, 0));
	say("%s", text);
	f = freopen("stream", "r", f);
	say("%d", f && fgetc(f) == 't');
	say("%d", fclose(f));
	say_call(write(fd, "x", 1));
	say("%d", fdopen(-1, "r") == NULL);
	say("%s", error_name(errno));
	say("%d", fileno(stdin));
	say("%d", fileno(stdout));
	say("%d", fileno(stderr));
}

CASE(stream_lines, EACH)
{
	FILE *f = opened("w+");
	char *line = NULL;
	size_t size = 0;

	fputs("a long line, which needs memory of its own: 12345678901234567890\nsecond;third", f);
	putw(7, f);
	rewind(f);
	say("%zd", getline(&line, &size, f));
	say("%d", size > 60);
	say("%zd", getdelim(&line, &size, ';', f));
	say("%s", line);
	fseek(f, -(long)sizeof(int), SEEK_END);
	say("%d", getw(f));
	say("%zd", getline(&line, &size, f));
	free(line);
	fclose(f);
}

CASE(stream_to_stdout, EACH)
{
	say("%d", printf("%s\n", "printed"));
	say("%d", puts("put") >= 0);
	say("%d", putchar('c') == 'c');
	say("%d", putchar('\n'));
	say("%d", fflush(stdout));
	say_call(dprintf(STDOUT_FILENO, "by number\n"));
}

CASE(stream_from_stdin, EACH)
{
	int n;

	say("%d", scanf("%d", &n));
	say("%d", getchar());
	say("%d", feof(stdin) != 0);
}

CASE(stream_messages, EACH)
{
	int saved, fd = open("messages", O_RDWR | O_CREAT | O_TRUNC, 0600);
	char text[256] = "", *line;

	fflush(stderr);
	saved = dup(2);
	dup2(fd, 2);
	errno = ENOENT;
	perror("perror");
	psignal(SIGINT, "psignal");
	dup2(saved, 2);
	close(saved);
	say_call(pread(fd, text, sizeof(text) - 1, 0));
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		say("%s;", line);
	close(fd);
}

CASE(stream_messages_named, 0)
{
	errno = EDOM;
	warn("%s", "warned");
	warnx("warned again");
	error(0, ERANGE, "an error");
}

static void *end_by_err(void *arg)
{
	err(7, "ended");
	return arg;
}

CASE(stream_end_of_err, ALONE)
{
	apart(end_by_err, NULL);
}

static void *wide_of(void *arg)
{
	wchar_t text[16] = L"";

	say("%d", fputws(L"wide", arg) >= 0);
	rewind(arg);
	say("%d", fgetws(text, 16, arg) == text);
	say("%ls", text);
	return NULL;
}

CASE(stream_wide, EACH | ALONE)
{
	FILE *f = opened("w+");

	wide_of(f);
	fclose(f);
}

CASE(stream_wide_standard, EACH | ALONE)
{
	wchar_t c;

	say("%d", wprintf(L"%ls\n", L"wide") > 0);
	say("%d", wscanf(L"%lc", &c));
	fflush(stdout);
}

static void *unlocked(void *arg)
{
	FILE *f = opened("w+");

	say("%d", putc_unlocked('a', f));
	rewind(f);
	say("%d", getc_unlocked(f));
	say("%d", getc_unlocked(f));
	say("%d", feof_unlocked(f));
	fclose(f);
	return arg;
}

CASE(stream_unlocked, 0)
{
	unlocked(NULL);
}

CASE(stream_unlocked_there, ALONE)
{
	apart(unlocked, NULL);
}

CASE(stream_unlocked_standard, EACH)
{
	say("%d", putc_unlocked('u', stdout));
	say("%d", putchar_unlocked('\n'));
	say("%d", getc_unlocked(stdin));
	say("%d", fflush(stdout));
}

CASE(stream_accounts, EACH | ALONE)
{
	FILE *f = opened("w+");
	struct passwd *p;
	struct mntent *m;

	fputs("who:x:12:13::/:/bin/sh\ndevice /folder type options 0 0\n", f);
	rewind(f);
	p = fgetpwent(f);
	say("%s", p ? p->pw_name : error_name(errno));
	say("%d", p ? (int)p->pw_uid : -1);
	m = getmntent(f);
	say("%s", m ? m->mnt_dir : error_name(errno));
	fclose(f);
}

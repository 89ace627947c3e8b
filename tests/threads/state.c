// SPDX-License-Identifier: BSD-2-Clause
/*
 * state.c - what the C library and the kernel keep for a process: each thread sees what another one
 * has set, and may use what another one was given. Threads take turns; each turn goes on where the
 * one before has stopped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libintl.h>
#include <locale.h>
#include <search.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/times.h>
#include <unistd.h>

#include "steps.h"

#define THREADS 3

static int count; /* of turns */
static void (*turn)(int n);

static void *take_turns(void *arg)
{
	static int from; /* turns of earlier rounds */
	int i;

	for (i = (int)(intptr_t)arg; i < count; i += THREADS) {
		until(from + i);
		turn(i);
		if (i == count - 1)
			from += count;
		go_to(i == count - 1 ? from : from + i + 1);
	}
	return NULL;
}

/* Turns 0 to n - 1, each in another thread than the one before. */
static void round_of(int n, void (*fn)(int n))
{
	count = n;
	turn = fn;
	in_threads(THREADS, take_turns);
}

/* ---- of the kernel --------------------------------------------------------------------------- */

static char folder[] = "/tmp/dsm-state-XXXXXX";
static int there;

static void show_folder(void)
{
	char *where = getcwd(NULL, 0);

	tell("%s\n", where + (strncmp(where, folder, strlen(folder)) ? 0 : strlen(folder)));
	free(where);
}

static void folders(int n)
{
	struct stat st;

	switch (n) {
	case 0: check("chdir", !chdir(folder)); break;
	case 1: check("mkdir", !mkdir("below", 0700)); break;
	case 2: check("chdir to a relative path", !chdir("below")); break;
	case 4: check("no folder", chdir("nothing") == -1 && errno == ENOENT); break;
	case 5: there = open("..", O_RDONLY | O_DIRECTORY); break;
	case 6: umask(027); break;
	case 7:
		check("mask",
		      !close(open("file", O_CREAT | O_RDWR, 0666)) && !stat("file", &st) &&
			      (st.st_mode & 0777) == 0640);
		break;
	case 8: check("mask before", umask(0) == 027); break;
	case 9:
		check("removed",
		      !unlink("file") && !chdir("/") && !chdir(folder) && !rmdir("below"));
		break;
	case 10: check("away", !chdir("/") && !rmdir(folder)); break;
	default: break;
	}
	show_folder();
}

static void limits(int n)
{
	struct rlimit l, old;

	check("getrlimit", !getrlimit(RLIMIT_NOFILE, &l) && !getrlimit(RLIMIT_CORE, &old));
	tell("limits %ld %ld\n", n ? (long)l.rlim_cur : 0, n > 1 ? (long)old.rlim_cur : 0);
	l.rlim_cur = 500 + (rlim_t)n;
	if (n == 0)
		check("setrlimit", !setrlimit(RLIMIT_NOFILE, &l));
	old.rlim_cur = 0;
	if (n == 1)
		check("prlimit", !prlimit(getpid(), RLIMIT_CORE, &old, NULL));
	if (n == 2)
		check("prlimit, read", !prlimit(0, RLIMIT_CORE, NULL, &old) && !old.rlim_cur);
	l.rlim_cur = l.rlim_max = RLIM_INFINITY - 1;
	if (n == 3)
		check("setrlimit, wrong",
		      setrlimit((__rlimit_resource_t)1000, &l) == -1 && errno == EINVAL);
}

static double processor_time(int how)
{
	struct timespec t;
	struct rusage r;
	struct tms m;

	switch (how) {
	case 0: return (double)clock() / CLOCKS_PER_SEC;
	case 1:
		return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)
			? -1
			: (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	case 2:
		return times(&m) == -1
			? -1
			: (double)(m.tms_utime + m.tms_stime) / (double)sysconf(_SC_CLK_TCK);
	default: break;
	}
	if (getrusage(RUSAGE_SELF, &r))
		return -1;
	return (double)r.ru_utime.tv_sec + (double)r.ru_stime.tv_sec +
		(double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* Each thread computes for a while; all see the sum. */
static void compute(int n)
{
	static double last[4];
	struct timespec t;
	int i;

	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while (t.tv_nsec < 80000000 && !t.tv_sec);
	for (i = 0; i < 4; i++) {
		const double now = processor_time(i);

		check("processor time", now >= last[i] && now >= 0.08 * (n + 1) - 0.02);
		last[i] = now;
	}
}

/* ---- of the C library ------------------------------------------------------------------------ */

static char words[] = "one two,three;four five six", number_text[20];
static ENTRY entries[5];
static struct tm *tm;
static char *text, *message;

static void tokens(int n)
{
	char *word = strtok(n ? NULL : words, n % 2 ? " ,;" : " ");

	tell("token %s\n", word ? word : "(none)");
	snprintf(number_text, sizeof(number_text), "%d", n);
	if (n == 0)
		check("hcreate", hcreate(10));
	entries[n % 5] = (ENTRY){ strdup(number_text), &entries[n % 5] };
	check("hsearch", n >= 5 || hsearch(entries[n], ENTER));
	check("found", !n || hsearch((ENTRY){ (char *)"0", NULL }, FIND)->data == &entries[0]);
	if (n == 7)
		hdestroy();
}

static void zones(int n)
{
	const time_t at = 1700000000 + n;
	struct tm own;
	char line[100];

	if (n == 1)
		setenv("TZ", "AAA-2BBB-3,M3.5.0,M10.5.0", 1);
	if (n == 2)
		tzset();
	if (n == 4)
		setenv("TZ", "XYZ+5", 1);
	if (n == 5)
		tm = localtime(&at);
	/* Between a change of TZ and tzset(), localtime_r() may use either zone. */
	if (n == 1 || n == 4)
		localtime(&at);
	localtime_r(&at, &own);
	tell("zone %d %d %s, %s %s %ld %d", own.tm_hour, own.tm_min, own.tm_zone,
	     n > 1 ? tzname[0] : "", n > 1 ? tzname[1] : "", n > 1 ? timezone : 0,
	     n > 1 ? daylight : 0);
	if (tm) {
		strftime(line, sizeof(line), "%c %Z", tm);
		tell(" %s", line);
	}
	if (text)
		tell(" %s", text);
	tell("\n");
	tm = n % 2 ? gmtime(&at) : localtime(&at);
	text = n % 3 ? asctime(tm) : ctime(&at);
}

/* Each thread reads what the one before was given, before it calls any function for time itself. */
static void zone_names(int n)
{
	static struct tm last;
	const time_t at = 1700000000;
	char zone[20];

	tell("zone of the thread before: %s %s\n", n ? last.tm_zone : "", n ? tzname[0] : "");
	snprintf(zone, sizeof(zone), "Q%c%c-%d", 'A' + n, 'A' + n, n + 1);
	setenv("TZ", zone, 1);
	tzset();
	localtime_r(&at, &last);
}

static void messages(int n)
{
	int point, sign;

	tell("%s, %s, %s\n", message ? message : "", text ? text : "",
	     n ? setlocale(LC_ALL, NULL) : "");
	message = n % 2 ? strerror(n + 1) : strsignal(SIGINT + n);
	text = n % 3 == 0    ? ecvt(3.25 * n, 5, &point, &sign)
		: n % 3 == 1 ? fcvt(1.5 * n, 3, &point, &sign)
			     : l64a(12345678 + n);
	if (n == 1)
		check("setlocale", setlocale(LC_ALL, "C.UTF-8") != NULL);
	if (n == 2)
		check("textdomain", textdomain("state") && bindtextdomain("state", "/nowhere"));
	if (n == 3)
		tell("%s %s %d\n", textdomain(NULL), bindtextdomain("state", NULL),
		     (int)MB_CUR_MAX);
	if (n == 4)
		check("setlocale, wrong", !setlocale(LC_ALL, "no such locale"));
}

/* Each call of getopt() in a new thread, and what it leaves. */
static void *option(void *arg)
{
	static char *args[] = { (char *)"state",       (char *)"-a",
				(char *)"-b",          (char *)"value",
				(char *)"--long=more", (char *)"-z",
				(char *)"rest",        NULL };
	static const struct option names[] = { { "long", required_argument, NULL, 'l' }, { 0 } };
	int got;

	tell("before: %d %s %d\n", optind, optarg ? optarg : "(none)", optopt);
	opterr = 0;
	got = getopt_long(7, args, "ab:", names, NULL);
	tell("option %d: %d %s %d\n", got, optind, optarg ? optarg : "(none)", optopt);
	return arg;
}

static void options(void)
{
	int i;

	for (i = 0; i < 7; i++) {
		if (i == 5)
			optind = 1;
		in_thread(option, NULL);
	}
	tell("in the end: %d\n", optind);
}

int main(void)
{
	check("folder", mkdtemp(folder) != NULL);
	round_of(11, folders);
	round_of(5, limits);
	round_of(8, tokens);
	round_of(8, zones);
	round_of(6, zone_names);
	text = NULL;
	round_of(8, messages);
	options();
	round_of(THREADS, compute);
	return conclude();
}

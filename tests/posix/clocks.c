// SPDX-License-Identifier: BSD-2-Clause
/* clocks.c - time: of the day, of the process and its threads, as text, and time zones. */
#define _GNU_SOURCE
#include "cases.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

static double seconds(clockid_t clock)
{
	struct timespec t = { 0 };

	if (clock_gettime(clock, &t))
		say("clock_gettime %s", error_name(errno));
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Use 50 ms of processor time. */
static void *burn(void *arg)
{
	const double end = seconds(CLOCK_THREAD_CPUTIME_ID) + 0.05;

	while (seconds(CLOCK_THREAD_CPUTIME_ID) < end)
		;
	return arg;
}

static double used(const struct rusage *usage)
{
	return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
		(double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

/* ---- time that is used: that of a thread counts, wherever it runs ---------------------------- */

CASE(time_of_process, EACH)
{
	const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
	const clock_t ticks = clock();
	struct timespec unit = { 0 };
	double after;

	apart(burn, NULL);
	burn(NULL);
	after = seconds(CLOCK_PROCESS_CPUTIME_ID);
	say("%d", after - before >= 0.1);
	say("%d", clock() - ticks >= CLOCKS_PER_SEC / 10);
	say_call(clock_getres(CLOCK_PROCESS_CPUTIME_ID, &unit));
	say("%ld", unit.tv_nsec);
}

CASE(time_by_times, EACH)
{
	struct tms before, after;
	const clock_t begin = times(&before);

	apart(burn, NULL);
	apart(burn, NULL);
	say("%d", times(&after) - begin >= sysconf(_SC_CLK_TCK) / 20);
	say("%d",
	    after.tms_utime + after.tms_stime - before.tms_utime - before.tms_stime >=
		    sysconf(_SC_CLK_TCK) / 12);
}

CASE(time_by_usage, EACH)
{
	struct rusage before, after, thread, children;

	say_call(getrusage(RUSAGE_SELF, &before));
	apart(burn, NULL);
	say_call(getrusage(RUSAGE_SELF, &after));
	say("%d", used(&after) - used(&before) >= 0.045);
	say("%d", after.ru_maxrss > 0);
	say_call(getrusage(RUSAGE_THREAD, &before));
	burn(NULL);
	say_call(getrusage(RUSAGE_THREAD, &thread));
	say("%d", used(&thread) - used(&before) >= 0.045);
	say_call(getrusage(RUSAGE_CHILDREN, &before));
	say_call(system("i=0; while test $i -lt 30000; do i=$((i + 1)); done"));
	say_call(getrusage(RUSAGE_CHILDREN, &children));
	say("%d", used(&children) > used(&before));
	say_call(getrusage(99, &after));
}

CASE(time_of_thread, EACH)
{
	const double before = seconds(CLOCK_THREAD_CPUTIME_ID);

	apart(burn, NULL);
	say("%d", seconds(CLOCK_THREAD_CPUTIME_ID) - before < 0.04);
	burn(NULL);
	say("%d", seconds(CLOCK_THREAD_CPUTIME_ID) - before >= 0.05);
}

CASE(clock_of_process, EACH)
{
	clockid_t clock = 0;
	double before;

	say_error(clock_getcpuclockid(getpid(), &clock));
	before = seconds(clock);
	burn(NULL);
	say("%d", seconds(clock) - before >= 0.045);
	say_error(clock_getcpuclockid(4194300, &clock));
}

/* ---- time of the day ------------------------------------------------------------------------- */

static double last_seen;

static void *see_monotonic(void *arg)
{
	const double t = seconds(CLOCK_MONOTONIC);

	say("%d", t >= last_seen);
	last_seen = t;
	return arg;
}

CASE(time_of_day, EACH)
{
	struct timespec t = { 0 };
	struct timeval tv = { 0 };
	time_t a = time(NULL), b = 0;

	say("%d", time(&b) >= a);
	say_call(gettimeofday(&tv, NULL));
	say("%d", tv.tv_sec >= a);
	say("%d", timespec_get(&t, TIME_UTC));
	say("%d", t.tv_sec >= a);
	say_call(clock_gettime((clockid_t)99, &t));
	see_monotonic(NULL);
	apart(see_monotonic, NULL);
	see_monotonic(NULL);
}

CASE(naps, EACH)
{
	struct timespec t = { .tv_nsec = 30000000 }, bad = { .tv_nsec = 1000000000 };
	double before = seconds(CLOCK_MONOTONIC);

	say_call(nanosleep(&t, NULL));
	say_call(usleep(10000));
	say("%d", seconds(CLOCK_MONOTONIC) - before >= 0.04);
	t = after_ms(CLOCK_MONOTONIC, 30);
	before = seconds(CLOCK_MONOTONIC);
	say_error(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
	say("%d", seconds(CLOCK_MONOTONIC) - before >= 0.02);
	say_call(nanosleep(&bad, NULL));
	say_error(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL));
}

/* ---- as text, and time zones ----------------------------------------------------------------- */

static void *say_zone(void *arg)
{
	say("%s %s %ld %d", tzname[0], tzname[1], timezone, daylight);
	return arg;
}

static struct tm *broken;

static void *say_broken(void *arg)
{
	say("%d-%d-%d %d:%d", broken->tm_year, broken->tm_mon, broken->tm_mday, broken->tm_hour,
	    broken->tm_min);
	say("%d %ld %s", broken->tm_isdst, broken->tm_gmtoff, broken->tm_zone);
	return arg;
}

static void *break_down(void *time)
{
	broken = localtime(time);
	return NULL;
}

CASE(zone_set, EACH)
{
	const time_t winter = 1000000000 + 100 * 86400;

	setenv("TZ", "AAA-1BBB", 1);
	tzset();
	say_zone(NULL);
	apart(say_zone, NULL);
	apart(break_down, (void *)(uintptr_t)&winter);
	say_broken(NULL);
	setenv("TZ", "CCC5", 1);
	apart(break_down, (void *)(uintptr_t)&winter);
	say_zone(NULL);
	say_broken(NULL);
	apart(say_broken, NULL);
	setenv("TZ", "UTC0", 1);
	tzset();
	unsetenv("TZ");
	apart(say_zone, NULL);
	tzset();
	say_zone(NULL);
}

static const char *printed;

static void *print_time(void *time)
{
	printed = ctime(time);
	return NULL;
}

static void *print_broken(void *arg)
{
	printed = asctime(broken);
	return arg;
}

CASE(time_as_text, EACH)
{
	time_t t = 1000000000;
	struct tm tm;
	char text[64];

	broken = gmtime(&t);
	apart(say_broken, NULL);
	apart(print_broken, NULL);
	say("%.24s", printed);
	say("%zu", strftime(text, sizeof(text), "%Y %j %A %p %Z", broken));
	say("%s", text);
	apart(print_time, &t);
	say("%.24s", printed);
	say("%d", strptime("2001-09-09 03:46", "%Y-%m-%d %H:%M", &tm) != NULL);
	say("%d %d", tm.tm_yday, tm.tm_hour);
	broken = gmtime(&t);
	tm = *broken;
	say("%ld %ld", (long)mktime(&tm), (long)timegm(&tm));
	say("%s", asctime_r(&tm, text) == text ? "same" : "other");
	say("%.24s", ctime_r(&t, text));
	say("%d", gmtime_r(&t, &tm) == &tm && localtime_r(&t, &tm) == &tm);
	say("%g", difftime(t, t - 5));
}

CASE(date_templates, EACH)
{
	FILE *f = fopen("templates", "w");
	const struct tm *got;

	fputs("%Y-%m-%d\n%H:%M\n", f);
	fclose(f);
	unsetenv("DATEMSK");
	say("%d", getdate("2001-09-09") == NULL);
	say("%d", getdate_err);
	setenv("DATEMSK", "templates", 1);
	got = getdate("2001-09-09");
	say("%d", got ? got->tm_yday : -getdate_err);
	say("%d", getdate("nothing") == NULL);
	say("%d", getdate_err);
	unsetenv("DATEMSK");
	unlink("templates");
}

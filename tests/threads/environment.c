// SPDX-License-Identifier: BSD-2-Clause
/*
 * environment.c - the environment, the program's names and the other variables of the C library
 * that an executable may hold belong to the process: what one thread changes, all threads see, and
 * what one is given, all may use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

#define THREADS 3
#define STEPS 14

static char mine[] = "PUT=one", *list[] = { (char *)"ONLY=this", (char *)"TWO=that", NULL };
static char *kept, *name;

static const char *get(const char *variable)
{
	const char *value = getenv(variable);

	return value ? value : "(none)";
}

/* What a process that this thread starts sees. */
static const char *child(const char *variable)
{
	static char line[100];
	char command[100];
	FILE *f;

	snprintf(command, sizeof(command), "echo \"${%s-(none)}\"", variable);
	f = popen(command, "r");
	if (!f || !fgets(line, sizeof(line), f))
		strcpy(line, "?\n");
	if (f)
		pclose(f);
	line[strcspn(line, "\n")] = 0;
	return line;
}

/* As a program does that reads the variable itself. */
static const char *listed(const char *variable)
{
	const size_t n = strlen(variable);
	char **e;

	for (e = environ; e && *e; e++)
		if (!strncmp(*e, variable, n) && (*e)[n] == '=')
			return *e + n + 1;
	return "(none)";
}

static void show(const char *variable)
{
	tell("%s: %s, listed %s\n", variable, get(variable), listed(variable));
}

static void change(int n)
{
	switch (n) {
	case 0: check("setenv", !setenv("A", "first", 1)); break;
	case 1: check("setenv, kept", !setenv("A", "second", 0)); break;
	case 2: check("setenv, replaced", !setenv("A", "a longer value than before", 1)); break;
	case 3:
		check("no name",
		      setenv("", "x", 1) == -1 && errno == EINVAL && setenv("B=", "x", 1) == -1);
		break;
	case 4: check("putenv", !putenv(mine)); break;
	case 5:
		strcpy(mine, "PUT=two");
		setenv("B", "x", 1);
		tell("PUT is %s now\n", get("PUT"));
		break;
	case 6: kept = getenv("A"); break;
	case 7:
		tell("A by pointer: %s", kept);
		tell(", by token %s\n", strtok_r(kept, " ", &name));
		setenv("B", "y", 1);
		break;
	case 8:
		check("unsetenv", !unsetenv("A") && !unsetenv("NEVER") && unsetenv("C=") == -1);
		break;
	case 9: check("setenv of an empty value", !setenv("A", "", 1)); break;
	case 10: check("clearenv", !clearenv() && !getenv("PATH")); break;
	case 11: environ = list; break;
	case 12: check("setenv, afterwards", !setenv("PATH", "/usr/bin:/bin", 1)); break;
	case 13: environ[0] = (char *)"ONLY=element"; break;
	default: break;
	}
}

static void *turns(void *arg)
{
	int i;

	for (i = (int)(intptr_t)arg; i < 2 * STEPS; i += THREADS) {
		until(i);
		if (i % 2 == 0)
			change(i / 2);
		show("A");
		show("PUT");
		show("ONLY");
		tell("child: %s\n", child(i % 4 ? "A" : "PUT"));
		go_to(i + 1);
	}
	return NULL;
}

static const char *first_name, *first_short;
static char **first_environ;

static void *names(void *arg)
{
	check("names",
	      !strcmp(program_invocation_name, first_name) &&
		      !strcmp(program_invocation_short_name, first_short) &&
		      strstr(first_name, first_short));
	check("environ of main()", first_environ[0] && !strcmp(first_environ[0], environ[0]));
	return arg;
}

/* Many changes: what was given before stays. */
static void *often(void *arg)
{
	char value[300];
	int i;

	for (i = 0; i < 30; i++) {
		memset(value, 'a' + i % 26, sizeof(value) - 1);
		value[sizeof(value) - 1] = 0;
		setenv("OFTEN", value, 1);
		kept = getenv("OFTEN");
		setenv("OTHER", value + i, 1);
		check("often", !strcmp(kept, value) && !strcmp(get("OTHER"), value + i));
	}
	return arg;
}

int main(int argc, char **argv, char **envp)
{
	(void)argc;
	(void)argv;
	first_name = program_invocation_name;
	first_short = program_invocation_short_name;
	first_environ = envp;
	in_threads(THREADS, names);
	setenv("PATH", "/usr/bin:/bin", 1);
	in_threads(THREADS, turns);
	in_thread(often, NULL);
	tell("OFTEN %s\n", get("OFTEN"));
	return conclude();
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * process.c - what belongs to the process: environment, directory, limits, numbers, children, its
 * end, its processors.
 */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

extern char **environ;

/* ---- environment ----------------------------------------------------------------------------- */

static void *get_variable(void *name)
{
	const char *value = getenv(name);

	say("%s", value ? value : "none");
	return NULL;
}

CASE(environment_set, EACH)
{
	say_call(setenv("POSIX_A", "one", 1));
	apart(get_variable, "POSIX_A");
	say_call(setenv("POSIX_A", "two", 0));
	apart(get_variable, "POSIX_A");
	say_call(setenv("POSIX_A", "two", 1));
	apart(get_variable, "POSIX_A");
	get_variable("POSIX_A");
	say("%s", secure_getenv("POSIX_A"));
	say_call(unsetenv("POSIX_A"));
	apart(get_variable, "POSIX_A");
	say_call(setenv("", "x", 1));
	say_call(setenv("a=b", "x", 1));
	say_call(unsetenv("a=b"));
}

CASE(environment_put, EACH)
{
	static char text[] = "POSIX_B=put";

	say_call(putenv(text));
	apart(get_variable, "POSIX_B");
	memcpy(text + 8, "new", 3);
	apart(get_variable, "POSIX_B");
	get_variable("POSIX_B");
	say_call(putenv("POSIX_C=other"));
	say_call(system("test $POSIX_B,$POSIX_C = new,other"));
	say_call(putenv("POSIX_B"));
	apart(get_variable, "POSIX_B");
	say_call(unsetenv("POSIX_C"));
	memcpy(text + 8, "put", 3);
}

static void *count_variables(void *arg)
{
	char **p;
	int n = 0, ours = 0;

	for (p = environ; p && *p; p++) {
		n++;
		ours += !strncmp(*p, "POSIX_", 6);
	}
	say("%d %d", n > ours, ours);
	return arg;
}

CASE(environment_walked, EACH)
{
	say_call(setenv("POSIX_D", "1", 1) | setenv("POSIX_E", "2", 1));
	count_variables(NULL);
	apart(count_variables, NULL);
	say_call(unsetenv("POSIX_D") | unsetenv("POSIX_E"));
	apart(count_variables, NULL);
}

static void *clear_all(void *arg)
{
	say("%d", clearenv());
	return arg;
}

CASE(environment_cleared, ALONE)
{
	setenv("POSIX_F", "before", 1);
	apart(clear_all, NULL);
	get_variable("POSIX_F");
	get_variable("PATH");
	apart(get_variable, "PATH");
	count_variables(NULL);
	say_call(setenv("POSIX_G", "after", 1));
	apart(get_variable, "POSIX_G");
	apart(count_variables, NULL);
}

/* ---- directory, mask, limits ----------------------------------------------------------------- */

static void *say_directory(void *arg)
{
	char path[4096], *got = getcwd(NULL, 0), *current = get_current_dir_name();

	say("%d", getcwd(path, 2) == NULL && errno == ERANGE);
	say("%s", getcwd(path, sizeof(path)) ? strrchr(path, '/') : "?");
	say("%d %d", got && !strcmp(got, path), current && !strcmp(current, path));
	free(got);
	free(current);
	return arg;
}

static void *make_file(void *name)
{
	struct stat st = { 0 };
	const int fd = open(name, O_CREAT | O_WRONLY, 0666);

	say_call(fstat(fd, &st));
	say("%o", st.st_mode & 0777);
	close(fd);
	return NULL;
}

CASE(directory, EACH)
{
	const int above = open(".", O_RDONLY | O_DIRECTORY);

	say_call(mkdir("inner", 0700));
	say_call(chdir("inner"));
	say_directory(NULL);
	apart(say_directory, NULL);
	apart(make_file, "file");
	say_call(access("file", F_OK));
	say_call(unlink("file"));
	say_call(chdir("no/such/folder"));
	say_call(fchdir(above));
	say_call(access("inner", F_OK));
	say_call(fchdir(9999));
	say_call(rmdir("inner"));
	close(above);
}

CASE(creation_mask, EACH)
{
	const mode_t before = umask(027);

	apart(make_file, "masked");
	say("%o", umask(0));
	say_call(unlink("masked"));
	apart(make_file, "masked");
	say_call(unlink("masked"));
	say("%o", umask(before));
}

static void *say_limits(void *arg)
{
	struct rlimit core = { 0 }, files = { 0 };

	say_call(getrlimit(RLIMIT_CORE, &core) | getrlimit(RLIMIT_NOFILE, &files));
	say("%ld %ld", (long)core.rlim_cur, (long)files.rlim_cur);
	say("%ld", sysconf(_SC_OPEN_MAX));
	return arg;
}

CASE(limits, EACH)
{
	struct rlimit core, files, changed, old = { 0 };

	say_call(getrlimit(RLIMIT_CORE, &core) | getrlimit(RLIMIT_NOFILE, &files));
	changed = core;
	changed.rlim_cur = 4096;
	say_call(setrlimit(RLIMIT_CORE, &changed));
	changed = files;
	changed.rlim_cur = 800;
	say_call(prlimit(0, RLIMIT_NOFILE, &changed, &old));
	say("%d", old.rlim_cur == files.rlim_cur);
	say_limits(NULL);
	apart(say_limits, NULL);
	changed.rlim_max = 700;
	say_call(setrlimit(RLIMIT_NOFILE, &changed));
	say_call(setrlimit((__rlimit_resource_t)99, &changed));
	say_call(prlimit(getpid(), RLIMIT_NOFILE, &files, NULL));
	say_call(setrlimit(RLIMIT_CORE, &core));
}

/* ---- numbers and rights ---------------------------------------------------------------------- */

static pid_t of_process[6];

static void get_numbers(pid_t *to)
{
	to[0] = getpid();
	to[1] = getppid();
	to[2] = getpgrp();
	to[3] = getpgid(0);
	to[4] = getsid(0);
	to[5] = (pid_t)syscall(39); /* SYS_getpid */
}

static void *compare_numbers(void *arg)
{
	pid_t here[6];
	size_t i;

	get_numbers(here);
	for (i = 0; i < 6; i++)
		say("%d", here[i] == of_process[i]);
	return arg;
}

static void *say_thread(void *arg)
{
	say("%d", gettid() == *(pid_t *)arg);
	return arg;
}

CASE(process_numbers, EACH)
{
	pid_t here = gettid();

	get_numbers(of_process);
	apart(compare_numbers, NULL);
	apart(say_thread, &here);
	say("%d", kill(getpid(), 0));
}

static int first_priority; /* that of whoever runs the tests */

static void *say_priority(void *arg)
{
	errno = 0;
	say("%d", getpriority(PRIO_PROCESS, 0) - first_priority);
	say("%s", errno ? error_name(errno) : "ok");
	return arg;
}

CASE(priority, EACH)
{
	first_priority = getpriority(PRIO_PROCESS, 0);
	say("%d", nice(0) - first_priority);
	say_call(setpriority(PRIO_PROCESS, 0, first_priority));
	say_call(setpriority(PRIO_PROCESS, 1 << 30, 0));
	apart(say_priority, NULL);
}

CASE(priority_elsewhere, ALONE)
{
	first_priority = getpriority(PRIO_PROCESS, 0);
	say("%d", nice(3) - first_priority);
	apart(say_priority, NULL);
	say_call(setpriority(PRIO_PROCESS, 0, first_priority + 5));
	say_priority(NULL);
}

CASE(credentials, EACH)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	say_call(setuid(getuid()));
	say_call(setgid(getgid()));
	say_call(seteuid(geteuid()));
	say_call(setegid(getegid()));
	say_call(setreuid(getuid(), geteuid()));
	say_call(setregid(getgid(), getegid()));
	say_call(getresuid(&r, &e, &s) | setresuid(r, e, s));
	say_call(getresgid(&gr, &ge, &gs) | setresgid(gr, ge, gs));
	say("%d", getgroups(0, NULL) >= 0);
}

static void *say_attributes(void *arg)
{
	say_call(prctl(PR_GET_DUMPABLE));
	return arg;
}

/* Alone: the first thread of a process is on another rank. */
CASE(attributes_of_process, ALONE)
{
	char name[16] = "";

	say_call(prctl(PR_SET_NAME, "posix-name"));
	say_call(prctl(PR_GET_NAME, name));
	say("%s", name);
	say_call(prctl(9999));
	say_call(prctl(PR_SET_DUMPABLE, 0));
	say_attributes(NULL);
	apart(say_attributes, NULL);
	say_call(prctl(PR_SET_DUMPABLE, 1));
}

static void *lead_session(void *arg)
{
	const pid_t group = getpgid(0), got = setsid();

	say("%d", got == getpid() || (got == -1 && errno == EPERM && group == getpid()));
	say("%d", setpgid(0, 0) == 0 || getsid(0) == getpid());
	return arg;
}

CASE(session, ALONE)
{
	apart(lead_session, NULL);
	say("%d", getpgid(0) == getpid());
	say_call(setpgid(1 << 30, 0));
	get_numbers(of_process);
	apart(compare_numbers, NULL);
}

static void *look_for_file(void *arg)
{
	say_call(access("/in_root", F_OK));
	return arg;
}

CASE(root_directory, ALONE)
{
	make_file("in_root");
	say_call(chroot("no/such/folder"));
	say_call(chroot("."));
	look_for_file(NULL);
	apart(look_for_file, NULL);
}

/* ---- children -------------------------------------------------------------------------------- */

static void *wait_for_child(void *arg)
{
	const pid_t child = *(pid_t *)arg;
	int status = 0;

	say("%d", waitpid(child, &status, 0) == child);
	say("%d %d", WIFEXITED(status), WEXITSTATUS(status));
	return arg;
}

CASE(spawned, EACH)
{
	char *const sh[] = { "sh", "-c", "echo from child; exit 5", NULL },
		    *const missing[] = { "no-such", NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char text[32] = "";
	pid_t child = -1;
	int ends[2];

	say_call(pipe(ends));
	say_error(posix_spawn_file_actions_init(&actions));
	say_error(posix_spawn_file_actions_adddup2(&actions, ends[1], 1));
	say_error(posix_spawn_file_actions_addclose(&actions, ends[0]));
	say_error(posix_spawnattr_init(&attributes));
	say_error(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP));
	say_error(posix_spawn(&child, "/bin/sh", &actions, &attributes, sh, environ));
	close(ends[1]);
	say("%zd", read(ends[0], text, sizeof(text) - 1));
	say("%.10s", text);
	close(ends[0]);
	apart(wait_for_child, &child);
	say_error(posix_spawnp(&child, "sh", NULL, NULL, sh, environ));
	wait_for_child(&child);
	say_error(posix_spawnp(&child, "no-such", NULL, NULL, missing, environ));
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
}

CASE(waits_for_children, EACH)
{
	char *const argv[] = { "sh", "-c", "exit 6", NULL },
		    *const killed[] = { "sh", "-c", "kill -9 $$", NULL };
	struct rusage usage;
	siginfo_t info = { 0 };
	pid_t child = -1;
	int status = 0;

	say_call(wait(&status));
	posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ);
	say("%d %d", wait(&status) == child, WEXITSTATUS(status));
	posix_spawn(&child, "/bin/sh", NULL, NULL, killed, environ);
	say("%d", wait4(child, &status, 0, &usage) == child);
	say("%d %d", WIFSIGNALED(status), WTERMSIG(status));
	posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ);
	say_call(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT));
	say("%d %d", info.si_pid == child, info.si_status);
	say("%d", wait3(&status, 0, NULL) == child);
	say_call(waitpid(child, &status, WNOHANG));
}

CASE(forked, EACH)
{
	int status = 0;
	pid_t child = fork();

	if (!child)
		_exit(4);
	if (child > 0)
		waitpid(child, &status, 0);
	say("%s %d", child < 0 ? error_name(errno) : "ok", WEXITSTATUS(status));
}

CASE(forked_by_vfork, EACH)
{
	int status = 0;
	pid_t child = vfork();

	if (!child) {
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(99);
	}
	say("%d", child > 0 && waitpid(child, &status, 0) == child);
	say("%d %d", WIFEXITED(status), WEXITSTATUS(status));
}

CASE(execute_missing, EACH)
{
	char *const argv[] = { "no-such", NULL };

	say_call(execve("/no/such/program", argv, environ));
	say_call(fexecve(-1, argv, environ));
	say_call(fexecve(400, argv, environ));
	say_call(execvp("no-such-program", argv));
	say_call(execl(".", "folder", (char *)NULL));
}

/* ---- its end --------------------------------------------------------------------------------- */

static void say_now(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		abort();
}

static void first_handler(void)
{
	say_now("first\n");
}

static void second_handler(void)
{
	say_now("second\n");
}

static void third_handler(int status, void *arg)
{
	char text[64];

	snprintf(text, sizeof(text), "third %d %s\n", status, (const char *)arg);
	say_now(text);
}

static void *register_handlers(void *arg)
{
	say_call(atexit(second_handler));
	say_call(on_exit(third_handler, "argument"));
	return arg;
}

static void *exit_there(void *status)
{
	exit((int)(intptr_t)status);
}

CASE(exit_handlers, ALONE)
{
	say_call(atexit(first_handler));
	register_handlers(NULL);
	said();
	exit(3);
}

CASE(exit_handlers_by_thread, ALONE)
{
	say_call(atexit(first_handler));
	register_handlers(NULL);
	said();
	apart(exit_there, (void *)4);
}

CASE(exit_handlers_of_thread, ALONE)
{
	say_call(atexit(first_handler));
	apart(register_handlers, NULL);
	say_call(atexit(first_handler));
	said();
	exit(5);
}

CASE(exit_writes_streams, ALONE)
{
	said();
	printf("buffered\n");
	apart(exit_there, (void *)6);
}

static void never_handler(void)
{
	say_now("never\n");
}

static void *quick_exit_there(void *arg)
{
	say_call(at_quick_exit(second_handler));
	said();
	quick_exit(7);
	return arg;
}

CASE(exit_quick, ALONE)
{
	say_call(atexit(never_handler));
	say_call(at_quick_exit(first_handler));
	quick_exit_there(NULL);
}

CASE(exit_quick_of_thread, ALONE)
{
	say_call(at_quick_exit(first_handler));
	apart(quick_exit_there, NULL);
}

static void *exit_at_once_there(void *arg)
{
	_exit(8);
	return arg;
}

CASE(exit_at_once, ALONE)
{
	atexit(first_handler);
	said();
	printf("never written");
	apart(exit_at_once_there, NULL);
}

static void exit_in_handler_body(void)
{
	say_now("nested\n");
	exit(9);
}

CASE(exit_in_handler, ALONE)
{
	atexit(first_handler);
	atexit(exit_in_handler_body);
	said();
	exit(1);
}

/* ---- processors ------------------------------------------------------------------------------ */

static void *compare_processors(void *arg)
{
	const int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	say("%d", sched_getaffinity(0, sizeof(set), &set));
	say("%d", CPU_COUNT(&set) > 0 && CPU_COUNT(&set) <= online);
	say("%d %d", get_nprocs() == online, get_nprocs_conf() >= online);
	say("%d", sysconf(_SC_NPROCESSORS_CONF) == get_nprocs_conf());
	return arg;
}

CASE(processors, EACH)
{
	cpu_set_t all, one, got;
	int first = 0;

	compare_processors(NULL);
	apart(compare_processors, NULL);
	CPU_ZERO(&one);
	say_call(sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_SET(first, &one);
	say_call(sched_setaffinity(0, sizeof(one), &one));
	say_call(sched_getaffinity(0, sizeof(got), &got));
	say("%d %d", CPU_EQUAL(&got, &one), sched_getcpu() == first);
	say_call(sched_setaffinity(0, sizeof(all), &all));
	CPU_ZERO(&one);
	say_call(sched_setaffinity(0, sizeof(one), &one));
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * killed.c - an answer arrives for a thread that was killed. The process of rank 1 waits for a lock
 * or a semaphore and is killed. A child keeps the descriptor, so the rank still exists when rank 0
 * releases the lock or posts the semaphore. What must hold: the kernel reports no problem, and
 * nothing is left once the child has exited.
 *
 * Then a thread waits for the lock of its context, in KEY, CONNECT or JOIN, while another has it
 * (test_pause_connect), and their process is killed: the thread that waits must end at once.
 *
 * --unload: the process has given up its wait for a lock. When the process exits, a worker forgets
 * that wait, and is the last user of the rank. The worker stays in the module (test_linger) while
 * the test unloads it. What must hold: the module stays until the worker has left.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#define LINGER_S 0.5 /* longer than a process takes to end */

static struct job *j;
static struct {
	_Atomic uint32_t name; /* the object's name */
	_Atomic int waits;
} * shared;

static bool call(int fd, struct dsm_ioc_call c, struct dsm_ioc_call *out)
{
	bool ok = !ioctl(fd, DSM_IOC_CALL, &c) && !c.status;

	*out = c;
	return ok;
}

static void waiter(bool lock, const int child[2])
{
	struct dsm_ioc_call c = { .call = lock ? DSM_CALL_LOCK : DSM_CALL_SYNC,
				  .op = lock ? 0 : SOP_WAIT };
	int fd = job_join(j, 1);
	char byte;

	close(child[1]);
	if (fd < 0)
		_exit(3);
	if (!fork()) { /* it keeps the file open until the test closes the pipe */
		byte = 0;
		_exit(read(child[0], &byte, 1) != 0);
	}
	while (!atomic_load(&shared->name))
		usleep(1000);
	c.object = atomic_load(&shared->name);
	atomic_store(&shared->waits, 1);
	call(fd, c, &c);
	_exit(4); /* the call must not return */
}

static bool one(bool lock)
{
	struct dsm_ioc_call made, held = { 0 };
	int fd, child[2], status = 0, taint = tainted();
	double end = now_s() + patience(60);
	pid_t pid;
	bool ok;

	job_set(j, 2, false);
	atomic_store(&shared->name, 0);
	atomic_store(&shared->waits, 0);
	if (pipe(child))
		return false;
	fflush(stdout);
	pid = fork();
	if (!pid)
		waiter(lock, child);
	close(child[0]);
	fd = job_join(j, 0);
	ok = fd >= 0 &&
		call(fd,
		     (struct dsm_ioc_call){ .value2 = (uint64_t)(lock ? SYNC_MUTEX : SYNC_SEM)
						    << 32 },
		     &made);
	ok = ok &&
		(!lock ||
		 call(fd,
		      (struct dsm_ioc_call){ .call = DSM_CALL_LOCK,
					     .object = (uint32_t)made.result },
		      &held));
	if (ok)
		atomic_store(&shared->name, (uint32_t)made.result);
	while (ok && !atomic_load(&shared->waits) && now_s() < end)
		usleep(1000);
	usleep((useconds_t)(patience(0.3) * 1e6)); /* the call has been made, and waits */
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (lock)
		ok = ok &&
			call(fd,
			     (struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = held.hold },
			     &held);
	else
		ok = ok &&
			call(fd,
			     (struct dsm_ioc_call){
				     .op = SOP_POST, .object = (uint32_t)made.result, .value = 1 },
			     &held);
	usleep(100000);
	close(child[1]);
	munmap(JOB_BASE, JOB_WINDOW);
	close(fd);
	ok = ok && WIFSIGNALED(status) && nothing_left(20) && tainted() == taint;
	/* reap the child, which this process has inherited */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	printf("%s: %s\n", lock ? "a lock" : "a semaphore",
	       ok ? "its answer found nobody" : "FAILED");
	return ok;
}

/* ---- the lock of the context ----------------------------------------------------------------- */

#define PAUSE "/sys/module/dsm/parameters/test_pause_connect"

static struct {
	int fd;
	_Atomic unsigned int holder, waiter; /* threads */
} * locked;

static bool paused(void)
{
	FILE *f = fopen(PAUSE, "r");
	unsigned int now = 0;

	if (f && fscanf(f, "%u", &now) != 1)
		now = 0;
	if (f)
		fclose(f);
	return now == 2;
}

static void *holds_lock(void *arg)
{
	struct dsm_ioc_connect c = { .rank = 1, .flags = DSM_CONNECT_HERE };

	(void)arg;
	atomic_store(&locked->holder, (unsigned int)gettid());
	ioctl(locked->fd, DSM_IOC_CONNECT, &c);
	return NULL;
}

/* Threads of this process make both calls, and wait. */
static void waits_for_lock(unsigned long op)
{
	struct dsm_ioc_connect connect = { .rank = 1, .flags = DSM_CONNECT_HERE };
	struct dsm_ioc_join join = {
		.size = 2, .gid = -1, .device = "none", .vectors = { -1, -1, -1, -1 }
	};
	double end = now_s() + patience(20);
	pthread_t t;

	join.address_size = sizeof(j->address[0]);
	join.address = (uintptr_t)j->address[0];
	j->present = 1;
	locked->fd = job_join(j, 0);
	if (locked->fd < 0 || !file_set(PAUSE, "1") || pthread_create(&t, NULL, holds_lock, NULL))
		_exit(3);
	while (!paused() && now_s() < end)
		usleep(1000);
	atomic_store(&locked->waiter, (unsigned int)gettid());
	ioctl(locked->fd, op,
	      op == DSM_IOC_CONNECT        ? (void *)&connect
		      : op == DSM_IOC_JOIN ? (void *)&join
					   : (void *)&j->key);
	_exit(4); /* the call must not return */
}

/* A thread that waits for the lock ends at SIGKILL, though the one that has it goes on. */
static bool killed_at_lock(const char *name, unsigned long op)
{
	const double end = now_s() + patience(20);
	bool ok, held;
	double began;
	pid_t pid;
	char state;

	job_set(j, 2, false);
	atomic_store(&locked->holder, 0);
	atomic_store(&locked->waiter, 0);
	fflush(stdout);
	pid = fork();
	if (!pid)
		waits_for_lock(op);
	while (!(atomic_load(&locked->waiter) &&
		 thread_state(pid, atomic_load(&locked->waiter)) == 'D') &&
	       now_s() < end)
		usleep(1000);
	ok = paused() && now_s() < end;
	kill(pid, SIGKILL);
	began = now_s();
	do {
		usleep(1000);
		state = thread_state(pid, atomic_load(&locked->waiter));
	} while (state && state != 'Z' && state != 'X' && now_s() < began + patience(3));
	held = paused() && thread_state(pid, atomic_load(&locked->holder));
	ok = ok && held && (!state || state == 'Z' || state == 'X');
	printf("%s waits for the lock of its context: %s\n", name,
	       ok ? "killed meanwhile" : "FAILED");
	file_set(PAUSE, "0");
	return job_reap(&pid, 1, 20) && nothing_left(20) && ok;
}

/* ---- unloading ------------------------------------------------------------------------------- */

static void gives_up(void)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_LOCK, .ns = 1000000 };
	int fd = job_join(j, 1);

	while (fd >= 0 && !atomic_load(&shared->name))
		usleep(1000);
	c.object = atomic_load(&shared->name);
	if (fd < 0 || ioctl(fd, DSM_IOC_CALL, &c) || c.status != -ETIMEDOUT)
		_exit(3);
	atomic_store(&shared->waits, 1);
	pause();
	_exit(4);
}

static bool unloaded(void)
{
	const double linger = patience(LINGER_S);
	struct dsm_ioc_call made, held;
	double began, took;
	bool ok, refused;
	char text[16];
	int fd, err = 0;
	pid_t pid;

	snprintf(text, sizeof(text), "%.0f", linger * 1e3);
	job_set(j, 2, false);
	fflush(stdout);
	pid = fork();
	if (!pid)
		gives_up();
	fd = job_join(j, 0);
	ok = fd >= 0 &&
		call(fd, (struct dsm_ioc_call){ .value2 = (uint64_t)SYNC_MUTEX << 32 }, &made) &&
		call(fd,
		     (struct dsm_ioc_call){ .call = DSM_CALL_LOCK,
					    .object = (uint32_t)made.result },
		     &held);
	if (ok)
		atomic_store(&shared->name, (uint32_t)made.result);
	began = now_s();
	while (ok && !atomic_load(&shared->waits) && now_s() < began + patience(60))
		usleep(1000);
	ok = ok && atomic_load(&shared->waits) &&
		file_set("/sys/module/dsm/parameters/test_linger", text);
	munmap(JOB_BASE, JOB_WINDOW);
	close(fd); /* the lock must not be granted */
	refused = module_unload() == -EWOULDBLOCK;
	kill(pid, SIGKILL);
	began = now_s();
	while (ok && (err = module_unload()) == -EWOULDBLOCK && now_s() < began + patience(20))
		usleep(500);
	took = now_s() - began;
	ok = job_reap(&pid, 1, 20) && ok;
	printf("a worker stays for %s ms: unloaded after %.0f ms (%s), refused before: %s\n", text,
	       took * 1e3, strerror(-err), refused ? "yes" : "no");
	ok = ok && refused && !err && !module_loaded() && took >= linger;
	if (!ok)
		printf("FAILED: the module goes when the worker has gone, no sooner\n");
	if (module_loaded())
		file_set("/sys/module/dsm/parameters/test_linger", "0");
	return ok;
}

int main(int argc, char **argv)
{
	const bool unloading = argc == 2 && !strcmp(argv[1], "--unload");
	bool ok;

	if (argc > 1 && !unloading) {
		printf("usage: killed [--unload]\n"
		       "Processes that are killed while they wait for a lock of dsm.ko; in a guest with the module loaded.\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	module_needed();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	j = job_new();
	shared = shared_memory(sizeof(*shared));
	locked = shared_memory(sizeof(*locked));
	if (unloading)
		return unloaded() ? 0 : 1;
	ok = one(false);
	ok &= one(true);
	ok &= killed_at_lock("KEY", DSM_IOC_KEY);
	ok &= killed_at_lock("CONNECT", DSM_IOC_CONNECT);
	ok &= killed_at_lock("JOIN", DSM_IOC_JOIN);
	return ok ? 0 : 1;
}

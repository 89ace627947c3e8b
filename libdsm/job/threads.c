// SPDX-License-Identifier: BSD-2-Clause
/*
 * threads.c - the threads of the program.
 *
 * Does any of them still live? If main() has left by pthread_exit() and no other thread is there, a
 * process ends as by exit(0). A rank would not: threads of the runtime remain. Those are known by
 * their numbers, noted at the start; they have all signals blocked, and did not exist before
 * dsm_init(). The service thread asks, once the first thread is about to end: nothing else reports
 * the end of the last one. A job of one rank has no service thread, and makes a thread for that.
 *
 * Do all of them sleep? deadlock.c asks that, in one thread of the process at a time.
 */
#include "job/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"
#include "util/log.h"

#define THREADS_MS 250 /* between two checks */
#define LIST_FIRST 64u

struct list {
	int *tids;
	unsigned int n, room;
};

/* The program's threads when the runtime starts, and the runtime's own. */
static struct list before, ours;
static uint32_t first_ends; /* atomic */
static int noted;           /* atomic */
/* handled signals: those of the program, and those also of the runtime */
static uint64_t caught_before, caught;
static bool (*expected)(int sig); /* NULL: no layer above has handlers of its own */

static bool has(const struct list *l, int tid)
{
	unsigned int i;

	for (i = 0; i < l->n && l->tids[i] != tid; i++)
		;
	return i < l->n;
}

/* Make room for one more number. */
static bool make_room(struct list *l)
{
	const unsigned int room = l->room ? 2 * l->room : LIST_FIRST;
	int *tids;

	if (l->n < l->room)
		return true;
	tids = realloc(l->tids, room * sizeof(*tids));
	if (!tids)
		return false;
	l->room = room;
	l->tids = tids;
	return true;
}

/*
 * Without memory it is missing from the list, and looks like a thread of the program, which keeps
 * the process alive.
 */
static void threads_list_add(struct list *l, int tid)
{
	if (make_room(l))
		l->tids[l->n++] = tid;
}

/* Find the text after a word in a file of a thread; false: the thread is gone. */
static bool look_up(int tid, const char *file, const char *word, char *out, size_t room)
{
	char path[64], text[2048], *at;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = 0;
	at = strstr(text, word);
	if (!at)
		return false;
	snprintf(out, room, "%s", at + strlen(word));
	return true;
}

/*
 * All signals that can be blocked. A thread that was created and has not run yet has the C
 * library's own two signals blocked as well.
 */
static bool blocks_all(int tid)
{
	const uint64_t never = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 3ull << 31;
	char mask[20] = "";

	return look_up(tid, "status", "SigBlk:\t", mask, sizeof(mask)) &&
		(strtoull(mask, NULL, 16) | never) == UINT64_MAX;
}

/* Calls fn for each thread of this process until it returns true, and returns that. */
static bool any_thread(bool (*fn)(int tid))
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	bool found = !d; /* unreadable: assume one */

	while (d && !found && (e = readdir(d)))
		found = e->d_name[0] != '.' && fn(atoi(e->d_name));
	if (d)
		closedir(d);
	return found;
}

static bool note_before(int tid)
{
	threads_list_add(&before, tid);
	return false;
}

static bool note_ours(int tid)
{
	if (!has(&before, tid) && blocks_all(tid))
		threads_list_add(&ours, tid);
	return false;
}

/*
 * The state as in proc(5); 0: the thread is not the program's, or has ended. The first thread of a
 * process stays as a zombie while others live.
 */
static char state_of(int tid)
{
	char state[4] = "";

	if (has(&ours, tid) || tid == __atomic_load_n(&noted, __ATOMIC_ACQUIRE) ||
	    !look_up(tid, "status", "State:\t", state, sizeof(state)) || state[0] == 'Z' ||
	    state[0] == 'X')
		return 0;
	return state[0];
}

static bool of_the_program(int tid)
{
	return state_of(tid);
}

void threads_note(int tid)
{
	__atomic_store_n(&noted, tid, __ATOMIC_RELEASE);
}

/* The handled signals; all, if that cannot be read. */
static uint64_t handlers(void)
{
	char mask[20] = "";

	return look_up(getpid(), "status", "SigCgt:\t", mask, sizeof(mask))
		? strtoull(mask, NULL, 16)
		: UINT64_MAX;
}

static uint64_t bit_of(int sig)
{
	return 1ull << (sig - 1);
}

bool threads_handle_signals(void)
{
	const uint64_t of_faults = bit_of(SIGSEGV) | bit_of(SIGBUS) | bit_of(SIGFPE) |
		bit_of(SIGILL) |
		/* the C library's own two */
		bit_of(SIGTRAP) | bit_of(SIGSYS) | bit_of(SIGABRT) | 3ull << 31;
	/* Above SIGRTMAX are those that libraries have reserved (libdsm-syscall.so). */
	const uint64_t reserved = SIGRTMAX < 64 ? UINT64_MAX << SIGRTMAX : 0;
	uint64_t left = handlers() & ~of_faults & ~reserved & ~caught;
	bool (*is_expected)(int sig) = __atomic_load_n(&expected, __ATOMIC_ACQUIRE);

	while (left && is_expected && is_expected(__builtin_ctzll(left) + 1))
		left &= left - 1;
	return left;
}

void threads_expect(bool (*is_expected)(int sig))
{
	__atomic_store_n(&expected, is_expected, __ATOMIC_RELEASE);
}

static struct {
	bool (*waits)(int tid);
	int n;
} asleep;

static bool is_awake(int tid)
{
	const char state = state_of(tid);

	asleep.n += state != 0;
	return state && (state != 'S' || !asleep.waits(tid));
}

int threads_asleep(bool (*waits)(int tid))
{
	asleep.waits = waits;
	asleep.n = 0;
	return any_thread(is_awake) ? -1 : asleep.n;
}

void threads_before(void)
{
	caught_before = handlers();
	before.n = ours.n = 0;
	/* from another thread, the first thread's end may never be noticed */
	first_ends = gettid() != getpid();
	any_thread(note_before);
}

void threads_after(void)
{
	any_thread(note_ours);
	make_room(&ours); /* for threads_watch(), beside which others read */
	caught = handlers() & ~caught_before;
}

static void *threads_watch(void *arg)
{
	threads_list_add(&ours, gettid());
	while (threads_check())
		usleep(THREADS_MS * 1000);
	return arg;
}

static void start_watch(void)
{
	sigset_t all, old;
	pthread_t t;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!pthread_create(&t, NULL, threads_watch, NULL))
		pthread_detach(t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void threads_end(void)
{
	if (gettid() != getpid() || __atomic_load_n(&job.state, __ATOMIC_ACQUIRE) != CTL_RUNNING)
		return;
	__atomic_store_n(&first_ends, 1, __ATOMIC_RELEASE);
	if (job.size > 1)
		job_ring(job.rank);
	else if (!job.launch.alone) /* PMIx has a thread */
		start_watch();
}

bool threads_check(void)
{
	if (!__atomic_load_n(&first_ends, __ATOMIC_ACQUIRE))
		return false;
	if (!any_thread(of_the_program))
		exit(0);
	return true;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - a thread of a rank waits in dsm.ko for a block that another rank has pinned, and gets signals: their handler runs at
 * once, and the access ends when the block comes, with what the other rank wrote. So for a block that is elsewhere, and for one
 * that the thread may read and wants to write.
 *
 * The same for each kind of call that waits: handlers run, the call ends when the other rank lets it, and has been made once. A
 * handler may also leave by siglongjmp(3); what its thread has waited for then comes to others.
 *
 * Runs in a guest with the module loaded.
 */
#include "core/sync.h"
#include "tests/kmod/common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIGNALS 20u
#define WRITTEN 41u

static struct {
	_Atomic unsigned int pinned, handled, ended, failed, object, tid;
} * both;
static struct job *j;

static bool expect(bool is, const char *what)
{
	if (!is) {
		printf("FAILED: %s (%s)\n", what, strerror(errno));
		atomic_fetch_add(&both->failed, 1);
	}
	return is;
}

/* Until *n is that much; false: it took too long. */
static bool reached(const _Atomic unsigned int *n, unsigned int wanted)
{
	double end = now_s() + patience(20);

	while (atomic_load(n) < wanted && now_s() < end)
		usleep(500);
	return atomic_load(n) >= wanted;
}

static volatile unsigned int *word(void)
{
	return (volatile unsigned int *)JOB_BASE;
}

static int pin(int fd, bool on, bool write)
{
	struct dsm_ioc_range r = { .op = on ? DSM_RANGE_PIN : DSM_RANGE_UNPIN, .pages = 1, .write = write };

	return ioctl(fd, DSM_IOC_RANGE, &r);
}

/* Has the block pinned until the other rank's thread has had all its signals. */
static void holds(bool upgrade)
{
	int fd = job_join(j, 1);

	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	*word() = WRITTEN;
	expect(!pin(fd, true, !upgrade), "a block is pinned");
	atomic_store(&both->pinned, 1);
	expect(reached(&both->handled, SIGNALS), "handlers run while their thread waits");
	expect(!atomic_load(&both->ended), "the access waits");
	expect(!pin(fd, false, !upgrade), "it is let go");
	expect(reached(&both->ended, 1), "the access ends");
	fflush(stdout);
	_exit(0);
}

static void handler(int sig)
{
	(void)sig;
	atomic_fetch_add(&both->handled, 1);
}

static void *access_it(void *arg)
{
	(void)arg;
	++*word();
	atomic_store(&both->ended, 1);
	return NULL;
}

static void waits(bool upgrade)
{
	struct sigaction sa = { .sa_handler = handler };
	int fd = job_join(j, 0);
	pthread_t thread;
	long long faults;
	unsigned int i;

	if (!expect(fd >= 0, "a job of two ranks") || !expect(reached(&both->pinned, 1), "the other rank"))
		_exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	if (upgrade)
		expect(*word() == WRITTEN, "it can be read");
	faults = counter("faults");
	pthread_create(&thread, NULL, access_it, NULL);
	for (i = 0; counter("faults") == faults && i < 20000; i++)
		usleep(1000);
	for (i = 1; i <= SIGNALS; i++) {
		pthread_kill(thread, SIGUSR1);
		if (!expect(reached(&both->handled, i), "a handler"))
			break;
	}
	atomic_store(&both->handled, SIGNALS); /* the other rank need not wait for what has failed */
	pthread_join(thread, NULL);
	expect(*word() == WRITTEN + 1, "the access is made, and once");
	fflush(stdout);
	_exit(0);
}

/* ---- calls ---------------------------------------------------------------------------------- */

#define LIMIT_NS 60000000000ull
#define BARRIER 3u

struct kind {
	const char *name;
	struct dsm_ioc_call wait, let; /* of the one rank, of the other */
	struct dsm_ioc_call hold;      /* of the other, before */
	struct dsm_ioc_call undo;      /* of the one, after */
	struct dsm_ioc_call again;     /* of the other, in the end: as if nobody had been there */
	int32_t status;                /* of that */
	uint8_t object;                /* enum sync_kind */
	bool given_back;               /* what comes to nobody */
};

#define SYNC(o, ...)                                                     \
	{                                                                \
		.call = DSM_CALL_SYNC, .op = (o), .home = 1, __VA_ARGS__ \
	}
#define CALL(c, ...)                                \
	{                                           \
		.call = (c), .home = 1, __VA_ARGS__ \
	}
#define ARRIVE                                                                         \
	{                                                                              \
		.call = DSM_CALL_BARRIER, .object = BARRIER, .threads = 1, .value2 = 3 \
	}

static const struct kind kinds[] = {
	{ .name = "a lock",
	  .object = SYNC_MUTEX,
	  .hold = CALL(DSM_CALL_LOCK, ),
	  .wait = CALL(DSM_CALL_LOCK, ),
	  .let = { .call = DSM_CALL_UNLOCK },
	  .undo = { .call = DSM_CALL_UNLOCK },
	  .again = CALL(DSM_CALL_TRYLOCK, ),
	  .given_back = true },
	{ .name = "a lock to write",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_WRLOCK, ),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_WRUNLOCK, ),
	  .again = SYNC(SOP_WRLOCK, ),
	  .given_back = true },
	{ .name = "a lock to read",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_RDLOCK, ),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_RDUNLOCK, ),
	  .again = SYNC(SOP_WRLOCK, ),
	  .given_back = true },
	{ .name = "a semaphore",
	  .object = SYNC_SEM,
	  .wait = SYNC(SOP_WAIT, ),
	  .let = SYNC(SOP_POST, .value = 1),
	  .undo = SYNC(SOP_POST, .value = 1),
	  .again = SYNC(SOP_TRYWAIT, ),
	  .given_back = true },
	{ .name = "a semaphore with a limit",
	  .object = SYNC_SEM,
	  .wait = SYNC(SOP_WAIT, .ns = LIMIT_NS),
	  .let = SYNC(SOP_POST, .value = 1),
	  .undo = SYNC(SOP_POST, .value = 1),
	  .again = SYNC(SOP_TRYWAIT, ),
	  .given_back = true },
	{ .name = "a condition",
	  .object = SYNC_COND,
	  .wait = SYNC(SOP_ENQUEUE, ),
	  .let = SYNC(SOP_SIGNAL, ),
	  .again = SYNC(SOP_BROADCAST, ) },
	{ .name = "a barrier", .wait = ARRIVE, .let = ARRIVE },
};

static bool call(int fd, const struct dsm_ioc_call *c, struct dsm_ioc_call *out)
{
	*out = *c;
	return !ioctl(fd, DSM_IOC_CALL, out);
}

/* Of the object that both know; calls that are empty are not made. */
static int32_t make_call(int fd, const struct dsm_ioc_call *c, uint16_t *hold)
{
	struct dsm_ioc_call named = *c, out;

	if (c->call == DSM_CALL_SYNC && !c->op)
		return 0;
	if (c->call == DSM_CALL_UNLOCK)
		named.hold = *hold;
	else if (c->call != DSM_CALL_BARRIER)
		named.object = atomic_load(&both->object);
	if (!call(fd, &named, &out))
		return errno == EINTR ? -EINTR : -EIO;
	*hold = out.hold;
	return out.status;
}

static const struct kind *what;
static int waiter_fd;
static sigjmp_buf out_of_here;
static volatile sig_atomic_t leaves;

static void leave(int sig)
{
	(void)sig;
	atomic_fetch_add(&both->handled, 1);
	if (leaves)
		siglongjmp(out_of_here, 1);
}

/* The call is made, by a thread that gets signals, or that leaves it for another call. */
static void *call_it(void *arg)
{
	const bool goes = arg;
	uint16_t hold = 0;

	atomic_store(&both->tid, (unsigned int)gettid());
	if (goes && sigsetjmp(out_of_here, 1)) {
		struct dsm_ioc_call none = { .call = DSM_CALL_BARRIER, .object = BARRIER, .value2 = 3 };

		expect(call(waiter_fd, &none, &none), "another call");
		atomic_store(&both->ended, 1);
		return NULL;
	}
	expect(!make_call(waiter_fd, &what->wait, &hold), "the call");
	expect(!goes, "the handler leaves");
	atomic_store(&both->ended, 1);
	expect(!make_call(waiter_fd, &what->undo, &hold), "what it got is given back");
	return NULL;
}

/* Has what the other rank's thread waits for, until that has had all its signals. */
static void lets(bool goes)
{
	struct dsm_ioc_call made = { .home = 1, .value2 = (uint64_t)what->object << 32 };
	double end = now_s() + patience(20);
	int fd = job_join(j, 1);
	uint16_t hold = 0;
	int32_t status;

	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	if (what->object) {
		expect(call(fd, &made, &made) && !made.status, "an object is made");
		atomic_store(&both->object, (unsigned int)made.result);
	}
	expect(!make_call(fd, &what->hold, &hold), "it is held");
	atomic_store(&both->pinned, 1);
	expect(reached(&both->handled, goes ? 1 : SIGNALS), "handlers run while their thread waits");
	if (goes)
		expect(reached(&both->ended, 1), "the thread goes on");
	else
		expect(!atomic_load(&both->ended), "the call waits");
	expect(!make_call(fd, &what->let, &hold), "it is let go");
	expect(reached(&both->ended, 1), "the call ends");
	expect(reached(&both->pinned, 2), "the other rank");
	do {
		status = make_call(fd, &what->again, &hold);
	} while (status && now_s() < end && !usleep(1000));
	expect(!status, "it has been given back");
	if (what->object == SYNC_SEM)
		expect(make_call(fd, &what->again, &hold), "it was given back once");
	atomic_store(&both->pinned, 3);
	fflush(stdout);
	_exit(0);
}

/* Sleeps in the kernel, as far as one can see. */
static void until_it_sleeps(void)
{
	double end = now_s() + patience(20);
	char path[64], state = 0;

	while (state != 'S' && now_s() < end) {
		FILE *f;

		usleep(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%u/stat", atomic_load(&both->tid));
		f = atomic_load(&both->tid) ? fopen(path, "r") : NULL;
		if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		if (f)
			fclose(f);
	}
}

static void calls(bool goes)
{
	struct sigaction sa = { .sa_handler = leave };
	pthread_t thread;
	unsigned int i;

	waiter_fd = job_join(j, 0);
	if (!expect(waiter_fd >= 0, "a job of two ranks") || !expect(reached(&both->pinned, 1), "the other rank"))
		_exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	leaves = goes;
	pthread_create(&thread, NULL, call_it, goes ? &out_of_here : NULL);
	for (i = 1; i <= (goes ? 1 : SIGNALS); i++) {
		until_it_sleeps();
		pthread_kill(thread, SIGUSR1);
		if (!expect(reached(&both->handled, i), "a handler"))
			break;
	}
	atomic_store(&both->handled, SIGNALS); /* the other rank need not wait for what has failed */
	pthread_join(thread, NULL);
	atomic_store(&both->pinned, 2);
	reached(&both->pinned, 3); /* what comes of a call that was left comes to this rank */
	fflush(stdout);
	_exit(0);
}

/* ---- all ------------------------------------------------------------------------------------ */

static bool two_ranks(void (*one)(bool), void (*other)(bool), bool how)
{
	pid_t pids[2];
	unsigned int i;
	bool ok;

	job_set(j, 2, false);
	j->home = DSM_REGION_CYCLIC;
	atomic_store(&both->pinned, 0);
	atomic_store(&both->handled, 0);
	atomic_store(&both->ended, 0);
	atomic_store(&both->tid, 0);
	fflush(stdout);
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			(i ? other : one)(how);
	}
	ok = job_reap(pids, 2, 90);
	ok &= nothing_left(20);
	return ok && !atomic_load(&both->failed);
}

static bool misses(bool upgrade)
{
	const bool ok = two_ranks(waits, holds, upgrade);

	printf("%s: %s\n", upgrade ? "a write to a block for reading" : "a block that is elsewhere",
	       ok ? "handlers ran while it was waited for" : "FAILED");
	return ok;
}

static bool waits_for(const struct kind *k)
{
	bool ok;

	what = k;
	ok = two_ranks(calls, lets, false);
	printf("%s: %s\n", k->name, ok ? "handlers ran while it was waited for" : "FAILED");
	if (!ok || !k->given_back)
		return ok;
	ok = two_ranks(calls, lets, true);
	printf("%s that a handler leaves: %s\n", k->name, ok ? "others get it" : "FAILED");
	return ok;
}

int main(void)
{
	unsigned int i;
	bool ok;

	if (!module_loaded()) {
		fprintf(stderr, "signals: dsm.ko is not loaded\n");
		return 77;
	}
	j = job_new();
	both = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (both == MAP_FAILED)
		return 2;
	ok = misses(false);
	ok &= misses(true);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && ok; i++)
		ok = waits_for(&kinds[i]);
	return ok ? 0 : 1;
}

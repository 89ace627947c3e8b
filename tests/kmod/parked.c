// SPDX-License-Identifier: BSD-2-Clause
/*
 * parked.c - calls that dsm.ko keeps while their threads run signal handlers (kmod/node/park.c),
 * and that no thread repeats.
 *
 * A thread leaves its wait for a condition by siglongjmp(3), and makes its next calls from deeper
 * on its stack, where a handler could be: the call is kept. A call from higher up gives it up, and
 * no request is left in line for the condition. The same holds if the condition was signalled and
 * destroyed before. A thread that has left a call at a cancellation point cancels it, before or
 * after the object of the wait has arrived; no other thread can. If a thread's handlers wait in
 * calls, and are interrupted in turn, at most PARKED_MAX calls are parked. The next signal waits,
 * and each call is made once.
 *
 * A wait for a mutex is given up, and the mutex arrives meanwhile (test_slow_await). The worker
 * that gives the mutex back frees the call: after that, the module must not use it any more.
 *
 * One rank, in a guest with the module loaded.
 */
#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PARKED_MAX 8u /* as kmod/node/park.c has it */

static struct job *j;
static _Atomic unsigned int *failed;
static int fd;
static uint32_t condition;
static _Atomic unsigned int tid, handled, made;

static bool expect(bool is, const char *what)
{
	if (!is) {
		printf("FAILED: %s (%s)\n", what, strerror(errno));
		show_ranks();
		fflush(stdout);
		atomic_fetch_add(failed, 1);
		_exit(1); /* threads may wait for ever */
	}
	return is;
}

/* Returns the status of the object, which is negative, or the result of the call. */
static int64_t call(struct dsm_ioc_call c)
{
	if (ioctl(fd, DSM_IOC_CALL, &c))
		return -errno;
	return c.status ? c.status : (int64_t)c.result;
}

static int64_t on_condition(uint8_t op)
{
	return call((struct dsm_ioc_call){ .call = DSM_CALL_SYNC, .op = op, .object = condition });
}

/* Make the call from `frames` stack frames of 8 KiB deeper. */
__attribute__((noinline)) static int64_t deep(unsigned int frames, int64_t (*what)(void))
{
	volatile char frame[8192];
	int64_t result;

	frame[0] = 0;
	result = frames ? deep(frames - 1, what) : what();
	return result + frame[0];
}

static int64_t wait_for_it(void)
{
	return on_condition(SOP_ENQUEUE);
}

/* A call that does not wait: a barrier of one thread. */
static int64_t another_call(void)
{
	return call((struct dsm_ioc_call){ .call = DSM_CALL_BARRIER, .object = 1, .value2 = 1 });
}

static void until_waits(void)
{
	expect(reached(&tid, 1), "a thread");
	until_asleep(&tid);
}

/* ---- calls that are left --------------------------------------------------------------------- */

static sigjmp_buf out_of_here;
static _Atomic unsigned int left, go;

static void leave(int sig)
{
	(void)sig;
	siglongjmp(out_of_here, 1);
}

static void *leaves(void *arg)
{
	atomic_store(&tid, (unsigned int)gettid());
	if (!sigsetjmp(out_of_here, 1))
		expect(!deep(2, wait_for_it), "the thread leaves its wait");
	expect(!deep(4, another_call) && !deep(4, another_call), "calls from deeper on the stack");
	atomic_store(&left, 1);
	expect(reached(&go, 1), "the other thread");
	expect(!another_call(), "a call from higher up");
	atomic_store(&left, 2);
	reached(&go, 2);
	return arg;
}

static void is_left(bool destroyed)
{
	struct sigaction sa = { .sa_handler = leave };
	int64_t name = call((struct dsm_ioc_call){ .value2 = (uint64_t)SYNC_COND << 32 });
	pthread_t thread;

	expect(name >= 0, "a condition");
	condition = (uint32_t)name;
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, leaves, NULL);
	until_waits();
	pthread_kill(thread, SIGUSR1);
	expect(reached(&left, 1), "the thread goes on");
	expect(listed(LISTED_CALL) == 1,
	       "a call that may be a handler's does not give up what it may have interrupted");
	expect(on_condition(SOP_DESTROY) == -EBUSY, "it is still in line");
	if (destroyed)
		expect(on_condition(SOP_SIGNAL) == SYNC_FOUND && !on_condition(SOP_DESTROY),
		       "a condition is signalled and destroyed");
	atomic_store(&go, 1);
	expect(reached(&left, 2), "the thread goes on");
	expect(none_listed(LISTED_CALL), "what was left is given up");
	expect(none_listed(LISTED_SLOT), "its slot is free");
	expect(destroyed || !on_condition(SOP_DESTROY), "nobody is in line");
	atomic_store(&go, 2);
	pthread_join(thread, NULL);
	_exit(0);
}

/* ---- a call whose answer comes while it is given up ------------------------------------------ */

#define SLOW_AWAIT "/sys/module/dsm/parameters/test_slow_await"

static struct dsm_ioc_call mutex = { .call = DSM_CALL_LOCK };

static int64_t wait_for_mutex(void)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_LOCK, .object = mutex.object };

	return call(c);
}

static void *leaves_mutex(void *arg)
{
	atomic_store(&tid, (unsigned int)gettid());
	if (!sigsetjmp(out_of_here, 1))
		expect(!wait_for_mutex(), "the thread leaves its wait");
	atomic_store(&left, 1);
	expect(reached(&go, 1) && file_set(SLOW_AWAIT, "300"), "test_slow_await");
	expect(!another_call(), "a call, which gives up the wait");
	expect(file_set(SLOW_AWAIT, "0"), "test_slow_await");
	return arg;
}

static void is_met(bool unused)
{
	struct dsm_ioc_call again = { .call = DSM_CALL_TRYLOCK },
			    unlock = { .call = DSM_CALL_UNLOCK };
	struct sigaction sa = { .sa_handler = leave };
	int64_t name = call((struct dsm_ioc_call){ .value2 = (uint64_t)SYNC_MUTEX << 32 });
	pthread_t thread;

	(void)unused;
	expect(name >= 0, "a mutex");
	again.object = mutex.object = (uint32_t)name;
	expect(!ioctl(fd, DSM_IOC_CALL, &mutex) && !mutex.status, "it is locked");
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, leaves_mutex, NULL);
	until_waits();
	pthread_kill(thread, SIGUSR1);
	expect(reached(&left, 1) && listed(LISTED_CALL) == 1, "the wait is parked");
	atomic_store(&go, 1);
	expect(none_listed(LISTED_CALL), "it is given up");
	unlock.hold = mutex.hold;
	expect(!ioctl(fd, DSM_IOC_CALL, &unlock) && !unlock.status,
	       "the mutex goes to the wait meanwhile");
	pthread_join(thread, NULL);
	expect(none_listed(LISTED_SLOT), "its slot is free");
	expect(!ioctl(fd, DSM_IOC_CALL, &again) && !again.status, "the mutex is given back");
	_exit(0);
}

/* ---- calls that are taken back --------------------------------------------------------------- */

struct kind {
	const char *name;
	uint8_t object; /* enum sync_kind */
	uint8_t hold;   /* first made by another thread; 0: nothing */
	uint8_t wait, let;
	uint8_t undo;  /* undoes what was granted; 0: nothing */
	uint8_t again; /* succeeds afterwards if the wait has left no trace */
};

static const struct kind kinds[] = {
	{ "a semaphore", SYNC_SEM, 0, SOP_WAIT, SOP_POST, SOP_POST, SOP_TRYWAIT },
	{ "a lock to write", SYNC_RWLOCK, SOP_WRLOCK, SOP_WRLOCK, SOP_WRUNLOCK, SOP_WRUNLOCK,
	  SOP_TRYWRLOCK },
	{ "a lock to read", SYNC_RWLOCK, SOP_WRLOCK, SOP_RDLOCK, SOP_WRUNLOCK, SOP_RDUNLOCK,
	  SOP_TRYWRLOCK },
	{ "a condition", SYNC_COND, 0, SOP_ENQUEUE, SOP_SIGNAL, 0, SOP_DESTROY },
};

static uint32_t make(uint8_t kind)
{
	const int64_t name = call((struct dsm_ioc_call){ .value2 = (uint64_t)kind << 32 });

	expect(name >= 0, "an object");
	return (uint32_t)name;
}

struct aside {
	struct dsm_ioc_call c;
	int64_t result;
};

static void *call_aside(void *arg)
{
	struct aside *a = arg;

	a->result = call(a->c);
	return NULL;
}

/* Make a call in another thread: in this one, it might give up a call that was left. */
static int64_t aside(struct dsm_ioc_call c)
{
	struct aside a = { .c = c };
	pthread_t thread;

	pthread_create(&thread, NULL, call_aside, &a);
	pthread_join(thread, NULL);
	return a.result;
}

static void operate(uint32_t object, uint8_t op)
{
	const struct dsm_ioc_call c = {
		.call = DSM_CALL_SYNC, .op = op, .object = object, .value = op == SOP_POST
	};

	const int64_t result = op ? aside(c) : 0;

	expect(!result || (op == SOP_SIGNAL && result == SYNC_FOUND),
	       "an operation of another thread");
}

static struct dsm_ioc_call cancellation(const struct dsm_ioc_call *c)
{
	return (struct dsm_ioc_call){ .call = DSM_CALL_CANCEL, .value = (uintptr_t)c };
}

/* Begin a wait for a new object; before a wait for a condition, lock its mutex. */
static uint32_t begin(const struct kind *k, uint64_t ns, struct dsm_ioc_call *c)
{
	const uint32_t object = make(k->object);
	struct dsm_ioc_call lock = { .call = DSM_CALL_LOCK };

	*c = (struct dsm_ioc_call){ .call = DSM_CALL_SYNC,
				    .op = k->wait,
				    .object = object,
				    .ns = ns,
				    .hold = DSM_SYNC_POINT };
	operate(object, k->hold);
	if (k->object == SYNC_COND) {
		lock.object = make(SYNC_MUTEX);
		expect(!ioctl(fd, DSM_IOC_CALL, &lock) && !lock.status, "a mutex");
		c->mutex = lock.hold + 1u;
	}
	expect(ioctl(fd, DSM_IOC_CALL, c) && errno == EINPROGRESS,
	       "a thread that would sleep leaves its call");
	expect(listed(LISTED_CALL) == 1 && !c->waited, "it is kept");
	expect(!lock.object ||
		       !aside((struct dsm_ioc_call){ .call = DSM_CALL_TRYLOCK,
						     .object = lock.object }),
	       "its mutex is released");
	return object;
}

static void end(const struct kind *k, uint32_t object, const struct dsm_ioc_call *c, bool granted)
{
	expect(c->waited && c->status == (granted ? 0 : -ETIMEDOUT), "its status");
	expect(!listed(LISTED_CALL) && none_listed(LISTED_SLOT), "it has ended");
	expect(aside(cancellation(c)) == -ENOENT && call(cancellation(c)) == -ENOENT,
	       "it ends once");
	operate(object, granted ? k->undo : k->let);
	operate(object, k->again);
}

static void take_back(const struct kind *k, uint64_t ns, bool granted)
{
	struct dsm_ioc_call c;
	const uint32_t object = begin(k, ns, &c);

	expect(aside(cancellation(&c)) == -ENOENT, "no other thread takes it back");
	if (granted)
		operate(object, k->let);
	expect(!call(cancellation(&c)), k->name);
	end(k, object, &c, granted);
}

static void make_again(const struct kind *k, uint64_t ns)
{
	struct dsm_ioc_call c;
	const uint32_t object = begin(k, ns, &c);

	operate(object, k->let);
	expect(!ioctl(fd, DSM_IOC_CALL, &c), k->name);
	end(k, object, &c, true);
}

static void is_taken_back(bool limited)
{
	const uint64_t ns = limited ? 60000000000ull : 0;
	unsigned int i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		take_back(&kinds[i], ns, false);
		take_back(&kinds[i], ns, true);
		make_again(&kinds[i], ns);
	}
	_exit(0);
}

/* ---- calls in handlers that interrupt calls -------------------------------------------------- */

/* Arrive at a barrier of two threads. */
static int64_t arrive(unsigned int barrier)
{
	return call((struct dsm_ioc_call){
		.call = DSM_CALL_BARRIER, .object = barrier, .threads = 2, .value2 = 1 });
}

static void arrive_in_next(int sig)
{
	const unsigned int n = atomic_fetch_add(&handled, 1) + 1;

	(void)sig;
	if (n <= PARKED_MAX) {
		expect(!arrive(n), "a handler's call");
		atomic_fetch_add(&made, 1);
	}
}

static void *arrives(void *arg)
{
	atomic_store(&tid, (unsigned int)gettid());
	expect(!arrive(0), "a call");
	atomic_fetch_add(&made, 1);
	return arg;
}

static void is_limited(bool unused)
{
	struct sigaction sa = { .sa_handler = arrive_in_next, .sa_flags = SA_NODEFER };
	const long long charged = counter("charged");
	pthread_t thread;
	unsigned int i;

	(void)unused;
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, arrives, NULL);
	for (i = 1; i <= PARKED_MAX; i++) {
		until_waits();
		pthread_kill(thread, SIGUSR1);
		expect(reached(&handled, i), "a handler runs while its thread waits");
	}
	until_waits();
	pthread_kill(thread, SIGUSR1);
	usleep(200000);
	expect(atomic_load(&handled) == PARKED_MAX,
	       "a signal waits when its thread has parked as many calls as it may");
	expect(listed(LISTED_CALL) == PARKED_MAX, "the calls are parked");
	expect(counter("charged") > charged, "and charged");
	for (i = 0; i <= PARKED_MAX; i++)
		expect(!arrive(i), "the other arrives");
	pthread_join(thread, NULL);
	expect(atomic_load(&made) == PARKED_MAX + 1 && atomic_load(&handled) == PARKED_MAX + 1,
	       "all end");
	expect(!listed(LISTED_CALL), "nothing is parked");
	_exit(0);
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool one(const char *name, void (*test)(bool), bool how)
{
	pid_t pid;
	bool ok;

	job_set(j, 1, false);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		fd = job_join(j, 0);
		expect(fd >= 0, "a job of one rank");
		test(how);
	}
	ok = job_reap(&pid, 1, 60) && nothing_left(20) && !atomic_load(failed);
	printf("%s: %s\n", name, ok ? "ok" : "FAILED");
	return ok;
}

int main(void)
{
	bool ok;

	module_needed();
	j = job_new();
	failed = shared_memory(PAGE);
	ok = one("a call that is left", is_left, false);
	ok = ok && one("a call that is left, of a condition that was destroyed", is_left, true);
	ok = ok && one("a call whose answer comes while it is given up", is_met, false);
	ok = ok && one("calls that are taken back", is_taken_back, false);
	ok = ok && one("calls with a limit that are taken back", is_taken_back, true);
	ok = ok && one("calls of handlers that are interrupted", is_limited, false);
	return ok ? 0 : 1;
}

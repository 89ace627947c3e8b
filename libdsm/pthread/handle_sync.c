// SPDX-License-Identifier: BSD-2-Clause
/*
 * handle_sync.c - synchronisation between nodes: an object's state is not in the block that it lies
 * in, so taking a lock moves no block. (With release consistency, a condition says there who waits:
 * struct cond_own.)
 *
 * An operation looks up the object's handle by its address (lookup.c). What was destroyed, or made
 * anew with another value, has another handle; an old one fails with -EINVAL and is looked up
 * again.
 *
 * An object's attribute lies in its block: a mutex's type, a condition's clock, a barrier's count.
 * A process reads it after it has looked up the handle and keeps both together, so a new handle has
 * a new attribute. Memory may become another object of the same kind without a call, by an
 * initialiser (std::recursive_mutex in memory that was a std::mutex). Therefore the type is read
 * again when a thread locks, or tries, a mutex that it holds, and the clock when a limit of time is
 * decades away by the monotonic one. A barrier has no initialiser.
 *
 * All of it runs by dsm_call(), and so on a private stack: arguments come and go through a struct
 * on the program's.
 */
#include "handle_sync.h"

#include "lookup.h"
#include "sync.h"

#define HELDS 64u

/* What this thread holds of recursive and error-checking mutexes and reader-writer locks, for
 * libdsm has no lock taken twice. Of more than fit, each may be held once. */
static __thread struct held {
	const void *object;
	uint32_t times; /* 0: free */
	bool reads;
} helds[HELDS] __attribute__((tls_model("initial-exec")));
/* in use; mostly none */
static __thread unsigned int nhelds __attribute__((tls_model("initial-exec")));

/* of the mutexes that this thread holds, the last one it has locked, or NULL */
static __thread const void *newest __attribute__((tls_model("initial-exec")));

enum op {
	O_LOCK,
	O_TRYLOCK,
	O_UNLOCK,
	O_WAIT,
	O_SIGNAL,
	O_BROADCAST,
	O_BARRIER,
	O_RDLOCK,
	O_WRLOCK,
	O_TRYRDLOCK,
	O_TRYWRLOCK,
	O_RWUNLOCK,
	O_SEM_WAIT,
	O_SEM_TRYWAIT,
	O_SEM_POST,
	O_SEM_VALUE,
	O_SEM_INIT,
	O_DESTROY,
	O_FORGET
};

struct job {
	enum op op;
	void *object, *mutex;
	const int *attr, *mutex_attr; /* where they have them */
	uint32_t n;
	bool timed, own_clock; /* own_clock: not `until`, but `limit` by the condition's clock */
	uint64_t until;        /* CLOCK_MONOTONIC, in ns */
	struct timespec limit; /* until then */
	const uint32_t *stop;  /* O_SEM_WAIT */
	int result;
	int kind_now; /* a mutex's type, as it was for the result */
	int found;    /* O_SIGNAL, O_BROADCAST: a thread waited */
};

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t left(const struct job *j)
{
	uint64_t t = monotonic_ns();

	return j->until > t ? j->until - t : 0;
}

/* A thread that waits for a mutex that it holds: nobody else can unlock it. */
static int wait_in_vain(const struct job *j)
{
	const struct timespec t = { .tv_sec = (time_t)(j->until / 1000000000u),
				    .tv_nsec = (long)(j->until % 1000000000u) };
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
	pthread_setcancelstate(state, &state);
	return -ETIMEDOUT;
}

static bool knows_owner(int kind)
{
	return kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK;
}

/* The object is one of this kind now: the mutex is held by this thread, or it waits for the
 * condition. */
static void read_again(const struct job *j, enum type type, struct handles *h)
{
	h->attr = lookup_attr(type, j->attr);
	lookup_remember(j->object, type, h);
}

/* one call more costs nothing beside such a wait */
#define OTHER_CLOCK_NS (24 * 3600 * 1000000000ull)

/* What a program means by the other clock is years away by this one. */
static uint64_t left_by_own(const struct job *j, struct handles *h)
{
	if (h->attr && time_left(CLOCK_MONOTONIC, &j->limit) >= OTHER_CLOCK_NS)
		read_again(j, T_COND, h);
	return time_left(clock_of(h->attr), &j->limit);
}

static int mutex_lock_handle(const struct job *j, dsm_mutex_t *m, struct handles *h)
{
	int err = j->timed ? dsm_mutex_timedlock(m, left(j)) : dsm_mutex_lock(m);

	if (err != -EDEADLK)
		return err;
	read_again(j, T_MUTEX, h);
	return j->timed && !knows_owner(h->attr) ? wait_in_vain(j) : -EDEADLK;
}

static int try_it(const struct job *j, dsm_mutex_t *m, struct handles *h)
{
	/* as dsm_mutex_trylock(), but says whether this thread holds it */
	int err = dsm_mutex_timedlock(m, 0);

	if (err == -EDEADLK)
		read_again(j, T_MUTEX, h);
	return err == -ETIMEDOUT || (err == -EDEADLK && h->attr != PTHREAD_MUTEX_RECURSIVE) ? -EBUSY
											    : err;
}

static enum type type_of(enum op op)
{
	switch (op) {
	case O_LOCK:
	case O_TRYLOCK:
	case O_UNLOCK: return T_MUTEX;
	case O_WAIT:
	case O_SIGNAL:
	case O_BROADCAST: return T_COND;
	case O_BARRIER: return T_BARRIER;
	case O_RDLOCK:
	case O_WRLOCK:
	case O_TRYRDLOCK:
	case O_TRYWRLOCK:
	case O_RWUNLOCK: return T_RWLOCK;
	case O_SEM_WAIT:
	case O_SEM_TRYWAIT:
	case O_SEM_POST:
	case O_SEM_VALUE:
	case O_SEM_INIT: return T_SEM;
	case O_DESTROY:
	case O_FORGET: break;
	}
	return T_NONE;
}

static int sem_value(dsm_sem_t *sem)
{
	uint32_t value;
	int err = dsm_sem_getvalue(sem, &value);

	return err ? err : (int)value;
}

static int try(struct job *j, struct handles *h)
{
	dsm_mutex_t mutex = { h->id };
	dsm_cond_t cond = { h->id };
	dsm_rwlock_t rwlock = { h->id };
	dsm_sem_t sem = { h->id };
	dsm_barrier_t barrier = { .id = h->id };
	struct handles other;
	int err;

	switch (j->op) {
	case O_LOCK: return mutex_lock_handle(j, &mutex, h);
	case O_TRYLOCK: return try_it(j, &mutex, h);
	case O_UNLOCK: return dsm_mutex_unlock(&mutex);
	case O_WAIT:
		err = lookup_find(j->mutex, T_MUTEX, j->mutex_attr, &other);
		if (err)
			return err;
		mutex.id = other.id;
		if (!j->timed)
			return dsm_cond_wait(&cond, &mutex);
		return dsm_cond_timedwait(&cond, &mutex,
					  j->own_clock ? left_by_own(j, h) : left(j));
	case O_SIGNAL:
	case O_BROADCAST: return dsm_cond_wake(&cond, j->op == O_BROADCAST, &j->found);
	case O_BARRIER: return dsm_barrier_meet(&barrier, (unsigned int)h->attr);
	case O_RDLOCK:
		return j->timed ? dsm_rwlock_timedrdlock(&rwlock, left(j))
				: dsm_rwlock_rdlock(&rwlock);
	case O_WRLOCK:
		return j->timed ? dsm_rwlock_timedwrlock(&rwlock, left(j))
				: dsm_rwlock_wrlock(&rwlock);
	case O_TRYRDLOCK: return dsm_rwlock_tryrdlock(&rwlock);
	case O_TRYWRLOCK: return dsm_rwlock_trywrlock(&rwlock);
	case O_RWUNLOCK: return dsm_rwlock_unlock(&rwlock);
	/* 0: no limit */
	case O_SEM_WAIT: return dsm_sem_stopwait(&sem, j->timed ? left(j) | 1 : 0, j->stop);
	case O_SEM_TRYWAIT: return dsm_sem_trywait(&sem);
	case O_SEM_POST: return dsm_sem_post(&sem, 1);
	case O_SEM_VALUE: return sem_value(&sem);
	case O_SEM_INIT:
	case O_DESTROY:
	case O_FORGET: break;
	}
	return -EINVAL;
}

/* What an operation waits for, as the program knows it. */
static enum dsm_wait waits_for(enum op op)
{
	switch (op) {
	case O_LOCK: return DSM_WAIT_MUTEX;
	case O_WAIT: return DSM_WAIT_COND;
	case O_BARRIER: return DSM_WAIT_BARRIER;
	case O_RDLOCK:
	case O_WRLOCK: return DSM_WAIT_RWLOCK;
	case O_SEM_WAIT: return DSM_WAIT_SEM;
	case O_TRYLOCK:
	case O_UNLOCK:
	case O_SIGNAL:
	case O_BROADCAST:
	case O_TRYRDLOCK:
	case O_TRYWRLOCK:
	case O_RWUNLOCK:
	case O_SEM_TRYWAIT:
	case O_SEM_POST:
	case O_SEM_VALUE:
	case O_SEM_INIT:
	case O_DESTROY:
	case O_FORGET: break;
	}
	return DSM_WAIT_NONE;
}

static int perform(struct job *j, struct handles *h)
{
	int err;

	dsm_wait_label(waits_for(j->op), j->object, 0);
	err = try(j, h);
	dsm_wait_label(DSM_WAIT_NONE, NULL, 0);
	return err;
}

static void handle_sync_job_run(void *arg)
{
	struct job *out = arg, j = *out;
	struct handles h = { 0, PTHREAD_MUTEX_NORMAL };
	int err, tries;

	if (j.op == O_SEM_INIT || j.op == O_DESTROY || j.op == O_FORGET) {
		err = lookup_rename(j.object, type_of(j.op), j.n,
				    j.op == O_DESTROY ? LOOKUP_FREE : LOOKUP_REPLACE, &h);
		if (!err && j.op == O_SEM_INIT)
			lookup_remember(j.object, T_SEM, &h);
		else
			lookup_lose(j.object);
		out->result = err;
		return;
	}
	for (tries = 0; tries < 3; tries++) {
		err = lookup_find(j.object, type_of(j.op), j.attr, &h);
		if (!err)
			err = perform(&j, &h);
		if (err != -EINVAL)
			break;
		lookup_lose(j.object); /* it may have been made anew */
		if (j.mutex)
			lookup_lose(j.mutex);
	}
	out->result = err;
	out->kind_now = h.attr;
	out->found = j.found;
}

static int handle_sync_job_start(struct job *j)
{
	dsm_call(handle_sync_job_run, j);
	return j->result < 0 ? -j->result : j->result;
}

static struct job job_of(enum op op, void *object, clockid_t clock, const struct timespec *until)
{
	struct job j = { .op = op, .object = object, .timed = until };

	if (until && clock == OWN_CLOCK) {
		j.own_clock = true;
		j.limit = *until;
	} else if (until) {
		/* The clock is read last: a limit that is early by the time between two readings
		 * would end a wait too early. */
		j.until = time_left(clock, until);
		j.until += monotonic_ns();
	}
	return j;
}

static struct held *held(const void *object)
{
	unsigned int i;

	if (!nhelds)
		return NULL;
	for (i = 0; i < HELDS && (helds[i].object != object || !helds[i].times); i++)
		;
	return i < HELDS ? &helds[i] : NULL;
}

static bool held_note(const void *object, uint32_t times, bool reads)
{
	unsigned int i;

	for (i = 0; i < HELDS && helds[i].times; i++)
		;
	if (i == HELDS)
		return false;
	helds[i] = (struct held){ object, times, reads };
	nhelds++;
	return true;
}

static int held_again(struct held *h)
{
	if (h->times == UINT32_MAX)
		return EAGAIN;
	h->times++;
	return 0;
}

/* Does it stay held? */
static bool less(struct held *h)
{
	if (!h)
		return false;
	if (!--h->times)
		nhelds--;
	return h->times;
}

/* If no thread of this process has used it yet, its block says. */
static int mutex_kind(const void *m, const int *kind)
{
	struct handles h;

	return lookup_cached(m, T_MUTEX, &h) ? h.attr : lookup_attr(T_MUTEX, kind);
}

/* kind: as it was believed to be. */
static int mutex_lock_with(struct job *j, int kind, int if_held)
{
	struct held *h = knows_owner(kind) ? held(j->object) : NULL;
	int err;

	if (h)
		return kind == PTHREAD_MUTEX_RECURSIVE ? held_again(h) : if_held;
	err = handle_sync_job_start(j);
	if (!err)
		newest = j->object;
	if (!err && knows_owner(j->kind_now))
		held_note(j->object, 1, false);
	if (err != EDEADLK || j->kind_now != PTHREAD_MUTEX_RECURSIVE)
		return err;
	/* it was locked as another type, or did not fit */
	return held_note(j->object, 2, false) ? 0 : EAGAIN;
}

int handle_sync_lock(void *m, const int *kind, clockid_t clock, const struct timespec *until)
{
	const bool no_time = until && !is_time(until);
	struct job j = job_of(no_time ? O_TRYLOCK : O_LOCK, m, clock, no_time ? NULL : until);
	int err;

	j.attr = kind;
	err = mutex_lock_with(&j, mutex_kind(m, kind), EDEADLK);
	return no_time && err == EBUSY ? EINVAL : err;
}

int handle_sync_trylock(void *m, const int *kind)
{
	struct job j = job_of(O_TRYLOCK, m, 0, NULL);

	j.attr = kind;
	return mutex_lock_with(&j, mutex_kind(m, kind), EBUSY);
}

int handle_sync_unlock(void *m, const int *kind)
{
	struct job j = job_of(O_UNLOCK, m, 0, NULL);

	j.attr = kind;
	if (less(held(m)))
		return 0;
	if (newest == m)
		newest = NULL;
	return handle_sync_job_start(&j);
}

/* Not if the wait fails for a mutex that is not held. */
static void note_waiter(void *c, struct cond_own *own, const void *m, const int *kind)
{
	const void *with;

	if (!shim.weak || (knows_owner(mutex_kind(m, kind)) && nhelds < HELDS && !held(m)))
		return;
	with = __atomic_load_n(&own->mutex, __ATOMIC_RELAXED);
	if (with != m)
		__atomic_store_n(&own->mutex, with ? c : m, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&own->waited, __ATOMIC_RELAXED))
		__atomic_store_n(&own->waited, 1, __ATOMIC_RELAXED);
}

int handle_sync_wait(void *c, struct cond_own *own, void *m, const int *kind, clockid_t clock,
		     const struct timespec *until)
{
	struct job j = job_of(O_WAIT, c, clock, until);
	const void *before = newest;
	int err;

	note_waiter(c, own, m, kind);
	j.attr = &own->clock;
	j.mutex = m;
	j.mutex_attr = kind;
	newest = NULL; /* a signal handler may leave the wait for good */
	err = handle_sync_job_start(&j);
	newest = before;
	return err;
}

int handle_sync_wake(void *c, struct cond_own *own, bool all)
{
	struct job j = job_of(all ? O_BROADCAST : O_SIGNAL, c, 0, NULL);
	const bool reads = newest && shim.weak;
	const void *with = reads ? __atomic_load_n(&own->mutex, __ATOMIC_RELAXED) : c;
	int err;

	if ((!with || with == newest) && !__atomic_load_n(&own->waited, __ATOMIC_RELAXED))
		return 0;
	j.attr = &own->clock;
	err = handle_sync_job_start(&j);
	if (!err && with == newest && !j.found)
		__atomic_store_n(&own->waited, 0, __ATOMIC_RELAXED);
	return err;
}

int handle_sync_barrier(void *b, const int *n)
{
	struct job j = job_of(O_BARRIER, b, 0, NULL);

	j.attr = n;
	dsm_call(handle_sync_job_run, &j);
	return j.result > 0 ? PTHREAD_BARRIER_SERIAL_THREAD : -j.result;
}

int handle_sync_rwlock(void *l, bool write, bool wait, clockid_t clock,
		       const struct timespec *until)
{
	const enum op op = wait ? (write ? O_WRLOCK : O_RDLOCK) : write ? O_TRYWRLOCK : O_TRYRDLOCK;
	struct job j = job_of(op, l, clock, until);
	struct held *h = held(l);
	int err;

	if (h)
		return !write && h->reads ? held_again(h) : wait ? EDEADLK : EBUSY;
	err = handle_sync_job_start(&j);
	if (!err)
		held_note(l, 1, !write);
	return err;
}

int handle_sync_rwunlock(void *l)
{
	struct job j = job_of(O_RWUNLOCK, l, 0, NULL);

	return less(held(l)) ? 0 : handle_sync_job_start(&j);
}

int handle_sync_sem_wait(void *s, bool wait, clockid_t clock, const struct timespec *until,
			 const uint32_t *stop)
{
	struct job j = job_of(wait ? O_SEM_WAIT : O_SEM_TRYWAIT, s, clock, until);

	j.stop = stop;
	return handle_sync_job_start(&j);
}

int handle_sync_sem_post(void *s)
{
	struct job j = job_of(O_SEM_POST, s, 0, NULL);

	return handle_sync_job_start(&j);
}

int handle_sync_sem_value(void *s, int *value)
{
	struct job j = job_of(O_SEM_VALUE, s, 0, NULL);

	dsm_call(handle_sync_job_run, &j);
	if (j.result < 0)
		return -j.result;
	*value = j.result;
	return 0;
}

int handle_sync_sem_init(void *s, uint32_t value)
{
	struct job j = job_of(O_SEM_INIT, s, 0, NULL);

	j.n = value;
	return handle_sync_job_start(&j);
}

int handle_sync_destroy(void *object)
{
	struct job j = job_of(O_DESTROY, object, 0, NULL);

	return handle_sync_job_start(&j);
}

void handle_sync_forget(void *object)
{
	struct job j = job_of(O_FORGET, object, 0, NULL);
	struct held *h = held(object);

	if (h)
		h->times = 0;
	if (newest == object)
		newest = NULL;
	handle_sync_job_start(&j);
}

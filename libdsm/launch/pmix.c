// SPDX-License-Identifier: BSD-2-Clause
/*
 * pmix.c - the launcher's side of a job by PMIx: mpirun, srun --mpi=pmix, prterun.
 *
 * PMIx runs a thread of its own, which calls fence_done(), registered() and died(). Signals stay
 * blocked while PMIx makes it, so that it never handles one meant for the program. The only lock,
 * wait.lock, guards what one thread hands to another, and nothing is called while it is held.
 *
 * PMIx 4.2 forgets a message that is sent just after its connection has broken, and never calls
 * back for it. So waits for the server end when the connection is known to be broken. PMIx_Init(),
 * PMIx_Commit() and PMIx_Abort(), which wait inside PMIx, run on a thread of their own.
 * PMIx_Finalize() has a limit of its own.
 */
#include "launch/launch.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pmix.h>

#include "util/clock.h"
#include "util/log.h"

#define PIECE_MS 100    /* interval of the calls made while waiting */
#define GET_SECONDS 30  /* for answers that need only the server, which is slow only if it fails */
#define ABORT_SECONDS 5 /* after that the caller ends its process, and thereby the job */
#define EVENT_MS 1000   /* PMIx delays an event for so long */
#define GONE_PIECES 10  /* to wait for an answer once the connection is known to be broken */

#define FOREVER (UINT_MAX / (1000 / PIECE_MS)) /* seconds */

/*
 * The result of an asynchronous PMIx call. If the caller gives it up after a timeout, the last user
 * frees it.
 */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int done, abandoned;
	pmix_status_t status;
	/* For a requested value; PMIx uses the request until it answers. */
	pmix_proc_t who;
	pmix_info_t info[2];
	size_t size;
	char value[LAUNCH_VALUE_MAX];
	/* For an abort. */
	int exit_status;
	const char *why;
};

/* Values published in a job of one rank. */
struct value {
	struct value *next;
	size_t size;
	char key[64];
	char bytes[];
};

static pmix_proc_t self;
static int started;
static struct value *values;
static void (*watcher)(int rank);
static void (*meanwhile)(void);
/*
 * CLOCK_MONOTONIC when the connection to the server broke, as far as is known; 0: it works. Atomic.
 */
static uint64_t gone_ms;

static int to_errno(pmix_status_t status)
{
	switch (status) {
	case PMIX_SUCCESS:
	case PMIX_OPERATION_SUCCEEDED: return 0;
	case PMIX_ERR_TIMEOUT: return -ETIMEDOUT;
	case PMIX_ERR_NOT_FOUND: return -ENOENT;
	case PMIX_ERR_NOMEM: return -ENOMEM;
	case PMIX_ERR_NOT_SUPPORTED: return -ENOSYS;
	case PMIX_ERR_UNREACH:
	case PMIX_ERR_LOST_CONNECTION:
	case PMIX_ERR_COMM_FAILURE: return -EPIPE;
	default: return -EPROTO;
	}
}

static void has_gone(unsigned int ago_ms)
{
	uint64_t standing = 0, when = clock_ms() - ago_ms;

	__atomic_compare_exchange_n(&gone_ms, &standing, when, 0, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
}

/*
 * The error of a failed call, or of its wait. PMIx returns UNREACH if its connection is broken, a
 * second before the event. A server that has lost a rank returns LOST_CONNECTION.
 */
static int pmix_refused(pmix_status_t status)
{
	if (status == PMIX_ERR_UNREACH)
		has_gone(0);
	return to_errno(status);
}

static struct wait *wait_create(void)
{
	struct wait *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->cond, &attr);
	pthread_condattr_destroy(&attr);
	return w;
}

static void wait_destroy(struct wait *w)
{
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void wait_finish(struct wait *w, pmix_status_t status)
{
	int abandoned;

	pthread_mutex_lock(&w->lock);
	w->done = 1;
	w->status = status;
	abandoned = w->abandoned;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
	if (abandoned)
		wait_destroy(w);
}

/*
 * Wait for wait_finish(); each: called meanwhile, or NULL. False: given up, and w no longer belongs
 * to the caller.
 */
static bool wait_done(struct wait *w, unsigned int seconds, void (*each)(void), int *result)
{
	unsigned int i, pieces_gone = 0;
	struct timespec until;
	int err = 0, done;

	pthread_mutex_lock(&w->lock);
	for (i = 0; !w->done && i < seconds * (1000 / PIECE_MS) && pieces_gone < GONE_PIECES; i++) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PIECE_MS * 1000000l;
		until.tv_sec += until.tv_nsec / 1000000000l;
		until.tv_nsec %= 1000000000l;
		err = 0;
		while (!w->done && !err)
			err = pthread_cond_timedwait(&w->cond, &w->lock, &until);
		pieces_gone += launch_gone() > 0;
		if (w->done || !each)
			continue;
		pthread_mutex_unlock(&w->lock);
		each();
		pthread_mutex_lock(&w->lock);
	}
	done = w->done;
	w->abandoned = !done;
	*result = done ? pmix_refused(w->status) : launch_gone() ? -EPIPE : -ETIMEDOUT;
	pthread_mutex_unlock(&w->lock);
	return done;
}

static int pmix_wait(struct wait *w, unsigned int seconds)
{
	int err;

	if (wait_done(w, seconds, meanwhile, &err))
		wait_destroy(w);
	return err;
}

/*
 * Make a call that waits in PMIx on a thread, which is abandoned if the call is given up. If no
 * thread can be made, call it here. call() ends with wait_finish(w). The caller's signal mask stays
 * as it is: it may depend on an alarm.
 */
static int wait_apart(void *(*call)(void *), struct wait *w, unsigned int seconds,
		      void (*each)(void))
{
	pthread_attr_t attr;
	sigset_t all;
	bool made;
	pthread_t t;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setsigmask_np(&attr, &all);
	made = !pthread_create(&t, &attr, call, w);
	pthread_attr_destroy(&attr);
	if (!made)
		call(w);
	if (wait_done(w, seconds, each, &err)) {
		if (made)
			pthread_join(t, NULL);
		wait_destroy(w);
	} else {
		pthread_detach(t);
	}
	return err;
}

static void *commit_main(void *w)
{
	wait_finish(w, PMIx_Commit());
	return NULL;
}

static int commit(void)
{
	struct wait *w = wait_create();

	return w ? wait_apart(commit_main, w, GET_SECONDS, meanwhile) : -ENOMEM;
}

static void *abort_main(void *arg)
{
	struct wait *w = arg;

	wait_finish(w, PMIx_Abort(w->exit_status, w->why, NULL, 0));
	return NULL;
}

static void fence_done(pmix_status_t status, void *arg)
{
	wait_finish(arg, status);
}

static void registered(pmix_status_t status, size_t id, void *arg)
{
	(void)id;
	wait_finish(arg, status);
}

/* Get number `key` of the job (rank PMIX_RANK_WILDCARD) or of a rank. */
static int get_number(pmix_rank_t rank, const char *key, uint32_t *out)
{
	pmix_value_t *v = NULL;
	pmix_proc_t who;
	pmix_status_t status;
	int err = 0;

	PMIX_LOAD_PROCID(&who, self.nspace, rank);
	status = PMIx_Get(&who, key, NULL, 0, &v);
	if (status != PMIX_SUCCESS)
		return to_errno(status);
	switch (v->type) {
	case PMIX_UINT16: *out = v->data.uint16; break;
	case PMIX_UINT32: *out = v->data.uint32; break;
	case PMIX_PROC_RANK: *out = v->data.rank; break;
	default: err = -EPROTO; break;
	}
	PMIX_VALUE_RELEASE(v);
	return err;
}

/*
 * The number of processes that the launcher says it has started, and the variable that says so; 0:
 * none.
 */
static int launcher_size(const char **name)
{
	static const char *const sizes[] = { "PMI_SIZE", "OMPI_COMM_WORLD_SIZE" };
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const char *value = getenv(sizes[i]);

		if (value && atoi(value) > 1) {
			*name = sizes[i];
			return atoi(value);
		}
	}
	return 0;
}

int launch_expected(void)
{
	const char *name;

	return launcher_size(&name);
}

static void be_alone(struct launch *l)
{
	memset(l, 0, sizeof(*l));
	l->size = l->local_size = 1;
	l->alone = 1;
	snprintf(l->job, sizeof(l->job), "alone-%ld", (long)getpid());
}

static int pmix_keep(const char *key, const void *value, size_t size)
{
	struct value *v = malloc(sizeof(*v) + size);

	if (!v)
		return -ENOMEM;
	snprintf(v->key, sizeof(v->key), "%s", key);
	v->size = size;
	memcpy(v->bytes, value, size);
	v->next = values;
	values = v;
	return 0;
}

static int pmix_kept(const char *key, void *value, size_t *size)
{
	const struct value *v;

	for (v = values; v && strncmp(v->key, key, sizeof(v->key) - 1); v = v->next)
		;
	if (!v)
		return -ENOENT;
	if (v->size > *size)
		return -E2BIG;
	memcpy(value, v->bytes, v->size);
	*size = v->size;
	return 0;
}

static struct {
	pid_t parent;
	pmix_status_t status;
} init;

static void *init_main(void *w)
{
	init.status = PMIx_Init(&self, NULL, 0);
	wait_finish(w, PMIX_SUCCESS);
	return NULL;
}

/*
 * PMIx_Init() waits for its server without limit, and no event reports the server's end yet. The
 * server is the parent of its ranks, or of a shell or debugger that ends with them.
 */
static void check_parent(void)
{
	if (getppid() != init.parent)
		has_gone(0);
}

static int start_pmix(void)
{
	struct wait *w = wait_create();
	int err;

	if (!w)
		return -ENOMEM;
	init.parent = getppid();
	err = wait_apart(init_main, w, FOREVER, check_parent);
	if (err) {
		log_line("the launcher ended while PMIx_Init() waited for it");
		return err;
	}
	if (init.status != PMIX_SUCCESS) {
		log_line(
			"the launcher's PMIx server is not reachable (PMIx_Init: %s); start the job by Open MPI's "
			"mpirun, srun --mpi=pmix or prterun",
			PMIx_Error_string(init.status));
		return -ENOSYS;
	}
	started = 1;
	return 0;
}

int launch_start(struct launch *l)
{
	uint32_t size = 0, local = 0;
	const char *name;
	int err, n;

	be_alone(l);
	if (!getenv("PMIX_NAMESPACE") || !getenv("PMIX_RANK")) {
		n = launcher_size(&name);
		if (!n)
			return 0;
		log_line(
			"started as one of %d processes (%s), but without PMIx; start the job by Open MPI's mpirun, "
			"srun --mpi=pmix or prterun",
			n, name);
		return -ENOSYS;
	}
	err = start_pmix();
	if (err)
		return err;
	err = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &size);
	if (err || !size || size > INT32_MAX || self.rank >= size) {
		log_line("the launcher says that this is rank %u of %u (%s)", self.rank, size,
			 strerror(-err));
		launch_end(l);
		return -EPROTO;
	}
	l->alone = 0;
	l->rank = (int)self.rank;
	l->size = (int)size;
	if (!get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &local) && local && local <= size)
		l->local_size = (int)local;
	if (!get_number(self.rank, PMIX_LOCAL_RANK, &local) && local < (uint32_t)l->local_size)
		l->local_rank = (int)local;
	snprintf(l->job, sizeof(l->job), "%.*s", (int)sizeof(l->job) - 1, self.nspace);
	return 0;
}

/*
 * Wait for all ranks; collect: receive the values of all. After a timeout the server still counts
 * this rank as arrived, so no later fence can be relied on: the caller ends the job.
 */
static int fence(unsigned int seconds, bool collect)
{
	struct wait *w = wait_create();
	pmix_info_t info[1];
	pmix_status_t status;
	pmix_proc_t all;
	int err;

	if (!w)
		return -ENOMEM;
	PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	status = PMIx_Fence_nb(&all, 1, info, 1, fence_done, w);
	if (status == PMIX_SUCCESS) {
		err = pmix_wait(w, seconds);
	} else { /* fence_done() will not be called */
		wait_destroy(w);
		err = pmix_refused(status);
	}
	return err;
}

int launch_exchange(struct launch *l, const char *key, const void *value, size_t size,
		    unsigned int seconds)
{
	pmix_value_t v = { .type = PMIX_BYTE_OBJECT };
	pmix_status_t status;
	int err;

	if (size > LAUNCH_VALUE_MAX)
		return -E2BIG;
	if (l->alone)
		return pmix_keep(key, value, size);
	v.data.bo.bytes = (char *)(uintptr_t)value; /* PMIx copies it */
	v.data.bo.size = size;
	status = PMIx_Put(PMIX_GLOBAL, key, &v);
	err = status == PMIX_SUCCESS ? commit() : pmix_refused(status);
	if (err) {
		if (err != -EPIPE)
			log_line("the launcher refuses %s, %zu bytes: %s", key, size,
				 strerror(-err));
		return err;
	}
	return fence(seconds, true);
}

static void got(pmix_status_t status, pmix_value_t *v, void *arg)
{
	struct wait *w = arg;

	if (status == PMIX_SUCCESS &&
	    (v->type != PMIX_BYTE_OBJECT || v->data.bo.size > sizeof(w->value)))
		status = PMIX_ERROR;
	if (status == PMIX_SUCCESS) {
		w->size = v->data.bo.size;
		memcpy(w->value, v->data.bo.bytes, w->size);
	}
	wait_finish(w, status);
}

/* Pass PMIx's own limit as well, but a server whose client has died forgets it. */
static int pmix_get(struct wait *w, int rank, const char *key)
{
	static const int limit = GET_SECONDS;
	bool now = true;

	PMIX_LOAD_PROCID(&w->who, self.nspace, (pmix_rank_t)rank);
	/* do not wait for a value that is not there */
	PMIX_INFO_LOAD(&w->info[0], PMIX_IMMEDIATE, &now, PMIX_BOOL);
	PMIX_INFO_LOAD(&w->info[1], PMIX_TIMEOUT, &limit, PMIX_INT);
	return pmix_refused(PMIx_Get_nb(&w->who, key, w->info, 2, got, w));
}

int launch_get(struct launch *l, int rank, const char *key, void *value, size_t *size)
{
	struct wait *w;
	int err;

	if (rank < 0 || rank >= l->size)
		return -ENOENT;
	if (l->alone)
		return pmix_kept(key, value, size);
	w = wait_create();
	if (!w)
		return -ENOMEM;
	err = pmix_get(w, rank, key);
	if (!err && !wait_done(w, GET_SECONDS, meanwhile, &err))
		return err;
	if (!err && w->size > *size)
		err = -E2BIG;
	if (!err) {
		memcpy(value, w->value, w->size);
		*size = w->size;
	}
	wait_destroy(w);
	return err;
}

void launch_meanwhile(void (*fn)(void))
{
	meanwhile = fn;
}

int launch_fence(struct launch *l, unsigned int seconds)
{
	return l->alone ? 0 : fence(seconds, false);
}

static void died(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
		 size_t ninfo, pmix_info_t results[], size_t nresults,
		 pmix_event_notification_cbfunc_fn_t done, void *arg)
{
	const pmix_proc_t *who = source;
	size_t i;

	(void)id;
	(void)results;
	(void)nresults;
	if (status == PMIX_ERR_LOST_CONNECTION) {
		has_gone(EVENT_MS);
		watcher(-1);
		who = NULL;
	}
	for (i = 0; who && i < ninfo; i++)
		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) &&
		    info[i].value.type == PMIX_PROC)
			who = info[i].value.data.proc;
	if (who && !strncmp(who->nspace, self.nspace, PMIX_MAX_NSLEN) &&
	    who->rank <= PMIX_RANK_VALID && who->rank != self.rank)
		watcher((int)who->rank);
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

int launch_watch(struct launch *l, void (*fn)(int rank))
{
	pmix_status_t codes[] = { PMIX_ERR_PROC_ABORTED, PMIX_ERR_PROC_REQUESTED_ABORT,
				  PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_EVENT_PROC_TERMINATED,
				  PMIX_ERR_LOST_CONNECTION };
	struct wait *w;
	pmix_status_t status;
	int err;

	if (l->alone)
		return 0;
	w = wait_create();
	if (!w)
		return -ENOMEM;
	watcher = fn;
	status = PMIx_Register_event_handler(codes, sizeof(codes) / sizeof(*codes), NULL, 0, died,
					     registered, w);
	if (status != PMIX_SUCCESS) {
		wait_destroy(w);
		err = pmix_refused(status);
	} else {
		err = pmix_wait(w, GET_SECONDS);
	}
	if (!err)
		return 0;
	/* if the connection is broken, this may be any error; the next call then returns UNREACH */
	if (err != -EPIPE)
		err = commit();
	return err == -EPIPE ? err : -ENOSYS;
}

unsigned long launch_gone(void)
{
	const uint64_t since = __atomic_load_n(&gone_ms, __ATOMIC_SEQ_CST);

	return since ? clock_ms() - since + 1 : 0;
}

void launch_end(struct launch *l)
{
	struct value *v;

	(void)l;
	if (started)
		PMIx_Finalize(NULL, 0);
	started = 0;
	while ((v = values)) {
		values = v->next;
		free(v);
	}
}

void launch_abort(struct launch *l, int status, const char *why)
{
	struct wait *w = l->alone ? NULL : wait_create();

	if (!w)
		return;
	w->exit_status = status;
	w->why = why;
	wait_apart(abort_main, w, ABORT_SECONDS, NULL);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * walk.c - at each step of a miss and of calls that wait, something happens to the thread that is
 * there.
 *
 *   walk points                 the names of the steps
 *   walk all [POINT[,POINT...]] at each step but those: pthread_cancel, a signal with a handler,
 *   fork, pthread_exit of another
 *                               thread; and whether it was reached, after how many rounds
 *   walk POINT term|exec|kill   one step: rank 1 ends
 *
 * Needs a library with steps (make VARIANT=hooks). The victim is a thread of rank 1, which misses
 * blocks that all ranks write, and makes calls that wait: for a partner of its rank, for locks and
 * pins of other ranks, for threads on them, for memory, in collectives. sleep-X is the library's
 * step "call_sleep" in the call that the victim names X. After each event the job goes on, with a
 * new victim where the old one has ended, and in the end what all have counted is compared with the
 * memory.
 */
#include <dsm.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(call) must(call, #call)
#define BLOCKS 6
#define ROOM (8ul << 20) /* of the heap, in a row: rank 0 has all */
#define TRIES 3000       /* rounds of the victim's, to come to a step */
#define LONG_NS 60000000000ull

/* clang-format off */
static const char *const points[] = {
	"miss_begin",       "miss_slot",        "miss_joined",      "miss_asked",       "miss_sent",
	"miss_sleep",       "miss_came",        "miss_used",        "miss_end",         "take",
	"step",             "send",             "deliver",          "ask_slot",         "ask_sent",
	"ask_came",         "call_begin",       "lock_begin",       "lock_sent",        "cond_line",
	"cond_left",        "cond_came",        "barrier_begin",    "barrier_arrived",  "chunk_sent",
	"chunk_came",       "sleep-acquire",    "sleep-pin",        "sleep-mutex",      "sleep-rwlock",
	"sleep-sem",        "sleep-cond",       "sleep-barrier",    "sleep-meet",       "sleep-collective",
	"call_sent",        "call_came",        "spawn_made",       "spawn_began",      "join_ended",
	"region_named",     "region_mapped",    "region_left",      "heap_asks",        "sleep-spawn",
	"sleep-join",       "sleep-free",       "sleep-region",     "sleep-malloc",     "place_asks",
};
/* clang-format on */
#define POINTS (sizeof(points) / sizeof(points[0]))

static const char *const actions[] = {
	"cancel", "signal", "fork", "thread", "term", "exec", "kill"
};
#define MILD 4

static volatile long *memory; /* block 0: handles; then what is counted, a block each */
static int me;
static dsm_mutex_t mutex, own;
static dsm_rwlock_t rwlock;
static dsm_cond_t cond;
static dsm_sem_t sem;
static dsm_barrier_t both, *meeting; /* of the victim and its partner */
static void *(*on_rank_2)(void *);

static __thread int is_victim;
static __thread const char *call; /* that the victim is in */
static const char *point, *action;
static volatile int done, reached, stop, handled, rounds;
static long counted[BLOCKS]; /* of this rank; atomic */
static volatile int want_sem, want_cond, want_barrier, want_meeting;

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "rank %d, %s at %s: %s: %d: %s\n", me, action ? action : "",
		point ? point : "", what, err, dsm_strerror(err));
	exit(2);
}

static void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "rank %d, %s at %s: %s\n", me, action ? action : "", point ? point : "",
		what);
	exit(2);
}

/* ---- what happens --------------------------------------------------------------------------- */

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static void with_child(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(dsm_barrier() == -ECHILD && dsm_sem_post(&sem, 1) == -ECHILD ? 0 : 1);
	check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child has failed");
}

static void *ends(void *arg)
{
	(void)arg;
	pthread_exit(NULL);
}

static void other_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, ends, NULL);
	pthread_join(t, NULL);
}

static void say_when(void)
{
	char text[64];
	struct timespec t;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &t);
	n = snprintf(text, sizeof(text), "reached %ld\n", t.tv_sec * 1000 + t.tv_nsec / 1000000);
	if (write(STDOUT_FILENO, text, (size_t)n) < 0)
		_exit(2);
}

static void act(void)
{
	if (!strcmp(action, "cancel")) {
		pthread_cancel(pthread_self());
	} else if (!strcmp(action, "signal")) {
		pthread_kill(pthread_self(), SIGUSR1);
	} else if (!strcmp(action, "fork")) {
		with_child();
	} else if (!strcmp(action, "thread")) {
		other_thread();
	} else {
		say_when();
		if (!strcmp(action, "term"))
			kill(getpid(), SIGTERM);
		else if (!strcmp(action, "kill"))
			kill(getpid(), SIGKILL);
		else
			execl("/bin/sleep", "sleep", "3", (char *)NULL);
	}
}

static int is_point(const char *where)
{
	if (!strcmp(where, "call_sleep"))
		return call && !strncmp(point, "sleep-", 6) && !strcmp(point + 6, call);
	return !strcmp(where, point);
}

void dsm_test_hook(const char *where);
void dsm_test_hook(const char *where)
{
	if (!is_victim || !point || done || !is_point(where))
		return;
	done = reached = 1;
	act();
}

/* ---- work ----------------------------------------------------------------------------------- */

static void *block_at(int i)
{
	return (void *)&memory[(i % BLOCKS + 1) * 512];
}

static void touch(int i)
{
	__atomic_fetch_add(&memory[(i + 1) * 512], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&counted[i], 1, __ATOMIC_RELAXED);
}

static void unlock(void *arg)
{
	(void)arg;
	want_cond = 0;
	MUST(dsm_mutex_unlock(&own));
}

static void wait_cond(void)
{
	MUST(dsm_mutex_lock(&own));
	pthread_cleanup_push(unlock, NULL);
	want_cond = 1;
	MUST(dsm_cond_wait(&cond, &own));
	pthread_cleanup_pop(1);
}

/*
 * Two of the blocks that others pin: dsm_pin() would not wait for the one that dsm_acquire() has
 * just got.
 */
static void acquire_and_pin(int i)
{
	call = "acquire";
	MUST(dsm_acquire(block_at(i), 4096, DSM_WRITE));
	call = "pin";
	MUST(dsm_pin(block_at(i + 3), 4096, DSM_WRITE));
	touch((i + 3) % BLOCKS);
	MUST(dsm_unpin(block_at(i + 3), 4096));
}

/* By one thread of each rank: rank 1 says whether there is more to come. */
static int collective(int more)
{
	int64_t order[4] = { more }, sum[4] = { 1, 1, 1, 1 };

	call = "collective";
	MUST(dsm_broadcast(order, sizeof(order), 1));
	if (!order[0])
		return 0;
	MUST(dsm_reduce_array(sum, 4, DSM_INT64, DSM_SUM));
	check(sum[3] == dsm_size(), "the sum is wrong");
	return 1;
}

static void take_locks(void)
{
	call = "mutex";
	MUST(dsm_mutex_lock(&mutex));
	touch(0);
	MUST(dsm_mutex_unlock(&mutex));
	call = "rwlock";
	MUST(dsm_rwlock_timedwrlock(&rwlock, LONG_NS));
	touch(1);
	MUST(dsm_rwlock_unlock(&rwlock));
}

/*
 * None of these is a cancellation point, so the partner may count on the victim where it has asked
 * for it.
 */
static void meet_partner(void)
{
	call = "barrier";
	want_barrier = 1;
	MUST(dsm_barrier_wait(&both));
	call = "meet";
	want_meeting = 1;
	MUST(dsm_barrier_meet(meeting, 2));
}

/* On rank 2. */
static void *allocates(void *arg)
{
	usleep(300);
	touch((int)(intptr_t)arg);
	return dsm_malloc(64);
}

static void leave_thread(void *arg)
{
	MUST(dsm_detach(*(dsm_thread_t *)arg));
}

/* The join is a cancellation point. */
static void spawn_and_join(int i)
{
	dsm_thread_t t;
	void *p;

	call = "spawn";
	MUST(dsm_spawn(&t, 2, NULL, on_rank_2, (void *)(intptr_t)(i % BLOCKS)));
	call = "join";
	pthread_cleanup_push(leave_thread, &t);
	MUST(dsm_join(t, &p));
	pthread_cleanup_pop(0);
	check(p != NULL, "no memory");
	call = "free";
	MUST(dsm_free(p));
}

static void use_region(void)
{
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED, .home_rank = 2 };
	dsm_region_t *r;
	volatile long *p;

	call = "region";
	MUST(dsm_region_open("more", 8192, &opt, &r));
	p = dsm_region_base(r);
	check(p[1] == 0 && p[513] == 0, "a new region is not zero");
	p[1] = p[513] = 7;
	MUST(dsm_region_destroy("more"));
	MUST(dsm_region_detach(r));
}

static void use_memory(int i)
{
	call = NULL;
	MUST(dsm_place(block_at(i), 4096, i % dsm_size()));
	call = "malloc";
	check(!dsm_malloc(ROOM), "the heap has room");
}

static void *victim(void *arg)
{
	struct dsm_region_info info;
	int i, k;

	(void)arg;
	is_victim = 1;
	for (k = 0; k < TRIES && !done; k++) {
		rounds = k + 1;
		for (i = 0; i < BLOCKS; i++)
			touch(i);
		acquire_and_pin(k);
		take_locks();
		call = "sem";
		want_sem = 1;
		MUST(dsm_sem_wait(&sem));
		call = "cond";
		wait_cond();
		meet_partner();
		collective(1);
		if (k % 4 == 0) { /* these take as long as all others */
			spawn_and_join(k);
			use_region();
			use_memory(k);
		}
		call = NULL;
		MUST(dsm_region_query((void *)memory, &info));
	}
	pthread_testcancel();
	return NULL;
}

/* Wakes the victim; misses the same blocks, so that each joins requests of the other. */
static void *partner(void *arg)
{
	int i = 0;

	(void)arg;
	while (!stop) {
		usleep(500);
		if (want_sem) {
			want_sem = 0;
			MUST(dsm_sem_post(&sem, 1));
		}
		if (want_cond)
			MUST(dsm_cond_broadcast(&cond));
		if (want_barrier) {
			want_barrier = 0;
			MUST(dsm_barrier_wait(&both));
		}
		if (want_meeting) {
			want_meeting = 0;
			check(dsm_barrier_meet(meeting, 2) >= 0, "dsm_barrier_meet");
		}
		touch(i++ % BLOCKS);
	}
	return NULL;
}

/*
 * Where a miss takes microseconds nobody sleeps in one or joins another's: a block that is pinned
 * takes longer.
 */
static void keep(int i)
{
	MUST(dsm_pin(block_at(i), 4096, DSM_WRITE));
	usleep(3000);
	MUST(dsm_unpin(block_at(i), 4096));
}

static void keep_lock(void)
{
	MUST(dsm_rwlock_wrlock(&rwlock));
	usleep(500);
	MUST(dsm_rwlock_unlock(&rwlock));
}

/* The others keep the blocks and the locks moving. */
static void *neighbour(void *arg)
{
	int i = 0;

	(void)arg;
	while (!stop) {
		MUST(dsm_mutex_lock(&mutex));
		touch(i++ % BLOCKS);
		MUST(dsm_mutex_unlock(&mutex));
		touch(i % BLOCKS);
		if (i % 4 == 0)
			keep(i % BLOCKS);
		if (i % 4 == 2)
			keep_lock();
		usleep(300);
	}
	return NULL;
}

static void one(const char *p, const char *a)
{
	pthread_t t;
	void *end;

	point = p;
	action = a;
	done = reached = 0;
	handled = 0;
	pthread_create(&t, NULL, victim, NULL);
	pthread_join(t, &end);
	want_sem = want_cond = 0;
	while (!dsm_sem_trywait(&sem))
		; /* what came for a victim that had gone */
	printf("%s %s %s %d\n", reached ? "reached" : "missed", p, a, rounds);
	fflush(stdout);
	if (!reached)
		return;
	check(strcmp(a, "cancel") || end == PTHREAD_CANCELED, "the thread was not cancelled");
	check(strcmp(a, "signal") || handled == 1, "the handler did not run once");
}

/* Is it one of these, which commas separate? */
static int is_listed(const char *list, const char *name)
{
	const size_t n = strlen(name);

	for (; list; list = strchr(list, ','), list = list ? list + 1 : NULL)
		if (!strncmp(list, name, n) && (!list[n] || list[n] == ','))
			return 1;
	return 0;
}

static void walk_all(const char *without)
{
	size_t p, a;

	for (p = 0; p < POINTS; p++)
		for (a = 0; a < MILD && !is_listed(without, points[p]); a++)
			one(points[p], actions[a]);
}

/* ---- the job -------------------------------------------------------------------------------- */

struct handles {
	dsm_mutex_t mutex, own;
	dsm_rwlock_t rwlock;
	dsm_cond_t cond;
	dsm_sem_t sem;
	dsm_barrier_t meeting;      /* zero at first */
	void *(*allocates)(void *); /* where rank 2 has it */
};

/* Each rank has room for small allocations, and there is no other. */
static void fill_heap(void)
{
	check(dsm_malloc(4096) != NULL, "no memory");
	MUST(dsm_barrier());
	while (me == 0 && dsm_malloc(ROOM))
		;
}

static void share(void)
{
	struct handles *h = (struct handles *)memory;

	fill_heap();
	if (me == 0) {
		MUST(dsm_mutex_init(&h->mutex));
		MUST(dsm_mutex_init(&h->own));
		MUST(dsm_rwlock_init(&h->rwlock));
		MUST(dsm_cond_init(&h->cond));
		MUST(dsm_sem_init(&h->sem, 0));
	}
	if (me == 2)
		h->allocates = allocates;
	MUST(dsm_barrier());
	mutex = h->mutex;
	own = h->own;
	rwlock = h->rwlock;
	cond = h->cond;
	sem = h->sem;
	on_rank_2 = h->allocates;
	meeting = &h->meeting;
	MUST(dsm_barrier());
}

static void sum_up(void)
{
	int64_t sum;
	int i;

	MUST(dsm_barrier());
	for (i = 0; i < BLOCKS; i++) {
		sum = counted[i];
		MUST(dsm_reduce(&sum, DSM_INT64, DSM_SUM));
		check(sum == memory[(i + 1) * 512], "what is in memory is not what was counted");
	}
	MUST(dsm_barrier());
}

static void run(int argc, char **argv)
{
	pthread_t t;

	if (me == 1) {
		MUST(dsm_barrier_init(&both, &me, 1, 2));
		pthread_create(&t, NULL, partner, NULL);
		if (!strcmp(argv[1], "all"))
			walk_all(argc == 3 ? argv[2] : NULL);
		else
			one(argv[1], argv[2]);
		collective(0);
	} else {
		pthread_create(&t, NULL, neighbour, NULL);
		while (collective(1))
			;
	}
	stop = 1;
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	dsm_region_t *r;
	size_t i;

	for (i = 0; argc == 2 && !strcmp(argv[1], "points") && i < POINTS; i++)
		puts(points[i]);
	if (i)
		return 0;
	if (argc != 3 && !(argc == 2 && !strcmp(argv[1], "all")))
		return 2;
	setenv("DSM_HEAP", "64M", 1);
	MUST(dsm_init(NULL));
	me = dsm_rank();
	MUST(dsm_region_open("memory", (BLOCKS + 1) * 4096, NULL, &r));
	memory = dsm_region_base(r);
	signal(SIGUSR1, handler);
	share();
	run(argc, argv);
	sum_up();
	MUST(dsm_finalize());
	return 0;
}

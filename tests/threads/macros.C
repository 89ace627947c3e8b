/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * macros.C - every ANL macro that does something, in the forms that programs use: with semicolons and without, with optional arguments
 * and without, declared before the environment. Names of the application are macros before it. Arguments: threads (2 or more).
 */
#define n oops
#define lock oops
#define size oops
#define threads oops
#define home oops
#define arg oops
#define wait oops
#define round oops
static LOCKDEC(queue_lock)
static CONDVARDEC(queue_changed);
struct shared {
	BARDEC(all)
	BARDEC(named);
	LOCKDEC(one) LOCKDEC(two);
	NLOCKDEC(number_lock)
	ALOCKDEC(many, 7)
	GSDEC(loop)
	PAUSEDEC(go);
	PAUSEDEC(relay, 5)
	CONDVARDEC(changed)
	long ids, sum, sums[7], late, done, taken[100], rounds;
};
extern volatile struct shared *shared;
#undef n
#undef lock
#undef size
#undef threads
#undef home
#undef arg
#undef wait
#undef round

#include <stdio.h>
#include <string.h>
MAIN_ENV
EXTERN_ENV

enum { LOCKS = 3900, CONDITIONS = 5900 };

struct crowd {
	ALOCKDEC(lock, LOCKS)
	struct {
		CONDVARDEC(come)
	} conditions[CONDITIONS];
	long inside[LOCKS];
};

static struct crowd *crowd;
volatile struct shared *shared;
static long P, alone;
static _Atomic long atomic_sum;
static _Atomic double atomic_double;
static BARDEC(zeroed) /* never initialised */

/* Functions that are called as builtins of m4 are. */
static long len(long x) { return x; }
static long substr(long x) { return x; }
static long shift(long x) { return x; }
static long eval(long x) { return x; }
static long incr(long x) { return x; }

static void lonely()
{
	LOCK(shared->two)
	alone++;
	UNLOCK(shared->two)
}

/* A line that nobody needs to be fast: each thread in turn sets the next one's pause. */
static void relay(long me)
{
	long i;

	for (i = 0; i < 3; i++) {
		if (me == 0 && i == 0) {
		} else
			WAITPAUSE(shared->relay[me % 5])
		CLEARPAUSE(shared->relay[me % 5])
		shared->rounds++;
		SETPAUSE(shared->relay[(me + 1) % P % 5])
	}
}

static void hand_out(void)
{
	long i, again;

	for (again = 0; again < 3; again++)
		for (;;) {
			GETSUB(shared->loop, i, 99, P)
			if (i < 0)
				break;
			shared->taken[i]++;
		}
}

static void meet(long me)
{
	BARRIER(zeroed, P)
	LOCK(queue_lock);
	if (++shared->late < P)
		CONDVARWAIT(queue_changed, queue_lock)
	else
		CONDVARBCAST(queue_changed)
	UNLOCK(queue_lock)
	BARRIER(shared->named);
	/* A barrier with another number of threads than before. */
	if (me > 0)
		BARRIER(shared->all, P - 1);
	BARRIER(shared->all, P)
}

/* As many locks and conditions as programs have. */
static void use_crowd(long me)
{
	long i, k;

	for (i = me; i < LOCKS; i += P)
		for (k = 0; k < 3; k++) {
			const long at = (i + k) % LOCKS;

			ALOCK(crowd->lock, at)
			crowd->inside[at]++;
			AULOCK(crowd->lock, at)
		}
	for (i = me; i < CONDITIONS; i += P) {
		CONDVARSIGNAL(crowd->conditions[i].come)
	}
}

static void *work(void *unused)
{
	long me, pid;

	THREAD_INIT_FREE();
	NLOCK(shared->number_lock)
	me = shared->ids++;
	NUNLOCK(shared->number_lock)
	GET_PID(pid);
	LOCK(shared->one); shared->sum += pid; UNLOCK(shared->one);
	ALOCK(shared->many, me % 7);
	shared->sums[me % 7]++;
	AULOCK(shared->many, me % 7);
	LOCK(AGETL(shared->many, me % 7))
	shared->sums[me % 7]++;
	CONDVARSIGNAL(shared->changed)
	AUNLOCK(shared->many, me % 7)
	atomic_double = LOAD(atomic_sum);
	FETCH_ADD(atomic_sum, me)
	(void)FETCH_SUB(atomic_sum, 0);
	BARRIER(shared->all, P);
	STORE(atomic_double, 0.5);
	BARRIER(shared->all, P);
	FETCH_ADD_DOUBLE(&atomic_double, 0.25);
	ACQUIRE_FENCE()
	RELEASE_FENCE();
	FULL_FENCE;
	BARRIER(shared->all, P);
	hand_out();
	meet(me);
	relay(me);
	use_crowd(me);
	BARRIER(shared->all, P);
	if (me == 1) {
		SETPAUSE(shared->go)
		EVENT(shared->go)
		LOCK(shared->one)
		shared->done = 1;
		UNLOCK(shared->one)
	} else if (me == 0) {
		WAITPAUSE(shared->go);
		PAUSE(shared->go);
	}
	LOCK(AGETL(shared->many, 0))
	while (0)
		CONDVARWAIT(shared->changed, AGETL(shared->many, 0));
	UNLOCK(AGETL(shared->many, 0))
	return unused;
}

int main(int argc, char **argv)
{
	unsigned long begun, ended;
	long i, bad = 0, used = 0, expected = 0;
	char *placed, *small;

	MAIN_INITENV(,80000000)
	P = argc > 1 ? atol(argv[1]) : 2;
	shared = (struct shared *)G_MALLOC(sizeof(*shared));
	memset((void *)shared, 0, sizeof(*shared));
	crowd = G_MALLOC_F(sizeof(*crowd), 1);
	memset(crowd, 0, sizeof(*crowd));
	BARINIT(shared->all)
	BARINIT(shared->named, P);
	LOCKINIT(shared->one) LOCKINIT(shared->two);
	NLOCKINIT(shared->number_lock);
	ALOCKINIT(shared->many, 7)
	GSINIT(shared->loop);
	PAUSEINIT(shared->go)
	PAUSEINIT(shared->relay, 5);
	CONDVARINIT(shared->changed);
	CLOCK(begun)
	for (i = 0; i < 2; i++) {
		CREATE(lonely)
	}
	WAIT_FOR_END(2)
	SPLASH4_ROI_BEGIN()
	CREATE(work, P)
	WAIT_FOR_END(P);
	SPLASH4_ROI_END();
	CLOCK(ended)
	for (i = 0; i < 7; i++)
		used += shared->sums[i];
	for (i = 0; i < 100; i++)
		bad += shared->taken[i] != 3;
	for (i = 0; i < LOCKS; i++)
		bad += crowd->inside[i] != 3;
	placed = (char *)NU_MALLOC(100000, P + 1)
	small = NU_MALLOC_F(8, 0);
	memset(placed, 1, 100000);
	memset(small, 1, 8);
	G_FREE(placed, 100000)
	NU_FREE(small);
	for (i = 0; i < P; i++)
		expected += i;
	printf("%ld threads, numbers %d, alone %ld, locks %ld, loops %ld, rounds %ld, done %ld\n", shared->ids,
	       shared->sum >= expected, alone, used, bad, shared->rounds, shared->done);
	printf("atomic %d %.2f, late %ld, %d, %ld\n", LOAD(atomic_sum) == expected, atomic_double, shared->late,
	       ended > begun && ended - begun < 600000000, len(1) + substr(1) + shift(1) + eval(1) + incr(1));
	MAIN_END
}

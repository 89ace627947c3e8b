// SPDX-License-Identifier: BSD-2-Clause
/*
 * block.c - all ranks but one wait for that one, in the way WHAT says, and it goes in the way HOW
 * says.
 *
 *   block WHAT HOW     HOW: kill exit return segv abort stop none
 *
 * The victim is rank 1, or rank 0 (which keeps the names of regions) for attach. It leaves its pid
 * in $FAIL_FOLDER/victim just before, so that a runner can be the one who stops it.
 */
#include <dsm.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(call) must(call, #call)

static int me, victim = 1;
static volatile int sink;
static volatile int *volatile nowhere = (volatile int *)8;

static int must(int err, const char *what)
{
	if (err < 0) {
		fprintf(stderr, "rank %d: %s: %s\n", me, what, dsm_strerror(err));
		exit(2);
	}
	return err;
}

/* What all ranks share: made by one, known to all. */
static struct shared {
	dsm_mutex_t mutex;
	dsm_rwlock_t rwlock;
	dsm_cond_t cond;
	dsm_sem_t sem;
} things;
static char *memory;
static const size_t size = 64 * 4096;

static void make(const char *what)
{
	struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
					  .home_rank = strstr(what, "-home") ? victim : 0 };
	dsm_region_t *r;

	MUST(dsm_region_open("memory", size, &opt, &r));
	memory = dsm_region_base(r);
	if (me == opt.home_rank) {
		MUST(dsm_mutex_init(&things.mutex));
		MUST(dsm_rwlock_init(&things.rwlock));
		MUST(dsm_cond_init(&things.cond));
		MUST(dsm_sem_init(&things.sem, 0));
	}
	MUST(dsm_broadcast(&things, sizeof(things), opt.home_rank));
	if (me == victim) {
		MUST(dsm_mutex_lock(&things.mutex));
		MUST(dsm_rwlock_wrlock(&things.rwlock));
		MUST(dsm_pin(memory, size, DSM_WRITE));
		memory[0] = 1;
	}
	MUST(dsm_barrier());
}

/* Not to return before the victim is gone, and then not to return either. */
static void wait_for_it(const char *what)
{
	dsm_mutex_t own;
	uint64_t v = 1;
	dsm_region_t *r;

	if (!strncmp(what, "fault", 5)) {
		if (me % 2)
			memory[me * 4096L % (long)size] = 1;
		else
			sink = memory[0];
	} else if (!strncmp(what, "mutex", 5)) {
		MUST(dsm_mutex_lock(&things.mutex));
	} else if (!strncmp(what, "rwlock", 6)) {
		MUST(me % 2 ? dsm_rwlock_wrlock(&things.rwlock)
			    : dsm_rwlock_rdlock(&things.rwlock));
	} else if (!strncmp(what, "sem", 3)) {
		MUST(dsm_sem_wait(&things.sem));
	} else if (!strncmp(what, "cond", 4)) {
		MUST(dsm_mutex_init(&own));
		MUST(dsm_mutex_lock(&own));
		MUST(dsm_cond_wait(&things.cond, &own));
	} else if (!strcmp(what, "barrier")) {
		MUST(dsm_barrier());
	} else if (!strcmp(what, "reduce")) {
		MUST(dsm_reduce(&v, DSM_UINT64, DSM_SUM));
	} else if (!strcmp(what, "attach")) {
		while (dsm_region_attach("nothing", &r) == -2)
			;
	} else if (!strcmp(what, "finalize")) {
		MUST(dsm_finalize());
	} else if (!strcmp(what, "compute")) {
		while (1)
			usleep(1000);
	} else {
		fprintf(stderr, "no way to wait is called %s\n", what);
		exit(2);
	}
	fprintf(stderr, "rank %d: %s returned\n", me, what);
	exit(3);
}

static int go(const char *how)
{
	usleep(500000); /* the others are to be asleep */
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	else if (!strcmp(how, "exit"))
		exit(0);
	else if (!strcmp(how, "segv"))
		*nowhere = 1;
	else if (!strcmp(how, "abort"))
		dsm_abort(3, "the %s has run out", "water");
	else if (!strcmp(how, "stop"))
		while (1) /* the runner does it */
			pause();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "attach"))
		victim = 0;
	MUST(dsm_init(NULL));
	me = dsm_rank();
	make(argv[1]);
	if (me == victim)
		return go(argv[2]);
	wait_for_it(argv[1]);
	return 0;
}

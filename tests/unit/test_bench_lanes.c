// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_bench_lanes.c - the experiments of tests/bench/lanes, between two ends in this process
 * (share_verbs.h): the counters of each side show the technique of that side, and are not accepted
 * for the other. So no row can compare a side with itself.
 */
#include "suite.h"

#include "share_verbs.h"

#include <pthread.h>
#include <sys/socket.h>

#include "../bench/lanes.h"

#define DEVICES "fake0,fake1"
#define MS 30

static void *serves(void *arg)
{
	const int *fd = arg;

	lanes_serve(*fd, DEVICES);
	return NULL;
}

static void measure(const struct lanes_case *c, struct lanes_result out[LANES_SIDES])
{
	pthread_t server;
	int fd[2];

	fake_devices = 2;
	fake_vectors = 4;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	ck_assert_int_eq(pthread_create(&server, NULL, serves, &fd[1]), 0);
	lanes_measure(fd[0], DEVICES, c, LANES_ON, MS, &out[LANES_ON]);
	lanes_measure(fd[0], DEVICES, c, LANES_OFF, MS, &out[LANES_OFF]);
	close(fd[0]);
	pthread_join(server, NULL);
	close(fd[1]);
}

UNIT_LOOP_TEST(the_counters_of_a_side_are_its_own, 0, (int)lanes_ncases)
{
	const struct lanes_case *c = &lanes_cases[_i];
	struct lanes_result r[LANES_SIDES];
	const char *why[LANES_SIDES];

	measure(c, r);
	why[LANES_ON] = lanes_judge(c, LANES_ON, &r[LANES_ON]);
	why[LANES_OFF] = lanes_judge(c, LANES_OFF, &r[LANES_OFF]);
	ck_assert_msg(!why[LANES_ON], "%s, on: %s", c->name, why[LANES_ON]);
	ck_assert_msg(!why[LANES_OFF], "%s, off: %s", c->name, why[LANES_OFF]);
	ck_assert_msg(lanes_judge(c, LANES_ON, &r[LANES_OFF]) != NULL, "%s: off passes for on",
		      c->name);
	ck_assert_msg(lanes_judge(c, LANES_OFF, &r[LANES_ON]) != NULL, "%s: on passes for off",
		      c->name);
	ck_assert_uint_eq(r[LANES_ON].receiver.net.malformed + r[LANES_OFF].receiver.net.malformed,
			  0);
	ck_assert_uint_eq(fake_live, 0);
}

UNIT_TEST(a_side_that_did_nothing_is_refused)
{
	static const struct lanes_result nothing;
	unsigned int i;

	for (i = 0; i < lanes_ncases; i++) {
		ck_assert_ptr_nonnull(lanes_judge(&lanes_cases[i], LANES_ON, &nothing));
		ck_assert_ptr_nonnull(lanes_judge(&lanes_cases[i], LANES_OFF, &nothing));
	}
}

UNIT_SUITE("bench_lanes", .seconds = 120)

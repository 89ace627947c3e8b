// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_parts.c - libdsm/share: rings with one or many writers, headers of frames, working
 * modes, lines.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share/frame.h"
#include "share/log.h"
#include "share/mode.h"
#include "share/ring.h"
#include "share/segment.h"

/* ---- rings ---------------------------------------------------------------------------------- */

UNIT_TEST(a_ring_is_a_bounded_queue)
{
	struct rs_rqe ring[4], e = { 0 };
	uint32_t in = 0, out = 0, n;

	memset(ring, 0, sizeof(ring));
	ck_assert(!rs_ring_take(ring, &out, 4, &e, sizeof(e)));
	for (n = 0; n < 1000; n++) {
		e.cookie = n;
		ck_assert(rs_ring_put(ring, &in, 4, &e, sizeof(e)));
		if (n < 3)
			continue;
		ck_assert(!rs_ring_put(ring, &in, 4, &e, sizeof(e)));
		ck_assert(rs_ring_take(ring, &out, 4, &e, sizeof(e)));
		ck_assert_uint_eq(e.cookie, n - 3);
	}
}

UNIT_TEST(positions_wrap)
{
	struct rs_rqe ring[4], e = { 0 };
	uint32_t in = 0u - 8, out = in, n;

	for (n = 0; n < 4; n++)
		ring[n].turn = rs_turn_free(in, 4);
	for (n = 0; n < 64; n++) {
		e.cookie = n;
		ck_assert(rs_ring_put_shared(ring, &in, 4, &e, sizeof(e)));
		ck_assert(rs_ring_take_shared(ring, &out, 4, &e, sizeof(e)));
		ck_assert_uint_eq(e.cookie, n);
	}
	ck_assert_uint_eq(in, 56);
}

UNIT_TEST(a_forged_turn_is_neither_free_nor_filled)
{
	struct rs_rqe ring[4], e = { 0 };
	uint32_t out = 0;

	memset(ring, 0xa5, sizeof(ring));
	ck_assert(!rs_ring_filled(ring, 0, 4, sizeof(e)) && !rs_ring_free(ring, 0, 4, sizeof(e)));
	ring[0].turn = 1; /* a client may write anything to the slot: the owner reads it once */
	ck_assert(rs_ring_take(ring, &out, 4, &e, sizeof(e)));
	ck_assert(!rs_ring_take(ring, &out, 4, &e, sizeof(e)));
}

#define THREADS 4
#define EACH 20000

static struct rs_rqe shared[16];
static uint32_t tail, head;
static uint8_t times[THREADS * EACH];
static uint32_t taken;

static void *producer(void *arg)
{
	struct rs_rqe e = { 0 };

	for (uint64_t i = 0; i < EACH; i++) {
		e.cookie = (uintptr_t)arg * EACH + i;
		e.offset = ~e.cookie;
		while (!rs_ring_put_shared(shared, &tail, 16, &e, sizeof(e)))
			sched_yield();
	}
	return NULL;
}

static void *consumer(void *arg)
{
	struct rs_rqe e;

	(void)arg;
	while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < THREADS * EACH) {
		if (!rs_ring_take_shared(shared, &head, 16, &e, sizeof(e))) {
			sched_yield();
			continue;
		}
		unit_require(e.cookie < THREADS * EACH && e.offset == ~e.cookie);
		__atomic_fetch_add(&times[e.cookie], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

UNIT_TEST(threads_lose_and_double_nothing)
{
	pthread_t thread[2 * THREADS];

	for (uintptr_t i = 0; i < THREADS; i++) {
		pthread_create(&thread[i], NULL, producer, (void *)i);
		pthread_create(&thread[THREADS + i], NULL, consumer, NULL);
	}
	for (unsigned int i = 0; i < 2 * THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned int i = 0; i < THREADS * EACH; i++)
		unit_require(times[i] == 1);
}

/* ---- frames --------------------------------------------------------------------------------- */

#define ID RS_CONNS_MAX

static int parse(struct rs_frame f, uint32_t bytes)
{
	char buf[64] = { 0 };
	struct rs_frame out = { .kind = 99 };
	int err;

	memcpy(buf, &f, sizeof(f));
	err = rs_frame_parse(buf, bytes, 16, &out);
	ck_assert(err ? out.kind == 99 : !memcmp(&out, &f, sizeof(f)));
	return err;
}

UNIT_TEST(only_whole_frames_are_believed)
{
	const struct rs_frame data = { .version = RS_FRAME_VERSION,
				       .kind = RS_FRAME_DATA,
				       .to = ID,
				       .from = ID,
				       .total = 40,
				       .offset = 16,
				       .len = 16 };
	struct rs_frame f = data;

	ck_assert_int_eq(parse(f, 48), 0);
	ck_assert_int_eq(parse(f, 47), -EBADMSG);
	ck_assert_int_eq(parse(f, 31), -EBADMSG);
	f.offset = 25; /* past the end of the message */
	ck_assert_int_eq(parse(f, 48), -EBADMSG);
	f.offset = 0xfffffff8u;
	ck_assert_int_eq(parse(f, 48), -EBADMSG);
	f = data;
	f.len = 17; /* longer than a chunk */
	ck_assert_int_eq(parse(f, 49), -EBADMSG);
	f.len = 0; /* an empty chunk of a message that is not empty */
	ck_assert_int_eq(parse(f, 32), -EBADMSG);
	f.total = f.offset = 0;
	ck_assert_int_eq(parse(f, 32), 0);
	f.version++;
	ck_assert_int_eq(parse(f, 32), -EBADMSG);
	for (unsigned int k = 0; k < 256; k++) {
		f = (struct rs_frame){
			.version = RS_FRAME_VERSION, .kind = (uint8_t)k, .to = ID, .from = ID
		};
		if (k == RS_FRAME_OPEN)
			f.to = 0;
		if (k == RS_FRAME_REFUSED)
			f.from = 0;
		f.total = k == RS_FRAME_OPEN ? 1u << 8 : k == RS_FRAME_REFUSED;
		ck_assert_int_eq(parse(f, 32),
				 k && k < RS_FRAME_KINDS && k != RS_FRAME_ATOMIC ? 0 : -EBADMSG);
		f.len = 4;
		f.total = 4;
		ck_assert_int_eq(parse(f, 36),
				 k == RS_FRAME_DATA || k == RS_FRAME_FIRST ? 0 : -EBADMSG);
	}
}

/* ---- modes ---------------------------------------------------------------------------------- */

UNIT_TEST(modes_change_by_load)
{
	struct rs_mode m;

	rs_mode_init(&m, 3, 5);
	ck_assert_int_eq(rs_mode_round(&m, 0, 0), RS_BLOCKED);
	rs_mode_woken(&m);
	ck_assert_int_eq(m.state, RS_INTERRUPTED);
	ck_assert_int_eq(rs_mode_round(&m, 1, 0), RS_INTERRUPTED);
	ck_assert_int_eq(rs_mode_round(&m, 0, 0), RS_BLOCKED);
	rs_mode_woken(&m);
	for (unsigned int i = 0; i < 2; i++)
		ck_assert_int_eq(rs_mode_round(&m, 1, 0), RS_INTERRUPTED);
	ck_assert_int_eq(rs_mode_round(&m, 1, 0), RS_RUNNING);
	for (unsigned int i = 0; i < 100; i++) { /* short pauses do not put the owner to sleep */
		ck_assert_int_eq(rs_mode_round(&m, i % 5 == 0, 0), RS_RUNNING);
		rs_mode_woken(&m);
	}
	ck_assert_int_eq(rs_mode_round(&m, 1, 0), RS_RUNNING);
	for (unsigned int i = 0; i < 4; i++)
		ck_assert_int_eq(rs_mode_round(&m, 0, 0), RS_RUNNING);
	ck_assert_int_eq(rs_mode_round(&m, 0, 0), RS_BLOCKED);
	ck_assert_uint_eq(m.changes[RS_INTERRUPTED][RS_RUNNING], 1);
	ck_assert_uint_eq(m.changes[RS_RUNNING][RS_BLOCKED], 1);
	ck_assert_uint_eq(m.changes[RS_BLOCKED][RS_INTERRUPTED], 2);
}

/*
 * An owner that waits for its own posts polls, but only for a while, and not after they have
 * completed.
 */
UNIT_TEST(posts_on_the_wire_keep_it_awake)
{
	struct rs_mode m;
	int i;

	rs_mode_init(&m, 4, 10);
	ck_assert_int_eq(rs_mode_round(&m, 0, 1), RS_BLOCKED); /* nothing woke it */
	rs_mode_woken(&m);
	ck_assert_int_eq(rs_mode_round(&m, 1, 0), RS_INTERRUPTED);
	for (i = 1; i < 10; i++)
		ck_assert_int_eq(rs_mode_round(&m, 0, 1), RS_INTERRUPTED);
	ck_assert_int_eq(rs_mode_round(&m, 0, 1), RS_BLOCKED);
	rs_mode_woken(&m);
	ck_assert_int_eq(rs_mode_round(&m, 1, 0), RS_INTERRUPTED);
	ck_assert_int_eq(rs_mode_round(&m, 0, 1), RS_INTERRUPTED);
	ck_assert_int_eq(rs_mode_round(&m, 0, 0), RS_BLOCKED);
}

UNIT_TEST(modes_follow_the_table)
{
	for (unsigned int from = 0; from < RS_MODES; from++)
		for (unsigned int e = 0; e < RS_MODE_EVENTS; e++) {
			const enum rs_mode_state to =
				rs_mode_next((enum rs_mode_state)from, (enum rs_mode_event)e);

			ck_assert_int_lt(to, RS_MODES);
			/* one event is not enough */
			ck_assert(to != RS_RUNNING || from == RS_RUNNING || e == RS_BUSY);
			ck_assert(from != RS_RUNNING || to == RS_RUNNING || e == RS_QUIET);
			/* a wake-up is not slept over */
			ck_assert(e != RS_WOKEN || to != RS_BLOCKED);
		}
}

UNIT_TEST(running_can_be_off)
{
	struct rs_mode m;

	rs_mode_init(&m, 0, 5);
	rs_mode_woken(&m);
	for (unsigned int i = 0; i < 1000; i++)
		ck_assert_int_eq(rs_mode_round(&m, 1, 0), RS_INTERRUPTED);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Make number n another file. */
static int file_instead(int n)
{
	char name[] = "/tmp/rshare-log.XXXXXX";
	const int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	ck_assert(!unlink(name));
	ck_assert_int_eq(dup2(fd, n), n);
	return fd;
}

static int next_descriptor(void)
{
	const int fd = dup(STDIN_FILENO);

	ck_assert_int_ge(fd, 0);
	close(fd);
	return fd;
}

UNIT_TEST(lines_follow_stderr_and_not_its_number)
{
	const int was = file_instead(STDERR_FILENO), copy = next_descriptor();
	int file;

	rs_log_keep();
	rs_log_keep();
	rs_log_release(); /* another owner is there */
	file = file_instead(STDERR_FILENO);
	rs_log_line("one");
	ck_assert_int_eq(lseek(was, 0, SEEK_END), sizeof("librshare: one"));
	ck_assert_int_eq(file_instead(copy) < 0, 0); /* the program closes that one, too */
	rs_log_line("two");
	ck_assert_int_eq(lseek(was, 0, SEEK_END), sizeof("librshare: one"));
	ck_assert_int_eq(lseek(file, 0, SEEK_END) + lseek(copy, 0, SEEK_END), 0);
	rs_log_release();
	ck_assert_int_eq(lseek(copy, 0, SEEK_END), 0); /* it is the program's, and stays open */
	ck_assert_int_eq(dup2(was, STDERR_FILENO), STDERR_FILENO);
	rs_log_keep();
	rs_log_line("three");
	rs_log_release();
	ck_assert_int_eq(lseek(was, 0, SEEK_END),
			 sizeof("librshare: one") + sizeof("librshare: three"));
}

UNIT_TEST(a_child_keeps_no_stderr)
{
	const int copy = next_descriptor();
	int status;
	pid_t child;

	rs_log_keep();
	ck_assert_int_ge(fcntl(copy, F_GETFD), 0);
	child = fork();
	if (!child)
		_exit(fcntl(copy, F_GETFD) >= 0);
	ck_assert(waitpid(child, &status, 0) == child && !status);
	ck_assert_int_ge(fcntl(copy, F_GETFD), 0);
	rs_log_release();
	ck_assert_int_lt(fcntl(copy, F_GETFD), 0);
}

UNIT_SUITE("share_parts", .seconds = 60)

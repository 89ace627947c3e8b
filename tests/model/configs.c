// SPDX-License-Identifier: BSD-2-Clause
/* configs.c - the worlds that are searched. */
#include "barriers.h"
#include "coherence.h"
#include "handles.h"
#include "locks.h"
#include "maps.h"
#include "objects.h"

#define CO(...)                                           \
	.model = &co_model, .cfg = &(const struct co_cfg) \
	{                                                 \
		__VA_ARGS__                               \
	}
#define LOCK(...)                                             \
	.model = &lock_model, .cfg = &(const struct lock_cfg) \
	{                                                     \
		__VA_ARGS__                                   \
	}
#define OBJ(...)                                            \
	.model = &obj_model, .cfg = &(const struct obj_cfg) \
	{                                                   \
		__VA_ARGS__                                 \
	}
#define MAPS(...)                                           \
	.model = &map_model, .cfg = &(const struct map_cfg) \
	{                                                   \
		__VA_ARGS__                                 \
	}
#define HANDLES(...)                                              \
	.model = &handle_model, .cfg = &(const struct handle_cfg) \
	{                                                         \
		__VA_ARGS__                                       \
	}
#define BAR(...)                                            \
	.model = &bar_model, .cfg = &(const struct bar_cfg) \
	{                                                   \
		__VA_ARGS__                                 \
	}
#define RWLOCK (1u << USE_READ | 1u << USE_WRITE)
#define WAITS (1u << USE_WAIT | 1u << USE_TIMED)
#define SEM (WAITS | 1u << USE_TRY | 1u << USE_POST | 1u << USE_POST2)
#define COND (WAITS | 1u << USE_SIGNAL | 1u << USE_BROADCAST)
#define ALL(k)             \
	{                  \
		k, k, k, k \
	}
#define PREFETCH (1u << OP_PREFETCH_R | 1u << OP_PREFETCH_W)
#define PINS (1u << OP_PIN_R | 1u << OP_PIN_W)
#define RELEASE (1u << OP_KEEP | 1u << OP_EVICT)
#define EVERYTHING ((1u << OPS) - 1)
#define LATE .split = true, .stale = true

/* clang-format off */
const struct config configs[] = {
	{ "basic", "3 ranks, 1 block, 2 operations each, unordered channels, actions in one piece",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW)) },
	{ "basic-fifo", "the same, ordered channels",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW), .fifo = true) },
	{ "basic-late", "the same, unordered, late actions and stale faults",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW), LATE) },
	{ "home-apart", "4 ranks, the home does not compete, 3 ranks with 2 operations",
	  CO(.nranks = 4, .nblocks = 1, .nthreads = 1, .manager = { 3 }, .ops = { 2, 2, 2, 0 },
	     .kinds = ALL(RW), .fifo = true) },
	{ "home-apart-late", "3 ranks, the home does not compete, 2 ranks with 4 operations, late actions",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .manager = { 2 }, .ops = { 4, 4, 0 }, .kinds = ALL(RW), LATE) },
	{ "two-blocks", "2 ranks, 2 blocks with different homes, 2 operations each, late actions",
	  CO(.nranks = 2, .nblocks = 2, .nthreads = 1, .manager = { 0, 1 }, .ops = { 2, 2 }, .kinds = ALL(RW), LATE) },
	{ "two-blocks-one-home", "2 ranks, 2 blocks of the same home, 3 operations each",
	  CO(.nranks = 2, .nblocks = 2, .nthreads = 1, .ops = { 3, 3 }, .kinds = ALL(RW)) },
	{ "first-touch", "3 ranks, 2 operations each, the first toucher becomes the home",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW), .first_touch = true) },
	{ "first-touch-late", "the same with late actions, manager with 1 operation",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 1, 2, 2 },
	     .kinds = ALL(RW), .first_touch = true, LATE) },
	{ "place", "3 ranks, 1 operation each: they use the block, or place it at any rank, and at none",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 1, 1, 1 }, .kinds = ALL(RW | 1u << OP_PLACE)) },
	{ "place-at-one", "3 ranks, 2, 2 and 1 operations, of which some place the block at the second",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 1 },
	     .kinds = { RW | 1u << OP_PLACE, RW, RW | 1u << OP_PLACE }, .places = 2, .fifo = true) },
	{ "place-first-touch", "3 ranks, 2, 1 and 1 operations, of which some place the block, with first touch",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 1, 1 },
	     .kinds = { RW | 1u << OP_PLACE, RW, RW }, .first_touch = true) },
	{ "place-apart", "4 ranks, the home is another than the manager: one places at one what three use",
	  CO(.nranks = 4, .nblocks = 1, .nthreads = 1, .manager = { 3 }, .home = 1, .ops = { 1, 2, 1, 1 },
	     .kinds = { 1u << OP_READ, RW, RW, 1u << OP_PLACE }, .places = 2) },
	{ "place-twice", "3 ranks, of which one places a block that has been used, twice, and two use it",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .home = 1, .ops = { 1, 2, 2 },
	     .kinds = { RW, RW, 1u << OP_PLACE }, .places = 7) },
	{ "place-against", "2 ranks place the same block at each other, and use it before or after",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 1, .home = 1, .ops = { 3, 2 },
	     .kinds = ALL(RW | 1u << OP_PLACE)) },
	{ "place-late", "2 ranks with 3 operations, drops, releases, late actions: a block that is used is placed",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 1, .home = 1, .ops = { 3, 3 },
	     .kinds = { RW | RELEASE | 1u << OP_PLACE, RW | 1u << OP_DROP }, .places = 3, LATE) },
	{ "place-pins", "2 ranks with 2 and 1 threads' operations, pins, hold time: a block that is used is placed",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .home = 1, .ops = { 1, 1 }, .kinds = { RW | 1u << OP_PLACE, RW | PINS },
	     .places = 2, .hold = true) },
	{ "place-release", "3 ranks: one places at the two others, one of which writes and gives back",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 0, 3 },
	     .kinds = { 1u << OP_PLACE, 1u << OP_READ, 1u << OP_WRITE | RELEASE }, .places = 6) },
	{ "place-follow", "3 ranks, the home follows use until it is placed where it is",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .home = 3, .ops = { 2, 3, 1 },
	     .kinds = { 1u << OP_READ | 1u << OP_PLACE, 1u << OP_WRITE, RW }, .places = 4, .follow = 1) },
	{ "threads", "2 ranks with 2 threads each, 1 block, 2 and 1 operations each, late actions",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 2, 1 }, .kinds = ALL(RW), LATE) },
	{ "threads-two-blocks", "2 ranks with 2 threads each, 2 blocks, 1 operation each",
	  CO(.nranks = 2, .nblocks = 2, .nthreads = 2, .manager = { 0, 1 }, .ops = { 1, 1 }, .kinds = ALL(RW)) },
	{ "prefetch", "3 ranks, 2 operations each, some are prefetches",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 1 }, .kinds = ALL(RW | PREFETCH)) },
	{ "prefetch-late", "2 ranks, 3 operations each, some are prefetches, late actions",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 1, .ops = { 3, 3 }, .kinds = ALL(RW | PREFETCH), LATE) },
	{ "release", "3 ranks, 2 operations each, some give back to the home, which moves at first touch",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = { RW, RW | RELEASE, RW | RELEASE },
	     .first_touch = true) },
	{ "release-late", "2 ranks, 3 operations each, some give back to the home, late actions",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 1, .ops = { 3, 3 }, .kinds = ALL(RW | RELEASE), LATE) },
	{ "reads", "4 ranks: one writes, the home and two more read, of which one drops: copies sent beside each other",
	  CO(.nranks = 4, .nblocks = 1, .nthreads = 1, .manager = { 1 }, .ops = { 2, 1, 2, 3 },
	     .kinds = { 1u << OP_WRITE, 1u << OP_READ, 1u << OP_READ, 1u << OP_READ | 1u << OP_DROP }) },
	{ "reads-two-blocks", "4 ranks, 2 blocks of a home that does not compete: a slot's next read overtakes its DONE",
	  CO(.nranks = 4, .nblocks = 2, .nthreads = 1, .ops = { 0, 2, 2, 2 }, .kinds = ALL(1u << OP_READ)) },
	{ "reads-hold", "4 ranks, of which one writes and three read, hold time and a pin of the writer's",
	  CO(.nranks = 4, .nblocks = 1, .nthreads = 1, .manager = { 1 }, .ops = { 1, 1, 1, 1 },
	     .kinds = { 1u << OP_WRITE | 1u << OP_PIN_W, 1u << OP_READ, 1u << OP_READ, 1u << OP_READ }, .hold = true) },
	{ "follow", "3 ranks, 2, 3 and 2 operations: who writes twice in a row becomes the home, one after the other",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 3, 2 }, .kinds = { 1u << OP_READ, RW, RW },
	     .follow = 1) },
	{ "follow-back", "3 ranks, of which one only writes and one only reads: the manager becomes the home again",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 },
	     .kinds = { RW, 1u << OP_WRITE, 1u << OP_READ }, .follow = 1) },
	{ "follow-forward", "4 ranks, the home is another than the manager: what that forwards is slower than the move",
	  CO(.nranks = 4, .nblocks = 1, .nthreads = 1, .manager = { 3 }, .home = 1, .ops = { 0, 2, 1, 1 },
	     .kinds = { 0, 1u << OP_WRITE, 1u << OP_READ, 1u << OP_READ }, .follow = 1) },
	{ "follow-first-touch", "3 ranks, the home is the first toucher, then who writes twice in a row",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 1, 2, 2 }, .kinds = ALL(RW), .first_touch = true,
	     .follow = 1) },
	{ "follow-late", "2 ranks with 3 and 4 operations, drops, releases, late actions: the home follows",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 1, .ops = { 3, 4 },
	     .kinds = { RW | RELEASE, RW | 1u << OP_DROP }, .follow = 1, LATE) },
	{ "follow-place", "3 ranks, of which one places: a block that was placed does not follow",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 3, 1 },
	     .kinds = { 1u << OP_READ | 1u << OP_PLACE, RW, 1u << OP_READ }, .places = 4, .follow = 1) },
	{ "follow-pins", "2 ranks with 2 threads, pins, hold time: the home follows",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 1, 2 }, .kinds = { RW, RW | PINS }, .hold = true,
	     .follow = 1) },
	{ "follow-coarse", "4 of 128 ranks, drops: the home follows, and a bit of the copyset stands for two ranks",
	  CO(.nranks = 4, .nominal = 128, .nblocks = 1, .nthreads = 1, .manager = { 1 }, .ops = { 2, 0, 2, 2 },
	     .kinds = { RW | 1u << OP_DROP, 0, RW, 1u << OP_READ }, .follow = 1) },
	{ "hold", "3 ranks, 2 operations each, hold time",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW), .hold = true) },
	{ "pins", "3 ranks, 2 operations each, some pin",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 1 }, .kinds = ALL(RW | PINS)) },
	{ "pins-hold-late", "2 ranks with 2 threads, pins, hold time, late actions",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 1, 1 }, .kinds = ALL(RW | PINS), .hold = true, LATE) },
	{ "pins-hold", "3 ranks, pins and hold time",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 1 }, .kinds = ALL(RW | PINS), .hold = true) },
	{ "drop", "3 ranks, 2 operations each, some drop read copies",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW | 1u << OP_DROP)) },
	{ "drop-late", "2 ranks with 2 threads, drops and pins, late actions",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .manager = { 1 }, .ops = { 2, 1 },
	     .kinds = { 1u << OP_READ | 1u << OP_PIN_R | 1u << OP_DROP, RW }, LATE) },
	{ "mixed", "2 ranks, of which one has 2 threads, everything at once but placement",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 1, 1 },
	     .kinds = { EVERYTHING & ~(1u << OP_PLACE), RW | RELEASE | PREFETCH },
	     .hold = true, .first_touch = true, LATE) },
	{ "coarse", "4 of 128 ranks, 3 of them with 2 operations: a bit of the copyset stands for two ranks",
	  CO(.nranks = 4, .nominal = 128, .nblocks = 1, .nthreads = 1, .manager = { 1 }, .ops = { 2, 0, 2, 2 },
	     .kinds = ALL(RW)) },
	{ "coarse-drop", "the same, 2 of them neighbours, with drops",
	  CO(.nranks = 4, .nominal = 128, .nblocks = 1, .nthreads = 1, .manager = { 3 }, .ops = { 2, 2, 2, 0 },
	     .kinds = ALL(RW | 1u << OP_DROP)) },
	{ "coarse-high", "the last 3 of 1,011 ranks, one bit of the copyset for all of them, 2 operations each, drops",
	  CO(.nranks = 3, .nominal = 1011, .nblocks = 1, .nthreads = 1, .manager = { 1 }, .ops = { 2, 2, 2 },
	     .kinds = ALL(RW | 1u << OP_DROP)) },
	{ "lock", "3 ranks lock twice each, one hold record each, unordered channels",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .ops = { 2, 2, 2 }) },
	{ "lock-fifo", "the same, ordered channels",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .ops = { 2, 2, 2 }, .fifo = true) },
	{ "lock-try", "3 ranks lock or try to, 2 and 3 times, one hold record each",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .home = 2, .ops = { 3, 3, 2 }, .try = true) },
	{ "lock-threads", "2 ranks with 2 threads and 2 records, 2 and 1 operations each",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 2, .ops = { 2, 1 }) },
	{ "lock-give", "3 ranks lock or try to, twice each, and give back what they keep",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .home = 1, .ops = { 2, 2, 1 }, .try = true, .give = true) },
	{ "lock-give-fifo", "the same, twice each, ordered channels",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .ops = { 2, 2, 2 }, .try = true, .give = true, .fifo = true) },
	{ "lock-two-records", "2 ranks with 2 threads, which may overlook what their rank keeps and ask for it again",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 2, .ops = { 2, 1 }, .give = true) },
	{ "lock-cohort", "2 ranks with 3 threads, which wait behind each other, 1 operation each",
	  LOCK(.nranks = 2, .nthreads = 3, .records = 1, .ops = { 1, 1 }, .passes = 1) },
	{ "lock-cohort-try", "2 ranks with 2 threads, which wait behind each other, 2 and 1 operations, with try",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 2, .home = 1, .ops = { 1, 1 }, .passes = 1, .try = true) },
	{ "lock-cohort-give", "3 ranks with 2, 2 and 2 threads, ranks give back what they keep",
	  LOCK(.nranks = 3, .nthreads = 2, .records = 1, .ops = { 1, 1, 1 }, .passes = 1, .give = true) },
	{ "lock-lent", "2 ranks with 3 threads that lock once each: by the record's word where it is lent, or when called",
	  LOCK(.nranks = 2, .nthreads = 3, .records = 1, .ops = { 1, 1 }, .passes = 1, .lends = true) },
	{ "lock-lent-again", "2 ranks with 2 threads, twice and once each, words lent, records given back",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 1, .ops = { 2, 1 }, .passes = 1, .lends = true, .give = true) },
	{ "lock-lent-try", "2 ranks with 2 threads that lock or try to, once each, words lent, 2 records each",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 2, .home = 1, .ops = { 1, 1 }, .passes = 1, .lends = true, .try = true) },
	{ "lock-lent-due", "1 rank with 3 threads, 3 times each, words lent: nobody overtakes who has come in vain",
	  LOCK(.nranks = 1, .nthreads = 3, .records = 1, .ops = { 3 }, .passes = 1, .lends = true) },
	{ "rwlock", "reader-writer lock: 3 ranks, 3 times each",
	  OBJ(.kind = SYNC_RWLOCK, .nranks = 3, .nthreads = 1, .ops = { 3, 3, 3 }, .uses = ALL(RWLOCK)) },
	{ "rwlock-threads", "reader-writer lock: 2 ranks with 2 threads, twice each",
	  OBJ(.kind = SYNC_RWLOCK, .nranks = 2, .nthreads = 2, .ops = { 2, 2 }, .uses = ALL(RWLOCK)) },
	{ "sem", "semaphore: 3 ranks, 3 times each, with try and cancel",
	  OBJ(.kind = SYNC_SEM, .nranks = 3, .nthreads = 1, .initial = 1, .ops = { 3, 3, 2 }, .uses = ALL(SEM)) },
	{ "sem-threads", "semaphore: 2 ranks with 2 threads, with cancel",
	  OBJ(.kind = SYNC_SEM, .nranks = 2, .nthreads = 2, .ops = { 1, 1 }, .initial = 1, .uses = ALL(SEM)) },
	{ "sem-drop", "semaphore: 3 ranks, threads that wait are cancelled",
	  OBJ(.kind = SYNC_SEM, .nranks = 3, .nthreads = 1, .ops = { 2, 2, 3 },
	      .uses = { 1u << USE_DROP, 1u << USE_DROP | 1u << USE_TIMED, 1u << USE_POST | 1u << USE_TRY }) },
	{ "cond", "condition queue: 3 ranks, 3 times each, with cancel",
	  OBJ(.kind = SYNC_COND, .nranks = 3, .nthreads = 1, .ops = { 3, 3, 2 }, .uses = ALL(COND)) },
	{ "cond-threads", "condition queue: 3 waiting threads and more, with cancel",
	  OBJ(.kind = SYNC_COND, .nranks = 3, .nthreads = 2, .ops = { 1, 1, 1 },
	      .uses = { 1u << USE_WAIT, 1u << USE_TIMED, 1u << USE_SIGNAL | 1u << USE_BROADCAST }) },
	{ "cond-fifo", "condition queue: 3 ranks, ordered channels",
	  OBJ(.kind = SYNC_COND, .nranks = 3, .nthreads = 1, .ops = { 2, 2, 3 }, .uses = ALL(COND), .fifo = true) },
	{ "handles", "2 ranks make, use and destroy atomic objects in 2 places, 3 and 2 operations",
	  HANDLES(.nranks = 2, .places = 2, .ops = { 3, 2 }, .gen = 0x12fe, .skip = 0xff) },
	{ "handles-ranks", "3 ranks, one place, 2 operations each",
	  HANDLES(.nranks = 3, .places = 1, .ops = { 2, 2, 2 }, .gen = 0xff, .skip = 0xffff) },
	{ "handles-used-up", "the same, and the place has two names left",
	  HANDLES(.nranks = 3, .places = 1, .ops = { 2, 2, 2 }, .gen = 0xfffffd) },
	{ "handles-lock", "3 ranks make, lock and destroy mutexes in one place, 2 operations each",
	  HANDLES(.nranks = 3, .places = 1, .ops = { 2, 2, 2 }, .gen = 0xfe, .lock = true) },
	{ "handles-kept", "2 ranks make, lock, keep, give back and destroy mutexes in one place, 3 operations each",
	  HANDLES(.nranks = 2, .places = 1, .ops = { 3, 3 }, .gen = 0xfe, .lock = true, .give = true) },
	{ "handles-recall", "3 ranks and 2 places for mutexes, 1, 2 and 2 operations each, ranks give back what they keep",
	  HANDLES(.nranks = 3, .places = 2, .ops = { 1, 2, 2 }, .gen = 0xfe, .lock = true, .give = true) },
	{ "barrier", "3 ranks with 2 threads, 2 episodes, the root has 2 children",
	  BAR(.nranks = 3, .threads = { 2, 2, 2 }, .says = { { 2, 2 }, { 2, 2 }, { 2, 2 } }, .episodes = 2) },
	{ "barrier-chain", "3 ranks in a chain with 2, 2 and 2 threads, 2 episodes, ordered channels",
	  BAR(.nranks = 3, .threads = { 2, 2, 2 }, .says = { { 2, 2 }, { 2, 2 }, { 2, 2 } }, .parent = { 0, 0, 1 },
	      .episodes = 2, .fifo = true) },
	{ "barrier-deep", "4 ranks with 1 thread, 3 episodes, depth 2",
	  BAR(.nranks = 4, .threads = { 1, 1, 1, 1 }, .says = { { 1 }, { 1 }, { 1 }, { 1 } }, .parent = { 0, 0, 0, 1 },
	      .episodes = 3) },
	{ "barrier-mismatch", "ranks with different numbers of threads: everybody gets -EINVAL",
	  BAR(.nranks = 3, .threads = { 2, 1, 2 }, .says = { { 2, 2 }, { 1 }, { 2, 2 } },
	     .episodes = 2, .spoiled = true) },
	{ "barrier-mismatch-chain", "the same in a chain",
	  BAR(.nranks = 3, .threads = { 1, 1, 2 }, .says = { { 1 }, { 1 }, { 2, 2 } }, .parent = { 0, 0, 1 },
	     .episodes = 2,
	      .spoiled = true) },
	{ "barrier-mismatch-own", "threads of one rank differ: the smaller number ends the episode, with -EINVAL for all",
	  BAR(.nranks = 3, .threads = { 2, 2, 2 }, .says = { { 2, 2 }, { 2, 3 }, { 3, 2 } }, .episodes = 1,
	      .spoiled = true) },
	/* Several ranks of a node map one copy of a page. */
	{ "maps", "3 ranks map a page that the kernel shows them, 1, 1 and 2 accesses",
	  MAPS(.nranks = 3, .rank = { 0, 1, 2 }, .kind = MAP_SHOWN, .ops = { 1, 1, 2 }) },
	{ "maps-early", "the same, markers are laid early",
	  MAPS(.nranks = 3, .rank = { 0, 1, 2 }, .kind = MAP_SHOWN, .ops = { 1, 1, 2 }, .early = true) },
	{ "maps-shared-bit", "the same, two ranks share a bit",
	  MAPS(.nranks = 3, .rank = { 3, 3 + MAP_BITS, 4 }, .kind = MAP_SHOWN, .ops = { 1, 1, 2 }, .early = true) },
	{ "maps-asked", "3 ranks open a page each for itself, 1, 1 and 2 accesses",
	  MAPS(.nranks = 3, .rank = { 0, 1, 2 }, .kind = MAP_ASKED, .ops = { 1, 1, 2 }) },
	{ "maps-asked-shared-bit", "the same, two ranks share a bit",
	  MAPS(.nranks = 3, .rank = { 3, 3 + MAP_BITS, 61 }, .kind = MAP_ASKED, .ops = { 1, 1, 2 }) },
	/* The deep ones. */
	{ "deep-ops", "3 ranks, 4, 4 and 3 operations",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 4, 4, 3 }, .kinds = ALL(RW)), .full = true },
	{ "deep-late", "3 ranks, 3, 3 and 2 operations, late actions",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 3, 3, 2 }, .kinds = ALL(RW), LATE), .full = true },
	{ "deep-ranks", "4 ranks, 1 and 2 operations, late actions",
	  CO(.nranks = 4, .nblocks = 1, .nthreads = 1, .ops = { 1, 1, 1, 2 }, .kinds = ALL(RW), LATE), .full = true },
	{ "deep-blocks", "3 ranks, 2 blocks with different homes, 2, 2 and 1 operations",
	  CO(.nranks = 3, .nblocks = 2, .nthreads = 1, .manager = { 0, 1 }, .ops = { 2, 2, 1 },
	     .kinds = ALL(RW)), .full = true },
	{ "deep-threads", "2 ranks with 2 threads each, 2 operations each, late actions",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 2, 2 }, .kinds = ALL(RW), LATE), .full = true },
	{ "deep-first-touch", "3 ranks, 2 operations each, first touch, placement, late actions",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = { RW, RW, RW | 1u << OP_PLACE },
	     .first_touch = true, LATE), .full = true },
	{ "deep-pins", "2 ranks with 2 threads, pins, hold time, late actions, 1 and 2 operations",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 1, 2 }, .kinds = { RW | PINS, RW }, .hold = true, LATE),
	  .full = true },
	{ "deep-mixed", "2 ranks with 2 threads, everything at once",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 1, 1 }, .kinds = ALL(EVERYTHING), .hold = true,
	     .first_touch = true, LATE), .full = true },
	{ "deep-lock", "2 ranks with 2 threads and 2 records, 2 and 1 operations each, with try",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 2, .ops = { 2, 1 }, .try = true), .full = true },
	{ "deep-lock-ranks", "4 ranks lock twice each",
	  LOCK(.nranks = 4, .nthreads = 1, .records = 1, .ops = { 2, 2, 2, 2 }), .full = true },
	{ "deep-sem", "2 ranks with 2 threads, 2 and 1 operations",
	  OBJ(.kind = SYNC_SEM, .nranks = 2, .nthreads = 2, .ops = { 2, 1 }, .uses = ALL(SEM)), .full = true },
	{ "deep-barrier", "4 ranks with 2 threads, 3 episodes, depth 2",
	  BAR(.nranks = 4, .threads = { 2, 2, 2, 2 }, .says = { { 2, 2 }, { 2, 2 }, { 2, 2 }, { 2, 2 } },
	      .parent = { 0, 0, 0, 1 }, .episodes = 3), .full = true },
	{ NULL },
};

/* Hosts that break their contract: each of these must be violated. */
const struct config host_faults[] = {
	{ "late-land", "ACT_LAND carried out after the lock is dropped: an acknowledgement opens the block before",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW), LATE, .late_land = true) },
	{ "early-drop", "a copy is dropped that a step has said to send to the home: the home gets what is left of it",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 1, .ops = { 1, 2 },
	     .kinds = { 1u << OP_READ, 1u << OP_WRITE | 1u << OP_DROP }, LATE, .early_drop = true) },
	{ "maps-unlocked", "a rank opens its mapping while the page is being lowered",
	  MAPS(.nranks = 2, .rank = { 0, 1 }, .kind = MAP_SHOWN, .ops = { 2, 2 }, .unlocked = true) },
	{ "maps-asked-unlocked", "the same, each mapping opened by its own process",
	  MAPS(.nranks = 2, .rank = { 0, 1 }, .kind = MAP_ASKED, .ops = { 2, 2 }, .unlocked = true) },
	{ "maps-wrong-way", "contents leave before all mappings are lowered",
	  MAPS(.nranks = 2, .rank = { 0, 1 }, .kind = MAP_SHOWN, .ops = { 2, 2 }, .wrong_way = true) },
	{ NULL },
};

// SPDX-License-Identifier: BSD-2-Clause
/* configs.c - the worlds that are searched. */
#include "barriers.h"
#include "coherence.h"
#include "locks.h"
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
	{ "place", "3 ranks, 2 operations each, of which some place the block",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 2 }, .kinds = ALL(RW | 1u << OP_PLACE)) },
	{ "place-first-touch", "the same, with first touch",
	  CO(.nranks = 3, .nblocks = 1, .nthreads = 1, .ops = { 2, 2, 1 },
	     .kinds = ALL(RW | 1u << OP_PLACE), .first_touch = true) },
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
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 2, 1 },
	     .kinds = { 1u << OP_READ | 1u << OP_PIN_R | 1u << OP_DROP, RW }, LATE) },
	{ "mixed", "2 ranks, of which one has 2 threads, everything at once",
	  CO(.nranks = 2, .nblocks = 1, .nthreads = 2, .ops = { 1, 1 },
	     .kinds = { EVERYTHING, RW | RELEASE | PREFETCH },
	     .hold = true, .first_touch = true, LATE) },
	{ "coarse", "4 of 128 ranks, 3 of them with 2 operations: a bit of the copyset stands for two ranks",
	  CO(.nranks = 4, .nominal = 128, .nblocks = 1, .nthreads = 1, .manager = { 1 }, .ops = { 2, 0, 2, 2 },
	     .kinds = ALL(RW)) },
	{ "coarse-drop", "the same, 2 of them neighbours, with drops",
	  CO(.nranks = 4, .nominal = 128, .nblocks = 1, .nthreads = 1, .manager = { 3 }, .ops = { 2, 2, 2, 0 },
	     .kinds = ALL(RW | 1u << OP_DROP)) },
	{ "lock", "3 ranks lock twice each, one hold record each, unordered channels",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .ops = { 2, 2, 2 }) },
	{ "lock-fifo", "the same, ordered channels",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .ops = { 2, 2, 2 }, .fifo = true) },
	{ "lock-try", "3 ranks lock or try to, 2 and 3 times, one hold record each",
	  LOCK(.nranks = 3, .nthreads = 1, .records = 1, .home = 2, .ops = { 3, 3, 2 }, .try = true) },
	{ "lock-threads", "2 ranks with 2 threads and 2 records, 2 operations each",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 2, .ops = { 2, 1 }, .try = true) },
	{ "rwlock", "reader-writer lock: 3 ranks, 3 times each",
	  OBJ(.kind = SYNC_RWLOCK, .nranks = 3, .nthreads = 1, .ops = { 3, 3, 3 }, .uses = ALL(RWLOCK)) },
	{ "rwlock-threads", "reader-writer lock: 2 ranks with 2 threads, twice each",
	  OBJ(.kind = SYNC_RWLOCK, .nranks = 2, .nthreads = 2, .ops = { 2, 2 }, .uses = ALL(RWLOCK)) },
	{ "sem", "semaphore: 3 ranks, 3 times each, with try and cancel",
	  OBJ(.kind = SYNC_SEM, .nranks = 3, .nthreads = 1, .initial = 1, .ops = { 3, 3, 2 }, .uses = ALL(SEM)) },
	{ "sem-threads", "semaphore: 2 ranks with 2 threads, with cancel",
	  OBJ(.kind = SYNC_SEM, .nranks = 2, .nthreads = 2, .ops = { 1, 1 }, .initial = 1, .uses = ALL(SEM)) },
	{ "cond", "condition queue: 3 ranks, 3 times each, with cancel",
	  OBJ(.kind = SYNC_COND, .nranks = 3, .nthreads = 1, .ops = { 3, 3, 2 }, .uses = ALL(COND)) },
	{ "cond-threads", "condition queue: 3 waiting threads and more, with cancel",
	  OBJ(.kind = SYNC_COND, .nranks = 3, .nthreads = 2, .ops = { 1, 1, 1 },
	      .uses = { 1u << USE_WAIT, 1u << USE_TIMED, 1u << USE_SIGNAL | 1u << USE_BROADCAST }) },
	{ "cond-fifo", "condition queue: 3 ranks, ordered channels",
	  OBJ(.kind = SYNC_COND, .nranks = 3, .nthreads = 1, .ops = { 2, 2, 3 }, .uses = ALL(COND), .fifo = true) },
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
	{ "deep-lock", "2 ranks with 2 threads and 2 records, 2 operations each, with try",
	  LOCK(.nranks = 2, .nthreads = 2, .records = 2, .ops = { 2, 2 }, .try = true), .full = true },
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
	{ NULL },
};

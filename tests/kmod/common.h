/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.h - what the tests of dsm.ko share: a small job of several processes over /dev/dsm without
 * libdsm, in one guest, and looks at what the module says of itself.
 */
#ifndef KMOD_TEST_H
#define KMOD_TEST_H

#include <dsm_uapi.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE 4096ul
#define JOB_RANKS 4u
#define JOB_WINDOW (8ul << 20)
#define JOB_PAGES (JOB_WINDOW / PAGE)
#define JOB_BASE ((char *)0x200000000000ul)

/* Shared memory of the ranks of a job and of who started them. */
struct job {
	unsigned int ranks;
	uint64_t present; /* mask of those that come, if not all; without RDMA */
	struct dsm_ioc_key key;
	uint64_t window; /* of each rank; 0: JOB_WINDOW */
	bool rdma;       /* between ranks; else they are of one kernel */
	/* mask of ranks that are of one kernel all the same, as seen from each other */
	uint32_t here;
	uint32_t mode;    /* enum dsm_mode */
	uint32_t home;    /* enum dsm_region_home */
	uint32_t order;   /* of region 0 */
	uint32_t pages;   /* of region 0, from the window's start on; 0: all of it */
	int16_t vector;   /* of all classes; -1: any */
	int16_t cpu;      /* of all classes; DSM_CPU_* */
	uint32_t hold_us; /* for how long nobody takes a block that has come */
	uint32_t spin_us; /* for how long a fault polls; 0: 20 */
	_Atomic unsigned int come, ready, stop;
	_Atomic int failed; /* -errno of a rank that could not join */
	uint32_t address_size[JOB_RANKS];
	char address[JOB_RANKS][DSM_ADDRESS_MAX];
};

/* Zeros that children share. Ends the program if there is no memory. */
void *shared_memory(size_t size);
/* Says what has failed; false. */
bool it_failed(const char *what);
/* Whether it is so; says what has failed, if not. */
static inline bool it_holds(bool is, const char *what)
{
	return is || it_failed(what);
}
/* For a program without options: other arguments than its name end it, --help with status 0. */
void no_arguments(int argc, char **argv, const char *about);
/* A window of the device alone, mapped at JOB_BASE: its file, or -1, with the reason said. */
int window_at_base(void);
struct job *job_new(void);
/* Begin another job in the same memory. */
void job_set(struct job *j, unsigned int ranks, bool rdma);
void new_key(struct dsm_ioc_key *key);
/*
 * What only who has the key can say of a connection (kmod/net/lane.c, lane_secret()): 'P', the
 * number of the first packet that `from` sends, 24 bits of it; 'H', the value of its first message.
 */
uint64_t lane_secret(const struct dsm_ioc_key *key, char what, unsigned int class,
		     const unsigned int rank[2], const uint32_t qpn[2]);
/*
 * Join as a rank, connect, add region 0 over the whole window, map it at JOB_BASE: the file, or
 * -errno.
 */
int job_join(struct job *j, unsigned int rank);
/* DSM_REGION_*: region 0. 0, or -1 and errno. */
int job_region(const struct job *j, int fd, unsigned int op);
/* As another process of the node whose file is given: attach, add region 0 (j NULL: there is no
 * job), map the window at JOB_BASE: the new file, or -errno. */
int job_attach(const struct job *j, int of);
/*
 * Until the processes have ended; those that have not by then are told of, with where they hang,
 * and killed: false.
 */
bool job_reap(const pid_t *pids, unsigned int n, double seconds);
/* The same; how each has ended. */
bool job_statuses(const pid_t *pids, unsigned int n, int *statuses, double seconds);
/* As in proc(5): 'S' asleep, 'D' asleep and not for signals, ...; 0: there is no such thread. */
char thread_state(pid_t pid, unsigned int tid);
/*
 * Until the thread of this process with this number (0: not known yet) sleeps in the kernel, as far
 * as one can see.
 */
void until_asleep(const _Atomic unsigned int *tid);

/* One access. 0, or the signal it ended with. Each thread may do so after catch_signals(). */
int touch(volatile char *p, bool write);
void catch_signals(void);
extern __thread sigjmp_buf away;
extern __thread volatile bool away_set;

long long counter(const char *name); /* of /sys/kernel/debug/dsm, -1: none */
extern long long frames_kept;        /* frames that stay for ever, which nothing_left() expects */
bool nothing_left(
	/*
	 * no open file, context, rank, frame, other memory or message; says what there is, if not
	 */
	double seconds);
bool module_loaded(void);
void module_needed(void); /* if it is not loaded, the program ends with status 77 */
void show_counters(void); /* some of them, on one line */
void show_ranks(void);    /* what they wait for */
/* Lines of that list that begin so, of all ranks; whether there are none, in time. */
#define LISTED_SLOT "  slot "
#define LISTED_CALL "  call of thread "
unsigned int listed(const char *what);
unsigned int listed_with(const char *what, const char *part); /* only those that contain `part` */
bool none_listed(const char *what);
int tainted(void); /* by what the kernel has complained of; -1: it does not say */
/* as much longer as KMOD_TEST_SLOW says: on kernels that look at everything */
double patience(double seconds);
double now_s(void);
/* Until *n is that much; false: it took too long. */
bool reached(const _Atomic unsigned int *n, unsigned int wanted);
/* The caller has come to a place where n are to come; until all have. */
void all_here(_Atomic unsigned int *place, unsigned int n);

/*
 * What the fuzzers are asked for: so long, or until there were so many inputs; rounds of so much
 * (0: it has no such option).
 */
struct fuzz_options {
	uint64_t seed;
	double seconds, round;
	unsigned long inputs;
};

/*
 * From the command line, for a guest with the module loaded. -1: go on; else the status to exit
 * with.
 */
int fuzz_options(int argc, char **argv, const char *usage, struct fuzz_options *o);

/* splitmix64 */
static inline uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline unsigned int pick(uint64_t *state, unsigned int n)
{
	return (unsigned int)(next(state) % n);
}

#endif

// SPDX-License-Identifier: BSD-2-Clause
/*
 * record.c - dsm.h for recording: the ranks of a job are processes that dsm_init() forks, their
 * shared memory is ordinary shared memory, and each rank writes what it did (../trace.h) to a file.
 *
 *   DSM_RECORD        folder of the files
 *   DSM_RECORD_RANKS  number of ranks
 *   DSM_RECORD_TIMES  0: record accesses. A rank's window is closed whenever it synchronises;
 *                     SIGSEGV then shows the first read and the first write of each block. 1:
 *                     record processor time, with the window open
 *
 * The two are runs of their own, because a fault costs more than what most programs compute between
 * two of them. Time is processor time of the rank's thread, so any number of ranks may share the
 * processors of this machine.
 * It has the part of dsm.h that the applications use with one thread per rank.
 */
#include <dsm.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../trace.h"

#define PAGE 4096u
#define PAGES (1u << 20)
#define WINDOW ((size_t)PAGES * PAGE)
#define REGIONS 64
#define MUTEXES 2048
#define PLACE ((void *)0x200000000000)
#define EVENTS_CHUNK (1u << 16)

struct dsm_region {
	char name[DSM_NAME_MAX];
	uint32_t first, pages, block; /* in pages; block: pages of one */
};

/* What the ranks share besides the window. */
#define BROADCAST_MAX 256 /* bytes; handles and pointers */

struct job {
	pthread_mutex_t lock;
	pthread_barrier_t barrier;
	uint32_t used, nregions, nmutexes; /* pages; regions; mutexes */
	struct dsm_region regions[REGIONS];
	pthread_mutex_t mutexes[MUTEXES];
	uint64_t value;
	uint32_t values; /* of a reduction, that have come */
	unsigned char small[BROADCAST_MAX];
};

static struct job *job;
static int rank = -1, size;
static char *window;
static uint16_t *block_pages; /* of each page: pages of its block */
static struct trace_event *events;
static size_t nevents, room;
static uint32_t low, high;      /* of the pages opened since the window was closed */
static uint64_t last, clock_ns; /* when the last event was; what reading the clock costs */
static bool times;
static bool done;

static void die(const char *what)
{
	fprintf(stderr, "record: rank %d: %s%s%s\n", rank, what, errno ? ": " : "",
		errno ? strerror(errno) : "");
	_exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void grow(void)
{
	room += EVENTS_CHUNK;
	events = events ? mremap(events, (room - EVENTS_CHUNK) * sizeof(*events),
				 room * sizeof(*events), MREMAP_MAYMOVE)
			: mmap(NULL, room * sizeof(*events), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (events == MAP_FAILED)
		die("no memory for events");
}

static void add(enum trace_kind kind, uint32_t what, uint32_t count, uint64_t ns)
{
	if (done)
		return;
	if (nevents == room)
		grow();
	events[nevents++] =
		(struct trace_event){ .kind = kind, .what = what, .count = count, .ns = ns };
}

/* An event that is in both runs. What follows it up to resume() takes no time. */
static void event(enum trace_kind kind, uint32_t what, uint32_t count)
{
	uint64_t spent = times ? now() - last : 0;

	add(kind, what, count, spent > clock_ns ? spent - clock_ns : 0);
}

static void resume(void)
{
	if (times)
		last = now();
}

/* The rank has synchronised: anything may have been taken away. */
static void close_window(void)
{
	if (low == high || times)
		return;
	if (mprotect(window + (size_t)low * PAGE, (size_t)(high - low) * PAGE, PROT_NONE))
		die("mprotect");
	low = high = 0;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	bool write = uc->uc_mcontext.gregs[REG_ERR] & 2;
	uint32_t page, n;

	if ((char *)info->si_addr < window || (char *)info->si_addr >= window + WINDOW) {
		signal(sig, SIG_DFL);
		return;
	}
	page = (uint32_t)(((char *)info->si_addr - window) / PAGE);
	n = block_pages[page] ? block_pages[page] : 1;
	page -= page % n; /* regions begin at multiples of their block */
	add(write ? TR_WRITE : TR_READ, page, 1, 0);
	if (low == high || page < low)
		low = page;
	if (page + n > high)
		high = page + n;
	if (mprotect(window + (size_t)page * PAGE, (size_t)n * PAGE,
		     write ? PROT_READ | PROT_WRITE : PROT_READ))
		die("mprotect of a page (vm.max_map_count?)");
}

static void calibrate(void)
{
	enum { N = 1000 };
	uint64_t start = now();
	int i;

	for (i = 0; i < N; i++)
		last = now();
	clock_ns = (last - start) / N;
}

static void save(void)
{
	const char *dir = getenv("DSM_RECORD");
	struct trace_header h = { TRACE_MAGIC, (uint32_t)rank, (uint32_t)size,
				  job->used,   job->nmutexes,  nevents };
	char path[4096];
	FILE *f;

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/%d.%s", dir, rank, times ? "times" : "accesses");
	f = fopen(path, "w");
	if (!f || fwrite(&h, sizeof(h), 1, f) != 1 ||
	    fwrite(events, sizeof(*events), nevents, f) != nevents || fclose(f))
		die(path);
}

/* ---- start and end --------------------------------------------------------------------------- */

static void make_job(void)
{
	pthread_mutexattr_t shared_mutex;
	pthread_barrierattr_t shared_barrier;
	size_t i;

	job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	window = mmap(PLACE, WINDOW, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (job == MAP_FAILED || window == MAP_FAILED)
		die("mmap");
	pthread_mutexattr_init(&shared_mutex);
	pthread_mutexattr_setpshared(&shared_mutex, PTHREAD_PROCESS_SHARED);
	pthread_barrierattr_init(&shared_barrier);
	pthread_barrierattr_setpshared(&shared_barrier, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&job->lock, &shared_mutex);
	pthread_barrier_init(&job->barrier, &shared_barrier, (unsigned int)size);
	for (i = 0; i < MUTEXES; i++)
		pthread_mutex_init(&job->mutexes[i], &shared_mutex);
}

static void catch_faults(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	block_pages = mmap(NULL, PAGES * sizeof(*block_pages), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block_pages == MAP_FAILED || sigaction(SIGSEGV, &sa, NULL))
		die("sigaction");
	grow();
	high = PAGES;
	close_window();
}

/*
 * Rank 0: a rank has ended. Before its time, nobody would wait for it in vain: the others end with
 * this process.
 */
static void on_end(int sig)
{
	int status;

	(void)sig;
	while (waitpid(-1, &status, WNOHANG) > 0)
		if (status)
			die("a rank has failed");
}

int dsm_init(const struct dsm_config *cfg)
{
	const char *ranks = getenv("DSM_RECORD_RANKS"), *which = getenv("DSM_RECORD_TIMES");
	int i;

	(void)cfg;
	times = which && atoi(which);
	size = ranks ? atoi(ranks) : 1;
	if (size < 1 || size > 1024)
		return -EINVAL;
	make_job();
	catch_faults();
	fflush(NULL);
	signal(SIGCHLD, on_end);
	for (rank = 0, i = 1; i < size && !rank; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid)
			rank = i;
	}
	if (rank && (prctl(PR_SET_PDEATHSIG, SIGKILL) || signal(SIGCHLD, SIG_DFL) == SIG_ERR))
		die("prctl");
	calibrate();
	resume();
	return 0;
}

int dsm_finalize(void)
{
	save();
	if (rank)
		_exit(0);
	while (wait(NULL) > 0 || errno == EINTR) /* or on_end() has */
		;
	return 0;
}

void dsm_abort(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	_exit(status); /* and the others with it, by on_end() */
}

int dsm_rank(void)
{
	return rank;
}

int dsm_size(void)
{
	return size;
}

const char *dsm_strerror(int err)
{
	return strerror(err < 0 ? -err : err);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* With job->lock: so many pages, at a multiple of block. */
static uint32_t take_pages(uint32_t pages, uint32_t block)
{
	uint32_t first = (job->used + block - 1) / block * block;

	if (first + pages > PAGES)
		die("the window is full");
	job->used = first + pages;
	return first;
}

int dsm_region_open(const char *name, size_t bytes, const struct dsm_region_options *opt,
		    dsm_region_t **out)
{
	uint32_t block = opt && opt->block_size ? (uint32_t)(opt->block_size / PAGE) : 1, i;
	uint32_t pages = ((uint32_t)((bytes + PAGE - 1) / PAGE) + block - 1) / block * block;
	struct dsm_region *r;

	pthread_mutex_lock(&job->lock);
	for (i = 0; i < job->nregions && strcmp(job->regions[i].name, name); i++)
		;
	r = &job->regions[i];
	if (i == job->nregions) {
		if (i == REGIONS)
			die("too many regions");
		*r = (struct dsm_region){ .first = take_pages(pages, block),
					  .pages = pages,
					  .block = block };
		snprintf(r->name, sizeof(r->name), "%s", name);
		job->nregions++;
	}
	pthread_mutex_unlock(&job->lock);
	for (i = r->first; i < r->first + r->pages; i++)
		block_pages[i] = (uint16_t)r->block;
	if (!rank)
		add(TR_REGION, r->first, r->block, r->pages);
	resume();
	*out = r;
	return 0;
}

void *dsm_region_base(const dsm_region_t *r)
{
	return window + (size_t)r->first * PAGE;
}

int dsm_region_detach(dsm_region_t *r)
{
	(void)r;
	return 0;
}

int dsm_region_destroy(const char *name)
{
	(void)name;
	return 0;
}

void *dsm_malloc_named(size_t alignment, size_t bytes, const char *name)
{
	uint32_t first;

	(void)alignment, (void)name; /* all are page-aligned */
	pthread_mutex_lock(&job->lock);
	first = take_pages((uint32_t)((bytes + PAGE - 1) / PAGE), 1);
	pthread_mutex_unlock(&job->lock);
	return window + (size_t)first * PAGE;
}

int dsm_free(void *p)
{
	(void)p;
	return 0;
}

static int hint(enum trace_kind kind, const void *addr, size_t bytes)
{
	uint32_t first = (uint32_t)(((const char *)addr - window) / PAGE);
	uint32_t end = (uint32_t)(((const char *)addr - window + bytes + PAGE - 1) / PAGE);

	event(kind, first, end - first);
	resume();
	return 0;
}

int dsm_prefetch(const void *addr, size_t bytes, enum dsm_access access)
{
	return hint(access & DSM_WRITE ? TR_PREFETCH_W : TR_PREFETCH_R, addr, bytes);
}

int dsm_acquire(const void *addr, size_t bytes, enum dsm_access access)
{
	return dsm_prefetch(addr, bytes, access);
}

/* ---- synchronisation ------------------------------------------------------------------------- */

int dsm_barrier(void)
{
	event(TR_BARRIER, 0, 0);
	pthread_barrier_wait(&job->barrier);
	close_window();
	resume();
	return 0;
}

int dsm_barrier_init(dsm_barrier_t *b, const int *ranks, int nranks, unsigned threads)
{
	if (ranks || nranks || threads != 1)
		return -EINVAL;
	*b = (dsm_barrier_t){ .id = 1, .threads = 1 };
	return 0;
}

int dsm_barrier_destroy(dsm_barrier_t *b)
{
	(void)b;
	return 0;
}

int dsm_barrier_wait(dsm_barrier_t *b)
{
	(void)b;
	return dsm_barrier();
}

int dsm_broadcast(void *buf, size_t bytes, int root)
{
	if (bytes > BROADCAST_MAX)
		return -EMSGSIZE;
	if (rank == root)
		memcpy(job->small, buf, bytes);
	dsm_barrier();
	memcpy(buf, job->small, bytes);
	pthread_barrier_wait(&job->barrier);
	resume();
	return 0;
}

static void combine(uint64_t *to, uint64_t value, enum dsm_type type, enum dsm_op op)
{
	double x, y;

	if (type != DSM_DOUBLE) {
		*to = op == DSM_SUM ? *to + value : (int64_t)value > (int64_t)*to ? value : *to;
		return;
	}
	memcpy(&x, to, sizeof(x));
	memcpy(&y, &value, sizeof(y));
	x = op == DSM_SUM ? x + y : y > x ? y : x;
	memcpy(to, &x, sizeof(x));
}

int dsm_reduce(void *value, enum dsm_type type, enum dsm_op op)
{
	uint64_t v;

	if (op != DSM_SUM && op != DSM_MAX)
		return -EINVAL;
	memcpy(&v, value, sizeof(v));
	pthread_mutex_lock(&job->lock);
	if (job->values++)
		combine(&job->value, v, type, op);
	else
		job->value = v;
	pthread_mutex_unlock(&job->lock);
	dsm_barrier();
	memcpy(value, &job->value, sizeof(v));
	pthread_barrier_wait(&job->barrier);
	job->values = 0;
	pthread_barrier_wait(&job->barrier);
	resume();
	return 0;
}

int dsm_mutex_init(dsm_mutex_t *m)
{
	pthread_mutex_lock(&job->lock);
	m->id = ++job->nmutexes;
	pthread_mutex_unlock(&job->lock);
	if (m->id > MUTEXES)
		die("too many mutexes");
	event(TR_MUTEX, (uint32_t)m->id - 1, 0);
	resume();
	return 0;
}

int dsm_mutex_destroy(dsm_mutex_t *m)
{
	(void)m;
	return 0;
}

int dsm_mutex_lock(dsm_mutex_t *m)
{
	event(TR_LOCK, (uint32_t)m->id - 1, 0);
	pthread_mutex_lock(&job->mutexes[m->id - 1]);
	close_window();
	resume();
	return 0;
}

int dsm_mutex_unlock(dsm_mutex_t *m)
{
	event(TR_UNLOCK, (uint32_t)m->id - 1, 0);
	pthread_mutex_unlock(&job->mutexes[m->id - 1]);
	resume();
	return 0;
}

/* ---- statistics: where the timed part begins and ends (apps/common.c) ------------------------ */

int dsm_stats_reset(void)
{
	if (!rank)
		event(TR_BEGIN, 0, 0);
	resume();
	return 0;
}

int dsm_stats_get(int of, const dsm_region_t *region, struct dsm_stats *out)
{
	(void)of, (void)region;
	memset(out, 0, sizeof(*out));
	if (!rank)
		event(TR_END, 0, 0);
	done = true;
	return 0;
}

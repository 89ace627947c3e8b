// SPDX-License-Identifier: BSD-2-Clause
/*
 * start.c - makes a process a rank of a job, and undoes that.
 *
 * One exchange through the launcher carries each rank's data (info.c): its identity, its host, and
 * its free address ranges. Then the ranks of a host exchange descriptors. In a second exchange the
 * others learn each other's transport addresses (transport.c); from then on the runtime uses its
 * own connections.
 */
#include "start/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "calls/call.h"
#include "calls/chunk.h"
#include "calls/region.h"
#include "fault/catch.h"
#include "fault/fault.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/memory.h"
#include "job/rendezvous.h"
#include "job/threads.h"
#include "job/upcalls.h"
#include "miss/block.h"
#include "miss/run.h"
#include "miss/work.h"
#include "net/net.h"
#include "start/backend.h"
#include "start/host.h"
#include "start/info.h"
#include "start/nodes.h"
#include "start/window.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"
#include "util/sys.h"
#include "util/valgrind.h"
#include "watch/deadlock.h"
#include "watch/service.h"
#include "watch/stall.h"
#include "watch/stall_collector.h"

#define START_SECONDS 60
/* valgrind marks each byte of a reservation; this size takes it seconds */
#define VALGRIND_SPACE (1ull << 30)
/* all ranks are leaving; do not wait longer for one that dies there */
#define STOP_SECONDS 10

const struct upcalls engine_upcalls = {
	.poll = run_poll,
	.call = call_arrived,
	.answer = call_returned,
	.chunk = chunk_arrived,
	.long_wait = stall_check,
	.wait_is_due = stall_is_due,
	.asleep = deadlock_serve,
};

/* The address at which others reach a node whose host driver made it. */
struct end {
	uint32_t size;
	uint8_t address[HOST_ADDRESS];
};

static int join_host(const struct start_info *infos, struct end *mine)
{
	size_t size = sizeof(mine->address);
	int err = job.host->join ? job.host->join(infos[0].host_key, mine->address, &size) : 0;

	mine->size = (uint32_t)size;
	return err;
}

/* The exchange is also a fence: each node has joined before another connects to it. */
static int connect_host(const struct end *mine)
{
	struct end its;
	uint16_t n;
	int err;

	if (!job.host->join)
		return 0;
	err = start_failed(
		launch_exchange(&job.launch, "dsm-host", mine, sizeof(*mine), START_SECONDS),
		"dsm-host", START_SECONDS);
	for (n = 0; n < job.nodes && !err && job.local == 0; n++) {
		const uint16_t first = job.first[n];
		size_t size = sizeof(its);

		if (n == job.node)
			continue;
		err = start_get(first, "dsm-host", &its, &size);
		if (err || size != sizeof(its) || its.size > sizeof(its.address)) {
			log_line("rank %d has not published where the kernel helper reaches it: %s",
				 first, dsm_strerror(err ? err : -EPROTO));
			return -EPROTO;
		}
		err = job.host->connect(n, rank_info(first)->same_host, its.address, its.size);
	}
	return err;
}

#define TWINS_PART 4 /* of the bound, twins have at most */

/* The kernel helper gives up no block. */
static void bound_memory(const struct start_info *infos)
{
	size_t twins;

	if (!job.set.memory && job.host->kind == HOST_LIBRARY)
		job.set.memory = start_info_bound(infos);
	twins = job.set.memory / TWINS_PART / PAGE_BYTES;
	if (job.set.memory && job.set.twins > twins)
		job.set.twins = twins;
}

/*
 * In a job of one node, no fault backend, transport or kernel helper has anything to do between
 * ranks.
 */
static int make_nodes(const struct start_info *infos)
{
	uint64_t *host = calloc(job.size, sizeof(*host));
	uint16_t r;
	int err;

	if (!host)
		return -ENOMEM;
	for (r = 0; r < job.size; r++) {
		struct rank_info *p = rank_info(r);

		p->pid = infos[r].pid;
		memcpy(p->token, infos[r].token, sizeof(p->token));
		p->same_host = infos[r].host == infos[job.rank].host;
		host[r] = infos[r].host;
	}
	err = nodes_make(host, start_info_group(infos));
	free(host);
	if (!err)
		err = start_info_compare_bounds(infos);
	if (!err) {
		start_info_compare_limits(infos);
		bound_memory(infos);
	}
	if (!err && one_node()) {
		job.fault = &fault_none;
		job.set.memory = 0; /* nobody else has, or could take, a copy */
		host_close();
	}
	/*
	 * All ranks of a node change each other's mappings, so they use a way that each of them
	 * supports.
	 */
	for (r = 0; !err && !one_node() && r < job.size; r++)
		if (is_here(r) && infos[r].no_uffd)
			backend_without_uffd();
	return err;
}

static int start_make_memory(void)
{
	const struct ctl_shape shape = { .size = job.size,
					 .nodes = job.nodes,
					 .ranks = job.locals,
					 .space = job.set.space,
					 .heap = job.heap,
					 .fault = backend_shared() };

	ctl_layout(&job.layout, &shape);
	job.limits = (struct wire_limits){ .me = job.node,
					   .nnodes = job.nodes,
					   .ranks = job.size,
					   .host = HOST_LIBRARY,
					   .calls = CALL_OPS,
					   .block_slots = ctl_block_slots(job.nodes),
					   .slots = CTL_ALL_SLOTS,
					   .holds = CTL_HOLDS,
					   .barriers = (uint32_t)job.size * CTL_BARRIERS,
					   .pages = (uint32_t)(job.set.space >> PAGE_SHIFT),
					   .block_pages = BLOCK_MAX >> PAGE_SHIFT };
	return memory_start();
}

static void choose_spin(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint16_t r;
	int here = 0;

	for (r = 0; r < job.size; r++)
		here += r == job.rank || rank_info(r)->same_host;
	job.spin_us = job.set.spin_us;
	/*
	 * With more ranks than processors, a thread that spins keeps the one it waits for from
	 * running.
	 */
	if (here > cpus || job.launch.local_size > cpus)
		job.spin_us = job.spin_us < 2 ? job.spin_us : 2;
}

static int make_ranks(void)
{
	uint16_t r;

	job.ranks = calloc(job.size, sizeof(*job.ranks));
	if (!job.ranks)
		return -ENOMEM;
	for (r = 0; r < job.size; r++)
		job.ranks[r] = (struct rank_info){ .doorbell = -1, .pidfd = -1, .life = -1 };
	job.mem.ctlfd = -1;
	job.mem.memfd = -1;
	job.ranks[job.rank].pid = getpid();
	return 0;
}

/* ranks that are named in one line; if more are missing, only their number is printed */
#define NAMED_MISSING 16

void start_missing(const char *key)
{
	char value[LAUNCH_VALUE_MAX],
		how[64 + NAMED_MISSING * 8] = "it ended, or failed, in dsm_init()";
	size_t used = strlen(how);
	int first = -1, others = 0;
	uint16_t r;

	rendezvous_check();
	for (r = 0; r < job.size; r++) {
		size_t size = sizeof(value);

		if (r == job.rank || launch_get(&job.launch, r, key, value, &size) != -ENOENT)
			continue;
		if (first < 0)
			first = r;
		else if (others++ < NAMED_MISSING)
			used += (size_t)snprintf(how + used, sizeof(how) - used,
						 others == 1 ? "; so did rank %d" : ", rank %d", r);
	}
	if (others > NAMED_MISSING)
		snprintf(how + used, sizeof(how) - used, " and %d more", others - NAMED_MISSING);
	lost_scan(); /* if the launcher has gone, it has delivered nothing */
	if (first >= 0)
		lost_rank((uint16_t)first, how);
}

/*
 * If a rank dies in a fence, the fence fails for the others, or completes without it; the dead rank
 * is seen a little later. If mpirun ends the job first, because another host told it to, the
 * launcher is gone, which lost_scan() reports.
 */
int start_failed(int err, const char *key, unsigned int seconds)
{
	const bool starts = __atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_STARTING;

	if (!err)
		return 0;
	if (starts && key && (err == -EPIPE || err == -EPROTO))
		start_missing(key);
	else
		rendezvous_check();
	if (starts && err == -EPIPE)
		lost_unnamed();
	log_line("waiting for all ranks failed: %s after at most %u s", dsm_strerror(err), seconds);
	return err;
}

int start_get(uint16_t rank, const char *key, void *value, size_t *size)
{
	int err = launch_get(&job.launch, rank, key, value, size);

	if (err == -ENOENT || err == -EPIPE)
		start_missing(key);
	if (err == -EPIPE)
		lost_unnamed();
	return err;
}

/*
 * valgrind supports neither userfaultfd(2) nor faults on shared memory inside functions that it
 * replaces. In a job of one node there are no faults.
 */
static int refuse_valgrind(unsigned int nodes)
{
	if (nodes <= 1 || !under_valgrind())
		return 0;
	log_line(
		"valgrind works with one node only, and this job has %u: its ranks have to be on one host",
		nodes);
	return -EOPNOTSUPP;
}

/* The least number of nodes of the job, as far as it is known before the launcher is asked. */
static unsigned int least_nodes(const char *node, unsigned int ranks)
{
	unsigned int each = !strcmp(node, "host") ? ranks
		: !strcmp(node, "rank")           ? 1
						  : (unsigned int)atoi(node);

	return each ? (ranks + each - 1) / each : 0;
}

static int start_alone(void)
{
	int err = window_choose(window_reserve());

	job.fault = &fault_none;
	if (!err)
		err = nodes_make(&(uint64_t){ 0 }, 0);
	if (!err)
		err = start_make_memory();
	return err ? err : backend_open();
}

static int start_together(void)
{
	struct start_info *infos = calloc(job.size, sizeof(*infos));
	struct start_info *mine = calloc(1, sizeof(*mine));
	struct end end = { 0 };
	int err = -ENOMEM;

	if (!infos || !mine)
		goto out;
	err = host_choose();
	if (!err)
		err = start_info_make(mine);
	if (!err)
		err = rendezvous_listen(mine->token);
	HOOK(start_info);
	if (!err)
		err = launch_exchange(&job.launch, "dsm-start-info", mine, sizeof(*mine),
				      START_SECONDS);
	err = start_failed(err, "dsm-start-info", START_SECONDS);
	HOOK(start_exchanged);
	if (!err)
		err = start_info_read_all(infos);
	if (!err)
		err = window_choose(start_info_places(infos));
	if (err)
		goto out;
	job.key = infos[0].key;
	job.number = infos[0].token[0];
	err = make_nodes(infos);
	HOOK(start_agreed);
	if (!err)
		err = refuse_valgrind(job.nodes);
	if (!err)
		err = start_make_memory();
	HOOK(start_memory);
	if (!err)
		err = rendezvous_connect();
	HOOK(start_rendezvous);
	if (!err)
		err = join_host(infos, &end);
	if (!err)
		err = backend_open();
	if (!err)
		err = connect_host(&end);
	lost_by_abort(!one_node());
	if (!err)
		err = transport_open_others();
	HOOK(start_connected);
out:
	free(mine);
	free(infos);
	return err;
}

static int watch_launcher(void)
{
	int err = launch_watch(&job.launch, lost_launcher);

	if (err == -EPIPE)
		return start_failed(err, NULL, START_SECONDS);
	if (err)
		log_line("this launcher does not say when it ends; without it the job goes on");
	return 0;
}

static int refuse_size(int ranks)
{
	if (ranks <= WIRE_MAX_NODES)
		return 0;
	log_line("a job may have %d ranks, this one has %d", WIRE_MAX_NODES, ranks);
	return -EINVAL;
}

int engine_check(const struct settings *set, int ranks, bool limits)
{
	int err = refuse_size(ranks);

	if (err || !limits)
		return err;
	job.set = *set;
	err = window_choose(window_reserve());
	window_release(false);
	return err;
}

/*
 * DSM_CONSISTENCY=release: the upper half of the heap has release consistency. In one node all
 * memory is coherent.
 */
static int split_heap(void)
{
	const char *why;

	if (!job.set.release || one_node())
		return 0;
	why = job_no_release();
	if (!why && !job.set.trust && !getenv("DSMRUN_ATOMICS"))
		why = "start the program with dsmrun, which looks for atomic instructions in it; or DSM_ATOMICS=trust";
	else if (!why && job.heap_shape.count < 2)
		why = "needs a heap of at least 4 MiB (DSM_HEAP)";
	if (why) {
		log_line("DSM_CONSISTENCY=release: %s", why);
		return -ENOTSUP;
	}
	job.heap_shape.split = job.heap_shape.count / 2;
	return 0;
}

int engine_start(const struct settings *set)
{
	int err;

	log_keep();
	job.host = &host_process;
	job.up = &engine_upcalls;
	job.set = *set;
	job.mypid = getpid();
	job.state = CTL_STARTING;
	err = refuse_valgrind(least_nodes(set->node, (unsigned int)launch_expected()));
	if (err)
		return err;
	threads_before();
	err = work_start();
	if (!err)
		err = launch_start(&job.launch);
	if (err)
		return err;
	HOOK(start_launched);
	err = refuse_size(job.launch.size);
	if (err)
		return err;
	job.rank = (uint16_t)job.launch.rank;
	job.size = (uint16_t)job.launch.size;
	if (job.size > 1)
		log_rank(job.rank);
	if (set->space > VALGRIND_SPACE && under_valgrind()) {
		log_line(
			"valgrind would take minutes to reserve the shared address space; set DSM_SPACE=1G");
		return -EOPNOTSUPP;
	}
	job.heap = set->heap & ~(UNIT_BYTES - 1);
	job.heap_shape = units_shape(job.heap, job.size);
	job.units = mmap(NULL, set->space / UNIT_BYTES * sizeof(uint16_t), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (job.units == MAP_FAILED) {
		job.units = NULL;
		return -ENOMEM;
	}
	job.regions = mmap(NULL, CTL_REGIONS * sizeof(*job.regions), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (job.regions == MAP_FAILED) {
		job.regions = NULL;
		return -ENOMEM;
	}
	err = make_ranks();
	if (!err && job.size > 1)
		err = watch_launcher();
	if (!err)
		err = job.size == 1 ? start_alone() : start_together();
	if (err)
		return err;
	choose_spin();
	err = split_heap();
	if (err)
		return err;
	if (job.rank == 0)
		region_add_heap(&job.me->registry, job.heap, heap_upper());
	err = fault_catch(block_fault);
	if (!err && job.size > 1)
		err = service_start();
	launch_meanwhile(NULL); /* the service thread watches now */
	HOOK(start_serving);
	if (!err && job.size > 1)
		err = start_failed(launch_fence(&job.launch, START_SECONDS), NULL, START_SECONDS);
	HOOK(start_fenced);
	if (err)
		return err;
	threads_after();
	__atomic_store_n(&job.mine->state, CTL_RUNNING, __ATOMIC_RELEASE);
	/* Pairs with lost_launcher(): one of the two sees the launcher's end. */
	__atomic_store_n(&job.state, CTL_RUNNING, __ATOMIC_SEQ_CST);
	if (launch_gone())
		lost_launcher(-1);
	return 0;
}

/* Undo what engine_start() has made, even if it failed half-way. */
static void take_down(void)
{
	bool unmapped;

	launch_meanwhile(NULL);
	lost_by_abort(false);
	service_stop();
	fault_uncatch();
	if (job.net)
		job.netops->close(job.net);
	job.net = NULL;
	unmapped = backend_close();
	job.base = NULL;
	host_close();
	window_release(unmapped);
	memory_stop();
	nodes_forget();
	free(job.ranks);
	job.ranks = NULL;
	if (job.units)
		munmap(job.units, job.set.space / UNIT_BYTES * sizeof(uint16_t));
	job.units = NULL;
	if (job.regions)
		munmap(job.regions, CTL_REGIONS * sizeof(*job.regions));
	job.regions = NULL;
	launch_end(&job.launch);
	log_release();
}

void engine_undo(void)
{
	if (job.launch.size > 1)
		launch_abort(&job.launch, 1, "a rank could not join the DSM job");
	deadlock_stop();
	stall_collector_close();
	take_down();
	work_stop();
}

static void part(void)
{
	uint32_t running = CTL_RUNNING;

	if (!__atomic_compare_exchange_n(&job.state, &running, CTL_FINALIZED, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		job_await_loss();
	stall_collector_close();
	lost_goodbye();
	if (job.size > 1 &&
	    !start_failed(launch_fence(&job.launch, STOP_SECONDS), NULL, STOP_SECONDS))
		__atomic_store_n(&job.fenced, 1, __ATOMIC_RELEASE);
}

int engine_stop(void)
{
	part();
	take_down();
	return 0;
}

int engine_quit(void)
{
	__atomic_store_n(&job.quits, 1, __ATOMIC_RELEASE);
	part();
	launch_meanwhile(NULL);
	launch_end(&job.launch);
	return 0;
}

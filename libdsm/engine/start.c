// SPDX-License-Identifier: BSD-2-Clause
/*
 * start.c - from a process to a rank of a job, and back.
 *
 * One exchange through the launcher carries each rank's card: who it is, where it lives, which ranges of addresses it has
 * free. Then the ranks of a host swap descriptors, in a second exchange the others learn each other's transport addresses
 * (reach.c), and from there on the runtime talks by itself.
 */
#include "engine/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "engine/backend.h"
#include "engine/block.h"
#include "engine/call.h"
#include "engine/deadlock.h"
#include "engine/host.h"
#include "engine/job.h"
#include "engine/lost.h"
#include "engine/meet.h"
#include "engine/memory.h"
#include "engine/nodes.h"
#include "engine/reach.h"
#include "engine/region.h"
#include "engine/service.h"
#include "engine/threads.h"
#include "engine/work.h"
#include "fault/fault.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

#define START_SECONDS 60
#define STOP_SECONDS 10 /* all are on their way out; one that dies there is not worth more */
#define CARD_MAGIC 0x647261632d6d7364ull

struct job job = { .epoll = -1, .host = &host_process };

/* Where the window may lie: away from what loaders, heaps and stacks use, and where the sanitizers let programs map. */
/* clang-format off */
static const uint64_t places[] = {
#ifdef __SANITIZE_THREAD__
	0x7e9000000000, 0x7eb000000000, 0x7ed000000000, 0x7ef000000000,
#else
	0x200000000000, 0x280000000000, 0x300000000000, 0x180000000000, 0x400000000000, 0x7d0000000000,
#endif
};
/* clang-format on */
#define PLACES (sizeof(places) / sizeof(places[0]))

struct card {
	uint64_t magic, abi, settings, key, host;
	uint32_t places;
	int32_t pid;
	uint32_t no_uffd;           /* it catches faults by mprotect(2) */
	uint32_t group;             /* most ranks of a node that it asks for; 0: all of its host */
	uint32_t hosted;            /* kind of its core's host */
	uint8_t host_key[HOST_KEY]; /* of the job, rank 0's: by which nodes know each other there */
};

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
	const uint8_t *p = data;

	while (size--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

static uint64_t abi(void)
{
	uint64_t sizes[] = { WIRE_VERSION,       CTL_ABI,
			     sizeof(struct ctl), sizeof(struct copy),
			     sizeof(struct dir), sizeof(struct bar),
			     DSM_VERSION_MAJOR,  DSM_VERSION_MINOR };

	return hash(0xcbf29ce484222325ull, sizes, sizeof(sizes));
}

static uint64_t settings_hash(const struct settings *s)
{
	uint64_t v[] = { s->space, s->heap };

	return hash(0xcbf29ce484222325ull, v, sizeof(v));
}

/* Processes that share a kernel and see each other's processes and sockets may share memory. */
static uint64_t host_id(void)
{
	static const char *const files[] = { "/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/user" };
	char boot[64] = "";
	uint64_t h = 0xcbf29ce484222325ull;
	unsigned int i;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (read(fd, boot, sizeof(boot) - 1) < 0)
			boot[0] = 0;
		close(fd);
	}
	h = hash(h, boot, sizeof(boot));
	for (i = 0; i < 3; i++) {
		struct stat st;

		if (!stat(files[i], &st))
			h = hash(h, &st.st_ino, sizeof(st.st_ino));
	}
	return h;
}

static uint32_t free_places; /* that this process has reserved */

static uint32_t reserve_places(void)
{
	uint32_t mask = 0;
	unsigned int i;

	for (i = 0; i < PLACES; i++) {
		void *want = (void *)(uintptr_t)places[i];
		void *at = mmap(want, job.set.space, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

		if (at == want)
			mask |= 1u << i;
		else if (at != MAP_FAILED)
			munmap(at, job.set.space);
	}
	free_places = mask;
	return mask;
}

static uint32_t place_bit(const char *base)
{
	uint32_t i;

	for (i = 0; places[i] != (uintptr_t)base; i++)
		;
	return 1u << i;
}

static void release_places(uint32_t mask)
{
	unsigned int i;

	for (i = 0; i < PLACES; i++)
		if (mask >> i & 1)
			munmap((void *)(uintptr_t)places[i], job.set.space);
	free_places &= ~mask;
}

static uint32_t group_wanted(void)
{
	if (!strcmp(job.set.node, "rank"))
		return 1;
	return strcmp(job.set.node, "host") ? (uint32_t)atoi(job.set.node) : 0;
}

/* Most ranks of a node: the least that a rank asks for. */
static uint16_t group_of(const struct card *cards)
{
	uint32_t least = 0;
	uint16_t r;

	for (r = 0; r < job.size; r++)
		if (cards[r].group && (!least || cards[r].group < least))
			least = cards[r].group;
	return (uint16_t)least;
}

#define NAMED_MISSING 16 /* ranks named in one line; more of them are a number */

/*
 * The first fence has gone on without ranks that died, or failed because of them: those have published no card. A slow rank
 * publishes meanwhile.
 */
static void who_is_missing(struct card *c)
{
	char how[64 + NAMED_MISSING * 8] = "it ended, or failed, in dsm_init()";
	size_t used = strlen(how);
	int first = -1, others = 0;
	uint16_t r;

	usleep(1000000);
	for (r = 0; r < job.size; r++) {
		size_t size = sizeof(*c);

		if (r == job.rank || launch_get(&job.launch, r, "dsm-card", c, &size) != -ENOENT)
			continue;
		if (first < 0)
			first = r;
		else if (others++ < NAMED_MISSING)
			used += (size_t)snprintf(how + used, sizeof(how) - used,
						 others == 1 ? "; so did rank %d" : ", rank %d", r);
	}
	if (others > NAMED_MISSING)
		snprintf(how + used, sizeof(how) - used, " and %d more", others - NAMED_MISSING);
	if (first >= 0)
		lost_rank((uint16_t)first, how);
}

static int make_card(struct card *c)
{
	c->magic = CARD_MAGIC;
	c->abi = abi();
	c->settings = settings_hash(&job.set);
	c->host = host_id();
	c->pid = getpid();
	c->group = group_wanted();
	c->no_uffd = job.fault == &fault_mprotect;
	if (getrandom(&c->key, sizeof(c->key), 0) != sizeof(c->key) ||
	    getrandom(c->host_key, sizeof(c->host_key), 0) != sizeof(c->host_key))
		return -EIO;
	c->places = reserve_places();
	c->hosted = job.host->kind;
	return 0;
}

/* How the others reach the end of a node that its host has made. */
struct end {
	uint32_t size;
	uint8_t address[HOST_ADDRESS];
};

static int join_host(const struct card *cards, struct end *mine)
{
	size_t size = sizeof(mine->address);
	int err = job.host->join ? job.host->join(cards[0].host_key, mine->address, &size) : 0;

	mine->size = (uint32_t)size;
	return err;
}

/* The exchange is a fence, too: each node has joined before another looks for it. */
static int connect_host(const struct end *mine)
{
	struct end its;
	uint16_t n;
	int err;

	if (!job.host->join)
		return 0;
	err = start_fence_failed(launch_exchange(&job.launch, "dsm-host", mine, sizeof(*mine), START_SECONDS),
				 START_SECONDS);
	for (n = 0; n < job.nodes && !err && job.local == 0; n++) {
		const uint16_t first = job.first[n];
		size_t size = sizeof(its);

		if (n == job.node)
			continue;
		err = launch_get(&job.launch, first, "dsm-host", &its, &size);
		if (err || size != sizeof(its) || its.size > sizeof(its.address)) {
			log_line("rank %d has not published where the kernel helper reaches it: %s", first,
				 dsm_strerror(err ? err : -EPROTO));
			return -EPROTO;
		}
		err = job.host->connect(n, peer_of(first)->near, its.address, its.size);
	}
	return err;
}

static int read_cards(struct card *cards)
{
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		struct card *c = &cards[r];
		size_t size = sizeof(*c);
		int err = launch_get(&job.launch, r, "dsm-card", c, &size);

		if (err == -ENOENT)
			who_is_missing(c);
		if (err || size != sizeof(*c) || c->magic != CARD_MAGIC) {
			log_line("rank %d has not published its start-up data: %s", r,
				 dsm_strerror(err ? err : -EPROTO));
			return -EPROTO;
		}
		if (c->abi != cards[0].abi) {
			log_line("rank %d runs another version of libdsm than rank 0; all ranks must run the same", r);
			return -EPROTO;
		}
		if (c->hosted != cards[0].hosted) {
			log_line("rank %d %s the kernel helper, unlike rank 0; DSM_BACKEND chooses for all ranks", r,
				 c->hosted == HOST_KERNEL ? "uses" : "does not use");
			return -EPROTO;
		}
		if (c->settings != cards[0].settings) {
			log_line(
				"rank %d has another DSM_SPACE or DSM_HEAP than rank 0; they must be the same on all ranks",
				r);
			return -EPROTO;
		}
	}
	return 0;
}

/* The same base for all: the first place that is free everywhere. */
static int agree_on_base(const struct card *cards)
{
	uint32_t all = ~0u;
	uint16_t r;

	for (r = 0; r < job.size; r++)
		all &= cards[r].places;
	if (!all) {
		log_line(
			"no range of %zu GiB of addresses is free in all ranks (smaller: DSM_SPACE; limit: `ulimit -v`)",
			job.set.space >> 30);
		return -EADDRNOTAVAIL;
	}
	release_places(cards[job.rank].places & ~(all & -all));
	job.base = (char *)(uintptr_t)places[__builtin_ctz(all)];
	return 0;
}

/* In one node nothing happens between ranks that a fault backend, a transport or the kernel helper had to do. */
static int make_nodes(const struct card *cards)
{
	uint64_t *host = calloc(job.size, sizeof(*host));
	uint16_t r;
	int err;

	if (!host)
		return -ENOMEM;
	for (r = 0; r < job.size; r++) {
		struct peer *p = peer_of(r);

		p->pid = cards[r].pid;
		p->near = cards[r].host == cards[job.rank].host;
		host[r] = cards[r].host;
	}
	err = nodes_make(host, group_of(cards));
	free(host);
	if (!err && one_node()) {
		job.fault = &fault_none;
		host_close();
	}
	/* All ranks of a node change each other's mappings: in the way that each of them can. */
	for (r = 0; !err && !one_node() && r < job.size; r++)
		if (is_here(r) && cards[r].no_uffd)
			backend_without_uffd();
	return err;
}

static int one_rank_memory(void)
{
	uint32_t mask = reserve_places();

	if (!mask) {
		log_line("no range of %zu GiB of addresses is free (smaller: DSM_SPACE; limit: `ulimit -v`)",
			 job.set.space >> 30);
		return -EADDRNOTAVAIL;
	}
	release_places(mask & (mask - 1));
	job.base = (char *)(uintptr_t)places[__builtin_ctz(mask)];
	job.fault = &fault_none;
	return nodes_make(&(uint64_t){ 0 }, 0);
}

static int make_memory(void)
{
	const struct ctl_shape shape = { .size = job.size,
					 .nodes = job.nodes,
					 .ranks = job.locals,
					 .space = job.set.space,
					 .heap = job.heap,
					 .fault = backend_shared() };

	ctl_layout(&job.layout, &shape);
	job.limits = (struct wire_limits){ .me = job.node,
					   .nranks = job.nodes,
					   .host = HOST_LIBRARY,
					   .calls = CALL_OPS,
					   .block_slots = CTL_BLOCK_END,
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
		here += r == job.rank || peer_of(r)->near;
	job.spin_us = job.set.spin_us;
	/* More ranks than processors: whoever spins keeps the one it waits for from running. */
	if (here > cpus || job.launch.local_size > cpus)
		job.spin_us = job.spin_us < 2 ? job.spin_us : 2;
}

static int make_peers(void)
{
	uint16_t r;

	job.peers = calloc(job.size, sizeof(*job.peers));
	if (!job.peers)
		return -ENOMEM;
	for (r = 0; r < job.size; r++)
		job.peers[r] = (struct peer){ .doorbell = -1, .pidfd = -1, .life = -1 };
	job.mem.ctlfd = -1;
	job.mem.memfd = -1;
	job.peers[job.rank].pid = getpid();
	return 0;
}

/* A fence fails for the others when a rank dies in it; which one is seen a little later. */
int start_fence_failed(int err, unsigned int seconds)
{
	if (!err)
		return 0;
	meet_look();
	log_line("waiting for all ranks failed: %s after at most %u s", dsm_strerror(err), seconds);
	return err;
}

static int start_alone(void)
{
	int err = one_rank_memory();

	if (!err)
		err = make_memory();
	return err ? err : backend_open();
}

static int start_together(void)
{
	struct card *cards = calloc(job.size, sizeof(*cards));
	struct card *mine = calloc(1, sizeof(*mine));
	struct end end = { 0 };
	int err = -ENOMEM;

	if (!cards || !mine)
		goto out;
	err = host_choose();
	if (!err)
		err = make_card(mine);
	if (!err)
		err = meet_listen();
	HOOK("start-card");
	if (!err)
		err = launch_exchange(&job.launch, "dsm-card", mine, sizeof(*mine), START_SECONDS);
	if (err == -EPROTO || err == -EPIPE)
		who_is_missing(cards);
	start_fence_failed(err, START_SECONDS);
	HOOK("start-exchanged");
	if (!err)
		err = read_cards(cards);
	if (!err)
		err = agree_on_base(cards);
	if (err)
		goto out;
	job.key = cards[0].key;
	err = make_nodes(cards);
	HOOK("start-agreed");
	if (!err)
		err = make_memory();
	HOOK("start-memory");
	if (!err)
		err = meet_all();
	HOOK("start-met");
	if (!err)
		err = join_host(cards, &end);
	if (!err)
		err = backend_open();
	if (!err)
		err = connect_host(&end);
	if (!err)
		err = reach_others();
	HOOK("start-connected");
out:
	free(mine);
	free(cards);
	return err;
}

int engine_start(const struct settings *set)
{
	int err;

	job.set = *set;
	job.mypid = getpid();
	job.state = CTL_STARTING;
	threads_before();
	err = work_start();
	if (!err)
		err = launch_start(&job.launch);
	if (err)
		return err;
	HOOK("start-launched");
	if (job.launch.size > WIRE_MAX_RANKS) {
		log_line("a job may have %d ranks, this one has %d", WIRE_MAX_RANKS, job.launch.size);
		return -EINVAL;
	}
	job.rank = (uint16_t)job.launch.rank;
	job.size = (uint16_t)job.launch.size;
	if (job.size > 1)
		log_rank(job.rank);
	job.heap = set->heap & ~(REGION_UNIT - 1);
	job.heap_shape = units_shape(job.heap, job.size);
	job.units = mmap(NULL, set->space / REGION_UNIT * sizeof(uint16_t), PROT_READ | PROT_WRITE,
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
	err = make_peers();
	if (!err)
		err = job.size == 1 ? start_alone() : start_together();
	if (err)
		return err;
	choose_spin();
	if (job.rank == 0)
		region_add_heap(&job.me->registry, job.heap);
	err = fault_catch(block_fault);
	if (!err && job.size > 1)
		err = service_start();
	launch_meanwhile(NULL); /* that thread watches now */
	if (!err && job.size > 1 && launch_watch(&job.launch, lost_launcher))
		log_line("this launcher does not say when it ends; without it the job goes on");
	HOOK("start-serving");
	if (!err && job.size > 1)
		err = start_fence_failed(launch_fence(&job.launch, START_SECONDS), START_SECONDS);
	HOOK("start-fenced");
	if (err)
		return err;
	threads_after();
	__atomic_store_n(&job.mine->state, CTL_RUNNING, __ATOMIC_RELEASE);
	__atomic_store_n(&job.state, CTL_RUNNING, __ATOMIC_RELEASE);
	return 0;
}

/* All that engine_start() has made, however far it came. */
static void take_down(void)
{
	launch_meanwhile(NULL);
	service_stop();
	fault_uncatch();
	if (job.net)
		job.netops->close(job.net);
	job.net = NULL;
	if (backend_close())
		free_places &= ~place_bit(job.base);
	job.base = NULL;
	host_close();
	release_places(free_places);
	memory_stop();
	nodes_forget();
	free(job.peers);
	job.peers = NULL;
	if (job.units)
		munmap(job.units, job.set.space / REGION_UNIT * sizeof(uint16_t));
	job.units = NULL;
	if (job.regions)
		munmap(job.regions, CTL_REGIONS * sizeof(*job.regions));
	job.regions = NULL;
	launch_end(&job.launch);
}

void engine_undo(void)
{
	if (job.launch.size > 1)
		launch_abort(&job.launch, 1, "a rank could not join the DSM job");
	deadlock_stop();
	take_down();
	work_stop();
}

static void part(void)
{
	uint32_t running = CTL_RUNNING;

	if (!__atomic_compare_exchange_n(&job.state, &running, CTL_FINALIZED, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		lost_check();
	lost_goodbye();
	if (job.size > 1 && !start_fence_failed(launch_fence(&job.launch, STOP_SECONDS), STOP_SECONDS))
		__atomic_store_n(&job.fenced, 1, __ATOMIC_RELEASE);
}

int engine_stop(void)
{
	part();
	take_down();
	return 0;
}

void engine_await_end(void)
{
	while (__atomic_load_n(&job.quits, __ATOMIC_ACQUIRE))
		pause();
}

int engine_quit(void)
{
	__atomic_store_n(&job.quits, 1, __ATOMIC_RELEASE);
	part();
	launch_meanwhile(NULL);
	launch_end(&job.launch);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * start.c - from a process to a rank of a job, and back.
 *
 * One exchange through the launcher carries each rank's card: who it is, where it lives, which ranges of addresses it has
 * free. Then the ranks of a host swap descriptors, the others learn each other's transport addresses, and from there on
 * the runtime talks by itself.
 */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "util/futex.h"
#include "util/log.h"

#define START_SECONDS 60
#define STOP_SECONDS 10 /* all are on their way out; one that dies there is not worth more */
#define CARD_MAGIC 0x647261632d6d7364ull

struct job job = { .epoll = -1, .kernel = -1 };

/* Where the window may lie: away from what loaders, heaps and stacks use, and where the sanitizers let programs map. */
static const uint64_t places[] = {
#ifdef __SANITIZE_THREAD__
	0x7e9000000000, 0x7eb000000000, 0x7ed000000000, 0x7ef000000000,
#else
	0x200000000000, 0x280000000000, 0x300000000000, 0x180000000000, 0x400000000000, 0x7d0000000000,
#endif
};
#define PLACES (sizeof(places) / sizeof(places[0]))

struct card {
	uint64_t magic, abi, settings, key, host;
	uint32_t places;
	int32_t pid;
	uint32_t peers;       /* its fault backend can serve others */
	uint32_t address_size;
	uint32_t kernel_size;
	char net[16];         /* the transport the address is of */
	uint8_t address[NET_ADDRESS_MAX];
	uint8_t kernel[1152]; /* dsm.ko's address of this rank */
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
	uint64_t sizes[] = { WIRE_VERSION, CTL_ABI, sizeof(struct ctl), sizeof(struct copy), sizeof(struct dir), sizeof(struct bar),
			     DSM_VERSION_MAJOR, DSM_VERSION_MINOR };

	return hash(0xcbf29ce484222325ull, sizes, sizeof(sizes));
}

static uint64_t settings_hash(const struct settings *s)
{
	uint64_t v[] = { s->space, s->heap, s->hosts };

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
		void *at = mmap(want, job.set.space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

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

/* Before the cards: whether the ranks of a host can serve each other depends on it. */
static int choose_fault(void)
{
	const char *want = job.set.fault, *why = "";
	int err = -ENODEV;

	if (job.kernel >= 0) {
		job.fault = &fault_kmod;
		fault_kmod_device = job.kernel;
		return 0;
	}
	job.fault = &fault_mprotect;
	if (!strcmp(want, "mprotect"))
		return 0;
	err = fault_uffd.probe(&why);
	if (!err) {
		job.fault = &fault_uffd;
	} else if (err != -ENODEV) {
		log_line("userfaultfd: %s (%s)", why, err == -EMFILE ? "raise `ulimit -n`" : dsm_strerror(err));
		return err;
	} else if (!strcmp(want, "uffd")) {
		log_line("DSM_FAULT=uffd: %s (DSM_FAULT=mprotect needs no userfaultfd)", why);
		return err;
	} else if (job.launch.local_rank == 0) {
		log_line("%s; using mprotect(2), which is slower (DSM_FAULT=mprotect silences this)", why);
	}
	return 0;
}

static int open_fault(void)
{
	const char *why = "";
	int err = job.fault->open(&peer_of(job.rank)->frames, job.base, job.set.space, &why);

	if (err)
		log_line("%s", why);
	return err;
}

/* The transports in the order of preference; what the setting names, or the first that finds a device. */
static int open_net(void *address, size_t *size)
{
	static const struct net_ops *const all[] = { &net_verbs, &net_ucx };
	const unsigned int n = sizeof(all) / sizeof(all[0]);
	const bool any = !strcmp(job.set.net, "auto");
	struct net_config cfg = {
		.rank = job.rank, .size = job.size, .nslots = CTL_SLOTS, .handler = run_net, .lost = net_lost_rank,
		.thread = service_thread, .object = slot_object, .waited = slot_waited, .lost_ms = job.set.lost_ms, .device = job.set.net_device, .gid = job.set.net_gid,
		.cq_groups = job.set.cq_groups, .verbs = job.set.verbs,
	};
	const size_t room = *size;
	unsigned int i;
	int err = -ENODEV;

	for (i = 0; i < n && err == -ENODEV; i++) {
		if (!any && strcmp(job.set.net, all[i]->name))
			continue;
		job.netops = all[i];
		cfg.optional = any && i + 1 < n;
		*size = room;
		err = job.netops->open(&cfg, &job.net, address, size);
	}
	return err;
}

static int make_card(struct card *c)
{
	size_t size = sizeof(c->address);
	int err;

	c->magic = CARD_MAGIC;
	c->abi = abi();
	c->settings = settings_hash(&job.set);
	c->host = host_id();
	c->pid = getpid();
	c->peers = job.fault->peers && strcmp(job.set.host_path, "off");
	if (getrandom(&c->key, sizeof(c->key), 0) != sizeof(c->key))
		return -EIO;
	c->places = reserve_places();
	err = open_net(c->address, &size);
	c->address_size = (uint32_t)size;
	snprintf(c->net, sizeof(c->net), "%s%s", job.netops->name, job.kernel >= 0 ? "+kmod" : "");
	return err;
}

static int open_kernel(struct card *c)
{
	char address[4096] = "";
	size_t size;
	int err = kernel_open(address, &size);

	if (err || job.kernel < 0)
		return err;
	if (size > sizeof(c->kernel)) {
		log_line("the kernel helper serves jobs of up to 64 ranks (DSM_BACKEND=user)");
		return -EINVAL;
	}
	memcpy(c->kernel, address, size);
	c->kernel_size = (uint32_t)size;
	return 0;
}

/* Ranks of this host are reached inside the kernel, unless the short cut is switched off. */
static int connect_kernel(const struct card *cards)
{
	uint16_t r;
	int err = 0;

	for (r = 0; job.kernel >= 0 && r < job.size && !err; r++) {
		bool here = cards[r].host == cards[job.rank].host && r % job.set.hosts == job.rank % job.set.hosts &&
			    strcmp(job.set.host_path, "off");

		if (r != job.rank)
			err = kernel_connect(r, here, cards[r].kernel, cards[r].kernel_size);
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

		if (err || size != sizeof(*c) || c->magic != CARD_MAGIC) {
			log_line("rank %d has published no card of this library: %s", r, dsm_strerror(err ? err : -EPROTO));
			return -EPROTO;
		}
		if (c->abi != cards[0].abi) {
			log_line("rank %d runs another version of libdsm than rank 0; all ranks must run the same", r);
			return -EPROTO;
		}
		if (memcmp(c->net, cards[0].net, sizeof(c->net))) {
			log_line("rank %d uses the transport %.*s and rank 0 %.*s; DSM_NET chooses one for all ranks", r,
				 (int)sizeof(c->net), c->net, (int)sizeof(c->net), cards[0].net);
			return -EPROTO;
		}
		if (c->settings != cards[0].settings) {
			log_line("rank %d has another DSM_SPACE or DSM_HEAP than rank 0; they must be the same on all ranks", r);
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
		log_line("no range of %zu GiB of addresses is free in all ranks (smaller: DSM_SPACE; limit: `ulimit -v`)",
			 job.set.space >> 30);
		return -EADDRNOTAVAIL;
	}
	release_places(cards[job.rank].places & ~(all & -all));
	job.base = (char *)(uintptr_t)places[__builtin_ctz(all)];
	return 0;
}

/* Ranks of one host share memory if all of them can; DSM_HOSTS splits a host for tests. */
static void group_hosts(const struct card *cards)
{
	uint16_t r, q;

	for (r = 0; r < job.size; r++) {
		struct peer *p = peer_of(r);

		p->pid = cards[r].pid;
		p->host = r;
		for (q = 0; q < r && p->host == r && cards[r].peers; q++)
			if (cards[q].peers && cards[q].host == cards[r].host && r % job.set.hosts == q % job.set.hosts)
				p->host = peer_of(q)->host;
	}
}

/* Ranks of this machine that share no memory with this one: that they are gone is seen all the same. */
static int watch_machine(const struct card *cards)
{
	uint16_t r;
	int err = 0;

	for (r = 0; r < job.size && !err; r++)
		if (r != job.rank && !is_here(r) && cards[r].host == cards[job.rank].host)
			err = host_watch(r);
	return err;
}

static int connect_others(const struct card *cards)
{
	bool any = false;
	uint16_t r;
	int err;

	for (r = 0; r < job.size; r++) {
		if (is_here(r))
			continue;
		any = true;
		err = job.netops->connect(job.net, r, cards[r].address, cards[r].address_size);
		if (err)
			return err;
	}
	if (!any) {
		job.netops->close(job.net);
		job.net = NULL;
	}
	return 0;
}

static int one_rank_memory(void)
{
	uint32_t mask = reserve_places();

	if (!mask) {
		log_line("no range of %zu GiB of addresses is free (smaller: DSM_SPACE; limit: `ulimit -v`)", job.set.space >> 30);
		return -EADDRNOTAVAIL;
	}
	release_places(mask & (mask - 1));
	job.base = (char *)(uintptr_t)places[__builtin_ctz(mask)];
	job.fault = &fault_none;
	return 0;
}

static int open_memory(void)
{
	struct peer *me = peer_of(job.rank);
	const char *why = "";
	int err;

	ctl_layout(&job.layout, job.size, job.set.space, job.heap_part);
	err = host_start();
	if (err)
		return err;
	if (job.size > 1) {
		err = open_fault();
		if (!err && !strcmp(job.set.host_path, "on") && !job.fault->peers && job.kernel < 0) {
			log_line("DSM_SHORTCUT=on needs userfaultfd, and faults are caught by %s here", job.fault->name);
			err = -ENODEV;
		}
		return err;
	}
	err = fault_none.open(&me->frames, job.base, job.set.space, &why);
	if (err)
		log_line("%s", why);
	return err;
}

static void choose_spin(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint16_t r;

	job.ranks_here = 0;
	for (r = 0; r < job.size; r++)
		job.ranks_here += is_here(r) || peer_of(r)->host == peer_of(job.rank)->host;
	job.spin_us = job.set.spin_us;
	/* More ranks than processors: whoever spins keeps the one it waits for from running. */
	if (job.ranks_here > cpus || (job.launch.local_size > cpus))
		job.spin_us = job.spin_us < 2 ? job.spin_us : 2;
}

static int make_peers(void)
{
	uint16_t r;

	job.peers = calloc(job.size, sizeof(*job.peers));
	if (!job.peers)
		return -ENOMEM;
	for (r = 0; r < job.size; r++)
		job.peers[r] = (struct peer){ .ctlfd = -1, .doorbell = -1, .pidfd = -1, .frames = { -1, -1, r == job.rank } };
	job.peers[job.rank].pid = getpid();
	return 0;
}

static int start_alone(void)
{
	int err = one_rank_memory();

	if (!err)
		err = open_memory();
	return err;
}

static int start_together(void)
{
	struct card *cards = calloc(job.size, sizeof(*cards));
	struct card *mine = calloc(1, sizeof(*mine));
	int err = -ENOMEM;

	if (!cards || !mine)
		goto out;
	err = open_kernel(mine);
	if (!err)
		err = choose_fault();
	if (!err)
		err = make_card(mine);
	if (!err)
		err = host_listen();
	if (!err)
		err = launch_exchange(&job.launch, "dsm-card", mine, sizeof(*mine), START_SECONDS);
	if (!err)
		err = read_cards(cards);
	if (!err)
		err = agree_on_base(cards);
	if (err)
		goto out;
	job.key = cards[0].key;
	group_hosts(cards);
	err = open_memory();
	if (!err)
		err = host_exchange();
	if (!err)
		err = connect_kernel(cards);
	if (!err)
		err = watch_machine(cards);
	if (!err)
		err = connect_others(cards);
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
	err = run_start();
	if (!err)
		err = launch_start(&job.launch);
	if (err)
		return err;
	if (job.launch.size > WIRE_MAX_RANKS) {
		log_line("a job may have %d ranks, this one has %d", WIRE_MAX_RANKS, job.launch.size);
		return -EINVAL;
	}
	job.rank = (uint16_t)job.launch.rank;
	job.size = (uint16_t)job.launch.size;
	if (job.size > 1)
		log_rank(job.rank);
	job.heap_part = set->heap / job.size & ~(REGION_UNIT - 1);
	job.units = mmap(NULL, set->space / REGION_UNIT * sizeof(uint16_t), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (job.units == MAP_FAILED) {
		job.units = NULL;
		return -ENOMEM;
	}
	err = make_peers();
	if (!err)
		err = job.size == 1 ? start_alone() : start_together();
	if (err)
		return err;
	choose_spin();
	if (job.rank == 0)
		region_add_heap(&job.me->registry, job.heap_part * job.size);
	err = fault_catch(job.base, job.set.space, block_fault);
	if (!err && job.size > 1)
		err = service_start();
	if (!err && job.size > 1 && launch_watch(&job.launch, lost_launcher))
		log_line("this launcher does not say when it ends; without it the job goes on");
	if (!err && job.size > 1)
		err = launch_fence(&job.launch, START_SECONDS);
	if (err)
		return err;
	__atomic_store_n(&job.me->state, CTL_RUNNING, __ATOMIC_RELEASE);
	__atomic_store_n(&job.state, CTL_RUNNING, __ATOMIC_RELEASE);
	return 0;
}

/* All that engine_start() has made, however far it came. */
static void take_down(void)
{
	service_stop();
	fault_uncatch();
	if (job.net)
		job.netops->close(job.net);
	job.net = NULL;
	if (job.base) {
		job.fault->close(&peer_of(job.rank)->frames, job.base, job.set.space);
		free_places &= ~place_bit(job.base);
	}
	job.base = NULL;
	kernel_close();
	release_places(free_places);
	host_stop();
	free(job.peers);
	job.peers = NULL;
	if (job.units)
		munmap(job.units, job.set.space / REGION_UNIT * sizeof(uint16_t));
	job.units = NULL;
	launch_end(&job.launch);
}

void engine_undo(void)
{
	if (job.launch.size > 1)
		launch_abort(&job.launch, 1, "a rank could not join the DSM job");
	take_down();
	run_stop();
}

int engine_stop(void)
{
	uint32_t running = CTL_RUNNING;

	if (!__atomic_compare_exchange_n(&job.state, &running, CTL_FINALIZED, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		lost_check();
	lost_goodbye();
	if (job.size > 1 && !launch_fence(&job.launch, STOP_SECONDS))
		__atomic_store_n(&job.fenced, 1, __ATOMIC_RELEASE);
	take_down();
	return 0;
}

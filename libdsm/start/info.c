// SPDX-License-Identifier: BSD-2-Clause
/*
 * info.c - the data that a rank publishes at the start (struct start_info), and the checks of what
 * must be equal on all ranks.
 */
#include "start/info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault/fault.h"
#include "job/job.h"
#include "start/start.h"
#include "start/window.h"
#include "util/log.h"

#define START_INFO_MAGIC 0x647261632d6d7364ull

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

static struct start_settings settings_of(const struct settings *s)
{
	const char *libraries = getenv("DSM_OWN_LIBRARIES"); /* of libdsm-pthread */

	return (struct start_settings){ .space = s->space,
					.heap = s->heap,
					.homes = s->homes,
					.home_run = s->home_run,
					.release = s->release,
					.trust = s->trust,
					.quantum_ms = s->quantum_ms,
					.libraries = !libraries               ? 0
						: !strcmp(libraries, "share") ? 1
						: !strcmp(libraries, "rank")  ? 2
									      : 0 };
}

const char *start_settings_differ(const struct start_settings *a, const struct start_settings *b)
{
	return a->space != b->space                                  ? "DSM_SPACE"
		: a->heap != b->heap                                 ? "DSM_HEAP"
		: a->homes != b->homes || a->home_run != b->home_run ? "DSM_HOME"
		: a->release != b->release                           ? "DSM_CONSISTENCY"
		: a->trust != b->trust                               ? "DSM_ATOMICS"
		: a->libraries != b->libraries                       ? "DSM_OWN_LIBRARIES"
		: a->quantum_ms != b->quantum_ms                     ? "DSM_QUANTUM_MS"
								     : NULL;
}

/* Processes may share memory if they share a kernel and see each other's processes and sockets. */
static uint64_t this_host(void)
{
	static const char *const files[] = { "/proc/self/ns/net", "/proc/self/ns/pid",
					     "/proc/self/ns/user" };
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

static uint32_t group_wanted(void)
{
	if (!strcmp(job.set.node, "rank"))
		return 1;
	return strcmp(job.set.node, "host") ? (uint32_t)atoi(job.set.node) : 0;
}

int start_info_make(struct start_info *info)
{
	info->magic = START_INFO_MAGIC;
	info->abi = abi();
	info->settings = settings_of(&job.set);
	info->host = this_host();
	info->pid = getpid();
	info->group = group_wanted();
	info->no_uffd = job.fault == &fault_mprotect;
	if (getrandom(&info->key, sizeof(info->key), 0) != sizeof(info->key) ||
	    getrandom(info->host_key, sizeof(info->host_key), 0) != sizeof(info->host_key) ||
	    getrandom(info->token, sizeof(info->token), 0) != sizeof(info->token))
		return -EIO;
	info->places = window_reserve();
	info->hosted = job.host->kind;
	limits_memory("", &info->memory);
	info->bound = job.set.memory;
	return 0;
}

int start_info_read_all(struct start_info *infos)
{
	const char *other;
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		struct start_info *info = &infos[r];
		size_t size = sizeof(*info);
		int err = start_get(r, "dsm-start-info", info, &size);

		if (err || size != sizeof(*info) || info->magic != START_INFO_MAGIC) {
			log_line("rank %d has not published its start-up data: %s", r,
				 dsm_strerror(err ? err : -EPROTO));
			return -EPROTO;
		}
		if (info->abi != infos[0].abi) {
			log_line(
				"rank %d runs another version of libdsm than rank 0; all ranks must run the same",
				r);
			return -EPROTO;
		}
		if (info->hosted != infos[0].hosted) {
			log_line(
				"rank %d %s the kernel helper, unlike rank 0; DSM_BACKEND chooses for all ranks",
				r, info->hosted == HOST_KERNEL ? "uses" : "does not use");
			return -EPROTO;
		}
		other = start_settings_differ(&info->settings, &infos[0].settings);
		if (other) {
			log_line(
				"rank %d has another %s than rank 0; it must be the same on all ranks",
				r, other);
			return -EPROTO;
		}
	}
	return 0;
}

uint16_t start_info_group(const struct start_info *infos)
{
	uint32_t least = 0;
	uint16_t r;

	for (r = 0; r < job.size; r++)
		if (infos[r].group && (!least || infos[r].group < least))
			least = infos[r].group;
	return (uint16_t)least;
}

void start_info_compare_limits(const struct start_info *infos)
{
	const struct memory_limit *mine = &infos[job.rank].memory, *its;
	uint16_t r;

	for (r = 0; job.local == 0 && r < job.size; r++) {
		its = &infos[r].memory;
		if (!is_here(r) || its->group == mine->group)
			continue;
		log_line(
			"rank %d of this node is in another cgroup: its limit of memory is %llu MiB, here it is %llu MiB, and "
			"shared memory is charged to the rank that touches it first (DSM_NODE=rank makes them two nodes)",
			r, (unsigned long long)its->bytes >> 20,
			(unsigned long long)mine->bytes >> 20);
		return;
	}
}

int start_info_compare_bounds(const struct start_info *infos)
{
	uint16_t r, first;

	for (r = 0; r < job.size; r++) {
		first = job.first[node_of(r)];
		if (infos[r].bound == infos[first].bound)
			continue;
		log_line(
			"rank %d has a DSM_MEMORY of %llu MiB, and rank %d of the same node one of %llu MiB (0: not set); they "
			"must be the same on all ranks of a node",
			r, (unsigned long long)infos[r].bound >> 20, first,
			(unsigned long long)infos[first].bound >> 20);
		return -EPROTO;
	}
	return 0;
}

/* For what is not the memory of the job: an eighth, and what a rank has beside shared memory. */
#define RESERVE_PART 8
#define RESERVE_RANK (32ull << 20)
#define BOUND_LEAST (64ull << 20)

/* Does a rank share the limit of another one? */
static bool shares_limit(const struct start_info *a, const struct start_info *b)
{
	return a->host == b->host && a->memory.group == b->memory.group;
}

uint64_t start_info_bound(const struct start_info *infos)
{
	/* the same for all ranks of the node, whichever asks */
	const struct start_info *least = &infos[job.first[job.node]];
	uint64_t ranks = 0, nodes = 0, bound;
	int last = -1;
	uint16_t r, n;

	for (r = 0; r < job.size; r++)
		if (is_here(r) && infos[r].memory.bytes < least->memory.bytes)
			least = &infos[r];
	for (n = 0; n < job.nodes; n++)
		for (r = 0; r < job.size; r++) {
			if (node_of(r) != n || !shares_limit(&infos[r], least))
				continue;
			ranks++;
			nodes += last != n;
			last = n;
		}
	bound = least->memory.bytes - least->memory.bytes / RESERVE_PART;
	if (!bound)
		return 0;
	bound = bound > ranks * RESERVE_RANK ? (bound - ranks * RESERVE_RANK) / nodes : 0;
	return bound > BOUND_LEAST ? bound : BOUND_LEAST;
}

uint32_t start_info_places(const struct start_info *infos)
{
	uint32_t all = ~0u;
	uint16_t r;

	for (r = 0; r < job.size; r++)
		all &= infos[r].places;
	return all;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * kernel.c - the protocol through dsm.ko (docs/kernel.md): the module hosts the same core, resolves faults and answers peers;
 * the engine keeps regions, calls, the heap and liveness.
 */
#include "engine/engine.h"

#include <dsm_uapi.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/log.h"

#define DEVICE "/dev/dsm"

static int call(unsigned long op, void *arg)
{
	int err;

	do {
		err = ioctl(job.kernel, op, arg) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

/* Of the user: what it has locked by other processes counts, too. */
static const char *limit_words(char *room, size_t size)
{
	struct dsm_ioc_info info;

	*room = 0;
	if (!call(DSM_IOC_INFO, &info) && info.frames_limit != ~0ull)
		snprintf(room, size,
			 "; locked memory is limited to %lu KiB: raise that with `ulimit -l unlimited`, or "
			 "\"* - memlock unlimited\" in /etc/security/limits.conf",
			 (unsigned long)info.frames_limit << (PAGE_SHIFT - 10));
	return room;
}

static int open_device(void)
{
	const bool must = !strcmp(job.set.backend, "kmod");
	struct dsm_ioc_info info;

	job.kernel = -1;
	if (!strcmp(job.set.backend, "user"))
		return 0;
	job.kernel = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (job.kernel < 0) {
		job.kernel = -1;
		if (!must)
			return 0;
		log_line(
			DEVICE ": %s (%s)", strerror(errno),
			errno == ENOENT ? "modprobe dsm loads the kernel helper"
				: errno == EUSERS
				? "the module's parameter max_contexts says how many processes of a user may have it open"
				: "its group may use it: ls -l " DEVICE);
		return -ENODEV;
	}
	if (!call(DSM_IOC_INFO, &info) && info.version == DSM_UAPI_VERSION && info.features & DSM_FEATURE_RANK)
		return 0;
	log_line(DEVICE " is of another version of libdsm (DSM_BACKEND=user does without)");
	close(job.kernel);
	job.kernel = -1;
	return must ? -ENODEV : 0;
}

static uint32_t mode(void)
{
	return !strcmp(job.set.kmod_mode, "poll")         ? DSM_MODE_POLL
		: !strcmp(job.set.kmod_mode, "workqueue") ? DSM_MODE_WORKQUEUE
							  : DSM_MODE_SOFTIRQ;
}

/* By default the kernel's drivers choose; "off" is one group of all vectors, which comes to the same. */
static int choose_vectors(char *device, size_t room, struct dsm_ioc_join *j)
{
	const char *config = job.set.cq_groups;

	_Static_assert(sizeof(j->vectors) / sizeof(j->vectors[0]) == CLASS_MAX, "one for each class");
	if (!config || !*config || !strcmp(config, "off"))
		return 0;
	return net_class_vectors(device, room, config, j->vectors);
}

static int join(const char *device, void *address, size_t *size)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct dsm_ioc_join j = {
		.rank = job.rank,
		.size = job.size,
		.mode = mode(),
		.readahead = (uint16_t)job.set.readahead,
		.hold_us = job.set.hold_us,
		.spin_us = job.launch.local_size > cpus ? 2 : job.set.spin_us,
		.gid = -1,
		.address_size = DSM_ADDRESS_MAX,
		.address = (uintptr_t)address,
		.vectors = { -1, -1, -1, -1 },
	};
	int err;

	snprintf(j.device, sizeof(j.device), "%s", device);
	err = strcmp(device, "none") ? choose_vectors(j.device, sizeof(j.device), &j) : 0;
	if (!err)
		err = call(DSM_IOC_JOIN, &j);
	*size = err ? 0 : j.address_size;
	return err;
}

int kernel_open(void *address, size_t *size)
{
	struct dsm_ioc_window w = { .size = job.set.space };
	char name[32], limit[160];
	int err = open_device();

	*size = 0;
	if (err || job.kernel < 0)
		return err;
	err = call(DSM_IOC_WINDOW, &w);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(job.set.net_device, ":,"), job.set.net_device);
	if (!err)
		err = join(name, address, size);
	if (err == -ENODEV || err == -ENETDOWN) /* enough for a job of one host */
		err = join("none", address, size);
	if (err)
		log_line(DEVICE ": this rank cannot join: %s (DSM_BACKEND=user does without the kernel helper%s)",
			 err == -EDQUOT ? "its tables need more memory" : dsm_strerror(err),
			 err == -EDQUOT ? limit_words(limit, sizeof(limit)) : "");
	return err;
}

int kernel_key(const uint8_t key[KERNEL_KEY])
{
	struct dsm_ioc_key k;
	int err;

	_Static_assert(sizeof(k.key) == KERNEL_KEY, "the same key");
	memcpy(k.key, key, sizeof(k.key));
	err = call(DSM_IOC_KEY, &k);
	explicit_bzero(&k, sizeof(k));
	if (err)
		log_line(DEVICE ": %s",
			 err == -EEXIST ? "another process of this host is this rank of this job" : dsm_strerror(err));
	return err;
}

int kernel_connect(uint16_t rank, bool here, const void *address, size_t size)
{
	struct dsm_ioc_connect c = { .rank = rank,
				     .flags = here ? DSM_CONNECT_HERE : 0,
				     .address_size = (uint32_t)size,
				     .address = (uintptr_t)address };
	int err;

	if (!here && !size) {
		log_line(
			"rank %d is on another host, and it has no RDMA device that the kernel helper could use (DSM_BACKEND=user)",
			rank);
		return -ENODEV;
	}
	err = call(DSM_IOC_CONNECT, &c);
	if (err)
		log_line(DEVICE ": rank %d cannot be reached: %s", rank,
			 err == -EACCES           ? "it is another user's"
				 : err == -ENOENT ? "it is not there"
						  : dsm_strerror(err));
	return err;
}

/* Frames are made for what was asked for, not for the whole units that a region takes of the window. */
static size_t used_bytes(const struct dsm_region *r)
{
	return (r->size + r->block_size - 1) / r->block_size * r->block_size;
}

int kernel_leave(const struct dsm_region *r)
{
	return kernel_range(DSM_RANGE_LEAVE, r->off, used_bytes(r), 0);
}

int kernel_region(const struct dsm_region *r, bool add)
{
	struct dsm_ioc_region g = {
		.op = add ? DSM_REGION_ADD : DSM_REGION_REMOVE,
		.page = (uint32_t)(r->off >> PAGE_SHIFT),
		.pages = (uint32_t)((r->size + PAGE_BYTES - 1) >> PAGE_SHIFT),
		.id = r->id,
		.order = (uint16_t)__builtin_ctzl(r->block_size >> PAGE_SHIFT),
	};

	if (r->id == 0) {
		g.home = DSM_REGION_PARTS;
		g.arg = (uint32_t)(job.heap_part >> PAGE_SHIFT);
	} else if (r->home_policy == DSM_HOME_FIXED) {
		g.home = DSM_REGION_FIXED;
		g.arg = r->home_rank;
	} else {
		g.home = r->home_policy == DSM_HOME_CYCLIC ? DSM_REGION_CYCLIC : DSM_REGION_FIRST_TOUCH;
	}
	return call(DSM_IOC_REGION, &g);
}

int kernel_range(unsigned int op, size_t off, size_t len, uint32_t arg)
{
	struct dsm_ioc_range g = {
		.op = op, .page = (uint32_t)(off >> PAGE_SHIFT), .pages = (uint32_t)(len >> PAGE_SHIFT), .write = arg
	};

	return call(DSM_IOC_RANGE, &g);
}

int kernel_call(struct dsm_ioc_call *q)
{
	int err = call(DSM_IOC_CALL, q);

	if (err == -EIO) {
		lost_check();
		lost_abort(70, "the kernel helper has lost its device");
	}
	return err ? err : q->status;
}

int kernel_wait(struct dsm_ioc_call *q, uint64_t now)
{
	int note = stall_begin(0, now), err = kernel_call(q);

	stall_end(note);
	return err;
}

static void add(struct region_stats *to, const struct dsm_ioc_stats *from)
{
	unsigned int i, b;

	_Static_assert(DSM_BUCKETS == DSM_LAT_BUCKETS, "the same buckets");
	to->read_faults += from->read_faults;
	to->write_faults += from->write_faults;
	to->upgrades += from->upgrades;
	to->local_faults += from->local_faults;
	to->prefetched += from->prefetched;
	to->invalidations += from->invalidations;
	to->downgrades += from->downgrades;
	to->blocks_in += from->blocks_in;
	to->blocks_out += from->blocks_out;
	to->bytes_in += from->bytes_in;
	to->bytes_out += from->bytes_out;
	for (i = 0; i < 3; i++) {
		to->latency_count[i] += from->latency_count[i];
		to->latency_sum[i] += from->latency_sum[i];
		if (to->latency_max[i] < from->latency_max[i])
			to->latency_max[i] = from->latency_max[i];
		for (b = 0; b < DSM_LAT_BUCKETS; b++)
			to->latency[i][b] += from->latency[i][b];
	}
}

void kernel_region_stats(uint16_t id)
{
	struct dsm_ioc_stats s = { .region = id, .flags = DSM_STATS_RESET };

	if (!call(DSM_IOC_STATS, &s))
		add(&job.mine->region_stats[id], &s);
}

void kernel_stats(void)
{
	struct dsm_ioc_stats s = { .region = 0xffff, .flags = DSM_STATS_RESET };
	unsigned int i;

	if (!call(DSM_IOC_STATS, &s)) {
		count(&job.mine->stats.messages_in, s.messages_in);
		count(&job.mine->stats.messages_out, s.messages_out);
		count(&job.mine->stats.steps, s.steps);
	}
	for (i = 0; i < job.mine->region_end; i++)
		if (job.regions[i].attached)
			kernel_region_stats((uint16_t)i);
}

void kernel_no_block(const void *addr, bool write)
{
	char limit[160];

	log_line("the kernel helper could not get the block at %p for %s (see dmesg%s)", addr,
		 write ? "writing" : "reading", limit_words(limit, sizeof(limit)));
}

void kernel_queues(struct stats_vectors *out)
{
	static const char *const classes[CLASS_MAX] = { "coherence", "data", "sync", "bulk" };
	struct dsm_ioc_queues q;
	unsigned int i;

	if (call(DSM_IOC_QUEUES, &q) || !q.device[0])
		return;
	for (i = 0; i < CLASS_MAX && out->n < STATS_VECTORS; i++) {
		struct stats_vector *v = &out->rows[out->n++];

		snprintf(v->class, sizeof(v->class), "%s", classes[i]);
		snprintf(v->device, sizeof(v->device), "%.24s/dsm", q.device);
		v->vector = q.of[i].vector;
		v->events = q.of[i].events;
		v->softirq = q.of[i].softirq + q.of[i].ksoftirqd;
		v->completions = v->softirq + q.of[i].process;
	}
}

void kernel_lost(void)
{
	struct dsm_ioc_lost l;
	char limit[160], why[300];

	while (!call(DSM_IOC_LOST, &l) && l.rank >= 0) {
		if (l.rank == job.rank) {
			snprintf(why, sizeof(why), "the kernel helper cannot go on: %s (see dmesg%s)",
				 l.err == -ENODEV                               ? "its device is gone"
					 : l.err == -EOVERFLOW                  ? "a completion queue has failed"
					 : l.err == -EDQUOT || l.err == -ENOMEM ? "memory is short"
										: dsm_strerror(l.err),
				 l.err == -EDQUOT ? limit_words(limit, sizeof(limit)) : "");
			lost_abort(70, why);
		}
		lost_rank((uint16_t)l.rank, "its connection is broken");
	}
}

void kernel_close(void)
{
	if (job.kernel >= 0)
		close(job.kernel);
	job.kernel = -1;
}

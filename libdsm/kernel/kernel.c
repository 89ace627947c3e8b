// SPDX-License-Identifier: BSD-2-Clause
/*
 * kernel.c - the kernel helper as the core's host (job/host_ops.h): what is asked of it is a call
 * of /dev/dsm (docs/kernel.md).
 *
 * Each rank has opened the device. The first of a node joins the job for the node, and the others
 * attach to what it has made; what the helper calls a rank is a node here.
 */
#include "kernel/kernel.h"

#include <dsm_uapi.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fault/fault.h"
#include "job/host_ops.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/note.h"
#include "job/rendezvous.h"
#include "net/net.h"
#include "util/log.h"
#include "watch/stall.h"

#define DEVICE "/dev/dsm"

static int dsm = -1; /* open: it hosts this node's core, or did */

int kernel_ioctl(unsigned long op, void *arg)
{
	int err;

	do {
		err = ioctl(dsm, op, arg) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

/* Of the user: what it has locked by other processes counts, too. */
static const char *limit_words(char *room, size_t size)
{
	struct dsm_ioc_info info;

	*room = 0;
	if (!kernel_ioctl(DSM_IOC_INFO, &info) && info.frames_limit != ~0ull)
		snprintf(
			room, size,
			"; locked memory is limited to %lu KiB: raise that with `ulimit -l unlimited`, or "
			"\"* - memlock unlimited\" in /etc/security/limits.conf",
			(unsigned long)info.frames_limit << (PAGE_SHIFT - 10));
	return room;
}

static void kernel_close(void)
{
	if (dsm >= 0)
		close(dsm);
	dsm = -1;
}

/* -ENOENT: another host will do. */
static int open_device(void)
{
	const bool must = !strcmp(job.set.backend, "kmod");
	struct dsm_ioc_info info;

	dsm = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (dsm < 0) {
		dsm = -1;
		if (!must)
			return -ENOENT;
		log_line(
			DEVICE ": %s (%s)", strerror(errno),
			errno == ENOENT ? "modprobe dsm loads the kernel helper"
				: errno == EUSERS
				? "the module's parameter max_contexts says how many processes of a user may have it open"
				: "its group may use it: ls -l " DEVICE);
		return -ENODEV;
	}
	if (!kernel_ioctl(DSM_IOC_INFO, &info) && info.version == DSM_UAPI_VERSION &&
	    info.features & DSM_FEATURE_RANK)
		return 0;
	log_line(DEVICE " is of another version of libdsm (DSM_BACKEND=user does without)");
	kernel_close();
	return must ? -ENODEV : -ENOENT;
}

static uint32_t mode(void)
{
	return !strcmp(job.set.kmod_mode, "poll")         ? DSM_MODE_POLL
		: !strcmp(job.set.kmod_mode, "workqueue") ? DSM_MODE_WORKQUEUE
							  : DSM_MODE_SOFTIRQ;
}

/* "off" is one group of all vectors, of which the module takes the first. */
static int choose_vectors(char *device, size_t room, struct dsm_ioc_join *j)
{
	const char *config = job.set.cq_groups;
	struct net_place places[CLASS_MAX];
	unsigned int c;
	int err;

	_Static_assert(sizeof(j->vectors) / sizeof(j->vectors[0]) == CLASS_MAX,
		       "one for each class");
	_Static_assert(sizeof(j->cpus) / sizeof(j->cpus[0]) == CLASS_MAX, "one for each class");
	if (config && !strcmp(config, "off"))
		return 0;
	for (c = 0; c < CLASS_MAX; c++)
		places[c] = (struct net_place){ .vector = -1, .cpu = -1 };
	err = net_class_vectors(device, room, config, job.node, places);
	for (c = 0; c < CLASS_MAX && !err; c++) {
		j->vectors[c] = places[c].vector;
		j->cpus[c] = (int16_t)(places[c].cpu < 0 ? DSM_CPU_ANY : places[c].cpu);
	}
	/* The module needs no device file of user-level verbs, unless groups were asked for. */
	return err == -ENODEV && (!config || !*config) ? 0 : err;
}

static int join(const char *name, void *address, size_t *size)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct dsm_ioc_join j = {
		.rank = job.node,
		.size = job.nodes,
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

	snprintf(j.device, sizeof(j.device), "%s", name);
	err = strcmp(name, "none") ? choose_vectors(j.device, sizeof(j.device), &j) : 0;
	if (!err)
		err = kernel_ioctl(DSM_IOC_JOIN, &j);
	*size = err ? 0 : j.address_size;
	return err;
}

static int join_job(void *address, size_t *size)
{
	char name[32];
	int err;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(job.set.net_device, ":,"),
		 job.set.net_device);
	err = join(name, address, size);
	if (err == -ENODEV || err == -ENETDOWN) /* enough for a job of one host */
		err = join("none", address, size);
	return err;
}

/* The module has the frames, and gives none up. -ENOENT: another host will do. */
static int cannot_bound(void)
{
	if (!job.set.memory)
		return 0;
	if (strcmp(job.set.backend, "kmod"))
		return -ENOENT;
	log_line(
		"DSM_MEMORY: the kernel helper does not bound the memory of a node (DSM_BACKEND=user does)");
	return -EINVAL;
}

static int kernel_open(void)
{
	int err = cannot_bound();

	if (!err)
		err = open_device();
	if (err)
		return err;
	job.fault = &fault_kmod;
	fault_kmod_device = dsm;
	return 0;
}

static int show_key(const uint8_t key[HOST_KEY])
{
	struct dsm_ioc_key k;
	int err;

	_Static_assert(sizeof(k.key) == HOST_KEY, "the same key");
	memcpy(k.key, key, sizeof(k.key));
	err = kernel_ioctl(DSM_IOC_KEY, &k);
	explicit_bzero(&k, sizeof(k));
	if (err)
		log_line(DEVICE ": %s",
			 err == -EEXIST ? "another process of this host is this node of this job"
					: dsm_strerror(err));
	return err;
}

/* The node's end. */
static int make(const uint8_t key[HOST_KEY], void *address, size_t *size)
{
	struct dsm_ioc_window w = { .size = job.set.space };
	char its[DSM_ADDRESS_MAX], limit[160];
	const size_t room = *size;
	int err = kernel_ioctl(DSM_IOC_WINDOW, &w);

	if (!err)
		err = join_job(its, size);
	if (err) {
		log_line(
			DEVICE
			": this node cannot join: %s (DSM_BACKEND=user does without the kernel helper%s)",
			err == -EDQUOT ? "its tables need more memory"
				: err == -EOPNOTSUPP
				? "the RDMA device lacks what the module needs, `dmesg` says what"
				: dsm_strerror(err),
			err == -EDQUOT ? limit_words(limit, sizeof(limit)) : "");
		return err;
	}
	if (*size > room)
		return -EINVAL;
	memcpy(address, its, *size);
	return show_key(key);
}

static int attached; /* 0 or -errno */

/* The device of another rank of the node: the first's has the node's end. */
static void attach_to(unsigned int local, int fd)
{
	struct dsm_ioc_attach a = { .fd = fd };

	if (local == 0) {
		attached = kernel_ioctl(DSM_IOC_ATTACH, &a);
		if (attached)
			log_line(DEVICE ": this rank cannot join its node: %s",
				 dsm_strerror(attached));
	}
	close(fd);
}

static int kernel_join(const uint8_t key[HOST_KEY], void *address, size_t *size)
{
	int err = 0;

	if (job.nodes > DSM_RANKS_MAX) {
		log_line("the kernel helper serves jobs of up to %u nodes (DSM_BACKEND=user)",
			 DSM_RANKS_MAX);
		return -EINVAL;
	}
	if (job.local == 0)
		err = make(key, address, size);
	else
		*size = 0;
	attached = 0;
	if (!err && job.locals > 1)
		err = rendezvous_swap(dsm, attach_to);
	return err ? err : attached;
}

static int kernel_connect(uint16_t node, bool same_host, const void *address, size_t size)
{
	struct dsm_ioc_connect c = { .rank = node,
				     .flags = same_host ? DSM_CONNECT_HERE : 0,
				     .address_size = (uint32_t)size,
				     .address = (uintptr_t)address };
	int err;

	if (!same_host && !size) {
		log_line(
			"rank %d is on another host, and it has no RDMA device that the kernel helper could use (DSM_BACKEND=user)",
			job.first[node]);
		return -ENODEV;
	}
	err = kernel_ioctl(DSM_IOC_CONNECT, &c);
	if (err == -ENOENT && same_host) /* its node has ended with its process */
		rendezvous_check();
	if (err)
		log_line(DEVICE ": rank %d cannot be reached: %s", job.first[node],
			 err == -EACCES           ? "it is another user's"
				 : err == -ENOENT ? "it is not there"
						  : dsm_strerror(err));
	return err;
}

/*
 * Frames are made for what was asked for, not for the whole units that a region takes of the
 * window.
 */
static size_t used_bytes(const struct dsm_region *r)
{
	return (r->size + r->block_size - 1) / r->block_size * r->block_size;
}

static int region(const struct dsm_region *r, bool add)
{
	struct dsm_ioc_region g = {
		.op = add ? DSM_REGION_ADD : DSM_REGION_REMOVE,
		.page = (uint32_t)(r->off >> PAGE_SHIFT),
		.pages = (uint32_t)((r->size + PAGE_BYTES - 1) >> PAGE_SHIFT),
		.id = r->id,
		.order = (uint16_t)__builtin_ctzl(r->block_size >> PAGE_SHIFT),
		.priority = r->priority,
	};

	_Static_assert((int)DSM_REGION_LOW == (int)DSM_PRIORITY_LOW &&
			       (int)DSM_REGION_HIGH == (int)DSM_PRIORITY_HIGH &&
			       (int)DSM_REGION_URGENT == (int)DSM_PRIORITY_URGENT,
		       "the module has the priorities of dsm.h");
	if (region_run(r)) {
		g.home = DSM_REGION_CYCLIC;
		g.arg = (uint32_t)(region_run(r) >> PAGE_SHIFT);
	} else if (r->id == 0) {
		_Static_assert(DSM_PARTS_MAX >= WIRE_MAX_NODES, "a part for each rank");
		g.home = DSM_REGION_PARTS;
		g.arg = (uint32_t)(job.heap_shape.stripe * (UNIT_BYTES >> PAGE_SHIFT));
		g.parts = job.size;
		g.owners = (uintptr_t)job.node_of;
	} else if (r->home_policy == DSM_HOME_FIXED) {
		g.home = DSM_REGION_FIXED;
		g.arg = node_of(r->home_rank);
	} else {
		g.home = DSM_REGION_FIRST_TOUCH;
	}
	return kernel_ioctl(DSM_IOC_REGION, &g);
}

static int kernel_attach(const struct dsm_region *r)
{
	const int err = region(r, true);
	char limit[160];

	if (err != -EDQUOT)
		return err;
	log_line(DEVICE ": a region needs more memory%s", limit_words(limit, sizeof(limit)));
	return -ENOMEM;
}

static int kernel_range(unsigned int op, size_t off, size_t len, uint32_t arg)
{
	struct dsm_ioc_range g = { .op = op,
				   .page = (uint32_t)(off >> PAGE_SHIFT),
				   .pages = (uint32_t)(len >> PAGE_SHIFT),
				   .write = arg };

	return kernel_ioctl(DSM_IOC_RANGE, &g);
}

static int kernel_leave(struct dsm_region *r)
{
	return kernel_range(DSM_RANGE_LEAVE, r->off, used_bytes(r), 0);
}

static int kernel_quiet(uint64_t off, uint64_t bytes)
{
	return kernel_range(DSM_RANGE_QUIET, off, bytes, 0);
}

static int kernel_purge(uint64_t off, uint64_t bytes)
{
	return kernel_range(DSM_RANGE_FORGET, off, bytes, 0);
}

static uint32_t writes(uint8_t access)
{
	return access & DSM_WRITE ? 1 : 0;
}

static int kernel_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait)
{
	int err = kernel_range(DSM_RANGE_PREFETCH, off, len, writes(access));

	count(&job.mine->region_stats[r->id].prefetched, len / r->block_size);
	return err || !wait ? err : kernel_range(DSM_RANGE_ACQUIRE, off, len, writes(access));
}

static void kernel_release(struct dsm_region *r, size_t off, size_t len, bool evict)
{
	(void)r;
	kernel_range(evict ? DSM_RANGE_EVICT : DSM_RANGE_RELEASE, off, len, 0);
}

static __thread int pins_of_thread __attribute__((tls_model("initial-exec"))); /* blocks */

static int kernel_unpin(struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	int err = kernel_range(DSM_RANGE_UNPIN, off, len, writes(access));

	pins_of_thread -= err ? 0 : (int)(len / r->block_size);
	return err;
}

static int kernel_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	size_t at;
	int err = 0;

	for (at = off; !err && at < off + len; at += r->block_size) {
		err = kernel_range(DSM_RANGE_PIN, at, r->block_size,
				   (access & DSM_WRITE ? DSM_PIN_WRITE : 0) |
					   (pins_of_thread > 0 ? 0 : DSM_PIN_TURNS));
		pins_of_thread += !err;
	}
	if (err && at > off + r->block_size)
		kernel_unpin(r, off, at - r->block_size - off, access);
	return err;
}

static int kernel_place(struct dsm_region *r, size_t off, uint16_t rank)
{
	return kernel_range(DSM_RANGE_PLACE, off, r->block_size, node_of(rank));
}

/* Of a call that has ended. */
static int outcome(const struct dsm_ioc_call *q, int err)
{
	if (err == -EIO) {
		job_await_loss();
		lost_abort(70, "the kernel helper has lost its device");
	}
	return err ? err : q->status;
}

int kernel_call(struct dsm_ioc_call *q)
{
	return outcome(q, kernel_ioctl(DSM_IOC_CALL, q));
}

/* Until another thread of the program does something, without a limit of time. */
static bool kernel_poll_lasts(const struct dsm_ioc_call *q)
{
	if (q->call != DSM_CALL_SYNC)
		return (q->call == DSM_CALL_LOCK && !q->ns) || q->call == DSM_CALL_BARRIER;
	return !q->ns && sync_waits(q->op);
}

int kernel_wait(struct dsm_ioc_call *q, uint64_t now)
{
	int note = note_begin(0, kernel_poll_lasts(q), now), err = kernel_call(q);

	note_end(note);
	return err;
}

struct point {
	struct dsm_ioc_call *q;
	void (*cancelled)(void *arg);
	void *arg;
	int note;
};

/*
 * -ENOENT, which is no error: the signal came before the call had begun to wait, or behind its end.
 */
static void leave_point(void *arg)
{
	struct point *p = arg;
	struct dsm_ioc_call c = { .call = DSM_CALL_CANCEL, .value = (uintptr_t)p->q };

	kernel_ioctl(DSM_IOC_CALL, &c);
	note_end(p->note);
	p->cancelled(p->arg);
}

/* The type is asynchronous only while there is nothing in hand but the request. */
int kernel_wait_point(struct dsm_ioc_call *q, uint64_t now, void (*cancelled)(void *arg), void *arg)
{
	struct point p = { q, cancelled, arg, note_begin(0, kernel_poll_lasts(q), now) };
	int type, err;

	q->hold = DSM_SYNC_POINT;
	err = kernel_ioctl(DSM_IOC_CALL, q);
	if (err == -EINPROGRESS) {
		pthread_cleanup_push(leave_point, &p);
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
		while ((err = kernel_ioctl(DSM_IOC_CALL, q)) == -EINPROGRESS)
			; /* a handler has made calls of its own: it has begun anew */
		pthread_setcanceltype(type, &type);
		pthread_cleanup_pop(0);
	}
	note_end(p.note);
	return outcome(q, err);
}

static void kernel_detach(const struct dsm_region *r)
{
	kstats_region(r->id); /* what it has counted would go with the region */
	region(r, false);
}

static enum fault_answer kernel_fault(struct dsm_region *r, void *addr, bool write)
{
	char limit[160];

	(void)r;
	log_line("the kernel helper could not get the block at %p for %s (see dmesg%s)", addr,
		 write ? "writing" : "reading", limit_words(limit, sizeof(limit)));
	return FAULT_REFUSED;
}

static void kernel_lost(void)
{
	struct dsm_ioc_lost l;
	char limit[160], why[300];

	while (!kernel_ioctl(DSM_IOC_LOST, &l) && l.rank >= 0) {
		if (l.rank == job.node) {
			snprintf(why, sizeof(why),
				 "the kernel helper cannot go on: %s (see dmesg%s)",
				 l.err == -ENODEV              ? "its device is gone"
					 : l.err == -EOVERFLOW ? "a completion queue has failed"
					 : l.err == -EDQUOT || l.err == -ENOMEM
					 ? "memory is short"
					 : dsm_strerror(l.err),
				 l.err == -EDQUOT ? limit_words(limit, sizeof(limit)) : "");
			lost_abort(70, why);
		}
		lost_rank(job.first[l.rank], "its connection is broken");
	}
}

static int kernel_fd(void)
{
	return dsm;
}

const struct host_ops host_kernel = {
	.name = "kmod",
	.kind = HOST_KERNEL,
	.regions = DSM_REGIONS_MAX,
	.barriers = DSM_BARRIERS_MAX,
	.shared = true,
	.open = kernel_open,
	.join = kernel_join,
	.connect = kernel_connect,
	.close = kernel_close,
	.fd = kernel_fd,
	.lost = kernel_lost,
	.check_waits = stall_check_kernel,
	.attach = kernel_attach,
	.detach = kernel_detach,
	.leave = kernel_leave,
	.quiet = kernel_quiet,
	.purge = kernel_purge,
	.fault = kernel_fault,
	.fetch = kernel_fetch,
	.release = kernel_release,
	.pin = kernel_pin,
	.unpin = kernel_unpin,
	.place = kernel_place,
	.count = kstats_count,
	.transfers = kstats_transfers,
	.frames = kstats_frames,
	.vectors = kstats_vectors,
};

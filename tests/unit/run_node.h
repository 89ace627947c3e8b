/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run_node.h - node 0 of a job of three, which handles messages of the others and notes what it has
 * done. Each message arrives in its own process, because a loss ends the process.
 */
#ifndef UNIT_RUN_NODE_H
#define UNIT_RUN_NODE_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../wire_values.h"
#include "calls/call.h"
#include "calls/region.h"
#include "fault/fault.h"
#include "fault/frames.h"
#include "job/job.h"
#include "job/memory.h"
#include "miss/block.h"
#include "miss/run.h"
#include "miss/work.h"
#include "net/net.h"
#include "start/nodes.h"
#include "start/start.h"
#include "suite.h"

#define RANKS 4 /* 0; 1 and 2; 3 */
#define NODES 3
#define SPACE (64ul << 20)
#define SLOT 5
#define RUNS 8u /* pages that are looked at */

/* ---- the node ------------------------------------------------------------------------------- */

/* What the process that handled a message has done. */
static struct seen {
	unsigned int drops[RANKS], sent[RANKS], opened;
	unsigned int lowered, before; /* runs of blocks: all, and those before the first message */
	size_t filled;                /* bytes */
	uint8_t contents[4];          /* the first byte of each page of the last fill */
	struct msg bye[RANKS], last;  /* last: to any rank */
	size_t last_size;
	uint8_t ends[RUNS]; /* the last byte of each page of the last payload, from its end */
} * seen;

static int note_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		     size_t size)
{
	const uint8_t *end = (const uint8_t *)payload + size;
	unsigned int i;

	(void)n;
	if (!seen->last.type)
		seen->before = seen->lowered;
	seen->sent[rank]++;
	seen->last = *m;
	seen->last_size = size;
	for (i = 0; i < RUNS; i++)
		seen->ends[i] = size > i * PAGE_BYTES ? end[-1 - (int)(i * PAGE_BYTES)] : 0;
	if (m->type == MSG_BYE)
		seen->bye[rank] = *m;
	return 0;
}

static void note_drop(struct net *n, uint16_t rank)
{
	(void)n;
	seen->drops[rank]++;
}

static const struct net_ops net = { .name = "noting", .send = note_send, .drop = note_drop };

static void (*meanwhile)(void); /* what another thread does while a block is filled, once */

static int fill(unsigned int who, size_t off, size_t len, const void *src, enum prot prot)
{
	void (*fn)(void) = meanwhile;

	size_t at;

	(void)who, (void)off, (void)prot;
	seen->opened++;
	seen->filled += len;
	for (at = 0; at < len && at < sizeof(seen->contents) * PAGE_BYTES; at += PAGE_BYTES)
		seen->contents[at / PAGE_BYTES] = ((const uint8_t *)src)[at];
	meanwhile = NULL;
	if (fn)
		fn();
	return 0;
}

static int zero(unsigned int who, size_t off, size_t len)
{
	(void)who, (void)off;
	seen->opened++;
	seen->filled += len;
	return 0;
}

static int shut(size_t off, size_t len)
{
	(void)off, (void)len;
	return 0;
}

static int lower(size_t off, size_t len)
{
	seen->lowered++;
	return shut(off, len);
}

static const struct fault_ops fault = {
	.name = "noting", .fill = fill, .zero = zero, .shut = shut, .lower = lower
};

static void set_up(void)
{
	const struct ctl_shape shape = {
		.size = RANKS, .nodes = NODES, .ranks = 1, .space = SPACE
	};
	uint16_t r;

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unit_require(seen != MAP_FAILED && !work_start());
	job.size = RANKS;
	job.up = &engine_upcalls;
	job.set.space = SPACE;
	job.netops = &net;
	job.net = (struct net *)&job; /* non-null: there is a transport */
	job.fault = &fault;
	job.state = CTL_RUNNING;
	job.ranks = calloc(RANKS, sizeof(*job.ranks));
	job.regions = calloc(2, sizeof(*job.regions));
	job.units = calloc(SPACE / UNIT_BYTES, sizeof(*job.units));
	unit_require(job.ranks && job.regions && job.units);
	for (r = 0; r < RANKS; r++)
		job.ranks[r] = (struct rank_info){ .doorbell = -1, .pidfd = -1, .life = -1 };
	unit_require(!nodes_make((const uint64_t[]){ 1, 2, 2, 3 }, 0));
	ctl_layout(&job.layout, &shape);
	unit_require(!memory_start());
	frames_node.memfd = job.mem.memfd;
	job.mine->state = CTL_RUNNING;
	job.limits = (struct wire_limits){ .me = 0,
					   .nnodes = NODES,
					   .ranks = RANKS,
					   .host = HOST_LIBRARY,
					   .calls = CALL_OPS,
					   .block_slots = ctl_block_slots(NODES),
					   .slots = CTL_ALL_SLOTS,
					   .holds = CTL_HOLDS,
					   .barriers = RANKS * CTL_BARRIERS,
					   .pages = SPACE >> PAGE_SHIFT,
					   .block_pages = BLOCK_MAX >> PAGE_SHIFT };
}

/* The first unit of the window is a region with such blocks, whose home is this rank. */
static void at_home_of(uint16_t rank, uint32_t block_size)
{
	job.regions[1] = (struct dsm_region){ .id = 1,
					      .size = UNIT_BYTES,
					      .bytes = UNIT_BYTES,
					      .block_size = block_size,
					      .home_policy = DSM_HOME_FIXED,
					      .home_rank = rank,
					      .attached = true };
	job.units[0] = 2;
	job.mem.mapped[0] = 1;
	job.mem.regions[0] = 0;
	region_enter(&job.regions[1]);
}

static inline void at_home(uint16_t rank)
{
	at_home_of(rank, PAGE_BYTES);
}

/* ---- what comes of a message ---------------------------------------------------------------- */

static char said[4096];

/*
 * Map a private copy of the node's memory, so that the next message finds it unchanged. A child
 * does not inherit the mapping itself.
 */
static void own_memory(void)
{
	unit_require(mmap(job.me, job.layout.total, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, job.mem.ctlfd, 0) == job.me);
}

/* Let a process call fn(), and return its exit status. */
static int apart(void (*fn)(const void *), const void *arg)
{
	const int fd = memfd_create("said", 0);
	ssize_t n;
	int status;
	pid_t pid;

	memset(seen, 0, sizeof(*seen));
	pid = fork();
	unit_require(fd >= 0 && pid >= 0);
	if (!pid) {
		job.mypid = getpid();
		own_memory();
		dup2(fd, STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	unit_require(waitpid(pid, &status, 0) == pid);
	n = pread(fd, said, sizeof(said) - 1, 0);
	unit_require(n >= 0);
	said[n] = 0;
	close(fd);
	return status;
}

struct heard {
	const struct msg *m;
	const void *payload;
	size_t size;
	unsigned int times;
};

static void hear_all(const void *arg)
{
	const struct heard *h = arg;
	unsigned int i;

	for (i = 0; i < h->times; i++)
		run_net(NULL, h->m, h->payload, h->size);
}

/* Let a process handle m so many times, and return its exit status. */
static int hear(const struct msg *m, const void *payload, size_t size, unsigned int times)
{
	const struct heard h = { m, payload, size, times };

	return apart(hear_all, &h);
}

static inline void taken(const struct msg *m, const void *payload, size_t size)
{
	const int status = hear(m, payload, size, 1);
	uint16_t r;

	if (!WIFEXITED(status) || WEXITSTATUS(status) || *said)
		ck_abort_msg("%s of node %d: status %#x, %s", wire_name(m->type), m->src,
			     (unsigned int)status, said);
	for (r = 0; r < RANKS; r++)
		unit_require(!seen->drops[r] && !seen->bye[r].type);
}

/* The node must drop the sender's node and name it, and tell the others that this rank leaves, with
 * its status. answers: what the sender has got before. */
static inline void was_refused(const struct msg *m, int status, unsigned int answers)
{
	char want[512];
	uint16_t n;

	snprintf(want, sizeof(want),
		 "libdsm: node %d sent %s for object %#x, which no correct node could\n"
		 "libdsm: rank %d is lost: it broke the protocol. The job ends with status 70.\n",
		 m->src, wire_name(m->type), m->object, job.first[m->src]);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 70 || strcmp(said, want))
		ck_abort_msg("%s of node %d: status %#x, %s", wire_name(m->type), m->src,
			     (unsigned int)status, said);
	for (n = 1; n < NODES; n++) {
		unit_require(seen->drops[job.pair[n]] == (n == m->src));
		unit_require(seen->sent[job.pair[n]] == 1 + (n == m->src ? answers : 0));
		unit_require(seen->bye[job.pair[n]].op == 1);
		unit_require(seen->bye[job.pair[n]].aux == 70);
	}
}

/* A valid message: a request is the sender's own, an answer has no error. */
static inline struct msg of(uint8_t type, uint16_t node)
{
	struct msg m = wire_good(type, node, &job.limits);

	if (wire_rule_of(type, WF_req_node) == RULE_NODE)
		m.req_node = node;
	if (wire_rule_of(type, WF_count) == RULE_ERRNO)
		m.count = 0;
	if (wire_rule_of(type, WF_object) == RULE_BLOCK)
		m.object = block_id(PAGE_BYTES, PAGE_BYTES);
	return m;
}

static inline struct copy *copy_of(const struct msg *m)
{
	return &job.mem.pages[block_page(m->object)];
}

#endif

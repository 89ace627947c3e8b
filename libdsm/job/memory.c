// SPDX-License-Identifier: BSD-2-Clause
/*
 * memory.c - the memory objects of this node, made by its first rank and handed to the others
 * (rendezvous.c). Memfds leave nothing behind, however a rank dies.
 */
#include "job/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job/job.h"
#include "job/lost.h"
#include "job/rendezvous.h"
#include "util/futex.h"
#include "util/log.h"

int memory_no_descriptors(const char *what)
{
	int err = -errno;

	log_line(
		"%s: %s%s", what, dsm_strerror(err),
		err == -EMFILE
			? " (a rank needs about 3 descriptors for each other one of its host; raise `ulimit -n`)"
			: "");
	return err;
}

static void point(char *at)
{
	const struct ctl_layout *l = &job.layout;
	uint16_t r;

	job.me = (struct ctl *)at;
	job.mem.bars = (struct bar *)(at + l->bars);
	job.mem.objects = (struct sync *)(at + l->objects);
	job.mem.nodes = (struct queue_entry *)(at + l->nodes);
	job.mem.lines = (struct queue_entry *)(at + l->lines);
	job.mem.calls = (struct due_call *)(at + l->calls);
	job.mem.pages = (struct copy *)(at + l->pages);
	job.mem.dirs = (struct dir *)(at + l->dirs);
	job.mem.transfers = (uint32_t *)(at + l->transfers);
	job.mem.sharing = (struct sharing_page *)(at + l->sharing);
	job.mem.chunks = (struct footprint *)(at + l->chunks);
	job.mem.recent = (uint8_t *)(at + l->recent);
	job.mem.kept = (uint8_t *)(at + l->kept);
	job.mem.rels = (struct rel *)(at + l->rels);
	job.mem.twin_of = (uint32_t *)(at + l->twin_of);
	job.mem.twin_next = (uint32_t *)(at + l->twin_next);
	job.mem.peers = (struct closing_peer *)(at + l->peers);
	job.mem.held = (struct closing_held *)(at + l->held);
	job.mem.closes = (struct closing_ctx){ .me = job.node,
					       .nnodes = job.nodes,
					       .lists = &job.me->rel_lists,
					       .peers = job.mem.peers,
					       .held = job.mem.held,
					       .nheld = CTL_HELD };
	job.mem.stage = at + l->stage;
	job.mem.va_units = (struct va_alloc_unit *)(at + l->va_units);
	job.mem.members = (uint16_t *)(at + l->members);
	job.mem.mapped = (uint16_t *)(at + l->mapped);
	job.mem.regions = (uint16_t *)(at + l->regions);
	job.mem.priorities = (uint8_t *)(at + l->priorities);
	job.mem.live = (uint64_t *)(at + l->live);
	job.mem.marked = (uint64_t *)(at + l->marked);
	job.mem.empty = (uint64_t *)(at + l->empty);
	job.mem.units = (struct units *)(at + l->units);
	for (r = 0; r < job.size; r++) {
		struct rank_info *p = rank_info(r);

		if (!is_here(r))
			continue;
		p->ctl = (struct rank_ctl *)(at + l->ranks) + p->local;
		p->heap = (struct heap_shared *)(at + l->heap + p->local * l->heap_each);
	}
	job.mine = rank_info(job.rank)->ctl;
	job.mine->pid = getpid();
}

/* A rank of a node of several counts its own threads in a barrier. */
static int make_parts(void)
{
	const size_t bytes = (size_t)job.size * CTL_BARRIERS * sizeof(*job.parts);

	if (job.locals == 1)
		return 0;
	job.parts = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (job.parts == MAP_FAILED) {
		job.parts = NULL;
		return -ENOMEM;
	}
	return 0;
}

int memory_map(void)
{
	char *at = mmap(NULL, job.layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			job.mem.ctlfd, 0);

	if (at == MAP_FAILED) {
		log_line(
			"cannot map %zu MiB of control memory: %s (a smaller DSM_SPACE needs less)",
			job.layout.total >> 20, dsm_strerror(errno));
		return -ENOMEM;
	}
	madvise(at, job.layout.total, MADV_DONTFORK);
	point(at);
	return make_parts();
}

static int memory_make_object(const char *name, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		return memory_no_descriptors("cannot make shared memory");
	if (ftruncate(fd, (off_t)size)) {
		int err = memory_no_descriptors("cannot size shared memory");

		close(fd);
		return err;
	}
	return fd;
}

int memory_start(void)
{
	struct rank_info *p = rank_info(job.rank);
	int err;

	p->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->doorbell < 0)
		return memory_no_descriptors("cannot make an eventfd");
	if (job.local)
		return 0; /* the node's first rank makes its memory */
	job.mem.ctlfd = memory_make_object("libdsm-control", job.layout.file);
	if (job.mem.ctlfd < 0)
		return job.mem.ctlfd;
	job.mem.memfd = memory_make_object("libdsm-frames", job.set.space);
	if (job.mem.memfd < 0)
		return job.mem.memfd;
	err = memory_map();
	if (err)
		return err;
	job.me->magic = CTL_MAGIC;
	job.me->abi = CTL_ABI;
	job.me->node = job.node;
	job.me->ranks = job.locals;
	if (job.nodes > 1)
		job.me->keep.quantum.length = job.set.quantum_ms * QUANTUM_MS_NS;
	return 0;
}

/*
 * Lasting slots need a place only while other ranks keep blocks pinned. Address space for all of
 * them would be 120 GiB, so map a place when it is needed.
 */
char *memory_stage(uint16_t slot, size_t bytes)
{
	char *at;

	if (slot < CTL_BLOCK_END)
		return job.mem.stage + (size_t)slot * BLOCK_MAX;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job.mem.ctlfd,
		  (off_t)(job.layout.stage_last + (size_t)(slot - CTL_BRIEF_END) * BLOCK_MAX));
	if (at == MAP_FAILED) {
		log_line("cannot map %zu bytes for a block: %s", bytes, dsm_strerror(errno));
		lost_abort(70, "out of memory for shared blocks");
	}
	return at;
}

void memory_unstage(uint16_t slot, char *at, size_t bytes, bool used)
{
	if (slot < CTL_BLOCK_END)
		return;
	if (used)
		madvise(at, bytes, MADV_REMOVE);
	munmap(at, bytes);
}

static char *alias, *twins; /* atomic */

/* Another thread may map it at the same time: one of the mappings goes. */
static char *map_late(char **where, int fd, size_t off)
{
	char *at, *none = NULL;

	at = mmap(NULL, job.set.space, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		  (off_t)off);
	if (at == MAP_FAILED) {
		log_line(
			"cannot map %zu MiB for release blocks: %s (a smaller DSM_SPACE needs less)",
			job.set.space >> 20, dsm_strerror(errno));
		lost_abort(70, "out of memory for shared blocks");
	}
	madvise(at, job.set.space, MADV_DONTFORK);
	if (__atomic_compare_exchange_n(where, &none, at, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return at;
	munmap(at, job.set.space);
	return none;
}

char *memory_alias(size_t off)
{
	char *at = __atomic_load_n(&alias, __ATOMIC_ACQUIRE);

	return (at ? at : map_late(&alias, job.mem.memfd, 0)) + off;
}

char *memory_twin(uint32_t number)
{
	char *at = __atomic_load_n(&twins, __ATOMIC_ACQUIRE);

	return (at ? at : map_late(&twins, job.mem.ctlfd, job.layout.twins)) +
		(size_t)number * PAGE_BYTES;
}

static void unmap_late(char **where)
{
	if (*where)
		munmap(*where, job.set.space);
	*where = NULL;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void memory_stop(void)
{
	uint16_t r;

	rendezvous_stop();
	for (r = 0; job.ranks && r < job.size; r++) {
		struct rank_info *p = rank_info(r);

		p->ctl = NULL;
		close_fd(&p->doorbell);
		close_fd(&p->pidfd);
		close_fd(&p->life);
	}
	unmap_late(&alias);
	unmap_late(&twins);
	if (job.me)
		munmap(job.me, job.layout.total);
	if (job.parts)
		munmap(job.parts, (size_t)job.size * CTL_BARRIERS * sizeof(*job.parts));
	close_fd(&job.mem.ctlfd);
	close_fd(&job.mem.memfd);
	job.parts = NULL;
	job.mine = NULL;
	job.me = NULL;
}

/*
 * The index of the first element of an array in the control segment, at or after i, that lies in
 * allocated memory; end if there is none. Reading the others would allocate memory.
 */
static size_t next_used(size_t array, size_t each, size_t i, size_t end)
{
	off_t at = (off_t)(array + i * each), data;

	if (i >= end)
		return end;
	if ((size_t)at % PAGE_BYTES >= each)
		return i; /* the element before it is on the same page */
	data = lseek(job.mem.ctlfd, at, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		return end;
	if (data <= at)
		return i;
	i = ((size_t)data - array) / each;
	return i < end ? i : end;
}

size_t memory_next_used(size_t off, size_t end)
{
	return next_used(job.layout.pages, sizeof(struct copy), off >> PAGE_SHIFT,
			 end >> PAGE_SHIFT)
		<< PAGE_SHIFT;
}

size_t memory_next_rel(size_t off, size_t end)
{
	return next_used(job.layout.rels, sizeof(struct rel), off >> PAGE_SHIFT, end >> PAGE_SHIFT)
		<< PAGE_SHIFT;
}

size_t memory_next_missed(size_t off, size_t end)
{
	return next_used(job.layout.sharing, sizeof(struct sharing_page), off >> PAGE_SHIFT,
			 end >> PAGE_SHIFT)
		<< PAGE_SHIFT;
}

bool memory_quiet(size_t off, size_t end)
{
	const struct memory *p = &job.mem;
	size_t first = off >> PAGE_SHIFT, last = end >> PAGE_SHIFT, i;

	for (i = next_used(job.layout.pages, sizeof(struct copy), first, last); i < last;
	     i = next_used(job.layout.pages, sizeof(struct copy), i + 1, last)) {
		uint8_t state = __atomic_load_n(&p->pages[i].state, __ATOMIC_ACQUIRE);

		if (state != PG_INVALID && state != PG_READ && state != PG_WRITE)
			return false;
	}
	for (i = next_used(job.layout.dirs, sizeof(struct dir), first, last); i < last;
	     i = next_used(job.layout.dirs, sizeof(struct dir), i + 1, last))
		if (!dir_quiet(&p->dirs[i]))
			return false;
	return true;
}

static void clear(size_t at, size_t bytes)
{
	size_t first = (at + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1),
	       last = (at + bytes) & ~(PAGE_BYTES - 1);
	char *base = (char *)job.me;

	if (first >= last) {
		memset(base + at, 0, bytes);
		return;
	}
	memset(base + at, 0, first - at);
	memset(base + last, 0, at + bytes - last);
	if (fallocate(job.mem.ctlfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
		      (off_t)(last - first)))
		memset(base + first, 0, last - first);
}

void memory_forget(size_t off, size_t bytes)
{
	size_t from = off >> PAGE_SHIFT, n = bytes >> PAGE_SHIFT;

	clear(job.layout.pages + from * sizeof(struct copy), n * sizeof(struct copy));
	clear(job.layout.dirs + from * sizeof(struct dir), n * sizeof(struct dir));
	clear(job.layout.transfers + from * sizeof(uint32_t), n * sizeof(uint32_t));
	clear(job.layout.sharing + from * sizeof(struct sharing_page),
	      n * sizeof(struct sharing_page));
	clear(job.layout.chunks + from / FOOTPRINT_PAGES * sizeof(struct footprint),
	      n / FOOTPRINT_PAGES * sizeof(struct footprint));
	if (job.set.memory)
		clear(job.layout.recent + from * sizeof(uint8_t), n * sizeof(uint8_t));
	clear(job.layout.rels + from * sizeof(struct rel), n * sizeof(struct rel));
	clear(job.layout.twin_of + from * sizeof(uint32_t), n * sizeof(uint32_t));
}

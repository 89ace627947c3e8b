// SPDX-License-Identifier: BSD-2-Clause
/*
 * maps.c - the program's mappings outside shared memory. Each lies in the range of the rank that has made it (space.c).
 *
 * A table in the heap has a list of them for each rank. A thread of another rank that accesses one faults. If it is a mapping of a
 * file that all ranks see alike (shared, or private and not writable), its rank maps the same file at the same address: it opens the
 * file by a descriptor that the maker keeps, or by its path. munmap(2) and mprotect(2) act on these ranks as well, before they
 * return. Other mappings are the maker's alone, and the access is reported.
 *
 * The lock of a list is held while a rank maps a file, so no rank maps one that was taken out of the list. Signals are blocked
 * meanwhile, because a handler may access such memory.
 */
#include "shim.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc.h"
#include "everywhere.h"
#include "interpose/raw_syscall.h"
#include "maps.h"
#include "masks.h"
#include "space.h"

#define PAGE 4096ul
#define RANKS 1024u
#define KEPT_MOST 256 /* descriptors that a rank keeps for its mappings; files mapped later are found by their path */

/* What was mapped. The pieces of a mapping share it. */
struct source {
	uint32_t pieces;
	int pid, kept; /* the maker, and its descriptor; -1: none */
	bool writes;   /* the program's descriptor was open for writing */
	uint64_t host;
	struct stat file;
	char path[PATH_MAX];
};

struct piece {
	struct piece *next;
	uintptr_t low, high;
	off_t off;
	int prot, flags;       /* prot: of a file */
	bool written;          /* private, and not the file's contents any more */
	struct source *source; /* NULL: anonymous, or no regular file */
	uint64_t on[RANKS / 64];
};

struct map_table {
	pthread_mutex_t lock;
	struct piece *first;
	char rest[PAGE - sizeof(pthread_mutex_t) - sizeof(struct piece *)];
};

static uint64_t host;
static int kept; /* number of descriptors; atomic */

/* ---- the table ------------------------------------------------------------------------------------------ */

int maps_start(void)
{
	const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char id[64] = "";
	int i;

	if (fd >= 0) {
		if (read(fd, id, sizeof(id) - 1) < 0)
			id[0] = '\0';
		close(fd);
	}
	for (i = 0; id[i]; i++)
		host = (host ^ (uint8_t)id[i]) * 0x100000001b3ull;
	if (shim.rank)
		return 0;
	team->tables = dsm_aligned_alloc(PAGE, (size_t)shim.size * sizeof(*team->tables));
	if (!team->tables)
		return -ENOMEM;
	memset(team->tables, 0, (size_t)shim.size * sizeof(*team->tables));
	return 0;
}

static uint64_t maps_lock(int rank)
{
	const uint64_t mask = block_signals();

	pthread_mutex_lock(&team->tables[rank].lock);
	return mask;
}

static void maps_unlock(int rank, uint64_t mask)
{
	pthread_mutex_unlock(&team->tables[rank].lock);
	masks_let_signals(mask);
}

static struct piece *piece_at(int rank, uintptr_t at)
{
	struct piece *p = team->tables[rank].first;

	while (p && !(p->low <= at && at < p->high))
		p = p->next;
	return p;
}

/* Make `at` the border of two pieces, if it is within one. */
static int piece_split(int rank, uintptr_t at)
{
	struct piece *p = piece_at(rank, at), *more;

	if (!p || p->low == at)
		return 0;
	more = shared_alloc(sizeof(*more));
	if (!more)
		return -ENOMEM;
	*more = *p;
	more->low = at;
	more->off += (off_t)(at - p->low);
	if (more->source)
		more->source->pieces++;
	p->high = at;
	p->next = more;
	return 0;
}

/* Run by the maker. */
static void *source_close(void *arg)
{
	struct source *s = arg;
	const long words[6] = { s->kept };

	if (s->kept >= 0) {
		raw_syscall(SYS_close, words);
		__atomic_fetch_sub(&kept, 1, __ATOMIC_RELAXED);
	}
	free(s);
	return NULL;
}

/* ---- calls of other ranks ------------------------------------------------------------------------------- */

/* In the heap. */
struct change {
	uintptr_t low, high;
	int prot;
};

struct visit {
	int rank;
	void *(*fn)(void *);
	void *arg;
	int err;
};

static void call_visit(void *arg)
{
	struct visit *out = arg, v = *out;

	v.err = everywhere_one(v.rank, v.fn, v.arg);
	*out = v;
}

/* fn(arg) by a thread of that rank, which returns 0 or -errno; arg is in the heap. */
static int visit(int rank, void *(*fn)(void *), void *arg)
{
	struct visit v = { .rank = rank, .fn = fn, .arg = arg };
	int state;

	if (rank == shim.rank)
		return (int)(intptr_t)fn(arg);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	dsm_call(call_visit, &v);
	pthread_setcancelstate(state, &state);
	return v.err;
}

static void *close_here(void *arg)
{
	const struct change c = *(struct change *)arg;

	return (void *)(intptr_t)space_close((void *)c.low, c.high - c.low);
}

static void *unmap_here(void *arg)
{
	const struct change c = *(struct change *)arg;
	const long words[6] = { (long)c.low, (long)(c.high - c.low) };

	return (void *)(intptr_t)(raw_syscall(SYS_munmap, words) ? -errno : 0);
}

static void *protect_here(void *arg)
{
	const struct change c = *(struct change *)arg;
	const long words[6] = { (long)c.low, (long)(c.high - c.low), c.prot };

	return (void *)(intptr_t)(raw_syscall(SYS_mprotect, words) ? -errno : 0);
}

/* On each rank of the set. */
static void visit_all(const uint64_t *on, void *(*fn)(void *), struct change *c)
{
	int r;

	for (r = 0; r < shim.size; r++)
		if (on[r / 64] >> (r % 64) & 1)
			visit(r, fn, c);
}

/* ---- changes -------------------------------------------------------------------------------------------- */

/* Take the pieces of [low, high) out of the table of rank. on: the other ranks that have mapped some. Returns the list. */
static struct piece *take_pieces(int rank, uintptr_t low, uintptr_t high, uint64_t *on)
{
	struct piece **at = &team->tables[rank].first, *p, *taken = NULL;
	unsigned int i;

	while ((p = *at)) {
		if (p->high <= low || p->low >= high) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->next = taken;
		taken = p;
		for (i = 0; i < RANKS / 64; i++)
			on[i] |= p->on[i];
	}
	return taken;
}

static void drop_pieces(int rank, struct piece *taken)
{
	struct piece *p;
	struct source *s;
	uint64_t mask;
	bool last;

	while ((p = taken)) {
		taken = p->next;
		s = p->source;
		free(p);
		if (!s)
			continue;
		mask = maps_lock(rank);
		last = --s->pieces == 0;
		maps_unlock(rank, mask);
		if (last)
			visit(rank, source_close, s);
	}
}

/* Forget the mappings of a range, on all ranks but the one that has made them. */
static int maps_forget(int rank, uintptr_t low, uintptr_t high)
{
	struct change *c = shared_alloc(sizeof(*c));
	uint64_t on[RANKS / 64] = { 0 }, mask;
	struct piece *taken = NULL;
	int err;

	if (!c)
		return -ENOMEM;
	*c = (struct change){ .low = low, .high = high };
	mask = maps_lock(rank);
	err = piece_split(rank, low);
	if (!err)
		err = piece_split(rank, high);
	if (!err)
		taken = take_pieces(rank, low, high, on);
	maps_unlock(rank, mask);
	visit_all(on, close_here, c);
	drop_pieces(rank, taken);
	free(c);
	return err;
}

static int maps_result(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

static uintptr_t end_of(void *addr, size_t length)
{
	return (uintptr_t)addr + ((length + PAGE - 1) & ~(PAGE - 1));
}

int maps_unmap(void *addr, size_t length)
{
	const int owner = space_owner(addr);
	struct change *c;
	int err;

	if (owner < 0 || !length || ((uintptr_t)addr & (PAGE - 1)))
		return maps_result(space_unmap(addr, length));
	c = shared_alloc(sizeof(*c));
	if (!c)
		return -1;
	*c = (struct change){ .low = (uintptr_t)addr, .high = end_of(addr, length) };
	err = maps_forget(owner, c->low, c->high);
	if (!err)
		err = visit(owner, unmap_here, c);
	free(c);
	return maps_result(err);
}

/* The ranks that follow the new protection, and those that may not map the file any longer. */
static int note_protection(int rank, const struct change *c, uint64_t *follow, uint64_t *leave)
{
	const uint64_t mask = maps_lock(rank);
	struct piece *p = piece_at(rank, c->low);
	const bool anonymous = p && !p->source && p->high >= c->high; /* no other rank maps it */
	unsigned int i;
	int err = anonymous ? 0 : piece_split(rank, c->low);

	if (!err && !anonymous)
		err = piece_split(rank, c->high);
	for (p = anonymous ? NULL : team->tables[rank].first; !err && p; p = p->next) {
		if (p->low < c->low || p->high > c->high)
			continue;
		p->prot = c->prot;
		p->written |= (c->prot & PROT_WRITE) && (p->flags & MAP_TYPE) == MAP_PRIVATE;
		for (i = 0; i < RANKS / 64; i++) {
			*((p->written ? leave : follow) + i) |= p->on[i];
			if (p->written)
				p->on[i] = 0;
		}
	}
	maps_unlock(rank, mask);
	return err;
}

int maps_protect(void *addr, size_t length, int prot)
{
	const int owner = space_owner(addr);
	uint64_t follow[RANKS / 64] = { 0 }, leave[RANKS / 64] = { 0 };
	struct change *c;
	int err;

	c = shared_alloc(sizeof(*c));
	if (!c)
		return -1;
	*c = (struct change){ .low = (uintptr_t)addr, .high = end_of(addr, length), .prot = prot };
	if (owner < 0) {
		err = (int)(intptr_t)protect_here(c);
	} else {
		err = note_protection(owner, c, follow, leave);
		visit_all(leave, close_here, c);
		visit_all(follow, protect_here, c);
		if (!err)
			err = visit(owner, protect_here, c);
	}
	free(c);
	return maps_result(err);
}

/* ---- new mappings --------------------------------------------------------------------------------------- */

/* A descriptor for the file alone: closing it releases no locks of the program. */
static int maps_keep_fd(int fd)
{
	char name[64];
	int path, high;

	if (__atomic_fetch_add(&kept, 1, __ATOMIC_RELAXED) >= KEPT_MOST)
		goto none;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	path = (int)raw_syscall(SYS_open, (const long[6]){ (long)name, O_PATH | O_CLOEXEC });
	if (path < 0)
		goto none;
	high = (int)raw_syscall(SYS_fcntl, (const long[6]){ path, F_DUPFD_CLOEXEC, 512 });
	if (high < 0)
		return path;
	raw_syscall(SYS_close, (const long[6]){ path });
	return high;
none:
	__atomic_fetch_sub(&kept, 1, __ATOMIC_RELAXED);
	return -1;
}

/* NULL: no regular file, or no memory. */
static struct source *source_of(int fd)
{
	struct stat file;
	char name[64], path[PATH_MAX];
	struct source *s;
	ssize_t n;
	int flags;

	if (fstat(fd, &file) || !S_ISREG(file.st_mode))
		return NULL;
	s = shared_alloc(sizeof(*s));
	if (!s)
		return NULL;
	flags = (int)raw_syscall(SYS_fcntl, (const long[6]){ fd, F_GETFL });
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = raw_syscall(SYS_readlink, (const long[6]){ (long)name, (long)path, sizeof(path) - 1 });
	path[n < 0 ? 0 : n] = '\0';
	s->pieces = 1;
	s->pid = (int)raw_syscall(SYS_getpid, (const long[6]){ 0 });
	s->kept = maps_keep_fd(fd);
	s->writes = (flags & O_ACCMODE) == O_RDWR;
	s->host = host;
	s->file = file;
	strcpy(s->path, path);
	return s;
}

static void note_piece(uintptr_t low, uintptr_t high, const struct piece *like)
{
	struct piece *p = shared_alloc(sizeof(*p));
	uint64_t mask;

	if (!p)
		return; /* the mapping is this rank's alone */
	*p = *like;
	p->low = low;
	p->high = high;
	memset(p->on, 0, sizeof(p->on));
	mask = maps_lock(shim.rank);
	p->next = team->tables[shim.rank].first;
	team->tables[shim.rank].first = p;
	maps_unlock(shim.rank, mask);
}

void *maps_map(void *addr, size_t length, int prot, int flags, int fd, off_t off)
{
	const bool fixed = flags & MAP_FIXED;
	struct piece p = { .prot = prot, .flags = flags, .off = off };
	void *at;
	int err;

	if (fixed && !space_has(addr)) {
		start_cannot("mmap() with MAP_FIXED outside the mappings of the rank");
		errno = ENOTSUP;
		return MAP_FAILED;
	}
	err = fixed && space_owner(addr) >= 0 ? maps_forget(shim.rank, (uintptr_t)addr, end_of(addr, length)) : 0;
	if (err) {
		errno = -err;
		return MAP_FAILED;
	}
	at = space_map(addr, length, prot, flags, fd, off);
	if (at == MAP_FAILED || space_owner(at) < 0)
		return at;
	p.written = (prot & PROT_WRITE) && (flags & MAP_TYPE) == MAP_PRIVATE;
	p.source = flags & MAP_ANONYMOUS ? NULL : source_of(fd);
	note_piece((uintptr_t)at, end_of(at, length), &p);
	return at;
}

/* The piece of a whole mapping that is moved; false: there is none. */
static bool piece_of(int rank, uintptr_t low, uintptr_t high, struct piece *out)
{
	const uint64_t mask = maps_lock(rank);
	struct piece *p = piece_at(rank, low);
	const bool whole = p && p->low == low && p->high == high;

	if (whole) {
		*out = *p;
		if (p->source)
			p->source->pieces++;
	}
	maps_unlock(rank, mask);
	return whole;
}

void *maps_move(void *addr, size_t old, size_t length, int flags, void *to)
{
	const int owner = space_owner(addr);
	const long words[6] = { (long)addr, (long)old, (long)length, flags, (long)to };
	struct piece p;
	bool known;
	void *at;
	int err;

	if (owner < 0)
		return (void *)raw_syscall(SYS_mremap, words);
	if (owner != shim.rank || ((flags & MREMAP_FIXED) && !space_has(to))) {
		errno = start_cannot(
			"mremap() of another rank's mapping, or to a fixed address outside the rank's mappings");
		return MAP_FAILED;
	}
	known = piece_of(owner, (uintptr_t)addr, end_of(addr, old), &p);
	err = maps_forget(owner, (uintptr_t)addr, end_of(addr, old));
	if (!err && (flags & MREMAP_FIXED))
		err = maps_forget(owner, (uintptr_t)to, end_of(to, length));
	if (err) {
		errno = -err;
		return MAP_FAILED;
	}
	at = (void *)raw_syscall(SYS_mremap, words);
	if (known && at != MAP_FAILED)
		note_piece((uintptr_t)at, end_of(at, length), &p);
	else if (known)
		note_piece(p.low, p.high, &p);
	return at;
}

/* ---- accesses by other ranks ---------------------------------------------------------------------------- */

static bool maps_is_same(const struct stat *a, const struct stat *b, bool here)
{
	if (here)
		return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
	return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
		a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int open_path(const char *path, const struct source *s)
{
	const int way = s->writes ? O_RDWR : O_RDONLY;
	const int fd = (int)raw_syscall(SYS_open, (const long[6]){ (long)path, way | O_CLOEXEC });
	struct stat now;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &now) && maps_is_same(&now, &s->file, s->host == host))
		return fd;
	raw_syscall(SYS_close, (const long[6]){ fd });
	return -ESTALE;
}

/* A descriptor of the file, or -errno. */
static int maps_open_again(const struct source *s)
{
	char name[64];
	int fd = -ENOENT;

	if (s->host == host && s->kept >= 0) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%d", s->pid, s->kept);
		fd = open_path(name, s);
	}
	return fd < 0 ? open_path(s->path, s) : fd;
}

static int map_here(const struct piece *p, const struct source *s)
{
	const int type = (p->flags & MAP_TYPE) == MAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED, fd = maps_open_again(s);
	long at;

	if (fd < 0)
		return fd;
	at = raw_syscall(SYS_mmap,
			 (const long[6]){ (long)p->low, (long)(p->high - p->low), p->prot,
					  type | MAP_FIXED | MAP_NORESERVE, fd, p->off });
	raw_syscall(SYS_close, (const long[6]){ fd });
	return at == (long)p->low ? 0 : -errno;
}

static void maps_report(void *addr, int write, int owner, const char *what, const char *path)
{
	start_print("%s of address %p, which is private memory of rank %d: %s%s%s; see dsm-cc(1), \"Private memory\"",
		    write ? "write" : "read", addr, owner, what, path ? " " : "", path ? path : "");
}

/* Why no other rank can map it; NULL: it can. */
static const char *unshareable(const struct piece *p)
{
	if (!p->source)
		return p->flags & MAP_ANONYMOUS ? "an anonymous mapping" : "a mapping of a device";
	if (p->written)
		return "a private, writable mapping of";
	if (p->source->host != host && (p->prot & PROT_WRITE))
		return "a shared, writable mapping, made on another host, of";
	return NULL;
}

/* With the lock of the owner's list. */
static int maps_serve(struct piece *p, void *addr, int write, int owner)
{
	struct source s;
	const char *why;
	char text[64];
	int err;

	if (p->source && !(p->prot & (write ? PROT_WRITE : PROT_READ | PROT_WRITE | PROT_EXEC)))
		return 0; /* it would fault in the maker as well */
	if (p->on[shim.rank / 64] >> (shim.rank % 64) & 1)
		return 1; /* another thread was faster */
	why = unshareable(p);
	if (p->source)
		s = *p->source;
	err = why ? 0 : map_here(p, &s);
	if (!why && !err) {
		p->on[shim.rank / 64] |= 1ull << (shim.rank % 64);
		return 1;
	}
	if (!why) {
		snprintf(text, sizeof(text), "a mapping (%s) of", strerrorname_np(-err));
		why = text;
	}
	maps_report(addr, write, owner, why, p->source ? s.path : NULL);
	return 0;
}

int maps_fault(void *addr, int write, int inside)
{
	const int owner = space_owner(addr);
	struct piece *p;
	uint64_t mask;
	int served;

	if (owner < 0 || owner == shim.rank)
		return 0;
	if (inside) {
		maps_report(addr, write, owner, "a mapping, passed to a function of libdsm", NULL);
		return 0;
	}
	mask = maps_lock(owner);
	p = piece_at(owner, (uintptr_t)addr);
	served = p ? maps_serve(p, addr, write, owner) : 0;
	maps_unlock(owner, mask);
	if (!p)
		maps_report(addr, write, owner, "a library's, a stack, or thread-local", NULL);
	return served;
}

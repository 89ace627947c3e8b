// SPDX-License-Identifier: BSD-2-Clause
/*
 * maps.c - the program's mappings outside shared memory. Each lies in the range of the rank that
 * has made it (space.c).
 *
 * A table in the heap has a list of them for each rank (pieces.c). A thread of another rank that
 * accesses one faults. If it is a mapping of a file that all ranks see alike (shared, or private
 * and not writable), its rank maps the same file at the same address: it opens the file as
 * sources.c says. munmap(2) and mprotect(2) act on these ranks as well, before they
 * return. Other mappings are the maker's alone, and the access is reported.
 *
 * The lock of a list is held while a rank maps a file, so no rank maps one that was taken out of
 * the list. Signals are blocked meanwhile, because a handler may access such memory.
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
#include "pieces.h"
#include "sources.h"
#include "space.h"
#include "util/sizes.h"

#define RANKS PIECES_RANKS

int maps_start(void)
{
	sources_start();
	return pieces_start();
}

/* ---- calls of other ranks -------------------------------------------------------------------- */

/* In the heap. */
struct change {
	uintptr_t low, high;
	int prot;
};

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
			everywhere_visit(r, fn, c);
}

/* ---- changes --------------------------------------------------------------------------------- */

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
		mask = pieces_lock(rank);
		last = source_drop(rank, s);
		pieces_unlock(rank, mask);
		if (last)
			everywhere_visit(rank, source_close, s);
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
	mask = pieces_lock(rank);
	err = pieces_split(rank, low, high);
	if (!err)
		taken = pieces_take(rank, low, high, on);
	pieces_unlock(rank, mask);
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
	return (uintptr_t)addr + ((length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));
}

int maps_unmap(void *addr, size_t length)
{
	const int owner = space_owner(addr);
	struct change *c;
	int err;

	if (owner < 0 || !length || ((uintptr_t)addr & (PAGE_BYTES - 1)))
		return maps_result(space_unmap(addr, length));
	c = shared_alloc(sizeof(*c));
	if (!c)
		return -1;
	*c = (struct change){ .low = (uintptr_t)addr, .high = end_of(addr, length) };
	err = maps_forget(owner, c->low, c->high);
	if (!err)
		err = everywhere_visit(owner, unmap_here, c);
	free(c);
	return maps_result(err);
}

/* The ranks that follow a new protection, and those that may not map the file any longer. */
struct protection {
	int prot;
	uint64_t follow[RANKS / 64], leave[RANKS / 64];
};

static void note_protection(struct piece *p, void *arg)
{
	struct protection *n = arg;
	unsigned int i;

	p->prot = n->prot;
	p->written |= (n->prot & PROT_WRITE) && (p->flags & MAP_TYPE) == MAP_PRIVATE;
	for (i = 0; i < RANKS / 64; i++) {
		(p->written ? n->leave : n->follow)[i] |= p->on[i];
		if (p->written)
			p->on[i] = 0;
	}
}

static int note_protections(int rank, const struct change *c, struct protection *n)
{
	const uint64_t mask = pieces_lock(rank);
	const struct piece *p = piece_at(rank, c->low);
	const bool anonymous = p && !p->source && p->high >= c->high; /* no other rank maps it */
	const int err = anonymous ? 0 : pieces_split(rank, c->low, c->high);

	if (!anonymous && !err)
		pieces_each(rank, c->low, c->high, note_protection, n);
	pieces_unlock(rank, mask);
	return err;
}

int maps_protect(void *addr, size_t length, int prot)
{
	const int owner = space_owner(addr);
	struct protection n = { .prot = prot };
	struct change *c;
	int err;

	c = shared_alloc(sizeof(*c));
	if (!c)
		return -1;
	*c = (struct change){ .low = (uintptr_t)addr, .high = end_of(addr, length), .prot = prot };
	if (owner < 0) {
		err = (int)(intptr_t)protect_here(c);
	} else {
		/* if the kernel refuses it, nothing changes */
		err = everywhere_visit(owner, protect_here, c);
		if (!err)
			err = note_protections(owner, c, &n);
		visit_all(n.leave, close_here, c);
		visit_all(n.follow, protect_here, c);
	}
	free(c);
	return maps_result(err);
}

/* ---- mappings of other ranks' files, with the lock of the owner's list ----------------------- */

/* Why no other rank can map it; NULL: it can. */
static const char *unshareable(const struct piece *p)
{
	if (!p->source)
		return p->flags & MAP_ANONYMOUS ? "an anonymous mapping" : "a mapping of a device";
	if (p->written)
		return "a private, writable mapping of";
	if (!source_is_of_host(p->source) && (p->prot & PROT_WRITE))
		return "a shared, writable mapping, made on another host, of";
	return NULL;
}

static int map_here(const struct piece *p, int owner, const char *path, bool compare)
{
	const int type = (p->flags & MAP_TYPE) == MAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	const int fd = source_open(p->source, owner, path, compare);
	long at;

	if (fd < 0)
		return fd;
	at = raw_syscall(SYS_mmap,
			 (const long[6]){ (long)p->low, (long)(p->high - p->low), p->prot,
					  type | MAP_FIXED | MAP_NORESERVE, fd, p->off });
	raw_syscall(SYS_close, (const long[6]){ fd });
	return at == (long)p->low ? 0 : -errno;
}

static bool has_mapped(const struct piece *p)
{
	return p->on[shim.rank / 64] >> (shim.rank % 64) & 1;
}

/*
 * Map what the owner has mapped. path: a copy of its path; compare: as source_open() says. 0 or
 * -errno.
 */
static int map_piece(struct piece *p, int owner, const char *path, bool compare)
{
	const int err = map_here(p, owner, path, compare);

	if (!err)
		p->on[shim.rank / 64] |= 1ull << (shim.rank % 64);
	return err;
}

/* ---- new mappings ---------------------------------------------------------------------------- */

/*
 * Run by rank 0: map a file that another rank has just mapped. If it cannot, the first access says
 * why.
 */
static void *map_first(void *arg)
{
	const uintptr_t at = ((struct change *)arg)->low;
	const int owner = space_owner((void *)at);
	const uint64_t mask = pieces_lock(owner);
	struct piece *p = piece_at(owner, at);
	char path[PATH_MAX];

	if (p && !has_mapped(p) && !unshareable(p)) {
		strcpy(path, p->source->path);
		map_piece(p, owner, path, false); /* its maker waits */
	}
	pieces_unlock(owner, mask);
	return NULL;
}

/*
 * Rank 0 makes the calls on files for all threads, and the kernel, which it gives such memory, does
 * not fault as a thread does.
 */
static void tell_first(uintptr_t low)
{
	struct change *c = shim.rank ? shared_alloc(sizeof(*c)) : NULL;

	if (!c)
		return;
	*c = (struct change){ .low = low };
	everywhere_visit(0, map_first, c);
	free(c);
}

/*
 * A new mapping; fd: of its file, or -1: it has the source of p. If there is no memory for it, it
 * is this rank's alone.
 */
static void note_piece(uintptr_t low, uintptr_t high, int fd, const struct piece *p)
{
	const uint64_t mask = pieces_lock(shim.rank);
	struct piece piece = *p;
	bool last = false;

	piece.low = low;
	piece.high = high;
	if (fd >= 0)
		piece.source = source_of(fd);
	if (pieces_add(shim.rank, &piece) && piece.source)
		last = source_drop(shim.rank, piece.source);
	pieces_unlock(shim.rank, mask);
	if (last)
		source_close(piece.source);
	else if (piece.source)
		tell_first(low);
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
	err = fixed && space_owner(addr) >= 0
		? maps_forget(shim.rank, (uintptr_t)addr, end_of(addr, length))
		: 0;
	if (err) {
		errno = -err;
		return MAP_FAILED;
	}
	at = space_map(addr, length, prot, flags, fd, off);
	if (at == MAP_FAILED || space_owner(at) < 0)
		return at;
	p.written = (prot & PROT_WRITE) && (flags & MAP_TYPE) == MAP_PRIVATE;
	note_piece((uintptr_t)at, end_of(at, length), flags & MAP_ANONYMOUS ? -1 : fd, &p);
	return at;
}

/* The piece of a whole mapping that is moved; false: there is none. */
static bool piece_of(int rank, uintptr_t low, uintptr_t high, struct piece *out)
{
	const uint64_t mask = pieces_lock(rank);
	struct piece *p = piece_at(rank, low);
	const bool whole = p && p->low == low && p->high == high;

	if (whole) {
		*out = *p;
		if (p->source)
			p->source->pieces++;
	}
	pieces_unlock(rank, mask);
	return whole;
}

/* Give back the use of piece_of(). */
static void release_use(struct source *s)
{
	const uint64_t mask = pieces_lock(shim.rank);
	const bool last = source_drop(shim.rank, s);

	pieces_unlock(shim.rank, mask);
	if (last)
		source_close(s);
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
	err = flags & MREMAP_FIXED ? maps_forget(owner, (uintptr_t)to, end_of(to, length)) : 0;
	if (!err)
		err = maps_forget(owner, (uintptr_t)addr, end_of(addr, old));
	if (err) {
		if (known && p.source)
			release_use(p.source);
		errno = -err;
		return MAP_FAILED;
	}
	at = (void *)raw_syscall(SYS_mremap, words);
	if (known && at != MAP_FAILED)
		note_piece((uintptr_t)at, end_of(at, length), -1, &p);
	else if (known)
		note_piece(p.low, p.high, -1, &p);
	return at;
}

/* ---- accesses by other ranks ----------------------------------------------------------------- */

static void maps_report(void *addr, int write, int owner, const char *what, const char *path)
{
	start_print(
		"%s of address %p, which is private memory of rank %d: %s%s%s; see dsm-cc(1), \"Private memory\"",
		write ? "write" : "read", addr, owner, what, path ? " " : "", path ? path : "");
}

/* With the lock of the owner's list. */
static int maps_serve(struct piece *p, void *addr, int write, int owner)
{
	char path[PATH_MAX] = "", text[64]; /* a copy, for the kernel */
	const char *why;
	int err;

	if (p->source && !(p->prot & (write ? PROT_WRITE : PROT_READ | PROT_WRITE | PROT_EXEC)))
		return 0; /* it would fault in the maker as well */
	if (has_mapped(p))
		return 1; /* another thread was faster */
	why = unshareable(p);
	if (p->source)
		strcpy(path, p->source->path);
	err = why ? 0 : map_piece(p, owner, path, true);
	if (!why && !err)
		return 1;
	if (err == -ESTALE) {
		why = "a mapping of what is another file here:";
	} else if (!why) {
		snprintf(text, sizeof(text), "a mapping (%s) of", strerrorname_np(-err));
		why = text;
	}
	maps_report(addr, write, owner, why, p->source ? path : NULL);
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
	mask = pieces_lock(owner);
	p = piece_at(owner, (uintptr_t)addr);
	served = p ? maps_serve(p, addr, write, owner) : 0;
	pieces_unlock(owner, mask);
	if (!p)
		maps_report(addr, write, owner, "a library's, a stack, thread-local, or unmapped",
			    NULL);
	return served;
}
